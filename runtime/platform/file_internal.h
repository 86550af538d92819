/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside runtime/platform: what file.c records about a source's file, for store.c. */
#ifndef RUNTIME_PLATFORM_FILE_INTERNAL_H
#define RUNTIME_PLATFORM_FILE_INTERNAL_H

#include "runtime/platform/platform.h"

#include <sys/stat.h>

/* Identifies a file and its last change. Fixed width, because it is stored in files. */
struct et_platform_identity {
	uint64_t device, inode, n_bytes, mtime_ns, ctime_ns;
};
struct et_platform_identity et_platform_identity_of(const struct stat *st);

struct et_store_binding;

struct et_platform_source {
	struct et_platform_mapping mapping;
	int fd;                               /* the file itself, if it is mapped in place; -1: a copy */
	struct et_platform_identity identity; /* the file's, when it was copied; inode 0: the file changed meanwhile */
	int64_t taken_ns;                     /* CLOCK_REALTIME */
	struct et_store_binding *binding;     /* or NULL */
};
/* NULL: @source was not made by file.c. */
struct et_platform_source *et_platform_source_of(const struct et_source *source);
/* NULL is fine. */
void et_store_binding_free(struct et_store_binding *binding);

#endif
