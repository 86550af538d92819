/* SPDX-License-Identifier: BSD-3-Clause */
/* The reply of a job: the sizes and values of the outputs and the times of the run, or why it failed. */
#ifndef DAEMON_CLIENT_JOB_REPLY_H
#define DAEMON_CLIENT_JOB_REPLY_H

#include "daemon/base/reply.h"
#include "daemon/client/job.h"

/* Write the reply to the job of @binding into @buffer; @error is a sentence, or NULL with INF_OK. @queue_ns: how long
 * the job waited for its first segment. A profile that there is no descriptor for is left out; a reply that can't be
 * written at all has no bytes. The thread that ends the job. */
void inf_job_write_reply(struct inf_binding *binding, enum inf_status status, const char *error, uint64_t queue_ns,
	struct inf_reply_buffer *buffer);

#endif
