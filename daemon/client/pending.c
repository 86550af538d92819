/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait.
 *
 * What must always be true: a pending request is charged until it is freed, even if its client has cancelled it or
 * is gone. So a client that asks and cancels, or asks and hangs up, and begins again makes no more work than one
 * that waits. */
#include "daemon/client/pending.h"

#include "daemon/client/access.h"
#include "daemon/context.h"
#include "runtime/base/checked.h"

#include <stdlib.h>

struct inf_pending *inf_pending_new(struct inf_session *s, uint64_t id)
{
	char why[400];
	if (!inf_quota_charge(s->user, INF_QUOTA_OPENS, 1)) {
		inf_quota_explain(s->user, INF_QUOTA_OPENS, 1, why, sizeof(why));
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "%s", why);
		return NULL;
	}
	struct inf_pending *p = calloc(1, sizeof(*p));
	if (!p) {
		inf_quota_discharge(s->user, INF_QUOTA_OPENS, 1);
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return NULL;
	}
	p->session = s;
	p->id = id;
	p->user = s->user;
	p->user->n_refs++;
	et_list_append(&s->opens, &p->node);
	return p;
}

void inf_pending_free(struct inf_pending *p)
{
	if (p->n_charged_fds)
		inf_quota_discharge(p->user, INF_QUOTA_FDS, p->n_charged_fds);
	if (p->has_charge) {
		inf_quota_discharge(p->user, INF_QUOTA_METHODS, 1);
		inf_quota_discharge(p->user, INF_QUOTA_BYTES, p->n_charged_bytes);
		inf_quota_user_unref(p->user);
	}
	inf_model_unref(p->model);
	inf_method_unref(p->with);
	et_list_remove(&p->node);
	inf_quota_discharge(p->user, INF_QUOTA_OPENS, 1);
	inf_quota_user_unref(p->user);
	free(p);
}

/* An inf_open's may_open. Once the client is gone, nobody reads the answer. */
static bool may_open(const struct inf_open *open, const char *model)
{
	const struct inf_pending *p = ET_CONTAINER_OF(open, const struct inf_pending, open);
	return !p->session || inf_session_may_open(p->session, model);
}

void inf_pending_ask(struct inf_pending *p, const char *model, const char *version, const char *method,
	const char *backend, int fd,
	void (*done)(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model))
{
	p->open.model = model;
	p->open.version = version;
	p->open.method = method;
	p->open.backend = backend;
	p->open.fd = fd;
	p->open.done = done;
	p->open.whose = p->user;
	p->open.log_quota = &p->user->log_quota;
	p->open.may_open = may_open;
	p->is_open = true;
	inf_repository_open(p->session->context->repository, &p->open);
}

void inf_pending_give_up(struct inf_pending *p)
{
	struct inf_repository *repository = p->session->context->repository;
	p->session = NULL;
	et_list_remove(&p->node);
	if (p->is_open)
		inf_repository_cancel(repository, &p->open);
}
