/* SPDX-License-Identifier: BSD-3-Clause */
/* The priority of a process that runs clients' programs.
 *
 * A run is given a core in turn, but keeps it for as long as one of its instructions takes. Where such runs keep all
 * workers from others, a spare worker serves these (inf_pool_relieve). It brings no core: so that its run is not slowed
 * down by the long ones, their processes get a low priority meanwhile. A process runs programs of one user, whose other
 * runs and programs are slowed down too.
 *
 * The process is not stopped: it has a tenth of a core, so that it comes to its end when others always have something
 * to run. A run that is cancelled does not give way any more, since it has little time until the process is killed.
 *
 * The process leads a process group of its own, so one call reaches all of its threads. Threads that make programs
 * have a low priority of their own (host/low_priority.c), which the call that ends this would take away: it waits
 * until no program is being made.
 *
 * Ending it takes CAP_SYS_NICE, or RLIMIT_NICE as the unit sets it. Without, the process keeps the low priority. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICE = 10 }; /* as in host/low_priority.c: a tenth of a core beside one that has nice 0 */

/* Called under the lock. The number is still the process's: only the watcher has it reaped, after is_ending. */
static void set_nice(struct et_backend *b, int nice)
{
	if (b->process.pid > 0 && b->process.pidfd >= 0 &&
		syscall(SYS_pidfd_send_signal, b->process.pidfd, 0, NULL, 0) == 0)
		setpriority(PRIO_PGRP, (id_t)b->process.pid, getpriority(PRIO_PROCESS, 0) + nice);
}

void et_plugin_give_way(struct et_instance *instance)
{
	struct et_backend *b = et_plugin_instance_backend(instance);
	struct et_plugin_call *call = et_plugin_instance_call(instance);
	struct et_list_node *node, *after;
	if (!b->runs_programs)
		return;
	pthread_mutex_lock(&b->lock);
	ET_LIST_FOR_EACH(node, after, &b->calls) {
		if (node != &call->node || call->gives_way || call->is_hurried || b->is_ending || b->is_gone ||
			!b->process.is_running)
			continue;
		call->gives_way = true;
		b->n_giving_way++;
		if (!b->is_low)
			set_nice(b, NICE);
		b->is_low = true;
	}
	pthread_mutex_unlock(&b->lock);
}

/* Called under the lock. */
static bool makes_programs(const struct et_backend *b)
{
	for (const struct et_list_node *node = b->calls.next; node != &b->calls; node = node->next)
		if (!ET_CONTAINER_OF(node, struct et_plugin_call, node)->run)
			return true;
	return false;
}

void et_plugin_stop_giving_way(struct et_backend *b, struct et_plugin_call *call)
{
	b->n_giving_way -= call->gives_way;
	call->gives_way = false;
	if (!b->is_low || b->n_giving_way || makes_programs(b))
		return;
	set_nice(b, 0);
	b->is_low = false;
}

void et_plugin_process_left(struct et_backend *b)
{
	b->n_giving_way = 0;
	b->is_low = false;
}
