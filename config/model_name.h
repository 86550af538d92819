/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of models and versions: what a name from a client or a command line must be before it becomes a part of a
 * path. */
#ifndef CONFIG_MODEL_NAME_H
#define CONFIG_MODEL_NAME_H

#include <stdbool.h>

/* Whether @name can be the name of a model: one path component, not hidden. */
bool inf_model_name_is_valid(const char *name);
/* Whether @name can be the name of a version: a whole number of at most 9 digits without leading zeros. */
bool inf_version_is_valid(const char *name);

#endif
