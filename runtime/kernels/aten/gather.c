/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that choose elements by a tensor of indices along one dimension, or by a mask: gather, scatter,
 * index_select, embedding, masked_select, nonzero …
 *
 * Indices and masks are used only from a private copy (index_copy.h), and every index is checked where it is used. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/base/expand.h"

#include <math.h>

static void copy_element(uint8_t *to, const uint8_t *from, size_t n_bytes)
{
	switch (n_bytes) {
	case 1:
		*to = *from;
		break;
	case 2:
		memcpy(to, from, 2);
		break;
	case 4:
		memcpy(to, from, 4);
		break;
	case 8:
		memcpy(to, from, 8);
		break;
	default:
		memcpy(to, from, n_bytes);
		break;
	}
}

/* A walk over an index tensor, a source or destination of the same sizes (the companion), and the tensor that the
 * indices point into along @dim. */
struct pick {
	struct et_walk walk; /* views: index, companion, and the indexed tensor with stride 0 in @dim */
	struct et_view companion, indexed;
	const int64_t *indices;
	int64_t size, stride; /* of the indexed dimension */
};

static enum et_status begin_pick(struct et_kernel_ctx *ctx, struct pick *p, const struct et_tensor *index,
	int64_t dim_arg, const struct et_tensor *indexed)
{
	struct et_view index_view, fixed;
	size_t dim;
	ET_REQUIRE(ctx, et_type_is_integral(index->type), "an index of %s", et_scalar_name(index->type));
	ET_TRY(et_get_dim(ctx, dim_arg, indexed->n_dims, &dim));
	p->indices = et_local_copy(ctx, index, ET_INT64, &index_view);
	if (!p->indices)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	et_view_of(&p->indexed, indexed);
	if (p->indexed.n_dims == 0)
		et_view_insert(&p->indexed, 0, 1, 1);
	if (index_view.n_dims == 0)
		et_view_insert(&index_view, 0, 1, 1);
	if (p->companion.n_dims == 0)
		et_view_insert(&p->companion, 0, 1, 1);
	et_view_clone(&fixed, &p->indexed);
	bool is_empty = et_view_numel(&index_view) == 0;
	ET_REQUIRE(ctx, is_empty || (index_view.n_dims == fixed.n_dims && p->companion.n_dims == fixed.n_dims),
		"ranks %u, %u and %u", index_view.n_dims, p->companion.n_dims, fixed.n_dims);
	for (size_t d = 0; d < fixed.n_dims && !is_empty; d++) {
		int64_t size = index_view.sizes[d];
		ET_REQUIRE(ctx, size <= p->companion.sizes[d] && (d == dim || size <= fixed.sizes[d]),
			"an index of size %lld in dimension %zu", (long long)size, d);
		p->companion.sizes[d] = size;
		fixed.sizes[d] = size;
	}
	p->size = p->indexed.sizes[dim];
	p->stride = p->indexed.strides[dim];
	fixed.strides[dim] = 0;
	if (is_empty) { /* then the sizes need not match, and nothing is copied */
		p->walk.n_views = p->walk.n_dims = p->walk.numel = 0;
		return ET_OK;
	}
	et_walk_init_in_order(&p->walk, (const struct et_view *[]){ &index_view, &p->companion, &fixed }, 3);
	return ET_OK;
}

/* The inner run of such a walk: the indices, the companion's elements, and the address that index 0 means for each. */
struct pick_run {
	size_t n;
	const int64_t *indices;
	uint8_t *companion, *indexed;
	ptrdiff_t step, companion_step, indexed_step; /* the last two in bytes */
	int64_t size;
	ptrdiff_t stride; /* from one index to the next, in bytes */
};

static struct pick_run pick_run_at(const struct pick *p, const struct et_place *place)
{
	size_t inner = p->walk.n_dims - 1;
	ptrdiff_t bytes = (ptrdiff_t)et_scalar_size(p->indexed.type);
	return (struct pick_run){
		.n = et_place_chunk(place, &p->walk),
		.indices = p->indices + place->offset[0],
		.companion = p->companion.data + place->offset[1] * bytes,
		.indexed = p->indexed.data + place->offset[2] * bytes,
		.step = p->walk.strides[0][inner],
		.companion_step = p->walk.strides[1][inner] * bytes,
		.indexed_step = p->walk.strides[2][inner] * bytes,
		.size = p->size,
		.stride = p->stride * bytes,
	};
}

/* The element that index @i of the run points to; NULL: the index is out of range. */
static inline uint8_t *picked_element(const struct pick_run *run, size_t i)
{
	int64_t index = run->indices[(ptrdiff_t)i * run->step];
	index = index < 0 ? index + run->size : index;
	return index >= 0 && index < run->size ? run->indexed + (ptrdiff_t)i * run->indexed_step + index * run->stride
					       : NULL;
}

static enum et_status refuse_index(struct et_kernel_ctx *ctx, const struct pick_run *run, size_t i)
{
	return et_refuse(ctx, "index %lld of %lld", (long long)run->indices[(ptrdiff_t)i * run->step],
		(long long)run->size);
}

static enum et_status run_gather(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor, *index = args[2]->tensor;
	struct et_tensor *out = args[4]->tensor;
	struct pick p;
	struct et_place place;
	size_t bytes = et_element_bytes(self);
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_TRY(et_resize_like(ctx, out, index));
	et_view_of(&p.companion, out);
	ET_TRY(begin_pick(ctx, &p, index, args[1]->i, self));
	et_place_seek(&place, &p.walk, 0);
	struct et_pace pace = { ctx->compute };
	for (size_t done = 0; done < p.walk.numel;) {
		struct pick_run run = pick_run_at(&p, &place);
		if (et_pace_must_stop(&pace, run.n))
			break;
		for (size_t i = 0; i < run.n; i++) {
			const uint8_t *from = picked_element(&run, i);
			if (!from)
				return refuse_index(ctx, &run, i);
			copy_element(run.companion + (ptrdiff_t)i * run.companion_step, from, bytes);
		}
		et_place_advance(&place, &p.walk, run.n);
		done += run.n;
	}
	return ET_OK;
}

enum scatter_mode { SCATTER_SET, SCATTER_ADD, SCATTER_MULTIPLY };

/* Unsigned arithmetic, so that sums and products of integers wrap around. */
#define COMBINE(number)                                                      \
	do {                                                                 \
		number a, b;                                                 \
		memcpy(&a, to, sizeof(a));                                   \
		memcpy(&b, from, sizeof(b));                                 \
		a = (number)(mode == SCATTER_ADD ? (number)(a + b) : a * b); \
		memcpy(to, &a, sizeof(a));                                   \
	} while (0)

static void combine(uint8_t *to, const uint8_t *from, enum et_scalar_type type, enum scatter_mode mode)
{
	if (mode == SCATTER_SET) {
		copy_element(to, from, et_scalar_size(type));
	} else if (et_type_is_complex(type)) {
		double complex a = et_element_get_complex(to, type), b = et_element_get_complex(from, type);
		et_element_set_complex(to, type, mode == SCATTER_ADD ? a + b : a * b);
	} else if (type == ET_FLOAT32) {
		COMBINE(float);
	} else if (type == ET_FLOAT64) {
		COMBINE(double);
	} else if (type == ET_INT64) {
		COMBINE(uint64_t);
	} else if (type == ET_INT32) {
		COMBINE(uint32_t);
	} else if (type == ET_INT16) {
		COMBINE(uint16_t);
	} else if (type == ET_UINT8 || type == ET_INT8) {
		COMBINE(uint8_t);
	} else if (type == ET_BOOL) {
		*to = mode == SCATTER_ADD ? (*to | *from) != 0 : *to && *from;
	} else if (et_type_is_half(type)) {
		uint16_t bits[2];
		memcpy(&bits[0], to, sizeof(*bits));
		memcpy(&bits[1], from, sizeof(*bits));
		float a = et_half_to_float(bits[0], type), b = et_half_to_float(bits[1], type);
		bits[0] = et_float_to_half(mode == SCATTER_ADD ? a + b : a * b, type);
		memcpy(to, bits, sizeof(*bits));
	} else if (et_type_is_float(type)) {
		double a = et_element_get_double(to, type), b = et_element_get_double(from, type);
		et_element_set_double(to, type, mode == SCATTER_ADD ? a + b : a * b);
	} else {
		int64_t a = et_element_get_int(to, type), b = et_element_get_int(from, type);
		et_element_set_int(to, type, mode == SCATTER_ADD ? a + b : a * b);
	}
}

/* @src has the output's type. */
static enum et_status scatter(struct et_kernel_ctx *ctx, struct et_evalue *const *args, const struct et_view *src,
	enum scatter_mode mode, struct et_tensor *out)
{
	struct pick p;
	struct et_view self;
	struct et_place place;
	et_view_of(&self, args[0]->tensor);
	ET_TRY(et_copy_view_to_output(ctx, &self, out));
	et_view_clone(&p.companion, src);
	ET_TRY(begin_pick(ctx, &p, args[2]->tensor, args[1]->i, out));
	et_place_seek(&place, &p.walk, 0);
	struct et_pace pace = { ctx->compute };
	for (size_t done = 0; done < p.walk.numel;) {
		struct pick_run run = pick_run_at(&p, &place);
		if (et_pace_must_stop(&pace, run.n))
			break;
		for (size_t i = 0; i < run.n; i++) {
			uint8_t *to = picked_element(&run, i);
			if (!to)
				return refuse_index(ctx, &run, i);
			combine(to, run.companion + (ptrdiff_t)i * run.companion_step, out->type, mode);
		}
		et_place_advance(&place, &p.walk, run.n);
		done += run.n;
	}
	return ET_OK;
}

static enum et_status scatter_tensor(struct et_kernel_ctx *ctx, struct et_evalue *const *args, enum scatter_mode mode,
	struct et_tensor *out)
{
	struct et_view src;
	ET_TRY(et_require_same_type(ctx, args[3]->tensor, out));
	et_view_of(&src, args[3]->tensor);
	return scatter(ctx, args, &src, mode, out);
}

static enum et_status run_scatter(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return scatter_tensor(ctx, args, SCATTER_SET, args[4]->tensor);
}

static enum et_status run_scatter_add(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return scatter_tensor(ctx, args, SCATTER_ADD, args[4]->tensor);
}

static enum et_status run_scatter_reduce(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	bool is_add = et_string_is(args[4], "add");
	ET_REQUIRE(ctx, is_add || et_string_is(args[4], "multiply"), "reduce must be 'add' or 'multiply'");
	return scatter_tensor(ctx, args, is_add ? SCATTER_ADD : SCATTER_MULTIPLY, args[5]->tensor);
}

static enum et_status run_scatter_value(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[4]->tensor;
	const struct et_tensor *index = args[2]->tensor;
	uint64_t element = 0;
	struct et_view src;
	ET_REQUIRE(ctx, et_storer(out->type, ET_F64), "cannot store %s", et_scalar_name(out->type));
	if (args[3]->tag == ET_TAG_DOUBLE)
		et_element_set_double(&element, out->type, args[3]->d);
	else
		et_element_set_int(&element, out->type, et_number_int(args[3]));
	et_view_of(&src, index);
	src.data = (uint8_t *)&element;
	src.type = out->type;
	memset(src.strides, 0, sizeof(src.strides));
	return scatter(ctx, args, &src, SCATTER_SET, out);
}

/* Copy the rows of @bytes that the indices choose from @rows. Returns early if the kernel must stop. */
static void copy_rows(struct et_pace *pace, uint8_t *to, const uint8_t *rows, size_t bytes, const int64_t *indices,
	size_t n)
{
	const size_t most = et_copies_per_look(bytes);
	for (size_t at = 0, part; at < n; at += part) {
		part = n - at < most ? n - at : most;
		if (et_pace_must_stop(pace, part * (bytes / sizeof(uint64_t) + 1)))
			return;
		for (size_t i = at; most > 1 && i < at + part; i++)
			et_copy_bytes(to + i * bytes, rows + (size_t)indices[i] * bytes, bytes);
		if (most == 1)
			et_copy_many(pace->compute, to + at * bytes, rows + (size_t)indices[at] * bytes, bytes);
	}
}

/* For row-major tensors, in which the elements chosen by each index are adjacent. */
static void select_rows(const struct et_compute *compute, const struct et_view *to, const struct et_view *from,
	size_t dim, const int64_t *indices)
{
	size_t bytes = et_scalar_size(to->type), n_outer = 1, n = (size_t)to->sizes[dim];
	for (size_t d = 0; d < to->n_dims; d++) {
		n_outer *= d < dim ? (size_t)to->sizes[d] : 1;
		bytes *= d > dim ? (size_t)to->sizes[d] : 1;
	}
	uint8_t *next = to->data;
	const uint8_t *row = from->data;
	struct et_pace pace = { compute };
	for (size_t i = 0; bytes && i < n_outer && !et_pace_must_stop(&pace, 1);
		i++, row += (size_t)from->sizes[dim] * bytes, next += n * bytes)
		copy_rows(&pace, next, row, bytes, indices, n);
}

/* Slices of @self along @dim, one for each index. */
static enum et_status run_index_select(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor, *index = args[2]->tensor;
	struct et_tensor *out = args[3]->tensor;
	struct et_view from, to, unused;
	int64_t sizes[ET_MAX_DIMS];
	size_t dim, n = et_tensor_numel(index), numel;
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_REQUIRE(ctx, index->n_dims <= 1 && et_type_is_integral(index->type), "an index of %s, rank %u",
		et_scalar_name(index->type), index->n_dims);
	ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &dim));
	ET_REQUIRE(ctx, self->n_dims > 0 || n == 1, "%zu indices of a tensor without dimensions", n);
	const int64_t *indices = et_local_copy(ctx, index, ET_INT64, &unused);
	if (!indices)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t d = 0; d < self->n_dims; d++)
		sizes[d] = d == dim ? (int64_t)n : self->sizes[d];
	ET_TRY(et_resize(ctx, out, sizes, self->n_dims));
	et_view_of(&from, self);
	et_view_of(&to, out);
	if (from.n_dims == 0) {
		et_view_insert(&from, 0, 1, 1);
		et_view_insert(&to, 0, 1, 1);
	}
	for (size_t i = 0; i < n; i++)
		ET_REQUIRE(ctx, indices[i] >= 0 && indices[i] < from.sizes[dim], "index %lld of %lld",
			(long long)indices[i], (long long)from.sizes[dim]);
	if (et_views_are_dense(&from, &from, &numel) && et_views_are_dense(&to, &to, &numel)) {
		select_rows(ctx->compute, &to, &from, dim, indices);
		return ET_OK;
	}
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < n && !et_pace_must_stop(&pace, et_tensor_numel(out) / n); i++) {
		struct et_view from_one, to_one;
		et_view_clone(&from_one, &from);
		et_view_clone(&to_one, &to);
		et_view_select(&from_one, dim, indices[i]);
		et_view_select(&to_one, dim, (int64_t)i);
		et_view_copy(ctx->compute, &to_one, &from_one);
	}
	return ET_OK;
}

static enum et_status run_embedding(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *weight = args[0]->tensor, *index = args[1]->tensor;
	struct et_tensor *out = args[5]->tensor;
	struct et_view view;
	int64_t sizes[ET_MAX_DIMS];
	ET_TRY(et_require_same_type(ctx, weight, out));
	ET_REQUIRE(ctx, weight->n_dims == 2 && index->n_dims < ET_MAX_DIMS, "a weight of rank %u", weight->n_dims);
	ET_REQUIRE(ctx, et_type_is_integral(index->type), "an index of %s", et_scalar_name(index->type));
	ET_TRY(et_require_contiguous(ctx, weight, "the weight"));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	const int64_t *indices = et_local_copy(ctx, index, ET_INT64, &view);
	if (!indices)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t d = 0; d < index->n_dims; d++)
		sizes[d] = index->sizes[d];
	sizes[index->n_dims] = weight->sizes[1];
	ET_TRY(et_resize(ctx, out, sizes, (size_t)index->n_dims + 1));
	size_t row_bytes = (size_t)weight->sizes[1] * et_element_bytes(weight);
	struct et_pace pace = { ctx->compute };
	const size_t n = et_view_numel(&view);
	for (size_t at = 0, part; (part = et_pace_chunk(&pace, at, n)); at += part)
		for (size_t i = at; i < at + part; i++)
			ET_REQUIRE(ctx, indices[i] >= 0 && indices[i] < weight->sizes[0], "index %lld of %d",
				(long long)indices[i], weight->sizes[0]);
	if (row_bytes && !et_must_stop(ctx->compute)) /* some indices may not be checked */
		copy_rows(&pace, out->data, weight->data, row_bytes, indices, n);
	return ET_OK;
}

/* --- masks ---------------------------------------------------------------------------------------------- */

/* @self and a private copy of @mask, both broadcast to their common sizes. */
static enum et_status broadcast_mask(struct et_kernel_ctx *ctx, const struct et_tensor *self,
	const struct et_tensor *mask, struct et_view *ret_self, struct et_view *ret_mask)
{
	ET_REQUIRE(ctx, mask->type == ET_BOOL || mask->type == ET_UINT8, "a mask of %s", et_scalar_name(mask->type));
	if (!et_local_copy(ctx, mask, ET_BOOL, ret_mask))
		return ET_E_MEMORY_ALLOCATION_FAILED;
	et_view_of(ret_self, self);
	ET_REQUIRE(ctx, et_view_broadcast_both(ret_self, ret_mask), "the mask does not broadcast to the input");
	return ET_OK;
}

/* The elements of a walk's inner run, and which of them are chosen. */
struct masked_run {
	const uint8_t *mask;
	uint8_t *elements;
	ptrdiff_t mask_step, step; /* in bytes */
	size_t n;
};

static struct masked_run run_at(const struct et_walk *walk, const struct et_place *place, const uint8_t *mask,
	uint8_t *elements, size_t bytes, size_t n)
{
	return (struct masked_run){ mask + place->offset[0], elements + place->offset[1] * (int64_t)bytes,
		walk->strides[0][walk->n_dims - 1], walk->strides[1][walk->n_dims - 1] * (ptrdiff_t)bytes, n };
}

/* View 0 of @walk is the mask: a private copy of bytes that are 0 or 1. */
static size_t count_chosen(struct et_pace *pace, const struct et_walk *walk, const uint8_t *mask)
{
	size_t n = 0;
	struct et_place place;
	et_place_seek(&place, walk, 0);
	for (size_t i = 0, run; i < walk->numel; i += run) {
		ptrdiff_t step = walk->strides[0][walk->n_dims - 1];
		run = et_place_chunk(&place, walk);
		if (et_pace_must_stop(pace, run))
			break;
		for (size_t k = 0; k < run; k++)
			n += mask[place.offset[0] + (ptrdiff_t)k * step];
		et_place_advance(&place, walk, run);
	}
	return n;
}

/* Every element is written to where the next chosen one belongs, so there is no branch, which could not be predicted.
 * At most @room chosen ones; returns how many. */
ET_EXPANDED size_t select_run(const struct masked_run *run, uint8_t *to, size_t room, size_t bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < run->n && n < room; i++) {
		memcpy(to + n * bytes, run->elements + (ptrdiff_t)i * run->step, bytes);
		n += run->mask[(ptrdiff_t)i * run->mask_step];
	}
	return n;
}

/* Replace the chosen elements by elements from @from, at most @left; returns how many. */
ET_EXPANDED size_t scatter_run(const struct masked_run *run, const uint8_t *from, size_t left, size_t bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < run->n && n < left; i++) {
		uint8_t *element = run->elements + (ptrdiff_t)i * run->step;
		bool is_chosen = run->mask[(ptrdiff_t)i * run->mask_step];
		memmove(element, is_chosen ? from + n * bytes : element, bytes);
		n += is_chosen;
	}
	return n;
}

static enum et_status run_masked_select(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[2]->tensor;
	struct et_view self, mask;
	struct et_walk walk;
	struct et_place place;
	size_t n, at = 0, bytes = et_element_bytes(out);
	ET_TRY(et_require_same_type(ctx, args[0]->tensor, out));
	ET_TRY(broadcast_mask(ctx, args[0]->tensor, args[1]->tensor, &self, &mask));
	et_walk_init_in_order(&walk, (const struct et_view *[]){ &mask, &self }, 2);
	struct et_pace pace = { ctx->compute };
	n = count_chosen(&pace, &walk, mask.data);
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ (int64_t)n }, 1));
	et_place_seek(&place, &walk, 0);
	for (size_t i = 0, run; i < walk.numel && at < n; i += run) {
		run = et_place_chunk(&place, &walk);
		if (et_pace_must_stop(&pace, run))
			break;
		struct masked_run r = run_at(&walk, &place, mask.data, self.data, bytes, run);
		uint8_t *to = (uint8_t *)out->data + at * bytes;
		at += bytes == 4   ? select_run(&r, to, n - at, 4)
		      : bytes == 8 ? select_run(&r, to, n - at, 8)
		      : bytes == 2 ? select_run(&r, to, n - at, 2)
		      : bytes == 1 ? select_run(&r, to, n - at, 1)
				   : select_run(&r, to, n - at, bytes);
		et_place_advance(&place, &walk, run);
	}
	return ET_OK;
}

static enum et_status run_masked_scatter(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *source = args[2]->tensor;
	struct et_tensor *out = args[3]->tensor;
	struct et_view self, mask, to;
	struct et_walk walk;
	struct et_place place;
	size_t at = 0, bytes = et_element_bytes(out);
	ET_TRY(et_require_same_type(ctx, source, out));
	ET_TRY(et_require_contiguous(ctx, source, "the source"));
	ET_TRY(broadcast_mask(ctx, args[0]->tensor, args[1]->tensor, &self, &mask));
	ET_TRY(et_copy_view_to_output(ctx, &self, out));
	et_view_of(&to, out);
	et_walk_init_in_order(&walk, (const struct et_view *[]){ &mask, &to }, 2);
	struct et_pace pace = { ctx->compute };
	size_t n = count_chosen(&pace, &walk, mask.data);
	ET_REQUIRE(ctx, n <= et_tensor_numel(source), "the source has %zu elements, the mask chooses more",
		et_tensor_numel(source));
	et_place_seek(&place, &walk, 0);
	for (size_t i = 0, run; i < walk.numel && at < n; i += run) {
		run = et_place_chunk(&place, &walk);
		if (et_pace_must_stop(&pace, run))
			break;
		struct masked_run r = run_at(&walk, &place, mask.data, to.data, bytes, run);
		const uint8_t *from = (const uint8_t *)source->data + at * bytes;
		at += bytes == 4   ? scatter_run(&r, from, n - at, 4)
		      : bytes == 8 ? scatter_run(&r, from, n - at, 8)
		      : bytes == 2 ? scatter_run(&r, from, n - at, 2)
		      : bytes == 1 ? scatter_run(&r, from, n - at, 1)
				   : scatter_run(&r, from, n - at, bytes);
		et_place_advance(&place, &walk, run);
	}
	return ET_OK;
}

static enum et_status run_nonzero(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[1]->tensor;
	struct et_view view;
	const uint8_t *truths = et_local_copy(ctx, self, ET_BOOL, &view);
	size_t numel = et_tensor_numel(self), n = 0, n_dims = self->n_dims;
	if (!truths)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	ET_TRY(et_require_type(ctx, out, ET_INT64, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0, part; (part = et_pace_chunk(&pace, at, numel)); at += part)
		for (size_t i = at; i < at + part; i++)
			n += truths[i];
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ (int64_t)n, (int64_t)n_dims }, 2));
	int64_t *to = out->data, at[ET_MAX_DIMS] = { 0 };
	size_t last = n_dims ? n_dims - 1 : 0, run = n_dims ? (size_t)self->sizes[last] : 1;
	/* A count that was stopped is too small for what follows; a pace that was told to stop says so again. */
	for (size_t i = 0; n && i < numel && !et_pace_must_stop(&pace, 1); i += run) {
		for (size_t begin = 0, part; (part = et_pace_chunk(&pace, begin, run)); begin += part) {
			for (size_t k = begin; k < begin + part; k++) {
				at[last] = (int64_t)k;
				for (size_t d = 0; truths[i + k] && d < n_dims; d++)
					to[(ptrdiff_t)d * out->strides[1]] = at[d];
				to += truths[i + k] ? out->strides[0] : 0;
			}
		}
		for (size_t d = last; d-- > 0;) { /* the next row */
			if (++at[d] < self->sizes[d])
				break;
			at[d] = 0;
		}
	}
	return ET_OK;
}

enum { FEW_REPEATS = 32 };

/* Write @number @n times. */
static uint8_t *write_repeats(struct et_pace *pace, uint8_t *to, enum et_scalar_type type, int64_t number, int64_t n)
{
	const size_t bytes = et_scalar_size(type);
	uint8_t *end = to + (size_t)n * bytes;
	for (; to < end && !et_pace_must_stop(pace, 1); to += bytes)
		et_element_set_int(to, type, number);
	return end;
}

/* Each index i, repeats[i] times. */
static enum et_status run_repeat_interleave(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *repeats = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	struct et_view view;
	size_t total = 0;
	int64_t most = 0;
	ET_REQUIRE(ctx, repeats->n_dims == 1 && et_type_is_integral(repeats->type), "repeats of %s, rank %u",
		et_scalar_name(repeats->type), repeats->n_dims);
	ET_REQUIRE(ctx, et_storer(out->type, ET_I64), "an output of %s", et_scalar_name(out->type));
	const int64_t *times = et_local_copy(ctx, repeats, ET_INT64, &view);
	if (!times)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0, part; (part = et_pace_chunk(&pace, at, (size_t)view.sizes[0])); at += part) {
		for (size_t i = at; i < at + part; i++) {
			ET_REQUIRE(ctx, times[i] >= 0 && et_add(total, (size_t)times[i], &total) && total <= INT32_MAX,
				"%lld repeats", (long long)times[i]);
			most = times[i] > most ? times[i] : most;
		}
	}
	if (et_must_stop(ctx->compute)) /* some repeats may not be checked */
		return ET_OK;
	ET_REQUIRE(ctx, et_is_none(args[1]) || args[1]->i == (int64_t)total, "%zu elements, expected %lld", total,
		(long long)args[1]->i);
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ (int64_t)total }, 1));
	uint8_t *to = out->data;
	int64_t *numbers = out->data;
	const bool are_few = out->type == ET_INT64 && most <= FEW_REPEATS;
	for (size_t at = 0, part; are_few && (part = et_pace_chunk(&pace, at, (size_t)view.sizes[0])); at += part)
		for (size_t i = at; i < at + part; i++)
			for (int64_t k = 0; k < times[i]; k++)
				*numbers++ = (int64_t)i;
	for (int64_t i = 0; !are_few && i < view.sizes[0] && !et_pace_must_stop(&pace, 1); i++)
		to = write_repeats(&pace, to, out->type, i, times[i]);
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::embedding.out", "TTIBB>T", run_embedding },
	{ "aten::gather.out", "TITB>T", run_gather },
	{ "aten::index_select.out", "TIT>T", run_index_select },
	{ "aten::masked_scatter.out", "TTT>T", run_masked_scatter },
	{ "aten::masked_select.out", "TT>T", run_masked_select },
	{ "aten::nonzero.out", "T>T", run_nonzero },
	{ "aten::repeat_interleave.Tensor_out", "Ti>T", run_repeat_interleave },
	{ "aten::scatter.reduce_out", "TITTC>T", run_scatter_reduce },
	{ "aten::scatter.src_out", "TITT>T", run_scatter },
	{ "aten::scatter.value_out", "TITS>T", run_scatter_value },
	{ "aten::scatter_add.out", "TITT>T", run_scatter_add },
};

ET_KERNEL_TABLE(gather);
