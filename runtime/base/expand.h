/* SPDX-License-Identifier: BSD-3-Clause */
/* Macros for inner loops that are written once and compiled for each constant that they are called with. */
#ifndef RUNTIME_BASE_EXPAND_H
#define RUNTIME_BASE_EXPAND_H

/* A function that is always inlined, so that a caller's constants are constants inside, too. An array of sums then
 * lies in registers, not in memory. */
#define ET_EXPANDED static inline __attribute__((always_inline))

/* Put before a loop with a constant number of up to 32 iterations: unroll it fully. */
#if defined(__clang__)
#define ET_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ET_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
