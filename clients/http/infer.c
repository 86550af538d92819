/* SPDX-License-Identifier: BSD-3-Clause */
/* Inference requests: from headers to a run on a binding.
 *
 * The JSON in front is collected and parsed first; it says which Method is needed. While that is opened the
 * connection is suspended. Then each binary input goes piece by piece to where the daemon reads it, or, where its
 * dimensions have another order there, to a buffer from which it is permuted.
 *
 * What must always be true: nothing is written before the JSON was compared with the Method, and no more than the
 * slot of an input has. */
#include "clients/http/infer.h"

#include "clients/http/element.h"
#include "clients/http/output.h"
#include "clients/http/shared.h"
#include "runtime/base/checked.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEPT = 1024 }; /* bytes of JSON */

const char *http_infer_datatype(const struct inferd_tensor_info *info)
{
	if (!info->is_scalar)
		return http_element_size(info->datatype) ? info->datatype : NULL;
	return strcmp(info->datatype, "INT") == 0      ? "INT64"
	       : strcmp(info->datatype, "DOUBLE") == 0 ? "FP64"
	       : strcmp(info->datatype, "BOOL") == 0   ? "BOOL"
						       : NULL;
}

static struct inferd_method *method_of(const struct http_infer *f)
{
	return f->binding->method->m;
}

static unsigned take(void *userdata, const char *data, size_t n_bytes);

/* --- the binding -------------------------------------------------------------------------------------- */

static void on_binding(struct http_wait *wait, struct http_binding *binding, unsigned code, const char *error)
{
	struct http_infer *f = ET_CONTAINER_OF(wait, struct http_infer, wait);
	f->is_waiting = false;
	f->binding = binding;
	if (!binding)
		http_request_fail(f->request, code, "%s", error);
	http_request_wake(f->request);
}

/* The Method depends on the JSON, because of sequences. A raw request has none. */
static void wait_for_binding(struct http_infer *f)
{
	struct http_request *r = f->request;
	struct http_connection *c = r->connection;
	bool is_shared = c->is_unix || r->is_of_page;
	uid_t uid = c->is_unix ? c->uid : HTTP_PAGE_UID;
	if (c->peer && (c->peer->state == HTTP_GONE || !http_peer_is_of(c->peer, is_shared, uid))) {
		http_peer_unref(c->peer);
		c->peer = NULL;
	}
	if (!c->peer)
		c->peer = http_peer_of(r->server, is_shared, uid);
	if (!c->peer) {
		http_request_fail(r, 503, "the gateway has no memory left for this client");
		return;
	}
	f->wait.model = r->route.model;
	f->wait.version = r->route.version;
	f->wait.sequence = f->head ? f->head->sequence : "";
	f->wait.is_start = f->head && f->head->is_start;
	f->wait.deadline_ns = r->deadline_ns;
	f->wait.ended = on_binding;
	f->is_waiting = true;
	http_peer_wait(c->peer, &f->wait);
	if (f->is_waiting)
		http_request_sleep(r);
}

void http_infer_start(struct http_request *r)
{
	struct http_infer *f = http_alloc(sizeof(*f));
	int rc;
	if (!f) {
		http_request_fail(r, 503, "the gateway has no memory left for this request");
		return;
	}
	r->infer = f;
	f->request = r;
	et_list_init(&f->wait.node);
	f->text.max_bytes = (size_t)r->server->config.json_limit;
	f->pending.max_bytes = 1 << 20;
	r->body.sink = take;
	rc = http_request_number(r, "Inference-Header-Content-Length", &f->n_head);
	f->is_raw = rc == 0 && f->n_head == 0;
	if (rc == 1)
		f->n_head = UINT64_MAX;
	else if (rc < 0)
		http_request_fail(r, 400,
			"Unable to parse Inference-Header-Content-Length: it is not a number of bytes");
	else if (f->n_head > r->server->config.json_limit)
		http_request_fail(r, 413,
			"the JSON is larger than the gateway allows ('json_limit' in inferd-http.conf)");
	else if (f->is_raw)
		wait_for_binding(f);
}

/* --- inputs ------------------------------------------------------------------------------------------- */

static bool fits(const struct http_head_input *in, const struct inferd_tensor_info *info)
{
	if (info->is_scalar)
		return in->n_elements == 1 && in->n_dims <= 1;
	if (in->n_dims != info->n_dims || in->n_bytes > info->n_bytes)
		return false;
	for (size_t i = 0; i < in->n_dims && !info->is_dynamic; i++)
		if (in->shape[i] != info->shape[i])
			return false;
	return true;
}

static void write_shape(char *to, size_t room, const int64_t *shape, size_t n_dims)
{
	size_t n = (size_t)snprintf(to, room, "[");
	for (size_t i = 0; i < n_dims && n < room; i++)
		n += (size_t)snprintf(to + n, room - n, "%s%lld", i ? "," : "", (long long)shape[i]);
	if (n < room)
		snprintf(to + n, room - n, "]");
}

static unsigned check_input(struct http_infer *f, size_t i)
{
	const struct http_head_input *in = &f->head->inputs[i];
	const struct inferd_method *m = method_of(f);
	const char *model = f->request->route.model;
	size_t index = 0;
	while (index < inferd_n_inputs(m) && strcmp(inferd_input_info(m, index)->name, in->name) != 0)
		index++;
	const struct inferd_tensor_info *info = inferd_input_info(m, index);
	const char *datatype = info ? http_infer_datatype(info) : NULL;
	if (!datatype) {
		http_request_fail(f->request, 400, "unexpected inference input '%s' for model '%s'", in->name, model);
	} else if (strcmp(datatype, in->datatype) != 0) {
		http_request_fail(f->request, 400,
			"inference input '%s' data-type is '%s', but model '%s' expects '%s'", in->name, in->datatype,
			model, datatype);
	} else if (!fits(in, info)) {
		char given[200], expected[200];
		write_shape(given, sizeof(given), in->shape, in->n_dims);
		write_shape(expected, sizeof(expected), info->shape, info->n_dims);
		http_request_fail(f->request, 400,
			"unexpected shape for input '%s' for model '%s'. Expected %s%s, got %s", in->name, model,
			info->is_dynamic ? "at most " : "", expected, given);
	}
	f->indices[i] = index;
	return f->request->code;
}

/* Where the bytes of a binary input go; NULL: no memory. */
static char *place_for(struct http_infer *f, size_t i)
{
	const struct inferd_tensor_info *info = inferd_input_info(method_of(f), f->indices[i]);
	if (!info->is_scalar && http_is_row_major(info))
		return inferd_input(f->binding->b, f->indices[i]);
	if (!f->staging[i])
		f->staging[i] = http_alloc(f->head->inputs[i].n_bytes + 8);
	return f->staging[i];
}

static unsigned set_scalar(struct http_infer *f, size_t i, const void *data)
{
	const struct http_head_input *in = &f->head->inputs[i];
	int64_t integer = 0;
	int rc;
	if (strcmp(in->datatype, "FP64") == 0) {
		rc = inferd_set_scalar(f->binding->b, f->indices[i], http_element_value(data, "FP64", 0));
	} else {
		memcpy(&integer, data, in->n_bytes);
		rc = inferd_set_scalar_int(f->binding->b, f->indices[i], integer);
	}
	if (rc < 0)
		http_request_fail(f->request, 400, "input '%s': %s", in->name,
			inferd_error(f->binding->method->peer->d));
	return f->request->code;
}

/* Put row-major data where the daemon reads it. */
static unsigned put(struct http_infer *f, size_t i, const void *data)
{
	const struct http_head_input *in = &f->head->inputs[i];
	const struct inferd_tensor_info *info = inferd_input_info(method_of(f), f->indices[i]);
	if (info->is_scalar)
		return set_scalar(f, i, data);
	void *to = inferd_input(f->binding->b, f->indices[i]);
	if (http_is_row_major(info))
		memcpy(to, data, in->n_bytes);
	else
		http_permute(to, data, info, in->shape, http_element_size(in->datatype), false);
	return 0;
}

/* The inputs that are not binary. */
static unsigned put_others(struct http_infer *f)
{
	char error[400];
	for (size_t i = 0; i < f->head->n_inputs && !f->request->code; i++) {
		struct http_head_input *in = &f->head->inputs[i];
		if (in->place.region[0]) {
			char *to = place_for(f, i);
			unsigned code = to ? http_shared_read(f->request->connection, &in->place, to, in->n_bytes,
						     error, sizeof(error))
					   : 503;
			if (code)
				http_request_fail(f->request, code, "%s",
					to ? error : "the gateway has no memory left for this tensor");
		}
		const void *data = in->data ? in->data : f->staging[i];
		if (data && !f->request->code)
			put(f, i, data);
	}
	return f->request->code;
}

static unsigned set_shapes(struct http_infer *f)
{
	for (size_t i = 0; i < f->head->n_inputs; i++) {
		const struct http_head_input *in = &f->head->inputs[i];
		if (inferd_input_info(method_of(f), f->indices[i])->is_dynamic &&
			inferd_set_input_shape(f->binding->b, f->indices[i], in->shape, in->n_dims) < 0) {
			http_request_fail(f->request, 400, "input '%s': %s", in->name,
				inferd_error(f->binding->method->peer->d));
			return f->request->code;
		}
	}
	return 0;
}

/* Compare the head with the Method: each input that has a value appears once. */
static unsigned check_head(struct http_infer *f)
{
	const struct inferd_method *m = method_of(f);
	size_t n_expected = 0;
	for (size_t i = 0; i < inferd_n_inputs(m); i++)
		n_expected += http_infer_datatype(inferd_input_info(m, i)) != NULL;
	for (size_t i = 0; i < f->head->n_inputs; i++)
		if (check_input(f, i))
			return f->request->code;
	if (n_expected != f->head->n_inputs) {
		http_request_fail(f->request, 400, "expected %zu inputs but got %zu inputs for model '%s'", n_expected,
			f->head->n_inputs, f->request->route.model);
		return f->request->code;
	}
	return http_output_check(f->request);
}

/* --- the body ----------------------------------------------------------------------------------------- */

/* A raw request is the bytes of the only input. */
static void make_raw_head(struct http_infer *f, uint64_t n_bytes)
{
	const struct inferd_tensor_info *info = inferd_input_info(method_of(f), 0);
	const char *datatype = info && inferd_n_inputs(method_of(f)) == 1 ? http_infer_datatype(info) : NULL;
	size_t size = datatype ? http_element_size(datatype) : 0;
	struct http_head *head = http_alloc(sizeof(*head));
	struct http_head_input *in = http_alloc(sizeof(*in));
	if (!head || !in || !size) {
		http_free(head);
		http_free(in);
		http_request_fail(f->request, size ? 503 : 400,
			size ? "the gateway has no memory left for this request"
			     : "a raw request (Inference-Header-Content-Length: 0) needs a model with exactly one input");
		return;
	}
	head->inputs = in;
	head->n_inputs = 1;
	head->is_binary = true;
	in->is_binary = true;
	snprintf(in->name, sizeof(in->name), "%.255s", info->name);
	snprintf(in->datatype, sizeof(in->datatype), "%.7s", datatype);
	in->n_dims = info->n_dims;
	memcpy(in->shape, info->shape, sizeof(in->shape));
	if (info->is_dynamic && info->n_dims == 1 && n_bytes % size == 0)
		in->shape[0] = (int64_t)(n_bytes / size);
	in->n_elements = 1;
	for (size_t i = 0; i < in->n_dims; i++)
		in->n_elements *= (size_t)in->shape[i]; /* the Method's, or fewer than the body has bytes */
	in->n_bytes = in->n_elements * size;
	f->head = head;
	if (in->n_bytes != n_bytes) {
		http_request_fail(f->request, 400, "input '%s' of the raw request has %zu bytes, but the body %llu",
			in->name, in->n_bytes, (unsigned long long)n_bytes);
		return;
	}
}

/* A client that keeps its connection mostly sends the same JSON again, with other bytes behind it. Parsing costs more
 * than all else that the gateway does for a small request, so the connection keeps the last one parsed. */
static bool take_last_head(struct http_infer *f)
{
	struct http_connection *c = f->request->connection;
	if (!c->head || c->head_text.n_bytes != f->text.n_bytes ||
		memcmp(c->head_text.data, f->text.data, f->text.n_bytes) != 0)
		return false;
	f->head = c->head;
	c->head = NULL;
	return true;
}

/* A head with tensors in its JSON is not worth it, and may be large. */
static void keep_head(struct http_infer *f)
{
	struct http_connection *c = f->request->connection;
	bool is_worth_it = f->head && f->text.data && f->text.n_bytes <= MAX_KEPT;
	for (size_t i = 0; is_worth_it && i < f->head->n_inputs; i++)
		is_worth_it = !f->head->inputs[i].data;
	if (!is_worth_it)
		return;
	http_buffer_deinit(&c->head_text);
	http_head_free(c->head);
	c->head_text = f->text;
	c->head = f->head;
	f->text = (struct http_buffer){ .data = NULL };
	f->head = NULL;
}

static unsigned parse_head(struct http_infer *f)
{
	char error[600];
	if (take_last_head(f))
		return 0;
	unsigned code = http_head_parse(&f->head, f->text.data ? f->text.data : "", f->text.n_bytes, error,
		sizeof(error));
	if (code || f->text.n_bytes > MAX_KEPT)
		http_buffer_deinit(&f->text);
	if (code)
		http_request_fail(f->request, code, "%s", error);
	return f->request->code;
}

static unsigned take_head(struct http_infer *f, const char *data, size_t n_bytes)
{
	if (!http_buffer_add(&f->text, data, n_bytes))
		http_request_fail(f->request, f->text.n_bytes + n_bytes > f->text.max_bytes ? 413 : 503,
			"the JSON is larger than the gateway allows now ('json_limit' and 'memory' in inferd-http.conf)");
	return f->request->code;
}

static unsigned take_binary(struct http_infer *f, const char *data, size_t n_bytes)
{
	while (n_bytes) {
		while (f->input < f->head->n_inputs &&
			(!f->head->inputs[f->input].is_binary || f->n_done == f->head->inputs[f->input].n_bytes)) {
			f->input++;
			f->n_done = 0;
		}
		if (f->input == f->head->n_inputs) {
			http_request_fail(f->request, 400,
				"unexpected additional input data: the body is longer than the binary_data_size of the inputs");
			return f->request->code;
		}
		size_t n = f->head->inputs[f->input].n_bytes - f->n_done;
		n = n < n_bytes ? n : n_bytes;
		char *to = place_for(f, f->input);
		if (!to) {
			http_request_fail(f->request, 503, "the gateway has no memory left for this tensor");
			return f->request->code;
		}
		memcpy(to + f->n_done, data, n);
		f->n_done += n;
		data += n;
		n_bytes -= n;
	}
	return 0;
}

static bool is_complete(const struct http_infer *f)
{
	for (size_t i = f->input; i < f->head->n_inputs; i++)
		if (f->head->inputs[i].is_binary && f->head->inputs[i].n_bytes != (i == f->input ? f->n_done : 0))
			return false;
	return true;
}

/* Once there are a head and a binding: compare them, and take what has come meanwhile. */
static unsigned begin(struct http_infer *f)
{
	struct http_request *r = f->request;
	uint64_t n_bytes;
	if (r->code || !f->binding || f->is_checked)
		return r->code;
	if (f->is_raw && (r->body.inflate || http_request_number(r, "Content-Length", &n_bytes) != 0)) {
		const struct inferd_tensor_info *info = inferd_input_info(method_of(f), 0);
		n_bytes = info ? info->is_scalar ? 8 : info->n_bytes : 0;
	}
	if (f->is_raw)
		make_raw_head(f, n_bytes);
	if (r->code || check_head(f))
		return r->code;
	f->is_checked = true;
	take_binary(f, f->pending.data, f->pending.n_bytes);
	http_buffer_deinit(&f->pending);
	return r->code;
}

/* Bytes behind the JSON. */
static unsigned take_rest(struct http_infer *f, const char *data, size_t n_bytes)
{
	if (begin(f) || !n_bytes)
		return f->request->code;
	if (f->is_checked)
		return take_binary(f, data, n_bytes);
	if (!http_buffer_add(&f->pending, data, n_bytes))
		http_request_fail(f->request, 503, "the gateway has no memory left for this request");
	return f->request->code;
}

static unsigned take(void *userdata, const char *data, size_t n_bytes)
{
	struct http_request *r = userdata;
	struct http_infer *f = r->infer;
	if (f->is_raw || f->head)
		return take_rest(f, data, n_bytes);
	uint64_t n_left = f->n_head - f->text.n_bytes;
	size_t n = n_left < n_bytes ? (size_t)n_left : n_bytes;
	if (take_head(f, data, n) || f->text.n_bytes < f->n_head || parse_head(f))
		return r->code;
	wait_for_binding(f);
	r->body.is_paused = r->is_suspended;
	return r->code ? r->code : take_rest(f, data + n, n_bytes - n);
}

/* --- the run ------------------------------------------------------------------------------------------ */

static void end_wait(struct http_infer *f, int status)
{
	struct http_server *server = f->request->server;
	struct inferd_timing timing = { .run_ns = UINT32_MAX };
	if (status == 0)
		inferd_last_timing(f->binding->b, &timing);
	uint64_t ns = f->has_spun ? http_now_ns() - f->began_ns : timing.queue_ns + timing.run_ns;
	inf_spin_note(&server->spin, ns < server->spin.window_ns, f->has_spun);
}

static void on_done(struct inferd_binding *b, int status, void *userdata)
{
	struct http_infer *f = userdata;
	f->is_running = false;
	end_wait(f, status);
	f->is_last |= -status == INFERD_STATE_LOST || -status == INFERD_UNAVAILABLE ||
		      -status == INFERD_FAILED_PRECONDITION || -status == INFERD_DISCONNECTED;
	unsigned code = http_code_of(status);
	if (-status == INFERD_STATE_LOST && f->head->is_start) /* there was none yet: the same request begins it anew */
		code = 503;
	if (status < 0)
		http_request_fail(f->request, code, "%s", inferd_error(f->binding->method->peer->d));
	else if (!f->request->is_gone)
		http_output_answer(f->request);
	http_request_wake(f->request);
}

/* Poll for the answer of a request that is likely to be quick, as libinferd does in a call that blocks: to suspend and
 * resume the connection takes longer. */
static void wait_a_moment(struct http_infer *f)
{
	const struct inf_spin *spin = &f->request->server->spin;
	f->began_ns = http_now_ns();
	f->has_spun = inf_spin_is_due(spin);
	uint64_t end_ns = f->began_ns + spin->window_ns;
	while (f->has_spun && f->is_running && http_now_ns() < end_ns) {
		http_peer_dispatch(f->binding->method->peer);
		inf_spin_relax();
	}
}

static void run(struct http_infer *f)
{
	struct http_request *r = f->request;
	uint64_t now = http_now_ns(), left = r->deadline_ns > now ? (r->deadline_ns - now) / 1000 + 1 : 1;
	struct inferd_request_options options = { .struct_size = sizeof(options),
		.priority = f->head->priority,
		.timeout_us = f->head->timeout_us && f->head->timeout_us < left ? f->head->timeout_us : left };
	int rc = inferd_infer_async(f->binding->b, &options, on_done, f);
	if (rc < 0) {
		http_request_fail(r, http_code_of(rc), "%s", inferd_error(f->binding->method->peer->d));
		return;
	}
	f->is_running = true;
	wait_a_moment(f);
	if (f->is_running)
		http_request_sleep(r);
}

void http_infer_run(struct http_request *r)
{
	struct http_infer *f = r->infer;
	if (!f->head && !f->is_raw) {
		if (f->n_head != UINT64_MAX) {
			http_request_fail(r, 400,
				"Unable to parse Inference-Header-Content-Length: it is %llu, but the body has %zu bytes",
				(unsigned long long)f->n_head, f->text.n_bytes);
			return;
		}
		if (parse_head(f))
			return;
	}
	if (!f->binding)
		wait_for_binding(f);
	if (r->code || r->is_suspended || begin(f))
		return;
	if (!is_complete(f))
		http_request_fail(r, 400, "the body is shorter than the binary_data_size of the inputs");
	else if (!put_others(f) && !set_shapes(f))
		run(f);
}

bool http_infer_cancel(struct http_request *r)
{
	struct http_infer *f = r->infer;
	if (f && f->is_running) {
		inferd_cancel(f->binding->b);
		return false;
	}
	if (f && f->is_waiting) {
		http_peer_wait_no_more(&f->wait);
		f->is_waiting = false;
	}
	return true;
}

void http_infer_free(struct http_request *r)
{
	struct http_infer *f = r->infer;
	if (!f)
		return;
	if (f->is_waiting)
		http_peer_wait_no_more(&f->wait);
	http_binding_release(f->binding, f->is_last || (f->head && f->head->sequence[0] && f->head->is_end));
	for (size_t i = 0; i < HTTP_MAX_TENSORS; i++)
		http_free(f->staging[i]);
	keep_head(f);
	http_buffer_deinit(&f->text);
	http_buffer_deinit(&f->pending);
	http_head_free(f->head);
	http_free(f);
	r->infer = NULL;
}
