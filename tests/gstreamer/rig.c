/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter in a harness: programs made here, a daemon for each test, and buffers in and out. */
#include "tests/gstreamer/rig.h"

#include "clients/gstreamer/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rig_init(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	e2e_init(&rig->e);
}

void rig_put_conf(struct rig *rig, const char *name, const char *conf)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/model.conf", name);
	e2e_put(&rig->e, path, conf, strlen(conf));
}

static size_t size_of(int type)
{
	return type == ET_FLOAT32 ? 4 : type == ET_FLOAT16 ? 2 : type == ET_INT64 ? 8 : 1;
}

void rig_put(struct rig *rig, const char *name, const struct rig_model *model)
{
	struct make_program mk;
	char path[128];
	size_t n_bytes = size_of(model->type);
	for (size_t i = 0; i < 4; i++)
		n_bytes *= (size_t)model->sizes[i];
	n_bytes = (n_bytes + 63) / 64 * 64;
	mk_init(&mk);
	mk_method(&mk, "forward");
	struct mk_tensor tensor = { .type = model->type,
		MK_SIZES(model->sizes[0], model->sizes[1], model->sizes[2], model->sizes[3]),
		.dim_order = model->dim_order,
		.dynamism = model->is_dynamic ? ET_DYNAMIC_BOUND : ET_STATIC,
		.arena = mk_arena(&mk, 2 * (int64_t)n_bytes) };
	int x = mk_tensor(&mk, &tensor);
	tensor.offset = n_bytes;
	int y = mk_tensor(&mk, &tensor);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, mk_int(&mk, 0), y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	snprintf(path, sizeof(path), "%s/1/program.pte", name);
	e2e_put(&rig->e, path, bytes, n_bytes);
	free(bytes);
	if (model->conf)
		rig_put_conf(rig, name, model->conf);
}

GstElement *rig_filter(struct rig *rig, const char *text)
{
	GError *error = NULL;
	char *description = g_strdup_printf("inferdfilter socket=%s %s", rig->e.socket, text);
	GstElement *filter = gst_parse_launch(description, &error);
	assert_null(error);
	assert_non_null(filter);
	g_free(description);
	if (!rig->bus)
		rig->bus = gst_bus_new();
	gst_element_set_bus(filter, rig->bus);
	return filter;
}

void rig_start(struct rig *rig, const char *text, const char *caps)
{
	if (!rig->e.pid)
		e2e_start(&rig->e, NULL);
	GstElement *filter = gst_object_ref_sink(rig_filter(rig, text));
	rig->h = gst_harness_new_with_element(filter, "sink", "src");
	gst_object_unref(filter);
	if (caps)
		gst_harness_set_src_caps_str(rig->h, caps);
}

GstFlowReturn rig_push(struct rig *rig, const void *bytes, size_t n_bytes, GstClockTime pts)
{
	GstBuffer *frame = gst_buffer_new_allocate(NULL, n_bytes, NULL);
	gst_buffer_fill(frame, 0, bytes, n_bytes);
	GST_BUFFER_PTS(frame) = pts;
	return gst_harness_push(rig->h, frame);
}

const void *rig_tensor(GstBuffer *frame, size_t index, const char *name, size_t n_bytes)
{
	GstMapInfo map;
	GstTensorMeta *meta = gst_buffer_get_tensor_meta(frame);
	assert_non_null(meta);
	assert_in_range(index, 0, meta->num_tensors - 1);
	const GstTensor *tensor = gst_tensor_meta_get(meta, index);
	assert_string_equal(g_quark_to_string(tensor->id), name);
	assert_true(gst_buffer_map(tensor->data, &map, GST_MAP_READ));
	assert_int_equal(map.size, n_bytes);
	const void *bytes = map.data;
	gst_buffer_unmap(tensor->data, &map); /* memory of the heap stays where it is */
	return bytes;
}

GstMessage *rig_message(struct rig *rig, GstMessageType type)
{
	GstMessage *message = gst_bus_timed_pop_filtered(rig->bus, 60 * GST_SECOND, type);
	assert_non_null(message);
	return message;
}

void rig_expect_error(struct rig *rig, const char *text)
{
	GError *error = NULL;
	GstMessage *message = rig_message(rig, GST_MESSAGE_ERROR);
	gst_message_parse_error(message, &error, NULL);
	if (!strstr(error->message, text))
		fail_msg("\"%s\" is not in \"%s\"", text, error->message);
	g_error_free(error);
	gst_message_unref(message);
}

void rig_deinit(struct rig *rig)
{
	if (rig->h)
		gst_harness_teardown(rig->h);
	if (rig->bus) {
		gst_bus_set_flushing(rig->bus, TRUE);
		gst_object_unref(rig->bus);
	}
	if (rig->e.pid)
		e2e_check_clean(&rig->e);
	e2e_deinit(&rig->e);
}

int rig_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
	gst_init(NULL, NULL);
	if (!gst_element_register(NULL, "inferdfilter", GST_RANK_NONE, inf_gst_filter_get_type()))
		return 1;
	int failed = e2e_main(argc, argv, tests, n);
	gst_deinit();
	return failed;
}
