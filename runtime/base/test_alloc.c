/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool: alignment, zeroing, reuse after a reset, and what happens when the allocator refuses. */
#include "runtime/base/alloc.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static _Alignas(64) uint8_t memory[1 << 16];

static struct et_pool pool_over(struct et_static_buffer *buffer, size_t n_bytes)
{
	*buffer = (struct et_static_buffer){ .bytes = memory, .n_bytes = n_bytes };
	struct et_allocator allocator = et_static_allocator(buffer);
	struct et_pool pool;
	et_pool_init(&pool, &allocator);
	return pool;
}

static void pieces_are_aligned_and_zeroed(void **state)
{
	struct et_static_buffer buffer;
	memset(memory, 0xa5, sizeof memory);
	struct et_pool pool = pool_over(&buffer, sizeof memory);
	for (size_t align = 1; align <= 256; align *= 2) {
		uint8_t *piece = et_pool_alloc(&pool, 33, align);
		assert_non_null(piece);
		assert_int_equal((uintptr_t)piece % align, 0);
		for (int i = 0; i < 33; i++)
			assert_int_equal(piece[i], 0);
		memset(piece, 0xff, 33);
	}
	et_pool_deinit(&pool);
}

static void refuses_when_the_allocator_does(void **state)
{
	struct et_static_buffer buffer;
	struct et_pool pool = pool_over(&buffer, 2048);
	assert_non_null(et_pool_alloc(&pool, 100, 8));
	assert_null(et_pool_alloc(&pool, 4096, 8));
	assert_null(et_pool_alloc(&pool, SIZE_MAX - 8, 64));
	assert_null(et_pool_array(&pool, SIZE_MAX / 2, 3));
	assert_null(et_pool_scratch_array(&pool, SIZE_MAX / 2, 3));
	et_pool_deinit(&pool);
}

static void reset_keeps_the_memory(void **state)
{
	struct et_static_buffer buffer;
	struct et_pool pool = pool_over(&buffer, sizeof memory);
	for (int i = 0; i < 5; i++)
		assert_non_null(et_pool_scratch(&pool, 1000, 8));
	et_pool_reset(&pool);
	size_t taken = buffer.n_used;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 5; i++)
			assert_non_null(et_pool_scratch(&pool, 1000, 8));
		et_pool_reset(&pool);
	}
	assert_int_equal(buffer.n_used, taken); /* steady: no further allocation */
	et_pool_deinit(&pool);
}

static void strings_are_copied_and_terminated(void **state)
{
	struct et_static_buffer buffer;
	struct et_pool pool = pool_over(&buffer, sizeof memory);
	assert_string_equal(et_pool_strndup(&pool, "forward!", 7), "forward");
	et_pool_deinit(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_aligned_and_zeroed),
		cmocka_unit_test(refuses_when_the_allocator_does),
		cmocka_unit_test(reset_keeps_the_memory),
		cmocka_unit_test(strings_are_copied_and_terminated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
