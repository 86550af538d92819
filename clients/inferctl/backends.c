/* SPDX-License-Identifier: BSD-3-Clause */
/* The backends that inspect and --local use: the same ones as the daemon.
 *
 * Each plug-in takes a process, and most programs need none. So plug-ins are opened for the first program that needs a
 * backend or an operator that is not compiled in. Only a plug-in itself knows which id it serves, so all are opened. */
#include "clients/inferctl/backends.h"

#include "clients/inferctl/ctl.h"
#include "config/config.h"
#include "delegates/delegates.h"
#include "delegates/direct/direct.h"
#include "delegates/known_delegates.h"
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/dim_order.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef INF_CONFIG_FILE
#define INF_CONFIG_FILE "/etc/inferd/inferd.conf"
#endif

static void note_problem(struct ctl_backends *b, const char *id, const char *name, const struct et_diag *diag)
{
	if (b->n_problems == CTL_BACKENDS_MAX)
		return;
	struct ctl_backend_problem *problem = &b->problems[b->n_problems++];
	snprintf(problem->id, sizeof(problem->id), "%s", id);
	snprintf(problem->text, sizeof(problem->text), "%.70s%s%.320s", name, *name ? ": " : "",
		diag->text[0] ? diag->text : "not available");
}

/* Open @delegate with the options of its section, if it has one. */
static bool open_compiled_in(struct ctl_backends *b, const struct inferd_delegate *delegate,
	const struct inf_config *config, struct et_diag *diag)
{
	struct et_option options[INF_CONFIG_OPTIONS_MAX];
	struct et_direct_config direct = { .options = options };
	for (uint32_t i = 0; i < config->n_backend_sections; i++) {
		const struct inf_config_backend *section = &config->backend_sections[i];
		if (strcmp(section->name, delegate->name) != 0 || section->path[0])
			continue;
		for (direct.n_options = 0; direct.n_options < section->n_options; direct.n_options++)
			options[direct.n_options] = (struct et_option){ delegate->name,
				section->options[direct.n_options].key, section->options[direct.n_options].value };
	}
	return et_direct_open(&b->entries[b->registry.n_backends], delegate, &direct, et_platform_allocator(), b->log,
		       diag) == ET_OK;
}

int ctl_backends_open(struct ctl_backends *b, const struct et_log *log, const char *config_path, const char *cache,
	char *text, size_t room)
{
	struct inf_config config;
	struct inf_config_error error = { "" };
	*b = (struct ctl_backends){ .log = log, .config = config_path, .cache = cache };
	size_t n_tables = 0;
	while (n_tables < et_n_kernel_tables && n_tables < ET_ARRAY_LEN(b->tables)) {
		b->tables[n_tables] = et_kernel_tables[n_tables];
		n_tables++;
	}
	b->registry = (struct et_registry){ b->tables, n_tables, b->entries, 0, et_order_run };
	inf_config_init(&config);
	if (config_path && inf_config_load(&config, config_path, &error) < 0) {
		snprintf(text, room, "%s", error.text);
		inf_config_deinit(&config);
		return -1;
	}
	for (size_t i = 0; i < et_n_delegates && b->registry.n_backends < CTL_BACKENDS_MAX; i++) {
		struct et_diag diag = { 0 };
		if (open_compiled_in(b, et_delegates[i], &config, &diag))
			b->registry.n_backends++;
		else
			note_problem(b, et_delegates[i]->id, "", &diag);
	}
	inf_config_deinit(&config);
	return 0;
}

void ctl_backends_close(struct ctl_backends *b)
{
	while (b->registry.n_backends) {
		struct et_backend_entry *entry = &b->entries[--b->registry.n_backends];
		entry->ops->close(entry->backend);
	}
}

const struct et_backend_entry *ctl_backends_find(const struct ctl_backends *b, const char *id)
{
	for (size_t i = 0; i < b->registry.n_backends; i++)
		if (strcmp(b->entries[i].ops->id, id) == 0)
			return &b->entries[i];
	return NULL;
}

bool ctl_backends_has_kernel(const struct ctl_backends *b, const char *name)
{
	for (size_t i = 0; i < b->registry.n_tables; i++)
		if (et_kernel_table_find(b->tables[i], name))
			return true;
	return false;
}

const char *ctl_backends_problem(const struct ctl_backends *b, const char *id, char *text, size_t room)
{
	size_t n;
	for (unsigned i = 0; i < b->n_problems; i++)
		if (strcmp(b->problems[i].id, id) == 0) {
			snprintf(text, room, "%s", b->problems[i].text);
			return text;
		}
	const struct et_known_delegate *known = et_known_delegate_find(id);
	n = (size_t)(known ? snprintf(text, room, "%s: %s; %s", known->target, known->why_not, known->instead)
			   : snprintf(text, room, "no exporter of ExecuTorch 1.5 writes it; configure its plug-in"));
	/* perhaps it is the backend of a plug-in that could not be opened */
	for (unsigned i = 0; i < b->n_problems && n < room; i++)
		if (!b->problems[i].id[0])
			n += (size_t)snprintf(text + n, room - n, "; plug-in %s", b->problems[i].text);
	return text;
}

/* --- plug-ins -------------------------------------------------------------------------------------- */

static bool lacks_something(const struct ctl_backends *b, const struct et_program *program)
{
	for (uint32_t m = 0; m < et_program_n_methods(program); m++) {
		const struct et_method_spec *method = et_program_method_at(program, m);
		for (uint32_t i = 0; i < method->n_delegates; i++)
			if (!ctl_backends_find(b, method->delegates[i].id))
				return true;
		for (uint32_t i = 0; i < method->n_operators; i++)
			if (!ctl_backends_has_kernel(b, method->operators[i]))
				return true;
	}
	return false;
}

static void open_plugin(struct ctl_backends *b, const struct inf_config_backend *section)
{
	struct et_plugin_option options[INF_CONFIG_OPTIONS_MAX], variables[INF_CONFIG_VARIABLES_MAX];
	struct et_diag diag = { 0 };
	struct et_backend_entry *entry = &b->entries[b->registry.n_backends];
	if (!section->path[0]) {
		et_fail(&diag, ET_E_NOT_FOUND, "its section of the configuration has no path");
		note_problem(b, "", section->name, &diag);
		return;
	}
	if (section->is_thread && section->n_variables) {
		et_fail(&diag, ET_E_INVALID_ARGUMENT, "environment.%s needs isolation = process",
			section->variables[0].key);
		note_problem(b, "", section->name, &diag);
		return;
	}
	for (uint32_t i = 0; i < section->n_options; i++)
		options[i] = (struct et_plugin_option){ section->options[i].key, section->options[i].value };
	for (uint32_t i = 0; i < section->n_variables; i++)
		variables[i] = (struct et_plugin_option){ section->variables[i].key, section->variables[i].value };
	char *cache = b->cache ? ctl_format("%s/backend-%s", b->cache, section->name) : NULL;
	struct et_plugin_config config = {
		.name = section->name,
		.path = section->path,
		.host_path = section->host[0] ? section->host : NULL,
		.cache_dir = cache && (mkdir(cache, 0700) == 0 || errno == EEXIST) ? cache : NULL,
		.isolation = section->is_thread ? ET_PLUGIN_IN_THREAD : ET_PLUGIN_IN_PROCESS,
		.run_timeout_ns = section->timeout_ns,
		.max_crashes = section->max_crashes,
		.crash_window_ns = section->crash_window_ns,
		.options = options,
		.n_options = section->n_options,
		.variables = variables,
		.n_variables = section->n_variables,
		.has_build_tools = section->build_tools,
	};
	if (et_plugin_open(entry, &config, et_platform_allocator(), b->log, &diag) != ET_OK) {
		note_problem(b, "", section->name, &diag);
	} else {
		const struct et_kernel_table *table = et_plugin_kernels(entry->backend);
		if (table && b->registry.n_tables < ET_ARRAY_LEN(b->tables))
			b->tables[b->registry.n_tables++] = table;
		b->registry.n_backends++;
	}
	free(cache);
}

int ctl_backends_want(struct ctl_backends *b, const struct et_program *program, char *text, size_t room)
{
	struct inf_config config;
	struct inf_config_error error = { "" };
	if (b->has_plugins || !lacks_something(b, program))
		return 0;
	b->has_plugins = true;
	inf_config_init(&config);
	int rc = inf_config_load(&config, b->config ? b->config : INF_CONFIG_FILE, &error);
	if (rc < 0 && b->config) {
		snprintf(text, room, "%s", error.text);
		inf_config_deinit(&config);
		return -1;
	}
	/* without a daemon on this machine the configuration may be missing */
	for (uint32_t i = 0; rc >= 0 && i < config.n_backend_sections; i++)
		if (b->registry.n_backends < CTL_BACKENDS_MAX)
			open_plugin(b, &config.backend_sections[i]);
	inf_config_deinit(&config);
	return 0;
}
