/* SPDX-License-Identifier: BSD-3-Clause */
/* Hostile payloads and missing memory: every allocation fails once, and a payload is cut off and has a bit flipped
 * at every byte. Each payload must be refused with a message or run, and nothing may leak. XNNPACK itself would
 * abort on most of them. Also payloads that ask for more memory than their own size accounts for. */
#include "delegates/xnnpack/support/test_args.h"
#include "runtime/base/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_every_allocation_failing(void **state)
{
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	size_t n_live = test_counting.n_live, n_failures = 0;
	for (size_t n = 1;; n++) {
		struct et_diag diag = { 0 };
		struct et_model *model = NULL;
		struct et_model_info info;
		struct et_worker_threads *threads = NULL;
		struct et_instance *instance = NULL;
		test_counting.n_calls = 0;
		test_counting.fail_at = n;
		enum et_status status = test_compile(bytes, n_bytes, 2, &model, &info, &diag);
		if (status == ET_OK)
			status = test_ops->threads_new(test_backend, 0, 1, &threads, &diag);
		if (status == ET_OK)
			status = test_ops->instance_new(model, threads, &instance, &diag);
		size_t n_calls = test_counting.n_calls;
		test_counting.fail_at = 0;
		if (status == ET_OK)
			test_run_mixture(model, threads, 0);
		else
			n_failures++;
		test_ops->instance_free(instance);
		test_ops->threads_free(threads);
		test_ops->model_free(model);
		assert_int_equal(test_counting.n_live, n_live);
		if (n_calls < n)
			break; /* it never came to that */
		assert_int_not_equal(status, ET_OK);
		assert_true(diag.text[0]);
	}
	assert_true(n_failures > 5);
	free(bytes);
}

static void try_broken(const uint8_t *bytes, size_t n_bytes, struct et_worker_threads *threads)
{
	struct et_diag diag = { 0 };
	struct et_model *model = NULL;
	struct et_model_info info;
	struct et_instance *instance;
	struct arg args[2];
	if (test_compile(bytes, n_bytes, 2, &model, &info, &diag) != ET_OK) {
		assert_true(diag.text[0]);
		return;
	}
	if (test_ops->instance_new(model, threads, &instance, &diag) == ET_OK) {
		ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 4, 4, 2);
		ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, 1, 4, 4, 3);
		(void)test_ops->enqueue(instance, (struct et_evalue *[]){ &args[0].value, &args[1].value }, NULL,
			&diag);
		test_ops->instance_free(instance);
	}
	test_ops->model_free(model);
}

static void test_broken_payloads(void **state)
{
	struct et_worker_threads *threads;
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	et_xnnpack_set_max_instance_bytes(et_direct_self(test_backend),
		1 << 20); /* some ask for gigabytes, which takes a while */
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, NULL), &(struct et_diag){ 0 });
	for (size_t n = 0; n < n_bytes; n++) {
		/* as long as its header says, without the padding */
		uint8_t *cut = calloc(1, n + ET_SOURCE_PADDING);
		memcpy(cut, bytes, n);
		try_broken(cut, n, threads);
		free(cut);
	}
	for (size_t at = 0; at < n_bytes; at++) {
		static const uint8_t masks[] = { 0x01, 0x02, 0x04, 0x80, 0xff };
		for (size_t m = 0; m < sizeof(masks); m++) {
			bytes[at] ^= masks[m];
			try_broken(bytes, n_bytes, threads);
			bytes[at] ^= masks[m];
		}
	}
	test_ops->threads_free(threads);
	free(bytes);
}

/* A node, since a payload needs one. */
static void add_clamp(struct make_xnn *mk)
{
	uint32_t in = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2), .input = 1 });
	uint32_t out = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2), .output = 2 });
	mx_node(mk, MX_CLAMP, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out }, .max = 1 });
}

/* A filter of 4-bit blocks whose panels XNNPACK reads misaligned without AVX2 (unsupported.c) is refused there, and
 * only there. */
static void test_odd_blocks(void **state)
{
	enum { OUT = 5, N_PER_BLOCK = 32, MAX_BLOCKS = 2 };
	static const float scales[OUT * MAX_BLOCKS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	static const uint8_t nibbles[OUT * N_PER_BLOCK * MAX_BLOCKS / 2];
	bool is_refused = false;
#ifdef __x86_64__
	is_refused = !et_cpu_runs_avx2();
#endif
	for (uint32_t n = 1; n <= MAX_BLOCKS; n++) {
		struct make_xnn mk;
		struct et_model *model;
		struct et_model_info info;
		struct et_diag diag = { 0 };
		size_t n_bytes;
		mx_init(&mk);
		uint32_t in = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, n * N_PER_BLOCK), .input = 1 });
		uint32_t rows = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_QDINT8, MX_DIMS(1, n * N_PER_BLOCK), .n_row_dims = 1 });
		uint32_t filter = mx_value(&mk,
			&(struct mx_value){ .type = ET_XNN_QBINT4,
				MX_DIMS(OUT, n * N_PER_BLOCK),
				.constant = mx_constant(&mk, nibbles, n * OUT * N_PER_BLOCK / 2),
				.scales = scales,
				.n_scales = n * OUT,
				.block_size = N_PER_BLOCK });
		uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, OUT), .output = 2 });
		mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { in }, .outputs = { rows } });
		mx_node(&mk, MX_LINEAR,
			&(struct et_xnn_node){ .inputs = { rows, filter, ET_XNN_NONE },
				.outputs = { out },
				.min = -INFINITY,
				.max = INFINITY });
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		enum et_status status = test_compile(bytes, n_bytes, 2, &model, &info, &diag);
		if (is_refused && n % 2) {
			test_refused(status, ET_E_NOT_SUPPORTED, &diag, "an odd number of 4-bit blocks");
		} else {
			test_ok(status, &diag);
			test_ops->model_free(model);
		}
		free(bytes);
	}
}

/* All values share one vector of scales: a copy for each would turn a small file into gigabytes. */
static void test_scales_of_many(void **state)
{
	enum { N_SCALES = 4096, N_VALUES = 12 };
	static float scales[N_SCALES];
	for (int i = 0; i < N_SCALES; i++)
		scales[i] = 1;
	for (int is_shared = 0; is_shared < 2; is_shared++) {
		struct make_xnn mk;
		struct et_model *model;
		struct et_model_info info;
		struct et_diag diag = { 0 };
		size_t n_bytes;
		mx_init(&mk);
		mk.shares_scales = is_shared;
		for (int i = 0; i < N_VALUES; i++)
			mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
					      MX_DIMS(N_SCALES, 1),
					      .scales = scales,
					      .n_scales = N_SCALES });
		add_clamp(&mk);
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		enum et_status status = test_compile(bytes, n_bytes, 2, &model, &info, &diag);
		if (is_shared) {
			test_refused(status, ET_E_OUT_OF_RESOURCES, &diag, "scales of all values are ");
		} else {
			test_ok(status, &diag);
			test_ops->model_free(model);
		}
		free(bytes);
	}
}

enum { N_NAMED = 4096 };
static float named_scales[16][N_NAMED];

/* The first name is "a". */
static int find_named(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes)
{
	*ret_bytes = (const uint8_t *)named_scales[key[0] - 'a'];
	*ret_n_bytes = sizeof(named_scales[0]);
	return INFERD_DELEGATE_OK;
}

/* The same for scales in named data, by the number of names and of constants that use them. */
static void test_named_scales_of_many(void **state)
{
	static const struct {
		uint32_t n_values, n_pieces;
		bool is_too_much;
	} cases[] = { { 4, 1, false }, { 6, 1, true }, { 12, 1, true }, { 12, 3, false }, { 16, 3, true },
		{ 16, 16, false } };
	for (uint32_t i = 0; i < 16 * N_NAMED; i++)
		named_scales[i / N_NAMED][i % N_NAMED] = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		mx_init(&mk);
		for (uint32_t j = 0; j < cases[i].n_values; j++) {
			char key[] = { (char)('a' + j % cases[i].n_pieces), 0 };
			mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
					      MX_DIMS(N_NAMED, 1),
					      .scales_constant = mx_named_constant(&mk, key),
					      .n_scales = N_NAMED });
		}
		add_clamp(&mk);
		struct inferd_delegate_payload source = {
			.struct_size = sizeof(source), .n_args = 2, .fd = -1, .named_data = find_named
		};
		uint8_t *bytes = mx_finish(&mk, &source.n_bytes);
		source.bytes = bytes;
		struct et_xnn_payload payload;
		struct et_pool pool;
		et_pool_init(&pool, &test_allocator);
		enum et_status status = et_xnn_payload_read(&payload, &source, &pool, &diag);
		if (cases[i].is_too_much)
			test_refused(status, ET_E_OUT_OF_RESOURCES, &diag, "scales of all values are ");
		else
			test_ok(status, &diag);
		et_pool_deinit(&pool);
		free(bytes);
	}
}

/* A zero point that does not fit 8 bits would overflow in computations. */
static void test_zero_points(void **state)
{
	static const struct {
		uint32_t type;
		int32_t zero_point;
		bool is_held;
	} cases[] = { { ET_XNN_QINT8, -128, true }, { ET_XNN_QINT8, 127, true }, { ET_XNN_QINT8, -129, false },
		{ ET_XNN_QINT8, INT32_MIN, false }, { ET_XNN_QUINT8, 0, true }, { ET_XNN_QUINT8, 255, true },
		{ ET_XNN_QUINT8, 256, false }, { ET_XNN_QUINT8, -1, false }, { ET_XNN_QUINT8, INT32_MIN, false } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mx_value value = {
			.type = cases[i].type, MX_DIMS(4), .scale = 0.5f, .zero_point = cases[i].zero_point
		};
		enum et_scalar_type type = cases[i].type == ET_XNN_QINT8 ? ET_INT8 : ET_UINT8;
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		struct arg args[3];
		uint32_t ids[3];
		mx_init(&mk);
		for (uint32_t j = 0; j < 3; j++) {
			value.input = j < 2 ? j + 1 : 0;
			value.output = j < 2 ? 0 : 3;
			ids[j] = mx_value(&mk, &value);
			ARG(&args[j], type, ET_STATIC, 4);
		}
		mx_node(&mk, MX_PRELU, &(struct et_xnn_node){ .inputs = { ids[0], ids[1] }, .outputs = { ids[2] } });
		enum et_status status = test_run_once(&mk, args, 3, &diag);
		if (cases[i].is_held)
			test_ok(status, &diag);
		else
			test_refused(status, ET_E_INVALID_PROGRAM, &diag, "zero point");
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(odd_blocks),
		TEST(scales_of_many),
		TEST(named_scales_of_many),
		TEST(zero_points),
		TEST(every_allocation_failing),
		TEST(broken_payloads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
