/* SPDX-License-Identifier: BSD-3-Clause */
/* Find the tolerance rule for a bundled program.
 *
 * A malformed line is an error and is not skipped: a typing mistake must not make a test stricter or looser than its
 * author wanted. */
#include "clients/inferctl/tolerances.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool parse_bounds(char *text, struct ctl_tolerance *ret)
{
	char *save = NULL, *word, *end;
	struct ctl_tolerance rule = CTL_TOLERANCE_DEFAULT;
	unsigned n = 0;
	while ((word = strtok_r(n ? NULL : text, " \t\r\n", &save))) {
		double *bound = strcmp(word, "atol") == 0     ? &rule.atol
				: strcmp(word, "rtol") == 0   ? &rule.rtol
				: strcmp(word, "cosine") == 0 ? &rule.cosine
							      : NULL;
		n++;
		if (strcmp(word, "argmax") == 0) {
			rule.argmax = true;
			continue;
		}
		word = bound ? strtok_r(NULL, " \t\r\n", &save) : NULL;
		if (!word)
			return false;
		*bound = strtod(word, &end);
		if (*end || end == word || !(*bound >= 0))
			return false;
	}
	if (rule.atol >= 0 && rule.rtol < 0)
		rule.rtol = 0;
	if (rule.rtol >= 0 && rule.atol < 0)
		rule.atol = 0;
	*ret = rule;
	return n > 0;
}

int ctl_tolerances_find(FILE *file, const char *path, struct ctl_tolerance *ret, unsigned *ret_line)
{
	char *line = NULL;
	size_t size = 0;
	int rc = 0;
	*ret_line = 0;
	while (rc == 0 && getline(&line, &size, file) >= 0) {
		struct ctl_tolerance rule;
		char *comment = strchr(line, '#'), *prefix, *bounds;
		++*ret_line;
		if (comment)
			*comment = 0;
		prefix = line + strspn(line, " \t\r\n");
		if (!*prefix)
			continue;
		bounds = prefix + strcspn(prefix, " \t\r\n");
		if (*bounds)
			*bounds++ = 0;
		if (!parse_bounds(bounds, &rule)) {
			rc = -1;
		} else if (strncmp(path, prefix, strlen(prefix)) == 0) {
			*ret = rule;
			rc = 1;
		}
	}
	free(line);
	return rc;
}

int ctl_tolerances_for(const char *path, struct ctl_tolerance *ret, char *error, size_t error_size)
{
	char *whole = realpath(path, NULL);
	int rc = 0;
	if (!whole) {
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
		return -1;
	}
	for (char *slash = strrchr(whole, '/'); slash && rc == 0;
		slash = memrchr(whole, '/', (size_t)(slash - whole))) {
		char name[PATH_MAX];
		unsigned line;
		FILE *file;
		if (snprintf(name, sizeof(name), "%.*s/tolerances.txt", (int)(slash - whole), whole) >=
			(int)sizeof(name))
			continue;
		file = fopen(name, "re");
		if (!file)
			continue;
		rc = ctl_tolerances_find(file, slash + 1, ret, &line);
		if (rc < 0)
			snprintf(error, error_size,
				"%s:%u: not a rule: a path, then 'atol X', 'rtol X', 'cosine X' or 'argmax'", name,
				line);
		fclose(file);
	}
	free(whole);
	return rc < 0 ? -1 : 0;
}
