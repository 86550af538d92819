/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface: what everybody who calls the table of inferd-delegate.h has to know about it, be the delegate compiled in
 * (delegates/direct), a plug-in in a process of its own or that process (delegates/plugin). */
#ifndef DELEGATES_INTERFACE_H
#define DELEGATES_INTERFACE_H

#include "delegates/inferd-delegate.h"
#include "runtime/delegate.h"

/* A result with its message as a status with a sentence, and the other way, for delegates that are made of the
 * runtime's parts; @message may be NULL. */
enum et_status et_interface_status(int result, const char *text, struct et_diag *diag);
int et_interface_result(enum et_status status, const struct et_diag *diag, struct inferd_delegate_message *message);

enum et_queue_kind et_interface_kind(uint32_t kind); /* enum inferd_delegate_kind */

enum et_readiness et_interface_readiness(uint32_t readiness); /* enum inferd_delegate_readiness */

/* How many bytes of @tensor a run may use: an input's own, an output's room. */
size_t et_interface_n_bytes(const struct et_tensor *tensor, bool is_output);
/* What came out of output number @number, which had @room: @sizes if it is a tensor, else @i or @d. */
enum et_status et_interface_take_output(struct et_evalue *to, const int32_t *sizes, int64_t i, double d, uint64_t room,
	uint32_t number, struct et_diag *diag);

/* In delegates/interface_table.c, which needs nothing of the runtime.
 *
 * Copy the table @from into one of our size: one made for an earlier minor version reads as one whose newer functions are
 * NULL, one made for a later version is served with what we know of it. 0, or -1 with a sentence if it is not what it
 * should be. */
enum { ET_INTERFACE_MAX_KERNELS = 256 };
int et_interface_take(struct inferd_delegate *ret_table, const struct inferd_delegate *from, char *text, size_t room);

/* What the memory behind a descriptor is, for buffer_import: a dma-buf or a memory file. */
uint32_t et_interface_memory_kind(int fd);

#endif
