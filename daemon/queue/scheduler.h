/* SPDX-License-Identifier: BSD-3-Clause */
/* Scheduler: which waiting request runs next on one queue.
 *
 * Pure: no clock, thread, lock or allocation; every call is told the time, and whoever owns the queue holds
 * its lock. The things it orders are embedded in the caller's objects:
 *     item     one request (a job)
 *     flow     one connection's share of what its user has of this queue
 *     group    one user's share of this queue
 *     stream   one stateful Method, whose requests run one at a time in the order they came */
#ifndef DAEMON_QUEUE_SCHEDULER_H
#define DAEMON_QUEUE_SCHEDULER_H

#include "daemon/base/heap.h"
#include "runtime/base/list.h"

#include <stdatomic.h>
#include <stdint.h>

enum { INF_QUEUES_MAX = 16 }; /* that a daemon has, each with a scheduler of its own */

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
	INF_ITEM_BLOCKED, /* behind another one of its stream */
	INF_ITEM_WAITING,
	INF_ITEM_RUNNING,
};

/* What somebody has used in a class of a queue. */
struct inf_use {
	uint64_t virtual_ns; /* time, divided by weight; comes in units that only compare */
	uint32_t n_waiting, n_running;
};

struct inf_group {
	_Atomic(uint32_t) weight; /* may change at any time */
	struct inf_group_class {
		struct et_list_node node;  /* in the scheduler's list, while something waits */
		struct et_list_node flows; /* with something waiting */
		struct inf_use use;
		uint64_t flows_virtual_ns; /* where a flow begins that was not there */
	} classes[INF_N_CLASSES];
};

struct inf_flow {
	struct inf_group *group;
	uint32_t weight;
	struct inf_flow_class {
		struct et_list_node node; /* in the group's list, while something waits */
		struct inf_heap waiting;  /* by deadline, then order of arrival */
		struct inf_use use;
	} classes[INF_N_CLASSES];
};

struct inf_stream {
	struct inf_item *current; /* waiting or running, here or on another queue */
	struct et_list_node blocked;
};

struct inf_item {
	/* The caller's, set before submit. */
	struct inf_flow *flow;
	struct inf_stream *stream; /* NULL for a stateless Method */
	enum inf_class priority_class;
	uint64_t deadline_ns;     /* 0: none */
	uint64_t cost_ns;         /* a guess at its run time, corrected when it is known */
	bool prefers_single_core; /* it gains nothing from more cores */

	/* Whose queue it is in, for those who look for it: changed under that queue's lock. */
	_Atomic(void *) owner;

	/* The scheduler's. */
	enum inf_item_state state;
	bool is_all_cores; /* it was given all cores */
	uint64_t arrival;  /* running number */
	uint64_t waiting_since_ns;
	uint64_t charged_to_flow, charged_to_group; /* of virtual time, while running */
	struct inf_heap_node in_flow, in_deadlines;
	struct et_list_node in_ages; /* in the order in which they became able to run; or in the stream's list */
};

struct inf_sched_options {
	uint32_t n_workers;
	bool has_all_cores; /* one worker can also run a request on all cores */
	uint64_t age_ns;    /* see inf_sched_take */
};

struct inf_sched {
	struct inf_sched_options options;
	struct et_list_node classes[INF_N_CLASSES]; /* groups with something waiting */
	struct et_list_node ages;                   /* every waiting item, oldest first */
	struct inf_heap deadlines;                  /* waiting and blocked ones that have one */
	uint64_t virtual_ns[INF_N_CLASSES];         /* where a group begins that was not there */
	uint64_t arrivals;
	uint32_t n_waiting, n_blocked, n_running;
	uint32_t n_since_aged; /* items taken since the last one that went for its age */
	bool is_all_cores_running;
};

void inf_sched_init(struct inf_sched *sched, const struct inf_sched_options *options);
/* A weight of 0 is 1. */
void inf_group_init(struct inf_group *group, uint32_t weight);
/* For what it does from now on. Any thread, without the lock. */
void inf_group_set_weight(struct inf_group *group, uint32_t weight);
/* @group must outlive it, on the same queue. */
void inf_flow_init(struct inf_flow *flow, struct inf_group *group, uint32_t weight);
void inf_stream_init(struct inf_stream *stream);

/* @item is OUT; it becomes WAITING, or BLOCKED behind its stream. */
void inf_sched_submit(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

/* The same for one that left before its end: it keeps its place among the requests of its client, so that a client
 * has not more of them half done than it has workers. */
void inf_sched_resubmit(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

/* The item that @is_all_cores_owner (the worker that has the lane over all cores) or another worker is to run now;
 * NULL: none for this worker. It becomes RUNNING; item->is_all_cores says on how many cores. Items whose deadline
 * has passed are never returned; take them with inf_sched_take_expired first.
 *
 * Nothing starves: of INF_AGED_TURN items taken, one is the oldest of those that waited age_ns or longer. So an
 * item that found k others waiting before it starts after age_ns plus at most INF_AGED_TURN × (k + 1) takes. */
enum { INF_AGED_TURN = 4 };
struct inf_item *inf_sched_take(struct inf_sched *sched, bool is_all_cores_owner, uint64_t now_ns);
/* Whether inf_sched_take would give something to that worker. */
bool inf_sched_has_work(const struct inf_sched *sched, bool is_all_cores_owner);

/* A waiting or blocked item whose deadline has passed; it becomes OUT. NULL: no more. */
struct inf_item *inf_sched_take_expired(struct inf_sched *sched, uint64_t now_ns);
/* When that will next give something; UINT64_MAX: never as things are. */
uint64_t inf_sched_next_deadline(const struct inf_sched *sched);

/* Take a waiting or blocked item out. False, and nothing happens, if it is running or OUT. */
bool inf_sched_remove(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

/* The item that has all cores keeps them, but counts as one core's from now on, so that others may begin beside it: for
 * one that does not come to an end. Nothing if there is none. */
void inf_sched_single_core(struct inf_sched *sched);

/* A running item gives its worker back after using it for @used_ns (times the cores it had). One that had all cores is
 * charged for no more than its cost_ns, if that is known. */
void inf_sched_leave(struct inf_sched *sched, struct inf_item *item, uint64_t used_ns);
/* The request of a stream has ended (it left, expired or was removed from the queue where it was last): let the
 * stream's next one go. @sched is the queue where the stream's requests begin. Nothing if @item has no stream. */
void inf_sched_end_of_stream_item(struct inf_sched *sched, struct inf_item *item, uint64_t now_ns);

#endif
