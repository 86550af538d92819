/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow work on other threads than the loop's.
 *
 * The own thread takes its list by rounds: an owner's first piece belongs to the round after the present one, each
 * further piece to the round after the owner's last one. In a round, first come, first served. So no owner gets a
 * second piece done while another owner's first piece waits behind it. Pieces that only free memory are short, and
 * others may wait for that memory: they come before all rounds, in order, whoever their owner is.
 *
 * A user thread takes the first piece of an owner for which no other user thread works. An owner whose file system
 * or program does not answer keeps only one thread, and its other pieces wait behind that. There are as many user
 * threads as owners that had work at the same time, at most INF_HELPER_MAX_UPLOADED; further owners wait. The first
 * piece of an owner wakes one sleeping thread or, if none sleeps, starts one: a thread that was woken and does not
 * run yet is not counted as sleeping for the next owner. Further pieces wake no thread, since a thread that has
 * done one looks for the next. If a thread can't be started, the others do its work; if there is none, the own
 * thread does.
 *
 * What must always be true: a piece of work is in one list, or run by one thread, or the loop's; done is called
 * once for each piece that was run. */
#include "daemon/base/helper.h"

#include "daemon/base/thread.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct helper_thread {
	struct inf_helper *helper;
	bool is_at_work;   /* this and the next one: under the lock */
	const void *whose; /* the owner it works for */
	pthread_t id;
};

struct inf_helper {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed, uploaded_changed;
	struct et_list_node leaving; /* done before those in waiting */
	struct et_list_node waiting; /* by rounds */
	uint64_t round;              /* of the last piece taken */
	struct et_list_node uploaded, done;
	uint32_t n_pieces; /* posted and not done */
	bool is_stopping;
	struct helper_thread threads[INF_HELPER_MAX_UPLOADED];
	uint32_t n_threads; /* user threads */
	uint32_t n_idle;    /* of those: asleep and not woken */
	uint32_t n_woken;   /* wake-ups that no thread has taken yet */

	void (*notify)(void *self);
	void *self;
	pthread_t id;
	_Atomic(uint64_t) busy_since_ns;
};

/* Called under the lock, which it releases while @w runs. */
static void run(struct inf_helper *helper, struct inf_work *w)
{
	pthread_mutex_unlock(&helper->lock);
	w->run(w);
	pthread_mutex_lock(&helper->lock);
	et_list_append(&helper->done, &w->node);
	helper->notify(helper->self);
}

static void *own_main(void *arg)
{
	struct inf_helper *helper = arg;
	pthread_mutex_lock(&helper->lock);
	for (;;) {
		while (et_list_is_empty(&helper->leaving) && et_list_is_empty(&helper->waiting) && !helper->is_stopping)
			pthread_cond_wait(&helper->changed, &helper->lock);
		if (helper->is_stopping)
			break;
		struct inf_work *w;
		if (!et_list_is_empty(&helper->leaving)) {
			w = ET_CONTAINER_OF(helper->leaving.next, struct inf_work, node);
		} else {
			w = ET_CONTAINER_OF(helper->waiting.next, struct inf_work, node);
			helper->round = w->round;
		}
		et_list_remove(&w->node);
		atomic_store_explicit(&helper->busy_since_ns, et_platform_now_ns(NULL), memory_order_relaxed);
		run(helper, w);
		atomic_store_explicit(&helper->busy_since_ns, 0, memory_order_relaxed);
	}
	pthread_mutex_unlock(&helper->lock);
	return NULL;
}

/* Called under the lock. */
static bool is_at_work_for(const struct inf_helper *helper, const void *whose)
{
	for (uint32_t i = 0; i < helper->n_threads; i++)
		if (helper->threads[i].is_at_work && helper->threads[i].whose == whose)
			return true;
	return false;
}

/* Called under the lock: take the first piece that may begin; NULL: none. */
static struct inf_work *take_uploaded(struct inf_helper *helper)
{
	for (struct et_list_node *node = helper->uploaded.next; node != &helper->uploaded; node = node->next) {
		struct inf_work *w = ET_CONTAINER_OF(node, struct inf_work, node);
		if (is_at_work_for(helper, w->whose))
			continue;
		et_list_remove(&w->node);
		return w;
	}
	return NULL;
}

static void *uploaded_main(void *arg)
{
	struct helper_thread *t = arg;
	struct inf_helper *helper = t->helper;
	struct inf_work *w;
	pthread_mutex_lock(&helper->lock);
	while (!helper->is_stopping) {
		w = take_uploaded(helper);
		if (!w) {
			helper->n_idle++;
			while (!helper->n_woken && !helper->is_stopping)
				pthread_cond_wait(&helper->uploaded_changed, &helper->lock);
			if (helper->n_woken)
				helper->n_woken--;
			continue;
		}
		t->whose = w->whose;
		t->is_at_work = true;
		run(helper, w);
		t->is_at_work = false;
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
	pthread_cond_init(&helper->uploaded_changed, NULL);
	et_list_init(&helper->leaving);
	et_list_init(&helper->waiting);
	et_list_init(&helper->uploaded);
	et_list_init(&helper->done);
	helper->notify = notify;
	helper->self = self;
	int rc = inf_thread_start(&helper->id, own_main, helper, "helper");
	if (rc < 0) {
		pthread_cond_destroy(&helper->uploaded_changed);
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
	pthread_cond_broadcast(&helper->uploaded_changed);
	pthread_mutex_unlock(&helper->lock);
	pthread_join(helper->id, NULL);
	for (uint32_t i = 0; i < helper->n_threads; i++)
		pthread_join(helper->threads[i].id, NULL);
	pthread_cond_destroy(&helper->uploaded_changed);
	pthread_cond_destroy(&helper->changed);
	pthread_mutex_destroy(&helper->lock);
	free(helper);
	return NULL;
}

static struct inf_work *work_at(struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct inf_work, node);
}

/* Called under the lock: insert @work into the own thread's list. */
static void append_own(struct inf_helper *helper, struct inf_work *work)
{
	struct et_list_node *node, *head = &helper->waiting;
	work->round = helper->round + 1;
	for (node = head->prev; node != head; node = node->prev)
		if (work_at(node)->whose == work->whose) {
			work->round = work_at(node)->round + 1;
			break;
		}
	node = head->prev;
	while (node != head && work_at(node)->round > work->round)
		node = node->prev;
	et_list_append(node->next, &work->node); /* appending to a node inserts before it */
}

void inf_helper_post(struct inf_helper *helper, struct inf_work *work, const void *whose)
{
	work->whose = whose;
	pthread_mutex_lock(&helper->lock);
	helper->n_pieces++;
	append_own(helper, work);
	pthread_cond_signal(&helper->changed);
	pthread_mutex_unlock(&helper->lock);
}

void inf_helper_post_leaving(struct inf_helper *helper, struct inf_work *work)
{
	pthread_mutex_lock(&helper->lock);
	helper->n_pieces++;
	et_list_append(&helper->leaving, &work->node);
	pthread_cond_signal(&helper->changed);
	pthread_mutex_unlock(&helper->lock);
}

/* Called under the lock: whether a user thread will find a new piece of @whose without being woken. */
static bool is_being_served(const struct inf_helper *helper, const void *whose)
{
	for (const struct et_list_node *node = helper->uploaded.next; node != &helper->uploaded; node = node->next)
		if (ET_CONTAINER_OF(node, struct inf_work, node)->whose == whose)
			return true;
	return is_at_work_for(helper, whose);
}

void inf_helper_post_for_user(struct inf_helper *helper, struct inf_work *work, const void *whose)
{
	work->whose = whose;
	pthread_mutex_lock(&helper->lock);
	helper->n_pieces++;
	if (is_being_served(helper, whose)) {
		et_list_append(&helper->uploaded, &work->node);
		pthread_mutex_unlock(&helper->lock);
		return;
	}
	if (helper->n_idle) {
		helper->n_idle--; /* now, not when it runs: the next piece must wake another one */
		helper->n_woken++;
	} else if (helper->n_threads < INF_HELPER_MAX_UPLOADED) {
		struct helper_thread *t = &helper->threads[helper->n_threads];
		*t = (struct helper_thread){ .helper = helper };
		if (inf_thread_start(&t->id, uploaded_main, t, "helper-files") == 0)
			helper->n_threads++;
	}
	bool is_own = !helper->n_threads;
	if (is_own)
		append_own(helper, work);
	else
		et_list_append(&helper->uploaded, &work->node);
	pthread_cond_signal(is_own ? &helper->changed : &helper->uploaded_changed);
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
			helper->n_pieces--;
		}
		pthread_mutex_unlock(&helper->lock);
		if (!w)
			return;
		w->done(w);
	}
}

bool inf_helper_is_idle(struct inf_helper *helper)
{
	pthread_mutex_lock(&helper->lock);
	bool is_idle = !helper->n_pieces;
	pthread_mutex_unlock(&helper->lock);
	return is_idle;
}

uint64_t inf_helper_busy_since(const struct inf_helper *helper)
{
	return atomic_load_explicit(&helper->busy_since_ns, memory_order_relaxed);
}
