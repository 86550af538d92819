/* SPDX-License-Identifier: BSD-3-Clause */
/* Making the first load as fast as those after it. */
#ifndef DELEGATES_XNNPACK_WARM_UP_H
#define DELEGATES_XNNPACK_WARM_UP_H

#include <stdbool.h>

/* Have XNNPACK choose its kernels now. After xnn_initialize; some tenths of a millisecond. False: not all of them, which
 * only makes the first load slower. */
bool et_xnn_warm(void);

#endif
