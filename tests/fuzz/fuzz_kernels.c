/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input chooses a kernel and the arguments that it is called with. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct choices choices = { .bytes = bytes, .n_bytes = n_bytes, .random = n_bytes + 1 };
	hostile_call(hostile_kernel(choose(&choices, hostile_n_kernels())), &choices);
	return 0;
}
