/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying into a tensor: from an array of any strides, from nested sequences, from one number.
 *
 * An array is copied as it is, never converted: a datatype that differs is more often a mistake than a wish, and a
 * conversion would cost more than the request. The sentence says what is expected. */
#include "clients/python/memory.h"

#include <string.h>

/* ---- from array to array ---- */

static bool is_dense(const struct inf_py_array *array)
{
	Py_ssize_t stride = array->type->n_bytes;
	for (int i = array->n_dims - 1; i >= 0; i--) {
		if (array->shape[i] != 1 && array->strides[i] != stride)
			return false;
		stride *= array->shape[i];
	}
	return true;
}

/* The bytes that the elements span. The array is not empty. */
static void find_extent(const struct inf_py_array *array, const char **ret_begin, const char **ret_end)
{
	*ret_begin = array->data;
	*ret_end = array->data + array->type->n_bytes;
	for (int i = 0; i < array->n_dims; i++) {
		Py_ssize_t last = (array->shape[i] - 1) * array->strides[i];
		*(last < 0 ? ret_begin : ret_end) += last;
	}
}

static bool overlaps(const struct inf_py_array *a, const struct inf_py_array *b)
{
	const char *a_begin, *a_end, *b_begin, *b_end;
	find_extent(a, &a_begin, &a_end);
	find_extent(b, &b_begin, &b_end);
	return a_begin < b_end && b_begin < a_end;
}

static void copy_from_dim(const struct inf_py_array *to, const struct inf_py_array *from, const int *order, int depth,
	char *at, const char *source)
{
	if (depth == to->n_dims) {
		memcpy(at, source, (size_t)to->type->n_bytes);
		return;
	}
	int dim = order[depth];
	Py_ssize_t n = to->shape[dim], step = to->strides[dim], source_step = from->strides[dim];
	bool is_row = depth == to->n_dims - 1 && step == to->type->n_bytes && source_step == step;
	if (is_row) {
		memcpy(at, source, (size_t)(n * step));
		return;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		copy_from_dim(to, from, order, depth + 1, at + i * step, source + i * source_step);
}

static Py_ssize_t magnitude(Py_ssize_t n)
{
	return n < 0 ? -n : n;
}

/* Neither is empty, and they do not overlap. Writes go through memory in its order. */
static void copy_elements(const struct inf_py_array *to, const struct inf_py_array *from)
{
	int order[INFERD_MAX_DIMS] = { 0 };
	for (int i = 0; i < to->n_dims; i++) { /* sorted by stride, the largest first */
		int at = i;
		for (; at > 0 && magnitude(to->strides[order[at - 1]]) < magnitude(to->strides[i]); at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	copy_from_dim(to, from, order, 0, to->data, from->data);
}

int inf_py_array_copy(const struct inf_py_array *to, const struct inf_py_array *from)
{
	Py_ssize_t n = inf_py_array_n_elements(to);
	if (!n)
		return 0;
	if (is_dense(to) && is_dense(from)) {
		memmove(to->data, from->data, (size_t)(n * to->type->n_bytes));
		return 0;
	}
	if (!overlaps(to, from)) {
		copy_elements(to, from);
		return 0;
	}
	struct inf_py_array between = *from;
	between.data = PyMem_Malloc((size_t)(n * to->type->n_bytes));
	if (!between.data) {
		PyErr_NoMemory();
		return -1;
	}
	inf_py_array_set_strides(&between, NULL);
	copy_elements(&between, from);
	copy_elements(to, &between);
	PyMem_Free(between.data);
	return 0;
}

/* Leave out leading dimensions of 1 until the array has @n_dims. */
static void strip(struct inf_py_array *array, int n_dims)
{
	int n = 0;
	while (array->n_dims - n > n_dims && array->shape[n] == 1)
		n++;
	array->n_dims -= n;
	memmove(array->shape, array->shape + n, (size_t)array->n_dims * sizeof *array->shape);
	memmove(array->strides, array->strides + n, (size_t)array->n_dims * sizeof *array->strides);
}

static PyObject *shape_tuple(const struct inf_py_array *array)
{
	PyObject *shape = PyTuple_New(array->n_dims);
	for (int i = 0; shape && i < array->n_dims; i++) {
		PyObject *n = PyLong_FromSsize_t(array->shape[i]);
		if (!n || PyTuple_SetItem(shape, i, n) < 0)
			Py_CLEAR(shape);
	}
	return shape;
}

static int refuse_shape(const struct inf_py_array *to, const struct inf_py_array *from)
{
	PyObject *wanted = shape_tuple(to), *given = shape_tuple(from);
	if (wanted && given)
		PyErr_Format(PyExc_ValueError, "the tensor has shape %R, not %R", wanted, given);
	Py_XDECREF(wanted);
	Py_XDECREF(given);
	return -1;
}

static int assign_array(const struct inf_py_array *to, const struct inf_py_array *from)
{
	struct inf_py_array target = *to, source = *from;
	strip(&target, source.n_dims);
	strip(&source, target.n_dims);
	if (target.n_dims != source.n_dims ||
		memcmp(target.shape, source.shape, (size_t)target.n_dims * sizeof *target.shape) != 0)
		return refuse_shape(to, from);
	return inf_py_array_copy(&target, &source);
}

/* ---- from one number ---- */

static bool has_dlpack(PyObject *value)
{
	return PyObject_HasAttrString(value, "__dlpack__");
}

static bool is_sequence(PyObject *value)
{
	return PySequence_Check(value) && !PyUnicode_Check(value) && !PyBytes_Check(value);
}

static int store(const struct inf_py_array *to, char *at, PyObject *value)
{
	if (PyNumber_Check(value))
		return inf_py_element_store(to->type, at, value);
	PyErr_Format(PyExc_TypeError, "cannot copy an object of type %R into a tensor", (PyObject *)Py_TYPE(value));
	return -1;
}

static int fill(const struct inf_py_array *to, PyObject *value)
{
	char element[16];
	if (store(to, element, value) < 0)
		return -1;
	struct inf_py_array from = { .type = to->type, .data = element, .n_dims = to->n_dims };
	memcpy(from.shape, to->shape, sizeof from.shape); /* every stride is 0 */
	if (inf_py_array_n_elements(to))
		copy_elements(to, &from);
	return 0;
}

/* ---- from buffers ---- */

/* The kind of a format's one element in this machine's order. False: another format. */
static bool parse_format(const char *format, enum inf_py_kind *ret_kind)
{
	const char first = format[0];
	bool is_swapped = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? first == '>' || first == '!' : first == '<';
	if (first && strchr("@=<>!", first))
		format++;
	bool is_complex = format[0] == 'Z';
	format += is_complex;
	if (!format[0] || format[1] || (is_swapped && !strchr("bBc?", format[0])))
		return false;
	if (strchr("bhilqn", format[0]))
		*ret_kind = INF_PY_INT;
	else if (strchr("BHILQN", format[0]))
		*ret_kind = INF_PY_UINT;
	else if (strchr("efd", format[0]))
		*ret_kind = is_complex ? INF_PY_COMPLEX : INF_PY_FLOAT;
	else if (format[0] == '?')
		*ret_kind = INF_PY_BOOL;
	else
		return false;
	return true;
}

static bool is_format_of(const Py_buffer *view, const struct inf_py_datatype *type)
{
	enum inf_py_kind kind;
	if (view->itemsize != type->n_bytes || !parse_format(view->format ? view->format : "B", &kind))
		return false;
	if (!type->is_number || type->kind == INF_PY_BF16) /* bits */
		return kind == INF_PY_UINT || kind == INF_PY_INT;
	return kind == type->kind;
}

/* Take @object's buffer. The caller releases @ret_view. */
static int take_buffer(PyObject *object, Py_buffer *ret_view, struct inf_py_array *ret_array)
{
	if (PyObject_GetBuffer(object, ret_view, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0)
		return -1;
	if (ret_view->ndim > INFERD_MAX_DIMS) {
		PyErr_Format(PyExc_ValueError, "an array of %d dimensions; a tensor has at most %d", ret_view->ndim,
			INFERD_MAX_DIMS);
		PyBuffer_Release(ret_view);
		return -1;
	}
	*ret_array = (struct inf_py_array){ .data = ret_view->buf, .n_dims = ret_view->ndim };
	for (int i = 0; i < ret_view->ndim; i++) {
		ret_array->shape[i] = ret_view->shape[i];
		ret_array->strides[i] = ret_view->strides[i];
	}
	return 0;
}

static int assign_buffer(const struct inf_py_array *to, PyObject *value)
{
	Py_buffer view;
	struct inf_py_array from;
	int rc = -1;
	if (take_buffer(value, &view, &from) < 0)
		return -1;
	from.type = to->type;
	if (is_format_of(&view, to->type))
		rc = assign_array(to, &from);
	else if (!from.n_dims && PyNumber_Check(value)) /* a number of NumPy: of any type, as those of Python */
		rc = fill(to, value);
	else
		PyErr_Format(PyExc_TypeError,
			"the tensor is %s, a buffer of format '%s'; the array has format '%s': convert it first",
			to->type->name, to->type->format, view.format ? view.format : "B");
	PyBuffer_Release(&view);
	return rc;
}

static int assign_dlpack(const struct inf_py_array *to, PyObject *value)
{
	struct inf_py_array from;
	int rc = -1;
	PyObject *keeper = inf_py_dlpack_take(value, &from);
	if (!keeper)
		return -1;
	if (from.type == to->type)
		rc = assign_array(to, &from);
	else
		PyErr_Format(PyExc_TypeError, "the tensor is %s, the array %s: convert it first", to->type->name,
			from.type->name);
	Py_DECREF(keeper);
	return rc;
}

/* ---- from nested sequences ---- */

static int assign_part(const struct inf_py_array *part, PyObject *item)
{
	if (!part->n_dims)
		return store(part, part->data, item);
	if (PyObject_CheckBuffer(item) || is_sequence(item) || has_dlpack(item))
		return inf_py_assign(part, item);
	PyErr_Format(PyExc_ValueError, "a number where a sequence of %zd is expected", part->shape[0]);
	return -1;
}

static int assign_sequence(const struct inf_py_array *to, PyObject *value)
{
	struct inf_py_array part = *to;
	Py_ssize_t n = PySequence_Size(value);
	int rc = 0;
	if (n < 0)
		return -1;
	if (!to->n_dims) {
		PyErr_Format(PyExc_ValueError, "a sequence of %zd where a number is expected", n);
		return -1;
	}
	if (n != to->shape[0]) {
		PyErr_Format(PyExc_ValueError, "a sequence of %zd where one of %zd is expected", n, to->shape[0]);
		return -1;
	}
	part.n_dims--;
	memmove(part.shape, part.shape + 1, (size_t)part.n_dims * sizeof *part.shape);
	memmove(part.strides, part.strides + 1, (size_t)part.n_dims * sizeof *part.strides);
	for (Py_ssize_t i = 0; i < n && rc == 0; i++) {
		PyObject *item = PySequence_GetItem(value, i);
		part.data = to->data + i * to->strides[0];
		rc = item ? assign_part(&part, item) : -1;
		Py_XDECREF(item);
	}
	return rc;
}

int inf_py_assign(const struct inf_py_array *to, PyObject *value)
{
	if (PyObject_CheckBuffer(value))
		return assign_buffer(to, value);
	if (has_dlpack(value))
		return assign_dlpack(to, value);
	if (is_sequence(value))
		return assign_sequence(to, value);
	return fill(to, value);
}

/* ---- shapes ---- */

static int shape_of_array(const struct inf_py_array *array, int64_t shape[INFERD_MAX_DIMS])
{
	for (int i = 0; i < array->n_dims; i++)
		shape[i] = array->shape[i];
	return array->n_dims;
}

static int shape_of_sequence(PyObject *value, int64_t shape[INFERD_MAX_DIMS])
{
	int n_dims = 0;
	PyObject *part = Py_NewRef(value);
	while (is_sequence(part)) {
		Py_ssize_t n = PySequence_Size(part);
		if (n >= 0 && n_dims == INFERD_MAX_DIMS)
			PyErr_Format(PyExc_ValueError, "more than %d dimensions", INFERD_MAX_DIMS);
		if (n < 0 || n_dims == INFERD_MAX_DIMS) {
			Py_DECREF(part);
			return -1;
		}
		shape[n_dims++] = n;
		PyObject *item = n ? PySequence_GetItem(part, 0) : Py_NewRef(Py_None);
		Py_DECREF(part);
		if (!item)
			return -1;
		part = item;
	}
	Py_DECREF(part);
	return n_dims;
}

int inf_py_shape_of(PyObject *value, int64_t shape[INFERD_MAX_DIMS])
{
	struct inf_py_array array;
	if (PyObject_CheckBuffer(value)) {
		Py_buffer view;
		if (take_buffer(value, &view, &array) < 0)
			return -1;
		PyBuffer_Release(&view);
		return shape_of_array(&array, shape);
	}
	if (has_dlpack(value)) {
		PyObject *keeper = inf_py_dlpack_take(value, &array);
		if (!keeper)
			return -1;
		Py_DECREF(keeper);
		return shape_of_array(&array, shape);
	}
	return shape_of_sequence(value, shape);
}
