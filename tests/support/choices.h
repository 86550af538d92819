/* SPDX-License-Identifier: BSD-3-Clause */
/* Random choices: made from the bytes of a fuzzer's input, then from numbers that a seed gives. */
#ifndef TESTS_SUPPORT_CHOICES_H
#define TESTS_SUPPORT_CHOICES_H

#include <stddef.h>
#include <stdint.h>

struct choices {
	const uint8_t *bytes;
	size_t n_bytes;
	uint64_t random; /* where the bytes are used up; 0: every choice is the first, then */
};

/* One of @n, from 0. */
size_t choose(struct choices *choices, size_t n);
/* 48 bits that cost no byte of the input. */
uint64_t choices_random(struct choices *choices);

#endif
