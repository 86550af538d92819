/* SPDX-License-Identifier: BSD-3-Clause */
/* Instances and runs of a plug-in.
 *
 * A tensor in memory that is shared with the host (shared_memory.c) is named by that memory's number and an offset,
 * and used where it lies. A tensor that lies elsewhere, is less aligned than the device needs, or overlaps another
 * argument is copied through the instance's stage, a memory file of its own; such bytes are counted. In the stage
 * each tensor has pages of its own and ends where they end (but for the alignment), with a page behind them that
 * can't be written.
 *
 * Clients of a model share its instances, and so their stages. An engine may leave an output unwritten, so a run
 * clears its staged outputs first. That costs less than the copy back, and the usual run stages nothing.
 *
 * An instance of an earlier host is made again when it is next run. A stateful instance whose host ended has lost
 * its state: its runs fail with ET_E_STATE_LOST until it is reset. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/convert.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, MAX_ALIGNMENT = 4096 };

struct et_worker_threads {
	struct et_backend *backend;
	uint32_t number, n_threads; /* for models with is_per_run: how runs name these threads; 0: they can't */
	_Atomic(uint64_t) n_bytes;  /* memory of the instances: stages, and scratch_bytes in the host */
};

/* Where an argument of a run lies. */
struct place {
	struct et_plugin_shared *shared; /* held from prepare until the run has ended; NULL: in the stage */
	size_t n_bytes;                  /* of the argument in this run */
	size_t capacity;                 /* of its part of the stage; 0: it never needed one */
	uint64_t offset;                 /* where that part ends in the stage */
};

struct et_instance {
	struct et_backend *backend;
	struct et_model *model;                      /* NULL: for a kernel */
	struct et_worker_threads *threads;           /* where its memory is counted; NULL: nowhere */
	const struct et_worker_threads *run_threads; /* of the next run, for models with is_per_run */
	uint32_t kernel;
	uint32_t n_runs;                   /* runs begun; the number of the last run, which a CANCEL names */
	uint64_t generation, id, model_id; /* the host that has the instance, and the numbers there; 0: none */
	bool has_state;                    /* it ran since it was made or reset */
	bool is_unfinished;                /* its run has had a time slice, and holds its places */
	struct et_instance *other;         /* the instance whose state it shares; NULL: none */
	uint32_t alignment, n_args;
	struct place *places;
	/* the stage */
	int stage_fd;
	uint8_t *stage_bytes;
	size_t n_stage_bytes;
	uint64_t stage_id; /* its number in the host; 0: not shared */
	/* the run */
	struct et_plugin_run *packet;
	struct et_plugin_call call;
	struct et_evalue *const *args;
	struct et_completion completion; /* done is NULL: et_plugin_run_and_wait reads status and diag */
	uint64_t n_copied, busy_ns;
	struct et_plugin_event *events; /* NULL: the run is not profiled */
	uint32_t n_events;
	enum et_status status;
	struct et_diag diag;
};

struct et_plugin_run *et_plugin_instance_packet(struct et_instance *instance)
{
	return instance->packet;
}

struct et_plugin_call *et_plugin_instance_call(struct et_instance *instance)
{
	return &instance->call;
}

struct et_backend *et_plugin_instance_backend(struct et_instance *instance)
{
	return instance->backend;
}

static enum et_status no_memory(struct et_diag *diag)
{
	et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for what a plug-in needs");
	return ET_E_MEMORY_ALLOCATION_FAILED; /* a constant, so that the compiler sees that it is not ET_OK */
}

/* Take the lowest number that is free, counted from 1; 0: none is. */
static uint32_t take_number(struct et_backend *b)
{
	for (uint32_t i = 0; i < ET_PLUGIN_MAX_THREADS / 64; i++) {
		uint64_t before = atomic_load_explicit(&b->thread_sets[i], memory_order_relaxed);
		while (~before)
			/* acquire: pairs with the release in threads_free */
			if (atomic_compare_exchange_weak_explicit(&b->thread_sets[i], &before, before | (before + 1),
				    memory_order_acquire, memory_order_relaxed))
				return 64 * i + (uint32_t)__builtin_ctzll(~before) + 1;
	}
	return 0;
}

static enum et_status threads_new(struct et_backend *b, uint32_t device, uint32_t n_threads,
	struct et_worker_threads **ret_threads, struct et_diag *diag)
{
	struct et_worker_threads *threads = calloc(1, sizeof *threads);
	if (!threads)
		return no_memory(diag);
	threads->backend = b;
	threads->number = take_number(b);
	threads->n_threads = n_threads;
	*ret_threads = threads;
	return ET_OK;
}

static void threads_free(struct et_worker_threads *threads)
{
	uint32_t bit = threads->number - 1;
	if (threads->number)
		atomic_fetch_and_explicit(&threads->backend->thread_sets[bit / 64], ~(UINT64_C(1) << bit % 64),
			memory_order_release);
	free(threads);
}

static uint64_t threads_bytes(const struct et_worker_threads *threads)
{
	return atomic_load_explicit(&threads->n_bytes, memory_order_relaxed);
}

/* --- instances -------------------------------------------------------------------------------------- */

/* Add @n_more to the memory of the worker threads; a negative number wraps. */
static void count(struct et_instance *instance, uint64_t n_more)
{
	if (instance->threads)
		atomic_fetch_add_explicit(&instance->threads->n_bytes, n_more, memory_order_relaxed);
}

static void drop_stage(struct et_instance *instance)
{
	if (instance->stage_bytes) {
		munmap(instance->stage_bytes, instance->n_stage_bytes);
		count(instance, -(uint64_t)instance->n_stage_bytes);
	}
	if (instance->stage_fd >= 0)
		close(instance->stage_fd);
	et_plugin_forget(instance->backend, instance->generation, instance->stage_id);
	instance->stage_bytes = NULL;
	instance->stage_fd = -1;
	instance->stage_id = 0;
}

static void instance_free(struct et_instance *instance)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_FREE, sizeof handle, 0 },
		.instance = instance->id };
	if (instance->generation)
		et_plugin_tell(instance->backend, instance->generation, &handle);
	drop_stage(instance);
	if (instance->model)
		count(instance, -(uint64_t)instance->model->init_answer.scratch_bytes);
	free(instance->places);
	free(instance->packet);
	free(instance);
}

enum et_status et_plugin_instance_make(struct et_backend *b, struct et_model *model, uint32_t kernel, uint32_t n_args,
	struct et_instance **ret, struct et_diag *diag)
{
	struct et_instance *instance = calloc(1, sizeof *instance);
	if (!instance)
		return no_memory(diag);
	instance->backend = b;
	instance->model = model;
	instance->kernel = kernel;
	instance->stage_fd = -1;
	instance->n_args = n_args;
	uint32_t alignment = model ? b->facts.devices[model->init_answer.device].alignment : 0;
	bool is_sane = alignment && alignment <= MAX_ALIGNMENT && !(alignment & (alignment - 1));
	instance->alignment = is_sane ? alignment : ALIGNMENT;
	instance->places = calloc(n_args + 1, sizeof *instance->places);
	instance->packet = calloc(1, sizeof *instance->packet + n_args * sizeof instance->packet->args[0]);
	et_list_init(&instance->call.node);
	if (!instance->places || !instance->packet) {
		instance_free(instance);
		return no_memory(diag);
	}
	*ret = instance;
	return ET_OK;
}

/* Make a call whose answer is only a result. */
static enum et_status ask(struct et_backend *b, uint64_t generation, void *packet, int fd, struct et_diag *diag)
{
	struct et_plugin_answer answer;
	enum et_status status = et_plugin_ask(b, generation, packet, fd, &answer, sizeof answer, NULL, diag);
	if (status)
		return status;
	answer.text[sizeof answer.text - 1] = '\0';
	return et_plugin_status(answer.result, answer.text, diag);
}

/* Make the instance in the present host, if that does not have it; start a host if there is none. */
static enum et_status ensure_in_host(struct et_instance *instance, uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = instance->model && instance->backend->runs_programs
					? et_plugin_revive(instance->model, ret_generation, diag)
					: et_plugin_ensure_host(instance->backend, ret_generation, diag);
	if (status || instance->generation == *ret_generation)
		return status;
	if (instance->has_state && instance->model && (instance->model->init_answer.flags & INFERD_DELEGATE_STATEFUL))
		return et_fail(diag, ET_E_STATE_LOST,
			"the host process of backend '%.60s' was started again, and the state is lost",
			instance->backend->ops.name);
	uint64_t model_id = 0;
	if (instance->model)
		status = et_plugin_load(instance->model, *ret_generation, &model_id, diag);
	if (status)
		return status;
	struct et_instance *other = instance->other;
	if (other) { /* it has to be there first */
		uint64_t generation;
		status = ensure_in_host(other, &generation, diag);
		if (!status && generation != *ret_generation)
			status = et_fail(diag, ET_E_BACKEND_CRASHED, "its process ended");
		if (status)
			return status;
	}
	struct et_plugin_handle handle = { .header = { other ? ET_PLUGIN_INSTANCE_WITH : ET_PLUGIN_INSTANCE_NEW,
						   sizeof handle, 0 },
		.model = model_id,
		.instance = et_plugin_new_handle(instance->backend),
		.other = other ? other->id : 0 };
	status = ask(instance->backend, *ret_generation, &handle, -1, diag);
	if (status)
		return status;
	drop_stage(instance);
	instance->id = handle.instance;
	instance->model_id = model_id;
	instance->generation = *ret_generation;
	return ET_OK;
}

static enum et_status instance_with(struct et_model *model, struct et_instance *other,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	enum et_status status = et_plugin_instance_make(model->backend, model, 0,
		model->init_answer.n_inputs + model->init_answer.n_outputs, ret_instance, diag);
	if (!status)
		(*ret_instance)->other = other;
	return status;
}

static void use_threads(struct et_instance *instance, struct et_worker_threads *threads)
{
	instance->run_threads = threads;
}

static enum et_status instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	struct et_instance *instance = NULL;
	uint64_t generation;
	enum et_status status = et_plugin_instance_make(model->backend, model, 0,
		model->init_answer.n_inputs + model->init_answer.n_outputs, &instance, diag);
	if (status)
		return status;
	instance->threads = threads;
	count(instance, model->init_answer.scratch_bytes);
	status = ensure_in_host(instance, &generation, diag);
	if (status) {
		instance_free(instance);
		return status;
	}
	*ret_instance = instance;
	return ET_OK;
}

static enum et_status instance_reset(struct et_instance *instance)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_RESET, sizeof handle, 0 },
		.instance = instance->id };
	struct et_diag diag = { "" };
	uint64_t generation;
	instance->has_state = false;
	if (instance->other)
		instance->other->has_state = false;
	enum et_status status = et_plugin_ensure_host(instance->backend, &generation, &diag);
	if (status || generation != instance->generation)
		return ET_OK; /* a new instance has no state */
	status = ask(instance->backend, instance->generation, &handle, -1, &diag);
	return status == ET_E_BACKEND_CRASHED ? ET_OK : status;
}

/* --- where arguments lie ------------------------------------------------------------------------------- */

/* Whether output @i shares bytes with another argument. The plug-in may rely on outputs that do not. */
static bool overlaps(const struct et_instance *instance, struct et_evalue *const *args, uint32_t i)
{
	uintptr_t start = (uintptr_t)args[i]->tensor->data;
	for (uint32_t k = 0; k < instance->n_args; k++) {
		if (k == i || args[k]->tag != ET_TAG_TENSOR)
			continue;
		uintptr_t other = (uintptr_t)args[k]->tensor->data;
		if (start < other + instance->places[k].n_bytes && other < start + instance->places[i].n_bytes)
			return true;
	}
	return false;
}

/* The run has ended, or does not begin: put shared memory back. */
static void put_places(struct et_instance *instance)
{
	for (uint32_t i = 0; i < instance->n_args; i++) {
		if (instance->places[i].shared)
			et_plugin_put_memory(instance->backend, instance->places[i].shared);
		instance->places[i].shared = NULL;
	}
}

/* Find out where each argument lies. True: the stage has to grow. */
static bool find_places(struct et_instance *instance, struct et_evalue *const *args, uint32_t n_inputs)
{
	bool must_grow = false;
	for (uint32_t i = 0; i < instance->n_args; i++)
		instance->places[i].n_bytes = args[i]->tag == ET_TAG_TENSOR
						      ? et_convert_arg_n_bytes(args[i]->tensor, i >= n_inputs)
						      : 0;
	for (uint32_t i = 0; i < instance->n_args; i++) {
		struct place *place = &instance->places[i];
		place->shared = NULL;
		if (!place->n_bytes)
			continue;
		const void *data = args[i]->tensor->data;
		if (i < n_inputs || !overlaps(instance, args, i))
			place->shared = et_plugin_find_memory(instance->backend, data, place->n_bytes);
		if (place->shared && ((uintptr_t)data - place->shared->start) % instance->alignment) {
			et_plugin_put_memory(instance->backend, place->shared);
			place->shared = NULL;
		}
		must_grow |= !place->shared && place->n_bytes > place->capacity;
	}
	return must_grow;
}

/* Share memory that the host does not have yet. */
static enum et_status show_places(struct et_instance *instance, struct et_diag *diag)
{
	for (uint32_t i = 0; i < instance->n_args; i++) {
		struct et_plugin_shared *shared = instance->places[i].shared;
		enum et_status status = shared ? et_plugin_show_memory(instance->backend, instance->generation, shared,
							 diag)
					       : ET_OK;
		if (status)
			return status;
	}
	return ET_OK;
}

/* Make a stage with room for the arguments that go through it in this run, and for those that ever did. */
static enum et_status make_stage(struct et_instance *instance, struct et_diag *diag)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = 0, n;
	drop_stage(instance);
	for (uint32_t i = 0; i < instance->n_args; i++) {
		struct place *place = &instance->places[i];
		if (!place->shared && place->n_bytes > place->capacity)
			place->capacity = place->n_bytes;
		if (!et_align_up(place->capacity, page, &n) || !et_add(at, n, &at))
			return no_memory(diag);
		place->offset = at;
	}
	instance->n_stage_bytes = at;
	instance->stage_fd = et_plugin_memory("inferd-stage", instance->n_stage_bytes);
	void *bytes = instance->stage_fd < 0 ? MAP_FAILED
					     : mmap(NULL, instance->n_stage_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
						       instance->stage_fd, 0);
	if (bytes == MAP_FAILED)
		return no_memory(diag);
	instance->stage_bytes = bytes;
	count(instance, instance->n_stage_bytes);
	uint64_t id = et_plugin_new_handle(instance->backend);
	enum et_status status = et_plugin_show(instance->backend, instance->generation, id, instance->stage_fd,
		instance->n_stage_bytes, diag);
	if (!status)
		instance->stage_id = id;
	return status;
}

/* --- runs ------------------------------------------------------------------------------------------- */

static enum et_status fill_tensor(struct et_instance *instance, uint32_t i, const struct et_tensor *tensor,
	bool is_output)
{
	struct et_plugin_arg *to = &instance->packet->args[i];
	const struct place *place = &instance->places[i];
	size_t room;
	to->type = tensor->type;
	to->n_dims = tensor->n_dims;
	memcpy(to->sizes, tensor->sizes, tensor->n_dims * sizeof *tensor->sizes);
	memcpy(to->dim_order, tensor->dim_order, tensor->n_dims);
	to->n_bytes = place->n_bytes;
	if (!place->n_bytes)
		return ET_OK;
	if (place->shared) {
		to->memory = place->shared->id;
		to->offset = (uintptr_t)tensor->data - place->shared->start;
		return ET_OK;
	}
	if (!et_align_up(place->n_bytes, instance->alignment, &room))
		return ET_E_INTERNAL;
	to->memory = instance->stage_id;
	to->offset = place->offset - room; /* so that the tensor ends at the guard page */
	uint8_t *staged = instance->stage_bytes + to->offset;
	size_t n_input = is_output ? 0 : place->n_bytes;
	if (n_input)
		memcpy(staged, tensor->data, n_input);
	memset(staged + n_input, 0, room - n_input); /* another client's run may have left its bytes here */
	instance->n_copied += n_input;
	return ET_OK;
}

/* The worker threads of the run, and its time slice: only engines that are inferd's own have them. */
static void name_threads(struct et_instance *instance)
{
	enum { SLICE_NS = 5 * 1000 * 1000 };
	if (!instance->model || !(instance->model->init_answer.flags & INFERD_DELEGATE_THREADS_OF_RUN))
		return;
	instance->packet->threads = instance->run_threads->number;
	instance->packet->n_threads = instance->run_threads->n_threads;
	instance->packet->slice_ns = SLICE_NS;
}

static enum et_status fill(struct et_instance *instance, struct et_evalue *const *args, uint32_t n_inputs,
	struct et_diag *diag)
{
	memset(instance->packet, 0, sizeof *instance->packet + instance->n_args * sizeof instance->packet->args[0]);
	instance->packet->header = (struct et_plugin_header){ ET_PLUGIN_RUN,
		(uint32_t)(sizeof *instance->packet + instance->n_args * sizeof instance->packet->args[0]), 0 };
	instance->packet->model = instance->model_id;
	instance->packet->instance = instance->id;
	instance->packet->kernel = instance->model ? ++instance->n_runs : instance->kernel;
	instance->packet->n_args = instance->n_args;
	name_threads(instance);
	for (uint32_t i = 0; i < instance->n_args; i++) {
		struct et_plugin_arg *to = &instance->packet->args[i];
		to->is_output = i >= n_inputs;
		to->kind = args[i]->tag;
		switch (args[i]->tag) {
		case ET_TAG_TENSOR:
			if (fill_tensor(instance, i, args[i]->tensor, i >= n_inputs))
				return no_memory(diag);
			break;
		case ET_TAG_INT:
			to->i = args[i]->i;
			break;
		case ET_TAG_BOOL:
			to->i = args[i]->b;
			break;
		case ET_TAG_DOUBLE:
			to->d = args[i]->d;
			break;
		case ET_TAG_NONE:
			break;
		default:
			return et_fail(diag, ET_E_NOT_SUPPORTED, "argument %u is a %s, which plug-ins do not take", i,
				et_tag_name((enum et_tag)args[i]->tag));
		}
	}
	return ET_OK;
}

static enum et_status prepare(struct et_instance *instance, struct et_evalue *const *args, uint32_t n_inputs,
	uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = ensure_in_host(instance, ret_generation, diag);
	if (status)
		return status;
	instance->n_copied = instance->busy_ns = 0;
	instance->n_events = 0;
	bool must_grow = find_places(instance, args, n_inputs), is_staged = false;
	for (uint32_t i = 0; i < instance->n_args; i++)
		is_staged |= instance->places[i].n_bytes && !instance->places[i].shared;
	status = show_places(instance, diag);
	if (!status && (must_grow || (is_staged && !instance->stage_id)))
		status = make_stage(instance, diag);
	if (!status)
		status = fill(instance, args, n_inputs, diag);
	if (status)
		put_places(instance);
	instance->args = args;
	return status;
}

/* Make the packet that continues the unfinished run. */
static enum et_status go_on(struct et_instance *instance, uint64_t *ret_generation, struct et_diag *diag)
{
	struct et_backend *b = instance->backend;
	pthread_mutex_lock(&b->lock);
	bool is_there = b->phase == ET_PLUGIN_UP && b->generation == instance->generation;
	pthread_mutex_unlock(&b->lock);
	if (!is_there) {
		instance->is_unfinished = false;
		put_places(instance);
		return et_fail(diag, ET_E_BACKEND_CRASHED, "the process of backend '%.60s' ended between two slices",
			b->ops.name);
	}
	instance->packet->header.n_bytes = sizeof *instance->packet;
	instance->packet->n_args = 0;
	instance->packet->flags = INFERD_DELEGATE_CONTINUES;
	name_threads(instance);
	*ret_generation = instance->generation;
	return ET_OK;
}

static void abandon(struct et_instance *instance)
{
	struct et_plugin_handle handle = {
		.header = { ET_PLUGIN_ABANDON, sizeof handle, 0 }, .model = instance->n_runs, .instance = instance->id
	};
	if (!instance->is_unfinished)
		return;
	instance->is_unfinished = false;
	et_plugin_tell(instance->backend, instance->generation, &handle);
	put_places(instance);
}

static enum et_status enqueue(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	uint64_t generation;
	if (instance->run_threads && !instance->run_threads->number)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES, "there are more than %d sets of worker threads",
			ET_PLUGIN_MAX_THREADS);
	enum et_status status = instance->is_unfinished ? go_on(instance, &generation, diag)
							: prepare(instance, args, instance->model->init_answer.n_inputs,
								  &generation, diag);
	if (status)
		return status;
	instance->completion = *completion;
	instance->packet->priority = completion->priority;
	instance->has_state = true;
	instance->is_unfinished = false;
	status = et_plugin_start_run(instance->backend, generation, instance, completion->will_wait, diag);
	if (status != ET_PENDING)
		put_places(instance);
	return status;
}

enum et_status et_plugin_run_and_wait(struct et_instance *instance, struct et_evalue *const *args, uint32_t n_inputs,
	uint32_t flags, struct et_diag *diag)
{
	uint64_t generation;
	enum et_status status = prepare(instance, args, n_inputs, &generation, diag);
	if (status)
		return status;
	instance->completion = (struct et_completion){ .will_wait = true };
	instance->packet->flags = flags;
	instance->packet->slice_ns = 0;
	instance->has_state = true;
	status = et_plugin_start_run(instance->backend, generation, instance, true, diag);
	if (status != ET_PENDING) {
		put_places(instance);
		return status;
	}
	et_plugin_wait(instance->backend, instance, 0);
	if (instance->status)
		et_fail(diag, instance->status, "%s",
			instance->diag.text[0] ? instance->diag.text : et_status_text(instance->status));
	return instance->status;
}

static enum et_status profile(struct et_instance *instance, struct et_evalue *const *args, const struct et_trace *trace,
	uint32_t instruction, struct et_diag *diag)
{
	instance->events = calloc(ET_PLUGIN_MAX_EVENTS, sizeof *instance->events);
	trace->begin(trace->self, instruction);
	enum et_status status = et_plugin_run_and_wait(instance, args, instance->model->init_answer.n_inputs,
		instance->events ? INFERD_DELEGATE_PROFILE : 0, diag);
	trace->end(trace->self, instruction);
	for (uint32_t i = 0; i < instance->n_events && !status; i++) {
		instance->events[i].name[sizeof instance->events[i].name - 1] = '\0';
		trace->part(trace->self, instance->events[i].name, instance->events[i].ns);
	}
	free(instance->events);
	instance->events = NULL;
	return status;
}

void et_plugin_instance_cancel(struct et_instance *instance)
{
	struct et_plugin_handle handle = {
		.header = { ET_PLUGIN_CANCEL, sizeof handle, 0 }, .model = instance->n_runs, .instance = instance->id
	};
	if (instance->model && (instance->backend->facts.flags & ET_PLUGIN_HAS_CANCEL))
		et_plugin_tell(instance->backend, instance->generation, &handle);
	et_plugin_hurry(instance->backend, instance);
}

static void wait_for_run(struct et_instance *instance, uint64_t cancel_ns)
{
	et_plugin_wait(instance->backend, instance, cancel_ns);
}

static uint64_t copied_bytes(const struct et_instance *instance)
{
	return instance->n_copied;
}

static uint64_t busy_ns(const struct et_instance *instance)
{
	return instance->busy_ns;
}

/* --- the end of a run ------------------------------------------------------------------------------- */

/* The kinds of the wire are ExecuTorch's tags. */
static bool is_number(uint32_t tag)
{
	return tag == ET_TAG_NONE || tag == ET_TAG_INT || tag == ET_TAG_BOOL || tag == ET_TAG_DOUBLE;
}

/* Take over the sizes and values of the outputs, and copy those that were staged. */
static enum et_status take_outputs(struct et_instance *instance, const struct et_plugin_done *done,
	struct et_diag *diag)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < instance->n_args; i++) {
		const struct et_plugin_arg *arg = &instance->packet->args[i];
		if (!arg->is_output)
			continue;
		if (n >= done->n_outputs)
			return et_fail(diag, ET_E_INTERNAL, "the host process returned only %u outputs",
				done->n_outputs);
		const struct et_plugin_output *from = &done->outputs[n++];
		struct et_evalue *to = instance->args[i];
		if (instance->backend->runs_programs && is_number(to->tag) && is_number(from->kind))
			to->tag = (uint8_t)from->kind;
		enum et_status status = et_convert_output(to, from->sizes, from->i, from->d, arg->n_bytes, n - 1, diag);
		if (status)
			return status;
		size_t n_bytes = to->tag == ET_TAG_TENSOR ? et_tensor_n_bytes(to->tensor) : 0;
		if (!n_bytes || instance->places[i].shared)
			continue;
		memcpy(to->tensor->data, instance->stage_bytes + arg->offset, n_bytes);
		instance->n_copied += n_bytes;
	}
	return ET_OK;
}

static bool is_whole(const struct et_plugin_done *done)
{
	return done->n_outputs <= ET_PLUGIN_MAX_ARGS && done->n_events <= ET_PLUGIN_MAX_EVENTS &&
	       done->header.n_bytes == sizeof *done + (uint64_t)done->n_outputs * sizeof done->outputs[0] +
					       (uint64_t)done->n_events * sizeof(struct et_plugin_event);
}

static void take_events(struct et_instance *instance, const struct et_plugin_done *done)
{
	memcpy(instance->events, &done->outputs[done->n_outputs], done->n_events * sizeof *instance->events);
	instance->n_events = done->n_events;
}

void et_plugin_run_ended(struct et_instance *instance, const struct et_plugin_done *done, enum et_status status,
	const char *reason)
{
	struct et_diag diag = { "" };
	if (reason)
		et_fail(&diag, status, "%.300s", reason);
	if (done && !is_whole(done)) {
		status = et_fail(&diag, ET_E_INTERNAL, "the host process returned an answer that can't be read");
	} else if (done) {
		char text[sizeof done->text];
		memcpy(text, done->text, sizeof text);
		text[sizeof text - 1] = '\0';
		bool is_over = done->result != INFERD_DELEGATE_UNFINISHED || !instance->packet->slice_ns;
		status = is_over ? et_plugin_status(done->result, text, &diag) : ET_UNFINISHED;
		if (!status)
			status = take_outputs(instance, done, &diag);
		if (!status && instance->events)
			take_events(instance, done);
		instance->busy_ns = done->busy_ns;
		et_plugin_note_run(instance->backend, instance->n_copied, done->result == INFERD_DELEGATE_E_LOST);
	}
	instance->is_unfinished = status == ET_UNFINISHED;
	if (!instance->is_unfinished)
		put_places(instance);
	/* a copy, since the instance may be used again before done returns */
	struct et_completion completion = instance->completion;
	if (completion.done) {
		completion.done(completion.self, status, diag.text[0] ? diag.text : NULL);
		return;
	}
	instance->status = status;
	instance->diag = diag;
}

const struct et_delegate_ops et_plugin_ops = {
	.is_elsewhere = true,
	.compile = et_plugin_compile,
	.model_free = et_plugin_model_free,
	.threads_new = threads_new,
	.threads_free = threads_free,
	.threads_bytes = threads_bytes,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.instance_reset = instance_reset,
	.instance_with = instance_with,
	.use_threads = use_threads,
	.abandon = abandon,
	.enqueue = enqueue,
	.cancel = et_plugin_instance_cancel,
	.give_way = et_plugin_give_way,
	.wait = wait_for_run,
	.import_memory = et_plugin_import_memory,
	.release_memory = et_plugin_release_memory,
	.profile = profile,
	.copied_bytes = copied_bytes,
	.busy_ns = busy_ns,
	.probe = et_plugin_probe_payload,
	.health = et_plugin_health,
	.restart = et_plugin_restart,
	.await_restart = et_plugin_await_restart,
};
