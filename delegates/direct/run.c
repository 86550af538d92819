/* SPDX-License-Identifier: BSD-3-Clause */
/* Instances and runs.
 *
 * An instance holds its arguments in the form of the public interface. A run updates what changed: addresses, sizes
 * and scalar values, some ten words for each argument, and afterwards takes over the sizes of the outputs. It
 * allocates nothing, touches no byte of a tensor and takes no lock, except that of memory.c where the delegate
 * imports memory. The size of a tensor in bytes is computed again only when its sizes have changed: a run of a
 * small model takes a microsecond, and most sizes never change.
 *
 * A tensor that is less aligned than the device needs goes through the instance's stage: it is copied, and counted.
 * Clients share the stage, so a staged output is cleared before the run, in case the delegate leaves it unwritten.
 * Submitted runs continue in submit.c. */
#include "delegates/direct/direct_internal.h"

#include "runtime/base/checked.h"

#include <pthread.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 64, PADDING = 64 };

/* --- instances ------------------------------------------------------------------------------------------- */

enum et_status et_direct_instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	struct et_backend *b = model->backend;
	uint32_t n = model->n_inputs + model->n_outputs;
	size_t n_bytes = sizeof(struct et_instance) +
			 n * (sizeof(struct argument) + sizeof(struct inferd_delegate_arg *));
	struct et_instance *instance = b->allocator.alloc(b->allocator.self, n_bytes, _Alignof(struct et_instance));
	if (!instance)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an instance");
	memset(instance, 0, n_bytes);
	instance->backend = b;
	instance->model = model;
	instance->n_bytes = n_bytes;
	instance->n_args = n;
	instance->n_inputs = model->n_inputs;
	instance->pointers = (struct inferd_delegate_arg **)(void *)&instance->args[n];
	for (uint32_t i = 0; i < n; i++) {
		struct inferd_delegate_arg *arg = instance->pointers[i] = &instance->args[i].arg;
		*arg = (struct inferd_delegate_arg){
			.struct_size = sizeof *arg, .is_output = i >= instance->n_inputs, .fd = -1
		};
		instance->args[i].capacity = SIZE_MAX;
	}
	instance->run = (struct inferd_delegate_run){
		.struct_size = sizeof instance->run, .n_args = n, .args = instance->pointers
	};
	uint32_t alignment = b->devices[model->device].alignment;
	instance->misaligned = (alignment ? alignment : DEFAULT_ALIGNMENT) - 1;
	et_direct_submission_init(instance);
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	int result = model->is_on_threads
			     ? b->table.instance_on_threads(model->delegate_model, threads->delegate_threads,
				       &instance->delegate_instance, &message)
			     : b->table.instance_new(model->delegate_model, &instance->delegate_instance, &message);
	if (result) {
		instance->delegate_instance = NULL;
		et_direct_instance_free(instance);
		return et_direct_status(result, &message, diag);
	}
	instance->threads = threads;
	instance->n_on_threads = n_bytes;
	if (!(model->is_on_threads && b->table.threads_bytes))
		instance->n_on_threads += model->n_scratch_bytes;
	if (threads)
		atomic_fetch_add_explicit(&threads->n_bytes, instance->n_on_threads, memory_order_relaxed);
	*ret_instance = instance;
	return ET_OK;
}

void et_direct_instance_free(struct et_instance *instance)
{
	if (!instance)
		return;
	struct et_backend *b = instance->backend;
	et_direct_submission_deinit(instance);
	if (instance->delegate_instance)
		b->table.instance_free(instance->delegate_instance);
	if (instance->threads)
		atomic_fetch_sub_explicit(&instance->threads->n_bytes, instance->n_on_threads, memory_order_relaxed);
	for (uint32_t i = 0; i < instance->n_args; i++)
		b->allocator.free(b->allocator.self, instance->args[i].stage, instance->args[i].n_stage);
	b->allocator.free(b->allocator.self, instance, instance->n_bytes);
}

enum et_status et_direct_instance_warm(struct et_instance *instance, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	int result = instance->backend->table.instance_warm(instance->delegate_instance, &message);
	return et_direct_status(result, &message, diag);
}

enum et_status et_direct_instance_reset(struct et_instance *instance)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	return et_direct_status(instance->backend->table.instance_reset(instance->delegate_instance, &message),
		&message, NULL);
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
	to->n_bytes = et_convert_arg_n_bytes(tensor, to->is_output);
	argument->capacity = tensor->capacity;
}

/* Give the delegate the stage instead of a tensor that the device can't use where it lies; copy an input there. */
static bool stage(struct et_instance *instance, struct argument *argument)
{
	const struct et_allocator *allocator = &instance->backend->allocator;
	struct inferd_delegate_arg *arg = &argument->arg;
	size_t n_bytes;
	if (!et_add(arg->n_bytes, PADDING, &n_bytes))
		return false;
	if (argument->n_stage < n_bytes) {
		allocator->free(allocator->self, argument->stage, argument->n_stage);
		argument->stage = allocator->alloc(allocator->self, n_bytes, (size_t)instance->misaligned + 1);
		argument->n_stage = argument->stage ? n_bytes : 0;
	}
	if (!argument->stage)
		return false;
	argument->staged = arg->data;
	arg->fd = -1;
	arg->buffer = NULL;
	if (arg->is_output) {
		memset(argument->stage, 0, arg->n_bytes); /* it holds another client's bytes, or the heap's */
	} else {
		memcpy(argument->stage, arg->data, arg->n_bytes);
		instance->n_copied += arg->n_bytes;
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

enum et_status et_direct_take_args(struct et_instance *instance, struct et_evalue *const *args, struct et_diag *diag)
{
	instance->n_copied = 0;
	for (uint32_t i = 0; i < instance->n_args; i++) {
		enum et_status status = ET_OK;
		if (args[i]->tag == ET_TAG_TENSOR)
			take_tensor(&instance->args[i], args[i]->tensor);
		else
			status = take_other(&instance->args[i], i, args[i], diag);
		if (status)
			return status;
		if (args[i]->tag == ET_TAG_TENSOR && instance->backend->table.buffer_import)
			et_direct_find_buffer(instance->backend, instance->model->device, &instance->args[i].arg);
		instance->args[i].staged = NULL;
		if (args[i]->tag == ET_TAG_TENSOR && ((uintptr_t)instance->args[i].arg.data & instance->misaligned) &&
			!stage(instance, &instance->args[i]))
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

static void unstage(struct et_instance *instance, uint32_t i, const struct et_evalue *value)
{
	size_t n_bytes = et_tensor_n_bytes(value->tensor);
	memcpy(instance->args[i].staged, instance->args[i].stage, n_bytes);
	instance->n_copied += n_bytes;
}

enum et_status et_direct_give_outputs(struct et_instance *instance, struct et_evalue *const *args, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	for (uint32_t i = instance->n_inputs; i < instance->n_args && !status; i++) {
		const struct inferd_delegate_arg *from = &instance->args[i].arg;
		if (!has_sizes(args[i], from->sizes)) {
			instance->args[i].capacity = SIZE_MAX;
			status = et_convert_output(args[i], from->sizes, from->i, from->d, from->n_bytes,
				i - instance->n_inputs, diag);
		}
		if (!status && instance->args[i].staged)
			unstage(instance, i, args[i]);
	}
	return status;
}

uint64_t et_direct_copied_bytes(const struct et_instance *instance)
{
	return instance->n_copied;
}

/* --- runs -------------------------------------------------------------------------------------------------- */

static enum et_status execute(struct et_instance *instance, struct et_evalue *const *args,
	const struct inferd_delegate_run *run, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	int result = instance->backend->table.execute(instance->model->delegate_model, instance->delegate_instance, run,
		&message);
	return result ? et_direct_status(result, &message, diag) : et_direct_give_outputs(instance, args, diag);
}

enum et_status et_direct_execute(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	enum et_status status = et_direct_take_args(instance, args, diag);
	return status ? status : execute(instance, args, &instance->run, diag);
}

/* --- profiles ---------------------------------------------------------------------------------------------- */

/* The parts that a profiled run reported, perhaps from several threads. */
struct part {
	struct part *next;
	const char *name;
	uint64_t ns;
};

struct profile {
	const struct et_trace *trace;
	uint32_t instruction;
	pthread_mutex_t lock; /* guards what follows */
	struct et_pool pool;
	struct part *first, **end;
};

static void on_event(void *self, const char *name, uint64_t ns)
{
	struct profile *profile = self;
	pthread_mutex_lock(&profile->lock);
	struct part *part = ET_POOL_NEW(&profile->pool, struct part);
	const char *copy = part && name ? et_pool_strndup(&profile->pool, name, strlen(name)) : NULL;
	if (copy) { /* without memory one part is missing from the profile */
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

enum et_status et_direct_profile(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_trace *trace, uint32_t instruction, struct et_diag *diag)
{
	bool tells_work = instance->backend->table.flags & INFERD_DELEGATE_TELLS_WORK;
	struct profile profile = { .trace = trace, .instruction = instruction };
	struct inferd_delegate_run run = instance->run;
	enum et_status status = et_direct_take_args(instance, args, diag);
	if (status)
		return status;
	pthread_mutex_init(&profile.lock, NULL);
	et_pool_init(&profile.pool, &instance->backend->allocator);
	profile.end = &profile.first;
	run.flags = INFERD_DELEGATE_PROFILE;
	run.self = &profile;
	run.event = on_event;
	run.began = on_began;
	run.ended = on_ended;
	if (!tells_work)
		on_began(&profile);
	status = execute(instance, args, &run, diag);
	if (!tells_work)
		on_ended(&profile);
	for (const struct part *part = profile.first; part && !status; part = part->next)
		trace->part(trace->self, part->name, part->ns);
	et_pool_deinit(&profile.pool);
	pthread_mutex_destroy(&profile.lock);
	return status;
}
