/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker threads.
 *
 * A worker's life is: settle what it ran, take what is next, hand the result over, run. Only when there is
 * nothing to take does it look around for a short while (if it has just worked: a client that got its answer
 * often sends the next request) and then sleep. Sleeping and waking is one word a worker, `wake`:
 *     AWAKE -> ASLEEP   by the worker, before it waits on it
 *     any   -> WOKEN    by whoever has work for it; a futex call only if it was ASLEEP
 * and being in the idle list, under the lock, is what makes a worker somebody to wake: it is taken out by the
 * one that wakes it, so two requests wake two workers.
 *
 * A request that takes less time than waking a worker the loop thread runs itself, as a guest: it takes an idle worker
 * out of the list, so that nobody wakes that one, uses its lanes, and puts it back. Cores are handed out as if the
 * worker had run it. A worker can be awake for an old reason all the same (WOKEN sticks: somebody posted a task that it
 * had found by itself), so the lanes are lent under the lock, and one that finds its own lent waits for them. The guest
 * yields after QUICK_MAX_NS, so that the loop is soon back at what only it can do.
 *
 * What must always be true:
 *   - If something can be taken and a worker is idle, a wake-up is on its way: every change of the
 *     scheduler's state ends with wake_others before the lock is dropped.
 *   - The lock is never held across a run, a callback (but the one that only looks, inf_pool_check) or a system call
 *     but the lock's own.
 *   - A worker's lanes, slot and scratch are its own thread's, or the guest's while is_lent says so.
 *   - A worker does all tasks it was posted before it takes a request: a model's requests begin when one worker is ready
 *     for it (model.c), and find each of the others ready when it takes one.
 *   - While the first worker does a task it cannot run wide requests, so there are none meanwhile. */
#include "daemon/queue/worker.h"

#include "daemon/base/thread.h"
#include "ipc/spin.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { AWAKE, ASLEEP, WOKEN };
enum { SLICE_NS = 100 * 1000 * 1000 };
enum { QUICK_MAX_NS = 50 * 1000 };

struct thread {
	struct inf_worker worker;
	struct et_list_node idle; /* in the pool's list while it has nothing to do */
	struct et_list_node tasks;
	_Atomic(uint32_t) wake;
	_Atomic(uint64_t) busy_since_ns; /* 0: idle */
	_Atomic(uint8_t) priority_class; /* of what it runs */
	_Atomic(bool) has_tasks;         /* a copy, for the run at hand to make room */
	_Atomic(uint32_t) n_steps;       /* instructions and runs begun: how others see that it goes on */
	uint32_t seen_steps;             /* these two are inf_pool_check's */
	uint64_t seen_ns;
	struct inf_item *item; /* that it runs; this and the next two under the lock */
	bool is_in_task;
	bool is_lent; /* a guest uses its lanes */
	struct et_pool scratch;
	pthread_t id;
	bool has_thread;
	struct et_diag diag;
};

struct inf_pool {
	struct inf_pool_options options;
	struct inf_pool_events events;
	bool has_all_cores;

	pthread_mutex_t lock;   /* guards what follows */
	pthread_cond_t changed; /* a thread has started, or has its lanes back */
	struct inf_sched sched;
	struct et_list_node idle; /* the last to become idle first */
	uint32_t n_started, n_failed;
	bool is_stopping;
	uint64_t busy_ns, n_completed;

	_Atomic(uint32_t) n_waiting;  /* a copy, for those who only glance */
	_Atomic(uint32_t) best_class; /* of what waits; INF_N_CLASSES: nothing does */
	_Atomic(uint32_t) n_spinning;
	uint32_t n_threads;
	struct thread *threads;

	/* The loop thread's, for inf_pool_submit_quick: an idle worker's lanes for the while. */
	struct inf_worker inline_worker;
	uint64_t inline_until_ns;
};

/* --- sleeping and waking -------------------------------------------------------------------------- */

static void wake(struct thread *t)
{
	/* release: pairs with the acquire of the sleeper's look at it */
	if (atomic_exchange_explicit(&t->wake, WOKEN, memory_order_acq_rel) == ASLEEP)
		syscall(SYS_futex, &t->wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Look around until somebody wakes @t or the time is up. */
static bool spin(struct thread *t, uint64_t spin_ns)
{
	struct inf_pool *pool = t->worker.pool;
	bool is_woken = false;
	/* one is enough: a spinning core is a core that a client could use */
	if (!spin_ns || atomic_fetch_add_explicit(&pool->n_spinning, 1, memory_order_relaxed) > 0) {
		if (spin_ns)
			atomic_fetch_sub_explicit(&pool->n_spinning, 1, memory_order_relaxed);
		return false;
	}
	uint64_t end = et_platform_now_ns(NULL) + spin_ns;
	do {
		for (int i = 0; i < 64 && !is_woken; i++) {
			is_woken = atomic_load_explicit(&t->wake, memory_order_acquire) == WOKEN;
			inf_spin_relax();
		}
	} while (!is_woken && et_platform_now_ns(NULL) < end);
	atomic_fetch_sub_explicit(&pool->n_spinning, 1, memory_order_relaxed);
	return is_woken;
}

static void sleep_until_woken(struct thread *t, uint64_t spin_ns)
{
	if (!spin(t, spin_ns)) {
		uint32_t expected = AWAKE;
		atomic_compare_exchange_strong_explicit(&t->wake, &expected, ASLEEP, memory_order_acq_rel,
			memory_order_acquire);
		while (atomic_load_explicit(&t->wake, memory_order_acquire) == ASLEEP)
			syscall(SYS_futex, &t->wake, FUTEX_WAIT_PRIVATE, ASLEEP, NULL, NULL, 0);
	}
	/* An exchange rather than a store: it reads a wake-up that came meanwhile, so that what that one was for is
	 * seen under the lock that follows. */
	atomic_exchange_explicit(&t->wake, AWAKE, memory_order_acq_rel);
}

/* Under the lock: take an idle worker that could take something out of the list, for the caller to wake after
 * it has dropped the lock. */
static struct thread *pick_idle(struct inf_pool *pool)
{
	struct thread *first = &pool->threads[0];
	atomic_store_explicit(&pool->n_waiting, pool->sched.n_waiting, memory_order_relaxed);
	uint32_t priority_class = 0;
	while (priority_class < INF_N_CLASSES && et_list_is_empty(&pool->sched.classes[priority_class]))
		priority_class++;
	atomic_store_explicit(&pool->best_class, priority_class, memory_order_relaxed);

	if (!inf_sched_has_work(&pool->sched, true) || et_list_is_empty(&pool->idle))
		return NULL;
	struct thread *t = NULL;
	if (inf_sched_has_work(&pool->sched, false))
		t = ET_CONTAINER_OF(pool->idle.next, struct thread, idle);
	else if (!et_list_is_empty(&first->idle))
		t = first;
	if (t)
		et_list_remove(&t->idle);
	return t;
}

static void unlock_and_wake(struct inf_pool *pool)
{
	struct thread *t = pick_idle(pool);
	pthread_mutex_unlock(&pool->lock);
	if (t)
		wake(t);
}

/* --- a worker's life ------------------------------------------------------------------------------ */

/* Only this thread writes it. */
static void count_step(struct thread *t)
{
	uint32_t n = atomic_load_explicit(&t->n_steps, memory_order_relaxed);
	atomic_store_explicit(&t->n_steps, n + 1, memory_order_relaxed);
}

/* Between two instructions: make room for a higher class, for a model that is to be prepared here, and for others when
 * it has all cores; and for anybody after a slice of time, so that a program that never ends takes its client's share
 * and no more. The slice is far longer than most requests: one that is interrupted keeps its activations. */
static bool should_yield(void *self)
{
	struct thread *t = self;
	struct inf_pool *pool = t->worker.pool;
	count_step(t);
	if (atomic_load_explicit(&t->has_tasks, memory_order_relaxed))
		return true;
	uint32_t best = atomic_load_explicit(&pool->best_class, memory_order_relaxed);
	if (best < atomic_load_explicit(&t->priority_class, memory_order_relaxed))
		return true;
	return atomic_load_explicit(&pool->n_waiting, memory_order_relaxed) > 0 &&
	       et_platform_now_ns(NULL) - atomic_load_explicit(&t->busy_since_ns, memory_order_relaxed) >= SLICE_NS;
}

static bool should_yield_all_cores(void *self)
{
	struct thread *t = self;
	count_step(t);
	return atomic_load_explicit(&t->has_tasks, memory_order_relaxed) ||
	       atomic_load_explicit(&t->worker.pool->n_waiting, memory_order_relaxed) > 0;
}

/* Under the lock: @item is not this queue's any more. */
static void disown(struct inf_item *item)
{
	atomic_store_explicit(&item->owner, NULL, memory_order_relaxed);
}

/* Under the lock: settle @item, which had its cores for @used_ns and pays for @charged_ns. */
static void settle(struct inf_pool *pool, struct inf_item *item, enum inf_segment_end end, uint64_t used_ns,
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
	disown(item);
}

static bool inline_worker_should_yield(void *self)
{
	struct inf_pool *pool = self;
	return et_platform_now_ns(NULL) >= pool->inline_until_ns;
}

static void run_task(struct inf_pool *pool, struct thread *t)
{
	struct inf_task *task = ET_CONTAINER_OF(t->tasks.next, struct inf_task, node);
	et_list_remove(&task->node);
	atomic_store_explicit(&t->has_tasks, !et_list_is_empty(&t->tasks), memory_order_relaxed);
	if (t->worker.index == 0)
		pool->sched.options.has_all_cores = false;
	t->is_in_task = true;
	atomic_store_explicit(&t->busy_since_ns, et_platform_now_ns(NULL), memory_order_relaxed);
	unlock_and_wake(pool);
	task->run(task, &t->worker);
	atomic_store_explicit(&t->busy_since_ns, 0, memory_order_relaxed);
	pthread_mutex_lock(&pool->lock);
	t->is_in_task = false;
	if (t->worker.index == 0)
		pool->sched.options.has_all_cores = pool->has_all_cores;
}

/* Of a run on this thread. */
struct use {
	uint64_t wall_ns, core_ns; /* before it, then of it */
	long n_sleeps;
};

/* Not what getrusage says of the time: that is as old as the kernel's last tick, so a run of one and a half ticks had
 * taken one or two, and who was dealt a two waited while others overtook him. */
static void check_use(struct use *ret_use)
{
	struct rusage now;
	struct timespec core;
	getrusage(RUSAGE_THREAD, &now);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &core);
	ret_use->wall_ns = et_platform_now_ns(NULL);
	ret_use->core_ns = (uint64_t)core.tv_sec * 1000000000u + (uint64_t)core.tv_nsec;
	ret_use->n_sleeps = now.ru_nvcsw;
}

/* What a run that began at @began is charged for: not for the time in which the kernel gave its core to somebody else, or
 * its client would wait longer the next time, too. One that waited for another device or process had its worker all the
 * while; and one on all cores had other threads as well. */
static uint64_t charge(const struct thread *t, const struct inf_item *item, const struct use *began,
	const struct use *ended)
{
	uint64_t wall_ns = ended->wall_ns - began->wall_ns, core_ns = ended->core_ns - began->core_ns;
	bool is_all_here = t->worker.pool->options.queue.kind == ET_QUEUE_CPU && !item->is_all_cores &&
			   began->n_sleeps == ended->n_sleeps;
	return is_all_here && core_ns < wall_ns ? core_ns : wall_ns;
}

static void work(struct thread *t)
{
	struct inf_pool *pool = t->worker.pool;
	const struct inf_pool_events *events = &pool->events;
	struct inf_item *ran = NULL, *item;
	enum inf_segment_end end = INF_SEGMENT_ENDED;
	struct use began = { 0 }, ended = { 0 };
	uint64_t spin_ns = 0;

	for (;;) {
		uint64_t now_ns = ran ? ended.wall_ns : et_platform_now_ns(NULL);
		pthread_mutex_lock(&pool->lock);
		while (t->is_lent)
			pthread_cond_wait(&pool->changed, &pool->lock);
		et_list_remove(&t->idle);
		if (ran)
			settle(pool, ran, end, now_ns - began.wall_ns, charge(t, ran, &began, &ended), now_ns);
		struct inf_item *expired = inf_sched_take_expired(&pool->sched, now_ns);
		if (expired)
			disown(expired);
		bool has_task = !ran && !expired && !et_list_is_empty(&t->tasks);
		if (has_task) {
			run_task(pool, t);
			unlock_and_wake(pool);
			continue;
		}
		item = et_list_is_empty(&t->tasks) ? inf_sched_take(&pool->sched, t->worker.index == 0, now_ns) : NULL;
		t->item = item;
		bool must_sleep = !item && !ran && !expired && et_list_is_empty(&t->tasks);
		if (must_sleep && pool->is_stopping) {
			pthread_mutex_unlock(&pool->lock);
			return;
		}
		if (must_sleep) {
			t->idle.prev = &pool->idle; /* to the front: its caches are the warmest */
			t->idle.next = pool->idle.next;
			pool->idle.next->prev = &t->idle;
			pool->idle.next = &t->idle;
		}
		unlock_and_wake(pool);

		if (ran && end == INF_SEGMENT_ENDED)
			events->finished(events->self, ran, &t->worker);
		else if (ran && end == INF_SEGMENT_LEFT)
			events->left(events->self, ran, &t->worker);
		if (ran)
			spin_ns = pool->options.spin_ns;
		ran = NULL;
		if (expired)
			events->expired(events->self, expired, &t->worker);
		if (must_sleep) {
			sleep_until_woken(t, spin_ns);
			spin_ns = 0;
		}
		if (!item)
			continue;
		check_use(&began);
		atomic_store_explicit(&t->priority_class, item->priority_class, memory_order_relaxed);
		atomic_store_explicit(&t->busy_since_ns, began.wall_ns, memory_order_relaxed);
		count_step(t);
		end = events->run(events->self, item, &t->worker);
		et_compute_rest(t->worker.all_cores.compute); /* before the reply: its receiver needs a core */
		atomic_store_explicit(&t->busy_since_ns, 0, memory_order_relaxed);
		check_use(&ended);
		et_pool_reset(&t->scratch);
		ran = item;
	}
}

/* --- starting and ending -------------------------------------------------------------------------- */

static void free_thread_sets(const struct et_registry *registry, struct et_worker_threads **thread_sets)
{
	for (size_t i = 0; thread_sets && i < registry->n_backends; i++)
		if (thread_sets[i])
			registry->backends[i].ops->threads_free(thread_sets[i]);
	free(thread_sets);
}

/* A lane for each backend that has a device for this queue. */
static enum et_status make_thread_sets(struct inf_pool *pool, uint32_t n_threads,
	struct et_worker_threads ***ret_thread_sets, const struct et_compute **ret_compute, struct et_diag *diag)
{
	const struct et_registry *registry = pool->options.registry;
	struct et_worker_threads **thread_sets = calloc(registry->n_backends + 1, sizeof(*thread_sets));
	enum et_status status = ET_OK;
	if (!thread_sets)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
	for (size_t i = 0; i < registry->n_backends && status == ET_OK; i++) {
		const struct et_backend_entry *entry = &registry->backends[i];
		uint32_t n = entry->ops->n_devices(entry->backend);
		for (uint32_t d = 0; d < n; d++) {
			struct et_queue_id queue = et_registry_queue(registry, i, d);
			if (queue.kind != pool->options.queue.kind || queue.device != pool->options.queue.device)
				continue;
			status = entry->ops->threads_new(entry->backend, d, n_threads, &thread_sets[i], diag);
			if (status == ET_OK && entry->ops->threads_compute && !*ret_compute)
				*ret_compute = entry->ops->threads_compute(thread_sets[i]);
			break;
		}
	}
	if (status != ET_OK) {
		free_thread_sets(registry, thread_sets);
		return status;
	}
	*ret_thread_sets = thread_sets;
	return ET_OK;
}

static enum et_status thread_init(struct thread *t)
{
	struct inf_pool *pool = t->worker.pool;
	const struct et_registry *registry = pool->options.registry;
	const struct et_compute *compute = NULL, *all_cores_compute = NULL;
	enum et_status status = make_thread_sets(pool, 1, &t->worker.single_core_thread_sets, &compute, &t->diag);
	if (status == ET_OK && pool->has_all_cores && t->worker.index == 0)
		status = make_thread_sets(pool, pool->n_threads, &t->worker.all_cores_thread_sets, &all_cores_compute,
			&t->diag);
	if (status != ET_OK) {
		free_thread_sets(registry, t->worker.single_core_thread_sets);
		return status;
	}
	et_pool_init(&t->scratch, pool->options.allocator);
	inf_codec_init(&t->worker.reply.codec, pool->options.allocator);
	t->worker.single_core = (struct et_worker_env){
		.worker_index = pool->options.first_worker + t->worker.index,
		.queue = pool->options.queue,
		.scratch = &t->scratch,
		.compute = compute,
		.now_ns = et_platform_now_ns,
		.should_yield = should_yield,
		.yield_self = t,
	};
	t->worker.all_cores = t->worker.single_core;
	t->worker.all_cores.worker_index = pool->options.first_worker + pool->n_threads;
	t->worker.all_cores.compute = all_cores_compute;
	t->worker.all_cores.should_yield = should_yield_all_cores;
	et_compute_rest(all_cores_compute);
	return ET_OK;
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	struct inf_pool *pool = t->worker.pool;
	enum et_status status = thread_init(t);
	pthread_mutex_lock(&pool->lock);
	pool->n_started++;
	pool->n_failed += status != ET_OK;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	if (status != ET_OK)
		return NULL;
	work(t);
	free_thread_sets(pool->options.registry, t->worker.all_cores_thread_sets);
	free_thread_sets(pool->options.registry, t->worker.single_core_thread_sets);
	et_pool_deinit(&t->scratch);
	inf_codec_deinit(&t->worker.reply.codec);
	return NULL;
}

int inf_pool_new(struct inf_pool **ret_pool, const struct inf_pool_options *options,
	const struct inf_pool_events *events, struct et_diag *diag)
{
	struct inf_pool *pool = calloc(1, sizeof(*pool));
	if (!pool || !(pool->threads = calloc(options->n_workers, sizeof(*pool->threads)))) {
		free(pool);
		et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
		return -ENOMEM;
	}
	pool->options = *options;
	pool->events = *events;
	pool->n_threads = options->n_workers;
	pool->has_all_cores = options->has_all_cores && options->n_workers > 1;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->changed, NULL);
	et_list_init(&pool->idle);
	atomic_store(&pool->best_class, INF_N_CLASSES);
	pool->inline_worker.pool = pool;
	pool->inline_worker.reply.fd = -1;
	pthread_mutex_init(&pool->inline_worker.lock, NULL);
	pthread_cond_init(&pool->inline_worker.changed, NULL);
	inf_codec_init(&pool->inline_worker.reply.codec, options->allocator);
	struct inf_sched_options sched = { options->n_workers, pool->has_all_cores, options->age_ns };
	inf_sched_init(&pool->sched, &sched);

	int rc = 0;
	uint32_t n = 0;
	for (uint32_t i = 0; i < pool->n_threads; i++) {
		et_list_init(&pool->threads[i].idle);
		et_list_init(&pool->threads[i].tasks);
		pthread_mutex_init(&pool->threads[i].worker.lock, NULL);
		pthread_cond_init(&pool->threads[i].worker.changed, NULL);
		pool->threads[i].worker.pool = pool;
		pool->threads[i].worker.index = i;
	}
	for (; n < pool->n_threads && rc == 0; n++) {
		char name[16];
		if (options->queue.kind == ET_QUEUE_CPU)
			snprintf(name, sizeof(name), "cpu-%u", n % 1000);
		else
			snprintf(name, sizeof(name), "%s%u-%u", et_queue_kind_name(options->queue.kind),
				options->queue.device % 100, n % 1000);
		rc = inf_thread_start(&pool->threads[n].id, thread_main, &pool->threads[n], name);
		pool->threads[n].has_thread = rc == 0;
	}
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
	for (uint32_t i = 0; i < pool->n_threads; i++) {
		if (!pool->threads[i].has_thread)
			continue;
		wake(&pool->threads[i]);
		pthread_join(pool->threads[i].id, NULL);
	}
	for (uint32_t i = 0; i < pool->n_threads; i++) {
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
	for (uint32_t i = 0; i < pool->n_threads; i++) {
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

uint32_t inf_pool_n_plan_workers(const struct inf_pool *pool)
{
	return pool->n_threads + pool->has_all_cores;
}

/* --- what others ask of it ------------------------------------------------------------------------ */

void inf_pool_submit(struct inf_pool *pool, struct inf_item *item)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	atomic_store_explicit(&item->owner, pool, memory_order_relaxed);
	inf_sched_submit(&pool->sched, item, now_ns);
	unlock_and_wake(pool);
}

/* Under the lock: the idle worker whose place a guest takes, the one that slept longest; NULL: it is no time for that. */
static struct thread *take_place(struct inf_pool *pool)
{
	if (pool->sched.n_waiting || pool->sched.is_all_cores_running || et_list_is_empty(&pool->idle))
		return NULL;
	struct thread *t = ET_CONTAINER_OF(pool->idle.prev, struct thread, idle);
	if (!et_list_is_empty(&t->tasks))
		return NULL;
	et_list_remove(&t->idle);
	t->is_lent = true;
	return t;
}

/* Under the lock. Whoever waits for it has work to do, and is rare: without one this is no system call. */
static void give_place_back(struct inf_pool *pool, struct thread *t)
{
	t->is_lent = false;
	et_list_append(&pool->idle, &t->idle);
	pthread_cond_broadcast(&pool->changed);
}

bool inf_pool_submit_quick(struct inf_pool *pool, struct inf_item *item)
{
	struct inf_worker *inline_worker = &pool->inline_worker;
	uint64_t began_ns = et_platform_now_ns(NULL);
	item->prefers_single_core = true;
	pthread_mutex_lock(&pool->lock);
	struct thread *t = take_place(pool);
	atomic_store_explicit(&item->owner, pool, memory_order_relaxed);
	inf_sched_submit(&pool->sched, item, began_ns);
	struct inf_item *taken = t ? inf_sched_take(&pool->sched, false, began_ns) : NULL;
	if (!taken) { /* or it waits behind another one of its stream */
		if (t)
			give_place_back(pool, t);
		unlock_and_wake(pool);
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
	settle(pool, taken, end, now_ns - began_ns, now_ns - began_ns, now_ns);
	give_place_back(pool, t);
	unlock_and_wake(pool);
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
	/* what another queue has is not looked at: its lock is not held */
	bool is_out = atomic_load_explicit(&item->owner, memory_order_relaxed) == pool &&
		      inf_sched_remove(&pool->sched, item, now_ns);
	if (is_out)
		disown(item);
	unlock_and_wake(pool);
	return is_out;
}

/* Under the lock: the first deadline to come, of what waits here and of what runs, which may wait again, here or elsewhere,
 * when it comes. */
static uint64_t next_deadline(const struct inf_pool *pool, uint64_t now_ns)
{
	uint64_t next_ns = inf_sched_next_deadline(&pool->sched);
	for (uint32_t i = 0; i < pool->n_threads; i++) {
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
		disown(item);
	*ret_next_ns = next_deadline(pool, now_ns);
	unlock_and_wake(pool);
	return item;
}

void inf_pool_end_of_stream_item(struct inf_pool *pool, struct inf_item *item)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	inf_sched_end_of_stream_item(&pool->sched, item, now_ns);
	unlock_and_wake(pool);
}

struct inf_worker *inf_pool_worker(struct inf_pool *pool, uint32_t worker)
{
	return &pool->threads[worker].worker;
}

static uint64_t thread_sets_bytes(const struct et_registry *registry, struct et_worker_threads *const *thread_sets)
{
	uint64_t n = 0;
	for (size_t i = 0; thread_sets && i < registry->n_backends; i++)
		if (thread_sets[i] && registry->backends[i].ops->threads_bytes)
			n += registry->backends[i].ops->threads_bytes(thread_sets[i]);
	return n;
}

uint64_t inf_worker_threads_bytes(const struct inf_worker *worker)
{
	const struct et_registry *registry = worker->pool->options.registry;
	return thread_sets_bytes(registry, worker->single_core_thread_sets) +
	       thread_sets_bytes(registry, worker->all_cores_thread_sets);
}

void inf_pool_post(struct inf_pool *pool, uint32_t worker, struct inf_task *task)
{
	struct thread *t = &pool->threads[worker];
	pthread_mutex_lock(&pool->lock);
	et_list_append(&t->tasks, &task->node);
	atomic_store_explicit(&t->has_tasks, true, memory_order_relaxed);
	et_list_remove(&t->idle);
	unlock_and_wake(pool);
	wake(t);
}

bool inf_pool_take_back(struct inf_pool *pool, uint32_t worker, struct inf_task *task)
{
	struct thread *t = &pool->threads[worker];
	pthread_mutex_lock(&pool->lock);
	bool is_there = !et_list_is_empty(&task->node);
	et_list_remove(&task->node);
	atomic_store_explicit(&t->has_tasks, !et_list_is_empty(&t->tasks), memory_order_relaxed);
	unlock_and_wake(pool);
	return is_there;
}

void inf_pool_stats(struct inf_pool *pool, struct inf_pool_stats *ret_stats)
{
	pthread_mutex_lock(&pool->lock);
	*ret_stats = (struct inf_pool_stats){ pool->sched.n_running, pool->sched.n_waiting + pool->sched.n_blocked,
		pool->busy_ns, pool->n_completed };
	pthread_mutex_unlock(&pool->lock);
}

/* Since when @t has been in the same instruction; 0: it is idle. */
static uint64_t check(struct thread *t, uint64_t now_ns)
{
	uint64_t since_ns = atomic_load_explicit(&t->busy_since_ns, memory_order_relaxed);
	uint32_t n_steps = atomic_load_explicit(&t->n_steps, memory_order_relaxed);
	if (n_steps != t->seen_steps) { /* a long run, not a stuck one */
		t->seen_steps = n_steps;
		t->seen_ns = now_ns;
	}
	return since_ns && since_ns < t->seen_ns ? t->seen_ns : since_ns;
}

void inf_pool_check(struct inf_pool *pool,
	void (*scan)(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns), void *self)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	for (uint32_t i = 0; i < pool->n_threads; i++) {
		struct thread *t = &pool->threads[i];
		uint64_t since_ns = check(t, now_ns);
		if (since_ns && (t->item || t->is_in_task))
			scan(self, t->item, i, since_ns);
	}
	unlock_and_wake(pool);
}

void inf_pool_loosen(struct inf_pool *pool, uint64_t after_ns)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	pthread_mutex_lock(&pool->lock);
	uint64_t since_ns = check(&pool->threads[0], now_ns);
	if (pool->sched.is_all_cores_running && pool->sched.n_waiting && since_ns && now_ns > since_ns &&
		now_ns - since_ns > after_ns)
		inf_sched_single_core(&pool->sched);
	unlock_and_wake(pool);
}
