/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues: all that the daemon has, one a device, cpu first, each a pool of workers. */
#ifndef DAEMON_QUEUE_QUEUES_H
#define DAEMON_QUEUE_QUEUES_H

#include "daemon/queue/worker.h"

struct inf_queues {
	struct inf_pool *pools[INF_QUEUES_MAX];
	uint32_t n;
};

/* How many workers, and slots of a Plan, all of them have. */
uint32_t inf_queues_n_workers(const struct inf_queues *queues);
uint32_t inf_queues_n_plan_workers(const struct inf_queues *queues);
/* Memory that contexts take now on all workers, with what they share. */
uint64_t inf_queues_threads_bytes(const struct inf_queues *queues);
/* Its index, or -1: there is no such queue. */
int inf_queues_find(const struct inf_queues *queues, struct et_queue_id queue);
/* Whoever waits for a delegate's part of @run: ask the delegate to end it early. Any thread. */
void inf_queues_cancel(const struct inf_queues *queues, struct et_run *run);

#endif
