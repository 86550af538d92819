/* SPDX-License-Identifier: BSD-3-Clause */
/* The module inferd._inferd: it makes the types, and connects.
 *
 * It keeps to Python's Limited API, so that one build serves 3.11 and everything later. State that all objects share
 * lies in static variables: libinferd has none per interpreter either, and a subinterpreter gets the same module. */
#include "clients/python/module.h"
#include "clients/python/memory.h"
#include "clients/python/objects.h"

#include <pthread.h>

struct inf_py_types inf_py_types;

static unsigned n_forks;

static void forked(void)
{
	n_forks++;
}

unsigned inf_py_n_forks(void)
{
	return n_forks;
}

void *inf_py_new(PyTypeObject *type)
{
	return PyType_GenericAlloc(type, 0);
}

void inf_py_delete(void *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);
	freefunc free_object = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
	free_object(self);
	Py_DECREF(type);
}

static PyMethodDef functions[] = {
	{ "connect", INF_PY_METHOD(inf_py_connect), METH_VARARGS | METH_KEYWORDS,
		"connect($module, /, socket=None, *, name=None, weight=0, reconnect=0, timeout=None)\n--\n\n"
		"Connect to the daemon.\n\n"
		"socket is a path; None means $INFERD_SOCKET, else /run/inferd/inferd.sock.\n"
		"name is what `inferctl status` shows; weight is the share of each queue beside other connections of the\n"
		"same user. reconnect is for how many seconds the library tries to connect again when the daemon restarts.\n"
		"timeout is that of this call, and of Method.reset, Connection.region and Connection.import_region.\n\n"
		">>> import inferd\n"
		">>> with inferd.connect() as d:\n"
		"...     m = d.open(\"add_one\")\n"
		"...     m([1, 2]).tolist()\n"
		"[2.0, 3.0]\n" },
	{ NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "inferd._inferd",
	.m_doc = "The part of the package inferd that is written in C. Import inferd.",
	.m_size = -1,
	.m_methods = functions,
};

static int add_type(PyObject *module, PyTypeObject **ret_type, PyType_Spec *spec)
{
	*ret_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *ret_type ? PyModule_AddType(module, *ret_type) : -1;
}

static int add_all(PyObject *module)
{
	if (inf_py_errors_add(module) < 0 || inf_py_infos_add(module) < 0 ||
		add_type(module, &inf_py_types.connection, &inf_py_connection_spec) < 0 ||
		add_type(module, &inf_py_types.method, &inf_py_method_spec) < 0 ||
		add_type(module, &inf_py_types.binding, &inf_py_binding_spec) < 0 ||
		add_type(module, &inf_py_types.slots, &inf_py_slots_spec) < 0 ||
		add_type(module, &inf_py_types.region, &inf_py_region_spec) < 0 ||
		add_type(module, &inf_py_types.tensor, &inf_py_tensor_spec) < 0)
		return -1;
	inf_py_types.memory = (PyTypeObject *)PyType_FromModuleAndSpec(module, &inf_py_memory_spec, NULL);
	return inf_py_types.memory ? 0 : -1;
}

PyMODINIT_FUNC PyInit__inferd(void);

PyMODINIT_FUNC PyInit__inferd(void)
{
	PyObject *module = PyModule_Create(&definition);
	if (!module || add_all(module) < 0 || pthread_atfork(NULL, NULL, forked)) {
		Py_XDECREF(module);
		return PyErr_Occurred() ? NULL : PyErr_NoMemory();
	}
	return module;
}
