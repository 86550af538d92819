/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients' programs whose process has ended are made ready again.
 *
 * That takes as long as the client's program is large: a process starts, and makes the program anew. A worker must not
 * wait for it, so a thread of the backend's does it. The run that finds the process gone waits for a moment, since
 * most programs are small. Then it is refused, and its client may ask again.
 *
 * One model of a user is made ready at a time, the next one when a run asks for it. Whoever sets is_reviving may start
 * the thread, and has to join the one before, which has nothing left to do but to drop the model and the Program that
 * it held: their last users may go while it works. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "runtime/platform/platform.h"

#include <signal.h>
#include <time.h>

enum { PATIENCE_NS = 20 * 1000 * 1000 };

/* The result is kept for the runs that wait. */
static void set_revived(struct et_backend *b, enum et_status status, const struct et_diag *diag)
{
	pthread_mutex_lock(&b->lock);
	b->revived = status;
	b->revive_diag = *diag;
	b->is_reviving = false;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

/* Whether only the reviver holds the model. An is_in_vain of et_plugin_make_for. */
static bool is_in_vain(void *arg)
{
	const struct et_model *model = arg;
	return atomic_load_explicit(&model->n_refs, memory_order_relaxed) == 1;
}

static void *revive(void *arg)
{
	struct et_model *model = arg;
	struct et_program *program = model->reviving;
	struct et_diag diag = { "" };
	uint64_t generation, id;
	et_plugin_make_for(is_in_vain, model);
	enum et_status status = et_plugin_ensure_host(model->backend, &generation, &diag);
	if (!status)
		status = et_plugin_load(model, generation, &id, &diag);
	set_revived(model->backend, status, &diag);
	et_plugin_model_free(model);
	et_program_unref(program); /* after the model, which names its files */
	return NULL;
}

/* This thread has set is_reviving. The caller's Plan holds @model and its Program. */
static void start(struct et_model *model)
{
	struct et_backend *b = model->backend;
	sigset_t all, before;
	if (b->has_reviver)
		pthread_join(b->reviver, NULL);
	model->reviving = et_program_ref((struct et_program *)model->program);
	atomic_fetch_add_explicit(&model->n_refs, 1, memory_order_relaxed);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	b->has_reviver = pthread_create(&b->reviver, NULL, revive, model) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (b->has_reviver)
		return;
	struct et_diag diag = { "" };
	atomic_fetch_sub_explicit(&model->n_refs, 1, memory_order_relaxed);
	et_program_unref(model->reviving);
	set_revived(b, et_fail(&diag, ET_E_OUT_OF_RESOURCES, "can't start a thread"), &diag);
}

/* Whether the present host has the model. */
static bool is_ready(struct et_model *model, uint64_t *ret_generation)
{
	struct et_backend *b = model->backend;
	pthread_mutex_lock(&b->lock);
	*ret_generation = b->generation;
	bool is_up = b->phase == ET_PLUGIN_UP;
	pthread_mutex_unlock(&b->lock);
	return is_up && atomic_load_explicit(&model->ready, memory_order_relaxed) == *ret_generation;
}

/* Called under the lock: wait for the reviver, but not for long. Whether it is done. */
static bool wait_for_reviver(struct et_backend *b)
{
	uint64_t until_ns = et_platform_now_ns(NULL) + PATIENCE_NS;
	struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };
	while (b->is_reviving && pthread_cond_clockwait(&b->changed, &b->lock, CLOCK_MONOTONIC, &until) == 0)
		;
	return !b->is_reviving;
}

enum et_status et_plugin_revive(struct et_model *model, uint64_t *ret_generation, struct et_diag *diag)
{
	struct et_backend *b = model->backend;
	if (is_ready(model, ret_generation))
		return ET_OK;
	pthread_mutex_lock(&b->lock);
	bool is_mine = !b->is_reviving && !b->is_closing;
	b->is_reviving |= is_mine;
	pthread_mutex_unlock(&b->lock);
	if (is_mine)
		start(model);
	pthread_mutex_lock(&b->lock);
	enum et_status status = wait_for_reviver(b) && is_mine ? b->revived : ET_OK;
	if (status)
		et_fail(diag, status, "%.300s", b->revive_diag.text);
	pthread_mutex_unlock(&b->lock);
	if (status || is_ready(model, ret_generation))
		return status;
	return et_fail(diag, ET_E_BACKEND_CRASHED,
		"the process of backend '%.60s' ended, and makes this program ready again; try again in a moment",
		b->ops.name);
}

void et_plugin_revive_end(struct et_backend *b)
{
	pthread_mutex_lock(&b->lock);
	while (b->is_reviving)
		pthread_cond_wait(&b->changed, &b->lock);
	pthread_mutex_unlock(&b->lock);
	if (b->has_reviver)
		pthread_join(b->reviver, NULL);
}
