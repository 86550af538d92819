/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers for jobs whose worker does not come back. Loop thread only. */
#ifndef DAEMON_CLIENT_GIVE_UP_H
#define DAEMON_CLIENT_GIVE_UP_H

#include "daemon/client/job.h"

struct inf_model;

/* Answer a running job whose worker is stuck, unless it was given up before, and ask the run to stop; its result is
 * thrown away. The binding stays busy and its memory in use until the worker comes back, and no other request of the
 * model begins. False: the worker was quicker. The caller has a reference to the binding. */
bool inf_job_give_up(struct inf_binding *binding, enum inf_status status, const char *why);
/* Answer the jobs of @pool that do not end although their overdue_ns has passed, and let spare workers serve in the
 * places of the workers that are in them. Returns when to call again; UINT64_MAX: no running job has an overdue_ns. */
uint64_t inf_job_give_up_overdue(struct inf_pool *pool);
/* How long a run of @model may be in one instruction before it counts as long, see inf_pool_relieve. Any thread. */
uint64_t inf_job_long_ns(const struct inf_model *model);
/* A request waits in @pool, perhaps, or (@has_come) one has just come: call inf_pool_relieve as often as that asks for.
 * Loop thread. */
void inf_jobs_relieve(const struct inf_context *context, struct inf_pool *pool, bool has_come);

#endif
