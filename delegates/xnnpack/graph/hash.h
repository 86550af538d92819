/* SPDX-License-Identifier: BSD-3-Clause */
/* A fast digest of bytes, to find equal things. It does not withstand an attacker who looks for collisions, so
 * things with the same digest are compared. */
#ifndef DELEGATES_XNNPACK_GRAPH_HASH_H
#define DELEGATES_XNNPACK_GRAPH_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The digest of @n_bytes; the same bytes have the same digest on one machine. */
uint64_t et_xnn_hash_bytes(const void *bytes, size_t n_bytes);

#endif
