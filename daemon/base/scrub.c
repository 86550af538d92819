/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that checks persisted weights.
 *
 * It has idle priority for processor and disk, so it takes only what nobody else wants. On a machine that is always
 * busy a check takes long; it does not hold anything up. It sleeps until recheck.c wakes it, now and then: a model may
 * have been loaded, or somebody may have written to a file that was checked before. */
#include "daemon/base/scrub.h"

#include "daemon/base/thread.h"
#include "runtime/platform/platform.h"

#include <linux/ioprio.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct inf_scrub {
	struct et_platform_store *store;
	pthread_t id;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_woken, is_stopping; /* under the lock */
};

/* The thread works with the daemon's priority where a sandbox forbids this. */
static void become_idle(void)
{
	struct sched_param param = { 0 };
	pthread_setschedparam(pthread_self(), SCHED_IDLE, &param);
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

static void *scrub_main(void *arg)
{
	struct inf_scrub *scrub = arg;
	become_idle();
	pthread_mutex_lock(&scrub->lock);
	while (!scrub->is_stopping) {
		if (!scrub->is_woken) {
			pthread_cond_wait(&scrub->changed, &scrub->lock);
			continue;
		}
		scrub->is_woken = false;
		pthread_mutex_unlock(&scrub->lock);
		et_platform_store_check(scrub->store);
		pthread_mutex_lock(&scrub->lock);
	}
	pthread_mutex_unlock(&scrub->lock);
	return NULL;
}

/* Its thread does not run. Returns NULL. */
static struct inf_scrub *destroy(struct inf_scrub *scrub)
{
	pthread_cond_destroy(&scrub->changed);
	pthread_mutex_destroy(&scrub->lock);
	free(scrub);
	return NULL;
}

struct inf_scrub *inf_scrub_new(struct et_platform_store *store, const struct et_log *log)
{
	struct inf_scrub *scrub = calloc(1, sizeof(*scrub));
	int rc = -1;
	if (scrub) {
		scrub->store = store;
		pthread_mutex_init(&scrub->lock, NULL);
		pthread_cond_init(&scrub->changed, NULL);
		rc = inf_thread_start(&scrub->id, scrub_main, scrub, "scrub");
	}
	if (rc == 0)
		return scrub;
	et_logf(log, ET_LOG_WARNING, "packed weights are not checked for damage: no memory or no thread");
	return scrub ? destroy(scrub) : NULL;
}

void inf_scrub_stop(struct inf_scrub *scrub)
{
	if (!scrub)
		return;
	et_platform_store_stop(scrub->store);
	pthread_mutex_lock(&scrub->lock);
	scrub->is_stopping = true;
	pthread_cond_signal(&scrub->changed);
	pthread_mutex_unlock(&scrub->lock);
}

struct inf_scrub *inf_scrub_free(struct inf_scrub *scrub)
{
	if (!scrub)
		return NULL;
	inf_scrub_stop(scrub);
	pthread_join(scrub->id, NULL);
	return destroy(scrub);
}

void inf_scrub_wake(struct inf_scrub *scrub)
{
	if (!scrub)
		return;
	pthread_mutex_lock(&scrub->lock);
	scrub->is_woken = true;
	pthread_cond_signal(&scrub->changed);
	pthread_mutex_unlock(&scrub->lock);
}
