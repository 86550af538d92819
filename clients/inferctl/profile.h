/* SPDX-License-Identifier: BSD-3-Clause */
/* Write profiles: as an ETDump, or as a trace for Perfetto and Chrome. */
#ifndef CLIENTS_INFERCTL_PROFILE_H
#define CLIENTS_INFERCTL_PROFILE_H

#include "clients/inferctl/ctl.h"

/* Convert an ETDump to Trace Event JSON (https://perfetto.dev, "Chrome JSON format"). Instructions are on one track,
 * the operators inside of delegates on another one, because their times are less exact. @name is the model's. The
 * caller releases the result. NULL with the message in @ret_error if it is not an ETDump. */
json_t *ctl_profile_json(const void *etdump, size_t n_bytes, const char *name, char *ret_error, size_t n_error);

/* Write to @path: JSON if it ends in .json, else the ETDump. Returns an exit code; on failure the message is
 * printed. */
int ctl_profile_write(const char *path, const void *etdump, size_t n_bytes, const char *name);

#endif
