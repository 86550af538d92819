/* SPDX-License-Identifier: BSD-3-Clause */
/* Kill host processes.
 *
 * A process is killed only after it was given some runs since it was first seen. Without that, every new process
 * would be killed before it could answer anything. */
#include "tests/plugins/killer.h"

#include "delegates/plugin/proxy/plugin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void *killer_main(void *arg)
{
	struct killer *k = arg;
	uint32_t n_starts = 0;
	uint64_t n_runs = 0;
	while (!k->is_over) {
		struct et_plugin_state now;
		et_plugin_state(k->backend, &now);
		if (now.n_starts != n_starts) {
			n_starts = now.n_starts;
			n_runs = now.n_runs;
		}
		if (now.pid && now.n_runs >= n_runs + k->n_runs)
			kill(now.pid, SIGKILL);
		sched_yield();
	}
	return NULL;
}

void killer_start(struct killer *killer, struct et_backend *backend, uint64_t n_runs)
{
	killer->backend = backend;
	killer->n_runs = n_runs;
	killer->is_over = false;
	assert_int_equal(pthread_create(&killer->thread, NULL, killer_main, killer), 0);
}

void killer_stop(struct killer *killer)
{
	killer->is_over = true;
	pthread_join(killer->thread, NULL);
}

size_t n_open_files(void)
{
	size_t n = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

int n_maps(pid_t pid, const char *name)
{
	char path[64], line[600];
	int n = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof line, file))
		n += strstr(line, name) != NULL;
	fclose(file);
	return n;
}
