/* SPDX-License-Identifier: BSD-3-Clause */
/* The watcher: a thread for each backend that watches its host.
 *
 * The watcher reads what the library prints, answers what the host asks for, enforces the deadlines of calls,
 * notices the end of the host, and ends a host that hangs or sends malformed packets. Only the watcher closes the
 * sockets, when no thread receives any more, so a descriptor never changes under a thread that uses it; senders
 * hold the lock. It receives answers only for calls that no thread waits for (calls.c). It reads a few packets at a
 * time and checks the deadlines in between, so a host that never stops sending can't keep it busy for ever. */
#include "delegates/plugin/proxy/cgroup.h"
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/inferd-delegate.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)

enum { MAX_AT_ONCE = 16 }; /* reads of 4096 bytes: what a pipe holds; and packets */

/* --- what the library prints ------------------------------------------------------------------------ */

/* False: the other end is closed. */
static bool read_output(struct et_backend *b, int output)
{
	char bytes[4096];
	for (int i = 0; i < MAX_AT_ONCE; i++) {
		ssize_t n = read(output, bytes, sizeof bytes);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		et_plugin_lines_add(&b->lines, bytes, (size_t)n);
	}
	return true;
}

void et_plugin_lines_take(struct et_plugin_lines *lines, const struct et_plugin_log *log)
{
	char prefix[4] = { '<', (char)('0' + log->level % 10), '>', 0 };
	et_plugin_lines_add(lines, prefix, 3);
	et_plugin_lines_add(lines, log->text, strnlen(log->text, sizeof log->text));
	et_plugin_lines_add(lines, "\n", 1);
}

/* --- what the host asks ------------------------------------------------------------------------------ */

/* The program or the files of call @id; false: there are none. The call does not return before end_answering, though
 * its answer may come meanwhile. */
static bool begin_answering(struct et_backend *b, uint64_t id, const struct et_program **ret_program,
	const struct et_client_files **ret_files)
{
	struct et_list_node *node, *after;
	pthread_mutex_lock(&b->lock);
	ET_LIST_FOR_EACH(node, after, &b->calls) {
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (call->id == id && (call->program || call->files))
			b->answering = call;
	}
	*ret_program = b->answering ? b->answering->program : NULL;
	*ret_files = b->answering ? b->answering->files : NULL;
	pthread_mutex_unlock(&b->lock);
	return *ret_program || *ret_files;
}

/* The data file with number @key: "0" is the first one. Its descriptor, which stays the daemon's, and its size; -1:
 * there is none. */
static int find_file(const struct et_client_files *files, const char *key, uint64_t *ret_n_bytes)
{
	char *end;
	unsigned long number = strtoul(key, &end, 10);
	if (*key < '0' || *key > '9' || *end || number >= ET_CLIENT_FILES_MAX || number + 1 >= files->n)
		return -1;
	*ret_n_bytes = files->items[number + 1].n_bytes;
	return files->items[number + 1].fd;
}

static void end_answering(struct et_backend *b)
{
	pthread_mutex_lock(&b->lock);
	b->answering = NULL;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

/* A memory file with these bytes; negative errno. */
static int memory_of(const char *name, const uint8_t *bytes, size_t n_bytes)
{
	int fd = et_plugin_memory(name, n_bytes);
	for (size_t at = 0; fd >= 0 && at < n_bytes;) {
		ssize_t n = pwrite(fd, bytes + at, n_bytes - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int rc = n < 0 ? -errno : -EIO;
			close(fd);
			return rc;
		}
		at += (size_t)n;
	}
	if (fd >= 0)
		et_plugin_memory_seal(fd);
	return fd;
}

static void answer_named(struct et_backend *b, const struct et_plugin_named *ask)
{
	struct et_plugin_named answer = { .header = { ET_PLUGIN_NAMED_ANSWER, sizeof answer, ask->header.id },
		.result = INFERD_DELEGATE_E_NOT_FOUND };
	const struct et_program *program;
	const struct et_client_files *files;
	const uint8_t *bytes;
	size_t n_bytes;
	int fd = -1;
	bool is_known = begin_answering(b, ask->call, &program, &files) && memchr(ask->key, 0, sizeof ask->key);
	if (is_known && files) {
		int file = find_file(files, ask->key, &answer.n_bytes);
		fd = file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, 0) : -1;
		if (file >= 0)
			answer.result = fd >= 0 ? INFERD_DELEGATE_OK : INFERD_DELEGATE_E_MEMORY;
	} else if (is_known && et_program_find_named_data(program, ask->key, &bytes, &n_bytes) == ET_OK) {
		fd = memory_of("inferd-named-data", bytes, n_bytes);
		answer.result = fd >= 0 ? INFERD_DELEGATE_OK : INFERD_DELEGATE_E_MEMORY;
		answer.n_bytes = n_bytes;
	}
	end_answering(b);
	et_plugin_send(b->process.asks, &answer, fd, 0);
	if (fd >= 0)
		close(fd);
}

static bool read_asks(struct et_backend *b)
{
	for (int i = 0; i < MAX_AT_ONCE; i++) {
		int fd, n = et_plugin_receive(b->process.asks, b->asks_packet, ET_PLUGIN_MAX_PACKET, &fd, 0);
		const struct et_plugin_header *header = (const struct et_plugin_header *)b->asks_packet;
		if (fd >= 0)
			close(fd);
		if (n == -EAGAIN || n == 0)
			return n != 0;
		if (n < 0)
			return false;
		if (header->type == ET_PLUGIN_NAMED && header->n_bytes == sizeof(struct et_plugin_named)) {
			answer_named(b, (const struct et_plugin_named *)b->asks_packet);
		} else if (header->type == ET_PLUGIN_LOG && header->n_bytes == sizeof(struct et_plugin_log)) {
			et_plugin_lines_take(&b->lines, (const struct et_plugin_log *)b->asks_packet);
		} else {
			return false;
		}
	}
	return true;
}

/* --- the end of a host ------------------------------------------------------------------------------ */

/* End the host, which is gone (@why NULL) or has to be killed for the reason @why. */
static void end_host(struct et_backend *b, const char *why)
{
	char how[128], reason[sizeof b->reason];
	struct et_list_node ended;
	int output = b->process.output; /* read to its end after the process has ended */
	for (int i = 0; i < 4 && read_asks(b); i++)
		; /* the host's last lines, as many as can be logged in a second */
	pthread_mutex_lock(&b->lock);
	b->process.output = -1;
	bool is_closing = b->is_closing, is_retiring = b->is_retiring;
	bool is_asked = b->is_restarting || b->is_retiring || why == et_plugin_in_vain;
	b->is_ending = true;
	shutdown(b->process.calls, SHUT_RDWR); /* so that a receiving thread returns */
	while (b->is_receiving)
		pthread_cond_wait(&b->changed, &b->lock);
	/* Ending the process may take long, so it runs without the lock; is_ending keeps other threads off
	 * b->process. */
	struct et_plugin_process process = b->process;
	b->phase = ET_PLUGIN_DOWN;
	pthread_mutex_unlock(&b->lock);
	bool may_restart = et_plugin_process_end(&process, why != NULL, how, sizeof how);
	if (b->parent && b->parent->cgroup)
		et_plugin_cgroup_remove(b->parent->cgroup, b->tenant - 1);
	et_plugin_tenant_ended(b);
	if (is_retiring) /* a tenant without programs: nothing is loaded, so nothing is built */
		et_plugin_remove_private_cache(b);
	pthread_mutex_lock(&b->lock);
	b->process = process;
	snprintf(reason, sizeof reason, "the host process of backend '%.40s' %.60s%s%.100s%s", b->ops.name,
		why ? why : how, why ? " (it " : "", why ? how : "", why ? ")" : "");
	b->kill_reason = NULL;
	b->is_restarting = b->is_retiring = false;
	if (!is_closing && !is_asked) {
		et_plugin_restart_crashed(&b->restart, may_restart, et_platform_now_ns(NULL));
		memcpy(b->reason, reason, sizeof reason);
	}
	bool has_failed = b->restart.has_failed;
	uint64_t wait_ns = et_plugin_restart_wait_ns(&b->restart, et_platform_now_ns(NULL));
	et_plugin_take_calls(b, &ended);
	b->is_ending = b->is_gone = false; /* from here on another host may be started */
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
	if (output >= 0) {
		read_output(b, output);
		close(output);
	}
	if (b->lines.n_line)
		et_plugin_lines_end(&b->lines);
	if (!is_closing && (why || !is_retiring))
		et_logf(b->log, is_asked ? ET_LOG_NOTICE : ET_LOG_ERROR, "%s; %s", reason,
			has_failed                      ? "the backend has failed"
			: wait_ns >= 1000 * MILLISECOND ? "it is started again after a pause"
							: "it is started again when it is next used");
	et_plugin_end_calls(b, &ended, reason);
}

/* --- time -------------------------------------------------------------------------------------------- */

/* Called under the lock: how long poll may wait. *ret_why is set if the host has to be killed. */
static int time_left_ms(struct et_backend *b, const char **ret_why)
{
	uint64_t now_ns = et_platform_now_ns(NULL), idle_end_ns = et_plugin_idle_end_ns(b);
	if (idle_end_ns <= now_ns) {
		b->phase = ET_PLUGIN_DOWN; /* calls that come from now on wait for another host */
		b->is_retiring = true;
		et_plugin_hang_up(b);
	}
	bool must_end = b->is_closing || b->is_retiring;
	uint64_t next_ns = must_end ? b->close_by_ns : UINT64_MAX;
	struct et_list_node *node, *after;
	const char *why = must_end ? "did not end in time" : "did not answer in time";
	ET_LIST_FOR_EACH(node, after, &b->calls) {
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (call->deadline_ns >= next_ns)
			continue;
		next_ns = call->deadline_ns;
		why = call->is_hurried   ? "did not end a cancelled run in time"
		      : call->is_in_vain ? et_plugin_in_vain
					 : "did not answer in time";
	}
	if (et_plugin_has_backlog(b) && b->must_read_by_ns < next_ns) {
		next_ns = b->must_read_by_ns;
		why = et_plugin_not_reading;
	}
	if (!b->is_retiring && idle_end_ns < next_ns)
		next_ns = idle_end_ns;
	if (next_ns <= now_ns)
		*ret_why = why;
	if (b->kill_reason)
		*ret_why = b->kill_reason;
	/* Nothing is under way: keep the time-out of the last poll, so that the next run need not wake the watcher. */
	if (next_ns == UINT64_MAX && b->sleep_until_ns != UINT64_MAX && b->sleep_until_ns > now_ns)
		next_ns = b->sleep_until_ns;
	b->sleep_until_ns = next_ns;
	if (next_ns == UINT64_MAX)
		return -1;
	uint64_t ms = next_ns > now_ns ? (next_ns - now_ns) / 1000000 + 1 : 0;
	return ms < 1000000 ? (int)ms : 1000000;
}

/* --- the thread -------------------------------------------------------------------------------------- */

/* Handle what poll reported of the socket `calls`. False: the host is gone. */
static bool on_calls(struct et_backend *b, short events)
{
	pthread_mutex_lock(&b->lock);
	/* the socket was closed: a receiving thread finds out, too, when it has read what is left */
	while ((events & (POLLHUP | POLLERR)) && b->is_receiving && !b->is_gone)
		pthread_cond_wait(&b->changed, &b->lock);
	bool may_receive = et_plugin_begin_receiving(b);
	if (may_receive) {
		pthread_mutex_unlock(&b->lock);
		for (int i = 0; i < MAX_AT_ONCE && et_plugin_receive_one(b, false); i++)
			;
		pthread_mutex_lock(&b->lock);
		et_plugin_end_receiving(b);
	}
	bool is_alive = !b->is_gone;
	pthread_mutex_unlock(&b->lock);
	return is_alive;
}

void *et_plugin_watch(void *arg)
{
	struct et_backend *b = arg;
	for (;;) {
		const char *why = NULL;
		pthread_mutex_lock(&b->lock);
		bool is_running = b->process.is_running, is_closing = b->is_closing, is_gone = b->is_gone;
		int ms = is_running ? time_left_ms(b, &why) : -1;
		b->is_watching = is_running && b->n_unattended && !b->is_receiving;
		short events = (b->is_watching ? POLLIN : 0) | (et_plugin_has_backlog(b) ? POLLOUT : 0);
		struct pollfd fds[4] = { { b->wake, POLLIN, 0 }, { is_running ? b->process.calls : -1, events, 0 },
			{ is_running ? b->process.asks : -1, POLLIN, 0 },
			{ is_running ? b->process.output : -1, POLLIN, 0 } };
		pthread_mutex_unlock(&b->lock);
		if (!is_running && is_closing)
			return NULL;
		if (is_running && (why || is_gone)) {
			end_host(b, why);
			continue;
		}
		if (poll(fds, 4, ms) < 0)
			continue;
		uint64_t n;
		if (fds[0].revents && read(b->wake, &n, sizeof n) < 0)
			continue;
		if (fds[3].revents && !read_output(b, b->process.output)) {
			close(b->process.output);
			b->process.output = -1;
		}
		bool is_alive = !fds[2].revents || read_asks(b);
		if (fds[1].revents & POLLOUT) {
			pthread_mutex_lock(&b->lock);
			et_plugin_send_backlog(b);
			pthread_mutex_unlock(&b->lock);
		}
		if (fds[1].revents & ~POLLOUT)
			is_alive = on_calls(b, fds[1].revents);
		if (!is_alive) {
			pthread_mutex_lock(&b->lock);
			why = b->kill_reason;
			pthread_mutex_unlock(&b->lock);
			end_host(b, why);
		}
	}
}
