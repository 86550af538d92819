/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods of clients: what they cost, their state, and moving to another model.
 *
 * Making, resetting and freeing a large state happens on a helper's thread, since clearing a gigabyte would hold up
 * every client. Meanwhile the Method is suspended and its requests are refused.
 *
 * Methods move from the loop alone, never inside a submit. The worker that ends the last request of a Method sets a
 * flag and wakes the loop, which moves every idle Method before it handles the next request of a client.
 *
 * What must always be true: a Method moves only while none of its requests is in flight, so that what a worker reads
 * stays as it was. A charge is given back only when the memory that it stands for is free. */
#include "daemon/client/method.h"

#include "daemon/base/text.h"
#include "daemon/context.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool inf_refuse(struct inf_refusal *refusal, enum inf_status status, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	refusal->status = status;
	vsnprintf(refusal->text, sizeof(refusal->text), format, args);
	va_end(args);
	return false;
}

/* --- charges -------------------------------------------------------------------------------------- */

static uint64_t more(uint64_t n, uint64_t than)
{
	return n > than ? n - than : 0;
}

/* The charge for a client's own program, or for a large state, until that memory is free. */
struct late_charge {
	struct inf_quota_user *user; /* a reference */
	uint64_t n_bytes;
	uint64_t n_program; /* of those: in the process for the user's own programs */
};

static void discharge_late(void *arg)
{
	struct late_charge *charge = arg;
	inf_quota_count_program(charge->user, -charge->n_program);
	inf_quota_discharge(charge->user, INF_QUOTA_BYTES, charge->n_bytes);
	inf_quota_user_unref(charge->user);
	free(charge);
}

bool inf_method_charge_load(struct inf_quota_user *user, struct inf_model *model, uint64_t n_bytes, char *why,
	size_t room)
{
	char limit[400];
	struct late_charge *charge = malloc(sizeof(*charge));
	if (!charge) {
		inf_text(why, room, "the daemon is out of memory");
		return false;
	}
	if (!inf_quota_charge(user, INF_QUOTA_BYTES, n_bytes)) {
		inf_quota_explain(user, INF_QUOTA_BYTES, n_bytes, limit, sizeof(limit));
		inf_text(why, room, "it needs %" PRIu64 " bytes for what is made of it and its runs; %s", n_bytes,
			limit);
		free(charge);
		return false;
	}
	*charge = (struct late_charge){ user, n_bytes, n_bytes };
	inf_quota_count_program(user, n_bytes);
	user->n_refs++;
	model->gone = discharge_late;
	model->gone_arg = charge;
	return true;
}

/* A client's own program gets its first Method: it was charged as estimated, and is measured by now. False and
 * *refusal: the charge is as it was. */
static bool correct_charge(struct inf_model *model, struct inf_refusal *refusal)
{
	struct late_charge *charge = model->gone_arg;
	struct inf_model_use all = inf_model_use(model);
	char why[600];
	all.n_file = 0;
	uint64_t n = inf_model_total(&all);
	if (!inf_quota_charge(charge->user, INF_QUOTA_BYTES, more(n, charge->n_bytes))) {
		inf_quota_explain(charge->user, INF_QUOTA_BYTES, more(n, charge->n_bytes), why, sizeof(why));
		return inf_refuse(refusal, INF_RESOURCE_EXHAUSTED,
			"'%.80s' needs %" PRIu64 " bytes for what is made of it and its runs; %s", model->model, n,
			why);
	}
	inf_quota_discharge(charge->user, INF_QUOTA_BYTES, more(charge->n_bytes, n));
	inf_quota_count_program(charge->user, n - charge->n_program);
	charge->n_bytes = charge->n_program = n;
	return true;
}

/* Charge the state of @method to its user. A client's own program was charged before (inf_method_charge_load), for
 * what is made of it (decoded, packed, instances) and for one run on each worker; its files were, too, and each further
 * run is charged while it lasts (inf_binding_charge_frame). False and *refusal: nothing more is charged. */
static bool charge_method(struct inf_method *method, struct inf_refusal *refusal)
{
	struct inf_model *model = method->model;
	char why[600];
	uint64_t n_state = model->info->n_state_bytes;
	if (method->first != method)
		n_state -= model->info->n_shared_bytes;
	if (!inf_repository_has_room_for_state(method->context->repository, model, n_state, why, sizeof(why)))
		return inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "there is no room for the state of '%.80s': %s",
			model->model, why);
	if (model->gone && !model->n_methods && !correct_charge(model, refusal))
		return false;
	if (!inf_quota_charge(method->user, INF_QUOTA_BYTES, n_state)) {
		inf_quota_explain(method->user, INF_QUOTA_BYTES, n_state, why, sizeof(why));
		return inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "'%.80s' needs %" PRIu64 " bytes for its state; %s",
			model->model, n_state, why);
	}
	method->n_state_bytes = n_state;
	if (model->is_uploaded)
		inf_quota_count_program(method->user, n_state);
	return true;
}

/* The last Method of a client's own program goes: keep @n_bytes charged until the program is freed, too. */
static void discharge_with_model(struct inf_model *model, struct inf_quota_user *user, uint64_t n_bytes)
{
	struct late_charge *charge = model->gone ? model->gone_arg : NULL;
	if (charge && charge->user == user)
		charge->n_bytes += n_bytes;
	else
		inf_quota_discharge(user, INF_QUOTA_BYTES, n_bytes);
}

/* Whether a Method of @model can share the state of @first; else *refusal. */
static bool can_share(const struct inf_model *model, const struct inf_method *first, struct inf_refusal *refusal)
{
	if (first->is_changing || first->model->program != model->program)
		return inf_refuse(refusal, INF_FAILED_PRECONDITION,
			"the Method to share with has changed over to another variant of '%.80s'; open both again",
			model->model);
	return (first->model->info->n_shared_bytes && model->info->n_shared_bytes) ||
	       inf_refuse(refusal, INF_FAILED_PRECONDITION,
		       "methods '%.80s' and '%.80s' of '%.80s' have no buffers to share: they share those of "
		       "programs exported with share_mutable_buffers, where both use any",
		       first->model->method, model->method, model->model);
}

/* --- life ----------------------------------------------------------------------------------------- */

struct inf_method *inf_method_new(struct inf_context *context, struct inf_model *model, struct inf_quota_user *user,
	uint64_t n_uploaded_bytes, struct inf_method *with, struct inf_refusal *refusal)
{
	if (with && !can_share(model, with->first, refusal))
		return NULL;
	struct inf_method *method = calloc(1, sizeof(*method));
	if (!method) {
		inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return NULL;
	}
	method->first = with ? with->first : method;
	method->model = model;
	method->user = user;
	method->context = context;
	if (!charge_method(method, refusal)) {
		free(method);
		return NULL;
	}
	method->n_refs = 1;
	if (with) {
		with->first->n_refs++;
		with->first->n_sharing++;
		model->n_sharing++;
	}
	inf_model_ref(model);
	method->n_uploaded_bytes = n_uploaded_bytes;
	inf_stream_init(&method->stream);
	model->n_methods++;
	return method;
}

bool inf_method_make_state(struct inf_method *method, struct inf_refusal *refusal)
{
	struct et_diag diag = { "" };
	const struct et_method *with = method->first->method; /* NULL: @method is the first one */
	enum et_status status = et_method_new_with(&method->method, method->model->plan, with, et_platform_allocator(),
		&diag);
	return status == ET_OK || inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "no memory for the state of '%s': %s",
					  method->model->model, diag.text[0] ? diag.text : et_status_text(status));
}

bool inf_method_begins_long(const struct inf_model *model)
{
	enum { LONG = 1 << 20 };
	/* a process that computes a part of it may not answer for some time */
	return model->info->n_reset_bytes >= LONG || (model->info->is_stateful && model->info->may_leave_unwritten);
}

/* Free the state of @method, a large one on a helper's thread, and discharge @n_bytes when it is free. A client's own
 * program never moves, so these are all bytes of its state. */
static void free_state(struct inf_method *method, uint64_t n_bytes)
{
	uint64_t n_program = method->model->is_uploaded ? n_bytes : 0;
	bool is_small = inf_repository_is_little(method->context->repository, method->n_state_bytes);
	struct late_charge *charge = is_small ? NULL : malloc(sizeof(*charge));
	if (charge) {
		*charge = (struct late_charge){ method->user, n_bytes, n_program };
		method->user->n_refs++;
		inf_repository_release_async_method(method->context->repository, method->method, method->n_state_bytes,
			discharge_late, charge);
	} else {
		et_method_free(method->method);
		inf_quota_count_program(method->user, -n_program);
		inf_quota_discharge(method->user, INF_QUOTA_BYTES, n_bytes);
	}
}

struct inf_method *inf_method_unref(struct inf_method *method)
{
	if (!method || --method->n_refs)
		return NULL;
	struct inf_model *model = method->model;
	free_state(method, method->n_state_bytes);
	model->n_methods--;
	if (method->first != method) {
		model->n_sharing--;
		method->first->n_sharing--;
		if (method->first->model->successor) /* it may move now */
			inf_methods_note_idle(method->context);
		inf_method_unref(method->first);
	}
	if (model->n_methods)
		inf_quota_discharge(method->user, INF_QUOTA_BYTES, method->n_uploaded_bytes);
	else
		discharge_with_model(model, method->user, method->n_uploaded_bytes);
	inf_repository_method_gone(method->context->repository, model);
	inf_model_unref(model);
	inf_quota_discharge(method->user, INF_QUOTA_METHODS, 1);
	inf_quota_user_unref(method->user);
	free(method);
	return NULL;
}

/* --- moving --------------------------------------------------------------------------------------- */

/* Charge what a state for @to takes beyond the present one. False and *refusal: there is no room, or the user has
 * reached a limit. */
static bool charge_change(struct inf_method *method, const struct inf_model *to, struct inf_refusal *refusal)
{
	uint64_t n_new = to->info->n_state_bytes, n_more = more(n_new, method->n_state_bytes);
	char why[600];
	if (!inf_repository_has_room_for_state(method->context->repository, to, n_new, why, sizeof(why)))
		return inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "there is no room for its new state: %s", why);
	if (inf_quota_charge(method->user, INF_QUOTA_BYTES, n_more))
		return true;
	inf_quota_explain(method->user, INF_QUOTA_BYTES, n_more, why, sizeof(why));
	return inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "its state would need %" PRIu64 " bytes; %s", n_new, why);
}

/* Replace the state by @state, which is marked as lost, or keep it where @state is NULL. What charge_change charged
 * too much is given back. None of the Method's requests is in flight. */
static void change_state(struct inf_method *method, const struct inf_model *to, struct et_method *state)
{
	uint64_t n_old = method->n_state_bytes, n_new = to->info->n_state_bytes;
	if (!state) {
		inf_quota_discharge(method->user, INF_QUOTA_BYTES, more(n_new, n_old));
		return;
	}
	et_method_lose(state);
	free_state(method, more(n_old, n_new));
	method->method = state;
	method->n_state_bytes = n_new;
}

static void log_stay(const struct inf_method *m, const char *why)
{
	et_logf(&m->context->log, ET_LOG_WARNING, "model %s: a Method can't move to another variant: %s",
		m->model->model, why);
}

/* @m has a state for @to, and @to counts it already: make @to its model. */
static void finish_move(struct inf_method *m, struct inf_model *to)
{
	struct inf_model *from = m->model;
	m->model = inf_model_ref(to);
	from->n_methods--;
	inf_repository_method_gone(m->context->repository, from);
	inf_model_unref(from);
}

/* @m stays with its model: take it out of the count of @to. */
static void cancel_move(struct inf_method *m, struct inf_model *to)
{
	to->n_methods--;
	inf_repository_method_gone(m->context->repository, to);
}

/* A large state that a helper's thread makes for @to. */
struct change {
	struct inf_work work;
	struct inf_method *method; /* a reference */
	struct inf_model *to;      /* a reference */
	struct et_method *state;
	struct et_diag diag;
};

static void change_run(struct inf_work *work)
{
	struct change *change = ET_CONTAINER_OF(work, struct change, work);
	if (et_method_new(&change->state, change->to->plan, et_platform_allocator(), &change->diag) != ET_OK)
		change->state = NULL;
}

static void state_gone(void *arg)
{
}

static void begin_waiting_reset(struct inf_method *m)
{
	void (*begin)(void *arg) = m->begin_reset;
	m->begin_reset = NULL;
	if (begin)
		begin(m->begin_reset_arg);
}

static void change_done(struct inf_work *work)
{
	struct change *change = ET_CONTAINER_OF(work, struct change, work);
	struct inf_method *m = change->method;
	m->is_suspended = m->is_changing = false;
	/* not inf_method_job_ended: a move that has failed is tried again after the next request, not at once */
	atomic_fetch_sub_explicit(&m->n_jobs, 1, memory_order_release);
	if (!change->state)
		log_stay(m, change->diag.text[0] ? change->diag.text : "no memory");
	bool can_move = change->state && inf_model_is_loaded(change->to);
	if (change->state && !can_move)
		inf_repository_release_async_method(m->context->repository, change->state,
			change->to->info->n_state_bytes, state_gone, NULL);
	change_state(m, change->to, can_move ? change->state : NULL);
	if (can_move)
		finish_move(m, change->to);
	else
		cancel_move(m, change->to);
	inf_model_unref(change->to);
	if (m->model->successor || can_move) /* found meanwhile; or its session was held for this */
		inf_methods_note_idle(m->context);
	begin_waiting_reset(m);
	inf_method_unref(m);
	free(change);
}

/* Make the new state on a helper's thread. False: no memory. */
static bool begin_change(struct inf_method *m, struct inf_model *to)
{
	struct change *change = calloc(1, sizeof(*change));
	if (!change)
		return false;
	change->work = (struct inf_work){ .run = change_run, .done = change_done };
	change->method = m;
	m->n_refs++;
	change->to = inf_model_ref(to);
	m->is_suspended = m->is_changing = true;
	atomic_fetch_add_explicit(&m->n_jobs, 1, memory_order_relaxed); /* no other move meanwhile */
	inf_helper_post_for_user(m->context->helper, &change->work, m->user);
	return true;
}

/* The model that @m is to move to; NULL: it stays. */
static struct inf_model *find_destination(const struct inf_method *m)
{
	const struct inf_model *from = m->model;
	struct inf_model *to = from->successor;
	while (to && to->successor)
		to = to->successor;
	if (!to || !inf_model_is_loaded(to) || m->first != m || m->n_sharing ||
		(m->wants_backend && !(from->is_damaged && strcmp(from->backend, to->backend) == 0)))
		return NULL;
	/* A valid state is worth more than a better variant. */
	return from->info->is_stateful && from->state != INF_MODEL_ABANDONED && !from->is_damaged ? NULL : to;
}

bool inf_method_waits_to_move(const struct inf_method *m)
{
	/* acquire: pairs with the release in inf_method_job_ended */
	return atomic_load_explicit(&m->n_jobs, memory_order_acquire) && find_destination(m);
}

bool inf_method_waits_for_weights(const struct inf_method *m)
{
	return m->model->is_damaged && (m->model->is_reloading || inf_method_waits_to_move(m));
}

static void move(struct inf_method *m, struct inf_model *to)
{
	struct inf_refusal refusal;
	if (!charge_change(m, to, &refusal)) {
		log_stay(m, refusal.text);
		return;
	}
	struct et_method *state = NULL;
	struct et_diag diag = { "" };
	to->n_methods++;
	if (inf_method_begins_long(to) && begin_change(m, to))
		return;
	if (et_method_new(&state, to->plan, et_platform_allocator(), &diag) != ET_OK)
		state = NULL;
	change_state(m, to, state);
	if (state) {
		finish_move(m, to);
	} else {
		log_stay(m, diag.text[0] ? diag.text : "no memory");
		cancel_move(m, to);
	}
}

void inf_methods_note_idle(void *self)
{
	struct inf_context *context = self;
	if (!atomic_exchange(&context->has_idle_methods, true))
		context->events.notify(context->events.self);
}

void inf_method_job_ended(struct inf_method *m)
{
	/* Sequentially consistent, like the accesses in inf_method_move_if_idle: either that sees the last request
	 * gone, or this sees the flag. Also a release: pairs with the acquire in inf_method_request_reset. */
	if (atomic_fetch_sub(&m->n_jobs, 1) == 1 && atomic_load(&m->wants_to_move))
		inf_methods_note_idle(m->context);
}

void inf_method_move_if_idle(struct inf_method *m)
{
	struct inf_model *to = find_destination(m);
	atomic_store(&m->wants_to_move, to != NULL);
	if (to && !m->is_suspended && !atomic_load(&m->n_jobs))
		move(m, to);
}
