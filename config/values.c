/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of the configuration's keys: parsing, range checks, and the sentence for a mistake.
 *
 * What must always be true: a value is stored only if it is valid, and a sentence names the key, the value and what
 * would be valid. Which keys exist is in config.c. */
#include "config/config_internal.h"
#include "config/model_name.h"

#include "runtime/base/checked.h"
#include "runtime/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

int inf_config_fail(struct inf_config_parse *p, int rc, const char *format, ...)
{
	va_list args;
	if (p->rc < 0) /* the first mistake wins */
		return p->rc;
	p->rc = rc;
	p->failed_line = p->line;
	int n = snprintf(p->error->text, sizeof(p->error->text), "%.400s:%u: ", p->name, p->line);
	va_start(args, format);
	vsnprintf(p->error->text + n, sizeof(p->error->text) - n, format, args);
	va_end(args);
	return rc;
}

/* Parse a non-negative number, perhaps with a fraction, and multiply it by its suffix's factor. */
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

int inf_config_set_text(struct inf_config_parse *p, const char *key, char *to, size_t room, const char *value)
{
	if (strlen(value) >= room)
		return inf_config_fail(p, -EINVAL, "%s: longer than %zu characters", key, room - 1);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

static int set_backends(struct inf_config_parse *p, const char *value)
{
	struct inf_config *config = p->config;
	config->n_backends = 0;
	for (const char *at = value; *at;) {
		at += strspn(at, ", \t");
		size_t n = strcspn(at, ", \t");
		if (!n)
			break;
		if (config->n_backends == INF_CONFIG_BACKENDS_MAX || n >= INF_CONFIG_NAME_MAX)
			return inf_config_fail(p, -EINVAL, "backends: at most %d names of at most %d characters",
				INF_CONFIG_BACKENDS_MAX, INF_CONFIG_NAME_MAX - 1);
		char *to = config->backends[config->n_backends];
		memcpy(to, at, n);
		to[n] = '\0';
		for (uint32_t i = 0; i < config->n_backends; i++)
			if (strcmp(config->backends[i], to) == 0)
				return inf_config_fail(p, -EINVAL, "backends: '%s' appears twice", to);
		config->n_backends++;
		at += n;
	}
	if (!config->n_backends)
		return inf_config_fail(p, -EINVAL, "backends: name at least one, e.g. 'xnnpack, portable'");
	return 0;
}

static int set_count(struct inf_config_parse *p, const struct inf_config_key *key, uint32_t *to, const char *value)
{
	char *end;
	errno = 0;
	unsigned long long number = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || *end || errno)
		return inf_config_fail(p, -EINVAL, "%s: '%s' is not a whole number", key->name, value);
	if (number < key->min || number > key->max)
		return inf_config_fail(p, -EINVAL, "%s: %s is outside %u ... %u", key->name, value, key->min, key->max);
	*to = (uint32_t)number;
	return 0;
}

/* Store "a, b" as "a b". */
static int set_names(struct inf_config_parse *p, const struct inf_config_key *key, struct inf_config_names *names,
	const char *value)
{
	struct inf_config_names fresh = { "" };
	size_t n_all = 0;
	for (const char *at = value + strspn(value, ", \t"); *at; at += strspn(at, ", \t")) {
		size_t n = strcspn(at, ", \t");
		const char *name = *at == '@' && key->max ? at + 1 : at;
		if (*name == '@')
			return inf_config_fail(p, -EINVAL,
				"%s: '%.*s': this key takes names without '@'; 'groups' names groups", key->name,
				(int)n, at);
		if (name == at + n)
			return inf_config_fail(p, -EINVAL, "%s: '@' needs the name of a group behind it", key->name);
		if (n >= INF_CONFIG_NAME_MAX || n_all + n + 2 > sizeof(fresh.text))
			return inf_config_fail(p, -EINVAL, "%s: names have at most %d characters, all together %d",
				key->name, INF_CONFIG_NAME_MAX - 1, INF_CONFIG_NAMES_MAX - 2);
		if (n_all)
			fresh.text[n_all++] = ' ';
		memcpy(fresh.text + n_all, at, n);
		n_all += n;
		at += n;
	}
	*names = fresh;
	return 0;
}

int inf_config_set(struct inf_config_parse *p, const struct inf_config_key *key, void *object, const char *value)
{
	void *to = (char *)object + key->offset;
	switch (key->kind) {
	case KIND_PATH:
		return inf_config_set_text(p, key->name, to, INF_CONFIG_PATH_MAX, value);
	case KIND_SOCKET:
		if (strlen(value) < key->min)
			return inf_config_fail(p, -EINVAL, "%s: it can't be empty: it is where clients connect",
				key->name);
		return inf_config_set_text(p, key->name, to, sizeof(((struct sockaddr_un *)NULL)->sun_path), value);
	case KIND_NAME:
		return inf_config_set_text(p, key->name, to, INF_CONFIG_NAME_MAX, value);
	case KIND_COUNT:
		return set_count(p, key, to, value);
	case KIND_SIZE:
		if (!inf_config_parse_size(value, to))
			return inf_config_fail(p, -EINVAL, "%s: '%s' is not a size; write e.g. 4096, 64K, 512M or 2G",
				key->name, value);
		return 0;
	case KIND_DURATION:
		if (!inf_config_parse_duration(value, to))
			return inf_config_fail(p, -EINVAL,
				"%s: '%s' is not a time; write e.g. 50us, 100ms, 30s, 5m, 2h or infinity", key->name,
				value);
		return 0;
	case KIND_BOOL:
		if (strcmp(value, "yes") && strcmp(value, "no"))
			return inf_config_fail(p, -EINVAL, "%s: '%s' is neither yes nor no", key->name, value);
		*(bool *)to = strcmp(value, "yes") == 0;
		return 0;
	case KIND_LEVEL:
		if (!inf_config_parse_log_level(value, to))
			return inf_config_fail(p, -EINVAL, "%s: '%s' is none of error, warning, notice, info, debug",
				key->name, value);
		return 0;
	case KIND_BACKENDS:
		return set_backends(p, value);
	case KIND_ISOLATION:
		if (strcmp(value, "process") && strcmp(value, "thread"))
			return inf_config_fail(p, -EINVAL, "%s: '%s' is neither process nor thread", key->name, value);
		*(bool *)to = strcmp(value, "thread") == 0;
		return 0;
	case KIND_OWN: {
		static const char *const names[INF_CONFIG_N_OWN] = { "refused", "apart", "together" };
		for (uint32_t i = 0; i < INF_CONFIG_N_OWN; i++)
			if (strcmp(value, names[i]) == 0) {
				*(uint32_t *)to = i;
				return 0;
			}
		return inf_config_fail(p, -EINVAL, "%s: '%s' is none of refused, apart, together", key->name, value);
	}
	case KIND_NAMES:
		return set_names(p, key, to, value);
	case KIND_VERSION: {
		bool is_latest = strcmp(value, "latest") == 0;
		if (!is_latest && !inf_version_is_valid(value))
			return inf_config_fail(p, -EINVAL, "%s: '%s' is neither latest nor a whole number", key->name,
				value);
		return inf_config_set_text(p, key->name, to, INF_CONFIG_VERSION_MAX, is_latest ? "" : value);
	}
	case KIND_PRIORITY:
		for (uint32_t i = 0; i < INF_CONFIG_N_PRIORITIES; i++)
			if (strcmp(value, inf_config_priorities[i]) == 0) {
				*(uint32_t *)to = i;
				return 0;
			}
		return inf_config_fail(p, -EINVAL, "%s: '%s' is none of realtime, interactive, batch, idle", key->name,
			value);
	}
	return -EINVAL;
}
