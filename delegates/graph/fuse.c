/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving a node into the one that reads its result. Users are looked at in the order in which they run, so a chain of
 * them is taken up one after the other.
 *
 * What must always be true: a node is moved down, never up, so its arguments are there; and what it reads does not
 * change on the way, so it reads no state. A step's other operands may be broadcast to the running value, but never
 * enlarge it: sizes are upper bounds, and et_graph_infer refuses a run in which they would. */
#include "delegates/graph/fuse.h"

#include "delegates/graph/operators.h"

#include <string.h>

static uint32_t times_in(const struct et_graph_node *part, uint32_t index)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < part->n_args; i++)
		n += part->args[i] == index;
	return n;
}

struct et_graph_node *et_graph_only_read_once(const struct et_graph *graph, uint32_t index, bool may_have_steps)
{
	const struct et_graph_value *value = &graph->values[index];
	if (value->kind != ET_GRAPH_TENSOR || value->producer == ET_GRAPH_NONE || value->n_users != 1)
		return NULL;
	struct et_graph_node *node = &graph->nodes[value->producer];
	return node->op && node->n_results == 1 && node->results[0] == index && (may_have_steps || !node->n_steps)
		       ? node
		       : NULL;
}

struct et_graph_node *et_graph_made_by(const struct et_graph *graph, uint32_t index, const char *name)
{
	uint32_t producer = graph->values[index].producer;
	struct et_graph_node *node = producer == ET_GRAPH_NONE ? NULL : &graph->nodes[producer];
	return node && node->op && node->results[0] == index && !node->n_steps && strcmp(node->op->name, name) == 0
		       ? node
		       : NULL;
}

bool et_graph_number(const struct et_graph *graph, uint32_t index, double *ret_number)
{
	const struct et_graph_value *value = &graph->values[index];
	if (value->kind == ET_GRAPH_INT)
		*ret_number = (double)value->i;
	else if (value->kind == ET_GRAPH_DOUBLE)
		*ret_number = value->d;
	else
		return false;
	return true;
}

uint32_t et_graph_add_int(struct et_graph *graph, int64_t i)
{
	return et_graph_add_value(graph,
		&(struct et_graph_value){ .kind = ET_GRAPH_INT, .producer = ET_GRAPH_NONE, .i = i });
}

uint32_t et_graph_add_double(struct et_graph *graph, double d)
{
	return et_graph_add_value(graph,
		&(struct et_graph_value){ .kind = ET_GRAPH_DOUBLE, .producer = ET_GRAPH_NONE, .d = d });
}

uint32_t et_graph_add_bool(struct et_graph *graph, bool b)
{
	return et_graph_add_value(graph,
		&(struct et_graph_value){ .kind = ET_GRAPH_BOOL, .producer = ET_GRAPH_NONE, .b = b });
}

uint32_t et_graph_add_null(struct et_graph *graph)
{
	return et_graph_add_value(graph, &(struct et_graph_value){ .kind = ET_GRAPH_NULL, .producer = ET_GRAPH_NONE });
}

static bool reads_a_state(const struct et_graph *graph, const struct et_graph_node *node)
{
	for (uint32_t p = 0; p <= node->n_steps; p++) {
		struct et_graph_node part = et_graph_part(node, p);
		for (uint32_t i = 0; i < part.n_args; i++) {
			const struct et_graph_value *arg = &graph->values[part.args[i]];
			if (arg->kind == ET_GRAPH_TENSOR && arg->origin == ET_GRAPH_STATE)
				return true;
			for (uint32_t k = 0; arg->kind == ET_GRAPH_VALUES && k < arg->list.n; k++)
				if (graph->values[arg->list.values[k]].origin == ET_GRAPH_STATE)
					return true;
		}
	}
	return false;
}

/* The node whose result, argument @arg of @user, nothing but the user's operator reads; NULL: there is none to fuse. */
static struct et_graph_node *head_of(const struct et_graph *graph, const struct et_graph_node *user, uint32_t arg,
	bool (*can_start)(const struct et_graph_node *node))
{
	uint32_t index = user->args[arg];
	const struct et_graph_value *value = &graph->values[index], *result = &graph->values[user->results[0]];
	if (value->kind != ET_GRAPH_TENSOR || value->producer == ET_GRAPH_NONE ||
		value->n_users != times_in(user, index) || value->tensor->n_dims != result->tensor->n_dims ||
		memcmp(value->tensor->dims, result->tensor->dims, value->tensor->n_dims * sizeof(uint32_t)) != 0)
		return NULL;
	struct et_graph_node *head = &graph->nodes[value->producer];
	if (!head->op || head->n_results != 1 || head->results[0] != index || !can_start(head) ||
		reads_a_state(graph, head) || head->n_steps + 1 + user->n_steps > ET_GRAPH_MAX_STEPS)
		return NULL;
	return !graph->may_fuse || graph->may_fuse(graph, head, user) ? head : NULL;
}

/* Put @head in place of @user: its steps, then the parts of the user. */
static bool join(struct et_graph *graph, struct et_graph_node *head, struct et_graph_node *user)
{
	struct et_graph_node joined = *head;
	for (uint32_t p = 0; p <= user->n_steps; p++) {
		struct et_graph_node part = et_graph_part(user, p);
		uint32_t before = p ? user->steps[p - 1].input : head->results[0];
		struct et_graph_step *step = et_graph_add_step(graph, &joined, part.op, part.n_args,
			graph->values[before].tensor->type);
		if (!step)
			return false;
		for (uint32_t i = 0; i < part.n_args; i++)
			step->args[i] = part.args[i] == before ? step->input : part.args[i];
	}
	joined.results = user->results;
	*user = joined;
	head->op = NULL;
	graph->values[joined.results[0]].producer = (uint32_t)(user - graph->nodes);
	return true;
}

static bool fuse_into(struct et_graph *graph, struct et_graph_node *user,
	bool (*can_start)(const struct et_graph_node *node))
{
	struct et_graph_node *head = NULL;
	for (uint32_t i = 0; i < user->n_args; i++) {
		struct et_graph_node *other = head_of(graph, user, i, can_start);
		if (other && (!head || other > head)) /* the later one moves less far */
			head = other;
	}
	return !head || join(graph, head, user);
}

enum et_status et_graph_fuse(struct et_graph *graph, bool (*can_start)(const struct et_graph_node *node),
	struct et_diag *diag)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		if (et_graph_operator_is_step(graph->nodes[i].op) && !fuse_into(graph, &graph->nodes[i], can_start))
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to fuse a graph's nodes");
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		if (graph->nodes[i].op)
			graph->nodes[n++] = graph->nodes[i];
	graph->n_nodes = n;
	et_graph_count_users(graph);
	return ET_OK;
}
