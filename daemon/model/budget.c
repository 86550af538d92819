/* SPDX-License-Identifier: BSD-3-Clause */
/* What models take of the memory that the administrator gives them.
 *
 * A load is looked at twice: when there is a Plan, with what is known by then, and when the first workers have made
 * their contexts, with what those turned out to take, since nobody can say so before (XNNPACK plans its workspace
 * as it goes). What workers really have is asked of the delegates each time; it may grow later, with sizes that
 * clients bring, and then what nobody uses goes.
 *
 * Memory counts until it is really free: that of a model which is being unloaded until the helper has given it back, and
 * that of one whose clients still hold its Plan until they let go. So a load that finds too little may have to wait
 * for what is on its way out, which ends by itself; what clients hold may not, and is never waited for. Neither is what a
 * worker that does not come back (stall_watchdog.c) would have to release first: nothing is unloaded for that, and a load that
 * waits already is refused when the worker is found. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"

#include <stdatomic.h>

static struct inf_model *model_at(const struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct inf_model, node);
}

/* Whether a worker that does not come back has something of it. */
static bool is_held_up(const struct inf_repository *r, const struct inf_model *s)
{
	const struct et_list_node *stuck = &r->o.stuck->list;
	for (const struct et_list_node *node = stuck->next; node != stuck; node = node->next) {
		const struct inf_stuck_worker *w = ET_CONTAINER_OF(node, const struct inf_stuck_worker, node);
		if (inf_model_needs_worker(s, w->queue, w->worker))
			return true;
	}
	return atomic_load_explicit(&s->n_stuck, memory_order_relaxed) != 0;
}

/* Unloading, with nobody who could keep it, or a load that has failed and releases what it had. */
static bool is_going(const struct inf_model *s)
{
	return (s->state == INF_MODEL_UNLOADING && !s->n_methods) || (s->state == INF_MODEL_LOADING && s->reason[0]);
}

static bool is_on_its_way(const struct inf_repository *r, const struct inf_model *s)
{
	return is_going(s) && !is_held_up(r, s);
}

enum { N_HOLDERS = 3 };

struct scan {
	uint64_t used, leaving, held_up;
	uint64_t unused;  /* by models that could be unloaded */
	uint64_t workers; /* that no model answers for */
	uint64_t holds;   /* by all other models together but for the one that asks */
	struct holder {
		const struct inf_model *model;
		uint64_t n;
	} holders[N_HOLDERS];     /* the largest of those first */
	struct inf_model *oldest; /* that nobody uses; NULL: none */
};

static void note_holder(struct scan *scan, const struct inf_model *s, uint64_t n)
{
	struct holder holder = { s, n };
	et_add_up(&scan->holds, n);
	for (int i = 0; i < N_HOLDERS; i++)
		if (holder.n > scan->holders[i].n) {
			struct holder smaller = scan->holders[i];
			scan->holders[i] = holder;
			holder = smaller;
		}
}

/* What workers have beyond that of which is known for which model it was made: a workspace that outlived who made it
 * large, and what grew with sizes that came by. */
static uint64_t workers_own(const struct inf_repository *r, uint64_t n_known)
{
	uint64_t n = inf_queues_threads_bytes(r->o.queues);
	return et_less(n, n_known);
}

static void scan(const struct inf_repository *r, const struct inf_model *whose, struct scan *ret_scan)
{
	const struct et_list_node *const lists[] = { &r->models, &r->unloaded };
	struct scan scan = { .used = r->n_leaving, .leaving = r->n_leaving };
	uint64_t n_instances = 0;
	for (int i = 0; i < 2; i++)
		for (struct et_list_node *node = lists[i]->next; node != lists[i]; node = node->next) {
			struct inf_model *s = model_at(node);
			struct inf_model_use use = inf_model_use(s);
			uint64_t n = inf_model_total(&use);
			et_add_up(&scan.used, n);
			et_add_up(&n_instances, use.n_instances);
			if (is_on_its_way(r, s)) {
				et_add_up(&scan.leaving, n);
				continue;
			}
			bool is_free = s->state == INF_MODEL_READY && !s->n_methods && !s->is_pinned && s != whose;
			if ((is_free || is_going(s)) && is_held_up(r, s)) {
				et_add_up(&scan.held_up, n);
				is_free = false;
			}
			if (is_free)
				et_add_up(&scan.unused, n);
			else if (s != whose || s->state != INF_MODEL_LOADING)
				note_holder(&scan, s, n);
			if (is_free && (!scan.oldest || s->last_used_ns < scan.oldest->last_used_ns))
				scan.oldest = s;
		}
	scan.workers = workers_own(r, n_instances);
	et_add_up(&scan.used, scan.workers);
	*ret_scan = scan;
}

uint64_t inf_repository_memory(const struct inf_repository *r)
{
	struct scan now;
	scan(r, NULL, &now);
	return now.used;
}

static size_t write_size(char *to, size_t room, uint64_t n_bytes)
{
	if (n_bytes < 10240)
		return inf_text(to, room, "%llu B", (unsigned long long)n_bytes);
	if (n_bytes < UINT64_C(10240) << 10)
		return inf_text(to, room, "%llu KiB", (unsigned long long)(n_bytes >> 10));
	return inf_text(to, room, "%llu MiB", (unsigned long long)(n_bytes >> 20));
}

static size_t write_part(char *to, size_t room, const char *before, const char *what, const char *after,
	uint64_t n_bytes)
{
	char size[24];
	write_size(size, sizeof(size), n_bytes);
	return inf_text(to, room, "%s%s%s%s", before, what, size, after);
}

/* "12 MiB (file 4 MiB, prepared 6 MiB, contexts 1 MiB, runs 1 MiB)" */
static void write_needs(char *to, size_t room, const struct inf_model_use *needs)
{
	const struct {
		const char *what;
		uint64_t n;
	} parts[] = { { "file ", needs->n_file }, { "prepared ", needs->n_prepared },
		{ "contexts ", needs->n_instances }, { "runs ", needs->n_frames }, { "state ", needs->n_states } };
	size_t n = write_size(to, room, inf_model_total(needs));
	bool is_first = true;
	for (size_t i = 0; i < ET_ARRAY_LEN(parts) && n < room; i++) {
		if (!parts[i].n)
			continue;
		n += write_part(to + n, room - n, is_first ? " (" : ", ", parts[i].what, "", parts[i].n);
		is_first = false;
	}
	if (!is_first && n < room)
		inf_text(to + n, room - n, ")");
}

/* "; 'a' holds 4 MiB, 'b' 3 MiB, others 1 MiB; workspaces of the workers 1 MiB" */
static void write_holders(char *to, size_t room, const struct scan *scan)
{
	uint64_t others = scan->holds;
	size_t n = 0;
	to[0] = '\0';
	for (int i = 0; i < N_HOLDERS && scan->holders[i].model && n < room; i++) {
		n += inf_text(to + n, room - n, "%s'%.60s' %s", i ? ", " : "; ", scan->holders[i].model->model,
			i ? "" : "holds ");
		if (n < room)
			n += write_size(to + n, room - n, scan->holders[i].n);
		others = et_less(others, scan->holders[i].n);
	}
	if (n && others && n < room)
		n += write_part(to + n, room - n, ", others ", "", "", others);
	if (scan->workers && n < room)
		write_part(to + n, room - n, "; workspaces of the workers ", "", "", scan->workers);
}

enum inf_room inf_repository_make_room(struct inf_repository *r, const struct inf_model *whose,
	const struct inf_model_use *needs, bool is_counted, char *reason, size_t room)
{
	uint64_t budget = r->o.config->memory_budget;
	uint64_t all = inf_model_total(needs), n = is_counted ? 0 : all;
	if (!budget)
		return INF_ROOM;
	for (;;) {
		struct scan now;
		scan(r, whose, &now);
		if (n <= budget && now.used <= budget - n)
			return INF_ROOM;
		if (n <= budget && now.used - now.leaving <= budget - n)
			return INF_ROOM_LATER;
		uint64_t stays = et_less(now.used - now.leaving, now.unused);
		/* else nobody is unloaded in vain; workspaces may go with their last model */
		bool is_possible = n <= budget && et_less(stays, now.workers) <= budget - n;
		if (now.oldest && (is_possible || !all)) {
			et_logf(r->o.log, ET_LOG_INFO, "model %s: unloading, to make room", now.oldest->model);
			inf_model_unload(now.oldest);
			continue;
		}
		char needed[160], has[24], whole[24], holders[280], held_up[80] = "";
		stays = et_less(stays, is_counted ? all : 0);
		write_needs(needed, sizeof(needed), needs);
		write_size(has, sizeof(has), budget > stays ? budget - stays : 0);
		write_size(whole, sizeof(whole), budget);
		write_holders(holders, sizeof(holders), &now);
		if (now.held_up)
			write_part(held_up, sizeof(held_up), "; ", "", " could go if a worker came back that is stuck",
				now.held_up);
		inf_text(reason, room, "it needs %s, %s of the memory budget of %s are free%s%s", needed, has, whole,
			holders, held_up);
		return INF_ROOM_NEVER;
	}
}

bool inf_repository_fits(void *self, const struct inf_model *model, char *reason, size_t room)
{
	struct inf_model_use needs = inf_model_use(model);
	return inf_repository_make_room(self, model, &needs, true, reason, room) != INF_ROOM_NEVER;
}

bool inf_repository_has_room_for_state(struct inf_repository *r, const struct inf_model *model, uint64_t n_bytes,
	char *reason, size_t room)
{
	struct inf_model_use needs = { .n_states = n_bytes };
	return !needs.n_states || inf_repository_make_room(r, model, &needs, false, reason, room) != INF_ROOM_NEVER;
}

void inf_repository_shrink(struct inf_repository *r)
{
	const struct inf_model_use nothing = { 0 };
	char reason[8];
	inf_repository_make_room(r, NULL, &nothing, false, reason, sizeof(reason));
}
