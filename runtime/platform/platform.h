/* SPDX-License-Identifier: BSD-3-Clause */
/* The services that a Linux process provides to the runtime: memory, time, files, log.
 *
 * runtime/ itself calls none of these functions; daemon/, clients/, ipc/ and tests do. This folder is a static
 * library of its own, and the only folder in runtime/ that may use the C library's heap and the kernel. */
#ifndef RUNTIME_PLATFORM_PLATFORM_H
#define RUNTIME_PLATFORM_PLATFORM_H

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/program/program.h"

/* The C library's heap. Any thread. Allocations of 2 MiB or more with an alignment of 4096 use huge pages. */
const struct et_allocator *et_platform_allocator(void);
/* The calling thread gets from now on at most @n_bytes from et_platform_allocator, beyond what it frees; UINT64_MAX:
 * any number. Returns whether the limit before has refused anything. */
bool et_platform_limit_heap(uint64_t n_bytes);
/* What the calling thread may still get; UINT64_MAX: any number. */
uint64_t et_platform_heap_left(void);
/* Whole pages from the kernel, zeroed, followed by a readable guard page. Freed pages go back to the kernel at once. */
const struct et_allocator *et_platform_page_allocator(void);

/* This process's resident memory; 0 if unknown. Any thread. */
uint64_t et_platform_resident_bytes(void);

/* The cores that this process may use: those of its affinity, and at most the whole cores of its cgroups' CPU quota; at
 * least 1. For whoever makes worker threads, in the daemon or any other process. Reads files: for the start. Any
 * thread. */
uint32_t et_platform_n_cores(void);

/* CLOCK_MONOTONIC in nanoseconds. @self is ignored. */
uint64_t et_platform_now_ns(void *self);

/* Log lines to stderr, with the syslog level as prefix "<N>" if the journal reads them. */
struct et_log et_platform_log(enum et_log_level max_level);

/* Limits of copying a model file. */
struct et_platform_copy_limits {
	uint64_t max_bytes; /* a larger file is refused; UINT64_MAX: no limit */
	/* Asked before each piece of the copy; true ends the copy. NULL: never. */
	bool (*is_stopped)(void *arg);
	void *arg;
	/* How many bytes a file needs that begins with these @n_bytes; 0: not known. A file that has far more, such
	 * as a sparse one, is refused. NULL: not known. */
	uint64_t (*extent)(const uint8_t *bytes, size_t n_bytes);
};
/* What may be used of @n_free bytes of a disk or memory with @n_all bytes: all but a reserve of a twentieth of @n_all,
 * at least 256 MiB (on a small one a quarter). */
uint64_t et_platform_room(uint64_t n_free, uint64_t n_all);

/* The machine's memory that may be used now (MemAvailable of /proc/meminfo, without the reserve of et_platform_room);
 * UINT64_MAX if unknown. Any thread. */
uint64_t et_platform_memory_room(void);

/* Open a model file as a source whose bytes no other process can change. The contents are copied into an unlinked file
 * in @cache_dir (by reference if the file system can), or into a sealed memfd if @cache_dir is NULL, not writable or
 * has no room (et_platform_room). @limits: NULL, or more limits. The copy is mapped with a guard page behind it.
 * Truncating or rewriting @path later has no effect. Any thread.
 * Answers: ET_E_ACCESS_FAILED (@diag has the path and errno's text), ET_E_INVALID_ARGUMENT (not a regular file,
 * empty, or far longer than its contents), ET_E_MEMORY_ALLOCATION_FAILED, ET_E_OUT_OF_RESOURCES (no descriptors, or
 * the file does not fit into @limits, the disk or memory; @diag has the sizes). ET_E_CANCELLED: the copy was
 * stopped. */
enum et_status et_platform_source_open(struct et_source *ret_source, const char *path, const char *cache_dir,
	const struct et_platform_copy_limits *limits, struct et_diag *diag);
/* Copy the file that is open as @fd, as et_platform_source_import does, without mapping it. *ret_fd is the copy, open
 * for reading; the caller's. */
enum et_status et_platform_copy(int *ret_fd, int fd, size_t n_bytes, const char *name, const char *cache_dir,
	const struct et_platform_copy_limits *limits, struct et_diag *diag);
/* The same as et_platform_source_open, for a file that is open already. @fd stays the caller's; its position is
 * neither used nor moved. Reads exactly @n_bytes, which the caller got from fstat and charged to the client: if the
 * file's size differs by now, it is refused. @name is for @diag. May block as long as the file's file system does. */
enum et_status et_platform_source_import(struct et_source *ret_source, int fd, size_t n_bytes, const char *name,
	const char *cache_dir, const struct et_platform_copy_limits *limits, struct et_diag *diag);

/* Map the file itself, for tools whose user is responsible for it: nothing is copied, a page that disappears reads
 * as zeros (with et_platform_install_sigbus_guard), and changes to the file may be visible. Answers: as
 * et_platform_source_open. */
enum et_status et_platform_source_map(struct et_source *ret_source, const char *path, struct et_diag *diag);

/* A folder for data that delegates made from programs (struct et_store). Saved data is found again by the program's
 * contents. Any thread. */
struct et_platform_store;
/* Open the store in folder @dir, which must exist, belong to this user and not be writable for others. @max_bytes:
 * the most that the folder may hold; the least recently used data is deleted first. @log must outlive the store.
 * NULL: the folder cannot be used; @diag says why. */
struct et_platform_store *et_platform_store_new(const char *dir, uint64_t max_bytes, const struct et_log *log,
	struct et_diag *diag);
struct et_platform_store *et_platform_store_ref(struct et_platform_store *store);
/* NULL is fine; returns NULL. */
struct et_platform_store *et_platform_store_unref(struct et_platform_store *store);
/* Give @source (from et_platform_source_open, _import or _map) a store in this folder; the store keeps a reference on
 * the folder. @external: NULL, or the external data with which the program will be opened, from such sources too; it
 * must outlive @source. Saved data is found again for the same contents of all these files together. @name is the
 * program's name in log lines.
 * Answers: ET_E_MEMORY_ALLOCATION_FAILED; @source is then unchanged. */
enum et_status et_platform_store_bind(struct et_platform_store *store, struct et_source *source,
	const struct et_external_data *external, const char *name, struct et_diag *diag);

/* The SHA-256 of @n_bytes, in hexadecimal digits with a NUL. Any thread. */
enum { ET_PLATFORM_DIGEST = 65 };
void et_platform_digest(const void *bytes, size_t n_bytes, char ret_hex[ET_PLATFORM_DIGEST]);

/* Open the file @path as et_platform_source_open does. But if the store has saved a copy of the file's contents, and
 * nobody has written to the file since its digest was computed, the source is the saved copy: neither file is read. It
 * must be bound to @store next. Answers: as et_platform_source_open. */
enum et_status et_platform_store_open(struct et_platform_store *store, struct et_source *ret_source, const char *path,
	const char *cache_dir, const struct et_platform_copy_limits *limits, struct et_diag *diag);
/* Save a copy of the file of @source, which et_platform_store_bind has bound, for et_platform_store_open: if there is
 * saved data for the program, and the folder and its disk have room without deleting anything. Slow: it writes and
 * waits for the disk. Any thread. */
void et_platform_store_save_copy(const struct et_source *source);
/* For whoever cannot make anything of @source: whether it is a saved copy that is damaged. Reads all of a saved copy;
 * a damaged one is deleted, so that the next et_platform_store_open reads the file. Any thread. */
bool et_platform_source_check(const struct et_source *source);
/* The SHA-256 of the bytes of @source, as et_platform_digest; not computed again if a store knows it. Any thread. */
void et_platform_source_digest(const struct et_source *source, char ret_hex[ET_PLATFORM_DIGEST]);

/* Read the saved files that are in use through and compare them with their digests: those that this process has not
 * read yet, and those that somebody has written to since. Damaged files are logged and deleted, and their programs
 * marked. Slow, at the pace of the disk; for a thread of its own. Whether a program was marked. */
bool et_platform_store_check(struct et_platform_store *store);
/* Whether data that was found in @store, which et_platform_store_bind has made, has turned out to be damaged. Never
 * undone: open the program anew. NULL is fine. */
bool et_platform_store_is_damaged(const struct et_store *store);
/* End what takes long in the store soon: no more checks, and nothing more is saved. */
void et_platform_store_stop(struct et_platform_store *store);

/* The data files (`.ptd`, runtime/program/external_data.h) of one or more programs. One thread fills it; afterwards
 * it is immutable, and any thread may take and drop references. */
struct et_platform_data;
enum { ET_PLATFORM_MAX_DATA = 15 };
/* A set without any file, with one reference. NULL: no memory. */
struct et_platform_data *et_platform_data_new(void);
struct et_platform_data *et_platform_data_ref(struct et_platform_data *data);
/* NULL is fine; returns NULL. */
struct et_platform_data *et_platform_data_unref(struct et_platform_data *data);
/* Open a data file. @source: taken over on success, the caller's on failure. Names are searched in the file added last
 * first.
 * Answers: as et_external_open, with @name in front of the text; ET_E_NOT_SUPPORTED beyond ET_PLATFORM_MAX_DATA
 * files. */
enum et_status et_platform_data_add(struct et_platform_data *data, const struct et_source *source, const char *name,
	struct et_diag *diag);
/* The table for et_program_open. NULL if @data is NULL or has no file. */
const struct et_external_data *et_platform_data_table(const struct et_platform_data *data);
/* The size of all its files together. */
size_t et_platform_data_n_bytes(const struct et_platform_data *data);
/* Let @source keep a reference on @data until it is released. Call it before a program is opened from @source.
 * Answers: ET_E_MEMORY_ALLOCATION_FAILED; @source is then unchanged. */
enum et_status et_platform_data_bind(struct et_platform_data *data, struct et_source *source, struct et_diag *diag);

/* A mapping of a file descriptor, followed by a readable guard page of zeros. */
struct et_platform_mapping {
	void *bytes;
	size_t n_bytes;  /* without the guard page */
	size_t n_mapped; /* with the guard pages, for munmap */
	size_t n_front;  /* bytes of n_mapped in front of @bytes */
	int guard;       /* index in the SIGBUS table, or -1 */
};
/* Map the first @n_bytes of @fd, which stays the caller's. Negative errno on failure. */
int et_platform_map(struct et_platform_mapping *ret_mapping, int fd, size_t n_bytes, bool is_writable);
/* Map [offset, offset + n_bytes) of @fd, whole pages, with a guard page in front, too. The mapping is shared:
 * changes to the file are visible even if it @is_writable is false. */
int et_platform_map_part(struct et_platform_mapping *ret_mapping, int fd, uint64_t offset, size_t n_bytes,
	bool is_writable);
/* All zeros is fine. */
void et_platform_unmap(struct et_platform_mapping *mapping);

/* What a file that begins with these bytes is, if it is of a known format that is often taken for a program: "an ONNX
 * model, ...", with the remedy. NULL: it may be a program, or anything else. Any thread. */
const char *et_platform_foreign_format(const void *bytes, size_t n);
/* The same for the file at @path; NULL, too, if it cannot be read. Any thread. */
const char *et_platform_foreign_file(const char *path);

/* Install a handler for SIGBUS inside a guarded mapping (its file lost pages). It puts zeroed private memory in the
 * mapping's place, notes the fault and lets the thread continue. After a job over such memory, ask
 * et_platform_mapping_faulted and fail the job. SIGBUS elsewhere keeps its earlier action. Install it early, before
 * there are threads; a second call does nothing. */
void et_platform_install_sigbus_guard(void);
bool et_platform_mapping_faulted(const struct et_platform_mapping *mapping);

#endif
