/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the backend's section in inferd.conf. inferd.conf(5) describes them for users. */
#ifndef DELEGATES_OPENCL_OPTIONS_H
#define DELEGATES_OPENCL_OPTIONS_H

#include "delegates/inferd-delegate.h"
#include "runtime/base/status.h"

#include <stdbool.h>

/* Texts belong to the host; NULL: not given. */
struct ocl_options {
	const char *library;   /* the file of the ICD loader */
	const char *vendors;   /* the ICD loader's OCL_ICD_VENDORS: a folder, or one .icd file */
	const char *platforms; /* a list of parts of names: only these platforms are asked */
	const char *devices;   /* a list of gpu, accelerator, cpu, all, and parts of names */
	const char *drivers;   /* rusticl's drivers, RUSTICL_ENABLE */
	bool is_plain;         /* no fused nodes, no fast kernels: each node by its plain kernel */
	bool dumps;            /* the graphs of each payload are written into the cache folder */
};

/* ET_E_INVALID_ARGUMENT with the key, for a key that is unknown or a value that makes no sense. */
enum et_status ocl_options_read(struct ocl_options *ret_options, const struct inferd_delegate_host *host,
	struct et_diag *diag);

/* Set the environment that drivers read. Once, before a driver is loaded. What is set already stays. */
void ocl_options_set_environment(const struct ocl_options *options, const char *cache_dir);

/* Whether one of the words of @list (separated by commas) is @word. */
bool ocl_list_has(const char *list, const char *word);
/* Whether one of the words of @list is a part of @name, whatever the case. */
bool ocl_list_matches(const char *list, const char *name);

#endif
