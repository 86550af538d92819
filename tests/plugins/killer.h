/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that kills the host processes of a backend, and counts of memory and descriptors to compare afterwards. */
#ifndef TESTS_PLUGINS_KILLER_H
#define TESTS_PLUGINS_KILLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct et_backend;

struct killer {
	struct et_backend *backend;
	uint64_t n_runs; /* runs that a process may begin before it is killed */
	_Atomic(bool) is_over;
	pthread_t thread;
};

/* Kill each process of @backend at a random point of a run, after it was given @n_runs; until killer_stop. */
void killer_start(struct killer *killer, struct et_backend *backend, uint64_t n_runs);
void killer_stop(struct killer *killer);

/* Count the descriptors of this process. */
size_t n_open_files(void);
/* Count the mappings of the living process @pid whose file names contain @name. */
int n_maps(pid_t pid, const char *name);

#endif
