/* SPDX-License-Identifier: BSD-3-Clause */
/* Losing the connection, and connecting again.
 *
 * The wait before an attempt grows with the time that the daemon has been gone, so that it is found soon after a short
 * pause and costs little in a long one. It is random, so that the clients of a restarted daemon do not come all at
 * once.
 *
 * To connect to a socket of systemd starts the daemon, which an administrator may have stopped on purpose. So if the
 * last daemon held the presence lock (ipc/presence.h), an attempt first looks whether a daemon holds it now. The lock
 * goes when a daemon begins to shut down, before it ends any connection. */
#include "clients/libinferd/libinferd_internal.h"
#include "ipc/presence.h"

#include <string.h>
#include <sys/random.h>

enum {
	SHORTEST_NS = 2 * 1000 * 1000, /* a daemon that finds its models in its cache is there after 10 ms */
	LONGEST_NS = 500 * 1000 * 1000,
	BRIEF_NS = 1000 * 1000 * 1000, /* a connection that lasts no longer doubles the shortest wait, */
	MOST_BRIEF = 6,                /* so many times in a row; one request that succeeds ends the row */
};

static void drop_channel(struct inferd *d)
{
	if (d->has_channel)
		inf_channel_deinit(&d->channel); /* epoll forgets the socket when it closes */
	d->has_channel = d->has_more = false;
}

void inf_lib_give_up(struct inferd *d, int status, const char *why)
{
	if (d->phase == INF_LIB_LOST)
		return;
	d->phase = INF_LIB_LOST;
	drop_channel(d);
	inf_lib_fail(d, status, "%s", why);
	inf_lib_forget(d);
	while (!et_list_is_empty(&d->running))
		inf_lib_op_end(d, ET_CONTAINER_OF(d->running.next, struct inf_lib_op, node), -status, why);
}

uint64_t inf_lib_give_up_ns(const struct inferd *d)
{
	return d->away_ns + (uint64_t)d->reconnect_ms * 1000000;
}

void inf_lib_try_later(struct inferd *d)
{
	uint64_t now_ns = et_platform_now_ns(NULL), random = now_ns;
	uint64_t span_ns = (now_ns - d->away_ns) / 8, shortest_ns = (uint64_t)SHORTEST_NS << d->n_brief;
	if (span_ns < shortest_ns)
		span_ns = shortest_ns;
	if (span_ns > LONGEST_NS)
		span_ns = LONGEST_NS;
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
		random = now_ns * 0x9e3779b97f4a7c15 >> 16; /* early at boot */
	drop_channel(d);
	d->phase = INF_LIB_CONNECTING;
	d->retry_ns = now_ns + span_ns / 3 + random % (span_ns - span_ns / 3);
}

void inf_lib_lose(struct inferd *d, const char *why)
{
	if (d->phase == INF_LIB_LOST)
		return;
	if (!d->is_again) {
		inf_lib_give_up(d, INFERD_DISCONNECTED, why);
		return;
	}
	if (d->phase != INF_LIB_GREETING) {
		d->away_ns = et_platform_now_ns(NULL);
		d->n_brief = d->away_ns - d->ready_ns > BRIEF_NS ? 0
			     : d->n_brief < MOST_BRIEF           ? d->n_brief + 1
								 : MOST_BRIEF;
	}
	inf_lib_try_later(d); /* first, so that nothing is sent to the lost daemon */
	inf_lib_fail(d, INFERD_DISCONNECTED, "%s", why);
	inf_lib_forget(d);
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &d->running) {
		struct inf_lib_op *op = ET_CONTAINER_OF(node, struct inf_lib_op, node);
		if (op->kind == INF_LIB_REQUEST)
			inf_lib_request_disconnect(ET_CONTAINER_OF(op, struct inferd_binding, op));
		else
			op->request_id = 0; /* whatever it asked for is asked for again */
	}
}

void inf_lib_try(struct inferd *d)
{
	if (d->is_again && d->has_presence && !inf_presence_is_held(d->path)) {
		inf_lib_try_later(d);
		return;
	}
	if (!d->away_ns)
		d->away_ns = et_platform_now_ns(NULL); /* the first connection, when it began */
	int rc = inf_lib_greet(d);
	if (!rc || d->phase == INF_LIB_LOST)
		return;
	if (rc == -INFERD_BUSY || d->is_again) {
		inf_lib_try_later(d);
		return;
	}
	char why[sizeof d->error];
	memcpy(why, d->error, sizeof why);
	inf_lib_give_up(d, -rc, why);
}

bool inf_lib_leave(struct inferd *d, const struct inf_reply *reply)
{
	if (!reply->shutting_down || !d->reconnect_ms)
		return false;
	if (d->phase == INF_LIB_READY)
		d->phase = INF_LIB_LEAVING;
	return true;
}
