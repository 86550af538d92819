/* SPDX-License-Identifier: BSD-3-Clause */
/* The delegate through its table: what it refuses and with which message, shapes that change, arguments that do not
 * fit, the compute table. */
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/warm_up.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static enum et_status refuse(struct make_xnn *mk, uint32_t n_args, struct et_diag *diag)
{
	struct et_model *model = NULL;
	struct et_model_info info;
	size_t n_bytes;
	uint8_t *bytes = mx_finish(mk, &n_bytes);
	enum et_status status = test_compile(bytes, n_bytes, n_args, &model, &info, diag);
	test_ops->model_free(model);
	free(bytes);
	return status;
}

static void test_refuses_nodes_by_name(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, 2, 2), out = test_plain(&mk, 0, 2, 2, 2);
	mx_node(&mk, MX_ATTENTION, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } });
	test_refused(refuse(&mk, 2, &diag), ET_E_NOT_SUPPORTED, &diag,
		"XNNPACK node 'XNNScaledDotProductAttention' (node 0) is not supported");

	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	test_plain(&mk, 1, 0, 2, 2), test_plain(&mk, 0, 2, 2, 2);
	mx_node(&mk, 99, &(struct et_xnn_node){ 0 });
	test_refused(refuse(&mk, 2, &diag), ET_E_NOT_SUPPORTED, &diag, "XNNPACK node type 99 (node 0) is not known");

	/* XNNPACK refuses this when it makes the runtime: scales whose ratio its kernels cannot multiply by */
	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	struct mx_value bytes = { .type = ET_XNN_QINT8, MX_DIMS(2, 2), .scale = 1000 };
	bytes.input = 1;
	in = mx_value(&mk, &bytes);
	bytes.input = 0;
	uint32_t middle = mx_value(&mk, &bytes);
	bytes.output = 2;
	bytes.scale = 0.5f;
	out = mx_value(&mk, &bytes);
	int8_t numbers[4] = { 1, 0, 0, 1 };
	float scales[2] = { 1, 1 };
	uint32_t filter = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
						MX_DIMS(2, 2),
						.scales = scales,
						.n_scales = 2,
						.constant = mx_constant(&mk, numbers, sizeof(numbers)) });
	mx_node(&mk, MX_CLAMP, &(struct et_xnn_node){ .inputs = { in }, .outputs = { middle }, .max = 1 });
	mx_node(&mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { middle, filter, ET_XNN_NONE }, .outputs = { out } });
	test_refused(refuse(&mk, 2, &diag), ET_E_NOT_SUPPORTED, &diag,
		"XNNPACK node 'XNNFullyConnected' (node 1) is refused by XNNPACK");
}

static void test_refuses_types_by_name(void **state)
{
	static const uint32_t absent[] = { ET_XNN_QPINT8, ET_XNN_PFP32 };
	for (size_t i = 0; i < 2; i++) {
		struct make_xnn mk;
		struct et_diag diag = { 0 };
		mx_init(&mk);
		uint32_t in = mx_value(&mk, &(struct mx_value){ .type = absent[i], MX_DIMS(2), .input = 1 });
		uint32_t out = mx_value(&mk, &(struct mx_value){ .type = absent[i], MX_DIMS(2), .output = 2 });
		mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } });
		test_refused(refuse(&mk, 2, &diag), ET_E_NOT_SUPPORTED, &diag, et_xnn_type_name(absent[i]));
	}
}

static void test_refuses_graphs_that_make_no_sense(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	/* read before it is written */
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, 2, 2), middle = test_plain(&mk, 0, 0, 2, 2),
		 out = test_plain(&mk, 0, 2, 2, 2);
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { in, middle }, .outputs = { out } });
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { middle } });
	test_refused(refuse(&mk, 2, &diag), ET_E_INVALID_PROGRAM, &diag, "which nothing has written");
	/* written twice */
	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	in = test_plain(&mk, 1, 0, 2, 2), out = test_plain(&mk, 0, 2, 2, 2);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } });
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } });
	test_refused(refuse(&mk, 2, &diag), ET_E_INVALID_PROGRAM, &diag, "which is written already");
	/* nothing writes an output; an output before an input; more arguments than the call passes */
	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	test_plain(&mk, 1, 0, 2, 2), test_plain(&mk, 0, 2, 2, 2);
	test_refused(refuse(&mk, 2, &diag), ET_E_INVALID_PROGRAM, &diag, "nothing writes argument 1");
	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	in = test_plain(&mk, 2, 0, 2, 2), out = test_plain(&mk, 0, 1, 2, 2);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } });
	test_refused(refuse(&mk, 2, &diag), ET_E_NOT_SUPPORTED, &diag,
		"argument 1 is read or unused, but argument 0 before it is written");
	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	in = test_plain(&mk, 1, 0, 2, 2), out = test_plain(&mk, 0, 2, 2, 2);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } });
	test_refused(refuse(&mk, 1, &diag), ET_E_INVALID_PROGRAM, &diag, "it is argument 1 of a call that passes 1");
	/* a constant shorter than its shape */
	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	float numbers[3] = { 1, 2, 3 };
	uint32_t constant = mx_constant(&mk, numbers, sizeof(numbers));
	in = test_plain(&mk, 1, 0, 2, 2), out = test_plain(&mk, 0, 2, 2, 2);
	middle = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(2, 2), .constant = constant });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { in, middle }, .outputs = { out } });
	test_refused(refuse(&mk, 2, &diag), ET_E_INVALID_PROGRAM, &diag,
		"has 12 bytes, its shape and datatype need 16");
	/* named data of a program that is not there */
	diag = (struct et_diag){ 0 };
	mx_init(&mk);
	constant = mx_named_constant(&mk, "layer.weight");
	mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(2, 2), .constant = constant });
	test_refused(refuse(&mk, 0, &diag), ET_E_NOT_FOUND, &diag, "no named data 'layer.weight'");
}

/* --- shapes that change ----------------------------------------------------------------------------------- */

/* y = (a + a) + b with b broadcast: where a's shape equals the sum's, XNNPACK adds in place; where it is smaller, it
 * must not. The sizes only shrink, so XNNPACK itself would keep its plan. */
static void test_shapes_change(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct arg args[3];
	size_t n_bytes;
	mx_init(&mk);
	uint32_t a = test_plain(&mk, 1, 0, 8, 4), b = test_plain(&mk, 2, 0, 8, 4), twice = test_plain(&mk, 0, 0, 8, 4);
	uint32_t sum = test_plain(&mk, 0, 0, 8, 4), out = test_plain(&mk, 0, 3, 8, 4);
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { a, a }, .outputs = { twice } });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { twice, b }, .outputs = { sum } });
	mx_node(&mk, MX_MULTIPLY, &(struct et_xnn_node){ .inputs = { sum, b }, .outputs = { out } });
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	test_ok(test_compile(bytes, n_bytes, 3, &model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);

	ARG(&args[2], ET_FLOAT32, ET_DYNAMIC_BOUND, 8, 4);
	args[2].tensor.capacity = 32;
	static const int32_t rows[][2] = { { 8, 8 }, { 1, 8 }, { 8, 1 }, { 3, 3 }, { 1, 1 }, { 8, 8 } };
	for (size_t i = 0; i < 6; i++) {
		int32_t n_rows = rows[i][0] > rows[i][1] ? rows[i][0] : rows[i][1];
		ARG(&args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, rows[i][0], 4);
		ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, rows[i][1], 4);
		for (int j = 0; j < 32; j++) {
			args[0].f32[j] = (float)j;
			args[1].f32[j] = (float)(100 + j);
		}
		struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
		test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
		assert_int_equal(args[2].sizes[0], n_rows);
		for (int32_t j = 0; j < n_rows * 4; j++) {
			float of_a = (float)(rows[i][0] == 1 ? j % 4 : j);
			float of_b = (float)(100 + (rows[i][1] == 1 ? j % 4 : j));
			test_near(args[2].f32[j], (2 * of_a + of_b) * of_b, 0.01f);
		}
	}
	/* an empty input makes an empty output, and the next shape is planned anew */
	for (int32_t n = 0; n < 3; n++) {
		ARG(&args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, n % 2 * 2, 4);
		ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, 1, 4);
		for (int j = 0; j < 8; j++)
			args[0].f32[j] = args[1].f32[j] = 1;
		struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
		test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
		assert_int_equal(args[2].sizes[0], n % 2 * 2);
		if (n == 1)
			test_near(args[2].f32[7], 3, 0.01f);
	}
	/* shapes that do not go together are refused, and the instance goes on working */
	ARG(&args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, 3, 4);
	ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, 5, 4);
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
	test_refused(test_ops->enqueue(instance, values, NULL, &diag), ET_E_INVALID_ARGUMENT, &diag,
		"XNNPACK node 'XNNAdd' (node 1) can't take an input of shape [5,4]");
	diag = (struct et_diag){ 0 };
	ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, 3, 4);
	test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
	/* an output without room is refused */
	diag = (struct et_diag){ 0 };
	args[2].tensor.capacity = 4;
	ARG(&args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, 7, 4);
	ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, 7, 4);
	test_refused(test_ops->enqueue(instance, values, NULL, &diag), ET_E_NOT_SUPPORTED, &diag,
		"output 2 comes out as [7,4]");
	diag = (struct et_diag){ 0 };
	args[2].tensor.capacity = 32;
	test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
	assert_int_equal(args[2].sizes[0], 7);

	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

static void test_memory_has_a_limit(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	mx_init(&mk);
	uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 1, 1), .input = 1 });
	uint32_t wide = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 1, 1) });
	uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 1, 1), .output = 2 });
	mx_node(&mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { wide },
			.n_list = { 4, 4 },
			.list = { { 0, 30000, 30000, 0 }, { 0 } } });
	mx_node(&mk, MX_GLOBAL,
		&(struct et_xnn_node){ .inputs = { wide }, .outputs = { out }, .flags = XNN_FLAG_KEEP_DIMS });
	test_refused(refuse(&mk, 2, &diag), ET_E_OUT_OF_RESOURCES, &diag,
		"XNNPACK node 'XNNStaticConstantPad' (node 0) brings the memory of one instance above the "
		"limit of 2048 MiB");
}

/* Channels-last tensors reach XNNPACK as they lie in memory. */
static void test_dim_order(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct arg args[2];
	mx_init(&mk);
	uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 3, 4), .input = 1 });
	uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 1, 4), .output = 2 });
	mx_node(&mk, MX_GLOBAL,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { out },
			.flags = XNN_FLAG_KEEP_DIMS,
			.min = -INFINITY,
			.max = INFINITY });
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 4, 2, 3);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 4, 1, 1);
	for (int i = 0; i < 2; i++) {
		args[i].dim_order[1] = 2;
		args[i].dim_order[2] = 3;
		args[i].dim_order[3] = 1;
	}
	for (int i = 0; i < 24; i++)
		args[0].f32[i] = (float)(i % 4);
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	for (int i = 0; i < 4; i++)
		test_near(args[1].f32[i], (float)i, 1e-5f);
}

/* --- times ------------------------------------------------------------------------------------------------- */

static char told[400];

static void tell(void *self, const char *what)
{
	size_t n = strlen(told);
	snprintf(told + n, sizeof(told) - n, "%s ", what);
}

static void told_begin(void *self, uint32_t instruction)
{
	tell(self, instruction == 7 ? "begin" : "?");
}

static void told_end(void *self, uint32_t instruction)
{
	tell(self, instruction == 7 ? "end" : "?");
}

static void told_part(void *self, const char *name, uint64_t ns)
{
	char word[16];
	snprintf(word, sizeof(word), "%.5s", name); /* XNNPACK's word for all of its kind */
	assert_int_equal(ns % 1000, 0);             /* whole microseconds */
	tell(self, word);
}

/* A profiled run computes the same as normal runs, and does not change those after it. */
static void test_profile(void **state)
{
	static const struct et_trace trace = { NULL, told_begin, told_end, told_part };
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct make_xnn mk;
	struct arg args[2];
	size_t n_bytes;
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, 2, 2), middle = test_plain(&mk, 0, 0, 2, 2),
		 out = test_plain(&mk, 0, 2, 2, 2);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { middle } });
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { middle }, .outputs = { out } });
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 2, 2);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 2, 2);
	struct et_evalue *values[] = { &args[0].value, &args[1].value };
	for (int round = 0; round < 6; round++) {
		memset(args[1].f32, 0xff, sizeof(args[1].f32));
		told[0] = '\0';
		args[0].f32[3] = (float)round;
		if (round % 2)
			test_ok(test_ops->profile(instance, values, &trace, 7, &diag), &diag);
		else
			test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
		assert_string_equal(told, round % 2 ? "begin end Unary Unary " : "");
		test_near(args[1].f32[3], 1 / (1 + expf(-1 / (1 + expf(-(float)round)))), 1e-5f);
	}
	args[0].tensor.type = ET_INT32;
	told[0] = '\0';
	test_refused(test_ops->profile(instance, values, &trace, 7, &diag), ET_E_INVALID_ARGUMENT, &diag,
		"XNNPACK: input 0 is INT32");
	assert_string_equal(told, "");
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

/* --- arguments that do not fit ------------------------------------------------------------------------------ */

/* A cache that begins empty: the tensor that is concatenated to it comes out alone. */
static void test_concatenate_empty(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct arg args[3];
	size_t n_bytes;
	mx_init(&mk);
	uint32_t past = test_plain(&mk, 1, 0, 3, 4), now = test_plain(&mk, 2, 0, 2, 4),
		 all = test_plain(&mk, 0, 3, 5, 4);
	mx_node(&mk, MX_CAT2, &(struct et_xnn_node){ .inputs = { past, now }, .outputs = { all }, .numbers = { 0 } });
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	test_ok(test_compile(bytes, n_bytes, 3, &model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	ARG(&args[2], ET_FLOAT32, ET_DYNAMIC_BOUND, 5, 4);
	args[2].tensor.capacity = 20;
	static const int32_t rows[][2] = { { 3, 2 }, { 0, 2 }, { 0, 0 }, { 2, 0 }, { 3, 2 } };
	for (size_t i = 0; i < 5; i++) {
		ARG(&args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, rows[i][0], 4);
		ARG(&args[1], ET_FLOAT32, ET_DYNAMIC_BOUND, rows[i][1], 4);
		for (int j = 0; j < 20; j++) {
			args[0].f32[j] = (float)j;
			args[1].f32[j] = (float)(100 + j);
		}
		struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
		test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
		assert_int_equal(args[2].sizes[0], rows[i][0] + rows[i][1]);
		for (int32_t j = 0; j < (rows[i][0] + rows[i][1]) * 4; j++)
			test_near(args[2].f32[j], (float)(j < rows[i][0] * 4 ? j : 100 + j - rows[i][0] * 4), 0);
	}
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

static void test_wrong_arguments(void **state)
{
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct arg args[2];
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
	assert_int_equal(info.n_inputs, 1);
	assert_int_equal(info.n_outputs, 1);
	assert_false(info.is_stateful);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	struct et_evalue number = { .tag = ET_TAG_INT, .i = 3 };
	static const struct {
		enum et_status status;
		const char *partition;
	} cases[] = {
		{ ET_E_INVALID_ARGUMENT, "input 0 is Int, expected a tensor" },
		{ ET_E_INVALID_ARGUMENT, "input 0 is INT32, the payload says fp32" },
		{ ET_E_INVALID_ARGUMENT, "input 0 has 3 dimensions, expected 4" },
		{ ET_E_INVALID_ARGUMENT, "can't take an input of shape [1,4,4,3]" },
		{ ET_E_NOT_SUPPORTED, "output 1 comes out as [0,4,4,3], which its tensor can't take" },
		{ ET_E_INVALID_ARGUMENT, "input 0 has no memory" },
		{ ET_E_INVALID_ARGUMENT, "output 1 is FP16, the payload says fp32" },
		{ ET_E_NOT_SUPPORTED, "output 1 comes out as [1,4,4,3], which its tensor can't take" },
	};
	for (size_t i = 0; i < 8; i++) {
		ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 4, 4, 2);
		ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 4, 4, 3);
		struct et_evalue *values[] = { &args[0].value, &args[1].value };
		switch (i) {
		case 0:
			values[0] = &number;
			break;
		case 1:
			args[0].tensor.type = ET_INT32;
			break;
		case 2:
			args[0].tensor.n_dims = 3;
			break;
		case 3:
			args[0].sizes[3] = 3;
			break;
		case 4:
			args[0].sizes[0] = 0;
			break;
		case 5:
			args[0].tensor.data = NULL;
			break;
		case 6:
			args[1].tensor.type = ET_FLOAT16;
			break;
		default:
			args[1].sizes[3] = 4;
			break;
		}
		diag = (struct et_diag){ 0 };
		test_refused(test_ops->enqueue(instance, values, NULL, &diag), cases[i].status, &diag,
			cases[i].partition);
	}
	test_run_mixture(model, threads, 2);
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(bytes);
}

/* --- the compute table ---------------------------------------------------------------------------------------- */

static void square(void *arg, size_t begin, size_t end)
{
	uint32_t *numbers = arg;
	for (size_t i = begin; i < end; i++)
		numbers[i] = (uint32_t)(i * i) + 1;
}

static void test_compute_table(void **state)
{
	static uint32_t numbers[10007];
	struct et_diag diag = { 0 };
	for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
		struct et_worker_threads *threads;
		test_ok(test_ops->threads_new(test_backend, 0, n_threads, &threads, &diag), &diag);
		const struct et_compute *compute = test_ops->threads_compute(threads);
		for (size_t grain = 1; grain < 20000; grain *= 7) {
			memset(numbers, 0, sizeof(numbers));
			et_parallel_for(compute, square, numbers, 10007, grain);
			for (uint32_t i = 0; i < 10007; i++)
				assert_int_equal(numbers[i], i * i + 1);
		}
		et_parallel_for(compute, square, numbers, 0, 1);
		test_ops->threads_free(threads);
	}
	struct et_worker_threads *threads = NULL;
	test_refused(test_ops->threads_new(test_backend, 0, 0, &threads, &diag), ET_E_INVALID_ARGUMENT, &diag,
		"a worker of 0 threads is not supported");
}

static void test_device(void **state)
{
	struct et_device device;
	assert_int_equal(test_ops->n_devices(test_backend), 1);
	test_ops->device(test_backend, 0, &device);
	assert_int_equal(device.kind, ET_QUEUE_CPU);
	struct et_diag diag = { "" };
	struct et_worker_threads *threads = NULL;
	assert_true(device.n_threads >= 1);
	test_refused(test_ops->threads_new(test_backend, 0, device.n_threads + 1, &threads, &diag),
		ET_E_INVALID_ARGUMENT, &diag, "a worker of 1025 threads is not supported");
}

/* A failed warm-up reports nothing, so it is tested here. */
static void test_warms_up(void **state)
{
	assert_true(et_xnn_warm());
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(refuses_nodes_by_name),
		TEST(refuses_types_by_name),
		TEST(refuses_graphs_that_make_no_sense),
		TEST(shapes_change),
		TEST(memory_has_a_limit),
		TEST(dim_order),
		TEST(profile),
		TEST(concatenate_empty),
		TEST(wrong_arguments),
		TEST(compute_table),
		TEST(device),
		TEST(warms_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
