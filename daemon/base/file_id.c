/* SPDX-License-Identifier: BSD-3-Clause */
/* File identity from stat: device, inode, size and times.
 *
 * A file that was rewritten in place within the resolution of its times and kept its size looks unchanged. That is
 * accepted: an administrator says when a replaced model is complete ('inferctl load'). */
#include "daemon/base/file_id.h"

#include "runtime/base/checked.h"

struct inf_file_id inf_file_id(const struct stat *stat)
{
	return (struct inf_file_id){
		.dev = stat->st_dev,
		.ino = stat->st_ino,
		.n_bytes = (uint64_t)stat->st_size,
		.mtime_ns = (uint64_t)stat->st_mtim.tv_sec * 1000000000 + (uint64_t)stat->st_mtim.tv_nsec,
		.ctime_ns = (uint64_t)stat->st_ctim.tv_sec * 1000000000 + (uint64_t)stat->st_ctim.tv_nsec,
	};
}

bool inf_file_id_equal(const struct inf_file_id *a, const struct inf_file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->n_bytes == b->n_bytes && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns;
}

bool inf_data_ids_equal(const struct inf_data_ids *a, const struct inf_data_ids *b)
{
	for (uint32_t i = 0; i < a->n && i < b->n; i++)
		if (!inf_file_id_equal(&a->items[i], &b->items[i]))
			return false;
	return a->n == b->n;
}

uint64_t inf_data_ids_n_bytes(const struct inf_data_ids *ids)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < ids->n; i++)
		et_add_up(&n, ids->items[i].n_bytes);
	return n;
}

bool inf_conf_ids_equal(const struct inf_conf_ids *a, const struct inf_conf_ids *b)
{
	return inf_file_id_equal(&a->of_model, &b->of_model) && inf_file_id_equal(&a->of_version, &b->of_version);
}
