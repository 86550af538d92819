/* SPDX-License-Identifier: BSD-3-Clause */
/* The delegates compiled into inferd: their tables, to be opened with et_direct_open (delegates/direct). Adding one is one
 * folder here and one line in delegates.c. */
#ifndef DELEGATES_DELEGATES_H
#define DELEGATES_DELEGATES_H

#include "delegates/inferd-delegate.h"

extern const struct inferd_delegate et_xnnpack_delegate;

extern const struct inferd_delegate *const et_delegates[];
extern const size_t et_n_delegates;

#endif
