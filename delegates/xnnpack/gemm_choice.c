/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing between XNNPACK's fp32 GEMM and our own by measurement.
 *
 * With AVX-512 ours is known to be the faster one (docs/overrides.md). With AVX2 alone it depends on the compiler
 * that built XNNPACK and on the processor: Debian's AVX2 kernel of five rows has one accumulator more than its
 * compiler found registers for, and stores and loads it for each product. So both compute the same layer, in turn,
 * and the best time of each counts, since whatever else the core does can only make a turn slower.
 *
 * The decision holds for the process. Packed weights are kept under a name that contains it (machine_id.c). */
#include "delegates/xnnpack/gemm_choice.h"

#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/pool/clock.h"
#include "delegates/xnnpack/ukernels/gemm.h"
#include "runtime/base/cpu.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <xnnpack.h>

#ifdef __x86_64__
enum {
	ROWS = 60, /* whole tiles of both */
	DEPTH = 96,
	COLUMNS = 64,
	N_TURNS = 15,
	LEAD = 10, /* percent: as much as it takes to cut a payload at the layer (partition.c), and more */
};

/* A layer that fits into the second-level cache. XNNPACK reads somewhat behind a matrix. */
struct layer {
	float in[ROWS * DEPTH], filter[COLUMNS * DEPTH], bias[COLUMNS], packed[(1 + DEPTH) * COLUMNS],
		out[ROWS * COLUMNS];
};

static void fill(struct layer *layer)
{
	for (uint32_t i = 0; i < ROWS * DEPTH; i++)
		layer->in[i] = (float)(i % 7) - 3;
	for (uint32_t i = 0; i < COLUMNS * DEPTH; i++)
		layer->filter[i] = (float)(i % 5) - 2;
	for (uint32_t i = 0; i < COLUMNS; i++)
		layer->bias[i] = (float)i;
	et_xnn_gemm_pack(layer->filter, layer->bias, DEPTH, COLUMNS, layer->packed);
}

/* The layer as an operator of XNNPACK, ready to run. */
static xnn_operator_t make_operator(struct layer *layer)
{
	xnn_operator_t made = NULL;
	enum xnn_status status = xnn_create_fully_connected_nc_f32(DEPTH, COLUMNS, DEPTH, COLUMNS, layer->filter,
		layer->bias, -INFINITY, INFINITY, 0, NULL, NULL, &made);
	if (status == xnn_status_success)
		status = xnn_reshape_fully_connected_nc_f32(made, ROWS, NULL);
	if (status == xnn_status_success)
		status = xnn_setup_fully_connected_nc_f32(made, layer->in, layer->out);
	if (et_xnn_settle(status) == xnn_status_success)
		return made;
	xnn_delete_operator(made);
	return NULL;
}

/* Whether our build is faster by LEAD. */
static bool is_faster(const struct et_xnn_gemm_build *build, struct layer *layer, xnn_operator_t theirs)
{
	const struct et_xnn_gemm job = { .n_columns = COLUMNS,
		.n_segments = 1,
		.depth = DEPTH,
		.in_stride = DEPTH,
		.out_stride = COLUMNS,
		.filter_depth = DEPTH,
		.min = -INFINITY,
		.max = INFINITY,
		.packed = (const uint8_t *)layer->packed,
		.in = (const uint8_t *)layer->in,
		.out = (uint8_t *)layer->out };
	uint64_t best = UINT64_MAX, best_of_theirs = UINT64_MAX;
	for (uint32_t turn = 0; turn < N_TURNS; turn++) {
		uint64_t begin = et_xnn_now_ns();
		xnn_run_operator(theirs, NULL);
		uint64_t middle = et_xnn_now_ns();
		build->run(&job, 0, ROWS, 0, COLUMNS);
		uint64_t end = et_xnn_now_ns();
		best_of_theirs = middle - begin < best_of_theirs ? middle - begin : best_of_theirs;
		best = end - middle < best ? end - middle : best;
	}
	return best * (100 + LEAD) <= best_of_theirs * 100;
}

/* Whether there was memory for it. */
static bool measure(const struct et_allocator *allocator)
{
	struct layer *layer = allocator->alloc(allocator->self, sizeof(*layer), _Alignof(max_align_t));
	xnn_operator_t theirs = NULL;
	if (layer) {
		fill(layer);
		theirs = make_operator(layer);
	}
	if (theirs && is_faster(&et_xnn_gemm_avx2, layer, theirs))
		et_xnn_gemm_prefer_avx2();
	xnn_delete_operator(theirs);
	if (layer)
		allocator->free(allocator->self, layer, sizeof(*layer));
	return theirs != NULL;
}
#endif

void et_xnn_choose_gemm(const struct et_allocator *allocator)
{
#ifdef __x86_64__
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool is_measured;
	if (!et_cpu_runs_avx2() || et_cpu_runs_avx512())
		return;
	pthread_mutex_lock(&lock);
	is_measured = is_measured || measure(allocator);
	pthread_mutex_unlock(&lock);
#else
	(void)allocator;
#endif
}
