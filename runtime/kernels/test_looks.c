/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels whose elements take long: how often they ask whether the run must stop, and what they do afterwards. A client
 * chooses the numbers and the sizes, so a loop within an element must be counted, too.
 *
 * Looks are counted, not time: a look for each ET_PACE_STEPS steps at the most, where a step is some 50 ns. */
#include "runtime/kernels/test_rig.h"
#include "runtime/compute.h"
#include "runtime/dim_order.h"
#include "runtime/kernel.h"
#include "runtime/kernels/engine/args.h"
#include "tests/support/counting_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_ARGS = 6, SPOILED = 0x5a };

/* A tensor of one number; without sizes, a number or None. */
struct arg {
	double number;
	int32_t sizes[2];
};

struct row {
	const char *kernel;
	enum et_scalar_type type;
	struct arg args[MAX_ARGS]; /* in the order of the signature */
	double n_steps;            /* of the whole call */
	size_t n_written;          /* elements that are written at most if it must stop at its second look; 0: any */
};

/* Counts how often it is asked; its time is 1, and 2 after n_before. */
struct counting_clock {
	size_t n_asked, n_before;
};

static uint64_t ask(void *self)
{
	struct counting_clock *clock = self;
	return clock->n_asked++ < clock->n_before ? 1 : 2;
}

struct call {
	struct et_evalue values[MAX_ARGS], *args[MAX_ARGS];
	struct et_tensor tensors[MAX_ARGS];
	int32_t sizes[MAX_ARGS][2], strides[MAX_ARGS][2];
};

static void make_tensor(struct call *call, size_t k, const struct row *row)
{
	static const uint8_t order[] = { 0, 1 };
	const struct arg *arg = &row->args[k];
	struct et_tensor *tensor = &call->tensors[k];
	memcpy(call->sizes[k], arg->sizes, sizeof(arg->sizes));
	*tensor = (struct et_tensor){ .type = row->type,
		.n_dims = arg->sizes[1] ? 2 : 1,
		.sizes = call->sizes[k],
		.strides = call->strides[k],
		.dim_order = order };
	et_dim_order_to_strides(tensor->sizes, order, tensor->n_dims, tensor->strides);
	tensor->capacity = et_tensor_numel(tensor);
	tensor->data = malloc(et_tensor_n_bytes(tensor));
	assert_non_null(tensor->data);
	memset(tensor->data, SPOILED, et_tensor_n_bytes(tensor));
	for (size_t i = 0; arg->number != 0 && i < tensor->capacity; i++) {
		uint8_t *element = (uint8_t *)tensor->data + i * et_element_bytes(tensor);
		if (et_type_is_float(row->type))
			et_element_set_double(element, row->type, arg->number);
		else
			et_element_set_int(element, row->type, (int64_t)arg->number);
	}
	call->values[k].tag = ET_TAG_TENSOR;
	call->values[k].tensor = tensor;
}

/* How many elements of the output are not spoiled any more. */
static size_t count_written(const struct et_tensor *out)
{
	size_t n_written = 0, n_bytes = et_element_bytes(out);
	uint8_t spoiled[sizeof(double)];
	memset(spoiled, SPOILED, sizeof(spoiled));
	for (size_t i = 0; i < et_tensor_numel(out); i++)
		n_written += memcmp((const uint8_t *)out->data + i * n_bytes, spoiled, n_bytes) != 0;
	return n_written;
}

/* Call the kernel, which must stop after @n_before looks. Returns how often it has looked. */
static size_t run(const struct row *row, size_t n_before, size_t *ret_n_written)
{
	const struct et_kernel *kernel = find_kernel(row->kernel);
	struct call call = { 0 };
	size_t n_args = 0;
	for (const char *letter = kernel->signature; *letter; letter++) {
		if (*letter == '>')
			continue;
		struct et_evalue *value = &call.values[n_args];
		call.args[n_args] = value;
		if (*letter == 'T')
			make_tensor(&call, n_args, row);
		else if (*letter == 'I')
			*value = (struct et_evalue){ .tag = ET_TAG_INT, .i = (int64_t)row->args[n_args].number };
		else if (*letter == 'D')
			*value = (struct et_evalue){ .tag = ET_TAG_DOUBLE, .d = row->args[n_args].number };
		n_args++;
	}
	struct counting_clock clock = { .n_before = n_before };
	const _Atomic(bool) is_cancelled = false;
	struct et_stop_signal signal = { &is_cancelled, 2, ask, &clock, ET_OK };
	const struct et_compute compute = { .signal = &signal };
	struct counting_alloc counting = { 0 };
	const struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool scratch;
	struct et_diag diag = { 0 };
	et_pool_init(&scratch, &allocator);
	struct et_kernel_ctx ctx = { .kernel = kernel, .compute = &compute, .scratch = &scratch, .diag = &diag };
	enum et_status status = kernel->run(&ctx, call.args);
	if (status != ET_OK && !signal.status)
		fail_msg("%s: %s", row->kernel, diag.text);
	assert_int_equal(signal.status, n_before == SIZE_MAX ? ET_OK : ET_E_DEADLINE);
	*ret_n_written = count_written(call.values[n_args - 1].tensor);
	et_pool_deinit(&scratch);
	for (size_t k = 0; k < n_args; k++)
		free(call.tensors[k].data);
	return clock.n_asked;
}

static void test_long_elements(void **state)
{
	static const struct row rows[] = {
		/* 100,000 terms each */
		{ "aten::igamma.out", ET_FLOAT64, { { 1e9, { 60 } }, { 1e9, { 60 } }, { 0, { 60 } } }, 60e5, 2 },
		{ "aten::igamma.out", ET_FLOAT32, { { 1e9, { 60 } }, { 1e9, { 60 } }, { 0, { 60 } } }, 60e5, 2 },
		{ "aten::igammac.out", ET_FLOAT64, { { 1e9, { 600 } }, { 1e9, { 600 } }, { 0, { 600 } } }, 600e5, 2 },
		/* broadcast: another loop over the elements */
		{ "aten::igamma.out", ET_FLOAT64, { { 1e9, { 30, 20 } }, { 1e9, { 30, 1 } }, { 0, { 30, 20 } } }, 600e5,
			2 },
		/* 10,000 powers each */
		{ "aten::polygamma.out", ET_FLOAT32, { { 2 }, { -9999.5, { 100 } }, { 0, { 100 } } }, 80e5, 2 },
		{ "aten::polygamma.out", ET_FLOAT64, { { 9 }, { -9999.5, { 100 } }, { 0, { 100 } } }, 80e5, 2 },
		/* 800 terms each */
		{ "aten::i0.out", ET_FLOAT64, { { 700, { 20000 } }, { 0, { 20000 } } }, 160e5, 500 },
		/* long divisions */
		{ "aten::fmod.Tensor_out", ET_FLOAT64,
			{ { 1.7e308, { 100000 } }, { 3e-308, { 100000 } }, { 0, { 100000 } } }, 32e5, 10000 },
		{ "aten::remainder.Tensor_out", ET_FLOAT64,
			{ { 1.7e308, { 100000 } }, { 3e-308, { 100000 } }, { 0, { 100000 } } }, 32e5, 10000 },
		/* divisions: almost numbers of Fibonacci, for which Euclid's algorithm takes longest */
		{ "aten::gcd.out", ET_INT64,
			{ { 4660046610375530496., { 100000 } }, { 2880067194370816000., { 100000 } },
				{ 0, { 100000 } } },
			40e5, 5000 },
		/* functions of the C library, in double */
		{ "aten::lgamma.out", ET_FLOAT64, { { -5.3, { 200000 } }, { 0, { 200000 } } }, 8e5, 50000 },
		/* vectors of 3,000 numbers, of which a block has many */
		{ "aten::_cdist_forward.out", ET_FLOAT64,
			{ { 1, { 16, 3000 } }, { 2, { 60, 3000 } }, { 3 }, { 0 }, { 0, { 16, 60 } } }, 115e5, 0 },
		{ "aten::_pdist_forward.out", ET_FLOAT32, { { 1, { 17, 30000 } }, { 3 }, { 0, { 136 } } }, 40e5, 0 },
		/* sums of many products */
		{ "aten::mm.out", ET_FLOAT64, { { 1, { 1, 50000 } }, { 1, { 50000, 64 } }, { 0, { 1, 64 } } }, 20e5,
			0 },
		{ "aten::mm.out", ET_FLOAT32, { { 1, { 1, 1 << 20 } }, { 1, { 1 << 20, 2 } }, { 0, { 1, 2 } } }, 20e5,
			0 },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		size_t n_written, n_looks = run(&rows[i], SIZE_MAX, &n_written);
		if ((double)n_looks < rows[i].n_steps / ET_PACE_STEPS / 2)
			fail_msg("row %zu, %s: %zu looks in %g steps", i, rows[i].kernel, n_looks, rows[i].n_steps);
		run(&rows[i], 1, &n_written);
		if (rows[i].n_written && n_written > rows[i].n_written)
			fail_msg("row %zu, %s: %zu elements after it was told to stop", i, rows[i].kernel, n_written);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_elements),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
