/* SPDX-License-Identifier: BSD-3-Clause */
/* Send and receive the packets of wire.h, and make memory files.
 *
 * A packet is exactly as long as its header says; any other is malformed, so the reader of a packet can rely on its
 * length. A packet with more than one descriptor is malformed, too. A descriptor may be missing because this
 * process has no room for it; that is an error of that message alone. */
#include "delegates/plugin/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fcntl.h>

int et_plugin_send(int socket, const void *packet, int fd, int may_wait)
{
	const struct et_plugin_header *header = packet;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { (void *)(uintptr_t)packet, header->n_bytes };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fd >= 0) {
		memset(&control, 0, sizeof control);
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	ssize_t n;
	do
		n = sendmsg(socket, &message, MSG_NOSIGNAL | (may_wait ? 0 : MSG_DONTWAIT));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Take the first descriptor of a message, or -1, and close the others. *ret_n says how many came. */
static int take_fd(struct msghdr *message, int *ret_n)
{
	int first = -1;
	*ret_n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (first < 0)
				first = fd;
			else
				close(fd);
			++*ret_n;
		}
	}
	return first;
}

int et_plugin_receive(int socket, void *packet, size_t room, int *ret_fd, int may_wait)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec iov = { packet, room };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes
	};
	ssize_t n;
	int n_fds;
	*ret_fd = -1;
	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (may_wait ? 0 : MSG_DONTWAIT));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	int fd = take_fd(&message, &n_fds);
	const struct et_plugin_header *header = packet;
	if (n == 0 || (size_t)n < sizeof *header || header->n_bytes != (uint32_t)n || n_fds > 1 ||
		(message.msg_flags & MSG_TRUNC)) {
		if (fd >= 0)
			close(fd);
		return n == 0 ? 0 : -EBADMSG;
	}
	*ret_fd = fd;
	return (int)n;
}

int et_plugin_memory(const char *name, uint64_t n_bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (n_bytes > INT64_MAX || ftruncate(fd, (off_t)n_bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
		int rc = n_bytes > INT64_MAX ? -EFBIG : -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int et_plugin_memory_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) < 0 ? -errno : 0;
}
