/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to the daemon.
 *
 * The greeting and the question are sent at once; the second reply is the answer. There are few at a time, so that
 * clients who ask a lot do not take the connections that requests need. */
#include "clients/http/ask.h"

#include "clients/http/peer.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { HELLO_ID = 1, QUESTION_ID = 2 };

static unsigned char packet[INF_MAX_PACKET]; /* one thread */

static void finish(struct http_ask *ask)
{
	if (!ask->ended)
		return;
	ask->ended = NULL;
	http_server_unwatch(ask->server, &ask->source);
	et_list_remove(&ask->node);
	et_list_append(&ask->server->dead_asks, &ask->node);
	ask->server->n_asks--;
}

static void end(struct http_ask *ask, const struct inf_reply *reply, unsigned code, const char *error)
{
	void (*ended)(void *, const struct inf_reply *, unsigned, const char *) = ask->ended;
	if (!ended)
		return;
	finish(ask);
	ended(ask->userdata, reply, code, error);
}

static void take_reply(struct http_ask *ask, const struct inf_reply *reply)
{
	if (reply->status == INF_OK && reply->id == HELLO_ID)
		return;
	if (reply->status == INF_OK)
		end(ask, reply, 0, NULL);
	else
		end(ask, NULL, http_code_of((int)reply->status),
			reply->error && *reply->error ? reply->error : "the daemon refused without a reason");
}

static void on_ready(struct http_source *source, uint32_t events)
{
	struct http_ask *ask = ET_CONTAINER_OF(source, struct http_ask, source);
	while (ask->ended) {
		struct et_diag diag = { 0 };
		struct inf_reply outer, reply;
		int fds[INF_MAX_PACKET_FDS];
		size_t n_bytes, n_fds;
		int rc = inf_channel_flush(&ask->channel);
		rc = rc < 0 ? rc : inf_channel_receive(&ask->channel, packet, sizeof(packet), &n_bytes, fds, &n_fds);
		if (rc == INF_CHANNEL_AGAIN)
			return;
		if (rc != 0) {
			end(ask, NULL, 503, "the daemon ended the connection without an answer");
			return;
		}
		rc = inf_message_decode_reply(&outer, packet, n_bytes, &ask->decode, &diag);
		reply = outer;
		if (rc == 0 && outer.kind == INF_REPLY_ATTACHED)
			rc = n_fds == 1 ? inf_message_decode_attached(&reply, &outer, fds[0], &ask->decode, &diag)
					: INF_MESSAGE_E_MALFORMED;
		inf_close_fds(fds, n_fds);
		if (rc != 0)
			end(ask, NULL, 500, "the daemon's answer cannot be decoded");
		else
			take_reply(ask, &reply);
	}
}

static int send_one(struct http_ask *ask, const struct inf_request *request)
{
	struct et_diag diag = { 0 };
	size_t n_bytes;
	int rc = inf_message_encode_request(request, packet, &n_bytes, &ask->encode, &diag);
	if (rc != 0)
		return rc;
	rc = inf_channel_send(&ask->channel, packet, n_bytes, NULL, 0);
	return rc == INF_CHANNEL_PENDING ? 0 : rc;
}

static void ask_free(struct http_ask *ask)
{
	et_list_remove(&ask->node);
	inf_channel_deinit(&ask->channel);
	inf_codec_deinit(&ask->encode);
	inf_codec_deinit(&ask->decode);
	free(ask);
}

unsigned http_ask_start(struct http_ask **ret, struct http_server *server, bool is_manager, struct inf_request *request,
	uint64_t deadline_ns,
	void (*ended)(void *userdata, const struct inf_reply *reply, unsigned code, const char *error), void *userdata,
	const char **ret_error)
{
	struct inf_request hello = { .id = HELLO_ID,
		.kind = INF_REQUEST_HELLO,
		.hello = { .protocol = INF_PROTOCOL,
			.client_name = "inferd-http",
			.oldest_protocol = INF_PROTOCOL_OLDEST } };
	*ret_error = "the gateway asks the daemon for too much at a time; try again";
	if (server->n_asks >= HTTP_MAX_ASKS)
		return 503;
	int fd = inf_channel_connect_now(is_manager ? server->config.manager : server->config.daemon);
	*ret_error = is_manager ? "no daemon listens at the manager's socket, or the gateway's user may not manage it"
				: "no daemon listens at its socket";
	if (fd < 0)
		return 503;
	*ret_error = "the gateway has no memory left";
	struct http_ask *ask = calloc(1, sizeof(*ask));
	if (!ask || inf_channel_init(&ask->channel, fd, 4 * INF_MAX_PACKET, et_platform_allocator()) < 0) {
		close(fd);
		free(ask);
		return 503;
	}
	inf_codec_init(&ask->encode, et_platform_allocator());
	inf_codec_init(&ask->decode, et_platform_allocator());
	et_list_init(&ask->node);
	ask->server = server;
	ask->deadline_ns = deadline_ns;
	ask->source = (struct http_source){ .fd = fd, .ready = on_ready };
	request->id = QUESTION_ID;
	if (send_one(ask, &hello) || send_one(ask, request) || http_server_watch(server, &ask->source, EPOLLIN) < 0) {
		*ret_error = "the question cannot be sent to the daemon";
		ask_free(ask);
		return 503;
	}
	ask->userdata = userdata;
	ask->ended = ended;
	et_list_append(&server->asks, &ask->node);
	server->n_asks++;
	*ret = ask;
	return 0;
}

void http_ask_drop(struct http_ask *ask)
{
	if (ask)
		finish(ask);
}

void http_ask_sweep(struct http_server *server, uint64_t now_ns)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &server->asks) {
		struct http_ask *ask = ET_CONTAINER_OF(node, struct http_ask, node);
		if (now_ns >= ask->deadline_ns)
			end(ask, NULL, 504, "the daemon has not answered in time");
	}
}

void http_ask_reap(struct http_server *server)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &server->dead_asks)
		ask_free(ET_CONTAINER_OF(node, struct http_ask, node));
}
