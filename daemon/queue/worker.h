/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: the threads of one queue.
 *
 * A pool is a queue (`cpu`) with its scheduler, its one lock, and its worker threads. Each worker owns lanes, one a
 * backend and one core wide; the first worker also owns lanes over all cores, for a request that is alone. A lane's
 * place among all lanes of the pool is its slot (see et_plan_prepare).
 *
 * The worker that finishes a request hands its result over itself and takes the next one, under one holding of the
 * lock for both; the lock is never held while something runs, and a worker holds no other lock of the daemon. */
#ifndef DAEMON_QUEUE_WORKER_H
#define DAEMON_QUEUE_WORKER_H

#include "daemon/base/reply.h"
#include "daemon/queue/scheduler.h"
#include "runtime/base/log.h"
#include "runtime/method.h"

#include <pthread.h>

struct inf_pool;

struct inf_worker {
	struct inf_pool *pool;
	uint32_t index;
	struct et_worker_env single_core, all_cores; /* wide: the first worker's only */
	struct et_worker_threads **single_core_thread_sets,
		**all_cores_thread_sets; /* as et_plan_prepare wants them; all_cores_thread_sets NULL: none */
	struct inf_reply_buffer reply;
	/* Waiting for a delegate that works elsewhere. */
	pthread_mutex_t lock; /* guards what follows; the last one taken */
	pthread_cond_t changed;
	bool is_pending; /* the run below waits for its completion, and may be cancelled */
	bool has_ended;  /* the completion came */
	struct et_run *pending;
};

enum inf_segment_end {
	INF_SEGMENT_ENDED, /* the request is over: finished follows */
	INF_SEGMENT_AGAIN, /* it waits for its turn on this queue again */
	INF_SEGMENT_LEFT,  /* it goes elsewhere: left follows */
};

/* What the pool calls, on a worker's thread, without its lock. */
struct inf_pool_events {
	void *self;
	/* One segment of @item; item->is_wide says which env. */
	enum inf_segment_end (*run)(void *self, struct inf_item *item, struct inf_worker *worker);
	/* It is out of the queue, the pool does not touch it any more. */
	void (*finished)(void *self, struct inf_item *item, struct inf_worker *worker);
	void (*left)(void *self, struct inf_item *item, struct inf_worker *worker);
	/* Its deadline passed while it waited; it is out of the queue. */
	void (*expired)(void *self, struct inf_item *item, struct inf_worker *worker);
};

struct inf_pool_options {
	struct et_queue_id queue;
	uint32_t first_worker; /* of those of a Plan */
	uint32_t n_workers;
	bool has_all_cores;
	uint64_t age_ns, spin_ns;
	const struct et_registry *registry;
	const struct et_log *log;
	const struct et_allocator *allocator;
};

/* Start the threads and make their lanes. The registry, log and events must outlive the pool.
 * 0, or negative errno with a sentence in @diag. */
int inf_pool_new(struct inf_pool **ret_pool, const struct inf_pool_options *options,
	const struct inf_pool_events *events, struct et_diag *diag);
/* Ends the threads; nothing may wait or run any more. NULL is fine; returns NULL. */
struct inf_pool *inf_pool_free(struct inf_pool *pool);

uint32_t inf_pool_n_workers(const struct inf_pool *pool);
/* Lanes, and so slots of a Plan: one a worker and perhaps the wide one. */
uint32_t inf_pool_n_plan_workers(const struct inf_pool *pool);

/* If one of its workers waits for a delegate's part of @run, ask the delegate to end it early. Any thread. */
void inf_pool_cancel(struct inf_pool *pool, struct et_run *run);
struct et_queue_id inf_pool_queue(const struct inf_pool *pool);

/* Any thread. */
void inf_pool_submit(struct inf_pool *pool, struct inf_item *item);
/* The same, but where nothing else waits and a worker idles, run @item here and now in that worker's place, which
 * spares waking it: for requests that take less time than that. It is cut short after a moment and goes on in the
 * queue, as ever. The caller's thread is then a worker's: events are called on it. Whether it ran here. Loop thread
 * only. */
bool inf_pool_submit_quick(struct inf_pool *pool, struct inf_item *item);
/* Take a request out that has not begun (or waits between segments). False: it runs, or is not in this queue. Any
 * thread. */
bool inf_pool_remove(struct inf_pool *pool, struct inf_item *item);
/* A request whose deadline passed while it waited; NULL: none now, and *ret_next_ns says when to ask again, all queues:
 * what runs here may wait elsewhere by then (UINT64_MAX: never as things are). Any thread. */
struct inf_item *inf_pool_take_expired(struct inf_pool *pool, uint64_t *ret_next_ns);
/* A stateful Method's request that began on this queue ended elsewhere. Any thread. */
void inf_pool_end_of_stream_item(struct inf_pool *pool, struct inf_item *item);

/* Something to do on one worker's thread, between requests: preparing and releasing contexts. */
struct inf_task {
	struct et_list_node node;
	void (*run)(struct inf_task *task, struct inf_worker *worker);
};
/* For work of which the lanes need not know; its threads are the pool's. */
struct inf_worker *inf_pool_worker(struct inf_pool *pool, uint32_t worker);
/* Memory that the contexts on its lanes take now, with what they share. Any thread. */
uint64_t inf_worker_threads_bytes(const struct inf_worker *worker);
/* @task is the worker's until its run is called, which is before the worker takes another request. Loop thread only. */
void inf_pool_post(struct inf_pool *pool, uint32_t worker, struct inf_task *task);
/* Take it back if the worker has not begun it. Whether it was there. Loop thread only. */
bool inf_pool_take_back(struct inf_pool *pool, uint32_t worker, struct inf_task *task);

struct inf_pool_stats {
	uint32_t n_running, n_waiting;
	uint64_t busy_ns, n_completed;
};
void inf_pool_stats(struct inf_pool *pool, struct inf_pool_stats *ret_stats);
/* Call @look, with the pool's lock held, for each worker that runs something: @item (NULL: it prepares or releases a
 * model), and since when it has been in the same instruction, as far as is known from looking before. @look must do no
 * more than look and take references. Loop thread only. */
void inf_pool_check(struct inf_pool *pool,
	void (*scan)(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns), void *self);
/* Let others begin beside a run that has all cores and has been in one instruction for @after_ns while they wait. Loop
 * thread only, after inf_pool_check. */
void inf_pool_loosen(struct inf_pool *pool, uint64_t after_ns);

#endif
