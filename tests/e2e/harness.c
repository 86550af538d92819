/* Starting, watching and ending the daemon, and talking to it past libinferd. */
#include "tests/e2e/harness.h"

#include "ipc/region.h"
#include "runtime/base/checked.h"
#include "runtime/host/host.h"
#include "tests/support/make_program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
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

enum { PATIENCE_MS = 30000 };

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

void e2e_start_limited(struct e2e *e, const char *config, const struct rlimit *descriptors)
{
	char path[128], notify[100];
	snprintf(path, sizeof(path), "%s/inferd.conf", e->dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file,
		"[server]\nsocket = %s\nmanager_socket = %s\nmodels = %s\ncache =\nworkers = 2\nlog_level = "
		"%s\n%s",
		e->socket, e->manager, e->models, getenv("E2E_LOG") ? getenv("E2E_LOG") : "error",
		config ? config : "");
	assert_int_equal(fclose(file), 0);
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

void e2e_watch(struct e2e *e)
{
	e->watcher = e2e_raw_new(e->manager, false);
	e->n_fds = e2e_count_fds(e->pid);
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

/* --- models --------------------------------------------------------------------------------------- */

void e2e_put(struct e2e *e, const char *name, const void *bytes, size_t n_bytes)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", e->models, name);
	for (char *at = path + strlen(e->models) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0755);
		*at = '/';
	}
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
	assert_int_equal(fclose(file), 0);
}

void e2e_put_program(struct e2e *e, const char *name, uint8_t *(*make)(size_t *ret_n_bytes))
{
	size_t n_bytes;
	uint8_t *bytes = make(&n_bytes);
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
}

void *e2e_read(const char *path, size_t *ret_n_bytes)
{
	FILE *file = fopen(path, "re");
	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	size_t n = (size_t)ftell(file);
	rewind(file);
	char *bytes = calloc(1, n + 16);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, n, file), n);
	fclose(file);
	*ret_n_bytes = n;
	return bytes;
}

bool e2e_put_file(struct e2e *e, const char *name, const char *path)
{
	size_t n_bytes;
	void *bytes = e2e_read(path, &n_bytes);
	if (!bytes)
		return false;
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
	return true;
}

static uint8_t *make_added(size_t *ret_n_bytes, int alpha, const char *operator, bool is_foreign)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	if (is_foreign)
		mk_call(&mk, mk_delegate(&mk, "NobodysBackend", "x", 1, true, NULL, NULL), MK_ARGS(x, y));
	else
		mk_kernel(&mk, mk_operator(&mk, operator, "out"), MK_ARGS(x, x, mk_int(&mk, alpha), y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_double(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 1, "aten::add", false);
}

uint8_t *e2e_program_triple(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 2, "aten::add", false);
}

uint8_t *e2e_program_foreign(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 1, "aten::add", true);
}

uint8_t *e2e_program_unknown(size_t *ret_n_bytes)
{
	return make_added(ret_n_bytes, 1, "nobodys::operator", false);
}

uint8_t *e2e_program_accumulate(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int s = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 32 });
	int one = mk_int(&mk, 1), no = mk_bool(&mk, false);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(s, x, one, y, y));
	mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(s, y, no, s));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_large(size_t *ret_n_bytes)
{
	struct make_program mk;
	enum { N = E2E_LARGE / sizeof(float) };
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, E2E_LARGE + 80);
	int large = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N), .arena = arena });
	int four[5]; /* x, s, ones, a sum, y */
	for (uint64_t i = 0; i < 5; i++)
		four[i] = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena,
						 .offset = E2E_LARGE + 16 * i });
	int zero = mk_int(&mk, 0), one = mk_int(&mk, 1), n = mk_int(&mk, N), no = mk_bool(&mk, false);
	int size = mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(n)), add = mk_operator(&mk, "aten::add", "out");
	mk_kernel(&mk, mk_operator(&mk, "aten::full", "out"), MK_ARGS(size, one, large, large));
	mk_kernel(&mk, mk_operator(&mk, "aten::slice_copy", "Tensor_out"),
		MK_ARGS(large, zero, zero, mk_int(&mk, 4), one, four[2], four[2]));
	mk_kernel(&mk, add, MK_ARGS(four[1], four[0], one, four[3], four[3]));
	mk_kernel(&mk, add, MK_ARGS(four[3], four[2], one, four[4], four[4]));
	mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(four[1], four[4], no, four[1]));
	mk_input(&mk, four[0]);
	mk_output(&mk, four[4]);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_forever(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	int one = mk_int(&mk, 1), no = mk_bool(&mk, false);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, one, y, y));
	mk_jump_false(&mk, no, 0);
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

uint8_t *e2e_program_forever_stateful(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int s = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 32 });
	int one = mk_int(&mk, 1), no = mk_bool(&mk, false);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(s, x, one, y, y));
	mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(s, y, no, s));
	mk_jump_false(&mk, no, 0);
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

/* --- the wire ------------------------------------------------------------------------------------- */

struct e2e_raw *e2e_raw_new(const char *path, bool is_silent)
{
	struct e2e_raw *raw = calloc(1, sizeof(*raw));
	assert_non_null(raw);
	int fd = inf_channel_connect(path);
	if (fd < 0)
		fail_msg("can't connect to %s: %s", path, strerror(-fd));
	assert_int_equal(inf_channel_init(&raw->channel, fd, 1 << 20, et_host_allocator()), 0);
	inf_codec_init(&raw->encoder, et_host_allocator());
	inf_codec_init(&raw->decoder, et_host_allocator());
	raw->fd = -1;
	if (!is_silent) {
		struct inf_request hello = { .kind = INF_REQUEST_HELLO, .hello = { INF_PROTOCOL, "e2e" } };
		assert_int_equal(e2e_raw_call(raw, hello).status, INF_OK);
	}
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
		rc = inf_channel_receive(
			&raw->channel, raw->packet, sizeof(raw->packet), &n_bytes, fds, &n_fds);
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

void e2e_raw_expect_end(struct e2e_raw *raw)
{
	struct inf_reply reply;
	while (e2e_raw_receive(raw, &reply))
		;
}

void e2e_raw_bind(struct e2e_raw *raw, const char *model, uint64_t *ret_method, uint64_t *ret_binding,
	uint64_t *ret_region, float **ret_floats)
{
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN,
		.method_open = { model, "", "", "", false } };
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

uint8_t *e2e_program_word(const char *word, size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int delegate = mk_delegate(&mk, "TestBackend", word, strlen(word), false, NULL, NULL);
	mk_call(&mk, delegate, MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

void e2e_start_plugin(struct e2e *e, const char *plugin, const char *more)
{
	static char config[2048];
	snprintf(config, sizeof config, "[backend test]\npath = %s/%s.so\nhost = %s\n%s", PLUGINS, plugin,
		HOST, more);
	e2e_start(e, config);
}

void e2e_put_word_as(struct e2e *e, const char *word, const char *name)
{
	size_t n_bytes;
	uint8_t *bytes = e2e_program_word(word, &n_bytes);
	e2e_put(e, name, bytes, n_bytes);
	free(bytes);
}

void e2e_put_word(struct e2e *e, const char *word)
{
	char name[64];
	snprintf(name, sizeof name, "%s.pte", word);
	e2e_put_word_as(e, word, name);
}

void e2e_until(struct e2e *e, bool (*holds)(const struct inf_server_status *status, const void *arg),
	const void *arg)
{
	struct inf_request request = { .kind = INF_REQUEST_STATUS };
	uint64_t end_ns = et_host_now_ns(NULL) + (uint64_t)PATIENCE_MS * 1000000;
	while (et_host_now_ns(NULL) < end_ns) {
		struct inf_reply reply = e2e_raw_call(e->watcher, request);
		assert_int_equal(reply.kind, INF_REPLY_SERVER_STATUS);
		if (holds(&reply.server_status, arg))
			return;
	}
	fail_msg("it never came true");
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

static bool has_fds(const struct inf_server_status *status, const void *arg)
{
	const struct e2e *e = arg;
	return e2e_count_fds(e->pid) <= e->n_fds;
}

static bool has_no_models(const struct inf_server_status *status, const void *arg)
{
	return !status->n_programs;
}

void e2e_check_clean(struct e2e *e)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX,
		.repository_index = { "", true } };
	char names[32][64];
	size_t n = 0;
	e2e_until_clients(e, 0);
	e2e_until_jobs(e, 0, 0);
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	for (; n < reply.repository_index.n_models && n < 32; n++)
		snprintf(names[n], sizeof(names[n]), "%s", reply.repository_index.models[n].name);
	for (size_t i = 0; i < n; i++)
		e2e_unload(e, names[i]);
	e2e_until(e, has_no_models, NULL);
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
