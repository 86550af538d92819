/* SPDX-License-Identifier: BSD-3-Clause */
/* index and index_put: elements chosen by tensors of indices or by masks.
 *
 * Index tensors may lie in memory that a client changes at any moment. In the general case each is copied to scratch
 * memory, and only the copy is checked and used; the fast case reads each index exactly once. The result is an offset
 * into self for every place of the broadcast index shape, found a chunk at a time, because a program chooses that shape
 * and it may be larger than any memory. A mask stands for the indices of its true elements. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/engine/elementwise.h"

/* The indices of one dimension: a private copy, as a view of INT64. */
struct index_of {
	struct et_view view;
	size_t dim;
};

enum {
	CHUNK = 512,     /* places whose offsets are found at once */
	LONG_RUN = 4096, /* bytes */
};

struct selection {
	const struct et_tensor *self;
	struct index_of indices[ET_MAX_DIMS];
	size_t n_indices;
	size_t n_dims; /* of the broadcast index shape */
	int64_t sizes[ET_MAX_DIMS];
	size_t numel;
	struct et_pace pace;
	size_t n_kept;          /* elements at each place */
	int64_t offsets[CHUNK]; /* in elements of self */
	uint32_t dims;          /* the indexed dimensions of self, as a bit set */
	size_t result_dim;      /* position of the index shape in the result */
	struct et_view kept;    /* self without the indexed dimensions */
};

void *et_local_copy(struct et_kernel_ctx *ctx, const struct et_tensor *tensor, enum et_scalar_type type,
	struct et_view *ret_view)
{
	struct et_view from;
	size_t n_bytes = et_tensor_numel(tensor) * et_scalar_size(type);
	void *copy = et_kernel_scratch(ctx, n_bytes + 1);
	if (!copy)
		return NULL;
	et_view_of(ret_view, tensor);
	if (tensor->type == type && et_dim_order_is_contiguous(tensor->dim_order, tensor->n_dims)) {
		et_copy_many(ctx->compute, copy, tensor->data, n_bytes);
		ret_view->data = copy;
	} else {
		et_view_clone(&from, ret_view);
		ret_view->data = copy;
		ret_view->type = (uint8_t)type;
		et_view_set_row_major(ret_view);
		if (et_view_cast(ctx, ret_view, &from) != ET_OK)
			return NULL;
	}
	/* A client's bool may hold other bytes than 0 and 1, and masks are counted. */
	uint8_t *truths = copy;
	for (size_t i = 0, n = type == ET_BOOL ? et_tensor_numel(tensor) : 0; i < n; i++)
		truths[i] = truths[i] != 0;
	return copy;
}

/* Convert a mask over @mask->n_dims dimensions, starting at @dim, to as many lists of positions. */
static enum et_status expand_mask(struct et_kernel_ctx *ctx, const struct et_tensor *self, const struct et_tensor *mask,
	size_t dim, struct index_of *indices)
{
	struct et_view view;
	size_t numel = et_tensor_numel(mask), n_dims = mask->n_dims, n = 0;
	for (size_t d = 0; d < n_dims; d++)
		ET_REQUIRE(ctx, dim + d < self->n_dims && mask->sizes[d] == self->sizes[dim + d],
			"a mask of size %d in dimension %zu", mask->sizes[d], d);
	const uint8_t *truths = et_local_copy(ctx, mask, ET_BOOL, &view);
	int64_t *positions = et_kernel_scratch(ctx, numel * n_dims * sizeof(*positions) + 1);
	if (!truths || !positions)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0, part; (part = et_pace_chunk(&pace, at, numel)); at += part) {
		for (size_t i = at; i < at + part; i++) {
			size_t rest = i;
			if (!truths[i])
				continue;
			for (size_t d = n_dims; d-- > 0;) {
				positions[d * numel + n] = (int64_t)(rest % (size_t)mask->sizes[d]);
				rest /= (size_t)mask->sizes[d];
			}
			n++;
		}
	}
	for (size_t d = 0; d < n_dims; d++) {
		et_view_begin(&indices[d].view, positions + d * numel, ET_INT64);
		et_view_insert(&indices[d].view, 0, (int64_t)n, 1);
		indices[d].dim = dim + d;
	}
	return ET_OK;
}

static enum et_status read_indices(struct et_kernel_ctx *ctx, const struct et_tensor *self,
	const struct et_evalue *list, struct index_of *indices, size_t *ret_n)
{
	size_t n = 0, dim = 0;
	for (size_t i = 0; i < et_list_len(list); i++) {
		const struct et_tensor *index = et_list_optional(list, i);
		if (!index) {
			dim++;
			continue;
		}
		bool is_mask = index->type == ET_BOOL || index->type == ET_UINT8;
		size_t n_taken = is_mask ? index->n_dims : 1;
		ET_REQUIRE(ctx, dim + n_taken <= self->n_dims, "more indices than the %u dimensions", self->n_dims);
		ET_REQUIRE(ctx, is_mask || et_type_is_integral(index->type), "an index of %s",
			et_scalar_name(index->type));
		if (is_mask) {
			ET_TRY(expand_mask(ctx, self, index, dim, indices + n));
		} else {
			indices[n].dim = dim;
			if (!et_local_copy(ctx, index, ET_INT64, &indices[n].view))
				return ET_E_MEMORY_ALLOCATION_FAILED;
		}
		n += n_taken;
		dim += n_taken;
	}
	*ret_n = n;
	return ET_OK;
}

/* Check one index tensor against its dimension, and add its part of the offsets of places [begin, begin + n). */
static enum et_status add_offsets(struct et_kernel_ctx *ctx, struct selection *s, const struct index_of *index,
	size_t begin, size_t n)
{
	struct et_view view;
	struct et_walk walk;
	struct et_place place;
	int64_t size = s->self->sizes[index->dim], stride = s->self->strides[index->dim];
	const int64_t *indices = (const int64_t *)(const void *)index->view.data;
	bool is_whole = et_view_numel(&index->view) == s->numel; /* our own copy is dense */
	if (!is_whole) {
		et_view_clone(&view, &index->view);
		et_view_broadcast(&view, s->sizes, s->n_dims);
		et_walk_init_in_order(&walk, (const struct et_view *[]){ &view }, 1);
		et_place_seek(&place, &walk, begin);
	}
	for (size_t i = 0; i < n; i++) {
		int64_t at = indices[is_whole ? (int64_t)(begin + i) : place.offset[0]];
		ET_REQUIRE(ctx, at >= -size && at < size, "index %lld in dimension %zu of size %lld", (long long)at,
			index->dim, (long long)size);
		s->offsets[i] += (at < 0 ? at + size : at) * stride;
		if (!is_whole)
			et_place_advance(&place, &walk, 1);
	}
	return ET_OK;
}

/* The offsets of the chunk that begins with place @i. ET_E_CANCELLED: the kernel must stop. */
static enum et_status find_chunk(struct et_kernel_ctx *ctx, struct selection *s, size_t i)
{
	size_t n = s->numel - i < CHUNK ? s->numel - i : CHUNK;
	if (et_pace_must_stop(&s->pace, CHUNK))
		return ET_E_CANCELLED;
	memset(s->offsets, 0, n * sizeof(*s->offsets));
	for (size_t k = 0; k < s->n_indices; k++)
		ET_TRY(add_offsets(ctx, s, &s->indices[k], i, n));
	return ET_OK;
}

/* The offset of place @i; callers ask in order, and a chunk is found at a time. */
static inline enum et_status offset_of(struct et_kernel_ctx *ctx, struct selection *s, size_t i, int64_t *ret_offset)
{
	if (i % CHUNK == 0)
		ET_TRY(find_chunk(ctx, s, i));
	*ret_offset = s->offsets[i % CHUNK];
	return ET_OK;
}

static enum et_status select_elements(struct et_kernel_ctx *ctx, const struct et_tensor *self,
	const struct et_evalue *list, struct selection *s)
{
	struct index_of *indices = s->indices;
	size_t n = 0;
	s->self = self; /* not cleared as a whole: it is as large as many a tensor */
	s->n_dims = 0;
	s->dims = 0;
	s->pace = (struct et_pace){ ctx->compute };
	ET_REQUIRE(ctx, et_list_len(list) <= ET_MAX_DIMS, "%zu indices", et_list_len(list));
	ET_TRY(read_indices(ctx, self, list, indices, &n));
	s->numel = 1;
	for (size_t k = 0; k < n; k++)
		s->n_dims = indices[k].view.n_dims > s->n_dims ? indices[k].view.n_dims : s->n_dims;
	for (size_t d = 0; d < s->n_dims; d++) {
		s->sizes[d] = 1;
		for (size_t k = 0; k < n; k++) {
			const struct et_view *view = &indices[k].view;
			if (d + view->n_dims < s->n_dims)
				continue;
			int64_t size = view->sizes[d + view->n_dims - s->n_dims];
			ET_REQUIRE(ctx, size == s->sizes[d] || size == 1 || s->sizes[d] == 1,
				"indices of sizes %lld and %lld do not broadcast", (long long)s->sizes[d],
				(long long)size);
			s->sizes[d] = size == 1 ? s->sizes[d] : size;
		}
		ET_REQUIRE(ctx, et_mul(s->numel, (size_t)s->sizes[d], &s->numel), "too many indices");
	}
	s->n_indices = n;
	bool is_together = true;
	for (size_t k = 0; k < n; k++) {
		s->dims |= 1u << indices[k].dim;
		is_together &= k == 0 || indices[k].dim == indices[k - 1].dim + 1;
	}
	/* Adjacent indexed dimensions are replaced in place; otherwise the index shape moves to the front. */
	s->result_dim = n && is_together ? indices[0].dim : 0;
	et_view_of(&s->kept, self);
	for (size_t d = self->n_dims; d-- > 0;) {
		if (s->dims >> d & 1)
			et_view_remove(&s->kept, d);
	}
	s->n_kept = et_view_numel(&s->kept);
	return ET_OK;
}

/* The sizes of the result. */
static enum et_status selected_sizes(struct et_kernel_ctx *ctx, const struct selection *s, int64_t *ret_sizes,
	size_t *ret_n)
{
	size_t n = 0;
	ET_REQUIRE(ctx, s->kept.n_dims + s->n_dims <= ET_MAX_DIMS, "a result of too many dimensions");
	for (size_t d = 0; d <= s->kept.n_dims; d++) {
		for (size_t k = 0; d == s->result_dim && k < s->n_dims; k++)
			ret_sizes[n++] = s->sizes[k];
		if (d < s->kept.n_dims)
			ret_sizes[n++] = s->kept.sizes[d];
	}
	*ret_n = n;
	return ET_OK;
}

/* @selected has the sizes of the result: seen as an array of places, each with a view like @s->kept. */
struct places {
	struct et_view kept;
	struct et_walk walk;
	struct et_place place;
};

static void open_places(struct places *places, const struct selection *s, const struct et_view *selected)
{
	struct et_view index;
	et_view_clone(&index, selected);
	et_view_clone(&places->kept, selected);
	for (size_t k = 0; k < s->n_dims; k++)
		et_view_remove(&places->kept, s->result_dim);
	for (size_t d = selected->n_dims; d-- > 0;) {
		if (d < s->result_dim || d >= s->result_dim + s->n_dims)
			et_view_remove(&index, d);
	}
	et_walk_init_in_order(&places->walk, (const struct et_view *[]){ &index }, 1);
	et_place_seek(&places->place, &places->walk, 0);
}

/* Every dimension is indexed, so a place is one element. */
static enum et_status index_elements(struct et_kernel_ctx *ctx, struct selection *s, struct places *to,
	size_t element_bytes)
{
	ptrdiff_t stride = to->walk.strides[0][to->walk.n_dims - 1];
	for (size_t i = 0; i < s->numel;) {
		size_t n = et_place_run(&to->place, &to->walk);
		uint8_t *out = to->kept.data + to->place.offset[0] * (int64_t)element_bytes;
		for (size_t end = i + n; i < end; i++, out += stride * (ptrdiff_t)element_bytes) {
			int64_t offset;
			ET_TRY(offset_of(ctx, s, i, &offset));
			const uint8_t *from = s->kept.data + offset * (int64_t)element_bytes;
			if (element_bytes == 4)
				memcpy(out, from, 4);
			else
				memcpy(out, from, element_bytes);
		}
		et_place_advance(&to->place, &to->walk, n);
	}
	return ET_OK;
}

/* Whether a place is one dense run on both sides. */
static bool is_one_run(const struct et_view *to, const struct et_view *from)
{
	struct et_walk walk;
	size_t unused;
	if (et_views_are_dense(to, from, &unused))
		return true;
	et_walk_init(&walk, (const struct et_view *[]){ to, from }, 2);
	return walk.n_dims == 1 && walk.strides[0][0] == 1 && walk.strides[1][0] == 1;
}

static enum et_status index_runs(struct et_kernel_ctx *ctx, struct selection *s, struct places *to,
	size_t element_bytes)
{
	size_t bytes = s->n_kept * element_bytes;
	for (size_t i = 0; i < s->numel && !et_pace_must_stop(&s->pace, s->n_kept); i++) {
		int64_t offset;
		ET_TRY(offset_of(ctx, s, i, &offset));
		et_copy_many(ctx->compute, to->kept.data + to->place.offset[0] * (int64_t)element_bytes,
			s->kept.data + offset * (int64_t)element_bytes, bytes);
		et_place_advance(&to->place, &to->walk, 1);
	}
	return ET_OK;
}

/* Copy element @offsets[i] of @from to element @at[i] of @to. */
#define GATHER(type)                   \
	for (size_t i = 0; i < n; i++) \
	((type *)(void *)to)[at[i]] = ((const type *)(const void *)from)[offsets[i]]
static void gather_elements(uint8_t *to, const int64_t *at, const uint8_t *from, const int64_t *offsets, size_t n,
	size_t bytes)
{
	switch (bytes) {
	case 1:
		GATHER(uint8_t);
		break;
	case 2:
		GATHER(uint16_t);
		break;
	case 4:
		GATHER(uint32_t);
		break;
	case 8:
		GATHER(uint64_t);
		break;
	default:
		GATHER(struct et_wide);
		break;
	}
}

/* The elements of a place are not adjacent: copy one element of many adjacent places at a time. */
static enum et_status index_strided(struct et_kernel_ctx *ctx, struct selection *s, struct places *to,
	size_t element_bytes)
{
	struct et_walk walk;
	et_walk_init(&walk, (const struct et_view *[]){ &to->kept, &s->kept }, 2);
	for (size_t begin = 0, n; begin < s->numel; begin += n) {
		int64_t at[CHUNK], offset;
		struct et_place place;
		n = s->numel - begin < CHUNK ? s->numel - begin : CHUNK;
		ET_TRY(offset_of(ctx, s, begin, &offset)); /* finds the offsets of the whole chunk */
		for (size_t i = 0; i < n; i++) {
			at[i] = to->place.offset[0];
			et_place_advance(&to->place, &to->walk, 1);
		}
		et_place_seek(&place, &walk, 0);
		for (size_t k = 0; k < walk.numel && !et_pace_must_stop(&s->pace, n); k++) {
			gather_elements(to->kept.data + place.offset[0] * (int64_t)element_bytes, at,
				s->kept.data + place.offset[1] * (int64_t)element_bytes, s->offsets, n, element_bytes);
			et_place_advance(&place, &walk, 1);
		}
	}
	return ET_OK;
}

/* Whether the elements of a place are not adjacent on either side. */
static bool is_strided(const struct et_view *to, const struct et_view *from)
{
	struct et_walk walk;
	et_walk_init(&walk, (const struct et_view *[]){ to, from }, 2);
	return walk.strides[0][walk.n_dims - 1] != 1 && walk.strides[1][walk.n_dims - 1] != 1;
}

/* Index tensors of one shape and type, for adjacent dimensions. */
struct adjacent_indices {
	const void *indices[ET_MAX_DIMS]; /* int64 or int32 */
	bool is_wide;
	const struct et_tensor *like; /* any of them */
	size_t n, first;              /* how many, and the first dimension */
};

/* False: @list is not of this kind, or an index is not row-major. */
static bool find_adjacent_indices(struct adjacent_indices *adjacent, const struct et_tensor *self,
	const struct et_evalue *list)
{
	adjacent->n = adjacent->first = 0;
	adjacent->like = NULL;
	for (size_t i = 0, n = et_list_len(list); i < n; i++) {
		const struct et_tensor *index = et_list_optional(list, i);
		if (!index)
			continue;
		if (i >= self->n_dims || (adjacent->n && i != adjacent->first + adjacent->n) ||
			(index->type != ET_INT64 && index->type != ET_INT32) ||
			(adjacent->n && index->type != adjacent->like->type) ||
			(uintptr_t)index->data % et_element_bytes(index) ||
			!et_dim_order_is_contiguous(index->dim_order, index->n_dims))
			return false;
		adjacent->first = adjacent->n ? adjacent->first : i;
		adjacent->like = adjacent->n ? adjacent->like : index;
		adjacent->is_wide = index->type == ET_INT64;
		if (index->n_dims != adjacent->like->n_dims ||
			memcmp(index->sizes, adjacent->like->sizes, index->n_dims * sizeof(*index->sizes)) != 0)
			return false;
		adjacent->indices[adjacent->n++] = index->data;
	}
	return adjacent->like && self->n_dims - adjacent->n + adjacent->like->n_dims <= ET_MAX_DIMS;
}

/* Find the byte offsets of the places [begin, begin + n) in @self. Each index is read once, because it may be in memory
 * that a client changes. */
static enum et_status find_offsets(struct et_kernel_ctx *ctx, const struct adjacent_indices *adjacent,
	const struct et_tensor *self, size_t begin, size_t n, int64_t *offsets)
{
	for (size_t k = 0; k < adjacent->n; k++) {
		int64_t size = self->sizes[adjacent->first + k],
			bytes = self->strides[adjacent->first + k] * (int64_t)et_element_bytes(self);
		for (size_t i = 0; i < n; i++) {
			const size_t nth = begin + i;
			int64_t at = adjacent->is_wide ? __atomic_load_n((const int64_t *)adjacent->indices[k] + nth,
								 __ATOMIC_RELAXED)
						       : __atomic_load_n((const int32_t *)adjacent->indices[k] + nth,
								 __ATOMIC_RELAXED);
			ET_REQUIRE(ctx, at >= -size && at < size, "index %lld in dimension %zu of size %lld",
				(long long)at, adjacent->first + k, (long long)size);
			offsets[i] = (k ? offsets[i] : 0) + (at < 0 ? at + size : at) * bytes;
		}
	}
	return ET_OK;
}

/* The elements that the indices choose from @whole: n_outer times n_places runs of bytes. */
struct chosen_runs {
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims, n_outer, n_places, run, span;
};

static void find_chosen_runs(struct chosen_runs *ret, const struct adjacent_indices *adjacent,
	const struct et_tensor *whole)
{
	ret->n_dims = 0;
	ret->n_outer = ret->n_places = 1;
	ret->run = et_element_bytes(whole);
	for (size_t d = 0; d < adjacent->first; d++)
		ret->n_outer *= (size_t)(ret->sizes[ret->n_dims++] = whole->sizes[d]);
	for (size_t d = 0; d < adjacent->like->n_dims; d++)
		ret->n_places *= (size_t)(ret->sizes[ret->n_dims++] = adjacent->like->sizes[d]);
	for (size_t d = adjacent->first + adjacent->n; d < whole->n_dims; d++)
		ret->run *= (size_t)(ret->sizes[ret->n_dims++] = whole->sizes[d]);
	ret->span = ret->run;
	for (size_t k = 0; k < adjacent->n; k++)
		ret->span *= (size_t)whole->sizes[adjacent->first + k];
}

/* Copy the chosen elements of @whole to @chosen, or back if @puts. Both are row-major and not empty. Returns early if
 * the kernel must stop. */
static enum et_status copy_chosen(struct et_kernel_ctx *ctx, const struct chosen_runs *s,
	const struct adjacent_indices *adjacent, const struct et_tensor *whole, uint8_t *chosen, bool puts)
{
	int64_t offsets[CHUNK];
	struct et_pace pace = { ctx->compute };
	const bool is_long = s->run > LONG_RUN;
	const size_t n_words = s->run / sizeof(uint64_t) + 1;
	for (size_t begin = 0, n; begin < s->n_places; begin += n) {
		uint8_t *at = whole->data, *one = chosen + begin * s->run;
		n = s->n_places - begin < CHUNK ? s->n_places - begin : CHUNK;
		ET_TRY(find_offsets(ctx, adjacent, whole, begin, n, offsets));
		for (size_t i = 0; i < s->n_outer && !et_pace_must_stop(&pace, n * n_words);
			i++, at += s->span, one += s->n_places * s->run) {
			for (size_t k = 0; is_long && k < n && !et_pace_must_stop(&pace, n_words); k++)
				et_copy_many(ctx->compute, puts ? at + offsets[k] : one + k * s->run,
					puts ? one + k * s->run : at + offsets[k], s->run);
			for (size_t k = 0; !is_long && puts && k < n; k++)
				et_copy_bytes(at + offsets[k], one + k * s->run, s->run);
			for (size_t k = 0; !is_long && !puts && k < n; k++)
				et_copy_bytes(one + k * s->run, at + offsets[k], s->run);
		}
	}
	return ET_OK;
}

static bool is_contiguous(const struct et_tensor *tensor)
{
	return et_dim_order_is_contiguous(tensor->dim_order, tensor->n_dims);
}

static enum et_status run_index(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	struct adjacent_indices adjacent;
	struct selection s;
	struct places to;
	struct et_view selected;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims;
	ET_TRY(et_require_same_type(ctx, self, out));
	if (is_contiguous(self) && is_contiguous(out) && find_adjacent_indices(&adjacent, self, args[1])) {
		struct chosen_runs chosen;
		find_chosen_runs(&chosen, &adjacent, self);
		ET_TRY(et_resize(ctx, out, chosen.sizes, chosen.n_dims));
		return et_tensor_numel(out) ? copy_chosen(ctx, &chosen, &adjacent, self, out->data, false) : ET_OK;
	}
	ET_TRY(select_elements(ctx, self, args[1], &s));
	ET_TRY(selected_sizes(ctx, &s, sizes, &n_dims));
	ET_TRY(et_resize(ctx, out, sizes, n_dims));
	et_view_of(&selected, out);
	if (et_view_numel(&selected) == 0)
		return ET_OK;
	open_places(&to, &s, &selected);
	size_t element_bytes = et_element_bytes(self);
	if (s.n_kept == 1)
		return index_elements(ctx, &s, &to, element_bytes);
	if (is_one_run(&to.kept, &s.kept))
		return index_runs(ctx, &s, &to, element_bytes);
	if (is_strided(&to.kept, &s.kept))
		return index_strided(ctx, &s, &to, element_bytes);
	for (size_t i = 0; i < s.numel && !et_pace_must_stop(&s.pace, s.n_kept); i++) {
		struct et_view from_one, to_one;
		int64_t offset;
		et_view_clone(&from_one, &s.kept);
		et_view_clone(&to_one, &to.kept);
		ET_TRY(offset_of(ctx, &s, i, &offset));
		from_one.data += offset * (int64_t)element_bytes;
		to_one.data += to.place.offset[0] * (int64_t)element_bytes;
		et_view_copy(ctx->compute, &to_one, &from_one);
		et_place_advance(&to.place, &to.walk, 1);
	}
	return ET_OK;
}

static void add_element(uint8_t *left, const uint8_t *right, enum et_scalar_type type)
{
	if (type == ET_FLOAT32) {
		float a, b;
		memcpy(&a, left, sizeof(a));
		memcpy(&b, right, sizeof(b));
		a += b;
		memcpy(left, &a, sizeof(a));
	} else if (et_type_is_complex(type)) {
		et_element_set_complex(left, type,
			et_element_get_complex(left, type) + et_element_get_complex(right, type));
	} else if (et_type_is_float(type)) {
		et_element_set_double(left, type,
			et_element_get_double(left, type) + et_element_get_double(right, type));
	} else {
		et_element_set_int(left, type,
			(int64_t)((uint64_t)et_element_get_int(left, type) +
				  (uint64_t)et_element_get_int(right, type)));
	}
}

/* Add each element of @from to that of @to; both have one type. */
static void accumulate(const struct et_compute *compute, const struct et_view *to, const struct et_view *from)
{
	struct et_walk walk;
	struct et_place place;
	int64_t bytes = (int64_t)et_scalar_size(to->type);
	et_walk_init(&walk, (const struct et_view *[]){ to, from }, 2);
	et_place_seek(&place, &walk, 0);
	struct et_pace pace = { compute };
	for (size_t i = 0; i < walk.numel && !et_pace_must_stop(&pace, 8); i++) {
		add_element(to->data + place.offset[0] * bytes, from->data + place.offset[1] * bytes, to->type);
		et_place_advance(&place, &walk, 1);
	}
}

/* Whether @values are row-major with exactly the sizes of the chosen elements. */
static bool is_chosen(const struct chosen_runs *chosen, const struct et_tensor *values)
{
	if (values->n_dims != chosen->n_dims || !is_contiguous(values) || et_tensor_numel(values) == 0)
		return false;
	for (size_t d = 0; d < values->n_dims; d++) {
		if (values->sizes[d] != chosen->sizes[d])
			return false;
	}
	return true;
}

/* @out already holds self. */
static enum et_status put(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_evalue *list,
	const struct et_tensor *values, bool accumulates)
{
	struct selection s;
	struct places from;
	struct et_view view;
	struct adjacent_indices adjacent;
	struct chosen_runs chosen;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims, element_bytes = et_element_bytes(out);
	if (!accumulates && values->type == out->type && is_contiguous(out) &&
		find_adjacent_indices(&adjacent, out, list)) {
		find_chosen_runs(&chosen, &adjacent, out);
		if (is_chosen(&chosen, values))
			return copy_chosen(ctx, &chosen, &adjacent, out, values->data, true);
	}
	ET_TRY(select_elements(ctx, out, list, &s));
	ET_TRY(selected_sizes(ctx, &s, sizes, &n_dims));
	et_view_of(&view, values);
	if (values->type != out->type && !et_local_copy(ctx, values, out->type, &view))
		return ET_E_MEMORY_ALLOCATION_FAILED;
	ET_REQUIRE(ctx, et_view_broadcast(&view, sizes, n_dims), "the values do not broadcast to the indexed elements");
	if (et_view_numel(&view) == 0)
		return ET_OK;
	open_places(&from, &s, &view);
	bool is_element = s.n_kept == 1;
	for (size_t i = 0; i < s.numel && !et_pace_must_stop(&s.pace, s.n_kept); i++) {
		struct et_view from_one, to_one;
		int64_t offset;
		et_view_clone(&from_one, &from.kept);
		et_view_clone(&to_one, &s.kept);
		ET_TRY(offset_of(ctx, &s, i, &offset));
		to_one.data += offset * (int64_t)element_bytes;
		from_one.data += from.place.offset[0] * (int64_t)element_bytes;
		if (accumulates && is_element)
			add_element(to_one.data, from_one.data, (enum et_scalar_type)out->type);
		else if (accumulates)
			accumulate(ctx->compute, &to_one, &from_one);
		else
			et_view_copy(ctx->compute, &to_one, &from_one);
		et_place_advance(&from.place, &from.walk, 1);
	}
	return ET_OK;
}

static enum et_status run_put(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view self;
	et_view_of(&self, args[0]->tensor);
	ET_TRY(et_copy_view_to_output(ctx, &self, args[4]->tensor));
	return put(ctx, args[4]->tensor, args[1], args[2]->tensor, args[3]->b);
}

static enum et_status run_put_in_place(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return put(ctx, args[0]->tensor, args[1], args[2]->tensor, args[3]->b);
}

static const struct et_kernel rows[] = {
	{ "aten::index.Tensor_out", "Tl>T", run_index },
	{ "aten::index_put.out", "TlTB>T", run_put },
	{ "aten::index_put_", "&TlTB", run_put_in_place },
};

ET_KERNEL_TABLE(index);
