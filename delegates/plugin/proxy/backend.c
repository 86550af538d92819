/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend around a plug-in: open and close it, and start a host whenever a call needs one.
 *
 * The call that needs a host starts it, one start at a time, if the restart policy allows it (restart.c). The
 * watcher ends it. What the first host said of the plug-in (facts) must be true of every later one. */
#include "delegates/plugin/proxy/cgroup.h"
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/convert.h"
#include "delegates/plugin/host/sandbox.h"
#include "runtime/base/checked.h"
#include "runtime/platform/cgroup.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* --- starting --------------------------------------------------------------------------------------- */

static size_t n_text_bytes(const struct et_plugin_option *options, uint32_t n)
{
	size_t n_bytes = 0;
	for (uint32_t i = 0; i < n; i++)
		n_bytes += strlen(options[i].key) + strlen(options[i].value) + 2;
	return n_bytes;
}

static char *put_text(char *at, const struct et_plugin_option *options, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		size_t n_key = strlen(options[i].key) + 1, n_value = strlen(options[i].value) + 1;
		memcpy(at, options[i].key, n_key);
		memcpy(at + n_key, options[i].value, n_value);
		at += n_key + n_value;
	}
	return at;
}

struct et_plugin_start *et_plugin_make_start(const struct et_backend *b, uint32_t flags, uint64_t memory_limit)
{
	const struct et_plugin_config *config = &b->config;
	const char *cache_dir = config->cache_dir ? config->cache_dir : b->private_cache;
	size_t n_options = n_text_bytes(config->options, config->n_options) +
			   n_text_bytes(config->variables, config->n_variables),
	       n_bytes = sizeof(struct et_plugin_start) + n_options;
	struct et_plugin_start *start = n_bytes > ET_PLUGIN_MAX_PACKET ? NULL : calloc(1, n_bytes);
	if (!start)
		return NULL;
	start->header = (struct et_plugin_header){ ET_PLUGIN_START, (uint32_t)n_bytes, 0 };
	start->wire = ET_PLUGIN_WIRE;
	start->n_options = config->n_options;
	start->n_variables = config->n_variables;
	start->n_option_bytes = (uint32_t)n_options;
	start->has_cache = cache_dir[0] != '\0';
	start->flags = flags;
	start->memory_limit = memory_limit;
	snprintf(start->path, sizeof start->path, "%s", config->path);
	snprintf(start->cache_dir, sizeof start->cache_dir, "%s", cache_dir);
	put_text(put_text((char *)(start + 1), config->options, config->n_options), config->variables,
		config->n_variables);
	return start;
}

static enum et_status cannot_start(const char *path, int rc, struct et_diag *diag)
{
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -ENOEXEC)
		return et_fail(diag, ET_E_NOT_FOUND,
			"the host process can't be started: %.160s: %s; install inferd-delegate-host there, or "
			"set host to its path in the backend's section",
			path, strerror(-rc));
	return et_fail(diag, ET_E_NOT_FOUND, "can't start %.200s: %s", path, strerror(-rc));
}

/* The new host waits for START, so it has only one thread. */
static void enter_cgroup(struct et_backend *b, pid_t pid)
{
	const char *folder = b->parent ? b->parent->cgroup : NULL;
	int rc = folder ? et_plugin_cgroup_enter(folder, b->tenant - 1, pid,
				  atomic_load_explicit(&b->user_memory, memory_order_relaxed))
			: 0;
	if (rc < 0)
		et_logf(b->log, ET_LOG_WARNING,
			"%s: its process gets no cgroup (%s); its memory is limited by RLIMIT_DATA alone", b->ops.name,
			strerror(-rc));
}

/* Called with `starting` held. */
static enum et_status start_host(struct et_backend *b, struct et_plugin_started *started, struct et_diag *diag)
{
	struct et_plugin_process process;
	int rc = et_plugin_make_private_cache(b);
	if (rc < 0)
		return et_fail(diag, ET_E_NOT_FOUND, "a private cache folder can't be made: %s", strerror(-rc));
	struct et_plugin_start *start = et_plugin_make_start(b, 0,
		atomic_load_explicit(&b->memory_limit, memory_order_relaxed));
	if (!start)
		return et_fail(diag, ET_E_INVALID_ARGUMENT,
			"the options of the backend are too long, or there is no memory");
	enum et_status status = et_plugin_tenant_starts(b, diag);
	if (status) {
		free(start);
		return status;
	}
	rc = et_plugin_process_start(&process, &b->config);
	if (rc < 0) {
		et_plugin_tenant_ended(b);
		free(start);
		return cannot_start(b->config.host_path, rc, diag);
	}
	enter_cgroup(b, process.pid);
	pthread_mutex_lock(&b->lock);
	b->process = process;
	b->n_starts++;
	uint64_t generation = ++b->generation;
	pthread_mutex_unlock(&b->lock);
	et_plugin_wake_watcher(b);
	status = et_plugin_ask(b, generation, start, -1, started, sizeof *started, NULL, diag);
	free(start);
	if (status)
		return status;
	started->id[sizeof started->id - 1] = started->name[sizeof started->name - 1] = '\0';
	started->version[sizeof started->version - 1] = started->text[sizeof started->text - 1] = '\0';
	if (started->n_devices > ET_PLUGIN_MAX_DEVICES || started->n_kernels > ET_PLUGIN_MAX_KERNELS)
		return et_fail(diag, ET_E_INTERNAL, "the host process sent a malformed answer");
	if (started->result)
		return et_fail(diag, ET_E_NOT_FOUND, "%.255s",
			started->text[0] ? started->text : "the plug-in does not say why it can't be opened");
	pthread_mutex_lock(&b->lock);
	if (b->process.is_running && !b->is_ending && b->generation == generation && !b->is_gone)
		b->phase = ET_PLUGIN_UP;
	pthread_mutex_unlock(&b->lock);
	return ET_OK;
}

void et_plugin_limit_host(struct et_backend *b, uint64_t n_bytes)
{
	atomic_store_explicit(&b->memory_limit, n_bytes, memory_order_relaxed);
	pthread_mutex_lock(&b->lock);
	if (n_bytes && b->phase == ET_PLUGIN_UP && b->process.is_running && !b->is_ending)
		et_plugin_process_limit_memory(&b->process, n_bytes);
	pthread_mutex_unlock(&b->lock);
}

static enum et_status start_again(struct et_backend *b, struct et_diag *diag)
{
	struct et_plugin_started started;
	enum et_status status = start_host(b, &started, diag);
	if (!status && (started.n_devices != b->facts.n_devices || started.n_kernels != b->facts.n_kernels ||
			       strcmp(started.id, b->facts.id) != 0))
		status = et_fail(diag, ET_E_BACKEND_CRASHED,
			"the plug-in has other devices or kernels after its process was started again; restart inferd");
	if (!status)
		return ET_OK;
	pthread_mutex_lock(&b->lock);
	if (b->process.is_running && !b->is_ending)
		b->kill_reason = "could not be started again";
	pthread_mutex_unlock(&b->lock);
	et_plugin_wake_watcher(b);
	return status == ET_E_OUT_OF_RESOURCES ? status : ET_E_BACKEND_CRASHED;
}

enum et_status et_plugin_ensure_host(struct et_backend *b, uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&b->lock);
	*ret_generation = b->generation;
	bool is_up = b->phase == ET_PLUGIN_UP;
	pthread_mutex_unlock(&b->lock);
	if (is_up)
		return ET_OK;
	pthread_mutex_lock(&b->starting);
	pthread_mutex_lock(&b->lock);
	/* wait for the end of a host that is being ended, or failed to open */
	while (b->phase == ET_PLUGIN_DOWN && b->process.is_running)
		pthread_cond_wait(&b->changed, &b->lock);
	is_up = b->phase == ET_PLUGIN_UP;
	uint64_t wait_ns = et_plugin_restart_wait_ns(&b->restart, et_platform_now_ns(NULL));
	if (!is_up && b->restart.has_failed)
		status = et_fail(diag, ET_E_BACKEND_CRASHED, "backend '%.60s' has failed %u times: %.200s", b->ops.name,
			b->restart.n_crashes, b->reason);
	else if (!is_up && wait_ns)
		status = et_fail(diag, ET_E_BACKEND_CRASHED, "%.220s; it is started again in %u ms", b->reason,
			(unsigned)(wait_ns / 1000000 + 1));
	pthread_mutex_unlock(&b->lock);
	if (!status && !is_up)
		status = start_again(b, diag);
	pthread_mutex_lock(&b->lock);
	*ret_generation = b->generation;
	pthread_mutex_unlock(&b->lock);
	pthread_mutex_unlock(&b->starting);
	return status;
}

enum et_status et_plugin_health(struct et_backend *b, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&b->lock);
	if (b->restart.has_failed)
		status = et_fail(diag, ET_E_BACKEND_CRASHED, "failed %u times: %.200s", b->restart.n_crashes,
			b->reason);
	pthread_mutex_unlock(&b->lock);
	return status;
}

enum et_status et_plugin_restart(struct et_backend *b, struct et_diag *diag)
{
	if (b->config.isolation == ET_PLUGIN_IN_THREAD)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"the plug-in runs on a thread of inferd (isolation = thread); restart inferd");
	if (!b->parent)
		et_plugin_tenants_restart(b, diag);
	pthread_mutex_lock(&b->lock);
	et_plugin_restart_init(&b->restart, b->config.max_crashes, b->config.crash_window_ns, b->parent != NULL);
	b->is_restarting = b->process.is_running;
	if (b->process.is_running && !b->is_ending) {
		b->kill_reason = "was restarted on request";
		et_plugin_wake_watcher(b);
	}
	pthread_mutex_unlock(&b->lock);
	return ET_OK;
}

void et_plugin_await_restart(struct et_backend *b)
{
	if (!b->parent)
		et_plugin_tenants_await_restart(b);
	pthread_mutex_lock(&b->lock);
	while (b->is_restarting)
		pthread_cond_wait(&b->changed, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

uint32_t et_plugin_end_stuck(struct et_backend *b, uint64_t before_ns)
{
	uint32_t n = b->parent ? 0 : et_plugin_tenants_end_stuck(b, before_ns);
	bool is_stuck = false;
	if (b->config.isolation == ET_PLUGIN_IN_THREAD)
		return n;
	pthread_mutex_lock(&b->lock);
	for (struct et_list_node *node = b->calls.next; node != &b->calls; node = node->next)
		is_stuck |= ET_CONTAINER_OF(node, struct et_plugin_call, node)->sent_ns < before_ns;
	if (is_stuck && b->process.is_running && !b->is_ending) {
		b->kill_reason = "held up every worker of its queue and was ended";
		et_plugin_wake_watcher(b);
		n++;
	}
	pthread_mutex_unlock(&b->lock);
	return n;
}

/* --- for inferd-delegate-check ---------------------------------------------------------------------- */

static enum et_status ask_device(struct et_backend *b, uint32_t type, uint32_t device, struct et_plugin_answer *answer,
	struct et_diag *diag)
{
	struct et_plugin_handle handle = { .header = { type, sizeof handle, 0 }, .instance = device };
	uint64_t generation;
	enum et_status status = et_plugin_ensure_host(b, &generation, diag);
	if (!status)
		status = et_plugin_ask(b, generation, &handle, -1, answer, sizeof *answer, NULL, diag);
	if (status)
		return status;
	answer->text[sizeof answer->text - 1] = '\0';
	return et_plugin_status(answer->result, answer->text, diag);
}

enum et_status et_plugin_stats(struct et_backend *b, uint32_t device, struct et_plugin_stats *ret_stats,
	struct et_diag *diag)
{
	struct et_plugin_answer answer;
	enum et_status status = ask_device(b, ET_PLUGIN_STATS, device, &answer, diag);
	if (!status)
		*ret_stats = (struct et_plugin_stats){ answer.stats[0], answer.stats[1], answer.stats[2] };
	return status;
}

enum et_status et_plugin_try_buffers(struct et_backend *b, uint32_t device, struct et_diag *diag)
{
	struct et_plugin_answer answer;
	return ask_device(b, ET_PLUGIN_TRY_BUFFERS, device, &answer, diag);
}

/* --- open and close --------------------------------------------------------------------------------- */

static void backend_free(struct et_backend *b)
{
	if (!b)
		return;
	if (b->wake >= 0)
		close(b->wake);
	et_plugin_remove_private_cache(b);
	free(b->backlog);
	free(b->cgroup);
	free(b->shared);
	free(b->packet);
	free(b->asks_packet);
	free(b->strings);
	free(b->options);
	free(b);
}

void et_plugin_hang_up(struct et_backend *b)
{
	b->close_by_ns = et_platform_now_ns(NULL) + 5 * SECOND;
	if (b->process.is_running && !b->is_ending)
		shutdown(b->process.calls, SHUT_WR);
}

void et_plugin_begin_ending(struct et_backend *b)
{
	et_plugin_tenants_begin_ending(b);
	pthread_mutex_lock(&b->lock);
	if (!b->is_closing)
		et_plugin_hang_up(b);
	b->is_closing = true;
	pthread_mutex_unlock(&b->lock);
	et_plugin_wake_watcher(b);
}

void et_plugin_backend_end(struct et_backend *b)
{
	et_plugin_begin_ending(b);
	et_plugin_revive_end(b);
	et_plugin_tenants_end(b);
	et_plugin_kernels_deinit(b);
	et_plugin_forget_memory(b);
	pthread_join(b->watcher, NULL);
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->starting);
	pthread_mutex_destroy(&b->building);
	pthread_mutex_destroy(&b->shared_lock);
	pthread_mutex_destroy(&b->tenants_lock);
	pthread_cond_destroy(&b->changed);
	backend_free(b);
}

static char *copy(char **at, const char *text)
{
	char *to = *at;
	size_t n = strlen(text) + 1;
	memcpy(to, text, n);
	*at += n;
	return to;
}

static void copy_options(char **at, struct et_plugin_option *to, const struct et_plugin_option *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = (struct et_plugin_option){ copy(at, from[i].key), copy(at, from[i].value) };
}

static bool copy_config(struct et_backend *b, const struct et_plugin_config *from)
{
	const char *host = from->host_path ? from->host_path : INF_DELEGATE_HOST;
	const char *path = from->path ? from->path : "";
	size_t n = strlen(path) + strlen(host) + 2 + (from->name ? strlen(from->name) + 1 : 0) +
		   (from->cache_dir ? strlen(from->cache_dir) + 1 : 0) + n_text_bytes(from->options, from->n_options) +
		   n_text_bytes(from->variables, from->n_variables);
	char *at = b->strings = malloc(n);
	b->options = calloc((size_t)from->n_options + from->n_variables + 1, sizeof *b->options);
	if (!at || !b->options)
		return false;
	b->config = *from;
	b->config.path = copy(&at, path);
	b->config.host_path = copy(&at, host);
	b->config.name = from->name ? copy(&at, from->name) : NULL;
	b->config.cache_dir = from->cache_dir ? copy(&at, from->cache_dir) : NULL;
	copy_options(&at, b->options, from->options, from->n_options);
	copy_options(&at, b->options + from->n_options, from->variables, from->n_variables);
	b->config.options = b->options;
	b->config.variables = b->options + from->n_options;
	return true;
}

static uint32_t n_devices(const struct et_backend *b)
{
	return b->facts.n_devices;
}

static void copy_printable(char *to, const char *from, size_t room)
{
	size_t n = strnlen(from, room - 1);
	for (size_t i = 0; i < n; i++)
		to[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
	to[n] = '\0';
}

static void device(const struct et_backend *b, uint32_t index, struct et_device *ret_device)
{
	const struct et_plugin_device *from = &b->facts.devices[index];
	ret_device->kind = et_convert_kind(from->kind);
	memcpy(ret_device->name, from->name, sizeof ret_device->name);
	ret_device->name[sizeof ret_device->name - 1] = '\0';
	copy_printable(ret_device->driver, from->driver, sizeof ret_device->driver);
	copy_printable(ret_device->features, from->features, sizeof ret_device->features);
	ret_device->memory_bytes = from->memory_bytes;
	ret_device->max_in_flight = from->max_in_flight;
	/* runs wait for one another in the proxy unless each has an instance of its own */
	ret_device->takes_turns = from->flags & INFERD_DELEGATE_TAKES_TURNS && b->facts.flags & ET_PLUGIN_HAS_INSTANCES;
	ret_device->n_threads = 0;
}

static void take_facts(struct et_backend *b)
{
	uint32_t n = 0;
	if (!b->config.name)
		b->config.name = b->facts.name;
	b->ops.id = b->facts.id;
	b->ops.name = b->lines.name = b->config.name;
	for (uint32_t i = 0; i < b->facts.n_devices; i++)
		n += b->facts.devices[i].max_in_flight < 16 ? b->facts.devices[i].max_in_flight : 16;
	b->max_in_flight = b->facts.flags & ET_PLUGIN_HAS_INSTANCES && n ? n : 1;
}

static void log_start(const struct et_backend *b)
{
	uint32_t s = b->facts.sandbox;
	if (b->config.isolation == ET_PLUGIN_IN_THREAD)
		et_logf(b->log, ET_LOG_NOTICE, "backend %s (%s %s): %u devices, without isolation", b->ops.name,
			b->ops.id, b->facts.version, b->facts.n_devices);
	else
		et_logf(b->log, ET_LOG_NOTICE, "backend %s (%s %s): %u devices, host process %d, sandbox:%s%s%s%s",
			b->ops.name, b->ops.id, b->facts.version, b->facts.n_devices, (int)b->process.pid,
			s & ET_SANDBOX_NO_NEW_PRIVS ? " no-new-privs" : "", s & ET_SANDBOX_CALLS ? " seccomp" : "",
			s & ET_SANDBOX_FILES ? " landlock" : " (no landlock in this kernel)",
			s & ET_SANDBOX_LIMITS ? " limits" : "");
}

struct et_backend *et_plugin_backend_new(const struct et_plugin_config *config, const struct et_log *log,
	bool is_forgiving, struct et_diag *diag)
{
	struct et_backend *b = calloc(1, sizeof *b);
	if (b) {
		b->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		b->packet = malloc(ET_PLUGIN_MAX_PACKET);
		b->asks_packet = malloc(ET_PLUGIN_MAX_PACKET);
	}
	if (!b || b->wake < 0 || !b->packet || !b->asks_packet || !copy_config(b, config)) {
		backend_free(b);
		et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
		return NULL;
	}
	b->ops = et_plugin_ops;
	b->ops.close = et_plugin_backend_end;
	b->ops.n_devices = n_devices;
	b->ops.device = device;
	b->ops.name = config->name ? b->config.name : "plug-in";
	b->log = log;
	b->lines = (struct et_plugin_lines){ .log = log, .name = b->ops.name };
	et_plugin_restart_init(&b->restart, config->max_crashes, config->crash_window_ns, is_forgiving);
	b->process = (struct et_plugin_process){ .pidfd = -1, .calls = -1, .asks = -1, .output = -1 };
	b->max_in_flight = 1;
	b->sleep_until_ns = UINT64_MAX;
	et_list_init(&b->calls);
	et_list_init(&b->waiting);
	et_list_init(&b->models);
	et_list_init(&b->shown);
	et_list_init(&b->tenants);
	et_list_init(&b->tenant_node);
	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->shared_lock, NULL);
	pthread_mutex_init(&b->tenants_lock, NULL);
	pthread_mutex_init(&b->starting, NULL);
	pthread_mutex_init(&b->building, NULL);
	pthread_cond_init(&b->changed, NULL);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&b->watcher, NULL, et_plugin_watch, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		backend_free(b);
		et_fail(diag, ET_E_INTERNAL, "can't start a thread: %s", strerror(rc));
		return NULL;
	}
	return b;
}

enum et_status et_plugin_open(struct et_backend_entry *ret_entry, const struct et_plugin_config *config,
	const struct et_allocator *allocator, const struct et_log *log, struct et_diag *diag)
{
	if (strlen(config->path) >= sizeof((struct et_plugin_start *)0)->path ||
		(config->cache_dir && strlen(config->cache_dir) >= sizeof((struct et_plugin_start *)0)->cache_dir))
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "a path is too long");
	struct et_backend *b = et_plugin_backend_new(config, log, false, diag);
	if (!b)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	pthread_mutex_lock(&b->starting);
	enum et_status status = start_host(b, &b->facts, diag);
	pthread_mutex_unlock(&b->starting);
	if (!status) {
		take_facts(b);
		status = et_plugin_kernels_init(b, diag);
	}
	if (status) {
		et_plugin_backend_end(b);
		return status == ET_E_MEMORY_ALLOCATION_FAILED ? status : ET_E_NOT_FOUND;
	}
	log_start(b);
	*ret_entry = (struct et_backend_entry){ &b->ops, b };
	return ET_OK;
}

static void find_cgroup(struct et_backend *b)
{
	char folder[PATH_MAX];
	int rc = et_plugin_cgroup_find(ET_PLATFORM_CGROUP_MEMBERSHIP, ET_PLATFORM_CGROUP_ROOT, folder, sizeof folder);
	if (rc == 0)
		b->cgroup = strdup(folder);
	if (b->cgroup)
		et_logf(b->log, ET_LOG_INFO, "processes of users' programs get cgroups in %s", folder);
	else
		et_logf(b->log, ET_LOG_INFO, "%s%s: the memory of users' programs is limited by RLIMIT_DATA alone",
			rc == -ENOENT ? "systemd has delegated no cgroup" : "the delegated cgroup can't be used: ",
			rc == -ENOENT ? "" : strerror(rc ? -rc : ENOMEM));
}

enum et_status et_plugin_open_programs(struct et_backend_entry *ret_entry, const struct et_plugin_config *config,
	const struct et_log *log, struct et_diag *diag)
{
	struct et_backend *b = et_plugin_backend_new(config, log, false, diag);
	if (!b)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	/* what inferd-program-host says of itself: both come from one build */
	b->facts = (struct et_plugin_started){
		.flags = ET_PLUGIN_HAS_CANCEL | ET_PLUGIN_HAS_RESET | ET_PLUGIN_HAS_INSTANCES,
		.n_devices = 1,
		.id = "InferdProgram",
		.name = "programs",
		.devices = { { .kind = INFERD_DELEGATE_CPU, .max_in_flight = 16, .alignment = 16, .name = "CPU" } },
	};
	take_facts(b);
	b->runs_programs = b->ops.runs_programs = true;
	find_cgroup(b);
	*ret_entry = (struct et_backend_entry){ &b->ops, b };
	return ET_OK;
}

void et_plugin_state(struct et_backend *b, struct et_plugin_state *ret_state)
{
	pthread_mutex_lock(&b->lock);
	*ret_state = (struct et_plugin_state){
		.pid = b->process.is_running && !b->is_ending ? b->process.pid : 0,
		.has_failed = b->restart.has_failed,
		.sandbox = b->facts.sandbox,
		.n_starts = b->n_starts,
		.n_crashes = b->restart.n_crashes,
		.n_runs = b->n_runs,
		.n_copied_bytes = b->n_copied_bytes,
		.n_in_flight = b->n_in_flight,
		.n_waiting = b->n_waiting,
		.tenant = b->tenant,
		.wait_ns = et_plugin_restart_wait_ns(&b->restart, et_platform_now_ns(NULL)),
	};
	memcpy(ret_state->version, b->facts.version, sizeof ret_state->version);
	memcpy(ret_state->reason, b->reason, sizeof ret_state->reason);
	pthread_mutex_unlock(&b->lock);
}

const struct et_kernel_table *et_plugin_kernels(struct et_backend *b)
{
	return b->table.n ? &b->table : NULL;
}
