/* SPDX-License-Identifier: BSD-3-Clause */
/* Trace: whoever wants to know how long each instruction of one run takes.
 *
 * A run has one or none. The callee reads its own clock; the runtime only says when. */
#ifndef RUNTIME_TRACE_H
#define RUNTIME_TRACE_H

#include <stdint.h>

/* Called on whichever thread advances the run, one call at a time. */
struct et_trace {
	void *self;
	/* Instruction @instruction begins, has ended; each begin is followed by its end, or by nothing when the run
	 * is given up. */
	void (*begin)(void *self, uint32_t instruction);
	void (*end)(void *self, uint32_t instruction);
	/* The delegate call that ended last spent @ns of its time on this: its operators in the order in which they ran.
	 * @name is lent. */
	void (*part)(void *self, const char *name, uint64_t ns);
};

#endif
