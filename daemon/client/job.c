/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference request.
 *
 * The loop thread makes a job QUEUED, and a worker takes it from there. The worker that ends the job writes the
 * reply into its own buffer, then releases everything (the frame, the charges, the state), and sends the reply
 * last: a client that has the reply may use the binding again at once. When the state is IDLE again the job belongs
 * to the loop thread, and the worker reads nothing of it any more; the reference to the binding is dropped last.
 *
 * What must always be true: a job that is QUEUED or RUNNING is answered exactly once, whichever comes first of its
 * run, its deadline, cancellation and disconnection. The queue's lock decides that: the thread that takes the item
 * out of the queue ends it. A worker that is in one long call cannot do so; `answer` decides between that worker and
 * the loop thread, which answers in its place OVERDUE_NS after the deadline or the cancellation. What the run uses
 * stays until the worker comes back, and a spare worker serves meanwhile. */
#include "daemon/client/job.h"

#include "daemon/client/admission.h"
#include "daemon/client/binding.h"
#include "daemon/client/give_up.h"
#include "daemon/client/job_profile.h"
#include "daemon/client/job_reply.h"
#include "daemon/context.h"
#include "daemon/client/session.h"
#include "ipc/cores.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "runtime/profile/profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long a run gets to end by itself after its deadline or its cancellation: kernels look every few milliseconds. */
enum { OVERDUE_NS = 10 * 1000 * 1000 };
enum { MAX_DEVICE_NS = 100 * 1000 * 1000 };

static const char *state_name(uint32_t state)
{
	static const char *const names[] = { "idle", "queued", "running", "done" };
	return state < ET_ARRAY_LEN(names) ? names[state] : "?";
}

/* False, with a line in the log: the state machine does not allow that move. */
static bool set_state(struct inf_binding *b, enum inf_job_state state)
{
	static const bool may[4][4] = {
		[INF_JOB_IDLE] = { [INF_JOB_QUEUED] = true },
		[INF_JOB_QUEUED] = { [INF_JOB_RUNNING] = true, [INF_JOB_DONE] = true },
		[INF_JOB_RUNNING] = { [INF_JOB_QUEUED] = true, [INF_JOB_DONE] = true },
		[INF_JOB_DONE] = { [INF_JOB_IDLE] = true },
	};
	const struct et_log *log = &b->method->context->log;
	uint32_t before = atomic_load_explicit(&b->job.state, memory_order_relaxed);
	bool is_legal = may[before][state];
	if (!is_legal || et_log_wants(log, ET_LOG_DEBUG))
		et_logf(log, is_legal ? ET_LOG_DEBUG : ET_LOG_ERROR, "session %llu job %llu: %s -> %s%s",
			(unsigned long long)b->session->id, (unsigned long long)b->job.id, state_name(before),
			state_name(state), is_legal ? "" : " refused");
	if (is_legal) /* release: pairs with the acquire in inf_job_is_busy */
		atomic_store_explicit(&b->job.state, state, memory_order_release);
	return is_legal;
}

struct inf_binding *inf_job_binding(struct inf_item *item)
{
	return ET_CONTAINER_OF(item, struct inf_binding, job.item);
}

static enum inf_status status_of(enum et_status status)
{
	switch (status) {
	case ET_OK:
		return INF_OK;
	case ET_E_INVALID_ARGUMENT:
	case ET_E_INVALID_TYPE:
		return INF_INVALID_ARGUMENT;
	case ET_E_CANCELLED:
		return INF_CANCELLED;
	case ET_E_DEADLINE:
		return INF_MISSED_DEADLINE;
	case ET_E_STATE_LOST:
		return INF_STATE_LOST;
	case ET_E_BACKEND_CRASHED:
	case ET_E_BACKEND_DOWN:
		return INF_BACKEND_CRASHED;
	case ET_E_ACCESS_FAILED: /* a client's memory was gone when a delegate used it */
		return INF_FAILED_PRECONDITION;
	case ET_E_MEMORY_ALLOCATION_FAILED:
	case ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED:
	case ET_E_OUT_OF_RESOURCES:
		return INF_RESOURCE_EXHAUSTED;
	default:
		return INF_INTERNAL;
	}
}

/* --- ending --------------------------------------------------------------------------------------- */

/* Write the reply into @buffer, and make the job DONE. It is out of the queue and belongs to this thread. */
static void finish(struct inf_binding *b, enum inf_status status, const char *error, struct inf_reply_buffer *buffer)
{
	struct inf_job *job = &b->job;
	uint64_t queue_ns = (job->has_begun ? job->started_ns : et_platform_now_ns(NULL)) - job->arrived_ns;
	uint64_t n_copied = job->has_begun ? job->run.n_copied_bytes : 0;
	inf_job_write_reply(b, status, error, queue_ns, buffer);
	inf_run_stats_add(&b->method->model->stats, status == INF_OK, queue_ns, job->run_ns, job->cost_ns, n_copied);
	inf_context_count(b->method->context, status == INF_OK, n_copied);
	set_state(b, INF_JOB_DONE);
}

/* The home queue: where the stream of the Method whose state it uses begins. */
static const struct et_queue_id *home_of(const struct inf_binding *b)
{
	return &b->method->first->model->info->first_queue;
}

/* NULL: there is no such queue. Any thread. */
static struct inf_pool *pool_of(const struct inf_context *context, struct et_queue_id queue)
{
	int index = inf_queues_find(&context->queues, queue);
	return index < 0 ? NULL : context->queues.pools[index];
}

/* A stateful request has ended off its home queue: let the stream's next one go there. */
static void end_of_stream_item(struct inf_binding *b)
{
	const struct inf_model *model = b->method->model;
	if (!b->job.is_off_home_queue || !model->info->is_stateful)
		return;
	b->job.item.stream = &b->method->first->stream;
	inf_pool_stream_item_ended(pool_of(b->method->context, *home_of(b)), &b->job.item);
}

static void drop_reply(struct inf_reply_buffer *buffer)
{
	if (buffer->fd >= 0)
		close(buffer->fd);
	buffer->fd = -1;
}

/* Release the job, then send what finish wrote. @b must not be used afterwards. */
static void deliver(struct inf_binding *b, struct inf_reply_buffer *buffer)
{
	struct inf_session *session = b->session;
	struct inf_context *context = session->context;
	inf_job_drop_profile(b);
	inf_binding_discharge_frame(b);
	inf_quota_discharge(b->user, INF_QUOTA_REQUESTS, 1);
	atomic_fetch_sub_explicit(&session->n_in_flight, 1, memory_order_relaxed);
	/* before it is IDLE and may be submitted again */
	uint32_t answer = atomic_exchange(&b->job.answer, INF_ANSWER_WORKER);
	/* The client has its answer. What is in @buffer, which is never OK, tells it that the run has ended.
	 * GIVING_UP: the loop thread says so itself, since its answer comes first. */
	bool is_given_up = answer == INF_ANSWER_GIVEN_UP || answer == INF_ANSWER_STUCK;
	bool is_told = answer != INF_ANSWER_GIVING_UP && (!is_given_up || session->hears_ends);
	if (answer == INF_ANSWER_STUCK) {
		atomic_fetch_sub_explicit(&b->method->model->n_stuck, 1, memory_order_relaxed);
		atomic_fetch_sub_explicit(&b->method->first->n_stuck, 1, memory_order_relaxed);
	}
	inf_model_job_ended(b->method->model);
	end_of_stream_item(b);
	/* after this the loop thread may reset the Method or move it to another model */
	inf_method_job_ended(b->method->first);
	set_state(b, INF_JOB_IDLE);
	/* the reference taken in inf_job_submit keeps @b, and @b keeps the session, until inf_binding_unref */
	if (is_told)
		inf_session_send(session, buffer);
	else
		drop_reply(buffer);
	inf_binding_unref(b);
	/* release: pairs with the acquire in end_if_drained, which then ends what all this uses */
	atomic_fetch_sub_explicit(&context->n_unanswered, 1, memory_order_release);
}

/* --- running -------------------------------------------------------------------------------------- */

/* Put the job into the queue of its next instruction. On its home queue the scheduler keeps the order of the stream; on
 * another queue the job has no stream, and its stream waits for it at home. */
static void submit_to(struct inf_binding *b, struct et_queue_id queue, bool is_quick)
{
	struct inf_context *context = b->method->context;
	struct inf_job *job = &b->job;
	int index = inf_queues_find(&context->queues, queue);
	const struct et_queue_id *home = home_of(b);
	job->is_off_home_queue = queue.kind != home->kind || queue.device != home->device;
	job->item.flow = &b->session->flows[index < 0 ? 0 : index];
	job->item.stream = b->method->model->info->is_stateful && !job->is_off_home_queue ? &b->method->first->stream
											  : NULL;
	struct inf_pool *pool = context->queues.pools[index < 0 ? 0 : index];
	if (!is_quick) {
		inf_pool_submit(pool, &job->item);
		return;
	}
	struct inf_session *session = b->session;
	inf_session_quick_came(session, job->arrived_ns);
	if (inf_pool_submit_quick(pool, &job->item))
		inf_session_quick_ended(session);
}

static void delegate_done(void *self, enum et_status status, const char *reason)
{
	struct inf_binding *b = self;
	struct inf_worker *worker = b->job.worker;
	pthread_mutex_lock(&worker->lock);
	worker->is_pending = false;
	et_run_resume(&b->job.run, status, reason);
	worker->has_ended = true;
	pthread_cond_signal(&worker->changed);
	pthread_mutex_unlock(&worker->lock);
}

/* Run instructions. If a delegate works on another thread or in another process, the worker waits for it, since the
 * delegate's instance for one run at a time belongs to the worker. */
static enum et_stop advance(struct inf_binding *b, struct inf_worker *worker, const struct et_worker_env *env)
{
	struct et_run *run = &b->job.run;
	for (;;) {
		b->job.worker = worker;
		worker->has_ended = false;
		enum et_stop stop = et_run_advance(run, env);
		if (stop != ET_STOP_PENDING)
			return stop;
		pthread_mutex_lock(&worker->lock);
		worker->pending = run;
		worker->is_pending = !worker->has_ended;
		if (worker->is_pending && atomic_load_explicit(&run->cancelled, memory_order_relaxed))
			et_run_cancel(run);
		pthread_mutex_unlock(&worker->lock);
		et_run_wait(run);
		pthread_mutex_lock(&worker->lock);
		while (!worker->has_ended)
			pthread_cond_wait(&worker->changed, &worker->lock);
		worker->pending = NULL;
		pthread_mutex_unlock(&worker->lock);
	}
}

/* Give back what the run borrowed: access to dma-bufs, and the frame. */
static void give_back(struct inf_binding *b)
{
	struct inf_job *job = &b->job;
	if (!job->frame)
		return;
	inf_binding_end_access(b);
	inf_model_give_frame(b->method->model, job->frame);
	job->frame = NULL;
}

/* The worker waits here for a device that is about to finish with a client's dma-buf; for MAX_DEVICE_NS, since it
 * may never finish. */
static enum et_status begin_access(struct inf_binding *b, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + MAX_DEVICE_NS, deadline_ns = b->job.item.deadline_ns;
	bool is_deadline = deadline_ns && deadline_ns < until_ns;
	switch (inf_binding_begin_access(b, is_deadline ? deadline_ns : until_ns)) {
	case 0:
		return ET_OK;
	case -ETIMEDOUT:
		return is_deadline
			       ? ET_E_DEADLINE
			       : et_fail(&b->job.run.diag, ET_E_ACCESS_FAILED,
					 "a device still works on a dma-buf among its regions; ask again when it is done");
	default:
		return et_fail(&b->job.run.diag, ET_E_ACCESS_FAILED,
			"the processor can't access a dma-buf among its regions");
	}
}

static enum et_status begin(struct inf_binding *b, uint64_t now_ns)
{
	struct inf_job *job = &b->job;
	struct et_run *run = &job->run;
	run->diag.text[0] = '\0';
	run->n_copied_bytes = run->device_ns = 0;
	enum et_status status = inf_model_take_frame(b->method->model, b->user->uid, &job->frame, &run->diag);
	if (status != ET_OK)
		return status;
	status = begin_access(b, now_ns);
	if (status != ET_OK) {
		inf_model_give_frame(b->method->model, job->frame);
		job->frame = NULL;
		return status;
	}
	job->has_begun = true;
	job->started_ns = now_ns;
	run->method = b->method->method;
	run->frame = job->frame->frame;
	run->inputs = b->io;
	run->outputs = b->io + b->n_inputs;
	run->deadline_ns = job->item.deadline_ns;
	run->completion = (struct et_completion){ b, delegate_done, .will_wait = true,
		.priority = (uint8_t)(INF_N_CLASSES - job->item.priority_class) };
	run->trace = job->profile ? et_profile_trace(job->profile) : NULL;
	status = et_run_begin(run);
	if (status != ET_OK)
		give_back(b);
	return status;
}

/* Whether the run failed in its backend once too often, so that its model should go on with another variant. */
static bool count_failure(struct inf_binding *b, enum et_status status, const char *why)
{
	struct inf_model *model = b->method->model;
	struct inf_run_limit limit;
	return !model->is_uploaded &&
	       inf_backends_are_at_fault(&b->method->context->backends, b->job.has_begun ? &b->job.run : NULL, status,
		       &limit) &&
	       inf_run_failures_count(&model->run_failures, &limit, et_platform_now_ns(NULL), why);
}

static void end_run(struct inf_binding *b, enum et_status status, struct inf_reply_buffer *buffer)
{
	struct inf_job *job = &b->job;
	char text[600];
	const char *why = job->run.diag.text[0] ? job->run.diag.text : et_status_text(status);
	enum inf_status answer = status_of(status);
	const struct inf_client_region *faulted = inf_binding_faulted(b);
	give_back(b);
	if (faulted) {
		answer = INF_FAILED_PRECONDITION;
		inf_text(text, sizeof(text),
			"the memory of region %llu went away while '%s' ran; make a new region and bind again",
			(unsigned long long)faulted->id, b->method->model->model);
	} else if (answer == INF_STATE_LOST) {
		inf_text(text, sizeof(text),
			"an earlier request of this stateful Method was cut short, or its model was loaded anew; reset the "
			"Method first");
	} else if (answer == INF_CANCELLED) {
		inf_text(text, sizeof(text), "the request was cancelled while it ran");
	} else if (answer == INF_MISSED_DEADLINE) {
		inf_text(text, sizeof(text), "the request's deadline passed while it ran");
	} else if (answer != INF_OK) {
		inf_text(text, sizeof(text), "%s: %s", b->method->model->model, why);
	}
	finish(b, answer, answer == INF_OK ? NULL : text, buffer);
	if (answer == INF_BACKEND_CRASHED || (!faulted && count_failure(b, status, why)))
		b->method->context->events.backend_crashed(b->method->context->events.self);
}

/* Count the width of the run, if it is known now: all its segments had the same, or it lost all cores because it was
 * not done in time. */
static void count_width(struct inf_binding *b, bool is_done, uint64_t used_ns)
{
	struct inf_job *job = &b->job;
	struct inf_item *item = &job->item;
	uint64_t *max_ns = &item->all_cores_max_ns;
	*(item->is_all_cores ? &job->n_all_cores : &job->n_single_core) += 1;
	bool is_too_long = item->is_all_cores && (item->prefers_single_core || (*max_ns && used_ns >= *max_ns));
	if (is_too_long || (is_done && !(job->n_single_core && job->n_all_cores)))
		inf_width_add(&b->method->model->widths.of[job->width], item->is_all_cores, job->run_ns,
			et_platform_now_ns(NULL));
	if (item->is_all_cores && !is_too_long && *max_ns)
		*max_ns -= used_ns; /* for the next segment */
}

/* The run has come to its end, and its worker answers. False: the loop thread has answered, so the run has failed. */
static bool claim_answer(struct inf_job *job)
{
	uint32_t expected = INF_ANSWER_OPEN;
	return atomic_compare_exchange_strong(&job->answer, &expected, INF_ANSWER_WORKER);
}

static enum inf_segment_end run_segment(struct inf_binding *b, struct inf_worker *worker)
{
	struct inf_item *item = &b->job.item;
	struct inf_job *job = &b->job;
	struct et_run *run = &job->run;
	uint64_t began_ns = et_platform_now_ns(NULL);
	const struct et_worker_env *env = item->is_all_cores ? &worker->all_cores : &worker->single_core;
	uint64_t cores = item->is_all_cores ? inf_pool_n_workers(worker->pool) : 1, device_before_ns = run->device_ns;
	set_state(b, INF_JOB_RUNNING);
	item->device_ns = 0;

	enum et_status status = inf_model_prepare_worker(b->method->model, worker, item->is_all_cores, &run->diag);
	if (status != ET_OK && job->has_begun) {
		run->status = status;
		status = et_run_end(run);
	} else if (status == ET_OK && !job->has_begun) {
		status = begin(b, began_ns);
	}
	if (status != ET_OK) {
		end_run(b, status, &worker->reply);
		return INF_SEGMENT_ENDED;
	}
	enum et_stop stop = advance(b, worker, env);
	/* the delegate was asked to end early because the deadline passed */
	if (run->status == ET_E_CANCELLED && run->deadline_ns && et_platform_now_ns(NULL) >= run->deadline_ns &&
		!atomic_load_explicit(&run->cancelled, memory_order_relaxed))
		run->status = ET_E_DEADLINE;
	uint64_t used_ns = et_platform_now_ns(NULL) - began_ns;
	item->device_ns = run->device_ns > device_before_ns ? run->device_ns - device_before_ns : 0;
	job->run_ns += used_ns;
	job->cost_ns += used_ns * cores;
	count_width(b, stop == ET_STOP_DONE, used_ns);
	if (stop == ET_STOP_QUEUE) {
		if (run->queue.kind == env->queue.kind && run->queue.device == env->queue.device) {
			set_state(b, INF_JOB_QUEUED);
			return INF_SEGMENT_AGAIN;
		}
		if (pool_of(b->method->context, run->queue))
			return INF_SEGMENT_LEFT;
		et_fail(&run->diag, ET_E_NOT_SUPPORTED, "there is no queue %s%u",
			et_queue_kind_name((enum et_queue_kind)run->queue.kind), run->queue.device);
		run->status = ET_E_NOT_SUPPORTED;
	}
	/* before the state is kept, which the client does not expect of a run that it was told has failed */
	if (!claim_answer(job) && run->status == ET_OK)
		run->status = ET_E_CANCELLED;
	end_run(b, et_run_end(run), &worker->reply);
	return INF_SEGMENT_ENDED;
}

static enum inf_segment_end job_run(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct inf_binding *b = inf_job_binding(item);
	enum inf_segment_end end = run_segment(b, worker);
	if (worker->is_spare)
		et_plan_release(b->method->model->plan, worker->single_core.worker_index);
	return end;
}

static void job_finished(void *self, struct inf_item *item, struct inf_worker *worker)
{
	deliver(inf_job_binding(item), &worker->reply);
}

static void job_left(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct inf_binding *b = inf_job_binding(item);
	struct inf_context *context = b->session->context;
	struct inf_pool *pool = pool_of(context, b->job.run.queue);
	if (!set_state(b, INF_JOB_QUEUED))
		return;
	submit_to(b, b->job.run.queue, false);
	if (inf_pool_is_waiting(pool)) /* the loop looks whether it starves */
		context->events.notify(context->events.self);
}

/* End a job that was taken out of a queue, before its run or between two of its segments. */
static void end_waiting(struct inf_binding *b, enum inf_status status, const char *why, struct inf_reply_buffer *buffer)
{
	struct inf_job *job = &b->job;
	if (job->frame) {
		atomic_store(&job->run.cancelled, true);
		et_run_end(&job->run);
		give_back(b);
	}
	finish(b, status, why, buffer);
	deliver(b, buffer);
}

static const char *const late = "the request's deadline passed before it could run";

static void job_expired(void *self, struct inf_item *item, struct inf_worker *worker)
{
	end_waiting(inf_job_binding(item), INF_MISSED_DEADLINE, late, &worker->reply);
}

const struct inf_pool_events inf_job_events = {
	.run = job_run,
	.finished = job_finished,
	.left = job_left,
	.expired = job_expired,
};

/* --- the loop's side ------------------------------------------------------------------------------ */

void inf_job_init(struct inf_job *job)
{
	memset(job, 0, sizeof(*job));
	atomic_init(&job->state, INF_JOB_IDLE);
}

bool inf_job_is_busy(const struct inf_job *job)
{
	/* acquire: pairs with the release in set_state */
	return atomic_load_explicit(&job->state, memory_order_acquire) != INF_JOB_IDLE;
}

/* @now_ns + @timeout_us; 0: no deadline, or one beyond 64 bits. */
static uint64_t deadline_of(uint64_t timeout_us, uint64_t now_ns)
{
	uint64_t timeout_ns, deadline_ns;
	bool has_deadline = timeout_us && !__builtin_mul_overflow(timeout_us, UINT64_C(1000), &timeout_ns) &&
			    !__builtin_add_overflow(now_ns, timeout_ns, &deadline_ns);
	return has_deadline ? deadline_ns : 0;
}

static uint64_t overdue_after(uint64_t ns)
{
	uint64_t overdue_ns;
	return __builtin_add_overflow(ns, (uint64_t)OVERDUE_NS, &overdue_ns) ? UINT64_MAX : overdue_ns;
}

static bool are_cores_busy(void *self)
{
	return inf_cores_are_busy(inf_pool_n_workers(self));
}

static uint64_t n_input_bytes(const struct inf_binding *b)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < b->n_inputs; i++)
		n += b->method->model->info->inputs[i].tag == ET_TAG_TENSOR ? b->io[i].tensor.n_bytes : 0;
	return n;
}

static void make_ready(struct inf_binding *b, uint64_t id, enum inf_class priority_class, uint64_t deadline_ns,
	uint64_t now_ns)
{
	struct inf_job *job = &b->job;
	struct inf_model *model = b->method->model;
	struct inf_pool *cpu = b->method->context->queues.pools[0];
	job->id = id;
	job->arrived_ns = now_ns;
	job->started_ns = job->run_ns = job->cost_ns = 0;
	job->has_begun = false;
	job->n_single_core = job->n_all_cores = 0;
	job->frame = NULL;
	job->run.n_copied_bytes = job->run.device_ns = 0;
	atomic_store(&job->answer, INF_ANSWER_OPEN);
	atomic_store_explicit(&job->run.cancelled, false, memory_order_relaxed);
	job->item.priority_class = priority_class;
	job->item.deadline_ns = deadline_ns;
	job->item.overdue_ns = deadline_ns ? overdue_after(deadline_ns) : 0;
	job->item.cost_ns = atomic_load_explicit(&model->stats.guess_ns, memory_order_relaxed);
	job->item.long_ns = inf_job_long_ns(model);
	job->item.notes_steps = model->is_uploaded;
	struct inf_width *width = inf_widths_find(&model->widths, n_input_bytes(b));
	job->width = model->widths.last;
	job->item.prefers_single_core = !inf_pool_has_all_cores(cpu) ||
					!inf_width_choose(width, now_ns, are_cores_busy, cpu);
	job->item.all_cores_max_ns = inf_width_limit_ns(width);
}

enum inf_status inf_job_submit(struct inf_binding *b, uint64_t id, const struct inf_infer *request, uint64_t now_ns,
	char *error, size_t room)
{
	struct inf_job *job = &b->job;
	struct inf_method *method = b->method;
	enum inf_class priority_class;
	if (inf_job_is_busy(job)) {
		bool is_given_up = atomic_load(&job->answer) >= INF_ANSWER_GIVEN_UP;
		inf_text(error, room,
			is_given_up ? "an earlier request on binding %llu was given up, but a worker is "
				      "still in it; bind a second set of tensors"
				    : "a request is already in flight on binding %llu; wait for it, or "
				      "bind a second set of tensors",
			(unsigned long long)b->id);
		return INF_BUSY;
	}
	enum inf_status status = inf_admission_check(b, request, &priority_class, error, room);
	if (status != INF_OK)
		return status;
	struct inf_model *model = method->model;
	uint64_t deadline_ns = deadline_of(request->timeout_us, now_ns);
	make_ready(b, id, priority_class, deadline_ns, now_ns);
	atomic_fetch_add_explicit(&b->session->n_in_flight, 1, memory_order_relaxed);
	b->session->n_requests++;
	atomic_fetch_add_explicit(&method->first->n_jobs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&method->context->n_unanswered, 1, memory_order_relaxed);
	inf_model_job_begun(model);
	inf_binding_ref(b);
	set_state(b, INF_JOB_QUEUED);
	submit_to(b, *home_of(b),
		!b->has_dma_buf && inf_run_stats_is_quick(&model->stats) &&
			inf_run_stats_is_quick(&method->first->model->stats));
	if (deadline_ns && inf_job_is_busy(job))
		method->context->events.expect_deadline(method->context->events.self, deadline_ns);
	inf_jobs_relieve(method->context, pool_of(method->context, *home_of(b)), true);
	return INF_OK;
}

/* Take the job out of the queue in which it waits. False: it waits in none. */
static bool take_out(struct inf_binding *b)
{
	const struct inf_queues *queues = &b->method->context->queues;
	for (uint32_t i = 0; i < queues->n; i++)
		if (inf_pool_remove(queues->pools[i], &b->job.item))
			return true;
	return false;
}

void inf_job_cancel(struct inf_binding *b, enum inf_status status, const char *why)
{
	struct inf_context *context = b->method->context;
	if (!inf_job_is_busy(&b->job))
		return;
	/* a run that is moving between two queues is in neither; it sees this flag */
	atomic_store(&b->job.run.cancelled, true);
	if (take_out(b)) {
		end_waiting(b, status, why, &context->reply);
		return;
	}
	inf_queues_cancel(&context->queues, &b->job.run);
	uint64_t overdue_ns = overdue_after(et_platform_now_ns(NULL));
	if (!b->job.item.overdue_ns || overdue_ns < b->job.item.overdue_ns)
		b->job.item.overdue_ns = overdue_ns;
	context->events.expect_deadline(context->events.self, overdue_ns);
}

const char inf_job_stuck_text[] = "a worker does not come back from an earlier request of this model; no other request "
				  "of it begins until it does";

void inf_job_stop_waiting(struct inf_binding *b, enum inf_status status, const char *why)
{
	struct inf_context *context = b->method->context;
	if (inf_job_is_busy(&b->job) && take_out(b))
		end_waiting(b, status, why, &context->reply);
}

uint64_t inf_jobs_expire(struct inf_context *context)
{
	uint64_t first_ns = UINT64_MAX, next_ns;
	struct inf_item *item;
	for (uint32_t i = 0; i < context->queues.n; i++) {
		while ((item = inf_pool_take_expired(context->queues.pools[i], &next_ns)))
			end_waiting(inf_job_binding(item), INF_MISSED_DEADLINE, late, &context->reply);
		first_ns = next_ns < first_ns ? next_ns : first_ns;
		next_ns = inf_job_give_up_overdue(context->queues.pools[i]);
		first_ns = next_ns < first_ns ? next_ns : first_ns;
		inf_jobs_relieve(context, context->queues.pools[i], false);
	}
	return first_ns;
}
