/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiling a payload.
 *
 * XNNPACK packs weights while it makes a runtime. So compile makes a runtime with the Program's weights cache (one
 * for each of XNNPACK's partitions, partition.h), which also shows whether XNNPACK takes every node. The first
 * instance takes these runtimes over (prebuilt_cache.h); the decoded graph and the packed weights stay with the
 * model. (XNNPACK could compute the exported shapes here, too, but shape.c has done that by then, and it would take
 * and clear a whole workspace for nothing.)
 *
 * Later instances find the packed weights by their constants' addresses, and read no constant again, except for the
 * few that XNNPACK keeps reading or packs anew each time (is_resident). Those are copied if they lie in the payload
 * and are not most of it; otherwise the payload stays in memory.
 *
 * A payload needs no such runtime if the same library compiled it before on the same processor, and its packed
 * weights were persisted: XNNPACK took all its nodes then. */
#include "delegates/xnnpack/model.h"

#include "delegates/xnnpack/graph/hash.h"
#include "delegates/xnnpack/graph/shape.h"
#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/unsupported.h"
#include "delegates/xnnpack/weights/fp16_weights.h"
#include "runtime/base/checked.h"

#include <string.h>

enum {
	COPY_AT_MOST = 1 << 20, /* bytes; or a quarter of the payload */
	KIND_CONVOLUTION = 7,   /* its number in the union XNodeUnion */
};

/* Everything that decides how the node's filter is packed. */
static void sign(struct et_xnn_signature *signature, const struct et_xnn_payload *payload,
	const struct et_xnn_node *node)
{
	memset(signature, 0, sizeof(*signature));
	signature->kind = (uint32_t)(node->kind - et_xnn_kind_at(1));
	signature->flags = node->flags;
	memcpy(signature->numbers, node->numbers, sizeof(signature->numbers));
	if (node->inputs[2] != ET_XNN_NONE) {
		signature->bias = (uintptr_t)payload->values[node->inputs[2]].data;
		signature->remade_bias = (uint16_t)et_xnn_remade_of(&payload->values[node->inputs[2]]);
	}
	const uint32_t values[] = { node->inputs[0], node->inputs[1], node->inputs[2], node->outputs[0] };
	for (size_t i = 0; i < 4; i++) {
		if (values[i] == ET_XNN_NONE)
			continue;
		const struct et_xnn_value *value = &payload->values[values[i]];
		signature->values[i].type = value->type;
		signature->values[i].scale = value->scale;
		signature->values[i].zero_point = value->zero_point;
		signature->values[i].channel_dim = value->channel_dim;
		signature->values[i].block_size = value->block_size;
		if (value->scales)
			signature->values[i].scales = et_xnn_hash_bytes(value->scales,
				value->n_scales * sizeof(*value->scales));
		if (value->block_scales)
			signature->values[i].scales = et_xnn_hash_bytes(value->block_scales,
				value->n_scales * sizeof(*value->block_scales));
		if (!value->data)
			continue;
		signature->values[i].n_dims = value->shape.n_dims;
		for (uint32_t j = 0; j < value->shape.n_dims; j++)
			signature->values[i].dims[j] = value->shape.dims[j];
	}
}

/* The position of @bytes in the Program's files, or ET_XNN_NOWHERE. */
static uint64_t position(const struct inferd_delegate_payload *source, const uint8_t *bytes)
{
	uint64_t place;
	if (source->place)
		return source->place(source->self, bytes, &place) == INFERD_DELEGATE_OK ? place : ET_XNN_NOWHERE;
	const uint8_t *base = source->file ? source->file : source->bytes;
	uint64_t n = source->file ? source->n_file_bytes : source->n_bytes;
	uintptr_t offset = (uintptr_t)bytes - (uintptr_t)base;
	return offset < n ? offset : ET_XNN_NOWHERE;
}

static void name_filter(struct et_xnn_name *name, const struct et_xnn_signature *signature,
	const struct et_xnn_payload *payload, const struct et_xnn_node *node,
	const struct inferd_delegate_payload *source)
{
	name->signature = *signature;
	name->position = position(source, payload->values[node->inputs[1]].origin);
	if (!signature->bias)
		return;
	name->signature.bias = position(source, payload->values[node->inputs[2]].origin);
	if (name->signature.bias == ET_XNN_NOWHERE)
		name->position = ET_XNN_NOWHERE;
}

/* Whether all constants among the first @n values lie in the Program's files. */
static bool is_all_in_program(const struct et_xnn_payload *payload, uint32_t n,
	const struct inferd_delegate_payload *source)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *origin = payload->values[i].origin;
		if (origin && position(source, origin) == ET_XNN_NOWHERE)
			return false;
	}
	return true;
}

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to compile an XNNPACK payload");
}

/* Copy the constants that must stay readable, and those that are not aligned for their datatype. */
static enum et_status settle_constants(struct et_xnn_model *model, const struct inferd_delegate_payload *source,
	bool *ret_drops_payload, struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	size_t n_resident = 0;
	for (uint32_t i = 0; i < payload->n_values; i++) {
		const struct et_xnn_value *value = &payload->values[i];
		if (value->is_resident && value->in_payload)
			n_resident += value->n_bytes;
	}
	bool copies = n_resident <= COPY_AT_MOST || n_resident <= source->n_bytes / 4;
	for (uint32_t i = 0; i < payload->n_values; i++) {
		struct et_xnn_value *value = &payload->values[i];
		if (!value->data)
			continue;
		size_t align = (et_xnn_type_bits(value->type) + 7) / 8;
		bool is_unaligned = (uintptr_t)value->data % align != 0;
		if (!is_unaligned && !(copies && value->is_resident && value->in_payload))
			continue;
		const void *copy;
		enum et_status status = et_xnn_weights_copy(model->weights, value->data, value->n_bytes, &copy, diag);
		if (status != ET_OK)
			return status;
		value->data = copy;
	}
	*ret_drops_payload = copies;
	return ET_OK;
}

/* Turn a depthwise convolution with several output channels for each input channel into a grouped convolution.
 * XNNPACK has no depthwise kernel for it and packs its filter as that of a grouped convolution, but for each
 * instance anew: its depthwise nodes do not use the weights cache. A convolution node computes the same and uses the
 * cache. Only the order of the filter's dimensions differs. */
static enum et_status regroup(struct et_xnn_model *model, struct et_xnn_node *node, enum et_xnn_remade *ret_remade,
	struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	struct et_xnn_value filter = payload->values[node->inputs[1]];
	uint32_t n_rows = node->numbers[ET_XNN_KERNEL_H] * node->numbers[ET_XNN_KERNEL_W];
	uint8_t in = payload->values[node->inputs[0]].type;
	if (node->kind->infer != et_xnn_infer_depthwise || node->numbers[ET_XNN_GROUP_OUT] < 2 ||
		filter.type != ET_XNN_FP32 || (in != ET_XNN_FP32 && in != ET_XNN_FP16) ||
		payload->values[node->outputs[0]].type != in || filter.shape.n_dims != 4 || filter.shape.dims[0] != 1 ||
		filter.n_bytes / sizeof(float) != n_rows * filter.shape.dims[3])
		return ET_OK; /* a shape that makes no sense is refused by shape.c */
	filter.data = (const uint8_t *)et_xnn_weights_transpose(model->weights,
		(const float *)(const void *)filter.data, n_rows, (uint32_t)filter.shape.dims[3]);
	filter.shape.dims[0] = filter.shape.dims[3];
	filter.shape.dims[3] = 1;
	filter.in_payload = false;
	if (!filter.data || !et_xnn_payload_add_value(payload, &filter, &model->pool))
		return no_memory(diag);
	node->kind = et_xnn_kind_at(KIND_CONVOLUTION);
	node->inputs[1] = payload->n_values - 1;
	*ret_remade = ET_XNN_TRANSPOSED;
	return ET_OK;
}

/* Widen a 4-bit filter to 8 bits where Debian's XNNPACK cannot use it: for statically quantized activations, which
 * later versions can, and if it is transposed. 8 bits hold the same numbers, and the sums are the same. */
static enum et_status widen(struct et_xnn_model *model, struct et_xnn_node *node, enum et_xnn_remade *ret_remade,
	struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	struct et_xnn_value filter = payload->values[node->inputs[1]];
	if (node->kind->infer != et_xnn_infer_fully_connected || filter.type != ET_XNN_QCINT4 ||
		(payload->values[node->inputs[0]].type != ET_XNN_QINT8 && !(node->flags & XNN_FLAG_TRANSPOSE_WEIGHTS)))
		return ET_OK;
	filter.data = (const uint8_t *)et_xnn_weights_widen(model->weights, filter.data, filter.n_bytes);
	filter.type = ET_XNN_QCINT8;
	filter.n_bytes *= 2;
	filter.in_payload = false;
	if (!filter.data || !et_xnn_payload_add_value(payload, &filter, &model->pool))
		return no_memory(diag);
	node->inputs[1] = payload->n_values - 1;
	*ret_remade = ET_XNN_WIDENED;
	return ET_OK;
}

/* Give the bias a scale for each channel if the filter has such scales. XNNPACK wants them, but does not read them:
 * a bias is in the unit of the sums. */
static enum et_status spread_bias(struct et_xnn_model *model, struct et_xnn_node *node, struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	const struct et_xnn_value *filter = &payload->values[node->inputs[1]];
	if (filter->type != ET_XNN_QCINT8 || node->inputs[2] == ET_XNN_NONE)
		return ET_OK;
	struct et_xnn_value bias = payload->values[node->inputs[2]];
	if (bias.type != ET_XNN_QINT32 || bias.zero_point != 0 || bias.shape.n_dims != 1 ||
		bias.shape.dims[0] != filter->n_scales)
		return ET_OK; /* shape.c or XNNPACK refuses it */
	bias.type = ET_XNN_QCINT32;
	bias.quant = ET_XNN_QUANT_CHANNEL;
	bias.channel_dim = 0;
	bias.scales = filter->scales;
	bias.n_scales = filter->n_scales;
	node->inputs[2] = payload->n_values;
	return et_xnn_payload_add_value(payload, &bias, &model->pool) ? ET_OK : no_memory(diag);
}

/* Whether each key for @node's filter has the bias's address. XNNPACK's keys always have an integer bias; they have
 * no float bias if rows are quantized at run time. */
static bool is_by_bias(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *bias = node->inputs[2] == ET_XNN_NONE ? NULL : &payload->values[node->inputs[2]];
	return bias && bias->data && (bias->type == ET_XNN_QINT32 || bias->type == ET_XNN_QCINT32);
}

/* Give each way of packing a filter a pointer of its own. */
static enum et_status claim_filters(struct et_xnn_model *model, const struct inferd_delegate_payload *source,
	struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		struct et_xnn_node *node = &payload->nodes[i];
		if (!node->kind->has_filter || !payload->values[node->inputs[1]].data)
			continue;
		uint32_t filter_of_file = node->inputs[1]; /* the filter may be remade below */
		enum et_xnn_remade remade = et_xnn_remade_of(&payload->values[filter_of_file]);
		enum et_status status = regroup(model, node, &remade, diag);
		if (status == ET_OK)
			status = widen(model, node, &remade, diag);
		if (status == ET_OK)
			status = spread_bias(model, node, diag);
		if (status != ET_OK)
			return status;
		struct et_xnn_value filter = payload->values[node->inputs[1]];
		struct et_xnn_signature signature;
		struct et_xnn_name name;
		sign(&signature, payload, node);
		signature.remade = (uint16_t)remade;
		name_filter(&name, &signature, payload, node, source);
		const void *kernel;
		struct et_xnn_use use = {
			.kernel = filter.data,
			.n_bytes = filter.n_bytes,
			.is_beside = !payload->values[filter_of_file].in_payload,
			.is_mapped = filter.data == filter.origin && name.position != ET_XNN_NOWHERE,
			.is_by_bias = is_by_bias(payload, node),
			.signature = &signature,
			.name = &name,
		};
		status = et_xnn_weights_claim(model->weights, &use, &kernel, diag);
		if (status != ET_OK)
			return status;
		filter.data = kernel;
		if (filter.data != payload->values[node->inputs[1]].data) {
			filter.in_payload = false;
			node->inputs[1] = payload->n_values;
			if (!et_xnn_payload_add_value(payload, &filter, &model->pool))
				return no_memory(diag);
		}
	}
	return ET_OK;
}

static bool has_only_overrides(const struct et_xnn_partitions *partitions)
{
	for (uint32_t i = 0; i < partitions->n_partitions; i++)
		if (!partitions->partitions[i].override)
			return false;
	return true;
}

/* Make the runtimes, so that everything is packed, and see that XNNPACK takes every node. */
static enum et_status prebuild(struct et_xnn_model *model, uint32_t *ids, struct et_diag *diag)
{
	struct et_xnn_prebuilt *prebuilt;
	const struct et_xnn_partitions *partitions = &model->partitions;
	if (has_only_overrides(partitions))
		return ET_OK;
	enum et_status status = et_xnn_prebuilt_cache_begin(&prebuilt, model->prebuilt_cache, partitions->n_partitions,
		diag);
	if (status != ET_OK)
		return status;
	const struct et_xnn_runtime_use use = { .weights = et_xnn_weights_provider(model->weights),
		.workspace = prebuilt->workspace };
	for (uint32_t i = 0; i < partitions->n_partitions && status == ET_OK; i++) {
		const struct et_xnn_partition *partition = &partitions->partitions[i];
		xnn_runtime_t runtime;
		if (partition->override)
			continue;
		status = et_xnn_runtime_new(&runtime, partition->graph, &use, ids, diag);
		if (status == ET_OK)
			prebuilt->runtimes[i] = runtime;
	}
	model->prebuilt_number = et_xnn_prebuilt_cache_end(model->prebuilt_cache, prebuilt, status == ET_OK);
	return status;
}

struct packing {
	const struct et_xnn_payload *payload;
	const struct et_xnn_partition *partition;
};

static void pack(void *arg, void *to)
{
	const struct packing *packing = arg;
	packing->partition->override->pack(packing->payload, packing->partition->node, to);
}

/* Pack the weights of overrides, or find those that were packed before. */
static enum et_status pack_overrides(struct et_xnn_model *model, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &model->payload;
	for (uint32_t i = 0; i < model->partitions.n_partitions; i++) {
		struct et_xnn_partition *partition = &model->partitions.partitions[i];
		if (!partition->override || !partition->override->pack)
			continue;
		const uint32_t *inputs = partition->node->inputs;
		struct packing packing = { payload, partition };
		if (!partition->node->kind->has_filter) {
			void *made = et_pool_alloc(&model->pool,
				partition->override->n_packed(payload, partition->node), 1);
			if (!made)
				return no_memory(diag);
			pack(&packing, made);
			partition->packed = made;
			continue;
		}
		partition->packed = et_xnn_weights_pack(model->weights, payload->values[inputs[1]].data,
			inputs[2] == ET_XNN_NONE ? NULL : payload->values[inputs[2]].data,
			partition->override->n_packed(payload, partition->node), pack, &packing);
		if (!partition->packed)
			return no_memory(diag);
	}
	return ET_OK;
}

/* Let the pages of packed constants go: they are not read again. The Plan drops constants that are bytes of the
 * payload. Values behind the first @n_of_file are remade from one of those. */
static void drop_packed(const struct et_xnn_payload *payload, uint32_t n_of_file,
	const struct inferd_delegate_payload *source)
{
	for (uint32_t i = 0; source->drop && i < n_of_file; i++) {
		const struct et_xnn_value *value = &payload->values[i];
		if (value->origin && !value->in_payload && !value->is_resident &&
			position(source, value->origin) != ET_XNN_NOWHERE)
			source->drop(source->self, value->origin, value->n_bytes);
	}
}

/* Decode the payload, and give each constant its final address. */
static enum et_status read(struct et_xnn_model *model, const struct inferd_delegate_payload *source,
	uint32_t *ret_n_of_file, bool *ret_drops_payload, struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	const uint32_t overrides_off = payload->overrides_off; /* the whole payload is written now */
	enum et_status status = et_xnn_payload_read(payload, source, &model->pool, diag);
	if (status != ET_OK)
		return status;
	payload->overrides_off = overrides_off;
	for (uint32_t i = 0; i < payload->n_values; i++)
		payload->values[i].origin = payload->values[i].data;
	*ret_n_of_file = payload->n_values;
	status = settle_constants(model, source, ret_drops_payload, diag);
	if (status == ET_OK)
		status = et_xnn_widen_fp16(payload, model->weights, &model->pool, diag);
	return status == ET_OK ? claim_filters(model, source, diag) : status;
}

/* Replace the declared shapes by the inferred ones: XNNPACK plans at least the declared size for a value. */
static enum et_status shape(struct et_xnn_model *model, struct et_xnn_shape *shapes, struct et_diag *diag)
{
	struct et_xnn_payload *payload = &model->payload;
	for (uint32_t i = 0; i < payload->n_values; i++)
		shapes[i] = payload->values[i].shape;
	enum et_status status = et_xnn_infer_shapes(payload, shapes, diag);
	for (uint32_t i = 0; status == ET_OK && i < payload->n_values; i++) {
		payload->values[i].shape = shapes[i];
		if (et_xnn_is_empty(&shapes[i]))
			status = et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK value %u is empty",
				payload->values[i].id);
	}
	return status;
}

/* Estimate what an instance takes, before anything is packed. */
static enum et_status estimate(struct et_xnn_model *model, const struct et_xnn_shape *shapes, uint32_t *ids,
	struct et_pool *scratch, struct et_diag *diag)
{
	const struct et_xnn_partitions *partitions = &model->partitions;
	struct et_xnn_memory_need *need = &model->need;
	uint64_t workspace = 0, n;
	size_t n_boundary_bytes = 0;
	enum et_status status = et_xnn_check_memory(&model->payload, shapes, ids, model->max_instance_bytes, need,
		diag);
	for (uint32_t i = 0; i < partitions->n_partitions && status == ET_OK; i++) {
		if (partitions->partitions[i].override)
			continue;
		status = et_xnn_workspace_bytes(partitions->partitions[i].graph, shapes, scratch, &n, diag);
		workspace = status == ET_OK && n > workspace ? n : workspace;
	}
	if (status != ET_OK)
		return status;
	size_t *offsets = ET_POOL_NEW_ARRAY(scratch, size_t, partitions->n_boundaries);
	if (!offsets)
		return no_memory(diag);
	if (!et_xnn_partitions_plan(partitions, shapes, offsets, ids, &n_boundary_bytes))
		n_boundary_bytes = SIZE_MAX;
	et_add_up(&workspace, n_boundary_bytes);
	need->shared = workspace > need->shared ? workspace : need->shared;
	n = need->shared;
	et_add_up(&n, need->own);
	if (n > model->max_instance_bytes)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"XNNPACK would take %llu MiB for one instance, more than the limit of %llu MiB",
			(unsigned long long)(n >> 20), (unsigned long long)(model->max_instance_bytes >> 20));
	return ET_OK;
}

/* Pack the weights and prebuild the runtimes, unless the payload was compiled before. */
static enum et_status make(struct et_xnn_model *model, const struct inferd_delegate_payload *source, uint32_t n_of_file,
	const struct et_xnn_shape *shapes, uint32_t *ids, struct et_pool *scratch, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &model->payload;
	bool is_in_program = is_all_in_program(payload, n_of_file, source);
	uint64_t payload_position = position(source, source->bytes);
	enum et_status status = et_xnn_check_supported(payload, shapes, diag);
	if (status == ET_OK)
		status = estimate(model, shapes, ids, scratch, diag);
	if (status == ET_OK)
		status = pack_overrides(model, diag);
	if (status != ET_OK ||
		(is_in_program && et_xnn_weights_is_compiled(model->weights, payload_position, source->n_bytes)))
		return status;
	status = prebuild(model, ids, diag);
	if (status == ET_OK)
		drop_packed(payload, n_of_file, source);
	if (status == ET_OK && is_in_program)
		et_xnn_weights_note_compiled(model->weights, payload_position, source->n_bytes);
	return status;
}

static void set_info(const struct et_xnn_model *model, size_t n_bytes, bool is_duplicate,
	struct inferd_delegate_model_info *ret_info)
{
	ret_info->n_inputs = model->payload.first_output;
	ret_info->n_outputs = model->payload.n_outputs;
	ret_info->n_bytes = n_bytes;
	/* payloads that share a model share its instances */
	ret_info->scratch_bytes = (is_duplicate ? 0 : model->need.own) + model->need.shared;
	ret_info->shared_bytes = model->need.shared;
}

/* *@ret_duplicate: a model with the same graph, to be used instead; or NULL, and @model is ready. The caller deinits
 * *@ret_slices, also on failure. */
static enum et_status compile(struct et_xnn_model *model, const struct inferd_delegate_payload *source,
	struct et_xnn_duplicates *duplicates, struct et_xnn_model **ret_duplicate,
	struct et_xnn_input_slices *ret_slices, struct inferd_delegate_model_info *ret_info, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &model->payload;
	struct et_xnn_weights_stats before, after;
	uint32_t n_of_file;
	bool drops_payload = false;
	et_xnn_weights_stats(model->weights, &before);
	enum et_status status = read(model, source, &n_of_file, &drops_payload, diag);
	if (status != ET_OK)
		return status;
	struct et_pool scratch;
	et_pool_init(&scratch, &model->pool.allocator);
	struct et_xnn_shape *shapes = ET_POOL_NEW_ARRAY(&scratch, struct et_xnn_shape, payload->n_values);
	uint32_t *ids = ET_POOL_NEW_ARRAY(&scratch, uint32_t, payload->n_values);
	status = shapes && ids ? shape(model, shapes, diag) : no_memory(diag);
	if (status == ET_OK)
		status = et_xnn_input_slices_take(ret_slices, &model->payload, &model->pool.allocator, diag);
	if (!drops_payload)
		duplicates = NULL; /* a model that others share may outlive these bytes */
	if (status == ET_OK)
		status = et_xnn_partitions_make(&model->partitions, &model->payload, &model->pool, diag);
	struct et_xnn_duplicate *found = NULL;
	model->duplicate.payload = payload;
	model->duplicate.max_instance_bytes = model->max_instance_bytes;
	if (status == ET_OK && duplicates)
		found = et_xnn_duplicates_find(duplicates, &model->duplicate);
	*ret_duplicate = found ? ET_CONTAINER_OF(found, struct et_xnn_model, duplicate) : NULL;
	if (status == ET_OK && !*ret_duplicate)
		status = make(model, source, n_of_file, shapes, ids, &scratch, diag);
	et_pool_deinit(&scratch);
	if (status != ET_OK)
		return status;
	ret_info->flags = INFERD_DELEGATE_ON_THREADS | (drops_payload ? INFERD_DELEGATE_DROPS_PAYLOAD : 0);
	et_xnn_weights_stats(model->weights, &after);
	size_t n_bytes = (after.n_bytes > before.n_bytes ? after.n_bytes - before.n_bytes : 0) +
			 (after.n_mapped - before.n_mapped);
	if (*ret_duplicate)
		set_info(*ret_duplicate, n_bytes, true, ret_info);
	else
		set_info(model, sizeof(*model) + model->pool.n_bytes + n_bytes, false, ret_info);
	if (duplicates && !*ret_duplicate && !et_xnn_payload_may_be_reordered(payload)) {
		model->duplicates = duplicates;
		et_xnn_duplicates_add(duplicates, &model->duplicate);
	}
	return status;
}

enum et_status et_xnn_compile(struct et_xnn_model **ret_model, struct et_xnn_input_slices *ret_slices,
	const struct inferd_delegate_payload *source, uint32_t overrides_off, struct et_xnn_weights *weights,
	struct et_xnn_prebuilt_cache *prebuilt_cache, struct et_xnn_duplicates *duplicates, size_t max_instance_bytes,
	const struct et_allocator *allocator, struct inferd_delegate_model_info *ret_info, struct et_diag *diag)
{
	struct et_xnn_model *model = allocator->alloc(allocator->self, sizeof(*model), _Alignof(struct et_xnn_model));
	struct et_xnn_model *duplicate = NULL;
	struct et_xnn_input_slices slices = { 0 };
	if (!model)
		return no_memory(diag);
	memset(model, 0, sizeof(*model));
	model->payload.overrides_off = overrides_off;
	model->weights = weights;
	model->prebuilt_cache = prebuilt_cache;
	model->max_instance_bytes = max_instance_bytes;
	et_pool_init(&model->pool, allocator);
	et_list_init(&model->instances);
	et_xnn_weights_begin(weights, source);
	enum et_status status = compile(model, source, duplicates, &duplicate, &slices, ret_info, diag);
	et_xnn_weights_end(weights, source);
	if (status != ET_OK || duplicate)
		et_xnn_model_free(model);
	if (status != ET_OK) {
		et_xnn_input_slices_deinit(&slices, allocator);
		return status;
	}
	*ret_slices = slices;
	*ret_model = duplicate ? duplicate : model;
	return ET_OK;
}

enum et_status et_xnn_model_reorder(struct et_xnn_model *model, const uint32_t *args, uint32_t n_args,
	struct et_diag *diag)
{
	for (uint32_t i = 0; i < n_args; i++)
		et_xnn_payload_reorder(&model->payload, args[i]);
	et_xnn_prebuilt_cache_drop(model->prebuilt_cache, model->prebuilt_number);
	model->prebuilt_number = 0; /* a worker may have taken them already */
	enum et_status status = et_xnn_partitions_make(&model->partitions, &model->payload, &model->pool, diag);
	return status == ET_OK ? pack_overrides(model, diag) : status;
}

void et_xnn_model_free(struct et_xnn_model *model)
{
	if (!model || !et_xnn_duplicates_leave(model->duplicates, &model->duplicate))
		return;
	et_xnn_prebuilt_cache_drop(model->prebuilt_cache, model->prebuilt_number);
	struct et_allocator allocator = model->pool.allocator;
	et_pool_deinit(&model->pool);
	allocator.free(allocator.self, model, sizeof(*model));
}
