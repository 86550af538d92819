/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a stand-in: one table for each value, method by method.
 *
 * Source of the format: ExecuTorch schema/program.fbs. The numbers below are those of its fields. */
#include "delegates/program/stand_in_write.h"

#include "delegates/known_delegates.h"
#include "runtime/platform/platform.h"
#include "runtime/profile/fb_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PROGRAM_VERSION = 0,
	PROGRAM_METHODS = 1,
	PROGRAM_PAYLOADS = 3,
	PLAN_NAME = 0,
	PLAN_VALUES = 2,
	PLAN_INPUTS = 3,
	PLAN_OUTPUTS = 4,
	PLAN_CHAINS = 5,
	PLAN_OPERATORS = 6,
	PLAN_DELEGATES = 7,
	PLAN_ARENA_SIZES = 8,
	EVALUE_TYPE = 0,
	EVALUE_VALUE = 1,
	VALUE_ITSELF = 0,
	TENSOR_TYPE = 0,
	TENSOR_SIZES = 2,
	TENSOR_DIM_ORDER = 3,
	TENSOR_DYNAMISM = 8,
	CHAIN_INSTRUCTIONS = 2,
	INSTRUCTION_TYPE = 0,
	INSTRUCTION_VALUE = 1,
	CALL_INDEX = 0,
	CALL_ARGS = 1,
	DELEGATE_ID = 0,
	DELEGATE_PROCESSED = 1,
	DELEGATE_SPECS = 2,
	PROCESSED_LOCATION = 0,
	PROCESSED_INDEX = 1,
	SPEC_KEY = 0,
	SPEC_VALUE = 1,
	PAYLOAD_BYTES = 0,
};

/* --- can it run here -------------------------------------------------------------------------------------------- */

static const struct et_backend_entry *find_backend(const struct et_registry *registry, const char *id)
{
	for (size_t i = 0; i < registry->n_backends; i++)
		if (strcmp(registry->backends[i].ops->id, id) == 0)
			return &registry->backends[i];
	return NULL;
}

static bool has_operator(const struct et_registry *registry, const char *name)
{
	for (size_t i = 0; i < registry->n_tables; i++)
		if (et_kernel_table_find(registry->tables[i], name))
			return true;
	return false;
}

static enum et_status missing_backend(const struct et_registry *registry, const char *id, struct et_diag *diag)
{
	char available[120] = "", known[320];
	size_t n = 0;
	for (size_t i = 0; i < registry->n_backends && n < sizeof available; i++)
		n += (size_t)snprintf(available + n, sizeof available - n, "%s%s", i ? ", " : "",
			registry->backends[i].ops->id);
	et_known_delegate_text(id, known, sizeof known);
	return et_fail(diag, ET_E_BACKEND_MISSING, "Backend '%.64s' is not available. Available backends: [%s]%s%s", id,
		available, known[0] ? ". It was " : "", known);
}

/* Whether a MoveCall may put another value here. */
static bool is_moved(const struct et_method_spec *method, uint32_t value_index)
{
	for (uint32_t i = 0; i < method->n_instructions; i++) {
		const struct et_instruction_spec *move = &method->instructions[i];
		if (move->op == ET_OP_MOVE && move->args[1] == value_index && move->args[0] != value_index)
			return true;
	}
	return false;
}

/* Input, or from n_inputs on output, number @i in the stand-in. Its items or text are those of the program. */
static struct et_value_spec value_of(const struct et_method_spec *method, uint32_t i)
{
	bool is_output = i >= method->n_inputs;
	uint32_t value_index = is_output ? method->outputs[i - method->n_inputs] : method->inputs[i];
	struct et_value_spec value = method->values[value_index];
	if (is_output && value.tag == ET_TAG_STRING && is_moved(method, value_index))
		value.tag = ET_TAG_NONE;
	return value;
}

static size_t n_args_of(const struct et_method_spec *method)
{
	size_t n = 0;
	for (uint32_t i = 0; i < method->n_inputs; i++)
		n += et_stand_in_passes(method->values[method->inputs[i]].tag);
	for (uint32_t i = 0; i < method->n_outputs; i++)
		n += method->values[method->outputs[i]].tag == ET_TAG_STRING ||
		     et_stand_in_passes(method->values[method->outputs[i]].tag);
	return n;
}

/* Name the first operator that is missing. One that no instruction calls may be. */
static enum et_status check_operators(const struct et_method_spec *method, const struct et_registry *registry,
	struct et_diag *diag)
{
	for (uint32_t i = 0; i < method->n_instructions; i++) {
		const struct et_instruction_spec *call = &method->instructions[i];
		if (call->op == ET_OP_KERNEL && !has_operator(registry, method->operators[call->index]))
			return et_fail(diag, ET_E_OPERATOR_MISSING,
				"method '%.64s' needs operators that are missing: %.128s", method->name,
				method->operators[call->index]);
	}
	return ET_OK;
}

enum et_status et_stand_in_refusal(const struct et_program *program, const struct et_method_spec *method,
	const struct et_registry *registry, struct et_diag *diag)
{
	if (!method)
		return et_fail(diag, ET_E_NOT_FOUND, "the program has no such method");
	if (method->why_not)
		return et_fail(diag, method->refusal, "%s", method->why_not);
	for (uint32_t i = 0; i < method->n_delegates; i++)
		if (method->delegates[i].n_args && !find_backend(registry, method->delegates[i].id))
			return missing_backend(registry, method->delegates[i].id, diag);
	enum et_status status = check_operators(method, registry, diag);
	if (status != ET_OK)
		return status;
	size_t n_args = n_args_of(method);
	if (n_args > ET_STAND_IN_MAX_ARGS)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"method '%.64s' has %zu inputs and outputs; a client's program can have %d", method->name,
			n_args, ET_STAND_IN_MAX_ARGS);
	return ET_OK;
}

/* The delegates of all methods that are available, as the daemon labels a variant of a model. */
static void make_label(const struct et_program *program, const struct et_registry *registry,
	char label[ET_STAND_IN_LABEL])
{
	bool is_used[64] = { false };
	size_t n = 0;
	for (uint32_t m = 0; m < et_program_n_methods(program); m++) {
		const struct et_method_spec *method = et_program_method_at(program, m);
		for (uint32_t d = 0; d < method->n_delegates; d++) {
			const struct et_backend_entry *entry = find_backend(registry, method->delegates[d].id);
			size_t index = entry ? (size_t)(entry - registry->backends) : sizeof is_used;
			if (index >= sizeof is_used || is_used[index] || n >= ET_STAND_IN_LABEL)
				continue;
			is_used[index] = true;
			n += (size_t)snprintf(label + n, ET_STAND_IN_LABEL - n, "%s%s", n ? "+" : "", entry->ops->name);
		}
	}
	if (!n)
		snprintf(label, ET_STAND_IN_LABEL, "portable");
}

/* --- values ----------------------------------------------------------------------------------------------------- */

static et_fbw_ref write_tensor(struct et_fbw *w, const struct et_tensor_spec *tensor)
{
	et_fbw_ref order = et_fbw_vector_u8(w, tensor->dim_order, tensor->n_dims);
	et_fbw_ref sizes = et_fbw_vector_u32(w, (const uint32_t *)tensor->sizes, tensor->n_dims);
	et_fbw_table(w);
	et_fbw_add_ref(w, TENSOR_SIZES, sizes);
	et_fbw_add_ref(w, TENSOR_DIM_ORDER, order);
	et_fbw_add_u8(w, TENSOR_TYPE, tensor->type);
	et_fbw_add_u8(w, TENSOR_DYNAMISM, tensor->dynamism);
	return et_fbw_table_end(w);
}

/* A table with one field. */
static et_fbw_ref write_boxed(struct et_fbw *w, et_fbw_ref ref)
{
	et_fbw_table(w);
	et_fbw_add_ref(w, VALUE_ITSELF, ref);
	return et_fbw_table_end(w);
}

static et_fbw_ref write_number(struct et_fbw *w, const struct et_value_spec *value)
{
	uint64_t bits = (uint64_t)value->i;
	if (value->tag == ET_TAG_DOUBLE)
		memcpy(&bits, &value->d, sizeof bits);
	et_fbw_table(w);
	if (value->tag == ET_TAG_BOOL)
		et_fbw_add_u8(w, VALUE_ITSELF, value->b);
	else
		et_fbw_add_u64(w, VALUE_ITSELF, bits);
	return et_fbw_table_end(w);
}

static et_fbw_ref write_body(struct et_fbw *w, const struct et_value_spec *value)
{
	switch (value->tag) {
	case ET_TAG_TENSOR:
		return write_tensor(w, value->tensor);
	case ET_TAG_INT:
	case ET_TAG_BOOL:
	case ET_TAG_DOUBLE:
		return write_number(w, value);
	case ET_TAG_STRING:
		return write_boxed(w, et_fbw_string(w, value->list->chars, value->list->n));
	case ET_TAG_INT_LIST:
	case ET_TAG_DOUBLE_LIST:
		return write_boxed(w, et_fbw_vector_u64(w, NULL, 0));
	case ET_TAG_BOOL_LIST:
		return write_boxed(w, et_fbw_vector_u8(w, NULL, 0));
	case ET_TAG_TENSOR_LIST:
	case ET_TAG_OPTIONAL_TENSOR_LIST:
		return write_boxed(w, et_fbw_vector_u32(w, NULL, 0));
	default:
		return 0;
	}
}

static et_fbw_ref write_value(struct et_fbw *w, const struct et_value_spec *value)
{
	et_fbw_ref body = write_body(w, value);
	et_fbw_table(w);
	et_fbw_add_ref(w, EVALUE_VALUE, body);
	et_fbw_add_u8(w, EVALUE_TYPE, value->tag);
	return et_fbw_table_end(w);
}

/* --- methods ---------------------------------------------------------------------------------------------------- */

static et_fbw_ref write_text(struct et_fbw *w, const char *text)
{
	return et_fbw_string(w, text, strlen(text));
}

static et_fbw_ref write_spec(struct et_fbw *w, const char *key, const char *value)
{
	et_fbw_ref bytes = et_fbw_vector_u8(w, (const uint8_t *)value, strlen(value));
	et_fbw_ref name = write_text(w, key);
	et_fbw_table(w);
	et_fbw_add_ref(w, SPEC_KEY, name);
	et_fbw_add_ref(w, SPEC_VALUE, bytes);
	return et_fbw_table_end(w);
}

static et_fbw_ref write_delegate(struct et_fbw *w, uint32_t number, const struct et_stand_in_info *info)
{
	char status[12];
	snprintf(status, sizeof status, "%u", (unsigned)info->status);
	et_fbw_ref specs[3] = { write_spec(w, "label", info->label), write_spec(w, "status", status),
		write_spec(w, "refused", info->refused.text) };
	et_fbw_ref list = et_fbw_vector_refs(w, specs, 3);
	et_fbw_ref id = write_text(w, ET_STAND_IN_ID);
	et_fbw_table(w);
	et_fbw_add_u32(w, PROCESSED_INDEX, number);
	et_fbw_add_u8(w, PROCESSED_LOCATION, 0);
	et_fbw_ref processed = et_fbw_table_end(w);
	et_fbw_table(w);
	et_fbw_add_ref(w, DELEGATE_ID, id);
	et_fbw_add_ref(w, DELEGATE_PROCESSED, processed);
	et_fbw_add_ref(w, DELEGATE_SPECS, list);
	et_fbw_ref delegate = et_fbw_table_end(w);
	return et_fbw_vector_refs(w, &delegate, 1);
}

/* The one chain with its one call. */
static et_fbw_ref write_chains(struct et_fbw *w, const uint32_t *args, uint32_t n_args)
{
	et_fbw_ref list = et_fbw_vector_u32(w, args, n_args);
	et_fbw_table(w);
	et_fbw_add_ref(w, CALL_ARGS, list);
	et_fbw_add_u32(w, CALL_INDEX, 0);
	et_fbw_ref call = et_fbw_table_end(w);
	et_fbw_table(w);
	et_fbw_add_ref(w, INSTRUCTION_VALUE, call);
	et_fbw_add_u8(w, INSTRUCTION_TYPE, ET_OP_DELEGATE);
	et_fbw_ref instruction = et_fbw_table_end(w);
	et_fbw_ref instructions = et_fbw_vector_refs(w, &instruction, 1);
	et_fbw_table(w);
	et_fbw_add_ref(w, CHAIN_INSTRUCTIONS, instructions);
	et_fbw_ref chain = et_fbw_table_end(w);
	return et_fbw_vector_refs(w, &chain, 1);
}

/* The values of one method: as many as it has inputs and outputs. */
struct values {
	et_fbw_ref *refs;
	uint32_t *numbers, *args; /* 0, 1, ...; those of them that are arguments */
	uint32_t n, n_args, n_inputs;
};

static bool write_values(struct et_fbw *w, const struct et_method_spec *method, struct values *values,
	struct et_pool *pool)
{
	/* too many are refused, so nobody looks at them */
	bool is_small = n_args_of(method) <= ET_STAND_IN_MAX_ARGS;
	values->n_inputs = is_small ? method->n_inputs : 0;
	values->n = is_small ? method->n_inputs + method->n_outputs : 0;
	values->n_args = 0;
	values->refs = ET_POOL_NEW_ARRAY(pool, et_fbw_ref, values->n);
	values->numbers = ET_POOL_NEW_ARRAY(pool, uint32_t, values->n);
	values->args = ET_POOL_NEW_ARRAY(pool, uint32_t, values->n);
	if (!values->refs || !values->numbers || !values->args)
		return false;
	for (uint32_t i = 0; i < values->n && w->n_used <= ET_STAND_IN_MAX_BYTES; i++) {
		struct et_value_spec value = value_of(method, i);
		values->refs[i] = write_value(w, &value);
		values->numbers[i] = i;
		if (et_stand_in_passes(value.tag))
			values->args[values->n_args++] = i;
	}
	return true;
}

static et_fbw_ref write_method(struct et_fbw *w, const struct et_method_spec *method, uint32_t number,
	const struct et_stand_in_info *info, struct et_pool *pool)
{
	struct values values;
	if (!write_values(w, method, &values, pool)) {
		w->status = w->status ? w->status : ET_E_MEMORY_ALLOCATION_FAILED;
		return 0;
	}
	et_fbw_ref chains = write_chains(w, values.args, values.n_args);
	et_fbw_ref delegates = write_delegate(w, number, info);
	et_fbw_ref operators = et_fbw_vector_refs(w, NULL, 0);
	et_fbw_ref arenas = et_fbw_vector_u64(w, NULL, 0);
	et_fbw_ref list = et_fbw_vector_refs(w, values.refs, values.n);
	et_fbw_ref inputs = et_fbw_vector_u32(w, values.numbers, values.n_inputs);
	et_fbw_ref outputs = et_fbw_vector_u32(w, values.numbers + values.n_inputs, values.n - values.n_inputs);
	et_fbw_ref name = write_text(w, method->name);
	et_fbw_table(w);
	et_fbw_add_ref(w, PLAN_NAME, name);
	et_fbw_add_ref(w, PLAN_VALUES, list);
	et_fbw_add_ref(w, PLAN_INPUTS, inputs);
	et_fbw_add_ref(w, PLAN_OUTPUTS, outputs);
	et_fbw_add_ref(w, PLAN_CHAINS, chains);
	et_fbw_add_ref(w, PLAN_OPERATORS, operators);
	et_fbw_add_ref(w, PLAN_DELEGATES, delegates);
	et_fbw_add_ref(w, PLAN_ARENA_SIZES, arenas);
	return et_fbw_table_end(w);
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static et_fbw_ref write_payload(struct et_fbw *w, uint32_t number)
{
	char text[12];
	int n = snprintf(text, sizeof text, "%u", number);
	return write_boxed(w, et_fbw_vector_u8(w, (const uint8_t *)text, (size_t)n));
}

static enum et_status write_all(struct et_fbw *w, const struct et_program *program, const struct et_registry *registry,
	const uint8_t **ret_bytes, size_t *ret_n_bytes)
{
	struct et_stand_in_info info = { .label = "" };
	et_fbw_ref methods[ET_STAND_IN_MAX_METHODS], payloads[ET_STAND_IN_MAX_METHODS];
	uint32_t n = et_program_n_methods(program);
	struct et_pool pool;
	make_label(program, registry, info.label);
	et_pool_init(&pool, et_platform_allocator());
	for (uint32_t i = 0; i < n && w->n_used <= ET_STAND_IN_MAX_BYTES; i++) {
		const struct et_method_spec *method = et_program_method_at(program, i);
		info.refused.text[0] = '\0';
		info.status = et_stand_in_refusal(program, method, registry, &info.refused);
		methods[i] = write_method(w, method, i, &info, &pool);
		payloads[i] = write_payload(w, i);
	}
	et_pool_deinit(&pool);
	if (w->n_used > ET_STAND_IN_MAX_BYTES)
		return ET_E_OUT_OF_RESOURCES;
	et_fbw_ref list = et_fbw_vector_refs(w, methods, n);
	et_fbw_ref payload_list = et_fbw_vector_refs(w, payloads, n);
	et_fbw_table(w);
	et_fbw_add_u32(w, PROGRAM_VERSION, 0);
	et_fbw_add_ref(w, PROGRAM_METHODS, list);
	et_fbw_add_ref(w, PROGRAM_PAYLOADS, payload_list);
	et_fbw_ref root = et_fbw_table_end(w);
	enum et_status status = et_fbw_finish_unsized(w, root, "ET12", ret_bytes, ret_n_bytes);
	return status == ET_OK && *ret_n_bytes > ET_STAND_IN_MAX_BYTES ? ET_E_OUT_OF_RESOURCES : status;
}

enum et_status et_stand_in_write(const struct et_program *program, const struct et_registry *registry,
	uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag)
{
	struct et_fbw w;
	const uint8_t *bytes = NULL;
	if (et_program_n_methods(program) > ET_STAND_IN_MAX_METHODS)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"the program has %u methods; a client's program can have %d", et_program_n_methods(program),
			ET_STAND_IN_MAX_METHODS);
	et_fbw_init(&w, et_platform_allocator());
	enum et_status status = write_all(&w, program, registry, &bytes, ret_n_bytes);
	*ret_bytes = status == ET_OK ? malloc(*ret_n_bytes) : NULL;
	if (*ret_bytes)
		memcpy(*ret_bytes, bytes, *ret_n_bytes);
	else if (status == ET_OK)
		status = ET_E_MEMORY_ALLOCATION_FAILED;
	et_fbw_deinit(&w);
	if (status == ET_E_OUT_OF_RESOURCES)
		return et_fail(diag, status,
			"the program's methods, inputs and outputs take more than %d bytes to describe",
			ET_STAND_IN_MAX_BYTES);
	return status == ET_OK ? ET_OK : et_fail(diag, status, "no memory to describe a program");
}
