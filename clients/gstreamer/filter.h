/* SPDX-License-Identifier: BSD-3-Clause */
/* Filter: the element inferdfilter. Properties and states are in filter.c, what flows through it in stream.c, what it
 * answers about itself in negotiation.c, and what it attaches to frames in result.c. */
#ifndef CLIENTS_GSTREAMER_FILTER_H
#define CLIENTS_GSTREAMER_FILTER_H

#include "clients/gstreamer/connection.h"
#include "clients/gstreamer/result.h"

#include <gst/base/base.h>
#include <gst/video/video.h>

enum inf_gst_late { INF_GST_LATE_WAIT, INF_GST_LATE_DROP };

typedef struct inf_gst_filter {
	GstElement parent;
	GstPad *sink, *src;
	struct inf_gst_connection connection;

	/* The object's lock: properties, and what events from downstream say. */
	struct inf_gst_settings settings;
	guint n_in_flight, top;
	float score_threshold, iou_threshold; /* of boxes */
	enum inf_gst_late late;
	gboolean posts_messages;
	guint64 n_copied_bytes;
	GstClockTime latency, own_latency, earliest;
	double proportion;

	/* The connection's lock. */
	GQueue queue;    /* of items, in the order in which they came */
	size_t n_frames; /* in the queue */
	GstFlowReturn flow;
	bool is_pushing, is_recovering, is_eos, has_run, has_dropped;
	unsigned n_recoveries;
	guint64 n_processed, n_dropped;

	/* The thread that brings frames. */
	GstVideoInfo info;
	GstSegment segment;
	GstAdapter *adapter; /* samples that are no whole frame yet */
	size_t n_tensor;     /* bytes of a whole frame's tensor */
	bool has_caps, is_tensor, needs_reset, has_lost;

	/* Valid from the state READY on. */
	struct inf_gst_labels labels;
} InferdFilter;
typedef struct {
	GstElementClass parent;
} InferdFilterClass;

/* The type of the element, for gst_element_register. */
GType inf_gst_filter_get_type(void);
#define INF_GST_FILTER(object) ((InferdFilter *)(object))

/* stream.c: set the pads' functions; forget all that flows. */
void inf_gst_stream_init(InferdFilter *f);
void inf_gst_stream_clear(InferdFilter *f);
/* Wait until everything that was brought has been pushed. False: the stream has ended meanwhile. Wants the lock. */
bool inf_gst_stream_drain(InferdFilter *f);

/* negotiation.c */
gboolean inf_gst_sink_query(GstPad *pad, GstObject *parent, GstQuery *query);
gboolean inf_gst_src_query(GstPad *pad, GstObject *parent, GstQuery *query);
/* Caps have arrived. False: they are not the model's. */
bool inf_gst_set_caps(InferdFilter *f, GstCaps *caps);

/* Post an error with the daemon's or libinferd's sentence. */
void inf_gst_filter_error(InferdFilter *f, int status, const char *error);

#endif
