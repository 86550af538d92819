/* SPDX-License-Identifier: BSD-3-Clause */
/* An image of a few channels, as PyTorch has it (NCHW), made into 8-bit pixels (NHWC): what quantized networks begin
 * with.
 *
 * The first node of such a network quantizes the floats of an argument, the second one transposes the bytes. Both are
 * computed together: floats of all channels are read where they lie, quantized and written as whole pixels
 * (gemm_qs8.h), so that the bytes in NCHW are never in memory. A transpose of bytes that come from elsewhere, or of
 * floats, is left to XNNPACK: the gain would be less than 1 % of any program. */
#include "delegates/xnnpack/overrides/override.h"

#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "runtime/base/checked.h"

enum {
	MOST_CHANNELS = 4,
	GRAIN = 1 << 14, /* pixels that are worth another thread */
};

/* The conversion that makes the bytes from floats of an argument, if the transpose is its only reader and the
 * processor has instructions for both together. ET_XNN_NONE: no such node. */
static uint32_t find_convert(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	if (!et_xnn_gemm_qs8_vectors() || in->producer == ET_XNN_NONE || in->n_users != 1 || in->external ||
		in->seen_as != ET_XNN_NONE || in->stands_for != ET_XNN_NONE)
		return ET_XNN_NONE;
	const struct et_xnn_node *convert = &payload->nodes[in->producer];
	const struct et_xnn_value *from = &payload->values[convert->inputs[0]];
	bool is_such = convert->kind->types == ET_XNN_TYPES_CONVERT && !convert->is_view && !convert->is_gone &&
		       et_xnn_override_is_floats(from) && !from->data && from->producer == ET_XNN_NONE &&
		       (from->external || from->stands_for != ET_XNN_NONE);
	return is_such ? in->producer : ET_XNN_NONE;
}

/* Scale and zero point must be the same on both sides, as XNNPACK wants it. */
static bool is_same_quantization(const struct et_xnn_value *in, const struct et_xnn_value *out)
{
	return et_xnn_is_8_bit(in) && in->quant == ET_XNN_QUANT_TENSOR && out->type == in->type &&
	       out->quant == in->quant && out->scale == in->scale && out->zero_point == in->zero_point;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	static const uint32_t order[] = { 0, 2, 3, 1 };
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	if (node->kind->infer != et_xnn_infer_transpose || node->flags || in->data || in->shape.n_dims != 4 ||
		in->shape.dims[1] < 2 || in->shape.dims[1] > MOST_CHANNELS || node->n_list[0] != 4 ||
		!is_same_quantization(in, &payload->values[node->outputs[0]]))
		return false;
	size_t n = 1;
	for (uint32_t i = 0; i < 4; i++)
		if (node->list[0][i] != order[i] || !et_mul(n, in->shape.dims[i], &n))
			return false;
	return et_xnn_override_is_worth(n) && find_convert(payload, node) != ET_XNN_NONE;
}

struct image {
	const struct et_xnn_gemm_qs8_build *build;
	const float *in;
	uint8_t *out;
	size_t n_channels, n_pixels;
	float factor;
	int32_t zero; /* 0 to 255 */
	uint8_t flip; /* 0x80 makes a byte signed */
};

static void run_pixels(void *arg, size_t begin, size_t end)
{
	const struct image *image = arg;
	image->build->pixels(image->in + begin, image->n_pixels, end - begin, image->n_channels, image->factor,
		image->zero, image->flip, image->out + begin * image->n_channels);
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *in = &run->payload->values[node->inputs[0]];
	const size_t *dims = run->shapes[node->inputs[0]].dims;
	const struct et_xnn_node *convert = &run->payload->nodes[find_convert(run->payload, node)];
	bool is_signed = in->type == ET_XNN_QINT8;
	struct image image = {
		.build = et_xnn_gemm_qs8_vectors(),
		.in = run->memory[convert->inputs[0]],
		.out = run->memory[node->outputs[0]],
		.n_channels = dims[1],
		.n_pixels = dims[2] * dims[3],
		.factor = 1 / in->scale,
		.zero = in->zero_point + (is_signed ? 128 : 0),
		.flip = is_signed ? 0x80 : 0,
	};
	size_t n = image.n_channels * image.n_pixels;
	for (size_t i = 0; i < dims[0]; i++) {
		et_xnn_threads_parallel_for(run->threads, run_pixels, &image, image.n_pixels, GRAIN);
		image.in += n;
		image.out += n;
	}
}

const struct et_xnn_override et_xnn_override_transpose_q8 = {
	.name = "transpose-q8",
	.reason =
		"speed: MobileNetV2 int8 takes 0.97 of the original's time instead of 1.00, MobileNetV3 int8 1.03 instead of 1.11 "
		"(AVX512-VNNI)",
	.takes = takes,
	.is_of_bytes = true,
	.along = find_convert,
	.run = run,
};
