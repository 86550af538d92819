/* SPDX-License-Identifier: BSD-3-Clause */
/* A model file opened to be looked at: a `.pte`, or a `.bpte` with its test cases, and the data files (`.ptd`) that
 * its program may refer to. */
#ifndef CLIENTS_INFERCTL_FILE_H
#define CLIENTS_INFERCTL_FILE_H

#include "clients/inferctl/ctl.h"
#include "runtime/program/bundle.h"
#include "runtime/platform/platform.h"
#include "runtime/program/program.h"

#include <pthread.h>

struct ctl_file {
	char *path;
	struct et_source source; /* the file's bytes, unchanging */
	struct et_pool pool;     /* the bundle's arrays */
	bool is_bundle;
	struct et_bundle bundle;                /* if is_bundle */
	char *data_paths[ET_PLATFORM_MAX_DATA]; /* in the order in which names are looked for */
	size_t n_data;
	struct et_platform_data *data;   /* NULL: there are none */
	bool has_data;                   /* these are all; else nobody has looked beside it yet */
	pthread_mutex_t lock;            /* of the four above and of @source's store, while @program is open */
	struct et_external_data beside;  /* finds them when asked; null until it is open */
	struct et_platform_store *store; /* borrowed, or NULL */
	struct et_store kept;            /* what @store has of these files, which are looked for when it is asked */
	struct et_program *program;      /* once it was opened; or NULL */
};

/* @data: its data files; none given (or NULL): those that lie beside it, the one with its own name first, which are looked
 * for when the program asks for a name that it does not have itself.
 * Answers as et_platform_source_open, et_bundle_open and et_platform_data_add; @diag names the file. On failure nothing is to
 * be closed. */
enum et_status ctl_file_open(struct ctl_file *ret, const char *path, const struct ctl_strings *data,
	struct et_diag *diag);
/* Look for its data files now, if that has not been done. Answers as et_platform_data_add. Any thread. */
enum et_status ctl_file_find_data(struct ctl_file *file, struct et_diag *diag);
/* All zeros is fine. References to its program must be gone. */
void ctl_file_close(struct ctl_file *file);

/* The program inside, a reference: the same one each time, as it was opened at first. It borrows the file's bytes, @store
 * (or NULL), and @file, which stays where it is. @diag names the file. */
enum et_status ctl_file_program(struct ctl_file *file, struct et_platform_store *store, struct et_program **ret_program,
	struct et_diag *diag);

/* The test cases of @method (NULL: of the first method that has some), or NULL. */
const struct et_bundle_suite *ctl_file_suite(const struct ctl_file *file, const char *method);

/* Whether @text is meant as a file and not as the name of a model: it has a slash or ends in .pte or .bpte. */
bool ctl_is_path(const char *text);

#endif
