/* SPDX-License-Identifier: BSD-3-Clause */
/* Run failures: how often the runs of one model have failed in its backend lately, and whether that is too often.
 *
 * Whether a failure is the backend's is decided by who counts it (daemon/model/backends.h). */
#ifndef DAEMON_MODEL_FAILURE_RUN_FAILURES_H
#define DAEMON_MODEL_FAILURE_RUN_FAILURES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INF_RUN_FAILURES_DEFAULT = 5 };
#define INF_RUN_FAILURES_WINDOW_NS UINT64_C(60000000000)

/* `max_failures` and `crash_window` of a backend's section. 0: the defaults above. */
struct inf_run_limit {
	uint32_t max_failures;
	uint64_t window_ns;
};

struct inf_run_failures {
	pthread_mutex_t lock; /* guards what follows */
	uint64_t *times_ns;   /* a ring of n_room */
	uint32_t n_room, n;   /* n: since the ring was made or emptied */
	uint64_t window_ns;
	uint64_t rests_until_ns; /* failures before that time do not count */
	bool is_too_many;
	char reason[320]; /* of the last one */
};

void inf_run_failures_init(struct inf_run_failures *failures);
void inf_run_failures_deinit(struct inf_run_failures *failures);

/* Count a run that failed at @now_ns for @reason, a sentence. True: it made them too many, which
 * inf_run_failures_take tells from now on. Without memory it does not count. Any thread. */
bool inf_run_failures_count(struct inf_run_failures *failures, const struct inf_run_limit *limit, uint64_t now_ns,
	const char *reason);
/* Whether they were too many; then how many, with the last reason, in @text, of @room bytes, and the count begins
 * anew. Any thread. */
bool inf_run_failures_take(struct inf_run_failures *failures, char *text, size_t room);
/* Nothing can be done about them now: count none for the length of the window. Any thread. */
void inf_run_failures_rest(struct inf_run_failures *failures, uint64_t now_ns);
/* The model is tried again: the failures so far do not count. Any thread. */
void inf_run_failures_forget(struct inf_run_failures *failures);

#endif
