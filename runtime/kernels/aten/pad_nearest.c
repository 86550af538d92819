/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators in which each output position shows one input position, dimension by dimension: padding by reflection or
 * replication, and upsampling to the nearest neighbour.
 *
 * Each of the last one to three dimensions gets a table from output to input position; one loop copies elements through
 * the tables. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"

#include <math.h>
#include <string.h>

enum { SPACE = 3 };

struct position_tables {
	size_t n_space;
	int64_t out[SPACE];
	int64_t *table[SPACE]; /* out[d] input positions */
	bool is_doubled;       /* table[SPACE - 1] is 0, 0, 1, 1, 2, 2 … */
	int64_t run, run_end;  /* the part of the last table that shows adjacent positions */
	struct et_pace pace;
};

#define COPY_RANGE(type, begin, end)              \
	for (int64_t w = (begin); w < (end); w++) \
		((type *)to)[w * y->strides[2]] = ((const type *)from)[l->table[2][w] * x->strides[2]];

/* Elements from @begin to @end. If both rows are dense and each position is shown twice, as upsampling by two does, the
 * loop over a whole row vectorizes. Padding leaves the bytes between its two ends unchanged, so these are one memcpy.
 */
#define COPY_ROW(type)                                                                           \
	if (end - begin < l->out[2]) {                                                           \
		COPY_RANGE(type, begin, end)                                                     \
	} else if (l->is_doubled && x->strides[2] == 1 && y->strides[2] == 1) {                  \
		for (int64_t w = 0, n = l->out[2] / 2; w < n; w++)                               \
			((type *)to)[2 * w] = ((type *)to)[2 * w + 1] = ((const type *)from)[w]; \
	} else if (x->strides[2] == 1 && y->strides[2] == 1) {                                   \
		COPY_RANGE(type, 0, l->run)                                                      \
		memcpy((type *)to + l->run, (const type *)from + l->table[2][l->run],            \
			(size_t)(l->run_end - l->run) * sizeof(type));                           \
		COPY_RANGE(type, l->run_end, l->out[2])                                          \
	} else {                                                                                 \
		COPY_RANGE(type, 0, l->out[2])                                                   \
	}

static void copy_row(const struct position_tables *l, const struct et_view *x, const struct et_view *y,
	const uint8_t *from, uint8_t *to, int64_t begin, int64_t end)
{
	switch (et_scalar_size(y->type)) {
	case 1:
		COPY_ROW(uint8_t)
		break;
	case 2:
		COPY_ROW(uint16_t)
		break;
	case 4:
		COPY_ROW(uint32_t)
		break;
	case 8:
		COPY_ROW(uint64_t)
		break;
	default:
		COPY_ROW(struct et_wide)
		break;
	}
}

/* Resize the output, which bounds the tables, and allocate the tables; *ret_is_empty: nothing is left to do. */
static enum et_status begin_lookup(struct et_kernel_ctx *ctx, struct position_tables *l, const struct et_tensor *self,
	struct et_tensor *out, bool *ret_is_empty)
{
	int64_t sizes[ET_MAX_DIMS];
	size_t n_outer = self->n_dims - l->n_space;
	l->pace = (struct et_pace){ ctx->compute };
	ET_TRY(et_require_same_type(ctx, self, out));
	for (size_t d = 0; d < self->n_dims; d++)
		sizes[d] = d < n_outer ? self->sizes[d] : l->out[SPACE - self->n_dims + d];
	ET_TRY(et_resize(ctx, out, sizes, self->n_dims));
	*ret_is_empty = et_tensor_numel(out) == 0;
	for (size_t d = 0; d < SPACE && !*ret_is_empty; d++) {
		l->out[d] = d + l->n_space < SPACE ? 1 : l->out[d];
		l->table[d] = et_kernel_scratch(ctx, (size_t)l->out[d] * sizeof(int64_t));
		if (!l->table[d])
			return ET_E_MEMORY_ALLOCATION_FAILED;
		l->table[d][0] = 0;
	}
	return ET_OK;
}

static bool is_doubled(const struct position_tables *l)
{
	bool is_each_twice = l->out[SPACE - 1] % 2 == 0;
	for (int64_t i = 0; i < l->out[SPACE - 1] && is_each_twice; i++)
		is_each_twice = l->table[SPACE - 1][i] == i / 2;
	return is_each_twice;
}

/* Find the first run of adjacent positions in the last table; if there is none, the run is its last entry. */
static void find_run(struct position_tables *l)
{
	const int64_t *table = l->table[SPACE - 1], n = l->out[SPACE - 1];
	l->run = 0;
	while (l->run + 1 < n && table[l->run + 1] != table[l->run] + 1)
		l->run++;
	l->run_end = l->run + 1;
	while (l->run_end < n && table[l->run_end] == table[l->run_end - 1] + 1)
		l->run_end++;
}

/* Whether all channels of a position are adjacent. */
static bool is_channels_last(const struct et_tensor *tensor)
{
	static const uint8_t order[] = { 0, 2, 3, 1 };
	return tensor->n_dims == 4 && memcmp(tensor->dim_order, order, sizeof order) == 0;
}

static void copy_pixels(struct position_tables *l, const struct et_tensor *self, struct et_tensor *out)
{
	size_t n_bytes = (size_t)self->sizes[1] * et_element_bytes(self);
	size_t height = (size_t)self->sizes[2], width = (size_t)self->sizes[3];
	uint8_t *to = out->data;
	for (size_t n = 0; n < (size_t)self->sizes[0]; n++) {
		for (int64_t h = 0; h < l->out[1]; h++) {
			size_t row = n * height + (size_t)l->table[1][h];
			const uint8_t *from = (const uint8_t *)self->data + row * width * n_bytes;
			for (int64_t w = 0; w < l->out[2]; w++, to += n_bytes)
				if (!et_copy_paced(&l->pace, to, from + (size_t)l->table[2][w] * n_bytes, n_bytes))
					return;
		}
	}
}

static void run_lookup(struct et_kernel_ctx *ctx, struct position_tables *l, const struct et_tensor *self,
	struct et_tensor *out)
{
	if (l->n_space == 2 && is_channels_last(self) && is_channels_last(out)) {
		copy_pixels(l, self, out);
		return;
	}
	struct et_view x, y, outer_x, outer_y;
	struct et_walk walk;
	struct et_place place;
	int64_t bytes = (int64_t)et_element_bytes(self);
	size_t n_outer = self->n_dims - l->n_space;
	et_view_of(&x, self);
	et_view_of(&y, out);
	et_view_clone(&outer_x, &x);
	et_view_clone(&outer_y, &y);
	outer_x.n_dims = outer_y.n_dims = (uint8_t)n_outer;
	et_walk_init(&walk, (const struct et_view *[]){ &outer_y, &outer_x }, 2);
	for (size_t d = 0; d < n_outer; d++) {
		et_view_remove(&x, 0);
		et_view_remove(&y, 0);
	}
	while (x.n_dims < SPACE) {
		et_view_insert(&x, 0, 1, 0);
		et_view_insert(&y, 0, 1, 0);
	}
	et_place_seek(&place, &walk, 0);
	const size_t n_columns = (size_t)l->out[2];
	l->is_doubled = is_doubled(l);
	find_run(l);
	for (size_t i = 0; i < walk.numel && !et_pace_must_stop(&l->pace, 16); i++) {
		for (int64_t d = 0; d < l->out[0]; d++) {
			int64_t plane = place.offset[1] + l->table[0][d] * x.strides[0];
			for (int64_t h = 0; h < l->out[1] && !et_pace_must_stop(&l->pace, n_columns); h++) {
				int64_t from = plane + l->table[1][h] * x.strides[1],
					to = place.offset[0] + d * y.strides[0] + h * y.strides[1];
				for (size_t at = 0, part; (part = et_next_chunk(ctx->compute, at, n_columns));
					at += part)
					copy_row(l, &x, &y, x.data + from * bytes, y.data + to * bytes, (int64_t)at,
						(int64_t)(at + part));
			}
		}
		et_place_advance(&place, &walk, 1);
	}
}

/* --- padding -------------------------------------------------------------------------------------------- */

struct padding {
	size_t n_space;
	bool is_reflection;
};

static enum et_status run_padding(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct padding *padding = ctx->kernel->row;
	const struct et_tensor *self = args[0]->tensor;
	struct position_tables l = { .n_space = padding->n_space };
	bool is_empty;
	ET_REQUIRE(ctx, self->n_dims >= l.n_space && self->n_dims <= l.n_space + 2, "rank %u", self->n_dims);
	ET_REQUIRE(ctx, et_list_len(args[1]) == 2 * l.n_space, "%zu paddings", et_list_len(args[1]));
	for (size_t k = 0; k < l.n_space; k++) { /* pairs, from the last dimension backwards */
		int64_t size = self->sizes[self->n_dims - 1 - k];
		int64_t before = et_list_int(args[1], 2 * k), after = et_list_int(args[1], 2 * k + 1);
		int64_t limit = padding->is_reflection ? size : INT32_MAX;
		ET_REQUIRE(ctx,
			before < limit && after < limit && before >= -INT32_MAX && after >= -INT32_MAX && size > 0 &&
				size + before + after >= 0,
			"padding %lld, %lld of size %lld", (long long)before, (long long)after, (long long)size);
		l.out[SPACE - 1 - k] = size + before + after;
	}
	ET_TRY(begin_lookup(ctx, &l, self, args[2]->tensor, &is_empty));
	if (is_empty)
		return ET_OK;
	for (size_t k = 0; k < l.n_space; k++) {
		int64_t last = self->sizes[self->n_dims - 1 - k] - 1;
		for (int64_t i = 0; i < l.out[SPACE - 1 - k]; i++) {
			int64_t from = i - et_list_int(args[1], 2 * k);
			if (padding->is_reflection)
				from = from < 0 ? -from : from > last ? 2 * last - from : from;
			l.table[SPACE - 1 - k][i] = from < 0 ? 0 : from > last ? last : from;
		}
	}
	run_lookup(ctx, &l, self, args[2]->tensor);
	return ET_OK;
}

/* --- nearest neighbour ---------------------------------------------------------------------------------- */

/* self, output size or None, factors or None > out */
static enum et_status run_nearest(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct position_tables l = { .n_space = 2 };
	bool has_sizes = !et_is_none(args[1]), has_factors = !et_is_none(args[2]), is_empty;
	double factors[2] = { 0 };
	ET_REQUIRE(ctx, self->n_dims == 4, "rank %u", self->n_dims);
	ET_REQUIRE(ctx, has_sizes != has_factors, "takes either sizes or factors");
	ET_REQUIRE(ctx, args[has_sizes ? 1 : 2]->list->n == 2, "takes two sizes or factors");
	for (size_t k = 0; k < 2; k++) {
		int64_t size = self->sizes[2 + k];
		factors[k] = has_factors ? args[2]->list->doubles[k] : 0;
		ET_REQUIRE(ctx, !has_factors || (factors[k] > 0 && factors[k] < 1e6), "a factor of %g", factors[k]);
		l.out[1 + k] = has_sizes ? et_list_int(args[1], k) : et_double_to_int((double)size * factors[k]);
		ET_REQUIRE(ctx, l.out[1 + k] > 0 && size > 0, "an output of %lld from %lld", (long long)l.out[1 + k],
			(long long)size);
	}
	ET_TRY(begin_lookup(ctx, &l, self, args[3]->tensor, &is_empty));
	for (size_t k = 0; k < 2 && !is_empty; k++) {
		int64_t size = self->sizes[2 + k], n = l.out[1 + k];
		/* Float, as in PyTorch: double gives other results at the edges of pixels. */
		float step = has_factors ? (float)(1 / factors[k]) : (float)size / (float)n;
		for (int64_t i = 0; i < n; i++) {
			int64_t from = (int64_t)floorf((float)i * step);
			l.table[1 + k][i] = from < size ? from : size - 1;
		}
	}
	if (!is_empty)
		run_lookup(ctx, &l, self, args[3]->tensor);
	return ET_OK;
}

#define PADDING(...)            \
	&(const struct padding) \
	{                       \
		__VA_ARGS__     \
	}
static const struct et_kernel rows[] = {
	{ "aten::reflection_pad1d.out", "TV>T", run_padding, PADDING(1, true) },
	{ "aten::reflection_pad2d.out", "TV>T", run_padding, PADDING(2, true) },
	{ "aten::reflection_pad3d.out", "TV>T", run_padding, PADDING(3, true) },
	{ "aten::replication_pad1d.out", "TV>T", run_padding, PADDING(1, false) },
	{ "aten::replication_pad2d.out", "TV>T", run_padding, PADDING(2, false) },
	{ "aten::replication_pad3d.out", "TV>T", run_padding, PADDING(3, false) },
	{ "aten::upsample_nearest2d.vec_out", "Tvf>T", run_nearest, .is_orderless = true },
};

ET_KERNEL_TABLE(pad_nearest);
