/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of the statuses, and the diagnosis sentence.
 *
 * There is no global "last error" on purpose: a diagnosis belongs to the call that asked for it. */
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *et_status_text(enum et_status status)
{
	switch (status) {
	case ET_OK:
		return "ok";
	case ET_E_INTERNAL:
		return "internal error";
	case ET_E_INVALID_STATE:
		return "invalid state";
	case ET_E_END_OF_METHOD:
		return "end of method";
	case ET_E_ALREADY_LOADED:
		return "already loaded";
	case ET_E_NOT_SUPPORTED:
		return "not supported";
	case ET_E_NOT_IMPLEMENTED:
		return "not implemented";
	case ET_E_INVALID_ARGUMENT:
		return "invalid argument";
	case ET_E_INVALID_TYPE:
		return "invalid type";
	case ET_E_OPERATOR_MISSING:
		return "operator missing";
	case ET_E_NOT_FOUND:
		return "not found";
	case ET_E_MEMORY_ALLOCATION_FAILED:
		return "memory allocation failed";
	case ET_E_ACCESS_FAILED:
		return "access failed";
	case ET_E_INVALID_PROGRAM:
		return "invalid program";
	case ET_E_INVALID_EXTERNAL_DATA:
		return "invalid external data";
	case ET_E_OUT_OF_RESOURCES:
		return "out of resources";
	case ET_E_DELEGATE_INVALID_COMPATIBILITY:
		return "delegate payload not compatible";
	case ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED:
		return "delegate memory allocation failed";
	case ET_E_DELEGATE_INVALID_HANDLE:
		return "delegate handle invalid";
	case ET_UNFINISHED:
		return "not finished";
	case ET_PENDING:
		return "pending";
	case ET_E_CANCELLED:
		return "cancelled";
	case ET_E_DEADLINE:
		return "deadline passed";
	case ET_E_STATE_LOST:
		return "state lost";
	case ET_E_BACKEND_MISSING:
		return "backend missing";
	case ET_E_BACKEND_DOWN:
		return "the backend's process is not there";
	case ET_E_BACKEND_CRASHED:
		return "backend crashed";
	}
	return "unknown status";
}

enum et_status et_fail(struct et_diag *diag, enum et_status status, const char *format, ...)
{
	if (diag && !diag->text[0]) {
		va_list args;
		va_start(args, format);
		vsnprintf(diag->text, sizeof diag->text, format, args);
		va_end(args);
		/* Names in the text come from files: they must not forge log lines or control a terminal. */
		for (char *c = diag->text; *c; c++) {
			if ((unsigned char)*c < ' ' || *c == 0x7f)
				*c = '?';
		}
	}
	return status;
}
