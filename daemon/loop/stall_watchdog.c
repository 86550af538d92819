/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that do not come back.
 *
 * Whoever runs a model runs somebody's program: an instruction may take a minute because the processor is slow, or never
 * end because a vendor's engine hangs, and nobody can tell which. So after `stall` the one thing is done that is right
 * in both cases: the client is told, nobody else is sent the same way (no request of that model is begun until the worker
 * comes back), and the other workers go on. The service manager's watchdog is fed all the same. It would end the
 * daemon for everybody, for one model's sake; it is for a loop that is dead, and then nothing here runs.
 *
 * What must always be true: under a queue's lock there is only looking. What is found is answered afterwards, and whether
 * the worker was quicker is settled there (inf_job_give_up). Entries hold text, no references: a stuck worker must not
 * keep more than what it uses. */
#include "daemon/loop/stall_watchdog.h"

#include "daemon/client/binding.h"
#include "daemon/client/job.h"
#include "daemon/loop/server.h"
#include "daemon/client/session.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_FOUND = 64 };

struct stuck {
	struct et_list_node node;
	uint32_t queue, worker;
	uint64_t since_ns;
	bool is_seen;
	char what[400]; /* "one instruction of model 'x' for client 'y' (pid 1, user 2)" */
};

/* What one look at a queue has found. */
struct found {
	struct inf_server *server;
	uint64_t now_ns;
	uint32_t n;
	struct {
		struct inf_binding *binding; /* a reference; NULL: it prepares or releases a model */
		uint32_t worker;
		uint64_t since_ns;
	} items[MAX_FOUND];
};

void inf_stall_watchdog_init(struct inf_stall_watchdog *watchdog)
{
	et_list_init(&watchdog->stuck);
	watchdog->n_stuck = 0;
}

static void forget(struct inf_stall_watchdog *watchdog, struct stuck *stuck)
{
	et_list_remove(&stuck->node);
	watchdog->n_stuck--;
	free(stuck);
}

void inf_stall_watchdog_deinit(struct inf_stall_watchdog *watchdog)
{
	struct et_list_node *node, *after;
	if (!watchdog->stuck.next)
		return;
	ET_LIST_FOR_EACH(node, after, &watchdog->stuck)
		forget(watchdog, ET_CONTAINER_OF(node, struct stuck, node));
}

/* Under the queue's lock. */
static void scan(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns)
{
	struct found *found = self;
	const struct inf_config *config = &found->server->config;
	struct inf_binding *b = item ? inf_job_binding(item) : NULL;
	const struct inf_config_model *section = b && !b->method->model->is_uploaded
							 ? inf_config_find_model(config, b->method->model->model)
							 : NULL;
	uint64_t patience_ns = section && section->has_stall ? section->stall_ns : config->stall_ns;
	if (!patience_ns || found->n == MAX_FOUND || found->now_ns <= since_ns ||
		found->now_ns - since_ns <= patience_ns)
		return;
	if (b)
		inf_binding_ref(b);
	found->items[found->n].binding = b;
	found->items[found->n].worker = worker;
	found->items[found->n++].since_ns = since_ns;
}

static void write_queue(const struct inf_server *server, uint32_t queue, char *to, size_t room)
{
	struct et_queue_id id = inf_pool_queue(server->queues.pools[queue]);
	if (id.kind == ET_QUEUE_CPU)
		inf_text(to, room, "cpu");
	else
		inf_text(to, room, "%s%u", et_queue_kind_name((enum et_queue_kind)id.kind), id.device);
}

static void write_stuck(const struct inf_server *server, const struct stuck *stuck, char *to, size_t room)
{
	char queue[32];
	uint64_t now_ns = et_platform_now_ns(NULL);
	double s = now_ns > stuck->since_ns ? (double)(now_ns - stuck->since_ns) / 1e9 : 0;
	write_queue(server, stuck->queue, queue, sizeof(queue));
	inf_text(to, room, "worker %u of queue %s has been in %s for %.*f s", stuck->worker, queue, stuck->what,
		s < 10 ? 1 : 0, s);
}

/* Those of the same model that wait would go the same way, and those whose state it works on wait for it. */
static void stop_waiting(struct inf_server *server, const struct inf_method *stuck)
{
	struct et_list_node *node, *after;
	struct inf_binding *b;
	ET_LIST_FOR_EACH(node, after, &server->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		for (uint32_t at = 0; (b = inf_table_next(&s->bindings, &at));)
			if (b->method->model == stuck->model || b->method->first == stuck->first)
				inf_job_stop_waiting(b, INF_UNAVAILABLE, inf_job_stuck_text);
	}
}

static struct stuck *find(struct inf_stall_watchdog *watchdog, uint32_t queue, uint32_t worker, uint64_t since_ns)
{
	for (struct et_list_node *node = watchdog->stuck.next; node != &watchdog->stuck; node = node->next) {
		struct stuck *stuck = ET_CONTAINER_OF(node, struct stuck, node);
		if (stuck->queue == queue && stuck->worker == worker && stuck->since_ns == since_ns)
			return stuck;
	}
	return NULL;
}

static void note(struct inf_server *server, uint32_t queue, const struct found *found, uint32_t index)
{
	struct inf_stall_watchdog *watchdog = &server->watchdog;
	struct inf_binding *b = found->items[index].binding;
	uint32_t worker = found->items[index].worker;
	uint64_t since_ns = found->items[index].since_ns;
	char text[600], why[600];
	struct stuck *stuck = find(watchdog, queue, worker, since_ns);
	if (stuck) {
		stuck->is_seen = true;
		return;
	}
	stuck = calloc(1, sizeof(*stuck));
	if (!stuck) /* the next look finds it again */
		return;
	stuck->queue = queue;
	stuck->worker = worker;
	stuck->since_ns = since_ns;
	stuck->is_seen = true;
	if (b)
		inf_text(stuck->what, sizeof(stuck->what),
			"one instruction of model '%s' for client '%s' (pid %u, user %lu)", b->method->model->model,
			b->session->name, b->session->pid, (unsigned long)b->user->uid);
	else
		inf_text(stuck->what, sizeof(stuck->what), "preparing or releasing a model");
	et_list_append(&watchdog->stuck, &stuck->node);
	watchdog->n_stuck++;
	inf_server_notify(server); /* who waits for memory that is in that worker's hands is to look again */
	write_stuck(server, stuck, text, sizeof(text));
	et_logf(&server->log, ET_LOG_WARNING, "%s; %s", text,
		b ? "giving its request up, the other workers go on" : "the other workers go on");
	if (!b)
		return;
	inf_text(why, sizeof(why),
		"%s; the request was given up. If that model takes so long, an administrator can say so with "
		"'stall' in inferd.conf",
		text);
	if (inf_job_give_up(b, INF_INTERNAL, why))
		stop_waiting(server, b->method);
}

void inf_stall_watchdog_check(struct inf_server *server)
{
	/* How long others wait behind a run that has all cores and does not come to the end of an instruction. */
	enum { LOOSEN_NS = 500 * 1000 * 1000 };
	struct et_list_node *node, *after;
	struct inf_stall_watchdog *watchdog = &server->watchdog;
	char queue[32];
	ET_LIST_FOR_EACH(node, after, &watchdog->stuck)
		ET_CONTAINER_OF(node, struct stuck, node)->is_seen = false;
	for (uint32_t q = 0; q < server->queues.n; q++) {
		struct found found = { .server = server, .now_ns = et_platform_now_ns(NULL) };
		inf_pool_check(server->queues.pools[q], scan, &found);
		inf_pool_loosen(server->queues.pools[q], LOOSEN_NS);
		for (uint32_t i = 0; i < found.n; i++) {
			note(server, q, &found, i);
			inf_binding_drop(found.items[i].binding);
		}
	}
	ET_LIST_FOR_EACH(node, after, &watchdog->stuck) {
		struct stuck *stuck = ET_CONTAINER_OF(node, struct stuck, node);
		if (stuck->is_seen)
			continue;
		write_queue(server, stuck->queue, queue, sizeof(queue));
		et_logf(&server->log, ET_LOG_NOTICE, "worker %u of queue %s has come back from %s", stuck->worker,
			queue, stuck->what);
		forget(watchdog, stuck);
	}
}

uint32_t inf_stall_watchdog_count(const struct inf_stall_watchdog *watchdog, uint32_t queue)
{
	uint32_t n = 0;
	for (struct et_list_node *node = watchdog->stuck.next; node != &watchdog->stuck; node = node->next)
		n += ET_CONTAINER_OF(node, struct stuck, node)->queue == queue;
	return n;
}

bool inf_stall_watchdog_helper(const struct inf_server *server, char *to, size_t room)
{
	uint64_t since_ns = inf_helper_busy_since(server->helper), now_ns = et_platform_now_ns(NULL);
	if (!since_ns || !server->config.stall_ns || now_ns <= since_ns || now_ns - since_ns <= server->config.stall_ns)
		return false;
	inf_text(to, room,
		"a model has been loading for %.0f s, and others wait for it: perhaps the file system of "
		"'%s' does "
		"not answer",
		(double)(now_ns - since_ns) / 1e9, server->config.models);
	return true;
}

static const struct stuck *stuck_at(const struct inf_stall_watchdog *watchdog, uint32_t index)
{
	for (struct et_list_node *node = watchdog->stuck.next; node != &watchdog->stuck; node = node->next)
		if (index-- == 0)
			return ET_CONTAINER_OF(node, struct stuck, node);
	return NULL;
}

bool inf_stall_watchdog_stuck_at(const struct inf_stall_watchdog *watchdog, uint32_t index, uint32_t *ret_queue,
	uint32_t *ret_worker)
{
	const struct stuck *stuck = stuck_at(watchdog, index);
	if (!stuck)
		return false;
	*ret_queue = stuck->queue;
	*ret_worker = stuck->worker;
	return true;
}

bool inf_stall_watchdog_describe(const struct inf_server *server, uint32_t index, char *to, size_t room)
{
	const struct stuck *stuck = stuck_at(&server->watchdog, index);
	if (stuck)
		write_stuck(server, stuck, to, room);
	return stuck != NULL;
}
