/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to packets and back. Only this file knows protobuf-c.
 *
 * protobuf-c unpacks into generated structs. It does not check bounds, does not see a NUL inside a string, and
 * allocates memory for every message. So a second step walks the generated structs with the table of fields in
 * message_fields_internal.h, checks each field and fills our struct. Encoding uses the same table in the other
 * direction.
 *
 * What must always be true:
 *   - All memory comes from the codec (codec.c), within the budget of the current message. protobuf-c can handle an
 *     allocator that refuses.
 *   - Decoding an Infer request allocates nothing and copies only a few numbers. */
#include "ipc/codec_internal.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include "inferd.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/message_fields_internal.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " is the number on the wire")
SAME(INF_REQUEST_CANCEL, INFERD__WIRE__REQUEST__BODY_CANCEL);
SAME(INF_REQUEST_BACKEND_RESTART, INFERD__WIRE__REQUEST__BODY_BACKEND_RESTART);
SAME(INF_REQUEST_INFER, INFERD__WIRE__REQUEST__BODY_INFER);
SAME(INF_REPLY_INFERRED, INFERD__WIRE__REPLY__BODY_INFERRED);
SAME(INF_REPLY_ATTACHED, INFERD__WIRE__REPLY__BODY_ATTACHED);
SAME(INF_BACKEND_CRASHED, INFERD__WIRE__STATUS__BACKEND_CRASHED);
SAME(INF_IDLE, INFERD__WIRE__PRIORITY__IDLE);

uint32_t inf_protocol_choose(const struct inf_hello *hello)
{
	uint32_t oldest = hello->oldest_protocol ? hello->oldest_protocol : hello->protocol;
	uint32_t newest = hello->protocol < INF_PROTOCOL ? hello->protocol : INF_PROTOCOL;
	return newest >= oldest && newest >= INF_PROTOCOL_OLDEST ? newest : 0;
}

const char *inf_status_text(int status)
{
	switch ((enum inf_status)status) {
	case INF_OK:
		return "ok";
	case INF_CANCELLED:
		return "cancelled";
	case INF_UNKNOWN:
		return "unknown error";
	case INF_INVALID_ARGUMENT:
		return "invalid argument";
	case INF_NOT_FOUND:
		return "not found";
	case INF_PERMISSION_DENIED:
		return "permission denied";
	case INF_RESOURCE_EXHAUSTED:
		return "resource exhausted";
	case INF_FAILED_PRECONDITION:
		return "failed precondition";
	case INF_UNIMPLEMENTED:
		return "unimplemented";
	case INF_INTERNAL:
		return "internal error";
	case INF_UNAVAILABLE:
		return "unavailable";
	case INF_BUSY:
		return "busy";
	case INF_MISSED_DEADLINE:
		return "missed deadline";
	case INF_STATE_LOST:
		return "state lost";
	case INF_BACKEND_CRASHED:
		return "backend crashed";
	}
	return NULL;
}

static const struct shape *body_find(const struct shape *const *bodies, size_t n, unsigned kind)
{
	return kind < n ? bodies[kind] : NULL;
}

const char *inf_request_kind_name(enum inf_request_kind kind)
{
	const struct shape *shape = body_find(request_bodies, ET_ARRAY_LEN(request_bodies), kind);
	return shape ? shape->descriptor->short_name : "unknown";
}

size_t inf_request_n_fds(const struct inf_request *request)
{
	switch (request->kind) {
	case INF_REQUEST_REGION_REGISTER:
		return 1;
	case INF_REQUEST_METHOD_OPEN:
		return request->method_open.from_fd ? 1 + (size_t)request->method_open.data_fds : 0;
	default:
		return 0;
	}
}

/* ---- decoding ---- */

/* Passed along while one message is decoded or encoded. */
struct coding {
	struct inf_codec *codec;
	struct et_diag *diag;
	bool mends; /* encoding: overlong or invalid strings are mended, not refused */
};

static int no_memory(const struct coding *coding)
{
	if (coding->codec->refused)
		return -ENOMEM;
	et_fail(coding->diag, ET_E_OUT_OF_RESOURCES, "the message needs too much memory");
	return INF_MESSAGE_E_MALFORMED;
}

static int bad_field(const struct coding *coding, const struct shape *shape, const struct field *field,
	const char *what)
{
	et_fail(coding->diag, ET_E_INVALID_ARGUMENT, "%s.%s: %s", shape->descriptor->short_name, field->name, what);
	return INF_MESSAGE_E_INVALID;
}

/* Check a received string; "" if it is absent. NULL: not acceptable. */
static const char *string_decode(const char *text, size_t max)
{
	return text && text != protobuf_c_empty_string ? inf_codec_check_string(text, max) : "";
}

static const char bad_string[] = "not a string of valid UTF-8 within its bound";
static const char bad_count[] = "too many entries";

/* A field at its offset, for reading and writing. */
#define AT(base, offset, type) (*(type *)((uint8_t *)(base) + (offset)))

static int message_decode(const struct coding *coding, const struct shape *shape, const void *theirs, void *ours);

static void scalar_decode(const struct field *field, const uint8_t *theirs, struct inf_scalar *ret_scalar)
{
	uint32_t number = AT(theirs, field->theirs_n, const uint32_t);
	const void *value = theirs + field->theirs;
	*ret_scalar = (struct inf_scalar){ .kind = INF_SCALAR_NONE };
	if (number == field->max) {
		ret_scalar->kind = INF_SCALAR_INT;
		ret_scalar->int_value = *(const int64_t *)value;
	} else if (number == field->max + 1) {
		ret_scalar->kind = INF_SCALAR_DOUBLE;
		ret_scalar->double_value = *(const double *)value;
	} else if (number == field->max + 2) {
		ret_scalar->kind = INF_SCALAR_BOOL;
		ret_scalar->bool_value = *(const protobuf_c_boolean *)value;
	}
}

/* Decode an array. Its count was checked and is not 0. */
static int array_decode(const struct coding *coding, const struct shape *shape, const struct field *field,
	const void *theirs, size_t n, const void **ret_items)
{
	if (field->kind == FIELD_NUMBERS) {
		*ret_items = AT(theirs, field->theirs, const void *const);
		return 0;
	}
	if (field->kind == FIELD_STRINGS) {
		char *const *from = AT(theirs, field->theirs, char **const);
		const char **to = inf_codec_array(coding->codec, n, sizeof *to);
		if (!to)
			return no_memory(coding);
		for (size_t i = 0; i < n; i++) {
			to[i] = string_decode(from[i], INF_MAX_TEXT);
			if (!to[i])
				return bad_field(coding, shape, field, bad_string);
		}
		*ret_items = to;
		return 0;
	}
	const void *const *from = AT(theirs, field->theirs, const void *const *const);
	uint8_t *to = inf_codec_array(coding->codec, n, field->message->n_ours);
	if (!to)
		return no_memory(coding);
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = message_decode(coding, field->message, from[i], to + i * field->message->n_ours);
	*ret_items = to;
	return rc;
}

static int field_decode(const struct coding *coding, const struct shape *shape, const struct field *field,
	const void *theirs, void *ours)
{
	switch (field->kind) {
	case FIELD_NUMBER:
		if (field->max == 8)
			AT(ours, field->ours, uint64_t) = AT(theirs, field->theirs, const uint64_t);
		else
			AT(ours, field->ours, uint32_t) = AT(theirs, field->theirs, const uint32_t);
		return 0;
	case FIELD_BOOL:
		AT(ours, field->ours, bool) = AT(theirs, field->theirs, const protobuf_c_boolean) != 0;
		return 0;
	case FIELD_ENUM:
		AT(ours, field->ours, uint32_t) = AT(theirs, field->theirs, const uint32_t);
		if (AT(ours, field->ours, uint32_t) > field->max)
			return bad_field(coding, shape, field, "an unknown value");
		return 0;
	case FIELD_STRING:
		AT(ours, field->ours, const char *) = string_decode(AT(theirs, field->theirs, const char *const),
			field->max);
		if (!AT(ours, field->ours, const char *))
			return bad_field(coding, shape, field, bad_string);
		return 0;
	case FIELD_SCALAR:
		scalar_decode(field, theirs, &AT(ours, field->ours, struct inf_scalar));
		return 0;
	case FIELD_MESSAGE:
		return message_decode(coding, field->message, AT(theirs, field->theirs, const void *const),
			(uint8_t *)ours + field->ours);
	case FIELD_BYTES: {
		const ProtobufCBinaryData *bytes = &AT(theirs, field->theirs, const ProtobufCBinaryData);
		AT(ours, field->ours_n, size_t) = bytes->len;
		AT(ours, field->ours, const uint8_t *) = bytes->data;
		return bytes->len > field->max ? bad_field(coding, shape, field, bad_count) : 0;
	}
	case FIELD_NUMBERS:
	case FIELD_STRINGS:
	case FIELD_MESSAGES:
		break;
	}
	size_t n = AT(theirs, field->theirs_n, const size_t);
	AT(ours, field->ours_n, size_t) = n;
	AT(ours, field->ours, const void *) = NULL;
	if (n > field->max)
		return bad_field(coding, shape, field, bad_count);
	return n ? array_decode(coding, shape, field, theirs, n, &AT(ours, field->ours, const void *)) : 0;
}

/* Decode one message. @theirs NULL: it is absent; all fields become empty. */
static int message_decode(const struct coding *coding, const struct shape *shape, const void *theirs, void *ours)
{
	void *empty = NULL;
	if (!theirs) {
		empty = inf_codec_alloc(coding->codec, shape->descriptor->sizeof_message);
		if (!empty)
			return no_memory(coding);
		protobuf_c_message_init(shape->descriptor, empty);
		theirs = empty;
	}
	int rc = 0;
	for (size_t i = 0; i < shape->n_fields && !rc; i++)
		rc = field_decode(coding, shape, &shape->fields[i], theirs, ours);
	return rc;
}

/* Unpack with protobuf-c. */
static int unpack(const struct coding *coding, const ProtobufCMessageDescriptor *descriptor, const void *bytes,
	size_t n_bytes, void *ret_message)
{
	size_t budget;
	if (!et_mul(n_bytes, INF_DECODED_PER_BYTE, &budget) || !et_add(budget, INF_DECODED_BASE, &budget))
		return no_memory(coding);
	inf_codec_begin(coding->codec, budget);
	ProtobufCAllocator allocator = {
		.alloc = inf_codec_alloc, .free = inf_codec_free, .allocator_data = coding->codec
	};
	ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, n_bytes, bytes);
	if (!message) {
		if (coding->codec->refused)
			return -ENOMEM;
		et_fail(coding->diag, ET_E_INVALID_ARGUMENT, "the packet is not a valid %s, or needs too much memory",
			descriptor->short_name);
		return INF_MESSAGE_E_MALFORMED;
	}
	*(ProtobufCMessage **)ret_message = message;
	return 0;
}

int inf_message_decode_request(struct inf_request *ret_request, const void *packet, size_t n_bytes,
	struct inf_codec *codec, struct et_diag *diag)
{
	struct coding coding = { .codec = codec, .diag = diag };
	Inferd__Wire__Request *message;
	int rc = unpack(&coding, &inferd__wire__request__descriptor, packet, n_bytes, &message);
	if (rc)
		return rc;
	ret_request->id = message->id;
	ret_request->kind = INF_REQUEST_UNKNOWN;
	const struct shape *body = body_find(request_bodies, ET_ARRAY_LEN(request_bodies), message->body_case);
	if (!body)
		return 0;
	ret_request->kind = (enum inf_request_kind)message->body_case;
	return message_decode(&coding, body, message->hello, &ret_request->hello);
}

static int reply_decode(struct inf_reply *ret_reply, const void *bytes, size_t n_bytes, const struct coding *coding)
{
	Inferd__Wire__Reply *message;
	int rc = unpack(coding, &inferd__wire__reply__descriptor, bytes, n_bytes, &message);
	if (rc)
		return rc;
	ret_reply->id = message->id;
	ret_reply->kind = INF_REPLY_NONE;
	ret_reply->status = inf_status_text((int)message->status) ? (enum inf_status)message->status : INF_UNKNOWN;
	ret_reply->shutting_down = message->shutting_down;
	ret_reply->goes_on = message->goes_on;
	ret_reply->error = string_decode(message->error, INF_MAX_TEXT);
	if (!ret_reply->error) {
		et_fail(coding->diag, ET_E_INVALID_ARGUMENT, "Reply.error: %s", bad_string);
		ret_reply->error = "";
		return INF_MESSAGE_E_INVALID;
	}
	const struct shape *body = body_find(reply_bodies, ET_ARRAY_LEN(reply_bodies), message->body_case);
	if (!body)
		return 0;
	ret_reply->kind = (enum inf_reply_kind)message->body_case;
	return message_decode(coding, body, message->hello, &ret_reply->hello);
}

int inf_message_decode_reply(struct inf_reply *ret_reply, const void *packet, size_t n_bytes, struct inf_codec *codec,
	struct et_diag *diag)
{
	struct coding coding = { .codec = codec, .diag = diag };
	return reply_decode(ret_reply, packet, n_bytes, &coding);
}

int inf_message_decode_attached(struct inf_reply *ret_reply, const struct inf_reply *outer, int fd,
	struct inf_codec *codec, struct et_diag *diag)
{
	uint64_t n_bytes = outer->attached.byte_size, id = outer->id;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK) ||
		fstat(fd, &st) < 0 || !n_bytes || (uint64_t)st.st_size < n_bytes || n_bytes > INF_MAX_ATTACHED) {
		et_fail(diag, ET_E_INVALID_ARGUMENT, "the attached reply is not a sealed memfd of the size it says");
		return INF_MESSAGE_E_MALFORMED;
	}
	struct et_platform_mapping mapping;
	int rc = et_platform_map(&mapping, fd, n_bytes, false);
	if (rc)
		return rc;
	struct coding coding = { .codec = codec, .diag = diag };
	rc = reply_decode(ret_reply, mapping.bytes, n_bytes, &coding);
	et_platform_unmap(&mapping);
	if (!rc && (ret_reply->id != id || ret_reply->kind == INF_REPLY_ATTACHED)) {
		et_fail(diag, ET_E_INVALID_ARGUMENT, "the attached reply belongs to another request");
		return INF_MESSAGE_E_MALFORMED;
	}
	return rc;
}

/* ---- encoding ---- */

static int message_encode(const struct coding *coding, const struct shape *shape, const void *ours, void *ret_theirs);

static bool string_fits(const char *text, size_t max)
{
	return strnlen(text, max + 1) <= max && inf_codec_is_utf8(text);
}

/* @text, or a copy that is cut and mended where it has to be; NULL: no memory. */
static const char *string_mended(struct inf_codec *codec, const char *text, size_t max)
{
	if (!text)
		return "";
	return string_fits(text, max) ? text : inf_codec_mend_string(codec, text, max);
}

static int string_encode(const struct coding *coding, const struct shape *shape, const struct field *field,
	const char *text, size_t max, char **ret_text)
{
	if (!coding->mends && text && !string_fits(text, max))
		return bad_field(coding, shape, field, bad_string);
	text = string_mended(coding->codec, text, max);
	if (!text)
		return -ENOMEM;
	*ret_text = (char *)text; /* protobuf-c only reads it */
	return 0;
}

static void scalar_encode(const struct field *field, const struct inf_scalar *scalar, uint8_t *theirs)
{
	uint32_t *number = &AT(theirs, field->theirs_n, uint32_t);
	void *value = theirs + field->theirs;
	switch (scalar->kind) {
	case INF_SCALAR_NONE:
		return;
	case INF_SCALAR_INT:
		*number = field->max;
		*(int64_t *)value = scalar->int_value;
		return;
	case INF_SCALAR_DOUBLE:
		*number = field->max + 1;
		*(double *)value = scalar->double_value;
		return;
	case INF_SCALAR_BOOL:
		*number = field->max + 2;
		*(protobuf_c_boolean *)value = scalar->bool_value;
		return;
	}
}

static int array_encode(const struct coding *coding, const struct shape *shape, const struct field *field,
	const void *ours, size_t n, void **ret_items)
{
	if (field->kind == FIELD_NUMBERS) {
		*ret_items = AT(ours, field->ours, void *const);
		return 0;
	}
	int rc = 0;
	void **to = inf_codec_array(coding->codec, n, sizeof *to);
	if (!to)
		return -ENOMEM;
	*ret_items = to;
	if (field->kind == FIELD_STRINGS) {
		const char *const *from = AT(ours, field->ours, const char *const *const);
		for (size_t i = 0; i < n && !rc; i++)
			rc = string_encode(coding, shape, field, from[i], INF_MAX_TEXT, (char **)&to[i]);
		return rc;
	}
	const uint8_t *from = AT(ours, field->ours, const uint8_t *const);
	for (size_t i = 0; i < n && !rc; i++) {
		to[i] = inf_codec_alloc(coding->codec, field->message->descriptor->sizeof_message);
		if (!to[i])
			return -ENOMEM;
		rc = message_encode(coding, field->message, from + i * field->message->n_ours, to[i]);
	}
	return rc;
}

static int field_encode(const struct coding *coding, const struct shape *shape, const struct field *field,
	const void *ours, void *theirs)
{
	switch (field->kind) {
	case FIELD_NUMBER:
		if (field->max == 8)
			AT(theirs, field->theirs, uint64_t) = AT(ours, field->ours, const uint64_t);
		else
			AT(theirs, field->theirs, uint32_t) = AT(ours, field->ours, const uint32_t);
		return 0;
	case FIELD_BOOL:
		AT(theirs, field->theirs, protobuf_c_boolean) = AT(ours, field->ours, const bool);
		return 0;
	case FIELD_ENUM:
		AT(theirs, field->theirs, uint32_t) = AT(ours, field->ours, const uint32_t);
		if (AT(ours, field->ours, const uint32_t) > field->max)
			return bad_field(coding, shape, field, "an unknown value");
		return 0;
	case FIELD_STRING:
		return string_encode(coding, shape, field, AT(ours, field->ours, const char *const), field->max,
			&AT(theirs, field->theirs, char *));
	case FIELD_SCALAR:
		scalar_encode(field, &AT(ours, field->ours, const struct inf_scalar), theirs);
		return 0;
	case FIELD_MESSAGE: {
		void *message = inf_codec_alloc(coding->codec, field->message->descriptor->sizeof_message);
		if (!message)
			return -ENOMEM;
		AT(theirs, field->theirs, void *) = message;
		return message_encode(coding, field->message, (const uint8_t *)ours + field->ours, message);
	}
	case FIELD_BYTES: {
		ProtobufCBinaryData *bytes = &AT(theirs, field->theirs, ProtobufCBinaryData);
		bytes->len = AT(ours, field->ours_n, const size_t);
		bytes->data = AT(ours, field->ours, uint8_t *const); /* protobuf-c only reads it */
		return bytes->len > field->max ? bad_field(coding, shape, field, bad_count) : 0;
	}
	case FIELD_NUMBERS:
	case FIELD_STRINGS:
	case FIELD_MESSAGES:
		break;
	}
	size_t n = AT(ours, field->ours_n, const size_t);
	if (n > field->max)
		return bad_field(coding, shape, field, bad_count);
	AT(theirs, field->theirs_n, size_t) = n;
	return n ? array_encode(coding, shape, field, ours, n, &AT(theirs, field->theirs, void *)) : 0;
}

static int message_encode(const struct coding *coding, const struct shape *shape, const void *ours, void *ret_theirs)
{
	protobuf_c_message_init(shape->descriptor, ret_theirs);
	int rc = 0;
	for (size_t i = 0; i < shape->n_fields && !rc; i++)
		rc = field_encode(coding, shape, &shape->fields[i], ours, ret_theirs);
	return rc;
}

/* Fill in the generated struct of a body; NULL for a kind without a body. */
static int body_encode(const struct coding *coding, const struct shape *shape, const void *ours, void **ret_message)
{
	void *message = inf_codec_alloc(coding->codec, shape->descriptor->sizeof_message);
	if (!message)
		return -ENOMEM;
	*ret_message = message;
	return message_encode(coding, shape, ours, message);
}

int inf_message_encode_request(const struct inf_request *request, void *packet, size_t *ret_n_bytes,
	struct inf_codec *codec, struct et_diag *diag)
{
	struct coding coding = { .codec = codec, .diag = diag };
	inf_codec_begin(codec, SIZE_MAX);
	Inferd__Wire__Request message;
	inferd__wire__request__init(&message);
	message.id = request->id;
	const struct shape *body = body_find(request_bodies, ET_ARRAY_LEN(request_bodies), request->kind);
	if (body) {
		message.body_case = (Inferd__Wire__Request__BodyCase)request->kind;
		int rc = body_encode(&coding, body, &request->hello, (void **)&message.hello);
		if (rc)
			return rc;
	}
	size_t n_bytes = inferd__wire__request__get_packed_size(&message);
	if (n_bytes > INF_MAX_PACKET) {
		et_fail(diag, ET_E_INVALID_ARGUMENT, "the request takes %zu bytes, more than a packet holds (%d)",
			n_bytes, INF_MAX_PACKET);
		return INF_MESSAGE_E_INVALID;
	}
	*ret_n_bytes = inferd__wire__request__pack(&message, packet);
	return 0;
}

/* Pack the reply into a sealed memfd. Returns its descriptor, or negative errno. */
static int attach(const Inferd__Wire__Reply *message, size_t n_bytes)
{
	int fd = memfd_create("inferd-reply", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	uint8_t *bytes = MAP_FAILED;
	if (ftruncate(fd, (off_t)n_bytes) == 0)
		bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		goto broken;
	inferd__wire__reply__pack(message, bytes);
	munmap(bytes, n_bytes); /* a file with a writable mapping cannot be sealed against writing */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
broken:;
	int rc = -errno;
	close(fd);
	return rc;
}

int inf_message_encode_reply(const struct inf_reply *reply, void *packet, size_t *ret_n_bytes, int *ret_fd,
	struct inf_codec *codec)
{
	struct coding coding = { .codec = codec, .mends = true };
	inf_codec_begin(codec, SIZE_MAX);
	Inferd__Wire__Reply message;
	inferd__wire__reply__init(&message);
	message.id = reply->id;
	message.status = (Inferd__Wire__Status)reply->status;
	message.shutting_down = reply->shutting_down;
	message.goes_on = reply->goes_on;
	message.error = (char *)string_mended(codec, reply->error, INF_MAX_TEXT);
	if (!message.error)
		return -ENOMEM;
	const struct shape *body = body_find(reply_bodies, ET_ARRAY_LEN(reply_bodies), reply->kind);
	if (body) {
		message.body_case = (Inferd__Wire__Reply__BodyCase)reply->kind;
		int rc = body_encode(&coding, body, &reply->hello, (void **)&message.hello);
		if (rc) /* positive: a list with more than INF_MAX_LIST entries */
			return rc > 0 ? -EOVERFLOW : rc;
	}
	int fd = -1;
	size_t n_bytes = inferd__wire__reply__get_packed_size(&message);
	Inferd__Wire__Attached attached = INFERD__WIRE__ATTACHED__INIT;
	if (n_bytes > INF_MAX_PACKET) {
		if (n_bytes > INF_MAX_ATTACHED)
			return -EOVERFLOW;
		fd = attach(&message, n_bytes);
		if (fd < 0)
			return fd;
		attached.byte_size = n_bytes;
		message.error = (char *)protobuf_c_empty_string;
		message.body_case = INFERD__WIRE__REPLY__BODY_ATTACHED;
		message.attached = &attached;
	}
	*ret_n_bytes = inferd__wire__reply__pack(&message, packet);
	*ret_fd = fd;
	return 0;
}
