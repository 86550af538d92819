/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether to spin, over many waits whose end is known. */
#include "ipc/spin.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

/* @n waits that are worth it if @is_good, in vain if not; how many were spun for. */
static unsigned wait_for(struct inf_spin *spin, unsigned n, bool is_good)
{
	unsigned n_spun = 0;
	for (unsigned i = 0; i < n; i++) {
		bool has_spun = inf_spin_is_due(spin);
		n_spun += has_spun;
		/* what was not spun for always looks as if it had been worth it: so it is on one core */
		inf_spin_note(spin, is_good || !has_spun, has_spun);
	}
	return n_spun;
}

static void test_never(void **state)
{
	struct inf_spin spin;
	inf_spin_init(&spin, 0);
	assert_int_equal(wait_for(&spin, 100000, true), 0);
}

static void test_good(void **state)
{
	struct inf_spin spin;
	inf_spin_init(&spin, 1000);
	assert_false(inf_spin_is_due(&spin));
	assert_in_range(wait_for(&spin, 1000, true), 980, 999);
}

static void test_long_waits(void **state)
{
	struct inf_spin spin;
	inf_spin_init(&spin, 1000);
	for (int i = 0; i < 100000; i++) {
		assert_false(inf_spin_is_due(&spin));
		inf_spin_note(&spin, i % 4, false); /* one in four is too long */
	}
}

static void test_in_vain(void **state)
{
	struct inf_spin spin;
	inf_spin_init(&spin, 1000);
	assert_in_range(wait_for(&spin, 100000, false), 5, 40);
	/* still only now and then, but not never */
	assert_in_range(wait_for(&spin, 100000, false), 5, 40);
}

/* The other side moved to another core: soon all is well again, and stays so. */
static void test_change(void **state)
{
	struct inf_spin spin;
	inf_spin_init(&spin, 1000);
	wait_for(&spin, 100000, false);
	assert_in_range(wait_for(&spin, 10000, true), 5000, 9999);
	assert_int_equal(wait_for(&spin, 1000, true), 1000);
	/* one in vain costs little now */
	wait_for(&spin, 1, false);
	assert_in_range(wait_for(&spin, 1000, true), 960, 999);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_long_waits),
		cmocka_unit_test(test_in_vain),
		cmocka_unit_test(test_change),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
