/* SPDX-License-Identifier: BSD-3-Clause */
/* The processor features that XNNPACK may use. */
#ifndef DELEGATES_XNNPACK_HARDWARE_CONFIG_H
#define DELEGATES_XNNPACK_HARDWARE_CONFIG_H

#include <xnnpack.h>

/* Call xnn_initialize with et_xnn_allocator(), after hiding the features with which Debian's XNNPACK computes
 * wrongly (hardware_config.c names them). Each call needs an xnn_deinitialize. Any thread; the first call of the
 * process decides, and no other thread may use XNNPACK during it. */
enum xnn_status et_xnn_initialize(void);

#endif
