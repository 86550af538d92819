/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON of an inference request.
 *
 * The numbers of a tensor become bytes here, and the tree of jansson is freed before anything waits: only one such tree
 * exists at a time, however many requests there are. Sizes are checked against the shape, the shape against overflow.
 *
 * Whether the model has such inputs is not known here: infer.c compares. */
#include "clients/http/head.h"

#include "clients/http/element.h"
#include "clients/http/json.h"
#include "runtime/base/checked.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct reader {
	struct http_head *head;
	char *error;
	size_t error_size;
};

__attribute__((format(printf, 2, 3))) static unsigned fail(const struct reader *r, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(r->error, r->error_size, format, args);
	va_end(args);
	return 400;
}

/* A number from 0 on. */
static bool get_size(const json_t *value, uint64_t *ret)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(value);
	return true;
}

static bool get_text(const json_t *value, char *to, size_t room)
{
	if (!json_is_string(value) || json_string_length(value) >= room)
		return false;
	memcpy(to, json_string_value(value), json_string_length(value) + 1);
	return true;
}

static unsigned read_place(const struct reader *r, const json_t *parameters, const char *name, struct http_place *to)
{
	const json_t *region = json_object_get(parameters, "shared_memory_region");
	const json_t *offset = json_object_get(parameters, "shared_memory_offset");
	const json_t *n_bytes = json_object_get(parameters, "shared_memory_byte_size");
	if (!region)
		return offset || n_bytes ? fail(r, "tensor '%s' has no 'shared_memory_region'", name) : 0;
	if (!get_text(region, to->region, sizeof(to->region)) || !to->region[0])
		return fail(r, "tensor '%s': 'shared_memory_region' is not the name of a region", name);
	if (!get_size(n_bytes, &to->n_bytes) || (offset && !get_size(offset, &to->offset)))
		return fail(r, "tensor '%s': its offset or size in the region '%s' is not a number of bytes", name,
			to->region);
	return 0;
}

static unsigned read_shape(const struct reader *r, const json_t *shape, struct http_head_input *in)
{
	in->n_elements = 1;
	if (!json_is_array(shape) || json_array_size(shape) > INFERD_MAX_DIMS)
		return fail(r, "input '%s': its shape is not an array of at most %d numbers", in->name,
			INFERD_MAX_DIMS);
	in->n_dims = json_array_size(shape);
	for (size_t i = 0; i < in->n_dims; i++) {
		uint64_t n;
		if (!get_size(json_array_get(shape, i), &n) || n > INT32_MAX ||
			!et_mul(in->n_elements, (size_t)n, &in->n_elements))
			return fail(r, "input '%s': its shape has a dimension that is no size", in->name);
		in->shape[i] = (int64_t)n;
	}
	if (!et_mul(in->n_elements, http_element_size(in->datatype), &in->n_bytes) || in->n_bytes > INT64_MAX)
		return fail(r, "input '%s': its shape is larger than memory", in->name);
	return 0;
}

static unsigned read_data(const struct reader *r, const json_t *item, struct http_head_input *in)
{
	const json_t *parameters = json_object_get(item, "parameters"), *data = json_object_get(item, "data");
	const json_t *binary = json_object_get(parameters, "binary_data_size");
	uint64_t n_bytes = 0;
	unsigned code = read_place(r, parameters, in->name, &in->place);
	if (code)
		return code;
	if ((data != NULL) + (binary != NULL) + (in->place.region[0] != 0) != 1)
		return fail(r, "input '%s' needs one of 'data', 'binary_data_size' and 'shared_memory_region'",
			in->name);
	if (binary && (!get_size(binary, &n_bytes) || n_bytes != in->n_bytes))
		return fail(r, "input '%s': its binary_data_size is not the %zu bytes of its shape", in->name,
			in->n_bytes);
	if (in->place.region[0] && in->place.n_bytes != in->n_bytes)
		return fail(r, "input '%s': its shared_memory_byte_size is not the %zu bytes of its shape", in->name,
			in->n_bytes);
	if (binary) {
		in->is_binary = true;
		return et_add(r->head->n_binary_bytes, in->n_bytes, &r->head->n_binary_bytes)
			       ? 0
			       : fail(r, "the inputs are larger than memory");
	}
	if (!data)
		return 0;
	if (!http_element_has_json(in->datatype))
		return fail(r, "input '%s': sending %s as JSON is not supported; send it as binary data", in->name,
			in->datatype);
	char why[160];
	code = http_elements_from_json(data, in->datatype, in->n_elements, &in->data, why, sizeof(why));
	if (code)
		fail(r, "input '%s': %s", in->name, why);
	return code;
}

static unsigned read_input(const struct reader *r, const json_t *item)
{
	struct http_head_input *in = &r->head->inputs[r->head->n_inputs];
	if (!get_text(json_object_get(item, "name"), in->name, sizeof(in->name)))
		return fail(r, "an input has no 'name' of at most %d characters", HTTP_MAX_NAME - 1);
	r->head->n_inputs++;
	for (size_t i = 0; i + 1 < r->head->n_inputs; i++)
		if (strcmp(r->head->inputs[i].name, in->name) == 0)
			return fail(r, "input '%s' appears twice", in->name);
	const json_t *datatype = json_object_get(item, "datatype");
	if (!get_text(datatype, in->datatype, sizeof(in->datatype)) || !http_element_size(in->datatype))
		return fail(r, "input '%s': the datatype '%s' is not one of numbers", in->name,
			json_is_string(datatype) && json_string_length(datatype) < 40 ? json_string_value(datatype)
										      : "");
	unsigned code = read_shape(r, json_object_get(item, "shape"), in);
	return code ? code : read_data(r, item, in);
}

static unsigned read_output(const struct reader *r, const json_t *item)
{
	struct http_head_output *out = &r->head->outputs[r->head->n_outputs];
	const json_t *parameters = json_object_get(item, "parameters"), *value;
	uint64_t n_classes = 0;
	if (!get_text(json_object_get(item, "name"), out->name, sizeof(out->name)))
		return fail(r, "an output has no 'name' of at most %d characters", HTTP_MAX_NAME - 1);
	for (size_t i = 0; i < r->head->n_outputs; i++)
		if (strcmp(r->head->outputs[i].name, out->name) == 0)
			return fail(r, "output '%s' appears twice", out->name);
	out->is_binary = r->head->is_binary;
	if ((value = json_object_get(parameters, "binary_data"))) {
		if (!json_is_boolean(value))
			return fail(r, "output '%s': 'binary_data' is neither true nor false", out->name);
		out->is_binary = json_is_true(value);
	}
	if ((value = json_object_get(parameters, "classification"))) {
		if (!get_size(value, &n_classes) || n_classes > 1000000)
			return fail(r, "output '%s': 'classification' is not a number of classes", out->name);
		out->n_classes = (uint32_t)n_classes;
	}
	unsigned code = read_place(r, parameters, out->name, &out->place);
	if (code)
		return code;
	if (out->n_classes && out->place.region[0])
		return fail(r, "output '%s': shared memory does not support classification", out->name);
	r->head->n_outputs++;
	return 0;
}

/* 1 is the highest priority; 0 is the default. */
static unsigned read_priority(const struct reader *r, const json_t *value)
{
	static const enum inferd_priority priorities[] = { INFERD_INTERACTIVE, INFERD_REALTIME, INFERD_INTERACTIVE,
		INFERD_BATCH, INFERD_IDLE };
	uint64_t n;
	if (!value)
		return 0;
	if (!get_size(value, &n) || n >= ET_ARRAY_LEN(priorities))
		return fail(r, "'priority' is a number from 1 (realtime) to 4 (idle), or 0");
	r->head->priority = priorities[n];
	return 0;
}

static unsigned read_sequence(const struct reader *r, const json_t *parameters)
{
	struct http_head *head = r->head;
	const json_t *id = json_object_get(parameters, "sequence_id");
	const json_t *start = json_object_get(parameters, "sequence_start"),
		     *end = json_object_get(parameters, "sequence_end");
	if ((start && !json_is_boolean(start)) || (end && !json_is_boolean(end)))
		return fail(r, "'sequence_start' and 'sequence_end' are true or false");
	head->is_start = json_is_true(start);
	head->is_end = json_is_true(end);
	if (json_is_integer(id) && json_integer_value(id) != 0)
		snprintf(head->sequence, sizeof(head->sequence), "%" JSON_INTEGER_FORMAT, json_integer_value(id));
	else if (json_is_string(id) && json_string_length(id) > 0 &&
		 json_string_length(id) < sizeof(head->sequence) - 1)
		snprintf(head->sequence, sizeof(head->sequence), "\"%s", json_string_value(id)); /* "5" is not 5 */
	else if (id && !json_is_integer(id) && !(json_is_string(id) && !json_string_length(id)))
		return fail(r, "'sequence_id' is neither a number nor a string of at most %d characters",
			HTTP_MAX_NAME - 2);
	return 0;
}

static unsigned read_parameters(const struct reader *r, const json_t *parameters)
{
	const json_t *value = json_object_get(parameters, "timeout");
	if (parameters && !json_is_object(parameters))
		return fail(r, "'parameters' is not an object");
	if (value && !get_size(value, &r->head->timeout_us))
		return fail(r, "'timeout' is not a number of microseconds");
	value = json_object_get(parameters, "binary_data_output");
	if (value && !json_is_boolean(value))
		return fail(r, "'binary_data_output' is neither true nor false");
	r->head->is_binary = json_is_true(value);
	unsigned code = read_priority(r, json_object_get(parameters, "priority"));
	return code ? code : read_sequence(r, parameters);
}

static unsigned read_tensors(const struct reader *r, const json_t *array, const char *name, void **ret,
	size_t item_bytes, unsigned (*read_one)(const struct reader *r, const json_t *item))
{
	if (!json_is_array(array) || json_array_size(array) > HTTP_MAX_TENSORS)
		return fail(r, "'%s' is not an array of at most %d tensors", name, HTTP_MAX_TENSORS);
	*ret = http_alloc(json_array_size(array) * item_bytes);
	if (!*ret) {
		fail(r, "the gateway has no memory left for this request");
		return 503;
	}
	for (size_t i = 0; i < json_array_size(array); i++) {
		unsigned code = read_one(r, json_array_get(array, i));
		if (code)
			return code;
	}
	return 0;
}

static unsigned read_all(const struct reader *r, const json_t *root)
{
	struct http_head *head = r->head;
	const json_t *id = json_object_get(root, "id"), *outputs = json_object_get(root, "outputs");
	if (!json_is_object(root))
		return fail(r, "the request is not a JSON object");
	if (id && !get_text(id, head->id, sizeof(head->id)))
		return fail(r, "'id' is not a string of at most %d characters", HTTP_MAX_ID - 1);
	unsigned code = read_parameters(r, json_object_get(root, "parameters"));
	if (!code)
		code = read_tensors(r, json_object_get(root, "inputs"), "inputs", (void **)&head->inputs,
			sizeof(*head->inputs), read_input);
	if (!code && outputs)
		code = read_tensors(r, outputs, "outputs", (void **)&head->outputs, sizeof(*head->outputs),
			read_output);
	return code;
}

unsigned http_head_parse(struct http_head **ret, const char *text, size_t n_bytes, char *error, size_t error_size)
{
	json_t *root;
	struct reader r = { http_alloc(sizeof(struct http_head)), error, error_size };
	if (!r.head) {
		snprintf(error, error_size, "the gateway has no memory left for this request");
		return 503;
	}
	unsigned code = http_json_parse(&root, text, n_bytes, error, error_size);
	if (!code)
		code = read_all(&r, root);
	json_decref(root);
	if (code) {
		http_head_free(r.head);
		return code;
	}
	*ret = r.head;
	return 0;
}

void http_head_free(struct http_head *head)
{
	for (size_t i = 0; head && i < head->n_inputs; i++)
		http_free(head->inputs[i].data);
	if (head) {
		http_free(head->inputs);
		http_free(head->outputs);
	}
	http_free(head);
}
