/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients' memory in a host: map the parts that runs read and write.
 *
 * inferd shares a memory file once. Each argument of a run names a shared file and an offset. Only the argument's
 * pages are mapped: an input's for reading, an output's for writing, each with a page that can't be written in
 * front and behind. So a stray write of the library hits at worst an output, or what shares a page with an output,
 * of a client that uses this backend. An area stays mapped after its run, since mapping costs more than a small
 * run: up to MAX_AREAS of them, and until inferd sends FORGET.
 *
 * A page may be missing when it is touched (a client punched a hole into the file, and the file system is full).
 * That raises SIGBUS; the process's guard maps zeros there, and the run fails, not the process.
 *
 * The plug-in's buffer_import and buffer_free are never called with the lock held. */
#include "delegates/memory_kind.h"
#include "delegates/plugin/host/host_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_AREAS = 256 };

/* Called under the lock. */
static struct shared *find(struct host *host, uint64_t id)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &host->shared) {
		struct shared *shared = ET_CONTAINER_OF(node, struct shared, node);
		if (shared->id == id)
			return shared;
	}
	return NULL;
}

/* Called under the lock. */
static void shared_put(struct shared *shared)
{
	if (--shared->n_refs)
		return;
	et_list_remove(&shared->node);
	close(shared->fd);
	free(shared);
}

void et_hosted_share(struct host *host, const struct et_plugin_share *share, int fd, struct et_plugin_answer *answer)
{
	struct stat st;
	struct shared *shared = calloc(1, sizeof *shared);
	/* no descriptor came: this process has none left */
	answer->result = shared && fd >= 0 ? INFERD_DELEGATE_E_INVALID : INFERD_DELEGATE_E_MEMORY;
	if (!shared || fd < 0 || !share->id || fstat(fd, &st) < 0 || (uint64_t)st.st_size < share->n_bytes) {
		if (fd >= 0)
			close(fd);
		free(shared);
		return;
	}
	*shared = (struct shared){
		.id = share->id, .n_bytes = share->n_bytes, .fd = fd, .kind = et_memory_kind(fd), .n_refs = 1
	};
	et_list_init(&shared->areas);
	answer->result = INFERD_DELEGATE_OK;
	pthread_mutex_lock(&host->lock);
	if (find(host, share->id)) { /* two runs shared it at the same time */
		close(fd);
		free(shared);
	} else {
		et_list_append(&host->shared, &shared->node);
	}
	pthread_mutex_unlock(&host->lock);
}

/* Called under the lock: take @area out of both lists. The caller frees it with area_free, without the lock. */
static void take_out(struct host *host, struct area *area)
{
	et_list_remove(&area->node);
	et_list_remove(&area->used);
	host->n_areas--;
	shared_put(area->shared);
	area->shared = NULL;
}

static void area_free(struct host *host, struct area *area)
{
	if (!area)
		return;
	if (area->buffer)
		host->table->buffer_free(area->buffer);
	et_platform_unmap(&area->mapping);
	free(area);
}

/* Called under the lock: take out the area that was used longest ago and that no run uses, of @shared or (NULL) of
 * all. */
static struct area *take_idle(struct host *host, const struct shared *shared)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &host->used_areas) {
		struct area *area = ET_CONTAINER_OF(node, struct area, used);
		if (area->n_runs || (shared && area->shared != shared))
			continue;
		take_out(host, area);
		return area;
	}
	return NULL;
}

void et_hosted_forget(struct host *host, uint64_t id)
{
	struct area *idle;
	pthread_mutex_lock(&host->lock);
	struct shared *shared = id ? find(host, id) : NULL;
	if (shared)
		shared->id =
			0; /* so that neither a run nor another FORGET finds it; its first reference is dropped below */
	while (shared && (idle = take_idle(host, shared))) {
		pthread_mutex_unlock(&host->lock);
		area_free(host, idle);
		pthread_mutex_lock(&host->lock);
	}
	if (shared)
		shared_put(shared); /* areas in use are freed when their runs end */
	pthread_mutex_unlock(&host->lock);
}

/* Import the area into the plug-in, if that imports memory. A failure is no error: the arguments come without a
 * buffer. */
static void import(struct host *host, struct area *area)
{
	if (area->device == NO_DEVICE || !host->table->buffer_import || !host->table->buffer_free)
		return;
	struct inferd_delegate_memory memory = { .struct_size = sizeof memory,
		.kind = area->shared->kind,
		.fd = area->shared->fd,
		.is_written = area->is_written,
		.fd_offset = area->offset,
		.n_bytes = area->mapping.n_bytes,
		.data = area->mapping.bytes };
	if (host->table->buffer_import(host->self, area->device, &memory, &area->buffer))
		area->buffer = NULL;
}

/* Map an area like @wanted. The caller's reference to @shared becomes the area's, unless NULL is returned. */
static struct area *area_new(struct host *host, struct shared *shared, const struct area *wanted, size_t n_bytes)
{
	struct area *area = calloc(1, sizeof *area);
	if (!area)
		return NULL;
	*area = *wanted;
	area->shared = shared;
	if (et_platform_map_part(&area->mapping, shared->fd, area->offset, n_bytes, area->is_written) < 0) {
		free(area);
		return NULL;
	}
	import(host, area);
	return area;
}

struct area *et_hosted_area_get(struct host *host, uint64_t id, uint64_t offset, uint64_t n_bytes, bool is_written,
	uint32_t device)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct et_list_node *node, *after;
	struct area *evicted = NULL;
	struct area wanted = {
		.offset = offset / page * page, .device = device, .is_written = is_written, .n_runs = 1
	};
	size_t n_pages;
	pthread_mutex_lock(&host->lock);
	struct shared *shared = id ? find(host, id) : NULL;
	if (!shared || !et_in_range(offset, n_bytes, shared->n_bytes) ||
		!et_align_up((size_t)(offset - wanted.offset + (n_bytes ? n_bytes : 1)), (size_t)page, &n_pages)) {
		pthread_mutex_unlock(&host->lock);
		return NULL;
	}
	ET_LIST_FOR_EACH(node, after, &shared->areas) {
		struct area *area = ET_CONTAINER_OF(node, struct area, node);
		if (area->offset != wanted.offset || area->mapping.n_bytes != n_pages ||
			area->is_written != is_written || area->device != device ||
			et_platform_mapping_faulted(&area->mapping))
			continue;
		area->n_runs++;
		et_list_remove(&area->used);
		et_list_append(&host->used_areas, &area->used);
		pthread_mutex_unlock(&host->lock);
		return area;
	}
	shared->n_refs++;
	pthread_mutex_unlock(&host->lock);
	struct area *area = area_new(host, shared, &wanted, n_pages);
	pthread_mutex_lock(&host->lock);
	if (area) {
		et_list_append(&shared->areas, &area->node);
		et_list_append(&host->used_areas, &area->used);
		if (++host->n_areas > MAX_AREAS)
			evicted = take_idle(host, NULL);
	} else {
		shared_put(shared);
	}
	pthread_mutex_unlock(&host->lock);
	area_free(host, evicted);
	return area;
}

bool et_hosted_area_put(struct host *host, struct area *area)
{
	bool has_faulted = et_platform_mapping_faulted(&area->mapping);
	pthread_mutex_lock(&host->lock);
	bool is_over = --area->n_runs == 0 && (has_faulted || !area->shared->id);
	if (is_over)
		take_out(host, area);
	pthread_mutex_unlock(&host->lock);
	if (is_over)
		area_free(host, area);
	return !has_faulted;
}

void et_hosted_areas_free(struct host *host)
{
	struct et_list_node *node, *after;
	struct area *area;
	while ((area = take_idle(host, NULL)))
		area_free(host, area);
	ET_LIST_FOR_EACH(node, after, &host->shared) {
		struct shared *shared = ET_CONTAINER_OF(node, struct shared, node);
		if (shared->id) /* else only areas of runs that never ended hold it */
			shared_put(shared);
	}
}
