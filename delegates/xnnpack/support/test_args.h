/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the XNNPACK delegate that run payloads made by hand: arguments, sessions, and some payloads. */
#ifndef DELEGATES_XNNPACK_SUPPORT_TEST_ARGS_H
#define DELEGATES_XNNPACK_SUPPORT_TEST_ARGS_H

#include "delegates/direct/direct.h"
#include "delegates/xnnpack/delegate.h"
#include "delegates/xnnpack/support/test_make.h"
#include "tests/support/counting_alloc.h"

/* test_set_up opens the backend; test_tear_down closes it, and fails if memory is left. */
extern const struct et_delegate_ops *test_ops;
extern struct counting_alloc test_counting;
extern struct et_allocator test_allocator;
extern struct et_backend *test_backend;
int test_set_up(void **state);
int test_tear_down(void **state);
/* The same, and undo what the test chose: the build of gemm_qs8.c, and et_xnn_override_set_least_work. */
int test_tear_down_choices(void **state);

/* An argument with memory of its own, 16 bytes more than it needs. */
struct arg {
	struct et_evalue value;
	struct et_tensor tensor;
	int32_t sizes[ET_MAX_DIMS], strides[ET_MAX_DIMS];
	uint8_t dim_order[ET_MAX_DIMS];
	union {
		float f32[512 + 4];
		uint16_t f16[512 + 8];
		int32_t i32[512 + 4];
		int8_t i8[512 + 16];
		int64_t i64[64 + 2];
	};
};

void test_arg_init(struct arg *arg, uint8_t type, uint32_t n_dims, const int32_t *sizes, uint8_t dynamism);
#define ARG(arg, type, dynamism, ...)                                                      \
	test_arg_init((arg), (type), sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t), \
		(const int32_t[]){ __VA_ARGS__ }, (dynamism))

/* Compile a payload that belongs to no program; the caller frees what comes out. Answers as compile does. */
enum et_status test_compile(const uint8_t *bytes, size_t n_bytes, uint32_t n_args, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag);
/* A compiled payload with worker threads and an instance. test_session_end also takes one whose begin failed. */
struct test_session {
	struct et_model *model;
	struct et_worker_threads *threads;
	struct et_instance *instance;
};
enum et_status test_session_begin(struct test_session *ret_session, const uint8_t *bytes, size_t n_bytes,
	uint32_t n_args, uint32_t n_threads, struct et_diag *diag);
void test_session_end(struct test_session *session);
/* Whether @override computes a node of @model. */
struct et_xnn_override;
bool test_has_override(struct et_model *model, const struct et_xnn_override *override);

/* Compile, run once, free everything. Consumes @mk. */
enum et_status test_run_once(struct make_xnn *mk, struct arg *args, uint32_t n_args, struct et_diag *diag);

void test_ok(enum et_status status, const struct et_diag *diag);
/* @part: of the sentence that @diag must have. */
void test_refused(enum et_status status, enum et_status expected, const struct et_diag *diag, const char *part);
void test_near(float got, float expected, float bound);

/* An fp32 value; @input and @output as in struct mx_value. */
uint32_t test_plain(struct make_xnn *mk, uint32_t input, uint32_t output, uint32_t rows, uint32_t columns);
/* A payload: out = in + @constant, of [1, @n], at most @most. With @is_transposed the input is transposed to [@n, 1]
 * first, so that each of its numbers is added to each of the constant's; else @n_constant is 1 or @n. The caller
 * frees it. */
uint8_t *test_make_add(const float *constant, uint32_t n_constant, uint32_t n, float most, bool is_transposed,
	size_t *ret_n_bytes);

/* Two linear layers over one input [1, 2], quantized row by row: the same filter, another bias. */
void test_make_two_biases(struct make_xnn *mk);
/* @args: the input, which is filled, and the two outputs. */
void test_fill_two_biases(struct arg args[3]);
void test_check_two_biases(const struct arg args[3]);

/* Two linear layers of 8 bits over inputs [1, 4] of their own, with other zero points: the same filter, and the same
 * bias unless they are @is_apart. */
void test_make_two_ways(struct make_xnn *mk, bool is_apart);
/* @args: the inputs, which are filled, and the outputs. */
void test_fill_two_ways(struct arg args[4]);
void test_check_two_ways(const struct arg args[4], bool is_apart);

/* A linear layer: [N_ROWS, N_IN] x [N_OUT, N_IN] -> [N_ROWS, N_OUT]. */
enum { N_IN = 64, N_OUT = 8, N_ROWS = 3, BLOCK = 32 };
void test_make_linear(struct make_xnn *mk, uint32_t filter_type, bool is_old);
void test_fill_inputs(float *inputs);
void test_check_linear(const float *inputs, const float *outputs, uint32_t n_rows, float bound);

/* A payload with a constant of each kind; [1,4,4,2] -> [1,4,4,3]. The caller frees it. */
uint8_t *test_make_mixture(size_t *ret_n_bytes);
/* Its input and output. */
void test_check_mixture(const struct arg *args);
/* Run it in an instance of its own, three times, and check the results. */
void test_run_mixture(struct et_model *model, struct et_worker_threads *threads, float first);

#endif
