/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a delegate with buffer_import uses where it lies: clients' regions and the activations of programs.
 *
 * The runtime makes each memory known here. It is imported for a device when a run on that device first uses it; a
 * run finds the memory that a tensor lies in by the tensor's address. An import holds the lock of that one memory,
 * so that it happens once; runs read the finished buffer without a lock. If the delegate can't import a memory, it
 * is not asked again, and runs do without a buffer.
 *
 * What must always be true: no run uses memory that is being released. The runtime ensures this, so nothing here
 * counts runs. */
#include "delegates/direct/direct_internal.h"

#include "runtime/base/checked.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

struct et_direct_memory {
	uintptr_t start;
	size_t n_bytes, n_self;
	int fd;
	pthread_mutex_t lock; /* held during an import */
	/* For each device: NULL until it is first used there, CANNOT_IMPORT after the import failed. */
	_Atomic(struct inferd_delegate_buffer *) buffers[];
};

static char cannot_import;
#define CANNOT_IMPORT ((struct inferd_delegate_buffer *)(void *)&cannot_import)

/* Called under the lock: the index of the first memory that begins behind @at. */
static uint32_t index_behind(const struct et_backend *b, uintptr_t at)
{
	uint32_t low = 0, high = b->n_memories;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (b->memories[middle]->start <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Called under the lock. */
static bool insert(struct et_backend *b, struct et_direct_memory *memory)
{
	const struct et_allocator *allocator = &b->allocator;
	if (b->n_memories == b->memories_room) {
		uint32_t room = b->memories_room ? 2 * b->memories_room : 16;
		struct et_direct_memory **more = allocator->alloc(allocator->self, room * sizeof(*more),
			_Alignof(void *));
		if (!more)
			return false;
		if (b->n_memories)
			memcpy(more, b->memories, b->n_memories * sizeof(*more));
		allocator->free(allocator->self, b->memories, b->memories_room * sizeof(*more));
		b->memories = more;
		b->memories_room = room;
	}
	uint32_t at = index_behind(b, memory->start);
	memmove(b->memories + at + 1, b->memories + at, (b->n_memories - at) * sizeof(*b->memories));
	b->memories[at] = memory;
	b->n_memories++;
	return true;
}

enum et_status et_direct_import_memory(struct et_backend *b, int fd, void *bytes, size_t n_bytes, void **ret_handle)
{
	size_t n_self = sizeof(struct et_direct_memory) + b->n_devices * sizeof(void *);
	struct et_direct_memory *memory = b->allocator.alloc(b->allocator.self, n_self,
		_Alignof(struct et_direct_memory));
	if (!memory)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	memory->start = (uintptr_t)bytes;
	memory->n_bytes = n_bytes;
	memory->n_self = n_self;
	memory->fd = fd;
	pthread_mutex_init(&memory->lock, NULL);
	for (uint32_t i = 0; i < b->n_devices; i++)
		atomic_init(&memory->buffers[i], NULL);
	pthread_mutex_lock(&b->memories_lock);
	bool has_room = insert(b, memory);
	pthread_mutex_unlock(&b->memories_lock);
	if (!has_room) {
		pthread_mutex_destroy(&memory->lock);
		b->allocator.free(b->allocator.self, memory, n_self);
		return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	*ret_handle = memory;
	return ET_OK;
}

void et_direct_release_memory(struct et_backend *b, void *handle)
{
	struct et_direct_memory *memory = handle;
	pthread_mutex_lock(&b->memories_lock);
	uint32_t at = index_behind(b, memory->start);
	while (at > 0 && b->memories[at - 1] != memory)
		at--;
	if (at > 0) {
		memmove(b->memories + at - 1, b->memories + at, (b->n_memories - at) * sizeof(*b->memories));
		b->n_memories--;
	}
	pthread_mutex_unlock(&b->memories_lock);
	for (uint32_t i = 0; i < b->n_devices; i++) {
		struct inferd_delegate_buffer *buffer = atomic_load(&memory->buffers[i]);
		if (buffer && buffer != CANNOT_IMPORT)
			b->table.buffer_free(buffer);
	}
	pthread_mutex_destroy(&memory->lock);
	b->allocator.free(b->allocator.self, memory, memory->n_self);
}

static struct inferd_delegate_buffer *import(struct et_backend *b, struct et_direct_memory *memory, uint32_t device)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n_bytes;
	struct inferd_delegate_buffer *buffer = NULL;
	if (!et_align_up(memory->n_bytes, page, &n_bytes))
		return CANNOT_IMPORT;
	struct inferd_delegate_memory what = {
		.struct_size = sizeof what,
		.kind = et_memory_kind(memory->fd),
		.fd = memory->fd,
		.is_written = 1,
		.n_bytes = n_bytes,
		.data = (void *)memory->start,
	};
	int result = b->table.buffer_import(b->self, device, &what, &buffer);
	return result == INFERD_DELEGATE_OK && buffer ? buffer : CANNOT_IMPORT;
}

void et_direct_find_buffer(struct et_backend *b, uint32_t device, struct inferd_delegate_arg *arg)
{
	uintptr_t start = (uintptr_t)arg->data;
	arg->fd = -1;
	arg->buffer = NULL;
	pthread_mutex_lock(&b->memories_lock);
	uint32_t at = index_behind(b, start);
	struct et_direct_memory *memory = at > 0 ? b->memories[at - 1] : NULL;
	if (memory && !et_in_range(start - memory->start, arg->n_bytes, memory->n_bytes))
		memory = NULL; /* not used by this run, so it may be released as soon as the lock is */
	pthread_mutex_unlock(&b->memories_lock);
	if (!memory)
		return;
	arg->fd = memory->fd;
	arg->fd_offset = arg->buffer_offset = start - memory->start;
	/* acquire: pairs with the release below */
	struct inferd_delegate_buffer *buffer = atomic_load_explicit(&memory->buffers[device], memory_order_acquire);
	if (!buffer) {
		pthread_mutex_lock(&memory->lock);
		buffer = atomic_load_explicit(&memory->buffers[device], memory_order_relaxed);
		if (!buffer) {
			buffer = import(b, memory, device);
			atomic_store_explicit(&memory->buffers[device], buffer, memory_order_release);
		}
		pthread_mutex_unlock(&memory->lock);
	}
	arg->buffer = buffer == CANNOT_IMPORT ? NULL : buffer;
}
