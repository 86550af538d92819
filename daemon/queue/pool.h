/* SPDX-License-Identifier: BSD-3-Clause */
/* Pool: one queue (`cpu`, or a device), with its scheduler, its one lock, and its workers.
 *
 * The worker that finishes a request delivers the result itself and takes the next request. One critical section ends
 * the old request and takes the new one; the lock is never held while a request runs, and a worker holds no other lock
 * of the daemon. */
#ifndef DAEMON_QUEUE_POOL_H
#define DAEMON_QUEUE_POOL_H

#include "daemon/queue/scheduler.h"
#include "daemon/queue/worker.h"
#include "runtime/base/log.h"

enum inf_segment_end {
	INF_SEGMENT_ENDED, /* the request is over: finished follows */
	INF_SEGMENT_AGAIN, /* it waits for its next turn on this queue */
	INF_SEGMENT_LEFT,  /* it continues on another queue: left follows */
};

/* Calls of the pool, on a worker's thread, without its lock. */
struct inf_pool_events {
	void *self;
	/* Run one segment of @item, in worker->all_cores if item->is_all_cores, else in worker->single_core. */
	enum inf_segment_end (*run)(void *self, struct inf_item *item, struct inf_worker *worker);
	/* @item is out of the queue; the pool does not use it any more. */
	void (*finished)(void *self, struct inf_item *item, struct inf_worker *worker);
	void (*left)(void *self, struct inf_item *item, struct inf_worker *worker);
	/* The deadline of @item passed while it waited; it is out of the queue. */
	void (*expired)(void *self, struct inf_item *item, struct inf_worker *worker);
};

struct inf_pool_options {
	struct et_queue_id queue;
	uint32_t first_worker; /* the worker_index of its first thread set in a Plan */
	uint32_t n_workers;
	/* At most so many spare workers serve at a time; at least n_workers, or none. A worker is *replaced* if its
	 * run was answered already: the spare one takes its place. It is *relieved* if its run is long: the spare one
	 * works beside it. */
	uint32_t n_spares;
	bool has_all_cores; /* the first worker has a thread set over all cores */
	bool keeps_one;     /* see struct inf_sched_options */
	uint64_t age_ns;    /* a request that waited this long goes next, whatever its priority: see inf_sched_take */
	uint64_t spin_ns;   /* how long an idle worker polls for more work before it sleeps */
	const struct et_registry *registry;
	const struct et_log *log;
	const struct et_allocator *allocator;
};

/* How many spare workers a queue with so many workers has: n_workers to replace them, and n_workers + 3 to relieve
 * them, so that several users with long runs leave one on a small machine, too. */
static inline uint32_t inf_pool_n_spares_for(uint32_t n_workers)
{
	return 2 * n_workers + 3;
}

/* Start the threads and make their thread sets. The registry, log and allocator must outlive the pool.
 * 0, or negative errno with a sentence in @diag. */
int inf_pool_new(struct inf_pool **ret_pool, const struct inf_pool_options *options,
	const struct inf_pool_events *events, struct et_diag *diag);
/* Ends the threads; no request may wait or run any more. NULL is fine; returns NULL. */
struct inf_pool *inf_pool_free(struct inf_pool *pool);

struct et_queue_id inf_pool_queue(const struct inf_pool *pool);
uint32_t inf_pool_n_workers(const struct inf_pool *pool);
/* Whether a request can run on all cores. */
bool inf_pool_has_all_cores(const struct inf_pool *pool);
/* How many worker_index values of a Plan the pool uses: one for each worker and each spare one, and one for all cores
 * if it has them. */
uint32_t inf_pool_n_plan_workers(const struct inf_pool *pool);
/* For its constant members: the worker's thread uses the others. Spare workers come after the others. */
struct inf_worker *inf_pool_worker(struct inf_pool *pool, uint32_t worker);

/* Put @item into this queue. It must not be in any queue (its owner is NULL). Any thread. */
void inf_pool_submit(struct inf_pool *pool, struct inf_item *item);
/* The same, but if nothing else waits and a worker is idle, run @item on the caller's thread in that worker's place,
 * which spares waking the worker: for requests that take less time than that. A longer request is interrupted after a
 * moment and continues in the queue as usual. The events are called on the caller's thread. Whether it ran here. Loop
 * thread only. */
bool inf_pool_submit_quick(struct inf_pool *pool, struct inf_item *item);
/* Take out a request that has not begun, or waits between two segments. False: it runs, or is not in this queue. Any
 * thread. */
bool inf_pool_remove(struct inf_pool *pool, struct inf_item *item);
/* Take out a request whose deadline passed while it waited. NULL: none now; *ret_next_ns says when to ask again
 * (UINT64_MAX: not before another submit). It covers running requests too, because these may wait again by then, in
 * this queue or in another one. Any thread. */
struct inf_item *inf_pool_take_expired(struct inf_pool *pool, uint64_t *ret_next_ns);
/* Tell the pool that a stateful Method's request has ended on another queue. Its stream begins on this queue, and the
 * next request of the stream waits here for it. Any thread. */
void inf_pool_stream_item_ended(struct inf_pool *pool, struct inf_item *item);
/* If one of its workers waits for a delegate's part of @run, ask the delegate to end it early. Any thread. */
void inf_pool_cancel(struct inf_pool *pool, struct et_run *run);

/* Have @worker run @task before it takes another request. @task is the worker's until its run is called. Loop thread
 * only. */
void inf_pool_post(struct inf_pool *pool, uint32_t worker, struct inf_task *task);
/* Withdraw @task, which was posted to @worker. True: it is the caller's again. False: the worker runs it, or has run
 * it. Loop thread only. */
bool inf_pool_take_back(struct inf_pool *pool, uint32_t worker, struct inf_task *task);

/* Memory, in bytes, that the instances on all its workers, the spare ones too, use now. Any thread. */
uint64_t inf_pool_threads_bytes(const struct inf_pool *pool);

struct inf_pool_stats {
	uint32_t n_running, n_waiting;
	uint32_t n_spares; /* spare workers that serve now */
	uint32_t n_kept;   /* workers that are kept for higher classes than those that run: 0 or 1 */
	uint64_t busy_ns, n_completed;
};
void inf_pool_stats(struct inf_pool *pool, struct inf_pool_stats *ret_stats);
/* Call @look, with the pool's lock held, for each worker that is busy: with @item (NULL: it prepares or releases a
 * model), in the same instruction since @since_ns, as far as this call and earlier ones saw. @look may only read
 * and take references. Loop thread only. */
void inf_pool_check(struct inf_pool *pool,
	void (*look)(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns), void *self);
/* Call @look in the same way for each worker that has been in an item since before the item's overdue_ns, and is not
 * replaced. Returns when to call again: the earliest overdue_ns that is still to come, UINT64_MAX: none. Loop thread
 * only. */
uint64_t inf_pool_check_overdue(struct inf_pool *pool,
	void (*look)(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns), void *self);
/* Whether @worker has been in one instruction of a request for @long_ns, as far as this call and earlier ones saw. Loop
 * thread only. */
bool inf_pool_is_long(struct inf_pool *pool, uint32_t worker, uint64_t long_ns);
/* Let a spare worker serve in the place of @worker until that has come back from @item. The spare worker's thread is
 * started when it is needed first. False: @worker has come back already, as many workers are replaced as there are, or
 * all spare workers serve. Loop thread only. */
bool inf_pool_replace(struct inf_pool *pool, uint32_t worker, const struct inf_item *item);
/* If a request starves (see inf_sched_set_relieved) because all workers that are busy have been in one instruction for
 * long, let a spare worker serve starved requests beside one of them, until that one comes back. The same if a task
 * waits for such a worker: a spare one does not do it, but needs nothing that it prepares. The long runs of clients'
 * programs are asked to give way (et_run_give_way), because a spare worker brings no core. *ret_is_first is set if
 * no spare worker served before. @has_come: a request has just come, so a look before the time may
 * help it. Returns when to call again; UINT64_MAX: not before a request or a task waits. Costs
 * two atomic reads if none does. Loop thread only. */
uint64_t inf_pool_relieve(struct inf_pool *pool, bool has_come, bool *ret_is_first);
/* Whether a spare worker may serve. Any thread. */
bool inf_pool_uses_spares(struct inf_pool *pool);
/* Whether a request waits that could run; another thread may just have taken it. Any thread. */
bool inf_pool_is_waiting(const struct inf_pool *pool);
/* If a request has all cores, and has been in one instruction for longer than @after_ns while other requests wait, let
 * these start beside it. Loop thread only, after inf_pool_check. */
void inf_pool_share_cores(struct inf_pool *pool, uint64_t after_ns);

#endif
