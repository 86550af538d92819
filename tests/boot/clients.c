/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients that go on while the service restarts; test_restarts.py builds this with libinferd-dev alone.
 *
 *     clients MODEL INPUTS OUTPUTS
 *
 * Each client is a thread with a connection that outlasts restarts (reconnect_ms), and sends one request after the
 * other. The files INPUTS and OUTPUTS have one input and one output for each client, one after the other; a client
 * compares each answer with its output, bit by bit. For each line on standard input this program waits until every
 * client has had N_AFTER more answers, then prints how long the longest request since the line before took, in
 * milliseconds. At the end of standard input it prints the number of requests and their median, "1234 15.2". The first
 * request that fails or has a wrong answer ends the program with status 1 and a sentence. */
#include <inferd.h>

#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_CLIENTS = 8, N_AFTER = 2, RECONNECT_MS = 300000, MAX_REQUESTS = 1000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_answered = PTHREAD_COND_INITIALIZER;
/* Guarded by the lock. */
static unsigned n_answers[N_CLIENTS];
static double longest_ms, times_ms[MAX_REQUESTS];
static size_t n_times;

static const char *model;
static char *inputs, *outputs;
static size_t n_input_bytes, n_output_bytes;

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void note(unsigned client, double ms)
{
	pthread_mutex_lock(&lock);
	n_answers[client]++;
	if (ms > longest_ms)
		longest_ms = ms;
	if (n_times < MAX_REQUESTS)
		times_ms[n_times++] = ms;
	pthread_cond_broadcast(&has_answered);
	pthread_mutex_unlock(&lock);
}

static void *be_a_client(void *argument)
{
	unsigned client = *(unsigned *)argument;
	struct inferd_open_options options = { .struct_size = sizeof(options), .reconnect_ms = RECONNECT_MS };
	struct inferd *d = NULL;
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	if (inferd_open_with(&d, &options) < 0 || inferd_method_open(d, &m, model, NULL) < 0 || inferd_bind(m, &b) < 0)
		errx(1, "client %u: %s", client, inferd_error(d));
	if (inferd_input_info(m, 0)->n_bytes != n_input_bytes || inferd_output_info(m, 0)->n_bytes != n_output_bytes)
		errx(1, "client %u: the files have other sizes than the model", client);
	memcpy(inferd_input(b, 0), inputs + client * n_input_bytes, n_input_bytes);
	for (;;) {
		double began_ms = now_ms();
		memset(inferd_output(b, 0), 0xff, n_output_bytes);
		if (inferd_infer(b, NULL) < 0)
			errx(1, "client %u: after %u answers: %s", client, n_answers[client], inferd_error(d));
		if (memcmp(inferd_output(b, 0), outputs + client * n_output_bytes, n_output_bytes) != 0)
			errx(1, "client %u: a wrong answer after %u right ones", client, n_answers[client]);
		note(client, now_ms() - began_ms);
	}
}

/* The whole file, which has the same number of bytes for each client. */
static char *read_file(const char *path, size_t *ret_n_bytes_each)
{
	FILE *f = fopen(path, "rb");
	long n;
	char *bytes;
	if (!f || fseek(f, 0, SEEK_END) < 0 || (n = ftell(f)) <= 0 || n % N_CLIENTS)
		errx(1, "%s can't be read, or is not for %d clients", path, N_CLIENTS);
	rewind(f);
	bytes = malloc((size_t)n);
	if (!bytes || fread(bytes, 1, (size_t)n, f) != (size_t)n)
		err(1, "%s", path);
	fclose(f);
	*ret_n_bytes_each = (size_t)n / N_CLIENTS;
	return bytes;
}

static double wait_for_all(void)
{
	unsigned before[N_CLIENTS];
	double longest;
	pthread_mutex_lock(&lock);
	memcpy(before, n_answers, sizeof(before));
	for (unsigned i = 0; i < N_CLIENTS; i++)
		while (n_answers[i] - before[i] < N_AFTER)
			pthread_cond_wait(&has_answered, &lock);
	longest = longest_ms;
	longest_ms = 0;
	pthread_mutex_unlock(&lock);
	return longest;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static unsigned index[N_CLIENTS];
	pthread_t thread;
	char line[64];
	if (argc != 4)
		errx(2, "usage: clients MODEL INPUTS OUTPUTS");
	model = argv[1];
	inputs = read_file(argv[2], &n_input_bytes);
	outputs = read_file(argv[3], &n_output_bytes);
	for (unsigned i = 0; i < N_CLIENTS; i++) {
		index[i] = i;
		if (pthread_create(&thread, NULL, be_a_client, &index[i]) != 0)
			errx(1, "can't make a thread");
	}
	while (fgets(line, sizeof(line), stdin)) {
		printf("%.1f\n", wait_for_all());
		fflush(stdout);
	}
	pthread_mutex_lock(&lock); /* and keep it: the other threads end with the process */
	qsort(times_ms, n_times, sizeof(*times_ms), by_value);
	printf("%zu %.1f\n", n_times, n_times ? times_ms[n_times / 2] : 0);
	return 0;
}
