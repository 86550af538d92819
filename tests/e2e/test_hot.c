/* SPDX-License-Identifier: BSD-3-Clause */
/* A request on a warm daemon allocates no memory: on the loop, on a worker, and beside other requests. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_ONE = 1500, N_SIDE = 4, N_TOGETHER = 300 };
/* What it does every second or two, however many requests there are, may ask for some. */
enum { MOST_BESIDE = 100 };

static void one_after_the_other(struct inferd_binding *b)
{
	for (int i = 0; i < N_ONE; i++) {
		*(float *)inferd_input(b, 0) = (float)i;
		assert_int_equal(inferd_infer(b, NULL), 0);
		assert_true(*(float *)inferd_output(b, 0) == 2 * (float)i);
	}
}

static void count_done(struct inferd_binding *b, int status, void *userdata)
{
	assert_int_equal(status, 0);
	++*(int *)userdata;
}

static void side_by_side(struct inferd *d, struct inferd_binding **b)
{
	for (int i = 0; i < N_TOGETHER; i++) {
		int n_done = 0;
		for (int k = 0; k < N_SIDE; k++)
			assert_int_equal(inferd_infer_async(b[k], NULL, count_done, &n_done), 0);
		while (n_done < N_SIDE)
			assert_true(inferd_wait(d, 30000) >= 0);
	}
}

static void test_no_memory(void **state)
{
	static const char *const names[] = { "double", "large" };
	struct inferd_binding *b[ET_ARRAY_LEN(names)][N_SIDE];
	struct inferd_method *m;
	char path[128];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "large.pte", e2e_program_large);
	snprintf(path, sizeof(path), "%s/count", e.dir);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && ftruncate(fd, sizeof(uint64_t)) == 0);
	const _Atomic(uint64_t) *count = mmap(NULL, sizeof(*count), PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(count, MAP_FAILED);
	close(fd);
	setenv("COUNT_MEMORY", path, 1);
	setenv("LD_PRELOAD", COUNT_MEMORY, 1);
	e2e_start(&e, NULL);
	unsetenv("LD_PRELOAD");
	struct inferd *d = e2e_connect(&e);
	for (size_t i = 0; i < ET_ARRAY_LEN(names); i++)
		for (int k = 0; k < N_SIDE; k++)
			b[i][k] = e2e_bind(d, names[i], &m);
	/* each once before it counts: it learns which are quick, and keeps what runs need */
	one_after_the_other(b[0][0]);
	side_by_side(d, b[0]);
	side_by_side(d, b[1]);
	uint64_t before = atomic_load(count);
	assert_true(before > 0);
	one_after_the_other(b[0][0]);
	side_by_side(d, b[0]);
	side_by_side(d, b[1]);
	uint64_t n = atomic_load(count) - before;
	if (n > MOST_BESIDE)
		fail_msg("%d requests asked for memory %llu times", N_ONE + 2 * N_SIDE * N_TOGETHER,
			(unsigned long long)n);
	inferd_close(d);
	munmap((void *)count, sizeof(*count));
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
