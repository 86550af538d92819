/* SPDX-License-Identifier: BSD-3-Clause */
/* Using XNNPACK once, so that the first load is as fast as those after it. */
#ifndef DELEGATES_XNNPACK_WARM_UP_H
#define DELEGATES_XNNPACK_WARM_UP_H

#include <stdbool.h>

/* Have XNNPACK choose its kernels now. After et_xnn_initialize; takes some tenths of a millisecond. False: XNNPACK
 * failed somewhere, which only makes the first load slower. */
bool et_xnn_warm(void);

#endif
