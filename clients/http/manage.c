/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata, configuration, statistics, the repository.
 *
 * The daemon's replies become JSON in the shape that Triton's clients read. inferd loads a model when it is first
 * used, so a model is "ready" also before that; it is not ready if it cannot be loaded. */
#include "clients/http/manage.h"

#include "clients/http/ask.h"
#include "clients/http/json.h"
#include "clients/http/page/overview.h"
#include "clients/http/peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char
	*const extensions = "[\"binary_tensor_data\",\"classification\",\"model_configuration\",\"model_repository\","
			    "\"parameters\",\"schedule_policy\",\"sequence\",\"sequence(string_id)\","
			    "\"statistics\",\"system_shared_memory\",\"trace\",\"logging\"]";

static void quote(struct http_request *r, const char *text)
{
	http_buffer_quote(&r->answer, text, strlen(text));
}

/* The datatype of the protocol for one of the daemon's; NULL: a client has nothing to pass or to get. */
static const char *datatype_of(const struct inf_tensor_metadata *t)
{
	if (!t->scalar)
		return strcmp(t->datatype, "String") == 0 || strcmp(t->datatype, "None") == 0 ? NULL : t->datatype;
	return strcmp(t->datatype, "INT") == 0      ? "INT64"
	       : strcmp(t->datatype, "DOUBLE") == 0 ? "FP64"
	       : strcmp(t->datatype, "BOOL") == 0   ? "BOOL"
						    : NULL;
}

static void write_shape(struct http_request *r, const struct inf_tensor_metadata *t)
{
	http_buffer_text(&r->answer, t->scalar ? "[1" : "[");
	for (size_t i = 0; i < t->n_shape && !t->scalar; i++)
		http_buffer_printf(&r->answer, "%s%" PRId64, i ? "," : "", t->dynamic ? -1 : t->shape[i]);
	http_buffer_text(&r->answer, "]");
}

static void write_tensors(struct http_request *r, const struct inf_tensor_metadata *tensors, size_t n, bool is_config,
	bool is_input)
{
	bool is_first = true;
	http_buffer_text(&r->answer, "[");
	for (size_t i = 0; i < n; i++) {
		const char *datatype = datatype_of(&tensors[i]);
		if (!datatype)
			continue;
		http_buffer_text(&r->answer, is_first ? "{\"name\":" : ",{\"name\":");
		is_first = false;
		quote(r, tensors[i].name);
		http_buffer_printf(&r->answer,
			is_config ? ",\"data_type\":\"TYPE_%s\",\"dims\":" : ",\"datatype\":\"%s\",\"shape\":",
			datatype);
		write_shape(r, &tensors[i]);
		if (is_config)
			http_buffer_text(&r->answer, is_input ? ",\"format\":\"FORMAT_NONE\",\"is_shape_tensor\":false,"
								"\"allow_ragged_batch\":false,\"optional\":false}"
							      : ",\"label_filename\":\"\",\"is_shape_tensor\":false}");
		else
			http_buffer_text(&r->answer, "}");
	}
	http_buffer_text(&r->answer, "]");
}

static void write_metadata(struct http_request *r, const struct inf_model_metadata *m)
{
	http_buffer_text(&r->answer, "{\"name\":");
	quote(r, m->name);
	http_buffer_text(&r->answer, ",\"versions\":[");
	for (size_t i = 0; i < m->n_versions; i++) {
		http_buffer_text(&r->answer, i ? "," : "");
		quote(r, m->versions[i]);
	}
	http_buffer_text(&r->answer, "],\"platform\":");
	quote(r, m->platform);
	http_buffer_text(&r->answer, ",\"inputs\":");
	write_tensors(r, m->inputs, m->n_inputs, false, true);
	http_buffer_text(&r->answer, ",\"outputs\":");
	write_tensors(r, m->outputs, m->n_outputs, false, false);
	http_buffer_text(&r->answer, "}");
}

static void write_parameter(struct http_request *r, bool *is_first, const char *tensor, const char *key,
	const char *value)
{
	char name[INF_MAX_NAME + 16];
	snprintf(name, sizeof(name), "%s.%s", tensor, key);
	http_buffer_text(&r->answer, *is_first ? "" : ",");
	*is_first = false;
	quote(r, name);
	http_buffer_text(&r->answer, ":{\"string_value\":");
	quote(r, value);
	http_buffer_text(&r->answer, "}");
}

static void write_numbers(struct http_request *r, bool *is_first, const char *tensor, const char *key,
	const double *numbers, size_t n_numbers)
{
	char text[INF_MAX_CHANNELS * 32] = "";
	for (size_t i = 0, n = 0; i < n_numbers && i < INF_MAX_CHANNELS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.17g", i ? " " : "", numbers[i]);
	write_parameter(r, is_first, tensor, key, text);
}

/* The keys of model.conf for inputs that are images. */
static void write_images(struct http_request *r, const struct inf_model_metadata *m)
{
	bool is_first = true;
	for (size_t i = 0; i < m->n_inputs; i++) {
		const struct inf_tensor_metadata *t = &m->inputs[i];
		if (!t->layout[0])
			continue;
		write_parameter(r, &is_first, t->name, "layout", t->layout);
		write_parameter(r, &is_first, t->name, "colour", t->colour);
		write_numbers(r, &is_first, t->name, "scale", t->scale, t->n_scale);
		write_numbers(r, &is_first, t->name, "offset", t->offset, t->n_offset);
	}
}

static void write_config(struct http_request *r, const struct inf_model_metadata *m)
{
	http_buffer_text(&r->answer, "{\"name\":");
	quote(r, m->name);
	http_buffer_text(&r->answer, ",\"platform\":");
	quote(r, m->platform);
	http_buffer_text(&r->answer, ",\"backend\":");
	quote(r, m->backend);
	http_buffer_text(&r->answer,
		",\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":0,\"input\":");
	write_tensors(r, m->inputs, m->n_inputs, true, true);
	http_buffer_text(&r->answer, ",\"output\":");
	write_tensors(r, m->outputs, m->n_outputs, true, false);
	if (m->stateful)
		http_buffer_printf(&r->answer,
			",\"sequence_batching\":{\"max_sequence_idle_microseconds\":%" PRIu64
			",\"control_input\":[],\"state\":[],"
			"\"direct\":{\"max_queue_delay_microseconds\":0,\"minimum_slot_utilization\":0.0}}",
			r->server->config.sequence_idle_ns / 1000);
	http_buffer_text(&r->answer,
		",\"batch_input\":[],\"batch_output\":[],\"instance_group\":[],\"default_model_filename\":\"\","
		"\"cc_model_filenames\":{},\"metric_tags\":{},\"parameters\":{");
	write_images(r, m);
	http_buffer_text(&r->answer, "},\"model_warmup\":[]}");
}

/* --- the repository ----------------------------------------------------------------------------------- */

/* Which version serves is not known before one is loaded; without a version in the path any of them counts. */
static bool is_asked_for(const struct http_request *r, const struct inf_model_index *m)
{
	return strcmp(m->name, r->route.model) == 0 && strcmp(m->state, "IGNORED") != 0 &&
	       (!r->route.version[0] || strcmp(m->version, r->route.version) == 0);
}

static bool is_ready(const struct inf_model_index *m)
{
	return strcmp(m->state, "READY") == 0 || strcmp(m->state, "UNLOADED") == 0;
}

static void end_ready(struct http_request *r, const struct inf_repository_index *index)
{
	const struct inf_model_index *found = NULL;
	for (size_t i = 0; i < index->n_models; i++)
		if (is_asked_for(r, &index->models[i]) && (!found || !is_ready(found)))
			found = &index->models[i];
	if (!found) {
		http_request_fail(r, 404, "Request for unknown model: '%s' is not found", r->route.model);
	} else if (!is_ready(found)) {
		http_request_fail(r, 503, "model '%s' is not ready: it is %s%s%s", found->name, found->state,
			found->reason[0] ? ": " : "", found->reason);
	} else {
		r->code = 200;
		http_buffer_text(&r->answer, "{\"name\":");
		quote(r, found->name);
		http_buffer_text(&r->answer, ",\"ready\":true}");
	}
}

/* Read {"ready": true} or no body. False: the request is refused. */
static bool read_ready_only(struct http_request *r, bool *ret)
{
	char error[400];
	json_t *root = NULL;
	unsigned code = r->text.n_bytes ? http_json_parse(&root, r->text.data, r->text.n_bytes, error, sizeof(error))
					: 0;
	*ret = json_is_true(json_object_get(root, "ready"));
	json_decref(root);
	if (code)
		http_request_fail(r, code, "%s", error);
	return !code;
}

static void write_index(struct http_request *r, const struct inf_repository_index *index)
{
	bool is_first = true, is_ready_only;
	if (!read_ready_only(r, &is_ready_only))
		return;
	r->code = 200;
	http_buffer_text(&r->answer, "[");
	for (size_t i = 0; i < index->n_models; i++) {
		const struct inf_model_index *m = &index->models[i];
		bool is_unloaded = strcmp(m->state, "UNLOADED") == 0;
		const char *state = is_unloaded || strcmp(m->state, "FAILED") == 0 ? "UNAVAILABLE" : m->state;
		if (strcmp(state, "IGNORED") == 0 || (is_ready_only && strcmp(state, "READY") != 0))
			continue;
		http_buffer_text(&r->answer, is_first ? "{\"name\":" : ",{\"name\":");
		is_first = false;
		quote(r, m->name);
		http_buffer_text(&r->answer, ",\"version\":");
		quote(r, m->version);
		http_buffer_printf(&r->answer, ",\"state\":\"%s\",\"reason\":", state);
		quote(r, is_unloaded && !m->reason[0] ? "unloaded; its first request loads it" : m->reason);
		http_buffer_text(&r->answer, "}");
	}
	http_buffer_text(&r->answer, "]");
}

/* --- statistics --------------------------------------------------------------------------------------- */

static void write_duration(struct http_request *r, const char *name, const struct inf_statistic_duration *d)
{
	http_buffer_printf(&r->answer, "%s\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}", name[0] == 's' ? "" : ",",
		name, d->count, d->ns);
}

static void write_one_stats(struct http_request *r, const struct inf_model_stats *m)
{
	const struct inf_infer_statistics *s = &m->inference_stats;
	const struct inf_statistic_duration none = { 0, 0 };
	http_buffer_text(&r->answer, "{\"name\":");
	quote(r, m->name);
	http_buffer_text(&r->answer, ",\"version\":");
	quote(r, m->version);
	http_buffer_printf(&r->answer,
		",\"last_inference\":%" PRIu64 ",\"inference_count\":%" PRIu64 ",\"execution_count\":%" PRIu64
		",\"inference_stats\":{",
		m->last_inference, m->inference_count, m->execution_count);
	write_duration(r, "success", &s->success);
	write_duration(r, "fail", &s->fail);
	write_duration(r, "queue", &s->queue);
	write_duration(r, "compute_input", &s->compute_input);
	write_duration(r, "compute_infer", &s->compute_infer);
	write_duration(r, "compute_output", &s->compute_output);
	write_duration(r, "cache_hit", &none);
	write_duration(r, "cache_miss", &none);
	http_buffer_text(&r->answer, "},\"batch_stats\":[],\"memory_usage\":[]}");
}

/* Programs that clients brought have no version. A gateway that is an administrator reads them, but not its clients. */
static void write_stats(struct http_request *r, const struct inf_model_stats *stats, size_t n)
{
	const char *comma = "";
	http_buffer_text(&r->answer, "{\"model_stats\":[");
	for (size_t i = 0; i < n; i++) {
		if (!stats[i].version[0])
			continue;
		http_buffer_text(&r->answer, comma);
		write_one_stats(r, &stats[i]);
		comma = ",";
	}
	http_buffer_text(&r->answer, "]}");
}

/* A model that is not loaded has no statistics yet. */
static void end_no_stats(struct http_request *r, const struct inf_repository_index *index)
{
	for (size_t i = 0; i < index->n_models; i++) {
		const struct inf_model_index *m = &index->models[i];
		if (!is_asked_for(r, m))
			continue;
		const struct inf_model_stats none = { .name = m->name, .version = m->version };
		r->code = 200;
		write_stats(r, &none, 1);
		return;
	}
	http_request_fail(r, 404, "Request for unknown model: '%s' is not found", r->route.model);
}

/* --- asking ------------------------------------------------------------------------------------------- */

static void ask(struct http_request *r, bool is_manager, struct inf_request *request);

static void answer(struct http_request *r, const struct inf_reply *reply)
{
	if (reply->kind == INF_REPLY_REPOSITORY_INDEX && r->route.kind == HTTP_ROUTE_MODEL_READY) {
		end_ready(r, &reply->repository_index);
		return;
	}
	if (reply->kind == INF_REPLY_REPOSITORY_INDEX && r->route.kind == HTTP_ROUTE_STATS) {
		end_no_stats(r, &reply->repository_index);
		return;
	}
	if (reply->kind == INF_REPLY_REPOSITORY_INDEX && r->route.kind == HTTP_ROUTE_INDEX) {
		write_index(r, &reply->repository_index);
		return;
	}
	if (reply->kind == INF_REPLY_MODEL_STATISTICS && r->route.kind == HTTP_ROUTE_METRICS) {
		struct inf_request status = { .kind = INF_REQUEST_STATUS };
		http_metrics_models(r, &reply->model_statistics);
		if (!r->code)
			ask(r, false, &status);
		return;
	}
	r->code = 200;
	if (reply->kind == INF_REPLY_SERVER_STATUS && r->route.kind == HTTP_ROUTE_METRICS) {
		http_metrics_status(r, &reply->server_status);
	} else if (reply->kind == INF_REPLY_REPOSITORY_INDEX && r->route.kind == HTTP_ROUTE_OVERVIEW_MODELS) {
		http_overview_models(&r->answer, &reply->repository_index);
	} else if (reply->kind == INF_REPLY_SERVER_STATUS) {
		http_overview_status(&r->answer, &reply->server_status, geteuid());
	} else if (r->route.kind == HTTP_ROUTE_READY) {
		http_buffer_text(&r->answer, "{\"ready\":true}");
	} else if (r->route.kind == HTTP_ROUTE_LOAD || r->route.kind == HTTP_ROUTE_UNLOAD) {
		http_buffer_text(&r->answer, "{}");
	} else if (reply->kind == INF_REPLY_SERVER_METADATA) {
		http_buffer_text(&r->answer, "{\"name\":\"inferd\",\"version\":");
		quote(r, reply->server_metadata.version);
		http_buffer_printf(&r->answer, ",\"extensions\":%s}", extensions);
	} else if (reply->kind == INF_REPLY_MODEL_METADATA && r->route.kind == HTTP_ROUTE_CONFIG) {
		write_config(r, &reply->model_metadata);
	} else if (reply->kind == INF_REPLY_MODEL_METADATA) {
		write_metadata(r, &reply->model_metadata);
	} else if (reply->kind == INF_REPLY_MODEL_STATISTICS) {
		write_stats(r, reply->model_statistics.model_stats, reply->model_statistics.n_model_stats);
	} else {
		r->code = 0;
		http_request_fail(r, 500, "the daemon's answer is not one to this question");
	}
}

static void on_ended(void *userdata, const struct inf_reply *reply, unsigned code, const char *error)
{
	struct http_request *r = userdata;
	r->ask = NULL;
	if (reply) {
		answer(r, reply);
	} else if (code == 404 && r->route.kind == HTTP_ROUTE_STATS && !r->is_second) {
		struct inf_request index = { .kind = INF_REQUEST_REPOSITORY_INDEX };
		r->is_second = true;
		ask(r, false, &index); /* whether it is only not loaded */
	} else if (code == 404) {
		http_request_fail(r, code, "Request for unknown model: '%s' is not found: %s", r->route.model, error);
	} else if (r->route.kind == HTTP_ROUTE_LOAD) {
		http_request_fail(r, code, "failed to load '%s', %s", r->route.model, error);
	} else {
		http_request_fail(r, code, "%s", error);
	}
	if (!r->ask)
		http_request_wake(r);
}

static void ask(struct http_request *r, bool is_manager, struct inf_request *request)
{
	const char *error;
	unsigned code = http_ask_start(&r->ask, r->server, is_manager, request, r->deadline_ns, on_ended, r, &error);
	if (code)
		http_request_fail(r, code, "%s", error);
}

void http_manage_start(struct http_request *r)
{
	struct inf_request request = { .kind = INF_REQUEST_SERVER_METADATA };
	bool is_load = r->route.kind == HTTP_ROUTE_LOAD, is_manager = is_load || r->route.kind == HTTP_ROUTE_UNLOAD;
	if (r->route.kind == HTTP_ROUTE_MODEL || r->route.kind == HTTP_ROUTE_CONFIG) {
		request.kind = INF_REQUEST_MODEL_METADATA;
		request.model_metadata = (struct inf_model_metadata_request){ .name = r->route.model,
			.version = r->route.version };
	} else if (r->route.kind == HTTP_ROUTE_MODEL_READY || r->route.kind == HTTP_ROUTE_INDEX ||
		   r->route.kind == HTTP_ROUTE_OVERVIEW_MODELS) {
		request.kind = INF_REQUEST_REPOSITORY_INDEX;
	} else if (r->route.kind == HTTP_ROUTE_OVERVIEW_STATUS) {
		request.kind = INF_REQUEST_STATUS;
	} else if (r->route.kind == HTTP_ROUTE_STATS || r->route.kind == HTTP_ROUTE_METRICS) {
		request.kind = INF_REQUEST_MODEL_STATISTICS;
		request.model_statistics = (struct inf_model_statistics_request){ .name = r->route.model,
			.version = r->route.version };
	} else if (is_manager) {
		const struct inf_repository_model model = { .model_name = r->route.model };
		request.kind = is_load ? INF_REQUEST_REPOSITORY_MODEL_LOAD : INF_REQUEST_REPOSITORY_MODEL_UNLOAD;
		if (is_load)
			request.repository_model_load = model;
		else
			request.repository_model_unload = model;
	}
	if (is_manager && !r->server->config.load)
		http_request_fail(r, 403, "this gateway does not %s models ('load' in inferd-http.conf)",
			is_load ? "load" : "unload");
	else
		ask(r, is_manager, &request);
	if (r->ask)
		http_request_sleep(r);
}
