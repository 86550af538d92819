/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: one call of libinferd at a time, and what happens to objects that go meanwhile.
 *
 * libinferd takes one thread at a time, and a call that waits does so without the GIL. So each connection has a lock
 * of its own, which a call takes while it has the GIL, and waits for without it. Code of scripts runs inside of such a
 * call in one case alone: a signal handler, which may end the call by an exception (interrupted). If it uses the
 * connection, it is refused instead of waiting for itself.
 *
 * An object of Python can go at any time, also when the garbage is collected inside of a call. If the connection is in
 * use then, the object's handle is marked dead, and whoever uses the connection closes it at the end.
 *
 * A connection belongs to the process that opened it. After a fork the child refuses to use it, and leaks it: to close
 * it would write to the descriptors that both processes have. */
#include "clients/python/objects.h"

#include <string.h>

/* ---- taking turns ---- */

static bool take_lock(struct inf_py_connection *c)
{
	if (PyThread_acquire_lock(c->lock, NOWAIT_LOCK))
		return true;
	if (c->owner == PyThread_get_thread_ident()) {
		inf_py_raise(INFERD_BUSY, "a signal handler cannot use a connection that it has interrupted");
		return false;
	}
	for (;;) {
		PyThreadState *thread = PyEval_SaveThread();
		PyLockStatus status = PyThread_acquire_lock_timed(c->lock, -1, 1);
		PyEval_RestoreThread(thread);
		if (status == PY_LOCK_ACQUIRED)
			return true;
		if (PyErr_CheckSignals() < 0)
			return false;
	}
}

static void close_object(struct inf_py_handle *handle)
{
	void *object = handle->object;
	handle->object = NULL;
	if (!object)
		return;
	if (handle->kind == INF_PY_OBJECT_METHOD)
		inferd_method_close(object);
	else if (handle->kind == INF_PY_OBJECT_REGION)
		inferd_region_free(object);
	else
		inferd_unbind(object);
}

static void unlink_handle(struct inf_py_handle *handle)
{
	*handle->link = handle->next;
	if (handle->next)
		handle->next->link = handle->link;
	PyMem_Free(handle);
}

static void close_dead(struct inf_py_connection *c)
{
	c->has_dead = false;
	for (struct inf_py_handle *handle = c->handles, *next; handle; handle = next) {
		next = handle->next;
		if (!handle->is_dead)
			continue;
		close_object(handle);
		unlink_handle(handle);
	}
}

static void give_lock(struct inf_py_connection *c)
{
	if (c->has_dead)
		close_dead(c);
	c->owner = 0;
	PyThread_release_lock(c->lock);
}

static bool is_of_parent(const struct inf_py_connection *c)
{
	return c->n_forks != inf_py_n_forks();
}

bool inf_py_begin(struct inf_py_connection *c)
{
	if (is_of_parent(c)) {
		inf_py_raise(INFERD_DISCONNECTED,
			"the connection belongs to the parent process: connect after the fork");
		return false;
	}
	if (!take_lock(c))
		return false;
	c->owner = PyThread_get_thread_ident();
	if (c->d)
		return true;
	give_lock(c);
	inf_py_raise(INFERD_FAILED_PRECONDITION, "the connection is closed");
	return false;
}

bool inf_py_end(struct inf_py_connection *c, int rc)
{
	if (rc < 0 && !PyErr_Occurred()) /* else a signal handler has ended the call */
		inf_py_raise(-rc, inferd_error(c->d));
	give_lock(c);
	return rc >= 0;
}

/* A signal has interrupted a call that waits. Its thread calls this, without the GIL. */
static bool interrupted(void *userdata)
{
	struct inf_py_connection *c = userdata;
	PyEval_RestoreThread(c->thread);
	bool ends = PyErr_CheckSignals() < 0;
	c->thread = PyEval_SaveThread();
	return ends;
}

/* ---- handles ---- */

struct inf_py_handle *inf_py_handle_new(struct inf_py_connection *c, enum inf_py_object kind)
{
	struct inf_py_handle *handle = PyMem_Calloc(1, sizeof *handle);
	if (!handle) {
		PyErr_NoMemory();
		return NULL;
	}
	handle->connection = c;
	handle->kind = kind;
	handle->next = c->handles;
	handle->link = &c->handles;
	if (handle->next)
		handle->next->link = &handle->next;
	c->handles = handle;
	return handle;
}

void inf_py_handle_free(struct inf_py_handle *handle)
{
	if (!handle)
		return;
	struct inf_py_connection *c = handle->connection;
	handle->binding = NULL;
	if (!handle->object || is_of_parent(c)) {
		unlink_handle(handle);
	} else if (PyThread_acquire_lock(c->lock, NOWAIT_LOCK)) {
		c->owner = PyThread_get_thread_ident();
		close_object(handle);
		unlink_handle(handle);
		give_lock(c);
	} else {
		handle->is_dead = c->has_dead = true;
	}
}

PyObject *inf_py_handle_close(struct inf_py_handle *handle)
{
	struct inf_py_connection *c = handle->connection;
	if (!handle->object || is_of_parent(c))
		Py_RETURN_NONE;
	if (!inf_py_begin(c))
		return NULL;
	close_object(handle);
	inf_py_end(c, 0);
	Py_RETURN_NONE;
}

bool inf_py_handle_begin(struct inf_py_handle *handle)
{
	static const char *const sentences[] = {
		[INF_PY_OBJECT_METHOD] = "the Method is closed",
		[INF_PY_OBJECT_REGION] = "the region is closed",
		[INF_PY_OBJECT_BINDING] = "the binding is closed",
	};
	if (!inf_py_begin(handle->connection))
		return false;
	if (handle->object)
		return true;
	inf_py_end(handle->connection, 0);
	inf_py_raise(INFERD_FAILED_PRECONDITION, sentences[handle->kind]);
	return false;
}

/* ---- opening and closing ---- */

static struct inf_py_connection *connection_new(void)
{
	struct inf_py_connection *c = inf_py_new(inf_py_types.connection);
	if (!c)
		return NULL;
	c->n_forks = inf_py_n_forks();
	c->ended_last = &c->ended;
	c->lock = PyThread_allocate_lock();
	if (c->lock)
		return c;
	PyErr_NoMemory();
	Py_DECREF(c);
	return NULL;
}

PyObject *inf_py_connect(PyObject *module, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "socket", "name", "weight", "reconnect", "timeout", NULL };
	struct inferd_open_options options = { .struct_size = sizeof options, .interrupted = interrupted };
	PyObject *path = Py_None, *bytes = NULL;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$O&IO&O&:connect", names, &path, inf_py_text,
		    &options.client_name, &options.weight, inf_py_milliseconds, &options.reconnect_ms, inf_py_timeout,
		    &options.timeout_us))
		return NULL;
	if (path != Py_None && !PyUnicode_FSConverter(path, &bytes))
		return NULL;
	options.socket = bytes ? PyBytes_AsString(bytes) : NULL;
	struct inf_py_connection *c = connection_new();
	if (c) {
		struct inferd *d = NULL;
		int rc;
		options.userdata = c;
		INF_PY_WAIT(c, rc = inferd_open_with(&d, &options));
		if (rc < 0 && !PyErr_Occurred())
			inf_py_raise(-rc, inferd_error(d));
		if (rc < 0) {
			inferd_close(d);
			Py_CLEAR(c);
		} else {
			c->d = d;
		}
	}
	Py_XDECREF(bytes);
	return (PyObject *)c;
}

/* The lock is held, or nobody else has the connection. */
static void close_all(struct inf_py_connection *c)
{
	struct inferd *d = c->d;
	c->d = NULL;
	for (struct inf_py_handle *handle = c->handles; handle; handle = handle->next) {
		handle->object = NULL; /* inferd_close frees it */
		if (handle->binding)
			inf_py_abandon(handle->binding, "the connection was closed");
	}
	inferd_close(d);
}

static PyObject *close_connection(PyObject *self, PyObject *unused)
{
	struct inf_py_connection *c = (struct inf_py_connection *)self;
	if (!c->d || is_of_parent(c))
		Py_RETURN_NONE;
	if (!inf_py_begin(c)) {
		if (c->d)
			return NULL;
		PyErr_Clear(); /* another thread was faster */
		Py_RETURN_NONE;
	}
	inf_py_unwatch(c);
	close_all(c);
	give_lock(c);
	inf_py_tell_loop(c);
	Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
	return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args)
{
	return close_connection(self, NULL);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct inf_py_connection *)self)->loop);
	return 0;
}

static int clear(PyObject *self)
{
	Py_CLEAR(((struct inf_py_connection *)self)->loop);
	return 0;
}

static void delete(PyObject *self)
{
	struct inf_py_connection *c = (struct inf_py_connection *)self;
	PyObject_GC_UnTrack(self);
	if (!is_of_parent(c))
		close_all(c);
	Py_CLEAR(c->loop); /* which has gone, too: while it watches the descriptor it refers to the connection */
	while (c->handles)
		unlink_handle(c->handles);
	if (c->lock)
		PyThread_free_lock(c->lock);
	inf_py_delete(self);
}

/* ---- what Python sees ---- */

static PyObject *file_number(PyObject *self, PyObject *unused)
{
	struct inf_py_connection *c = (struct inf_py_connection *)self;
	if (!inf_py_begin(c))
		return NULL;
	int fd = inferd_get_fd(c->d);
	inf_py_end(c, 0);
	return PyLong_FromLong(fd);
}

static PyObject *is_closed(PyObject *self, void *unused)
{
	return PyBool_FromLong(!((struct inf_py_connection *)self)->d);
}

static PyMethodDef methods[] = {
	{ "open", INF_PY_METHOD(inf_py_open), METH_VARARGS | METH_KEYWORDS,
		"open($self, /, model=None, *, version=None, method=None, backend=None, share_with=None, timeout=None)\n--\n\n"
		"Open a method of a model that the daemon serves from its repository.\n\n"
		"version: None is the one that serves. method: None is the only one, or \"forward\".\n"
		"backend: names in the order in which they are wanted, \"npu, xnnpack\".\n"
		"share_with: another Method of the same program, whose state the new one shares; model is then left out." },
	{ "open_program", INF_PY_METHOD(inf_py_open_program), METH_VARARGS | METH_KEYWORDS,
		"open_program($self, file, /, *, name=None, data=(), method=None, backend=None, timeout=None)\n--\n\n"
		"Open a method of a program that is brought along, a .pte or .bpte.\n\n"
		"file, and each of data (the program's .ptd files), is a path, an open file, or a descriptor." },
	{ "region", inf_py_region, METH_O,
		"region($self, n_bytes, /)\n--\n\nMake memory that is shared with the daemon, of zeros." },
	{ "import_region", INF_PY_METHOD(inf_py_import_region), METH_VARARGS | METH_KEYWORDS,
		"import_region($self, file, /, n_bytes=None)\n--\n\n"
		"Share memory of your own: a memfd that is sealed with F_SEAL_SHRINK and F_SEAL_GROW, or a dma-buf.\n\n"
		"n_bytes: None is the size of the file." },
	{ "fileno", file_number, METH_NOARGS,
		"fileno($self, /)\n--\n\nThe descriptor that is readable when infer_async has something to do." },
	{ "close", close_connection, METH_NOARGS,
		"close($self, /)\n--\n\nClose the connection and everything on it. Requests in flight end with Cancelled." },
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", leave, METH_VARARGS, NULL },
	{ "_dispatch", inf_py_dispatch, METH_NOARGS, NULL },
	{ "_settle", inf_py_settle, METH_NOARGS, NULL },
	{ "_rest", inf_py_rest, METH_NOARGS, NULL },
	{ NULL },
};

static PyGetSetDef members[] = {
	{ "closed", is_closed, NULL, "Whether it was closed here.", NULL },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
		(char *)"A connection to the daemon, as connect() opens it. It is closed at the end of a `with`.\n\n"
			"Threads may share one, and take turns then: a thread that should not wait for another one's "
			"requests\nhas a connection of its own." },
	{ Py_tp_dealloc, INF_PY_SLOT(delete) },
	{ Py_tp_traverse, INF_PY_SLOT(traverse) },
	{ Py_tp_clear, INF_PY_SLOT(clear) },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ 0, NULL },
};

PyType_Spec inf_py_connection_spec = {
	.name = "inferd.Connection",
	.basicsize = sizeof(struct inf_py_connection),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
