/* SPDX-License-Identifier: BSD-3-Clause */
/* XNNPACK's weights cache provider: where XNNPACK finds packed weights, and leaves them.
 *
 * How XNNPACK (2024-11-08) uses the provider: a GEMM or convolution calls look_up first and packs nothing if there
 * is an answer. A depthwise convolution never calls look_up: it always reserves space, packs, and offers the result
 * to look_up_or_insert, so a second packing of the same filter is thrown away here. Answers are "offsets", SIZE_MAX
 * = not found. offset_to_addr turns them into addresses whenever an operator is set up: here the offset is the
 * address itself, so that path takes no lock. is_finalized must be true before an operator is set up; nothing
 * depends on it here, so it always is.
 *
 * Two things make the key {seed, kernel pointer, bias pointer} good enough. Kernels that were claimed have one
 * meaning, or one with each bias (et_xnn_weights_claim), and they are never freed while this object lives. Pointers
 * that were not claimed (XNNPACK converts some kernels into a temporary first) are never found by key: their packed
 * weights are found by their bytes. A seed is made of numbers of channels and the like, XORed with each other, so a
 * file can choose it. So a look-up also compares whether an override packed the weights, and their size if known.
 *
 * An insertion cannot fail: its memory was reserved before, and XNNPACK would not look at the answer.
 *
 * A claim whose name is in the store's file is answered from the mapping: nothing is packed for it and no memory
 * taken. */
#include "delegates/xnnpack/weights/weights_internal.h"

#include "runtime/base/checked.h"

#include <string.h>

enum { LARGE = 1 << 16 /* a filter whose pages are worth a system call */ };

static bool is_same_name(const struct et_xnn_row *a, const struct et_xnn_row *b)
{
	return a->name.position == b->name.position && memcmp(&a->name, &b->name, sizeof(a->name)) == 0;
}

/* The row of the store's file for @key, or NULL. @n_bytes: how long it must be; 0: the caller cannot tell. */
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

/* The packed block for @key, or NULL; @n_bytes as in find_row. */
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

/* The digest does not withstand an attacker who looks for collisions: blocks with the same digest are compared. */
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

/* Set the digest of @packed, and find a block that was packed without a key and has the same first @n_bytes. */
static struct et_xnn_block *find_same(const struct et_xnn_weights *weights, struct et_xnn_block *packed, size_t n_bytes)
{
	packed->digest = digest_of(et_xnn_bytes_of(packed), n_bytes);
	struct et_xnn_block *block = weights->by_digest[packed->digest % ET_XNN_BUCKETS];
	while (block && (block->digest != packed->digest || block->n_bytes != packed->n_bytes ||
				memcmp(et_xnn_bytes_of(block), et_xnn_bytes_of(packed), n_bytes) != 0))
		block = block->next;
	return block;
}

/* How many bytes of the Program lie behind the filter that is about to be packed; ET_XNN_SLAB if that is not known. */
static uint64_t n_behind(const struct et_xnn_weights *weights, const struct et_xnn_claim *claim)
{
	size_t end;
	if (!claim || !et_add(claim->position, claim->n_bytes, &end) || end > weights->n_file_bytes)
		return ET_XNN_SLAB;
	return weights->n_file_bytes - end;
}

/* @n_bytes: how long the answer must be. XNNPACK does not say it (0): then only the checksum of a store's file
 * vouches for the length of a row. */
static size_t look_up_for(struct et_xnn_weights *weights, const struct xnn_weights_cache_look_up_key *key,
	size_t n_bytes, bool is_override)
{
	pthread_mutex_lock(&weights->lock);
	const struct et_xnn_row *row = find_row(weights, key, n_bytes, is_override);
	struct et_xnn_block *block = row ? NULL : find(weights, key, n_bytes, is_override);
	if (!row && !block) {
		et_xnn_fill_if_needed(weights, key->kernel);
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
	struct et_xnn_block *block = et_xnn_block_new(weights, n, &weights->reserved);
	if (block)
		weights->stats.n_packings++;
	pthread_mutex_unlock(&weights->lock);
	return block ? et_xnn_bytes_of(block) : NULL;
}

/* Let the filter's pages go: after packing they are hardly read again. Under the lock, so that the source is there. */
static void release(const struct et_xnn_weights *weights, const struct et_xnn_claim *claim)
{
	const struct inferd_delegate_payload *source = weights->source;
	if (claim && claim->is_mapped && claim->n_bytes >= LARGE && source && source->drop)
		source->drop(source->self, claim->kernel, claim->n_bytes);
}

/* @ptr: what reserve_space returned, filled; or NULL after a look_up that had an answer. */
static size_t insert_for(struct et_xnn_weights *weights, const struct xnn_weights_cache_look_up_key *key, void *ptr,
	size_t size, bool is_override)
{
	pthread_mutex_lock(&weights->lock);
	const struct et_xnn_claim *claim = et_xnn_find_claim(weights, key->kernel, key->bias);
	size_t n_bytes = ptr ? et_xnn_block_of(ptr)->n_bytes : 0;
	const struct et_xnn_row *row = find_row(weights, key, n_bytes, is_override);
	if (row) {
		if (ptr)
			et_xnn_block_free(weights, et_xnn_block_of(ptr));
		pthread_mutex_unlock(&weights->lock);
		return row_address(weights, row);
	}
	struct et_xnn_block *found = find(weights, key, n_bytes, is_override);
	if (ptr) {
		struct et_xnn_block *packed = et_xnn_block_of(ptr);
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
			et_xnn_block_free(weights, packed);
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
	return xnn_status_success; /* et_xnn_weights_free deletes it */
}

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

void et_xnn_provider_init(struct et_xnn_weights *weights)
{
	weights->provider = (struct xnn_weights_cache_provider){
		.context = weights,
		.look_up = look_up,
		.reserve_space = reserve_space,
		.look_up_or_insert = look_up_or_insert,
		.is_finalized = is_finalized,
		.offset_to_addr = offset_to_addr,
		.delete_cache = delete_cache,
	};
}
