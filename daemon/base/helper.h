/* SPDX-License-Identifier: BSD-3-Clause */
/* Helper: threads for slow work that would hold up the loop.
 *
 * One own thread does most of the work, piece by piece, taking turns between owners. Work that may block as long as
 * a client likes (reading from the client's own file system, preparing the client's own program), or as long as a large
 * file takes (copying a model of the folder), is done by user threads, one piece at a time for each owner (a user, or a
 * model), so that no owner waits for another owner's work. */
#ifndef DAEMON_BASE_HELPER_H
#define DAEMON_BASE_HELPER_H

#include "runtime/base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct inf_helper;

struct inf_work {
	struct et_list_node node;
	void (*run)(struct inf_work *work);  /* on a helper's thread */
	void (*done)(struct inf_work *work); /* by inf_helper_reap */
	const void *whose;                   /* the owner; this and the next one are the helper's */
	uint64_t round;
};

/* The most user threads; they are started when there is work for them. */
enum { INF_HELPER_MAX_UPLOADED = 64 };

/* @notify is called on a helper's thread when inf_helper_reap has something to do. 0, or negative errno. */
int inf_helper_new(struct inf_helper **ret_helper, void (*notify)(void *self), void *self);
/* Waits for the pieces that run; those that have not begun are dropped without a call of run or done.
 * NULL is fine; returns NULL. */
struct inf_helper *inf_helper_free(struct inf_helper *helper);
/* Run @work on the own thread, after all work of the same owner @whose (NULL: the daemon) that was posted like this
 * before. Owners take turns, one piece each, so that an owner with one piece waits for no more than two pieces of
 * an owner with a thousand. */
void inf_helper_post(struct inf_helper *helper, struct inf_work *work, const void *whose);
/* Run @work, which is short and only frees something, on the own thread: before all work posted with
 * inf_helper_post that has not begun, and after work posted with this call before. */
void inf_helper_post_leaving(struct inf_helper *helper, struct inf_work *work);
/* Run @work on a user thread, after all work of the same owner @whose (NULL: the daemon) that was posted like this
 * before. */
void inf_helper_post_for_user(struct inf_helper *helper, struct inf_work *work, const void *whose);
/* Call done for every piece that was run. Loop thread. */
void inf_helper_reap(struct inf_helper *helper);
/* Whether everything that was posted is done, so that inf_helper_free would not wait. Loop thread. */
bool inf_helper_is_idle(struct inf_helper *helper);
/* Since when the own thread has been in the present piece of work; 0: it is idle. Any thread. */
uint64_t inf_helper_busy_since(const struct inf_helper *helper);

#endif
