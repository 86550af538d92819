/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for the runtime: an allocator table that the caller passes in, and a pool on top of it.
 *
 * Nothing in runtime/ calls malloc. The caller passes a `struct et_allocator`: on Linux et_platform_allocator()
 * (runtime/platform); in tests one static buffer, or an allocator that fails at the nth call.
 *
 * Most objects here are built once and freed as a whole, so they own an `et_pool`: a chain of chunks that is only
 * freed together. If the construction of an object fails half-way, it frees its pool, and the clean-up is complete. */
#ifndef RUNTIME_BASE_ALLOC_H
#define RUNTIME_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Threads: as the owner of the table says. et_platform_allocator() works on any thread. */
struct et_allocator {
	void *self;
	/* @align is a power of two, at most 4096. NULL: no memory. The contents are undefined. */
	void *(*alloc)(void *self, size_t n_bytes, size_t align);
	/* @n_bytes is the size that was requested. @ptr may be NULL. */
	void (*free)(void *self, void *ptr, size_t n_bytes);
};

/* An allocator over one buffer; free does nothing. For programs that must not use a heap. */
struct et_static_buffer {
	uint8_t *bytes;
	size_t n_bytes;
	size_t n_used;
};
/* @buffer and its bytes stay the caller's and must outlive the allocator. */
struct et_allocator et_static_allocator(struct et_static_buffer *buffer);

struct et_pool_chunk;

/* All zeros: an empty pool without an allocator, which et_pool_deinit accepts. */
struct et_pool {
	struct et_allocator allocator;
	struct et_pool_chunk *chunks;
	size_t n_bytes; /* taken from the allocator so far */
};

void et_pool_init(struct et_pool *pool, const struct et_allocator *allocator);
void et_pool_deinit(struct et_pool *pool);

/* Zeroed memory that lives as long as the pool. NULL: no memory, or the size overflows. n = 0 returns a pointer that
 * must not be dereferenced. */
void *et_pool_alloc(struct et_pool *pool, size_t n_bytes, size_t align);
void *et_pool_array(struct et_pool *pool, size_t n, size_t item_bytes);
/* A copy with a NUL at its end. */
char *et_pool_strndup(struct et_pool *pool, const char *text, size_t n);

#define ET_POOL_NEW(pool, type)          ((type *)et_pool_alloc(pool, sizeof(type), _Alignof(type)))
#define ET_POOL_NEW_ARRAY(pool, type, n) ((type *)et_pool_array(pool, n, sizeof(type)))

/* Forget all allocations but keep the memory, for scratch that is used again and again: after the first few uses it
 * costs no allocation. Several chunks are replaced by one as large as the peak. */
void et_pool_reset(struct et_pool *pool);
/* The same as et_pool_alloc and et_pool_array, but not zeroed, so pages that the caller never writes are never
 * touched. */
void *et_pool_scratch(struct et_pool *pool, size_t n_bytes, size_t align);
void *et_pool_scratch_array(struct et_pool *pool, size_t n, size_t item_bytes);

#endif
