/* Making the calls, making them worse, and looking at what came of them.
 *
 * A call is made in two steps. A draft says what each argument is, in structs that are easy to change: made from
 * nothing by the signature, or copied from a call that is known to be good. Then it gets memory and runs.
 *
 * Chance alone would rarely come further than a kernel's first check, so it is loaded: most tensors of a call have
 * one type and sizes from a few, most numbers are small, and the ends of their range come often. */
#include "tests/support/hostile.h"
#include "runtime/base/checked.h"
#include "tests/support/counting_alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 96, MAX_ITEMS = 8, MAX_NUMEL = 600, ARENA_BYTES = 1 << 15 };

struct draft_tensor {
	uint8_t type, n_dims, dynamism;
	int32_t sizes[ET_MAX_DIMS];
	uint8_t order[ET_MAX_DIMS];
	size_t n_spare;    /* elements that fit beside those there are */
	size_t n_bytes;    /* of contents, or 0: made up by filling */
	const void *bytes; /* what a good call has there */
	uint8_t filling;
};

struct draft_value {
	uint8_t tag;
	int64_t i;
	double d;
	struct draft_tensor tensor;
	size_t n;                /* of a list or string */
	size_t items[MAX_ITEMS]; /* INT_LIST, TENSOR_LIST, OPTIONAL_TENSOR_LIST: numbers of values */
	double doubles[MAX_ITEMS];
	uint8_t bools[MAX_ITEMS];
	char chars[40];
};

struct draft {
	const struct et_kernel *kernel;
	struct choices *choices;
	struct et_kernel_arg args[ET_KERNEL_MAX_ARGS];
	size_t n_args, n_values; /* the first n_args values are the arguments, the others items of lists */
	struct draft_value values[MAX_VALUES];
	uint8_t type;     /* most tensors' */
	int32_t sizes[3]; /* most dimensions' */
	uint8_t n_dims;   /* most tensors' */
	bool shares;      /* one piece of memory for all tensors */
	size_t fail_at;   /* the allocation of scratch that fails; 0: none */
};

/* --- choices ---------------------------------------------------------------------------------------------- */

static uint64_t next_random(struct choices *choices)
{
	uint64_t x = choices->random;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	choices->random = x;
	return x * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

size_t choose(struct choices *choices, size_t n)
{
	size_t chosen = 0;
	for (size_t reach = 1; reach && reach < n; reach *= 256) {
		if (choices->n_bytes) {
			chosen = chosen * 256 + *choices->bytes++;
			choices->n_bytes--;
		} else if (choices->random) {
			chosen = chosen * 256 + next_random(choices) % 256;
		}
	}
	return n ? chosen % n : 0;
}

static bool one_in(struct draft *draft, size_t n)
{
	return choose(draft->choices, n) == n - 1;
}

static int64_t choose_int(struct draft *draft)
{
	static const int64_t ends[] = { INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1, INT32_MIN,
		INT32_MAX, (int64_t)INT32_MIN - 1, (int64_t)INT32_MAX + 1, INT64_C(1) << 62, INT64_C(1) << 32,
		UINT32_MAX, 65535, 65536, 255, 256, -128, -129, 127, 128, 1000, -1000 };
	if (one_in(draft, 6))
		return ends[choose(draft->choices, ET_ARRAY_LEN(ends))];
	if (one_in(draft, 3))
		return (int64_t)choose(draft->choices, 34) - 17;
	return (int64_t)choose(draft->choices, 8) - 2;
}

static double choose_double(struct draft *draft)
{
	static const double ends[] = { NAN, INFINITY, -INFINITY, 0x1p63, -0x1p63, 0x1p64, 1e300, -1e300,
		1e-300, 0x1p31, 0x1p32, -0.0, 3.5e38, 1e10, -1e10, 0x1p-149 };
	if (one_in(draft, 4))
		return ends[choose(draft->choices, ET_ARRAY_LEN(ends))];
	return ((double)choose(draft->choices, 17) - 4) * (one_in(draft, 2) ? 1 : 0.25);
}

static uint8_t choose_type(struct draft *draft)
{
	static const uint8_t common[] = { ET_FLOAT32, ET_INT64, ET_BOOL, ET_UINT8, ET_INT8, ET_INT32,
		ET_FLOAT64, ET_FLOAT16, ET_BFLOAT16, ET_INT16, ET_COMPLEX64, ET_UINT16 };
	if (!one_in(draft, 8))
		return common[choose(draft->choices, ET_ARRAY_LEN(common))];
	for (;;) {
		uint8_t type = (uint8_t)choose(draft->choices, ET_UINT64 + 1);
		if (et_scalar_size(type))
			return type;
	}
}

/* --- tensors ---------------------------------------------------------------------------------------------- */

static int32_t choose_size(struct draft *draft)
{
	if (one_in(draft, 40))
		return one_in(draft, 2) ? INT32_MAX : (int32_t)1 << choose(draft->choices, 31);
	if (one_in(draft, 8))
		return (int32_t)choose(draft->choices, 6);
	return draft->sizes[choose(draft->choices, ET_ARRAY_LEN(draft->sizes))];
}

/* Within what there may be, by emptying dimensions if nothing else helps. */
static void fit(struct draft_tensor *tensor)
{
	size_t numel;
	while (!et_sizes_are_addressable(tensor->sizes, tensor->order, tensor->n_dims, &numel) ||
		numel > MAX_NUMEL) {
		size_t largest = 0, n_large = 0;
		for (size_t d = 0; d < tensor->n_dims; d++) {
			n_large += tensor->sizes[d] > 8;
			if (tensor->sizes[d] > tensor->sizes[largest])
				largest = d;
		}
		tensor->sizes[largest] =
			n_large == 1 && tensor->sizes[largest] > 64 ? 0 : tensor->sizes[largest] / 2;
	}
}

static void choose_order(struct draft *draft, struct draft_tensor *tensor)
{
	size_t n = tensor->n_dims, how = choose(draft->choices, 8);
	for (size_t d = 0; d < ET_MAX_DIMS; d++)
		tensor->order[d] = (uint8_t)d;
	if (how == 6 && n > 2) {
		for (size_t d = 1; d + 1 < n; d++)
			tensor->order[d] = (uint8_t)(d + 1);
		tensor->order[n - 1] = 1;
	} else if (how == 7) {
		for (size_t d = n; d > 1; d--) {
			size_t other = choose(draft->choices, d);
			uint8_t spare = tensor->order[d - 1];
			tensor->order[d - 1] = tensor->order[other];
			tensor->order[other] = spare;
		}
	}
}

static void choose_tensor(struct draft *draft, struct draft_tensor *tensor, bool is_written)
{
	*tensor = (struct draft_tensor){ .type = one_in(draft, 4) ? choose_type(draft) : draft->type };
	tensor->n_dims = one_in(draft, 16)  ? (uint8_t)choose(draft->choices, ET_MAX_DIMS + 1)
			 : one_in(draft, 3) ? (uint8_t)choose(draft->choices, 6)
					    : draft->n_dims;
	for (size_t d = 0; d < tensor->n_dims; d++)
		tensor->sizes[d] = choose_size(draft);
	choose_order(draft, tensor);
	tensor->dynamism = one_in(draft, is_written ? 6 : 2) ? ET_STATIC : ET_DYNAMIC_BOUND;
	tensor->n_spare = one_in(draft, 3) ? choose(draft->choices, 4) : is_written ? MAX_NUMEL : 0;
	tensor->filling = (uint8_t)choose(draft->choices, 6);
	fit(tensor);
}

/* What tensors hold: anything, or numbers that come through more checks than that does. */
static void fill(struct draft *draft, uint8_t filling, uint8_t type, uint8_t *bytes, size_t n_bytes)
{
	size_t size = et_scalar_size(type);
	if (filling == 0)
		memset(bytes, 0, n_bytes);
	for (size_t at = 0; filling && at + size <= n_bytes; at += size) {
		uint64_t bits = next_random(draft->choices) | next_random(draft->choices) << 40;
		float f = (float)((double)(bits % 17) - 8) / 2;
		double d = filling == 4 ? choose_double(draft) : f;
		int64_t i = filling == 5 ? choose_int(draft) : (int64_t)(bits % 5) - (filling == 3);
		if (filling == 4)
			f = (float)d;
		if (filling == 1)
			memcpy(bytes + at, size > 8 ? (uint64_t[]){ bits, bits } : &bits, size);
		else if (type == ET_FLOAT32)
			memcpy(bytes + at, &f, sizeof f);
		else if (type == ET_FLOAT64)
			memcpy(bytes + at, &d, sizeof d);
		else
			memcpy(bytes + at, size > 8 ? (int64_t[]){ i, i } : &i, size); /* little-endian */
	}
}

/* --- arguments -------------------------------------------------------------------------------------------- */

static size_t add_value(struct draft *draft)
{
	draft->values[draft->n_values] = (struct draft_value){ .tag = ET_TAG_NONE };
	return draft->n_values++;
}

static void choose_string(struct draft *draft, struct draft_value *value)
{
	static const char *const strings[] = { "none", "tanh", "floor", "trunc", "add", "multiply", "left",
		"right", "sum", "prod", "mean", "amax", "amin", "sum ", "", "RIGHT" };
	const char *text = strings[choose(draft->choices, ET_ARRAY_LEN(strings))];
	value->n = strlen(text);
	memcpy(value->chars, text, value->n + 1);
}

static void choose_value(struct draft *draft, size_t number, char letter, bool is_written)
{
	struct draft_value *value = &draft->values[number];
	*value = (struct draft_value){ .tag = ET_TAG_NONE };
	if (strchr("tsivdfbc", letter) && one_in(draft, 3))
		return;
	if (letter == 'X')
		letter = "TLSVFCX"[choose(draft->choices, 7)];
	switch (letter) {
	case 'T':
	case 't':
		value->tag = ET_TAG_TENSOR;
		choose_tensor(draft, &value->tensor, is_written);
		return;
	case 'S':
	case 's':
	case 'N':
		value->tag = (uint8_t)(ET_TAG_INT + choose(draft->choices, 3));
		value->i = value->tag == ET_TAG_BOOL ? (int64_t)choose(draft->choices, 2) : choose_int(draft);
		value->d = choose_double(draft);
		return;
	case 'I':
	case 'i':
		value->tag = ET_TAG_INT;
		value->i = choose_int(draft);
		return;
	case 'D':
	case 'd':
		value->tag = ET_TAG_DOUBLE;
		value->d = choose_double(draft);
		return;
	case 'B':
	case 'b':
		value->tag = ET_TAG_BOOL;
		value->i = (int64_t)choose(draft->choices, 2);
		return;
	case 'C':
	case 'c':
		value->tag = ET_TAG_STRING;
		choose_string(draft, value);
		return;
	default:
		break;
	}
	value->n = one_in(draft, 2)   ? choose(draft->choices, MAX_ITEMS + 1)
		   : one_in(draft, 2) ? 2
				      : draft->n_dims % 6;
	if (letter == 'F' || letter == 'f' || letter == 'X') {
		value->tag = letter == 'X' ? ET_TAG_BOOL_LIST : ET_TAG_DOUBLE_LIST;
		for (size_t k = 0; k < value->n; k++) {
			value->doubles[k] = choose_double(draft);
			value->bools[k] = (uint8_t)choose(draft->choices, 2);
		}
		return;
	}
	char item = letter == 'l' ? 't' : letter == 'L' ? 'T' : 'I';
	value->tag = letter == 'l'   ? (one_in(draft, 3) ? ET_TAG_TENSOR_LIST : ET_TAG_OPTIONAL_TENSOR_LIST)
		     : letter == 'L' ? ET_TAG_TENSOR_LIST
				     : ET_TAG_INT_LIST;
	if (value->tag == ET_TAG_TENSOR_LIST)
		item = 'T';
	for (size_t k = 0; k < value->n; k++) {
		if (draft->n_values == MAX_VALUES) {
			value->n = k;
			return;
		}
		/* the same value may be an item twice */
		value->items[k] = k && one_in(draft, 16) ? value->items[k - 1] : add_value(draft);
		if (value->items[k] == draft->n_values - 1)
			choose_value(draft, value->items[k], item, is_written);
	}
}

static bool begin(struct draft *draft, const struct et_kernel *kernel, struct choices *choices)
{
	draft->kernel = kernel;
	draft->choices = choices;
	int n = et_kernel_signature(kernel->signature, draft->args, ET_KERNEL_MAX_ARGS);
	if (n < 0)
		return false;
	draft->n_args = draft->n_values = (size_t)n;
	draft->type = choose_type(draft);
	draft->n_dims = (uint8_t)choose(choices, 6);
	for (size_t k = 0; k < ET_ARRAY_LEN(draft->sizes); k++)
		draft->sizes[k] = (int32_t)choose(choices, k ? 5 : 3) + (k ? 0 : 1);
	if (one_in(draft, 6)) { /* empty, and endless in the other dimensions */
		draft->sizes[1] = INT32_MAX;
		draft->sizes[2] = 0;
	}
	draft->shares = one_in(draft, 4);
	draft->fail_at = one_in(draft, 8) ? 1 + choose(choices, 3) : 0;
	return true;
}

/* --- drafts from good calls -------------------------------------------------------------------------------- */

static bool copy_value(struct draft *draft, size_t number, const struct et_evalue *from)
{
	struct draft_value *value = &draft->values[number];
	size_t numel;
	*value = (struct draft_value){ .tag = from->tag };
	switch (from->tag) {
	case ET_TAG_INT:
		value->i = from->i;
		return true;
	case ET_TAG_BOOL:
		value->i = from->b;
		return true;
	case ET_TAG_DOUBLE:
		value->d = from->d;
		return true;
	case ET_TAG_TENSOR:
		value->tensor = (struct draft_tensor){
			.type = from->tensor->type,
			.n_dims = from->tensor->n_dims,
			.dynamism = from->tensor->dynamism,
			.bytes = from->tensor->data,
			.n_bytes = et_tensor_n_bytes(from->tensor),
		};
		memcpy(value->tensor.sizes, from->tensor->sizes, from->tensor->n_dims * sizeof(int32_t));
		memcpy(value->tensor.order, from->tensor->dim_order, from->tensor->n_dims);
		return et_sizes_are_addressable(
			value->tensor.sizes, value->tensor.order, value->tensor.n_dims, &numel);
	case ET_TAG_NONE:
		return true;
	default:
		break;
	}
	value->n = from->list->n;
	if (value->n > (from->tag == ET_TAG_STRING ? sizeof value->chars - 1 : MAX_ITEMS))
		return false;
	for (size_t k = 0; k < value->n; k++) {
		if (from->tag == ET_TAG_STRING) {
			value->chars[k] = from->list->chars[k];
		} else if (from->tag == ET_TAG_DOUBLE_LIST) {
			value->doubles[k] = from->list->doubles[k];
		} else if (from->tag == ET_TAG_BOOL_LIST) {
			value->bools[k] = from->list->bools[k];
		} else {
			if (draft->n_values == MAX_VALUES)
				return false;
			value->items[k] = add_value(draft);
			if (!copy_value(draft, value->items[k], from->list->values[k]))
				return false;
		}
	}
	return true;
}

static void spoil_tensor(struct draft *draft, struct draft_tensor *tensor)
{
	size_t dim = choose(draft->choices, tensor->n_dims ? tensor->n_dims : 1);
	switch (choose(draft->choices, 10)) {
	case 0:
		tensor->type = choose_type(draft);
		break;
	case 1:
	case 2:
		if (tensor->n_dims)
			tensor->sizes[dim] = choose_size(draft);
		break;
	case 3:
		if (tensor->n_dims && tensor->sizes[dim] < INT32_MAX)
			tensor->sizes[dim] += one_in(draft, 2) || !tensor->sizes[dim] ? 1 : -1;
		break;
	case 4:
		if (tensor->n_dims < ET_MAX_DIMS)
			tensor->sizes[tensor->n_dims++] = choose_size(draft);
		choose_order(draft, tensor);
		break;
	case 5:
		tensor->n_dims -= tensor->n_dims > 0;
		choose_order(draft, tensor);
		break;
	case 6:
		choose_order(draft, tensor);
		break;
	case 7:
		tensor->dynamism = tensor->dynamism == ET_STATIC ? ET_DYNAMIC_BOUND : ET_STATIC;
		tensor->n_spare = choose(draft->choices, MAX_NUMEL);
		break;
	default:
		tensor->filling = (uint8_t)choose(draft->choices, 6);
		tensor->bytes = NULL;
		break;
	}
	fit(tensor);
}

static void spoil(struct draft *draft)
{
	size_t number = choose(draft->choices, draft->n_values);
	struct draft_value *value = &draft->values[number];
	bool is_written = number < draft->n_args && draft->args[number].is_written;
	if (number < draft->n_args &&
		(one_in(draft, 6) || value->tag == ET_TAG_NONE || value->tag == ET_TAG_STRING)) {
		choose_value(draft, number, draft->args[number].letter, is_written);
		return;
	}
	switch (value->tag) {
	case ET_TAG_TENSOR:
		spoil_tensor(draft, &value->tensor);
		break;
	case ET_TAG_INT:
		if (one_in(draft, 2))
			value->i = choose_int(draft);
		else
			value->i = (int64_t)((uint64_t)value->i + (one_in(draft, 2) ? 1 : UINT64_MAX));
		break;
	case ET_TAG_BOOL:
		value->i = !value->i;
		break;
	case ET_TAG_DOUBLE:
		value->d = choose_double(draft);
		break;
	case ET_TAG_INT_LIST:
	case ET_TAG_TENSOR_LIST:
	case ET_TAG_OPTIONAL_TENSOR_LIST:
		if (value->n && one_in(draft, 2))
			value->n--;
		else if (value->n && value->n < MAX_ITEMS)
			value->items[value->n] = value->items[choose(draft->choices, value->n)], value->n++;
		break;
	case ET_TAG_DOUBLE_LIST:
		if (value->n)
			value->doubles[choose(draft->choices, value->n)] = choose_double(draft);
		break;
	default:
		break;
	}
}

/* --- running ---------------------------------------------------------------------------------------------- */

struct call {
	struct draft draft;
	struct et_evalue values[MAX_VALUES];
	struct et_evalue *args[ET_KERNEL_MAX_ARGS];
	struct et_tensor tensors[MAX_VALUES];
	int32_t *shapes[MAX_VALUES]; /* sizes, then strides: as many as there are dimensions */
	uint8_t *orders[MAX_VALUES];
	struct et_list lists[MAX_VALUES];
	struct et_evalue *items[MAX_VALUES][MAX_ITEMS];
	uint8_t *memory[MAX_VALUES]; /* own, or NULL */
	uint8_t *before[MAX_VALUES]; /* of tensors that are only read */
	size_t n_bytes[MAX_VALUES];
	bool is_written[MAX_VALUES], is_view[MAX_VALUES];
};

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void give_tensor(struct call *call, size_t number, uint8_t *arena)
{
	struct draft *draft = &call->draft;
	const struct draft_tensor *from = &draft->values[number].tensor;
	struct et_tensor *to = &call->tensors[number];
	size_t size = et_scalar_size(from->type), numel;
	if (!et_sizes_are_addressable(from->sizes, from->order, from->n_dims, &numel))
		abort();
	call->shapes[number] = must(malloc(2 * from->n_dims * sizeof(int32_t) + !from->n_dims));
	call->orders[number] = must(malloc(from->n_dims + !from->n_dims));
	*to = (struct et_tensor){ .capacity = numel + from->n_spare,
		.sizes = call->shapes[number],
		.strides = call->shapes[number] + from->n_dims,
		.dim_order = call->orders[number],
		.type = from->type,
		.n_dims = from->n_dims,
		.dynamism = from->dynamism };
	memcpy(to->sizes, from->sizes, from->n_dims * sizeof *from->sizes);
	memcpy(call->orders[number], from->order, from->n_dims);
	et_dim_order_to_strides(to->sizes, to->dim_order, to->n_dims, to->strides);
	size_t n_bytes = call->n_bytes[number] = to->capacity * size;
	if (arena) {
		to->data = arena + choose(draft->choices, (ARENA_BYTES - n_bytes) / 16 + 1) /
					   (one_in(draft, 2) ? 1 : 16) * 16;
	} else if (n_bytes || one_in(draft, 2)) {
		to->data = call->memory[number] = must(malloc(n_bytes ? n_bytes : 1));
	}
	if (call->is_view[number] && one_in(draft, 2))
		to->data = NULL;
	if (!to->data)
		return;
	fill(draft, from->filling, from->type, to->data, n_bytes);
	if (from->bytes && from->n_bytes)
		memcpy(to->data, from->bytes, from->n_bytes < n_bytes ? from->n_bytes : n_bytes);
	if (!arena && !call->is_written[number])
		call->before[number] = memcpy(must(malloc(n_bytes + 1)), to->data, n_bytes);
}

static void give_value(struct call *call, size_t number, uint8_t *arena)
{
	const struct draft_value *from = &call->draft.values[number];
	struct et_evalue *to = &call->values[number];
	struct et_list *list = &call->lists[number];
	to->tag = from->tag;
	switch (from->tag) {
	case ET_TAG_NONE:
		return;
	case ET_TAG_INT:
		to->i = from->i;
		return;
	case ET_TAG_BOOL:
		to->b = from->i != 0;
		return;
	case ET_TAG_DOUBLE:
		to->d = from->d;
		return;
	case ET_TAG_TENSOR:
		to->tensor = &call->tensors[number];
		give_tensor(call, number, arena);
		return;
	default:
		break;
	}
	to->list = list;
	list->n = (uint32_t)from->n;
	if (from->tag == ET_TAG_STRING) {
		list->chars = from->chars;
	} else if (from->tag == ET_TAG_DOUBLE_LIST) {
		list->doubles = from->doubles;
	} else if (from->tag == ET_TAG_BOOL_LIST) {
		list->bools = from->bools;
	} else {
		list->values = call->items[number];
		for (size_t k = 0; k < from->n; k++)
			call->items[number][k] = &call->values[from->items[k]];
	}
}

static void mark_written(struct call *call)
{
	struct draft *draft = &call->draft;
	for (size_t k = 0; k < draft->n_args; k++) {
		const struct draft_value *value = &draft->values[k];
		call->is_written[k] = draft->args[k].is_written;
		call->is_view[k] = draft->args[k].is_view;
		if (value->tag != ET_TAG_TENSOR_LIST && value->tag != ET_TAG_OPTIONAL_TENSOR_LIST)
			continue;
		for (size_t i = 0; i < value->n; i++)
			call->is_written[value->items[i]] |= draft->args[k].is_written;
	}
}

static void print_value(const struct call *call, const struct et_evalue *value)
{
	switch (value->tag) {
	case ET_TAG_INT:
		fprintf(stderr, " %lld", (long long)value->i);
		return;
	case ET_TAG_BOOL:
		fprintf(stderr, value->b ? " true" : " false");
		return;
	case ET_TAG_DOUBLE:
		fprintf(stderr, " %g.", value->d);
		return;
	case ET_TAG_TENSOR: {
		const struct draft_tensor *tensor = &call->draft.values[value - call->values].tensor;
		fprintf(stderr, " %s[", et_scalar_name(tensor->type));
		for (size_t d = 0; d < tensor->n_dims; d++)
			fprintf(stderr, d ? ",%d" : "%d", tensor->sizes[d]);
		fprintf(stderr, "]@");
		for (size_t d = 0; d < tensor->n_dims; d++)
			fprintf(stderr, "%x", tensor->order[d]);
		fprintf(stderr, "+%zu%s~%d(%p)", tensor->n_spare, tensor->dynamism == ET_STATIC ? "!" : "",
			tensor->filling, value->tensor->data);
		return;
	}
	case ET_TAG_NONE:
		fprintf(stderr, " -");
		return;
	case ET_TAG_STRING:
		fprintf(stderr, " '%s'", value->list->chars);
		return;
	default:
		break;
	}
	fprintf(stderr, " (");
	for (uint32_t i = 0; i < value->list->n; i++) {
		if (value->tag == ET_TAG_DOUBLE_LIST)
			fprintf(stderr, " %g", value->list->doubles[i]);
		else if (value->tag == ET_TAG_BOOL_LIST)
			fprintf(stderr, " %d", value->list->bools[i]);
		else
			print_value(call, value->list->values[i]);
	}
	fprintf(stderr, " )");
}

static void print_call(const struct call *call)
{
	fprintf(stderr, "%s %s:", call->draft.kernel->name, call->draft.kernel->signature);
	for (size_t k = 0; k < call->draft.n_args; k++)
		print_value(call, call->args[k]);
	fprintf(stderr, "\n");
}

static void fail(const struct call *call, size_t number, const char *what)
{
	print_call(call);
	fprintf(stderr, "value %zu: %s\n", number, what);
	abort();
}

/* Memory of @tensor lies within that of @base. */
static bool is_within(const struct et_tensor *tensor, const struct et_tensor *base)
{
	size_t n = et_tensor_n_bytes(tensor), n_base = base->capacity * et_scalar_size(base->type);
	return !n || ((uint8_t *)tensor->data >= (uint8_t *)base->data &&
			     (uint8_t *)tensor->data + n <= (uint8_t *)base->data + n_base);
}

static void look_at(const struct call *call, size_t number, bool is_done)
{
	const struct draft_tensor *from = &call->draft.values[number].tensor;
	const struct et_tensor *tensor = &call->tensors[number];
	size_t numel;
	if (tensor->type != from->type || tensor->n_dims != from->n_dims ||
		tensor->dim_order != call->orders[number])
		fail(call, number, "its header changed");
	if (!call->is_written[number]) {
		if (memcmp(tensor->sizes, from->sizes, from->n_dims * sizeof(int32_t)) != 0)
			fail(call, number, "an input's sizes changed");
		if (call->before[number] && call->n_bytes[number] &&
			memcmp(call->before[number], call->memory[number], call->n_bytes[number]) != 0)
			fail(call, number, "an input changed");
		return;
	}
	if (!et_sizes_are_addressable(tensor->sizes, tensor->dim_order, tensor->n_dims, &numel))
		fail(call, number, "sizes that cannot be addressed");
	if (is_done && call->is_view[number] ? !is_within(tensor, call->args[0]->tensor)
					     : numel > tensor->capacity)
		fail(call, number, "larger than its memory");
	if (!call->is_view[number] &&
		tensor->capacity * et_scalar_size(tensor->type) != call->n_bytes[number])
		fail(call, number, "another capacity");
}

/* Two halves and the middle, so that what depends on the whole is seen. */
static void in_parts(void *self, et_range_fn fn, void *arg, size_t n, size_t grain)
{
	(void)self;
	(void)grain;
	fn(arg, n / 2, n / 2 + 1);
	if (n / 2)
		fn(arg, 0, n / 2);
	if (n / 2 + 1 < n)
		fn(arg, n / 2 + 1, n);
}

/* Whether a call may be made again: its outputs are nobody's inputs, and not by chance. */
static bool is_repeatable(const struct call *call)
{
	const struct draft *draft = &call->draft;
	const char *name = draft->kernel->name;
	if (draft->shares || draft->fail_at || strstr(name, "rand") || strstr(name, "dropout"))
		return false;
	for (size_t k = 0; k < draft->n_args; k++)
		if (draft->args[k].is_written && (draft->args[k].is_read || draft->args[k].is_view ||
							 draft->values[k].tag != ET_TAG_TENSOR))
			return false;
	return strchr(draft->kernel->signature, '&') == NULL;
}

/* Outputs as they were before the call, but for what lies in them: the same byte all over. */
static void spoil_outputs(struct call *call, int byte)
{
	for (size_t k = 0; k < call->draft.n_args; k++) {
		const struct draft_tensor *from = &call->draft.values[k].tensor;
		struct et_tensor *to = &call->tensors[k];
		if (!call->is_written[k])
			continue;
		memcpy(to->sizes, from->sizes, from->n_dims * sizeof *from->sizes);
		et_dim_order_to_strides(to->sizes, to->dim_order, to->n_dims, to->strides);
		if (to->data)
			memset(to->data, byte, call->n_bytes[k]);
	}
}

/* What lay in an output's memory before may be another client's: nothing of it is to be seen in the result. */
static void look_for_leaks(struct call *call, struct et_kernel_ctx *ctx)
{
	uint8_t *results[ET_KERNEL_MAX_ARGS] = { NULL };
	if (!is_repeatable(call))
		return;
	spoil_outputs(call, 0x5a);
	enum et_status status = call->draft.kernel->run(ctx, call->args);
	for (size_t k = 0; k < call->draft.n_args && status == ET_OK; k++)
		if (call->is_written[k] && et_tensor_n_bytes(&call->tensors[k]))
			results[k] = memcpy(must(malloc(et_tensor_n_bytes(&call->tensors[k]))),
				call->tensors[k].data, et_tensor_n_bytes(&call->tensors[k]));
	spoil_outputs(call, 0xa5);
	if (status == ET_OK && call->draft.kernel->run(ctx, call->args) != ET_OK)
		fail(call, 0, "was done once, but not twice");
	for (size_t k = 0; k < call->draft.n_args; k++) {
		if (results[k] &&
			memcmp(results[k], call->tensors[k].data, et_tensor_n_bytes(&call->tensors[k])) != 0)
			fail(call, k, "shows what lay there before");
		free(results[k]);
	}
}

static void run(struct call *call)
{
	struct draft *draft = &call->draft;
	const struct et_compute compute = { .struct_size = sizeof compute, .parallel_for = in_parts };
	struct counting_alloc counting = { .fail_at = draft->fail_at };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool scratch;
	struct et_diag diag = { 0 };
	bool fits = true;
	for (size_t k = 0; k < draft->n_values; k++)
		fits = fits &&
		       draft->values[k].tensor.n_bytes + draft->values[k].tensor.n_spare * 16 < ARENA_BYTES;
	uint8_t *arena = draft->shares && fits ? must(aligned_alloc(64, ARENA_BYTES)) : NULL;
	if (arena)
		memset(arena, 0, ARENA_BYTES);
	mark_written(call);
	for (size_t k = 0; k < draft->n_values; k++)
		give_value(call, k, arena);
	for (size_t k = 0; k < draft->n_args; k++)
		call->args[k] = &call->values[k];
	if (getenv("HOSTILE_PRINT")) /* for calls that never end, or end it all */
		print_call(call);
	et_pool_init(&scratch, &allocator);
	struct et_kernel_ctx ctx = { .kernel = draft->kernel,
		.compute = one_in(draft, 3) ? &compute : NULL,
		.scratch = &scratch,
		.diag = &diag };
	enum et_status status = draft->kernel->run(&ctx, call->args);
	if (status == ET_OK)
		look_for_leaks(call, &ctx);
	et_pool_deinit(&scratch);
	if (status == ET_PENDING || (status && !diag.text[0]))
		fail(call, 0, "no sentence");
	for (size_t k = 0; k < draft->n_values; k++) {
		if (draft->values[k].tag == ET_TAG_TENSOR)
			look_at(call, k, status == ET_OK);
		free(call->memory[k]);
		free(call->shapes[k]);
		free(call->orders[k]);
		free(call->before[k]);
	}
	free(arena);
}

void hostile_call(const struct et_kernel *kernel, struct choices *choices)
{
	struct call *call = must(calloc(1, sizeof *call));
	if (begin(&call->draft, kernel, choices)) {
		for (size_t k = 0; k < call->draft.n_args; k++)
			choose_value(
				&call->draft, k, call->draft.args[k].letter, call->draft.args[k].is_written);
		run(call);
	}
	free(call);
}

void hostile_call_near(const struct et_kernel *kernel, struct et_evalue *const *args, struct choices *choices)
{
	struct call *call = must(calloc(1, sizeof *call));
	struct draft *draft = &call->draft;
	bool is_good = begin(draft, kernel, choices);
	for (size_t k = 0; is_good && k < draft->n_args; k++)
		is_good = copy_value(draft, k, args[k]);
	bool is_roomy = is_good && !one_in(draft, 4);
	for (size_t k = 0; is_roomy && k < draft->n_values; k++) {
		struct draft_tensor *tensor = &draft->values[k].tensor;
		bool is_written = k >= draft->n_args || draft->args[k].is_written;
		if (draft->values[k].tag != ET_TAG_TENSOR || !is_written)
			continue;
		tensor->dynamism = ET_DYNAMIC_BOUND;
		tensor->n_spare = MAX_NUMEL;
	}
	for (size_t n = 1 + choose(choices, 3); is_good && n; n--)
		spoil(draft);
	if (is_good)
		run(call);
	free(call);
}

/* --- tables ----------------------------------------------------------------------------------------------- */

size_t hostile_n_kernels(void)
{
	size_t n = 0;
	for (size_t i = 0; i < et_n_kernel_tables; i++)
		n += et_kernel_tables[i]->n;
	return n;
}

const struct et_kernel *hostile_kernel(size_t index)
{
	for (size_t i = 0; i < et_n_kernel_tables; i++) {
		if (index < et_kernel_tables[i]->n)
			return &et_kernel_tables[i]->kernels[index];
		index -= et_kernel_tables[i]->n;
	}
	return NULL;
}
