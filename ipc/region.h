/* SPDX-License-Identifier: BSD-3-Clause */
/* Region: shared memory in which tensors lie, as the daemon sees it.
 *
 * A region is made by the daemon and handed to the client, or made by the client and imported: a memfd that
 * can neither shrink nor grow, or a dma-buf, whose size never changes. It is mapped with a readable guard
 * page behind. Its bytes may change at any moment. It is reference-counted: jobs hold references, so that a
 * client that dies cannot take memory from under a run. Charging a client for it is the daemon's. */
#ifndef IPC_REGION_H
#define IPC_REGION_H

#include "runtime/base/alloc.h"
#include "runtime/base/ref.h"
#include "runtime/platform/platform.h"

#include <stddef.h>

/* Why an offered memory was refused: things to tell the client. */
enum inf_region_error {
	INF_REGION_E_SIZE = 1,  /* zero, larger than the file, or beyond the address space */
	INF_REGION_E_TYPE,      /* not memory: a file on a disk, a pipe, a device */
	INF_REGION_E_HUGE,      /* huge pages: they can fault even when sealed */
	INF_REGION_E_UNSEALED,  /* F_SEAL_SHRINK and F_SEAL_GROW are not both set */
	INF_REGION_E_READ_ONLY, /* opened for reading only, or sealed against writing */
	INF_REGION_E_MAP,       /* a dma-buf whose exporter does not let the processor at it */
};
/* The sentence for the client. Never NULL. */
const char *inf_region_error_text(int error);

struct inf_region {
	struct et_ref ref;
	struct et_platform_mapping mapping;
	int fd; /* borrowed by whoever sends or imports it */
	bool is_dma_buf;
	struct et_allocator allocator;
};

/* Make memory. INF_REGION_E_SIZE, or negative errno. Any thread, like everything here. */
int inf_region_create(struct inf_region **ret_region, size_t n_bytes, const struct et_allocator *allocator);

/* Import memory that a client passed by fd; its first @n_bytes are used.
 * On success @fd is consumed; on any other return it stays the caller's.
 * Answers: enum inf_region_error; negative errno: we are broken. */
int inf_region_import(struct inf_region **ret_region, int fd, size_t n_bytes, const struct et_allocator *allocator);

struct inf_region *inf_region_ref(struct inf_region *region);
/* NULL is fine; returns NULL. The allocator must take this from whichever thread comes last. */
struct inf_region *inf_region_unref(struct inf_region *region);

/* Around every time the processor reads (or @writes) a dma-buf: caches are made to agree with the device, and what it
 * still does to the buffer is waited for, until @until_ns of et_platform_now_ns. Each begin has an end. Nothing for other
 * regions. 0, -ETIMEDOUT: a device is not done with it; or another negative errno; after a begin that failed there is
 * no end. */
int inf_region_begin_access(const struct inf_region *region, bool writes, uint64_t until_ns);
int inf_region_end_access(const struct inf_region *region, bool writes);

/* [offset, offset + n_bytes) of it, or NULL when that is not inside. */
void *inf_region_at(const struct inf_region *region, uint64_t offset, uint64_t n_bytes);
/* The kernel could not give its pages (SIGBUS): since then the daemon sees zeros there, for good. */
bool inf_region_faulted(const struct inf_region *region);

#endif
