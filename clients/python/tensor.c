/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors: views of memory, as buffers (PEP 3118), through DLPack, and by their own operators.
 *
 * The operators are the few that a program without NumPy needs: an index, a slice, the assignment of both, iteration.
 * Everything else is for the libraries of arrays, which take a tensor without a copy. A view is never written to
 * through a read-only tensor; outputs are read-only, since the daemon writes them. */
#include "clients/python/memory.h"

#include <string.h>

/* ---- arrays ---- */

Py_ssize_t inf_py_array_n_elements(const struct inf_py_array *array)
{
	Py_ssize_t n = 1;
	for (int i = 0; i < array->n_dims; i++)
		n *= array->shape[i];
	return n;
}

void inf_py_array_set_strides(struct inf_py_array *array, const uint8_t *order)
{
	Py_ssize_t stride = array->type->n_bytes;
	for (int i = array->n_dims - 1; i >= 0; i--) {
		int dim = order ? order[i] : i;
		array->strides[dim] = stride;
		stride *= array->shape[dim] > 0 ? array->shape[dim] : 1;
	}
}

/* ---- making tensors ---- */

PyObject *inf_py_tensor_new(struct inf_py_memory *memory, const struct inf_py_array *array, bool is_read_only)
{
	struct inf_py_tensor *t = inf_py_new(inf_py_types.tensor);
	if (!t)
		return NULL;
	t->memory = inf_py_ref(memory);
	t->array = *array;
	t->is_read_only = is_read_only;
	return (PyObject *)t;
}

PyObject *inf_py_tensor_copy(const struct inf_py_array *array)
{
	struct inf_py_array copy = *array;
	PyObject *t = NULL;
	size_t n_bytes = (size_t)(inf_py_array_n_elements(array) * array->type->n_bytes);
	struct inf_py_memory *memory = inf_py_memory_new(n_bytes);
	if (!memory)
		return NULL;
	copy.data = memory->bytes;
	inf_py_array_set_strides(&copy, NULL);
	if (inf_py_array_copy(&copy, array) == 0)
		t = inf_py_tensor_new(memory, &copy, false);
	inf_py_unref(memory);
	return t;
}

static void delete(PyObject *self)
{
	inf_py_unref(((struct inf_py_tensor *)self)->memory);
	inf_py_delete(self);
}

/* ---- buffers ---- */

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
	struct inf_py_tensor *t = (struct inf_py_tensor *)self;
	struct inf_py_array *a = &t->array;
	*view = (Py_buffer){ .buf = a->data,
		.len = inf_py_array_n_elements(a) * a->type->n_bytes,
		.itemsize = a->type->n_bytes,
		.readonly = t->is_read_only,
		.ndim = a->n_dims,
		.format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)a->type->format : NULL,
		.shape = a->shape,
		.strides = a->strides };
	const char *error = NULL;
	if (t->is_read_only && (flags & PyBUF_WRITABLE))
		error = "the tensor is read-only";
	else if (((flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS) &&
		 !PyBuffer_IsContiguous(view, 'C'))
		error = "the tensor is not contiguous in row-major order";
	else if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !PyBuffer_IsContiguous(view, 'F'))
		error = "the tensor is not contiguous in column-major order";
	else if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !PyBuffer_IsContiguous(view, 'A'))
		error = "the tensor is not contiguous";
	if (error) {
		view->obj = NULL;
		PyErr_SetString(PyExc_BufferError, error);
		return -1;
	}
	if ((flags & PyBUF_ND) != PyBUF_ND) {
		view->shape = NULL;
		view->ndim = 1;
	}
	if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
		view->strides = NULL;
	view->obj = Py_NewRef(self);
	return 0;
}

/* ---- indices ---- */

/* Apply @index to dimension *dim of @a: an int takes it out, a slice narrows it and goes on to the next. */
static int apply_index(struct inf_py_array *a, int *dim, PyObject *index)
{
	if (*dim >= a->n_dims) {
		PyErr_Format(PyExc_IndexError, "more indices than dimensions");
		return -1;
	}
	Py_ssize_t n = a->shape[*dim], start, stop, step;
	if (PySlice_Check(index)) {
		if (PySlice_Unpack(index, &start, &stop, &step) < 0)
			return -1;
		Py_ssize_t n_left = PySlice_AdjustIndices(n, &start, &stop, step);
		if (n_left) /* otherwise start may lie outside */
			a->data += start * a->strides[*dim];
		a->shape[*dim] = n_left;
		a->strides[*dim] *= n_left > 1 ? step : 1;
		++*dim;
		return 0;
	}
	Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_IndexError);
	if (at == -1 && PyErr_Occurred())
		return -1;
	at += at < 0 ? n : 0;
	if (at < 0 || at >= n) {
		PyErr_Format(PyExc_IndexError, "an index outside of 0 to %zd", n - 1);
		return -1;
	}
	a->data += at * a->strides[*dim];
	a->n_dims--;
	size_t n_after = (size_t)(a->n_dims - *dim);
	memmove(a->shape + *dim, a->shape + *dim + 1, n_after * sizeof *a->shape);
	memmove(a->strides + *dim, a->strides + *dim + 1, n_after * sizeof *a->strides);
	return 0;
}

/* Apply a tuple, in which one ... stands for all dimensions that the others leave. */
static int apply_tuple(struct inf_py_array *a, PyObject *key)
{
	Py_ssize_t n = PyTuple_Size(key);
	int dim = 0;
	bool has_rest = false;
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *index = PyTuple_GetItem(key, i);
		if (index != Py_Ellipsis) {
			if (apply_index(a, &dim, index) < 0)
				return -1;
			continue;
		}
		Py_ssize_t n_rest = a->n_dims - dim - (n - i - 1);
		if (has_rest || n_rest < 0) {
			PyErr_SetString(PyExc_IndexError,
				has_rest ? "more than one ..." : "more indices than dimensions");
			return -1;
		}
		has_rest = true;
		dim += (int)n_rest;
	}
	return 0;
}

static int apply_key(struct inf_py_array *a, PyObject *key)
{
	int dim = 0;
	if (key == Py_Ellipsis)
		return 0;
	return PyTuple_Check(key) ? apply_tuple(a, key) : apply_index(a, &dim, key);
}

/* Whether @key leaves one element and not a view without dimensions: it has no slice and no ... in it. */
static bool is_element(PyObject *key, const struct inf_py_array *a)
{
	if (a->n_dims || key == Py_Ellipsis)
		return false;
	for (Py_ssize_t i = 0; PyTuple_Check(key) && i < PyTuple_Size(key); i++)
		if (PyTuple_GetItem(key, i) == Py_Ellipsis)
			return false;
	return true;
}

static PyObject *subscript(PyObject *self, PyObject *key)
{
	struct inf_py_tensor *t = (struct inf_py_tensor *)self;
	struct inf_py_array a = t->array;
	if (apply_key(&a, key) < 0)
		return NULL;
	return is_element(key, &a) ? inf_py_element_load(a.type, a.data)
				   : inf_py_tensor_new(t->memory, &a, t->is_read_only);
}

static int assign_subscript(PyObject *self, PyObject *key, PyObject *value)
{
	struct inf_py_tensor *t = (struct inf_py_tensor *)self;
	struct inf_py_array a = t->array;
	if (!value || t->is_read_only) {
		PyErr_SetString(PyExc_TypeError, value ? "the tensor is read-only" : "elements cannot be deleted");
		return -1;
	}
	return apply_key(&a, key) < 0 ? -1 : inf_py_assign(&a, value);
}

static Py_ssize_t length(PyObject *self)
{
	const struct inf_py_array *a = &((struct inf_py_tensor *)self)->array;
	if (a->n_dims)
		return a->shape[0];
	PyErr_SetString(PyExc_TypeError, "a tensor without dimensions has no length");
	return -1;
}

static PyObject *item(PyObject *self, Py_ssize_t index)
{
	PyObject *key = PyLong_FromSsize_t(index);
	PyObject *found = key ? subscript(self, key) : NULL;
	Py_XDECREF(key);
	return found;
}

/* ---- methods ---- */

static PyObject *list_of(const struct inf_py_array *a)
{
	if (!a->n_dims)
		return inf_py_element_load(a->type, a->data);
	PyObject *list = PyList_New(a->shape[0]);
	struct inf_py_array part = *a;
	part.n_dims--;
	memmove(part.shape, part.shape + 1, (size_t)part.n_dims * sizeof *part.shape);
	memmove(part.strides, part.strides + 1, (size_t)part.n_dims * sizeof *part.strides);
	for (Py_ssize_t i = 0; list && i < a->shape[0]; i++) {
		part.data = a->data + i * a->strides[0];
		PyObject *element = list_of(&part);
		if (!element || PyList_SetItem(list, i, element) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *to_list(PyObject *self, PyObject *unused)
{
	return list_of(&((struct inf_py_tensor *)self)->array);
}

static PyObject *numbers(const Py_ssize_t *from, int n)
{
	PyObject *tuple = PyTuple_New(n);
	for (int i = 0; tuple && i < n; i++) {
		PyObject *number = PyLong_FromSsize_t(from[i]);
		if (!number || PyTuple_SetItem(tuple, i, number) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *get_shape(PyObject *self, void *unused)
{
	const struct inf_py_array *a = &((struct inf_py_tensor *)self)->array;
	return numbers(a->shape, a->n_dims);
}

static PyObject *get_strides(PyObject *self, void *unused)
{
	const struct inf_py_array *a = &((struct inf_py_tensor *)self)->array;
	return numbers(a->strides, a->n_dims);
}

static PyObject *get_datatype(PyObject *self, void *unused)
{
	return PyUnicode_FromString(((struct inf_py_tensor *)self)->array.type->name);
}

static PyObject *get_n_bytes(PyObject *self, void *unused)
{
	const struct inf_py_array *a = &((struct inf_py_tensor *)self)->array;
	return PyLong_FromSsize_t(inf_py_array_n_elements(a) * a->type->n_bytes);
}

static PyObject *get_read_only(PyObject *self, void *unused)
{
	return PyBool_FromLong(((struct inf_py_tensor *)self)->is_read_only);
}

static PyObject *represent(PyObject *self)
{
	struct inf_py_tensor *t = (struct inf_py_tensor *)self;
	PyObject *shape = get_shape(self, NULL);
	PyObject *text = shape ? PyUnicode_FromFormat("<inferd.Tensor %s %R%s>", t->array.type->name, shape,
					 t->is_read_only ? ", read-only" : "")
			       : NULL;
	Py_XDECREF(shape);
	return text;
}

static PyGetSetDef members[] = {
	{ "shape", get_shape, NULL, "The sizes of the dimensions.", NULL },
	{ "strides", get_strides, NULL, "The distance of neighbours in each dimension, in bytes.", NULL },
	{ "datatype", get_datatype, NULL, "\"FP32\", \"INT64\", \"BOOL\", ...", NULL },
	{ "nbytes", get_n_bytes, NULL, "The size of all elements, in bytes.", NULL },
	{ "readonly", get_read_only, NULL, "Whether elements cannot be assigned: so for outputs.", NULL },
	{ NULL },
};

static PyMethodDef methods[] = {
	{ "tolist", to_list, METH_NOARGS,
		"tolist($self, /)\n--\n\nThe elements as nested lists; of a tensor without dimensions, the number." },
	{ "__dlpack__", INF_PY_METHOD(inf_py_dlpack), METH_VARARGS | METH_KEYWORDS,
		"__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
		"The tensor for another library, through DLPack." },
	{ "__dlpack_device__", inf_py_dlpack_device, METH_NOARGS,
		"__dlpack_device__($self, /)\n--\n\nThe device of DLPack where the tensor lies: the CPU." },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
		(char *)"An array in memory that is shared with the daemon, or in memory of its own.\n\n"
			"memoryview(), numpy.asarray() and from_dlpack() of NumPy, PyTorch and others take it without a copy. A view "
			"stays\nreadable when everything else is closed.\n\n"
			">>> with inferd.connect() as d:\n"
			"...     b = d.open(\"add_one\").bind()\n"
			"...     b.inputs[0][:] = [1, 2]\n"
			"...     b.infer()\n"
			"...     y = b.outputs[0]\n"
			">>> y\n"
			"<inferd.Tensor FP32 (2,), read-only>\n"
			">>> y[1], y[::-1].tolist(), memoryview(y).shape\n"
			"(3.0, [3.0, 2.0], (2,))\n" },
	{ Py_tp_dealloc, INF_PY_SLOT(delete) },
	{ Py_tp_repr, INF_PY_SLOT(represent) },
	{ Py_bf_getbuffer, INF_PY_SLOT(get_buffer) },
	{ Py_tp_iter, INF_PY_SLOT(PySeqIter_New) },
	{ Py_mp_length, INF_PY_SLOT(length) },
	{ Py_mp_subscript, INF_PY_SLOT(subscript) },
	{ Py_mp_ass_subscript, INF_PY_SLOT(assign_subscript) },
	{ Py_sq_length, INF_PY_SLOT(length) },
	{ Py_sq_item, INF_PY_SLOT(item) },
	{ Py_tp_getset, members },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

PyType_Spec inf_py_tensor_spec = {
	.name = "inferd.Tensor",
	.basicsize = sizeof(struct inf_py_tensor),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
