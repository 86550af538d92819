/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: shared memory that the daemon made, or that the application imported.
 *
 * Each region is mapped once, for reading and writing. A binding over a region references it here and in the daemon, so
 * the application may free the region while bindings use it. Nothing here checks seals; the daemon does.
 *
 * If the connection may be restored, the region keeps its descriptor. The next daemon gets the same memory, as memory
 * that a client brings, whoever made it; so every pointer into it stays valid. */
#include "clients/libinferd/libinferd_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Make a region that the daemon was not asked for yet. @fd is consumed; -1: the daemon makes the memory. NULL: memory
 * ran out. */
static struct inferd_region *region_begin(struct inferd *d, int fd, size_t n_bytes, uint64_t timeout_us)
{
	struct inferd_region *r = calloc(1, sizeof *r);
	if (!r) {
		if (fd >= 0)
			close(fd);
		inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
		return NULL;
	}
	r->d = d;
	r->n_refs = 1;
	r->fd = fd;
	r->n_bytes = n_bytes;
	inf_lib_op_init(&r->op, INF_LIB_REGION_MAKE);
	inf_lib_op_begin(d, &r->op, timeout_us, NULL);
	et_list_append(&d->regions, &r->node);
	return r;
}

struct inferd_region *inf_lib_region_new(struct inferd *d, size_t n_bytes)
{
	return region_begin(d, -1, n_bytes, 0);
}

/* Wait until the daemon has it. */
static int finish(struct inferd_region *r, struct inferd_region **ret)
{
	if (!r)
		return -INFERD_RESOURCE_EXHAUSTED;
	inf_lib_advance(r->d);
	int rc = inf_lib_op_wait(r->d, &r->op);
	if (rc)
		inferd_region_free(r);
	else
		*ret = r;
	return rc;
}

int inferd_region_new(struct inferd *d, struct inferd_region **ret, size_t n_bytes)
{
	if (d->phase == INF_LIB_LOST)
		return inf_lib_lost(d);
	return finish(region_begin(d, -1, n_bytes, d->timeout_us), ret);
}

int inferd_region_import(struct inferd *d, struct inferd_region **ret, int fd, size_t n_bytes)
{
	if (d->phase == INF_LIB_LOST)
		return inf_lib_lost(d);
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return errno == EBADF
			       ? inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "a descriptor that was passed is not open")
			       : inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "cannot copy a descriptor: %s",
					 strerror(errno));
	return finish(region_begin(d, copy, n_bytes, d->timeout_us), ret);
}

void inf_lib_region_ask(struct inferd_region *r)
{
	struct inf_request request = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { r->n_bytes } };
	if (r->fd >= 0)
		request = (struct inf_request){ .kind = INF_REQUEST_REGION_REGISTER,
			.region_register = { .byte_size = r->n_bytes } };
	int rc = inf_lib_send(r->d, &request, &r->fd, r->fd >= 0);
	if (r->d->phase != INF_LIB_READY)
		return; /* lost: it is asked for again */
	if (!rc) {
		r->remote.state = INF_LIB_ASKED;
		r->remote.asked = request.id;
		return;
	}
	r->remote.state = INF_LIB_FAILED;
	r->remote.status = -rc;
	snprintf(r->remote.error, sizeof r->remote.error, "%s", r->d->error);
	if (r->op.state == INF_LIB_RUNNING)
		inf_lib_op_end(r->d, &r->op, rc, r->remote.error);
}

/* Map the region for the first time. @fd came with the reply, or is -1. 0, or negative with the sentence written. */
static int map(struct inferd_region *r, int fd)
{
	struct inferd *d = r->d;
	struct stat st;
	if (r->fd < 0 && fd < 0)
		return inf_lib_fail(d, INFERD_INTERNAL, "the daemon made a region but sent no descriptor");
	if (r->fd < 0)
		r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (r->fd < 0 || fstat(r->fd, &st) < 0 || (uint64_t)st.st_size < r->n_bytes)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "the region's file is smaller than %zu bytes",
			r->n_bytes);
	int rc = et_platform_map(&r->mapping, r->fd, r->n_bytes, true);
	if (rc < 0)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "cannot map the region: %s", strerror(-rc));
	r->device = st.st_dev;
	r->inode = st.st_ino;
	if (!d->reconnect_ms) {
		close(r->fd);
		r->fd = -1;
	}
	return 0;
}

void inf_lib_region_answered(struct inferd_region *r, const struct inf_reply *reply, int fd)
{
	struct inferd *d = r->d;
	int rc = 0;
	if (inf_lib_leave(d, reply)) {
		r->remote.state = INF_LIB_ABSENT;
		return;
	}
	if (reply->status != INF_OK || reply->kind != INF_REPLY_REGION_CREATED) {
		inf_lib_refused(&r->remote, reply, INF_REPLY_REGION_CREATED);
		rc = -r->remote.status;
	} else {
		r->remote.state = INF_LIB_THERE;
		r->remote.id = reply->region_created.region;
		rc = r->mapping.bytes ? 0 : map(r, fd);
		if (rc) {
			inf_lib_tell_freed(d, &r->remote, INF_REQUEST_REGION_UNREGISTER);
			r->remote.state = INF_LIB_FAILED;
			r->remote.status = -rc;
			snprintf(r->remote.error, sizeof r->remote.error, "%s", d->error);
		}
	}
	if (r->op.state == INF_LIB_RUNNING)
		inf_lib_op_end(d, &r->op, rc, rc ? r->remote.error : "");
}

void *inferd_region_data(const struct inferd_region *r)
{
	return r->mapping.bytes;
}

size_t inferd_region_size(const struct inferd_region *r)
{
	return r->n_bytes;
}

void inf_lib_region_unref(struct inferd_region *r)
{
	if (--r->n_refs)
		return;
	et_list_remove(&r->node);
	inf_lib_op_drop(r->d, &r->op);
	inf_lib_tell_freed(r->d, &r->remote, INF_REQUEST_REGION_UNREGISTER);
	if (r->mapping.bytes)
		et_platform_unmap(&r->mapping);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

void inferd_region_free(struct inferd_region *r)
{
	if (!r)
		return;
	r->is_freed = true;
	/* A binding that the daemon has keeps the memory there: the region itself is not needed any more. */
	if (r->n_refs > 1)
		inf_lib_advance(r->d);
	inf_lib_region_unref(r);
}
