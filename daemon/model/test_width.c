/* SPDX-License-Identifier: BSD-3-Clause */
/* The width of a model's next run: trials of all cores, their cost, and when they come back, on a virtual clock. */
#include "daemon/model/width.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define MS        UINT64_C(1000000)
#define SINGLE_NS (1300 * UINT64_C(1000))

/* A model with one client that asks again at once, and the machine that it runs on. */
static struct world {
	struct inf_width width;
	uint64_t now_ns;
	uint64_t all_cores_ns; /* what a run on all cores takes, unless the limit cuts it */
	bool is_busy;
	unsigned n_looks;
	unsigned n_all_cores, n_cut;
	uint64_t slowest_ns;
	bool used_all_cores;
} w;

static int setup(void **state)
{
	w = (struct world){ .now_ns = 1000 * MS };
	return 0;
}

static bool is_busy(void *self)
{
	struct world *world = self;
	world->n_looks++;
	return world->is_busy;
}

/* One request. A run that is cut goes on with one core, at worst from its beginning. */
static void ask(void)
{
	uint64_t ns = SINGLE_NS, limit_ns = inf_width_limit_ns(&w.width);
	w.used_all_cores = inf_width_choose(&w.width, w.now_ns, is_busy, &w);
	bool is_cut = w.used_all_cores && w.all_cores_ns >= limit_ns;
	if (w.used_all_cores)
		ns = is_cut ? limit_ns : w.all_cores_ns;
	inf_width_add(&w.width, w.used_all_cores, ns, w.now_ns + ns);
	ns += is_cut ? SINGLE_NS : 0;
	w.n_all_cores += w.used_all_cores;
	w.n_cut += is_cut;
	w.slowest_ns = ns > w.slowest_ns ? ns : w.slowest_ns;
	w.now_ns += ns;
}

static void ask_times(unsigned n)
{
	w.n_all_cores = w.n_cut = 0;
	for (unsigned i = 0; i < n; i++)
		ask();
}

/* Before there is an average on one core, nothing is tried; one run later, all cores are. */
static void test_first_runs(void **state)
{
	w.all_cores_ns = SINGLE_NS / 3;
	ask();
	assert_false(w.used_all_cores);
	ask();
	assert_true(w.used_all_cores);
}

static void test_gain_keeps_all_cores(void **state)
{
	w.all_cores_ns = SINGLE_NS / 3;
	ask_times(10);
	ask_times(1000);
	assert_in_range(w.n_all_cores, 960, 999); /* one in 32 on one core, to compare */
	assert_string_equal(inf_width_reason(&w.width), "all cores are faster");
}

/* A wide run of 50 times the average is cut; the second one ends the trials for a while, and they become rare. */
static void test_loss_is_cut_and_rare(void **state)
{
	w.all_cores_ns = 50 * SINGLE_NS;
	ask_times(1000); /* 1.3 s */
	assert_int_equal(w.n_all_cores, 2);
	assert_int_equal(w.n_cut, 2);
	assert_true(w.slowest_ns <= 2 * SINGLE_NS + SINGLE_NS / 2);
	ask_times(10 * 1000);
	assert_in_range(w.n_all_cores, 1, 4);
	ask_times(1000 * 1000); /* 22 minutes */
	assert_in_range(w.n_all_cores, 3, 10);
	assert_string_equal(inf_width_reason(&w.width), "all cores were not faster");
}

/* A model that is asked rarely is not tried more often than its requests come; one that is asked a lot waits by the
 * clock. */
static void test_patience_counts_runs_and_time(void **state)
{
	w.all_cores_ns = 2 * SINGLE_NS;
	ask_times(10);
	assert_int_equal(w.n_all_cores, 2);
	w.now_ns += 3600 * 1000 * MS;
	ask_times(40); /* time enough, but too few runs */
	assert_int_equal(w.n_all_cores, 0);
	ask_times(40);
	assert_int_equal(w.n_all_cores, 1);
	ask_times(1000); /* runs enough, but too little time */
	assert_int_equal(w.n_all_cores, 0);
}

/* Neighbours came, but are not seen: two slow runs in a row, and the model has one core. When they have left, a trial
 * finds that. */
static void test_two_losses_end_all_cores(void **state)
{
	w.all_cores_ns = SINGLE_NS / 3;
	ask_times(100);
	w.all_cores_ns = 50 * SINGLE_NS;
	ask_times(20);
	assert_in_range(w.n_all_cores, 2, 3); /* between them may be the one on one core */
	assert_false(w.used_all_cores);
	w.all_cores_ns = SINGLE_NS / 3;
	w.now_ns += 10 * 1000 * MS;
	ask_times(100);
	ask_times(100);
	assert_in_range(w.n_all_cores, 90, 99);
}

/* One slow run is forgiven. */
static void test_one_loss_keeps_all_cores(void **state)
{
	w.all_cores_ns = SINGLE_NS / 3;
	ask_times(100);
	do
		w.all_cores_ns = 50 * SINGLE_NS, ask();
	while (!w.used_all_cores);
	w.all_cores_ns = SINGLE_NS / 3;
	ask_times(100);
	assert_in_range(w.n_all_cores, 90, 99);
}

/* While other processes use the cores there is no trial and no run on all cores, and few looks. */
static void test_busy_cores(void **state)
{
	w.all_cores_ns = 50 * SINGLE_NS;
	w.is_busy = true;
	ask_times(10000);
	assert_int_equal(w.n_all_cores, 0);
	assert_true(w.n_looks > 1 && w.n_looks <= w.now_ns / INF_WIDTH_CHECK_NS + 1);
	assert_string_equal(inf_width_reason(&w.width), "other processes use the cores");
	w.is_busy = false;
	w.all_cores_ns = SINGLE_NS / 3;
	ask_times(100);
	ask_times(100);
	assert_in_range(w.n_all_cores, 90, 99);
	w.is_busy = true;
	ask_times(100);
	assert_in_range(w.n_all_cores, 0, 60); /* until the next look */
	ask_times(100);
	assert_int_equal(w.n_all_cores, 0);
}

static void test_sizes_are_apart(void **state)
{
	static struct inf_widths widths;
	const struct inf_width *small = inf_widths_find(&widths, 4096);
	assert_ptr_equal(small, inf_widths_find(&widths, 5000));
	assert_ptr_equal(small, &widths.of[widths.last]);
	assert_ptr_not_equal(small, inf_widths_find(&widths, 6144));
	assert_ptr_not_equal(small, inf_widths_find(&widths, 2048));
	assert_ptr_not_equal(small, inf_widths_find(&widths, 8192));
	assert_ptr_not_equal(small, inf_widths_find(&widths, 4 * 8192));
	for (uint64_t n = 0; n < 64; n++)
		assert_non_null(inf_widths_find(&widths, n));
	assert_non_null(inf_widths_find(&widths, UINT64_MAX));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_first_runs, setup),
		cmocka_unit_test_setup(test_gain_keeps_all_cores, setup),
		cmocka_unit_test_setup(test_loss_is_cut_and_rare, setup),
		cmocka_unit_test_setup(test_patience_counts_runs_and_time, setup),
		cmocka_unit_test_setup(test_two_losses_end_all_cores, setup),
		cmocka_unit_test_setup(test_one_loss_keeps_all_cores, setup),
		cmocka_unit_test_setup(test_busy_cores, setup),
		cmocka_unit_test(test_sizes_are_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
