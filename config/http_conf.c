/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading inferd-http.conf with the parser of inferd.conf.
 *
 * As there, an unknown key and a value out of range are errors. Limits have a least value, so that a mistake does not
 * make a gateway that refuses everything. */
#include "config/http_conf.h"

#include "config/config_internal.h"
#include "runtime/base/checked.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name, kind, min, max) { "http", #name, kind, offsetof(struct inf_http_config, name), min, max }
#define KEY_NS(name)              { "http", #name, KIND_DURATION, offsetof(struct inf_http_config, name##_ns) }

static const struct inf_config_key keys[] = {
	KEY(socket, KIND_SOCKET, 0, 0),
	KEY(listen, KIND_NAMES, 0, 0),
	KEY(hosts, KIND_NAMES, 0, 0),
	KEY(daemon, KIND_SOCKET, 1, 0),
	KEY(manager, KIND_SOCKET, 1, 0),
	KEY(load, KIND_BOOL, 0, 0),
	KEY(shared_memory, KIND_BOOL, 0, 0),
	KEY(page, KIND_BOOL, 0, 0),
	KEY(log_level, KIND_LEVEL, 0, 0),
	KEY(connections, KIND_COUNT, 1, 4096),
	KEY(memory, KIND_SIZE, 0, 0),
	KEY(body_limit, KIND_SIZE, 0, 0),
	KEY(json_limit, KIND_SIZE, 0, 0),
	KEY_NS(receive_timeout),
	KEY_NS(request_timeout),
	KEY_NS(send_timeout),
	KEY_NS(idle_timeout),
	KEY_NS(sequence_idle),
};

static void check_section(struct inf_config_parse *p)
{
	if (strcmp(p->section, "http") != 0)
		inf_config_fail(p, -EINVAL, "unknown section [%s]; there is only [http]", p->section);
}

static int check_value(struct inf_config_parse *p, const struct inf_config_key *key, const void *object)
{
	const void *value = (const char *)object + key->offset;
	if (key->kind == KIND_SIZE && *(const uint64_t *)value < (64 << 10))
		return inf_config_fail(p, -EINVAL, "%s: less than 64K", key->name);
	if (key->kind == KIND_SIZE && *(const uint64_t *)value > (UINT64_C(1) << 40))
		return inf_config_fail(p, -EINVAL, "%s: more than 1T", key->name);
	if (key->kind == KIND_DURATION &&
		(*(const uint64_t *)value < 1000000 || *(const uint64_t *)value > UINT64_C(86400000000000)))
		return inf_config_fail(p, -EINVAL, "%s: outside 1ms ... 1d", key->name);
	return 0;
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct inf_config_parse *p = user;
	if (p->rc < 0)
		return 0;
	if (!*p->section) {
		inf_config_fail(p, -EINVAL, "'%s' stands before any section; does it belong to [http]?", name);
		return 0;
	}
	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return inf_config_set(p, &keys[i], p->config, value) == 0 &&
			       check_value(p, &keys[i], p->config) == 0;
	char known[400] = "";
	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++) {
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", keys[i].name);
	}
	inf_config_fail(p, -EINVAL, "unknown key '%s' in [http]; there are %s", name, known);
	return 0;
}

int inf_http_config_parse(struct inf_http_config *config, const char *text, const char *name,
	struct inf_config_error *error)
{
	struct inf_config_parse p = {
		.config = config, .name = name, .text = text, .error = error, .check_section = check_section
	};
	return inf_config_parse_lines(&p, handle);
}

int inf_http_config_load(struct inf_http_config *config, const char *path, struct inf_config_error *error)
{
	char *text = NULL;
	int rc = inf_config_read(path, 1 << 20, &text, error);
	if (rc == 0)
		rc = inf_http_config_parse(config, text, path, error);
	free(text);
	return rc;
}

void inf_http_config_init(struct inf_http_config *config)
{
	static const struct inf_http_config defaults = {
		.socket = "/run/inferd/http.sock",
		.daemon = "/run/inferd/inferd.sock",
		.manager = "/run/inferd/inferd-manager.sock",
		.log_level = ET_LOG_INFO,
		.connections = 128,
		.memory = UINT64_C(256) << 20,
		.body_limit = UINT64_C(64) << 20,
		.json_limit = UINT64_C(4) << 20,
		.receive_timeout_ns = UINT64_C(60000000000),
		.request_timeout_ns = UINT64_C(60000000000),
		.send_timeout_ns = UINT64_C(60000000000),
		.idle_timeout_ns = UINT64_C(120000000000),
		.sequence_idle_ns = UINT64_C(60000000000),
	};
	*config = defaults;
}
