/* Transposed convolutions of 8-bit integers, as products by phases (own_deconvolution.c) of what gemm8.h multiplies.
 *
 * Of a part of the picture a sheet is made: its pixels, made unsigned, with what stands for zero around them. A window's row of taps is
 * a run of bytes there, and windows follow each other pixel by pixel through all lines of the sheet, so that small pictures fill
 * tiles, too; those that begin near the end of a line, and are none, are computed for nothing.
 *
 * Where all phases have as many taps, and channels are few, all of them are one product of as many columns, which fills vectors.
 *
 * Sums are exact. What a zero point adds to each is in the column's sum, and so is the bias, so that what comes out of
 * gemm8.h is the sum times its scale, as in XNNPACK; it is rounded as there, and results are XNNPACK's to the bit. XNNPACK packs its
 * filter for each context anew; here it is done once for a Program (weights.h). Left to it are gaps, unsigned ones, and filters that
 * would become far larger. */
#include "delegates/xnnpack/own.h"

#include "delegates/xnnpack/gemm8.h"
#include "runtime/base/checked.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

enum {
	CHEAPER = 4,         /* a product is, than one of floats */
	WORK_OF_OUTPUT = 16, /* products */
	GRAIN = 1 << 19,     /* products that are worth another thread's while */
	MOST_PHASES = 64,
	MOST_JOINED = 64,       /* columns */
	ROWS = 112,             /* windows at once: whole tiles */
	COLUMNS = 64,           /* of these, at once: whole panels */
	SHEET_BYTES = 96 << 10, /* of the stack */
	SPARE_BYTES = 2 * ET_GEMM8_SEGMENT,
	PACKED_AT_MOST = 64 << 10, /* or four times the filter */
};

/* What decides how the filter is packed. Down, across. */
struct layout {
	size_t kernel[2], stride[2];
	size_t groups, channels, n_out; /* of a group */
	size_t most_taps[2];            /* of a phase */
	bool is_joined;
};

/* A phase; or all of them. */
struct phase {
	size_t number[2];
	size_t n_taps[2];
	size_t n_columns;
	size_t n_segments, depth; /* as gemm8.h has them */
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
		layout.most_taps[axis] =
			(layout.kernel[axis] + layout.stride[axis] - 1) / layout.stride[axis];
		are_alike = are_alike && layout.kernel[axis] % layout.stride[axis] == 0;
	}
	size_t n_phases = layout.stride[0] * layout.stride[1];
	layout.is_joined =
		n_phases > 1 && are_alike && n_phases * layout.n_out <= MOST_JOINED &&
		align_up(n_phases * layout.n_out, 16) * 5 <= n_phases * align_up(layout.n_out, 16) * 4;
	return layout;
}

static size_t n_phases(const struct layout *layout, int axis)
{
	return layout->is_joined ? 1 : layout->stride[axis];
}

static struct phase phase_of(const struct layout *layout, size_t down, size_t across)
{
	struct phase phase = { .number = { down, across }, .n_columns = layout->n_out };
	for (int axis = 0; axis < 2; axis++) {
		size_t kernel = layout->kernel[axis], stride = layout->stride[axis],
		       number = phase.number[axis];
		phase.n_taps[axis] = number < kernel ? (kernel - number + stride - 1) / stride : 0;
	}
	if (layout->is_joined)
		phase.n_columns *= layout->stride[0] * layout->stride[1];
	if (phase.n_taps[0] == 0 || phase.n_taps[1] == 0)
		phase.n_taps[0] = phase.n_taps[1] = 0;
	bool is_run = layout->groups == 1;
	phase.n_segments = is_run ? phase.n_taps[0] : phase.n_taps[0] * phase.n_taps[1];
	phase.depth = align_up((is_run ? phase.n_taps[1] : 1) * layout->channels, ET_GEMM8_SEGMENT);
	return phase;
}

/* Bytes of one group of it. */
static size_t size_of(const struct phase *phase)
{
	return et_xnn_gemm8_panel(phase->n_segments * phase->depth, align_up(phase->n_columns, 16));
}

/* Phases without taps are alike: the first of them is packed. */
static bool is_repeated(const struct phase *phase, bool *has_empty)
{
	bool is_empty = phase->n_segments == 0, is = is_empty && *has_empty;
	*has_empty = *has_empty || is_empty;
	return is;
}

static size_t n_packed(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct layout layout = layout_of(node);
	size_t n = 0;
	bool has_empty = false;
	(void)payload;
	for (size_t i = 0; i < n_phases(&layout, 0) * n_phases(&layout, 1); i++) {
		const struct phase phase =
			phase_of(&layout, i / n_phases(&layout, 1), i % n_phases(&layout, 1));
		size_t n_more;
		if (is_repeated(&phase, &has_empty))
			continue;
		if (!et_mul(size_of(&phase), layout.groups, &n_more) || !et_add(n, n_more, &n))
			return SIZE_MAX;
	}
	return n;
}

static bool is_signed(const struct et_xnn_value *value)
{
	return value->type == ET_XNN_QINT8 && value->quant == ET_XNN_QUANT_TENSOR;
}

static bool fits_types(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]],
				  *filter = &payload->values[node->inputs[1]],
				  *bias = node->inputs[2] == ET_XNN_NONE ? NULL
									 : &payload->values[node->inputs[2]];
	bool is_by_channel = filter->type == ET_XNN_QCINT8 && filter->quant == ET_XNN_QUANT_CHANNEL &&
			     filter->channel_dim == 0 && filter->n_scales == filter->shape.dims[0];
	return is_signed(in) && !in->data && is_signed(&payload->values[node->outputs[0]]) && filter->data &&
	       (is_by_channel || (is_signed(filter) && filter->zero_point == 0)) &&
	       (!bias || (bias->data && (bias->type == ET_XNN_QINT32 || bias->type == ET_XNN_QCINT32)));
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	if (node->kind->infer != et_xnn_infer_deconvolution || node->flags || !et_xnn_gemm8_vectors() ||
		n[ET_XNN_DILATION_H] != 1 || n[ET_XNN_DILATION_W] != 1 || !fits_types(payload, node) ||
		(uint64_t)n[ET_XNN_STRIDE_H] * n[ET_XNN_STRIDE_W] > MOST_PHASES)
		return false;
	const struct layout layout = layout_of(node);
	const struct et_xnn_value *filter = &payload->values[node->inputs[1]],
				  *out = &payload->values[node->outputs[0]];
	size_t n_window, products = 0, of_output = layout.most_taps[0] * layout.most_taps[1];
	size_t most_packed = filter->n_bytes * 4;
	most_packed = most_packed > PACKED_AT_MOST ? most_packed : PACKED_AT_MOST;
	if (!et_mul(layout.most_taps[0] * layout.most_taps[1], layout.groups, &n_window) ||
		!et_mul(n_window, layout.channels, &n_window) || n_window > SHEET_BYTES ||
		n_packed(payload, node) > most_packed)
		return false;
	of_output = of_output * layout.channels + WORK_OF_OUTPUT;
	products = of_output;
	for (uint32_t i = 0; i < out->shape.n_dims; i++)
		if (!et_mul(products, out->shape.dims[i], &products))
			return false;
	return et_xnn_own_is_worth(products / CHEAPER);
}

/* --- packing -------------------------------------------------------------------------------------------- */

/* What of a node's constants a column is made of. */
struct constants {
	const int8_t *filter; /* [groups * n_out][kernel][kernel][channels] */
	const int32_t *bias;  /* [groups * n_out], or NULL */
	const float *scales;  /* the same, or NULL: @scale */
	float scale;
	float in_scale, out_scale;
	int32_t zero; /* of what is made unsigned */
};

/* Of @n columns the weights of one tap, @n_channels from @offset behind their first ones on, to row @row of a panel's weights; and what
 * they add up to. A cache line of each column at a time: columns that lie a power of two apart would push each other out. */
static void pack_tap(const int8_t *const *columns, size_t offset, size_t n_channels, size_t n, size_t row,
	size_t width, uint8_t *weights, uint32_t *sums)
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

/* The panel of columns from @at on. */
static void pack_panel(const struct layout *layout, const struct phase *phase,
	const struct constants *constants, size_t group, size_t at, size_t width, uint8_t *to)
{
	const size_t *kernel = layout->kernel, *stride = layout->stride, n_channels = layout->channels,
		     n_run = layout->groups == 1 ? phase->n_taps[1] : 1,
		     n = phase->n_columns - at < width ? phase->n_columns - at : width;
	const int8_t *columns[ET_GEMM8_PANEL];
	uint32_t sums[ET_GEMM8_PANEL] = { 0 };
	bool is_full = n == width && phase->depth == n_run * n_channels;
	memset(to, 0, is_full ? 12 * width : et_xnn_gemm8_panel(phase->n_segments * phase->depth, width));
	for (size_t i = 0; i < n; i++) {
		size_t channel = group * layout->n_out + (at + i) % layout->n_out,
		       number = (at + i) / layout->n_out, down = phase->number[0], across = phase->number[1];
		if (layout->is_joined) {
			down = number / stride[1];
			across = number % stride[1];
		}
		columns[i] = constants->filter;
		if (phase->n_segments)
			columns[i] += ((channel * kernel[0] + down) * kernel[1] + across) * n_channels;
	}
	for (size_t tap = 0; tap < phase->n_taps[0] * phase->n_taps[1];
		tap++) { /* in the order of the pixels */
		size_t down = phase->n_taps[0] - 1 - tap / phase->n_taps[1],
		       across = phase->n_taps[1] - 1 - tap % phase->n_taps[1];
		pack_tap(columns, (down * stride[0] * kernel[1] + across * stride[1]) * n_channels,
			n_channels, n, tap / n_run * phase->depth + tap % n_run * n_channels, width,
			to + 12 * width, sums);
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

static void pack_group(const struct layout *layout, const struct phase *phase,
	const struct constants *constants, size_t group, uint8_t *to)
{
	for (size_t at = 0, width; at < phase->n_columns; at += width) {
		width = et_xnn_gemm8_width(at, phase->n_columns);
		pack_panel(layout, phase, constants, group, at, width, to);
		to += et_xnn_gemm8_panel(phase->n_segments * phase->depth, width);
	}
}

static void pack(const struct et_xnn_payload *payload, const struct et_xnn_node *node, void *packed)
{
	const struct layout layout = layout_of(node);
	const struct et_xnn_value *in = &payload->values[node->inputs[0]],
				  *filter = &payload->values[node->inputs[1]];
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
	for (size_t i = 0; i < n_phases(&layout, 0) * n_phases(&layout, 1); i++) {
		const struct phase phase =
			phase_of(&layout, i / n_phases(&layout, 1), i % n_phases(&layout, 1));
		if (is_repeated(&phase, &has_empty))
			continue;
		for (size_t group = 0; group < layout.groups; group++, to += size_of(&phase))
			pack_group(&layout, &phase, &constants, group, to);
	}
}

/* --- running -------------------------------------------------------------------------------------------- */

/* An output at o is of the phase (o + pad) % stride, and of step (o + pad) ÷ stride: what comes of the pixel with that
 * number, if there is one, and those before. */
struct pictures {
	struct layout layout;
	const struct et_xnn_gemm8_build *build;
	const uint8_t *in, *packed;
	uint8_t *out;
	size_t in_size[2], out_size[2], pad[2];
	size_t first_step[2], n_steps[2];
	uint8_t zero, out_zero; /* of what is made unsigned */
	float min, max;         /* of what comes out, less its zero point */
	struct et_xnn_row_scale scales[ROWS];
};

/* Some steps, and the pixels that they look at. */
struct sheet {
	size_t begin[2], end[2]; /* steps */
	size_t width;            /* pixels of a line */
	const uint8_t *bytes;
	size_t image;
};

/* Which number a byte is changes its sign: between -128 to 127 and 0 to 255. */
static void turn(const uint8_t *from, size_t n, uint8_t *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = from[i] ^ 0x80;
}

static void fill_sheet(const struct pictures *pictures, const struct sheet *sheet, uint8_t *to)
{
	const struct layout *layout = &pictures->layout;
	const size_t pixel = layout->groups * layout->channels, width = pictures->in_size[1],
		     behind[2] = { layout->most_taps[0] - 1, layout->most_taps[1] - 1 };
	/* Pixels that are there: of the sheet's columns those from @left to @right. */
	size_t left = sheet->begin[1] < behind[1] ? behind[1] - sheet->begin[1] : 0,
	       right = width + behind[1] > sheet->begin[1] ? width + behind[1] - sheet->begin[1] : 0;
	right = right < sheet->width ? right : sheet->width;
	for (size_t step = sheet->begin[0]; step < sheet->end[0] + behind[0]; step++) {
		if (step < behind[0] || step - behind[0] >= pictures->in_size[0] || left >= right) {
			memset(to, pictures->zero, sheet->width * pixel);
			to += sheet->width * pixel;
			continue;
		}
		const size_t row = sheet->image * pictures->in_size[0] + step - behind[0];
		memset(to, pictures->zero, left * pixel);
		turn(pictures->in + (row * width + sheet->begin[1] + left - behind[1]) * pixel,
			(right - left) * pixel, to + left * pixel);
		memset(to + right * pixel, pictures->zero, (sheet->width - right) * pixel);
		to += sheet->width * pixel;
	}
	memset(to, 0, SPARE_BYTES); /* what a window that is filled up reads behind it */
}

/* What of a sheet's steps are of that phase, whose windows begin at its bytes then. False: none. */
static bool narrow(const struct pictures *pictures, const struct phase *phase, struct sheet *sheet)
{
	const struct layout *layout = &pictures->layout;
	const size_t pixel = layout->groups * layout->channels;
	for (int axis = 0; axis < 2; axis++) {
		size_t stride = layout->stride[axis], pad = pictures->pad[axis], number = phase->number[axis],
		       end = pictures->out_size[axis] + pad, begin = sheet->begin[axis],
		       n_taps = phase->n_taps[axis] ? phase->n_taps[axis] : 1;
		size_t first = pad > number ? (pad - number + stride - 1) / stride : 0,
		       last = end > number ? (end - number + stride - 1) / stride : 0;
		if (!layout->is_joined && first > begin)
			sheet->begin[axis] = first;
		if (!layout->is_joined && last < sheet->end[axis])
			sheet->end[axis] = last;
		if (sheet->begin[axis] >= sheet->end[axis])
			return false;
		sheet->bytes += (sheet->begin[axis] - begin + layout->most_taps[axis] - n_taps) *
				(axis ? pixel : sheet->width * pixel);
	}
	return true;
}

/* Where the output of that phase and step goes. */
static uint8_t *place_of_output(const struct pictures *pictures, const struct sheet *sheet,
	const struct phase *phase, size_t y, size_t x)
{
	const struct layout *layout = &pictures->layout;
	size_t row = y * layout->stride[0] + phase->number[0] - pictures->pad[0],
	       column = x * layout->stride[1] + phase->number[1] - pictures->pad[1];
	row += sheet->image * pictures->out_size[0];
	return pictures->out + (row * pictures->out_size[1] + column) * layout->groups * layout->n_out;
}

/* All phases of the step at (@y, @x): a run of outputs in each of as many rows as a stride has. */
static void put_joined(const struct pictures *pictures, const struct sheet *sheet, size_t group,
	const uint8_t *from, size_t y, size_t x)
{
	const struct layout *layout = &pictures->layout;
	const size_t n_out = layout->n_out, pixel = layout->groups * n_out, *stride = layout->stride,
		     *size = pictures->out_size, *pad = pictures->pad;
	for (size_t i = 0; i < stride[0]; i++) {
		size_t row = y * stride[0] + i;
		if (row < pad[0] || row - pad[0] >= size[0])
			continue;
		uint8_t *line = pictures->out + (sheet->image * size[0] + row - pad[0]) * size[1] * pixel +
				group * n_out;
		size_t first = x * stride[1], begin = first < pad[1] ? pad[1] - first : 0,
		       end = size[1] + pad[1] - first < stride[1] ? size[1] + pad[1] - first : stride[1];
		if (layout->groups == 1) {
			turn(from + (i * stride[1] + begin) * n_out, (end - begin) * n_out,
				line + (first + begin - pad[1]) * pixel);
			continue;
		}
		for (size_t j = begin; j < end; j++)
			turn(from + (i * stride[1] + j) * n_out, n_out, line + (first + j - pad[1]) * pixel);
	}
}

/* @n of the windows that follow each other through a sheet, from the one numbered @first on, and what came out for @n_columns of
 * their columns from @left on. */
struct results {
	size_t first, n, left, n_columns;
	const uint8_t *bytes;
};

static void put(const struct pictures *pictures, const struct sheet *sheet, const struct phase *phase,
	size_t group, const struct results *results)
{
	const struct layout *layout = &pictures->layout;
	const size_t n_across = sheet->end[1] - sheet->begin[1], n_columns = results->n_columns;
	/* Whether outputs follow each other as they do here. */
	bool is_run = layout->groups == 1 && layout->stride[1] == 1 && n_columns == layout->n_out;
	size_t y = sheet->begin[0] + results->first / sheet->width, x = results->first % sheet->width;
	for (size_t i = 0, n; i < results->n; i += n) {
		const uint8_t *from = results->bytes + i * n_columns;
		size_t left = x < n_across ? n_across - x : sheet->width - x;
		left = left < results->n - i ? left : results->n - i;
		n = x < n_across && !is_run ? 1 : left;
		if (x < n_across && layout->is_joined)
			put_joined(pictures, sheet, group, from, y, sheet->begin[1] + x);
		else if (x < n_across)
			turn(from, n * n_columns,
				place_of_output(pictures, sheet, phase, y, sheet->begin[1] + x) +
					group * layout->n_out + results->left);
		x += n;
		y += x == sheet->width;
		x = x == sheet->width ? 0 : x;
	}
}

/* All steps of the sheet, which are of that phase. */
static void run_phase(const struct pictures *pictures, const struct sheet *sheet, const struct phase *phase,
	size_t group, const uint8_t *packed)
{
	alignas(64) float floats[ROWS * COLUMNS];
	alignas(64) uint8_t bytes[ROWS * COLUMNS];
	const struct layout *layout = &pictures->layout;
	const size_t pixel = layout->groups * layout->channels, n_line = sheet->width * pixel;
	const size_t n =
		(sheet->end[0] - sheet->begin[0] - 1) * sheet->width + sheet->end[1] - sheet->begin[1];
	struct et_xnn_gemm8 job = {
		.n_segments = phase->n_segments,
		.depth = phase->depth,
		.in_stride = pixel,
		.segment_stride = layout->groups == 1 ? n_line : pixel,
		.line_stride = layout->groups == 1 ? 0 : n_line - phase->n_taps[1] * pixel,
		.n_in_line = phase->n_taps[1],
		.min = pictures->min,
		.max = pictures->max,
		.scales = pictures->scales,
		.out = floats,
	};
	struct results results = { .bytes = bytes };
	for (; results.first < n; results.first += results.n) {
		results.n = n - results.first < ROWS ? n - results.first : ROWS;
		job.in = sheet->bytes + group * layout->channels + results.first * pixel;
		for (results.left = 0; results.left < phase->n_columns; results.left += COLUMNS) {
			size_t left = phase->n_columns - results.left;
			results.n_columns = left < COLUMNS ? left : COLUMNS;
			job.n_columns = job.out_stride = results.n_columns;
			job.packed = packed + et_xnn_gemm8_panel(job.n_segments * job.depth, results.left);
			pictures->build->run(&job, 0, results.n, 0, results.n_columns);
			pictures->build->quantize(
				floats, results.n * results.n_columns, 1, pictures->out_zero, bytes);
			put(pictures, sheet, phase, group, &results);
		}
	}
}

/* Of a phase without taps all outputs are alike: the first is made, the others are its copies. */
static void run_empty(const struct pictures *pictures, const struct sheet *sheet, const struct phase *phase,
	const uint8_t *packed)
{
	const struct layout *layout = &pictures->layout;
	const size_t n_pixel = layout->groups * layout->n_out;
	struct sheet one = *sheet;
	for (int axis = 0; axis < 2; axis++)
		one.end[axis] = one.begin[axis] + 1;
	for (size_t group = 0; group < layout->groups; group++)
		run_phase(pictures, &one, phase, group, packed + group * size_of(phase));
	const uint8_t *from = place_of_output(pictures, sheet, phase, one.begin[0], one.begin[1]);
	for (size_t y = sheet->begin[0]; y < sheet->end[0]; y++) {
		uint8_t *to = place_of_output(pictures, sheet, phase, y, sheet->begin[1]);
		for (size_t x = sheet->begin[1]; x < sheet->end[1]; x++, to += layout->stride[1] * n_pixel)
			if (to != from)
				memcpy(to, from, n_pixel);
	}
}

static void run_sheet(const struct pictures *pictures, const struct sheet *sheet)
{
	const struct layout *layout = &pictures->layout;
	const uint8_t *packed = pictures->packed, *empty = NULL;
	for (size_t i = 0; i < n_phases(layout, 0) * n_phases(layout, 1); i++) {
		const struct phase phase = phase_of(layout, i / n_phases(layout, 1), i % n_phases(layout, 1));
		bool is_empty = phase.n_segments == 0;
		const uint8_t *from = is_empty && empty ? empty : packed;
		struct sheet part = *sheet;
		bool is_there = narrow(pictures, &phase, &part);
		for (size_t group = 0; group < layout->groups && is_there && !is_empty; group++)
			run_phase(pictures, &part, &phase, group, from + group * size_of(&phase));
		if (is_there && is_empty)
			run_empty(pictures, &part, &phase, from);
		if (is_empty)
			empty = from;
		if (from == packed)
			packed += layout->groups * size_of(&phase);
	}
}

/* Steps down of all pictures, one after the other. */
static void run_steps(void *arg, size_t begin, size_t end)
{
	alignas(64) uint8_t bytes[SHEET_BYTES + SPARE_BYTES];
	const struct pictures *pictures = arg;
	const struct layout *layout = &pictures->layout;
	const size_t pixel = layout->groups * layout->channels, *taps = layout->most_taps;
	size_t most_pixels = SHEET_BYTES / pixel, width = pictures->n_steps[1];
	if ((width + taps[1] - 1) * taps[0] > most_pixels)
		width = most_pixels / taps[0] - (taps[1] - 1);
	const size_t height = most_pixels / (width + taps[1] - 1) - (taps[0] - 1);
	for (size_t n; begin < end; begin += n) {
		size_t step = begin % pictures->n_steps[0], left = pictures->n_steps[0] - step;
		n = left < end - begin ? left : end - begin;
		n = n < height ? n : height;
		struct sheet sheet = { .image = begin / pictures->n_steps[0], .bytes = bytes };
		sheet.begin[0] = pictures->first_step[0] + step;
		sheet.end[0] = sheet.begin[0] + n;
		for (size_t x = 0; x < pictures->n_steps[1]; x += width) {
			size_t n_across = pictures->n_steps[1] - x < width ? pictures->n_steps[1] - x : width;
			sheet.begin[1] = pictures->first_step[1] + x;
			sheet.end[1] = sheet.begin[1] + n_across;
			sheet.width = n_across + taps[1] - 1;
			fill_sheet(pictures, &sheet, bytes);
			run_sheet(pictures, &sheet);
		}
	}
}

/* As XNNPACK rounds a limit; less the zero point. */
static float limit_of(float limit, const struct et_xnn_value *out)
{
	float place = limit / out->scale + (float)out->zero_point;
	place = fminf(fmaxf(place, INT8_MIN), INT8_MAX);
	return rintf(place) - (float)out->zero_point;
}

static void run(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values, *result = &values[node->outputs[0]];
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	struct pictures pictures = {
		.layout = layout_of(node),
		.build = et_xnn_gemm8_vectors(),
		.in = run->memory[node->inputs[0]],
		.packed = run->packed,
		.out = run->memory[node->outputs[0]],
		.in_size = { in[1], in[2] },
		.out_size = { out[1], out[2] },
		.pad = { node->numbers[ET_XNN_PAD_TOP], node->numbers[ET_XNN_PAD_LEFT] },
		.zero = (uint8_t)(values[node->inputs[0]].zero_point + 128),
		.out_zero = (uint8_t)(result->zero_point + 128),
		.min = limit_of(node->min, result),
		.max = limit_of(node->max, result),
	};
	for (size_t i = 0; i < ROWS; i++)
		pictures.scales[i] = (struct et_xnn_row_scale){ .scale = 1, .zero = 1 };
	for (int axis = 0; axis < 2; axis++) {
		size_t stride = pictures.layout.stride[axis], pad = pictures.pad[axis];
		pictures.first_step[axis] = pad / stride;
		pictures.n_steps[axis] =
			(pictures.out_size[axis] - 1 + pad) / stride - pictures.first_step[axis] + 1;
	}
	size_t of_step =
		pictures.layout.kernel[0] * pictures.layout.kernel[1] * in[2] * in[3] * pictures.layout.n_out;
	et_xnn_lane_parallel_for(
		run->lane, run_steps, &pictures, in[0] * pictures.n_steps[0], 1 + GRAIN / of_step);
}

const struct et_xnn_own et_xnn_own_deconvolution8 = {
	.name = "Deconvolution (NHWC, QS8), by phases",
	.takes = takes,
	.is_of_bytes = true,
	.n_packed = n_packed,
	.pack = pack,
	.run = run,
};
