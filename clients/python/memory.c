/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: one mapping of shared memory, or a piece of the heap, as long as anything refers to it.
 *
 * The module maps regions itself, beside libinferd's own mapping of the same pages: libinferd unmaps a region with the
 * last binding over it, while an array of NumPy may live on. The daemon refuses memory that could shrink, so that a
 * page which is mapped here stays. */
#include "clients/python/memory.h"

#include <errno.h>
#include <sys/mman.h>

struct inf_py_memory *inf_py_memory_map(int fd, size_t n_bytes)
{
	struct inf_py_memory *memory = inf_py_new(inf_py_types.memory);
	if (!memory)
		return NULL;
	void *bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) {
		PyErr_SetFromErrno(PyExc_OSError);
		inf_py_unref(memory);
		return NULL;
	}
	memory->bytes = bytes;
	memory->n_bytes = n_bytes;
	memory->is_mapped = true;
	return memory;
}

struct inf_py_memory *inf_py_memory_new(size_t n_bytes)
{
	struct inf_py_memory *memory = inf_py_new(inf_py_types.memory);
	if (!memory)
		return NULL;
	memory->bytes = PyMem_Malloc(n_bytes);
	memory->n_bytes = n_bytes;
	if (memory->bytes)
		return memory;
	PyErr_NoMemory();
	inf_py_unref(memory);
	return NULL;
}

static void delete(PyObject *self)
{
	struct inf_py_memory *memory = (struct inf_py_memory *)self;
	if (memory->is_mapped)
		munmap(memory->bytes, memory->n_bytes);
	else
		PyMem_Free(memory->bytes);
	inf_py_delete(self);
}

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, INF_PY_SLOT(delete) },
	{ 0, NULL },
};

PyType_Spec inf_py_memory_spec = {
	.name = "inferd._Memory",
	.basicsize = sizeof(struct inf_py_memory),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
