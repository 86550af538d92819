/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel signatures, and the search for a kernel by name.
 *
 * A signature is parsed once, when a Plan is made. A malformed signature is a mistake in one of our tables or in a
 * plug-in's, so it is reported as an error, not trusted. During a run only et_kernel_scratch is used. */
#include "runtime/kernel.h"

#include <string.h>

const struct et_kernel *et_kernel_table_find(const struct et_kernel_table *table, const char *name)
{
	size_t low = 0, high = table->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, table->kernels[middle].name);
		if (order == 0)
			return &table->kernels[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

int et_kernel_signature(const char *signature, struct et_kernel_arg *ret_args, size_t max)
{
	size_t n = 0;
	bool is_output = false;
	for (const char *at = signature; *at; at++) {
		struct et_kernel_arg arg = { .is_read = !is_output, .is_written = is_output };
		if (*at == '>') {
			if (is_output)
				return -1;
			is_output = true;
			continue;
		}
		if (*at == '=') {
			arg.is_read = false;
			arg.is_written = true;
			at++;
		} else if (*at == '&') {
			arg.is_read = arg.is_written = true;
			at++;
		} else if (*at == '*') {
			arg.is_read = false;
			arg.is_written = arg.is_view = true;
			at++;
		}
		if (!*at || !strchr("TtLlSsIiVvDdFfBbCcNX", *at) || n == max)
			return -1;
		arg.letter = *at;
		if (arg.letter == 'N' && !is_output)
			return -1;
		if (arg.letter == 'l' && arg.is_written)
			return -1;
		if (arg.is_view && (arg.letter != 'T' || n == 0 || ret_args[0].letter != 'T'))
			return -1;
		ret_args[n++] = arg;
	}
	return (int)n;
}

bool et_kernel_letter_takes(char letter, enum et_tag tag)
{
	switch (letter) {
	case 't':
	case 's':
	case 'i':
	case 'v':
	case 'd':
	case 'f':
	case 'b':
	case 'c':
		if (tag == ET_TAG_NONE)
			return true;
		break;
	default:
		break;
	}
	switch (letter) {
	case 'T':
	case 't':
		return tag == ET_TAG_TENSOR;
	case 'L':
		return tag == ET_TAG_TENSOR_LIST;
	case 'l':
		return tag == ET_TAG_TENSOR_LIST || tag == ET_TAG_OPTIONAL_TENSOR_LIST;
	case 'S':
	case 's':
	case 'N':
		return tag == ET_TAG_INT || tag == ET_TAG_DOUBLE || tag == ET_TAG_BOOL;
	case 'I':
	case 'i':
		return tag == ET_TAG_INT;
	case 'V':
	case 'v':
		return tag == ET_TAG_INT_LIST;
	case 'D':
	case 'd':
		return tag == ET_TAG_DOUBLE;
	case 'F':
	case 'f':
		return tag == ET_TAG_DOUBLE_LIST;
	case 'B':
	case 'b':
		return tag == ET_TAG_BOOL;
	case 'C':
	case 'c':
		return tag == ET_TAG_STRING;
	case 'X':
		return true;
	default:
		return false;
	}
}

void *et_kernel_scratch(struct et_kernel_ctx *ctx, size_t n_bytes)
{
	enum { SCRATCH_ALIGN = 64 };
	void *piece = ctx->scratch ? et_pool_scratch(ctx->scratch, n_bytes ? n_bytes : 1, SCRATCH_ALIGN) : NULL;
	if (!piece)
		et_fail(ctx->diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for %zu bytes of scratch", n_bytes);
	return piece;
}
