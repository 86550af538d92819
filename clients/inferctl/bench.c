/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl bench: measure how long requests take.
 *
 * Each client is a thread with its own seat (through the daemon: its own connection) and Method; all use one model.
 * Each client does its warm-up requests, then all start together at a barrier, and each does its requests one after
 * the other. The inputs are those of the file's first test case, else zeros. They are written once, so that only
 * requests are measured.
 *
 * load_ms is the time until the first client has its Method: open the file, verify it, compile payloads. first_ms is
 * the time until its first request has ended. Both are short if the daemon has loaded the model before. rss_kb is
 * the resident memory after the run, of this process with --local, else of the daemon. */
#include "clients/inferctl/ctl.h"
#include "clients/inferctl/engine.h"
#include "clients/inferctl/profile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct bench {
	struct ctl_engine *engine;
	struct ctl_model *model;
	const struct et_bundle_case *test; /* NULL: zeros */
	unsigned n_requests, n_warm_up;
	const char *profile; /* the file for the profile of one more request, or NULL */
	pthread_barrier_t start;
};

struct client {
	struct bench *bench;
	unsigned index;
	pthread_t thread;
	uint64_t *latency_ns; /* n_requests */
	uint64_t queue_ns, run_ns, resident_bytes;
	unsigned n_copied;
	uint64_t ready_ns; /* when it had its Method */
	uint64_t first_ns; /* when its first request had ended */
	uint64_t start_ns, end_ns;
	bool has_failed;
	struct ctl_error error;
	struct ctl_seat *seat;
	struct ctl_instance *instance;
	char backend[64];
	void *etdump;
	size_t n_etdump;
};

static int open_client(struct client *client)
{
	struct bench *bench = client->bench;
	const struct ctl_engine_ops *ops = bench->engine->ops;
	if (ops->seat_open(bench->engine, &client->seat, client->index, &client->error) < 0 ||
		ops->instance_open(client->seat, &client->instance, bench->model, NULL, &client->error) < 0)
		return -1;
	client->ready_ns = ctl_now_ns();
	snprintf(client->backend, sizeof(client->backend), "%s", client->instance->backend);
	if (ctl_instance_set_case(client->instance, bench->test, &client->error) < 0)
		return -1;
	for (unsigned i = 0; i < bench->n_warm_up; i++) {
		if (ops->run(client->instance, &client->error) < 0)
			return -1;
		if (i == 0)
			client->first_ns = ctl_now_ns();
	}
	return 0;
}

static void measure(struct client *client)
{
	const struct ctl_engine_ops *ops = client->bench->engine->ops;
	client->start_ns = ctl_now_ns();
	for (unsigned i = 0; i < client->bench->n_requests; i++) {
		uint64_t before_ns = ctl_now_ns();
		struct ctl_timing timing;
		if (ops->run(client->instance, &client->error) < 0) {
			client->has_failed = true;
			break;
		}
		client->latency_ns[i] = ctl_now_ns() - before_ns;
		timing = ops->timing(client->instance);
		client->queue_ns += timing.queue_ns;
		client->run_ns += timing.run_ns;
	}
	client->end_ns = ctl_now_ns();
	client->n_copied = ops->n_copied(client->instance);
}

static void *client_main(void *arg)
{
	struct client *client = arg;
	struct bench *bench = client->bench;
	client->has_failed = open_client(client) < 0;
	pthread_barrier_wait(&bench->start);
	if (!client->has_failed)
		measure(client);
	pthread_barrier_wait(&bench->start);
	/* All clients still have their Methods, so this includes the memory of all. */
	if (client->seat && client->index == 0)
		client->resident_bytes = bench->engine->ops->resident_bytes(client->seat);
	/* The measurement is over and the other clients are idle. */
	if (bench->profile && client->index == 0 && !client->has_failed)
		client->has_failed = bench->engine->ops->run_profiled(client->instance, &client->etdump,
					     &client->n_etdump, &client->error) < 0;
	pthread_barrier_wait(&bench->start);
	if (client->instance)
		bench->engine->ops->instance_close(client->instance);
	if (client->seat)
		bench->engine->ops->seat_close(client->seat);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The nearest-rank percentile of sorted values. */
static double percentile_ms(const uint64_t *sorted, size_t n, unsigned percent)
{
	size_t rank = (n * percent + 99) / 100;
	return (double)sorted[rank ? rank - 1 : 0] / 1e6;
}

static int report(const struct ctl *ctl, const char *name, const struct client *clients, unsigned n_clients,
	unsigned n_requests, uint64_t load_start_ns)
{
	size_t n = (size_t)n_clients * n_requests;
	uint64_t *all = ctl_alloc(n, sizeof(*all)), start_ns = UINT64_MAX, end_ns = 0, queue_ns = 0, run_ns = 0;
	double p50_ms, p99_ms, min_ms, max_ms, throughput,
		load_ms = (double)(clients[0].ready_ns - load_start_ns) / 1e6,
		first_ms = (double)(clients[0].first_ns - load_start_ns) / 1e6;
	uint64_t rss_kb = clients[0].resident_bytes / 1024;
	const struct ctl_engine_options *options = &clients[0].bench->engine->options;
	int rc = CTL_OK;

	for (unsigned i = 0; i < n_clients; i++) {
		memcpy(all + (size_t)i * n_requests, clients[i].latency_ns, n_requests * sizeof(*all));
		start_ns = clients[i].start_ns < start_ns ? clients[i].start_ns : start_ns;
		end_ns = clients[i].end_ns > end_ns ? clients[i].end_ns : end_ns;
		queue_ns += clients[i].queue_ns;
		run_ns += clients[i].run_ns;
	}
	qsort(all, n, sizeof(*all), by_value);
	p50_ms = percentile_ms(all, n, 50);
	p99_ms = percentile_ms(all, n, 99);
	min_ms = (double)all[0] / 1e6;
	max_ms = (double)all[n - 1] / 1e6;
	throughput = (double)n / ((double)(end_ns - start_ns) / 1e9);
	free(all);
	if (ctl->is_json) {
		json_t *json = json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:i}",
			"model", name, "backend", clients[0].backend, "clients", (int)n_clients, "requests", (int)n,
			"p50_ms", p50_ms, "p99_ms", p99_ms, "min_ms", min_ms, "max_ms", max_ms, "throughput_per_s",
			throughput, "load_ms", load_ms, "first_ms", first_ms, "rss_kb", (json_int_t)rss_kb,
			"mean_queue_ms", (double)queue_ns / 1e6 / (double)n, "mean_run_ms",
			(double)run_ns / 1e6 / (double)n, "copied_tensors", (int)clients[0].n_copied);
		if (options->is_local)
			json_object_set_new(json, "threads", json_integer(options->n_threads));
		rc = ctl_print_json(json);
	} else {
		printf("%s%s%s: %u client%s, %zu requests\n", ctl_bold(ctl), name, ctl_plain(ctl), n_clients,
			n_clients == 1 ? "" : "s", n);
		printf("  p50 %.3f ms   p99 %.3f ms   min %.3f ms   max %.3f ms\n", p50_ms, p99_ms, min_ms, max_ms);
		printf("  %.1f requests/s   load %.1f ms   resident %s\n", throughput, load_ms,
			ctl_bytes(rss_kb * 1024));
		printf("  mean of a request: queue %.3f ms, run %.3f ms; %u tensors copied\n",
			(double)queue_ns / 1e6 / (double)n, (double)run_ns / 1e6 / (double)n, clients[0].n_copied);
	}
	return rc;
}

static int run_clients(struct bench *bench, const struct ctl *ctl, const char *name, unsigned n_clients,
	uint64_t load_start_ns)
{
	struct client *clients = ctl_alloc(n_clients, sizeof(*clients));
	unsigned n_started = 0;
	int rc = CTL_OK;

	pthread_barrier_init(&bench->start, NULL, n_clients);
	for (unsigned i = 0; i < n_clients; i++) {
		clients[i] = (struct client){ .bench = bench, .index = i };
		clients[i].latency_ns = ctl_alloc(bench->n_requests, sizeof(uint64_t));
	}
	/* Threads that wait at the barrier cannot leave it, so a thread that fails to start ends the program. */
	if (n_clients == 1) {
		client_main(&clients[0]); /* on this thread */
		n_started = 1;
	}
	for (; n_started < n_clients; n_started++)
		if (pthread_create(&clients[n_started].thread, NULL, client_main, &clients[n_started]) != 0)
			exit(ctl_fail("only %u of %u client threads could be started", n_started, n_clients));
	for (unsigned i = 0; i < n_clients && n_clients > 1; i++)
		pthread_join(clients[i].thread, NULL);
	for (unsigned i = 0; i < n_clients && rc == CTL_OK; i++)
		if (clients[i].has_failed)
			rc = n_clients > 1 ? ctl_fail("client %u: %s", i, clients[i].error.text)
					   : ctl_fail("%s", clients[i].error.text);
	if (rc == CTL_OK)
		rc = report(ctl, name, clients, n_clients, bench->n_requests, load_start_ns);
	if (rc == CTL_OK && bench->profile)
		rc = ctl_profile_write(bench->profile, clients[0].etdump, clients[0].n_etdump, name);
	free(clients[0].etdump);
	for (unsigned i = 0; i < n_clients; i++)
		free(clients[i].latency_ns);
	free(clients);
	pthread_barrier_destroy(&bench->start);
	return rc;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	struct bench bench = { .n_requests = 100, .n_warm_up = 5 };
	struct ctl_engine_options options = { .n_threads = 1, .n_seats = 1 };
	struct ctl_file file = { 0 };
	struct ctl_strings data = { 0 };
	struct ctl_error error = { 0 };
	struct et_diag diag = { 0 };
	const char *name, *method = NULL;
	uint64_t load_start_ns;
	int rc;
	const struct ctl_option rows[] = {
		CTL_ENGINE_OPTIONS(options),
		{ "clients", 'c', CTL_UINT, &options.n_seats, "N",
			"clients at once, each with its own Method (default 1)" },
		{ "requests", 'n', CTL_UINT, &bench.n_requests, "N", "requests of each client (default 100)" },
		{ "warm-up", 'w', CTL_UINT, &bench.n_warm_up, "N",
			"requests of each client before the measurement (default 5)" },
		{ "reconnect", 0, CTL_UINT, &options.reconnect_ms, "MS",
			"go on after a restart of the daemon that takes at most MS milliseconds (default: fail)" },
		{ "data", 'd', CTL_STRINGS, &data, "FILE",
			"a data file (.ptd) of the program (default: those beside it)" },
		{ "profile", 'p', CTL_STRING, &bench.profile, "FILE",
			"run one more request and write its profile: .json for Perfetto, else an ETDump" },
		{ "method", 'm', CTL_STRING, &method, "NAME", "the method (default: the only one, or forward)" },
		{ NULL },
	};

	name = ctl_parse_one(ctl, rows, argc, argv, "one model, or one .pte or .bpte file", &rc);
	if (!name)
		goto out;
	rc = ctl_engine_begin(ctl, &bench.engine, &options);
	if (rc != CTL_OK)
		goto out;
	load_start_ns = ctl_now_ns();
	if (options.is_local || ctl_is_path(name)) {
		if (ctl_file_open(&file, name, &data, &diag) != ET_OK) {
			rc = ctl_fail("%s", diag.text);
		} else {
			const struct et_bundle_suite *suite = ctl_file_suite(&file, method);
			bench.test = suite && suite->n_cases ? &suite->cases[0] : NULL;
			if (suite && !method)
				method = suite->method;
		}
	} else if (data.n) {
		rc = ctl_misuse(ctl, "--data is only for a file: the daemon finds the data files of '%s' itself", name);
	}
	if (rc == CTL_OK && bench.engine->ops->model_open(bench.engine, &bench.model, name, file.path ? &file : NULL,
				    method, &error) < 0)
		rc = ctl_fail("%s", error.text);
	if (rc == CTL_OK) {
		rc = run_clients(&bench, ctl, name, options.n_seats, load_start_ns);
		bench.engine->ops->model_close(bench.model);
	}
	ctl_file_close(&file);
	bench.engine->ops->free(bench.engine);
out:
	ctl_strings_deinit(&data);
	return rc;
}

const struct ctl_command ctl_bench_command = {
	.name = "bench",
	.arguments = "[--local] [OPTION...] NAME|FILE",
	.summary = "Time requests: p50, p99, minimum, maximum, throughput, load time, memory",
	.help = "NAME is a model that the daemon serves. FILE is a .pte or .bpte: an argument with a slash, or with one\n"
		"of these suffixes. It is passed to the daemon, or runs in this process with --local. The inputs are those\n"
		"of the file's first test case, else zeros.\n\n"
		"JSON: p50_ms p99_ms min_ms max_ms throughput_per_s load_ms first_ms rss_kb mean_queue_ms\n"
		"mean_run_ms copied_tensors.\n",
	.run = run,
};
