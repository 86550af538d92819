/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: one at a time on a binding, as many bindings as you like.
 *
 * Waiting for a reply costs a wake-up, which is longer than some models run. So inferd_infer looks at the socket for
 * a moment before it sleeps, but only where the request before took the daemon less than that moment, and only as
 * long as that pays (ipc/spin.c); the daemon does the same at its end. docs/design/requests.md says why. */
#include "clients/libinferd/libinferd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what arrived ---- */

static void complete(struct inferd_binding *b, int status, const char *error)
{
	b->status = status;
	snprintf(b->error, sizeof b->error, "%s", error);
	b->state = INF_LIB_COMPLETED;
	et_list_remove(&b->request_node);
	if (b->done)
		et_list_append(&b->method->d->completed, &b->request_node);
}

void inf_lib_binding_disconnect(struct inferd_binding *b)
{
	complete(b, -INFERD_DISCONNECTED, b->method->d->error);
}

/* The sizes and numbers of the outputs. False: not what this Method gives. */
static bool take_results(struct inferd_binding *b, const struct inf_inferred *inferred)
{
	const struct inferd_method *m = b->method;
	if (inferred->n_outputs != 0 && inferred->n_outputs != m->n_outputs)
		return false;
	for (size_t i = 0; i < m->n_outputs; i++) {
		struct inf_lib_output *result = &b->results[i];
		const struct inferd_tensor_info *info = &m->outputs[i];
		*result = (struct inf_lib_output){ .n_dims = info->n_dims };
		memcpy(result->shape, info->shape, sizeof result->shape);
		if (!inferred->n_outputs)
			continue;
		const struct inf_output_shape *came = &inferred->outputs[i];
		result->scalar = came->scalar;
		if (!came->n_shape)
			continue;
		if (!inf_lib_shape_fits(info, came->shape, came->n_shape))
			return false;
		memcpy(result->shape, came->shape, came->n_shape * sizeof *came->shape);
	}
	return true;
}

/* The decoder's memory serves the next reply. Without memory for a copy there is none. */
static void take_profile(struct inferd_binding *b, const struct inf_inferred *inferred)
{
	b->profile = inferred->n_profile ? malloc(inferred->n_profile) : NULL;
	b->n_profile = b->profile ? inferred->n_profile : 0;
	if (b->profile)
		memcpy(b->profile, inferred->profile, b->n_profile);
}

void inf_lib_binding_complete(struct inferd_binding *b, const struct inf_reply *reply)
{
	b->timing = (struct inferd_timing){ 0 };
	if (reply->kind == INF_REPLY_INFERRED)
		b->timing = (struct inferd_timing){ reply->inferred.queue_ns, reply->inferred.run_ns };
	if (reply->status != INF_OK)
		complete(b, -(int)reply->status,
			reply->error[0] ? reply->error : inferd_status_text((int)reply->status));
	else if (reply->kind != INF_REPLY_INFERRED || !take_results(b, &reply->inferred))
		complete(b, -INFERD_INTERNAL, "the daemon's answer does not fit the Method");
	else {
		take_profile(b, &reply->inferred);
		complete(b, 0, "");
	}
}

/* ---- starting ---- */

static int start(struct inferd_binding *b, const struct inferd_request_options *options, inferd_done_fn done,
	void *userdata)
{
	struct inferd_method *m = b->method;
	if (m->is_closed)
		return inf_lib_fail(m->d, INFERD_FAILED_PRECONDITION, "the Method is closed");
	if (b->state != INF_LIB_IDLE)
		return inf_lib_fail(m->d, INFERD_BUSY, "a request is already in flight on this binding");
	struct inferd_request_options all;
	int rc = inf_lib_take_options(m->d, &all, sizeof all, options);
	if (rc)
		return rc;
	struct inf_request request = { .kind = INF_REQUEST_INFER,
		.infer = { .binding = b->id,
			.priority = (enum inf_priority)all.priority,
			.timeout_us = all.timeout_us,
			.profile = all.profile } };
	if (b->has_changes) {
		for (size_t i = 0; i < m->n_inputs; i++)
			if (b->changes[i].scalar.kind != inf_lib_scalar_kind(&m->inputs[i]))
				return inf_lib_fail(m->d, INFERD_INVALID_ARGUMENT,
					"%s is a number: set it with inferd_set_scalar first", m->inputs[i].name);
		request.infer.n_inputs = m->n_inputs;
		request.infer.inputs = b->changes;
	}
	rc = inf_lib_send(m->d, &request, NULL, 0);
	if (rc)
		return rc;
	free(b->profile);
	b->profile = NULL;
	b->n_profile = 0;
	b->request_id = request.id;
	b->done = done;
	b->userdata = userdata;
	b->state = INF_LIB_RUNNING;
	et_list_append(&m->d->running, &b->request_node);
	return 0;
}

int inferd_infer_async(struct inferd_binding *b, const struct inferd_request_options *options, inferd_done_fn done,
	void *userdata)
{
	if (!done)
		return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "there is no callback");
	return start(b, options, done, userdata);
}

/* Look for the reply until it came or the time is up; whether it did. */
static bool spin(struct inferd_binding *b)
{
	struct inferd *d = b->method->d;
	uint64_t until_ns = et_platform_now_ns(NULL) + d->spin.window_ns;
	do {
		inf_lib_receive(d);
		if (b->state != INF_LIB_RUNNING)
			return true;
		inf_spin_relax();
	} while (et_platform_now_ns(NULL) < until_ns);
	return false;
}

int inferd_infer(struct inferd_binding *b, const struct inferd_request_options *options)
{
	struct inferd *d = b->method->d;
	uint64_t before_ns = b->timing.queue_ns + b->timing.run_ns;
	bool is_quick = before_ns && before_ns < INF_LIB_SPIN_NS;
	int rc = start(b, options, NULL, NULL);
	if (rc)
		return rc;
	bool spins = is_quick && inf_spin_is_due(&d->spin);
	if (is_quick)
		inf_spin_note(&d->spin, !spins || spin(b), spins);
	while (b->state ==
		INF_LIB_RUNNING) /* until the reply came, or the connection is lost and with it the request */
		inf_lib_wait(d);
	b->state = INF_LIB_IDLE;
	inf_lib_notice(d);
	if (b->status)
		return inf_lib_fail(d, -b->status, "%s", b->error);
	return 0;
}

void inferd_last_timing(const struct inferd_binding *b, struct inferd_timing *ret)
{
	*ret = b->timing;
}

const void *inferd_last_profile(const struct inferd_binding *b, size_t *ret_n_bytes)
{
	*ret_n_bytes = b->n_profile;
	return b->profile;
}

int inferd_cancel(struct inferd_binding *b)
{
	if (b->state != INF_LIB_RUNNING)
		return 0; /* it has ended already */
	struct inf_request request = { .kind = INF_REQUEST_CANCEL, .cancel = { b->request_id } };
	return inf_lib_send(b->method->d, &request, NULL, 0);
}
