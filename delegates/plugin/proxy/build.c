/* SPDX-License-Identifier: BSD-3-Clause */
/* Compile for a plug-in, in a process of its own.
 *
 * A driver's compiler may crash, hang, or start programs. So the host that serves clients compiles nothing: init notes
 * in the cache folder what it needs, a second process of the plug-in compiles that into the cache folder and ends, and
 * init is called again. The second process gets the configuration and the cache folder, and nothing of any client; it
 * alone may start a linker, if the section says `build_tools = yes`. What it started ends with it. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/convert.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* --- the process that compiles -------------------------------------------------------------------- */

struct builder {
	struct et_backend *backend;
	struct et_plugin_process process;
	struct et_plugin_lines lines;
	_Alignas(16) char packet[ET_PLUGIN_MAX_PACKET];
};

/* True: the socket has been read empty, and is open. */
static bool read_log(struct builder *builder)
{
	for (;;) {
		int fd, n = et_plugin_receive(builder->process.asks, builder->packet, sizeof builder->packet, &fd, 0);
		const struct et_plugin_log *log = (const struct et_plugin_log *)builder->packet;
		if (fd >= 0)
			close(fd);
		if (n <= 0)
			return n == -EAGAIN;
		if (log->header.type != ET_PLUGIN_LOG || log->header.n_bytes != sizeof *log)
			return false;
		et_plugin_lines_take(&builder->lines, log);
	}
}

static bool read_output(struct builder *builder)
{
	char bytes[4096];
	ssize_t n;
	while ((n = read(builder->process.output, bytes, sizeof bytes)) > 0)
		et_plugin_lines_add(&builder->lines, bytes, (size_t)n);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool is_closing(struct et_backend *b)
{
	pthread_mutex_lock(&b->lock);
	bool is = b->is_closing;
	pthread_mutex_unlock(&b->lock);
	return is;
}

/* Wait for STARTED, which says how the build ended. NULL: it is in the packet; else why it has not come. */
static const char *wait_for_end(struct builder *builder, uint64_t until_ns)
{
	enum { LOOK_MS = 200 }; /* a backend that is closed wakes nobody here */
	struct pollfd fds[3] = { { builder->process.calls, POLLIN, 0 }, { builder->process.asks, POLLIN, 0 },
		{ builder->process.output, POLLIN, 0 } };
	while (et_platform_now_ns(NULL) < until_ns) {
		if (is_closing(builder->backend))
			return "was ended, since the backend is closed";
		if (poll(fds, 3, LOOK_MS) <= 0)
			continue;
		if (fds[1].revents && !read_log(builder))
			fds[1].fd = -1;
		if (fds[2].revents && !read_output(builder))
			fds[2].fd = -1;
		if (!fds[0].revents)
			continue;
		int fd, n = et_plugin_receive(builder->process.calls, builder->packet, sizeof builder->packet, &fd, 0);
		const struct et_plugin_started *started = (const struct et_plugin_started *)builder->packet;
		if (fd >= 0)
			close(fd);
		if (n > 0)
			return n == (int)sizeof *started && started->header.type == ET_PLUGIN_STARTED
				       ? NULL
				       : "sent a malformed answer";
		if (n != -EAGAIN)
			return ""; /* how it ended says more */
	}
	return "did not answer in time";
}

/* The sentence for a process that has not answered. */
static enum et_status refuse(const struct et_backend *b, const char *why, const char *how, struct et_diag *diag)
{
	return et_fail(diag, ET_E_INTERNAL, "the process that compiles for backend '%.40s' %.80s%s", b->ops.name,
		why[0] ? why : how,
		why[0] || b->config.has_build_tools
			? ""
			: "; if its compiler starts a linker, set build_tools = yes in the backend's section");
}

static enum et_status build(struct builder *builder, struct et_diag *diag)
{
	struct et_backend *b = builder->backend;
	struct et_plugin_start *start = et_plugin_make_start(b,
		ET_PLUGIN_BUILDS | (b->config.has_build_tools ? ET_PLUGIN_BUILD_TOOLS : 0), 0);
	if (!start)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a process that compiles");
	int rc = et_plugin_process_start(&builder->process, &b->config);
	if (rc < 0) {
		free(start);
		return et_fail(diag, ET_E_INTERNAL, "a process that compiles can't be started: %s", strerror(-rc));
	}
	uint64_t limit_ns = b->config.load_timeout_ns ? b->config.load_timeout_ns : 120 * SECOND;
	uint64_t now_ns = et_platform_now_ns(NULL),
		 until_ns = limit_ns < UINT64_MAX - now_ns ? now_ns + limit_ns : UINT64_MAX;
	char how[128];
	int output = builder->process.output;
	const char *why = et_plugin_send(builder->process.calls, start, -1, 1) < 0 ? ""
										   : wait_for_end(builder, until_ns);
	free(start);
	read_log(builder);
	builder->process.output = -1;
	et_plugin_process_end(&builder->process, false, how, sizeof how);
	builder->process.output = output;
	read_output(builder); /* to its end */
	close(output);
	if (builder->lines.n_line)
		et_plugin_lines_end(&builder->lines);
	if (why)
		return refuse(b, why, how, diag);
	struct et_plugin_started *started = (struct et_plugin_started *)builder->packet;
	started->text[sizeof started->text - 1] = '\0';
	return et_convert_result((int)started->result, started->text, diag);
}

enum et_status et_plugin_build(struct et_backend *b, struct et_diag *diag)
{
	struct builder *builder = calloc(1, sizeof *builder);
	if (!builder)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a process that compiles");
	builder->backend = b;
	builder->lines = (struct et_plugin_lines){ .log = b->log, .name = b->ops.name };
	pthread_mutex_lock(&b->building);
	enum et_status status = build(builder, diag);
	pthread_mutex_unlock(&b->building);
	free(builder);
	return status;
}
