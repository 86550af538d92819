/* SPDX-License-Identifier: BSD-3-Clause */
/* libinferd: talk to inferd from a C program.
 *
 *     struct inferd *d = NULL;
 *     struct inferd_method *m = NULL;
 *     struct inferd_binding *b = NULL;
 *     if (inferd_open(&d, NULL) < 0 || inferd_method_open(d, &m, "efficientnet_lite0", NULL) < 0 ||
 *         inferd_bind(m, &b) < 0)
 *             errx(1, "%s", inferd_error(d));
 *     float *in = inferd_input(b, 0), *out = inferd_output(b, 0);
 *     ... fill in ...
 *     if (inferd_infer(b, NULL) < 0)
 *             errx(1, "%s", inferd_error(d));
 *     ... use out ...
 *     inferd_close(d);
 *
 * Tensors lie in memory shared with the daemon and are never copied. Everything belongs to its connection and dies
 * with it; closing a part earlier is fine. A connection and everything on it is used by one thread at a time; use as
 * many connections as you like. No call but inferd_infer, inferd_wait, inferd_method_reset and those
 * that open something ever blocks.
 *
 * Return values: 0 or more is success; negative is an enum inferd_status negated, and inferd_error has the sentence.
 * Options may be NULL; where they are not, their struct_size must be set. */
#ifndef INFERD_H
#define INFERD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INFERD_API __attribute__((visibility("default")))

enum inferd_status {
	INFERD_OK = 0,
	INFERD_CANCELLED = 1,
	INFERD_UNKNOWN = 2,
	INFERD_INVALID_ARGUMENT = 3,
	INFERD_NOT_FOUND = 5,
	INFERD_PERMISSION_DENIED = 7,
	INFERD_RESOURCE_EXHAUSTED = 8,
	INFERD_FAILED_PRECONDITION = 9,
	INFERD_UNIMPLEMENTED = 12,
	INFERD_INTERNAL = 13,
	INFERD_UNAVAILABLE = 14,
	INFERD_BUSY = 32,
	INFERD_MISSED_DEADLINE = 33,
	INFERD_STATE_LOST = 34,
	INFERD_BACKEND_CRASHED = 35,
	INFERD_DISCONNECTED = 64, /* the daemon is not there, or closed the connection */
};
/* "invalid argument", … Never NULL. */
INFERD_API const char *inferd_status_text(int status);

struct inferd;
struct inferd_method;
struct inferd_region;
struct inferd_binding;

/* ---- connection ---- */

/* @socket: a path; NULL means $INFERD_SOCKET, else /run/inferd/inferd.sock. *ret is set even on failure (so that
 * inferd_error can say why), unless memory ran out; close it then too. */
INFERD_API int inferd_open(struct inferd **ret, const char *socket);
struct inferd_open_options {
	size_t struct_size;      /* sizeof(struct inferd_open_options) */
	const char *socket;      /* as above */
	const char *client_name; /* for `inferctl status`; NULL: the program's name */
	/* This connection's part of its user's share of the accelerators, beside that user's other connections. 0, or
	 * more than inferd.conf gives the user: as much as that. So one of a program's connections may be told to take
	 * less than another, where the user has a weight above 1. */
	uint32_t weight;
};
INFERD_API int inferd_open_with(struct inferd **ret, const struct inferd_open_options *options);
/* Ends every request in flight without calling its callback. NULL is fine. Not from inside a callback. */
INFERD_API void inferd_close(struct inferd *d);
/* Why the last failing call on this connection failed. Never NULL; valid until the next call. @d is NULL where memory
 * ran out in inferd_open. */
INFERD_API const char *inferd_error(const struct inferd *d);

/* ---- Methods ---- */

struct inferd_method_options {
	size_t struct_size;  /* sizeof(struct inferd_method_options) */
	const char *version; /* NULL: the newest */
	const char *method;  /* NULL: the only one, or "forward" */
	const char *backend; /* NULL: the daemon's order */
	/* inferd_method_open_fd: the program's data files (`.ptd`, at most 15), in the order in which names are looked for;
	 * passed as the program is. A model that the daemon serves has its own. */
	const int *data_fds;
	size_t n_data_fds;
	/* Another Method of the same connection. The new one is of the same program, the very file, also if it is one of your
	 * own, and has the same state: the buffers that ExecuTorch exported for the program's methods to share
	 * (`share_mutable_buffers`), as a prefill and a decode step share their caches. Its model may then be NULL. */
	const struct inferd_method *share_with;
};

/* One client's instance of a model: state, if it has any, is this Method's alone, unless options->share_with says whose it is,
 * too; that takes two methods of one program that was exported so, else it answers INFERD_FAILED_PRECONDITION. Methods
 * that share may be closed in any order, and their requests run one at a time, in the order in which they were made; one that is
 * cut short may lose the state for all of them (INFERD_STATE_LOST). When a backend is given up they stay with it. @options
 * may be NULL. */
INFERD_API int inferd_method_open(struct inferd *d, struct inferd_method **ret, const char *model,
	const struct inferd_method_options *options);
/* The same for a program of your own: @fd is a `.pte` or `.bpte`, a regular file or a memfd open for reading; it stays
 * yours, its position is neither used nor moved. The daemon works on a private copy, which clients that pass the same
 * unchanged file share and which goes with the last of their Methods. @name is your word for it, in `inferctl status`
 * and in messages; NULL is fine. @options->version must be NULL. */
INFERD_API int inferd_method_open_fd(struct inferd *d, struct inferd_method **ret, int fd, const char *name,
	const struct inferd_method_options *options);
/* Its bindings can only be unbound after this. */
INFERD_API void inferd_method_close(struct inferd_method *m);
/* Back to the initial state, for streams that begin anew; what it shares, for all who share it. No request may be in flight,
 * of these neither. */
INFERD_API int inferd_method_reset(struct inferd_method *m);

enum { INFERD_MAX_DIMS = 16 };

struct inferd_tensor_info {
	const char *name; /* "input_0" */
	/* "FP32", "INT64", … or, if is_scalar, "INT", "DOUBLE", "BOOL", or "None": an argument that the program leaves out
	 * (None, or a word), so that there is nothing to set, or an output that is nothing; or an output's "String" */
	const char *datatype;
	size_t n_dims;
	int64_t shape[INFERD_MAX_DIMS]; /* the upper bound where dynamic */
	uint8_t dim_order
		[INFERD_MAX_DIMS]; /* outermost to innermost: 0,1,2,3 is row-major NCHW, 0,2,3,1 channels-last */
	size_t n_bytes;            /* at the largest */
	bool is_dynamic;
	bool is_scalar; /* a number, set with inferd_set_scalar */
};
INFERD_API size_t inferd_n_inputs(const struct inferd_method *m);
INFERD_API size_t inferd_n_outputs(const struct inferd_method *m);
/* NULL if there is no such input or output. Valid as long as the Method. */
INFERD_API const struct inferd_tensor_info *inferd_input_info(const struct inferd_method *m, size_t index);
INFERD_API const struct inferd_tensor_info *inferd_output_info(const struct inferd_method *m, size_t index);
/* The string that output @index is, whatever goes in, as of a method that tells a name; a NUL is behind its bytes, and may be
 * among them. NULL where it is none, or may be another each time, or is one of too many or too long to be told (256 KiB for
 * a Method). Valid as long as the Method. */
INFERD_API const char *inferd_output_text(const struct inferd_method *m, size_t index, size_t *ret_n_bytes);
INFERD_API bool inferd_method_is_stateful(const struct inferd_method *m);
/* When it was opened. A model whose backend is given up after too many crashes goes on with another variant, and a Method
 * with it; one that was opened for a particular backend stays. */
INFERD_API const char *inferd_method_backend(const struct inferd_method *m);
INFERD_API const char *inferd_method_version(const struct inferd_method *m);

/* ---- regions ---- */

/* Memory made by the daemon. */
INFERD_API int inferd_region_new(struct inferd *d, struct inferd_region **ret, size_t n_bytes);
/* Memory of your own: a memfd with F_SEAL_SHRINK and F_SEAL_GROW, or a dma-buf that the processor may map, as a camera
 * fills it; around each request the daemon keeps caches in step and waits for the device, up to 100 ms and no longer than
 * the request's deadline: ask when it is about to be done. @fd stays yours. */
INFERD_API int inferd_region_import(struct inferd *d, struct inferd_region **ret, int fd, size_t n_bytes);
INFERD_API void *inferd_region_data(const struct inferd_region *r);
INFERD_API size_t inferd_region_size(const struct inferd_region *r);
/* Bindings over it keep it alive in the daemon until they go. */
INFERD_API void inferd_region_free(struct inferd_region *r);

/* ---- bindings ---- */

/* Bind all inputs and outputs to one fresh region made for the purpose. */
INFERD_API int inferd_bind(struct inferd_method *m, struct inferd_binding **ret);

struct inferd_slot {
	struct inferd_region *region; /* NULL: an output that is not wanted, or a scalar */
	size_t offset;                /* a multiple of 64 */
	size_t n_bytes;               /* 0: what the info says */
};
/* Bind to regions of your choice; arrays as long as the Method has inputs and outputs. Outputs may lie
 * where inputs do, or other outputs: what comes out is then copied there at the end, in their order, or refused by a
 * Method that plans no memory to copy from. */
INFERD_API int inferd_bind_slots(struct inferd_method *m, struct inferd_binding **ret, const struct inferd_slot *inputs,
	const struct inferd_slot *outputs);
/* Ends its request, if one is in flight, without calling the callback. */
INFERD_API void inferd_unbind(struct inferd_binding *b);

/* The memory of an input or output; NULL if it has none. 64-byte aligned. */
INFERD_API void *inferd_input(const struct inferd_binding *b, size_t index);
INFERD_API void *inferd_output(const struct inferd_binding *b, size_t index);
/* How many of the binding's tensors the daemon can't use where they lie (it makes one counted copy of each). */
INFERD_API size_t inferd_n_copied(const struct inferd_binding *b);

/* For dynamic inputs: the sizes of the next request. The data lies dense from the start of the input's memory. */
INFERD_API int inferd_set_input_shape(struct inferd_binding *b, size_t index, const int64_t *shape, size_t n_dims);
/* For scalar inputs; the value is converted to the input's kind. */
INFERD_API int inferd_set_scalar(struct inferd_binding *b, size_t index, double value);
INFERD_API int inferd_set_scalar_int(struct inferd_binding *b, size_t index, int64_t value);
/* The sizes that output @index had in the last request (before the first: at the largest); its rank, or negative. */
INFERD_API int inferd_output_shape(const struct inferd_binding *b, size_t index, int64_t shape[INFERD_MAX_DIMS]);
/* What output @index was in the last request: the datatype of its info, but of a scalar the kind that the program
 * answered, "INT", "DOUBLE", "BOOL" or "None", which the exporter does not always know before. NULL if there is no such
 * output. Valid as long as the Method. */
INFERD_API const char *inferd_output_datatype(const struct inferd_binding *b, size_t index);
/* A scalar output of the last request. */
INFERD_API int inferd_output_scalar(const struct inferd_binding *b, size_t index, double *ret_value);
/* The same without going through a double, which has fewer digits than an INT. Refuses a DOUBLE. */
INFERD_API int inferd_output_scalar_int(const struct inferd_binding *b, size_t index, int64_t *ret_value);

/* ---- requests ---- */

/* Realtime goes before interactive, that before batch and idle. Who may ask for realtime says inferd.conf; others are
 * answered INFERD_PERMISSION_DENIED. */
enum inferd_priority {
	INFERD_INTERACTIVE = 0,
	INFERD_REALTIME = 1,
	INFERD_BATCH = 2,
	INFERD_IDLE = 3,
};
struct inferd_request_options {
	size_t struct_size; /* sizeof(struct inferd_request_options) */
	enum inferd_priority priority;
	uint64_t timeout_us; /* 0: none; late requests answer INFERD_MISSED_DEADLINE */
	bool profile;        /* note how long each part of it takes: see inferd_last_profile */
};
struct inferd_timing {
	uint64_t queue_ns; /* waited in the daemon */
	uint64_t run_ns;   /* computed */
};

/* Run and wait. @options may be NULL. */
INFERD_API int inferd_infer(struct inferd_binding *b, const struct inferd_request_options *options);
/* The daemon's times for the binding's last request. */
INFERD_API void inferd_last_timing(const struct inferd_binding *b, struct inferd_timing *ret);

/* Of the binding's last request, if options->profile was set and it went well: how long each instruction took and each
 * operator inside of delegates, as an ETDump, the file that ExecuTorch's Inspector reads. NULL if there is none, and
 * when the daemon had no memory for it. Valid until the binding's next request. */
INFERD_API const void *inferd_last_profile(const struct inferd_binding *b, size_t *ret_n_bytes);

/* @status: 0, or negative with inferd_error's sentence. Called by inferd_dispatch or inferd_wait; it may start the next
 * request. */
typedef void (*inferd_done_fn)(struct inferd_binding *b, int status, void *userdata);
/* Start; one request at a time on a binding (else INFERD_BUSY), many bindings at once. @done is wanted. */
INFERD_API int inferd_infer_async(struct inferd_binding *b, const struct inferd_request_options *options,
	inferd_done_fn done, void *userdata);
/* Ask the daemon to drop the binding's request; its callback still comes, perhaps with INFERD_CANCELLED. */
INFERD_API int inferd_cancel(struct inferd_binding *b);
/* For any event loop: when this is readable (POLLIN), call inferd_dispatch. */
INFERD_API int inferd_get_fd(const struct inferd *d);
/* Handle what has arrived; calls callbacks; never blocks. The number of requests completed, or negative. */
INFERD_API int inferd_dispatch(struct inferd *d);
/* Block until something arrives (-1: for ever, else milliseconds), then dispatch. Where nothing is in flight, nothing
 * but the daemon's end arrives. */
INFERD_API int inferd_wait(struct inferd *d, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
