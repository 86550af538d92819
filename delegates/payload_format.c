/* SPDX-License-Identifier: BSD-3-Clause */
/* Read the few fields of other delegates' payloads that say which chip they were made for, and check their headers.
 *
 * The formats are those of the exporters of ExecuTorch 1.5 (backends/arm, qualcomm, mediatek, nxp, openvino). A payload
 * that fails here is broken, or belongs to another delegate. A payload that passes may still be refused by its engine,
 * which checks more.
 *
 * What must always be true: every byte read lies in the payload or the spec, whatever these say. */
#include "delegates/payload_format.h"

#include "runtime/base/checked.h"
#include "runtime/program/flatbuffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- reading --------------------------------------------------------------------------------------- */

static uint64_t get(const uint8_t *at, size_t n)
{
	uint64_t value = 0;
	for (size_t i = 0; i < n; i++)
		value |= (uint64_t)at[i] << 8 * i;
	return value;
}

static const struct et_compile_spec *find_spec(const struct et_delegate_spec *spec, const char *key)
{
	for (uint32_t i = 0; i < spec->n_specs; i++)
		if (strcmp(spec->specs[i].key, key) == 0)
			return &spec->specs[i];
	return NULL;
}

/* --- the target ------------------------------------------------------------------------------------ */

/* Copy the value of a spec, without the bytes that are not printable ASCII. */
static void copy_spec(const struct et_delegate_spec *from, const char *key, char *text, size_t room)
{
	const struct et_compile_spec *spec = find_spec(from, key);
	size_t n = 0;
	for (size_t i = 0; spec && i < spec->n_bytes && n + 1 < room; i++)
		if (spec->value[i] >= ' ' && spec->value[i] < 127)
			text[n++] = (char)spec->value[i];
	text[n] = '\0';
}

/* QnnExecuTorchOptions.soc_info: which chip, and which generation of its NPU. */
static void qnn_target(const struct et_delegate_spec *from, char *text, size_t room)
{
	enum { SOC_INFO = 0, SOC_MODEL = 0, HTP_INFO = 1, HTP_ARCH = 0 };
	const struct et_compile_spec *spec = find_spec(from, "qnn_compile_spec");
	struct et_diag diag = { "" };
	struct et_fb fb;
	if (!spec)
		return;
	struct et_fb_table options = et_fb_open(&fb, spec->value, spec->n_bytes, NULL, &diag);
	struct et_fb_table soc = et_fb_table(&fb, options, SOC_INFO);
	struct et_fb_table htp = et_fb_table(&fb, soc, HTP_INFO);
	int32_t model = et_fb_i32(&fb, soc, SOC_MODEL, 0), arch = et_fb_i32(&fb, htp, HTP_ARCH, 0);
	if (et_fb_status(&fb) == ET_OK && model)
		snprintf(text, room, arch ? "SoC %d, Hexagon V%d" : "SoC %d", model, arch);
}

const char *et_payload_format_target(const struct et_delegate_spec *spec, char *text, size_t room)
{
	static const struct {
		const char *id, *key;
	} keys[] = { { "EthosUBackend", "target" }, { "NeutronBackend", "target" }, { "OpenvinoBackend", "device" },
		{ "VgfBackend", "tosa_spec" }, { "TOSABackend", "tosa_spec" } };
	text[0] = '\0';
	for (size_t i = 0; i < ET_ARRAY_LEN(keys); i++)
		if (strcmp(spec->id, keys[i].id) == 0)
			copy_spec(spec, keys[i].key, text, room);
	if (strcmp(spec->id, "QnnBackend") == 0)
		qnn_target(spec, text, room);
	return text;
}

/* --- the header ------------------------------------------------------------------------------------ */

static enum et_status too_short(size_t n_bytes, size_t n_header, struct et_diag *diag)
{
	return et_fail(diag, ET_E_INVALID_PROGRAM, "the payload has %zu bytes, its header alone has %zu", n_bytes,
		n_header);
}

/* Blocks of {name[16], u32 size, u8 external, 11 reserved} with the data behind, padded to 16. */
static enum et_status check_vela(const uint8_t *bytes, size_t n_bytes, struct et_diag *diag)
{
	enum { HEADER = 32, NAME = 16, SIZE = 16 };
	size_t at = 0, n, end;
	for (uint32_t i = 0;; i++, at = end) {
		if (n_bytes - at < HEADER)
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"block %u: %zu bytes are left for a header of %d; 'vela_end_stream' is "
				"missing",
				i, n_bytes - at, HEADER);
		const char *name = (const char *)bytes + at;
		if (!memchr(name, '\0', NAME))
			return et_fail(diag, ET_E_INVALID_PROGRAM, "block %u: its name has no end", i);
		if (i == 0 && strcmp(name, "vela_bin_stream") != 0)
			return et_fail(diag, ET_E_INVALID_PROGRAM, "block 0: its name is '%s', not 'vela_bin_stream'",
				name);
		if (strcmp(name, "vela_end_stream") == 0)
			return ET_OK;
		n = (size_t)get(bytes + at + SIZE, 4);
		if (!et_align_up(n, 16, &end) || !et_add(at + HEADER, end, &end) || end > n_bytes)
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"block %u '%s': size %zu does not fit a payload of %zu bytes", i, name, n, n_bytes);
	}
}

static enum et_status check_vgf(const uint8_t *bytes, size_t n_bytes, struct et_diag *diag)
{
	enum { HEADER = 128 };
	if (n_bytes < HEADER)
		return too_short(n_bytes, HEADER, diag);
	if (memcmp(bytes, "VGF1", 4) != 0)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "magic: it does not begin with 'VGF1'");
	return ET_OK;
}

/* Magic, signature, size of QNN's context binary. A payload with another magic is a DLC, which is not checked. */
static enum et_status check_qnn(const uint8_t *bytes, size_t n_bytes, struct et_diag *diag)
{
	enum { HEADER = 256, MAGIC = 0x5678ABCD, SIZE = 12 };
	if (n_bytes < 4)
		return too_short(n_bytes, HEADER, diag);
	if (get(bytes, 4) != MAGIC)
		return ET_OK;
	if (n_bytes < HEADER)
		return too_short(n_bytes, HEADER, diag);
	uint64_t n = get(bytes + SIZE, 8);
	if (n != n_bytes - HEADER)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"size: %" PRIu64 " bytes of context binary, but %zu follow the header", n, n_bytes - HEADER);
	return ET_OK;
}

static enum et_status check_neuropilot(const uint8_t *bytes, size_t n_bytes, struct et_diag *diag)
{
	enum { HEADER = 13, LENGTH = 9 };
	if (n_bytes < HEADER)
		return too_short(n_bytes, HEADER, diag);
	if (bytes[0] != 1)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "version: it is %u, known is 1", bytes[0]);
	uint64_t n = get(bytes + LENGTH, 4);
	if (n > n_bytes - HEADER)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"length: %" PRIu64 " bytes of DLA do not fit a payload of %zu bytes", n, n_bytes);
	return ET_OK;
}

/* Offset and size of custom data, weights and model, one after the other. Only payloads for the CPU begin like this. */
static enum et_status check_openvino(const struct et_delegate_spec *spec, struct et_diag *diag)
{
	static const char *const names[] = { "custom data", "weights", "model" };
	enum { HEADER = 48 };
	char device[32];
	uint64_t at = HEADER;
	copy_spec(spec, "device", device, sizeof device);
	if (strcmp(device, "CPU") != 0)
		return ET_OK;
	if (spec->n_bytes < HEADER)
		return too_short(spec->n_bytes, HEADER, diag);
	for (size_t i = 0; i < 3; i++) {
		uint64_t offset = get(spec->payload + 16 * i, 8), n = get(spec->payload + 16 * i + 8, 8);
		if (offset < at || offset > spec->n_bytes || n > spec->n_bytes - offset)
			return et_fail(diag, ET_E_INVALID_PROGRAM,
				"%s: offset %" PRIu64 " and size %" PRIu64 " do not fit a payload of %zu bytes",
				names[i], offset, n, spec->n_bytes);
		at = offset + n;
	}
	return ET_OK;
}

enum et_status et_payload_format_check(const struct et_delegate_spec *spec, struct et_diag *diag)
{
	static const struct {
		const char *id;
		enum et_status (*check)(const uint8_t *bytes, size_t n_bytes, struct et_diag *diag);
	} checks[] = { { "EthosUBackend", check_vela }, { "VgfBackend", check_vgf }, { "QnnBackend", check_qnn },
		{ "NeuropilotBackend", check_neuropilot } };
	for (size_t i = 0; i < ET_ARRAY_LEN(checks); i++)
		if (strcmp(spec->id, checks[i].id) == 0)
			return checks[i].check(spec->payload, spec->n_bytes, diag);
	return strcmp(spec->id, "OpenvinoBackend") == 0 ? check_openvino(spec, diag) : ET_OK;
}
