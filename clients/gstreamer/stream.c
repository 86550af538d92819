/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream: what flows through the filter.
 *
 * The thread that brings frames converts each one to the memory of a free slot and starts its request. A task of the
 * source pad waits for the requests in the order of their frames, attaches the results, and pushes. Events travel in
 * the same queue, so nothing overtakes anything. While one frame is computed, the next one is converted.
 *
 * What must always be true: frames leave in the order in which they came, each one with its results. A frame without
 * results does not leave at all: it came too late, or was damaged.
 *
 * A model with a state sees each sample or frame exactly once and in order. So deadlines do not apply to it, and a
 * state that was lost with the daemon is begun anew, with the frames that wait.
 *
 * What it deliberately does not do: wait for the daemon when it flushes or stops. */
#include "clients/gstreamer/filter.h"

#include "clients/gstreamer/frame.h"

#include <string.h>

enum { MAX_RECOVERIES = 3, N_SAMPLE = sizeof(float) };

/* ---- the queue; with the lock ---- */

static void push_item(InferdFilter *f, struct inf_gst_item *item)
{
	if (g_queue_is_empty(&f->queue))
		inf_gst_connection_wake(&f->connection);
	g_queue_push_tail(&f->queue, item);
	f->n_frames += item->frame != NULL;
	g_cond_broadcast(&f->connection.changed);
}

static void drop_items(InferdFilter *f)
{
	struct inf_gst_item *item;
	while ((item = g_queue_pop_head(&f->queue))) {
		if (item->slot)
			inf_gst_slot_release(item->slot);
		inf_gst_item_free(item);
	}
	f->n_frames = 0;
}

bool inf_gst_stream_drain(InferdFilter *f)
{
	while (f->flow == GST_FLOW_OK && (!g_queue_is_empty(&f->queue) || f->is_pushing || f->connection.n_running))
		g_cond_wait(&f->connection.changed, &f->connection.lock);
	return f->flow == GST_FLOW_OK;
}

/* Everything that waits sees why it ends. */
static void set_flow(InferdFilter *f, GstFlowReturn flow)
{
	f->flow = flow;
	g_cond_broadcast(&f->connection.changed);
	inf_gst_connection_wake(&f->connection);
}

static void stop(InferdFilter *f)
{
	g_mutex_lock(&f->connection.lock);
	set_flow(f, GST_FLOW_FLUSHING);
	inf_gst_connection_abandon(&f->connection);
	g_mutex_unlock(&f->connection.lock);
}

void inf_gst_stream_clear(InferdFilter *f)
{
	g_mutex_lock(&f->connection.lock);
	drop_items(f);
	inf_gst_connection_unbind(&f->connection);
	g_mutex_unlock(&f->connection.lock);
	gst_adapter_clear(f->adapter);
	gst_segment_init(&f->segment, GST_FORMAT_UNDEFINED);
	f->has_caps = f->has_lost = false;
}

/* ---- frames come ---- */

static bool is_sound(const InferdFilter *f)
{
	return f->connection.input.kind == INF_GST_SOUND;
}

/* Set the times of @item, and how long its request may take. False: it is too late already. */
static bool find_times(InferdFilter *f, struct inf_gst_item *item)
{
	GstClockTime running, pts = GST_BUFFER_PTS(item->frame);
	item->running = running = gst_segment_to_running_time(&f->segment, GST_FORMAT_TIME, pts);
	item->stream = gst_segment_to_stream_time(&f->segment, GST_FORMAT_TIME, pts);
	GST_OBJECT_LOCK(f);
	bool applies = f->late == INF_GST_LATE_DROP && GST_STATE(f) == GST_STATE_PLAYING;
	bool is_late = GST_CLOCK_TIME_IS_VALID(f->earliest) && running < f->earliest;
	GstClockTime deadline = running + f->latency + GST_ELEMENT_CAST(f)->base_time;
	GST_OBJECT_UNLOCK(f);
	if (!applies || !GST_CLOCK_TIME_IS_VALID(running) || inferd_method_is_stateful(f->connection.m))
		return true;
	GstClock *clock = gst_element_get_clock(GST_ELEMENT_CAST(f));
	if (clock) {
		GstClockTime now = gst_clock_get_time(clock);
		is_late |= now >= deadline;
		item->timeout_us = is_late ? 0 : MAX((deadline - now) / 1000, 1);
		gst_object_unref(clock);
	}
	return !is_late;
}

/* Tell the application of a frame that is left out. */
static void post_qos(InferdFilter *f, const struct inf_gst_item *item)
{
	GstMessage *message = gst_message_new_qos(GST_OBJECT_CAST(f), FALSE, item->running, item->stream,
		GST_BUFFER_PTS(item->frame), GST_BUFFER_DURATION(item->frame));
	g_mutex_lock(&f->connection.lock);
	f->n_dropped++;
	gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, f->n_processed, f->n_dropped);
	g_mutex_unlock(&f->connection.lock);
	GST_OBJECT_LOCK(f);
	gst_message_set_qos_values(message, 0, f->proportion, 1000000);
	GST_OBJECT_UNLOCK(f);
	gst_element_post_message(GST_ELEMENT_CAST(f), message);
}

/* Copy @frame to the memory of its slot, in one pass. False: it is not what its caps say. */
static bool fill(InferdFilter *f, GstBuffer *frame, void *tensor)
{
	size_t n_bytes = gst_buffer_get_size(frame), n_tensor = f->n_tensor;
	if (is_sound(f)) {
		gst_buffer_extract(frame, 0, tensor, n_tensor);
		if (n_bytes < n_tensor) /* the last samples of a stream */
			memset((char *)tensor + n_bytes, 0, n_tensor - n_bytes);
	} else {
		GstVideoFrame pixels;
		if (!gst_video_frame_map(&pixels, &f->info, frame, GST_MAP_READ))
			return false;
		inf_gst_frame_convert(&f->connection.input, &pixels, tensor);
		gst_video_frame_unmap(&pixels);
	}
	GST_OBJECT_LOCK(f);
	f->n_copied_bytes += is_sound(f) ? n_bytes : GST_VIDEO_INFO_SIZE(&f->info);
	GST_OBJECT_UNLOCK(f);
	return true;
}

/* What a request needs before it can start. With the lock; posts an error of its own. */
static GstFlowReturn prepare(InferdFilter *f)
{
	struct inf_gst_connection *c = &f->connection;
	int rc = 0;
	if (f->needs_reset && inferd_method_is_stateful(c->m) && f->has_run) {
		if (!inf_gst_stream_drain(f))
			return f->flow;
		rc = inferd_method_reset(c->m);
	}
	f->needs_reset = false;
	if (rc >= 0 && f->flow == GST_FLOW_OK && c->input.is_dynamic && !c->has_shape &&
		c->input.kind == INF_GST_IMAGE) {
		int64_t shape[INFERD_MAX_DIMS];
		size_t strides[3];
		inf_gst_input_strides(&c->input, (size_t)GST_VIDEO_INFO_WIDTH(&f->info),
			(size_t)GST_VIDEO_INFO_HEIGHT(&f->info), shape, &strides[0], &strides[1], &strides[2]);
		rc = inf_gst_stream_drain(f) ? inf_gst_connection_set_shape(c, shape) : 0;
	}
	if (rc >= 0)
		return f->flow;
	char *error = g_strdup(inferd_error(c->d));
	set_flow(f, GST_FLOW_ERROR);
	g_mutex_unlock(&c->lock);
	inf_gst_filter_error(f, rc, error);
	g_mutex_lock(&c->lock);
	g_free(error);
	return f->flow;
}

/* Whether the bytes of @frame are its tensor. A video meta may say that they lie otherwise than the caps say. */
static bool is_tensor(InferdFilter *f, GstBuffer *frame)
{
	GstVideoMeta *meta = gst_buffer_get_video_meta(frame);
	return f->is_tensor && (!meta || (meta->offset[0] == 0 && meta->stride[0] == f->info.stride[0]));
}

/* The slot for @frame, when there is one. With the lock. */
static struct inf_gst_slot *wait_for_slot(InferdFilter *f, GstBuffer *frame)
{
	struct inf_gst_connection *c = &f->connection;
	while (f->flow == GST_FLOW_OK) {
		struct inf_gst_slot *slot = NULL;
		if (f->n_frames < f->n_in_flight && is_tensor(f, frame))
			slot = inf_gst_connection_import(c, frame, f->n_tensor);
		if (!slot && f->n_frames < f->n_in_flight)
			slot = inf_gst_connection_take(c);
		if (slot)
			return slot;
		g_cond_wait(&c->changed, &c->lock);
	}
	return NULL;
}

/* Convert @frame, which this takes, and start its request. */
static GstFlowReturn submit(InferdFilter *f, GstBuffer *frame)
{
	struct inf_gst_connection *c = &f->connection;
	struct inf_gst_item *item = inf_gst_item_new(frame, NULL);
	void *tensor = NULL;
	bool is_late = false, is_damaged = false;
	g_mutex_lock(&c->lock);
	if (prepare(f) == GST_FLOW_OK)
		item->slot = wait_for_slot(f, frame);
	if (item->slot)
		tensor = inferd_input(item->slot->binding, 0);
	g_mutex_unlock(&c->lock);
	if (item->slot) {
		is_late = !find_times(f, item);
		is_damaged = !is_late && !item->slot->input && !fill(f, frame, tensor);
	}
	if (is_late)
		post_qos(f, item);
	if (is_damaged)
		GST_ELEMENT_WARNING(f, STREAM, FORMAT, ("A frame was left out: it is smaller than its caps say."),
			(NULL));
	g_mutex_lock(&c->lock);
	while (f->flow == GST_FLOW_OK && f->is_recovering)
		g_cond_wait(&c->changed, &c->lock);
	GstFlowReturn flow = f->flow;
	if (item->slot && flow == GST_FLOW_OK && !is_late && !is_damaged) {
		item->is_discont = f->has_lost;
		f->has_lost = false;
		f->has_run = true;
		inf_gst_connection_start(c, item);
		push_item(f, item);
		item = NULL;
	} else if (item->slot) {
		f->has_lost = true;
		inf_gst_slot_release(item->slot);
	}
	g_mutex_unlock(&c->lock);
	inf_gst_item_free(item);
	return flow;
}

/* ---- sound comes ---- */

/* The next @n_bytes of the adapter as a frame. */
static GstFlowReturn submit_samples(InferdFilter *f, size_t n_bytes)
{
	guint64 distance, rate = (guint64)f->connection.input.rate;
	GstClockTime pts = gst_adapter_prev_pts(f->adapter, &distance);
	GstBuffer *frame = gst_buffer_make_writable(gst_adapter_take_buffer(f->adapter, n_bytes));
	if (GST_CLOCK_TIME_IS_VALID(pts))
		pts += gst_util_uint64_scale(distance / N_SAMPLE, GST_SECOND, rate);
	GST_BUFFER_PTS(frame) = pts;
	GST_BUFFER_DTS(frame) = GST_CLOCK_TIME_NONE;
	GST_BUFFER_DURATION(frame) = gst_util_uint64_scale(n_bytes / N_SAMPLE, GST_SECOND, rate);
	GST_BUFFER_OFFSET(frame) = GST_BUFFER_OFFSET_END(frame) = GST_BUFFER_OFFSET_NONE;
	return submit(f, frame);
}

/* What is left of the samples is a frame that ends in zeros. */
static GstFlowReturn finish_sound(InferdFilter *f)
{
	size_t n_bytes = gst_adapter_available(f->adapter) / N_SAMPLE * N_SAMPLE;
	GstFlowReturn flow = n_bytes ? submit_samples(f, n_bytes) : GST_FLOW_OK;
	f->needs_reset |= n_bytes > 0;
	gst_adapter_clear(f->adapter);
	return flow;
}

/* Whether @buffer does not go on where the samples in the adapter end; 40 ms are forgiven, as by other elements. */
static bool is_gap(InferdFilter *f, GstBuffer *buffer)
{
	guint64 distance;
	GstClockTime pts = gst_adapter_prev_pts(f->adapter, &distance), now = GST_BUFFER_PTS(buffer);
	if (!GST_CLOCK_TIME_IS_VALID(pts) || !GST_CLOCK_TIME_IS_VALID(now))
		return false;
	pts += gst_util_uint64_scale((distance + gst_adapter_available(f->adapter)) / N_SAMPLE, GST_SECOND,
		(guint64)f->connection.input.rate);
	return (pts > now ? pts - now : now - pts) > 40 * GST_MSECOND;
}

static GstFlowReturn chain_sound(InferdFilter *f, GstBuffer *buffer)
{
	size_t n_frame = f->connection.input.n_samples * N_SAMPLE;
	GstFlowReturn flow = GST_FLOW_OK;
	if (GST_BUFFER_IS_DISCONT(buffer) || is_gap(f, buffer)) {
		flow = finish_sound(f);
		f->needs_reset = true;
	}
	gst_adapter_push(f->adapter, buffer);
	while (flow == GST_FLOW_OK && gst_adapter_available(f->adapter) >= n_frame)
		flow = submit_samples(f, n_frame);
	return flow;
}

static GstFlowReturn chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
	InferdFilter *f = INF_GST_FILTER(parent);
	if (!f->has_caps) {
		gst_buffer_unref(buffer);
		return GST_FLOW_NOT_NEGOTIATED;
	}
	if (is_sound(f))
		return chain_sound(f, buffer);
	if (GST_BUFFER_IS_DISCONT(buffer))
		f->needs_reset = true;
	return submit(f, buffer);
}

/* ---- events come ---- */

static gboolean start_task(InferdFilter *f);

static gboolean flush_stop(InferdFilter *f, GstEvent *event)
{
	gboolean is_sent = gst_pad_push_event(f->src, event);
	g_mutex_lock(&f->connection.lock);
	drop_items(f);
	f->flow = GST_FLOW_OK;
	f->is_eos = false;
	g_mutex_unlock(&f->connection.lock);
	gst_adapter_clear(f->adapter);
	gst_segment_init(&f->segment, GST_FORMAT_UNDEFINED);
	f->needs_reset = true;
	f->has_lost = false;
	GST_OBJECT_LOCK(f);
	f->earliest = GST_CLOCK_TIME_NONE;
	GST_OBJECT_UNLOCK(f);
	return start_task(f) && is_sent;
}

static gboolean enqueue_event(InferdFilter *f, GstEvent *event)
{
	bool is_eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
	g_mutex_lock(&f->connection.lock);
	GstFlowReturn flow = f->flow;
	f->is_eos |= is_eos;
	if (flow == GST_FLOW_OK)
		push_item(f, inf_gst_item_new(NULL, event));
	g_mutex_unlock(&f->connection.lock);
	if (flow == GST_FLOW_OK)
		return TRUE;
	if (is_eos && (flow == GST_FLOW_NOT_LINKED || flow == GST_FLOW_NOT_NEGOTIATED))
		GST_ELEMENT_FLOW_ERROR(f, flow);
	gst_event_unref(event);
	return FALSE;
}

/* Whether the samples before @event and those after it do not belong to one frame. */
static bool ends_sound(GstEvent *event)
{
	switch (GST_EVENT_TYPE(event)) {
	case GST_EVENT_EOS:
	case GST_EVENT_SEGMENT:
	case GST_EVENT_CAPS:
	case GST_EVENT_STREAM_START:
	case GST_EVENT_GAP:
		return true;
	default:
		return false;
	}
}

static gboolean sink_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
	InferdFilter *f = INF_GST_FILTER(parent);
	GstCaps *caps;
	gboolean is_sent;
	if (ends_sound(event) && f->has_caps && is_sound(f))
		finish_sound(f);
	switch (GST_EVENT_TYPE(event)) {
	case GST_EVENT_FLUSH_START:
		is_sent = gst_pad_push_event(f->src, event);
		stop(f);
		gst_pad_pause_task(f->src);
		return is_sent;
	case GST_EVENT_FLUSH_STOP:
		return flush_stop(f, event);
	case GST_EVENT_STREAM_START:
	case GST_EVENT_GAP:
		f->needs_reset = true;
		break;
	case GST_EVENT_SEGMENT:
		gst_event_copy_segment(event, &f->segment);
		break;
	case GST_EVENT_CAPS:
		gst_event_parse_caps(event, &caps);
		if (inf_gst_set_caps(f, caps))
			break;
		gst_event_unref(event);
		return FALSE;
	default:
		break;
	}
	return GST_EVENT_IS_SERIALIZED(event) ? enqueue_event(f, event) : gst_pad_push_event(f->src, event);
}

static gboolean src_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
	InferdFilter *f = INF_GST_FILTER(parent);
	GstClockTimeDiff late;
	GstClockTime timestamp;
	double proportion;
	switch (GST_EVENT_TYPE(event)) {
	case GST_EVENT_QOS:
		gst_event_parse_qos(event, NULL, &proportion, &late, &timestamp);
		GST_OBJECT_LOCK(f);
		f->proportion = proportion;
		f->earliest = GST_CLOCK_TIME_IS_VALID(timestamp) && late > 0 ? timestamp + 2 * (GstClockTime)late
									     : GST_CLOCK_TIME_NONE;
		GST_OBJECT_UNLOCK(f);
		break;
	case GST_EVENT_LATENCY:
		GST_OBJECT_LOCK(f);
		gst_event_parse_latency(event, &f->latency);
		GST_OBJECT_UNLOCK(f);
		break;
	default:
		break;
	}
	return gst_pad_push_event(f->sink, event);
}

/* ---- results leave: the source pad's task ---- */

/* Whether @item failed since the model's state went. */
static bool is_state_lost(InferdFilter *f, const struct inf_gst_item *item)
{
	bool is_gone = item->status == -INFERD_STATE_LOST ||
		       (item->status == -INFERD_DISCONNECTED && f->settings.reconnect_ms > 0);
	return item->frame && item->is_done && is_gone && inferd_method_is_stateful(f->connection.m);
}

/* Begin a new sequence, with the frames that wait. With the lock. */
static void recover(InferdFilter *f)
{
	struct inf_gst_connection *c = &f->connection;
	f->is_recovering = true;
	while (f->flow == GST_FLOW_OK && c->n_running)
		inf_gst_connection_wait(c);
	int rc = f->flow == GST_FLOW_OK ? inferd_method_reset(c->m) : 0;
	char *error = rc < 0 ? g_strdup(inferd_error(c->d)) : NULL;
	f->n_recoveries = rc < 0 ? MAX_RECOVERIES : f->n_recoveries + 1;
	for (GList *link = f->queue.head; link && f->flow == GST_FLOW_OK; link = link->next) {
		struct inf_gst_item *item = link->data;
		if (!is_state_lost(f, item))
			continue;
		if (rc < 0) {
			item->status = rc;
			g_free(item->error);
			item->error = g_strdup(error);
		} else {
			inf_gst_connection_start(c, item);
		}
	}
	g_free(error);
	f->is_recovering = false;
	g_cond_broadcast(&c->changed);
}

/* The next item, when it is done. With the lock; NULL: the stream has ended. */
static struct inf_gst_item *wait_for_item(InferdFilter *f)
{
	struct inf_gst_connection *c = &f->connection;
	while (f->flow == GST_FLOW_OK) {
		struct inf_gst_item *item = g_queue_peek_head(&f->queue);
		if (item && is_state_lost(f, item) && f->n_recoveries < MAX_RECOVERIES) {
			recover(f);
			continue;
		}
		if (item && (item->event || item->is_done)) {
			g_queue_pop_head(&f->queue);
			f->n_frames -= item->frame != NULL;
			f->is_pushing = true;
			if (item->slot)
				item->slot->is_read = true;
			return item;
		}
		if (c->n_running)
			inf_gst_connection_wait(c);
		else
			g_cond_wait(&c->changed, &c->lock);
	}
	return NULL;
}

/* The frame of @item with its results; NULL: it does not leave. */
static GstBuffer *take_frame(InferdFilter *f, struct inf_gst_item *item, GstFlowReturn *ret_flow)
{
	*ret_flow = GST_FLOW_OK;
	if (item->status == -INFERD_MISSED_DEADLINE && item->timeout_us) {
		post_qos(f, item);
		return NULL;
	}
	if (item->status < 0) {
		*ret_flow = GST_FLOW_ERROR;
		inf_gst_filter_error(f, item->status, item->error);
		return NULL;
	}
	GstBuffer *frame = gst_buffer_make_writable(g_steal_pointer(&item->frame));
	GstMessage *message = inf_gst_result_attach(f, item->slot, frame);
	if (message)
		gst_element_post_message(GST_ELEMENT_CAST(f), message);
	return frame;
}

static GstFlowReturn finish_frame(InferdFilter *f, struct inf_gst_item *item)
{
	struct inf_gst_connection *c = &f->connection;
	GstFlowReturn flow;
	bool is_discont = item->is_discont || f->has_dropped;
	GstBuffer *frame = take_frame(f, item, &flow);
	g_mutex_lock(&c->lock);
	if (item->slot)
		inf_gst_slot_release(item->slot);
	f->n_processed += frame != NULL;
	f->n_recoveries = frame ? 0 : f->n_recoveries;
	f->has_dropped = !frame;
	g_mutex_unlock(&c->lock);
	if (!frame)
		return flow;
	if (is_discont)
		GST_BUFFER_FLAG_SET(frame, GST_BUFFER_FLAG_DISCONT);
	return gst_pad_push(f->src, frame);
}

static void loop(gpointer data)
{
	InferdFilter *f = data;
	struct inf_gst_connection *c = &f->connection;
	GstFlowReturn flow = GST_FLOW_OK;
	g_mutex_lock(&c->lock);
	struct inf_gst_item *item = wait_for_item(f);
	g_mutex_unlock(&c->lock);
	if (item && item->event)
		gst_pad_push_event(f->src, g_steal_pointer(&item->event));
	else if (item)
		flow = finish_frame(f, item);
	inf_gst_item_free(item);
	g_mutex_lock(&c->lock);
	f->is_pushing = false;
	if (f->flow == GST_FLOW_OK && flow != GST_FLOW_OK)
		set_flow(f, flow);
	g_cond_broadcast(&c->changed);
	bool has_ended = f->flow != GST_FLOW_OK, is_eos = f->is_eos;
	g_mutex_unlock(&c->lock);
	if (!has_ended)
		return;
	gst_pad_pause_task(f->src);
	if (flow == GST_FLOW_NOT_LINKED || flow < GST_FLOW_EOS) {
		if (is_eos && flow != GST_FLOW_ERROR) /* upstream has no more to bring and would not notice */
			GST_ELEMENT_FLOW_ERROR(f, flow);
		gst_pad_push_event(f->src, gst_event_new_eos());
	}
}

static gboolean start_task(InferdFilter *f)
{
	return gst_pad_start_task(f->src, loop, f, NULL);
}

/* ---- the pads ---- */

static gboolean activate_sink(GstPad *pad, GstObject *parent, GstPadMode mode, gboolean is_active)
{
	InferdFilter *f = INF_GST_FILTER(parent);
	if (mode != GST_PAD_MODE_PUSH)
		return FALSE;
	if (!is_active) {
		stop(f);
		return TRUE;
	}
	g_mutex_lock(&f->connection.lock);
	f->flow = GST_FLOW_OK;
	f->is_eos = f->has_dropped = false;
	g_mutex_unlock(&f->connection.lock);
	f->needs_reset = true;
	return TRUE;
}

static gboolean activate_src(GstPad *pad, GstObject *parent, GstPadMode mode, gboolean is_active)
{
	InferdFilter *f = INF_GST_FILTER(parent);
	if (mode != GST_PAD_MODE_PUSH)
		return FALSE;
	if (!is_active) {
		stop(f);
		return gst_pad_stop_task(pad);
	}
	g_mutex_lock(&f->connection.lock);
	f->flow = GST_FLOW_OK;
	g_mutex_unlock(&f->connection.lock);
	return start_task(f);
}

void inf_gst_stream_init(InferdFilter *f)
{
	g_queue_init(&f->queue);
	f->flow = GST_FLOW_FLUSHING;
	f->adapter = gst_adapter_new();
	f->earliest = GST_CLOCK_TIME_NONE;
	gst_segment_init(&f->segment, GST_FORMAT_UNDEFINED);
	gst_video_info_init(&f->info);
	gst_pad_set_chain_function(f->sink, chain);
	gst_pad_set_event_function(f->sink, sink_event);
	gst_pad_set_query_function(f->sink, inf_gst_sink_query);
	gst_pad_set_activatemode_function(f->sink, activate_sink);
	gst_pad_set_event_function(f->src, src_event);
	gst_pad_set_query_function(f->src, inf_gst_src_query);
	gst_pad_set_activatemode_function(f->src, activate_src);
}
