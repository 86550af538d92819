/* SPDX-License-Identifier: BSD-3-Clause */
/* The channel over a socketpair, with a peer that does what a peer should not do. Every test counts the process's
 * descriptors before and after. */
#include "ipc/channel.h"
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

static size_t n_open_fds(void)
{
	size_t n = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

enum { MAX_WAITING = 64 * 1024 };

static struct inf_channel channel;
static int peer;
static size_t n_fds_before;
static uint8_t packet[INF_MAX_PACKET];

static int set_up(void **state)
{
	n_fds_before = n_open_fds();
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	peer = pair[1];
	return inf_channel_init(&channel, pair[0], MAX_WAITING, et_platform_allocator());
}

static int tear_down(void **state)
{
	inf_channel_deinit(&channel);
	if (peer >= 0)
		close(peer);
	return n_open_fds() == n_fds_before ? 0 : -1;
}

/* Send bytes as the peer, with any number of descriptors, all duplicates of one. */
static void peer_send(const void *bytes, size_t n_bytes, size_t n_fds)
{
	static union {
		struct cmsghdr header;
		uint8_t space[CMSG_SPACE(sizeof(int) * 253)];
	} control;
	struct iovec piece = { (void *)bytes, n_bytes };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
	if (n_fds) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		for (size_t i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &peer, sizeof peer);
	}
	assert_int_equal(sendmsg(peer, &message, 0), n_bytes);
}

static int receive(size_t *ret_n_bytes, int *fds, size_t *ret_n_fds)
{
	return inf_channel_receive(&channel, packet, sizeof packet, ret_n_bytes, fds, ret_n_fds);
}

static void assert_receives(int answer)
{
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds = 99;
	assert_int_equal(receive(&n_bytes, fds, &n_fds), answer);
	assert_int_equal(n_fds, 0);
}

static void packets_travel_with_descriptors(void **state)
{
	int fds[INF_MAX_PACKET_FDS], ends[2];
	size_t n_bytes, n_fds;
	assert_receives(INF_CHANNEL_AGAIN);
	peer_send("hello", 5, 16);
	peer_send("x", 1, 0);
	assert_int_equal(receive(&n_bytes, fds, &n_fds), 0);
	assert_int_equal(n_bytes, 5);
	assert_memory_equal(packet, "hello", 5);
	assert_int_equal(n_fds, 16);
	assert_int_equal(fcntl(fds[15], F_GETFD), FD_CLOEXEC);
	inf_close_fds(fds, n_fds);
	assert_int_equal(receive(&n_bytes, fds, &n_fds), 0);
	assert_int_equal(n_bytes, 1);
	assert_int_equal(n_fds, 0);
	assert_receives(INF_CHANNEL_AGAIN);

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(inf_channel_send(&channel, "answer", 6, ends, 2), 0);
	inf_close_fds(ends, 2); /* the descriptors stayed the caller's */
	struct inf_channel other;
	int copy = dup(peer);
	assert_int_equal(inf_channel_init(&other, copy, 0, et_platform_allocator()), 0);
	assert_int_equal(inf_channel_receive(&other, packet, sizeof packet, &n_bytes, fds, &n_fds), 0);
	assert_int_equal(n_bytes, 6);
	assert_int_equal(n_fds, 2);
	inf_close_fds(fds, n_fds);
	inf_channel_deinit(&other);
}

static void a_truncated_packet_breaks_the_channel(void **state)
{
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds;
	peer_send("longer", 6, 3);
	assert_int_equal(inf_channel_receive(&channel, packet, 5, &n_bytes, fds, &n_fds), INF_CHANNEL_E_BROKEN);
	assert_int_equal(n_fds, 0);
}

static void too_many_descriptors_break_the_channel(void **state)
{
	if (getenv("INFERD_EMULATED"))
		skip(); /* qemu-user receives more descriptors than there is room for, and hides MSG_CTRUNC */
	peer_send("x", 1, 17);
	assert_receives(INF_CHANNEL_E_BROKEN);
	peer_send("x", 1, 253);
	assert_receives(INF_CHANNEL_E_BROKEN);
}

static void an_empty_packet_is_the_end(void **state)
{
	peer_send("", 0, 0);
	assert_receives(INF_CHANNEL_E_CLOSED);
	peer_send("", 0, 2);
	assert_receives(INF_CHANNEL_E_CLOSED);
}

static void end_of_file(void **state)
{
	peer_send("last words", 10, 0);
	shutdown(peer, SHUT_RDWR);
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds;
	assert_int_equal(receive(&n_bytes, fds, &n_fds), 0);
	assert_receives(INF_CHANNEL_E_CLOSED);
	assert_int_equal(inf_channel_send(&channel, "x", 1, NULL, 0), INF_CHANNEL_E_CLOSED);
	assert_int_equal(inf_channel_flush(&channel), 0);
}

/* Packets that a peer sent before it hung up still arrive, even if it had not read everything itself. */
static void packets_before_a_hang_up_arrive(void **state)
{
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds;
	assert_int_equal(inf_channel_send(&channel, "question", 8, NULL, 0), 0);
	peer_send("no", 2, 0);
	close(peer);
	peer = -1;
	assert_int_equal(receive(&n_bytes, fds, &n_fds), 0);
	assert_int_equal(n_bytes, 2);
	assert_memory_equal(packet, "no", 2);
	assert_receives(INF_CHANNEL_E_CLOSED);
}

static void a_closed_channel_stays_closed(void **state)
{
	inf_channel_close(&channel);
	inf_channel_close(&channel);
	assert_int_equal(inf_channel_fd(&channel), -1);
	assert_receives(INF_CHANNEL_E_CLOSED);
	assert_int_equal(inf_channel_send(&channel, "x", 1, NULL, 0), INF_CHANNEL_E_CLOSED);
	assert_int_equal(inf_channel_flush(&channel), INF_CHANNEL_E_CLOSED);
}

static void bad_sizes_answer_einval(void **state)
{
	assert_int_equal(inf_channel_send(&channel, packet, 0, NULL, 0), -EINVAL);
	assert_int_equal(inf_channel_send(&channel, packet, INF_MAX_PACKET + 1, NULL, 0), -EINVAL);
	assert_int_equal(inf_channel_send(&channel, packet, INF_MAX_PACKET, NULL, 0), 0);
	int fds[17] = { 0 };
	assert_int_equal(inf_channel_send(&channel, packet, 1, fds, 17), -EINVAL);
}

/* A peer that does not read: the queue fills, the answers say so, and it drains in order when the peer reads again. */
static void waiting_packets_keep_their_order(void **state)
{
	int ends[2], rc;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	uint32_t n_sent = 0, n_pending = 0, number;
	uint8_t bytes[1000] = { 0 };
	for (;; n_sent++) {
		memcpy(bytes, &n_sent, sizeof n_sent);
		rc = inf_channel_send(&channel, bytes, sizeof bytes, ends, n_sent % 2);
		if (rc == INF_CHANNEL_E_FULL)
			break;
		assert_true(rc == 0 || (rc == INF_CHANNEL_PENDING));
		assert_true(rc == INF_CHANNEL_PENDING || !n_pending); /* never past a packet that waits */
		n_pending += rc == INF_CHANNEL_PENDING;
	}
	assert_true(n_pending > 10 && n_pending <= 65);
	assert_int_equal(inf_channel_flush(&channel), INF_CHANNEL_PENDING);
	inf_close_fds(ends, 2);

	struct inf_channel other;
	int fds[INF_MAX_PACKET_FDS];
	size_t n_bytes, n_fds;
	assert_int_equal(inf_channel_init(&other, dup(peer), 0, et_platform_allocator()), 0);
	for (uint32_t i = 0; i < n_sent; i++) {
		assert_int_equal(inf_channel_receive(&other, packet, sizeof packet, &n_bytes, fds, &n_fds), 0);
		memcpy(&number, packet, sizeof number);
		assert_int_equal(number, i);
		assert_int_equal(n_fds, i % 2);
		inf_close_fds(fds, n_fds);
		rc = inf_channel_flush(&channel);
		assert_true(rc == 0 || rc == INF_CHANNEL_PENDING);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(inf_channel_receive(&other, packet, sizeof packet, &n_bytes, fds, &n_fds), INF_CHANNEL_AGAIN);
	inf_channel_deinit(&other);
}

/* Receive everything at the peer's end, queued packets included. */
static void read_all(void)
{
	struct inf_channel other;
	int fds[INF_MAX_PACKET_FDS], rc;
	size_t n_bytes, n_fds;
	assert_int_equal(inf_channel_init(&other, dup(peer), 0, et_platform_allocator()), 0);
	for (;;) {
		rc = inf_channel_receive(&other, packet, sizeof packet, &n_bytes, fds, &n_fds);
		if (rc == INF_CHANNEL_AGAIN)
			break;
		assert_int_equal(rc, 0);
		inf_close_fds(fds, n_fds);
		inf_channel_flush(&channel);
	}
	inf_channel_deinit(&other);
}

/* A peer that does not read gets only a few descriptors; one that reads gets as many as it likes. */
static void unread_descriptors_are_limited(void **state)
{
	if (getenv("INFERD_EMULATED"))
		skip(); /* qemu-user does not know how many bytes of a socket are unread */
	int fd = dup(peer), n = 0, rc;
	channel.is_wary = true;
	/* while the peer reads there is no limit, even if something is always unread */
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(inf_channel_send(&channel, "x", 1, &fd, 1), 0);
		if (i % 10 == 9)
			read_all();
	}
	while ((rc = inf_channel_send(&channel, "x", 1, &fd, 1)) == 0)
		n++;
	assert_int_equal(rc, INF_CHANNEL_E_FULL);
	assert_int_equal(n, INF_CHANNEL_MAX_UNREAD_FDS);
	/* packets without descriptors are still sent */
	assert_int_equal(inf_channel_send(&channel, "x", 1, NULL, 0), 0);
	read_all();
	assert_int_equal(inf_channel_send(&channel, "x", 1, &fd, 1), 0);
	read_all();
	/* the queue takes fewer: each is a descriptor of this process */
	while ((rc = inf_channel_send(&channel, packet, 4096, NULL, 0)) == 0)
		;
	assert_int_equal(rc, INF_CHANNEL_PENDING);
	for (n = 0; (rc = inf_channel_send(&channel, "x", 1, &fd, 1)) == INF_CHANNEL_PENDING;)
		n++;
	assert_int_equal(rc, INF_CHANNEL_E_FULL);
	assert_int_equal(n, INF_CHANNEL_MAX_WAITING_FDS);
	read_all();
	assert_int_equal(inf_channel_send(&channel, "x", 1, &fd, 1), 0);
	close(fd);
}

/* A peer that reads steadily is never mistaken for one that does not, whatever the number and size of unread
 * packets. */
static void steady_readers_get_descriptors(void **state)
{
	static const size_t sizes[] = { 1, 24, 96, 768, 2000 };
	enum { OUTSTANDING = INF_CHANNEL_MAX_UNREAD_FDS - 4, ROUNDS = 500 };
	if (getenv("INFERD_EMULATED"))
		skip();
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), size = 1 << 20;
	struct inf_channel other;
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(inf_channel_fd(&channel), SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
	assert_int_equal(inf_channel_init(&other, dup(peer), 0, et_platform_allocator()), 0);
	channel.is_wary = true;
	for (int i = 0; i < ROUNDS; i++) {
		int fds[INF_MAX_PACKET_FDS];
		size_t n_bytes, n_fds, n = sizes[(size_t)i % (sizeof sizes / sizeof *sizes)];
		assert_int_equal(inf_channel_send(&channel, packet, n, &fd, 1), 0);
		assert_int_equal(inf_channel_send(&channel, packet, n, NULL, 0), 0);
		for (int k = 0; k < 2 && i >= OUTSTANDING; k++) {
			assert_int_equal(inf_channel_receive(&other, packet, sizeof packet, &n_bytes, fds, &n_fds), 0);
			assert_int_equal(n_fds, !k);
			inf_close_fds(fds, n_fds);
		}
	}
	inf_channel_deinit(&other);
	read_all();
	close(fd);
}

/* A large file counts with its size. */
static void unread_files_are_limited(void **state)
{
	if (getenv("INFERD_EMULATED"))
		skip();
	int fd = memfd_create("large", MFD_CLOEXEC), empty = memfd_create("empty", MFD_CLOEXEC);
	assert_true(fd >= 0 && empty >= 0);
	for (size_t at = 0; at < MAX_WAITING; at += sizeof packet) /* the whole limit for waiting bytes */
		assert_int_equal(write(fd, packet, sizeof packet), sizeof packet);
	assert_int_equal(ftruncate(empty, 1 << 30), 0);
	channel.is_wary = true;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(inf_channel_send(&channel, "x", 1, &fd, 1), 0);
		assert_int_equal(inf_channel_send(&channel, "x", 1, &fd, 1), INF_CHANNEL_E_FULL);
		assert_int_equal(inf_channel_send(&channel, "x", 1, &empty, 1), 0);
		read_all();
	}
	close(fd);
	close(empty);
}

static void closing_drops_waiting_packets(void **state)
{
	int fd = dup(peer), rc;
	do {
		rc = inf_channel_send(&channel, packet, 5000, &fd, 1);
	} while (rc != INF_CHANNEL_E_FULL);
	close(fd);
	/* tear_down finds the copies of fd closed */
}

/* ---- two senders ---- */

enum { N_EACH = 2000 };

struct sender {
	pthread_t thread;
	uint32_t number;
};

/* A worker's part: send, and leave waiting packets to the thread that polls. */
static void *send_many(void *arg)
{
	struct sender *sender = arg;
	for (uint32_t i = 0; i < N_EACH;) {
		uint32_t words[64] = { sender->number, i };
		int rc = inf_channel_send(&channel, words, sizeof words, NULL, 0);
		if (rc == INF_CHANNEL_E_CLOSED)
			break;
		if (rc == 0 || rc == INF_CHANNEL_PENDING)
			i++;
		else
			poll(&(struct pollfd){ .fd = inf_channel_fd(&channel), .events = POLLOUT }, 1, -1);
		if (rc == INF_CHANNEL_PENDING || rc == INF_CHANNEL_E_FULL)
			inf_channel_flush(&channel);
	}
	return NULL;
}

static void two_threads_send(void **state)
{
	struct sender senders[2] = { { .number = 0 }, { .number = 1 } };
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]), 0);
	uint32_t next[2] = { 0 }, words[64];
	for (int n = 0; n < 2 * N_EACH;) {
		struct pollfd fds[2] = { { .fd = peer, .events = POLLIN },
			{ .fd = inf_channel_fd(&channel), .events = POLLOUT } };
		assert_true(poll(fds, 2, -1) > 0);
		inf_channel_flush(&channel);
		while (recv(peer, words, sizeof words, MSG_DONTWAIT) == sizeof words) {
			assert_in_range(words[0], 0, 1);
			assert_int_equal(words[1], next[words[0]]++); /* each thread's own order is kept */
			n++;
		}
	}
	for (int i = 0; i < 2; i++)
		pthread_join(senders[i].thread, NULL);
}

/* The session ends while a worker sends. */
static void closing_while_sending(void **state)
{
	struct sender sender = { .number = 0 };
	assert_int_equal(pthread_create(&sender.thread, NULL, send_many, &sender), 0);
	uint32_t words[64];
	assert_true(recv(peer, words, sizeof words, 0) == sizeof words);
	shutdown(peer, SHUT_RDWR);
	pthread_join(sender.thread, NULL);
	inf_channel_close(&channel);
}

/* ---- waiting ---- */

struct waiter {
	pthread_t thread;
	_Atomic(int) tid;
	int answer;
	size_t n_bytes, n_fds;
};

static void *wait_for_one(void *arg)
{
	struct waiter *w = arg;
	int fds[INF_MAX_PACKET_FDS];
	w->tid = (int)syscall(SYS_gettid);
	w->answer = inf_channel_wait(&channel, packet, sizeof packet, &w->n_bytes, fds, &w->n_fds);
	return NULL;
}

static bool is_asleep(int tid)
{
	char path[64], text[512] = "", *end;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof text, file));
	fclose(file);
	end = strrchr(text, ')');
	return end && end[2] == 'S';
}

static void start_waiting(struct waiter *w)
{
	*w = (struct waiter){ .answer = -1 };
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for_one, w), 0);
	while (!w->tid || !is_asleep(w->tid))
		sched_yield();
}

static void waiting_ends_with_a_packet(void **state)
{
	struct waiter w;
	start_waiting(&w);
	peer_send("hello", 5, 0);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.answer, 0);
	assert_int_equal(w.n_bytes, 5);
	assert_int_equal(w.n_fds, 0);
	assert_memory_equal(packet, "hello", 5);
	assert_receives(INF_CHANNEL_AGAIN); /* a descriptor that can wait is not sent at once */
}

static void waiting_ends_with_the_peer(void **state)
{
	struct waiter w;
	start_waiting(&w);
	shutdown(peer, SHUT_RDWR);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.answer, INF_CHANNEL_E_CLOSED);
}

/* ---- addresses ---- */

static char dir[] = "/tmp/inferd-test-channel-XXXXXX";

static void listen_and_connect(void **state)
{
	char path[128];
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/inferd.sock", dir);
	assert_int_equal(inf_channel_connect(path), -ENOENT);
	int listener = inf_channel_listen(path, 0660);
	assert_true(listener >= 0);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	assert_int_equal(inf_channel_accept(listener), -EAGAIN);
	int fd = inf_channel_connect(path);
	assert_true(fd >= 0);
	int accepted = inf_channel_accept(listener);
	assert_true(accepted >= 0);
	struct inf_channel one;
	assert_int_equal(inf_channel_init(&one, accepted, 0, et_platform_allocator()), 0);
	struct inf_peer who;
	assert_int_equal(inf_channel_peer(&one, &who), 0);
	assert_int_equal(who.pid, getpid());
	assert_int_equal(who.uid, getuid());
	if (who.pidfd >= 0)
		close(who.pidfd);
	/* its group, and the supplementary ones in any order */
	static gid_t gids[NGROUPS_MAX + 1], own[NGROUPS_MAX];
	size_t n_gids;
	int n_own = getgroups(NGROUPS_MAX, own);
	assert_int_equal(inf_channel_peer_groups(&one, gids, NGROUPS_MAX + 1, &n_gids), 0);
	assert_int_equal(n_gids, 1 + n_own);
	assert_int_equal(gids[0], getegid());
	for (int i = 0; i < n_own; i++)
		assert_true(memmem(gids + 1, (n_gids - 1) * sizeof(gid_t), &own[i], sizeof(gid_t)));
	if (n_own)
		assert_int_equal(inf_channel_peer_groups(&one, gids, 1, &n_gids), -ERANGE);
	inf_channel_deinit(&one);
	close(fd);

	/* a process answers there */
	assert_int_equal(inf_channel_listen(path, 0660), -EADDRINUSE);
	/* no process any more: the daemon that made it has ended */
	close(listener);
	assert_int_equal(inf_channel_connect(path), -ECONNREFUSED);
	listener = inf_channel_listen(path, 0600);
	assert_true(listener >= 0);
	close(listener);
	unlink(path);
	/* not a socket: the file stays */
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(inf_channel_listen(path, 0600), -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	unlink(path);
	rmdir(dir);

	memset(path, 'x', sizeof path - 1);
	path[0] = '/';
	path[sizeof path - 1] = '\0';
	assert_int_equal(inf_channel_listen(path, 0600), -ENAMETOOLONG);
	assert_int_equal(inf_channel_connect(path), -ENAMETOOLONG);
	assert_int_equal(inf_channel_connect(""), -EINVAL);
}

/* Send @n_bytes (0: an empty packet) from the peer, with a descriptor if asked. */
static void send_from_peer(size_t n_bytes, bool has_fd)
{
	static uint8_t bytes[16384];
	union {
		struct cmsghdr header;
		uint8_t space[CMSG_SPACE(sizeof(int))];
	} control = { .space = { 0 } };
	struct iovec piece = { bytes, n_bytes };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
	assert_true(n_bytes <= sizeof bytes);
	if (has_fd) {
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &peer, sizeof peer);
	}
	assert_int_equal(sendmsg(peer, &message, MSG_NOSIGNAL), n_bytes);
}

/* A descriptor anywhere in the unread packets is found, and none is found if there is none. */
static void unread_descriptors_are_seen(void **state)
{
	static const size_t sizes[] = { 1, 0, 4096, 0, 0, 4097, 16384, 24 };
	enum { N = sizeof sizes / sizeof *sizes };
	if (getenv("INFERD_EMULATED"))
		skip();                            /* qemu-user cannot peek at packets one after the other */
	for (size_t with = 0; with <= N; with++) { /* which packet has the descriptor; in the last round none */
		for (size_t i = 0; i < N; i++)
			send_from_peer(sizes[i], i == with);
		if (with % 2) { /* the peer has hung up */
			close(peer);
			peer = -1;
		}
		int fd = inf_channel_detach(&channel);
		assert_true(fd >= 0);
		if (inf_channel_has_unread_fds(fd) != (with < N))
			fail_msg("packet %zu of %d has a descriptor, and it is not so told", with, N);
		close(fd);
		tear_down(NULL);
		assert_int_equal(set_up(NULL), 0);
	}
	int fd = inf_channel_detach(&channel);
	assert_false(inf_channel_has_unread_fds(fd));
	close(fd);
	assert_true(inf_channel_has_unread_fds(-1)); /* unknown */
}

/* Peeking at the next packet neither takes it nor opens its descriptors. */
static void peeking_takes_nothing(void **state)
{
	static const size_t n_fds[] = { 0, 1, 253, 0 };
	int fds[INF_CHANNEL_MAX_FDS];
	size_t n_bytes, n;
	bool has_fds;
	assert_int_equal(inf_channel_peek(&channel, &has_fds), INF_CHANNEL_AGAIN);
	for (size_t i = 0; i < sizeof n_fds / sizeof *n_fds; i++)
		peer_send("some", i == 3 ? 0 : 4, n_fds[i]);
	size_t n_open = n_open_fds();
	for (size_t i = 0; i < sizeof n_fds / sizeof *n_fds; i++) {
		for (int k = 0; k < 2; k++) {
			assert_int_equal(inf_channel_peek(&channel, &has_fds), 0);
			assert_int_equal(has_fds, n_fds[i] > 0);
		}
		assert_int_equal(n_open_fds(), n_open);
		inf_channel_receive_all(&channel, packet, sizeof packet, &n_bytes, fds, &n);
		assert_int_equal(n, n_fds[i]);
		inf_close_fds(fds, n);
	}
	assert_int_equal(inf_channel_peek(&channel, &has_fds), INF_CHANNEL_AGAIN);
	peer_send("last", 4, 1);
	send(inf_channel_fd(&channel), "unread", 6, 0);
	close(peer);
	peer = -1;
	assert_int_equal(inf_channel_peek(&channel, &has_fds), 0);
	assert_true(has_fds);
	assert_int_equal(inf_channel_receive_all(&channel, packet, sizeof packet, &n_bytes, fds, &n), 0);
	inf_close_fds(fds, n);
	assert_int_equal(inf_channel_peek(&channel, &has_fds), 0); /* the end of the stream */
	assert_false(has_fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(packets_travel_with_descriptors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_truncated_packet_breaks_the_channel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(too_many_descriptors_break_the_channel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_empty_packet_is_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(end_of_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(packets_before_a_hang_up_arrive, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_closed_channel_stays_closed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bad_sizes_answer_einval, set_up, tear_down),
		cmocka_unit_test_setup_teardown(waiting_packets_keep_their_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unread_descriptors_are_limited, set_up, tear_down),
		cmocka_unit_test_setup_teardown(steady_readers_get_descriptors, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unread_files_are_limited, set_up, tear_down),
		cmocka_unit_test_setup_teardown(closing_drops_waiting_packets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_threads_send, set_up, tear_down),
		cmocka_unit_test_setup_teardown(closing_while_sending, set_up, tear_down),
		cmocka_unit_test_setup_teardown(waiting_ends_with_a_packet, set_up, tear_down),
		cmocka_unit_test_setup_teardown(waiting_ends_with_the_peer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unread_descriptors_are_seen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(peeking_takes_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(listen_and_connect, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
