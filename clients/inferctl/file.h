/* SPDX-License-Identifier: BSD-3-Clause */
/* A model file: a `.pte`, or a `.bpte` with its test cases, and the data files (`.ptd`) that its program refers to. */
#ifndef CLIENTS_INFERCTL_FILE_H
#define CLIENTS_INFERCTL_FILE_H

#include "clients/inferctl/ctl.h"
#include "runtime/program/bundle.h"
#include "runtime/platform/platform.h"
#include "runtime/program/program.h"

#include <pthread.h>

struct ctl_file {
	char *path;
	struct et_source source; /* the mapped file */
	struct et_pool pool;     /* the bundle's arrays */
	bool is_bundle;
	struct et_bundle bundle;                /* if is_bundle */
	char *data_paths[ET_PLATFORM_MAX_DATA]; /* in the order in which they are searched */
	size_t n_data;
	struct et_platform_data *data;   /* NULL: there are none */
	bool has_data;                   /* data files are complete; false: the folder was not read yet */
	pthread_mutex_t lock;            /* guards the four members above and source.store, while program is open */
	struct et_external_data beside;  /* finds data files when the program asks for a name; zero until it is open */
	struct et_platform_store *store; /* borrowed, or NULL */
	struct et_store kept;            /* store's entries for this file; finds data files when it is asked */
	struct et_program *program;      /* NULL until ctl_file_program opened it */
};

/* Open the file at @path. @data names its data files. If it is NULL or empty, the data files beside the program are
 * used, the one with the program's own name first; they are searched only when the program asks for a tensor that it
 * lacks. The caller closes *ret with ctl_file_close; on failure there is nothing to close. Answers like
 * et_platform_source_open, et_bundle_open and et_platform_data_add; @diag names the file. */
enum et_status ctl_file_open(struct ctl_file *ret, const char *path, const struct ctl_strings *data,
	struct et_diag *diag);
/* Find the data files now, if that was not done before. Answers like et_platform_data_add. Any thread. */
enum et_status ctl_file_find_data(struct ctl_file *file, struct et_diag *diag);
/* Close @file, which may be all zeros. References to its program must be gone. */
void ctl_file_close(struct ctl_file *file);

/* The file's program, as a reference that the caller unrefs. The first call opens it; later calls return the same
 * one and ignore @store. The program borrows the file's bytes, @store (or NULL) and @file, which must stay at its
 * address. @diag names the file. */
enum et_status ctl_file_program(struct ctl_file *file, struct et_platform_store *store, struct et_program **ret_program,
	struct et_diag *diag);

/* The test cases of @method (NULL: of the first method that has test cases). NULL if there are none. */
const struct et_bundle_suite *ctl_file_suite(const struct ctl_file *file, const char *method);

/* Whether @text names a file and not a model: it has a slash, or ends in .pte or .bpte. */
bool ctl_is_path(const char *text);

#endif
