/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting threads.
 *
 * Signals are the loop's: a thread that is started here gets none of them, but for those that its own fault raises.
 * This is the one place in the daemon where threads begin, so that none comes to be without that. */
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
