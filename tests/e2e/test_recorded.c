/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that were recorded, byte by byte, with the libraries of the time: this daemon must still answer them as
 * then.
 *
 *     test_e2e_recorded INFERD                  replay each file of tests/e2e/recorded
 *     test_e2e_recorded INFERD --record FILE    record a session with the library of now
 *
 * A file has one line for each packet: '>' and the bytes that the client sent, '<' and the bytes of the answer,
 * both in hexadecimal; "> +" in front says that the descriptor of a memfd travels beside the packet. '#' begins a
 * comment. The daemon numbers objects from 1 in each session, so the numbers in the packets are valid again. Before
 * each Infer the test writes to the inputs, and then checks the outputs; nobody records those.
 *
 * What the daemon may change: its name and version, limits, times, texts, and fields that the recorded library
 * ignores. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGION_BYTES = 4096, MAX_REGIONS = 4 };

/* The session's memory, which all bindings use alike: an input at 0, an output at 64. */
struct session {
	struct e2e_raw *raw;
	float *regions[MAX_REGIONS];
	size_t n_regions, n_infers;
	FILE *record; /* NULL: replay */
};

static int make_memfd(void)
{
	int fd = memfd_create("recorded", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, REGION_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static void map_region(struct session *s, int fd)
{
	assert_true(s->n_regions < MAX_REGIONS);
	float *at = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	s->regions[s->n_regions++] = at;
}

static void unmap_regions(struct session *s)
{
	while (s->n_regions)
		munmap(s->regions[--s->n_regions], REGION_BYTES);
}

static void write_inputs(struct session *s)
{
	s->n_infers++;
	for (size_t i = 0; i < s->n_regions; i++)
		for (size_t k = 0; k < 4; k++)
			s->regions[i][k] = (float)(s->n_infers + k);
}

/* One of the regions has twice its input as output; which one, the recorded binding says. */
static void check_outputs(const struct session *s)
{
	bool is_there = false;
	for (size_t i = 0; i < s->n_regions; i++)
		is_there |= s->regions[i][16] == 2 * s->regions[i][0] && s->regions[i][19] == 2 * s->regions[i][3];
	assert_true(is_there);
}

/* ---- recording ---- */

static void print_packet(FILE *file, const char *mark, const uint8_t *bytes, size_t n_bytes)
{
	fprintf(file, "%s ", mark);
	for (size_t i = 0; i < n_bytes; i++)
		fprintf(file, "%02x", bytes[i]);
	fprintf(file, "\n");
}

/* Send @request, record both packets, and return the answer. */
static struct inf_reply record(struct session *s, struct inf_request request)
{
	struct inf_reply reply;
	struct et_diag diag = { "" };
	int fds[INF_MAX_PACKET_FDS], fd = inf_request_n_fds(&request) ? make_memfd() : -1;
	size_t n_bytes, n_fds;
	request.id = ++s->raw->last_id;
	if (request.kind == INF_REQUEST_INFER)
		write_inputs(s);
	assert_int_equal(inf_message_encode_request(&request, s->raw->packet, &n_bytes, &s->raw->encoder, &diag), 0);
	print_packet(s->record, fd >= 0 ? "> +" : ">", s->raw->packet, n_bytes);
	assert_int_equal(inf_channel_send(&s->raw->channel, s->raw->packet, n_bytes, &fd, fd >= 0), 0);
	assert_int_equal(inf_channel_wait(&s->raw->channel, s->raw->packet, sizeof(s->raw->packet), &n_bytes, fds,
				 &n_fds),
		0);
	print_packet(s->record, "<", s->raw->packet, n_bytes);
	assert_int_equal(inf_message_decode_reply(&reply, s->raw->packet, n_bytes, &s->raw->decoder, &diag), 0);
	if (reply.kind == INF_REPLY_REGION_CREATED)
		map_region(s, n_fds ? fds[0] : fd);
	inf_close_fds(fds, n_fds);
	if (fd >= 0)
		close(fd);
	if (request.kind == INF_REQUEST_INFER && reply.status == INF_OK)
		check_outputs(s);
	return reply;
}

static uint64_t record_bind(struct session *s, uint64_t method, uint64_t region)
{
	struct inf_slot in = { .region = region, .byte_size = 16 },
			out = { .region = region, .offset = 64, .byte_size = 16 };
	return record(s, (struct inf_request){ .kind = INF_REQUEST_BIND, .bind = { method, 1, &in, 1, &out } })
		.bound.binding;
}

/* What an application does, with each message of libinferd once and some answers that are errors. */
static void record_session(struct session *s)
{
	struct inf_request hello = { .kind = INF_REQUEST_HELLO,
		.hello = {
			.protocol = INF_PROTOCOL, .client_name = "recorded", .oldest_protocol = INF_PROTOCOL_OLDEST } };
	assert_int_equal(record(s, hello).status, INF_OK);
	record(s, (struct inf_request){ .kind = INF_REQUEST_METHOD_OPEN, .method_open = { .model = "missing" } });
	uint64_t method = record(s,
		(struct inf_request){ .kind = INF_REQUEST_METHOD_OPEN, .method_open = { .model = "double" } })
				  .method_opened.method;
	uint64_t made = record(s,
		(struct inf_request){ .kind = INF_REQUEST_REGION_CREATE, .region_create = { REGION_BYTES } })
				.region_created.region;
	uint64_t imported = record(s, (struct inf_request){ .kind = INF_REQUEST_REGION_REGISTER,
					      .region_register = { .byte_size = REGION_BYTES } })
				    .region_created.region;
	uint64_t first = record_bind(s, method, made), second = record_bind(s, method, imported);
	record(s, (struct inf_request){ .kind = INF_REQUEST_INFER, .infer = { .binding = first } });
	record(s, (struct inf_request){ .kind = INF_REQUEST_INFER,
			  .infer = { .binding = second, .priority = INF_BATCH, .timeout_us = 60000000 } });
	record(s, (struct inf_request){ .kind = INF_REQUEST_CANCEL, .cancel = { 1 } });
	record(s, (struct inf_request){ .kind = INF_REQUEST_METHOD_RESET, .method_reset = { method } });
	record(s, (struct inf_request){ .kind = INF_REQUEST_UNBIND, .unbind = { first } });
	record(s, (struct inf_request){ .kind = INF_REQUEST_INFER, .infer = { .binding = first } });
	record(s,
		(struct inf_request){ .kind = INF_REQUEST_REGION_UNREGISTER, .region_unregister = { .region = made } });
	record(s, (struct inf_request){ .kind = INF_REQUEST_INFER, .infer = { .binding = second } });
	record(s, (struct inf_request){ .kind = INF_REQUEST_METHOD_CLOSE, .method_close = { method } });
}

static const char *record_to; /* NULL: replay */

static void test_record(void **state)
{
	struct session s = { 0 };
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	s.raw = e2e_raw_new(e.socket, true);
	s.record = fopen(record_to, "we");
	assert_non_null(s.record);
	fprintf(s.record,
		"# SPDX-License-Identifier: BSD-3-Clause\n"
		"# Recorded by test_e2e_recorded --record. Add a file for a new protocol; never change one.\n");
	record_session(&s);
	assert_int_equal(fclose(s.record), 0);
	unmap_regions(&s);
	e2e_raw_free(s.raw);
	e2e_deinit(&e);
}

/* ---- replaying ---- */

/* Decode a line's hexadecimal digits. */
static size_t parse(const char *text, uint8_t *ret_bytes, size_t room)
{
	size_t n = 0;
	for (unsigned byte; sscanf(text, "%2x", &byte) == 1; text += 2) {
		assert_true(n < room);
		ret_bytes[n++] = (uint8_t)byte;
	}
	return n;
}

static void same_tensors(size_t n_then, const struct inf_tensor_metadata *then, size_t n_now,
	const struct inf_tensor_metadata *now)
{
	assert_int_equal(n_then, n_now);
	for (size_t i = 0; i < n_then; i++) {
		assert_string_equal(then[i].name, now[i].name);
		assert_string_equal(then[i].datatype, now[i].datatype);
		assert_int_equal(then[i].n_shape, now[i].n_shape);
		assert_memory_equal(then[i].shape, now[i].shape, then[i].n_shape * sizeof(*then[i].shape));
		assert_int_equal(then[i].byte_size, now[i].byte_size);
		assert_int_equal(then[i].dynamic, now[i].dynamic);
		assert_int_equal(then[i].scalar, now[i].scalar);
	}
}

static void same_reply(const struct inf_reply *then, const struct inf_reply *now)
{
	assert_int_equal(then->id, now->id);
	assert_int_equal(then->status, now->status);
	assert_int_equal(then->kind, now->kind);
	assert_int_equal(!then->error[0], !now->error[0]);
	switch (then->kind) {
	case INF_REPLY_HELLO:
		assert_int_equal(then->hello.protocol, now->hello.protocol);
		assert_true(now->hello.tensor_alignment &&
			    then->hello.tensor_alignment % now->hello.tensor_alignment == 0);
		break;
	case INF_REPLY_METHOD_OPENED:
		assert_int_equal(then->method_opened.method, now->method_opened.method);
		assert_int_equal(then->method_opened.stateful, now->method_opened.stateful);
		same_tensors(then->method_opened.n_inputs, then->method_opened.inputs, now->method_opened.n_inputs,
			now->method_opened.inputs);
		same_tensors(then->method_opened.n_outputs, then->method_opened.outputs, now->method_opened.n_outputs,
			now->method_opened.outputs);
		break;
	case INF_REPLY_REGION_CREATED:
		assert_int_equal(then->region_created.region, now->region_created.region);
		assert_int_equal(then->region_created.byte_size, now->region_created.byte_size);
		break;
	case INF_REPLY_BOUND:
		assert_int_equal(then->bound.binding, now->bound.binding);
		break;
	case INF_REPLY_INFERRED:
		assert_int_equal(then->inferred.n_outputs, now->inferred.n_outputs);
		break;
	default:
		assert_int_equal(then->kind, INF_REPLY_NONE);
	}
}

/* Send the packet of a line that begins with '>'. */
static void replay_request(struct session *s, const char *line)
{
	struct inf_request request;
	uint8_t packet[INF_MAX_PACKET];
	bool has_fd = line[2] == '+';
	size_t n_bytes = parse(line + (has_fd ? 4 : 2), packet, sizeof(packet));
	int fd = has_fd ? make_memfd() : -1;
	assert_int_equal(inf_message_decode_request(&request, packet, n_bytes, &s->raw->encoder, NULL), 0);
	if (request.kind == INF_REQUEST_INFER)
		write_inputs(s);
	if (has_fd)
		map_region(s, fd);
	assert_int_equal(inf_channel_send(&s->raw->channel, packet, n_bytes, &fd, has_fd), 0);
	if (has_fd)
		close(fd);
}

/* Compare the answer with that of a line that begins with '<'. */
static void replay_answer(struct session *s, const char *line)
{
	struct inf_reply then, now;
	uint8_t packet[INF_MAX_PACKET];
	size_t n_bytes = parse(line + 2, packet, sizeof(packet));
	assert_int_equal(inf_message_decode_reply(&then, packet, n_bytes, &s->raw->encoder, NULL), 0);
	assert_true(e2e_raw_receive(s->raw, &now));
	same_reply(&then, &now);
	if (now.kind == INF_REPLY_REGION_CREATED && s->raw->fd >= 0)
		map_region(s, s->raw->fd);
	if (now.kind == INF_REPLY_INFERRED)
		check_outputs(s);
}

static void replay(struct e2e *e, const char *path)
{
	struct session s = { .raw = e2e_raw_new(e->socket, true) };
	char line[4096];
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '>')
			replay_request(&s, line);
		else if (line[0] == '<')
			replay_answer(&s, line);
	}
	fclose(file);
	assert_true(s.n_infers >= 3);
	unmap_regions(&s);
	e2e_raw_free(s.raw);
}

static void test_replay(void **state)
{
	struct e2e e;
	size_t n_files = 0;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	DIR *folder = opendir(RECORDED);
	assert_non_null(folder);
	for (struct dirent *entry; (entry = readdir(folder));) {
		char path[512];
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", RECORDED, entry->d_name);
		replay(&e, path);
		n_files++;
	}
	closedir(folder);
	assert_true(n_files > 0);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* ---- versions ---- */

static struct inf_reply greet(struct e2e_raw *raw, uint32_t oldest, uint32_t newest)
{
	struct inf_request hello = { .kind = INF_REQUEST_HELLO,
		.hello = { .protocol = newest, .client_name = "e2e", .oldest_protocol = oldest } };
	return e2e_raw_call(raw, hello);
}

/* A library of a later time, which still speaks this version, gets it; one that does not is told what to do. */
static void test_versions(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, true);
	struct inf_reply reply = greet(raw, INF_PROTOCOL + 1, INF_PROTOCOL + 3);
	assert_int_equal(reply.status, INF_FAILED_PRECONDITION);
	assert_string_equal(reply.error,
		"this daemon speaks the protocol's versions 1 to 1, the client 2 to 4; upgrade the "
		"older one of inferd and libinferd");
	assert_int_equal(greet(raw, 0, 0).status, INF_FAILED_PRECONDITION);
	assert_int_equal(greet(raw, 0, INF_PROTOCOL + 1).status, INF_FAILED_PRECONDITION);
	assert_int_equal(e2e_raw_call(raw, (struct inf_request){ .kind = INF_REQUEST_STATUS }).status,
		INF_FAILED_PRECONDITION);
	reply = greet(raw, INF_PROTOCOL, INF_PROTOCOL + 3);
	assert_int_equal(reply.status, INF_OK);
	assert_int_equal(reply.hello.protocol, INF_PROTOCOL);
	assert_true(reply.hello.has_presence);
	e2e_raw_free(raw);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_replay), cmocka_unit_test(test_versions) };
	static const struct CMUnitTest recorder[] = { cmocka_unit_test(test_record) };
	if (argc == 4 && strcmp(argv[2], "--record") == 0) {
		record_to = argv[3];
		return e2e_main(2, argv, recorder, ET_ARRAY_LEN(recorder));
	}
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
