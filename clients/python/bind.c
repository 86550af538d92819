/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding: place the inputs and outputs of a Method in regions.
 *
 * Without places of the caller, the tensors lie one after the other in a new region, each on its own cache lines, as
 * inferd_bind places them. The region is made here all the same, so that views of it outlive the binding (region.c). */
#include "clients/python/objects.h"

#include <string.h>

enum { ALIGNMENT = 64 };

/* A caller's slots for libinferd, and the memory of their regions. */
struct places {
	size_t n;
	struct inferd_slot *slots;
	struct inf_py_region **regions; /* borrowed; NULL: none */
};

static struct inf_py_binding *binding_new(struct inf_py_method *m)
{
	struct inf_py_binding *b = inf_py_new(inf_py_types.binding);
	if (!b)
		return NULL;
	b->connection = inf_py_ref(m->connection);
	b->method = inf_py_ref(m);
	b->handle = inf_py_handle_new(m->connection, INF_PY_OBJECT_BINDING);
	b->places = PyMem_Calloc(m->n_inputs + m->n_outputs + 1, sizeof *b->places);
	b->shapes = PyMem_Calloc(m->n_inputs + 1, sizeof *b->shapes);
	if (!b->places || !b->shapes)
		PyErr_NoMemory();
	if (!b->handle || !b->places || !b->shapes) {
		inf_py_unref(b);
		return NULL;
	}
	b->handle->binding = b;
	for (size_t i = 0; i < m->n_inputs; i++)
		memcpy(b->shapes[i], m->infos[i].shape, sizeof *b->shapes);
	return b;
}

static int places_init(struct places *places, size_t n)
{
	places->n = n;
	places->slots = PyMem_Calloc(n + 1, sizeof *places->slots);
	places->regions = PyMem_Calloc(n + 1, sizeof *places->regions);
	if (places->slots && places->regions)
		return 0;
	PyErr_NoMemory();
	return -1;
}

static void places_deinit(struct places *places)
{
	PyMem_Free(places->slots);
	PyMem_Free(places->regions);
}

/* Fill in the regions' objects, bind, and keep their memory. The connection's lock is not held. */
static int bind_places(struct inf_py_binding *b, struct places *places, uint64_t timeout_us)
{
	struct inf_py_connection *c = b->connection;
	struct inferd_bind_options options = { .struct_size = sizeof options,
		.inputs = places->slots,
		.outputs = places->slots + b->method->n_inputs,
		.timeout_us = timeout_us };
	struct inferd_binding *bound = NULL;
	int rc = 0;
	if (!inf_py_handle_begin(b->method->handle))
		return -1;
	for (size_t i = 0; i < places->n && rc == 0; i++) {
		if (!places->regions[i])
			continue;
		places->slots[i].region = places->regions[i]->handle->object;
		if (places->slots[i].region)
			continue;
		inf_py_raise(INFERD_FAILED_PRECONDITION, "the region is closed");
		rc = -INFERD_FAILED_PRECONDITION;
	}
	if (rc == 0)
		INF_PY_WAIT(c, rc = inferd_bind_with(b->method->handle->object, &bound, &options));
	b->handle->object = bound;
	for (size_t i = 0; i < places->n && rc >= 0; i++)
		if (places->regions[i])
			b->places[i] = (struct inf_py_place){ inf_py_ref(places->regions[i]->memory),
				places->slots[i].offset };
	return inf_py_end(c, rc) ? 0 : -1;
}

/* ---- one new region ---- */

/* Place the tensors, and say how many bytes they take. */
static int lay_out(const struct inf_py_method *m, struct places *places, size_t *ret_n_bytes)
{
	size_t end = 0;
	for (size_t i = 0; i < places->n; i++) {
		if (!m->infos[i].type)
			continue;
		places->slots[i].offset = end;
		if (__builtin_add_overflow(end, m->infos[i].n_bytes, &end) || end > PY_SSIZE_T_MAX - ALIGNMENT) {
			inf_py_raise(INFERD_RESOURCE_EXHAUSTED, "the tensors are larger than the address space");
			return -1;
		}
		end = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	}
	*ret_n_bytes = end ? end : ALIGNMENT;
	return 0;
}

static struct inf_py_binding *bind_new(struct inf_py_method *m, uint64_t timeout_us)
{
	struct places places = { 0 };
	struct inf_py_region *region = NULL;
	struct inf_py_binding *b = binding_new(m);
	size_t n_bytes;
	int rc = -1;
	if (b && places_init(&places, m->n_inputs + m->n_outputs) == 0 && lay_out(m, &places, &n_bytes) == 0)
		region = inf_py_region_new(m->connection, n_bytes);
	if (region) {
		for (size_t i = 0; i < places.n; i++)
			places.regions[i] = m->infos[i].type ? region : NULL;
		rc = bind_places(b, &places, timeout_us);
	}
	if (rc < 0)
		Py_CLEAR(b);
	inf_py_unref(region); /* its memory stays with the binding */
	places_deinit(&places);
	return b;
}

struct inf_py_binding *inf_py_bind_new(struct inf_py_method *m)
{
	return bind_new(m, 0);
}

/* ---- places of the caller ---- */

/* One entry of the caller: None, a Region, or (Region, offset). The region is borrowed from the entry. */
static int read_place(struct places *places, size_t index, PyObject *entry, const struct inf_py_connection *c)
{
	PyObject *region = entry, *offset = NULL;
	if (entry == Py_None)
		return 0;
	if (PyTuple_Check(entry) &&
		!PyArg_ParseTuple(entry, "OO;a place is a Region, or (Region, offset)", &region, &offset))
		return -1;
	if (!Py_IS_TYPE(region, inf_py_types.region)) {
		PyErr_SetString(PyExc_TypeError, "a place is a Region, (Region, offset), or None");
		return -1;
	}
	Py_ssize_t at = offset ? PyNumber_AsSsize_t(offset, PyExc_OverflowError) : 0;
	if (at == -1 && PyErr_Occurred())
		return -1;
	if (at < 0) {
		PyErr_SetString(PyExc_ValueError, "an offset is 0 or more");
		return -1;
	}
	places->regions[index] = (struct inf_py_region *)region;
	places->slots[index].offset = (size_t)at;
	if (places->regions[index]->connection == c)
		return 0;
	inf_py_raise(INFERD_INVALID_ARGUMENT, "the region belongs to another connection");
	return -1;
}

/* @given becomes a tuple, so that nobody can change it meanwhile: *ret_tuple, which keeps the regions. */
static int read_places(struct places *places, size_t first, size_t n, PyObject *given, const char *what,
	const struct inf_py_connection *c, PyObject **ret_tuple)
{
	PyObject *tuple = *ret_tuple = PySequence_Tuple(given);
	if (!tuple)
		return -1;
	if ((size_t)PyTuple_Size(tuple) != n) {
		PyErr_Format(PyExc_ValueError, "%zd places, but the Method has %zu %s", PyTuple_Size(tuple), n, what);
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		if (read_place(places, first + i, PyTuple_GetItem(tuple, (Py_ssize_t)i), c) < 0)
			return -1;
	return 0;
}

static PyObject *bind_given(struct inf_py_method *m, PyObject *inputs, PyObject *outputs, uint64_t timeout_us)
{
	struct places places = { 0 };
	struct inf_py_binding *b = binding_new(m);
	PyObject *kept_inputs = NULL, *kept_outputs = NULL;
	int rc = -1;
	if (b && places_init(&places, m->n_inputs + m->n_outputs) == 0 &&
		read_places(&places, 0, m->n_inputs, inputs, "inputs", m->connection, &kept_inputs) == 0 &&
		read_places(&places, m->n_inputs, m->n_outputs, outputs, "outputs", m->connection, &kept_outputs) == 0)
		rc = bind_places(b, &places, timeout_us);
	if (rc < 0)
		Py_CLEAR(b);
	Py_XDECREF(kept_inputs);
	Py_XDECREF(kept_outputs);
	places_deinit(&places);
	return (PyObject *)b;
}

PyObject *inf_py_bind(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "inputs", "outputs", "timeout", NULL };
	struct inf_py_method *m = (struct inf_py_method *)self;
	PyObject *inputs = Py_None, *outputs = Py_None;
	uint64_t timeout_us = 0;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO$O&:bind", names, &inputs, &outputs, inf_py_timeout,
		    &timeout_us))
		return NULL;
	if (inputs == Py_None && outputs == Py_None)
		return (PyObject *)bind_new(m, timeout_us);
	if (inputs != Py_None && outputs != Py_None)
		return bind_given(m, inputs, outputs, timeout_us);
	PyErr_SetString(PyExc_TypeError, "bind() takes places for both inputs and outputs, or for neither");
	return NULL;
}
