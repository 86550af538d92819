/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots: the inputs or outputs of a binding, as `b.inputs` and `b.outputs` show them, by index or by name.
 *
 * Each is made when it is asked for and knows only the binding, so it is never older than the last request. */
#include "clients/python/objects.h"

struct inf_py_slots {
	PyObject_HEAD struct inf_py_binding *binding;
	bool is_output;
};

PyObject *inf_py_slots_new(struct inf_py_binding *b, bool is_output)
{
	struct inf_py_slots *s = inf_py_new(inf_py_types.slots);
	if (!s)
		return NULL;
	s->binding = inf_py_ref(b);
	s->is_output = is_output;
	return (PyObject *)s;
}

static Py_ssize_t length(PyObject *self)
{
	const struct inf_py_slots *s = (struct inf_py_slots *)self;
	return (Py_ssize_t)(s->is_output ? s->binding->method->n_outputs : s->binding->method->n_inputs);
}

Py_ssize_t inf_py_slot_find(const struct inf_py_binding *b, bool is_output, PyObject *key)
{
	const struct inf_py_method *m = b->method;
	Py_ssize_t n = (Py_ssize_t)(is_output ? m->n_outputs : m->n_inputs), at;
	if (PyUnicode_Check(key)) {
		const struct inf_py_info *infos = m->infos + (is_output ? m->n_inputs : 0);
		for (at = 0; at < n; at++)
			if (PyUnicode_Compare(infos[at].name, key) == 0)
				return at;
		PyErr_SetObject(PyExc_KeyError, key);
		return -1;
	}
	at = PyNumber_AsSsize_t(key, PyExc_IndexError);
	if (at == -1 && PyErr_Occurred())
		return -1;
	at += at < 0 ? n : 0;
	if (at >= 0 && at < n)
		return at;
	PyErr_Format(PyExc_IndexError, "there is no %s %R: the Method has %zd", is_output ? "output" : "input", key, n);
	return -1;
}

static PyObject *item(PyObject *self, Py_ssize_t index)
{
	const struct inf_py_slots *s = (struct inf_py_slots *)self;
	if (index < 0 || index >= length(self)) {
		PyErr_SetString(PyExc_IndexError, "there is no such input or output");
		return NULL;
	}
	return s->is_output ? inf_py_output_get(s->binding, (size_t)index)
			    : inf_py_input_get(s->binding, (size_t)index);
}

static PyObject *subscript(PyObject *self, PyObject *key)
{
	const struct inf_py_slots *s = (struct inf_py_slots *)self;
	Py_ssize_t at = inf_py_slot_find(s->binding, s->is_output, key);
	return at < 0 ? NULL : item(self, at);
}

static int assign_subscript(PyObject *self, PyObject *key, PyObject *value)
{
	const struct inf_py_slots *s = (struct inf_py_slots *)self;
	Py_ssize_t at = inf_py_slot_find(s->binding, s->is_output, key);
	if (at < 0)
		return -1;
	if (value && !s->is_output)
		return inf_py_input_set(s->binding, (size_t)at, value);
	PyErr_SetString(PyExc_TypeError, value ? "outputs are read-only" : "an input cannot be deleted");
	return -1;
}

static void delete(PyObject *self)
{
	inf_py_unref(((struct inf_py_slots *)self)->binding);
	inf_py_delete(self);
}

static PyType_Slot slots[] = {
	{ Py_tp_doc,
		(char *)"The inputs or the outputs of a binding, by index or by name.\n\n"
			"A tensor is a Tensor, a scalar its number, a constant string a str, an output that was not "
			"bound None.\nAssigning to an input copies into it; a dynamic input then has the shape of what "
			"was assigned." },
	{ Py_tp_dealloc, INF_PY_SLOT(delete) },
	{ Py_tp_iter, INF_PY_SLOT(PySeqIter_New) },
	{ Py_mp_length, INF_PY_SLOT(length) },
	{ Py_mp_subscript, INF_PY_SLOT(subscript) },
	{ Py_mp_ass_subscript, INF_PY_SLOT(assign_subscript) },
	{ Py_sq_length, INF_PY_SLOT(length) },
	{ Py_sq_item, INF_PY_SLOT(item) },
	{ 0, NULL },
};

PyType_Spec inf_py_slots_spec = {
	.name = "inferd.Slots",
	.basicsize = sizeof(struct inf_py_slots),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
