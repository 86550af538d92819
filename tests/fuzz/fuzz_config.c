/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is the text of inferd.conf, read on top of the defaults and then once more on top of itself.
 * What is accepted must be what the daemon relies on: texts that end, names of the allowed form, numbers in range. */
#include "config/config.h"
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_text(const char *text, size_t room)
{
	require(memchr(text, 0, room));
}

static void check_names(const struct inf_config_names *names, bool may_be_groups)
{
	char name[INF_CONFIG_NAME_MAX];
	size_t n = 0;
	check_text(names->text, sizeof(names->text));
	for (const char *at = names->text; inf_config_next_name(&at, name); n += strlen(name) + 1) {
		const char *plain = name[0] == '@' && may_be_groups ? name + 1 : name;
		require(*plain && *plain != '@' && !strpbrk(plain, ", \t"));
	}
	require(n ? n == strlen(names->text) + 1 : !names->text[0]); /* no name is lost */
}

static void check_limits(const struct inf_limits *limits, uint32_t weight)
{
	require(limits->priority < INF_CONFIG_N_PRIORITIES);
	require(weight >= 1 && weight <= 1000);
}

static void check(const struct inf_config *c)
{
	check_names(&c->users, false);
	check_names(&c->groups, false);
	check_names(&c->administrators, true);
	check_limits(&c->limits, 1);
	require(c->n_backends >= 1 && c->n_backends <= INF_CONFIG_BACKENDS_MAX && c->workers <= 1024);
	check_text(c->models, sizeof(c->models));
	for (uint32_t i = 0; i < c->n_user_sections; i++)
		check_limits(&c->user_sections[i].limits, c->user_sections[i].weight);
	for (uint32_t i = 0; i < c->n_group_sections; i++) {
		require(c->group_sections[i].name[0]);
		check_limits(&c->group_sections[i].limits, c->group_sections[i].weight);
	}
	for (uint32_t i = 0; i < c->n_model_sections; i++) {
		const struct inf_config_model *m = &c->model_sections[i];
		require(m->name[0] && inf_config_find_model(c, m->name) == m);
		check_names(&m->users, false);
		check_names(&m->groups, false);
		require(m->options.n <= INF_CONFIG_MODEL_OPTIONS_MAX);
	}
	for (uint32_t i = 0; i < c->n_backend_sections; i++)
		require(c->backend_sections[i].n_options <= INF_CONFIG_OPTIONS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct inf_config_error error = { "" };
	struct inf_config before, config;
	char keys[100] = "", *text = malloc(n_bytes + 1);
	if (!text)
		return 0;
	memcpy(text, bytes, n_bytes);
	text[n_bytes] = '\0';
	inf_config_init(&before);
	inf_config_init(&config);
	int rc = inf_config_parse(&config, text, "f", &error);
	require(rc <= 0 && (rc < 0) == (error.text[0] != '\0'));
	check_text(error.text, sizeof(error.text));
	if (rc == 0) {
		check(&config);
		bool needs_restart = inf_config_needs_restart(&before, &config, keys, sizeof(keys));
		check_text(keys, sizeof(keys));
		require(needs_restart == (keys[0] != '\0'));
		require(inf_config_parse(&config, text, "f", &error) == 0);
		check(&config);
	}
	inf_config_deinit(&config);
	inf_config_deinit(&before);
	free(text);
	return 0;
}
