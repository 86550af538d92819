/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and runs.
 *
 * A context has its arguments in the form of the interface, made once; what a run changes of them is where a tensor lies,
 * its sizes, and what numbers are. That is copied before the call, some ten words an argument, and the sizes of outputs
 * are looked at behind it: no allocation, no byte of a tensor, and no lock, but that of memory.c where the delegate imports
 * buffers. How many bytes a tensor has is computed again only when its sizes are others than before: a small model takes a
 * microsecond, and most of them never change.
 *
 * What a device wants aligned further than it lies goes through memory of the context's own, and is copied and counted.
 * Runs that are submitted go on in submit.c. */
#include "delegates/direct/direct_internal.h"

#include "runtime/base/checked.h"

#include <pthread.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 64, PADDING = 64 };

/* --- contexts -------------------------------------------------------------------------------------------- */

enum et_status et_direct_instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	struct et_backend *b = model->backend;
	uint32_t n = model->n_inputs + model->n_outputs;
	size_t n_bytes = sizeof(struct et_instance) +
			 n * (sizeof(struct argument) + sizeof(struct inferd_delegate_arg *));
	struct et_instance *c = b->allocator.alloc(b->allocator.self, n_bytes, _Alignof(struct et_instance));
	if (!c)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a context");
	memset(c, 0, n_bytes);
	c->backend = b;
	c->model = model;
	c->n_bytes = n_bytes;
	c->n_args = n;
	c->n_inputs = model->n_inputs;
	c->pointers = (struct inferd_delegate_arg **)(void *)&c->args[n];
	for (uint32_t i = 0; i < n; i++) {
		struct inferd_delegate_arg *arg = c->pointers[i] = &c->args[i].arg;
		*arg = (struct inferd_delegate_arg){
			.struct_size = sizeof *arg, .is_output = i >= c->n_inputs, .fd = -1
		};
		c->args[i].capacity = SIZE_MAX;
	}
	c->run = (struct inferd_delegate_run){ .struct_size = sizeof c->run, .n_args = n, .args = c->pointers };
	uint32_t alignment = b->devices[model->device].alignment;
	c->misaligned = (alignment ? alignment : DEFAULT_ALIGNMENT) - 1;
	et_direct_flight_init(c);
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	int result = model->is_on_threads
			     ? b->table.instance_on_threads(model->delegate_model, threads->threads,
				       &c->delegate_instance, &message)
			     : b->table.instance_new(model->delegate_model, &c->delegate_instance, &message);
	if (result) {
		c->delegate_instance = NULL;
		et_direct_instance_free(c);
		return et_direct_status(result, &message, diag);
	}
	c->threads = threads;
	c->n_on_threads = n_bytes;
	if (!(model->is_on_threads && b->table.threads_bytes))
		c->n_on_threads += model->n_scratch_bytes;
	if (threads)
		atomic_fetch_add_explicit(&threads->n_bytes, c->n_on_threads, memory_order_relaxed);
	*ret_instance = c;
	return ET_OK;
}

void et_direct_instance_free(struct et_instance *c)
{
	if (!c)
		return;
	struct et_backend *b = c->backend;
	et_direct_flight_deinit(c);
	if (c->delegate_instance)
		b->table.instance_free(c->delegate_instance);
	if (c->threads)
		atomic_fetch_sub_explicit(&c->threads->n_bytes, c->n_on_threads, memory_order_relaxed);
	for (uint32_t i = 0; i < c->n_args; i++)
		b->allocator.free(b->allocator.self, c->args[i].stage, c->args[i].n_stage);
	b->allocator.free(b->allocator.self, c, c->n_bytes);
}

void et_direct_instance_warm(struct et_instance *c)
{
	c->backend->table.instance_warm(c->delegate_instance);
}

enum et_status et_direct_instance_reset(struct et_instance *c)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	return et_direct_status(c->backend->table.instance_reset(c->delegate_instance, &message), &message, NULL);
}

/* --- arguments -------------------------------------------------------------------------------------------- */

static void take_tensor(struct argument *argument, const struct et_tensor *tensor)
{
	struct inferd_delegate_arg *to = &argument->arg;
	bool is_same = argument->capacity == tensor->capacity && to->type == tensor->type &&
		       to->n_dims == tensor->n_dims;
	to->kind = INFERD_DELEGATE_TENSOR;
	to->type = tensor->type;
	to->n_dims = tensor->n_dims;
	to->data = tensor->data;
	to->flags = tensor->dynamism == ET_STATIC ? INFERD_DELEGATE_FIXED_SIZES : 0;
	for (uint32_t i = 0; i < tensor->n_dims; i++) {
		is_same = is_same && to->sizes[i] == tensor->sizes[i];
		to->sizes[i] = tensor->sizes[i];
		to->dim_order[i] = tensor->dim_order[i];
	}
	if (is_same)
		return;
	to->n_bytes = et_interface_n_bytes(tensor, to->is_output);
	argument->capacity = tensor->capacity;
}

/* A tensor that lies where the device can't use it: what is given is a copy. */
static bool stage(struct et_instance *c, struct argument *argument)
{
	const struct et_allocator *allocator = &c->backend->allocator;
	struct inferd_delegate_arg *arg = &argument->arg;
	size_t n_bytes;
	if (!et_add(arg->n_bytes, PADDING, &n_bytes))
		return false;
	if (argument->n_stage < n_bytes) {
		allocator->free(allocator->self, argument->stage, argument->n_stage);
		argument->stage = allocator->alloc(allocator->self, n_bytes, (size_t)c->misaligned + 1);
		argument->n_stage = argument->stage ? n_bytes : 0;
	}
	if (!argument->stage)
		return false;
	argument->staged = arg->data;
	arg->fd = -1;
	arg->buffer = NULL;
	if (!arg->is_output) {
		memcpy(argument->stage, arg->data, arg->n_bytes);
		c->n_copied += arg->n_bytes;
	}
	arg->data = argument->stage;
	return true;
}

static enum et_status take_other(struct argument *argument, uint32_t i, const struct et_evalue *from,
	struct et_diag *diag)
{
	struct inferd_delegate_arg *to = &argument->arg;
	argument->capacity = SIZE_MAX;
	to->kind = from->tag;
	switch (from->tag) {
	case ET_TAG_INT:
		to->i = from->i;
		return ET_OK;
	case ET_TAG_BOOL:
		to->i = from->b;
		return ET_OK;
	case ET_TAG_DOUBLE:
		to->d = from->d;
		return ET_OK;
	case ET_TAG_NONE:
		return ET_OK;
	default:
		return et_fail(diag, ET_E_NOT_SUPPORTED, "argument %u is a %s, which delegates do not take", i,
			et_tag_name((enum et_tag)from->tag));
	}
}

enum et_status et_direct_take_args(struct et_instance *c, struct et_evalue *const *args, struct et_diag *diag)
{
	c->n_copied = 0;
	for (uint32_t i = 0; i < c->n_args; i++) {
		enum et_status status = ET_OK;
		if (args[i]->tag == ET_TAG_TENSOR)
			take_tensor(&c->args[i], args[i]->tensor);
		else
			status = take_other(&c->args[i], i, args[i], diag);
		if (status)
			return status;
		if (args[i]->tag == ET_TAG_TENSOR && c->backend->table.buffer_import)
			et_direct_place(c->backend, c->model->device, &c->args[i].arg);
		c->args[i].staged = NULL;
		if (args[i]->tag == ET_TAG_TENSOR && ((uintptr_t)c->args[i].arg.data & c->misaligned) &&
			!stage(c, &c->args[i]))
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED,
				"no memory to copy argument %u to where the device can use it", i);
	}
	return ET_OK;
}

static bool has_sizes(const struct et_evalue *value, const int32_t *sizes)
{
	if (value->tag != ET_TAG_TENSOR)
		return false;
	for (uint32_t i = 0; i < value->tensor->n_dims; i++)
		if (value->tensor->sizes[i] != sizes[i])
			return false;
	return true;
}

static void unstage(struct et_instance *c, uint32_t i, const struct et_evalue *value)
{
	size_t n_bytes = et_tensor_n_bytes(value->tensor);
	memcpy(c->args[i].staged, c->args[i].stage, n_bytes);
	c->n_copied += n_bytes;
}

enum et_status et_direct_give_outputs(struct et_instance *c, struct et_evalue *const *args, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	for (uint32_t i = c->n_inputs; i < c->n_args && !status; i++) {
		const struct inferd_delegate_arg *from = &c->args[i].arg;
		if (!has_sizes(args[i], from->sizes)) {
			c->args[i].capacity = SIZE_MAX;
			status = et_interface_take_output(args[i], from->sizes, from->i, from->d, from->n_bytes,
				i - c->n_inputs, diag);
		}
		if (!status && c->args[i].staged)
			unstage(c, i, args[i]);
	}
	return status;
}

uint64_t et_direct_copied_bytes(const struct et_instance *c)
{
	return c->n_copied;
}

/* --- runs -------------------------------------------------------------------------------------------------- */

static enum et_status execute(struct et_instance *c, struct et_evalue *const *args,
	const struct inferd_delegate_run *run, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	int result = c->backend->table.execute(c->model->delegate_model, c->delegate_instance, run, &message);
	return result ? et_direct_status(result, &message, diag) : et_direct_give_outputs(c, args, diag);
}

enum et_status et_direct_execute(struct et_instance *c, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	enum et_status status = et_direct_take_args(c, args, diag);
	return status ? status : execute(c, args, &c->run, diag);
}

/* --- profiles ---------------------------------------------------------------------------------------------- */

/* What a run told of its parts, which may come from any thread. */
struct part {
	struct part *next;
	const char *name;
	uint64_t ns;
};

struct profile {
	const struct et_trace *trace;
	uint32_t instruction;
	pthread_mutex_t lock; /* what follows */
	struct et_pool pool;
	struct part *first, **end;
};

static void on_event(void *self, const char *name, uint64_t ns)
{
	struct profile *profile = self;
	pthread_mutex_lock(&profile->lock);
	struct part *part = ET_POOL_NEW(&profile->pool, struct part);
	const char *copy = part && name ? et_pool_strndup(&profile->pool, name, strlen(name)) : NULL;
	if (copy) { /* else one part is missing */
		*part = (struct part){ .name = copy, .ns = ns };
		*profile->end = part;
		profile->end = &part->next;
	}
	pthread_mutex_unlock(&profile->lock);
}

static void on_began(void *self)
{
	const struct profile *profile = self;
	profile->trace->begin(profile->trace->self, profile->instruction);
}

static void on_ended(void *self)
{
	const struct profile *profile = self;
	profile->trace->end(profile->trace->self, profile->instruction);
}

enum et_status et_direct_profile(struct et_instance *c, struct et_evalue *const *args, const struct et_trace *trace,
	uint32_t instruction, struct et_diag *diag)
{
	bool tells_work = c->backend->table.flags & INFERD_DELEGATE_TELLS_WORK;
	struct profile profile = { .trace = trace, .instruction = instruction };
	struct inferd_delegate_run run = c->run;
	enum et_status status = et_direct_take_args(c, args, diag);
	if (status)
		return status;
	pthread_mutex_init(&profile.lock, NULL);
	et_pool_init(&profile.pool, &c->backend->allocator);
	profile.end = &profile.first;
	run.flags = INFERD_DELEGATE_PROFILE;
	run.self = &profile;
	run.event = on_event;
	run.began = on_began;
	run.ended = on_ended;
	if (!tells_work)
		on_began(&profile);
	status = execute(c, args, &run, diag);
	if (!tells_work)
		on_ended(&profile);
	for (const struct part *part = profile.first; part && !status; part = part->next)
		trace->part(trace->self, part->name, part->ns);
	et_pool_deinit(&profile.pool);
	pthread_mutex_destroy(&profile.lock);
	return status;
}
