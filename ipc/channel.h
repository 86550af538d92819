/* SPDX-License-Identifier: BSD-3-Clause */
/* Channel: one end of a session's socket: packets with file descriptors, and the identity of the peer.
 *
 * There is no event loop inside. The owner polls `inf_channel_fd` for POLLIN and calls inf_channel_receive until it
 * answers INF_CHANNEL_AGAIN. Nothing here blocks, except inf_channel_wait.
 *
 * Several threads may send at once, so the thread that finishes a job sends its reply. A packet that the socket does
 * not take at once waits in a bounded queue. A caller that gets INF_CHANNEL_PENDING must ensure that a thread polls
 * for POLLOUT and calls inf_channel_flush. */
#ifndef IPC_CHANNEL_H
#define IPC_CHANNEL_H

#include "ipc/message.h"
#include "runtime/base/alloc.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	INF_CHANNEL_AGAIN = 1,   /* receive: no packet yet */
	INF_CHANNEL_PENDING = 2, /* send, flush: queued; call flush when the socket is writable */
	INF_CHANNEL_E_CLOSED,    /* the peer is gone, or inf_channel_close was called */
	INF_CHANNEL_E_BROKEN,    /* receive: the packet is truncated, or has too many descriptors. End the session. */
	INF_CHANNEL_E_FULL,      /* send: the peer does not read its replies. End the session. */
	INF_CHANNEL_E_TOO_LARGE, /* send: larger than the socket's buffer can ever hold */
};

enum {
	INF_CHANNEL_MAX_FDS = 253,       /* the kernel's limit for one packet (SCM_MAX_FD) */
	INF_CHANNEL_MAX_UNREAD_FDS = 64, /* unread packets with descriptors, if is_wary */
	INF_CHANNEL_MAX_WAITING_FDS = 8, /* packets with descriptors in the queue */
};

struct inf_channel_packet;

struct inf_channel {
	pthread_mutex_t lock; /* guards the queue, and keeps the fd open while a thread sends */
	int fd;
	struct et_allocator allocator;
	struct inf_channel_packet *first, **last; /* packets that wait */
	size_t n_waiting_bytes, max_waiting_bytes;

	/* Set it after inf_channel_init if the peer may fail to read. Such a peer then has at most
	 * INF_CHANNEL_MAX_UNREAD_FDS unread packets with descriptors, and their memory files hold at most
	 * @max_waiting_bytes together (or there is one only). */
	bool is_wary;
	uint32_t n_waiting_fds;
	uint64_t n_sent; /* a lower bound of all bytes that packets ever took of the socket's buffer */
	size_t n_unread_bytes;
	uint32_t first_unread, n_unread;
	struct inf_channel_unread {
		uint64_t at; /* n_sent before this packet */
		size_t n_bytes;
	} unread[INF_CHANNEL_MAX_UNREAD_FDS]; /* a ring */
};

/* Take over @fd, a connected SOCK_SEQPACKET socket. The queue holds at most @max_waiting_bytes of packets. Negative
 * errno: @fd stays the caller's. */
int inf_channel_init(struct inf_channel *channel, int fd, size_t max_waiting_bytes,
	const struct et_allocator *allocator);
/* Close the socket and drop the queue: every later call answers INF_CHANNEL_E_CLOSED. Call it on the thread that
 * receives, after it has stopped polling the fd; other threads may be sending meanwhile. Calling it twice is fine. */
void inf_channel_close(struct inf_channel *channel);
/* The same as inf_channel_close, but the socket is only shut down, and returned for the caller to close (-1: it was
 * closed already). Unread packets may carry descriptors, and the last close of a file may take as long as its file
 * system likes. */
int inf_channel_detach(struct inf_channel *channel);
/* Whether closing @fd, a socket from inf_channel_detach, may close descriptors that were never read. Also true if
 * that is unknown. */
bool inf_channel_has_unread_fds(int fd);
/* Close the channel if it is open, and free it. No thread may be using it any more. */
void inf_channel_deinit(struct inf_channel *channel);
/* The descriptor to poll; -1 once closed. */
int inf_channel_fd(const struct inf_channel *channel);

/* Send a packet with up to INF_MAX_PACKET_FDS descriptors, which stay the caller's whatever the answer. Any thread.
 * Answers: 0 (sent), INF_CHANNEL_PENDING (queued), INF_CHANNEL_E_CLOSED, INF_CHANNEL_E_FULL,
 * INF_CHANNEL_E_TOO_LARGE; negative errno if our own process has a problem (no memory, no descriptors). */
int inf_channel_send(struct inf_channel *channel, const void *packet, size_t n_bytes, const int *fds, size_t n_fds);
/* Send queued packets. 0 (the queue is empty), INF_CHANNEL_PENDING, INF_CHANNEL_E_CLOSED, negative errno. Any
 * thread. */
int inf_channel_flush(struct inf_channel *channel);

/* Receive one packet of at most @max bytes and its descriptors, which are then the caller's. One thread at a time.
 * Answers: 0, INF_CHANNEL_AGAIN, INF_CHANNEL_E_CLOSED (also for an empty packet: it is no message),
 * INF_CHANNEL_E_BROKEN; negative errno. Unless the answer is 0, *ret_n_fds is 0 and no descriptor is left open. */
int inf_channel_receive(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_MAX_PACKET_FDS], size_t *ret_n_fds);
/* The same as inf_channel_receive, but whatever the answer, *ret_n_fds descriptors are the caller's to close, also
 * those of an empty or refused packet. For a thread that must not block while they are closed. */
int inf_channel_receive_all(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_CHANNEL_MAX_FDS], size_t *ret_n_fds);
/* Whether the next packet has descriptors. The packet stays unread. Only the thread that receives.
 * Answers: INF_CHANNEL_AGAIN (no packet yet); 0 (*ret_has_fds is set; false at the end of the stream, and where
 * inf_channel_receive will report an error); negative errno. */
int inf_channel_peek(struct inf_channel *channel, bool *ret_has_fds);
/* The same as inf_channel_receive, but sleep until a packet comes: one system call instead of poll and receive. Only
 * if the descriptor is blocking (inf_channel_connect makes it so) and the queue is empty. AGAIN: a signal came, or the
 * descriptor is not blocking. */
int inf_channel_wait(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_MAX_PACKET_FDS], size_t *ret_n_fds);

/* Close descriptors of a packet whose message does not want them. */
void inf_close_fds(const int *fds, size_t n_fds);

/* The peer's identity when it connected, as the kernel recorded it. */
struct inf_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int pidfd; /* the caller's to close; -1 if the kernel does not provide one */
};
/* 0 or negative errno. */
int inf_channel_peer(struct inf_channel *channel, struct inf_peer *ret_peer);
/* The groups that the peer was in when it connected, as the kernel recorded them: its group and its supplementary ones
 * (SO_PEERGROUPS). At most @max of them are written to @gids; @max is at least 1, and NGROUPS_MAX + 1 is always enough.
 * *ret_n: how many there are in @gids. 0, or negative errno: -ERANGE if @max is not enough. */
int inf_channel_peer_groups(const struct inf_channel *channel, gid_t *gids, size_t max, size_t *ret_n);

/* Make a listening socket at @path with permissions @mode, non-blocking, close-on-exec. Returns its descriptor, or
 * negative errno. An existing socket is removed only if no process answers at it (else -EADDRINUSE). Any other
 * existing file: -EEXIST. -ENAMETOOLONG: the path does not fit a socket address. */
int inf_channel_listen(const char *path, mode_t mode);
/* Accept the next client, close-on-exec. Negative errno: -EAGAIN if no client is waiting. */
int inf_channel_accept(int listener);
/* Connect. Returns the socket, or negative errno. May wait while the daemon's backlog is full. */
int inf_channel_connect(const char *path);
/* The same, but never wait: -EAGAIN if the daemon's backlog is full. */
int inf_channel_connect_now(const char *path);

#endif
