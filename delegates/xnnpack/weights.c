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
 * one meaning (et_xnn_weights_claim), and they are never freed while this object lives. Pointers that nobody claimed
 * (XNNPACK converts some kernels into a temporary first) are never found by key: what is packed from
 * them is compared with what is there.
 *
 * An insertion can't fail: its memory was reserved before, and XNNPACK would not look at the answer. */
#include "delegates/xnnpack/weights.h"

#include "runtime/base/list.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum {
	ALIGNMENT = 64,
	PADDING = 64, /* kernels read in whole vectors */
	N_BUCKETS = 512,
};

/* A block of memory, with its header in the ALIGNMENT * 2 bytes in front. */
struct block {
	struct et_list_node node; /* of reserved, of packed, or of copies */
	struct block *next;       /* in its bucket */
	size_t n_bytes;
	const void *kernel; /* packed: of whom; copies: the source, if shared */
	const void *bias;
	uint32_t seed;
	bool has_key;
};

enum { HEADER = 2 * ALIGNMENT };
static_assert(sizeof(struct block) <= HEADER, "a block's header fits");

struct claim {
	struct claim *next;
	const void *kernel;
	size_t n_signature;
	uint8_t signature[];
};

struct et_xnn_weights {
	struct xnn_weights_cache_provider provider;
	struct et_allocator allocator;
	pthread_mutex_t lock; /* everything below */
	struct et_list_node reserved, packed, copies;
	struct block *by_key[N_BUCKETS];
	struct claim *claims[N_BUCKETS];
	struct et_pool pool; /* of claims */
	struct et_xnn_weights_stats stats;
};

static void *bytes_of(struct block *block)
{
	return (uint8_t *)block + HEADER;
}

static struct block *block_of(void *bytes)
{
	return (struct block *)((uint8_t *)bytes - HEADER);
}

static size_t bucket(const void *kernel)
{
	return (size_t)((uintptr_t)kernel * UINT64_C(0x9e3779b97f4a7c15) >> 32) % N_BUCKETS;
}

static struct block *block_new(struct et_xnn_weights *weights, size_t n_bytes, struct et_list_node *list)
{
	if (n_bytes > SIZE_MAX / 2)
		return NULL;
	struct block *block =
		weights->allocator.alloc(weights->allocator.self, HEADER + n_bytes + PADDING, ALIGNMENT);
	if (!block)
		return NULL;
	memset(block, 0, HEADER);
	memset((uint8_t *)bytes_of(block) + n_bytes, 0, PADDING);
	block->n_bytes = n_bytes;
	et_list_append(list, &block->node);
	weights->stats.n_bytes += HEADER + n_bytes + PADDING;
	return block;
}

static void block_free(struct et_xnn_weights *weights, struct block *block)
{
	et_list_remove(&block->node);
	weights->stats.n_bytes -= HEADER + block->n_bytes + PADDING;
	weights->allocator.free(weights->allocator.self, block, HEADER + block->n_bytes + PADDING);
}

static void blocks_free(struct et_xnn_weights *weights, struct et_list_node *list)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, list)
	block_free(weights, ET_CONTAINER_OF(node, struct block, node));
}

/* --- what XNNPACK calls, from several threads -------------------------------------------------------- */

static bool is_claimed(const struct et_xnn_weights *weights, const void *kernel)
{
	for (const struct claim *claim = weights->claims[bucket(kernel)]; claim; claim = claim->next) {
		if (claim->kernel == kernel)
			return true;
	}
	return false;
}

static struct block *find(
	const struct et_xnn_weights *weights, const struct xnn_weights_cache_look_up_key *key)
{
	for (struct block *block = weights->by_key[bucket(key->kernel)]; block; block = block->next) {
		if (block->kernel == key->kernel && block->bias == key->bias && block->seed == key->seed)
			return block;
	}
	return NULL;
}

static struct block *find_same(
	const struct et_xnn_weights *weights, const struct block *packed, size_t n_bytes)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &weights->packed)
	{
		struct block *block = ET_CONTAINER_OF(node, struct block, node);
		if (!block->has_key && block->n_bytes == packed->n_bytes &&
			memcmp(bytes_of(block), (const uint8_t *)packed + HEADER, n_bytes) == 0)
			return block;
	}
	return NULL;
}

static size_t look_up(void *self, const struct xnn_weights_cache_look_up_key *key)
{
	struct et_xnn_weights *weights = self;
	pthread_mutex_lock(&weights->lock);
	struct block *block = find(weights, key);
	pthread_mutex_unlock(&weights->lock);
	return block ? (size_t)(uintptr_t)bytes_of(block) : SIZE_MAX;
}

static void *reserve_space(void *self, size_t n)
{
	struct et_xnn_weights *weights = self;
	pthread_mutex_lock(&weights->lock);
	struct block *block = block_new(weights, n, &weights->reserved);
	if (block)
		weights->stats.n_packings++;
	pthread_mutex_unlock(&weights->lock);
	return block ? bytes_of(block) : NULL;
}

/* @ptr is what reserve_space gave, filled; NULL after a look_up that had an answer. */
static size_t look_up_or_insert(
	void *self, const struct xnn_weights_cache_look_up_key *key, void *ptr, size_t size)
{
	struct et_xnn_weights *weights = self;
	pthread_mutex_lock(&weights->lock);
	struct block *found = find(weights, key);
	if (ptr) {
		struct block *packed = block_of(ptr);
		if (!found && !is_claimed(weights, key->kernel))
			found = find_same(weights, packed, size);
		if (found && found->n_bytes != packed->n_bytes)
			found = NULL; /* can't be: one claim, one seed, one size */
		else if (!found && is_claimed(weights, key->kernel)) {
			struct block **head = &weights->by_key[bucket(key->kernel)];
			packed->kernel = key->kernel;
			packed->bias = key->bias;
			packed->seed = key->seed;
			packed->has_key = true;
			packed->next = *head;
			*head = packed;
		}
		if (found) {
			block_free(weights, packed);
		} else {
			et_list_remove(&packed->node);
			et_list_append(&weights->packed, &packed->node);
			weights->stats.n_packed++;
			found = packed;
		}
	}
	pthread_mutex_unlock(&weights->lock);
	return found ? (size_t)(uintptr_t)bytes_of(found) : SIZE_MAX;
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

struct et_xnn_weights *et_xnn_weights_new(const struct et_allocator *allocator)
{
	struct et_xnn_weights *weights =
		allocator->alloc(allocator->self, sizeof(*weights), _Alignof(struct et_xnn_weights));
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
	et_pool_init(&weights->pool, allocator);
	weights->stats.n_bytes = sizeof(*weights);
	return weights;
}

struct et_xnn_weights *et_xnn_weights_free(struct et_xnn_weights *weights)
{
	if (!weights)
		return NULL;
	blocks_free(weights, &weights->reserved);
	blocks_free(weights, &weights->packed);
	blocks_free(weights, &weights->copies);
	et_pool_deinit(&weights->pool);
	pthread_mutex_destroy(&weights->lock);
	struct et_allocator allocator = weights->allocator;
	allocator.free(allocator.self, weights, sizeof(*weights));
	return NULL;
}

xnn_weights_cache_t et_xnn_weights_provider(struct et_xnn_weights *weights)
{
	return &weights->provider;
}

bool et_xnn_weights_claim(struct et_xnn_weights *weights, const void *kernel, const void *signature,
	size_t n_signature, bool *ret_fits)
{
	pthread_mutex_lock(&weights->lock);
	struct claim **head = &weights->claims[bucket(kernel)], *claim = *head;
	while (claim && claim->kernel != kernel)
		claim = claim->next;
	bool is_new = !claim;
	if (is_new) {
		claim = et_pool_alloc(&weights->pool, sizeof(*claim) + n_signature, _Alignof(struct claim));
		if (claim) {
			claim->kernel = kernel;
			claim->n_signature = n_signature;
			memcpy(claim->signature, signature, n_signature);
			claim->next = *head;
			*head = claim;
		}
	}
	bool fits = claim && (is_new || (claim->n_signature == n_signature &&
						memcmp(claim->signature, signature, n_signature) == 0));
	pthread_mutex_unlock(&weights->lock);
	if (claim)
		*ret_fits = fits;
	return claim != NULL;
}

const void *et_xnn_weights_copy(
	struct et_xnn_weights *weights, const void *bytes, size_t n_bytes, bool is_shared)
{
	struct block *copy = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&weights->lock);
	ET_LIST_FOR_EACH(node, after, &weights->copies)
	{
		struct block *block = ET_CONTAINER_OF(node, struct block, node);
		if (is_shared && block->kernel == bytes && block->n_bytes == n_bytes)
			copy = block;
	}
	if (!copy) {
		copy = block_new(weights, n_bytes, &weights->copies);
		if (copy) {
			memcpy(bytes_of(copy), bytes, n_bytes);
			copy->kernel = is_shared ? bytes : NULL;
		}
	}
	pthread_mutex_unlock(&weights->lock);
	return copy ? bytes_of(copy) : NULL;
}

void et_xnn_weights_stats(struct et_xnn_weights *weights, struct et_xnn_weights_stats *ret_stats)
{
	pthread_mutex_lock(&weights->lock);
	*ret_stats = weights->stats;
	ret_stats->n_bytes += weights->pool.n_bytes;
	pthread_mutex_unlock(&weights->lock);
}
