/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is a message of a client or of a daemon. A message that decodes must encode again, to the
 * same message. No memory may leak, also if an allocation fails half-way. The first byte selects which allocation
 * fails. */
#include "ipc/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/counting_alloc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t first[INF_MAX_PACKET], second[INF_MAX_PACKET];

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Two codecs: what the decoder gave is valid while the encoder works. */
struct codecs {
	struct counting_alloc counting;
	struct et_allocator allocator;
	struct inf_codec decoder, encoder;
	bool may_fail;
};

static void codecs_init(struct codecs *c, size_t fail_at)
{
	*c = (struct codecs){ .counting = { .fail_at = fail_at }, .may_fail = fail_at != 0 };
	c->allocator = counting_allocator(&c->counting);
	inf_codec_init(&c->decoder, &c->allocator);
	inf_codec_init(&c->encoder, &c->allocator);
}

static void codecs_deinit(struct codecs *c)
{
	inf_codec_deinit(&c->decoder);
	inf_codec_deinit(&c->encoder);
	must(c->counting.n_live == 0);
}

/* Whether the answer means that it decoded. */
static bool is_decoded(const struct codecs *c, int rc, const struct et_diag *diag)
{
	must(rc <= INF_MESSAGE_E_INVALID && (rc >= 0 || c->may_fail));
	must(rc <= 0 || diag->text[0]);
	return rc == 0;
}

/* Whether it could be encoded, which only lack of memory may prevent. */
static bool is_encoded(const struct codecs *c, int rc)
{
	must(rc == 0 || (rc < 0 && c->may_fail));
	return rc == 0;
}

static void try_request(struct codecs *c, const uint8_t *bytes, size_t n_bytes)
{
	struct inf_request request, again;
	struct et_diag diag = { 0 };
	size_t n_first, n_second;
	if (!is_decoded(c, inf_message_decode_request(&request, bytes, n_bytes, &c->decoder, &diag), &diag))
		return;
	must(inf_request_kind_name(request.kind) && inf_request_n_fds(&request) <= INF_MAX_PACKET_FDS);
	if (!is_encoded(c, inf_message_encode_request(&request, first, &n_first, &c->encoder, &diag)))
		return;
	uint64_t id = request.id;
	enum inf_request_kind kind = request.kind;
	int rc = inf_message_decode_request(&again, first, n_first, &c->decoder, &diag);
	must(rc == 0 || c->may_fail);
	if (rc || !is_encoded(c, inf_message_encode_request(&again, second, &n_second, &c->encoder, &diag)))
		return;
	must(again.id == id && again.kind == kind);
	must(n_first == n_second && memcmp(first, second, n_first) == 0);
}

/* Decode what encode_reply gave, be it in a packet or beside it. */
static int decode_whole(struct codecs *c, struct inf_reply *ret_reply, size_t n_bytes, int fd, struct et_diag *diag)
{
	struct inf_reply outer;
	int rc = inf_message_decode_reply(&outer, first, n_bytes, &c->decoder, diag);
	if (fd < 0)
		*ret_reply = outer;
	else if (!rc)
		rc = inf_message_decode_attached(ret_reply, &outer, fd, &c->decoder, diag);
	return rc;
}

static void try_reply(struct codecs *c, const uint8_t *bytes, size_t n_bytes)
{
	struct inf_reply reply, again;
	struct et_diag diag = { 0 };
	size_t n_first, n_second;
	int fd;
	if (!is_decoded(c, inf_message_decode_reply(&reply, bytes, n_bytes, &c->decoder, &diag), &diag))
		return;
	if (reply.kind == INF_REPLY_ATTACHED) {
		must(inf_message_decode_attached(&again, &reply, -1, &c->decoder, &diag) != 0);
		return;
	}
	if (!is_encoded(c, inf_message_encode_reply(&reply, first, &n_first, &fd, &c->encoder)))
		return;
	int rc = decode_whole(c, &again, n_first, fd, &diag);
	must(rc == 0 || c->may_fail);
	if (fd >= 0)
		close(fd);
	if (rc || !is_encoded(c, inf_message_encode_reply(&again, second, &n_second, &fd, &c->encoder)))
		return;
	if (fd >= 0)
		close(fd);
	must(n_first == n_second && memcmp(first, second, n_first) == 0);
}

/* The bytes as the memory that came beside an Attached reply. */
static void try_attached(struct codecs *c, const uint8_t *bytes, size_t n_bytes)
{
	struct inf_reply outer = { .id = 1, .kind = INF_REPLY_ATTACHED, .attached = { n_bytes } }, reply;
	struct et_diag diag = { 0 };
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
	must(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK) == 0);
	is_decoded(c, inf_message_decode_attached(&reply, &outer, fd, &c->decoder, &diag), &diag);
	close(fd);
}

/* The bytes as strings and numbers of our own: a request may refuse them, a reply mends the strings. */
static void try_own(struct codecs *c, const uint8_t *bytes, size_t n_bytes)
{
	char *text = malloc(n_bytes + 1);
	must(text != NULL);
	memcpy(text, bytes, n_bytes);
	text[n_bytes] = '\0';
	struct et_diag diag = { 0 };
	size_t n;
	int fd;
	const struct inf_request ready = { .kind = INF_REQUEST_MODEL_READY, .model_ready = { text, "1" } };
	int rc = inf_message_encode_request(&ready, first, &n, &c->encoder, &diag);
	must(rc == 0 || rc == INF_MESSAGE_E_INVALID || c->may_fail);
	const int64_t sizes[INF_MAX_DIMS] = { -1 };
	static struct inf_slot slots[INF_MAX_SLOTS];
	for (size_t i = 0; i < INF_MAX_SLOTS; i++)
		slots[i] = (struct inf_slot){ .region = UINT64_MAX,
			.offset = UINT64_MAX,
			.byte_size = UINT64_MAX,
			.n_shape = n_bytes % (INF_MAX_DIMS + 2),
			.shape = sizes };
	const struct inf_request infer = { .kind = INF_REQUEST_INFER,
		.infer = { .priority = n_bytes % 5, .n_inputs = INF_MAX_SLOTS, .inputs = slots } };
	rc = inf_message_encode_request(&infer, first, &n, &c->encoder, &diag);
	must(rc == 0 || rc == INF_MESSAGE_E_INVALID || c->may_fail);

	const char *const names[] = { text };
	const struct inf_reply reply = { .status = INF_INTERNAL,
		.error = text,
		.kind = INF_REPLY_SERVER_METADATA,
		.server_metadata = { text, NULL, 1, names } };
	if (is_encoded(c, inf_message_encode_reply(&reply, first, &n, &fd, &c->encoder))) {
		struct inf_reply back;
		rc = inf_message_decode_reply(&back, first, n, &c->decoder, &diag);
		must(rc == 0 || c->may_fail);
	}
	const struct inf_reply endless = { .kind = INF_REPLY_SERVER_METADATA,
		.server_metadata = { .n_extensions = INF_MAX_LIST + 1, .extensions = names } };
	must(inf_message_encode_reply(&endless, first, &n, &fd, &c->encoder) < 0);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	if (n_bytes < 1 || n_bytes > INF_MAX_PACKET)
		return 0;
	size_t fail_at = bytes[0] % 8; /* 0: never */
	bool is_attached = bytes[0] & 8, is_own = bytes[0] & 16;
	bytes++;
	n_bytes--;
	for (int status = -1; status < 70; status++)
		inf_status_text(status);
	struct codecs c;
	codecs_init(&c, fail_at);
	try_request(&c, bytes, n_bytes);
	try_reply(&c, bytes, n_bytes);
	if (is_attached)
		try_attached(&c, bytes, n_bytes);
	if (is_own)
		try_own(&c, bytes, n_bytes);
	codecs_deinit(&c);
	return 0;
}
