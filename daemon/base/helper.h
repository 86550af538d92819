/* SPDX-License-Identifier: BSD-3-Clause */
/* Helper: threads for slow work that would hold up the loop.
 *
 * Most of it is done by one thread, one piece after the other, in turn for all who have asked for something. What may
 * block as long as a client likes, reading a file from a file system of the client's or making a program of the client's
 * ready to run, is done by others, a piece at a time for each client's user, so that nobody waits for anybody else's. */
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
	const void *whose;                   /* this and the next one are the helper's */
	uint64_t round;
};

/* Threads for foreign work, of which each owner keeps one at the most; they are started when there is some. */
enum { INF_HELPER_MAX_UPLOADED = 64 };

/* @notify is called on a helper's thread when inf_helper_reap has something to do. */
int inf_helper_new(struct inf_helper **ret_helper, void (*notify)(void *self), void *self);
/* Waits for the pieces at hand; those that have not begun are dropped, neither run nor done called.
 * NULL is fine; returns NULL. */
struct inf_helper *inf_helper_free(struct inf_helper *helper);
/* Runs @work after all of @whose (NULL: the daemon's) that was posted so before. Where several have work they take turns, a
 * piece each, so that who has a thousand does not keep who has one waiting for more than two. */
void inf_helper_post(struct inf_helper *helper, struct inf_work *work, const void *whose);
/* Runs @work, which is short and does no more than give something back, before all that was posted as above and has not
 * begun, and after what was posted so before. */
void inf_helper_post_leaving(struct inf_helper *helper, struct inf_work *work);
/* Runs @work on a thread for such, after all of @whose (NULL: the daemon's) that was posted so before. */
void inf_helper_post_for_user(struct inf_helper *helper, struct inf_work *work, const void *whose);
/* Call done of what has been run. On one thread, the loop's. */
void inf_helper_reap(struct inf_helper *helper);
/* Whether all that was posted is done: inf_helper_free would not wait. On the thread that reaps. */
bool inf_helper_is_idle(struct inf_helper *helper);
/* Since when the daemon's own thread has been in one piece of work; 0: it is idle. Any thread. */
uint64_t inf_helper_busy_since(const struct inf_helper *helper);

#endif
