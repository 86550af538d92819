/* The delegates compiled into inferd. Adding one is one folder here and one line in delegates.c. */
#ifndef DELEGATES_DELEGATES_H
#define DELEGATES_DELEGATES_H

#include "runtime/delegate.h"

extern const struct et_delegate_ops et_xnnpack_delegate;

extern const struct et_delegate_ops *const et_delegates[];
extern const size_t et_n_delegates;

#endif
