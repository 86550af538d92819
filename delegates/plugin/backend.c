/* The proxy of a plug-in: a host process, what was asked of it, and a thread that listens.
 *
 * Anybody may ask; only the reader thread receives, closes the sockets and ends a host, so that a descriptor never
 * changes under somebody who uses it: senders hold the lock. Each call has a deadline; when one passes, the host
 * hangs, and is ended like one that crashed. Then all that was under way is answered at once.
 *
 * What must always be true: a call is in exactly one of `calls`, `waiting` and nowhere, and who takes it out
 * of a list (under the lock) is who ends it, so a run's completion comes exactly once whatever the host says. */
#include "delegates/plugin/backend.h"

#include "clients/inferd-delegate.h"
#include "delegates/plugin/sandbox.h"
#include "runtime/base/checked.h"
#include "runtime/host/host.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND                    UINT64_C(1000000000)
#define DEFAULT(value, otherwise) ((value) ? (value) : (otherwise))

enum { MAX_LINES_A_SECOND = 50, RESTART_MS = 100, RESTART_MAX_MS = 5000 };

static void wake(struct et_backend *b)
{
	uint64_t one = 1;
	while (write(b->wake, &one, sizeof one) < 0 && errno == EINTR)
		;
}

enum et_status et_plugin_status(uint32_t result, const char *text, struct et_diag *diag)
{
	enum et_status status = ET_E_INTERNAL;
	switch (result) {
	case INFERD_DELEGATE_OK:
		return ET_OK;
	case INFERD_DELEGATE_E_INVALID:
		status = ET_E_INVALID_PROGRAM;
		break;
	case INFERD_DELEGATE_E_UNSUPPORTED:
		status = ET_E_NOT_SUPPORTED;
		break;
	case INFERD_DELEGATE_E_NOT_FOUND:
		status = ET_E_NOT_FOUND;
		break;
	case INFERD_DELEGATE_E_MEMORY:
		status = ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED;
		break;
	case INFERD_DELEGATE_E_CANCELLED:
		status = ET_E_CANCELLED;
		break;
	default:
		break;
	}
	return et_fail(diag, status, "%.255s", text[0] ? text : "the plug-in does not say why");
}

/* --- what the library prints ----------------------------------------------------------------------- */

static void log_line(struct et_backend *b)
{
	uint64_t now_ns = et_host_now_ns(NULL);
	int level = ET_LOG_INFO;
	const char *text = b->line;
	b->line[b->n_line] = '\0';
	b->n_line = 0;
	if (now_ns - b->lines_since_ns > SECOND) {
		if (b->n_lines_dropped)
			et_logf(b->log, ET_LOG_WARNING, "%s: %u more lines dropped", b->ops.name,
				b->n_lines_dropped);
		b->lines_since_ns = now_ns;
		b->n_lines = b->n_lines_dropped = 0;
	}
	if (b->n_lines++ >= MAX_LINES_A_SECOND) {
		b->n_lines_dropped++;
		return;
	}
	if (text[0] == '<' && text[1] >= '3' && text[1] <= '7' && text[2] == '>') {
		level = text[1] - '0';
		text += 3;
	}
	if (*text)
		et_logf(b->log, (enum et_log_level)level, "%s: %s", b->ops.name, text);
}

static void add_output(struct et_backend *b, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == '\n' || b->n_line == sizeof b->line - 1)
			log_line(b);
		if (bytes[i] != '\n')
			b->line[b->n_line++] =
				(unsigned char)bytes[i] < ' ' || bytes[i] == 127 ? '?' : bytes[i];
	}
}

/* False: the other end is closed. */
static bool read_output(struct et_backend *b)
{
	char bytes[4096];
	for (;;) {
		ssize_t n = read(b->process.output, bytes, sizeof bytes);
		if (n > 0)
			add_output(b, bytes, (size_t)n);
		else
			return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
}

/* --- the end of a host ------------------------------------------------------------------------------ */

static void end_calls(struct et_backend *b, struct et_list_node *calls, const char *reason)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, calls)
	{
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		et_list_remove(&call->node);
		if (call->run) {
			et_plugin_run_ended(call->run, NULL, ET_E_BACKEND_CRASHED, reason);
			continue;
		}
		pthread_mutex_lock(&b->lock);
		call->status = ET_E_BACKEND_CRASHED;
		call->is_done = true;
		pthread_cond_broadcast(&b->changed);
		pthread_mutex_unlock(&b->lock);
	}
}

static void take_all(struct et_list_node *from, struct et_list_node *to)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, from)
	{
		et_list_remove(node);
		et_list_append(to, node);
	}
}

/* Under the lock: what a crash means for the next start. */
static void count_crash(struct et_backend *b, bool may_restart)
{
	uint64_t now_ns = et_host_now_ns(NULL);
	uint64_t window_ns = DEFAULT(b->config.crash_window_ns, 60 * SECOND);
	uint32_t max = DEFAULT(b->config.max_crashes, 5), n_recent = 1;
	uint32_t ring = ET_ARRAY_LEN(b->crashes_ns);
	for (uint32_t i = 0; i < ring && i < b->n_crashes; i++)
		n_recent += now_ns - b->crashes_ns[(b->n_crashes - 1 - i) % ring] < window_ns;
	b->crashes_ns[b->n_crashes++ % ring] = now_ns;
	uint64_t pause_ms = n_recent > 1 ? (uint64_t)RESTART_MS << (n_recent < 10 ? n_recent - 2 : 8) : 0;
	b->not_before_ns = now_ns + (pause_ms < RESTART_MAX_MS ? pause_ms : RESTART_MAX_MS) * 1000000;
	b->phase = n_recent >= max || !may_restart ? ET_PLUGIN_FAILED : ET_PLUGIN_DOWN;
}

/* The reader: the host is gone or must go. */
static void end_host(struct et_backend *b, const char *why)
{
	struct et_list_node ended;
	char how[128], reason[sizeof b->reason];
	et_list_init(&ended);
	if (b->process.output >= 0)
		read_output(b);
	pthread_mutex_lock(&b->lock);
	bool is_closing = b->is_closing, is_asked = b->is_restarting;
	bool may_restart = et_plugin_process_end(&b->process, why != NULL, how, sizeof how);
	snprintf(reason, sizeof reason, "the host process of backend '%.40s' %.60s%s%.100s%s", b->ops.name,
		why ? why : how, why ? " (it " : "", why ? how : "", why ? ")" : "");
	b->kill_reason = NULL;
	b->is_restarting = false;
	take_all(&b->calls, &ended);
	take_all(&b->waiting, &ended);
	b->n_in_flight = b->n_waiting = 0;
	b->phase = ET_PLUGIN_DOWN;
	if (!is_closing && !is_asked) {
		count_crash(b, may_restart);
		memcpy(b->reason, reason, sizeof reason);
	}
	bool has_failed = b->phase == ET_PLUGIN_FAILED;
	pthread_mutex_unlock(&b->lock);
	if (b->n_line)
		log_line(b);
	if (!is_closing)
		et_logf(b->log, is_asked ? ET_LOG_NOTICE : ET_LOG_ERROR, "%s; %s", reason,
			has_failed ? "giving it up" : "it is started again when it is next used");
	end_calls(b, &ended, reason);
	pthread_mutex_lock(&b->lock);
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

/* --- the reader ------------------------------------------------------------------------------------- */

/* Under the lock: send the run of @call. */
static int send_run(struct et_backend *b, struct et_plugin_call *call)
{
	struct et_plugin_run *packet = et_plugin_context_packet(call->run);
	call->id = packet->header.id = ++b->last_id;
	uint64_t now_ns = et_host_now_ns(NULL), timeout_ns = DEFAULT(b->config.run_timeout_ns, 30 * SECOND);
	call->deadline_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
	int rc = et_plugin_send(b->process.calls, packet, -1, 0);
	et_list_append(&b->calls, &call->node);
	b->n_in_flight++;
	b->n_runs++;
	return rc;
}

/* A packet on `calls`. False: the host does not speak as it should. */
static bool on_packet(struct et_backend *b, const struct et_plugin_header *header)
{
	struct et_plugin_call *found = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&b->lock);
	ET_LIST_FOR_EACH(node, after, &b->calls)
	{
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (call->id == header->id)
			found = call;
	}
	bool fits = false;
	if (found && found->run)
		fits = header->type == ET_PLUGIN_DONE && header->n_bytes >= sizeof(struct et_plugin_done);
	else if (found)
		fits = header->n_bytes == found->n_answer &&
		       header->type == (found->n_answer == sizeof(struct et_plugin_started)
						       ? ET_PLUGIN_STARTED
						       : ET_PLUGIN_ANSWER);
	if (!fits) {
		pthread_mutex_unlock(&b->lock);
		return false;
	}
	et_list_remove(&found->node);
	if (!found->run) {
		memcpy(found->answer, header, found->n_answer);
		found->status = ET_OK;
		found->is_done = true;
		pthread_cond_broadcast(&b->changed);
		pthread_mutex_unlock(&b->lock);
		return true;
	}
	b->n_in_flight--;
	if (!et_list_is_empty(&b->waiting) && b->n_in_flight < b->max_in_flight) {
		struct et_plugin_call *next = ET_CONTAINER_OF(b->waiting.next, struct et_plugin_call, node);
		et_list_remove(&next->node);
		b->n_waiting--;
		if (send_run(b, next) < 0)
			b->kill_reason = "does not read what is sent to it";
	}
	pthread_mutex_unlock(&b->lock);
	et_plugin_run_ended(found->run, (const struct et_plugin_done *)header, ET_OK, NULL);
	return true;
}

/* One packet; poll says whether there is another. */
static bool read_calls(struct et_backend *b, char *packet, const char **ret_why)
{
	int fd, n = et_plugin_receive(b->process.calls, packet, ET_PLUGIN_MAX_PACKET, &fd, 0);
	if (fd >= 0)
		close(fd);
	if (n == -EAGAIN)
		return true;
	if (n == 0)
		return false;
	if (n > 0 && fd < 0 && on_packet(b, (const struct et_plugin_header *)packet))
		return true;
	*ret_why = "answered what nobody asked, or something that can't be read";
	return false;
}

static const struct et_program *program_of(struct et_backend *b, uint64_t id)
{
	const struct et_program *program = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&b->lock);
	ET_LIST_FOR_EACH(node, after, &b->calls)
	{
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (call->id == id && !call->is_done)
			program = call->program;
	}
	pthread_mutex_unlock(&b->lock);
	return program;
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
	/* The caller of init waits, and holds the program, until we have answered it; and only this thread does. */
	const struct et_program *program = program_of(b, ask->call);
	const uint8_t *bytes;
	size_t n_bytes;
	int fd = -1;
	if (program && memchr(ask->key, 0, sizeof ask->key) &&
		et_program_find_named_data(program, ask->key, &bytes, &n_bytes) == ET_OK) {
		fd = memory_of("inferd-named-data", bytes, n_bytes);
		answer.result = fd >= 0 ? INFERD_DELEGATE_OK : INFERD_DELEGATE_E_MEMORY;
		answer.n_bytes = n_bytes;
	}
	et_plugin_send(b->process.asks, &answer, fd, 0);
	if (fd >= 0)
		close(fd);
}

static bool read_asks(struct et_backend *b, char *packet)
{
	for (;;) {
		int fd, n = et_plugin_receive(b->process.asks, packet, ET_PLUGIN_MAX_PACKET, &fd, 0);
		const struct et_plugin_header *header = (const struct et_plugin_header *)packet;
		if (fd >= 0)
			close(fd);
		if (n == -EAGAIN || n == 0)
			return n != 0;
		if (n < 0)
			return false;
		if (header->type == ET_PLUGIN_NAMED && header->n_bytes == sizeof(struct et_plugin_named)) {
			answer_named(b, (const struct et_plugin_named *)packet);
		} else if (header->type == ET_PLUGIN_LOG && header->n_bytes == sizeof(struct et_plugin_log)) {
			const struct et_plugin_log *log = (const struct et_plugin_log *)packet;
			char prefix[4] = { '<', (char)('0' + log->level % 10), '>', 0 };
			add_output(b, prefix, 3);
			add_output(b, log->text, strnlen(log->text, sizeof log->text));
			add_output(b, "\n", 1);
		} else {
			return false;
		}
	}
}

/* Under the lock: how long poll may wait; *ret_why: a call's time is up. */
static int time_left_ms(struct et_backend *b, const char **ret_why)
{
	uint64_t now_ns = et_host_now_ns(NULL), next_ns = b->is_closing ? b->close_by_ns : UINT64_MAX;
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &b->calls)
	{
		struct et_plugin_call *call = ET_CONTAINER_OF(node, struct et_plugin_call, node);
		if (call->deadline_ns < next_ns)
			next_ns = call->deadline_ns;
	}
	if (next_ns <= now_ns)
		*ret_why = "did not answer in time";
	if (b->kill_reason)
		*ret_why = b->kill_reason;
	/* Nothing under way: stay with the alarm that is set, so that the next run need not set one. */
	if (next_ns == UINT64_MAX && b->sleep_until_ns != UINT64_MAX && b->sleep_until_ns > now_ns)
		next_ns = b->sleep_until_ns;
	b->sleep_until_ns = next_ns;
	if (next_ns == UINT64_MAX)
		return -1;
	uint64_t ms = next_ns > now_ns ? (next_ns - now_ns) / 1000000 + 1 : 0;
	return ms < 1000000 ? (int)ms : 1000000;
}

static void *reader_main(void *arg)
{
	struct et_backend *b = arg;
	_Alignas(16) static _Thread_local char packet[ET_PLUGIN_MAX_PACKET];
	for (;;) {
		const char *why = NULL;
		pthread_mutex_lock(&b->lock);
		bool is_running = b->process.is_running, is_closing = b->is_closing;
		int ms = is_running ? time_left_ms(b, &why) : -1;
		struct pollfd fds[4] = { { b->wake, POLLIN, 0 },
			{ is_running ? b->process.calls : -1, POLLIN, 0 },
			{ is_running ? b->process.asks : -1, POLLIN, 0 },
			{ is_running ? b->process.output : -1, POLLIN, 0 } };
		pthread_mutex_unlock(&b->lock);
		if (!is_running && is_closing)
			return NULL;
		if (why) {
			end_host(b, why);
			continue;
		}
		if (poll(fds, 4, ms) < 0)
			continue;
		uint64_t n;
		if (fds[0].revents && read(b->wake, &n, sizeof n) < 0)
			continue;
		if (fds[3].revents && !read_output(b)) {
			close(b->process.output);
			b->process.output = -1;
		}
		bool is_alive = !fds[2].revents || read_asks(b, packet);
		if (fds[1].revents)
			is_alive = read_calls(b, packet, &why);
		if (!is_alive)
			end_host(b, why);
	}
}

/* --- calls ------------------------------------------------------------------------------------------ */

uint64_t et_plugin_new_handle(struct et_backend *b)
{
	pthread_mutex_lock(&b->lock);
	uint64_t handle = ++b->last_handle;
	pthread_mutex_unlock(&b->lock);
	return handle;
}

/* Under the lock. */
static bool is_there(const struct et_backend *b, uint64_t generation)
{
	return b->process.is_running && b->generation == generation && !b->kill_reason;
}

static enum et_status gone(struct et_backend *b, struct et_diag *diag)
{
	return et_fail(diag, ET_E_BACKEND_CRASHED, "%.300s",
		b->reason[0] ? b->reason : "the host process of the backend is gone");
}

enum et_status et_plugin_ask(struct et_backend *b, uint64_t generation, void *packet, int fd, uint32_t type,
	void *answer, size_t n_answer, const struct et_program *program, struct et_diag *diag)
{
	struct et_plugin_header *header = packet;
	struct et_plugin_call call = { .answer = answer, .n_answer = n_answer, .program = program };
	uint64_t now_ns = et_host_now_ns(NULL), timeout_ns = DEFAULT(b->config.load_timeout_ns, 120 * SECOND);
	pthread_mutex_lock(&b->lock);
	if (!is_there(b, generation)) {
		enum et_status status = gone(b, diag);
		pthread_mutex_unlock(&b->lock);
		return status;
	}
	call.id = header->id = ++b->last_id;
	call.deadline_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
	et_list_append(&b->calls, &call.node);
	int rc = et_plugin_send(b->process.calls, packet, fd, 0);
	if (rc < 0 && rc != -EPIPE)
		b->kill_reason = "does not read what is sent to it";
	if (b->kill_reason || call.deadline_ns < b->sleep_until_ns)
		wake(b);
	while (!call.is_done)
		pthread_cond_wait(&b->changed, &b->lock);
	enum et_status status = call.status ? gone(b, diag) : ET_OK;
	pthread_mutex_unlock(&b->lock);
	return status;
}

void et_plugin_tell(struct et_backend *b, uint64_t generation, void *packet)
{
	struct et_plugin_header *header = packet;
	pthread_mutex_lock(&b->lock);
	if (is_there(b, generation)) {
		header->id = ++b->last_id;
		int rc = et_plugin_send(b->process.calls, packet, -1, 0);
		if (rc < 0 && rc != -EPIPE) {
			b->kill_reason = "does not read what is sent to it";
			wake(b);
		}
	}
	pthread_mutex_unlock(&b->lock);
}

enum et_status et_plugin_start_run(
	struct et_backend *b, uint64_t generation, struct et_context *context, struct et_diag *diag)
{
	struct et_plugin_call *call = et_plugin_context_call(context);
	pthread_mutex_lock(&b->lock);
	if (!is_there(b, generation)) {
		enum et_status status = gone(b, diag);
		pthread_mutex_unlock(&b->lock);
		return status;
	}
	*call = (struct et_plugin_call){ .run = context };
	if (b->n_in_flight >= b->max_in_flight) {
		b->n_waiting++;
		et_list_append(&b->waiting, &call->node);
	} else {
		int rc = send_run(b, call);
		if (rc < 0 && rc != -EPIPE)
			b->kill_reason = "does not read what is sent to it";
		if (b->kill_reason || call->deadline_ns < b->sleep_until_ns)
			wake(b);
	}
	pthread_mutex_unlock(&b->lock);
	return ET_PENDING;
}

/* --- starting --------------------------------------------------------------------------------------- */

static struct et_plugin_start *make_start(const struct et_plugin_config *config)
{
	size_t n_bytes = sizeof(struct et_plugin_start);
	for (uint32_t i = 0; i < config->n_options; i++)
		n_bytes += strlen(config->options[i].key) + strlen(config->options[i].value) + 2;
	if (n_bytes > ET_PLUGIN_MAX_PACKET)
		return NULL;
	struct et_plugin_start *start = calloc(1, n_bytes);
	if (!start)
		return NULL;
	start->header = (struct et_plugin_header){ ET_PLUGIN_START, (uint32_t)n_bytes, 0 };
	start->wire = ET_PLUGIN_WIRE;
	start->n_options = config->n_options;
	start->n_option_bytes = (uint32_t)(n_bytes - sizeof *start);
	start->has_cache = config->cache_dir != NULL;
	snprintf(start->path, sizeof start->path, "%s", config->path);
	snprintf(start->cache_dir, sizeof start->cache_dir, "%s", config->cache_dir ? config->cache_dir : "");
	char *at = (char *)(start + 1);
	for (uint32_t i = 0; i < config->n_options; i++) {
		size_t n_key = strlen(config->options[i].key) + 1,
		       n_value = strlen(config->options[i].value) + 1;
		memcpy(at, config->options[i].key, n_key);
		memcpy(at + n_key, config->options[i].value, n_value);
		at += n_key + n_value;
	}
	return start;
}

/* With `starting` held. */
static enum et_status start_host(
	struct et_backend *b, struct et_plugin_started *started, struct et_diag *diag)
{
	struct et_plugin_process process;
	struct et_plugin_start *start = make_start(&b->config);
	if (!start)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "no room for the options of the backend");
	int rc = et_plugin_process_start(&process, &b->config);
	if (rc < 0) {
		free(start);
		return et_fail(
			diag, ET_E_NOT_FOUND, "can't start %.200s: %s", b->config.host_path, strerror(-rc));
	}
	pthread_mutex_lock(&b->lock);
	b->process = process;
	b->n_starts++;
	uint64_t generation = ++b->generation;
	pthread_mutex_unlock(&b->lock);
	wake(b);
	enum et_status status = et_plugin_ask(
		b, generation, start, -1, ET_PLUGIN_STARTED, started, sizeof *started, NULL, diag);
	free(start);
	if (status)
		return status;
	started->id[sizeof started->id - 1] = started->name[sizeof started->name - 1] = '\0';
	started->version[sizeof started->version - 1] = started->text[sizeof started->text - 1] = '\0';
	if (started->n_devices > ET_PLUGIN_MAX_DEVICES || started->n_kernels > ET_PLUGIN_MAX_KERNELS)
		return et_fail(diag, ET_E_INTERNAL, "the host process does not speak as it should");
	if (started->result)
		return et_fail(diag, ET_E_NOT_FOUND, "%.255s",
			started->text[0] ? started->text : "the plug-in does not say why it can't be opened");
	pthread_mutex_lock(&b->lock);
	if (is_there(b, generation))
		b->phase = ET_PLUGIN_UP;
	pthread_mutex_unlock(&b->lock);
	return ET_OK;
}

static enum et_status start_again(struct et_backend *b, struct et_diag *diag)
{
	struct et_plugin_started started;
	enum et_status status = start_host(b, &started, diag);
	if (!status && (started.n_devices != b->facts.n_devices || started.n_kernels != b->facts.n_kernels ||
			       strcmp(started.id, b->facts.id) != 0))
		status = et_fail(diag, ET_E_BACKEND_CRASHED,
			"the plug-in came back with other devices or kernels; restart inferd");
	if (!status)
		return ET_OK;
	pthread_mutex_lock(&b->lock);
	if (b->process.is_running)
		b->kill_reason = "could not be started again";
	pthread_mutex_unlock(&b->lock);
	wake(b);
	return ET_E_BACKEND_CRASHED;
}

enum et_status et_plugin_up(struct et_backend *b, uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&b->lock);
	*ret_generation = b->generation;
	bool is_up = b->phase == ET_PLUGIN_UP;
	pthread_mutex_unlock(&b->lock);
	if (is_up)
		return ET_OK;
	pthread_mutex_lock(&b->starting);
	pthread_mutex_lock(&b->lock);
	uint64_t now_ns = et_host_now_ns(NULL);
	/* a host that is being ended, or did not open, goes first */
	while (b->phase == ET_PLUGIN_DOWN && b->process.is_running)
		pthread_cond_wait(&b->changed, &b->lock);
	is_up = b->phase == ET_PLUGIN_UP;
	if (b->phase == ET_PLUGIN_FAILED)
		status = et_fail(diag, ET_E_BACKEND_CRASHED, "backend '%.60s' has failed %u times: %.200s",
			b->ops.name, b->n_crashes, b->reason);
	else if (!is_up && now_ns < b->not_before_ns)
		status = et_fail(diag, ET_E_BACKEND_CRASHED, "%.220s; it is started again in %u ms",
			b->reason, (unsigned)((b->not_before_ns - now_ns) / 1000000 + 1));
	pthread_mutex_unlock(&b->lock);
	if (!status && !is_up)
		status = start_again(b, diag);
	pthread_mutex_lock(&b->lock);
	*ret_generation = b->generation;
	pthread_mutex_unlock(&b->lock);
	pthread_mutex_unlock(&b->starting);
	return status;
}

enum et_status et_plugin_health(struct et_backend *b, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&b->lock);
	if (b->phase == ET_PLUGIN_FAILED)
		status = et_fail(
			diag, ET_E_BACKEND_CRASHED, "failed %u times: %.200s", b->n_crashes, b->reason);
	pthread_mutex_unlock(&b->lock);
	return status;
}

enum et_status et_plugin_restart(struct et_backend *b, struct et_diag *diag)
{
	if (b->config.isolation == ET_PLUGIN_IN_THREAD)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"it runs on a thread of inferd (isolation = thread); restart inferd");
	pthread_mutex_lock(&b->lock);
	b->n_crashes = 0;
	b->not_before_ns = 0;
	if (b->phase == ET_PLUGIN_FAILED)
		b->phase = ET_PLUGIN_DOWN;
	if (b->process.is_running) {
		b->is_restarting = true;
		b->kill_reason = "was restarted on request";
		wake(b);
	}
	pthread_mutex_unlock(&b->lock);
	return ET_OK;
}

/* --- open and close --------------------------------------------------------------------------------- */

static void plugin_close(struct et_backend *b)
{
	et_plugin_kernels_deinit(b);
	pthread_mutex_lock(&b->lock);
	b->is_closing = true;
	b->close_by_ns = et_host_now_ns(NULL) + 5 * SECOND;
	if (b->process.is_running)
		shutdown(b->process.calls, SHUT_WR);
	pthread_mutex_unlock(&b->lock);
	wake(b);
	pthread_join(b->reader, NULL);
	close(b->wake);
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->starting);
	pthread_cond_destroy(&b->changed);
	free(b->strings);
	free(b->options);
	free(b);
}

static char *copy(char **at, const char *text)
{
	char *to = *at;
	size_t n = strlen(text) + 1;
	memcpy(to, text, n);
	*at += n;
	return to;
}

static bool copy_config(struct et_backend *b, const struct et_plugin_config *from)
{
	const char *host = from->host_path ? from->host_path : INF_DELEGATE_HOST;
	size_t n = strlen(from->path) + strlen(host) + 2 + (from->name ? strlen(from->name) + 1 : 0) +
		   (from->cache_dir ? strlen(from->cache_dir) + 1 : 0);
	for (uint32_t i = 0; i < from->n_options; i++)
		n += strlen(from->options[i].key) + strlen(from->options[i].value) + 2;
	char *at = b->strings = malloc(n);
	b->options = calloc(from->n_options + 1, sizeof *b->options);
	if (!at || !b->options)
		return false;
	b->config = *from;
	b->config.path = copy(&at, from->path);
	b->config.host_path = copy(&at, host);
	b->config.name = from->name ? copy(&at, from->name) : NULL;
	b->config.cache_dir = from->cache_dir ? copy(&at, from->cache_dir) : NULL;
	for (uint32_t i = 0; i < from->n_options; i++) {
		b->options[i].key = copy(&at, from->options[i].key);
		b->options[i].value = copy(&at, from->options[i].value);
	}
	b->config.options = b->options;
	return true;
}

static enum et_status no_open(struct et_backend **ret_backend, const struct et_allocator *allocator,
	const struct et_log *log, struct et_diag *diag)
{
	return et_fail(diag, ET_E_NOT_SUPPORTED, "a plug-in is opened with its configuration");
}

static uint32_t n_devices(const struct et_backend *b)
{
	return b->facts.n_devices;
}

static void device(const struct et_backend *b, uint32_t index, struct et_device *ret_device)
{
	const struct et_plugin_device *from = &b->facts.devices[index];
	ret_device->kind = from->kind == INFERD_DELEGATE_CPU   ? ET_QUEUE_CPU
			   : from->kind == INFERD_DELEGATE_GPU ? ET_QUEUE_GPU
							       : ET_QUEUE_NPU;
	memcpy(ret_device->name, from->name, sizeof ret_device->name);
	ret_device->name[sizeof ret_device->name - 1] = '\0';
	ret_device->memory_bytes = from->memory_bytes;
	ret_device->max_in_flight = from->max_in_flight;
	ret_device->n_threads = 0;
}

static void take_facts(struct et_backend *b)
{
	uint32_t n = 0;
	if (!b->config.name)
		b->config.name = b->facts.name;
	b->ops.id = b->facts.id;
	b->ops.name = b->config.name;
	for (uint32_t i = 0; i < b->facts.n_devices; i++)
		n += b->facts.devices[i].max_in_flight < 16 ? b->facts.devices[i].max_in_flight : 16;
	b->max_in_flight = b->facts.flags & ET_PLUGIN_HAS_INSTANCES && n ? n : 1;
	if (!(b->facts.flags & ET_PLUGIN_HAS_CANCEL))
		b->ops.cancel = NULL;
}

static void log_start(const struct et_backend *b)
{
	uint32_t s = b->facts.sandbox;
	if (b->config.isolation == ET_PLUGIN_IN_THREAD)
		et_logf(b->log, ET_LOG_NOTICE, "backend %s (%s %s): %u devices, without isolation",
			b->ops.name, b->ops.id, b->facts.version, b->facts.n_devices);
	else
		et_logf(b->log, ET_LOG_NOTICE,
			"backend %s (%s %s): %u devices, host process %d, sandbox:%s%s%s%s", b->ops.name,
			b->ops.id, b->facts.version, b->facts.n_devices, (int)b->process.pid,
			s & ET_SANDBOX_NO_NEW_PRIVS ? " no-new-privs" : "",
			s & ET_SANDBOX_CALLS ? " seccomp" : "",
			s & ET_SANDBOX_FILES ? " landlock" : " (no landlock in this kernel)",
			s & ET_SANDBOX_LIMITS ? " limits" : "");
}

enum et_status et_plugin_open(struct et_backend_entry *ret_entry, const struct et_plugin_config *config,
	const struct et_allocator *allocator, const struct et_log *log, struct et_diag *diag)
{
	if (strlen(config->path) >= sizeof((struct et_plugin_start *)0)->path ||
		(config->cache_dir &&
			strlen(config->cache_dir) >= sizeof((struct et_plugin_start *)0)->cache_dir))
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "a path is too long");
	struct et_backend *b = calloc(1, sizeof *b);
	if (!b || !copy_config(b, config) || (b->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
		free(b ? b->strings : NULL);
		free(b ? b->options : NULL);
		free(b);
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
	}
	b->ops = et_plugin_ops;
	b->ops.open = no_open;
	b->ops.close = plugin_close;
	b->ops.n_devices = n_devices;
	b->ops.device = device;
	b->ops.name = config->name ? b->config.name : "plug-in";
	b->log = log;
	b->process = (struct et_plugin_process){ .calls = -1, .asks = -1, .output = -1 };
	b->max_in_flight = 1;
	b->sleep_until_ns = UINT64_MAX;
	et_list_init(&b->calls);
	et_list_init(&b->waiting);
	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->starting, NULL);
	pthread_cond_init(&b->changed, NULL);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&b->reader, NULL, reader_main, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		close(b->wake);
		free(b->strings);
		free(b->options);
		free(b);
		return et_fail(diag, ET_E_INTERNAL, "can't start a thread: %s", strerror(rc));
	}
	pthread_mutex_lock(&b->starting);
	enum et_status status = start_host(b, &b->facts, diag);
	pthread_mutex_unlock(&b->starting);
	if (!status) {
		take_facts(b);
		status = et_plugin_kernels_init(b, diag);
	}
	if (status) {
		plugin_close(b);
		return status == ET_E_MEMORY_ALLOCATION_FAILED ? status : ET_E_NOT_FOUND;
	}
	log_start(b);
	*ret_entry = (struct et_backend_entry){ &b->ops, b };
	return ET_OK;
}

void et_plugin_state(struct et_backend *b, struct et_plugin_state *ret_state)
{
	pthread_mutex_lock(&b->lock);
	*ret_state = (struct et_plugin_state){
		.pid = b->process.is_running ? b->process.pid : 0,
		.has_failed = b->phase == ET_PLUGIN_FAILED,
		.sandbox = b->facts.sandbox,
		.n_starts = b->n_starts,
		.n_crashes = b->n_crashes,
		.n_runs = b->n_runs,
		.n_copied_bytes = b->n_copied_bytes,
		.n_in_flight = b->n_in_flight,
		.n_waiting = b->n_waiting,
	};
	memcpy(ret_state->version, b->facts.version, sizeof ret_state->version);
	memcpy(ret_state->reason, b->reason, sizeof ret_state->reason);
	pthread_mutex_unlock(&b->lock);
}

const struct et_kernel_table *et_plugin_kernels(struct et_backend *b)
{
	return b->table.n ? &b->table : NULL;
}
