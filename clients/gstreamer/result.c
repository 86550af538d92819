/* SPDX-License-Identifier: BSD-3-Clause */
/* Result: the outputs of a request as GStreamer's metadata.
 *
 * All outputs become one GstTensorMeta, as onnxinference attaches it, so that Debian's decoders work behind this
 * element. A tensor's id is the name of the output; the four names that exporters of SSD detectors use get the ids
 * that ssdobjectdetector looks for. The bytes are copied: the next request writes to the memory that they came from,
 * while a sink may keep the frame. GstTensor knows row-major order only, so an output of another dim order is
 * permuted.
 *
 * The labels say what an output is besides: as many elements as labels are classes; rows for four numbers and each of
 * the labels are boxes (boxes.c), for which GStreamer 1.26 has no decoder. */
#include "clients/gstreamer/result.h"

#include "clients/gstreamer/boxes.h"
#include "clients/gstreamer/filter.h"

#include <gst/analytics/analytics.h>

#include <math.h>
#include <string.h>

enum { MAX_VALUES = 16 }; /* of an output in a message */

/* ---- labels ---- */

static GArray *quarks_of(const char *const *labels, size_t n)
{
	GArray *quarks = g_array_sized_new(FALSE, FALSE, sizeof(GQuark), (guint)n);
	for (size_t i = 0; i < n; i++) {
		GQuark quark = g_quark_from_string(labels[i]);
		g_array_append_val(quarks, quark);
	}
	return quarks;
}

/* How many elements an output has at most. The daemon has checked that the product does not overflow. */
static size_t n_elements(const struct inferd_tensor_info *info)
{
	size_t n = !info->is_scalar && info->n_dims;
	for (size_t d = 0; d < info->n_dims; d++)
		n *= (size_t)info->shape[d];
	return n;
}

/* Whether @n labels are those of a YOLO detector with this output. */
static bool has_boxes(const char *datatype, size_t n_dims, const int64_t *shape, size_t n)
{
	return n > 0 && n_dims == 3 && shape[0] == 1 && shape[1] == (int64_t)n + 4 && strcmp(datatype, "FP32") == 0;
}

static char *read_labels(struct inf_gst_labels *labels, const struct inferd_method *m, const char *path)
{
	g_autofree char *text = NULL;
	g_autoptr(GError) error = NULL;
	gsize n_bytes;
	if (!g_file_get_contents(path, &text, &n_bytes, &error))
		return g_strdup_printf("labels: %s", error->message);
	if (!g_utf8_validate(text, (gssize)n_bytes, NULL))
		return g_strdup_printf("labels: %s is not UTF-8", path);
	g_strchomp(text);
	g_auto(GStrv) lines = g_strsplit(text, "\n", INF_GST_MAX_LABELS + 1);
	size_t n = g_strv_length(lines);
	for (size_t i = 0; i < n; i++)
		g_strchomp(lines[i]);
	for (size_t i = 0; i < labels->n_outputs; i++) {
		const struct inferd_tensor_info *info = inferd_output_info(m, i);
		bool fits = n > 0 && (n_elements(info) == n || has_boxes(info->datatype, info->n_dims, info->shape, n));
		if (!fits)
			continue;
		g_clear_pointer(&labels->of_output[i], g_array_unref);
		labels->of_output[i] = quarks_of((const char *const *)lines, n);
		return NULL;
	}
	return g_strdup_printf("labels: %s has %zu lines; no output has as many elements, or boxes with as many scores",
		path, n);
}

char *inf_gst_labels_init(struct inf_gst_labels *labels, const struct inferd_method *m, const char *path)
{
	labels->n_outputs = inferd_n_outputs(m);
	labels->of_output = g_new0(GArray *, labels->n_outputs + 1);
	for (size_t i = 0; i < labels->n_outputs; i++) {
		const struct inferd_tensor_info *info = inferd_output_info(m, i);
		if (info->n_labels)
			labels->of_output[i] = quarks_of(info->labels, info->n_labels);
	}
	return path ? read_labels(labels, m, path) : NULL;
}

void inf_gst_labels_deinit(struct inf_gst_labels *labels)
{
	for (size_t i = 0; i < labels->n_outputs; i++)
		g_clear_pointer(&labels->of_output[i], g_array_unref);
	g_clear_pointer(&labels->of_output, g_free);
	labels->n_outputs = 0;
}

/* ---- one output ---- */

static const struct type {
	const char *name;
	GstTensorDataType type;
	size_t n_bytes;
} types[] = {
	{ "FP32", GST_TENSOR_DATA_TYPE_FLOAT32, 4 },
	{ "FP16", GST_TENSOR_DATA_TYPE_FLOAT16, 2 },
	{ "BF16", GST_TENSOR_DATA_TYPE_BFLOAT16, 2 },
	{ "FP64", GST_TENSOR_DATA_TYPE_FLOAT64, 8 },
	{ "INT8", GST_TENSOR_DATA_TYPE_INT8, 1 },
	{ "INT16", GST_TENSOR_DATA_TYPE_INT16, 2 },
	{ "INT32", GST_TENSOR_DATA_TYPE_INT32, 4 },
	{ "INT64", GST_TENSOR_DATA_TYPE_INT64, 8 },
	{ "UINT8", GST_TENSOR_DATA_TYPE_UINT8, 1 },
	{ "UINT16", GST_TENSOR_DATA_TYPE_UINT16, 2 },
	{ "UINT32", GST_TENSOR_DATA_TYPE_UINT32, 4 },
	{ "UINT64", GST_TENSOR_DATA_TYPE_UINT64, 8 },
	{ "BOOL", GST_TENSOR_DATA_TYPE_UINT8, 1 },
};

/* Types of scalars. */
static const struct type truth = { "BOOL", GST_TENSOR_DATA_TYPE_UINT8, 1 };
static const struct type integer = { "INT", GST_TENSOR_DATA_TYPE_INT64, 8 };
static const struct type real = { "DOUBLE", GST_TENSOR_DATA_TYPE_FLOAT64, 8 };

struct output {
	const struct inferd_tensor_info *info;
	const struct type *type; /* NULL: nothing that a tensor can hold */
	const void *bytes;       /* of a tensor */
	union {                  /* of a scalar */
		int64_t i;
		double d;
		uint8_t b;
	} scalar;
	int n_dims;
	int64_t shape[INFERD_MAX_DIMS];
	size_t n; /* elements */
};

static const struct type *find_type(const char *name)
{
	for (size_t i = 0; name && i < G_N_ELEMENTS(types); i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

static void read_scalar(struct output *output, const struct inferd_binding *b, size_t index)
{
	const char *datatype = inferd_output_datatype(b, index);
	output->bytes = &output->scalar;
	output->n_dims = 1;
	output->shape[0] = 1;
	output->n = 1;
	if (inferd_output_scalar_int(b, index, &output->scalar.i) >= 0) {
		bool is_bool = strcmp(datatype, "BOOL") == 0;
		output->type = is_bool ? &truth : &integer;
		if (is_bool)
			output->scalar.b = output->scalar.i != 0;
	} else if (inferd_output_scalar(b, index, &output->scalar.d) >= 0) {
		output->type = &real;
	}
}

/* Read the present state of output @index. The caller holds the connection's lock. */
static void read_output(struct output *output, const struct inferd_method *m, const struct inferd_binding *b,
	size_t index)
{
	memset(output, 0, sizeof(*output));
	output->info = inferd_output_info(m, index);
	if (output->info->is_scalar) {
		read_scalar(output, b, index);
		return;
	}
	output->bytes = inferd_output(b, index);
	output->n_dims = inferd_output_shape(b, index, output->shape);
	if (output->n_dims < 0 || !output->bytes)
		return;
	output->n = 1;
	for (int i = 0; i < output->n_dims; i++)
		output->n *= (size_t)output->shape[i];
	output->type = find_type(output->info->datatype);
}

static bool is_row_major(const struct output *output)
{
	for (int i = 0; i < output->n_dims && !output->info->is_scalar; i++)
		if (output->info->dim_order[i] != i)
			return false;
	return true;
}

/* Copy the elements in row-major order. */
static void permute(const struct output *output, char *to)
{
	size_t strides[INFERD_MAX_DIMS], stride = output->type->n_bytes, n_element = stride;
	int64_t at[INFERD_MAX_DIMS] = { 0 };
	for (int i = output->n_dims; i-- > 0;) {
		strides[output->info->dim_order[i]] = stride;
		stride *= (size_t)output->shape[output->info->dim_order[i]];
	}
	for (size_t n = 0; n < output->n; n++, to += n_element) {
		const char *from = output->bytes;
		for (int i = 0; i < output->n_dims; i++)
			from += (size_t)at[i] * strides[i];
		memcpy(to, from, n_element);
		for (int i = output->n_dims; i-- > 0 && ++at[i] == output->shape[i];)
			at[i] = 0;
	}
}

static GQuark id_of(const char *name)
{
	static const char *const detector[][2] = {
		{ "detection_boxes", "Gst.Model.ObjectDetector.Boxes" },
		{ "detection_scores", "Gst.Model.ObjectDetector.Scores" },
		{ "detection_classes", "Gst.Model.ObjectDetector.Classes" },
		{ "num_detections", "Gst.Model.ObjectDetector.NumDetections" },
	};
	for (size_t i = 0; i < G_N_ELEMENTS(detector); i++)
		if (strcmp(name, detector[i][0]) == 0)
			return g_quark_from_static_string(detector[i][1]);
	return g_quark_from_string(name);
}

static GstTensor *tensor_new(const struct output *output)
{
	size_t n_bytes = output->n * output->type->n_bytes;
	char *bytes = g_malloc(n_bytes + 1);
	GstTensor *tensor = gst_tensor_alloc((gsize)output->n_dims);
	if (is_row_major(output))
		memcpy(bytes, output->bytes, n_bytes);
	else
		permute(output, bytes);
	tensor->id = id_of(output->info->name);
	tensor->layout = GST_TENSOR_LAYOUT_CONTIGUOUS;
	tensor->data_type = output->type->type;
	tensor->dims_order = GST_TENSOR_DIM_ORDER_ROW_MAJOR;
	tensor->num_dims = (gsize)output->n_dims;
	for (int i = 0; i < output->n_dims; i++)
		tensor->dims[i] = (gsize)output->shape[i];
	tensor->data = gst_buffer_new_wrapped(bytes, n_bytes);
	return tensor;
}

/* ---- classes and messages ---- */

static void append_float(GValue *list, float value)
{
	GValue item = G_VALUE_INIT;
	g_value_init(&item, G_TYPE_FLOAT);
	g_value_set_float(&item, value);
	gst_value_array_append_and_take_value(list, &item);
}

static void append_label(GValue *list, GQuark label)
{
	GValue item = G_VALUE_INIT;
	g_value_init(&item, G_TYPE_STRING);
	g_value_set_static_string(&item, g_quark_to_string(label));
	gst_value_array_append_and_take_value(list, &item);
}

/* The index of the highest score after @last, equal ones by index; @n: there is none. */
static size_t next_best(const float *scores, size_t n, size_t last)
{
	size_t best = n;
	for (size_t i = 0; i < n; i++) {
		if (last < n && (scores[i] > scores[last] || (scores[i] == scores[last] && i <= last)))
			continue;
		if (scores[i] == scores[i] && (best == n || scores[i] > scores[best]))
			best = i;
	}
	return best;
}

/* Attach the @top classes, and tell them in @message. */
static void add_classes(GstBuffer *frame, const float *scores, const GArray *labels, size_t top, GstStructure *message)
{
	size_t n = 0, best = labels->len;
	g_autofree float *levels = g_new(float, top);
	g_autofree GQuark *quarks = g_new(GQuark, top);
	GValue confidences = G_VALUE_INIT, names = G_VALUE_INIT;
	g_value_init(&confidences, GST_TYPE_ARRAY);
	g_value_init(&names, GST_TYPE_ARRAY);
	while (n < top && (best = next_best(scores, labels->len, best)) < labels->len) {
		levels[n] = scores[best];
		quarks[n] = g_array_index(labels, GQuark, best);
		append_float(&confidences, levels[n]);
		append_label(&names, quarks[n]);
		n++;
	}
	if (n > 0) {
		GstAnalyticsClsMtd classes;
		GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(frame);
		if (!meta)
			meta = gst_buffer_add_analytics_relation_meta(frame);
		gst_analytics_relation_meta_add_cls_mtd(meta, n, levels, quarks, &classes);
	}
	if (n > 0 && message && !gst_structure_has_field(message, "label")) {
		gst_structure_set(message, "label", G_TYPE_STRING, g_quark_to_string(quarks[0]), "confidence",
			G_TYPE_FLOAT, levels[0], NULL);
		gst_structure_set_value(message, "labels", &names);
		gst_structure_set_value(message, "confidences", &confidences);
	}
	g_value_unset(&confidences);
	g_value_unset(&names);
}

static void append_box(GValue *list, const int *numbers)
{
	GValue box = G_VALUE_INIT, number = G_VALUE_INIT;
	g_value_init(&box, GST_TYPE_ARRAY);
	g_value_init(&number, G_TYPE_INT);
	for (size_t i = 0; i < 4; i++) {
		g_value_set_int(&number, numbers[i]);
		gst_value_array_append_value(&box, &number);
	}
	gst_value_array_append_and_take_value(list, &box);
}

/* Attach the boxes in @tensor, and tell them in @message: x, y, width, height of each. */
static void add_boxes(GstBuffer *frame, const GstTensor *tensor, const GArray *labels,
	const struct inf_gst_box_limits *limits, GstStructure *message)
{
	struct inf_gst_box found[INF_GST_MAX_BOXES];
	GValue boxes = G_VALUE_INIT, confidences = G_VALUE_INIT, names = G_VALUE_INIT;
	GstMapInfo map;
	if (!gst_buffer_map(tensor->data, &map, GST_MAP_READ))
		return;
	size_t n = inf_gst_boxes_find((const float *)(const void *)map.data, labels->len, tensor->dims[2], limits,
		found);
	gst_buffer_unmap(tensor->data, &map);
	GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(frame);
	if (!meta)
		meta = gst_buffer_add_analytics_relation_meta(frame);
	g_value_init(&boxes, GST_TYPE_ARRAY);
	g_value_init(&confidences, GST_TYPE_ARRAY);
	g_value_init(&names, GST_TYPE_ARRAY);
	for (size_t i = 0; i < n; i++) {
		const struct inf_gst_box *box = &found[i];
		GQuark label = g_array_index(labels, GQuark, box->label);
		int x = (int)box->left, y = (int)box->top;
		const int numbers[4] = { x, y, (int)ceilf(box->right) - x, (int)ceilf(box->bottom) - y };
		GstAnalyticsODMtd attached;
		gst_analytics_relation_meta_add_od_mtd(meta, label, x, y, numbers[2], numbers[3], box->score,
			&attached);
		append_box(&boxes, numbers);
		append_float(&confidences, box->score);
		append_label(&names, label);
	}
	if (message && !gst_structure_has_field(message, "labels")) {
		gst_structure_set_value(message, "boxes", &boxes);
		gst_structure_set_value(message, "confidences", &confidences);
		gst_structure_set_value(message, "labels", &names);
	}
	g_value_unset(&boxes);
	g_value_unset(&confidences);
	g_value_unset(&names);
}

/* A few numbers are told as they are. */
static void add_values(GstStructure *message, const struct output *output)
{
	const float *values = output->bytes;
	GValue list = G_VALUE_INIT;
	g_value_init(&list, GST_TYPE_ARRAY);
	for (size_t i = 0; i < output->n; i++)
		append_float(&list, values[i]);
	gst_structure_set_value(message, output->info->name, &list);
	g_value_unset(&list);
}

static GstStructure *message_new(InferdFilter *f, const struct inf_gst_item *item, GstBuffer *frame)
{
	return gst_structure_new("inferdfilter", "model", G_TYPE_STRING, f->settings.model, "timestamp", G_TYPE_UINT64,
		GST_BUFFER_PTS(frame), "running-time", G_TYPE_UINT64, item->running, "stream-time", G_TYPE_UINT64,
		item->stream, "duration", G_TYPE_UINT64, GST_BUFFER_DURATION(frame), NULL);
}

/* The size of the image that the model sees, which is the frame's; 0: it is sound. */
static struct inf_gst_box_limits image_limits(const struct inf_gst_connection *c)
{
	const struct inf_gst_input *input = &c->input;
	const int64_t *shape = input->is_dynamic ? c->shape : input->shape;
	if (input->kind != INF_GST_IMAGE)
		return (struct inf_gst_box_limits){ .width = 0 };
	return (struct inf_gst_box_limits){ .width = (float)shape[input->width_dim],
		.height = (float)shape[input->height_dim] };
}

GstMessage *inf_gst_result_attach(InferdFilter *f, struct inf_gst_slot *slot, GstBuffer *frame)
{
	struct inf_gst_connection *c = &f->connection;
	size_t n_outputs = f->labels.n_outputs, n_tensors = 0;
	g_autofree struct output *outputs = g_new(struct output, n_outputs + 1);
	GstTensor **tensors = g_new0(GstTensor *, n_outputs + 1);
	g_mutex_lock(&c->lock);
	struct inf_gst_box_limits limits = image_limits(c);
	for (size_t i = 0; i < n_outputs; i++)
		read_output(&outputs[i], c->m, slot->binding, i);
	g_mutex_unlock(&c->lock);
	GST_OBJECT_LOCK(f);
	size_t top = f->top;
	bool posts = f->posts_messages;
	limits.score = f->score_threshold;
	limits.overlap = f->iou_threshold;
	GST_OBJECT_UNLOCK(f);
	GstStructure *message = posts ? message_new(f, slot->item, frame) : NULL;
	for (size_t i = 0; i < n_outputs; i++) {
		struct output *output = &outputs[i];
		if (!output->type)
			continue;
		tensors[n_tensors++] = tensor_new(output);
		if (output->type->type != GST_TENSOR_DATA_TYPE_FLOAT32)
			continue;
		const GArray *labels = f->labels.of_output[i];
		if (labels && output->n == labels->len)
			add_classes(frame, output->bytes, labels, top, message);
		else if (labels && has_boxes("FP32", (size_t)output->n_dims, output->shape, labels->len) &&
			 limits.width > 0)
			add_boxes(frame, tensors[n_tensors - 1], labels, &limits, message);
		else if (message && output->n <= MAX_VALUES)
			add_values(message, output);
	}
	if (n_tensors > 0)
		gst_tensor_meta_set(gst_buffer_add_tensor_meta(frame), (guint)n_tensors, tensors);
	else
		g_free(tensors);
	return message ? gst_message_new_element(GST_OBJECT_CAST(f), message) : NULL;
}
