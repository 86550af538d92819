/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs and outputs of a run: check them, then bind or copy them.
 *
 * A check changes nothing but the shapes of dynamic inputs in the frame, so a refused run has not touched the Method's
 * state. If the Plan allows it (zero_copy), an input or output is bound: it lies in the caller's memory. It is copied
 * instead if that memory is not aligned for its type, or if an output's memory overlaps another input or output. The
 * copy needs memory that the program planned; without it the run is refused.
 *
 * A scalar input that no instruction reads was baked into the program at export. Another value would be ignored
 * silently, so it is refused. ExecuTorch compares every scalar input in this way. */
#include "runtime/base/checked.h"
#include "runtime/method_internal.h"

#include <string.h>

static const struct et_plan_tensor *plan_tensor(const struct et_plan *plan, uint32_t value_index)
{
	return &plan->tensors[plan->values[value_index].tensor];
}

static struct et_tensor *frame_tensor(const struct et_run *run, uint32_t value_index)
{
	return &run->frame->tensors[run->frame->plan->values[value_index].tensor];
}

static bool is_aligned(const void *data, uint8_t type)
{
	return (uintptr_t)data % et_scalar_size(type) == 0;
}

/* --- inputs ---------------------------------------------------------------------------------------------- */

static enum et_status check_input_tensor(struct et_run *run, uint32_t index)
{
	const struct et_plan *plan = run->method->plan;
	const struct et_io_info *info = &plan->info.inputs[index];
	const struct et_io *io = &run->inputs[index];
	uint32_t value_index = plan->spec->inputs[index];
	struct et_tensor *tensor = frame_tensor(run, value_index);
	char given[192], wanted[192];
	size_t numel = 0;
	if (io->n_dims != info->n_dims)
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "input %u: %u dimensions, expected %s%s", index,
			io->n_dims, et_sizes_text(wanted, sizeof wanted, info->sizes, info->n_dims),
			info->dynamism == ET_STATIC ? "" : " or less");
	if (!et_sizes_are_addressable(io->sizes, info->dim_order, info->n_dims, &numel) ||
		et_tensor_resize(tensor, io->sizes, io->n_dims))
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "input %u: sizes %s, expected %s%s", index,
			et_sizes_text(given, sizeof given, io->sizes, io->n_dims),
			et_sizes_text(wanted, sizeof wanted, info->sizes, info->n_dims),
			info->dynamism == ET_STATIC ? "" : " or less");
	size_t n_bytes = numel * et_scalar_size(info->type);
	if (io->tensor.n_bytes != n_bytes)
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "input %u: %zu bytes, but sizes %s of %s take %zu",
			index, io->tensor.n_bytes, et_sizes_text(given, sizeof given, io->sizes, io->n_dims),
			et_scalar_name(info->type), n_bytes);
	if (n_bytes && !io->tensor.data)
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "input %u: no memory given", index);
	if (plan_tensor(plan, value_index)->place == ET_PLACE_NOWHERE && !is_aligned(io->tensor.data, info->type))
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "input %u: memory is not aligned for %s", index,
			et_scalar_name(info->type));
	return ET_OK;
}

static bool is_same_number(const struct et_io *io, const struct et_value_spec *spec)
{
	if (spec->tag == ET_TAG_INT)
		return io->i == spec->i;
	if (spec->tag == ET_TAG_BOOL)
		return io->b == spec->b;
	double error = io->d - spec->d;
	return (io->d != io->d && spec->d != spec->d) || io->d == spec->d || (error < 1e-4 && error > -1e-4);
}

static enum et_status check_input(struct et_run *run, uint32_t index)
{
	const struct et_plan *plan = run->method->plan;
	const struct et_io *io = &run->inputs[index];
	uint32_t value_index = plan->spec->inputs[index];
	const struct et_value_spec *spec = &plan->spec->values[value_index];
	if (io->tag != spec->tag)
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "input %u: a %s, expected a %s", index,
			et_tag_name(io->tag), et_tag_name(spec->tag));
	if (spec->tag == ET_TAG_TENSOR)
		return check_input_tensor(run, index);
	if (!et_tag_is_scalar(spec->tag) || spec->tag == ET_TAG_NONE || plan->values[value_index].is_used)
		return ET_OK;
	if (!is_same_number(io, spec))
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT,
			"input %u: the program was exported for one value of this %s and does not read "
			"another",
			index, et_tag_name(spec->tag));
	return ET_OK;
}

static void apply_input(struct et_run *run, uint32_t index)
{
	const struct et_plan *plan = run->method->plan;
	struct et_io *io = &run->inputs[index];
	uint32_t value_index = plan->spec->inputs[index];
	struct et_evalue *value = &run->frame->values[value_index];
	io->copied = false;
	switch (io->tag) {
	case ET_TAG_INT:
		value->i = io->i;
		return;
	case ET_TAG_DOUBLE:
		value->d = io->d;
		return;
	case ET_TAG_BOOL:
		value->b = io->b;
		return;
	case ET_TAG_TENSOR:
		break;
	default:
		return;
	}
	struct et_tensor *tensor = frame_tensor(run, value_index);
	if (plan->info.inputs[index].zero_copy && is_aligned(io->tensor.data, tensor->type)) {
		tensor->data = io->tensor.data;
		return;
	}
	if (io->tensor.n_bytes)
		memcpy(tensor->data, io->tensor.data, io->tensor.n_bytes);
	io->copied = true;
	run->n_copied_bytes += io->tensor.n_bytes;
}

/* --- outputs ----------------------------------------------------------------------------------------------- */

static bool overlaps(const struct et_io *a, size_t n_a, const struct et_io *b, size_t n_b)
{
	uintptr_t at_a = (uintptr_t)a->tensor.data, at_b = (uintptr_t)b->tensor.data;
	return n_a && n_b && at_a && at_b && at_a < at_b + n_b && at_b < at_a + n_a;
}

/* Whether output @index, if bound, would share memory with an input or another output. */
static bool is_shared(const struct et_run *run, uint32_t index)
{
	const struct et_plan_info *info = &run->method->plan->info;
	const struct et_io *io = &run->outputs[index];
	size_t n_bytes = info->outputs[index].n_bytes;
	for (uint32_t i = 0; i < info->n_inputs; i++)
		if (info->inputs[i].tag == ET_TAG_TENSOR &&
			overlaps(io, n_bytes, &run->inputs[i], run->inputs[i].tensor.n_bytes))
			return true;
	for (uint32_t i = 0; i < info->n_outputs; i++)
		if (i != index && info->outputs[i].tag == ET_TAG_TENSOR &&
			overlaps(io, n_bytes, &run->outputs[i], info->outputs[i].n_bytes))
			return true;
	return false;
}

static bool can_bind_output(const struct et_run *run, uint32_t index)
{
	const struct et_io_info *info = &run->method->plan->info.outputs[index];
	const struct et_io *io = &run->outputs[index];
	return info->tag == ET_TAG_TENSOR && info->zero_copy && io->tensor.data &&
	       is_aligned(io->tensor.data, info->type) && !is_shared(run, index);
}

static enum et_status check_output(struct et_run *run, uint32_t index)
{
	const struct et_plan *plan = run->method->plan;
	const struct et_io_info *info = &plan->info.outputs[index];
	const struct et_io *io = &run->outputs[index];
	uint32_t value_index = plan->spec->outputs[index];
	if (info->tag != ET_TAG_TENSOR)
		return ET_OK;
	if (io->tensor.data && io->tensor.n_bytes < info->n_bytes)
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "output %u: room for %zu bytes, expected %zu", index,
			io->tensor.n_bytes, info->n_bytes);
	bool has_memory = plan_tensor(plan, value_index)->place != ET_PLACE_NOWHERE ||
			  plan->values[value_index].is_view || plan->values[value_index].is_moved || !info->n_bytes;
	if (!has_memory && !can_bind_output(run, index))
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT,
			"output %u: the program plans no memory for it, so it needs aligned memory of its "
			"own",
			index);
	return ET_OK;
}

static enum et_status finish_output_tensor(struct et_run *run, uint32_t index, const struct et_tensor *tensor)
{
	const struct et_io_info *info = &run->method->plan->info.outputs[index];
	struct et_io *io = &run->outputs[index];
	if (tensor->type != info->type || tensor->n_dims != info->n_dims ||
		(info->n_dims && memcmp(tensor->dim_order, info->dim_order, info->n_dims) != 0))
		return et_fail(&run->diag, ET_E_INVALID_PROGRAM,
			"output %u became a tensor of another type, rank or dim order", index);
	size_t n_bytes = et_tensor_n_bytes(tensor);
	if (n_bytes && !tensor->data)
		return et_fail(&run->diag, ET_E_INVALID_PROGRAM, "output %u has no memory when the method ends", index);
	io->n_dims = tensor->n_dims;
	if (tensor->n_dims)
		memcpy(io->sizes, tensor->sizes, tensor->n_dims * sizeof *io->sizes);
	if (!io->tensor.data || io->tensor.data == tensor->data || !n_bytes)
		return ET_OK;
	if (n_bytes > io->tensor.n_bytes)
		return et_fail(&run->diag, ET_E_INVALID_ARGUMENT, "output %u: room for %zu bytes, but it takes %zu",
			index, io->tensor.n_bytes, n_bytes);
	/* memmove: both may be the caller's memory, which may overlap */
	memmove(io->tensor.data, tensor->data, n_bytes);
	io->copied = true;
	run->n_copied_bytes += n_bytes;
	return ET_OK;
}

static enum et_status finish_output(struct et_run *run, uint32_t index)
{
	const struct et_plan *plan = run->method->plan;
	struct et_io *io = &run->outputs[index];
	const struct et_evalue *value = &run->frame->values[plan->spec->outputs[index]];
	io->tag = value->tag;
	switch (value->tag) {
	case ET_TAG_TENSOR:
		return finish_output_tensor(run, index, value->tensor);
	case ET_TAG_INT:
		io->i = value->i;
		break;
	case ET_TAG_DOUBLE:
		io->d = value->d;
		break;
	case ET_TAG_BOOL:
		io->b = value->b;
		break;
	default:
		break;
	}
	return ET_OK;
}

/* --- all inputs and outputs -------------------------------------------------------------------------------- */

enum et_status et_binding_check(struct et_run *run)
{
	const struct et_plan_info *info = &run->method->plan->info;
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < info->n_inputs && !status; i++)
		status = check_input(run, i);
	for (uint32_t i = 0; i < info->n_outputs && !status; i++)
		status = check_output(run, i);
	return status;
}

void et_binding_apply(struct et_run *run)
{
	const struct et_plan *plan = run->method->plan;
	for (uint32_t i = 0; i < plan->info.n_inputs; i++)
		apply_input(run, i);
	for (uint32_t i = 0; i < plan->info.n_outputs; i++) {
		run->outputs[i].copied = false;
		if (can_bind_output(run, i))
			frame_tensor(run, plan->spec->outputs[i])->data = run->outputs[i].tensor.data;
	}
}

enum et_status et_binding_finish(struct et_run *run)
{
	const struct et_plan_info *info = &run->method->plan->info;
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < info->n_outputs && !status; i++)
		status = finish_output(run, i);
	return status;
}
