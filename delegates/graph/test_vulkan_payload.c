/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading payloads: those that a program of each kind has, and ones that are wrong. */
#include "delegates/graph/vulkan_payload.h"
#include "tests/support/graph_rig.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/support/make_vulkan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const text =
	"%0: f16[1, 4, 2, 8] = input f32\n"
	"%1: f16[1, 4, 1, 8] = input f32\n"
	"%2: i32[1] = input i64\n"
	"%3: symbol = sym_size.int(%0, 1)\n"
	"%4: symbol = et_vk.select_as_symint.default(%2, 0, 0)\n"
	"%5: f16[1, 16, 1, 8] = state\n"
	"%6: f16[1, 16, 1, 8] = state\n"
	"%7: f16[1, 4, 2, 8] = sdpa_with_kv_cache.default(%0, %1, %1, %5, %6, %4, %3, none, 0.0, true, 0.5)\n"
	"%8: f16[1, 4, 2, 4], %9: f16[1, 4, 2, 4] = aten.split_with_sizes_copy.default(%7, [4, 4], 3)\n"
	"%10: f16[1, 4, 2, 8] = aten.cat.default([%9, %8], -1)\n"
	"%11: f16[4, 16] = aten.view_copy.default(%10, [%3, 16])\n"
	"%12: f32[2] = constant {1.0, 2.5}\n"
	"%13: f32[1, 1, 2, 2] = input\n"
	"%14: f32[1, 1, 4, 4] = aten.upsample_bilinear2d.vec(%13, none, true, [2.0, 2.0])\n"
	"%15: f32[1, 1, 4, 4] = aten.gelu.default(%14, \"tanh\")\n"
	"return %11 f32, %12, %15\n";

struct payload {
	uint8_t *bytes;
	size_t n;
};

static struct payload make(const char *graph)
{
	struct graph_rig rig;
	struct payload payload;
	if (graph_rig_parse(&rig, graph) != ET_OK)
		fail_msg("%s", rig.diag.text);
	payload.bytes = make_vulkan(&rig.graph, &payload.n);
	graph_rig_deinit(&rig);
	return payload;
}

static enum et_status read_payload(struct graph_rig *rig, const struct payload *payload)
{
	*rig = (struct graph_rig){ 0 };
	et_pool_init(&rig->pool, et_platform_allocator());
	return et_graph_read_vulkan(&rig->graph, payload->bytes, payload->n, NULL, &rig->pool, &rig->diag);
}

static void a_payload_says_what_its_graph_said(void **state)
{
	struct payload payload = make(text);
	struct graph_rig rig, again;
	if (read_payload(&rig, &payload) != ET_OK)
		fail_msg("%s", rig.diag.text);
	/* inputs come first in a text that was printed */
	assert_int_equal(graph_rig_parse(&again, graph_rig_text(&rig)), ET_OK);
	assert_string_equal(graph_rig_text(&again), graph_rig_text(&rig));
	assert_non_null(strstr(graph_rig_text(&rig), "= state"));
	assert_int_equal(rig.graph.n_inputs, 4);
	assert_int_equal(rig.graph.n_outputs, 3);
	graph_rig_deinit(&again);
	graph_rig_deinit(&rig);
	free(payload.bytes);
}

/* Every length: no byte beyond the end is read, which a sanitizer sees, and every refusal has a reason. */
static void what_is_cut_short_is_refused(void **state)
{
	struct payload whole = make(text);
	for (size_t n = 0; n < whole.n; n++) {
		struct payload cut = { malloc(n ? n : 1), n };
		struct graph_rig rig;
		memcpy(cut.bytes, whole.bytes, n);
		assert_int_not_equal(read_payload(&rig, &cut), ET_OK);
		assert_true(rig.diag.text[0]);
		graph_rig_deinit(&rig);
		free(cut.bytes);
	}
	free(whole.bytes);
}

/* Each byte set to each of a few values: it is read or refused, and what is read can be printed and parsed. */
static void what_is_changed_does_no_harm(void **state)
{
	static const uint8_t bytes[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct payload payload = make(text);
	for (size_t i = 0; i < payload.n * ET_ARRAY_LEN(bytes); i++) {
		uint8_t *byte = &payload.bytes[i / ET_ARRAY_LEN(bytes)], before = *byte;
		struct graph_rig rig, again;
		*byte = bytes[i % ET_ARRAY_LEN(bytes)];
		if (read_payload(&rig, &payload) == ET_OK) {
			if (graph_rig_parse(&again, graph_rig_text(&rig)) != ET_OK)
				fail_msg("byte %zu: %s\n%s", i / ET_ARRAY_LEN(bytes), again.diag.text, rig.text);
			graph_rig_deinit(&again);
		} else {
			assert_true(rig.diag.text[0]);
		}
		graph_rig_deinit(&rig);
		*byte = before;
	}
	free(payload.bytes);
}

/* Passes may assume things about their own operators that nobody checks in a payload. */
static void operators_of_passes_are_refused(void **state)
{
	struct payload payload = make(
		"%0: f32[1, 4, 9] = input\n%1: f32[8, 4, 3] = constant\n"
		"%2: f32[1, 8, 7] = graph.convolution(%0, %1, none, [1], [0, 0], [1], 1)\nreturn %2\n");
	struct graph_rig rig;
	assert_int_equal(read_payload(&rig, &payload), ET_E_NOT_SUPPORTED);
	assert_non_null(strstr(rig.diag.text, "the operator 'graph.convolution' is not supported"));
	graph_rig_deinit(&rig);
	free(payload.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_payload_says_what_its_graph_said),
		cmocka_unit_test(what_is_cut_short_is_refused),
		cmocka_unit_test(operators_of_passes_are_refused),
		cmocka_unit_test(what_is_changed_does_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
