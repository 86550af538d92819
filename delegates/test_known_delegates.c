/* SPDX-License-Identifier: BSD-3-Clause */
/* Every known delegate id has a sentence, and the sentence fits where it is shown. */
#include "delegates/known_delegates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_sentences(void **state)
{
	static const char *const ids[] = { "QnnBackend", "NeuropilotBackend", "NeutronBackend", "EnnBackend",
		"VgfBackend", "CoreMLBackend", "MPSBackend", "CudaBackend", "MetalBackend", "MLXBackend",
		"EthosUBackend", "OpenvinoBackend", "VulkanBackend", "XnnpackBackend", "NativeBackend", "TOSABackend" };
	char text[320], previous[320] = "";
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		const struct et_known_delegate *found = et_known_delegate_find(ids[i]);
		assert_non_null(found);
		et_known_delegate_text(ids[i], text, sizeof text);
		assert_true(strlen(text) < 300);
		assert_non_null(strstr(text, found->target));
		assert_non_null(strstr(text, found->instead)); /* nothing was cut */
		assert_string_not_equal(text, previous);
		memcpy(previous, text, sizeof text);
	}
	assert_null(et_known_delegate_find("NobodysBackend"));
	assert_string_equal(et_known_delegate_text("NobodysBackend", text, sizeof text), "");
	assert_non_null(strstr(et_known_operator_text("cadence::quantized_relu.out"), "Cadence"));
	assert_null(et_known_operator_text("aten::add.out"));
	et_known_delegate_text("QnnBackend", text, 20);
	assert_string_equal(text, "exported for Qualco");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sentences) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
