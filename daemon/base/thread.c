/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting threads.
 *
 * Signals belong to the loop thread: a thread that starts here blocks all of them except for those that its own
 * faults raise. Every thread of the daemon starts here, so that none of them lacks that mask. */
#include "daemon/base/thread.h"

#include <signal.h>

int inf_thread_start(pthread_t *ret_id, void *(*run)(void *), void *arg, const char *name)
{
	sigset_t all, before;
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(ret_id, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return -rc;
	pthread_setname_np(*ret_id, name);
	return 0;
}
