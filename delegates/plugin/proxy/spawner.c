/* SPDX-License-Identifier: BSD-3-Clause */
/* The spawner's two ends.
 *
 * Each request is one packet on a SOCK_SEQPACKET socket, and so is its answer, which comes at once: inferd asks WAIT
 * for a process that has ended. A process is reaped only then, so its number is not given to another process before. */
#include "delegates/plugin/proxy/spawner.h"

#include "delegates/plugin/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_FDS = 3, PATH_ROOM = 4096, MY_FD = 3 };

enum request_kind { SPAWN, WAIT };

struct request {
	enum request_kind kind;
	pid_t pid; /* WAIT */
	char name[32], path[PATH_ROOM];
};

struct answer {
	int rc; /* 0 or negative errno */
	pid_t pid;
	int status;
};

/* inferd's end; -1: there is no spawner. Set before there are threads. */
static int spawner = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* from a request to its answer */

/* --- starting a process --------------------------------------------------------------------------- */

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

static int spawn_moved(pid_t *ret_pid, const char *name, const char *path, const int *fds)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	char *argv[] = { (char *)(uintptr_t)name, NULL }, *environment[24];
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
	posix_spawn_file_actions_adddup2(&actions, fds[2], 1);
	posix_spawn_file_actions_adddup2(&actions, fds[2], 2);
	posix_spawn_file_actions_adddup2(&actions, fds[0], ET_PLUGIN_CALLS_FD);
	posix_spawn_file_actions_adddup2(&actions, fds[1], ET_PLUGIN_ASKS_FD);
	posix_spawn_file_actions_addclosefrom_np(&actions, ET_PLUGIN_ASKS_FD + 1);
	int rc = posix_spawn(ret_pid, path, &actions, &attr, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -rc;
}

/* Runs in this process. The descriptors are copied to numbers above those that the child uses, so that none is
 * overwritten before it is moved. */
static int spawn_here(pid_t *ret_pid, const char *name, const char *path, const int *fds)
{
	int high[N_FDS], rc = 0;
	for (size_t i = 0; i < N_FDS; i++) {
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 16);
		rc = high[i] < 0 && !rc ? -errno : rc;
	}
	if (!rc)
		rc = spawn_moved(ret_pid, name, path, high);
	for (size_t i = 0; i < N_FDS; i++)
		if (high[i] >= 0)
			close(high[i]);
	return rc;
}

/* --- the spawner's end ---------------------------------------------------------------------------- */

/* Returns the number of bytes, 0 when inferd is gone. */
static ssize_t receive(struct request *request, int *fds, size_t *ret_n_fds)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(N_FDS * sizeof(int))];
	} control;
	struct iovec part = { request, sizeof *request };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	ssize_t n;
	do
		n = recvmsg(MY_FD, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*ret_n_fds = 0;
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS) {
		*ret_n_fds = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(header), *ret_n_fds * sizeof(int));
	}
	return n;
}

static struct answer handle(struct request *request, const int *fds, size_t n_fds)
{
	struct answer answer = { .rc = -EMFILE };
	if (request->kind == SPAWN && n_fds == N_FDS) {
		request->path[PATH_ROOM - 1] = '\0';
		request->name[sizeof request->name - 1] = '\0';
		answer.rc = spawn_here(&answer.pid, request->name, request->path, fds);
	} else if (request->kind == WAIT) {
		answer.rc = waitpid(request->pid, &answer.status, 0) < 0 ? -errno : 0;
	}
	return answer;
}

_Noreturn static void run(void)
{
	static struct request request;
	int fds[N_FDS];
	size_t n_fds;
	/* the service manager signals all processes of a service; this one ends after inferd */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_NAME, "inferd-spawner");
	while (receive(&request, fds, &n_fds) > 0) {
		struct answer answer = handle(&request, fds, n_fds);
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
		if (send(MY_FD, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

int et_spawner_start(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid < 0) {
		int rc = -errno;
		close(pair[0]);
		close(pair[1]);
		return rc;
	}
	if (pid == 0) {
		/* no socket of the service manager's, and nothing else that inferd was given */
		int high = fcntl(pair[1], F_DUPFD_CLOEXEC, MY_FD + 1);
		if (high < 0 || dup3(high, MY_FD, O_CLOEXEC) < 0)
			_exit(1);
		closefrom(MY_FD + 1);
		run();
	}
	close(pair[1]);
	spawner = pair[0];
	return 0;
}

/* --- inferd's end --------------------------------------------------------------------------------- */

static struct answer ask(const struct request *request, size_t n_bytes, const int *fds)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(N_FDS * sizeof(int))];
	} control;
	struct iovec part = { (void *)(uintptr_t)request, n_bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct answer answer = { .rc = -ESRCH };
	if (fds) {
		memset(&control, 0, sizeof control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(N_FDS * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, N_FDS * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
	}
	pthread_mutex_lock(&lock);
	ssize_t n;
	do
		n = sendmsg(spawner, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		do
			n = recv(spawner, &answer, sizeof answer, 0);
		while (n < 0 && errno == EINTR);
	pthread_mutex_unlock(&lock);
	if (n != (ssize_t)sizeof answer)
		answer = (struct answer){ .rc = n < 0 ? -errno : -ESRCH };
	return answer;
}

int et_spawner_spawn(pid_t *ret_pid, const char *name, const char *path, int calls, int asks, int output)
{
	const int fds[N_FDS] = { calls, asks, output };
	struct request request = { .kind = SPAWN };
	if (spawner < 0)
		return spawn_here(ret_pid, name, path, fds);
	if (strlen(path) >= PATH_ROOM || strlen(name) >= sizeof request.name)
		return -ENAMETOOLONG;
	memcpy(request.path, path, strlen(path));
	memcpy(request.name, name, strlen(name));
	struct answer answer = ask(&request, sizeof request, fds);
	*ret_pid = answer.pid;
	return answer.rc;
}

int et_spawner_wait(pid_t pid)
{
	const struct request request = { .kind = WAIT, .pid = pid };
	struct pollfd end = { .fd = spawner < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int status = 0;
	if (end.fd >=
		0) { /* it is not reaped before WAIT; so the spawner never waits for a process that can't end yet */
		while (poll(&end, 1, -1) < 0 && errno == EINTR)
			;
		close(end.fd);
	}
	if (spawner >= 0)
		return ask(&request, sizeof request, NULL).status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}
