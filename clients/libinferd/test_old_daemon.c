/* SPDX-License-Identifier: BSD-3-Clause */
/* The library of now with the daemon of then: the answers in tests/e2e/recorded, which a daemon of the protocol's first
 * version gave byte by byte, are played to libinferd.
 *
 * The played daemon is a thread of the test. It answers each message with the next recorded answer to one of that
 * kind, whose id alone it replaces, and it makes the shared memory and computes what the recorded daemon had
 * computed. It keeps to what the recorded session made: a region of 4096 bytes each, an input at 0, twice the input
 * at 64. */
#include "clients/inferd.h"
#include "ipc/channel.h"
#include "ipc/message.h"
#include "runtime/platform/platform.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { REGION_BYTES = 4096, MAX_LINES = 64, MAX_REGIONS = 4 };

struct line {
	enum inf_request_kind kind; /* of the message that it answers */
	uint8_t reply[512];
	size_t n_bytes;
	bool is_played;
};

static struct {
	struct line lines[MAX_LINES];
	size_t n_lines;
	int listener;
	pthread_t thread;
	struct inf_channel channel;
	struct inf_codec codec;
	float *regions[MAX_REGIONS];
	size_t n_regions;
	/* what the library says in Hello */
	bool hears_ends;
	uint32_t oldest, newest;
	size_t n_unknown; /* messages without a recorded answer */
	size_t n_left;    /* recorded answers to be sent still, without those to Cancel */
	sem_t all_sent;
} played;

static char dir[] = "/tmp/inferd-test-old-XXXXXX";
static char path[64];

/* ---- the recording ---- */

static size_t parse(const char *text, uint8_t *ret_bytes, size_t room)
{
	size_t n = 0;
	for (unsigned byte; sscanf(text, "%2x", &byte) == 1; text += 2) {
		assert_true(n < room);
		ret_bytes[n++] = (uint8_t)byte;
	}
	return n;
}

static void read_recording(void)
{
	char text[4096];
	FILE *file = fopen(RECORDED, "re");
	assert_non_null(file);
	while (fgets(text, sizeof text, file)) {
		uint8_t packet[512];
		struct inf_request request;
		struct line *line = &played.lines[played.n_lines];
		assert_true(played.n_lines < MAX_LINES);
		if (text[0] == '>') {
			size_t n = parse(text + (text[2] == '+' ? 4 : 2), packet, sizeof packet);
			assert_int_equal(inf_message_decode_request(&request, packet, n, &played.codec, NULL), 0);
			line->kind = request.kind;
		} else if (text[0] == '<') {
			line->n_bytes = parse(text + 2, line->reply, sizeof line->reply);
			assert_true(line->reply[0] == 0x08 && line->reply[1] < 0x80); /* the id, in one byte */
			played.n_lines++;
			/* libinferd cancels only what is in flight */
			if (line->kind != INF_REQUEST_CANCEL)
				played.n_left++;
		}
	}
	fclose(file);
}

/* ---- the daemon ---- */

static void map_region(int fd)
{
	void *at = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || played.n_regions == MAX_REGIONS)
		abort();
	played.regions[played.n_regions++] = at;
}

static void compute(void)
{
	for (size_t i = 0; i < played.n_regions; i++)
		for (size_t k = 0; k < 4; k++)
			played.regions[i][16 + k] = 2 * played.regions[i][k];
}

/* Answer @request as it was answered then. */
static void answer(const struct inf_request *request)
{
	int fd = -1;
	struct line *line = played.lines;
	while (line < played.lines + played.n_lines && (line->is_played || line->kind != request->kind))
		line++;
	if (line == played.lines + played.n_lines || request->id >= 0x80) {
		played.n_unknown++;
		return;
	}
	line->is_played = true;
	line->reply[1] = (uint8_t)request->id;
	if (request->kind == INF_REQUEST_REGION_CREATE) {
		fd = memfd_create("old", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0 || ftruncate(fd, REGION_BYTES) < 0)
			abort();
		map_region(fd);
	}
	if (request->kind == INF_REQUEST_INFER)
		compute();
	if (request->kind == INF_REQUEST_HELLO) {
		played.hears_ends = request->hello.hears_ends;
		played.oldest = request->hello.oldest_protocol;
		played.newest = request->hello.protocol;
	}
	if (inf_channel_send(&played.channel, line->reply, line->n_bytes, &fd, fd >= 0))
		abort();
	if (fd >= 0)
		close(fd);
	if (request->kind != INF_REQUEST_CANCEL && --played.n_left == 0)
		sem_post(&played.all_sent);
}

/* Serve one client until it goes. */
static void *serve(void *arg)
{
	static uint8_t packet[INF_MAX_PACKET];
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds;
	struct inf_request request;
	int fd = -1;
	while (fd < 0) {
		poll(&(struct pollfd){ .fd = played.listener, .events = POLLIN }, 1, -1);
		fd = inf_channel_accept(played.listener);
	}
	if (inf_channel_init(&played.channel, fd, 1 << 20, et_platform_allocator()))
		abort();
	for (;;) {
		int rc = inf_channel_receive(&played.channel, packet, sizeof packet, &n_bytes, fds, &n_fds);
		if (rc == INF_CHANNEL_AGAIN) {
			poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
			continue;
		}
		if (rc)
			break;
		if (inf_message_decode_request(&request, packet, n_bytes, &played.codec, NULL))
			abort();
		if (request.kind == INF_REQUEST_REGION_REGISTER && n_fds == 1)
			map_region(fds[0]);
		inf_close_fds(fds, n_fds);
		answer(&request);
	}
	inf_channel_deinit(&played.channel);
	return NULL;
}

static int set_up(void **state)
{
	inf_codec_init(&played.codec, et_platform_allocator());
	sem_init(&played.all_sent, 0, 0);
	read_recording();
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof path, "%s/inferd.sock", dir);
	played.listener = inf_channel_listen(path, 0600);
	return pthread_create(&played.thread, NULL, serve, NULL);
}

static int tear_down(void **state)
{
	close(played.listener);
	unlink(path);
	rmdir(dir);
	while (played.n_regions)
		munmap(played.regions[--played.n_regions], REGION_BYTES);
	inf_codec_deinit(&played.codec);
	sem_destroy(&played.all_sent);
	return 0;
}

/* ---- the application ---- */

static void assert_doubles(struct inferd_binding *b, const struct inferd_request_options *options)
{
	static float x;
	float *in = inferd_input(b, 0), *out = inferd_output(b, 0);
	for (int i = 0; i < 4; i++)
		in[i] = x += 1;
	assert_int_equal(inferd_infer(b, options), 0);
	for (int i = 0; i < 4; i++)
		assert_true(out[i] == 2 * in[i]);
}

static void the_library_of_now_is_served(void **state)
{
	struct inferd *d = NULL;
	struct inferd_method *m = NULL;
	struct inferd_region *made, *imported;
	struct inferd_binding *first, *second;
	const struct inferd_open_options open_options = {
		.struct_size = sizeof open_options, .socket = path, .reconnect_ms = 1000
	};
	const struct inferd_request_options batch = {
		.struct_size = sizeof batch, .priority = INFERD_BATCH, .timeout_us = 60000000
	};
	int memory = memfd_create("new", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(memory, REGION_BYTES), 0);
	assert_int_equal(inferd_open_with(&d, &open_options), 0);
	assert_int_equal(inferd_method_open(d, &m, "missing", NULL), -INFERD_NOT_FOUND);
	assert_string_equal(inferd_error(d), "no model 'missing'; available models: double");
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	assert_int_equal(inferd_n_inputs(m), 1);
	const struct inferd_tensor_info *info = inferd_input_info(m, 0);
	assert_string_equal(info->name, "input_0");
	assert_true(info->n_dims == 1 && info->shape[0] == 4 && info->n_bytes == 16 && info->n_labels == 0);
	assert_null(info->layout);
	assert_string_equal(inferd_method_backend(m), "portable");
	assert_int_equal(inferd_region_new(d, &made, REGION_BYTES), 0);
	assert_int_equal(inferd_region_import(d, &imported, memory, REGION_BYTES), 0);
	struct inferd_slot in = { .region = made }, out = { .region = made, .offset = 64 };
	assert_int_equal(inferd_bind_slots(m, &first, &in, &out), 0);
	in.region = out.region = imported;
	assert_int_equal(inferd_bind_slots(m, &second, &in, &out), 0);
	assert_doubles(first, NULL);
	assert_doubles(second, &batch);
	assert_int_equal(inferd_method_reset(m), 0);
	inferd_unbind(first);
	/* the next recorded request is one on a binding that is not there any more */
	assert_int_equal(inferd_infer(second, NULL), -INFERD_NOT_FOUND);
	inferd_region_free(made);
	assert_doubles(second, NULL);
	inferd_method_close(m);
	/* libinferd does not wait for the answer to this one, and none can be sent to a closed connection */
	while (sem_wait(&played.all_sent))
		;
	inferd_close(d);
	close(memory);
	pthread_join(played.thread, NULL);
	assert_int_equal(played.n_unknown, 0);
	assert_true(played.hears_ends && played.oldest == INF_PROTOCOL_OLDEST && played.newest == INF_PROTOCOL);
	/* all that libinferd can say was said; it cancels only what is in flight */
	for (size_t i = 0; i < played.n_lines; i++)
		assert_true(played.lines[i].is_played || played.lines[i].kind == INF_REQUEST_CANCEL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(the_library_of_now_is_served, set_up,
		tear_down) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
