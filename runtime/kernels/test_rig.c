/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing the text of a case, calling the kernel, comparing.
 *
 * After a case, some random calls that differ from it in a few things are tried; after a case that succeeds, all calls
 * that differ in the type of one tensor or of all. They must be answered, whatever the answer.
 *
 * Every tensor's memory is an allocation of its exact size, so the address sanitizer sees a kernel that reaches
 * outside; outputs are filled with a pattern first. Everything parsed is freed as one pool. */
#include "runtime/kernels/test_rig.h"
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/dtype.h"
#include "runtime/kernel.h"
#include "tests/support/hostile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum {
	MAX_ARGS = 24,
	MAX_TENSORS = 64,
	N_NEAR = 20, /* random calls after each case */
};

struct parser {
	const struct kernel_case *test;
	const char *at;
	struct et_pool *pool;
	void *memory[MAX_TENSORS];
	size_t n_memory;
};

static void *heap_alloc(void *self, size_t n_bytes, size_t align)
{
	return aligned_alloc(align, (n_bytes + align - 1) / align * align);
}

static void heap_free(void *self, void *ptr, size_t n_bytes)
{
	free(ptr);
}

static void expect_char(struct parser *p, char wanted)
{
	if (*p->at != wanted)
		fail_msg("%s: expected '%c' at '%s'", p->test->kernel, wanted, p->at);
	p->at++;
}

static bool take(struct parser *p, const char *text)
{
	if (strncmp(p->at, text, strlen(text)) != 0)
		return false;
	p->at += strlen(text);
	return true;
}

static double parse_double(struct parser *p)
{
	char *end;
	double value = strtod(p->at, &end);
	if (end == p->at)
		fail_msg("%s: no number at '%s'", p->test->kernel, p->at);
	p->at = end;
	return value;
}

static int64_t parse_int(struct parser *p)
{
	char *end;
	int64_t value = strtoll(p->at, &end, 10);
	if (end == p->at)
		fail_msg("%s: no integer at '%s'", p->test->kernel, p->at);
	p->at = end;
	return value;
}

static enum et_scalar_type parse_type(struct parser *p)
{
	static const struct {
		const char *name;
		enum et_scalar_type type;
	} types[] = { { "f32", ET_FLOAT32 }, { "f64", ET_FLOAT64 }, { "f16", ET_FLOAT16 }, { "bf16", ET_BFLOAT16 },
		{ "i64", ET_INT64 }, { "i32", ET_INT32 }, { "i16", ET_INT16 }, { "i8", ET_INT8 }, { "u8", ET_UINT8 },
		{ "u16", ET_UINT16 }, { "b16", ET_BITS16 }, { "bool", ET_BOOL }, { "c32", ET_COMPLEX32 },
		{ "c64", ET_COMPLEX64 }, { "c128", ET_COMPLEX128 } };
	for (size_t i = 0; i < ET_ARRAY_LEN(types); i++) {
		if (take(p, types[i].name))
			return types[i].type;
	}
	fail_msg("%s: no tensor at '%s'", p->test->kernel, p->at);
	return ET_FLOAT32;
}

/* Offset of the row-major element @index. */
static uint8_t *element_at(const struct et_tensor *tensor, size_t index)
{
	size_t offset = 0;
	for (size_t d = tensor->n_dims; d-- > 0;) {
		offset += index % (size_t)tensor->sizes[d] * (size_t)tensor->strides[d];
		index /= (size_t)tensor->sizes[d];
	}
	return (uint8_t *)tensor->data + offset * et_scalar_size(tensor->type);
}

/* Bits16 is written and compared as the integers that quantized operators take it for. */
static enum et_scalar_type seen_as(const struct et_tensor *tensor)
{
	return tensor->type == ET_BITS16 ? ET_UINT16 : (enum et_scalar_type)tensor->type;
}

static struct et_tensor *parse_tensor(struct parser *p)
{
	struct et_tensor *tensor = ET_POOL_NEW(p->pool, struct et_tensor);
	uint8_t *order = et_pool_array(p->pool, ET_MAX_DIMS, 1);
	assert_non_null(tensor);
	assert_non_null(order);
	tensor->type = (uint8_t)parse_type(p);
	tensor->sizes = ET_POOL_NEW_ARRAY(p->pool, int32_t, ET_MAX_DIMS);
	tensor->strides = ET_POOL_NEW_ARRAY(p->pool, int32_t, ET_MAX_DIMS);
	expect_char(p, '[');
	while (*p->at != ']') {
		tensor->sizes[tensor->n_dims++] = (int32_t)parse_int(p);
		take(p, ",");
	}
	expect_char(p, ']');
	bool has_order = take(p, "@");
	for (uint8_t d = 0; d < tensor->n_dims; d++)
		order[d] = has_order ? (uint8_t)(*p->at++ - '0') : d;
	tensor->dim_order = order;
	et_dim_order_to_strides(tensor->sizes, order, tensor->n_dims, tensor->strides);
	tensor->capacity = et_tensor_numel(tensor);
	tensor->data = malloc(et_tensor_n_bytes(tensor));
	assert_non_null(tensor->data);
	assert_true(p->n_memory < MAX_TENSORS);
	p->memory[p->n_memory++] = tensor->data;
	expect_char(p, '{');
	for (size_t i = 0; i < et_tensor_numel(tensor); i++) {
		if (et_type_is_complex(tensor->type)) {
			double real = parse_double(p);
			expect_char(p, ':');
			et_element_set_complex(element_at(tensor, i), tensor->type, CMPLX(real, parse_double(p)));
		} else if (et_type_is_float(tensor->type))
			et_element_set_double(element_at(tensor, i), tensor->type, parse_double(p));
		else
			et_element_set_int(element_at(tensor, i), seen_as(tensor), parse_int(p));
		take(p, ",");
	}
	expect_char(p, '}');
	return tensor;
}

static void parse_value(struct parser *p, char letter, struct et_evalue *value);

static void parse_list(struct parser *p, char letter, struct et_evalue *value)
{
	struct et_list *list = ET_POOL_NEW(p->pool, struct et_list);
	struct et_evalue *items = ET_POOL_NEW_ARRAY(p->pool, struct et_evalue, MAX_ARGS);
	struct et_evalue **slots = ET_POOL_NEW_ARRAY(p->pool, struct et_evalue *, MAX_ARGS);
	double *doubles = ET_POOL_NEW_ARRAY(p->pool, double, MAX_ARGS);
	uint8_t *bools = ET_POOL_NEW_ARRAY(p->pool, uint8_t, MAX_ARGS);
	assert_non_null(bools);
	value->list = list;
	expect_char(p, '(');
	while (*p->at != ')') {
		if (letter == 'F')
			doubles[list->n] = parse_double(p);
		else if (letter == 'X')
			bools[list->n] = take(p, "true") || !take(p, "false");
		else
			parse_value(p, letter == 'V' ? 'I' : letter == 'l' ? 't' : 'T', &items[list->n]);
		slots[list->n] = &items[list->n];
		list->n++;
		if (!take(p, ","))
			take(p, ";");
	}
	expect_char(p, ')');
	if (letter == 'F')
		list->doubles = doubles;
	else if (letter == 'X')
		list->bools = bools;
	else
		list->values = slots;
}

static void parse_number(struct parser *p, struct et_evalue *value)
{
	size_t n = strcspn(p->at, " ");
	if (take(p, "true") || take(p, "false")) {
		value->tag = ET_TAG_BOOL;
		value->b = p->at[-2] == 'u';
	} else if (memchr(p->at, '.', n) || memchr(p->at, 'n', n)) {
		value->tag = ET_TAG_DOUBLE;
		value->d = parse_double(p);
	} else {
		value->tag = ET_TAG_INT;
		value->i = parse_int(p);
	}
}

static void parse_value(struct parser *p, char letter, struct et_evalue *value)
{
	if (*p->at == '-' && (p->at[1] == ' ' || p->at[1] == '\0' || p->at[1] == ';' || p->at[1] == ')')) {
		p->at++;
		value->tag = ET_TAG_NONE;
		return;
	}
	switch (letter) {
	case 'T':
	case 't':
		value->tag = ET_TAG_TENSOR;
		value->tensor = parse_tensor(p);
		break;
	case 'V':
	case 'v':
		value->tag = ET_TAG_INT_LIST;
		parse_list(p, 'V', value);
		break;
	case 'F':
	case 'f':
		value->tag = ET_TAG_DOUBLE_LIST;
		parse_list(p, 'F', value);
		break;
	case 'X':
		value->tag = ET_TAG_BOOL_LIST;
		parse_list(p, 'X', value);
		break;
	case 'L':
	case 'l':
		value->tag = letter == 'L' ? ET_TAG_TENSOR_LIST : ET_TAG_OPTIONAL_TENSOR_LIST;
		parse_list(p, letter, value);
		break;
	case 'C':
	case 'c': {
		struct et_list *text = ET_POOL_NEW(p->pool, struct et_list);
		size_t n = strcspn(p->at, " ");
		assert_non_null(text);
		text->n = (uint32_t)n;
		text->chars = et_pool_strndup(p->pool, p->at, n);
		p->at += n;
		value->tag = ET_TAG_STRING;
		value->list = text;
		break;
	}
	case 'D':
	case 'd':
		value->tag = ET_TAG_DOUBLE;
		value->d = parse_double(p);
		break;
	default:
		parse_number(p, value);
		break;
	}
}

static void compare_tensors(const struct kernel_case *test, const struct et_tensor *got, const struct et_tensor *want)
{
	bool is_exact = strncmp(test->expected, "= ", 2) == 0 || !et_type_is_float(want->type);
	assert_int_equal(got->n_dims, want->n_dims);
	for (size_t d = 0; d < want->n_dims; d++) {
		if (got->sizes[d] != want->sizes[d])
			fail_msg("%s(%s): size %d in dimension %zu, expected %d", test->kernel, test->args,
				got->sizes[d], d, want->sizes[d]);
	}
	for (size_t i = 0; i < et_tensor_numel(want); i++) {
		if (et_type_is_complex(want->type)) {
			double complex x = et_element_get_complex(element_at(got, i), got->type);
			double complex y = et_element_get_complex(element_at(want, i), want->type);
			if (cabs(x - y) > 1e-12 + 1e-3 * cabs(y))
				fail_msg("%s(%s): element %zu is %g:%g, expected %g:%g", test->kernel, test->args, i,
					creal(x), cimag(x), creal(y), cimag(y));
			continue;
		}
		double a = et_element_get_double(element_at(got, i), seen_as(got));
		double b = et_element_get_double(element_at(want, i), seen_as(want));
		double bound = et_type_is_half(want->type) ? 1e-2 * fabs(b) : 1e-6 + 1e-5 * fabs(b);
		bool is_same = a == b && (!is_exact || signbit(a) == signbit(b));
		bool is_close = (a != a && b != b) || is_same || (!is_exact && fabs(a - b) <= bound && !isinf(b));
		if (!et_type_is_float(want->type)) /* not every int64 is a double */
			is_close = et_element_get_int(element_at(got, i), seen_as(got)) ==
				   et_element_get_int(element_at(want, i), seen_as(want));
		if (!is_close)
			fail_msg("%s(%s): element %zu is %.9g, expected %.9g", test->kernel, test->args, i, a, b);
	}
}

static void compare(const struct kernel_case *test, const struct et_evalue *got, const struct et_evalue *want)
{
	assert_int_equal(got->tag, want->tag);
	if (want->tag == ET_TAG_TENSOR) {
		compare_tensors(test, got->tensor, want->tensor);
	} else if (want->tag == ET_TAG_TENSOR_LIST) {
		for (uint32_t i = 0; i < want->list->n; i++)
			compare(test, got->list->values[i], want->list->values[i]);
	} else if (want->tag == ET_TAG_DOUBLE) {
		if (fabs(got->d - want->d) > 1e-9)
			fail_msg("%s(%s) is %g, expected %g", test->kernel, test->args, got->d, want->d);
	} else if ((want->tag == ET_TAG_BOOL ? got->b : got->i) != (want->tag == ET_TAG_BOOL ? want->b : want->i)) {
		fail_msg("%s(%s) is not %s", test->kernel, test->args, test->expected);
	}
}

const struct et_kernel *find_kernel(const char *name)
{
	for (size_t i = 0; i < et_n_kernel_tables; i++) {
		const struct et_kernel *kernel = et_kernel_table_find(et_kernel_tables[i], name);
		if (kernel)
			return kernel;
	}
	fail_msg("there is no kernel '%s'", name);
	abort(); /* the compiler does not know that a failed test does not return */
}

static void spoil(struct et_evalue *value)
{
	if (value->tag == ET_TAG_TENSOR && et_tensor_n_bytes(value->tensor))
		memset(value->tensor->data, 0x5a, et_tensor_n_bytes(value->tensor));
	for (uint32_t i = 0; value->tag == ET_TAG_TENSOR_LIST && i < value->list->n; i++)
		spoil(value->list->values[i]);
}

/* Whether to try another large call of @kernel. */
static bool is_worth_another(const struct et_kernel *kernel)
{
	enum { N_CALLS = 4, MAX_KERNELS = 1024 };
	static struct {
		const struct et_kernel *kernel;
		size_t n;
	} seen[MAX_KERNELS];
	size_t k = 0;
	while (k + 1 < MAX_KERNELS && seen[k].kernel && seen[k].kernel != kernel)
		k++;
	seen[k].kernel = kernel;
	return seen[k].n++ < N_CALLS;
}

/* Kernels that read a small part of a large tensor if another argument says so, such as a slice's end or the indices,
 * or write a small part of one that they do not replace. */
static bool may_read_little(const char *name)
{
	static const char *const names[] = { "aten::_fft_c2r.out", "aten::diagonal_copy.out", "aten::gather.out",
		"aten::index.Tensor_out", "aten::index_put_", "aten::narrow_copy.out", "aten::resize.out",
		"aten::select_copy.int_out", "aten::slice_copy.Tensor_out", "aten::sym_size.int",
		"aten::upsample_bilinear2d.vec_out", "aten::upsample_nearest2d.vec_out",
		"cadence::_select_copy_nop.int_out", "cadence::_slice_copy_nop.Tensor_out",
		"cadence::quantized_embedding_byte.out", "cadence::quantized_w8a32_linear.out",
		"llama::update_cache.out", "quantized_decomposed::embedding_byte.dtype_out",
		"quantized_decomposed::embedding_byte.out", "quantized_decomposed::mixed_linear.out" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* A large call ends soon after its run's deadline. */
static void expect_stop(const struct et_kernel *kernel, struct et_evalue *const *args)
{
	if (!is_worth_another(kernel))
		return;
	enum hostile_end end = hostile_call_stopped(kernel, args, 0);
	if (end == HOSTILE_RAN_ON || (end == HOSTILE_WROTE_LITTLE && !may_read_little(kernel->name)))
		fail_msg("%s: a large call does not ask whether it must stop", kernel->name);
	for (size_t n_before = 1; end == HOSTILE_STOPPED && n_before < 16; n_before *= 2)
		end = hostile_call_stopped(kernel, args, n_before);
}

/* Compare the elements of the output @out with those of @self from *@first on; then go on to the next output. */
static void compare_part(const struct kernel_case *test, const struct et_tensor *self, const struct et_evalue *out,
	size_t *first)
{
	for (uint32_t i = 0; out->tag == ET_TAG_TENSOR_LIST && i < out->list->n; i++)
		compare_part(test, self, out->list->values[i], first);
	if (out->tag != ET_TAG_TENSOR)
		return;
	size_t n = et_tensor_numel(out->tensor), size = et_element_bytes(self);
	if (*first > et_tensor_numel(self) || n > et_tensor_numel(self) - *first)
		fail_msg("%s(%s): elements from %zu on are not in the input", test->kernel, test->args, *first);
	if (self->type == out->tensor->type && n &&
		memcmp(out->tensor->data, (const uint8_t *)self->data + *first * size, n * size) != 0)
		fail_msg("%s(%s): the output is not a part of the input from %zu on", test->kernel, test->args, *first);
	*first += n;
}

/* Compare the part that find_part tells with what the call copied. */
static void check_part(const struct kernel_case *test, const struct et_kernel *kernel, struct et_evalue *const *args,
	size_t n_args)
{
	const struct et_tensor *self = args[0]->tensor;
	size_t first, n, at;
	if (!et_dim_order_is_contiguous(self->dim_order, self->n_dims) || !kernel->find_part(args, &first, &n))
		return;
	at = first;
	for (size_t i = n_args - strlen(strchr(kernel->signature, '>') + 1); i < n_args; i++)
		compare_part(test, self, args[i], &at);
	assert_int_equal(at - first, n);
}

static void check_case(const struct kernel_case *test, struct et_pool *pool, struct et_pool *scratch)
{
	const struct et_kernel *kernel = find_kernel(test->kernel);
	bool is_refused = strncmp(test->expected, "! ", 2) == 0;
	struct parser p = { .test = test, .at = test->args, .pool = pool };
	struct parser expected = p, spare = p;
	struct et_kernel_arg args[MAX_ARGS];
	struct et_evalue values[MAX_ARGS] = { 0 }, wanted[MAX_ARGS] = { 0 };
	struct et_evalue *list[MAX_ARGS];
	struct et_diag diag = { 0 };
	int n = et_kernel_signature(kernel->signature, args, MAX_ARGS);
	assert_true(n > 0);
	/* A refusal still needs outputs: they follow the text, after a second '!'. */
	expected.at = spare.at = test->expected;
	if (is_refused)
		expected.at = spare.at = strstr(test->expected + 2, " ! ") ? strstr(test->expected + 2, " ! ") + 3 : "";
	take(&expected, "= ");
	take(&spare, "= ");
	for (int i = 0; i < n; i++) {
		bool is_output = args[i].is_written && !args[i].is_read && !(i == 0 && !strchr(kernel->signature, '>'));
		list[i] = &values[i];
		if (is_output) {
			parse_value(&expected, args[i].letter, &wanted[i]);
			take(&expected, " ");
			parse_value(&spare, args[i].letter, &values[i]);
			take(&spare, " ");
			spoil(&values[i]);
		} else {
			parse_value(&p, args[i].letter, &values[i]);
			take(&p, " ");
			if (args[i].is_written) {
				parse_value(&expected, args[i].letter, &wanted[i]);
				take(&expected, " ");
				spare.at = expected.at;
			}
		}
	}
	if (*p.at)
		fail_msg("%s: left over: '%s'", test->kernel, p.at);
	struct et_kernel_ctx ctx = { kernel, NULL, scratch, &diag };
	enum et_status status = kernel->run(&ctx, list);
	if (is_refused) {
		size_t n_text = strstr(test->expected + 2, " ! ")
					? (size_t)(strstr(test->expected + 2, " ! ") - test->expected - 2)
					: strlen(test->expected + 2);
		char text[200];
		snprintf(text, sizeof(text), "%.*s", (int)n_text, test->expected + 2);
		if (status == ET_OK || !strstr(diag.text, text))
			fail_msg("%s(%s): status 0x%x '%s', expected a refusal with '%s'", test->kernel, test->args,
				status, diag.text, text);
	} else if (status != ET_OK) {
		fail_msg("%s(%s): %s", test->kernel, test->args, diag.text);
	}
	for (int i = 0; i < n && !is_refused; i++) {
		if (args[i].is_written)
			compare(test, &values[i], &wanted[i]);
	}
	if (kernel->find_part && !is_refused)
		check_part(test, kernel, list, (size_t)n);
	struct choices choices = { .random = 1 + (uint64_t)strlen(test->args) };
	const char *more = getenv("HOSTILE_CALLS"); /* for long runs */
	for (size_t i = 0, n_near = more ? strtoul(more, NULL, 10) : N_NEAR; i < n_near; i++)
		hostile_call_near(kernel, list, &choices);
	if (!is_refused)
		hostile_call_types(kernel, list);
	if (!is_refused)
		expect_stop(kernel, list);
	for (size_t i = 0; i < p.n_memory; i++)
		free(p.memory[i]);
	for (size_t i = 0; i < expected.n_memory; i++)
		free(expected.memory[i]);
	for (size_t i = 0; i < spare.n_memory; i++)
		free(spare.memory[i]);
}

void check_kernel_cases(const struct kernel_case *cases, size_t n)
{
	const struct et_allocator allocator = { NULL, heap_alloc, heap_free };
	for (size_t i = 0; i < n; i++) {
		struct et_pool pool, scratch;
		et_pool_init(&pool, &allocator);
		et_pool_init(&scratch, &allocator);
		check_case(&cases[i], &pool, &scratch);
		et_pool_deinit(&scratch);
		et_pool_deinit(&pool);
	}
}
