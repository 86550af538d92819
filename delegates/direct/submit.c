/* SPDX-License-Identifier: BSD-3-Clause */
/* Submitted runs: the calling thread goes on, and the thread on which the delegate calls done ends the run.
 *
 * done may be called before submit has returned. By then the instance may be in its next run, or about to be freed.
 * So after submit only the run's number tells whether the run is still under way, and an instance is not freed
 * while a call of submit or cancel on it has not returned.
 *
 * cancel names an instance, not a run. So it is called at most once for a run, only after submit has returned, and
 * the next run does not begin before cancel returns. One lock of the instance guards all this; it is never held
 * while the delegate is called. Unlike a plug-in, a built-in delegate is trusted: a second done for a run is
 * noticed only while nothing runs. */
#include "delegates/direct/direct_internal.h"

static void on_done(void *self, int result, const char *text)
{
	struct et_instance *instance = self;
	struct submission *submission = &instance->submission;
	struct et_diag diag = { "" };
	pthread_mutex_lock(&submission->lock);
	bool is_ours = submission->is_under_way;
	submission->is_under_way = false;
	struct et_evalue *const *args = submission->args;
	struct et_completion completion = submission->completion;
	pthread_mutex_unlock(&submission->lock);
	if (!is_ours) {
		et_logf(instance->backend->log, ET_LOG_ERROR, "backend %s reported the end of a run that had ended",
			instance->backend->table.name);
		return;
	}
	enum et_status status = et_convert_result(result, text ? text : "", &diag);
	if (!status)
		status = et_direct_give_outputs(instance, args, &diag);
	completion.done(completion.self, status, diag.text[0] ? diag.text : NULL);
}

void et_direct_submission_init(struct et_instance *instance)
{
	pthread_mutex_init(&instance->submission.lock, NULL);
	pthread_cond_init(&instance->submission.changed, NULL);
	instance->submission.end = (struct inferd_delegate_completion){
		.struct_size = sizeof instance->submission.end, .self = instance, .done = on_done
	};
}

void et_direct_submission_deinit(struct et_instance *instance)
{
	struct submission *submission = &instance->submission;
	pthread_mutex_lock(&submission->lock);
	while (submission->n_submitting || submission->n_cancelling)
		pthread_cond_wait(&submission->changed, &submission->lock);
	pthread_mutex_unlock(&submission->lock);
	pthread_mutex_destroy(&submission->lock);
	pthread_cond_destroy(&submission->changed);
}

/* Call the delegate's cancel. Under the lock, which is released meanwhile. */
static void pass_cancel(struct et_instance *instance)
{
	struct submission *submission = &instance->submission;
	submission->n_cancelling++;
	pthread_mutex_unlock(&submission->lock);
	instance->backend->table.cancel(instance->model->delegate_model, instance->delegate_instance);
	pthread_mutex_lock(&submission->lock);
	submission->n_cancelling--;
	pthread_cond_broadcast(&submission->changed);
}

void et_direct_cancel(struct et_instance *instance)
{
	struct submission *submission = &instance->submission;
	pthread_mutex_lock(&submission->lock);
	bool is_first = submission->is_under_way && !submission->is_cancelled;
	submission->is_cancelled = submission->is_cancelled || is_first;
	if (is_first && submission->is_submitted)
		pass_cancel(instance);
	pthread_mutex_unlock(&submission->lock);
}

static uint64_t begin(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion)
{
	struct submission *submission = &instance->submission;
	pthread_mutex_lock(&submission->lock);
	while (submission->n_cancelling) /* of the run before */
		pthread_cond_wait(&submission->changed, &submission->lock);
	submission->is_under_way = true;
	submission->is_submitted = submission->is_cancelled = false;
	submission->n_submitting++;
	submission->args = args;
	submission->completion = *completion;
	uint64_t number = ++submission->number;
	pthread_mutex_unlock(&submission->lock);
	return number;
}

/* submit has returned. True: it refused the run, and the run has not ended otherwise. */
static bool settle(struct et_instance *instance, uint64_t number, bool is_refused)
{
	struct submission *submission = &instance->submission;
	pthread_mutex_lock(&submission->lock);
	bool is_ours = submission->number == number && submission->is_under_way;
	if (is_ours && is_refused) {
		submission->is_under_way = false;
	} else if (is_ours) {
		submission->is_submitted = true;
		if (submission->is_cancelled)
			pass_cancel(instance);
	}
	submission->n_submitting--;
	pthread_cond_broadcast(&submission->changed);
	pthread_mutex_unlock(&submission->lock);
	return is_ours && is_refused;
}

enum et_status et_direct_submit(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	const struct et_backend *b = instance->backend;
	enum et_status status = et_direct_take_args(instance, args, diag);
	if (status)
		return status;
	et_direct_message_init(&message);
	uint64_t number = begin(instance, args, completion);
	int result = b->table.submit(instance->model->delegate_model, instance->delegate_instance, &instance->run,
		&instance->submission.end, &message);
	/* @instance may be in its next run, but is there */
	return settle(instance, number, result != INFERD_DELEGATE_OK) ? et_direct_status(result, &message, diag)
								      : ET_PENDING;
}
