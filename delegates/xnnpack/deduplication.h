/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads of a Program that came out the same: one stands for all.
 *
 * A network that passes the same cell at each step, or that was lowered operator by operator, has the same payload many times
 * over; in the file they differ by numbers for debuggers. XNNPACK's objects for one take tens of kilobytes and most of
 * the time of a load, so there is one compiled payload for them, and of that one context on each lane. */
#ifndef DELEGATES_XNNPACK_DEDUPLICATION_H
#define DELEGATES_XNNPACK_DEDUPLICATION_H

#include "runtime/base/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { ET_XNN_DUPLICATE_BUCKETS = 64 };

struct et_xnn_model;

/* Those of one Program. Any thread. */
struct et_xnn_duplicates {
	pthread_mutex_t lock; /* guards what follows, and the members `twin` of those that are in it */
	struct et_list_node by_digest[ET_XNN_DUPLICATE_BUCKETS];
};

/* What a compiled payload has of it, and a context. */
struct et_xnn_duplicate {
	struct et_list_node node; /* in by_digest; among a compiled payload's contexts */
	uint64_t digest;
	uint32_t n_users;
};

void et_xnn_duplicates_init(struct et_xnn_duplicates *duplicates);
/* No payload may be left. */
void et_xnn_duplicates_deinit(struct et_xnn_duplicates *duplicates);
/* A compiled payload from which everything comes out as from @compiled, with a user more; or NULL. @compiled has its parts,
 * and need have nothing packed. */
struct et_xnn_model *et_xnn_duplicates_find(struct et_xnn_duplicates *duplicates, struct et_xnn_model *model);
/* @compiled may be found from now on, and never changes any more; nothing happens where its Plan might yet change it. */
void et_xnn_duplicates_add(struct et_xnn_duplicates *duplicates, struct et_xnn_model *model);
/* A user less. True: it was the last, and nobody finds it any more. @twins: NULL for what has no other user. */
bool et_xnn_duplicates_leave(struct et_xnn_duplicates *duplicates, struct et_xnn_duplicate *duplicate);

#endif
