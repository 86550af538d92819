/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a loaded model.
 *
 * A worker makes and releases the instances of its own threads, in one task each, which tells the loop when it
 * ends. READY waits for one worker of each queue only: the other workers may be in a run that takes long or never
 * ends. It waits for none where spare workers serve, since all workers may be in such runs.
 *
 * Instances are made by one worker after the other, so that the memory of each is known and has been found to fit
 * before the next one is made. All workers get their task; the first that comes to it becomes the maker, and the
 * others give theirs back (postponed) without waiting. When the maker has ended, the loop posts those again. A worker
 * that takes a request before its turn makes its instances for that request (inf_model_prepare_worker).
 *
 * Nothing here waits: UNLOADING takes back the tasks that no worker has begun, and becomes UNLOADED when the count of
 * requests in flight and the count of tasks have both reached zero, whichever is last.
 *
 * What must always be true: the Plan is freed only after every worker has released its instances; there are never
 * more frames than requests that have begun, nor more than workers when these have ended; requests of a model that
 * is not loaded are refused before they exist.
 *
 * Which model is made, for whom, and when it is unloaded is decided elsewhere (open.c, repository.c, fallback.c). */
#include "daemon/model/model.h"
#include "daemon/base/text.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdlib.h>
#include <string.h>

const char *inf_model_state_name(enum inf_model_state state)
{
	static const char *const names[INF_N_MODEL_STATES] = { "loading", "failing", "failed", "ready", "superseded",
		"abandoned", "unloading", "unloaded" };
	return state < INF_N_MODEL_STATES ? names[state] : "?";
}

void inf_model_set_state(struct inf_model *s, enum inf_model_state state)
{
	static const bool is_legal[INF_N_MODEL_STATES][INF_N_MODEL_STATES] = {
		[INF_MODEL_LOADING] = { [INF_MODEL_READY] = true,
			[INF_MODEL_FAILING] = true,
			[INF_MODEL_FAILED] = true },
		[INF_MODEL_FAILING] = { [INF_MODEL_FAILED] = true },
		[INF_MODEL_READY] = { [INF_MODEL_SUPERSEDED] = true,
			[INF_MODEL_ABANDONED] = true,
			[INF_MODEL_UNLOADING] = true },
		[INF_MODEL_SUPERSEDED] = { [INF_MODEL_READY] = true,
			[INF_MODEL_ABANDONED] = true,
			[INF_MODEL_UNLOADING] = true },
		[INF_MODEL_ABANDONED] = { [INF_MODEL_READY] = true, [INF_MODEL_UNLOADING] = true },
		[INF_MODEL_UNLOADING] = { [INF_MODEL_UNLOADED] = true },
	};
	if (!is_legal[s->state][state]) {
		et_logf(s->log, ET_LOG_ERROR, "model %s/%s %s: refusing to go from %s to %s", s->model, s->version,
			s->method, inf_model_state_name(s->state), inf_model_state_name(state));
		return;
	}
	et_logf(s->log, s->is_quiet ? ET_LOG_DEBUG : ET_LOG_INFO, "model %s%s%s %s (%s): %s -> %s", s->model,
		s->version[0] ? "/" : "", s->version, s->method, s->backend ? s->backend : "?",
		inf_model_state_name(s->state), inf_model_state_name(state));
	s->state = state;
}

bool inf_model_is_loading(const struct inf_model *s)
{
	return s->state == INF_MODEL_LOADING || s->state == INF_MODEL_FAILING;
}

bool inf_model_is_loaded(const struct inf_model *s)
{
	return s->state == INF_MODEL_READY || s->state == INF_MODEL_SUPERSEDED || s->state == INF_MODEL_ABANDONED;
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
	inf_run_failures_init(&s->run_failures);
	return s->model && s->version && s->method && s->tasks ? s : inf_model_unref(s);
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

/* The memory of the Program and the Plan alone. */
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
	s->events->free_later(s->events->self, s->program, s->plan, lasting_bytes(s), s->gone, s->gone_arg);
	pthread_mutex_destroy(&s->frames_lock);
	inf_run_failures_deinit(&s->run_failures);
	et_list_remove(&s->node);
	free(s->tasks);
	free(s->model);
	free(s->version);
	free(s->method);
	free(s->backend);
	free(s->path);
	free(s->passed_over);
	free(s->warning);
	inf_model_conf_unref(s->conf);
	free(s);
	return NULL;
}

/* --- preparing and releasing ---------------------------------------------------------------------- */

static enum et_status make_instances(struct inf_model *s, uint32_t worker_index,
	struct et_worker_threads *const *thread_sets, const struct et_queue_id *queue, struct et_diag *diag)
{
	enum et_status status = et_plan_prepare(s->plan, worker_index, thread_sets, queue, diag);
	if (status != ET_OK)
		return status;
	/* now, or the first request on each further worker would wait while it gets its memory */
	status = et_plan_warm(s->plan, worker_index, diag);
	if (status != ET_OK)
		et_plan_release(s->plan, worker_index);
	return status;
}

static bool needs_instances(const struct inf_worker *worker, const struct et_plan *plan)
{
	const struct et_queue_id *queue = &worker->single_core.queue;
	return et_plan_needs_instances(plan, worker->single_core_thread_sets, queue) ||
	       et_plan_needs_instances(plan, worker->all_cores_thread_sets, queue);
}

static uint64_t growth(const struct inf_worker *worker, uint64_t before)
{
	uint64_t now = inf_worker_threads_bytes(worker);
	return now > before ? now - before : 0;
}

/* Make the worker's instances, and note what they take. A worker that a request waits for does no warm-up. */
static void prepare(struct inf_model_task *task, struct inf_worker *worker, bool has_request)
{
	struct inf_model *s = task->model;
	/* A Plan without instances does not make the worker's threads grow: growth seen meanwhile is another
	 * model's. */
	bool can_grow = needs_instances(worker, s->plan);
	uint64_t before = can_grow ? inf_worker_threads_bytes(worker) : 0;
	task->status = make_instances(s, worker->single_core.worker_index, worker->single_core_thread_sets,
		&worker->single_core.queue, &task->diag);
	task->n_single_core_bytes = can_grow ? growth(worker, before) : 0;
	if (task->status == ET_OK && worker->all_cores_thread_sets)
		task->status = make_instances(s, worker->all_cores.worker_index, worker->all_cores_thread_sets,
			&worker->all_cores.queue, &task->diag);
	if (task->status == ET_OK && !has_request) {
		inf_model_warm_up(s, &worker->single_core);
		if (worker->all_cores_thread_sets)
			inf_model_warm_up(s, &worker->all_cores);
	}
	task->n_bytes = can_grow ? growth(worker, before) : 0;
	/* release: pairs with the acquire in is_done, which then reads the status */
	atomic_store_explicit(&task->is_done, true, memory_order_release);
}

static void release(const struct inf_model *s, const struct inf_worker *worker)
{
	et_plan_release(s->plan, worker->single_core.worker_index);
	if (worker->all_cores_thread_sets)
		et_plan_release(s->plan, worker->all_cores.worker_index);
}

/* Whoever claims a task does it, or counts it as done. */
static bool claim(struct inf_model_task *task)
{
	bool has_begun = false;
	return atomic_compare_exchange_strong(&task->has_begun, &has_begun, true);
}

/* The worker's part of a PREPARE. */
static void run_prepare(struct inf_model_task *task, struct inf_worker *worker)
{
	struct inf_model *s = task->model;
	bool is_free = false;
	if (!claim(task)) /* this worker did it already, for a request */
		return;
	if (!needs_instances(worker, s->plan)) {
		prepare(task, worker, false);
	} else if (atomic_compare_exchange_strong(&s->has_maker, &is_free, true)) {
		prepare(task, worker, false);
		atomic_store(&s->has_maker, false);
	} else {
		atomic_store(&task->has_begun, false);
		/* release: pairs with the acquire in post_postponed */
		atomic_store_explicit(&task->is_postponed, true, memory_order_release);
	}
}

static void run_task(struct inf_task *base, struct inf_worker *worker)
{
	struct inf_model_task *task = ET_CONTAINER_OF(base, struct inf_model_task, task);
	struct inf_model *s = task->model;
	const struct inf_model_events events = *s->events;
	bool is_release = s->task_kind == INF_MODEL_TASK_RELEASE;
	if (is_release) {
		atomic_store_explicit(&task->has_begun, true, memory_order_relaxed);
		release(s, worker);
		atomic_store_explicit(&task->is_done, true, memory_order_release);
	} else {
		run_prepare(task, worker);
	}
	/* release: pairs with the acquire in inf_model_poll, after which the loop may free everything */
	if (atomic_fetch_sub_explicit(&s->n_tasks_left, 1, memory_order_acq_rel) == 1 || !is_release)
		events.notify(events.notify_self);
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

static void post_tasks(struct inf_model *s, enum inf_model_task_kind kind)
{
	uint32_t n = inf_queues_n_workers(s->queues), task_index = 0;
	bool is_release = kind == INF_MODEL_TASK_RELEASE;
	s->task_kind = kind;
	atomic_store(&s->n_tasks_left, n);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t n_bytes = is_release ? s->tasks[i].n_bytes : 0;
		s->tasks[i] = (struct inf_model_task){ .task.run = run_task, .model = s, .n_bytes = n_bytes };
		et_list_init(&s->tasks[i].task.node);
	}
	for (uint32_t q = 0; q < s->queues->n; q++)
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++) {
			struct inf_task *task = &s->tasks[task_index++].task;
			struct inf_worker *worker = inf_pool_worker(s->queues->pools[q], i);
			bool is_needed = needs_instances(worker, s->plan) || s->n_warm_up;
			if (is_release ? has_instances(worker, s->plan) : is_needed)
				inf_pool_post(s->queues->pools[q], i, task);
			else /* it touches nothing of the worker's thread, which may be busy for long */
				run_task(task, worker);
		}
	s->events->notify(s->events->notify_self); /* the loop looks whether the workers come to it */
}

/* Post the tasks again that came back because another worker made its instances. False: there are none. */
static bool post_postponed(struct inf_model *s)
{
	uint32_t task_index = 0;
	bool is_any = false;
	if (s->task_kind != INF_MODEL_TASK_PREPARE || atomic_load(&s->has_maker))
		return false; /* the maker will notify */
	for (uint32_t q = 0; q < s->queues->n; q++)
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++, task_index++) {
			struct inf_model_task *task = &s->tasks[task_index];
			/* acquire: pairs with the release in run_prepare */
			if (!atomic_load_explicit(&task->is_postponed, memory_order_acquire))
				continue;
			is_any = true;
			atomic_store_explicit(&task->is_postponed, false, memory_order_relaxed);
			atomic_fetch_add_explicit(&s->n_tasks_left, 1, memory_order_relaxed);
			inf_pool_post(s->queues->pools[q], i, &task->task);
		}
	return is_any;
}

/* Tasks that no worker has begun count as done. Those that were postponed stay with nobody. */
static void take_tasks_back(struct inf_model *s)
{
	uint32_t task_index = 0;
	for (uint32_t q = 0; q < s->queues->n; q++)
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++, task_index++) {
			struct inf_model_task *task = &s->tasks[task_index];
			if (inf_pool_take_back(s->queues->pools[q], i, &task->task)) {
				if (claim(task))
					atomic_store_explicit(&task->is_done, true, memory_order_relaxed);
				atomic_fetch_sub_explicit(&s->n_tasks_left, 1, memory_order_relaxed);
			}
		}
}

bool inf_model_needs_worker(const struct inf_model *s, uint32_t queue, uint32_t worker)
{
	uint32_t task_index = worker;
	if (!s->plan)
		return false;
	if (worker >= inf_pool_n_workers(s->queues->pools[queue])) /* a spare worker drops its instances itself */
		return false;
	for (uint32_t q = 0; q < queue; q++)
		task_index += inf_pool_n_workers(s->queues->pools[q]);
	const struct inf_model_task *task = &s->tasks[task_index];
	if (s->task_kind != INF_MODEL_TASK_NONE && !is_done(task)) /* a release can't be taken back */
		return s->task_kind == INF_MODEL_TASK_RELEASE ||
		       atomic_load_explicit(&task->has_begun, memory_order_relaxed);
	return has_instances(inf_pool_worker(s->queues->pools[queue], worker), s->plan);
}

bool inf_model_is_held(const struct inf_model *s, uint64_t long_ns)
{
	uint32_t task_index = 0;
	bool is_held = false;
	if (s->state != INF_MODEL_UNLOADING || s->task_kind != INF_MODEL_TASK_RELEASE)
		return false;
	for (uint32_t q = 0; q < s->queues->n; q++)
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++, task_index++)
			is_held |= !is_done(&s->tasks[task_index]) && inf_pool_is_long(s->queues->pools[q], i, long_ns);
	return is_held;
}

void inf_model_prepare(struct inf_model *s, struct et_program *program, struct et_plan *plan)
{
	s->program = program;
	s->plan = plan;
	s->info = et_plan_info(plan);
	post_tasks(s, INF_MODEL_TASK_PREPARE);
}

static const char *reason_of(const struct inf_model_task *task)
{
	return task->diag.text[0] ? task->diag.text : et_status_text(task->status);
}

static struct inf_model_task *task_of(const struct inf_model *s, const struct inf_worker *worker)
{
	uint32_t task_index = worker->index;
	for (uint32_t q = 0; s->queues->pools[q] != worker->pool; q++)
		task_index += inf_pool_n_workers(s->queues->pools[q]);
	return &s->tasks[task_index];
}

enum et_status inf_model_prepare_worker(struct inf_model *s, struct inf_worker *worker, bool is_all_cores,
	struct et_diag *diag)
{
	uint32_t worker_index = is_all_cores ? worker->all_cores.worker_index : worker->single_core.worker_index;
	if (et_plan_is_prepared(s->plan, worker_index))
		return ET_OK;
	struct inf_model_task *task = worker->is_spare ? NULL : task_of(s, worker);
	if (task && claim(task)) { /* before its turn */
		prepare(task, worker, true);
		return task->status ? et_fail(diag, task->status, "%s", reason_of(task)) : ET_OK;
	}
	return make_instances(s, worker_index,
		is_all_cores ? worker->all_cores_thread_sets : worker->single_core_thread_sets,
		&worker->single_core.queue, diag);
}

static void note_failure(struct inf_model *s, enum et_status status)
{
	s->failure = inf_load_failure_of(status);
	s->n_crashes += status == ET_E_BACKEND_CRASHED;
}

void inf_model_fail(struct inf_model *s, enum et_status status, const char *reason)
{
	note_failure(s, status);
	inf_text(s->reason, sizeof(s->reason), "%s", reason);
	inf_model_set_state(s, INF_MODEL_FAILED);
	s->events->loaded(s->events->self, s);
}

enum { MAX_QUICK_STEPS = 1 << 20, MAX_QUICK_COPY = 64 * 1024 };

/* Quick runs in the past promise nothing for the next one, which may bring larger shapes or take another branch.
 * The loop, which runs it, can stop only between two instructions; so no instruction may take long, nor may the
 * copies before and after them. A delegate may work elsewhere, and the loop would wait for it; so does a client's
 * program, whatever backend it was exported for. */
static bool may_be_quick(const struct inf_model *s)
{
	size_t n_copied = 0;
	for (uint32_t i = 0; i < s->info->n_inputs; i++)
		if (!s->info->inputs[i].zero_copy && !et_add(n_copied, s->info->inputs[i].n_bytes, &n_copied))
			return false;
	for (uint32_t i = 0; i < s->info->n_outputs; i++) /* copied if the client binds it over another one */
		if (!et_add(n_copied, s->info->outputs[i].n_bytes, &n_copied))
			return false;
	bool is_elsewhere = et_program_source(s->program)->client_files != NULL;
	return s->backend && strcmp(s->backend, "portable") == 0 && !is_elsewhere &&
	       s->info->n_most_steps <= MAX_QUICK_STEPS && n_copied <= MAX_QUICK_COPY;
}

/* Cancellation and deadlines reach into a kernel, but a higher priority waits until it has ended. */
static void warn_of_long_calls(const struct inf_model *s)
{
	const size_t many_steps = (size_t)5 * 1000 * 1000 * 1000;
	if (s->info->n_likely_steps > many_steps && !s->is_quiet)
		et_logf(s->log, ET_LOG_WARNING,
			"model %s: one instruction may take about %.0f s on one core; requests of a higher priority "
			"wait for it, unless it has a deadline",
			s->model, (double)s->info->n_likely_steps / 1e9);
}

static bool is_transient(const struct inf_model_task *task)
{
	return inf_load_failure_is_transient(inf_load_failure_of(task->status));
}

enum progress { PROGRESS_WAIT, PROGRESS_ENOUGH, PROGRESS_FAILED };

/* Whether the task's worker is at it, or waits for the one that is. A worker that is in a long run has not begun. */
static bool is_under_way(const struct inf_model_task *task)
{
	return (atomic_load_explicit(&task->has_begun, memory_order_relaxed) && !is_done(task)) ||
	       atomic_load_explicit(&task->is_postponed, memory_order_relaxed);
}

/* LOADING: how far the workers are. A worker that fails for a transient reason, such as memory, may succeed later: as
 * long as another worker of its queue is ready, or may still become so, that is no failure, whichever of them is seen
 * first. */
static enum progress check_tasks(struct inf_model *s)
{
	uint32_t task_index = 0;
	bool is_enough = true;
	for (uint32_t q = 0; q < s->queues->n; q++) {
		uint32_t n_needed = 0, n_ready = 0, n_open = 0;
		const struct inf_model_task *failed = NULL;
		for (uint32_t i = 0; i < inf_pool_n_workers(s->queues->pools[q]); i++) {
			const struct inf_model_task *task = &s->tasks[task_index++];
			n_needed += needs_instances(inf_pool_worker(s->queues->pools[q], i), s->plan) || s->n_warm_up;
			/* a warm-up on other workers would take the cores of the first request */
			is_enough = is_enough && !(s->n_warm_up && is_under_way(task));
			if (!is_done(task))
				n_open++;
			else if (task->status == ET_OK)
				n_ready++;
			else if (!failed || (is_transient(failed) && !is_transient(task)))
				failed = task;
		}
		if (failed && (!is_transient(failed) || (!n_ready && !n_open))) {
			note_failure(s, failed->status);
			inf_text(s->reason, sizeof(s->reason), "%s", reason_of(failed));
			return PROGRESS_FAILED;
		}
		/* workers that are long in one instruction prepare it later, and a spare one prepares itself */
		is_enough = is_enough &&
			    (!n_needed || n_ready || (n_open && !failed && inf_pool_uses_spares(s->queues->pools[q])));
	}
	if (!is_enough)
		return PROGRESS_WAIT;
	if (!s->events->has_room || s->events->has_room(s->events->self, s, s->reason, sizeof(s->reason)))
		return PROGRESS_ENOUGH;
	note_failure(s, ET_E_OUT_OF_RESOURCES);
	return PROGRESS_FAILED;
}

/* All workers have done their tasks: log which of them could not prepare the loaded model. */
static void warn_of_unprepared_workers(const struct inf_model *s)
{
	for (uint32_t i = 0; i < inf_queues_n_workers(s->queues) && !s->is_quiet; i++)
		if (is_done(&s->tasks[i]) && s->tasks[i].status != ET_OK)
			et_logf(s->log, ET_LOG_WARNING,
				"model %s: a worker could not prepare it and tries again when a request comes to "
				"it: %s",
				s->model, reason_of(&s->tasks[i]));
}

void inf_model_unload(struct inf_model *s)
{
	if (!inf_model_is_loaded(s))
		return;
	/* Sequentially consistent, like the count of jobs: either poll sees the last request gone, or that
	 * request's end sees UNLOADING and notifies. */
	inf_model_set_state(s, INF_MODEL_UNLOADING);
	if (s->task_kind != INF_MODEL_TASK_NONE)
		take_tasks_back(s);
	inf_model_poll(s);
}

static void poll_loading(struct inf_model *s)
{
	if (s->task_kind == INF_MODEL_TASK_NONE)
		return;
	if (s->state == INF_MODEL_LOADING) {
		enum progress progress = check_tasks(s);
		if (progress == PROGRESS_ENOUGH) {
			s->stats.may_be_quick = may_be_quick(s);
			warn_of_long_calls(s);
			inf_model_set_state(s, INF_MODEL_READY);
			s->events->loaded(s->events->self, s);
			if (s->state == INF_MODEL_READY)
				post_postponed(s);
			return;
		}
		if (progress == PROGRESS_WAIT) {
			post_postponed(s);
			return; /* a task that ended since then has notified: it is looked at by the next poll */
		}
		inf_model_set_state(s, INF_MODEL_FAILING);
		take_tasks_back(s);
	}
	/* acquire: pairs with the release in run_task */
	if (atomic_load_explicit(&s->n_tasks_left, memory_order_acquire))
		return;
	bool is_released = s->task_kind == INF_MODEL_TASK_RELEASE;
	s->task_kind = INF_MODEL_TASK_NONE;
	if (!is_released) { /* the workers that made instances release them before the Plan is freed */
		post_tasks(s, INF_MODEL_TASK_RELEASE);
		return;
	}
	s->events->free_later(s->events->self, s->program, s->plan, lasting_bytes(s), NULL, NULL);
	s->program = NULL;
	s->plan = NULL;
	s->info = NULL;
	inf_model_set_state(s, INF_MODEL_FAILED);
	s->events->loaded(s->events->self, s);
}

void inf_model_poll(struct inf_model *s)
{
	bool is_released = false;
	if (inf_model_is_loading(s)) {
		poll_loading(s);
		return;
	}
	if (s->task_kind != INF_MODEL_TASK_NONE) {
		/* acquire: pairs with the release in run_task */
		if ((inf_model_is_loaded(s) && post_postponed(s)) ||
			atomic_load_explicit(&s->n_tasks_left, memory_order_acquire))
			return;
		is_released = s->task_kind == INF_MODEL_TASK_RELEASE;
		s->task_kind = INF_MODEL_TASK_NONE;
		if (inf_model_is_loaded(s))
			warn_of_unprepared_workers(s);
	}
	if (s->state != INF_MODEL_UNLOADING)
		return;
	if (!is_released) {
		if (!atomic_load(&s->n_jobs))
			post_tasks(s, INF_MODEL_TASK_RELEASE);
		return;
	}
	free_frames(s);
	inf_model_set_state(s, INF_MODEL_UNLOADED);
	s->events->unloaded(s->events->self, s);
}

/* --- frames and jobs ------------------------------------------------------------------------------ */

/* Make a used frame ready for a run of @user. inferd's own kernels and XNNPACK write all of their outputs, and what a
 * run may read before it has written it is the Method's state (dataflow.c). So a frame must be cleared only if a
 * plug-in, which may leave anything unwritten, computes a part of the program. */
static void hand_over(const struct inf_model *s, struct inf_frame_entry *entry, uid_t user)
{
	if (s->info->may_leave_unwritten && entry->user != user)
		et_frame_poison(entry->frame, 0);
	entry->user = user;
}

enum et_status inf_model_take_frame(struct inf_model *s, uid_t user, struct inf_frame_entry **ret_frame,
	struct et_diag *diag)
{
	pthread_mutex_lock(&s->frames_lock);
	struct inf_frame_entry *entry = s->frames;
	if (entry) {
		s->frames = entry->next;
		s->n_frames_idle--;
	}
	pthread_mutex_unlock(&s->frames_lock);
	if (entry) {
		hand_over(s, entry, user);
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
	entry->user = user; /* its pages are new: zeros */
	*ret_frame = entry;
	return ET_OK;
}

void inf_model_give_frame(struct inf_model *s, struct inf_frame_entry *entry)
{
	pthread_mutex_lock(&s->frames_lock);
	/* Interrupted requests keep their frames, so there may be more frames than workers. For an uploaded program
	 * each request in flight beyond the number of workers is charged for its frame while it lasts, so no such
	 * frame may stay idle afterwards. */
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
	/* The binding of the request that ended keeps @s. Sequentially consistent: see inf_model_unload. */
	if (atomic_fetch_sub(&s->n_jobs, 1) == 1 && s->state == INF_MODEL_UNLOADING)
		s->events->notify(s->events->notify_self);
}
