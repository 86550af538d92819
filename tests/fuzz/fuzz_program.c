/* Any bytes, opened as a program and as a bundle. What opens is walked whole, and the walk aborts where the
 * reader broke a promise; memory must be back afterwards, also where it runs out half-way. */
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
	enum et_status status =
		et_program_open(&program, &source, has_external ? &external : NULL, &allocator, &diag);
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static volatile uint64_t sink;
	size_t fail_at = n_bytes ? 1 + bytes[n_bytes - 1] % 8 : 1;
	sink += try_program(bytes, n_bytes, 0, true);
	sink += try_program(bytes, n_bytes, 0, false);
	sink += try_program(bytes, n_bytes, fail_at, true);
	if (et_bundle_is(bytes, n_bytes)) {
		sink += try_bundle(bytes, n_bytes, 0);
		sink += try_bundle(bytes, n_bytes, fail_at);
	}
	return 0;
}
