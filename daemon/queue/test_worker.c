/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool: a worker does not use its thread sets while the loop thread has borrowed them, does tasks before
 * requests, and is charged for the right time; the threads of a run on all cores rest before the reply. */
#include "daemon/queue/pool.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <cmocka.h>

/* Spin so many times, or so many times with a yield: under load each takes long, and few are enough. */
enum { N_ROUNDS = 200, N_LOOKS = 200, N_SWITCHES = 4 };

struct world {
	struct inf_pool *pool;
	struct inf_group group;
	struct inf_flow flow;
	struct inf_item item;
	struct inf_task task;
	pthread_t loop;
	_Atomic(bool) is_off_home_queue_in, has_met;
	_Atomic(uint32_t) n_tasks, n_ended, n_inline;
};

static void run_task(struct inf_task *task, struct inf_worker *worker)
{
	struct world *w = ET_CONTAINER_OF(task, struct world, task);
	if (atomic_load(&w->is_off_home_queue_in))
		atomic_store(&w->has_met, true);
	atomic_fetch_add(&w->n_tasks, 1);
}

/* How often this thread has yielded its core. */
static long count_switches(void)
{
	struct rusage use;
	assert_int_equal(getrusage(RUSAGE_THREAD, &use), 0);
	return use.ru_nvcsw + use.ru_nivcsw;
}

/* Runs on the loop thread: have the worker woken, and give it time to run. */
static enum inf_segment_end run_item(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct world *w = self;
	if (!pthread_equal(pthread_self(), w->loop))
		return INF_SEGMENT_ENDED;
	atomic_store(&w->is_off_home_queue_in, true);
	et_list_init(&w->task.node);
	inf_pool_post(w->pool, worker->index, &w->task);
	long n_before = count_switches();
	for (int i = 0; i < N_LOOKS && !atomic_load(&w->has_met) && count_switches() - n_before < N_SWITCHES; i++)
		sched_yield();
	atomic_store(&w->is_off_home_queue_in, false);
	atomic_fetch_add(&w->n_inline, 1);
	return INF_SEGMENT_ENDED;
}

static void finished(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct world *w = self;
	atomic_fetch_add(&w->n_ended, 1);
}

static void never(void *self, struct inf_item *item, struct inf_worker *worker)
{
	fail();
}

static void test_inline_worker_is_alone(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	assert_non_null(w);
	const struct et_registry registry = { 0 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .registry = &registry, .log = &log, .allocator = et_platform_allocator()
	};
	const struct inf_pool_events events = {
		.self = w, .run = run_item, .finished = finished, .left = never, .expired = never
	};
	struct et_diag diag = { 0 };
	w->loop = pthread_self();
	w->task.run = run_task;
	assert_int_equal(inf_pool_new(&w->pool, &options, &events, &diag), 0);
	inf_group_init(&w->group, 1);
	inf_flow_init(&w->flow, &w->group, 1);
	for (uint32_t i = 0; atomic_load(&w->n_inline) < N_ROUNDS; i++) { /* if the worker was busy, it ran there */
		w->item = (struct inf_item){ .flow = &w->flow, .priority_class = INF_CLASS_INTERACTIVE };
		uint32_t n_inline = atomic_load(&w->n_inline);
		bool was_here = inf_pool_submit_quick(w->pool, &w->item);
		assert_int_equal(atomic_load(&w->n_inline) - n_inline, was_here);
		while (atomic_load(&w->n_ended) <= i || atomic_load(&w->n_tasks) < atomic_load(&w->n_inline))
			sched_yield();
	}
	assert_false(atomic_load(&w->has_met));
	inf_pool_free(w->pool);
	free(w);
}

/* --- tasks before requests ------------------------------------------------------------------------------ */

struct sequence {
	struct inf_task hold, task;
	struct inf_item items[2];
	_Atomic(bool) is_held, may_go;
	_Atomic(uint32_t) n_tasks, n_begun, n_ended;
	bool is_late; /* a request began before the task that makes its model's instances */
};

static void hold(struct inf_task *task, struct inf_worker *worker)
{
	struct sequence *s = ET_CONTAINER_OF(task, struct sequence, hold);
	atomic_store(&s->is_held, true);
	while (!atomic_load(&s->may_go))
		sched_yield();
}

static void count_task(struct inf_task *task, struct inf_worker *worker)
{
	atomic_fetch_add(&ET_CONTAINER_OF(task, struct sequence, task)->n_tasks, 1);
}

static enum inf_segment_end count_item(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct sequence *s = self;
	s->is_late = s->is_late || !atomic_load(&s->n_tasks);
	atomic_fetch_add(&s->n_begun, 1);
	return INF_SEGMENT_ENDED;
}

static void count_end(void *self, struct inf_item *item, struct inf_worker *worker)
{
	atomic_fetch_add(&((struct sequence *)self)->n_ended, 1);
}

/* A model is READY when one worker has its instances; the other workers must do their tasks before they take a
 * request. */
static void test_tasks_come_first(void **state)
{
	struct sequence s = { .hold.run = hold, .task.run = count_task };
	const struct et_registry registry = { 0 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .registry = &registry, .log = &log, .allocator = et_platform_allocator()
	};
	const struct inf_pool_events events = {
		.self = &s, .run = count_item, .finished = count_end, .left = never, .expired = never
	};
	struct inf_group group;
	struct inf_flow flow;
	struct inf_pool *pool;
	struct et_diag diag = { 0 };
	assert_int_equal(inf_pool_new(&pool, &options, &events, &diag), 0);
	inf_group_init(&group, 1);
	inf_flow_init(&flow, &group, 1);
	et_list_init(&s.hold.node);
	et_list_init(&s.task.node);
	inf_pool_post(pool, 0, &s.hold);
	while (!atomic_load(&s.is_held))
		sched_yield();
	for (int i = 0; i < 2; i++) {
		s.items[i] = (struct inf_item){ .flow = &flow, .priority_class = INF_CLASS_INTERACTIVE };
		inf_pool_submit(pool, &s.items[i]);
		if (i == 0)
			inf_pool_post(pool, 0, &s.task);
	}
	atomic_store(&s.may_go, true);
	while (atomic_load(&s.n_ended) < 2)
		sched_yield();
	assert_int_equal(s.n_tasks, 1);
	assert_int_equal(s.n_begun, 2);
	assert_false(s.is_late);
	inf_pool_free(pool);
}

/* --- deadlines ------------------------------------------------------------------------------------------ */

struct run_at_hand {
	_Atomic(bool) is_running, may_end;
	_Atomic(uint32_t) n_ended;
};

static enum inf_segment_end run_until_told(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct run_at_hand *run = self;
	atomic_store(&run->is_running, true);
	while (!atomic_load(&run->may_end))
		sched_yield();
	return INF_SEGMENT_ENDED;
}

static void count_run(void *self, struct inf_item *item, struct inf_worker *worker)
{
	atomic_fetch_add(&((struct run_at_hand *)self)->n_ended, 1);
}

/* The deadline of a running request is reported, too: before it passes the run may wait again, behind another
 * request that takes long. */
static void test_deadline_of_what_runs(void **state)
{
	struct run_at_hand run = { false };
	const struct et_registry registry = { 0 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .registry = &registry, .log = &log, .allocator = et_platform_allocator()
	};
	const struct inf_pool_events events = {
		.self = &run, .run = run_until_told, .finished = count_run, .left = never, .expired = never
	};
	const uint64_t in_a_year_ns = et_platform_now_ns(NULL) + UINT64_C(365) * 86400 * 1000000000;
	struct inf_item item = { .priority_class = INF_CLASS_INTERACTIVE, .deadline_ns = in_a_year_ns };
	struct inf_group group;
	struct inf_flow flow;
	struct inf_pool *pool;
	struct et_diag diag = { 0 };
	uint64_t next_ns;
	assert_int_equal(inf_pool_new(&pool, &options, &events, &diag), 0);
	inf_group_init(&group, 1);
	inf_flow_init(&flow, &group, 1);
	item.flow = &flow;
	assert_null(inf_pool_take_expired(pool, &next_ns));
	assert_true(next_ns == UINT64_MAX);
	inf_pool_submit(pool, &item);
	while (!atomic_load(&run.is_running))
		sched_yield();
	assert_null(inf_pool_take_expired(pool, &next_ns));
	assert_true(next_ns == in_a_year_ns);
	atomic_store(&run.may_end, true);
	while (!atomic_load(&run.n_ended))
		sched_yield();
	assert_null(inf_pool_take_expired(pool, &next_ns));
	assert_true(next_ns == UINT64_MAX);
	inf_pool_free(pool);
}

/* --- a delegate that counts how often its threads are told to rest ----------------------------------------- */

struct et_worker_threads {
	struct et_compute compute;
};

static _Atomic(uint32_t) n_rests;
static uint32_t n_rests_at_reply;

static void rest(void *self)
{
	atomic_fetch_add(&n_rests, 1);
}

static uint32_t one_device(const struct et_backend *backend)
{
	return 1;
}

static void device(const struct et_backend *backend, uint32_t index, struct et_device *ret_device)
{
	*ret_device = (struct et_device){ .kind = ET_QUEUE_CPU };
}

static enum et_status threads_new(struct et_backend *backend, uint32_t index, uint32_t n_threads,
	struct et_worker_threads **ret_threads, struct et_diag *diag)
{
	struct et_worker_threads *threads = calloc(1, sizeof(*threads));
	assert_non_null(threads);
	threads->compute.rest = n_threads > 1 ? rest : NULL;
	*ret_threads = threads;
	return ET_OK;
}

static void threads_free(struct et_worker_threads *threads)
{
	free(threads);
}

static const struct et_compute *threads_compute(struct et_worker_threads *threads)
{
	return &threads->compute;
}

static enum inf_segment_end run_all_cores(void *self, struct inf_item *item, struct inf_worker *worker)
{
	assert_true(item->is_all_cores);
	return INF_SEGMENT_ENDED;
}

static void note_rests(void *self, struct inf_item *item, struct inf_worker *worker)
{
	n_rests_at_reply = atomic_load(&n_rests);
	finished(self, item, worker);
}

/* Open a pool of two workers, the first with all cores. */
static void open_all_cores(struct world *w, const struct et_registry *registry,
	enum inf_segment_end (*run)(void *self, struct inf_item *item, struct inf_worker *worker),
	void (*at_end)(void *self, struct inf_item *item, struct inf_worker *worker))
{
	static const struct et_log log = { 0 };
	const struct inf_pool_options options = { .n_workers = 2,
		.has_all_cores = true,
		.registry = registry,
		.log = &log,
		.allocator = et_platform_allocator() };
	const struct inf_pool_events events = {
		.self = w, .run = run, .finished = at_end, .left = never, .expired = never
	};
	struct et_diag diag = { 0 };
	assert_int_equal(inf_pool_new(&w->pool, &options, &events, &diag), 0);
	inf_group_init(&w->group, 1);
	inf_flow_init(&w->flow, &w->group, 1);
}

static void test_threads_rest_before_the_reply(void **state)
{
	static const struct et_delegate_ops ops = { .n_devices = one_device,
		.device = device,
		.threads_new = threads_new,
		.threads_free = threads_free,
		.threads_compute = threads_compute };
	const struct et_backend_entry entry = { &ops, NULL };
	const struct et_registry registry = { .backends = &entry, .n_backends = 1 };
	struct world w = { 0 };
	open_all_cores(&w, &registry, run_all_cores, note_rests);
	assert_int_equal(atomic_load(&n_rests), 1); /* as soon as they are there */
	w.item = (struct inf_item){ .flow = &w.flow, .priority_class = INF_CLASS_INTERACTIVE };
	inf_pool_submit(w.pool, &w.item);
	while (atomic_load(&w.n_ended) == 0)
		sched_yield();
	assert_int_equal(n_rests_at_reply, 2);
	inf_pool_free(w.pool);
}

/* --- long runs ------------------------------------------------------------------------------------------ */

struct long_run {
	struct inf_item item;
	_Atomic(bool) may_end, has_begun;
	_Atomic(uint32_t) n_ended;
	bool was_spare;
};

static enum inf_segment_end run_long(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct long_run *run = ET_CONTAINER_OF(item, struct long_run, item);
	run->was_spare = worker->is_spare;
	while (!atomic_load(&run->may_end))
		sched_yield();
	return INF_SEGMENT_ENDED;
}

static void end_long(void *self, struct inf_item *item, struct inf_worker *worker)
{
	atomic_fetch_add(&ET_CONTAINER_OF(item, struct long_run, item)->n_ended, 1);
}

static uint64_t threads_bytes(const struct et_worker_threads *threads)
{
	return 100;
}

static uint32_t n_spares(struct inf_pool *pool)
{
	struct inf_pool_stats stats;
	inf_pool_stats(pool, &stats);
	return stats.n_spares;
}

/* The only worker is in a run that does not end, of a user who has another one waiting: a spare worker serves another
 * user, but not before a run counts as long, and not that user's second run. When the run ends, all is as before. */
static void test_long_run_is_relieved(void **state)
{
	enum { LONG_NS = 1000 * 1000 };
	static struct long_run hog[2], victim;
	static const struct et_delegate_ops ops = { .n_devices = one_device,
		.device = device,
		.threads_new = threads_new,
		.threads_free = threads_free,
		.threads_bytes = threads_bytes };
	const struct et_backend_entry entry = { &ops, NULL };
	const struct et_registry registry = { .backends = &entry, .n_backends = 1 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .n_spares = 2, .registry = &registry, .log = &log, .allocator = et_platform_allocator()
	};
	const struct inf_pool_events events = {
		.run = run_long, .finished = end_long, .left = never, .expired = never
	};
	struct inf_group groups[2];
	struct inf_flow flows[2];
	struct inf_pool *pool;
	bool is_first = false;
	struct et_diag diag = { 0 };
	assert_int_equal(inf_pool_new(&pool, &options, &events, &diag), 0);
	for (int i = 0; i < 2; i++) {
		inf_group_init(&groups[i], 1);
		inf_flow_init(&flows[i], &groups[i], 1);
		hog[i].item = (struct inf_item){ .flow = &flows[0],
			.priority_class = INF_CLASS_INTERACTIVE,
			.long_ns = i ? LONG_NS : UINT64_MAX / 2 };
		inf_pool_submit(pool, &hog[i].item);
	}
	victim.item = (struct inf_item){
		.flow = &flows[1], .priority_class = INF_CLASS_INTERACTIVE, .long_ns = LONG_NS
	};
	atomic_store(&victim.may_end, true);
	inf_pool_submit(pool, &victim.item);
	for (int i = 0; i < 3; i++)
		assert_true(inf_pool_relieve(pool, false, &is_first) != UINT64_MAX);
	assert_false(is_first);
	assert_int_equal(n_spares(pool), 0);
	assert_int_equal(inf_pool_threads_bytes(pool), 100);
	atomic_store(&hog[0].may_end, true);
	while (atomic_load(&hog[0].n_ended) == 0 || atomic_load(&victim.n_ended) == 0)
		sched_yield();

	while (inf_pool_is_waiting(pool)) /* the second one begins */
		sched_yield();
	victim.item = (struct inf_item){
		.flow = &flows[1], .priority_class = INF_CLASS_INTERACTIVE, .long_ns = LONG_NS
	};
	inf_pool_submit(pool, &victim.item);
	inf_pool_submit(pool, &hog[0].item);
	while (atomic_load(&victim.n_ended) < 2) {
		inf_pool_relieve(pool, false, &is_first);
		sched_yield();
	}
	assert_true(victim.was_spare && is_first);
	assert_int_equal(n_spares(pool), 1);
	assert_int_equal(inf_pool_threads_bytes(pool), 200); /* what the spare worker makes counts, too */
	assert_int_equal(atomic_load(&hog[0].n_ended), 1);
	atomic_store(&hog[1].may_end, true);
	while (atomic_load(&hog[0].n_ended) < 2)
		sched_yield();
	assert_false(hog[0].was_spare);
	assert_int_equal(n_spares(pool), 0);
	inf_pool_free(pool);
}

static void spin_for(uint64_t ns)
{
	uint64_t end_ns = et_platform_now_ns(NULL) + ns;
	while (et_platform_now_ns(NULL) <= end_ns)
		sched_yield();
}

/* A run that asks once whether it should yield, and then is in one instruction until it may end. */
static enum inf_segment_end run_a_long_step(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct long_run *run = ET_CONTAINER_OF(item, struct long_run, item);
	const struct et_worker_env *env = &worker->single_core;
	run->was_spare = worker->is_spare;
	env->should_yield(env->yield_self);
	atomic_store(&run->has_begun, true);
	return run_long(self, item, worker);
}

/* A run with notes_steps that was in one instruction for long before anybody looked: it is long at the first look. One
 * without is not. */
static void test_steps_are_noted(void **state)
{
	enum { LONG_NS = 1000 * 1000 };
	const struct et_registry registry = { 0 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .n_spares = 2, .registry = &registry, .log = &log, .allocator = et_platform_allocator()
	};
	const struct inf_pool_events events = {
		.run = run_a_long_step, .finished = end_long, .left = never, .expired = never
	};
	for (int notes_steps = 0; notes_steps < 2; notes_steps++) {
		struct long_run hog = { .was_spare = true }, victim = { .may_end = true };
		struct inf_group groups[2];
		struct inf_flow flows[2];
		struct inf_pool *pool;
		bool is_first = false;
		struct et_diag diag = { 0 };
		assert_int_equal(inf_pool_new(&pool, &options, &events, &diag), 0);
		for (int i = 0; i < 2; i++) {
			inf_group_init(&groups[i], 1);
			inf_flow_init(&flows[i], &groups[i], 1);
		}
		hog.item = (struct inf_item){ .flow = &flows[0],
			.priority_class = INF_CLASS_INTERACTIVE,
			.long_ns = LONG_NS,
			.notes_steps = notes_steps };
		victim.item = (struct inf_item){
			.flow = &flows[1], .priority_class = INF_CLASS_INTERACTIVE, .long_ns = LONG_NS
		};
		inf_pool_submit(pool, &hog.item);
		while (!atomic_load(&hog.has_begun))
			sched_yield();
		spin_for(LONG_NS);
		inf_pool_submit(pool, &victim.item);
		inf_pool_relieve(pool, false, &is_first);
		assert_true(is_first == notes_steps);
		atomic_store(&hog.may_end, !notes_steps);
		while (atomic_load(&victim.n_ended) == 0)
			sched_yield();
		assert_true(victim.was_spare == notes_steps);
		atomic_store(&hog.may_end, true);
		while (atomic_load(&hog.n_ended) == 0)
			sched_yield();
		inf_pool_free(pool);
	}
}

/* A user's requests wait behind his own long run, so a look found nobody to help. The request of another user that
 * comes then does not wait for the next look. */
static void test_who_comes_is_looked_at(void **state)
{
	enum { LONG_NS = 1000 * 1000 };
	const struct et_registry registry = { 0 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .n_spares = 2, .registry = &registry, .log = &log, .allocator = et_platform_allocator()
	};
	const struct inf_pool_events events = {
		.run = run_a_long_step, .finished = end_long, .left = never, .expired = never
	};
	struct long_run hog = { .was_spare = true }, next = { .may_end = true }, victim = { .may_end = true };
	struct long_run *runs[] = { &hog, &next, &victim };
	struct inf_group groups[2];
	struct inf_flow flows[2];
	struct inf_pool *pool;
	bool is_first = false;
	struct et_diag diag = { 0 };
	assert_int_equal(inf_pool_new(&pool, &options, &events, &diag), 0);
	for (int i = 0; i < 2; i++) {
		inf_group_init(&groups[i], 1);
		inf_flow_init(&flows[i], &groups[i], 1);
	}
	for (int i = 0; i < 3; i++)
		runs[i]->item = (struct inf_item){ .flow = &flows[i == 2],
			.priority_class = INF_CLASS_INTERACTIVE,
			.long_ns = LONG_NS,
			.notes_steps = true };
	inf_pool_submit(pool, &hog.item);
	inf_pool_submit(pool, &next.item);
	while (!atomic_load(&hog.has_begun))
		sched_yield();
	spin_for(LONG_NS);
	uint64_t next_ns = inf_pool_relieve(pool, true, &is_first);
	spin_for(LONG_NS);
	inf_pool_submit(pool, &victim.item);
	inf_pool_relieve(pool, true, &is_first);
	assert_true(is_first && next_ns != UINT64_MAX);
	while (atomic_load(&victim.n_ended) == 0)
		sched_yield();
	assert_true(victim.was_spare);
	atomic_store(&hog.may_end, true);
	while (atomic_load(&next.n_ended) == 0)
		sched_yield();
	inf_pool_free(pool);
}

/* --- the time on all cores -------------------------------------------------------------------------- */

/* A run whose instructions never end in time: it looks whether it should yield until it should. */
static enum inf_segment_end run_too_long(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct world *w = self;
	const struct et_worker_env *env = &worker->all_cores;
	if (!item->is_all_cores)
		return INF_SEGMENT_ENDED;
	atomic_fetch_add(&w->n_tasks, 1);
	while (!env->should_yield(env->yield_self))
		;
	return INF_SEGMENT_AGAIN;
}

/* Nothing else waits, and yet the run gives up all cores, and gets one. */
static void test_all_cores_are_lost(void **state)
{
	const struct et_registry registry = { 0 };
	struct world w = { 0 };
	open_all_cores(&w, &registry, run_too_long, finished);
	w.item = (struct inf_item){
		.flow = &w.flow, .priority_class = INF_CLASS_INTERACTIVE, .all_cores_max_ns = 1000 * 1000
	};
	inf_pool_submit(w.pool, &w.item);
	while (atomic_load(&w.n_ended) == 0)
		sched_yield();
	assert_int_equal(atomic_load(&w.n_tasks), 1); /* segments on all cores */
	assert_true(w.item.prefers_single_core);
	inf_pool_free(w.pool);
}

/* --- the charge of a run ---------------------------------------------------------------------------- */

enum { N_CHARGED = 16, BURN_NS = 5 * 1000 * 1000, PER_NS = 64 /* of virtual time, with weight 1 */ };

struct charged {
	struct inf_item item;
	uint64_t worker_ns; /* what the worker's thread has had of its core, when the last run was over */
	bool has_slept;     /* the last run; that is charged as it was by the clock on the wall */
	_Atomic(uint32_t) n_ended;
};

static uint64_t core_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static long n_sleeps(void)
{
	struct rusage now;
	getrusage(RUSAGE_THREAD, &now);
	return now.ru_nvcsw;
}

static enum inf_segment_end burn(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct charged *c = self;
	uint64_t until = core_ns() + BURN_NS;
	long before = n_sleeps();
	while (core_ns() < until)
		;
	c->has_slept = n_sleeps() != before;
	return INF_SEGMENT_ENDED;
}

static void burned(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct charged *c = self;
	c->worker_ns = core_ns();
	atomic_fetch_add(&c->n_ended, 1);
}

/* Bind this thread and those that it starts to one processor; false: that is not permitted. */
static bool share_one_processor(cpu_set_t *ret_before)
{
	cpu_set_t one;
	int i = 0;
	if (sched_getaffinity(0, sizeof(*ret_before), ret_before))
		return false;
	while (i < CPU_SETSIZE && !CPU_ISSET(i, ret_before))
		i++;
	if (i == CPU_SETSIZE)
		return false;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

/* Checks each run, not only their sum: a clock that counts in ticks shows nothing of most runs, and too much of
 * some. */
static void test_charge(void **state)
{
	struct charged c = { 0 };
	const struct et_registry registry = { 0 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .registry = &registry, .log = &log, .allocator = et_platform_allocator()
	};
	const struct inf_pool_events events = {
		.self = &c, .run = burn, .finished = burned, .left = never, .expired = never
	};
	struct inf_group group;
	struct inf_flow flow;
	struct inf_pool *pool;
	struct et_diag diag = { 0 };
	uint64_t worker_ns = 0;
	cpu_set_t processors;
	bool is_shared = share_one_processor(&processors);
	assert_int_equal(inf_pool_new(&pool, &options, &events, &diag), 0);
	inf_group_init(&group, 1);
	inf_flow_init(&flow, &group, 1);
	for (uint32_t i = 0; i < N_CHARGED; i++) {
		/* the worker is done with it before it says that it has ended */
		uint64_t before = flow.classes[INF_CLASS_BATCH].use.virtual_ns;
		c.item = (struct inf_item){ .flow = &flow, .priority_class = INF_CLASS_BATCH };
		inf_pool_submit(pool, &c.item);
		while (atomic_load(&c.n_ended) <= i)
			if (!is_shared)
				sched_yield();
		uint64_t charged = flow.classes[INF_CLASS_BATCH].use.virtual_ns - before;
		assert_true(charged >= (uint64_t)BURN_NS * PER_NS);
		assert_true(c.has_slept || charged <= (c.worker_ns - worker_ns) * PER_NS);
		worker_ns = c.worker_ns;
	}
	inf_pool_free(pool);
	if (is_shared)
		assert_int_equal(sched_setaffinity(0, sizeof(processors), &processors), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_rest_before_the_reply),
		cmocka_unit_test(test_all_cores_are_lost),
		cmocka_unit_test(test_inline_worker_is_alone),
		cmocka_unit_test(test_tasks_come_first),
		cmocka_unit_test(test_deadline_of_what_runs),
		cmocka_unit_test(test_long_run_is_relieved),
		cmocka_unit_test(test_steps_are_noted),
		cmocka_unit_test(test_who_comes_is_looked_at),
		cmocka_unit_test(test_charge),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
