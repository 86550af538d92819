/* SPDX-License-Identifier: BSD-3-Clause */
/* The delegates compiled in, in the order in which they are preferred where nothing is configured. */
#include "delegates/delegates.h"

const struct inferd_delegate *const et_delegates[] = {
	&et_xnnpack_delegate,
};

const size_t et_n_delegates = sizeof(et_delegates) / sizeof(et_delegates[0]);
