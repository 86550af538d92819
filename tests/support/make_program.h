/* SPDX-License-Identifier: BSD-3-Clause */
/* Small programs (`.pte`) and bundles made by hand, for tests: valid ones in a few lines, hostile ones by
 * setting a field to what no exporter would write.
 *
 *     struct make_program mk;
 *     mk_init(&mk);
 *     mk_method(&mk, "forward");
 *     uint32_t arena = mk_arena(&mk, 64);
 *     int a = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 3) });
 *     int b = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 3), .arena = arena });
 *     int alpha = mk_int(&mk, 1);
 *     mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(a, a, alpha, b, b));
 *     mk_input(&mk, a);
 *     mk_output(&mk, b);
 *     size_t n_bytes;
 *     uint8_t *pte = mk_finish(&mk, &n_bytes);        // free it
 *
 * Values, operators, delegates and arenas are numbered in the order in which they are made, per method.
 * The last method made is the one that is added to. */
#ifndef TESTS_SUPPORT_MAKE_PROGRAM_H
#define TESTS_SUPPORT_MAKE_PROGRAM_H

#include "runtime/tensor.h"
#include "tests/support/fb_build.h"

#include <stdbool.h>

#define MK_FP32       .type = ET_FLOAT32
#define MK_COUNT(...) (sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))
#define MK_SIZES(...) .sizes = { __VA_ARGS__ }, .n_dims = MK_COUNT(__VA_ARGS__)
#define MK_ARGS(...)  (const int[]){ __VA_ARGS__ }, MK_COUNT(__VA_ARGS__)

struct mk_list {
	void *items;
	size_t n, n_item;
};

struct make_program {
	struct fb_build fb;
	/* Choices, before anything is made; mk_init sets the usual ones. */
	const char *identifier;
	bool has_header;           /* write the extended header */
	bool has_inline_constants; /* the deprecated way: in the FlatBuffer */
	/* What has been made so far. */
	struct mk_list methods, segments, named, constants, initials, inline_payloads; /* of refs, but for: */
	struct mk_list constant_bytes, initial_bytes, segment_bytes;
	fbb_ref name;
	struct mk_list values, operators, delegates, chains, instructions, arenas, inputs, outputs;
	bool is_in_method;
};

void mk_init(struct make_program *mk);
/* Ends everything; @mk may be initialized again. The file is the caller's to free. */
uint8_t *mk_finish(struct make_program *mk, size_t *ret_n_bytes);
/* The same into a file. 0, or 1 after saying what is wrong: a program's exit status. */
int mk_write(struct make_program *mk, const char *path);
/* Give up. */
void mk_deinit(struct make_program *mk);

void mk_method(struct make_program *mk, const char *name);
/* The number to plan tensors in: 1, 2, … */
uint32_t mk_arena(struct make_program *mk, int64_t n_bytes);
void mk_input(struct make_program *mk, int value);
void mk_output(struct make_program *mk, int value);

int mk_none(struct make_program *mk);
int mk_int(struct make_program *mk, int64_t value);
int mk_bool(struct make_program *mk, bool value);
int mk_double(struct make_program *mk, double value);
int mk_string(struct make_program *mk, const char *value);
/* Lists of slots: ET_TAG_INT_LIST, ET_TAG_TENSOR_LIST, ET_TAG_OPTIONAL_TENSOR_LIST (-1: None). */
int mk_slots(struct make_program *mk, uint8_t tag, const int *slots, size_t n);
int mk_doubles(struct make_program *mk, const double *items, size_t n);
int mk_bools(struct make_program *mk, const bool *items, size_t n);
/* A value of any type number with any body. */
int mk_value(struct make_program *mk, uint8_t type, fbb_ref body);

struct mk_tensor {
	int type; /* enum et_scalar_type */
	int32_t sizes[ET_MAX_DIMS + 1];
	uint32_t n_dims;
	const uint8_t *dim_order; /* NULL: 0, 1, 2, … */
	uint32_t n_dim_order;     /* where it should not be n_dims */
	uint8_t dynamism;         /* enum et_dynamism */
	uint32_t arena;           /* 0: not planned */
	uint64_t offset;          /* in the arena */
	uint32_t constant;        /* what mk_constant or mk_initial gave, or 0 */
	const char *name;         /* or NULL */
	bool is_external;
	/* Only for hostile tensors. */
	bool has_allocation; /* though arena is 0 */
	bool has_no_sizes, has_no_dim_order;
	int32_t storage_offset;
	uint8_t device_type;
	uint8_t location;
	uint64_t initial_list;
};
/* Returns its slot. What @tensor points to is copied. */
int mk_tensor(struct make_program *mk, const struct mk_tensor *tensor);

/* Bytes of a constant: the number for mk_tensor.constant. */
uint32_t mk_constant(struct make_program *mk, const void *bytes, size_t n_bytes);
/* The same for a planned tensor's initial value. */
uint32_t mk_initial(struct make_program *mk, const void *bytes, size_t n_bytes);
void mk_named_data(struct make_program *mk, const char *key, const void *bytes, size_t n_bytes);
/* A segment of its own. @skew: bytes put before it, to make it unaligned. Returns its number. */
uint32_t mk_segment(struct make_program *mk, const void *bytes, size_t n_bytes, size_t skew);

int mk_operator(struct make_program *mk, const char *name, const char *overload);
/* With the payload in a segment, or inline; and one compile spec if @key is not NULL. */
int mk_delegate(struct make_program *mk, const char *id, const void *payload, size_t n_bytes, bool is_inline,
	const char *key, const char *value);

/* Instructions go to the last chain; there is one from the start. */
void mk_chain(struct make_program *mk);
void mk_kernel(struct make_program *mk, int op_name, const int *args, size_t n_args);
void mk_call(struct make_program *mk, int delegate, const int *args, size_t n_args);
void mk_move(struct make_program *mk, int from, int to);
/* @destination counts within the chain. */
void mk_jump_false(struct make_program *mk, int condition, int destination);
void mk_free(struct make_program *mk, int value);
/* Instructions in the present chain so far. */
int mk_n_instructions(const struct make_program *mk);
/* An instruction of any type number with any body. */
void mk_instruction(struct make_program *mk, uint8_t type, fbb_ref body);

/* --- bundles ---------------------------------------------------------------------------------- */

/* A `.bpte` of @program with one case for @method, whose one input and one expected output are tensors of
 * @n floats. The file is the caller's to free. */
uint8_t *mk_bundle(const uint8_t *program, size_t n_program, const char *method, const float *input,
	const float *output, int32_t n, size_t *ret_n_bytes);

/* Numbers of the schema's union of bundled values. Another one makes a value that no reader knows. */
enum { MK_BUNDLED_NONE = 0, MK_BUNDLED_INT = 2, MK_BUNDLED_BOOL, MK_BUNDLED_DOUBLE };

struct mk_bundled {
	uint8_t type;
	double number;
};

/* The same, with @n (at most 8) inputs that are no tensors and no expected output. @method: NULL leaves it out. */
uint8_t *mk_bundle_of_numbers(const uint8_t *program, size_t n_program, const char *method,
	const struct mk_bundled *inputs, size_t n, size_t *ret_n_bytes);

#endif
