/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs for tests of nodes that compute 16-bit floats (test_lower_bf16.c, test_lower_fp16.c). Types of values are
 * those of XNNPACK's schema. */
#ifndef DELEGATES_XNNPACK_SUPPORT_TEST_HALF_H
#define DELEGATES_XNNPACK_SUPPORT_TEST_HALF_H

#include "delegates/xnnpack/support/test_args.h"

#include <math.h>

enum { ROWS = 3, IN = 6, OUT = 5, MX_COPY = 46 };

static inline uint32_t plain(struct make_xnn *mk, uint32_t type, uint32_t input, uint32_t output, uint32_t rows,
	uint32_t columns)
{
	return mx_value(mk,
		&(struct mx_value){ .type = type, MX_DIMS(rows, columns), .input = input, .output = output });
}

static inline void node(struct make_xnn *mk, uint8_t kind, uint32_t a, uint32_t b, uint32_t out)
{
	mx_node(mk, kind,
		&(struct et_xnn_node){ .inputs = { a, b }, .outputs = { out }, .min = -INFINITY, .max = INFINITY });
}

static inline void node_of_list(struct make_xnn *mk, uint8_t kind, uint32_t in, uint32_t out, uint32_t first,
	uint32_t second)
{
	mx_node(mk, kind,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { out },
			.n_list = { 2 },
			.list = { { first, second } },
			.min = -INFINITY,
			.max = INFINITY });
}

/* @n_in inputs of @type, drawn by @draw, and outputs, all [ROWS, IN]; run once. */
static inline void run_drawn(struct make_xnn *mk, uint8_t type, void (*draw)(uint16_t *ret, size_t n), struct arg *args,
	uint32_t n_in, uint32_t n_out)
{
	struct et_diag diag = { 0 };
	for (uint32_t i = 0; i < n_in + n_out; i++)
		ARG(&args[i], type, ET_STATIC, ROWS, IN);
	for (uint32_t i = 0; i < n_in; i++)
		draw(args[i].f16, (size_t)ROWS * IN);
	test_ok(test_run_once(mk, args, n_in + n_out, &diag), &diag);
}

enum between { NOTHING, MOVED, COPIED, FLOATS_AND_BACK, AGAIN, N_BETWEEN };

/* The value of @type, [ROWS, IN], that @how computes from the value @of. */
static inline uint32_t put_between(struct make_xnn *mk, uint32_t type, uint32_t of, enum between how)
{
	if (how == NOTHING)
		return of;
	uint32_t other, out = plain(mk, type, 0, 0, ROWS, IN);
	switch (how) {
	case MOVED:
		other = plain(mk, type, 0, 0, IN, ROWS);
		node_of_list(mk, MX_TRANSPOSE, of, other, 1, 0);
		node_of_list(mk, MX_TRANSPOSE, other, out, 1, 0);
		break;
	case COPIED:
		node(mk, MX_COPY, of, 0, out);
		break;
	case FLOATS_AND_BACK:
		other = plain(mk, ET_XNN_FP32, 0, 0, ROWS, IN);
		node(mk, MX_CONVERT, of, 0, other);
		node(mk, MX_CONVERT, other, 0, out);
		break;
	default:
		node(mk, MX_CONVERT, of, 0, out);
		break;
	}
	return out;
}

#endif
