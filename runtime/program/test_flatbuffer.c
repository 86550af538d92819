/* SPDX-License-Identifier: BSD-3-Clause */
/* The FlatBuffers reader, with buffers from the tests' builder and with broken ones. */
#include "runtime/program/flatbuffer.h"
#include "tests/support/fb_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
	FIELD_U8,
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_F32,
	FIELD_F64,
	FIELD_TABLE,
	FIELD_STRING,
	FIELD_INTS,
	FIELD_TABLES,
	FIELD_BYTES,
	FIELD_ABSENT,
	N_FIELDS
};

struct built {
	uint8_t *bytes; /* exactly n_bytes on the heap, so that the sanitizer sees a read beyond */
	size_t n_bytes;
	size_t root_at, string_at, tables_at, ints_at;
};

static void build(struct built *ret)
{
	struct fb_build b;
	fbb_init(&b);
	fbb_ref string = fbb_string(&b, "hello");
	const int32_t ints[] = { 1, -2, 3 };
	fbb_ref int_vector = fbb_vector(&b, ints, 3, 4, 4);
	fbb_table_begin(&b);
	fbb_add_u32(&b, 0, 77);
	fbb_ref child = fbb_table_end(&b);
	fbb_ref children[] = { child, child };
	fbb_ref tables = fbb_refs(&b, children, 2);
	fbb_ref bytes = fbb_bytes(&b, "\x01\x02", 2);
	fbb_table_begin(&b);
	fbb_add_u8(&b, FIELD_U8, 200);
	fbb_add_u16(&b, FIELD_U16, 60000);
	fbb_add_u32(&b, FIELD_U32, 4000000000u);
	fbb_add_u64(&b, FIELD_U64, UINT64_MAX - 1);
	fbb_add_f32(&b, FIELD_F32, 1.5f);
	fbb_add_f64(&b, FIELD_F64, -2.25);
	fbb_add_ref(&b, FIELD_TABLE, child);
	fbb_add_ref(&b, FIELD_STRING, string);
	fbb_add_ref(&b, FIELD_INTS, int_vector);
	fbb_add_ref(&b, FIELD_TABLES, tables);
	fbb_add_ref(&b, FIELD_BYTES, bytes);
	fbb_ref root = fbb_table_end(&b);
	fbb_finish(&b, root, "TEST", 0);
	uint8_t *data = fbb_data(&b, &ret->n_bytes);
	ret->bytes = malloc(ret->n_bytes);
	assert_non_null(ret->bytes);
	memcpy(ret->bytes, data, ret->n_bytes);
	ret->root_at = fbb_at(&b, root);
	ret->string_at = fbb_at(&b, string);
	ret->tables_at = fbb_at(&b, tables);
	ret->ints_at = fbb_at(&b, int_vector);
	fbb_deinit(&b);
}

/* Read every field. The results matter only if nothing is broken. */
static uint64_t read_all(struct et_fb *fb, struct et_fb_table root)
{
	uint64_t sum = 0;
	sum += et_fb_u8(fb, root, FIELD_U8, 0);
	sum += et_fb_u16(fb, root, FIELD_U16, 0);
	sum += et_fb_u32(fb, root, FIELD_U32, 0);
	sum += et_fb_u64(fb, root, FIELD_U64, 0);
	sum += et_fb_f32(fb, root, FIELD_F32) > 0;
	sum += et_fb_f64(fb, root, FIELD_F64) > 0;
	sum += et_fb_u32(fb, et_fb_table(fb, root, FIELD_TABLE), 0, 0);
	struct et_fb_string string = et_fb_string(fb, root, FIELD_STRING);
	for (uint32_t i = 0; i < string.n; i++)
		sum += (uint8_t)string.chars[i];
	struct et_fb_vector ints = et_fb_vector(fb, root, FIELD_INTS, 4);
	for (uint32_t i = 0; i < ints.n; i++)
		sum += et_fb_u32_at(fb, ints, i);
	struct et_fb_vector tables = et_fb_vector(fb, root, FIELD_TABLES, 4);
	for (uint32_t i = 0; i < tables.n; i++)
		sum += et_fb_u32(fb, et_fb_table_at(fb, tables, i), 0, 0);
	struct et_fb_vector bytes = et_fb_blob(fb, root, FIELD_BYTES);
	for (uint32_t i = 0; i < bytes.n; i++)
		sum += et_fb_u8_at(fb, bytes, i);
	return sum;
}

static void test_reads(void **state)
{
	(void)state;
	struct built built;
	build(&built);
	struct et_diag diag = { 0 };
	struct et_fb fb;
	struct et_fb_table root = et_fb_open(&fb, built.bytes, built.n_bytes, "TEST", &diag);
	assert_false(et_fb_is_absent(root));
	assert_int_equal(et_fb_u8(&fb, root, FIELD_U8, 0), 200);
	assert_int_equal(et_fb_i8(&fb, root, FIELD_U8, 0), 200 - 256);
	assert_true(et_fb_bool(&fb, root, FIELD_U8, false));
	assert_int_equal(et_fb_u16(&fb, root, FIELD_U16, 0), 60000);
	assert_int_equal(et_fb_u32(&fb, root, FIELD_U32, 0), 4000000000u);
	assert_true(et_fb_i32(&fb, root, FIELD_U32, 0) == (int32_t)4000000000u);
	assert_true(et_fb_u64(&fb, root, FIELD_U64, 0) == UINT64_MAX - 1);
	assert_true(et_fb_i64(&fb, root, FIELD_U64, 0) == -2);
	assert_true(et_fb_f32(&fb, root, FIELD_F32) == 1.5f);
	assert_true(et_fb_f64(&fb, root, FIELD_F64) == -2.25);
	assert_int_equal(et_fb_u32(&fb, et_fb_table(&fb, root, FIELD_TABLE), 0, 0), 77);
	struct et_fb_string string = et_fb_string(&fb, root, FIELD_STRING);
	assert_string_equal(string.chars, "hello");
	assert_int_equal(string.n, 5);
	struct et_fb_vector ints = et_fb_vector(&fb, root, FIELD_INTS, 4);
	assert_int_equal(ints.n, 3);
	assert_int_equal(et_fb_i32_at(&fb, ints, 1), -2);
	uint32_t all[3];
	et_fb_u32s(&fb, ints, all);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(all[i], et_fb_u32_at(&fb, ints, i));
	et_fb_u32s(&fb, (struct et_fb_vector){ 0 }, NULL); /* an absent vector has no items */
	struct et_fb_vector tables = et_fb_vector(&fb, root, FIELD_TABLES, 4);
	assert_int_equal(et_fb_u32(&fb, et_fb_table_at(&fb, tables, 1), 0, 0), 77);
	assert_int_equal(et_fb_u8_at(&fb, et_fb_blob(&fb, root, FIELD_BYTES), 1), 2);
	assert_int_equal(et_fb_status(&fb), ET_OK);
	assert_string_equal(diag.text, "");
	free(built.bytes);
}

static void test_absent_fields_give_the_default(void **state)
{
	(void)state;
	struct built built;
	build(&built);
	struct et_fb fb;
	struct et_fb_table root = et_fb_open(&fb, built.bytes, built.n_bytes, NULL, NULL);
	for (uint32_t field = FIELD_ABSENT; field < 40000; field += 997) {
		assert_false(et_fb_has(&fb, root, field));
		assert_int_equal(et_fb_u8(&fb, root, field, 9), 9);
		assert_int_equal(et_fb_u64(&fb, root, field, 10), 10);
		assert_true(et_fb_is_absent(et_fb_table(&fb, root, field)));
		assert_null(et_fb_vector(&fb, root, field, 4).items);
		assert_null(et_fb_string(&fb, root, field).chars);
	}
	assert_true(et_fb_has(&fb, root, FIELD_U8));
	/* every field of an absent table is absent */
	struct et_fb_table absent = et_fb_table(&fb, root, FIELD_ABSENT);
	assert_int_equal(et_fb_u32(&fb, absent, 0, 5), 5);
	assert_int_equal(et_fb_vector(&fb, absent, 0, 4).n, 0);
	assert_int_equal(et_fb_status(&fb), ET_OK);
	free(built.bytes);
}

static void expect_failure(struct built *built, const char *sentence)
{
	struct et_diag diag = { 0 };
	struct et_fb fb;
	struct et_fb_table root = et_fb_open(&fb, built->bytes, built->n_bytes, "TEST", &diag);
	read_all(&fb, root);
	assert_int_equal(et_fb_status(&fb), ET_E_INVALID_PROGRAM);
	if (!strstr(diag.text, sentence))
		fail_msg("'%s' does not contain '%s'", diag.text, sentence);
	/* the failure sticks: every field is absent now */
	assert_int_equal(et_fb_u8(&fb, root, FIELD_U8, 3), 3);
	assert_true(et_fb_is_absent(et_fb_table(&fb, root, FIELD_TABLE)));
	assert_int_equal(et_fb_vector(&fb, root, FIELD_INTS, 4).n, 0);
}

static void put_u32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static void expect_failure_with(size_t at, uint32_t value, const char *sentence)
{
	struct built built;
	build(&built);
	assert_true(at + 4 <= built.n_bytes);
	put_u32(built.bytes + at, value);
	expect_failure(&built, sentence);
	free(built.bytes);
}

static void test_broken_structure_is_refused(void **state)
{
	(void)state;
	struct built b;
	build(&b);
	expect_failure_with(0, 0x7fffffff, "a table lies beyond the end");
	expect_failure_with(0, 0, "the root table would lie at byte 0");
	expect_failure_with(4, 0x20202020,
		"the identifier is '....', not 'TEST': another kind of file, or another version of it");
	expect_failure_with(b.root_at, 0x40000000, "a vtable lies outside");
	expect_failure_with(b.root_at, 0xc0000000, "a vtable lies outside");
	expect_failure_with(b.string_at, 0xffffffff, "a vector of 4294967295 items");
	expect_failure_with(b.string_at, 4, "a string does not end");
	expect_failure_with(b.ints_at, 0x40000000, "a vector of 1073741824 items");
	expect_failure_with(b.tables_at + 4, 0x7ffffff0, "an offset leads beyond the end");
	expect_failure_with(b.tables_at + 8, 0, "an offset of zero");
	/* the vtable of the root: its length, the table's length, a field's offset */
	size_t vtable = b.root_at - et_load_u32(b.bytes + b.root_at);
	uint16_t n_table = et_load_u16(b.bytes + vtable + 2);
	expect_failure_with(vtable, (uint32_t)n_table << 16 | 3, "a vtable has a bad length");
	expect_failure_with(vtable, (uint32_t)n_table << 16 | 0xfffe, "a vtable has a bad length");
	expect_failure_with(vtable, 0xffff0000u | et_load_u16(b.bytes + vtable), "a table has a bad length");
	expect_failure_with(vtable + 4, 0x00020002, "field 0 of the table");
	expect_failure_with(vtable + 4, 0xffffffff, "field 0 of the table");
	free(b.bytes);
}

/* The FlatBuffers package for Python lets tables of different lengths share a vtable, so the length in it may be too
 * small. */
static void test_vtable_of_a_shorter_table(void **state)
{
	(void)state;
	struct built b;
	build(&b);
	size_t vtable = b.root_at - et_load_u32(b.bytes + b.root_at);
	b.bytes[vtable + 2] = 4;
	b.bytes[vtable + 3] = 0;
	struct et_diag diag = { 0 };
	struct et_fb fb;
	struct et_fb_table root = et_fb_open(&fb, b.bytes, b.n_bytes, "TEST", &diag);
	read_all(&fb, root);
	assert_int_equal(et_fb_status(&fb), ET_OK);
	assert_true(et_fb_has(&fb, root, FIELD_U8));
	free(b.bytes);
}

static void test_size_and_identifier(void **state)
{
	(void)state;
	struct et_fb fb;
	struct et_diag diag = { 0 };
	const uint8_t few[7] = { 4 };
	assert_true(et_fb_is_absent(et_fb_open(&fb, few, sizeof few, NULL, &diag)));
	assert_string_equal(diag.text,
		"7 bytes are too few for a FlatBuffer: another kind of file, or one that was cut off");
	diag = (struct et_diag){ 0 };
	const uint8_t pte[8] = { 4, 0, 0, 0, 'E', 'T', '1', '1' };
	et_fb_open(&fb, pte, sizeof pte, "ET12", &diag);
	assert_string_equal(diag.text,
		"the identifier is 'ET11', not 'ET12': another kind of file, or another version of it");
	assert_true(et_fb_has_identifier(pte, sizeof pte, "ET11"));
	assert_false(et_fb_has_identifier(pte, 7, "ET11"));
}

static void test_misuse_is_a_failure(void **state)
{
	(void)state;
	struct built built;
	build(&built);
	struct et_fb fb;
	struct et_fb_table root = et_fb_open(&fb, built.bytes, built.n_bytes, NULL, NULL);
	struct et_fb_vector ints = et_fb_vector(&fb, root, FIELD_INTS, 4);
	assert_int_equal(et_fb_u32_at(&fb, ints, 3), 0);
	assert_int_equal(et_fb_status(&fb), ET_E_INVALID_PROGRAM);
	root = et_fb_open(&fb, built.bytes, built.n_bytes, NULL, NULL);
	ints = et_fb_vector(&fb, root, FIELD_INTS, 4);
	assert_true(et_fb_u64_at(&fb, ints, 0) == 0);
	assert_int_equal(et_fb_status(&fb), ET_E_INVALID_PROGRAM);
	uint32_t as_it_was = 7;
	et_fb_u32s(&fb, ints, &as_it_was); /* the reader has failed: it writes no items; they would be too many here */
	assert_int_equal(as_it_was, 7);
	root = et_fb_open(&fb, built.bytes, built.n_bytes, NULL, NULL);
	et_fb_u32s(&fb, et_fb_vector(&fb, root, FIELD_INTS, 1), &as_it_was);
	assert_int_equal(et_fb_status(&fb), ET_E_INVALID_PROGRAM);
	assert_int_equal(as_it_was, 7);
	free(built.bytes);
}

static void test_the_sentence_says_where(void **state)
{
	(void)state;
	struct built built;
	build(&built);
	struct et_fb fb;
	struct et_diag diag = { 0 };
	et_fb_open(&fb, built.bytes, built.n_bytes, NULL, &diag);
	et_fb_within(&fb, "forward");
	et_fb_where(&fb, "value", 12);
	assert_int_equal(et_fb_fail(&fb, ET_E_NOT_SUPPORTED, "no %s", "good"), ET_E_NOT_SUPPORTED);
	assert_string_equal(diag.text, "forward: value 12: no good");
	/* the first failure sticks */
	assert_int_equal(et_fb_fail(&fb, ET_E_INTERNAL, "later"), ET_E_NOT_SUPPORTED);
	assert_string_equal(diag.text, "forward: value 12: no good");
	free(built.bytes);
}

/* Twelve levels of vectors, each with 1,000 references to the next: a walk would visit 1000^12 tables. */
static uint64_t walk(struct et_fb *fb, struct et_fb_table table)
{
	uint64_t n = 1;
	struct et_fb_vector vector = et_fb_vector(fb, table, 0, 4);
	for (uint32_t i = 0; i < vector.n && et_fb_status(fb) == ET_OK; i++)
		n += walk(fb, et_fb_table_at(fb, vector, i));
	return n;
}

static void test_sharing_cannot_multiply_the_work(void **state)
{
	(void)state;
	struct fb_build b;
	fbb_init(&b);
	fbb_table_begin(&b);
	fbb_ref table = fbb_table_end(&b);
	for (int level = 0; level < 12; level++) {
		fbb_ref refs[1000];
		for (size_t i = 0; i < 1000; i++)
			refs[i] = table;
		fbb_ref vector = fbb_refs(&b, refs, 1000);
		fbb_table_begin(&b);
		fbb_add_ref(&b, 0, vector);
		table = fbb_table_end(&b);
	}
	fbb_finish(&b, table, "TEST", 0);
	size_t n_bytes;
	const uint8_t *bytes = fbb_data(&b, &n_bytes);
	struct et_fb fb;
	struct et_diag diag = { 0 };
	uint64_t n = walk(&fb, et_fb_open(&fb, bytes, n_bytes, "TEST", &diag));
	assert_int_equal(et_fb_status(&fb), ET_E_INVALID_PROGRAM);
	assert_non_null(strstr(diag.text, "over and over"));
	assert_true(n < 2 * n_bytes);
	fbb_deinit(&b);
}

static void test_truncation_and_flips_stay_inside(void **state)
{
	(void)state;
	struct built built;
	build(&built);
	uint64_t sink = 0;
	for (size_t n = 0; n < built.n_bytes; n++) {
		uint8_t *copy = malloc(n ? n : 1);
		assert_non_null(copy);
		memcpy(copy, built.bytes, n);
		struct et_fb fb;
		struct et_fb_table root = et_fb_open(&fb, copy, n, NULL, NULL);
		sink += read_all(&fb, root);
		free(copy);
	}
	for (size_t at = 0; at < built.n_bytes; at++) {
		uint8_t was = built.bytes[at];
		for (int flip = 1; flip < 256; flip++) {
			built.bytes[at] = (uint8_t)(was ^ flip);
			struct et_fb fb;
			struct et_fb_table root = et_fb_open(&fb, built.bytes, built.n_bytes, NULL, NULL);
			sink += read_all(&fb, root);
		}
		built.bytes[at] = was;
	}
	struct et_fb fb;
	struct et_fb_table root = et_fb_open(&fb, built.bytes, built.n_bytes, NULL, NULL);
	assert_true(sink != read_all(&fb, root));
	assert_int_equal(et_fb_status(&fb), ET_OK);
	free(built.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_absent_fields_give_the_default),
		cmocka_unit_test(test_broken_structure_is_refused),
		cmocka_unit_test(test_vtable_of_a_shorter_table),
		cmocka_unit_test(test_size_and_identifier),
		cmocka_unit_test(test_misuse_is_a_failure),
		cmocka_unit_test(test_the_sentence_says_where),
		cmocka_unit_test(test_sharing_cannot_multiply_the_work),
		cmocka_unit_test(test_truncation_and_flips_stay_inside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
