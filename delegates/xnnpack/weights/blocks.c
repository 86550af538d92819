/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for packed weights and copies: a block each, large ones in slabs.
 *
 * A Program with few weights takes each block from the allocator. A Program that packs much takes slabs of several
 * MiB, so that the kernel can back them with large pages. All of it under the lock of the weights. */
#include "delegates/xnnpack/weights/weights_internal.h"

#include <string.h>

enum {
	SLAB = ET_XNN_SLAB, /* a Program that packs more than this takes memory in pieces of this size or larger, */
	IN_SLAB = 1 << 16,  /* for blocks from this size on. */
	GROWTH = 16,        /* A slab has up to so many times the bytes that were packed before */
	SLAB_ALIGNMENT = 4096,
};

/* Memory for several blocks. It is freed with the last of them. */
struct et_xnn_slab {
	struct et_list_node node;
	size_t n_bytes, n_used;
	uint32_t n_blocks;
};

/* The end of each slab is lost where no filter fits in, and it takes memory up to the end of its large page. So each
 * slab is much larger than all before it, and there are few. A large page takes memory as soon as one of its bytes
 * is written, so the last slab must not be larger than the weights that are yet to be packed. Filters are packed in
 * about the order in which they lie in the file, so that is the number of bytes behind the filter that was looked up
 * last (n_behind). Those bytes may be no filters, so the part of a slab that no block has taken yet is not counted,
 * and takes no memory. */
static struct et_xnn_slab *slab_new(struct et_xnn_weights *weights, size_t n)
{
	size_t n_least = ET_XNN_ALIGNMENT + n, n_most = GROWTH * weights->stats.n_bytes,
	       n_bytes = ((n_least > n_most ? n_least : n_most) + SLAB - 1) & ~(size_t)(SLAB - 1),
	       n_to_come = n_least + weights->n_behind;
	if (n_bytes > n_to_come)
		n_bytes = n_to_come;
	struct et_xnn_slab *slab = weights->allocator.alloc(weights->allocator.self, n_bytes, SLAB_ALIGNMENT);
	if (!slab) /* the kernel does not overcommit */
		slab = weights->allocator.alloc(weights->allocator.self, n_bytes = n_least, SLAB_ALIGNMENT);
	if (!slab)
		return NULL;
	*slab = (struct et_xnn_slab){ .n_bytes = n_bytes, .n_used = ET_XNN_ALIGNMENT };
	weights->stats.n_bytes += slab->n_used;
	et_list_append(&weights->slabs, &slab->node);
	return slab;
}

/* A slab with room for @n bytes. */
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

/* Take @n_block bytes for a block and its header. */
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

/* Give @n bytes of the slab back; they can be used again if they are the last ones taken. */
static void slab_give(struct et_xnn_weights *weights, struct et_xnn_slab *slab, struct et_xnn_block *block, size_t n)
{
	if ((uint8_t *)block + n == (uint8_t *)slab + slab->n_used) {
		slab->n_used -= n;
		weights->stats.n_bytes -= n;
	}
	if (--slab->n_blocks)
		return;
	et_list_remove(&slab->node);
	weights->stats.n_bytes -= slab->n_used;
	weights->allocator.free(weights->allocator.self, slab, slab->n_bytes);
}

struct et_xnn_block *et_xnn_block_new(struct et_xnn_weights *weights, size_t n_bytes, struct et_list_node *list)
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

void et_xnn_block_free(struct et_xnn_weights *weights, struct et_xnn_block *block)
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

void et_xnn_blocks_free(struct et_xnn_weights *weights, struct et_list_node *list)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, list)
		et_xnn_block_free(weights, ET_CONTAINER_OF(node, struct et_xnn_block, node));
}
