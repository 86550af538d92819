/* SPDX-License-Identifier: BSD-3-Clause */
/* Plugin: what GStreamer finds in libgstinferd.so, the element inferdfilter. It is registered without a rank, since no
 * pipeline should get it without asking. */
#include "clients/gstreamer/filter.h"

static gboolean plugin_init(GstPlugin *plugin)
{
	return gst_element_register(plugin, "inferdfilter", GST_RANK_NONE, inf_gst_filter_get_type());
}

#define PACKAGE "inferd"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, inferd, "Inference with the daemon inferd", plugin_init,
	INFERD_VERSION, "BSD", "inferd", "inferd")
