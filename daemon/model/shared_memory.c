/* SPDX-License-Identifier: BSD-3-Clause */
/* Registering memory with backends, and pages that are registered when they are allocated.
 *
 * Memory that a backend does not know still works: the backend's tensors are copied, and the copies are counted. So a
 * failed registration is no error; only the allocation of pages can fail. */
#include "daemon/model/shared_memory.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void inf_shared_add(struct inf_shared *shared, const struct et_registry *registry, int fd, void *bytes, size_t n_bytes)
{
	*shared = (struct inf_shared){ { NULL } };
	for (size_t i = 0; i < registry->n_backends && i < INF_BACKENDS_MAX; i++) {
		const struct et_backend_entry *entry = &registry->backends[i];
		if (entry->ops->import_memory &&
			entry->ops->import_memory(entry->backend, fd, bytes, n_bytes, &shared->handles[i]))
			shared->handles[i] = NULL;
	}
}

void inf_shared_remove(struct inf_shared *shared, const struct et_registry *registry)
{
	for (size_t i = 0; i < registry->n_backends && i < INF_BACKENDS_MAX; i++) {
		const struct et_backend_entry *entry = &registry->backends[i];
		if (shared->handles[i])
			entry->ops->release_memory(entry->backend, shared->handles[i]);
		shared->handles[i] = NULL;
	}
}

/* --- pages -------------------------------------------------------------------------------------------- */

struct piece {
	struct et_list_node node;
	struct et_platform_mapping mapping;
	struct inf_shared shared;
	int fd;
};

static void piece_free(struct inf_shared_pages *pages, struct piece *piece)
{
	inf_shared_remove(&piece->shared, pages->registry);
	et_platform_unmap(&piece->mapping);
	if (piece->fd >= 0)
		close(piece->fd);
	free(piece);
}

static void *pages_alloc(void *self, size_t n_bytes, size_t align)
{
	struct inf_shared_pages *pages = self;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n;
	struct piece *piece = calloc(1, sizeof(*piece));
	if (!piece)
		return NULL;
	piece->fd = align <= page && et_align_up(n_bytes ? n_bytes : 1, page, &n)
			    ? memfd_create("inferd-activations", MFD_CLOEXEC | MFD_ALLOW_SEALING)
			    : -1;
	if (piece->fd < 0 || ftruncate(piece->fd, (off_t)n) < 0 ||
		fcntl(piece->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
		et_platform_map(&piece->mapping, piece->fd, n, true) < 0) {
		piece_free(pages, piece);
		return NULL;
	}
	inf_shared_add(&piece->shared, pages->registry, piece->fd, piece->mapping.bytes, n);
	pthread_mutex_lock(&pages->lock);
	et_list_append(&pages->pieces, &piece->node);
	pthread_mutex_unlock(&pages->lock);
	return piece->mapping.bytes;
}

static void pages_free(void *self, void *ptr, size_t n_bytes)
{
	struct inf_shared_pages *pages = self;
	struct piece *found = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&pages->lock);
	ET_LIST_FOR_EACH(node, after, &pages->pieces) {
		struct piece *piece = ET_CONTAINER_OF(node, struct piece, node);
		if (ptr && piece->mapping.bytes == ptr)
			found = piece;
	}
	if (found)
		et_list_remove(&found->node);
	pthread_mutex_unlock(&pages->lock);
	if (found)
		piece_free(pages, found);
}

void inf_shared_pages_init(struct inf_shared_pages *pages, const struct et_registry *registry)
{
	pages->allocator = (struct et_allocator){ .self = pages, .alloc = pages_alloc, .free = pages_free };
	pages->registry = registry;
	pthread_mutex_init(&pages->lock, NULL);
	et_list_init(&pages->pieces);
}

void inf_shared_pages_deinit(struct inf_shared_pages *pages)
{
	pthread_mutex_destroy(&pages->lock);
}
