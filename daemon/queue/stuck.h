/* SPDX-License-Identifier: BSD-3-Clause */
/* Stuck workers: those that have been in one instruction for longer than the configuration's `stall`.
 *
 * The stall watchdog (daemon/loop) writes this list. The memory budget reads it, because a model that needs a stuck
 * worker cannot be unloaded, and so does the status. Loop thread only. */
#ifndef DAEMON_QUEUE_STUCK_H
#define DAEMON_QUEUE_STUCK_H

#include "daemon/queue/queues.h"
#include "runtime/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct inf_stuck_worker {
	struct et_list_node node;
	uint32_t queue, worker;
	uint64_t since_ns;
	bool is_seen;    /* the watchdog's: this worker was still stuck at its last check */
	bool has_client; /* it runs a request of user uid */
	uid_t uid;
	char what[400]; /* "one instruction of model 'x' for client 'y' (pid 1, user 2)" */
};

struct inf_stuck_workers {
	struct et_list_node list; /* of struct inf_stuck_worker, in the order in which they were found */
	uint32_t n;
};

void inf_stuck_init(struct inf_stuck_workers *stuck);
/* All zeros is fine. */
void inf_stuck_deinit(struct inf_stuck_workers *stuck);
/* Append an entry, which the list owns; the caller fills in what. NULL: no memory. */
struct inf_stuck_worker *inf_stuck_add(struct inf_stuck_workers *stuck, uint32_t queue, uint32_t worker,
	uint64_t since_ns);
/* The entry of that worker that has been stuck since then; NULL: none. */
struct inf_stuck_worker *inf_stuck_find(const struct inf_stuck_workers *stuck, uint32_t queue, uint32_t worker,
	uint64_t since_ns);
/* Remove and free @worker. */
void inf_stuck_remove(struct inf_stuck_workers *stuck, struct inf_stuck_worker *worker);
/* How many workers of the queue with index @queue are stuck. */
uint32_t inf_stuck_count(const struct inf_stuck_workers *stuck, uint32_t queue);
/* Write "worker 1 of queue cpu". */
void inf_stuck_write_name(const struct inf_stuck_worker *worker, const struct inf_queues *queues, char *to,
	size_t room);
/* Write "worker 1 of queue cpu has been in WHAT for 12 s"; without @is_full, nothing of the client and the model. */
void inf_stuck_describe(const struct inf_stuck_worker *worker, const struct inf_queues *queues, uint64_t now_ns,
	bool is_full, char *to, size_t room);

#endif
