/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients that keep the daemon busy, or are idle, and a report of what each client got.
 *
 *     load SOCKET SECONDS MODEL CLIENTS...
 *
 * CLIENTS is COUNT[:PRIORITY[:WEIGHT[:IN_FLIGHT]]]: so many connections, each with its own Method of MODEL, and with
 * IN_FLIGHT bindings and so requests in flight (default 1; 0: one request at the start, then idle). Each client is a
 * thread. The program prints "ready" when all clients have had their first answer, and after SECONDS of requests the
 * result as JSON:
 *
 *     {"seconds", "requests_per_s", "p50_us", "p90_us", "p99_us", "min_us", "max_us",
 *      "clients": [{"priority", "weight", "requests", "run_ms", "p50_us", "p99_us"}, ...]}
 *
 * run_ms is the computing time of the client's requests, as the daemon reports it. The connections stay open until
 * standard input ends, so that the caller can look at the daemon meanwhile. Inputs are zeros. */
#include "clients/inferd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 4096, MAX_IN_FLIGHT = 64 };

struct client {
	const char *socket, *model;
	const char *priority_name;
	struct inferd_request_options options;
	unsigned weight, n_in_flight;
	pthread_t thread;
	struct inferd *d;
	struct inferd_binding *bindings[MAX_IN_FLIGHT];
	uint64_t started_ns[MAX_IN_FLIGHT];
	uint64_t run_ns;
	uint64_t *latency_ns;
	size_t n_done, room;
};

static pthread_barrier_t barrier;
static _Atomic(uint64_t) end_ns;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const struct client *c)
{
	fprintf(stderr, "load: %s\n", c->d ? inferd_error(c->d) : "out of memory");
	exit(1);
}

static void note(struct client *c, struct inferd_binding *b, uint64_t latency_ns)
{
	struct inferd_timing timing;
	if (c->n_done == c->room) {
		c->room = c->room ? 2 * c->room : 4096;
		c->latency_ns = realloc(c->latency_ns, c->room * sizeof *c->latency_ns);
		if (!c->latency_ns)
			abort();
	}
	inferd_last_timing(b, &timing);
	c->run_ns += timing.run_ns;
	c->latency_ns[c->n_done++] = latency_ns;
}

static void open_client(struct client *c)
{
	struct inferd_open_options options = {
		.struct_size = sizeof options, .socket = c->socket, .weight = c->weight
	};
	struct inferd_method *m = NULL;
	if (inferd_open_with(&c->d, &options) < 0 || inferd_method_open(c->d, &m, c->model, NULL) < 0)
		fail(c);
	for (unsigned i = 0; i < (c->n_in_flight ? c->n_in_flight : 1); i++)
		if (inferd_bind(m, &c->bindings[i]) < 0 || inferd_infer(c->bindings[i], &c->options) < 0)
			fail(c);
}

static void done(struct inferd_binding *b, int status, void *userdata)
{
	struct client *c = userdata;
	uint64_t now = now_ns();
	unsigned i = 0;
	while (c->bindings[i] != b)
		i++;
	if (status < 0)
		fail(c);
	if (now >= end_ns) {
		c->started_ns[i] = 0;
		return;
	}
	note(c, b, now - c->started_ns[i]);
	c->started_ns[i] = now;
	if (inferd_infer_async(b, &c->options, done, c) < 0)
		fail(c);
}

static void run_many(struct client *c)
{
	unsigned n_left;
	for (unsigned i = 0; i < c->n_in_flight; i++) {
		c->started_ns[i] = now_ns();
		if (inferd_infer_async(c->bindings[i], &c->options, done, c) < 0)
			fail(c);
	}
	do {
		if (inferd_wait(c->d, -1) < 0)
			fail(c);
		n_left = 0;
		for (unsigned i = 0; i < c->n_in_flight; i++)
			n_left += c->started_ns[i] != 0;
	} while (n_left);
}

static void run_one(struct client *c)
{
	for (uint64_t before = now_ns(), after; before < end_ns; before = after) {
		if (inferd_infer(c->bindings[0], &c->options) < 0)
			fail(c);
		after = now_ns();
		if (after < end_ns)
			note(c, c->bindings[0], after - before);
	}
}

static void *client_main(void *arg)
{
	struct client *c = arg;
	open_client(c);
	pthread_barrier_wait(&barrier); /* all are there */
	pthread_barrier_wait(&barrier); /* end_ns is set */
	if (c->n_in_flight > 1)
		run_many(c);
	else if (c->n_in_flight)
		run_one(c);
	pthread_barrier_wait(&barrier); /* all have ended */
	pthread_barrier_wait(&barrier); /* the result is out */
	inferd_close(c->d);
	return NULL;
}

/* COUNT[:PRIORITY[:WEIGHT[:IN_FLIGHT]]] */
static unsigned parse(char *text, struct client *ret)
{
	static const char *const names[] = { "interactive", "realtime", "batch", "idle" };
	char *words[4] = { text };
	size_t n = 1;
	unsigned priority = 0;
	for (char *at = text; (at = strchr(at, ':')) && n < 4; n++) {
		*at++ = '\0';
		words[n] = at;
	}
	while (n > 1 && priority < 4 && strcmp(words[1], names[priority]) != 0)
		priority++;
	unsigned count = (unsigned)strtoul(words[0], NULL, 10);
	ret->weight = n > 2 ? (unsigned)strtoul(words[2], NULL, 10) : 0;
	ret->n_in_flight = n > 3 ? (unsigned)strtoul(words[3], NULL, 10) : 1;
	if (priority == 4 || ret->n_in_flight > MAX_IN_FLIGHT)
		return 0;
	ret->priority_name = names[priority];
	ret->options.struct_size = sizeof ret->options;
	ret->options.priority = (enum inferd_priority)priority;
	return count;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static double percentile_us(const uint64_t *sorted, size_t n, size_t percent)
{
	size_t rank = (n * percent + 99) / 100;
	return n ? (double)sorted[rank ? rank - 1 : 0] / 1e3 : 0;
}

static void report(struct client *clients, unsigned n_clients, double seconds)
{
	size_t n = 0;
	for (unsigned i = 0; i < n_clients; i++)
		n += clients[i].n_done;
	uint64_t *all = calloc(n + 1, sizeof *all);
	if (!all)
		abort();
	n = 0;
	for (unsigned i = 0; i < n_clients; i++) {
		struct client *c = &clients[i];
		if (c->n_done) {
			memcpy(all + n, c->latency_ns, c->n_done * sizeof *all);
			qsort(c->latency_ns, c->n_done, sizeof *all, by_value);
		}
		n += c->n_done;
	}
	qsort(all, n, sizeof *all, by_value);
	printf("{\"seconds\": %.3f, \"requests_per_s\": %.2f, \"p50_us\": %.3f, \"p90_us\": %.3f, "
	       "\"p99_us\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f, \"clients\": [",
		seconds, seconds > 0 ? (double)n / seconds : 0, percentile_us(all, n, 50), percentile_us(all, n, 90),
		percentile_us(all, n, 99), percentile_us(all, n, 0), percentile_us(all, n, 100));
	for (unsigned i = 0; i < n_clients; i++) {
		struct client *c = &clients[i];
		printf("%s{\"priority\": \"%s\", \"weight\": %u, \"requests\": %zu, \"run_ms\": %.3f, "
		       "\"p50_us\": %.3f, \"p99_us\": %.3f}",
			i ? ", " : "", c->priority_name, c->weight, c->n_done, (double)c->run_ns / 1e6,
			percentile_us(c->latency_ns, c->n_done, 50), percentile_us(c->latency_ns, c->n_done, 99));
	}
	printf("]}\n");
	free(all);
}

int main(int argc, char **argv)
{
	double seconds = argc > 4 ? strtod(argv[2], NULL) : -1;
	struct client *clients = calloc(MAX_CLIENTS, sizeof *clients);
	unsigned n_clients = 0;
	for (int i = 4; seconds >= 0 && clients && i < argc; i++) {
		struct client one = { .socket = argv[1], .model = argv[3] };
		unsigned count = parse(argv[i], &one);
		if (!count || count > MAX_CLIENTS - n_clients)
			seconds = -1;
		for (unsigned k = 0; seconds >= 0 && k < count; k++)
			clients[n_clients++] = one;
	}
	if (seconds < 0 || !clients) {
		fprintf(stderr, "usage: load SOCKET SECONDS MODEL COUNT[:PRIORITY[:WEIGHT[:IN_FLIGHT]]]...\n");
		return 2;
	}
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	pthread_barrier_init(&barrier, NULL, n_clients + 1);
	for (unsigned i = 0; i < n_clients; i++)
		if (pthread_create(&clients[i].thread, &attr, client_main, &clients[i]) != 0) {
			fprintf(stderr, "load: only %u of %u threads could be started\n", i, n_clients);
			return 1;
		}
	pthread_barrier_wait(&barrier);
	printf("ready\n");
	fflush(stdout);
	uint64_t start_ns = now_ns();
	end_ns = start_ns + (uint64_t)(seconds * 1e9);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	report(clients, n_clients, seconds);
	fflush(stdout);
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < n_clients; i++) {
		pthread_join(clients[i].thread, NULL);
		free(clients[i].latency_ns);
	}
	free(clients);
	return 0;
}
