/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of graphs' texts: recursive descent, a line at a time; lists do not nest. */
#include "delegates/graph/text.h"

#include "delegates/graph/operators.h"
#include "delegates/graph/text_internal.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 128, MAX_ARGS = 64 };

struct parser {
	struct et_graph *graph;
	struct et_diag *diag;
	struct et_pool scratch;
	const char *at, *end, *line_begin;
	uint32_t line;
	enum et_status status; /* the first failure; sticks */
	uint32_t *values;      /* by the number in the text: the value, or ET_GRAPH_NONE */
	uint32_t n_numbers;
	uint32_t inputs[ET_GRAPH_MAX_LIST], n_inputs;
	uint32_t running; /* the running value, in the arguments of a step */
};

static bool fail(struct parser *p, const char *what)
{
	if (p->status == ET_OK)
		p->status = et_fail(p->diag, ET_E_INVALID_ARGUMENT, "line %u, column %u: %s", p->line,
			(unsigned)(p->at - p->line_begin) + 1, what);
	return false;
}

static bool no_memory(struct parser *p)
{
	if (p->status == ET_OK)
		p->status = et_fail(p->diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read a graph");
	return false;
}

/* --- characters and words ------------------------------------------------------------------------- */

static char peek(const struct parser *p)
{
	return p->at < p->end ? *p->at : '\0';
}

static void skip_blanks(struct parser *p)
{
	while (peek(p) == ' ' || peek(p) == '\t')
		p->at++;
	if (peek(p) == '#')
		while (p->at < p->end && *p->at != '\n')
			p->at++;
}

static bool accept(struct parser *p, char c)
{
	skip_blanks(p);
	if (p->at >= p->end || *p->at != c)
		return false;
	p->at++;
	return true;
}

static bool expect(struct parser *p, char c)
{
	char what[] = "'?' is missing here";
	what[1] = c;
	return accept(p, c) || fail(p, what);
}

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
	       c == '+' || c == '-';
}

/* A name, a keyword or a number; empty if something else is next. */
static bool word(struct parser *p, char *ret_word)
{
	size_t n = 0;
	skip_blanks(p);
	while (p->at < p->end && is_word_char(*p->at)) {
		if (n + 1 >= MAX_WORD)
			return fail(p, "the word is too long");
		ret_word[n++] = *p->at++;
	}
	ret_word[n] = '\0';
	return n > 0;
}

/* Whether @text is a whole number, and which. */
static bool to_int(const char *text, int64_t *ret_i)
{
	char *end;
	errno = 0;
	*ret_i = strtoll(text, &end, 10);
	return !errno && end != text && !*end && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
}

static bool to_double(const char *text, double *ret_d)
{
	char *end;
	*ret_d = strtod(text, &end);
	return end != text && !*end;
}

static bool expect_uint(struct parser *p, uint32_t limit, uint32_t *ret_i)
{
	char text[MAX_WORD];
	int64_t i;
	if (!word(p, text) || !to_int(text, &i) || i < 0 || i > limit)
		return fail(p, "a number, or a smaller one, is missing here");
	*ret_i = (uint32_t)i;
	return true;
}

static bool to_type(const char *name, uint8_t *ret_type)
{
	for (size_t i = 0; i < et_graph_n_type_names; i++)
		if (strcmp(et_graph_type_names[i].name, name) == 0) {
			*ret_type = et_graph_type_names[i].type;
			return true;
		}
	return false;
}

/* --- values --------------------------------------------------------------------------------------- */

static uint32_t add(struct parser *p, const struct et_graph_value *value)
{
	uint32_t index = et_graph_add_value(p->graph, value);
	if (index == ET_GRAPH_NONE)
		no_memory(p);
	return index;
}

/* The number behind a '%'. */
static bool number(struct parser *p, uint32_t *ret_number)
{
	return expect_uint(p, p->n_numbers - 1, ret_number);
}

static uint32_t reference(struct parser *p)
{
	uint32_t n;
	if (!number(p, &n))
		return ET_GRAPH_NONE;
	if (p->values[n] == ET_GRAPH_NONE)
		fail(p, "no line before makes this value");
	return p->values[n];
}

static uint32_t quoted(struct parser *p)
{
	struct et_graph_value value = { .kind = ET_GRAPH_STRING, .producer = ET_GRAPH_NONE };
	char text[MAX_WORD];
	size_t n = 0;
	while (peek(p) != '"') {
		char c = peek(p);
		if (c < ' ' || n + 1 >= sizeof(text)) {
			fail(p, "the text does not end, or is too long");
			return ET_GRAPH_NONE;
		}
		p->at++;
		if (c == '\\') {
			int64_t code = -1;
			char digits[3] = { 0 };
			if (p->end - p->at >= 3 && p->at[0] == 'x') {
				char *end;
				memcpy(digits, p->at + 1, 2);
				code = strtol(digits, &end, 16);
				if (*end)
					code = -1;
			}
			if (code <= 0) {
				fail(p, "only \\xNN, and not \\x00, may follow a '\\'");
				return ET_GRAPH_NONE;
			}
			p->at += 3;
			c = (char)code;
		}
		text[n++] = c;
	}
	p->at++;
	value.string = et_pool_strndup(p->graph->pool, text, n);
	if (!value.string)
		no_memory(p);
	return value.string ? add(p, &value) : ET_GRAPH_NONE;
}

static uint32_t literal(struct parser *p)
{
	struct et_graph_value value = { .kind = ET_GRAPH_NULL, .producer = ET_GRAPH_NONE };
	char text[MAX_WORD];
	if (accept(p, '"'))
		return quoted(p);
	if (!word(p, text)) {
		fail(p, "a value is missing here");
		return ET_GRAPH_NONE;
	}
	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
		value.kind = ET_GRAPH_BOOL;
		value.b = text[0] == 't';
	} else if (to_int(text, &value.i)) {
		value.kind = ET_GRAPH_INT;
	} else if (to_double(text, &value.d)) {
		value.kind = ET_GRAPH_DOUBLE;
	} else if (strcmp(text, "none") != 0) {
		fail(p, "this is no number, true, false or none");
		return ET_GRAPH_NONE;
	}
	return add(p, &value);
}

/* Items of one kind become a list of that kind, others a list of values. */
static uint32_t pack_list(struct parser *p, const uint32_t *items, uint32_t n)
{
	struct et_graph_value list = { .kind = ET_GRAPH_INTS, .producer = ET_GRAPH_NONE };
	uint8_t kind = n ? p->graph->values[items[0]].kind : ET_GRAPH_INT;
	for (uint32_t i = 1; i < n; i++)
		if (p->graph->values[items[i]].kind != kind)
			kind = ET_GRAPH_NULL;
	list.kind = kind == ET_GRAPH_INT      ? ET_GRAPH_INTS
		    : kind == ET_GRAPH_DOUBLE ? ET_GRAPH_DOUBLES
		    : kind == ET_GRAPH_BOOL   ? ET_GRAPH_BOOLS
					      : ET_GRAPH_VALUES;
	list.list.n = n;
	list.list.ints = ET_POOL_NEW_ARRAY(p->graph->pool, int64_t, n);
	if (!list.list.ints) {
		no_memory(p);
		return ET_GRAPH_NONE;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct et_graph_value *item = &p->graph->values[items[i]];
		if (list.kind == ET_GRAPH_INTS)
			list.list.ints[i] = item->i;
		else if (list.kind == ET_GRAPH_DOUBLES)
			list.list.doubles[i] = item->d;
		else if (list.kind == ET_GRAPH_BOOLS)
			list.list.bools[i] = item->b;
		else
			list.list.values[i] = items[i];
	}
	return add(p, &list);
}

/* Whether a '_' alone is next: the running value, whose type may follow. */
static bool running(struct parser *p)
{
	char name[MAX_WORD];
	uint8_t type;
	skip_blanks(p);
	if (peek(p) != '_' || (p->at + 1 < p->end && is_word_char(p->at[1])))
		return false;
	p->at++;
	if (p->running == ET_GRAPH_NONE)
		return fail(p, "there is no running value here");
	if (accept(p, ':')) {
		if (!word(p, name) || !to_type(name, &type))
			return fail(p, "this is no type");
		p->graph->values[p->running].tensor->type = type;
	}
	return true;
}

static uint32_t operand(struct parser *p, bool may_be_list)
{
	uint32_t items[ET_GRAPH_MAX_DIMS * 64], n = 0;
	if (accept(p, '%'))
		return reference(p);
	if (running(p))
		return p->running;
	if (p->status != ET_OK)
		return ET_GRAPH_NONE;
	if (!may_be_list || !accept(p, '['))
		return literal(p);
	while (p->status == ET_OK && !accept(p, ']')) {
		if (n && !expect(p, ','))
			break;
		if (n == ET_ARRAY_LEN(items)) {
			fail(p, "the list is too long");
			break;
		}
		items[n++] = operand(p, false);
	}
	return p->status == ET_OK ? pack_list(p, items, n) : ET_GRAPH_NONE;
}

/* --- lines ---------------------------------------------------------------------------------------- */

static bool expect_u64(struct parser *p, uint64_t *ret_i)
{
	char text[MAX_WORD];
	int64_t i;
	if (!word(p, text) || !to_int(text, &i) || i < 0)
		return fail(p, "a number is missing here");
	*ret_i = (uint64_t)i;
	return true;
}

static bool expect_word(struct parser *p, const char *wanted)
{
	char text[MAX_WORD];
	return (word(p, text) && strcmp(text, wanted) == 0) || fail(p, "'from row ... of dim ...' is missing here");
}

/* Behind a type: nothing, "at 128", "in %5" or "in %5 from row 2 of dim 0". */
static bool memory(struct parser *p, struct et_graph_tensor *tensor)
{
	char text[MAX_WORD];
	uint32_t dim;
	if (!word(p, text))
		return p->status == ET_OK;
	if (strcmp(text, "at") == 0)
		return expect_u64(p, &tensor->place);
	if (strcmp(text, "in") != 0 || !expect(p, '%'))
		return fail(p, "this is neither 'at' nor 'in'");
	tensor->alias_of = reference(p);
	skip_blanks(p);
	if (p->status != ET_OK || !is_word_char(peek(p)))
		return p->status == ET_OK;
	if (!expect_word(p, "from") || !expect_word(p, "row") || !expect_u64(p, &tensor->alias_start) ||
		!expect_word(p, "of") || !expect_word(p, "dim") || !expect_uint(p, ET_GRAPH_MAX_DIMS - 1, &dim))
		return false;
	tensor->alias_dim = (uint8_t)dim;
	return true;
}

/* "%3: f32[1, 8]", behind the '%'. */
static uint32_t made(struct parser *p)
{
	struct et_graph_value value = { .kind = ET_GRAPH_SYMBOL, .producer = ET_GRAPH_NONE };
	uint32_t n, dims[ET_GRAPH_MAX_DIMS], n_dims = 0;
	char name[MAX_WORD];
	uint8_t type;
	if (!number(p, &n) || !expect(p, ':') || !word(p, name)) {
		fail(p, "a type is missing here");
		return ET_GRAPH_NONE;
	}
	if (p->values[n] != ET_GRAPH_NONE) {
		fail(p, "the value was made before");
		return ET_GRAPH_NONE;
	}
	if (strcmp(name, "symbol") != 0) {
		if (!to_type(name, &type)) {
			fail(p, "this is no type");
			return ET_GRAPH_NONE;
		}
		if (!expect(p, '['))
			return ET_GRAPH_NONE;
		while (!accept(p, ']')) {
			if ((n_dims && !expect(p, ',')) || n_dims == ET_GRAPH_MAX_DIMS ||
				!expect_uint(p, UINT32_MAX, &dims[n_dims])) {
				fail(p, "a tensor has at most eight sizes");
				return ET_GRAPH_NONE;
			}
			n_dims++;
		}
		value.kind = ET_GRAPH_TENSOR;
		value.tensor = et_graph_new_tensor(p->graph, type, n_dims, dims);
		if (!value.tensor) {
			no_memory(p);
			return ET_GRAPH_NONE;
		}
		if (!et_graph_set_bytes(value.tensor)) {
			fail(p, "the tensor is too large");
			return ET_GRAPH_NONE;
		}
		if (!memory(p, value.tensor))
			return ET_GRAPH_NONE;
	}
	p->values[n] = add(p, &value);
	return p->values[n];
}

static bool set_host_type(struct parser *p, uint32_t index)
{
	char name[MAX_WORD];
	struct et_graph_value *value = &p->graph->values[index];
	if (!word(p, name))
		return p->status == ET_OK;
	if (value->kind != ET_GRAPH_TENSOR || !to_type(name, &value->tensor->host_type))
		return fail(p, "this is no type");
	return true;
}

/* "{1, 2.5}": as many numbers as the tensor has elements. */
static bool constant_data(struct parser *p, struct et_graph_tensor *tensor)
{
	size_t n = 0, item_bytes = et_scalar_size((enum et_scalar_type)tensor->type);
	if (tensor->n_bytes > (uint64_t)(p->end - p->at) * 8)
		return fail(p, "numbers are missing");
	uint8_t *data = et_pool_alloc(p->graph->pool, tensor->n_bytes + 64, 64); /* kernels read whole vectors */
	if (!data)
		return no_memory(p);
	while (!accept(p, '}')) {
		char text[MAX_WORD];
		double d;
		if ((n && !expect(p, ',')) || !word(p, text) || !to_double(text, &d) ||
			(n + 1) * item_bytes > tensor->n_bytes || !et_graph_store(data, tensor->type, n, d))
			return fail(p, "this is no number, there are too many, or the type has no numbers in texts");
		n++;
	}
	if (n * item_bytes != tensor->n_bytes)
		return fail(p, "numbers are missing");
	tensor->data = data;
	return true;
}

static bool constant(struct parser *p, struct et_graph_value *value)
{
	char text[MAX_WORD];
	int64_t i;
	if (value->kind != ET_GRAPH_TENSOR)
		return fail(p, "a constant is a tensor");
	value->origin = ET_GRAPH_CONSTANT;
	if (accept(p, '{'))
		return constant_data(p, value->tensor);
	if (word(p, text)) {
		if (!to_int(text, &i) || i < 0 || i >= ET_GRAPH_NONE)
			return fail(p, "this is no constant's number");
		value->tensor->constant = (uint32_t)i;
	}
	return p->status == ET_OK;
}

/* "(%0, 1)" */
static bool arguments(struct parser *p, const struct et_graph_operator *op, uint32_t *args, uint32_t *ret_n_made)
{
	uint32_t n_args = 0, n_wanted = et_graph_operator_n_args(op, ret_n_made);
	if (!expect(p, '('))
		return false;
	while (!accept(p, ')')) {
		if ((n_args && !expect(p, ',')) || n_args == n_wanted)
			return fail(p, "the operator has fewer arguments");
		args[n_args++] = operand(p, true);
		if (p->status != ET_OK)
			return false;
	}
	return n_args == n_wanted || fail(p, "the operator has more arguments");
}

/* "aten.relu.default(_)", behind the '|'. */
static bool step(struct parser *p)
{
	struct et_graph_node *node = &p->graph->nodes[p->graph->n_nodes - 1];
	const struct et_graph_value *result = &p->graph->values[node->results[0]];
	uint32_t args[MAX_ARGS], n_made;
	char name[MAX_WORD];
	if (node->n_results != 1 || result->kind != ET_GRAPH_TENSOR || node->n_steps == ET_GRAPH_MAX_STEPS)
		return fail(p, "a node with steps has one result, a tensor, and not too many steps");
	const struct et_graph_operator *op = word(p, name) ? et_graph_operator_find(name) : NULL;
	if (!op)
		return fail(p, "no such operator");
	uint32_t n_args = et_graph_operator_n_args(op, &n_made);
	struct et_graph_step *added = et_graph_add_step(p->graph, node, op, n_args, result->tensor->type);
	if (!added)
		return no_memory(p);
	p->running = added->input;
	bool is_right = arguments(p, op, args, &n_made);
	p->running = ET_GRAPH_NONE;
	if (is_right)
		memcpy(added->args, args, n_args * sizeof(*args));
	return is_right && (et_graph_set_bytes(p->graph->values[added->input].tensor) || fail(p, "it is too large"));
}

static bool call(struct parser *p, const char *name, const uint32_t *results, uint32_t n_results)
{
	const struct et_graph_operator *op = et_graph_operator_find(name);
	uint32_t args[MAX_ARGS], n_made, n_unused;
	if (!op)
		return fail(p, "no such operator");
	if (!arguments(p, op, args, &n_made))
		return false;
	if (n_made != UINT32_MAX && n_made != n_results)
		return fail(p, "the operator has another number of results");
	struct et_graph_node *node = et_graph_add_node(p->graph, op, et_graph_operator_n_args(op, &n_unused),
		n_results);
	if (!node)
		return no_memory(p);
	memcpy(node->args, args, node->n_args * sizeof(*args));
	memcpy(node->results, results, n_results * sizeof(*results));
	while (accept(p, '|'))
		if (!step(p))
			return false;
	return true;
}

static bool definition(struct parser *p)
{
	uint32_t results[256], n = 0;
	char name[MAX_WORD];
	do {
		if (n == ET_ARRAY_LEN(results) || (n && !expect(p, '%')))
			return fail(p, "too many results");
		results[n++] = made(p);
		if (p->status != ET_OK)
			return false;
	} while (accept(p, ','));
	if (!expect(p, '=') || !word(p, name))
		return fail(p, "an operator, input, constant or state is missing here");
	struct et_graph_value *value = &p->graph->values[results[0]];
	if (strcmp(name, "input") == 0 && n == 1) {
		value->origin = ET_GRAPH_INPUT;
		if (p->n_inputs == ET_ARRAY_LEN(p->inputs))
			return fail(p, "too many inputs");
		p->inputs[p->n_inputs++] = results[0];
		return set_host_type(p, results[0]);
	}
	if (strcmp(name, "state") == 0 && n == 1) {
		value->origin = ET_GRAPH_STATE;
		return true;
	}
	if (strcmp(name, "constant") == 0 && n == 1)
		return constant(p, value);
	return call(p, name, results, n);
}

static bool outputs(struct parser *p)
{
	uint32_t items[256], n = 0;
	do {
		if (n == ET_ARRAY_LEN(items))
			return fail(p, "too many outputs");
		if (!expect(p, '%'))
			return false;
		items[n++] = reference(p);
		if (p->status != ET_OK || !set_host_type(p, items[n - 1]))
			return false;
	} while (accept(p, ','));
	p->graph->n_outputs = n;
	p->graph->outputs = ET_POOL_NEW_ARRAY(p->graph->pool, uint32_t, n);
	if (!p->graph->outputs)
		return no_memory(p);
	memcpy(p->graph->outputs, items, n * sizeof(*items));
	return true;
}

static bool line(struct parser *p)
{
	char name[MAX_WORD];
	bool is_right;
	skip_blanks(p);
	if (peek(p) == '\n' || p->at == p->end)
		return true;
	if (p->graph->outputs)
		return fail(p, "nothing may follow the return");
	if (accept(p, '%'))
		is_right = definition(p);
	else
		is_right = word(p, name) && strcmp(name, "return") == 0 ? outputs(p)
									: fail(p, "this is no line of a graph");
	skip_blanks(p);
	return is_right && (p->at == p->end || *p->at == '\n' || fail(p, "the line should end here"));
}

static void parse(struct parser *p)
{
	p->values = ET_POOL_NEW_ARRAY(&p->scratch, uint32_t, p->n_numbers);
	if (!p->values) {
		no_memory(p);
		return;
	}
	memset(p->values, 0xff, p->n_numbers * sizeof(*p->values));
	for (p->line = 1; p->status == ET_OK && p->at < p->end; p->line++) {
		p->line_begin = p->at;
		if (line(p) && p->at < p->end)
			p->at++;
	}
	if (p->status == ET_OK && !p->graph->outputs)
		fail(p, "the return is missing");
	if (p->status != ET_OK)
		return;
	p->graph->n_inputs = p->n_inputs;
	p->graph->inputs = ET_POOL_NEW_ARRAY(p->graph->pool, uint32_t, p->n_inputs);
	if (!p->graph->inputs)
		no_memory(p);
	else if (p->n_inputs)
		memcpy(p->graph->inputs, p->inputs, p->n_inputs * sizeof(*p->inputs));
}

enum et_status et_graph_parse(struct et_graph *ret_graph, const char *text, size_t n, struct et_pool *pool,
	struct et_diag *diag)
{
	struct parser p = { .graph = ret_graph,
		.diag = diag,
		.at = text,
		.end = text + n,
		.line_begin = text,
		.running = ET_GRAPH_NONE };
	/* A text of n characters has fewer numbers, so larger ones are a mistake. */
	p.n_numbers = n < ET_GRAPH_MAX_VALUES ? (uint32_t)n + 1 : ET_GRAPH_MAX_VALUES;
	et_graph_init(ret_graph, pool);
	et_pool_init(&p.scratch, &pool->allocator);
	parse(&p);
	et_pool_deinit(&p.scratch);
	return p.status == ET_OK ? et_graph_verify(ret_graph, diag) : p.status;
}
