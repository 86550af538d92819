/* SPDX-License-Identifier: BSD-3-Clause */
/* The built-in delegates. Where nothing is configured, an earlier one is preferred to a later one. */
#include "delegates/delegates.h"

const struct inferd_delegate *const et_delegates[] = {
	&et_xnnpack_delegate,
};

const size_t et_n_delegates = sizeof(et_delegates) / sizeof(et_delegates[0]);
