/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, exceptions and the reading of arguments, shared by the files of the Python module.
 *
 * All functions of clients/python need the GIL, if nothing else is said. Those that return an object return a new
 * reference, or NULL with a Python exception set; those that return int return 0, or -1 with an exception set. */
#ifndef CLIENTS_PYTHON_MODULE_H
#define CLIENTS_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "clients/inferd.h"

#include <stdbool.h>
#include <stdint.h>

/* The module is a single one for the process, and never unloaded. */
struct inf_py_types {
	PyTypeObject *connection, *method, *binding, *slots, *region, *memory, *tensor;
	PyTypeObject *tensor_info, *timing;
};
extern struct inf_py_types inf_py_types;

/* How often this process was forked before it came to be: a connection belongs to the process that opened it. */
unsigned inf_py_n_forks(void);

/* Functions of PyMethodDef with keywords. */
#define INF_PY_METHOD(f) ((PyCFunction)(void (*)(void))(f))
/* Members of PyType_Slot are data pointers. */
#define INF_PY_SLOT(f) (__extension__(void *)(f))

/* Make an object of @type, its memory zero. */
void *inf_py_new(PyTypeObject *type);
/* Free the memory of an object. The last step of each tp_dealloc. */
void inf_py_delete(void *self);

/* Py_XNewRef and Py_XDECREF for objects of this module, whose structs begin with PyObject_HEAD. */
static inline void *inf_py_ref(void *object)
{
	return Py_XNewRef(object);
}
static inline void inf_py_unref(void *object)
{
	Py_XDECREF((PyObject *)object);
}

/* ---- errors.c ---- */

/* Add inferd.Error and its subclasses to @module. */
int inf_py_errors_add(PyObject *module);
/* Raise the exception of @status (not negated) with @sentence. Returns NULL. */
void *inf_py_raise(int status, const char *sentence);
/* Make that exception without raising it. */
PyObject *inf_py_error_new(int status, const char *sentence);

/* ---- arguments.c ---- */

/* Converters for PyArg_Parse ("O&"). Each returns 1, or 0 with an exception set. */
/* None or seconds, to microseconds: uint64_t. None is 0, and 0 is 1, since 0 means no limit to the library. */
int inf_py_timeout(PyObject *object, void *ret_us);
/* Seconds, to milliseconds: uint32_t. */
int inf_py_milliseconds(PyObject *object, void *ret_ms);
/* None or a str without NULs, to a const char *, which is NULL for None and lives as long as the object. */
int inf_py_text(PyObject *object, void *ret_text);

/* A file to read: an open one (an int, or an object with fileno()), or a path. */
struct inf_py_file {
	int fd;
	bool is_ours; /* opened here */
};
/* The same for a file. The caller calls inf_py_file_close, also after a failure. */
int inf_py_file_open(PyObject *object, struct inf_py_file *ret_file);
void inf_py_file_close(struct inf_py_file *file);

/* Read the keyword arguments of a request: timeout, priority, profile. */
int inf_py_request_options(PyObject *const *args, Py_ssize_t n_args, PyObject *names,
	struct inferd_request_options *ret_options);
#endif
