/* SPDX-License-Identifier: BSD-3-Clause */
/* DLPack: hand a tensor to another library, and take an array of one.
 *
 * A consumer names the newest version that it knows. Those from 1.0 on get a struct with flags, and learn that an
 * output is read-only. Older ones get the struct without flags, for outputs too: it cannot say so, and the memory is
 * this process's to write. Whoever takes the capsule frees the struct, on any thread; a capsule that nobody took frees
 * it itself. */
#include "clients/python/memory.h"
#include "clients/python/dlpack.h"

#include <string.h>

/* One piece of memory for both kinds of struct. */
struct export
{
	union {
		struct dl_managed managed;
		struct dl_versioned versioned;
	};
	PyObject *tensor; /* its memory is exported */
	int64_t shape[INFERD_MAX_DIMS], strides[INFERD_MAX_DIMS];
};

static void export_free(struct export *e)
{
	if (Py_IsInitialized()) { /* else the process is about to end */
		PyGILState_STATE state = PyGILState_Ensure();
		inf_py_unref(e->tensor);
		PyMem_Free(e);
		PyGILState_Release(state);
	}
}

static void free_managed(struct dl_managed *self)
{
	export_free(self->context);
}

static void free_versioned(struct dl_versioned *self)
{
	export_free(self->context);
}

/* Nobody has taken the capsule. */
static void delete_capsule(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, "dltensor")) {
		struct dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
		managed->free(managed);
	} else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		struct dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
		versioned->free(versioned);
	}
}

static const uint8_t codes[] = {
	[INF_PY_INT] = DL_INT,
	[INF_PY_UINT] = DL_UINT,
	[INF_PY_FLOAT] = DL_FLOAT,
	[INF_PY_BF16] = DL_BF16,
	[INF_PY_COMPLEX] = DL_COMPLEX,
	[INF_PY_BOOL] = DL_BOOL,
};

static struct dl_tensor describe(const struct inf_py_array *a, struct export *e)
{
	for (int i = 0; i < a->n_dims; i++) {
		e->shape[i] = a->shape[i];
		e->strides[i] = a->strides[i] / a->type->n_bytes;
	}
	return (struct dl_tensor){ .data = a->data,
		.device = { DL_CPU, 0 },
		.n_dims = a->n_dims,
		.datatype = { codes[a->type->kind], (uint8_t)(8 * a->type->n_bytes), 1 },
		.shape = e->shape,
		.strides = e->strides };
}

/* @tensor's reference is taken over. */
static PyObject *export_new(struct inf_py_tensor *tensor, bool is_versioned, uint64_t flags)
{
	struct export *e = PyMem_Calloc(1, sizeof *e);
	if (!e) {
		inf_py_unref(tensor);
		return PyErr_NoMemory();
	}
	e->tensor = (PyObject *)tensor;
	if (is_versioned)
		e->versioned = (struct dl_versioned){ .major = 1,
			.context = e,
			.free = free_versioned,
			.flags = flags,
			.tensor = describe(&tensor->array, e) };
	else
		e->managed = (struct dl_managed){
			.context = e, .free = free_managed, .tensor = describe(&tensor->array, e)
		};
	PyObject *capsule = PyCapsule_New(is_versioned ? (void *)&e->versioned : (void *)&e->managed,
		is_versioned ? "dltensor_versioned" : "dltensor", delete_capsule);
	if (!capsule)
		export_free(e);
	return capsule;
}

/* Whether the caller takes the struct with flags. -1: an exception is set. */
static int wants_version(PyObject *max_version)
{
	int major = 0, minor = 0;
	if (max_version == Py_None)
		return 0;
	if (!PyTuple_Check(max_version) || !PyArg_ParseTuple(max_version, "ii", &major, &minor)) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError, "max_version is a pair of numbers");
		return -1;
	}
	return major >= 1;
}

static int check_device(PyObject *device)
{
	int type = DL_CPU, id = 0;
	if (device == Py_None)
		return 0;
	if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &id)) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError, "dl_device is a pair of numbers");
		return -1;
	}
	if (type == DL_CPU)
		return 0;
	PyErr_SetString(PyExc_BufferError, "the tensor lies in memory of the CPU");
	return -1;
}

PyObject *inf_py_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "stream", "max_version", "dl_device", "copy", NULL };
	PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
	struct inf_py_tensor *t = (struct inf_py_tensor *)self;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &max_version, &device,
		    &copy))
		return NULL;
	int is_versioned = wants_version(max_version), is_copy = copy == Py_None ? 0 : PyObject_IsTrue(copy);
	if (is_versioned < 0 || is_copy < 0 || check_device(device) < 0)
		return NULL;
	if (!t->array.type->is_number) {
		PyErr_Format(PyExc_BufferError, "DLPack has no %s", t->array.type->name);
		return NULL;
	}
	uint64_t flags = is_copy ? DL_COPIED : t->is_read_only ? DL_READ_ONLY : 0;
	PyObject *exported = is_copy ? inf_py_tensor_copy(&t->array) : Py_NewRef(self);
	return exported ? export_new((struct inf_py_tensor *)exported, is_versioned, flags) : NULL;
}

PyObject *inf_py_dlpack_device(PyObject *self, PyObject *unused)
{
	return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ---- taking ---- */

static const struct inf_py_datatype *find_type(struct dl_datatype datatype)
{
	static const char *const names[] = { "FP32", "FP16", "FP64", "BF16", "INT8", "INT16", "INT32", "INT64", "UINT8",
		"UINT16", "UINT32", "UINT64", "BOOL", "COMPLEX64", "COMPLEX128" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const struct inf_py_datatype *type = inf_py_datatype_find(names[i]);
		if (codes[type->kind] == datatype.code && 8 * type->n_bytes == datatype.bits && datatype.n_lanes == 1)
			return type;
	}
	return NULL;
}

static int read_tensor(const struct dl_tensor *from, struct inf_py_array *ret_array)
{
	*ret_array = (struct inf_py_array){ .type = find_type(from->datatype), .n_dims = from->n_dims };
	if (from->device.type != DL_CPU) {
		PyErr_SetString(PyExc_BufferError, "the array is not on the CPU: copy it there first");
		return -1;
	}
	if (!ret_array->type || from->n_dims < 0 || from->n_dims > INFERD_MAX_DIMS) {
		PyErr_Format(PyExc_BufferError, "an array of %d dimensions, of a type with code %d and %d bits",
			from->n_dims, from->datatype.code, from->datatype.bits);
		return -1;
	}
	for (int i = 0; i < from->n_dims; i++)
		ret_array->shape[i] = (Py_ssize_t)from->shape[i];
	inf_py_array_set_strides(ret_array, NULL);
	for (int i = 0; from->strides && i < from->n_dims; i++)
		ret_array->strides[i] = (Py_ssize_t)from->strides[i] * ret_array->type->n_bytes;
	ret_array->data = (char *)from->data + from->offset;
	return 0;
}

/* Call @object.__dlpack__, with the version that this file knows if it takes one. */
static PyObject *ask(PyObject *object)
{
	PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *empty = PyTuple_New(0);
	PyObject *keywords = Py_BuildValue("{s:(ii)}", "max_version", 1, 0), *capsule = NULL;
	if (method && empty && keywords)
		capsule = PyObject_Call(method, empty, keywords);
	if (method && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* an older library */
		PyErr_Clear();
		capsule = PyObject_CallNoArgs(method);
	}
	Py_XDECREF(method);
	Py_XDECREF(empty);
	Py_XDECREF(keywords);
	return capsule;
}

/* The capsule itself keeps the memory: it is read and dropped, never marked as used. */
PyObject *inf_py_dlpack_take(PyObject *object, struct inf_py_array *ret_array)
{
	PyObject *capsule = ask(object);
	const struct dl_tensor *tensor = NULL;
	if (!capsule)
		return NULL;
	if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		const struct dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
		tensor = versioned->major == 1 ? &versioned->tensor : NULL;
	} else if (PyCapsule_IsValid(capsule, "dltensor")) {
		const struct dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
		tensor = &managed->tensor;
	}
	if (!tensor)
		PyErr_SetString(PyExc_BufferError, "__dlpack__ returned no capsule of DLPack 1");
	if (tensor && read_tensor(tensor, ret_array) == 0)
		return capsule;
	Py_DECREF(capsule);
	return NULL;
}
