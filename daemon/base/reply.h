/* SPDX-License-Identifier: BSD-3-Clause */
/* A reply on its way into a packet: one buffer a thread, so that sending one takes no memory. */
#ifndef DAEMON_BASE_REPLY_H
#define DAEMON_BASE_REPLY_H

#include "ipc/message.h"

struct inf_reply_buffer {
	struct inf_codec codec;
	size_t n_bytes;
	int fd; /* -1, or one to send beside it */
	uint8_t packet[INF_MAX_PACKET];
};

#endif
