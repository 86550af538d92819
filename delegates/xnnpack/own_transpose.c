/* Pictures of a few colours, one after the other, made into pixels: what most networks begin with.
 *
 * XNNPACK moves squares of 8 × 8, of which three colours are the smaller part. Here each colour is read as it lies and all of
 * a pixel written at once. */
#include "delegates/xnnpack/own.h"

#include "runtime/base/checked.h"

enum { MOST_COLOURS = 4, GRAIN = 1 << 14 /* pixels that are worth another thread's while */ };

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	static const uint32_t order[] = { 0, 2, 3, 1 };
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	if (node->kind->infer != et_xnn_infer_transpose || node->flags || in->type != ET_XNN_FP32 ||
		in->quant != ET_XNN_QUANT_NONE || in->data || in->shape.n_dims != 4 ||
		in->shape.dims[1] < 2 || in->shape.dims[1] > MOST_COLOURS || node->n_list[0] != 4)
		return false;
	size_t n = 1;
	for (uint32_t i = 0; i < 4; i++)
		if (node->list[0][i] != order[i] || !et_mul(n, in->shape.dims[i], &n))
			return false;
	return et_xnn_own_is_worth(n);
}

struct picture {
	const float *in;
	float *out;
	size_t n_colours, n_pixels;
};

static inline void interleave(const struct picture *picture, size_t begin, size_t end, const size_t n_colours)
{
	const float *in = picture->in;
	float *out = picture->out + begin * n_colours;
	for (size_t i = begin; i < end; i++)
		for (size_t j = 0; j < n_colours; j++)
			*out++ = in[j * picture->n_pixels + i];
}

static void run_pixels(void *arg, size_t begin, size_t end)
{
	const struct picture *picture = arg;
	if (picture->n_colours == 3)
		interleave(picture, begin, end, 3);
	else
		interleave(picture, begin, end, picture->n_colours);
}

static void run(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const size_t *dims = run->shapes[node->inputs[0]].dims;
	struct picture picture = {
		.in = run->memory[node->inputs[0]],
		.out = run->memory[node->outputs[0]],
		.n_colours = dims[1],
		.n_pixels = dims[2] * dims[3],
	};
	size_t n = picture.n_colours * picture.n_pixels;
	for (size_t i = 0; i < dims[0]; i++) {
		et_xnn_lane_parallel_for(run->lane, run_pixels, &picture, picture.n_pixels, GRAIN);
		picture.in += n;
		picture.out += n;
	}
}

const struct et_xnn_own et_xnn_own_transpose = {
	.name = "Transpose (NCHW, X32), by pixels",
	.takes = takes,
	.run = run,
};
