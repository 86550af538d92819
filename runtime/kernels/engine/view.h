/* SPDX-License-Identifier: BSD-3-Clause */
/* Views: tensors seen through changed sizes and strides, and walks over several of them at once.
 *
 * permute, slice, select, expand, flip, stack, split … move bytes and compute nothing. Each is a view of its input (and
 * of its output) whose dimensions were changed, and one et_view_copy. The engine needs to know only the size of an
 * element.
 *
 * A walk sorts the common dimensions of its views by the first view's (the output's) order in memory, and joins
 * dimensions that are contiguous in all views. What remains is one inner run and a few outer loops. */
#ifndef RUNTIME_KERNELS_ENGINE_VIEW_H
#define RUNTIME_KERNELS_ENGINE_VIEW_H

#include "runtime/compute.h"
#include "runtime/tensor.h"

#include <string.h>

enum { ET_VIEW_DIMS = 2 * ET_MAX_DIMS }; /* repeat and unfold split dimensions */

/* An element of 16 bytes: a complex number of doubles. */
struct et_wide {
	uint64_t words[2];
};

struct et_view {
	uint8_t *data;
	uint8_t type; /* enum et_scalar_type */
	uint8_t n_dims;
	int64_t sizes[ET_VIEW_DIMS];
	int64_t strides[ET_VIEW_DIMS]; /* in elements; 0 repeats, negative walks backwards */
};

/* A view of the whole @tensor. Borrows its memory. */
void et_view_of(struct et_view *ret_view, const struct et_tensor *tensor);
/* A copy of @view; only the dimensions it has are copied. */
static inline void et_view_clone(struct et_view *ret_view, const struct et_view *view)
{
	ret_view->data = view->data;
	ret_view->type = view->type;
	ret_view->n_dims = view->n_dims;
	for (size_t d = 0; d < view->n_dims; d++) {
		ret_view->sizes[d] = view->sizes[d];
		ret_view->strides[d] = view->strides[d];
	}
}
/* A view without dimensions, to be inserted. Unused dimensions are never written, because a view is larger than many a
 * tensor. */
static inline void et_view_begin(struct et_view *ret_view, void *data, enum et_scalar_type type)
{
	ret_view->data = data;
	ret_view->type = (uint8_t)type;
	ret_view->n_dims = 0;
}
/* The number of elements, repeated ones included. */
size_t et_view_numel(const struct et_view *view);

/* Change a view in place. The caller has checked that dimensions and ranges exist. */
void et_view_move(struct et_view *view, int64_t n_elements);
void et_view_select(struct et_view *view, size_t dim, int64_t index);
void et_view_slice(struct et_view *view, size_t dim, int64_t start, int64_t step, int64_t n);
void et_view_permute(struct et_view *view, const uint8_t *dims);
void et_view_swap(struct et_view *view, size_t a, size_t b);
void et_view_insert(struct et_view *view, size_t dim, int64_t size, int64_t stride);
void et_view_remove(struct et_view *view, size_t dim);
void et_view_flip(struct et_view *view, size_t dim);
/* Broadcast to @sizes; false if they do not fit. */
bool et_view_broadcast(struct et_view *view, const int64_t *sizes, size_t n_dims);
/* Broadcast both to their common sizes; false if they do not fit. */
bool et_view_broadcast_both(struct et_view *a, struct et_view *b);
/* Set the strides of dense, row-major memory. Returns the number of elements. */
size_t et_view_set_row_major(struct et_view *view);

/* memmove for mostly short pieces: two copies of a fixed size, which may overlap, are cheaper than a call. Both are
 * read before one is written. */
static inline void et_copy_bytes(uint8_t *to, const uint8_t *from, size_t n)
{
	struct et_wide first, last;
	uint64_t first_u64, last_u64;
	uint32_t first_u32, last_u32;
	if (n > 2 * sizeof(first) || n == 0) {
		memmove(to, from, n);
	} else if (n >= sizeof(first)) {
		memcpy(&first, from, sizeof(first));
		memcpy(&last, from + n - sizeof(last), sizeof(last));
		memcpy(to, &first, sizeof(first));
		memcpy(to + n - sizeof(last), &last, sizeof(last));
	} else if (n >= sizeof(first_u64)) {
		memcpy(&first_u64, from, sizeof(first_u64));
		memcpy(&last_u64, from + n - sizeof(last_u64), sizeof(last_u64));
		memcpy(to, &first_u64, sizeof(first_u64));
		memcpy(to + n - sizeof(last_u64), &last_u64, sizeof(last_u64));
	} else if (n >= sizeof(first_u32)) {
		memcpy(&first_u32, from, sizeof(first_u32));
		memcpy(&last_u32, from + n - sizeof(last_u32), sizeof(last_u32));
		memcpy(to, &first_u32, sizeof(first_u32));
		memcpy(to + n - sizeof(last_u32), &last_u32, sizeof(last_u32));
	} else {
		uint8_t begin = from[0], middle = from[n / 2], end = from[n - 1];
		to[0] = begin;
		to[n / 2] = middle;
		to[n - 1] = end;
	}
}
/* memmove of any length for memory that does not overlap, or is the same. Returns early if the kernel must stop.
 * @compute may be NULL. */
void et_copy_many(const struct et_compute *compute, uint8_t *to, const uint8_t *from, size_t n_bytes);
/* One piece of a copy in many pieces. False: the kernel must stop. */
static inline bool et_copy_paced(struct et_pace *pace, uint8_t *to, const uint8_t *from, size_t n_bytes)
{
	const size_t n_words = n_bytes / sizeof(uint64_t);
	if (et_pace_must_stop(pace, n_words + 1))
		return false;
	if (n_words > ET_PACE_STEPS)
		et_copy_many(pace->compute, to, from, n_bytes);
	else
		et_copy_bytes(to, from, n_bytes);
	return true;
}
/* How many pieces of @n_bytes may be copied before a loop asks again. */
static inline size_t et_copies_per_look(size_t n_bytes)
{
	return ET_PACE_STEPS / (n_bytes / sizeof(uint64_t) + 1) + 1;
}
/* Copy @n_rows runs of @n_bytes; to_row and from_row are the distances in bytes. Several runs of more than two vectors
 * of 16 bytes and up to ET_MEDIUM bytes are copied by vectors, which is faster than memmove; these may not overlap
 * unless they are the same. */
enum { ET_TWO_VECTORS = 2 * sizeof(struct et_wide), ET_MEDIUM = 512 };
void et_copy_medium_rows(uint8_t *to, ptrdiff_t to_row, const uint8_t *from, ptrdiff_t from_row, size_t n_rows,
	size_t n_bytes);
static inline void et_copy_rows(uint8_t *to, ptrdiff_t to_row, const uint8_t *from, ptrdiff_t from_row, size_t n_rows,
	size_t n_bytes)
{
	if (n_rows > 1 && n_bytes > ET_TWO_VECTORS && n_bytes <= ET_MEDIUM) {
		et_copy_medium_rows(to, to_row, from, from_row, n_rows, n_bytes);
		return;
	}
	for (; n_rows; n_rows--, to += to_row, from += from_row)
		et_copy_bytes(to, from, n_bytes);
}
/* Write one element of 1, 2, 4, 8 or 16 bytes @n times. @element is not among the bytes written. */
void et_fill_elements(uint8_t *to, const uint8_t *element, size_t n, size_t element_bytes);
/* The same, for any number of elements. Returns early if the kernel must stop. @compute may be NULL. */
void et_fill_many(const struct et_compute *compute, uint8_t *to, const uint8_t *element, size_t n,
	size_t element_bytes);
/* et_copy_rows for any number of bytes. Returns early if the kernel must stop. @compute may be NULL. */
void et_copy_many_rows(const struct et_compute *compute, uint8_t *to, ptrdiff_t to_row, const uint8_t *from,
	ptrdiff_t from_row, size_t n_rows, size_t n_bytes);

/* For views of the same sizes: whether both are dense and row-major. Then @ret_numel is the number of elements. */
bool et_views_are_dense(const struct et_view *to, const struct et_view *from, size_t *ret_numel);
/* The sizes are the same, and so is the element size; the memory may not overlap unless it is the same. Returns early
 * if the kernel must stop. @compute may be NULL. */
void et_view_copy(const struct et_compute *compute, const struct et_view *to, const struct et_view *from);

enum { ET_WALK_VIEWS = 6 };

struct et_walk {
	size_t n_views;
	size_t n_dims; /* at least 1; the last is the inner run */
	size_t numel;
	int64_t sizes[ET_VIEW_DIMS];
	int64_t strides[ET_WALK_VIEWS][ET_VIEW_DIMS];
};

/* @views all have the same sizes. */
void et_walk_init(struct et_walk *walk, const struct et_view *const *views, size_t n_views);
/* The same without sorting the dimensions, for callers to whom the order matters. */
void et_walk_init_in_order(struct et_walk *walk, const struct et_view *const *views, size_t n_views);

/* A position in a walk: the index of an element, and each view's offset there, in elements. */
struct et_place {
	int64_t index[ET_VIEW_DIMS];
	int64_t offset[ET_WALK_VIEWS];
};
/* Go to element number @position of the walk. */
void et_place_seek(struct et_place *place, const struct et_walk *walk, size_t position);
/* Elements left in the inner run. */
static inline size_t et_place_run(const struct et_place *place, const struct et_walk *walk)
{
	return (size_t)(walk->sizes[walk->n_dims - 1] - place->index[walk->n_dims - 1]);
}
/* The same, but not more than a loop does before it asks whether it must stop. */
static inline size_t et_place_chunk(const struct et_place *place, const struct et_walk *walk)
{
	size_t n = et_place_run(place, walk);
	return n < ET_PACE_STEPS ? n : ET_PACE_STEPS;
}
/* Go from the end of an inner run to the beginning of the next. */
void et_place_carry(struct et_place *place, const struct et_walk *walk);
/* @n is at most et_place_run. */
static inline void et_place_advance(struct et_place *place, const struct et_walk *walk, size_t n)
{
	size_t d = walk->n_dims - 1;
	place->index[d] += (int64_t)n;
	for (size_t v = 0; v < walk->n_views; v++)
		place->offset[v] += (int64_t)n * walk->strides[v][d];
	if (d > 0 && place->index[d] == walk->sizes[d])
		et_place_carry(place, walk);
}

#endif
