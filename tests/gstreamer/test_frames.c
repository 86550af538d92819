/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of all formats become the tensors that a program of its own would fill, and the results are attached. */
#include "tests/gstreamer/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W = 6, H = 4, N = W * H };

static const double scale[3] = { 0.017125, 0.017507, 0.017429 }, offset[3] = { -2.117904, -2.035714, -1.804444 };
#define CONF_SCALE "scale = 0.017125 0.017507 0.017429\noffset = -2.117904 -2.035714 -1.804444\n"

static uint8_t pixel_of(size_t x, size_t y, size_t c)
{
	return (uint8_t)(x * 37 + y * 101 + c * 59 + 3);
}

/* A frame of @format, with bytes of another kind wherever no pixel is. */
static size_t make_frame(uint8_t *bytes, const char *format, size_t width, size_t height)
{
	GstVideoInfo info;
	gst_video_info_set_format(&info, gst_video_format_from_string(format), (guint)width, (guint)height);
	memset(bytes, 0xa5, info.size);
	for (guint c = 0; c < 3 && c < GST_VIDEO_INFO_N_COMPONENTS(&info); c++)
		for (size_t y = 0; y < height; y++)
			for (size_t x = 0; x < width; x++)
				bytes[y * (size_t)info.stride[0] + x * (size_t)GST_VIDEO_INFO_COMP_PSTRIDE(&info, c) +
					(size_t)GST_VIDEO_INFO_COMP_POFFSET(&info, c)] = pixel_of(x, y, c);
	return info.size;
}

static GstBuffer *pass(struct rig *rig, const char *format, size_t width, size_t height)
{
	uint8_t bytes[4096];
	size_t n_bytes = make_frame(bytes, format, width, height);
	assert_int_equal(rig_push(rig, bytes, n_bytes, 0), GST_FLOW_OK);
	GstBuffer *frame = gst_harness_pull(rig->h);
	assert_non_null(frame);
	assert_int_equal(gst_buffer_get_size(frame), n_bytes);
	assert_int_equal(gst_buffer_memcmp(frame, 0, bytes, n_bytes), 0);
	return frame;
}

static void start(struct rig *rig, const char *properties, const char *format, int width, int height)
{
	char caps[128];
	snprintf(caps, sizeof(caps), "video/x-raw,format=%s,width=%d,height=%d,framerate=30/1", format, width, height);
	rig_start(rig, properties, caps);
}

/* What libinferd says of the same input, which @tensor is. */
static void expect_same(struct rig *rig, const char *model, const void *tensor, GstBuffer *frame, size_t n_bytes)
{
	struct inferd *d = e2e_connect(&rig->e);
	struct inferd_binding *b = e2e_bind(d, model, NULL);
	memcpy(inferd_input(b, 0), tensor, n_bytes);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_memory_equal(rig_tensor(frame, 0, "output_0", n_bytes), inferd_output(b, 0), n_bytes);
	inferd_close(d);
}

static void test_formats(void **state)
{
	static const char *const formats[] = { "RGB", "BGR", "RGBx", "BGRx", "xRGB", "xBGR", "RGBA", "BGRA", "ARGB",
		"ABGR" };
	static const struct rig_model rgb = { ET_FLOAT32, { 1, 3, H, W },
		.conf = "[input 0]\nlayout = NCHW\ncolour = RGB\n" CONF_SCALE };
	static const struct rig_model bgr = { ET_FLOAT32, { 1, H, W, 3 },
		.conf = "[input 0]\nlayout = NHWC\ncolour = BGR\n" CONF_SCALE };
	float chw[3 * N], hwc[3 * N];
	for (size_t c = 0; c < 3; c++)
		for (size_t y = 0; y < H; y++)
			for (size_t x = 0; x < W; x++) {
				chw[c * N + y * W + x] = (float)(pixel_of(x, y, c) * scale[c] + offset[c]);
				hwc[(y * W + x) * 3 + c] = (float)(pixel_of(x, y, 2 - c) * scale[c] + offset[c]);
			}
	for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
		struct rig rig;
		rig_init(&rig);
		rig_put(&rig, "rgb", &rgb);
		rig_put(&rig, "bgr", &bgr);
		start(&rig, "model=rgb", formats[i], W, H);
		GstBuffer *frame = pass(&rig, formats[i], W, H);
		expect_same(&rig, "rgb", chw, frame, sizeof(chw));
		assert_memory_equal(rig_tensor(frame, 0, "output_0", sizeof(chw)), chw, sizeof(chw));
		gst_buffer_unref(frame);
		gst_harness_teardown(rig.h);
		start(&rig, "model=bgr", formats[i], W, H);
		frame = pass(&rig, formats[i], W, H);
		assert_memory_equal(rig_tensor(frame, 0, "output_0", sizeof(hwc)), hwc, sizeof(hwc));
		gst_buffer_unref(frame);
		rig_deinit(&rig);
	}
}

/* Properties as those of onnxinference, which win over model.conf, also where nothing is known of the model. */
static void test_properties(void **state)
{
	struct rig rig;
	float expected[3 * N];
	rig_init(&rig);
	rig_put(&rig, "plain", &(struct rig_model){ ET_FLOAT32, { 1, 3, H, W } });
	rig_put(&rig, "said",
		&(struct rig_model){
			ET_FLOAT32, { 1, H, W, 3 }, .conf = "[input 0]\nlayout = NHWC\ncolour = RGB\nscale = 7\n" });
	for (size_t i = 0; i < 3 * N; i++)
		expected[i] = (float)((pixel_of(i % W, i / W % H, i / N) - 127.0) / 128.0);
	start(&rig, "model=plain input-tensor-offset=-127 input-tensor-scale=128", "RGB", W, H);
	GstBuffer *frame = pass(&rig, "RGB", W, H);
	assert_memory_equal(rig_tensor(frame, 0, "output_0", sizeof(expected)), expected, sizeof(expected));
	gst_buffer_unref(frame);
	gst_harness_teardown(rig.h);
	start(&rig, "model=said input-image-format=hwc input-tensor-scale=2", "RGB", W, H);
	frame = pass(&rig, "RGB", W, H);
	const float *found = rig_tensor(frame, 0, "output_0", sizeof(expected));
	assert_true(found[1] == (float)pixel_of(0, 0, 1) / 2);
	gst_buffer_unref(frame);
	rig_deinit(&rig);
}

/* Inputs of integers and FP16, grey images, and an output with a dim order, which results do not keep. */
static void test_datatypes(void **state)
{
	static const uint8_t last[] = { 0, 2, 3, 1 };
	struct rig rig;
	rig_init(&rig);
	rig_put(&rig, "uint8", &(struct rig_model){ ET_UINT8, { 1, 1, H, W } });
	rig_put(&rig, "int8",
		&(struct rig_model){ ET_INT8, { 1, H, W, 1 },
			.conf = "[input 0]\nlayout = NHWC\ncolour = GRAY\nscale = 1.5\noffset = -128\n" });
	rig_put(&rig, "fp16",
		&(struct rig_model){ ET_FLOAT16, { 1, 1, H, W },
			.conf = "[input 0]\nlayout = NCHW\ncolour = GRAY\nscale = 0.01\noffset = 1\n" });
	rig_put(&rig, "last", &(struct rig_model){ ET_FLOAT32, { 1, 3, H, W }, .dim_order = last });
	start(&rig, "model=uint8", "GRAY8", W, H);
	GstBuffer *frame = pass(&rig, "GRAY8", W, H);
	const uint8_t *u = rig_tensor(frame, 0, "output_0", N);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(u[i], pixel_of(i % W, i / W, 0));
	gst_buffer_unref(frame);
	gst_harness_teardown(rig.h);
	start(&rig, "model=int8", "GRAY8", W, H);
	frame = pass(&rig, "GRAY8", W, H);
	const int8_t *s = rig_tensor(frame, 0, "output_0", N);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(s[i], CLAMP((int)__builtin_rint(pixel_of(i % W, i / W, 0) * 1.5 - 128), -128, 127));
	gst_buffer_unref(frame);
	gst_harness_teardown(rig.h);
	start(&rig, "model=fp16", "GRAY8", W, H);
	frame = pass(&rig, "GRAY8", W, H);
	const _Float16 *half = rig_tensor(frame, 0, "output_0", 2 * N);
	for (size_t i = 0; i < N; i++)
		assert_true(half[i] == (_Float16)(pixel_of(i % W, i / W, 0) * 0.01 + 1));
	gst_buffer_unref(frame);
	gst_harness_teardown(rig.h);
	start(&rig, "model=last", "RGB", W, H);
	frame = pass(&rig, "RGB", W, H);
	const float *f = rig_tensor(frame, 0, "output_0", 3 * N * 4);
	for (size_t i = 0; i < 3 * N; i++)
		assert_true(f[i] == (float)pixel_of(i % W, i / W % H, i / N));
	gst_buffer_unref(frame);
	rig_deinit(&rig);
}

/* The size of a frame may change where that of the input may. */
static void test_sizes(void **state)
{
	struct rig rig;
	rig_init(&rig);
	rig_put(&rig, "any", &(struct rig_model){ ET_FLOAT32, { 1, 3, H, W }, .is_dynamic = true });
	start(&rig, "model=any", "RGB", W, H);
	for (int width = W; width > 0; width--) {
		char caps[128];
		snprintf(caps, sizeof(caps), "video/x-raw,format=BGR,width=%d,height=%d,framerate=30/1", width,
			H - width % 2);
		gst_harness_set_src_caps_str(rig.h, caps);
		GstBuffer *frame = pass(&rig, "BGR", (size_t)width, (size_t)(H - width % 2));
		size_t n = (size_t)width * (size_t)(H - width % 2);
		const float *f = rig_tensor(frame, 0, "output_0", 3 * n * 4);
		for (size_t i = 0; i < 3 * n; i++)
			assert_true(f[i] == (float)pixel_of(i % (size_t)width, i % n / (size_t)width, i / n));
		gst_buffer_unref(frame);
	}
	GstCaps *caps = gst_pad_query_caps(rig.h->srcpad, NULL), *own = gst_pad_peer_query_caps(rig.h->srcpad, NULL);
	GstCaps *large = gst_caps_from_string("video/x-raw,format=RGB,width=7,height=4,framerate=30/1");
	assert_false(gst_caps_can_intersect(own, large));
	gst_caps_unref(large);
	gst_caps_unref(own);
	gst_caps_unref(caps);
	rig_deinit(&rig);
}

static void test_frames_that_shrink(void **state)
{
	struct rig rig;
	uint8_t bytes[4096];
	rig_init(&rig);
	rig_put(&rig, "rgb", &(struct rig_model){ ET_FLOAT32, { 1, 3, H, W } });
	start(&rig, "model=rgb", "RGB", W, H);
	size_t n_bytes = make_frame(bytes, "RGB", W, H);
	for (size_t n = 0; n < n_bytes; n += 13) {
		assert_int_equal(rig_push(&rig, bytes, n, 0), GST_FLOW_OK);
		gst_message_unref(rig_message(&rig, GST_MESSAGE_WARNING));
	}
	GstBuffer *frame = pass(&rig, "RGB", W, H);
	assert_true(GST_BUFFER_FLAG_IS_SET(frame, GST_BUFFER_FLAG_DISCONT));
	gst_buffer_unref(frame);
	assert_int_equal(gst_harness_buffers_in_queue(rig.h), 0);
	rig_deinit(&rig);
}

static void expect_refusal(struct rig *rig, const char *properties, const char *text)
{
	GstElement *filter = gst_object_ref_sink(rig_filter(rig, properties));
	assert_int_equal(gst_element_set_state(filter, GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
	rig_expect_error(rig, text);
	gst_element_set_state(filter, GST_STATE_NULL);
	gst_object_unref(filter);
}

static void test_refusals(void **state)
{
	struct rig rig;
	rig_init(&rig);
	rig_put(&rig, "ids", &(struct rig_model){ ET_INT64, { 1, 3, H, W } });
	rig_put(&rig, "odd", &(struct rig_model){ ET_FLOAT32, { 1, 5, H, W } });
	rig_put(&rig, "five",
		&(struct rig_model){ ET_FLOAT32, { 1, 5, H, W }, .conf = "[input 0]\nlayout = NHWC\ncolour = RGB\n" });
	rig_put(&rig, "batch", &(struct rig_model){ ET_FLOAT32, { 2, 3, H, W } });
	e2e_put_program(&rig.e, "moody.pte", e2e_program_moody);
	e2e_put_program(&rig.e, "unknown.pte", e2e_program_unknown);
	e2e_put(&rig.e, "three.txt", "a\nb\nc\n", 6);
	e2e_put(&rig.e, "latin.txt", "\xe9", 1);
	e2e_start(&rig.e, NULL);
	expect_refusal(&rig, "", "property model is not set");
	expect_refusal(&rig, "model=nothing", "no model 'nothing'");
	expect_refusal(&rig, "model=unknown", "nobodys::operator");
	expect_refusal(&rig, "model=ids", "neither an image nor sound: it takes INT64 [1, 3, 4, 6]");
	expect_refusal(&rig, "model=odd", "neither an image nor sound: it takes FP32 [1, 5, 4, 6]");
	expect_refusal(&rig, "model=odd input-image-format=chw", "5 channels");
	expect_refusal(&rig, "model=batch", "takes 2 images at once");
	expect_refusal(&rig, "model=moody", "2 inputs");
	char labels[256];
	snprintf(labels, sizeof(labels), "model=batch labels=%s/three.txt", rig.e.models);
	e2e_put_program(&rig.e, "double.pte", e2e_program_double);
	snprintf(labels, sizeof(labels), "model=double labels=%s/three.txt", rig.e.models);
	expect_refusal(&rig, labels, "has 3 lines");
	snprintf(labels, sizeof(labels), "model=double labels=%s/latin.txt", rig.e.models);
	expect_refusal(&rig, labels, "is not UTF-8");
	expect_refusal(&rig, "model=double labels=/nowhere", "No such file");
	e2e_stop(&rig.e);
	expect_refusal(&rig, "model=double", "cannot connect");
	rig_deinit(&rig);
}

/* Labels of model.conf, or of a file. */
static void test_labels(void **state)
{
	struct rig rig;
	uint8_t row[W] = { 5, 90, 7, 200, 90, 1 };
	char properties[256];
	rig_init(&rig);
	rig_put(&rig, "row",
		&(struct rig_model){ ET_FLOAT32, { 1, 1, 1, W },
			.conf = "[input 0]\nlayout = NCHW\ncolour = GRAY\n[output 0]\nname = scores\nlabels = a, b, c, d, e, f\n" });
	e2e_put(&rig.e, "six.txt", "one\r\ntwo\nthree\nfour\nfive\nsix\n", 29);
	start(&rig, "model=row post-messages=true top=3", "GRAY8", W, 1);
	for (int round = 0; round < 2; round++) {
		uint8_t bytes[8] = { 0 };
		memcpy(bytes, row, W);
		assert_int_equal(rig_push(&rig, bytes, sizeof(bytes), 7 * GST_SECOND), GST_FLOW_OK);
		GstBuffer *frame = gst_harness_pull(rig.h);
		GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(frame);
		assert_non_null(meta);
		GstAnalyticsMtd mtd;
		gpointer at = NULL;
		assert_true(gst_analytics_relation_meta_iterate(meta, &at, gst_analytics_cls_mtd_get_mtd_type(), &mtd));
		GstAnalyticsClsMtd *classes = (GstAnalyticsClsMtd *)&mtd;
		assert_int_equal(gst_analytics_cls_mtd_get_length(classes), 3);
		static const char *const names[2][3] = { { "d", "b", "e" }, { "four", "two", "five" } };
		static const float levels[3] = { 200, 90, 90 };
		for (gsize i = 0; i < 3; i++) {
			assert_string_equal(g_quark_to_string(gst_analytics_cls_mtd_get_quark(classes, i)),
				names[round][i]);
			assert_true(gst_analytics_cls_mtd_get_level(classes, i) == levels[i]);
		}
		gst_buffer_unref(frame);
		GstMessage *message = rig_message(&rig, GST_MESSAGE_ELEMENT);
		const GstStructure *told = gst_message_get_structure(message);
		guint64 pts;
		assert_string_equal(gst_structure_get_string(told, "label"), names[round][0]);
		assert_true(gst_structure_get_uint64(told, "timestamp", &pts) && pts == 7 * GST_SECOND);
		gst_message_unref(message);
		if (round == 0) {
			gst_harness_teardown(rig.h);
			snprintf(properties, sizeof(properties), "model=row post-messages=true top=3 labels=%s/six.txt",
				rig.e.models);
			start(&rig, properties, "GRAY8", W, 1);
		}
	}
	rig_deinit(&rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_properties),
		cmocka_unit_test(test_datatypes),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_frames_that_shrink),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_labels),
	};
	return rig_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
