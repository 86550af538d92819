/* SPDX-License-Identifier: BSD-3-Clause */
/* Scheduler: which waiting request runs next on one queue.
 *
 * Pure: no clock, thread, lock or allocation. The caller passes the time to every call, and holds the lock of the
 * queue. The caller's objects embed what the scheduler orders:
 *     item     one request (a job)
 *     flow     one connection's share of its user's share
 *     group    one user's share of this queue
 *     stream   one stateful Method, whose requests run one at a time in the order in which they came */
#ifndef DAEMON_QUEUE_SCHEDULER_H
#define DAEMON_QUEUE_SCHEDULER_H

#include "daemon/base/heap.h"
#include "runtime/base/list.h"

#include <stdatomic.h>
#include <stdint.h>

enum { INF_QUEUES_MAX = 16 }; /* of a daemon; each has a scheduler of its own */

enum inf_class {
	INF_CLASS_REALTIME,
	INF_CLASS_INTERACTIVE,
	INF_CLASS_BATCH,
	INF_CLASS_IDLE,
	INF_N_CLASSES,
};
const char *inf_class_name(enum inf_class priority_class);

enum inf_item_state {
	INF_ITEM_OUT,     /* not in a queue */
	INF_ITEM_BLOCKED, /* behind another item of its stream */
	INF_ITEM_WAITING,
	INF_ITEM_RUNNING,
};

/* What a group or a flow has used of a queue, in one class. */
struct inf_use {
	uint64_t virtual_ns; /* time divided by weight; scaled, so values can only be compared */
	uint32_t n_waiting, n_running;
};

struct inf_group {
	_Atomic(uint32_t) weight; /* may change at any time */
	struct inf_group_class {
		struct et_list_node node;  /* in the scheduler's list, while an item waits */
		struct et_list_node flows; /* that have an item waiting */
		struct inf_use use;
		uint64_t flows_virtual_ns; /* the virtual time at which a new flow begins */
	} classes[INF_N_CLASSES];
};

struct inf_flow {
	struct inf_group *group;
	uint32_t weight;
	struct inf_flow_class {
		struct et_list_node node; /* in the group's list, while an item waits */
		struct inf_heap waiting;  /* by deadline, then order of arrival */
		struct inf_use use;
	} classes[INF_N_CLASSES];
};

struct inf_stream {
	struct inf_item *current; /* the item that waits or runs, here or on another queue; NULL: none */
	struct et_list_node blocked;
};

struct inf_item {
	/* The caller's, set before submit. */
	struct inf_flow *flow;
	struct inf_stream *stream; /* NULL for a stateless Method */
	enum inf_class priority_class;
	uint64_t deadline_ns;     /* 0: none */
	uint64_t cost_ns;         /* a guess at its run time, corrected when it is known */
	uint64_t device_ns;       /* that the queue's device worked on its last segment; 0: not known */
	bool prefers_single_core; /* it gains nothing from more cores */
	/* A run that is not done after this time on all cores, in one segment, is interrupted between two instructions
	 * and gets prefers_single_core; 0: never. */
	uint64_t all_cores_max_ns;

	/* When its worker is to be replaced if it is still in it, see inf_pool_check_overdue; 0: never. The loop
	 * thread's. */
	uint64_t overdue_ns;
	/* A run that has been in one instruction for this long is long, see inf_pool_relieve. */
	uint64_t long_ns;
	/* The pool notes when each of its instructions begins, which costs a look at the clock. Of other items it only
	 * sees that an instruction has ended since it looked last. */
	bool notes_steps;

	/* The pool whose queue it is in; NULL: none. Changed under that pool's lock. */
	_Atomic(void *) owner;

	/* The scheduler's. */
	enum inf_item_state state;
	bool is_all_cores; /* it runs on all cores */
	uint64_t arrival;  /* sequence number */
	uint64_t waiting_since_ns;
	uint64_t charged_to_flow, charged_to_group; /* virtual time, while running */
	struct inf_heap_node in_flow, in_deadlines;
	struct et_list_node in_ages; /* the scheduler's `ages`, or the stream's `blocked` */
};

struct inf_sched_options {
	uint32_t n_workers;
	bool has_all_cores; /* one worker can also run a request on all cores */
	uint64_t age_ns;    /* see inf_sched_take */
	/* The last worker, of two or more, is kept for an item of a higher class than those that run: the items of a
	 * class and of those above it have all workers but one at most. Nothing is above the highest class, so that has
	 * all workers; and an item takes any free worker in the turn that its age gives it. For a device that lets a
	 * run of a higher class go first. */
	bool keeps_one;
};

struct inf_sched {
	struct inf_sched_options options;
	struct et_list_node classes[INF_N_CLASSES]; /* groups that have an item waiting */
	struct et_list_node ages;                   /* every waiting item, in the order in which they began to wait */
	struct inf_heap deadlines;                  /* waiting and blocked items that have a deadline */
	uint64_t virtual_ns[INF_N_CLASSES];         /* the virtual time at which a new group begins */
	uint64_t arrivals;
	uint32_t n_waiting, n_blocked, n_running;
	uint32_t n_running_of[INF_N_CLASSES];
	uint32_t n_replaced;   /* see inf_sched_set_replaced */
	uint32_t n_relieved;   /* see inf_sched_set_relieved */
	uint32_t n_since_aged; /* items taken since the last one that was taken for its age */
	bool is_all_cores_running;
};

void inf_sched_init(struct inf_sched *sched, const struct inf_sched_options *options);
/* A weight of 0 counts as 1. */
void inf_group_init(struct inf_group *group, uint32_t weight);
/* Applies to items taken from now on. Any thread, without the lock. */
void inf_group_set_weight(struct inf_group *group, uint32_t weight);
/* @group must outlive it, on the same queue. */
void inf_flow_init(struct inf_flow *flow, struct inf_group *group, uint32_t weight);
void inf_stream_init(struct inf_stream *stream);

/* @item is OUT; it becomes WAITING, or BLOCKED behind its stream. */
void inf_sched_submit(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

/* The same for an item that was interrupted: it keeps its arrival, and so its place among the requests of its client.
 * So a client never has more interrupted requests than there are workers. */
void inf_sched_resubmit(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

/* Take the item that a worker is to run now; NULL: none for this worker. @is_all_cores_owner: it is the worker that has
 * the thread set over all cores. The item becomes RUNNING; item->is_all_cores says on how many cores. First take the
 * items whose deadline has passed with inf_sched_take_expired; this call does not look at deadlines.
 *
 * No item starves: of INF_AGED_TURN items taken, one is the oldest of those that waited for age_ns or longer. So an
 * item that has k others waiting before it starts after age_ns plus at most INF_AGED_TURN × (k + 1) takes. */
enum { INF_AGED_TURN = 4 };
struct inf_item *inf_sched_take(struct inf_sched *sched, bool is_all_cores_owner, uint64_t now_ns);
/* Whether inf_sched_take would return an item to that worker. */
bool inf_sched_has_work(const struct inf_sched *sched, bool is_all_cores_owner);

/* Take a waiting or blocked item whose deadline has passed; it becomes OUT. NULL: there is none. */
struct inf_item *inf_sched_take_expired(struct inf_sched *sched, uint64_t now_ns);
/* When inf_sched_take_expired will return an item; UINT64_MAX: not before another submit. */
uint64_t inf_sched_next_deadline(const struct inf_sched *sched);

/* Take a waiting or blocked item out: it becomes OUT. False, and nothing happens, if it is running or OUT. */
bool inf_sched_remove(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

/* The item that has all cores keeps them, but counts as one core's from now on, so that others may start beside it: for
 * an item that does not end. Nothing happens if there is none. */
void inf_sched_single_core(struct inf_sched *sched);

/* So many items more may run, because as many of the running ones may not end for long. */
void inf_sched_set_replaced(struct inf_sched *sched, uint32_t n_replaced);

/* So many starved items more may run. An item starves if the items that run keep it out: none of them is its user's,
 * of the same class or a higher one, and not all of them are of a higher class. So a user gets one item more for each
 * class, and none while its long runs already have the workers. */
void inf_sched_set_relieved(struct inf_sched *sched, uint32_t n_relieved);
/* Whether an item starves, unless a worker is free for it. */
bool inf_sched_has_starved(const struct inf_sched *sched);
/* Charge the user of the running @item for @used_ns so far, where that is more than was guessed, and not only when it
 * leaves: a user whose long runs have the workers must not come first until they end. */
void inf_sched_charge_running(struct inf_item *item, uint64_t used_ns);

/* A running item leaves its worker after @used_ns (wall time times cores) and becomes OUT. An item that had all
 * cores is charged for at most its cost_ns, if that is not 0. */
void inf_sched_leave(struct inf_sched *sched, struct inf_item *item, uint64_t used_ns);
/* The request @item of a stream has ended (it left, expired or was removed from the queue where it was last): the
 * stream's next one becomes WAITING. @sched is the queue where the stream's requests begin. Nothing happens if
 * @item has no stream. */
void inf_sched_end_of_stream_item(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

#endif
