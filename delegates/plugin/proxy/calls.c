/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to a host: send them, receive the answers, and end them.
 *
 * A wake-up is most of what a small run costs, so a thread that waits for an answer receives it itself. Several
 * threads may wait at the one socket. One of them at a time receives (is_receiving), handles the packets of all
 * calls, and lets another receive when its own call is done. The watcher receives for calls that no thread waits
 * for (unattended); otherwise it polls the socket only to notice that it was closed.
 *
 * What must always be true:
 *   - a call is in `calls`, in `waiting`, or in neither. The thread that takes it out of a list (under the lock) ends
 *     it, so a run's completion is called exactly once, whatever the host sends;
 *   - no other thread touches an attended call after is_done, or an unattended call after its completion;
 *   - no thread waits for room in the socket: a packet that finds no room is kept, and the watcher sends it. A host
 *     may be busy for as long as a call may take, and a client that ends frees everything at once;
 *   - while a call is under way, a thread receives: one that waits, or, if a call is unattended, the watcher;
 *   - only the watcher closes the socket, when no thread receives. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/convert.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND                    UINT64_C(1000000000)
#define DEFAULT(value, otherwise) ((value) ? (value) : (otherwise))

enum { MAX_BACKLOG = 1 << 16 };

const char et_plugin_not_reading[] = "does not read what is sent to it";
const char et_plugin_in_vain[] = "was making a program that no client waits for any more";

/* Of this thread: et_plugin_make_for. */
static _Thread_local bool (*is_in_vain)(void *arg);
static _Thread_local void *in_vain_arg;

void et_plugin_wake_watcher(struct et_backend *b)
{
	uint64_t one = 1;
	while (write(b->wake, &one, sizeof one) < 0 && errno == EINTR)
		;
}

enum et_status et_plugin_status(uint32_t result, const char *text, struct et_diag *diag)
{
	if (result == ET_PLUGIN_RESULT_FAULT)
		return et_fail(diag, ET_E_ACCESS_FAILED, "%.255s",
			text[0] ? text : "memory of the run went away; the plug-in's process does not say which");
	return et_convert_result((int)result, text, diag);
}

uint64_t et_plugin_new_handle(struct et_backend *b)
{
	pthread_mutex_lock(&b->lock);
	uint64_t handle = ++b->last_handle;
	pthread_mutex_unlock(&b->lock);
	return handle;
}

/* --- sending ---------------------------------------------------------------------------------------- */

/* Called under the lock. */
static bool is_there(const struct et_backend *b, uint64_t generation)
{
	return b->process.is_running && !b->is_ending && b->generation == generation && !b->kill_reason && !b->is_gone;
}

/* Called under the lock. */
static enum et_status gone(struct et_backend *b, struct et_diag *diag)
{
	return et_fail(diag, ET_E_BACKEND_CRASHED, "%.300s",
		b->reason[0] && !b->is_ending ? b->reason : "the host process of the backend is gone");
}

static uint64_t from_now(uint64_t ns)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	return ns < UINT64_MAX - now_ns ? now_ns + ns : UINT64_MAX;
}

bool et_plugin_has_backlog(const struct et_backend *b)
{
	return b->n_backlog || b->n_unsent;
}

/* Called under the lock: from now on the host must read something within the time of the longest call. */
static void extend_read_deadline(struct et_backend *b)
{
	uint64_t run_ns = DEFAULT(b->config.run_timeout_ns, 30 * SECOND);
	uint64_t load_ns = DEFAULT(b->config.load_timeout_ns, 120 * SECOND);
	b->must_read_by_ns = from_now(run_ns > load_ns ? run_ns : load_ns);
}

/* Called under the lock: send a packet, unless others wait for room. 0; -EAGAIN: it has to wait, too; or another
 * error. */
static int send_in_order(struct et_backend *b, const void *packet, int fd)
{
	if (et_plugin_has_backlog(b))
		return -EAGAIN;
	int rc = et_plugin_send(b->process.calls, packet, fd, 0);
	if (rc == -EAGAIN) {
		extend_read_deadline(b);
		et_plugin_wake_watcher(b);
	}
	return rc;
}

/* Called under the lock: add to the backlog. False: there is no memory, or the backlog is full. */
static bool keep(struct et_backend *b, const struct et_plugin_handle *handle)
{
	if (b->n_backlog == b->backlog_room) {
		uint32_t room = b->backlog_room ? 2 * b->backlog_room : 64;
		struct et_plugin_handle *more = room > MAX_BACKLOG ? NULL : realloc(b->backlog, room * sizeof *more);
		if (!more)
			return false;
		b->backlog = more;
		b->backlog_room = room;
	}
	b->backlog[b->n_backlog++] = *handle;
	return true;
}

/* Called under the lock. */
static void drop_backlog(struct et_backend *b)
{
	free(b->backlog);
	b->backlog = NULL;
	b->n_backlog = b->backlog_room = 0;
}

void et_plugin_send_backlog(struct et_backend *b)
{
	struct et_list_node *node, *after;
	uint32_t n = 0, n_calls = 0;
	int rc = 0;
	while (n < b->n_backlog && (rc = et_plugin_send(b->process.calls, &b->backlog[n], -1, 0)) == 0)
		n++;
	b->n_backlog -= n;
	if (b->n_backlog)
		memmove(b->backlog, b->backlog + n, b->n_backlog * sizeof *b->backlog);
	else
		drop_backlog(b);
	ET_LIST_FOR_EACH(node, after, &b->calls) {
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (!call->unsent || rc == -EAGAIN)
			continue;
		if (!rc)
			rc = et_plugin_send(b->process.calls, call->unsent, call->unsent_fd, 0);
		if (rc == -EAGAIN)
			continue;
		call->unsent = NULL; /* sent; or the host is gone, and the watcher ends the call */
		b->n_unsent--;
		n_calls++;
	}
	if (n || n_calls)
		extend_read_deadline(b);
	if (!rc || rc == -EAGAIN)
		return;
	drop_backlog(b);
	if (rc != -EPIPE)
		b->kill_reason = et_plugin_not_reading;
}

/* Called under the lock: send a call, and wake the watcher if it has to wake up earlier, or has to receive. */
static void send_call(struct et_backend *b, struct et_plugin_call *call, void *packet, int fd)
{
	struct et_plugin_header *header = packet;
	call->id = header->id = ++b->last_id;
	call->sent_ns = et_platform_now_ns(NULL);
	et_list_append(&b->calls, &call->node);
	int rc = send_in_order(b, packet, fd);
	if (rc == -EAGAIN) {
		call->unsent = packet;
		call->unsent_fd = fd;
		b->n_unsent++;
	} else if (rc < 0 && rc != -EPIPE) {
		b->kill_reason = et_plugin_not_reading;
	}
	if (b->kill_reason || call->deadline_ns < b->sleep_until_ns ||
		(b->n_unattended && !b->is_watching && !b->is_receiving))
		et_plugin_wake_watcher(b);
}

/* Called under the lock. */
static void send_run(struct et_backend *b, struct et_plugin_call *call)
{
	call->deadline_ns = from_now(DEFAULT(b->config.run_timeout_ns, 30 * SECOND));
	b->n_in_flight++;
	b->n_runs++;
	send_call(b, call, et_plugin_instance_packet(call->run), -1);
}

void et_plugin_tell(struct et_backend *b, uint64_t generation, struct et_plugin_handle *handle)
{
	pthread_mutex_lock(&b->lock);
	if (is_there(b, generation)) {
		handle->header.id = ++b->last_id;
		int rc = send_in_order(b, handle, -1);
		if (rc == -EAGAIN && keep(b, handle))
			rc = 0;
		if (rc < 0 && rc != -EPIPE) {
			b->kill_reason = et_plugin_not_reading;
			et_plugin_wake_watcher(b);
		}
	}
	pthread_mutex_unlock(&b->lock);
}

enum et_status et_plugin_start_run(struct et_backend *b, uint64_t generation, struct et_instance *instance,
	bool is_attended, struct et_diag *diag)
{
	struct et_plugin_call *call = et_plugin_instance_call(instance);
	pthread_mutex_lock(&b->lock);
	if (!is_there(b, generation)) {
		enum et_status status = gone(b, diag);
		pthread_mutex_unlock(&b->lock);
		return status;
	}
	*call = (struct et_plugin_call){
		.run = instance, .is_attended = is_attended, .changed = PTHREAD_COND_INITIALIZER
	};
	b->n_unattended += !is_attended;
	if (b->n_in_flight >= b->max_in_flight) {
		b->n_waiting++;
		et_list_append(&b->waiting, &call->node);
	} else {
		send_run(b, call);
	}
	pthread_mutex_unlock(&b->lock);
	return ET_PENDING;
}

void et_plugin_note_run(struct et_backend *b, uint64_t n_copied, bool is_lost)
{
	if (!n_copied && !is_lost)
		return;
	pthread_mutex_lock(&b->lock);
	b->n_copied_bytes += n_copied;
	if (is_lost && !b->kill_reason) {
		b->kill_reason = "lost its device";
		et_plugin_wake_watcher(b);
	}
	pthread_mutex_unlock(&b->lock);
}

void et_plugin_hurry(struct et_backend *b, struct et_instance *instance)
{
	struct et_plugin_call *call = et_plugin_instance_call(instance);
	struct et_list_node *node, *after;
	if (!b->config.cancel_timeout_ns)
		return;
	uint64_t deadline_ns = from_now(b->config.cancel_timeout_ns);
	pthread_mutex_lock(&b->lock);
	ET_LIST_FOR_EACH(node, after, &b->calls) {
		if (node != &call->node || call->deadline_ns <= deadline_ns)
			continue;
		call->deadline_ns = deadline_ns;
		call->is_hurried = true;
		et_plugin_stop_giving_way(b, call);
		if (deadline_ns < b->sleep_until_ns)
			et_plugin_wake_watcher(b);
	}
	pthread_mutex_unlock(&b->lock);
}

/* --- ending ----------------------------------------------------------------------------------------- */

/* Called under the lock: the call is in no list, and its answer is in place. */
static void set_done(struct et_plugin_call *call)
{
	call->is_done = true;
	pthread_cond_signal(&call->changed);
}

/* Called without the lock: end @call, which is in no list, with the answer @packet, or (NULL) as crashed with
 * @reason. */
static void end_call(struct et_backend *b, struct et_plugin_call *call, const struct et_plugin_header *packet,
	const char *reason)
{
	bool is_attended = call->is_attended;
	/* the process was ended because this run did not end when it was asked to: it has ended as asked */
	bool is_obeyed = b->runs_programs && call->is_hurried;
	if (call->run)
		et_plugin_run_ended(call->run, (const struct et_plugin_done *)packet,
			packet      ? ET_OK
			: is_obeyed ? ET_E_CANCELLED
				    : ET_E_BACKEND_CRASHED,
			reason);
	else if (packet)
		memcpy(call->answer, packet, call->n_answer);
	if (!is_attended)
		return; /* its owner may have freed it */
	pthread_mutex_lock(&b->lock);
	call->status = packet ? ET_OK : ET_E_BACKEND_CRASHED;
	set_done(call);
	pthread_mutex_unlock(&b->lock);
}

static void take_all(struct et_list_node *from, struct et_list_node *to)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, from) {
		et_list_remove(node);
		et_list_append(to, node);
	}
}

void et_plugin_take_calls(struct et_backend *b, struct et_list_node *taken)
{
	et_list_init(taken);
	take_all(&b->calls, taken);
	take_all(&b->waiting, taken);
	b->n_in_flight = b->n_waiting = b->n_unattended = b->n_unsent = 0;
	et_plugin_process_left(b);
	drop_backlog(b);
}

void et_plugin_end_calls(struct et_backend *b, struct et_list_node *taken, const char *reason)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, taken) {
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		et_list_remove(&call->node);
		end_call(b, call, NULL, reason);
	}
}

/* --- receiving -------------------------------------------------------------------------------------- */

/* Called under the lock: find the call that the packet answers; NULL: there is none. */
static struct et_plugin_call *find_call(struct et_backend *b, const struct et_plugin_header *header)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &b->calls) {
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (call->id != header->id || call->unsent)
			continue;
		if (call->run)
			return header->type == ET_PLUGIN_DONE && header->n_bytes >= sizeof(struct et_plugin_done)
				       ? call
				       : NULL;
		uint32_t type = call->n_answer == sizeof(struct et_plugin_started) ? ET_PLUGIN_STARTED
										   : ET_PLUGIN_ANSWER;
		return header->type == type && header->n_bytes == call->n_answer ? call : NULL;
	}
	return NULL;
}

/* Called under the lock: of the runs that wait, the one of the highest priority that has waited longest. */
static struct et_plugin_call *first_waiting(const struct et_backend *b)
{
	struct et_plugin_call *first = ET_CONTAINER_OF(b->waiting.next, struct et_plugin_call, node);
	for (struct et_list_node *node = b->waiting.next->next; node != &b->waiting; node = node->next) {
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (et_plugin_instance_packet(call->run)->priority > et_plugin_instance_packet(first->run)->priority)
			first = call;
	}
	return first;
}

/* Handle one packet. False: it answers no call. */
static bool on_packet(struct et_backend *b, const struct et_plugin_header *header)
{
	pthread_mutex_lock(&b->lock);
	struct et_plugin_call *call = find_call(b, header);
	if (!call) {
		pthread_mutex_unlock(&b->lock);
		return false;
	}
	et_list_remove(&call->node);
	b->n_unattended -= !call->is_attended;
	b->n_in_flight -= call->run != NULL;
	et_plugin_stop_giving_way(b, call);
	if (call->run && !et_list_is_empty(&b->waiting) && b->n_in_flight < b->max_in_flight) {
		struct et_plugin_call *next = first_waiting(b);
		et_list_remove(&next->node);
		b->n_waiting--;
		send_run(b, next);
	}
	pthread_mutex_unlock(&b->lock);
	end_call(b, call, header, NULL);
	return true;
}

bool et_plugin_begin_receiving(struct et_backend *b)
{
	if (b->is_receiving || b->is_gone || b->is_ending || !b->process.is_running)
		return false;
	b->is_receiving = true;
	return true;
}

bool et_plugin_receive_one(struct et_backend *b, bool may_wait)
{
	int fd, n = et_plugin_receive(b->process.calls, b->packet, ET_PLUGIN_MAX_PACKET, &fd, may_wait);
	if (fd >= 0)
		close(fd);
	if (n == -EAGAIN)
		return false;
	if (n > 0 && fd < 0 && on_packet(b, (const struct et_plugin_header *)b->packet))
		return true;
	pthread_mutex_lock(&b->lock);
	b->is_gone = true;
	if (n && !b->kill_reason)
		b->kill_reason = "sent an answer without a call, or a malformed packet";
	et_plugin_wake_watcher(b);
	pthread_mutex_unlock(&b->lock);
	return false;
}

/* Called under the lock: wake one thread that waits for a call; it finds out whether its call is done. */
static void wake_a_waiter(struct et_list_node *calls, bool *is_woken)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, calls) {
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (*is_woken || !call->is_attended)
			continue;
		pthread_cond_signal(&call->changed);
		*is_woken = true;
	}
}

void et_plugin_end_receiving(struct et_backend *b)
{
	bool is_woken = false;
	b->is_receiving = false;
	pthread_cond_broadcast(&b->changed); /* for the watcher at the end of a host; costs nothing without waiters */
	if (b->is_gone || b->is_ending)
		return; /* the watcher ends what is left */
	wake_a_waiter(&b->calls, &is_woken);
	if (b->n_unattended && !b->is_watching)
		et_plugin_wake_watcher(b);
}

/* Receive one packet, until @until_ns at most (0: wait for one). */
static void receive_until(struct et_backend *b, uint64_t until_ns)
{
	if (until_ns) {
		uint64_t now_ns = et_platform_now_ns(NULL), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
		struct timespec left = { (time_t)(left_ns / SECOND), (long)(left_ns % SECOND) };
		struct pollfd fd = { .fd = b->process.calls, .events = POLLIN };
		if (ppoll(&fd, 1, &left, NULL) <= 0)
			return;
	}
	et_plugin_receive_one(b, !until_ns);
}

/* Called under the lock: wait until @call is done, or until @until_ns (0: no limit). */
static void wait_for(struct et_backend *b, struct et_plugin_call *call, uint64_t until_ns)
{
	bool has_received = false;
	while (!call->is_done && (!until_ns || et_platform_now_ns(NULL) < until_ns)) {
		if (et_plugin_begin_receiving(b)) {
			has_received = true;
			do {
				pthread_mutex_unlock(&b->lock);
				receive_until(b, until_ns);
				pthread_mutex_lock(&b->lock);
			} while (!call->is_done && !b->is_gone && !b->is_ending && !until_ns);
			et_plugin_end_receiving(b);
		} else if (until_ns) {
			struct timespec until = { (time_t)(until_ns / SECOND), (long)(until_ns % SECOND) };
			pthread_cond_clockwait(&call->changed, &b->lock, CLOCK_MONOTONIC, &until);
		} else {
			pthread_cond_wait(&call->changed, &b->lock);
		}
	}
	/* it may have been woken to receive after another thread received its answer: then pass that on */
	if (!has_received && !b->is_receiving && call->is_done)
		et_plugin_end_receiving(b);
}

void et_plugin_wait(struct et_backend *b, struct et_instance *instance, uint64_t cancel_ns)
{
	struct et_plugin_call *call = et_plugin_instance_call(instance);
	pthread_mutex_lock(&b->lock);
	if (cancel_ns) {
		wait_for(b, call, cancel_ns);
		if (!call->is_done) {
			pthread_mutex_unlock(&b->lock);
			et_plugin_instance_cancel(instance);
			pthread_mutex_lock(&b->lock);
		}
	}
	wait_for(b, call, 0);
	pthread_mutex_unlock(&b->lock);
}

void et_plugin_make_for(bool (*tells)(void *arg), void *arg)
{
	is_in_vain = tells;
	in_vain_arg = arg;
}

/* Called under the lock: @call may take until @deadline_ns, but only a while longer if nobody waits for it, which was
 * noticed at *noticed_ns (0: it was not). */
static void set_deadline(struct et_backend *b, struct et_plugin_call *call, uint64_t deadline_ns, uint64_t *noticed_ns)
{
	call->is_in_vain = is_in_vain(in_vain_arg);
	if (!call->is_in_vain)
		*noticed_ns = 0;
	else if (!*noticed_ns)
		*noticed_ns = et_platform_now_ns(NULL);
	call->deadline_ns = deadline_ns;
	if (call->is_in_vain && *noticed_ns + ET_PLUGIN_IN_VAIN_NS < deadline_ns)
		call->deadline_ns = *noticed_ns + ET_PLUGIN_IN_VAIN_NS;
	if (call->deadline_ns < b->sleep_until_ns)
		et_plugin_wake_watcher(b);
}

/* Called under the lock: wait for @call as long as anybody waits for what it makes. Of the process of a tenant, since
 * others use the other ones. */
static void wait_while_wanted(struct et_backend *b, struct et_plugin_call *call)
{
	const uint64_t deadline_ns = call->deadline_ns;
	uint64_t noticed_ns = 0;
	while (is_in_vain && b->parent && !call->is_done) {
		wait_for(b, call, from_now(SECOND / 10));
		if (!call->is_done)
			set_deadline(b, call, deadline_ns, &noticed_ns);
	}
	wait_for(b, call, 0);
}

static enum et_status ask(struct et_backend *b, uint64_t generation, void *packet, int fd, void *answer,
	size_t n_answer, const struct et_program *program, const struct et_client_files *files, struct et_diag *diag)
{
	struct et_plugin_call call = { .answer = answer,
		.n_answer = n_answer,
		.program = program,
		.files = files,
		.is_attended = true,
		.changed = PTHREAD_COND_INITIALIZER };
	enum et_status status = ET_OK;
	pthread_mutex_lock(&b->lock);
	if (is_there(b, generation)) {
		call.deadline_ns = from_now(DEFAULT(b->config.load_timeout_ns, 120 * SECOND));
		send_call(b, &call, packet, fd);
		wait_while_wanted(b, &call);
		while (b->answering == &call) /* the host asked for named data and answered without waiting for it */
			pthread_cond_wait(&b->changed, &b->lock);
		status = call.status ? gone(b, diag) : ET_OK;
	} else {
		status = gone(b, diag);
	}
	pthread_mutex_unlock(&b->lock);
	return status;
}

enum et_status et_plugin_ask(struct et_backend *b, uint64_t generation, void *packet, int fd, void *answer,
	size_t n_answer, const struct et_program *program, struct et_diag *diag)
{
	return ask(b, generation, packet, fd, answer, n_answer, program, NULL, diag);
}

enum et_status et_plugin_ask_with_files(struct et_backend *b, uint64_t generation, void *packet, int fd, void *answer,
	size_t n_answer, const struct et_client_files *files, struct et_diag *diag)
{
	return ask(b, generation, packet, fd, answer, n_answer, NULL, files, diag);
}
