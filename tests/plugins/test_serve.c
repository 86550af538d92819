/* SPDX-License-Identifier: BSD-3-Clause */
/* A host, driven packet by packet: packets in any order, and malformed packets. */
#include "delegates/inferd-delegate.h"
#include "delegates/plugin/host/serve.h"
#include "delegates/plugin/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MODEL = 1, INSTANCE = 2, OTHER = 3, MEMORY = 4, N = 4 };

struct host {
	pthread_t thread;
	int calls, asks;
	int rc;
	struct et_serve_options options;
	uint64_t last_id;
	float *tensors; /* N in, N out a page behind */
	int fd;
	_Alignas(16) char packet[ET_PLUGIN_MAX_PACKET];
};

static void *serve(void *arg)
{
	struct host *h = arg;
	h->rc = et_plugin_serve(&h->options);
	return NULL;
}

static void send_packet(struct host *h, void *packet, uint32_t type, size_t n_bytes, int fd)
{
	struct et_plugin_header *header = packet;
	*header = (struct et_plugin_header){ type, (uint32_t)n_bytes, ++h->last_id };
	assert_int_equal(et_plugin_send(h->calls, packet, fd, 1), 0);
}

static struct et_plugin_header *receive(struct host *h)
{
	int fd, n = et_plugin_receive(h->calls, h->packet, sizeof h->packet, &fd, 1);
	assert_true(n > 0 && fd < 0);
	return (struct et_plugin_header *)h->packet;
}

/* Ask, and return the answer's result. No other answer may be outstanding. */
static uint32_t ask(struct host *h, void *packet, uint32_t type, size_t n_bytes, int fd)
{
	send_packet(h, packet, type, n_bytes, fd);
	struct et_plugin_header *header = receive(h);
	assert_int_equal(header->type, ET_PLUGIN_ANSWER);
	assert_int_equal(header->id, h->last_id);
	return ((struct et_plugin_answer *)header)->result;
}

static void tell(struct host *h, uint32_t type, uint64_t instance, uint64_t model)
{
	struct et_plugin_handle handle = { .model = model, .instance = instance };
	send_packet(h, &handle, type, sizeof handle, -1);
}

static uint32_t ask_handle(struct host *h, uint32_t type, uint64_t instance, uint64_t model)
{
	struct et_plugin_handle handle = { .model = model, .instance = instance };
	return ask(h, &handle, type, sizeof handle, -1);
}

/* Wait until the plug-in logs @text. */
static void expect_line(struct host *h, const char *text)
{
	struct et_plugin_log log;
	int fd, n = et_plugin_receive(h->asks, &log, sizeof log, &fd, 1);
	assert_int_equal(n, sizeof log);
	assert_string_equal(log.text, text);
}

static void start(struct host *h, const char *plugin, const char *key, const char *value)
{
	struct {
		struct et_plugin_start start;
		char options[64];
	} packet = { .start = { .wire = ET_PLUGIN_WIRE } };
	int calls[2], asks[2];
	memset(h, 0, sizeof *h);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, asks), 0);
	h->calls = calls[0];
	h->asks = asks[0];
	h->options = (struct et_serve_options){ calls[1], asks[1], false };
	assert_int_equal(pthread_create(&h->thread, NULL, serve, h), 0);
	snprintf(packet.start.path, sizeof packet.start.path, "%s/%s.so", PLUGINS, plugin);
	if (key) {
		packet.start.n_options = 1;
		packet.start.n_option_bytes = (uint32_t)(strlen(key) + strlen(value) + 2);
		snprintf(packet.options, sizeof packet.options, "%s%c%s", key, 0, value);
	}
	send_packet(h, &packet, ET_PLUGIN_START, sizeof packet.start + packet.start.n_option_bytes, -1);
	const struct et_plugin_started *started = (const struct et_plugin_started *)receive(h);
	assert_int_equal(started->header.type, ET_PLUGIN_STARTED);
	assert_int_equal(started->result, 0);
}

/* Set up a model, two instances of it, and memory for their tensors. */
static void prepare(struct host *h, const char *payload)
{
	struct et_plugin_init init = { .model = MODEL, .n_payload_bytes = strlen(payload), .n_args = 2, .program = 1 };
	int fd = et_plugin_memory("test-payload", ET_PLUGIN_PAGE);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, payload, strlen(payload), 0), strlen(payload));
	assert_int_equal(ask(h, &init, ET_PLUGIN_INIT, sizeof init, fd), 0);
	close(fd);
	assert_int_equal(ask_handle(h, ET_PLUGIN_INSTANCE_NEW, INSTANCE, MODEL), 0);
	assert_int_equal(ask_handle(h, ET_PLUGIN_INSTANCE_NEW, OTHER, MODEL), 0);
	h->fd = et_plugin_memory("test-tensors", 2 * ET_PLUGIN_PAGE);
	h->tensors = mmap(NULL, 2 * ET_PLUGIN_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
	assert_true(h->tensors != MAP_FAILED);
	struct et_plugin_share share = { .id = MEMORY, .n_bytes = 2 * ET_PLUGIN_PAGE };
	assert_int_equal(ask(h, &share, ET_PLUGIN_SHARE, sizeof share, h->fd), 0);
}

/* Hang up; return what et_plugin_serve returned. */
static int stop(struct host *h)
{
	shutdown(h->calls, SHUT_WR);
	pthread_join(h->thread, NULL);
	close(h->calls);
	close(h->asks);
	if (h->tensors)
		munmap(h->tensors, 2 * ET_PLUGIN_PAGE);
	if (h->fd > 0)
		close(h->fd);
	return h->rc;
}

union run {
	struct et_plugin_run run;
	_Alignas(8) char bytes[sizeof(struct et_plugin_run) + 2 * sizeof(struct et_plugin_arg)];
};

static union run make_run(uint32_t number)
{
	union run packet = {
		.run = { .model = MODEL, .instance = INSTANCE, .kernel = number, .n_args = 2 },
	};
	for (uint32_t i = 0; i < 2; i++)
		packet.run.args[i] = (struct et_plugin_arg){ .kind = INFERD_DELEGATE_TENSOR,
			.type = 6,
			.n_dims = 1,
			.is_output = (uint8_t)i,
			.memory = MEMORY,
			.offset = i * ET_PLUGIN_PAGE,
			.n_bytes = N * sizeof(float),
			.sizes = { N } };
	return packet;
}

static const struct et_plugin_done *expect_done(struct host *h, uint32_t result)
{
	const struct et_plugin_header *header = receive(h);
	assert_int_equal(header->type, ET_PLUGIN_DONE);
	const struct et_plugin_done *done = (const struct et_plugin_done *)header;
	if (done->result != result)
		fail_msg("%u %s", done->result, done->text);
	return done;
}

/* --- a cancel and its run ---------------------------------------------------------------------------------- */

/* One thread reads packets: CANCEL is handled before its RUN. */
static void test_cancel_overtakes(void **state)
{
	struct host h;
	start(&h, "one_thread", NULL, NULL);
	prepare(&h, "wait");
	union run run = make_run(1);
	tell(&h, ET_PLUGIN_CANCEL, INSTANCE, 1);
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_done(&h, INFERD_DELEGATE_E_CANCELLED);
	/* the cancel is not kept for the next run, which ends by a later cancel of its own */
	run = make_run(2);
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	assert_int_equal(ask_handle(&h, ET_PLUGIN_STATS, 0, 0), 0);
	tell(&h, ET_PLUGIN_CANCEL, INSTANCE, 1); /* too late, for the run before */
	assert_int_equal(ask_handle(&h, ET_PLUGIN_STATS, 0, 0), 0);
	tell(&h, ET_PLUGIN_CANCEL, INSTANCE, 2);
	expect_done(&h, INFERD_DELEGATE_E_CANCELLED);
	assert_int_equal(stop(&h), 0);
}

static void test_cancel_overtakes_execute(void **state)
{
	struct host h;
	start(&h, "one_thread_sync", NULL, NULL);
	prepare(&h, "scale");
	for (uint32_t k = 1; k < 6; k++) {
		union run run = make_run(k);
		h.tensors[1] = (float)k;
		if (k % 2)
			tell(&h, ET_PLUGIN_CANCEL, INSTANCE, k);
		send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
		expect_done(&h, k % 2 ? INFERD_DELEGATE_E_CANCELLED : INFERD_DELEGATE_OK);
		if (k % 2 == 0)
			assert_true(h.tensors[ET_PLUGIN_PAGE / sizeof(float) + 1] == 2 * (float)k);
	}
	assert_int_equal(stop(&h), 0);
}

/* CANCEL comes while the plug-in is in submit, and the plug-in would forget it there; the host remembers it. Three
 * threads read packets: one is in submit and one in a reset, so the third handles the other packets in order. */
static void test_cancel_during_submit(void **state)
{
	struct host h;
	start(&h, "async", "in_flight", "1");
	prepare(&h, "hold");
	union run run = make_run(1);
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_line(&h, "submitting");
	tell(&h, ET_PLUGIN_INSTANCE_RESET, OTHER, 0);
	uint64_t reset = h.last_id;
	expect_line(&h, "resetting");
	tell(&h, ET_PLUGIN_CANCEL, INSTANCE, 1);
	tell(&h, ET_PLUGIN_STATS, 0, 0); /* lets both go on */
	bool was_reset = false, was_done = false, was_told = false;
	while (!was_reset || !was_done || !was_told) {
		const struct et_plugin_header *header = receive(&h);
		if (header->type == ET_PLUGIN_DONE) {
			assert_int_equal(((const struct et_plugin_done *)header)->result, INFERD_DELEGATE_E_CANCELLED);
			was_done = true;
		} else if (header->id == reset) {
			was_reset = true;
		} else {
			was_told = true;
		}
	}
	assert_int_equal(stop(&h), 0);
}

/* The plug-in's cancel returns long after its run has ended. The next run begins after that, or the cancel would
 * end it. */
static void test_cancel_outlasts_run(void **state)
{
	struct host h;
	start(&h, "async", "in_flight", "1");
	prepare(&h, "linger");
	for (uint32_t k = 1; k < 4; k++) {
		union run run = make_run(k);
		send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
		if (k > 1) { /* the cancel of the run before has not returned */
			assert_int_equal(ask_handle(&h, ET_PLUGIN_STATS, 0, 0), 0);
			expect_line(&h, "cancelled");
		}
		expect_line(&h, "submitting");
		tell(&h, ET_PLUGIN_CANCEL, INSTANCE, k);
		expect_line(&h, "cancelling");
		expect_done(&h, INFERD_DELEGATE_E_CANCELLED);
	}
	assert_int_equal(ask_handle(&h, ET_PLUGIN_STATS, 0, 0), 0);
	expect_line(&h, "cancelled");
	assert_int_equal(stop(&h), 0);
}

/* A run ends within its submit, and submit returns while the instance's next run is under way: a cancel of the next run
 * still finds it. Three threads read packets. Threads held in resets force the order: the second submit returns before
 * the first, and the first before the cancel. */
static void test_submit_outlasts_run(void **state)
{
	enum { THIRD = 7 };
	struct host h;
	start(&h, "async", "in_flight", "1");
	prepare(&h, "early");
	assert_int_equal(ask_handle(&h, ET_PLUGIN_INSTANCE_NEW, THIRD, MODEL), 0);
	union run run = make_run(1);
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_done(&h, INFERD_DELEGATE_OK);
	expect_line(&h, "ended");
	run = make_run(2);
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_line(&h, "submitting");
	tell(&h, ET_PLUGIN_INSTANCE_RESET, OTHER, 0);
	expect_line(&h, "resetting");
	tell(&h, ET_PLUGIN_STATS, 0, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(receive(&h)->type, ET_PLUGIN_ANSWER);
	tell(&h, ET_PLUGIN_INSTANCE_RESET, OTHER, 0);
	expect_line(&h, "resetting");
	tell(&h, ET_PLUGIN_INSTANCE_RESET, THIRD, 0);
	expect_line(&h, "resetting");
	tell(&h, ET_PLUGIN_CANCEL, INSTANCE, 2);
	expect_done(&h, INFERD_DELEGATE_E_CANCELLED);
	tell(&h, ET_PLUGIN_STATS, 0, 0); /* lets both go on */
	for (int i = 0; i < 3; i++)
		assert_int_equal(receive(&h)->type, ET_PLUGIN_ANSWER);
	assert_int_equal(stop(&h), 0);
}

/* --- wrong packets ----------------------------------------------------------------------------------------- */

static void test_memory(void **state)
{
	struct host h;
	start(&h, "sync", NULL, NULL);
	prepare(&h, "scale");
	struct et_plugin_share share = { .id = 9, .n_bytes = 2 * ET_PLUGIN_PAGE + 1 };
	assert_int_equal(ask(&h, &share, ET_PLUGIN_SHARE, sizeof share, h.fd), INFERD_DELEGATE_E_INVALID);
	share.n_bytes = ET_PLUGIN_PAGE;
	assert_int_equal(ask(&h, &share, ET_PLUGIN_SHARE, sizeof share, -1), INFERD_DELEGATE_E_MEMORY);
	/* a process without room for a descriptor: the memory can't be shared, and everything else goes on */
	struct rlimit files, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	none = (struct rlimit){ 0, files.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(ask(&h, &share, ET_PLUGIN_SHARE, sizeof share, h.fd), INFERD_DELEGATE_E_MEMORY);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(ask(&h, &share, ET_PLUGIN_SHARE, sizeof share, h.fd), 0);
	tell(&h, ET_PLUGIN_FORGET, share.id, 0);
	share.id = 0;
	assert_int_equal(ask(&h, &share, ET_PLUGIN_SHARE, sizeof share, h.fd), INFERD_DELEGATE_E_INVALID);
	share.id = MEMORY; /* again */
	assert_int_equal(ask(&h, &share, ET_PLUGIN_SHARE, sizeof share, h.fd), 0);
	static const struct {
		uint64_t memory, offset, n_bytes;
	} wrong[] = { { 77, 0, 16 }, { 0, 0, 16 }, { MEMORY, 2 * ET_PLUGIN_PAGE, 16 },
		{ MEMORY, 2 * ET_PLUGIN_PAGE - 8, 16 }, { MEMORY, UINT64_MAX - 7, 16 },
		{ MEMORY, 16, UINT64_MAX - 15 } };
	uint32_t number = 0;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		for (int k = 0; k < 2; k++) {
			union run run = make_run(++number);
			run.run.args[k].memory = wrong[i].memory;
			run.run.args[k].offset = wrong[i].offset;
			run.run.args[k].n_bytes = wrong[i].n_bytes;
			send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
			expect_done(&h, INFERD_DELEGATE_E_INVALID);
		}
	union run run = make_run(++number);
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_done(&h, 0);
	tell(&h, ET_PLUGIN_FORGET, 77, 0);
	tell(&h, ET_PLUGIN_FORGET, 0, 0);
	run.run.args[0].n_dims = 17;
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_done(&h, INFERD_DELEGATE_E_INVALID);
	run = make_run(++number);
	run.run.n_args = 3; /* more than there are */
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_done(&h, INFERD_DELEGATE_E_INVALID);
	run = make_run(++number);
	run.run.instance = 55;
	send_packet(&h, &run, ET_PLUGIN_RUN, sizeof run, -1);
	expect_done(&h, INFERD_DELEGATE_E_INVALID);
	assert_int_equal(stop(&h), 0);
}

/* A malformed packet ends the connection, without a crash. */
static void test_packets(void **state)
{
	static const struct {
		uint32_t type;
		size_t n_bytes;
	} wrong[] = { { ET_PLUGIN_RUN, sizeof(struct et_plugin_header) },
		{ ET_PLUGIN_SHARE, sizeof(struct et_plugin_share) + 8 },
		{ ET_PLUGIN_INIT, sizeof(struct et_plugin_init) - 8 },
		{ ET_PLUGIN_CANCEL, sizeof(struct et_plugin_handle) - 8 }, { 99, 16 }, { ET_PLUGIN_START, 16 } };
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct host h;
		char packet[512] = { 0 };
		start(&h, "sync", NULL, NULL);
		send_packet(&h, packet, wrong[i].type, wrong[i].n_bytes, -1);
		pthread_join(h.thread, NULL);
		assert_int_equal(h.rc, -EBADMSG);
		close(h.calls);
		close(h.asks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cancel_overtakes),
		cmocka_unit_test(test_cancel_overtakes_execute),
		cmocka_unit_test(test_cancel_during_submit),
		cmocka_unit_test(test_cancel_outlasts_run),
		cmocka_unit_test(test_submit_outlasts_run),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_packets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
