/* SPDX-License-Identifier: BSD-3-Clause */
/* libinferd: run ExecuTorch models through the inference daemon inferd, from a C program.
 *
 *     struct inferd *d = NULL;
 *     struct inferd_method *m = NULL;
 *     struct inferd_binding *b = NULL;
 *     if (inferd_open(&d, NULL) < 0 || inferd_method_open(d, &m, "efficientnet_lite0", NULL) < 0 ||
 *         inferd_bind(m, &b) < 0)
 *             errx(1, "%s", inferd_error(d));
 *     float *in = inferd_input(b, 0), *out = inferd_output(b, 0);
 *     ... write the input to in ...
 *     if (inferd_infer(b, NULL) < 0)
 *             errx(1, "%s", inferd_error(d));
 *     ... read the output from out; change the input and infer again ...
 *     inferd_close(d);
 *
 * Four objects:
 *     struct inferd           a connection to the daemon
 *     struct inferd_method    one opened method of a model, with its own state if the model is stateful
 *     struct inferd_region    memory shared with the daemon
 *     struct inferd_binding   the memory of a Method's inputs and outputs; requests run on a binding
 *
 * Memory: inputs and outputs lie in memory shared with the daemon. The library never copies a tensor.
 *
 * Ownership: a connection owns its Methods, regions and bindings. inferd_close frees all of them; freeing one earlier
 * is fine. Functions that close or free something accept NULL. Pointers that a function returns are borrowed.
 *
 * Threads: use a connection and everything on it from one thread at a time. A program may have any number of
 * connections.
 *
 * Blocking: inferd_infer and inferd_wait block until the daemon answers, and so does each call that opens, makes,
 * imports, binds or resets something. All others return at once. A timeout limits how long a call blocks, also if the
 * daemon does not answer at all; it may be exceeded by 10 ms. For an event loop, calls that open or bind return at once
 * if their options have a callback.
 *
 * Answers: functions that return int return 0 or more on success. On failure they return a negated enum inferd_status,
 * inferd_error has a sentence for people, and *ret keeps its old value (except for inferd_open and inferd_open_with).
 *
 * Options: NULL means the defaults. A caller that passes options sets struct_size to the sizeof of the struct, so that
 * later versions of the library can add members; members that are zero have their defaults. */
#ifndef INFERD_H
#define INFERD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INFERD_API __attribute__((visibility("default")))

/* Functions return these negated. libinferd(3) says for each what helps. */
enum inferd_status {
	INFERD_OK = 0,
	INFERD_CANCELLED = 1,           /* by inferd_cancel, or its Method or binding was closed */
	INFERD_UNKNOWN = 2,             /* the daemon gives no better reason */
	INFERD_INVALID_ARGUMENT = 3,    /* a wrong tensor, shape, offset, name or option */
	INFERD_NOT_FOUND = 5,           /* no such model, version or method */
	INFERD_PERMISSION_DENIED = 7,   /* the socket or inferd.conf does not allow it to this user */
	INFERD_RESOURCE_EXHAUSTED = 8,  /* a limit of inferd.conf is reached, or memory ran out */
	INFERD_FAILED_PRECONDITION = 9, /* the model cannot be loaded, memory cannot be shared, a Method is closed */
	INFERD_UNIMPLEMENTED = 12,      /* the model needs an operator or a backend that the daemon lacks */
	INFERD_INTERNAL = 13,           /* a run failed, or the library and the daemon disagree */
	INFERD_UNAVAILABLE = 14,        /* the daemon shuts down, or the model was unloaded: open the Method again */
	INFERD_BUSY = 32,               /* the binding has a request in flight, or the Method is being reset */
	INFERD_MISSED_DEADLINE = 33,    /* the request's timeout passed before it ended */
	INFERD_STATE_LOST = 34,         /* a request was cut short, or the daemon restarted: reset the Method */
	INFERD_BACKEND_CRASHED = 35,    /* the process of the backend died; the daemon starts it again */
	INFERD_DISCONNECTED = 64,       /* the daemon does not run, or closed the connection: open another one */
};
/* The name of @status, which may be negated: "invalid argument". Never NULL. Any thread. */
INFERD_API const char *inferd_status_text(int status);

struct inferd;
struct inferd_method;
struct inferd_region;
struct inferd_binding;

/* ---- connection ---- */

/* Connect to the daemon. @socket is a path; NULL means $INFERD_SOCKET, else /run/inferd/inferd.sock.
 * On failure *ret is set, too, so that inferd_error(*ret) can say why; then close it with inferd_close. If memory ran
 * out, *ret is NULL.
 * Answers: INFERD_DISCONNECTED (no daemon listens there), INFERD_PERMISSION_DENIED, INFERD_RESOURCE_EXHAUSTED,
 * INFERD_FAILED_PRECONDITION (the daemon and the library have no version of the protocol in common). */
INFERD_API int inferd_open(struct inferd **ret, const char *socket);
/* The callback may free objects, but not close the connection, as with inferd_done_fn below. */
typedef void (*inferd_opened_fn)(struct inferd *d, int status, void *userdata);
struct inferd_open_options {
	size_t struct_size;      /* sizeof(struct inferd_open_options) */
	const char *socket;      /* as for inferd_open */
	const char *client_name; /* what `inferctl status` shows; NULL: the program's name */
	/* The share of each queue that this connection gets beside other connections of the same user. 0 means the
	 * user's whole weight in inferd.conf, and larger values count as that weight. Only a user whose weight is
	 * above 1 can give one connection less than another. */
	uint32_t weight;
	/* For how long, in milliseconds, the library tries to connect again when the connection is lost. 0: it does
	 * not. See "when the daemon restarts" below. */
	uint32_t reconnect_ms;
	/* For the whole call; 0: none. INFERD_MISSED_DEADLINE when it has passed. It is also the timeout of each later
	 * call that takes no other one: inferd_method_reset, inferd_region_new, inferd_region_import. */
	uint64_t timeout_us;
	/* NULL: the call blocks. Otherwise it returns at once, 0 with *ret set, and inferd_dispatch or inferd_wait
	 * calls @opened when the daemon has answered: @status is 0, or negative as of inferd_open. Until then only
	 * inferd_get_fd, inferd_dispatch, inferd_wait and inferd_close may be called. */
	inferd_opened_fn opened;
	void *userdata;
	/* A signal has interrupted a call of this connection that blocks, so that the handlers of a language's run
	 * time can run. True: the call ends as if its timeout had passed. It is called on the call's thread with
	 * @userdata, now and then also without a signal, and must not use the connection. A signal that comes just
	 * before the call sleeps is not noticed. NULL: signals end no call. */
	bool (*interrupted)(void *userdata);
};
/* The same as inferd_open, with options. */
INFERD_API int inferd_open_with(struct inferd **ret, const struct inferd_open_options *options);
/* Close the connection and free everything on it. Requests in flight end without a callback. Do not call it from inside
 * a callback. */
INFERD_API void inferd_close(struct inferd *d);
/* Why the last failed call on this connection failed: one sentence for people. Never NULL; valid until the next call on
 * the connection. @d may be NULL, which is what inferd_open leaves when memory runs out. */
INFERD_API const char *inferd_error(const struct inferd *d);

/* When the daemon restarts. With reconnect_ms the library connects again by itself: when the daemon was restarted, was
 * killed or has crashed. It restores Methods (as they were asked for), regions, bindings, shapes and numbers. All
 * pointers stay valid, and inferd_get_fd stays the same descriptor. Meanwhile calls block, or wait if they have a
 * callback, within their timeouts.
 *
 * A request that waited or ran is sent again if its Method has no state and no output lies on an input: the application
 * only sees that it took longer. Any other request ends with INFERD_DISCONNECTED. A stateful Method that had run
 * answers INFERD_STATE_LOST until inferd_method_reset. If the version that serves now has other inputs or
 * outputs, requests on its Methods end with INFERD_FAILED_PRECONDITION: open the Method again. If a Method cannot be
 * restored for another reason (the model is gone, a limit is lower), requests end with that status, and each next
 * request tries again.
 *
 * After reconnect_ms without a daemon everything ends with INFERD_DISCONNECTED, for good. The time begins when the
 * library notices the loss, which is when the application calls it. If no daemon listens when the connection is opened,
 * that fails at once; if one listens and ends before it has answered, or says that it shuts down, the library tries
 * again, for reconnect_ms and no longer than timeout_us.
 *
 * Connecting to a socket of systemd starts the daemon. Connecting again does not: the library waits until a daemon
 * runs, so it does not start one that an administrator has stopped. Other programs may, as long as systemd listens.
 * To stop the daemon for good:
 *     systemctl disable --now inferd.socket inferd-manager.socket inferd.service */

/* ---- Methods ---- */

typedef void (*inferd_method_opened_fn)(struct inferd_method *m, int status, void *userdata);
struct inferd_method_options {
	size_t struct_size;  /* sizeof(struct inferd_method_options) */
	const char *version; /* of the model; NULL: the one that serves. NULL for inferd_method_open_fd */
	const char *method;  /* of the program; NULL: the only one, or "forward" */
	/* Backends in the order in which they are wanted, "npu, xnnpack": names, ids, or kinds of device; the first one
	 * that the model has a variant for is used. NULL: the first one in the daemon's order that works. */
	const char *backend;
	/* For inferd_method_open_fd: file descriptors of the program's data files (`.ptd`, at most 15), in the order
	 * in which they are searched for a tensor's name. They stay the caller's. The daemon finds the data files of
	 * its own models by itself. */
	const int *data_fds;
	size_t n_data_fds;
	/* For inferd_method_open: another Method of the same connection, also one of inferd_method_open_fd. The new
	 * Method is one of the same program, from the same file, and both work on the same state: the buffers that
	 * ExecuTorch exported with `share_mutable_buffers`. A prefill and a decode step share their caches like this.
	 * @model may then be NULL. */
	const struct inferd_method *share_with;
	uint64_t timeout_us; /* for the whole call; 0: none. INFERD_MISSED_DEADLINE when it has passed */
	/* NULL: the call blocks. Otherwise it returns at once, 0 with *ret set, and inferd_dispatch or inferd_wait
	 * calls @opened when the daemon has answered: @status is 0, or negative as of inferd_method_open. Until then
	 * only inferd_method_close may be called for the Method; after a failure, that is what frees it. */
	inferd_method_opened_fn opened;
	void *userdata;
};

/* Open a method of @model, which the daemon serves from its repository. The daemon loads the model now if no other
 * client uses it. The state of a stateful model belongs to this Method alone, unless options->share_with is set.
 *
 * Methods that share state: their requests run one at a time, in the order in which they were started. A request
 * that is cut short may lose the state for all of them (INFERD_STATE_LOST). They may be closed in any order. They
 * stay with their backend when it is given up.
 *
 * Answers: INFERD_NOT_FOUND, INFERD_UNIMPLEMENTED (an operator or a backend is missing), INFERD_RESOURCE_EXHAUSTED,
 * INFERD_FAILED_PRECONDITION (the model cannot be loaded, or share_with has no state to share). */
INFERD_API int inferd_method_open(struct inferd *d, struct inferd_method **ret, const char *model,
	const struct inferd_method_options *options);
/* Open a method of a program that the client brings along. @fd is a `.pte` or `.bpte`: a regular file or a memfd,
 * open for reading. It stays the caller's and may be closed after this call; the file position is neither used nor
 * moved. The daemon works on a private copy. Clients that pass the same unchanged file share the copy, which goes
 * when the last of their Methods is closed. @name is shown by `inferctl status` and in messages; it may be NULL. */
INFERD_API int inferd_method_open_fd(struct inferd *d, struct inferd_method **ret, int fd, const char *name,
	const struct inferd_method_options *options);
/* Close the Method. Requests in flight on its bindings end with INFERD_CANCELLED. Its bindings stay until inferd_unbind
 * or inferd_close, and accept no request any more. */
INFERD_API void inferd_method_close(struct inferd_method *m);
/* Put the state back to its initial values, for a new sequence. State that is shared is reset for all Methods that
 * share it. INFERD_BUSY if a request of this Method, or of one that shares its state, is in flight, or goes on after
 * its timeout. After INFERD_MISSED_DEADLINE the state may be reset or not; call it again, also while
 * that ends with INFERD_BUSY because the first reset still goes on. */
INFERD_API int inferd_method_reset(struct inferd_method *m);

enum { INFERD_MAX_DIMS = 16 };

struct inferd_tensor_info {
	const char *name; /* of model.conf, else "input_0", "output_1" */
	/* A tensor: "FP32", "FP16", "BF16", "INT8", "INT64", "BOOL", ...
	 * A scalar (is_scalar): "INT", "DOUBLE" or "BOOL"; "None" for an input that the program leaves out (there is
	 * nothing to set) and for an output without a value; "String" for an output that is a string
	 * (inferd_output_text). */
	const char *datatype;
	size_t n_dims;
	int64_t shape[INFERD_MAX_DIMS]; /* in elements; the upper bounds if is_dynamic */
	/* Dimensions from outermost to innermost: 0,1,2,3 is contiguous (NCHW), 0,2,3,1 is channels-last (NHWC). */
	uint8_t dim_order[INFERD_MAX_DIMS];
	size_t n_bytes;  /* of the tensor at its largest */
	bool is_dynamic; /* its shape may differ from request to request */
	bool is_scalar;  /* a number and no tensor: it has no memory; see inferd_set_scalar and inferd_output_scalar */
	/* The rest is what the model's author says in model.conf(5), or nothing. Later versions of the library may add
	 * members; the library makes these structs. */
	const char *const *labels; /* of an output: what the elements of its last dimension stand for */
	size_t n_labels;           /* 0: none are known */
	/* How an image becomes this input. An element is pixel * scale[c] + offset[c], where pixel is 0 ... 255 and c
	 * its channel in the order of @colour. */
	const char *layout; /* "NCHW", "NHWC", "CHW" or "HWC": the dimensions of @shape; NULL: not known to be one */
	const char *colour; /* "RGB", "BGR" or "GRAY"; NULL with @layout */
	size_t n_channels;  /* of scale and offset; 0 without @layout */
	double scale[4], offset[4];
};
INFERD_API size_t inferd_n_inputs(const struct inferd_method *m);
INFERD_API size_t inferd_n_outputs(const struct inferd_method *m);
/* NULL if there is no such input or output. Valid as long as the Method. */
INFERD_API const struct inferd_tensor_info *inferd_input_info(const struct inferd_method *m, size_t index);
INFERD_API const struct inferd_tensor_info *inferd_output_info(const struct inferd_method *m, size_t index);
/* The string that output @index always has, for instance of a method that returns a name. A NUL follows its last byte;
 * the string may hold NULs, so use *ret_n_bytes. Valid as long as the Method.
 * NULL (and 0) if the output is no string, if it may be another string each time, or if the strings of the Method are
 * longer than 256 KiB together. */
INFERD_API const char *inferd_output_text(const struct inferd_method *m, size_t index, size_t *ret_n_bytes);
/* Whether the Method keeps state between requests (a KV cache, for instance), which inferd_method_reset resets. */
INFERD_API bool inferd_method_is_stateful(const struct inferd_method *m);
/* The backend and the version that the Method was opened with. When a backend is given up after too many crashes, the
 * model's Methods go on with another variant, and this name does not change; a Method that was opened with
 * options->backend or shares state stays with its backend. */
INFERD_API const char *inferd_method_backend(const struct inferd_method *m);
INFERD_API const char *inferd_method_version(const struct inferd_method *m);

/* ---- regions ---- */

/* Make a region: the daemon allocates @n_bytes of shared memory and charges them to the user. */
INFERD_API int inferd_region_new(struct inferd *d, struct inferd_region **ret, size_t n_bytes);
/* Share memory of your own with the daemon. @fd stays the caller's and may be closed after this call. It is one of
 *     a memfd with the seals F_SEAL_SHRINK and F_SEAL_GROW, so that nobody can take pages away;
 *     a dma-buf that the CPU may map, such as the buffer of a camera. Around each request the daemon synchronizes CPU
 *     caches and waits until the device is done: up to 100 ms, and no longer than the request's timeout. So start the
 *     request when the device is nearly done.
 * Answers: INFERD_FAILED_PRECONDITION (a seal is missing, or the dma-buf cannot be mapped), INFERD_INVALID_ARGUMENT
 * (the file is smaller than @n_bytes), INFERD_RESOURCE_EXHAUSTED. */
INFERD_API int inferd_region_import(struct inferd *d, struct inferd_region **ret, int fd, size_t n_bytes);
/* The address where the region is mapped, and its size in bytes. The address is page-aligned and valid until
 * inferd_region_free; a binding over the region keeps it mapped longer. */
INFERD_API void *inferd_region_data(const struct inferd_region *r);
INFERD_API size_t inferd_region_size(const struct inferd_region *r);
/* Free the region. Its memory stays until the last binding over it is gone. */
INFERD_API void inferd_region_free(struct inferd_region *r);

/* ---- bindings ---- */

/* Bind all inputs and outputs to one new region that belongs to the binding and starts as zeros. This is what most
 * programs want; inferd_input and inferd_output say where the tensors lie. */
INFERD_API int inferd_bind(struct inferd_method *m, struct inferd_binding **ret);

struct inferd_slot {
	struct inferd_region *region; /* NULL: a scalar, or an output that the program does not want */
	size_t offset;                /* of the tensor in the region, in bytes; a multiple of 64 */
	size_t n_bytes;               /* room for the tensor; 0: info->n_bytes, which is also the least */
};
/* Bind to regions that the caller has made or imported. @inputs and @outputs have as many entries as the Method has
 * inputs and outputs; the arrays are not kept. Several bindings may use the same region.
 * An output may overlap inputs and other outputs. The daemon then computes elsewhere and copies the outputs at the
 * end of the request, in their order; a request fails with INFERD_INVALID_ARGUMENT where the program plans no memory
 * for such an output. */
INFERD_API int inferd_bind_slots(struct inferd_method *m, struct inferd_binding **ret, const struct inferd_slot *inputs,
	const struct inferd_slot *outputs);
typedef void (*inferd_bound_fn)(struct inferd_binding *b, int status, void *userdata);
struct inferd_bind_options {
	size_t struct_size; /* sizeof(struct inferd_bind_options) */
	/* Slots as for inferd_bind_slots. Both NULL: one new region, as for inferd_bind. */
	const struct inferd_slot *inputs, *outputs;
	uint64_t timeout_us; /* for the whole call; 0: none. INFERD_MISSED_DEADLINE when it has passed */
	/* NULL: the call blocks. Otherwise it returns at once, 0 with *ret set, and inferd_dispatch or inferd_wait
	 * calls @bound when the daemon has answered: @status is 0, or negative. Until then only inferd_unbind may be
	 * called for the binding; after a failure, that is what frees it. */
	inferd_bound_fn bound;
	void *userdata;
};
/* The same as inferd_bind or inferd_bind_slots, with options. */
INFERD_API int inferd_bind_with(struct inferd_method *m, struct inferd_binding **ret,
	const struct inferd_bind_options *options);
/* Free the binding. A request in flight is cancelled and ends without a callback. */
INFERD_API void inferd_unbind(struct inferd_binding *b);

/* The memory of an input or output, 64-byte aligned and valid as long as the binding. NULL for a scalar, for an output
 * without a region, and if there is no such input or output. Write inputs and read outputs while no request of this
 * binding is in flight. */
INFERD_API void *inferd_input(const struct inferd_binding *b, size_t index);
INFERD_API void *inferd_output(const struct inferd_binding *b, size_t index);
/* How many of the binding's tensors the daemon cannot use where they lie. It copies each of them once per request;
 * `inferctl status` counts the bytes. */
INFERD_API size_t inferd_n_copied(const struct inferd_binding *b);

/* Set the shape of a dynamic input, for the next request and those after it. No size may be negative, and the tensor
 * may have no more elements than at its largest. The data lies dense from the start of the input's memory. An input
 * whose shape was never set has its largest shape. For a static input @shape must be its shape. */
INFERD_API int inferd_set_input_shape(struct inferd_binding *b, size_t index, const int64_t *shape, size_t n_dims);
/* Set a scalar input, for the next request and those after it. Each scalar input must be set before the first request.
 * The value is converted to the input's datatype: towards zero for "INT", value != 0 for "BOOL".
 * INFERD_INVALID_ARGUMENT for a tensor, for "None", and for a value outside the range of int64_t. */
INFERD_API int inferd_set_scalar(struct inferd_binding *b, size_t index, double value);
INFERD_API int inferd_set_scalar_int(struct inferd_binding *b, size_t index, int64_t value);
/* Write the shape that output @index had in the last request to @shape and return its number of dimensions. Before the
 * first request this is its largest shape. */
INFERD_API int inferd_output_shape(const struct inferd_binding *b, size_t index, int64_t shape[INFERD_MAX_DIMS]);
/* The datatype of output @index in the last request. For a tensor this is the one of its info. For a scalar it is
 * what the program returned, "INT", "DOUBLE", "BOOL" or "None", which the exporter does not always know in advance.
 * NULL if there is no such output. Valid as long as the Method. */
INFERD_API const char *inferd_output_datatype(const struct inferd_binding *b, size_t index);
/* The value of a scalar output in the last request. INFERD_INVALID_ARGUMENT if the output was not a
 * number: a tensor or None. */
INFERD_API int inferd_output_scalar(const struct inferd_binding *b, size_t index, double *ret_value);
/* The same for "INT" and "BOOL" without rounding: a double has 53 bits, an INT has 64. INFERD_INVALID_ARGUMENT if it
 * was not an integer: a DOUBLE, a tensor or None. */
INFERD_API int inferd_output_scalar_int(const struct inferd_binding *b, size_t index, int64_t *ret_value);

/* ---- requests ---- */

/* Priorities, from highest to lowest: REALTIME, INTERACTIVE, BATCH, IDLE. Waiting requests of a higher priority run
 * first. inferd.conf sets the highest priority that each user may have. A request with a higher one is refused with
 * INFERD_PERMISSION_DENIED. Exception: INTERACTIVE, the default, is lowered to the user's highest priority instead. */
enum inferd_priority {
	INFERD_INTERACTIVE = 0,
	INFERD_REALTIME = 1,
	INFERD_BATCH = 2,
	INFERD_IDLE = 3,
};
struct inferd_request_options {
	size_t struct_size; /* sizeof(struct inferd_request_options) */
	enum inferd_priority priority;
	/* Microseconds from the call. If the request has not ended by then, it ends with INFERD_MISSED_DEADLINE, at
	 * most 10 ms later and whatever the daemon does. 0: no limit.
	 *
	 * The daemon may go on with the request for a while, read its inputs and write its outputs: it may not have
	 * answered at all, or be in one long instruction. The memory stays valid: the library and the daemon keep it
	 * mapped. The application may write new inputs at once, and a next request on the binding waits until the
	 * daemon is done with this one, so its answer is right; if a worker of the daemon is stuck in this one, the
	 * next one ends with INFERD_BUSY instead. But do not use memory that holds these outputs for anything else
	 * (another binding, a frame of a camera) before a next request on the binding has succeeded. The same holds
	 * after INFERD_CANCELLED. */
	uint64_t timeout_us;
	bool profile; /* measure each part of the request: see inferd_last_profile */
};
struct inferd_timing {
	uint64_t queue_ns; /* how long the request waited in the daemon */
	uint64_t run_ns;   /* how long it computed */
};

/* Run one request on the binding and wait for it. Reads the inputs and writes the outputs of the binding.
 * Answers: INFERD_OK and then the outputs are valid; else each status of enum inferd_status is possible, and the
 * outputs hold unspecified values. Callbacks of other bindings are not called here; they wait for inferd_dispatch. */
INFERD_API int inferd_infer(struct inferd_binding *b, const struct inferd_request_options *options);
/* The daemon's times for the binding's last request. They mean something only if it succeeded. */
INFERD_API void inferd_last_timing(const struct inferd_binding *b, struct inferd_timing *ret);

/* The profile of the binding's last request, if options->profile was set and the request succeeded: how long each
 * instruction took and each operator inside of delegates. It is an ETDump, the file that ExecuTorch's Inspector
 * reads. NULL (and 0) if there is none, also when the daemon or the library had no memory for it. Valid until the
 * next request on the binding. */
INFERD_API const void *inferd_last_profile(const struct inferd_binding *b, size_t *ret_n_bytes);

/* A request that inferd_infer_async started has ended. @status is 0, or negative and inferd_error has the sentence.
 * inferd_dispatch and inferd_wait call it, on their thread. It may start requests, on this binding too, and free
 * bindings, regions and Methods; it must not close the connection. */
typedef void (*inferd_done_fn)(struct inferd_binding *b, int status, void *userdata);
/* Start a request and return. @done is called exactly once for each call that returned 0, unless the binding or the
 * connection is freed before. Each binding has one request in flight at a time (else INFERD_BUSY); a program that wants
 * several makes several bindings. */
INFERD_API int inferd_infer_async(struct inferd_binding *b, const struct inferd_request_options *options,
	inferd_done_fn done, void *userdata);
/* Ask the daemon to drop the request in flight on this binding. The callback still comes: with INFERD_CANCELLED, or
 * with the result if the request had ended already. 0 without a request in flight. */
INFERD_API int inferd_cancel(struct inferd_binding *b);
/* A file descriptor for any event loop: whenever it is readable (POLLIN), call inferd_dispatch. It stays the
 * library's and is valid until inferd_close. */
INFERD_API int inferd_get_fd(const struct inferd *d);
/* Handle everything that has arrived, and call the callbacks of the requests that have ended. Never blocks. Returns the
 * number of callbacks called, or INFERD_DISCONNECTED (negated). */
INFERD_API int inferd_dispatch(struct inferd *d);
/* Block until something arrives, then dispatch; returns what inferd_dispatch returns, so 0 after @timeout_ms
 * milliseconds or after a signal. @timeout_ms -1 waits without limit: without a request in flight, only the end of
 * the daemon ends that wait. It may also return 0 earlier, since timeouts and connecting again have their times. */
INFERD_API int inferd_wait(struct inferd *d, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
