/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end a host: a process with two sockets, and a pipe for what its library prints; or a thread.
 *
 * The process inherits nothing else from inferd: no other descriptor, no signal mask, and of the environment only
 * the variables that decide where libraries are found, and those that sanitizers read. It leads a process group of
 * its own, so that a signal to inferd's group does not reach it. */
#include "delegates/plugin/proxy/proxy_internal.h"
#include "delegates/plugin/proxy/spawner.h"
#include "delegates/plugin/host/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* --- process -------------------------------------------------------------------------------------- */

static int start_process(struct et_plugin_process *process, const struct et_plugin_config *config, int calls, int asks)
{
	int pipe[2];
	if (pipe2(pipe, O_CLOEXEC) < 0)
		return -errno;
	fcntl(pipe[0], F_SETFL, O_NONBLOCK);
	int rc = et_spawner_spawn(&process->pid, &process->pidfd,
		config->path[0] ? "inferd-delegate-host" : "inferd-program-host", config->host_path, calls, asks,
		pipe[1]);
	close(pipe[1]);
	if (rc < 0) {
		close(pipe[0]);
		return rc;
	}
	process->output = pipe[0];
	close(calls);
	close(asks);
	return 0;
}

/* --- thread --------------------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
	struct et_serve_options options = *(struct et_serve_options *)arg;
	free(arg);
	et_plugin_serve(&options);
	return NULL;
}

static int start_thread(struct et_plugin_process *process, int calls, int asks)
{
	struct et_serve_options *options = calloc(1, sizeof *options);
	if (!options)
		return -ENOMEM;
	*options = (struct et_serve_options){ .calls = calls, .asks = asks };
	sigset_t all, before;
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&process->thread, NULL, thread_main, options);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		free(options);
	return -rc;
}

/* --- both ----------------------------------------------------------------------------------------- */

int et_plugin_process_start(struct et_plugin_process *process, const struct et_plugin_config *config)
{
	int calls[2], asks[2], rc;
	*process = (struct et_plugin_process){ .pidfd = -1, .calls = -1, .asks = -1, .output = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls) < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, asks) < 0) {
		rc = -errno;
		close(calls[0]);
		close(calls[1]);
		return rc;
	}
	if (config->isolation == ET_PLUGIN_IN_THREAD)
		rc = start_thread(process, calls[1], asks[1]);
	else
		rc = start_process(process, config, calls[1], asks[1]);
	if (rc < 0) {
		for (int i = 0; i < 2; i++) {
			close(calls[i]);
			close(asks[i]);
		}
		return rc;
	}
	process->is_running = true;
	process->calls = calls[0];
	process->asks = asks[0];
	return 0;
}

void et_plugin_process_limit_memory(const struct et_plugin_process *process, uint64_t n_bytes)
{
#ifndef INF_SANITIZED /* as in host/serve.c */
	struct rlimit limit;
	if (process->pid <= 0 || prlimit(process->pid, RLIMIT_DATA, NULL, &limit) < 0)
		return;
	limit.rlim_cur = n_bytes < limit.rlim_max ? n_bytes : limit.rlim_max;
	prlimit(process->pid, RLIMIT_DATA, &limit, NULL);
#endif
}

static void describe(int status, char *text, size_t room)
{
	if (WIFSIGNALED(status))
		snprintf(text, room, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(text, room, "exited with status %d", WEXITSTATUS(status));
}

bool et_plugin_process_end(struct et_plugin_process *process, bool is_stuck, char *text, size_t room)
{
	bool has_ended = true;
	snprintf(text, room, "was not running");
	if (process->calls >= 0)
		shutdown(process->calls, SHUT_RDWR);
	close_fd(&process->calls);
	close_fd(&process->asks);
	if (process->is_running && process->pid > 0) {
		int status;
		if (et_spawner_end(process->pid, process->pidfd, &status))
			describe(status, text, room);
		else
			snprintf(text, room, "has ended");
		close_fd(&process->pidfd);
	} else if (process->is_running && !is_stuck) {
		pthread_join(process->thread, NULL);
		snprintf(text, room, "ended its thread");
	} else if (process->is_running) {
		pthread_detach(process->thread);
		snprintf(text, room, "does not leave its thread");
		has_ended = false;
	}
	close_fd(&process->output);
	process->is_running = false;
	process->pid = 0;
	return has_ended;
}
