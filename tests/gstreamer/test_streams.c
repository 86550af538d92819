/* SPDX-License-Identifier: BSD-3-Clause */
/* What flows: order, events, flushes, states, deadlines, and a daemon that stops, dies and comes back. */
#include "tests/gstreamer/rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 4, N = SIDE * SIDE };
#define FRAME (GST_SECOND / 30)

static const struct rig_model grey = { ET_FLOAT32, { 1, 1, SIDE, SIDE } };
#define GREY_CAPS  "video/x-raw,format=GRAY8,width=4,height=4,framerate=30/1"
#define SOUND_CAPS "audio/x-raw,format=F32LE,rate=16000,channels=1,layout=interleaved"

static void start_grey(struct rig *rig, const char *properties)
{
	rig_init(rig);
	rig_put(rig, "grey", &grey);
	rig_start(rig, properties, GREY_CAPS);
}

static GstFlowReturn push_grey(struct rig *rig, uint8_t value)
{
	uint8_t bytes[N];
	memset(bytes, value, sizeof(bytes));
	return rig_push(rig, bytes, sizeof(bytes), value * FRAME);
}

static void expect_grey(GstBuffer *frame, uint8_t value)
{
	assert_non_null(frame);
	const float *f = rig_tensor(frame, 0, "output_0", N * sizeof(float));
	for (int i = 0; i < N; i++)
		assert_true(f[i] == value);
	assert_int_equal(GST_BUFFER_PTS(frame), value * FRAME);
	gst_buffer_unref(frame);
}

/* Frames and events leave in the order in which they came, however many are in flight. */
static void test_order(void **state)
{
	for (int in_flight = 1; in_flight <= 16; in_flight *= 4) {
		struct rig rig;
		char properties[64];
		snprintf(properties, sizeof(properties), "model=grey in-flight=%d", in_flight);
		start_grey(&rig, properties);
		for (int i = 0; i < 200; i++) {
			assert_int_equal(push_grey(&rig, (uint8_t)i), GST_FLOW_OK);
			if (i % 50 == 49)
				assert_true(gst_harness_push_event(rig.h,
					gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM,
						gst_structure_new_empty("mark"))));
		}
		for (int i = 0; i < 200; i++)
			expect_grey(gst_harness_pull(rig.h), (uint8_t)i);
		rig_deinit(&rig);
	}
}

/* EOS while the daemon computes: it comes after the last frame. */
static void test_eos_in_flight(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=4");
	assert_int_equal(push_grey(&rig, 0), GST_FLOW_OK);
	expect_grey(gst_harness_pull(rig.h), 0);
	while (gst_harness_events_in_queue(rig.h))
		gst_event_unref(gst_harness_pull_event(rig.h));
	e2e_suspend(rig.e.pid);
	for (uint8_t i = 1; i < 4; i++)
		assert_int_equal(push_grey(&rig, i), GST_FLOW_OK);
	assert_true(gst_harness_push_event(rig.h, gst_event_new_eos()));
	assert_int_equal(gst_harness_events_in_queue(rig.h), 0);
	assert_int_equal(gst_harness_buffers_in_queue(rig.h), 0);
	kill(rig.e.pid, SIGCONT);
	GstEvent *event = gst_harness_pull_event(rig.h);
	assert_int_equal(GST_EVENT_TYPE(event), GST_EVENT_EOS);
	gst_event_unref(event);
	assert_int_equal(gst_harness_buffers_in_queue(rig.h), 3);
	for (uint8_t i = 1; i < 4; i++)
		expect_grey(gst_harness_pull(rig.h), i);
	rig_deinit(&rig);
}

static void push_flush(struct rig *rig)
{
	GstSegment segment;
	gst_segment_init(&segment, GST_FORMAT_TIME);
	assert_true(gst_harness_push_event(rig->h, gst_event_new_flush_start()));
	assert_true(gst_harness_push_event(rig->h, gst_event_new_flush_stop(TRUE)));
	assert_true(gst_harness_push_event(rig->h, gst_event_new_segment(&segment)));
}

/* A flush does not wait for a daemon that does not answer, and nothing from before it comes after it. */
static void test_flush(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=3");
	for (int round = 0; round < 5; round++) {
		e2e_suspend(rig.e.pid);
		assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK);
		assert_int_equal(push_grey(&rig, 2), GST_FLOW_OK);
		push_flush(&rig);
		kill(rig.e.pid, SIGCONT);
		for (uint8_t i = 3; i < 9; i++)
			assert_int_equal(push_grey(&rig, i), GST_FLOW_OK);
		for (uint8_t i = 3; i < 9; i++)
			expect_grey(gst_harness_pull(rig.h), i);
	}
	rig_deinit(&rig);
}

/* A flush at any moment of a frame's way. */
static void test_many_flushes(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=3 post-messages=true");
	for (int round = 0; round < 500; round++) {
		for (int i = 0; i < round % 7; i++)
			assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK);
		push_flush(&rig);
		gst_bus_set_flushing(rig.bus, TRUE);
		gst_bus_set_flushing(rig.bus, FALSE);
		GstBuffer *frame;
		while ((frame = gst_harness_try_pull(rig.h)))
			expect_grey(frame, 1);
	}
	assert_int_equal(push_grey(&rig, 2), GST_FLOW_OK);
	expect_grey(gst_harness_pull(rig.h), 2);
	rig_deinit(&rig);
}

static gpointer push_two(gpointer data)
{
	struct rig *rig = data;
	return GINT_TO_POINTER(push_grey(rig, 1) == GST_FLOW_OK ? push_grey(rig, 2) : GST_FLOW_ERROR);
}

/* One that waits for a free slot ends with the flush. */
static void test_flush_of_one_that_waits(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=1");
	e2e_suspend(rig.e.pid);
	assert_int_equal(push_grey(&rig, 0), GST_FLOW_OK);
	GThread *thread = g_thread_new("pusher", push_two, &rig);
	assert_true(gst_harness_push_event(rig.h, gst_event_new_flush_start()));
	int flow = GPOINTER_TO_INT(g_thread_join(thread));
	assert_true(flow == GST_FLOW_FLUSHING || flow == GST_FLOW_ERROR);
	assert_true(gst_harness_push_event(rig.h, gst_event_new_flush_stop(TRUE)));
	kill(rig.e.pid, SIGCONT);
	rig_deinit(&rig);
}

/* To NULL and back, with frames in flight in a daemon that does not answer. */
static void test_states(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=2");
	for (int round = 0; round < 3; round++) {
		assert_int_equal(push_grey(&rig, 7), GST_FLOW_OK);
		expect_grey(gst_harness_pull(rig.h), 7);
		e2e_suspend(rig.e.pid);
		assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK);
		GstState lower = round == 1 ? GST_STATE_NULL : GST_STATE_READY;
		assert_int_equal(gst_element_set_state(rig.h->element, lower), GST_STATE_CHANGE_SUCCESS);
		assert_int_equal(push_grey(&rig, 2), GST_FLOW_FLUSHING);
		kill(rig.e.pid, SIGCONT);
		assert_int_equal(gst_element_set_state(rig.h->element, GST_STATE_PLAYING), GST_STATE_CHANGE_SUCCESS);
		gst_harness_set_src_caps_str(rig.h, GREY_CAPS);
	}
	rig_deinit(&rig);
}

/* A daemon that goes for good is an error with its sentence; upstream is told. */
static void test_daemon_dies(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=2 reconnect-ms=0");
	assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK);
	expect_grey(gst_harness_pull(rig.h), 1);
	e2e_suspend(rig.e.pid);
	assert_int_equal(push_grey(&rig, 2), GST_FLOW_OK);
	kill(rig.e.pid, SIGKILL);
	rig_expect_error(&rig, "inferd: ");
	while (push_grey(&rig, 3) == GST_FLOW_OK)
		;
	assert_int_equal(push_grey(&rig, 3), GST_FLOW_ERROR);
	e2e_wait(&rig.e);
	rig.e.pid = 0;
	rig_deinit(&rig);
}

static void restart(struct rig *rig)
{
	e2e_suspend(rig->e.pid);
	kill(rig->e.pid, SIGKILL);
	e2e_wait(&rig->e);
	e2e_start(&rig->e, NULL);
}

/* A daemon that comes back goes on with the frames that wait. */
static void test_daemon_comes_back(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=3 reconnect-ms=60000");
	for (uint8_t round = 0; round < 3; round++) {
		assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK);
		expect_grey(gst_harness_pull(rig.h), 1);
		e2e_suspend(rig.e.pid);
		assert_int_equal(push_grey(&rig, 2), GST_FLOW_OK);
		assert_int_equal(push_grey(&rig, 3), GST_FLOW_OK);
		restart(&rig);
		assert_int_equal(push_grey(&rig, 4), GST_FLOW_OK);
		for (uint8_t i = 2; i < 5; i++)
			expect_grey(gst_harness_pull(rig.h), i);
	}
	rig_deinit(&rig);
}

/* ---- sound: "accumulate" adds what it has been given so far ---- */

static void start_sound(struct rig *rig, const char *properties)
{
	rig_init(rig);
	e2e_put_program(&rig->e, "accumulate.pte", e2e_program_accumulate);
	rig_start(rig, properties, SOUND_CAPS);
}

static void push_sound(struct rig *rig, const float *samples, size_t n, GstClockTime pts)
{
	assert_int_equal(rig_push(rig, samples, n * sizeof(float), pts), GST_FLOW_OK);
}

static GstBuffer *expect_sums(struct rig *rig, float a, float b, float c, float d)
{
	GstBuffer *frame = gst_harness_pull(rig->h);
	assert_non_null(frame);
	const float *f = rig_tensor(frame, 0, "output_0", 4 * sizeof(float));
	if (f[0] != a || f[1] != b || f[2] != c || f[3] != d)
		fail_msg("%g %g %g %g", (double)f[0], (double)f[1], (double)f[2], (double)f[3]);
	return frame;
}

/* Buffers of any size become frames of four samples, with their times; the last one ends in zeros. */
static void test_sound(void **state)
{
	struct rig rig;
	static const float samples[] = { 1, 2, 3, 4, 10, 20, 30, 40, 100, 200 };
	GstClockTime step = GST_SECOND / 16000;
	start_sound(&rig, "model=accumulate");
	push_sound(&rig, samples, 3, GST_SECOND);
	push_sound(&rig, samples + 3, 6, GST_SECOND + 3 * step);
	push_sound(&rig, samples + 9, 1, GST_SECOND + 9 * step);
	assert_true(gst_harness_push_event(rig.h, gst_event_new_eos()));
	GstBuffer *frame = expect_sums(&rig, 1, 2, 3, 4);
	assert_int_equal(GST_BUFFER_PTS(frame), GST_SECOND);
	assert_int_equal(GST_BUFFER_DURATION(frame), 4 * step);
	gst_buffer_unref(frame);
	frame = expect_sums(&rig, 11, 22, 33, 44);
	assert_int_equal(GST_BUFFER_PTS(frame), GST_SECOND + 4 * step);
	assert_int_equal(gst_buffer_memcmp(frame, 0, samples + 4, 16), 0);
	gst_buffer_unref(frame);
	frame = expect_sums(&rig, 111, 222, 33, 44);
	assert_int_equal(gst_buffer_get_size(frame), 2 * sizeof(float));
	gst_buffer_unref(frame);
	rig_deinit(&rig);
}

/* A gap, a mark of one, and a flush begin a new sequence. */
static void test_discontinuities(void **state)
{
	struct rig rig;
	static const float ones[] = { 1, 1, 1, 1, 1, 1 };
	start_sound(&rig, "model=accumulate in-flight=3");
	push_sound(&rig, ones, 4, 0);
	push_sound(&rig, ones, 4, GST_CLOCK_TIME_NONE);
	gst_buffer_unref(expect_sums(&rig, 1, 1, 1, 1));
	gst_buffer_unref(expect_sums(&rig, 2, 2, 2, 2));
	push_sound(&rig, ones, 6, GST_SECOND); /* a gap */
	gst_buffer_unref(expect_sums(&rig, 1, 1, 1, 1));
	GstBuffer *marked = gst_buffer_new_allocate(NULL, sizeof(ones), NULL);
	gst_buffer_fill(marked, 0, ones, sizeof(ones));
	GST_BUFFER_FLAG_SET(marked, GST_BUFFER_FLAG_DISCONT);
	assert_int_equal(gst_harness_push(rig.h, marked), GST_FLOW_OK);
	gst_buffer_unref(expect_sums(&rig, 2, 2, 1, 1)); /* what was left before the mark */
	gst_buffer_unref(expect_sums(&rig, 1, 1, 1, 1));
	push_flush(&rig);
	push_sound(&rig, ones, 4, 0);
	gst_buffer_unref(expect_sums(&rig, 1, 1, 1, 1));
	rig_deinit(&rig);
}

/* A state that was lost with the daemon is begun anew with the frames that wait. */
static void test_state_is_lost(void **state)
{
	struct rig rig;
	static const float ones[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	start_sound(&rig, "model=accumulate in-flight=2 reconnect-ms=60000");
	for (int round = 0; round < 3; round++) {
		push_sound(&rig, ones, 4, GST_CLOCK_TIME_NONE);
		gst_buffer_unref(expect_sums(&rig, round ? 3 : 1, round ? 3 : 1, round ? 3 : 1, round ? 3 : 1));
		e2e_suspend(rig.e.pid);
		push_sound(&rig, ones, 8, GST_CLOCK_TIME_NONE);
		restart(&rig);
		gst_buffer_unref(expect_sums(&rig, 1, 1, 1, 1));
		gst_buffer_unref(expect_sums(&rig, 2, 2, 2, 2));
	}
	rig_deinit(&rig);
}

/* ---- time ---- */

/* A frame whose result does not come in time is left out, and the application is told. */
static void test_late(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=4 late=drop");
	gst_harness_use_testclock(rig.h);
	assert_int_equal(push_grey(&rig, 0), GST_FLOW_OK); /* at 0 of the clock: late already */
	GstMessage *message = rig_message(&rig, GST_MESSAGE_QOS);
	gst_message_unref(message);
	assert_int_equal(push_grey(&rig, 200), GST_FLOW_OK);
	GstBuffer *frame = gst_harness_pull(rig.h);
	assert_true(GST_BUFFER_FLAG_IS_SET(frame, GST_BUFFER_FLAG_DISCONT));
	expect_grey(frame, 200);
	e2e_suspend(rig.e.pid);
	assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK); /* 33 ms */
	message = rig_message(&rig, GST_MESSAGE_QOS);
	guint64 processed, dropped, running;
	gst_message_parse_qos_stats(message, NULL, &processed, &dropped);
	gst_message_parse_qos(message, NULL, &running, NULL, NULL, NULL);
	assert_int_equal(processed, 1);
	assert_int_equal(dropped, 2);
	assert_int_equal(running, FRAME);
	gst_message_unref(message);
	kill(rig.e.pid, SIGCONT);
	assert_int_equal(push_grey(&rig, 201), GST_FLOW_OK);
	expect_grey(gst_harness_pull(rig.h), 201);
	rig_deinit(&rig);
}

/* What a sink says of its lateness: frames before that are not computed. */
static void test_qos(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey late=drop");
	gst_harness_use_testclock(rig.h);
	assert_true(gst_harness_push_upstream_event(rig.h,
		gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 1.5, (GstClockTimeDiff)(50 * FRAME), 100 * FRAME)));
	assert_int_equal(push_grey(&rig, 199), GST_FLOW_OK);
	gst_message_unref(rig_message(&rig, GST_MESSAGE_QOS));
	assert_int_equal(push_grey(&rig, 200), GST_FLOW_OK);
	expect_grey(gst_harness_pull(rig.h), 200);
	GstEvent *event = gst_harness_pull_upstream_event(rig.h);
	while (GST_EVENT_TYPE(event) != GST_EVENT_QOS) {
		gst_event_unref(event);
		event = gst_harness_pull_upstream_event(rig.h);
	}
	gst_event_unref(event);
	g_object_set(rig.h->element, "late", 0, NULL);
	assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK);
	expect_grey(gst_harness_pull(rig.h), 1);
	rig_deinit(&rig);
}

static void test_latency(void **state)
{
	struct rig rig;
	start_grey(&rig, "model=grey in-flight=3");
	gst_harness_set_upstream_latency(rig.h, GST_SECOND);
	assert_int_equal(push_grey(&rig, 1), GST_FLOW_OK);
	expect_grey(gst_harness_pull(rig.h), 1);
	assert_int_equal(gst_harness_query_latency(rig.h), GST_SECOND + GST_SECOND / 10);
	rig_deinit(&rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_eos_in_flight),
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_many_flushes),
		cmocka_unit_test(test_flush_of_one_that_waits),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_daemon_dies),
		cmocka_unit_test(test_daemon_comes_back),
		cmocka_unit_test(test_sound),
		cmocka_unit_test(test_discontinuities),
		cmocka_unit_test(test_state_is_lost),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_qos),
		cmocka_unit_test(test_latency),
	};
	return rig_main(argc, argv, tests, G_N_ELEMENTS(tests));
}
