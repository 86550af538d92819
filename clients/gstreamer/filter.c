/* SPDX-License-Identifier: BSD-3-Clause */
/* Filter: the element inferdfilter, its properties and its states.
 *
 * From NULL to READY it connects to the daemon and opens the model, which decides the caps. From READY to PAUSED it
 * makes the memory of its requests. From PAUSED to READY it gives up everything that flows; from READY to NULL it
 * closes the connection. */
#include "clients/gstreamer/filter.h"

#include <gst/audio/audio.h>

GST_DEBUG_CATEGORY(inf_gst_debug);

enum property {
	PROP_SOCKET = 1,
	PROP_MODEL,
	PROP_VERSION,
	PROP_METHOD,
	PROP_BACKEND,
	PROP_LABELS,
	PROP_LAYOUT,
	PROP_OFFSET,
	PROP_SCALE,
	PROP_RATE,
	PROP_IN_FLIGHT,
	PROP_LATE,
	PROP_PRIORITY,
	PROP_RECONNECT,
	PROP_TOP,
	PROP_SCORE_THRESHOLD,
	PROP_IOU_THRESHOLD,
	PROP_POST_MESSAGES,
	PROP_COPIED_BYTES,
};

G_DEFINE_TYPE(InferdFilter, inf_gst_filter, GST_TYPE_ELEMENT)

static GType layout_type(void)
{
	static const GEnumValue values[] = {
		{ INF_GST_LAYOUT_AUTO, "As model.conf or the shape of the input says", "auto" },
		{ INF_GST_LAYOUT_HWC, "Height Width Channel", "hwc" },
		{ INF_GST_LAYOUT_CHW, "Channel Height Width", "chw" },
		{ 0, NULL, NULL },
	};
	static gsize type;
	if (g_once_init_enter(&type))
		g_once_init_leave(&type, g_enum_register_static("InferdFilterImageFormat", values));
	return type;
}

static GType late_type(void)
{
	static const GEnumValue values[] = {
		{ INF_GST_LATE_WAIT, "Every frame leaves, whenever its result is there", "wait" },
		{ INF_GST_LATE_DROP, "A frame whose result comes after its time is left out", "drop" },
		{ 0, NULL, NULL },
	};
	static gsize type;
	if (g_once_init_enter(&type))
		g_once_init_leave(&type, g_enum_register_static("InferdFilterLate", values));
	return type;
}

static GType priority_type(void)
{
	static const GEnumValue values[] = {
		{ INFERD_INTERACTIVE, "Interactive", "interactive" },
		{ INFERD_REALTIME, "Before all others", "realtime" },
		{ INFERD_BATCH, "After interactive ones", "batch" },
		{ INFERD_IDLE, "When nothing else waits", "idle" },
		{ 0, NULL, NULL },
	};
	static gsize type;
	if (g_once_init_enter(&type))
		g_once_init_leave(&type, g_enum_register_static("InferdFilterPriority", values));
	return type;
}

/* ---- properties ---- */

static char **string_of(InferdFilter *f, guint property)
{
	switch (property) {
	case PROP_SOCKET:
		return &f->settings.socket;
	case PROP_MODEL:
		return &f->settings.model;
	case PROP_VERSION:
		return &f->settings.version;
	case PROP_METHOD:
		return &f->settings.method;
	case PROP_BACKEND:
		return &f->settings.backend;
	case PROP_LABELS:
		return &f->settings.labels;
	default:
		return NULL;
	}
}

static void set_number(InferdFilter *f, guint property, const GValue *value)
{
	struct inf_gst_wishes *wishes = &f->settings.wishes;
	switch (property) {
	case PROP_LAYOUT:
		wishes->layout = (enum inf_gst_layout)g_value_get_enum(value);
		break;
	case PROP_OFFSET:
		wishes->offset = g_value_get_float(value);
		wishes->has_offset = true;
		break;
	case PROP_SCALE:
		wishes->scale = g_value_get_float(value);
		wishes->has_scale = true;
		break;
	case PROP_RATE:
		wishes->rate = g_value_get_int(value);
		break;
	case PROP_IN_FLIGHT:
		f->n_in_flight = g_value_get_uint(value);
		break;
	case PROP_LATE:
		f->late = (enum inf_gst_late)g_value_get_enum(value);
		break;
	case PROP_PRIORITY:
		f->settings.priority = (enum inferd_priority)g_value_get_enum(value);
		break;
	case PROP_RECONNECT:
		f->settings.reconnect_ms = g_value_get_uint(value);
		break;
	case PROP_TOP:
		f->top = g_value_get_uint(value);
		break;
	case PROP_SCORE_THRESHOLD:
		f->score_threshold = g_value_get_float(value);
		break;
	case PROP_IOU_THRESHOLD:
		f->iou_threshold = g_value_get_float(value);
		break;
	case PROP_POST_MESSAGES:
		f->posts_messages = g_value_get_boolean(value);
		break;
	default:
		break;
	}
}

static void set_property(GObject *object, guint property, const GValue *value, GParamSpec *spec)
{
	InferdFilter *f = INF_GST_FILTER(object);
	GST_OBJECT_LOCK(f);
	char **string = string_of(f, property);
	if (!(spec->flags & GST_PARAM_MUTABLE_PLAYING) && GST_STATE(f) > GST_STATE_NULL) {
		GST_WARNING_OBJECT(f, "%s can be set in the state NULL only", spec->name);
	} else if (string) {
		g_free(*string);
		*string = g_value_dup_string(value);
	} else {
		set_number(f, property, value);
	}
	GST_OBJECT_UNLOCK(f);
}

static void get_number(InferdFilter *f, guint property, GValue *value)
{
	const struct inf_gst_wishes *wishes = &f->settings.wishes;
	switch (property) {
	case PROP_LAYOUT:
		g_value_set_enum(value, wishes->layout);
		break;
	case PROP_OFFSET:
		g_value_set_float(value, wishes->offset);
		break;
	case PROP_SCALE:
		g_value_set_float(value, wishes->scale);
		break;
	case PROP_RATE:
		g_value_set_int(value, wishes->rate);
		break;
	case PROP_IN_FLIGHT:
		g_value_set_uint(value, f->n_in_flight);
		break;
	case PROP_LATE:
		g_value_set_enum(value, f->late);
		break;
	case PROP_PRIORITY:
		g_value_set_enum(value, f->settings.priority);
		break;
	case PROP_RECONNECT:
		g_value_set_uint(value, f->settings.reconnect_ms);
		break;
	case PROP_TOP:
		g_value_set_uint(value, f->top);
		break;
	case PROP_SCORE_THRESHOLD:
		g_value_set_float(value, f->score_threshold);
		break;
	case PROP_IOU_THRESHOLD:
		g_value_set_float(value, f->iou_threshold);
		break;
	case PROP_POST_MESSAGES:
		g_value_set_boolean(value, f->posts_messages);
		break;
	case PROP_COPIED_BYTES:
		g_value_set_uint64(value, f->n_copied_bytes);
		break;
	default:
		break;
	}
}

static void get_property(GObject *object, guint property, GValue *value, GParamSpec *spec)
{
	InferdFilter *f = INF_GST_FILTER(object);
	GST_OBJECT_LOCK(f);
	char **string = string_of(f, property);
	if (string)
		g_value_set_string(value, *string);
	else
		get_number(f, property, value);
	GST_OBJECT_UNLOCK(f);
}

/* ---- states ---- */

void inf_gst_filter_error(InferdFilter *f, int status, const char *error)
{
	const char *name = inferd_status_text(status);
	switch (-status) {
	case INFERD_NOT_FOUND:
		GST_ELEMENT_ERROR(f, RESOURCE, NOT_FOUND, ("inferd: %s", error), ("%s", name));
		break;
	case INFERD_PERMISSION_DENIED:
		GST_ELEMENT_ERROR(f, RESOURCE, NOT_AUTHORIZED, ("inferd: %s", error), ("%s", name));
		break;
	case INFERD_RESOURCE_EXHAUSTED:
		GST_ELEMENT_ERROR(f, RESOURCE, NO_SPACE_LEFT, ("inferd: %s", error), ("%s", name));
		break;
	case INFERD_DISCONNECTED:
	case INFERD_UNAVAILABLE:
		GST_ELEMENT_ERROR(f, RESOURCE, OPEN_READ_WRITE, ("inferd: %s", error), ("%s", name));
		break;
	case INFERD_INVALID_ARGUMENT:
		GST_ELEMENT_ERROR(f, LIBRARY, SETTINGS, ("inferd: %s", error), ("%s", name));
		break;
	default:
		GST_ELEMENT_ERROR(f, LIBRARY, FAILED, ("inferd: %s", error), ("%s", name));
		break;
	}
}

static bool open_model(InferdFilter *f)
{
	g_autofree char *error = NULL;
	int rc = -INFERD_INVALID_ARGUMENT;
	g_mutex_lock(&f->connection.lock);
	if (!f->settings.model || !*f->settings.model) {
		error = g_strdup("the property model is not set");
	} else {
		rc = inf_gst_connection_open(&f->connection, &f->settings, &error);
		if (rc >= 0 && (error = inf_gst_labels_init(&f->labels, f->connection.m, f->settings.labels))) {
			rc = -INFERD_INVALID_ARGUMENT;
			inf_gst_labels_deinit(&f->labels);
			inf_gst_connection_close(&f->connection);
		}
	}
	f->has_run = false;
	g_mutex_unlock(&f->connection.lock);
	if (rc < 0)
		inf_gst_filter_error(f, rc, error);
	return rc >= 0;
}

/* Make the memory of the requests: now, since nothing flows yet that would have to wait. */
static bool bind(InferdFilter *f)
{
	g_autofree char *error = NULL;
	g_mutex_lock(&f->connection.lock);
	int rc = inf_gst_connection_bind(&f->connection, f->n_in_flight);
	if (rc < 0) {
		error = g_strdup(inferd_error(f->connection.d));
		inf_gst_connection_unbind(&f->connection);
	}
	f->n_processed = f->n_dropped = f->n_recoveries = 0;
	g_mutex_unlock(&f->connection.lock);
	if (rc < 0)
		inf_gst_filter_error(f, rc, error);
	return rc >= 0;
}

static void close_model(InferdFilter *f)
{
	g_mutex_lock(&f->connection.lock);
	inf_gst_labels_deinit(&f->labels);
	inf_gst_connection_close(&f->connection);
	g_mutex_unlock(&f->connection.lock);
}

static GstStateChangeReturn change_state(GstElement *element, GstStateChange transition)
{
	InferdFilter *f = INF_GST_FILTER(element);
	if (transition == GST_STATE_CHANGE_NULL_TO_READY && !open_model(f))
		return GST_STATE_CHANGE_FAILURE;
	if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
		GST_OBJECT_LOCK(f);
		f->earliest = GST_CLOCK_TIME_NONE;
		f->latency = f->own_latency = 0;
		GST_OBJECT_UNLOCK(f);
		if (!bind(f))
			return GST_STATE_CHANGE_FAILURE;
	}
	GstStateChangeReturn result = GST_ELEMENT_CLASS(inf_gst_filter_parent_class)->change_state(element, transition);
	if (transition == GST_STATE_CHANGE_PAUSED_TO_READY)
		inf_gst_stream_clear(f);
	if (transition == GST_STATE_CHANGE_READY_TO_NULL)
		close_model(f);
	return result;
}

/* ---- the class ---- */

static void finalize(GObject *object)
{
	InferdFilter *f = INF_GST_FILTER(object);
	inf_gst_labels_deinit(&f->labels);
	inf_gst_connection_deinit(&f->connection);
	gst_clear_object(&f->adapter);
	for (guint i = PROP_SOCKET; i <= PROP_LABELS; i++)
		g_free(*string_of(f, i));
	G_OBJECT_CLASS(inf_gst_filter_parent_class)->finalize(object);
}

static const GParamFlags always = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;
static const GParamFlags before = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS;

static void add_string(GObjectClass *class, guint property, const char *name, const char *nick, const char *blurb)
{
	g_object_class_install_property(class, property, g_param_spec_string(name, nick, blurb, NULL, before));
}

static void add_properties(GObjectClass *class)
{
	add_string(class, PROP_SOCKET, "socket", "Socket",
		"Path of the daemon's socket (null: $INFERD_SOCKET or the usual one)");
	add_string(class, PROP_MODEL, "model", "Model", "Name of the model, as inferd serves it");
	add_string(class, PROP_VERSION, "version", "Version", "Version of the model (null: the one that serves)");
	add_string(class, PROP_METHOD, "method", "Method", "Method of the program (null: the only one, or forward)");
	add_string(class, PROP_BACKEND, "backend", "Backend",
		"Backends in the order in which they are wanted (null: the daemon's)");
	add_string(class, PROP_LABELS, "labels", "Labels", "File with one label a line (null: those of model.conf)");
	g_object_class_install_property(class, PROP_LAYOUT,
		g_param_spec_enum("input-image-format", "Input image format", "Layout of the input", layout_type(),
			INF_GST_LAYOUT_AUTO, before));
	g_object_class_install_property(class, PROP_OFFSET,
		g_param_spec_float("input-tensor-offset", "Input tensor offset",
			"An element is (pixel + offset) / scale; if neither is set, model.conf says", -G_MAXFLOAT,
			G_MAXFLOAT, 0, before));
	g_object_class_install_property(class, PROP_SCALE,
		g_param_spec_float("input-tensor-scale", "Input tensor scale",
			"An element is (pixel + offset) / scale; if neither is set, model.conf says", G_MINFLOAT,
			G_MAXFLOAT, 1, before));
	g_object_class_install_property(class, PROP_RATE,
		g_param_spec_int("rate", "Rate", "Samples a second that the model takes, of sound", 1, 768000, 16000,
			before));
	g_object_class_install_property(class, PROP_IN_FLIGHT,
		g_param_spec_uint("in-flight", "In flight", "How many frames are with the daemon at once", 1,
			INF_GST_MAX_IN_FLIGHT, 2, before));
	g_object_class_install_property(class, PROP_LATE,
		g_param_spec_enum("late", "Late",
			"What becomes of a frame whose result comes too late; models with a state wait", late_type(),
			INF_GST_LATE_WAIT, always));
	g_object_class_install_property(class, PROP_PRIORITY,
		g_param_spec_enum("priority", "Priority", "Priority of the requests", priority_type(),
			INFERD_INTERACTIVE, before));
	g_object_class_install_property(class, PROP_RECONNECT,
		g_param_spec_uint("reconnect-ms", "Reconnect",
			"For how long to connect again when the daemon is lost, in ms", 0, G_MAXUINT, 5000, before));
	g_object_class_install_property(class, PROP_TOP,
		g_param_spec_uint("top", "Top", "How many classes are attached and told", 1, 100, 5, always));
	g_object_class_install_property(class, PROP_SCORE_THRESHOLD,
		g_param_spec_float("score-threshold", "Score threshold", "Boxes with a lower score are left out", 0, 1,
			0.25F, always));
	g_object_class_install_property(class, PROP_IOU_THRESHOLD,
		g_param_spec_float("iou-threshold", "IoU threshold",
			"A box that overlaps a better one of its label by more is left out", 0, 1, 0.45F, always));
	g_object_class_install_property(class, PROP_POST_MESSAGES,
		g_param_spec_boolean("post-messages", "Post messages", "Post a message on the bus for each frame",
			FALSE, always));
	g_object_class_install_property(class, PROP_COPIED_BYTES,
		g_param_spec_uint64("copied-bytes", "Copied bytes",
			"Bytes of frames that were converted or copied so far", 0, G_MAXUINT64, 0,
			G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS,
	GST_STATIC_CAPS("video/x-raw, format = { RGB, BGR, RGBx, BGRx, xRGB, xBGR, RGBA, BGRA, ARGB, ABGR, GRAY8 }; "
			"audio/x-raw, format = " GST_AUDIO_NE(F32) ", layout = interleaved, channels = 1"));
static GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS,
	GST_STATIC_CAPS("video/x-raw, format = { RGB, BGR, RGBx, BGRx, xRGB, xBGR, RGBA, BGRA, ARGB, ABGR, GRAY8 }; "
			"audio/x-raw, format = " GST_AUDIO_NE(F32) ", layout = interleaved, channels = 1"));

static void inf_gst_filter_class_init(InferdFilterClass *class)
{
	GObjectClass *object_class = G_OBJECT_CLASS(class);
	GstElementClass *element_class = GST_ELEMENT_CLASS(class);
	GST_DEBUG_CATEGORY_INIT(inf_gst_debug, "inferdfilter", 0, "inference with inferd");
	object_class->set_property = set_property;
	object_class->get_property = get_property;
	object_class->finalize = finalize;
	add_properties(object_class);
	element_class->change_state = change_state;
	gst_element_class_add_static_pad_template(element_class, &sink_template);
	gst_element_class_add_static_pad_template(element_class, &src_template);
	gst_element_class_set_static_metadata(element_class, "Inference with inferd", "Filter/Effect/Video/Audio",
		"Run a model of the inference daemon inferd on each frame", "The inferd authors");
	gst_type_mark_as_plugin_api(layout_type(), 0);
	gst_type_mark_as_plugin_api(late_type(), 0);
	gst_type_mark_as_plugin_api(priority_type(), 0);
}

static void inf_gst_filter_init(InferdFilter *f)
{
	f->sink = gst_pad_new_from_static_template(&sink_template, "sink");
	f->src = gst_pad_new_from_static_template(&src_template, "src");
	f->settings.wishes.scale = 1;
	f->settings.wishes.rate = 16000;
	f->settings.reconnect_ms = 5000;
	f->n_in_flight = 2;
	f->top = 5;
	f->score_threshold = 0.25F;
	f->iou_threshold = 0.45F;
	if (!inf_gst_connection_init(&f->connection))
		GST_ERROR_OBJECT(f, "no file descriptor is left");
	inf_gst_stream_init(f);
	gst_element_add_pad(GST_ELEMENT_CAST(f), f->sink);
	gst_element_add_pad(GST_ELEMENT_CAST(f), f->src);
}
