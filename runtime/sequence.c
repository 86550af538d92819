/* SPDX-License-Identifier: BSD-3-Clause */
/* Instructions that one call computes together (et_kernel_sequence).
 *
 * An exporter decomposes an operator into several that this runtime has, and each writes a tensor that only the next
 * one reads. If instructions that follow each other have the names of a sequence, a run offers them to its function
 * first. The function sees the arguments, decides whether it can do the work of all, and need not write the tensors in
 * between. Nobody may miss these: each is planned, of fixed sizes, in no state, neither input nor output, is written by
 * one call and read by one. No value of the method may be read before it is written (is_borrowing), as a cache is. No
 * other tensor is alive at the same time at the same place, where it would be overwritten. A method with jumps is left
 * alone, since one might lead into a sequence. So are calls whose arguments need a check in each run. */
#include "runtime/plan_internal.h"

#include <string.h>

/* Limit on comparisons between tensors. Only a hostile program needs more; its calls run one by one. */
enum { MAX_COMPARISONS = 1 << 24 };

struct search {
	struct et_plan *plan;
	uint32_t *n_uses; /* one per value: how many arguments, items of lists included, name it */
	size_t n_comparisons_left;
	bool is_private; /* what the calls in question write is used once more only, and overwrites nothing */
};

static void count_use(void *arg, uint32_t value_index, unsigned access)
{
	struct search *search = arg;
	(void)access;
	search->n_uses[value_index]++;
}

/* Whether no other tensor is alive at the same time at the same place. */
static bool is_alone(struct search *search, uint32_t value_index)
{
	const struct et_plan *plan = search->plan;
	const struct et_tensor_spec *self = plan->spec->values[value_index].tensor;
	const struct et_plan_value *mine = &plan->values[value_index];
	if (search->n_comparisons_left < plan->spec->n_values)
		return false;
	search->n_comparisons_left -= plan->spec->n_values;
	for (uint32_t v = 0; v < plan->spec->n_values; v++) {
		const struct et_tensor_spec *other = plan->spec->values[v].tensor;
		const struct et_plan_value *theirs = &plan->values[v];
		if (v != value_index && plan->spec->values[v].tag == ET_TAG_TENSOR &&
			other->storage == ET_STORAGE_PLANNED && other->arena == self->arena &&
			other->offset < self->offset + self->n_bytes && self->offset < other->offset + other->n_bytes &&
			theirs->first <= theirs->last && theirs->first <= mine->last && mine->first <= theirs->last)
			return false;
	}
	return true;
}

static void check_private(void *arg, uint32_t value_index, unsigned access)
{
	struct search *search = arg;
	const struct et_plan_value *value = &search->plan->values[value_index];
	const struct et_value_spec *spec = &search->plan->spec->values[value_index];
	(void)access;
	search->is_private = search->is_private && spec->tag == ET_TAG_TENSOR &&
			     spec->tensor->storage == ET_STORAGE_PLANNED && spec->tensor->dynamism == ET_STATIC &&
			     !value->is_input && !value->is_output && !value->is_state && !value->is_shared &&
			     search->n_uses[value_index] == 2 && is_alone(search, value_index);
}

static const struct et_kernel *kernel_of(const struct et_plan *plan, const struct et_plan_instruction *call)
{
	return call->op == ET_OP_KERNEL ? plan->operators[call->index].kernel : NULL;
}

/* Whether the calls from @first on, of which @n_left are left, have the names of the sequence; the order of names that
 * differ is free, but for the first and the last one. Fills @ret's arguments. */
static bool match(struct search *search, uint32_t first, const struct et_kernel_sequence *sequence,
	struct et_plan_sequence *ret)
{
	const struct et_plan *plan = search->plan;
	bool is_found[ET_SEQUENCE_MAX] = { false };
	if (plan->spec->n_instructions - first < sequence->n)
		return false;
	for (uint32_t i = 0; i < sequence->n; i++) {
		const struct et_plan_instruction *call = &plan->instructions[first + i];
		const struct et_kernel *kernel = kernel_of(plan, call);
		uint32_t k = 0;
		while (kernel && k < sequence->n && (is_found[k] || strcmp(sequence->names[k], kernel->name)))
			k++;
		bool is_last = i == sequence->n - 1;
		if (!kernel || k == sequence->n || (k == sequence->n - 1) != is_last || call->n_checks ||
			call->may_alias || call->has_view)
			return false;
		is_found[k] = true;
		ret->first_args[k] = call->first_arg;
	}
	search->is_private = true;
	for (uint32_t i = 0; i + 1 < sequence->n; i++)
		et_plan_visit(plan, &plan->instructions[first + i], ET_ACCESS_WRITE, check_private, search);
	return search->is_private;
}

static enum et_status find_all(struct search *search, struct et_diag *diag)
{
	struct et_plan *plan = search->plan;
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++)
		et_plan_visit(plan, &plan->instructions[i], ET_ACCESS_READ | ET_ACCESS_WRITE, count_use, search);
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_kernel *kernel = kernel_of(plan, &plan->instructions[i]);
		struct et_plan_sequence found = { .kernels = kernel ? kernel->sequence : NULL };
		if (!found.kernels || !match(search, i, found.kernels, &found))
			continue;
		struct et_plan_sequence *kept = ET_POOL_NEW(&plan->pool, struct et_plan_sequence);
		if (!kept)
			return et_plan_no_memory(diag);
		*kept = found;
		plan->instructions[i].sequence = kept;
		plan->info.n_sequences++;
	}
	return ET_OK;
}

enum et_status et_sequence_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct search search = { .plan = plan, .n_comparisons_left = MAX_COMPARISONS };
	bool has_first = false; /* a call with which a sequence begins */
	for (uint32_t i = 0; i < plan->spec->n_instructions; i++) {
		const struct et_kernel *kernel = kernel_of(plan, &plan->instructions[i]);
		has_first = has_first || (kernel && kernel->sequence);
		if (plan->instructions[i].op == ET_OP_JUMP_FALSE)
			return ET_OK;
	}
	if (!has_first)
		return ET_OK;
	for (uint32_t v = 0; v < plan->spec->n_values; v++)
		if (plan->values[v].is_borrowing)
			return ET_OK;
	struct et_pool scratch;
	et_pool_init(&scratch, allocator);
	search.n_uses = ET_POOL_NEW_ARRAY(&scratch, uint32_t, plan->spec->n_values);
	enum et_status status = search.n_uses ? find_all(&search, diag) : et_plan_no_memory(diag);
	et_pool_deinit(&scratch);
	return status;
}
