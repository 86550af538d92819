/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs whose sizes are hostile: what would take more than there is, is refused before it exists. They come from a
 * client, and are made in the process of that user, and from the repository, and are made in the daemon. The peaks of
 * the daemon and of the user's process stay at what is charged, and a tenth, and SLACK, and twice the file, which is
 * read for a moment.
 *
 * The programs are a real one with dimensions of its tensors doubled until it does not fit, and one whose arena is
 * large. The daemon's address space is bounded, so that a failure of this test does not take the machine's memory. */
#include "tests/e2e/harness.h"

#include "tests/support/make_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef INF_SANITIZED /* whose allocator keeps more, and needs addresses */
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

enum {
	SLACK = 24 << 20,             /* what a process takes with nothing loaded, and compiling for a moment */
	BYTES = 96 << 20,             /* of the user; as much is the budget for the repository's models */
	EACH = IS_SANITIZED ? 40 : 8, /* of how many places one is changed by itself */
};
static const char limits[] = "program_idle = 1h\nmemory_budget = 96M\n[limits]\nbytes = 96M\n";
static unsigned n_models, n_made;
static uint64_t most_charged;

static uint64_t peak_of(pid_t pid)
{
	char path[64], line[128];
	unsigned long long kib = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
			break;
	fclose(file);
	return kib << 10;
}

static void reset_peak(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "5", 1), 1);
	close(fd);
}

static bool take_pid(const struct inf_server_status *status, const void *arg)
{
	pid_t *pid = *(pid_t *const *)arg;
	*pid = 0;
	for (size_t i = 0; i < status->n_hosts; i++)
		if (!strcmp(status->hosts[i].backend, "programs"))
			*pid = (pid_t)status->hosts[i].pid;
	return true;
}

/* The process of this user's programs: its number, or 0 if there is none. */
static pid_t host_of(struct e2e *e)
{
	pid_t pid, *room = &pid;
	e2e_until(e, take_pid, &room);
	return pid;
}

static void bound(pid_t pid)
{
	const struct rlimit limit = { (rlim_t)3 << 30, (rlim_t)3 << 30 };
	if (!IS_SANITIZED)
		assert_int_equal(prlimit(pid, RLIMIT_AS, &limit, NULL), 0);
}

/* y = the sum of x over a value that lies in @n_mib of planned memory. */
static uint8_t *make_arena(size_t n_mib, size_t *ret_n_bytes)
{
	static struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint64_t n = (uint64_t)n_mib << 18; /* floats */
	uint32_t arena = mk_arena(&mk, n * 4 + 64);
	int vast = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1024, (int32_t)(n / 1024)), .arena = arena });
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = n * 4 });
	int rows = mk_int(&mk, 1024), columns = mk_int(&mk, (int64_t)(n / 1024)), one = mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "aten::full", "out"),
		MK_ARGS(mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(rows, columns)), one, vast, vast));
	mk_input(&mk, x);
	mk_output(&mk, x);
	return mk_finish(&mk, ret_n_bytes);
}

static int memory_file(const void *bytes, size_t n_bytes)
{
	int fd = memfd_create("program", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n_bytes), n_bytes);
	return fd;
}

/* Compare the peaks of the daemon and, for a client's program, of the user's process with what is charged now. A peak
 * of the process is never forgotten, so the most that was charged counts there. */
static void check_peaks(struct e2e *e, size_t n_bytes, bool is_own, const char *why)
{
	struct inf_request status = { .kind = INF_REQUEST_STATUS };
	uint64_t charged = e2e_raw_call(e->watcher, status).server_status.memory_used;
	uint64_t peak = peak_of(e->pid), host_peak = 0;
	if (is_own) {
		pid_t host = host_of(e);
		assert_int_not_equal(host, 0); /* else something else was tried */
		host_peak = peak_of(host);
	}
	most_charged = charged > most_charged ? charged : most_charged;
	if (IS_SANITIZED)
		return;
	if (peak > charged + charged / 10 + n_bytes * 2 + SLACK ||
		host_peak > most_charged + most_charged / 10 + n_bytes * 2 + SLACK)
		fail_msg("%s: peak %llu KiB, of the user's process %llu KiB, charged %llu KiB", why,
			(unsigned long long)(peak >> 10), (unsigned long long)(host_peak >> 10),
			(unsigned long long)(charged >> 10));
}

static void begin(struct e2e *e)
{
	n_models = n_made = 0;
	most_charged = 0;
	e2e_init(e);
	e2e_start(e, limits);
	bound(e->pid);
}

/* The user's process would wait for the next program. */
static void end(struct e2e *e)
{
	pid_t host = host_of(e);
	if (host)
		kill(host, SIGKILL);
	e2e_check_clean(e);
	e2e_deinit(e);
}

/* Run the Method once, if it can be bound. What comes of it is the program's affair. */
static void run_once(struct inferd_method *m)
{
	struct inferd_binding *b;
	if (inferd_bind(m, &b) == 0)
		inferd_infer(b, NULL);
}

/* Open the program as the client's own, and run it once; whether it was taken. A refusal must be one, with a reason. */
static bool try_own(struct e2e *e, const void *bytes, size_t n_bytes)
{
	struct inferd *d = e2e_connect(e);
	struct inferd_method *m;
	int fd = memory_file(bytes, n_bytes);
	bool is_taken = inferd_method_open_fd(d, &m, fd, "own", NULL) == 0;
	if (is_taken)
		run_once(m);
	else
		assert_true(inferd_error(d)[0]);
	check_peaks(e, n_bytes, true, is_taken ? "taken" : inferd_error(d));
	n_made += is_taken || strstr(inferd_error(d), "it needs") || strstr(inferd_error(d), "XNNPACK");
	close(fd);
	inferd_close(d);
	e2e_until_clients(e, 0);
	return is_taken;
}

/* The same as a model of the repository. */
static bool try_model(struct e2e *e, const void *bytes, size_t n_bytes)
{
	struct inferd *d = e2e_connect(e);
	struct inferd_method *m;
	char name[40], file[48];
	snprintf(name, sizeof(name), "m%u", ++n_models);
	snprintf(file, sizeof(file), "%s.pte", name);
	e2e_put(e, file, bytes, n_bytes);
	bool is_taken = inferd_method_open(d, &m, name, NULL) == 0;
	if (is_taken)
		run_once(m);
	else
		assert_true(inferd_error(d)[0]);
	check_peaks(e, n_bytes, false, is_taken ? "taken" : inferd_error(d));
	n_made += is_taken || strstr(inferd_error(d), "it needs") || strstr(inferd_error(d), "XNNPACK");
	inferd_close(d);
	e2e_until_clients(e, 0);
	return is_taken;
}

/* Positions of the 32-bit numbers of @bytes that are @number and not part of weights. */
static size_t find_number(const uint8_t *bytes, size_t n_bytes, uint32_t number, size_t from)
{
	for (size_t at = (from + 3) / 4 * 4; at + 4 <= n_bytes; at += 4) {
		uint32_t here;
		memcpy(&here, bytes + at, 4);
		if (here == number)
			return at;
	}
	return n_bytes;
}

/* Try an image network as it is, and with each size 224, 112, 56 … of its tensors larger: all of a size together, and
 * some of them one at a time. Many of these are still made, or nearly. */
static void try_sizes(bool (*try)(struct e2e *e, const void *bytes, size_t n_bytes))
{
	static const uint32_t sizes[] = { 224, 112, 56, 28, 14, 7, 96, 1280 };
	struct e2e e;
	size_t n_bytes;
	uint8_t *bytes = e2e_read(TEST_MODELS "/efficientnet_lite0_int8.pte", &n_bytes);
	if (!bytes)
		skip();
	uint8_t *changed = malloc(n_bytes);
	begin(&e);
	reset_peak(e.pid);
	assert_true(try(&e, bytes, n_bytes));
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		for (uint32_t by = 4; by <= 4096; by *= 32) {
			const uint32_t larger = sizes[s] * by;
			memcpy(changed, bytes, n_bytes);
			for (size_t at = 0; (at = find_number(bytes, n_bytes, sizes[s], at)) < n_bytes; at += 4)
				memcpy(changed + at, &larger, 4);
			reset_peak(e.pid);
			try(&e, changed, n_bytes);
		}
		size_t n_places = 0;
		for (size_t at = 0; (at = find_number(bytes, n_bytes, sizes[s], at)) < n_bytes; at += 4) {
			const uint32_t larger = sizes[s] << (1 + n_places % 12);
			if (n_places++ % EACH)
				continue;
			memcpy(changed, bytes, n_bytes);
			memcpy(changed + at, &larger, 4);
			reset_peak(e.pid);
			try(&e, changed, n_bytes);
		}
	}
	print_message("%u programs were made, or refused for what they need\n", n_made);
	assert_true(n_made > (IS_SANITIZED ? 5 : 40));
	free(changed);
	free(bytes);
	end(&e);
}

static void test_sizes(void **state)
{
	try_sizes(try_own);
}

static void test_sizes_of_models(void **state)
{
	try_sizes(try_model);
}

/* What a run needs beside the program: within the user's bytes, or the memory budget, it is taken, beyond it is
 * refused. */
static void try_arenas(bool (*try)(struct e2e *e, const void *bytes, size_t n_bytes))
{
	struct e2e e;
	size_t n_bytes;
	begin(&e);
	for (size_t n_mib = 16; n_mib <= 4096; n_mib *= 4) {
		uint8_t *bytes = make_arena(n_mib, &n_bytes);
		reset_peak(e.pid);
		assert_int_equal(try(&e, bytes, n_bytes), n_mib * 2 < 96);
		free(bytes);
	}
	end(&e);
}

static void test_arenas(void **state)
{
	try_arenas(try_own);
}

static void test_arenas_of_models(void **state)
{
	try_arenas(try_model);
}

/* How much private memory the process may have now. */
static void expect_limit(struct e2e *e, uint64_t n_bytes)
{
	struct rlimit limit;
	assert_int_equal(prlimit(host_of(e), RLIMIT_DATA, NULL, &limit), 0);
	if (!IS_SANITIZED)
		assert_int_equal(limit.rlim_cur, n_bytes + (256 << 20));
}

/* No user is charged any bytes: what was given back is free. */
static bool holds_nothing(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_users; i++)
		for (size_t k = 0; k < status->users[i].n_limits; k++) {
			const struct inf_limit_status *limit = &status->users[i].limits[k];
			if (!strcmp(limit->name, "bytes") && limit->used)
				return false;
		}
	return true;
}

/* A user whose regions take nearly all of its bytes opens a program of which more is made than is free: that ends where
 * the free bytes do. Without the regions it is served. */
static void test_near_limit(void **state)
{
	struct inf_request ask = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "own", "", "", "", true } };
	struct e2e e;
	size_t n_bytes;
	const uint64_t n_free = 3 << 20;
	uint8_t *bytes = e2e_read(TEST_MODELS "/efficientnet_lite0_int8.pte", &n_bytes);
	if (!bytes)
		skip();
	begin(&e);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE,
		.region_create = { BYTES - n_bytes - n_free } };
	struct inf_reply reply = e2e_raw_call(raw, create);
	assert_int_equal(reply.status, INF_OK);
	uint64_t region = reply.region_created.region;
	int fd = memory_file(bytes, n_bytes);
	reply = e2e_raw_call_fd(raw, ask, fd);
	assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
	unsigned long n_kib = 0;
	const char *at = strstr(reply.error, "takes more than the");
	if (!at || sscanf(at, "takes more than the %lu KiB that are free for it", &n_kib) != 1)
		fail_msg("%s", reply.error);
	assert_in_range(n_kib, (n_free - (1 << 20)) >> 10, n_free >> 10); /* some was taken to look at it */
	expect_limit(&e, n_free);
	if (!IS_SANITIZED)
		assert_in_range(peak_of(host_of(&e)), 1, n_bytes + n_free + SLACK);
	struct inf_request drop = { .kind = INF_REQUEST_REGION_UNREGISTER, .region_unregister = { "", region } };
	assert_int_equal(e2e_raw_call(raw, drop).status, INF_OK);
	e2e_until(&e, holds_nothing, NULL);
	reply = e2e_raw_call_fd(raw, ask, fd);
	if (reply.status)
		fail_msg("%s", reply.error);
	expect_limit(&e, BYTES - n_bytes);
	/* what lies in the process stays its own when the rest is given to a region */
	create.region_create.byte_size = 8 << 20;
	assert_int_equal(e2e_raw_call(raw, create).status, INF_OK);
	reply = e2e_raw_call_fd(raw, ask, fd);
	if (reply.status)
		fail_msg("%s", reply.error);
	expect_limit(&e, BYTES - 2 * n_bytes - (8 << 20));
	close(fd);
	free(bytes);
	e2e_raw_free(raw);
	end(&e);
}

/* A real LSTM with one byte changed, whose instance XNNPACK would give 5.6 GB: brought by a client, and of the
 * repository. */
static void test_instance(void **state)
{
	struct e2e e;
	struct inferd_method *m;
	size_t n_bytes;
	uint8_t *bytes = e2e_read(SHARED_MODELS "/attacks/context_of_6_gb.pte", &n_bytes);
	if (!bytes)
		skip();
	e2e_init(&e);
	e2e_put(&e, "large.pte", bytes, n_bytes);
	e2e_start(&e, "program_idle = 1h\n");
	bound(e.pid);
	reset_peak(e.pid);
	assert_false(try_own(&e, bytes, n_bytes));
	struct inferd *d = e2e_connect(&e);
	assert_true(inferd_method_open(d, &m, "large", NULL) < 0);
	assert_non_null(strstr(inferd_error(d), "MiB for one instance, more than the limit of"));
	inferd_close(d);
	if (!IS_SANITIZED)
		assert_in_range(peak_of(e.pid), 0, 64 << 20);
	free(bytes);
	end(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sizes_of_models),
		cmocka_unit_test(test_arenas),
		cmocka_unit_test(test_arenas_of_models),
		cmocka_unit_test(test_near_limit),
		cmocka_unit_test(test_instance),
	};
	return e2e_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}
