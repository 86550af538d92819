/* SPDX-License-Identifier: BSD-3-Clause */
/* A payload becomes a model: the graph is read, simplified and placed, each node is planned, and only then are
 * constants uploaded, so that what cannot be run costs no memory of the device.
 *
 * The arena of a run holds the tensors that nodes make, and behind them inputs and outputs, which have the caller's
 * type only after a conversion. After init nothing refers to the payload any more. */
#include "delegates/opencl/model.h"

#include "delegates/graph/operators.h"
#include "delegates/graph/passes.h"
#include "delegates/graph/text.h"
#include "delegates/graph/vulkan_payload.h"
#include "delegates/opencl/epilogue.h"
#include "delegates/opencl/lane.h"
#include "delegates/opencl/run.h"
#include "delegates/opencl/step.h"
#include "delegates/opencl/weights.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_ALIGN = 64, N_BUCKETS = 1024, MAX_SAVED = 1 << 16 };

/* --- memory --------------------------------------------------------------------------------------- */

static void *allocate(void *self, size_t n_bytes, size_t align)
{
	void *bytes = NULL;
	if (align < sizeof(void *))
		align = sizeof(void *);
	return posix_memalign(&bytes, align, n_bytes ? n_bytes : 1) ? NULL : bytes;
}

static void release(void *self, void *bytes, size_t n_bytes)
{
	free(bytes);
}

const struct et_allocator *ocl_allocator(void)
{
	static const struct et_allocator allocator = { .alloc = allocate, .free = release };
	return &allocator;
}

/* --- named data ----------------------------------------------------------------------------------- */

/* The host copies named data for each request, so each name is asked for once; and names are remembered, so that
 * payloads of one program share what they upload. */
struct named {
	struct named *next;
	char *key;
	const uint8_t *bytes;
	uint64_t n_bytes;
};

struct maker {
	struct ocl_device *device;
	struct inferd_delegate_model *model;
	const struct inferd_delegate_payload *payload;
	bool fuses;
	const char *dump_dir;
	uint32_t n_dumps;
	struct et_diag *diag;
	struct et_pool scratch;
	uint8_t *from; /* for each value: a constant's type in the payload */
	struct named *buckets[N_BUCKETS];
	struct named **asked; /* in the order in which the reader asked: that of the values */
	size_t n_asked, max_asked;
};

static struct named *ask(struct maker *m, const char *key)
{
	uint32_t hash = 5381;
	for (const char *c = key; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	struct named **bucket = &m->buckets[hash % N_BUCKETS];
	for (struct named *n = *bucket; n; n = n->next)
		if (strcmp(n->key, key) == 0)
			return n;
	struct named *n = ET_POOL_NEW(&m->scratch, struct named);
	if (!n || !(n->key = et_pool_strndup(&m->scratch, key, strlen(key))))
		return NULL;
	if (m->payload->named_data(m->payload->self, key, &n->bytes, &n->n_bytes) != INFERD_DELEGATE_OK)
		return NULL;
	n->next = *bucket;
	*bucket = n;
	return n;
}

static bool find_named(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes)
{
	struct maker *m = self;
	struct named *n = m->payload->named_data ? ask(m, key) : NULL;
	if (!n)
		return false;
	if (m->n_asked == m->max_asked) {
		size_t max = m->max_asked ? 2 * m->max_asked : 64;
		struct named **larger = ET_POOL_NEW_ARRAY(&m->scratch, struct named *, max);
		if (!larger)
			return false;
		if (m->n_asked)
			memcpy(larger, m->asked, m->n_asked * sizeof(*larger));
		m->asked = larger;
		m->max_asked = max;
	}
	m->asked[m->n_asked++] = n;
	*ret_bytes = n->bytes;
	*ret_n_bytes = n->n_bytes;
	return true;
}

/* --- the graph ------------------------------------------------------------------------------------ */

static void write_text(void *self, const char *text, size_t n)
{
	fwrite(text, 1, n, self);
}

/* Write the graph as it is now. A dump that fails is not worth a failure. */
static void dump(struct maker *m, const char *pass)
{
	char path[512];
	if (!m->dump_dir)
		return;
	snprintf(path, sizeof(path), "%.300s/%.60s-%llu-%u-%.40s.graph", m->dump_dir,
		m->payload->method && !strchr(m->payload->method, '/') ? m->payload->method : "method",
		(unsigned long long)m->payload->program, m->n_dumps++, pass);
	FILE *file = fopen(path, "we");
	if (!file)
		return;
	et_graph_print(&m->model->graph, &(struct et_graph_sink){ .self = file, .write = write_text });
	fclose(file);
}

typedef enum et_status pass(struct et_graph *graph, struct et_diag *diag);
static const struct {
	const char *name;
	pass *run;
	bool fuses;
} passes[] = {
	{ "copies", et_graph_remove_copies, false },
	{ "precompute", et_graph_precompute, true },
	{ "quantized", et_graph_simplify_quantized, true },
	{ "copies", et_graph_remove_copies, true },
	{ "attention", et_graph_fuse_attention, true },
	{ "epilogues", et_graph_fuse_epilogues, true },
	{ "chains", et_graph_fuse_chains, true },
};

/* Where a device has no arithmetic of halves, they would be converted at each load and store: tensors are f32 then. */
static enum et_status widen_fp16(struct maker *m)
{
	struct et_graph *graph = &m->model->graph;
	m->from = ET_POOL_NEW_ARRAY(&m->scratch, uint8_t, graph->n_values + 1u);
	if (!m->from)
		return et_fail(m->diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a model");
	for (uint32_t i = 0; i < graph->n_values; i++) {
		struct et_graph_tensor *tensor = graph->values[i].kind == ET_GRAPH_TENSOR ? graph->values[i].tensor
											  : NULL;
		if (!tensor)
			continue;
		m->from[i] = tensor->type;
		if (tensor->type != ET_FLOAT16 || m->device->has_half || !m->fuses)
			continue;
		tensor->type = ET_FLOAT32;
		if (!et_graph_set_bytes(tensor))
			return et_fail(m->diag, ET_E_NOT_SUPPORTED, "value %u has too many elements", i);
	}
	dump(m, "fp16");
	return et_graph_remove_copies(graph, m->diag); /* casts between both */
}

static enum et_status simplify(struct maker *m)
{
	struct et_graph *graph = &m->model->graph;
	enum et_status status = ET_OK;
	graph->may_fuse = ocl_may_fuse;
	for (size_t i = 0; i < ET_ARRAY_LEN(passes) && status == ET_OK; i++) {
		if (passes[i].fuses && !m->fuses)
			continue;
		et_graph_count_users(graph);
		status = passes[i].run(graph, m->diag);
		et_graph_remove_dead(graph);
		dump(m, passes[i].name);
	}
	if (status == ET_OK)
		status = widen_fp16(m);
	if (status != ET_OK)
		return status;
	et_graph_remove_dead(graph);
	et_graph_count_users(graph);
	dump(m, "dead");
	et_graph_find_aliases(graph);
	dump(m, "aliases");
	status = et_graph_place(graph, PLACE_ALIGN, &m->model->n_arena_bytes, m->diag);
	dump(m, "places");
	return status;
}

static enum et_status read_graph(struct maker *m)
{
	struct inferd_delegate_model *model = m->model;
	struct et_graph_named_data named_data = { .self = m, .find = find_named };
	enum et_status status = et_graph_read_vulkan(&model->graph, m->payload->bytes, m->payload->n_bytes, &named_data,
		&model->pool, m->diag);
	if (status != ET_OK)
		return status;
	dump(m, "0-read");
	dump(m, "read");
	return simplify(m);
}

/* Kernels count elements in 32 bits. */
static enum et_status check_tensors(struct maker *m)
{
	const struct et_graph *graph = &m->model->graph;
	for (uint32_t i = 0; i < graph->n_values; i++) {
		const struct et_graph_value *value = &graph->values[i];
		if (value->kind != ET_GRAPH_TENSOR)
			continue;
		size_t n_bytes = et_scalar_size(value->tensor->type);
		if (!n_bytes || value->tensor->n_bytes / n_bytes > INT32_MAX)
			return et_fail(m->diag, ET_E_NOT_SUPPORTED, "value %u: a tensor of %llu bytes of %s", i,
				(unsigned long long)value->tensor->n_bytes, et_scalar_name(value->tensor->type));
	}
	return ET_OK;
}

/* --- places --------------------------------------------------------------------------------------- */

static bool is_arena(const struct et_graph_value *value)
{
	return value->kind == ET_GRAPH_TENSOR && value->tensor->alias_of == ET_GRAPH_NONE &&
	       (value->origin == ET_GRAPH_OF_NODE || value->origin == ET_GRAPH_INPUT);
}

/* Give an input or output, which the arena does not have yet, a place behind everything. */
static bool append(struct inferd_delegate_model *model, uint32_t index)
{
	size_t n;
	if (!is_arena(&model->graph.values[index]) || model->places[index] != ET_GRAPH_NO_PLACE)
		return true;
	model->places[index] = model->n_arena_bytes;
	return et_align_up(model->graph.values[index].tensor->n_bytes + 1, PLACE_ALIGN, &n) &&
	       !__builtin_add_overflow(model->n_arena_bytes, n, &model->n_arena_bytes);
}

/* Runs overwrite states in one way: new rows of keys and values go into caches. */
static void measure_saved(struct maker *m)
{
	struct inferd_delegate_model *model = m->model;
	for (uint32_t i = 0; i < model->graph.n_nodes; i++) {
		const struct et_graph_node *node = &model->graph.nodes[i];
		if (strcmp(node->op->name, "sdpa_with_kv_cache.default") != 0)
			continue;
		for (uint32_t k = 1; k < 3; k++) {
			const struct et_graph_tensor *rows = model->graph.values[node->args[k]].tensor;
			et_add_up(&model->n_saved_bytes, rows->n_bytes);
			et_add_up(&model->max_saved, rows->dims[0]);
		}
	}
	model->saves_states = model->n_states && model->max_saved <= MAX_SAVED;
	if (!model->saves_states)
		model->n_saved_bytes = model->max_saved = 0;
}

static enum et_status place(struct maker *m)
{
	struct inferd_delegate_model *model = m->model;
	const struct et_graph *graph = &model->graph;
	bool fits = true;
	for (uint32_t i = 0; i < graph->n_values; i++) {
		const struct et_graph_value *value = &graph->values[i];
		model->places[i] = ET_GRAPH_NO_PLACE;
		model->state_of[i] = ET_GRAPH_NONE;
		if (is_arena(value) && value->tensor->place < ET_GRAPH_OUTPUT_PLACE)
			model->places[i] = value->tensor->place;
		if (value->kind == ET_GRAPH_TENSOR && value->origin == ET_GRAPH_STATE && value->n_users) {
			model->state_of[i] = model->n_states++;
			et_add_up(&model->n_state_bytes, value->tensor->n_bytes);
		}
	}
	for (uint32_t i = 0; i < graph->n_inputs && fits; i++)
		fits = append(model, graph->inputs[i]);
	for (uint32_t i = 0; i < graph->n_outputs && fits; i++)
		fits = append(model, graph->outputs[i]);
	if (!fits || model->n_arena_bytes > m->device->max_alloc_bytes)
		return et_fail(m->diag, ET_E_OUT_OF_RESOURCES,
			"a run needs %llu bytes, one buffer of %s has at most %llu",
			(unsigned long long)model->n_arena_bytes, m->device->name,
			(unsigned long long)m->device->max_alloc_bytes);
	measure_saved(m);
	return ET_OK;
}

/* --- nodes and constants -------------------------------------------------------------------------- */

/* Whether the node needs no work: it computes symbols, or all its results lie where an argument lies. */
static bool is_free(const struct et_graph *graph, const struct et_graph_node *node)
{
	if (node->op->group == ET_GRAPH_NUMBER)
		return true;
	for (uint32_t i = 0; i < node->n_results; i++)
		if (graph->values[node->results[i]].tensor->alias_of == ET_GRAPH_NONE)
			return false;
	return true;
}

static bool plan_symbol(struct ocl_plan *plan)
{
	uint8_t type = ocl_arg_type(plan, 0);
	return type == ET_INT32 || type == ET_INT64 ||
	       ocl_refuse(plan, "the element of a tensor of %s", et_scalar_name(type));
}

/* By a fast kernel, else by the plain one. */
static bool plan_step(struct maker *m, struct ocl_plan *plan)
{
	struct ocl_step *step = plan->step;
	const struct et_graph_operator *op = plan->node->op;
	step->row = m->fuses ? ocl_fast_row_find(op) : NULL;
	if (step->row && (step->row->plan(plan) || plan->status != ET_OK))
		return plan->status == ET_OK;
	step->packed_value = ET_GRAPH_NONE;
	step->low = -INFINITY;
	step->high = INFINITY;
	step->row = ocl_row_find(op->name);
	if (!step->row) {
		plan->status = et_fail(plan->diag, ET_E_NOT_SUPPORTED,
			"node %u: the OpenCL backend has no kernel for %s", (unsigned)(plan->node - plan->graph->nodes),
			op->name);
		return false;
	}
	/* The limits of a transposed convolution are the only steps of a plain kernel. */
	if (plan->node->n_steps && (strcmp(op->name, "aten.convolution.default") != 0 || !ocl_plan_range(plan)))
		return ocl_refuse(plan, "it has steps");
	if (step->row->plan(plan))
		return true;
	if (plan->status == ET_OK)
		plan->status = ET_E_NOT_SUPPORTED;
	return false;
}

static enum et_status plan_nodes(struct maker *m)
{
	const struct et_graph *graph = &m->model->graph;
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		const struct et_graph_node *node = &graph->nodes[i];
		struct ocl_step *step = &m->model->steps[i];
		struct ocl_plan plan = { .device = m->device,
			.graph = graph,
			.node = node,
			.step = step,
			.diag = m->diag,
			.is_fast = m->fuses };
		step->compute = ET_FLOAT32;
		step->packed_value = ET_GRAPH_NONE;
		if (is_free(graph, node)) {
			if (strcmp(node->op->name, "et_vk.select_as_symint.default") == 0 && !plan_symbol(&plan))
				return plan.status;
			continue;
		}
		if (!plan_step(m, &plan))
			return plan.status;
	}
	return ET_OK;
}

/* Whether all kernels are there. ET_PENDING: some have to be built by another process first. */
static enum et_status check_kernels(struct maker *m)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < m->model->graph.n_nodes; i++)
		for (uint32_t k = 0; k < OCL_MAX_KERNELS; k++)
			n += m->model->steps[i].kernels[k] == &ocl_kernel_to_build;
	return n ? et_fail(m->diag, ET_PENDING, "%u kernels have to be compiled first", n) : ET_OK;
}

/* The key of each constant, where the program has one. The reader asked in the order of the values. */
static const char **find_keys(struct maker *m)
{
	const struct et_graph *graph = &m->model->graph;
	const char **keys = ET_POOL_NEW_ARRAY(&m->scratch, const char *, graph->n_values + 1u);
	size_t n_asked = 0;
	for (uint32_t i = 0; keys && i < graph->n_values; i++) {
		const struct et_graph_value *value = &graph->values[i];
		if (value->kind == ET_GRAPH_TENSOR && value->tensor->constant != ET_GRAPH_NONE &&
			n_asked < m->n_asked && m->asked[n_asked]->bytes == value->tensor->data)
			keys[i] = m->asked[n_asked++]->key;
	}
	return keys;
}

static enum et_status upload_one(struct maker *m, uint32_t index, const char *key, const struct ocl_layout *layout,
	struct ocl_weight **ret_weight)
{
	const struct et_graph_tensor *tensor = m->model->graph.values[index].tensor;
	uint64_t n_bytes = tensor->n_bytes / et_scalar_size(tensor->type) * et_scalar_size(m->from[index]);
	struct ocl_layout as = *layout;
	bool is_new;
	if (as.from == tensor->type)
		as.from = m->from[index];
	enum et_status status = ocl_weight_get(m->device, m->payload->program, key, &as, tensor->data, n_bytes,
		ret_weight, &is_new, m->diag);
	if (status == ET_OK && is_new)
		et_add_up(&m->model->n_weight_bytes, (*ret_weight)->n_bytes);
	return status;
}

static bool is_constant(const struct et_graph_value *value)
{
	return value->kind == ET_GRAPH_TENSOR && value->origin == ET_GRAPH_CONSTANT && value->n_users;
}

static enum et_status check_memory(struct maker *m)
{
	const struct et_graph *graph = &m->model->graph;
	uint64_t n_needed = m->model->n_arena_bytes;
	for (uint32_t i = 0; i < graph->n_values; i++)
		if (is_constant(&graph->values[i]))
			et_add_up(&n_needed, graph->values[i].tensor->n_bytes);
	return n_needed <= m->device->memory_bytes
		       ? ET_OK
		       : et_fail(m->diag, ET_E_OUT_OF_RESOURCES, "%llu bytes are needed, %s has %llu",
				 (unsigned long long)n_needed, m->device->name,
				 (unsigned long long)m->device->memory_bytes);
}

/* Constants as steps want them, and as they are where something else reads them. */
static enum et_status upload(struct maker *m)
{
	struct inferd_delegate_model *model = m->model;
	struct et_graph *graph = &model->graph;
	const char **keys = find_keys(m);
	enum et_status status = keys ? check_memory(m) : et_fail(m->diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory");
	for (uint32_t i = 0; i < graph->n_nodes && status == ET_OK; i++) {
		struct ocl_step *step = &model->steps[i];
		if (step->packed_value == ET_GRAPH_NONE)
			continue;
		graph->values[step->packed_value].n_users--;
		status = upload_one(m, step->packed_value, keys[step->packed_value], &step->layout, &step->packed);
	}
	for (uint32_t i = 0; i < graph->n_values && status == ET_OK; i++) {
		uint8_t type = is_constant(&graph->values[i]) ? graph->values[i].tensor->type : 0;
		if (is_constant(&graph->values[i]))
			status = upload_one(m, i, keys[i], &(struct ocl_layout){ OCL_AS_IS, type, type },
				&model->weights[i]);
	}
	/* The payload goes: nothing may look at its bytes any more. */
	for (uint32_t i = 0; i < graph->n_values; i++)
		if (graph->values[i].kind == ET_GRAPH_TENSOR)
			graph->values[i].tensor->data = NULL;
	return status;
}

static enum et_status make_arrays(struct maker *m)
{
	struct inferd_delegate_model *model = m->model;
	uint32_t n = model->graph.n_values;
	model->steps = ET_POOL_NEW_ARRAY(&model->pool, struct ocl_step, model->graph.n_nodes);
	model->weights = ET_POOL_NEW_ARRAY(&model->pool, struct ocl_weight *, n);
	model->places = ET_POOL_NEW_ARRAY(&model->pool, uint64_t, n);
	model->state_of = ET_POOL_NEW_ARRAY(&model->pool, uint32_t, n);
	if (!model->steps || !model->weights || !model->places || !model->state_of)
		return et_fail(m->diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a model");
	return ET_OK;
}

enum et_status ocl_model_new(struct inferd_delegate_model **ret_model, struct ocl_device *device,
	const struct inferd_delegate_payload *payload, bool fuses, const char *dump_dir, struct et_diag *diag)
{
	static enum et_status (*const parts[])(struct maker *) = { read_graph, check_tensors, make_arrays, place,
		plan_nodes, check_kernels, upload };
	struct inferd_delegate_model *model = calloc(1, sizeof(*model));
	struct maker *m = calloc(1, sizeof(*m));
	enum et_status status = ET_OK;
	if (!model || !m) {
		free(model);
		free(m);
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a model");
	}
	*m = (struct maker){
		.device = device, .model = model, .payload = payload, .fuses = fuses, .dump_dir = dump_dir, .diag = diag
	};
	model->device = device;
	et_pool_init(&model->pool, ocl_allocator());
	et_pool_init(&m->scratch, ocl_allocator());
	for (size_t i = 0; i < ET_ARRAY_LEN(parts) && status == ET_OK; i++)
		status = parts[i](m);
	et_pool_deinit(&m->scratch);
	free(m);
	if (status != ET_OK) {
		ocl_model_free(model);
		return status;
	}
	*ret_model = model;
	return ET_OK;
}

void ocl_model_free(struct inferd_delegate_model *model)
{
	for (uint32_t i = 0; i < model->graph.n_values && model->weights; i++)
		if (model->weights[i])
			ocl_weight_unref(model->device, model->weights[i]);
	for (uint32_t i = 0; i < model->graph.n_nodes && model->steps; i++) {
		if (model->steps[i].packed)
			ocl_weight_unref(model->device, model->steps[i].packed);
		ocl_epilogue_free(model->device, &model->steps[i]);
	}
	et_pool_deinit(&model->pool);
	free(model);
}
