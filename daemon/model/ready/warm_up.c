/* SPDX-License-Identifier: BSD-3-Clause */
/* Warm-up: runs on zeros before a model is READY, so that the first request of a client takes as long as later ones.
 *
 * They run on each worker that prepares the model, one core wide and over all cores, and leave behind what a first run
 * makes: the pages of a frame, scratch memory, filled caches, whatever a delegate makes late. Inputs have their largest
 * sizes. A run that fails on zeros says nothing about other inputs: it is noted and ends the warm-up.
 *
 * A worker is not interrupted for other requests meanwhile, so all of it ends after MAX_NS. A program that continues on
 * another queue is run up to there. */
#include "daemon/model/model.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NS UINT64_C(10000000000)

struct warm_up {
	struct inf_model *model;
	struct et_method *method;
	struct inf_frame_entry *frame;
	struct et_io *ios; /* inputs, then outputs */
	struct et_run run;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool has_ended; /* the delegate's call */
};

static void delegate_done(void *self, enum et_status status, const char *reason)
{
	struct warm_up *w = self;
	pthread_mutex_lock(&w->lock);
	et_run_resume(&w->run, status, reason);
	w->has_ended = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

/* Zeros for each input and room for each output. False: no memory. */
static bool make_ios(struct et_io *ios, const struct et_io_info *infos, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		enum { BEHIND = 64, ALIGNMENT = 64 }; /* kernels may read behind the end */
		size_t n_room;
		ios[i].tag = infos[i].tag;
		if (infos[i].tag != ET_TAG_TENSOR)
			continue;
		if (!et_add(infos[i].n_bytes, BEHIND + ALIGNMENT - 1, &n_room) ||
			!(ios[i].tensor.data = aligned_alloc(ALIGNMENT, n_room / ALIGNMENT * ALIGNMENT)))
			return false;
		memset(ios[i].tensor.data, 0, n_room / ALIGNMENT * ALIGNMENT);
		ios[i].tensor.n_bytes = infos[i].n_bytes;
		ios[i].n_dims = infos[i].n_dims;
		memcpy(ios[i].sizes, infos[i].sizes, infos[i].n_dims * sizeof(ios[i].sizes[0]));
	}
	return true;
}

static void free_ios(struct et_io *ios, const struct et_io_info *infos, uint32_t n)
{
	for (uint32_t i = 0; ios && i < n; i++)
		if (infos[i].tag == ET_TAG_TENSOR)
			free(ios[i].tensor.data);
}

/* Advance to the end, or to the program's first change of queue; false: there. */
static bool advance(struct warm_up *w, const struct et_worker_env *env)
{
	for (;;) {
		w->has_ended = false;
		enum et_stop stop = et_run_advance(&w->run, env);
		if (stop == ET_STOP_QUEUE && w->run.queue.kind == env->queue.kind &&
			w->run.queue.device == env->queue.device)
			continue; /* a delegate's time slice is over */
		if (stop != ET_STOP_PENDING)
			return stop != ET_STOP_QUEUE;
		et_run_wait(&w->run);
		pthread_mutex_lock(&w->lock);
		while (!w->has_ended)
			pthread_cond_wait(&w->changed, &w->lock);
		pthread_mutex_unlock(&w->lock);
	}
}

/* False: no further run is useful; @diag has the reason, if it failed. */
static bool run_once(struct warm_up *w, const struct et_worker_env *env, uint64_t deadline_ns)
{
	const struct et_plan_info *info = w->model->info;
	w->run = (struct et_run){ .method = w->method,
		.frame = w->frame->frame,
		.inputs = w->ios,
		.outputs = w->ios + info->n_inputs,
		.deadline_ns = deadline_ns,
		.completion = { w, delegate_done, .will_wait = true } };
	if (et_run_begin(&w->run) != ET_OK)
		return false;
	bool is_whole = advance(w, env);
	if (!is_whole)
		w->run.status = ET_E_CANCELLED;
	return et_run_end(&w->run) == ET_OK && is_whole;
}

void inf_model_warm_up(struct inf_model *s, const struct et_worker_env *worker_env)
{
	struct et_worker_env own = *worker_env;
	const struct et_worker_env *env = &own;
	own.should_yield = NULL; /* it asks about the worker's request, and there is none */
	const struct et_plan_info *info = s->info;
	struct warm_up w = { .model = s };
	struct et_diag diag = { "" };
	size_t n_ios = (size_t)info->n_inputs + info->n_outputs;
	uint64_t deadline_ns = et_platform_now_ns(NULL) + MAX_NS;
	uint32_t n = 0;
	if (!s->n_warm_up || info->first_queue.kind != env->queue.kind || info->first_queue.device != env->queue.device)
		return;
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.changed, NULL);
	w.ios = calloc(n_ios + 1, sizeof(*w.ios));
	if (w.ios && make_ios(w.ios, info->inputs, info->n_inputs) &&
		make_ios(w.ios + info->n_inputs, info->outputs, info->n_outputs) &&
		et_method_new(&w.method, s->plan, et_platform_allocator(), &diag) == ET_OK &&
		inf_model_take_frame(s, 0, &w.frame, &diag) == ET_OK) {
		while (n < s->n_warm_up && run_once(&w, env, deadline_ns))
			n++;
		inf_model_give_frame(s, w.frame);
	}
	if (n < s->n_warm_up)
		et_logf(s->log, ET_LOG_NOTICE, "model %s/%s %s: its warm-up ended after %u of %u runs: %s", s->model,
			s->version, s->method, n, s->n_warm_up,
			w.run.diag.text[0]               ? w.run.diag.text
			: diag.text[0]                   ? diag.text
			: w.run.status == ET_E_CANCELLED ? "it continues on another queue"
			: w.run.status != ET_OK          ? et_status_text(w.run.status)
							 : "out of memory");
	et_method_free(w.method);
	free_ios(w.ios, info->inputs, info->n_inputs);
	free_ios(w.ios ? w.ios + info->n_inputs : NULL, info->outputs, info->n_outputs);
	free(w.ios);
	pthread_cond_destroy(&w.changed);
	pthread_mutex_destroy(&w.lock);
}
