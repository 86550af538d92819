/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker: one thread of a pool, which runs one request at a time.
 *
 * A worker owns worker threads (struct et_worker_threads) of each backend: a set that is one core wide, and in the
 * first worker of a pool also a set over all cores, for a request that is alone. Each set's index in the Plan is
 * its worker_index (see et_plan_prepare). pool.h has the calls.
 *
 * A spare worker serves in the place of one that does not come back from a call, after its request's deadline or
 * cancellation, or beside one that is in one instruction for long while others starve. It makes its instances anew for
 * each request, since loading and unloading a model goes by the other workers. */
#ifndef DAEMON_QUEUE_WORKER_H
#define DAEMON_QUEUE_WORKER_H

#include "daemon/base/reply.h"
#include "runtime/base/list.h"
#include "runtime/method.h"

#include <pthread.h>

struct inf_pool;

struct inf_worker {
	struct inf_pool *pool;
	uint32_t index;
	bool is_spare;                               /* it keeps no instances from one request to the next */
	struct et_worker_env single_core, all_cores; /* all_cores: the first worker's only */
	/* As et_plan_prepare takes them; all_cores_thread_sets is NULL in all workers but the first. */
	struct et_worker_threads **single_core_thread_sets, **all_cores_thread_sets;
	struct inf_reply_buffer reply;
	/* Waiting for a delegate that works in another thread or process. */
	pthread_mutex_t lock; /* guards the members below; no other lock is taken while it is held */
	pthread_cond_t changed;
	bool is_pending; /* `pending` waits for its completion, and may be cancelled */
	bool has_ended;  /* the completion came */
	struct et_run *pending;
};

/* Work for one worker's thread, between requests: preparing and releasing a model's instances. */
struct inf_task {
	struct et_list_node node;
	void (*run)(struct inf_task *task, struct inf_worker *worker);
};

/* Memory, in bytes, that the instances on its thread sets use now, with what they share. Any thread. */
uint64_t inf_worker_threads_bytes(const struct inf_worker *worker);

#endif
