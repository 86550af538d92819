/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: what upstream is offered, so that a frame lies where the daemon reads it. */
#ifndef CLIENTS_GSTREAMER_MEMORY_H
#define CLIENTS_GSTREAMER_MEMORY_H

#include <gst/gst.h>

#include <stdbool.h>

/* An allocator of sealed memfds, which every daemon imports. The caller's to unref. */
GstAllocator *inf_gst_allocator_new(void);
/* The file behind @memory, if the daemon may import it: a memfd or a dma-buf. The descriptor stays the memory's. -1:
 * there is none. */
int inf_gst_memory_fd(GstMemory *memory);

/* Tells when memories go. It outlives whoever made it, since a memory may, too. */
struct inf_gst_departures;
struct inf_gst_departures *inf_gst_departures_new(void);
/* No more is told; what was told and not taken is forgotten. */
void inf_gst_departures_free(struct inf_gst_departures *departures);
/* Have @memory told when it goes. */
void inf_gst_departures_watch(struct inf_gst_departures *departures, GstMemory *memory);
/* A memory that has gone, as the address that it had; NULL: no more. A new memory cannot have the address of one that
 * has not been told yet. */
const void *inf_gst_departures_take(struct inf_gst_departures *departures);

#endif
