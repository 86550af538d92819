/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end a host: a process with two sockets, and a pipe for what its library prints; or a thread.
 *
 * The process inherits nothing else from inferd: no other descriptor, no signal mask, and of the environment only
 * the variables that decide where libraries are found, and those that sanitizers read. It leads a process group of
 * its own, so that a signal to inferd's group does not reach it. */
#include "delegates/plugin/proxy/proxy_internal.h"
#include "delegates/plugin/host/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void make_environment(char **ret_entries, size_t max)
{
	static const char *const names[] = { "PATH", "LD_LIBRARY_PATH", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LANG",
		"VK_ICD_FILENAMES", "VK_DRIVER_FILES", "VK_LAYER_PATH", "VK_INSTANCE_LAYERS", "ADSP_LIBRARY_PATH",
		"TZ" };
	size_t n = 0;
#ifdef INF_SANITIZED
	/* the leak check at the end needs calls that the sandbox forbids */
	ret_entries[n++] = "ASAN_OPTIONS=detect_leaks=0";
#endif
	for (char **entry = environ; *entry && n + 1 < max; entry++)
		for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
			size_t length = strlen(names[i]);
			if (strncmp(*entry, names[i], length) == 0 && (*entry)[length] == '=') {
				ret_entries[n++] = *entry;
				break;
			}
		}
	ret_entries[n] = NULL;
}

static int spawn(pid_t *ret_pid, const char *path, int calls, int asks, int output)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	char *argv[] = { "inferd-delegate-host", NULL }, *environment[24];
	make_environment(environment, sizeof environment / sizeof environment[0]);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, 1);
	posix_spawn_file_actions_adddup2(&actions, output, 2);
	posix_spawn_file_actions_adddup2(&actions, calls, ET_PLUGIN_CALLS_FD);
	posix_spawn_file_actions_adddup2(&actions, asks, ET_PLUGIN_ASKS_FD);
	posix_spawn_file_actions_addclosefrom_np(&actions, ET_PLUGIN_ASKS_FD + 1);
	int rc = posix_spawn(ret_pid, path, &actions, &attr, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -rc;
}

/* Copy @fd to a number above those that the child uses, so that no descriptor is overwritten before it is moved. */
static int moved_up(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 16);
	return high < 0 ? -errno : high;
}

static int start_process(struct et_plugin_process *process, const char *path, int calls, int asks)
{
	int pipe[2];
	if (pipe2(pipe, O_CLOEXEC) < 0)
		return -errno;
	fcntl(pipe[0], F_SETFL, O_NONBLOCK);
	int high[3] = { moved_up(calls), moved_up(asks), moved_up(pipe[1]) };
	int rc = high[0] < 0 || high[1] < 0 || high[2] < 0 ? -EMFILE
							   : spawn(&process->pid, path, high[0], high[1], high[2]);
	for (size_t i = 0; i < 3; i++)
		if (high[i] >= 0)
			close(high[i]);
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
	*process = (struct et_plugin_process){ .calls = -1, .asks = -1, .output = -1 };
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
		rc = start_process(process, config->host_path, calls[1], asks[1]);
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
		int status = 0;
		kill(process->pid, SIGKILL);
		while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
			;
		describe(status, text, room);
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
