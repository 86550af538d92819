/* SPDX-License-Identifier: BSD-3-Clause */
/* Draft: a call of a kernel, in structs that are easy to change. It is made from the operator's signature, or copied
 * from a valid call and then damaged. A draft has no memory: it points to its choices and, for a copy, to the data
 * of the valid call's tensors. */
#ifndef TESTS_SUPPORT_DRAFT_H
#define TESTS_SUPPORT_DRAFT_H

#include "runtime/kernel.h"
#include "tests/support/choices.h"

enum { DRAFT_MAX_VALUES = 96, DRAFT_MAX_ITEMS = 8, DRAFT_MAX_NUMEL = 600 };

struct draft_tensor {
	uint8_t type, n_dims, dynamism;
	int32_t sizes[ET_MAX_DIMS];
	uint8_t order[ET_MAX_DIMS];
	size_t n_spare;    /* elements that fit beside those there are */
	size_t n_bytes;    /* of contents, or 0: made up by filling */
	const void *bytes; /* what a good call has there */
	uint8_t filling;
};

struct draft_value {
	uint8_t tag;
	int64_t i;
	double d;
	struct draft_tensor tensor;
	size_t n;                      /* of a list or string */
	size_t items[DRAFT_MAX_ITEMS]; /* INT_LIST, TENSOR_LIST, OPTIONAL_TENSOR_LIST: numbers of values */
	double doubles[DRAFT_MAX_ITEMS];
	uint8_t bools[DRAFT_MAX_ITEMS];
	char chars[40];
};

struct draft {
	const struct et_kernel *kernel;
	struct choices *choices;
	struct et_kernel_arg args[ET_KERNEL_MAX_ARGS];
	size_t n_args, n_values; /* the first n_args values are the arguments, the others items of lists */
	struct draft_value values[DRAFT_MAX_VALUES];
	uint8_t type;     /* most tensors' */
	int32_t sizes[3]; /* most dimensions' */
	uint8_t n_dims;   /* most tensors' */
	bool shares;      /* one piece of memory for all tensors */
	size_t fail_at;   /* the allocation of scratch that fails; 0: none */
};

/* False: the kernel's signature is none. */
bool draft_init(struct draft *draft, const struct et_kernel *kernel, struct choices *choices);
/* Arguments by chance. */
void draft_make_up(struct draft *draft);
/* Those of @args, mostly with room for larger outputs. False: there are more than fit. */
bool draft_copy(struct draft *draft, struct et_evalue *const *args);
/* Change one thing. */
void draft_spoil(struct draft *draft);

/* Yes, one time in @n. */
bool draft_one_in(struct draft *draft, size_t n);
/* What tensors hold: anything, or numbers that come through more checks than that does. */
void draft_fill(struct draft *draft, uint8_t filling, uint8_t type, uint8_t *bytes, size_t n_bytes);

#endif
