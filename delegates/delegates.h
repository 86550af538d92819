/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of the built-in delegates. et_direct_open (delegates/direct) opens one. A new built-in delegate is one
 * folder here, one declaration in this file and one line in delegates.c. */
#ifndef DELEGATES_DELEGATES_H
#define DELEGATES_DELEGATES_H

#include "delegates/inferd-delegate.h"

extern const struct inferd_delegate et_xnnpack_delegate;

extern const struct inferd_delegate *const et_delegates[];
extern const size_t et_n_delegates;

#endif
