/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory: memory of the daemon that backends in other processes read and write without a copy.
 *
 * Clients' regions are registered with each backend that has et_delegate_ops.import_memory; so are the activations of
 * programs of which such a backend runs a part. */
#ifndef DAEMON_MODEL_SHARED_MEMORY_H
#define DAEMON_MODEL_SHARED_MEMORY_H

#include "runtime/base/alloc.h"
#include "runtime/base/list.h"
#include "runtime/plan.h"

#include <pthread.h>

enum { INF_BACKENDS_MAX = 16 };

struct inf_shared {
	void *handles[INF_BACKENDS_MAX]; /* one for each backend of the registry; NULL: that backend copies */
};

/* Register [bytes, bytes + n_bytes), the start of file @fd, with all backends; both must stay until
 * inf_shared_remove. A backend without memory for its entry copies instead. Any thread. */
void inf_shared_add(struct inf_shared *shared, const struct et_registry *registry, int fd, void *bytes, size_t n_bytes);
/* No run may use the memory any more. Any thread. */
void inf_shared_remove(struct inf_shared *shared, const struct et_registry *registry);

/* An allocator of pages for activations: each piece is a memory file of its own, registered with the backends, and
 * followed by a readable guard page. */
struct inf_shared_pages {
	struct et_allocator allocator; /* any thread */
	const struct et_registry *registry;
	pthread_mutex_t lock;
	struct et_list_node pieces;
};
/* @registry must outlive it. */
void inf_shared_pages_init(struct inf_shared_pages *pages, const struct et_registry *registry);
/* All pieces must have been freed. */
void inf_shared_pages_deinit(struct inf_shared_pages *pages);

#endif
