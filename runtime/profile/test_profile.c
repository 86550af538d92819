/* SPDX-License-Identifier: BSD-3-Clause */
/* Recording and writing a profile: times of a clock that the test sets, a dump read back by hand, bounded memory,
 * and a run that is the same with and without a profile. */
#include "runtime/program/flatbuffer.h"
#include "runtime/platform/platform.h"
#include "runtime/profile/etdump.h"
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t ticks(void *self)
{
	return *(uint64_t *)self += 10;
}

static struct et_profile *new_profile(const struct et_allocator *allocator, uint64_t *clock, uint32_t max)
{
	struct et_profile_options options = {
		.allocator = allocator, .now_ns = ticks, .clock = clock, .max_events = max
	};
	return et_profile_new(&options);
}

static void parts_follow_their_call(void **state)
{
	uint64_t clock = 0;
	uint32_t n;
	struct et_profile *profile = new_profile(et_platform_allocator(), &clock, 100);
	const struct et_trace *trace = et_profile_trace(profile);
	char name[] = "conv";
	trace->part(trace->self, "of nothing", 1);
	trace->begin(trace->self, 7);
	trace->end(trace->self, 7);
	trace->part(trace->self, name, 3);
	trace->part(trace->self, "add", 4);
	trace->part(trace->self, name, 5);
	memcpy(name, "gone", 4); /* the name was borrowed */
	trace->begin(trace->self, 7);
	trace->end(trace->self, 7);
	trace->part(trace->self, "conv", 6);
	trace->begin(trace->self, 8);
	trace->end(trace->self, 9); /* not the end of this instruction */
	et_profile_span(profile, "all", 1, 99);
	const struct et_profile_event *e = et_profile_events(profile, &n);
	assert_int_equal(n, 8);
	assert_int_equal(et_profile_n_lost(profile), 1);
	assert_true(e[0].begin_ns == 10 && e[0].end_ns == 20 && e[0].instruction == 7 && !e[0].name);
	assert_true(e[1].begin_ns == 10 && e[1].end_ns == 13 && e[1].ordinal == 1 && e[1].instruction == 7);
	assert_true(e[2].begin_ns == 13 && e[2].end_ns == 17 && strcmp(e[2].name, "add") == 0);
	assert_true(e[3].begin_ns == 17 && e[3].end_ns == 22 && e[3].ordinal == 2);
	assert_string_equal(e[3].name, "conv");
	assert_true(e[5].begin_ns == 30 && e[5].ordinal == 1);
	assert_false(e[6].has_ended);
	assert_true(e[7].kind == ET_PROFILE_SPAN && e[7].end_ns == 99 && e[7].instruction == UINT32_MAX);
	assert_null(et_profile_free(profile));
	assert_null(et_profile_free(NULL));
}

static void events_beyond_the_limit_are_counted(void **state)
{
	uint64_t clock = 0;
	uint32_t n;
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_profile *profile = new_profile(&allocator, &clock, 300);
	const struct et_trace *trace = et_profile_trace(profile);
	for (uint32_t i = 0; i < 1000; i++) {
		trace->begin(trace->self, i);
		trace->end(trace->self, i);
	}
	trace->part(trace->self, "x", 1);
	et_profile_events(profile, &n);
	assert_int_equal(n, 300);
	assert_int_equal(et_profile_n_lost(profile), 701);
	et_profile_free(profile);
	assert_int_equal(counting.n_live, 0);
}

/* --- a whole run -------------------------------------------------------------------------------------- */

static struct make_program mk;

static int tensor(uint64_t offset)
{
	return mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 1, .offset = offset });
}

/* b = a + a; c = b + b */
static void open_adder(struct method_rig *rig)
{
	memset(rig, 0, sizeof *rig);
	rig_init(rig);
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_arena(&mk, 64);
	int a = tensor(0), b = tensor(16), c = tensor(32), add = mk_operator(&mk, "test::add", "out");
	mk_kernel(&mk, add, MK_ARGS(a, a, b, b));
	mk_kernel(&mk, add, MK_ARGS(b, b, c, c));
	mk_input(&mk, a);
	mk_output(&mk, c);
	rig_open(rig, &mk);
}

static void run_adder(struct method_rig *rig, const struct et_trace *trace)
{
	float in[4] = { 1, 2, 3, 4 }, out[4] = { 0 };
	struct rig_run run;
	rig_run_init(rig, &run);
	rig_input(&run, 0, in, 4);
	rig_output(&run, 0, out, 4);
	run.run.trace = trace;
	assert_int_equal(rig_run(rig, &run), ET_OK);
	assert_true(out[0] == 4 && out[3] == 16);
}

struct seen {
	char name[64];
	int32_t chain, instruction;
	uint64_t begin_ns, end_ns;
	char part[64];
};

/* Read the events of a dump; returns their number. */
static uint32_t read_dump(const uint8_t *bytes, size_t n_bytes, struct seen *ret_seen, uint32_t max)
{
	struct et_fb fb;
	struct et_diag diag = { "" };
	assert_true(n_bytes > ET_ETDUMP_PREFIX && n_bytes % 8 == 0);
	assert_int_equal(et_load_u32(bytes), n_bytes - ET_ETDUMP_PREFIX);
	struct et_fb_table root = et_fb_open(&fb, bytes + 4, n_bytes - 4, "ED00", &diag);
	struct et_fb_vector runs = et_fb_vector(&fb, root, ET_ETDUMP_RUNS, 4);
	assert_int_equal(runs.n, 1);
	struct et_fb_table run = et_fb_table_at(&fb, runs, 0);
	assert_string_equal(et_fb_string(&fb, run, ET_ETDUMP_RUN_NAME).chars, "Execute");
	struct et_fb_vector events = et_fb_vector(&fb, run, ET_ETDUMP_RUN_EVENTS, 4);
	for (uint32_t i = 0; i < events.n && i < max; i++) {
		struct et_fb_table event = et_fb_table(&fb, et_fb_table_at(&fb, events, i), ET_ETDUMP_EVENT_PROFILE);
		struct et_fb_string name = et_fb_string(&fb, event, ET_ETDUMP_PROFILE_NAME),
				    part = et_fb_string(&fb, event, ET_ETDUMP_PROFILE_DELEGATE_TEXT);
		ret_seen[i] = (struct seen){
			.chain = et_fb_i32(&fb, event, ET_ETDUMP_PROFILE_CHAIN, 0),
			.instruction = et_fb_i32(&fb, event, ET_ETDUMP_PROFILE_INSTRUCTION, -1),
			.begin_ns = et_fb_u64(&fb, event, ET_ETDUMP_PROFILE_BEGIN, 0),
			.end_ns = et_fb_u64(&fb, event, ET_ETDUMP_PROFILE_END, 0),
		};
		snprintf(ret_seen[i].name, sizeof ret_seen[i].name, "%s", name.chars ? name.chars : "");
		snprintf(ret_seen[i].part, sizeof ret_seen[i].part, "%s", part.chars ? part.chars : "");
	}
	assert_int_equal(et_fb_status(&fb), ET_OK);
	return events.n;
}

static void a_run_becomes_a_dump(void **state)
{
	struct method_rig rig;
	struct seen seen[8];
	uint64_t clock = 1000;
	const uint8_t *bytes;
	size_t n_bytes;
	open_adder(&rig);
	run_adder(&rig, NULL);
	struct et_profile *profile = new_profile(et_platform_allocator(), &clock, 100);
	const struct et_trace *trace = et_profile_trace(profile);
	run_adder(&rig, trace);
	trace->part(trace->self, "Add (F32)", 5);
	et_profile_span(profile, "Method::execute", 1005, clock);
	trace->begin(trace->self, 0); /* without an end */

	const struct et_method_spec *method = et_program_find_method(rig.program, "forward");
	struct et_fbw writer;
	et_fbw_init(&writer, et_platform_allocator());
	assert_int_equal(et_etdump_write(&writer, profile, method, &bytes, &n_bytes), ET_OK);
	assert_int_equal(read_dump(bytes, n_bytes, seen, 8), 4);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(seen[i].name, "native_call_add.out");
		assert_int_equal(seen[i].instruction, i);
		assert_int_equal(seen[i].chain, 0);
		assert_int_equal(seen[i].begin_ns, 1010 + 20 * (uint64_t)i);
		assert_int_equal(seen[i].end_ns, 1020 + 20 * (uint64_t)i);
	}
	assert_string_equal(seen[2].part, "Add (F32) #1");
	assert_string_equal(seen[2].name, "");
	assert_int_equal(seen[2].instruction, 1);
	assert_int_equal(seen[2].begin_ns, 1030);
	assert_string_equal(seen[3].name, "Method::execute");
	assert_int_equal(seen[3].chain, -1);
	assert_int_equal(seen[3].instruction, -1);
	et_fbw_deinit(&writer);
	et_profile_free(profile);
	rig_close(&rig);
}

/* Whatever allocation fails, only events are lost, and the dump's status says so. */
static void failing_allocations_lose_only_events(void **state)
{
	struct method_rig rig;
	struct seen seen[8];
	open_adder(&rig);
	const struct et_method_spec *method = et_program_find_method(rig.program, "forward");
	bool has_worked = false;
	for (size_t nth = 1; !has_worked; nth++) {
		struct counting_alloc counting = { .fail_at = nth };
		struct et_allocator allocator = counting_allocator(&counting);
		uint64_t clock = 0;
		struct et_profile *profile = new_profile(&allocator, &clock, 100);
		if (profile) {
			const uint8_t *bytes;
			size_t n_bytes;
			struct et_fbw writer;
			et_fbw_init(&writer, &allocator);
			run_adder(&rig, et_profile_trace(profile));
			enum et_status status = et_etdump_write(&writer, profile, method, &bytes, &n_bytes);
			uint64_t n_lost = et_profile_n_lost(profile);
			if (status == ET_OK)
				assert_int_equal(read_dump(bytes, n_bytes, seen, 8) + n_lost, 2);
			else
				assert_int_equal(status, ET_E_MEMORY_ALLOCATION_FAILED);
			has_worked = status == ET_OK && !n_lost;
			et_fbw_deinit(&writer);
		}
		et_profile_free(profile);
		assert_int_equal(counting.n_live, 0);
		assert_true(nth < 50);
	}
	rig_close(&rig);
}

/* The bound on memory that a client is charged for. */
static void the_memory_bound_holds(void **state)
{
	enum { MAX = 4000 };
	struct method_rig rig;
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	uint64_t clock = 0;
	const uint8_t *bytes;
	size_t n_bytes;
	open_adder(&rig);
	struct et_profile *profile = new_profile(&allocator, &clock, MAX);
	const struct et_trace *trace = et_profile_trace(profile);
	trace->begin(trace->self, 0);
	trace->end(trace->self, 0);
	for (int i = 0; i < MAX; i++) {
		char name[120];
		snprintf(name, sizeof name, "%0110d", i);
		trace->part(trace->self, name + i % 20, 1);
	}
	assert_true(counting.n_peak_bytes <= et_profile_max_bytes(MAX));
	size_t n_before = counting.n_live_bytes;
	struct et_fbw writer;
	et_fbw_init(&writer, &allocator);
	assert_int_equal(et_etdump_write(&writer, profile, et_program_find_method(rig.program, "forward"), &bytes,
				 &n_bytes),
		ET_OK);
	assert_true(counting.n_peak_bytes - n_before <= et_etdump_max_bytes(MAX));
	et_fbw_deinit(&writer);
	et_profile_free(profile);
	assert_int_equal(counting.n_live, 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_follow_their_call),
		cmocka_unit_test(events_beyond_the_limit_are_counted),
		cmocka_unit_test(a_run_becomes_a_dump),
		cmocka_unit_test(failing_allocations_lose_only_events),
		cmocka_unit_test(the_memory_bound_holds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
