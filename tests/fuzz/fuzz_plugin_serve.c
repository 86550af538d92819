/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: a host process gets hostile packets. The packets of the input go to et_plugin_serve, which has loaded
 * the example plug-in, or the plug-in with every feature (plugin.c). Whatever comes, it must return when the
 * connection ends, and leave nothing behind but the plug-in's library.
 *
 * Two things are as inferd does them, because the host cannot check them: a request is answered before the next
 * packet is sent, and arguments are aligned as plug-ins may expect.
 *
 * The input is a list of {kind, length, bytes}. The kind selects a message, and the bytes change a valid one, three
 * bytes at a time: the position (two bytes) and the new value. With 0x80 in the kind, the bytes are the packet. With
 * 0x40 the first message is for the plug-in with every feature; with 0x20 a descriptor is sent twice. The input's
 * last byte selects how requests for named data are answered. */
#include "tests/fuzz/fuzz.h"

#include "delegates/plugin/host/serve.h"
#include "delegates/plugin/wire.h"
#include "delegates/inferd-delegate.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAGE = 4096, N_FLOATS = 4, MODEL = 1, INSTANCE = 2, MEMORY = 3 };

union packet {
	struct et_plugin_header header;
	struct et_plugin_start start;
	struct et_plugin_init init;
	struct et_plugin_handle handle;
	struct et_plugin_share share;
	struct et_plugin_run run;
	char bytes[8192];
};

static void patch(union packet *packet, size_t n_packet, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i + 3 <= n; i += 3)
		packet->bytes[(bytes[i] | (size_t)bytes[i + 1] << 8) % n_packet] = (char)bytes[i + 2];
}

/* A payload of the example's, and one compile spec behind it. */
static int payload_file(struct et_plugin_init *init, char first)
{
	char payload[] = "GAIN\0\0\0\x40";
	struct {
		uint32_t lengths[2];
		char text[8];
	} spec = { { 3, 3 }, "key\0val" };
	payload[0] = first;
	int fd = et_plugin_memory("fuzz-payload", 2 * PAGE);
	if (fd < 0 || pwrite(fd, payload, 8, 0) != 8 || pwrite(fd, &spec, sizeof spec, PAGE) != sizeof spec ||
		et_plugin_memory_seal(fd))
		abort();
	init->n_payload_bytes = 8;
	init->n_specs = 1;
	init->n_pair_bytes = sizeof spec;
	init->n_args = 2;
	init->model = MODEL;
	snprintf(init->method, sizeof init->method, "forward");
	return fd;
}

/* Memory of three pages that runs may name. */
static int share_file(struct et_plugin_share *share)
{
	int fd = et_plugin_memory("fuzz-memory", 3 * PAGE);
	if (fd < 0)
		abort();
	share->id = MEMORY;
	share->n_bytes = 3 * PAGE;
	share->header.n_bytes = sizeof *share;
	return fd;
}

static struct et_plugin_arg tensor(uint32_t page, bool is_output)
{
	return (struct et_plugin_arg){ .kind = INFERD_DELEGATE_TENSOR,
		.type = 6,
		.n_dims = 1,
		.is_output = is_output,
		.memory = MEMORY,
		.offset = (uint64_t)page * PAGE + 64,
		.n_bytes = N_FLOATS * 4,
		.sizes = { N_FLOATS } };
}

static void fill_run(struct et_plugin_run *run, bool is_kernel)
{
	run->model = is_kernel ? 0 : MODEL;
	run->instance = INSTANCE;
	run->kernel = is_kernel ? 0 : 1;
	run->args[run->n_args++] = tensor(0, false);
	if (is_kernel)
		run->args[run->n_args++] = (struct et_plugin_arg){ .kind = INFERD_DELEGATE_DOUBLE, .d = 3 };
	run->args[run->n_args++] = tensor(2, true);
	run->header.n_bytes = (uint32_t)(sizeof *run + run->n_args * sizeof run->args[0]);
}

/* A right packet of that kind; the descriptor to go with it, or -1. */
static int make_packet(union packet *packet, uint8_t kind, size_t n_changes)
{
	int fd = -1;
	memset(packet, 0, sizeof *packet);
	packet->header = (struct et_plugin_header){ kind, sizeof packet->handle, 77 };
	packet->handle.model = MODEL;
	packet->handle.instance = INSTANCE;
	if (kind == ET_PLUGIN_KERNEL)
		packet->handle.instance = 0;
	if (kind == ET_PLUGIN_FORGET)
		packet->handle.instance = MEMORY;
	if (kind == ET_PLUGIN_PROBE || kind == ET_PLUGIN_INIT) {
		packet->header.n_bytes = sizeof packet->init;
		fd = payload_file(&packet->init, "GDN"[n_changes % 3]);
	} else if (kind == ET_PLUGIN_SHARE) {
		fd = share_file(&packet->share);
	} else if (kind == ET_PLUGIN_RUN || kind == 0) { /* 0: a kernel's */
		packet->header.type = ET_PLUGIN_RUN;
		packet->handle.model = packet->handle.instance = 0;
		fill_run(&packet->run, kind == 0);
	}
	return fd;
}

static bool is_twice; /* descriptors come in pairs, which no packet of inferd's has */

static void send_packet(int socket, union packet *packet, size_t n, int fd)
{
	const int fds[2] = { fd, fd };
	const size_t n_fds = is_twice ? 2 : 1;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { packet, n };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fd >= 0) {
		memset(&control, 0, sizeof control);
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof fd);
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof fd);
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof fd);
	}
	sendmsg(socket, &message, MSG_NOSIGNAL);
	if (fd >= 0)
		close(fd);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned n_done; /* questions that were answered */
static bool is_over;    /* there will be no more answers */

/* Arguments where plug-ins may expect them. Whether it is a run. */
static bool align_run(union packet *packet, size_t n)
{
	struct et_plugin_run *run = &packet->run;
	if (n < sizeof *run || packet->header.type != ET_PLUGIN_RUN)
		return false;
	for (size_t i = 0; (i + 1) * sizeof run->args[0] <= n - sizeof *run; i++)
		run->args[i].offset &= ~UINT64_C(63);
	if (run->model)
		run->kernel |= 1;
	return true;
}

/* Whether the host answers or hangs up. Only what is right and needs no answer is not waited for: beside a packet that
 * makes one thread of the host hang up, another would still begin the run that comes next, and nobody would end it. */
static bool is_question(const union packet *packet, size_t n, int fd)
{
	bool is_told = n == sizeof packet->handle && packet->header.n_bytes == n && fd < 0 &&
		       (packet->header.type == ET_PLUGIN_DESTROY || packet->header.type == ET_PLUGIN_INSTANCE_FREE ||
			       packet->header.type == ET_PLUGIN_CANCEL || packet->header.type == ET_PLUGIN_FORGET);
	return !is_told;
}

/* A run that ends only when it is cancelled (plugin.c) is, at once. Its number is never 0 here: that is none. */
static void cancel_run(int socket, const union packet *run, size_t n)
{
	union packet packet;
	if (n < sizeof run->run + sizeof run->run.args[0] || run->run.args[0].sizes[0] % 8 != 7)
		return;
	make_packet(&packet, ET_PLUGIN_CANCEL, 0);
	packet.handle.instance = run->run.instance;
	packet.handle.model = run->run.kernel;
	send_packet(socket, &packet, sizeof packet.handle, -1);
}

/* All that a packet of the input needs; whether there will be an answer. */
static bool tell(int socket, union packet *packet, size_t n, int fd)
{
	bool is_run = align_run(packet, n), is_asking = is_question(packet, n, fd);
	send_packet(socket, packet, n, fd);
	if (is_run)
		cancel_run(socket, packet, n);
	return is_asking;
}

/* False: there will be no more. */
static bool wait_for_answers(unsigned n)
{
	pthread_mutex_lock(&lock);
	while (n_done < n && !is_over)
		pthread_cond_wait(&changed, &lock);
	bool is_there = !is_over;
	pthread_mutex_unlock(&lock);
	return is_there;
}

static void note(bool is_answer)
{
	pthread_mutex_lock(&lock);
	n_done += is_answer;
	is_over = is_over || !is_answer;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static uint8_t named_manner; /* of this input */

/* "absent" is not there; of the others one is there, and what is said of the last is wrong in some way. */
static void answer_named(int socket, const struct et_plugin_named *ask)
{
	struct et_plugin_named answer = { .header = { ET_PLUGIN_NAMED_ANSWER, sizeof answer, ask->header.id },
		.n_bytes = 16,
		.result = strcmp(ask->key, "absent") == 0 ? INFERD_DELEGATE_E_NOT_FOUND : INFERD_DELEGATE_OK };
	unsigned manner = strcmp(ask->key, "another") == 0 ? named_manner % 6 : 0;
	int fd = et_plugin_memory("fuzz-named", answer.n_bytes);
	if (fd < 0)
		abort();
	if (manner == 2)
		answer.n_bytes = UINT64_MAX;
	if (manner == 3)
		answer.header.type = ET_PLUGIN_LOG;
	if (manner == 4)
		answer.header.n_bytes = sizeof answer.header;
	if (manner == 5)
		answer.n_bytes = 0;
	et_plugin_send(socket, &answer, manner == 1 || answer.result ? -1 : fd, 1);
	close(fd);
}

/* Answers are read, so that nobody waits for room; what they say is not looked at, but that they are packets. */
static void *read_answers(void *arg)
{
	int socket = *(int *)arg, fd, n;
	_Alignas(16) static _Thread_local char packet[ET_PLUGIN_MAX_PACKET];
	while ((n = et_plugin_receive(socket, packet, sizeof packet, &fd, 1)) > 0)
		if (fd >= 0)
			abort();
		else if (((const struct et_plugin_header *)packet)->type == ET_PLUGIN_DONE ||
			 ((const struct et_plugin_header *)packet)->type == ET_PLUGIN_ANSWER)
			note(true);
		else if (((const struct et_plugin_header *)packet)->type == ET_PLUGIN_NAMED)
			answer_named(socket, (const struct et_plugin_named *)packet);
	if (n < 0)
		abort();
	note(false);
	return NULL;
}

static void *serve(void *arg)
{
	et_plugin_serve(arg);
	return NULL;
}

/* START with whatever is changed but the path, which is the one library that may be loaded here. */
static void start(int socket, bool has_everything, const uint8_t *bytes, size_t n)
{
	union packet packet;
	memset(&packet, 0, sizeof packet);
	packet.start.wire = ET_PLUGIN_WIRE;
	packet.start.n_options = 1;
	packet.start.n_option_bytes = 10;
	memcpy(&packet.start + 1, "key\0value", 10);
	packet.header = (struct et_plugin_header){ ET_PLUGIN_START, sizeof packet.start + 10, 1 };
	patch(&packet, packet.header.n_bytes + 0, bytes, n);
	snprintf(packet.start.path, sizeof packet.start.path, "%s", has_everything ? PLUGIN_WITH_EVERYTHING : PLUGIN);
	send_packet(socket, &packet, sizeof packet.start + 10, -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	int calls[2], asks[2];
	pthread_t server, reader, asked;
	union packet packet;
	unsigned n_asked = 0;
	named_manner = n_bytes ? bytes[n_bytes - 1] : 0;
	n_done = 0;
	is_over = false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls) ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, asks))
		abort();
	struct et_serve_options options = { .calls = calls[1], .asks = asks[1] };
	if (pthread_create(&server, NULL, serve, &options) || pthread_create(&reader, NULL, read_answers, &calls[0]) ||
		pthread_create(&asked, NULL, read_answers, &asks[0]))
		abort();
	for (bool is_first = true; n_bytes >= 2; is_first = false) {
		size_t n = bytes[1] < n_bytes - 2 ? bytes[1] : n_bytes - 2;
		uint8_t kind = bytes[0];
		is_twice = kind & 0x20 && !is_first;
		if (is_first) {
			start(calls[0], kind & 0x40, bytes + 2, n);
		} else if (kind & 0x80) {
			int fd = make_packet(&packet, kind & 0x0f, n);
			memcpy(&packet, bytes + 2, n);
			n_asked += tell(calls[0], &packet, n, fd);
		} else {
			int fd = make_packet(&packet, kind % (ET_PLUGIN_END + 1), n);
			size_t n_packet = packet.header.n_bytes;
			patch(&packet, n_packet, bytes + 2, n);
			n_asked += tell(calls[0], &packet, n_packet, fd);
		}
		if (!wait_for_answers(n_asked))
			break;
		bytes += 2 + n;
		n_bytes -= 2 + n;
	}
	shutdown(calls[0], SHUT_WR);
	pthread_join(server, NULL);
	pthread_join(reader, NULL);
	pthread_join(asked, NULL);
	close(calls[0]);
	close(asks[0]);
	return 0;
}
