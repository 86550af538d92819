/* SPDX-License-Identifier: BSD-3-Clause */
/* What weights.c packs and finds, and persist.c writes. Included by these two. */
#ifndef DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_INTERNAL_H
#define DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_INTERNAL_H

#include "delegates/xnnpack/weights/weights.h"
#include "runtime/base/list.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>

enum {
	ET_XNN_ALIGNMENT = 64,
	ET_XNN_PADDING = 64, /* kernels read in whole vectors */
	ET_XNN_HEADER = 2 * ET_XNN_ALIGNMENT,
	ET_XNN_BUCKETS = 512,
};

struct et_xnn_slab;

/* A block of memory, with its header in the ET_XNN_HEADER bytes in front. */
struct et_xnn_block {
	struct et_list_node node;  /* of reserved, of packed, or of copies */
	struct et_xnn_block *next; /* in its bucket */
	size_t n_bytes;
	const void *kernel; /* packed: of whom; copies: the source, if shared */
	const void *bias;
	uint64_t digest; /* packed without a key: of the bytes */
	uint32_t seed;
	bool has_key;
	bool is_override; /* packed by a node of ours */
	bool is_to_fill;  /* a remade copy that has no numbers yet */
	uint8_t remade;   /* enum et_xnn_remade; copies */
	uint32_t n_rows, n_columns;
	struct et_xnn_slab *slab; /* it lies in; NULL: memory of its own */
};
static_assert(sizeof(struct et_xnn_block) <= ET_XNN_HEADER, "a block's header fits");

struct et_xnn_claim {
	struct et_xnn_claim *next, *next_of_source;
	const void *kernel, *source; /* the same, or a copy of it */
	struct et_xnn_signature signature;
	uint64_t position, bias_position; /* in the program, for its name */
	uint32_t row;                     /* the first of that name in the mapping */
	bool is_mapped;                   /* @kernel lies in the Program's files */
	bool is_by_bias;                  /* others of @kernel are told from it by their biases */
	size_t n_bytes;
};

struct et_xnn_model_note {
	struct et_xnn_model_note *next;
	struct et_xnn_model_row row;
};

struct et_xnn_weights {
	struct xnn_weights_cache_provider provider;
	struct et_allocator allocator;
	pthread_mutex_t lock; /* everything below */
	struct et_list_node reserved, packed, copies, slabs;
	struct et_xnn_block *by_key[ET_XNN_BUCKETS], *by_digest[ET_XNN_BUCKETS]; /* of packed */
	struct et_xnn_block *by_copied[ET_XNN_BUCKETS];
	struct et_xnn_claim *claims[ET_XNN_BUCKETS];
	struct et_xnn_claim *by_source[ET_XNN_BUCKETS]; /* and by signature */
	uint64_t n_claimed, n_claimed_beside;           /* bytes; of those not in payloads, but for copies */
	uint64_t n_file_bytes;                          /* of the Program */
	const struct inferd_delegate_payload *source;   /* that is being compiled, or NULL */
	uint64_t n_behind;                              /* bytes of it that may yet be packed, about */
	struct et_pool pool;                            /* of claims and compiled */
	struct et_xnn_model_note *model;
	struct et_xnn_weights_stats stats;
	bool has_news;   /* something to keep */
	uint32_t cursor; /* where the last name was found: they come in the same order */

	/* Immutable. */
	const char *machine;
	struct et_xnn_packed packed_file; /* what the store kept */
	void *handle;                     /* the store's, of it */
};

static inline void *et_xnn_bytes_of(struct et_xnn_block *block)
{
	return (uint8_t *)block + ET_XNN_HEADER;
}

static inline size_t et_xnn_bucket(const void *kernel)
{
	return (size_t)((uintptr_t)kernel * UINT64_C(0x9e3779b97f4a7c15) >> 32) % ET_XNN_BUCKETS;
}

/* The one that has @kernel in a key with @bias. Under the lock. NULL: nobody claimed it. */
static inline struct et_xnn_claim *et_xnn_find_claim(const struct et_xnn_weights *weights, const void *kernel,
	const void *bias)
{
	struct et_xnn_claim *claim = weights->claims[et_xnn_bucket(kernel)];
	while (claim && (claim->kernel != kernel || (claim->is_by_bias && claim->signature.bias != (uintptr_t)bias)))
		claim = claim->next;
	return claim;
}

#endif
