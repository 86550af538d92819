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
#include <netinet/in.h>
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
#include <sys/socket.h>
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

static enum inf_status ask(struct e2e_raw *raw, struct inf_request request)
{
	struct inf_reply reply = e2e_raw_call(raw, request);
	if (reply.status == INF_RESOURCE_EXHAUSTED)
		assert_true(strlen(reply.error) > 10);
	return reply.status;
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
		assert_int_equal(ask(raw, requests[i]), INF_RESOURCE_EXHAUSTED);
		assert_int_equal(ask(raw, infer), INF_OK);
	}
	set_descriptors(&e, before.rlim_cur);
	for (size_t i = 0; i < ET_ARRAY_LEN(requests); i++)
		assert_int_equal(ask(raw, requests[i]), INF_OK);
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
	assert_int_equal(ask(other, infer), INF_OK);
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
	assert_int_equal(ask(raw, open_other), INF_RESOURCE_EXHAUSTED);
	/* A descriptor that is refused is closed beside the loop: closing asks the file system too. */
	struct inf_request import = { .kind = INF_REQUEST_REGION_REGISTER,
		.region_register = { .name = "r", .byte_size = 64 } };
	for (int i = 0; i < 3; i++)
		assert_int_equal(e2e_raw_call_fd(raw, import, fd).status, INF_INVALID_ARGUMENT);
	assert_int_equal(ask(other, infer), INF_OK);

	/* It answers: what was held is given back. */
	set_slow(slow, false);
	while (ask(raw, open_other) == INF_RESOURCE_EXHAUSTED)
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

/* One packet of these bytes with @n copies of @fd beside it. False: the daemon has hung up. */
static bool send_fds(struct e2e_raw *raw, const void *bytes, size_t n_bytes, const int *fds, size_t n)
{
	enum { MOST = INF_CHANNEL_MAX_FDS };
	union {
		struct cmsghdr header;
		uint8_t space[CMSG_SPACE(sizeof(int) * MOST)];
	} control = { .space = { 0 } };
	struct iovec piece = { (void *)bytes, n_bytes };
	struct msghdr message = { .msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(sizeof(int) * n) };
	assert_true(n <= MOST);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int) * n);
	memcpy(CMSG_DATA(&control.header), fds, n * sizeof *fds);
	return sendmsg(inf_channel_fd(&raw->channel), &message, MSG_NOSIGNAL) == (ssize_t)n_bytes;
}

static bool send_odd(struct e2e_raw *raw, const void *bytes, size_t n_bytes, int fd, size_t n)
{
	int fds[INF_CHANNEL_MAX_FDS];
	for (size_t i = 0; i < n; i++)
		fds[i] = fd;
	return send_fds(raw, bytes, n_bytes, fds, n);
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
		assert_true(send_odd(raw, large, cases[i].n_bytes, fd, cases[i].n_fds));
		for (int k = 0; k < 3; k++) /* and more, which perhaps nobody reads any more */
			send_odd(raw, large, 4, fd, 1);
		e2e_raw_expect_end(raw);
		assert_int_equal(ask(other, infer), INF_OK);
		e2e_raw_free(raw);
	}
	set_slow(slow, false);
	close(fd);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	unmount_slow(slow);
	e2e_deinit(&e);
}

/* Who has no descriptor left is turned away as often as he comes, whatever he sent at once, and nothing of it stays. */
static void test_turned_away(void **state)
{
	enum { N = 40 };
	struct e2e_raw *raw[N];
	uint64_t method, binding, region;
	struct e2e e;
	int fd = memfd_create("sent", MFD_CLOEXEC);
	assert_true(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, "[limits]\nfds = 2\n"); /* one connection, and its region */
	struct e2e_raw *other = e2e_raw_new(e.socket, false);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	for (int round = 0; round < 3; round++) {
		int n_fds = e2e_count_fds(e.pid);
		assert_int_equal(kill(e.pid, SIGSTOP), 0); /* so that they come at once, with what they sent */
		for (int i = 0; i < N; i++) {
			raw[i] = e2e_raw_new(e.socket, true);
			assert_true(send_odd(raw[i], "odd", 4, fd, 1));
		}
		assert_int_equal(kill(e.pid, SIGCONT), 0);
		for (int i = 0; i < N; i++) {
			struct inf_reply reply;
			assert_true(e2e_raw_receive(raw[i], &reply));
			assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
			assert_non_null(strstr(reply.error, "the limit 'fds'"));
			e2e_raw_expect_end(raw[i]);
			e2e_raw_free(raw[i]);
		}
		while (e2e_count_fds(e.pid) > n_fds)
			assert_int_equal(ask(other, infer), INF_OK);
		assert_int_equal(ask(other, infer), INF_OK);
	}
	close(fd);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A connection over the loopback interface, *ret_peer being the other end, with more sent than the peer takes:
 * whoever closes it last waits for the peer, for an hour if need be. */
static int make_lingering(int *ret_peer)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
	static const char some[4096];
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof here;
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(listening >= 0 && fd >= 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&here, sizeof here), 0);
	assert_int_equal(listen(listening, 1), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&here, &n), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&here, sizeof here), 0);
	*ret_peer = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*ret_peer >= 0);
	close(listening);
	while (send(fd, some, sizeof some, MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
	return fd;
}

/* Another user, who is turned away @n times and has sent @lingering, which is closed here, the first time; 0
 * when he was told so each time. */
static int be_turned_away(struct e2e *e, int n, int lingering)
{
	int status, told[2];
	char byte = 0;
	assert_int_equal(pipe(told), 0);
	assert_int_equal(kill(e->pid, SIGSTOP), 0); /* so that what was sent is there when it is accepted */
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgid(65534) || setuid(65534))
			_exit(2);
		for (int i = 0; i < n; i++) {
			struct inf_reply reply;
			struct e2e_raw *raw = e2e_raw_new(e->socket, true);
			if (i == 0 && (!send_odd(raw, "odd", 4, lingering, 1) || close(lingering) < 0 ||
					      write(told[1], &byte, 1) != 1))
				_exit(3);
			if (!e2e_raw_receive(raw, &reply) || reply.status != INF_RESOURCE_EXHAUSTED)
				_exit(4);
			e2e_raw_free(raw);
		}
		_exit(0);
	}
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	close(lingering); /* so that the daemon's is the last one */
	assert_int_equal(kill(e->pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Whoever is turned away and has sent what does not close can come as often as he likes: others get in all the
 * while. */
static void test_turned_away_often(void **state)
{
	enum { ROUNDS = 3, N = 400 };
	uint64_t method, binding, region;
	int peers[ROUNDS];
	struct e2e e;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	assert_int_equal(chmod(e.dir, 0755), 0);
	e2e_start(&e, "[user 65534]\nfds = 0\n");
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(be_turned_away(&e, N, make_lingering(&peers[i])), 0);
		struct e2e_raw *other = e2e_raw_new(e.socket, false);
		e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
		struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
		assert_int_equal(ask(other, infer), INF_OK);
		e2e_raw_free(other);
	}
	for (int i = 0; i < ROUNDS; i++)
		close(peers[i]);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Were there so many files in flight to it that a daemon with few descriptors could not hold them all, it accepts
 * nobody for a while: who is connected notices nothing, and when they close everybody who waited is heard. */
static void test_turned_away_lingering(void **state)
{
	enum { MOST = 800, FEW = 60, MANY = 100 };
	const struct rlimit descriptors = { MOST, MOST };
	static struct e2e_raw *raw[FEW + MANY];
	uint64_t method, binding, region;
	struct inf_reply reply;
	struct e2e e;
	int peer, lingering = make_lingering(&peer), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(null >= 0);
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start_limited(&e, "[limits]\nfds = 2\n", &descriptors);
	struct e2e_raw *other = e2e_raw_new(e.socket, false);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	int n_fds = e2e_count_fds(e.pid), bound = (MOST - n_fds) / 2 / 4;
	assert_true(bound > FEW + 10 && bound < FEW + MANY - 10);
	/* So that what they sent is there when they are accepted. Once: whoever is stopped while he lingers does so
	 * no more. */
	assert_int_equal(kill(e.pid, SIGSTOP), 0);
	for (int i = 0; i < FEW + MANY; i++) {
		raw[i] = e2e_raw_new(e.socket, true);
		assert_true(send_odd(raw[i], "odd", 4, i ? null : lingering, 1));
	}
	close(lingering);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	for (int i = 0; i < FEW; i++) { /* each is told; they are not closed */
		assert_true(e2e_raw_receive(raw[i], &reply));
		assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
		assert_int_equal(ask(other, infer), INF_OK);
	}
	while (e2e_count_fds(e.pid) < n_fds + bound - 8)
		assert_int_equal(ask(other, infer), INF_OK);
	for (int i = 0; i < 300; i++) { /* and there it stops */
		assert_int_equal(ask(other, infer), INF_OK);
		assert_true(e2e_count_fds(e.pid) <= n_fds + bound + 8);
	}
	close(peer);
	for (int i = FEW; i < FEW + MANY; i++) {
		assert_true(e2e_raw_receive(raw[i], &reply));
		assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	}
	for (int i = 0; i < FEW + MANY; i++) {
		e2e_raw_expect_end(raw[i]);
		e2e_raw_free(raw[i]);
	}
	close(null);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Who has more sent than can be charged for, and does not let it close, has all of one packet open here and no more,
 * over however many connections; over one that sends no descriptors all goes on. */
static void test_surplus(void **state)
{
	enum { N = 12 };
	struct e2e_raw *raw[N];
	uint64_t method, binding, region;
	struct e2e e;
	int peer, lingering = make_lingering(&peer), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(null >= 0);
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, "[limits]\nfds = 23\n");
	struct e2e_raw *other = e2e_raw_new(e.socket, false);
	e2e_raw_bind(other, "double", &method, &binding, &region, NULL);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	for (int i = 0; i < N; i++)
		raw[i] = e2e_raw_new(e.socket, false);
	int n_fds = e2e_count_fds(e.pid);
	assert_int_equal(kill(e.pid, SIGSTOP), 0); /* so that the daemon's is the last one, and lingers */
	assert_true(send_odd(raw[0], "odd", 4, lingering, 1));
	close(lingering);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	e2e_raw_expect_end(raw[0]);
	for (int i = 1; i < N; i++) {
		assert_true(send_odd(raw[i], "odd", 4, null, INF_CHANNEL_MAX_FDS));
		e2e_raw_expect_end(raw[i]);
		assert_int_equal(ask(other, infer), INF_OK);
	}
	assert_in_range(e2e_count_fds(e.pid), INF_CHANNEL_MAX_FDS, n_fds + INF_CHANNEL_MAX_FDS);
	close(peer);
	for (int i = 0; i < N; i++)
		e2e_raw_free(raw[i]);
	/* and when it has closed, and the loop has been told, all is as before */
	while (e2e_count_fds(e.pid) > n_fds - N)
		assert_int_equal(ask(other, infer), INF_OK);
	struct inf_request import = { .kind = INF_REQUEST_REGION_REGISTER,
		.region_register = { .name = "r", .byte_size = 64 } };
	struct inf_reply reply;
	bool is_heard;
	do {
		struct e2e_raw *again = e2e_raw_new(e.socket, false);
		e2e_raw_send(again, &import, null);
		is_heard = e2e_raw_receive(again, &reply);
		e2e_raw_free(again);
	} while (!is_heard);
	assert_int_equal(reply.status, INF_INVALID_ARGUMENT);
	assert_int_equal(ask(other, infer), INF_OK);
	close(null);
	e2e_raw_free(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* All users together hold all that they may, and each of many sends as many descriptors as a packet takes, which do not
 * close. The reserve bears one such packet, not one of each user, and the manager works. */
static void test_surplus_of_many(void **state)
{
	enum { USERS = 8, FIRST = 60000, FEW = 2600 };
	const struct rlimit descriptors = { FEW, FEW };
	struct e2e_raw *raw[USERS];
	int peers[USERS], lingering[USERS], fds[INF_CHANNEL_MAX_FDS];
	struct inf_reply reply;
	struct e2e e;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	e2e_init(&e);
	assert_int_equal(chmod(e.dir, 0755), 0);
	e2e_start_limited(&e, "[user 0]\nfds = 4096\n", &descriptors);
	for (int i = 0; i < USERS; i++) {
		assert_int_equal(seteuid(FIRST + (uid_t)i), 0);
		raw[i] = e2e_raw_new(e.socket, false);
		assert_int_equal(seteuid(0), 0);
	}
	struct e2e_raw *large = e2e_raw_new(e.socket, false);
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
	while ((reply = e2e_raw_call(large, create)).status == INF_OK)
		;
	assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(reply.error, "all users together hold "));
	int n_fds = e2e_count_fds(e.pid);
	assert_int_equal(kill(e.pid, SIGSTOP), 0); /* so that the daemon's descriptor is the last one, and lingers */
	for (int i = 0; i < USERS; i++) {
		lingering[i] = make_lingering(&peers[i]);
		fds[0] = lingering[i];
		for (int k = 1; k < INF_CHANNEL_MAX_FDS; k++)
			fds[k] = STDIN_FILENO;
		assert_true(send_fds(raw[i], "odd", 4, fds, INF_CHANNEL_MAX_FDS));
		close(lingering[i]);
	}
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	for (int i = 0; i < USERS; i++)
		e2e_raw_expect_end(raw[i]);
	assert_in_range(e2e_count_fds(e.pid), n_fds + INF_CHANNEL_MAX_FDS / 2, n_fds + INF_CHANNEL_MAX_FDS + 8);
	struct e2e_raw *manager = e2e_raw_new(e.manager, false);
	assert_int_equal(ask(manager, (struct inf_request){ .kind = INF_REQUEST_STATUS }), INF_OK);
	e2e_raw_free(manager);
	for (int i = 0; i < USERS; i++) {
		close(peers[i]);
		e2e_raw_free(raw[i]);
	}
	e2e_raw_free(large);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* The first thread's: 'Z' when it has ended, whatever the others are in. */
static char state_of(pid_t pid)
{
	char path[64], text[256] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof text, file));
	fclose(file);
	const char *name_end = strrchr(text, ')');
	assert_non_null(name_end);
	return name_end[2];
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
	while (state_of(e.pid) != 'Z')
		sched_yield();
	set_slow(slow, false);
	assert_int_equal(e2e_wait(&e), 1);
	e2e_raw_free(raw);
	close(fd);
	unmount_slow(slow);
	e2e_deinit(&e);
}

/* Nor does what somebody has sent who was not accepted yet. */
static void test_slow_backlog(void **state)
{
	enum { N = 100 }; /* more than are accepted at a time */
	struct e2e_raw *raw[N];
	struct e2e e;
	int peer, lingering = make_lingering(&peer);
	e2e_init(&e);
	e2e_start(&e, "drain = 100ms\n");
	assert_int_equal(kill(e.pid, SIGSTOP), 0);
	for (int i = 0; i < N; i++)
		raw[i] = e2e_raw_new(e.socket, true);
	assert_true(send_odd(raw[N - 1], "odd", 4, lingering, 1));
	close(lingering);
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_int_equal(kill(e.pid, SIGCONT), 0);
	while (state_of(e.pid) != 'Z')
		sched_yield();
	assert_int_equal(e2e_wait(&e), 1);
	close(peer);
	for (int i = 0; i < N; i++)
		e2e_raw_free(raw[i]);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_all_together),
		cmocka_unit_test(test_slow_files),
		cmocka_unit_test(test_slow_packets),
		cmocka_unit_test(test_turned_away),
		cmocka_unit_test(test_turned_away_often),
		cmocka_unit_test(test_turned_away_lingering),
		cmocka_unit_test(test_surplus),
		cmocka_unit_test(test_surplus_of_many),
		cmocka_unit_test(test_slow_close),
		cmocka_unit_test(test_slow_backlog),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
