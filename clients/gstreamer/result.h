/* SPDX-License-Identifier: BSD-3-Clause */
/* Result: the outputs of a request, attached to its frame. */
#ifndef CLIENTS_GSTREAMER_RESULT_H
#define CLIENTS_GSTREAMER_RESULT_H

#include "clients/inferd.h"

#include <gst/gst.h>

#include <stdbool.h>

struct inf_gst_filter;
struct inf_gst_slot;

/* What the elements of outputs stand for. */
struct inf_gst_labels {
	size_t n_outputs;
	GArray **of_output; /* of GQuark; NULL where nobody knows */
};

/* Read the labels of all outputs of @m: those of model.conf, or of the file at @path, one a line, for the first output
 * of that many elements. NULL, or why not; the caller frees it. */
char *inf_gst_labels_init(struct inf_gst_labels *labels, const struct inferd_method *m, const char *path);
void inf_gst_labels_deinit(struct inf_gst_labels *labels);

/* Attach the outputs of the request on @slot to @frame, which is writable: as tensors, and as classes where there are
 * labels. Takes the connection's lock for a moment. Returns the message for the application, which the caller posts, or
 * NULL if it wants none. */
GstMessage *inf_gst_result_attach(struct inf_gst_filter *f, struct inf_gst_slot *slot, GstBuffer *frame);

#endif
