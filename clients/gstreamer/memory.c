/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: an allocator whose memory the daemon can import, and a list of memories that have gone.
 *
 * libinferd makes regions, too, but unmaps them when the connection is closed, while a sink may hold a frame for
 * longer. So each memory is a sealed memfd of its own, which GStreamer's GstFdAllocator maps and which the filter
 * imports.
 *
 * An imported region is kept as long as its memory, because a pool hands out the same few memories again and again. A
 * memory goes on any thread, perhaps within a call of the filter's own, so it is only noted then, under a lock that is
 * held for nothing else; whoever owns the connection takes the note later. */
#include "clients/gstreamer/memory.h"

#include <gst/allocators/allocators.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the allocator ---- */

typedef struct {
	GstFdAllocator parent;
} InfGstAllocator;
typedef struct {
	GstFdAllocatorClass parent;
} InfGstAllocatorClass;
static GType inf_gst_allocator_get_type(void);
G_DEFINE_TYPE(InfGstAllocator, inf_gst_allocator, GST_TYPE_FD_ALLOCATOR)

static GstMemory *allocate(GstAllocator *allocator, gsize size, GstAllocationParams *params)
{
	gsize whole;
	if (!g_size_checked_add(&whole, size, params->prefix) || !g_size_checked_add(&whole, whole, params->padding) ||
		whole > G_MAXOFFSET || whole == 0)
		return NULL;
	int fd = memfd_create("inferdfilter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return NULL;
	GstMemory *memory = NULL;
	if (ftruncate(fd, (off_t)whole) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
		memory = gst_fd_allocator_alloc(allocator, fd, whole, GST_FD_MEMORY_FLAG_KEEP_MAPPED);
	if (memory)
		gst_memory_resize(memory, (gssize)params->prefix, size);
	else
		close(fd);
	return memory;
}

static void inf_gst_allocator_class_init(InfGstAllocatorClass *class)
{
	GST_ALLOCATOR_CLASS(class)->alloc = allocate;
}

static void inf_gst_allocator_init(InfGstAllocator *allocator)
{
	GST_OBJECT_FLAG_UNSET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GstAllocator *inf_gst_allocator_new(void)
{
	return gst_object_ref_sink(g_object_new(inf_gst_allocator_get_type(), NULL));
}

int inf_gst_memory_fd(GstMemory *memory)
{
	return gst_is_fd_memory(memory) ? gst_fd_memory_get_fd(memory) : -1;
}

/* ---- memories that have gone ---- */

struct inf_gst_departures {
	gint n_refs; /* the maker's, and one for each memory that is watched */
	GMutex lock;
	GSList *gone; /* addresses */
	bool is_closed;
};

struct inf_gst_departures *inf_gst_departures_new(void)
{
	struct inf_gst_departures *departures = g_new0(struct inf_gst_departures, 1);
	departures->n_refs = 1;
	g_mutex_init(&departures->lock);
	return departures;
}

static void unref(struct inf_gst_departures *departures)
{
	if (!g_atomic_int_dec_and_test(&departures->n_refs))
		return;
	g_slist_free(departures->gone);
	g_mutex_clear(&departures->lock);
	g_free(departures);
}

void inf_gst_departures_free(struct inf_gst_departures *departures)
{
	if (!departures)
		return;
	g_mutex_lock(&departures->lock);
	departures->is_closed = true;
	g_mutex_unlock(&departures->lock);
	unref(departures);
}

static void note(gpointer data, GstMiniObject *where)
{
	struct inf_gst_departures *departures = data;
	g_mutex_lock(&departures->lock);
	if (!departures->is_closed)
		departures->gone = g_slist_prepend(departures->gone, where);
	g_mutex_unlock(&departures->lock);
	unref(departures);
}

void inf_gst_departures_watch(struct inf_gst_departures *departures, GstMemory *memory)
{
	g_atomic_int_inc(&departures->n_refs);
	gst_mini_object_weak_ref(GST_MINI_OBJECT_CAST(memory), note, departures);
}

const void *inf_gst_departures_take(struct inf_gst_departures *departures)
{
	g_mutex_lock(&departures->lock);
	const void *memory = departures->gone ? departures->gone->data : NULL;
	departures->gone = g_slist_delete_link(departures->gone, departures->gone);
	g_mutex_unlock(&departures->lock);
	return memory;
}
