/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's side of stand-ins: check one, and read what it says.
 *
 * What must always be true: a program that passes the check names no byte outside its FlatBuffer, plans no memory, and
 * calls nothing but the one delegate. The program reader has checked that every index exists. Sizes are not limited
 * here: the daemon counts them as it does for any program. */
#include "delegates/program/stand_in.h"

#include <stdio.h>
#include <string.h>

enum { N_SPECS = 3 };
static const char *const keys[N_SPECS] = { "label", "status", "refused" };

bool et_stand_in_passes(uint8_t tag)
{
	return tag == ET_TAG_TENSOR || tag == ET_TAG_INT || tag == ET_TAG_BOOL || tag == ET_TAG_DOUBLE ||
	       tag == ET_TAG_NONE;
}

/* --- compile specs ---------------------------------------------------------------------------------------------- */

/* Whether the value is a text of fewer than @room characters, all of which can be printed. */
static bool is_text(const struct et_compile_spec *spec, size_t room)
{
	if (spec->n_bytes >= room)
		return false;
	for (size_t i = 0; i < spec->n_bytes; i++)
		if (spec->value[i] < ' ' || spec->value[i] == 0x7f)
			return false;
	return true;
}

/* The status that the text names; ET_PENDING, which no method has, if it names none. */
static enum et_status read_status(const struct et_compile_spec *spec)
{
	unsigned number = 0;
	if (!spec->n_bytes || spec->n_bytes > 3)
		return ET_PENDING;
	for (size_t i = 0; i < spec->n_bytes; i++) {
		if (spec->value[i] < '0' || spec->value[i] > '9')
			return ET_PENDING;
		number = number * 10 + (spec->value[i] - '0');
	}
	bool is_known = strcmp(et_status_text((enum et_status)number), et_status_text((enum et_status)0xfff)) != 0;
	return is_known ? (enum et_status)number : ET_PENDING;
}

/* All keys, in this order. */
static bool has_specs(const struct et_delegate_spec *delegate)
{
	if (delegate->n_specs != N_SPECS)
		return false;
	for (uint32_t i = 0; i < N_SPECS; i++)
		if (strcmp(delegate->specs[i].key, keys[i]) != 0)
			return false;
	return is_text(&delegate->specs[0], ET_STAND_IN_LABEL) && delegate->specs[0].n_bytes &&
	       read_status(&delegate->specs[1]) != ET_PENDING &&
	       is_text(&delegate->specs[2], sizeof(((struct et_diag *)NULL)->text));
}

static void copy(char *to, const struct et_compile_spec *spec)
{
	memcpy(to, spec->value, spec->n_bytes);
	to[spec->n_bytes] = '\0';
}

void et_stand_in_info(const struct et_method_spec *method, struct et_stand_in_info *ret_info)
{
	const struct et_compile_spec *specs = method->delegates[0].specs;
	copy(ret_info->label, &specs[0]);
	ret_info->status = read_status(&specs[1]);
	copy(ret_info->refused.text, &specs[2]);
}

/* --- the form --------------------------------------------------------------------------------------------------- */

static bool check_value(const struct et_value_spec *value)
{
	switch (value->tag) {
	case ET_TAG_TENSOR:
		return value->tensor->storage == ET_STORAGE_NONE && !value->tensor->constant && !value->tensor->name;
	case ET_TAG_INT_LIST:
	case ET_TAG_DOUBLE_LIST:
	case ET_TAG_BOOL_LIST:
	case ET_TAG_TENSOR_LIST:
	case ET_TAG_OPTIONAL_TENSOR_LIST:
		return value->list->n == 0;
	default:
		return true;
	}
}

/* The values are the inputs, then the outputs; those that are passed are the arguments. */
static bool check_values(const struct et_method_spec *method)
{
	const struct et_instruction_spec *call = &method->instructions[0];
	uint32_t n_args = 0;
	if (method->n_inputs > method->n_values || method->n_values - method->n_inputs != method->n_outputs)
		return false;
	for (uint32_t i = 0; i < method->n_inputs; i++)
		if (method->inputs[i] != i)
			return false;
	for (uint32_t i = 0; i < method->n_outputs; i++)
		if (method->outputs[i] != method->n_inputs + i)
			return false;
	for (uint32_t i = 0; i < method->n_values; i++) {
		if (!check_value(&method->values[i]))
			return false;
		if (!et_stand_in_passes(method->values[i].tag))
			continue;
		if (n_args >= call->n_args || call->args[n_args++] != i)
			return false;
	}
	return n_args == call->n_args && n_args <= ET_STAND_IN_MAX_ARGS;
}

static bool check_method(const struct et_method_spec *method, uint32_t number)
{
	char payload[12];
	int n = snprintf(payload, sizeof payload, "%u", number);
	if (method->why_not || method->n_operators || method->n_arenas || method->n_delegates != 1 ||
		method->n_instructions != 1 || method->instructions[0].op != ET_OP_DELEGATE)
		return false;
	const struct et_delegate_spec *delegate = &method->delegates[0];
	return strcmp(delegate->id, ET_STAND_IN_ID) == 0 && delegate->n_bytes == (size_t)n &&
	       memcmp(delegate->payload, payload, (size_t)n) == 0 && has_specs(delegate) && check_values(method);
}

bool et_stand_in_check(const struct et_program *program)
{
	struct et_program_stats stats;
	uint32_t n = et_program_n_methods(program);
	et_program_stats(program, &stats);
	if (stats.n_file_bytes > ET_STAND_IN_MAX_BYTES || stats.n_segments || stats.n_named_data ||
		stats.n_constant_bytes || n > ET_STAND_IN_MAX_METHODS)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!check_method(et_program_method_at(program, i), i))
			return false;
	return true;
}
