/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, and tensors that lie in it.
 *
 * A Memory is one mapping, or one allocation; it goes when the last object that refers to it has gone. A Tensor is a
 * view of one: an address, a datatype, a shape and strides. Neither knows of connections, so a view stays readable
 * whatever is closed. */
#ifndef CLIENTS_PYTHON_MEMORY_H
#define CLIENTS_PYTHON_MEMORY_H

#include "clients/python/module.h"

/* ---- datatypes (element.c) ---- */

enum inf_py_kind { INF_PY_INT, INF_PY_UINT, INF_PY_FLOAT, INF_PY_BF16, INF_PY_COMPLEX, INF_PY_BOOL };
struct inf_py_datatype {
	const char *name;   /* as in inferd.h */
	const char *format; /* of a buffer, PEP 3118. "H" for BF16, which has none: its bits */
	enum inf_py_kind kind;
	Py_ssize_t n_bytes; /* of an element */
	bool is_number;     /* false: bits without a meaning here, such as a quantized type */
};
/* NULL: there is none of that name. */
const struct inf_py_datatype *inf_py_datatype_find(const char *name);
/* The element at @at as a Python object. */
PyObject *inf_py_element_load(const struct inf_py_datatype *type, const char *at);
/* Write @value to @at. TypeError if it is no such number, OverflowError if it does not fit. */
int inf_py_element_store(const struct inf_py_datatype *type, char *at, PyObject *value);

/* ---- Memory (memory.c) ---- */

struct inf_py_memory {
	PyObject_HEAD char *bytes;
	size_t n_bytes;
	bool is_mapped; /* else of the heap */
};
extern PyType_Spec inf_py_memory_spec;
/* Map @n_bytes of a file. @fd stays the caller's. OSError if that fails. */
struct inf_py_memory *inf_py_memory_map(int fd, size_t n_bytes);
/* Allocate @n_bytes, which hold anything. */
struct inf_py_memory *inf_py_memory_new(size_t n_bytes);

/* ---- Tensor (tensor.c) ---- */

/* An n-dimensional array that somebody else may own. Strides are in bytes. */
struct inf_py_array {
	const struct inf_py_datatype *type;
	char *data;
	int n_dims;
	Py_ssize_t shape[INFERD_MAX_DIMS], strides[INFERD_MAX_DIMS];
};
Py_ssize_t inf_py_array_n_elements(const struct inf_py_array *array);
/* Dense strides, dimensions from the outermost to the innermost in @order; NULL: row-major. */
void inf_py_array_set_strides(struct inf_py_array *array, const uint8_t *order);

struct inf_py_tensor {
	PyObject_HEAD struct inf_py_memory *memory;
	struct inf_py_array array;
	bool is_read_only;
};
extern PyType_Spec inf_py_tensor_spec;
/* A view of @memory. */
PyObject *inf_py_tensor_new(struct inf_py_memory *memory, const struct inf_py_array *array, bool is_read_only);
/* A tensor in memory of its own with the elements of @array, row-major. */
PyObject *inf_py_tensor_copy(const struct inf_py_array *array);

/* ---- copying into tensors (assign.c) ---- */

/* Write the elements of @value to @to. @value is a buffer, an object with __dlpack__, a nested sequence of numbers, or
 * one number for all elements. A buffer has the datatype of @to, and its shape, but for leading dimensions of 1.
 * TypeError for another datatype, ValueError for another shape; then @to is as before, if @value is an array. */
int inf_py_assign(const struct inf_py_array *to, PyObject *value);
/* The shape of @value, which inf_py_assign would want: its number of dimensions, or -1. */
int inf_py_shape_of(PyObject *value, int64_t shape[INFERD_MAX_DIMS]);
/* Copy all elements. Both have the same shape and datatype; they may overlap. */
int inf_py_array_copy(const struct inf_py_array *to, const struct inf_py_array *from);

/* ---- DLPack (dlpack.c) ---- */

/* Tensor.__dlpack__ and __dlpack_device__. */
PyObject *inf_py_dlpack(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *inf_py_dlpack_device(PyObject *self, PyObject *unused);
/* Ask @object, which has __dlpack__, for its array on the CPU: *ret_array. The answer keeps the memory; the caller
 * decrements its reference when it has read the array. BufferError for an array that is not on the CPU. */
PyObject *inf_py_dlpack_take(PyObject *object, struct inf_py_array *ret_array);
#endif
