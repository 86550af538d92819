/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments in the dimension order that XNNPACK wants: the results are the same to the last bit, whichever arguments
 * have it. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/support/test_args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N_ARGS = 5, N_OUTPUTS = 12, CHANNELS_LAST = 7 /* bits of those that would rather be so */ };

static const uint8_t last[] = { 0, 2, 3, 1 };

/* Two arguments are concatenated, transposed and convolved. The outputs are the result transposed, the result
 * itself, and one that is only moved. */
static void make(struct make_xnn *mk)
{
	static const float weights[2 * 3] = { 0.5f, -1, 2, 0.25f, 3, -0.125f };
	mx_init(mk);
	uint32_t a = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 3), .input = 1 });
	uint32_t b = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 2, 3), .input = 2 });
	uint32_t joined = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 3, 2, 3) });
	uint32_t wide = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 3, 3) });
	uint32_t inner = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 3, 2) });
	uint32_t out = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 3), .output = 3 });
	uint32_t plain = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 3, 2), .output = 4 });
	uint32_t twice = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 3, 2), .output = 5 });
	uint32_t filter = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32,
					       MX_DIMS(2, 1, 1, 3),
					       .constant = mx_constant(mk, weights, sizeof(weights)) });
	mx_node(mk, MX_CAT2,
		&(struct et_xnn_node){
			.inputs = { a, b }, .outputs = { joined }, .numbers[ET_XNN_AXIS] = (uint32_t)-3 });
	mx_node(mk, MX_TRANSPOSE,
		&(struct et_xnn_node){
			.inputs = { joined }, .outputs = { wide }, .n_list = { 4 }, .list = { { 0, 2, 3, 1 } } });
	mx_node(mk, MX_CONV,
		&(struct et_xnn_node){ .inputs = { wide, filter, ET_XNN_NONE },
			.outputs = { inner },
			.numbers = { 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 3, 2, 1 } });
	mx_node(mk, MX_TRANSPOSE,
		&(struct et_xnn_node){
			.inputs = { inner }, .outputs = { out }, .n_list = { 4 }, .list = { { 0, 3, 1, 2 } } });
	mx_node(mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { inner }, .outputs = { plain } });
	/* an output that another node reads keeps its order */
	mx_node(mk, MX_ADD, &(struct et_xnn_node){ .inputs = { plain, plain }, .outputs = { twice } });
}

static void set_order(struct arg *arg)
{
	memcpy(arg->dim_order, last, sizeof(last));
	et_dim_order_to_strides(arg->sizes, arg->dim_order, 4, arg->strides);
}

/* Element @i, counted as if the tensor were row-major. */
static float *element(struct arg *arg, size_t i)
{
	size_t at = 0;
	for (uint32_t d = arg->tensor.n_dims; d > 0; d--) {
		at += i % (size_t)arg->sizes[d - 1] * (size_t)arg->strides[d - 1];
		i /= (size_t)arg->sizes[d - 1];
	}
	return &arg->f32[at];
}

/* Run with the arguments whose bits are in @taken channels last. */
static void compute(uint32_t taken, float outputs[3][N_OUTPUTS])
{
	struct make_xnn mk;
	struct arg args[N_ARGS];
	struct et_evalue *values[N_ARGS];
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	size_t n_bytes;
	make(&mk);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 2, 2, 3);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 1, 2, 3);
	ARG(&args[2], ET_FLOAT32, ET_STATIC, 1, 2, 2, 3);
	ARG(&args[3], ET_FLOAT32, ET_STATIC, 1, 2, 3, 2);
	ARG(&args[4], ET_FLOAT32, ET_STATIC, 1, 2, 3, 2);
	test_ok(test_compile(bytes, n_bytes, N_ARGS, &model, &info, &diag), &diag);
	for (uint32_t i = 0; i < N_ARGS; i++) {
		uint8_t order[ET_MAX_DIMS] = { 0 };
		bool would_rather = CHANNELS_LAST >> i & 1;
		assert_int_equal(test_ops->preferred_order(model, i, order, 4), would_rather);
		assert_false(test_ops->preferred_order(model, i, order, 3));
		if (would_rather)
			assert_memory_equal(order, last, sizeof(last));
		if (taken >> i & 1) {
			test_ok(test_ops->adopt_orders(model, &i, 1, &diag), &diag);
			set_order(&args[i]);
			assert_false(test_ops->preferred_order(model, i, order, 4));
		}
	}
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	(void)test_ops->instance_warm(instance, NULL);
	for (uint32_t i = 0; i < N_ARGS; i++)
		values[i] = &args[i].value;
	for (size_t i = 0; i < 12; i++)
		*element(&args[0], i) = (float)(i * i) * 0.37f - 5;
	for (size_t i = 0; i < 6; i++)
		*element(&args[1], i) = 3 - (float)(i * i) * 0.21f;
	test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
	for (uint32_t k = 0; k < 3; k++)
		for (size_t i = 0; i < N_OUTPUTS; i++)
			outputs[k][i] = *element(&args[2 + k], i);
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

static void test_orders(void **state)
{
	float expected[3][N_OUTPUTS], got[3][N_OUTPUTS];
	compute(0, expected);
	/* the first output's first: of the inputs' first three channels */
	test_near(expected[0][0], 0.5f * -5 - (36 * 0.37f - 5) + 2 * 3.f, 1e-5f);
	for (uint32_t taken = 1; taken <= CHANNELS_LAST; taken++) {
		compute(taken, got);
		if (memcmp(got, expected, sizeof(got)) != 0)
			fail_msg("other results where arguments %u lie channels last", taken);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_orders, test_set_up, test_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
