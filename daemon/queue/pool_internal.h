/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside a pool: what pool.c (the calls) and worker.c (the threads) share. */
#ifndef DAEMON_QUEUE_POOL_INTERNAL_H
#define DAEMON_QUEUE_POOL_INTERNAL_H

#include "daemon/queue/pool.h"
#include "runtime/base/alloc.h"

#include <stdatomic.h>

struct inf_pool_thread {
	struct inf_worker worker;
	struct et_list_node idle;        /* in the pool's idle list; under the lock */
	struct et_list_node tasks;       /* under the lock */
	_Atomic(uint32_t) wake;          /* see worker.c */
	_Atomic(uint64_t) busy_since_ns; /* 0: idle */
	_Atomic(uint8_t) priority_class; /* of what it runs */
	_Atomic(bool) has_tasks;         /* a copy, so that the current run yields */
	_Atomic(uint32_t) n_steps;       /* instructions and runs begun: they show that the worker is not stuck */
	_Atomic(uint64_t) step_ns;       /* when the present instruction began, of an item with notes_steps */
	uint32_t seen_steps;             /* this and the next one are inf_pool_check's */
	uint64_t seen_ns;
	struct inf_item *item; /* the request that it runs; this and the next two under the lock */
	bool is_in_task;
	bool has_failed; /* it could not make its thread sets, and has ended; under the lock */
	/* A spare worker serves in its place: for any request, or for starved ones only. At most one of them is set;
	 * both under the lock. */
	bool is_replaced, is_relieved;
	bool must_give_way; /* the loop thread's, within inf_pool_relieve */
	bool is_lent;       /* the loop thread runs a request on its thread sets */
	struct et_pool scratch;
	pthread_t id;
	bool has_thread;
	_Atomic(bool) has_thread_sets;
	struct et_diag diag;
};

struct inf_pool {
	struct inf_pool_options options;
	struct inf_pool_events events;
	bool has_all_cores;

	pthread_mutex_t lock;   /* guards what follows */
	pthread_cond_t changed; /* a thread has started, or has its thread sets back */
	struct inf_sched sched;
	struct et_list_node idle; /* the thread that became idle last is first */
	struct et_list_node idle_spares;
	uint32_t n_started, n_failed;
	bool is_stopping;
	uint64_t busy_ns, n_completed;

	_Atomic(uint32_t) n_waiting;  /* a copy of the scheduler's, for readers without the lock */
	_Atomic(uint32_t) best_class; /* of the waiting requests; INF_N_CLASSES: none waits */
	_Atomic(uint32_t) n_tasks;    /* posted, and not begun */
	_Atomic(uint32_t) n_spinning;
	uint32_t n_threads, n_spares;
	uint32_t n_spare_threads;        /* started so far; this and the next one are the loop thread's */
	uint64_t looked_ns;              /* when inf_pool_relieve looked; the loop thread's */
	uint64_t relief_ns;              /* when inf_pool_relieve looks again; 0: at its next call */
	struct inf_pool_thread *threads; /* the spare ones last */

	/* The loop thread's, in inf_pool_submit_quick: it borrows an idle worker's thread sets. */
	struct inf_worker inline_worker;
	uint64_t inline_until_ns;
};

/* --- worker.c --- */

/* Wake the thread if it sleeps, and make sure that it does not fall asleep before it has looked. Without the lock. */
void inf_pool_thread_wake(struct inf_pool_thread *thread);
/* A thread's whole life; @arg is the struct inf_pool_thread. */
void *inf_pool_thread_main(void *arg);

/* --- pool.c --- */

/* Drop the lock after a change of the scheduler's state, and wake an idle worker that can take a request now. */
void inf_pool_unlock(struct inf_pool *pool);
/* Called under the lock: how many spare workers may serve. */
uint32_t inf_pool_n_spares_used(const struct inf_pool *pool);
/* Called under the lock: @thread serves again, so that one spare worker less does. Nothing if none served in its
 * place. */
void inf_pool_come_back(struct inf_pool *pool, struct inf_pool_thread *thread);
/* Called under the lock: @item does not belong to this queue any more. */
void inf_pool_disown(struct inf_item *item);
/* Called under the lock: end a segment of @item, which had its cores for @used_ns and is charged for @charged_ns. */
void inf_pool_settle(struct inf_pool *pool, struct inf_item *item, enum inf_segment_end end, uint64_t used_ns,
	uint64_t charged_ns, uint64_t now_ns);

#endif
