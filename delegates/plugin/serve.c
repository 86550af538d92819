/* Answering inferd's calls with the plug-in's functions.
 *
 * Several threads, as many as runs may be in flight and two more, each take the next packet from the one socket, so
 * that a cancel arrives while a run blocks; a plug-in that wants one thread gets one. Order between packets does
 * not matter: inferd waits for an answer before it sends what builds on it, and what is freed while a run still uses
 * it goes with that run.
 *
 * Completions are told apart by running numbers that are never used again, not by addresses: one that comes a second
 * time, late or made up finds nothing in the list of what is pending, is reported, and does nothing else.
 *
 * Tensors lie in the stage of their instance, a memory file that inferd has too. Each area is mapped with a page
 * behind it that reads as zeros and can't be written; inputs can't be written either. */
#include "delegates/plugin/serve.h"
#include "delegates/plugin/hosted.h"
#include "delegates/plugin/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pending completions of all hosts in this process, and the last token given out. */
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_ended = PTHREAD_COND_INITIALIZER;
static struct et_list_node pending = { &pending, &pending };
static uintptr_t last_token;

/* --- instances ------------------------------------------------------------------------------------------- */

static void unmap_stage(struct instance *instance)
{
	if (instance->base)
		munmap(instance->base, instance->n_mapped);
	if (instance->fd >= 0)
		close(instance->fd);
	free(instance->areas);
	instance->base = NULL;
	instance->areas = NULL;
	instance->n_areas = 0;
	instance->fd = -1;
}

static void instance_free(struct instance *instance)
{
	struct host *host = instance->host;
	struct model *model = instance->model;
	if (instance->instance)
		host->table->instance_free(instance->instance);
	unmap_stage(instance);
	free(instance);
	pthread_mutex_lock(&host->lock);
	bool is_last = model && et_hosted_model_put(model);
	pthread_mutex_unlock(&host->lock);
	if (is_last)
		et_hosted_model_free(model);
}

static void instance_put(struct instance *instance)
{
	struct host *host = instance->host;
	pthread_mutex_lock(&host->lock);
	bool is_last = --instance->n_refs == 0;
	if (is_last)
		et_list_remove(&instance->node);
	pthread_mutex_unlock(&host->lock);
	if (is_last)
		instance_free(instance);
}

static struct instance *instance_get(struct host *host, uint64_t id)
{
	struct instance *found = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&host->lock);
	ET_LIST_FOR_EACH(node, after, &host->instances)
	{
		struct instance *instance = ET_CONTAINER_OF(node, struct instance, node);
		if (instance->id == id)
			found = instance;
	}
	if (found)
		found->n_refs++;
	pthread_mutex_unlock(&host->lock);
	return found;
}

static void on_instance_new(
	struct host *host, const struct et_plugin_handle *handle, struct et_plugin_answer *answer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	struct instance *instance = calloc(1, sizeof *instance);
	if (!instance) {
		answer->result = INFERD_DELEGATE_E_MEMORY;
		return;
	}
	instance->host = host;
	instance->id = handle->instance;
	instance->fd = -1;
	instance->n_refs = 1;
	et_list_init(&instance->pending);
	pthread_mutex_lock(&host->lock);
	instance->model = handle->model ? et_hosted_model_find(host, handle->model) : NULL;
	if (instance->model)
		instance->model->n_refs++;
	pthread_mutex_unlock(&host->lock);
	if (handle->model && !instance->model)
		answer->result = INFERD_DELEGATE_E_NOT_FOUND;
	else if (instance->model && host->table->instance_new)
		answer->result = (uint32_t)host->table->instance_new(
			instance->model->model, &instance->instance, &message);
	et_hosted_text(answer, &message);
	if (answer->result) {
		instance->instance = NULL;
		et_list_init(&instance->node);
		instance_free(instance);
		return;
	}
	pthread_mutex_lock(&host->lock);
	et_list_append(&host->instances, &instance->node);
	pthread_mutex_unlock(&host->lock);
}

/* Map the arguments' memory. */
static bool map_stage(struct instance *instance, const struct et_plugin_stage *stage, int fd)
{
	const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
	size_t n_mapped = guard;
	struct stat st;
	if (fstat(fd, &st) < 0 || stage->n_areas > ET_PLUGIN_MAX_ARGS)
		return false;
	for (uint32_t i = 0; i < stage->n_areas; i++)
		if (stage->areas[i].n_bytes % guard || stage->areas[i].offset % guard ||
			!et_in_range(stage->areas[i].offset, stage->areas[i].n_bytes, (uint64_t)st.st_size) ||
			!et_add(n_mapped, stage->areas[i].n_bytes + guard, &n_mapped))
			return false;
	struct area *areas = calloc(stage->n_areas + 1, sizeof *areas);
	uint8_t *base = mmap(NULL, n_mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!areas || base == MAP_FAILED) {
		free(areas);
		if (base != MAP_FAILED)
			munmap(base, n_mapped);
		return false;
	}
	instance->base = base;
	instance->n_mapped = n_mapped;
	instance->areas = areas;
	uint8_t *at = base + guard;
	for (uint32_t i = 0; i < stage->n_areas; i++) {
		const struct et_plugin_area *from = &stage->areas[i];
		areas[i] = (struct area){ from->offset, from->n_bytes, at, from->is_written };
		if (from->n_bytes && mmap(at, from->n_bytes, PROT_READ | (from->is_written ? PROT_WRITE : 0),
					     MAP_SHARED | MAP_FIXED, fd, (off_t)from->offset) == MAP_FAILED)
			return false;
		at += from->n_bytes + guard;
	}
	instance->n_areas = stage->n_areas;
	return true;
}

static void on_stage(
	struct host *host, const struct et_plugin_stage *stage, int fd, struct et_plugin_answer *answer)
{
	struct instance *instance = instance_get(host, stage->instance);
	answer->result = INFERD_DELEGATE_E_INVALID;
	if (instance && fd >= 0 &&
		stage->header.n_bytes == sizeof *stage + (uint64_t)stage->n_areas * sizeof stage->areas[0]) {
		unmap_stage(instance);
		if (map_stage(instance, stage, fd)) {
			instance->fd = fd;
			fd = -1;
			answer->result = 0;
		} else {
			unmap_stage(instance);
		}
	}
	if (fd >= 0)
		close(fd);
	if (instance)
		instance_put(instance);
}

/* --- runs ------------------------------------------------------------------------------------------------ */

static void send_done(
	struct host *host, const struct instance *instance, uint64_t id, int result, const char *text)
{
	union {
		struct et_plugin_done done;
		char bytes[sizeof(struct et_plugin_done) +
			   ET_PLUGIN_MAX_ARGS * sizeof(struct et_plugin_output)];
	} packet;
	memset(&packet.done, 0, sizeof packet.done);
	packet.done.result = (uint32_t)result;
	snprintf(packet.done.text, sizeof packet.done.text, "%s", text ? text : "");
	for (uint32_t i = 0; instance && i < instance->n_args && !result; i++) {
		const struct inferd_delegate_arg *arg = &instance->args[i];
		if (!arg->is_output)
			continue;
		struct et_plugin_output *output = &packet.done.outputs[packet.done.n_outputs++];
		memcpy(output->sizes, arg->sizes, sizeof output->sizes);
		output->i = arg->i;
		output->d = arg->d;
	}
	packet.done.header = (struct et_plugin_header){ ET_PLUGIN_DONE,
		(uint32_t)(sizeof packet.done + packet.done.n_outputs * sizeof packet.done.outputs[0]), id };
	/* what this thread read of the instance comes before what the next run's thread writes */
	pthread_mutex_lock(&host->lock);
	pthread_mutex_unlock(&host->lock);
	int rc = et_plugin_send(host->options.calls, &packet, -1, 1);
	if (rc < 0 && rc != -EPIPE)
		atomic_store(&host->rc, rc);
}

/* The end of a submitted run, from any thread. */
static void on_done(void *self, int result, const char *text)
{
	uintptr_t token = (uintptr_t)self;
	struct instance *found = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&pending_lock);
	ET_LIST_FOR_EACH(node, after, &pending)
	{
		struct instance *instance = ET_CONTAINER_OF(node, struct instance, pending);
		if (instance->token == token)
			found = instance;
	}
	if (found) {
		found->number = 0;
		et_list_remove(&found->pending);
		found->host->n_ending++;
	}
	pthread_mutex_unlock(&pending_lock);
	if (!found) {
		fprintf(stderr,
			"<4>the plug-in reported the end of a run that is not running (twice, or too late); "
			"ignoring it\n");
		return;
	}
	struct host *host = found->host;
	uint64_t run = found->run;
	found->run = 0;
	send_done(host, found, run, result, text);
	instance_put(found);
	pthread_mutex_lock(&pending_lock);
	if (--host->n_ending == 0)
		pthread_cond_broadcast(&has_ended);
	pthread_mutex_unlock(&pending_lock);
}

/* The arguments, as the plug-in sees them; false with a sentence: the packet is wrong. */
static bool take_args(struct instance *instance, const struct et_plugin_run *run)
{
	if (run->n_args > ET_PLUGIN_MAX_ARGS ||
		run->header.n_bytes != sizeof *run + (uint64_t)run->n_args * sizeof run->args[0])
		return false;
	for (uint32_t i = 0; i < run->n_args; i++) {
		const struct et_plugin_arg *from = &run->args[i];
		struct inferd_delegate_arg *to = &instance->args[i];
		*to = (struct inferd_delegate_arg){
			.struct_size = sizeof *to,
			.kind = from->kind,
			.type = from->type,
			.n_dims = from->n_dims,
			.is_output = from->is_output,
			.n_bytes = from->n_bytes,
			.i = from->i,
			.d = from->d,
			.fd = -1,
		};
		instance->arg_pointers[i] = to;
		memcpy(to->sizes, from->sizes, sizeof to->sizes);
		memcpy(to->dim_order, from->dim_order, sizeof to->dim_order);
		if (from->kind != INFERD_DELEGATE_TENSOR)
			continue;
		if (from->area >= instance->n_areas || from->n_dims > INFERD_DELEGATE_MAX_DIMS)
			return false;
		const struct area *area = &instance->areas[from->area];
		if (from->offset < area->offset ||
			!et_in_range(from->offset - area->offset, from->n_bytes, area->n_bytes) ||
			(from->is_output && !area->is_written))
			return false;
		to->data = area->bytes + (from->offset - area->offset);
		to->fd = instance->fd;
		to->fd_offset = from->offset;
	}
	instance->n_args = run->n_args;
	return true;
}

static void run_kernel(struct host *host, const struct et_plugin_run *run, struct instance *instance)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	if (run->kernel >= host->table->n_kernels) {
		send_done(host, NULL, run->header.id, INFERD_DELEGATE_E_NOT_FOUND, "no such kernel");
		return;
	}
	int result = host->table->kernels[run->kernel]->run(
		host->self, instance->arg_pointers, instance->n_args, &message);
	message.text[sizeof message.text - 1] = '\0';
	send_done(host, instance, run->header.id, result, message.text);
}

static void run_submit(struct host *host, const struct et_plugin_run *run, struct instance *instance)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	pthread_mutex_lock(&host->lock);
	instance->n_refs++; /* the run's, until its completion */
	pthread_mutex_unlock(&host->lock);
	instance->run = run->header.id;
	pthread_mutex_lock(&pending_lock);
	uintptr_t token = ++last_token;
	instance->token = token;
	instance->completion = (struct inferd_delegate_completion){
		.struct_size = sizeof instance->completion, .self = (void *)token, .done = on_done
	};
	et_list_append(&pending, &instance->pending);
	pthread_mutex_unlock(&pending_lock);
	int result = host->table->submit(instance->model->model, instance->instance, instance->arg_pointers,
		instance->n_args, &instance->completion, &message);
	if (!result) {
		pthread_mutex_lock(&pending_lock);
		bool is_running = instance->token == token && !et_list_is_empty(&instance->pending);
		bool must_cancel = is_running && instance->cancelled == run->kernel;
		instance->number = is_running ? run->kernel : 0;
		pthread_mutex_unlock(&pending_lock);
		if (must_cancel && host->table->cancel)
			host->table->cancel(instance->model->model, instance->instance);
		return;
	}
	message.text[sizeof message.text - 1] = '\0';
	/* refused: there will be no completion, and what comes in spite of it finds nothing */
	pthread_mutex_lock(&pending_lock);
	bool was_pending = instance->token == token && !et_list_is_empty(&instance->pending);
	et_list_remove(&instance->pending);
	pthread_mutex_unlock(&pending_lock);
	if (!was_pending) {
		fprintf(stderr, "<4>the plug-in refused a run that it also reported as ended\n");
		return;
	}
	instance->run = 0;
	send_done(host, NULL, run->header.id, result, message.text);
	instance_put(instance);
}

static void run_execute(struct host *host, const struct et_plugin_run *run, struct instance *instance)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	int result = INFERD_DELEGATE_E_CANCELLED;
	pthread_mutex_lock(&pending_lock);
	bool is_cancelled = instance->cancelled == run->kernel;
	instance->number = is_cancelled ? 0 : run->kernel;
	pthread_mutex_unlock(&pending_lock);
	if (is_cancelled)
		snprintf(message.text, sizeof message.text, "cancelled before it began");
	else
		result = host->table->execute(instance->model->model, instance->instance,
			instance->arg_pointers, instance->n_args, &message);
	pthread_mutex_lock(&pending_lock);
	instance->number = 0;
	pthread_mutex_unlock(&pending_lock);
	message.text[sizeof message.text - 1] = '\0';
	send_done(host, instance, run->header.id, result, message.text);
}

static void on_run(struct host *host, const struct et_plugin_run *run)
{
	struct instance *instance = instance_get(host, run->instance);
	if (!instance || instance->run || (run->model && !instance->model) || !take_args(instance, run)) {
		send_done(host, NULL, run->header.id, INFERD_DELEGATE_E_INVALID,
			"the host can't read the run's arguments");
	} else if (!run->model) {
		run_kernel(host, run, instance);
	} else if (host->table->submit) {
		run_submit(host, run, instance);
	} else {
		run_execute(host, run, instance);
	}
	if (instance)
		instance_put(instance);
}

/* --- starting -------------------------------------------------------------------------------------------- */

static bool take_options(struct host *host, const struct et_plugin_start *start)
{
	size_t n_bytes = start->n_option_bytes, at = 0;
	if (start->header.n_bytes != sizeof *start + (uint64_t)n_bytes || start->n_options > n_bytes / 2)
		return false;
	host->option_text = malloc(n_bytes + 1);
	host->option_pairs = calloc(start->n_options + 1, sizeof *host->option_pairs);
	host->option_pointers = calloc(start->n_options + 1, sizeof *host->option_pointers);
	if (!host->option_text || !host->option_pairs || !host->option_pointers)
		return false;
	memcpy(host->option_text, start + 1, n_bytes);
	host->option_text[n_bytes] = '\0';
	for (uint32_t i = 0; i < start->n_options; i++) {
		const char *key = host->option_text + at;
		size_t n_key = strlen(key);
		if (at + n_key + 1 >= n_bytes)
			return false;
		const char *value = key + n_key + 1;
		at += n_key + strlen(value) + 2;
		if (at > n_bytes)
			return false;
		host->option_pairs[i] =
			(struct inferd_delegate_pair){ .struct_size = sizeof host->option_pairs[i],
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
		*to = (struct et_plugin_device){
			.kind = from.kind <= INFERD_DELEGATE_NPU ? from.kind : INFERD_DELEGATE_NPU,
			.max_in_flight = from.max_in_flight ? from.max_in_flight : 1,
			.alignment = from.alignment,
			.flags = from.flags,
			.vendor_id = from.vendor_id,
			.product_id = from.product_id,
			.memory_bytes = from.memory_bytes
		};
		memcpy(to->name, from.name, sizeof to->name - 1);
		memcpy(to->id, from.id, sizeof to->id - 1);
		n_in_flight += to->max_in_flight < 16 ? to->max_in_flight : 16;
	}
	host->n_threads = host->table->flags & INFERD_DELEGATE_ONE_THREAD ? 1 : n_in_flight + 2;
}

static void on_start(
	struct host *host, const struct et_plugin_start *start, struct et_plugin_started *started)
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
	if (host->options.is_process)
		host->sandbox = et_sandbox_enter(start->has_cache ? host->cache_dir : NULL);
	started->sandbox = host->sandbox;
	if (et_plugin_library_open(&host->library, host->path, started->text, sizeof started->text) < 0)
		return;
	const struct inferd_delegate *table = &host->library.table;
	host->table = table;
	started->major = table->major;
	started->minor = table->minor;
	snprintf(started->id, sizeof started->id, "%s", table->id);
	snprintf(started->name, sizeof started->name, "%s", table->name);
	snprintf(started->version, sizeof started->version, "%.60s", table->version ? table->version : "");
	host->view = (struct inferd_delegate_host){ .struct_size = sizeof host->view,
		.major = INFERD_DELEGATE_MAJOR,
		.minor = INFERD_DELEGATE_MINOR,
		.cache_dir = start->has_cache ? host->cache_dir : NULL,
		.options = host->option_pointers,
		.n_options = start->n_options,
		.self = host,
		.log = et_hosted_log };
	started->result = (uint32_t)table->open(&host->view, &host->self, &message);
	message.text[sizeof message.text - 1] = '\0';
	snprintf(started->text, sizeof started->text, "%s", message.text);
	if (started->result)
		return;
	host->is_open = true;
	started->flags =
		(table->cancel ? ET_PLUGIN_HAS_CANCEL : 0) | (table->submit ? ET_PLUGIN_HAS_SUBMIT : 0) |
		(table->instance_reset ? ET_PLUGIN_HAS_RESET : 0) | (table->stats ? ET_PLUGIN_HAS_STATS : 0) |
		(table->instance_new ? ET_PLUGIN_HAS_INSTANCES : 0);
	started->n_kernels = table->n_kernels;
	list_devices(host, started);
}

/* --- the loop -------------------------------------------------------------------------------------------- */

static void on_handle(
	struct host *host, const struct et_plugin_handle *handle, struct et_plugin_answer *answer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	struct inferd_delegate_stats stats = { .struct_size = sizeof stats };
	struct instance *instance;
	switch (handle->header.type) {
	case ET_PLUGIN_KERNEL:
		if (handle->instance >= host->table->n_kernels) {
			answer->result = INFERD_DELEGATE_E_NOT_FOUND;
			break;
		}
		snprintf(answer->text, sizeof answer->text, "%s",
			host->table->kernels[handle->instance]->name);
		snprintf(answer->signature, sizeof answer->signature, "%s",
			host->table->kernels[handle->instance]->signature);
		break;
	case ET_PLUGIN_INSTANCE_NEW:
		on_instance_new(host, handle, answer);
		break;
	case ET_PLUGIN_INSTANCE_RESET:
		instance = instance_get(host, handle->instance);
		answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
		if (instance && host->table->instance_reset)
			answer->result = (uint32_t)host->table->instance_reset(instance->instance, &message);
		et_hosted_text(answer, &message);
		if (instance)
			instance_put(instance);
		break;
	default: /* ET_PLUGIN_STATS */
		answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
		if (host->table->stats)
			answer->result =
				(uint32_t)host->table->stats(host->self, (uint32_t)handle->instance, &stats);
		answer->stats[0] = stats.n_runs;
		answer->stats[1] = stats.busy_ns;
		answer->stats[2] = stats.memory_bytes;
		break;
	}
}

static void on_free(struct host *host, const struct et_plugin_handle *handle)
{
	if (handle->header.type == ET_PLUGIN_DESTROY) {
		pthread_mutex_lock(&host->lock);
		struct model *model = et_hosted_model_find(host, handle->model);
		bool is_last = model && et_hosted_model_put(model);
		if (model)
			model->id = 0; /* not found again */
		pthread_mutex_unlock(&host->lock);
		if (is_last)
			et_hosted_model_free(model);
		return;
	}
	struct instance *instance = instance_get(host, handle->instance);
	if (!instance)
		return;
	if (handle->header.type == ET_PLUGIN_CANCEL) {
		uint32_t number = (uint32_t)handle->model;
		pthread_mutex_lock(&pending_lock);
		bool is_running = instance->number == number;
		instance->cancelled = number;
		pthread_mutex_unlock(&pending_lock);
		if (is_running && host->table->cancel && instance->model)
			host->table->cancel(instance->model->model, instance->instance);
	} else {
		pthread_mutex_lock(&host->lock);
		instance->id = 0;
		instance->n_refs--; /* its own; this function's keeps it a moment longer */
		pthread_mutex_unlock(&host->lock);
	}
	instance_put(instance);
}

/* False: end. */
static bool handle(struct host *host, const struct et_plugin_header *header, int fd)
{
	struct et_plugin_answer answer = { .header = { ET_PLUGIN_ANSWER, sizeof answer, header->id } };
	switch (header->type) {
	case ET_PLUGIN_PROBE:
	case ET_PLUGIN_INIT:
		if (header->n_bytes != sizeof(struct et_plugin_init))
			break;
		et_hosted_init(host, (const struct et_plugin_init *)header, fd, &answer);
		return et_plugin_send(host->options.calls, &answer, -1, 1) == 0;
	case ET_PLUGIN_STAGE:
		if (header->n_bytes < sizeof(struct et_plugin_stage))
			break;
		on_stage(host, (const struct et_plugin_stage *)header, fd, &answer);
		return et_plugin_send(host->options.calls, &answer, -1, 1) == 0;
	case ET_PLUGIN_KERNEL:
	case ET_PLUGIN_INSTANCE_NEW:
	case ET_PLUGIN_INSTANCE_RESET:
	case ET_PLUGIN_STATS:
		if (header->n_bytes != sizeof(struct et_plugin_handle) || fd >= 0)
			break;
		on_handle(host, (const struct et_plugin_handle *)header, &answer);
		return et_plugin_send(host->options.calls, &answer, -1, 1) == 0;
	case ET_PLUGIN_DESTROY:
	case ET_PLUGIN_INSTANCE_FREE:
	case ET_PLUGIN_CANCEL:
		if (header->n_bytes != sizeof(struct et_plugin_handle) || fd >= 0)
			break;
		on_free(host, (const struct et_plugin_handle *)header);
		return true;
	case ET_PLUGIN_RUN:
		if (header->n_bytes < sizeof(struct et_plugin_run) || fd >= 0)
			break;
		on_run(host, (const struct et_plugin_run *)header);
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
	/* the others, too */
	shutdown(host->options.calls, SHUT_RDWR);
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
	return et_plugin_send(host->options.calls, &started, -1, 1) == 0 && host->is_open;
}

static void free_all(struct host *host)
{
	struct et_list_node *node, *after;
	pthread_mutex_lock(&pending_lock);
	while (host->n_ending)
		pthread_cond_wait(&has_ended, &pending_lock);
	pthread_mutex_unlock(&pending_lock);
	ET_LIST_FOR_EACH(node, after, &host->instances)
	{
		struct instance *instance = ET_CONTAINER_OF(node, struct instance, node);
		/* a run that never ended: the plug-in may still write to it, but is not heard any more */
		if (instance->run) {
			pthread_mutex_lock(&pending_lock);
			et_list_remove(&instance->pending);
			pthread_mutex_unlock(&pending_lock);
			continue;
		}
		et_list_remove(&instance->node);
		instance_free(instance);
	}
	ET_LIST_FOR_EACH(node, after, &host->models)
	{
		struct model *model = ET_CONTAINER_OF(node, struct model, node);
		if (model->n_refs > 1)
			continue;
		et_list_remove(&model->node);
		et_hosted_model_free(model);
	}
}

int et_plugin_serve(const struct et_serve_options *options)
{
	struct host host = { .options = *options };
	pthread_t threads[16 * ET_PLUGIN_MAX_DEVICES + 2];
	uint32_t n = 0;
	pthread_mutex_init(&host.lock, NULL);
	pthread_mutex_init(&host.asks_lock, NULL);
	et_list_init(&host.models);
	et_list_init(&host.instances);
	if (start(&host)) {
		while (n + 1 < host.n_threads && pthread_create(&threads[n], NULL, serve_thread, &host) == 0)
			n++;
		serve_thread(&host);
	} else {
		/* inferd reads why, and hangs up */
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
	/* The library stays: threads of its own may still be on their way out of it. */
	if (!options->is_process) { /* else they end with it, as the last thing inferd sees */
		close(host.options.calls);
		close(host.options.asks);
	}
	free(host.option_text);
	free(host.option_pairs);
	free(host.option_pointers);
	pthread_mutex_destroy(&host.lock);
	pthread_mutex_destroy(&host.asks_lock);
	return atomic_load(&host.rc);
}
