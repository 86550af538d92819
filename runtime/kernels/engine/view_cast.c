/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of a view's elements from one type to another.
 *
 * A pair of types with a micro-kernel of its own uses that; every other pair goes through a compute class, which is
 * often identical to one of the two types. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/simd/cast_ukernels.h"
#include "runtime/kernels/engine/elementwise.h"

enum { GRAIN = 32768 /* elements worth another thread */, SHORT_RUN = 16 };

/* One conversion, run by run. */
struct cast {
	struct et_walk outer; /* over the runs, if there are several */
	et_cast_fn direct;    /* a micro-kernel for dense runs; or NULL */
	et_load_fn load;
	et_store_fn store;
	/* the class has the same bytes as the output or the input, so a dense run needs no buffer */
	bool loads_directly, stores_directly;
	enum et_scalar_type to_type, from_type;
	ptrdiff_t to_bytes, from_bytes; /* of an element */
	ptrdiff_t to_step, from_step;   /* within a run, in elements */
	size_t n;                       /* elements of a run */
	uint8_t *to;
	const uint8_t *from;
};

static void begin_cast(struct cast *cast, const struct et_view *to, const struct et_view *from,
	enum et_compute_class compute_class)
{
	cast->direct = et_find_cast(to->type, from->type);
	cast->load = et_loader(from->type, compute_class);
	cast->store = et_storer(to->type, compute_class);
	cast->loads_directly = et_class_is_type(compute_class, to->type);
	cast->stores_directly = et_class_is_type(compute_class, from->type);
	cast->to_type = to->type;
	cast->from_type = from->type;
	cast->to_bytes = (ptrdiff_t)et_scalar_size(to->type);
	cast->from_bytes = (ptrdiff_t)et_scalar_size(from->type);
	cast->to_step = cast->from_step = 1;
	cast->to = to->data;
	cast->from = from->data;
}

static void cast_dense(const struct cast *cast, uint8_t *to, const uint8_t *from, size_t n)
{
	uint64_t block[ET_ELEMENTWISE_BLOCK];
	if (cast->direct) {
		cast->direct(n, to, from);
		return;
	}
	if (cast->loads_directly) {
		cast->load(to, from, 1, n);
		return;
	}
	if (cast->stores_directly) {
		cast->store(to, 1, from, n);
		return;
	}
	for (size_t part; n; n -= part) {
		part = n < ET_ELEMENTWISE_BLOCK ? n : ET_ELEMENTWISE_BLOCK;
		cast->load(block, from, 1, part);
		cast->store(to, 1, block, part);
		to += (ptrdiff_t)part * cast->to_bytes;
		from += (ptrdiff_t)part * cast->from_bytes;
	}
}

static void copy_row(uint8_t *to, ptrdiff_t to_step, const uint8_t *from, ptrdiff_t from_step, size_t n,
	enum et_scalar_type type)
{
	struct et_view to_view, from_view;
	et_view_begin(&to_view, to, type);
	et_view_begin(&from_view, (uint8_t *)(uintptr_t)from, type); /* only read */
	et_view_insert(&to_view, 0, (int64_t)n, to_step);
	et_view_insert(&from_view, 0, (int64_t)n, from_step);
	et_view_copy(NULL, &to_view, &from_view);
}

/* Elements that are not adjacent are gathered first and scattered last, because the conversions vectorize only dense
 * runs. */
static void cast_run(const struct cast *cast, uint8_t *to, const uint8_t *from, size_t n)
{
	uint64_t dense_from[ET_ELEMENTWISE_BLOCK], dense_to[ET_ELEMENTWISE_BLOCK];
	const bool is_from_dense = cast->from_step == 1, is_to_dense = cast->to_step == 1;
	if (is_from_dense && is_to_dense) {
		cast_dense(cast, to, from, n);
		return;
	}
	for (size_t part; n; n -= part) {
		part = n < ET_ELEMENTWISE_BLOCK ? n : ET_ELEMENTWISE_BLOCK;
		if (!is_from_dense)
			copy_row((uint8_t *)dense_from, 1, from, cast->from_step, part, cast->from_type);
		cast_dense(cast, is_to_dense ? to : (uint8_t *)dense_to, is_from_dense ? from : (uint8_t *)dense_from,
			part);
		if (!is_to_dense)
			copy_row(to, cast->to_step, (uint8_t *)dense_to, 1, part, cast->to_type);
		to += (ptrdiff_t)part * cast->to_step * cast->to_bytes;
		from += (ptrdiff_t)part * cast->from_step * cast->from_bytes;
	}
}

/* Elements of the only run. */
static void cast_elements(void *arg, size_t begin, size_t end)
{
	const struct cast *cast = arg;
	cast_run(cast, cast->to + (ptrdiff_t)begin * cast->to_step * cast->to_bytes,
		cast->from + (ptrdiff_t)begin * cast->from_step * cast->from_bytes, end - begin);
}

static void cast_runs(void *arg, size_t begin, size_t end)
{
	const struct cast *cast = arg;
	const struct et_walk *outer = &cast->outer;
	struct et_place place;
	ptrdiff_t to_row = outer->strides[0][outer->n_dims - 1] * cast->to_bytes,
		  from_row = outer->strides[1][outer->n_dims - 1] * cast->from_bytes;
	et_place_seek(&place, outer, begin);
	for (size_t n; begin < end; begin += n) {
		uint8_t *to = cast->to + place.offset[0] * cast->to_bytes;
		const uint8_t *from = cast->from + place.offset[1] * cast->from_bytes;
		n = et_place_run(&place, outer);
		n = n < end - begin ? n : end - begin;
		for (size_t i = 0; i < n; i++, to += to_row, from += from_row)
			cast_run(cast, to, from, cast->n);
		et_place_advance(&place, outer, n);
	}
}

static size_t find_longest(const struct et_walk *walk)
{
	size_t longest = walk->n_dims - 1;
	for (size_t d = walk->n_dims - 1; d-- > 0;)
		longest = walk->sizes[d] > walk->sizes[longest] ? d : longest;
	return longest;
}

static void swap_dims(struct et_walk *walk, size_t a, size_t b)
{
	int64_t size = walk->sizes[a];
	walk->sizes[a] = walk->sizes[b];
	walk->sizes[b] = size;
	for (size_t v = 0; v < walk->n_views; v++) {
		int64_t stride = walk->strides[v][a];
		walk->strides[v][a] = walk->strides[v][b];
		walk->strides[v][b] = stride;
	}
}

enum et_status et_view_cast(struct et_kernel_ctx *ctx, const struct et_view *to, const struct et_view *from)
{
	struct cast cast;
	size_t numel;
	if (to->type == from->type) {
		et_view_copy(ctx->compute, to, from);
		return ET_OK;
	}
	if (et_type_is_complex(from->type) || et_type_is_complex(to->type))
		return et_complex_cast(ctx, to, from);
	const enum et_compute_class compute_class = et_cast_class(to->type, from->type);
	ET_REQUIRE(ctx, et_loader(from->type, compute_class) && et_storer(to->type, compute_class),
		"cannot convert %s to %s", et_scalar_name(from->type), et_scalar_name(to->type));
	begin_cast(&cast, to, from, compute_class);
	if (et_views_are_dense(to, from, &numel)) {
		et_parallel_for(ctx->compute, cast_elements, &cast, numel, GRAIN);
		return ET_OK;
	}
	et_walk_init(&cast.outer, (const struct et_view *[]){ to, from }, 2);
	size_t inner = cast.outer.n_dims - 1;
	/* e.g. an image's channels in channels last: go along its pixels instead */
	if (cast.outer.sizes[inner] < SHORT_RUN)
		swap_dims(&cast.outer, find_longest(&cast.outer), inner);
	cast.n = (size_t)cast.outer.sizes[inner];
	cast.to_step = cast.outer.strides[0][inner];
	cast.from_step = cast.outer.strides[1][inner];
	cast.outer.n_dims = inner;
	if (inner)
		et_parallel_for(ctx->compute, cast_runs, &cast, cast.n ? cast.outer.numel / cast.n : 0,
			GRAIN / (cast.n + 1) + 1);
	else
		et_parallel_for(ctx->compute, cast_elements, &cast, cast.n, GRAIN);
	return ET_OK;
}
