/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs behind inferd.h and the functions that the files of libinferd share. Not installed.
 *
 * A connection is used by one thread at a time, so no function here takes a lock. */
#ifndef CLIENTS_LIBINFERD_LIBINFERD_INTERNAL_H
#define CLIENTS_LIBINFERD_LIBINFERD_INTERNAL_H

#include "clients/inferd.h"
#include "ipc/channel.h"
#include "ipc/message.h"
#include "ipc/spin.h"
#include "runtime/base/alloc.h"
#include "runtime/base/list.h"
#include "runtime/platform/platform.h"

enum { INF_LIB_SPIN_NS = 50 * 1000 };

struct inferd {
	struct inf_channel channel;
	bool is_open;              /* the channel was made; it may be disconnected since */
	bool is_lost;              /* the daemon is gone: every call answers INFERD_DISCONNECTED */
	bool has_more;             /* packets wait to be sent: poll for writing too */
	int epoll_fd;              /* what inferd_get_fd returns: it watches the socket and event_fd */
	int event_fd;              /* readable while a completed request waits for its callback */
	bool is_raised;            /* event_fd is readable */
	uint64_t last_id;          /* of a request */
	uint32_t tensor_alignment; /* bytes; what the daemon asks for, at least 64 */
	struct inf_spin spin;
	struct inf_codec encoder, decoder;
	uint8_t *packet; /* INF_MAX_PACKET bytes */

	/* The call that inf_lib_call waits for. Its reply is valid until the next packet is received. */
	uint64_t awaited_id; /* 0: none */
	bool has_reply;
	struct inf_reply reply;
	int reply_fd; /* came with the reply; -1: none */

	struct et_list_node methods, regions, bindings; /* of this connection */
	struct et_list_node running;                    /* bindings with a request in flight */
	struct et_list_node completed;                  /* bindings whose callback is due */
	char error[INF_MAX_TEXT + 1];
};

/* The string of an output, if it is always the same one. */
struct inf_lib_text {
	const char *chars; /* NULL: the output has none */
	size_t n;
};

struct inferd_method {
	struct inferd *d;
	struct et_list_node node;
	unsigned n_refs; /* one of the caller, one of each binding */
	bool is_closed;  /* by the caller; bindings remain */
	uint64_t id;
	struct et_pool pool; /* the memory behind the pointers below */
	size_t n_inputs, n_outputs;
	struct inferd_tensor_info *inputs, *outputs;
	struct inf_lib_text *texts; /* of the outputs */
	const char *backend, *version;
	bool is_stateful;
};

struct inferd_region {
	struct inferd *d;
	struct et_list_node node;
	unsigned n_refs; /* one of the caller, one of each input or output bound to it */
	uint64_t id;
	struct et_platform_mapping mapping;
};

/* Shape and value of an output in the last request, as the daemon told them. */
struct inf_lib_output {
	size_t n_dims;
	int64_t shape[INFERD_MAX_DIMS];
	struct inf_scalar scalar;
};

/* The memory of an input or output. */
struct inf_lib_place {
	struct inferd_region *region; /* NULL: it has none */
	void *memory;
};

enum inf_lib_request_state {
	INF_LIB_IDLE,
	INF_LIB_RUNNING,   /* in d->running */
	INF_LIB_COMPLETED, /* in d->completed, or inferd_infer is about to return it */
};

struct inferd_binding {
	struct inferd_method *method;
	struct et_list_node node;
	struct et_pool pool; /* the arrays below */
	uint64_t id;
	size_t n_copied;
	struct inferd_region *own; /* the region that inferd_bind made; NULL: the regions are the caller's */
	struct inf_lib_place *inputs, *outputs;
	struct inf_slot *changes;           /* shape and scalar of each input for the next request */
	int64_t (*shapes)[INFERD_MAX_DIMS]; /* the shapes that changes points to */
	bool has_changes;                   /* send changes with each request */
	struct inf_lib_output *results;

	/* the request in flight, or the last one */
	enum inf_lib_request_state state;
	struct et_list_node request_node;
	uint64_t request_id;
	inferd_done_fn done; /* NULL: inferd_infer waits for the request */
	void *userdata;
	int status;
	struct inferd_timing timing;
	void *profile; /* heap; NULL: none */
	size_t n_profile;
	char error[INF_MAX_TEXT + 1];
};

/* Write the sentence of inferd_error. Returns @status negated. */
int inf_lib_fail(struct inferd *d, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Copy a caller's options, which may be of another version of the header, to @ret_options of @n_bytes. Members that the
 * caller's struct lacks become zero, and all do if @options is NULL. Every options struct begins with struct_size.
 * 0, or INFERD_INVALID_ARGUMENT (negated) if struct_size was not set. */
int inf_lib_take_options(struct inferd *d, void *ret_options, size_t n_bytes, const void *options);
/* Give @request a new id and send it. The descriptors stay the caller's. 0, or negative with the sentence written. */
int inf_lib_send(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds);
/* Send @request and wait for its reply. On success d->reply has @kind, and d->reply_fd is a descriptor that came
 * with it, or -1; the caller closes or keeps it. On failure: negative, with the sentence written. */
int inf_lib_call(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds, enum inf_reply_kind kind);
/* Send a request whose reply does not matter, such as a close. Errors are ignored, and inferd_error stays as it was. */
void inf_lib_tell(struct inferd *d, struct inf_request *request);
/* Receive one packet, and hand its reply to the waiting call or to its binding. Never blocks. 1: there was one; 0:
 * there was none; negative: disconnected. */
int inf_lib_receive(struct inferd *d);
/* The same, but sleep until a packet arrives or waiting packets can be sent. */
int inf_lib_wait(struct inferd *d);
/* Block until the socket can be read or written, or for @timeout_ms (-1: no limit). 0, or negative. */
int inf_lib_poll(struct inferd *d, int timeout_ms);
/* Make event_fd readable exactly while callbacks are due, so that the caller's event loop wakes up. */
void inf_lib_notice(struct inferd *d);

/* The kind of a scalar input or output. NONE for a tensor, and for a scalar without a value, such as an argument
 * that the program leaves out. */
enum inf_scalar_kind inf_lib_scalar_kind(const struct inferd_tensor_info *info);

/* Whether a tensor of @shape has the rank of @info and at most as many elements as its largest shape. A dynamic
 * tensor may be longer in one dimension where it is shorter in another. */
bool inf_lib_shape_fits(const struct inferd_tensor_info *info, const int64_t *shape, size_t n_dims);

/* End the binding's request: with the daemon's reply, or because the connection is lost. */
void inf_lib_binding_complete(struct inferd_binding *b, const struct inf_reply *reply);
void inf_lib_binding_disconnect(struct inferd_binding *b);
/* Free memory of the library alone; the daemon is not told. An unref frees with the last reference. */
void inf_lib_binding_free(struct inferd_binding *b);
void inf_lib_region_unref(struct inferd_region *r);
void inf_lib_method_unref(struct inferd_method *m);

#endif
