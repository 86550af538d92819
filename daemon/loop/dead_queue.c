/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues whose workers have all left for good.
 *
 * One stuck worker harms one model (stall_watchdog.c). If no worker of a queue comes back, nobody is served there, and
 * only an end helps: of the plug-in's process that the workers wait for, or else of the daemon. The daemon does not end
 * itself, since it cannot know whether somebody would start it again; it stops feeding the service manager's watchdog,
 * which can. Without a watchdog the log and the status say it, and that is all.
 *
 * A queue has as many workers in service as it began with: a spare worker serves in the place of each one that is
 * long in an instruction. A queue is dead when each of its workers, and of the spare ones that serve, has been in one
 * instruction for `dead_queue`, and for the `stall` of its model if that is longer: an administrator who allows an
 * instruction 20 minutes means it. */
#include "daemon/loop/dead_queue.h"

#include "daemon/base/text.h"
#include "daemon/client/binding.h"
#include "daemon/client/job.h"
#include "daemon/context.h"
#include "runtime/platform/platform.h"

/* How long a plug-in's process that was killed may take to end, with its runs. */
#define END_NS (UINT64_C(10) * 1000000000)

struct count {
	const struct inf_config *config;
	uint64_t now_ns;
	uint32_t n_gone; /* workers that do not come back */
};

/* Called under the queue's lock, for each worker that is busy. */
static void look(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns)
{
	struct count *count = self;
	const struct inf_model *model = item ? inf_job_binding(item)->method->model : NULL;
	const struct inf_config_model *section = model && !model->is_uploaded
							 ? inf_config_find_model(count->config, model->model)
							 : NULL;
	uint64_t limit_ns = count->config->dead_queue_ns;
	if (section && section->has_stall && section->stall_ns > limit_ns)
		limit_ns = section->stall_ns;
	count->n_gone += count->now_ns > since_ns && count->now_ns - since_ns > limit_ns;
}

static bool is_dead(const struct inf_context *context, struct inf_pool *pool, uint64_t now_ns)
{
	struct count count = { .config = &context->config, .now_ns = now_ns };
	if (!context->config.dead_queue_ns || context->config.dead_queue_ns == UINT64_MAX)
		return false;
	inf_pool_check(pool, look, &count);
	struct inf_pool_stats stats;
	inf_pool_stats(pool, &stats);
	/* a kept worker is in service for few, and for none of the class of those that do not come back */
	return count.n_gone >= inf_pool_n_workers(pool) - stats.n_kept + stats.n_spares;
}

static size_t write_name(const struct inf_pool *pool, char *to, size_t room)
{
	struct et_queue_id id = inf_pool_queue(pool);
	const char *kind = et_queue_kind_name((enum et_queue_kind)id.kind);
	return id.kind == ET_QUEUE_CPU ? inf_text(to, room, "queue %s", kind)
				       : inf_text(to, room, "queue %s%u", kind, id.device);
}

/* The queue with index @q is dead: end what holds it up, once. Whether that may still help. */
static bool end_processes(struct inf_context *context, uint32_t q, const char *name, uint64_t now_ns)
{
	struct inf_dead_queue *queue = &context->dead_queues[q];
	if (queue->ended_ns)
		return now_ns - queue->ended_ns < END_NS;
	uint64_t limit_ns = context->config.dead_queue_ns;
	uint32_t n = inf_backends_end_stuck(&context->backends, inf_pool_queue(context->queues.pools[q]),
		now_ns > limit_ns ? now_ns - limit_ns : 0);
	if (!n)
		return false;
	queue->ended_ns = now_ns;
	et_logf(&context->log, ET_LOG_ERROR,
		"no worker of %s has come back for %.3g s ('dead_queue'); ending %u process%s "
		"of plug-ins that do not answer",
		name, (double)limit_ns / 1e9, n, n == 1 ? "" : "es");
	return true;
}

static void check(struct inf_context *context, uint32_t q, uint64_t now_ns)
{
	struct inf_pool *pool = context->queues.pools[q];
	struct inf_dead_queue *queue = &context->dead_queues[q];
	char name[64];
	write_name(pool, name, sizeof(name));
	if (!is_dead(context, pool, now_ns)) {
		if (queue->is_dead)
			et_logf(&context->log, ET_LOG_NOTICE, "a worker of %s has come back", name);
		*queue = (struct inf_dead_queue){ 0 };
		return;
	}
	if (end_processes(context, q, name, now_ns))
		return;
	context->n_dead_queues++;
	if (!queue->is_dead)
		et_logf(&context->log, ET_LOG_ERROR,
			"no worker of %s has come back for %.3g s ('dead_queue'), and no request for it can run; the service "
			"manager's watchdog is not fed any more, so that it restarts inferd",
			name, (double)context->config.dead_queue_ns / 1e9);
	queue->is_dead = true;
}

void inf_dead_queues_check(struct inf_context *context)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	context->n_dead_queues = 0;
	for (uint32_t q = 0; q < context->queues.n; q++)
		check(context, q, now_ns);
}

size_t inf_dead_queues_describe(const struct inf_context *context, char *to, size_t room)
{
	size_t n = 0;
	to[0] = '\0';
	for (uint32_t q = 0; q < context->queues.n; q++) {
		if (!context->dead_queues[q].is_dead || n >= room)
			continue;
		n += inf_text(to + n, room - n, "no worker of ");
		if (n < room)
			n += write_name(context->queues.pools[q], to + n, room - n);
		if (n < room)
			n += inf_text(to + n, room - n, " comes back; ");
	}
	return n;
}
