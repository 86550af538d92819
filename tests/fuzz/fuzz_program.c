/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is opened as a program and as a bundle. If it opens, all of it is walked, and the walk
 * aborts if the reader broke a promise. No memory may leak, also if an allocation fails half-way. */
#include "runtime/program/flatbuffer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/walk_program.h"

#include <stdlib.h>
#include <string.h>

/* Answers for every tensor that is small, so that what comes behind an external tensor is reached. */
static enum et_status find(void *self, const char *name, const struct et_tensor_spec *expected,
	const uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag)
{
	static const uint8_t bytes[256];
	(void)self;
	if (name[0] == '!' || (expected && expected->n_bytes > sizeof bytes))
		return et_fail(diag, ET_E_NOT_FOUND, "there is no '%s'", name);
	*ret_bytes = bytes;
	*ret_n_bytes = sizeof bytes;
	return ET_OK;
}

static uint64_t try_program(const uint8_t *bytes, size_t n_bytes, size_t fail_at, bool has_external)
{
	static const struct et_external_data external = { .find = find };
	struct counting_alloc counting = { .fail_at = fail_at };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	struct et_program *program = NULL;
	struct et_diag diag = { 0 };
	uint64_t sum = 0;
	enum et_status status = et_program_open(&program, &source, has_external ? &external : NULL, &allocator, &diag);
	if (status == ET_OK) {
		sum = walk_program(program);
		et_program_unref(et_program_ref(program));
		et_program_unref(program);
	} else if (!diag.text[0] || program) {
		abort();
	}
	if (counting.n_live)
		abort();
	return sum;
}

static uint64_t try_bundle(const uint8_t *bytes, size_t n_bytes, size_t fail_at)
{
	struct counting_alloc counting = { .fail_at = fail_at };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool pool;
	et_pool_init(&pool, &allocator);
	struct et_bundle bundle;
	struct et_diag diag = { 0 };
	uint64_t sum = 0;
	if (et_bundle_open(&bundle, bytes, n_bytes, &pool, &diag) == ET_OK)
		sum = walk_bundle(&bundle);
	else if (!diag.text[0])
		abort();
	et_pool_deinit(&pool);
	if (counting.n_live)
		abort();
	return sum;
}

/* The first fields of the root, each read as everything there is: a reader asked for what is not there must
 * stay inside too. A failure sticks, so each question has a reader of its own. */
static uint64_t try_fields(const uint8_t *bytes, size_t n_bytes)
{
	enum { N_FIELDS = 8, N_WAYS = 10 };
	uint64_t sum = 0;
	for (uint32_t i = 0; i < N_FIELDS * N_WAYS; i++) {
		struct et_fb fb;
		struct et_fb_table root = et_fb_open(&fb, bytes, n_bytes, NULL, NULL);
		uint32_t field = i / N_WAYS;
		struct et_fb_vector vector;
		switch (i % N_WAYS) {
		case 0:
			sum += et_fb_has(&fb, root, field) + et_fb_u16(&fb, root, field, 1);
			break;
		case 1:
			sum += et_fb_f32(&fb, root, field) > 0;
			break;
		case 2:
			sum += et_fb_f64(&fb, root, field) > 0;
			break;
		case 3:
			sum += et_fb_u64(&fb, et_fb_table(&fb, root, field), 0, 1);
			break;
		case 4:
			sum += et_fb_string(&fb, root, field).n;
			break;
		case 5:
			vector = et_fb_vector(&fb, root, field, 4);
			for (uint32_t j = 0; j < vector.n && et_fb_status(&fb) == ET_OK; j++)
				sum += et_fb_u32_at(&fb, vector, j);
			break;
		case 6:
			vector = et_fb_vector(&fb, root, field, 4);
			for (uint32_t j = 0; j < vector.n && et_fb_status(&fb) == ET_OK; j++)
				sum += et_fb_u8(&fb, et_fb_table_at(&fb, vector, j), j % 8, 1);
			break;
		case 7:
			vector = et_fb_vector(&fb, root, field, 4);
			sum += et_fb_f32_at(&fb, vector, 0) > 0;
			break;
		case 8:
			vector = et_fb_vector(&fb, root, field, 8);
			sum += et_fb_f64_at(&fb, vector, vector.n - 1) > 0;
			break;
		case 9:
			vector = et_fb_blob(&fb, root, field);
			sum += et_fb_u8_at(&fb, vector, vector.n / 2);
			break;
		}
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static volatile uint64_t sink;
	size_t fail_at = n_bytes ? 1 + bytes[n_bytes - 1] % 8 : 1;
	sink += try_fields(bytes, n_bytes);
	sink += try_program(bytes, n_bytes, 0, true);
	sink += try_program(bytes, n_bytes, 0, false);
	sink += try_program(bytes, n_bytes, fail_at, true);
	if (et_bundle_is(bytes, n_bytes)) {
		sink += try_bundle(bytes, n_bytes, 0);
		sink += try_bundle(bytes, n_bytes, fail_at);
	}
	return 0;
}
