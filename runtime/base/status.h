/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers of the runtime's calls, and the sentence that explains each.
 *
 * The numbers are those of ExecuTorch's `Error` (runtime/core/error.h), so they mean the same in both; ours begin at
 * 0x80. A number alone helps nobody, so every call that can fail for a reason worth a sentence takes a `struct
 * et_diag` and writes the sentence into it. */
#ifndef RUNTIME_BASE_STATUS_H
#define RUNTIME_BASE_STATUS_H

#include <stddef.h>

enum et_status {
	ET_OK = 0x00,
	ET_E_INTERNAL = 0x01,
	ET_E_INVALID_STATE = 0x02,
	ET_E_END_OF_METHOD = 0x03,
	ET_E_ALREADY_LOADED = 0x04,

	ET_E_NOT_SUPPORTED = 0x10,
	ET_E_NOT_IMPLEMENTED = 0x11,
	ET_E_INVALID_ARGUMENT = 0x12,
	ET_E_INVALID_TYPE = 0x13,
	ET_E_OPERATOR_MISSING = 0x14,

	ET_E_NOT_FOUND = 0x20,
	ET_E_MEMORY_ALLOCATION_FAILED = 0x21,
	ET_E_ACCESS_FAILED = 0x22,
	ET_E_INVALID_PROGRAM = 0x23,
	ET_E_INVALID_EXTERNAL_DATA = 0x24,
	ET_E_OUT_OF_RESOURCES = 0x25,

	ET_E_DELEGATE_INVALID_COMPATIBILITY = 0x30,
	ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED = 0x31,
	ET_E_DELEGATE_INVALID_HANDLE = 0x32,

	/* Not in ExecuTorch. */
	ET_UNFINISHED = 0x7e,        /* not an error: the call's time slice is over; make the call again */
	ET_PENDING = 0x7f,           /* not an error: the call was started, a completion will come */
	ET_E_CANCELLED = 0x80,       /* the run was asked to stop */
	ET_E_DEADLINE = 0x81,        /* the run's deadline passed */
	ET_E_STATE_LOST = 0x82,      /* a run of this stateful Method was cut short; reset the Method */
	ET_E_BACKEND_MISSING = 0x83, /* the program needs a delegate that is not available here */
	ET_E_BACKEND_CRASHED = 0x84, /* the delegate's process died */
	ET_E_BACKEND_DOWN = 0x85,    /* the delegate's process had died before and does not run now */
};

/* The status as a short phrase, e.g. "invalid program". Never NULL. */
const char *et_status_text(enum et_status status);

/* One sentence of diagnosis, written by the function that finds the cause. It names what is wrong and where ("value
 * 12: size -3 in dimension 1"), without a full stop or newline at the end. A caller that knows the file's name puts
 * it in front. */
struct et_diag {
	char text[320];
};

/* Write the sentence into @diag (may be NULL) and return @status, so that a failing line reads
 *     return et_fail(diag, ET_E_INVALID_PROGRAM, "instruction %u: no such value %d", i, v);
 * The first sentence wins: an existing one is kept, because the deepest caller knows most. Control characters, which
 * names from a file may contain, become '?'. */
enum et_status et_fail(struct et_diag *diag, enum et_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
