/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of stuck workers.
 *
 * Entries hold text and numbers, no references: a stuck worker must not keep more memory than it uses. The list
 * does not look at workers and decides nothing; daemon/loop/stall_watchdog.c does both. */
#include "daemon/queue/stuck.h"

#include "daemon/base/text.h"
#include "runtime/base/checked.h"

#include <stdlib.h>

void inf_stuck_init(struct inf_stuck_workers *stuck)
{
	et_list_init(&stuck->list);
	stuck->n = 0;
}

void inf_stuck_deinit(struct inf_stuck_workers *stuck)
{
	struct et_list_node *node, *after;
	if (!stuck->list.next)
		return;
	ET_LIST_FOR_EACH(node, after, &stuck->list)
		inf_stuck_remove(stuck, ET_CONTAINER_OF(node, struct inf_stuck_worker, node));
}

struct inf_stuck_worker *inf_stuck_add(struct inf_stuck_workers *stuck, uint32_t queue, uint32_t worker,
	uint64_t since_ns)
{
	struct inf_stuck_worker *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->queue = queue;
	w->worker = worker;
	w->since_ns = since_ns;
	et_list_append(&stuck->list, &w->node);
	stuck->n++;
	return w;
}

struct inf_stuck_worker *inf_stuck_find(const struct inf_stuck_workers *stuck, uint32_t queue, uint32_t worker,
	uint64_t since_ns)
{
	for (struct et_list_node *node = stuck->list.next; node != &stuck->list; node = node->next) {
		struct inf_stuck_worker *w = ET_CONTAINER_OF(node, struct inf_stuck_worker, node);
		if (w->queue == queue && w->worker == worker && w->since_ns == since_ns)
			return w;
	}
	return NULL;
}

void inf_stuck_remove(struct inf_stuck_workers *stuck, struct inf_stuck_worker *worker)
{
	et_list_remove(&worker->node);
	stuck->n--;
	free(worker);
}

uint32_t inf_stuck_count(const struct inf_stuck_workers *stuck, uint32_t queue)
{
	uint32_t n = 0;
	for (struct et_list_node *node = stuck->list.next; node != &stuck->list; node = node->next)
		n += ET_CONTAINER_OF(node, struct inf_stuck_worker, node)->queue == queue;
	return n;
}

void inf_stuck_write_name(const struct inf_stuck_worker *worker, const struct inf_queues *queues, char *to, size_t room)
{
	struct et_queue_id id = inf_pool_queue(queues->pools[worker->queue]);
	if (id.kind == ET_QUEUE_CPU)
		inf_text(to, room, "worker %u of queue cpu", worker->worker);
	else
		inf_text(to, room, "worker %u of queue %s%u", worker->worker,
			et_queue_kind_name((enum et_queue_kind)id.kind), id.device);
}

void inf_stuck_describe(const struct inf_stuck_worker *worker, const struct inf_queues *queues, uint64_t now_ns,
	bool is_full, char *to, size_t room)
{
	double s = now_ns > worker->since_ns ? (double)(now_ns - worker->since_ns) / 1e9 : 0;
	char name[64];
	inf_stuck_write_name(worker, queues, name, sizeof(name));
	inf_text(to, room, "%s has been in %s for %.*f s", name, is_full ? worker->what : "one instruction",
		s < 10 ? 1 : 0, s);
}
