/* SPDX-License-Identifier: BSD-3-Clause */
/* Bundled programs: the test cases.
 *
 * What must always be true: a tensor's data is exactly as long as its type and sizes say, so code that feeds it or
 * compares with it has nothing to check.
 *
 * Whether the inputs fit the method is not checked here; running the case finds out. */
#include "runtime/program/bundle.h"
#include "runtime/program/flatbuffer.h"
#include "runtime/program/layout.h"

#include <string.h>

enum {
	BUNDLE_SUITES = 1,
	SUITE_METHOD = 0,
	SUITE_CASES,
	CASE_INPUTS = 0,
	CASE_OUTPUTS,
	VALUE_TYPE = 0, /* a union has two fields */
	VALUE_VALUE,
	TENSOR_TYPE = 0,
	TENSOR_SIZES,
	TENSOR_DATA,
	TENSOR_DIM_ORDER,
	SCALAR_ITSELF = 0,
	/* numbers of the union ValueUnion */
	UNION_NONE = 0,
	UNION_TENSOR,
	UNION_INT,
	UNION_BOOL,
	UNION_DOUBLE,
};

struct reader {
	struct et_fb fb;
	struct et_pool *pool;
};

#define READER_NEW_ARRAY(reader, type, n) ET_FB_NEW_ARRAY(&(reader)->fb, (reader)->pool, type, n)

static void read_tensor(struct reader *reader, struct et_fb_table table, struct et_bundle_value *value)
{
	static const struct et_layout_fields fields = { TENSOR_TYPE, TENSOR_SIZES, TENSOR_DIM_ORDER };
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector data = et_fb_blob(fb, table, TENSOR_DATA);
	struct et_layout layout;
	if (!et_layout_read(fb, table, &fields, ET_E_INVALID_PROGRAM, reader->pool, &layout))
		return;
	if (data.n != layout.n_bytes) {
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "%u bytes of data for a tensor of %zu bytes", data.n,
			layout.n_bytes);
		return;
	}
	value->tag = ET_TAG_TENSOR;
	value->tensor.type = layout.type;
	value->tensor.n_dims = layout.n_dims;
	value->tensor.sizes = layout.sizes;
	value->tensor.dim_order = layout.dim_order;
	value->tensor.data = data.items ? data.items : fb->bytes;
	value->tensor.n_bytes = layout.n_bytes;
}

static void read_value(struct reader *reader, struct et_fb_table table, struct et_bundle_value *value)
{
	struct et_fb *fb = &reader->fb;
	uint8_t type = et_fb_u8(fb, table, VALUE_TYPE, UNION_NONE);
	struct et_fb_table body = et_fb_table(fb, table, VALUE_VALUE);
	if (type == UNION_NONE || et_fb_is_absent(body)) {
		value->tag = ET_TAG_NONE;
		return;
	}
	switch (type) {
	case UNION_TENSOR:
		read_tensor(reader, body, value);
		return;
	case UNION_INT:
		value->tag = ET_TAG_INT;
		value->i = et_fb_i64(fb, body, SCALAR_ITSELF, 0);
		return;
	case UNION_BOOL:
		value->tag = ET_TAG_BOOL;
		value->b = et_fb_bool(fb, body, SCALAR_ITSELF, false);
		return;
	case UNION_DOUBLE:
		value->tag = ET_TAG_DOUBLE;
		value->d = et_fb_f64(fb, body, SCALAR_ITSELF);
		return;
	default:
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "unknown value type %u", type);
	}
}

static const struct et_bundle_value *read_values(struct reader *reader, struct et_fb_table table, uint32_t field,
	const char *what, uint32_t *ret_n)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_vector vector = et_fb_vector(fb, table, field, 4);
	struct et_bundle_value *values = READER_NEW_ARRAY(reader, struct et_bundle_value, vector.n);
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, what, i);
		read_value(reader, et_fb_table_at(fb, vector, i), &values[i]);
	}
	*ret_n = vector.n;
	return values;
}

static void read_suite(struct reader *reader, struct et_fb_table table, struct et_bundle_suite *suite)
{
	struct et_fb *fb = &reader->fb;
	struct et_fb_string method = et_fb_string(fb, table, SUITE_METHOD);
	struct et_fb_vector vector = et_fb_vector(fb, table, SUITE_CASES, 4);
	if (!method.chars)
		et_fb_fail(fb, ET_E_INVALID_PROGRAM, "it does not name its method");
	char *name = READER_NEW_ARRAY(reader, char, (size_t)method.n + 1);
	struct et_bundle_case *cases = READER_NEW_ARRAY(reader, struct et_bundle_case, vector.n);
	if (!name || !cases)
		return;
	memcpy(name, method.chars, method.n);
	et_fb_within(fb, name);
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "case", i);
		struct et_fb_table item = et_fb_table_at(fb, vector, i);
		cases[i].inputs = read_values(reader, item, CASE_INPUTS, "bundled input", &cases[i].n_inputs);
		cases[i].outputs = read_values(reader, item, CASE_OUTPUTS, "expected output", &cases[i].n_outputs);
	}
	et_fb_within(fb, NULL);
	suite->method = name;
	suite->cases = cases;
	suite->n_cases = vector.n;
}

enum et_status et_bundle_open(struct et_bundle *ret_bundle, const uint8_t *bytes, size_t n_bytes, struct et_pool *pool,
	struct et_diag *diag)
{
	struct reader reader = { .pool = pool };
	struct et_fb *fb = &reader.fb;
	struct et_bundle bundle;
	enum et_status status = et_bundle_find_program(&bundle.program, &bundle.n_program_bytes, bytes, n_bytes, diag);
	if (status)
		return status;
	struct et_fb_table root = et_fb_open(fb, bytes, n_bytes, ET_BUNDLE_IDENTIFIER, diag);
	struct et_fb_vector vector = et_fb_vector(fb, root, BUNDLE_SUITES, 4);
	struct et_bundle_suite *suites = READER_NEW_ARRAY(&reader, struct et_bundle_suite, vector.n);
	for (uint32_t i = 0; i < vector.n && fb->status == ET_OK; i++) {
		et_fb_where(fb, "test suite", i);
		read_suite(&reader, et_fb_table_at(fb, vector, i), &suites[i]);
	}
	if (et_fb_status(fb) != ET_OK)
		return et_fb_status(fb);
	bundle.suites = suites;
	bundle.n_suites = vector.n;
	*ret_bundle = bundle;
	return ET_OK;
}
