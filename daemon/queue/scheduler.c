/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which waiting requests run.
 *
 * The priority class comes first. Inside a class, the user comes first who has used the queue least, in time
 * divided by weight; of that user's connections, the one that has used it least: start-time fair queueing (Goyal,
 * Vin, Cheng 1996) on two levels. Inside a connection the earliest deadline comes first, then the earliest arrival.
 * There are two levels because a client decides how many connections it makes, and an administrator decides the
 * share of each user.
 *
 * Virtual time grows by the item's guessed cost when the item is taken, and is corrected when the item leaves.
 * Otherwise a client with many requests in flight would seem to have used nothing. A client that returns after an
 * idle time begins at the virtual time of the others, so that idleness earns no credit. Each class has its own
 * virtual times: time that a user has used in a higher class was not available to lower classes, and must not
 * reduce the user's share there. Virtual times are compared by their difference, so they may wrap.
 *
 * What must always be true: of two users (or two connections of one user) who both have items waiting in a class
 * all the time, neither gets ahead of the other, in time divided by weight, by more than one item of each for each
 * core, and half of one more.
 *
 * Ageing works by turns, not by raised priorities: one take in INF_AGED_TURN goes to the oldest item that waited
 * too long. The bound follows by counting (scheduler.h), the other turns keep the order of priority under any
 * overload, and the time is charged as usual, so that shares do not change.
 *
 * Long runs: an item may stay in one instruction for long, and hold its worker. Where such runs have all workers, so
 * many starved items more may run (inf_sched_set_relieved), and no others, so a user can't fill the room that his own
 * runs take from others. When a run has ended, nothing more starts until as many run as there are workers.
 *
 * All cores: an item that gains from them runs on all cores, but only while it is alone. It is then given to the
 * worker that owns the thread set over all cores, and nothing else starts until it leaves, so a core is never given
 * twice. The exception is an item that does not end its instruction: then (inf_sched_single_core) others start
 * beside it, and the kernel shares the cores. An item on all cores is charged for at most its guess. No other item
 * waited when it got all cores, and where one core is busy with something else, the item's other threads wait for
 * it: half a second of that, times the cores, once kept a client from its share for ten seconds. */
#include "daemon/queue/scheduler.h"

#include "runtime/base/checked.h"

#include <string.h>

enum { VIRTUAL_SCALE = 64 };

const char *inf_class_name(enum inf_class priority_class)
{
	static const char *const names[] = { "realtime", "interactive", "batch", "idle" };
	return priority_class < ET_ARRAY_LEN(names) ? names[priority_class] : "?";
}

static bool is_less(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0;
}

/* An item without a deadline comes after all items with one. */
static bool is_earlier(const struct inf_item *a, const struct inf_item *b)
{
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns - 1 < b->deadline_ns - 1;
	return a->arrival < b->arrival;
}

static bool is_before_in_flow(const struct inf_heap_node *a, const struct inf_heap_node *b)
{
	return is_earlier(ET_CONTAINER_OF(a, struct inf_item, in_flow), ET_CONTAINER_OF(b, struct inf_item, in_flow));
}

static bool is_before_in_deadlines(const struct inf_heap_node *a, const struct inf_heap_node *b)
{
	return is_earlier(ET_CONTAINER_OF(a, struct inf_item, in_deadlines),
		ET_CONTAINER_OF(b, struct inf_item, in_deadlines));
}

void inf_sched_init(struct inf_sched *sched, const struct inf_sched_options *options)
{
	memset(sched, 0, sizeof(*sched));
	sched->options = *options;
	sched->options.keeps_one = options->keeps_one && options->n_workers > 1;
	for (size_t i = 0; i < INF_N_CLASSES; i++)
		et_list_init(&sched->classes[i]);
	et_list_init(&sched->ages);
	sched->deadlines.is_before = is_before_in_deadlines;
}

void inf_group_set_weight(struct inf_group *group, uint32_t weight)
{
	atomic_store_explicit(&group->weight, weight ? weight : 1, memory_order_relaxed);
}

void inf_group_init(struct inf_group *group, uint32_t weight)
{
	memset(group, 0, sizeof(*group));
	inf_group_set_weight(group, weight);
	for (size_t i = 0; i < INF_N_CLASSES; i++) {
		et_list_init(&group->classes[i].node);
		et_list_init(&group->classes[i].flows);
	}
}

void inf_flow_init(struct inf_flow *flow, struct inf_group *group, uint32_t weight)
{
	memset(flow, 0, sizeof(*flow));
	flow->group = group;
	flow->weight = weight ? weight : 1;
	for (size_t i = 0; i < INF_N_CLASSES; i++) {
		et_list_init(&flow->classes[i].node);
		flow->classes[i].waiting.is_before = is_before_in_flow;
	}
}

void inf_stream_init(struct inf_stream *stream)
{
	stream->current = NULL;
	et_list_init(&stream->blocked);
}

/* --- waiting -------------------------------------------------------------------------------------- */

/* One more item waits. A group or flow that had no item begins at @begin_ns. */
static void add_waiting(struct inf_use *use, uint64_t begin_ns)
{
	if (!use->n_waiting && !use->n_running && is_less(use->virtual_ns, begin_ns))
		use->virtual_ns = begin_ns;
	use->n_waiting++;
}

static void start_waiting(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns)
{
	struct inf_flow_class *flow = &item->flow->classes[item->priority_class];
	struct inf_group_class *group = &item->flow->group->classes[item->priority_class];
	add_waiting(&group->use, sched->virtual_ns[item->priority_class]);
	add_waiting(&flow->use, group->flows_virtual_ns);
	item->state = INF_ITEM_WAITING;
	item->waiting_since_ns = now_ns;
	inf_heap_push(&flow->waiting, &item->in_flow);
	if (et_list_is_empty(&flow->node))
		et_list_append(&group->flows, &flow->node);
	if (et_list_is_empty(&group->node))
		et_list_append(&sched->classes[item->priority_class], &group->node);
	et_list_append(&sched->ages, &item->in_ages);
	sched->n_waiting++;
}

static void stop_waiting(struct inf_sched *sched, struct inf_item *item)
{
	struct inf_flow_class *flow = &item->flow->classes[item->priority_class];
	struct inf_group_class *group = &item->flow->group->classes[item->priority_class];
	inf_heap_remove(&flow->waiting, &item->in_flow);
	if (!--flow->use.n_waiting)
		et_list_remove(&flow->node);
	if (!--group->use.n_waiting)
		et_list_remove(&group->node);
	et_list_remove(&item->in_ages);
	inf_heap_remove(&sched->deadlines, &item->in_deadlines);
	sched->n_waiting--;
}

static void submit(struct inf_sched *sched, struct inf_item *item, uint64_t arrival, uint64_t now_ns)
{
	struct inf_stream *stream = item->stream;
	et_list_init(&item->in_ages);
	memset(&item->in_flow, 0, sizeof(item->in_flow));
	memset(&item->in_deadlines, 0, sizeof(item->in_deadlines));
	item->arrival = arrival;
	item->charged_to_flow = item->charged_to_group = 0;
	item->is_all_cores = false;
	if (item->deadline_ns)
		inf_heap_push(&sched->deadlines, &item->in_deadlines);
	if (stream && stream->current && stream->current != item) {
		item->state = INF_ITEM_BLOCKED;
		et_list_append(&stream->blocked, &item->in_ages);
		sched->n_blocked++;
		return;
	}
	if (stream)
		stream->current = item;
	start_waiting(sched, item, now_ns);
}

void inf_sched_submit(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns)
{
	submit(sched, item, sched->arrivals++, now_ns);
}

void inf_sched_resubmit(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns)
{
	submit(sched, item, item->arrival, now_ns);
}

bool inf_sched_remove(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns)
{
	if (item->state == INF_ITEM_BLOCKED) {
		et_list_remove(&item->in_ages);
		inf_heap_remove(&sched->deadlines, &item->in_deadlines);
		sched->n_blocked--;
	} else if (item->state == INF_ITEM_WAITING) {
		stop_waiting(sched, item);
	} else {
		return false;
	}
	item->state = INF_ITEM_OUT;
	inf_sched_end_of_stream_item(sched, item, now_ns);
	return true;
}

void inf_sched_end_of_stream_item(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns)
{
	struct inf_stream *stream = item->stream;
	if (!stream || stream->current != item)
		return;
	stream->current = NULL;
	if (et_list_is_empty(&stream->blocked))
		return;
	struct inf_item *next = ET_CONTAINER_OF(stream->blocked.next, struct inf_item, in_ages);
	et_list_remove(&next->in_ages);
	sched->n_blocked--;
	stream->current = next;
	start_waiting(sched, next, now_ns);
}

/* --- expiry --------------------------------------------------------------------------------------- */

uint64_t inf_sched_next_deadline(const struct inf_sched *sched)
{
	if (!sched->deadlines.root)
		return UINT64_MAX;
	return ET_CONTAINER_OF(sched->deadlines.root, struct inf_item, in_deadlines)->deadline_ns;
}

struct inf_item *inf_sched_take_expired(struct inf_sched *sched, uint64_t now_ns)
{
	if (inf_sched_next_deadline(sched) > now_ns)
		return NULL;
	struct inf_item *item = ET_CONTAINER_OF(sched->deadlines.root, struct inf_item, in_deadlines);
	inf_sched_remove(sched, item, now_ns);
	return item;
}

/* --- running -------------------------------------------------------------------------------------- */

/* The virtual time of @ns on one core. */
static uint64_t for_flow(const struct inf_item *item, uint64_t ns)
{
	return ns * VIRTUAL_SCALE / item->flow->weight;
}

static uint64_t for_group(const struct inf_item *item, uint64_t ns)
{
	return ns * VIRTUAL_SCALE / atomic_load_explicit(&item->flow->group->weight, memory_order_relaxed);
}

/* Whether a flow or group at @virtual_ns counts as equal to the one at @least_ns, the least: it is ahead by at most
 * half of @cost, the cost of its next item. Equal requests never take exactly the same time, and a client whose
 * request took a little longer would be passed over for a whole round. */
static bool is_level(uint64_t virtual_ns, uint64_t least_ns, uint64_t cost)
{
	return !is_less(least_ns + cost / 2, virtual_ns);
}

static struct inf_flow_class *flow_at(const struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct inf_flow_class, node);
}

/* The first item of a group: of the flows that used least, the earliest first item. */
static struct inf_item *first_of_group(const struct inf_group_class *group)
{
	struct inf_item *best = NULL;
	const struct et_list_node *node = group->flows.next;
	uint64_t least_ns = flow_at(node)->use.virtual_ns;
	while ((node = node->next) != &group->flows)
		if (is_less(flow_at(node)->use.virtual_ns, least_ns))
			least_ns = flow_at(node)->use.virtual_ns;
	for (node = group->flows.next; node != &group->flows; node = node->next) {
		const struct inf_flow_class *flow = flow_at(node);
		struct inf_item *item = ET_CONTAINER_OF(flow->waiting.root, struct inf_item, in_flow);
		if (is_level(flow->use.virtual_ns, least_ns, for_flow(item, item->cost_ns)) &&
			(!best || is_earlier(item, best)))
			best = item;
	}
	return best;
}

static struct inf_group_class *group_at(const struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct inf_group_class, node);
}

/* Whether @item's user has an item running of the same class or a higher one. */
static bool runs_beside(const struct inf_item *item)
{
	for (uint32_t c = 0; c <= (uint32_t)item->priority_class; c++)
		if (item->flow->group->classes[c].use.n_running)
			return true;
	return false;
}

/* The same for a class and its groups, with @is_starving for those groups only that have nothing running beside; NULL:
 * no item waits in them. */
static struct inf_item *first_of_class(const struct et_list_node *groups, bool is_starving)
{
	struct inf_item *best = NULL;
	const struct et_list_node *node;
	uint64_t least_ns = 0;
	bool is_any = false;
	for (node = groups->next; node != groups; node = node->next) {
		if ((is_any && !is_less(group_at(node)->use.virtual_ns, least_ns)) ||
			(is_starving && runs_beside(first_of_group(group_at(node)))))
			continue;
		least_ns = group_at(node)->use.virtual_ns;
		is_any = true;
	}
	for (node = groups->next; is_any && node != groups; node = node->next) {
		struct inf_item *item = first_of_group(group_at(node));
		if (!item) /* can't be: the flow that used least is level with itself */
			continue;
		if (is_starving && runs_beside(item))
			continue;
		if (is_level(group_at(node)->use.virtual_ns, least_ns, for_group(item, item->cost_ns)) &&
			(!best || is_earlier(item, best)))
			best = item;
	}
	return best;
}

/* New flows or groups begin at the virtual time of the one that is served now. */
static void advance(uint64_t *begin_ns, const struct inf_use *served)
{
	if (is_less(*begin_ns, served->virtual_ns))
		*begin_ns = served->virtual_ns;
}

static bool is_alone(const struct inf_sched *sched)
{
	return sched->options.has_all_cores && sched->n_waiting == 1 && !sched->n_running &&
	       !ET_CONTAINER_OF(sched->ages.next, struct inf_item, in_ages)->prefers_single_core;
}

/* The starved item that comes first; NULL: none starves. */
static struct inf_item *first_starved(const struct inf_sched *sched)
{
	struct inf_item *item = NULL;
	uint32_t n_above = 0; /* items running of higher classes */
	for (size_t i = 0; i < INF_N_CLASSES && !item && n_above < sched->n_running; i++) {
		item = first_of_class(&sched->classes[i], true);
		n_above += sched->n_running_of[i];
	}
	return item;
}

bool inf_sched_has_starved(const struct inf_sched *sched)
{
	return first_starved(sched) != NULL;
}

/* How many classes, from the highest on, have items that may run beside those that do. 0: no worker is free. */
static uint32_t n_classes_with_room(const struct inf_sched *sched)
{
	const struct inf_sched_options *options = &sched->options;
	uint32_t n_workers = options->n_workers + sched->n_replaced;
	uint32_t n = 1, n_running = sched->n_running_of[0] + sched->n_running_of[1];
	if (sched->n_running >= n_workers)
		return 0;
	if (!options->keeps_one)
		return INF_N_CLASSES;
	while (n < INF_N_CLASSES && n_running < n_workers - 1)
		if (++n < INF_N_CLASSES)
			n_running += sched->n_running_of[n];
	return n;
}

static bool waits_in(const struct inf_sched *sched, uint32_t n_classes)
{
	for (uint32_t i = 0; i < n_classes; i++)
		if (!et_list_is_empty(&sched->classes[i]))
			return true;
	return false;
}

bool inf_sched_has_work(const struct inf_sched *sched, bool is_all_cores_owner)
{
	if (!sched->n_waiting || sched->is_all_cores_running)
		return false;
	uint32_t n_classes = n_classes_with_room(sched);
	if (n_classes)
		return waits_in(sched, n_classes) && (is_all_cores_owner || !is_alone(sched));
	return sched->n_running < sched->options.n_workers + sched->n_replaced + sched->n_relieved &&
	       inf_sched_has_starved(sched);
}

struct inf_item *inf_sched_take(struct inf_sched *sched, bool is_all_cores_owner, uint64_t now_ns)
{
	struct inf_item *item = NULL;
	if (!inf_sched_has_work(sched, is_all_cores_owner))
		return NULL;
	uint32_t n_classes = n_classes_with_room(sched);
	bool is_all_cores = is_alone(sched), is_starving = !n_classes;

	struct inf_item *oldest = ET_CONTAINER_OF(sched->ages.next, struct inf_item, in_ages);
	if (!is_starving && sched->n_since_aged + 1 >= INF_AGED_TURN &&
		now_ns - oldest->waiting_since_ns >= sched->options.age_ns) {
		item = oldest;
		sched->n_since_aged = 0;
	} else if (!is_starving && sched->n_since_aged + 1 < INF_AGED_TURN) {
		sched->n_since_aged++;
	}
	for (size_t i = 0; i < (is_starving ? INF_N_CLASSES : n_classes) && !item; i++) {
		item = first_of_class(&sched->classes[i], is_starving);
		if (item) {
			struct inf_group_class *group = &item->flow->group->classes[i];
			advance(&sched->virtual_ns[i], &group->use);
			advance(&group->flows_virtual_ns, &item->flow->classes[i].use);
		}
	}

	if (!item) /* can't be: an item waits, or starves, so a class has a first item */
		return NULL;
	struct inf_use *flow = &item->flow->classes[item->priority_class].use;
	struct inf_use *group = &item->flow->group->classes[item->priority_class].use;
	stop_waiting(sched, item);
	item->state = INF_ITEM_RUNNING;
	item->is_all_cores = is_all_cores;
	item->charged_to_flow = for_flow(item, item->cost_ns);
	item->charged_to_group = for_group(item, item->cost_ns);
	flow->virtual_ns += item->charged_to_flow;
	group->virtual_ns += item->charged_to_group;
	flow->n_running++;
	group->n_running++;
	sched->n_running++;
	sched->n_running_of[item->priority_class]++;
	sched->is_all_cores_running = is_all_cores;
	return item;
}

void inf_sched_single_core(struct inf_sched *sched)
{
	sched->is_all_cores_running = false;
}

void inf_sched_set_replaced(struct inf_sched *sched, uint32_t n_replaced)
{
	sched->n_replaced = n_replaced;
}

void inf_sched_set_relieved(struct inf_sched *sched, uint32_t n_relieved)
{
	sched->n_relieved = n_relieved;
}

void inf_sched_charge_running(struct inf_item *item, uint64_t used_ns)
{
	struct inf_use *flow = &item->flow->classes[item->priority_class].use;
	struct inf_use *group = &item->flow->group->classes[item->priority_class].use;
	if (item->is_all_cores || for_flow(item, used_ns) <= item->charged_to_flow)
		return;
	flow->virtual_ns += for_flow(item, used_ns) - item->charged_to_flow;
	item->charged_to_flow = for_flow(item, used_ns);
	group->virtual_ns += for_group(item, used_ns) - item->charged_to_group;
	item->charged_to_group = for_group(item, used_ns);
}

void inf_sched_leave(struct inf_sched *sched, struct inf_item *item, uint64_t used_ns)
{
	if (item->is_all_cores && item->cost_ns && item->cost_ns < used_ns)
		used_ns = item->cost_ns;
	struct inf_use *flow = &item->flow->classes[item->priority_class].use;
	struct inf_use *group = &item->flow->group->classes[item->priority_class].use;
	flow->virtual_ns += for_flow(item, used_ns) - item->charged_to_flow;
	group->virtual_ns += for_group(item, used_ns) - item->charged_to_group;
	flow->n_running--;
	group->n_running--;
	sched->n_running--;
	sched->n_running_of[item->priority_class]--;
	if (item->is_all_cores)
		sched->is_all_cores_running = false;
	item->state = INF_ITEM_OUT;
}
