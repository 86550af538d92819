/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods: open, call, reset and close them.
 *
 * A call is for those who do not care: it copies its arguments into a binding that the Method keeps for this, infers,
 * and returns copies of the outputs. Two calls at once, of two threads, have a binding each. */
#include "clients/python/objects.h"

#include <string.h>

enum { MAX_DATA_FILES = 15 };

/* ---- opening ---- */

static PyObject *take_infos(struct inf_py_method *m, size_t n, struct inf_py_info *infos,
	const struct inferd_tensor_info *(*get)(const struct inferd_method *m, size_t index))
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)n);
	for (size_t i = 0; tuple && i < n; i++) {
		PyObject *info = inf_py_info_new(get(m->handle->object, i), &infos[i]);
		if (!info || PyTuple_SetItem(tuple, (Py_ssize_t)i, info) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *take_texts(const struct inf_py_method *m)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)m->n_outputs);
	for (size_t i = 0; tuple && i < m->n_outputs; i++) {
		size_t n = 0;
		const char *bytes = inferd_output_text(m->handle->object, i, &n);
		PyObject *text = bytes ? PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)n, "replace") : Py_NewRef(Py_None);
		if (!text || PyTuple_SetItem(tuple, (Py_ssize_t)i, text) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

/* Copy what the daemon said of it. */
static int describe(struct inf_py_method *m)
{
	m->n_inputs = inferd_n_inputs(m->handle->object);
	m->n_outputs = inferd_n_outputs(m->handle->object);
	m->infos = PyMem_Calloc(m->n_inputs + m->n_outputs + 1, sizeof *m->infos);
	if (!m->infos) {
		PyErr_NoMemory();
		return -1;
	}
	m->inputs = take_infos(m, m->n_inputs, m->infos, inferd_input_info);
	m->outputs = m->inputs ? take_infos(m, m->n_outputs, m->infos + m->n_inputs, inferd_output_info) : NULL;
	m->texts = m->outputs ? take_texts(m) : NULL;
	return m->texts ? 0 : -1;
}

static struct inf_py_method *method_new(struct inf_py_connection *c)
{
	struct inf_py_method *m = inf_py_new(inf_py_types.method);
	if (!m)
		return NULL;
	m->connection = inf_py_ref(c);
	m->handle = inf_py_handle_new(c, INF_PY_OBJECT_METHOD);
	if (!m->handle)
		Py_CLEAR(m);
	return m;
}

/* @fd -1: @model is one of the repository. @with may be NULL. */
static PyObject *open_method(struct inf_py_connection *c, const char *model, int fd, struct inf_py_method *with,
	struct inferd_method_options *options)
{
	struct inferd_method *opened = NULL;
	struct inf_py_method *m = method_new(c);
	int rc = 0;
	if (!m || !inf_py_begin(c)) {
		inf_py_unref(m);
		return NULL;
	}
	options->share_with = with ? with->handle->object : NULL;
	if (with && !options->share_with) {
		inf_py_raise(INFERD_FAILED_PRECONDITION, "share_with is a Method that is closed");
		rc = -INFERD_FAILED_PRECONDITION;
	} else if (fd >= 0) {
		INF_PY_WAIT(c, rc = inferd_method_open_fd(c->d, &opened, fd, model, options));
	} else {
		INF_PY_WAIT(c, rc = inferd_method_open(c->d, &opened, model, options));
	}
	m->handle->object = opened;
	if (rc >= 0 && describe(m) < 0) /* the exception is set */
		rc = -INFERD_INTERNAL;
	if (!inf_py_end(c, rc))
		Py_CLEAR(m);
	return (PyObject *)m;
}

PyObject *inf_py_open(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "model", "version", "method", "backend", "share_with", "timeout", NULL };
	struct inferd_method_options options = { .struct_size = sizeof options };
	struct inf_py_connection *c = (struct inf_py_connection *)self;
	const char *model = NULL;
	PyObject *with = Py_None;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O&$O&O&O&OO&:open", names, inf_py_text, &model, inf_py_text,
		    &options.version, inf_py_text, &options.method, inf_py_text, &options.backend, &with,
		    inf_py_timeout, &options.timeout_us))
		return NULL;
	if (with != Py_None && !Py_IS_TYPE(with, inf_py_types.method)) {
		PyErr_SetString(PyExc_TypeError, "share_with is a Method");
		return NULL;
	}
	if (!model && with == Py_None) {
		PyErr_SetString(PyExc_TypeError, "open() needs the name of a model, or share_with");
		return NULL;
	}
	struct inf_py_method *shared = with == Py_None ? NULL : (struct inf_py_method *)with;
	if (shared && shared->connection != c) /* it may be closed, or in use by another thread */
		return inf_py_raise(INFERD_INVALID_ARGUMENT, "share_with is a Method of another connection");
	return open_method(c, model, -1, shared, &options);
}

/* Open the data files. The number of files, of which the caller closes each, also after a failure (-1). */
static Py_ssize_t open_data(PyObject *data, struct inf_py_file *files, size_t *ret_n)
{
	Py_ssize_t n = PySequence_Size(data);
	*ret_n = 0;
	if (n > MAX_DATA_FILES)
		PyErr_Format(PyExc_ValueError, "%zd data files, of at most %d", n, MAX_DATA_FILES);
	if (n < 0 || n > MAX_DATA_FILES)
		return -1;
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(data, i);
		int rc = item ? inf_py_file_open(item, &files[i]) : -1;
		Py_XDECREF(item);
		if (rc < 0)
			return -1;
		++*ret_n;
	}
	return n;
}

PyObject *inf_py_open_program(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "", "name", "data", "method", "backend", "timeout", NULL };
	struct inferd_method_options options = { .struct_size = sizeof options };
	struct inf_py_file file, files[MAX_DATA_FILES];
	PyObject *program, *data = NULL, *m = NULL;
	const char *name = NULL;
	int fds[MAX_DATA_FILES];
	size_t n_files = 0;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$O&OO&O&O&:open_program", names, &program, inf_py_text,
		    &name, &data, inf_py_text, &options.method, inf_py_text, &options.backend, inf_py_timeout,
		    &options.timeout_us))
		return NULL;
	if (inf_py_file_open(program, &file) == 0 && (!data || open_data(data, files, &n_files) >= 0)) {
		for (size_t i = 0; i < n_files; i++)
			fds[i] = files[i].fd;
		options.data_fds = fds;
		options.n_data_fds = n_files;
		m = open_method((struct inf_py_connection *)self, name, file.fd, NULL, &options);
	}
	inf_py_file_close(&file);
	for (size_t i = 0; i < n_files; i++)
		inf_py_file_close(&files[i]);
	return m;
}

/* ---- calling ---- */

static int set_inputs(struct inf_py_binding *b, PyObject *args, PyObject *keywords)
{
	const struct inf_py_method *m = b->method;
	size_t n = (size_t)PyTuple_Size(args), n_set = n;
	if (n > m->n_inputs) {
		PyErr_Format(PyExc_TypeError, "%zu inputs, but the Method has %zu", n, m->n_inputs);
		return -1;
	}
	for (size_t i = 0; i < m->n_inputs; i++) {
		PyObject *value = i < n      ? PyTuple_GetItem(args, (Py_ssize_t)i)
				  : keywords ? PyDict_GetItemWithError(keywords, m->infos[i].name)
					     : NULL;
		if (!value && !m->infos[i].type)
			continue; /* the program leaves it out, or libinferd says that a number is missing */
		if (!value) {
			if (!PyErr_Occurred())
				PyErr_Format(PyExc_TypeError, "input %zu, '%U', is missing", i, m->infos[i].name);
			return -1;
		}
		n_set += i >= n;
		if (inf_py_input_set(b, i, value) < 0)
			return -1;
	}
	if (keywords && n_set != n + (size_t)PyDict_Size(keywords)) {
		PyErr_SetString(PyExc_TypeError, "a keyword names no input, or one that is given by its place");
		return -1;
	}
	return 0;
}

/* A copy of an output that the next request does not change. */
static PyObject *keep(PyObject *output)
{
	if (!output || !Py_IS_TYPE(output, inf_py_types.tensor))
		return output;
	PyObject *copy = inf_py_tensor_copy(&((struct inf_py_tensor *)output)->array);
	Py_DECREF(output);
	return copy;
}

static PyObject *take_outputs(struct inf_py_binding *b)
{
	size_t n = b->method->n_outputs;
	if (n == 1)
		return keep(inf_py_output_get(b, 0));
	PyObject *tuple = PyTuple_New((Py_ssize_t)n);
	for (size_t i = 0; tuple && i < n; i++) {
		PyObject *output = keep(inf_py_output_get(b, i));
		if (!output || PyTuple_SetItem(tuple, (Py_ssize_t)i, output) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *keywords)
{
	struct inf_py_method *m = (struct inf_py_method *)self;
	struct inf_py_binding *b = m->spare;
	const struct inferd_request_options options = { .struct_size = sizeof options };
	PyObject *outputs = NULL;
	m->spare = NULL;
	if (!b)
		b = inf_py_bind_new(m);
	if (!b)
		return NULL;
	if (set_inputs(b, args, keywords) == 0 && inf_py_infer(b, &options) == 0)
		outputs = take_outputs(b);
	if (!m->spare)
		m->spare = b;
	else
		inf_py_unref(b);
	return outputs;
}

/* ---- the rest ---- */

static PyObject *reset(PyObject *self, PyObject *unused)
{
	struct inf_py_method *m = (struct inf_py_method *)self;
	int rc;
	if (!inf_py_handle_begin(m->handle))
		return NULL;
	INF_PY_WAIT(m->connection, rc = inferd_method_reset(m->handle->object));
	return inf_py_end(m->connection, rc) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *close_method(PyObject *self, PyObject *unused)
{
	struct inf_py_method *m = (struct inf_py_method *)self;
	Py_CLEAR(m->spare);
	return inf_py_handle_close(m->handle);
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
	return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args)
{
	return close_method(self, NULL);
}

static PyObject *get_text(struct inf_py_method *m, const char *(*get)(const struct inferd_method *m))
{
	if (!inf_py_handle_begin(m->handle))
		return NULL;
	PyObject *text = PyUnicode_FromString(get(m->handle->object));
	inf_py_end(m->connection, 0);
	return text;
}

static PyObject *get_backend(PyObject *self, void *unused)
{
	return get_text((struct inf_py_method *)self, inferd_method_backend);
}

static PyObject *get_version(PyObject *self, void *unused)
{
	return get_text((struct inf_py_method *)self, inferd_method_version);
}

static PyObject *get_stateful(PyObject *self, void *unused)
{
	struct inf_py_method *m = (struct inf_py_method *)self;
	if (!inf_py_handle_begin(m->handle))
		return NULL;
	bool is_stateful = inferd_method_is_stateful(m->handle->object);
	inf_py_end(m->connection, 0);
	return PyBool_FromLong(is_stateful);
}

static PyObject *get_inputs(PyObject *self, void *unused)
{
	return Py_NewRef(((struct inf_py_method *)self)->inputs);
}

static PyObject *get_outputs(PyObject *self, void *unused)
{
	return Py_NewRef(((struct inf_py_method *)self)->outputs);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
	struct inf_py_method *m = (struct inf_py_method *)self;
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(m->connection);
	Py_VISIT(m->spare);
	return 0;
}

static int clear(PyObject *self)
{
	Py_CLEAR(((struct inf_py_method *)self)->spare);
	return 0;
}

static void delete(PyObject *self)
{
	struct inf_py_method *m = (struct inf_py_method *)self;
	PyObject_GC_UnTrack(self);
	clear(self);
	inf_py_handle_free(m->handle);
	for (size_t i = 0; m->infos && i < m->n_inputs + m->n_outputs; i++)
		Py_XDECREF(m->infos[i].name);
	PyMem_Free(m->infos);
	Py_XDECREF(m->inputs);
	Py_XDECREF(m->outputs);
	Py_XDECREF(m->texts);
	inf_py_unref(m->connection);
	inf_py_delete(self);
}

static PyMethodDef methods[] = {
	{ "bind", INF_PY_METHOD(inf_py_bind), METH_VARARGS | METH_KEYWORDS,
		"bind($self, /, inputs=None, outputs=None, *, timeout=None)\n--\n\n"
		"Bind memory to the inputs and outputs. Without arguments, to one new region of zeros.\n\n"
		"inputs and outputs have an entry for each input and output: a Region, (Region, offset) with an offset that\n"
		"is a multiple of 64, or None for a scalar and for an output that is not wanted.\n\n"
		">>> with inferd.connect() as d:\n"
		"...     m, r = d.open(\"add_one\"), d.region(4096)\n"
		"...     b = m.bind([(r, 0)], [(r, 1024)])\n"
		"...     b.infer()\n"
		"...     b.outputs[0].tolist()\n"
		"[1.0, 1.0]\n" },
	{ "reset", reset, METH_NOARGS,
		"reset($self, /)\n--\n\nPut the state of a stateful model back to its initial values." },
	{ "close", close_method, METH_NOARGS,
		"close($self, /)\n--\n\nClose the Method. Its requests in flight end with Cancelled." },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", leave, METH_VARARGS, NULL },
	{ NULL },
};

static PyGetSetDef members[] = {
	{ "inputs", get_inputs, NULL, "A TensorInfo for each input.", NULL },
	{ "outputs", get_outputs, NULL, "A TensorInfo for each output.", NULL },
	{ "is_stateful", get_stateful, NULL, "Whether it keeps state between requests, which reset() resets.", NULL },
	{ "backend", get_backend, NULL, "The backend that it was opened with.", NULL },
	{ "version", get_version, NULL, "The version of the model that it was opened with.", NULL },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
		(char *)"A method of a model, as Connection.open() opens it, with its own state if the model is "
			"stateful.\n\n"
			"A call copies its arguments, infers, and returns copies of the outputs: one, or a tuple.\n"
			"Inputs are given by place or by name.\n\n"
			">>> with inferd.connect() as d:\n"
			"...     m = d.open(\"add_one\")\n"
			"...     m.inputs[0].name, m.inputs[0].datatype, m.inputs[0].shape\n"
			"...     m(input_0=[0, 1]).tolist()\n"
			"('input_0', 'FP32', (2,))\n"
			"[1.0, 2.0]\n" },
	{ Py_tp_dealloc, INF_PY_SLOT(delete) },
	{ Py_tp_traverse, INF_PY_SLOT(traverse) },
	{ Py_tp_clear, INF_PY_SLOT(clear) },
	{ Py_tp_call, INF_PY_SLOT(call) },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ 0, NULL },
};

PyType_Spec inf_py_method_spec = {
	.name = "inferd.Method",
	.basicsize = sizeof(struct inf_py_method),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
