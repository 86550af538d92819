/* SPDX-License-Identifier: BSD-3-Clause */
/* XnnpackBackend: programs lowered for XNNPACK, run on the system's libXNNPACK. */
#ifndef DELEGATES_XNNPACK_DELEGATE_H
#define DELEGATES_XNNPACK_DELEGATE_H

#include "delegates/delegates.h"

#include <stddef.h>

/* Limit the memory of one instance besides the packed weights, for payloads that are compiled from now on; at first
 * 2 GiB. A small file can ask for any amount. @self: what open returned. */
void et_xnnpack_set_max_instance_bytes(void *self, size_t n_bytes);

/* How much is packed for the Program of @model, for tests and statistics. */
struct et_xnn_weights_stats;
void et_xnnpack_weights_stats(struct inferd_delegate_model *model, struct et_xnn_weights_stats *ret_stats);

#endif
