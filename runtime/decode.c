/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding a method's instructions: find the kernels, check the arguments, let delegates compile their payloads.
 *
 * The Program has checked every index. This file checks every meaning: operators exist, arguments have the kinds that
 * the kernels rely on, no instruction writes to a constant, no move turns a number into a tensor. Some facts are known
 * only during a run: what a MoveCall put into a value, or whether a FreeCall has released memory. They become a `struct
 * et_check` of the instruction, so that the many instructions without such arguments cost nothing extra.
 *
 * Moves of lists are refused. A list's items decide what an instruction reads, and the data flow analysis must know
 * them. No exporter emits such moves. */
#include "runtime/base/checked.h"
#include "runtime/plan_internal.h"

#include <stdio.h>
#include <string.h>

/* Limits against programs that are made to waste time. MAX_VISITS: values that one pass over all instructions may
 * visit, items of lists included. MAX_ARENAS: there are passes over all values for each arena. */
enum { MAX_VISITS = 1 << 26, MAX_ARENAS = 64 };

bool et_tag_is_value_list(uint8_t tag)
{
	return tag == ET_TAG_INT_LIST || tag == ET_TAG_TENSOR_LIST || tag == ET_TAG_OPTIONAL_TENSOR_LIST;
}

bool et_tag_is_scalar(uint8_t tag)
{
	return tag == ET_TAG_NONE || tag == ET_TAG_INT || tag == ET_TAG_BOOL || tag == ET_TAG_DOUBLE;
}

/* --- visiting arguments ----------------------------------------------------------------------------- */

static void visit_value(const struct et_plan *plan, uint32_t value_index, unsigned access, et_access_fn fn, void *arg)
{
	const struct et_value_spec *value = &plan->spec->values[value_index];
	if (!et_tag_is_value_list(value->tag)) {
		fn(arg, value_index, access);
		return;
	}
	for (uint32_t i = 0; i < value->list->n; i++)
		if (value->list->values[i] != ET_NO_VALUE)
			fn(arg, value->list->values[i], access);
}

void et_plan_visit(const struct et_plan *plan, const struct et_plan_instruction *instruction, unsigned want,
	et_access_fn fn, void *arg)
{
	const uint32_t *value_indices = &plan->args[instruction->first_arg];
	bool is_kernel = instruction->op == ET_OP_KERNEL;
	if (!is_kernel && instruction->op != ET_OP_DELEGATE)
		return;
	const struct et_kernel_arg *how = is_kernel ? plan->operators[instruction->index].args : NULL;
	uint32_t n_inputs = is_kernel ? 0 : plan->delegates[instruction->index].info.n_inputs;
	for (uint32_t i = 0; i < instruction->n_args; i++) {
		unsigned access = is_kernel ? (how[i].is_read ? ET_ACCESS_READ : 0u) |
						      (how[i].is_written ? ET_ACCESS_WRITE : 0u) |
						      (how[i].is_view ? ET_ACCESS_VIEW : 0u)
				  : i < n_inputs ? ET_ACCESS_READ
						 : ET_ACCESS_WRITE;
		if (access & want)
			visit_value(plan, value_indices[i], access, fn, arg);
	}
}

/* --- values ------------------------------------------------------------------------------------------- */

/* Kernels access elements in place, so offsets must be aligned. */
static enum et_status check_values(const struct et_method_spec *spec, struct et_diag *diag)
{
	for (uint32_t value_index = 0; value_index < spec->n_values; value_index++) {
		const struct et_tensor_spec *tensor = spec->values[value_index].tensor;
		if (spec->values[value_index].tag == ET_TAG_TENSOR && tensor->offset % et_scalar_size(tensor->type))
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"value %u: offset %zu is not a multiple of the element size", value_index,
				tensor->offset);
	}
	return ET_OK;
}

/* --- names for an error text --------------------------------------------------------------------------- */

/* A list of names for an error text: as many as fit. */
struct names {
	char text[200];
	size_t n_chars;
	uint32_t n;
};

static void add_name(struct names *names, const char *name)
{
	char *at = names->text + names->n_chars;
	size_t room = sizeof names->text - names->n_chars;
	int wrote = snprintf(at, room, "%s%s", names->n ? ", " : "", name);
	if (wrote < 0 || (size_t)wrote >= room) {
		*at = '\0';
		return;
	}
	names->n_chars += (size_t)wrote;
	names->n++;
}

/* --- kernels ------------------------------------------------------------------------------------------ */

static const struct et_kernel *find_kernel(const struct et_registry *registry, const char *name)
{
	for (size_t i = 0; i < registry->n_tables; i++) {
		const struct et_kernel *kernel = et_kernel_table_find(registry->tables[i], name);
		if (kernel)
			return kernel;
	}
	return NULL;
}

/* Name all missing operators in one sentence. */
static enum et_status missing_operators(const struct et_plan *plan, const bool *is_used, uint32_t n_missing,
	struct et_diag *diag)
{
	struct names names = { .n = 0 };
	for (uint32_t i = 0; i < plan->spec->n_operators; i++)
		if (is_used[i] && !plan->operators[i].kernel)
			add_name(&names, plan->spec->operators[i]);
	char more[24] = "";
	if (names.n < n_missing)
		snprintf(more, sizeof more, " and %u more", n_missing - names.n);
	return et_fail(diag, ET_E_OPERATOR_MISSING, "method '%s' needs operators that are missing: %s%s",
		plan->spec->name, names.text, more);
}

static enum et_status decode_signature(struct et_plan *plan, struct et_plan_operator *op, struct et_diag *diag)
{
	struct et_kernel_arg args[ET_KERNEL_MAX_ARGS];
	int n = et_kernel_signature(op->kernel->signature, args, ET_KERNEL_MAX_ARGS);
	if (n < 0)
		return et_fail(diag, ET_E_INTERNAL, "the signature '%s' of kernel %s is malformed",
			op->kernel->signature, op->kernel->name);
	struct et_kernel_arg *copy = ET_POOL_NEW_ARRAY(&plan->pool, struct et_kernel_arg, (size_t)n);
	if (!copy)
		return et_plan_no_memory(diag);
	memcpy(copy, args, (size_t)n * sizeof *copy);
	op->args = copy;
	op->n_args = (uint32_t)n;
	return ET_OK;
}

static enum et_status find_kernels(struct et_plan *plan, struct et_pool *scratch, struct et_diag *diag)
{
	const struct et_method_spec *spec = plan->spec;
	bool *is_used = ET_POOL_NEW_ARRAY(scratch, bool, spec->n_operators);
	plan->operators = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_operator, spec->n_operators);
	if (!is_used || !plan->operators)
		return et_plan_no_memory(diag);
	for (uint32_t i = 0; i < spec->n_instructions; i++)
		if (spec->instructions[i].op == ET_OP_KERNEL)
			is_used[spec->instructions[i].index] = true;
	uint32_t n_missing = 0;
	for (uint32_t i = 0; i < spec->n_operators; i++) {
		if (!is_used[i])
			continue;
		plan->operators[i].kernel = find_kernel(plan->registry, spec->operators[i]);
		n_missing += !plan->operators[i].kernel;
	}
	if (n_missing)
		return missing_operators(plan, is_used, n_missing, diag);
	for (uint32_t i = 0; i < spec->n_operators; i++) {
		enum et_status status = plan->operators[i].kernel ? decode_signature(plan, &plan->operators[i], diag)
								  : ET_OK;
		if (status)
			return status;
	}
	return ET_OK;
}

/* --- instructions ------------------------------------------------------------------------------------- */

static enum et_status decode_kernel(struct et_plan *plan, uint32_t number, const struct et_instruction_spec *from,
	struct et_diag *diag)
{
	const struct et_plan_operator *op = &plan->operators[from->index];
	struct et_plan_instruction *to = &plan->instructions[number];
	if (from->n_args < op->n_args)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "instruction %u (%s): %u arguments, expected %u", number,
			op->kernel->name, from->n_args, op->n_args);
	to->has_queue = true;
	to->n_args = op->n_args;
	plan->info.may_leave_unwritten |= op->kernel->is_elsewhere;
	for (uint32_t i = 0; i < op->n_args; i++) {
		const struct et_value_spec *value = &plan->spec->values[from->args[i]];
		char letter = op->args[i].letter;
		if (!et_kernel_letter_takes(letter, value->tag))
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"instruction %u (%s): argument %u is a %s, which '%c' of its signature %s "
				"does not take",
				number, op->kernel->name, i, et_tag_name(value->tag), letter, op->kernel->signature);
		to->has_view |= op->args[i].is_view;
	}
	return ET_OK;
}

static enum et_status decode_move(struct et_plan *plan, uint32_t number, const struct et_instruction_spec *from,
	struct et_diag *diag)
{
	uint8_t source = plan->spec->values[from->args[0]].tag;
	uint8_t target = plan->spec->values[from->args[1]].tag;
	if (et_tag_is_value_list(source) || et_tag_is_value_list(target))
		return et_fail(diag, ET_E_NOT_SUPPORTED, "instruction %u: moves of lists are not supported", number);
	if (source != target && !(et_tag_is_scalar(source) && et_tag_is_scalar(target)))
		return et_fail(diag, ET_E_INVALID_PROGRAM, "instruction %u: moves a %s to a value that holds a %s",
			number, et_tag_name(source), et_tag_name(target));
	if (from->args[0] != from->args[1])
		plan->values[from->args[1]].is_moved = true;
	return ET_OK;
}

static enum et_status decode_one(struct et_plan *plan, uint32_t number, const struct et_instruction_spec *from,
	struct et_diag *diag)
{
	struct et_plan_instruction *to = &plan->instructions[number];
	to->op = from->op;
	to->index = from->index;
	to->n_args = from->n_args;
	switch (from->op) {
	case ET_OP_KERNEL:
		return decode_kernel(plan, number, from, diag);
	case ET_OP_DELEGATE: {
		uint32_t n_args = plan->spec->delegates[from->index].n_args;
		if (n_args != from->n_args)
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"instruction %u: delegate %u is called with %u arguments here and %u "
				"elsewhere",
				number, from->index, from->n_args, n_args);
		plan->delegates[from->index].is_called = true;
		to->has_queue = true;
		return ET_OK;
	}
	case ET_OP_MOVE:
		return decode_move(plan, number, from, diag);
	case ET_OP_JUMP_FALSE: {
		uint8_t tag = plan->spec->values[from->args[0]].tag;
		if (tag != ET_TAG_TENSOR && !et_tag_is_scalar(tag))
			return et_fail(diag, ET_E_INVALID_PROGRAM, "instruction %u: the condition is a %s, not a Bool",
				number, et_tag_name(tag));
		if (from->index > plan->spec->n_instructions)
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"instruction %u: jumps to instruction %u, but there are %u", number, from->index,
				plan->spec->n_instructions);
		plan->has_back_jump |= from->index <= number;
		return ET_OK;
	}
	case ET_OP_FREE:
		if (plan->spec->values[from->args[0]].tag != ET_TAG_TENSOR)
			return et_fail(diag, ET_E_INVALID_PROGRAM, "instruction %u: frees a %s", number,
				et_tag_name(plan->spec->values[from->args[0]].tag));
		plan->values[from->args[0]].is_freed = true;
		return ET_OK;
	default:
		return et_fail(diag, ET_E_INVALID_PROGRAM, "instruction %u: unknown kind %u", number, from->op);
	}
}

static enum et_status decode_instructions(struct et_plan *plan, struct et_diag *diag)
{
	const struct et_method_spec *spec = plan->spec;
	size_t n_args = 0, n_visits = 0;
	for (uint32_t i = 0; i < spec->n_instructions; i++) {
		enum et_status status = decode_one(plan, i, &spec->instructions[i], diag);
		if (status)
			return status;
		plan->instructions[i].first_arg = (uint32_t)n_args;
		n_args += plan->instructions[i].n_args;
		n_visits += plan->instructions[i].n_args;
		for (uint32_t a = 0; a < plan->instructions[i].n_args; a++) {
			const struct et_value_spec *value = &spec->values[spec->instructions[i].args[a]];
			if (et_tag_is_value_list(value->tag))
				n_visits += value->list->n;
		}
		if (n_visits > MAX_VISITS)
			return et_fail(diag, ET_E_NOT_SUPPORTED, "method '%s' passes more than %d arguments in all",
				spec->name, MAX_VISITS);
	}
	plan->n_args = (uint32_t)n_args;
	plan->args = ET_POOL_NEW_ARRAY(&plan->pool, uint32_t, n_args);
	if (!plan->args)
		return et_plan_no_memory(diag);
	for (uint32_t i = 0; i < spec->n_instructions; i++)
		for (uint32_t a = 0; a < plan->instructions[i].n_args; a++)
			plan->args[plan->instructions[i].first_arg + a] = spec->instructions[i].args[a];
	return ET_OK;
}

enum et_status et_plan_decode(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag)
{
	const struct et_method_spec *spec = plan->spec;
	if (spec->n_arenas > MAX_ARENAS)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "method '%s' has %u arenas, %d are the most", spec->name,
			spec->n_arenas, MAX_ARENAS);
	plan->values = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_value, spec->n_values);
	plan->instructions = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_instruction, spec->n_instructions);
	plan->delegates = ET_POOL_NEW_ARRAY(&plan->pool, struct et_plan_delegate, spec->n_delegates);
	if (!plan->values || !plan->instructions || !plan->delegates)
		return et_plan_no_memory(diag);
	enum et_status status = check_values(spec, diag);
	if (status)
		return status;
	for (uint32_t i = 0; i < spec->n_inputs; i++) {
		const struct et_value_spec *value = &spec->values[spec->inputs[i]];
		if (value->tag == ET_TAG_TENSOR && value->tensor->storage == ET_STORAGE_CONSTANT)
			return et_fail(diag, ET_E_INVALID_PROGRAM, "input %u is a constant", i);
		plan->values[spec->inputs[i]].is_input = true;
	}
	for (uint32_t i = 0; i < spec->n_outputs; i++)
		plan->values[spec->outputs[i]].is_output = true;
	struct et_pool scratch;
	et_pool_init(&scratch, allocator);
	status = find_kernels(plan, &scratch, diag);
	et_pool_deinit(&scratch);
	return status ? status : decode_instructions(plan, diag);
}

/* --- delegates ---------------------------------------------------------------------------------------- */

static enum et_status missing_backend(const struct et_plan *plan, const char *id, struct et_diag *diag)
{
	struct names names = { .n = 0 };
	for (size_t i = 0; i < plan->registry->n_backends; i++)
		if (!plan->registry->backends[i].ops->runs_programs)
			add_name(&names, plan->registry->backends[i].ops->id);
	return et_fail(diag, ET_E_BACKEND_MISSING, "Backend '%.64s' is not available. Available backends: [%s]", id,
		names.text);
}

static enum et_status find_backends(struct et_plan *plan, struct et_diag *diag)
{
	bool is_client = et_program_source(plan->program)->client_files;
	for (uint32_t d = 0; d < plan->spec->n_delegates; d++) {
		const char *id = plan->spec->delegates[d].id;
		for (size_t b = 0; b < plan->registry->n_backends && !plan->delegates[d].ops; b++) {
			const struct et_delegate_ops *ops = plan->registry->backends[b].ops;
			if (strcmp(ops->id, id) == 0 && ops->runs_programs == is_client) {
				plan->delegates[d].ops = plan->registry->backends[b].ops;
				plan->delegates[d].backend = b;
			}
		}
		if (!plan->delegates[d].ops && plan->delegates[d].is_called)
			return missing_backend(plan, id, diag);
	}
	return ET_OK;
}

struct et_payload et_payload_of(const struct et_program *program, const struct et_method_spec *method, uint32_t index)
{
	const struct et_delegate_spec *spec = &method->delegates[index];
	return (struct et_payload){
		.program = program,
		.bytes = spec->payload,
		.n_bytes = spec->n_bytes,
		.specs = spec->specs,
		.n_specs = spec->n_specs,
		.n_args = spec->n_args,
		.method = method->name,
		.store = et_program_source(program)->store,
		.tenant = et_program_source(program)->tenant,
		.client_files = et_program_source(program)->client_files,
	};
}

bool et_payload_set_options(struct et_payload *payload, const struct et_options *options, const char *backend,
	struct et_pool *pool)
{
	uint32_t n = 0;
	for (uint32_t i = 0; options && i < options->n; i++)
		n += strcmp(options->items[i].backend, backend) == 0;
	struct et_option *own = n ? ET_POOL_NEW_ARRAY(pool, struct et_option, n) : NULL;
	if (n && !own)
		return false;
	payload->options = own;
	payload->n_options = n;
	for (uint32_t i = 0; n && i < options->n; i++) {
		const struct et_option *from = &options->items[i];
		if (strcmp(from->backend, backend))
			continue;
		own->backend = backend;
		own->key = et_pool_strndup(pool, from->key, strlen(from->key));
		own->value = et_pool_strndup(pool, from->value, strlen(from->value));
		if (!own->key || !own->value)
			return false;
		own++;
	}
	return true;
}

static enum et_status compile_one(struct et_plan *plan, uint32_t number, const struct et_options *options,
	struct et_diag *diag)
{
	struct et_plan_delegate *delegate = &plan->delegates[number];
	const struct et_delegate_spec *spec = &plan->spec->delegates[number];
	struct et_payload payload = et_payload_of(plan->program, plan->spec, number);
	struct et_model *model = NULL;
	struct et_model_info info = { 0 };
	if (!et_payload_set_options(&payload, options, delegate->ops->name, &plan->pool))
		return et_plan_no_memory(diag);
	enum et_status status = delegate->ops->compile(plan->registry->backends[delegate->backend].backend, &payload,
		&model, &info, diag);
	if (status)
		return et_fail(diag, status, "%s: delegate %u does not compile: %s", spec->id, number,
			et_status_text(status));
	delegate->model = model;
	delegate->info = info;
	size_t n_args = (size_t)info.n_inputs + info.n_outputs;
	if (n_args != spec->n_args)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"%s: delegate %u takes %u inputs and %u outputs, but is called with %u arguments", spec->id,
			number, info.n_inputs, info.n_outputs, spec->n_args);
	delegate->queue = et_registry_queue(plan->registry, delegate->backend, info.device);
	plan->n_stateful_delegates += info.is_stateful;
	plan->n_delegates_per_run += info.is_per_run && !info.is_stateful;
	plan->info.n_delegate_bytes += info.n_bytes;
	plan->info.shares_activations |= delegate->ops->import_memory && !delegate->ops->runs_programs;
	plan->info.may_leave_unwritten |= delegate->ops->is_elsewhere;
	return ET_OK;
}

enum et_status et_plan_compile(struct et_plan *plan, const struct et_options *options, struct et_diag *diag)
{
	enum et_status status = find_backends(plan, diag);
	for (uint32_t i = 0; i < plan->spec->n_delegates && !status; i++)
		if (plan->delegates[i].is_called)
			status = compile_one(plan, i, options, diag);
	if (status)
		return status;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++)
		if (plan->instructions[i].op == ET_OP_DELEGATE)
			plan->instructions[i].queue = plan->delegates[plan->instructions[i].index].queue;
	return ET_OK;
}
