/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutable buffers that the methods of a Program share.
 *
 * ExecuTorch's `share_mutable_buffers` plans the mutable buffers of all methods into one arena, at the same offsets
 * in each method. Nothing in the file marks that arena; et_program_shared_bytes recognizes it by its form (see
 * program.h). */
#include "runtime/base/checked.h"
#include "runtime/program/program_internal.h"

#include <string.h>

static bool is_shared(const struct et_value_spec *value)
{
	return value->tag == ET_TAG_TENSOR && value->tensor->arena == ET_SHARED_ARENA;
}

/* Whether @method has an input in the arena; then the arena does not hold mutable buffers. */
static bool has_shared_input(const struct et_method_spec *method)
{
	for (uint32_t i = 0; i < method->n_inputs; i++)
		if (is_shared(&method->values[method->inputs[i]]))
			return true;
	return false;
}

/* Whether @method has a tensor in the shared arena. Copies the initial values of those tensors to @bytes (NULL:
 * nowhere) and adds their sizes to *n_initial. */
static bool begin_shared(const struct et_method_spec *method, uint8_t *bytes, uint64_t *n_initial)
{
	bool has_any = false;
	for (uint32_t i = 0; i < method->n_values; i++) {
		if (!is_shared(&method->values[i]))
			continue;
		const struct et_tensor_spec *tensor = method->values[i].tensor;
		has_any = true;
		if (!tensor->constant)
			continue;
		if (bytes)
			memcpy(bytes + tensor->offset, tensor->constant, tensor->n_bytes);
		et_add_up(n_initial, tensor->n_bytes);
	}
	return has_any;
}

size_t et_program_shared_bytes(const struct et_program *program, const struct et_method_spec *method,
	uint64_t *ret_n_initial)
{
	uint64_t n_initial = 0;
	uint32_t n_sharing = 0;
	const struct et_method_spec *other = program->methods;
	if (method->n_arenas != ET_SHARED_ARENA + 1)
		return 0;
	size_t n_bytes = method->arena_bytes[ET_SHARED_ARENA];
	for (; other < program->methods + program->n_methods; other++) {
		if (other->why_not || other->n_arenas <= 1) /* arena 0 is reserved: the method has no arenas */
			continue;
		if (other->n_arenas != method->n_arenas || other->arena_bytes[ET_SHARED_ARENA] != n_bytes ||
			has_shared_input(other))
			return 0;
		begin_shared(other, NULL, &n_initial);
		n_sharing++;
	}
	if (n_sharing < 2 || !begin_shared(method, NULL, &n_initial))
		return 0;
	*ret_n_initial = n_initial;
	return n_bytes;
}

void et_program_begin_shared(const struct et_program *program, const struct et_method_spec *method, uint8_t *bytes)
{
	uint64_t n_initial = 0;
	for (uint32_t i = 0; i < program->n_methods; i++)
		begin_shared(&program->methods[i], bytes, &n_initial);
	begin_shared(method, bytes, &n_initial);
}
