/* SPDX-License-Identifier: BSD-3-Clause */
/* Each choice takes as few bytes of the input as it needs, so that a small change of the input by a fuzzer changes
 * little. */
#include "tests/support/choices.h"

uint64_t choices_random(struct choices *choices)
{
	uint64_t x = choices->random;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	choices->random = x;
	return x * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

size_t choose(struct choices *choices, size_t n)
{
	size_t chosen = 0;
	for (size_t reach = 1; reach && reach < n; reach *= 256) {
		if (choices->n_bytes) {
			chosen = chosen * 256 + *choices->bytes++;
			choices->n_bytes--;
		} else if (choices->random) {
			chosen = chosen * 256 + choices_random(choices) % 256;
		}
	}
	return n ? chosen % n : 0;
}
