/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposed convolutions of signed 8 bits, by subconvolutions (subconvolution.h) that gemm_qs8.h multiplies.
 *
 * Part of the image is copied to a tile: its pixels, made unsigned, with the zero point around them. A window's row
 * of taps is a run of bytes in the tile. Windows follow each other pixel by pixel through all lines of the tile, so
 * that small images fill the registers, too; windows that begin near the end of a line cross it, and their results
 * are thrown away.
 *
 * If all subconvolutions have equally many taps and channels are few, they are joined to one product of as many
 * columns, which fills vectors.
 *
 * Sums are exact. The zero point's part of each sum and the bias are in the column's sum, so gemm_qs8.h gives the sum
 * times its scale, as in XNNPACK. It is rounded like XNNPACK's, so results are XNNPACK's to the bit. XNNPACK packs
 * the filter again for each instance; here it is packed once for a Program (weights.h). Dilation, unsigned types, and
 * filters that packing would make far larger are left to XNNPACK. */
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/overrides/quantized.h"
#include "delegates/xnnpack/overrides/subconvolution.h"

#include "delegates/xnnpack/ukernels/gemm_qs8.h"
#include "runtime/base/checked.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

enum {
	CHEAPER = 4,         /* products of 8 bits in the time of one of floats */
	WORK_OF_OUTPUT = 16, /* products in the time that an output takes by itself */
	GRAIN = 1 << 19,     /* products that are worth another thread */
	MOST_SUBCONVS = 64,
	MOST_JOINED = 64,      /* columns */
	ROWS = 112,            /* windows at once: whole register tiles */
	COLUMNS = 64,          /* columns at once: whole panels */
	TILE_BYTES = 96 << 10, /* on the stack */
	SPARE_BYTES = 2 * ET_GEMM_QS8_SEGMENT,
	PACKED_AT_MOST = 64 << 10, /* or four times the filter */
};

/* What the packing of a filter depends on. [0] is down, [1] is across. */
struct layout {
	size_t kernel[2], stride[2];
	size_t groups, channels, n_out; /* of a group */
	size_t most_taps[2];            /* of a subconvolution */
	bool is_joined;
};

/* A subconvolution; or all of them joined. */
struct subconv {
	size_t number[2];
	size_t n_taps[2];
	size_t n_columns;
	size_t n_segments, depth; /* as gemm_qs8.h has them */
};

static size_t align_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static struct layout layout_of(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	struct layout layout = {
		.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
		.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
		.groups = n[ET_XNN_GROUPS],
		.channels = n[ET_XNN_GROUP_IN],
		.n_out = n[ET_XNN_GROUP_OUT],
	};
	bool are_alike = true;
	for (int axis = 0; axis < 2; axis++) {
		layout.most_taps[axis] = (layout.kernel[axis] + layout.stride[axis] - 1) / layout.stride[axis];
		are_alike = are_alike && layout.kernel[axis] % layout.stride[axis] == 0;
	}
	size_t n_subconvs = layout.stride[0] * layout.stride[1];
	layout.is_joined = n_subconvs > 1 && are_alike && n_subconvs * layout.n_out <= MOST_JOINED &&
			   align_up(n_subconvs * layout.n_out, 16) * 5 <= n_subconvs * align_up(layout.n_out, 16) * 4;
	return layout;
}

static size_t n_subconvs(const struct layout *layout, int axis)
{
	return layout->is_joined ? 1 : layout->stride[axis];
}

static struct subconv subconv_of(const struct layout *layout, size_t down, size_t across)
{
	struct subconv subconv = { .number = { down, across }, .n_columns = layout->n_out };
	for (int axis = 0; axis < 2; axis++)
		subconv.n_taps[axis] =
			et_xnn_subconv_taps(layout->kernel[axis], layout->stride[axis], 1, subconv.number[axis]).n;
	if (layout->is_joined)
		subconv.n_columns *= layout->stride[0] * layout->stride[1];
	if (subconv.n_taps[0] == 0 || subconv.n_taps[1] == 0)
		subconv.n_taps[0] = subconv.n_taps[1] = 0;
	bool is_run = layout->groups == 1;
	subconv.n_segments = is_run ? subconv.n_taps[0] : subconv.n_taps[0] * subconv.n_taps[1];
	subconv.depth = align_up((is_run ? subconv.n_taps[1] : 1) * layout->channels, ET_GEMM_QS8_SEGMENT);
	return subconv;
}

/* Packed bytes of one group. */
static size_t size_of(const struct subconv *subconv)
{
	return et_xnn_gemm_qs8_panel(subconv->n_segments * subconv->depth, align_up(subconv->n_columns, 16));
}

/* All subconvolutions without taps are alike: only the first one is packed. */
static bool is_repeated(const struct subconv *subconv, bool *has_empty)
{
	bool is_empty = subconv->n_segments == 0, is = is_empty && *has_empty;
	*has_empty = *has_empty || is_empty;
	return is;
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct layout layout = layout_of(node);
	size_t n = 0;
	bool has_empty = false;
	(void)payload;
	for (size_t i = 0; i < n_subconvs(&layout, 0) * n_subconvs(&layout, 1); i++) {
		const struct subconv subconv = subconv_of(&layout, i / n_subconvs(&layout, 1),
			i % n_subconvs(&layout, 1));
		size_t n_more;
		if (is_repeated(&subconv, &has_empty))
			continue;
		if (!et_mul(size_of(&subconv), layout.groups, &n_more) || !et_add(n, n_more, &n))
			return SIZE_MAX;
	}
	return n;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	if (node->kind->infer != et_xnn_infer_deconvolution || node->flags || !et_xnn_gemm_qs8_vectors() ||
		n[ET_XNN_DILATION_H] != 1 || n[ET_XNN_DILATION_W] != 1 || !et_xnn_override_is_qs8(payload, node, 0) ||
		(uint64_t)n[ET_XNN_STRIDE_H] * n[ET_XNN_STRIDE_W] > MOST_SUBCONVS)
		return false;
	const struct layout layout = layout_of(node);
	const struct et_xnn_value *filter = &payload->values[node->inputs[1]],
				  *out = &payload->values[node->outputs[0]];
	size_t n_window, products = 0, of_output = layout.most_taps[0] * layout.most_taps[1];
	size_t most_packed = filter->n_bytes * 4;
	most_packed = most_packed > PACKED_AT_MOST ? most_packed : PACKED_AT_MOST;
	if (!et_mul(layout.most_taps[0] * layout.most_taps[1], layout.groups, &n_window) ||
		!et_mul(n_window, layout.channels, &n_window) || n_window > TILE_BYTES ||
		n_packed(payload, node) > most_packed)
		return false;
	of_output = of_output * layout.channels + WORK_OF_OUTPUT;
	products = of_output;
	for (uint32_t i = 0; i < out->shape.n_dims; i++)
		if (!et_mul(products, out->shape.dims[i], &products))
			return false;
	return et_xnn_override_is_worth(products / CHEAPER);
}

/* --- packing -------------------------------------------------------------------------------------------- */

/* The constants that columns are packed from. */
struct constants {
	const int8_t *filter; /* [groups * n_out][kernel][kernel][channels] */
	const int32_t *bias;  /* [groups * n_out], or NULL */
	const float *scales;  /* the same, or NULL: @scale */
	float scale;
	float in_scale, out_scale;
	int32_t zero; /* the input's zero point, made unsigned */
};

/* Pack one tap of @n columns, @n_channels weights at @offset of each, to row @row of a panel's weights, and add them
 * to the columns' sums. A cache line of each column at a time, because columns a power of two apart would push each
 * other out of the cache. */
static void pack_tap(const int8_t *const *columns, size_t offset, size_t n_channels, size_t n, size_t row, size_t width,
	uint8_t *weights, uint32_t *sums)
{
	enum { LINE = 64 };
	for (size_t k = 0, n_deep; k < n_channels; k += n_deep, row += n_deep) {
		n_deep = n_channels - k < LINE ? n_channels - k : LINE;
		for (size_t i = 0; i < n; i++) {
			const int8_t *from = columns[i] + offset + k;
			int32_t sum = 0;
			size_t j = 0;
			for (size_t m = 0; m < n_deep; m++)
				sum += from[m];
			sums[i] += (uint32_t)sum;
			for (; row % 4 == 0 && j + 4 <= n_deep; j += 4)
				memcpy(weights + ((row + j) / 4 * width + i) * 4, from + j, 4);
			for (; j < n_deep; j++)
				weights[((row + j) / 4 * width + i) * 4 + (row + j) % 4] = (uint8_t)from[j];
		}
	}
}

/* Pack the panel of columns from @at on. */
static void pack_panel(const struct layout *layout, const struct subconv *subconv, const struct constants *constants,
	size_t group, size_t at, size_t width, uint8_t *to)
{
	const size_t *kernel = layout->kernel, *stride = layout->stride, n_channels = layout->channels,
		     n_run = layout->groups == 1 ? subconv->n_taps[1] : 1,
		     n = subconv->n_columns - at < width ? subconv->n_columns - at : width;
	const int8_t *columns[ET_GEMM_QS8_PANEL];
	uint32_t sums[ET_GEMM_QS8_PANEL] = { 0 };
	bool is_full = n == width && subconv->depth == n_run * n_channels;
	memset(to, 0, is_full ? 12 * width : et_xnn_gemm_qs8_panel(subconv->n_segments * subconv->depth, width));
	for (size_t i = 0; i < n; i++) {
		size_t channel = group * layout->n_out + (at + i) % layout->n_out, number = (at + i) / layout->n_out,
		       down = subconv->number[0], across = subconv->number[1];
		if (layout->is_joined) {
			down = number / stride[1];
			across = number % stride[1];
		}
		columns[i] = constants->filter;
		if (subconv->n_segments)
			columns[i] += ((channel * kernel[0] + down) * kernel[1] + across) * n_channels;
	}
	for (size_t tap = 0; tap < subconv->n_taps[0] * subconv->n_taps[1]; tap++) { /* in the pixels' order */
		size_t down = subconv->n_taps[0] - 1 - tap / subconv->n_taps[1],
		       across = subconv->n_taps[1] - 1 - tap % subconv->n_taps[1];
		pack_tap(columns, (down * stride[0] * kernel[1] + across * stride[1]) * n_channels, n_channels, n,
			tap / n_run * subconv->depth + tap % n_run * n_channels, width, to + 12 * width, sums);
	}
	for (size_t i = 0; i < n; i++) {
		size_t channel = group * layout->n_out + (at + i) % layout->n_out;
		float scale = constants->scales ? constants->scales[channel] : constants->scale;
		scale = constants->in_scale * scale / constants->out_scale;
		uint32_t offset = sums[i] * (uint32_t)constants->zero -
				  (constants->bias ? (uint32_t)constants->bias[channel] : 0);
		memcpy(to + 4 * i, &offset, sizeof(offset));
		memcpy(to + 4 * width + 4 * i, &scale, sizeof(scale));
	}
}

static void pack_group(const struct layout *layout, const struct subconv *subconv, const struct constants *constants,
	size_t group, uint8_t *to)
{
	for (size_t at = 0, width; at < subconv->n_columns; at += width) {
		width = et_xnn_gemm_qs8_width(at, subconv->n_columns);
		pack_panel(layout, subconv, constants, group, at, width, to);
		to += et_xnn_gemm_qs8_panel(subconv->n_segments * subconv->depth, width);
	}
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *packed)
{
	const struct layout layout = layout_of(node);
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *filter = &payload->values[node->inputs[1]];
	const void *bias = node->inputs[2] == ET_XNN_NONE ? NULL : payload->values[node->inputs[2]].data;
	const struct constants constants = {
		.filter = (const int8_t *)filter->data,
		.bias = bias,
		.scales = filter->quant == ET_XNN_QUANT_CHANNEL ? filter->scales : NULL,
		.scale = filter->scale,
		.in_scale = in->scale,
		.out_scale = payload->values[node->outputs[0]].scale,
		.zero = in->zero_point + 128,
	};
	uint8_t *to = packed;
	bool has_empty = false;
	for (size_t i = 0; i < n_subconvs(&layout, 0) * n_subconvs(&layout, 1); i++) {
		const struct subconv subconv = subconv_of(&layout, i / n_subconvs(&layout, 1),
			i % n_subconvs(&layout, 1));
		if (is_repeated(&subconv, &has_empty))
			continue;
		for (size_t group = 0; group < layout.groups; group++, to += size_of(&subconv))
			pack_group(&layout, &subconv, &constants, group, to);
	}
}

/* --- running -------------------------------------------------------------------------------------------- */

struct images {
	struct layout layout;
	const struct et_xnn_gemm_qs8_build *build;
	const uint8_t *in, *packed;
	uint8_t *out;
	size_t in_size[2], out_size[2], pad[2];
	size_t first_step[2], n_steps[2];
	uint8_t zero, out_zero; /* the zero points, made unsigned */
	float min, max;         /* of outputs, less their zero point */
	struct et_xnn_row_scale scales[ROWS];
};

/* Some steps, and the pixels that they read. */
struct tile {
	size_t begin[2], end[2]; /* steps */
	size_t width;            /* pixels of a line */
	const uint8_t *bytes;
	size_t image;
};

/* Between signed (-128 to 127) and unsigned (0 to 255). */
static void flip_sign(const uint8_t *from, size_t n, uint8_t *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = from[i] ^ 0x80;
}

static void fill_tile(const struct images *images, const struct tile *tile, uint8_t *to)
{
	const struct layout *layout = &images->layout;
	const size_t pixel = layout->groups * layout->channels, width = images->in_size[1],
		     behind[2] = { layout->most_taps[0] - 1, layout->most_taps[1] - 1 };
	/* The tile's columns @left to @right are pixels of the image. */
	size_t left = tile->begin[1] < behind[1] ? behind[1] - tile->begin[1] : 0,
	       right = width + behind[1] > tile->begin[1] ? width + behind[1] - tile->begin[1] : 0;
	right = right < tile->width ? right : tile->width;
	for (size_t step = tile->begin[0]; step < tile->end[0] + behind[0]; step++) {
		if (step < behind[0] || step - behind[0] >= images->in_size[0] || left >= right) {
			memset(to, images->zero, tile->width * pixel);
			to += tile->width * pixel;
			continue;
		}
		const size_t row = tile->image * images->in_size[0] + step - behind[0];
		memset(to, images->zero, left * pixel);
		flip_sign(images->in + (row * width + tile->begin[1] + left - behind[1]) * pixel,
			(right - left) * pixel, to + left * pixel);
		memset(to + right * pixel, images->zero, (tile->width - right) * pixel);
		to += tile->width * pixel;
	}
	memset(to, 0, SPARE_BYTES); /* what a segment that is filled up reads behind the tile */
}

/* Narrow @tile to the steps of that subconvolution, and move its bytes to where the first window begins. False: it
 * has no step there. */
static bool narrow(const struct images *images, const struct subconv *subconv, struct tile *tile)
{
	const struct layout *layout = &images->layout;
	const size_t pixel = layout->groups * layout->channels;
	for (int axis = 0; axis < 2; axis++) {
		const struct et_xnn_subconv_steps steps = et_xnn_subconv_steps(layout->stride[axis], images->pad[axis],
			subconv->number[axis], 0, images->out_size[axis]);
		size_t begin = tile->begin[axis], n_taps = subconv->n_taps[axis] ? subconv->n_taps[axis] : 1;
		if (!layout->is_joined && steps.first > begin)
			tile->begin[axis] = steps.first;
		if (!layout->is_joined && steps.first + steps.n < tile->end[axis])
			tile->end[axis] = steps.first + steps.n;
		if (tile->begin[axis] >= tile->end[axis])
			return false;
		tile->bytes += (tile->begin[axis] - begin + layout->most_taps[axis] - n_taps) *
			       (axis ? pixel : tile->width * pixel);
	}
	return true;
}

/* Where the output of that subconvolution and step goes. */
static uint8_t *place_of_output(const struct images *images, const struct tile *tile, const struct subconv *subconv,
	size_t y, size_t x)
{
	const struct layout *layout = &images->layout;
	size_t row = y * layout->stride[0] + subconv->number[0] - images->pad[0],
	       column = x * layout->stride[1] + subconv->number[1] - images->pad[1];
	row += tile->image * images->out_size[0];
	return images->out + (row * images->out_size[1] + column) * layout->groups * layout->n_out;
}

/* All joined subconvolutions of the step at (@y, @x): a run of outputs in each of as many rows as the stride. */
static void put_joined(const struct images *images, const struct tile *tile, size_t group, const uint8_t *from,
	size_t y, size_t x)
{
	const struct layout *layout = &images->layout;
	const size_t n_out = layout->n_out, pixel = layout->groups * n_out, *stride = layout->stride,
		     *size = images->out_size, *pad = images->pad;
	for (size_t i = 0; i < stride[0]; i++) {
		size_t row = y * stride[0] + i;
		if (row < pad[0] || row - pad[0] >= size[0])
			continue;
		uint8_t *line = images->out + (tile->image * size[0] + row - pad[0]) * size[1] * pixel + group * n_out;
		size_t first = x * stride[1], begin = first < pad[1] ? pad[1] - first : 0,
		       end = size[1] + pad[1] - first < stride[1] ? size[1] + pad[1] - first : stride[1];
		if (layout->groups == 1) {
			flip_sign(from + (i * stride[1] + begin) * n_out, (end - begin) * n_out,
				line + (first + begin - pad[1]) * pixel);
			continue;
		}
		for (size_t j = begin; j < end; j++)
			flip_sign(from + (i * stride[1] + j) * n_out, n_out, line + (first + j - pad[1]) * pixel);
	}
}

/* What came out for @n windows of a tile from number @first on, of columns @left to @left + @n_columns. */
struct results {
	size_t first, n, left, n_columns;
	const uint8_t *bytes;
};

static void put(const struct images *images, const struct tile *tile, const struct subconv *subconv, size_t group,
	const struct results *results)
{
	const struct layout *layout = &images->layout;
	const size_t n_across = tile->end[1] - tile->begin[1], n_columns = results->n_columns;
	/* Whether outputs follow each other in memory as results do. */
	bool is_run = layout->groups == 1 && layout->stride[1] == 1 && n_columns == layout->n_out;
	size_t y = tile->begin[0] + results->first / tile->width, x = results->first % tile->width;
	for (size_t i = 0, n; i < results->n; i += n) {
		const uint8_t *from = results->bytes + i * n_columns;
		size_t left = x < n_across ? n_across - x : tile->width - x;
		left = left < results->n - i ? left : results->n - i;
		n = x < n_across && !is_run ? 1 : left;
		if (x < n_across && layout->is_joined)
			put_joined(images, tile, group, from, y, tile->begin[1] + x);
		else if (x < n_across)
			flip_sign(from, n * n_columns,
				place_of_output(images, tile, subconv, y, tile->begin[1] + x) + group * layout->n_out +
					results->left);
		x += n;
		y += x == tile->width;
		x = x == tile->width ? 0 : x;
	}
}

/* All steps of a tile that was narrowed to that subconvolution. */
static void run_subconv(const struct images *images, const struct tile *tile, const struct subconv *subconv,
	size_t group, const uint8_t *packed)
{
	alignas(64) float floats[ROWS * COLUMNS];
	alignas(64) uint8_t bytes[ROWS * COLUMNS];
	const struct layout *layout = &images->layout;
	const size_t pixel = layout->groups * layout->channels, n_line = tile->width * pixel;
	const size_t n = (tile->end[0] - tile->begin[0] - 1) * tile->width + tile->end[1] - tile->begin[1];
	struct et_xnn_gemm_qs8 job = {
		.n_segments = subconv->n_segments,
		.depth = subconv->depth,
		.in_stride = pixel,
		.segment_stride = layout->groups == 1 ? n_line : pixel,
		.line_stride = layout->groups == 1 ? 0 : n_line - subconv->n_taps[1] * pixel,
		.n_in_line = subconv->n_taps[1],
		.min = images->min,
		.max = images->max,
		.scales = images->scales,
		.out = floats,
	};
	struct results results = { .bytes = bytes };
	for (; results.first < n; results.first += results.n) {
		results.n = n - results.first < ROWS ? n - results.first : ROWS;
		job.in = tile->bytes + group * layout->channels + results.first * pixel;
		for (results.left = 0; results.left < subconv->n_columns; results.left += COLUMNS) {
			size_t left = subconv->n_columns - results.left;
			results.n_columns = left < COLUMNS ? left : COLUMNS;
			job.n_columns = job.out_stride = results.n_columns;
			job.packed = packed + et_xnn_gemm_qs8_panel(job.n_segments * job.depth, results.left);
			images->build->run(&job, 0, results.n, 0, results.n_columns);
			images->build->quantize(floats, results.n * results.n_columns, 1, images->out_zero, bytes);
			put(images, tile, subconv, group, &results);
		}
	}
}

/* A subconvolution without taps: all outputs are alike, so the first is computed and copied. */
static void run_empty(const struct images *images, const struct tile *tile, const struct subconv *subconv,
	const uint8_t *packed)
{
	const struct layout *layout = &images->layout;
	const size_t n_pixel = layout->groups * layout->n_out;
	struct tile one = *tile;
	for (int axis = 0; axis < 2; axis++)
		one.end[axis] = one.begin[axis] + 1;
	for (size_t group = 0; group < layout->groups; group++)
		run_subconv(images, &one, subconv, group, packed + group * size_of(subconv));
	const uint8_t *from = place_of_output(images, tile, subconv, one.begin[0], one.begin[1]);
	for (size_t y = tile->begin[0]; y < tile->end[0]; y++) {
		uint8_t *to = place_of_output(images, tile, subconv, y, tile->begin[1]);
		for (size_t x = tile->begin[1]; x < tile->end[1]; x++, to += layout->stride[1] * n_pixel)
			if (to != from)
				memcpy(to, from, n_pixel);
	}
}

static void run_tile(const struct images *images, const struct tile *tile)
{
	const struct layout *layout = &images->layout;
	const uint8_t *packed = images->packed, *empty = NULL;
	for (size_t i = 0; i < n_subconvs(layout, 0) * n_subconvs(layout, 1); i++) {
		const struct subconv subconv = subconv_of(layout, i / n_subconvs(layout, 1), i % n_subconvs(layout, 1));
		bool is_empty = subconv.n_segments == 0;
		const uint8_t *from = is_empty && empty ? empty : packed;
		struct tile part = *tile;
		bool is_there = narrow(images, &subconv, &part);
		for (size_t group = 0; group < layout->groups && is_there && !is_empty; group++)
			run_subconv(images, &part, &subconv, group, from + group * size_of(&subconv));
		if (is_there && is_empty)
			run_empty(images, &part, &subconv, from);
		if (is_empty)
			empty = from;
		if (from == packed)
			packed += layout->groups * size_of(&subconv);
	}
}

/* Steps @begin to @end down of all images. */
static void run_steps(void *arg, size_t begin, size_t end)
{
	alignas(64) uint8_t bytes[TILE_BYTES + SPARE_BYTES];
	const struct images *images = arg;
	const struct layout *layout = &images->layout;
	const size_t pixel = layout->groups * layout->channels, *taps = layout->most_taps;
	size_t most_pixels = TILE_BYTES / pixel, width = images->n_steps[1];
	if ((width + taps[1] - 1) * taps[0] > most_pixels)
		width = most_pixels / taps[0] - (taps[1] - 1);
	const size_t height = most_pixels / (width + taps[1] - 1) - (taps[0] - 1);
	for (size_t n; begin < end; begin += n) {
		size_t step = begin % images->n_steps[0], left = images->n_steps[0] - step;
		n = left < end - begin ? left : end - begin;
		n = n < height ? n : height;
		struct tile tile = { .image = begin / images->n_steps[0], .bytes = bytes };
		tile.begin[0] = images->first_step[0] + step;
		tile.end[0] = tile.begin[0] + n;
		for (size_t x = 0; x < images->n_steps[1]; x += width) {
			size_t n_across = images->n_steps[1] - x < width ? images->n_steps[1] - x : width;
			tile.begin[1] = images->first_step[1] + x;
			tile.end[1] = tile.begin[1] + n_across;
			tile.width = n_across + taps[1] - 1;
			fill_tile(images, &tile, bytes);
			run_tile(images, &tile);
		}
	}
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values, *result = &values[node->outputs[0]];
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	struct images images = {
		.layout = layout_of(node),
		.build = et_xnn_gemm_qs8_vectors(),
		.in = run->memory[node->inputs[0]],
		.packed = run->packed,
		.out = run->memory[node->outputs[0]],
		.in_size = { in[1], in[2] },
		.out_size = { out[1], out[2] },
		.pad = { node->numbers[ET_XNN_PAD_TOP], node->numbers[ET_XNN_PAD_LEFT] },
		.zero = (uint8_t)(values[node->inputs[0]].zero_point + 128),
		.out_zero = (uint8_t)(result->zero_point + 128),
		.min = et_xnn_limit_of_qs8(node->min, result),
		.max = et_xnn_limit_of_qs8(node->max, result),
	};
	for (size_t i = 0; i < ROWS; i++)
		images.scales[i] = (struct et_xnn_row_scale){ .scale = 1, .zero = 1 };
	for (int axis = 0; axis < 2; axis++) {
		size_t stride = images.layout.stride[axis], pad = images.pad[axis];
		images.first_step[axis] = pad / stride;
		images.n_steps[axis] = (images.out_size[axis] - 1 + pad) / stride - images.first_step[axis] + 1;
	}
	size_t of_step = images.layout.kernel[0] * images.layout.kernel[1] * in[2] * in[3] * images.layout.n_out;
	et_xnn_threads_parallel_for(run->threads, run_steps, &images, in[0] * images.n_steps[0], 1 + GRAIN / of_step);
}

const struct et_xnn_override et_xnn_override_deconv_qs8 = {
	.name = "deconv-qs8",
	.reason = "speed: a DCGAN's generator takes 0.46, a U-Net 0.53 of the original's time, 1.00 and 1.01 "
		  "without (AVX512-VNNI)",
	.takes = takes,
	.is_of_bytes = true,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
