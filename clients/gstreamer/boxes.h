/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes: what a detector of the YOLO family has found, from its one output [1, 4 + labels, places]. */
#ifndef CLIENTS_GSTREAMER_BOXES_H
#define CLIENTS_GSTREAMER_BOXES_H

#include <stdbool.h>
#include <stddef.h>

enum { INF_GST_MAX_BOXES = 100 };

struct inf_gst_box {
	float left, top, right, bottom; /* pixels, within the image */
	float score;
	size_t label, place;
};

struct inf_gst_box_limits {
	float score;         /* a box has at least this score, */
	float overlap;       /* and overlaps a better one of its label by at most this: intersection over union */
	float width, height; /* of the image, in pixels */
};

/* Find at most INF_GST_MAX_BOXES boxes, the best one first. @output is row-major and has a row of @n_places numbers for
 * each of: centre x, centre y, width, height, in pixels, and the score of each label. Any number may be in it, NaN
 * too. Returns how many boxes are in @ret. */
size_t inf_gst_boxes_find(const float *output, size_t n_labels, size_t n_places,
	const struct inf_gst_box_limits *limits, struct inf_gst_box *ret);

#endif
