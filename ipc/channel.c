/* SPDX-License-Identifier: BSD-3-Clause */
/* One end of a session's socket.
 *
 * What must always be true:
 *   - No received descriptor is lost: each is handed to the caller or closed, also if its packet is refused. Even an
 *     empty packet may carry descriptors.
 *   - Packets leave in the order in which they were sent. While one waits in the queue, later ones wait behind it.
 *   - The lock is held only during calls that do not block, so a worker that sends never waits for a peer.
 *   - What a peer leaves unread is bounded: bytes by the socket's buffer and the queue's size, descriptors by limits of
 *     their own (is_wary). Each descriptor keeps a file alive, maybe a large one, and the kernel counts descriptors in
 *     flight against this process. Without a limit a few peers that do not read could stop it from sending to any peer.
 *
 * A channel does not count its peer's requests; limits beyond the queue's size belong to the session. */
#include "ipc/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

struct inf_channel_packet {
	struct inf_channel_packet *next;
	size_t n_bytes;
	size_t n_fds, n_file_bytes;
	int fds[INF_MAX_PACKET_FDS];
	uint8_t bytes[];
};

int inf_channel_init(struct inf_channel *channel, int fd, size_t max_waiting_bytes,
	const struct et_allocator *allocator)
{
	*channel = (struct inf_channel){ .fd = fd, .allocator = *allocator, .max_waiting_bytes = max_waiting_bytes };
	channel->last = &channel->first;
	int rc = pthread_mutex_init(&channel->lock, NULL);
	return -rc;
}

static void packet_free(struct inf_channel *channel, struct inf_channel_packet *packet)
{
	inf_close_fds(packet->fds, packet->n_fds);
	channel->allocator.free(channel->allocator.self, packet, sizeof *packet + packet->n_bytes);
}

/* Take the first packet out of the queue. */
static struct inf_channel_packet *packet_take(struct inf_channel *channel)
{
	struct inf_channel_packet *packet = channel->first;
	channel->first = packet->next;
	if (!channel->first)
		channel->last = &channel->first;
	channel->n_waiting_bytes -= sizeof *packet + packet->n_bytes;
	channel->n_waiting_fds -= (uint32_t)packet->n_fds;
	return packet;
}

static int take_socket(struct inf_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	int fd = channel->fd;
	channel->fd = -1;
	while (channel->first)
		packet_free(channel, packet_take(channel));
	pthread_mutex_unlock(&channel->lock);
	return fd;
}

int inf_channel_detach(struct inf_channel *channel)
{
	int fd = take_socket(channel);
	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
	return fd;
}

/* Look at the unread packets one after the other with MSG_PEEK, so that neither they nor their descriptors are
 * received. The control buffer has room for the sender's credentials only, which every packet has; the end of the
 * stream has none. If a packet carries more, the kernel sets MSG_CTRUNC. The socket is shut down, so no packet is
 * added meanwhile. */
bool inf_channel_has_unread_fds(int fd)
{
	enum { MOST_LOOKS = 512 }; /* more than the number of smallest packets that a socket's default buffer holds */
	static const int from = 0, on = 1;
	union {
		struct cmsghdr header;
		uint8_t space[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	uint8_t bytes[4096]; /* the rest of a larger packet comes with the next peek */
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &from, sizeof from) < 0)
		return true;
	for (int i = 0; i < MOST_LOOKS; i++) {
		struct iovec piece = { bytes, sizeof bytes };
		struct msghdr message = {
			.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
		};
		ssize_t n = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == ECONNRESET)) /* the kernel reports a reset only once */
			continue;
		if (n < 0)
			return errno != EAGAIN;
		if (message.msg_flags & MSG_CTRUNC)
			return true;
		if (!CMSG_FIRSTHDR(&message))
			return false;
	}
	return true;
}

void inf_channel_close(struct inf_channel *channel)
{
	int fd = take_socket(channel);
	if (fd >= 0)
		close(fd);
}

void inf_channel_deinit(struct inf_channel *channel)
{
	inf_channel_close(channel);
	pthread_mutex_destroy(&channel->lock);
}

int inf_channel_fd(const struct inf_channel *channel)
{
	return channel->fd;
}

/* ---- sending ---- */

/* Send one packet now. 0, INF_CHANNEL_PENDING (the socket is full), INF_CHANNEL_E_*, or negative errno. */
static int send_now(int fd, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr header;
		uint8_t space[CMSG_SPACE(sizeof(int) * INF_MAX_PACKET_FDS)];
	} control;
	struct iovec piece = { (void *)bytes, n_bytes };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
	if (n_fds) {
		memset(&control, 0, sizeof control);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *header = &control.header;
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(header), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		if (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		switch (errno) {
		case EINTR:
			continue;
		case EAGAIN:
			return INF_CHANNEL_PENDING;
		case EPIPE:
		case ECONNRESET:
		case ENOTCONN:
			return INF_CHANNEL_E_CLOSED;
		case EMSGSIZE:
			return INF_CHANNEL_E_TOO_LARGE;
		default:
			return -errno;
		}
	}
}

/* ---- unread packets ---------------- */

/* The least that a packet takes of the socket's buffer in addition to its bytes: the kernel's own structs. It may be
 * twice as much, depending on the kernel and the size. So while descriptors are unread, we ask what each packet
 * really takes. */
enum { LEAST_OVERHEAD = 384 };

/* Forget the packets that the peer has read. The kernel says how many bytes of the buffer unread packets take; these
 * are the last packets sent. So a packet was read if it and all packets after it take more than that. */
static void forget_read(struct inf_channel *channel, int n_taken)
{
	while (channel->n_unread) {
		const struct inf_channel_unread *first = &channel->unread[channel->first_unread];
		if (channel->n_sent - first->at <= (uint64_t)n_taken)
			return;
		channel->n_unread_bytes -= first->n_bytes;
		channel->first_unread = (channel->first_unread + 1) % INF_CHANNEL_MAX_UNREAD_FDS;
		channel->n_unread--;
	}
}

/* Ask the kernel how much of the socket's buffer is taken, and forget what was read. False: the kernel does not
 * tell. */
static bool look_at_socket(struct inf_channel *channel, int *ret_n_taken)
{
	if (ioctl(channel->fd, SIOCOUTQ, ret_n_taken) < 0)
		return false;
	forget_read(channel, *ret_n_taken);
	return true;
}

/* Whether one more packet with descriptors is within the limits. */
static bool has_room_for_fds(struct inf_channel *channel, size_t n_file_bytes)
{
	int n_taken;
	if (channel->n_unread)
		look_at_socket(channel, &n_taken);
	return channel->n_unread + channel->n_waiting_fds < INF_CHANNEL_MAX_UNREAD_FDS &&
	       (!channel->n_unread_bytes || !n_file_bytes ||
		       channel->n_unread_bytes + n_file_bytes <= channel->max_waiting_bytes);
}

/* Do send_now, and record the packet's size. The ring has room: has_room_for_fds said so, maybe before the packet
 * waited. If the peer has read all descriptors, this costs no extra system call. If the peer reads meanwhile, the
 * buffer grows by less than the packet's size; that errs on the safe side. */
static int send_and_note(struct inf_channel *channel, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds,
	size_t n_file_bytes)
{
	uint64_t at = channel->n_sent, n_least = n_bytes + LEAST_OVERHEAD;
	int n_before, n_after;
	bool is_known = channel->is_wary && (n_fds || channel->n_unread) && look_at_socket(channel, &n_before) &&
			(n_fds || channel->n_unread);
	int rc = send_now(channel->fd, bytes, n_bytes, fds, n_fds);
	if (rc)
		return rc;
	is_known = is_known && ioctl(channel->fd, SIOCOUTQ, &n_after) == 0 && n_after > n_before;
	channel->n_sent += is_known && (uint64_t)(n_after - n_before) > n_least ? (uint64_t)(n_after - n_before)
										: n_least;
	if (!channel->is_wary || !n_fds)
		return 0;
	uint32_t place = (channel->first_unread + channel->n_unread++) % INF_CHANNEL_MAX_UNREAD_FDS;
	channel->unread[place] = (struct inf_channel_unread){ at, n_file_bytes };
	return 0;
}

/* The size that the files hold now, not what they may grow to. */
static size_t file_bytes(const int *fds, size_t n_fds)
{
	size_t n = 0;
	struct stat st;
	for (size_t i = 0; i < n_fds; i++)
		n += fstat(fds[i], &st) == 0 ? (size_t)st.st_blocks * 512 : 0;
	return n;
}

/* ---- sending and queueing --------------------------- */

/* Send from the front of the queue until it is empty or the socket is full. */
static int flush_locked(struct inf_channel *channel)
{
	int rc = 0;
	while (channel->first && !rc) {
		struct inf_channel_packet *packet = channel->first;
		rc = send_and_note(channel, packet->bytes, packet->n_bytes, packet->fds, packet->n_fds,
			packet->n_file_bytes);
		if (rc)
			break;
		packet_take(channel);
		packet_free(channel, packet);
	}
	return rc;
}

/* Append a copy of the packet, with duplicates of its descriptors, to the queue. */
static int enqueue_locked(struct inf_channel *channel, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds,
	size_t n_file_bytes)
{
	size_t n_all = sizeof(struct inf_channel_packet) + n_bytes;
	if (n_all > channel->max_waiting_bytes - channel->n_waiting_bytes ||
		(channel->is_wary && n_fds && channel->n_waiting_fds + n_fds > INF_CHANNEL_MAX_WAITING_FDS))
		return INF_CHANNEL_E_FULL;
	struct inf_channel_packet *packet = channel->allocator.alloc(channel->allocator.self, n_all,
		_Alignof(struct inf_channel_packet));
	if (!packet)
		return -ENOMEM;
	packet->next = NULL;
	packet->n_bytes = n_bytes;
	packet->n_fds = 0;
	packet->n_file_bytes = n_file_bytes;
	memcpy(packet->bytes, bytes, n_bytes);
	for (size_t i = 0; i < n_fds; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		if (copy < 0) {
			int rc = -errno;
			packet_free(channel, packet);
			return rc;
		}
		packet->fds[packet->n_fds++] = copy;
	}
	*channel->last = packet;
	channel->last = &packet->next;
	channel->n_waiting_bytes += n_all;
	channel->n_waiting_fds += (uint32_t)n_fds;
	channel->n_unread_bytes += n_file_bytes;
	return INF_CHANNEL_PENDING;
}

int inf_channel_send(struct inf_channel *channel, const void *packet, size_t n_bytes, const int *fds, size_t n_fds)
{
	if (!n_bytes || n_bytes > INF_MAX_PACKET || n_fds > INF_MAX_PACKET_FDS)
		return -EINVAL;
	pthread_mutex_lock(&channel->lock);
	int rc = channel->fd < 0 ? INF_CHANNEL_E_CLOSED : flush_locked(channel);
	size_t n_file_bytes = channel->is_wary ? file_bytes(fds, n_fds) : 0;
	if ((rc == 0 || rc == INF_CHANNEL_PENDING) && channel->is_wary && n_fds &&
		!has_room_for_fds(channel, n_file_bytes))
		rc = INF_CHANNEL_E_FULL;
	if (!rc)
		rc = send_and_note(channel, packet, n_bytes, fds, n_fds, n_file_bytes);
	if (!rc)
		channel->n_unread_bytes += n_file_bytes;
	else if (rc == INF_CHANNEL_PENDING)
		rc = enqueue_locked(channel, packet, n_bytes, fds, n_fds, n_file_bytes);
	pthread_mutex_unlock(&channel->lock);
	return rc;
}

int inf_channel_flush(struct inf_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	int rc = channel->fd < 0 ? INF_CHANNEL_E_CLOSED : flush_locked(channel);
	pthread_mutex_unlock(&channel->lock);
	return rc;
}

/* ---- receiving ---- */

void inf_close_fds(const int *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
}

/* Collect every descriptor of a received message, even if the message is refused for another reason. */
static size_t take_fds(struct msghdr *message, int fds[static INF_CHANNEL_MAX_FDS])
{
	size_t n_fds = 0;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n && n_fds < INF_CHANNEL_MAX_FDS; i++, n_fds++)
			memcpy(&fds[n_fds], CMSG_DATA(header) + i * sizeof(int), sizeof(int));
	}
	return n_fds;
}

/* See inf_channel_receive_all. There is room for the largest possible number of descriptors: the kernel closes those
 * without room on this thread, which may be slow. */
static int receive(struct inf_channel *channel, int flags, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_CHANNEL_MAX_FDS], size_t *ret_n_fds)
{
	union {
		struct cmsghdr header;
		uint8_t space[CMSG_SPACE(sizeof(int) * INF_CHANNEL_MAX_FDS)];
	} control;
	*ret_n_fds = 0;
	if (channel->fd < 0)
		return INF_CHANNEL_E_CLOSED;
	struct iovec piece = { packet, max };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control,
	};
	ssize_t n;
	/* A peer that hung up before it had read everything is reported as a reset, once; the packets that it sent
	 * follow. */
	n = recvmsg(channel->fd, &message, flags | MSG_CMSG_CLOEXEC);
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(channel->fd, &message, flags | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return INF_CHANNEL_AGAIN;
	if (n < 0)
		return errno == ECONNRESET ? INF_CHANNEL_E_CLOSED : -errno;
	*ret_n_bytes = (size_t)n;
	*ret_n_fds = take_fds(&message, fds);
	if (n == 0)
		return INF_CHANNEL_E_CLOSED;
	bool is_whole = !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && *ret_n_fds <= INF_MAX_PACKET_FDS;
	return is_whole ? 0 : INF_CHANNEL_E_BROKEN;
}

/* Call receive, and close the descriptors unless the answer is 0. */
static int receive_fitting(struct inf_channel *channel, int flags, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_MAX_PACKET_FDS], size_t *ret_n_fds)
{
	int all[INF_CHANNEL_MAX_FDS];
	size_t n_fds;
	int rc = receive(channel, flags, packet, max, ret_n_bytes, all, &n_fds);
	if (rc) {
		inf_close_fds(all, n_fds);
		n_fds = 0;
	}
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = all[i];
	*ret_n_fds = n_fds;
	return rc;
}

int inf_channel_receive_all(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_CHANNEL_MAX_FDS], size_t *ret_n_fds)
{
	return receive(channel, MSG_DONTWAIT, packet, max, ret_n_bytes, fds, ret_n_fds);
}

int inf_channel_receive(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_MAX_PACKET_FDS], size_t *ret_n_fds)
{
	return receive_fitting(channel, MSG_DONTWAIT, packet, max, ret_n_bytes, fds, ret_n_fds);
}

/* Without room for descriptors the kernel sets MSG_CTRUNC if there are any. */
int inf_channel_peek(struct inf_channel *channel, bool *ret_has_fds)
{
	uint8_t byte;
	struct iovec piece = { &byte, sizeof byte };
	struct msghdr message;
	ssize_t n;
	do {
		message = (struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 };
		n = recvmsg(channel->fd, &message, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET)); /* the kernel reports a reset only once */
	if (n < 0 && errno == EAGAIN)
		return INF_CHANNEL_AGAIN;
	*ret_has_fds = n >= 0 && (message.msg_flags & MSG_CTRUNC);
	return 0;
}

int inf_channel_wait(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_MAX_PACKET_FDS], size_t *ret_n_fds)
{
	return receive_fitting(channel, 0, packet, max, ret_n_bytes, fds, ret_n_fds);
}

/* ---- making connections ---- */

int inf_channel_peer(struct inf_channel *channel, struct inf_peer *ret_peer)
{
	struct ucred credentials;
	socklen_t n = sizeof credentials;
	if (getsockopt(channel->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &n) < 0)
		return -errno;
	int pidfd = -1;
	n = sizeof pidfd;
	if (getsockopt(channel->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) < 0)
		pidfd = -1;
	*ret_peer = (struct inf_peer){
		.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid, .pidfd = pidfd
	};
	return 0;
}

int inf_channel_peer_groups(const struct inf_channel *channel, gid_t *gids, size_t max, size_t *ret_n)
{
	struct ucred credentials;
	socklen_t n = sizeof credentials, n_groups = (socklen_t)((max - 1) * sizeof *gids);
	if (getsockopt(channel->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &n) < 0)
		return -errno;
	if (getsockopt(channel->fd, SOL_SOCKET, SO_PEERGROUPS, gids + 1, &n_groups) < 0)
		return -errno;
	gids[0] = credentials.gid;
	*ret_n = 1 + n_groups / sizeof *gids;
	return 0;
}

static int address_of(struct sockaddr_un *ret_address, const char *path)
{
	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	size_t n = strlen(path);
	if (!n)
		return -EINVAL;
	if (n >= sizeof ret_address->sun_path)
		return -ENAMETOOLONG;
	memcpy(ret_address->sun_path, path, n);
	return 0;
}

static int connect_to(const char *path, bool waits)
{
	struct sockaddr_un address;
	int rc = address_of(&address, path);
	if (rc)
		return rc;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 || (!waits && fcntl(fd, F_SETFL, 0) < 0)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int inf_channel_connect(const char *path)
{
	return connect_to(path, true);
}

int inf_channel_connect_now(const char *path)
{
	return connect_to(path, false);
}

/* Remove the socket of a daemon that no longer runs. 0, or negative errno. */
static int remove_stale(const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	int fd = inf_channel_connect(path);
	if (fd >= 0)
		close(fd);
	if (fd != -ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(path) < 0 ? -errno : 0;
}

static int bind_and_listen(int fd, const char *path, mode_t mode)
{
	struct sockaddr_un address;
	int rc = address_of(&address, path);
	if (rc)
		return rc;
	if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		if (errno != EADDRINUSE)
			return -errno;
		rc = remove_stale(path);
		if (rc)
			return rc;
		if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
			return -errno;
	}
	/* before listen no client can connect, so none gets in with the umask's permissions */
	if (chmod(path, mode) < 0 || listen(fd, SOMAXCONN) < 0) {
		rc = -errno;
		unlink(path);
		return rc;
	}
	return 0;
}

int inf_channel_listen(const char *path, mode_t mode)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	int rc = bind_and_listen(fd, path, mode);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

int inf_channel_accept(int listener)
{
	int fd;
	do {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	return fd < 0 ? -errno : fd;
}
