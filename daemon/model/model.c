/* SPDX-License-Identifier: BSD-3-Clause */
/* One Plan in service.
 *
 * Contexts are made and released on the worker that owns the lane, by a task for each, which tells the loop when it ends.
 * READY does not wait for all of them, only for one worker of each queue: the others may be in a run that takes long,
 * or never ends. That is enough, because a worker does what it was posted before it takes a request: none ever comes to a
 * worker before that one's contexts. Nothing here waits: UNLOADING takes back what no worker has begun, and becomes
 * UNLOADED when the count of requests in flight and the count of tasks have both reached zero, whichever comes last.
 *
 * What must always be true: the Plan is only let go when every slot was released; frames never outnumber the
 * requests that have begun, nor the workers when these have ended; the requests of a serving that is not READY are refused
 * before they exist. */
#include "daemon/model/model.h"
#include "daemon/base/text.h"

#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *inf_model_state_name(enum inf_model_state state)
{
	static const char *const names[] = { "UNLOADED", "LOADING", "READY", "UNLOADING", "FAILED" };
	return state < ET_ARRAY_LEN(names) ? names[state] : "?";
}

struct inf_file_id inf_file_id(const struct stat *stat)
{
	return (struct inf_file_id){
		.dev = stat->st_dev,
		.ino = stat->st_ino,
		.n_bytes = (uint64_t)stat->st_size,
		.mtime_ns = (uint64_t)stat->st_mtim.tv_sec * 1000000000 + (uint64_t)stat->st_mtim.tv_nsec,
		.ctime_ns = (uint64_t)stat->st_ctim.tv_sec * 1000000000 + (uint64_t)stat->st_ctim.tv_nsec,
	};
}

bool inf_file_id_equal(const struct inf_file_id *a, const struct inf_file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->n_bytes == b->n_bytes && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns;
}

bool inf_data_ids_equal(const struct inf_data_ids *a, const struct inf_data_ids *b)
{
	for (uint32_t i = 0; i < a->n && i < b->n; i++)
		if (!inf_file_id_equal(&a->items[i], &b->items[i]))
			return false;
	return a->n == b->n;
}

uint64_t inf_data_ids_n_bytes(const struct inf_data_ids *ids)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < ids->n; i++)
		et_add_up(&n, ids->items[i].n_bytes);
	return n;
}

static void set_state(struct inf_model *s, enum inf_model_state state)
{
	static const bool may[5][5] = {
		[INF_MODEL_LOADING] = { [INF_MODEL_READY] = true, [INF_MODEL_FAILED] = true },
		[INF_MODEL_READY] = { [INF_MODEL_UNLOADING] = true },
		[INF_MODEL_UNLOADING] = { [INF_MODEL_UNLOADED] = true },
	};
	if (!may[s->state][state]) {
		et_logf(s->log, ET_LOG_ERROR, "model %s: refusing to go from %s to %s", s->model,
			inf_model_state_name(s->state), inf_model_state_name(state));
		return;
	}
	et_logf(s->log, ET_LOG_INFO, "model %s%s%s %s (%s): %s -> %s", s->model, s->version[0] ? "/" : "", s->version,
		s->method, s->backend ? s->backend : "?", inf_model_state_name(s->state), inf_model_state_name(state));
	s->state = state;
}

struct inf_model *inf_model_new(const struct inf_queues *queues, const struct inf_model_events *events,
	const struct et_allocator *shared_pages, const struct et_log *log, const char *model, const char *version,
	const char *method)
{
	struct inf_model *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	et_list_init(&s->node);
	s->n_refs = 1;
	s->state = INF_MODEL_LOADING;
	s->queues = queues;
	s->events = events;
	s->shared_pages = shared_pages;
	s->log = log;
	s->model = strdup(model);
	s->version = strdup(version);
	s->method = strdup(method);
	s->tasks = calloc(inf_queues_n_workers(queues), sizeof(*s->tasks));
	pthread_mutex_init(&s->frames_lock, NULL);
	if (!s->model || !s->version || !s->method || !s->tasks) {
		s->state = INF_MODEL_FAILED;
		return inf_model_unref(s);
	}
	return s;
}

struct inf_model *inf_model_ref(struct inf_model *s)
{
	s->n_refs++;
	return s;
}

static void free_frame(struct inf_model *s, struct inf_frame_entry *entry)
{
	et_frame_free(entry->frame);
	free(entry);
	atomic_fetch_sub_explicit(&s->n_frames, 1, memory_order_relaxed);
}

static void free_frames(struct inf_model *s)
{
	while (s->frames) {
		struct inf_frame_entry *entry = s->frames;
		s->frames = entry->next;
		s->n_frames_idle--;
		free_frame(s, entry);
	}
}

/* What the Program and the Plan take, when nothing else is left. */
static uint64_t lasting_bytes(const struct inf_model *s)
{
	struct inf_model_use use = inf_model_use(s);
	use.n_instances = use.n_frames = use.n_states = 0;
	return inf_model_total(&use);
}

struct inf_model *inf_model_unref(struct inf_model *s)
{
	if (!s || --s->n_refs)
		return NULL;
	free_frames(s);
	inf_model_unref(s->successor);
	s->events->release(s->events->self, s->program, s->plan, lasting_bytes(s), s->gone, s->gone_arg);
	pthread_mutex_destroy(&s->frames_lock);
	et_list_remove(&s->node);
	free(s->tasks);
	free(s->model);
	free(s->version);
	free(s->method);
	free(s->backend);
	free(s->path);
	free(s);
	return NULL;
}

/* --- preparing and releasing ---------------------------------------------------------------------- */

static enum et_status prepare(struct inf_model *s, uint32_t worker_index, struct et_worker_threads *const *thread_sets,
	struct et_diag *diag)
{
	enum et_status status = et_plan_prepare(s->plan, worker_index, thread_sets, diag);
	if (status == ET_OK) /* or the first client after the first would wait while a second worker takes its memory */
		et_plan_warm(s->plan, worker_index);
	return status;
}

static bool needs_instances(const struct inf_worker *worker, const struct et_plan *plan)
{
	return et_plan_needs_instances(plan, worker->single_core_thread_sets) ||
	       et_plan_needs_instances(plan, worker->all_cores_thread_sets);
}

static uint64_t grown(const struct inf_worker *worker, uint64_t before)
{
	uint64_t now = inf_worker_threads_bytes(worker);
	return now > before ? now - before : 0;
}

static void run_task(struct inf_task *base, struct inf_worker *worker)
{
	struct inf_model_task *task = ET_CONTAINER_OF(base, struct inf_model_task, task);
	struct inf_model *s = task->model;
	const struct inf_model_events events = *s->events;
	bool is_release = task->is_release;
	atomic_store_explicit(&task->has_begun, true, memory_order_relaxed);
	if (is_release) {
		et_plan_release(s->plan, worker->single_core.worker_index);
		if (worker->all_cores_thread_sets)
			et_plan_release(s->plan, worker->all_cores.worker_index);
	} else {
		/* What needs no contexts does not grow the lanes; what its worker makes for another model meanwhile does. */
		bool can_grow = needs_instances(worker, s->plan);
		uint64_t before = can_grow ? inf_worker_threads_bytes(worker) : 0;
		task->status = prepare(s, worker->single_core.worker_index, worker->single_core_thread_sets,
			&task->diag);
		task->n_single_core_bytes = can_grow ? grown(worker, before) : 0;
		if (task->status == ET_OK && worker->all_cores_thread_sets)
			task->status = prepare(s, worker->all_cores.worker_index, worker->all_cores_thread_sets,
				&task->diag);
		task->n_bytes = can_grow ? grown(worker, before) : 0;
	}
	/* release: pairs with the acquire in is_done, which then reads the status */
	atomic_store_explicit(&task->is_done, true, memory_order_release);
	/* release: pairs with the acquire in inf_model_poll; after it the loop may free everything */
	if (atomic_fetch_sub_explicit(&s->n_tasks_left, 1, memory_order_acq_rel) == 1 || !is_release)
		events.notify(events.whom);
}

static bool is_done(const struct inf_model_task *task)
{
	return atomic_load_explicit(&task->is_done, memory_order_acquire);
}

static bool has_instances(const struct inf_worker *worker, const struct et_plan *plan)
{
	return needs_instances(worker, plan) &&
	       (et_plan_is_prepared(plan, worker->single_core.worker_index) ||
		       (worker->all_cores_thread_sets && et_plan_is_prepared(plan, worker->all_cores.worker_index)));
}

static void post_tasks(struct inf_model *s, bool is_release)
{
	uint32_t n = inf_queues_n_workers(s->queues), at = 0;
	s->has_tasks = true;
	atomic_store(&s->n_tasks_left, n);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t n_bytes = is_release ? s->tasks[i].n_bytes : 0;
		s->tasks[i] = (struct inf_model_task){
			.task.run = run_task, .model = s, .is_release = is_release, .n_bytes = n_bytes
		};
		et_list_init(&s->tasks[i].task.node);
	}
	for (uint32_t q = 0; q < s->queues->n; q++)
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++) {
			struct inf_task *task = &s->tasks[at++].task;
			struct inf_worker *worker = inf_pool_worker(s->queues->pools[q], i);
			if (is_release ? has_instances(worker, s->plan) : needs_instances(worker, s->plan))
				inf_pool_post(s->queues->pools[q], i, task);
			else /* nothing that must be done on its thread, which may be busy for long */
				run_task(task, worker);
		}
}

/* What is no longer wanted and no worker has begun needs not be done. */
static void take_tasks_back(struct inf_model *s)
{
	uint32_t at = 0;
	for (uint32_t q = 0; q < s->queues->n; q++)
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++, at++)
			if (inf_pool_take_back(s->queues->pools[q], i, &s->tasks[at].task)) {
				atomic_store_explicit(&s->tasks[at].is_done, true, memory_order_relaxed);
				atomic_fetch_sub_explicit(&s->n_tasks_left, 1, memory_order_relaxed);
			}
}

bool inf_model_needs_worker(const struct inf_model *s, uint32_t queue, uint32_t worker)
{
	uint32_t at = worker;
	if (!s->plan)
		return false;
	for (uint32_t q = 0; q < queue; q++)
		at += inf_pool_n_workers(s->queues->pools[q]);
	const struct inf_model_task *task = &s->tasks[at];
	if (s->has_tasks && !is_done(task)) /* what has not begun can be taken back, but a release must be done */
		return task->is_release || atomic_load_explicit(&task->has_begun, memory_order_relaxed);
	return has_instances(inf_pool_worker(s->queues->pools[queue], worker), s->plan);
}

void inf_model_prepare(struct inf_model *s, struct et_program *program, struct et_plan *plan)
{
	s->program = program;
	s->plan = plan;
	s->info = et_plan_info(plan);
	post_tasks(s, false);
}

enum et_status inf_model_ensure(struct inf_model *s, struct inf_worker *worker, bool is_all_cores, struct et_diag *diag)
{
	uint32_t worker_index = is_all_cores ? worker->all_cores.worker_index : worker->single_core.worker_index;
	if (et_plan_is_prepared(s->plan, worker_index))
		return ET_OK;
	return prepare(s, worker_index, is_all_cores ? worker->all_cores_thread_sets : worker->single_core_thread_sets,
		diag);
}

static bool is_transient(enum et_status status)
{
	return status == ET_E_BACKEND_DOWN || status == ET_E_OUT_OF_RESOURCES ||
	       status == ET_E_MEMORY_ALLOCATION_FAILED || status == ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED;
}

void inf_model_note_failure(struct inf_model *s, enum et_status status)
{
	s->is_down = status == ET_E_BACKEND_DOWN;
	s->is_transient = is_transient(status);
	s->is_missing = status == ET_E_OPERATOR_MISSING || status == ET_E_BACKEND_MISSING ||
			status == ET_E_NOT_SUPPORTED;
	s->n_crashes += status == ET_E_BACKEND_CRASHED;
}

void inf_model_fail(struct inf_model *s, const char *reason)
{
	inf_text(s->reason, sizeof(s->reason), "%s", reason);
	set_state(s, INF_MODEL_FAILED);
	s->events->loaded(s->events->self, s);
}

enum { MAX_QUICK_STEPS = 1 << 20, MAX_QUICK_COPY = 64 * 1024 };

/* That all its runs were quick says nothing of the next one, which may come with larger shapes or take another branch. The
 * loop that runs it can stop between two instructions; so none may take long, nor what is copied before and after them.
 * A delegate could work elsewhere and be waited for. */
static bool may_be_quick(const struct inf_model *s)
{
	size_t n_copied = 0;
	for (uint32_t i = 0; i < s->info->n_inputs; i++)
		if (!s->info->inputs[i].zero_copy && !et_add(n_copied, s->info->inputs[i].n_bytes, &n_copied))
			return false;
	for (uint32_t i = 0; i < s->info->n_outputs; i++) /* copied where a client has it overlap others */
		if (!et_add(n_copied, s->info->outputs[i].n_bytes, &n_copied))
			return false;
	return s->backend && strcmp(s->backend, "portable") == 0 && s->info->n_most_steps <= MAX_QUICK_STEPS &&
	       n_copied <= MAX_QUICK_COPY;
}

static const char *reason_of(const struct inf_model_task *task)
{
	return task->diag.text[0] ? task->diag.text : et_status_text(task->status);
}

/* LOADING: what has become of the workers' contexts so far. Whether it is enough to begin with. What a worker fails for want
 * of now, memory say, it may get later: as long as another one of its queue is ready or may become so, that is no failure,
 * whichever of them is seen first. */
static bool check_tasks(struct inf_model *s)
{
	uint32_t at = 0;
	bool is_enough = true;
	for (uint32_t q = 0; q < s->queues->n; q++) {
		uint32_t n_needed = 0, n_ready = 0, n_open = 0;
		const struct inf_model_task *failed = NULL;
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++) {
			const struct inf_model_task *task = &s->tasks[at++];
			n_needed += needs_instances(inf_pool_worker(s->queues->pools[q], i), s->plan);
			if (!is_done(task))
				n_open++;
			else if (task->status == ET_OK)
				n_ready++;
			else if (!failed || (is_transient(failed->status) && !is_transient(task->status)))
				failed = task;
		}
		if (failed && (!is_transient(failed->status) || (!n_ready && !n_open))) {
			inf_model_note_failure(s, failed->status);
			inf_text(s->reason, sizeof(s->reason), "%s", reason_of(failed));
			return false;
		}
		is_enough = is_enough && (!n_needed || n_ready);
	}
	return is_enough;
}

static bool has_room(struct inf_model *s)
{
	if (!s->events->fits || s->events->fits(s->events->self, s, s->reason, sizeof(s->reason)))
		return true;
	inf_model_note_failure(s, ET_E_OUT_OF_RESOURCES);
	return false;
}

/* READY, and all workers have come by. */
static void complain(const struct inf_model *s)
{
	for (uint32_t i = 0; i < inf_queues_n_workers(s->queues); i++)
		if (s->tasks[i].status != ET_OK)
			et_logf(s->log, ET_LOG_WARNING,
				"model %s: a worker could not get ready for it, and tries again when a "
				"request comes to it: %s",
				s->model, reason_of(&s->tasks[i]));
}

void inf_model_unload(struct inf_model *s)
{
	if (s->state != INF_MODEL_READY)
		return;
	set_state(s, INF_MODEL_UNLOADING);
	if (s->has_tasks)
		take_tasks_back(s);
	atomic_store(&s->is_ending, true);
	inf_model_poll(s);
}

static void poll_loading(struct inf_model *s)
{
	if (!s->has_tasks)
		return;
	if (!s->tasks[0].is_release && !s->reason[0]) {
		if (check_tasks(s) && has_room(s)) {
			s->stats.may_be_quick = may_be_quick(s);
			set_state(s, INF_MODEL_READY);
			s->events->loaded(s->events->self, s);
			return;
		}
		if (s->reason[0])
			take_tasks_back(s);
	}
	if (atomic_load_explicit(&s->n_tasks_left, memory_order_acquire))
		return;
	s->has_tasks = false;
	if (!s->tasks[0].is_release) { /* the slots that were prepared must be released before the Plan can go */
		post_tasks(s, true);
		return;
	}
	s->events->release(s->events->self, s->program, s->plan, lasting_bytes(s), NULL, NULL);
	s->program = NULL;
	s->plan = NULL;
	s->info = NULL;
	set_state(s, INF_MODEL_FAILED);
	s->events->loaded(s->events->self, s);
}

void inf_model_poll(struct inf_model *s)
{
	bool is_released = false;
	if (s->state == INF_MODEL_LOADING) {
		poll_loading(s);
		return;
	}
	if (s->has_tasks) {
		if (atomic_load_explicit(&s->n_tasks_left, memory_order_acquire))
			return;
		s->has_tasks = false;
		is_released = s->tasks[0].is_release;
		if (s->state == INF_MODEL_READY)
			complain(s);
	}
	if (s->state != INF_MODEL_UNLOADING)
		return;
	if (!is_released) {
		/* either this sees the last request gone or that one sees is_ending and notifies */
		if (!atomic_load(&s->n_jobs))
			post_tasks(s, true);
		return;
	}
	free_frames(s);
	set_state(s, INF_MODEL_UNLOADED);
	s->events->unloaded(s->events->self, s);
}

/* --- what runs use -------------------------------------------------------------------------------- */

enum et_status inf_model_take_frame(struct inf_model *s, struct inf_frame_entry **ret_frame, struct et_diag *diag)
{
	pthread_mutex_lock(&s->frames_lock);
	struct inf_frame_entry *entry = s->frames;
	if (entry) {
		s->frames = entry->next;
		s->n_frames_idle--;
	}
	pthread_mutex_unlock(&s->frames_lock);
	if (entry) {
		*ret_frame = entry;
		return ET_OK;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
	const struct et_allocator *pages = s->info->shares_activations ? s->shared_pages : et_platform_page_allocator();
	enum et_status status = et_frame_new(&entry->frame, s->plan, et_platform_allocator(), pages, diag);
	if (status != ET_OK) {
		free(entry);
		return status;
	}
	atomic_fetch_add_explicit(&s->n_frames, 1, memory_order_relaxed);
	*ret_frame = entry;
	return ET_OK;
}

void inf_model_give_frame(struct inf_model *s, struct inf_frame_entry *entry)
{
	pthread_mutex_lock(&s->frames_lock);
	/* Requests that were interrupted keep theirs, so there may be more than can run. Of a client's own program each
	 * in flight beyond the workers is charged for one while it lasts, so none may lie idle then. */
	uint32_t n_workers = inf_queues_n_workers(s->queues);
	bool is_surplus = s->n_frames_idle == n_workers ||
			  (s->is_uploaded && atomic_load_explicit(&s->n_frames, memory_order_relaxed) > n_workers);
	if (!is_surplus) {
		entry->next = s->frames;
		s->frames = entry;
		s->n_frames_idle++;
	}
	pthread_mutex_unlock(&s->frames_lock);
	if (is_surplus)
		free_frame(s, entry);
}

void inf_model_job_begun(struct inf_model *s)
{
	atomic_fetch_add_explicit(&s->n_jobs, 1, memory_order_relaxed);
}

void inf_model_job_ended(struct inf_model *s)
{
	/* The binding of the request that ended keeps @s. */
	if (atomic_fetch_sub(&s->n_jobs, 1) == 1 && atomic_load(&s->is_ending))
		s->events->notify(s->events->whom);
}

/* --- counting ------------------------------------------------------------------------------------- */

static uint64_t add(_Atomic(uint64_t) *to, uint64_t n)
{
	return atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

enum { QUICK_NS = 10 * 1000, LONG_NS = 10 * QUICK_NS, N_QUICK = 64 };

bool inf_model_is_quick(const struct inf_model *s)
{
	return s->stats.may_be_quick && atomic_load_explicit(&s->stats.n_quick, memory_order_relaxed) >= N_QUICK;
}

/* Any end but success counts as slow: nothing is known of how long it would have been. A single slow run is as likely
 * the machine's doing, which ran something else meanwhile, as the model's: one in N_QUICK is forgiven. But one that was
 * long costs it its place: it kept the loop, or would have. Updates that threads lose to each other do not matter. */
static void count_quick(struct inf_model_counts *stats, bool is_success, uint64_t cost_ns)
{
	uint32_t n = atomic_load_explicit(&stats->n_quick, memory_order_relaxed);
	if (cost_ns >= LONG_NS)
		n /= 4;
	else if (!is_success || cost_ns >= QUICK_NS)
		n /= 2;
	else if (n < 2 * N_QUICK)
		n++;
	atomic_store_explicit(&stats->n_quick, n, memory_order_relaxed);
}

void inf_model_count(struct inf_model *s, bool is_success, uint64_t queue_ns, uint64_t run_ns, uint64_t cost_ns,
	uint64_t copied_bytes)
{
	struct inf_model_counts *stats = &s->stats;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	add(is_success ? &stats->n_success : &stats->n_fail, 1);
	add(is_success ? &stats->success_ns : &stats->fail_ns, queue_ns + run_ns);
	add(&stats->queue_ns, queue_ns);
	add(&stats->run_ns, run_ns);
	add(&stats->copied_bytes, copied_bytes);
	count_quick(stats, is_success, cost_ns);
	atomic_store_explicit(&stats->last_ms, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
		memory_order_relaxed);
	uint64_t n = add(&stats->n_runs, 1);
	if (!is_success)
		return;
	atomic_store_explicit(&stats->recent_ns[n % INF_N_RECENT], run_ns, memory_order_relaxed);
	uint64_t guess = atomic_load_explicit(&stats->guess_ns, memory_order_relaxed);
	/* an outlier counts for little: it is as likely the machine's doing as the model's */
	guess = guess ? guess - guess / 8 + (cost_ns < 4 * guess ? cost_ns : 4 * guess) / 8 : cost_ns;
	atomic_store_explicit(&stats->guess_ns, guess, memory_order_relaxed);
}

enum { N_TRIALS = 3, TRY_AGAIN = 32, MAX_PATIENCE = 8 };

/* An average that forgets; a single outlier counts for little. */
static void average(_Atomic(uint64_t) *average_ns, _Atomic(uint32_t) *n, uint64_t ns)
{
	uint64_t before = atomic_load_explicit(average_ns, memory_order_relaxed);
	uint32_t count = atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
	if (count < N_TRIALS) /* the first runs find cold caches: the best of them is the truest */
		before = !count || ns < before ? ns : before;
	else
		before = before - before / 4 + (ns < 4 * before ? ns : 4 * before) / 4;
	atomic_store_explicit(average_ns, before, memory_order_relaxed);
}

void inf_model_count_width(struct inf_model *s, bool is_all_cores, uint64_t run_ns)
{
	struct inf_model_counts *stats = &s->stats;
	uint32_t patience = atomic_load_explicit(&stats->patience, memory_order_relaxed);
	uint64_t single_core_ns = atomic_load_explicit(&stats->single_core_ns, memory_order_relaxed);
	if (!is_all_cores) {
		average(&stats->single_core_ns, &stats->n_single_core, run_ns);
		return;
	}
	average(&stats->all_cores_ns, &stats->n_all_cores, run_ns);
	patience = run_ns < single_core_ns ? 0 : patience < MAX_PATIENCE ? patience + 1 : patience;
	atomic_store_explicit(&stats->patience, patience, memory_order_relaxed);
}

bool inf_model_prefers_single_core(struct inf_model *s)
{
	struct inf_model_counts *stats = &s->stats;
	uint32_t n_single_core = atomic_load_explicit(&stats->n_single_core, memory_order_relaxed);
	uint32_t n_all_cores = atomic_load_explicit(&stats->n_all_cores, memory_order_relaxed);
	uint32_t n = atomic_fetch_add_explicit(&stats->n_chosen, 1, memory_order_relaxed);
	uint64_t single_core_ns = atomic_load_explicit(&stats->single_core_ns, memory_order_relaxed);
	uint64_t all_cores_ns = atomic_load_explicit(&stats->all_cores_ns, memory_order_relaxed);
	bool is_clear = n_single_core && n_all_cores && all_cores_ns > 2 * single_core_ns;
	if (!is_clear && (n_single_core < N_TRIALS || n_all_cores < N_TRIALS))
		return n_single_core <= n_all_cores;
	bool prefers_single_core = all_cores_ns > single_core_ns - single_core_ns / 8;
	uint32_t again = TRY_AGAIN << (prefers_single_core
					       ? atomic_load_explicit(&stats->patience, memory_order_relaxed)
					       : 0);
	return n % again == again - 1 ? !prefers_single_core : prefers_single_core;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

uint64_t inf_model_median_ns(const struct inf_model *s)
{
	uint64_t values[INF_N_RECENT];
	size_t n = 0;
	for (size_t i = 0; i < INF_N_RECENT; i++) {
		uint64_t value = atomic_load_explicit(&s->stats.recent_ns[i], memory_order_relaxed);
		if (value)
			values[n++] = value;
	}
	qsort(values, n, sizeof(values[0]), by_size);
	return n ? values[n / 2] : 0;
}

static uint64_t frame_bytes(const struct et_plan_info *info)
{
	uint64_t n = info->n_activation_bytes;
	et_add_up(&n, info->n_frame_bytes);
	return n;
}

struct inf_model_use inf_model_foresee(const struct inf_queues *queues, const struct et_program *program,
	const struct et_plan *plan, const struct inf_data_ids *data)
{
	const struct et_plan_info *info = et_plan_info(plan);
	struct et_program_stats stats;
	et_program_stats(program, &stats);
	struct inf_model_use use = {
		.n_file = stats.n_file_bytes,
		.n_prepared = stats.n_decoded_bytes,
		.n_frames = et_times(frame_bytes(info), inf_queues_n_workers(queues)),
	};
	et_add_up(&use.n_file, inf_data_ids_n_bytes(data));
	et_add_up(&use.n_prepared, info->n_plan_bytes);
	et_add_up(&use.n_prepared, info->n_delegate_bytes);
	et_add_up(&use.n_prepared, info->n_constant_copies);
	return use;
}

/* The task's n_bytes is the loop's to read: it was seen done, or is none that prepares. */
static bool is_measured(const struct inf_model_task *task)
{
	return task->is_release || (is_done(task) && task->status == ET_OK);
}

/* A worker that is still to come takes no more than the one of its queue that takes most, once for each width it has. */
static uint64_t instances_bytes(const struct inf_model *s)
{
	uint64_t n = 0;
	uint32_t at = 0;
	for (uint32_t q = 0; q < s->queues->n; q++) {
		uint64_t most = 0, n_open = 0;
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++, at++) {
			const struct inf_model_task *task = &s->tasks[at];
			if (!is_measured(task)) {
				n_open += inf_pool_worker(s->queues->pools[q], i)->all_cores_thread_sets ? 2 : 1;
				continue;
			}
			et_add_up(&n, task->n_bytes);
			if (task->n_single_core_bytes > most)
				most = task->n_single_core_bytes;
		}
		et_add_up(&n, et_times(most, n_open));
	}
	return n;
}

struct inf_model_use inf_model_use(const struct inf_model *s)
{
	struct inf_model_use use = { 0 };
	if (!s->plan || !s->info)
		return use;
	use = inf_model_foresee(s->queues, et_plan_program(s->plan), s->plan, &s->data);
	uint64_t n_there = et_times(frame_bytes(s->info), atomic_load_explicit(&s->n_frames, memory_order_relaxed));
	if (n_there > use.n_frames)
		use.n_frames = n_there;
	if (s->state == INF_MODEL_UNLOADED) /* but for what Methods keep */
		use.n_frames = n_there;
	else
		use.n_instances = instances_bytes(s);
	use.n_states = et_less(et_times(s->info->n_state_bytes, s->n_methods),
		et_times(s->info->n_shared_bytes, s->n_sharing));
	return use;
}

uint64_t inf_model_total(const struct inf_model_use *use)
{
	uint64_t n = use->n_file;
	et_add_up(&n, use->n_prepared);
	et_add_up(&n, use->n_instances);
	et_add_up(&n, use->n_frames);
	et_add_up(&n, use->n_states);
	return n;
}

uint64_t inf_model_memory(const struct inf_model *s)
{
	struct inf_model_use use = inf_model_use(s);
	return inf_model_total(&use);
}
