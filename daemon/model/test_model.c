/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's states, and its instances on several workers: for which of them it waits before it is READY. The
 * delegate here makes each context when it is told to, or fails. */
#include "daemon/model/model.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/support/method_rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N_WORKERS = 2 };
enum order { WAIT, MAKE, FAIL, BREAK };

struct et_worker_threads {
	int unused;
};
struct et_instance {
	int unused;
};

/* Shared by all threads of a test. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum order orders[8]; /* for the first context, the second, ... */
static uint32_t n_asked, n_instances, n_held, n_notes;
static bool may_go;
static _Atomic(uint64_t) n_measured;

static uint32_t n_devices(const struct et_backend *backend)
{
	return 1;
}

static void device(const struct et_backend *backend, uint32_t index, struct et_device *ret_device)
{
	ret_device->kind = ET_QUEUE_CPU;
}

static enum et_status compile(struct et_backend *backend, const struct et_payload *payload, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag)
{
	ret_info->n_inputs = ret_info->n_outputs = 1;
	*ret_model = (struct et_model *)backend;
	return ET_OK;
}

static void model_free(struct et_model *model)
{
}

static enum et_status threads_new(struct et_backend *backend, uint32_t index, uint32_t n_threads,
	struct et_worker_threads **ret_threads, struct et_diag *diag)
{
	*ret_threads = calloc(1, sizeof(**ret_threads));
	return *ret_threads ? ET_OK : ET_E_MEMORY_ALLOCATION_FAILED;
}

static void threads_free(struct et_worker_threads *threads)
{
	free(threads);
}

static enum et_status instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	pthread_mutex_lock(&lock);
	uint32_t i = n_asked++;
	assert_true(i < ET_ARRAY_LEN(orders));
	pthread_cond_broadcast(&changed);
	while (orders[i] == WAIT)
		pthread_cond_wait(&changed, &lock);
	enum order what = orders[i];
	n_instances += what == MAKE;
	pthread_mutex_unlock(&lock);
	if (what == BREAK)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "it is broken");
	if (what == FAIL)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES, "no room on the device");
	*ret_instance = calloc(1, sizeof(**ret_instance));
	return ET_OK;
}

static void instance_free(struct et_instance *instance)
{
	pthread_mutex_lock(&lock);
	n_instances--;
	pthread_mutex_unlock(&lock);
	free(instance);
}

/* Grows with each call. */
static uint64_t threads_bytes(const struct et_worker_threads *threads)
{
	return atomic_fetch_add(&n_measured, 1) * 1000;
}

static const struct et_delegate_ops ops = {
	.id = "TestBackend",
	.name = "test",
	.n_devices = n_devices,
	.device = device,
	.compile = compile,
	.model_free = model_free,
	.threads_new = threads_new,
	.threads_free = threads_free,
	.threads_bytes = threads_bytes,
	.instance_new = instance_new,
	.instance_free = instance_free,
};

static struct method_rig rig;
static struct inf_queues queues;
static struct inf_model *model;
static int n_loaded, n_unloaded;

static void loaded(void *self, struct inf_model *s)
{
	n_loaded++;
}

static void unloaded(void *self, struct inf_model *s)
{
	n_unloaded++;
}

static void notify(void *whom)
{
	pthread_mutex_lock(&lock);
	n_notes++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void free_later(void *self, struct et_program *program, struct et_plan *plan, uint64_t n_bytes,
	void (*gone)(void *arg), void *arg)
{
	et_plan_unref(plan);
	et_program_unref(program);
}

static const struct inf_model_events events = { NULL, loaded, unloaded, notify, NULL, NULL, free_later };

static enum inf_segment_end run(void *self, struct inf_item *item, struct inf_worker *worker)
{
	return INF_SEGMENT_ENDED;
}

static void ended(void *self, struct inf_item *item, struct inf_worker *worker)
{
}

static const struct inf_pool_events pool_events = { .run = run, .finished = ended, .left = ended, .expired = ended };

static char warning[200];
static int n_warnings;

static void note_log(void *self, enum et_log_level level, const char *text)
{
	if (level != ET_LOG_WARNING)
		return;
	n_warnings++;
	snprintf(warning, sizeof(warning), "%s", text);
}

enum what { COPIES, IS_DELEGATED, IS_SERIES };

static int make(enum what what)
{
	static struct make_program mk;
	static const struct et_log log = { .max_level = ET_LOG_WARNING, .write = note_log };
	const bool is_delegated = what == IS_DELEGATED;
	struct et_diag diag = { "" };
	memset(&rig, 0, sizeof(rig));
	memset(orders, 0, sizeof(orders));
	n_asked = n_held = n_notes = 0;
	n_loaded = n_unloaded = n_warnings = 0;
	may_go = false;
	atomic_store(&n_measured, 0);
	rig.backends[0] = (struct et_backend_entry){ &ops, (struct et_backend *)&rig };
	rig.n_backends = 1;
	rig_init(&rig);
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_arena(&mk, 128);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(8), .arena = 1 });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(8), .arena = 1, .offset = 32 });
	mk_input(&mk, x);
	mk_output(&mk, what == COPIES ? x : y);
	if (what == IS_SERIES)
		mk_kernel(&mk, mk_operator(&mk, "test::series", ""), MK_ARGS(x, y));
	if (is_delegated)
		mk_call(&mk, mk_delegate(&mk, "TestBackend", "5", 1, false, NULL, NULL), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	const struct inf_pool_options options = {
		.n_workers = N_WORKERS, .registry = &rig.registry, .log = &log, .allocator = et_platform_allocator()
	};
	queues = (struct inf_queues){ .n = 1 };
	if (inf_pool_new(&queues.pools[0], &options, &pool_events, &diag))
		fail_msg("%s", diag.text);
	model = inf_model_new(&queues, &events, et_platform_page_allocator(), &log, "m", "1", "forward");
	assert_non_null(model);
	return 0;
}

static int setup(void **state)
{
	return make(IS_DELEGATED);
}

static int setup_without_instances(void **state)
{
	return make(COPIES);
}

static int setup_series(void **state)
{
	return make(IS_SERIES);
}

static int teardown(void **state)
{
	inf_model_unref(model);
	inf_pool_free(queues.pools[0]);
	rig_close(&rig);
	return n_instances != 0;
}

static void begin(void)
{
	inf_model_prepare(model, et_program_ref(rig.program), et_plan_ref(rig.plan));
}

static void order(uint32_t instance, enum order what)
{
	pthread_mutex_lock(&lock);
	orders[instance] = what;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Wait until @n notifications or more have come, and poll, as the loop does. */
static void poll_notes(uint32_t n)
{
	pthread_mutex_lock(&lock);
	while (n_notes < n)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	inf_model_poll(model);
}

static void poll_until(enum inf_model_state state)
{
	for (uint32_t n = 0; model->state != state; n++)
		poll_notes(n);
}

/* Wait until @n instances are or were being made. As long as one is, the other workers' tasks are postponed, and a poll
 * posts them again. */
static void until_asked(uint32_t n)
{
	for (uint32_t asked = 0, notes = 0; asked < n;) {
		pthread_mutex_lock(&lock);
		while (n_notes == notes && n_asked < n)
			pthread_cond_wait(&changed, &lock);
		asked = n_asked;
		notes = n_notes;
		pthread_mutex_unlock(&lock);
		inf_model_poll(model);
	}
}

static void until_tasks_end(void)
{
	for (uint32_t n = 0; model->task_kind != INF_MODEL_TASK_NONE; n++)
		poll_notes(n);
}

/* --- tasks of a worker ------------------------------------------------------------------------------ */

struct errand {
	struct inf_task task;
	enum et_status status;
	bool is_done;
};

static void done(struct errand *errand)
{
	pthread_mutex_lock(&lock);
	errand->is_done = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void ensure(struct inf_task *task, struct inf_worker *worker)
{
	struct errand *errand = ET_CONTAINER_OF(task, struct errand, task);
	struct et_diag diag = { "" };
	errand->status = inf_model_prepare_worker(model, worker, false, &diag);
	done(errand);
}

static void hold(struct inf_task *task, struct inf_worker *worker)
{
	pthread_mutex_lock(&lock);
	n_held++;
	pthread_cond_broadcast(&changed);
	while (!may_go)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	done(ET_CONTAINER_OF(task, struct errand, task));
}

static void post(struct errand *errand, uint32_t worker)
{
	et_list_init(&errand->task.node);
	errand->is_done = false;
	inf_pool_post(queues.pools[0], worker, &errand->task);
}

static void wait_for(const struct errand *errand)
{
	pthread_mutex_lock(&lock);
	while (!errand->is_done)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static enum et_status ensure_on(uint32_t worker)
{
	struct errand errand = { .task.run = ensure };
	post(&errand, worker);
	wait_for(&errand);
	return errand.status;
}

/* --- tests ------------------------------------------------------------------------------------------ */

static void one_worker_is_enough(void **state)
{
	orders[0] = MAKE;
	begin();
	poll_until(INF_MODEL_READY);
	assert_int_equal(n_loaded, 1);
	assert_true(model->task_kind != INF_MODEL_TASK_NONE);
	order(1, MAKE);
	until_tasks_end();
	assert_int_equal(n_instances, N_WORKERS);
	for (uint32_t i = 0; i < N_WORKERS; i++)
		assert_int_equal(ensure_on(i), ET_OK);
	assert_int_equal(n_asked, N_WORKERS);
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
	assert_int_equal(n_instances, 0);
	assert_int_equal(n_loaded, 1);
	assert_int_equal(n_unloaded, 1);
}

/* One worker has no room for its instances, the other has: READY, whichever is seen first. */
static void one_without_room_is_no_failure(void **state)
{
	orders[0] = FAIL;
	begin();
	until_asked(2);
	assert_int_equal(model->state, INF_MODEL_LOADING);
	assert_string_equal(model->reason, "");
	order(1, MAKE);
	poll_until(INF_MODEL_READY);
	assert_int_equal(n_instances, 1);
	assert_int_equal(n_loaded, 1);
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

/* A worker's turn comes when the one before has ended; but a request that reaches it before does not wait for that. */
static void one_after_the_other(void **state)
{
	orders[1] = MAKE;
	begin();
	until_asked(1);
	poll_notes(1); /* the other worker's task came back */
	uint32_t other = inf_model_needs_worker(model, 0, 0) ? 1 : 0;
	for (int i = 0; i < 3; i++) { /* it stays so */
		inf_model_poll(model);
		assert_int_equal(ensure_on(other), ET_OK);
		assert_int_equal(n_asked, 2);
		assert_int_equal(n_instances, 1);
		assert_int_equal(model->state, i ? INF_MODEL_READY : INF_MODEL_LOADING);
	}
	order(0, MAKE);
	until_tasks_end();
	assert_int_equal(n_asked, 2);
	assert_int_equal(n_instances, N_WORKERS);
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

static void one_is_made_after_another_failed(void **state)
{
	orders[0] = FAIL;
	orders[1] = MAKE;
	begin();
	poll_until(INF_MODEL_READY);
	assert_false(inf_load_failure_is_transient(model->failure));
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

static void all_without_room_are_a_failure(void **state)
{
	orders[0] = orders[1] = FAIL;
	begin();
	poll_until(INF_MODEL_FAILED);
	assert_non_null(strstr(model->reason, "no room on the device"));
	assert_int_equal(model->failure, INF_LOAD_FAILURE_NO_MEMORY);
	assert_int_equal(n_instances, 0);
	assert_int_equal(n_loaded, 1);
}

/* A failure that is not transient fails the load at once; instances that other workers make are released again. */
static void what_is_wrong_for_good_is_a_failure(void **state)
{
	orders[0] = BREAK;
	orders[1] = MAKE;
	begin();
	poll_until(INF_MODEL_FAILING);
	assert_non_null(strstr(model->reason, "it is broken"));
	poll_until(INF_MODEL_FAILED);
	assert_false(inf_load_failure_is_transient(model->failure));
	assert_int_equal(n_instances, 0);
	assert_int_equal(n_loaded, 1);
}

static void a_later_one_tries_again(void **state)
{
	orders[0] = MAKE;
	begin();
	poll_until(INF_MODEL_READY);
	order(1, FAIL);
	until_tasks_end();
	assert_int_equal(model->state, INF_MODEL_READY);
	order(2, FAIL);
	order(3, MAKE);
	bool is_first = ensure_on(0) == ET_OK; /* which of the two it was */
	assert_int_equal(ensure_on(1), is_first ? ET_E_OUT_OF_RESOURCES : ET_OK);
	assert_int_equal(ensure_on(is_first), ET_OK);
	assert_int_equal(n_asked, 4);
	assert_int_equal(n_instances, N_WORKERS);
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
	assert_int_equal(n_instances, 0);
}

/* The other worker is in a run that takes long. */
static void a_busy_worker_is_not_waited_for(void **state)
{
	struct errand busy = { .task.run = hold };
	orders[0] = MAKE;
	post(&busy, 1);
	pthread_mutex_lock(&lock);
	while (!n_held)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	begin();
	poll_until(INF_MODEL_READY);
	assert_true(inf_model_needs_worker(model, 0, 0));
	assert_false(inf_model_needs_worker(model, 0, 1));
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
	assert_int_equal(n_asked, 1);
	pthread_mutex_lock(&lock);
	may_go = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	wait_for(&busy);
}

/* The growth of the threads counts for a model with instances; without instances it is another model's. */
static void only_instances_count(void **state)
{
	orders[0] = orders[1] = MAKE;
	begin();
	poll_until(INF_MODEL_READY);
	until_tasks_end();
	assert_true(atomic_load(&n_measured) > 0);
	assert_true(inf_model_use(model).n_instances > 0);
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

static void without_instances_none_count(void **state)
{
	begin();
	poll_until(INF_MODEL_READY);
	until_tasks_end();
	assert_int_equal(n_asked, 0);
	assert_int_equal(atomic_load(&n_measured), 0);
	assert_int_equal(inf_model_use(model).n_instances, 0);
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

static void illegal_moves_are_refused(void **state)
{
	inf_model_set_state(model, INF_MODEL_ABANDONED);
	assert_int_equal(model->state, INF_MODEL_LOADING);
	inf_model_unload(model);
	assert_int_equal(model->state, INF_MODEL_LOADING);
	assert_true(inf_model_is_loading(model) && !inf_model_is_loaded(model));
	begin();
	poll_until(INF_MODEL_READY);
	inf_model_set_state(model, INF_MODEL_UNLOADED);
	assert_int_equal(model->state, INF_MODEL_READY);
	inf_model_set_state(model, INF_MODEL_FAILED);
	assert_int_equal(model->state, INF_MODEL_READY);
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

/* A loaded model stays loaded when its backend is given up or another variant succeeds it, and can be unloaded. */
static void loaded_states_come_back(void **state)
{
	static const enum inf_model_state moves[] = { INF_MODEL_SUPERSEDED, INF_MODEL_READY, INF_MODEL_SUPERSEDED,
		INF_MODEL_ABANDONED, INF_MODEL_READY, INF_MODEL_ABANDONED };
	begin();
	poll_until(INF_MODEL_READY);
	for (size_t i = 0; i < ET_ARRAY_LEN(moves); i++) {
		inf_model_set_state(model, moves[i]);
		assert_int_equal(model->state, moves[i]);
		assert_true(inf_model_is_loaded(model));
	}
	inf_model_set_state(model, INF_MODEL_SUPERSEDED); /* it has lost its backend */
	assert_int_equal(model->state, INF_MODEL_ABANDONED);
	until_tasks_end();
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
	assert_int_equal(n_unloaded, 1);
}

/* A call of a kernel that may take long is said when the model is loaded. */
static void long_calls_are_warned_of(void **state)
{
	begin();
	poll_until(INF_MODEL_READY);
	assert_int_equal(n_warnings, 1);
	assert_non_null(strstr(warning, "model m: one instruction may take about 8 s on one core"));
	until_tasks_end();
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

static void short_calls_are_not_warned_of(void **state)
{
	begin();
	poll_until(INF_MODEL_READY);
	assert_int_equal(n_warnings, 0);
	until_tasks_end();
	inf_model_unload(model);
	poll_until(INF_MODEL_UNLOADED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_worker_is_enough, setup, teardown),
		cmocka_unit_test_setup_teardown(one_without_room_is_no_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(one_after_the_other, setup, teardown),
		cmocka_unit_test_setup_teardown(one_is_made_after_another_failed, setup, teardown),
		cmocka_unit_test_setup_teardown(all_without_room_are_a_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_wrong_for_good_is_a_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(a_later_one_tries_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_busy_worker_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(only_instances_count, setup, teardown),
		cmocka_unit_test_setup_teardown(illegal_moves_are_refused, setup_without_instances, teardown),
		cmocka_unit_test_setup_teardown(loaded_states_come_back, setup_without_instances, teardown),
		cmocka_unit_test_setup_teardown(without_instances_none_count, setup_without_instances, teardown),
		cmocka_unit_test_setup_teardown(long_calls_are_warned_of, setup_series, teardown),
		cmocka_unit_test_setup_teardown(short_calls_are_not_warned_of, setup_without_instances, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
