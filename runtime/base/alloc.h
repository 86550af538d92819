/* SPDX-License-Identifier: BSD-3-Clause */
/* Where memory comes from: a table that the caller hands in, and a pool on top of it.
 *
 * Nothing in runtime/ calls malloc. Whoever uses the runtime passes a `struct et_allocator`; on a
 * Linux host that is et_platform_allocator() (runtime/platform), in a test it is one static buffer or one
 * that fails at the nth call.
 *
 * Most objects here are built once and freed as a whole, so they own an `et_pool`: a chain of
 * chunks that is only ever freed together. An object that fails half-way through its construction
 * frees its pool and has cleaned up. */
#ifndef RUNTIME_BASE_ALLOC_H
#define RUNTIME_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Thread: as the owner of the table says; et_platform_allocator() may be used from any. */
struct et_allocator {
	void *self;
	/* @align is a power of two, at most 4096; NULL when there is no more. Contents are undefined. */
	void *(*alloc)(void *self, size_t n_bytes, size_t align);
	/* @n_bytes is what was asked for. @ptr may be NULL. */
	void (*free)(void *self, void *ptr, size_t n_bytes);
};

/* Serves everything from one buffer; free does nothing. For programs that must not use a heap. */
struct et_static_buffer {
	uint8_t *bytes;
	size_t n_bytes;
	size_t n_used;
};
/* @buffer and its bytes stay the caller's and must outlive the allocator. */
struct et_allocator et_static_allocator(struct et_static_buffer *buffer);

struct et_pool_chunk;

/* All zeros is an empty pool without an allocator, which et_pool_deinit accepts. */
struct et_pool {
	struct et_allocator allocator;
	struct et_pool_chunk *chunks;
	size_t n_bytes; /* taken from the allocator so far */
};

void et_pool_init(struct et_pool *pool, const struct et_allocator *allocator);
void et_pool_deinit(struct et_pool *pool);

/* Zeroed memory that lives as long as the pool; NULL when the allocator has no more or the
 * size overflows. n = 0 gives a pointer that must not be read. */
void *et_pool_alloc(struct et_pool *pool, size_t n_bytes, size_t align);
void *et_pool_array(struct et_pool *pool, size_t n, size_t item_bytes);
/* A NUL-terminated copy. */
char *et_pool_strndup(struct et_pool *pool, const char *text, size_t n);

#define ET_POOL_NEW(pool, type)          ((type *)et_pool_alloc(pool, sizeof(type), _Alignof(type)))
#define ET_POOL_NEW_ARRAY(pool, type, n) ((type *)et_pool_array(pool, n, sizeof(type)))

/* Keep the memory but forget what was given out, for scratch that is used again and again: after
 * the first few uses it costs no allocation. Chunks are joined into one as large as the peak. */
void et_pool_reset(struct et_pool *pool);
/* As et_pool_alloc and et_pool_array, but the memory is not zeroed: what of it nobody writes is not touched. */
void *et_pool_scratch(struct et_pool *pool, size_t n_bytes, size_t align);
void *et_pool_scratch_array(struct et_pool *pool, size_t n, size_t item_bytes);

#endif
