/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments: times, texts, files, and what can be asked of a request.
 *
 * Times are seconds, as everywhere in Python; the library takes integers. The options of a request are read by hand,
 * since a request without options should cost nothing here. */
#include "clients/python/module.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Seconds to a number of @unit_s, at most @max. 0 or -1. */
static int seconds(PyObject *object, double unit_s, double max, double *ret)
{
	double value = PyFloat_AsDouble(object);
	if (value == -1.0 && PyErr_Occurred())
		return -1;
	if (!(value >= 0)) { /* NaN, too */
		PyErr_SetString(PyExc_ValueError, "a time is a number of seconds, 0 or more");
		return -1;
	}
	*ret = fmin(ceil(value / unit_s), max);
	return 0;
}

int inf_py_timeout(PyObject *object, void *ret_us)
{
	double value = 0;
	if (object != Py_None && seconds(object, 1e-6, 0x1p62, &value) < 0)
		return 0;
	*(uint64_t *)ret_us = object != Py_None && value < 1 ? 1 : (uint64_t)value;
	return 1;
}

int inf_py_milliseconds(PyObject *object, void *ret_ms)
{
	double value;
	if (seconds(object, 1e-3, UINT32_MAX, &value) < 0)
		return 0;
	*(uint32_t *)ret_ms = (uint32_t)value;
	return 1;
}

int inf_py_text(PyObject *object, void *ret_text)
{
	Py_ssize_t n = 0;
	const char *text = object == Py_None ? NULL : PyUnicode_AsUTF8AndSize(object, &n);
	if (!text && object != Py_None)
		return 0;
	if (text && strlen(text) != (size_t)n) {
		PyErr_SetString(PyExc_ValueError, "a text with a NUL in it");
		return 0;
	}
	*(const char **)ret_text = text;
	return 1;
}

/* ---- files ---- */

static int open_path(PyObject *object, struct inf_py_file *ret_file)
{
	PyObject *path = NULL;
	if (!PyUnicode_FSConverter(object, &path))
		return -1;
	const char *bytes = PyBytes_AsString(path);
	int fd = bytes ? open(bytes, O_RDONLY | O_CLOEXEC) : -1;
	if (bytes && fd < 0)
		PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, object);
	Py_DECREF(path);
	*ret_file = (struct inf_py_file){ fd, fd >= 0 };
	return fd < 0 ? -1 : 0;
}

int inf_py_file_open(PyObject *object, struct inf_py_file *ret_file)
{
	*ret_file = (struct inf_py_file){ -1, false };
	if (PyUnicode_Check(object) || PyBytes_Check(object) || PyObject_HasAttrString(object, "__fspath__"))
		return open_path(object, ret_file);
	ret_file->fd = PyObject_AsFileDescriptor(object);
	return ret_file->fd < 0 ? -1 : 0;
}

void inf_py_file_close(struct inf_py_file *file)
{
	if (file->is_ours)
		close(file->fd);
	*file = (struct inf_py_file){ -1, false };
}

/* ---- requests ---- */

static int read_priority(PyObject *value, enum inferd_priority *ret)
{
	if (value == Py_None)
		return 0;
	long number = PyLong_AsLong(value);
	if (number == -1 && PyErr_Occurred())
		return -1;
	if (number < INFERD_INTERACTIVE || number > INFERD_IDLE) {
		PyErr_SetString(PyExc_ValueError, "a priority is one of inferd.Priority");
		return -1;
	}
	*ret = (enum inferd_priority)number;
	return 0;
}

static int read_option(PyObject *name, PyObject *value, struct inferd_request_options *options)
{
	if (PyUnicode_CompareWithASCIIString(name, "timeout") == 0)
		return inf_py_timeout(value, &options->timeout_us) ? 0 : -1;
	if (PyUnicode_CompareWithASCIIString(name, "priority") == 0)
		return read_priority(value, &options->priority);
	if (PyUnicode_CompareWithASCIIString(name, "profile") == 0) {
		int is = PyObject_IsTrue(value);
		options->profile = is > 0;
		return is < 0 ? -1 : 0;
	}
	PyErr_Format(PyExc_TypeError, "a request has no option '%U'; there are timeout, priority, profile", name);
	return -1;
}

int inf_py_request_options(PyObject *const *args, Py_ssize_t n_args, PyObject *names,
	struct inferd_request_options *ret_options)
{
	Py_ssize_t n = names ? PyTuple_Size(names) : 0;
	*ret_options = (struct inferd_request_options){ .struct_size = sizeof *ret_options };
	if (n_args) {
		PyErr_SetString(PyExc_TypeError, "a request takes keyword arguments only: timeout, priority, profile");
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		if (read_option(PyTuple_GetItem(names, i), args[n_args + i], ret_options) < 0)
			return -1;
	return 0;
}
