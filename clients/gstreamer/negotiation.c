/* SPDX-License-Identifier: BSD-3-Clause */
/* Negotiation: what the filter answers to its neighbours' queries.
 *
 * Both pads have the same caps, those that the model takes. Where a frame is the tensor already, upstream is offered a
 * pool of memory that the daemon imports. Memory for sound is not offered: a frame is 2 KB, which is copied sooner
 * than imported.
 *
 * Downstream's own wishes for memory are not asked for, since frames pass as they are. */
#include "clients/gstreamer/filter.h"

#include "clients/gstreamer/frame.h"

enum { ALIGN_64 = 63 };

static GstCaps *model_caps(InferdFilter *f, GstPad *pad)
{
	g_mutex_lock(&f->connection.lock);
	GstCaps *caps = f->connection.m ? inf_gst_input_caps(&f->connection.input) : gst_pad_get_pad_template_caps(pad);
	g_mutex_unlock(&f->connection.lock);
	return caps;
}

static gboolean answer_caps(InferdFilter *f, GstPad *pad, GstQuery *query)
{
	GstCaps *filter, *own = model_caps(f, pad);
	gst_query_parse_caps(query, &filter);
	if (filter) {
		GstCaps *wanted = gst_caps_intersect_full(filter, own, GST_CAPS_INTERSECT_FIRST);
		gst_caps_take(&own, wanted);
	}
	GstCaps *other = gst_pad_peer_query_caps(pad == f->sink ? f->src : f->sink, own);
	GstCaps *both = gst_caps_intersect_full(own, other, GST_CAPS_INTERSECT_FIRST);
	gst_query_set_caps_result(query, both);
	gst_caps_unref(both);
	gst_caps_unref(other);
	gst_caps_unref(own);
	return TRUE;
}

static gboolean answer_allocation(InferdFilter *f, GstQuery *query)
{
	GstCaps *caps;
	GstVideoInfo info;
	GstBufferPool *pool = NULL;
	gst_query_parse_allocation(query, &caps, NULL);
	if (!f->has_caps || f->connection.input.kind != INF_GST_IMAGE || !caps ||
		!gst_video_info_from_caps(&info, caps))
		return FALSE;
	guint size = (guint)info.size;
	if (inf_gst_frame_is_tensor(&f->connection.input, &info)) {
		GstAllocationParams params = { .align = ALIGN_64 };
		GstAllocator *allocator = inf_gst_allocator_new();
		pool = gst_video_buffer_pool_new();
		GstStructure *config = gst_buffer_pool_get_config(pool);
		gst_buffer_pool_config_set_params(config, caps, size, 0, 0);
		gst_buffer_pool_config_set_allocator(config, allocator, &params);
		if (!gst_buffer_pool_set_config(pool, config))
			gst_clear_object(&pool);
		gst_query_add_allocation_param(query, allocator, &params);
		gst_object_unref(allocator);
	}
	/* as many as may be here at once, and one that upstream writes */
	gst_query_add_allocation_pool(query, pool, size, f->n_in_flight + 1, 0);
	gst_clear_object(&pool);
	return TRUE;
}

gboolean inf_gst_sink_query(GstPad *pad, GstObject *parent, GstQuery *query)
{
	InferdFilter *f = INF_GST_FILTER(parent);
	switch (GST_QUERY_TYPE(query)) {
	case GST_QUERY_CAPS:
		return answer_caps(f, pad, query);
	case GST_QUERY_ALLOCATION:
		return answer_allocation(f, query);
	case GST_QUERY_DRAIN: {
		g_mutex_lock(&f->connection.lock);
		bool is_empty = inf_gst_stream_drain(f);
		g_mutex_unlock(&f->connection.lock);
		return is_empty && gst_pad_peer_query(f->src, query);
	}
	default:
		return gst_pad_query_default(pad, parent, query);
	}
}

static gboolean answer_latency(InferdFilter *f, GstQuery *query)
{
	gboolean is_live;
	GstClockTime min, max, own;
	if (!gst_pad_peer_query(f->sink, query))
		return FALSE;
	GST_OBJECT_LOCK(f);
	own = f->own_latency;
	GST_OBJECT_UNLOCK(f);
	gst_query_parse_latency(query, &is_live, &min, &max);
	min += own;
	if (GST_CLOCK_TIME_IS_VALID(max))
		max += own;
	gst_query_set_latency(query, is_live, min, max);
	return TRUE;
}

gboolean inf_gst_src_query(GstPad *pad, GstObject *parent, GstQuery *query)
{
	InferdFilter *f = INF_GST_FILTER(parent);
	switch (GST_QUERY_TYPE(query)) {
	case GST_QUERY_CAPS:
		return answer_caps(f, pad, query);
	case GST_QUERY_LATENCY:
		return answer_latency(f, query);
	default:
		return gst_pad_query_default(pad, parent, query);
	}
}

/* How long a frame is here at most: as long as it takes for as many frames to come as may be in flight. */
static GstClockTime find_latency(InferdFilter *f)
{
	const struct inf_gst_input *input = &f->connection.input;
	if (input->kind == INF_GST_SOUND)
		return gst_util_uint64_scale(input->n_samples * (f->n_in_flight + 1), GST_SECOND, (guint64)input->rate);
	if (f->info.fps_n <= 0)
		return 0;
	return gst_util_uint64_scale(f->n_in_flight, GST_SECOND * (guint64)f->info.fps_d, (guint64)f->info.fps_n);
}

bool inf_gst_set_caps(InferdFilter *f, GstCaps *caps)
{
	struct inf_gst_connection *c = &f->connection;
	GstCaps *own = model_caps(f, f->sink);
	bool is_right = gst_caps_is_subset(caps, own);
	gst_caps_unref(own);
	if (!is_right || !c->m)
		return false;
	if (c->input.kind == INF_GST_IMAGE) {
		GstVideoInfo info;
		if (!gst_video_info_from_caps(&info, caps))
			return false;
		g_mutex_lock(&c->lock);
		if (f->info.width != info.width || f->info.height != info.height)
			c->has_shape = false;
		g_mutex_unlock(&c->lock);
		f->info = info;
		f->is_tensor = inf_gst_frame_is_tensor(&c->input, &info);
		f->n_tensor = info.size;
	} else {
		f->is_tensor = true;
		f->n_tensor = c->input.n_samples * sizeof(float);
	}
	f->has_caps = true;
	GST_OBJECT_LOCK(f);
	f->own_latency = find_latency(f);
	GST_OBJECT_UNLOCK(f);
	return true;
}
