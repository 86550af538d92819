/* Helper: one thread for slow work, one piece after the other: reading folders, compiling, letting go of memory. */
#ifndef DAEMON_HELPER_H
#define DAEMON_HELPER_H

#include "runtime/base/list.h"

struct inf_helper;

struct inf_work {
	struct et_list_node node;
	void (*run)(struct inf_work *work);  /* on the helper's thread */
	void (*done)(struct inf_work *work); /* by inf_helper_reap */
};

/* @notify is called on the helper's thread when inf_helper_reap has something to do. */
int inf_helper_new(struct inf_helper **ret_helper, void (*notify)(void *self), void *self);
/* Waits for the piece at hand; those that have not begun are dropped, neither run nor done called.
 * NULL is fine; returns NULL. */
struct inf_helper *inf_helper_free(struct inf_helper *helper);
/* Runs @work after all that was posted before. */
void inf_helper_post(struct inf_helper *helper, struct inf_work *work);
/* Call done of what has been run. On one thread, the loop's. */
void inf_helper_reap(struct inf_helper *helper);

#endif
