/* SPDX-License-Identifier: BSD-3-Clause */
/* One request, one reply.
 *
 * The daemon answers each request exactly once, and only one is in flight here. So the next packet must be its
 * reply, or a refusal without an id; anything else means that the peer is not inferd, and is an error. The wait is
 * limited to 30 s (but for a load), because a tool that gives up with a message is of more use than one that hangs. */
#include "clients/inferctl/ask.h"

#include "ipc/channel.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_TIMEOUT_MS = 30000 };
#define UNITS_FOLDER   "/run/inferd/"
#define DEFAULT_SOCKET UNITS_FOLDER "inferd.sock"

struct ctl_ask {
	char *path;
	struct inf_channel channel;
	struct inf_codec encode, decode;
	uint64_t id;
	bool has_long_answer; /* wait for it without limit */
	unsigned char packet[INF_MAX_PACKET];
};

const char *ctl_socket_path(const struct ctl *ctl)
{
	const char *path = ctl->socket ? ctl->socket : getenv("INFERD_SOCKET");
	return path && *path ? path : DEFAULT_SOCKET;
}

/* The path of the manager socket: --manager, else derived from the socket's name: inferd.sock ->
 * inferd-manager.sock. */
static char *manager_path(const struct ctl *ctl)
{
	const char *path = ctl_socket_path(ctl), *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t n = strlen(base);
	if (ctl->manager)
		return ctl_format("%s", ctl->manager);
	if (n > 13 && strcmp(base + n - 13, "-manager.sock") == 0) /* --socket names the manager socket */
		return ctl_format("%s", path);
	if (n > 5 && strcmp(base + n - 5, ".sock") == 0)
		return ctl_format("%.*s-manager.sock", (int)(base - path + (long)n - 5), path);
	return ctl_format("%s-manager", path);
}

static int explain_connect(const char *path, int errno_value, bool is_manager, char *error, size_t error_size)
{
	bool is_absent = errno_value == ENOENT || errno_value == ECONNREFUSED,
	     is_units = strncmp(path, UNITS_FOLDER, strlen(UNITS_FOLDER)) == 0;
	if (is_absent && !is_units)
		snprintf(error, error_size,
			"no daemon listens on %s: start one with 'inferd --%s %s', or name the socket of a running "
			"one with %s",
			path, is_manager ? "manager-socket" : "socket", path, is_manager ? "--manager" : "--socket");
	else if (is_absent)
		snprintf(error, error_size,
			"no daemon listens on %s: start it with 'systemctl start %s', or name the socket of a "
			"running one with %s",
			path, is_manager ? "inferd-manager.socket" : "inferd.socket",
			is_manager ? "--manager" : "--socket");
	else if (errno_value == EPROTOTYPE)
		snprintf(error, error_size, "%s is another program's socket, not inferd's; name inferd's with %s", path,
			is_manager ? "--manager" : "--socket");
	else if (errno_value == EACCES || errno_value == EPERM)
		snprintf(error, error_size, "%s: %s: %s", path, strerror(errno_value),
			is_manager ? "only root and the group 'inferd' may manage the daemon"
				   : "ask the administrator to add you to the group of the socket");
	else
		snprintf(error, error_size, "%s: %s", path, strerror(errno_value));
	return -1;
}

void ctl_ask_close(struct ctl_ask *ask)
{
	if (!ask)
		return;
	inf_channel_deinit(&ask->channel);
	inf_codec_deinit(&ask->encode);
	inf_codec_deinit(&ask->decode);
	free(ask->path);
	free(ask);
}

/* Connect to @path, which is consumed, and say Hello. 0, -1, or the status with which the daemon turned it away. */
static int open_at(struct ctl_ask **ret, char *path, bool is_manager, char *error, size_t error_size)
{
	int fd = inf_channel_connect(path), rc;
	struct inf_request hello = { .kind = INF_REQUEST_HELLO,
		.hello = {
			.protocol = INF_PROTOCOL, .client_name = "inferctl", .oldest_protocol = INF_PROTOCOL_OLDEST } };
	struct inf_reply reply;
	struct ctl_ask *ask;

	if (fd < 0) {
		rc = explain_connect(path, -fd, is_manager, error, error_size);
		free(path);
		return rc;
	}
	ask = ctl_alloc(1, sizeof(*ask));
	ask->path = path;
	rc = inf_channel_init(&ask->channel, fd, 4 * INF_MAX_PACKET, et_platform_allocator());
	if (rc < 0) {
		snprintf(error, error_size, "%s: %s", path, strerror(-rc));
		close(fd);
		free(path);
		free(ask);
		return -1;
	}
	inf_codec_init(&ask->encode, et_platform_allocator());
	inf_codec_init(&ask->decode, et_platform_allocator());
	rc = ctl_ask(ask, &hello, &reply, error, error_size);
	if (rc != 0) {
		ctl_ask_close(ask);
		return rc;
	}
	*ret = ask;
	return 0;
}

int ctl_ask_open(struct ctl_ask **ret, const struct ctl *ctl, bool is_manager, char *error, size_t error_size)
{
	char other_error[1200], *manager = manager_path(ctl);
	bool is_closed = access(manager, W_OK) < 0 &&
			 (errno == EACCES || (errno == ENOENT && access(ctl_socket_path(ctl), W_OK) == 0)),
	     sees_more = access(manager, W_OK) == 0 && geteuid() != 0;
	int rc = -1;
	/* Users whom `administrators` of inferd.conf names manage over the users' socket, too, also if there is no
	 * other. root sees as much there as at the manager's; other managers see more at the manager's. */
	if (is_manager && !is_closed)
		return open_at(ret, manager, true, error, error_size) ? -1 : 0;
	if (sees_more)
		rc = open_at(ret, ctl_format("%s", manager), true, other_error, sizeof(other_error));
	free(manager);
	if (rc == 0)
		return 0;
	rc = open_at(ret, ctl_format("%s", ctl_socket_path(ctl)), false, error, error_size);
	/* A daemon that has no connection left for users keeps some for managers. */
	if (rc == INF_RESOURCE_EXHAUSTED)
		rc = open_at(ret, manager_path(ctl), true, other_error, sizeof(other_error));
	return rc ? -1 : 0;
}

static int wait_for(struct ctl_ask *ask, short events, char *error, size_t error_size)
{
	struct pollfd poll_fd = { .fd = inf_channel_fd(&ask->channel), .events = events };
	int rc;
	do
		rc = poll(&poll_fd, 1, ask->has_long_answer ? -1 : ANSWER_TIMEOUT_MS);
	while (rc < 0 && errno == EINTR);
	if (rc > 0)
		return 0;
	snprintf(error, error_size, "%s: %s", ask->path,
		rc == 0 ? "the daemon accepted the connection but has not answered for 30 s" : strerror(errno));
	return -1;
}

static int send_request(struct ctl_ask *ask, const struct inf_request *request, char *error, size_t error_size)
{
	struct et_diag diag = { 0 };
	size_t n_bytes;
	int rc = inf_message_encode_request(request, ask->packet, &n_bytes, &ask->encode, &diag);
	if (rc != 0) {
		snprintf(error, error_size, "%s", diag.text[0] ? diag.text : strerror(rc < 0 ? -rc : EINVAL));
		return -1;
	}
	rc = inf_channel_send(&ask->channel, ask->packet, n_bytes, NULL, 0);
	while (rc == INF_CHANNEL_PENDING) {
		if (wait_for(ask, POLLOUT, error, error_size) < 0)
			return -1;
		rc = inf_channel_flush(&ask->channel);
	}
	if (rc == 0 || rc == INF_CHANNEL_E_CLOSED) /* the daemon may have sent a reason before it closed */
		return 0;
	snprintf(error, error_size, "%s: %s", ask->path,
		rc < 0 ? strerror(-rc) : "the packet is too large for the socket");
	return -1;
}

static int receive_reply(struct ctl_ask *ask, struct inf_reply *ret_reply, char *error, size_t error_size)
{
	struct et_diag diag = { 0 };
	struct inf_reply outer;
	int fds[16], rc;
	size_t n_bytes, n_fds;

	while ((rc = inf_channel_receive(&ask->channel, ask->packet, sizeof(ask->packet), &n_bytes, fds, &n_fds)) ==
		INF_CHANNEL_AGAIN)
		if (wait_for(ask, POLLIN, error, error_size) < 0)
			return -1;
	if (rc != 0) {
		snprintf(error, error_size, "%s: %s", ask->path,
			rc < 0 ? strerror(-rc)
			       : "the daemon ended the connection without an answer; its log says why "
				 "(journalctl -u inferd)");
		return -1;
	}
	rc = inf_message_decode_reply(&outer, ask->packet, n_bytes, &ask->decode, &diag);
	if (rc == 0 && outer.kind == INF_REPLY_ATTACHED)
		rc = n_fds == 1 ? inf_message_decode_attached(ret_reply, &outer, fds[0], &ask->decode, &diag)
				: INF_MESSAGE_E_MALFORMED;
	else
		*ret_reply = outer;
	inf_close_fds(fds, n_fds);
	/* An error without an id: the daemon refuses the connection. */
	if (rc == 0 && (ret_reply->id == ask->id || (!ret_reply->id && ret_reply->status != INF_OK)))
		return 0;
	snprintf(error, error_size, "%s: the program that answers there is not an inferd of this version: %s",
		ask->path, diag.text[0] ? diag.text : "its reply cannot be decoded");
	return -1;
}

int ctl_ask(struct ctl_ask *ask, struct inf_request *request, struct inf_reply *ret_reply, char *error,
	size_t error_size)
{
	const char *name;
	request->id = ++ask->id;
	/* a backend may compile for minutes, and the daemon limits that itself */
	ask->has_long_answer = request->kind == INF_REQUEST_REPOSITORY_MODEL_LOAD;
	if (send_request(ask, request, error, error_size) < 0 || receive_reply(ask, ret_reply, error, error_size) < 0)
		return -1;
	if (ret_reply->status == INF_OK)
		return 0;
	name = inf_status_text((int)ret_reply->status);
	if (ret_reply->error && *ret_reply->error)
		snprintf(error, error_size, "%s", ret_reply->error);
	else
		snprintf(error, error_size, "the daemon refused: %s", name ? name : "it gave no reason");
	return (int)ret_reply->status;
}

int ctl_ask_once(const struct ctl *ctl, bool is_manager, struct inf_request *request, struct ctl_ask **ret_ask,
	struct inf_reply *ret_reply)
{
	struct ctl_ask *ask;
	char error[1200];
	if (ctl_ask_open(&ask, ctl, is_manager, error, sizeof(error)) < 0)
		return ctl_fail("%s", error);
	if (ctl_ask(ask, request, ret_reply, error, sizeof(error)) != 0) {
		ctl_ask_close(ask);
		return ctl_fail("%s", error);
	}
	*ret_ask = ask;
	return CTL_OK;
}
