/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles as files: an ETDump as it is, or a trace that Perfetto and Chrome open. */
#ifndef CLIENTS_INFERCTL_PROFILE_H
#define CLIENTS_INFERCTL_PROFILE_H

#include "clients/inferctl/ctl.h"

/* @etdump as Trace Event JSON (https://perfetto.dev, "Chrome JSON format"); NULL and a sentence in @error if it is no
 * ETDump. The instructions lie on one track, the operators inside of delegates on another, since their times are
 * less exact. @name: what was run. */
json_t *ctl_profile_json(const void *etdump, size_t n_bytes, const char *name, char *ret_error, size_t n_error);

/* To @path: as JSON if it ends in .json, else the ETDump. Returns an exit code. */
int ctl_profile_write(const char *path, const void *etdump, size_t n_bytes, const char *name);

#endif
