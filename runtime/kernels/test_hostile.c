/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kernel of every table, called as no exporter would (tests/support/hostile.h). The seed is the kernel's number
 * and the number of the call, so a call that fails can be repeated by a run that is given both:
 *     test_kernels_hostile              some calls of each
 *     test_kernels_hostile N            N calls of each, from another seed each time N changes
 *     test_kernels_hostile N KERNEL     of this one alone */
#include "tests/support/counting_alloc.h"
#include "tests/support/hostile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static size_t n_calls = 100;
static const char *only;

static void every_call_is_answered(void **state)
{
	size_t n_kernels = hostile_n_kernels();
	for (size_t k = 0; k < n_kernels; k++) {
		const struct et_kernel *kernel = hostile_kernel(k);
		if (only && strcmp(kernel->name, only) != 0)
			continue;
		for (size_t i = 0; i < n_calls; i++) {
			struct choices choices = { .random = (n_calls << 40) + (k << 20) + i + 1 };
			hostile_call(kernel, &choices);
		}
	}
}

/* Every type in the place of each tensor's type, one at a time and all together, starting from a call that succeeds.
 * Operators for which random calls hardly ever succeed are tried this way beside the cases of test_rig.c. */
static void every_type_is_answered(void **state)
{
	enum { N_TRIES = 400 };
	size_t n_kernels = hostile_n_kernels(), n_done = 0;
	for (size_t k = 0; k < n_kernels; k++) {
		bool is_done = false;
		if (only && strcmp(hostile_kernel(k)->name, only) != 0)
			continue;
		for (size_t i = 0; i < N_TRIES && !is_done; i++) {
			struct choices choices = { .random = (UINT64_C(7) << 40) + (k << 20) + i + 1 };
			is_done = hostile_call_types_made_up(hostile_kernel(k), &choices);
		}
		n_done += is_done;
	}
	assert_true(only || n_done > n_kernels / 2);
}

/* Positions that change while they are used: a program may put them where the cache is, or a client may change them at
 * any moment. Only the values that were checked may be used. */
static void positions_under_the_cache(void **state)
{
	int64_t values[2] = { INT64_C(1) << 40, 7 }, memory[2] = { 1, 0 }, returned[1];
	int32_t sizes[] = { 1, 2, 1, 1 }, strides[] = { 2, 1, 1, 1 }, one = 1;
	const uint8_t order[] = { 0, 1, 2, 3 };
	struct et_tensor value = { values, 2, sizes, strides, order, .type = ET_INT64, .n_dims = 4 };
	struct et_tensor cache = { memory, 2, sizes, strides, order, .type = ET_INT64, .n_dims = 4 };
	struct et_tensor positions = { memory, 2, sizes, strides, order, .type = ET_INT64, .n_dims = 2 };
	struct et_tensor out = { returned, 1, &one, &one, order, .type = ET_INT64, .n_dims = 1 };
	struct et_evalue args[] = { { .tag = ET_TAG_TENSOR, .tensor = &value },
		{ .tag = ET_TAG_TENSOR, .tensor = &cache }, { .tag = ET_TAG_INT },
		{ .tag = ET_TAG_TENSOR, .tensor = &positions }, { .tag = ET_TAG_TENSOR, .tensor = &out } };
	struct et_evalue *list[] = { &args[0], &args[1], &args[2], &args[3], &args[4] };
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool scratch;
	struct et_diag diag = { 0 };
	const struct et_kernel *kernel = NULL;
	for (size_t i = 0; i < et_n_kernel_tables && !kernel; i++)
		kernel = et_kernel_table_find(et_kernel_tables[i], "llama::update_cache_with_indices.out");
	if (!kernel) {
		fail_msg("there is no such kernel");
		return;
	}
	et_pool_init(&scratch, &allocator);
	struct et_kernel_ctx ctx = { .kernel = kernel, .scratch = &scratch, .diag = &diag };
	assert_int_equal(kernel->run(&ctx, list), ET_OK);
	assert_int_equal(memory[0], 7);
	assert_int_equal(memory[1], INT64_C(1) << 40);
	et_pool_deinit(&scratch);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		n_calls = strtoul(argv[1], NULL, 10);
	if (argc > 2)
		only = argv[2];
	const struct CMUnitTest tests[] = { cmocka_unit_test(positions_under_the_cache),
		cmocka_unit_test(every_call_is_answered), cmocka_unit_test(every_type_is_answered) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
