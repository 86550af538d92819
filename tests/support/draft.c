/* SPDX-License-Identifier: BSD-3-Clause */
/* Purely random arguments would rarely pass a kernel's first check, so the choices are biased: most tensors of a
 * call have one type and a few sizes, most numbers are small, and the limits of their range are frequent. */
#include "tests/support/draft.h"

#include "runtime/base/checked.h"

#include <math.h>
#include <string.h>

/* --- numbers ---------------------------------------------------------------------------------------------- */

bool draft_one_in(struct draft *draft, size_t n)
{
	return choose(draft->choices, n) == n - 1;
}

static int64_t choose_int(struct draft *draft)
{
	static const int64_t ends[] = { INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1, INT32_MIN, INT32_MAX,
		(int64_t)INT32_MIN - 1, (int64_t)INT32_MAX + 1, INT64_C(1) << 62, INT64_C(1) << 32, UINT32_MAX, 65535,
		65536, 255, 256, -128, -129, 127, 128, 1000, -1000 };
	if (draft_one_in(draft, 6))
		return ends[choose(draft->choices, ET_ARRAY_LEN(ends))];
	if (draft_one_in(draft, 3))
		return (int64_t)choose(draft->choices, 34) - 17;
	return (int64_t)choose(draft->choices, 8) - 2;
}

static double choose_double(struct draft *draft)
{
	static const double ends[] = { NAN, INFINITY, -INFINITY, 0x1p63, -0x1p63, 0x1p64, 1e300, -1e300, 1e-300, 0x1p31,
		0x1p32, -0.0, 3.5e38, 1e10, -1e10, 0x1p-149 };
	if (draft_one_in(draft, 4))
		return ends[choose(draft->choices, ET_ARRAY_LEN(ends))];
	return ((double)choose(draft->choices, 17) - 4) * (draft_one_in(draft, 2) ? 1 : 0.25);
}

static uint8_t choose_type(struct draft *draft)
{
	static const uint8_t common[] = { ET_FLOAT32, ET_INT64, ET_BOOL, ET_UINT8, ET_INT8, ET_INT32, ET_FLOAT64,
		ET_FLOAT16, ET_BFLOAT16, ET_INT16, ET_COMPLEX64, ET_UINT16 };
	if (!draft_one_in(draft, 8))
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
	if (draft_one_in(draft, 40))
		return draft_one_in(draft, 2) ? INT32_MAX : (int32_t)1 << choose(draft->choices, 31);
	if (draft_one_in(draft, 8))
		return (int32_t)choose(draft->choices, 6);
	return draft->sizes[choose(draft->choices, ET_ARRAY_LEN(draft->sizes))];
}

/* Within what there may be, by emptying dimensions if nothing else helps. */
static void fit(struct draft_tensor *tensor)
{
	size_t numel;
	while (!et_sizes_are_addressable(tensor->sizes, tensor->order, tensor->n_dims, &numel) ||
		numel > DRAFT_MAX_NUMEL) {
		size_t largest = 0, n_large = 0;
		for (size_t d = 0; d < tensor->n_dims; d++) {
			n_large += tensor->sizes[d] > 8;
			if (tensor->sizes[d] > tensor->sizes[largest])
				largest = d;
		}
		tensor->sizes[largest] = n_large == 1 && tensor->sizes[largest] > 64 ? 0 : tensor->sizes[largest] / 2;
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
	*tensor = (struct draft_tensor){ .type = draft_one_in(draft, 4) ? choose_type(draft) : draft->type };
	tensor->n_dims = draft_one_in(draft, 16)  ? (uint8_t)choose(draft->choices, ET_MAX_DIMS + 1)
			 : draft_one_in(draft, 3) ? (uint8_t)choose(draft->choices, 6)
						  : draft->n_dims;
	for (size_t d = 0; d < tensor->n_dims; d++)
		tensor->sizes[d] = choose_size(draft);
	choose_order(draft, tensor);
	tensor->dynamism = draft_one_in(draft, is_written ? 6 : 2) ? ET_STATIC : ET_DYNAMIC_BOUND;
	tensor->n_spare = draft_one_in(draft, 3) ? choose(draft->choices, 4) : is_written ? DRAFT_MAX_NUMEL : 0;
	tensor->filling = (uint8_t)choose(draft->choices, 6);
	fit(tensor);
}

void draft_fill(struct draft *draft, uint8_t filling, uint8_t type, uint8_t *bytes, size_t n_bytes)
{
	size_t size = et_scalar_size(type);
	if (filling == 0)
		memset(bytes, 0, n_bytes);
	for (size_t at = 0; filling && at + size <= n_bytes; at += size) {
		uint64_t bits = choices_random(draft->choices) | choices_random(draft->choices) << 40;
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
	static const char *const strings[] = { "none", "tanh", "floor", "trunc", "add", "multiply", "left", "right",
		"sum", "prod", "mean", "amax", "amin", "sum ", "", "RIGHT" };
	const char *text = strings[choose(draft->choices, ET_ARRAY_LEN(strings))];
	value->n = strlen(text);
	memcpy(value->chars, text, value->n + 1);
}

static void choose_value(struct draft *draft, size_t number, char letter, bool is_written)
{
	struct draft_value *value = &draft->values[number];
	*value = (struct draft_value){ .tag = ET_TAG_NONE };
	if (strchr("tsivdfbc", letter) && draft_one_in(draft, 3))
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
	value->n = draft_one_in(draft, 2)   ? choose(draft->choices, DRAFT_MAX_ITEMS + 1)
		   : draft_one_in(draft, 2) ? 2
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
	value->tag = letter == 'l'   ? (draft_one_in(draft, 3) ? ET_TAG_TENSOR_LIST : ET_TAG_OPTIONAL_TENSOR_LIST)
		     : letter == 'L' ? ET_TAG_TENSOR_LIST
				     : ET_TAG_INT_LIST;
	if (value->tag == ET_TAG_TENSOR_LIST)
		item = 'T';
	for (size_t k = 0; k < value->n; k++) {
		if (draft->n_values == DRAFT_MAX_VALUES) {
			value->n = k;
			return;
		}
		/* the same value may be an item twice */
		value->items[k] = k && draft_one_in(draft, 16) ? value->items[k - 1] : add_value(draft);
		if (value->items[k] == draft->n_values - 1)
			choose_value(draft, value->items[k], item, is_written);
	}
}

bool draft_init(struct draft *draft, const struct et_kernel *kernel, struct choices *choices)
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
	if (draft_one_in(draft, 6)) { /* empty, and endless in the other dimensions */
		draft->sizes[1] = INT32_MAX;
		draft->sizes[2] = 0;
	}
	draft->shares = draft_one_in(draft, 4);
	draft->fail_at = draft_one_in(draft, 8) ? 1 + choose(choices, 3) : 0;
	return true;
}

void draft_make_up(struct draft *draft)
{
	for (size_t k = 0; k < draft->n_args; k++)
		choose_value(draft, k, draft->args[k].letter, draft->args[k].is_written);
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
		return et_sizes_are_addressable(value->tensor.sizes, value->tensor.order, value->tensor.n_dims, &numel);
	case ET_TAG_NONE:
		return true;
	default:
		break;
	}
	value->n = from->list->n;
	if (value->n > (from->tag == ET_TAG_STRING ? sizeof value->chars - 1 : DRAFT_MAX_ITEMS))
		return false;
	for (size_t k = 0; k < value->n; k++) {
		if (from->tag == ET_TAG_STRING) {
			value->chars[k] = from->list->chars[k];
		} else if (from->tag == ET_TAG_DOUBLE_LIST) {
			value->doubles[k] = from->list->doubles[k];
		} else if (from->tag == ET_TAG_BOOL_LIST) {
			value->bools[k] = from->list->bools[k];
		} else {
			if (draft->n_values == DRAFT_MAX_VALUES)
				return false;
			value->items[k] = add_value(draft);
			if (!copy_value(draft, value->items[k], from->list->values[k]))
				return false;
		}
	}
	return true;
}

bool draft_copy(struct draft *draft, struct et_evalue *const *args)
{
	for (size_t k = 0; k < draft->n_args; k++)
		if (!copy_value(draft, k, args[k]))
			return false;
	bool is_roomy = !draft_one_in(draft, 4);
	for (size_t k = 0; is_roomy && k < draft->n_values; k++) {
		struct draft_tensor *tensor = &draft->values[k].tensor;
		bool is_written = k >= draft->n_args || draft->args[k].is_written;
		if (draft->values[k].tag != ET_TAG_TENSOR || !is_written)
			continue;
		tensor->dynamism = ET_DYNAMIC_BOUND;
		tensor->n_spare = DRAFT_MAX_NUMEL;
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
			tensor->sizes[dim] += draft_one_in(draft, 2) || !tensor->sizes[dim] ? 1 : -1;
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
		tensor->n_spare = choose(draft->choices, DRAFT_MAX_NUMEL);
		break;
	default:
		tensor->filling = (uint8_t)choose(draft->choices, 6);
		tensor->bytes = NULL;
		break;
	}
	fit(tensor);
}

void draft_spoil(struct draft *draft)
{
	size_t number = choose(draft->choices, draft->n_values);
	struct draft_value *value = &draft->values[number];
	bool is_written = number < draft->n_args && draft->args[number].is_written;
	if (number < draft->n_args &&
		(draft_one_in(draft, 6) || value->tag == ET_TAG_NONE || value->tag == ET_TAG_STRING)) {
		choose_value(draft, number, draft->args[number].letter, is_written);
		return;
	}
	switch (value->tag) {
	case ET_TAG_TENSOR:
		spoil_tensor(draft, &value->tensor);
		break;
	case ET_TAG_INT:
		if (draft_one_in(draft, 2))
			value->i = choose_int(draft);
		else
			value->i = (int64_t)((uint64_t)value->i + (draft_one_in(draft, 2) ? 1 : UINT64_MAX));
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
		if (value->n && draft_one_in(draft, 2))
			value->n--;
		else if (value->n && value->n < DRAFT_MAX_ITEMS)
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
