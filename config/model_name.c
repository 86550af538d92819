/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of models and versions, judged by their characters alone.
 *
 * A name becomes a part of a path, and a path must stay below the repository. Whether such a model exists is another
 * matter. */
#include "config/model_name.h"

#include <string.h>

bool inf_model_name_is_valid(const char *name)
{
	size_t n = strlen(name);
	return n > 0 && n < 256 && name[0] != '.' && !strchr(name, '/');
}

bool inf_version_is_valid(const char *name)
{
	size_t n = strlen(name);
	return n > 0 && n <= 9 && strspn(name, "0123456789") == n && (name[0] != '0' || n == 1);
}
