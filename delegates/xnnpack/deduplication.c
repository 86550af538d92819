/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding payloads that were decoded to the same graph.
 *
 * Everything that was decoded is compared, because everything that is made of a payload follows from it. Constants
 * are compared by their address: a filter that was claimed for packing has one address for each way of packing it.
 * Resident constants are few and small, and are compared by their bytes. No answer rests on a digest, which only
 * chooses the bucket. */
#include "delegates/xnnpack/deduplication.h"

#include "delegates/xnnpack/graph/hash.h"
#include "delegates/xnnpack/graph/payload.h"

#include <string.h>

void et_xnn_duplicates_init(struct et_xnn_duplicates *duplicates)
{
	pthread_mutex_init(&duplicates->lock, NULL);
	for (uint32_t i = 0; i < ET_XNN_DUPLICATE_BUCKETS; i++)
		et_list_init(&duplicates->by_digest[i]);
}

void et_xnn_duplicates_deinit(struct et_xnn_duplicates *duplicates)
{
	pthread_mutex_destroy(&duplicates->lock);
}

static struct et_list_node *bucket_of(struct et_xnn_duplicates *duplicates, const struct et_xnn_duplicate *duplicate)
{
	return &duplicates->by_digest[duplicate->digest % ET_XNN_DUPLICATE_BUCKETS];
}

static bool is_same_memory(const void *a, const void *b, size_t n_bytes)
{
	return a == b || (a && b && memcmp(a, b, n_bytes) == 0);
}

/* A remade constant may have no contents yet, and a packed one is large: these are the same only if their address
 * is. */
static bool is_same_constant(const struct et_xnn_value *a, const struct et_xnn_value *b)
{
	bool is_as_in_file = a->is_resident && b->is_resident && a->in_payload && b->in_payload && !a->floats_of;
	return a->data == b->data || (is_as_in_file && is_same_memory(a->data, b->data, a->n_bytes));
}

static bool is_same_value(const struct et_xnn_value *a, const struct et_xnn_value *b)
{
	if (a->id != b->id || a->type != b->type || a->quant != b->quant || a->external != b->external ||
		a->is_resident != b->is_resident || a->floats_of != b->floats_of || a->is_index != b->is_index ||
		a->external_id != b->external_id || a->n_bytes != b->n_bytes || a->shape.n_dims != b->shape.n_dims ||
		a->zero_point != b->zero_point || a->n_scales != b->n_scales || a->channel_dim != b->channel_dim ||
		a->block_size != b->block_size || a->n_row_dims != b->n_row_dims || a->seen_as != b->seen_as ||
		a->stands_for != b->stands_for || a->producer != b->producer)
		return false;
	return memcmp(a->shape.dims, b->shape.dims, a->shape.n_dims * sizeof(*a->shape.dims)) == 0 &&
	       memcmp(&a->scale, &b->scale, sizeof(a->scale)) == 0 &&
	       is_same_memory(a->scales, b->scales, a->n_scales * sizeof(*a->scales)) &&
	       is_same_memory(a->block_scales, b->block_scales, a->n_scales * sizeof(*a->block_scales)) &&
	       is_same_constant(a, b);
}

static bool is_same_node(const struct et_xnn_node *a, const struct et_xnn_node *b)
{
	return a->kind == b->kind && a->index == b->index && a->flags == b->flags && a->is_view == b->is_view &&
	       a->is_overridden == b->is_overridden && a->is_rounded == b->is_rounded && a->is_gone == b->is_gone &&
	       memcmp(a->inputs, b->inputs, sizeof(a->inputs)) == 0 &&
	       memcmp(a->outputs, b->outputs, sizeof(a->outputs)) == 0 &&
	       memcmp(a->numbers, b->numbers, sizeof(a->numbers)) == 0 &&
	       memcmp(&a->number, &b->number, sizeof(a->number)) == 0 &&
	       memcmp(&a->min, &b->min, sizeof(a->min)) == 0 && memcmp(&a->max, &b->max, sizeof(a->max)) == 0 &&
	       memcmp(a->n_list, b->n_list, sizeof(a->n_list)) == 0 && memcmp(a->list, b->list, sizeof(a->list)) == 0;
}

static bool is_same(const struct et_xnn_duplicate *a, const struct et_xnn_duplicate *b)
{
	const struct et_xnn_payload *p = a->payload, *q = b->payload;
	bool is = a->digest == b->digest && a->max_instance_bytes == b->max_instance_bytes &&
		  p->n_values == q->n_values && p->n_nodes == q->n_nodes && p->n_externs == q->n_externs &&
		  p->n_args == q->n_args && p->n_inputs == q->n_inputs && p->n_outputs == q->n_outputs &&
		  p->first_output == q->first_output &&
		  is_same_memory(p->inputs, q->inputs, p->n_inputs * sizeof(*p->inputs)) &&
		  is_same_memory(p->outputs, q->outputs, p->n_outputs * sizeof(*p->outputs));
	for (uint32_t i = 0; i < p->n_nodes && is; i++)
		is = is_same_node(&p->nodes[i], &q->nodes[i]);
	for (uint32_t i = 0; i < p->n_values && is; i++)
		is = is_same_value(&p->values[i], &q->values[i]);
	return is;
}

static uint64_t digest_of(const struct et_xnn_payload *payload)
{
	uint64_t digest = payload->n_values;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		const uint64_t words[] = { digest, (uintptr_t)node->kind, node->inputs[0], node->inputs[1] };
		digest = et_xnn_hash_bytes(words, sizeof(words));
	}
	for (uint32_t i = 0; i < payload->n_values; i++) {
		const struct et_xnn_value *value = &payload->values[i];
		const uint64_t words[] = { digest, value->type, value->shape.dims[0], value->shape.dims[1],
			value->shape.dims[2], value->shape.dims[3], value->is_resident ? 0 : (uintptr_t)value->data };
		digest = et_xnn_hash_bytes(words, sizeof(words));
	}
	return digest;
}

struct et_xnn_duplicate *et_xnn_duplicates_find(struct et_xnn_duplicates *duplicates,
	struct et_xnn_duplicate *duplicate)
{
	struct et_xnn_duplicate *found = NULL;
	duplicate->digest = digest_of(duplicate->payload);
	pthread_mutex_lock(&duplicates->lock);
	struct et_list_node *node, *after, *bucket = bucket_of(duplicates, duplicate);
	ET_LIST_FOR_EACH(node, after, bucket) {
		struct et_xnn_duplicate *other = ET_CONTAINER_OF(node, struct et_xnn_duplicate, node);
		if (!is_same(other, duplicate))
			continue;
		other->n_users++;
		found = other;
		break;
	}
	pthread_mutex_unlock(&duplicates->lock);
	return found;
}

void et_xnn_duplicates_add(struct et_xnn_duplicates *duplicates, struct et_xnn_duplicate *duplicate)
{
	duplicate->n_users = 1;
	pthread_mutex_lock(&duplicates->lock);
	et_list_append(bucket_of(duplicates, duplicate), &duplicate->node);
	pthread_mutex_unlock(&duplicates->lock);
}

bool et_xnn_duplicates_leave(struct et_xnn_duplicates *duplicates, struct et_xnn_duplicate *duplicate)
{
	if (!duplicates)
		return true;
	pthread_mutex_lock(&duplicates->lock);
	bool is_last = --duplicate->n_users == 0;
	if (is_last)
		et_list_remove(&duplicate->node);
	pthread_mutex_unlock(&duplicates->lock);
	return is_last;
}
