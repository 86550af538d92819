/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection: the filter's connection to the daemon, its Method, and the requests that run on it.
 *
 * Two threads use it, the one that brings frames and the one that takes results, so everything below wants the lock,
 * but for init, deinit, and where it is said. A call that blocks does so with the lock held, for as long as its
 * timeout, except for wait. */
#ifndef CLIENTS_GSTREAMER_CONNECTION_H
#define CLIENTS_GSTREAMER_CONNECTION_H

#include "clients/gstreamer/memory.h"
#include "clients/gstreamer/model.h"

enum { INF_GST_MAX_IN_FLIGHT = 16, INF_GST_MAX_IMPORTS = 64 };

/* A frame or an event: items go through the filter in order. */
struct inf_gst_item {
	GstBuffer *frame;          /* or NULL */
	GstEvent *event;           /* or NULL */
	struct inf_gst_slot *slot; /* of a frame: where its request runs or has run */
	bool is_done;
	int status; /* of a frame that is done; negative as of inferd.h */
	char *error;
	uint64_t timeout_us;
	GstClockTime running, stream; /* the frame's times, for whoever is told that it was left out */
	bool is_discont;              /* frames before this one were left out */
};
struct inf_gst_item *inf_gst_item_new(GstBuffer *frame, GstEvent *event); /* takes both */
void inf_gst_item_free(struct inf_gst_item *item);

/* A binding, on which one request at a time runs. */
struct inf_gst_slot {
	struct inf_gst_connection *connection;
	struct inferd_binding *binding;
	struct inferd_region *input, *outputs; /* of imported memory; NULL: one region of the binding's own */
	struct inf_gst_item *item;             /* whose request this is; NULL: nobody is interested any more */
	GstBuffer *reads;                      /* the frame whose memory the daemon may be reading */
	bool is_running, is_taken;
	bool is_read; /* somebody reads the outputs, and releases the slot then */
};

struct inf_gst_settings {
	char *socket, *model, *version, *method, *backend, *labels;
	guint reconnect_ms;
	enum inferd_priority priority;
	struct inf_gst_wishes wishes;
};

struct inf_gst_connection {
	GMutex lock;
	GCond changed; /* a request has ended, a slot is free, or the filter's state has changed */
	int wake_fd;
	struct inferd *d;
	struct inferd_method *m;
	struct inf_gst_input input;
	enum inferd_priority priority;
	struct inf_gst_slot slots[INF_GST_MAX_IN_FLIGHT];
	size_t n_slots, n_running;
	struct inf_gst_departures *departures;
	GHashTable
		*imports; /* the address of a memory: its slot, or one without a binding where it cannot be imported */
	bool has_shape;
	int64_t shape[INFERD_MAX_DIMS];
};

bool inf_gst_connection_init(struct inf_gst_connection *c);
void inf_gst_connection_deinit(struct inf_gst_connection *c);

/* Connect and open the Method. A negative status of inferd.h and a sentence in *ret_error, which the caller frees. */
int inf_gst_connection_open(struct inf_gst_connection *c, const struct inf_gst_settings *settings, char **ret_error);
void inf_gst_connection_close(struct inf_gst_connection *c);

/* Make @n slots of the connection's own. Negative, with inferd_error's sentence, as all below. */
int inf_gst_connection_bind(struct inf_gst_connection *c, size_t n);
/* Free all slots, the imported ones too. Requests end, and nobody is told. */
void inf_gst_connection_unbind(struct inf_gst_connection *c);
/* The shape of a dynamic input from now on. No request may be running. */
int inf_gst_connection_set_shape(struct inf_gst_connection *c, const int64_t *shape);

/* A slot of the connection's own that is free, and now taken; NULL: wait for changed. */
struct inf_gst_slot *inf_gst_connection_take(struct inf_gst_connection *c);
/* The slot over the memory of @frame itself, now taken. NULL: the frame is to be copied. */
struct inf_gst_slot *inf_gst_connection_import(struct inf_gst_connection *c, GstBuffer *frame, size_t n_bytes);
void inf_gst_slot_release(struct inf_gst_slot *slot);

/* Start the request of @item on its slot. On failure the item is done, with the reason. */
void inf_gst_connection_start(struct inf_gst_connection *c, struct inf_gst_item *item);
/* Wait until something arrives, or until woken, without the lock meanwhile; then handle it. */
void inf_gst_connection_wait(struct inf_gst_connection *c);
/* End a wait. Any thread, with or without the lock. */
void inf_gst_connection_wake(struct inf_gst_connection *c);
/* Nobody is interested in the requests that run; their slots are free once the daemon has let go of them. */
void inf_gst_connection_abandon(struct inf_gst_connection *c);

#endif
