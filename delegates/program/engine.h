/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine: the runtime as a delegate. A payload is a whole program file (.pte or .bpte), and its model is one method.
 *
 * The process inferd-program-host serves this table in place of a plug-in's, so that programs which clients bring are
 * parsed, compiled and run outside the daemon. The kernels and the compiled-in delegates are inside.
 *
 *   payload         the file; `method` names the method. named_data(self, "0", ...), "1", ... are the data files (.ptd)
 *                   in the order in which they are searched, until E_NOT_FOUND. Payloads with the same `program`
 *                   number share one opened program, which keeps mappings of its own.
 *   arguments       those inputs, then those outputs, that are tensors, numbers or None, in the method's order
 *   worker threads  of the run (INFERD_DELEGATE_THREADS_OF_RUN)
 *   options         "workers": how many worker threads may exist at a time (64); "backends": names of the compiled-in
 *                   delegates to use, with commas (all); "NAME.KEY": option KEY of delegate NAME, for the model too
 *
 * A file that is broken or malicious is refused. A caller that breaks the interface's rules gets E_INTERNAL with a
 * sentence, as far as the engine can notice. */
#ifndef DELEGATES_PROGRAM_ENGINE_H
#define DELEGATES_PROGRAM_ENGINE_H

#include "delegates/inferd-delegate.h"

extern const struct inferd_delegate et_program_engine;

/* Let the libraries read now what they read once in a process: what the processor can do. A sandbox that forbids to
 * open files can be entered afterwards. */
void et_program_warm(void);

/* Write the stand-in (stand_in.h) of the program in @payload, whose `method` is ignored. @self: what open returned.
 * *ret_bytes is the caller's, who frees it with free(). E_INVALID: not a program; E_LIMIT: its stand-in would be too
 * large. Any thread. */
int et_program_describe(void *self, const struct inferd_delegate_payload *payload, uint8_t **ret_bytes,
	size_t *ret_n_bytes, struct inferd_delegate_message *message);

#endif
