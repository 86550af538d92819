/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources that run out and file systems that do not answer: the client concerned gets an error, and no other
 * client is affected.
 *
 * A file system that does not answer is a process of the test that speaks FUSE to the kernel. It has one file;
 * reading, closing and stat of it wait until the test continues them. When the process ends, the kernel answers all
 * waiting calls; so no other process may hold the FUSE descriptor. */
#include "tests/e2e/harness.h"
#include "runtime/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- descriptors ---------------------------------------------------------------------------------- */

static void set_descriptors(struct e2e *e, rlim_t n)
{
	struct rlimit limit;
	assert_int_equal(prlimit(e->pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = n;
	assert_int_equal(prlimit(e->pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* Without a single descriptor left everything that needs one is answered so, and the connection holds; with one it all
 * goes. */
static void test_descriptors(void **state)
{
	static const struct inf_request requests[] = {
		{ .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "triple", "", "", "", false } },
		{ .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "triple", "1", "", "", false } },
		{ .kind = INF_REQUEST_MODEL_METADATA, .model_metadata = { "folder", "", "" } },
		{ .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } },
		{ .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } },
	};
	uint64_t method, binding, region;
	struct rlimit before;
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "triple.pte", e2e_program_triple);
	e2e_put_program(&e, "folder/3/a.pte", e2e_program_triple);
	e2e_start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "double", &method, &binding, &region, NULL);
	assert_int_equal(prlimit(e.pid, RLIMIT_NOFILE, NULL, &before), 0);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	set_descriptors(&e, 3);
	for (size_t i = 0; i < ET_ARRAY_LEN(requests); i++) {
		assert_int_equal(e2e_raw_ask(raw, requests[i]), INF_RESOURCE_EXHAUSTED);
		assert_int_equal(e2e_raw_ask(raw, infer), INF_OK);
	}
	set_descriptors(&e, before.rlim_cur);
	for (size_t i = 0; i < ET_ARRAY_LEN(requests); i++)
		assert_int_equal(e2e_raw_ask(raw, requests[i]), INF_OK);
	e2e_raw_free(raw);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A small service limit: clients are told before descriptors run out, and who is there goes on. */
static void test_all_together(void **state)
{
	enum { MAX = 200 };
	static struct inferd *d[MAX];
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	struct rlimit before, few;
	struct e2e e;
	int rc = 0, n = 0, status;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = few.rlim_max = 64;
	/* the daemon raises its own limit to the hard one, so that one is lowered, for it alone */
	e2e_start_limited(&e, "[limits]\nconnections = 64\nfds = 64\n", &few);
	while (n < MAX && (rc = inferd_open(&d[n], e.socket)) == 0)
		n++;
	assert_int_equal(rc, -INFERD_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(inferd_error(d[n]), "descriptors"));
	inferd_close(d[n]);
	assert_true(n > 4);
	inferd_close(d[--n]); /* a region needs one too */
	inferd_close(d[--n]);
	e2e_until_clients(&e, (size_t)n);
	/* sockets are closed beside the loop, and count until they are */
	while ((rc = inferd_method_open(d[0], &m, "double", NULL)) == -INFERD_RESOURCE_EXHAUSTED)
		;
	while (rc == 0 && (rc = inferd_bind(m, &b)) == -INFERD_RESOURCE_EXHAUSTED)
		rc = 0;
	assert_int_equal(rc, 0);
	assert_true(e2e_infer(b, 3, &status) == 6 && status == 0);
	while (n)
		inferd_close(d[--n]);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* --- a file system that does not answer ------------------------------------------------------------- */

struct slow { /* in memory shared by both processes */
	char path[128];
	int fd; /* the server's */
	uint8_t *bytes;
	size_t n_bytes;
	pid_t server;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_slow; /* nothing is answered */
	unsigned n_held;
};

static void reply_to(struct slow *s, const struct fuse_in_header *in, int error, const void *body, size_t n)
{
	static uint8_t packet[1 << 18];
	struct fuse_out_header out = { (uint32_t)(sizeof out + n), -error, in->unique };
	memcpy(packet, &out, sizeof out);
	if (n)
		memcpy(packet + sizeof out, body, n);
	ssize_t rc = write(s->fd, packet, sizeof out + n);
	(void)rc; /* ENOENT: whoever asked was interrupted */
}

static void fill_attr(const struct slow *s, struct fuse_attr *attr)
{
	*attr = (struct fuse_attr){ .ino = 1, .size = s->n_bytes, .mode = S_IFREG | 0644, .nlink = 1, .blksize = 4096 };
}

static void hold(struct slow *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->is_slow) {
		s->n_held++;
		pthread_cond_broadcast(&s->changed);
		pthread_cond_wait(&s->changed, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
}

static void serve(struct slow *s)
{
	static uint8_t buffer[FUSE_MIN_READ_BUFFER + (1 << 17)];
	for (;;) {
		ssize_t n = read(s->fd, buffer, sizeof buffer);
		if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			return; /* unmounted */
		const struct fuse_in_header *in = (const void *)buffer;
		const void *body = buffer + sizeof *in;
		if (in->opcode != FUSE_INIT && in->opcode != FUSE_OPEN)
			hold(s);
		switch (in->opcode) {
		case FUSE_INIT: {
			struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
				.minor = 31,
				.max_write = 4096,
				.max_background = 8,
				.congestion_threshold = 8 };
			reply_to(s, in, 0, &out, sizeof out);
			break;
		}
		case FUSE_GETATTR: {
			struct fuse_attr_out out = { .attr_valid = 0 };
			fill_attr(s, &out.attr);
			reply_to(s, in, 0, &out, sizeof out);
			break;
		}
		case FUSE_OPEN: {
			struct fuse_open_out out = { .fh = 1 };
			reply_to(s, in, 0, &out, sizeof out);
			break;
		}
		case FUSE_READ: {
			const struct fuse_read_in *read_in = body;
			uint64_t at = read_in->offset < s->n_bytes ? read_in->offset : s->n_bytes;
			size_t rest = s->n_bytes - at;
			reply_to(s, in, 0, s->bytes + at, rest < read_in->size ? rest : read_in->size);
			break;
		}
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			reply_to(s, in, 0, NULL, 0);
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			reply_to(s, in, ENOSYS, NULL, 0);
			break;
		}
	}
}

/* NULL: this machine lets nobody mount. */
static struct slow *mount_slow(struct e2e *e)
{
	char options[128];
	pthread_mutexattr_t lock;
	pthread_condattr_t changed;
	struct slow *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s, MAP_FAILED);
	snprintf(s->path, sizeof s->path, "%s/slow.pte", e->dir);
	int file = open(s->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(file >= 0);
	close(file);
	s->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof options, "fd=%d,rootmode=100644,user_id=%u,group_id=%u,allow_other", s->fd,
		(unsigned)getuid(), (unsigned)getgid());
	if (s->fd < 0 || mount("slow", s->path, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		print_message("SKIPPED: no FUSE here: %s\n", strerror(errno));
		if (s->fd >= 0)
			close(s->fd);
		munmap(s, sizeof *s);
		return NULL;
	}
	s->bytes = e2e_program_double(&s->n_bytes);
	pthread_mutexattr_init(&lock);
	pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->lock, &lock);
	pthread_condattr_init(&changed);
	pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&s->changed, &changed);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(s);
		_exit(0);
	}
	s->server = pid;
	close(s->fd);
	return s;
}

static void set_slow(struct slow *s, bool is_slow)
{
	pthread_mutex_lock(&s->lock);
	s->is_slow = is_slow;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void wait_held(struct slow *s)
{
	pthread_mutex_lock(&s->lock);
	while (!s->n_held)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static void unmount_slow(struct slow *s)
{
	int status;
	assert_int_equal(umount2(s->path, MNT_DETACH), 0);
	assert_int_equal(waitpid(s->server, &status, 0), s->server);
	assert_int_equal(unlink(s->path), 0);
	free(s->bytes);
	munmap(s, sizeof *s);
}

/* Another user, who when told brings a program of his own and has it run. */
struct user {
	pid_t pid;
	int tell;
};

static struct user make_user(struct e2e *e)
{
	int told[2];
	assert_int_equal(pipe(told), 0);
	struct user user = { fork(), told[1] };
	assert_true(user.pid >= 0);
	if (user.pid == 0) {
		size_t n;
		char byte;
		uint8_t *bytes = e2e_program_triple(&n);
		struct inferd *d = NULL;
		struct inferd_method *m;
		struct inferd_binding *b;
		int rc, fd = memfd_create("own", MFD_CLOEXEC);
		close(told[1]);
		if (read(told[0], &byte, 1) != 1)
			_exit(1);
		if (write(fd, bytes, n) != (ssize_t)n || setgid(65534) || setuid(65534))
			_exit(2);
		if (inferd_open(&d, e->socket) || inferd_method_open_fd(d, &m, fd, "own", NULL) || inferd_bind(m, &b))
			_exit(3);
		_exit(e2e_infer(b, 2, &rc) == 6 && rc == 0 ? 0 : 4);
	}
	close(told[0]);
	return user;
}

static int tell_user(struct user user)
{
	int status;
	assert_int_equal(write(user.tell, "x", 1), 1);
	assert_int_equal(waitpid(user.pid, &status, 0), user.pid);
	close(user.tell);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool has_program(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs >= *(const size_t *)arg;
}

static void test_slow_files(void **state)
{
	uint64_t method, binding, region;
	struct inf_request open_own = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "own", "", "", "", true } };
	struct inf_reply reply;
	struct slow *slow;
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "triple.pte", e2e_program_triple);
	assert_int_equal(chmod(e.dir, 0755), 0);
	struct user user = make_user(&e); /* before there is a descriptor of that file, which he would share */
	if (!(slow = mount_slow(&e))) {
		tell_user(user);
		e2e_deinit(&e);
		skip();
	}
	e2e_start(&e, "[limits]\nmethods = 2\n");
	struct e2e_raw *raw = e2e_raw_new(e.socket, false), *other = e2e_raw_new(e.socket, false);
	int fd = open(slow->path, O_RDONLY | O_CLOEXEC);
	struct stat st; /* as every client's library asks for; the kernel remembers it */
	assert_true(fd >= 0 && fstat(fd, &st) == 0 && (size_t)st.st_size == slow->n_bytes);
	set_slow(slow, true);

	/* It is being read and does not come: others load models and run them, from files of the daemon and of their
	 * own. */
	e2e_raw_send(raw, &open_own, fd);
	wait_held(slow);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
	assert_int_equal(tell_user(user), 0);

	/* Cancelled, it is answered at once; what it was charged stays until it really is gone. */
	struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { raw->last_id } };
	e2e_raw_send(raw, &cancel, -1);
	for (int i = 0; i < 2; i++) {
		assert_true(e2e_raw_receive(raw, &reply));
		assert_int_equal(reply.status, reply.id == cancel.id ? INF_OK : INF_CANCELLED);
	}
	struct inf_request open_other = { .kind = INF_REQUEST_METHOD_OPEN,
		.method_open = { "triple", "", "", "", false } };
	assert_int_equal(e2e_raw_ask(raw, open_other), INF_RESOURCE_EXHAUSTED);
	/* A descriptor that is refused is closed beside the loop: closing asks the file system too. */
	struct inf_request import = { .kind = INF_REQUEST_REGION_REGISTER,
		.region_register = { .name = "r", .byte_size = 64 } };
	for (int i = 0; i < 3; i++)
		assert_int_equal(e2e_raw_call_fd(raw, import, fd).status, INF_INVALID_ARGUMENT);
	assert_int_equal(e2e_raw_ask(other, infer), INF_OK);

	/* It answers: what was held is given back. */
	set_slow(slow, false);
	while (e2e_raw_ask(raw, open_other) == INF_RESOURCE_EXHAUSTED)
		;
	e2e_until(&e, has_program, &(size_t){ 2 });
	e2e_raw_free(other);
	e2e_until_clients(&e, 1);
	/* The worker that has answered `other` lets go of its Method some time after that. */
	do
		reply = e2e_raw_call_fd(raw, open_own, fd);
	while (reply.status == INF_RESOURCE_EXHAUSTED);
	if (reply.status != INF_OK)
		fail_msg("%s", reply.error);
	e2e_raw_free(raw);
	close(fd);
	e2e_check_clean(&e);
	unmount_slow(slow);
	e2e_deinit(&e);
}

/* Nor do packets hold anybody up that are none: what came beside them is closed beside the loop, too, and so is what
 * lies unread in a socket that is closed. */
static void test_slow_packets(void **state)
{
	static uint8_t large[INF_MAX_PACKET + 1000];
	static const struct {
		size_t n_bytes, n_fds;
	} cases[] = {
		{ 0, 1 },            /* empty: reads like the end */
		{ 4, 1 },            /* no message */
		{ 4, 17 },           /* too many */
		{ sizeof large, 2 }, /* too long */
	};
	uint64_t method, binding, region;
	struct slow *slow;
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	if (!(slow = mount_slow(&e))) {
		e2e_deinit(&e);
		skip();
	}
	e2e_start(&e, NULL);
	struct e2e_raw *other = e2e_raw_new(e.socket, false);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	memset(large, 0xff, sizeof large);
	int fd = open(slow->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	set_slow(slow, true);
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct e2e_raw *raw = e2e_raw_new(e.socket, false);
		assert_true(e2e_raw_send_copies(raw, large, cases[i].n_bytes, fd, cases[i].n_fds));
		for (int k = 0; k < 3; k++) /* and more, which perhaps nobody reads any more */
			e2e_raw_send_copies(raw, large, 4, fd, 1);
		e2e_raw_expect_end(raw);
		assert_int_equal(e2e_raw_ask(other, infer), INF_OK);
		e2e_raw_free(raw);
	}
	set_slow(slow, false);
	close(fd);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	unmount_slow(slow);
	e2e_deinit(&e);
}

/* A descriptor that does not close holds up nobody who stops the daemon, and the exit status says that it was left. */
static void test_slow_close(void **state)
{
	struct slow *slow;
	struct e2e e;
	e2e_init(&e);
	if (!(slow = mount_slow(&e))) {
		e2e_deinit(&e);
		skip();
	}
	e2e_start(&e, "drain = 100ms\n");
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	int fd = open(slow->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	set_slow(slow, true);
	struct inf_request import = { .kind = INF_REQUEST_REGION_REGISTER,
		.region_register = { .name = "r", .byte_size = 64 } };
	assert_int_equal(e2e_raw_call_fd(raw, import, fd).status, INF_INVALID_ARGUMENT);
	wait_held(slow);
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	while (e2e_state_of(e.pid) != 'Z')
		sched_yield();
	set_slow(slow, false);
	assert_int_equal(e2e_wait(&e), 1);
	e2e_raw_free(raw);
	close(fd);
	unmount_slow(slow);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_all_together),
		cmocka_unit_test(test_slow_files),
		cmocka_unit_test(test_slow_packets),
		cmocka_unit_test(test_slow_close),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
