/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and what is on them: Methods, regions, bindings, requests.
 *
 * A Method refers to its connection and a binding to its Method, so a connection goes last. Each has a struct
 * inf_py_handle with libinferd's object, which is NULL when that was closed. */
#ifndef CLIENTS_PYTHON_OBJECTS_H
#define CLIENTS_PYTHON_OBJECTS_H

#include "clients/python/memory.h"

#include <pythread.h>

/* ---- connections (connection.c) ---- */

enum inf_py_object { INF_PY_OBJECT_METHOD, INF_PY_OBJECT_REGION, INF_PY_OBJECT_BINDING };
struct inf_py_binding;

/* One of libinferd's objects on a connection. */
struct inf_py_handle {
	struct inf_py_connection *connection;
	enum inf_py_object kind;
	void *object;                   /* NULL: not made yet, or closed */
	struct inf_py_binding *binding; /* borrowed, of a binding's handle: the Python object; NULL: it has gone */
	bool is_dead;                   /* the Python object has gone: close it when the connection is free */
	struct inf_py_handle *next, **link;
};

struct inf_py_connection {
	PyObject_HEAD struct inferd *d; /* NULL: closed */
	unsigned n_forks;               /* of the process that opened it */
	struct inf_py_handle *handles;
	bool has_dead; /* one of them is_dead */

	PyThread_type_lock lock; /* held during each call of libinferd */
	unsigned long owner;     /* the thread that holds it */
	PyThreadState *thread;   /* of a call that waits without the GIL */

	/* requests of an event loop (async.c) */
	PyObject *loop; /* it watches the descriptor; NULL: none does */
	size_t n_running;
	bool is_rest_due;                           /* the loop will call _rest */
	struct inf_py_binding *ended, **ended_last; /* their requests have ended, and their futures not yet */
};
extern PyType_Spec inf_py_connection_spec;
/* inferd.connect() */
PyObject *inf_py_connect(PyObject *module, PyObject *args, PyObject *keywords);

/* Begin a call of libinferd: wait until no other thread is in one on this connection. False, with an exception set: the
 * connection is closed, or belongs to another process, or this thread is in such a call already. */
bool inf_py_begin(struct inf_py_connection *c);
/* End the call. @rc is libinferd's answer: if it is negative the exception is raised, and the answer is false. */
bool inf_py_end(struct inf_py_connection *c, int rc);
/* Between the two: call without the GIL. */
#define INF_PY_WAIT(c, call)                       \
	do {                                       \
		(c)->thread = PyEval_SaveThread(); \
		(call);                            \
		PyEval_RestoreThread((c)->thread); \
	} while (0)

/* Make a handle without an object yet. NULL: memory ran out, with an exception set. */
struct inf_py_handle *inf_py_handle_new(struct inf_py_connection *c, enum inf_py_object kind);
/* The Python object goes: close libinferd's object, now or when the connection is free. Accepts NULL. */
void inf_py_handle_free(struct inf_py_handle *handle);
/* close() of the Python object: close libinferd's object. */
PyObject *inf_py_handle_close(struct inf_py_handle *handle);
/* inf_py_begin for a call on the object. False, with an exception set: it is closed, too. */
bool inf_py_handle_begin(struct inf_py_handle *handle);

/* ---- Methods (method.c, info.c) ---- */

/* The facts on an input or output that each request needs. */
struct inf_py_info {
	PyObject *name;
	const struct inf_py_datatype *type; /* NULL: a scalar */
	int n_dims;
	int64_t shape[INFERD_MAX_DIMS]; /* the largest */
	uint8_t dim_order[INFERD_MAX_DIMS];
	size_t n_bytes;
	bool is_dynamic;
};
struct inf_py_method {
	PyObject_HEAD struct inf_py_connection *connection;
	struct inf_py_handle *handle;
	size_t n_inputs, n_outputs;
	struct inf_py_info *infos;    /* inputs, then outputs */
	PyObject *inputs, *outputs;   /* tuples of inferd.TensorInfo */
	PyObject *texts;              /* tuple: the string of each output that is always the same one, else None */
	struct inf_py_binding *spare; /* of calls of the Method; NULL: none, or in use */
};
extern PyType_Spec inf_py_method_spec;
/* Connection.open() and open_program() */
PyObject *inf_py_open(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *inf_py_open_program(PyObject *self, PyObject *args, PyObject *keywords);

/* Add inferd.TensorInfo and inferd.Timing to @module. */
int inf_py_infos_add(PyObject *module);
/* An inferd.TensorInfo, and *ret_info. */
PyObject *inf_py_info_new(const struct inferd_tensor_info *from, struct inf_py_info *ret_info);

/* ---- regions (region.c) ---- */

struct inf_py_region {
	PyObject_HEAD struct inf_py_connection *connection;
	struct inf_py_handle *handle;
	struct inf_py_memory *memory;
};
extern PyType_Spec inf_py_region_spec;
/* Connection.region() and import_region() */
PyObject *inf_py_region(PyObject *self, PyObject *size);
PyObject *inf_py_import_region(PyObject *self, PyObject *args, PyObject *keywords);
struct inf_py_region *inf_py_region_new(struct inf_py_connection *c, size_t n_bytes);

/* ---- bindings (bind.c makes them, binding.c uses them) ---- */

/* The place of an input or output in memory. */
struct inf_py_place {
	struct inf_py_memory *memory; /* NULL: a scalar, or an output that is not wanted */
	size_t offset;
};
struct inf_py_binding {
	PyObject_HEAD struct inf_py_connection *connection;
	struct inf_py_method *method;
	struct inf_py_handle *handle;
	struct inf_py_place *places;        /* inputs, then outputs */
	int64_t (*shapes)[INFERD_MAX_DIMS]; /* of the inputs, as they are now */

	/* the request of an event loop (async.c) */
	PyObject *future;             /* NULL: none is in flight */
	bool is_ended;                /* in the list of the ended ones */
	int status;                   /* how it ended */
	char *error;                  /* its sentence; NULL: memory ran out */
	struct inf_py_binding *after; /* in the list of the ended ones */
	PyObject *next;               /* the future of one that waits for a cancelled one to end */
	struct inferd_request_options next_options;
};
extern PyType_Spec inf_py_binding_spec;
extern PyType_Spec inf_py_slots_spec;
/* Method.bind() */
PyObject *inf_py_bind(PyObject *self, PyObject *args, PyObject *keywords);
/* The same without arguments: all in one new region. */
struct inf_py_binding *inf_py_bind_new(struct inf_py_method *m);

/* Run one request. 0, or -1 with an exception set. */
int inf_py_infer(struct inf_py_binding *b, const struct inferd_request_options *options);
/* Binding.inputs and outputs (slots.c) */
PyObject *inf_py_slots_new(struct inf_py_binding *b, bool is_output);
/* The place of @key, an index or a name; -1, with an exception set, if there is none. */
Py_ssize_t inf_py_slot_find(const struct inf_py_binding *b, bool is_output, PyObject *key);
/* The Tensor of input @index. */
PyObject *inf_py_input_get(struct inf_py_binding *b, size_t index);
/* Write @value to input @index: a tensor's elements, and its shape if that is dynamic; or a number. */
int inf_py_input_set(struct inf_py_binding *b, size_t index, PyObject *value);
/* What output @index holds: a Tensor, a number, a str, or None. */
PyObject *inf_py_output_get(struct inf_py_binding *b, size_t index);

/* ---- requests of an event loop (async.c) ---- */

/* Binding.infer_async() */
PyObject *inf_py_infer_async(PyObject *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
/* Binding._release(future): a future has ended, and the request goes if it was cancelled. */
PyObject *inf_py_release(PyObject *self, PyObject *future);
/* Connection._dispatch(): the descriptor is readable. _settle(): end the futures of requests that have ended. _rest():
 * no longer watch the descriptor, if nothing is in flight. The event loop calls them. */
PyObject *inf_py_dispatch(PyObject *self, PyObject *unused);
PyObject *inf_py_settle(PyObject *self, PyObject *unused);
PyObject *inf_py_rest(PyObject *self, PyObject *unused);
/* @b is closed by its user: its request ends with Cancelled. */
void inf_py_abandon(struct inf_py_binding *b, const char *sentence);
/* Have the loop end the futures of what was abandoned; any thread of Python. */
void inf_py_tell_loop(struct inf_py_connection *c);
/* Take the descriptor out of the event loop, before it is closed. */
void inf_py_unwatch(struct inf_py_connection *c);
#endif
