/* SPDX-License-Identifier: BSD-3-Clause */
/* How late calls with a timeout end while the daemon is stopped.
 *
 *     deadlines SOCKET MODEL TIMEOUT_US COUNT
 *
 * The program connects, binds MODEL COUNT times, has one answer from each binding, prints "ready", and reads a line,
 * before which the caller stops the daemon (SIGSTOP). Then each kind of call is made COUNT times, with the timeout: a
 * request that is sent, one that waits in the library behind such a request, connecting, opening a Method, binding. The
 * result is JSON: for each kind the largest and the median lateness beyond the timeout, in milliseconds. Each call must
 * answer INFERD_MISSED_DEADLINE; a call that ends before its timeout counts as a failure, too. */
#include "clients/inferd.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_COUNT = 1000 };

struct plan {
	const char *socket, *model;
	uint64_t timeout_us;
	size_t count;
	struct inferd *d;
	struct inferd_method *m;
	struct inferd_binding **bindings; /* one for each request that is sent */
};

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

_Noreturn static void fail(const char *what, const char *why)
{
	fprintf(stderr, "deadlines: %s: %s\n", what, why);
	exit(1);
}

/* ---- the calls; each returns what it answered ---- */

static int infer(struct plan *p, size_t i)
{
	const struct inferd_request_options options = { .struct_size = sizeof(options), .timeout_us = p->timeout_us };
	return inferd_infer(p->bindings[i], &options);
}

static int connect_anew(struct plan *p, size_t i)
{
	struct inferd *d = NULL;
	const struct inferd_open_options options = {
		.struct_size = sizeof(options), .socket = p->socket, .timeout_us = p->timeout_us
	};
	int rc = inferd_open_with(&d, &options);
	inferd_close(d);
	return rc;
}

static int open_method(struct plan *p, size_t i)
{
	struct inferd_method *m;
	const struct inferd_method_options options = { .struct_size = sizeof(options), .timeout_us = p->timeout_us };
	return inferd_method_open(p->d, &m, p->model, &options);
}

static int bind_anew(struct plan *p, size_t i)
{
	struct inferd_binding *b;
	const struct inferd_bind_options options = { .struct_size = sizeof(options), .timeout_us = p->timeout_us };
	return inferd_bind_with(p->m, &b, &options);
}

/* ---- measuring ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(struct plan *p, const char *what, int (*call)(struct plan *p, size_t i), const char *before)
{
	double late_ms[MAX_COUNT];
	for (size_t i = 0; i < p->count; i++) {
		double began_ms = now_ms();
		int rc = call(p, i);
		late_ms[i] = now_ms() - began_ms - (double)p->timeout_us / 1e3;
		if (rc != -INFERD_MISSED_DEADLINE)
			fail(what, inferd_status_text(rc));
		if (late_ms[i] < 0)
			fail(what, "it ended before its timeout");
	}
	qsort(late_ms, p->count, sizeof(*late_ms), compare);
	printf("%s\"%s\": {\"max_ms\": %.3f, \"p50_ms\": %.3f}", before, what, late_ms[p->count - 1],
		late_ms[p->count / 2]);
}

int main(int argc, char **argv)
{
	struct plan p = { .socket = argc == 5 ? argv[1] : NULL };
	char line[16];
	if (argc != 5) {
		fprintf(stderr, "usage: deadlines SOCKET MODEL TIMEOUT_US COUNT\n");
		return 2;
	}
	p.model = argv[2];
	p.timeout_us = strtoull(argv[3], NULL, 10);
	p.count = strtoul(argv[4], NULL, 10);
	if (!p.timeout_us || !p.count || p.count > MAX_COUNT)
		fail("arguments", "a timeout, and a count of 1 to 1000");
	p.bindings = calloc(p.count, sizeof(struct inferd_binding *));
	if (!p.bindings || inferd_open(&p.d, p.socket) < 0 || inferd_method_open(p.d, &p.m, p.model, NULL) < 0)
		fail("opening", inferd_error(p.d));
	for (size_t i = 0; i < p.count; i++)
		if (inferd_bind(p.m, &p.bindings[i]) < 0 || inferd_infer(p.bindings[i], NULL) < 0)
			fail("binding", inferd_error(p.d));
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	measure(&p, "request", infer, "{");
	measure(&p, "request behind a late one", infer, ", ");
	measure(&p, "connect", connect_anew, ", ");
	measure(&p, "open", open_method, ", ");
	measure(&p, "bind", bind_anew, ", ");
	printf("}\n");
	inferd_close(p.d);
	free(p.bindings);
	return 0;
}
