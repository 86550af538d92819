/* SPDX-License-Identifier: BSD-3-Clause */
/* Bundled programs (`.bpte`): a program together with test inputs and the outputs that it should give.
 *
 * Source: ExecuTorch devtools/bundled_program/schema/bundled_program_schema.fbs (identifier BP08). */
#ifndef RUNTIME_PROGRAM_BUNDLE_H
#define RUNTIME_PROGRAM_BUNDLE_H

#include "runtime/base/alloc.h"
#include "runtime/tensor.h"

struct et_bundle_value {
	uint8_t tag; /* NONE, INT, BOOL, DOUBLE, TENSOR; NONE for an expected output that is not given */
	union {
		int64_t i;
		double d;
		bool b;
		struct {
			uint8_t type; /* enum et_scalar_type */
			uint8_t n_dims;
			const int32_t *sizes;
			const uint8_t *dim_order;
			const uint8_t *data; /* dense in dim order; any alignment */
			size_t n_bytes;
		} tensor;
	};
};

struct et_bundle_case {
	const struct et_bundle_value *inputs;
	uint32_t n_inputs;
	const struct et_bundle_value *outputs;
	uint32_t n_outputs;
};

struct et_bundle_suite {
	const char *method;
	const struct et_bundle_case *cases; /* run them in this order on one Method: state carries over */
	uint32_t n_cases;
};

struct et_bundle {
	const uint8_t *program; /* the `.pte` inside */
	size_t n_program_bytes;
	const struct et_bundle_suite *suites;
	uint32_t n_suites;
};

/* The FlatBuffer's identifier, and the root's field that holds the program. */
#define ET_BUNDLE_IDENTIFIER "BP08"
enum { ET_BUNDLE_PROGRAM = 2 };

/* Whether the bytes begin like a bundled program (identifier "BP" and two digits). */
bool et_bundle_is(const uint8_t *bytes, size_t n_bytes);

/* Find the program's bytes, which lie in @bytes. Test cases are not read. Answers: ET_E_INVALID_PROGRAM. */
enum et_status et_bundle_find_program(const uint8_t **ret_program, size_t *ret_n_program_bytes, const uint8_t *bytes,
	size_t n_bytes, struct et_diag *diag);

/* Verify and decode the test cases. The result's arrays live in @pool, the tensors' data in @bytes.
 * Answers: ET_E_INVALID_PROGRAM, ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_bundle_open(struct et_bundle *ret_bundle, const uint8_t *bytes, size_t n_bytes, struct et_pool *pool,
	struct et_diag *diag);

#endif
