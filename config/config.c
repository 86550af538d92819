/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file, line by line.
 *
 * inih splits lines into (key, value); a table here says for every key of every section where its value goes and
 * how it reads. inih reports the first bad line but not why, and does not tell the handler which line it is at: so
 * the lines are handed to it by a reader of our own that counts them, and the first mistake, its line with it, is
 * kept until the parse is over. That reader also takes the sections: inih cuts their names after 49 characters, and says
 * nothing of one without keys.
 *
 * What must always be true: an unknown section, an unknown key, a value that does not parse and a value out
 * of range are errors. A typing mistake that is silently ignored is worse than a daemon that does not start. */
#include "config/config.h"

#include "runtime/base/checked.h"
#include "runtime/base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum kind {
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
};

const char *const inf_config_priorities[] = { "realtime", "interactive", "batch", "idle" };

struct key {
	const char *section, *name;
	enum kind kind;
	size_t offset;
	uint32_t min, max; /* KIND_COUNT; of the letters of a KIND_SOCKET */
	uint32_t bit;      /* what a [user] section marks as given */
	size_t mark;       /* offset of a bool that says it was given, or 0 */
};

#define SERVER(name, kind, min, max) { "server", #name, kind, offsetof(struct inf_config, name), min, max }
#define SERVER_NS(name)              { "server", #name, KIND_DURATION, offsetof(struct inf_config, name##_ns) }
#define LIMIT(name, kind, BIT)                                                                         \
	{ "limits", #name, kind, offsetof(struct inf_config, limits.name), 0, UINT32_MAX },            \
	{                                                                                              \
		"user", #name, kind, offsetof(struct inf_config_user, limits.name), 0, UINT32_MAX, BIT \
	}

static const struct key keys[] = {
	SERVER(socket, KIND_SOCKET, 1, 0),
	SERVER(manager_socket, KIND_SOCKET, 0, 0),
	SERVER(models, KIND_PATH, 0, 0),
	SERVER(cache, KIND_PATH, 0, 0),
	SERVER(cache_limit, KIND_SIZE, 0, 0),
	SERVER(workers, KIND_COUNT, 0, 1024),
	SERVER(log_level, KIND_LEVEL, 0, 0),
	SERVER(backends, KIND_BACKENDS, 0, 0),
	SERVER(memory_budget, KIND_SIZE, 0, 0),
	SERVER_NS(keep_alive),
	SERVER_NS(drain),
	SERVER_NS(stall),
	SERVER_NS(spin),
	SERVER_NS(age),
	LIMIT(connections, KIND_COUNT, INF_LIMIT_BIT_CONNECTIONS),
	LIMIT(methods, KIND_COUNT, INF_LIMIT_BIT_METHODS),
	LIMIT(regions, KIND_COUNT, INF_LIMIT_BIT_REGIONS),
	LIMIT(bindings, KIND_COUNT, INF_LIMIT_BIT_BINDINGS),
	LIMIT(fds, KIND_COUNT, INF_LIMIT_BIT_FDS),
	LIMIT(requests, KIND_COUNT, INF_LIMIT_BIT_REQUESTS),
	LIMIT(opens, KIND_COUNT, INF_LIMIT_BIT_OPENS),
	LIMIT(bytes, KIND_SIZE, INF_LIMIT_BIT_BYTES),
	LIMIT(priority, KIND_PRIORITY, INF_LIMIT_BIT_PRIORITY),
	{ "user", "weight", KIND_COUNT, offsetof(struct inf_config_user, weight), 1, 1000 },
	{ "backend", "path", KIND_PATH, offsetof(struct inf_config_backend, path) },
	{ "backend", "host", KIND_PATH, offsetof(struct inf_config_backend, host) },
	{ "backend", "isolation", KIND_ISOLATION, offsetof(struct inf_config_backend, is_thread) },
	{ "backend", "timeout", KIND_DURATION, offsetof(struct inf_config_backend, timeout_ns) },
	{ "backend", "load_timeout", KIND_DURATION, offsetof(struct inf_config_backend, load_timeout_ns) },
	{ "backend", "cancel_timeout", KIND_DURATION, offsetof(struct inf_config_backend, cancel_timeout_ns) },
	{ "backend", "crash_window", KIND_DURATION, offsetof(struct inf_config_backend, crash_window_ns) },
	{ "backend", "max_crashes", KIND_COUNT, offsetof(struct inf_config_backend, max_crashes), 1, 1000000 },
	{ "backend", "own_programs", KIND_OWN, offsetof(struct inf_config_backend, own_programs) },
	{ "backend", "own_processes", KIND_COUNT, offsetof(struct inf_config_backend, own_processes), 1, 64 },
	{ "model", "pin", KIND_BOOL, offsetof(struct inf_config_model, pin) },
	{ "model", "keep_alive", KIND_DURATION, offsetof(struct inf_config_model, keep_alive_ns), 0, 0, 0,
		offsetof(struct inf_config_model, has_keep_alive) },
	{ "model", "stall", KIND_DURATION, offsetof(struct inf_config_model, stall_ns), 0, 0, 0,
		offsetof(struct inf_config_model, has_stall) },
	{ "model", "backend", KIND_NAME, offsetof(struct inf_config_model, backend) },
};

enum { LINE_MAX_BYTES = 256 }; /* inih's own are shorter */

struct parse {
	struct inf_config *config;
	char section[LINE_MAX_BYTES]; /* the one that the line stands in: "model cat"; "": none */
	size_t n_kind;                /* of "model" */
	const char *instance;         /* in section: "cat", or "" */
	const char *name;             /* of the file */
	const char *text;             /* what is left of it */
	unsigned line, failed_line;
	int rc;
	struct inf_config_error *error;
};

__attribute__((format(printf, 3, 4))) static int fail(struct parse *p, int rc, const char *format, ...)
{
	va_list args;
	if (p->rc < 0) /* the first one wins */
		return p->rc;
	p->rc = rc;
	p->failed_line = p->line;
	int n = snprintf(p->error->text, sizeof(p->error->text), "%.400s:%u: ", p->name, p->line);
	va_start(args, format);
	vsnprintf(p->error->text + n, sizeof(p->error->text) - n, format, args);
	va_end(args);
	return rc;
}

/* --- values --------------------------------------------------------------------------------------- */

/* A non-negative number, perhaps with a fraction, times what its suffix stands for. */
static bool parse_scaled(const char *text, const char *const *suffixes, const uint64_t *factors, size_t n,
	uint64_t *ret)
{
	char *end;
	uint64_t factor = 0;
	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	unsigned long long whole = strtoull(text, &end, 10);
	if (errno)
		return false;
	double fraction = 0, digit = 0.1;
	if (*end == '.')
		for (end++; isdigit((unsigned char)*end); end++, digit /= 10)
			fraction += (*end - '0') * digit;
	for (size_t i = 0; i < n; i++)
		if (strcmp(end, suffixes[i]) == 0)
			factor = factors[i];
	uint64_t product;
	if (!factor || __builtin_mul_overflow((uint64_t)whole, factor, &product))
		return false;
	return !__builtin_add_overflow(product, (uint64_t)(fraction * (double)factor), ret);
}

bool inf_config_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const char *const suffixes[] = { "", "B", "K", "M", "G", "T" };
	static const uint64_t factors[] = { 1, 1, 1 << 10, 1 << 20, 1 << 30, UINT64_C(1) << 40 };
	return parse_scaled(text, suffixes, factors, ET_ARRAY_LEN(factors), ret_bytes);
}

bool inf_config_parse_duration(const char *text, uint64_t *ret_ns)
{
	static const char *const suffixes[] = { "", "s", "ms", "us", "ns", "m", "min", "h", "d" };
	static const uint64_t factors[] = { 1000000000, 1000000000, 1000000, 1000, 1, UINT64_C(60000000000),
		UINT64_C(60000000000), UINT64_C(3600000000000), UINT64_C(86400000000000) };
	if (strcmp(text, "infinity") == 0) {
		*ret_ns = UINT64_MAX;
		return true;
	}
	return parse_scaled(text, suffixes, factors, ET_ARRAY_LEN(factors), ret_ns);
}

bool inf_config_parse_log_level(const char *text, int *ret_level)
{
	static const struct {
		const char *name;
		int level;
	} levels[] = { { "error", ET_LOG_ERROR }, { "warning", ET_LOG_WARNING }, { "notice", ET_LOG_NOTICE },
		{ "info", ET_LOG_INFO }, { "debug", ET_LOG_DEBUG } };
	for (size_t i = 0; i < ET_ARRAY_LEN(levels); i++)
		if (strcmp(text, levels[i].name) == 0) {
			*ret_level = levels[i].level;
			return true;
		}
	return false;
}

static int set_text(struct parse *p, const char *key, char *to, size_t room, const char *value)
{
	if (strlen(value) >= room)
		return fail(p, -EINVAL, "%s: longer than %zu characters", key, room - 1);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

static int set_backends(struct parse *p, const char *value)
{
	struct inf_config *config = p->config;
	config->n_backends = 0;
	for (const char *at = value; *at;) {
		at += strspn(at, ", \t");
		size_t n = strcspn(at, ", \t");
		if (!n)
			break;
		if (config->n_backends == INF_CONFIG_BACKENDS_MAX || n >= INF_CONFIG_NAME_MAX)
			return fail(p, -EINVAL, "backends: at most %d names of at most %d characters",
				INF_CONFIG_BACKENDS_MAX, INF_CONFIG_NAME_MAX - 1);
		char *to = config->backends[config->n_backends];
		memcpy(to, at, n);
		to[n] = '\0';
		for (uint32_t i = 0; i < config->n_backends; i++)
			if (strcmp(config->backends[i], to) == 0)
				return fail(p, -EINVAL, "backends: '%s' appears twice", to);
		config->n_backends++;
		at += n;
	}
	if (!config->n_backends)
		return fail(p, -EINVAL, "backends: name at least one, e.g. 'xnnpack, portable'");
	return 0;
}

static int set_count(struct parse *p, const struct key *key, uint32_t *to, const char *value)
{
	char *end;
	errno = 0;
	unsigned long long number = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end || errno)
		return fail(p, -EINVAL, "%s: '%s' is not a whole number", key->name, value);
	if (number < key->min || number > key->max)
		return fail(p, -EINVAL, "%s: %s is outside %u ... %u", key->name, value, key->min, key->max);
	*to = (uint32_t)number;
	return 0;
}

static int set(struct parse *p, const struct key *key, void *object, const char *value)
{
	void *to = (char *)object + key->offset;
	switch (key->kind) {
	case KIND_PATH:
		return set_text(p, key->name, to, INF_CONFIG_PATH_MAX, value);
	case KIND_SOCKET:
		if (strlen(value) < key->min)
			return fail(p, -EINVAL, "%s: it can't be empty: it is where clients connect", key->name);
		return set_text(p, key->name, to, sizeof(((struct sockaddr_un *)NULL)->sun_path), value);
	case KIND_NAME:
		return set_text(p, key->name, to, INF_CONFIG_NAME_MAX, value);
	case KIND_COUNT:
		return set_count(p, key, to, value);
	case KIND_SIZE:
		if (!inf_config_parse_size(value, to))
			return fail(p, -EINVAL, "%s: '%s' is not a size; write e.g. 4096, 64K, 512M or 2G", key->name,
				value);
		return 0;
	case KIND_DURATION:
		if (!inf_config_parse_duration(value, to))
			return fail(p, -EINVAL,
				"%s: '%s' is not a time; write e.g. 50us, 100ms, 30s, 5m, 2h or infinity", key->name,
				value);
		return 0;
	case KIND_BOOL:
		if (strcmp(value, "yes") && strcmp(value, "no"))
			return fail(p, -EINVAL, "%s: '%s' is neither yes nor no", key->name, value);
		*(bool *)to = strcmp(value, "yes") == 0;
		return 0;
	case KIND_LEVEL:
		if (!inf_config_parse_log_level(value, to))
			return fail(p, -EINVAL, "%s: '%s' is none of error, warning, notice, info, debug", key->name,
				value);
		return 0;
	case KIND_BACKENDS:
		return set_backends(p, value);
	case KIND_ISOLATION:
		if (strcmp(value, "process") && strcmp(value, "thread"))
			return fail(p, -EINVAL, "%s: '%s' is neither process nor thread", key->name, value);
		*(bool *)to = strcmp(value, "thread") == 0;
		return 0;
	case KIND_OWN: {
		static const char *const names[INF_CONFIG_N_OWN] = { "apart", "together", "refused" };
		for (uint32_t i = 0; i < INF_CONFIG_N_OWN; i++)
			if (strcmp(value, names[i]) == 0) {
				*(uint32_t *)to = i;
				return 0;
			}
		return fail(p, -EINVAL, "%s: '%s' is none of apart, together, refused", key->name, value);
	}
	case KIND_PRIORITY:
		for (uint32_t i = 0; i < INF_CONFIG_N_PRIORITIES; i++)
			if (strcmp(value, inf_config_priorities[i]) == 0) {
				*(uint32_t *)to = i;
				return 0;
			}
		return fail(p, -EINVAL, "%s: '%s' is none of realtime, interactive, batch, idle", key->name, value);
	}
	return -EINVAL;
}

/* --- sections ------------------------------------------------------------------------------------- */

static void *grown(void *items, uint32_t n, size_t item_bytes)
{
	char *bigger = reallocarray(items, n + 1, item_bytes);
	if (bigger)
		memset(bigger + n * item_bytes, 0, item_bytes);
	return bigger;
}

static struct inf_config_model *take_model(struct inf_config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_model_sections; i++)
		if (strcmp(config->model_sections[i].name, name) == 0)
			return &config->model_sections[i];
	struct inf_config_model *bigger = grown(config->model_sections, config->n_model_sections, sizeof(*bigger));
	if (!bigger)
		return NULL;
	config->model_sections = bigger;
	memcpy(bigger[config->n_model_sections].name, name, strlen(name) + 1);
	return &bigger[config->n_model_sections++];
}

static struct inf_config_user *take_user(struct inf_config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_user_sections; i++)
		if (strcmp(config->user_sections[i].name, name) == 0)
			return &config->user_sections[i];
	struct inf_config_user *bigger = grown(config->user_sections, config->n_user_sections, sizeof(*bigger));
	if (!bigger)
		return NULL;
	config->user_sections = bigger;
	memcpy(bigger[config->n_user_sections].name, name, strlen(name) + 1);
	bigger[config->n_user_sections].weight = 1;
	return &bigger[config->n_user_sections++];
}

static struct inf_config_backend *take_backend(struct inf_config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_backend_sections; i++)
		if (strcmp(config->backend_sections[i].name, name) == 0)
			return &config->backend_sections[i];
	struct inf_config_backend *bigger = grown(config->backend_sections, config->n_backend_sections,
		sizeof(*bigger));
	if (!bigger)
		return NULL;
	config->backend_sections = bigger;
	memcpy(bigger[config->n_backend_sections].name, name, strlen(name) + 1);
	return &bigger[config->n_backend_sections++];
}

/* What only the plug-in understands. A later line for the same key wins. */
static int set_option(struct parse *p, struct inf_config_backend *backend, const char *key, const char *value)
{
	uint32_t i = 0;
	while (i < backend->n_options && strcmp(backend->options[i].key, key))
		i++;
	if (i == INF_CONFIG_OPTIONS_MAX)
		return fail(p, -EINVAL, "[backend %s]: at most %d options", backend->name, INF_CONFIG_OPTIONS_MAX);
	int rc = set_text(p, "option", backend->options[i].key, sizeof(backend->options[i].key), key);
	if (rc == 0)
		rc = set_text(p, key, backend->options[i].value, sizeof(backend->options[i].value), value);
	if (rc == 0 && i == backend->n_options)
		backend->n_options++;
	return rc;
}

/* "openvino.precision". A later line for the same one wins. False: the key has another form. */
static bool set_model_option(struct parse *p, struct inf_config_model *model, const char *name, const char *value)
{
	struct inf_config_model_options *options = &model->options;
	size_t n_backend = strcspn(name, ".");
	if (!n_backend || !name[n_backend] || !name[n_backend + 1])
		return false;
	struct inf_config_model_option new = { "" };
	if (n_backend >= sizeof(new.backend)) {
		fail(p, -EINVAL, "%s: a backend's name has at most %zu characters", name, sizeof(new.backend) - 1);
		return true;
	}
	memcpy(new.backend, name, n_backend);
	if (set_text(p, "option", new.key, sizeof(new.key), name + n_backend + 1) < 0 ||
		set_text(p, name, new.value, sizeof(new.value), value) < 0)
		return true;
	uint32_t i = 0;
	while (i < options->n &&
		(strcmp(options->items[i].backend, new.backend) || strcmp(options->items[i].key, new.key)))
		i++;
	if (i == INF_CONFIG_MODEL_OPTIONS_MAX) {
		fail(p, -EINVAL, "[model %s]: at most %d options for backends", model->name,
			INF_CONFIG_MODEL_OPTIONS_MAX);
		return true;
	}
	options->items[i] = new;
	if (i == options->n)
		options->n++;
	return true;
}

static bool is_kind(const struct parse *p, const char *kind)
{
	return strlen(kind) == p->n_kind && memcmp(p->section, kind, p->n_kind) == 0;
}

/* Of a kind that there are many of: each has a name. */
static bool is_named(const struct parse *p)
{
	return is_kind(p, "user") || is_kind(p, "model") || is_kind(p, "backend");
}

/* A line that begins with '[', without what was before. One that does not end is left to inih, which refuses it. */
static void take_section(struct parse *p, const char *line)
{
	const char *name = line + 1, *end = strchr(name, ']');
	if (!end)
		return;
	const char *rest = end + 1 + strspn(end + 1, " \t\r\n");
	size_t n = (size_t)(end - name);
	memcpy(p->section, name, n); /* a line fits */
	p->section[n] = '\0';
	p->n_kind = strcspn(p->section, " ");
	p->instance = p->section + p->n_kind + strspn(p->section + p->n_kind, " ");
	if (*rest && *rest != ';')
		fail(p, -EINVAL, "more than a section's name in '%.*s'", (int)strcspn(line, "\r\n"), line);
	else if (is_named(p) && !*p->instance)
		fail(p, -EINVAL, "[%s] needs a name: [%.*s NAME]", p->section, (int)p->n_kind, p->section);
	else if (strlen(p->instance) >= INF_CONFIG_NAME_MAX)
		fail(p, -EINVAL, "[%.*s ...]: a name has at most %d characters", (int)p->n_kind, p->section,
			INF_CONFIG_NAME_MAX - 1);
	else if (!is_named(p) && strcmp(p->section, "server") != 0 && strcmp(p->section, "limits") != 0)
		fail(p, -EINVAL,
			"unknown section [%s]; there are [server], [limits], [user NAME], [model NAME] and "
			"[backend NAME]",
			p->section);
}

/* A typing mistake is mended soonest by who sees the right words. */
static int unknown_key(struct parse *p, const char *name)
{
	char known[256] = "";
	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++) {
		if (!is_kind(p, keys[i].section))
			continue;
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", keys[i].name);
	}
	return fail(p, -EINVAL, "unknown key '%s' in [%s]; there are %s%s", name, p->section, known,
		is_kind(p, "model") ? " and BACKEND.OPTION" : "");
}

/* inih's @section may be cut. */
static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	void *object = p->config;
	bool is_model = is_kind(p, "model"), is_backend = is_kind(p, "backend");
	struct inf_config_user *user_section = NULL;
	if (p->rc < 0)
		return 0;

	if (is_named(p)) {
		object = is_backend ? (void *)take_backend(p->config, p->instance)
			 : is_model ? (void *)take_model(p->config, p->instance)
				    : (void *)(user_section = take_user(p->config, p->instance));
		if (!object) {
			fail(p, -ENOMEM, "out of memory");
			return 0;
		}
	} else if (!*p->section) {
		fail(p, -EINVAL, "'%s' stands before any section; there is [server] for it, perhaps", name);
		return 0;
	}

	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++) {
		if (!is_kind(p, keys[i].section) || strcmp(keys[i].name, name))
			continue;
		if (set(p, &keys[i], object, value) < 0)
			return 0;
		if (user_section)
			user_section->given |= keys[i].bit;
		if (keys[i].mark)
			*(bool *)((char *)object + keys[i].mark) = true;
		return 1;
	}
	if (is_backend)
		return set_option(p, object, name, value) == 0;
	if (is_model && set_model_option(p, object, name, value))
		return p->rc == 0;
	unknown_key(p, name);
	return 0;
}

/* inih knows ';' behind a blank as the beginning of a comment; '#' is one, too. */
static void cut_comment(char *line)
{
	for (char *at = line; (at = strchr(at, '#')); at++)
		if (at > line && (at[-1] == ' ' || at[-1] == '\t')) {
			memcpy(at, "\n", 2);
			return;
		}
}

/* fgets over the text. A line that does not fit would come back in pieces that look like lines. */
static char *next_line(char *to, int room, void *stream)
{
	struct parse *p = stream;
	if (!*p->text)
		return NULL;
	const char *end = strchr(p->text, '\n');
	size_t n = end ? (size_t)(end - p->text) + 1 : strlen(p->text);
	p->line++;
	if (n >= (size_t)room || n >= sizeof(p->section)) {
		fail(p, -EINVAL, "a line of more than %d characters", room - 3);
		p->text += n;
		memcpy(to, "\n", 2);
		return to;
	}
	/* inih joins an indented line to the key before it; here every line stands for itself. */
	static const char mark[] = "\xef\xbb\xbf"; /* that some editors put before the first */
	size_t skip = p->line == 1 && strncmp(p->text, mark, 3) == 0 ? 3 : 0;
	skip += strspn(p->text + skip, " \t");
	memcpy(to, p->text + skip, n - skip);
	to[n - skip] = '\0';
	p->text += n;
	cut_comment(to);
	if (to[0] == '[')
		take_section(p, to);
	return to;
}

int inf_config_parse(struct inf_config *config, const char *text, const char *name, struct inf_config_error *error)
{
	struct parse p = { .config = config, .name = name, .text = text, .error = error };
	int line = ini_parse_stream(next_line, &p, handle, &p);
	if (line == -2) {
		p.line = 0;
		return fail(&p, -ENOMEM, "out of memory");
	}
	/* A line that inih itself could not split, before any that the handler refused. */
	if (line > 0 && (p.rc == 0 || (unsigned)line < p.failed_line)) {
		p.rc = 0;
		p.line = (unsigned)line;
		return fail(&p, -EINVAL, "neither 'key = value' nor '[section]'");
	}
	return p.rc;
}

/* --- files ---------------------------------------------------------------------------------------- */

static int file_fail(struct inf_config_error *error, const char *path, int rc)
{
	snprintf(error->text, sizeof(error->text), "the configuration %.400s can't be read: %s", path, strerror(-rc));
	return rc;
}

static int load_file(struct inf_config *config, const char *path, struct inf_config_error *error)
{
	enum { MAX_BYTES = 1 << 20 };
	FILE *file = fopen(path, "re");
	if (!file)
		return file_fail(error, path, -errno);
	char *text = malloc(MAX_BYTES + 1);
	if (!text) {
		fclose(file);
		return file_fail(error, path, -ENOMEM);
	}
	size_t n = fread(text, 1, MAX_BYTES + 1, file);
	int rc = ferror(file) ? (errno ? -errno : -EIO) : n > MAX_BYTES ? -EFBIG : 0;
	fclose(file);
	if (rc < 0) {
		free(text);
		return file_fail(error, path, rc);
	}
	text[n] = '\0';
	if (memchr(text, '\0', n)) {
		snprintf(error->text, sizeof(error->text), "%.400s: not a text file", path);
		rc = -EINVAL;
	} else {
		rc = inf_config_parse(config, text, path, error);
	}
	free(text);
	return rc;
}

static int is_drop_in(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);
	return n > 5 && entry->d_name[0] != '.' && strcmp(entry->d_name + n - 5, ".conf") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int inf_config_load(struct inf_config *config, const char *path, struct inf_config_error *error)
{
	char folder[INF_CONFIG_PATH_MAX], name[INF_CONFIG_PATH_MAX + 256];
	struct dirent **entries = NULL;
	if ((size_t)snprintf(folder, sizeof(folder), "%s.d", path) >= sizeof(folder))
		return file_fail(error, path, -ENAMETOOLONG);
	int first = load_file(config, path, error);
	if (first < 0 && first != -ENOENT)
		return first;
	int n = scandir(folder, &entries, is_drop_in, by_name), rc = 0;
	if (n < 0 && errno != ENOENT)
		rc = file_fail(error, folder, -errno);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", folder, entries[i]->d_name);
		if (rc == 0)
			rc = load_file(config, name, error);
		free(entries[i]);
	}
	free(entries);
	return rc < 0 ? rc : first;
}

/* --- the struct ----------------------------------------------------------------------------------- */

void inf_config_init(struct inf_config *config)
{
	/* Static and copied whole, so that padding is zero and two configurations can be compared as bytes. */
	static const struct inf_config defaults = {
		.socket = "/run/inferd/inferd.sock",
		.manager_socket = "/run/inferd/inferd-manager.sock",
		.models = "/var/lib/inferd/models",
		.cache = "/var/cache/inferd",
		.cache_limit = UINT64_C(2) << 30,
		.log_level = ET_LOG_INFO,
		.backends = { "npu", "gpu", "xnnpack", "portable" },
		.n_backends = 4,
		.keep_alive_ns = UINT64_C(300) * 1000000000,
		.drain_ns = UINT64_C(20) * 1000000000,
		.stall_ns = UINT64_C(300) * 1000000000,
		.spin_ns = 50000,
		.age_ns = UINT64_C(1) * 1000000000,
		.limits = { .connections = 256,
			.methods = 1024,
			.regions = 4096,
			.bindings = 8192,
			.fds = 4096,
			.requests = 1024,
			.opens = 1024,
			.bytes = UINT64_C(2) << 30,
			.priority = 1 },
	};
	memcpy(config, &defaults, sizeof(*config));
}

void inf_config_deinit(struct inf_config *config)
{
	free(config->model_sections);
	free(config->user_sections);
	free(config->backend_sections);
	memset(config, 0, sizeof(*config));
}

const struct inf_config_model *inf_config_find_model(const struct inf_config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_model_sections; i++)
		if (strcmp(config->model_sections[i].name, name) == 0)
			return &config->model_sections[i];
	return NULL;
}
