/* SPDX-License-Identifier: BSD-3-Clause */
/* Deduplication: payloads of a Program that were decoded to the same graph share one model.
 *
 * A network that runs the same cell at each step, or that was lowered operator by operator, has the same payload
 * many times over. In the file these differ by numbers for debuggers. XNNPACK's objects for one payload take tens of
 * kilobytes and most of the time of a load, so there is one model for all of them, and one instance of it for each
 * worker. */
#ifndef DELEGATES_XNNPACK_DEDUPLICATION_H
#define DELEGATES_XNNPACK_DEDUPLICATION_H

#include "runtime/base/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ET_XNN_DUPLICATE_BUCKETS = 64 };

struct et_xnn_payload;

/* The models of one Program that may be shared. Any thread. */
struct et_xnn_duplicates {
	pthread_mutex_t lock; /* guards what follows, and the node and n_users of each et_xnn_duplicate in it */
	struct et_list_node by_digest[ET_XNN_DUPLICATE_BUCKETS];
};

/* A member of each model and of each instance. */
struct et_xnn_duplicate {
	struct et_list_node node; /* of a model: in by_digest; of an instance: in its model's list */
	uint32_t n_users;
	/* Of a model only. */
	uint64_t digest;
	const struct et_xnn_payload *payload; /* the model's */
	size_t max_instance_bytes;            /* the model's limit */
};

void et_xnn_duplicates_init(struct et_xnn_duplicates *duplicates);
/* No model of the Program may be left. */
void et_xnn_duplicates_deinit(struct et_xnn_duplicates *duplicates);
/* Find a model from which everything comes out as from @duplicate's, and count a user of it; NULL: there is none.
 * @duplicate has its payload, cut into partitions, and its limit; its digest is set. */
struct et_xnn_duplicate *et_xnn_duplicates_find(struct et_xnn_duplicates *duplicates,
	struct et_xnn_duplicate *duplicate);
/* @duplicate, which has its digest, may be found from now on. Its payload never changes again. */
void et_xnn_duplicates_add(struct et_xnn_duplicates *duplicates, struct et_xnn_duplicate *duplicate);
/* Uncount a user. True: it was the last one, and @duplicate is not found any more. @duplicates: NULL if it was never
 * shared. */
bool et_xnn_duplicates_leave(struct et_xnn_duplicates *duplicates, struct et_xnn_duplicate *duplicate);

#endif
