/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of the tests: committed files, and programs that are made here, written into the daemon's repository. */
#include "tests/e2e/harness.h"

#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void e2e_put(struct e2e *e, const char *name, const void *bytes, size_t n_bytes)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", e->models, name);
	for (char *at = path + strlen(e->models) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0755);
		*at = '/';
	}
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
	assert_int_equal(fclose(file), 0);
}

void e2e_put_program(struct e2e *e, const char *name, uint8_t *(*make)(size_t *ret_n_bytes))
{
	size_t n_bytes;
	uint8_t *bytes = make(&n_bytes);
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
}

void *e2e_read(const char *path, size_t *ret_n_bytes)
{
	FILE *file = fopen(path, "re");
	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	size_t n = (size_t)ftell(file);
	rewind(file);
	char *bytes = calloc(1, n + 16);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, n, file), n);
	fclose(file);
	*ret_n_bytes = n;
	return bytes;
}

bool e2e_put_file(struct e2e *e, const char *name, const char *path)
{
	size_t n_bytes;
	void *bytes = e2e_read(path, &n_bytes);
	if (!bytes)
		return false;
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
	return true;
}

static int four_floats(struct make_program *mk, uint32_t arena, uint64_t place)
{
	return mk_tensor(mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 * place });
}

/* y = x + @alpha x; @is_endless: and from the beginning. */
static uint8_t *make_added(size_t *ret_n_bytes, int alpha, const char *op_name, bool is_endless)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = four_floats(&mk, arena, 0), y = four_floats(&mk, arena, 1);
	mk_kernel(&mk, mk_operator(&mk, op_name, "out"), MK_ARGS(x, x, mk_int(&mk, alpha), y, y));
	if (is_endless)
		mk_jump_false(&mk, mk_bool(&mk, false), 0);
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_double(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 1, "aten::add", false);
}

uint8_t *e2e_program_triple(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 2, "aten::add", false);
}

uint8_t *e2e_program_hoarder(size_t *ret_n_bytes)
{
	enum { N = 4 << 20 };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 4 * N + 64);
	int s = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N), .arena = arena });
	int four[3]; /* x, some of s, y */
	for (uint64_t i = 0; i < 3; i++)
		four[i] = mk_tensor(&mk,
			&(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 4 * N + 16 * i });
	int zero = mk_int(&mk, 0), one = mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "aten::slice_copy", "Tensor_out"),
		MK_ARGS(s, zero, zero, mk_int(&mk, 4), one, four[1], four[1]));
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(four[0], four[1], one, four[2], four[2]));
	mk_input(&mk, four[0]);
	mk_output(&mk, four[2]);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_forever(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 1, "aten::add", true);
}

uint8_t *e2e_program_moody(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int go = mk_tensor(&mk, &(struct mk_tensor){ .type = ET_BOOL, MK_SIZES(1), .arena = arena, .offset = 16 });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 32 });
	int one = mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, one, y, y));
	mk_jump_false(&mk, go, 0);
	mk_input(&mk, x);
	mk_input(&mk, go);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_unknown(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 1, "nobodys::operator", false);
}

/* s = s + x, y = s; @is_endless: and from the beginning. */
static uint8_t *make_accumulated(size_t *ret_n_bytes, bool is_endless)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = four_floats(&mk, arena, 0), s = four_floats(&mk, arena, 1), y = four_floats(&mk, arena, 2);
	int one = mk_int(&mk, 1), no = mk_bool(&mk, false);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(s, x, one, y, y));
	mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(s, y, no, s));
	if (is_endless)
		mk_jump_false(&mk, no, 0);
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_accumulate(size_t *ret_n_bytes)
{
	return make_accumulated(ret_n_bytes, false);
}

uint8_t *e2e_program_forever_stateful(size_t *ret_n_bytes)
{
	return make_accumulated(ret_n_bytes, true);
}

uint8_t *e2e_program_large(size_t *ret_n_bytes)
{
	struct make_program mk;
	enum { N = E2E_LARGE / sizeof(float) };
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, E2E_LARGE + 80);
	int large = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N), .arena = arena });
	int four[5]; /* x, s, ones, a sum, y */
	for (uint64_t i = 0; i < 5; i++)
		four[i] = four_floats(&mk, arena, E2E_LARGE / 16 + i);
	int zero = mk_int(&mk, 0), one = mk_int(&mk, 1), n = mk_int(&mk, N), no = mk_bool(&mk, false);
	int size = mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(n)), add = mk_operator(&mk, "aten::add", "out");
	mk_kernel(&mk, mk_operator(&mk, "aten::full", "out"), MK_ARGS(size, one, large, large));
	mk_kernel(&mk, mk_operator(&mk, "aten::slice_copy", "Tensor_out"),
		MK_ARGS(large, zero, zero, mk_int(&mk, 4), one, four[2], four[2]));
	mk_kernel(&mk, add, MK_ARGS(four[1], four[0], one, four[3], four[3]));
	mk_kernel(&mk, add, MK_ARGS(four[3], four[2], one, four[4], four[4]));
	mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(four[1], four[4], no, four[1]));
	mk_input(&mk, four[0]);
	mk_output(&mk, four[4]);
	return mk_finish(&mk, ret_n_bytes);
}

/* One payload of @backend's, from x to y. */
static uint8_t *make_delegated(size_t *ret_n_bytes, const char *backend, const char *payload)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int delegate = mk_delegate(&mk, backend, payload, strlen(payload), false, NULL, NULL);
	mk_call(&mk, delegate, MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_foreign(size_t *ret_n_bytes)
{
	return make_delegated(ret_n_bytes, "NobodysBackend", "x");
}

uint8_t *e2e_program_word(const char *word, size_t *ret_n_bytes)
{
	return make_delegated(ret_n_bytes, "TestBackend", word);
}

void e2e_put_word_as(struct e2e *e, const char *word, const char *name)
{
	size_t n_bytes;
	uint8_t *bytes = e2e_program_word(word, &n_bytes);
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
}

void e2e_put_word(struct e2e *e, const char *word)
{
	char name[64];
	snprintf(name, sizeof name, "%s.pte", word);
	e2e_put_word_as(e, word, name);
}
