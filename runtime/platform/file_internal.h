/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside runtime/platform: what file.c records about a source's file, for the store. */
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
struct et_store_use;

struct et_platform_source {
	struct et_platform_mapping mapping;
	int fd;                               /* the file itself, if it is mapped in place; -1: a copy */
	struct et_platform_identity identity; /* the file's, when it was copied; inode 0: the file changed meanwhile */
	int64_t taken_ns;                     /* CLOCK_REALTIME */
	struct et_store_binding *binding;     /* or NULL */
	struct et_store_use *saved; /* the copy is one that the store has saved, and the mapping its; or NULL */
	bool is_written;            /* the copy's bytes were written: by reference it would have cost nothing */
};
/* NULL: @source was not made by file.c. */
struct et_platform_source *et_platform_source_of(const struct et_source *source);
/* Make *@ret_source of @own, which it takes over. */
void et_platform_source_make(struct et_source *ret_source, struct et_platform_source *own);
/* A file of that size is refused by these limits (NULL: none): ET_E_OUT_OF_RESOURCES. */
enum et_status et_platform_check_size(const struct et_platform_copy_limits *limits, uint64_t n_bytes, const char *name,
	struct et_diag *diag);
/* Open @path for reading, without waiting. */
enum et_status et_platform_open_path(int *ret_fd, const char *path, struct stat *ret_st, struct et_diag *diag);
/* @source is being released: end what it has of the store. */
void et_store_leave(struct et_platform_source *source);

#endif
