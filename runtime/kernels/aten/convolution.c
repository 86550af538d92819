/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution in one, two or three dimensions, transposed or not, with groups and dilation, in any dim order.
 *
 * Everything is seen as three-dimensional; missing dimensions have size 1. There are four ways:
 *     depthwise   one input and one output channel for each group: a stencil over whole planes or, in channels
 *                 last, whole pixels multiplied and added;
 *     gemm        all other convolutions that are not transposed: the weight times the im2col matrix, whose columns
 *                 hold the input pixels under the kernel; its panels are made when et_gemm asks for them;
 *     subconvs    transposed: the outputs that are a stride apart are a convolution with some of the kernel's
 *                 positions, which goes one of the two ways above;
 *     plain       double and integers (convolution_reference.c). The tests compare the fast ways with this one.
 * fp16 and bf16 are computed on float copies, except for short sums, which are rounded after each operation as in
 * ExecuTorch (convolution_fp16.c). A transposed convolution in 3-D, which only PyTorch defines, is rounded where
 * PyTorch does: it adds the contributions of the kernel positions up in the output. */
#include "runtime/kernels/aten/convolution.h"

#include "runtime/kernels/engine/gemm.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/kernels.h"

static int64_t kernel_size(const struct et_conv *c)
{
	return c->kernel[0] * c->kernel[1] * c->kernel[2];
}

/* --- depthwise ------------------------------------------------------------------------------------ */

enum {
	MAX_TAPS = 1024,
	PLANE_ROOM = 12288, /* floats of an input band, on the stack */
	BAND_ROOM = 8192,   /* floats of an output band */
};

/* A copy of input rows in which each kernel position is a fixed distance from an output position. It is padded, and a
 * stride s splits it into s times s planes of every s-th row and column. An output row is then as wide as a row of such
 * a plane; elements beyond its real width are not used. */
struct layout {
	int64_t width, height; /* of one such plane, for the whole input */
	int64_t reach;         /* rows of a plane that one output row needs */
	size_t n_taps;
	bool is_input; /* the input itself is already such a plane */
};

/* Kernel position @k of dimension @d: which plane it reads, and at which distance. */
static int64_t plane_of(const struct et_conv *c, size_t d, int64_t k)
{
	return k * c->dilation[d] % c->stride[d];
}

static int64_t step_of(const struct et_conv *c, size_t d, int64_t k)
{
	return k * c->dilation[d] / c->stride[d];
}

static bool make_layout(const struct et_conv *c, struct layout *l)
{
	l->n_taps = (size_t)(c->kernel[1] * c->kernel[2]);
	/* Only one plane deep; a subconv of a transposed convolution may be deeper than its input. */
	if (c->kernel[0] != 1 || c->in[0] != 1 || c->padding[0] != 0 || c->out[0] != 1 || l->n_taps > MAX_TAPS ||
		c->stride[1] > PLANE_ROOM || c->stride[2] > PLANE_ROOM)
		return false;
	l->reach = step_of(c, 1, c->kernel[1] - 1) + 1;
	l->width = c->out[2] + step_of(c, 2, c->kernel[2] - 1);
	l->height = c->out[1] + l->reach - 1;
	/* The subconv of a transposed convolution may reach beyond its input's end, or not use all of it. */
	l->is_input = c->stride[1] == 1 && c->stride[2] == 1 && c->padding[1] == 0 && c->padding[2] == 0 &&
		      c->x.strides[3] == c->in[2] && l->width <= c->in[2] && l->height <= c->in[1] &&
		      c->in[2] <= BAND_ROOM;
	return l->width <= BAND_ROOM && l->reach <= PLANE_ROOM &&
	       l->reach * l->width * c->stride[1] * c->stride[2] <= PLANE_ROOM;
}

/* Copy the rows of one channel that output rows [first, first + n_rows) need; a plane has @plane_rows rows. */
static void copy_rows(const struct et_conv *c, const struct layout *l, const float *x, int64_t first,
	int64_t plane_rows, float *planes)
{
	for (int64_t p = 0; p < c->stride[1] * c->stride[2]; p++) {
		int64_t ph = p / c->stride[2], pw = p % c->stride[2];
		for (int64_t r = 0; r < plane_rows; r++, planes += l->width) {
			int64_t h = (first + r) * c->stride[1] + ph - c->padding[1];
			int64_t w = pw - c->padding[2];
			const float *row = x + h * c->x.strides[3];
			bool is_outside = h < 0 || h >= c->in[1];
			for (int64_t i = 0; i < l->width; i++, w += c->stride[2])
				planes[i] = is_outside || w < 0 || w >= c->in[2] ? 0 : row[w];
		}
	}
}

static void depthwise_plane(const struct et_conv *c, const struct layout *l, struct et_pace *pace, const float *x,
	const float *weight, float bias, float *y)
{
	float planes[PLANE_ROOM], band[BAND_ROOM];
	ptrdiff_t offsets[MAX_TAPS];
	int64_t n_planes = c->stride[1] * c->stride[2], width = l->is_input ? c->in[2] : l->width;
	int64_t most = PLANE_ROOM / (n_planes * width) - l->reach + 1;
	if (l->is_input || most > BAND_ROOM / width)
		most = BAND_ROOM / width;
	for (int64_t first = 0; first < c->out[1]; first += most) {
		int64_t n_rows = c->out[1] - first < most ? c->out[1] - first : most;
		if (et_pace_must_stop(pace, l->n_taps * BAND_ROOM))
			return;
		int64_t plane_rows = n_rows + l->reach - 1;
		const float *from = planes;
		if (l->is_input)
			from = x + first * c->in[2];
		else
			copy_rows(c, l, x, first, plane_rows, planes);
		for (size_t t = 0; t < l->n_taps; t++) {
			int64_t kh = (int64_t)t / c->kernel[2], kw = (int64_t)t % c->kernel[2];
			int64_t plane = plane_of(c, 1, kh) * c->stride[2] + plane_of(c, 2, kw);
			offsets[t] = (plane * plane_rows + step_of(c, 1, kh)) * width + step_of(c, 2, kw);
		}
		et_ukernels()->stencil((size_t)((n_rows - 1) * width + c->out[2]), band, from, l->n_taps, offsets,
			weight, bias);
		for (int64_t r = 0; r < n_rows; r++)
			memcpy(y + (first + r) * c->y.strides[3], band + r * width, (size_t)c->out[2] * sizeof(*y));
	}
}

/* Planes [begin, end) of batch times channel; width is the innermost dimension. */
static void run_depthwise_planes(void *arg, size_t begin, size_t end)
{
	const struct et_conv *c = arg;
	struct layout layout;
	int64_t channels = c->n_groups;
	struct et_pace pace = { c->compute };
	make_layout(c, &layout);
	for (size_t plane = begin; plane < end; plane++) {
		int64_t n = (int64_t)plane / channels, channel = (int64_t)plane % channels;
		depthwise_plane(c, &layout, &pace,
			(const float *)c->x.data + n * c->x.strides[0] + channel * c->x.strides[1],
			(const float *)c->weight.data + channel * c->weight.strides[0],
			c->bias ? ((const float *)c->bias->data)[channel * c->bias->strides[0]] : 0,
			(float *)c->y.data + n * c->y.strides[0] + channel * c->y.strides[1]);
	}
}

/* Pixels [begin, end) of batch times space; channels are innermost. The weight is in the order (kernel, channel). */
static void run_depthwise_pixels(void *arg, size_t begin, size_t end)
{
	const struct et_conv *c = arg;
	const struct et_ukernels *ukernels = et_ukernels();
	size_t channels = (size_t)c->n_groups, n_steps = channels * (size_t)kernel_size(c);
	struct et_pace pace = { c->compute };
	for (size_t pixel = begin; pixel < end && !et_pace_must_stop(&pace, n_steps); pixel++) {
		int64_t i = (int64_t)pixel, w = i % c->out[2];
		i /= c->out[2];
		int64_t h = i % c->out[1];
		i /= c->out[1];
		int64_t d = i % c->out[0], n = i / c->out[0];
		const float *x = (const float *)c->x.data + n * c->x.strides[0];
		float *y = (float *)c->y.data + n * c->y.strides[0] + d * c->y.strides[2] + h * c->y.strides[3] +
			   w * c->y.strides[4];
		for (size_t channel = 0; channel < channels; channel++)
			y[channel] = c->bias ? ((const float *)c->bias->data)[(int64_t)channel * c->bias->strides[0]]
					     : 0;
		for (int64_t k = 0; k < kernel_size(c); k++) {
			int64_t at_w = et_conv_meet(c, 2, w, k % c->kernel[2]);
			int64_t at_h = et_conv_meet(c, 1, h, k / c->kernel[2] % c->kernel[1]);
			int64_t at_d = et_conv_meet(c, 0, d, k / c->kernel[2] / c->kernel[1]);
			if (at_d < 0 || at_h < 0 || at_w < 0)
				continue;
			ukernels->add_product(channels, y,
				x + at_d * c->x.strides[2] + at_h * c->x.strides[3] + at_w * c->x.strides[4],
				(const float *)c->weight.data + k * (int64_t)channels);
		}
	}
}

/* --- gemm ----------------------------------------------------------------------------------------- */

/* The im2col matrix of one batch item and group: row k is (channel, kernel position), columns are output positions. */
struct im2col {
	const struct et_conv *c;
	const float *x;
	bool is_pointwise; /* a kernel of 1 without stride and padding: column j is pixel j */
};

static void pointwise_panel(const struct im2col *b, size_t first_k, size_t n_k, size_t first_column, size_t n_columns,
	float *panel, size_t width)
{
	const struct et_view *x = &b->c->x;
	struct et_matrix matrix = { b->x, x->strides[1], x->strides[4] };
	if (x->strides[1] != 1) {
		et_matrix_panel(&matrix, first_k, n_k, first_column, n_columns, panel, width);
		return;
	}
	for (size_t j = 0; j < n_columns; j++) {
		const float *pixel = b->x + (ptrdiff_t)(first_column + j) * x->strides[4] + (ptrdiff_t)first_k;
		for (size_t k = 0; k < n_k; k++)
			panel[k * width + j] = pixel[k];
	}
}

static void im2col_panel(const void *arg, size_t first_k, size_t n_k, size_t first_column, size_t n_columns,
	float *panel, size_t width)
{
	const struct im2col *b = arg;
	const struct et_conv *c = b->c;
	int64_t at[ET_TILE_MAX_COLUMNS][ET_CONV_SPACE]; /* input position for kernel position 0; may be outside */
	bool is_row = true;
	if (b->is_pointwise) {
		pointwise_panel(b, first_k, n_k, first_column, n_columns, panel, width);
		return;
	}
	for (size_t j = 0; j < n_columns; j++) {
		int64_t i = (int64_t)(first_column + j);
		int64_t out[ET_CONV_SPACE] = { i / c->out[2] / c->out[1], i / c->out[2] % c->out[1], i % c->out[2] };
		for (size_t d = 0; d < ET_CONV_SPACE; d++)
			at[j][d] = out[d] * c->stride[d] - c->padding[d];
		is_row &= at[j][0] == at[0][0] && at[j][1] == at[0][1];
	}
	is_row &= c->stride[2] == 1 && c->x.strides[4] == 1;
	for (size_t k = first_k; k < first_k + n_k; k++, panel += width) {
		int64_t i = (int64_t)k;
		int64_t kw = i % c->kernel[2] * c->dilation[2], kh = i / c->kernel[2] % c->kernel[1] * c->dilation[1];
		int64_t kd = i / c->kernel[2] / c->kernel[1] % c->kernel[0] * c->dilation[0];
		const float *plane = b->x + i / kernel_size(c) * c->x.strides[1];
		if (is_row && at[0][2] + kw >= 0 && at[n_columns - 1][2] + kw < c->in[2]) {
			int64_t d = at[0][0] + kd, h = at[0][1] + kh;
			if (d >= 0 && d < c->in[0] && h >= 0 && h < c->in[1])
				memcpy(panel, plane + d * c->x.strides[2] + h * c->x.strides[3] + at[0][2] + kw,
					n_columns * sizeof(*panel));
			else
				memset(panel, 0, n_columns * sizeof(*panel));
			continue;
		}
		for (size_t j = 0; j < n_columns; j++) {
			int64_t d = at[j][0] + kd, h = at[j][1] + kh, w = at[j][2] + kw;
			/* One comparison each: a negative number is large as unsigned. */
			bool is_inside = (uint64_t)d < (uint64_t)c->in[0] && (uint64_t)h < (uint64_t)c->in[1] &&
					 (uint64_t)w < (uint64_t)c->in[2];
			panel[j] = is_inside ? plane[d * c->x.strides[2] + h * c->x.strides[3] + w * c->x.strides[4]]
					     : 0;
		}
	}
}

static bool is_pointwise(const struct et_conv *c)
{
	const int64_t *x = c->x.strides;
	for (size_t d = 0; d < ET_CONV_SPACE; d++) {
		if (c->kernel[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0 || c->out[d] != c->in[d])
			return false;
	}
	/* The pixels are equidistant. */
	return (c->in[1] == 1 || x[3] == c->in[2] * x[4]) && (c->in[0] == 1 || x[2] == c->in[1] * c->in[2] * x[4]);
}

/* Whether the output's pixels are equidistant too, as in both dim orders that exist. */
static bool has_equidistant_pixels(const struct et_conv *c)
{
	const int64_t *y = c->y.strides;
	return (c->out[1] == 1 || y[3] == c->out[2] * y[4]) && (c->out[0] == 1 || y[2] == c->out[1] * c->out[2] * y[4]);
}

static void run_gemm(struct et_kernel_ctx *ctx, const struct et_conv *c, float *begin)
{
	size_t n_k = (size_t)(c->in_channels * kernel_size(c));
	for (int64_t i = 0; i < c->n_groups * c->out_channels; i++)
		begin[i] = c->bias ? ((const float *)c->bias->data)[i * c->bias->strides[0]] : 0;
	for (int64_t n = 0; n < c->n_batch; n++) {
		for (int64_t group = 0; group < c->n_groups && !et_must_stop(ctx->compute); group++) {
			struct im2col columns = {
				c,
				(const float *)c->x.data + n * c->x.strides[0] +
					group * c->in_channels * c->x.strides[1],
				is_pointwise(c),
			};
			struct et_gemm gemm = {
				.n_rows = (size_t)c->out_channels,
				.n_columns = (size_t)(c->out[0] * c->out[1] * c->out[2]),
				.n_k = n_k,
				.a = (const float *)c->weight.data + group * c->out_channels * c->weight.strides[0],
				.a_row = c->weight.strides[0],
				.a_col = 1,
				.panel = im2col_panel,
				.b = &columns,
				.c = (float *)c->y.data + n * c->y.strides[0] +
				     group * c->out_channels * c->y.strides[1],
				.c_row = c->y.strides[1],
				.c_col = c->y.strides[4],
				.init = begin + group * c->out_channels,
			};
			et_gemm(ctx->compute, &gemm);
		}
	}
}

/* --- choosing ------------------------------------------------------------------------------------- */

/* @view as elements of @type, also row-major if @is_dense: itself, or a copy in scratch memory. */
static enum et_status prepare(struct et_kernel_ctx *ctx, struct et_view *view, enum et_scalar_type type, bool is_dense)
{
	struct et_view copy;
	size_t numel;
	if (view->type == type && (!is_dense || et_views_are_dense(view, view, &numel)))
		return ET_OK;
	et_view_clone(&copy, view);
	copy.type = (uint8_t)type;
	copy.data = et_kernel_scratch(ctx, et_view_set_row_major(&copy) * et_scalar_size(type) + 1);
	if (!copy.data)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	ET_TRY(et_view_cast(ctx, &copy, view));
	et_view_clone(view, &copy);
	return ET_OK;
}

static enum et_status run_float(struct et_kernel_ctx *ctx, struct et_conv *c)
{
	bool is_depthwise = c->in_channels == 1 && c->out_channels == 1;
	size_t n_pixels = (size_t)(c->n_batch * c->out[0] * c->out[1] * c->out[2]);
	size_t grain = 1 + 65536 / (size_t)(kernel_size(c) + 1) / (n_pixels + 1);
	struct layout layout;
	if (is_depthwise && c->x.strides[4] == 1 && c->y.strides[4] == 1 && make_layout(c, &layout)) {
		ET_TRY(prepare(ctx, &c->weight, ET_FLOAT32, true));
		et_parallel_for(ctx->compute, run_depthwise_planes, c, (size_t)(c->n_batch * c->n_groups), grain);
	} else if (is_depthwise && c->x.strides[1] == 1 && c->y.strides[1] == 1) {
		et_view_swap(&c->weight, 0, 1); /* (1, channel, space) */
		uint8_t kernel_first[] = { 0, 2, 3, 4, 1 };
		et_view_permute(&c->weight, kernel_first);
		ET_TRY(prepare(ctx, &c->weight, ET_FLOAT32, true));
		et_parallel_for(ctx->compute, run_depthwise_pixels, c, n_pixels, 64);
	} else {
		float *begin = et_kernel_scratch(ctx, (size_t)(c->n_groups * c->out_channels) * sizeof(*begin));
		if (!begin)
			return ET_E_MEMORY_ALLOCATION_FAILED;
		ET_TRY(prepare(ctx, &c->weight, ET_FLOAT32, true));
		run_gemm(ctx, c, begin);
	}
	return ET_OK;
}

/* Nothing to multiply: the output is the bias. */
static enum et_status fill_with_bias(struct et_kernel_ctx *ctx, const struct et_view *to, const struct et_view *bias)
{
	static const uint64_t zero;
	struct et_view from;
	et_view_clone(&from, to);
	from.data = bias ? bias->data : (uint8_t *)(uintptr_t)&zero;
	from.type = bias ? bias->type : to->type;
	memset(from.strides, 0, from.n_dims * sizeof(from.strides[0]));
	from.strides[1] = bias ? bias->strides[0] : 0;
	return et_view_cast(ctx, to, &from);
}

/* --- transposed ----------------------------------------------------------------------------------- */

enum { MAX_SUBCONVS = 256, CACHE_BYTES = 256 << 10, MIN_TRANSPOSED = 32 };

/* A subconv in one dimension: the outputs first, first + stride …. They use every @step-th kernel position, @n_taps in
 * all. Counted down from @last, these are @dilation apart in the input, the first of them at @at. */
struct subconv {
	int64_t first, n, last, step, n_taps, dilation, at;
};

static struct subconv subconv_of(const struct et_conv *c, size_t d, int64_t first)
{
	int64_t common = c->stride[d], rest = c->dilation[d];
	while (rest) {
		int64_t left = common % rest;
		common = rest;
		rest = left;
	}
	struct subconv p = { .first = first,
		.n = (c->out[d] - first + c->stride[d] - 1) / c->stride[d],
		.step = c->stride[d] / common,
		.dilation = c->dilation[d] / common };
	for (int64_t k = 0; k < c->kernel[d]; k++) {
		if ((first + c->padding[d] - k * c->dilation[d]) % c->stride[d] == 0) {
			p.last = k;
			p.n_taps++;
		}
	}
	p.at = (first + c->padding[d] - p.last * c->dilation[d]) / c->stride[d];
	return p;
}

/* The kernel positions of @subconvs, in reverse order, as the weight of a convolution that is not transposed. */
static void transpose_weight(const struct et_conv *c, const struct subconv *subconvs, struct et_view *to)
{
	struct et_view from, grouped;
	et_view_begin(&from, c->weight.data, c->weight.type);
	et_view_insert(&from, 0, c->n_groups, c->in_channels * c->weight.strides[0]);
	et_view_insert(&from, 1, c->out_channels, c->weight.strides[1]);
	et_view_insert(&from, 2, c->in_channels, c->weight.strides[0]);
	for (size_t d = 0; d < ET_CONV_SPACE; d++) {
		from.data += subconvs[d].last * c->weight.strides[2 + d] * (int64_t)sizeof(float);
		et_view_insert(&from, 3 + d, subconvs[d].n_taps, -subconvs[d].step * c->weight.strides[2 + d]);
	}
	et_view_clone(&grouped, &from);
	grouped.data = to->data;
	et_view_set_row_major(&grouped);
	et_view_copy(c->compute, &grouped, &from);
	to->sizes[0] = c->n_groups * c->out_channels;
	memcpy(to->sizes + 1, grouped.sizes + 2, (1 + ET_CONV_SPACE) * sizeof(*to->sizes));
	memcpy(to->strides, grouped.strides + 1, (2 + ET_CONV_SPACE) * sizeof(*to->strides));
}

/* @weight and @room are large enough for any subconv. */
static enum et_status run_subconv(struct et_kernel_ctx *ctx, const struct et_conv *c, const struct subconv *subconvs,
	uint8_t *weight, uint8_t *room)
{
	struct et_conv part = *c;
	struct et_view to;
	et_view_clone(&to, &c->y);
	bool has_none = false;
	part.is_transposed = false;
	part.weight.data = weight;
	for (size_t d = 0; d < ET_CONV_SPACE; d++) {
		const struct subconv *p = &subconvs[d];
		int64_t skipped = p->at > 0 ? p->at : 0;
		has_none |= p->n_taps == 0 || skipped >= c->in[d];
		part.x.data += has_none ? 0 : skipped * c->x.strides[2 + d] * (int64_t)sizeof(float);
		part.x.sizes[2 + d] = part.in[d] = c->in[d] - skipped;
		part.kernel[d] = p->n_taps;
		part.dilation[d] = p->dilation;
		part.stride[d] = 1;
		part.padding[d] = skipped - p->at;
		part.out[d] = p->n;
		to.data += p->first * to.strides[2 + d] * (int64_t)sizeof(float);
		to.strides[2 + d] *= c->stride[d];
		to.sizes[2 + d] = p->n;
	}
	if (has_none)
		return fill_with_bias(ctx, &to, c->bias);
	transpose_weight(c, subconvs, &part.weight);
	et_view_clone(&part.y, &to);
	part.y.data = room;
	et_view_set_row_major(&part.y);
	ET_TRY(run_float(ctx, &part));
	et_view_copy(ctx->compute, &to, &part.y);
	return ET_OK;
}

/* The number of subconvs in dimension @d. */
static int64_t n_subconvs(const struct et_conv *c, size_t d)
{
	return c->stride[d] < c->out[d] ? c->stride[d] : c->out[d];
}

static bool has_few_subconvs(const struct et_conv *c)
{
	int64_t n = 1;
	for (size_t d = 0; d < ET_CONV_SPACE && n <= MAX_SUBCONVS; d++)
		n *= n_subconvs(c, d);
	return n <= MAX_SUBCONVS && !c->rounds_parts && !c->rounds_all;
}

/* Weights of one output channel in the largest subconv. */
static int64_t most_taps(const struct et_conv *c)
{
	int64_t n = c->in_channels;
	for (size_t d = 0; d < ET_CONV_SPACE; d++) {
		int64_t step = subconv_of(c, d, 0).step;
		n *= (c->kernel[d] + step - 1) / step;
	}
	return n;
}

/* How many output channels get their weights transposed at once: as many as fit the second-level cache. Transposing all
 * of them would need memory beside the model's own. */
static int64_t n_channels_transposed(const struct et_conv *c)
{
	int64_t n = CACHE_BYTES / (most_taps(c) * (int64_t)sizeof(float) + 1);
	n = n < MIN_TRANSPOSED ? MIN_TRANSPOSED : n - n % MIN_TRANSPOSED;
	return c->n_groups == 1 && c->in_channels > 1 && n < c->out_channels ? n : c->out_channels;
}

/* Output channels @first to @first + @n of the only group, or all channels; @bias: room for their bias. */
static struct et_conv channels_of(const struct et_conv *c, int64_t first, int64_t n, struct et_view *bias)
{
	struct et_conv part = *c;
	if (n == c->out_channels)
		return part;
	part.out_channels = part.weight.sizes[1] = part.y.sizes[1] = n;
	part.weight.data += first * c->weight.strides[1] * (int64_t)sizeof(float);
	part.y.data += first * c->y.strides[1] * (int64_t)sizeof(float);
	if (c->bias) {
		*bias = *c->bias;
		bias->sizes[0] = n;
		bias->data += first * bias->strides[0] * (int64_t)sizeof(float);
		part.bias = bias;
	}
	return part;
}

static enum et_status run_subconvs(struct et_kernel_ctx *ctx, const struct et_conv *c)
{
	struct subconv subconvs[ET_CONV_SPACE];
	const int64_t n_most = n_channels_transposed(c), n_channels = c->n_groups * n_most;
	uint8_t *weight = et_kernel_scratch(ctx, (size_t)(n_channels * most_taps(c)) * sizeof(float) + 1);
	uint8_t *room = et_kernel_scratch(ctx,
		(size_t)(c->n_batch * n_channels * c->out[0] * c->out[1] * c->out[2]) * sizeof(float) + 1);
	if (!weight || !room)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (int64_t first = 0, n; first < c->out_channels; first += n) {
		struct et_view bias;
		n = c->out_channels - first < n_most ? c->out_channels - first : n_most;
		const struct et_conv part = channels_of(c, first, n, &bias);
		if (et_must_stop(ctx->compute))
			return ET_OK;
		for (int64_t i = 0; i < n_subconvs(c, 0) * n_subconvs(c, 1) * n_subconvs(c, 2); i++) {
			int64_t rest = i;
			for (size_t d = 0; d < ET_CONV_SPACE; d++) {
				subconvs[d] = subconv_of(c, d, rest % n_subconvs(c, d));
				rest /= n_subconvs(c, d);
			}
			ET_TRY(run_subconv(ctx, &part, subconvs, weight, room));
		}
	}
	return ET_OK;
}

static enum et_status run_half(struct et_kernel_ctx *ctx, const struct et_conv *given, const struct et_view *bias)
{
	struct et_conv c = *given;
	struct et_view start;
	ET_TRY(prepare(ctx, &c.x, ET_FLOAT32, false));
	ET_TRY(prepare(ctx, &c.weight, ET_FLOAT32, false));
	if (bias) {
		start = *bias;
		ET_TRY(prepare(ctx, &start, ET_FLOAT64, false));
		c.bias = &start;
	}
	et_parallel_for(ctx->compute, et_conv_fp16, &c, (size_t)(c.n_batch * c.n_groups * c.out_channels), 1);
	return ET_OK;
}

/* Compute in @type; the result is converted from it. */
static enum et_status run_as(struct et_kernel_ctx *ctx, const struct et_conv *given, const struct et_view *bias,
	enum et_scalar_type type)
{
	struct et_conv c = *given;
	struct et_view start;
	const struct et_view *y = &given->y;
	ET_TRY(prepare(ctx, &c.x, type, false));
	ET_TRY(prepare(ctx, &c.weight, type, false));
	if (bias) {
		start = *bias;
		ET_TRY(prepare(ctx, &start, type, false));
		c.bias = &start;
	}
	if (y->type != type) {
		c.y.type = (uint8_t)type;
		c.y.data = et_kernel_scratch(ctx, et_view_set_row_major(&c.y) * et_scalar_size(type) + 1);
		if (!c.y.data)
			return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	if (type == ET_FLOAT32)
		ET_TRY(c.is_transposed ? run_subconvs(ctx, &c) : run_float(ctx, &c));
	else
		et_parallel_for(ctx->compute, et_conv_plain, &c, (size_t)(c.n_batch * c.n_groups * c.out_channels), 1);
	return y->type == type ? ET_OK : et_view_cast(ctx, y, &c.y);
}

/* Whether the output holds a NaN. Its memory is dense in every dim order. */
static bool has_nan(const struct et_view *y)
{
	size_t numel = et_view_numel(y), n_nan = 0;
	if (y->type != ET_FLOAT32)
		return false;
	for (size_t i = 0; i < numel; i++)
		n_nan += ((const float *)y->data)[i] != ((const float *)y->data)[i];
	return n_nan > 0;
}

/* Whether the multiplications take less time than preparing subconvs. */
static bool is_small(const struct et_conv *c)
{
	enum { SMALL = 1024 };
	size_t weights = et_view_numel(&c->weight), pixels = (size_t)(c->in[0] * c->in[1] * c->in[2]);
	return weights <= SMALL && pixels <= SMALL && (size_t)c->n_batch <= SMALL &&
	       weights * pixels * (size_t)c->n_batch <= SMALL;
}

/* The fast ways multiply padding too: zero times an infinite weight is a NaN that the operator does not have. It is
 * rare enough that everything is then computed again. */
static enum et_status run(struct et_kernel_ctx *ctx, const struct et_conv *c, const struct et_view *bias)
{
	enum et_compute_class compute_class = et_class_of(c->y.type);
	if (kernel_size(c) == 0 || c->in_channels == 0 || c->in[0] == 0 || c->in[1] == 0 || c->in[2] == 0)
		return fill_with_bias(ctx, &c->y, bias);
	if (compute_class == ET_I64)
		return run_as(ctx, c, bias, ET_INT64);
	if (c->rounds_all)
		return run_half(ctx, c, bias);
	if (compute_class != ET_F32 ||
		(c->is_transposed ? is_small(c) || !has_few_subconvs(c) : !has_equidistant_pixels(c)))
		return run_as(ctx, c, bias, ET_FLOAT64);
	ET_TRY(run_as(ctx, c, bias, ET_FLOAT32));
	bool is_padded = c->is_transposed || c->padding[0] || c->padding[1] || c->padding[2];
	return is_padded && has_nan(&c->y) ? run_as(ctx, c, bias, ET_FLOAT64) : ET_OK;
}

static enum et_status read_space(struct et_kernel_ctx *ctx, struct et_conv *c, struct et_evalue *const *args,
	size_t n_space, int64_t *sizes)
{
	for (size_t d = 0; d < n_space; d++) {
		size_t at = ET_CONV_SPACE - n_space + d;
		int64_t extra = c->is_transposed ? et_list_int_or(args[7], d, 0) : 0;
		c->stride[at] = et_list_int_or(args[3], d, 1);
		c->padding[at] = et_list_int_or(args[4], d, 0);
		c->dilation[at] = et_list_int_or(args[5], d, 1);
		ET_REQUIRE(ctx,
			c->stride[at] > 0 && c->stride[at] < INT32_MAX && c->dilation[at] > 0 &&
				c->dilation[at] < INT32_MAX && c->padding[at] >= 0 && c->padding[at] < INT32_MAX &&
				extra >= 0 && extra < INT32_MAX && c->kernel[at] >= 0,
			"kernel %lld, stride %lld, padding %lld, dilation %lld", (long long)c->kernel[at],
			(long long)c->stride[at], (long long)c->padding[at], (long long)c->dilation[at]);
		int64_t reach = c->dilation[at] * (c->kernel[at] - 1) + 1, room = c->in[at] + 2 * c->padding[at];
		if (c->is_transposed)
			c->out[at] = (c->in[at] - 1) * c->stride[at] - 2 * c->padding[at] + reach + extra;
		else /* also 1 if less than a stride is missing: the quotient is then 0, not -1 */
			c->out[at] = (room - reach) / c->stride[at] + 1;
		ET_REQUIRE(ctx, c->out[at] > 0, "a kernel of %lld does not fit an input of %lld",
			(long long)c->kernel[at], (long long)c->in[at]);
		sizes[2 + d] = c->out[at];
	}
	return ET_OK;
}

/* Whether an output padding is at least as large as the stride. */
static bool has_wide_padding(const struct et_conv *c, const struct et_evalue *output_padding)
{
	for (size_t d = 0; d < ET_CONV_SPACE; d++) {
		if (et_list_int_or(output_padding, d, 0) >= c->stride[d])
			return true;
	}
	return false;
}

static enum et_status run_convolution(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *weight = args[1]->tensor;
	struct et_tensor *out = args[9]->tensor;
	struct et_view bias;
	int64_t groups = args[8]->i, sizes[ET_MAX_DIMS];
	struct et_conv c = {
		.is_transposed = args[6]->b,
		.n_groups = groups,
		.stride = { 1, 1, 1 },
		.dilation = { 1, 1, 1 },
		.out = { 1, 1, 1 },
		.compute = ctx->compute,
	};
	ET_REQUIRE(ctx, x->n_dims >= 3 && x->n_dims <= 5 && weight->n_dims == x->n_dims, "ranks %u and %u", x->n_dims,
		weight->n_dims);
	ET_TRY(et_require_same_type(ctx, x, weight));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_REQUIRE(ctx, et_loader(x->type, ET_F64), "does not take %s", et_scalar_name(x->type));
	et_view_of(&c.x, x);
	et_view_of(&c.weight, weight);
	while (c.x.n_dims < 2 + ET_CONV_SPACE) {
		et_view_insert(&c.x, 2, 1, 1);
		et_view_insert(&c.weight, 2, 1, 1);
	}
	c.n_batch = c.x.sizes[0];
	c.in_channels = c.x.sizes[1];
	ET_REQUIRE(ctx, groups > 0 && c.in_channels % groups == 0 && c.weight.sizes[0] % groups == 0,
		"%lld groups of %lld input channels, %lld weights", (long long)groups, (long long)c.in_channels,
		(long long)c.weight.sizes[0]);
	c.in_channels /= groups;
	c.out_channels = c.is_transposed ? c.weight.sizes[1] : c.weight.sizes[0] / groups;
	ET_REQUIRE(ctx, (c.is_transposed ? c.weight.sizes[0] / groups : c.weight.sizes[1]) == c.in_channels,
		"a weight for %lld channels on an input of %d", (long long)c.weight.sizes[1], x->sizes[1]);
	for (size_t d = 0; d < ET_CONV_SPACE; d++) {
		c.in[d] = c.x.sizes[2 + d];
		c.kernel[d] = c.weight.sizes[2 + d];
	}
	c.type = x->type;
	c.rounds_all = x->n_dims < 5 && et_type_is_half(c.type) && c.in_channels <= ET_HALF_TERMS &&
		       kernel_size(&c) <= ET_HALF_TERMS / (c.in_channels ? c.in_channels : 1);
	sizes[0] = c.n_batch;
	/* no input channels give no output channels, as in ExecuTorch */
	sizes[1] = x->sizes[1] ? c.out_channels * groups : 0;
	ET_TRY(read_space(ctx, &c, args, (size_t)x->n_dims - 2, sizes));
	/* bf16: only if the output padding is at least a stride; for all others PyTorch uses a library. */
	c.rounds_parts = c.is_transposed && x->n_dims == 5 &&
			 (c.type == ET_FLOAT16 || (c.type == ET_BFLOAT16 && has_wide_padding(&c, args[7])));
	if (!et_is_none(args[2])) {
		et_view_of(&bias, args[2]->tensor);
		ET_REQUIRE(ctx,
			bias.n_dims == 1 && bias.sizes[0] == c.out_channels * groups && et_loader(bias.type, ET_F64),
			"the bias must have one number for each of %lld channels",
			(long long)(c.out_channels * groups));
	}
	ET_TRY(et_resize(ctx, out, sizes, x->n_dims));
	et_view_of(&c.y, out);
	while (c.y.n_dims < 2 + ET_CONV_SPACE)
		et_view_insert(&c.y, 2, 1, 1);
	if (et_tensor_numel(out) == 0)
		return ET_OK;
	return run(ctx, &c, et_is_none(args[2]) ? NULL : &bias);
}

static const struct et_kernel rows[] = {
	{ "aten::convolution.out", "TTtVVVBVI>T", run_convolution, .multiplies = true },
};

ET_KERNEL_TABLE(convolution);
