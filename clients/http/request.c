/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests.
 *
 * libmicrohttpd calls http_request_handle for the headers, for each piece of the body, and at the end of the body;
 * after a request was suspended it calls again where it was. The phase says where that is.
 *
 * A request that is refused keeps receiving, so that its client, which sends first and reads then, gets the answer;
 * the body is dropped. Only a large one is refused at its headers, which ends the connection. */
#include "clients/http/request.h"

#include "clients/http/ask.h"
#include "clients/http/host.h"
#include "clients/http/infer.h"
#include "clients/http/manage.h"
#include "clients/http/page/page.h"
#include "clients/http/peer.h"
#include "clients/http/shared.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 64 << 10, MAX_DROPPED = 4 << 20, MAX_ANSWER = 4 << 20 };

const char *http_request_header(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

int http_request_number(const struct http_request *r, const char *name, uint64_t *ret)
{
	const char *text = http_request_header(r, name);
	char *end;
	if (!text)
		return 1;
	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return -1;
	*ret = number;
	return 0;
}

/* jansson is never refused memory (memory.c), so it has no other reason to refuse. */
static bool is_utf8(const char *text)
{
	json_t *valid = json_string(text);
	json_decref(valid);
	return valid != NULL;
}

/* Sentences quote what a client has sent, of which nobody knows that it is UTF-8. */
static void make_ascii(char *text)
{
	if (is_utf8(text))
		return;
	for (char *at = text; *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
}

void http_request_fail(struct http_request *r, unsigned code, const char *format, ...)
{
	char text[1200];
	va_list args;
	if (r->code)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	make_ascii(text);
	r->code = code;
	r->body.is_dropping = true;
	http_buffer_deinit(&r->answer);
	http_buffer_text(&r->answer, "{\"error\":");
	http_buffer_quote(&r->answer, text, strlen(text));
	http_buffer_text(&r->answer, "}");
}

void http_request_sleep(struct http_request *r)
{
	r->is_suspended = true;
	http_connection_set(r->connection, HTTP_WAITING);
	MHD_suspend_connection(r->mhd);
}

void http_request_wake(struct http_request *r)
{
	if (!r->is_suspended)
		return;
	r->is_suspended = false;
	http_connection_set(r->connection, HTTP_RECEIVING);
	MHD_resume_connection(r->mhd);
	r->server->has_resumed = true;
}

void http_request_hang_up(struct http_request *r)
{
	r->is_gone = true;
	http_ask_drop(r->ask);
	r->ask = NULL;
	if (http_infer_cancel(r)) /* else its answer, which says that it was cancelled, wakes the request */
		http_request_wake(r);
}

static unsigned take_text(void *userdata, const char *data, size_t n_bytes)
{
	struct http_request *r = userdata;
	if (!http_buffer_add(&r->text, data, n_bytes))
		http_request_fail(r, 413, "the body is larger than the %d bytes that this path takes", MAX_TEXT);
	return r->code;
}

/* --- headers ------------------------------------------------------------------------------------------ */

/* Browsers send Origin with what a page asks of another server, and with what the gateway's own page posts. */
static bool is_trusted(struct http_request *r)
{
	const struct inf_http_config *config = &r->server->config;
	const char *host = http_request_header(r, "Host"), *origin = http_request_header(r, "Origin");
	r->is_of_page = config->page && origin && host && http_host_is_own_origin(origin, host, &config->hosts);
	if (origin && !r->is_of_page)
		http_request_fail(r, 403, "requests of pages in a browser (with a header Origin) are refused");
	else if (!r->connection->is_unix && host && !http_host_is_fine(host, &config->hosts))
		http_request_fail(r, 403, "this server is not known as '%.100s' ('hosts' in inferd-http.conf)", host);
	return !r->code;
}

static bool has_method(struct http_request *r, const char *method)
{
	bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
	r->is_post = strcmp(method, "POST") == 0;
	if (!is_utf8(r->route.model) || !is_utf8(r->route.region))
		http_request_fail(r, 400, "the path is not UTF-8");
	else if (!r->route.kind || (http_route_is_of_page(&r->route) && !r->server->config.page))
		http_request_fail(r, 404, "%s",
			r->route.kind ? "there is no page here ('page' in inferd-http.conf)" : r->route.refusal);
	else if ((is_get && !r->route.is_get) || (r->is_post && !r->route.is_post) || (!is_get && !r->is_post))
		http_request_fail(r, 405, "this path takes %s",
			r->route.is_get && r->route.is_post ? "GET and POST"
			: r->route.is_get                   ? "GET"
							    : "POST");
	return !r->code;
}

static void start(struct http_request *r, const char *url, const char *method)
{
	const char *error;
	uint64_t n_bytes = 0;
	int rc = http_request_number(r, "Content-Length", &n_bytes); /* a large body is not even dropped */
	http_route_parse(&r->route, url);
	http_connection_set(r->connection, HTTP_RECEIVING);
	if (is_trusted(r) && has_method(r, method)) {
		r->body.userdata = r;
		r->body.sink = take_text;
		unsigned code = http_body_init(&r->body, http_request_header(r, "Content-Encoding"),
			r->server->config.body_limit, &error);
		if (code)
			http_request_fail(r, code, "%s", error);
		else if (rc == 0 && n_bytes > r->body.max_bytes)
			http_request_fail(r, 413,
				"the body is larger than the gateway allows ('body_limit' in inferd-http.conf)");
		else if (r->route.kind == HTTP_ROUTE_INFER)
			http_infer_start(r);
	}
	r->phase = r->is_suspended ? HTTP_PHASE_START : HTTP_PHASE_BODY;
	if (r->code && (n_bytes > MAX_DROPPED || http_request_header(r, "Transfer-Encoding")))
		r->phase = HTTP_PHASE_ANSWER;
}

/* --- the answer --------------------------------------------------------------------------------------- */

static enum MHD_Result queue(struct http_request *r)
{
	static const char no_memory[] = "{\"error\":\"the gateway has no memory left for this answer\"}";
	struct MHD_Response *response = r->response;
	r->response = NULL;
	r->phase = HTTP_PHASE_QUEUED;
	http_connection_set(r->connection, HTTP_SENDING);
	if (!response && (!r->code || r->answer.is_failed)) {
		r->code = 503;
		response = MHD_create_response_from_buffer_static(strlen(no_memory), no_memory);
		if (!response)
			return MHD_NO;
		MHD_add_response_header(response, "Content-Type", "application/json");
	} else if (!response) {
		response = MHD_create_response_from_buffer_with_free_callback(r->answer.n_bytes, r->answer.data,
			http_free);
		if (!response)
			return MHD_NO;
		r->answer = (struct http_buffer){ .max_bytes = MAX_ANSWER }; /* the response has its memory */
		MHD_add_response_header(response, "Content-Type",
			r->route.kind == HTTP_ROUTE_METRICS && r->code == 200
				? "text/plain; version=0.0.4; charset=utf-8"
				: "application/json");
		if (r->code == 405)
			MHD_add_response_header(response, "Allow",
				r->route.is_get && r->route.is_post ? "GET, POST"
				: r->route.is_get                   ? "GET"
								    : "POST");
	}
	if (http_route_is_of_page(&r->route))
		http_page_protect(response);
	if (r->server->is_stopping)
		MHD_add_response_header(response, "Connection", "close");
	enum MHD_Result rc = MHD_queue_response(r->mhd, r->code, response);
	MHD_destroy_response(response);
	return rc;
}

static void answer_settings(struct http_request *r)
{
	if (r->is_post) {
		http_request_fail(r, 403, "the settings of %s are the administrator's: they can only be read here",
			r->route.kind == HTTP_ROUTE_TRACE ? "traces" : "logs");
		return;
	}
	r->code = 200;
	http_buffer_text(&r->answer,
		r->route.kind == HTTP_ROUTE_TRACE
			? "{\"trace_level\":[\"OFF\"],\"trace_rate\":\"1000\",\"trace_count\":\"-1\",\"log_frequency\":\"0\","
			  "\"trace_file\":\"\",\"trace_mode\":\"triton\"}"
			: "{\"log_file\":\"\",\"log_info\":true,\"log_warning\":true,\"log_error\":true,"
			  "\"log_verbose_level\":0,\"log_format\":\"default\"}");
}

/* The whole body is here. */
static void work(struct http_request *r)
{
	const char *error;
	unsigned code = http_body_end(&r->body, &error);
	r->phase = HTTP_PHASE_WAITING;
	if (code)
		http_request_fail(r, code, "%s", error);
	if (r->code)
		return;
	switch (r->route.kind) {
	case HTTP_ROUTE_LIVE:
		r->code = 200;
		http_buffer_text(&r->answer, "{\"live\":true}");
		break;
	case HTTP_ROUTE_INFER:
		http_infer_run(r);
		break;
	case HTTP_ROUTE_PAGE:
		r->response = http_page_response();
		r->code = r->response ? 200 : 0; /* 0: no memory */
		break;
	case HTTP_ROUTE_TRACE:
	case HTTP_ROUTE_LOGGING:
		answer_settings(r);
		break;
	case HTTP_ROUTE_MEMORY_STATUS:
	case HTTP_ROUTE_MEMORY_REGISTER:
	case HTTP_ROUTE_MEMORY_UNREGISTER:
		http_shared_answer(r);
		break;
	default:
		http_manage_start(r);
		break;
	}
}

static void feed(struct http_request *r, const char *data, size_t *n_bytes)
{
	const char *error = NULL;
	size_t n_taken = 0;
	unsigned code = http_body_feed(&r->body, data, *n_bytes, &n_taken, &error);
	*n_bytes -= n_taken;
	if (code)
		http_request_fail(r, code, "%s", error ? error : "the body cannot be used");
}

enum MHD_Result http_request_handle(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
	const char *version, const char *data, size_t *n_bytes, void **context)
{
	struct http_request *r = *context;
	if (((const struct http_server *)server)->is_ended)
		return MHD_NO;
	if (!r) {
		struct http_connection *c = http_connection_of(mhd);
		r = c ? http_alloc(sizeof(*r)) : NULL;
		if (!r)
			return MHD_NO;
		r->server = server;
		r->connection = c;
		r->mhd = mhd;
		r->text.max_bytes = MAX_TEXT;
		r->answer.max_bytes = MAX_ANSWER;
		r->deadline_ns = http_now_ns() + r->server->config.request_timeout_ns;
		c->request = r;
		*context = r;
		start(r, url, method);
		return r->phase == HTTP_PHASE_ANSWER ? queue(r) : MHD_YES;
	}
	if (r->is_gone)
		return MHD_NO;
	if (r->phase == HTTP_PHASE_START) {
		r->phase = HTTP_PHASE_BODY;
		if (!*n_bytes)
			return MHD_YES;
	}
	if (r->phase == HTTP_PHASE_BODY && *n_bytes) {
		feed(r, data, n_bytes);
		return MHD_YES;
	}
	if (r->phase == HTTP_PHASE_BODY) {
		work(r);
		if (r->is_suspended)
			return MHD_YES;
		r->phase = HTTP_PHASE_ANSWER;
	} else if (r->phase == HTTP_PHASE_WAITING) {
		if (!r->code && r->infer)
			http_infer_run(r);
		if (r->is_suspended)
			return MHD_YES;
		r->phase = HTTP_PHASE_ANSWER;
	}
	return r->phase == HTTP_PHASE_ANSWER ? queue(r) : MHD_YES;
}

void http_request_completed(void *server, struct MHD_Connection *mhd, void **context,
	enum MHD_RequestTerminationCode code)
{
	struct http_request *r = *context;
	if (!r)
		return;
	http_ask_drop(r->ask);
	http_infer_free(r);
	http_body_deinit(&r->body);
	http_buffer_deinit(&r->text);
	http_buffer_deinit(&r->answer);
	if (r->response)
		MHD_destroy_response(r->response);
	r->connection->request = NULL;
	http_connection_set(r->connection, HTTP_IDLE);
	http_free(r);
	*context = NULL;
}
