/* SPDX-License-Identifier: BSD-3-Clause */
/* Channel: one end of a session's socket: packets with descriptors, and who the peer is.
 *
 * There is no event loop inside: the owner polls `inf_channel_fd` for POLLIN and calls inf_channel_receive until it
 * answers AGAIN. Nothing here ever blocks, but for inf_channel_wait.
 *
 * Sending may be done by several threads at once, so that whoever finishes a job sends its reply. What the socket
 * does not take at once waits in a bounded queue, in order; the caller who gets INF_CHANNEL_PENDING sees to it that
 * somebody polls for POLLOUT and calls inf_channel_flush. */
#ifndef IPC_CHANNEL_H
#define IPC_CHANNEL_H

#include "ipc/message.h"
#include "runtime/base/alloc.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	INF_CHANNEL_AGAIN = 1,   /* receive: nothing there now */
	INF_CHANNEL_PENDING = 2, /* send, flush: kept; flush when the socket is writable */
	INF_CHANNEL_E_CLOSED,    /* the peer is gone, or inf_channel_close was called */
	INF_CHANNEL_E_BROKEN,    /* receive: truncated, or too many descriptors. End the session. */
	INF_CHANNEL_E_FULL,      /* send: the peer does not read its replies. End the session. */
	INF_CHANNEL_E_TOO_LARGE, /* send: the socket's buffer will never take a packet of this size */
};

enum {
	INF_CHANNEL_MAX_FDS = 253,       /* that the kernel lets travel beside one packet */
	INF_CHANNEL_MAX_UNREAD_FDS = 64, /* packets with descriptors that a wary sender leaves unread */
	INF_CHANNEL_MAX_WAITING_FDS = 8, /* of those, in the queue */
};

struct inf_channel_packet;

struct inf_channel {
	pthread_mutex_t lock; /* guards the queue, and the fd against being closed while somebody sends */
	int fd;
	struct et_allocator allocator;
	struct inf_channel_packet *first, **last; /* waiting */
	size_t n_waiting_bytes, max_waiting_bytes;

	/* Set after inf_channel_init by who does not trust its peer to read: then a peer that does not is sent no more than
	 * INF_CHANNEL_MAX_UNREAD_FDS packets with descriptors, nor memory files that together hold more than
	 * @max_waiting_bytes, but for one. */
	bool is_wary;
	uint32_t n_waiting_fds;
	uint64_t n_sent; /* at least so much of the socket's buffer has ever been taken */
	size_t n_unread_bytes;
	uint32_t first_unread, n_unread;
	struct inf_channel_unread {
		uint64_t at; /* n_sent before it */
		size_t n_bytes;
	} unread[INF_CHANNEL_MAX_UNREAD_FDS]; /* a ring */
};

/* Takes over @fd, a connected SOCK_SEQPACKET socket. At most @max_waiting_bytes of packets wait in the queue. Negative
 * errno: @fd stays the caller's. */
int inf_channel_init(struct inf_channel *channel, int fd, size_t max_waiting_bytes,
	const struct et_allocator *allocator);
/* Close the socket and drop what waits: every later call answers INF_CHANNEL_E_CLOSED. Called by the thread that
 * receives, after it has stopped polling the fd; others may be sending meanwhile. Twice is fine. */
void inf_channel_close(struct inf_channel *channel);
/* The same, but the socket is shut down and the caller's to close (-1: it is closed): in what nobody has read there may
 * be descriptors, and the last close of one takes as long as its file system likes. */
int inf_channel_detach(struct inf_channel *channel);
/* Whether the last close of @fd, a socket that inf_channel_detach has given, may have descriptors to close that nobody has
 * read; also true where that can't be told. */
bool inf_channel_has_unread_fds(int fd);
/* No thread may be using it any more. Closes it if need be. */
void inf_channel_deinit(struct inf_channel *channel);
/* For polling; -1 once closed. */
int inf_channel_fd(const struct inf_channel *channel);

/* Send a packet with up to INF_MAX_PACKET_FDS descriptors, which stay the caller's whatever the answer. Any thread.
 * 0 (sent), INF_CHANNEL_PENDING (will be), INF_CHANNEL_E_CLOSED, INF_CHANNEL_E_FULL, INF_CHANNEL_E_TOO_LARGE;
 * negative errno when it is we who are broken (no memory, no descriptors). */
int inf_channel_send(struct inf_channel *channel, const void *packet, size_t n_bytes, const int *fds, size_t n_fds);
/* Send what waits. 0 (nothing waits now), INF_CHANNEL_PENDING, INF_CHANNEL_E_CLOSED, negative errno. Any thread. */
int inf_channel_flush(struct inf_channel *channel);

/* Receive one packet of at most @max bytes and its descriptors, which are then the caller's. One thread at a time.
 * 0, INF_CHANNEL_AGAIN, INF_CHANNEL_E_CLOSED (an empty packet counts as the end: it is no message),
 * INF_CHANNEL_E_BROKEN; negative errno. *ret_n_fds is 0 and nothing is left open unless the answer is 0. */
int inf_channel_receive(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_MAX_PACKET_FDS], size_t *ret_n_fds);
/* The same, but whatever the answer *ret_n_fds descriptors are the caller's, also those that came beside an empty packet
 * or one that is refused: for who must not wait until they are closed. */
int inf_channel_receive_all(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_CHANNEL_MAX_FDS], size_t *ret_n_fds);
/* Whether there are descriptors beside the packet that is received next, which stays where it is. The thread that receives.
 * INF_CHANNEL_AGAIN: there is none yet. 0: *ret_has_fds is set; at the end, and where receiving says what is wrong, it is
 * false. */
int inf_channel_peek(struct inf_channel *channel, bool *ret_has_fds);
/* As inf_channel_receive, but sleep until there is one: one system call where poll and receive are two. Only
 * where the descriptor is blocking (as inf_channel_connect makes it; else AGAIN is an answer as above) and
 * nothing waits to be flushed. */
int inf_channel_wait(struct inf_channel *channel, void *packet, size_t max, size_t *ret_n_bytes,
	int fds[static INF_MAX_PACKET_FDS], size_t *ret_n_fds);

/* Close descriptors that came beside a message that did not want them. */
void inf_close_fds(const int *fds, size_t n_fds);

/* Who the kernel says is at the other end: as it was when it connected. */
struct inf_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int pidfd; /* the caller's to close; -1 where the kernel has none */
};
/* Negative errno. */
int inf_channel_peer(struct inf_channel *channel, struct inf_peer *ret_peer);

/* A listening socket at @path with the file's permissions @mode, non-blocking, close-on-exec. A socket that is
 * there already is removed only if nobody answers at it (else -EADDRINUSE); anything else there is -EEXIST.
 * -ENAMETOOLONG: the path does not fit an address. The descriptor, or negative errno. */
int inf_channel_listen(const char *path, mode_t mode);
/* The next client, close-on-exec, or negative errno (-EAGAIN: nobody). */
int inf_channel_accept(int listener);
/* A connected socket, or negative errno. May wait while the daemon's backlog is full. */
int inf_channel_connect(const char *path);

#endif
