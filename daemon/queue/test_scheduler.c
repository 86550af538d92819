/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler under random load: random requests, cancellations and deadlines, checked against what must always
 * be true. (tests/scenario tests single decisions.) */
#include "daemon/queue/scheduler.h"

#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N_ITEMS = 400, N_GROUPS = 3, N_FLOWS = 7, N_STREAMS = 5, AGE = 50, MAX_COST = 9 };

static uint64_t seed;

static uint32_t below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

struct world {
	struct inf_sched sched;
	struct inf_group groups[N_GROUPS];
	struct inf_flow flows[N_FLOWS];
	struct inf_stream streams[N_STREAMS];
	struct inf_item items[N_ITEMS];
	bool is_submitted[N_ITEMS], is_over[N_ITEMS];
	uint64_t ends[N_ITEMS];
	struct inf_item *running[8];
	bool is_narrowed; /* what has all cores does not come to an end, and counts as one */
	uint32_t n_workers;
};

static size_t index_of(const struct world *w, const struct inf_item *item)
{
	return (size_t)(item - w->items);
}

static void over(struct world *w, const struct inf_item *item)
{
	size_t i = index_of(w, item);
	assert_true(w->is_submitted[i]);
	assert_false(w->is_over[i]); /* exactly once */
	w->is_over[i] = true;
}

static void submit(struct world *w, size_t i, uint64_t now)
{
	struct inf_item *item = &w->items[i];
	item->flow = &w->flows[below(N_FLOWS)];
	item->priority_class = (enum inf_class)below(INF_N_CLASSES);
	item->cost_ns = below(MAX_COST);
	item->deadline_ns = below(4) ? 0 : now + 1 + below(100);
	item->stream = below(3) ? NULL : &w->streams[below(N_STREAMS)];
	item->prefers_single_core = below(2);
	if (item->stream)
		item->flow = &w->flows[index_of(w, item) % N_FLOWS];
	w->is_submitted[i] = true;
	inf_sched_submit(&w->sched, item, now);
}

/* The cores in use never exceed the workers; two requests of a stream never run together. */
static void check_running(const struct world *w)
{
	uint32_t used = 0;
	for (uint32_t a = 0; a < w->n_workers; a++) {
		const struct inf_item *item = w->running[a];
		if (!item)
			continue;
		used += item->is_all_cores && !w->is_narrowed ? w->n_workers : 1;
		for (uint32_t b = 0; b < a; b++)
			assert_false(item->stream && w->running[b] && w->running[b]->stream == item->stream);
	}
	assert_true(used <= w->n_workers);
}

/* Whether a waiting item could run on a free worker. */
static bool is_left_lying(const struct inf_sched *sched)
{
	const struct inf_sched_options *options = &sched->options;
	bool keeps_one = options->keeps_one && options->n_workers > 1;
	uint32_t n_running = 0;
	for (size_t c = 0; c < INF_N_CLASSES; c++) {
		uint32_t most = options->n_workers - (keeps_one && c > 0);
		n_running += sched->n_running_of[c];
		if (!et_list_is_empty(&sched->classes[c]) && n_running < most)
			return sched->n_running < options->n_workers;
	}
	return false;
}

static void play(uint64_t from, uint32_t n_workers, bool has_all_cores, bool keeps_one)
{
	static struct world w;
	struct inf_sched_options options = { n_workers, has_all_cores, AGE, keeps_one };
	size_t n_submitted = 0;
	memset(&w, 0, sizeof(w));
	seed = from;
	w.n_workers = n_workers;
	inf_sched_init(&w.sched, &options);
	for (size_t i = 0; i < N_GROUPS; i++)
		inf_group_init(&w.groups[i], 1 + below(4));
	for (size_t i = 0; i < N_FLOWS; i++)
		inf_flow_init(&w.flows[i], &w.groups[below(N_GROUPS)], 1 + below(4));
	for (size_t i = 0; i < N_STREAMS; i++)
		inf_stream_init(&w.streams[i]);
	for (uint64_t now = 0;; now++) {
		struct inf_item *item;
		for (uint32_t k = 0; k < n_workers; k++) {
			item = w.running[k];
			if (!item || w.ends[index_of(&w, item)] > now)
				continue;
			w.running[k] = NULL;
			w.is_narrowed = w.is_narrowed && !item->is_all_cores;
			inf_sched_leave(&w.sched, item, below(MAX_COST));
			if (below(5) == 0) { /* between two segments */
				inf_sched_submit(&w.sched, item, now);
				continue;
			}
			inf_sched_end_of_stream_item(&w.sched, item, now);
			over(&w, item);
		}
		for (uint32_t n = below(4); n && n_submitted < N_ITEMS; n--)
			submit(&w, n_submitted++, now);
		if (w.sched.is_all_cores_running && below(4) == 0) {
			inf_sched_single_core(&w.sched);
			w.is_narrowed = true;
		}
		if (below(16) == 0)
			inf_group_set_weight(&w.groups[below(N_GROUPS)], 1 + below(4));
		if (n_submitted && below(6) == 0) {
			size_t i = below((uint32_t)n_submitted);
			if (!w.is_over[i] && inf_sched_remove(&w.sched, &w.items[i], now))
				over(&w, &w.items[i]);
		}
		while ((item = inf_sched_take_expired(&w.sched, now))) {
			assert_true(item->deadline_ns && item->deadline_ns <= now);
			over(&w, item);
		}
		for (uint32_t k = 0; k < n_workers; k++) {
			if (w.running[k] || !(item = inf_sched_take(&w.sched, k == 0, now)))
				continue;
			assert_true(!item->deadline_ns || item->deadline_ns > now);
			assert_true(!item->is_all_cores || (k == 0 && !item->prefers_single_core));
			w.running[k] = item;
			w.ends[index_of(&w, item)] = now + 1 + below(MAX_COST);
			check_running(&w);
		}
		/* nothing is left lying while somebody could take it */
		assert_true(w.sched.is_all_cores_running || !is_left_lying(&w.sched));
		if (n_submitted == N_ITEMS && !w.sched.n_waiting && !w.sched.n_running)
			break;
		assert_true(now < 100000);
	}
	assert_int_equal(w.sched.n_blocked, 0);
	assert_true(inf_sched_next_deadline(&w.sched) == UINT64_MAX);
	for (size_t i = 0; i < N_ITEMS; i++)
		assert_true(w.is_over[i]);
	for (size_t c = 0; c < INF_N_CLASSES; c++) {
		assert_true(et_list_is_empty(&w.sched.classes[c]));
		for (size_t i = 0; i < N_GROUPS; i++)
			assert_false(w.groups[i].classes[c].use.n_waiting || w.groups[i].classes[c].use.n_running);
		for (size_t i = 0; i < N_FLOWS; i++)
			assert_false(w.flows[i].classes[c].use.n_waiting || w.flows[i].classes[c].use.n_running);
	}
}

static void test_anything(void **state)
{
	for (uint64_t from = 1; from <= 300; from++)
		play(from, 1 + (uint32_t)from % 5, from % 2, from % 3 == 0);
}

/* The bound of ageing, by counting takes: an item with k waiting before it starts, once it has waited its age, within
 * INF_AGED_TURN * (k + 1) takes, whatever comes after it. */
static void test_bound(void **state)
{
	static struct inf_item items[5000];
	for (uint32_t k = 0; k < 20; k++) {
		struct inf_sched_options options = { 1, false, AGE };
		struct inf_sched sched;
		struct inf_group groups[2];
		struct inf_flow flood, poor;
		size_t n = 0;
		inf_sched_init(&sched, &options);
		inf_group_init(&groups[0], 1000);
		inf_group_init(&groups[1], 1);
		inf_flow_init(&flood, &groups[k % 2], 1000); /* the same user's, or another's */
		inf_flow_init(&poor, &groups[1], 1);
		memset(items, 0, sizeof(items));
		for (uint32_t i = 0; i <= k; i++, n++) {
			items[n].flow = &poor;
			items[n].priority_class = INF_CLASS_IDLE;
			inf_sched_submit(&sched, &items[n], 0);
		}
		struct inf_item *last = &items[k], *item = NULL;
		uint64_t now = 0;
		for (uint32_t takes_since = 0; item != last; now++) {
			for (int i = 0; i < 3; i++, n++) { /* more than can ever be run */
				assert_true(n < ET_ARRAY_LEN(items));
				items[n].flow = &flood;
				items[n].priority_class = INF_CLASS_REALTIME;
				inf_sched_submit(&sched, &items[n], now);
			}
			item = inf_sched_take(&sched, true, now);
			assert_non_null(item);
			inf_sched_leave(&sched, item, 1);
			takes_since += now >= AGE;
			assert_true(takes_since <= INF_AGED_TURN * (k + 1));
		}
	}
}

/* --- shares --------------------------------------------------------------------------------------- */

/* A client that always has a request waiting. */
struct backlog {
	struct inf_flow flow;
	uint32_t group, max_cost;
	struct inf_item items[5]; /* more than there are workers, so that one waits */
	uint64_t used;
};

/* Check how far a client that used @a with weight @weight_a is ahead of one that used @b, in time divided by
 * weight: allowed are the wrongly guessed requests on the cores, half a request that counts as level, and one more.
 * Times are far too small for the product to overflow. */
static void check_ahead(uint64_t a, uint64_t weight_a, uint64_t b, uint64_t weight_b, uint64_t slack)
{
	if (a * weight_b > b * weight_a + slack * (weight_a + weight_b))
		fail_msg("%llu with weight %llu beside %llu with weight %llu", (unsigned long long)a,
			(unsigned long long)weight_a, (unsigned long long)b, (unsigned long long)weight_b);
}

/* Users of any weight, each with any number of connections of any weight, with right and wrong guesses: at no
 * moment is a user ahead of its share, nor a connection ahead of its share of its user's. */
static void play_shares(uint64_t from, uint32_t n_workers)
{
	enum { MAX_GROUPS = 5, MAX_FLOWS = 12, MAX = 20, UNTIL = 3000, UNIT = 1000 };
	static struct backlog flows[MAX_FLOWS];
	struct inf_sched_options options = { n_workers, from % 2, UINT64_MAX };
	struct inf_group groups[MAX_GROUPS];
	struct inf_item *running[8] = { NULL };
	uint64_t ends[8] = { 0 }, used[MAX_GROUPS] = { 0 };
	struct inf_sched sched;
	seed = from;
	uint32_t n_groups = 1 + below(MAX_GROUPS), n_flows = n_groups + below(MAX_FLOWS - n_groups + 1);
	inf_sched_init(&sched, &options);
	for (uint32_t i = 0; i < n_groups; i++)
		inf_group_init(&groups[i], 1 + below(9));
	memset(flows, 0, sizeof(flows));
	for (uint32_t i = 0; i < n_flows; i++) {
		struct backlog *f = &flows[i];
		f->group = i < n_groups ? i : below(n_groups);
		f->max_cost = 1 + below(MAX);
		inf_flow_init(&f->flow, &groups[f->group], 1 + below(9));
	}
	for (uint64_t now = 0; now < UNTIL; now++) {
		for (uint32_t k = 0; k < n_workers; k++) {
			if (!running[k] || ends[k] > now)
				continue;
			inf_sched_leave(&sched, running[k], running[k]->deadline_ns * UNIT); /* see below */
			running[k] = NULL;
		}
		for (uint32_t i = 0; i < n_flows; i++)
			for (uint32_t k = 0; k < ET_ARRAY_LEN(flows[i].items); k++) {
				struct inf_item *item = &flows[i].items[k];
				if (item->state != INF_ITEM_OUT)
					continue;
				item->flow = &flows[i].flow;
				item->priority_class = INF_CLASS_BATCH;
				item->deadline_ns = 0;
				item->cost_ns = (from % 3 ? 1 + below(MAX) : flows[i].max_cost) * UNIT;
				inf_sched_submit(&sched, item, now);
			}
		for (uint32_t k = 0; k < n_workers; k++) {
			struct inf_item *item = running[k] ? NULL : inf_sched_take(&sched, k == 0, now);
			if (!item)
				continue;
			struct backlog *f = ET_CONTAINER_OF(item->flow, struct backlog, flow);
			uint64_t cost = 1 + below(f->max_cost);
			running[k] = item;
			ends[k] = now + cost;
			item->deadline_ns = cost; /* remembered here: the scheduler looks at it no more */
			f->used += cost * UNIT;
			used[f->group] += cost * UNIT;
		}
		uint64_t slack = (uint64_t)MAX * UNIT * n_workers + MAX * UNIT / 2 + UNIT;
		for (uint32_t a = 0; a < n_groups; a++)
			for (uint32_t b = 0; b < n_groups; b++)
				check_ahead(used[a], groups[a].weight, used[b], groups[b].weight, slack);
		for (uint32_t a = 0; a < n_flows; a++)
			for (uint32_t b = 0; b < n_flows; b++)
				if (flows[a].group == flows[b].group)
					check_ahead(flows[a].used, flows[a].flow.weight, flows[b].used,
						flows[b].flow.weight, slack);
	}
}

static void test_shares(void **state)
{
	for (uint64_t from = 1; from <= 200; from++)
		play_shares(from, 1 + (uint32_t)from % 4);
}

/* --- long runs ------------------------------------------------------------------------------------ */

static void submit_new(struct inf_sched *sched, struct inf_item *item, struct inf_flow *flow, enum inf_class class)
{
	*item = (struct inf_item){ .flow = flow, .priority_class = class };
	inf_sched_submit(sched, item, 0);
}

/* One user's long runs have both workers. Where the caller makes room, users who have nothing running get it, each once
 * for a class. A user who waits behind its own runs, or in a class lower than all that runs, gets nothing. */
static void test_starved(void **state)
{
	const struct inf_sched_options options = { 2, true, AGE };
	struct inf_group groups[3];
	struct inf_flow flows[3];
	struct inf_item items[10];
	struct inf_sched sched;
	inf_sched_init(&sched, &options);
	for (uint32_t i = 0; i < 3; i++) {
		inf_group_init(&groups[i], 1);
		inf_flow_init(&flows[i], &groups[i], 1);
	}
	for (uint32_t i = 0; i < 4; i++)
		submit_new(&sched, &items[i], &flows[0], INF_CLASS_INTERACTIVE);
	assert_ptr_equal(inf_sched_take(&sched, true, 0), &items[0]);
	assert_ptr_equal(inf_sched_take(&sched, false, 0), &items[1]);
	inf_sched_set_relieved(&sched, 2);
	assert_false(inf_sched_has_starved(&sched));
	assert_null(inf_sched_take(&sched, true, 2 * AGE));

	submit_new(&sched, &items[4], &flows[2], INF_CLASS_BATCH);
	assert_false(inf_sched_has_starved(&sched));
	submit_new(&sched, &items[5], &flows[1], INF_CLASS_INTERACTIVE);
	submit_new(&sched, &items[6], &flows[1], INF_CLASS_INTERACTIVE);
	inf_sched_set_relieved(&sched, 0);
	assert_true(inf_sched_has_starved(&sched) && !inf_sched_has_work(&sched, true));
	inf_sched_set_relieved(&sched, 2);
	assert_true(inf_sched_has_work(&sched, true));
	assert_ptr_equal(inf_sched_take(&sched, true, 0), &items[5]);
	assert_false(inf_sched_has_starved(&sched));
	assert_null(inf_sched_take(&sched, true, 2 * AGE));
	submit_new(&sched, &items[7], &flows[1], INF_CLASS_REALTIME);
	assert_ptr_equal(inf_sched_take(&sched, true, 0), &items[7]);
	submit_new(&sched, &items[8], &flows[2], INF_CLASS_INTERACTIVE);
	assert_true(inf_sched_has_starved(&sched));
	assert_null(inf_sched_take(&sched, true, 0)); /* as many run as may */

	inf_sched_leave(&sched, &items[0], 1);
	inf_sched_set_relieved(&sched, 1);
	assert_null(inf_sched_take(&sched, true, 0)); /* the worker that came back waits for a spare one to end */
	inf_sched_leave(&sched, &items[5], 1);
	inf_sched_leave(&sched, &items[7], 1);
	assert_ptr_equal(inf_sched_take(&sched, true, 0), &items[8]);
	inf_sched_leave(&sched, &items[8], 1);
	inf_sched_set_relieved(&sched, 0);
	assert_non_null(inf_sched_take(&sched, true, 0));
	assert_null(inf_sched_take(&sched, true, 0));
}

/* A running item is charged for what it has used, more than was guessed, and at its end for no more than that. */
static void test_charge_of_what_runs(void **state)
{
	const struct inf_sched_options options = { 1, false, AGE };
	struct inf_group group;
	struct inf_flow flow;
	struct inf_item item;
	struct inf_sched sched;
	const struct inf_use *of_flow = &flow.classes[INF_CLASS_BATCH].use,
			     *of_user = &group.classes[INF_CLASS_BATCH].use;
	inf_sched_init(&sched, &options);
	inf_group_init(&group, 2);
	inf_flow_init(&flow, &group, 1);
	submit_new(&sched, &item, &flow, INF_CLASS_BATCH);
	item.cost_ns = 10;
	assert_ptr_equal(inf_sched_take(&sched, true, 0), &item);
	uint64_t guessed = of_flow->virtual_ns, n = guessed / 10;
	inf_sched_charge_running(&item, 5);
	assert_true(n && of_flow->virtual_ns == guessed && of_user->virtual_ns == guessed / 2);
	inf_sched_charge_running(&item, 100);
	inf_sched_charge_running(&item, 200);
	assert_true(of_flow->virtual_ns == 200 * n && of_user->virtual_ns == 100 * n);
	inf_sched_leave(&sched, &item, 150);
	assert_true(of_flow->virtual_ns == 150 * n && of_user->virtual_ns == 75 * n);
}

struct number {
	struct inf_heap_node node;
	uint32_t value;
};

static bool is_smaller(const struct inf_heap_node *a, const struct inf_heap_node *b)
{
	return ET_CONTAINER_OF(a, struct number, node)->value < ET_CONTAINER_OF(b, struct number, node)->value;
}

/* One of four takes is the oldest item's, whatever its class, where a worker is kept for higher classes, too. */
static void test_kept_and_age(void **state)
{
	const struct inf_sched_options options = { 3, false, AGE, true };
	struct inf_sched sched;
	struct inf_group group;
	struct inf_flow flow;
	struct inf_item batch = { .flow = &flow, .priority_class = INF_CLASS_BATCH }, items[3 + 2 * INF_AGED_TURN];
	inf_sched_init(&sched, &options);
	inf_group_init(&group, 1);
	inf_flow_init(&flow, &group, 1);
	inf_sched_submit(&sched, &batch, 0);
	size_t n_ended = 0;
	for (size_t i = 0; i < ET_ARRAY_LEN(items); i++) {
		items[i] = (struct inf_item){ .flow = &flow, .priority_class = INF_CLASS_REALTIME };
		inf_sched_submit(&sched, &items[i], 10 * AGE);
	}
	for (size_t i = 0; i < 3; i++) /* nothing is above the highest class, so it has all three */
		assert_non_null(inf_sched_take(&sched, false, 0));
	for (; n_ended < 2 * INF_AGED_TURN && batch.state != INF_ITEM_RUNNING; n_ended++) {
		inf_sched_leave(&sched, &items[n_ended], 1);
		assert_non_null(inf_sched_take(&sched, false, 10 * AGE));
	}
	assert_true(batch.state == INF_ITEM_RUNNING && n_ended <= INF_AGED_TURN);
}

/* Three workers, the last one kept for what is more urgent than what runs. */
static void test_kept(void **state)
{
	static const enum inf_class classes[] = { INF_CLASS_BATCH, INF_CLASS_BATCH, INF_CLASS_BATCH,
		INF_CLASS_INTERACTIVE, INF_CLASS_INTERACTIVE, INF_CLASS_REALTIME };
	const struct inf_sched_options options = { 3, false, AGE, true };
	struct inf_sched sched;
	struct inf_group group;
	struct inf_flow flow;
	struct inf_item items[ET_ARRAY_LEN(classes)];
	inf_sched_init(&sched, &options);
	inf_group_init(&group, 1);
	inf_flow_init(&flow, &group, 1);
	for (size_t i = 0; i < ET_ARRAY_LEN(classes); i++)
		items[i] = (struct inf_item){ .flow = &flow, .priority_class = classes[i] };
	for (size_t i = 0; i < 3; i++)
		inf_sched_submit(&sched, &items[i], 0);
	assert_ptr_equal(inf_sched_take(&sched, false, 0), &items[0]);
	assert_ptr_equal(inf_sched_take(&sched, false, 0), &items[1]);
	assert_false(inf_sched_has_work(&sched, true));
	assert_null(inf_sched_take(&sched, false, 10 * AGE)); /* not for its age alone: nothing else may be taken */
	inf_sched_submit(&sched, &items[3], 0);
	inf_sched_submit(&sched, &items[4], 0);
	assert_true(inf_sched_has_work(&sched, false));
	assert_ptr_equal(inf_sched_take(&sched, false, 0), &items[3]);
	inf_sched_submit(&sched, &items[5], 0);
	assert_null(inf_sched_take(&sched, false, 0)); /* no worker is left */
	inf_sched_leave(&sched, &items[0], 1);
	assert_ptr_equal(inf_sched_take(&sched, false, 0), &items[5]);
	inf_sched_leave(&sched, &items[1], 1);
	assert_null(inf_sched_take(&sched, false, 0)); /* the last one is kept again */
	inf_sched_leave(&sched, &items[5], 1);
	assert_ptr_equal(inf_sched_take(&sched, false, 0), &items[4]);
	assert_null(inf_sched_take(&sched, false, 0));
	inf_sched_leave(&sched, &items[3], 1);
	assert_ptr_equal(inf_sched_take(&sched, false, 0), &items[2]);
	assert_false(inf_sched_has_work(&sched, true));
}

static void test_heap(void **state)
{
	static struct number numbers[500];
	for (uint64_t from = 1; from < 50; from++) {
		struct inf_heap heap = { NULL, is_smaller };
		size_t n_in = 0;
		uint32_t last = 0;
		seed = from;
		memset(numbers, 0, sizeof(numbers));
		for (size_t i = 0; i < ET_ARRAY_LEN(numbers); i++, n_in++) {
			numbers[i].value = below(100);
			inf_heap_push(&heap, &numbers[i].node);
		}
		for (int i = 0; i < 200; i++) {
			struct number *any = &numbers[below(ET_ARRAY_LEN(numbers))];
			n_in -= any->node.is_in;
			inf_heap_remove(&heap, &any->node);
			assert_false(any->node.is_in);
		}
		for (; heap.root; n_in--) {
			struct number *first = ET_CONTAINER_OF(heap.root, struct number, node);
			assert_true(first->value >= last);
			last = first->value;
			inf_heap_remove(&heap, &first->node);
		}
		assert_int_equal(n_in, 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_starved),
		cmocka_unit_test(test_charge_of_what_runs),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_kept_and_age),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
