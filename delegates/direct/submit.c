/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs that are submitted: the thread that asks goes on, and whoever calls done ends the run.
 *
 * The end may come before submit has returned, and the context may be in its next run by then, or on its way to be
 * freed. So after submit only the run's number tells whether anything of it is still ours, and a context is not freed
 * while a call on it has not returned.
 *
 * cancel names an instance, not a run: it is called at most once for a run, not before submit has returned, and the next
 * run does not begin while it lasts. All this is looked at under one lock of the context's own, which is never held while
 * the delegate is called. Unlike a plug-in, a delegate that is compiled in is believed: an end that comes a second time is
 * noticed only while nothing runs. */
#include "delegates/direct/direct_internal.h"

static void on_done(void *self, int result, const char *text)
{
	struct et_instance *c = self;
	struct flight *f = &c->flight;
	struct et_diag diag = { "" };
	pthread_mutex_lock(&f->lock);
	bool is_ours = f->is_under_way;
	f->is_under_way = false;
	struct et_evalue *const *args = f->args;
	struct et_completion completion = f->completion;
	pthread_mutex_unlock(&f->lock);
	if (!is_ours) {
		et_logf(c->backend->log, ET_LOG_ERROR, "backend %s reported the end of a run that had ended",
			c->backend->table.name);
		return;
	}
	enum et_status status = et_interface_status(result, text ? text : "", &diag);
	if (!status)
		status = et_direct_give_outputs(c, args, &diag);
	completion.done(completion.self, status, diag.text[0] ? diag.text : NULL);
}

void et_direct_flight_init(struct et_instance *c)
{
	pthread_mutex_init(&c->flight.lock, NULL);
	pthread_cond_init(&c->flight.changed, NULL);
	c->flight.end = (struct inferd_delegate_completion){
		.struct_size = sizeof c->flight.end, .self = c, .done = on_done
	};
}

void et_direct_flight_deinit(struct et_instance *c)
{
	struct flight *f = &c->flight;
	pthread_mutex_lock(&f->lock);
	while (f->n_submitting || f->n_cancelling)
		pthread_cond_wait(&f->changed, &f->lock);
	pthread_mutex_unlock(&f->lock);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->changed);
}

/* With the lock, which is released meanwhile. */
static void pass_cancel(struct et_instance *c)
{
	struct flight *f = &c->flight;
	f->n_cancelling++;
	pthread_mutex_unlock(&f->lock);
	c->backend->table.cancel(c->model->delegate_model, c->delegate_instance);
	pthread_mutex_lock(&f->lock);
	f->n_cancelling--;
	pthread_cond_broadcast(&f->changed);
}

void et_direct_cancel(struct et_instance *c)
{
	struct flight *f = &c->flight;
	pthread_mutex_lock(&f->lock);
	bool is_first = f->is_under_way && !f->is_cancelled;
	f->is_cancelled = f->is_cancelled || is_first;
	if (is_first && f->is_submitted)
		pass_cancel(c);
	pthread_mutex_unlock(&f->lock);
}

static uint64_t begin(struct et_instance *c, struct et_evalue *const *args, const struct et_completion *completion)
{
	struct flight *f = &c->flight;
	pthread_mutex_lock(&f->lock);
	while (f->n_cancelling) /* of the run before */
		pthread_cond_wait(&f->changed, &f->lock);
	f->is_under_way = true;
	f->is_submitted = f->is_cancelled = false;
	f->n_submitting++;
	f->args = args;
	f->completion = *completion;
	uint64_t number = ++f->number;
	pthread_mutex_unlock(&f->lock);
	return number;
}

/* submit has returned. True: it has refused the run, which was not ended in another way. */
static bool settle(struct et_instance *c, uint64_t number, bool is_refused)
{
	struct flight *f = &c->flight;
	pthread_mutex_lock(&f->lock);
	bool is_ours = f->number == number && f->is_under_way;
	if (is_ours && is_refused) {
		f->is_under_way = false;
	} else if (is_ours) {
		f->is_submitted = true;
		if (f->is_cancelled)
			pass_cancel(c);
	}
	f->n_submitting--;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	return is_ours && is_refused;
}

enum et_status et_direct_submit(struct et_instance *c, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	const struct et_backend *b = c->backend;
	enum et_status status = et_direct_take_args(c, args, diag);
	if (status)
		return status;
	et_direct_message_init(&message);
	uint64_t number = begin(c, args, completion);
	int result = b->table.submit(c->model->delegate_model, c->delegate_instance, &c->run, &c->flight.end, &message);
	/* @c may be in its next run, but is there */
	return settle(c, number, result != INFERD_DELEGATE_OK) ? et_direct_status(result, &message, diag) : ET_PENDING;
}
