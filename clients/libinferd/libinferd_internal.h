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

/* ---- operations ---- */

enum inf_lib_op_kind {
	INF_LIB_CONNECT,     /* of a connection */
	INF_LIB_METHOD_OPEN, /* of a Method, as the next */
	INF_LIB_METHOD_RESET,
	INF_LIB_REGION_MAKE, /* of a region */
	INF_LIB_BIND,        /* of a binding, as the next */
	INF_LIB_REQUEST,
};
enum inf_lib_op_state {
	INF_LIB_IDLE,
	INF_LIB_RUNNING,   /* in d->running */
	INF_LIB_COMPLETED, /* in d->completed, or a blocking call is about to return it */
};

/* Something that the application waits for: it lies in its object. */
struct inf_lib_op {
	enum inf_lib_op_kind kind;
	enum inf_lib_op_state state;
	struct et_list_node node;
	uint64_t request_id;  /* of the message that was sent for it; 0: it waits to be sent */
	uint64_t deadline_ns; /* on the clock et_platform_now_ns; 0: none */
	/* Call the application's callback. NULL: a blocking call waits for the operation. */
	void (*deliver)(struct inf_lib_op *op);
	int status; /* 0 or negative */
	char error[INF_MAX_TEXT + 1];
};

/* What the daemon has of a Method, a region or a binding. */
enum inf_lib_remote_state {
	INF_LIB_ABSENT, /* it was never told, or the connection was lost: inf_lib_advance asks for it */
	INF_LIB_ASKED,
	INF_LIB_THERE,
	INF_LIB_FAILED, /* the daemon refused */
};
struct inf_lib_remote {
	enum inf_lib_remote_state state;
	uint64_t id;    /* THERE: the daemon's number for it */
	uint64_t asked; /* ASKED: the request that asked for it */
	int status;     /* FAILED: why, not negated */
	char error[INF_MAX_TEXT + 1];
};

/* ---- the objects ---- */

enum inf_lib_phase {
	INF_LIB_CONNECTING, /* without a socket: the next attempt is at retry_ns */
	INF_LIB_GREETING,   /* Hello was sent */
	INF_LIB_READY,
	INF_LIB_LEAVING, /* the daemon shuts down: it answers what runs, and is told nothing new */
	INF_LIB_LOST,    /* for good: every call answers INFERD_DISCONNECTED */
};

struct inferd {
	enum inf_lib_phase phase;
	struct inf_channel channel;
	bool has_channel;
	bool has_more;             /* packets wait to be sent: poll for writing too */
	int epoll_fd;              /* what inferd_get_fd returns: it watches the socket, event_fd and timer_fd */
	int event_fd;              /* readable while a callback is due, and once the connection is lost for good */
	bool is_raised;            /* event_fd is readable */
	int timer_fd;              /* readable when a deadline or the time of the next attempt has come */
	uint64_t armed_ns;         /* when timer_fd becomes readable; 0: never */
	uint64_t last_id;          /* of a request */
	uint64_t hello_id;         /* of the Hello in flight */
	uint32_t tensor_alignment; /* bytes; what the daemon asks for, at least 64 */
	struct inf_spin spin;
	struct inf_codec encoder, decoder;
	uint8_t *packet; /* INF_MAX_PACKET bytes */

	/* How the connection was asked for. */
	char *path, *client_name;
	uint32_t weight, reconnect_ms;
	uint64_t timeout_us; /* of opening it, and of calls that take no timeout of their own */
	struct inf_lib_op opening;
	inferd_opened_fn opened;
	bool (*interrupted)(void *userdata);
	void *userdata;

	/* connecting again (reconnect.c) */
	bool is_again;     /* a daemon has taken the connection before, and reconnect_ms is set */
	bool has_presence; /* the last daemon held its presence lock */
	uint64_t ready_ns; /* since when the connection is READY; 0: it never was */
	unsigned n_brief;  /* connections in a row that did not last, since a request succeeded */
	uint64_t away_ns;  /* since when there is no daemon */
	uint64_t retry_ns; /* CONNECTING: the next attempt */

	struct et_list_node methods, bindings; /* of this connection */
	struct et_list_node regions;           /* also those that the application has freed and a binding uses */
	struct et_list_node running;           /* operations under way */
	struct et_list_node completed;         /* operations whose callback is due */
	struct et_list_node orphans;           /* of struct inf_lib_orphan */
	size_t n_timed;                        /* running operations with a deadline */
	char error[INF_MAX_TEXT + 1];
};

/* An object that the application freed before the daemon had made it: its reply is answered with @close. */
struct inf_lib_orphan {
	struct et_list_node node;
	uint64_t asked;
	enum inf_request_kind close;
};

/* The string of an output, if it is always the same one. */
struct inf_lib_text {
	const char *chars; /* NULL: the output has none */
	size_t n;
};

/* What the daemon said of a Method when it was opened. */
struct inf_lib_signature {
	struct et_pool pool; /* the memory behind the pointers below */
	size_t n_inputs, n_outputs;
	struct inferd_tensor_info *inputs, *outputs;
	struct inf_lib_text *texts; /* of the outputs */
	const char *backend, *version;
	bool is_stateful;
};

/* A program as it was asked for, and the state that its Methods share: one Method, and those that were opened to share
 * with it. */
struct inf_lib_program {
	unsigned n_refs;
	char *model, *version, *backend; /* NULL: not given */
	bool from_fd;
	int fds[INF_MAX_PACKET_FDS]; /* copies; kept until the first Method is open, with reconnect_ms longer */
	size_t n_fds;
	bool has_state;        /* the daemon's state differs from the initial one, as far as is known */
	unsigned n_unanswered; /* bindings that are so: what the state is depends on the daemon's answer */
	bool is_lost;          /* the state was lost: each request answers INFERD_STATE_LOST until the reset */
};

struct inferd_method {
	struct inferd *d;
	struct et_list_node node;
	unsigned n_refs; /* one of the caller, one of each binding */
	bool is_closed;  /* by the caller; bindings remain */
	bool is_open;    /* the signature is there */
	bool is_changed; /* the model came back with another signature */
	struct inf_lib_remote remote;
	struct inf_lib_op op; /* open or reset */
	inferd_method_opened_fn opened;
	void *userdata;
	struct inf_lib_program *program;
	bool shares;                              /* it was opened with share_with */
	char *model, *version, *method, *backend; /* as they were asked for; NULL: not given */
	struct inf_lib_signature is;
};

struct inferd_region {
	struct inferd *d;
	struct et_list_node node;
	unsigned n_refs; /* one of the caller, one of each input or output bound to it */
	bool is_freed;   /* by the caller; bindings remain */
	struct inf_lib_remote remote;
	struct inf_lib_op op;
	int fd; /* kept for the next daemon, if there may be one; -1: the daemon makes the memory */
	size_t n_bytes;
	uint64_t device, inode; /* of the file: two regions may be the same memory */
	struct et_platform_mapping mapping;
};

/* Shape and value of an output in the last request, as the daemon told them. */
struct inf_lib_output {
	size_t n_dims;
	int64_t shape[INFERD_MAX_DIMS];
	struct inf_scalar scalar;
};

/* The place of an input or output. */
struct inf_lib_place {
	struct inferd_region *region; /* NULL: it has none */
	size_t offset, n_bytes;
};

struct inferd_binding {
	struct inferd_method *method;
	struct et_list_node node;
	struct et_pool pool; /* the arrays below */
	struct inf_lib_remote remote;
	size_t n_copied;
	struct inferd_region *own; /* the region that inferd_bind made; NULL: the regions are the caller's */
	struct inf_lib_place *inputs, *outputs;
	struct inf_slot *slots;             /* inputs, then outputs: room for the message that binds */
	struct inf_slot *changes;           /* shape and scalar of each input for the next request */
	int64_t (*shapes)[INFERD_MAX_DIMS]; /* the shapes that changes points to */
	bool has_changes;                   /* send changes with each request */
	struct inf_slot *sent;              /* changes and shapes of the request in flight, which may be sent again */
	int64_t (*sent_shapes)[INFERD_MAX_DIMS];
	bool is_in_place; /* an output lies on an input: a request changes its own inputs */
	struct inf_lib_output *results;

	inferd_bound_fn bound;
	void *bound_userdata;

	/* the request in flight, or the last one */
	bool is_bound; /* op is a request's; false: op binds */
	struct inf_lib_op op;
	uint64_t late_id;   /* a request that ended here, and whose memory the daemon may still use; 0: none */
	bool is_unanswered; /* the daemon has not said how that one ended */
	bool is_cancelled;  /* the application has cancelled it */
	unsigned n_sends;   /* how often it was sent */
	struct inferd_request_options options;
	inferd_done_fn done;
	void *userdata;
	struct inferd_timing timing;
	void *profile; /* heap; NULL: none */
	size_t n_profile;
};

/* ---- connection.c ---- */

/* Write the sentence of inferd_error. Returns @status negated. */
int inf_lib_fail(struct inferd *d, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Copy a caller's options, which may be of another version of the header, to @ret_options of @n_bytes. Members that the
 * caller's struct lacks become zero, and all do if @options is NULL. Every options struct begins with struct_size.
 * 0, or INFERD_INVALID_ARGUMENT (negated) if struct_size was not set. */
int inf_lib_take_options(struct inferd *d, void *ret_options, size_t n_bytes, const void *options);
/* Connect to d->path and send Hello. 0, or negative with the sentence written. -INFERD_BUSY: not now, the daemon's
 * backlog is full. */
int inf_lib_greet(struct inferd *d);
/* The reply to Hello, or the daemon's refusal of the connection, has come. */
void inf_lib_greeted(struct inferd *d, const struct inf_reply *reply);
/* Copy a string of the caller; NULL stays NULL. False: memory ran out. */
bool inf_lib_copy(char **ret, const char *text);

/* ---- wire.c ---- */

/* Give @request a new id and send it. The descriptors stay the caller's. 0, or negative with the sentence written. If
 * the connection was lost, everything that follows from it has happened. */
int inf_lib_lost(struct inferd *d); /* that every call answers now */
int inf_lib_send(struct inferd *d, struct inf_request *request, const int *fds, size_t n_fds);
/* Send a request whose reply does not matter, such as a close. Errors are ignored, and inferd_error stays as it was. */
void inf_lib_tell(struct inferd *d, struct inf_request *request);
/* Tell the daemon to free what it may have of an object: @close names the message. */
void inf_lib_tell_freed(struct inferd *d, const struct inf_lib_remote *remote, enum inf_request_kind close);
/* Send the packets that wait. */
void inf_lib_flush(struct inferd *d);
/* Receive one packet, and hand its reply to whom it belongs. Never blocks. 1: there was one; 0: there was none;
 * negative: there is no connection. */
int inf_lib_receive(struct inferd *d);
/* Sleep until a packet arrives, waiting packets can be sent, or a deadline has come, and handle that. */
void inf_lib_wait(struct inferd *d);
/* Block until the socket can be read or written, a deadline has come, or for @timeout_ms (-1: no limit). */
void inf_lib_poll(struct inferd *d, int timeout_ms);

/* ---- operation.c ---- */

void inf_lib_op_init(struct inf_lib_op *op, enum inf_lib_op_kind kind);
/* Begin: RUNNING, not sent. @timeout_us 0: without a deadline. @deliver: as in the struct. */
void inf_lib_op_begin(struct inferd *d, struct inf_lib_op *op, uint64_t timeout_us,
	void (*deliver)(struct inf_lib_op *op));
/* End a RUNNING one. @status is 0 or negative. */
void inf_lib_op_end(struct inferd *d, struct inf_lib_op *op, int status, const char *error);
/* The object goes: it is in no list any more, and its callback does not come. */
void inf_lib_op_drop(struct inferd *d, struct inf_lib_op *op);
/* Block until it has ended. 0, or negative with the sentence written. */
int inf_lib_op_wait(struct inferd *d, struct inf_lib_op *op);
/* End the operations whose deadline has passed, and try to connect again when that is due. */
void inf_lib_tick(struct inferd *d);
/* Whether anything is to happen at a certain time. */
static inline bool inf_lib_is_timed(const struct inferd *d)
{
	return d->n_timed || d->phase == INF_LIB_CONNECTING || (d->phase == INF_LIB_GREETING && d->is_again);
}
/* Before the library returns to the application: make event_fd readable exactly while callbacks are due, and set
 * timer_fd, so that the caller's event loop wakes up. */
void inf_lib_settle(struct inferd *d);
/* Set timer_fd alone. */
void inf_lib_arm(struct inferd *d);

/* ---- reconnect.c ---- */

/* The connection has ended. Connect again if the application wants that, else end everything. */
void inf_lib_lose(struct inferd *d, const char *why);
/* End everything with @status (not negated), for good. */
void inf_lib_give_up(struct inferd *d, int status, const char *why);
/* Try again after a while. */
void inf_lib_try_later(struct inferd *d);
/* CONNECTING: the time of the next attempt has come. */
void inf_lib_try(struct inferd *d);
/* When the library gives up. Only while inf_lib_is_timed and is_again. */
uint64_t inf_lib_give_up_ns(const struct inferd *d);
/* The daemon shuts down and has refused something: wait for the next one. False: the application does not want that. */
bool inf_lib_leave(struct inferd *d, const struct inf_reply *reply);

/* ---- restore.c ---- */

/* Ask the daemon for everything that it does not have yet and that it can be asked for now. */
void inf_lib_advance(struct inferd *d);
/* Hand a reply that belongs to no request to the object that asked for it. @fd came with it, or -1; it stays the
 * caller's. */
void inf_lib_answered(struct inferd *d, const struct inf_reply *reply, int fd);
/* Forget what the lost daemon had; nothing is told to it. */
void inf_lib_forget(struct inferd *d);
/* Mark @remote refused, with the daemon's reply or another sentence. */
void inf_lib_refused(struct inf_lib_remote *remote, const struct inf_reply *reply, enum inf_reply_kind kind);
/* Let the daemon be asked again for what it refused of @m, or of @b and all below it. */
void inf_lib_method_retry(struct inferd_method *m);
void inf_lib_binding_retry(struct inferd_binding *b);

/* ---- the objects' files ---- */

/* The kind of a scalar input or output. NONE for a tensor, and for a scalar without a value, such as an argument
 * that the program leaves out. */
enum inf_scalar_kind inf_lib_scalar_kind(const struct inferd_tensor_info *info);
/* Whether a tensor of @shape has the rank of @info and at most as many elements as its largest shape. A dynamic
 * tensor may be longer in one dimension where it is shorter in another. */
bool inf_lib_shape_fits(const struct inferd_tensor_info *info, const int64_t *shape, size_t n_dims);

/* signature.c: copy what the daemon says. False: memory ran out, and nothing is kept. */
bool inf_lib_signature_init(struct inf_lib_signature *signature, const struct inf_method_opened *opened);
void inf_lib_signature_deinit(struct inf_lib_signature *signature);
/* Whether a Method with signature @is can do what one with @was did. Otherwise @ret_what names the first difference. */
bool inf_lib_signature_equals(const struct inf_lib_signature *was, const struct inf_lib_signature *is, char *ret_what,
	size_t room);
/* Take over the names of backend and version. */
void inf_lib_signature_rename(struct inf_lib_signature *was, const struct inf_lib_signature *is);

/* Send the message that makes the object. It is ABSENT, and all that it needs is THERE. */
void inf_lib_method_ask(struct inferd_method *m);
void inf_lib_region_ask(struct inferd_region *r);
void inf_lib_binding_ask(struct inferd_binding *b);
void inf_lib_request_ask(struct inferd_binding *b);
void inf_lib_reset_ask(struct inferd_method *m);
/* Their replies. */
void inf_lib_method_answered(struct inferd_method *m, const struct inf_reply *reply);
void inf_lib_region_answered(struct inferd_region *r, const struct inf_reply *reply, int fd);
void inf_lib_binding_answered(struct inferd_binding *b, const struct inf_reply *reply);
void inf_lib_request_answered(struct inferd_binding *b, const struct inf_reply *reply);
void inf_lib_reset_answered(struct inferd_method *m, const struct inf_reply *reply);
/* Whether the daemon can be asked now. A binding waits until its memory is free, and a state for each request that
 * ended here before its answer came. */
bool inf_lib_request_may_go(const struct inferd_binding *b);
/* The binding's late request is over for the daemon, too, or nothing more is heard of it. */
void inf_lib_request_settle(struct inferd_binding *b);
/* The daemon said something of the binding's late request. */
void inf_lib_request_late(struct inferd_binding *b, const struct inf_reply *reply);
/* The deadline of the binding's request has passed. */
void inf_lib_request_expire(struct inferd_binding *b);
/* The connection is lost: the request waits for the next daemon, or ends. */
void inf_lib_request_disconnect(struct inferd_binding *b);

/* Free memory of the library alone; the daemon is not told. An unref frees with the last reference. */
void inf_lib_binding_free(struct inferd_binding *b);
void inf_lib_region_unref(struct inferd_region *r);
/* A region that the daemon is to make when inf_lib_advance asks it. NULL, with the sentence written: no memory. */
struct inferd_region *inf_lib_region_new(struct inferd *d, size_t n_bytes);
void inf_lib_method_unref(struct inferd_method *m);

#endif
