/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes of a YOLO detector, from its output to the frame; and outputs that no detector would have. */
#include "tests/gstreamer/rig.h"

#include "clients/gstreamer/boxes.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 8, ROWS = 6 }; /* an image of 8 x 6 pixels, as the model sees it */

static const struct inf_gst_box_limits limits = { .score = 0.25f, .overlap = 0.45f, .width = PLACES, .height = ROWS };

/* Centre x, centre y, width, height, two scores; in sixteenths, since a pixel is a whole number. */
static const uint8_t output[ROWS][PLACES] = {
	{ 64, 68, 64, 128, 64, 64, 0, 0 },
	{ 48, 48, 48, 48, 48, 48, 0, 0 },
	{ 64, 64, 64, 64, 64, 0, 0, 0 },
	{ 32, 32, 32, 32, 32, 32, 0, 0 },
	{ 8, 12, 0, 10, 3, 15, 0, 0 },
	{ 4, 0, 16, 9, 2, 0, 0, 0 },
};

/* The best ones first: of places 0 and 1 only the better one stays, and 2 overlaps them with another label. 3 is cut
 * at the edge, 4 has too low a score, 5 is empty. */
static const struct {
	int x, y, width, height;
	float score;
	const char *label;
} expected[] = { { 2, 2, 4, 2, 1, "dog" }, { 2, 2, 5, 2, 0.75f, "cat" }, { 6, 2, 2, 2, 0.625f, "cat" } };

/* y = x, for an input [1, 6, 8] of FP32. */
static void put_identity(struct rig *rig, const char *conf)
{
	struct make_program mk;
	size_t n_bytes;
	mk_init(&mk);
	mk_method(&mk, "forward");
	struct mk_tensor tensor = { MK_FP32, MK_SIZES(1, ROWS, PLACES), .arena = mk_arena(&mk, 512) };
	int x = mk_tensor(&mk, &tensor);
	tensor.offset = 256;
	int y = mk_tensor(&mk, &tensor);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, mk_int(&mk, 0), y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	e2e_put(&rig->e, "yolo/1/program.pte", bytes, n_bytes);
	rig_put_conf(rig, "yolo", conf);
	free(bytes);
}

static GstBuffer *pass(struct rig *rig)
{
	assert_int_equal(rig_push(rig, output, sizeof(output), 0), GST_FLOW_OK);
	GstBuffer *frame = gst_harness_pull(rig->h);
	assert_non_null(frame);
	return frame;
}

static size_t count(GstBuffer *frame)
{
	GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(frame);
	GstAnalyticsODMtd box;
	gpointer at = NULL;
	size_t n = 0;
	while (meta && gst_analytics_relation_meta_iterate(meta, &at, gst_analytics_od_mtd_get_mtd_type(), &box)) {
		int x, y, width, height;
		float score;
		assert_true(gst_analytics_od_mtd_get_location(&box, &x, &y, &width, &height, &score));
		if (n < G_N_ELEMENTS(expected)) {
			assert_int_equal(x, expected[n].x);
			assert_int_equal(y, expected[n].y);
			assert_int_equal(width, expected[n].width);
			assert_int_equal(height, expected[n].height);
			assert_true(score == expected[n].score);
			assert_string_equal(g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&box)),
				expected[n].label);
		}
		n++;
	}
	return n;
}

static void expect_message(struct rig *rig)
{
	GstMessage *message = rig_message(rig, GST_MESSAGE_ELEMENT);
	const GValue *boxes = gst_structure_get_value(gst_message_get_structure(message), "boxes");
	const GValue *labels = gst_structure_get_value(gst_message_get_structure(message), "labels");
	assert_int_equal(gst_value_array_get_size(boxes), 3);
	const GValue *last = gst_value_array_get_value(boxes, 2);
	assert_int_equal(g_value_get_int(gst_value_array_get_value(last, 0)), 6);
	assert_int_equal(g_value_get_int(gst_value_array_get_value(last, 3)), 2);
	assert_string_equal(g_value_get_string(gst_value_array_get_value(labels, 0)), "dog");
	gst_message_unref(message);
}

/* With the labels of a file, and with those of model.conf. */
static void test_frames(void **state)
{
	static const char caps[] = "video/x-raw,format=GRAY8,width=8,height=6,framerate=30/1";
	static const char plain[] = "[input 0]\nlayout = CHW\ncolour = GRAY\nscale = 0.0625\n";
	static const char labelled[] =
		"[input 0]\nlayout = CHW\ncolour = GRAY\nscale = 0.0625\n[output 0]\nlabels = cat, dog\n";
	for (size_t round = 0; round < 2; round++) {
		struct rig rig;
		char properties[256];
		rig_init(&rig);
		put_identity(&rig, round ? labelled : plain);
		e2e_put(&rig.e, "labels.txt", "cat\ndog\n", 8);
		snprintf(properties, sizeof(properties), "model=yolo post-messages=true labels=%s/labels.txt",
			rig.e.models);
		rig_start(&rig, round ? "model=yolo post-messages=true" : properties, caps);
		GstBuffer *frame = pass(&rig);
		assert_int_equal(count(frame), G_N_ELEMENTS(expected));
		assert_non_null(gst_buffer_get_tensor_meta(frame));
		expect_message(&rig);
		gst_buffer_unref(frame);
		/* the properties are those of the next frame */
		gst_harness_set(rig.h, "inferdfilter", "score-threshold", 0.7, "iou-threshold", 1.0, NULL);
		frame = pass(&rig);
		assert_int_equal(count(frame), 2);
		gst_buffer_unref(frame);
		rig_deinit(&rig);
	}
}

static void test_bad_numbers(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, -1, 0, FLT_MIN };
	enum { N = G_N_ELEMENTS(bad) };
	float numbers[ROWS];
	struct inf_gst_box found[INF_GST_MAX_BOXES];
	size_t n_all = 0;
	for (size_t i = 0; i < (size_t)N * N * N * N * N * N; i++) {
		for (size_t k = 0, rest = i; k < ROWS; k++, rest /= N)
			numbers[k] = bad[rest % N];
		size_t n = inf_gst_boxes_find(numbers, 2, 1, &limits, found);
		n_all += n;
		for (size_t k = 0; k < n; k++) {
			assert_true(found[k].left >= 0 && found[k].left < found[k].right &&
				    found[k].right <= limits.width);
			assert_true(found[k].top >= 0 && found[k].top < found[k].bottom &&
				    found[k].bottom <= limits.height);
			assert_true(isfinite(found[k].score) && found[k].score >= limits.score && found[k].label < 2);
		}
	}
	assert_true(n_all > 0);
	assert_int_equal(inf_gst_boxes_find(numbers, 2, 0, &limits, found), 0);
}

/* However many boxes there are, few are returned, and soon. */
static void test_many(void **state)
{
	enum { MANY = 1 << 20 };
	float *numbers = test_malloc(5 * MANY * sizeof(*numbers));
	struct inf_gst_box found[INF_GST_MAX_BOXES];
	for (size_t i = 0; i < MANY; i++) {
		numbers[i] = (float)(i % PLACES) + 0.5f;
		numbers[MANY + i] = (float)(i % ROWS) + 0.5f;
		numbers[2 * MANY + i] = numbers[3 * MANY + i] = 1;
		numbers[4 * MANY + i] = 0.5f;
	}
	assert_int_equal(inf_gst_boxes_find(numbers, 1, MANY, &limits, found),
		24); /* of 48 places, as 8 and 6 are even */
	struct inf_gst_box_limits all = limits;
	all.overlap = 1;
	assert_int_equal(inf_gst_boxes_find(numbers, 1, MANY, &all, found), INF_GST_MAX_BOXES);
	test_free(numbers);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_bad_numbers),
		cmocka_unit_test(test_many),
	};
	return rig_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
