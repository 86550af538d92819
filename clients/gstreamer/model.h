/* SPDX-License-Identifier: BSD-3-Clause */
/* Model: what the input of a Method takes, as a stream of GStreamer. */
#ifndef CLIENTS_GSTREAMER_MODEL_H
#define CLIENTS_GSTREAMER_MODEL_H

#include "clients/inferd.h"

#include <gst/gst.h>

#include <stdbool.h>

GST_DEBUG_CATEGORY_EXTERN(inf_gst_debug);
#define GST_CAT_DEFAULT inf_gst_debug

enum { INF_GST_LEVELS = 256, INF_GST_MAX_CHANNELS = 4, INF_GST_MAX_LABELS = 1 << 16 };

enum inf_gst_kind { INF_GST_IMAGE, INF_GST_SOUND };

/* enum of the property input-image-format; its first value means that nobody has said anything. */
enum inf_gst_layout { INF_GST_LAYOUT_AUTO, INF_GST_LAYOUT_HWC, INF_GST_LAYOUT_CHW };

/* The user's properties; they win over model.conf. */
struct inf_gst_wishes {
	enum inf_gst_layout layout;
	bool has_scale, has_offset;
	float scale, offset; /* an element is (pixel + offset) / scale, as onnxinference computes */
	int rate;            /* of sound, in Hz */
};

struct inf_gst_input {
	enum inf_gst_kind kind;
	bool is_dynamic;
	size_t n_dims, n_element; /* bytes of an element: 1, 2 or 4 */
	int64_t shape[INFERD_MAX_DIMS];
	uint8_t dim_order[INFERD_MAX_DIMS];
	/* An image: which dimensions are its channels, height and width; how a pixel becomes an element. */
	size_t channel_dim, height_dim, width_dim, n_channels;
	bool is_bgr, is_plain;                                 /* plain: an element is the pixel itself */
	uint32_t levels[INF_GST_MAX_CHANNELS][INF_GST_LEVELS]; /* the bits of the element for each pixel */
	/* Sound: a frame. */
	size_t n_samples;
	int rate;
};

/* Read what @m takes. NULL, or a sentence that says why no stream can be its input; the caller frees it. */
char *inf_gst_input_init(struct inf_gst_input *input, const struct inferd_method *m,
	const struct inf_gst_wishes *wishes);
/* The streams that it takes, the ones that need no conversion first. */
GstCaps *inf_gst_input_caps(const struct inf_gst_input *input);
/* Strides in elements of an image of this size. The shape of the tensor is written to @shape. */
void inf_gst_input_strides(const struct inf_gst_input *input, size_t width, size_t height, int64_t *shape,
	size_t *ret_channel, size_t *ret_row, size_t *ret_pixel);

#endif
