/* SPDX-License-Identifier: BSD-3-Clause */
/* XNNPACK's memory runs out at its nth allocation: at that one alone, or at all from there on.
 *
 * Each payload is compiled, gets worker threads and an instance, runs with two shapes, and is freed. Each attempt
 * must end with a status and a message, or with the right results. XNNPACK takes one allocator for the life of a
 * process, and a mistake in it would end the process, so each attempt is a process of its own. */
#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/support/test_args.h"
#include "runtime/base/checked.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAX_ALLOCATIONS = 2000 };

static size_t n_calls, fail_at;
static bool fails_once;

static bool may_go_on(size_t n)
{
	n_calls++;
	return !fail_at || (fails_once ? n_calls != fail_at : n_calls < fail_at);
}

/* --- the payloads ---------------------------------------------------------------------------------- */

struct attempt {
	struct et_diag diag;
	struct et_model *model;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	bool is_warm;
	struct arg args[3];
};

static enum et_status get_instance(struct attempt *a, const uint8_t *bytes, size_t n_bytes, uint32_t n_args)
{
	struct et_model_info info;
	enum et_status status = test_compile(bytes, n_bytes, n_args, &a->model, &info, &a->diag);
	if (status == ET_OK)
		status = test_ops->threads_new(test_backend, 0, 1, &a->threads, &a->diag);
	if (status == ET_OK)
		status = test_ops->instance_new(a->model, a->threads, &a->instance, &a->diag);
	if (status == ET_OK && a->is_warm)
		(void)test_ops->instance_warm(a->instance, NULL);
	return status;
}

static enum et_status run(struct attempt *a)
{
	struct et_evalue *values[] = { &a->args[0].value, &a->args[1].value, &a->args[2].value };
	return test_ops->enqueue(a->instance, values, NULL, &a->diag);
}

/* A payload of a depthwise convolution, a PReLU and a linear layer. */
static enum et_status try_mixture(struct attempt *a)
{
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	enum et_status status = get_instance(a, bytes, n_bytes, 2);
	ARG(&a->args[0], ET_FLOAT32, ET_STATIC, 1, 4, 4, 2);
	ARG(&a->args[1], ET_FLOAT32, ET_STATIC, 1, 4, 4, 3);
	for (int i = 0; i < 32; i++)
		a->args[0].f32[i] = (float)(i % 5);
	if (status == ET_OK)
		status = run(a);
	if (status == ET_OK)
		test_check_mixture(a->args);
	free(bytes);
	return status;
}

static enum et_status try_linear(struct attempt *a, uint32_t type, float bound)
{
	struct make_xnn mk;
	size_t n_bytes;
	test_make_linear(&mk, type, false);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	enum et_status status = get_instance(a, bytes, n_bytes, 2);
	ARG(&a->args[0], ET_FLOAT32, ET_STATIC, N_ROWS, N_IN);
	ARG(&a->args[1], ET_FLOAT32, ET_STATIC, N_ROWS, N_OUT);
	test_fill_inputs(a->args[0].f32);
	if (status == ET_OK)
		status = run(a);
	if (status == ET_OK)
		test_check_linear(a->args[0].f32, a->args[1].f32, N_ROWS, bound);
	free(bytes);
	return status;
}

static enum et_status try_linear_f32(struct attempt *a)
{
	return try_linear(a, ET_XNN_FP32, 1e-3f);
}

static enum et_status try_linear_qc8(struct attempt *a)
{
	return try_linear(a, ET_XNN_QCINT8, 0.5f);
}

static enum et_status try_linear_qb4(struct attempt *a)
{
	return try_linear(a, ET_XNN_QBINT4, 0.5f);
}

static enum et_status try_two_biases(struct attempt *a)
{
	struct make_xnn mk;
	size_t n_bytes;
	test_make_two_biases(&mk);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	enum et_status status = get_instance(a, bytes, n_bytes, 3);
	test_fill_two_biases(a->args);
	if (status == ET_OK)
		status = run(a);
	if (status == ET_OK)
		test_check_two_biases(a->args);
	free(bytes);
	return status;
}

/* A product of two matrices, its softmax, and a concatenation of both; then with smaller shapes. */
static enum et_status try_shapes(struct attempt *a)
{
	struct make_xnn mk;
	size_t n_bytes;
	mx_init(&mk);
	uint32_t x = test_plain(&mk, 1, 0, 4, 4), y = test_plain(&mk, 2, 0, 4, 4),
		 product = test_plain(&mk, 0, 0, 4, 4), soft = test_plain(&mk, 0, 0, 4, 4),
		 out = test_plain(&mk, 0, 3, 4, 8);
	mx_node(&mk, MX_MATMUL, &(struct et_xnn_node){ .inputs = { x, y }, .outputs = { product } });
	mx_node(&mk, MX_SOFTMAX, &(struct et_xnn_node){ .inputs = { product }, .outputs = { soft } });
	mx_node(&mk, MX_CAT2,
		&(struct et_xnn_node){
			.inputs = { product, soft }, .outputs = { out }, .numbers = { [ET_XNN_AXIS] = 1 } });
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	enum et_status status = get_instance(a, bytes, n_bytes, 3);
	for (int rows = 4; rows > 1 && status == ET_OK; rows -= 2) {
		ARG(&a->args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, rows, 4);
		ARG(&a->args[1], ET_FLOAT32, ET_STATIC, 4, 4);
		ARG(&a->args[2], ET_FLOAT32, ET_DYNAMIC_BOUND, 4, 8);
		for (int i = 0; i < 16; i++) {
			a->args[0].f32[i] = (float)i;
			a->args[1].f32[i] = i % 5 == 0; /* the unit matrix */
		}
		status = run(a);
		for (int i = 0; i < rows * 4 && status == ET_OK; i++)
			test_near(a->args[2].f32[i / 4 * 8 + i % 4], (float)i, 1e-4f);
	}
	free(bytes);
	return status;
}

static const struct {
	const char *name;
	enum et_status (*try)(struct attempt *a);
	bool is_warm;
} tries[] = {
	{ "mixture, warm", try_mixture, true },
	{ "shapes, warm", try_shapes, true },
	{ "mixture", try_mixture },
	{ "linear, fp32", try_linear_f32 },
	{ "linear, qd8 and qc8", try_linear_qc8 },
	{ "linear, qd8 and qb4", try_linear_qb4 },
	{ "two biases", try_two_biases },
	{ "shapes", try_shapes },
};

/* --- attempts, each in a process of its own ------------------------------------------------------------------- */

enum outcome { REFUSED, RIGHT, NOT_REACHED, WRONG };

/* The child process. */
static enum outcome attempt(size_t which, const char **ret_text)
{
	static struct attempt a;
	static char text[600];
	n_calls = 0;
	a.is_warm = tries[which].is_warm;
	et_xnn_memory_set_gate(may_go_on);
	if (test_set_up(NULL) != 0)
		return WRONG;
	enum et_status status = tries[which].try(&a);
	test_ops->instance_free(a.instance);
	test_ops->threads_free(a.threads);
	test_ops->model_free(a.model);
	bool is_clean = test_tear_down(NULL) == 0;
	snprintf(text, sizeof(text), "%s: '%s'%s", et_status_text(status), a.diag.text,
		is_clean ? "" : ", something left behind");
	*ret_text = text;
	if (!is_clean || (status != ET_OK && !a.diag.text[0]))
		return WRONG;
	if (status != ET_OK)
		return n_calls >= fail_at ? REFUSED : WRONG;
	return n_calls >= fail_at ? RIGHT : NOT_REACHED;
}

static void test_every_allocation(void **state)
{
	unsigned n_bad = 0;
	for (size_t which = 0; which < sizeof(tries) / sizeof(tries[0]); which++) {
		for (int once = 0; once < 2; once++) {
			unsigned counts[WRONG + 1] = { 0 };
			size_t n = 1;
			for (; n < MAX_ALLOCATIONS && !counts[NOT_REACHED]; n++) {
				fail_at = n;
				fails_once = once;
				fflush(NULL);
				pid_t pid = fork();
				assert_true(pid >= 0);
				if (pid == 0) {
					signal(SIGSEGV, SIG_DFL); /* cmocka's would tell it as a status */
					signal(SIGABRT, SIG_DFL);
					const char *text = "no XNNPACK";
					enum outcome outcome = attempt(which, &text);
					if (outcome == WRONG)
						fprintf(stderr, "%s, allocation %zu%s: %s\n", tries[which].name, n,
							once ? " alone" : "", text);
					_exit((int)outcome);
				}
				int status;
				assert_int_equal(waitpid(pid, &status, 0), pid);
				unsigned outcome = WIFEXITED(status) && WEXITSTATUS(status) <= WRONG
							   ? (unsigned)WEXITSTATUS(status)
							   : WRONG;
				if (outcome == WRONG) {
					n_bad++;
					fprintf(stderr, "%s, allocation %zu%s: status 0x%x\n", tries[which].name, n,
						once ? " alone" : "", (unsigned)status);
				}
				counts[outcome]++;
			}
			print_message("%s%s: %zu allocations, %u of them can be done without\n", tries[which].name,
				once ? ", one alone" : "", n - 2, counts[RIGHT]);
			assert_int_equal(counts[NOT_REACHED], 1);
			assert_true(n > 10);
		}
	}
	assert_int_equal(n_bad, 0);
}

/* --- warm instances ----------------------------------------------------------------------- */

static bool may_not(size_t n)
{
	return false;
}

/* A warm instance runs without an allocation of XNNPACK's; an instance that is not warm needs some. */
static void test_warm(void **state)
{
	for (int is_warm = 0; is_warm < 2; is_warm++) {
		struct attempt a = { .is_warm = is_warm };
		size_t n_bytes;
		et_xnn_memory_set_gate(NULL);
		assert_int_equal(test_set_up(NULL), 0);
		uint8_t *bytes = test_make_mixture(&n_bytes);
		test_ok(get_instance(&a, bytes, n_bytes, 2), &a.diag);
		ARG(&a.args[0], ET_FLOAT32, ET_STATIC, 1, 4, 4, 2);
		ARG(&a.args[1], ET_FLOAT32, ET_STATIC, 1, 4, 4, 3);
		for (int i = 0; i < 32; i++)
			a.args[0].f32[i] = (float)(i % 5);
		et_xnn_memory_set_gate(may_not);
		enum et_status status = run(&a);
		et_xnn_memory_set_gate(NULL);
		if (is_warm) {
			test_ok(status, &a.diag);
			test_check_mixture(a.args);
		} else {
			assert_int_not_equal(status, ET_OK);
		}
		test_ops->instance_free(a.instance);
		test_ops->threads_free(a.threads);
		test_ops->model_free(a.model);
		free(bytes);
		assert_int_equal(test_tear_down(NULL), 0);
	}
}

enum { N_ROWS_MAX = 16, N_COLUMNS = 16 };
static size_t n_large;

/* Tables of XNNPACK's planner are small, and freed when it is done. */
static bool count_large(size_t n)
{
	n_large += n >= 1024;
	return true;
}

/* Sizes differ from run to run: after a run or a warm-up with the largest sizes no run takes more memory. */
static void test_warm_sizes(void **state)
{
	static const uint32_t rows[] = { N_ROWS_MAX, 1, 7, N_ROWS_MAX, 2, N_ROWS_MAX - 1, N_ROWS_MAX };
	for (int is_warm = 0; is_warm < 2; is_warm++) {
		struct attempt a = { .is_warm = is_warm };
		struct make_xnn mk;
		size_t n_bytes;
		mx_init(&mk);
		uint32_t x = test_plain(&mk, 1, 0, N_ROWS_MAX, N_COLUMNS),
			 y = test_plain(&mk, 2, 0, N_COLUMNS, N_COLUMNS),
			 product = test_plain(&mk, 0, 0, N_ROWS_MAX, N_COLUMNS),
			 soft = test_plain(&mk, 0, 0, N_ROWS_MAX, N_COLUMNS),
			 out = test_plain(&mk, 0, 3, N_ROWS_MAX, 2 * N_COLUMNS);
		mx_node(&mk, MX_MATMUL, &(struct et_xnn_node){ .inputs = { x, y }, .outputs = { product } });
		mx_node(&mk, MX_SOFTMAX, &(struct et_xnn_node){ .inputs = { product }, .outputs = { soft } });
		mx_node(&mk, MX_CAT2,
			&(struct et_xnn_node){
				.inputs = { product, soft }, .outputs = { out }, .numbers = { [ET_XNN_AXIS] = 1 } });
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		assert_int_equal(test_set_up(NULL), 0);
		test_ok(get_instance(&a, bytes, n_bytes, 3), &a.diag);
		n_large = 0;
		et_xnn_memory_set_gate(count_large);
		for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
			int n = (int)rows[i];
			ARG(&a.args[0], ET_FLOAT32, ET_DYNAMIC_BOUND, n, N_COLUMNS);
			ARG(&a.args[1], ET_FLOAT32, ET_STATIC, N_COLUMNS, N_COLUMNS);
			ARG(&a.args[2], ET_FLOAT32, ET_DYNAMIC_BOUND, N_ROWS_MAX, 2 * N_COLUMNS);
			for (int k = 0; k < N_COLUMNS * N_COLUMNS; k++) {
				a.args[0].f32[k] = (float)(k % 7);
				a.args[1].f32[k] = k % (N_COLUMNS + 1) == 0; /* the unit matrix */
			}
			test_ok(run(&a), &a.diag);
			for (int k = 0; k < n * N_COLUMNS; k++)
				test_near(a.args[2].f32[k / N_COLUMNS * 2 * N_COLUMNS + k % N_COLUMNS], (float)(k % 7),
					1e-4f);
			if (i == 0) {
				assert_true(is_warm ? n_large == 0 : n_large > 0);
				n_large = 0;
			}
		}
		assert_int_equal(n_large, 0);
		/* a worker keeps its workspace for its other instances, and frees it with the last of them */
		struct et_instance *other;
		test_ok(test_ops->instance_new(a.model, a.threads, &other, &a.diag), &a.diag);
		test_ops->instance_free(a.instance);
		a.instance = other;
		n_large = 0;
		test_ok(run(&a), &a.diag);
		assert_int_equal(n_large, 0);
		test_ops->instance_free(a.instance);
		test_ok(test_ops->instance_new(a.model, a.threads, &a.instance, &a.diag), &a.diag);
		n_large = 0;
		test_ok(run(&a), &a.diag);
		assert_int_not_equal(n_large, 0);
		et_xnn_memory_set_gate(NULL);
		test_ops->instance_free(a.instance);
		test_ops->threads_free(a.threads);
		test_ops->model_free(a.model);
		free(bytes);
		assert_int_equal(test_tear_down(NULL), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_allocation), cmocka_unit_test(test_warm),
		cmocka_unit_test(test_warm_sizes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
