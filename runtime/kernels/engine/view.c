/* SPDX-License-Identifier: BSD-3-Clause */
/* The strided copy, and the walk below it.
 *
 * A copy is a nest of loops over the dimensions that the walk could not join; the three innermost are pages of rows of
 * runs. Contiguous runs are memcpy, others are loops over tiles of elements of 1, 2, 4, 8 or 16 bytes. Nothing is
 * checked here: a kernel has resized its output and checked its ranges before it makes a view. */
#include "runtime/kernels/engine/view.h"
#include "runtime/base/expand.h"

#include <string.h>

void et_view_of(struct et_view *ret_view, const struct et_tensor *tensor)
{
	ret_view->data = tensor->data;
	ret_view->type = tensor->type;
	ret_view->n_dims = tensor->n_dims;
	for (size_t d = 0; d < tensor->n_dims; d++) {
		ret_view->sizes[d] = tensor->sizes[d];
		ret_view->strides[d] = tensor->strides[d];
	}
}

size_t et_view_numel(const struct et_view *view)
{
	size_t numel = 1;
	for (size_t d = 0; d < view->n_dims; d++)
		numel *= (size_t)view->sizes[d];
	return numel;
}

void et_view_move(struct et_view *view, int64_t n_elements)
{
	/* An empty tensor may have no memory to point into. */
	if (view->data)
		view->data += n_elements * (int64_t)et_scalar_size(view->type);
}

void et_view_remove(struct et_view *view, size_t dim)
{
	for (size_t d = dim; d + 1 < view->n_dims; d++) {
		view->sizes[d] = view->sizes[d + 1];
		view->strides[d] = view->strides[d + 1];
	}
	view->n_dims--;
}

void et_view_insert(struct et_view *view, size_t dim, int64_t size, int64_t stride)
{
	for (size_t d = view->n_dims; d > dim; d--) {
		view->sizes[d] = view->sizes[d - 1];
		view->strides[d] = view->strides[d - 1];
	}
	view->sizes[dim] = size;
	view->strides[dim] = stride;
	view->n_dims++;
}

void et_view_select(struct et_view *view, size_t dim, int64_t index)
{
	et_view_move(view, index * view->strides[dim]);
	et_view_remove(view, dim);
}

void et_view_slice(struct et_view *view, size_t dim, int64_t start, int64_t step, int64_t n)
{
	if (n > 0)
		et_view_move(view, start * view->strides[dim]);
	view->sizes[dim] = n;
	view->strides[dim] *= step;
}

void et_view_permute(struct et_view *view, const uint8_t *dims)
{
	struct et_view old;
	et_view_clone(&old, view);
	for (size_t d = 0; d < view->n_dims; d++) {
		view->sizes[d] = old.sizes[dims[d]];
		view->strides[d] = old.strides[dims[d]];
	}
}

static void swap_int64(int64_t *a, int64_t *b)
{
	int64_t spare = *a;
	*a = *b;
	*b = spare;
}

void et_view_swap(struct et_view *view, size_t a, size_t b)
{
	swap_int64(&view->sizes[a], &view->sizes[b]);
	swap_int64(&view->strides[a], &view->strides[b]);
}

void et_view_flip(struct et_view *view, size_t dim)
{
	if (view->sizes[dim] > 0)
		et_view_move(view, (view->sizes[dim] - 1) * view->strides[dim]);
	view->strides[dim] = -view->strides[dim];
}

bool et_view_broadcast(struct et_view *view, const int64_t *sizes, size_t n_dims)
{
	if (n_dims < view->n_dims || n_dims > ET_VIEW_DIMS)
		return false;
	while (view->n_dims < n_dims)
		et_view_insert(view, 0, 1, 0);
	for (size_t d = 0; d < n_dims; d++) {
		if (view->sizes[d] == sizes[d])
			continue;
		if (view->sizes[d] != 1)
			return false;
		view->sizes[d] = sizes[d];
		view->strides[d] = 0;
	}
	return true;
}

bool et_view_broadcast_both(struct et_view *a, struct et_view *b)
{
	int64_t sizes[ET_VIEW_DIMS];
	size_t n_dims = a->n_dims > b->n_dims ? a->n_dims : b->n_dims;
	for (size_t d = 0; d < n_dims; d++) {
		int64_t of_a = d + a->n_dims < n_dims ? 1 : a->sizes[d + a->n_dims - n_dims];
		int64_t of_b = d + b->n_dims < n_dims ? 1 : b->sizes[d + b->n_dims - n_dims];
		sizes[d] = of_a == 1 ? of_b : of_a;
	}
	return et_view_broadcast(a, sizes, n_dims) && et_view_broadcast(b, sizes, n_dims);
}

size_t et_view_set_row_major(struct et_view *view)
{
	int64_t stride = 1;
	for (size_t d = view->n_dims; d-- > 0; stride *= view->sizes[d])
		view->strides[d] = stride;
	return (size_t)stride;
}

static int64_t magnitude(int64_t stride)
{
	return stride < 0 ? -stride : stride;
}

/* Whether dimension @a of the walk belongs outside dimension @b: decided by the first view's strides, or the next
 * view's where the first one repeats. */
ET_EXPANDED bool is_outer(const struct et_walk *walk, size_t a, size_t b)
{
	for (size_t v = 0; v < walk->n_views; v++) {
		int64_t stride_a = magnitude(walk->strides[v][a]), stride_b = magnitude(walk->strides[v][b]);
		if (stride_a && stride_b && stride_a != stride_b)
			return stride_a > stride_b;
	}
	return a < b;
}

ET_EXPANDED void swap_dims(struct et_walk *walk, size_t a, size_t b)
{
	swap_int64(&walk->sizes[a], &walk->sizes[b]);
	for (size_t v = 0; v < walk->n_views; v++)
		swap_int64(&walk->strides[v][a], &walk->strides[v][b]);
}

ET_EXPANDED void move_dim(struct et_walk *walk, size_t to, size_t from)
{
	walk->sizes[to] = walk->sizes[from];
	for (size_t v = 0; v < walk->n_views; v++)
		walk->strides[v][to] = walk->strides[v][from];
}

ET_EXPANDED bool can_join(const struct et_walk *walk, size_t outer, size_t inner)
{
	for (size_t v = 0; v < walk->n_views; v++) {
		if (walk->strides[v][outer] != walk->strides[v][inner] * walk->sizes[inner])
			return false;
	}
	return true;
}

ET_EXPANDED void walk_init(struct et_walk *walk, const struct et_view *const *views, size_t n_views, bool is_in_order)
{
	size_t n_dims = 0;
	walk->n_views = n_views;
	walk->numel = et_view_numel(views[0]);
	for (size_t d = 0; d < views[0]->n_dims; d++) {
		if (views[0]->sizes[d] == 1)
			continue;
		walk->sizes[n_dims] = views[0]->sizes[d];
		for (size_t v = 0; v < n_views; v++)
			walk->strides[v][n_dims] = views[v]->strides[d];
		/* Insertion sort by strides: few dimensions, mostly in order already. */
		for (size_t k = n_dims; k > 0 && !is_in_order && is_outer(walk, k, k - 1); k--)
			swap_dims(walk, k, k - 1);
		n_dims++;
	}
	if (n_dims == 0) {
		walk->sizes[0] = 1;
		for (size_t v = 0; v < n_views; v++)
			walk->strides[v][0] = 1;
		n_dims = 1;
	}
	size_t last = 0;
	for (size_t d = 1; d < n_dims; d++) {
		if (can_join(walk, last, d)) {
			int64_t outer = walk->sizes[last];
			move_dim(walk, last, d);
			walk->sizes[last] *= outer;
		} else {
			move_dim(walk, ++last, d);
		}
	}
	walk->n_dims = last + 1;
}

void et_walk_init(struct et_walk *walk, const struct et_view *const *views, size_t n_views)
{
	walk_init(walk, views, n_views, false);
}

void et_walk_init_in_order(struct et_walk *walk, const struct et_view *const *views, size_t n_views)
{
	walk_init(walk, views, n_views, true);
}

void et_place_seek(struct et_place *place, const struct et_walk *walk, size_t position)
{
	for (size_t v = 0; v < walk->n_views; v++)
		place->offset[v] = 0;
	for (size_t d = walk->n_dims; position == 0 && d-- > 0;)
		place->index[d] = 0;
	for (size_t d = walk->n_dims; position != 0 && d-- > 0;) {
		int64_t size = walk->sizes[d];
		place->index[d] = size ? (int64_t)(position % (size_t)size) : 0;
		position = size ? position / (size_t)size : 0;
		for (size_t v = 0; v < walk->n_views; v++)
			place->offset[v] += place->index[d] * walk->strides[v][d];
	}
}

void et_place_carry(struct et_place *place, const struct et_walk *walk)
{
	size_t d = walk->n_dims - 1;
	while (d > 0 && place->index[d] == walk->sizes[d]) {
		place->index[d] = 0;
		place->index[d - 1]++;
		for (size_t v = 0; v < walk->n_views; v++)
			place->offset[v] += walk->strides[v][d - 1] - walk->sizes[d] * walk->strides[v][d];
		d--;
	}
}

/* A dimension of a copy, or several dimensions that are joined on both sides. */
struct level {
	size_t n;
	ptrdiff_t to, from;
};

enum { PIECE = 1 << 18 /* elements, or bytes of one run */ };
enum { TILE_LEVELS = 3, TILE = 16, SHORT = 4, FILL_VECTOR = 16 };

/* Runs of a few elements, for which a loop would take longer to start than to run: an image of 3 channels, 224 x 224,
 * takes 1.5 times as long with a loop to become channels last if it consists of floats, 2.1 times if of bytes. */
#define COPY_SHORT(t, f)                               \
	switch (n) {                                   \
	case 4:                                        \
		(t)[3 * to_step] = (f)[3 * from_step]; \
		__attribute__((fallthrough));          \
	case 3:                                        \
		(t)[2 * to_step] = (f)[2 * from_step]; \
		__attribute__((fallthrough));          \
	case 2:                                        \
		(t)[to_step] = (f)[from_step];         \
		__attribute__((fallthrough));          \
	default:                                       \
		*(t) = *(f);                           \
	}

/* Tile by tile, so that a transposition uses each cache line while it is in the cache. */
#define COPY_TILES(type)                                                                         \
	for (size_t r0 = 0; r0 < n_rows; r0 += TILE) {                                           \
		size_t r1 = r0 + TILE < n_rows ? r0 + TILE : n_rows;                             \
		for (size_t i0 = 0; i0 < n; i0 += width) {                                       \
			size_t i1 = i0 + width < n ? i0 + width : n;                             \
			for (size_t r = r0; r < r1; r++) {                                       \
				type *t = to_page + (ptrdiff_t)r * to_row;                       \
				const type *f = from_page + (ptrdiff_t)r * from_row;             \
				for (size_t i = i0; i < i1; i++)                                 \
					t[(ptrdiff_t)i * to_step] = f[(ptrdiff_t)i * from_step]; \
			}                                                                        \
		}                                                                                \
	}
#define COPY_TILE(type)                                                                       \
	for (size_t p = 0; p < levels[2].n; p++) {                                            \
		type *to_page = (type *)to + (ptrdiff_t)p * levels[2].to;                     \
		const type *from_page = (const type *)from + (ptrdiff_t)p * levels[2].from;   \
		if (n > SHORT) {                                                              \
			COPY_TILES(type)                                                      \
			continue;                                                             \
		}                                                                             \
		for (size_t r = 0; r < n_rows; r++, to_page += to_row, from_page += from_row) \
			COPY_SHORT(to_page, from_page)                                        \
	}

static inline void copy_pair(uint8_t *to, const uint8_t *from)
{
	struct et_wide first, second;
	memcpy(&first, from, sizeof(first));
	memcpy(&second, from + sizeof(first), sizeof(second));
	memcpy(to, &first, sizeof(first));
	memcpy(to + sizeof(first), &second, sizeof(second));
}

void et_copy_medium_rows(uint8_t *to, ptrdiff_t to_row, const uint8_t *from, ptrdiff_t from_row, size_t n_rows,
	size_t n_bytes)
{
	for (; n_rows; n_rows--, to += to_row, from += from_row) {
		for (size_t at = 0; at + ET_TWO_VECTORS < n_bytes; at += ET_TWO_VECTORS)
			copy_pair(to + at, from + at);
		copy_pair(to + n_bytes - ET_TWO_VECTORS, from + n_bytes - ET_TWO_VECTORS);
	}
}

/* Runs that are contiguous on both sides. */
static void copy_rows(const struct level *levels, uint8_t *to, const uint8_t *from, size_t element_bytes)
{
	const ptrdiff_t bytes = (ptrdiff_t)element_bytes;
	for (size_t p = 0; p < levels[2].n; p++)
		et_copy_rows(to + (ptrdiff_t)p * levels[2].to * bytes, levels[1].to * bytes,
			from + (ptrdiff_t)p * levels[2].from * bytes, levels[1].from * bytes, levels[1].n,
			levels[0].n * element_bytes);
}

/* The three innermost levels: pages of rows of runs. */
static void copy_tile(const struct level *levels, uint8_t *to, const uint8_t *from, size_t element_bytes)
{
	/* local copies, because the compiler must assume that the stores could change a level */
	const size_t n = levels[0].n, n_rows = levels[1].n;
	const ptrdiff_t to_step = levels[0].to, from_step = levels[0].from, to_row = levels[1].to,
			from_row = levels[1].from;
	size_t width = from_row == 1 || to_row == 1 ? TILE : n;
	if (to_step == 1 && from_step == 1) {
		copy_rows(levels, to, from, element_bytes);
		return;
	}
	switch (element_bytes) {
	case 1:
		COPY_TILE(uint8_t)
		break;
	case 2:
		COPY_TILE(uint16_t)
		break;
	case 4:
		COPY_TILE(uint32_t)
		break;
	case 8:
		COPY_TILE(uint64_t)
		break;
	case 16:
		COPY_TILE(struct et_wide)
		break;
	default:
		break;
	}
}

/* Fill two words with an element, repeated. */
static void fill_words(uint64_t *words, const uint8_t *element, size_t element_bytes)
{
	uint16_t u16;
	uint32_t word;
	switch (element_bytes) {
	case 1:
		words[0] = words[1] = *element * (UINT64_MAX / UINT8_MAX);
		break;
	case 2:
		memcpy(&u16, element, sizeof(u16));
		words[0] = words[1] = u16 * (UINT64_MAX / UINT16_MAX);
		break;
	case 4:
		memcpy(&word, element, sizeof(word));
		words[0] = words[1] = word * (UINT64_MAX / UINT32_MAX);
		break;
	default:
		memcpy(&words[0], element, sizeof(words[0]));
		memcpy(&words[1], element + element_bytes - sizeof(words[1]), sizeof(words[1]));
		break;
	}
}

/* Fill a vector, then store it again and again. */
void et_fill_elements(uint8_t *to, const uint8_t *element, size_t n, size_t element_bytes)
{
	uint64_t words[FILL_VECTOR / sizeof(uint64_t)];
	const size_t n_bytes = n * element_bytes;
	size_t done = 0, part;
	fill_words(words, element, element_bytes);
	if (n_bytes > 4 * sizeof(words) && words[0] == *element * (UINT64_MAX / 0xff) &&
		words[1] == words[0]) { /* all its bytes are equal */
		memset(to, *element, n_bytes);
		return;
	}
	for (; done + 4 * sizeof(words) <= n_bytes; done += 4 * sizeof(words)) {
		memcpy(to + done, words, sizeof(words));
		memcpy(to + done + sizeof(words), words, sizeof(words));
		memcpy(to + done + 2 * sizeof(words), words, sizeof(words));
		memcpy(to + done + 3 * sizeof(words), words, sizeof(words));
	}
	for (; done < n_bytes; done += part) {
		part = n_bytes - done < sizeof(words) ? n_bytes - done : sizeof(words);
		et_copy_bytes(to + done, (const uint8_t *)words, part);
	}
}

/* Pieces of PIECE bytes, or a last one of less than twice as many. */
static size_t piece_of(size_t at, size_t n_bytes)
{
	return n_bytes - at < 2 * PIECE ? n_bytes - at : PIECE;
}

void et_fill_many(const struct et_compute *compute, uint8_t *to, const uint8_t *element, size_t n, size_t element_bytes)
{
	const size_t n_bytes = n * element_bytes;
	for (size_t at = 0, part; at < n_bytes && !(at && et_must_stop(compute)); at += part) {
		part = piece_of(at, n_bytes);
		et_fill_elements(to + at, element, part / element_bytes, element_bytes);
	}
}

void et_copy_many(const struct et_compute *compute, uint8_t *to, const uint8_t *from, size_t n_bytes)
{
	if (to == from) /* an elided copy */
		return;
	for (size_t at = 0, part; at < n_bytes && !(at && et_must_stop(compute)); at += part) {
		part = piece_of(at, n_bytes);
		et_copy_bytes(to + at, from + at, part);
	}
}

void et_copy_many_rows(const struct et_compute *compute, uint8_t *to, ptrdiff_t to_row, const uint8_t *from,
	ptrdiff_t from_row, size_t n_rows, size_t n_bytes)
{
	const size_t most = n_bytes < PIECE ? PIECE / (n_bytes + 1) : 1;
	for (size_t at = 0, part; at < n_rows && !(at && et_must_stop(compute)); at += part) {
		part = n_rows - at < 2 * most ? n_rows - at : most;
		uint8_t *to_part = to + (ptrdiff_t)at * to_row;
		const uint8_t *from_part = from + (ptrdiff_t)at * from_row;
		if (most == 1)
			for (size_t i = 0; i < part; i++)
				et_copy_many(compute, to_part + (ptrdiff_t)i * to_row,
					from_part + (ptrdiff_t)i * from_row, n_bytes);
		else
			et_copy_rows(to_part, to_row, from_part, from_row, part, n_bytes);
	}
}

bool et_views_are_dense(const struct et_view *to, const struct et_view *from, size_t *ret_numel)
{
	int64_t stride = 1;
	for (size_t d = to->n_dims; d-- > 0;) {
		if (to->sizes[d] != 1 && (to->strides[d] != stride || from->strides[d] != stride))
			return false;
		stride *= to->sizes[d];
	}
	*ret_numel = (size_t)stride;
	return true;
}

/* Levels for an output whose dimensions are not in the order of its memory. */
static size_t sort_levels(struct level *levels, const struct et_view *to, const struct et_view *from)
{
	struct et_walk walk;
	size_t n = 0;
	walk_init(&walk, (const struct et_view *[]){ to, from }, 2, false);
	for (size_t d = walk.n_dims; d-- > 0; n++)
		levels[n] = (struct level){ (size_t)walk.sizes[d], walk.strides[0][d], walk.strides[1][d] };
	for (size_t k = n; k < TILE_LEVELS; k++)
		levels[k] = (struct level){ 1, 1, 1 };
	return walk.numel ? n : 0;
}

/* The number of levels, innermost first; 0: nothing to copy. At least TILE_LEVELS entries are valid. */
static size_t find_levels(struct level *levels, const struct et_view *to, const struct et_view *from)
{
	size_t n = 0;
	for (size_t d = to->n_dims; d-- > 0;) {
		size_t size = (size_t)to->sizes[d];
		ptrdiff_t to_stride = to->strides[d], from_stride = from->strides[d];
		struct level *inner = &levels[n ? n - 1 : 0];
		if (size == 0)
			return 0;
		if (size == 1)
			continue;
		if (n && to_stride == inner->to * (ptrdiff_t)inner->n &&
			from_stride == inner->from * (ptrdiff_t)inner->n) {
			inner->n *= size;
			continue;
		}
		if (n && magnitude(to_stride) < magnitude(inner->to))
			return sort_levels(levels, to, from);
		levels[n].n = size;
		levels[n].to = to_stride;
		levels[n++].from = from_stride;
	}
	for (size_t k = n; k < TILE_LEVELS; k++)
		levels[k] = (struct level){ 1, 1, 1 };
	return n ? n : 1;
}

static void copy_levels(const struct level *levels, size_t n, uint8_t *to, const uint8_t *from, size_t element_bytes)
{
	if (n <= TILE_LEVELS) {
		copy_tile(levels, to, from, element_bytes);
		return;
	}
	const struct level *outer = &levels[n - 1];
	for (size_t i = 0; i < outer->n; i++) {
		copy_levels(levels, n - 1, to, from, element_bytes);
		to += outer->to * (ptrdiff_t)element_bytes;
		from += outer->from * (ptrdiff_t)element_bytes;
	}
}

/* Copy @numel elements, and look between pieces of them whether to stop. */
static void copy_pieces(const struct et_compute *compute, const struct level *levels, size_t n, size_t numel,
	uint8_t *to, const uint8_t *from, size_t element_bytes)
{
	const ptrdiff_t bytes = (ptrdiff_t)element_bytes;
	struct level part[ET_VIEW_DIMS];
	if (numel <= PIECE) {
		copy_levels(levels, n, to, from, element_bytes);
		return;
	}
	memcpy(part, levels, sizeof(part));
	struct level outer = levels[n - 1], *rest = &part[n - 1];
	const size_t n_one = numel / outer.n, n_most = n_one < PIECE ? PIECE / n_one : 1;
	for (size_t i = 0; i < outer.n && !et_must_stop(compute); i += rest->n) {
		*rest = outer;
		rest->n = outer.n - i < n_most ? outer.n - i : n_most;
		size_t n_copied = rest->n * n_one;
		if (n_copied > PIECE) { /* a single one */
			*rest = (struct level){ 1, 1, 1 };
			copy_pieces(compute, part, n - 1, n_one, to + (ptrdiff_t)i * outer.to * bytes,
				from + (ptrdiff_t)i * outer.from * bytes, element_bytes);
			continue;
		}
		copy_levels(part, n, to + (ptrdiff_t)i * outer.to * bytes, from + (ptrdiff_t)i * outer.from * bytes,
			element_bytes);
	}
}

void et_view_copy(const struct et_compute *compute, const struct et_view *to, const struct et_view *from)
{
	struct level levels[ET_VIEW_DIMS];
	size_t numel, element_bytes = et_scalar_size(to->type);
	if (et_views_are_dense(to, from, &numel)) {
		et_copy_many(compute, to->data, from->data, numel * element_bytes);
		return;
	}
	size_t n = find_levels(levels, to, from);
	if (n == 1 && levels[0].to == 1 && levels[0].from == 0) {
		et_fill_many(compute, to->data, from->data, levels[0].n, element_bytes);
		return;
	}
	numel = n > 0;
	for (size_t k = 0; k < n; k++)
		numel *= levels[k].n;
	if (numel)
		copy_pieces(compute, levels, n, numel, to->data, from->data, element_bytes);
}
