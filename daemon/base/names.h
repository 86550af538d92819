/* SPDX-License-Identifier: BSD-3-Clause */
/* Names: users and groups of the configuration, looked up in the system's databases. */
#ifndef DAEMON_BASE_NAMES_H
#define DAEMON_BASE_NAMES_H

#include <stdbool.h>
#include <sys/types.h>

/* The user or group that @name means: its number in digits, or its name. False: there is none of that name. A number
 * is taken as it is, whether or not anybody has it. The databases may be remote, so this may take long: only at start
 * and reload. */
bool inf_find_user(const char *name, uid_t *ret_uid);
bool inf_find_group(const char *name, gid_t *ret_gid);

#endif
