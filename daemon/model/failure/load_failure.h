/* SPDX-License-Identifier: BSD-3-Clause */
/* Load failure: why a variant of a model can't run.
 *
 * The kind decides what the client is answered and whether the failure is remembered; the sentence beside it says the
 * rest. Any thread. */
#ifndef DAEMON_MODEL_FAILURE_LOAD_FAILURE_H
#define DAEMON_MODEL_FAILURE_LOAD_FAILURE_H

#include "runtime/base/status.h"

#include <stdbool.h>

enum inf_load_failure {
	INF_LOAD_FAILURE_NONE,
	INF_LOAD_FAILURE_BROKEN,  /* the program or its backend is at fault */
	INF_LOAD_FAILURE_MISSING, /* this daemon lacks an operator, a backend or a feature */
	INF_LOAD_FAILURE_CRASHED, /* the process that read or compiled it crashed */
	INF_LOAD_FAILURE_DOWN,    /* its backend has crashed too often and was given up, or its runs failed too often */
	INF_LOAD_FAILURE_NO_MEMORY, /* memory or another resource has run out */
	INF_N_LOAD_FAILURES,
};
const char *inf_load_failure_name(enum inf_load_failure failure);

/* The kind of failure that @status means for a load; INF_LOAD_FAILURE_NONE for ET_OK. */
enum inf_load_failure inf_load_failure_of(enum et_status status);
/* Whether the same load may work later without any change of its files: the failure is not remembered. */
bool inf_load_failure_is_transient(enum inf_load_failure failure);

/* Whether @rc, a negative errno, says that descriptors or memory have run out, so that a later try may work. */
bool inf_is_scarcity(int rc);

#endif
