/* SPDX-License-Identifier: BSD-3-Clause */
/* An instance's memory: what compile says of it before there is one, and a limit that ends what would take more. */
#include "delegates/xnnpack/support/test_args.h"

#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N = 512, N_CHAIN = 12 };

/* A chain of concatenations, each one row longer than the one before. XNNPACK's plan stacks all of them. */
static uint8_t *make_chain(size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, N, N), row = test_plain(&mk, 2, 0, 1, N),
		 last = test_plain(&mk, 0, 0, N, N), more = test_plain(&mk, 0, 0, 1, N);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { last } });
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { row }, .outputs = { more } });
	for (uint32_t i = 1; i <= N_CHAIN; i++) {
		uint32_t longer = test_plain(&mk, 0, 0, N + i, N);
		mx_node(&mk, MX_CAT2, &(struct et_xnn_node){ .inputs = { last, more }, .outputs = { longer } });
		last = longer;
	}
	uint32_t out = test_plain(&mk, 0, 3, N + N_CHAIN, N);
	mx_node(&mk, MX_NEGATE, &(struct et_xnn_node){ .inputs = { last }, .outputs = { out } });
	return mx_finish(&mk, ret_n_bytes);
}

static void test_compile_tells_what_a_plan_takes(void **state)
{
	struct et_model_info info;
	struct et_diag diag = { "" };
	struct test_session s = { 0 };
	size_t n_bytes;
	uint8_t *bytes = make_chain(&n_bytes);
	test_ok(test_compile(bytes, n_bytes, 3, &s.model, &info, &diag), &diag);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &s.threads, &diag), &diag);
	test_ok(test_ops->instance_new(s.model, s.threads, &s.instance, &diag), &diag);
	test_ok(test_ops->instance_warm(s.instance, &diag), &diag);
	uint64_t n = test_ops->threads_bytes(s.threads);
	assert_true(n > (uint64_t)N_CHAIN * N * N * sizeof(float)); /* the plan is as bad as it was */
	assert_in_range(info.instance_bytes, n - n / 50, n + n / 4);
	assert_in_range(info.shared_bytes, n - n / 50, info.instance_bytes);
	test_session_end(&s);

	et_xnnpack_set_max_instance_bytes(et_direct_self(test_backend), (size_t)8 << 20);
	test_refused(test_compile(bytes, n_bytes, 3, &s.model, &info, &diag), ET_E_OUT_OF_RESOURCES, &diag,
		"MiB for one instance, more than the limit of 8 MiB");
	free(bytes);
}

/* out = sigmoid(x * y) * z: two values of N by N between arguments of N numbers. */
static uint8_t *make_product(size_t *ret_n_bytes)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t x = test_plain(&mk, 1, 0, N, 1), y = test_plain(&mk, 2, 0, 1, N), z = test_plain(&mk, 3, 0, N, 1),
		 product = test_plain(&mk, 0, 0, N, N), soft = test_plain(&mk, 0, 0, N, N),
		 out = test_plain(&mk, 0, 4, N, 1);
	mx_node(&mk, MX_MATMUL, &(struct et_xnn_node){ .inputs = { x, y }, .outputs = { product } });
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { product }, .outputs = { soft } });
	mx_node(&mk, MX_MATMUL, &(struct et_xnn_node){ .inputs = { soft, z }, .outputs = { out } });
	return mx_finish(&mk, ret_n_bytes);
}

static enum et_status run(struct test_session *s, struct arg args[4], int n, struct et_diag *diag)
{
	struct et_evalue *values[] = { &args[0].value, &args[1].value, &args[2].value, &args[3].value };
	ARG(&args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, n, 1);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, N);
	ARG(&args[2], ET_FLOAT32, ET_STATIC, N, 1);
	ARG(&args[3], ET_FLOAT32, ET_DYNAMIC_BOUND, N, 1);
	for (int i = 0; i < N; i++) {
		args[0].f32[i] = args[1].f32[i] = 0;
		args[2].f32[i] = 1;
	}
	return test_ops->enqueue(s->instance, values, NULL, diag);
}

static void test_limit_ends_what_takes_more(void **state)
{
	enum { LIMIT = 768 << 10 };
	static struct arg args[4];
	struct et_diag diag = { "" };
	struct test_session s;
	size_t n_bytes;
	uint8_t *bytes = make_product(&n_bytes);
	test_ok(test_session_begin(&s, bytes, n_bytes, 4, 1, &diag), &diag);
	uint64_t n_before = test_ops->threads_bytes(s.threads);
	test_ops->limit_memory(test_backend, LIMIT);
	for (int i = 0; i < 3; i++) { /* the denied runs leave nothing behind */
		diag.text[0] = '\0';
		test_refused(run(&s, args, N, &diag), ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED, &diag,
			"of the memory for runs are free");
		assert_in_range(test_ops->threads_bytes(s.threads), 0, LIMIT);
	}
	diag.text[0] = '\0';
	test_ok(run(&s, args, 2, &diag), &diag); /* smaller sizes fit */
	test_near(args[3].f32[1], N / 2, 1e-2f);
	assert_in_range(test_ops->threads_bytes(s.threads), 0, LIMIT);

	test_ops->limit_memory(test_backend, UINT64_MAX);
	test_ok(run(&s, args, N, &diag), &diag);
	test_near(args[3].f32[N - 1], N / 2, 1e-2f);
	assert_true(test_ops->threads_bytes(s.threads) > n_before + (uint64_t)N * N * sizeof(float));
	/* what exists stays, and goes on */
	test_ops->limit_memory(test_backend, 0);
	test_ok(run(&s, args, N, &diag), &diag);
	test_session_end(&s);
	diag.text[0] = '\0';
	test_refused(test_session_begin(&s, bytes, n_bytes, 4, 1, &diag), ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED, &diag,
		"of the memory for runs are free");
	test_session_end(&s);
	free(bytes);
}

static void test_freed_memory_can_be_taken_again(void **state)
{
	static struct arg args[4];
	struct et_diag diag = { "" };
	struct test_session a;
	size_t n_bytes;
	uint8_t *bytes = make_product(&n_bytes);
	test_ok(test_session_begin(&a, bytes, n_bytes, 4, 1, &diag), &diag);
	test_ok(run(&a, args, N, &diag), &diag);
	uint64_t n = test_ops->threads_bytes(a.threads);
	test_session_end(&a);
	test_ops->limit_memory(test_backend, n + n / 2);
	for (int i = 0; i < 3; i++) {
		test_ok(test_session_begin(&a, bytes, n_bytes, 4, 1, &diag), &diag);
		test_ok(run(&a, args, N, &diag), &diag);
		test_session_end(&a);
	}
	free(bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)
	static const struct CMUnitTest tests[] = {
		TEST(compile_tells_what_a_plan_takes),
		TEST(limit_ends_what_takes_more),
		TEST(freed_memory_can_be_taken_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
