/* The helper: one thread, two lists.
 *
 * What waits is run in the order in which it was posted; what has been run waits for the loop to see it. The lock is
 * never held while something runs, and what was posted belongs to the helper from then until its done is called. It
 * has no queue of its own to be in, no priority and no deadline: that is what the workers' pools are for. */
#include "daemon/helper.h"

#include "daemon/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct inf_helper {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct et_list_node waiting, done;
	bool is_stopping;
	void (*notify)(void *self);
	void *self;
	pthread_t id;
};

static void *helper_main(void *arg)
{
	struct inf_helper *helper = arg;
	pthread_mutex_lock(&helper->lock);
	for (;;) {
		while (et_list_is_empty(&helper->waiting) && !helper->is_stopping)
			pthread_cond_wait(&helper->changed, &helper->lock);
		if (helper->is_stopping)
			break;
		struct inf_work *w = ET_CONTAINER_OF(helper->waiting.next, struct inf_work, node);
		et_list_remove(&w->node);
		pthread_mutex_unlock(&helper->lock);
		w->run(w);
		pthread_mutex_lock(&helper->lock);
		et_list_append(&helper->done, &w->node);
		helper->notify(helper->self);
	}
	pthread_mutex_unlock(&helper->lock);
	return NULL;
}

int inf_helper_new(struct inf_helper **ret_helper, void (*notify)(void *self), void *self)
{
	struct inf_helper *helper = calloc(1, sizeof(*helper));
	if (!helper)
		return -ENOMEM;
	pthread_mutex_init(&helper->lock, NULL);
	pthread_cond_init(&helper->changed, NULL);
	et_list_init(&helper->waiting);
	et_list_init(&helper->done);
	helper->notify = notify;
	helper->self = self;
	int rc = inf_thread_start(&helper->id, helper_main, helper, "helper");
	if (rc < 0) {
		pthread_cond_destroy(&helper->changed);
		pthread_mutex_destroy(&helper->lock);
		free(helper);
		return rc;
	}
	*ret_helper = helper;
	return 0;
}

struct inf_helper *inf_helper_free(struct inf_helper *helper)
{
	if (!helper)
		return NULL;
	pthread_mutex_lock(&helper->lock);
	helper->is_stopping = true;
	pthread_cond_signal(&helper->changed);
	pthread_mutex_unlock(&helper->lock);
	pthread_join(helper->id, NULL);
	pthread_cond_destroy(&helper->changed);
	pthread_mutex_destroy(&helper->lock);
	free(helper);
	return NULL;
}

void inf_helper_post(struct inf_helper *helper, struct inf_work *work)
{
	pthread_mutex_lock(&helper->lock);
	et_list_append(&helper->waiting, &work->node);
	pthread_cond_signal(&helper->changed);
	pthread_mutex_unlock(&helper->lock);
}

void inf_helper_reap(struct inf_helper *helper)
{
	for (;;) {
		pthread_mutex_lock(&helper->lock);
		struct inf_work *w = NULL;
		if (!et_list_is_empty(&helper->done)) {
			w = ET_CONTAINER_OF(helper->done.next, struct inf_work, node);
			et_list_remove(&w->node);
		}
		pthread_mutex_unlock(&helper->lock);
		if (!w)
			return;
		w->done(w);
	}
}
