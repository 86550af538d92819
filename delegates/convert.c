/* SPDX-License-Identifier: BSD-3-Clause */
/* Convert between the runtime's types and those of inferd-delegate.h.
 *
 * The public interface has fewer results than the runtime has statuses: only those that a caller acts on. So a status
 * that goes through a result comes back as the first status of that result. A sentence always travels with it. */
#include "delegates/convert.h"

#include <stdio.h>

static const struct {
	enum et_status status;
	int result;
} pairs[] = {
	/* several statuses become one result; a result becomes the first status listed for it */
	{ ET_OK, INFERD_DELEGATE_OK },
	{ ET_E_INVALID_PROGRAM, INFERD_DELEGATE_E_INVALID },
	{ ET_E_DELEGATE_INVALID_COMPATIBILITY, INFERD_DELEGATE_E_INVALID },
	{ ET_E_INVALID_EXTERNAL_DATA, INFERD_DELEGATE_E_INVALID },
	{ ET_E_NOT_SUPPORTED, INFERD_DELEGATE_E_UNSUPPORTED },
	{ ET_E_NOT_IMPLEMENTED, INFERD_DELEGATE_E_UNSUPPORTED },
	{ ET_E_NOT_FOUND, INFERD_DELEGATE_E_NOT_FOUND },
	{ ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED, INFERD_DELEGATE_E_MEMORY },
	{ ET_E_MEMORY_ALLOCATION_FAILED, INFERD_DELEGATE_E_MEMORY },
	{ ET_E_CANCELLED, INFERD_DELEGATE_E_CANCELLED },
	{ ET_E_BACKEND_CRASHED, INFERD_DELEGATE_E_LOST },
	{ ET_E_INVALID_ARGUMENT, INFERD_DELEGATE_E_ARGUMENT },
	{ ET_E_INVALID_TYPE, INFERD_DELEGATE_E_ARGUMENT },
	{ ET_E_INVALID_STATE, INFERD_DELEGATE_E_ARGUMENT },
	{ ET_E_OUT_OF_RESOURCES, INFERD_DELEGATE_E_LIMIT },
};

enum et_status et_convert_result(int result, const char *text, struct et_diag *diag)
{
	enum et_status status = ET_E_INTERNAL;
	if (result == INFERD_DELEGATE_OK)
		return ET_OK;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs && status == ET_E_INTERNAL; i++)
		if (pairs[i].result == result)
			status = pairs[i].status;
	return et_fail(diag, status, "%.255s", text[0] ? text : "the delegate does not say why");
}

int et_convert_status(enum et_status status, const struct et_diag *diag, struct inferd_delegate_message *message)
{
	if (status == ET_OK)
		return INFERD_DELEGATE_OK;
	if (message)
		snprintf(message->text, sizeof message->text, "%.255s",
			diag->text[0] ? diag->text : et_status_text(status));
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (pairs[i].status == status)
			return pairs[i].result;
	return INFERD_DELEGATE_E_INTERNAL;
}

enum et_queue_kind et_convert_kind(uint32_t kind)
{
	return kind == INFERD_DELEGATE_CPU ? ET_QUEUE_CPU : kind == INFERD_DELEGATE_GPU ? ET_QUEUE_GPU : ET_QUEUE_NPU;
}

enum et_readiness et_convert_readiness(uint32_t readiness)
{
	return readiness == INFERD_DELEGATE_READY       ? ET_READINESS_READY
	       : readiness == INFERD_DELEGATE_RECOMPILE ? ET_READINESS_RECOMPILE
							: ET_READINESS_NO;
}

size_t et_convert_arg_n_bytes(const struct et_tensor *tensor, bool is_output)
{
	size_t numel = et_tensor_numel(tensor);
	if (is_output && tensor->capacity > numel)
		numel = tensor->capacity;
	return numel * et_scalar_size((enum et_scalar_type)tensor->type);
}

static enum et_status refuse_sizes(const int32_t *sizes, uint32_t n_dims, uint32_t number, struct et_diag *diag)
{
	char text[ET_MAX_DIMS * 12 + 1] = "";
	size_t n = 0;
	for (uint32_t i = 0; i < n_dims; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", i ? "," : "", sizes[i]);
	return et_fail(diag, ET_E_INTERNAL,
		"the delegate gave output %u the sizes [%s], which the program does not allow", number, text);
}

enum et_status et_convert_output(struct et_evalue *to, const int32_t *sizes, int64_t i, double d, uint64_t room,
	uint32_t number, struct et_diag *diag)
{
	if (to->tag == ET_TAG_INT)
		to->i = i;
	else if (to->tag == ET_TAG_BOOL)
		to->b = i != 0;
	else if (to->tag == ET_TAG_DOUBLE)
		to->d = d;
	if (to->tag != ET_TAG_TENSOR)
		return ET_OK;
	struct et_tensor *tensor = to->tensor;
	if (et_tensor_resize(tensor, sizes, tensor->n_dims) != ET_OK)
		return refuse_sizes(sizes, tensor->n_dims, number, diag);
	if (et_tensor_n_bytes(tensor) > room)
		return et_fail(diag, ET_E_INTERNAL, "the delegate gave output %u more bytes than it has", number);
	return ET_OK;
}
