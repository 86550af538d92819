/* SPDX-License-Identifier: BSD-3-Clause */
/* When to spin, over many waits with a known end. */
#include "ipc/spin.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

/* Simulate @n waits, worth a spin if @is_good, in vain if not. Returns the number of spins. */
static unsigned wait_for(struct inf_spin *spin, unsigned n, bool is_good)
{
	unsigned n_spun = 0;
	for (unsigned i = 0; i < n; i++) {
		bool has_spun = inf_spin_is_due(spin);
		n_spun += has_spun;
		/* a wait without a spin always looks as if a spin had been worth it: so it is on a shared core */
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
		inf_spin_note(&spin, i % 4, false); /* one in four takes too long */
	}
}

static void test_in_vain(void **state)
{
	struct inf_spin spin;
	inf_spin_init(&spin, 1000);
	assert_in_range(wait_for(&spin, 100000, false), 5, 40);
	/* still a spin now and then, but not never */
	assert_in_range(wait_for(&spin, 100000, false), 5, 40);
}

/* The other side moved to another core: soon it spins again, and goes on doing so. */
static void test_change(void **state)
{
	struct inf_spin spin;
	inf_spin_init(&spin, 1000);
	wait_for(&spin, 100000, false);
	assert_in_range(wait_for(&spin, 10000, true), 5000, 9999);
	assert_int_equal(wait_for(&spin, 1000, true), 1000);
	/* a spin in vain costs little now */
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
