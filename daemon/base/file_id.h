/* SPDX-License-Identifier: BSD-3-Clause */
/* File identity: whether two looks at a file saw the same, unchanged file. Any thread. */
#ifndef DAEMON_BASE_FILE_ID_H
#define DAEMON_BASE_FILE_ID_H

#include "runtime/platform/platform.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* A file is the same file, unchanged, if all of these are equal. */
struct inf_file_id {
	dev_t dev;
	ino_t ino;
	uint64_t n_bytes, mtime_ns, ctime_ns;
};
/* The identity of the file that @stat describes. */
struct inf_file_id inf_file_id(const struct stat *stat);
bool inf_file_id_equal(const struct inf_file_id *a, const struct inf_file_id *b);

/* The data files (`.ptd`) that belong to a program, in the order in which names are looked up in them. */
struct inf_data_ids {
	uint32_t n;
	struct inf_file_id items[ET_PLATFORM_MAX_DATA];
};
bool inf_data_ids_equal(const struct inf_data_ids *a, const struct inf_data_ids *b);
/* The sum of their sizes; UINT64_MAX where it overflows. */
uint64_t inf_data_ids_n_bytes(const struct inf_data_ids *ids);

/* The descriptions of a version: NAME/model.conf and NAME/VERSION/model.conf. All zeros: there is no such file. */
struct inf_conf_ids {
	struct inf_file_id of_model, of_version;
};
bool inf_conf_ids_equal(const struct inf_conf_ids *a, const struct inf_conf_ids *b);

#endif
