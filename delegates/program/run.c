/* SPDX-License-Identifier: BSD-3-Clause */
/* Instances and runs of the engine.
 *
 * An instance is a Method, a frame and one run at a time. The run computes on the worker threads that a call of execute
 * brings. Between two instructions nothing of a run belongs to worker threads, so a run that answered UNFINISHED may go
 * on with others.
 *
 * The arguments are bound where they lie. A run that goes on must bring the same ones, or else it ends. */
#include "delegates/program/engine_internal.h"

#include "delegates/convert.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EVENTS = 512 }; /* a host process reports no more */

/* --- instances -------------------------------------------------------------------------------------------------- */

/* Describe inputs or outputs that no argument gives: lists and strings, which a run does not look at. */
static struct et_io *make_ios(const struct et_io_info *infos, uint32_t n)
{
	struct et_io *ios = calloc(n + 1, sizeof *ios);
	for (uint32_t i = 0; ios && i < n; i++)
		ios[i].tag = infos[i].tag;
	return ios;
}

static enum et_status instance_make(struct inferd_delegate_instance *instance, const struct et_method *with,
	struct et_diag *diag)
{
	struct et_plan *plan = instance->model->plan;
	const struct et_plan_info *info = et_plan_info(plan);
	instance->inputs = make_ios(info->inputs, info->n_inputs);
	instance->outputs = make_ios(info->outputs, info->n_outputs);
	if (!instance->inputs || !instance->outputs)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a run");
	enum et_status status = et_method_new_with(&instance->method, plan, with, et_platform_allocator(), diag);
	if (status != ET_OK)
		return et_fail(diag, status, "this method has no state in common with the other instance's");
	return et_frame_new(&instance->frame, plan, et_platform_allocator(), et_platform_page_allocator(), diag);
}

int et_engine_instance_with(struct inferd_delegate_model *model, struct inferd_delegate_instance *other,
	struct inferd_delegate_instance **ret_instance, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	struct inferd_delegate_instance *instance = calloc(1, sizeof *instance);
	if (!instance)
		return et_engine_answer(ET_E_MEMORY_ALLOCATION_FAILED, &diag, message);
	instance->model = model;
	enum et_status status = instance_make(instance, other ? other->method : NULL, &diag);
	if (status != ET_OK) {
		et_engine_instance_free(instance);
		return et_engine_answer(status, &diag, message);
	}
	*ret_instance = instance;
	return INFERD_DELEGATE_OK;
}

int et_engine_instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	return et_engine_instance_with(model, NULL, ret_instance, message);
}

/* End the run, whatever it has reached. */
static enum et_status end_run(struct inferd_delegate_instance *instance)
{
	instance->is_under_way = false;
	enum et_status status = et_run_end(&instance->run);
	instance->run.trace = NULL;
	return status;
}

void et_engine_instance_free(struct inferd_delegate_instance *instance)
{
	if (instance->is_under_way)
		end_run(instance);
	et_profile_free(instance->profile);
	et_frame_free(instance->frame);
	et_method_free(instance->method);
	free(instance->inputs);
	free(instance->outputs);
	free(instance);
}

int et_engine_instance_reset(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	if (atomic_load(&instance->is_called)) {
		snprintf(message->text, sizeof message->text, "a run of the instance is under way");
		return INFERD_DELEGATE_E_INTERNAL;
	}
	if (instance->is_under_way)
		end_run(instance);
	et_method_reset(instance->method);
	return INFERD_DELEGATE_OK;
}

void et_engine_cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	atomic_store_explicit(&instance->run.cancelled, true, memory_order_relaxed);
}

void et_engine_abandon(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	if (instance->is_under_way && !atomic_load(&instance->is_called))
		end_run(instance);
}

/* --- arguments -------------------------------------------------------------------------------------------------- */

static enum et_status check_tensor(const struct inferd_delegate_arg *arg, uint32_t i, const struct et_io_info *info,
	struct et_diag *diag)
{
	if (arg->type != info->type)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "argument %u: a tensor of %s, expected %s", i,
			et_scalar_name(arg->type), et_scalar_name(info->type));
	if (arg->n_dims != info->n_dims || memcmp(arg->dim_order, info->dim_order, info->n_dims) != 0)
		return et_fail(diag, ET_E_INVALID_ARGUMENT,
			"argument %u: a tensor of %u dimensions, expected %u, or another dim order", i, arg->n_dims,
			info->n_dims);
	return ET_OK;
}

static enum et_status take_arg(struct et_io *io, const struct inferd_delegate_arg *arg, uint32_t i,
	const struct argument *place, const struct et_io_info *info, struct et_diag *diag)
{
	uint8_t kind = et_engine_kind_of(info, place->is_output);
	if (arg->kind != kind || !arg->is_output != !place->is_output)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "argument %u: a %s, expected a %s", i,
			et_tag_name(arg->kind), et_tag_name(kind));
	io->tag = info->tag;
	switch (info->tag) {
	case ET_TAG_TENSOR:
		io->n_dims = arg->n_dims;
		io->tensor.data = arg->data;
		io->tensor.n_bytes = (size_t)arg->n_bytes;
		memcpy(io->sizes, arg->sizes, sizeof io->sizes);
		return check_tensor(arg, i, info, diag);
	case ET_TAG_INT:
		io->i = arg->i;
		return ET_OK;
	case ET_TAG_BOOL:
		io->b = arg->i != 0;
		return ET_OK;
	case ET_TAG_DOUBLE:
		io->d = arg->d;
		return ET_OK;
	default:
		return ET_OK;
	}
}

static struct et_io *io_of(struct inferd_delegate_instance *instance, const struct argument *place)
{
	return &(place->is_output ? instance->outputs : instance->inputs)[place->index];
}

static const struct et_io_info *info_of(const struct inferd_delegate_model *model, const struct argument *place)
{
	const struct et_plan_info *info = et_plan_info(model->plan);
	return &(place->is_output ? info->outputs : info->inputs)[place->index];
}

static enum et_status take_args(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run,
	struct et_diag *diag)
{
	const struct inferd_delegate_model *model = instance->model;
	enum et_status status = ET_OK;
	if (run->n_args != model->n_args)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "%u arguments, expected %u", run->n_args, model->n_args);
	for (uint32_t i = 0; i < model->n_args && status == ET_OK; i++)
		status = take_arg(io_of(instance, &model->args[i]), run->args[i], i, &model->args[i],
			info_of(model, &model->args[i]), diag);
	return status;
}

/* Whether the run that goes on has the memory that it began with. */
static bool has_same_args(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run)
{
	const struct inferd_delegate_model *model = instance->model;
	bool is_same = run->n_args == model->n_args;
	for (uint32_t i = 0; is_same && i < model->n_args; i++) {
		const struct et_io *io = io_of(instance, &model->args[i]);
		is_same = info_of(model, &model->args[i])->tag != ET_TAG_TENSOR ||
			  (io->tensor.data == run->args[i]->data && io->tensor.n_bytes == run->args[i]->n_bytes);
	}
	return is_same;
}

/* A number may have turned out to be of another kind than the program declares, as Int and Double do in sums. */
static void give_outputs(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run)
{
	const struct inferd_delegate_model *model = instance->model;
	for (uint32_t i = model->n_inputs; i < model->n_args; i++) {
		const struct et_io *io = io_of(instance, &model->args[i]);
		struct inferd_delegate_arg *arg = run->args[i];
		if (io->tag == ET_TAG_TENSOR)
			memcpy(arg->sizes, io->sizes, io->n_dims * sizeof *io->sizes);
		else if (io->tag == ET_TAG_DOUBLE)
			arg->d = io->d;
		else if (io->tag != ET_TAG_NONE && io->tag != ET_TAG_STRING)
			arg->i = io->tag == ET_TAG_BOOL ? io->b : io->i;
		if (arg->kind != INFERD_DELEGATE_TENSOR && io->tag != ET_TAG_STRING)
			arg->kind = io->tag;
	}
}

/* --- profiles --------------------------------------------------------------------------------------------------- */

static void profile_begin(struct inferd_delegate_instance *instance)
{
	const struct et_profile_options options = {
		.allocator = et_platform_allocator(), .now_ns = et_platform_now_ns, .max_events = MAX_EVENTS
	};
	et_profile_free(instance->profile);
	instance->profile = et_profile_new(&options); /* without memory the run is not profiled */
	instance->run.trace = instance->profile ? et_profile_trace(instance->profile) : NULL;
}

/* Report the operators. A delegate's call is reported by its parts, or as a whole if it has none. */
static void profile_report(const struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run)
{
	const struct et_program *program = et_plan_program(instance->model->plan);
	const struct et_method_spec *spec = et_program_find_method(program,
		et_plan_info(instance->model->plan)->method);
	uint32_t n;
	const struct et_profile_event *events = et_profile_events(instance->profile, &n);
	for (uint32_t i = 0; i < n; i++) {
		const struct et_profile_event *event = &events[i];
		const char *name = event->name;
		if (!event->has_ended || event->instruction >= spec->n_instructions)
			continue;
		const struct et_instruction_spec *call = &spec->instructions[event->instruction];
		bool has_parts = i + 1 < n && events[i + 1].kind == ET_PROFILE_PART;
		if (event->kind == ET_PROFILE_INSTRUCTION)
			name = call->op == ET_OP_KERNEL                   ? spec->operators[call->index]
			       : call->op == ET_OP_DELEGATE && !has_parts ? spec->delegates[call->index].id
									  : NULL;
		if (name)
			run->event(run->self, name, event->end_ns - event->begin_ns);
	}
}

/* --- runs ------------------------------------------------------------------------------------------------------- */

static enum et_status begin(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run,
	struct et_diag *diag)
{
	struct et_run *own = &instance->run;
	enum et_status status = take_args(instance, run, diag);
	if (status != ET_OK)
		return status;
	own->method = instance->method;
	own->frame = instance->frame;
	own->inputs = instance->inputs;
	own->outputs = instance->outputs;
	own->trace = NULL;
	if ((run->flags & INFERD_DELEGATE_PROFILE) && run->event)
		profile_begin(instance);
	status = et_run_begin(own);
	if (status != ET_OK)
		return et_fail(diag, status, "%s", own->diag.text);
	instance->is_under_way = true;
	return ET_OK;
}

/* The time slice of one call. */
struct slice {
	uint64_t end_ns; /* UINT64_MAX: there is none */
};

static bool is_over(void *self)
{
	const struct slice *slice = self;
	return slice->end_ns != UINT64_MAX && et_platform_now_ns(NULL) >= slice->end_ns;
}

/* Run to the end of the program or of the slice; *ret_is_finished says which. */
static enum et_status advance(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run,
	bool *ret_is_finished, struct et_diag *diag)
{
	struct inferd_delegate_worker_threads *threads = run->threads;
	struct slice slice = { UINT64_MAX };
	uint64_t now_ns = INFERD_DELEGATE_HAS(run, slice_ns) && run->slice_ns ? et_platform_now_ns(NULL) : 0;
	if (now_ns && run->slice_ns < UINT64_MAX - now_ns)
		slice.end_ns = now_ns + run->slice_ns;
	const struct et_worker_env env = {
		.worker_index = threads->index,
		.queue = { .kind = ET_QUEUE_CPU },
		.scratch = &threads->scratch,
		.compute = threads->compute,
		.should_yield = slice.end_ns == UINT64_MAX ? NULL : is_over,
		.yield_self = &slice,
	};
	enum et_stop stop = et_run_advance(&instance->run, &env);
	*ret_is_finished = stop != ET_STOP_QUEUE;
	if (stop == ET_STOP_QUEUE)
		return ET_OK;
	enum et_status status = end_run(instance);
	return status == ET_OK ? ET_OK : et_fail(diag, status, "%s", instance->run.diag.text);
}

/* Called with the worker threads. */
static int execute(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run,
	struct inferd_delegate_message *message)
{
	struct inferd_delegate_model *model = instance->model;
	struct et_diag diag = { "" };
	bool is_finished = true, continues = run->flags & INFERD_DELEGATE_CONTINUES;
	enum et_status status = ET_OK;
	if (continues && !instance->is_under_way)
		status = et_fail(&diag, ET_E_INVALID_STATE, "no run of this instance waits to be continued");
	else if (!continues && instance->is_under_way)
		status = et_fail(&diag, ET_E_INVALID_STATE, "a run of this instance waits to be continued");
	else if (continues && !has_same_args(instance, run))
		status = et_fail(&diag, ET_E_INVALID_STATE, "the run is to go on with other arguments");
	if (status == ET_OK)
		status = et_engine_prepare(model, run->threads, &diag);
	if (status == ET_OK && !continues) /* last: from here on a failure may cost the state */
		status = begin(instance, run, &diag);
	if (status == ET_OK)
		status = advance(instance, run, &is_finished, &diag);
	if (status == ET_OK && !is_finished)
		return INFERD_DELEGATE_UNFINISHED;
	if (status == ET_OK)
		give_outputs(instance, run);
	if (status == ET_OK && instance->profile && run->event)
		profile_report(instance, run);
	if (instance->is_under_way)
		end_run(instance);
	instance->profile = et_profile_free(instance->profile);
	return et_engine_answer(status, &diag, message);
}

int et_engine_execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	bool expected = false;
	if (!instance || instance->model != model || !INFERD_DELEGATE_HAS(run, threads) || !run->threads ||
		run->threads->engine != model->engine) {
		snprintf(message->text, sizeof message->text,
			"a run needs an instance of its model, and worker threads");
		return INFERD_DELEGATE_E_INTERNAL;
	}
	if (!atomic_compare_exchange_strong(&instance->is_called, &expected, true)) {
		snprintf(message->text, sizeof message->text, "the instance has a run already");
		return INFERD_DELEGATE_E_INTERNAL;
	}
	if (!(run->flags & INFERD_DELEGATE_CONTINUES))
		atomic_store_explicit(&instance->run.cancelled, false, memory_order_relaxed);
	int result = INFERD_DELEGATE_E_INTERNAL;
	if (et_engine_threads_enter(run->threads, &diag) == ET_OK) {
		result = execute(instance, run, message);
		et_engine_threads_leave(run->threads);
	} else {
		snprintf(message->text, sizeof message->text, "%.250s", diag.text);
	}
	atomic_store(&instance->is_called, false);
	return result;
}
