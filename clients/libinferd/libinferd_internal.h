/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of libinferd know of each other. Not installed. */
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
	bool is_open;  /* the channel was made; it may be disconnected since */
	bool is_lost;  /* the daemon is gone: everything answers INFERD_DISCONNECTED */
	bool has_more; /* packets wait to be sent: poll for writing too */
	int epoll_fd;  /* what inferd_get_fd gives: the socket and event_fd */
	int event_fd;  /* readable while a completion waits for its callback */
	bool is_raised;
	uint64_t last_id;
	uint32_t tensor_alignment;
	struct inf_spin spin;
	struct inf_codec encoder, decoder;
	uint8_t *packet; /* INF_MAX_PACKET bytes */

	/* The one call that is being waited for: its reply, once there, is valid until the next is received. */
	uint64_t awaited_id;
	bool has_reply;
	struct inf_reply reply;
	int reply_fd;

	struct et_list_node methods, regions, bindings; /* all there are */
	struct et_list_node running;                    /* bindings with a request in flight */
	struct et_list_node completed;                  /* bindings whose callback is due */
	char error[INF_MAX_TEXT + 1];
};

/* The string that an output is. */
struct inf_lib_text {
	const char *chars; /* NULL: none */
	size_t n;
};

struct inferd_method {
	struct inferd *d;
	struct et_list_node node;
	unsigned n_refs; /* the caller's, and its bindings' */
	bool is_closed;
	uint64_t id;
	struct et_pool pool; /* what the infos point to */
	size_t n_inputs, n_outputs;
	struct inferd_tensor_info *inputs, *outputs;
	struct inf_lib_text *texts; /* of the outputs */
	const char *backend, *version;
	bool is_stateful;
};

struct inferd_region {
	struct inferd *d;
	struct et_list_node node;
	unsigned n_refs; /* the caller's, and its bindings' */
	uint64_t id;
	struct et_platform_mapping mapping;
};

/* What the daemon said of an output in the last request. */
struct inf_lib_output {
	size_t n_dims;
	int64_t shape[INFERD_MAX_DIMS];
	struct inf_scalar scalar;
};

/* Where an input or output lies. */
struct inf_lib_place {
	struct inferd_region *region; /* NULL: nowhere */
	void *memory;
};

enum inf_lib_request_state {
	INF_LIB_IDLE,
	INF_LIB_RUNNING,   /* in d->running */
	INF_LIB_COMPLETED, /* in d->completed, or about to be looked at by inferd_infer */
};

struct inferd_binding {
	struct inferd_method *method;
	struct et_list_node node;
	struct et_pool pool; /* the arrays below */
	uint64_t id;
	size_t n_copied;
	struct inferd_region *own; /* made by inferd_bind; NULL: the regions are the caller's */
	struct inf_lib_place *inputs, *outputs;
	struct inf_slot *changes; /* an input's shape and scalar for the next request */
	int64_t (*shapes)[INFERD_MAX_DIMS];
	bool has_changes; /* they must be sent */
	struct inf_lib_output *results;

	/* the request */
	enum inf_lib_request_state state;
	struct et_list_node request_node;
	uint64_t request_id;
	inferd_done_fn done; /* NULL: inferd_infer waits for it */
	void *userdata;
	int status;
	struct inferd_timing timing;
	void *profile; /* heap; NULL: none */
	size_t n_profile;
	char error[INF_MAX_TEXT + 1];
};

/* Note why a call fails, and return @status negated. */
int inf_lib_fail(struct inferd *d, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Options as this library knows them, from a caller's struct that may be of another version of the header: what it lacks
 * is zero. All of them begin with their struct_size. NULL: none. 0, or negative where struct_size was left out. */
int inf_lib_take_options(struct inferd *d, void *ret_options, size_t n_bytes, const void *options);
/* A fresh id into request->id, and off it goes. 0, or negative with the sentence noted. */
int inf_lib_send(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds);
/* Send and wait for the answer. On success d->reply is the reply, of @kind; with it may have come d->reply_fd, which
 * is the caller's to take (set it to -1). */
int inf_lib_call(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds, enum inf_reply_kind kind);
/* Send what needs no answer; an error there does not matter. */
void inf_lib_tell(struct inferd *d, struct inf_request *request);
/* Receive and sort one packet. 1: there was one; 0: nothing there; negative: disconnected. */
int inf_lib_receive(struct inferd *d);
/* The same, but sleep until something came, or more can be sent. 1, 0 or negative as above. */
int inf_lib_wait(struct inferd *d);
/* Block until the socket can be read, or for @timeout_ms. 0, or negative. */
int inf_lib_poll(struct inferd *d, int timeout_ms);
/* Completions may have come or gone: have the caller's event loop know. */
void inf_lib_notice(struct inferd *d);

/* The kind of number that this is; NONE for a tensor and for what has no value to pass, as an argument that the program
 * leaves out. */
enum inf_scalar_kind inf_lib_scalar_kind(const struct inferd_tensor_info *info);

/* Whether a tensor of these sizes fits where one at its largest does: a dynamic tensor may trade one dimension for
 * another. */
bool inf_lib_shape_fits(const struct inferd_tensor_info *info, const int64_t *shape, size_t n_dims);

/* What arrived for a binding's request. */
void inf_lib_binding_complete(struct inferd_binding *b, const struct inf_reply *reply);
void inf_lib_binding_disconnect(struct inferd_binding *b);
void inf_lib_binding_free(struct inferd_binding *b);
void inf_lib_region_unref(struct inferd_region *r);
void inf_lib_method_unref(struct inferd_method *m);

#endif
