/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: shared memory that the daemon made, or that the application imported.
 *
 * Each region is mapped once, for reading and writing. A binding over a region references it here and in the daemon, so
 * the application may free the region while bindings use it. Nothing here checks seals; the daemon does. */
#include "clients/libinferd/libinferd_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Map @fd and add the region to the connection's list. @fd stays the caller's. 0, or negative with the sentence
 * written. */
static int region_add(struct inferd *d, struct inferd_region **ret, int fd, size_t n_bytes, uint64_t id)
{
	struct stat st;
	struct inferd_region *r = calloc(1, sizeof *r);
	if (!r)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	int rc = -1;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < n_bytes)
		inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "the region's file is smaller than %zu bytes", n_bytes);
	else if ((rc = et_platform_map(&r->mapping, fd, n_bytes, true)) < 0)
		inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "cannot map the region: %s", strerror(-rc));
	if (rc) {
		free(r);
		return -INFERD_INVALID_ARGUMENT;
	}
	r->d = d;
	r->n_refs = 1;
	r->id = id;
	et_list_append(&d->regions, &r->node);
	*ret = r;
	return 0;
}

static void tell_freed(struct inferd *d, uint64_t id)
{
	inf_lib_tell(d,
		&(struct inf_request){ .kind = INF_REQUEST_REGION_UNREGISTER, .region_unregister = { .region = id } });
}

int inferd_region_new(struct inferd *d, struct inferd_region **ret, size_t n_bytes)
{
	struct inf_request request = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { n_bytes } };
	int rc = inf_lib_call(d, &request, NULL, 0, INF_REPLY_REGION_CREATED);
	if (rc)
		return rc;
	uint64_t id = d->reply.region_created.region;
	int fd = d->reply_fd;
	if (fd < 0)
		return inf_lib_fail(d, INFERD_INTERNAL, "the daemon made a region but sent no descriptor");
	rc = region_add(d, ret, fd, n_bytes, id);
	close(fd);
	if (rc)
		tell_freed(d, id);
	return rc;
}

int inferd_region_import(struct inferd *d, struct inferd_region **ret, int fd, size_t n_bytes)
{
	struct inf_request request = { .kind = INF_REQUEST_REGION_REGISTER,
		.region_register = { .byte_size = n_bytes } };
	int rc = inf_lib_call(d, &request, &fd, 1, INF_REPLY_REGION_CREATED);
	if (rc)
		return rc;
	if (d->reply_fd >= 0)
		close(d->reply_fd);
	uint64_t id = d->reply.region_created.region;
	rc = region_add(d, ret, fd, n_bytes, id);
	if (rc)
		tell_freed(d, id);
	return rc;
}

void *inferd_region_data(const struct inferd_region *r)
{
	return r->mapping.bytes;
}

size_t inferd_region_size(const struct inferd_region *r)
{
	return r->mapping.n_bytes;
}

void inf_lib_region_unref(struct inferd_region *r)
{
	if (--r->n_refs)
		return;
	et_platform_unmap(&r->mapping);
	free(r);
}

void inferd_region_free(struct inferd_region *r)
{
	if (!r)
		return;
	et_list_remove(&r->node);
	tell_freed(r->d, r->id);
	inf_lib_region_unref(r);
}
