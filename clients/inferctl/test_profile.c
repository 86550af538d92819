/* SPDX-License-Identifier: BSD-3-Clause */
/* Test profile: a malformed ETDump is refused with a message, and nothing outside of it is read. */
#include "clients/inferctl/profile.h"

#include "runtime/platform/platform.h"
#include "runtime/profile/etdump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t now_ns(void *self)
{
	return *(uint64_t *)self += 1500;
}

/* One kernel's call and a part of it. The caller frees it. */
static uint8_t *make_dump(size_t *ret_n_bytes)
{
	static const char *const operators[] = { "aten::add.out" };
	static const struct et_instruction_spec instruction = { .op = ET_OP_KERNEL };
	const struct et_method_spec method = {
		.instructions = &instruction, .n_instructions = 1, .operators = operators, .n_operators = 1
	};
	uint64_t clock = 1000000;
	const struct et_profile_options options = {
		.allocator = et_platform_allocator(), .now_ns = now_ns, .clock = &clock, .max_events = 10
	};
	struct et_profile *profile = et_profile_new(&options);
	const struct et_trace *trace = et_profile_trace(profile);
	const uint8_t *bytes;
	struct et_fbw writer;
	trace->begin(trace->self, 0);
	trace->end(trace->self, 0);
	trace->part(trace->self, "Part", 250);
	et_fbw_init(&writer, et_platform_allocator());
	assert_int_equal(et_etdump_write(&writer, profile, &method, &bytes, ret_n_bytes), ET_OK);
	uint8_t *copy = malloc(*ret_n_bytes);
	memcpy(copy, bytes, *ret_n_bytes);
	et_fbw_deinit(&writer);
	et_profile_free(profile);
	return copy;
}

static void a_dump_becomes_a_trace(void **state)
{
	char error[400] = "";
	size_t n_bytes;
	uint8_t *bytes = make_dump(&n_bytes);
	json_t *json = ctl_profile_json(bytes, n_bytes, "mine", error, sizeof(error));
	assert_non_null(json);
	json_t *list = json_object_get(json, "traceEvents");
	assert_int_equal(json_array_size(list), 4 + 2);
	const char *name;
	double ts, dur;
	int tid;
	assert_int_equal(json_unpack(json_array_get(list, 4), "{s:s, s:F, s:F, s:i}", "name", &name, "ts", &ts, "dur",
				 &dur, "tid", &tid),
		0);
	assert_string_equal(name, "native_call_add.out");
	assert_true(ts == 0 && dur == 1.5 && tid == 2);
	assert_int_equal(json_unpack(json_array_get(list, 5), "{s:s, s:F, s:F, s:i}", "name", &name, "ts", &ts, "dur",
				 &dur, "tid", &tid),
		0);
	assert_string_equal(name, "Part #1");
	assert_true(ts == 0 && dur == 0.25 && tid == 3);
	json_decref(json);
	free(bytes);
}

static void what_is_no_dump_is_refused(void **state)
{
	char error[400];
	size_t n_bytes, n_refused = 0;
	uint8_t *bytes = make_dump(&n_bytes);
	for (size_t n = 0; n < n_bytes; n++) {
		uint8_t *cut = malloc(n ? n : 1); /* of exactly that size, so that a sanitizer sees the end */
		memcpy(cut, bytes, n);
		error[0] = '\0';
		json_t *json = ctl_profile_json(cut, n, "mine", error, sizeof(error));
		assert_true(json ? !error[0] : error[0] != 0);
		n_refused += !json;
		json_decref(json);
		free(cut);
	}
	assert_true(n_refused > n_bytes / 2);
	for (size_t at = 0; at < n_bytes; at++) {
		uint8_t was = bytes[at];
		bytes[at] ^= 0xff;
		error[0] = '\0';
		json_decref(ctl_profile_json(bytes, n_bytes, "mine", error, sizeof(error)));
		bytes[at] = was;
	}
	memset(bytes, 0xff, n_bytes);
	assert_null(ctl_profile_json(bytes, n_bytes, "mine", error, sizeof(error)));
	assert_non_null(strstr(error, "the profile is not an ETDump"));
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_becomes_a_trace),
		cmocka_unit_test(what_is_no_dump_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
