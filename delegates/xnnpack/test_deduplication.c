/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads of a Program that were decoded to the same graph share one model; any difference in what they do keeps
 * them apart. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/threads.h"
#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/support/test_args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
	PROGRAM = 7,
	OTHER_PROGRAM = 8,
	N = 2,
	STEPS = 3,
	MANY = 300000 /* are not copied out of a payload */
};

struct one {
	uint8_t *bytes;
	struct inferd_delegate_model *model;
	struct inferd_delegate_instance *instance;
};

/* @one's bytes, of so many. */
static void compile(struct one *one, uint64_t program, uint64_t n_bytes, bool is_dropped)
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	struct inferd_delegate_model_info info = { .struct_size = sizeof(info) };
	struct inferd_delegate_payload payload = { .struct_size = sizeof(payload),
		.n_args = 2,
		.fd = -1,
		.method = "forward",
		.program = program,
		.bytes = one->bytes,
		.n_bytes = n_bytes };
	assert_int_equal(et_xnnpack_delegate.init(et_direct_self(test_backend), &payload, &one->model, &info, &message),
		INFERD_DELEGATE_OK);
	assert_int_equal(info.n_outputs, 1);
	assert_int_equal((info.flags & INFERD_DELEGATE_DROPS_PAYLOAD) != 0, is_dropped);
	if (is_dropped)
		memset(one->bytes, 0xff, n_bytes); /* not read again */
}

static void begin_of(struct one *one, uint64_t program, const float *constant, uint32_t n, float most,
	bool is_transposed)
{
	size_t n_bytes;
	*one = (struct one){ .bytes = test_make_add(constant, n, n, most, is_transposed, &n_bytes) };
	compile(one, program, n_bytes, n != MANY);
}

static void begin(struct one *one, uint64_t program, const float constant[N], float most, bool is_transposed)
{
	begin_of(one, program, constant, N, most, is_transposed);
}

static void open(struct one *one, struct inferd_delegate_worker_threads *threads)
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	assert_int_equal(et_xnnpack_delegate.instance_on_threads(one->model, threads, &one->instance, &message),
		INFERD_DELEGATE_OK);
}

static void end(struct one *one)
{
	if (one->instance)
		et_xnnpack_delegate.instance_free(one->instance);
	et_xnnpack_delegate.destroy(one->model);
	free(one->bytes);
	*one = (struct one){ 0 };
}

/* Runs use other memory each time. */
static int try_run(const struct one *one, float first, const float expected[N])
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	float *numbers = calloc(2 * N + 16, sizeof(*numbers));
	struct inferd_delegate_arg args[2], *pointers[2];
	for (uint32_t i = 0; i < 2; i++) {
		args[i] = (struct inferd_delegate_arg){ .struct_size = sizeof(args[i]),
			.kind = INFERD_DELEGATE_TENSOR,
			.type = ET_FLOAT32,
			.n_dims = 2,
			.is_output = i == 1,
			.sizes = { 1, N },
			.dim_order = { 0, 1 },
			.data = numbers + i * N,
			.n_bytes = N * sizeof(float),
			.fd = -1 };
		pointers[i] = &args[i];
	}
	for (uint32_t i = 0; i < N; i++)
		numbers[i] = first + (float)i;
	struct inferd_delegate_run one_run = { .struct_size = sizeof(one_run), .n_args = 2, .args = pointers };
	int status = et_xnnpack_delegate.execute(one->model, one->instance, &one_run, &message);
	for (uint32_t i = 0; i < N && status == INFERD_DELEGATE_OK; i++)
		test_near(numbers[N + i], expected[i], 0);
	free(numbers);
	return status;
}

static void run(const struct one *one, float first, const float expected[N])
{
	assert_int_equal(try_run(one, first, expected), INFERD_DELEGATE_OK);
}

static const float some[N] = { 1, 2 }, others[N] = { 1, 3 };

static void test_same_payloads_share_a_model(void **state)
{
	struct one a, b;
	struct et_worker_threads *thread_sets[2];
	struct et_diag diag = { 0 };
	for (uint32_t i = 0; i < 2; i++)
		test_ok(test_ops->threads_new(test_backend, 0, 1, &thread_sets[i], &diag), &diag);
	begin(&a, PROGRAM, some, 100, false);
	begin(&b, PROGRAM, some, 100, false);
	assert_ptr_equal(a.model->model, b.model->model);
	assert_ptr_not_equal(a.model, b.model);
	open(&a, et_direct_worker_threads(thread_sets[0]));
	open(&b, et_direct_worker_threads(thread_sets[0]));
	assert_ptr_equal(a.instance, b.instance);
	struct one elsewhere = { .model = a.model };
	open(&elsewhere, et_direct_worker_threads(thread_sets[1]));
	assert_ptr_not_equal(elsewhere.instance, a.instance);
	for (uint32_t i = 0; i < 3; i++) {
		run(&a, 1, (float[]){ 2, 4 });
		run(&b, 5, (float[]){ 6, 8 });
		run(&elsewhere, 7, (float[]){ 8, 10 });
	}
	et_xnnpack_delegate.instance_free(elsewhere.instance);
	end(&a);
	run(&b, 50, (float[]){ 51, 53 });
	begin(&a, PROGRAM, some, 100, false);
	assert_ptr_equal(a.model->model, b.model->model);
	end(&b);
	open(&a, et_direct_worker_threads(thread_sets[0]));
	run(&a, 99, (float[]){ 100, 100 });
	end(&a);
	for (uint32_t i = 0; i < 2; i++)
		test_ops->threads_free(thread_sets[i]);
}

static void test_different_payloads_do_not(void **state)
{
	struct one all[4];
	struct et_worker_threads *threads;
	struct et_diag diag = { 0 };
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	begin(&all[0], PROGRAM, some, 100, false);
	begin(&all[1], PROGRAM, others, 100, false);
	begin(&all[2], PROGRAM, some, 4, false);
	begin(&all[3], OTHER_PROGRAM, some, 100, false);
	static const float expected[][N] = { { 4, 6 }, { 4, 7 }, { 4, 4 }, { 4, 6 } };
	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t j = 0; j < i; j++)
			assert_ptr_not_equal(all[i].model->model, all[j].model->model);
		open(&all[i], et_direct_worker_threads(threads));
	}
	for (uint32_t i = 0; i < 8; i++)
		run(&all[i % 4], 3, expected[i % 4]);
	for (uint32_t i = 0; i < 4; i++)
		end(&all[i]);
	test_ops->threads_free(threads);
}

static bool _Atomic has_memory;

static bool may_allocate(size_t n_bytes)
{
	return has_memory;
}

/* A shared instance is warmed for each of its users, also after a run that failed for one of them. */
static void test_instance_is_warmed_after_a_failure(void **state)
{
	struct one a, b;
	struct et_worker_threads *threads;
	struct et_diag diag = { 0 };
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	begin(&a, PROGRAM, some, 100, false);
	begin(&b, PROGRAM, some, 100, false);
	open(&a, et_direct_worker_threads(threads));
	has_memory = false;
	et_xnn_memory_set_gate(may_allocate);
	assert_int_not_equal(try_run(&a, 1, some), INFERD_DELEGATE_OK);
	has_memory = true;
	open(&b, et_direct_worker_threads(threads));
	assert_ptr_equal(a.instance, b.instance);
	assert_int_equal(et_xnnpack_delegate.instance_warm(b.instance, &message), INFERD_DELEGATE_OK);
	et_xnn_memory_set_gate(NULL);
	run(&b, 1, (float[]){ 2, 4 });
	run(&a, 5, (float[]){ 6, 8 });
	end(&a);
	end(&b);
	test_ops->threads_free(threads);
}

/* A Plan may yet change the dimension order of one payload's argument, so such payloads are not shared. */
static void test_payload_that_may_change_is_not_shared(void **state)
{
	struct one a, b;
	begin(&a, PROGRAM, some, 100, true);
	begin(&b, PROGRAM, some, 100, true);
	assert_ptr_not_equal(a.model->model, b.model->model);
	end(&a);
	end(&b);
}

/* A payload whose bytes stay in use is not shared: the bytes last only as long as that payload. */
static void test_payload_that_reads_its_bytes_is_not_shared(void **state)
{
	struct one a, b;
	float *numbers = calloc(MANY, sizeof(*numbers));
	begin_of(&a, PROGRAM, numbers, MANY, 100, false);
	begin_of(&b, PROGRAM, numbers, MANY, 100, false);
	assert_ptr_not_equal(a.model->model, b.model->model);
	end(&a);
	end(&b);
	free(numbers);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

/* A payload that slices one step and adds the step's last number; if all steps are read, it adds the result to each
 * of them. */
static void begin_step(struct one *one, uint32_t step, bool is_read)
{
	struct make_xnn mk;
	size_t n_bytes;
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, STEPS, N), out = test_plain(&mk, 0, 2, is_read ? STEPS : 1, N),
		 row = test_plain(&mk, 0, 0, 1, N), last = test_plain(&mk, 0, 0, 1, 1),
		 sum = is_read ? test_plain(&mk, 0, 0, 1, N) : out;
	mx_node(&mk, MX_SLICE,
		&(struct et_xnn_node){
			.inputs = { in }, .outputs = { row }, .n_list = { 2, 2 }, .list = { { step, 0 }, { 1, 0 } } });
	mx_node(&mk, MX_SLICE,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { last },
			.n_list = { 2, 2 },
			.list = { { step, N - 1 }, { 1, 1 } } });
	mx_node(&mk, MX_ADD,
		&(struct et_xnn_node){ .inputs = { row, last }, .outputs = { sum }, .min = -1000, .max = 1000 });
	if (is_read)
		mx_node(&mk, MX_ADD,
			&(struct et_xnn_node){ .inputs = { in, sum }, .outputs = { out }, .min = -1000, .max = 1000 });
	*one = (struct one){ .bytes = mx_finish(&mk, &n_bytes) };
	compile(one, PROGRAM, n_bytes, true);
}

/* Run on a tensor of @n_steps steps, numbered from 1 on, with memory behind it. */
static int run_step(const struct one *one, uint32_t n_steps, uint32_t n_out, float *ret)
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	float *numbers = calloc((size_t)n_steps * N + 16, sizeof(*numbers));
	struct inferd_delegate_arg args[2], *pointers[2] = { &args[0], &args[1] };
	for (uint32_t i = 0; i < n_steps * N; i++)
		numbers[i] = (float)(i + 1);
	for (uint32_t i = 0; i < 2; i++)
		args[i] = (struct inferd_delegate_arg){ .struct_size = sizeof(args[i]),
			.kind = INFERD_DELEGATE_TENSOR,
			.type = ET_FLOAT32,
			.n_dims = 2,
			.is_output = i == 1,
			.sizes = { (int32_t)(i ? n_out : n_steps), N },
			.dim_order = { 0, 1 },
			.data = i ? ret : numbers,
			.n_bytes = (i ? n_out : n_steps) * N * sizeof(float),
			.fd = -1 };
	struct inferd_delegate_run one_run = { .struct_size = sizeof(one_run), .n_args = 2, .args = pointers };
	int result = et_xnnpack_delegate.execute(one->model, one->instance, &one_run, &message);
	free(numbers);
	return result;
}

/* Run all steps of one tensor, on worker threads of their own. */
static struct et_worker_threads *open_steps(struct one all[STEPS], bool is_read)
{
	struct et_worker_threads *threads;
	struct et_diag diag = { 0 };
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	for (uint32_t i = 0; i < STEPS; i++) {
		begin_step(&all[i], i, is_read);
		open(&all[i], et_direct_worker_threads(threads));
	}
	return threads;
}

static void end_steps(struct one all[STEPS], struct et_worker_threads *threads)
{
	for (uint32_t i = 0; i < STEPS; i++)
		end(&all[i]);
	test_ops->threads_free(threads);
}

/* Steps of one tensor, each sliced out by a payload of its own: payloads that differ only in the offset share a
 * model. */
static void test_steps_share_a_model(void **state)
{
	struct one all[STEPS];
	struct et_worker_threads *threads = open_steps(all, false);
	float out[STEPS * N + 16];
	for (uint32_t i = 0; i < STEPS; i++) {
		assert_ptr_equal(all[i].model->model, all[0].model->model);
		assert_ptr_equal(all[i].instance, all[0].instance);
	}
	for (uint32_t i = 0; i < 3 * STEPS; i++) {
		uint32_t step = i % STEPS, n_steps = i < 2 * STEPS ? STEPS : step + 1;
		assert_int_equal(run_step(&all[step], n_steps, 1, out), INFERD_DELEGATE_OK);
		for (uint32_t j = 0; j < N; j++)
			test_near(out[j], (float)(step * N + j + 1 + step * N + N), 0);
		if (step)
			assert_int_not_equal(run_step(&all[step], step, 1, out), INFERD_DELEGATE_OK);
	}
	end_steps(all, threads);
}

/* A payload that also reads the whole tensor needs it from its first element. */
static void test_input_that_is_read_whole_has_no_offset(void **state)
{
	struct one all[STEPS];
	struct et_worker_threads *threads = open_steps(all, true);
	float out[STEPS * N + 16];
	for (uint32_t i = 0; i < STEPS; i++) {
		assert_int_equal(run_step(&all[i], STEPS, STEPS, out), INFERD_DELEGATE_OK);
		for (uint32_t j = 0; j < STEPS * N; j++)
			test_near(out[j], (float)(j + 1 + i * N + j % N + 1 + i * N + N), 0);
	}
	end_steps(all, threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(same_payloads_share_a_model),
		TEST(different_payloads_do_not),
		TEST(instance_is_warmed_after_a_failure),
		TEST(payload_that_may_change_is_not_shared),
		TEST(steps_share_a_model),
		TEST(input_that_is_read_whole_has_no_offset),
		TEST(payload_that_reads_its_bytes_is_not_shared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
