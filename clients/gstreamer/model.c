/* SPDX-License-Identifier: BSD-3-Clause */
/* Model: the first input of a Method as a stream of GStreamer.
 *
 * model.conf says whether the input is an image, and how a pixel becomes an element. Without it the shape decides: one
 * or three channels before or after height and width are an image, one row of FP32 is sound. What the user says in
 * properties wins over both.
 *
 * A pixel has 256 values, so its element is looked up in a table for each channel. The elements are therefore exactly
 * those that a program gets that computes in double and rounds once.
 *
 * What it deliberately does not do: fill further inputs, or several images at once. Such Methods are refused with a
 * sentence. */
#include "clients/gstreamer/model.h"

#include <math.h>
#include <string.h>

enum element { ELEMENT_NONE, ELEMENT_UINT8, ELEMENT_INT8, ELEMENT_FP16, ELEMENT_FP32 };

static enum element element_of(const char *datatype)
{
	static const struct {
		const char *name;
		enum element element;
	} known[] = { { "UINT8", ELEMENT_UINT8 }, { "INT8", ELEMENT_INT8 }, { "FP16", ELEMENT_FP16 },
		{ "FP32", ELEMENT_FP32 } };
	for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
		if (strcmp(datatype, known[i].name) == 0)
			return known[i].element;
	return ELEMENT_NONE;
}

/* The bits of @value as an element, which integers round to and stop at their bounds. */
static uint32_t bits_of(enum element element, double value)
{
	uint32_t bits = 0;
	if (element == ELEMENT_FP32) {
		float f = (float)value;
		memcpy(&bits, &f, sizeof(f));
	} else if (element == ELEMENT_FP16) {
		_Float16 f = (_Float16)value;
		memcpy(&bits, &f, sizeof(f));
	} else if (element == ELEMENT_INT8) {
		bits = (uint8_t)(int8_t)CLAMP(rint(value), -128, 127);
	} else {
		bits = (uint8_t)CLAMP(rint(value), 0, 255);
	}
	return bits;
}

static bool is_channels(int64_t n)
{
	return n == 1 || n == 3;
}

/* Find which dimensions are an image's. False: they are not known to be one's. */
static bool find_dims(struct inf_gst_input *input, const struct inferd_tensor_info *info, enum inf_gst_layout wish)
{
	size_t first = info->n_dims == 4 ? 1 : 0;
	bool is_chw;
	if (info->n_dims != 3 && info->n_dims != 4)
		return false;
	if (wish != INF_GST_LAYOUT_AUTO)
		is_chw = wish == INF_GST_LAYOUT_CHW;
	else if (info->layout)
		is_chw = strstr(info->layout, "CHW") != NULL;
	else if (is_channels(info->shape[first]))
		is_chw = true;
	else if (is_channels(info->shape[first + 2]))
		is_chw = false;
	else
		return false;
	input->channel_dim = is_chw ? first : first + 2;
	input->height_dim = is_chw ? first + 1 : first;
	input->width_dim = input->height_dim + 1;
	return true;
}

static void fill_levels(struct inf_gst_input *input, const struct inferd_tensor_info *info, enum element element,
	const struct inf_gst_wishes *wishes)
{
	bool is_wished = wishes->has_scale || wishes->has_offset;
	input->is_plain = element == ELEMENT_UINT8;
	for (size_t c = 0; c < input->n_channels; c++) {
		bool is_known = info->layout && c < info->n_channels;
		double scale = is_known ? info->scale[c] : 1, offset = is_known ? info->offset[c] : 0;
		for (size_t pixel = 0; pixel < INF_GST_LEVELS; pixel++) {
			double value = (double)pixel * scale + offset;
			if (is_wished)
				value = ((double)pixel + (double)(wishes->has_offset ? wishes->offset : 0)) /
					(double)(wishes->has_scale ? wishes->scale : 1);
			input->levels[c][pixel] = bits_of(element, value);
			input->is_plain &= input->levels[c][pixel] == pixel;
		}
	}
}

static char *init_image(struct inf_gst_input *input, const struct inferd_tensor_info *info, enum element element,
	const struct inf_gst_wishes *wishes)
{
	if (info->n_dims == 4 && info->shape[0] != 1 && !info->is_dynamic)
		return g_strdup_printf("input \"%s\" takes %" G_GINT64_FORMAT
				       " images at once, and a stream has one at a time",
			info->name, info->shape[0]);
	int64_t n_channels = info->shape[input->channel_dim];
	if (!is_channels(n_channels))
		return g_strdup_printf("input \"%s\" has %" G_GINT64_FORMAT " channels, and an image has 1 or 3",
			info->name, n_channels);
	int64_t height = info->shape[input->height_dim], width = info->shape[input->width_dim];
	if (height < 1 || width < 1 || height > G_MAXINT16 || width > G_MAXINT16)
		return g_strdup_printf("input \"%s\" has the size %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
				       ", which no image has",
			info->name, width, height);
	input->kind = INF_GST_IMAGE;
	input->n_channels = (size_t)n_channels;
	input->is_bgr = info->colour && strcmp(info->colour, "BGR") == 0;
	fill_levels(input, info, element, wishes);
	return NULL;
}

static bool is_sound(const struct inferd_tensor_info *info, enum element element)
{
	for (size_t i = 0; i + 1 < info->n_dims; i++)
		if (info->shape[i] != 1)
			return false;
	return element == ELEMENT_FP32 && info->n_dims > 0 && info->shape[info->n_dims - 1] > 1 &&
	       info->shape[info->n_dims - 1] <= G_MAXINT / 4;
}

/* "FP32 [1, 3, 224, 224]" */
static char *text_of(const struct inferd_tensor_info *info)
{
	GString *text = g_string_new(info->datatype);
	for (size_t i = 0; !info->is_scalar && i < info->n_dims; i++)
		g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i ? ", " : " [", info->shape[i]);
	return g_string_free(info->is_scalar || !info->n_dims ? text : g_string_append_c(text, ']'), FALSE);
}

char *inf_gst_input_init(struct inf_gst_input *input, const struct inferd_method *m,
	const struct inf_gst_wishes *wishes)
{
	const struct inferd_tensor_info *info = inferd_input_info(m, 0);
	memset(input, 0, sizeof(*input));
	if (!info)
		return g_strdup("the model has no input");
	for (size_t i = 1; i < inferd_n_inputs(m); i++)
		if (strcmp(inferd_input_info(m, i)->datatype, "None") != 0)
			return g_strdup_printf("the model has %zu inputs, and a stream can fill one",
				inferd_n_inputs(m));
	enum element element = info->is_scalar ? ELEMENT_NONE : element_of(info->datatype);
	input->n_dims = info->n_dims;
	input->n_element = element == ELEMENT_FP32 ? 4 : element == ELEMENT_FP16 ? 2 : 1;
	input->is_dynamic = info->is_dynamic;
	memcpy(input->shape, info->shape, sizeof(input->shape));
	memcpy(input->dim_order, info->dim_order, sizeof(input->dim_order));
	bool is_known = info->layout || wishes->layout != INF_GST_LAYOUT_AUTO;
	if (!is_known && is_sound(info, element)) {
		input->kind = INF_GST_SOUND;
		input->n_samples = (size_t)info->shape[info->n_dims - 1];
		input->rate = wishes->rate;
		return NULL;
	}
	if (element != ELEMENT_NONE && find_dims(input, info, wishes->layout))
		return init_image(input, info, element, wishes);
	char *text = text_of(info);
	char *error = g_strdup_printf("input \"%s\" is neither an image nor sound: it takes %s", info->name, text);
	g_free(text);
	return error;
}

/* Whether the pixels lie in the tensor as in a frame. */
static bool takes_frames(const struct inf_gst_input *input)
{
	int64_t shape[INFERD_MAX_DIMS];
	size_t channel, row, pixel;
	inf_gst_input_strides(input, (size_t)input->shape[input->width_dim], (size_t)input->shape[input->height_dim],
		shape, &channel, &row, &pixel);
	return input->is_plain && channel == 1 && pixel == input->n_channels;
}

static void add_size(GstCaps *caps, const char *field, bool is_dynamic, int64_t size)
{
	if (is_dynamic && size > 1)
		gst_caps_set_simple(caps, field, GST_TYPE_INT_RANGE, 1, (int)size, NULL);
	else
		gst_caps_set_simple(caps, field, G_TYPE_INT, (int)size, NULL);
}

GstCaps *inf_gst_input_caps(const struct inf_gst_input *input)
{
	static const char *const rgb[] = { "RGB", "BGR", "RGBx", "BGRx", "xRGB", "xBGR", "RGBA", "BGRA", "ARGB",
		"ABGR" };
	if (input->kind == INF_GST_SOUND)
		return gst_caps_new_simple("audio/x-raw", "format", G_TYPE_STRING,
			G_BYTE_ORDER == G_LITTLE_ENDIAN ? "F32LE" : "F32BE", "layout", G_TYPE_STRING, "interleaved",
			"channels", G_TYPE_INT, 1, "rate", G_TYPE_INT, input->rate, NULL);
	GstCaps *caps = gst_caps_new_empty_simple("video/x-raw");
	if (input->n_channels == 1) {
		gst_caps_set_simple(caps, "format", G_TYPE_STRING, "GRAY8", NULL);
	} else {
		GValue formats = G_VALUE_INIT, format = G_VALUE_INIT;
		g_value_init(&formats, GST_TYPE_LIST);
		g_value_init(&format, G_TYPE_STRING);
		/* Such frames can be the tensor itself: the element that converts before the filter writes it. */
		size_t n = takes_frames(input) ? 1 : G_N_ELEMENTS(rgb);
		for (size_t i = 0; i < n; i++) {
			size_t at = input->is_bgr && i < 2 ? 1 - i : i; /* the model's own order first */
			g_value_set_static_string(&format, rgb[at]);
			gst_value_list_append_value(&formats, &format);
		}
		gst_caps_set_value(caps, "format", &formats);
		g_value_unset(&format);
		g_value_unset(&formats);
	}
	add_size(caps, "width", input->is_dynamic, input->shape[input->width_dim]);
	add_size(caps, "height", input->is_dynamic, input->shape[input->height_dim]);
	gst_caps_set_simple(caps, "framerate", GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, NULL);
	return caps;
}

void inf_gst_input_strides(const struct inf_gst_input *input, size_t width, size_t height, int64_t *shape,
	size_t *ret_channel, size_t *ret_row, size_t *ret_pixel)
{
	size_t strides[INFERD_MAX_DIMS] = { 0 }, stride = 1;
	for (size_t i = 0; i < input->n_dims; i++)
		shape[i] = 1;
	shape[input->channel_dim] = (int64_t)input->n_channels;
	shape[input->height_dim] = (int64_t)height;
	shape[input->width_dim] = (int64_t)width;
	for (size_t i = input->n_dims; i-- > 0;) {
		size_t dim = input->dim_order[i];
		strides[dim] = stride;
		stride *= (size_t)shape[dim];
	}
	*ret_channel = strides[input->channel_dim];
	*ret_row = strides[input->height_dim];
	*ret_pixel = strides[input->width_dim];
}
