/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of constants that live as long as the weights: as they are, or remade.
 *
 * XNNPACK wants some filters otherwise than the file has them: transposed, widened from 4 to 8 bits, or as fp32. A
 * remade copy gets its address at once and its contents when XNNPACK comes to pack it. If the store has the packed
 * weights, that never happens, and the address serves only as a key. */
#include "delegates/xnnpack/ukernels/bf16.h"
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/weights/weights_internal.h"

#include "runtime/base/checked.h"

#include <string.h>

static void fill_transposed(const struct et_xnn_block *block, float *to)
{
	const float *from = block->kernel;
	for (uint32_t column = 0; column < block->n_columns; column++)
		for (uint32_t row = 0; row < block->n_rows; row++)
			*to++ = from[(size_t)row * block->n_columns + column];
}

/* The lower nibble comes first; the file has 8 added to each. */
static void fill_widened(const struct et_xnn_block *block, int8_t *to)
{
	const uint8_t *from = block->kernel;
	for (size_t i = 0; i < block->n_bytes / 2; i++) {
		to[2 * i] = (int8_t)((from[i] & 15) - 8);
		to[2 * i + 1] = (int8_t)((from[i] >> 4) - 8);
	}
}

static void fill_floats(const struct et_xnn_block *block, float *to)
{
	const uint8_t *from = block->kernel;
	for (size_t i = 0; i < block->n_bytes / sizeof(*to); i++) {
		uint16_t fp16;
		memcpy(&fp16, from + i * sizeof(fp16), sizeof(fp16));
		to[i] = block->remade == ET_XNN_FROM_FP16 ? et_xnn_from_fp16(fp16) : et_xnn_from_bf16(fp16);
	}
}

const struct et_xnn_claim *et_xnn_find_any_claim(const struct et_xnn_weights *weights, const void *kernel)
{
	const struct et_xnn_claim *claim = weights->claims[et_xnn_bucket(kernel)];
	while (claim && claim->kernel != kernel)
		claim = claim->next;
	return claim;
}

void et_xnn_fill_if_needed(const struct et_xnn_weights *weights, const void *kernel)
{
	const struct et_xnn_claim *claim = et_xnn_find_any_claim(weights, kernel);
	if (!claim || claim->signature.remade == ET_XNN_AS_IT_IS || claim->kernel != claim->source)
		return;
	struct et_xnn_block *block = et_xnn_block_of((void *)(uintptr_t)kernel);
	if (!block->is_to_fill)
		return;
	if (block->remade == ET_XNN_WIDENED)
		fill_widened(block, et_xnn_bytes_of(block));
	else if (block->remade == ET_XNN_TRANSPOSED)
		fill_transposed(block, et_xnn_bytes_of(block));
	else
		fill_floats(block, et_xnn_bytes_of(block));
	block->is_to_fill = false;
}

/* The copy that was made of @source in this way (rows and columns: of a transposed one), or NULL. Under the lock. */
static struct et_xnn_block *find_copy(struct et_xnn_weights *weights, const void *source, size_t n_bytes,
	enum et_xnn_remade remade, uint32_t n_rows, uint32_t n_columns)
{
	struct et_xnn_block *block = weights->by_copied[et_xnn_bucket(source)];
	while (block && (block->kernel != source || block->n_bytes != n_bytes || block->remade != remade ||
				block->n_rows != n_rows || block->n_columns != n_columns))
		block = block->next;
	return block;
}

/* Make @copy findable as one of @source. Under the lock. */
static void note_copy(struct et_xnn_weights *weights, struct et_xnn_block *copy, const void *source)
{
	struct et_xnn_block **head = &weights->by_copied[et_xnn_bucket(source)];
	copy->kernel = source;
	copy->next = *head;
	*head = copy;
}

enum et_status et_xnn_weights_copy(struct et_xnn_weights *weights, const void *bytes, size_t n_bytes,
	const void **ret_copy, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_block *copy = find_copy(weights, bytes, n_bytes, ET_XNN_AS_IT_IS, 0, 0);
	if (!copy)
		status = et_xnn_weights_count(weights, n_bytes, diag);
	if (!copy && status == ET_OK) {
		copy = et_xnn_block_new(weights, n_bytes, &weights->copies);
		if (copy) {
			memcpy(et_xnn_bytes_of(copy), bytes, n_bytes);
			note_copy(weights, copy, bytes);
		}
		status = copy ? ET_OK : et_xnn_weights_no_memory(diag);
	}
	pthread_mutex_unlock(&weights->lock);
	if (copy)
		*ret_copy = et_xnn_bytes_of(copy);
	return status;
}

static const void *remake(struct et_xnn_weights *weights, const void *source, size_t n_bytes, enum et_xnn_remade remade,
	uint32_t n_rows, uint32_t n_columns)
{
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_block *copy = find_copy(weights, source, n_bytes, remade, n_rows, n_columns);
	if (!copy) {
		copy = et_xnn_block_new(weights, n_bytes, &weights->copies);
		if (copy) {
			note_copy(weights, copy, source);
			copy->remade = (uint8_t)remade;
			copy->n_rows = n_rows;
			copy->n_columns = n_columns;
			copy->is_to_fill = true;
		}
	}
	pthread_mutex_unlock(&weights->lock);
	return copy ? et_xnn_bytes_of(copy) : NULL;
}

const float *et_xnn_weights_transpose(struct et_xnn_weights *weights, const float *source, uint32_t n_rows,
	uint32_t n_columns)
{
	return remake(weights, source, (size_t)n_rows * n_columns * sizeof(float), ET_XNN_TRANSPOSED, n_rows,
		n_columns);
}

const int8_t *et_xnn_weights_widen(struct et_xnn_weights *weights, const uint8_t *source, size_t n_bytes)
{
	return remake(weights, source, 2 * n_bytes, ET_XNN_WIDENED, 0, 0);
}

enum et_status et_xnn_weights_to_floats(struct et_xnn_weights *weights, const void *source, size_t n,
	enum et_xnn_remade remade, bool is_late, const void **ret_floats, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	size_t n_bytes;
	if (!et_mul(n, sizeof(float), &n_bytes))
		return et_xnn_weights_no_memory(diag);
	pthread_mutex_lock(&weights->lock);
	struct et_xnn_block *copy = find_copy(weights, source, n_bytes, remade, 0, 0);
	if (!copy)
		status = et_xnn_weights_count(weights, n_bytes, diag);
	if (!copy && status == ET_OK) {
		copy = et_xnn_block_new(weights, n_bytes, &weights->copies);
		if (copy) {
			note_copy(weights, copy, source);
			copy->remade = (uint8_t)remade;
			copy->is_to_fill = true;
		}
		status = copy ? ET_OK : et_xnn_weights_no_memory(diag);
	}
	if (copy && copy->is_to_fill && !is_late) {
		fill_floats(copy, et_xnn_bytes_of(copy));
		copy->is_to_fill = false;
	}
	pthread_mutex_unlock(&weights->lock);
	if (copy)
		*ret_floats = et_xnn_bytes_of(copy);
	return status;
}
