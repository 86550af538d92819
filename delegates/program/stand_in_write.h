/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing stand-ins (stand_in.h), in the process that runs the program. */
#ifndef DELEGATES_PROGRAM_STAND_IN_WRITE_H
#define DELEGATES_PROGRAM_STAND_IN_WRITE_H

#include "delegates/program/stand_in.h"
#include "runtime/plan.h"

/* Whether @method (NULL: the program has none of that name) can run with the kernels and backends of @registry, as far
 * as names tell; a backend may still refuse a payload. ET_OK, or the status with its sentence. */
enum et_status et_stand_in_refusal(const struct et_program *program, const struct et_method_spec *method,
	const struct et_registry *registry, struct et_diag *diag);

/* Write the stand-in of @program. *ret_bytes is the caller's, allocated with malloc. ET_E_OUT_OF_RESOURCES: it would be
 * larger than ET_STAND_IN_MAX_BYTES; ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_stand_in_write(const struct et_program *program, const struct et_registry *registry,
	uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag);

#endif
