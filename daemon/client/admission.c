/* SPDX-License-Identifier: BSD-3-Clause */
/* Admission of requests.
 *
 * The checks go from what costs nothing to what is kept: the state of the Method and its model, the memory of the
 * binding, the priority, the sizes of this request, and last the charges. What must always be true: a request that is
 * refused has charged nothing. */
#include "daemon/client/admission.h"

#include "daemon/base/text.h"
#include "daemon/client/binding.h"
#include "daemon/client/job_profile.h"
#include "daemon/context.h"

static enum inf_class class_of(enum inf_priority priority)
{
	switch (priority) {
	case INF_REALTIME:
		return INF_CLASS_REALTIME;
	case INF_BATCH:
		return INF_CLASS_BATCH;
	case INF_IDLE:
		return INF_CLASS_IDLE;
	default:
		return INF_CLASS_INTERACTIVE;
	}
}

/* Whether @method takes a request now. INF_OK, or why not in @error. */
static enum inf_status check_method(struct inf_method *method, char *error, size_t room)
{
	struct inf_model *model = method->model;
	bool is_abandoned = model->state == INF_MODEL_ABANDONED;
	if (model->is_damaged && !inf_method_waits_for_weights(method)) {
		inf_text(error, room,
			"the persisted weights of model '%s' were found damaged; close this Method and open it again",
			model->model);
		return INF_UNAVAILABLE;
	}
	if (method->first->is_suspended && !is_abandoned) {
		inf_text(error, room, "the Method is being reset; wait for the answer to that");
		return INF_BUSY;
	}
	if (method->first->is_suspended) {
		inf_text(error, room,
			"the backend of '%s' was given up or fails, and the Method is being made ready for another "
			"variant; try again in a moment",
			model->model);
		return INF_BACKEND_CRASHED;
	}
	if (is_abandoned && inf_method_waits_to_move(method)) {
		inf_text(error, room,
			"the backend of '%s' was given up or fails; wait for the requests that are in flight, then go on",
			model->model);
		return INF_BACKEND_CRASHED;
	}
	if (method->context->is_draining) {
		inf_text(error, room, "inferd is shutting down");
		return INF_UNAVAILABLE;
	}
	if (!inf_model_is_loaded(model)) {
		inf_text(error, room, "model '%s' was unloaded; close this Method and open it again", model->model);
		return INF_UNAVAILABLE;
	}
	if (atomic_load_explicit(&model->n_stuck, memory_order_relaxed) ||
		atomic_load_explicit(&method->first->n_stuck, memory_order_relaxed)) {
		inf_text(error, room, "%s", inf_job_stuck_text);
		return INF_UNAVAILABLE;
	}
	return INF_OK;
}

/* The scheduling class of a request with @priority. INF_OK, or why the user may not ask for it in @error. */
static enum inf_status classify(const struct inf_binding *b, enum inf_priority priority, enum inf_class *ret_class,
	char *error, size_t room)
{
	enum inf_class asked = class_of(priority);
	if (inf_quota_classify(b->user, asked, ret_class))
		return INF_OK;
	inf_text(error, room,
		"priority '%s' is more than user %lu may ask for, which is '%s'; an administrator "
		"gives more with 'priority = %s' in [user %lu] of inferd.conf",
		inf_class_name(asked), (unsigned long)b->user->uid, inf_class_name(b->user->highest),
		inf_class_name(asked), (unsigned long)b->user->uid);
	return INF_PERMISSION_DENIED;
}

/* Charge what the request costs while it lasts; deliver discharges it. INF_OK, or why not in @error. */
static enum inf_status charge(struct inf_binding *b, bool wants_profile, char *error, size_t room)
{
	if (!inf_quota_charge(b->user, INF_QUOTA_REQUESTS, 1)) {
		inf_quota_explain(b->user, INF_QUOTA_REQUESTS, 1, error, room);
		return INF_RESOURCE_EXHAUSTED;
	}
	if (!inf_binding_charge_frame(b, error, room)) {
		inf_quota_discharge(b->user, INF_QUOTA_REQUESTS, 1);
		return INF_RESOURCE_EXHAUSTED;
	}
	if (wants_profile && inf_job_make_profile(b, error, room) != INF_OK) {
		inf_binding_discharge_frame(b);
		inf_quota_discharge(b->user, INF_QUOTA_REQUESTS, 1);
		return INF_RESOURCE_EXHAUSTED;
	}
	return INF_OK;
}

enum inf_status inf_admission_check(struct inf_binding *b, const struct inf_infer *request, enum inf_class *ret_class,
	char *error, size_t room)
{
	struct inf_refusal refusal;
	enum inf_status status = check_method(b->method, error, room);
	if (status != INF_OK)
		return status;
	if (inf_binding_faulted(b)) {
		inf_text(error, room, "the memory of region %llu is gone; make a new region and bind again",
			(unsigned long long)inf_binding_faulted(b)->id);
		return INF_FAILED_PRECONDITION;
	}
	status = classify(b, request->priority, ret_class, error, room);
	if (status != INF_OK)
		return status;
	if (!inf_binding_apply(b, request, &refusal)) {
		inf_text(error, room, "%s", refusal.text);
		return refusal.status;
	}
	return charge(b, request->profile, error, room);
}
