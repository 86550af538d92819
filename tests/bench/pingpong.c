/* The floor under every request: one small packet there and back between two processes over the same kind of
 * socket that inferd uses, blocking, with nothing else done. What inferd adds to a run is stated as a multiple of
 * this, since it is the part that the machine and its kernel decide.
 *
 *     pingpong [ROUNDS]      prints {"p50_us": …, "min_us": …, "p99_us": …} */
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

int main(int argc, char **argv)
{
	long n_rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 5000;
	if (n_rounds < 1 || n_rounds > 10000000) {
		fprintf(stderr, "usage: pingpong [ROUNDS]\n");
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
		while (recv(ends[1], packet, sizeof packet, 0) > 0)
			if (send(ends[1], packet, sizeof packet, 0) < 0)
				_exit(1);
		_exit(0);
	}
	close(ends[1]);

	uint64_t *times = calloc((size_t)n_rounds, sizeof *times);
	int rc = times ? 0 : 1;
	for (long i = -WARM_UP; !rc && i < n_rounds; i++) {
		uint64_t start = now_ns();
		if (send(ends[0], packet, sizeof packet, 0) < 0 ||
			recv(ends[0], packet, sizeof packet, 0) <= 0)
			rc = 1;
		if (i >= 0)
			times[i] = now_ns() - start;
	}
	close(ends[0]);
	waitpid(child, NULL, 0);
	if (rc == 0) {
		qsort(times, (size_t)n_rounds, sizeof *times, compare);
		printf("{\"p50_us\": %.3f, \"min_us\": %.3f, \"p99_us\": %.3f}\n",
			(double)times[n_rounds / 2] / 1e3, (double)times[0] / 1e3,
			(double)times[n_rounds * 99 / 100] / 1e3);
	}
	free(times);
	return rc;
}
