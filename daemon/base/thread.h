/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread: starting the daemon's threads. */
#ifndef DAEMON_BASE_THREAD_H
#define DAEMON_BASE_THREAD_H

#include <pthread.h>

/* Start a thread called @name (at most 15 characters) that runs @run with @arg. 0, or negative errno. */
int inf_thread_start(pthread_t *ret_id, void *(*run)(void *), void *arg, const char *name);

#endif
