/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: start them, wait for them, keep their results. One request at a time on a binding, any number of
 * bindings.
 *
 * inferd_infer spins before it sleeps: it polls the socket for up to 50 us, because waking a thread takes longer
 * than some models run. It spins only if the daemon needed less than that for the binding's last request, and only
 * as long as spinning pays (ipc/spin.c). The daemon spins likewise; docs/design/requests.md says why.
 *
 * Callbacks are not called here but in inferd_dispatch (connection.c). */
#include "clients/libinferd/libinferd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- completing a request ---- */

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

/* Keep the shapes and values of the outputs. False: they do not fit the Method. */
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
		const struct inf_output_shape *output = &inferred->outputs[i];
		result->scalar = output->scalar;
		if (!output->n_shape)
			continue;
		if (!inf_lib_shape_fits(info, output->shape, output->n_shape))
			return false;
		memcpy(result->shape, output->shape, output->n_shape * sizeof *output->shape);
	}
	return true;
}

/* Copy the profile, since the decoder reuses its memory for the next reply. If memory runs out the request has none. */
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
		complete(b, -INFERD_INTERNAL, "the daemon's reply does not fit the Method");
	else {
		take_profile(b, &reply->inferred);
		complete(b, 0, "");
	}
}

/* ---- starting a request ---- */

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
		return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "the callback is NULL");
	return start(b, options, done, userdata);
}

/* Poll for the reply until it arrives or the window ends. Returns whether it arrived. */
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
	while (b->state == INF_LIB_RUNNING) /* a lost connection ends it too */
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
		return 0; /* no request, or it has ended already */
	struct inf_request request = { .kind = INF_REQUEST_CANCEL, .cancel = { b->request_id } };
	return inf_lib_send(b->method->d, &request, NULL, 0);
}
