/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed weights that a store has: the second load packs nothing and computes the same. */
#include "delegates/xnnpack/ukernels/gemm.h"
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/weights/packed_file.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/weights/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A store in memory, for one program. */
struct memory_store {
	struct et_store table;
	char key[ET_STORE_MAX_KEY + 1];
	uint8_t *bytes;
	size_t n_bytes;
	unsigned n_persisted, n_found, n_released;
	bool is_full;
};

static enum et_status memory_find(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes,
	void **ret_handle)
{
	struct memory_store *store = self;
	if (!store->bytes || strcmp(store->key, key) != 0)
		return ET_E_NOT_FOUND;
	store->n_found++;
	*ret_bytes = store->bytes;
	*ret_n_bytes = store->n_bytes;
	*ret_handle = store;
	return ET_OK;
}

static void memory_release(void *self, void *handle)
{
	struct memory_store *store = self;
	assert_ptr_equal(handle, store);
	store->n_released++;
}

static enum et_status memory_keep(void *self, const char *key, const struct et_store_piece *pieces, size_t n_pieces,
	struct et_diag *diag)
{
	struct memory_store *store = self;
	size_t n = 0;
	if (store->is_full)
		return et_fail(diag, ET_E_ACCESS_FAILED, "it is full");
	for (size_t i = 0; i < n_pieces; i++)
		n += pieces[i].n_bytes;
	uint8_t *bytes = aligned_alloc(ET_STORE_ALIGNMENT,
		(n + ET_STORE_PADDING + ET_STORE_ALIGNMENT - 1) & ~(size_t)(ET_STORE_ALIGNMENT - 1));
	assert_non_null(bytes);
	store->n_bytes = n;
	n = 0;
	for (size_t i = 0; i < n_pieces; i++) {
		if (pieces[i].n_bytes)
			memcpy(bytes + n, pieces[i].bytes, pieces[i].n_bytes);
		n += pieces[i].n_bytes;
	}
	memset(bytes + n, 0, ET_STORE_PADDING);
	free(store->bytes);
	store->bytes = bytes;
	snprintf(store->key, sizeof(store->key), "%s", key);
	store->n_persisted++;
	return ET_OK;
}

static struct memory_store memory_store(void)
{
	return (struct memory_store){
		.table = { .find = memory_find, .release = memory_release, .keep = memory_keep },
	};
}

static struct et_model *compile(struct memory_store *store, const uint8_t *bytes, size_t n_bytes, uint32_t n_args)
{
	struct et_diag diag = { 0 };
	struct et_model *model;
	struct et_model_info info;
	store->table.self = store;
	struct et_payload payload = {
		.bytes = bytes, .n_bytes = n_bytes, .method = "forward", .n_args = n_args, .store = &store->table
	};
	test_ok(test_ops->compile(test_backend, &payload, &model, &info, &diag), &diag);
	return model;
}

/* Load, run, persist, unload; returns how much was packed. @is_moved: at another address. */
static struct et_xnn_weights_stats load_mixture(struct memory_store *store, const uint8_t *bytes, size_t n_bytes,
	bool is_moved)
{
	struct et_diag diag = { 0 };
	struct et_worker_threads *threads;
	struct et_xnn_weights_stats stats;
	uint8_t *copy = aligned_alloc(4096, 8192 + (n_bytes + 4095) / 4096 * 4096);
	assert_non_null(copy);
	uint8_t *at = copy + (is_moved ? 4096 : 0);
	memset(copy, 0, 8192 + (n_bytes + 4095) / 4096 * 4096);
	memcpy(at, bytes, n_bytes);
	struct et_model *model = compile(store, at, n_bytes, 2);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_run_mixture(model, threads, 1);
	test_run_mixture(model, threads, 2);
	et_xnnpack_weights_stats(et_direct_model(model), &stats);
	enum et_status kept = test_ops->keep(model, &diag);
	assert_int_equal(kept, store->is_full ? ET_E_INTERNAL : ET_OK);
	test_run_mixture(model, threads, 3);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	free(copy);
	return stats;
}

static void test_second_load_packs_nothing(void **state)
{
	struct memory_store store = memory_store();
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	struct et_xnn_weights_stats first = load_mixture(&store, bytes, n_bytes, false);
	assert_true(first.n_packed > 0);
	assert_int_equal(first.n_mapped, 0);
	assert_int_equal(store.n_persisted, 1);
	for (int i = 0; i < 2; i++) {
		struct et_xnn_weights_stats again = load_mixture(&store, bytes, n_bytes, i == 0);
		assert_int_equal(again.n_packed, 0);
		assert_true(again.n_mapped > 0);
		assert_true(again.n_bytes < first.n_bytes);
	}
	assert_int_equal(store.n_persisted, 1); /* nothing was new */
	assert_int_equal(store.n_found, 2);
	assert_int_equal(store.n_released, 2);

	/* without room it works as if there were no store */
	free(store.bytes);
	store.bytes = NULL;
	store.is_full = true;
	first = load_mixture(&store, bytes, n_bytes, false);
	assert_true(first.n_packed > 0);
	free(bytes);
}

static void test_broken_bodies(void **state)
{
	struct memory_store store = memory_store();
	size_t n_bytes;
	uint8_t *bytes = test_make_mixture(&n_bytes);
	load_mixture(&store, bytes, n_bytes, false);
	size_t n_persisted = store.n_bytes;
	struct et_xnn_packed packed;
	assert_true(et_xnn_packed_open(&packed, store.bytes, n_persisted));
	assert_true(packed.n_rows >= 1);
	assert_int_equal(packed.n_models, 1);

	/* a file that ends anywhere within its tables or its last row */
	size_t last = 0, n_tables = (size_t)((const uint8_t *)(packed.models + 1) - store.bytes);
	for (uint32_t i = 0; i < packed.n_rows; i++)
		last = packed.rows[i].offset + packed.rows[i].n_bytes > last
			       ? packed.rows[i].offset + packed.rows[i].n_bytes
			       : last;
	for (size_t n = 0; n < n_tables; n++)
		assert_false(et_xnn_packed_open(&packed, store.bytes, n));
	assert_false(et_xnn_packed_open(&packed, store.bytes, last - 1));
	assert_true(et_xnn_packed_open(&packed, store.bytes, last));

	/* numbers that point elsewhere */
	struct et_xnn_row *row = (struct et_xnn_row *)(void *)(store.bytes + sizeof(struct et_xnn_packed_header));
	struct et_xnn_row good = *row;
	static const uint64_t offsets[] = { 0, 64, UINT64_MAX - 63, UINT64_C(1) << 63 };
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		row->offset = offsets[i];
		assert_false(et_xnn_packed_open(&packed, store.bytes, n_persisted));
	}
	row->offset = good.offset + 4;
	assert_false(et_xnn_packed_open(&packed, store.bytes, n_persisted));
	*row = good;
	row->n_bytes = UINT64_MAX;
	assert_false(et_xnn_packed_open(&packed, store.bytes, n_persisted));
	*row = good;

	/* a name with one bit wrong is another name: packed anew, with the right result */
	uint8_t *name = (uint8_t *)&row->name;
	for (size_t i = 0; i < sizeof(row->name); i += 5) {
		struct memory_store copy = memory_store();
		name[i] ^= 0x10;
		struct et_store_piece piece = { store.bytes, n_persisted };
		assert_int_equal(memory_keep(&copy, store.key, &piece, 1, NULL), ET_OK);
		struct et_xnn_weights_stats stats = load_mixture(&copy, bytes, n_bytes, false);
		assert_true(stats.n_packed > 0);
		assert_int_equal(copy.n_persisted, 2);
		name[i] ^= 0x10;
		free(copy.bytes);
	}
	/* so is an override's row of another length than it needs */
	for (uint32_t i = 0; i < packed.n_rows; i++) {
		struct memory_store copy = memory_store();
		struct et_store_piece piece = { store.bytes, n_persisted };
		if (!(row[i].flags & ET_XNN_ROW_OVERRIDE))
			continue;
		row[i].n_bytes -= 4;
		assert_int_equal(memory_keep(&copy, store.key, &piece, 1, NULL), ET_OK);
		struct et_xnn_weights_stats stats = load_mixture(&copy, bytes, n_bytes, false);
		assert_true(stats.n_packed > 0);
		row[i].n_bytes += 4;
		free(copy.bytes);
	}
	/* so is a header with a wrong bit */
	for (size_t i = 0; i < sizeof(struct et_xnn_packed_header); i++) {
		struct memory_store copy = memory_store();
		struct et_store_piece piece = { store.bytes, n_persisted };
		assert_int_equal(memory_keep(&copy, store.key, &piece, 1, NULL), ET_OK);
		copy.bytes[i] ^= 0x80;
		load_mixture(&copy, bytes, n_bytes, false);
		free(copy.bytes);
	}
	free(store.bytes);
	free(bytes);
}

/* Load, run, persist and unload a payload that packs one filter in two ways: the file has two rows. */
static void load_two_ways(struct memory_store *store, const uint8_t *bytes, size_t n_bytes, struct arg *args,
	uint32_t n_args)
{
	struct et_evalue *values[4];
	struct et_diag diag = { 0 };
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct et_xnn_weights_stats stats;
	for (uint32_t i = 0; i < n_args; i++)
		values[i] = &args[i].value;
	struct et_model *model = compile(store, bytes, n_bytes, n_args);
	test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
	test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
	test_ok(test_ops->enqueue(instance, values, NULL, &diag), &diag);
	et_xnnpack_weights_stats(et_direct_model(model), &stats);
	assert_int_equal(stats.n_packed, store->n_persisted ? 0 : 2);
	test_ok(test_ops->keep(model, &diag), &diag);
	test_ops->instance_free(instance);
	test_ops->threads_free(threads);
	test_ops->model_free(model);
	assert_int_equal(store->n_persisted, 1);
}

/* One filter with two biases, for rows quantized at run time. */
static void test_one_filter_twice(void **state)
{
	struct memory_store store = memory_store();
	struct make_xnn mk;
	struct arg args[3];
	size_t n_bytes;
	test_make_two_biases(&mk);
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	for (int load = 0; load < 3; load++) {
		test_fill_two_biases(args);
		load_two_ways(&store, bytes, n_bytes, args, 3);
		test_check_two_biases(args);
	}
	free(store.bytes);
	free(bytes);
}

/* One filter for inputs with two zero points, with one bias or two. */
static void test_one_filter_for_two_inputs(void **state)
{
	for (int is_apart = 0; is_apart < 2; is_apart++) {
		struct memory_store store = memory_store();
		struct make_xnn mk;
		struct arg args[4];
		size_t n_bytes;
		test_make_two_ways(&mk, is_apart);
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		for (int load = 0; load < 3; load++) {
			test_fill_two_ways(args);
			load_two_ways(&store, bytes, n_bytes, args, 4);
			test_check_two_ways(args, is_apart);
		}
		free(store.bytes);
		free(bytes);
	}
}

enum { OTHERWISE = 4 }; /* channels */

/* Two fp16 convolutions [1,1,1,2] -> [1,1,1,4] with one filter and one address of the bias: the first one reads
 * @bias as fp32, the second one as fp16. */
static void make_otherwise(struct make_xnn *mk, const float *bias)
{
	float filter[OTHERWISE * 2];
	for (int i = 0; i < OTHERWISE * 2; i++)
		filter[i] = (float)(i % 3);
	mx_init(mk);
	uint32_t constants[] = { mx_constant(mk, filter, sizeof(filter)),
		mx_constant(mk, bias, OTHERWISE * sizeof(*bias)) };
	uint32_t in = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP16, MX_DIMS(1, 1, 1, 2), .input = 1 });
	uint32_t weights = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(OTHERWISE, 1, 1, 2), .constant = constants[0] });
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t beside = mx_value(mk,
			&(struct mx_value){
				.type = i ? ET_XNN_FP16 : ET_XNN_FP32, MX_DIMS(OTHERWISE), .constant = constants[1] });
		uint32_t out = mx_value(mk,
			&(struct mx_value){ .type = ET_XNN_FP16, MX_DIMS(1, 1, 1, OTHERWISE), .output = 2 + i });
		mx_node(mk, MX_CONV,
			&(struct et_xnn_node){ .inputs = { in, weights, beside },
				.outputs = { out },
				.numbers = { 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, OTHERWISE, 1 } });
	}
}

/* Two biases at the same place that are widened in two ways are different. */
static void test_one_bias_in_two_ways(void **state)
{
	const float bias[OTHERWISE] = { 1.5f, -2.25f, 3.75f, 100.5f };
	struct memory_store store = memory_store();
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	make_otherwise(&mk, bias);
	size_t n_bytes;
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	for (int load = 0; load < 2; load++) {
		struct arg args[3];
		struct et_worker_threads *threads;
		struct et_instance *instance;
		ARG(&args[0], ET_FLOAT16, ET_STATIC, 1, 1, 1, 2);
		ARG(&args[1], ET_FLOAT16, ET_STATIC, 1, 1, 1, OTHERWISE);
		ARG(&args[2], ET_FLOAT16, ET_STATIC, 1, 1, 1, OTHERWISE);
		args[0].f16[0] = args[0].f16[1] = 0; /* so that the biases come out */
		struct et_model *model = compile(&store, bytes, n_bytes, 3);
		test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
		test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
		test_ok(test_ops->enqueue(instance,
				(struct et_evalue *[]){ &args[0].value, &args[1].value, &args[2].value }, NULL, &diag),
			&diag);
		for (int i = 0; i < OTHERWISE; i++)
			assert_int_equal(args[1].f16[i], et_float_to_fp16(bias[i]));
		assert_memory_equal(args[2].f16, bias, OTHERWISE * sizeof(uint16_t));
		test_ok(test_ops->keep(model, &diag), &diag);
		test_ops->instance_free(instance);
		test_ops->threads_free(threads);
		test_ops->model_free(model);
	}
	free(store.bytes);
	free(bytes);
}

/* [1,3,3,2] -> [1,2,2,6]: each channel makes three. Two such nodes on one filter, the second with a bias. */
static void make_multiplied(struct make_xnn *mk)
{
	float filter[4 * 6], bias[6] = { 1, 2, 3, 4, 5, 6 };
	for (int i = 0; i < 24; i++)
		filter[i] = (float)(i % 7) - 3;
	mx_init(mk);
	uint32_t constants[] = { mx_constant(mk, filter, sizeof(filter)), mx_constant(mk, bias, sizeof(bias)) };
	uint32_t in = mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 3, 3, 2), .input = 1 });
	uint32_t weights = mx_value(mk,
		&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 6), .constant = constants[0] });
	uint32_t biases[] = { ET_XNN_NONE,
		mx_value(mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(6), .constant = constants[1] }) };
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t out = mx_value(mk,
			&(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 2, 2, 6), .output = 2 + i });
		mx_node(mk, MX_DEPTHWISE,
			&(struct et_xnn_node){ .inputs = { in, weights, biases[i] },
				.outputs = { out },
				.numbers = { 0, 0, 0, 0, 2, 2, 1, 1, 1, 1, 1, 3, 2 } });
	}
}

static void check_multiplied(const struct arg args[3])
{
	for (uint32_t at = 0; at < 4; at++) {
		for (uint32_t o = 0; o < 6; o++) {
			float sum = 0;
			for (uint32_t k = 0; k < 4; k++)
				sum += args[0].f32[((at / 2 + k / 2) * 3 + at % 2 + k % 2) * 2 + o / 3] *
				       ((float)((k * 6 + o) % 7) - 3);
			test_near(args[1].f32[at * 6 + o], sum, 1e-4f);
			test_near(args[2].f32[at * 6 + o], sum + (float)o + 1, 1e-4f);
		}
	}
}

/* A depthwise convolution with several outputs for each channel is packed once, and not at all if that was
 * persisted. */
static void test_multiplied_channels(void **state)
{
	struct memory_store store = memory_store();
	struct make_xnn mk;
	struct et_diag diag = { 0 };
	make_multiplied(&mk);
	size_t n_bytes;
	uint8_t *bytes = mx_finish(&mk, &n_bytes);
	for (int load = 0; load < 3; load++) {
		struct arg args[3];
		struct et_worker_threads *threads;
		struct et_xnn_weights_stats stats;
		struct et_model *model = compile(&store, bytes, n_bytes, 3);
		test_ok(test_ops->threads_new(test_backend, 0, 1, &threads, &diag), &diag);
		for (int i = 0; i < 2; i++) {
			struct et_instance *instance;
			ARG(&args[0], ET_FLOAT32, ET_STATIC, 1, 3, 3, 2);
			ARG(&args[1], ET_FLOAT32, ET_STATIC, 1, 2, 2, 6);
			ARG(&args[2], ET_FLOAT32, ET_STATIC, 1, 2, 2, 6);
			for (int k = 0; k < 18; k++)
				args[0].f32[k] = (float)(k + i) * 0.25f;
			test_ok(test_ops->instance_new(model, threads, &instance, &diag), &diag);
			test_ok(test_ops->enqueue(instance,
					(struct et_evalue *[]){ &args[0].value, &args[1].value, &args[2].value }, NULL,
					&diag),
				&diag);
			check_multiplied(args);
			test_ops->instance_free(instance);
		}
		et_xnnpack_weights_stats(et_direct_model(model), &stats);
		assert_int_equal(stats.n_packings, load ? 0 : 2);
		test_ok(test_ops->keep(model, &diag), &diag);
		test_ops->threads_free(threads);
		test_ops->model_free(model);
	}
	assert_int_equal(store.n_persisted, 1);
	free(store.bytes);
	free(bytes);
}

static void test_machine_has_a_name(void **state)
{
	char one[ET_STORE_MAX_KEY + 1], two[ET_STORE_MAX_KEY + 1];
	assert_true(et_xnn_machine(one, sizeof(one)));
	assert_true(et_xnn_machine(two, sizeof(two)));
	assert_string_equal(one, two);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_set_up, test_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(second_load_packs_nothing),
		TEST(broken_bodies),
		TEST(one_filter_twice),
		TEST(one_filter_for_two_inputs),
		TEST(one_bias_in_two_ways),
		TEST(multiplied_channels),
		TEST(machine_has_a_name),
	};
	int n_failed = cmocka_run_group_tests_name("XNNPACK's", tests, NULL, NULL);
	if (!et_xnn_gemm())
		et_xnn_gemm_choose(et_xnn_gemm_at(0));
	et_xnn_override_set_least_work(0);
	return n_failed + cmocka_run_group_tests_name("ours too", tests, NULL, NULL);
}
