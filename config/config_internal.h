/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside config/: one parse in progress, and how values.c stores a value for config.c. */
#ifndef CONFIG_CONFIG_INTERNAL_H
#define CONFIG_CONFIG_INTERNAL_H

#include "config/config.h"

#include <stddef.h>

enum inf_config_kind {
	KIND_PATH,
	KIND_SOCKET,
	KIND_NAME,
	KIND_COUNT, /* uint32_t */
	KIND_SIZE,  /* uint64_t */
	KIND_DURATION,
	KIND_BOOL,
	KIND_LEVEL,
	KIND_BACKENDS,
	KIND_ISOLATION,
	KIND_OWN,
	KIND_PRIORITY,
	KIND_NAMES, /* struct inf_config_names */
	KIND_VERSION,
};

struct inf_config_key {
	const char *section, *name;
	enum inf_config_kind kind;
	size_t offset;
	uint32_t min, max; /* bounds of a KIND_COUNT; of a KIND_SOCKET's length; KIND_NAMES: max 1 allows groups */
	uint32_t bit;      /* bit for inf_limits.given */
	size_t mark;       /* offset of a bool to set when the key is given, or 0 */
	bool is_live;      /* of [server]: a reload applies it */
};

enum { LINE_MAX_BYTES = 256 }; /* inih's own limit on a line is lower */

struct inf_config_parse {
	void *config; /* struct inf_config, or what else the keys of the text are stored in */
	void (*check_section)(struct inf_config_parse *p); /* a section begins: refuse one that can't be */
	char section[LINE_MAX_BYTES];                      /* the current section: "model cat"; "": none yet */
	size_t n_kind;                                     /* length of "model" */
	const char *instance;                              /* within section: "cat", or "" */
	const char *name;                                  /* the file's name */
	const char *text;                                  /* the rest of the text */
	unsigned line, failed_line;
	int rc;
	struct inf_config_error *error;
};

/* Write the sentence for a mistake in the current line, unless there is one already. Returns the first mistake's
 * status. */
int inf_config_fail(struct inf_config_parse *p, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Copy @value to @to, which has @room bytes; a mistake if it does not fit. */
int inf_config_set_text(struct inf_config_parse *p, const char *key, char *to, size_t room, const char *value);
typedef int (*inf_config_handle_fn)(void *parse, const char *section, const char *name, const char *value);
/* Parse the text of @p. @handle gets each key; it returns 1, or 0 after inf_config_fail. It uses p->section, since inih
 * may cut its @section. 0, or negative errno with a sentence. */
int inf_config_parse_lines(struct inf_config_parse *p, inf_config_handle_fn handle);
/* Read a text of at most @max_bytes; the caller frees *ret_text. Negative errno with a sentence: -EINVAL (a NUL is in
 * it), -EFBIG, others from open and read. */
int inf_config_read(const char *path, size_t max_bytes, char **ret_text, struct inf_config_error *error);
/* Parse @value as @key needs it and store it in @object. 0, or negative errno with a sentence. */
int inf_config_set(struct inf_config_parse *p, const struct inf_config_key *key, void *object, const char *value);

#endif
