/* SPDX-License-Identifier: BSD-3-Clause */
/* Persisting packed weights: they are put into the Program's store, by names that outlive the process.
 *
 * Rows are collected under the lock and written without it: blocks neither change nor go away while the object lives.
 * Weights that are packed meanwhile are news for the next time. */
#include "delegates/xnnpack/weights/weights_internal.h"

#include <string.h>

bool et_xnn_weights_is_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes)
{
	const struct et_xnn_packed *packed = &weights->packed_file;
	for (uint32_t i = 0; i < packed->n_models; i++) {
		if (packed->models[i].position == position && packed->models[i].n_bytes == n_bytes)
			return true;
	}
	return false;
}

void et_xnn_weights_note_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes)
{
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_model_note *model = ET_POOL_NEW(&weights->pool, struct et_xnn_model_note);
	if (model) {
		model->row = (struct et_xnn_model_row){ position, n_bytes };
		model->next = weights->models;
		weights->models = model;
		weights->has_news = true;
	}
	pthread_mutex_unlock(&weights->lock);
}

struct collection {
	struct et_xnn_packed_header header;
	struct et_pool pool;
	struct et_xnn_row *rows;
	const void **bytes; /* one for each row */
	struct et_xnn_model_row *models;
};

/* Collect the rows to persist: those of the old file, and the blocks packed since. Under the lock. */
static bool collect(const struct et_xnn_weights *weights, struct collection *all)
{
	const struct et_xnn_packed *old = &weights->packed_file;
	size_t n_rows = old->n_rows + weights->stats.n_packed, n_models = old->n_models;
	for (const struct et_xnn_model_note *model = weights->models; model; model = model->next)
		n_models++;
	all->rows = ET_POOL_NEW_ARRAY(&all->pool, struct et_xnn_row, n_rows);
	all->bytes = ET_POOL_NEW_ARRAY(&all->pool, const void *, n_rows);
	all->models = ET_POOL_NEW_ARRAY(&all->pool, struct et_xnn_model_row, n_models);
	if (!all->rows || !all->bytes || !all->models || n_rows > UINT32_MAX || n_models > UINT32_MAX)
		return false;
	uint32_t n = 0;
	for (; n < old->n_rows; n++) {
		all->rows[n] = old->rows[n];
		all->bytes[n] = old->bytes + old->rows[n].offset;
	}
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &weights->packed) {
		struct et_xnn_block *block = ET_CONTAINER_OF(node, struct et_xnn_block, node);
		const struct et_xnn_claim *claim = block->has_key
							   ? et_xnn_find_claim(weights, block->kernel, block->bias)
							   : NULL;
		if (!claim || claim->position == ET_XNN_NOWHERE)
			continue;
		all->bytes[n] = et_xnn_bytes_of(block);
		all->rows[n++] = (struct et_xnn_row){
			.n_bytes = block->n_bytes,
			.seed = block->seed,
			.flags = (block->bias ? ET_XNN_ROW_BIAS : 0) | (block->is_override ? ET_XNN_ROW_OVERRIDE : 0),
			.name = { .position = claim->position, .signature = claim->signature },
		};
		all->rows[n - 1].name.signature.bias = claim->bias_position;
	}
	all->header.n_rows = n;
	if (old->n_models)
		memcpy(all->models, old->models, old->n_models * sizeof(*old->models));
	n = old->n_models;
	for (const struct et_xnn_model_note *model = weights->models; model; model = model->next)
		all->models[n++] = model->row;
	all->header.n_models = n;
	return true;
}

/* Write the header and the two tables, then for each row its bytes and zeros up to the next row. */
static enum et_status put(const struct et_xnn_weights *weights, const struct inferd_delegate_store *store,
	struct collection *all, struct et_diag *diag)
{
	static const uint8_t zeros[2 * ET_XNN_ALIGNMENT];
	size_t n_rows = all->header.n_rows, n_pieces = 0, offset;
	struct inferd_delegate_piece *pieces = ET_POOL_NEW_ARRAY(&all->pool, struct inferd_delegate_piece,
		4 + 2 * n_rows);
	if (!pieces)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to persist packed weights");
	et_xnn_packed_mark(&all->header);
	pieces[n_pieces++] = (struct inferd_delegate_piece){ &all->header, sizeof(all->header) };
	pieces[n_pieces++] = (struct inferd_delegate_piece){ all->rows, n_rows * sizeof(*all->rows) };
	pieces[n_pieces++] = (struct inferd_delegate_piece){ all->models, all->header.n_models * sizeof(*all->models) };
	offset = pieces[0].n_bytes + pieces[1].n_bytes + pieces[2].n_bytes;
	pieces[n_pieces++] = (struct inferd_delegate_piece){ zeros, -offset % ET_XNN_ALIGNMENT };
	offset += -offset % ET_XNN_ALIGNMENT;
	for (size_t i = 0; i < n_rows; i++) {
		size_t n_bytes = all->rows[i].n_bytes, n_zeros = ET_XNN_PADDING + -n_bytes % ET_XNN_ALIGNMENT;
		all->rows[i].offset = offset;
		pieces[n_pieces++] = (struct inferd_delegate_piece){ all->bytes[i], n_bytes };
		pieces[n_pieces++] = (struct inferd_delegate_piece){ zeros, n_zeros };
		offset += n_bytes + n_zeros;
	}
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	int result = store->keep(store->self, weights->machine, pieces, n_pieces, &message);
	return result == INFERD_DELEGATE_OK ? ET_OK : et_fail(diag, ET_E_ACCESS_FAILED, "%.255s", message.text);
}

enum et_status et_xnn_weights_persist(struct et_xnn_weights *weights, const struct inferd_delegate_store *store,
	struct et_diag *diag)
{
	struct collection all = { 0 };
	if (!store)
		return ET_OK;
	et_pool_init(&all.pool, &weights->allocator);
	pthread_mutex_lock(&weights->lock);
	bool has_news = weights->has_news;
	bool is_collected = has_news && collect(weights, &all);
	weights->has_news = has_news && !is_collected;
	pthread_mutex_unlock(&weights->lock);
	enum et_status status = ET_OK;
	if (is_collected)
		status = put(weights, store, &all, diag);
	else if (has_news)
		status = et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to persist packed weights");
	et_pool_deinit(&all.pool);
	return status;
}
