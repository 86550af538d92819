/* SPDX-License-Identifier: BSD-3-Clause */
/* The spawner's two ends.
 *
 * Each request is one packet on a SOCK_SEQPACKET socket, and so is its answer, which comes at once: inferd asks WAIT
 * for a process that has ended. A process is reaped only then, so its number is not given to another process before.
 *
 * The spawner is inferd's own program, executed anew. Its process begins with inferd's table of descriptors, not with a
 * copy, and leaves it with CLOSE_RANGE_UNSHARE: the kernel copies only the descriptors below the range. So the spawner
 * can be started at any time, also beside clients' files, and takes none of inferd's memory along. If it is killed,
 * the next request for a process starts another one. Processes that the first one started go on. */
#include "delegates/plugin/proxy/spawner.h"

#include "delegates/plugin/proxy/restart.h"
#include "delegates/plugin/wire.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_FDS = 3, PATH_ROOM = 4096, MY_FD = 3, MAX_START_MS = 10000 };

static const char my_name[] = "inferd-spawner";

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

/* inferd's end. @lock guards all and is held from a request to its answer. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int spawner = -1; /* the socket; -1: none runs */
static pid_t spawner_pid;
static bool has_begun; /* the spawner has said that it runs */
static bool is_wanted; /* et_spawner_start was called */
/* Low numbers, so that few descriptors lie below them: @place is the spawner's end of the socket while one starts,
 * else @nothing, which is /dev/null. */
static int nothing = -1, place = -1;
static struct et_plugin_restart restart;

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

bool et_spawner_is_called(const char *name)
{
	return strcmp(name, my_name) == 0;
}

void et_spawner_run(void)
{
	static struct request request;
	struct answer answer = { .rc = 0 };
	int fds[N_FDS];
	size_t n_fds = 0;
	sigset_t none;
	/* the service manager signals all processes of a service; this one ends after inferd */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, my_name);
	fcntl(MY_FD, F_SETFD, FD_CLOEXEC);
	/* the first answer says that the spawner has started */
	while (send(MY_FD, &answer, sizeof answer, MSG_NOSIGNAL) >= 0 && receive(&request, fds, &n_fds) > 0) {
		answer = handle(&request, fds, n_fds);
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
	}
	_exit(0);
}

/* --- starting the spawner ------------------------------------------------------------------------- */

/* In the new process, which shares inferd's descriptors at first. Only calls that are safe in a copy of one thread. */
_Noreturn static void become_spawner(void)
{
	char *argv[] = { (char *)(uintptr_t)my_name, NULL };
	/* no socket of the service manager's, and nothing else that inferd was given */
	if (syscall(SYS_close_range, (unsigned)place + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0 &&
		dup2(place, MY_FD) == MY_FD && fcntl(MY_FD, F_SETFD, 0) == 0) {
		closefrom(MY_FD + 1);
		execv("/proc/self/exe", argv);
	}
	_exit(1);
}

/* Wait until the spawner says that it runs. */
static bool wait_for_beginning(int fd)
{
	struct pollfd first = { .fd = fd, .events = POLLIN };
	struct answer answer;
	int n;
	do
		n = poll(&first, 1, MAX_START_MS);
	while (n < 0 && errno == EINTR);
	return n > 0 && recv(fd, &answer, sizeof answer, MSG_DONTWAIT) == (ssize_t)sizeof answer;
}

static pid_t clone_spawner(void)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* CLONE_VFORK: this returns when the process has its own descriptors and its own program */
	long pid = syscall(SYS_clone, CLONE_FILES | CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid < 0 && errno == EINVAL) /* qemu-user does not know CLONE_FILES */
		pid = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		become_spawner();
	int rc = pid < 0 ? -errno : 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? rc : (pid_t)pid;
}

/* Called under the lock; there is no spawner. Its program is loaded meanwhile: inferd has other things to do until the
 * first request. 0 or negative errno. */
static int start(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid_t pid = dup3(pair[1], place, O_CLOEXEC) < 0 ? -errno : clone_spawner();
	close(pair[1]);
	dup3(nothing, place, O_CLOEXEC);
	if (pid < 0) {
		close(pair[0]);
		return pid;
	}
	spawner = pair[0];
	spawner_pid = pid;
	has_begun = false;
	return 0;
}

int et_spawner_start(void)
{
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	place = nothing < 0 ? -1 : fcntl(nothing, F_DUPFD_CLOEXEC, MY_FD);
	if (place < 0)
		return -errno;
	is_wanted = true;
	et_plugin_restart_init(&restart, UINT32_MAX, 0, false);
	return start();
}

/* Called under the lock: the spawner does not answer. */
static void drop_ended(void)
{
	const struct et_log log = et_platform_log(ET_LOG_WARNING);
	int status = 0;
	kill(spawner_pid, SIGKILL);
	while (waitpid(spawner_pid, &status, 0) < 0 && errno == EINTR)
		;
	close(spawner);
	spawner = -1;
	et_plugin_restart_crashed(&restart, true, et_platform_now_ns(NULL));
	et_logf(&log, ET_LOG_WARNING,
		"%s, which starts the processes of plug-ins and of clients' programs, has ended (signal %d); it is "
		"started again when it is needed",
		my_name, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* --- inferd's end --------------------------------------------------------------------------------- */

/* The spawner ended before it received the request. */
enum { ASK_E_GONE = 1 };

/* Called under the lock. 0, ASK_E_GONE or negative errno. */
static int ask(const struct request *request, size_t n_bytes, const int *fds, struct answer *ret_answer)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(N_FDS * sizeof(int))];
	} control;
	struct iovec part = { (void *)(uintptr_t)request, n_bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	if (fds) {
		memset(&control, 0, sizeof control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(N_FDS * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, N_FDS * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
	}
	ssize_t n;
	has_begun = has_begun || wait_for_beginning(spawner);
	if (!has_begun)
		return ASK_E_GONE;
	do
		n = sendmsg(spawner, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		return ASK_E_GONE;
	if (n < 0)
		return -errno;
	do
		n = recv(spawner, ret_answer, sizeof *ret_answer, 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof *ret_answer ? 0 : -ECHILD;
}

/* Ask the spawner for a process; start a spawner first if there is none. */
static int ask_spawn(const struct request *request, const int *fds, struct answer *ret_answer)
{
	int rc = spawner < 0 ? ASK_E_GONE : ask(request, sizeof *request, fds, ret_answer);
	if (rc == 0)
		return ret_answer->rc;
	if (spawner >= 0 && (rc == ASK_E_GONE || rc == -ECHILD))
		drop_ended();
	if (rc != ASK_E_GONE) /* the spawner may have started the process, so these descriptors are not sent again */
		return rc;
	if (et_plugin_restart_wait_ns(&restart, et_platform_now_ns(NULL)))
		return -EAGAIN;
	rc = start();
	if (rc < 0) {
		et_plugin_restart_crashed(&restart, true, et_platform_now_ns(NULL));
		return rc;
	}
	rc = ask(request, sizeof *request, fds, ret_answer);
	return rc ? -ECHILD : ret_answer->rc;
}

int et_spawner_spawn(pid_t *ret_pid, int *ret_pidfd, const char *name, const char *path, int calls, int asks,
	int output)
{
	const int fds[N_FDS] = { calls, asks, output };
	struct request request = { .kind = SPAWN };
	struct answer answer = { .pid = 0 };
	if (strlen(path) >= PATH_ROOM || strlen(name) >= sizeof request.name)
		return -ENAMETOOLONG;
	memcpy(request.path, path, strlen(path));
	memcpy(request.name, name, strlen(name));
	pthread_mutex_lock(&lock);
	int rc = is_wanted ? ask_spawn(&request, fds, &answer) : spawn_here(&answer.pid, name, path, fds);
	/* the number is still the process's: only the spawner reaps it, unless it has just ended itself */
	if (rc == 0)
		*ret_pidfd = (int)syscall(SYS_pidfd_open, answer.pid, 0);
	pthread_mutex_unlock(&lock);
	if (rc == 0)
		*ret_pid = answer.pid;
	return rc;
}

/* Kill the process group that the process leads: what a library has started ends with it. The group has this number as
 * long as the process was not reaped, which a signal 0 finds out. */
static void kill_group(pid_t pid, int pidfd)
{
	if (pidfd < 0 || syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0)
		kill(-pid, SIGKILL);
}

bool et_spawner_end(pid_t pid, int pidfd, int *ret_status)
{
	const struct request request = { .kind = WAIT, .pid = pid };
	struct pollfd end = { .fd = pidfd, .events = POLLIN };
	struct answer answer = { .rc = -ECHILD };
	kill_group(pid, pidfd);
	if (pidfd >= 0)
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	else
		kill(pid, SIGKILL);
	/* the spawner never waits for a process that can't end yet */
	while (pidfd >= 0 && poll(&end, 1, -1) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&lock);
	if (is_wanted && (spawner < 0 || ask(&request, sizeof request, NULL, &answer)))
		answer.rc = -ECHILD;
	pthread_mutex_unlock(&lock);
	while (!is_wanted && (answer.rc = waitpid(pid, &answer.status, 0) < 0 ? -errno : 0) == -EINTR)
		;
	*ret_status = answer.status;
	return answer.rc == 0;
}
