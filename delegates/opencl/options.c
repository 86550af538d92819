/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, lists of words, and the environment of drivers. A driver's only way to be told where it may write is its
 * environment, so that is set before it is loaded. In a thread of the daemon (`isolation = thread`) it is the daemon's
 * own. */
#include "delegates/opencl/options.h"

#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool read_bool(const char *value, bool *ret_b)
{
	static const struct {
		const char *word;
		bool b;
	} words[] = { { "yes", true }, { "true", true }, { "on", true }, { "1", true }, { "no", false },
		{ "false", false }, { "off", false }, { "0", false } };
	for (size_t i = 0; i < ET_ARRAY_LEN(words); i++)
		if (strcasecmp(value, words[i].word) == 0) {
			*ret_b = words[i].b;
			return true;
		}
	return false;
}

enum et_status ocl_options_read(struct ocl_options *ret_options, const struct inferd_delegate_host *host,
	struct et_diag *diag)
{
	struct ocl_options options = { .devices = "gpu, accelerator" };
	bool fuses = true;
	for (uint32_t i = 0; i < host->n_options; i++) {
		const char *key = host->options[i]->key, *value = host->options[i]->value;
		if (strcmp(key, "library") == 0)
			options.library = value;
		else if (strcmp(key, "vendors") == 0)
			options.vendors = value;
		else if (strcmp(key, "platforms") == 0)
			options.platforms = value;
		else if (strcmp(key, "devices") == 0)
			options.devices = value;
		else if (strcmp(key, "drivers") == 0)
			options.drivers = value;
		else if (strcmp(key, "dump") != 0 && strcmp(key, "fuse") != 0)
			return et_fail(diag, ET_E_INVALID_ARGUMENT,
				"option '%.60s' is unknown: there are devices, platforms, drivers, vendors, library, fuse, dump",
				key);
		else if (!read_bool(value, key[0] == 'd' ? &options.dumps : &fuses))
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "%s: '%.40s' is neither yes nor no", key, value);
	}
	options.is_plain = !fuses;
	*ret_options = options;
	return ET_OK;
}

/* Set a variable to a list without blanks, which Mesa would take for a part of a name. */
static void set_list(const char *variable, const char *list)
{
	char text[256];
	size_t n = 0;
	for (const char *c = list; *c && n + 1 < sizeof(text); c++)
		if (*c != ' ' && *c != '\t')
			text[n++] = *c;
	text[n] = '\0';
	setenv(variable, text, 0);
}

void ocl_options_set_environment(const struct ocl_options *options, const char *cache_dir)
{
	/* The folders that drivers keep compiled kernels in, or want at least to exist. */
	static const char *const folders[] = { "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "XDG_CACHE_HOME", "HOME",
		"TMPDIR" };
	for (size_t i = 0; i < ET_ARRAY_LEN(folders) && cache_dir; i++)
		setenv(folders[i], cache_dir, 0);
	if (options->vendors)
		setenv("OCL_ICD_VENDORS", options->vendors, 0);
	if (options->drivers)
		set_list("RUSTICL_ENABLE", options->drivers);
	/* PoCL compiles a kernel once more for each number of work-groups unless it is told not to. */
	setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
}

/* The next word of *@at, which moves behind it; empty at the end. */
static size_t next_word(const char **at, const char **ret_word)
{
	const char *word = *at + strspn(*at, ", \t");
	size_t n = strcspn(word, ",");
	*at = word + n;
	while (n && (word[n - 1] == ' ' || word[n - 1] == '\t'))
		n--;
	*ret_word = word;
	return n;
}

bool ocl_list_has(const char *list, const char *word)
{
	const char *item;
	for (size_t n; (n = next_word(&list, &item));)
		if (n == strlen(word) && strncasecmp(item, word, n) == 0)
			return true;
	return false;
}

bool ocl_list_matches(const char *list, const char *name)
{
	const char *item;
	for (size_t n; (n = next_word(&list, &item));)
		for (const char *c = name; *c; c++)
			if (strncasecmp(c, item, n) == 0)
				return true;
	return false;
}
