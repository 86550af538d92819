/* SPDX-License-Identifier: BSD-3-Clause */
/* transpose.c against XNNPACK, to the bit: NCHW images of 8 bits, with the conversion from floats before them or not,
 * few channels and many, signed and unsigned, heights that change from run to run, one thread and several. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
	BATCH = 2,
	MOST_CHANNELS = 5,
	HEIGHT = 70,
	WIDTH = 257,
	MOST = BATCH * MOST_CHANNELS * HEIGHT * WIDTH,
	GUARD = 64
};

struct form {
	uint32_t n_channels;
	bool is_unsigned, has_floats;
	bool is_watched; /* the NCHW bytes have a second reader */
	bool is_other;   /* columns before rows */
};

static float floats[MOST], seen[2][MOST];
static uint8_t bytes_in[MOST], out[2][MOST + GUARD];

static uint8_t *make(const struct form *f, size_t *ret_n_bytes)
{
	const uint8_t type = f->is_unsigned ? ET_XNN_QUINT8 : ET_XNN_QINT8;
	const uint32_t n = f->n_channels;
	struct mx_value in = {
		.type = type, MX_DIMS(BATCH, n, HEIGHT, WIDTH), .scale = 0.02f, .zero_point = f->is_unsigned ? 118 : -10
	};
	struct mx_value pixels = in, plain = { .type = ET_XNN_FP32, MX_DIMS(BATCH, n, HEIGHT, WIDTH) };
	struct make_xnn mk;
	pixels.dims[1] = f->is_other ? WIDTH : HEIGHT;
	pixels.dims[2] = f->is_other ? HEIGHT : WIDTH;
	pixels.dims[3] = n;
	pixels.output = 2;
	mx_init(&mk);
	plain.input = 1;
	in.input = !f->has_floats;
	uint32_t from = f->has_floats ? mx_value(&mk, &plain) : ET_XNN_NONE;
	uint32_t x = mx_value(&mk, &in), to = mx_value(&mk, &pixels);
	if (f->has_floats)
		mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { from }, .outputs = { x } });
	mx_node(&mk, MX_TRANSPOSE,
		&(struct et_xnn_node){ .inputs = { x },
			.outputs = { to },
			.n_list = { 4 },
			.list = { { 0, f->is_other ? 3 : 2, f->is_other ? 2 : 3, 1 } } });
	plain.input = 0;
	plain.output = 3;
	if (f->is_watched)
		mx_node(&mk, MX_CONVERT,
			&(struct et_xnn_node){ .inputs = { x }, .outputs = { mx_value(&mk, &plain) } });
	return mx_finish(&mk, ret_n_bytes);
}

static void draw(void)
{
	static const float odd[] = {
		INFINITY, -INFINITY, 0x1p127f, -0x1p127f, 0x1p-149f, -0.0f,
#ifdef __x86_64__
		NAN, /* its byte depends on the processor */
#endif
	};
	for (size_t i = 0; i < MOST; i++) {
		bytes_in[i] = (uint8_t)test_draw(256);
		/* with ties */
		floats[i] = (float)((int32_t)test_draw(640) - 320) * 0.01f;
		if (test_draw(50) == 0)
			floats[i] = odd[test_draw(sizeof(odd) / sizeof(*odd))];
	}
}

static void run(struct test_session *s, const struct form *f, int32_t height, int side)
{
	static struct arg args[3];
	struct et_diag diag = { 0 };
	const uint8_t type = f->is_unsigned ? ET_UINT8 : ET_INT8;
	const int32_t n = (int32_t)f->n_channels;
	ARG(&args[0], f->has_floats ? ET_FLOAT32 : type, ET_DYNAMIC_BOUND, BATCH, n, height, WIDTH);
	ARG(&args[1], type, ET_DYNAMIC_BOUND, BATCH, f->is_other ? WIDTH : height, f->is_other ? height : WIDTH, n);
	ARG(&args[2], ET_FLOAT32, ET_DYNAMIC_BOUND, BATCH, n, height, WIDTH);
	args[0].tensor.data = f->has_floats ? (void *)floats : bytes_in;
	args[1].tensor.data = out[side];
	args[2].tensor.data = seen[side];
	for (int i = 0; i < 3; i++)
		args[i].tensor.capacity = MOST;
	memset(out[side], 0x5a, sizeof(out[side]));
	memset(seen[side], 0x5a, sizeof(seen[side]));
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value };
	test_ok(test_ops->enqueue(s->instance, values, NULL, &diag), &diag);
}

static void compare(const struct form *f, uint32_t n_threads)
{
	struct test_session sessions[2] = { 0 };
	struct et_diag diag = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make(f, &n_bytes);
	bool is_ours = f->n_channels >= 2 && f->n_channels <= 4 && !f->is_other && f->has_floats && !f->is_watched;
	for (int i = 0; i < 2; i++) {
		et_xnn_override_set_least_work(i ? UINT64_MAX : 0);
		test_ok(test_session_begin(&sessions[i], bytes, n_bytes, f->is_watched ? 3 : 2, n_threads, &diag),
			&diag);
		assert_int_equal(test_has_override(sessions[i].model, &et_xnn_override_transpose_q8),
			is_ours && i == 0);
	}
	/* The conversion is computed along with the transpose, so there is no boundary tensor. */
	const struct et_xnn_partitions *partitions = &et_direct_model(sessions[0].model)->model->partitions;
	if (is_ours) {
		assert_int_equal(partitions->n_partitions, 1);
		assert_int_equal(partitions->n_boundaries, 0);
	}
	for (int32_t height = HEIGHT; height > 0; height /= 8) {
		for (int i = 0; i < 2; i++)
			run(&sessions[i], f, height, i);
		assert_memory_equal(out[0], out[1], sizeof(out[0]));
		assert_memory_equal(seen[0], seen[1], sizeof(seen[0]));
	}
	for (int i = 0; i < 2; i++)
		test_session_end(&sessions[i]);
	free(bytes);
}

static void test_forms(void **state)
{
	draw();
	for (size_t build = 0; et_xnn_gemm_qs8_at(build); build++) {
		et_xnn_gemm_qs8_choose(et_xnn_gemm_qs8_at(build));
		for (uint32_t i = 0; i < 8 * MOST_CHANNELS; i++)
			compare(&(struct form){ .n_channels = 1 + i / 8,
					.is_unsigned = i & 1,
					.has_floats = i & 2,
					.is_watched = (i & 6) == 6 },
				i & 4 ? 2 : 1);
		compare(&(struct form){ .n_channels = 3, .has_floats = true, .is_other = true }, 1);
	}
}

/* Another scale on the other side is refused, as by XNNPACK. */
static void test_other_scale(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct mx_value in = { .type = ET_XNN_QINT8, MX_DIMS(1, 3, 4, 5), .scale = 0.02f, .input = 1 };
		struct mx_value pixels = {
			.type = ET_XNN_QINT8, MX_DIMS(1, 4, 5, 3), .scale = i ? 0.03f : 0.02f, .output = 2
		};
		struct make_xnn mk;
		struct test_session s = { 0 };
		struct et_diag diag = { 0 };
		size_t n_bytes;
		mx_init(&mk);
		uint32_t x = mx_value(&mk, &in), to = mx_value(&mk, &pixels);
		mx_node(&mk, MX_TRANSPOSE,
			&(struct et_xnn_node){
				.inputs = { x }, .outputs = { to }, .n_list = { 4 }, .list = { { 0, 2, 3, 1 } } });
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		et_xnn_override_set_least_work(0);
		enum et_status status = test_session_begin(&s, bytes, n_bytes, 2, 1, &diag);
		assert_int_equal(status == ET_OK, i == 0);
		if (status == ET_OK)
			test_session_end(&s);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_forms, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_other_scale, test_set_up, test_tear_down_choices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
