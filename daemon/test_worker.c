/* A guest on a worker's lanes: the worker stays off them, whatever wakes it. */
#include "daemon/worker.h"

#include "runtime/base/checked.h"
#include "runtime/host/host.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N_ROUNDS = 200, N_LOOKS = 200 };

struct world {
	struct inf_pool *pool;
	struct inf_group group;
	struct inf_flow flow;
	struct inf_item item;
	struct inf_task task;
	pthread_t loop;
	_Atomic(bool) is_guest_in, has_met;
	_Atomic(uint32_t) n_tasks, n_ended, n_guests;
};

static void run_task(struct inf_task *task, struct inf_worker *worker)
{
	struct world *w = ET_CONTAINER_OF(task, struct world, task);
	if (atomic_load(&w->is_guest_in))
		atomic_store(&w->has_met, true);
	atomic_fetch_add(&w->n_tasks, 1);
}

/* As a guest: have the worker woken, and give it time to come. */
static enum inf_segment_end run_item(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct world *w = self;
	if (!pthread_equal(pthread_self(), w->loop))
		return INF_SEGMENT_ENDED;
	atomic_store(&w->is_guest_in, true);
	et_list_init(&w->task.node);
	inf_pool_post(w->pool, worker->index, &w->task);
	for (int i = 0; i < N_LOOKS && !atomic_load(&w->has_met); i++)
		sched_yield();
	atomic_store(&w->is_guest_in, false);
	atomic_fetch_add(&w->n_guests, 1);
	return INF_SEGMENT_ENDED;
}

static void finished(void *self, struct inf_item *item, struct inf_worker *worker)
{
	struct world *w = self;
	atomic_fetch_add(&w->n_ended, 1);
}

static void never(void *self, struct inf_item *item, struct inf_worker *worker)
{
	fail();
}

static void test_guest_is_alone(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	assert_non_null(w);
	const struct et_registry registry = { 0 };
	const struct et_log log = { 0 };
	const struct inf_pool_options options = {
		.n_workers = 1, .registry = &registry, .log = &log, .allocator = et_host_allocator()
	};
	const struct inf_pool_events events = {
		.self = w, .run = run_item, .finished = finished, .left = never, .expired = never
	};
	struct et_diag diag = { 0 };
	w->loop = pthread_self();
	w->task.run = run_task;
	assert_int_equal(inf_pool_new(&w->pool, &options, &events, &diag), 0);
	inf_group_init(&w->group, 1);
	inf_flow_init(&w->flow, &w->group, 1);
	for (uint32_t i = 0; atomic_load(&w->n_guests) < N_ROUNDS;
		i++) { /* if the worker was busy, it ran there */
		w->item = (struct inf_item){ .flow = &w->flow, .class = INF_CLASS_INTERACTIVE };
		uint32_t n_guests = atomic_load(&w->n_guests);
		bool was_here = inf_pool_submit_quick(w->pool, &w->item);
		assert_int_equal(atomic_load(&w->n_guests) - n_guests, was_here);
		while (atomic_load(&w->n_ended) <= i || atomic_load(&w->n_tasks) < atomic_load(&w->n_guests))
			sched_yield();
	}
	assert_false(atomic_load(&w->has_met));
	inf_pool_free(w->pool);
	free(w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guest_is_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
