/* SPDX-License-Identifier: BSD-3-Clause */
/* Region: shared memory in which tensors lie, from the daemon's side.
 *
 * Either the daemon makes a region and sends it to the client, or the client makes one and the daemon imports it: a
 * memfd that can neither shrink nor grow, or a dma-buf, whose size never changes. It is mapped with a readable guard
 * page behind it. Its bytes may change at any moment. It is reference-counted: jobs hold references, so a client
 * that dies cannot take memory away from a run. The daemon charges the client for it. */
#ifndef IPC_REGION_H
#define IPC_REGION_H

#include "runtime/base/alloc.h"
#include "runtime/base/ref.h"
#include "runtime/platform/platform.h"

#include <stddef.h>

/* Why the daemon refuses memory that a client offers. The client gets the reason. */
enum inf_region_error {
	INF_REGION_E_SIZE = 1,  /* zero, larger than the file, or beyond the address space */
	INF_REGION_E_TYPE,      /* not memory: a file on a disk, a pipe, a device */
	INF_REGION_E_HUGE,      /* huge pages: they can fault even when sealed */
	INF_REGION_E_UNSEALED,  /* F_SEAL_SHRINK and F_SEAL_GROW are not both set */
	INF_REGION_E_READ_ONLY, /* opened read-only, or sealed against writing */
	INF_REGION_E_MAP,       /* a dma-buf that its exporter does not let the processor map */
};
/* The sentence for the client. Never NULL. */
const char *inf_region_error_text(int error);

struct inf_region {
	struct et_ref ref;
	struct et_platform_mapping mapping;
	int fd; /* borrowed by callers */
	bool is_dma_buf;
	struct et_allocator allocator;
};

/* Make memory. INF_REGION_E_SIZE, or negative errno. Any thread, like every function here. */
int inf_region_create(struct inf_region **ret_region, size_t n_bytes, const struct et_allocator *allocator);

/* Import the first @n_bytes of memory that a client passed by fd. On success @fd is consumed; on any other return it
 * stays the caller's.
 * Answers: enum inf_region_error; negative errno: a problem of our own process. */
int inf_region_import(struct inf_region **ret_region, int fd, size_t n_bytes, const struct et_allocator *allocator);

struct inf_region *inf_region_ref(struct inf_region *region);
/* NULL is fine; returns NULL. The allocator must work on the thread that drops the last reference. */
struct inf_region *inf_region_unref(struct inf_region *region);

/* Begin, and later end, an access of the processor that reads (or @writes) the region. For a dma-buf this makes caches
 * coherent with the device and waits until the device is done, at most until @until_ns on the clock et_platform_now_ns.
 * No effect on other regions. Every successful begin needs an end; a failed begin has none.
 * Answers: 0; -ETIMEDOUT: a device is not done in time; other negative errno. */
int inf_region_begin_access(const struct inf_region *region, bool writes, uint64_t until_ns);
int inf_region_end_access(const struct inf_region *region, bool writes);

/* The address of [offset, offset + n_bytes), or NULL if that is not inside the region. */
void *inf_region_at(const struct inf_region *region, uint64_t offset, uint64_t n_bytes);
/* Whether the kernel could not provide one of its pages (SIGBUS). Since then the daemon sees only zeros in it,
 * forever. */
bool inf_region_faulted(const struct inf_region *region);

#endif
