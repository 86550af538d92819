/* SPDX-License-Identifier: BSD-3-Clause */
/* The packed weights of one Program: the object, and claims on filters.
 *
 * XNNPACK finds packed weights by pointers (provider.c), so each way of packing a filter must have a pointer of its
 * own. A claim is such a way: a source, a signature that says everything that decides how it is packed, and the
 * pointer that was given out for it. A file can have filters packed in many ways, so all bytes that are claimed and
 * copied are counted, and limited in proportion to the Program's size.
 *
 * The file that the store has of the Program is mapped when this object is made, and stays so. Its pages are the
 * kernel's to drop and to share. */
#include "delegates/xnnpack/weights/weights_internal.h"

#include <string.h>

enum {
	TIMES = 64,       /* so many times the bytes of the Program's files may be claimed and copied, */
	SPARE = 64 << 20, /* and these bytes more */
};

struct et_xnn_weights *et_xnn_weights_new(const struct et_allocator *allocator,
	const struct inferd_delegate_store *store, const char *machine)
{
	struct et_xnn_weights *weights = allocator->alloc(allocator->self, sizeof(*weights),
		_Alignof(struct et_xnn_weights));
	if (!weights)
		return NULL;
	memset(weights, 0, sizeof(*weights));
	weights->allocator = *allocator;
	et_xnn_provider_init(weights);
	pthread_mutex_init(&weights->lock, NULL);
	et_list_init(&weights->reserved);
	et_list_init(&weights->packed);
	et_list_init(&weights->copies);
	et_list_init(&weights->slabs);
	weights->n_behind = ET_XNN_SLAB;
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
	et_xnn_blocks_free(weights, &weights->reserved);
	et_xnn_blocks_free(weights, &weights->packed);
	et_xnn_blocks_free(weights, &weights->copies);
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

/* Find the row of the store's file for @claim. */
static void find_persisted(struct et_xnn_weights *weights, struct et_xnn_claim *claim, const struct et_xnn_name *name)
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

/* Whether no other use of the kernel can have the same key as @use. Under the lock. */
static bool is_free(const struct et_xnn_weights *weights, const struct et_xnn_use *use)
{
	const struct et_xnn_claim *claim = weights->claims[et_xnn_bucket(use->kernel)];
	while (claim && (claim->kernel != use->kernel || (claim->is_by_bias && use->is_by_bias &&
								 claim->signature.bias != use->signature->bias)))
		claim = claim->next;
	return !claim;
}

/* Called under the lock. NULL if there is no memory. */
static struct et_xnn_claim *claim_new(struct et_xnn_weights *weights, const struct et_xnn_use *use)
{
	bool needs_copy = !is_free(weights, use);
	const void *source = use->kernel;
	const struct et_xnn_signature *signature = use->signature;
	const struct et_xnn_name *name = use->name;
	struct et_xnn_claim *claim = ET_POOL_NEW(&weights->pool, struct et_xnn_claim);
	struct et_xnn_block *copy = NULL;
	if (claim && needs_copy) {
		et_xnn_fill_if_needed(weights, source);
		copy = et_xnn_block_new(weights, use->n_bytes, &weights->copies);
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
	find_persisted(weights, claim, name);
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

enum et_status et_xnn_weights_count(struct et_xnn_weights *weights, uint64_t n_bytes, struct et_diag *diag)
{
	uint64_t n_most = SPARE + TIMES * (weights->n_file_bytes + weights->n_claimed_beside);
	if (n_bytes > n_most || weights->n_claimed > n_most - n_bytes)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"XNNPACK payload: its filters to pack and copy have more than %u times the program's bytes",
			(unsigned)TIMES);
	weights->n_claimed += n_bytes;
	return ET_OK;
}

enum et_status et_xnn_weights_no_memory(struct et_diag *diag)
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
		/* A file can claim the same bytes in any number of ways, remade ones included: one for each shape. */
		bool is_first = !et_xnn_find_any_claim(weights, use->kernel),
		     is_beside = is_first && use->is_beside && use->signature->remade == ET_XNN_AS_IT_IS;
		if (is_beside)
			weights->n_claimed_beside += use->n_bytes;
		else
			status = et_xnn_weights_count(weights, use->n_bytes, diag);
		if (status == ET_OK)
			claim = claim_new(weights, use);
		if (status == ET_OK && !claim)
			status = et_xnn_weights_no_memory(diag);
	}
	pthread_mutex_unlock(&weights->lock);
	if (claim)
		*ret_kernel = claim->kernel;
	return status;
}

void et_xnn_weights_stats(struct et_xnn_weights *weights, struct et_xnn_weights_stats *ret_stats)
{
	pthread_mutex_lock(&weights->lock);
	*ret_stats = weights->stats;
	ret_stats->n_bytes += weights->pool.n_bytes;
	pthread_mutex_unlock(&weights->lock);
}
