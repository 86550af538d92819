/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading model.conf with the parser of inferd.conf.
 *
 * A mistake is reported with its line and makes the whole description unusable, as in inferd.conf: a typing mistake
 * that is ignored silently would turn up as wrong answers of the model.
 *
 * Which inputs and outputs the program really has is not known here: daemon/model/ready/describe.c compares. */
#include "config/model_conf.h"

#include "config/config_internal.h"
#include "runtime/base/checked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct reader {
	struct inf_config_parse p; /* first: inih hands it to handle() */
	const char *folder;
	bool is_of_version;
};

struct inf_model_conf *inf_model_conf_new(void)
{
	struct inf_model_conf *conf = calloc(1, sizeof(*conf));
	if (conf)
		conf->n_refs = 1;
	return conf;
}

struct inf_model_conf *inf_model_conf_ref(struct inf_model_conf *conf)
{
	if (conf)
		conf->n_refs++;
	return conf;
}

static void drop_labels(struct inf_model_conf *conf, struct inf_model_conf_io *io)
{
	for (uint32_t i = 0; i < io->n_labels; i++) {
		conf->n_label_bytes -= strlen(io->labels[i]) + 1;
		free(io->labels[i]);
	}
	free(io->labels);
	io->labels = NULL;
	io->n_labels = 0;
}

struct inf_model_conf *inf_model_conf_unref(struct inf_model_conf *conf)
{
	if (!conf || --conf->n_refs)
		return NULL;
	for (uint32_t i = 0; i < conf->n_ios; i++)
		drop_labels(conf, &conf->ios[i]);
	free(conf->ios);
	free(conf);
	return NULL;
}

const struct inf_model_conf_io *inf_model_conf_find(const struct inf_model_conf *conf, bool is_input, uint32_t index)
{
	for (uint32_t i = 0; conf && i < conf->n_ios; i++)
		if (conf->ios[i].is_input == is_input && conf->ios[i].index == index)
			return &conf->ios[i];
	return NULL;
}

/* --- sections ------------------------------------------------------------------------------------- */

static bool is_kind(const struct inf_config_parse *p, const char *kind)
{
	return strlen(kind) == p->n_kind && memcmp(p->section, kind, p->n_kind) == 0;
}

/* The number of the section's input or output. False: it is none. */
static bool section_index(const struct inf_config_parse *p, uint32_t *ret_index)
{
	size_t n = strlen(p->instance);
	if (!n || n > 4 || strspn(p->instance, "0123456789") != n)
		return false;
	*ret_index = (uint32_t)strtoul(p->instance, NULL, 10);
	return true;
}

/* The section's place in the description, made if it is new. NULL: a mistake, or no memory. */
static struct inf_model_conf_io *take_io(struct inf_config_parse *p)
{
	struct inf_model_conf *conf = p->config;
	uint32_t index = 0;
	bool is_input = is_kind(p, "input");
	section_index(p, &index);
	struct inf_model_conf_io *io = (struct inf_model_conf_io *)inf_model_conf_find(conf, is_input, index);
	if (!io && conf->n_ios == INF_MODEL_CONF_MAX_IOS) {
		inf_config_fail(p, -EINVAL, "at most %d inputs and outputs can be described", INF_MODEL_CONF_MAX_IOS);
		return NULL;
	}
	if (!io) {
		struct inf_model_conf_io *bigger = reallocarray(conf->ios, conf->n_ios + 1, sizeof(*bigger));
		if (!bigger) {
			inf_config_fail(p, -ENOMEM, "out of memory");
			return NULL;
		}
		conf->ios = bigger;
		io = &bigger[conf->n_ios++];
		*io = (struct inf_model_conf_io){ .is_input = is_input, .index = index };
	}
	return io;
}

static void check_section(struct inf_config_parse *p)
{
	uint32_t index;
	bool is_io = is_kind(p, "input") || is_kind(p, "output");
	if (is_io && !section_index(p, &index)) {
		inf_config_fail(p, -EINVAL, "[%s] needs the number of an %.*s, from 0 on", p->section, (int)p->n_kind,
			p->section);
	} else if (is_io) {
		struct inf_model_conf_io *io = take_io(p);
		if (io)
			io->line = p->line;
	} else if (strcmp(p->section, "model") != 0) {
		inf_config_fail(p, -EINVAL, "unknown section [%s]; there are [model], [input N] and [output N]",
			p->section);
	}
}

/* --- values --------------------------------------------------------------------------------------- */

static int set_word(struct inf_config_parse *p, const char *key, char to[8], const char *value,
	const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i], value) == 0)
			return inf_config_set_text(p, key, to, 8, value);
	char known[64] = "";
	for (size_t i = 0, at = 0; i < n && at < sizeof(known); i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "", words[i]);
	return inf_config_fail(p, -EINVAL, "%s: '%s' is none of %s", key, value, known);
}

static int set_numbers(struct inf_config_parse *p, const char *key, double *to, uint32_t *ret_n, const char *value)
{
	uint32_t n = 0;
	for (const char *at = value;;) {
		at += strspn(at, ", \t");
		if (!*at)
			break;
		char *end;
		double number = strtod(at, &end);
		/* finite as a float, too: that is what it becomes in a tensor */
		if (end == at || (*end && !strchr(", \t", *end)) || !(number >= -1e30 && number <= 1e30))
			return inf_config_fail(p, -EINVAL, "%s: '%s' is not a list of numbers", key, value);
		if (n == INF_MODEL_CONF_CHANNELS)
			return inf_config_fail(p, -EINVAL, "%s: at most %d numbers, one for each channel", key,
				INF_MODEL_CONF_CHANNELS);
		to[n++] = number;
		at = end;
	}
	if (!n)
		return inf_config_fail(p, -EINVAL, "%s: it needs one number, or one for each channel", key);
	*ret_n = n;
	return 0;
}

/* Valid UTF-8 without control characters: it goes to clients and terminals. */
static bool is_text(const char *text, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)text[i];
		size_t n_more = c < 0x80                ? 0
				: c >= 0xc2 && c < 0xe0 ? 1
				: c >= 0xe0 && c < 0xf0 ? 2
				: c >= 0xf0 && c < 0xf5 ? 3
							: 9;
		if (c < 0x20 || c == 0x7f || n_more > n - i - 1)
			return false;
		for (size_t k = 1; k <= n_more; k++)
			if (((unsigned char)text[i + k] & 0xc0) != 0x80)
				return false;
		unsigned char next = n_more ? (unsigned char)text[i + 1] : 0;
		/* overlong forms, surrogates, beyond the last character */
		if ((c == 0xe0 && next < 0xa0) || (c == 0xed && next >= 0xa0) || (c == 0xf0 && next < 0x90) ||
			(c == 0xf4 && next >= 0x90))
			return false;
		i += 1 + n_more;
	}
	return true;
}

static int add_label(struct inf_config_parse *p, struct inf_model_conf_io *io, const char *text, size_t n)
{
	struct inf_model_conf *conf = p->config;
	if (n > INF_MODEL_CONF_MAX_LABEL || !is_text(text, n))
		return inf_config_fail(p, -EINVAL, "label %u is longer than %d bytes or no UTF-8 text", io->n_labels,
			INF_MODEL_CONF_MAX_LABEL);
	if (io->n_labels == INF_MODEL_CONF_MAX_LABELS || conf->n_label_bytes + n + 1 > INF_MODEL_CONF_MAX_LABEL_BYTES)
		return inf_config_fail(p, -EINVAL, "more than %d labels, or more than %d bytes of labels",
			INF_MODEL_CONF_MAX_LABELS, INF_MODEL_CONF_MAX_LABEL_BYTES);
	if ((io->n_labels & (io->n_labels - 1)) == 0) { /* 0 or a power of two: the array is full */
		char **bigger = reallocarray(io->labels, io->n_labels ? 2 * (size_t)io->n_labels : 1, sizeof(*bigger));
		if (!bigger)
			return inf_config_fail(p, -ENOMEM, "out of memory");
		io->labels = bigger;
	}
	char *label = strndup(text, n);
	if (!label)
		return inf_config_fail(p, -ENOMEM, "out of memory");
	io->labels[io->n_labels++] = label;
	conf->n_label_bytes += n + 1;
	return 0;
}

/* "cat, dog, bird" */
static int set_labels(struct inf_config_parse *p, struct inf_model_conf_io *io, const char *value)
{
	int rc = 0;
	drop_labels(p->config, io);
	for (const char *at = value; rc == 0; at++) {
		at += strspn(at, " \t");
		size_t n = strcspn(at, ","), n_text = n;
		while (n_text && strchr(" \t", at[n_text - 1]))
			n_text--;
		rc = add_label(p, io, at, n_text);
		at += n;
		if (!*at)
			break;
	}
	return rc;
}

/* One label a line. */
static int read_labels(struct inf_config_parse *p, struct inf_model_conf_io *io, const char *folder, const char *name)
{
	char path[INF_CONFIG_PATH_MAX + 600], *text = NULL;
	struct inf_config_error why;
	struct stat st;
	if (!folder || !name[0] || name[0] == '.' || strchr(name, '/'))
		return inf_config_fail(p, -EINVAL, "labels_file: '%s' is not the name of a file beside model.conf",
			name);
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return inf_config_fail(p, -EINVAL, "labels_file: its path is too long");
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) /* a pipe would never end */
		return inf_config_fail(p, -EINVAL, "labels_file: there is no file '%s' beside model.conf", name);
	int rc = inf_config_read(path, INF_MODEL_CONF_MAX_LABEL_BYTES, &text, &why);
	if (rc == -ENOMEM)
		return inf_config_fail(p, rc, "out of memory");
	if (rc < 0)
		return inf_config_fail(p, -EINVAL,
			"labels_file: '%s' can't be read: it is no text, or larger than %d bytes", name,
			INF_MODEL_CONF_MAX_LABEL_BYTES);
	drop_labels(p->config, io);
	for (char *at = text; *at && rc == 0;) {
		size_t n = strcspn(at, "\n");
		rc = add_label(p, io, at, n && at[n - 1] == '\r' ? n - 1 : n);
		at += n + (at[n] == '\n');
	}
	free(text);
	return rc;
}

/* --- keys ----------------------------------------------------------------------------------------- */

static int set_model_key(struct reader *r, const char *name, const char *value)
{
	static const struct inf_config_key keys[] = {
		{ "model", "version", KIND_VERSION, offsetof(struct inf_model_conf, version), 0, 0, 0,
			offsetof(struct inf_model_conf, has_version) },
		{ "model", "warm_up", KIND_COUNT, offsetof(struct inf_model_conf, warm_up), 0, INF_CONFIG_WARM_UP_MAX,
			0, offsetof(struct inf_model_conf, has_warm_up) },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++) {
		if (strcmp(keys[i].name, name) != 0)
			continue;
		if (r->is_of_version && keys[i].kind == KIND_VERSION)
			return inf_config_fail(&r->p, -EINVAL,
				"version: it belongs into the model.conf of the model, not of one version");
		*(bool *)((char *)r->p.config + keys[i].mark) = true;
		return inf_config_set(&r->p, &keys[i], r->p.config, value);
	}
	return inf_config_fail(&r->p, -EINVAL, "unknown key '%s' in [model]; there are version, warm_up", name);
}

static int set_io_key(struct reader *r, struct inf_model_conf_io *io, const char *name, const char *value)
{
	static const char *const layouts[] = { "NCHW", "NHWC", "CHW", "HWC" }, *const colours[] = { "RGB", "BGR",
		"GRAY" };
	struct inf_config_parse *p = &r->p;
	if (strcmp(name, "name") == 0) {
		if (!value[0] || !is_text(value, strlen(value)))
			return inf_config_fail(p, -EINVAL, "name: it is empty or no UTF-8 text");
		return inf_config_set_text(p, name, io->name, sizeof(io->name), value);
	}
	if (io->is_input && strcmp(name, "layout") == 0)
		return set_word(p, name, io->layout, value, layouts, ET_ARRAY_LEN(layouts));
	if (io->is_input && strcmp(name, "colour") == 0)
		return set_word(p, name, io->colour, value, colours, ET_ARRAY_LEN(colours));
	if (io->is_input && strcmp(name, "scale") == 0)
		return set_numbers(p, name, io->scale, &io->n_scale, value);
	if (io->is_input && strcmp(name, "offset") == 0)
		return set_numbers(p, name, io->offset, &io->n_offset, value);
	if (!io->is_input && strcmp(name, "labels") == 0)
		return set_labels(p, io, value);
	if (!io->is_input && strcmp(name, "labels_file") == 0)
		return read_labels(p, io, r->folder, value);
	return inf_config_fail(p, -EINVAL, "unknown key '%s' in [%s]; there are %s", name, p->section,
		io->is_input ? "name, layout, colour, scale, offset" : "name, labels, labels_file");
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct reader *r = user;
	if (r->p.rc < 0)
		return 0;
	if (!*r->p.section) {
		inf_config_fail(&r->p, -EINVAL, "'%s' stands before any section; does it belong to [model]?", name);
		return 0;
	}
	if (is_kind(&r->p, "model"))
		return set_model_key(r, name, value) == 0;
	struct inf_model_conf_io *io = take_io(&r->p);
	return io && set_io_key(r, io, name, value) == 0;
}

/* Give each channel its number: one number is for all of them. */
static bool spread(double *numbers, uint32_t *n, uint32_t n_channels, double otherwise)
{
	if (*n > 1 && *n != n_channels)
		return false;
	for (uint32_t i = *n ? 1 : 0; i < n_channels; i++)
		numbers[i] = *n ? (*n > 1 ? numbers[i] : numbers[0]) : otherwise;
	*n = n_channels;
	return true;
}

/* The keys of an image belong together. */
static int check_image(struct inf_config_parse *p, struct inf_model_conf_io *io)
{
	p->line = io->line;
	if (!io->layout[0] && !io->colour[0] && !io->n_scale && !io->n_offset)
		return 0;
	if (!io->layout[0] || !io->colour[0])
		return inf_config_fail(p, -EINVAL, "[input %u]: an image needs both layout and colour", io->index);
	uint32_t n_channels = strcmp(io->colour, "GRAY") == 0 ? 1 : 3;
	if (!spread(io->scale, &io->n_scale, n_channels, 1) || !spread(io->offset, &io->n_offset, n_channels, 0))
		return inf_config_fail(p, -EINVAL, "[input %u]: scale and offset have one number, or %u for %s",
			io->index, n_channels, io->colour);
	return 0;
}

int inf_model_conf_parse(struct inf_model_conf *conf, const char *text, const char *name, const char *folder,
	bool is_of_version, struct inf_config_error *error)
{
	struct reader r = {
		.p = { .config = conf, .name = name, .text = text, .error = error, .check_section = check_section },
		.folder = folder,
		.is_of_version = is_of_version
	};
	snprintf(conf->path, sizeof(conf->path), "%s", name);
	int rc = inf_config_parse_lines(&r.p, handle);
	for (uint32_t i = 0; i < conf->n_ios && rc == 0; i++)
		rc = check_image(&r.p, &conf->ios[i]);
	return rc;
}

int inf_model_conf_load(struct inf_model_conf *conf, const char *path, bool is_of_version,
	struct inf_config_error *error)
{
	char folder[INF_CONFIG_PATH_MAX + 256], *text = NULL;
	const char *slash = strrchr(path, '/');
	struct stat st;
	if (stat(path, &st) < 0) {
		int rc = errno == ENOTDIR ? -ENOENT : -errno;
		snprintf(error->text, sizeof(error->text), "%.400s can't be read: %s", path, strerror(-rc));
		return rc;
	}
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	int rc = S_ISREG(st.st_mode) ? inf_config_read(path, INF_MODEL_CONF_MAX_BYTES, &text, error) : -EINVAL;
	if (rc == -EINVAL && !text)
		snprintf(error->text, sizeof(error->text), "%.400s: not a text file", path);
	if (rc == 0)
		rc = inf_model_conf_parse(conf, text, path, folder, is_of_version, error);
	free(text);
	return rc;
}
