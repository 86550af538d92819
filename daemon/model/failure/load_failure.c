/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of load failures.
 *
 * Every status of the runtime is one kind, so that a variant that was refused by its inspection (variant.c), a model
 * whose Plan or instances could not be made (model.c), and an open that has tried them all (open.c) agree on what a
 * client is told and on what is tried again. */
#include "daemon/model/failure/load_failure.h"

#include "runtime/base/checked.h"

#include <errno.h>

const char *inf_load_failure_name(enum inf_load_failure failure)
{
	static const char *const names[INF_N_LOAD_FAILURES] = { "none", "broken", "missing", "crashed", "down",
		"no memory" };
	return failure < INF_N_LOAD_FAILURES ? names[failure] : "?";
}

enum inf_load_failure inf_load_failure_of(enum et_status status)
{
	switch (status) {
	case ET_OK:
		return INF_LOAD_FAILURE_NONE;
	case ET_E_OPERATOR_MISSING:
	case ET_E_BACKEND_MISSING:
	case ET_E_NOT_SUPPORTED:
		return INF_LOAD_FAILURE_MISSING;
	case ET_E_BACKEND_CRASHED:
		return INF_LOAD_FAILURE_CRASHED;
	case ET_E_BACKEND_DOWN:
		return INF_LOAD_FAILURE_DOWN;
	case ET_E_OUT_OF_RESOURCES:
	case ET_E_MEMORY_ALLOCATION_FAILED:
	case ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED:
		return INF_LOAD_FAILURE_NO_MEMORY;
	default:
		return INF_LOAD_FAILURE_BROKEN;
	}
}

bool inf_load_failure_is_transient(enum inf_load_failure failure)
{
	return failure == INF_LOAD_FAILURE_DOWN || failure == INF_LOAD_FAILURE_NO_MEMORY;
}

bool inf_is_scarcity(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM;
}
