/* SPDX-License-Identifier: BSD-3-Clause */
/* Reply buffer: a reply as it is encoded into a packet. Each thread has one, so that sending a reply allocates
 * nothing. */
#ifndef DAEMON_BASE_REPLY_H
#define DAEMON_BASE_REPLY_H

#include "ipc/message.h"

struct inf_reply_buffer {
	struct inf_codec codec;
	size_t n_bytes;
	int fd; /* to be sent beside the packet; -1: none */
	uint8_t packet[INF_MAX_PACKET];
};

#endif
