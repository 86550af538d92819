/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside runtime/platform: what a source of file.c knows about its file, for store.c. */
#ifndef RUNTIME_PLATFORM_FILE_INTERNAL_H
#define RUNTIME_PLATFORM_FILE_INTERNAL_H

#include "runtime/platform/platform.h"

#include <sys/stat.h>

/* Which file, and whether it was written to. Fixed width: it lies in files. */
struct et_platform_identity {
	uint64_t device, inode, n_bytes, mtime_ns, ctime_ns;
};
struct et_platform_identity et_platform_identity_of(const struct stat *st);

struct et_store_binding;

struct et_platform_source {
	struct et_platform_mapping mapping;
	int fd;                               /* the file itself, mapped where it lies; -1: a copy */
	struct et_platform_identity identity; /* of the file, while it was taken; inode 0: it changed meanwhile */
	int64_t taken_ns;                     /* CLOCK_REALTIME */
	struct et_store_binding *binding;     /* or NULL */
};
/* NULL if @source is none of file.c's own. */
struct et_platform_source *et_platform_source_of(const struct et_source *source);
/* NULL is fine. */
void et_store_binding_free(struct et_store_binding *binding);

#endif
