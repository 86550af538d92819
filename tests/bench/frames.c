/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames a second through the element inferdfilter, and through a loop in C that converts and infers the same.
 *
 *     frames loop|element SOCKET MODEL COUNT
 *
 * MODEL takes one image as FP32 [1,3,N,N]. The frames are RGB in ordinary memory, COUNT of them after a few to warm up;
 * an element is (pixel - 127) / 128. The loop converts a frame, waits for the answer, and takes the next one, which is
 * what the examples do. The element is brought the same frames by one thread, while another one takes its results. The
 * result is JSON: frames a second, and a sum over the first element of all outputs, which is the same for both. */
#include "clients/inferd.h"

#include <gst/analytics/analytics.h>
#include <gst/check/gstharness.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 10, N_FRAMES = 8 };

struct work {
	const char *socket, *model;
	size_t count, side;
	uint8_t *frames[N_FRAMES];
	GstHarness *h;
	double begin_s, sum;
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

_Noreturn static void fail(const char *why)
{
	fprintf(stderr, "frames: %s\n", why);
	exit(1);
}

static void count_output(struct work *w, size_t i, const float *output)
{
	if (i + 1 == WARM_UP)
		w->begin_s = now_s();
	if (i >= WARM_UP)
		w->sum += (double)output[0];
}

static void fill(struct work *w, float *input, const uint8_t *frame)
{
	size_t n = w->side * w->side;
	for (size_t i = 0; i < n; i++) {
		input[i] = ((float)frame[3 * i] - 127) / 128;
		input[n + i] = ((float)frame[3 * i + 1] - 127) / 128;
		input[2 * n + i] = ((float)frame[3 * i + 2] - 127) / 128;
	}
}

static void open_model(struct work *w, struct inferd **ret_d, struct inferd_binding **ret_b)
{
	struct inferd_method *m;
	if (inferd_open(ret_d, w->socket) < 0 || inferd_method_open(*ret_d, &m, w->model, NULL) < 0 ||
		inferd_bind(m, ret_b) < 0)
		fail(inferd_error(*ret_d));
	const struct inferd_tensor_info *info = inferd_input_info(m, 0);
	if (strcmp(info->datatype, "FP32") != 0 || info->n_dims != 4 || info->shape[1] != 3 ||
		info->shape[2] % 4 != 0 || info->shape[2] != info->shape[3])
		fail("the model does not take one square image as FP32 [1,3,N,N]");
	w->side = (size_t)info->shape[2];
}

static void make_frames(struct work *w)
{
	uint32_t random = 1;
	for (size_t i = 0; i < N_FRAMES; i++) {
		w->frames[i] = g_malloc(3 * w->side * w->side);
		for (size_t k = 0; k < 3 * w->side * w->side; k++)
			w->frames[i][k] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
	}
}

static void run_loop(struct work *w, struct inferd *d, struct inferd_binding *b)
{
	for (size_t i = 0; i < w->count + WARM_UP; i++) {
		fill(w, inferd_input(b, 0), w->frames[i % N_FRAMES]);
		if (inferd_infer(b, NULL) < 0)
			fail(inferd_error(d));
		count_output(w, i, inferd_output(b, 0));
	}
}

static gpointer push(gpointer data)
{
	struct work *w = data;
	for (size_t i = 0; i < w->count + WARM_UP; i++) {
		GstBuffer *frame = gst_buffer_new_wrapped_full(GST_MEMORY_FLAG_READONLY, w->frames[i % N_FRAMES],
			3 * w->side * w->side, 0, 3 * w->side * w->side, NULL, NULL);
		if (gst_harness_push(w->h, frame) != GST_FLOW_OK)
			fail("the element takes no frame");
	}
	return NULL;
}

static void run_element(struct work *w)
{
	char caps[128];
	gst_init(NULL, NULL);
	GstElement *filter = gst_element_factory_make("inferdfilter", NULL);
	if (!filter)
		fail("GStreamer does not find inferdfilter: set GST_PLUGIN_PATH");
	gst_object_ref_sink(filter);
	g_object_set(filter, "socket", w->socket, "model", w->model, "input-tensor-offset", -127.0,
		"input-tensor-scale", 128.0, NULL);
	w->h = gst_harness_new_with_element(filter, "sink", "src");
	snprintf(caps, sizeof(caps), "video/x-raw,format=RGB,width=%zu,height=%zu,framerate=30/1", w->side, w->side);
	gst_harness_set_src_caps_str(w->h, caps);
	GThread *thread = g_thread_new("push", push, w);
	for (size_t i = 0; i < w->count + WARM_UP; i++) {
		GstMapInfo map;
		GstBuffer *frame = gst_harness_pull(w->h);
		GstTensorMeta *meta = frame ? gst_buffer_get_tensor_meta(frame) : NULL;
		if (!meta || !gst_buffer_map(meta->tensors[0]->data, &map, GST_MAP_READ))
			fail("a frame came without its result");
		count_output(w, i, (const float *)(const void *)map.data);
		gst_buffer_unmap(meta->tensors[0]->data, &map);
		gst_buffer_unref(frame);
	}
	g_thread_join(thread);
	gst_object_unref(filter);
}

int main(int argc, char **argv)
{
	struct inferd *d;
	struct inferd_binding *b;
	if (argc != 5)
		fail("frames loop|element SOCKET MODEL COUNT");
	struct work w = { .socket = argv[2], .model = argv[3], .count = strtoul(argv[4], NULL, 10) };
	open_model(&w, &d, &b);
	make_frames(&w);
	if (strcmp(argv[1], "loop") == 0) {
		run_loop(&w, d, b);
	} else {
		inferd_close(d);
		d = NULL;
		run_element(&w);
	}
	printf("{\"frames_per_s\": %.2f, \"sum\": %.6f}\n", (double)w.count / (now_s() - w.begin_s), w.sum);
	if (w.h)
		gst_harness_teardown(w.h);
	inferd_close(d);
	return 0;
}
