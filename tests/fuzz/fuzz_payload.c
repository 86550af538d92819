/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is a payload for an engine that may not be available here. payload_format.c describes it,
 * and the OpenVINO plug-in, which checks the same header by itself, must agree.
 *
 * The first byte selects the delegate and the model's options, the second one the length of the compile spec that
 * follows. The rest is the payload. */
#include "tests/fuzz/fuzz.h"

#include "delegates/payload_format.h"

#include <stdlib.h>
#include <string.h>

/* The plug-in is one file, and what is tried is inside of it. */
#include "delegates/openvino/openvino.c"

static void agree_with_the_plugin(const struct et_delegate_spec *spec, enum et_status status)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	struct inferd_delegate_payload payload = {
		.struct_size = sizeof payload, .bytes = spec->payload, .n_bytes = spec->n_bytes, .fd = -1
	};
	int result = check_payload(&payload, &message);
	uint64_t n_model;
	if (!result != (status == ET_OK)) {
		/* a model of no bytes is in its place, but it is no model */
		memcpy(&n_model, spec->payload + 40, sizeof n_model);
		if (status != ET_OK || n_model)
			abort();
	}
	if (result && !message.text[0])
		abort();
}

/* @option_number: which one the model has; 0: none. From 3 on its value comes in place of the device. */
static void try_the_plugin(const struct et_delegate_spec *spec, const char *device, unsigned option_number)
{
	static const char *const keys[] = { "precision", "threads", "colour" };
	struct inferd_delegate_host host = { .struct_size = sizeof host };
	struct plugin plugin = { .host = &host, .devices = { "CPU", "NPU" }, .n_devices = 2 };
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	struct inferd_delegate_pair pair = { sizeof pair, 0, "device", device, strlen(device) };
	const struct inferd_delegate_pair *pairs[] = { &pair };
	struct inferd_delegate_pair own = { sizeof own, 0, keys[option_number % 3], device, strlen(device) };
	const struct inferd_delegate_pair *options[] = { &own };
	struct inferd_delegate_payload payload = { .struct_size = sizeof payload,
		.bytes = spec->payload,
		.n_bytes = spec->n_bytes,
		.fd = -1,
		.n_specs = option_number < 3,
		.specs = pairs,
		.n_options = option_number > 0,
		.options = options };
	uint32_t readiness;
	if (probe(&plugin, &payload, &readiness, &message) || readiness > INFERD_DELEGATE_READY ||
		(readiness == INFERD_DELEGATE_NO && !message.text[0]))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static const struct {
		const char *id, *key;
	} kinds[] = { { "EthosUBackend", "target" }, { "VgfBackend", "tosa_spec" },
		{ "QnnBackend", "qnn_compile_spec" }, { "NeuropilotBackend", "target" }, { "NeutronBackend", "target" },
		{ "OpenvinoBackend", "device" } };
	char text[64], device[256];
	struct et_diag diag = { "" };
	if (n_bytes < 2 || bytes[1] > n_bytes - 2)
		return 0;
	/* a copy, so that a sanitizer sees a byte too many */
	size_t n_value = bytes[1], n_payload = n_bytes - 2 - n_value;
	uint8_t *value = malloc(n_value + 1), *payload = malloc(n_payload + 1);
	if (!value || !payload)
		abort();
	uint8_t *value_end = memcpy(value + 1, bytes + 2, n_value),
		*payload_end = memcpy(payload + 1, bytes + 2 + n_value, n_payload);
	struct et_compile_spec spec = { kinds[bytes[0] % 6].key, value_end, n_value };
	struct et_delegate_spec delegate = { kinds[bytes[0] % 6].id, payload_end, n_payload, &spec, 1 };
	et_payload_format_target(&delegate, text, sizeof text);
	if (strlen(text) >= sizeof text)
		abort();
	enum et_status status = et_payload_format_check(&delegate, &diag);
	if (status != ET_OK && !diag.text[0])
		abort();
	if (bytes[0] % 6 == 5) {
		memcpy(device, value_end, n_value);
		device[n_value] = '\0';
		if (strcmp(text, "CPU") == 0 && strcmp(device, "CPU") == 0)
			agree_with_the_plugin(&delegate, status);
		try_the_plugin(&delegate, device, bytes[0] / 6);
	}
	free(value);
	free(payload);
	return 0;
}
