/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration: its defaults, and reading the file and its drop-ins line by line.
 *
 * inih splits lines into (key, value). The table `keys` says for every key of every section where its value is stored
 * and how it is parsed (values.c). inih reports the number of the first bad line but not the reason, and does not tell
 * the handler which line it is at. So next_line hands the lines to inih and counts them, and the first mistake is kept,
 * with its line, until the parse ends. next_line also reads the section headers, because inih cuts their names after 49
 * characters and does not report a section without keys.
 *
 * What must always be true: an unknown section, an unknown key, a value that does not parse and a value out of range
 * are errors. A typing mistake that is ignored silently is worse than a daemon that does not start. */
#include "config/config_internal.h"

#include "runtime/base/checked.h"
#include "runtime/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const inf_config_priorities[] = { "realtime", "interactive", "batch", "idle" };

#define SERVER(name, kind, min, max) { "server", #name, kind, offsetof(struct inf_config, name), min, max }
#define SERVER_NS(name)              { "server", #name, KIND_DURATION, offsetof(struct inf_config, name##_ns) }
#define SERVER_LIVE(name, kind, max) { "server", #name, kind, offsetof(struct inf_config, name), 0, max, 0, 0, true }
#define SERVER_NS_LIVE(name) \
	{ "server", #name, KIND_DURATION, offsetof(struct inf_config, name##_ns), 0, 0, 0, 0, true }
#define USER_AND_GROUP(name, kind, field, min, max, BIT)                                    \
	{ "user", name, kind, offsetof(struct inf_config_user, field), min, max, BIT },     \
	{                                                                                   \
		"group", name, kind, offsetof(struct inf_config_user, field), min, max, BIT \
	}
#define LIMIT(name, kind, BIT)                                                                   \
	{ "limits", #name, kind, offsetof(struct inf_config, limits.name), 0, UINT32_MAX, BIT }, \
		USER_AND_GROUP(#name, kind, limits.name, 0, UINT32_MAX, BIT)

static const struct inf_config_key keys[] = {
	SERVER(socket, KIND_SOCKET, 1, 0),
	SERVER(manager_socket, KIND_SOCKET, 0, 0),
	SERVER(models, KIND_PATH, 0, 0),
	SERVER(cache, KIND_PATH, 0, 0),
	SERVER(cache_limit, KIND_SIZE, 0, 0),
	SERVER(program_host, KIND_PATH, 0, 0),
	SERVER_NS(program_stop),
	SERVER_NS(program_idle),
	SERVER(workers, KIND_COUNT, 0, 1024),
	SERVER_LIVE(log_level, KIND_LEVEL, 0),
	SERVER(backends, KIND_BACKENDS, 0, 0),
	SERVER_LIVE(memory_budget, KIND_SIZE, 0),
	SERVER_NS_LIVE(keep_alive),
	SERVER_NS(drain),
	SERVER_NS_LIVE(stall),
	SERVER_NS_LIVE(dead_queue),
	SERVER_NS(spin),
	SERVER_NS(age),
	SERVER_LIVE(users, KIND_NAMES, 0),
	SERVER_LIVE(groups, KIND_NAMES, 0),
	SERVER_LIVE(administrators, KIND_NAMES, 1),
	LIMIT(connections, KIND_COUNT, INF_LIMIT_BIT_CONNECTIONS),
	LIMIT(methods, KIND_COUNT, INF_LIMIT_BIT_METHODS),
	LIMIT(regions, KIND_COUNT, INF_LIMIT_BIT_REGIONS),
	LIMIT(bindings, KIND_COUNT, INF_LIMIT_BIT_BINDINGS),
	LIMIT(fds, KIND_COUNT, INF_LIMIT_BIT_FDS),
	LIMIT(requests, KIND_COUNT, INF_LIMIT_BIT_REQUESTS),
	LIMIT(opens, KIND_COUNT, INF_LIMIT_BIT_OPENS),
	LIMIT(bytes, KIND_SIZE, INF_LIMIT_BIT_BYTES),
	LIMIT(priority, KIND_PRIORITY, INF_LIMIT_BIT_PRIORITY),
	LIMIT(own_programs, KIND_BOOL, INF_LIMIT_BIT_OWN_PROGRAMS),
	USER_AND_GROUP("weight", KIND_COUNT, weight, 1, 1000, INF_LIMIT_BIT_WEIGHT),
	{ "backend", "path", KIND_PATH, offsetof(struct inf_config_backend, path) },
	{ "backend", "host", KIND_PATH, offsetof(struct inf_config_backend, host) },
	{ "backend", "isolation", KIND_ISOLATION, offsetof(struct inf_config_backend, is_thread) },
	{ "backend", "timeout", KIND_DURATION, offsetof(struct inf_config_backend, timeout_ns) },
	{ "backend", "load_timeout", KIND_DURATION, offsetof(struct inf_config_backend, load_timeout_ns) },
	{ "backend", "cancel_timeout", KIND_DURATION, offsetof(struct inf_config_backend, cancel_timeout_ns) },
	{ "backend", "crash_window", KIND_DURATION, offsetof(struct inf_config_backend, crash_window_ns) },
	{ "backend", "max_crashes", KIND_COUNT, offsetof(struct inf_config_backend, max_crashes), 1, 1000000 },
	{ "backend", "max_failures", KIND_COUNT, offsetof(struct inf_config_backend, max_failures), 1, 1000 },
	{ "backend", "own_programs", KIND_OWN, offsetof(struct inf_config_backend, own_programs) },
	{ "backend", "own_processes", KIND_COUNT, offsetof(struct inf_config_backend, own_processes), 1, 64 },
	{ "backend", "build_tools", KIND_BOOL, offsetof(struct inf_config_backend, build_tools) },
	{ "model", "pin", KIND_BOOL, offsetof(struct inf_config_model, pin) },
	{ "model", "keep_alive", KIND_DURATION, offsetof(struct inf_config_model, keep_alive_ns), 0, 0, 0,
		offsetof(struct inf_config_model, has_keep_alive) },
	{ "model", "stall", KIND_DURATION, offsetof(struct inf_config_model, stall_ns), 0, 0, 0,
		offsetof(struct inf_config_model, has_stall) },
	{ "model", "backend", KIND_NAME, offsetof(struct inf_config_model, backend) },
	{ "model", "users", KIND_NAMES, offsetof(struct inf_config_model, users) },
	{ "model", "groups", KIND_NAMES, offsetof(struct inf_config_model, groups) },
	{ "model", "version", KIND_VERSION, offsetof(struct inf_config_model, version), 0, 0, 0,
		offsetof(struct inf_config_model, has_version) },
	{ "model", "warm_up", KIND_COUNT, offsetof(struct inf_config_model, warm_up), 0, INF_CONFIG_WARM_UP_MAX, 0,
		offsetof(struct inf_config_model, has_warm_up) },
};

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

/* The section of that name in @sections, those of users or those of groups. */
static struct inf_config_user *take_user(struct inf_config_user **sections, uint32_t *n, const char *name)
{
	for (uint32_t i = 0; i < *n; i++)
		if (strcmp((*sections)[i].name, name) == 0)
			return &(*sections)[i];
	struct inf_config_user *bigger = grown(*sections, *n, sizeof(*bigger));
	if (!bigger)
		return NULL;
	*sections = bigger;
	memcpy(bigger[*n].name, name, strlen(name) + 1);
	bigger[*n].weight = 1;
	return &bigger[(*n)++];
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

/* Store a pair among the @max @what of a backend's section. A later line with the same key wins. */
static int set_pair(struct inf_config_parse *p, struct inf_config_option *pairs, uint32_t *n, uint32_t max,
	const char *what, const char *key, const char *value)
{
	uint32_t i = 0;
	while (i < *n && strcmp(pairs[i].key, key))
		i++;
	if (i == max)
		return inf_config_fail(p, -EINVAL, "[%s]: at most %u %s", p->section, max, what);
	int rc = inf_config_set_text(p, "option", pairs[i].key, sizeof(pairs[i].key), key);
	if (rc == 0)
		rc = inf_config_set_text(p, key, pairs[i].value, sizeof(pairs[i].value), value);
	if (rc == 0 && i == *n)
		++*n;
	return rc;
}

static bool is_variable(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	return *name && (*name < '0' || *name > '9') && !name[strspn(name, letters)];
}

/* Store an option that only the plug-in understands, or "environment.NAME". */
static int set_option(struct inf_config_parse *p, struct inf_config_backend *backend, const char *key,
	const char *value)
{
	static const char prefix[] = "environment.";
	const char *name = key + sizeof(prefix) - 1;
	if (strncmp(key, prefix, sizeof(prefix) - 1) != 0)
		return set_pair(p, backend->options, &backend->n_options, INF_CONFIG_OPTIONS_MAX, "options", key,
			value);
	if (!is_variable(name))
		return inf_config_fail(p, -EINVAL, "%s: '%s' is no name of a variable", key, name);
	if (strncmp(name, "LD_", 3) == 0)
		return inf_config_fail(p, -EINVAL, "%s: the variable is read before the process knows it", key);
	return set_pair(p, backend->variables, &backend->n_variables, INF_CONFIG_VARIABLES_MAX, "variables", name,
		value);
}

/* Store an option such as "openvino.precision". A later line with the same name wins. False: @name has another form. */
static bool set_model_option(struct inf_config_parse *p, struct inf_config_model *model, const char *name,
	const char *value)
{
	struct inf_config_model_options *options = &model->options;
	size_t n_backend = strcspn(name, ".");
	if (!n_backend || !name[n_backend] || !name[n_backend + 1])
		return false;
	struct inf_config_model_option new = { "" };
	if (n_backend >= sizeof(new.backend)) {
		inf_config_fail(p, -EINVAL, "%s: a backend's name has at most %zu characters", name,
			sizeof(new.backend) - 1);
		return true;
	}
	memcpy(new.backend, name, n_backend);
	if (inf_config_set_text(p, "option", new.key, sizeof(new.key), name + n_backend + 1) < 0 ||
		inf_config_set_text(p, name, new.value, sizeof(new.value), value) < 0)
		return true;
	uint32_t i = 0;
	while (i < options->n &&
		(strcmp(options->items[i].backend, new.backend) || strcmp(options->items[i].key, new.key)))
		i++;
	if (i == INF_CONFIG_MODEL_OPTIONS_MAX) {
		inf_config_fail(p, -EINVAL, "[model %s]: at most %d options for backends", model->name,
			INF_CONFIG_MODEL_OPTIONS_MAX);
		return true;
	}
	options->items[i] = new;
	if (i == options->n)
		options->n++;
	return true;
}

static bool is_kind(const struct inf_config_parse *p, const char *kind)
{
	return strlen(kind) == p->n_kind && memcmp(p->section, kind, p->n_kind) == 0;
}

/* Whether the section is of a kind with several instances, each of which has a name. */
static bool is_named(const struct inf_config_parse *p)
{
	return is_kind(p, "user") || is_kind(p, "group") || is_kind(p, "model") || is_kind(p, "backend");
}

static void check_section(struct inf_config_parse *p)
{
	if (is_named(p) && !*p->instance)
		inf_config_fail(p, -EINVAL, "[%s] needs a name: [%.*s NAME]", p->section, (int)p->n_kind, p->section);
	else if (!is_named(p) && strcmp(p->section, "server") != 0 && strcmp(p->section, "limits") != 0)
		inf_config_fail(p, -EINVAL,
			"unknown section [%s]; there are [server], [limits], [user NAME], [group NAME], [model NAME] "
			"and [backend NAME]",
			p->section);
}

/* Read a section header: a line that begins with '['. One without ']' is left to inih, which refuses it. */
static void take_section(struct inf_config_parse *p, const char *line)
{
	const char *name = line + 1, *end = strchr(name, ']');
	if (!end)
		return;
	const char *rest = end + 1 + strspn(end + 1, " \t\r\n");
	size_t n = (size_t)(end - name);
	memcpy(p->section, name, n); /* fits: next_line refuses longer lines */
	p->section[n] = '\0';
	p->n_kind = strcspn(p->section, " ");
	p->instance = p->section + p->n_kind + strspn(p->section + p->n_kind, " ");
	if (*rest && *rest != ';')
		inf_config_fail(p, -EINVAL, "more than a section's name in '%.*s'", (int)strcspn(line, "\r\n"), line);
	else if (strlen(p->instance) >= INF_CONFIG_NAME_MAX)
		inf_config_fail(p, -EINVAL, "[%.*s ...]: a name has at most %d characters", (int)p->n_kind, p->section,
			INF_CONFIG_NAME_MAX - 1);
	else
		p->check_section(p);
}

/* List the valid keys, so that a typing mistake is easy to correct. */
static int unknown_key(struct inf_config_parse *p, const char *name)
{
	char known[400] = "";
	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++) {
		if (!is_kind(p, keys[i].section))
			continue;
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", keys[i].name);
	}
	return inf_config_fail(p, -EINVAL, "unknown key '%s' in [%s]; there are %s%s", name, p->section, known,
		is_kind(p, "model") ? " and BACKEND.OPTION" : "");
}

/* Do not use inih's @section: it may be cut. */
static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct inf_config_parse *p = user;
	struct inf_config *config = p->config;
	void *object = config;
	bool is_model = is_kind(p, "model"), is_backend = is_kind(p, "backend");
	struct inf_config_user *user_section = NULL;
	if (p->rc < 0)
		return 0;

	if (is_named(p)) {
		if (is_kind(p, "user"))
			user_section = take_user(&config->user_sections, &config->n_user_sections, p->instance);
		else if (is_kind(p, "group"))
			user_section = take_user(&config->group_sections, &config->n_group_sections, p->instance);
		object = is_backend ? (void *)take_backend(config, p->instance)
			 : is_model ? (void *)take_model(config, p->instance)
				    : (void *)user_section;
		if (!object) {
			inf_config_fail(p, -ENOMEM, "out of memory");
			return 0;
		}
	} else if (!*p->section) {
		inf_config_fail(p, -EINVAL, "'%s' stands before any section; does it belong to [server]?", name);
		return 0;
	}

	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++) {
		if (!is_kind(p, keys[i].section) || strcmp(keys[i].name, name))
			continue;
		if (inf_config_set(p, &keys[i], object, value) < 0)
			return 0;
		struct inf_limits *limits = user_section ? &user_section->limits : &config->limits;
		limits->given |= keys[i].bit;
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

/* inih treats ';' behind a blank as the beginning of a comment; we treat '#' in the same way. */
static void cut_comment(char *line)
{
	for (char *at = line; (at = strchr(at, '#')); at++)
		if (at > line && (at[-1] == ' ' || at[-1] == '\t')) {
			memcpy(at, "\n", 2);
			return;
		}
}

/* fgets for the text in memory. A line that does not fit is an error; in pieces it would look like several lines. */
static char *next_line(char *to, int room, void *stream)
{
	struct inf_config_parse *p = stream;
	if (!*p->text)
		return NULL;
	const char *end = strchr(p->text, '\n');
	size_t n = end ? (size_t)(end - p->text) + 1 : strlen(p->text);
	p->line++;
	if (n >= (size_t)room || n >= sizeof(p->section)) {
		inf_config_fail(p, -EINVAL, "a line of more than %d characters", room - 3);
		p->text += n;
		memcpy(to, "\n", 2);
		return to;
	}
	/* inih joins an indented line to the key before it. Here every line stands for itself, so skip the
	 * indentation. */
	static const char mark[] = "\xef\xbb\xbf"; /* a byte order mark, which some editors put at the start */
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

int inf_config_parse_lines(struct inf_config_parse *p, inf_config_handle_fn handle_line)
{
	int line = ini_parse_stream(next_line, p, handle_line, p);
	if (line == -2) {
		p->line = 0;
		return inf_config_fail(p, -ENOMEM, "out of memory");
	}
	/* a line that inih itself could not split, before any line that the handler refused */
	if (line > 0 && (p->rc == 0 || (unsigned)line < p->failed_line)) {
		p->rc = 0;
		p->line = (unsigned)line;
		return inf_config_fail(p, -EINVAL, "neither 'key = value' nor '[section]'");
	}
	return p->rc;
}

int inf_config_parse(struct inf_config *config, const char *text, const char *name, struct inf_config_error *error)
{
	struct inf_config_parse p = {
		.config = config, .name = name, .text = text, .error = error, .check_section = check_section
	};
	return inf_config_parse_lines(&p, handle);
}

/* --- files ---------------------------------------------------------------------------------------- */

static int file_fail(struct inf_config_error *error, const char *path, int rc)
{
	snprintf(error->text, sizeof(error->text), "the configuration %.400s can't be read: %s", path, strerror(-rc));
	return rc;
}

int inf_config_read(const char *path, size_t max_bytes, char **ret_text, struct inf_config_error *error)
{
	FILE *file = fopen(path, "re");
	if (!file)
		return file_fail(error, path, -errno);
	char *text = malloc(max_bytes + 1);
	if (!text) {
		fclose(file);
		return file_fail(error, path, -ENOMEM);
	}
	size_t n = fread(text, 1, max_bytes + 1, file);
	int rc = ferror(file) ? (errno ? -errno : -EIO) : n > max_bytes ? -EFBIG : 0;
	fclose(file);
	if (rc < 0) {
		free(text);
		return file_fail(error, path, rc);
	}
	text[n] = '\0';
	if (memchr(text, '\0', n)) {
		free(text);
		snprintf(error->text, sizeof(error->text), "%.400s: not a text file", path);
		return -EINVAL;
	}
	*ret_text = text;
	return 0;
}

static int load_file(struct inf_config *config, const char *path, struct inf_config_error *error)
{
	char *text = NULL;
	int rc = inf_config_read(path, 1 << 20, &text, error);
	if (rc == 0)
		rc = inf_config_parse(config, text, path, error);
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

/* --- defaults, clean-up, look-up ------------------------------------------------------------------ */

void inf_config_init(struct inf_config *config)
{
	/* static, and copied as a whole: padding is zero, so two configurations can be compared as bytes */
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
		.dead_queue_ns = UINT64_C(600) * 1000000000,
		.spin_ns = 50000,
		.program_stop_ns = UINT64_C(10) * 1000000,
		.program_idle_ns = UINT64_C(10) * 1000000000,
		.age_ns = UINT64_C(1) * 1000000000,
		.limits = { .connections = 256,
			.methods = 1024,
			.regions = 4096,
			.bindings = 8192,
			.fds = 4096,
			.requests = 1024,
			.opens = 1024,
			.bytes = UINT64_C(2) << 30,
			.priority = 1,
			.own_programs = true },
	};
	memcpy(config, &defaults, sizeof(*config));
}

void inf_config_deinit(struct inf_config *config)
{
	free(config->model_sections);
	free(config->user_sections);
	free(config->group_sections);
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

bool inf_config_next_name(const char **at, char to[static INF_CONFIG_NAME_MAX])
{
	*at += strspn(*at, " ");
	size_t n = strcspn(*at, " ");
	if (!n || n >= INF_CONFIG_NAME_MAX) /* values.c stores no longer name */
		return false;
	memcpy(to, *at, n);
	to[n] = '\0';
	*at += n;
	return true;
}

/* --- what a reload does not apply ------------------------------------------------------------------ */

static size_t n_bytes_of(enum inf_config_kind kind)
{
	switch (kind) {
	case KIND_SIZE:
	case KIND_DURATION:
		return sizeof(uint64_t);
	case KIND_BOOL:
	case KIND_ISOLATION:
		return sizeof(bool);
	default:
		return sizeof(uint32_t);
	}
}

static bool is_equal(const struct inf_config_key *key, const struct inf_config *a, const struct inf_config *b)
{
	const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;
	if (key->kind == KIND_PATH || key->kind == KIND_SOCKET || key->kind == KIND_NAME)
		return strcmp(x, y) == 0;
	if (key->kind != KIND_BACKENDS)
		return memcmp(x, y, n_bytes_of(key->kind)) == 0;
	for (uint32_t i = 0; i < a->n_backends && i < b->n_backends; i++)
		if (strcmp(a->backends[i], b->backends[i]) != 0)
			return false;
	return a->n_backends == b->n_backends;
}

static const struct inf_config_backend *find_backend(const struct inf_config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_backend_sections; i++)
		if (strcmp(config->backend_sections[i].name, name) == 0)
			return &config->backend_sections[i];
	return NULL;
}

/* Append a key of [server], or a backend's section, to the @n characters in @to. */
static size_t append(char *to, size_t room, size_t n, const char *name, bool is_section)
{
	if (n < room)
		n += (size_t)snprintf(to + n, room - n, "%s%s%s%s", n ? ", " : "", is_section ? "[backend " : "", name,
			is_section ? "]" : "");
	return n;
}

bool inf_config_needs_restart(const struct inf_config *now, const struct inf_config *fresh, char *to, size_t room)
{
	size_t n = 0;
	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].section, "server") == 0 && !keys[i].is_live && !is_equal(&keys[i], now, fresh))
			n = append(to, room, n, keys[i].name, false);
	for (uint32_t i = 0; i < fresh->n_backend_sections; i++) {
		const struct inf_config_backend *section = &fresh->backend_sections[i],
						*before = find_backend(now, section->name);
		if (!before || memcmp(before, section, sizeof(*section)))
			n = append(to, room, n, section->name, true);
	}
	for (uint32_t i = 0; i < now->n_backend_sections; i++)
		if (!find_backend(fresh, now->backend_sections[i].name))
			n = append(to, room, n, now->backend_sections[i].name, true);
	return n;
}
