/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of users and groups.
 *
 * The number -1 is nobody and no group: chown(2) and setresuid(2) use it for "as it was". */
#include "daemon/base/names.h"

#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Whether @name is a number; then the number, or UINT32_MAX if that is none of a user or group. */
static bool parse_number(const char *name, uint32_t *ret)
{
	if (name[strspn(name, "0123456789")])
		return false;
	unsigned long long number = strtoull(name, NULL, 10);
	*ret = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
	return true;
}

bool inf_find_user(const char *name, uid_t *ret_uid)
{
	uint32_t number;
	if (!parse_number(name, &number)) {
		const struct passwd *user = getpwnam(name);
		number = user ? user->pw_uid : UINT32_MAX;
	}
	*ret_uid = number;
	return number != UINT32_MAX;
}

bool inf_find_group(const char *name, gid_t *ret_gid)
{
	uint32_t number;
	if (!parse_number(name, &number)) {
		const struct group *group = getgrnam(name);
		number = group ? group->gr_gid : UINT32_MAX;
	}
	*ret_gid = number;
	return number != UINT32_MAX;
}
