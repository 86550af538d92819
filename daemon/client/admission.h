/* SPDX-License-Identifier: BSD-3-Clause */
/* Admission: whether a request may become a job, and with which priority. Loop thread only. */
#ifndef DAEMON_CLIENT_ADMISSION_H
#define DAEMON_CLIENT_ADMISSION_H

#include "daemon/client/job.h"

/* Check @request on @binding, whose job is IDLE, give the binding its sizes, and charge what the job costs while it
 * lasts: that is discharged when the job ends. Otherwise why not in @error, of @room bytes, and nothing is charged. */
enum inf_status inf_admission_check(struct inf_binding *binding, const struct inf_infer *request,
	enum inf_class *ret_class, char *error, size_t room);

#endif
