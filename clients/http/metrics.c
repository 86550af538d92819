/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics for Prometheus, in version 0.0.4 of its text format.
 *
 * They are made of two answers of the daemon, which come one after the other: the statistics of models, one sum for
 * each version, and its status. What must always be true: a metric's lines are together, and no two have the same
 * labels; labels are models, versions and queues, of which an administrator decides how many there are, and nothing
 * that a client sends. Programs that clients brought have no version; a gateway that is an administrator would else
 * show them. */
#include "clients/http/manage.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum kind { COUNTER, GAUGE, SUMMARY };

struct metric {
	const char *name, *help;
	enum kind kind;
	bool is_ns; /* nanoseconds, shown as seconds */
};

static void declare(struct http_request *r, const struct metric *metric)
{
	static const char *const kinds[] = { [COUNTER] = "counter", [GAUGE] = "gauge", [SUMMARY] = "summary" };
	http_buffer_printf(&r->answer, "# HELP inferd_%s %s\n# TYPE inferd_%s %s\n", metric->name, metric->help,
		metric->name, kinds[metric->kind]);
}

static void write_value(struct http_request *r, uint64_t value, bool is_ns)
{
	if (is_ns)
		http_buffer_printf(&r->answer, " %" PRIu64 ".%09" PRIu64 "\n", value / 1000000000, value % 1000000000);
	else
		http_buffer_printf(&r->answer, " %" PRIu64 "\n", value);
}

static void write_plain(struct http_request *r, const struct metric *metric, uint64_t value)
{
	declare(r, metric);
	http_buffer_printf(&r->answer, "inferd_%s", metric->name);
	write_value(r, value, metric->is_ns);
}

/* The name of a model's folder may be anything; only text can be a label. */
static bool is_text(const char *name)
{
	for (const char *at = name; *at; at++)
		if ((unsigned char)*at < 0x20)
			return false;
	json_t *valid = json_string(name);
	json_decref(valid);
	return valid != NULL;
}

static void write_label(struct http_request *r, const char *name, const char *value)
{
	http_buffer_printf(&r->answer, "%s=\"", name);
	for (const char *at = value; *at; at++) {
		if (*at == '"' || *at == '\\')
			http_buffer_text(&r->answer, "\\");
		http_buffer_add(&r->answer, at, 1);
	}
	http_buffer_text(&r->answer, "\"");
}

/* --- models ------------------------------------------------------------------------------------------- */

static void write_model(struct http_request *r, const char *name, const char *suffix, const struct inf_model_stats *m,
	const char *result, uint64_t value, bool is_ns)
{
	if (!m->version[0] || !is_text(m->name))
		return;
	http_buffer_printf(&r->answer, "inferd_%s%s{", name, suffix);
	write_label(r, "model", m->name);
	http_buffer_text(&r->answer, ",");
	write_label(r, "version", m->version);
	if (result) {
		http_buffer_text(&r->answer, ",");
		write_label(r, "result", result);
	}
	http_buffer_text(&r->answer, "}");
	write_value(r, value, is_ns);
}

void http_metrics_models(struct http_request *r, const struct inf_model_statistics *stats)
{
	const struct inf_model_stats *models = stats->model_stats;
	const size_t n = stats->n_model_stats;
	static const struct metric requests = { "model_requests_total", "Requests that were answered.", COUNTER,
		false },
				   copied = { "model_copied_bytes_total",
					   "Bytes of tensors that were copied for requests.", COUNTER, false },
				   durations[] = { { "model_queue_seconds", "Time in the queue.", SUMMARY, true },
					   { "model_run_seconds", "Time of the runs.", SUMMARY, true } };
	declare(r, &requests);
	for (size_t i = 0; i < n; i++) {
		const struct inf_infer_statistics *s = &models[i].inference_stats;
		write_model(r, requests.name, "", &models[i], "success", s->success.count, false);
		write_model(r, requests.name, "", &models[i], "failure", s->fail.count, false);
	}
	for (size_t k = 0; k < 2; k++) {
		declare(r, &durations[k]);
		for (size_t i = 0; i < n; i++) {
			const struct inf_infer_statistics *s = &models[i].inference_stats;
			const struct inf_statistic_duration *d = k == 0 ? &s->queue : &s->compute_infer;
			write_model(r, durations[k].name, "_sum", &models[i], NULL, d->ns, true);
			write_model(r, durations[k].name, "_count", &models[i], NULL, d->count, false);
		}
	}
	declare(r, &copied);
	for (size_t i = 0; i < n; i++)
		write_model(r, copied.name, "", &models[i], NULL, models[i].copied_bytes, false);
}

/* --- the daemon and the gateway ----------------------------------------------------------------------- */

static void write_queues(struct http_request *r, const struct inf_server_status *s)
{
	static const struct {
		struct metric metric;
		size_t offset;
		bool is_wide;
	} columns[] = {
#define COLUMN(field, wide, name, help, kind, is_ns) \
	{ { name, help, kind, is_ns }, offsetof(struct inf_queue_status, field), wide }
		COLUMN(workers, false, "queue_workers", "Threads that serve the queue.", GAUGE, false),
		COLUMN(running, false, "queue_running", "Requests that run.", GAUGE, false),
		COLUMN(waiting, false, "queue_waiting", "Requests that wait.", GAUGE, false),
		COLUMN(stuck, false, "queue_stuck_workers", "Threads that have been in one instruction for too long.",
			GAUGE, false),
		COLUMN(busy_ns, true, "queue_busy_seconds_total", "Time that all threads of the queue have run.",
			COUNTER, true),
		COLUMN(completed, true, "queue_completed_total", "Requests that the queue has run.", COUNTER, false),
#undef COLUMN
	};
	for (size_t k = 0; k < sizeof(columns) / sizeof(columns[0]); k++) {
		declare(r, &columns[k].metric);
		for (size_t i = 0; i < s->n_queues; i++) {
			const void *field = (const char *)&s->queues[i] + columns[k].offset;
			uint64_t value = columns[k].is_wide ? *(const uint64_t *)field : *(const uint32_t *)field;
			http_buffer_printf(&r->answer, "inferd_%s{", columns[k].metric.name);
			write_label(r, "queue", s->queues[i].name);
			http_buffer_text(&r->answer, "}");
			write_value(r, value, columns[k].metric.is_ns);
		}
	}
}

void http_metrics_status(struct http_request *r, const struct inf_server_status *s)
{
	const struct {
		struct metric metric;
		uint64_t value;
	} plain[] = {
		{ { "uptime_seconds", "Time since the daemon started.", GAUGE, true }, s->uptime_ns },
		{ { "resident_memory_bytes", "Memory of the daemon's process.", GAUGE, false }, s->resident_bytes },
		{ { "models_memory_bytes", "Memory of loaded models.", GAUGE, false }, s->memory_used },
		{ { "models_memory_limit_bytes", "Memory that loaded models may take; 0: no limit.", GAUGE, false },
			s->memory_budget },
		{ { "requests_total", "Requests of all clients that the daemon has answered.", COUNTER, false },
			s->requests },
		{ { "requests_failed_total", "Those that failed.", COUNTER, false }, s->failed },
		{ { "warnings", "Problems that an administrator should look at (inferctl status).", GAUGE, false },
			s->n_warnings },
		{ { "http_connections", "Open connections to the HTTP gateway.", GAUGE, false },
			r->server->n_connections },
		{ { "http_memory_bytes", "Memory that requests take in the HTTP gateway.", GAUGE, false },
			http_memory_used() },
	};
	static const struct metric info = { "build_info", "The version of the daemon.", GAUGE, false };
	declare(r, &info);
	http_buffer_text(&r->answer, "inferd_build_info{");
	write_label(r, "version", s->version);
	http_buffer_text(&r->answer, "} 1\n");
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		write_plain(r, &plain[i].metric, plain[i].value);
	write_queues(r, s);
}
