/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of pthreadpool that XNNPACK calls, over our own pool.
 *
 * XNNPACK is linked with libpthreadpool as a shared library. A program's own definitions come first when symbols are
 * resolved, so XNNPACK calls these. All functions that XNNPACK calls must be here, or libpthreadpool would read our
 * pool as its own: a test compares this file with what XNNPACK imports.
 *
 * A loop of up to six dimensions becomes one row of items, tiles where the last dimensions are tiled. */
#include "delegates/xnnpack/pool/pool.h"

#include <pthreadpool.h>

enum { MAX_DIMS = 6 };

struct grid {
	struct et_xnn_loop loop;
	void (*call)(const struct grid *grid, size_t thread, const size_t *at);
	void (*fn)(void);
	void *arg;
	uint32_t default_uarch, max_uarch;
	size_t n_dims;
	size_t range[MAX_DIMS], tile[MAX_DIMS];
};

static size_t n_tiles(const struct grid *grid, size_t dim)
{
	return grid->range[dim] / grid->tile[dim] + (grid->range[dim] % grid->tile[dim] != 0);
}

/* The size of the tile of dimension @dim that begins at @at. */
static size_t n_in(const struct grid *grid, size_t dim, size_t at)
{
	size_t n = grid->range[dim] - at;
	return n < grid->tile[dim] ? n : grid->tile[dim];
}

static void run_grid(const struct et_xnn_loop *loop, size_t thread, size_t begin, size_t end)
{
	const struct grid *grid = (const struct grid *)loop; /* its first member */
	size_t at[MAX_DIMS], rest = begin;
	for (size_t d = grid->n_dims; d-- > 0;) {
		size_t n = n_tiles(grid, d);
		at[d] = rest % n * grid->tile[d];
		rest /= n;
	}
	for (size_t i = begin; i < end; i++) {
		grid->call(grid, thread, at);
		for (size_t d = grid->n_dims; d-- > 0;) {
			at[d] += grid->tile[d];
			if (at[d] < grid->range[d])
				break;
			at[d] = 0;
		}
	}
}

/* XNNPACK's operators have at most as many items as elements, so the product does not overflow. */
static void run(pthreadpool_t pool, struct grid *grid, uint32_t flags)
{
	size_t n_items = 1;
	for (size_t d = 0; d < grid->n_dims; d++)
		n_items *= n_tiles(grid, d);
	grid->loop = (struct et_xnn_loop){
		.run = run_grid,
		.n_items = n_items,
		.flushes = flags & PTHREADPOOL_FLAG_DISABLE_DENORMALS,
		.function = (uintptr_t)grid->fn,
		.object = (uintptr_t)grid->arg, /* part of the operator */
	};
	et_xnn_pool_run(pool, &grid->loop);
}

/* XNNPACK's library finds it when the program is loaded. */
#define PUBLIC __attribute__((visibility("default")))

PUBLIC size_t pthreadpool_get_threads_count(pthreadpool_t pool)
{
	return et_xnn_pool_n_threads(pool);
}

/* The kind of core that this thread runs on, for the variants that have a kernel for each kind. cpuinfo knows it after
 * XNNPACK has initialized itself. */
static uint32_t uarch(const struct grid *grid)
{
#ifdef __aarch64__
	extern uint32_t cpuinfo_get_current_uarch_index_with_default(uint32_t default_uarch_index);
	uint32_t index = cpuinfo_get_current_uarch_index_with_default(grid->default_uarch);
	return index <= grid->max_uarch ? index : grid->default_uarch;
#else
	return grid->default_uarch;
#endif
}

/* Define pthreadpool_parallelize_NAME and the call of its function for one item: LOOP for its usual arguments, and
 * UARCH_LOOP for those of kinds of cores. PARAMETERS: ranges and tiles; GRID: how they are kept; AT: the arguments of
 * an item. */
#define ARGS(...) __VA_ARGS__
#define AT(dim)   at[dim]
#define TILE(dim) n_in(grid, dim, at[dim])
#define DEFINE(NAME, TASK, UARCH_PARAMETERS, PARAMETERS, UARCH_GRID, GRID, ARGUMENTS)                             \
	static void call_##NAME(const struct grid *grid, size_t thread, const size_t *at)                         \
	{                                                                                                         \
		((pthreadpool_task_##TASK##_t)grid->fn)(grid->arg, ARGS ARGUMENTS);                               \
	}                                                                                                         \
	PUBLIC void pthreadpool_parallelize_##NAME(pthreadpool_t pool, pthreadpool_task_##TASK##_t fn, void *arg, \
		ARGS UARCH_PARAMETERS ARGS PARAMETERS, uint32_t flags)                                            \
	{                                                                                                         \
		struct grid grid = { .call = call_##NAME, .fn = (void (*)(void))fn, .arg = arg, ARGS GRID };      \
		ARGS UARCH_GRID;                                                                                  \
		run(pool, &grid, flags);                                                                          \
	}
#define LOOP(NAME, PARAMETERS, GRID, ARGUMENTS) DEFINE(NAME, NAME, (), PARAMETERS, ((void)0), GRID, ARGUMENTS)
#define UARCH_LOOP(NAME, TASK, PARAMETERS, GRID, ARGUMENTS)                            \
	DEFINE(NAME, TASK, (uint32_t default_uarch, uint32_t max_uarch, ), PARAMETERS, \
		(grid.default_uarch = default_uarch, grid.max_uarch = max_uarch), GRID, ARGUMENTS)

/* clang-format off */
LOOP(1d, (size_t i),
	(.n_dims = 1, .range = { i }, .tile = { 1 }),
	(AT(0)))
LOOP(1d_with_thread, (size_t i),
	(.n_dims = 1, .range = { i }, .tile = { 1 }),
	(thread, AT(0)))
LOOP(1d_tile_1d, (size_t i, size_t tile_i),
	(.n_dims = 1, .range = { i }, .tile = { tile_i }),
	(AT(0), TILE(0)))
LOOP(2d, (size_t i, size_t j),
	(.n_dims = 2, .range = { i, j }, .tile = { 1, 1 }),
	(AT(0), AT(1)))
LOOP(2d_with_thread, (size_t i, size_t j),
	(.n_dims = 2, .range = { i, j }, .tile = { 1, 1 }),
	(thread, AT(0), AT(1)))
LOOP(2d_tile_1d, (size_t i, size_t j, size_t tile_j),
	(.n_dims = 2, .range = { i, j }, .tile = { 1, tile_j }),
	(AT(0), AT(1), TILE(1)))
LOOP(2d_tile_2d, (size_t i, size_t j, size_t tile_i, size_t tile_j),
	(.n_dims = 2, .range = { i, j }, .tile = { tile_i, tile_j }),
	(AT(0), AT(1), TILE(0), TILE(1)))
LOOP(3d, (size_t i, size_t j, size_t k),
	(.n_dims = 3, .range = { i, j, k }, .tile = { 1, 1, 1 }),
	(AT(0), AT(1), AT(2)))
LOOP(3d_tile_1d, (size_t i, size_t j, size_t k, size_t tile_k),
	(.n_dims = 3, .range = { i, j, k }, .tile = { 1, 1, tile_k }),
	(AT(0), AT(1), AT(2), TILE(2)))
LOOP(3d_tile_1d_with_thread, (size_t i, size_t j, size_t k, size_t tile_k),
	(.n_dims = 3, .range = { i, j, k }, .tile = { 1, 1, tile_k }),
	(thread, AT(0), AT(1), AT(2), TILE(2)))
LOOP(3d_tile_2d, (size_t i, size_t j, size_t k, size_t tile_j, size_t tile_k),
	(.n_dims = 3, .range = { i, j, k }, .tile = { 1, tile_j, tile_k }),
	(AT(0), AT(1), AT(2), TILE(1), TILE(2)))
LOOP(4d, (size_t i, size_t j, size_t k, size_t l),
	(.n_dims = 4, .range = { i, j, k, l }, .tile = { 1, 1, 1, 1 }),
	(AT(0), AT(1), AT(2), AT(3)))
LOOP(4d_tile_2d, (size_t i, size_t j, size_t k, size_t l, size_t tile_k, size_t tile_l),
	(.n_dims = 4, .range = { i, j, k, l }, .tile = { 1, 1, tile_k, tile_l }),
	(AT(0), AT(1), AT(2), AT(3), TILE(2), TILE(3)))
LOOP(5d, (size_t i, size_t j, size_t k, size_t l, size_t m),
	(.n_dims = 5, .range = { i, j, k, l, m }, .tile = { 1, 1, 1, 1, 1 }),
	(AT(0), AT(1), AT(2), AT(3), AT(4)))
LOOP(5d_tile_2d, (size_t i, size_t j, size_t k, size_t l, size_t m, size_t tile_l, size_t tile_m),
	(.n_dims = 5, .range = { i, j, k, l, m }, .tile = { 1, 1, 1, tile_l, tile_m }),
	(AT(0), AT(1), AT(2), AT(3), AT(4), TILE(3), TILE(4)))
LOOP(6d_tile_2d, (size_t i, size_t j, size_t k, size_t l, size_t m, size_t n, size_t tile_m, size_t tile_n),
	(.n_dims = 6, .range = { i, j, k, l, m, n }, .tile = { 1, 1, 1, 1, tile_m, tile_n }),
	(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), TILE(4), TILE(5)))
UARCH_LOOP(2d_tile_1d_with_uarch, 2d_tile_1d_with_id, (size_t i, size_t j, size_t tile_j),
	(.n_dims = 2, .range = { i, j }, .tile = { 1, tile_j }),
	(uarch(grid), AT(0), AT(1), TILE(1)))
UARCH_LOOP(2d_tile_2d_with_uarch, 2d_tile_2d_with_id, (size_t i, size_t j, size_t tile_i, size_t tile_j),
	(.n_dims = 2, .range = { i, j }, .tile = { tile_i, tile_j }),
	(uarch(grid), AT(0), AT(1), TILE(0), TILE(1)))
UARCH_LOOP(3d_tile_1d_with_uarch, 3d_tile_1d_with_id, (size_t i, size_t j, size_t k, size_t tile_k),
	(.n_dims = 3, .range = { i, j, k }, .tile = { 1, 1, tile_k }),
	(uarch(grid), AT(0), AT(1), AT(2), TILE(2)))
UARCH_LOOP(3d_tile_1d_with_uarch_with_thread, 3d_tile_1d_with_id_with_thread, (size_t i, size_t j, size_t k, size_t tile_k),
	(.n_dims = 3, .range = { i, j, k }, .tile = { 1, 1, tile_k }),
	(uarch(grid), thread, AT(0), AT(1), AT(2), TILE(2)))
UARCH_LOOP(3d_tile_2d_with_uarch, 3d_tile_2d_with_id, (size_t i, size_t j, size_t k, size_t tile_j, size_t tile_k),
	(.n_dims = 3, .range = { i, j, k }, .tile = { 1, tile_j, tile_k }),
	(uarch(grid), AT(0), AT(1), AT(2), TILE(1), TILE(2)))
UARCH_LOOP(4d_tile_2d_with_uarch, 4d_tile_2d_with_id, (size_t i, size_t j, size_t k, size_t l, size_t tile_k, size_t tile_l),
	(.n_dims = 4, .range = { i, j, k, l }, .tile = { 1, 1, tile_k, tile_l }),
	(uarch(grid), AT(0), AT(1), AT(2), AT(3), TILE(2), TILE(3)))
/* clang-format on */
