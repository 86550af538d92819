/* What models take of the memory that the administrator gives them.
 *
 * Memory counts until it is really free: that of a model which is being unloaded until the helper has given it back, and
 * that of one whose clients still hold its Plan until they let go. So a load that finds too little may have to wait
 * for what is on its way out, which ends by itself; what clients hold may not, and is never waited for. Neither is what a
 * worker that does not come back (watch.c) would have to release first: nothing is unloaded for that, and a load that
 * waits already is refused when the worker is found. */
#include "daemon/repository_impl.h"
#include "daemon/text.h"
#include "daemon/watch.h"

#include <stdatomic.h>

static struct inf_serving *serving_at(const struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct inf_serving, node);
}

/* Whether a worker that does not come back has something of it. */
static bool is_held_up(const struct inf_repository *r, const struct inf_serving *s)
{
	uint32_t queue, worker;
	for (uint32_t i = 0; inf_watch_stuck_at(r->o.watch, i, &queue, &worker); i++)
		if (inf_serving_needs_worker(s, queue, worker))
			return true;
	return atomic_load_explicit(&s->n_stuck, memory_order_relaxed) != 0;
}

/* Unloading, with nobody who could keep it. */
static bool is_on_its_way(const struct inf_repository *r, const struct inf_serving *s)
{
	return s->state == INF_MODEL_UNLOADING && !s->n_methods && !is_held_up(r, s);
}

struct use {
	uint64_t used, leaving, held_up;
	const struct inf_serving *largest; /* that stays */
	struct inf_serving *oldest;        /* that nobody uses; NULL: none */
};

static void look(const struct inf_repository *r, struct use *ret_use)
{
	const struct et_list_node *const lists[] = { &r->servings, &r->unloaded };
	struct use use = { .used = r->n_leaving, .leaving = r->n_leaving };
	for (int i = 0; i < 2; i++)
		for (struct et_list_node *node = lists[i]->next; node != lists[i]; node = node->next) {
			struct inf_serving *s = serving_at(node);
			uint64_t n = inf_serving_memory(s);
			use.used += n;
			if (is_on_its_way(r, s)) {
				use.leaving += n;
				continue;
			}
			bool is_free = s->state == INF_MODEL_READY && !s->n_methods && !s->is_pinned;
			bool is_going = s->state == INF_MODEL_UNLOADING && !s->n_methods;
			if ((is_free || is_going) && is_held_up(r, s)) {
				use.held_up += n;
				is_free = false;
			}
			if (!use.largest || n > inf_serving_memory(use.largest))
				use.largest = s;
			if (is_free && (!use.oldest || s->last_used_ns < use.oldest->last_used_ns))
				use.oldest = s;
		}
	*ret_use = use;
}

static void write_size(char *to, size_t room, uint64_t n_bytes)
{
	if (n_bytes < 10240)
		inf_text(to, room, "%llu B", (unsigned long long)n_bytes);
	else if (n_bytes < UINT64_C(10240) << 10)
		inf_text(to, room, "%llu kB", (unsigned long long)(n_bytes >> 10));
	else
		inf_text(to, room, "%llu MB", (unsigned long long)(n_bytes >> 20));
}

enum inf_room inf_repository_make_room(struct inf_repository *r, uint64_t n, char *reason, size_t room)
{
	uint64_t budget = r->o.config->memory_budget;
	if (!budget)
		return INF_ROOM;
	for (;;) {
		struct use use;
		look(r, &use);
		if (n <= budget && use.used <= budget - n)
			return INF_ROOM;
		if (n <= budget && use.used - use.leaving <= budget - n)
			return INF_ROOM_LATER;
		if (use.oldest) {
			et_logf(r->o.log, ET_LOG_INFO, "model %s: unloading, to make room",
				use.oldest->model);
			inf_serving_unload(use.oldest);
			continue;
		}
		char needs[16], has[16], all[16], holds[16], held_up[16], why[80] = "";
		uint64_t stays = use.used - use.leaving;
		write_size(needs, sizeof(needs), n);
		write_size(has, sizeof(has), budget > stays ? budget - stays : 0);
		write_size(all, sizeof(all), budget);
		write_size(holds, sizeof(holds), use.largest ? inf_serving_memory(use.largest) : 0);
		write_size(held_up, sizeof(held_up), use.held_up);
		if (use.held_up)
			inf_text(why, sizeof(why), "; %s could go if a worker came back that is stuck",
				held_up);
		inf_text(reason, room,
			"it needs %s, %s of the memory budget of %s are free, most is held by '%s' (%s)%s",
			needs, has, all, use.largest ? use.largest->model : "nobody", holds, why);
		return INF_ROOM_NEVER;
	}
}
