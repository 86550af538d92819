/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes: the output of a YOLO detector (YOLOv8, YOLO11) as boxes.
 *
 * Such a network answers for each of thousands of places, and several places see the same object. So boxes with a low
 * score are left out, and of those that overlap and have one label, only the best one stays (non-maximum suppression).
 *
 * What must always be true: the numbers are a program's, hence any. A box that is returned is finite, not empty, and
 * within the image; and no more than MAX_CANDIDATES boxes are compared with each other, whatever the output is. */
#include "clients/gstreamer/boxes.h"

#include <glib.h>

#include <math.h>
#include <stdlib.h>

enum { MAX_CANDIDATES = 1000, N_BOX = 4 };

static int by_score(const void *a, const void *b)
{
	const struct inf_gst_box *x = a, *y = b;
	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* The label with the highest score at @place; NaN is no score. */
static void find_label(const float *scores, size_t n_labels, size_t n_places, struct inf_gst_box *box)
{
	box->score = -INFINITY;
	for (size_t i = 0; i < n_labels; i++) {
		float score = scores[i * n_places + box->place];
		if (score > box->score) {
			box->score = score;
			box->label = i;
		}
	}
}

/* False: nothing of it is within the image. */
static bool place_box(const float *output, size_t n_places, const struct inf_gst_box_limits *limits,
	struct inf_gst_box *box)
{
	const float *at = output + box->place;
	float x = at[0], y = at[n_places], w = at[2 * n_places], h = at[3 * n_places];
	if (!isfinite(x) || !isfinite(y) || !isfinite(w) || !isfinite(h))
		return false;
	box->left = CLAMP(x - w / 2, 0, limits->width);
	box->top = CLAMP(y - h / 2, 0, limits->height);
	box->right = CLAMP(x + w / 2, 0, limits->width);
	box->bottom = CLAMP(y + h / 2, 0, limits->height);
	return box->left < box->right && box->top < box->bottom;
}

static float area(float left, float top, float right, float bottom)
{
	return left < right && top < bottom ? (right - left) * (bottom - top) : 0;
}

/* Intersection over union. */
static float overlap(const struct inf_gst_box *a, const struct inf_gst_box *b)
{
	float both = area(MAX(a->left, b->left), MAX(a->top, b->top), MIN(a->right, b->right),
		MIN(a->bottom, b->bottom));
	float all = area(a->left, a->top, a->right, a->bottom) + area(b->left, b->top, b->right, b->bottom) - both;
	return all > 0 ? both / all : 0;
}

static bool is_new(const struct inf_gst_box *box, const struct inf_gst_box *found, size_t n, float limit)
{
	for (size_t i = 0; i < n; i++)
		if (found[i].label == box->label && overlap(&found[i], box) > limit)
			return false;
	return true;
}

size_t inf_gst_boxes_find(const float *output, size_t n_labels, size_t n_places,
	const struct inf_gst_box_limits *limits, struct inf_gst_box *ret)
{
	g_autofree struct inf_gst_box *candidates = g_new(struct inf_gst_box, n_places);
	size_t n_candidates = 0, n = 0;
	for (size_t place = 0; place < n_places; place++) {
		struct inf_gst_box *box = &candidates[n_candidates];
		*box = (struct inf_gst_box){ .place = place };
		find_label(output + N_BOX * n_places, n_labels, n_places, box);
		n_candidates += isfinite(box->score) && box->score >= limits->score &&
				place_box(output, n_places, limits, box);
	}
	if (n_candidates > 0)
		qsort(candidates, n_candidates, sizeof(*candidates), by_score);
	for (size_t i = 0; i < MIN(n_candidates, MAX_CANDIDATES) && n < INF_GST_MAX_BOXES; i++)
		if (is_new(&candidates[i], ret, n, limits->overlap))
			ret[n++] = candidates[i];
	return n;
}
