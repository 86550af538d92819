/* SPDX-License-Identifier: BSD-3-Clause */
/* Prebuilt runtimes: the first instance takes them. Whatever happens to payload, worker and Program meanwhile, each
 * runtime is used once at most and none leaks. XNNPACK's allocations show how many runtimes are made; the address
 * sanitizer finds leaks. */
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/threads.h"
#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/prebuilt_cache.h"
#include "delegates/xnnpack/support/test_args.h"
#include "runtime/platform/platform.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { PROGRAM = 7, OTHER_PROGRAM = 8, N = 4, N_ROUNDS = 50 };

static _Atomic(unsigned) n_allocations;

static bool count(size_t n_bytes)
{
	n_allocations++;
	return true;
}

struct one {
	uint8_t *bytes;
	float added;
	struct inferd_delegate_model *model;
	struct inferd_delegate_instance *instance;
};

/* out = in + @added, transposed before if it @is_transposed. */
static void begin(struct one *one, uint64_t program, float added, bool is_transposed)
{
	size_t n_bytes;
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	struct inferd_delegate_model_info info = { .struct_size = sizeof(info) };
	*one = (struct one){ .bytes = test_make_add(&added, 1, N, 1000, is_transposed, &n_bytes), .added = added };
	struct inferd_delegate_payload payload = { .struct_size = sizeof(payload),
		.n_args = 2,
		.fd = -1,
		.method = "forward",
		.program = program,
		.bytes = one->bytes,
		.n_bytes = n_bytes };
	assert_int_equal(et_xnnpack_delegate.init(et_direct_self(test_backend), &payload, &one->model, &info, &message),
		INFERD_DELEGATE_OK);
}

/* Returns whether XNNPACK allocated anything for it. */
static bool open(struct one *one, struct inferd_delegate_worker_threads *threads)
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	unsigned n_before = n_allocations;
	assert_int_equal(et_xnnpack_delegate.instance_on_threads(one->model, threads, &one->instance, &message),
		INFERD_DELEGATE_OK);
	return n_allocations > n_before;
}

static void close(struct one *one)
{
	et_xnnpack_delegate.instance_free(one->instance);
	one->instance = NULL;
}

static void end(struct one *one)
{
	if (one->instance)
		close(one);
	et_xnnpack_delegate.destroy(one->model);
	free(one->bytes);
}

static void run(const struct one *one)
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	float numbers[2 * N + 16] = { 1, 2, 3, 4 };
	struct inferd_delegate_arg args[2], *pointers[] = { &args[0], &args[1] };
	for (uint32_t i = 0; i < 2; i++)
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
	struct inferd_delegate_run one_run = { .struct_size = sizeof(one_run), .n_args = 2, .args = pointers };
	assert_int_equal(et_xnnpack_delegate.execute(one->model, one->instance, &one_run, &message),
		INFERD_DELEGATE_OK);
	for (uint32_t i = 0; i < N; i++)
		test_near(numbers[N + i], (float)i + 1 + one->added, 0);
}

static struct et_worker_threads *threads_of(uint32_t n_threads)
{
	struct et_worker_threads *threads;
	struct et_diag diag = { 0 };
	test_ok(test_ops->threads_new(test_backend, 0, n_threads, &threads, &diag), &diag);
	return threads;
}

static int set_up(void **state)
{
	et_xnn_memory_set_gate(count);
	return test_set_up(state);
}

static int tear_down(void **state)
{
	et_xnn_memory_set_gate(NULL);
	return test_tear_down(state);
}

static void test_first_instances_make_nothing(void **state)
{
	struct one all[3];
	struct et_worker_threads *threads = threads_of(1), *other;
	for (uint32_t i = 0; i < 3; i++)
		begin(&all[i], PROGRAM, (float)i, false);
	for (uint32_t i = 0; i < 3; i++)
		assert_false(open(&all[2 - i], et_direct_worker_threads(threads))); /* in any order */
	for (uint32_t i = 0; i < 6; i++)
		run(&all[i % 3]);
	for (uint32_t i = 0; i < 3; i++)
		close(&all[i]);
	for (uint32_t i = 0; i < 3; i++) { /* once, and no more */
		assert_true(open(&all[i], et_direct_worker_threads(threads)));
		run(&all[i]);
		close(&all[i]);
	}
	other = threads_of(1);
	assert_true(open(&all[0], et_direct_worker_threads(other)));
	run(&all[0]);
	for (uint32_t i = 0; i < 3; i++)
		end(&all[i]);
	test_ops->threads_free(other);
	test_ops->threads_free(threads);
}

/* An 8-bit transposed convolution, [1,1,1,N] -> [1,3,3,N], all of whose weights are 1. The caller frees it. */
static uint8_t *make_transposed(size_t *ret_n_bytes)
{
	struct make_xnn mk;
	int8_t filter[N * 9 * N];
	float scales[N] = { 1, 1, 1, 1 };
	memset(filter, 1, sizeof(filter));
	mx_init(&mk);
	uint32_t in = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, 1, 1, N), .input = 1, .scale = 1 });
	uint32_t weights = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_QCINT8,
						 MX_DIMS(N, 3, 3, N),
						 .constant = mx_constant(&mk, filter, sizeof(filter)),
						 .scales = scales,
						 .n_scales = N });
	uint32_t out = mx_value(&mk,
		&(struct mx_value){ .type = ET_XNN_QINT8, MX_DIMS(1, 3, 3, N), .output = 2, .scale = 1 });
	mx_node(&mk, MX_DECONV,
		&(struct et_xnn_node){ .inputs = { in, weights, ET_XNN_NONE },
			.outputs = { out },
			.numbers = { 0, 0, 0, 0, 3, 3, 1, 1, 1, 1, N, N, 1, 0, 0 } });
	return mx_finish(&mk, ret_n_bytes);
}

static void run_transposed(struct et_model *model, struct et_worker_threads *threads)
{
	struct et_diag diag = { 0 };
	struct et_instance *instance;
	struct arg args[2];
	struct et_evalue *values[] = { &args[0].value, &args[1].value };
	ARG(&args[0], ET_INT8, ET_STATIC, 1, 1, 1, N);
	ARG(&args[1], ET_INT8, ET_STATIC, 1, 3, 3, N);
	for (int8_t i = 0; i < N; i++)
		args[0].i8[i] = i;
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
	for (uint32_t i = 0; i < 9 * N; i++)
		assert_int_equal(args[1].i8[i], 0 + 1 + 2 + 3);
	test_ops->instance_free(instance);
}

/* XNNPACK packs that filter for each runtime, without asking the weights cache. */
static void test_packs_once(void **state)
{
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_xnn_weights_stats stats;
	size_t n_bytes;
	uint8_t *bytes = make_transposed(&n_bytes);
	struct et_worker_threads *threads = threads_of(1);
	test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
	for (uint32_t i = 0; i < 3; i++) {
		run_transposed(model, threads);
		et_xnnpack_weights_stats(et_direct_model(model), &stats);
		assert_int_equal(stats.n_packings, 1 + i);
		assert_int_equal(stats.n_packed, 1);
	}
	test_ops->model_free(model);
	test_ops->threads_free(threads);
	free(bytes);
}

/* A runtime is bound to its workspace and its threads: a worker that has others cannot take it. */
static void test_workers_that_cannot_take_them(void **state)
{
	struct one first, second, wide;
	struct et_worker_threads *threads = threads_of(1), *wide_threads = threads_of(2);
	begin(&first, PROGRAM, 1, false);
	begin(&second, OTHER_PROGRAM, 2, false);
	begin(&wide, PROGRAM, 3, false);
	assert_false(open(&first, et_direct_worker_threads(threads)));
	assert_true(open(&second, et_direct_worker_threads(threads)));
	assert_true(open(&wide, et_direct_worker_threads(wide_threads)));
	for (uint32_t i = 0; i < 3; i++) {
		run(&first);
		run(&second);
		run(&wide);
	}
	end(&first);
	end(&second);
	end(&wide);
	begin(&wide, PROGRAM, 4, false);
	assert_true(open(&wide, et_direct_worker_threads(wide_threads)));
	close(&wide);
	assert_true(open(&wide, et_direct_worker_threads(threads))); /* the prebuilt runtime was deleted */
	run(&wide);
	end(&wide);
	test_ops->threads_free(threads);
	test_ops->threads_free(wide_threads);
}

/* Spare runtimes of a worker are deleted before it plans memory, or with its last instance. */
static void test_spares_go(void **state)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct one used, spare;
		struct et_worker_threads *threads = threads_of(1);
		begin(&used, PROGRAM, 1, false);
		begin(&spare, PROGRAM, 2, false);
		assert_false(open(&used, et_direct_worker_threads(threads)));
		uint64_t n_with = test_ops->threads_bytes(threads);
		if (i == 0)
			end(&spare); /* another thread might free the payload: the worker keeps its spare runtimes */
		if (i == 2)
			close(&used);
		else
			run(&used);
		assert_true(test_ops->threads_bytes(threads) < n_with);
		if (i > 0) {
			assert_true(open(&spare, et_direct_worker_threads(threads)));
			run(&spare);
			end(&spare);
		}
		end(&used);
		assert_int_equal(test_ops->threads_bytes(threads), 0);
		test_ops->threads_free(threads);
	}
}

/* A Plan changes the dimension order of an argument after the payload was compiled. */
static void test_reordered_payload_is_not_taken_over(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct one transposed, straight;
		struct inferd_delegate_message message = { .struct_size = sizeof(message) };
		struct et_worker_threads *threads = threads_of(1);
		uint8_t order[INFERD_DELEGATE_MAX_DIMS];
		uint32_t arg = 0;
		begin(&transposed, PROGRAM, 1, true);
		begin(&straight, PROGRAM, 2, false);
		if (i == 0) /* the others are spare runtimes of their workers by then */
			assert_false(open(&straight, et_direct_worker_threads(threads)));
		assert_int_equal(et_xnnpack_delegate.preferred_order(transposed.model, arg, 2, order), 2);
		assert_int_equal(et_xnnpack_delegate.adopt_orders(transposed.model, &arg, 1, &message),
			INFERD_DELEGATE_OK);
		assert_true(open(&transposed, et_direct_worker_threads(threads)));
		end(&transposed);
		end(&straight);
		test_ops->threads_free(threads);
	}
}

static void test_never_taken(void **state)
{
	struct one all[3];
	uint64_t n_before = et_xnn_memory_held();
	for (uint32_t i = 0; i < 3; i++)
		begin(&all[i], PROGRAM, (float)i, false);
	assert_int_equal(et_xnn_memory_held(), n_before); /* it is no thread's */
	for (uint32_t i = 0; i < 3; i++)
		end(&all[(i + 1) % 3]);
	assert_int_equal(et_xnn_memory_held(), n_before);
}

static void *begin_elsewhere(void *arg)
{
	begin(arg, PROGRAM, 1, false);
	return NULL;
}

/* A worker reports the same bytes, whichever thread made its runtimes. */
static void test_runtimes_of_another_thread_are_counted(void **state)
{
	struct one one;
	pthread_t thread;
	struct et_worker_threads *threads = threads_of(1);
	assert_int_equal(pthread_create(&thread, NULL, begin_elsewhere, &one), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(open(&one, et_direct_worker_threads(threads)));
	uint64_t n_handed = test_ops->threads_bytes(threads);
	assert_true(n_handed > 0);
	close(&one);
	assert_int_equal(test_ops->threads_bytes(threads), 0);
	assert_true(open(&one, et_direct_worker_threads(threads)));
	uint64_t n_made = test_ops->threads_bytes(threads);
	assert_true(n_handed < n_made + n_made / 4 && n_made < n_handed + n_handed / 4);
	end(&one);
	test_ops->threads_free(threads);
}

static enum et_status make_one(struct et_xnn_prebuilt_cache *prebuilt_cache, struct et_xnn_prebuilt **ret)
{
	struct et_diag diag = { 0 };
	return et_xnn_prebuilt_cache_begin(ret, prebuilt_cache, 1, &diag);
}

/* While a thread makes runtimes in the workspace, no other thread uses it or waits for it. */
static void test_two_at_once(void **state)
{
	struct et_xnn_prebuilt_cache prebuilt_cache;
	struct et_xnn_prebuilt *prebuilt, *other;
	struct et_xnn_worker_spaces spaces;
	struct inferd_delegate_worker_threads *threads;
	struct et_diag diag = { 0 };
	xnn_runtime_t runtimes[1];
	et_xnn_prebuilt_cache_init(&prebuilt_cache, &test_allocator);
	et_xnn_worker_spaces_init(&spaces, &test_allocator, false);
	test_ok(et_xnn_threads_new(&threads, &spaces, 1, &diag), &diag);
	assert_int_equal(make_one(&prebuilt_cache, &prebuilt), ET_OK);
	uint64_t first = et_xnn_prebuilt_cache_end(&prebuilt_cache, prebuilt, true);
	assert_int_not_equal(first, 0);
	assert_int_equal(make_one(&prebuilt_cache, &prebuilt), ET_OK);
	uint64_t second = et_xnn_prebuilt_cache_end(&prebuilt_cache, prebuilt, true);

	assert_int_equal(make_one(&prebuilt_cache, &prebuilt), ET_OK);
	assert_int_equal(make_one(&prebuilt_cache, &other), ET_OK);
	assert_ptr_not_equal(prebuilt->workspace, other->workspace);
	assert_int_equal(et_xnn_prebuilt_cache_end(&prebuilt_cache, other, true), 0);
	assert_false(et_xnn_prebuilt_cache_take(&prebuilt_cache, first, threads, runtimes));
	et_xnn_prebuilt_cache_drop(&prebuilt_cache, second);
	assert_ptr_equal(prebuilt_cache.workspace, prebuilt->workspace);
	uint64_t third = et_xnn_prebuilt_cache_end(&prebuilt_cache, prebuilt, true);
	assert_false(et_xnn_prebuilt_cache_take(&prebuilt_cache, first, threads, runtimes));
	assert_false(et_xnn_prebuilt_cache_take(&prebuilt_cache, second, threads, runtimes));
	assert_non_null(prebuilt_cache.workspace);
	et_xnn_prebuilt_cache_drop(&prebuilt_cache, third);
	assert_null(prebuilt_cache.workspace);

	/* a failure leaves nothing behind */
	assert_int_equal(make_one(&prebuilt_cache, &prebuilt), ET_OK);
	assert_int_equal(et_xnn_prebuilt_cache_end(&prebuilt_cache, prebuilt, false), 0);
	assert_null(prebuilt_cache.workspace);
	et_xnn_threads_free(threads);
	et_xnn_worker_spaces_deinit(&spaces);
	et_xnn_prebuilt_cache_deinit(&prebuilt_cache);
}

/* Prebuild as if XNNPACK allocated @n_bytes for it. Returns the number. */
static uint64_t cache_large(struct et_xnn_prebuilt_cache *prebuilt_cache, size_t n_bytes, void **ret_bytes)
{
	struct et_xnn_prebuilt *prebuilt;
	assert_int_equal(make_one(prebuilt_cache, &prebuilt), ET_OK);
	*ret_bytes = et_xnn_allocator()->allocate(NULL, n_bytes);
	assert_non_null(*ret_bytes);
	return et_xnn_prebuilt_cache_end(prebuilt_cache, prebuilt, true);
}

/* Prebuilt runtimes are counted for no worker, so their memory has a limit. */
static void test_large_ones_are_not_cached(void **state)
{
	enum { TOO_LARGE = (16 << 20) + 1, HALF_OF_LIMIT = (8 << 20) + 1 };
	struct et_xnn_prebuilt_cache prebuilt_cache;
	void *bytes[5];
	uint64_t n_before = et_xnn_memory_held();
	et_xnn_prebuilt_cache_init(&prebuilt_cache, &test_allocator);
	assert_int_equal(cache_large(&prebuilt_cache, TOO_LARGE, &bytes[0]), 0);
	assert_null(prebuilt_cache.workspace);
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t number = cache_large(&prebuilt_cache, HALF_OF_LIMIT, &bytes[1 + 2 * i]);
		assert_int_not_equal(number, 0);
		assert_int_equal(cache_large(&prebuilt_cache, HALF_OF_LIMIT, &bytes[2 + 2 * i]), 0);
		et_xnn_prebuilt_cache_drop(&prebuilt_cache, number);
		assert_null(prebuilt_cache.workspace);
	}
	for (uint32_t i = 0; i < 5; i++)
		et_xnn_allocator()->deallocate(NULL, bytes[i]);
	assert_int_equal(et_xnn_memory_held(), n_before);
	et_xnn_prebuilt_cache_deinit(&prebuilt_cache);
}

struct traffic {
	pthread_t thread;
	uint8_t *bytes[2 * N_ROUNDS]; /* a Program's stay where they are as long as it lives */
};

static void *come_and_go(void *self)
{
	struct traffic *traffic = self;
	for (uint32_t i = 0; i < N_ROUNDS; i++) {
		struct one all[2];
		struct et_worker_threads *threads = threads_of(1);
		for (uint32_t j = 0; j < 2; j++) {
			begin(&all[j], PROGRAM, (float)(i + j), false);
			traffic->bytes[2 * i + j] = all[j].bytes;
			all[j].bytes = NULL;
		}
		for (uint32_t j = 0; j < 2; j++)
			open(&all[j], et_direct_worker_threads(threads));
		for (uint32_t j = 0; j < 4; j++)
			run(&all[j % 2]);
		for (uint32_t j = 0; j < 2; j++)
			end(&all[j]);
		test_ops->threads_free(threads);
	}
	return NULL;
}

/* Payloads of one Program are compiled, run and dropped on several threads; some are the same, and some runtimes are
 * taken over by one worker and asked for on another. */
static void test_many_threads(void **state)
{
	static struct traffic threads[3];
	struct et_diag diag = { 0 };
	struct et_backend_entry entry;
	test_ops->close(test_backend); /* the counting allocator is no allocator for several threads */
	test_ok(et_direct_open(&entry, &et_xnnpack_delegate, NULL, et_platform_allocator(), NULL, &diag), &diag);
	test_ops = entry.ops;
	test_backend = entry.backend;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i].thread, NULL, come_and_go, &threads[i]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 2 * N_ROUNDS; j++)
			free(threads[i].bytes[j]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(first_instances_make_nothing),
		TEST(packs_once),
		TEST(workers_that_cannot_take_them),
		TEST(spares_go),
		TEST(reordered_payload_is_not_taken_over),
		TEST(never_taken),
		TEST(runtimes_of_another_thread_are_counted),
		TEST(two_at_once),
		TEST(large_ones_are_not_cached),
		TEST(many_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
