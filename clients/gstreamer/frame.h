/* SPDX-License-Identifier: BSD-3-Clause */
/* Frame: a video frame as the elements of a tensor. */
#ifndef CLIENTS_GSTREAMER_FRAME_H
#define CLIENTS_GSTREAMER_FRAME_H

#include "clients/gstreamer/model.h"

#include <gst/video/video.h>

/* Whether frames of this form are the tensor already, byte by byte. */
bool inf_gst_frame_is_tensor(const struct inf_gst_input *input, const GstVideoInfo *info);
/* Write @frame to @tensor, which has room for a frame of its size. Any thread. */
void inf_gst_frame_convert(const struct inf_gst_input *input, const GstVideoFrame *frame, void *tensor);

#endif
