/* SPDX-License-Identifier: BSD-3-Clause */
/* XNNPACK's weights cache, as we need it.
 *
 * How XNNPACK (2024-11-08) uses the provider: a GEMM or convolution asks look_up first and packs nothing if there is
 * an answer; a depthwise convolution never asks, always reserves space, packs, and offers the result to
 * look_up_or_insert, so what it packs the second time is thrown away here. Answers are "offsets", SIZE_MAX = not
 * found, that offset_to_addr turns into addresses whenever an operator is set up: here the offset is the
 * address itself, so that path takes no lock. is_finalized must be true before an operator is set up; nothing depends
 * on it here, so it always is.
 *
 * Two things make the key {seed, kernel pointer, bias pointer} good enough: kernels that were claimed have
 * one meaning, or one with each bias (et_xnn_weights_claim), and they are never freed while this object lives. Pointers
 * that nobody claimed (XNNPACK converts some kernels into a temporary first) are never found by key: what is packed from
 * them is looked for by its bytes. A seed is nothing but numbers of channels and the like, one XORed with the
 * other, so a file can choose it: what our own nodes packed is told from XNNPACK's by something else, and by its size.
 *
 * An insertion can't fail: its memory was reserved before, and XNNPACK would not look at the answer.
 *
 * What a store kept of the Program is mapped when this object is made. A claim that has a name there is answered
 * from the mapping, so nothing is packed for it and no memory taken; the kernel may drop and share those pages. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/weights/weights_internal.h"

#include "runtime/base/checked.h"

#include <string.h>

enum {
	SLAB = 4 << 20,    /* a Program that packs more than this takes memory in such pieces or larger ones, */
	IN_SLAB = 1 << 16, /* for blocks from this size on, */
	GROWTH = 16,       /* up to that many times what it has packed before */
	SLAB_ALIGNMENT = 4096,
	TIMES = 64,       /* the bytes of a Program's files may be claimed for packing, */
	SPARE = 64 << 20, /* and that much, whatever its size */
	LARGE = 1 << 16,  /* a filter whose pages are worth a system call */
};

/* Memory for several blocks. Freed with the last of them. */
struct et_xnn_slab {
	struct et_list_node node;
	size_t n_bytes, n_used;
	uint32_t n_blocks;
};

static struct et_xnn_block *block_of(void *bytes)
{
	return (struct et_xnn_block *)((uint8_t *)bytes - ET_XNN_HEADER);
}

/* At the end of each slab is what no filter fitted in, which is memory up to the end of a large page: so each is much larger than all
 * before it, and there are few. Large pages are memory as soon as a byte of them is, so the last slab had better not be larger than
 * what is yet to come: filters are packed in about the order in which they lie, so that is what lies behind the one that was asked
 * for last. That may be no filter, so what nobody has taken yet does not count, and is none to the kernel. */
static struct et_xnn_slab *slab_new(struct et_xnn_weights *weights, size_t n)
{
	size_t n_least = ET_XNN_ALIGNMENT + n, n_most = GROWTH * weights->stats.n_bytes,
	       n_bytes = ((n_least > n_most ? n_least : n_most) + SLAB - 1) & ~(size_t)(SLAB - 1),
	       n_to_come = n_least + weights->n_behind;
	if (n_bytes > n_to_come)
		n_bytes = n_to_come;
	struct et_xnn_slab *slab = weights->allocator.alloc(weights->allocator.self, n_bytes, SLAB_ALIGNMENT);
	if (!slab) /* where the kernel promises no more than there is */
		slab = weights->allocator.alloc(weights->allocator.self, n_bytes = n_least, SLAB_ALIGNMENT);
	if (!slab)
		return NULL;
	*slab = (struct et_xnn_slab){ .n_bytes = n_bytes, .n_used = ET_XNN_ALIGNMENT };
	weights->stats.n_bytes += slab->n_used;
	et_list_append(&weights->slabs, &slab->node);
	return slab;
}

/* One with room for @n bytes. */
static struct et_xnn_slab *slab_find(struct et_xnn_weights *weights, size_t n)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &weights->slabs) {
		struct et_xnn_slab *slab = ET_CONTAINER_OF(node, struct et_xnn_slab, node);
		if (n <= slab->n_bytes - slab->n_used)
			return slab;
	}
	return slab_new(weights, n);
}

/* @n_block bytes for a block and its header. */
static struct et_xnn_block *slab_take(struct et_xnn_weights *weights, size_t n_block, struct et_xnn_slab **ret_slab)
{
	size_t n = (n_block + ET_XNN_ALIGNMENT - 1) & ~(size_t)(ET_XNN_ALIGNMENT - 1);
	struct et_xnn_slab *slab = *ret_slab = slab_find(weights, n);
	if (!slab)
		return NULL;
	struct et_xnn_block *block = (struct et_xnn_block *)(void *)((uint8_t *)slab + slab->n_used);
	slab->n_used += n;
	slab->n_blocks++;
	weights->stats.n_bytes += n;
	return block;
}

/* @n bytes less, the last ones or not. */
static void slab_give(struct et_xnn_weights *weights, struct et_xnn_slab *slab, struct et_xnn_block *block, size_t n)
{
	if ((uint8_t *)block + n == (uint8_t *)slab + slab->n_used) { /* its place is free again */
		slab->n_used -= n;
		weights->stats.n_bytes -= n;
	}
	if (--slab->n_blocks)
		return;
	et_list_remove(&slab->node);
	weights->stats.n_bytes -= slab->n_used;
	weights->allocator.free(weights->allocator.self, slab, slab->n_bytes);
}

static struct et_xnn_block *block_new(struct et_xnn_weights *weights, size_t n_bytes, struct et_list_node *list)
{
	if (n_bytes > SIZE_MAX / 2)
		return NULL;
	size_t n_block = ET_XNN_HEADER + n_bytes + ET_XNN_PADDING;
	bool is_in_slab = n_bytes >= IN_SLAB && weights->stats.n_bytes >= SLAB;
	struct et_xnn_slab *slab = NULL;
	struct et_xnn_block *block = is_in_slab ? slab_take(weights, n_block, &slab)
						: weights->allocator.alloc(weights->allocator.self, n_block,
							  ET_XNN_ALIGNMENT);
	if (!block)
		return NULL;
	memset(block, 0, ET_XNN_HEADER);
	memset((uint8_t *)et_xnn_bytes_of(block) + n_bytes, 0, ET_XNN_PADDING);
	block->n_bytes = n_bytes;
	block->slab = slab;
	et_list_append(list, &block->node);
	if (!is_in_slab)
		weights->stats.n_bytes += n_block;
	return block;
}

static void block_free(struct et_xnn_weights *weights, struct et_xnn_block *block)
{
	size_t n_block = ET_XNN_HEADER + block->n_bytes + ET_XNN_PADDING;
	struct et_xnn_slab *slab = block->slab;
	et_list_remove(&block->node);
	if (!slab) {
		weights->stats.n_bytes -= n_block;
		weights->allocator.free(weights->allocator.self, block, n_block);
		return;
	}
	size_t n = (n_block + ET_XNN_ALIGNMENT - 1) & ~(size_t)(ET_XNN_ALIGNMENT - 1);
	slab_give(weights, slab, block, n);
}

static void blocks_free(struct et_xnn_weights *weights, struct et_list_node *list)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, list)
		block_free(weights, ET_CONTAINER_OF(node, struct et_xnn_block, node));
}

/* --- what XNNPACK calls, from several threads -------------------------------------------------------- */

static bool is_same_name(const struct et_xnn_row *a, const struct et_xnn_row *b)
{
	return a->name.position == b->name.position && memcmp(&a->name, &b->name, sizeof(a->name)) == 0;
}

/* What the store kept for @key, or NULL. @n_bytes: how long it must be; 0: who asks can't tell. */
static const struct et_xnn_row *find_row(const struct et_xnn_weights *weights,
	const struct xnn_weights_cache_look_up_key *key, size_t n_bytes, bool is_override)
{
	uint32_t flags = (key->bias ? ET_XNN_ROW_BIAS : 0) | (is_override ? ET_XNN_ROW_OVERRIDE : 0);
	const struct et_xnn_packed *packed = &weights->packed_file;
	const struct et_xnn_claim *claim = packed->n_rows ? et_xnn_find_claim(weights, key->kernel, key->bias) : NULL;
	uint32_t n_tries = claim && claim->row < packed->n_rows ? packed->n_rows : 0;
	for (uint32_t i = 0, at = n_tries ? claim->row : 0; i < n_tries; i++) {
		const struct et_xnn_row *row = &packed->rows[at];
		if (row->seed == key->seed && row->flags == flags && (!n_bytes || row->n_bytes == n_bytes) &&
			(at == claim->row || is_same_name(row, &packed->rows[claim->row])))
			return row;
		at = (at + 1) % packed->n_rows;
	}
	return NULL;
}

static size_t row_address(const struct et_xnn_weights *weights, const struct et_xnn_row *row)
{
	return (size_t)(uintptr_t)(weights->packed_file.bytes + row->offset);
}

/* As find_row. */
static struct et_xnn_block *find(const struct et_xnn_weights *weights, const struct xnn_weights_cache_look_up_key *key,
	size_t n_bytes, bool is_override)
{
	for (struct et_xnn_block *block = weights->by_key[et_xnn_bucket(key->kernel)]; block; block = block->next) {
		if (block->kernel == key->kernel && block->bias == key->bias && block->seed == key->seed &&
			block->is_override == is_override && (!n_bytes || block->n_bytes == n_bytes))
			return block;
	}
	return NULL;
}

/* Not one that holds against somebody who looks for collisions: what has the same is compared. */
static uint64_t digest_of(const void *bytes, size_t n_bytes)
{
	uint64_t digest = n_bytes, word = 0;
	for (size_t at = 0; at < n_bytes; at += sizeof(word)) {
		size_t left = n_bytes - at;
		if (left < sizeof(word))
			word = 0;
		memcpy(&word, (const uint8_t *)bytes + at, left < sizeof(word) ? left : sizeof(word));
		digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		digest ^= digest >> 32;
	}
	return digest;
}

/* What was packed without a key and has the first @n_bytes of @packed, whose digest is set here. */
static struct et_xnn_block *find_same(const struct et_xnn_weights *weights, struct et_xnn_block *packed, size_t n_bytes)
{
	packed->digest = digest_of(et_xnn_bytes_of(packed), n_bytes);
	struct et_xnn_block *block = weights->by_digest[packed->digest % ET_XNN_BUCKETS];
	while (block && (block->digest != packed->digest || block->n_bytes != packed->n_bytes ||
				memcmp(et_xnn_bytes_of(block), et_xnn_bytes_of(packed), n_bytes) != 0))
		block = block->next;
	return block;
}

static void fill_transposed(const struct et_xnn_block *block, float *to)
{
	const float *from = block->kernel;
	for (uint32_t column = 0; column < block->n_columns; column++)
		for (uint32_t row = 0; row < block->n_rows; row++)
			*to++ = from[(size_t)row * block->n_columns + column];
}

/* The lower nibble comes first; 8 was added to each. */
static void fill_widened(const struct et_xnn_block *block, int8_t *to)
{
	const uint8_t *from = block->kernel;
	for (size_t i = 0; i < block->n_bytes / 2; i++) {
		to[2 * i] = (int8_t)((from[i] & 15) - 8);
		to[2 * i + 1] = (int8_t)((from[i] >> 4) - 8);
	}
}

static void fill_floats(const struct et_xnn_block *block, float *to)
{
	const uint8_t *from = block->kernel;
	for (size_t i = 0; i < block->n_bytes / sizeof(*to); i++) {
		uint16_t fp16;
		memcpy(&fp16, from + i * sizeof(fp16), sizeof(fp16));
		to[i] = block->remade == ET_XNN_FROM_FP16 ? et_xnn_from_fp16(fp16) : et_from_bfloat16(fp16);
	}
}

/* One of those who claimed @kernel, or NULL. */
static const struct et_xnn_claim *find_any(const struct et_xnn_weights *weights, const void *kernel)
{
	const struct et_xnn_claim *claim = weights->claims[et_xnn_bucket(kernel)];
	while (claim && claim->kernel != kernel)
		claim = claim->next;
	return claim;
}

/* If @kernel is a remade copy, somebody is about to read it. */
static void fill_if_needed(const struct et_xnn_weights *weights, const void *kernel)
{
	const struct et_xnn_claim *claim = find_any(weights, kernel);
	if (!claim || claim->signature.remade == ET_XNN_AS_IT_IS || claim->kernel != claim->source)
		return;
	struct et_xnn_block *block = block_of((void *)(uintptr_t)kernel);
	if (!block->is_to_fill)
		return;
	if (block->remade == ET_XNN_WIDENED)
		fill_widened(block, et_xnn_bytes_of(block));
	else if (block->remade == ET_XNN_TRANSPOSED)
		fill_transposed(block, et_xnn_bytes_of(block));
	else
		fill_floats(block, et_xnn_bytes_of(block));
	block->is_to_fill = false;
}

/* How many bytes of the Program lie behind a filter that is about to be packed; many where nobody knows. */
static uint64_t n_behind(const struct et_xnn_weights *weights, const struct et_xnn_claim *claim)
{
	size_t end;
	if (!claim || !et_add(claim->position, claim->n_bytes, &end) || end > weights->n_file_bytes)
		return SLAB;
	return weights->n_file_bytes - end;
}

/* @n_bytes: how long it must be, which XNNPACK does not say (0) and of what a file kept only its checksum would. */
static size_t look_up_for(struct et_xnn_weights *weights, const struct xnn_weights_cache_look_up_key *key,
	size_t n_bytes, bool is_override)
{
	pthread_mutex_lock(&weights->lock);
	const struct et_xnn_row *row = find_row(weights, key, n_bytes, is_override);
	struct et_xnn_block *block = row ? NULL : find(weights, key, n_bytes, is_override);
	if (!row && !block) {
		fill_if_needed(weights, key->kernel);
		weights->n_behind = n_behind(weights, et_xnn_find_claim(weights, key->kernel, key->bias));
	}
	pthread_mutex_unlock(&weights->lock);
	return row ? row_address(weights, row) : block ? (size_t)(uintptr_t)et_xnn_bytes_of(block) : SIZE_MAX;
}

static size_t look_up(void *self, const struct xnn_weights_cache_look_up_key *key)
{
	return look_up_for(self, key, 0, false);
}

static void *reserve_space(void *self, size_t n)
{
	struct et_xnn_weights *weights = self;
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_block *block = block_new(weights, n, &weights->reserved);
	if (block)
		weights->stats.n_packings++;
	pthread_mutex_unlock(&weights->lock);
	return block ? et_xnn_bytes_of(block) : NULL;
}

/* What was packed is hardly read again. Under the lock, so that the source is there. */
static void release(const struct et_xnn_weights *weights, const struct et_xnn_claim *claim)
{
	const struct inferd_delegate_payload *source = weights->source;
	if (claim && claim->is_mapped && claim->n_bytes >= LARGE && source && source->drop)
		source->drop(source->self, claim->kernel, claim->n_bytes);
}

/* @ptr is what reserve_space gave, filled; NULL after a look_up that had an answer. */
static size_t insert_for(struct et_xnn_weights *weights, const struct xnn_weights_cache_look_up_key *key, void *ptr,
	size_t size, bool is_override)
{
	pthread_mutex_lock(&weights->lock);
	const struct et_xnn_claim *claim = et_xnn_find_claim(weights, key->kernel, key->bias);
	size_t n_bytes = ptr ? block_of(ptr)->n_bytes : 0;
	const struct et_xnn_row *row = find_row(weights, key, n_bytes, is_override);
	if (row) {
		if (ptr)
			block_free(weights, block_of(ptr));
		pthread_mutex_unlock(&weights->lock);
		return row_address(weights, row);
	}
	struct et_xnn_block *found = find(weights, key, n_bytes, is_override);
	if (ptr) {
		struct et_xnn_block *packed = block_of(ptr);
		if (!found && !claim)
			found = find_same(weights, packed, size);
		if (!found && claim) {
			struct et_xnn_block **head = &weights->by_key[et_xnn_bucket(key->kernel)];
			packed->kernel = key->kernel;
			packed->bias = key->bias;
			packed->seed = key->seed;
			packed->has_key = true;
			packed->is_override = is_override;
			packed->next = *head;
			*head = packed;
		} else if (!found) {
			struct et_xnn_block **head = &weights->by_digest[packed->digest % ET_XNN_BUCKETS];
			packed->next = *head;
			*head = packed;
		}
		if (found) {
			block_free(weights, packed);
		} else {
			et_list_remove(&packed->node);
			et_list_append(&weights->packed, &packed->node);
			weights->stats.n_packed++;
			weights->has_news = weights->has_news || packed->has_key;
			found = packed;
			release(weights, claim);
		}
	}
	pthread_mutex_unlock(&weights->lock);
	return found ? (size_t)(uintptr_t)et_xnn_bytes_of(found) : SIZE_MAX;
}

static size_t look_up_or_insert(void *self, const struct xnn_weights_cache_look_up_key *key, void *ptr, size_t size)
{
	return insert_for(self, key, ptr, size, false);
}

static bool is_finalized(void *self)
{
	return true;
}

static void *offset_to_addr(void *self, size_t offset)
{
	return (void *)(uintptr_t)offset;
}

static enum xnn_status delete_cache(void *self)
{
	return xnn_status_success; /* ours to delete */
}

/* --- ours ------------------------------------------------------------------------------------------- */

const void *et_xnn_weights_pack(struct et_xnn_weights *weights, const void *kernel, const void *bias, size_t n_bytes,
	void (*pack)(void *arg, void *to), void *arg)
{
	struct xnn_weights_cache_look_up_key key = { .kernel = kernel, .bias = bias };
	size_t at = look_up_for(weights, &key, n_bytes, true);
	if (at != SIZE_MAX)
		return (const void *)(uintptr_t)at;
	void *to = reserve_space(weights, n_bytes);
	if (!to)
		return NULL;
	pack(arg, to);
	return (const void *)(uintptr_t)insert_for(weights, &key, to, n_bytes, true);
}

struct et_xnn_weights *et_xnn_weights_new(const struct et_allocator *allocator,
	const struct inferd_delegate_store *store, const char *machine)
{
	struct et_xnn_weights *weights = allocator->alloc(allocator->self, sizeof(*weights),
		_Alignof(struct et_xnn_weights));
	if (!weights)
		return NULL;
	memset(weights, 0, sizeof(*weights));
	weights->allocator = *allocator;
	weights->provider = (struct xnn_weights_cache_provider){
		.context = weights,
		.look_up = look_up,
		.reserve_space = reserve_space,
		.look_up_or_insert = look_up_or_insert,
		.is_finalized = is_finalized,
		.offset_to_addr = offset_to_addr,
		.delete_cache = delete_cache,
	};
	pthread_mutex_init(&weights->lock, NULL);
	et_list_init(&weights->reserved);
	et_list_init(&weights->packed);
	et_list_init(&weights->copies);
	et_list_init(&weights->slabs);
	weights->n_behind = SLAB;
	et_pool_init(&weights->pool, allocator);
	weights->stats.n_bytes = sizeof(*weights);
	weights->machine = machine;
	const uint8_t *bytes;
	size_t n_bytes;
	if (store && store->find(store->self, machine, &bytes, &n_bytes, &weights->handle) == INFERD_DELEGATE_OK &&
		!et_xnn_packed_open(&weights->packed_file, bytes, n_bytes)) {
		store->release(store->self, weights->handle);
		weights->handle = NULL;
	}
	return weights;
}

struct et_xnn_weights *et_xnn_weights_free(struct et_xnn_weights *weights, const struct inferd_delegate_store *store)
{
	if (!weights)
		return NULL;
	blocks_free(weights, &weights->reserved);
	blocks_free(weights, &weights->packed);
	blocks_free(weights, &weights->copies);
	et_pool_deinit(&weights->pool);
	if (weights->handle)
		store->release(store->self, weights->handle);
	pthread_mutex_destroy(&weights->lock);
	struct et_allocator allocator = weights->allocator;
	allocator.free(allocator.self, weights, sizeof(*weights));
	return NULL;
}

xnn_weights_cache_t et_xnn_weights_provider(struct et_xnn_weights *weights)
{
	return &weights->provider;
}

/* Where the store's file has what @claim is about. */
static void find_kept(struct et_xnn_weights *weights, struct et_xnn_claim *claim, const struct et_xnn_name *name)
{
	const struct et_xnn_packed *packed = &weights->packed_file;
	claim->row = packed->n_rows;
	if (name->position == ET_XNN_NOWHERE || !packed->n_rows)
		return;
	claim->row = et_xnn_packed_find(packed, name, weights->cursor);
	if (claim->row == packed->n_rows)
		return;
	weights->cursor = claim->row + 1 < packed->n_rows ? claim->row + 1 : 0;
	weights->stats.n_mapped += packed->rows[claim->row].n_bytes;
}

static size_t bucket_of_use(const void *source, const struct et_xnn_signature *signature)
{
	uint64_t hash = (uintptr_t)source;
	for (size_t i = 0; i + sizeof(hash) <= sizeof(*signature); i += sizeof(hash)) {
		uint64_t word;
		memcpy(&word, (const uint8_t *)signature + i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return hash % ET_XNN_BUCKETS;
}

/* Whether no key for @use's kernel can be that of another use of it. Under the lock. */
static bool is_free(const struct et_xnn_weights *weights, const struct et_xnn_use *use)
{
	const struct et_xnn_claim *claim = weights->claims[et_xnn_bucket(use->kernel)];
	while (claim && (claim->kernel != use->kernel || (claim->is_by_bias && use->is_by_bias &&
								 claim->signature.bias != use->signature->bias)))
		claim = claim->next;
	return !claim;
}

/* Under the lock. NULL if there is no memory. */
static struct et_xnn_claim *claim_new(struct et_xnn_weights *weights, const struct et_xnn_use *use)
{
	bool needs_copy = !is_free(weights, use);
	const void *source = use->kernel;
	const struct et_xnn_signature *signature = use->signature;
	const struct et_xnn_name *name = use->name;
	struct et_xnn_claim *claim = ET_POOL_NEW(&weights->pool, struct et_xnn_claim);
	struct et_xnn_block *copy = NULL;
	if (claim && needs_copy) {
		fill_if_needed(weights, source);
		copy = block_new(weights, use->n_bytes, &weights->copies);
		if (copy)
			memcpy(et_xnn_bytes_of(copy), source, use->n_bytes);
	}
	if (!claim || (needs_copy && !copy))
		return NULL;
	struct et_xnn_claim **by_source = &weights->by_source[bucket_of_use(source, signature)];
	claim->source = source;
	claim->kernel = copy ? et_xnn_bytes_of(copy) : source;
	claim->signature = *signature;
	claim->position = name->position;
	claim->bias_position = name->signature.bias;
	claim->is_mapped = use->is_mapped && !copy;
	claim->is_by_bias = use->is_by_bias;
	claim->n_bytes = use->n_bytes;
	find_kept(weights, claim, name);
	struct et_xnn_claim **by_kernel = &weights->claims[et_xnn_bucket(claim->kernel)];
	claim->next = *by_kernel;
	*by_kernel = claim;
	claim->next_of_source = *by_source;
	*by_source = claim;
	return claim;
}

void et_xnn_weights_begin(struct et_xnn_weights *weights, const struct inferd_delegate_payload *source)
{
	pthread_mutex_lock(&weights->lock);
	weights->n_file_bytes = source->file ? source->n_file_bytes : source->n_bytes;
	weights->source = source;
	pthread_mutex_unlock(&weights->lock);
}

void et_xnn_weights_end(struct et_xnn_weights *weights, const struct inferd_delegate_payload *source)
{
	pthread_mutex_lock(&weights->lock);
	if (weights->source == source)
		weights->source = NULL;
	pthread_mutex_unlock(&weights->lock);
}

/* Under the lock. */
static enum et_status count(struct et_xnn_weights *weights, uint64_t n_bytes, struct et_diag *diag)
{
	uint64_t n_most = SPARE + TIMES * (weights->n_file_bytes + weights->n_claimed_beside);
	if (n_bytes > n_most || weights->n_claimed > n_most - n_bytes)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"XNNPACK payload: what is to be packed and copied is more than %u times the program",
			(unsigned)TIMES);
	weights->n_claimed += n_bytes;
	return ET_OK;
}

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to compile an XNNPACK payload");
}

enum et_status et_xnn_weights_claim(struct et_xnn_weights *weights, const struct et_xnn_use *use,
	const void **ret_kernel, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_claim *claim = weights->by_source[bucket_of_use(use->kernel, use->signature)];
	while (claim && (claim->source != use->kernel ||
				memcmp(&claim->signature, use->signature, sizeof(*use->signature)) != 0))
		claim = claim->next_of_source;
	if (!claim) {
		/* Ways of packing one overlap as much as a file likes: remade ones, too, there is one for each shape. */
		bool is_first = !find_any(weights, use->kernel),
		     is_beside = is_first && use->is_beside && use->signature->remade == ET_XNN_AS_IT_IS;
		if (is_beside)
			weights->n_claimed_beside += use->n_bytes;
		else
			status = count(weights, use->n_bytes, diag);
		if (status == ET_OK)
			claim = claim_new(weights, use);
		if (status == ET_OK && !claim)
			status = no_memory(diag);
	}
	pthread_mutex_unlock(&weights->lock);
	if (claim)
		*ret_kernel = claim->kernel;
	return status;
}

/* What was copied of @source as it is or remade (rows and columns: if transposed); NULL: nothing yet. Under the lock. */
static struct et_xnn_block *find_copy(struct et_xnn_weights *weights, const void *source, size_t n_bytes,
	enum et_xnn_remade remade, uint32_t n_rows, uint32_t n_columns)
{
	struct et_xnn_block *block = weights->by_copied[et_xnn_bucket(source)];
	while (block && (block->kernel != source || block->n_bytes != n_bytes || block->remade != remade ||
				block->n_rows != n_rows || block->n_columns != n_columns))
		block = block->next;
	return block;
}

/* That @copy is one of @source's, under the lock. */
static void note_copy(struct et_xnn_weights *weights, struct et_xnn_block *copy, const void *source)
{
	struct et_xnn_block **head = &weights->by_copied[et_xnn_bucket(source)];
	copy->kernel = source;
	copy->next = *head;
	*head = copy;
}

enum et_status et_xnn_weights_copy(struct et_xnn_weights *weights, const void *bytes, size_t n_bytes,
	const void **ret_copy, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_block *copy = find_copy(weights, bytes, n_bytes, ET_XNN_AS_IT_IS, 0, 0);
	if (!copy)
		status = count(weights, n_bytes, diag);
	if (!copy && status == ET_OK) {
		copy = block_new(weights, n_bytes, &weights->copies);
		if (copy) {
			memcpy(et_xnn_bytes_of(copy), bytes, n_bytes);
			note_copy(weights, copy, bytes);
		}
		status = copy ? ET_OK : no_memory(diag);
	}
	pthread_mutex_unlock(&weights->lock);
	if (copy)
		*ret_copy = et_xnn_bytes_of(copy);
	return status;
}

static const void *remake(struct et_xnn_weights *weights, const void *source, size_t n_bytes, enum et_xnn_remade remade,
	uint32_t n_rows, uint32_t n_columns)
{
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_block *copy = find_copy(weights, source, n_bytes, remade, n_rows, n_columns);
	if (!copy) {
		copy = block_new(weights, n_bytes, &weights->copies);
		if (copy) {
			note_copy(weights, copy, source);
			copy->remade = (uint8_t)remade;
			copy->n_rows = n_rows;
			copy->n_columns = n_columns;
			copy->is_to_fill = true;
		}
	}
	pthread_mutex_unlock(&weights->lock);
	return copy ? et_xnn_bytes_of(copy) : NULL;
}

const float *et_xnn_weights_transpose(struct et_xnn_weights *weights, const float *source, uint32_t n_rows,
	uint32_t n_columns)
{
	return remake(weights, source, (size_t)n_rows * n_columns * sizeof(float), ET_XNN_TRANSPOSED, n_rows,
		n_columns);
}

const int8_t *et_xnn_weights_widen(struct et_xnn_weights *weights, const uint8_t *source, size_t n_bytes)
{
	return remake(weights, source, 2 * n_bytes, ET_XNN_WIDENED, 0, 0);
}

enum et_status et_xnn_weights_to_floats(struct et_xnn_weights *weights, const void *source, size_t n,
	enum et_xnn_remade remade, bool is_late, const void **ret_floats, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	size_t n_bytes;
	if (!et_mul(n, sizeof(float), &n_bytes))
		return no_memory(diag);
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_block *copy = find_copy(weights, source, n_bytes, remade, 0, 0);
	if (!copy)
		status = count(weights, n_bytes, diag);
	if (!copy && status == ET_OK) {
		copy = block_new(weights, n_bytes, &weights->copies);
		if (copy) {
			note_copy(weights, copy, source);
			copy->remade = (uint8_t)remade;
			copy->is_to_fill = true;
		}
		status = copy ? ET_OK : no_memory(diag);
	}
	if (copy && copy->is_to_fill && !is_late) {
		fill_floats(copy, et_xnn_bytes_of(copy));
		copy->is_to_fill = false;
	}
	pthread_mutex_unlock(&weights->lock);
	if (copy)
		*ret_floats = et_xnn_bytes_of(copy);
	return status;
}

void et_xnn_weights_stats(struct et_xnn_weights *weights, struct et_xnn_weights_stats *ret_stats)
{
	pthread_mutex_lock(&weights->lock);
	*ret_stats = weights->stats;
	ret_stats->n_bytes += weights->pool.n_bytes;
	pthread_mutex_unlock(&weights->lock);
}
