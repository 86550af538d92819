/* SPDX-License-Identifier: BSD-3-Clause */
/* The walk. It reads only the first and the last byte of each range, where a wrong length shows. Buffers in tests
 * have exactly the file's length, so that the sanitizer sees an access one byte beyond. */
#include "tests/support/walk_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSIST(condition)                                                                               \
	do {                                                                                            \
		if (!(condition)) {                                                                     \
			fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                                        \
		}                                                                                       \
	} while (0)

static uint64_t ends_of(const uint8_t *bytes, size_t n)
{
	INSIST(bytes || n == 0);
	return n ? (uint64_t)bytes[0] + bytes[n - 1] : 0;
}

static uint64_t walk_shape(uint8_t type, uint8_t n_dims, const int32_t *sizes, const uint8_t *dim_order, size_t n_bytes)
{
	INSIST(n_dims <= ET_MAX_DIMS);
	INSIST(et_dim_order_is_valid(dim_order, n_dims));
	INSIST(et_scalar_size(type) > 0);
	size_t numel = 0;
	INSIST(et_sizes_are_addressable(sizes, dim_order, n_dims, &numel));
	INSIST(numel * et_scalar_size(type) == n_bytes);
	int32_t strides[ET_MAX_DIMS];
	et_dim_order_to_strides(sizes, dim_order, n_dims, strides);
	for (uint8_t i = 0; i < n_dims; i++)
		INSIST(strides[i] > 0);
	return strlen(et_scalar_name(type)) + n_bytes;
}

static uint64_t walk_tensor(const struct et_method_spec *method, const struct et_tensor_spec *t)
{
	uint64_t sum = walk_shape(t->type, t->n_dims, t->sizes, t->dim_order, t->n_bytes);
	INSIST(t->dynamism == ET_STATIC || t->dynamism == ET_DYNAMIC_BOUND);
	INSIST(t->storage != ET_STORAGE_NONE || !t->constant);
	INSIST(t->storage != ET_STORAGE_CONSTANT || t->constant);
	if (t->storage == ET_STORAGE_PLANNED) {
		INSIST(t->arena > 0 && t->arena < method->n_arenas);
		INSIST(t->offset <= method->arena_bytes[t->arena]);
		INSIST(t->n_bytes <= method->arena_bytes[t->arena] - t->offset);
	}
	if (t->constant)
		sum += ends_of(t->constant, t->n_bytes);
	return sum + (t->name ? strlen(t->name) : 0);
}

static uint64_t walk_value(const struct et_method_spec *method, const struct et_value_spec *value)
{
	uint64_t sum = strlen(et_tag_name(value->tag));
	switch (value->tag) {
	case ET_TAG_NONE:
	case ET_TAG_INT:
	case ET_TAG_BOOL:
	case ET_TAG_DOUBLE:
		return sum;
	case ET_TAG_TENSOR:
		return sum + walk_tensor(method, value->tensor);
	case ET_TAG_STRING:
		INSIST(value->list->chars[value->list->n] == '\0');
		return sum + strlen(value->list->chars);
	case ET_TAG_DOUBLE_LIST:
		return sum + ends_of((const uint8_t *)value->list->doubles, value->list->n * sizeof(double));
	case ET_TAG_BOOL_LIST:
		for (uint32_t i = 0; i < value->list->n; i++)
			INSIST(value->list->bools[i] <= 1);
		return sum;
	case ET_TAG_INT_LIST:
	case ET_TAG_TENSOR_LIST:
	case ET_TAG_OPTIONAL_TENSOR_LIST:
		for (uint32_t i = 0; i < value->list->n; i++) {
			uint32_t slot = value->list->values[i];
			if (slot == ET_NO_VALUE) {
				INSIST(value->tag == ET_TAG_OPTIONAL_TENSOR_LIST);
				continue;
			}
			INSIST(slot < method->n_values);
			uint8_t tag = method->values[slot].tag;
			INSIST(tag == (value->tag == ET_TAG_INT_LIST ? ET_TAG_INT : ET_TAG_TENSOR) ||
				(tag == ET_TAG_NONE && value->tag == ET_TAG_OPTIONAL_TENSOR_LIST));
		}
		return sum;
	default:
		INSIST(!"a known tag");
		return 0;
	}
}

static uint64_t walk_instruction(const struct et_method_spec *method, const struct et_instruction_spec *instruction)
{
	static const uint32_t n_args[] = { [ET_OP_MOVE] = 2, [ET_OP_JUMP_FALSE] = 1, [ET_OP_FREE] = 1 };
	for (uint32_t i = 0; i < instruction->n_args; i++)
		INSIST(instruction->args[i] < method->n_values);
	switch (instruction->op) {
	case ET_OP_KERNEL:
		INSIST(instruction->index < method->n_operators);
		return instruction->n_args;
	case ET_OP_DELEGATE:
		INSIST(instruction->index < method->n_delegates);
		return instruction->n_args;
	case ET_OP_JUMP_FALSE:
		INSIST(instruction->index <= method->n_instructions);
		break;
	default:
		INSIST(instruction->op == ET_OP_MOVE || instruction->op == ET_OP_FREE);
	}
	INSIST(instruction->n_args == n_args[instruction->op]);
	return 1;
}

static uint64_t walk_method(const struct et_method_spec *method)
{
	uint64_t sum = strlen(method->name);
	for (uint32_t i = 0; i < method->n_values; i++)
		sum += walk_value(method, &method->values[i]);
	for (uint32_t i = 0; i < method->n_inputs; i++)
		INSIST(method->inputs[i] < method->n_values);
	for (uint32_t i = 0; i < method->n_outputs; i++)
		INSIST(method->outputs[i] < method->n_values);
	for (uint32_t i = 0; i < method->n_operators; i++)
		sum += strlen(method->operators[i]);
	for (uint32_t i = 0; i < method->n_delegates; i++) {
		const struct et_delegate_spec *delegate = &method->delegates[i];
		sum += strlen(delegate->id) + ends_of(delegate->payload, delegate->n_bytes);
		for (uint32_t j = 0; j < delegate->n_specs; j++)
			sum += strlen(delegate->specs[j].key) +
			       ends_of(delegate->specs[j].value, delegate->specs[j].n_bytes);
	}
	for (uint32_t i = 0; i < method->n_instructions; i++)
		sum += walk_instruction(method, &method->instructions[i]);
	INSIST(method->n_arenas == 0 || method->arena_bytes[0] == 0);
	return sum;
}

/* What the Methods of a program that share begin with: it lies within what they share. */
static uint64_t walk_shared(const struct et_program *program, const struct et_method_spec *method)
{
	enum { MOST_BYTES = 1 << 20 };
	uint64_t n_initial;
	size_t n_bytes = et_program_shared_bytes(program, method, &n_initial);
	if (!n_bytes || n_bytes > MOST_BYTES)
		return 0;
	uint8_t *bytes = calloc(1, n_bytes);
	INSIST(bytes);
	et_program_begin_shared(program, method, bytes);
	uint64_t sum = ends_of(bytes, n_bytes);
	free(bytes);
	return sum;
}

uint64_t walk_program(const struct et_program *program)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < et_program_n_methods(program); i++) {
		const struct et_method_spec *method = et_program_method_at(program, i);
		sum += walk_method(method) + walk_shared(program, method);
		INSIST(strcmp(et_program_find_method(program, method->name)->name, method->name) == 0);
	}
	INSIST(!et_program_method_at(program, et_program_n_methods(program)));
	const uint8_t *bytes = NULL;
	size_t n_bytes = 0;
	if (et_program_find_named_data(program, "weight", &bytes, &n_bytes) == ET_OK)
		sum += ends_of(bytes, n_bytes);
	struct et_program_stats stats;
	et_program_stats(program, &stats);
	INSIST(stats.n_file_bytes == et_program_source(program)->n_bytes);
	return sum + stats.n_constant_bytes + stats.n_payload_bytes + stats.n_named_bytes;
}

static uint64_t walk_bundled(const struct et_bundle_value *values, uint32_t n)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct et_bundle_value *value = &values[i];
		INSIST(value->tag >= ET_TAG_NONE && value->tag <= ET_TAG_TENSOR);
		if (value->tag == ET_TAG_TENSOR)
			sum += walk_shape(value->tensor.type, value->tensor.n_dims, value->tensor.sizes,
				       value->tensor.dim_order, value->tensor.n_bytes) +
			       ends_of(value->tensor.data, value->tensor.n_bytes);
	}
	return sum;
}

uint64_t walk_bundle(const struct et_bundle *bundle)
{
	uint64_t sum = ends_of(bundle->program, bundle->n_program_bytes);
	for (uint32_t i = 0; i < bundle->n_suites; i++) {
		const struct et_bundle_suite *suite = &bundle->suites[i];
		sum += strlen(suite->method);
		for (uint32_t j = 0; j < suite->n_cases; j++)
			sum += walk_bundled(suite->cases[j].inputs, suite->cases[j].n_inputs) +
			       walk_bundled(suite->cases[j].outputs, suite->cases[j].n_outputs);
	}
	return sum;
}
