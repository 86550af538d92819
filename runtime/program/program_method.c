/* SPDX-License-Identifier: BSD-3-Clause */
/* One method: its arenas, values, operators, delegates and instructions.
 *
 * A method's instructions come in chains, which run one after the other; a jump's destination counts from the start of
 * its own chain. Here all chains are one array: destinations become indices into it, and a jump to a chain's end
 * becomes a jump to the next chain's start (or to n_instructions, the end).
 *
 * What must always be true: every decoded index (of a value, operator, delegate, instruction) exists. Whether
 * arguments fit their operator is not checked here; the Plan does that. */
#include "runtime/program/program_internal.h"
#include "runtime/base/checked.h"

#include <string.h>

enum { PAYLOAD_INLINE, PAYLOAD_SEGMENT };

/* Delegates may share a payload (exporters emit equal payloads once), but each delegate compiles it again. A program
 * whose delegates add up to more than this many times the file's size is made to waste time. */
enum { MOST_SHARED = 64 };

static void read_arenas(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector sizes = et_fb_vector(fb, plan, PLAN_ARENA_SIZES, 8);
	if (!sizes.items)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the method has no list of arena sizes");
	size_t *arenas = READER_NEW_ARRAY(reader, size_t, sizes.n);
	size_t total = 0;
	for (uint32_t i = 1; arenas && i < sizes.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "arena", i);
		int64_t n_bytes = et_fb_i64_at(fb, sizes, i);
		if (n_bytes < 0 || (uint64_t)n_bytes > PTRDIFF_MAX || !et_add(total, (size_t)n_bytes, &total) ||
			total > PTRDIFF_MAX)
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it has %lld bytes, which is absurd", (long long)n_bytes);
		arenas[i] = (size_t)n_bytes;
	}
	method->arena_bytes = arenas;
	method->n_arenas = sizes.n;

	struct et_fb_vector devices = et_fb_vector(fb, plan, PLAN_ARENA_DEVICES, 4);
	for (uint32_t i = 0; i < devices.n && fb->status == ET_OK; i++) {
		struct et_fb_table device = et_fb_table_at(fb, devices, i);
		et_fb_where(fb, "arena", et_fb_u32(fb, device, ARENA_DEVICE_INDEX, 0));
		int8_t type = et_fb_i8(fb, device, ARENA_DEVICE_TYPE, 0);
		if (type != 0)
			et_fb_fail(fb, ET_E_NOT_SUPPORTED, "it lies on device type %d, only the CPU is supported",
				type);
	}
}

/* "name.overload", or "name". */
static const char *operator_name(struct et_program_reader *reader, struct et_fb_table table)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_string name = et_fb_string(fb, table, OPERATOR_NAME);
	struct et_fb_string overload = et_fb_string(fb, table, OPERATOR_OVERLOAD);
	if (fb->status != ET_OK)
		return NULL;
	if (!name.chars) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it has no name");
		return NULL;
	}
	if (overload.n == 0)
		return et_program_string(reader, name);
	char *joined = READER_NEW_ARRAY(reader, char, (size_t)name.n + 1 + overload.n + 1);
	if (!joined)
		return NULL;
	memcpy(joined, name.chars, name.n);
	joined[name.n] = '.';
	memcpy(joined + name.n + 1, overload.chars, overload.n);
	return joined;
}

static void read_operators(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector vector = et_fb_vector(fb, plan, PLAN_OPERATORS, 4);
	const char **operators = READER_NEW_ARRAY(reader, const char *, vector.n);
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "operator", i);
		operators[i] = operator_name(reader, et_fb_table_at(fb, vector, i));
	}
	method->operators = operators;
	method->n_operators = vector.n;
}

static void read_compile_specs(struct et_program_reader *reader, struct et_fb_table table,
	struct et_delegate_spec *delegate)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector vector = et_fb_vector(fb, table, DELEGATE_COMPILE_SPECS, 4);
	struct et_compile_spec *specs = READER_NEW_ARRAY(reader, struct et_compile_spec, vector.n);
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		struct et_fb_table spec = et_fb_table_at(fb, vector, i);
		struct et_fb_vector value = et_fb_vector(fb, spec, COMPILE_SPEC_VALUE, 1);
		specs[i].key = et_program_string(reader, et_fb_string(fb, spec, COMPILE_SPEC_KEY));
		uint8_t *copy = READER_NEW_ARRAY(reader, uint8_t, value.n);
		if (!copy)
			return;
		if (!specs[i].key) {
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "compile spec %u has no key", i);
			return;
		}
		if (value.n)
			memcpy(copy, value.items, value.n);
		specs[i].value = copy;
		specs[i].n_bytes = value.n;
	}
	delegate->specs = specs;
	delegate->n_specs = vector.n;
}

static void read_payload(struct et_program_reader *reader, struct et_fb_table table, struct et_delegate_spec *delegate)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_table processed = et_fb_table(fb, table, DELEGATE_PROCESSED);
	int8_t location = et_fb_i8(fb, processed, PROCESSED_LOCATION, 0);
	uint32_t index = et_fb_u32(fb, processed, PROCESSED_INDEX, 0);
	if (et_fb_is_absent(processed)) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it has no payload");
	} else if (location == PAYLOAD_SEGMENT) {
		struct et_segment *segment = et_program_segment(reader, index);
		if (!segment)
			return;
		segment->has_payload = true;
		delegate->payload = reader->program->bytes + segment->offset;
		delegate->n_bytes = segment->n_bytes;
	} else if (location != PAYLOAD_INLINE) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "unknown payload location %d", location);
	} else if (index >= reader->inline_payloads.n) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "its payload is number %u, but there are %u", index,
			reader->inline_payloads.n);
	} else {
		struct et_fb_table data = et_fb_table_at(fb, reader->inline_payloads, index);
		struct et_fb_vector blob = et_fb_blob(fb, data, BUFFER_BYTES);
		if (!blob.items)
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "its payload (number %u) is missing", index);
		delegate->payload = blob.items;
		delegate->n_bytes = blob.n;
		reader->program->stats.n_payload_bytes += blob.n;
	}
	size_t n_file_bytes = reader->program->n_bytes;
	if (!et_add(reader->n_payload_bytes, delegate->n_bytes, &reader->n_payload_bytes) ||
		reader->n_payload_bytes / MOST_SHARED > n_file_bytes)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM,
			"payloads are shared so often that they are more than %d times the file's %zu bytes",
			MOST_SHARED, n_file_bytes);
}

static void read_delegates(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector vector = et_fb_vector(fb, plan, PLAN_DELEGATES, 4);
	struct et_delegate_spec *delegates = READER_NEW_ARRAY(reader, struct et_delegate_spec, vector.n);
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "delegate", i);
		struct et_fb_table table = et_fb_table_at(fb, vector, i);
		delegates[i].id = et_program_string(reader, et_fb_string(fb, table, DELEGATE_ID));
		if (!delegates[i].id)
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it does not name its backend");
		read_payload(reader, table, &delegates[i]);
		read_compile_specs(reader, table, &delegates[i]);
	}
	reader->delegates = delegates;
	method->delegates = delegates;
	method->n_delegates = vector.n;
}

/* Read one or two scalar fields as a list of value indices. */
static void read_fixed_args(struct et_program_reader *reader, struct et_fb_table table, uint32_t n_args,
	uint32_t n_values, struct et_instruction_spec *instruction)
{
	struct et_fb *fb = &reader->fb;
	uint32_t *args = READER_NEW_ARRAY(reader, uint32_t, n_args);
	for (uint32_t i = 0; args && i < n_args; i++)
		et_program_value_index(reader, et_fb_i32(fb, table, i, 0), n_values, "argument", i, &args[i]);
	instruction->args = args;
	instruction->n_args = n_args;
}

/* Read a call's operator or delegate, and its arguments. */
static void read_call(struct et_program_reader *reader, struct et_fb_table table, uint32_t n_callees, const char *what,
	uint32_t n_values, struct et_instruction_spec *instruction)
{
	struct et_fb *fb = &reader->fb;
	int32_t index = et_fb_i32(fb, table, CALL_INDEX, 0);
	struct et_fb_vector args = et_fb_vector(fb, table, CALL_ARGS, 4);
	if (index < 0 || (uint32_t)index >= n_callees) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it calls %s %d, but there are %u", what, index, n_callees);
		return;
	}
	if (!args.items) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it has no list of arguments");
		return;
	}
	instruction->index = (uint32_t)index;
	instruction->args = et_program_value_indices(reader, args, n_values, "argument");
	instruction->n_args = args.n;
}

/* @first: index of the chain's first instruction; @n_chain: number of instructions in the chain. */
static void read_instruction(struct et_program_reader *reader, struct et_fb_table table,
	const struct et_method_spec *method, uint32_t first, uint32_t n_chain, struct et_instruction_spec *instruction)
{
	struct et_fb *fb = &reader->fb;
	instruction->op = et_fb_u8(fb, table, INSTRUCTION_TYPE, 0);
	struct et_fb_table args = et_fb_table(fb, table, INSTRUCTION_VALUE);
	if (et_fb_is_absent(args)) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "an instruction of type %u without its body", instruction->op);
		return;
	}
	switch (instruction->op) {
	case ET_OP_KERNEL:
		read_call(reader, args, method->n_operators, "operator", method->n_values, instruction);
		return;
	case ET_OP_DELEGATE:
		read_call(reader, args, method->n_delegates, "delegate", method->n_values, instruction);
		if (fb->status == ET_OK && !reader->delegates[instruction->index].n_args)
			reader->delegates[instruction->index].n_args = instruction->n_args;
		return;
	case ET_OP_MOVE:
		read_fixed_args(reader, args, 2, method->n_values, instruction);
		return;
	case ET_OP_JUMP_FALSE: {
		read_fixed_args(reader, args, 1, method->n_values, instruction);
		int32_t destination = et_fb_i32(fb, args, JUMP_DESTINATION, 0);
		if (destination < 0 || (uint32_t)destination > n_chain) {
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it jumps to instruction %d of a chain of %u", destination,
				n_chain);
			return;
		}
		instruction->index = first + (uint32_t)destination;
		return;
	}
	case ET_OP_FREE:
		read_fixed_args(reader, args, 1, method->n_values, instruction);
		return;
	default:
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "unknown instruction type %u", instruction->op);
	}
}

static void read_chains(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector chains = et_fb_vector(fb, plan, PLAN_CHAINS, 4);
	if (chains.n == 0)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the method has no chain of instructions");
	size_t n = 0;
	for (uint32_t i = 0; i < chains.n && fb->status == ET_OK; i++) {
		struct et_fb_vector vector = et_fb_vector(fb, et_fb_table_at(fb, chains, i), CHAIN_INSTRUCTIONS, 4);
		if (!vector.items)
			et_fb_fail(fb, ET_E_INVALID_PROGRAM, "chain %u has no list of instructions", i);
		n += vector.n;
	}
	if (n > UINT32_MAX)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "%zu instructions are too many", n);
	struct et_instruction_spec *instructions = READER_NEW_ARRAY(reader, struct et_instruction_spec, n);
	uint32_t first = 0;
	for (uint32_t i = 0; i < chains.n && fb->status == ET_OK; i++) {
		struct et_fb_vector vector = et_fb_vector(fb, et_fb_table_at(fb, chains, i), CHAIN_INSTRUCTIONS, 4);
		for (uint32_t j = 0; j < vector.n && fb->status == ET_OK; j++) {
			et_fb_where(fb, "instruction", first + j);
			read_instruction(reader, et_fb_table_at(fb, vector, j), method, first, vector.n,
				&instructions[first + j]);
		}
		first += vector.n;
	}
	method->instructions = instructions;
	method->n_instructions = (uint32_t)n;
}

/* Read the value indices of the inputs or outputs. */
static const uint32_t *read_ends(struct et_program_reader *reader, struct et_fb_table plan, uint32_t field,
	const struct et_method_spec *method, const char *what, uint32_t *ret_n)
{
	struct et_fb *fb = &reader->fb;
	et_fb_where(fb, NULL, 0);
	struct et_fb_vector vector = et_fb_vector(fb, plan, field, 4);
	if (!vector.items)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "the method has no list of %ss", what);
	*ret_n = vector.n;
	return et_program_value_indices(reader, vector, method->n_values, what);
}

void et_program_read_method(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method)
{
	struct et_fb *fb = &reader->fb;
	method->name = et_program_string(reader, et_fb_string(fb, plan, PLAN_NAME));
	if (!method->name) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it has no name");
		return;
	}
	et_fb_within(fb, method->name);
	et_fb_where(fb, NULL, 0);
	read_arenas(reader, plan, method);
	et_fb_where(fb, NULL, 0);
	et_program_read_values(reader, plan, method);
	method->inputs = read_ends(reader, plan, PLAN_INPUTS, method, "input", &method->n_inputs);
	method->outputs = read_ends(reader, plan, PLAN_OUTPUTS, method, "output", &method->n_outputs);
	read_operators(reader, plan, method);
	read_delegates(reader, plan, method);
	et_fb_where(fb, NULL, 0);
	read_chains(reader, plan, method);
}
