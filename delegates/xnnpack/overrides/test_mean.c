/* SPDX-License-Identifier: BSD-3-Clause */
/* mean.c against the plain definition: ties to even whatever the zero points, both types, other scales, values that
 * are too large, threads, shapes that change; between nodes of XNNPACK's, with 8-bit boundary tensors. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 512 };

struct layer {
	uint32_t type, height, width, channels;
	int32_t zero_in, zero_out;
	float scale_in, scale_out;
	bool is_between; /* XNNPACK negates before and after */
	bool is_deep;    /* five dimensions */
};

static struct arg args[2];

static uint8_t *make(const struct layer *l, size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	struct mx_value value = { .type = l->type,
		.n_dims = l->is_deep ? 5 : 4,
		.scale = l->scale_in,
		.zero_point = l->zero_in,
		.input = 1 };
	uint32_t *dims = value.dims + l->is_deep;
	value.dims[0] = dims[0] = 2;
	value.dims[0] -= l->is_deep;
	dims[1] = l->height;
	dims[2] = l->width;
	dims[3] = l->channels;
	uint32_t in = mx_value(&mk, &value), first = in;
	value.input = 0;
	if (l->is_between) {
		first = mx_value(&mk, &value);
		mx_node(&mk, MX_NEGATE, &(struct et_xnn_node){ .inputs = { in }, .outputs = { first } });
	}
	dims[1] = dims[2] = 1;
	value.scale = l->scale_out;
	value.zero_point = l->zero_out;
	uint32_t inner = l->is_between ? mx_value(&mk, &value) : 0;
	value.output = 2;
	uint32_t out = mx_value(&mk, &value);
	mx_node(&mk, MX_GLOBAL,
		&(struct et_xnn_node){ .inputs = { first },
			.outputs = { l->is_between ? inner : out },
			.min = -INFINITY,
			.max = INFINITY,
			.flags = XNN_FLAG_KEEP_DIMS });
	if (l->is_between)
		mx_node(&mk, MX_NEGATE, &(struct et_xnn_node){ .inputs = { inner }, .outputs = { out } });
	return mx_finish(&mk, ret_n_bytes);
}

static int number(const struct layer *l, const struct arg *arg, size_t i)
{
	return l->type == ET_XNN_QINT8 ? arg->i8[i] : (uint8_t)arg->i8[i];
}

static int limit(const struct layer *l, double value)
{
	double least = l->type == ET_XNN_QINT8 ? INT8_MIN : 0;
	return (int)fmin(fmax(rint(value), least), least + UINT8_MAX);
}

/* XNNPACK's negation of @q in the same scale. */
static int negate(const struct layer *l, int q, int zero)
{
	return l->is_between ? limit(l, 2 * zero - q) : q;
}

/* Returns false if the last bits of floats decide. */
static bool expect(const struct layer *l, size_t image, size_t channel, int *ret_number)
{
	size_t n = (size_t)l->height * l->width;
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += negate(l, number(l, &args[0], (image * n + i) * l->channels + channel), l->zero_in) - l->zero_in;
	double mean = sum * (double)l->scale_in / (double)l->scale_out / (double)n + l->zero_out;
	*ret_number = negate(l, limit(l, mean), l->zero_out);
	return (n & (n - 1)) == 0 || fabs(mean - floor(mean) - 0.5) > 1e-3;
}

/* Returns how many means were compared. */
static size_t check(const struct layer *layer)
{
	struct test_session s = { 0 };
	struct et_diag diag = { 0 };
	size_t n_bytes, n_checked = 0;
	uint8_t *bytes = make(layer, &n_bytes), scalar = layer->type == ET_XNN_QINT8 ? ET_INT8 : ET_UINT8;
	test_ok(test_session_begin(&s, bytes, n_bytes, 2, 1 + test_draw(2), &diag), &diag);
	free(bytes);
	assert_true(test_has_override(s.model, &et_xnn_override_mean_q8));
	for (uint32_t shrunk = 0; shrunk < 2 && layer->height > shrunk; shrunk++) {
		struct layer l = *layer;
		l.height -= shrunk;
		int32_t in[] = { 1, 2, (int32_t)l.height, (int32_t)l.width, (int32_t)l.channels },
			out[] = { 1, 2, 1, 1, (int32_t)l.channels };
		test_arg_init(&args[0], scalar, 4 + l.is_deep, in + !l.is_deep, ET_STATIC);
		test_arg_init(&args[1], scalar, 4 + l.is_deep, out + !l.is_deep, ET_DYNAMIC_BOUND);
		uint32_t spread = 1 + test_draw(255), least = test_draw(257 - spread);
		for (uint32_t i = 0; i < 2 * l.height * l.width * l.channels; i++)
			args[0].i8[i] = (int8_t)(uint8_t)(least + test_draw(spread));
		struct et_evalue *values[] = { &args[0].value, &args[1].value };
		test_ok(test_ops->enqueue(s.instance, values, NULL, &diag), &diag);
		for (uint32_t i = 0; i < 2 * l.channels; i++) {
			int expected;
			if (!expect(&l, i / l.channels, i % l.channels, &expected))
				continue;
			assert_int_equal(number(&l, &args[1], i), expected);
			n_checked++;
		}
	}
	test_session_end(&s);
	return n_checked;
}

static void test_any(void **state)
{
	size_t n_checked = 0;
	for (int i = 0; i < 400;) {
		static const float scales[] = { 0.25f, 0.5f, 0.0625f };
		struct layer l = { .type = i % 2 ? ET_XNN_QINT8 : ET_XNN_QUINT8,
			.height = 1 + test_draw(8),
			.width = 1 + test_draw(8),
			.channels = test_draw(4) ? 1 + test_draw(5) : 1 + test_draw(150),
			.is_between = test_draw(3) == 0,
			.is_deep = test_draw(4) == 0,
			.scale_in = scales[test_draw(3)] };
		l.scale_out = test_draw(2) ? l.scale_in : scales[test_draw(3)];
		l.zero_in = (int32_t)test_draw(256) - (i % 2 ? 128 : 0);
		l.zero_out = test_draw(2) ? l.zero_in : (int32_t)test_draw(256) - (i % 2 ? 128 : 0);
		if (2 * l.height * l.width * l.channels > MOST)
			continue;
		n_checked += check(&l);
		i++;
	}
	assert_true(n_checked > 4000);
}

/* 1, 2 and their mean, 1.5, to even: to 2, whatever zero is. */
static void test_fp16(void **state)
{
	static const int8_t pixels[] = { 1, 2, -2, -3, 126, 127, -128, -127 };
	static const int8_t means[] = { 2, -2, 126, -128 };
	for (int zero = -128; zero < 128; zero += 5) {
		struct layer l = { ET_XNN_QINT8, 1, 2, 1, zero, zero, 0.0234f, 0.0234f, false, false };
		struct test_session s = { 0 };
		struct et_diag diag = { 0 };
		size_t n_bytes;
		uint8_t *bytes = make(&l, &n_bytes);
		test_ok(test_session_begin(&s, bytes, n_bytes, 2, 1, &diag), &diag);
		free(bytes);
		for (size_t i = 0; i < sizeof(pixels); i += 4) {
			ARG(&args[0], ET_INT8, ET_STATIC, 2, 1, 2, 1);
			ARG(&args[1], ET_INT8, ET_STATIC, 2, 1, 1, 1);
			memcpy(args[0].i8, pixels + i, 4);
			struct et_evalue *values[] = { &args[0].value, &args[1].value };
			test_ok(test_ops->enqueue(s.instance, values, NULL, &diag), &diag);
			assert_memory_equal(args[1].i8, means + i / 2, 2);
		}
		test_session_end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_any, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_fp16, test_set_up, test_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
