/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph of ATen operators: what a delegate for a GPU compiles, whatever the payload or the driver.
 *
 * A graph has values and nodes. A value is a tensor, a symbol (an integer that is known when the graph runs, such as a
 * size) or a literal (a number, a text, a list of them). A node is one call of an operator (operators.h): its arguments
 * are values, and each tensor or symbol is an input of the graph, a constant, a state, or the result of one node. The
 * nodes are in the order in which they run.
 *
 * A node may have steps: more operators, element by element, that its result goes through before it is written. So a
 * convolution with its activation and the addition of a residual is one node, and a chain of elementwise operators too.
 * Passes make steps; payloads have none.
 *
 * Tensors are row-major. Their sizes are upper bounds: a run may have smaller ones, which follow from the sizes of its
 * inputs and from symbols (shapes.h).
 *
 * Graphs are made by a reader of payloads (vulkan_payload.h) or of text (text.h), and changed by passes. Everything
 * lives in one pool. No function here checks its arguments beyond what it says, but et_graph_verify checks a whole
 * graph: what came from a file or a text is verified before anything else looks at it. One thread at a time. */
#ifndef DELEGATES_GRAPH_GRAPH_H
#define DELEGATES_GRAPH_GRAPH_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ET_GRAPH_MAX_DIMS = 8,
	ET_GRAPH_MAX_VALUES = 1 << 20,
	ET_GRAPH_MAX_NODES = 1 << 18,
	ET_GRAPH_MAX_STEPS = 32,  /* of a node: an engine makes one kernel of them */
	ET_GRAPH_MAX_LIST = 1024, /* items of a list; inputs or outputs of a graph */
};
#define ET_GRAPH_NONE UINT32_MAX

enum et_graph_kind {
	ET_GRAPH_NULL, /* an argument that was left out */
	ET_GRAPH_INT,
	ET_GRAPH_DOUBLE,
	ET_GRAPH_BOOL,
	ET_GRAPH_STRING,
	ET_GRAPH_INTS,
	ET_GRAPH_DOUBLES,
	ET_GRAPH_BOOLS,
	ET_GRAPH_VALUES, /* a list of values: tensors, or sizes of which some are symbols */
	ET_GRAPH_SYMBOL,
	ET_GRAPH_TENSOR,
	ET_GRAPH_N_KINDS,
};

/* The origin of a tensor or a symbol. */
enum et_graph_origin {
	ET_GRAPH_OF_NODE,  /* the result of value.producer, or of no node: then nothing may read it */
	ET_GRAPH_INPUT,    /* the caller's */
	ET_GRAPH_CONSTANT, /* the program's */
	/* Memory of each client, zeros at first, which nodes change in place: a KV cache. */
	ET_GRAPH_STATE,
};

struct et_graph_tensor {
	uint8_t type;      /* enum et_scalar_type, in which the graph computes */
	uint8_t host_type; /* in which the caller has an input or output; the same unless the exporter changed it */
	uint8_t n_dims;
	uint32_t dims[ET_GRAPH_MAX_DIMS];
	uint64_t n_bytes; /* of the largest sizes, in @type */
	/* A constant's n_bytes, row-major, in the program's file; NULL if they are not known (a graph from text). */
	const uint8_t *data;
	uint32_t constant; /* the number of the constant in the payload, for texts; ET_GRAPH_NONE: it is none */

	/* Set by passes (passes.h). The tensor lies in the memory of alias_of, from row alias_start along dimension
	 * alias_dim of that one; ET_GRAPH_NONE: in memory of its own. */
	uint32_t alias_of; /* the first argument of the node that makes it */
	uint8_t alias_dim;
	uint64_t alias_start;
	/* Set by an engine before et_graph_place: as an output it cannot lie in the caller's memory, where it has
	 * another type (i64 instead of i32). So it gets a place in the arena, which is its own until the run ends. */
	bool needs_place;
	/* Where it lies in the arena of a run, in bytes; ET_GRAPH_NO_PLACE; or ET_GRAPH_OUTPUT_PLACE: in the caller's
	 * memory. */
	uint64_t place;
};
#define ET_GRAPH_NO_PLACE     UINT64_MAX
#define ET_GRAPH_OUTPUT_PLACE (UINT64_MAX - 1)

struct et_graph_value {
	uint8_t kind;      /* enum et_graph_kind */
	uint8_t origin;    /* TENSOR, SYMBOL: enum et_graph_origin */
	uint32_t producer; /* the node that makes it, or ET_GRAPH_NONE */
	uint32_t n_users;  /* arguments, items of lists and outputs of the graph that name it; et_graph_count_users */
	union {
		int64_t i;
		double d;
		bool b;
		const char *string;
		struct et_graph_tensor *tensor;
		struct {
			uint32_t n;
			union {
				int64_t *ints;
				double *doubles;
				bool *bools;
				uint32_t *values; /* indexes of values */
			};
		} list;
	};
};

struct et_graph_operator;

/* The running value goes into a step as @input, a tensor that lies nowhere: only this step reads it. All running values
 * of a node have its result's sizes, but may have other types. What the last step makes is the node's result. */
struct et_graph_step {
	const struct et_graph_operator *op; /* et_graph_operator_is_step */
	uint32_t n_args;
	uint32_t *args; /* values, @input at least once */
	uint32_t input;
};

struct et_graph_node {
	const struct et_graph_operator *op;
	uint32_t n_args, n_results, n_steps;
	uint32_t *args;              /* values; as many as the operator's signature has */
	uint32_t *results;           /* values: tensors or symbols */
	struct et_graph_step *steps; /* only of nodes with one result, a tensor */
};

struct et_graph {
	struct et_pool *pool;
	struct et_graph_value *values;
	uint32_t n_values, max_values;
	struct et_graph_node *nodes;
	uint32_t n_nodes, max_nodes;
	uint32_t *inputs, *outputs; /* values, in the order of the caller's arguments */
	uint32_t n_inputs, n_outputs;
	/* Set by an engine before passes that fuse: whether a kernel of its can do @user, and the steps that it has, as
	 * steps of @head. NULL: any. */
	bool (*may_fuse)(const struct et_graph *graph, const struct et_graph_node *head,
		const struct et_graph_node *user);
};

/* An empty graph whose memory comes from @pool, which must outlive it. */
void et_graph_init(struct et_graph *graph, struct et_pool *pool);

/* Append a copy of *@value: its index, or ET_GRAPH_NONE without memory or beyond ET_GRAPH_MAX_VALUES. The array may
 * move. What the value points to must live in the graph's pool. */
uint32_t et_graph_add_value(struct et_graph *graph, const struct et_graph_value *value);
/* Append a node with room for @n_args and @n_results values, which the caller fills in. NULL without memory or beyond
 * ET_GRAPH_MAX_NODES. The array may move. */
struct et_graph_node *et_graph_add_node(struct et_graph *graph, const struct et_graph_operator *op, uint32_t n_args,
	uint32_t n_results);
/* Append a step with room for @n_args values, which the caller fills in, to a node with one result. Its input is a new
 * value of @type, with the result's sizes, which the operator or the step before makes from now on. NULL without
 * memory; who calls it keeps to ET_GRAPH_MAX_STEPS. The arrays of values and of the node's steps may move. */
struct et_graph_step *et_graph_add_step(struct et_graph *graph, struct et_graph_node *node,
	const struct et_graph_operator *op, uint32_t n_args, uint8_t type);
/* The node's operator (@part 0) or one of its steps (from 1 on) as a node without steps, whose result is what the next
 * part reads. It points into @node. */
struct et_graph_node et_graph_part(const struct et_graph_node *node, uint32_t part);
/* A tensor in the graph's pool; NULL without memory. */
struct et_graph_tensor *et_graph_new_tensor(struct et_graph *graph, uint8_t type, uint32_t n_dims,
	const uint32_t *dims);

/* Set n_bytes from type and dims. False if the product overflows. */
bool et_graph_set_bytes(struct et_graph_tensor *tensor);

/* Set producer and n_users of all values anew, after nodes changed. */
void et_graph_count_users(struct et_graph *graph);

/* "tensor"; "?" for an unknown number. */
const char *et_graph_kind_name(uint32_t kind);

/* Check the whole graph: indexes; that arguments are of the kinds that the operators' signatures ask for; that each
 * tensor and symbol is made once, before it is read, and neither a constant nor an input is written; sizes that follow
 * from an operator's shape rule; types; that the other operands fit (operand_rules.h): weights, biases, scales, masks,
 * caches, texts, ranges of numbers.
 *
 * So a kernel may take for granted: types and ranks are those of the operator's row; no operand is smaller than the
 * sizes of the run say (weights and scales of quantized operators may be larger: their own sizes are the strides); an
 * average has a divisor, a pool's window and a choice have an element. It must check what lies in tensors: indices, and
 * each tap of a window against the input's edges. Sizes of a run that are smaller than the largest ones, and symbols,
 * are checked by et_graph_infer in the run.
 *
 * Numbers of another kind than the signature's are replaced by equal ones of the right
 * kind, since exporters merge equal numbers of different kinds (0 and 0.0). Afterwards producer and n_users hold.
 * ET_E_DELEGATE_INVALID_COMPATIBILITY with the node and what is wrong; ET_E_MEMORY_ALLOCATION_FAILED. In verify.c. */
enum et_status et_graph_verify(struct et_graph *graph, struct et_diag *diag);

#endif
