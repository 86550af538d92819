/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements: the datatypes of inferd.h, and one element of each from and to Python.
 *
 * Datatypes without an equivalent in Python (quantized ones, FP8) are unsigned integers with the same bits. BF16 is a
 * float here; in a buffer it is an unsigned integer too, since the formats of buffers do not have it. */
#include "clients/python/memory.h"

#include <string.h>

__extension__ typedef _Float16 half;

static const struct inf_py_datatype types[] = {
	{ "FP32", "f", INF_PY_FLOAT, 4, true },
	{ "FP16", "e", INF_PY_FLOAT, 2, true },
	{ "FP64", "d", INF_PY_FLOAT, 8, true },
	{ "BF16", "H", INF_PY_BF16, 2, true },
	{ "INT8", "b", INF_PY_INT, 1, true },
	{ "INT16", "h", INF_PY_INT, 2, true },
	{ "INT32", "i", INF_PY_INT, 4, true },
	{ "INT64", "q", INF_PY_INT, 8, true },
	{ "UINT8", "B", INF_PY_UINT, 1, true },
	{ "UINT16", "H", INF_PY_UINT, 2, true },
	{ "UINT32", "I", INF_PY_UINT, 4, true },
	{ "UINT64", "Q", INF_PY_UINT, 8, true },
	{ "BOOL", "?", INF_PY_BOOL, 1, true },
	{ "COMPLEX64", "Zf", INF_PY_COMPLEX, 8, true },
	{ "COMPLEX128", "Zd", INF_PY_COMPLEX, 16, true },
	{ "COMPLEX32", "I", INF_PY_UINT, 4, false },
	{ "QINT8", "B", INF_PY_UINT, 1, false },
	{ "QUINT8", "B", INF_PY_UINT, 1, false },
	{ "QINT32", "I", INF_PY_UINT, 4, false },
	{ "QUINT4X2", "B", INF_PY_UINT, 1, false },
	{ "QUINT2X4", "B", INF_PY_UINT, 1, false },
	{ "BITS1X8", "B", INF_PY_UINT, 1, false },
	{ "BITS2X4", "B", INF_PY_UINT, 1, false },
	{ "BITS4X2", "B", INF_PY_UINT, 1, false },
	{ "BITS8", "B", INF_PY_UINT, 1, false },
	{ "BITS16", "H", INF_PY_UINT, 2, false },
	{ "FP8E5M2", "B", INF_PY_UINT, 1, false },
	{ "FP8E4M3FN", "B", INF_PY_UINT, 1, false },
	{ "FP8E5M2FNUZ", "B", INF_PY_UINT, 1, false },
	{ "FP8E4M3FNUZ", "B", INF_PY_UINT, 1, false },
};

const struct inf_py_datatype *inf_py_datatype_find(const char *name)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

/* ---- numbers ---- */

static double load_float(Py_ssize_t n_bytes, const char *at)
{
	half small;
	float single;
	double value;
	if (n_bytes == 2) {
		memcpy(&small, at, sizeof small);
		return (double)small;
	}
	if (n_bytes == 4) {
		memcpy(&single, at, sizeof single);
		return (double)single;
	}
	memcpy(&value, at, sizeof value);
	return value;
}

static void store_float(Py_ssize_t n_bytes, char *at, double value)
{
	half small = (half)value;
	float single = (float)value;
	memcpy(at, n_bytes == 2 ? (void *)&small : n_bytes == 4 ? (void *)&single : (void *)&value, (size_t)n_bytes);
}

static double load_bf16(const char *at)
{
	uint16_t bits;
	memcpy(&bits, at, sizeof bits);
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof value);
	return (double)value;
}

/* Rounded to the nearest, ties to even; NaN stays NaN. */
static void store_bf16(char *at, double value)
{
	float single = (float)value;
	uint32_t wide;
	memcpy(&wide, &single, sizeof wide);
	uint32_t rounded = (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
	uint16_t bits = single == single ? (uint16_t)rounded : (uint16_t)(wide >> 16 | 0x40);
	memcpy(at, &bits, sizeof bits);
}

static int64_t load_int(Py_ssize_t n_bytes, const char *at)
{
	int64_t value = 0;
	memcpy(&value, at, (size_t)n_bytes);
	int shift = 64 - 8 * (int)n_bytes;
	return (int64_t)((uint64_t)value << shift) >> shift;
}

static int store_int(const struct inf_py_datatype *type, char *at, PyObject *value)
{
	PyObject *number = PyNumber_Index(value);
	long long integer = number ? PyLong_AsLongLong(number) : -1;
	Py_XDECREF(number);
	if (integer == -1 && PyErr_Occurred())
		return -1;
	int64_t stored = integer;
	memcpy(at, &stored, (size_t)type->n_bytes);
	if (load_int(type->n_bytes, at) == stored)
		return 0;
	PyErr_Format(PyExc_OverflowError, "%lld does not fit %s", integer, type->name);
	return -1;
}

static int store_uint(const struct inf_py_datatype *type, char *at, PyObject *value)
{
	PyObject *number = PyNumber_Index(value);
	unsigned long long integer = number ? PyLong_AsUnsignedLongLong(number) : (unsigned long long)-1;
	Py_XDECREF(number);
	if (integer == (unsigned long long)-1 && PyErr_Occurred())
		return -1;
	uint64_t stored = integer;
	if (type->n_bytes < 8 && stored >> 8 * type->n_bytes) {
		PyErr_Format(PyExc_OverflowError, "%llu does not fit %s", integer, type->name);
		return -1;
	}
	memcpy(at, &stored, (size_t)type->n_bytes);
	return 0;
}

static int store_complex(const struct inf_py_datatype *type, char *at, PyObject *value)
{
	double real = PyComplex_RealAsDouble(value), imaginary;
	if (real == -1.0 && PyErr_Occurred())
		return -1;
	imaginary = PyComplex_ImagAsDouble(value);
	if (imaginary == -1.0 && PyErr_Occurred())
		return -1;
	store_float(type->n_bytes / 2, at, real);
	store_float(type->n_bytes / 2, at + type->n_bytes / 2, imaginary);
	return 0;
}

PyObject *inf_py_element_load(const struct inf_py_datatype *type, const char *at)
{
	uint64_t bits = 0;
	switch (type->kind) {
	case INF_PY_INT:
		return PyLong_FromLongLong(load_int(type->n_bytes, at));
	case INF_PY_UINT:
		memcpy(&bits, at, (size_t)type->n_bytes);
		return PyLong_FromUnsignedLongLong(bits);
	case INF_PY_FLOAT:
		return PyFloat_FromDouble(load_float(type->n_bytes, at));
	case INF_PY_BF16:
		return PyFloat_FromDouble(load_bf16(at));
	case INF_PY_COMPLEX:
		return PyComplex_FromDoubles(load_float(type->n_bytes / 2, at),
			load_float(type->n_bytes / 2, at + type->n_bytes / 2));
	case INF_PY_BOOL:
		break;
	}
	return PyBool_FromLong(*at != 0);
}

int inf_py_element_store(const struct inf_py_datatype *type, char *at, PyObject *value)
{
	double number;
	int is_true;
	switch (type->kind) {
	case INF_PY_INT:
		return store_int(type, at, value);
	case INF_PY_UINT:
		return store_uint(type, at, value);
	case INF_PY_COMPLEX:
		return store_complex(type, at, value);
	case INF_PY_BOOL:
		is_true = PyObject_IsTrue(value);
		*at = is_true > 0;
		return is_true < 0 ? -1 : 0;
	case INF_PY_FLOAT:
	case INF_PY_BF16:
		break;
	}
	number = PyFloat_AsDouble(value);
	if (number == -1.0 && PyErr_Occurred())
		return -1;
	if (type->kind == INF_PY_FLOAT)
		store_float(type->n_bytes, at, number);
	else
		store_bf16(at, number);
	return 0;
}
