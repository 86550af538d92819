/* SPDX-License-Identifier: BSD-3-Clause */
/* Look at everything that a Program or a bundle holds, through the public interface, and abort if a promise is
 * broken: each index exists, each tensor lies within its arena, each byte range can be read. */
#ifndef TESTS_SUPPORT_WALK_PROGRAM_H
#define TESTS_SUPPORT_WALK_PROGRAM_H

#include "runtime/program/bundle.h"
#include "runtime/program/program.h"

/* Aborts where a promise is broken. Returns a sum of what was read, so that no read is optimized away. */
uint64_t walk_program(const struct et_program *program);
/* The same for a bundle's test cases. */
uint64_t walk_bundle(const struct et_bundle *bundle);

#endif
