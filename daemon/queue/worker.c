/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of a pool.
 *
 * A worker loops: settle the request that it ran, take the next one, deliver the result, run. Only when there is
 * nothing to take does it spin for a short while (if it has just worked, because a client that got its answer often
 * sends the next request) and then sleep. Each thread sleeps on one futex word, `wake`:
 *     AWAKE -> ASLEEP   by the thread itself, before it waits
 *     any   -> WOKEN    by the caller that has work for it; a futex call only if it was ASLEEP
 * A thread in the idle list may be woken; the waker takes it out of the list under the lock, so two requests wake
 * two workers. WOKEN stays set until the thread sleeps again, so a thread may wake for work that it has found by
 * itself.
 *
 * What must always be true:
 *   - A worker's thread sets and scratch memory belong to its own thread, or to the loop thread while is_lent is set.
 *   - A worker does all tasks posted to it before it takes a request: a model is READY when one worker of a queue is
 *     prepared for it (model.c), and each other worker is prepared before it takes a request of the model.
 *   - While the first worker does a task it can't run requests on all cores, so the scheduler gives none. */
#include "daemon/queue/pool_internal.h"

#include "ipc/spin.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { AWAKE, ASLEEP, WOKEN };
enum { SLICE_NS = 100 * 1000 * 1000 };

/* --- sleeping and waking -------------------------------------------------------------------------- */

void inf_pool_thread_wake(struct inf_pool_thread *t)
{
	/* release: pairs with the acquire loads in spin and sleep_until_woken */
	if (atomic_exchange_explicit(&t->wake, WOKEN, memory_order_acq_rel) == ASLEEP)
		syscall(SYS_futex, &t->wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Spin until @t is woken or the time is up; whether it was woken. */
static bool spin(struct inf_pool_thread *t, uint64_t spin_ns)
{
	struct inf_pool *pool = t->worker.pool;
	bool is_woken = false;
	/* at most one worker spins: a client could use the core */
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

static void sleep_until_woken(struct inf_pool_thread *t, uint64_t spin_ns)
{
	if (!spin(t, spin_ns)) {
		uint32_t expected = AWAKE;
		atomic_compare_exchange_strong_explicit(&t->wake, &expected, ASLEEP, memory_order_acq_rel,
			memory_order_acquire);
		while (atomic_load_explicit(&t->wake, memory_order_acquire) == ASLEEP)
			syscall(SYS_futex, &t->wake, FUTEX_WAIT_PRIVATE, ASLEEP, NULL, NULL, 0);
	}
	/* An exchange, not a store: it acquires a wake-up that came meanwhile, so that the thread sees the work of that
	 * one under the lock that follows. */
	atomic_exchange_explicit(&t->wake, AWAKE, memory_order_acq_rel);
}

/* --- a worker's life ------------------------------------------------------------------------------ */

/* Only this thread writes n_steps and step_ns. */
static void count_step(struct inf_pool_thread *t)
{
	uint32_t n = atomic_load_explicit(&t->n_steps, memory_order_relaxed);
	atomic_store_explicit(&t->n_steps, n + 1, memory_order_relaxed);
	if (t->item->notes_steps)
		atomic_store_explicit(&t->step_ns, et_platform_now_ns(NULL), memory_order_relaxed);
}

/* Between two instructions: yield to a higher class and to a task of this worker, and to any waiting request after
 * a slice of time, so that a program that never ends takes its client's share and no more. The slice is far longer
 * than most requests, because an interrupted request keeps its activations. */
static bool should_yield(void *self)
{
	struct inf_pool_thread *t = self;
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

/* A run on all cores also yields to any waiting request at once, and, when it has lost what it could win, to itself on
 * one core: where other processes use the cores, its threads wait for each other. */
static bool should_yield_all_cores(void *self)
{
	struct inf_pool_thread *t = self;
	struct inf_item *item = t->item;
	count_step(t);
	if (atomic_load_explicit(&t->has_tasks, memory_order_relaxed) ||
		atomic_load_explicit(&t->worker.pool->n_waiting, memory_order_relaxed) > 0)
		return true;
	if (!item->all_cores_max_ns ||
		et_platform_now_ns(NULL) - atomic_load_explicit(&t->busy_since_ns, memory_order_relaxed) <
			item->all_cores_max_ns)
		return false;
	item->prefers_single_core = true;
	return true;
}

static void run_task(struct inf_pool *pool, struct inf_pool_thread *t)
{
	struct inf_task *task = ET_CONTAINER_OF(t->tasks.next, struct inf_task, node);
	et_list_remove(&task->node);
	atomic_fetch_sub_explicit(&pool->n_tasks, 1, memory_order_relaxed);
	atomic_store_explicit(&t->has_tasks, !et_list_is_empty(&t->tasks), memory_order_relaxed);
	if (t->worker.index == 0)
		pool->sched.options.has_all_cores = false;
	t->is_in_task = true;
	atomic_store_explicit(&t->busy_since_ns, et_platform_now_ns(NULL), memory_order_relaxed);
	inf_pool_unlock(pool);
	task->run(task, &t->worker);
	atomic_store_explicit(&t->busy_since_ns, 0, memory_order_relaxed);
	pthread_mutex_lock(&pool->lock);
	t->is_in_task = false;
	if (t->worker.index == 0)
		pool->sched.options.has_all_cores = pool->has_all_cores;
}

/* The clocks of this thread, before or after a run. */
struct clocks {
	uint64_t wall_ns, core_ns;
	long n_sleeps;
};

/* The core's time is not getrusage's: that counts in ticks of the kernel, so a run of one and a half ticks would be
 * charged for one or two, and a client that was charged for two would wait while others overtake it. */
static void read_clocks(struct clocks *ret_clocks)
{
	struct rusage now;
	struct timespec core;
	getrusage(RUSAGE_THREAD, &now);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &core);
	ret_clocks->wall_ns = et_platform_now_ns(NULL);
	ret_clocks->core_ns = (uint64_t)core.tv_sec * 1000000000u + (uint64_t)core.tv_nsec;
	ret_clocks->n_sleeps = now.ru_nvcsw;
}

/* The time that a run is charged for. On a device's queue that is the time for which the device worked, if its driver
 * knows: several runs wait for one device at the same time. Otherwise it does not include the time for which the kernel
 * gave the core to other processes, or the run's client would wait longer the next time, too. A run that waited for
 * another device or process occupied its worker all the while, and a run on all cores used other threads as well: these
 * are charged for the wall time. */
static uint64_t charge(const struct inf_pool_thread *t, const struct inf_item *item, const struct clocks *began,
	const struct clocks *ended)
{
	uint64_t wall_ns = ended->wall_ns - began->wall_ns, core_ns = ended->core_ns - began->core_ns;
	if (t->worker.pool->options.queue.kind != ET_QUEUE_CPU && item->device_ns)
		return item->device_ns < wall_ns ? item->device_ns : wall_ns;
	bool is_core_time_complete = t->worker.pool->options.queue.kind == ET_QUEUE_CPU && !item->is_all_cores &&
				     began->n_sleeps == ended->n_sleeps;
	return is_core_time_complete && core_ns < wall_ns ? core_ns : wall_ns;
}

/* Called with the pool's lock. */
static void settle(struct inf_pool_thread *t, struct inf_item *item, enum inf_segment_end end,
	const struct clocks *began, const struct clocks *ended, uint64_t now_ns)
{
	struct inf_pool *pool = t->worker.pool;
	uint64_t charged_ns = charge(t, item, began, ended);
	bool is_device = pool->options.queue.kind != ET_QUEUE_CPU && item->device_ns;
	inf_pool_settle(pool, item, end, is_device ? charged_ns : now_ns - began->wall_ns, charged_ns, now_ns);
}

static void work(struct inf_pool_thread *t)
{
	struct inf_pool *pool = t->worker.pool;
	const struct inf_pool_events *events = &pool->events;
	struct inf_item *ran = NULL, *item;
	enum inf_segment_end end = INF_SEGMENT_ENDED;
	struct clocks began = { 0 }, ended = { 0 };
	uint64_t spin_ns = 0;

	for (;;) {
		uint64_t now_ns = ran ? ended.wall_ns : et_platform_now_ns(NULL);
		pthread_mutex_lock(&pool->lock);
		while (t->is_lent)
			pthread_cond_wait(&pool->changed, &pool->lock);
		et_list_remove(&t->idle);
		if (ran)
			settle(t, ran, end, &began, &ended, now_ns);
		inf_pool_come_back(pool, t);
		struct inf_item *expired = inf_sched_take_expired(&pool->sched, now_ns);
		if (expired)
			inf_pool_disown(expired);
		bool has_task = !ran && !expired && !et_list_is_empty(&t->tasks);
		if (has_task) {
			run_task(pool, t);
			inf_pool_unlock(pool);
			continue;
		}
		bool may_take = et_list_is_empty(&t->tasks) && (!t->worker.is_spare || inf_pool_n_spares_used(pool));
		item = may_take ? inf_sched_take(&pool->sched, t->worker.index == 0, now_ns) : NULL;
		t->item = item;
		bool must_sleep = !item && !ran && !expired && et_list_is_empty(&t->tasks);
		if (must_sleep && pool->is_stopping) {
			pthread_mutex_unlock(&pool->lock);
			return;
		}
		if (must_sleep) {
			struct et_list_node *idle = t->worker.is_spare ? &pool->idle_spares : &pool->idle;
			t->idle.prev = idle; /* to the front: its caches are warmest */
			t->idle.next = idle->next;
			idle->next->prev = &t->idle;
			idle->next = &t->idle;
		}
		inf_pool_unlock(pool);

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
		read_clocks(&began);
		atomic_store_explicit(&t->priority_class, item->priority_class, memory_order_relaxed);
		atomic_store_explicit(&t->busy_since_ns, began.wall_ns, memory_order_relaxed);
		count_step(t);
		end = events->run(events->self, item, &t->worker);
		et_compute_rest(t->worker.all_cores.compute); /* before the reply: the client needs a core */
		atomic_store_explicit(&t->busy_since_ns, 0, memory_order_relaxed);
		read_clocks(&ended);
		et_pool_reset(&t->scratch);
		ran = item;
	}
}

/* --- starting ------------------------------------------------------------------------------------- */

static void free_thread_sets(const struct et_registry *registry, struct et_worker_threads **thread_sets)
{
	for (size_t i = 0; thread_sets && i < registry->n_backends; i++)
		if (thread_sets[i])
			registry->backends[i].ops->threads_free(thread_sets[i]);
	free(thread_sets);
}

/* Make a thread set for each backend that has a device of this queue. */
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

static enum et_status thread_init(struct inf_pool_thread *t)
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
		.worker_index = pool->options.first_worker + t->worker.index +
				(t->worker.is_spare && pool->has_all_cores), /* which has the index before */
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
	/* release: pairs with the acquire in inf_pool_threads_bytes */
	atomic_store_explicit(&t->has_thread_sets, true, memory_order_release);
	return ET_OK;
}

void *inf_pool_thread_main(void *arg)
{
	struct inf_pool_thread *t = arg;
	struct inf_pool *pool = t->worker.pool;
	enum et_status status = thread_init(t);
	pthread_mutex_lock(&pool->lock);
	pool->n_started++;
	pool->n_failed += status != ET_OK;
	t->has_failed = status != ET_OK;
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

/* --- memory --------------------------------------------------------------------------------------- */

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

uint64_t inf_pool_threads_bytes(const struct inf_pool *pool)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < pool->n_threads + pool->n_spares; i++)
		if (atomic_load_explicit(&pool->threads[i].has_thread_sets, memory_order_acquire))
			n += inf_worker_threads_bytes(&pool->threads[i].worker);
	return n;
}
