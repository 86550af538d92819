/* SPDX-License-Identifier: BSD-3-Clause */
/* Exceptions: inferd.Error, and a subclass for each status of inferd.h.
 *
 * Where Python has an exception that says the same, the subclass is one of it, too: `except TimeoutError` catches
 * inferd.MissedDeadline. The text is the daemon's or the library's sentence, as it is. */
#include "clients/python/module.h"

#include <string.h>

struct row {
	int status;
	const char *name;   /* of the class, with the module */
	PyObject **builtin; /* a second base class; NULL: none */
	const char *doc;
};

static const struct row rows[] = {
	{ INFERD_CANCELLED, "inferd.Cancelled", NULL,
		"The request was cancelled, or its Method or binding was closed." },
	{ INFERD_UNKNOWN, "inferd.Unknown", NULL, "The daemon gives no better reason." },
	{ INFERD_INVALID_ARGUMENT, "inferd.InvalidArgument", &PyExc_ValueError,
		"A wrong tensor, shape, offset, name or option." },
	{ INFERD_NOT_FOUND, "inferd.NotFound", &PyExc_LookupError, "There is no such model, version or method." },
	{ INFERD_PERMISSION_DENIED, "inferd.PermissionDenied", &PyExc_PermissionError,
		"The socket or inferd.conf does not allow it to this user." },
	{ INFERD_RESOURCE_EXHAUSTED, "inferd.ResourceExhausted", NULL,
		"A limit of inferd.conf is reached, or memory ran out." },
	{ INFERD_FAILED_PRECONDITION, "inferd.FailedPrecondition", NULL,
		"The model cannot be loaded, memory cannot be shared, or an object is closed." },
	{ INFERD_UNIMPLEMENTED, "inferd.Unimplemented", &PyExc_NotImplementedError,
		"The model needs an operator or a backend that the daemon lacks." },
	{ INFERD_INTERNAL, "inferd.Internal", NULL, "A run failed, or the library and the daemon disagree." },
	{ INFERD_UNAVAILABLE, "inferd.Unavailable", NULL,
		"The daemon shuts down, or the model was unloaded: open the Method again." },
	{ INFERD_BUSY, "inferd.Busy", NULL, "The binding has a request in flight, or the Method is being reset." },
	{ INFERD_MISSED_DEADLINE, "inferd.MissedDeadline", &PyExc_TimeoutError, "The timeout passed before the end." },
	{ INFERD_STATE_LOST, "inferd.StateLost", NULL,
		"A request was cut short, or the daemon restarted: reset the Method." },
	{ INFERD_BACKEND_CRASHED, "inferd.BackendCrashed", NULL,
		"The process of the backend died; the daemon starts it again." },
	{ INFERD_DISCONNECTED, "inferd.Disconnected", &PyExc_ConnectionError,
		"The daemon does not run, or closed the connection: connect again." },
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static PyObject *base, *classes[N_ROWS];

static int add(PyObject *module, const char *name, PyObject *class)
{
	return class ? PyModule_AddObjectRef(module, strchr(name, '.') + 1, class) : -1;
}

static PyObject *make_class(const struct row *row)
{
	PyObject *bases = row->builtin ? PyTuple_Pack(2, base, *row->builtin) : PyTuple_Pack(1, base);
	PyObject *members = Py_BuildValue("{s:i}", "status", row->status), *class = NULL;
	if (bases && members)
		class = PyErr_NewExceptionWithDoc(row->name, row->doc, bases, members);
	Py_XDECREF(bases);
	Py_XDECREF(members);
	return class;
}

int inf_py_errors_add(PyObject *module)
{
	PyObject *members = Py_BuildValue("{s:i}", "status", INFERD_UNKNOWN);
	if (members)
		base = PyErr_NewExceptionWithDoc("inferd.Error",
			"What all exceptions of this module are. `status` is a number of enum inferd_status in inferd.h.",
			NULL, members);
	Py_XDECREF(members);
	if (add(module, "inferd.Error", base) < 0)
		return -1;
	for (int i = 0; i < N_ROWS; i++) {
		classes[i] = make_class(&rows[i]);
		if (add(module, rows[i].name, classes[i]) < 0)
			return -1;
	}
	return 0;
}

/* Borrowed. */
static PyObject *class_of(int status)
{
	for (int i = 0; i < N_ROWS; i++)
		if (rows[i].status == status)
			return classes[i];
	return base; /* a status of a later version */
}

PyObject *inf_py_error_new(int status, const char *sentence)
{
	PyObject *text = PyUnicode_DecodeUTF8(sentence, (Py_ssize_t)strlen(sentence), "replace");
	PyObject *error = text ? PyObject_CallFunctionObjArgs(class_of(status), text, NULL) : NULL;
	Py_XDECREF(text);
	return error;
}

void *inf_py_raise(int status, const char *sentence)
{
	PyObject *error = inf_py_error_new(status, sentence);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}
