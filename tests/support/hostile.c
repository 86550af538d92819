/* SPDX-License-Identifier: BSD-3-Clause */
/* Give a draft its memory, call the kernel, and check the result. */
#include "tests/support/hostile.h"

#include "tests/support/counting_alloc.h"
#include "tests/support/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 15, LARGE_MAX_NUMEL = 1 << 22, LARGE_MIN_NUMEL = 1 << 19, LARGE_BYTES = 1 << 20 };

struct call {
	struct draft draft;
	struct et_evalue values[DRAFT_MAX_VALUES];
	struct et_evalue *args[ET_KERNEL_MAX_ARGS];
	struct et_tensor tensors[DRAFT_MAX_VALUES];
	int32_t *shapes[DRAFT_MAX_VALUES]; /* sizes, then strides: as many as there are dimensions */
	uint8_t *orders[DRAFT_MAX_VALUES];
	struct et_list lists[DRAFT_MAX_VALUES];
	struct et_evalue *items[DRAFT_MAX_VALUES][DRAFT_MAX_ITEMS];
	uint8_t *memory[DRAFT_MAX_VALUES]; /* own, or NULL */
	uint8_t *before[DRAFT_MAX_VALUES]; /* of tensors that are only read */
	size_t n_bytes[DRAFT_MAX_VALUES];
	bool is_written[DRAFT_MAX_VALUES], is_read[DRAFT_MAX_VALUES], is_view[DRAFT_MAX_VALUES];
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
					   (draft_one_in(draft, 2) ? 1 : 16) * 16;
	} else if (n_bytes || draft_one_in(draft, 2)) {
		to->data = call->memory[number] = must(malloc(n_bytes ? n_bytes : 1));
	}
	if (call->is_view[number] && draft_one_in(draft, 2))
		to->data = NULL;
	if (!to->data)
		return;
	draft_fill(draft, from->filling, from->type, to->data, n_bytes);
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
		call->is_read[k] = draft->args[k].is_read;
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
	if (tensor->type != from->type || tensor->n_dims != from->n_dims || tensor->dim_order != call->orders[number])
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
	if (is_done && call->is_view[number] ? !is_within(tensor, call->args[0]->tensor) : numel > tensor->capacity)
		fail(call, number, "larger than its memory");
	if (!call->is_view[number] && tensor->capacity * et_scalar_size(tensor->type) != call->n_bytes[number])
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
	for (size_t k = 0; k < draft->n_args; k++) {
		bool is_tensor = draft->values[k].tag == ET_TAG_TENSOR || draft->values[k].tag == ET_TAG_TENSOR_LIST;
		if (draft->args[k].is_written && (draft->args[k].is_read || draft->args[k].is_view || !is_tensor))
			return false;
	}
	return strchr(draft->kernel->signature, '&') == NULL;
}

/* Outputs as they were before the call, but for what lies in them: the same byte all over. */
static void spoil_outputs(struct call *call, int byte)
{
	for (size_t k = 0; k < call->draft.n_values; k++) {
		const struct draft_tensor *from = &call->draft.values[k].tensor;
		struct et_tensor *to = &call->tensors[k];
		if (!call->is_written[k] || call->draft.values[k].tag != ET_TAG_TENSOR)
			continue;
		memcpy(to->sizes, from->sizes, from->n_dims * sizeof *from->sizes);
		et_dim_order_to_strides(to->sizes, to->dim_order, to->n_dims, to->strides);
		if (to->data)
			memset(to->data, byte, call->n_bytes[k]);
	}
}

/* Make the call again, over outputs and with scratch memory that are full of @byte. */
static enum et_status run_over(struct call *call, const struct et_compute *compute, uint8_t byte)
{
	struct counting_alloc counting = { .fill = byte };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool scratch;
	struct et_diag diag = { 0 };
	spoil_outputs(call, byte);
	et_pool_init(&scratch, &allocator);
	struct et_kernel_ctx ctx = {
		.kernel = call->draft.kernel, .compute = compute, .scratch = &scratch, .diag = &diag
	};
	enum et_status status = call->draft.kernel->run(&ctx, call->args);
	et_pool_deinit(&scratch);
	return status;
}

/* The memory of an output or of scratch may hold another client's data: a result that depends on it shows them. */
static void look_for_leaks(struct call *call, const struct et_compute *compute)
{
	uint8_t *results[DRAFT_MAX_VALUES] = { NULL };
	if (!is_repeatable(call))
		return;
	enum et_status status = run_over(call, compute, 0x5a);
	for (size_t k = 0; k < call->draft.n_values && status == ET_OK; k++)
		if (call->is_written[k] && call->values[k].tag == ET_TAG_TENSOR && et_tensor_n_bytes(&call->tensors[k]))
			results[k] = memcpy(must(malloc(et_tensor_n_bytes(&call->tensors[k]))), call->tensors[k].data,
				et_tensor_n_bytes(&call->tensors[k]));
	if (status == ET_OK && run_over(call, compute, 0xa5) != ET_OK)
		fail(call, 0, "was done once, but not twice");
	for (size_t k = 0; k < call->draft.n_values; k++) {
		if (results[k] && memcmp(results[k], call->tensors[k].data, et_tensor_n_bytes(&call->tensors[k])) != 0)
			fail(call, k, "shows what lay there before");
		free(results[k]);
	}
}

static enum et_status run(struct call *call)
{
	struct draft *draft = &call->draft;
	const struct et_compute compute = { .parallel_for = in_parts };
	struct counting_alloc counting = { .fail_at = draft->fail_at };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool scratch;
	struct et_diag diag = { 0 };
	bool fits = true;
	for (size_t k = 0; k < draft->n_values; k++)
		fits = fits && draft->values[k].tensor.n_bytes + draft->values[k].tensor.n_spare * 16 < ARENA_BYTES;
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
		.compute = draft_one_in(draft, 3) ? &compute : NULL,
		.scratch = &scratch,
		.diag = &diag };
	enum et_status status = draft->kernel->run(&ctx, call->args);
	if (status == ET_OK)
		look_for_leaks(call, ctx.compute);
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
	return status;
}

/* --- calls ------------------------------------------------------------------------------------------------ */

void hostile_call(const struct et_kernel *kernel, struct choices *choices)
{
	struct call *call = must(calloc(1, sizeof *call));
	if (draft_init(&call->draft, kernel, choices)) {
		draft_make_up(&call->draft);
		run(call);
	}
	free(call);
}

void hostile_call_near(const struct et_kernel *kernel, struct et_evalue *const *args, struct choices *choices)
{
	struct call *call = must(calloc(1, sizeof *call));
	if (draft_init(&call->draft, kernel, choices) && draft_copy(&call->draft, args)) {
		for (size_t n = 1 + choose(choices, 3); n; n--)
			draft_spoil(&call->draft);
		run(call);
	}
	free(call);
}

/* The call that @good is, with @type in value @number, or in all tensors if there is none of that number. */
static void call_with_type(struct call *call, const struct draft *good, size_t number, uint8_t type)
{
	memset(call, 0, sizeof *call);
	call->draft = *good;
	for (size_t k = 0; k < good->n_values; k++) {
		struct draft_value *value = &call->draft.values[k];
		if (value->tag != ET_TAG_TENSOR || (number < good->n_values && number != k))
			continue;
		value->tensor.type = type;
		/* Zeros are numbers of every type, and good positions and sizes. */
		value->tensor.bytes = NULL;
		value->tensor.filling = 0;
	}
	run(call);
}

static void call_with_types(struct call *call, struct choices *choices)
{
	struct draft good = call->draft;
	good.choices = choices;
	good.shares = false;
	good.fail_at = 0;
	for (size_t number = 0; number <= good.n_values; number++) {
		if (number < good.n_values && good.values[number].tag != ET_TAG_TENSOR)
			continue;
		for (uint8_t type = 0; type <= ET_UINT64; type++)
			if (et_scalar_size(type))
				call_with_type(call, &good, number, type);
	}
}

void hostile_call_types(const struct et_kernel *kernel, struct et_evalue *const *args)
{
	struct call *call = must(calloc(1, sizeof *call));
	struct choices first = { 0 };
	if (draft_init(&call->draft, kernel, &first) && draft_copy(&call->draft, args)) {
		/* No room for more than comes of the call, so that a larger type is seen. */
		for (size_t k = 0; k < call->draft.n_values; k++)
			call->draft.values[k].tensor.n_spare = 0;
		call_with_types(call, &first);
	}
	free(call);
}

bool hostile_call_types_made_up(const struct et_kernel *kernel, struct choices *choices)
{
	struct call *call = must(calloc(1, sizeof *call));
	struct choices first = { 0 };
	bool is_good = false;
	if (draft_init(&call->draft, kernel, choices)) {
		draft_make_up(&call->draft);
		call->draft.shares = false;
		is_good = run(call) == ET_OK;
		if (is_good)
			call_with_types(call, &first);
	}
	free(call);
	return is_good;
}

/* --- large calls that are stopped -------------------------------------------------------------------------- */

/* Each size of the call's tensors but 1, and each number greater than 1 if @with_numbers, times @factor. Returns the
 * elements of all tensors; 0: too many. */
static size_t enlarge(struct draft *draft, int32_t factor, bool with_numbers)
{
	size_t n_all = 0;
	for (size_t k = 0; k < draft->n_values; k++) {
		struct draft_tensor *tensor = &draft->values[k].tensor;
		double numel = 1;
		if (with_numbers && draft->values[k].tag == ET_TAG_INT && draft->values[k].i > 1 &&
			draft->values[k].i < INT32_MAX)
			draft->values[k].i *= factor;
		if (draft->values[k].tag != ET_TAG_TENSOR)
			continue;
		for (size_t d = 0; d < tensor->n_dims; d++) {
			double size = tensor->sizes[d] == 1 ? 1 : (double)tensor->sizes[d] * factor;
			numel *= size;
			if (numel > LARGE_MAX_NUMEL || size > LARGE_MAX_NUMEL)
				return 0;
			if (size != tensor->sizes[d]) { /* zeros: numbers of every type, and good positions */
				tensor->bytes = NULL;
				tensor->filling = 0;
			}
			tensor->sizes[d] = (int32_t)size;
		}
		n_all += (size_t)numel;
	}
	return n_all <= LARGE_MAX_NUMEL ? n_all : 0;
}

/* A clock that stands still until it was asked so often. */
struct late_clock {
	size_t n_asked, n_before;
};

static uint64_t ask_late_clock(void *self)
{
	struct late_clock *clock = self;
	return clock->n_asked++ < clock->n_before ? 1 : 2;
}

/* How a call ended that did not ask whether it must stop. */
static enum hostile_end end_of(const struct call *call)
{
	size_t n_written = 0, n_read = 0;
	for (size_t k = 0; k < call->draft.n_values; k++)
		if (call->draft.values[k].tag == ET_TAG_TENSOR)
			*(call->is_written[k] && !call->is_read[k] ? &n_written
								   : &n_read) += et_tensor_n_bytes(&call->tensors[k]);
	return n_written >= LARGE_BYTES ? HOSTILE_RAN_ON
	       : n_read >= LARGE_BYTES  ? HOSTILE_WROTE_LITTLE
					: HOSTILE_REFUSED;
}

static enum hostile_end run_stopped(struct call *call, size_t n_before)
{
	struct draft *draft = &call->draft;
	struct late_clock clock = { .n_before = n_before };
	const _Atomic(bool) is_cancelled = false;
	struct et_stop_signal signal = { &is_cancelled, 2, ask_late_clock, &clock, ET_OK };
	const struct et_compute compute = { .signal = &signal };
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool scratch;
	struct et_diag diag = { 0 };
	mark_written(call);
	for (size_t k = 0; k < draft->n_values; k++)
		give_value(call, k, NULL);
	for (size_t k = 0; k < draft->n_args; k++)
		call->args[k] = &call->values[k];
	et_pool_init(&scratch, &allocator);
	struct et_kernel_ctx ctx = { .kernel = draft->kernel, .compute = &compute, .scratch = &scratch, .diag = &diag };
	enum et_status status = draft->kernel->run(&ctx, call->args);
	enum hostile_end end = signal.status ? HOSTILE_STOPPED : status ? HOSTILE_REFUSED : end_of(call);
	et_pool_deinit(&scratch);
	for (size_t k = 0; k < draft->n_values; k++) {
		if (draft->values[k].tag == ET_TAG_TENSOR)
			look_at(call, k, false);
		free(call->memory[k]);
		free(call->shapes[k]);
		free(call->orders[k]);
		free(call->before[k]);
	}
	return end;
}

static enum hostile_end call_large(struct call *call, const struct et_kernel *kernel, struct et_evalue *const *args,
	size_t n_before, bool with_numbers)
{
	struct choices first = { 0 };
	for (int32_t factor = LARGE_MAX_NUMEL / 2; factor > 1; factor /= 2) {
		memset(call, 0, sizeof *call);
		if (!draft_init(&call->draft, kernel, &first) || !draft_copy(&call->draft, args))
			break;
		size_t n = enlarge(&call->draft, factor, with_numbers);
		for (size_t k = 0; n && k < call->draft.n_values; k++)
			if (k < call->draft.n_args && call->draft.args[k].is_written)
				call->draft.values[k].tensor.n_spare = n;
		if (n)
			return n >= LARGE_MIN_NUMEL ? run_stopped(call, n_before) : HOSTILE_REFUSED;
	}
	return HOSTILE_REFUSED;
}

enum hostile_end hostile_call_stopped(const struct et_kernel *kernel, struct et_evalue *const *args, size_t n_before)
{
	struct call *call = must(calloc(1, sizeof *call));
	enum hostile_end end = call_large(call, kernel, args, n_before, false);
	if (end == HOSTILE_REFUSED)
		end = call_large(call, kernel, args, n_before, true);
	free(call);
	return end;
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
