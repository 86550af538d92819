/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that do not come back.
 *
 * A client's model may contain an instruction that takes a minute because the processor is slow, or that never ends
 * because a vendor's engine hangs, and the daemon cannot tell which. After `stall` the watchdog does what is right
 * in both cases: it answers the client, no request of that model begins until the worker comes back, and the other
 * workers go on. The service manager's watchdog is fed all the same: it would end the daemon for every client
 * because of one model. It is for a loop that is dead, and then nothing here runs, and for a queue that serves nobody
 * any more (dead_queue.c).
 *
 * What must always be true: under a queue's lock this file only looks and takes references. It answers afterwards,
 * and inf_job_give_up then decides whether the worker was quicker. */
#include "daemon/loop/stall_watchdog.h"

#include "daemon/base/text.h"
#include "daemon/client/binding.h"
#include "daemon/client/give_up.h"
#include "daemon/client/job.h"
#include "daemon/client/requests.h"
#include "daemon/client/session.h"
#include "daemon/context.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

enum { MAX_FOUND = 64 };

/* Stalled workers of one queue. */
struct found {
	const struct inf_config *config;
	uint64_t now_ns;
	uint32_t n;
	struct {
		struct inf_binding *binding; /* a reference; NULL: the worker prepares or releases a model */
		uint32_t worker;
		uint64_t since_ns;
	} items[MAX_FOUND];
};

/* Called under the queue's lock, for each worker that is busy. */
static void look(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns)
{
	struct found *found = self;
	const struct inf_config *config = found->config;
	struct inf_binding *b = item ? inf_job_binding(item) : NULL;
	const struct inf_config_model *section = b && !b->method->model->is_uploaded
							 ? inf_config_find_model(config, b->method->model->model)
							 : NULL;
	uint64_t stall_ns = section && section->has_stall ? section->stall_ns : config->stall_ns;
	if (!stall_ns || found->n == MAX_FOUND || found->now_ns <= since_ns || found->now_ns - since_ns <= stall_ns)
		return;
	if (b)
		inf_binding_ref(b);
	found->items[found->n].binding = b;
	found->items[found->n].worker = worker;
	found->items[found->n++].since_ns = since_ns;
}

static void note(struct inf_context *context, uint32_t queue, const struct found *found, uint32_t index)
{
	struct inf_binding *b = found->items[index].binding;
	uint32_t worker = found->items[index].worker;
	uint64_t since_ns = found->items[index].since_ns;
	char text[600], why[600];
	struct inf_stuck_worker *stuck = inf_stuck_find(&context->stuck, queue, worker, since_ns);
	if (stuck) {
		stuck->is_seen = true;
		return;
	}
	stuck = inf_stuck_add(&context->stuck, queue, worker, since_ns);
	if (!stuck) /* the next check finds it again */
		return;
	stuck->is_seen = true;
	stuck->has_client = b;
	stuck->uid = b ? b->user->uid : 0;
	if (b)
		inf_text(stuck->what, sizeof(stuck->what),
			"one instruction of model '%s' for client '%s' (pid %u, user %lu)", b->method->model->model,
			b->session->name, b->session->pid, (unsigned long)b->user->uid);
	else
		inf_text(stuck->what, sizeof(stuck->what), "preparing or releasing a model");
	/* a load that waits for memory that this worker would have to release is now refused */
	context->events.notify(context->events.self);
	inf_stuck_describe(stuck, &context->queues, et_platform_now_ns(NULL), true, text, sizeof(text));
	et_logf(&context->log, ET_LOG_WARNING, "%s; %s", text,
		b ? "giving its request up, the other workers go on" : "the other workers go on");
	if (!b)
		return;
	inf_text(why, sizeof(why),
		"%s; the request was given up. If that model takes so long, an administrator can say so with "
		"'stall' in inferd.conf",
		text);
	/* waiting requests of the same model would get stuck, too, and those that share its state wait for this one */
	if (inf_job_give_up(b, INF_INTERNAL, why))
		inf_requests_stop_waiting(context, b->method, INF_UNAVAILABLE, inf_job_stuck_text);
}

void inf_stall_watchdog_check(struct inf_context *context)
{
	/* How long requests wait behind a run that has all cores and is still in the same instruction. */
	enum { SHARE_CORES_NS = 500 * 1000 * 1000 };
	struct et_list_node *node, *after, *list = &context->stuck.list;
	char name[64];
	ET_LIST_FOR_EACH(node, after, list)
		ET_CONTAINER_OF(node, struct inf_stuck_worker, node)->is_seen = false;
	for (uint32_t q = 0; q < context->queues.n; q++) {
		struct found found = { .config = &context->config, .now_ns = et_platform_now_ns(NULL) };
		inf_pool_check(context->queues.pools[q], look, &found);
		inf_pool_share_cores(context->queues.pools[q], SHARE_CORES_NS);
		for (uint32_t i = 0; i < found.n; i++) {
			note(context, q, &found, i);
			inf_binding_drop(found.items[i].binding);
		}
	}
	ET_LIST_FOR_EACH(node, after, list) {
		struct inf_stuck_worker *stuck = ET_CONTAINER_OF(node, struct inf_stuck_worker, node);
		if (stuck->is_seen)
			continue;
		inf_stuck_write_name(stuck, &context->queues, name, sizeof(name));
		et_logf(&context->log, ET_LOG_NOTICE, "%s has come back from %s", name, stuck->what);
		inf_stuck_remove(&context->stuck, stuck);
	}
}
