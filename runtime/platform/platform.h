/* SPDX-License-Identifier: BSD-3-Clause */
/* What a Linux process hands to the runtime: memory, time, files, log.
 *
 * runtime/ itself calls none of these; daemon/, clients/, ipc/ and tests do. This folder is its own static
 * library and the only place in runtime/ that may use the C library's heap and the kernel. */
#ifndef RUNTIME_PLATFORM_PLATFORM_H
#define RUNTIME_PLATFORM_PLATFORM_H

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/program/program.h"

/* The C library's heap. Any thread. What is asked for in 2 MiB and more at an alignment of 4096 comes in huge pages. */
const struct et_allocator *et_platform_allocator(void);
/* Whole pages from the kernel, zeroed, followed by a readable guard page; given back at once when freed. */
const struct et_allocator *et_platform_page_allocator(void);

/* Memory of this process that is in the machine's; 0 if unknown. Any thread. */
uint64_t et_platform_resident_bytes(void);

/* CLOCK_MONOTONIC in nanoseconds; @self is ignored. */
uint64_t et_platform_now_ns(void *self);

/* Lines to stderr, with the syslog level prefix "<N>" when the journal reads them. */
struct et_log et_platform_log(enum et_log_level max_level);

/* Open a model file as a source whose bytes nobody else can change: the contents are copied (by reference where
 * the file system can) into an unlinked file in @cache_dir, or into a sealed memfd where that is NULL or not
 * writable, and mapped with a guard page behind. Truncating or rewriting @path later changes nothing here.
 * Any thread. Answers: ET_E_ACCESS_FAILED with the path and errno's text in @diag, ET_E_INVALID_ARGUMENT for
 * something that is no regular file or is empty, ET_E_MEMORY_ALLOCATION_FAILED, ET_E_OUT_OF_RESOURCES when there are no
 * descriptors or no room left. */
enum et_status et_platform_source_open(struct et_source *ret_source, const char *path, const char *cache_dir,
	struct et_diag *diag);
/* The same for a file that somebody opened for us. @fd stays the caller's; its position is neither used nor moved.
 * Takes exactly @n_bytes, which the caller has read with fstat and charged: a file that is shorter or longer by now
 * is refused. @name is for @diag. May block as long as the file's file system does. */
enum et_status et_platform_source_import(struct et_source *ret_source, int fd, size_t n_bytes, const char *name,
	const char *cache_dir, struct et_diag *diag);

/* The file where it lies, for tools whose user answers for it: nothing is copied, a page that goes away reads as zeros
 * (with et_platform_install_sigbus_guard), and what is written to the file meanwhile may be seen. Answers as above. */
enum et_status et_platform_source_map(struct et_source *ret_source, const char *path, struct et_diag *diag);

/* A folder of things that were made of programs (et_store), found again by the program's contents. Any thread. */
struct et_platform_store;
/* @dir must be there and the caller's own. @max_bytes: what lies there together at most; what was not used for longest
 * goes first. @log must outlive the store. NULL, and a sentence in @diag, if that is no such folder. */
struct et_platform_store *et_platform_store_new(const char *dir, uint64_t max_bytes, const struct et_log *log,
	struct et_diag *diag);
struct et_platform_store *et_platform_store_ref(struct et_platform_store *store);
/* NULL is fine; returns NULL. */
struct et_platform_store *et_platform_store_unref(struct et_platform_store *store);
/* Give @source, as et_platform_source_open or et_platform_source_map made it, a store in the folder, which keeps a
 * reference on it. @external: NULL, or what the program is going to be opened with, from such sources, too;
 * it must outlive @source. What is kept is found again for the same contents of all of them together. @name
 * stands for the program's file in log lines. ET_E_MEMORY_ALLOCATION_FAILED; @source is then as it was. */
enum et_status et_platform_store_bind(struct et_platform_store *store, struct et_source *source,
	const struct et_external_data *external, const char *name, struct et_diag *diag);

/* The data files (`.ptd`, runtime/program/external_data.h) of a program, or of several. Filled by one thread, then unchanging; any
 * thread may count references. */
struct et_platform_data;
enum { ET_PLATFORM_MAX_DATA = 15 };
/* Without any file, one reference. NULL: no memory. */
struct et_platform_data *et_platform_data_new(void);
struct et_platform_data *et_platform_data_ref(struct et_platform_data *data);
/* NULL is fine; returns NULL. */
struct et_platform_data *et_platform_data_unref(struct et_platform_data *data);
/* @source: taken over on success, the caller's on failure. Names are looked for in the file added last first.
 * Answers: as et_external_open, with @name in front; ET_E_NOT_SUPPORTED beyond ET_PLATFORM_MAX_DATA files. */
enum et_status et_platform_data_add(struct et_platform_data *data, const struct et_source *source, const char *name,
	struct et_diag *diag);
/* For et_program_open; NULL if @data is NULL or has no file. */
const struct et_external_data *et_platform_data_table(const struct et_platform_data *data);
/* Of all its files. */
size_t et_platform_data_n_bytes(const struct et_platform_data *data);
/* Have @source, which a program is about to be opened from, keep a reference on @data until it is released. On
 * failure (ET_E_MEMORY_ALLOCATION_FAILED) @source is as it was. */
enum et_status et_platform_data_bind(struct et_platform_data *data, struct et_source *source, struct et_diag *diag);

/* A mapping of a file descriptor followed by a readable guard page of zeros. */
struct et_platform_mapping {
	void *bytes;
	size_t n_bytes;  /* of the file part; the guard page comes on top */
	size_t n_mapped; /* with the guard, for unmapping */
	size_t n_front;  /* of n_mapped, in front of bytes */
	int guard;       /* its entry in the SIGBUS table, or -1 */
};
/* @fd stays the caller's. Negative errno on failure. */
int et_platform_map(struct et_platform_mapping *ret_mapping, int fd, size_t n_bytes, bool is_writable);
/* [offset, offset + n_bytes) of it, whole pages, with a guard page in front, too. What others write to the file is seen
 * also where this one is not writable. */
int et_platform_map_part(struct et_platform_mapping *ret_mapping, int fd, uint64_t offset, size_t n_bytes,
	bool is_writable);
/* All zeros is fine. */
void et_platform_unmap(struct et_platform_mapping *mapping);

/* SIGBUS inside a guarded mapping (its file lost pages): the handler puts zeroed private memory in its place, notes
 * the fault and lets the thread go on; whoever ran a job over it asks et_platform_mapping_faulted afterwards and fails
 * that job. SIGBUS elsewhere keeps the action it had. Install early, before there are threads; again does nothing. */
void et_platform_install_sigbus_guard(void);
bool et_platform_mapping_faulted(const struct et_platform_mapping *mapping);

#endif
