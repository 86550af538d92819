/* SPDX-License-Identifier: BSD-3-Clause */
/* What XNNPACK is to know of the processor. */
#ifndef DELEGATES_XNNPACK_HARDWARE_CONFIG_H
#define DELEGATES_XNNPACK_HARDWARE_CONFIG_H

#include <xnnpack.h>

/* xnn_initialize with et_xnn_allocator(), after hiding the features with which Debian's XNNPACK computes wrongly (they are
 * named in hardware_config.c). Matched by xnn_deinitialize. Any thread; the first call of a process, while no other thread uses
 * XNNPACK, is the one that decides. */
enum xnn_status et_xnn_initialize(void);

#endif
