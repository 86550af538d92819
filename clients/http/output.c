/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of inference requests.
 *
 * The JSON comes first; binary outputs follow, sent from the region itself. Only an output whose dimensions have
 * another order in memory, or a number, is copied first. A compressed answer is deflated while it is sent, a piece at
 * a time.
 *
 * What must always be true: the binding is given back when the answer is gone, not before: its memory is being sent. */
#include "clients/http/output.h"

#include "clients/http/element.h"
#include "clients/http/infer.h"
#include "clients/http/shared.h"
#include "runtime/base/checked.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { MAX_PARTS = HTTP_MAX_TENSORS + 1, MAX_SMALL = 16 << 10, MAX_SORTED = 256 << 10 };

/* What a response holds until it is gone. */
struct answer {
	struct http_buffer head;
	struct MHD_IoVec parts[MAX_PARTS];
	unsigned n_parts;
	void *copies[2 * HTTP_MAX_TENSORS]; /* http_alloc */
	size_t n_copies;
	struct http_binding *binding;
	bool is_last;
	z_stream *deflate; /* NULL: not compressed */
	unsigned part;     /* the one that is deflated now */
};

/* One output that the client gets. */
struct output {
	size_t index;
	const struct inferd_tensor_info *info;
	const char *datatype;
	bool is_binary;
	uint32_t n_classes;
	const struct http_place *place; /* NULL: in the answer */
	size_t n_dims, n_elements, n_bytes;
	int64_t shape[INFERD_MAX_DIMS];
	const void *data; /* row-major */
};

static void answer_free(void *userdata)
{
	struct answer *a = userdata;
	if (!a)
		return;
	if (a->deflate)
		deflateEnd(a->deflate);
	http_free(a->deflate);
	for (size_t i = 0; i < a->n_copies; i++)
		http_free(a->copies[i]);
	http_buffer_deinit(&a->head);
	http_binding_release(a->binding, a->is_last);
	http_free(a);
}

/* --- which outputs ------------------------------------------------------------------------------------ */

static size_t find(const struct inferd_method *m, const char *name)
{
	size_t i = 0;
	while (i < inferd_n_outputs(m) && strcmp(inferd_output_info(m, i)->name, name) != 0)
		i++;
	return i;
}

unsigned http_output_check(struct http_request *r)
{
	const struct http_infer *f = r->infer;
	const struct inferd_method *m = f->binding->method->m;
	for (size_t i = 0; i < f->head->n_outputs && !r->code; i++) {
		const struct http_head_output *out = &f->head->outputs[i];
		size_t index = find(m, out->name);
		const struct inferd_tensor_info *info = inferd_output_info(m, index);
		const char *datatype = info ? http_infer_datatype(info) : NULL;
		if (!datatype)
			http_request_fail(r, 400, "unexpected inference output '%s' for model '%s'", out->name,
				r->route.model);
		else if (!out->is_binary && !out->n_classes && !out->place.region[0] &&
			 !http_element_has_json(datatype))
			http_request_fail(r, 400,
				"output '%s': sending %s as JSON is not supported; ask for binary_data", out->name,
				datatype);
	}
	return r->code;
}

/* How many outputs there are in the answer. */
static size_t n_wanted(const struct http_infer *f)
{
	return f->head->n_outputs ? f->head->n_outputs : inferd_n_outputs(f->binding->method->m);
}

/* False: the @i-th has no value that a client could get. */
static bool choose(const struct http_infer *f, size_t i, struct output *ret)
{
	const struct inferd_method *m = f->binding->method->m;
	const struct http_head_output *out = f->head->n_outputs ? &f->head->outputs[i] : NULL;
	*ret = (struct output){ .index = out ? find(m, out->name) : i,
		.is_binary = out ? out->is_binary : f->head->is_binary };
	ret->info = inferd_output_info(m, ret->index);
	ret->datatype = http_infer_datatype(ret->info);
	if (out) {
		ret->n_classes = out->n_classes;
		ret->place = out->place.region[0] ? &out->place : NULL;
	}
	return ret->datatype != NULL;
}

/* --- values ------------------------------------------------------------------------------------------- */

static void *copy_new(struct answer *a, size_t n_bytes)
{
	void *copy = http_alloc(n_bytes + 8);
	if (copy)
		a->copies[a->n_copies++] = copy;
	return copy;
}

/* A number becomes a tensor with one element; its datatype is what the program returned. */
static bool get_scalar(struct answer *a, struct output *out)
{
	const struct inferd_binding *b = a->binding->b;
	double *real = copy_new(a, 8);
	int64_t integer = 0;
	if (!real)
		return false;
	const char *datatype = inferd_output_datatype(b, out->index);
	if (datatype && strcmp(datatype, "DOUBLE") == 0) {
		out->datatype = "FP64";
		inferd_output_scalar(b, out->index, real);
	} else {
		inferd_output_scalar_int(b, out->index, &integer);
		out->datatype = datatype && strcmp(datatype, "BOOL") == 0 ? "BOOL" : "INT64";
		memcpy(real, &integer, 8);
	}
	out->data = real;
	out->n_dims = 1;
	out->shape[0] = 1;
	out->n_elements = 1;
	out->n_bytes = http_element_size(out->datatype);
	return true;
}

/* False: no memory. */
static bool get_value(struct answer *a, struct output *out)
{
	if (out->info->is_scalar)
		return get_scalar(a, out);
	int n_dims = inferd_output_shape(a->binding->b, out->index, out->shape);
	size_t size = http_element_size(out->datatype);
	out->n_dims = n_dims > 0 ? (size_t)n_dims : 0;
	out->n_elements = 1;
	for (size_t i = 0; i < out->n_dims; i++)
		out->n_elements *= (size_t)out->shape[i];
	out->n_bytes = out->n_elements * size;
	out->data = inferd_output(a->binding->b, out->index);
	if (http_is_row_major(out->info) || out->n_dims != out->info->n_dims)
		return true;
	void *rows = copy_new(a, out->n_bytes);
	if (rows)
		http_permute(rows, out->data, out->info, out->shape, size, true);
	out->data = rows;
	return rows != NULL;
}

/* --- classification ----------------------------------------------------------------------------------- */

struct ranked {
	double value;
	size_t index;
};

static int by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	bool is_x_nan = isnan(x->value), is_y_nan = isnan(y->value);
	if (is_x_nan != is_y_nan)
		return is_x_nan ? 1 : -1; /* NaN is the last */
	if (!is_x_nan && x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* The classes of one row: as strings of JSON, or each with its length in front. */
static void write_row(struct http_buffer *to, const struct output *out, const struct ranked *row, size_t n,
	bool is_first)
{
	char text[800];
	for (size_t i = 0; i < n; i++) {
		const char *label = row[i].index < out->info->n_labels ? out->info->labels[row[i].index] : NULL;
		int n_text = snprintf(text, sizeof(text), "%f:%zu%s%s", row[i].value, row[i].index, label ? ":" : "",
			label ? label : "");
		uint32_t n_bytes = (uint32_t)(n_text < (int)sizeof(text) ? n_text : (int)sizeof(text) - 1);
		if (out->is_binary) {
			http_buffer_add(to, &n_bytes, 4);
			http_buffer_add(to, text, n_bytes);
		} else {
			http_buffer_text(to, is_first && i == 0 ? "" : ",");
			http_buffer_quote(to, text, n_bytes);
		}
	}
}

/* Replace the tensor by the best classes of each row of its last dimension, as BYTES. False: no memory. */
static bool classify(struct answer *a, struct output *out, struct http_buffer *text)
{
	size_t n_columns = out->n_dims ? (size_t)out->shape[out->n_dims - 1] : 1;
	size_t n_rows = n_columns ? out->n_elements / n_columns : 0, n_bytes;
	size_t n = out->n_classes < n_columns ? out->n_classes : n_columns;
	struct ranked *row = et_mul(n_columns, sizeof(*row), &n_bytes) ? http_alloc(n_bytes) : NULL;
	if (!row)
		return false;
	for (size_t k = 0; k < n_rows; k++) {
		for (size_t i = 0; i < n_columns; i++)
			row[i] = (struct ranked){ http_element_value(out->data, out->datatype, k * n_columns + i), i };
		qsort(row, n_columns, sizeof(*row), by_value);
		write_row(text, out, row, n, k == 0);
	}
	http_free(row);
	if (out->n_dims)
		out->shape[out->n_dims - 1] = (int64_t)n;
	out->datatype = "BYTES";
	return !text->is_failed;
}

/* --- writing ------------------------------------------------------------------------------------------ */

static bool no_memory(struct http_request *r)
{
	http_request_fail(r, 503, "the gateway has no memory left for this answer, or 'json_limit' is too low for it");
	return false;
}

static void add_part(struct answer *a, const void *data, size_t n_bytes)
{
	if (n_bytes)
		a->parts[a->n_parts++] = (struct MHD_IoVec){ data, n_bytes };
}

static void write_classes(struct answer *a, struct output *out, struct http_buffer *classes)
{
	if (out->is_binary) {
		http_buffer_printf(&a->head, ",\"parameters\":{\"binary_data_size\":%zu}", classes->n_bytes);
		add_part(a, classes->data, classes->n_bytes);
		a->copies[a->n_copies++] = classes->data;
	} else {
		http_buffer_text(&a->head, ",\"data\":[");
		http_buffer_add(&a->head, classes->data, classes->n_bytes);
		http_buffer_text(&a->head, "]");
		http_buffer_deinit(classes);
	}
}

static bool write_data(struct http_request *r, struct answer *a, const struct output *out)
{
	char error[400];
	bool is_finite;
	if (out->place) {
		unsigned code = http_shared_write(r->connection, out->place, out->data, out->n_bytes, error,
			sizeof(error));
		if (code)
			http_request_fail(r, code, "output '%s': %s", out->info->name, error);
		/* no parameters: Triton's client in C++ takes any for those of binary data */
		return code == 0;
	}
	if (out->is_binary) {
		http_buffer_printf(&a->head, ",\"parameters\":{\"binary_data_size\":%zu}", out->n_bytes);
		add_part(a, out->data, out->n_bytes);
		return true;
	}
	if (!http_element_has_json(out->datatype)) {
		http_request_fail(r, 400, "output '%s': sending %s as JSON is not supported; ask for binary_data",
			out->info->name, out->datatype);
		return false;
	}
	http_buffer_text(&a->head, ",\"data\":");
	if (!http_elements_to_json(&a->head, out->data, out->datatype, out->n_elements, &is_finite) && !is_finite) {
		http_request_fail(r, 400, "output '%s' has infinity or NaN, which JSON has not; ask for binary_data",
			out->info->name);
		return false;
	}
	return true;
}

static bool write_output(struct http_request *r, struct answer *a, struct output *out, bool is_first)
{
	struct http_buffer classes = { .max_bytes = (size_t)r->server->config.json_limit };
	if (!get_value(a, out))
		return no_memory(r);
	if (out->n_classes && out->n_elements > MAX_SORTED) { /* sorting holds up the loop */
		http_request_fail(r, 400, "output '%s' is too large for classification", out->info->name);
		return false;
	}
	if (out->n_classes && !classify(a, out, &classes)) {
		http_buffer_deinit(&classes);
		return no_memory(r);
	}
	http_buffer_text(&a->head, is_first ? "{\"name\":" : ",{\"name\":");
	http_buffer_quote(&a->head, out->info->name, strlen(out->info->name));
	http_buffer_printf(&a->head, ",\"datatype\":\"%s\",\"shape\":[", out->datatype);
	for (size_t i = 0; i < out->n_dims; i++)
		http_buffer_printf(&a->head, "%s%" PRId64, i ? "," : "", out->shape[i]);
	http_buffer_text(&a->head, "]");
	bool is_written = true;
	if (out->n_classes)
		write_classes(a, out, &classes);
	else
		is_written = write_data(r, a, out);
	http_buffer_text(&a->head, "}");
	return is_written;
}

static bool write_answer(struct http_request *r, struct answer *a)
{
	const struct http_infer *f = r->infer;
	const struct inferd_method *m = f->binding->method->m;
	struct output out;
	bool is_first = true;
	http_buffer_text(&a->head, "{");
	if (f->head->id[0]) {
		http_buffer_text(&a->head, "\"id\":");
		http_buffer_quote(&a->head, f->head->id, strlen(f->head->id));
		http_buffer_text(&a->head, ",");
	}
	http_buffer_text(&a->head, "\"model_name\":");
	http_buffer_quote(&a->head, r->route.model, strlen(r->route.model));
	http_buffer_text(&a->head, ",\"model_version\":");
	http_buffer_quote(&a->head, inferd_method_version(m), strlen(inferd_method_version(m)));
	http_buffer_text(&a->head, ",\"outputs\":[");
	if (n_wanted(f) > HTTP_MAX_TENSORS) {
		http_request_fail(r, 400, "the model has more than %d outputs; name those that are wanted",
			HTTP_MAX_TENSORS);
		return false;
	}
	for (size_t i = 0; i < n_wanted(f); i++) {
		if (!choose(f, i, &out))
			continue;
		if (!write_output(r, a, &out, is_first))
			return false;
		is_first = false;
	}
	return http_buffer_text(&a->head, "]}") || no_memory(r);
}

/* --- compression -------------------------------------------------------------------------------------- */

static voidpf take(voidpf self, uInt n, uInt size)
{
	return http_alloc((size_t)n * size);
}

static void give(voidpf self, voidpf memory)
{
	http_free(memory);
}

static ssize_t deflate_some(void *userdata, uint64_t at, char *to, size_t room)
{
	struct answer *a = userdata;
	z_stream *z = a->deflate;
	int rc = Z_OK;
	z->next_out = (Bytef *)to;
	z->avail_out = room < (1 << 30) ? (uInt)room : 1 << 30;
	uInt n_room = z->avail_out;
	while (z->avail_out && rc == Z_OK) {
		if (!z->avail_in && a->part < a->n_parts) {
			struct MHD_IoVec *part = &a->parts[a->part];
			uInt n = part->iov_len < (1 << 30) ? (uInt)part->iov_len : 1 << 30;
			z->next_in = (Bytef *)(uintptr_t)part->iov_base;
			z->avail_in = n;
			part->iov_base = (const char *)part->iov_base + n;
			part->iov_len -= n;
			a->part += !part->iov_len;
		}
		rc = deflate(z, a->part == a->n_parts ? Z_FINISH : Z_NO_FLUSH);
	}
	if (rc < 0 && rc != Z_BUF_ERROR)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	ssize_t n = (ssize_t)(n_room - z->avail_out);
	return n ? n : MHD_CONTENT_READER_END_OF_STREAM;
}

/* "gzip", "deflate" or NULL, by the header Accept-Encoding. A weight of 0 refuses. */
static const char *encoding_for(const struct http_request *r)
{
	const char *text = http_request_header(r, "Accept-Encoding");
	static const char *const names[] = { "gzip", "deflate" };
	for (const char *at = text; at && *at;) {
		at += strspn(at, ", \t");
		size_t n = strcspn(at, ","), n_name = strcspn(at, ",; \t");
		const char *weight = memchr(at, '=', n);
		for (size_t i = 0; i < ET_ARRAY_LEN(names); i++)
			if (strlen(names[i]) == n_name && strncasecmp(at, names[i], n_name) == 0 &&
				!(weight && strtod(weight + 1, NULL) <= 0))
				return names[i];
		at += n;
	}
	return NULL;
}

static struct MHD_Response *compressed(struct answer *a, const char *encoding)
{
	a->deflate = http_alloc(sizeof(*a->deflate));
	if (!a->deflate)
		return NULL;
	a->deflate->zalloc = take;
	a->deflate->zfree = give;
	if (deflateInit2(a->deflate, 1, Z_DEFLATED, encoding[0] == 'g' ? 15 + 16 : 15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		http_free(a->deflate);
		a->deflate = NULL;
		return NULL;
	}
	struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32 << 10, deflate_some, a,
		answer_free);
	if (response)
		MHD_add_response_header(response, "Content-Encoding", encoding);
	return response;
}

/* A small answer is copied into one piece: libmicrohttpd sends the headers of one in several pieces on their own, which
 * wakes the client twice. @a is consumed unless NULL is returned. */
static struct MHD_Response *plain(struct answer *a)
{
	size_t n_bytes = 0, at = 0;
	for (unsigned i = 0; i < a->n_parts; i++)
		n_bytes += a->parts[i].iov_len;
	char *copy = n_bytes <= MAX_SMALL ? http_alloc(n_bytes) : NULL;
	if (!copy)
		return MHD_create_response_from_iovec(a->parts, a->n_parts, answer_free, a);
	for (unsigned i = 0; i < a->n_parts; i++) {
		memcpy(copy + at, a->parts[i].iov_base, a->parts[i].iov_len);
		at += a->parts[i].iov_len;
	}
	struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback(n_bytes, copy, http_free);
	if (response)
		answer_free(a);
	else
		http_free(copy);
	return response;
}

void http_output_answer(struct http_request *r)
{
	struct http_infer *f = r->infer;
	struct answer *a = http_alloc(sizeof(*a));
	if (!a) {
		no_memory(r);
		return;
	}
	a->head.max_bytes = (size_t)r->server->config.json_limit;
	a->binding = f->binding;
	a->is_last = f->is_last || (f->head->sequence[0] && f->head->is_end);
	a->n_parts = 1;
	if (!write_answer(r, a)) {
		a->binding = NULL; /* still the request's */
		answer_free(a);
		return;
	}
	a->parts[0] = (struct MHD_IoVec){ a->head.data, a->head.n_bytes };
	char n_head[24];
	bool is_binary = a->n_parts > 1;
	snprintf(n_head, sizeof(n_head), "%zu", a->head.n_bytes);
	const char *encoding = encoding_for(r);
	struct MHD_Response *response = encoding ? compressed(a, encoding) : plain(a);
	if (!response) {
		a->binding = NULL;
		answer_free(a);
		no_memory(r);
		return;
	}
	f->binding = NULL; /* the response has it */
	MHD_add_response_header(response, "Content-Type", is_binary ? "application/octet-stream" : "application/json");
	if (is_binary)
		MHD_add_response_header(response, "Inference-Header-Content-Length", n_head);
	r->response = response;
	r->code = 200;
}
