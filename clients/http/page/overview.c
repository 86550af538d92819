/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's status and repository as JSON.
 *
 * The daemon tells an ordinary user what concerns that user, and one who may manage it everything; with `load = yes`
 * the gateway's user may be one. Whoever reaches the gateway is neither, so this file leaves out what an ordinary user
 * would not see: connections, limits, processes and programs of other users, and warnings, which may name them. Files
 * are named without their folders. */
#include "clients/http/page/overview.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A comma, unless what follows is the first member of its object or list. */
static void add_comma(struct http_buffer *to)
{
	char last = to->n_bytes ? to->data[to->n_bytes - 1] : '\0';
	if (last != '{' && last != '[')
		http_buffer_text(to, ",");
}

static void add_key(struct http_buffer *to, const char *key)
{
	add_comma(to);
	http_buffer_printf(to, "\"%s\":", key);
}

/* The key of a list or object, which begins with @bracket. */
static void begin_member(struct http_buffer *to, const char *key, const char *bracket)
{
	add_key(to, key);
	http_buffer_text(to, bracket);
}

/* An object as the next member of a list. */
static void begin_element(struct http_buffer *to)
{
	add_comma(to);
	http_buffer_text(to, "{");
}

static void add_text(struct http_buffer *to, const char *key, const char *text)
{
	add_key(to, key);
	http_buffer_quote(to, text, strlen(text));
}

static void add_number(struct http_buffer *to, const char *key, uint64_t number)
{
	add_key(to, key);
	http_buffer_printf(to, "%" PRIu64, number);
}

/* A list of the last parts of paths; other texts have no slash. */
static void add_texts(struct http_buffer *to, const char *key, const char *const *texts, size_t n)
{
	begin_member(to, key, "[");
	for (size_t i = 0; i < n; i++) {
		const char *slash = strrchr(texts[i], '/');
		const char *text = slash ? slash + 1 : texts[i];
		add_comma(to);
		http_buffer_quote(to, text, strlen(text));
	}
	http_buffer_text(to, "]");
}

/* --- status ------------------------------------------------------------------------------------------- */

static void add_queues(struct http_buffer *to, const struct inf_server_status *status)
{
	begin_member(to, "queues", "[");
	for (size_t i = 0; i < status->n_queues; i++) {
		const struct inf_queue_status *q = &status->queues[i];
		begin_element(to);
		add_text(to, "name", q->name);
		add_text(to, "device", q->device);
		add_text(to, "driver", q->driver);
		add_number(to, "workers", q->workers);
		add_number(to, "spares", q->spares);
		add_number(to, "stuck", q->stuck);
		add_number(to, "running", q->running);
		add_number(to, "waiting", q->waiting);
		add_number(to, "completed", q->completed);
		add_number(to, "busy_ns", q->busy_ns);
		http_buffer_text(to, "}");
	}
	http_buffer_text(to, "]");
}

/* The loaded programs of the repository; one that a client has uploaded has no file. */
static void add_programs(struct http_buffer *to, const struct inf_server_status *status)
{
	begin_member(to, "programs", "[");
	for (size_t i = 0; i < status->n_programs; i++) {
		const struct inf_program_status *p = &status->programs[i];
		if (!p->file[0])
			continue;
		begin_element(to);
		add_text(to, "name", p->name);
		add_text(to, "version", p->version);
		add_text(to, "backend", p->backend);
		add_number(to, "methods", p->methods);
		add_number(to, "requests", p->requests);
		add_number(to, "median_ns", p->median_ns);
		add_number(to, "bytes", p->plan_bytes + p->state_bytes + p->frame_bytes + p->instance_bytes);
		add_number(to, "cores", p->cores);
		add_text(to, "cores_reason", p->cores_reason);
		http_buffer_text(to, "}");
	}
	http_buffer_text(to, "]");
}

/* The gateway's connections to the daemon as one, since its clients must not see each other's. */
static void add_connections(struct http_buffer *to, const struct inf_server_status *status, uid_t uid)
{
	uint64_t n = 0, n_methods = 0, n_bytes = 0, n_requests = 0, n_in_flight = 0;
	for (size_t i = 0; i < status->n_clients; i++) {
		const struct inf_client_status *c = &status->clients[i];
		if (c->uid != uid)
			continue;
		n++;
		n_methods += c->methods;
		n_bytes += c->region_bytes;
		n_requests += c->requests;
		n_in_flight += c->in_flight;
	}
	begin_member(to, "connections", "{");
	add_number(to, "count", n);
	add_number(to, "methods", n_methods);
	add_number(to, "region_bytes", n_bytes);
	add_number(to, "requests", n_requests);
	add_number(to, "in_flight", n_in_flight);
	http_buffer_text(to, "}");
}

static void add_user(struct http_buffer *to, const struct inf_server_status *status, uid_t uid)
{
	for (size_t i = 0; i < status->n_users; i++) {
		const struct inf_user_status *u = &status->users[i];
		if (u->uid != uid)
			continue;
		begin_member(to, "user", "{");
		add_number(to, "weight", u->weight);
		add_text(to, "priority", u->priority);
		begin_member(to, "limits", "[");
		for (size_t k = 0; k < u->n_limits; k++) {
			begin_element(to);
			add_text(to, "name", u->limits[k].name);
			add_number(to, "used", u->limits[k].used);
			add_number(to, "limit", u->limits[k].limit);
			http_buffer_text(to, "}");
		}
		http_buffer_text(to, "]}");
		return;
	}
}

/* Processes of plug-ins that serve all users. */
static void add_plugins(struct http_buffer *to, const struct inf_server_status *status)
{
	begin_member(to, "plugins", "[");
	for (size_t i = 0; i < status->n_hosts; i++) {
		const struct inf_host_status *h = &status->hosts[i];
		if (h->own)
			continue;
		begin_element(to);
		add_text(to, "backend", h->backend);
		add_number(to, "starts", h->starts);
		add_number(to, "crashes", h->crashes);
		add_text(to, "reason", h->reason);
		http_buffer_text(to, "}");
	}
	http_buffer_text(to, "]");
}

void http_overview_status(struct http_buffer *to, const struct inf_server_status *status, uid_t uid)
{
	http_buffer_text(to, "{");
	add_text(to, "version", status->version);
	add_number(to, "uptime_ns", status->uptime_ns);
	add_number(to, "requests", status->requests);
	add_number(to, "failed", status->failed);
	add_number(to, "copied_bytes", status->copied_bytes);
	add_number(to, "resident_bytes", status->resident_bytes);
	add_number(to, "memory_used", status->memory_used);
	add_number(to, "memory_budget", status->memory_budget);
	add_queues(to, status);
	add_programs(to, status);
	add_connections(to, status, uid);
	add_user(to, status, uid);
	add_plugins(to, status);
	add_texts(to, "backends", status->backends, status->n_backends);
	http_buffer_text(to, "}");
}

/* --- models ------------------------------------------------------------------------------------------- */

void http_overview_models(struct http_buffer *to, const struct inf_repository_index *index)
{
	http_buffer_text(to, "{\"models\":[");
	for (size_t i = 0; i < index->n_models; i++) {
		const struct inf_model_index *m = &index->models[i];
		begin_element(to);
		add_text(to, "name", m->name);
		add_text(to, "version", m->version);
		add_text(to, "state", m->state);
		http_buffer_printf(to, ",\"serves\":%s", m->serves ? "true" : "false");
		add_text(to, "backend", m->backend);
		add_number(to, "memory_bytes", m->memory_bytes);
		add_texts(to, "file", &m->file, m->file[0] ? 1 : 0);
		add_texts(to, "files", m->files, m->n_files);
		add_text(to, "passed_over", m->passed_over);
		add_text(to, "reason", m->reason);
		add_text(to, "note", m->note);
		http_buffer_text(to, "}");
	}
	http_buffer_text(to, "]}");
}
