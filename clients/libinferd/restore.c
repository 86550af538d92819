/* SPDX-License-Identifier: BSD-3-Clause */
/* Restoring: bring the daemon to what the application has asked for.
 *
 * Each Method, region and binding knows what the daemon has of it (struct inf_lib_remote). To make an object and to
 * restore it after a lost connection is the same: it is ABSENT, and inf_lib_advance asks for it as soon as what it
 * needs is THERE. A binding needs its Method and its regions; a request its binding. A lost connection makes all of
 * them ABSENT.
 *
 * What the daemon refuses is FAILED, and fails what needs it. A next request lets it be asked again. */
#include "clients/libinferd/libinferd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void inf_lib_refused(struct inf_lib_remote *remote, const struct inf_reply *reply, enum inf_reply_kind kind)
{
	bool is_other = reply->status == INF_OK && reply->kind != kind;
	int status = is_other ? INFERD_INTERNAL : (int)reply->status;
	const char *error = is_other          ? "the daemon sent a reply to another kind of request"
			    : reply->error[0] ? reply->error
					      : inferd_status_text(status);
	remote->state = INF_LIB_FAILED;
	remote->status = status;
	snprintf(remote->error, sizeof remote->error, "%s", error);
}

/* ---- what a binding needs ---- */

/* The first region of @b for which @is answers true; NULL: none. */
static struct inferd_region *find_region(const struct inferd_binding *b, bool (*is)(const struct inferd_region *r))
{
	const struct inferd_method *m = b->method;
	for (size_t i = 0; i < m->is.n_inputs; i++)
		if (b->inputs[i].region && is(b->inputs[i].region))
			return b->inputs[i].region;
	for (size_t i = 0; i < m->is.n_outputs; i++)
		if (b->outputs[i].region && is(b->outputs[i].region))
			return b->outputs[i].region;
	return NULL;
}

static bool is_failed(const struct inferd_region *r)
{
	return r->remote.state == INF_LIB_FAILED;
}

static bool is_not_there(const struct inferd_region *r)
{
	return r->remote.state != INF_LIB_THERE;
}

/* The refusal of @b, or of what it needs; NULL: there is none. */
static const struct inf_lib_remote *find_refused(const struct inferd_binding *b)
{
	if (b->method->remote.state == INF_LIB_FAILED)
		return &b->method->remote;
	struct inferd_region *r = find_region(b, is_failed);
	return r ? &r->remote : b->remote.state == INF_LIB_FAILED ? &b->remote : NULL;
}

static void retry(struct inf_lib_remote *remote)
{
	if (remote->state == INF_LIB_FAILED)
		remote->state = INF_LIB_ABSENT;
}

void inf_lib_method_retry(struct inferd_method *m)
{
	if (!m->is_changed)
		retry(&m->remote);
}

void inf_lib_binding_retry(struct inferd_binding *b)
{
	struct inferd_region *r;
	inf_lib_method_retry(b->method);
	while ((r = find_region(b, is_failed)))
		retry(&r->remote);
	retry(&b->remote);
}

/* Whether a binding that the daemon does not have yet lies in @r. */
static bool is_needed(const struct inferd_region *r)
{
	const struct et_list_node *node;
	for (node = r->d->bindings.next; node != &r->d->bindings; node = node->next) {
		const struct inferd_binding *b = ET_CONTAINER_OF(node, struct inferd_binding, node);
		if (b->remote.state != INF_LIB_ABSENT && b->remote.state != INF_LIB_ASKED)
			continue;
		for (size_t i = 0; i < b->method->is.n_inputs; i++)
			if (b->inputs[i].region == r)
				return true;
		for (size_t i = 0; i < b->method->is.n_outputs; i++)
			if (b->outputs[i].region == r)
				return true;
	}
	return false;
}

/* ---- asking ---- */

/* Whether @m can be opened now. A Method that shares a state waits while another one of its program is asked for, since
 * it then shares that one's. */
static bool may_open(const struct inferd_method *m)
{
	const struct et_list_node *node;
	if (m->remote.state != INF_LIB_ABSENT || m->is_closed)
		return false;
	for (node = m->d->methods.next; node != &m->d->methods; node = node->next) {
		const struct inferd_method *other = ET_CONTAINER_OF(node, struct inferd_method, node);
		if (other != m && other->program == m->program && other->remote.state == INF_LIB_ASKED)
			return false;
	}
	return true;
}

static void advance_region(struct inferd_region *r)
{
	if (!r->is_freed) {
		if (r->remote.state == INF_LIB_ABSENT)
			inf_lib_region_ask(r);
		return;
	}
	/* The application has freed it: the daemon needs it only to restore bindings that use it. */
	if (is_needed(r)) {
		if (r->remote.state == INF_LIB_ABSENT)
			inf_lib_region_ask(r);
	} else if (r->remote.state == INF_LIB_THERE) {
		inf_lib_tell_freed(r->d, &r->remote, INF_REQUEST_REGION_UNREGISTER);
		r->remote.state = INF_LIB_ABSENT;
	}
}

static void advance_op(struct inf_lib_op *op)
{
	if (op->request_id)
		return;
	if (op->kind == INF_LIB_METHOD_RESET) {
		struct inferd_method *m = ET_CONTAINER_OF(op, struct inferd_method, op);
		if (m->remote.state == INF_LIB_FAILED)
			inf_lib_op_end(m->d, op, -m->remote.status, m->remote.error);
		else if (m->remote.state == INF_LIB_THERE)
			inf_lib_reset_ask(m);
	} else if (op->kind == INF_LIB_REQUEST || op->kind == INF_LIB_BIND) {
		struct inferd_binding *b = ET_CONTAINER_OF(op, struct inferd_binding, op);
		const struct inf_lib_remote *refused = find_refused(b);
		if (refused)
			inf_lib_op_end(b->method->d, op, -refused->status, refused->error);
		else if (op->kind == INF_LIB_REQUEST && inf_lib_request_may_go(b))
			inf_lib_request_ask(b);
	}
}

static void advance_binding(struct inferd_binding *b)
{
	if (b->remote.state == INF_LIB_ABSENT && !b->method->is_closed && b->method->remote.state == INF_LIB_THERE &&
		!find_region(b, is_not_there))
		inf_lib_binding_ask(b);
}

/* Sending may find the connection lost, which changes the lists; the loops then end at once. */
void inf_lib_advance(struct inferd *d)
{
	struct et_list_node *node, *after;
	if (d->phase != INF_LIB_READY)
		return;
	ET_LIST_FOR_EACH(node, after, &d->methods) {
		struct inferd_method *m = ET_CONTAINER_OF(node, struct inferd_method, node);
		if (may_open(m))
			inf_lib_method_ask(m);
		if (d->phase != INF_LIB_READY)
			return;
	}
	ET_LIST_FOR_EACH(node, after, &d->regions) {
		advance_region(ET_CONTAINER_OF(node, struct inferd_region, node));
		if (d->phase != INF_LIB_READY)
			return;
	}
	ET_LIST_FOR_EACH(node, after, &d->bindings) {
		advance_binding(ET_CONTAINER_OF(node, struct inferd_binding, node));
		if (d->phase != INF_LIB_READY)
			return;
	}
	ET_LIST_FOR_EACH(node, after, &d->running) {
		advance_op(ET_CONTAINER_OF(node, struct inf_lib_op, node));
		if (d->phase != INF_LIB_READY)
			return;
	}
}

/* ---- answers ---- */

static bool is_asked(const struct inf_lib_remote *remote, uint64_t id)
{
	return remote->state == INF_LIB_ASKED && remote->asked == id;
}

/* Hand @reply to the object that asked for it. False: none did. */
static bool hand_over(struct inferd *d, const struct inf_reply *reply, int fd)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &d->bindings) {
		struct inferd_binding *b = ET_CONTAINER_OF(node, struct inferd_binding, node);
		if (b->late_id == reply->id) {
			inf_lib_request_late(b, reply);
			return true;
		}
		if (is_asked(&b->remote, reply->id)) {
			inf_lib_binding_answered(b, reply);
			return true;
		}
	}
	ET_LIST_FOR_EACH(node, after, &d->methods) {
		struct inferd_method *m = ET_CONTAINER_OF(node, struct inferd_method, node);
		if (is_asked(&m->remote, reply->id)) {
			inf_lib_method_answered(m, reply);
			return true;
		}
	}
	ET_LIST_FOR_EACH(node, after, &d->regions) {
		struct inferd_region *r = ET_CONTAINER_OF(node, struct inferd_region, node);
		if (is_asked(&r->remote, reply->id)) {
			inf_lib_region_answered(r, reply, fd);
			return true;
		}
	}
	return false;
}

/* ---- freeing ---- */

static void tell_close(struct inferd *d, enum inf_request_kind close, uint64_t id)
{
	struct inf_request request = { .kind = close };
	if (close == INF_REQUEST_METHOD_CLOSE)
		request.method_close.method = id;
	else if (close == INF_REQUEST_REGION_UNREGISTER)
		request.region_unregister.region = id;
	else
		request.unbind.binding = id;
	inf_lib_tell(d, &request);
}

void inf_lib_tell_freed(struct inferd *d, const struct inf_lib_remote *remote, enum inf_request_kind close)
{
	if (remote->state == INF_LIB_THERE)
		tell_close(d, close, remote->id);
	if (remote->state != INF_LIB_ASKED)
		return;
	struct inf_lib_orphan *orphan = malloc(sizeof *orphan);
	if (!orphan)
		return; /* the daemon keeps the object as long as the connection */
	orphan->asked = remote->asked;
	orphan->close = close;
	et_list_append(&d->orphans, &orphan->node);
}

static void close_orphan(struct inferd *d, const struct inf_reply *reply)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &d->orphans) {
		struct inf_lib_orphan *orphan = ET_CONTAINER_OF(node, struct inf_lib_orphan, node);
		if (orphan->asked != reply->id)
			continue;
		enum inf_request_kind close = orphan->close;
		et_list_remove(node);
		free(orphan); /* first: to tell may find the connection lost, which frees all orphans */
		if (reply->kind == INF_REPLY_METHOD_OPENED)
			tell_close(d, close, reply->method_opened.method);
		else if (reply->kind == INF_REPLY_REGION_CREATED)
			tell_close(d, close, reply->region_created.region);
		else if (reply->kind == INF_REPLY_BOUND)
			tell_close(d, close, reply->bound.binding);
		return;
	}
}

void inf_lib_answered(struct inferd *d, const struct inf_reply *reply, int fd)
{
	if (hand_over(d, reply, fd))
		inf_lib_advance(d);
	else
		close_orphan(d, reply);
}

void inf_lib_forget(struct inferd *d)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &d->methods) {
		struct inferd_method *m = ET_CONTAINER_OF(node, struct inferd_method, node);
		m->remote.state = m->is_changed ? INF_LIB_FAILED : INF_LIB_ABSENT;
		m->program->is_lost |= m->is.is_stateful && m->program->has_state;
	}
	ET_LIST_FOR_EACH(node, after, &d->regions)
		ET_CONTAINER_OF(node, struct inferd_region, node)->remote.state = INF_LIB_ABSENT;
	ET_LIST_FOR_EACH(node, after, &d->bindings) {
		struct inferd_binding *b = ET_CONTAINER_OF(node, struct inferd_binding, node);
		b->remote.state = INF_LIB_ABSENT;
		inf_lib_request_settle(b); /* the daemon does not write its outputs any more */
	}
	ET_LIST_FOR_EACH(node, after, &d->orphans) {
		et_list_remove(node);
		free(ET_CONTAINER_OF(node, struct inf_lib_orphan, node));
	}
}
