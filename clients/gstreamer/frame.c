/* SPDX-License-Identifier: BSD-3-Clause */
/* Frame: one pass over the pixels of a video frame, in which layout, order of channels, scale and offset change.
 *
 * A component's place in a pixel comes from GStreamer's description of the format, and the tensor's strides come from
 * its dim order, so one loop serves all formats and layouts. */
#include "clients/gstreamer/frame.h"

/* The component of the frame that channel @c of the tensor is. */
static guint component_of(const struct inf_gst_input *input, size_t c)
{
	return (guint)(input->is_bgr ? input->n_channels - 1 - c : c);
}

bool inf_gst_frame_is_tensor(const struct inf_gst_input *input, const GstVideoInfo *info)
{
	int64_t shape[INFERD_MAX_DIMS];
	size_t channel, row, pixel, n = input->n_channels;
	size_t width = (size_t)GST_VIDEO_INFO_WIDTH(info), height = (size_t)GST_VIDEO_INFO_HEIGHT(info);
	inf_gst_input_strides(input, width, height, shape, &channel, &row, &pixel);
	if (!input->is_plain || row != width * n || pixel != n || (n > 1 && channel != 1))
		return false;
	if (GST_VIDEO_INFO_PLANE_STRIDE(info, 0) != (int)row || GST_VIDEO_INFO_PLANE_OFFSET(info, 0) != 0)
		return false;
	for (size_t c = 0; c < n; c++)
		if (GST_VIDEO_INFO_COMP_PSTRIDE(info, 0) != (int)n ||
			GST_VIDEO_INFO_COMP_POFFSET(info, component_of(input, c)) != c)
			return false;
	return true;
}

#define CONVERT_ROW(type)                                                       \
	do {                                                                    \
		type *to = (type *)tensor + c * channel + y * row;              \
		for (size_t x = 0; x < width; x++, from += n_step, to += pixel) \
			*to = (type)levels[*from];                              \
	} while (0)

void inf_gst_frame_convert(const struct inf_gst_input *input, const GstVideoFrame *frame, void *tensor)
{
	int64_t shape[INFERD_MAX_DIMS];
	size_t channel, row, pixel;
	size_t width = (size_t)GST_VIDEO_FRAME_WIDTH(frame), height = (size_t)GST_VIDEO_FRAME_HEIGHT(frame);
	inf_gst_input_strides(input, width, height, shape, &channel, &row, &pixel);
	for (size_t y = 0; y < height; y++) {
		for (size_t c = 0; c < input->n_channels; c++) {
			const uint32_t *levels = input->levels[c];
			guint component = component_of(input, c);
			ptrdiff_t n_step = GST_VIDEO_FRAME_COMP_PSTRIDE(frame, component);
			const uint8_t *from = GST_VIDEO_FRAME_COMP_DATA(frame, component);
			from += (ptrdiff_t)y * GST_VIDEO_FRAME_COMP_STRIDE(frame, component);
			if (input->n_element == 4)
				CONVERT_ROW(uint32_t);
			else if (input->n_element == 2)
				CONVERT_ROW(uint16_t);
			else
				CONVERT_ROW(uint8_t);
		}
	}
}
