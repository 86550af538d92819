/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory budget: whether a model fits into the memory that the administrator gives all models.
 *
 * A load is checked twice: when its Plan is made, with what the delegates estimate for the first instances, and when
 * the first workers have made these, with the measured sizes. The delegates are asked each time for the memory that the
 * workers' threads have now. It may grow later, with the sizes that clients bring; then models without Methods are
 * unloaded. An estimate may be wrong, and a client may bring any sizes, so delegates allocate for instances under a
 * limit: what the budget leaves, and no more than the machine has beside a reserve.
 *
 * Memory counts until it is really free: that of a model being unloaded until the helper has freed it, that of an
 * UNLOADED model until its last Method is closed. A load that finds too little waits for memory that is being
 * freed, because that ends by itself. It never waits for a client, nor for a worker that does not come back
 * (stall_watchdog.c): no model is unloaded that such a worker would have to release first, and a load that waits
 * already is refused when the worker is found stuck. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdatomic.h>

static struct inf_model *model_at(const struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct inf_model, node);
}

/* Whether a worker that does not come back holds the model. */
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

/* Whether its memory is being freed: UNLOADING without Methods, or a failed load. */
static bool is_leaving(const struct inf_model *s)
{
	return (s->state == INF_MODEL_UNLOADING && !s->n_methods) || s->state == INF_MODEL_FAILING;
}

enum { N_HOLDERS = 3 };

struct usage {
	uint64_t used;    /* all memory that counts; the next four are parts of it */
	uint64_t leaving; /* being freed */
	uint64_t held_up; /* could be freed if a stuck worker came back */
	uint64_t unused;  /* of models that could be unloaded */
	uint64_t workers; /* of the workers' threads, for no particular model */
	uint64_t held;    /* of all other models but the one that asks */
	uint64_t apart;   /* of models that can't be unloaded, all but their instances */
	struct holder {
		const struct inf_model *model;
		uint64_t n;
	} holders[N_HOLDERS];     /* the largest of those models, the largest first */
	struct inf_model *oldest; /* the least recently used of the unused models; NULL: none */
};

/* Whether every client may read the model's name: not of a program that a client brought, nor of a model that only some
 * may open. */
static bool is_public(const struct inf_repository *r, const struct inf_model *s)
{
	const struct inf_config_model *section = inf_config_find_model(r->o.config, s->model);
	return !s->is_uploaded && (!section || (!section->users.text[0] && !section->groups.text[0]));
}

static void note_holder(const struct inf_repository *r, struct usage *usage, const struct inf_model *s, uint64_t n)
{
	struct holder holder = { s, n };
	et_add_up(&usage->held, n);
	if (!is_public(r, s))
		return;
	for (int i = 0; i < N_HOLDERS; i++)
		if (holder.n > usage->holders[i].n) {
			struct holder smaller = usage->holders[i];
			usage->holders[i] = holder;
			holder = smaller;
		}
}

/* The memory of the workers' threads beyond the @n_known bytes that were measured for some model: a workspace that
 * outlived the model that made it large, and growth with the sizes of later inputs. */
static uint64_t workers_own(const struct inf_repository *r, uint64_t n_known)
{
	uint64_t n = inf_queues_threads_bytes(r->o.queues);
	return et_less(n, n_known);
}

/* What all models and workers use now, seen by a model that asks for room (NULL: none). */
static void measure(const struct inf_repository *r, const struct inf_model *asking, struct usage *ret_usage)
{
	const struct et_list_node *const lists[] = { &r->models, &r->unloaded };
	struct usage usage = { .used = r->n_leaving, .leaving = r->n_leaving, .apart = r->n_leaving };
	uint64_t n_instances = 0;
	for (int i = 0; i < 2; i++)
		for (struct et_list_node *node = lists[i]->next; node != lists[i]; node = node->next) {
			struct inf_model *s = model_at(node);
			struct inf_model_use use = inf_model_use(s);
			uint64_t n = inf_model_total(&use);
			et_add_up(&usage.used, n);
			et_add_up(&n_instances, use.n_instances);
			et_add_up(&usage.apart, n - use.n_instances);
			bool is_stuck = is_held_up(r, s);
			if (is_leaving(s) && !is_stuck) {
				et_add_up(&usage.leaving, n);
				continue;
			}
			bool is_unused = inf_model_is_loaded(s) && !s->n_methods && !s->is_pinned && s != asking;
			if ((is_unused || is_leaving(s)) && is_stuck) {
				et_add_up(&usage.held_up, n);
				is_unused = false;
			}
			if (is_unused) {
				et_add_up(&usage.unused, n);
				usage.apart -= n - use.n_instances;
			} else if (s != asking || !inf_model_is_loading(s)) {
				note_holder(r, &usage, s, n);
			}
			if (is_unused && (!usage.oldest || s->last_used_ns < usage.oldest->last_used_ns))
				usage.oldest = s;
		}
	usage.workers = workers_own(r, n_instances);
	et_add_up(&usage.used, usage.workers);
	*ret_usage = usage;
}

uint64_t inf_repository_memory(const struct inf_repository *r)
{
	struct usage now;
	measure(r, NULL, &now);
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

/* "12 MiB (file 4 MiB, prepared 6 MiB, instances 1 MiB, runs 1 MiB)" */
static void write_needs(char *to, size_t room, const struct inf_model_use *needs)
{
	const struct {
		const char *what;
		uint64_t n;
	} parts[] = { { "file ", needs->n_file }, { "prepared ", needs->n_prepared },
		{ "instances ", needs->n_instances }, { "runs ", needs->n_frames }, { "state ", needs->n_states } };
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
static void write_holders(char *to, size_t room, const struct usage *usage)
{
	uint64_t others = usage->held;
	size_t n = 0;
	to[0] = '\0';
	for (int i = 0; i < N_HOLDERS && usage->holders[i].model && n < room; i++) {
		n += inf_text(to + n, room - n, "%s'%.60s' %s", i ? ", " : "; ", usage->holders[i].model->model,
			i ? "" : "holds ");
		if (n < room)
			n += write_size(to + n, room - n, usage->holders[i].n);
		others = et_less(others, usage->holders[i].n);
	}
	if (n && others && n < room)
		n += write_part(to + n, room - n, ", others ", "", "", others);
	if (usage->workers && n < room)
		write_part(to + n, room - n, "; workspaces of the workers ", "", "", usage->workers);
}

void inf_repository_limit_instances(struct inf_repository *r)
{
	uint64_t budget = r->o.config->memory_budget, max = inf_queues_threads_bytes(r->o.queues);
	et_add_up(&max, et_platform_memory_room());
	if (budget) {
		struct usage now;
		measure(r, NULL, &now);
		uint64_t rest = et_less(budget, now.apart);
		max = rest < max ? rest : max;
	}
	for (size_t i = 0; i < r->o.registry->n_backends; i++) {
		const struct et_backend_entry *entry = &r->o.registry->backends[i];
		if (entry->ops->limit_memory)
			entry->ops->limit_memory(entry->backend, max);
	}
}

uint64_t inf_repository_room(const struct inf_repository *r)
{
	uint64_t budget = r->o.config->memory_budget, n = et_platform_memory_room();
	if (!budget)
		return n;
	struct usage now;
	measure(r, NULL, &now);
	uint64_t rest = et_less(budget, et_less(now.used - now.leaving, now.unused));
	return rest < n ? rest : n;
}

bool inf_repository_machine_has_room(const struct inf_repository *r, const struct inf_model_use *needs, char *reason,
	size_t room)
{
	/* frames are made when runs need them */
	uint32_t n_workers = inf_queues_n_workers(r->o.queues);
	struct inf_model_use first = { .n_instances = needs->n_instances, .n_frames = needs->n_frames / n_workers };
	uint64_t n_free = et_platform_memory_room();
	char needed[160], has[24];
	if (inf_model_total(&first) <= n_free)
		return true;
	write_needs(needed, sizeof(needed), &first);
	write_size(has, sizeof(has), n_free);
	inf_text(reason, room, "it needs %s for its first run, %s of the machine's memory are free beside the reserve",
		needed, has);
	return false;
}

enum inf_room inf_repository_make_room(struct inf_repository *r, const struct inf_model *asking,
	const struct inf_model_use *needs, bool is_counted, char *reason, size_t room)
{
	uint64_t budget = r->o.config->memory_budget;
	uint64_t all = inf_model_total(needs), n = is_counted ? 0 : all;
	if (!budget)
		return INF_ROOM;
	for (;;) {
		struct usage now;
		measure(r, asking, &now);
		if (n <= budget && now.used <= budget - n)
			return INF_ROOM;
		if (n <= budget && now.used - now.leaving <= budget - n)
			return INF_ROOM_LATER;
		uint64_t stays = et_less(now.used - now.leaving, now.unused);
		/* unload nothing in vain; workspaces may be freed with their last model */
		bool is_possible = n <= budget && et_less(stays, now.workers) <= budget - n;
		if (now.oldest && (is_possible || !all)) {
			et_logf(r->o.log, ET_LOG_INFO, "model %s: unloading it to make room", now.oldest->model);
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

bool inf_repository_has_room(void *self, const struct inf_model *model, char *reason, size_t room)
{
	struct inf_model_use needs = inf_model_use(model);
	bool has_room = inf_repository_make_room(self, model, &needs, true, reason, room) != INF_ROOM_NEVER;
	inf_repository_limit_instances(self);
	return has_room;
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
	inf_repository_limit_instances(r);
}
