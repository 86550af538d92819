/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues: all pools of the daemon, one for each device, the CPU's first. Their number is constant while the daemon
 * runs. */
#ifndef DAEMON_QUEUE_QUEUES_H
#define DAEMON_QUEUE_QUEUES_H

#include "daemon/queue/pool.h"

struct inf_queues {
	struct inf_pool *pools[INF_QUEUES_MAX];
	uint32_t n;
};

/* What daemon/loop/dead_queue.c knows of a queue. */
struct inf_dead_queue {
	uint64_t ended_ns; /* when it ended plug-ins' processes for this queue; 0: it did not */
	bool is_dead;      /* and no such process holds it up */
};

/* The workers of all queues, and the worker_index values of a Plan that they use. */
uint32_t inf_queues_n_workers(const struct inf_queues *queues);
uint32_t inf_queues_n_plan_workers(const struct inf_queues *queues);
/* Memory, in bytes, that the instances on all workers, the spare ones too, use now, with what they share. */
uint64_t inf_queues_threads_bytes(const struct inf_queues *queues);
/* The index of @queue, or -1: there is no such queue. */
int inf_queues_find(const struct inf_queues *queues, struct et_queue_id queue);
/* If a worker waits for a delegate's part of @run, ask the delegate to end it early. Any thread. */
void inf_queues_cancel(const struct inf_queues *queues, struct et_run *run);

#endif
