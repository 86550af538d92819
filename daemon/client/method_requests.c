/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening, closing and resetting Methods.
 *
 * A Method is opened in steps: check the client's descriptors and charge them; ask the repository for a model; make
 * the Method; make its state, a large one on a helper's thread. Resetting a large state happens there, too. The
 * client may cancel or go between any two steps, so each begins by looking whether the request still has a session. */
#include "daemon/client/method_requests.h"

#include "daemon/client/answers.h"
#include "daemon/client/binding.h"
#include "daemon/client/pending.h"
#include "daemon/context.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The last step of opening: give the Method to the session; or free it, if its state could not be made or the
 * client is gone. */
static void finish_open(struct inf_pending *p)
{
	struct inf_session *s = p->session;
	struct inf_method *method = p->method;
	struct inf_model *model = method->model;
	struct inf_reply reply = { .id = p->id, .kind = INF_REPLY_METHOD_OPENED };
	struct et_pool pool;
	if (!s || !p->has_state) {
		if (s)
			inf_session_refuse(s, p->id, p->refusal.status, "%s", p->refusal.text);
		inf_method_unref(method);
		inf_pending_free(p);
		return;
	}
	et_pool_init(&pool, et_platform_allocator());
	struct inf_method_opened *m = &reply.method_opened;
	m->method = method->id = inf_table_add(&s->methods, method);
	m->inputs = inf_answer_tensors(&pool, model, true);
	m->outputs = inf_answer_tensors(&pool, model, false);
	m->n_inputs = model->info->n_inputs;
	m->n_outputs = model->info->n_outputs;
	m->version = model->version;
	m->backend = model->backend;
	m->stateful = model->info->is_stateful;
	if (!method->id || !m->inputs || !m->outputs) {
		inf_table_remove(&s->methods, method->id);
		inf_method_unref(method);
		inf_session_refuse(s, p->id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
	} else {
		inf_session_reply(s, &reply);
		if (model->successor || model->is_damaged) /* found while the Method was made: it moves */
			inf_methods_note_idle(s->context);
	}
	et_pool_deinit(&pool);
	inf_pending_free(p);
}

/* A large state is made on a helper's thread: clearing a gigabyte would hold up every client for half a second. */
static void make_state(struct inf_work *work)
{
	struct inf_pending *p = ET_CONTAINER_OF(work, struct inf_pending, work);
	p->has_state = inf_method_make_state(p->method, &p->refusal);
}

static void state_made(struct inf_work *work)
{
	finish_open(ET_CONTAINER_OF(work, struct inf_pending, work));
}

static void reset_state(struct inf_work *work)
{
	et_method_reset(ET_CONTAINER_OF(work, struct inf_pending, work)->method->method);
}

static void state_reset(struct inf_work *work)
{
	struct inf_pending *p = ET_CONTAINER_OF(work, struct inf_pending, work);
	p->method->first->is_suspended = false;
	inf_method_job_ended(p->method->first);
	if (p->session)
		inf_session_ok(p->session, p->id);
	inf_method_unref(p->method);
	inf_pending_free(p);
}

static void method_opened(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct inf_pending *p = ET_CONTAINER_OF(open, struct inf_pending, open);
	struct inf_session *s = p->session;
	struct inf_refusal refusal = { status, "" };
	if (!s) {
		inf_pending_free(p);
		return;
	}
	if (p->n_charged_fds) /* the repository has closed them */
		inf_quota_discharge(p->user, INF_QUOTA_FDS, p->n_charged_fds);
	p->n_charged_fds = 0;
	if (status != INF_OK) {
		inf_session_refuse(s, p->id, status, "%s", error);
		inf_pending_free(p);
		return;
	}
	struct inf_method *method = inf_method_new(s->context, model, p->user, p->n_charged_bytes, p->with, &refusal);
	if (!method) {
		inf_session_refuse(s, p->id, refusal.status, "%s", refusal.text);
		inf_pending_free(p);
		return;
	}
	p->has_charge = false; /* the Method has taken it over */
	p->method = method;
	method->wants_backend = p->wants_backend;
	if (!inf_method_begins_long(model)) {
		p->has_state = inf_method_make_state(method, &p->refusal);
		finish_open(p);
		return;
	}
	p->work = (struct inf_work){ .run = make_state, .done = state_made };
	inf_helper_post_for_user(s->context->helper, &p->work, p->user);
}

/* A client's own program is about to get its instances. */
static bool charge_load(struct inf_open *open, struct inf_model *model, uint64_t n_bytes, char *why, size_t room)
{
	return inf_method_charge_load(ET_CONTAINER_OF(open, struct inf_pending, open)->user, model, n_bytes, why, room);
}

/* Stat @fd without asking its file system: the client may run that file system itself and never answer, and this is
 * the loop thread. The values may be out of date; the helper checks them when it reads the file. */
static bool check_file(int fd, struct stat *ret_st)
{
	struct statx now;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &now) < 0)
		return false;
	*ret_st = (struct stat){
		.st_mode = now.stx_mode,
		.st_dev = makedev(now.stx_dev_major, now.stx_dev_minor),
		.st_ino = now.stx_ino,
		.st_size = (off_t)now.stx_size,
		.st_mtim = { now.stx_mtime.tv_sec, now.stx_mtime.tv_nsec },
		.st_ctim = { now.stx_ctime.tv_sec, now.stx_ctime.tv_nsec },
	};
	return true;
}

/* Check the descriptors of a client's own program, and write what they are into @open. NULL, or why they are
 * refused. */
static const char *check_own_files(struct inf_open *open, const struct inf_method_open *m, const int *fds,
	uint64_t *ret_n_bytes)
{
	struct stat st;
	*ret_n_bytes = 0;
	if (!m->from_fd)
		return m->data_fds ? "data files go only with a program that is passed as a descriptor" : NULL;
	if (m->version[0])
		return "a program passed as a descriptor has no version";
	for (uint32_t i = 0; i <= m->data_fds; i++) {
		int flags = fcntl(fds[i], F_GETFL);
		if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
			return "the descriptor is not open for reading";
		if (!check_file(fds[i], &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
			return "the descriptor is no regular file or memory file, or is empty";
		if (__builtin_add_overflow(*ret_n_bytes, (uint64_t)st.st_size, ret_n_bytes))
			return "the files are too large";
		if (i == 0)
			open->file = inf_file_id(&st);
		else
			open->data.items[i - 1] = inf_file_id(&st);
	}
	open->data.n = m->data_fds;
	memcpy(open->data_fds, fds + 1, m->data_fds * sizeof(*fds));
	return NULL;
}

/* Find the Method to share with, for @open. *ret_n_bytes: what is charged for its program again, if that is the
 * client's own. NULL, or why the request is refused. */
static const char *check_sharing(struct inf_session *s, const struct inf_method_open *m, struct inf_open *open,
	struct inf_method **ret_with, uint64_t *ret_n_bytes, enum inf_status *ret_status)
{
	struct inf_method *with = inf_table_find(&s->methods, m->share_with);
	*ret_status = INF_NOT_FOUND;
	if (!with)
		return "there is no such Method to share with on this connection";
	struct inf_model *model = with->model;
	*ret_status = INF_INVALID_ARGUMENT;
	if (m->from_fd)
		return "share_with opens the program of the Method that it names, so from_fd must be false";
	if ((m->model[0] && strcmp(m->model, model->model) != 0) ||
		(m->version[0] && strcmp(m->version, model->version) != 0) ||
		(m->backend[0] && strcmp(m->backend, model->backend) != 0))
		return "the Method to share with belongs to another model, version or backend";
	*ret_status = INF_UNAVAILABLE;
	if (!inf_model_is_loaded(model))
		return "the model of the Method to share with was unloaded; close it and open it again";
	*ret_with = with;
	open->beside = model;
	open->tenant = model->tenant;
	*ret_n_bytes = model->is_uploaded ? model->file.n_bytes : 0;
	et_add_up(ret_n_bytes, model->is_uploaded ? inf_data_ids_n_bytes(&model->data) : 0);
	return NULL;
}

/* @n_bytes, and what the process for a user's programs takes without any program (the stacks and heaps of its
 * threads). */
static uint64_t with_process(uint64_t n_bytes)
{
	const uint64_t n_empty = UINT64_C(256) << 20;
	uint64_t n;
	return __builtin_add_overflow(n_bytes, n_empty, &n) ? 0 : n;
}

void inf_method_request_open(struct inf_session *s, const struct inf_request *r, const int *fds, size_t n_fds)
{
	const struct inf_method_open *m = &r->method_open;
	struct inf_open open = { 0 };
	struct inf_method *with = NULL;
	char why[400];
	uint64_t n_bytes = 0;
	enum inf_status status = INF_INVALID_ARGUMENT;
	const char *refusal = check_own_files(&open, m, fds, &n_bytes);
	if (!refusal && m->share_with)
		refusal = check_sharing(s, m, &open, &with, &n_bytes, &status);
	if (refusal) {
		inf_session_close_fds(s, fds, n_fds);
		inf_session_refuse(s, r->id, status, "%s", refusal);
		return;
	}
	if (!s->user->may_bring && (n_fds || (open.beside && open.beside->is_uploaded))) {
		inf_session_close_fds(s, fds, n_fds);
		inf_session_refuse(s, r->id, INF_PERMISSION_DENIED,
			"user %lu may not bring programs; ask the administrator: 'own_programs' of [limits], [user NAME] "
			"and [group NAME] in inferd.conf says who may",
			(unsigned long)s->user->uid);
		return;
	}
	const struct inf_charge charges[] = { { INF_QUOTA_METHODS, 1 }, { INF_QUOTA_BYTES, n_bytes },
		{ INF_QUOTA_FDS, n_fds } };
	struct inf_pending *p = NULL;
	if (!inf_quota_charge_all(s->user, charges, ET_ARRAY_LEN(charges), why, sizeof(why)))
		inf_session_refuse(s, r->id, INF_RESOURCE_EXHAUSTED, "%s", why);
	else if (!(p = inf_pending_new(s, r->id))) /* it was refused */
		inf_quota_discharge_all(s->user, charges, ET_ARRAY_LEN(charges));
	if (!p) {
		inf_session_close_fds(s, fds, n_fds);
		return;
	}
	p->user->n_refs++; /* for the new Method */
	p->has_charge = true;
	p->n_charged_bytes = n_bytes;
	open.charge = charge_load;
	if (n_fds || (open.beside && open.beside->is_uploaded)) {
		open.max_bytes = inf_quota_free(s->user, INF_QUOTA_BYTES);
		open.max_bytes += !open.max_bytes; /* 0 would be any number */
		/* from now on it may hold what it does, and what the user has free */
		open.process_memory = with_process(inf_quota_program_room(s->user));
		open.user_memory = with_process(s->user->limits[INF_QUOTA_BYTES]);
	}
	p->n_charged_fds = n_fds;
	p->wants_backend = m->backend[0];
	if (with) {
		p->with = with;
		with->n_refs++;
		p->model = inf_model_ref(open.beside); /* @with may change over to another model meanwhile */
		p->open = open;
		inf_pending_ask(p, open.beside->model, open.beside->version, m->method, open.beside->backend, -1,
			method_opened);
		return;
	}
	open.tenant = n_fds ? 1 + (uint64_t)s->user->uid : 0;
	p->open = open;
	inf_pending_ask(p, m->model, m->version, m->method, m->backend, n_fds ? fds[0] : -1, method_opened);
}

/* Drop the bindings of @method, and cancel requests in flight on them. */
static void drop_bindings(struct inf_session *s, const struct inf_method *method, const char *why)
{
	struct inf_binding *b;
	for (uint32_t at = 0; (b = inf_table_next(&s->bindings, &at));) {
		if (b->method != method)
			continue;
		inf_job_cancel(b, INF_CANCELLED, why);
		inf_table_remove(&s->bindings, b->id);
		inf_binding_drop(b);
	}
}

struct inf_method *inf_method_request_find(struct inf_session *s, const struct inf_request *r, uint64_t id)
{
	struct inf_method *method = inf_table_find(&s->methods, id);
	if (!method)
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "no Method %" PRIu64 " on this connection", id);
	return method;
}

void inf_method_request_close(struct inf_session *s, const struct inf_request *r)
{
	struct inf_method *method = inf_method_request_find(s, r, r->method_close.method);
	if (!method)
		return;
	drop_bindings(s, method, "its Method was closed");
	inf_table_remove(&s->methods, method->id);
	inf_method_unref(method);
	inf_session_ok(s, r->id);
}

/* Reset the state of p->method. @pending has a reference to it. */
static void begin_reset(void *pending)
{
	struct inf_pending *p = pending;
	struct inf_method *method = p->method;
	method->first->is_suspended = true;
	atomic_fetch_add_explicit(&method->first->n_jobs, 1,
		memory_order_relaxed); /* it does not change over meanwhile */
	p->work = (struct inf_work){ .run = reset_state, .done = state_reset };
	if (inf_method_begins_long(method->model)) {
		inf_helper_post_for_user(method->context->helper, &p->work, p->user);
		return;
	}
	reset_state(&p->work);
	state_reset(&p->work);
}

void inf_method_request_reset(struct inf_session *s, const struct inf_request *r)
{
	struct inf_method *method = inf_method_request_find(s, r, r->method_reset.method);
	if (!method)
		return;
	const struct inf_method *first = method->first;
	bool has_to_wait = method->is_changing && !method->begin_reset;
	if (first->is_suspended && !has_to_wait) {
		inf_session_refuse(s, r->id, INF_BUSY, "this Method is being reset; wait for the answer to that");
		return;
	}
	/* acquire: pairs with the release in inf_method_job_ended */
	if (!has_to_wait && atomic_load_explicit(&first->n_jobs, memory_order_acquire)) {
		inf_session_refuse(s, r->id, INF_BUSY,
			"a request of this Method, or of one that shares its state, is in flight; wait for "
			"it");
		return;
	}
	if (!has_to_wait && !inf_method_begins_long(method->model)) {
		et_method_reset(method->method);
		inf_session_ok(s, r->id);
		return;
	}
	struct inf_pending *p = inf_pending_new(s, r->id);
	if (!p)
		return;
	p->method = method;
	method->n_refs++;
	if (has_to_wait) { /* the new state is not made yet */
		method->begin_reset = begin_reset;
		method->begin_reset_arg = p;
	} else {
		begin_reset(p);
	}
}
