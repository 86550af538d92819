/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and runs of a plug-in, over there.
 *
 * Tensors are used where they lie: in memory that the host shares (shared_memory.c), by its number and an offset. What lies
 * elsewhere, does not have the alignment that the device wants, or overlaps another argument goes through the context's
 * stage, a memory file of its own, and is copied, which is counted. In the stage each tensor ends at the end of whole
 * pages of its own (but for the alignment), with a page behind them that can't be written.
 *
 * A context of an earlier host is made again when it is next run. A stateful one whose host died has lost its state and
 * says so until it is reset. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/interface.h"
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
	_Atomic(uint64_t) n_bytes; /* of its contexts: stages here, and what each takes in the host process */
};

/* Where an argument lies for the host. */
struct place {
	struct et_plugin_shared *shared; /* held from prepare until the run has ended; NULL: in the stage */
	size_t n_bytes;                  /* of the argument now */
	size_t capacity;                 /* of its part of the stage, once it was there */
	uint64_t offset;                 /* of that part's end in the stage */
};

struct et_instance {
	struct et_backend *backend;
	struct et_model *model;            /* NULL: for a kernel */
	struct et_worker_threads *threads; /* NULL: of none */
	uint32_t kernel;
	uint32_t n_runs;                   /* begun; the last one's number, for a cancel */
	uint64_t generation, id, model_id; /* of the host, and its numbers there */
	bool has_state;                    /* ran since it was new or reset */
	uint32_t alignment, n_args;
	struct place *places;
	/* the stage */
	int fd;
	uint8_t *bytes;
	size_t n_bytes;
	uint64_t stage; /* its number there */
	/* the run */
	struct et_plugin_run *packet;
	struct et_plugin_call call;
	struct et_evalue *const *args;
	struct et_completion completion; /* done is NULL where somebody waits for status */
	uint64_t n_copied;
	struct et_plugin_event *events; /* of a run that is profiled */
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

static enum et_status no_memory(struct et_diag *diag)
{
	et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for what a plug-in needs");
	return ET_E_MEMORY_ALLOCATION_FAILED; /* said here, so that a compiler sees that it is not ET_OK */
}

static enum et_status threads_new(struct et_backend *b, uint32_t device, uint32_t n_threads,
	struct et_worker_threads **ret_threads, struct et_diag *diag)
{
	struct et_worker_threads *threads = calloc(1, sizeof *threads);
	if (!threads)
		return no_memory(diag);
	threads->backend = b;
	*ret_threads = threads;
	return ET_OK;
}

static void threads_free(struct et_worker_threads *threads)
{
	free(threads);
}

static uint64_t threads_bytes(const struct et_worker_threads *threads)
{
	return atomic_load_explicit(&threads->n_bytes, memory_order_relaxed);
}

/* --- contexts --------------------------------------------------------------------------------------- */

/* Wraps where @n_more means less. */
static void count(struct et_instance *c, uint64_t n_more)
{
	if (c->threads)
		atomic_fetch_add_explicit(&c->threads->n_bytes, n_more, memory_order_relaxed);
}

static void drop_stage(struct et_instance *c)
{
	if (c->bytes) {
		munmap(c->bytes, c->n_bytes);
		count(c, -(uint64_t)c->n_bytes);
	}
	if (c->fd >= 0)
		close(c->fd);
	et_plugin_forget(c->backend, c->generation, c->stage);
	c->bytes = NULL;
	c->fd = -1;
	c->stage = 0;
}

static void instance_free(struct et_instance *c)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_FREE, sizeof handle, 0 }, .instance = c->id };
	if (c->generation)
		et_plugin_tell(c->backend, c->generation, &handle);
	drop_stage(c);
	if (c->model)
		count(c, -(uint64_t)c->model->facts.scratch_bytes);
	free(c->places);
	free(c->packet);
	free(c);
}

enum et_status et_plugin_instance_make(struct et_backend *b, struct et_model *model, uint32_t kernel, uint32_t n_args,
	struct et_instance **ret, struct et_diag *diag)
{
	struct et_instance *c = calloc(1, sizeof *c);
	if (!c)
		return no_memory(diag);
	c->backend = b;
	c->model = model;
	c->kernel = kernel;
	c->fd = -1;
	c->n_args = n_args;
	uint32_t alignment = model ? b->facts.devices[model->facts.device].alignment : 0;
	bool is_sane = alignment && alignment <= MAX_ALIGNMENT && !(alignment & (alignment - 1));
	c->alignment = is_sane ? alignment : ALIGNMENT;
	c->places = calloc(n_args + 1, sizeof *c->places);
	c->packet = calloc(1, sizeof *c->packet + n_args * sizeof c->packet->args[0]);
	et_list_init(&c->call.node);
	if (!c->places || !c->packet) {
		instance_free(c);
		return no_memory(diag);
	}
	*ret = c;
	return ET_OK;
}

/* Ask something that is answered by nothing but a result. */
static enum et_status ask(struct et_backend *b, uint64_t generation, void *packet, int fd, struct et_diag *diag)
{
	struct et_plugin_answer answer;
	enum et_status status = et_plugin_ask(b, generation, packet, fd, &answer, sizeof answer, NULL, diag);
	if (status)
		return status;
	answer.text[sizeof answer.text - 1] = '\0';
	return et_plugin_status(answer.result, answer.text, diag);
}

/* The context in the host that is there now. */
static enum et_status revive(struct et_instance *c, uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = et_plugin_up(c->backend, ret_generation, diag);
	if (status || c->generation == *ret_generation)
		return status;
	if (c->has_state && c->model && (c->model->facts.flags & INFERD_DELEGATE_STATEFUL))
		return et_fail(diag, ET_E_STATE_LOST,
			"the host process of backend '%.60s' was started again, the state is "
			"lost",
			c->backend->ops.name);
	uint64_t model_id = 0;
	if (c->model)
		status = et_plugin_load(c->model, *ret_generation, &model_id, diag);
	if (status)
		return status;
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_NEW, sizeof handle, 0 },
		.model = model_id,
		.instance = et_plugin_new_handle(c->backend) };
	status = ask(c->backend, *ret_generation, &handle, -1, diag);
	if (status)
		return status;
	drop_stage(c);
	c->id = handle.instance;
	c->model_id = model_id;
	c->generation = *ret_generation;
	return ET_OK;
}

static enum et_status instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	struct et_instance *c = NULL;
	uint64_t generation;
	enum et_status status = et_plugin_instance_make(model->backend, model, 0,
		model->facts.n_inputs + model->facts.n_outputs, &c, diag);
	if (status)
		return status;
	c->threads = threads;
	count(c, model->facts.scratch_bytes);
	status = revive(c, &generation, diag);
	if (status) {
		instance_free(c);
		return status;
	}
	*ret_instance = c;
	return ET_OK;
}

static enum et_status instance_reset(struct et_instance *c)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_RESET, sizeof handle, 0 },
		.instance = c->id };
	struct et_diag diag = { "" };
	uint64_t generation;
	c->has_state = false;
	enum et_status status = et_plugin_up(c->backend, &generation, &diag);
	if (status || generation != c->generation)
		return ET_OK; /* a new instance has no state */
	status = ask(c->backend, c->generation, &handle, -1, &diag);
	return status == ET_E_BACKEND_CRASHED ? ET_OK : status;
}

/* --- where arguments lie ------------------------------------------------------------------------------- */

/* Whether output @i shares bytes with an argument: the plug-in has been promised that it does not. */
static bool overlaps(const struct et_instance *c, struct et_evalue *const *args, uint32_t i)
{
	uintptr_t start = (uintptr_t)args[i]->tensor->data;
	for (uint32_t k = 0; k < c->n_args; k++) {
		if (k == i || args[k]->tag != ET_TAG_TENSOR)
			continue;
		uintptr_t other = (uintptr_t)args[k]->tensor->data;
		if (start < other + c->places[k].n_bytes && other < start + c->places[i].n_bytes)
			return true;
	}
	return false;
}

/* The run has ended, or is not to be. */
static void put_places(struct et_instance *c)
{
	for (uint32_t i = 0; i < c->n_args; i++) {
		if (c->places[i].shared)
			et_plugin_put_memory(c->backend, c->places[i].shared);
		c->places[i].shared = NULL;
	}
}

/* Find a place for each. True: the stage has to grow first. */
static bool find_places(struct et_instance *c, struct et_evalue *const *args, uint32_t n_inputs)
{
	bool must_grow = false;
	for (uint32_t i = 0; i < c->n_args; i++)
		c->places[i].n_bytes = args[i]->tag == ET_TAG_TENSOR
					       ? et_interface_n_bytes(args[i]->tensor, i >= n_inputs)
					       : 0;
	for (uint32_t i = 0; i < c->n_args; i++) {
		struct place *place = &c->places[i];
		place->shared = NULL;
		if (!place->n_bytes)
			continue;
		const void *data = args[i]->tensor->data;
		if (i < n_inputs || !overlaps(c, args, i))
			place->shared = et_plugin_find_memory(c->backend, data, place->n_bytes);
		if (place->shared && ((uintptr_t)data - place->shared->start) % c->alignment) {
			et_plugin_put_memory(c->backend, place->shared);
			place->shared = NULL;
		}
		must_grow |= !place->shared && place->n_bytes > place->capacity;
	}
	return must_grow;
}

/* Show the host what memory it does not know yet. */
static enum et_status show_places(struct et_instance *c, struct et_diag *diag)
{
	for (uint32_t i = 0; i < c->n_args; i++) {
		struct et_plugin_shared *shared = c->places[i].shared;
		enum et_status status = shared ? et_plugin_show_memory(c->backend, c->generation, shared, diag) : ET_OK;
		if (status)
			return status;
	}
	return ET_OK;
}

/* A stage with room for what is to lie there now, and for what ever did. */
static enum et_status make_stage(struct et_instance *c, struct et_diag *diag)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = 0, n;
	drop_stage(c);
	for (uint32_t i = 0; i < c->n_args; i++) {
		struct place *place = &c->places[i];
		if (!place->shared && place->n_bytes > place->capacity)
			place->capacity = place->n_bytes;
		if (!et_align_up(place->capacity, page, &n) || !et_add(at, n, &at))
			return no_memory(diag);
		place->offset = at;
	}
	c->n_bytes = at;
	c->fd = et_plugin_memory("inferd-stage", c->n_bytes);
	void *bytes = c->fd < 0 ? MAP_FAILED : mmap(NULL, c->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (bytes == MAP_FAILED)
		return no_memory(diag);
	c->bytes = bytes;
	count(c, c->n_bytes);
	uint64_t id = et_plugin_new_handle(c->backend);
	enum et_status status = et_plugin_show(c->backend, c->generation, id, c->fd, c->n_bytes, diag);
	if (!status)
		c->stage = id;
	return status;
}

/* --- runs ------------------------------------------------------------------------------------------- */

static enum et_status fill_tensor(struct et_instance *c, uint32_t i, const struct et_tensor *tensor, bool is_output)
{
	struct et_plugin_arg *to = &c->packet->args[i];
	const struct place *place = &c->places[i];
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
	if (!et_align_up(place->n_bytes, c->alignment, &room))
		return ET_E_INTERNAL;
	to->memory = c->stage;
	to->offset = place->offset - room; /* so that the guard is right behind it */
	if (!is_output) {
		memcpy(c->bytes + to->offset, tensor->data, place->n_bytes);
		c->n_copied += place->n_bytes;
	}
	return ET_OK;
}

static enum et_status fill(struct et_instance *c, struct et_evalue *const *args, uint32_t n_inputs,
	struct et_diag *diag)
{
	memset(c->packet, 0, sizeof *c->packet + c->n_args * sizeof c->packet->args[0]);
	c->packet->header = (struct et_plugin_header){ ET_PLUGIN_RUN,
		(uint32_t)(sizeof *c->packet + c->n_args * sizeof c->packet->args[0]), 0 };
	c->packet->model = c->model_id;
	c->packet->instance = c->id;
	c->packet->kernel = c->model ? ++c->n_runs : c->kernel;
	c->packet->n_args = c->n_args;
	for (uint32_t i = 0; i < c->n_args; i++) {
		struct et_plugin_arg *to = &c->packet->args[i];
		to->is_output = i >= n_inputs;
		to->kind = args[i]->tag;
		switch (args[i]->tag) {
		case ET_TAG_TENSOR:
			if (fill_tensor(c, i, args[i]->tensor, i >= n_inputs))
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

static enum et_status prepare(struct et_instance *c, struct et_evalue *const *args, uint32_t n_inputs,
	uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = revive(c, ret_generation, diag);
	if (status)
		return status;
	c->n_copied = 0;
	c->n_events = 0;
	bool must_grow = find_places(c, args, n_inputs), is_staged = false;
	for (uint32_t i = 0; i < c->n_args; i++)
		is_staged |= c->places[i].n_bytes && !c->places[i].shared;
	status = show_places(c, diag);
	if (!status && (must_grow || (is_staged && !c->stage)))
		status = make_stage(c, diag);
	if (!status)
		status = fill(c, args, n_inputs, diag);
	if (status)
		put_places(c);
	c->args = args;
	return status;
}

static enum et_status enqueue(struct et_instance *c, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	uint64_t generation;
	enum et_status status = prepare(c, args, c->model->facts.n_inputs, &generation, diag);
	if (status)
		return status;
	c->completion = *completion;
	c->has_state = true;
	status = et_plugin_start_run(c->backend, generation, c, completion->will_wait, diag);
	if (status != ET_PENDING)
		put_places(c);
	return status;
}

enum et_status et_plugin_run_and_wait(struct et_instance *c, struct et_evalue *const *args, uint32_t n_inputs,
	uint32_t flags, struct et_diag *diag)
{
	uint64_t generation;
	enum et_status status = prepare(c, args, n_inputs, &generation, diag);
	if (status)
		return status;
	c->completion = (struct et_completion){ .will_wait = true };
	c->packet->flags = flags;
	c->has_state = true;
	status = et_plugin_start_run(c->backend, generation, c, true, diag);
	if (status != ET_PENDING) {
		put_places(c);
		return status;
	}
	et_plugin_wait(c->backend, c, 0);
	if (c->status)
		et_fail(diag, c->status, "%s", c->diag.text[0] ? c->diag.text : et_status_text(c->status));
	return c->status;
}

static enum et_status profile(struct et_instance *c, struct et_evalue *const *args, const struct et_trace *trace,
	uint32_t instruction, struct et_diag *diag)
{
	c->events = calloc(ET_PLUGIN_MAX_EVENTS, sizeof *c->events);
	trace->begin(trace->self, instruction);
	enum et_status status = et_plugin_run_and_wait(c, args, c->model->facts.n_inputs,
		c->events ? INFERD_DELEGATE_PROFILE : 0, diag);
	trace->end(trace->self, instruction);
	for (uint32_t i = 0; i < c->n_events && !status; i++) {
		c->events[i].name[sizeof c->events[i].name - 1] = '\0';
		trace->part(trace->self, c->events[i].name, c->events[i].ns);
	}
	free(c->events);
	c->events = NULL;
	return status;
}

void et_plugin_instance_cancel(struct et_instance *c)
{
	struct et_plugin_handle handle = {
		.header = { ET_PLUGIN_CANCEL, sizeof handle, 0 }, .model = c->n_runs, .instance = c->id
	};
	if (c->model && (c->backend->facts.flags & ET_PLUGIN_HAS_CANCEL))
		et_plugin_tell(c->backend, c->generation, &handle);
	et_plugin_hurry(c->backend, c);
}

static void wait_for_run(struct et_instance *c, uint64_t cancel_ns)
{
	et_plugin_wait(c->backend, c, cancel_ns);
}

static uint64_t copied_bytes(const struct et_instance *c)
{
	return c->n_copied;
}

/* --- their ends ------------------------------------------------------------------------------------- */

/* What the host wrote, to where it belongs. */
static enum et_status take_outputs(struct et_instance *c, const struct et_plugin_done *done, struct et_diag *diag)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < c->n_args; i++) {
		const struct et_plugin_arg *arg = &c->packet->args[i];
		if (!arg->is_output)
			continue;
		if (n >= done->n_outputs)
			return et_fail(diag, ET_E_INTERNAL, "the host process returned %u outputs", done->n_outputs);
		const struct et_plugin_output *from = &done->outputs[n++];
		struct et_evalue *to = c->args[i];
		enum et_status status = et_interface_take_output(to, from->sizes, from->i, from->d, arg->n_bytes, n - 1,
			diag);
		if (status)
			return status;
		size_t n_bytes = to->tag == ET_TAG_TENSOR ? et_tensor_n_bytes(to->tensor) : 0;
		if (!n_bytes || c->places[i].shared)
			continue;
		memcpy(to->tensor->data, c->bytes + arg->offset, n_bytes);
		c->n_copied += n_bytes;
	}
	return ET_OK;
}

static bool is_whole(const struct et_plugin_done *done)
{
	return done->n_outputs <= ET_PLUGIN_MAX_ARGS && done->n_events <= ET_PLUGIN_MAX_EVENTS &&
	       done->header.n_bytes == sizeof *done + (uint64_t)done->n_outputs * sizeof done->outputs[0] +
					       (uint64_t)done->n_events * sizeof(struct et_plugin_event);
}

static void take_events(struct et_instance *c, const struct et_plugin_done *done)
{
	memcpy(c->events, &done->outputs[done->n_outputs], done->n_events * sizeof *c->events);
	c->n_events = done->n_events;
}

void et_plugin_run_ended(struct et_instance *c, const struct et_plugin_done *done, enum et_status status,
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
		status = et_plugin_status(done->result, text, &diag);
		if (!status)
			status = take_outputs(c, done, &diag);
		if (!status && c->events)
			take_events(c, done);
		et_plugin_note_run(c->backend, c->n_copied, done->result == INFERD_DELEGATE_E_LOST);
	}
	put_places(c);
	/* a copy: the context may be used again before done returns */
	struct et_completion completion = c->completion;
	if (completion.done) {
		completion.done(completion.self, status, diag.text[0] ? diag.text : NULL);
		return;
	}
	c->status = status;
	c->diag = diag;
}

const struct et_delegate_ops et_plugin_ops = {
	.compile = et_plugin_compile,
	.model_free = et_plugin_model_free,
	.threads_new = threads_new,
	.threads_free = threads_free,
	.threads_bytes = threads_bytes,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.instance_reset = instance_reset,
	.enqueue = enqueue,
	.cancel = et_plugin_instance_cancel,
	.wait = wait_for_run,
	.import_memory = et_plugin_import_memory,
	.release_memory = et_plugin_release_memory,
	.profile = profile,
	.copied_bytes = copied_bytes,
	.probe = et_plugin_probe_payload,
	.health = et_plugin_health,
	.restart = et_plugin_restart,
};
