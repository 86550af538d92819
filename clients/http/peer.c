/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers, their Methods and bindings.
 *
 * Everything here is asynchronous: opening a connection, a Method, a binding. Instead of a chain of callbacks there
 * is one function, advance(), which looks at what a waiting request still lacks, and is called for each of them
 * whenever something of the peer has changed.
 *
 * What must always be true: a binding is lent to one request at a time; libinferd's objects are not closed while
 * their memory is being sent. A Method without a sequence is opened anew after a while, so that a new version of a
 * model comes into use. */
#include "clients/http/peer.h"

#include "clients/http/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define SECOND        UINT64_C(1000000000)
#define METHOD_AGE_NS (30 * SECOND)
#define PEER_IDLE_NS  (60 * SECOND)
#define RECONNECT_MS  5000

static const char *const no_memory = "the gateway has no memory left for this request";

unsigned http_code_of(int status)
{
	switch (status < 0 ? -status : status) {
	case INFERD_OK:
		return 200;
	case INFERD_INVALID_ARGUMENT:
		return 400;
	case INFERD_NOT_FOUND:
		return 404;
	case INFERD_PERMISSION_DENIED:
		return 403;
	case INFERD_RESOURCE_EXHAUSTED:
		return 429;
	case INFERD_UNIMPLEMENTED:
		return 501;
	case INFERD_STATE_LOST:
		return 409;
	case INFERD_CANCELLED:
	case INFERD_FAILED_PRECONDITION:
	case INFERD_UNAVAILABLE:
	case INFERD_BUSY:
	case INFERD_DISCONNECTED:
		return 503;
	case INFERD_MISSED_DEADLINE:
		return 504;
	default:
		return 500;
	}
}

static void advance_all(struct http_peer *peer);

/* --- bindings ----------------------------------------------------------------------------------------- */

static struct http_binding *binding_free(struct http_binding *binding)
{
	struct http_method *method = binding->method;
	if (binding->maker)
		binding->maker->making = NULL;
	inferd_unbind(binding->b);
	http_memory_release(method->n_bytes);
	method->n_bindings--;
	et_list_remove(&binding->node);
	free(binding);
	return NULL;
}

static void end(struct http_wait *wait, struct http_binding *binding, unsigned code, const char *error)
{
	http_peer_wait_no_more(wait);
	wait->ended(wait, binding, code, error);
}

static void on_bound(struct inferd_binding *b, int status, void *userdata)
{
	struct http_binding *binding = userdata;
	struct http_peer *peer = binding->method->peer;
	struct http_wait *maker = binding->maker;
	binding->method->n_lent--;
	if (status < 0) {
		char error[600];
		snprintf(error, sizeof(error), "%s", inferd_error(peer->d));
		binding_free(binding);
		if (maker)
			end(maker, NULL, http_code_of(status), error);
	} else {
		binding->state = HTTP_OPEN;
		binding->maker = NULL;
		if (maker)
			maker->making = NULL;
	}
	advance_all(peer);
}

/* True: a binding is being made, or @wait has ended with an error. False: none can be had now. */
static bool make_binding(struct http_method *method, struct http_wait *wait)
{
	struct inferd_bind_options options = { .struct_size = sizeof(options), .bound = on_bound };
	struct http_peer *peer = method->peer;
	struct http_binding *binding = calloc(1, sizeof(*binding));
	if (!binding || !http_memory_charge(method->n_bytes)) {
		free(binding);
		if (method->n_bindings) /* one of them will be given back */
			return false;
		end(wait, NULL, 503, no_memory);
		return true;
	}
	binding->method = method;
	binding->maker = wait;
	options.userdata = binding;
	et_list_append(&method->bindings, &binding->node);
	method->n_bindings++;
	method->n_lent++;
	wait->making = binding;
	int rc = inferd_bind_with(method->m, &binding->b, &options);
	if (rc < 0) {
		char error[600];
		snprintf(error, sizeof(error), "%s", inferd_error(peer->d));
		binding->b = NULL;
		method->n_lent--;
		binding_free(binding);
		end(wait, NULL, http_code_of(rc), error);
	}
	return true;
}

/* --- Methods ------------------------------------------------------------------------------------------ */

static void method_free(struct http_method *method)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &method->bindings)
		binding_free(ET_CONTAINER_OF(node, struct http_binding, node));
	inferd_method_close(method->m);
	et_list_remove(&method->node);
	free(method);
}

static void retire(struct http_method *method)
{
	method->is_retired = true;
	if (!method->n_lent && method->state != HTTP_OPENING)
		method_free(method);
}

static size_t region_bytes(const struct inferd_method *m)
{
	size_t n_bytes = 4096;
	for (size_t i = 0; i < inferd_n_inputs(m); i++)
		n_bytes += inferd_input_info(m, i)->n_bytes + 64;
	for (size_t i = 0; i < inferd_n_outputs(m); i++)
		n_bytes += inferd_output_info(m, i)->n_bytes + 64;
	return n_bytes;
}

static void on_method(struct inferd_method *m, int status, void *userdata)
{
	struct http_method *method = userdata;
	struct http_peer *peer = method->peer;
	method->status = status;
	method->state = status < 0 ? HTTP_GONE : HTTP_OPEN;
	if (status < 0)
		snprintf(method->error, sizeof(method->error), "%s", inferd_error(peer->d));
	else
		method->n_bytes = region_bytes(m);
	advance_all(peer);
	if (status < 0) /* those who waited have the error; the next one tries again */
		retire(method);
}

static bool is_of(const struct http_method *method, const struct http_wait *wait)
{
	return !method->is_retired && strcmp(method->model, wait->model) == 0 &&
	       strcmp(method->version, wait->version) == 0 && strcmp(method->sequence, wait->sequence) == 0;
}

static struct http_method *find_method(struct http_peer *peer, const struct http_wait *wait)
{
	for (struct et_list_node *node = peer->methods.next; node != &peer->methods; node = node->next) {
		struct http_method *method = ET_CONTAINER_OF(node, struct http_method, node);
		if (is_of(method, wait))
			return method;
	}
	return NULL;
}

/* Whether the peer may open another Method, which may need to close the one that was used least recently. */
static bool has_room(struct http_peer *peer, bool is_sequence)
{
	struct http_method *oldest = NULL;
	unsigned n = 0;
	for (struct et_list_node *node = peer->methods.next; node != &peer->methods; node = node->next) {
		struct http_method *method = ET_CONTAINER_OF(node, struct http_method, node);
		if (!method->sequence[0] == is_sequence)
			continue;
		n++;
		if (!is_sequence && !method->n_lent && method->state == HTTP_OPEN &&
			(!oldest || method->used_ns < oldest->used_ns))
			oldest = method;
	}
	if (n < (is_sequence ? HTTP_MAX_SEQUENCES : HTTP_MAX_METHODS))
		return true;
	if (!oldest)
		return false;
	method_free(oldest);
	return true;
}

/* NULL: @wait has ended with an error. */
static struct http_method *open_method(struct http_peer *peer, struct http_wait *wait)
{
	uint64_t now = http_now_ns();
	struct inferd_method_options options = { .struct_size = sizeof(options),
		.version = wait->version[0] ? wait->version : NULL,
		.timeout_us = wait->deadline_ns > now ? (wait->deadline_ns - now) / 1000 + 1 : 1,
		.opened = on_method };
	if (!has_room(peer, wait->sequence[0])) {
		end(wait, NULL, 429,
			wait->sequence[0] ? "this client has too many sequences; end one of them"
					  : "this client uses too many models at a time");
		return NULL;
	}
	struct http_method *method = calloc(1, sizeof(*method));
	if (!method) {
		end(wait, NULL, 503, no_memory);
		return NULL;
	}
	method->peer = peer;
	snprintf(method->model, sizeof(method->model), "%s", wait->model);
	snprintf(method->version, sizeof(method->version), "%s", wait->version);
	snprintf(method->sequence, sizeof(method->sequence), "%s", wait->sequence);
	method->opened_ns = method->used_ns = now;
	et_list_init(&method->bindings);
	options.userdata = method;
	et_list_append(&peer->methods, &method->node);
	int rc = inferd_method_open(peer->d, &method->m, wait->model, &options);
	if (rc < 0) {
		char error[600];
		snprintf(error, sizeof(error), "%s", inferd_error(peer->d));
		method->m = NULL;
		method_free(method);
		end(wait, NULL, http_code_of(rc), error);
		return NULL;
	}
	return method;
}

static void end_unknown(struct http_wait *wait, const struct http_method *method)
{
	char error[1000];
	if (-method->status == INFERD_NOT_FOUND)
		snprintf(error, sizeof(error), "Request for unknown model: '%s' is not found: %s", wait->model,
			method->error);
	else
		snprintf(error, sizeof(error), "%s", method->error);
	end(wait, NULL, http_code_of(method->status), error);
}

/* --- a request's way to a binding --------------------------------------------------------------------- */

static void lend(struct http_wait *wait, struct http_binding *binding)
{
	binding->is_lent = true;
	binding->method->n_lent++;
	binding->method->used_ns = http_now_ns();
	http_peer_ref(binding->method->peer);
	end(wait, binding, 0, NULL);
}

/* Look for a Method; open one if need be. NULL: @wait has ended. */
static struct http_method *method_for(struct http_peer *peer, struct http_wait *wait)
{
	char error[800];
	struct http_method *method = find_method(peer, wait);
	bool is_old = method && !wait->sequence[0] && method->state == HTTP_OPEN &&
		      http_now_ns() - method->opened_ns > METHOD_AGE_NS;
	if (method && !method->n_lent &&
		(is_old || (wait->sequence[0] && wait->is_start && method->state == HTTP_OPEN))) {
		retire(method); /* a new sequence has a new state */
		method = NULL;
	}
	if (!method && wait->sequence[0] && !wait->is_start) {
		snprintf(error, sizeof(error),
			"inference request for sequence %s to model '%s' must specify the START flag on the first request "
			"of the sequence",
			wait->sequence + (wait->sequence[0] == '"'), wait->model);
		end(wait, NULL, 400, error);
		return NULL;
	}
	if (!method)
		method = open_method(peer, wait);
	if (method)
		wait->is_start = false; /* it has begun */
	/* A second request that begins the same sequence waits for its turn and then goes on with the state. */
	return method;
}

static void advance(struct http_wait *wait)
{
	struct http_peer *peer = wait->peer;
	if (peer->state == HTTP_GONE) {
		end(wait, NULL, http_code_of(peer->status), peer->error);
		return;
	}
	if (peer->state == HTTP_OPENING)
		return;
	struct http_method *method = method_for(peer, wait);
	if (!method || method->state == HTTP_OPENING)
		return;
	if (method->state == HTTP_GONE) {
		end_unknown(wait, method);
		return;
	}
	if (inferd_method_is_stateful(method->m) && !wait->sequence[0]) {
		char error[400];
		snprintf(error, sizeof(error),
			"inference request to model '%s' must specify a non-zero or non-empty correlation ID "
			"('sequence_id'), because the model keeps a state",
			wait->model);
		end(wait, NULL, 400, error);
		return;
	}
	for (struct et_list_node *node = method->bindings.next; node != &method->bindings; node = node->next) {
		struct http_binding *binding = ET_CONTAINER_OF(node, struct http_binding, node);
		if (binding->state == HTTP_OPEN && !binding->is_lent) {
			lend(wait, binding);
			return;
		}
	}
	if (!wait->making && method->n_bindings < (wait->sequence[0] ? 1 : HTTP_MAX_BINDINGS))
		make_binding(method, wait);
}

static void advance_all(struct http_peer *peer)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &peer->waiters)
		advance(ET_CONTAINER_OF(node, struct http_wait, node));
}

void http_peer_wait(struct http_peer *peer, struct http_wait *wait)
{
	wait->peer = peer;
	et_list_append(&peer->waiters, &wait->node);
	advance(wait);
}

void http_peer_wait_no_more(struct http_wait *wait)
{
	if (!wait->peer)
		return;
	et_list_remove(&wait->node);
	if (wait->making)
		wait->making->maker = NULL;
	wait->making = NULL;
}

void http_binding_release(struct http_binding *binding, bool is_last)
{
	if (!binding)
		return;
	struct http_method *method = binding->method;
	struct http_peer *peer = method->peer;
	binding->is_lent = false;
	method->n_lent--;
	method->used_ns = http_now_ns();
	if (is_last)
		method->is_retired = true;
	if (method->is_retired && !method->n_lent)
		method_free(method);
	if (peer->state == HTTP_OPEN)
		advance_all(peer);
	http_peer_unref(peer);
}

/* --- peers -------------------------------------------------------------------------------------------- */

static void peer_gone(struct http_peer *peer, int status, const char *error)
{
	if (peer->state == HTTP_GONE)
		return;
	peer->state = HTTP_GONE;
	peer->status = status;
	snprintf(peer->error, sizeof(peer->error), "%s", error);
	http_server_unwatch(peer->server, &peer->source);
	et_list_remove(&peer->node);
	et_list_append(&peer->server->dead_peers, &peer->node);
	advance_all(peer);
}

static void on_opened(struct inferd *d, int status, void *userdata)
{
	struct http_peer *peer = userdata;
	if (status < 0) {
		peer_gone(peer, status, inferd_error(d));
		return;
	}
	peer->state = HTTP_OPEN;
	advance_all(peer);
}

void http_peer_dispatch(struct http_peer *peer)
{
	int rc = peer->state == HTTP_GONE ? 0 : inferd_dispatch(peer->d);
	if (rc < 0)
		peer_gone(peer, rc, inferd_error(peer->d));
}

static void on_ready(struct http_source *source, uint32_t events)
{
	http_peer_dispatch(ET_CONTAINER_OF(source, struct http_peer, source));
}

void http_peer_close(struct http_peer *peer)
{
	peer_gone(peer, -INFERD_CANCELLED, "the gateway ends");
}

static struct http_peer *peer_new(struct http_server *server, bool is_shared, uid_t uid)
{
	struct http_peer *peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->server = server;
	peer->is_shared = is_shared;
	peer->uid = uid;
	peer->n_refs = 1;
	peer->source = (struct http_source){ .fd = -1, .ready = on_ready };
	et_list_init(&peer->methods);
	et_list_init(&peer->waiters);
	et_list_append(&server->peers, &peer->node);
	struct inferd_open_options options = { .struct_size = sizeof(options),
		.socket = server->config.daemon,
		.client_name = "inferd-http",
		.reconnect_ms = RECONNECT_MS,
		.timeout_us = server->config.request_timeout_ns / 1000,
		.opened = on_opened,
		.userdata = peer };
	int rc = inferd_open_with(&peer->d, &options);
	if (rc == 0) {
		peer->source.fd = inferd_get_fd(peer->d);
		rc = http_server_watch(server, &peer->source, EPOLLIN);
		if (rc < 0)
			peer_gone(peer, -INFERD_RESOURCE_EXHAUSTED,
				"the gateway has no memory left to wait for the daemon");
	} else {
		peer_gone(peer, rc, inferd_error(peer->d));
	}
	return peer;
}

bool http_peer_is_of(const struct http_peer *peer, bool is_shared, uid_t uid)
{
	return peer->is_shared == is_shared && (!is_shared || peer->uid == uid);
}

struct http_peer *http_peer_of(struct http_server *server, bool is_shared, uid_t uid)
{
	for (struct et_list_node *node = server->peers.next; is_shared && node != &server->peers; node = node->next) {
		struct http_peer *peer = ET_CONTAINER_OF(node, struct http_peer, node);
		if (http_peer_is_of(peer, is_shared, uid))
			return http_peer_ref(peer);
	}
	return peer_new(server, is_shared, uid);
}

struct http_peer *http_peer_ref(struct http_peer *peer)
{
	peer->n_refs++;
	return peer;
}

void http_peer_unref(struct http_peer *peer)
{
	if (!peer || --peer->n_refs)
		return;
	peer->unused_ns = http_now_ns();
	if (!peer->is_shared) /* the states of a user's sequences stay for a while */
		peer_gone(peer, -INFERD_CANCELLED, "the client is gone");
}

static void peer_free(struct http_peer *peer)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &peer->methods)
		method_free(ET_CONTAINER_OF(node, struct http_method, node));
	http_server_unwatch(peer->server, &peer->source);
	et_list_remove(&peer->node);
	inferd_close(peer->d);
	free(peer);
}

void http_peer_reap(struct http_server *server)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &server->dead_peers) {
		struct http_peer *peer = ET_CONTAINER_OF(node, struct http_peer, node);
		if (!peer->n_refs)
			peer_free(peer);
	}
}

static void sweep_methods(struct http_peer *peer, uint64_t now_ns)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &peer->methods) {
		struct http_method *method = ET_CONTAINER_OF(node, struct http_method, node);
		uint64_t limit = method->sequence[0] ? peer->server->config.sequence_idle_ns : METHOD_AGE_NS;
		if (method->state == HTTP_OPEN && !method->n_lent && now_ns - method->used_ns > limit)
			retire(method);
	}
}

void http_peer_sweep(struct http_server *server, uint64_t now_ns)
{
	struct et_list_node *node, *after, *at, *next;
	ET_LIST_FOR_EACH(node, after, &server->peers) {
		struct http_peer *peer = ET_CONTAINER_OF(node, struct http_peer, node);
		ET_LIST_FOR_EACH(at, next, &peer->waiters) {
			struct http_wait *wait = ET_CONTAINER_OF(at, struct http_wait, node);
			if (now_ns >= wait->deadline_ns)
				end(wait, NULL, 504,
					"the time for the request is over; the model was not ready for it");
		}
		sweep_methods(peer, now_ns);
		if (!peer->n_refs && now_ns - peer->unused_ns > PEER_IDLE_NS + server->config.sequence_idle_ns)
			peer_gone(peer, -INFERD_CANCELLED, "the client is gone");
	}
}
