/* SPDX-License-Identifier: BSD-3-Clause */
/* Trace: callbacks that measure how long each instruction of one run takes.
 *
 * A run has one trace or none. The callbacks read their own clock; the runtime only calls them at the right moments. */
#ifndef RUNTIME_TRACE_H
#define RUNTIME_TRACE_H

#include <stdint.h>

/* Called on the thread that advances the run, one call at a time. */
struct et_trace {
	void *self;
	/* Instruction @instruction begins, or has ended. Each begin is followed by its end, or by nothing if the run
	 * is given up. */
	void (*begin)(void *self, uint32_t instruction);
	void (*end)(void *self, uint32_t instruction);
	/* The last delegate call spent @ns of its time on the operator @name; called in the order in which the
	 * operators ran. @name is borrowed for the call. */
	void (*part)(void *self, const char *name, uint64_t ns);
};

#endif
