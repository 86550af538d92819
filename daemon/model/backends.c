/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's backends: those compiled in, and the plug-ins of its configuration, opened once when it starts.
 *
 * A backend that can't be opened is no reason not to start, because models may have other variants; the log, the
 * status and clients that ask for that backend say why it is missing. The list never changes while the daemon runs, so
 * the index of a backend is constant. delegates/plugin restarts the process of a plug-in; fallback.c finds successors
 * for its models. */
#include "daemon/model/backends.h"

#include "daemon/base/text.h"
#include "daemon/queue/pool.h"
#include "delegates/delegates.h"
#include "delegates/direct/direct.h"
#include "delegates/plugin/proxy/plugin.h"
#include "delegates/plugin/proxy/spawner.h"
#include "runtime/dim_order.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The backend @name is not available: log why, and keep it for the status. */
static void note_missing(struct inf_backends *backends, const char *name, const struct et_diag *diag)
{
	if (backends->n_missing == INF_BACKENDS_MAX)
		return;
	inf_text(backends->missing[backends->n_missing], sizeof(backends->missing[0]), "%s: %s", name,
		diag->text[0] ? diag->text : "not available");
	et_logf(backends->log, ET_LOG_WARNING, "backend %s", backends->missing[backends->n_missing++]);
}

/* The backend's own folder below the cache, written into @room of @n bytes; NULL: there is none. */
static const char *backend_folder(const struct inf_backends *backends, const char *name, char *room, size_t n)
{
	inf_text(room, n, "%s/backend-%s", backends->config->cache, name);
	return backends->config->cache[0] && (mkdir(room, 0700) == 0 || errno == EEXIST) ? room : NULL;
}

static const struct inf_config_backend *find_section(const struct inf_backends *backends, const char *name)
{
	for (uint32_t i = 0; i < backends->config->n_backend_sections; i++)
		if (strcmp(backends->config->backend_sections[i].name, name) == 0)
			return &backends->config->backend_sections[i];
	return NULL;
}

static struct inf_run_limit run_limit_of(const struct inf_config_backend *section)
{
	return section ? (struct inf_run_limit){ section->max_failures, section->crash_window_ns }
		       : (struct inf_run_limit){ 0 };
}

/* Open a backend that is part of inferd at @index, with the options of its section, if it has one. 1; 0: not
 * available. */
static size_t open_compiled_in(struct inf_backends *backends, const struct inferd_delegate *delegate, size_t index)
{
	struct et_option options[INF_CONFIG_OPTIONS_MAX];
	char cache[INF_CONFIG_PATH_MAX + INF_CONFIG_NAME_MAX + 16];
	struct et_diag diag = { "" };
	const struct inf_config_backend *section = find_section(backends, delegate->name);
	if (section && section->path[0])
		section = NULL; /* the section of a plug-in of that name */
	struct et_direct_config config = { .options = options,
		.n_options = section ? section->n_options : 0,
		.cache_dir = section ? backend_folder(backends, delegate->name, cache, sizeof(cache)) : NULL };
	for (uint32_t i = 0; i < config.n_options; i++)
		options[i] = (struct et_option){ delegate->name, section->options[i].key, section->options[i].value };
	backends->run_limits[index] = run_limit_of(section);
	if (et_direct_open(&backends->entries[index], delegate, &config, et_platform_allocator(), backends->log,
		    &diag) == ET_OK)
		return 1;
	note_missing(backends, delegate->name, &diag);
	return 0;
}

static bool is_compiled_in(const char *name)
{
	for (size_t i = 0; i < et_n_delegates; i++)
		if (strcmp(et_delegates[i]->name, name) == 0)
			return true;
	return false;
}

/* Open a plug-in of the configuration at @index, and add its kernel table to the registry's. 1; 0: not available. */
static size_t open_plugin(struct inf_backends *backends, const struct inf_config_backend *section, size_t index,
	size_t *n_tables)
{
	static const enum et_plugin_tenancy tenancies[INF_CONFIG_N_OWN] = {
		[INF_CONFIG_OWN_APART] = ET_PLUGIN_APART,
		[INF_CONFIG_OWN_TOGETHER] = ET_PLUGIN_TOGETHER,
		[INF_CONFIG_OWN_REFUSED] = ET_PLUGIN_REFUSED,
	};
	struct et_plugin_option options[INF_CONFIG_OPTIONS_MAX], variables[INF_CONFIG_VARIABLES_MAX];
	char cache[INF_CONFIG_PATH_MAX + INF_CONFIG_NAME_MAX + 16];
	struct et_diag diag = { "" };
	if (!section->path[0] && is_compiled_in(section->name))
		return 0; /* open_compiled_in uses this section */
	if (!section->path[0]) {
		et_fail(&diag, ET_E_NOT_FOUND, "its section of the configuration has no path");
		note_missing(backends, section->name, &diag);
		return 0;
	}
	if (section->is_thread && section->n_variables) {
		et_fail(&diag, ET_E_INVALID_ARGUMENT, "environment.%s needs isolation = process",
			section->variables[0].key);
		note_missing(backends, section->name, &diag);
		return 0;
	}
	for (uint32_t i = 0; i < section->n_options; i++)
		options[i] = (struct et_plugin_option){ section->options[i].key, section->options[i].value };
	for (uint32_t i = 0; i < section->n_variables; i++)
		variables[i] = (struct et_plugin_option){ section->variables[i].key, section->variables[i].value };
	struct et_plugin_config config = {
		.name = section->name,
		.path = section->path,
		.host_path = section->host[0] ? section->host : NULL,
		.cache_dir = backend_folder(backends, section->name, cache, sizeof(cache)),
		.isolation = section->is_thread ? ET_PLUGIN_IN_THREAD : ET_PLUGIN_IN_PROCESS,
		.run_timeout_ns = section->timeout_ns,
		.load_timeout_ns = section->load_timeout_ns,
		.cancel_timeout_ns = section->cancel_timeout_ns,
		.max_crashes = section->max_crashes,
		.crash_window_ns = section->crash_window_ns,
		.options = options,
		.n_options = section->n_options,
		.variables = variables,
		.n_variables = section->n_variables,
		.has_build_tools = section->build_tools,
		.tenancy = tenancies[section->own_programs],
		.max_tenants = section->own_processes,
	};
	backends->run_limits[index] = run_limit_of(section);
	if (et_plugin_open(&backends->entries[index], &config, et_platform_allocator(), backends->log, &diag) !=
		ET_OK) {
		note_missing(backends, section->name, &diag);
		return 0;
	}
	const struct et_kernel_table *table = et_plugin_kernels(backends->entries[index].backend);
	if (table)
		backends->tables[(*n_tables)++] = table;
	return 1;
}

/* The path of inferd-program-host: the configured one, the installed one, or, in a folder where both were built, the
 * one beside inferd. */
static const char *find_program_host(const struct inf_backends *backends, char *room, size_t n_room)
{
	if (backends->config->program_host[0])
		return backends->config->program_host;
	ssize_t n = access(INF_PROGRAM_HOST, X_OK) == 0 ? -1 : readlink("/proc/self/exe", room, n_room - 32);
	if (n < 0)
		return INF_PROGRAM_HOST;
	room[n] = '\0';
	char *name = strrchr(room, '/');
	memcpy(name ? name + 1 : room, "inferd-program-host", sizeof("inferd-program-host"));
	return room;
}

/* Open the backend for programs that clients bring at @index. Its process is started when the first one comes. 1; 0:
 * not available. */
static size_t open_programs(struct inf_backends *backends, size_t index)
{
	struct et_plugin_option options[INF_CONFIG_OPTIONS_MAX + 1];
	struct et_diag diag = { "" };
	const struct inf_config_backend *section = find_section(backends, "xnnpack");
	char n_workers[16];
	char keys[INF_CONFIG_OPTIONS_MAX][INF_CONFIG_NAME_MAX + 16], host[INF_CONFIG_PATH_MAX];
	uint32_t n = section && !section->path[0] ? section->n_options : 0;
	for (uint32_t i = 0; i < n; i++) {
		inf_text(keys[i], sizeof(keys[i]), "xnnpack.%s", section->options[i].key);
		options[i] = (struct et_plugin_option){ keys[i], section->options[i].value };
	}
	/* the workers, the spare ones, and the threads over all cores */
	uint32_t workers = backends->config->workers ? backends->config->workers
						     : (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	inf_text(n_workers, sizeof(n_workers), "%u",
		workers < 128 ? workers + inf_pool_n_spares_for(workers) + 1 : 512);
	options[n++] = (struct et_plugin_option){ "workers", n_workers };
	struct et_plugin_config config = {
		.name = "programs",
		.host_path = find_program_host(backends, host, sizeof(host)),
		.run_timeout_ns = UINT64_MAX,
		.load_timeout_ns = UINT64_C(60) * 1000000000,
		.cancel_timeout_ns = backends->config->program_stop_ns,
		.options = options,
		.n_options = n,
		.max_tenants = 64,
		.idle_ns = backends->config->program_idle_ns,
	};
	if (et_plugin_open_programs(&backends->entries[index], &config, backends->log, &diag) == ET_OK)
		return 1;
	note_missing(backends, config.name, &diag);
	return 0;
}

bool inf_backends_has_name(const struct inf_config *config, const char *name)
{
	bool is_known = strcmp(name, "portable") == 0 || is_compiled_in(name);
	for (int kind = 0; kind <= ET_QUEUE_NPU; kind++)
		is_known |= strcmp(name, et_queue_kind_name((enum et_queue_kind)kind)) == 0;
	for (uint32_t i = 0; i < config->n_backend_sections; i++)
		is_known |= strcmp(config->backend_sections[i].name, name) == 0;
	return is_known;
}

/* Warn of names in the order of backends that no backend or device kind has: most likely a typing mistake. */
static void warn_of_unknown_backends(const struct inf_backends *backends)
{
	for (uint32_t i = 0; i < backends->config->n_backends; i++) {
		const char *name = backends->config->backends[i];
		if (!inf_backends_has_name(backends->config, name))
			et_logf(backends->log, ET_LOG_WARNING,
				"backends: no backend is called '%s'; a plug-in gets its name from its section "
				"[backend %s]",
				name, name);
	}
}

bool inf_backends_find_device(const struct inf_backends *backends, struct et_queue_id queue,
	struct et_device *ret_device)
{
	for (size_t i = 0; i < backends->registry.n_backends; i++) {
		const struct et_backend_entry *entry = &backends->entries[i];
		for (uint32_t d = 0; d < entry->ops->n_devices(entry->backend); d++) {
			struct et_queue_id id = et_registry_queue(&backends->registry, i, d);
			if (id.kind != queue.kind || id.device != queue.device)
				continue;
			*ret_device = (struct et_device){ .name = "" };
			entry->ops->device(entry->backend, d, ret_device);
			return true;
		}
	}
	return false;
}

/* Whether the workers of @queue call the plug-in with that index: for one of its devices, or on the CPU for its
 * kernels. */
static bool works_for(const struct inf_backends *backends, size_t index, struct et_queue_id queue)
{
	const struct et_backend_entry *entry = &backends->entries[index];
	for (uint32_t d = 0; d < entry->ops->n_devices(entry->backend); d++) {
		struct et_queue_id id = et_registry_queue(&backends->registry, index, d);
		if (id.kind == queue.kind && id.device == queue.device)
			return true;
	}
	return queue.kind == ET_QUEUE_CPU && et_plugin_kernels(entry->backend);
}

uint32_t inf_backends_end_stuck(const struct inf_backends *backends, struct et_queue_id queue, uint64_t before_ns)
{
	uint32_t n = 0;
	for (size_t i = backends->n_compiled_in; i < backends->registry.n_backends; i++)
		if (works_for(backends, i, queue))
			n += et_plugin_end_stuck(backends->entries[i].backend, before_ns);
	return n;
}

/* The index of the plug-in whose operator @kernel is; -1: it is of no plug-in. */
static int find_plugin_of(const struct inf_backends *backends, const struct et_kernel *kernel)
{
	const struct et_backend *owner = kernel ? et_plugin_of_kernel(kernel) : NULL;
	for (size_t i = backends->n_compiled_in; owner && i < backends->registry.n_backends; i++)
		if (backends->entries[i].backend == owner)
			return (int)i;
	return -1;
}

/* Delegates answer E_ARGUMENT, E_MEMORY, E_LIMIT and E_CANCELLED for what is not their fault; E_INTERNAL and E_DEVICE
 * are ET_E_INTERNAL here (delegates/convert.c). */
bool inf_backends_are_at_fault(const struct inf_backends *backends, const struct et_run *run, enum et_status status,
	struct inf_run_limit *ret_limit)
{
	const struct et_kernel *kernel;
	*ret_limit = (struct inf_run_limit){ 0 };
	if (status != ET_E_INTERNAL)
		return false;
	if (!run)
		return true;
	int index = et_run_callee(run, &kernel);
	index = index < 0 ? find_plugin_of(backends, kernel) : index;
	if (index >= 0)
		*ret_limit = backends->run_limits[index];
	return index >= 0;
}

void inf_backends_run_process(const char *name)
{
	if (et_spawner_is_called(name))
		et_spawner_run();
}

int inf_backends_init_processes(void)
{
	return et_spawner_start();
}

int inf_backends_open(struct inf_backends *backends, const struct inf_config *config, const struct et_log *log)
{
	backends->config = config;
	backends->log = log;
	size_t n = 0;
	backends->tables = calloc(et_n_kernel_tables + INF_BACKENDS_MAX, sizeof(struct et_kernel_table *));
	if (!backends->tables)
		return -ENOMEM;
	for (size_t i = 0; i < et_n_delegates && n < INF_BACKENDS_MAX; i++)
		n += open_compiled_in(backends, et_delegates[i], n);
	backends->n_compiled_in = (uint32_t)n;
	size_t n_tables = 0;
	while (n_tables < et_n_kernel_tables) {
		backends->tables[n_tables] = et_kernel_tables[n_tables];
		n_tables++;
	}
	for (uint32_t i = 0; i < config->n_backend_sections && n < INF_BACKENDS_MAX; i++)
		n += open_plugin(backends, &config->backend_sections[i], n, &n_tables);
	if (n < INF_BACKENDS_MAX)
		n += open_programs(backends, n);
	backends->registry = (struct et_registry){ backends->tables, n_tables, backends->entries, n, et_order_run };
	inf_shared_pages_init(&backends->shared_pages, &backends->registry);
	warn_of_unknown_backends(backends);
	return 0;
}

void inf_backends_close(struct inf_backends *backends)
{
	for (size_t i = 0; i < backends->registry.n_backends; i++)
		backends->entries[i].ops->close(backends->entries[i].backend);
	if (backends->shared_pages.registry)
		inf_shared_pages_deinit(&backends->shared_pages);
	free(backends->tables);
}
