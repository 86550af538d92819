/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting threads.
 *
 * Signals belong to the loop thread: a thread that starts here blocks all of them except for those that its own
 * faults raise. Every thread of the daemon starts here, so that none of them lacks that mask. */
#include "daemon/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

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

uint32_t inf_n_cores(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return (uint32_t)CPU_COUNT(&set);
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (uint32_t)n : 1;
}
