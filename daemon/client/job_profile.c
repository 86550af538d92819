/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles of jobs. The most that a profile may take is charged while its request lasts. */
#include "daemon/client/job_profile.h"

#include "daemon/base/text.h"
#include "daemon/client/binding.h"
#include "daemon/client/quota.h"
#include "runtime/platform/platform.h"
#include "runtime/profile/etdump.h"

enum { MAX_EVENTS = 16384, N_CHARGES = 2 };

static void fill_charges(struct inf_charge charges[N_CHARGES])
{
	charges[0] = (struct inf_charge){ INF_QUOTA_FDS, 1 };
	charges[1] = (struct inf_charge){ INF_QUOTA_BYTES,
		et_profile_max_bytes(MAX_EVENTS) + et_etdump_max_bytes(MAX_EVENTS) };
}

enum inf_status inf_job_make_profile(struct inf_binding *b, char *error, size_t room)
{
	const struct et_profile_options options = {
		.now_ns = et_platform_now_ns, .max_events = MAX_EVENTS, .allocator = et_platform_allocator()
	};
	struct inf_charge charges[N_CHARGES];
	fill_charges(charges);
	if (!inf_quota_charge_all(b->user, charges, N_CHARGES, error, room))
		return INF_RESOURCE_EXHAUSTED;
	b->job.profile = et_profile_new(&options);
	if (b->job.profile)
		return INF_OK;
	inf_quota_discharge_all(b->user, charges, N_CHARGES);
	inf_text(error, room, "the daemon is out of memory");
	return INF_RESOURCE_EXHAUSTED;
}

void inf_job_write_profile(struct inf_binding *b, struct et_fbw *writer, struct inf_inferred *inferred)
{
	const struct inf_model *model = b->method->model;
	const struct inf_job *job = &b->job;
	const uint8_t *bytes;
	size_t n_bytes;
	et_profile_span(job->profile, "inferd queue", job->arrived_ns, job->started_ns);
	et_profile_span(job->profile, "Method::execute", job->started_ns, et_platform_now_ns(NULL));
	if (et_etdump_write(writer, job->profile, et_program_find_method(model->program, model->info->method), &bytes,
		    &n_bytes) == ET_OK) {
		inferred->profile = bytes;
		inferred->n_profile = n_bytes;
	}
}

void inf_job_drop_profile(struct inf_binding *b)
{
	struct inf_charge charges[N_CHARGES];
	if (!b->job.profile)
		return;
	b->job.profile = et_profile_free(b->job.profile);
	fill_charges(charges);
	inf_quota_discharge_all(b->user, charges, N_CHARGES);
}
