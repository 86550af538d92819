/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole pipelines: memory that is not copied, decoders behind the filter, and real models. */
#include "tests/gstreamer/rig.h"

#include "tests/support/dma_buf.h"

#include <gst/allocators/allocators.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIDE = 8, N_BYTES = SIDE * SIDE * 3 };

static const struct rig_model bytes_model = { ET_UINT8, { 1, SIDE, SIDE, 3 },
	.conf = "[input 0]\nlayout = NHWC\ncolour = RGB\n" };
#define BYTES_CAPS "video/x-raw,format=RGB,width=8,height=8,framerate=30/1"

typedef void (*look_fn)(struct rig *rig, GstBuffer *frame);
struct looks {
	struct rig *rig;
	look_fn look;
	unsigned n;
};

static void look(GstElement *sink, GstBuffer *frame, GstPad *pad, gpointer data)
{
	struct looks *looks = data;
	looks->n++;
	if (looks->look)
		looks->look(looks->rig, frame);
}

/* Run a pipeline whose filters have no socket yet and whose sink is called "sink", to its end. How many frames came;
 * how many bytes its filters copied. */
static unsigned run(struct rig *rig, const char *text, look_fn function, guint64 *ret_copied)
{
	GError *error = NULL;
	struct looks looks = { rig, function, 0 };
	GstElement *pipeline = gst_parse_launch(text, &error);
	if (error)
		fail_msg("%s", error->message);
	GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
	g_object_set(sink, "signal-handoffs", TRUE, NULL);
	g_signal_connect(sink, "handoff", G_CALLBACK(look), &looks);
	gst_object_unref(sink);
	GstBus *bus = gst_element_get_bus(pipeline);
	setenv("INFERD_SOCKET", rig->e.socket, 1);
	gst_element_set_state(pipeline, GST_STATE_PLAYING);
	GstMessage *message = gst_bus_timed_pop_filtered(bus, 100 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
	assert_non_null(message);
	if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
		gst_message_parse_error(message, &error, NULL);
		fail_msg("%s", error->message);
	}
	gst_message_unref(message);
	gst_object_unref(bus);
	*ret_copied = 0;
	GstIterator *iterator = gst_bin_iterate_all_by_element_factory_name(GST_BIN(pipeline), "inferdfilter");
	GValue item = G_VALUE_INIT;
	while (gst_iterator_next(iterator, &item) == GST_ITERATOR_OK) {
		guint64 copied;
		g_object_get(g_value_get_object(&item), "copied-bytes", &copied, NULL);
		*ret_copied += copied;
		g_value_reset(&item);
	}
	g_value_unset(&item);
	gst_iterator_free(iterator);
	gst_element_set_state(pipeline, GST_STATE_NULL);
	gst_object_unref(pipeline);
	return looks.n;
}

/* The element is there, or the test is skipped. */
static void need(const char *element)
{
	GstElementFactory *factory = gst_element_factory_find(element);
	if (!factory) {
		print_message("GStreamer's element %s is not there\n", element);
		skip();
	}
	gst_object_unref(factory);
}

/* ---- memory ---- */

static void look_at_bytes(struct rig *rig, GstBuffer *frame)
{
	assert_int_equal(gst_buffer_get_size(frame), N_BYTES);
	assert_int_equal(gst_buffer_memcmp(frame, 0, rig_tensor(frame, 0, "output_0", N_BYTES), N_BYTES), 0);
}

static bool copied_nothing(const struct inf_server_status *status, const void *arg)
{
	return status->copied_bytes == 0;
}

/* Sources and converters write to memory that the daemon reads; a second filter reads it, too. */
static void test_nothing_is_copied(void **state)
{
	static const char *const pipelines[] = {
		"videotestsrc pattern=snow num-buffers=60 ! " BYTES_CAPS
		" ! inferdfilter model=bytes ! fakesink name=sink",
		"videotestsrc pattern=snow num-buffers=60 ! video/x-raw,format=I420,width=32,height=32 ! videoconvertscale ! "
		"inferdfilter model=bytes in-flight=4 ! fakesink name=sink",
		"videotestsrc pattern=snow num-buffers=60 ! " BYTES_CAPS " ! inferdfilter model=bytes ! queue ! "
		"inferdfilter model=bytes ! fakesink name=sink",
	};
	struct rig rig;
	guint64 n_copied;
	need("videotestsrc");
	need("videoconvertscale");
	rig_init(&rig);
	rig_put(&rig, "bytes", &bytes_model);
	rig_put(&rig, "planes", &(struct rig_model){ ET_UINT8, { 1, 3, SIDE, SIDE } });
	e2e_start(&rig.e, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(pipelines); i++) {
		assert_int_equal(run(&rig, pipelines[i], look_at_bytes, &n_copied), 60);
		assert_int_equal(n_copied, 0);
	}
	e2e_until(&rig.e, copied_nothing, NULL);
	/* another layout is one pass */
	assert_int_equal(run(&rig,
				 "videotestsrc num-buffers=9 ! video/x-raw,format=BGR,width=8,height=8 ! "
				 "inferdfilter model=planes ! fakesink name=sink",
				 NULL, &n_copied),
		9);
	assert_int_equal(n_copied, 9 * N_BYTES);
	rig_deinit(&rig);
}

static GstFlowReturn push_memory(struct rig *rig, GstMemory *memory)
{
	GstBuffer *frame = gst_buffer_new();
	gst_buffer_append_memory(frame, memory);
	return gst_harness_push(rig->h, frame);
}

static void expect_bytes(struct rig *rig)
{
	GstBuffer *frame = gst_harness_pull(rig->h);
	assert_non_null(frame);
	look_at_bytes(rig, frame);
	gst_buffer_unref(frame);
}

static guint64 copied(struct rig *rig)
{
	guint64 n_bytes;
	g_object_get(rig->h->element, "copied-bytes", &n_bytes, NULL);
	return n_bytes;
}

/* Memory that could shrink under the daemon is copied; sealed memory is not, also of more files than are kept. */
static void test_files(void **state)
{
	struct rig rig;
	uint8_t bytes[N_BYTES];
	rig_init(&rig);
	rig_put(&rig, "bytes", &bytes_model);
	rig_start(&rig, "model=bytes", BYTES_CAPS);
	GstAllocator *allocator = gst_fd_allocator_new();
	for (int i = 0; i < 200; i++) {
		bool is_sealed = i % 2;
		guint64 before = copied(&rig);
		memset(bytes, i, sizeof(bytes));
		int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		assert_int_equal(pwrite(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
		assert_int_equal(is_sealed ? fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) : 0, 0);
		GstMemory *memory = gst_fd_allocator_alloc(allocator, fd, sizeof(bytes), GST_FD_MEMORY_FLAG_NONE);
		assert_int_equal(push_memory(&rig, memory), GST_FLOW_OK);
		expect_bytes(&rig);
		assert_int_equal(copied(&rig) - before, is_sealed ? 0 : N_BYTES);
	}
	gst_object_unref(allocator);
	rig_deinit(&rig);
}

/* The same memory in several frames that are in flight at once. */
static void test_one_memory_twice(void **state)
{
	struct rig rig;
	rig_init(&rig);
	rig_put(&rig, "bytes", &bytes_model);
	rig_start(&rig, "model=bytes in-flight=4", BYTES_CAPS);
	GstAllocator *allocator = gst_fd_allocator_new();
	int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, N_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	GstMemory *memory = gst_fd_allocator_alloc(allocator, fd, N_BYTES, GST_FD_MEMORY_FLAG_NONE);
	for (int i = 0; i < 100; i++)
		assert_int_equal(push_memory(&rig, gst_memory_ref(memory)), GST_FLOW_OK);
	for (int i = 0; i < 100; i++)
		expect_bytes(&rig);
	gst_memory_unref(memory);
	gst_object_unref(allocator);
	rig_deinit(&rig);
}

/* A video meta says that rows have padding: they are copied. */
static void test_padded_rows(void **state)
{
	enum { STRIDE = 64 };
	struct rig rig;
	gsize offsets[4] = { 0 };
	int strides[4] = { STRIDE };
	rig_init(&rig);
	rig_put(&rig, "bytes", &bytes_model);
	rig_start(&rig, "model=bytes", BYTES_CAPS);
	GstAllocator *allocator = gst_fd_allocator_new();
	int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, STRIDE * SIDE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	for (int y = 0; y < SIDE; y++)
		assert_int_equal(pwrite(fd, "abcdefghijklmnopqrstuvwx", 24, y * STRIDE), 24);
	GstBuffer *frame = gst_buffer_new();
	gst_buffer_append_memory(frame, gst_fd_allocator_alloc(allocator, fd, STRIDE * SIDE, GST_FD_MEMORY_FLAG_NONE));
	gst_buffer_add_video_meta_full(frame, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_RGB, SIDE, SIDE, 1, offsets,
		strides);
	assert_int_equal(gst_harness_push(rig.h, frame), GST_FLOW_OK);
	frame = gst_harness_pull(rig.h);
	const char *found = rig_tensor(frame, 0, "output_0", N_BYTES);
	for (int y = 0; y < SIDE; y++)
		assert_memory_equal(found + 24 * y, "abcdefghijklmnopqrstuvwx", 24);
	assert_int_equal(copied(&rig), N_BYTES);
	gst_buffer_unref(frame);
	gst_object_unref(allocator);
	rig_deinit(&rig);
}

/* A camera's memory: see tests/support/dma_buf.h. */
static void test_dma_bufs(void **state)
{
	struct rig rig;
	int memory;
	size_t n_bytes = (size_t)sysconf(_SC_PAGESIZE);
	int fd = test_dma_buf(n_bytes, &memory);
	if (fd < 0) {
		print_message("this kernel makes no dma-bufs of memory (udmabuf)\n");
		skip();
	}
	rig_init(&rig);
	rig_put(&rig, "bytes", &bytes_model);
	rig_start(&rig, "model=bytes", BYTES_CAPS);
	GstAllocator *allocator = gst_dmabuf_allocator_new();
	GstMemory *frame = gst_dmabuf_allocator_alloc(allocator, fd, n_bytes);
	gst_memory_resize(frame, 0, N_BYTES);
	for (int i = 0; i < 20; i++) {
		uint8_t bytes[N_BYTES];
		memset(bytes, i, sizeof(bytes));
		assert_int_equal(pwrite(memory, bytes, sizeof(bytes), 0), sizeof(bytes));
		assert_int_equal(push_memory(&rig, gst_memory_ref(frame)), GST_FLOW_OK);
		expect_bytes(&rig);
	}
	assert_int_equal(copied(&rig), 0);
	gst_memory_unref(frame);
	gst_object_unref(allocator);
	close(memory);
	rig_deinit(&rig);
}

static void look_at_camera(struct rig *rig, GstBuffer *frame)
{
	size_t n_bytes = gst_buffer_get_size(frame);
	assert_true(gst_is_dmabuf_memory(gst_buffer_peek_memory(frame, 0)));
	assert_int_equal(gst_buffer_memcmp(frame, 0, rig_tensor(frame, 0, "output_0", n_bytes), n_bytes), 0);
}

/* A camera of Debian's kernel, vivid, whose frames nobody copies: tools/kernel has one. */
static void test_camera(void **state)
{
	struct rig rig;
	guint64 n_copied;
	if (access("/dev/video0", R_OK | W_OK)) {
		print_message("there is no camera\n");
		skip();
	}
	need("v4l2src");
	rig_init(&rig);
	rig_put(&rig, "camera",
		&(struct rig_model){
			ET_UINT8, { 1, 180, 320, 3 }, .conf = "[input 0]\nlayout = NHWC\ncolour = RGB\n" });
	e2e_start(&rig.e, NULL);
	assert_int_equal(
		run(&rig,
			"v4l2src device=/dev/video0 io-mode=dmabuf num-buffers=10 ! video/x-raw,format=RGB,width=320,"
			"height=180 ! inferdfilter model=camera ! fakesink name=sink",
			look_at_camera, &n_copied),
		10);
	assert_int_equal(n_copied, 0);
	rig_deinit(&rig);
}

/* ---- decoders ---- */

/* One box, whatever the image shows. */
static void put_detector(struct rig *rig)
{
	static const float boxes[] = { 0.25f, 0.125f, 0.75f, 0.5f }, score = 0.875f, class = 1, n = 1;
	static const char conf[] = "[input 0]\nlayout = NHWC\ncolour = RGB\n[output 0]\nname = detection_boxes\n"
				   "[output 1]\nname = detection_scores\n[output 2]\nname = detection_classes\n"
				   "[output 3]\nname = num_detections\n";
	const float *const values[] = { boxes, &score, &class, &n };
	struct make_program mk;
	size_t n_bytes;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64 * 5 + N_BYTES);
	int x = mk_tensor(&mk,
		&(struct mk_tensor){ .type = ET_UINT8, MK_SIZES(1, SIDE, SIDE, 3), .arena = arena, .offset = 320 });
	int zero = mk_int(&mk, 0), add = mk_operator(&mk, "aten::add", "out");
	mk_input(&mk, x);
	for (uint64_t i = 0; i < 4; i++) {
		struct mk_tensor tensor = { MK_FP32, MK_SIZES(1, 1, i ? 1 : 4) };
		tensor.constant = mk_constant(&mk, values[i], i ? 4 : 16);
		int from = mk_tensor(&mk, &tensor);
		tensor.constant = 0;
		tensor.arena = arena;
		tensor.offset = 64 * i;
		int to = mk_tensor(&mk, &tensor);
		mk_kernel(&mk, add, MK_ARGS(from, from, zero, to, to));
		mk_output(&mk, to);
	}
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	e2e_put(&rig->e, "detector/1/program.pte", bytes, n_bytes);
	rig_put_conf(rig, "detector", conf);
	free(bytes);
}

static void look_at_box(struct rig *rig, GstBuffer *frame)
{
	GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(frame);
	gpointer at = NULL;
	GstAnalyticsODMtd box;
	int x, y, width, height;
	float confidence;
	assert_non_null(meta);
	assert_true(gst_analytics_relation_meta_iterate(meta, &at, gst_analytics_od_mtd_get_mtd_type(), &box));
	assert_true(gst_analytics_od_mtd_get_location(&box, &x, &y, &width, &height, &confidence));
	assert_int_equal(x, 1);
	assert_int_equal(y, 2);
	assert_int_equal(width, 3);
	assert_int_equal(height, 4);
	assert_true(confidence == 0.875f);
	assert_string_equal(g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&box)), "cat");
}

static void test_detector(void **state)
{
	struct rig rig;
	char text[512];
	guint64 n_copied;
	need("ssdobjectdetector");
	/* Pango and fontconfig, which draw the overlay's text, keep memory that LeakSanitizer takes for lost */
	const char *overlay = getenv("INFERD_SANITIZED") ? "" : "objectdetectionoverlay ! ";
	if (*overlay)
		need("objectdetectionoverlay");
	rig_init(&rig);
	put_detector(&rig);
	e2e_put(&rig.e, "labels.txt", "dog\ncat\n", 8);
	e2e_start(&rig.e, NULL);
	snprintf(text, sizeof(text),
		"videotestsrc num-buffers=5 ! " BYTES_CAPS " ! inferdfilter model=detector ! "
		"ssdobjectdetector label-file=%s/labels.txt ! %sfakesink name=sink",
		rig.e.models, overlay);
	assert_int_equal(run(&rig, text, look_at_box, &n_copied), 5);
	assert_int_equal(n_copied, 0);
	rig_deinit(&rig);
}

/* ---- real models ---- */

static struct inferd_binding *reference; /* of the same model, by libinferd alone */

static void look_at_cat(struct rig *rig, GstBuffer *frame)
{
	enum { PIXELS = 224 * 224 };
	GstMapInfo map;
	float *x = inferd_input(reference, 0);
	assert_true(gst_buffer_map(frame, &map, GST_MAP_READ));
	assert_int_equal(map.size, 3 * PIXELS);
	for (size_t i = 0; i < PIXELS; i++)
		for (size_t c = 0; c < 3; c++)
			x[c * PIXELS + i] = (float)((map.data[3 * i + c] - 127) / 128.0);
	gst_buffer_unmap(frame, &map);
	assert_int_equal(inferd_infer(reference, NULL), 0);
	assert_memory_equal(rig_tensor(frame, 0, "output_0", 4000), inferd_output(reference, 0), 4000);
	GstAnalyticsMtd mtd;
	gpointer at = NULL;
	GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(frame);
	assert_true(gst_analytics_relation_meta_iterate(meta, &at, gst_analytics_cls_mtd_get_mtd_type(), &mtd));
	const char *label = g_quark_to_string(gst_analytics_cls_mtd_get_quark((GstAnalyticsClsMtd *)&mtd, 0));
	if (!strstr(label, "cat") && !strstr(label, "tabby"))
		fail_msg("%s", label);
}

static void test_efficientnet(void **state)
{
	struct rig rig;
	guint64 n_copied;
	need("pngdec");
	rig_init(&rig);
	assert_true(e2e_put_file(&rig.e, "efficientnet_lite0.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	e2e_start(&rig.e, NULL);
	struct inferd *d = e2e_connect(&rig.e);
	reference = e2e_bind(d, "efficientnet_lite0", NULL);
	assert_int_equal(
		run(&rig,
			"filesrc location=" TEST_DATA "/chelsea.png ! pngdec ! videoconvert ! videoscale ! "
			"video/x-raw,format=RGB ! inferdfilter model=efficientnet_lite0 input-tensor-offset=-127 "
			"input-tensor-scale=128 labels=" TEST_DATA "/labels.txt ! fakesink name=sink",
			look_at_cat, &n_copied),
		1);
	assert_int_equal(n_copied, 3 * 224 * 224);
	inferd_close(d);
	rig_deinit(&rig);
}

static void look_at_speech(struct rig *rig, GstBuffer *frame)
{
	float *x = inferd_input(reference, 0);
	memset(x, 0, 2048);
	gst_buffer_extract(frame, 0, x, 2048);
	assert_int_equal(inferd_infer(reference, NULL), 0);
	assert_memory_equal(rig_tensor(frame, 0, "output_0", 4), inferd_output(reference, 0), 4);
}

static void test_silero(void **state)
{
	struct rig rig;
	guint64 n_copied;
	need("wavparse");
	rig_init(&rig);
	if (!e2e_put_file(&rig.e, "silero_vad.pte", SHARED_MODELS "/silero_vad/xnnpack.pte")) {
		print_message("../shared is not there\n");
		rig_deinit(&rig);
		skip();
	}
	e2e_start(&rig.e, NULL);
	struct inferd *d = e2e_connect(&rig.e);
	reference = e2e_bind(d, "silero_vad", NULL);
	assert_int_equal(run(&rig,
				 "filesrc location=" SHARED_MODELS
				 "/silero_vad/speech16k.wav ! wavparse ! audioconvert ! "
				 "audioresample ! inferdfilter model=silero_vad ! fakesink name=sink",
				 look_at_speech, &n_copied),
		87);
	inferd_close(d);
	rig_deinit(&rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_copied),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_one_memory_twice),
		cmocka_unit_test(test_padded_rows),
		cmocka_unit_test(test_dma_bufs),
		cmocka_unit_test(test_camera),
		cmocka_unit_test(test_detector),
		cmocka_unit_test(test_efficientnet),
		cmocka_unit_test(test_silero),
	};
	return rig_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
