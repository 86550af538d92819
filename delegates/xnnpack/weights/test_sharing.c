/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed weights that are shared: filters used in several ways, instances after the first, payloads that are
 * dropped, workers that run at the same time. */
#include "delegates/xnnpack/threads.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/weights/weights.h"
#include "runtime/platform/platform.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Two layers with the same filter, on inputs that are quantized differently. XNNPACK merges the input's zero point
 * into the packed weights, but its key does not have it; if the biases have different addresses, that does no harm. */
static void test_one_filter_packed_in_two_ways(void **state)
{
	for (int is_apart = 0; is_apart < 2; is_apart++) {
		struct make_xnn mk;
		struct arg args[4];
		struct et_diag diag = { 0 };
		test_make_two_ways(&mk, is_apart);
		test_fill_two_ways(args);
		test_ok(test_run_once(&mk, args, 4, &diag), &diag);
		test_check_two_ways(args, is_apart);
	}
}

/* Two layers with the same filter and different biases. The bias is not in the key if rows are quantized at run
 * time. */
static void test_one_filter_with_two_biases(void **state)
{
	struct make_xnn mk;
	struct arg args[3];
	struct et_diag diag = { 0 };
	test_make_two_biases(&mk);
	test_fill_two_biases(args);
	test_ok(test_run_once(&mk, args, 3, &diag), &diag);
	test_check_two_biases(args);
}

static struct et_xnn_use use_of(const void *kernel, size_t n_bytes, const struct et_xnn_signature *signature,
	const struct et_xnn_name *name)
{
	return (struct et_xnn_use){ .kernel = kernel, .n_bytes = n_bytes, .signature = signature, .name = name };
}

/* Each way of packing has a pointer of its own, the same one each time; and a file gets no more of them than its
 * size accounts for. */
static void test_one_filter_in_too_many_ways(void **state)
{
	enum { N_BYTES = 16 << 20, N_WAYS = 4 };
	struct et_diag diag = { 0 };
	struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
	struct et_xnn_signature signature = { 0 };
	struct et_xnn_name name = { .position = ET_XNN_NOWHERE };
	uint8_t *filter = calloc(1, N_BYTES);
	const void *ways[N_WAYS], *way;
	for (uint32_t i = 0; i < N_WAYS; i++) {
		signature.numbers[0] = i;
		struct et_xnn_use use = use_of(filter, N_BYTES, &signature, &name);
		test_ok(et_xnn_weights_claim(weights, &use, &ways[i], &diag), &diag);
		assert_true(i == 0 ? ways[0] == filter : ways[i] != ways[i - 1]);
		assert_memory_equal(ways[i], filter, N_BYTES);
	}
	for (uint32_t i = 0; i <= N_WAYS; i++) {
		signature.numbers[0] = i;
		struct et_xnn_use use = use_of(filter, N_BYTES, &signature, &name);
		enum et_status status = et_xnn_weights_claim(weights, &use, &way, &diag);
		if (i == N_WAYS)
			test_refused(status, ET_E_OUT_OF_RESOURCES, &diag, "64 times the program");
		else
			assert_ptr_equal(way, ways[i]);
	}
	/* Copies are counted, too; copies that exist already are not counted again. */
	const void *copy, *again;
	test_refused(et_xnn_weights_copy(weights, filter + 1, 1, &copy, &diag), ET_E_OUT_OF_RESOURCES, &diag,
		"64 times the program");
	struct inferd_delegate_payload source = { .n_bytes = 1 };
	et_xnn_weights_begin(weights, &source);
	et_xnn_weights_end(weights, &source);
	test_ok(et_xnn_weights_copy(weights, filter + 1, 64, &copy, &diag), &diag);
	test_ok(et_xnn_weights_copy(weights, filter + 1, 64, &again, &diag), &diag);
	assert_ptr_equal(copy, again);
	test_refused(et_xnn_weights_copy(weights, filter + 2, 1, &copy, &diag), ET_E_OUT_OF_RESOURCES, &diag,
		"64 times the program");
	et_xnn_weights_free(weights, NULL);
	free(filter);
}

static void pack_sevens(void *arg, void *to)
{
	memset(to, 7, *(const size_t *)arg);
}

struct dropped {
	const uint8_t *bytes;
	uint64_t n_bytes;
	unsigned n;
};

static void note_drop(void *self, const uint8_t *bytes, uint64_t n_bytes)
{
	struct dropped *dropped = self;
	*dropped = (struct dropped){ bytes, n_bytes, dropped->n + 1 };
}

/* If keys have the bias, uses with different biases share the filter's address, and their packed weights are told
 * apart. A use with the same bias, or one whose key may have no bias, gets a copy. */
static void test_one_filter_with_biases_apart(void **state)
{
	enum { N_BYTES = 1 << 20, N_USES = 5 };
	static const struct {
		int bias, zero_point; /* bias: which one */
		bool is_by_bias, is_shared;
	} uses[N_USES] = {
		{ 0, 0, true, true },
		{ 1, 1, true, true },
		{ 1, 2, true, false },
		{ 2, 3, false, false },
		{ 3, 4, true, true },
	};
	struct et_diag diag = { 0 };
	struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
	xnn_weights_cache_t provider = et_xnn_weights_provider(weights);
	struct et_xnn_name name = { .position = ET_XNN_NOWHERE };
	uint8_t *filter = calloc(1, N_BYTES);
	int32_t biases[4] = { 0 };
	const void *kernels[N_USES], *kernel;
	size_t places[N_USES];
	for (int i = 0; i < 2 * N_USES; i++) {
		const int at = i % N_USES;
		struct et_xnn_signature signature = { .bias = (uintptr_t)&biases[uses[at].bias] };
		signature.values[0].zero_point = uses[at].zero_point;
		struct et_xnn_use use = use_of(filter, N_BYTES, &signature, &name);
		use.is_by_bias = uses[at].is_by_bias;
		test_ok(et_xnn_weights_claim(weights, &use, &kernel, &diag), &diag);
		assert_int_equal(kernel == filter, uses[at].is_shared);
		struct xnn_weights_cache_look_up_key key = { .kernel = kernel, .bias = &biases[uses[at].bias] };
		size_t found = provider->look_up(provider->context, &key);
		if (i < N_USES) {
			assert_true(found == SIZE_MAX);
			kernels[at] = kernel;
			void *to = provider->reserve_space(provider->context, 64);
			memset(to, at, 64);
			places[at] = provider->look_up_or_insert(provider->context, &key, to, 64);
			assert_true(places[at] == (uintptr_t)to);
		} else {
			assert_ptr_equal(kernel, kernels[at]);
			assert_true(found == places[at]);
		}
	}
	struct et_xnn_weights_stats stats;
	et_xnn_weights_stats(weights, &stats);
	assert_in_range(stats.n_bytes, 2 * N_BYTES, 3 * N_BYTES - 1);
	et_xnn_weights_free(weights, NULL);

	/* A use whose key may have no bias does not share the filter with others. */
	weights = et_xnn_weights_new(&test_allocator, NULL, "");
	for (int i = 0; i < 2; i++) {
		struct et_xnn_signature signature = { .bias = (uintptr_t)&biases[i] };
		struct et_xnn_use use = use_of(filter, N_BYTES, &signature, &name);
		use.is_by_bias = i;
		test_ok(et_xnn_weights_claim(weights, &use, &kernel, &diag), &diag);
		assert_int_equal(kernel == filter, !i);
	}
	et_xnn_weights_free(weights, NULL);
	free(filter);
}

/* Each large filter's pages are let go as soon as an override or XNNPACK has packed it. Not let go are copies,
 * filters that are packed after the compilation, and filters that were packed before. */
static void test_packed_is_released(void **state)
{
	enum { N = 1 << 17 };
	struct et_diag diag = { 0 };
	struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
	xnn_weights_cache_t provider = et_xnn_weights_provider(weights);
	struct dropped dropped = { 0 };
	struct inferd_delegate_payload other = { .n_bytes = N },
				       source = { .n_bytes = 4 * N, .self = &dropped, .drop = note_drop };
	struct et_xnn_name name = { .position = ET_XNN_NOWHERE };
	uint8_t *file = calloc(4, N);
	size_t n = N;
	const void *kernels[5];
	for (uint32_t i = 0; i < 5; i++) {
		struct et_xnn_signature signature = { .numbers = { i } };
		struct et_xnn_use use = use_of(file + i % 4 * N, i == 3 ? 64 : N, &signature, &name);
		use.is_mapped = i != 2;
		test_ok(et_xnn_weights_claim(weights, &use, &kernels[i], &diag), &diag);
	}
	assert_ptr_not_equal(kernels[4], kernels[0]); /* a copy, another way of packing the same */

	et_xnn_weights_begin(weights, &source);
	assert_non_null(et_xnn_weights_pack(weights, kernels[0], NULL, n, pack_sevens, &n));
	assert_true(dropped.n == 1 && dropped.bytes == file && dropped.n_bytes == N);
	assert_non_null(et_xnn_weights_pack(weights, kernels[0], NULL, n, pack_sevens, &n));
	for (uint32_t i = 2; i < 5; i++)
		assert_non_null(et_xnn_weights_pack(weights, kernels[i], NULL, n, pack_sevens, &n));
	assert_int_equal(dropped.n, 1);
	struct xnn_weights_cache_look_up_key key = { .kernel = kernels[1] };
	void *to = provider->reserve_space(provider->context, N);
	memset(to, 1, N);
	assert_true(provider->look_up_or_insert(provider->context, &key, to, N) == (uintptr_t)to);
	assert_true(dropped.n == 2 && dropped.bytes == file + N && dropped.n_bytes == N);

	et_xnn_weights_end(weights, &other); /* not the one that began last */
	key.seed = 1;
	assert_non_null(to = provider->reserve_space(provider->context, N));
	memset(to, 2, N);
	provider->look_up_or_insert(provider->context, &key, to, N);
	assert_int_equal(dropped.n, 3);
	et_xnn_weights_end(weights, &source);
	key.seed = 2;
	assert_non_null(to = provider->reserve_space(provider->context, N));
	memset(to, 3, N);
	provider->look_up_or_insert(provider->context, &key, to, N);
	assert_int_equal(dropped.n, 3);
	et_xnn_weights_free(weights, NULL);
	free(file);
}

struct counting {
	unsigned n_pieces; /* in whole pages */
	size_t n_most;     /* that there is in one piece */
};

static void *count_pieces(void *self, size_t n_bytes, size_t align)
{
	struct counting *counting = self;
	if (align < 4096)
		return test_allocator.alloc(test_allocator.self, n_bytes, align);
	if (n_bytes > counting->n_most)
		return NULL;
	counting->n_pieces++;
	return test_allocator.alloc(test_allocator.self, n_bytes, align);
}

static void free_piece(void *self, void *ptr, size_t n_bytes)
{
	test_allocator.free(test_allocator.self, ptr, n_bytes);
}

/* No two filters fit into the smallest slab, yet little of the larger slabs stays empty; there are @n_pieces slabs.
 * The @n_behind more bytes of the file need no packing: memory taken for them is not counted. */
static void fill_memory(uint64_t n_behind, size_t n_most, unsigned n_pieces)
{
	enum { N = 5 << 19, N_FILTERS = 12, ALL = N * N_FILTERS };
	struct et_diag diag = { 0 };
	struct counting counting = { .n_most = n_most };
	const struct et_allocator allocator = { &counting, count_pieces, free_piece };
	struct et_xnn_weights *weights = et_xnn_weights_new(&allocator, NULL, "");
	uint8_t *file = malloc(ALL);
	struct inferd_delegate_payload source = { .n_bytes = ALL + n_behind };
	size_t n = N;
	et_xnn_weights_begin(weights, &source);
	for (uint32_t i = 0; i < N_FILTERS; i++) {
		struct et_xnn_signature signature = { 0 };
		struct et_xnn_name name = { .position = (uint64_t)i * N };
		struct et_xnn_use use = use_of(file + name.position, N, &signature, &name);
		const void *kernel;
		test_ok(et_xnn_weights_claim(weights, &use, &kernel, &diag), &diag);
		assert_non_null(et_xnn_weights_pack(weights, kernel, NULL, n, pack_sevens, &n));
	}
	struct et_xnn_weights_stats stats;
	et_xnn_weights_stats(weights, &stats);
	assert_in_range(stats.n_bytes, ALL, ALL + ALL / 8);
	assert_int_equal(counting.n_pieces, n_pieces);
	et_xnn_weights_end(weights, &source);
	et_xnn_weights_free(weights, NULL);
	free(file);
}

static void test_memory_is_filled(void **state)
{
	fill_memory(0, SIZE_MAX, 2); /* the last has one of its own: what lies before each comes on top of the file */
	fill_memory((uint64_t)1 << 40, SIZE_MAX, 1);
	fill_memory((uint64_t)1 << 40, 4 << 20, 10); /* each has one of its own, but for the first two */
}

/* XNNPACK's seeds follow from numbers in the file: whatever its seed, it does not get weights that an override
 * packed. */
static void test_xnnpack_gets_no_override_s_weights(void **state)
{
	struct et_diag diag = { 0 };
	struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
	xnn_weights_cache_t provider = et_xnn_weights_provider(weights);
	struct et_xnn_signature signature = { 0 };
	struct et_xnn_name name = { .position = ET_XNN_NOWHERE };
	float filter[16] = { 0 };
	size_t n_bytes = sizeof(filter);
	const void *kernel;
	struct et_xnn_use use = use_of(filter, n_bytes, &signature, &name);
	test_ok(et_xnn_weights_claim(weights, &use, &kernel, &diag), &diag);
	const void *ours = et_xnn_weights_pack(weights, kernel, NULL, n_bytes, pack_sevens, &n_bytes);
	assert_non_null(ours);
	struct xnn_weights_cache_look_up_key key = { .kernel = kernel };
	for (uint32_t i = 0; i < 1 << 20; i++) {
		key.seed = i * 0x1001;
		assert_true(provider->look_up(provider->context, &key) == SIZE_MAX);
	}
	key.seed = 0;
	void *place = provider->reserve_space(provider->context, n_bytes);
	memset(place, 8, n_bytes);
	size_t theirs = provider->look_up_or_insert(provider->context, &key, place, n_bytes);
	assert_true(theirs == (uintptr_t)place);
	assert_true(provider->look_up(provider->context, &key) == theirs);
	assert_ptr_equal(et_xnn_weights_pack(weights, kernel, NULL, n_bytes, pack_sevens, &n_bytes), ours);
	et_xnn_weights_free(weights, NULL);
}

/* An override does not get weights of another length that another override packed from the same filter. */
static void test_sizes_are_apart(void **state)
{
	struct et_diag diag = { 0 };
	struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
	struct et_xnn_signature signature = { 0 };
	struct et_xnn_name name = { .position = ET_XNN_NOWHERE };
	float filter[16] = { 0 };
	const void *kernel, *ours[2];
	struct et_xnn_use use = use_of(filter, sizeof(filter), &signature, &name);
	test_ok(et_xnn_weights_claim(weights, &use, &kernel, &diag), &diag);
	for (uint32_t i = 0; i < 4; i++) {
		size_t n_bytes = i % 2 ? 256 : 64;
		const void *found = et_xnn_weights_pack(weights, kernel, NULL, n_bytes, pack_sevens, &n_bytes);
		if (i < 2)
			ours[i] = found;
		assert_ptr_equal(found, ours[i % 2]);
	}
	assert_ptr_not_equal(ours[0], ours[1]);
	et_xnn_weights_free(weights, NULL);
}

/* Constants in named data account for themselves, but not for transposed copies of them: each shape is another copy. */
static void test_transposed_in_too_many_ways(void **state)
{
	enum { N_BYTES = 16 << 20, N_WAYS = 8 };
	struct et_diag diag = { 0 };
	struct et_xnn_name name = { .position = ET_XNN_NOWHERE };
	for (uint32_t is_transposed = 0; is_transposed < 2; is_transposed++) {
		struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
		struct et_xnn_signature signature = { .remade = is_transposed };
		uint8_t *filters[N_WAYS];
		for (uint32_t i = 0; i < N_WAYS; i++) {
			const void *kernel;
			filters[i] = malloc(1);
			struct et_xnn_use use = use_of(filters[i], N_BYTES, &signature, &name);
			use.is_beside = true;
			enum et_status status = et_xnn_weights_claim(weights, &use, &kernel, &diag);
			if (is_transposed && i >= 4) /* 64 MiB go unquestioned */
				test_refused(status, ET_E_OUT_OF_RESOURCES, &diag, "64 times the program");
			else
				test_ok(status, &diag);
		}
		for (uint32_t i = 0; i < N_WAYS; i++)
			free(filters[i]);
		et_xnn_weights_free(weights, NULL);
	}
}

/* Weights that were packed from an unclaimed kernel, such as XNNPACK's own conversion of one, are found by their
 * bytes: all bytes are compared, with all such blocks. */
static void test_unclaimed_kernels_are_found_by_bytes(void **state)
{
	enum { N_KERNELS = 3000, N_FLOATS = 9 };
	struct et_xnn_weights *weights = et_xnn_weights_new(&test_allocator, NULL, "");
	xnn_weights_cache_t provider = et_xnn_weights_provider(weights);
	struct et_xnn_weights_stats stats;
	size_t places[N_KERNELS];
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < N_KERNELS; i++) {
			float kernel[N_FLOATS] = { 0 }; /* one place for all of them, as XNNPACK's are */
			struct xnn_weights_cache_look_up_key key = { .kernel = kernel };
			kernel[i % N_FLOATS] = (float)(i / N_FLOATS + 1);
			void *to = provider->reserve_space(provider->context, sizeof kernel);
			assert_non_null(to);
			memcpy(to, kernel, sizeof kernel);
			size_t at = provider->look_up_or_insert(provider->context, &key, to, sizeof kernel);
			assert_true(at == (round ? places[i] : (uintptr_t)to));
			assert_memory_equal((const void *)(uintptr_t)at, kernel, sizeof kernel);
			places[i] = at;
		}
	}
	et_xnn_weights_stats(weights, &stats);
	assert_int_equal(stats.n_packed, N_KERNELS);
	/* the same bytes and more behind them */
	float longer[N_FLOATS + 1] = { 1 };
	struct xnn_weights_cache_look_up_key key = { .kernel = longer };
	void *to = provider->reserve_space(provider->context, sizeof longer);
	memcpy(to, longer, sizeof longer);
	assert_true(provider->look_up_or_insert(provider->context, &key, to, sizeof longer) == (uintptr_t)to);
	et_xnn_weights_free(weights, NULL);
}

/* XNNPACK aborts over nodes whose output is not read: they are removed. */
static void test_dead_nodes(void **state)
{
	struct make_xnn mk;
	struct arg args[2];
	struct et_diag diag = { 0 };
	mx_init(&mk);
	uint32_t in = test_plain(&mk, 1, 0, 1, 2), out = test_plain(&mk, 0, 2, 1, 2);
	uint32_t dead[] = { test_plain(&mk, 0, 0, 1, 2), test_plain(&mk, 0, 0, 1, 2), test_plain(&mk, 0, 0, 1, 2) };
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { dead[0] } });
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { dead[0] }, .outputs = { dead[1] } });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { in, in }, .outputs = { out } });
	mx_node(&mk, MX_ADD, &(struct et_xnn_node){ .inputs = { dead[0], dead[1] }, .outputs = { dead[2] } });
	ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 2);
	ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 2);
	args[0].f32[0] = 3;
	test_ok(test_run_once(&mk, args, 2, &diag), &diag);
	test_near(args[1].f32[0], 6, 0);
}

static void test_second_instance_packs_nothing(void **state)
{
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *thread_sets[2];
	struct et_instance *instances[2];
	struct et_xnn_weights_stats before, after;
	size_t n_bytes;
	test_make_linear(&mk, ET_XNN_QCINT8, false);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
	et_xnnpack_weights_stats(et_direct_model(model), &before);
	assert_int_equal(before.n_packings, 1);
	assert_int_equal(before.n_packed, 1);
	assert_true(info.n_bytes >= N_IN * N_OUT);
	for (int i = 0; i < 2; i++) {
		test_ok(test_ops->threads_new(test_backend, 0, 1, &thread_sets[i], &diag), &diag);
		test_ok(test_ops->instance_new(model, thread_sets[i], &instances[i], &diag), &diag);
	}
	et_xnnpack_weights_stats(et_direct_model(model), &after);
	assert_memory_equal(&before, &after, sizeof(before));
	for (int i = 0; i < 2; i++) {
		test_ops->instance_free(instances[i]);
		test_ops->threads_free(thread_sets[i]);
	}
	test_ops->model_free(model);

	/* depthwise convolutions are packed anew each time, and thrown away */
	free(bytes);
	bytes = test_make_mixture(&n_bytes);
	test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
	et_xnnpack_weights_stats(et_direct_model(model), &before);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &thread_sets[0], &diag), &diag);
	test_run_mixture(model, thread_sets[0], 0);
	et_xnnpack_weights_stats(et_direct_model(model), &after);
	assert_int_equal(after.n_packed, before.n_packed);
	assert_int_equal(after.n_bytes, before.n_bytes);
	test_ops->threads_free(thread_sets[0]);
	test_ops->model_free(model);
	free(bytes);
}

static void test_payload_may_go(void **state)
{
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	size_t n_bytes, page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *bytes = test_make_mixture(&n_bytes);
	size_t n_mapped = (n_bytes + ET_SOURCE_PADDING + page - 1) / page * page;
	void *mapping = mmap(NULL, n_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mapping, MAP_FAILED);
	memcpy(mapping, bytes, n_bytes);
	free(bytes);
	test_ok(test_compile(mapping, n_bytes, 2, &model, &info, &diag), &diag);
	assert_true(info.drops_payload);
	assert_int_equal(mprotect(mapping, n_mapped, PROT_NONE), 0);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_run_mixture(model, threads, 0);
	test_run_mixture(model, threads, 1);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	munmap(mapping, n_mapped);
}

struct worker {
	pthread_t thread;
	struct et_model *model;
	uint32_t n_threads;
	float first;
};

static void *work(void *self)
{
	struct worker *worker = self;
	struct et_diag diag = { 0 };
	struct et_worker_threads *threads;
	test_ok(test_ops->threads_new(test_backend, 0, worker->n_threads, &threads, &diag), &diag);
	for (int i = 0; i < 20; i++)
		test_run_mixture(worker->model, threads, worker->first + (float)i);
	test_ops->threads_free(threads);
	return NULL;
}

/* The counting allocator is for one thread; et_platform_allocator for any. */
static void open_for_threads(void)
{
	struct et_diag diag = { 0 };
	struct et_backend_entry entry;
	test_ops->close(test_backend);
	test_ok(et_direct_open(&entry, &et_xnnpack_delegate, NULL, et_platform_allocator(), NULL, &diag), &diag);
	test_ops = entry.ops;
	test_backend = entry.backend;
}

static void test_two_workers_at_once(void **state)
{
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	open_for_threads();
	test_ok(test_compile(bytes, n_bytes, 2, &model, &info, &diag), &diag);
	struct worker workers[2] = { { .model = model, .n_threads = 1 },
		{ .model = model, .n_threads = 2, .first = 3 } };
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
	test_ops->model_free(model);
	free(bytes);
}

static void *load(void *self)
{
	struct worker *worker = self;
	struct et_diag diag = { 0 };
	struct et_model_info info;
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	for (int i = 0; i < 10; i++) {
		test_ok(test_compile(bytes, n_bytes, 2, &worker->model, &info, &diag), &diag);
		work(worker);
		test_ops->model_free(worker->model);
	}
	free(bytes);
	return NULL;
}

/* Programs come and go on several threads. */
static void test_programs_at_once(void **state)
{
	struct worker workers[3] = { { .n_threads = 1 }, { .n_threads = 1 }, { .n_threads = 1 } };
	open_for_threads();
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, load, &workers[i]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
}

static uint64_t told_by(struct et_worker_threads *const *thread_sets, uint32_t n)
{
	uint64_t n_bytes = 0;
	for (uint32_t i = 0; i < n; i++)
		n_bytes += test_ops->threads_bytes(thread_sets[i]);
	return n_bytes;
}

/* Two widths on one worker's thread take turns in one workspace, which the second payload makes larger. Together
 * they report all bytes of it, and nothing when it is gone. */
static void test_one_workspace_a_thread(void **state)
{
	uint64_t last = 0;
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	struct et_model *mixture, *linear;
	struct et_model_info info;
	struct et_worker_threads *thread_sets[2];
	struct et_instance *instances[2];
	struct arg args[2];
	size_t n_mixture, n_linear;
	uint8_t *mixture_bytes = test_make_mixture(&n_mixture);
	test_make_linear(&mk, ET_XNN_QCINT8, false); /* quantizes its rows into the workspace */
	uint8_t *linear_bytes = mx_finish(&mk, &n_linear);
	test_ok(test_compile(mixture_bytes, n_mixture, 2, &mixture, &info, &diag), &diag);
	test_ok(test_compile(linear_bytes, n_linear, 2, &linear, &info, &diag), &diag);
	for (uint32_t i = 0; i < 2; i++) {
		test_ok(test_ops->threads_new(test_backend, 0, 1 + i, &thread_sets[i], &diag), &diag);
		test_ok(test_ops->instance_new(linear, thread_sets[i], &instances[i], &diag), &diag);
		assert_true(told_by(thread_sets, 1 + i) > last);
		last = told_by(thread_sets, 1 + i);
	}
	assert_ptr_equal(et_direct_worker_threads(thread_sets[0])->space,
		et_direct_worker_threads(thread_sets[1])->space);
	ARG(&args[0], ET_FLOAT32, ET_STATIC, N_ROWS, N_IN);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 2; i++) {
			test_run_mixture(mixture, thread_sets[i], (float)round);
			ARG(&args[1], ET_FLOAT32, ET_STATIC, N_ROWS, N_OUT);
			test_fill_inputs(args[0].f32);
			test_ok(test_ops->enqueue(instances[i],
					(struct et_evalue *[]){ &args[0].value, &args[1].value }, NULL, &diag),
				&diag);
			test_check_linear(args[0].f32, args[1].f32, N_ROWS, 0.15f);
		}
	}
	for (uint32_t i = 0; i < 2; i++)
		test_ops->instance_free(instances[i]);
	assert_int_equal(told_by(thread_sets, 2), 0);
	for (uint32_t i = 0; i < 2; i++)
		test_ops->threads_free(thread_sets[i]);
	test_ops->model_free(mixture);
	test_ops->model_free(linear);
	free(mixture_bytes);
	free(linear_bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_filter_packed_in_two_ways),
		TEST(one_filter_with_two_biases),
		TEST(one_filter_in_too_many_ways),
		TEST(one_filter_with_biases_apart),
		TEST(transposed_in_too_many_ways),
		TEST(xnnpack_gets_no_override_s_weights),
		TEST(sizes_are_apart),
		TEST(packed_is_released),
		TEST(memory_is_filled),
		TEST(unclaimed_kernels_are_found_by_bytes),
		TEST(dead_nodes),
		TEST(second_instance_packs_nothing),
		TEST(payload_may_go),
		TEST(two_workers_at_once),
		TEST(programs_at_once),
		TEST(one_workspace_a_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
