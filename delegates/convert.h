/* SPDX-License-Identifier: BSD-3-Clause */
/* Convert between the runtime's types and those of inferd-delegate.h: statuses and results, device kinds, readiness,
 * the arguments and outputs of a run.
 *
 * The callers of a delegate's table use this (delegates/direct, delegates/plugin/proxy), and a built-in delegate that
 * is made of the runtime's parts. Any thread; nothing here keeps a pointer. */
#ifndef DELEGATES_CONVERT_H
#define DELEGATES_CONVERT_H

#include "delegates/inferd-delegate.h"
#include "runtime/delegate.h"

/* Convert @result (enum inferd_delegate_result) to a status, and put @text, the delegate's message, into @diag. An
 * unknown result is ET_E_INTERNAL. @text must not be NULL; @diag may be. */
enum et_status et_convert_result(int result, const char *text, struct et_diag *diag);
/* Convert @status to a result, and put the text of @diag into @message. @message may be NULL; then @diag may be,
 * too. */
int et_convert_status(enum et_status status, const struct et_diag *diag, struct inferd_delegate_message *message);

enum et_queue_kind et_convert_kind(uint32_t kind); /* from enum inferd_delegate_kind; unknown kinds are NPUs */

enum et_readiness et_convert_readiness(uint32_t readiness); /* from enum inferd_delegate_readiness */

/* The n_bytes of struct inferd_delegate_arg for @tensor: an input's size, an output's capacity. */
size_t et_convert_arg_n_bytes(const struct et_tensor *tensor, bool is_output);
/* Write output number @number of a run into @to: resize a tensor to @sizes, else take @i or @d. @room is the n_bytes
 * that the delegate was given. Answers: ET_E_INTERNAL if the program does not allow @sizes or they exceed @room. */
enum et_status et_convert_output(struct et_evalue *to, const int32_t *sizes, int64_t i, double d, uint64_t room,
	uint32_t number, struct et_diag *diag);

#endif
