/* SPDX-License-Identifier: BSD-3-Clause */
/* The function that each fuzz target defines: libFuzzer calls it, and so does replay.c. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Does something with the bytes that must not crash, leak or run on; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

#endif
