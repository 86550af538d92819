/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a pool.
 *
 * The loop thread can run a short request itself (an inline run): it takes an idle worker out of the idle list, so
 * that no caller wakes that one, uses the worker's thread sets, and puts the worker back. Cores are handed out as
 * if the worker had run the request. The worker may wake all the same (for a task, say), so its thread sets are
 * lent under the lock, and a worker whose sets are lent waits for them. An inline run yields after QUICK_MAX_NS, so
 * that the loop is soon back at its other work.
 *
 * What must always be true: if a request can be taken and a worker is idle, a wake-up is on its way, because every
 * change of the scheduler's state ends with inf_pool_unlock. The lock is never held across a run, a callback
 * (except the one of inf_pool_check, which only looks) or a system call other than the lock's own. */
#include "daemon/queue/pool_internal.h"

#include "daemon/base/thread.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUICK_MAX_NS = 50 * 1000 };

/* --- the lock ------------------------------------------------------------------------------------- */

/* Called under the lock: remove an idle worker that can take a request from the idle list; the caller wakes it after
 * it has dropped the lock. NULL: there is none. */
static struct inf_pool_thread *pick_idle(struct inf_pool *pool)
{
	struct inf_pool_thread *first = &pool->threads[0];
	atomic_store_explicit(&pool->n_waiting, pool->sched.n_waiting, memory_order_relaxed);
	uint32_t priority_class = 0;
	while (priority_class < INF_N_CLASSES && et_list_is_empty(&pool->sched.classes[priority_class]))
		priority_class++;
	atomic_store_explicit(&pool->best_class, priority_class, memory_order_relaxed);

	if (!inf_sched_has_work(&pool->sched, true))
		return NULL;
	struct inf_pool_thread *t = NULL;
	bool is_for_any = inf_sched_has_work(&pool->sched, false);
	if (is_for_any && !et_list_is_empty(&pool->idle))
		t = ET_CONTAINER_OF(pool->idle.next, struct inf_pool_thread, idle);
	else if (is_for_any && inf_pool_n_spares_used(pool) && !et_list_is_empty(&pool->idle_spares))
		t = ET_CONTAINER_OF(pool->idle_spares.next, struct inf_pool_thread, idle);
	else if (!et_list_is_empty(&first->idle))
		t = first;
	if (t)
		et_list_remove(&t->idle);
	return t;
}

uint32_t inf_pool_n_spares_used(const struct inf_pool *pool)
{
	return pool->sched.n_replaced + pool->sched.n_relieved;
}

void inf_pool_come_back(struct inf_pool *pool, struct inf_pool_thread *t)
{
	if (t->is_replaced)
		inf_sched_set_replaced(&pool->sched, pool->sched.n_replaced - 1);
	if (t->is_relieved)
		inf_sched_set_relieved(&pool->sched, pool->sched.n_relieved - 1);
	t->is_replaced = t->is_relieved = false;
}

void inf_pool_unlock(struct inf_pool *pool)
{
	struct inf_pool_thread *t = pick_idle(pool);
	pthread_mutex_unlock(&pool->lock);
	if (t)
		inf_pool_thread_wake(t);
}

void inf_pool_disown(struct inf_item *item)
{
	atomic_store_explicit(&item->owner, NULL, memory_order_relaxed);
}

void inf_pool_settle(struct inf_pool *pool, struct inf_item *item, enum inf_segment_end end, uint64_t used_ns,
	uint64_t charged_ns, uint64_t now_ns)
{
	uint64_t cores = item->is_all_cores ? pool->n_threads : 1;
	inf_sched_leave(&pool->sched, item, charged_ns * cores);
	pool->busy_ns += used_ns * cores;
	if (end == INF_SEGMENT_ENDED) {
		pool->n_completed++;
		inf_sched_end_of_stream_item(&pool->sched, item, now_ns);
	} else if (end == INF_SEGMENT_AGAIN) {
		inf_sched_resubmit(&pool->sched, item, now_ns);
		return;
	}
	inf_pool_disown(item);
}

/* --- starting and ending -------------------------------------------------------------------------- */

static int start_thread(struct inf_pool_thread *t)
{
	struct et_queue_id queue = t->worker.pool->options.queue;
	char name[16];
	if (queue.kind == ET_QUEUE_CPU)
		snprintf(name, sizeof(name), "cpu-%u", t->worker.index % 1000);
	else
		snprintf(name, sizeof(name), "%s%u-%u", et_queue_kind_name(queue.kind), queue.device % 100,
			t->worker.index % 1000);
	int rc = inf_thread_start(&t->id, inf_pool_thread_main, t, name);
	t->has_thread = rc == 0;
	return rc;
}

int inf_pool_new(struct inf_pool **ret_pool, const struct inf_pool_options *options,
	const struct inf_pool_events *events, struct et_diag *diag)
{
	struct inf_pool *pool = calloc(1, sizeof(*pool));
	const uint32_t n_all = options->n_workers + options->n_spares;
	if (!pool || !(pool->threads = calloc(n_all, sizeof(*pool->threads)))) {
		free(pool);
		et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
		return -ENOMEM;
	}
	pool->options = *options;
	pool->events = *events;
	pool->n_threads = options->n_workers;
	pool->n_spares = options->n_spares;
	pool->has_all_cores = options->has_all_cores && options->n_workers > 1;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->changed, NULL);
	et_list_init(&pool->idle);
	et_list_init(&pool->idle_spares);
	atomic_store(&pool->best_class, INF_N_CLASSES);
	pool->inline_worker.pool = pool;
	pool->inline_worker.reply.fd = -1;
	pthread_mutex_init(&pool->inline_worker.lock, NULL);
	pthread_cond_init(&pool->inline_worker.changed, NULL);
	inf_codec_init(&pool->inline_worker.reply.codec, options->allocator);
	struct inf_sched_options sched = { .n_workers = options->n_workers,
		.has_all_cores = pool->has_all_cores,
		.keeps_one = options->keeps_one,
		.age_ns = options->age_ns };
	inf_sched_init(&pool->sched, &sched);

	int rc = 0;
	uint32_t n = 0;
	for (uint32_t i = 0; i < n_all; i++) {
		et_list_init(&pool->threads[i].idle);
		et_list_init(&pool->threads[i].tasks);
		pthread_mutex_init(&pool->threads[i].worker.lock, NULL);
		pthread_cond_init(&pool->threads[i].worker.changed, NULL);
		pool->threads[i].worker.pool = pool;
		pool->threads[i].worker.index = i;
		pool->threads[i].worker.is_spare = i >= pool->n_threads;
	}
	for (; n < pool->n_threads && rc == 0; n++)
		rc = start_thread(&pool->threads[n]);
	if (rc < 0) {
		n--;
		et_fail(diag, ET_E_INTERNAL, "can't start a thread: %s", strerror(-rc));
	}
	pthread_mutex_lock(&pool->lock);
	while (pool->n_started < n)
		pthread_cond_wait(&pool->changed, &pool->lock);
	bool has_failed = pool->n_failed > 0;
	pthread_mutex_unlock(&pool->lock);
	for (uint32_t i = 0; i < n && has_failed; i++)
		if (pool->threads[i].diag.text[0])
			et_fail(diag, ET_E_INTERNAL, "worker %u: %s", i, pool->threads[i].diag.text);
	if (rc < 0 || has_failed) {
		inf_pool_free(pool);
		return rc < 0 ? rc : -EIO;
	}
	*ret_pool = pool;
	return 0;
}

struct inf_pool *inf_pool_free(struct inf_pool *pool)
{
	if (!pool)
		return NULL;
	pthread_mutex_lock(&pool->lock);
	pool->is_stopping = true;
	pthread_mutex_unlock(&pool->lock);
	const uint32_t n_all = pool->n_threads + pool->n_spares;
	for (uint32_t i = 0; i < n_all; i++) {
		if (!pool->threads[i].has_thread)
			continue;
		inf_pool_thread_wake(&pool->threads[i]);
		pthread_join(pool->threads[i].id, NULL);
	}
	for (uint32_t i = 0; i < n_all; i++) {
		pthread_mutex_destroy(&pool->threads[i].worker.lock);
		pthread_cond_destroy(&pool->threads[i].worker.changed);
	}
	pthread_mutex_destroy(&pool->inline_worker.lock);
	pthread_cond_destroy(&pool->inline_worker.changed);
	inf_codec_deinit(&pool->inline_worker.reply.codec);
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->lock);
	free(pool->threads);
	free(pool);
	return NULL;
}

struct et_queue_id inf_pool_queue(const struct inf_pool *pool)
{
	return pool->options.queue;
}

void inf_pool_cancel(struct inf_pool *pool, struct et_run *run)
{
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++) {
		struct inf_worker *worker = &pool->threads[i].worker;
		pthread_mutex_lock(&worker->lock);
		if (worker->is_pending && worker->pending == run)
			et_run_cancel(run);
		pthread_mutex_unlock(&worker->lock);
	}
}

uint32_t inf_pool_n_workers(const struct inf_pool *pool)
{
	return pool->n_threads;
}

bool inf_pool_has_all_cores(const struct inf_pool *pool)
{
	return pool->has_all_cores;
}

uint32_t inf_pool_n_plan_workers(const struct inf_pool *pool)
{
	return pool->n_threads + pool->n_spares + pool->has_all_cores;
}

/* --- requests and tasks --------------------------------------------------------------------------- */

void inf_pool_submit(struct inf_pool *pool, struct inf_item *item)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	atomic_store_explicit(&item->owner, pool, memory_order_relaxed);
	inf_sched_submit(&pool->sched, item, now_ns);
	inf_pool_unlock(pool);
}

/* Called under the lock: borrow the thread sets of the idle worker that slept longest; NULL: the request had better be
 * queued. */
static struct inf_pool_thread *borrow_worker(struct inf_pool *pool)
{
	if (pool->sched.n_waiting || pool->sched.is_all_cores_running || et_list_is_empty(&pool->idle))
		return NULL;
	struct inf_pool_thread *t = ET_CONTAINER_OF(pool->idle.prev, struct inf_pool_thread, idle);
	if (!et_list_is_empty(&t->tasks))
		return NULL;
	et_list_remove(&t->idle);
	t->is_lent = true;
	return t;
}

/* Called under the lock. A worker rarely waits for its thread sets; if none waits, the broadcast is no system call. */
static void return_worker(struct inf_pool *pool, struct inf_pool_thread *t)
{
	t->is_lent = false;
	et_list_append(&pool->idle, &t->idle);
	pthread_cond_broadcast(&pool->changed);
}

static bool inline_worker_should_yield(void *self)
{
	struct inf_pool *pool = self;
	return et_platform_now_ns(NULL) >= pool->inline_until_ns;
}

bool inf_pool_submit_quick(struct inf_pool *pool, struct inf_item *item)
{
	struct inf_worker *inline_worker = &pool->inline_worker;
	uint64_t began_ns = et_platform_now_ns(NULL);
	item->prefers_single_core = true;
	pthread_mutex_lock(&pool->lock);
	struct inf_pool_thread *t = borrow_worker(pool);
	atomic_store_explicit(&item->owner, pool, memory_order_relaxed);
	inf_sched_submit(&pool->sched, item, began_ns);
	struct inf_item *taken = t ? inf_sched_take(&pool->sched, false, began_ns) : NULL;
	if (!taken) { /* no idle worker, or the request waits behind another one of its stream */
		if (t)
			return_worker(pool, t);
		inf_pool_unlock(pool);
		return false;
	}
	pthread_mutex_unlock(&pool->lock);

	pool->inline_until_ns = began_ns + QUICK_MAX_NS;
	inline_worker->index = t->worker.index;
	inline_worker->single_core = t->worker.single_core;
	inline_worker->single_core.should_yield = inline_worker_should_yield;
	inline_worker->single_core.yield_self = pool;
	atomic_store_explicit(&t->priority_class, taken->priority_class, memory_order_relaxed);
	atomic_store_explicit(&t->busy_since_ns, began_ns, memory_order_relaxed);
	enum inf_segment_end end = pool->events.run(pool->events.self, taken, inline_worker);
	atomic_store_explicit(&t->busy_since_ns, 0, memory_order_relaxed);
	et_pool_reset(&t->scratch);

	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	inf_pool_settle(pool, taken, end, now_ns - began_ns, now_ns - began_ns, now_ns);
	return_worker(pool, t);
	inf_pool_unlock(pool);
	if (end == INF_SEGMENT_ENDED)
		pool->events.finished(pool->events.self, taken, inline_worker);
	else if (end == INF_SEGMENT_LEFT)
		pool->events.left(pool->events.self, taken, inline_worker);
	return true;
}

bool inf_pool_remove(struct inf_pool *pool, struct inf_item *item)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	/* an item of another queue is not read: that queue's lock is not held */
	bool is_out = atomic_load_explicit(&item->owner, memory_order_relaxed) == pool &&
		      inf_sched_remove(&pool->sched, item, now_ns);
	if (is_out)
		inf_pool_disown(item);
	inf_pool_unlock(pool);
	return is_out;
}

/* Called under the lock: the earliest future deadline of the waiting requests, and of the running ones, which may wait
 * again by then, here or in another queue. */
static uint64_t next_deadline(const struct inf_pool *pool, uint64_t now_ns)
{
	uint64_t next_ns = inf_sched_next_deadline(&pool->sched);
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++) {
		const struct inf_item *item = pool->threads[i].item;
		if (item && item->deadline_ns > now_ns && item->deadline_ns < next_ns)
			next_ns = item->deadline_ns;
	}
	return next_ns;
}

struct inf_item *inf_pool_take_expired(struct inf_pool *pool, uint64_t *ret_next_ns)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	struct inf_item *item = inf_sched_take_expired(&pool->sched, now_ns);
	if (item)
		inf_pool_disown(item);
	*ret_next_ns = next_deadline(pool, now_ns);
	inf_pool_unlock(pool);
	return item;
}

void inf_pool_stream_item_ended(struct inf_pool *pool, struct inf_item *item)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	inf_sched_end_of_stream_item(&pool->sched, item, now_ns);
	inf_pool_unlock(pool);
}

struct inf_worker *inf_pool_worker(struct inf_pool *pool, uint32_t worker)
{
	return &pool->threads[worker].worker;
}

void inf_pool_post(struct inf_pool *pool, uint32_t worker, struct inf_task *task)
{
	struct inf_pool_thread *t = &pool->threads[worker];
	pthread_mutex_lock(&pool->lock);
	et_list_append(&t->tasks, &task->node);
	atomic_store_explicit(&t->has_tasks, true, memory_order_relaxed);
	atomic_fetch_add_explicit(&pool->n_tasks, 1, memory_order_relaxed);
	et_list_remove(&t->idle);
	inf_pool_unlock(pool);
	inf_pool_thread_wake(t);
}

bool inf_pool_take_back(struct inf_pool *pool, uint32_t worker, struct inf_task *task)
{
	struct inf_pool_thread *t = &pool->threads[worker];
	pthread_mutex_lock(&pool->lock);
	bool is_there = !et_list_is_empty(&task->node);
	atomic_fetch_sub_explicit(&pool->n_tasks, is_there, memory_order_relaxed);
	et_list_remove(&task->node);
	atomic_store_explicit(&t->has_tasks, !et_list_is_empty(&t->tasks), memory_order_relaxed);
	inf_pool_unlock(pool);
	return is_there;
}

void inf_pool_stats(struct inf_pool *pool, struct inf_pool_stats *ret_stats)
{
	pthread_mutex_lock(&pool->lock);
	*ret_stats = (struct inf_pool_stats){ pool->sched.n_running, pool->sched.n_waiting + pool->sched.n_blocked,
		inf_pool_n_spares_used(pool), pool->sched.options.keeps_one, pool->busy_ns, pool->n_completed };
	pthread_mutex_unlock(&pool->lock);
}

/* Called under the lock: since when @t has been in the same instruction; 0: it is idle. */
static uint64_t busy_since(struct inf_pool_thread *t, uint64_t now_ns)
{
	uint64_t since_ns = atomic_load_explicit(&t->busy_since_ns, memory_order_relaxed);
	uint32_t n_steps = atomic_load_explicit(&t->n_steps, memory_order_relaxed);
	if (t->item && t->item->notes_steps) {
		uint64_t step_ns = atomic_load_explicit(&t->step_ns, memory_order_relaxed);
		return since_ns && since_ns < step_ns ? step_ns : since_ns;
	}
	if (n_steps != t->seen_steps) { /* the run goes on */
		t->seen_steps = n_steps;
		t->seen_ns = now_ns;
	}
	return since_ns && since_ns < t->seen_ns ? t->seen_ns : since_ns;
}

void inf_pool_check(struct inf_pool *pool,
	void (*look)(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns), void *self)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++) {
		struct inf_pool_thread *t = &pool->threads[i];
		uint64_t since_ns = busy_since(t, now_ns);
		if (since_ns && (t->item || t->is_in_task))
			look(self, t->item, i, since_ns);
	}
	inf_pool_unlock(pool);
}

bool inf_pool_is_long(struct inf_pool *pool, uint32_t worker, uint64_t long_ns)
{
	struct inf_pool_thread *t = &pool->threads[worker];
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	uint64_t since_ns = t->item ? busy_since(t, now_ns) : 0;
	inf_pool_unlock(pool);
	return since_ns && now_ns > since_ns && now_ns - since_ns >= long_ns;
}

uint64_t inf_pool_check_overdue(struct inf_pool *pool,
	void (*look)(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns), void *self)
{
	uint64_t now_ns = et_platform_now_ns(NULL), next_ns = UINT64_MAX;
	pthread_mutex_lock(&pool->lock);
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++) {
		struct inf_pool_thread *t = &pool->threads[i];
		uint64_t overdue_ns = t->item && !t->is_replaced ? t->item->overdue_ns : 0;
		if (overdue_ns > now_ns)
			next_ns = overdue_ns < next_ns ? overdue_ns : next_ns;
		else if (overdue_ns)
			look(self, t->item, i, busy_since(t, now_ns));
	}
	inf_pool_unlock(pool);
	return next_ns;
}

/* Start the threads of the first @n spare workers. Without a thread, or with one that could not make its thread sets,
 * the queue goes on with what it has. */
static void start_spares(struct inf_pool *pool, uint32_t n)
{
	while (pool->n_spare_threads < n && start_thread(&pool->threads[pool->n_threads + pool->n_spare_threads]) == 0)
		pool->n_spare_threads++;
}

bool inf_pool_replace(struct inf_pool *pool, uint32_t worker, const struct inf_item *item)
{
	struct inf_pool_thread *t = &pool->threads[worker];
	pthread_mutex_lock(&pool->lock);
	bool is_possible = t->item == item && !t->is_replaced && pool->n_spares &&
			   pool->sched.n_replaced < pool->n_threads &&
			   (t->is_relieved || inf_pool_n_spares_used(pool) < pool->n_spares);
	if (is_possible) {
		inf_pool_come_back(pool, t); /* if it was relieved */
		t->is_replaced = true;
		inf_sched_set_replaced(&pool->sched, pool->sched.n_replaced + 1);
		if (item->is_all_cores)
			inf_sched_single_core(&pool->sched);
	}
	uint32_t n = inf_pool_n_spares_used(pool);
	inf_pool_unlock(pool);
	start_spares(pool, n);
	return is_possible;
}

enum {
	TASK_LONG_NS = 20 * 1000 * 1000,
	LOOK_NS = 20 * 1000 * 1000, /* between two looks while requests wait */
	NEXT_LOOK_NS = 1000 * 1000, /* at least, when another request has come */
};

/* Called under the lock: whether all busy threads have been in one instruction for long, and *ret_next_ns, when they
 * may have been. Charges the requests for the time that they had. *ret_thread: one that is not relieved or replaced, or
 * NULL. */
static bool are_all_long(struct inf_pool *pool, uint64_t now_ns, struct inf_pool_thread **ret_thread,
	uint64_t *ret_next_ns)
{
	uint64_t all_long_ns = 0;
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++) {
		struct inf_pool_thread *t = &pool->threads[i];
		uint64_t since_ns = busy_since(t, now_ns);
		if (!t->item && !t->is_in_task)
			continue;
		uint64_t long_ns = (since_ns ? since_ns : now_ns) + (t->item ? t->item->long_ns : TASK_LONG_NS);
		if (long_ns > all_long_ns)
			all_long_ns = long_ns;
		if (!t->is_replaced && !t->is_relieved)
			*ret_thread = t;
		uint64_t began_ns = atomic_load_explicit(&t->busy_since_ns, memory_order_relaxed);
		if (t->item && long_ns <= now_ns && began_ns && began_ns < now_ns)
			inf_sched_charge_running(t->item, now_ns - began_ns);
	}
	*ret_next_ns = all_long_ns > now_ns && all_long_ns < now_ns + LOOK_NS ? all_long_ns : now_ns + LOOK_NS;
	return all_long_ns <= now_ns;
}

/* Called under the lock: choose the threads whose long runs are to leave the cores to the spare workers. */
static void choose_who_gives_way(struct inf_pool *pool, uint64_t now_ns)
{
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++) {
		struct inf_pool_thread *t = &pool->threads[i];
		uint64_t since_ns = t->item && t->item->notes_steps ? busy_since(t, now_ns) : 0;
		t->must_give_way = since_ns && since_ns + t->item->long_ns <= now_ns;
	}
}

static void let_give_way(struct inf_pool *pool)
{
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++) {
		struct inf_worker *worker = &pool->threads[i].worker;
		if (!pool->threads[i].must_give_way)
			continue;
		pool->threads[i].must_give_way = false;
		pthread_mutex_lock(&worker->lock);
		if (worker->is_pending)
			et_run_give_way(worker->pending);
		pthread_mutex_unlock(&worker->lock);
	}
}

/* Called under the lock: whether a worker will take a starved request soon, perhaps one whose thread is just
 * starting. */
static bool will_serve(const struct inf_pool *pool)
{
	bool is_free = false;
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spare_threads; i++) {
		const struct inf_pool_thread *t = &pool->threads[i];
		is_free = is_free || (!t->item && !t->is_in_task && !t->has_failed);
	}
	return is_free && inf_sched_has_work(&pool->sched, true);
}

/* Called under the lock: whether a task, such as preparing a model, waits, and no worker is there for one. */
static bool do_tasks_wait(const struct inf_pool *pool)
{
	bool is_free = false;
	for (uint32_t i = 0; i < pool->n_threads; i++)
		is_free = is_free || (!pool->threads[i].item && !pool->threads[i].is_in_task);
	return !is_free && !inf_pool_n_spares_used(pool) &&
	       atomic_load_explicit(&pool->n_tasks, memory_order_relaxed) > 0;
}

uint64_t inf_pool_relieve(struct inf_pool *pool, bool has_come, bool *ret_is_first)
{
	struct inf_pool_thread *t = NULL;
	if (!pool->n_spares ||
		(!inf_pool_is_waiting(pool) && !atomic_load_explicit(&pool->n_tasks, memory_order_relaxed))) {
		pool->relief_ns = 0;
		return UINT64_MAX;
	}
	uint64_t now_ns = et_platform_now_ns(NULL);
	if (pool->relief_ns > now_ns && !(has_come && now_ns - pool->looked_ns >= NEXT_LOOK_NS))
		return pool->relief_ns;
	pool->looked_ns = now_ns;
	pthread_mutex_lock(&pool->lock);
	if (are_all_long(pool, now_ns, &t, &pool->relief_ns) &&
		(inf_sched_has_starved(&pool->sched) || do_tasks_wait(pool))) {
		if (pool->sched.is_all_cores_running) {
			inf_sched_single_core(&pool->sched);
		} else if (t && inf_pool_n_spares_used(pool) < pool->n_spares && !will_serve(pool)) {
			*ret_is_first = inf_pool_n_spares_used(pool) == 0;
			t->is_relieved = true;
			inf_sched_set_relieved(&pool->sched, pool->sched.n_relieved + 1);
		}
		choose_who_gives_way(pool, now_ns);
	}
	uint32_t n = inf_pool_n_spares_used(pool);
	inf_pool_unlock(pool);
	let_give_way(pool);
	start_spares(pool, n);
	return pool->relief_ns;
}

bool inf_pool_uses_spares(struct inf_pool *pool)
{
	struct inf_pool_stats stats;
	inf_pool_stats(pool, &stats);
	return stats.n_spares > 0;
}

bool inf_pool_is_waiting(const struct inf_pool *pool)
{
	return atomic_load_explicit(&pool->n_waiting, memory_order_relaxed) > 0;
}

void inf_pool_share_cores(struct inf_pool *pool, uint64_t after_ns)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	uint64_t since_ns = busy_since(&pool->threads[0], now_ns);
	if (pool->sched.is_all_cores_running && pool->sched.n_waiting && since_ns && now_ns > since_ns &&
		now_ns - since_ns > after_ns)
		inf_sched_single_core(&pool->sched);
	inf_pool_unlock(pool);
}
