/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared: memory of the daemon's that backends in other processes read and write where it lies.
 *
 * Clients' regions are made known to each backend that wants to know (et_delegate_ops.import_memory) while they are
 * registered; so are the activations of programs that such a backend runs a part of. */
#ifndef DAEMON_MODEL_SHARED_MEMORY_H
#define DAEMON_MODEL_SHARED_MEMORY_H

#include "runtime/base/alloc.h"
#include "runtime/base/list.h"
#include "runtime/plan.h"

#include <pthread.h>

enum { INF_BACKENDS_MAX = 16 };

struct inf_shared {
	void *handles[INF_BACKENDS_MAX]; /* one a backend of the registry; NULL: it does not want it, or has no room */
};

/* [bytes, bytes + n_bytes) is the start of file @fd; both stay until it is removed. A backend that has no memory for
 * its entry copies instead. Any thread. */
void inf_shared_add(struct inf_shared *shared, const struct et_registry *registry, int fd, void *bytes, size_t n_bytes);
/* No run uses it any more. */
void inf_shared_remove(struct inf_shared *shared, const struct et_registry *registry);

/* Pages for activations: each piece a memory file of its own, made known to the backends, and followed by a readable
 * guard page. */
struct inf_shared_pages {
	struct et_allocator allocator; /* any thread */
	const struct et_registry *registry;
	pthread_mutex_t lock;
	struct et_list_node pieces;
};
/* @registry must outlive it. */
void inf_shared_pages_init(struct inf_shared_pages *pages, const struct et_registry *registry);
/* All pieces have been freed. */
void inf_shared_pages_deinit(struct inf_shared_pages *pages);

#endif
