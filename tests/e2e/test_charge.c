/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs whose sizes are hostile: what would take more than there is, is refused before it exists. The daemon's peak
 * stays at what it charges, and a tenth, beside what it takes with nothing loaded.
 *
 * The programs are a real one with dimensions of its tensors doubled until it does not fit, and one whose arena is
 * large. The daemon's address space is bounded, so that a failure of this test does not take the machine's memory. */
#include "tests/e2e/harness.h"

#include "tests/support/make_program.h"

#include <fcntl.h>
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

enum { SLACK = 24 << 20 }; /* what the daemon takes with nothing loaded, and what compiling takes for a moment */

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

/* Open the program as the client's own; whether it was taken. A refusal must be one, with a reason. */
static bool try_own(struct e2e *e, const void *bytes, size_t n_bytes)
{
	struct inf_request ask = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "own", "", "", "", true } };
	struct e2e_raw *raw = e2e_raw_new(e->socket, false);
	int fd = memory_file(bytes, n_bytes);
	struct inf_reply reply = e2e_raw_call_fd(raw, ask, fd);
	bool is_taken = reply.status == INF_OK;
	if (!is_taken)
		assert_true(reply.error && reply.error[0]);
	struct inf_request status = { .kind = INF_REQUEST_STATUS };
	uint64_t charged = e2e_raw_call(e->watcher, status).server_status.memory_used;
	uint64_t peak = peak_of(e->pid);
	if (!IS_SANITIZED && peak > charged + charged / 10 + n_bytes * 2 + SLACK)
		fail_msg("%s: peak %llu KiB, charged %llu KiB", is_taken ? "taken" : reply.error,
			(unsigned long long)(peak >> 10), (unsigned long long)(charged >> 10));
	close(fd);
	e2e_raw_free(raw);
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

/* Each size 224, 112, 56 … of an image network's tensors, one at a time and all of a size together, times 4 to 4096. */
static void test_sizes(void **state)
{
	static const uint32_t sizes[] = { 224, 112, 56, 28, 14 };
	struct e2e e;
	size_t n_bytes, n_tried = 0, n_taken = 0;
	uint8_t *bytes = e2e_read(TEST_MODELS "/efficientnet_lite0_int8.pte", &n_bytes);
	if (!bytes)
		skip();
	uint8_t *changed = malloc(n_bytes);
	e2e_init(&e);
	e2e_start(&e, "workers = 2\nmemory_budget = 96M\n[limits]\nbytes = 96M\n");
	bound(e.pid);
	reset_peak(e.pid);
	n_taken += try_own(&e, bytes, n_bytes); /* as it is */
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
		for (uint32_t by = 4; by <= 4096; by *= 8) {
			uint32_t larger = sizes[s] * by;
			memcpy(changed, bytes, n_bytes);
			for (size_t at = 0; (at = find_number(bytes, n_bytes, sizes[s], at)) < n_bytes; at += 4)
				memcpy(changed + at, &larger, 4);
			reset_peak(e.pid);
			n_taken += try_own(&e, changed, n_bytes);
			n_tried++;
		}
	assert_int_equal(n_tried, 20);
	assert_true(n_taken >= 1);
	free(changed);
	free(bytes);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* What a run needs beside the program: within the user's bytes it is taken, beyond it is refused. */
static void test_arenas(void **state)
{
	struct e2e e;
	size_t n_bytes;
	e2e_init(&e);
	e2e_start(&e, "workers = 2\nmemory_budget = 96M\n[limits]\nbytes = 96M\n");
	bound(e.pid);
	for (size_t n_mib = 16; n_mib <= 4096; n_mib *= 4) {
		uint8_t *bytes = make_arena(n_mib, &n_bytes);
		reset_peak(e.pid);
		assert_int_equal(try_own(&e, bytes, n_bytes), n_mib * 2 < 96);
		free(bytes);
	}
	e2e_check_clean(&e);
	e2e_deinit(&e);
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
	e2e_start(&e, NULL);
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
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_arenas),
		cmocka_unit_test(test_instance),
	};
	return e2e_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}
