/* SPDX-License-Identifier: BSD-3-Clause */
/* Instances and runs in a host.
 *
 * The plug-in is given tokens for its runs, not addresses: numbers that are never used again. A completion or event
 * that comes twice, too late, or was made up finds no such token in the list of running instances; it is logged and
 * ignored.
 *
 * Several threads read packets, so a CANCEL may be handled before its RUN, or while the run is being submitted. It
 * is remembered (cancelled_run) until the plug-in knows the run. The plug-in's cancel names an instance, not a run.
 * So the instance's next run does not begin before cancel returns, though the run that it is meant for may end. */
#include "delegates/plugin/host/host_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The running instances of all hosts in this process, and the last token. The lock guards them, and the members of
 * struct instance about the run's end and cancelling. */
static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_ended = PTHREAD_COND_INITIALIZER;
static pthread_cond_t has_cancelled = PTHREAD_COND_INITIALIZER;
static struct et_list_node running = { &running, &running };
static uintptr_t last_token;

/* --- instances ------------------------------------------------------------------------------------------- */

static bool put_areas(struct instance *instance, uint32_t *ret_faulted);

/* End the run of @instance that was unfinished. No other thread uses the instance. */
static void abandon(struct instance *instance)
{
	uint32_t faulted;
	instance->host->table->abandon(instance->model->plugin_model, instance->plugin_instance);
	put_areas(instance, &faulted);
}

static void instance_free(struct instance *instance)
{
	struct host *host = instance->host;
	struct model *model = instance->model;
	if (instance->unfinished_run)
		abandon(instance);
	if (instance->plugin_instance)
		host->table->instance_free(instance->plugin_instance);
	free(instance->events);
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
	ET_LIST_FOR_EACH(node, after, &host->instances) {
		struct instance *instance = ET_CONTAINER_OF(node, struct instance, node);
		if (instance->id == id)
			found = instance;
	}
	if (found)
		found->n_refs++;
	pthread_mutex_unlock(&host->lock);
	return found;
}

void et_hosted_instance_new(struct host *host, const struct et_plugin_handle *handle, struct et_plugin_answer *answer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	struct instance *instance = calloc(1, sizeof *instance);
	if (!instance) {
		answer->result = INFERD_DELEGATE_E_MEMORY;
		return;
	}
	instance->host = host;
	instance->id = handle->instance;
	instance->n_refs = 1;
	et_list_init(&instance->running);
	pthread_mutex_lock(&host->lock);
	instance->model = handle->model ? et_hosted_model_find(host, handle->model) : NULL;
	if (instance->model)
		instance->model->n_refs++;
	pthread_mutex_unlock(&host->lock);
	bool is_with = handle->header.type == ET_PLUGIN_INSTANCE_WITH;
	struct instance *other = is_with ? instance_get(host, handle->other) : NULL;
	if ((handle->model && !instance->model) || (is_with && !other))
		answer->result = INFERD_DELEGATE_E_NOT_FOUND;
	else if (is_with && !(instance->model && host->table->instance_with && other->plugin_instance))
		answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
	else if (is_with)
		answer->result = (uint32_t)host->table->instance_with(instance->model->plugin_model,
			other->plugin_instance, &instance->plugin_instance, &message);
	else if (instance->model && host->table->instance_new)
		answer->result = (uint32_t)host->table->instance_new(instance->model->plugin_model,
			&instance->plugin_instance, &message);
	if (other)
		instance_put(other);
	et_hosted_text(answer, &message);
	if (answer->result) {
		instance->plugin_instance = NULL;
		instance_free(instance);
		return;
	}
	pthread_mutex_lock(&host->lock);
	et_list_append(&host->instances, &instance->node);
	pthread_mutex_unlock(&host->lock);
}

void et_hosted_instance_reset(struct host *host, const struct et_plugin_handle *handle, struct et_plugin_answer *answer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	struct instance *instance = instance_get(host, handle->instance);
	answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
	if (instance && instance->model && host->table->instance_reset)
		answer->result = (uint32_t)host->table->instance_reset(instance->plugin_instance, &message);
	et_hosted_text(answer, &message);
	if (instance)
		instance_put(instance);
}

void et_hosted_instance_free(struct host *host, uint64_t id)
{
	struct instance *instance = instance_get(host, id);
	if (!instance)
		return;
	pthread_mutex_lock(&host->lock);
	instance->id = 0;
	instance->n_refs--; /* this function's reference keeps it until instance_put */
	pthread_mutex_unlock(&host->lock);
	instance_put(instance);
}

/* --- the end of a run ------------------------------------------------------------------------------------ */

/* Room for the largest DONE. */
union done_packet {
	struct et_plugin_done done;
	_Alignas(16) char bytes[ET_PLUGIN_MAX_PACKET];
};

static void put_outputs(const struct instance *instance, struct et_plugin_done *done)
{
	for (uint32_t i = 0; i < instance->n_args; i++) {
		const struct inferd_delegate_arg *arg = &instance->args[i];
		if (!arg->is_output)
			continue;
		struct et_plugin_output *output = &done->outputs[done->n_outputs++];
		memcpy(output->sizes, arg->sizes, sizeof output->sizes);
		output->i = arg->i;
		output->d = arg->d;
		output->kind = arg->kind;
	}
}

/* Put the arguments' areas back. False: the memory of argument *ret_faulted went away while the run used it. */
static bool put_areas(struct instance *instance, uint32_t *ret_faulted)
{
	bool is_good = true;
	for (uint32_t i = 0; i < instance->n_args; i++) {
		struct area *area = instance->areas[i];
		instance->areas[i] = NULL;
		if (area && !et_hosted_area_put(instance->host, area) && is_good) {
			*ret_faulted = i;
			is_good = false;
		}
	}
	return is_good;
}

/* Send DONE for the run with @id. @instance NULL: the run did not begin. Once it is sent, the instance may get its next
 * run, on another thread. */
static void send_done(struct host *host, struct instance *instance, uint64_t id, int result, const char *text)
{
	union done_packet packet;
	uint32_t faulted;
	memset(&packet.done, 0, sizeof packet.done);
	packet.done.result = (uint32_t)result;
	snprintf(packet.done.text, sizeof packet.done.text, "%s", text ? text : "");
	if (instance && !result)
		put_outputs(instance, &packet.done);
	packet.done.busy_ns = instance ? instance->busy_ns : 0;
	if (instance && result != INFERD_DELEGATE_UNFINISHED && !put_areas(instance, &faulted)) {
		packet.done.result = ET_PLUGIN_RESULT_FAULT;
		packet.done.n_outputs = 0;
		snprintf(packet.done.text, sizeof packet.done.text, "the memory of argument %u went away while it ran",
			faulted);
	}
	size_t n_bytes = sizeof packet.done + packet.done.n_outputs * sizeof packet.done.outputs[0];
	if (instance && instance->events) {
		packet.done.n_events = instance->n_events;
		memcpy(packet.bytes + n_bytes, instance->events, instance->n_events * sizeof *instance->events);
		n_bytes += instance->n_events * sizeof *instance->events;
		free(instance->events);
		instance->events = NULL;
	}
	packet.done.header = (struct et_plugin_header){ ET_PLUGIN_DONE, (uint32_t)n_bytes, id };
	/* order what this thread read of the instance before what the next run's thread writes */
	pthread_mutex_lock(&host->lock);
	pthread_mutex_unlock(&host->lock);
	int rc = et_plugin_send(host->options.calls, &packet, -1, 1);
	if (rc < 0 && rc != -EPIPE)
		atomic_store(&host->rc, rc);
}

/* Called under the lock. */
static struct instance *find_running(void *self)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &running) {
		struct instance *instance = ET_CONTAINER_OF(node, struct instance, running);
		if (instance->token == (uintptr_t)self)
			return instance;
	}
	return NULL;
}

/* Called under the lock: the count of cancel calls that a run of @instance could take for its own: the instance's,
 * or the model's if the plug-in has no instances. */
static uint32_t *n_cancelling(struct instance *instance)
{
	bool has_instances = instance->host->table->instance_new || !instance->model;
	return has_instances ? &instance->n_cancelling : &instance->model->n_cancelling;
}

/* Begin the run: give it a token, after cancel calls for the run before have returned. */
static void enter(struct instance *instance, bool is_submitted)
{
	pthread_mutex_lock(&running_lock);
	while (*n_cancelling(instance))
		pthread_cond_wait(&has_cancelled, &running_lock);
	instance->token = ++last_token;
	instance->is_submitted = is_submitted;
	instance->plugin_run.self = (void *)instance->token;
	et_list_append(&running, &instance->running);
	pthread_mutex_unlock(&running_lock);
}

/* Called under the lock, which is released meanwhile: ask the plug-in to end the run of @instance. The plug-in may call
 * done from within cancel. */
static void pass_cancel(struct instance *instance)
{
	const struct inferd_delegate *table = instance->host->table;
	if (!table->cancel)
		return;
	++*n_cancelling(instance);
	pthread_mutex_unlock(&running_lock);
	table->cancel(instance->model->plugin_model, instance->plugin_instance);
	pthread_mutex_lock(&running_lock);
	if (--*n_cancelling(instance) == 0)
		pthread_cond_broadcast(&has_cancelled);
}

/* The plug-in reports the end of a submitted run, from any thread. */
static void on_done(void *self, int result, const char *text)
{
	pthread_mutex_lock(&running_lock);
	struct instance *found = find_running(self);
	if (found && !found->is_submitted)
		found = NULL;
	if (found) {
		found->run_number = 0;
		et_list_remove(&found->running);
		found->host->n_ending++;
	}
	pthread_mutex_unlock(&running_lock);
	if (!found) {
		fprintf(stderr, "<4>the plug-in reported the end of a run that is not running (twice, or too late); "
				"this is ignored\n");
		return;
	}
	struct host *host = found->host;
	uint64_t run = found->run_id;
	found->run_id = 0;
	send_done(host, found, run, result, text);
	instance_put(found);
	pthread_mutex_lock(&running_lock);
	if (--host->n_ending == 0)
		pthread_cond_broadcast(&has_ended);
	pthread_mutex_unlock(&running_lock);
}

/* The plug-in reports a part of a profiled run, from any thread. An event that comes too late is ignored. */
static void on_event(void *self, const char *name, uint64_t ns)
{
	pthread_mutex_lock(&running_lock);
	struct instance *found = find_running(self);
	if (found && found->events && found->n_events < ET_PLUGIN_MAX_EVENTS) {
		struct et_plugin_event *event = &found->events[found->n_events++];
		event->ns = ns;
		snprintf(event->name, sizeof event->name, "%s", name ? name : "");
	}
	pthread_mutex_unlock(&running_lock);
}

/* The plug-in says how long the device worked on the run, from any thread. Too late is ignored. */
static void on_busy(void *self, uint64_t ns)
{
	pthread_mutex_lock(&running_lock);
	struct instance *found = find_running(self);
	if (found)
		et_add_up(&found->busy_ns, ns);
	pthread_mutex_unlock(&running_lock);
}

/* --- arguments ------------------------------------------------------------------------------------------- */

/* The data of tensors without bytes. */
static const _Alignas(64) uint8_t nothing[64];

static bool take_tensor(struct instance *instance, uint32_t i, const struct et_plugin_arg *from,
	struct inferd_delegate_arg *to)
{
	struct model *model = instance->model;
	if (from->n_dims > INFERD_DELEGATE_MAX_DIMS)
		return false;
	to->data = (void *)(uintptr_t)nothing;
	if (!from->n_bytes)
		return true;
	struct area *area = et_hosted_area_get(instance->host, from->memory, from->offset, from->n_bytes,
		from->is_output, model ? model->device : NO_DEVICE);
	if (!area)
		return false;
	instance->areas[i] = area;
	to->data = (uint8_t *)area->mapping.bytes + (from->offset - area->offset);
	to->fd = area->shared->fd;
	to->fd_offset = from->offset;
	to->buffer = area->buffer;
	to->buffer_offset = from->offset - area->offset;
	return true;
}

/* Turn the packet's arguments into those of the plug-in's interface. False: the packet is malformed, or memory
 * could not be mapped. */
static bool take_args(struct instance *instance, const struct et_plugin_run *run)
{
	if (run->n_args > ET_PLUGIN_MAX_ARGS ||
		run->header.n_bytes != sizeof *run + (uint64_t)run->n_args * sizeof run->args[0])
		return false;
	instance->n_args = run->n_args;
	memset(instance->areas, 0, run->n_args * sizeof *instance->areas);
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
		if (from->kind == INFERD_DELEGATE_TENSOR && !take_tensor(instance, i, from, to)) {
			uint32_t faulted;
			put_areas(instance, &faulted);
			return false;
		}
	}
	instance->plugin_run = (struct inferd_delegate_run){
		.struct_size = sizeof instance->plugin_run,
		.n_args = run->n_args,
		.args = instance->arg_pointers,
		.priority = run->priority,
		.busy = on_busy,
	};
	instance->n_events = 0;
	instance->busy_ns = 0;
	if (run->flags & INFERD_DELEGATE_PROFILE)
		instance->events = calloc(ET_PLUGIN_MAX_EVENTS, sizeof *instance->events);
	if (instance->events) {
		instance->plugin_run.flags = INFERD_DELEGATE_PROFILE;
		instance->plugin_run.event = on_event;
	}
	return true;
}

/* --- runs ------------------------------------------------------------------------------------------------ */

static void run_kernel(struct host *host, const struct et_plugin_run *run, struct instance *instance)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	int result = INFERD_DELEGATE_E_NOT_FOUND;
	snprintf(message.text, sizeof message.text, "there is no such kernel");
	if (run->kernel < host->table->n_kernels)
		result = host->table->kernels[run->kernel]->run(host->self, instance->arg_pointers, instance->n_args,
			&message);
	message.text[sizeof message.text - 1] = '\0';
	send_done(host, instance, run->header.id, result, message.text);
}

static void run_submit(struct host *host, const struct et_plugin_run *run, struct instance *instance)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	pthread_mutex_lock(&host->lock);
	instance->n_refs++; /* for the run, until its completion */
	pthread_mutex_unlock(&host->lock);
	instance->run_id = run->header.id;
	enter(instance, true);
	uintptr_t token = instance->token;
	instance->completion = (struct inferd_delegate_completion){
		.struct_size = sizeof instance->completion, .self = (void *)token, .done = on_done
	};
	int result = host->table->submit(instance->model->plugin_model, instance->plugin_instance,
		&instance->plugin_run, &instance->completion, &message);
	pthread_mutex_lock(&running_lock);
	bool is_running = instance->token == token && !et_list_is_empty(&instance->running);
	/* if it is not running, it has ended, and the instance may have its next run already */
	if (is_running && result) { /* refused; a completion that comes nevertheless finds no token */
		et_list_remove(&instance->running);
	} else if (is_running) {
		instance->run_number = run->kernel;
		if (instance->cancelled_run == run->kernel)
			pass_cancel(instance);
	}
	pthread_mutex_unlock(&running_lock);
	if (!result)
		return;
	if (!is_running) {
		fprintf(stderr, "<4>the plug-in refused a run that it also reported as ended\n");
		return;
	}
	message.text[sizeof message.text - 1] = '\0';
	instance->run_id = 0;
	send_done(host, instance, run->header.id, result, message.text);
	instance_put(instance);
}

/* The worker threads that @run names; made at their first run. */
static int find_threads(struct host *host, const struct et_plugin_run *run,
	struct inferd_delegate_worker_threads **ret_threads, struct inferd_delegate_message *message)
{
	*ret_threads = NULL;
	if (!run->threads)
		return INFERD_DELEGATE_OK;
	if (run->threads > ET_PLUGIN_MAX_THREADS || !host->table->threads_new)
		return INFERD_DELEGATE_E_INVALID;
	struct thread_set *set = &host->thread_sets[run->threads - 1];
	int result = INFERD_DELEGATE_OK;
	pthread_mutex_lock(&host->thread_sets_lock);
	if (set->threads && set->n_threads != run->n_threads) {
		host->table->threads_free(set->threads);
		set->threads = NULL;
	}
	if (!set->threads)
		result = host->table->threads_new(host->self, 0, run->n_threads, &set->threads, message);
	if (result)
		set->threads = NULL;
	set->n_threads = run->n_threads;
	*ret_threads = set->threads;
	pthread_mutex_unlock(&host->thread_sets_lock);
	return result;
}

static void run_execute(struct host *host, const struct et_plugin_run *run, struct instance *instance)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	int result = find_threads(host, run, &instance->plugin_run.threads, &message);
	instance->plugin_run.slice_ns = host->table->abandon ? run->slice_ns : 0;
	instance->plugin_run.flags |= run->flags & INFERD_DELEGATE_CONTINUES;
	enter(instance, false);
	pthread_mutex_lock(&running_lock);
	bool is_cancelled = instance->cancelled_run == run->kernel;
	bool may_run = !result && !is_cancelled;
	instance->run_number = may_run ? run->kernel : 0;
	pthread_mutex_unlock(&running_lock);
	if (!may_run && instance->unfinished_run)
		host->table->abandon(instance->model->plugin_model, instance->plugin_instance);
	if (!result && is_cancelled) {
		result = INFERD_DELEGATE_E_CANCELLED;
		snprintf(message.text, sizeof message.text, "cancelled before it began");
	}
	if (may_run)
		result = host->table->execute(instance->model->plugin_model, instance->plugin_instance,
			&instance->plugin_run, &message);
	pthread_mutex_lock(&running_lock);
	instance->run_number = 0;
	instance->unfinished_run = result == INFERD_DELEGATE_UNFINISHED ? run->kernel : 0;
	et_list_remove(&instance->running);
	pthread_mutex_unlock(&running_lock);
	message.text[sizeof message.text - 1] = '\0';
	send_done(host, instance, run->header.id, result, message.text);
}

/* Take the arguments of a new run, or find those of the unfinished one that continues. False: as take_args, or there is
 * no such run. */
static bool begin_or_continue(struct instance *instance, const struct et_plugin_run *run)
{
	pthread_mutex_lock(&running_lock);
	while (instance->is_abandoning)
		pthread_cond_wait(&has_cancelled, &running_lock);
	bool continues = run->flags & INFERD_DELEGATE_CONTINUES;
	uint32_t unfinished = instance->unfinished_run;
	if (!continues)
		instance->unfinished_run = 0;
	pthread_mutex_unlock(&running_lock);
	if (continues)
		return unfinished && unfinished == run->kernel;
	if (unfinished)
		abandon(instance);
	return take_args(instance, run);
}

void et_hosted_abandon(struct host *host, uint64_t id, uint32_t number)
{
	struct instance *instance = instance_get(host, id);
	if (!instance)
		return;
	pthread_mutex_lock(&running_lock);
	bool is_mine = number && instance->unfinished_run == number;
	if (is_mine) {
		instance->unfinished_run = 0;
		instance->is_abandoning = true;
	}
	pthread_mutex_unlock(&running_lock);
	if (is_mine) {
		abandon(instance);
		pthread_mutex_lock(&running_lock);
		instance->is_abandoning = false;
		pthread_cond_broadcast(&has_cancelled);
		pthread_mutex_unlock(&running_lock);
	}
	instance_put(instance);
}

void et_hosted_run(struct host *host, const struct et_plugin_run *run)
{
	struct instance *instance = instance_get(host, run->instance);
	if (!instance || instance->run_id || (run->model && !instance->model) || !begin_or_continue(instance, run))
		send_done(host, NULL, run->header.id, INFERD_DELEGATE_E_INVALID,
			"the host can't read the run's arguments, or has no room to map them");
	else if (!run->model)
		run_kernel(host, run, instance);
	else if (host->table->submit)
		run_submit(host, run, instance);
	else
		run_execute(host, run, instance);
	if (instance)
		instance_put(instance);
}

void et_hosted_cancel(struct host *host, uint64_t id, uint32_t number)
{
	struct instance *instance = instance_get(host, id);
	if (!instance)
		return;
	pthread_mutex_lock(&running_lock);
	bool is_running = instance->run_number == number && instance->cancelled_run != number;
	instance->cancelled_run = number;
	if (is_running && instance->model)
		pass_cancel(instance);
	pthread_mutex_unlock(&running_lock);
	instance_put(instance);
}

void et_hosted_instances_free(struct host *host)
{
	struct et_list_node *node, *after;
	pthread_mutex_lock(&running_lock);
	while (host->n_ending)
		pthread_cond_wait(&has_ended, &running_lock);
	pthread_mutex_unlock(&running_lock);
	ET_LIST_FOR_EACH(node, after, &host->instances) {
		struct instance *instance = ET_CONTAINER_OF(node, struct instance, node);
		/* a run that never ended: the plug-in may still write to its arguments, so nothing of it is freed */
		if (instance->run_id) {
			pthread_mutex_lock(&running_lock);
			et_list_remove(&instance->running);
			pthread_mutex_unlock(&running_lock);
			continue;
		}
		et_list_remove(&instance->node);
		instance_free(instance);
	}
}
