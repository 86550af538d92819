/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages encoded and decoded again, and messages that no correct peer sends.
 *
 * Every field travels; the test shows it by counting. It sets all fields of a message, so the packet must contain as
 * many field numbers as inferd.proto has, and decoding and encoding again must give the same bytes. */
#include "ipc/message.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static struct inf_codec codec, second;
static uint8_t packet[INF_MAX_PACKET], again[INF_MAX_PACKET];

static int set_up(void **state)
{
	inf_codec_init(&codec, et_platform_allocator());
	inf_codec_init(&second, et_platform_allocator());
	return 0;
}

static int tear_down(void **state)
{
	inf_codec_deinit(&codec);
	inf_codec_deinit(&second);
	return 0;
}

/* ---- a plain reader of the wire, to look at packets with ---- */

static uint64_t varint(const uint8_t **at)
{
	uint64_t value = 0;
	for (int shift = 0;; shift += 7) {
		uint8_t byte = *(*at)++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

/* Count the different fields of a message in the packet; *ret_body (may be NULL) is the body of field @number. */
static int count_fields(const uint8_t *bytes, size_t n_bytes, uint32_t number, const uint8_t **ret_body,
	size_t *ret_n_body)
{
	uint64_t seen[8] = { 0 };
	int n_fields = 0;
	for (const uint8_t *at = bytes; at < bytes + n_bytes;) {
		uint64_t tag = varint(&at);
		size_t n = 0;
		switch (tag & 7) {
		case 0:
			varint(&at);
			break;
		case 1:
			n = 8;
			break;
		case 2:
			n = varint(&at);
			break;
		case 5:
			n = 4;
			break;
		default:
			fail();
		}
		if (ret_body && tag >> 3 == number) {
			*ret_body = at;
			*ret_n_body = n;
		}
		at += n;
		uint64_t *word = &seen[(tag >> 3) / 64];
		n_fields += !(*word >> (tag >> 3) % 64 & 1);
		*word |= (uint64_t)1 << (tag >> 3) % 64;
	}
	return n_fields;
}

/* Decode the packet with @codec; the body must have @n_fields fields. */
static struct inf_request request_and_back(const struct inf_request *request, int n_fields)
{
	struct et_diag diag = { "" };
	size_t n_bytes, n_again;
	assert_int_equal(inf_message_encode_request(request, packet, &n_bytes, &second, &diag), 0);
	const uint8_t *body = NULL;
	size_t n_body = 0;
	count_fields(packet, n_bytes, request->kind, &body, &n_body);
	assert_non_null(body);
	assert_int_equal(count_fields(body, n_body, 0, NULL, NULL), n_fields);
	struct inf_request back;
	assert_int_equal(inf_message_decode_request(&back, packet, n_bytes, &codec, &diag), 0);
	assert_int_equal(back.id, request->id);
	assert_int_equal(back.kind, request->kind);
	assert_int_equal(inf_message_encode_request(&back, again, &n_again, &second, &diag), 0);
	assert_int_equal(n_bytes, n_again);
	assert_memory_equal(packet, again, n_bytes);
	return back;
}

static struct inf_reply reply_and_back(const struct inf_reply *reply, int n_fields)
{
	struct et_diag diag = { "" };
	size_t n_bytes, n_again;
	int fd;
	assert_int_equal(inf_message_encode_reply(reply, packet, &n_bytes, &fd, &second), 0);
	assert_int_equal(fd, -1);
	const uint8_t *body = NULL;
	size_t n_body = 0;
	count_fields(packet, n_bytes, reply->kind, &body, &n_body);
	if (reply->kind != INF_REPLY_NONE)
		assert_int_equal(count_fields(body, n_body, 0, NULL, NULL), n_fields);
	struct inf_reply back;
	assert_int_equal(inf_message_decode_reply(&back, packet, n_bytes, &codec, &diag), 0);
	assert_int_equal(back.id, reply->id);
	assert_int_equal(back.status, reply->status);
	assert_int_equal(back.kind, reply->kind);
	assert_int_equal(inf_message_encode_reply(&back, again, &n_again, &fd, &second), 0);
	assert_int_equal(n_bytes, n_again);
	assert_memory_equal(packet, again, n_bytes);
	return back;
}

/* ---- every kind ---- */

static const int64_t shape[] = { 1, 3, INT64_MAX };
static const uint32_t order[] = { 0, 2, 1 };
static const struct inf_slot slots[] = {
	{ .region = 1,
		.offset = 64,
		.byte_size = 12,
		.n_shape = 3,
		.shape = shape,
		.scalar = { INF_SCALAR_INT, .int_value = -5 } },
	{ .scalar = { INF_SCALAR_DOUBLE, .double_value = -0.5 } },
	{ .scalar = { INF_SCALAR_BOOL, .bool_value = true } },
	{ .scalar = { INF_SCALAR_INT, .int_value = 0 } },
	{ 0 },
};

/* Whoever speaks more versions: the newest one in common. */
static void protocols_are_chosen(void **state)
{
	static const struct {
		uint32_t oldest, newest, chosen;
	} cases[] = {
		{ 0, INF_PROTOCOL, INF_PROTOCOL }, /* a library that does not know the field */
		{ INF_PROTOCOL_OLDEST, INF_PROTOCOL, INF_PROTOCOL },
		{ INF_PROTOCOL, INF_PROTOCOL + 5, INF_PROTOCOL },
		{ INF_PROTOCOL + 1, INF_PROTOCOL + 5, 0 },
		{ 0, INF_PROTOCOL + 1, 0 },
		{ 0, INF_PROTOCOL_OLDEST - 1, 0 },
		{ 7, INF_PROTOCOL, 0 }, /* nonsense */
		{ UINT32_MAX, UINT32_MAX, 0 },
		{ 0, 0, 0 },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct inf_hello hello = { .protocol = cases[i].newest, .oldest_protocol = cases[i].oldest };
		assert_int_equal(inf_protocol_choose(&hello), cases[i].chosen);
	}
}

static void requests_come_back(void **state)
{
	struct inf_request back;
#define REQUEST(kind_, n_fields, ...) \
	back = request_and_back(&(struct inf_request){ .id = 77, .kind = kind_, __VA_ARGS__ }, n_fields)
	REQUEST(INF_REQUEST_HELLO, 5, .hello = { 5, "caf\xc3\xa9 \xf0\x9f\x90\x88", 7, 2, true });
	assert_true(back.hello.hears_ends);
	assert_int_equal(back.hello.protocol, 5);
	assert_int_equal(back.hello.oldest_protocol, 2);
	assert_int_equal(back.hello.weight, 7);
	assert_string_equal(back.hello.client_name, "caf\xc3\xa9 \xf0\x9f\x90\x88");
	REQUEST(INF_REQUEST_SERVER_METADATA, 0);
	REQUEST(INF_REQUEST_MODEL_READY, 2, .model_ready = { "a", "b" });
	REQUEST(INF_REQUEST_MODEL_METADATA, 3, .model_metadata = { "a", "b", "c" });
	assert_string_equal(back.model_metadata.method, "c");
	REQUEST(INF_REQUEST_REPOSITORY_INDEX, 2, .repository_index = { "a", true });
	assert_true(back.repository_index.ready);
	REQUEST(INF_REQUEST_REPOSITORY_MODEL_LOAD, 2, .repository_model_load = { "a", "b" });
	REQUEST(INF_REQUEST_REPOSITORY_MODEL_UNLOAD, 2, .repository_model_unload = { "a", "b" });
	REQUEST(INF_REQUEST_MODEL_STATISTICS, 2, .model_statistics = { "a", "b" });
	REQUEST(INF_REQUEST_STATUS, 0);
	REQUEST(INF_REQUEST_METHOD_OPEN, 6, .method_open = { "a", "b", "c", "d", true, 15 });
	assert_int_equal(back.method_open.share_with, 0);
	REQUEST(INF_REQUEST_METHOD_OPEN, 5, .method_open = { "a", "b", "c", "d", .share_with = UINT64_MAX });
	assert_true(back.method_open.share_with == UINT64_MAX);
	REQUEST(INF_REQUEST_METHOD_OPEN, 7, .method_open = { "a", "b", "c", "d", true, 15, 7 });
	assert_int_equal(inf_request_n_fds(&back), 16);
	REQUEST(INF_REQUEST_METHOD_OPEN, 5, .method_open = { "a", "b", "c", "d", true, 0 });
	assert_int_equal(inf_request_n_fds(&back), 1);
	REQUEST(INF_REQUEST_METHOD_CLOSE, 1, .method_close = { UINT64_MAX });
	assert_int_equal(back.method_close.method, UINT64_MAX);
	REQUEST(INF_REQUEST_METHOD_RESET, 1, .method_reset = { 5 });
	REQUEST(INF_REQUEST_REGION_CREATE, 1, .region_create = { 5 });
	REQUEST(INF_REQUEST_REGION_REGISTER, 4, .region_register = { "a", "b", 6, 7 });
	assert_int_equal(inf_request_n_fds(&back), 1);
	assert_int_equal(back.region_register.byte_size, 7);
	REQUEST(INF_REQUEST_REGION_UNREGISTER, 2, .region_unregister = { "a", 5 });
	REQUEST(INF_REQUEST_REGION_STATUS, 1, .region_status = { "a" });
	REQUEST(INF_REQUEST_BIND, 3,
		.bind = { .method = 9,
			.n_inputs = ET_ARRAY_LEN(slots),
			.inputs = slots,
			.n_outputs = 1,
			.outputs = slots });
	assert_int_equal(back.bind.n_inputs, ET_ARRAY_LEN(slots));
	assert_int_equal(back.bind.inputs[0].n_shape, 3);
	assert_memory_equal(back.bind.inputs[0].shape, shape, sizeof shape);
	assert_int_equal(back.bind.inputs[0].scalar.int_value, -5);
	assert_true(back.bind.inputs[1].scalar.double_value == -0.5);
	assert_true(back.bind.inputs[2].scalar.bool_value);
	assert_int_equal(back.bind.inputs[3].scalar.kind, INF_SCALAR_INT);
	assert_int_equal(back.bind.inputs[4].scalar.kind, INF_SCALAR_NONE);
	assert_int_equal(back.bind.outputs[0].offset, 64);
	REQUEST(INF_REQUEST_UNBIND, 1, .unbind = { 5 });
	REQUEST(INF_REQUEST_INFER, 5, .infer = { 5, INF_IDLE, 1000, ET_ARRAY_LEN(slots), slots, true });
	assert_true(back.infer.profile);
	assert_int_equal(back.infer.priority, INF_IDLE);
	assert_int_equal(back.infer.timeout_us, 1000);
	assert_int_equal(inf_request_n_fds(&back), 0);
	REQUEST(INF_REQUEST_CANCEL, 1, .cancel = { 5 });
	REQUEST(INF_REQUEST_BACKEND_RESTART, 1, .backend_restart = { "npu" });
	assert_string_equal(back.backend_restart.name, "npu");
#undef REQUEST
	assert_string_equal(inf_request_kind_name(INF_REQUEST_INFER), "Infer");
	assert_string_equal(inf_request_kind_name(INF_REQUEST_REGION_REGISTER), "SystemSharedMemoryRegisterRequest");
	assert_string_equal(inf_request_kind_name(1), "unknown");
	assert_string_equal(inf_request_kind_name(99), "unknown");
}

static void replies_come_back(void **state)
{
	static const char *const texts[] = { "one", "", "three" };
	static const struct inf_tensor_metadata tensors[] = {
		{ "input_0", "FP32", 3, shape, 3, order, 12, true, true },
		{ "input_1", "INT", 0, NULL, 0, NULL, 0, false, false },
	};
	static const struct inf_tensor_metadata string = {
		.name = "output_0",
		.datatype = "String",
		.scalar = true,
		.constant = true,
		.n_text = 4,
		.text = (const uint8_t *)"a\0\xff"
					 "b",
	};
	static const struct inf_model_index models[] = {
		{ "a", "1", "FAILED", "why", "xnnpack", 5, 3, texts },
	};
	static const struct inf_model_stats stats[] = {
		{ "a", "1", 1, 2, 3, { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 }, { 9, 10 }, { 11, 12 } }, 13 },
	};
	static const struct inf_program_status programs[] = { { "a", "1", "b", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "why" } };
	static const struct inf_client_status clients[] = { { 1, 2, 3, "c", 4, 5, 6, 7, 8 } };
	static const struct inf_queue_status queues[] = { { "gpu0", 1, 2, 3, 4, 5, 6, 7, "d", "e", "f", 8 } };
	static const struct inf_host_status hosts[] = { { "npu", true, 1, 2, 3, 4, 5, 6, "fell" } };
	static const struct inf_limit_status limits[] = { { "fds", 1, 2 }, { "bytes", 3, 4 } };
	static const struct inf_user_status users[] = { { 7, 3, "batch", 2, limits } };
	static const struct inf_region_info regions[] = { { "a", "b", 1, 2, 3 }, { 0 } };
	static const struct inf_output_shape outputs[] = {
		{ 3, shape, { INF_SCALAR_NONE } },
		{ 0, NULL, { INF_SCALAR_DOUBLE, .double_value = 2.5 } },
	};
	struct inf_reply back;
#define REPLY(kind_, n_fields, ...) \
	back = reply_and_back(&(struct inf_reply){ .id = 78, .kind = kind_, __VA_ARGS__ }, n_fields)
	REPLY(INF_REPLY_NONE, 0, .status = INF_MISSED_DEADLINE, .error = "too late");
	assert_string_equal(back.error, "too late");
	assert_false(back.shutting_down);
	REPLY(INF_REPLY_NONE, 0, .status = INF_UNAVAILABLE, .error = "it ends", .shutting_down = true);
	assert_true(back.shutting_down && !back.goes_on);
	REPLY(INF_REPLY_NONE, 0, .status = INF_MISSED_DEADLINE, .error = "too late", .goes_on = true);
	assert_true(back.goes_on && !back.shutting_down);
	REPLY(INF_REPLY_HELLO, 7, .hello = { 1, "inferd", "0.1", 16, 64, 3, true });
	assert_true(back.hello.has_presence);
	assert_int_equal(back.hello.weight, 3);
	assert_int_equal(back.hello.tensor_alignment, 64);
	assert_string_equal(back.error, "");
	REPLY(INF_REPLY_SERVER_METADATA, 3, .server_metadata = { "a", "b", 3, texts });
	assert_string_equal(back.server_metadata.extensions[2], "three");
	REPLY(INF_REPLY_MODEL_READY, 1, .model_ready = { true });
	REPLY(INF_REPLY_MODEL_METADATA, 8,
		.model_metadata = {
			"a", 3, texts, "executorch_pte", 2, tensors, 1, tensors, 3, texts, "xnnpack", true });
	assert_string_equal(back.model_metadata.inputs[1].name, "input_1");
	assert_memory_equal(back.model_metadata.outputs[0].dim_order, order, sizeof order);
	REPLY(INF_REPLY_REPOSITORY_INDEX, 1, .repository_index = { 1, models });
	assert_string_equal(back.repository_index.models[0].reason, "why");
	assert_string_equal(back.repository_index.models[0].files[0], "one");
	REPLY(INF_REPLY_MODEL_STATISTICS, 1, .model_statistics = { 1, stats });
	assert_memory_equal(&back.model_statistics.model_stats[0].inference_stats, &stats[0].inference_stats,
		sizeof stats[0].inference_stats);
	REPLY(INF_REPLY_SERVER_STATUS, 16,
		.server_status = { "v", 1, 2, 1, programs, 1, clients, 1, queues, 3, 4, 5, 3, texts, 3, texts, 3, texts,
			1, hosts, 1, users, 6, 7 });
	assert_int_equal(back.server_status.users[0].weight, 3);
	assert_string_equal(back.server_status.users[0].priority, "batch");
	assert_int_equal(back.server_status.users[0].limits[1].limit, 4);
	assert_int_equal(back.server_status.hosts[0].pause_ns, 6);
	assert_string_equal(back.server_status.hosts[0].reason, "fell");
	assert_int_equal(back.server_status.programs[0].median_ns, 8);
	assert_int_equal(back.server_status.programs[0].instance_bytes, 9);
	assert_int_equal(back.server_status.programs[0].cores, 10);
	assert_string_equal(back.server_status.programs[0].cores_reason, "why");
	assert_int_equal(back.server_status.memory_budget, 7);
	assert_int_equal(back.server_status.clients[0].in_flight, 8);
	assert_int_equal(back.server_status.queues[0].completed, 5);
	assert_int_equal(back.server_status.queues[0].stuck, 6);
	assert_int_equal(back.server_status.queues[0].spares, 7);
	assert_string_equal(back.server_status.warnings[2], "three");
	REPLY(INF_REPLY_METHOD_OPENED, 6, .method_opened = { 1, 2, tensors, 1, tensors, "1", "x", true });
	assert_true(back.method_opened.inputs[0].dynamic && back.method_opened.inputs[0].scalar);
	REPLY(INF_REPLY_METHOD_OPENED, 6, .method_opened = { 1, 2, tensors, 1, &string, "1", "x", true });
	assert_true(back.method_opened.outputs[0].constant && back.method_opened.outputs[0].n_text == 4);
	assert_memory_equal(back.method_opened.outputs[0].text, string.text, 4);
	REPLY(INF_REPLY_REGION_CREATED, 2, .region_created = { 1, 2 });
	REPLY(INF_REPLY_REGION_STATUS, 1, .region_status = { 2, regions });
	assert_int_equal(back.region_status.regions[0].region, 3);
	REPLY(INF_REPLY_BOUND, 3, .bound = { 1, 2, 3 });
	static const uint8_t profile[] = { 0, 1, 2, 0 };
	REPLY(INF_REPLY_INFERRED, 4, .inferred = { 1, 2, 2, outputs, sizeof profile, profile });
	assert_memory_equal(back.inferred.profile, profile, sizeof profile);
	assert_int_equal(back.inferred.outputs[0].n_shape, 3);
	assert_true(back.inferred.outputs[1].scalar.double_value == 2.5);
#undef REPLY
}

static void null_strings_are_empty(void **state)
{
	struct inf_request back = request_and_back(&(struct inf_request){ .kind = INF_REQUEST_METHOD_OPEN,
							   .method_open = { "model" } },
		1);
	assert_string_equal(back.method_open.version, "");
	assert_false(back.method_open.from_fd);
}

/* ---- what nobody should have sent ---- */

static int decode(const void *bytes, size_t n_bytes, struct inf_request *ret_request, struct et_diag *ret_diag)
{
	*ret_diag = (struct et_diag){ "" };
	memset(ret_request, 0xee, sizeof *ret_request);
	return inf_message_decode_request(ret_request, bytes, n_bytes, &codec, ret_diag);
}

static void unknown_bodies_keep_their_id(void **state)
{
	struct inf_request request;
	struct et_diag diag;
	static const char unknown[] = "\x08\x2a\xba\x06\x03\x01\x02\x03"; /* id 42, field 103 */
	assert_int_equal(decode(unknown, sizeof unknown - 1, &request, &diag), 0);
	assert_int_equal(request.id, 42);
	assert_int_equal(request.kind, INF_REQUEST_UNKNOWN);
	assert_int_equal(decode("\x08\x2a", 2, &request, &diag), 0);
	assert_int_equal(request.kind, INF_REQUEST_UNKNOWN);
	assert_int_equal(decode("", 0, &request, &diag), 0);

	struct inf_reply reply;
	/* an unknown status, and a body from a future version */
	static const char strange[] = "\x08\x2a\x10\x63\xba\x06\x01\x01";
	assert_int_equal(inf_message_decode_reply(&reply, strange, sizeof strange - 1, &codec, &diag), 0);
	assert_int_equal(reply.id, 42);
	assert_int_equal(reply.status, INF_UNKNOWN);
	assert_int_equal(reply.kind, INF_REPLY_NONE);
}

static void malformed_packets_are_refused(void **state)
{
	struct inf_request request;
	struct et_diag diag;
	static const char *const packets[] = {
		"\x12", /* a field without its length */
		"\x12\x05"
		"ab",                                               /* longer than the packet */
		"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", /* a number without an end */
		"\x0b",                                             /* a group */
		"\x5a\x03\x0a\x05"
		"a", /* a string longer than its message */
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(packets); i++) {
		assert_int_equal(decode(packets[i], strlen(packets[i]), &request, &diag), INF_MESSAGE_E_MALFORMED);
		assert_string_not_equal(diag.text, "");
	}
}

static void assert_invalid(const void *bytes, size_t n_bytes, const char *what)
{
	struct inf_request request;
	struct et_diag diag;
	assert_int_equal(decode(bytes, n_bytes, &request, &diag), INF_MESSAGE_E_INVALID);
	assert_int_equal(request.id, 7);
	assert_non_null(strstr(diag.text, what));
}

static void fields_out_of_bounds_are_named(void **state)
{
#define INVALID(bytes, what) assert_invalid(bytes, sizeof(bytes) - 1, what)
	INVALID("\x08\x07\x5a\x05\x0a\x03"
		"a\0b",
		"MethodOpen.model: not a string");
	INVALID("\x08\x07\x5a\x04\x0a\x02\xc3\x28", "MethodOpen.model: not a string");
	INVALID("\x08\x07\x5a\x04\x0a\x02\xc0\x80", "MethodOpen.model");         /* an overlong NUL */
	INVALID("\x08\x07\x5a\x05\x0a\x03\xed\xa0\x80", "MethodOpen.model");     /* surrogate */
	INVALID("\x08\x07\x5a\x06\x0a\x04\xf4\x90\x80\x80", "MethodOpen.model"); /* beyond U+10FFFF */
	INVALID("\x08\x07\x5a\x03\x0a\x01\xe2", "MethodOpen.model");             /* cut short */
	INVALID("\x08\x07\xa2\x01\x02\x10\x04", "Infer.priority: an unknown value");
	INVALID("\x08\x07\xa2\x01\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "Infer.priority");
#undef INVALID
	uint8_t bytes[600] = { 0x08, 7, 0x5a, 0x83, 2, 0x0a, 0x80, 2 };
	memset(bytes + 8, 'x', 256);
	assert_invalid(bytes, 8 + 256, "MethodOpen.model");

	int64_t long_shape[INF_MAX_DIMS + 1] = { 0 };
	struct inf_slot slot = { .n_shape = INF_MAX_DIMS + 1, .shape = long_shape };
	struct inf_request request = { .kind = INF_REQUEST_INFER, .infer = { .n_inputs = 1, .inputs = &slot } };
	size_t n_bytes;
	struct et_diag diag = { "" };
	assert_int_equal(inf_message_encode_request(&request, packet, &n_bytes, &codec, &diag), INF_MESSAGE_E_INVALID);
	assert_string_equal(diag.text, "Slot.shape: too many entries");
	static const uint8_t seventeen[] = { 8, 7, 0xa2, 1, 21, 0x22, 19, 0x22, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0 };
	assert_invalid(seventeen, sizeof seventeen, "Slot.shape: too many entries");
}

/* Two bytes can ask for a struct of a hundred bytes: the memory per packet is bounded. */
static void amplification_is_bounded(void **state)
{
	struct inf_request request;
	struct et_diag diag;
	size_t n = 60000;
	uint8_t head[] = { 0x08, 7, 0x92, 1, 0xe0, 0xd4, 3 }; /* a Bind of 60,000 bytes */
	memcpy(packet, head, sizeof head);
	for (size_t i = 0; i < n; i += 2) {
		packet[sizeof head + i] = 0x12; /* an empty Slot */
		packet[sizeof head + i + 1] = 0;
	}
	struct inf_codec bounded;
	inf_codec_init(&bounded, et_platform_allocator());
	diag = (struct et_diag){ "" };
	assert_int_equal(inf_message_decode_request(&request, packet, sizeof head + n, &bounded, &diag),
		INF_MESSAGE_E_MALFORMED);
	assert_non_null(strstr(diag.text, "too much memory"));
	assert_true(bounded.pool.n_bytes < 2 * (INF_DECODED_BASE + (size_t)INF_DECODED_PER_BYTE * (n + sizeof head)));
	inf_codec_deinit(&bounded);
}

static void too_large_requests_are_refused(void **state)
{
	static struct inf_slot many[INF_MAX_SLOTS];
	static const int64_t large[16] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
	for (size_t i = 0; i < INF_MAX_SLOTS; i++)
		many[i] = (struct inf_slot){ .region = UINT64_MAX, .n_shape = 16, .shape = large };
	struct inf_request request = { .kind = INF_REQUEST_BIND,
		.bind = { .n_inputs = INF_MAX_SLOTS, .inputs = many } };
	size_t n_bytes;
	struct et_diag diag = { "" };
	assert_int_equal(inf_message_encode_request(&request, packet, &n_bytes, &codec, &diag), INF_MESSAGE_E_INVALID);
	assert_non_null(strstr(diag.text, "more than a packet"));
}

/* ---- replies are mended and attached ---- */

static void replies_are_mended(void **state)
{
	char text[INF_MAX_TEXT + 10];
	memset(text, 'a', sizeof text);
	memcpy(text + INF_MAX_TEXT - 1, "\xc3\xa9", 3); /* a character across the bound */
	struct inf_reply reply = { .id = 1, .status = INF_INTERNAL, .error = text }, back;
	struct et_diag diag = { "" };
	size_t n_bytes;
	int fd;
	assert_int_equal(inf_message_encode_reply(&reply, packet, &n_bytes, &fd, &second), 0);
	assert_int_equal(inf_message_decode_reply(&back, packet, n_bytes, &codec, &diag), 0);
	assert_int_equal(strlen(back.error), INF_MAX_TEXT - 1);
	reply.error = "a\xff"
		      "b\xe2\x82";
	assert_int_equal(inf_message_encode_reply(&reply, packet, &n_bytes, &fd, &second), 0);
	assert_int_equal(inf_message_decode_reply(&back, packet, n_bytes, &codec, &diag), 0);
	assert_string_equal(back.error, "a?b??");
}

static void large_replies_are_attached(void **state)
{
	enum { N = 5000 };
	static struct inf_model_index models[N];
	static char names[N][32];
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof names[i], "model number %d", i);
		models[i] = (struct inf_model_index){ .name = names[i], .state = "UNLOADED" };
	}
	struct inf_reply reply = { .id = 9, .kind = INF_REPLY_REPOSITORY_INDEX, .repository_index = { N, models } };
	struct inf_reply outer, inner;
	struct et_diag diag = { "" };
	size_t n_bytes;
	int fd;
	assert_int_equal(inf_message_encode_reply(&reply, packet, &n_bytes, &fd, &second), 0);
	assert_true(fd >= 0);
	assert_true(n_bytes < 32);
	assert_int_equal(inf_message_decode_reply(&outer, packet, n_bytes, &codec, &diag), 0);
	assert_int_equal(outer.kind, INF_REPLY_ATTACHED);
	assert_int_equal(inf_message_decode_attached(&inner, &outer, fd, &codec, &diag), 0);
	assert_int_equal(inner.id, 9);
	assert_int_equal(inner.repository_index.n_models, N);
	assert_string_equal(inner.repository_index.models[N - 1].name, "model number 4999");

	/* another request's reply, one too short, one that is not sealed */
	outer = (struct inf_reply){ .id = 8, .kind = INF_REPLY_ATTACHED, .attached = { outer.attached.byte_size } };
	assert_int_equal(inf_message_decode_attached(&inner, &outer, fd, &codec, &diag), INF_MESSAGE_E_MALFORMED);
	outer.id = 9;
	outer.attached.byte_size++;
	assert_int_equal(inf_message_decode_attached(&inner, &outer, fd, &codec, &diag), INF_MESSAGE_E_MALFORMED);
	close(fd);
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(inf_message_decode_attached(&inner, &outer, fd, &codec, &diag), INF_MESSAGE_E_MALFORMED);
	close(fd);
}

/* ---- memory ---- */

struct failing {
	int n_left;
	int n_calls;
};

static void *failing_alloc(void *self, size_t n_bytes, size_t align)
{
	struct failing *failing = self;
	failing->n_calls++;
	if (failing->n_left-- <= 0)
		return NULL;
	const struct et_allocator *heap = et_platform_allocator();
	return heap->alloc(heap->self, n_bytes, align);
}

static void failing_free(void *self, void *ptr, size_t n_bytes)
{
	et_platform_allocator()->free(NULL, ptr, n_bytes);
}

static void nth_allocation_fails(void **state)
{
	struct inf_request request = {
		.id = 3, .kind = INF_REQUEST_BIND, .bind = { .n_inputs = ET_ARRAY_LEN(slots), .inputs = slots }
	};
	for (int n = 0;; n++) {
		struct failing failing = { .n_left = n };
		struct et_allocator allocator = { &failing, failing_alloc, failing_free };
		struct inf_codec one;
		inf_codec_init(&one, &allocator);
		size_t n_bytes;
		int encoded = inf_message_encode_request(&request, packet, &n_bytes, &one, NULL);
		struct inf_request back;
		int decoded = encoded ? -ENOMEM : inf_message_decode_request(&back, packet, n_bytes, &one, NULL);
		inf_codec_deinit(&one);
		if (!decoded)
			break;
		assert_int_equal(decoded, -ENOMEM);
		assert_true(n < 20);
	}
}

static void steady_state_allocates_nothing(void **state)
{
	struct failing failing = { .n_left = 1000 };
	struct et_allocator allocator = { &failing, failing_alloc, failing_free };
	struct inf_codec one;
	inf_codec_init(&one, &allocator);
	int n_calls = 0;
	for (int i = 0; i < 10; i++) {
		struct inf_request request = { .id = 3, .kind = INF_REQUEST_INFER, .infer = { .binding = 4 } }, back;
		struct inf_reply reply = { .id = 3, .kind = INF_REPLY_INFERRED, .inferred = { 5, 6 } }, answer;
		size_t n_bytes;
		int fd;
		assert_int_equal(inf_message_encode_request(&request, packet, &n_bytes, &one, NULL), 0);
		assert_int_equal(inf_message_decode_request(&back, packet, n_bytes, &one, NULL), 0);
		assert_int_equal(inf_message_encode_reply(&reply, packet, &n_bytes, &fd, &one), 0);
		assert_int_equal(inf_message_decode_reply(&answer, packet, n_bytes, &one, NULL), 0);
		if (i == 4)
			n_calls = failing.n_calls;
	}
	assert_int_equal(failing.n_calls, n_calls);
	inf_codec_deinit(&one);
}

/* Every packet above with each byte changed, and cut at each length: always an answer, never a crash. */
static void damaged_packets_are_answered(void **state)
{
	struct inf_request request = { .id = 3,
		.kind = INF_REQUEST_BIND,
		.bind = { .n_inputs = ET_ARRAY_LEN(slots), .inputs = slots } },
			   back;
	size_t n_bytes, n_again;
	assert_int_equal(inf_message_encode_request(&request, packet, &n_bytes, &second, NULL), 0);
	for (size_t n = 0; n < n_bytes; n++) {
		int rc = inf_message_decode_request(&back, packet, n, &codec, NULL);
		assert_in_range(rc, 0, INF_MESSAGE_E_INVALID);
	}
	for (size_t i = 0; i < n_bytes; i++) {
		uint8_t kept = packet[i];
		for (int bit = 0; bit < 8; bit++) {
			packet[i] = kept ^ (uint8_t)(1 << bit);
			int rc = inf_message_decode_request(&back, packet, n_bytes, &codec, NULL);
			assert_in_range(rc, 0, INF_MESSAGE_E_INVALID);
			if (!rc) /* a message that was accepted can be encoded again */
				assert_int_equal(inf_message_encode_request(&back, again, &n_again, &second, NULL), 0);
		}
		packet[i] = kept;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(protocols_are_chosen),
		cmocka_unit_test_setup_teardown(requests_come_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(replies_come_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(null_strings_are_empty, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unknown_bodies_keep_their_id, set_up, tear_down),
		cmocka_unit_test_setup_teardown(malformed_packets_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(fields_out_of_bounds_are_named, set_up, tear_down),
		cmocka_unit_test_setup_teardown(amplification_is_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(too_large_requests_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(replies_are_mended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(large_replies_are_attached, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nth_allocation_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(steady_state_allocates_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damaged_packets_are_answered, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
