/* SPDX-License-Identifier: BSD-3-Clause */
/* Answer inferd's calls with the plug-in's functions.
 *
 * Several threads take packets from the one socket: as many as runs may be in flight, and two more, so that a
 * cancel is read while runs block. A plug-in with ONE_THREAD gets one thread. The order between packets does not
 * matter: inferd waits for an answer before it sends what builds on it, and an object that is freed while a run
 * uses it is freed with the run. */
#include "delegates/plugin/host/serve.h"
#include "delegates/plugin/host/host_internal.h"
#include "delegates/plugin/host/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- starting -------------------------------------------------------------------------------------------- */

/* Take the options, and put the variables into the environment, which the plug-in's library and its drivers read. */
static bool take_options(struct host *host, const struct et_plugin_start *start)
{
	size_t n_bytes = start->n_option_bytes, at = 0;
	uint64_t n = (uint64_t)start->n_options + start->n_variables;
	if (start->header.n_bytes != sizeof *start + (uint64_t)n_bytes || n > n_bytes / 2)
		return false;
	host->option_text = malloc(n_bytes + 1);
	host->option_pairs = calloc(start->n_options + 1, sizeof *host->option_pairs);
	host->option_pointers = calloc(start->n_options + 1, sizeof *host->option_pointers);
	if (!host->option_text || !host->option_pairs || !host->option_pointers)
		return false;
	memcpy(host->option_text, start + 1, n_bytes);
	host->option_text[n_bytes] = '\0';
	for (uint32_t i = 0; i < n; i++) {
		const char *key = host->option_text + at;
		size_t n_key = strlen(key);
		if (at + n_key + 1 >= n_bytes)
			return false;
		const char *value = key + n_key + 1;
		at += n_key + strlen(value) + 2;
		if (at > n_bytes)
			return false;
		if (i >= start->n_options) {
			if (!host->options.is_process || setenv(key, value, 1) < 0)
				return false;
			continue;
		}
		host->option_pairs[i] = (struct inferd_delegate_pair){ .struct_size = sizeof host->option_pairs[i],
			.key = key,
			.value = value,
			.n_bytes = strlen(value) };
		host->option_pointers[i] = &host->option_pairs[i];
	}
	return true;
}

static void list_devices(struct host *host, struct et_plugin_started *started)
{
	uint32_t n_in_flight = 0;
	while (started->n_devices < ET_PLUGIN_MAX_DEVICES) {
		struct inferd_delegate_device from = { .struct_size = sizeof from };
		if (host->table->devices(host->self, started->n_devices, &from))
			break;
		struct et_plugin_device *to = &started->devices[started->n_devices++];
		*to = (struct et_plugin_device){ .kind = from.kind <= INFERD_DELEGATE_NPU ? from.kind
											  : INFERD_DELEGATE_NPU,
			.max_in_flight = from.max_in_flight ? from.max_in_flight : 1,
			.alignment = from.alignment,
			.flags = from.flags,
			.vendor_id = from.vendor_id,
			.product_id = from.product_id,
			.memory_bytes = from.memory_bytes };
		memcpy(to->name, from.name, sizeof to->name - 1);
		memcpy(to->id, from.id, sizeof to->id - 1);
		memcpy(to->driver, from.driver, sizeof to->driver - 1);
		memcpy(to->features, from.features, sizeof to->features - 1);
		n_in_flight += to->max_in_flight < 16 ? to->max_in_flight : 16;
	}
	host->n_threads = host->table->flags & INFERD_DELEGATE_ONE_THREAD ? 1 : n_in_flight + 2;
}

static void *host_alloc(void *self, size_t n_bytes, size_t alignment)
{
	const struct et_allocator *allocator = et_platform_allocator();
	return allocator->alloc(allocator->self, n_bytes, alignment);
}

static void host_free(void *self, void *bytes, size_t n_bytes)
{
	const struct et_allocator *allocator = et_platform_allocator();
	allocator->free(allocator->self, bytes, n_bytes);
}

/* False, with the reason in @started: the process can't be limited as inferd asks. */
static bool enter_sandbox(struct host *host, const struct et_plugin_start *start, struct et_plugin_started *started)
{
	if (!host->options.is_process)
		return true;
	host->is_builder = start->flags & ET_PLUGIN_BUILDS;
#ifndef INF_SANITIZED /* a sanitizer takes memory and opens files as it likes */
	int rc = start->memory_limit ? et_sandbox_limit_memory(start->memory_limit) : 0;
	if (rc < 0) {
		started->result = INFERD_DELEGATE_E_UNSUPPORTED;
		snprintf(started->text, sizeof started->text, "the memory of its process can't be limited: %s",
			strerror(-rc));
		return false;
	}
	if (host->options.is_strict) {
		host->sandbox = et_sandbox_enter_strict();
		return true;
	}
#endif
	const char *cache_dir = start->has_cache ? host->cache_dir : NULL;
	host->sandbox = host->is_builder && (start->flags & ET_PLUGIN_BUILD_TOOLS)
				? et_sandbox_enter_with_tools(cache_dir)
				: et_sandbox_enter(cache_dir);
	return true;
}

static void build(struct host *host, struct et_plugin_started *started)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	started->result = INFERD_DELEGATE_E_UNSUPPORTED;
	if (host->table->build)
		started->result = (uint32_t)host->table->build(host->self, &message);
	message.text[sizeof message.text - 1] = '\0';
	snprintf(started->text, sizeof started->text, "%s", message.text);
}

static void on_start(struct host *host, const struct et_plugin_start *start, struct et_plugin_started *started)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	started->result = INFERD_DELEGATE_E_INVALID;
	if (start->wire != ET_PLUGIN_WIRE || !memchr(start->path, 0, sizeof start->path) ||
		!memchr(start->cache_dir, 0, sizeof start->cache_dir) || !take_options(host, start)) {
		snprintf(started->text, sizeof started->text,
			"inferd and inferd-delegate-host are not of the same version");
		return;
	}
	memcpy(host->path, start->path, sizeof host->path);
	memcpy(host->cache_dir, start->cache_dir, sizeof host->cache_dir);
	if (!enter_sandbox(host, start, started))
		return;
	started->sandbox = host->sandbox;
	if (!host->options.table &&
		et_plugin_library_open(&host->library, host->path, started->text, sizeof started->text) < 0)
		return;
	const struct inferd_delegate *table = host->options.table ? host->options.table : &host->library.table;
	host->table = table;
	started->major = table->major;
	started->minor = table->minor;
	snprintf(started->id, sizeof started->id, "%s", table->id);
	snprintf(started->name, sizeof started->name, "%s", table->name);
	snprintf(started->version, sizeof started->version, "%.60s", table->version ? table->version : "");
	host->plugin_host = (struct inferd_delegate_host){ .struct_size = sizeof host->plugin_host,
		.major = INFERD_DELEGATE_MAJOR,
		.minor = INFERD_DELEGATE_MINOR,
		.cache_dir = start->has_cache ? host->cache_dir : NULL,
		.options = host->option_pointers,
		.n_options = start->n_options,
		.self = host,
		.log = et_hosted_log,
		.alloc = host_alloc,
		.free = host_free,
		.flags = host->options.table                             ? INFERD_DELEGATE_HAS_WORKER_THREADS
			 : host->options.is_process && !host->is_builder ? INFERD_DELEGATE_BUILDS_APART
									 : 0 };
	started->result = (uint32_t)table->open(&host->plugin_host, &host->self, &message);
	message.text[sizeof message.text - 1] = '\0';
	snprintf(started->text, sizeof started->text, "%s", message.text);
	if (started->result)
		return;
	host->is_open = true;
	if (host->is_builder) {
		build(host, started);
		return;
	}
	started->flags = (table->cancel ? ET_PLUGIN_HAS_CANCEL : 0) | (table->submit ? ET_PLUGIN_HAS_SUBMIT : 0) |
			 (table->instance_reset ? ET_PLUGIN_HAS_RESET : 0) | (table->stats ? ET_PLUGIN_HAS_STATS : 0) |
			 (table->instance_new ? ET_PLUGIN_HAS_INSTANCES : 0);
	started->n_kernels = table->n_kernels;
	list_devices(host, started);
}

/* --- trying buffers ------------------------------------------------------------------------------------- */

/* Try a buffer of @n bytes: map it, write to it, export it. NULL, or what is wrong. */
static const char *try_buffer(const struct inferd_delegate *table, struct inferd_delegate_buffer *buffer, size_t n)
{
	void *bytes = NULL;
	int fd = -1;
	struct stat st;
	for (int round = 0; round < 2; round++) {
		if (table->buffer_map(buffer, &bytes) || !bytes)
			return "buffer_map fails for a buffer of buffer_alloc";
		if (round && (((uint8_t *)bytes)[0] != 0x5a || ((uint8_t *)bytes)[n - 1] != 0x5a))
			return "a buffer that is mapped again has lost what was written to it";
		memset(bytes, 0x5a, n);
		table->buffer_unmap(buffer);
	}
	if (!table->buffer_export || table->buffer_export(buffer, &fd))
		return NULL;
	const char *wrong = fd < 0 || fstat(fd, &st) < 0 ? "buffer_export gave no descriptor" : NULL;
	if (fd >= 0)
		close(fd);
	return wrong;
}

static void try_buffers(struct host *host, uint32_t device, struct et_plugin_answer *answer)
{
	const struct inferd_delegate *table = host->table;
	const char *wrong = NULL;
	answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
	snprintf(answer->text, sizeof answer->text, "it has no buffers of its own");
	if (!table->buffer_alloc)
		return;
	for (size_t n = 1; n <= 1 << 20 && !wrong; n *= 16) {
		struct inferd_delegate_buffer *buffer = NULL;
		if (table->buffer_alloc(host->self, device, n, &buffer) || !buffer) {
			wrong = "buffer_alloc fails";
			break;
		}
		wrong = try_buffer(table, buffer, n);
		table->buffer_free(buffer);
	}
	answer->result = wrong ? INFERD_DELEGATE_E_INTERNAL : INFERD_DELEGATE_OK;
	snprintf(answer->text, sizeof answer->text, "%s", wrong ? wrong : "");
}

/* --- the loop -------------------------------------------------------------------------------------------- */

static void on_handle(struct host *host, const struct et_plugin_handle *handle, struct et_plugin_answer *answer)
{
	struct inferd_delegate_stats stats = { .struct_size = sizeof stats };
	switch (handle->header.type) {
	case ET_PLUGIN_KERNEL:
		if (handle->instance >= host->table->n_kernels) {
			answer->result = INFERD_DELEGATE_E_NOT_FOUND;
			break;
		}
		snprintf(answer->text, sizeof answer->text, "%s", host->table->kernels[handle->instance]->name);
		snprintf(answer->signature, sizeof answer->signature, "%s",
			host->table->kernels[handle->instance]->signature);
		break;
	case ET_PLUGIN_INSTANCE_NEW:
	case ET_PLUGIN_INSTANCE_WITH:
		et_hosted_instance_new(host, handle, answer);
		break;
	case ET_PLUGIN_INSTANCE_RESET:
		et_hosted_instance_reset(host, handle, answer);
		break;
	case ET_PLUGIN_TRY_BUFFERS:
		try_buffers(host, (uint32_t)handle->instance, answer);
		break;
	default: /* ET_PLUGIN_STATS */
		answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
		if (host->table->stats)
			answer->result = (uint32_t)host->table->stats(host->self, (uint32_t)handle->instance, &stats);
		answer->stats[0] = stats.n_runs;
		answer->stats[1] = stats.busy_ns;
		answer->stats[2] = stats.memory_bytes;
		break;
	}
}

static void on_destroy(struct host *host, uint64_t id)
{
	pthread_mutex_lock(&host->lock);
	struct model *model = et_hosted_model_find(host, id);
	bool is_last = model && et_hosted_model_put(model);
	if (model)
		model->id = 0; /* so that it is not found again */
	pthread_mutex_unlock(&host->lock);
	if (is_last)
		et_hosted_model_free(model);
}

/* Packets without an answer. */
static void on_end(struct host *host, const struct et_plugin_handle *handle)
{
	switch (handle->header.type) {
	case ET_PLUGIN_DESTROY:
		on_destroy(host, handle->model);
		break;
	case ET_PLUGIN_INSTANCE_FREE:
		et_hosted_instance_free(host, handle->instance);
		break;
	case ET_PLUGIN_FORGET:
		et_hosted_forget(host, handle->instance);
		break;
	case ET_PLUGIN_ABANDON:
		et_hosted_abandon(host, handle->instance, (uint32_t)handle->model);
		break;
	default: /* ET_PLUGIN_CANCEL */
		et_hosted_cancel(host, handle->instance, (uint32_t)handle->model);
		break;
	}
}

/* Handle one packet. False: stop serving. */
static bool handle(struct host *host, const struct et_plugin_header *header, int fd)
{
	struct et_plugin_answer answer = { .header = { ET_PLUGIN_ANSWER, sizeof answer, header->id } };
	switch (header->type) {
	case ET_PLUGIN_PROBE:
	case ET_PLUGIN_INIT:
	case ET_PLUGIN_DESCRIBE:
		if (header->n_bytes != sizeof(struct et_plugin_init))
			break;
		(host->options.is_strict ? et_hosted_init_at_low_priority : et_hosted_init)(host,
			(const struct et_plugin_init *)header, fd, &answer);
		return et_plugin_send(host->options.calls, &answer, -1, 1) == 0;
	case ET_PLUGIN_SHARE:
		if (header->n_bytes != sizeof(struct et_plugin_share))
			break;
		et_hosted_share(host, (const struct et_plugin_share *)header, fd, &answer);
		return et_plugin_send(host->options.calls, &answer, -1, 1) == 0;
	case ET_PLUGIN_KERNEL:
	case ET_PLUGIN_INSTANCE_NEW:
	case ET_PLUGIN_INSTANCE_WITH:
	case ET_PLUGIN_INSTANCE_RESET:
	case ET_PLUGIN_STATS:
	case ET_PLUGIN_TRY_BUFFERS:
		if (header->n_bytes != sizeof(struct et_plugin_handle) || fd >= 0)
			break;
		on_handle(host, (const struct et_plugin_handle *)header, &answer);
		return et_plugin_send(host->options.calls, &answer, -1, 1) == 0;
	case ET_PLUGIN_DESTROY:
	case ET_PLUGIN_INSTANCE_FREE:
	case ET_PLUGIN_CANCEL:
	case ET_PLUGIN_ABANDON:
	case ET_PLUGIN_FORGET:
		if (header->n_bytes != sizeof(struct et_plugin_handle) || fd >= 0)
			break;
		on_end(host, (const struct et_plugin_handle *)header);
		return true;
	case ET_PLUGIN_RUN:
		if (header->n_bytes < sizeof(struct et_plugin_run) || fd >= 0)
			break;
		et_hosted_run(host, (const struct et_plugin_run *)header);
		return atomic_load(&host->rc) == 0;
	default:
		break;
	}
	if (fd >= 0)
		close(fd);
	atomic_store(&host->rc, -EBADMSG);
	return false;
}

static void *serve_thread(void *arg)
{
	struct host *host = arg;
	_Alignas(16) char packet[ET_PLUGIN_MAX_PACKET];
	int fd, n;
	while ((n = et_plugin_receive(host->options.calls, packet, sizeof packet, &fd, 1)) > 0)
		if (!handle(host, (const struct et_plugin_header *)packet, fd))
			break;
	if (n < 0)
		atomic_store(&host->rc, n);
	/* Stop the other threads, too. After a malformed packet inferd is to notice at once; if inferd hung up, it
	 * notices the end when the sockets close. */
	shutdown(host->options.calls, atomic_load(&host->rc) ? SHUT_RDWR : SHUT_RD);
	return NULL;
}

/* Receive START, answer STARTED. */
static bool start(struct host *host)
{
	_Alignas(16) char packet[ET_PLUGIN_MAX_PACKET];
	struct et_plugin_started started = { .header = { ET_PLUGIN_STARTED, sizeof started, 0 } };
	int fd, n = et_plugin_receive(host->options.calls, packet, sizeof packet, &fd, 1);
	const struct et_plugin_start *message = (const struct et_plugin_start *)packet;
	if (fd >= 0)
		close(fd);
	if (n < (int)sizeof *message || message->header.type != ET_PLUGIN_START) {
		atomic_store(&host->rc, n < 0 ? n : -EBADMSG);
		return false;
	}
	started.header.id = message->header.id;
	on_start(host, message, &started);
	return et_plugin_send(host->options.calls, &started, -1, 1) == 0 && host->is_open && !host->is_builder;
}

static void free_all(struct host *host)
{
	struct et_list_node *node, *after;
	et_hosted_instances_free(host);
	et_hosted_areas_free(host);
	ET_LIST_FOR_EACH(node, after, &host->models) {
		struct model *model = ET_CONTAINER_OF(node, struct model, node);
		if (model->n_refs > 1)
			continue;
		et_list_remove(&model->node);
		et_hosted_model_free(model);
	}
	for (size_t i = 0; i < ET_PLUGIN_MAX_THREADS; i++)
		if (host->thread_sets[i].threads)
			host->table->threads_free(host->thread_sets[i].threads);
}

int et_plugin_serve(const struct et_serve_options *options)
{
	struct host host = { .options = *options };
	pthread_t threads[16 * ET_PLUGIN_MAX_DEVICES + 2];
	uint32_t n = 0;
	pthread_mutex_init(&host.lock, NULL);
	pthread_mutex_init(&host.asks_lock, NULL);
	pthread_mutex_init(&host.thread_sets_lock, NULL);
	et_list_init(&host.models);
	et_list_init(&host.instances);
	et_list_init(&host.shared);
	et_list_init(&host.used_areas);
	if (start(&host)) {
		while (n + 1 < host.n_threads && pthread_create(&threads[n], NULL, serve_thread, &host) == 0)
			n++;
		serve_thread(&host);
	} else {
		/* inferd reads the reason in STARTED, and hangs up */
		struct et_plugin_header header;
		int fd;
		while (et_plugin_receive(host.options.calls, &header, sizeof header, &fd, 1) > 0)
			if (fd >= 0)
				close(fd);
	}
	if (options->is_process)
		alarm(5); /* a library that hangs must not outlive inferd */
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	free_all(&host);
	if (host.is_open)
		host.table->close(host.self);
	/* The library stays loaded: threads of its own may still run in it. The sockets of a process close when it
	 * ends, so that inferd sees its end last. */
	if (!options->is_process) {
		close(host.options.calls);
		close(host.options.asks);
	}
	free(host.option_text);
	free(host.option_pairs);
	free(host.option_pointers);
	pthread_mutex_destroy(&host.lock);
	pthread_mutex_destroy(&host.asks_lock);
	pthread_mutex_destroy(&host.thread_sets_lock);
	return atomic_load(&host.rc);
}
