/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection: the filter's use of libinferd, which wants one thread at a time.
 *
 * A slot is one binding. The connection's own slots have memory that frames are converted to. A frame that is a tensor
 * already, in memory that the daemon can map, gets a slot over that very memory instead, which is kept for the next
 * frame in it; then nothing is copied.
 *
 * What must always be true: a slot whose request runs is not used again, and the frame that the daemon reads stays,
 * even when nobody waits for the result any more. That is so after a flush: the request is cancelled, but the daemon
 * may take its time, so nobody waits for it. */
#include "clients/gstreamer/connection.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { OPEN_TIMEOUT_US = 60 * G_USEC_PER_SEC, BIND_TIMEOUT_US = 10 * G_USEC_PER_SEC, ALIGNMENT = 64 };

struct inf_gst_item *inf_gst_item_new(GstBuffer *frame, GstEvent *event)
{
	struct inf_gst_item *item = g_new0(struct inf_gst_item, 1);
	item->frame = frame;
	item->event = event;
	return item;
}

void inf_gst_item_free(struct inf_gst_item *item)
{
	if (!item)
		return;
	gst_clear_buffer(&item->frame);
	gst_clear_event(&item->event);
	g_free(item->error);
	g_free(item);
}

static void slot_deinit(struct inf_gst_slot *slot)
{
	if (slot->item)
		slot->item->slot = NULL;
	inferd_unbind(slot->binding);
	inferd_region_free(slot->input);
	inferd_region_free(slot->outputs);
	gst_clear_buffer(&slot->reads);
	memset(slot, 0, sizeof(*slot));
}

static void import_free(gpointer data)
{
	slot_deinit(data);
	g_free(data);
}

bool inf_gst_connection_init(struct inf_gst_connection *c)
{
	g_mutex_init(&c->lock);
	g_cond_init(&c->changed);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return c->wake_fd >= 0;
}

void inf_gst_connection_deinit(struct inf_gst_connection *c)
{
	inf_gst_connection_close(c);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	g_cond_clear(&c->changed);
	g_mutex_clear(&c->lock);
}

int inf_gst_connection_open(struct inf_gst_connection *c, const struct inf_gst_settings *settings, char **ret_error)
{
	if (c->wake_fd < 0) {
		*ret_error = g_strdup("no file descriptor is left");
		return -INFERD_RESOURCE_EXHAUSTED;
	}
	int rc = inferd_open_with(&c->d,
		&(struct inferd_open_options){ .struct_size = sizeof(struct inferd_open_options),
			.socket = settings->socket,
			.reconnect_ms = settings->reconnect_ms,
			.timeout_us = OPEN_TIMEOUT_US });
	if (rc >= 0)
		rc = inferd_method_open(c->d, &c->m, settings->model,
			&(struct inferd_method_options){ .struct_size = sizeof(struct inferd_method_options),
				.version = settings->version,
				.method = settings->method,
				.backend = settings->backend,
				.timeout_us = OPEN_TIMEOUT_US });
	char *error = rc < 0 ? g_strdup(inferd_error(c->d)) : inf_gst_input_init(&c->input, c->m, &settings->wishes);
	if (error) {
		*ret_error = error;
		inf_gst_connection_close(c);
		return rc < 0 ? rc : -INFERD_INVALID_ARGUMENT;
	}
	c->priority = settings->priority;
	return 0;
}

void inf_gst_connection_close(struct inf_gst_connection *c)
{
	inf_gst_connection_unbind(c);
	inferd_close(c->d);
	c->d = NULL;
	c->m = NULL;
}

int inf_gst_connection_bind(struct inf_gst_connection *c, size_t n)
{
	int rc = 0;
	inf_gst_connection_unbind(c);
	c->imports = g_hash_table_new_full(NULL, NULL, NULL, import_free);
	c->departures = inf_gst_departures_new();
	for (c->n_slots = 0; rc >= 0 && c->n_slots < n; c->n_slots++) {
		c->slots[c->n_slots].connection = c;
		rc = inferd_bind_with(c->m, &c->slots[c->n_slots].binding,
			&(struct inferd_bind_options){
				.struct_size = sizeof(struct inferd_bind_options), .timeout_us = BIND_TIMEOUT_US });
	}
	return rc;
}

void inf_gst_connection_unbind(struct inf_gst_connection *c)
{
	for (size_t i = 0; i < c->n_slots; i++)
		slot_deinit(&c->slots[i]);
	g_clear_pointer(&c->imports, g_hash_table_unref);
	g_clear_pointer(&c->departures, inf_gst_departures_free);
	c->n_slots = c->n_running = 0;
	c->has_shape = false;
}

static int set_shape_of(struct inf_gst_connection *c, struct inf_gst_slot *slot)
{
	return c->has_shape && slot->binding ? inferd_set_input_shape(slot->binding, 0, c->shape, c->input.n_dims) : 0;
}

int inf_gst_connection_set_shape(struct inf_gst_connection *c, const int64_t *shape)
{
	GHashTableIter iter;
	gpointer slot;
	int rc = 0;
	memcpy(c->shape, shape, c->input.n_dims * sizeof(*shape));
	c->has_shape = true;
	for (size_t i = 0; rc >= 0 && i < c->n_slots; i++)
		rc = set_shape_of(c, &c->slots[i]);
	g_hash_table_iter_init(&iter, c->imports);
	while (rc >= 0 && g_hash_table_iter_next(&iter, NULL, &slot))
		rc = set_shape_of(c, slot);
	return rc;
}

struct inf_gst_slot *inf_gst_connection_take(struct inf_gst_connection *c)
{
	for (size_t i = 0; i < c->n_slots; i++) {
		if (c->slots[i].is_running || c->slots[i].is_taken)
			continue;
		c->slots[i].is_taken = true;
		return &c->slots[i];
	}
	return NULL;
}

void inf_gst_slot_release(struct inf_gst_slot *slot)
{
	slot->is_taken = slot->is_read = false;
	slot->item = NULL;
	g_cond_broadcast(&slot->connection->changed);
}

/* One region for all outputs of @slot, one after the other. */
static int make_outputs(struct inf_gst_connection *c, struct inf_gst_slot *slot, struct inferd_slot *outputs)
{
	size_t n = inferd_n_outputs(c->m), n_bytes = 0;
	for (size_t i = 0; i < n; i++) {
		outputs[i].offset = n_bytes;
		n_bytes += (inferd_output_info(c->m, i)->n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	}
	if (n_bytes == 0)
		return 0;
	int rc = inferd_region_new(c->d, &slot->outputs, n_bytes);
	for (size_t i = 0; rc >= 0 && i < n; i++)
		if (inferd_output_info(c->m, i)->n_bytes)
			outputs[i].region = slot->outputs;
	return rc;
}

/* Make a slot over @memory. It has no binding where the daemon refuses the memory. */
static struct inf_gst_slot *import_new(struct inf_gst_connection *c, GstMemory *memory, int fd)
{
	struct inf_gst_slot *slot = g_new0(struct inf_gst_slot, 1);
	struct inferd_slot *inputs = g_new0(struct inferd_slot, inferd_n_inputs(c->m));
	struct inferd_slot *outputs = g_new0(struct inferd_slot, inferd_n_outputs(c->m) + 1);
	slot->connection = c;
	int rc = inferd_region_import(c->d, &slot->input, fd, memory->maxsize);
	if (rc >= 0)
		rc = make_outputs(c, slot, outputs);
	inputs[0] = (struct inferd_slot){ slot->input, memory->offset, 0 };
	if (rc >= 0)
		rc = inferd_bind_with(c->m, &slot->binding,
			&(struct inferd_bind_options){ .struct_size = sizeof(struct inferd_bind_options),
				.inputs = inputs,
				.outputs = outputs,
				.timeout_us = BIND_TIMEOUT_US });
	if (rc >= 0)
		rc = set_shape_of(c, slot);
	g_free(inputs);
	g_free(outputs);
	if (rc < 0) {
		GST_INFO("a frame's memory stays outside, and its frames are copied: %s", inferd_error(c->d));
		slot_deinit(slot);
		slot->connection = c;
	}
	return slot;
}

struct inf_gst_slot *inf_gst_connection_import(struct inf_gst_connection *c, GstBuffer *frame, size_t n_bytes)
{
	const void *gone;
	while ((gone = inf_gst_departures_take(c->departures)))
		g_hash_table_remove(c->imports, gone);
	if (gst_buffer_n_memory(frame) != 1)
		return NULL;
	GstMemory *memory = gst_buffer_peek_memory(frame, 0);
	int fd = inf_gst_memory_fd(memory);
	if (fd < 0 || memory->parent || memory->size < n_bytes || memory->offset % ALIGNMENT != 0)
		return NULL;
	struct inf_gst_slot *slot = g_hash_table_lookup(c->imports, memory);
	if (!slot && g_hash_table_size(c->imports) < INF_GST_MAX_IMPORTS) {
		slot = import_new(c, memory, fd);
		g_hash_table_insert(c->imports, memory, slot);
		inf_gst_departures_watch(c->departures, memory);
	}
	if (!slot || !slot->binding || slot->is_running || slot->is_taken)
		return NULL;
	slot->is_taken = true;
	return slot;
}

static void fail(struct inf_gst_item *item, int status, const char *error)
{
	item->is_done = true;
	item->status = status;
	g_free(item->error);
	item->error = g_strdup(error);
}

static void done(struct inferd_binding *b, int status, void *userdata)
{
	struct inf_gst_slot *slot = userdata;
	struct inf_gst_connection *c = slot->connection;
	slot->is_running = false;
	c->n_running--;
	gst_clear_buffer(&slot->reads);
	if (slot->item) {
		slot->item->is_done = true;
		slot->item->status = status;
		if (status < 0)
			fail(slot->item, status, inferd_error(c->d));
	} else {
		inf_gst_slot_release(slot);
	}
	g_cond_broadcast(&c->changed);
}

void inf_gst_connection_start(struct inf_gst_connection *c, struct inf_gst_item *item)
{
	struct inf_gst_slot *slot = item->slot;
	item->is_done = false;
	slot->item = item;
	int rc = inferd_infer_async(slot->binding,
		&(struct inferd_request_options){ .struct_size = sizeof(struct inferd_request_options),
			.priority = c->priority,
			.timeout_us = item->timeout_us },
		done, slot);
	if (rc < 0) {
		fail(item, rc, inferd_error(c->d));
		return;
	}
	slot->is_running = true;
	c->n_running++;
	if (slot->input)
		slot->reads = gst_buffer_ref(item->frame);
}

void inf_gst_connection_wait(struct inf_gst_connection *c)
{
	struct pollfd fds[] = { { .fd = inferd_get_fd(c->d), .events = POLLIN },
		{ .fd = c->wake_fd, .events = POLLIN } };
	uint64_t count;
	g_mutex_unlock(&c->lock);
	poll(fds, G_N_ELEMENTS(fds), -1);
	g_mutex_lock(&c->lock);
	if (fds[1].revents && read(c->wake_fd, &count, sizeof(count)) < 0)
		GST_LOG("woken already");
	inferd_dispatch(c->d);
}

void inf_gst_connection_wake(struct inf_gst_connection *c)
{
	if (write(c->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t)) < 0)
		GST_LOG("has been woken already");
}

static void abandon(struct inf_gst_slot *slot)
{
	if (slot->is_read)
		return;
	if (slot->item)
		slot->item->slot = NULL;
	slot->item = NULL;
	if (slot->is_running)
		inferd_cancel(slot->binding);
	else
		slot->is_taken = false;
}

void inf_gst_connection_abandon(struct inf_gst_connection *c)
{
	GHashTableIter iter;
	gpointer slot;
	for (size_t i = 0; i < c->n_slots; i++)
		abandon(&c->slots[i]);
	if (!c->imports)
		return;
	g_hash_table_iter_init(&iter, c->imports);
	while (g_hash_table_iter_next(&iter, NULL, &slot))
		abandon(slot);
}
