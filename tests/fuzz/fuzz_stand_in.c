/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is what a process that runs clients' programs, and may be in an attacker's hands, describes a
 * program with. If it opens and passes for a stand-in, it must have the form that the daemon relies on. */
#include "delegates/program/stand_in.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/walk_program.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
	if (!holds)
		abort();
}

static uint64_t use(const struct et_program *program)
{
	uint64_t sum = walk_program(program);
	for (uint32_t i = 0; i < et_program_n_methods(program); i++) {
		const struct et_method_spec *method = et_program_method_at(program, i);
		struct et_stand_in_info info;
		uint64_t n_initial;
		memset(&info, 0xff, sizeof info);
		et_stand_in_info(method, &info);
		require(memchr(info.label, 0, sizeof info.label) && info.label[0]);
		require(memchr(info.refused.text, 0, sizeof info.refused.text));
		require((unsigned)info.status <= 0xff);
		require(method->n_instructions == 1 && method->n_delegates == 1 && !method->n_operators);
		require(method->instructions[0].n_args <= ET_STAND_IN_MAX_ARGS);
		require(!et_program_shared_bytes(program, method, &n_initial));
		for (uint32_t v = 0; v < method->n_values; v++)
			require(method->values[v].tag != ET_TAG_TENSOR ||
				method->values[v].tensor->storage == ET_STORAGE_NONE);
		sum += strlen(info.label);
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static volatile uint64_t sink;
	struct counting_alloc counting = { .n_live = 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	const struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	struct et_program *program = NULL;
	struct et_diag diag = { "" };
	if (et_program_open(&program, &source, NULL, &allocator, &diag) == ET_OK) {
		if (et_stand_in_check(program))
			sink += use(program);
		et_program_unref(program);
	}
	require(!counting.n_live);
	return 0;
}
