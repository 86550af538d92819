/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of runs on a device: who waits for whom, and that nobody waits for ever. */
#include "delegates/opencl/turns.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

enum {
	IDLE = INFERD_DELEGATE_PRIORITY_IDLE,
	BATCH = INFERD_DELEGATE_PRIORITY_BATCH,
	INTERACTIVE = INFERD_DELEGATE_PRIORITY_INTERACTIVE,
	REALTIME = INFERD_DELEGATE_PRIORITY_REALTIME
};

static atomic_bool is_not_cancelled, is_cancelled = true;

static void init(struct ocl_device *device)
{
	pthread_condattr_t monotonic;
	*device = (struct ocl_device){ .cl = NULL };
	pthread_mutex_init(&device->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&device->turn_changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static void deinit(struct ocl_device *device)
{
	pthread_cond_destroy(&device->turn_changed);
	pthread_mutex_destroy(&device->lock);
}

/* Alone, beside equals and beside lower ones a run goes on. One whose priority is not known does, too. */
static void test_goes_on(void **state)
{
	struct ocl_device device;
	init(&device);
	for (uint32_t i = 0; i < OCL_N_PRIORITIES; i++)
		assert_int_equal(ocl_turn_wait(&device, i, &is_not_cancelled), 0);
	ocl_turn_begin(&device, BATCH);
	ocl_turn_begin(&device, BATCH);
	assert_int_equal(ocl_turn_wait(&device, BATCH, &is_not_cancelled), 0);
	assert_int_equal(ocl_turn_wait(&device, INTERACTIVE, &is_not_cancelled), 0);
	assert_int_equal(ocl_turn_wait(&device, INFERD_DELEGATE_PRIORITY_UNKNOWN, &is_not_cancelled), 0);
	ocl_turn_begin(&device, 1000); /* as the highest */
	assert_int_equal(ocl_turn_wait(&device, REALTIME, &is_not_cancelled), 0);
	ocl_turn_end(&device, 1000);
	ocl_turn_end(&device, BATCH);
	ocl_turn_end(&device, BATCH);
	assert_int_equal(ocl_turn_wait(&device, IDLE, &is_not_cancelled), 0);
	deinit(&device);
}

/* A higher run does not end: a lower one goes on after a while, a cancelled one at once. */
static void test_goes_on_in_the_end(void **state)
{
	struct ocl_device device;
	init(&device);
	ocl_turn_begin(&device, REALTIME);
	assert_true(ocl_turn_wait(&device, INTERACTIVE, &is_not_cancelled) >= OCL_MAX_TURN_NS);
	assert_true(ocl_turn_wait(&device, IDLE, &is_not_cancelled) >= OCL_MAX_TURN_NS);
	ocl_turn_wait(&device, IDLE, &is_cancelled);
	ocl_turn_end(&device, REALTIME);
	deinit(&device);
}

static void *end_it(void *device)
{
	ocl_turn_end(device, REALTIME);
	return NULL;
}

static void test_is_woken(void **state)
{
	struct ocl_device device;
	pthread_t thread;
	init(&device);
	for (int i = 0; i < 200; i++) {
		ocl_turn_begin(&device, REALTIME);
		assert_int_equal(pthread_create(&thread, NULL, end_it, &device), 0);
		ocl_turn_wait(&device, BATCH, &is_not_cancelled);
		ocl_turn_wake(&device);
		pthread_join(thread, NULL);
		assert_int_equal(ocl_turn_wait(&device, BATCH, &is_not_cancelled), 0);
	}
	deinit(&device);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_goes_on), cmocka_unit_test(test_goes_on_in_the_end),
		cmocka_unit_test(test_is_woken) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
