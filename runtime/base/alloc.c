/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool: a chain of chunks. Each chunk is filled from its front; all chunks are freed together.
 *
 * If the first chunk has too little room for a request, a larger chunk is put before it and the rest of the old
 * chunk is wasted. The waste is bounded, because chunk sizes double up to 64 KiB. No padding follows an allocation:
 * callers that need padding ask for it. */
#include "runtime/base/alloc.h"
#include "runtime/base/checked.h"

#include <string.h>

enum { FIRST_CHUNK = 1024, LARGEST_STEP = 64 * 1024, CHUNK_ALIGN = 64 };

struct et_pool_chunk {
	struct et_pool_chunk *next;
	size_t n_bytes; /* size of the whole chunk, this header included */
	size_t n_used;
};

static void *static_alloc(void *self, size_t n_bytes, size_t align)
{
	struct et_static_buffer *buffer = self;
	uintptr_t at = (uintptr_t)buffer->bytes + buffer->n_used;
	size_t pad = (size_t)(-at & (align - 1));
	size_t need;
	if (!et_add(n_bytes, pad, &need) || need > buffer->n_bytes - buffer->n_used)
		return NULL;
	buffer->n_used += need;
	return buffer->bytes + (buffer->n_used - n_bytes);
}

static void static_free(void *self, void *ptr, size_t n_bytes)
{
	(void)self;
	(void)ptr;
	(void)n_bytes;
}

struct et_allocator et_static_allocator(struct et_static_buffer *buffer)
{
	return (struct et_allocator){ .self = buffer, .alloc = static_alloc, .free = static_free };
}

void et_pool_init(struct et_pool *pool, const struct et_allocator *allocator)
{
	*pool = (struct et_pool){ .allocator = *allocator };
}

void et_pool_deinit(struct et_pool *pool)
{
	while (pool->chunks) {
		struct et_pool_chunk *chunk = pool->chunks;
		pool->chunks = chunk->next;
		pool->allocator.free(pool->allocator.self, chunk, chunk->n_bytes);
	}
	pool->n_bytes = 0;
}

/* NULL: @chunk has too little room. */
static void *chunk_take(struct et_pool_chunk *chunk, size_t n_bytes, size_t align)
{
	uintptr_t at = (uintptr_t)chunk + chunk->n_used;
	size_t pad = (size_t)(-at & (align - 1));
	size_t need;
	if (!et_add(n_bytes, pad, &need) || need > chunk->n_bytes - chunk->n_used)
		return NULL;
	chunk->n_used += need;
	return (uint8_t *)chunk + (chunk->n_used - n_bytes);
}

/* Free the first chunk if it is empty, as after a reset: it is too small for the next request, so it would be
 * wasted. */
static void drop_empty(struct et_pool *pool)
{
	struct et_pool_chunk *chunk = pool->chunks;
	if (chunk->n_used > sizeof *chunk)
		return;
	pool->chunks = chunk->next;
	pool->n_bytes -= chunk->n_bytes;
	pool->allocator.free(pool->allocator.self, chunk, chunk->n_bytes);
}

void *et_pool_scratch(struct et_pool *pool, size_t n_bytes, size_t align)
{
	if (pool->chunks) {
		void *piece = chunk_take(pool->chunks, n_bytes, align);
		if (piece)
			return piece;
		drop_empty(pool);
	}
	size_t step = pool->n_bytes < FIRST_CHUNK ? FIRST_CHUNK : pool->n_bytes;
	if (step > LARGEST_STEP)
		step = LARGEST_STEP;
	size_t need;
	if (!et_add(n_bytes, sizeof(struct et_pool_chunk) + align, &need))
		return NULL;
	if (need < step)
		need = step;
	struct et_pool_chunk *chunk = pool->allocator.alloc(pool->allocator.self, need, CHUNK_ALIGN);
	if (!chunk)
		return NULL;
	*chunk = (struct et_pool_chunk){ .next = pool->chunks, .n_bytes = need, .n_used = sizeof *chunk };
	pool->chunks = chunk;
	pool->n_bytes += need;
	return chunk_take(chunk, n_bytes, align);
}

void *et_pool_alloc(struct et_pool *pool, size_t n_bytes, size_t align)
{
	void *piece = et_pool_scratch(pool, n_bytes, align);
	if (piece)
		memset(piece, 0, n_bytes);
	return piece;
}

void *et_pool_scratch_array(struct et_pool *pool, size_t n, size_t item_bytes)
{
	size_t n_bytes;
	if (!et_mul(n, item_bytes, &n_bytes))
		return NULL;
	return et_pool_scratch(pool, n_bytes, _Alignof(max_align_t));
}

void *et_pool_array(struct et_pool *pool, size_t n, size_t item_bytes)
{
	void *array = et_pool_scratch_array(pool, n, item_bytes);
	if (array)
		memset(array, 0, n * item_bytes);
	return array;
}

char *et_pool_strndup(struct et_pool *pool, const char *text, size_t n)
{
	size_t n_bytes;
	if (!et_add(n, 1, &n_bytes))
		return NULL;
	char *copy = et_pool_scratch(pool, n_bytes, 1);
	if (copy) {
		memcpy(copy, text, n);
		copy[n] = '\0';
	}
	return copy;
}

void et_pool_reset(struct et_pool *pool)
{
	struct et_pool_chunk *chunk = pool->chunks;
	if (!chunk)
		return;
	if (!chunk->next) {
		chunk->n_used = sizeof *chunk;
		return;
	}
	size_t n_bytes = pool->n_bytes;
	et_pool_deinit(pool);
	chunk = pool->allocator.alloc(pool->allocator.self, n_bytes, CHUNK_ALIGN);
	if (!chunk)
		return; /* the next request allocates again, and reports the failure */
	*chunk = (struct et_pool_chunk){ .n_bytes = n_bytes, .n_used = sizeof *chunk };
	pool->chunks = chunk;
	pool->n_bytes = n_bytes;
}
