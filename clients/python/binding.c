/* SPDX-License-Identifier: BSD-3-Clause */
/* Bindings: write inputs, infer, read outputs.
 *
 * A request without options reads no arguments and makes no object. What an output is now (its shape, its number) is
 * asked of libinferd when somebody reads it, since few programs read all of them. */
#include "clients/python/objects.h"

#include <stdlib.h>
#include <string.h>

/* ---- inputs and outputs ---- */

static char *address(const struct inf_py_place *place)
{
	return place->memory->bytes + place->offset;
}

static struct inf_py_array array_of(const struct inf_py_info *info, const struct inf_py_place *place,
	const int64_t shape[INFERD_MAX_DIMS])
{
	struct inf_py_array array = { .type = info->type, .data = address(place), .n_dims = info->n_dims };
	for (int i = 0; i < info->n_dims; i++)
		array.shape[i] = (Py_ssize_t)shape[i];
	inf_py_array_set_strides(&array, info->dim_order);
	return array;
}

/* Whether the binding is open. It takes no lock: the memory stays in any case. */
static bool is_open(const struct inf_py_binding *b)
{
	if (b->handle->object)
		return true;
	inf_py_raise(INFERD_FAILED_PRECONDITION, "the binding is closed");
	return false;
}

PyObject *inf_py_input_get(struct inf_py_binding *b, size_t index)
{
	const struct inf_py_info *info = &b->method->infos[index];
	const struct inf_py_place *place = &b->places[index];
	if (!is_open(b))
		return NULL;
	if (!place->memory) {
		PyErr_Format(PyExc_TypeError, "'%U' is a number: assign it, inputs[%zu] = value", info->name, index);
		return NULL;
	}
	struct inf_py_array array = array_of(info, place, b->shapes[index]);
	return inf_py_tensor_new(place->memory, &array, false);
}

/* Set the shape of a dynamic input. @n_dims may be less than the input's: leading dimensions are 1 then. */
static int set_shape(struct inf_py_binding *b, size_t index, const int64_t *given, int n_given)
{
	const struct inf_py_info *info = &b->method->infos[index];
	int64_t shape[INFERD_MAX_DIMS];
	int n_missing = info->type && n_given < info->n_dims ? info->n_dims - n_given : 0;
	for (int i = 0; i < n_missing; i++)
		shape[i] = 1;
	memcpy(shape + n_missing, given, (size_t)n_given * sizeof *given);
	if (!inf_py_handle_begin(b->handle))
		return -1;
	int rc = inferd_set_input_shape(b->handle->object, index, shape, (size_t)(n_missing + n_given));
	if (rc >= 0)
		memcpy(b->shapes[index], shape, (size_t)info->n_dims * sizeof *shape);
	return inf_py_end(b->connection, rc) ? 0 : -1;
}

static int set_number(struct inf_py_binding *b, size_t index, PyObject *value)
{
	if (!PyNumber_Check(value)) {
		PyErr_Format(PyExc_TypeError, "'%U' is a number", b->method->infos[index].name);
		return -1;
	}
	bool is_integer = PyLong_Check(value) || (PyIndex_Check(value) && !PyFloat_Check(value));
	PyObject *number = is_integer ? PyNumber_Index(value) : PyNumber_Float(value);
	double real = number && !is_integer ? PyFloat_AsDouble(number) : 0;
	long long integer = number && is_integer ? PyLong_AsLongLong(number) : 0;
	Py_XDECREF(number);
	if (PyErr_Occurred() || !inf_py_handle_begin(b->handle))
		return -1;
	int rc = is_integer ? inferd_set_scalar_int(b->handle->object, index, integer)
			    : inferd_set_scalar(b->handle->object, index, real);
	return inf_py_end(b->connection, rc) ? 0 : -1;
}

int inf_py_input_set(struct inf_py_binding *b, size_t index, PyObject *value)
{
	const struct inf_py_info *info = &b->method->infos[index];
	int64_t shape[INFERD_MAX_DIMS];
	if (!b->places[index].memory)
		return set_number(b, index, value);
	int n_dims = info->is_dynamic ? inf_py_shape_of(value, shape) : 0;
	if (n_dims < 0 || !is_open(b))
		return -1;
	if (n_dims > 0 && set_shape(b, index, shape, n_dims) < 0)
		return -1;
	struct inf_py_array array = array_of(info, &b->places[index], b->shapes[index]);
	return inf_py_assign(&array, value);
}

/* A scalar output, as it was in the last request. */
static PyObject *number_get(struct inf_py_binding *b, size_t index)
{
	PyObject *text = PyTuple_GetItem(b->method->texts, (Py_ssize_t)index);
	int64_t integer = 0;
	double real = 0;
	if (!text || text != Py_None)
		return Py_XNewRef(text);
	if (!inf_py_handle_begin(b->handle))
		return NULL;
	const char *datatype = inferd_output_datatype(b->handle->object, index);
	bool is_none = !datatype || strcmp(datatype, "None") == 0 || strcmp(datatype, "String") == 0;
	bool is_real = datatype && strcmp(datatype, "DOUBLE") == 0, is_bool = datatype && strcmp(datatype, "BOOL") == 0;
	int rc = is_none   ? 0
		 : is_real ? inferd_output_scalar(b->handle->object, index, &real)
			   : inferd_output_scalar_int(b->handle->object, index, &integer);
	if (!inf_py_end(b->connection, rc))
		return NULL;
	return is_none   ? Py_NewRef(Py_None)
	       : is_real ? PyFloat_FromDouble(real)
	       : is_bool ? PyBool_FromLong(integer != 0)
			 : PyLong_FromLongLong(integer);
}

PyObject *inf_py_output_get(struct inf_py_binding *b, size_t index)
{
	const size_t at = b->method->n_inputs + index;
	const struct inf_py_info *info = &b->method->infos[at];
	int64_t shape[INFERD_MAX_DIMS];
	if (!is_open(b))
		return NULL;
	if (!info->type)
		return number_get(b, index);
	if (!b->places[at].memory)
		Py_RETURN_NONE; /* not wanted */
	memcpy(shape, info->shape, sizeof shape);
	if (info->is_dynamic) {
		if (!inf_py_handle_begin(b->handle))
			return NULL;
		int rc = inferd_output_shape(b->handle->object, index, shape);
		if (!inf_py_end(b->connection, rc))
			return NULL;
	}
	struct inf_py_array array = array_of(info, &b->places[at], shape);
	return inf_py_tensor_new(b->places[at].memory, &array, true);
}

/* ---- requests ---- */

int inf_py_infer(struct inf_py_binding *b, const struct inferd_request_options *options)
{
	int rc;
	if (!inf_py_handle_begin(b->handle))
		return -1;
	INF_PY_WAIT(b->connection, rc = inferd_infer(b->handle->object, options));
	return inf_py_end(b->connection, rc) ? 0 : -1;
}

static PyObject *infer(PyObject *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
	struct inferd_request_options options;
	if (inf_py_request_options(args, n_args, names, &options) < 0 ||
		inf_py_infer((struct inf_py_binding *)self, &options) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *set_input_shape(PyObject *self, PyObject *args)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	PyObject *key, *given;
	int64_t shape[INFERD_MAX_DIMS];
	if (!PyArg_ParseTuple(args, "OO:set_input_shape", &key, &given))
		return NULL;
	Py_ssize_t at = inf_py_slot_find(b, false, key);
	PyObject *tuple = at < 0 ? NULL : PySequence_Tuple(given);
	Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
	if (n > INFERD_MAX_DIMS)
		PyErr_Format(PyExc_ValueError, "a shape of %zd dimensions, of at most %d", n, INFERD_MAX_DIMS);
	for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
		shape[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
	if (tuple && !PyErr_Occurred() && n != b->method->infos[at].n_dims)
		PyErr_Format(PyExc_ValueError, "a shape of %zd dimensions for an input of %d", n,
			b->method->infos[at].n_dims);
	bool is_read = tuple && !PyErr_Occurred();
	Py_XDECREF(tuple);
	return is_read && set_shape(b, (size_t)at, shape, (int)n) == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *close_binding(PyObject *self, PyObject *unused)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	PyObject *done = inf_py_handle_close(b->handle);
	if (!done)
		return NULL;
	inf_py_abandon(b, "the binding was closed");
	inf_py_tell_loop(b->connection);
	return done;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
	return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args)
{
	return close_binding(self, NULL);
}

/* ---- what Python sees ---- */

static PyObject *get_inputs(PyObject *self, void *unused)
{
	return inf_py_slots_new((struct inf_py_binding *)self, false);
}

static PyObject *get_outputs(PyObject *self, void *unused)
{
	return inf_py_slots_new((struct inf_py_binding *)self, true);
}

static PyObject *get_method(PyObject *self, void *unused)
{
	return inf_py_ref(((struct inf_py_binding *)self)->method);
}

static PyObject *get_n_copied(PyObject *self, void *unused)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	if (!inf_py_handle_begin(b->handle))
		return NULL;
	size_t n = inferd_n_copied(b->handle->object);
	inf_py_end(b->connection, 0);
	return PyLong_FromSize_t(n);
}

static PyObject *get_timing(PyObject *self, void *unused)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	struct inferd_timing timing;
	if (!inf_py_handle_begin(b->handle))
		return NULL;
	inferd_last_timing(b->handle->object, &timing);
	inf_py_end(b->connection, 0);
	PyObject *tuple = PyStructSequence_New(inf_py_types.timing);
	PyObject *queue = PyLong_FromUnsignedLongLong(timing.queue_ns),
		 *run = PyLong_FromUnsignedLongLong(timing.run_ns);
	if (!tuple || !queue || !run) {
		Py_XDECREF(tuple);
		Py_XDECREF(queue);
		Py_XDECREF(run);
		return NULL;
	}
	PyStructSequence_SetItem(tuple, 0, queue);
	PyStructSequence_SetItem(tuple, 1, run);
	return tuple;
}

static PyObject *get_profile(PyObject *self, void *unused)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	size_t n;
	if (!inf_py_handle_begin(b->handle))
		return NULL;
	const void *bytes = inferd_last_profile(b->handle->object, &n);
	PyObject *profile = bytes ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n) : Py_NewRef(Py_None);
	inf_py_end(b->connection, 0);
	return profile;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(b->connection);
	Py_VISIT(b->method);
	Py_VISIT(b->future);
	Py_VISIT(b->next);
	return 0;
}

static int clear(PyObject *self)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	Py_CLEAR(b->future);
	Py_CLEAR(b->next);
	return 0;
}

static void delete(PyObject *self)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	PyObject_GC_UnTrack(self);
	clear(self);
	inf_py_handle_free(b->handle);
	for (size_t i = 0; b->places && i < b->method->n_inputs + b->method->n_outputs; i++)
		inf_py_unref(b->places[i].memory);
	PyMem_Free(b->places);
	PyMem_Free(b->shapes);
	free(b->error);
	inf_py_unref(b->method);
	inf_py_unref(b->connection);
	inf_py_delete(self);
}

#define REQUEST_OPTIONS                                                                                             \
	"timeout is in seconds; if it passes, the request ends with MissedDeadline. priority is one of Priority.\n" \
	"With profile, `profile` then has how long each instruction took, as an ETDump."

static PyMethodDef methods[] = {
	{ "infer", INF_PY_METHOD(infer), METH_FASTCALL | METH_KEYWORDS,
		"infer($self, /, *, timeout=None, priority=None, profile=False)\n--\n\n"
		"Run one request and wait for it. Other threads of Python run meanwhile.\n\n" REQUEST_OPTIONS },
	{ "infer_async", INF_PY_METHOD(inf_py_infer_async), METH_FASTCALL | METH_KEYWORDS,
		"infer_async($self, /, *, timeout=None, priority=None, profile=False)\n--\n\n"
		"Start a request on the running event loop of asyncio, and return a Future for its end.\n\n"
		"Cancelling the Future, or the task that awaits it, cancels the request.\n" REQUEST_OPTIONS "\n\n"
		">>> import asyncio\n"
		">>> async def main():\n"
		"...     with inferd.connect() as d:\n"
		"...         m = d.open(\"add_one\")\n"
		"...         bindings = [m.bind() for _ in range(3)]\n"
		"...         for i, b in enumerate(bindings):\n"
		"...             b.inputs[0][:] = i\n"
		"...         await asyncio.gather(*(b.infer_async() for b in bindings))\n"
		"...         return [b.outputs[0][0] for b in bindings]\n"
		">>> asyncio.run(main())\n"
		"[1.0, 2.0, 3.0]\n" },
	{ "_release", inf_py_release, METH_O, NULL },
	{ "set_input_shape", set_input_shape, METH_VARARGS,
		"set_input_shape($self, index, shape, /)\n--\n\n"
		"Set the shape of a dynamic input for the next request and those after it. index is a number or a name." },
	{ "close", close_binding, METH_NOARGS,
		"close($self, /)\n--\n\nClose the binding. Its request in flight ends with Cancelled. Views of its memory stay." },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", leave, METH_VARARGS, NULL },
	{ NULL },
};

static PyGetSetDef members[] = {
	{ "inputs", get_inputs, NULL, "The inputs, by index or name.", NULL },
	{ "outputs", get_outputs, NULL, "The outputs, by index or name, as the last request left them.", NULL },
	{ "method", get_method, NULL, "The Method that it belongs to.", NULL },
	{ "n_copied", get_n_copied, NULL, "How many tensors the daemon has to copy for each request.", NULL },
	{ "timing", get_timing, NULL, "The daemon's times for the last request, a Timing.", NULL },
	{ "profile", get_profile, NULL, "The profile of the last request as bytes, an ETDump; None: it has none.",
		NULL },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
		(char *)"The memory of a Method's inputs and outputs, as Method.bind() makes it; requests run on it.\n\n"
			">>> with inferd.connect() as d:\n"
			"...     b = d.open(\"add_one\").bind()\n"
			"...     b.inputs[0][:] = [1, 2]\n"
			"...     b.infer(timeout=10, priority=inferd.Priority.BATCH)\n"
			"...     b.outputs[\"output_0\"].tolist()\n"
			"[2.0, 3.0]\n" },
	{ Py_tp_dealloc, INF_PY_SLOT(delete) },
	{ Py_tp_traverse, INF_PY_SLOT(traverse) },
	{ Py_tp_clear, INF_PY_SLOT(clear) },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ 0, NULL },
};

PyType_Spec inf_py_binding_spec = {
	.name = "inferd.Binding",
	.basicsize = sizeof(struct inf_py_binding),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
