/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor: the loop over instructions of one run.
 *
 * Between two instructions the run checks whether it was cancelled, whether its deadline has passed, and whether the
 * next instruction belongs to another queue. Within an instruction, the loops of kernels look at the first two (see
 * compute.h); a delegate's call is not interrupted. Moves, jumps and frees belong to no queue; they run on the current
 * one.
 *
 * A program may loop forever. Cancel, deadline and should_yield limit the damage. For a caller that uses none of them a
 * run ends after MAX_EXECUTED instructions, ten times ExecuTorch's limit.
 *
 * An asynchronous delegate may finish so fast that another thread resumes and ends the run before enqueue returns
 * ET_PENDING here. So everything is noted before the call to enqueue, and the run is not touched after ET_PENDING. */
#include "runtime/method_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_EXECUTED = 100 * 1000 * 1000 };

static enum et_stop stop_failed(struct et_run *run, enum et_status status)
{
	run->status = status;
	return ET_STOP_FAILED;
}

/* Put "instruction 12 (aten::add.out): " in front of the kernel's or delegate's sentence. */
static enum et_status fail_here(struct et_run *run, enum et_status status)
{
	const struct et_plan *plan = run->method->plan;
	const struct et_plan_instruction *instruction = &plan->instructions[run->pc];
	const char *name = "";
	switch (instruction->op) {
	case ET_OP_KERNEL:
		name = plan->operators[instruction->index].kernel->name;
		break;
	case ET_OP_DELEGATE:
		name = plan->spec->delegates[instruction->index].id;
		break;
	case ET_OP_JUMP_FALSE:
		name = "jump";
		break;
	default:
		name = "move";
		break;
	}
	struct et_diag cause = run->diag;
	run->diag.text[0] = '\0';
	cause.text[sizeof cause.text - 1] = '\0';
	return et_fail(&run->diag, status, "instruction %" PRIu32 " (%.64s): %.220s", run->pc, name,
		cause.text[0] ? cause.text : et_status_text(status));
}

/* --- checking arguments -------------------------------------------------------------------------------------- */

static enum et_status check_tensor(struct et_run *run, const struct et_check *check, const struct et_tensor *tensor)
{
	if (check->is_view)
		return ET_OK; /* the kernel sets its memory */
	if (!tensor->data && et_tensor_numel(tensor))
		return et_fail(&run->diag, ET_E_INVALID_PROGRAM,
			"argument %u has no memory: it was freed or never bound", check->arg);
	if (check->is_written && tensor->is_constant)
		return et_fail(&run->diag, ET_E_INVALID_PROGRAM, "argument %u is written but refers to a constant",
			check->arg);
	return ET_OK;
}

static enum et_status check_list(struct et_run *run, const struct et_check *check, const struct et_evalue *value)
{
	for (uint32_t i = 0; i < value->list->n; i++) {
		const struct et_evalue *item = value->list->values[i];
		bool fits = value->tag == ET_TAG_INT_LIST ? item->tag == ET_TAG_INT
			    : item->tag == ET_TAG_TENSOR
				    ? true
				    : item->tag == ET_TAG_NONE && value->tag == ET_TAG_OPTIONAL_TENSOR_LIST;
		if (!fits)
			return et_fail(&run->diag, ET_E_INVALID_PROGRAM, "item %u of argument %u became a %s", i,
				check->arg, et_tag_name(item->tag));
		enum et_status status = item->tag == ET_TAG_TENSOR ? check_tensor(run, check, item->tensor) : ET_OK;
		if (status)
			return status;
	}
	return ET_OK;
}

static enum et_status check_arguments(struct et_run *run, const struct et_plan_instruction *instruction,
	struct et_evalue *const *args)
{
	const struct et_check *checks = &run->method->plan->checks[instruction->first_check];
	for (uint32_t i = 0; i < instruction->n_checks; i++) {
		const struct et_evalue *value = args[checks[i].arg];
		enum et_status status = ET_OK;
		if (value->tag == ET_TAG_TENSOR)
			status = check_tensor(run, &checks[i], value->tensor);
		else if (et_tag_is_value_list(value->tag))
			status = check_list(run, &checks[i], value);
		else if (checks[i].letter != 'N' && !et_kernel_letter_takes(checks[i].letter, value->tag))
			status = et_fail(&run->diag, ET_E_INVALID_PROGRAM, "argument %u became a %s", checks[i].arg,
				et_tag_name(value->tag));
		if (status)
			return status;
	}
	return ET_OK;
}

/* --- instructions --------------------------------------------------------------------------------------------- */

/* A view of a constant is a constant, too. */
static void mark_views(const struct et_plan *plan, const struct et_plan_instruction *instruction,
	struct et_evalue *const *args)
{
	const struct et_kernel_arg *how = plan->operators[instruction->index].args;
	for (uint32_t i = 0; i < instruction->n_args; i++)
		if (how[i].is_view)
			args[i]->tensor->is_constant = args[0]->tensor->is_constant;
}

static bool has_tensor(const struct et_evalue *value, const struct et_tensor *tensor)
{
	if (value->tag == ET_TAG_TENSOR)
		return value->tensor == tensor;
	if (value->tag != ET_TAG_TENSOR_LIST && value->tag != ET_TAG_OPTIONAL_TENSOR_LIST)
		return false;
	for (uint32_t i = 0; i < value->list->n; i++)
		if (value->list->values[i]->tag == ET_TAG_TENSOR && value->list->values[i]->tensor == tensor)
			return true;
	return false;
}

/* Refuse a dynamic tensor that is both an output and another argument: a kernel resizes its outputs while it still
 * reads its inputs' sizes. Only a MoveCall can cause this, during a run; may_alias is false where none can. */
static enum et_status check_aliases(struct et_run *run, const struct et_kernel_arg *how,
	const struct et_plan_instruction *instruction, struct et_evalue *const *args)
{
	for (uint32_t i = 0; i < instruction->n_args; i++) {
		if (!how[i].is_written || (args[i]->tag != ET_TAG_TENSOR && args[i]->tag != ET_TAG_TENSOR_LIST))
			continue;
		uint32_t n = args[i]->tag == ET_TAG_TENSOR ? 1 : args[i]->list->n;
		for (uint32_t k = 0; k < n; k++) {
			const struct et_tensor *tensor = args[i]->tag == ET_TAG_TENSOR
								 ? args[i]->tensor
								 : args[i]->list->values[k]->tensor;
			for (uint32_t j = 0; tensor->dynamism != ET_STATIC && j < instruction->n_args; j++)
				if (j != i && has_tensor(args[j], tensor))
					return et_fail(&run->diag, ET_E_INVALID_PROGRAM,
						"arguments %u and %u are the same tensor, and its sizes may "
						"change",
						j, i);
		}
	}
	return ET_OK;
}

/* Relaxed, because nothing else follows from it: the elements are in place in each run. */
static bool is_skipped(const struct et_plan_instruction *instruction)
{
	return atomic_load_explicit(&instruction->is_skipped, memory_order_relaxed);
}

static struct et_kernel_ctx context_of(struct et_run *run, const struct et_plan_instruction *instruction,
	const struct et_worker_env *env)
{
	const struct et_plan *plan = run->method->plan;
	return (struct et_kernel_ctx){ .kernel = plan->operators[instruction->index].kernel,
		.compute = env->compute,
		.scratch = env->scratch,
		.diag = &run->diag,
		.tenant = et_program_source(plan->program)->tenant };
}

/* Turn a kernel's answer into the run's status: a kernel that was told to stop has not finished. */
static enum et_status end_kernel(struct et_run *run, const struct et_worker_env *env, enum et_status status)
{
	if (env->scratch)
		et_pool_reset(env->scratch);
	enum et_status why = (enum et_status)atomic_load_explicit(&env->compute->signal->status, memory_order_relaxed);
	if (why) { /* whatever the kernel made of a loop that ended early */
		run->diag.text[0] = '\0';
		return et_fail(&run->diag, why, "%s while it ran",
			why == ET_E_DEADLINE ? "the deadline passed" : "cancelled");
	}
	return status;
}

static enum et_status run_kernel(struct et_run *run, const struct et_plan_instruction *instruction,
	const struct et_worker_env *env)
{
	const struct et_plan *plan = run->method->plan;
	struct et_evalue **args = run->frame->args + instruction->first_arg;
	struct et_kernel_ctx ctx = context_of(run, instruction, env);
	enum et_status status = instruction->n_checks ? check_arguments(run, instruction, args) : ET_OK;
	if (!status && instruction->may_alias)
		status = check_aliases(run, plan->operators[instruction->index].args, instruction, args);
	if (status)
		return status;
	status = end_kernel(run, env, ctx.kernel->run(&ctx, args));
	if (!status && instruction->has_view)
		mark_views(plan, instruction, args);
	if (!status && instruction->runs_once)
		atomic_store_explicit(&plan->instructions[run->pc].is_skipped, true, memory_order_relaxed);
	return status;
}

/* Run the sequence that begins here, or, if its function does not want it, its first instruction. */
static enum et_status run_sequence(struct et_run *run, const struct et_plan_instruction *instruction,
	const struct et_worker_env *env, uint32_t *next)
{
	const struct et_plan_sequence *sequence = instruction->sequence;
	struct et_kernel_ctx ctx = context_of(run, instruction, env);
	struct et_evalue *const *args[ET_SEQUENCE_MAX];
	bool is_done = false;
	for (uint32_t i = 0; i < sequence->kernels->n; i++)
		args[i] = run->frame->args + sequence->first_args[i];
	enum et_status status = end_kernel(run, env, sequence->kernels->run(&ctx, args, &is_done));
	if (status || !is_done)
		return status ? status : run_kernel(run, instruction, env);
	*next = run->pc + sequence->kernels->n;
	return ET_OK;
}

/* Enqueue with a trace. Reads what it needs from the run before the call: see the essay. */
static enum et_status enqueue_traced(struct et_run *run, const struct et_plan_instance *held,
	struct et_evalue *const *args)
{
	const struct et_trace *trace = run->trace;
	uint32_t pc = run->pc;
	if (held->ops->profile)
		return held->ops->profile(held->instance, args, trace, pc, &run->diag);
	trace->begin(trace->self, pc);
	enum et_status status = held->ops->enqueue(held->instance, args, &run->completion, &run->diag);
	if (status != ET_PENDING)
		trace->end(trace->self, pc); /* otherwise et_run_resume calls end */
	return status;
}

static void count_use(struct et_run *run, const struct et_plan_instance *held)
{
	if (held->ops->copied_bytes)
		run->n_copied_bytes += held->ops->copied_bytes(held->instance);
	if (held->ops->busy_ns)
		run->device_ns += held->ops->busy_ns(held->instance);
}

/* Returns ET_PENDING: the run must not be touched any more. */
static enum et_status run_delegate(struct et_run *run, const struct et_plan_instruction *instruction,
	const struct et_worker_env *env)
{
	struct et_evalue **args = run->frame->args + instruction->first_arg;
	enum et_status status = instruction->n_checks ? check_arguments(run, instruction, args) : ET_OK;
	if (!status && instruction->n_checks)
		status = et_overlap_check_args(args, run->method->plan->delegates[instruction->index].info.n_inputs,
			instruction->n_args, &run->diag);
	if (status)
		return status;
	struct et_plan_instance *held = et_method_instance(run->method, run->frame, env->worker_index,
		instruction->index, &status, &run->diag);
	if (!held)
		return status;
	atomic_store_explicit(&held->is_busy, true, memory_order_relaxed);
	run->pending = run->begun = held;
	run->unfinished = NULL;
	status = run->trace ? enqueue_traced(run, held, args)
			    : held->ops->enqueue(held->instance, args, &run->completion, &run->diag);
	if (status == ET_PENDING)
		return status;
	run->pending = NULL;
	run->unfinished = status == ET_UNFINISHED ? held : NULL;
	count_use(run, held);
	atomic_store_explicit(&held->is_busy, false, memory_order_release);
	return status;
}

static enum et_status is_true(struct et_run *run, const struct et_evalue *value, bool *ret_is_true)
{
	if (value->tag == ET_TAG_BOOL) {
		*ret_is_true = value->b;
		return ET_OK;
	}
	if (value->tag != ET_TAG_TENSOR || value->tensor->type != ET_BOOL)
		return et_fail(&run->diag, ET_E_INVALID_PROGRAM,
			"the condition is neither a Bool nor a tensor of them");
	const uint8_t *items = value->tensor->data;
	size_t n = et_tensor_numel(value->tensor);
	if (n && !items)
		return et_fail(&run->diag, ET_E_INVALID_PROGRAM, "the condition has no memory");
	bool all = true;
	for (size_t i = 0; i < n && all; i++)
		all = items[i] != 0;
	*ret_is_true = all;
	return ET_OK;
}

/* Execute one instruction. @next is the index of the following one; a jump or a sequence changes it. */
static enum et_status execute(struct et_run *run, const struct et_plan_instruction *instruction,
	const struct et_worker_env *env, uint32_t *next)
{
	const uint32_t *value_indices = &run->method->plan->args[instruction->first_arg];
	struct et_evalue *values = run->frame->values;
	switch (instruction->op) {
	case ET_OP_KERNEL:
		if (is_skipped(instruction))
			return ET_OK;
		return instruction->sequence ? run_sequence(run, instruction, env, next)
					     : run_kernel(run, instruction, env);
	case ET_OP_DELEGATE:
		return run_delegate(run, instruction, env);
	case ET_OP_MOVE:
		values[value_indices[1]] = values[value_indices[0]];
		return ET_OK;
	case ET_OP_JUMP_FALSE: {
		bool holds = false;
		enum et_status status = is_true(run, &values[value_indices[0]], &holds);
		if (!holds)
			*next = instruction->index;
		return status;
	}
	default: /* ET_OP_FREE: the value holds a tensor, which no move changes */
		values[value_indices[0]].tensor->data = NULL;
		return ET_OK;
	}
}

/* Execute with a trace; a delegate's call notes its own times. */
static __attribute__((noinline)) enum et_status execute_traced(struct et_run *run,
	const struct et_plan_instruction *instruction, const struct et_worker_env *env, uint32_t *next)
{
	const struct et_trace *trace = run->trace;
	uint32_t pc = run->pc;
	if (instruction->op == ET_OP_DELEGATE)
		return run_delegate(run, instruction, env);
	trace->begin(trace->self, pc);
	enum et_status status = execute(run, instruction, env, next);
	trace->end(trace->self, pc);
	return status;
}

/* The checks between two instructions. */
static enum et_status may_go_on(struct et_run *run, const struct et_worker_env *env)
{
	if (atomic_load_explicit(&run->cancelled, memory_order_relaxed))
		return et_fail(&run->diag, ET_E_CANCELLED, "cancelled before instruction %" PRIu32, run->pc);
	if (run->deadline_ns && env->now_ns && env->now_ns(env->clock) >= run->deadline_ns)
		return et_fail(&run->diag, ET_E_DEADLINE, "the deadline passed before instruction %" PRIu32, run->pc);
	if (run->n_executed >= MAX_EXECUTED)
		return et_fail(&run->diag, ET_E_INVALID_PROGRAM,
			"more than %d instructions executed: does the program loop for ever?", MAX_EXECUTED);
	return ET_OK;
}

static enum et_stop stop_at_queue(struct et_run *run, struct et_queue_id queue)
{
	run->queue = queue;
	return ET_STOP_QUEUE;
}

enum et_stop et_run_advance(struct et_run *run, const struct et_worker_env *worker_env)
{
	struct et_stop_signal signal = { &run->cancelled, run->deadline_ns, worker_env->now_ns, worker_env->clock,
		ET_OK };
	struct et_compute compute = worker_env->compute ? *worker_env->compute : (struct et_compute){ 0 };
	struct et_worker_env stoppable = *worker_env;
	const struct et_worker_env *env = &stoppable;
	compute.signal = &signal;
	stoppable.compute = &compute;
	const struct et_plan *plan = run->method->plan;
	/* an unfinished call has had its slice: others may come first */
	uint32_t n = plan->spec->n_instructions, n_here = run->unfinished != NULL;
	if (run->status)
		return ET_STOP_FAILED;
	while (run->pc < n) {
		const struct et_plan_instruction *instruction = &plan->instructions[run->pc];
		uint32_t next = run->pc + 1;
		enum et_status status = may_go_on(run, env);
		if (status)
			return stop_failed(run, status);
		if (instruction->has_queue && !is_skipped(instruction) &&
			(instruction->queue.kind != env->queue.kind || instruction->queue.device != env->queue.device))
			return stop_at_queue(run, instruction->queue);
		if (n_here++ && env->should_yield && env->should_yield(env->yield_self))
			return stop_at_queue(run, env->queue);
		run->n_executed++;
		status = run->trace ? execute_traced(run, instruction, env, &next)
				    : execute(run, instruction, env, &next);
		if (status == ET_PENDING)
			return ET_STOP_PENDING;
		if (status == ET_UNFINISHED)
			continue;
		if (status)
			return stop_failed(run, fail_here(run, status));
		run->pc = next;
	}
	return ET_STOP_DONE;
}

/* --- begin, resume, end ---------------------------------------------------------------------------------------- */

enum et_status et_run_begin(struct et_run *run)
{
	struct et_method *method = run->method;
	const struct et_plan *plan = method->plan;
	run->queue = plan->info.first_queue;
	run->n_copied_bytes = 0;
	run->device_ns = 0;
	run->diag.text[0] = '\0';
	run->pc = 0;
	run->n_executed = 0;
	run->pending = run->begun = run->unfinished = NULL;
	run->status = ET_OK;
	if (run->frame->plan != plan)
		return et_fail(&run->diag, ET_E_INVALID_STATE, "the frame belongs to another plan");
	enum et_status status = et_method_enter(method, &run->diag);
	if (status)
		return status;
	et_frame_restore(run->frame, method);
	status = et_binding_check(run);
	if (status)
		return status;
	et_method_begin(method);
	et_binding_apply(run);
	return ET_OK;
}

void et_run_resume(struct et_run *run, enum et_status status, const char *reason)
{
	struct et_plan_instance *held = run->pending;
	run->pending = NULL;
	if (run->trace)
		run->trace->end(run->trace->self, run->pc);
	if (held)
		count_use(run, held);
	/* release: pairs with the acquire of the next run that uses the instance */
	if (held)
		atomic_store_explicit(&held->is_busy, false, memory_order_release);
	if (status == ET_UNFINISHED) {
		run->unfinished = held;
		return;
	}
	if (status) {
		if (reason)
			et_fail(&run->diag, status, "%s", reason);
		run->status = fail_here(run, status);
		return;
	}
	run->pc++;
}

void et_run_wait(struct et_run *run)
{
	const struct et_plan_instance *held = run->begun;
	if (held->ops->wait)
		held->ops->wait(held->instance, run->deadline_ns);
}

void et_run_cancel(struct et_run *run)
{
	atomic_store_explicit(&run->cancelled, true, memory_order_relaxed);
	const struct et_plan_instance *held = run->pending;
	if (held && held->ops->cancel)
		held->ops->cancel(held->instance);
}

void et_run_give_way(const struct et_run *run)
{
	const struct et_plan_instance *held = run->pending;
	if (held && held->ops->give_way)
		held->ops->give_way(held->instance);
}

enum et_status et_run_end(struct et_run *run)
{
	if (run->unfinished)
		run->unfinished->ops->abandon(run->unfinished->instance);
	run->unfinished = NULL;
	if (!run->status && run->pc < run->method->plan->spec->n_instructions)
		run->status = et_fail(&run->diag, ET_E_CANCELLED, "ended before instruction %" PRIu32, run->pc);
	if (!run->status)
		run->status = et_binding_finish(run);
	if (run->status)
		et_method_abort(run->method);
	else
		et_method_commit(run->method, run->frame);
	return run->status;
}

int et_run_callee(const struct et_run *run, const struct et_kernel **ret_kernel)
{
	const struct et_plan *plan = run->method->plan;
	*ret_kernel = NULL;
	if (run->pc >= plan->spec->n_instructions)
		return -1;
	const struct et_plan_instruction *instruction = &plan->instructions[run->pc];
	if (instruction->op == ET_OP_DELEGATE)
		return (int)plan->delegates[instruction->index].backend;
	if (instruction->op == ET_OP_KERNEL)
		*ret_kernel = plan->operators[instruction->index].kernel;
	return -1;
}

const struct et_tensor *et_run_output(const struct et_run *run, uint32_t index)
{
	const struct et_plan *plan = run->method->plan;
	if (index >= plan->info.n_outputs)
		return NULL;
	const struct et_evalue *value = &run->frame->values[plan->spec->outputs[index]];
	return value->tag == ET_TAG_TENSOR ? value->tensor : NULL;
}
