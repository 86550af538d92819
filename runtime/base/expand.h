/* SPDX-License-Identifier: BSD-3-Clause */
/* For inner loops that are written once and compiled for each of the constants that they are called with. */
#ifndef RUNTIME_BASE_EXPAND_H
#define RUNTIME_BASE_EXPAND_H

/* A function that is part of each caller, so that what is constant there is so inside: an array of sums then lies in
 * registers, not in memory. */
#define ET_EXPANDED static inline __attribute__((always_inline))

/* Before a loop of up to 32 turns, whose number is a constant there: written out. */
#if defined(__clang__)
#define ET_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ET_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
