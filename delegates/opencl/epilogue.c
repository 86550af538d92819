/* SPDX-License-Identifier: BSD-3-Clause */
/* Instructions of epilogues, and the kernel that runs a chain of elementwise operators (kernels/chain.cl).
 *
 * A last step that sets limits is no instruction: all kernels have a range for their result, since most epilogues are
 * an activation and nothing else. */
#include "delegates/opencl/epilogue.h"

#include "delegates/opencl/lane.h"
#include "delegates/opencl/run.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INSTRUCTIONS = 16, INSTRUCTION = 8, RUNNING = -1, NO_REGISTER = -2 };

/* As in kernels/prelude.cl. Bool is a byte. */
enum ocl_lane_type { IS_F32, IS_F16, IS_I8, IS_U8 };

enum instruction {
	SAME,
	CLAMP = 14,
	GELU,
	GELU_TANH,
	ADD,
	CAST_INTEGER = 21,
	CAST_BOOL,
	QUANTIZE,
	DEQUANTIZE,
};

/* The numbers that an instruction has, and the types that it takes. */
enum numbers { NO_NUMBERS, NUMBER, ALPHA, MINUS_ALPHA, LIMITS, ZERO_AND_UP, SCALE, SCALE_AND_RANGE };
static const struct {
	const char *name;
	uint8_t code, n_tensors, numbers;
	bool takes_bytes; /* integers of 8 bits, too: the result is what integers give */
} table[] = {
	{ "aten.abs.default", 1, 1, NO_NUMBERS, false },
	{ "aten.logical_not.default", 2, 1, NO_NUMBERS, true },
	{ "aten.relu.default", CLAMP, 1, ZERO_AND_UP, true },
	{ "aten.exp.default", 4, 1, NO_NUMBERS, false },
	{ "aten.hardswish.default", 5, 1, NO_NUMBERS, false },
	{ "aten.sigmoid.default", 6, 1, NO_NUMBERS, false },
	{ "aten.sqrt.default", 7, 1, NO_NUMBERS, false },
	{ "aten.tanh.default", 8, 1, NO_NUMBERS, false },
	{ "aten.eq.Scalar", 9, 1, NUMBER, true },
	{ "aten.ge.Scalar", 10, 1, NUMBER, true },
	{ "aten.le.Scalar", 11, 1, NUMBER, true },
	{ "aten.leaky_relu.default", 12, 1, NUMBER, false },
	{ "aten.pow.Tensor_Scalar", 13, 1, NUMBER, false },
	{ "aten.clamp.default", CLAMP, 1, LIMITS, true },
	{ "aten.hardtanh.default", CLAMP, 1, LIMITS, true },
	{ "aten.gelu.default", GELU, 1, NO_NUMBERS, false },
	{ "aten.add.Tensor", ADD, 2, ALPHA, false },
	{ "aten.sub.Tensor", ADD, 2, MINUS_ALPHA, false },
	{ "aten.mul.Tensor", 18, 2, NO_NUMBERS, false },
	{ "aten.div.Tensor", 19, 2, NO_NUMBERS, false },
	{ "aten.where.self", 20, 3, NO_NUMBERS, true },
	{ "dim_order_ops._to_dim_order_copy.default", SAME, 1, NO_NUMBERS, true },
	{ "quantized_decomposed.quantize_per_tensor.default", QUANTIZE, 1, SCALE_AND_RANGE, false },
	{ "quantized_decomposed.dequantize_per_tensor.default", DEQUANTIZE, 1, SCALE, true },
};

struct program {
	const struct et_graph *graph;
	uint32_t n, n_operands;
	uint32_t operands[OCL_MAX_OPERANDS];
	cl_int words[1 + MAX_INSTRUCTIONS * INSTRUCTION];
};

/* --- instructions --------------------------------------------------------------------------------- */

static bool is_byte(uint8_t type)
{
	return type == ET_INT8 || type == ET_UINT8 || type == ET_BOOL;
}

static cl_int lane_type(uint8_t type)
{
	return type == ET_FLOAT32 ? IS_F32 : type == ET_FLOAT16 ? IS_F16 : type == ET_INT8 ? IS_I8 : IS_U8;
}

static cl_int bits_of(double d)
{
	float f = (float)d;
	cl_int bits;
	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/* The literal in argument @arg; false: it is a symbol. */
static bool literal(const struct program *p, const struct et_graph_node *part, uint32_t arg, double absent,
	double *ret_d)
{
	const struct et_graph_value *value = &p->graph->values[part->args[arg]];
	*ret_d = value->kind == ET_GRAPH_INT ? (double)value->i : value->kind == ET_GRAPH_DOUBLE ? value->d : absent;
	return value->kind == ET_GRAPH_INT || value->kind == ET_GRAPH_DOUBLE || value->kind == ET_GRAPH_NULL;
}

static bool put_numbers(const struct program *p, const struct et_graph_node *part, uint8_t numbers, cl_int *words)
{
	double d[4] = { 0 };
	bool is_right = true;
	switch (numbers) {
	case NUMBER:
		is_right = literal(p, part, 1, 0, &d[0]);
		break;
	case ALPHA:
	case MINUS_ALPHA:
		is_right = literal(p, part, 2, 1, &d[0]);
		d[0] = numbers == ALPHA ? d[0] : -d[0];
		break;
	case LIMITS:
		is_right = literal(p, part, 1, -INFINITY, &d[0]) && literal(p, part, 2, INFINITY, &d[1]);
		break;
	case ZERO_AND_UP:
		d[1] = INFINITY;
		break;
	case SCALE:
	case SCALE_AND_RANGE:
		is_right = literal(p, part, 1, 1, &d[0]) && literal(p, part, 2, 0, &d[1]) &&
			   literal(p, part, 3, 0, &d[2]) && literal(p, part, 4, 0, &d[3]);
		if (numbers == SCALE_AND_RANGE)
			d[0] = 1 / d[0];
		break;
	default:
		break;
	}
	for (uint32_t i = 0; i < 4; i++)
		words[i] = bits_of(d[i]);
	return is_right;
}

/* The register of tensor @index. */
static bool find_register(struct program *p, uint32_t index, uint32_t running, cl_int *ret_register)
{
	if (index == running) {
		*ret_register = RUNNING;
		return true;
	}
	uint32_t i = 0;
	while (i < p->n_operands && p->operands[i] != index)
		i++;
	if (i == OCL_MAX_OPERANDS)
		return false;
	if (i == p->n_operands)
		p->operands[p->n_operands++] = index;
	*ret_register = (cl_int)i;
	return true;
}

/* A cast's instruction. */
static bool put_cast(uint8_t from, uint8_t to, cl_int *words)
{
	if (ocl_is_float(to) || from == to)
		return true;
	words[0] = to == ET_BOOL ? CAST_BOOL : CAST_INTEGER;
	words[4] = bits_of(to == ET_INT8 ? -128 : 0);
	words[5] = bits_of(to == ET_INT8 ? 127 : 255);
	return is_byte(to) && (to == ET_BOOL || ocl_is_float(from));
}

static bool is_tanh(const struct et_graph *graph, const struct et_graph_node *part)
{
	const struct et_graph_value *text = &graph->values[part->args[1]];
	return text->kind == ET_GRAPH_STRING && strcmp(text->string, "tanh") == 0;
}

/* Append operator @part, which reads the running value as @running. */
static bool encode(struct program *p, const struct et_graph_node *part, uint32_t running)
{
	const struct et_graph_tensor *result = p->graph->values[part->results[0]].tensor;
	cl_int *words = p->words + 1 + p->n * INSTRUCTION;
	size_t row = 0;
	while (row < ET_ARRAY_LEN(table) && strcmp(table[row].name, part->op->name) != 0)
		row++;
	if (row == ET_ARRAY_LEN(table) || p->n == MAX_INSTRUCTIONS ||
		(!ocl_is_float(result->type) && !is_byte(result->type)))
		return false;
	words[0] = table[row].code;
	words[1] = words[2] = words[3] = NO_REGISTER;
	if (!put_numbers(p, part, table[row].numbers, words + 4))
		return false;
	for (uint32_t i = 0; i < table[row].n_tensors; i++) {
		uint8_t type = p->graph->values[part->args[i]].tensor->type;
		if ((!ocl_is_float(type) && (!is_byte(type) || !table[row].takes_bytes)) ||
			!find_register(p, part->args[i], running, &words[1 + i]))
			return false;
	}
	if (words[0] == GELU && is_tanh(p->graph, part))
		words[0] = GELU_TANH;
	if (words[0] == SAME && !put_cast(p->graph->values[part->args[0]].tensor->type, result->type, words))
		return false;
	p->words[0] = (cl_int)++p->n;
	return true;
}

/* Append the steps of @node; @user, which has the node's result as an argument, and its steps. */
static bool encode_all(struct program *p, const struct et_graph_node *node, bool is_chain,
	const struct et_graph_node *user)
{
	struct et_graph_node part = et_graph_part(node, 0);
	if (is_chain && !encode(p, &part, ET_GRAPH_NONE))
		return false;
	for (uint32_t i = 1; i <= node->n_steps; i++) {
		part = et_graph_part(node, i);
		if (!encode(p, &part, node->steps[i - 1].input))
			return false;
	}
	for (uint32_t i = 0; user && i <= user->n_steps; i++) {
		part = et_graph_part(user, i);
		if (!encode(p, &part, i ? user->steps[i - 1].input : node->results[0]))
			return false;
	}
	return true;
}

/* --- operands ------------------------------------------------------------------------------------- */

/* The stride with which one counter passes through dimensions @from to @to of the view, row-major; false: none does. */
static bool join(const struct ocl_view *view, uint32_t from, uint32_t to, int64_t *ret_stride)
{
	int64_t stride = 0, next = 0;
	bool is_first = true;
	for (uint32_t i = to; i-- > from;) {
		if (view->dims[i] == 1)
			continue;
		if (is_first)
			stride = view->strides[i];
		else if (view->strides[i] != next)
			return false;
		is_first = false;
		next = view->strides[i] * (int64_t)view->dims[i];
	}
	*ret_stride = stride;
	return true;
}

static bool join_all(const struct ocl_view *view, uint32_t middle, uint32_t inner, int64_t strides[3])
{
	return join(view, 0, middle, &strides[0]) && join(view, middle, inner, &strides[1]) &&
	       join(view, inner, view->n_dims, &strides[2]);
}

static struct et_graph_size declared(const struct et_graph *graph, uint32_t value)
{
	const struct et_graph_tensor *tensor = graph->values[value].tensor;
	struct et_graph_size size = { .n_dims = tensor->n_dims };
	memcpy(size.dims, tensor->dims, sizeof(size.dims));
	return size;
}

/* The first dimensions that the head's kernel counts as the middle and as the inner ones; false: it takes no steps. */
static bool find_groups(const struct et_graph *graph, const struct et_graph_node *head, uint32_t *ret_middle,
	uint32_t *ret_inner)
{
	const char *name = head->op->name;
	uint32_t n_dims = graph->values[head->results[0]].tensor->n_dims;
	if (strcmp(name, "aten.bmm.default") == 0 || strcmp(name, "aten.mm.default") == 0) {
		*ret_middle = n_dims - 2;
		*ret_inner = n_dims - 1;
		return true;
	}
	if (head->op->group == ET_GRAPH_MATRIX) {
		*ret_middle = 0;
		*ret_inner = n_dims - 1;
		return n_dims > 0 && ocl_matrix_is_fast(graph, head);
	}
	*ret_middle = 1;
	*ret_inner = 2;
	return n_dims > 2 && ocl_convolution_is_fast(graph, head);
}

bool ocl_may_fuse(const struct et_graph *graph, const struct et_graph_node *head, const struct et_graph_node *user)
{
	struct program p = { .graph = graph };
	bool is_chain = et_graph_operator_is_step(head->op);
	uint32_t middle, inner;
	if (!encode_all(&p, head, is_chain, user))
		return false;
	if (is_chain)
		return true;
	if (!find_groups(graph, head, &middle, &inner))
		return false;
	struct et_graph_size result = declared(graph, head->results[0]);
	for (uint32_t i = 0; i < p.n_operands; i++) {
		struct et_graph_size size = declared(graph, p.operands[i]);
		struct ocl_view view = ocl_view_as(&size, &result);
		int64_t strides[3];
		if (!join_all(&view, middle, inner, strides))
			return false;
	}
	return true;
}

/* --- plan and run --------------------------------------------------------------------------------- */

/* Take the last instruction away if all it does is to set limits. */
static void take_range(struct program *p, struct ocl_step *step)
{
	const cl_int *last = p->words + 1 + (p->n - 1) * INSTRUCTION;
	step->low = -INFINITY;
	step->high = INFINITY;
	if (!p->n || last[0] != CLAMP || last[1] != RUNNING)
		return;
	memcpy(&step->low, &last[4], sizeof(step->low));
	memcpy(&step->high, &last[5], sizeof(step->high));
	p->words[0] = (cl_int)--p->n;
}

bool ocl_plan_epilogue(struct ocl_plan *plan, bool is_chain)
{
	struct program p = { .graph = plan->graph };
	struct ocl_step *step = plan->step;
	if (!encode_all(&p, plan->node, is_chain, NULL))
		return false;
	take_range(&p, step);
	step->n_operands = p.n_operands;
	memcpy(step->operands, p.operands, sizeof(p.operands));
	step->n_code_bytes = (1 + p.n * INSTRUCTION) * sizeof(cl_int);
	plan->status = ocl_buffer_new(plan->device, step->n_code_bytes, (const uint8_t *)p.words, &step->code,
		plan->diag);
	return plan->status == ET_OK;
}

bool ocl_plan_range(struct ocl_plan *plan)
{
	struct program p = { .graph = plan->graph };
	if (plan->node->n_steps > 1 || !encode_all(&p, plan->node, false, NULL))
		return false;
	take_range(&p, plan->step);
	return !p.n;
}

void ocl_epilogue_free(struct ocl_device *device, struct ocl_step *step)
{
	ocl_buffer_free(device, step->code, step->n_code_bytes);
}

bool ocl_use_lanes(struct ocl_plan *plan, uint32_t k, const char *family, const struct ocl_definition *types,
	uint32_t n_types, const char *more)
{
	char text[200];
	uint8_t type = ocl_result_type(plan, 0);
	if (!ocl_is_float(type) && !is_byte(type))
		return false;
	snprintf(text, sizeof(text), "%s#define WIDTH %u\n#define ROWS %u\n#define GROUP %u\n", more,
		plan->device->n_lanes, plan->device->n_tile_rows, (unsigned)ocl_lanes_group(plan->device));
	return ocl_use(plan, k, family, types, n_types, text);
}

void ocl_put_result(struct ocl_call *call, struct ocl_launch *launch, uint64_t n)
{
	uint32_t result = call->shapes.node->results[0];
	ocl_put_tensor(call, launch, result, n);
	ocl_put_int(launch, lane_type(call->shapes.graph->values[result].tensor->type));
}

void ocl_put_epilogue(struct ocl_call *call, struct ocl_launch *launch, uint32_t middle, uint32_t inner)
{
	const struct ocl_step *step = call->step;
	const struct et_graph_size *result = et_graph_result(&call->shapes, 0);
	ocl_put_float(launch, (double)step->low);
	ocl_put_float(launch, (double)step->high);
	ocl_put(launch, &step->code, sizeof(step->code));
	for (uint32_t i = 0; i < OCL_MAX_OPERANDS; i++) {
		int64_t strides[4] = { 0 };
		if (i < step->n_operands) {
			uint32_t value = step->operands[i];
			struct ocl_view view = ocl_view_as(&call->shapes.sizes[value], result);
			if (!join_all(&view, middle, inner, strides)) {
				launch->is_wrong = true;
				ocl_misfit(call, "an operand of a step is repeated along a part of the result");
			}
			ocl_put_view(call, launch, value, &view);
			ocl_put_int(launch, lane_type(call->shapes.graph->values[value].tensor->type));
		} else {
			ocl_put_nothing(call, launch);
			ocl_put_int(launch, 0);
		}
		ocl_put_ints(launch, strides, 4);
	}
}

/* --- chains --------------------------------------------------------------------------------------- */

bool ocl_plan_chain(struct ocl_plan *plan)
{
	return ocl_plan_epilogue(plan, true) && ocl_use_lanes(plan, 0, "chain", NULL, 0, "");
}

bool ocl_run_chain(struct ocl_call *call)
{
	const struct ocl_step *step = call->step;
	const struct et_graph_size *result = et_graph_result(&call->shapes, 0);
	struct ocl_view views[1 + OCL_MAX_OPERANDS] = { ocl_view_of(result) };
	struct ocl_launch launch;
	uint64_t n_elements = ocl_numel(result);
	if (!n_elements)
		return true;
	for (uint32_t i = 0; i < step->n_operands; i++)
		views[1 + i] = ocl_view_as(&call->shapes.sizes[step->operands[i]], result);
	uint32_t n_dims = ocl_views_simplify(views, 1 + step->n_operands);
	if (!n_dims) {
		for (uint32_t i = 0; i <= step->n_operands; i++)
			views[i] = (struct ocl_view){ .n_dims = 1, .dims = { 1 }, .start = views[i].start };
		n_dims = 1;
	}
	uint32_t inner = views[0].dims[n_dims - 1];
	uint64_t n_segments = ocl_blocks(inner, call->run->model->device->n_lanes);
	uint64_t n = n_elements / inner * n_segments;
	ocl_begin_lanes(call, &launch, 0);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_int(&launch, n_dims);
	ocl_put_sizes(&launch, views[0].dims, 8);
	ocl_put_int(&launch, (int64_t)n_segments);
	ocl_put_float(&launch, (double)step->low);
	ocl_put_float(&launch, (double)step->high);
	ocl_put_result(call, &launch, n_elements);
	ocl_put(&launch, &step->code, sizeof(step->code));
	for (uint32_t i = 0; i < OCL_MAX_OPERANDS; i++) {
		if (i < step->n_operands) {
			ocl_put_view(call, &launch, step->operands[i], &views[1 + i]);
			ocl_put_int(&launch, lane_type(call->shapes.graph->values[step->operands[i]].tensor->type));
			ocl_put_strides(&launch, &views[1 + i]);
		} else {
			ocl_put_nothing(call, &launch);
			ocl_put_int(&launch, 0);
			ocl_put_ints(&launch, (int64_t[8]){ 0 }, 8);
		}
	}
	return ocl_start(call, &launch, n, 16 * (1 + (uint64_t)step->n_code_bytes / 32));
}
