/* One divided by the square roots of floats.
 *
 * XNNPACK's kernels for x86-64 (2024-11) improve an estimate by a step of Newton's, which multiplies 0 with infinity: of infinity
 * and of 0 they make NaN, and of the smallest numbers, which XNNPACK takes for 0. (Later ones do infinity right.)
 * The processor's root and quotient are exact for all of them. */
#include "delegates/xnnpack/own.h"

#ifdef __x86_64__
#include <emmintrin.h>
#include <string.h>

enum { GRAIN = 1 << 14 /* elements that are worth another thread's while */ };

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	return node->kind->define == et_xnn_define_unary &&
	       node->kind->op == xnn_unary_reciprocal_square_root && et_xnn_own_is_floats(in) && !in->data &&
	       et_xnn_own_is_floats(&payload->values[node->outputs[0]]) &&
	       et_xnn_own_is_worth(UINT64_MAX - 1);
}

struct roots {
	const float *in;
	float *out;
};

static inline __m128 one_by_root(__m128 x)
{
	return _mm_div_ps(_mm_set1_ps(1), _mm_sqrt_ps(x));
}

static void run_elements(void *arg, size_t begin, size_t end)
{
	const struct roots *roots = arg;
	const float *in = roots->in;
	float *out = roots->out;
	size_t i = begin;
	for (; i + 4 <= end; i += 4)
		_mm_storeu_ps(out + i, one_by_root(_mm_loadu_ps(in + i)));
	float rest[4] = { 1, 1, 1, 1 };
	memcpy(rest, in + i, (end - i) * sizeof(*rest));
	_mm_storeu_ps(rest, one_by_root(_mm_loadu_ps(rest)));
	memcpy(out + i, rest, (end - i) * sizeof(*rest));
}

static void run(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *shape = &run->shapes[node->inputs[0]];
	struct roots roots = { run->memory[node->inputs[0]], run->memory[node->outputs[0]] };
	size_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++)
		n *= shape->dims[i];
	et_xnn_lane_parallel_for(run->lane, run_elements, &roots, n, GRAIN);
}
#else
static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	(void)payload;
	(void)node;
	return false;
}

static void run(const struct et_xnn_own_run *run)
{
	(void)run;
}
#endif

const struct et_xnn_own et_xnn_own_root = {
	.name = "Reciprocal Square Root (NC, F32), by instruction",
	.takes = takes,
	.run = run,
};
