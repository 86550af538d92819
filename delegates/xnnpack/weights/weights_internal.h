/* SPDX-License-Identifier: BSD-3-Clause */
/* The packed weights' own structs and functions, shared by weights.c (claims), provider.c, copies.c, blocks.c and
 * persist.c. All functions here are called under the lock. */
#ifndef DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_INTERNAL_H
#define DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_INTERNAL_H

#include "delegates/xnnpack/weights/weights.h"
#include "runtime/base/list.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>

enum {
	ET_XNN_ALIGNMENT = 64,
	ET_XNN_PADDING = 64, /* kernels read whole vectors */
	ET_XNN_HEADER = 2 * ET_XNN_ALIGNMENT,
	ET_XNN_BUCKETS = 512,
	ET_XNN_SLAB = 4 << 20,
};

struct et_xnn_slab;

/* A block of memory, with its header in the ET_XNN_HEADER bytes in front. */
struct et_xnn_block {
	struct et_list_node node;  /* in the list reserved, packed or copies */
	struct et_xnn_block *next; /* in the same bucket */
	size_t n_bytes;
	const void *kernel; /* packed: from this kernel; copies: the source, if shared */
	const void *bias;
	uint64_t digest; /* of the bytes, if packed without a key */
	uint32_t seed;
	bool has_key;
	bool is_override; /* packed by an override */
	bool is_to_fill;  /* a remade copy that has no contents yet */
	uint8_t remade;   /* enum et_xnn_remade; copies */
	uint32_t n_rows, n_columns;
	struct et_xnn_slab *slab; /* NULL: the block has memory of its own */
};
static_assert(sizeof(struct et_xnn_block) <= ET_XNN_HEADER, "a block's header fits");

/* One way of packing a filter. */
struct et_xnn_claim {
	struct et_xnn_claim *next, *next_of_source;
	const void *kernel, *source; /* the kernel is the source, or a copy of it */
	struct et_xnn_signature signature;
	uint64_t position, bias_position; /* in the program, for its name */
	uint32_t row;                     /* the first row with that name in the mapping */
	bool is_mapped;                   /* @kernel lies in the Program's files */
	bool is_by_bias;                  /* other claims of @kernel have other biases, which their keys tell */
	size_t n_bytes;
};

struct et_xnn_model_note {
	struct et_xnn_model_note *next;
	struct et_xnn_model_row row;
};

struct et_xnn_weights {
	struct xnn_weights_cache_provider provider;
	struct et_allocator allocator;
	pthread_mutex_t lock; /* guards everything below */
	struct et_list_node reserved, packed, copies, slabs;
	struct et_xnn_block *by_key[ET_XNN_BUCKETS], *by_digest[ET_XNN_BUCKETS]; /* the packed blocks */
	struct et_xnn_block *by_copied[ET_XNN_BUCKETS];
	struct et_xnn_claim *claims[ET_XNN_BUCKETS];
	struct et_xnn_claim *by_source[ET_XNN_BUCKETS]; /* by source and signature */
	uint64_t n_claimed, n_claimed_beside;           /* bytes; the second: outside of payloads, without copies */
	uint64_t n_file_bytes;                          /* of the Program */
	const struct inferd_delegate_payload *source;   /* the payload that is being compiled, or NULL */
	uint64_t n_behind;                              /* about how many of its bytes may yet be packed */
	struct et_pool pool;                            /* for claims and notes */
	struct et_xnn_model_note *models;               /* payloads that were compiled since the file was read */
	struct et_xnn_weights_stats stats;
	bool has_news;   /* something was packed or compiled that the store does not have */
	uint32_t cursor; /* behind the row where the last name was found: names come in the order of the rows */

	/* Immutable. */
	const char *machine;
	struct et_xnn_packed packed_file; /* the store's file, mapped */
	void *handle;                     /* the store's handle for it */
};

static inline void *et_xnn_bytes_of(struct et_xnn_block *block)
{
	return (uint8_t *)block + ET_XNN_HEADER;
}

static inline struct et_xnn_block *et_xnn_block_of(void *bytes)
{
	return (struct et_xnn_block *)((uint8_t *)bytes - ET_XNN_HEADER);
}

static inline size_t et_xnn_bucket(const void *kernel)
{
	return (size_t)((uintptr_t)kernel * UINT64_C(0x9e3779b97f4a7c15) >> 32) % ET_XNN_BUCKETS;
}

/* The claim that has @kernel in a key with @bias; NULL: there is none. */
static inline struct et_xnn_claim *et_xnn_find_claim(const struct et_xnn_weights *weights, const void *kernel,
	const void *bias)
{
	struct et_xnn_claim *claim = weights->claims[et_xnn_bucket(kernel)];
	while (claim && (claim->kernel != kernel || (claim->is_by_bias && claim->signature.bias != (uintptr_t)bias)))
		claim = claim->next;
	return claim;
}

/* --- blocks.c ------------------------------------------------------------------------------------------ */

/* A new block with @n_bytes, at the end of @list. NULL if there is no memory. */
struct et_xnn_block *et_xnn_block_new(struct et_xnn_weights *weights, size_t n_bytes, struct et_list_node *list);
void et_xnn_block_free(struct et_xnn_weights *weights, struct et_xnn_block *block);
void et_xnn_blocks_free(struct et_xnn_weights *weights, struct et_list_node *list);

/* --- copies.c ------------------------------------------------------------------------------------------ */

/* Any claim on @kernel, or NULL. */
const struct et_xnn_claim *et_xnn_find_any_claim(const struct et_xnn_weights *weights, const void *kernel);
/* Fill @kernel, which is about to be read, if it is a remade copy without contents. */
void et_xnn_fill_if_needed(const struct et_xnn_weights *weights, const void *kernel);

/* --- provider.c ---------------------------------------------------------------------------------------- */

void et_xnn_provider_init(struct et_xnn_weights *weights);

/* --- weights.c ----------------------------------------------------------------------------------------- */

/* Count @n_bytes that are to be packed or copied. ET_E_OUT_OF_RESOURCES: more than the Program's size accounts for. */
enum et_status et_xnn_weights_count(struct et_xnn_weights *weights, uint64_t n_bytes, struct et_diag *diag);
enum et_status et_xnn_weights_no_memory(struct et_diag *diag);

#endif
