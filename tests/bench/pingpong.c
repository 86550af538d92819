/* SPDX-License-Identifier: BSD-3-Clause */
/* Measure the floor under each request: one small packet to another process and back, over the same kind of socket
 * as inferd's, blocking, with no other work. bench.py states inferd's own cost as a multiple of this, because this
 * part depends on the machine and its kernel.
 *
 *     pingpong [ROUNDS [CORE CORE]]      prints {"p50_us": ..., "min_us": ..., "p99_us": ...}
 *
 * The cores of the two processes matter most: a wake-up on the same core is a context switch; a wake-up on another
 * core that is halted takes an interrupt and more. Without CORE the kernel chooses, as it does for inferd and its
 * clients. */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PACKET = 128, WARM_UP = 500 };

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Run on that core alone, if one is given. */
static bool go_to(const char *core)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	if (!core)
		return true;
	CPU_SET(strtoul(core, NULL, 10), &set);
	return sched_setaffinity(0, sizeof set, &set) == 0;
}

int main(int argc, char **argv)
{
	long n_rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 5000;
	if (n_rounds < 1 || n_rounds > 10000000 || argc == 3) {
		fprintf(stderr, "usage: pingpong [ROUNDS [CORE CORE]]\n");
		return 2;
	}
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		perror("socketpair");
		return 1;
	}
	char packet[PACKET] = { 0 };
	pid_t child = fork();
	if (child < 0) {
		perror("fork");
		return 1;
	}
	if (child == 0) {
		close(ends[0]);
		if (!go_to(argc > 3 ? argv[3] : NULL))
			_exit(1);
		while (recv(ends[1], packet, sizeof packet, 0) > 0)
			if (send(ends[1], packet, sizeof packet, 0) < 0)
				_exit(1);
		_exit(0);
	}
	close(ends[1]);
	if (!go_to(argc > 3 ? argv[2] : NULL)) {
		perror("sched_setaffinity");
		return 1;
	}

	uint64_t *times = calloc((size_t)n_rounds, sizeof *times);
	int rc = times ? 0 : 1;
	for (long i = -WARM_UP; !rc && i < n_rounds; i++) {
		uint64_t start = now_ns();
		if (send(ends[0], packet, sizeof packet, 0) < 0 || recv(ends[0], packet, sizeof packet, 0) <= 0)
			rc = 1;
		if (i >= 0)
			times[i] = now_ns() - start;
	}
	close(ends[0]);
	waitpid(child, NULL, 0);
	if (rc == 0) {
		qsort(times, (size_t)n_rounds, sizeof *times, compare);
		printf("{\"p50_us\": %.3f, \"min_us\": %.3f, \"p99_us\": %.3f}\n", (double)times[n_rounds / 2] / 1e3,
			(double)times[0] / 1e3, (double)times[n_rounds * 99 / 100] / 1e3);
	}
	free(times);
	return rc;
}
