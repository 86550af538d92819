/* SPDX-License-Identifier: BSD-3-Clause */
/* The harness: start, observe and end the daemon, and talk to it without libinferd. */
#include "tests/e2e/harness.h"

#include "ipc/region.h"
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 120000 }; /* only a failure takes so long */

const char *e2e_inferd;

/* --- the daemon ----------------------------------------------------------------------------------- */

void e2e_init(struct e2e *e)
{
	memset(e, 0, sizeof(*e));
	e->notify_fd = -1;
	snprintf(e->dir, sizeof(e->dir), "/tmp/inferd-e2e.XXXXXX");
	assert_non_null(mkdtemp(e->dir));
	snprintf(e->socket, sizeof(e->socket), "%s/s", e->dir);
	snprintf(e->manager, sizeof(e->manager), "%s/m", e->dir);
	snprintf(e->models, sizeof(e->models), "%s/models", e->dir);
	assert_int_equal(mkdir(e->models, 0755), 0);
}

void e2e_listen_for_readiness(struct e2e *e, char *path, size_t room)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(path, room, "%s/n", e->dir);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	unlink(path);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	e->notify_fd = fd;
}

static void wait_until_ready(struct e2e *e)
{
	char text[512];
	for (;;) {
		struct pollfd p = { .fd = e->notify_fd, .events = POLLIN };
		if (poll(&p, 1, PATIENCE_MS) != 1)
			fail_msg("the daemon does not become ready");
		ssize_t n = recv(e->notify_fd, text, sizeof(text) - 1, 0);
		assert_true(n > 0);
		text[n] = '\0';
		if (strstr(text, "READY=1"))
			return;
	}
}

void e2e_start(struct e2e *e, const char *config)
{
	e2e_start_limited(e, config, NULL);
}

static void write_config(const struct e2e *e, const char *config, char *path, size_t room)
{
	snprintf(path, room, "%s/inferd.conf", e->dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file,
		"[server]\nsocket = %s\nmanager_socket = %s\nmodels = %s\ncache =\nprogram_idle = 100ms\nprogram_stop = 10s\nworkers = 2\nlog_level = "
		"%s\n%s",
		e->socket, e->manager, e->models, getenv("E2E_LOG") ? getenv("E2E_LOG") : "error",
		config ? config : "");
	assert_int_equal(fclose(file), 0);
}

void e2e_reload(struct e2e *e, const char *config)
{
	char path[128];
	write_config(e, config, path, sizeof(path));
	assert_int_equal(kill(e->pid, SIGHUP), 0);
	wait_until_ready(e);
}

void e2e_start_limited(struct e2e *e, const char *config, const struct rlimit *descriptors)
{
	char path[128], notify[100];
	write_config(e, config, path, sizeof(path));
	e2e_listen_for_readiness(e, notify, sizeof(notify));
	e->pid = fork();
	assert_true(e->pid >= 0);
	if (e->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("NOTIFY_SOCKET", notify, 1);
		if (descriptors && setrlimit(RLIMIT_NOFILE, descriptors) < 0)
			_exit(127);
		execl(e2e_inferd, "inferd", "--config", path, (char *)NULL);
		_exit(127);
	}
	wait_until_ready(e);
	e2e_watch(e);
}

void e2e_start_plugin(struct e2e *e, const char *plugin, const char *more)
{
	static char config[2048];
	snprintf(config, sizeof config, "[backend test]\npath = %s/%s.so\nhost = %s\nown_programs = apart\n%s", PLUGINS,
		plugin, HOST, more);
	e2e_start(e, config);
}

void e2e_watch(struct e2e *e)
{
	e->watcher = e2e_raw_new(e->manager, false);
	e->n_fds = e2e_count_fds(e->pid);
}

/* The state of a process or thread, as the letter of its stat file. @path is that file. */
static char state_in(const char *path)
{
	char text[256] = "";
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	bool is_read = fgets(text, sizeof text, file);
	fclose(file);
	const char *name_end = is_read ? strrchr(text, ')') : NULL;
	return name_end ? name_end[2] : '\0';
}

char e2e_state_of(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	char state = state_in(path);
	assert_true(state);
	return state;
}

/* A thread that ends meanwhile has no state, and counts as running. */
static bool has_running_thread(pid_t pid)
{
	char path[320];
	struct dirent *entry;
	bool is_running = false;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *threads = opendir(path);
	assert_non_null(threads);
	while ((entry = readdir(threads))) {
		snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, entry->d_name);
		is_running |= entry->d_name[0] != '.' && state_in(path) != 'T';
	}
	closedir(threads);
	return is_running;
}

void e2e_suspend(pid_t pid)
{
	assert_int_equal(kill(pid, SIGSTOP), 0);
	while (has_running_thread(pid))
		sched_yield();
}

int e2e_wait(struct e2e *e)
{
	int status;
	e2e_raw_free(e->watcher);
	e->watcher = NULL;
	/* nobody reads it any more: were it full, after a long test, the daemon would wait here to say that it ends */
	close(e->notify_fd);
	e->notify_fd = -1;
	assert_int_equal(waitpid(e->pid, &status, 0), e->pid);
	e->pid = 0;
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

void e2e_stop(struct e2e *e)
{
	assert_int_equal(kill(e->pid, SIGTERM), 0);
	assert_int_equal(e2e_wait(e), 0);
	assert_int_equal(access(e->socket, F_OK), -1);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

void e2e_deinit(struct e2e *e)
{
	if (e->pid)
		e2e_stop(e);
	nftw(e->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

enum inf_status e2e_restart_backend(struct e2e *e, const char *backend)
{
	struct inf_request request = { .kind = INF_REQUEST_BACKEND_RESTART, .backend_restart = { backend } };
	return e2e_raw_call(e->watcher, request).status;
}

void e2e_expect_index(struct e2e *e, const char *model, const char *model_state, const char *backend, const char *text)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	assert_int_equal(reply.kind, INF_REPLY_REPOSITORY_INDEX);
	for (size_t i = 0; i < reply.repository_index.n_models; i++) {
		const struct inf_model_index *found = &reply.repository_index.models[i];
		if (strcmp(found->name, model) != 0)
			continue;
		assert_string_equal(found->state, model_state);
		assert_string_equal(found->backend, backend);
		if (text ? !strstr(found->reason, text) : found->reason[0])
			fail_msg("'%s' does not say '%s'", found->reason, text ? text : "");
		return;
	}
	fail_msg("no model %s", model);
}

int e2e_count_fds(pid_t pid)
{
	char path[64];
	int n = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* --- the wire ------------------------------------------------------------------------------------- */

struct e2e_raw *e2e_raw_new(const char *path, bool is_silent)
{
	struct e2e_raw *raw = calloc(1, sizeof(*raw));
	assert_non_null(raw);
	int fd = inf_channel_connect(path);
	if (fd < 0)
		fail_msg("can't connect to %s: %s", path, strerror(-fd));
	assert_int_equal(inf_channel_init(&raw->channel, fd, 1 << 20, et_platform_allocator()), 0);
	inf_codec_init(&raw->encoder, et_platform_allocator());
	inf_codec_init(&raw->decoder, et_platform_allocator());
	raw->fd = -1;
	if (!is_silent) {
		struct inf_request hello = { .kind = INF_REQUEST_HELLO, .hello = { INF_PROTOCOL, "e2e" } };
		assert_int_equal(e2e_raw_call(raw, hello).status, INF_OK);
	}
	return raw;
}

struct e2e_raw *e2e_raw_new_hearing(const char *path)
{
	struct e2e_raw *raw = e2e_raw_new(path, true);
	struct inf_request hello = { .kind = INF_REQUEST_HELLO,
		.hello = { .protocol = INF_PROTOCOL, .client_name = "e2e", .hears_ends = true } };
	assert_int_equal(e2e_raw_call(raw, hello).status, INF_OK);
	return raw;
}

void e2e_raw_free(struct e2e_raw *raw)
{
	if (!raw)
		return;
	if (raw->fd >= 0)
		close(raw->fd);
	inf_channel_deinit(&raw->channel);
	inf_codec_deinit(&raw->encoder);
	inf_codec_deinit(&raw->decoder);
	free(raw);
}

void e2e_raw_send(struct e2e_raw *raw, struct inf_request *request, int fd)
{
	struct et_diag diag = { "" };
	size_t n_bytes;
	request->id = ++raw->last_id;
	if (inf_message_encode_request(request, raw->packet, &n_bytes, &raw->encoder, &diag))
		fail_msg("encoding: %s", diag.text);
	assert_int_equal(inf_channel_send(&raw->channel, raw->packet, n_bytes, &fd, fd >= 0), 0);
}

bool e2e_raw_receive(struct e2e_raw *raw, struct inf_reply *ret_reply)
{
	struct et_diag diag = { "" };
	int fds[INF_MAX_PACKET_FDS], rc;
	size_t n_bytes, n_fds;
	for (;;) {
		rc = inf_channel_receive(&raw->channel, raw->packet, sizeof(raw->packet), &n_bytes, fds, &n_fds);
		if (rc != INF_CHANNEL_AGAIN)
			break;
		struct pollfd p = { .fd = inf_channel_fd(&raw->channel), .events = POLLIN };
		if (poll(&p, 1, PATIENCE_MS) != 1)
			fail_msg("no reply");
	}
	if (rc)
		return false;
	if (raw->fd >= 0)
		close(raw->fd);
	raw->fd = n_fds ? fds[0] : -1;
	if (inf_message_decode_reply(ret_reply, raw->packet, n_bytes, &raw->decoder, &diag))
		fail_msg("decoding: %s", diag.text);
	return true;
}

struct inf_reply e2e_raw_call_fd(struct e2e_raw *raw, struct inf_request request, int fd)
{
	struct inf_reply reply;
	e2e_raw_send(raw, &request, fd);
	if (!e2e_raw_receive(raw, &reply))
		fail_msg("the daemon hung up");
	assert_int_equal(reply.id, raw->last_id);
	return reply;
}

struct inf_reply e2e_raw_call(struct e2e_raw *raw, struct inf_request request)
{
	return e2e_raw_call_fd(raw, request, -1);
}

enum inf_status e2e_raw_ask(struct e2e_raw *raw, struct inf_request request)
{
	struct inf_reply reply = e2e_raw_call(raw, request);
	if (reply.status == INF_RESOURCE_EXHAUSTED)
		assert_true(strlen(reply.error) > 10);
	return reply.status;
}

bool e2e_raw_send_fds(struct e2e_raw *raw, const void *bytes, size_t n_bytes, const int *fds, size_t n)
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

bool e2e_raw_send_copies(struct e2e_raw *raw, const void *bytes, size_t n_bytes, int fd, size_t n)
{
	int fds[INF_CHANNEL_MAX_FDS];
	for (size_t i = 0; i < n; i++)
		fds[i] = fd;
	return e2e_raw_send_fds(raw, bytes, n_bytes, fds, n);
}

void e2e_raw_expect_end(struct e2e_raw *raw)
{
	struct inf_reply reply;
	while (e2e_raw_receive(raw, &reply))
		;
}

void e2e_raw_bind(struct e2e_raw *raw, const char *model, uint64_t *ret_method, uint64_t *ret_binding,
	uint64_t *ret_region, float **ret_floats)
{
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { model, "", "", "", false } };
	struct inf_reply reply = e2e_raw_call(raw, open);
	if (reply.status != INF_OK)
		fail_msg("%s", reply.error);
	*ret_method = reply.method_opened.method;
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
	reply = e2e_raw_call(raw, create);
	assert_int_equal(reply.status, INF_OK);
	*ret_region = reply.region_created.region;
	if (ret_floats) {
		*ret_floats = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, raw->fd, 0);
		assert_ptr_not_equal(*ret_floats, MAP_FAILED);
	}
	struct inf_slot in = { .region = *ret_region, .byte_size = 16 };
	struct inf_slot out = { .region = *ret_region, .offset = 64, .byte_size = 16 };
	struct inf_request bound = { .kind = INF_REQUEST_BIND, .bind = { *ret_method, 1, &in, 1, &out } };
	reply = e2e_raw_call(raw, bound);
	if (reply.status != INF_OK)
		fail_msg("%s", reply.error);
	*ret_binding = reply.bound.binding;
}

/* --- watching ------------------------------------------------------------------------------------- */

void e2e_until(struct e2e *e, bool (*holds)(const struct inf_server_status *status, const void *arg), const void *arg)
{
	struct inf_request request = { .kind = INF_REQUEST_STATUS };
	uint64_t end_ns = et_platform_now_ns(NULL) + (uint64_t)PATIENCE_MS * 1000000;
	while (et_platform_now_ns(NULL) < end_ns) {
		struct inf_reply reply = e2e_raw_call(e->watcher, request);
		assert_int_equal(reply.kind, INF_REPLY_SERVER_STATUS);
		if (holds(&reply.server_status, arg))
			return;
	}
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	const struct inf_server_status *s = &reply.server_status;
	fail_msg("it never came true: %llu requests answered, %zu clients, %zu programs, %u run and %u wait",
		(unsigned long long)s->requests, s->n_clients, s->n_programs, s->queues[0].running,
		s->queues[0].waiting);
}

static bool has_clients(const struct inf_server_status *status, const void *arg)
{
	return status->n_clients == *(const size_t *)arg + 1;
}

void e2e_until_clients(struct e2e *e, size_t n)
{
	e2e_until(e, has_clients, &n);
}

static bool has_jobs(const struct inf_server_status *status, const void *arg)
{
	const uint32_t *n = arg;
	return status->queues[0].running == n[0] && status->queues[0].waiting == n[1];
}

void e2e_until_jobs(struct e2e *e, uint32_t n_running, uint32_t n_waiting)
{
	e2e_until(e, has_jobs, (uint32_t[]){ n_running, n_waiting });
}

struct client_runs {
	struct inferd *d;
};

static bool runs_one(const struct inf_server_status *status, const void *arg)
{
	const struct client_runs *client = arg;
	assert_true(inferd_dispatch(client->d) >= 0);
	return status->queues[0].running == 1 && status->queues[0].waiting == 0;
}

void e2e_until_runs(struct e2e *e, struct inferd *d)
{
	e2e_until(e, runs_one, &(struct client_runs){ d });
}

static bool has_requests(const struct inf_server_status *status, const void *arg)
{
	return status->requests >= *(const uint64_t *)arg;
}

void e2e_until_requests(struct e2e *e, uint64_t n)
{
	e2e_until(e, has_requests, &n);
}

uint64_t e2e_requests(struct e2e *e)
{
	struct inf_request request = { .kind = INF_REQUEST_STATUS };
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	assert_int_equal(reply.kind, INF_REPLY_SERVER_STATUS);
	return reply.server_status.requests;
}

static struct inf_reply list_loaded(struct e2e *e)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", true } };
	return e2e_raw_call(e->watcher, request);
}

uint64_t e2e_memory_of(struct e2e *e, const char *model)
{
	struct inf_reply reply = list_loaded(e);
	for (size_t i = 0; i < reply.repository_index.n_models; i++)
		if (strcmp(reply.repository_index.models[i].name, model) == 0)
			return reply.repository_index.models[i].memory_bytes;
	return 0;
}

static bool has_fds(const struct inf_server_status *status, const void *arg)
{
	const struct e2e *e = arg;
	int n_own = 0; /* what is known of a user's process for programs keeps one */
	for (size_t i = 0; i < status->n_hosts; i++)
		n_own += status->hosts[i].own;
	return e2e_count_fds(e->pid) <= e->n_fds + n_own;
}

static void unload_all(struct e2e *e)
{
	char names[32][64];
	size_t n = 0;
	struct inf_reply reply = list_loaded(e);
	for (; n < reply.repository_index.n_models && n < 32; n++)
		snprintf(names[n], sizeof(names[n]), "%s", reply.repository_index.models[n].name);
	for (size_t i = 0; i < n; i++)
		e2e_unload(e, names[i]);
}

/* Each time it is asked: what a crashed backend's models go on with may still be on its way. */
static bool has_unloaded_all(const struct inf_server_status *status, const void *arg)
{
	bool is_empty = !status->n_programs;
	if (!is_empty)
		unload_all((struct e2e *)arg);
	return is_empty;
}

void e2e_check_clean(struct e2e *e)
{
	e2e_until_clients(e, 0);
	e2e_until_jobs(e, 0, 0);
	unload_all(e);
	e2e_until(e, has_unloaded_all, e);
	e2e_until(e, has_fds, e);
}

enum inf_status e2e_load(struct e2e *e, const char *model)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_MODEL_LOAD,
		.repository_model_load = { "", model } };
	return e2e_raw_call(e->watcher, request).status;
}

enum inf_status e2e_unload(struct e2e *e, const char *model)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_MODEL_UNLOAD,
		.repository_model_unload = { "", model } };
	return e2e_raw_call(e->watcher, request).status;
}

/* --- libinferd ------------------------------------------------------------------------------------ */

struct inferd *e2e_connect(struct e2e *e)
{
	struct inferd *d = NULL;
	if (inferd_open(&d, e->socket) < 0)
		fail_msg("%s", d ? inferd_error(d) : "out of memory");
	return d;
}

struct inferd_binding *e2e_bind(struct inferd *d, const char *model, struct inferd_method **ret_method)
{
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	if (inferd_method_open(d, &m, model, NULL) < 0 || inferd_bind(m, &b) < 0)
		fail_msg("%s: %s", model, inferd_error(d));
	if (ret_method)
		*ret_method = m;
	return b;
}

float e2e_infer(struct inferd_binding *b, float x, int *ret_status)
{
	float *in = inferd_input(b, 0), *out = inferd_output(b, 0);
	for (int i = 0; i < 4; i++)
		in[i] = x;
	out[0] = -1;
	*ret_status = inferd_infer(b, NULL);
	return out[0];
}

float e2e_infer_until_served(struct inferd_binding *b, float x, int *ret_status)
{
	float y;
	do
		y = e2e_infer(b, x, ret_status);
	while (*ret_status == -INFERD_BACKEND_CRASHED);
	return y;
}

static void ask_again(struct inferd_binding *b, int status, void *userdata)
{
	float *x = inferd_input(b, 0), *y = inferd_output(b, 0);
	if (status < 0 || *y != 2 * *x)
		_exit(3);
	*x += 1;
	if (inferd_infer_async(b, NULL, ask_again, NULL) < 0)
		_exit(3);
}

_Noreturn void e2e_ask_forever(struct inferd *d, struct inferd_binding **b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		*(float *)inferd_input(b[i], 0) = (float)i;
		if (inferd_infer_async(b[i], NULL, ask_again, NULL) < 0)
			_exit(3);
	}
	while (inferd_wait(d, -1) >= 0)
		;
	_exit(3);
}

int e2e_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
	if (argc < 2) {
		fprintf(stderr, "usage: %s INFERD [TEST]\n", argv[0]);
		return 2;
	}
	e2e_inferd = argv[1];
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	signal(SIGPIPE, SIG_IGN);
	return _cmocka_run_group_tests("e2e", tests, n, NULL, NULL);
}
