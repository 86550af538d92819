/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: memory that is shared with the daemon, made here or imported.
 *
 * A region that is made is a sealed memfd of this process, imported as any other: so its Memory lives as long as a view
 * of it, whatever becomes of the connection. */
#include "clients/python/objects.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Import the file, then map it: the daemon refuses a file that could shrink. */
static struct inf_py_region *import_fd(struct inf_py_connection *c, int fd, size_t n_bytes)
{
	if (!n_bytes)
		return inf_py_raise(INFERD_INVALID_ARGUMENT, "the file of a region is empty");
	struct inf_py_region *r = inf_py_new(inf_py_types.region);
	if (!r)
		return NULL;
	r->connection = inf_py_ref(c);
	r->handle = inf_py_handle_new(c, INF_PY_OBJECT_REGION);
	if (r->handle && inf_py_begin(c)) {
		struct inferd_region *imported = NULL;
		int rc;
		INF_PY_WAIT(c, rc = inferd_region_import(c->d, &imported, fd, n_bytes));
		r->handle->object = imported;
		if (inf_py_end(c, rc))
			r->memory = inf_py_memory_map(fd, n_bytes);
	}
	if (!r->memory)
		Py_CLEAR(r);
	return r;
}

struct inf_py_region *inf_py_region_new(struct inf_py_connection *c, size_t n_bytes)
{
	int fd = memfd_create("inferd-python", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)n_bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		PyErr_SetFromErrno(PyExc_OSError);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	struct inf_py_region *r = import_fd(c, fd, n_bytes);
	close(fd);
	return r;
}

static int size_of(PyObject *number, size_t *ret_n_bytes)
{
	Py_ssize_t n = PyNumber_AsSsize_t(number, PyExc_OverflowError);
	if (n == -1 && PyErr_Occurred())
		return -1;
	if (n <= 0) {
		PyErr_SetString(PyExc_ValueError, "a region has at least one byte");
		return -1;
	}
	*ret_n_bytes = (size_t)n;
	return 0;
}

PyObject *inf_py_region(PyObject *self, PyObject *size)
{
	size_t n_bytes;
	return size_of(size, &n_bytes) < 0 ? NULL
					   : (PyObject *)inf_py_region_new((struct inf_py_connection *)self, n_bytes);
}

PyObject *inf_py_import_region(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "", "n_bytes", NULL };
	PyObject *file, *size = Py_None;
	size_t n_bytes = 0;
	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:import_region", names, &file, &size))
		return NULL;
	int fd = PyObject_AsFileDescriptor(file);
	if (fd < 0 || (size != Py_None && size_of(size, &n_bytes) < 0))
		return NULL;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* another thread may close @fd, or make it another file */
	off_t end = copy >= 0 && size == Py_None ? lseek(copy, 0, SEEK_END) : 0; /* what a dma-buf answers, too */
	struct inf_py_region *r = NULL;
	if (copy < 0 || end < 0)
		PyErr_SetFromErrno(PyExc_OSError);
	else
		r = import_fd((struct inf_py_connection *)self, copy, n_bytes ? n_bytes : (size_t)end);
	if (copy >= 0)
		close(copy);
	return (PyObject *)r;
}

/* ---- what Python sees ---- */

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
	const struct inf_py_memory *memory = ((struct inf_py_region *)self)->memory;
	return PyBuffer_FillInfo(view, self, memory->bytes, (Py_ssize_t)memory->n_bytes, 0, flags);
}

static Py_ssize_t length(PyObject *self)
{
	return (Py_ssize_t)((struct inf_py_region *)self)->memory->n_bytes;
}

static PyObject *close_region(PyObject *self, PyObject *unused)
{
	return inf_py_handle_close(((struct inf_py_region *)self)->handle);
}

static void delete(PyObject *self)
{
	struct inf_py_region *r = (struct inf_py_region *)self;
	inf_py_handle_free(r->handle);
	inf_py_unref(r->memory);
	inf_py_unref(r->connection);
	inf_py_delete(self);
}

static PyMethodDef methods[] = {
	{ "close", close_region, METH_NOARGS,
		"close($self, /)\n--\n\nGive the region up. Its memory stays while a binding or a view uses it." },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, (char *)"Memory that is shared with the daemon: a buffer of bytes, for bind().\n\n"
			     ">>> with inferd.connect() as d:\n"
			     "...     r = d.region(4096)\n"
			     ">>> len(r), bytes(r) == bytes(4096)\n"
			     "(4096, True)\n" },
	{ Py_tp_dealloc, INF_PY_SLOT(delete) },
	{ Py_bf_getbuffer, INF_PY_SLOT(get_buffer) },
	{ Py_mp_length, INF_PY_SLOT(length) },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

PyType_Spec inf_py_region_spec = {
	.name = "inferd.Region",
	.basicsize = sizeof(struct inf_py_region),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
