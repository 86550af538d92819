/* Operators that draw random numbers: rand, randn, dropout.
 *
 * Nothing in here may ask the system for anything, so the generator (SplitMix64) starts from what differs between
 * processes and calls without asking: a count of calls, and addresses, which the system places at random. Good
 * enough for noise and for dropout, and never meant for secrets. */
#include "runtime/kernels/args.h"
#include "runtime/kernels/kernels.h"

#include <math.h>
#include <stdatomic.h>

struct generator {
	uint64_t state;
};

static uint64_t next(struct generator *g)
{
	uint64_t z = g->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void start(struct generator *g, const void *data)
{
	static _Atomic(uint64_t) n_calls;
	uint64_t call = atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
	g->state = call * 0xd1342543de82ef95u ^ (uint64_t)(uintptr_t)g ^ (uint64_t)(uintptr_t)data << 20 ^
		   (uint64_t)(uintptr_t)&n_calls << 40;
	next(g);
}

/* In [0, 1). */
static double uniform(struct generator *g)
{
	return (double)(next(g) >> 11) * 0x1p-53;
}

/* By Box and Muller. */
static double normal(struct generator *g)
{
	double radius = sqrt(-2 * log(1 - uniform(g)));
	return radius * cos(2 * 3.14159265358979323846 * uniform(g));
}

static enum et_status draw(
	struct et_kernel_ctx *ctx, struct et_evalue *const *args, double (*distribution)(struct generator *))
{
	struct et_tensor *out = args[1]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	size_t n = et_list_len(args[0]);
	struct generator g;
	ET_REQUIRE(ctx, n <= ET_MAX_DIMS, "%zu dimensions", n);
	ET_REQUIRE(ctx, et_type_is_float(out->type), "an output of %s", et_scalar_name(out->type));
	for (size_t d = 0; d < n; d++)
		sizes[d] = et_list_int(args[0], d);
	ET_TRY(et_resize(ctx, out, sizes, n));
	start(&g, out->data);
	for (size_t i = 0; i < et_tensor_numel(out); i++)
		et_element_set_double(
			(uint8_t *)out->data + i * et_element_bytes(out), out->type, distribution(&g));
	return ET_OK;
}

static enum et_status run_rand(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return draw(ctx, args, uniform);
}

static enum et_status run_randn(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return draw(ctx, args, normal);
}

/* self, probability, train or None > out, mask */
static enum et_status run_dropout(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[3]->tensor, *mask = args[4]->tensor;
	double p = args[1]->d;
	bool drops = (et_is_none(args[2]) || args[2]->b) && p != 0;
	struct et_view from, to;
	struct generator g;
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_TRY(et_require_type(ctx, mask, ET_BOOL, "the mask"));
	ET_REQUIRE(ctx, et_type_is_float(self->type), "does not take %s", et_scalar_name(self->type));
	ET_REQUIRE(ctx, p >= 0 && p <= 1, "a probability of %g", p);
	ET_TRY(et_resize_like(ctx, mask, self));
	ET_TRY(et_resize_like(ctx, out, self));
	ET_REQUIRE(ctx,
		memcmp(self->dim_order, out->dim_order, self->n_dims) == 0 &&
			memcmp(self->dim_order, mask->dim_order, self->n_dims) == 0,
		"the tensors differ in dim order");
	et_view_of(&from, self);
	ET_TRY(et_give_view(ctx, &from, out));
	et_view_of(&to, out);
	if (!drops) {
		if (et_tensor_numel(mask))
			memset(mask->data, 1, et_tensor_numel(mask));
		return ET_OK;
	}
	start(&g, out->data);
	for (size_t i = 0; i < et_tensor_numel(out); i++) {
		uint8_t *element = to.data + i * et_element_bytes(out);
		bool stays = uniform(&g) >= p;
		((uint8_t *)mask->data)[i] = stays;
		if (!stays)
			et_element_set_double(element, out->type, 0);
		else
			et_element_set_double(
				element, out->type, et_element_get_double(element, out->type) / (1 - p));
	}
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::native_dropout.out", "TDb>TT", run_dropout },
	{ "aten::rand.out", "V>T", run_rand },
	{ "aten::randn.out", "V>T", run_randn },
};

ET_KERNEL_TABLE(random);
