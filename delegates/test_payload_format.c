/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads of other delegates: the target that they name, and each header field that can be wrong. */
#include "delegates/payload_format.h"

#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void put(uint8_t *at, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

/* NULL: it is accepted; else what the refusal must say. */
static void expect(const char *id, const char *device, const uint8_t *bytes, size_t n_bytes, const char *says)
{
	struct et_compile_spec specs[] = { { "device", (const uint8_t *)device, strlen(device) } };
	struct et_delegate_spec spec = { id, bytes, n_bytes, specs, 1 };
	struct et_diag diag = { "" };
	enum et_status status = et_payload_format_check(&spec, &diag);
	if (status != (says ? ET_E_INVALID_PROGRAM : ET_OK) || (says && !strstr(diag.text, says)))
		fail_msg("%s: status %d, '%s' instead of '%s'", id, status, diag.text, says ? says : "");
}

static void test_vela(void **state)
{
	uint8_t bytes[32 * 3 + 16] = "vela_bin_stream";
	memcpy(bytes + 32, "cmd_data", 9);
	put(bytes + 32 + 16, 5, 4);
	memcpy(bytes + 80, "vela_end_stream", 16);
	expect("EthosUBackend", "", bytes, sizeof bytes, NULL);
	for (size_t n = 0; n < sizeof bytes; n++)
		expect("EthosUBackend", "", bytes, n, n < 32 ? "block 0" : "block ");
	put(bytes + 32 + 16, UINT32_MAX, 4);
	expect("EthosUBackend", "", bytes, sizeof bytes, "block 1 'cmd_data': size 4294967295");
	memset(bytes + 32, 'x', 16);
	expect("EthosUBackend", "", bytes, sizeof bytes, "block 1: its name has no end");
	bytes[0] = 'V';
	expect("EthosUBackend", "", bytes, sizeof bytes, "block 0: its name is 'Vela_bin_stream'");
}

static void test_vgf(void **state)
{
	uint8_t bytes[128] = "VGF1";
	expect("VgfBackend", "", bytes, sizeof bytes, NULL);
	expect("VgfBackend", "", bytes, sizeof bytes - 1, "127 bytes");
	bytes[3] = '2';
	expect("VgfBackend", "", bytes, sizeof bytes, "magic");
}

static void test_qnn(void **state)
{
	uint8_t bytes[256 + 7] = { 0 };
	put(bytes, 0x5678ABCD, 4);
	put(bytes + 12, 7, 8);
	expect("QnnBackend", "", bytes, sizeof bytes, NULL);
	expect("QnnBackend", "", bytes, sizeof bytes - 1, "size: 7 bytes of context binary, but 6");
	expect("QnnBackend", "", bytes, 255, "255 bytes");
	expect("QnnBackend", "", bytes, 3, "3 bytes");
	put(bytes + 12, UINT64_MAX, 8);
	expect("QnnBackend", "", bytes, sizeof bytes, "size: 18446744073709551615");
	bytes[0] = 0; /* a DLC */
	expect("QnnBackend", "", bytes, sizeof bytes, NULL);
}

static void test_neuropilot(void **state)
{
	uint8_t bytes[13 + 4] = { 1 };
	put(bytes + 9, 4, 4);
	expect("NeuropilotBackend", "", bytes, sizeof bytes, NULL);
	expect("NeuropilotBackend", "", bytes, 12, "12 bytes");
	expect("NeuropilotBackend", "", bytes, sizeof bytes - 1, "length: 4");
	bytes[0] = 2;
	expect("NeuropilotBackend", "", bytes, sizeof bytes, "version: it is 2");
}

static void test_openvino(void **state)
{
	uint8_t bytes[60] = { 0 };
	const uint64_t good[] = { 48, 2, 50, 4, 54, 6 };
	static const struct {
		size_t field;
		uint64_t value;
		const char *says;
	} cases[] = { { 0, 47, "custom data: offset 47" }, { 1, 13, "custom data" }, { 2, 49, "weights" },
		{ 3, UINT64_MAX, "weights" }, { 4, 61, "model" }, { 5, UINT64_C(1) << 63, "model" } };
	for (size_t i = 0; i <= ET_ARRAY_LEN(cases); i++) {
		for (size_t f = 0; f < 6; f++)
			put(bytes + 8 * f, good[f], 8);
		if (i < ET_ARRAY_LEN(cases))
			put(bytes + 8 * cases[i].field, cases[i].value, 8);
		expect("OpenvinoBackend", "CPU", bytes, sizeof bytes, i < ET_ARRAY_LEN(cases) ? cases[i].says : NULL);
	}
	expect("OpenvinoBackend", "CPU", bytes, 47, "47 bytes");
	expect("OpenvinoBackend", "NPU", bytes, 3, NULL); /* another format */
	expect("CoreMLBackend", "", bytes, 0, NULL);
}

static void expect_text(const char *id, const char *key, const void *value, size_t n, const char *says)
{
	char text[32];
	struct et_compile_spec specs[] = { { "other", (const uint8_t *)"x", 1 }, { key, value, n } };
	struct et_delegate_spec spec = { id, NULL, 0, specs, 2 };
	assert_string_equal(et_payload_format_target(&spec, text, sizeof text), says);
}

static void test_texts(void **state)
{
	/* soc_info = { soc_model 57, htp_info { arch V75 } }, as the exporter writes it */
	static const uint8_t qnn[] = { 12, 0, 0, 0, 6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 12, 0, 0, 0, 8, 0, 12, 0, 4, 0,
		8, 0, 8, 0, 0, 0, 57, 0, 0, 0, 12, 0, 0, 0, 6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 75, 0, 0, 0 };
	expect_text("EthosUBackend", "target", "ethos-u55-128", 13, "ethos-u55-128");
	expect_text("OpenvinoBackend", "device", "C\nP\033U\0", 6, "CPU");
	expect_text("VgfBackend", "tosa_spec", "TOSA-1.0+FP", 11, "TOSA-1.0+FP");
	expect_text("VgfBackend", "tosa_spec", "0123456789012345678901234567890123456789", 40,
		"0123456789012345678901234567890");
	expect_text("EnnBackend", "target", "x", 1, "");
	expect_text("QnnBackend", "nothing", "x", 1, "");
	expect_text("QnnBackend", "qnn_compile_spec", qnn, sizeof qnn, "SoC 57, Hexagon V75");
	for (size_t n = 0; n < sizeof qnn; n++) {
		char text[32];
		struct et_compile_spec specs[] = { { "qnn_compile_spec", qnn, n } };
		struct et_delegate_spec spec = { "QnnBackend", NULL, 0, specs, 1 };
		et_payload_format_target(&spec, text, sizeof text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_vela), cmocka_unit_test(test_vgf),
		cmocka_unit_test(test_qnn), cmocka_unit_test(test_neuropilot), cmocka_unit_test(test_openvino),
		cmocka_unit_test(test_texts) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
