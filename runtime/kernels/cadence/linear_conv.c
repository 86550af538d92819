/* SPDX-License-Identifier: BSD-3-Clause */
/* cadence::'s sums of products: linear and matmul; and the operators that move a window over an image: convolution and
 * max pool.
 *
 * Rows of numbers are multiplied with one row for each output channel. Zero points are subtracted when numbers are
 * loaded into spans of 16 bits, or 32 bits if those do not suffice. Sums are exact; only then are they converted to
 * float, scaled and rounded. A convolution's rows are the pixels under the kernel, gathered for each output position;
 * its padding is 0 after subtracting the zero point. Layouts are strides, so one loop serves channels first, channels
 * last and 1-D. */
#include "runtime/kernels/cadence/cadence.h"

/* --- products ----------------------------------------------------------------------------------------------- */

/* Rows of @n_terms numbers times one row for each output channel. */
struct product {
	const struct et_tensor *x, *weight;
	size_t n_terms, n_channels;
	bool is_narrow; /* spans have 16 bits; otherwise 32 */
	int32_t x_zero;
	uint8_t *weights;    /* one span for each channel */
	uint8_t *row;        /* one span */
	const int32_t *bias; /* or NULL */
	float *scales;       /* for the channels' sums */
	int32_t *zeros;      /* of the channels' weights */
	float factor;        /* applied after the scale */
	struct et_qparams out;
};

/* Numbers of narrow spans are at most 510, so 8192 products fit in 32 bits. */
enum { NARROW_ZERO_MAX = 255, NARROW_TERMS = 8192 };

static bool is_near(int32_t zero)
{
	return zero >= -NARROW_ZERO_MAX && zero <= NARROW_ZERO_MAX;
}

static int64_t dot_narrow(const int16_t *a, const int16_t *b, size_t n)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n;) {
		size_t end = n - i > NARROW_TERMS ? i + NARROW_TERMS : n;
		int32_t part = 0;
		for (; i < end; i++)
			part += a[i] * b[i];
		sum += part;
	}
	return sum;
}

static int64_t dot_wide(const int32_t *a, const int32_t *b, size_t n)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (int64_t)a[i] * b[i];
	return sum;
}

#define LOAD(type)                                                                      \
	do {                                                                            \
		const type *from = (const type *)tensor->data + at;                     \
		if (is_narrow)                                                          \
			for (size_t i = 0; i < n; i++, from += stride)                  \
				((int16_t *)(void *)span)[i] = (int16_t)(*from - zero); \
		else                                                                    \
			for (size_t i = 0; i < n; i++, from += stride)                  \
				((int32_t *)(void *)span)[i] = *from - zero;            \
	} while (0)

/* Load @n numbers of @tensor, starting at number @at, @stride apart, and subtract the zero point. */
static void load(uint8_t *span, bool is_narrow, const struct et_tensor *tensor, int64_t at, int64_t stride, size_t n,
	int32_t zero)
{
	switch (tensor->type) {
	case ET_INT8:
		LOAD(int8_t);
		break;
	case ET_UINT8:
		LOAD(uint8_t);
		break;
	case ET_INT16:
		LOAD(int16_t);
		break;
	default:
		LOAD(uint16_t);
		break;
	}
}

static size_t span_size(const struct product *p)
{
	return p->n_terms * (p->is_narrow ? sizeof(int16_t) : sizeof(int32_t));
}

/* Everything but the weights, which the caller loads, and the scales. */
static enum et_status start_product(struct et_kernel_ctx *ctx, struct product *p, const struct et_evalue *zero,
	const struct et_evalue *weight_zero, const struct et_tensor *bias)
{
	size_t n_bytes, n_numbers;
	ET_TRY(et_require_quantized(ctx, p->x, "an input"));
	ET_TRY(et_require_quantized(ctx, p->weight, "a weight"));
	ET_TRY(et_require_contiguous(ctx, p->x, "the input"));
	ET_TRY(et_require_contiguous(ctx, p->weight, "the weight"));
	if (bias) {
		ET_TRY(et_require_type(ctx, bias, ET_INT32, "the bias"));
		ET_REQUIRE(ctx, et_tensor_numel(bias) == p->n_channels, "%zu biases for %zu channels",
			et_tensor_numel(bias), p->n_channels);
		ET_TRY(et_require_contiguous(ctx, bias, "the bias"));
		p->bias = bias->data;
	}
	ET_TRY(et_get_zero_at(ctx, zero, 0, 1, &p->x_zero));
	p->is_narrow = et_is_8_bits(p->x->type) && et_is_8_bits(p->weight->type) && is_near(p->x_zero);
	if (!et_mul(p->n_channels, sizeof(float), &n_numbers))
		return et_refuse(ctx, "too large");
	p->zeros = et_kernel_scratch(ctx, n_numbers + 1);
	p->scales = et_kernel_scratch(ctx, n_numbers + 1);
	if (!p->zeros || !p->scales)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t j = 0; j < p->n_channels; j++) {
		ET_TRY(et_get_zero_at(ctx, weight_zero, j, p->n_channels, &p->zeros[j]));
		p->is_narrow &= is_near(p->zeros[j]);
	}
	if (p->n_terms > SIZE_MAX / 8 || !et_mul(p->n_channels, span_size(p), &n_bytes) || n_bytes > SIZE_MAX / 2)
		return et_refuse(ctx, "too large");
	p->weights = et_kernel_scratch(ctx, n_bytes + 1);
	p->row = et_kernel_scratch(ctx, span_size(p) + 1);
	return p->weights && p->row ? ET_OK : ET_E_MEMORY_ALLOCATION_FAILED;
}

static uint8_t *weights_of(const struct product *p, size_t channel)
{
	return p->weights + channel * span_size(p);
}

/* Multiply the row with @n channels, starting at @first; results go to @out, starting at element @at, @stride apart. */
static void multiply(struct et_pace *pace, const struct product *p, size_t first, size_t n, struct et_tensor *out,
	int64_t at, int64_t stride)
{
	for (size_t j = first; j < first + n && !et_pace_must_stop(pace, p->n_terms + 1); j++, at += stride) {
		const void *weights = weights_of(p, j);
		int64_t sum = p->is_narrow ? dot_narrow((const int16_t *)(const void *)p->row, weights, p->n_terms)
					   : dot_wide((const int32_t *)(const void *)p->row, weights, p->n_terms);
		float value = (float)(sum + (p->bias ? p->bias[j] : 0)) * p->scales[j];
		et_storer(out->type, ET_F32)((uint8_t *)out->data + at * (int64_t)et_element_bytes(out), 1,
			&(float){ et_quantized(&p->out, value, p->factor) }, 1);
	}
}

/* src, weight, bias, zero points of src and weight, multiplier, shift, zero point of the output, offset > out */
enum et_status et_cadence_linear(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *weight = args[1]->tensor;
	struct et_tensor *out = args[9]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_rows = 1;
	ET_REQUIRE(ctx, x->n_dims > 0 && weight->n_dims == 2 && weight->sizes[1] == x->sizes[x->n_dims - 1],
		"an input of rank %u with a weight of rank %u do not fit", x->n_dims, weight->n_dims);
	for (size_t d = 0; d + 1 < x->n_dims; d++) {
		sizes[d] = x->sizes[d];
		n_rows *= (size_t)x->sizes[d];
	}
	sizes[x->n_dims - 1] = weight->sizes[0];
	struct product p = { .x = x,
		.weight = weight,
		.n_terms = (size_t)weight->sizes[1],
		.n_channels = (size_t)weight->sizes[0],
		.factor = 1 };
	ET_TRY(start_product(ctx, &p, args[3], args[4], args[2]->tensor));
	ET_TRY(et_get_qparams(ctx, NULL, args[7], out, "an output", &p.out));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_resize(ctx, out, sizes, x->n_dims));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t j = 0; j < p.n_channels && !et_pace_must_stop(&pace, p.n_terms); j++) {
		ET_TRY(et_get_scale_at(ctx, args[5], args[6], j, p.n_channels, &p.scales[j]));
		load(weights_of(&p, j), p.is_narrow, weight, (int64_t)(j * p.n_terms), 1, p.n_terms, p.zeros[j]);
	}
	for (size_t i = 0; i < n_rows && p.n_channels && !et_pace_must_stop(&pace, p.n_terms); i++) {
		load(p.row, p.is_narrow, x, (int64_t)(i * p.n_terms), 1, p.n_terms, p.x_zero);
		multiply(&pace, &p, 0, p.n_channels, out, (int64_t)(i * p.n_channels), 1);
	}
	return ET_OK;
}

/* ExecuTorch's kernels ignore the bias, so it must be zero. */
static enum et_status require_zeros(struct et_kernel_ctx *ctx, const struct et_evalue *bias)
{
	if (et_is_none(bias))
		return ET_OK;
	ET_TRY(et_require_type(ctx, bias->tensor, ET_INT32, "the bias"));
	const int32_t *values = bias->tensor->data;
	for (size_t i = 0; i < et_tensor_numel(bias->tensor); i++)
		ET_REQUIRE(ctx, values[i] == 0, "a bias that is not zero");
	return ET_OK;
}

/* x, its zero point, y, its zero point, bias, multiplier, shift, zero point of the output, transposed > out */
enum et_status et_cadence_matmul(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *y = args[2]->tensor;
	struct et_tensor *out = args[9]->tensor;
	bool is_transposed = args[8]->b;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_batch = 1, n = x->n_dims;
	ET_REQUIRE(ctx, n >= 2 && (y->n_dims == 2 || y->n_dims == n), "ranks %u and %u do not fit", x->n_dims,
		y->n_dims);
	for (size_t d = 0; d + 2 < n; d++) {
		ET_REQUIRE(ctx, y->n_dims == 2 || y->sizes[d] == x->sizes[d], "batches of %d and %d", x->sizes[d],
			y->sizes[d]);
		sizes[d] = x->sizes[d];
		n_batch *= (size_t)x->sizes[d];
	}
	size_t n_rows = (size_t)x->sizes[n - 2];
	const int32_t *last = y->sizes + y->n_dims - 2;
	struct product p = { .x = x,
		.weight = y,
		.n_terms = (size_t)x->sizes[n - 1],
		.n_channels = (size_t)last[is_transposed ? 0 : 1],
		.factor = 1 };
	ET_REQUIRE(ctx, last[is_transposed ? 1 : 0] == x->sizes[n - 1], "%d columns by %d rows", x->sizes[n - 1],
		last[is_transposed ? 1 : 0]);
	sizes[n - 2] = x->sizes[n - 2];
	sizes[n - 1] = (int64_t)p.n_channels;
	ET_TRY(require_zeros(ctx, args[4]));
	ET_TRY(start_product(ctx, &p, args[1], args[3], NULL));
	ET_TRY(et_get_qparams(ctx, NULL, args[7], out, "an output", &p.out));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_resize(ctx, out, sizes, n));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	if (et_tensor_numel(out) == 0) /* however many batch items there are */
		return ET_OK;
	for (size_t j = 0; j < p.n_channels; j++)
		ET_TRY(et_get_scale_at(ctx, args[5], args[6], 0, 1, &p.scales[j]));
	struct et_pace pace = { ctx->compute };
	for (size_t b = 0; b < n_batch && p.n_channels; b++) {
		for (size_t j = 0;
			j < p.n_channels && (b == 0 || y->n_dims > 2) && !et_pace_must_stop(&pace, p.n_terms); j++)
			load(weights_of(&p, j), p.is_narrow, y,
				(int64_t)(b * p.n_channels * p.n_terms + (is_transposed ? j * p.n_terms : j)),
				is_transposed ? 1 : (int64_t)p.n_channels, p.n_terms, p.zeros[j]);
		for (size_t i = 0; i < n_rows && !et_pace_must_stop(&pace, p.n_terms); i++) {
			size_t row = b * n_rows + i;
			load(p.row, p.is_narrow, x, (int64_t)(row * p.n_terms), 1, p.n_terms, p.x_zero);
			multiply(&pace, &p, 0, p.n_channels, out, (int64_t)(row * p.n_channels), 1);
		}
	}
	return ET_OK;
}

/* --- windows ------------------------------------------------------------------------------------------------ */

/* An image's sizes, and its strides in elements; a 1-D input is an image of height 1. */
struct image {
	int64_t batch, channels, size[2];
	int64_t batch_stride, channel_stride, stride[2];
};

static struct image image_of(const struct et_tensor *tensor, bool is_channels_last)
{
	size_t n = tensor->n_dims, channel = is_channels_last ? n - 1 : 1, width = is_channels_last ? n - 2 : n - 1;
	struct image image = { .batch = tensor->sizes[0],
		.channels = tensor->sizes[channel],
		.size = { n == 4 ? tensor->sizes[width - 1] : 1, tensor->sizes[width] } };
	image.channel_stride = is_channels_last ? 1 : image.size[0] * image.size[1];
	image.stride[1] = is_channels_last ? image.channels : 1;
	image.stride[0] = image.stride[1] * image.size[1];
	image.batch_stride = image.channels * image.size[0] * image.size[1];
	return image;
}

struct window {
	int64_t size[2], stride[2], padding[2], dilation[2], n[2]; /* n: the number of positions */
};

/* Item @d of a list of two numbers, or of one for both. */
static enum et_status get_item(struct et_kernel_ctx *ctx, const struct et_evalue *list, size_t d, int64_t least,
	const char *what, int64_t *ret)
{
	size_t n = et_list_len(list);
	ET_REQUIRE(ctx, n == 1 || n == 2, "%s of %zu numbers", what, n);
	*ret = et_list_int(list, n == 1 ? 0 : d);
	ET_REQUIRE(ctx, *ret >= least && *ret <= INT32_MAX, "%s %lld", what, (long long)*ret);
	return ET_OK;
}

/* @w already has the sizes. */
static enum et_status place_window(struct et_kernel_ctx *ctx, struct window *w, const struct image *x, size_t n_dims,
	struct et_evalue *const *lists, bool rounds_up)
{
	for (size_t d = 0; d < 2; d++) {
		w->stride[d] = w->dilation[d] = w->n[d] = 1;
		w->padding[d] = 0;
		if (d == 0 && n_dims == 3)
			continue;
		ET_REQUIRE(ctx, w->size[d] >= 1 && w->size[d] <= INT32_MAX, "a kernel of %lld", (long long)w->size[d]);
		ET_TRY(get_item(ctx, lists[0], d, 1, "stride", &w->stride[d]));
		ET_TRY(get_item(ctx, lists[1], d, 0, "padding", &w->padding[d]));
		ET_TRY(get_item(ctx, lists[2], d, 1, "dilation", &w->dilation[d]));
		int64_t room = x->size[d] + 2 * w->padding[d] - w->dilation[d] * (w->size[d] - 1) - 1;
		ET_REQUIRE(ctx, room >= 0, "the kernel does not fit into %lld", (long long)x->size[d]);
		w->n[d] = (room + (rounds_up ? w->stride[d] - 1 : 0)) / w->stride[d] + 1;
		if (rounds_up && (w->n[d] - 1) * w->stride[d] >= x->size[d] + w->padding[d])
			w->n[d]--;
	}
	return ET_OK;
}

static inline int64_t input_position(const struct window *w, const struct image *x, size_t d, int64_t at, int64_t k)
{
	int64_t in = at * w->stride[d] - w->padding[d] + k * w->dilation[d];
	return in >= 0 && in < x->size[d] ? in : -1;
}

/* The first input position under the window, and one beyond the last. A file may name a window far larger than the
 * image. */
static void input_range(const struct window *w, const struct image *x, size_t d, int64_t at, int64_t *ret_first,
	int64_t *ret_end)
{
	int64_t first = at * w->stride[d] - w->padding[d], step = w->dilation[d];
	int64_t end = first + (w->size[d] - 1) * step + 1;
	*ret_first = first < 0 ? first + (-first + step - 1) / step * step : first;
	*ret_end = end < x->size[d] ? end : x->size[d];
}

static enum et_status resize_image(struct et_kernel_ctx *ctx, const struct image *x, const struct window *w,
	int64_t channels, bool is_channels_last, size_t n_dims, struct et_tensor *out)
{
	int64_t sizes[4] = { x->batch };
	size_t d = 1;
	if (!is_channels_last)
		sizes[d++] = channels;
	if (n_dims == 4)
		sizes[d++] = w->n[0];
	sizes[d++] = w->n[1];
	if (is_channels_last)
		sizes[d++] = channels;
	ET_TRY(et_resize(ctx, out, sizes, d));
	return et_require_contiguous(ctx, out, "the output");
}

struct conv {
	struct product product;
	struct image x, y;
	struct window window;
	int64_t n_groups, in_channels, out_channels; /* of one group */
};

/* The strides of the weights. Each output channel's weights are loaded position by position, the channels of each
 * position together. */
struct weights {
	int64_t channels, in_channels;
	int64_t channel_stride, in_stride, stride[2];
};

static enum et_status read_weights(struct et_kernel_ctx *ctx, const struct et_tensor *x, const struct et_tensor *weight,
	int64_t n_groups, struct weights *ret, int64_t *ret_size)
{
	bool is_last = et_cadence_kind_of(ctx)->is_channels_last;
	size_t n = weight->n_dims;
	bool is_depthwise = is_last && n + 1 == x->n_dims && x->sizes[x->n_dims - 1] == n_groups;
	ET_REQUIRE(ctx, is_depthwise || n == x->n_dims, "a weight of rank %u for an input of rank %u", weight->n_dims,
		x->n_dims);
	const int32_t *sizes = weight->sizes;
	bool is_line = x->n_dims == 3;
	size_t height = is_depthwise ? 0 : is_last ? 1 : 2, width = is_line ? height : height + 1;
	ret_size[0] = is_line ? 1 : sizes[height];
	ret_size[1] = sizes[width];
	int64_t area = ret_size[0] * ret_size[1];
	if (is_depthwise)
		*ret = (struct weights){ sizes[n - 1], 1, 1, 0, { sizes[n - 1] * ret_size[1], sizes[n - 1] } };
	else if (is_last)
		*ret = (struct weights){ sizes[0], sizes[n - 1], area * sizes[n - 1], 1,
			{ ret_size[1] * sizes[n - 1], sizes[n - 1] } };
	else
		*ret = (struct weights){ sizes[0], sizes[1], area * sizes[1], area, { ret_size[1], 1 } };
	return ET_OK;
}

/* Gather the pixels under the kernel at an output position, for one group. */
static void gather(const struct conv *c, int64_t batch, int64_t group, int64_t i, int64_t j)
{
	const struct product *p = &c->product;
	size_t n = (size_t)c->in_channels, n_bytes = n * (p->is_narrow ? sizeof(int16_t) : sizeof(int32_t));
	int64_t first = batch * c->x.batch_stride + group * c->in_channels * c->x.channel_stride;
	uint8_t *span = p->row;
	for (int64_t k = 0; k < c->window.size[0] && n; k++) {
		int64_t row = input_position(&c->window, &c->x, 0, i, k);
		for (int64_t l = 0; l < c->window.size[1]; l++, span += n_bytes) {
			int64_t column = input_position(&c->window, &c->x, 1, j, l);
			if (row < 0 || column < 0)
				memset(span, 0, n_bytes);
			else
				load(span, p->is_narrow, p->x, first + row * c->x.stride[0] + column * c->x.stride[1],
					c->x.channel_stride, n, p->x_zero);
		}
	}
}

static void convolve(const struct et_compute *compute, const struct conv *c, struct et_tensor *out)
{
	struct et_pace pace = { compute };
	const size_t n_steps = (size_t)(c->window.size[0] * c->window.size[1] * c->in_channels);
	for (int64_t b = 0; b < c->x.batch; b++)
		for (int64_t i = 0; i < c->window.n[0]; i++)
			for (int64_t j = 0; j < c->window.n[1]; j++)
				for (int64_t g = 0; g < c->n_groups && !et_pace_must_stop(&pace, n_steps); g++) {
					int64_t first = g * c->out_channels;
					gather(c, b, g, i, j);
					multiply(&pace, &c->product, (size_t)first, (size_t)c->out_channels, out,
						b * c->y.batch_stride + i * c->y.stride[0] + j * c->y.stride[1] +
							first * c->y.channel_stride,
						c->y.channel_stride);
				}
}

/* input, weight, bias, stride, padding, dilation, groups, zero points of input and weight, scale of the sums, scale and
 * zero point of the output, multiplier, shift (redundant), perhaps an offset > out */
enum et_status et_cadence_conv(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_cadence_kind *kind = et_cadence_kind_of(ctx);
	const struct et_tensor *x = args[0]->tensor, *weight = args[1]->tensor;
	struct et_tensor *out = args[strlen(ctx->kernel->signature) - 2]->tensor;
	struct conv c = { .n_groups = args[6]->i };
	struct product *p = &c.product;
	struct weights w;
	ET_REQUIRE(ctx, kind->rank ? x->n_dims == kind->rank : x->n_dims == 3 || x->n_dims == 4, "an input of rank %u",
		x->n_dims);
	ET_REQUIRE(ctx, c.n_groups >= 1 && c.n_groups <= INT32_MAX, "%lld groups", (long long)c.n_groups);
	c.x = image_of(x, kind->is_channels_last);
	ET_TRY(read_weights(ctx, x, weight, c.n_groups, &w, c.window.size));
	ET_TRY(place_window(ctx, &c.window, &c.x, x->n_dims, args + 3, false));
	ET_REQUIRE(ctx,
		w.channels % c.n_groups == 0 && c.x.channels % c.n_groups == 0 &&
			w.in_channels == c.x.channels / c.n_groups,
		"%lld channels to %lld in %lld groups with weights for %lld", (long long)c.x.channels,
		(long long)w.channels, (long long)c.n_groups, (long long)w.in_channels);
	c.in_channels = w.in_channels;
	c.out_channels = w.channels / c.n_groups;
	*p = (struct product){ .x = x,
		.weight = weight,
		.n_terms = (size_t)(w.in_channels * c.window.size[0] * c.window.size[1]),
		.n_channels = (size_t)w.channels };
	ET_TRY(start_product(ctx, p, args[7], args[8], args[2]->tensor));
	ET_TRY(et_get_qparams(ctx, args[10], args[11], out, "an output", &p->out));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(resize_image(ctx, &c.x, &c.window, w.channels, kind->is_channels_last, x->n_dims, out));
	c.y = image_of(out, kind->is_channels_last);
	p->factor = 1 / p->out.scale;
	for (size_t j = 0; j < p->n_channels; j++) {
		double scale;
		ET_TRY(et_get_number(ctx, args[9], j, p->n_channels, "a scale", &scale));
		p->scales[j] = (float)scale;
		uint8_t *span = weights_of(p, j);
		for (int64_t k = 0; k < c.window.size[0] * c.window.size[1] && w.in_channels; k++) {
			load(span, p->is_narrow, weight,
				(int64_t)j * w.channel_stride + k / c.window.size[1] * w.stride[0] +
					k % c.window.size[1] * w.stride[1],
				w.in_stride, (size_t)w.in_channels, p->zeros[j]);
			span += (size_t)w.in_channels * (p->is_narrow ? sizeof(int16_t) : sizeof(int32_t));
		}
	}
	if (et_tensor_numel(out) > 0)
		convolve(ctx->compute, &c, out);
	return ET_OK;
}

/* input, kernel, stride, padding, dilation, ceil mode > out. Quantized integers are in the order of the real numbers
 * they represent. */
enum et_status et_cadence_max_pool(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	bool is_last = et_cadence_kind_of(ctx)->is_channels_last;
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[6]->tensor;
	struct et_evalue *lists[] = { et_list_len(args[2]) ? args[2] : args[1], args[3], args[4] };
	struct window w;
	ET_TRY(et_require_quantized(ctx, x, "an input"));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_REQUIRE(ctx, x->n_dims == 4, "an input of rank %u", x->n_dims);
	struct image in = image_of(x, is_last);
	for (size_t d = 0; d < 2; d++)
		ET_TRY(get_item(ctx, args[1], d, 1, "kernel", &w.size[d]));
	ET_TRY(place_window(ctx, &w, &in, 4, lists, args[5]->b));
	for (size_t d = 0; d < 2; d++)
		ET_REQUIRE(ctx, w.padding[d] <= w.size[d] / 2, "padding %lld of a kernel of %lld",
			(long long)w.padding[d], (long long)w.size[d]);
	ET_TRY(resize_image(ctx, &in, &w, in.channels, is_last, 4, out));
	struct image to = image_of(out, is_last);
	size_t bytes = et_element_bytes(x), n = et_tensor_numel(out);
	bool is_signed = x->type == ET_INT8 || x->type == ET_INT16;
	int64_t least = is_signed ? (bytes == 1 ? INT8_MIN : INT16_MIN) : 0;
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0; at < n && !et_pace_must_stop(&pace, (size_t)(w.size[0] * w.size[1])); at++) {
		int64_t rest = (int64_t)at % to.batch_stride, most = least, first[2], end[2];
		input_range(&w, &in, 0, rest / to.stride[0] % to.size[0], &first[0], &end[0]);
		input_range(&w, &in, 1, rest / to.stride[1] % to.size[1], &first[1], &end[1]);
		int64_t plane = (int64_t)at / to.batch_stride * in.batch_stride +
				rest / to.channel_stride % to.channels * in.channel_stride;
		for (int64_t i = first[0]; i < end[0] && first[1] < end[1]; i += w.dilation[0])
			for (int64_t j = first[1]; j < end[1]; j += w.dilation[1]) {
				size_t from = (size_t)(plane + i * in.stride[0] + j * in.stride[1]);
				int64_t value = et_element_get_int((const uint8_t *)x->data + from * bytes, x->type);
				most = value > most ? value : most;
			}
		et_element_set_int((uint8_t *)out->data + at * bytes, out->type, most);
	}
	return ET_OK;
}
