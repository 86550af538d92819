/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter in a harness of GStreamer's, with a real daemon behind it. */
#ifndef TESTS_GSTREAMER_RIG_H
#define TESTS_GSTREAMER_RIG_H

#include "tests/e2e/harness.h"
#include "tests/support/make_program.h"

#include <gst/analytics/analytics.h>
#include <gst/check/gstharness.h>
#include <gst/gst.h>
#include <gst/video/video.h>

struct rig {
	struct e2e e;
	GstHarness *h; /* NULL: not started */
	GstBus *bus;
};

/* What a model of an image is: y = x, in any datatype, layout and size. */
struct rig_model {
	int type; /* enum et_scalar_type */
	int32_t sizes[4];
	const uint8_t *dim_order;
	bool is_dynamic;
	const char *conf; /* model.conf, or NULL */
};

/* A rig without a daemon. */
void rig_init(struct rig *rig);
/* Write the program, and its model.conf, to the repository. */
void rig_put(struct rig *rig, const char *name, const struct rig_model *model);
/* Write a model.conf of this text. */
void rig_put_conf(struct rig *rig, const char *name, const char *conf);
/* Start the daemon and a filter with the properties of @text ("model=double late=drop"), which gets @caps (NULL: none
 * yet). */
void rig_start(struct rig *rig, const char *text, const char *caps);
/* The filter alone, in the state NULL. The daemon must run. */
GstElement *rig_filter(struct rig *rig, const char *text);
/* Bring one frame. */
GstFlowReturn rig_push(struct rig *rig, const void *bytes, size_t n_bytes, GstClockTime pts);
/* Tensor @index of @frame, which must have this name and size. Borrowed. */
const void *rig_tensor(GstBuffer *frame, size_t index, const char *name, size_t n_bytes);
/* Wait for a message of this type and return it. */
GstMessage *rig_message(struct rig *rig, GstMessageType type);
/* Wait for an error, whose text must contain @text. */
void rig_expect_error(struct rig *rig, const char *text);
/* End filter and daemon, which must have nothing of it any more. */
void rig_deinit(struct rig *rig);

/* Runs the tests; the end of every main. */
int rig_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n);

#endif
