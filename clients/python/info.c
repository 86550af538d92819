/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd.TensorInfo and inferd.Timing: named tuples of what inferd.h says in structs.
 *
 * An info is copied once, when a Method is opened, so that it outlives everything. */
#include "clients/python/objects.h"

#include <string.h>

static PyStructSequence_Field info_fields[] = {
	{ "name", "of model.conf, else \"input_0\", \"output_1\"" },
	{ "datatype", "\"FP32\", ...; of a scalar \"INT\", \"DOUBLE\", \"BOOL\", \"None\", \"String\"" },
	{ "shape", "the sizes of the dimensions; the largest ones if is_dynamic" },
	{ "dim_order",
		"dimensions from outermost to innermost: (0, 1, 2, 3) is row-major, (0, 2, 3, 1) channels-last" },
	{ "n_bytes", "of the tensor at its largest" },
	{ "is_dynamic", "its shape may differ from request to request" },
	{ "is_scalar", "a number and no tensor" },
	{ "labels", "of an output: what the elements of its last dimension stand for" },
	{ "layout", "of an image: \"NCHW\", \"NHWC\", \"CHW\" or \"HWC\"; else None" },
	{ "colour", "\"RGB\", \"BGR\" or \"GRAY\"; None with layout" },
	{ "scale", "an element is pixel * scale[c] + offset[c], where pixel is 0 ... 255 and c its channel" },
	{ "offset", "see scale" },
	{ NULL },
};
static PyStructSequence_Desc info_type = { "inferd.TensorInfo", "What an input or output is.", info_fields, 12 };

static PyStructSequence_Field timing_fields[] = {
	{ "queue_ns", "how long the request waited in the daemon" },
	{ "run_ns", "how long it computed" },
	{ NULL },
};
static PyStructSequence_Desc timing_type = { "inferd.Timing", "The daemon's times for a request, in nanoseconds.",
	timing_fields, 2 };

int inf_py_infos_add(PyObject *module)
{
	inf_py_types.tensor_info = PyStructSequence_NewType(&info_type);
	inf_py_types.timing = PyStructSequence_NewType(&timing_type);
	if (!inf_py_types.tensor_info || !inf_py_types.timing)
		return -1;
	return PyModule_AddType(module, inf_py_types.tensor_info) < 0 ||
			       PyModule_AddType(module, inf_py_types.timing) < 0
		       ? -1
		       : 0;
}

static PyObject *text_or_none(const char *text)
{
	return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : Py_NewRef(Py_None);
}

static PyObject *shape_of(const struct inferd_tensor_info *from)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)from->n_dims);
	for (size_t i = 0; tuple && i < from->n_dims; i++) {
		PyObject *n = PyLong_FromLongLong(from->shape[i]);
		if (!n || PyTuple_SetItem(tuple, (Py_ssize_t)i, n) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *dim_order_of(const struct inferd_tensor_info *from)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)from->n_dims);
	for (size_t i = 0; tuple && i < from->n_dims; i++) {
		PyObject *n = PyLong_FromLong(from->dim_order[i]);
		if (!n || PyTuple_SetItem(tuple, (Py_ssize_t)i, n) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *labels_of(const struct inferd_tensor_info *from)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)from->n_labels);
	for (size_t i = 0; tuple && i < from->n_labels; i++) {
		PyObject *label = text_or_none(from->labels[i]);
		if (!label || PyTuple_SetItem(tuple, (Py_ssize_t)i, label) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *channels(const double *values, size_t n)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)n);
	for (size_t i = 0; tuple && i < n; i++) {
		PyObject *value = PyFloat_FromDouble(values[i]);
		if (!value || PyTuple_SetItem(tuple, (Py_ssize_t)i, value) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static int fill(const struct inferd_tensor_info *from, struct inf_py_info *to)
{
	*to = (struct inf_py_info){
		.n_dims = (int)from->n_dims, .n_bytes = from->n_bytes, .is_dynamic = from->is_dynamic
	};
	memcpy(to->shape, from->shape, sizeof to->shape);
	memcpy(to->dim_order, from->dim_order, sizeof to->dim_order);
	to->type = from->is_scalar ? NULL : inf_py_datatype_find(from->datatype);
	if (!to->type && !from->is_scalar) {
		PyErr_Format(PyExc_NotImplementedError, "%s has datatype %s, which this version does not know",
			from->name, from->datatype);
		return -1;
	}
	to->name = text_or_none(from->name);
	return to->name ? 0 : -1;
}

PyObject *inf_py_info_new(const struct inferd_tensor_info *from, struct inf_py_info *ret_info)
{
	if (fill(from, ret_info) < 0)
		return NULL;
	PyObject *info = PyStructSequence_New(inf_py_types.tensor_info);
	if (!info)
		return NULL;
	PyObject *members[] = { Py_NewRef(ret_info->name), text_or_none(from->datatype), shape_of(from),
		dim_order_of(from), PyLong_FromSize_t(from->n_bytes), PyBool_FromLong(from->is_dynamic),
		PyBool_FromLong(from->is_scalar), labels_of(from), text_or_none(from->layout),
		text_or_none(from->colour), channels(from->scale, from->n_channels),
		channels(from->offset, from->n_channels) };
	bool is_whole = true;
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		is_whole &= members[i] != NULL;
		PyStructSequence_SetItem(info, (Py_ssize_t)i, members[i]);
	}
	if (!is_whole)
		Py_CLEAR(info);
	return info;
}
