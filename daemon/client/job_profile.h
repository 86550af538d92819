/* SPDX-License-Identifier: BSD-3-Clause */
/* The profile of a job: made and charged when the client asks for one, written into the reply, and dropped. */
#ifndef DAEMON_CLIENT_JOB_PROFILE_H
#define DAEMON_CLIENT_JOB_PROFILE_H

#include "daemon/client/job.h"
#include "ipc/message.h"
#include "runtime/profile/fb_write.h"

/* INF_OK, or why not in @error, of @room bytes. Loop thread. */
enum inf_status inf_job_make_profile(struct inf_binding *binding, char *error, size_t room);
/* Write the profile as an ETDump into @writer; @inferred gets none if there is no memory for it. The thread that ends
 * the job. */
void inf_job_write_profile(struct inf_binding *binding, struct et_fbw *writer, struct inf_inferred *inferred);
/* Free and discharge it, if there is one. The thread that ends the job. */
void inf_job_drop_profile(struct inf_binding *binding);

#endif
