/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that are answered while a worker is still in their run, and workers that are long in one instruction.
 *
 * A worker that is in one long call of a delegate cannot answer. The loop thread does it in its place: some
 * milliseconds after the deadline or the cancellation, or after `stall` (daemon/loop/stall_watchdog.c). In the first
 * case a spare worker serves in the worker's place, and other requests of the model go on. In the second one something
 * is wrong with the model, and no other request of it begins.
 *
 * A run without a deadline is not answered for: it may take as long as its user likes. While it is in one long
 * instruction, a spare worker serves requests that would starve (inf_pool_relieve).
 *
 * What must always be true: `answer` decides between the worker and the loop thread. What the run uses (binding,
 * regions, frame, charges) stays until the worker comes back, and a stateful Method's next request waits for that. A
 * client that asked for it is told then, since only then its memory is its own again: by the worker, after what this
 * thread has sent. */
#include "daemon/client/give_up.h"

#include "daemon/client/binding.h"
#include "daemon/client/session.h"
#include "daemon/context.h"
#include "runtime/platform/platform.h"

enum answered { NOT_ANSWERED, ANSWERED, ENDED };

static void tell(struct inf_binding *b, enum inf_status status, const char *why)
{
	inf_session_reply(b->session,
		&(struct inf_reply){
			.id = b->job.id, .status = status, .error = why, .goes_on = b->session->hears_ends });
}

/* Answer in the worker's place if `answer` is @from, and ask the run to stop. NOT_ANSWERED: it is not, for instance
 * since the worker answers. ENDED: answered, and the worker came back meanwhile; it has left it to this thread to
 * say so. */
static enum answered answer_for_worker(struct inf_binding *b, uint32_t from, enum inf_job_answer as,
	enum inf_status status, const char *why)
{
	bool is_first = from == INF_ANSWER_OPEN;
	uint32_t now = INF_ANSWER_GIVING_UP;
	if (!inf_job_is_busy(&b->job) || !atomic_compare_exchange_strong(&b->job.answer, &from, now))
		return NOT_ANSWERED;
	if (is_first) {
		atomic_store(&b->job.run.cancelled, true);
		inf_queues_cancel(&b->method->context->queues, &b->job.run);
	}
	if (is_first || b->session->hears_ends)
		tell(b, status, why);
	if (atomic_compare_exchange_strong(&b->job.answer, &now, as))
		return ANSWERED;
	if (b->session->hears_ends)
		inf_session_refuse(b->session, b->job.id, INF_CANCELLED, "the run has ended");
	return ENDED;
}

bool inf_job_give_up(struct inf_binding *b, enum inf_status status, const char *why)
{
	struct inf_model *model = b->method->model;
	atomic_fetch_add_explicit(&model->n_stuck, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&b->method->first->n_stuck, 1, memory_order_relaxed);
	enum answered is = answer_for_worker(b, INF_ANSWER_OPEN, INF_ANSWER_STUCK, status, why);
	if (is == NOT_ANSWERED)
		is = answer_for_worker(b, INF_ANSWER_GIVEN_UP, INF_ANSWER_STUCK, status, why);
	if (is == ANSWERED)
		return true;
	atomic_fetch_sub_explicit(&model->n_stuck, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&b->method->first->n_stuck, 1, memory_order_relaxed);
	return false;
}

enum { MAX_OVERDUE = 16 };

/* Workers of one queue that do not come back from a job whose time is over. */
struct overdue {
	uint32_t n;
	struct {
		struct inf_binding *binding; /* a reference */
		uint32_t worker;
	} items[MAX_OVERDUE];
};

/* Called under the queue's lock. */
static void note_overdue(void *self, struct inf_item *item, uint32_t worker, uint64_t since_ns)
{
	struct overdue *overdue = self;
	struct inf_binding *b = inf_job_binding(item);
	if (overdue->n == MAX_OVERDUE)
		return;
	inf_binding_ref(b);
	overdue->items[overdue->n].binding = b;
	overdue->items[overdue->n++].worker = worker;
}

/* Answer a job that is overdue, if its worker does not, and replace the worker. */
static void give_up_overdue(struct inf_binding *b, struct inf_pool *pool, uint32_t worker)
{
	const struct inf_context *context = b->method->context;
	uint64_t deadline_ns = b->job.item.deadline_ns;
	bool is_late = deadline_ns && et_platform_now_ns(NULL) >= deadline_ns;
	enum answered is = answer_for_worker(b, INF_ANSWER_OPEN, INF_ANSWER_GIVEN_UP,
		is_late ? INF_MISSED_DEADLINE : INF_CANCELLED,
		is_late ? "the request's deadline passed within an instruction that does not end yet"
			: "the request was cancelled within an instruction that does not end yet");
	b->job.item.overdue_ns = 0;
	if (is != ANSWERED)
		return;
	bool is_replaced = inf_pool_replace(pool, worker, &b->job.item);
	if (!inf_session_may_log(b->session, INF_LOG_RUNS))
		return;
	et_logf(&context->log, ET_LOG_WARNING,
		"session %llu job %llu: one instruction of model '%s' outlives the request's %s; %s",
		(unsigned long long)b->session->id, (unsigned long long)b->job.id, b->method->model->model,
		is_late ? "deadline" : "cancellation",
		is_replaced ? "a spare worker serves until it ends" : "its worker cannot be replaced");
}

uint64_t inf_job_give_up_overdue(struct inf_pool *pool)
{
	struct overdue overdue = { 0 };
	uint64_t next_ns = inf_pool_check_overdue(pool, note_overdue, &overdue);
	for (uint32_t i = 0; i < overdue.n; i++) {
		give_up_overdue(overdue.items[i].binding, pool, overdue.items[i].worker);
		inf_binding_drop(overdue.items[i].binding);
	}
	return overdue.n == MAX_OVERDUE ? 0 : next_ns;
}

enum { PROGRAM_LONG_NS = 10 * 1000 * 1000, LONG_NS = 20 * 1000 * 1000, MOST_LONG_NS = 100 * 1000 * 1000 };

/* A model of the administrator's may take twice as long as it usually does, up to the slice after which a run yields
 * between two instructions (worker.c): where users share a busy machine, spare workers would only take its cores from
 * the others. A client may make its program's runs as long as it likes, so its past says nothing: each of its calls
 * has a time slice of 5 ms, so one that takes twice as long is in a long instruction. */
uint64_t inf_job_long_ns(const struct inf_model *model)
{
	uint64_t guess_ns = atomic_load_explicit(&model->stats.guess_ns, memory_order_relaxed);
	if (model->is_uploaded)
		return PROGRAM_LONG_NS;
	if (guess_ns < LONG_NS / 2)
		return LONG_NS;
	return guess_ns < MOST_LONG_NS / 2 ? 2 * guess_ns : MOST_LONG_NS;
}

void inf_jobs_relieve(const struct inf_context *context, struct inf_pool *pool, bool has_come)
{
	bool is_first = false;
	uint64_t next_ns = inf_pool_relieve(pool, has_come, &is_first);
	if (next_ns != UINT64_MAX)
		context->events.expect_deadline(context->events.self, next_ns);
	if (is_first) /* a model that waits for a worker may be READY without one */
		context->events.notify(context->events.self);
}
