/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: what the application waits for, with a deadline, and how its event loop learns that one has ended.
 *
 * An operation is RUNNING until the daemon has answered, its deadline has passed, or the connection is lost. A
 * blocking call waits here; otherwise the operation waits in d->completed for inferd_dispatch, which alone calls
 * callbacks. A reply for one operation can arrive while the caller waits for another one; an event fd then makes
 * inferd_get_fd's descriptor readable.
 *
 * The daemon knows the deadline of a request, too, and has the better answer: it says whether the request ran. So the
 * library waits a little longer than the deadline before it answers by itself. */
#include "clients/libinferd/libinferd_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { GRACE_NS = 5 * 1000 * 1000 }; /* inferd.h promises 10 ms */

void inf_lib_op_init(struct inf_lib_op *op, enum inf_lib_op_kind kind)
{
	op->kind = kind;
	op->state = INF_LIB_IDLE;
	et_list_init(&op->node);
}

void inf_lib_op_begin(struct inferd *d, struct inf_lib_op *op, uint64_t timeout_us,
	void (*deliver)(struct inf_lib_op *op))
{
	op->state = INF_LIB_RUNNING;
	op->request_id = 0;
	op->deliver = deliver;
	op->deadline_ns = 0;
	if (timeout_us) {
		uint64_t now_ns = et_platform_now_ns(NULL);
		op->deadline_ns = timeout_us < (UINT64_MAX - now_ns) / 2000 ? now_ns + timeout_us * 1000
									    : UINT64_MAX / 2;
		d->n_timed++;
	}
	et_list_append(&d->running, &op->node);
}

/* Take @op out of the list of the running ones. */
static void stop(struct inferd *d, struct inf_lib_op *op)
{
	et_list_remove(&op->node);
	d->n_timed -= op->state == INF_LIB_RUNNING && op->deadline_ns;
}

void inf_lib_op_end(struct inferd *d, struct inf_lib_op *op, int status, const char *error)
{
	stop(d, op);
	op->state = INF_LIB_COMPLETED;
	op->status = status;
	snprintf(op->error, sizeof op->error, "%s", error);
	if (op->deliver)
		et_list_append(&d->completed, &op->node);
}

void inf_lib_op_drop(struct inferd *d, struct inf_lib_op *op)
{
	stop(d, op);
	op->state = INF_LIB_IDLE;
}

/* ---- time ---- */

/* The time at which the library ends @op by itself. */
static uint64_t end_ns(const struct inf_lib_op *op)
{
	return op->deadline_ns + (op->kind == INF_LIB_REQUEST && op->request_id ? GRACE_NS : 0);
}

/* The time at which inf_lib_tick has something to do. */
static uint64_t next_ns(const struct inferd *d)
{
	uint64_t next = UINT64_MAX;
	const struct et_list_node *node;
	for (node = d->running.next; d->n_timed && node != &d->running; node = node->next) {
		const struct inf_lib_op *op = ET_CONTAINER_OF(node, struct inf_lib_op, node);
		if (op->deadline_ns && end_ns(op) < next)
			next = end_ns(op);
	}
	if (d->phase == INF_LIB_CONNECTING && d->retry_ns < next)
		next = d->retry_ns;
	if (d->is_again && (d->phase == INF_LIB_CONNECTING || d->phase == INF_LIB_GREETING) &&
		inf_lib_give_up_ns(d) < next)
		next = inf_lib_give_up_ns(d);
	return next;
}

void inf_lib_arm(struct inferd *d)
{
	if (!d->armed_ns && !inf_lib_is_timed(d))
		return;
	uint64_t next = inf_lib_is_timed(d) ? next_ns(d) : UINT64_MAX;
	/* A timer that comes too early costs one call of inferd_dispatch; to set it for each request would cost
	 * more. */
	if (d->armed_ns && d->armed_ns <= next && d->armed_ns > et_platform_now_ns(NULL))
		return;
	d->armed_ns = next == UINT64_MAX ? 0 : next;
	struct itimerspec at = { .it_value = { (time_t)(d->armed_ns / 1000000000), (long)(d->armed_ns % 1000000000) } };
	timerfd_settime(d->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void expire(struct inferd *d, struct inf_lib_op *op)
{
	switch (op->kind) {
	case INF_LIB_CONNECT:
		inf_lib_give_up(d, INFERD_MISSED_DEADLINE, "the daemon did not answer within the call's timeout");
		return;
	case INF_LIB_REQUEST:
		inf_lib_request_expire(ET_CONTAINER_OF(op, struct inferd_binding, op));
		return;
	default:
		inf_lib_op_end(d, op, -INFERD_MISSED_DEADLINE, "the daemon did not answer within the call's timeout");
	}
}

int inf_lib_op_wait(struct inferd *d, struct inf_lib_op *op)
{
	while (op->state == INF_LIB_RUNNING) { /* a lost connection ends it too */
		inf_lib_wait(d);
		if (op->state == INF_LIB_RUNNING && d->interrupted && d->interrupted(d->userdata))
			expire(d, op);
	}
	op->state = INF_LIB_IDLE;
	inf_lib_settle(d);
	return op->status ? inf_lib_fail(d, -op->status, "%s", op->error) : 0;
}

void inf_lib_tick(struct inferd *d)
{
	struct et_list_node *node, *after;
	uint64_t now_ns = inf_lib_is_timed(d) ? et_platform_now_ns(NULL) : 0;
	size_t n_due = 0;
	if (!now_ns)
		return;
	ET_LIST_FOR_EACH(node, after, &d->running) {
		struct inf_lib_op *op = ET_CONTAINER_OF(node, struct inf_lib_op, node);
		n_due += op->deadline_ns && end_ns(op) <= now_ns;
	}
	while (n_due--) { /* to end one may end others, so the list is read again each time */
		for (node = d->running.next; node != &d->running; node = node->next) {
			struct inf_lib_op *op = ET_CONTAINER_OF(node, struct inf_lib_op, node);
			if (op->deadline_ns && end_ns(op) <= now_ns) {
				expire(d, op);
				break;
			}
		}
	}
	if (d->phase == INF_LIB_CONNECTING && now_ns >= d->retry_ns)
		inf_lib_try(d);
	if ((d->phase == INF_LIB_CONNECTING || d->phase == INF_LIB_GREETING) && d->is_again &&
		now_ns >= inf_lib_give_up_ns(d)) {
		char why[128];
		snprintf(why, sizeof why,
			d->ready_ns ? "the connection is lost, and no daemon came back within %u ms"
				    : "the daemon ended before it answered, and no other one did within %u ms",
			d->reconnect_ms);
		inf_lib_give_up(d, INFERD_DISCONNECTED, why);
	}
}

void inf_lib_settle(struct inferd *d)
{
	bool is_due = !et_list_is_empty(&d->completed) || d->phase == INF_LIB_LOST;
	inf_lib_arm(d);
	if (is_due == d->is_raised)
		return;
	d->is_raised = is_due;
	uint64_t n = 1;
	ssize_t done = is_due ? write(d->event_fd, &n, sizeof n) : read(d->event_fd, &n, sizeof n);
	(void)done; /* the counter goes from 0 to 1 and back, which cannot fail */
}

/* ---- events ---- */

int inferd_get_fd(const struct inferd *d)
{
	return d->epoll_fd;
}

/* Call the callbacks that are due. Returns how many. */
static int deliver(struct inferd *d)
{
	int n = 0;
	/* Only the callbacks that are due now: a request that a callback starts is delivered next time, so this
	 * ends. */
	struct et_list_node due;
	et_list_init(&due);
	while (!et_list_is_empty(&d->completed)) {
		struct et_list_node *node = d->completed.next;
		et_list_remove(node);
		et_list_append(&due, node);
	}
	while (!et_list_is_empty(&due)) {
		struct inf_lib_op *op = ET_CONTAINER_OF(due.next, struct inf_lib_op, node);
		et_list_remove(&op->node);
		op->state = INF_LIB_IDLE;
		if (op->status)
			inf_lib_fail(d, -op->status, "%s", op->error);
		n++;
		/* the callback may free the object with op in it */
		op->deliver(op);
	}
	return n;
}

int inferd_dispatch(struct inferd *d)
{
	inf_lib_flush(d);
	while (inf_lib_receive(d) > 0)
		;
	inf_lib_tick(d);
	int n = deliver(d);
	inf_lib_settle(d);
	if (n || d->phase != INF_LIB_LOST)
		return n;
	return inf_lib_lost(d);
}

int inferd_wait(struct inferd *d, int timeout_ms)
{
	if (et_list_is_empty(&d->completed))
		inf_lib_poll(d, timeout_ms);
	return inferd_dispatch(d);
}
