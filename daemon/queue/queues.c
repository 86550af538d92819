/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that concern all queues.
 *
 * Calls for one queue are its pool's (pool.c). The number of queues does not change between start and end, so there is
 * nothing to lock. */
#include "daemon/queue/queues.h"

uint32_t inf_queues_n_workers(const struct inf_queues *queues)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < queues->n; i++)
		n += inf_pool_n_workers(queues->pools[i]);
	return n;
}

uint32_t inf_queues_n_plan_workers(const struct inf_queues *queues)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < queues->n; i++)
		n += inf_pool_n_plan_workers(queues->pools[i]);
	return n;
}

uint64_t inf_queues_threads_bytes(const struct inf_queues *queues)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < queues->n; i++)
		n += inf_pool_threads_bytes(queues->pools[i]);
	return n;
}

int inf_queues_find(const struct inf_queues *queues, struct et_queue_id queue)
{
	for (uint32_t i = 0; i < queues->n; i++) {
		struct et_queue_id id = inf_pool_queue(queues->pools[i]);
		if (id.kind == queue.kind && id.device == queue.device)
			return (int)i;
	}
	return -1;
}

void inf_queues_cancel(const struct inf_queues *queues, struct et_run *run)
{
	for (uint32_t i = 0; i < queues->n; i++)
		inf_pool_cancel(queues->pools[i], run);
}
