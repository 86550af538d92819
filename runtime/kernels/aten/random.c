/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that draw random numbers: rand, randn, dropout.
 *
 * Kernels may not ask the system for anything. So the generator (SplitMix64) is seeded with what differs between
 * processes and calls: a count of calls, and addresses, which the system randomizes. That is good enough for noise and
 * dropout; it must never be used for secrets. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/simd/ukernels.h"
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

enum { BLOCK = 256 };

/* Uniform in [0, 1). */
static double uniform(struct generator *g)
{
	return (double)(int64_t)(next(g) >> 11) * 0x1p-53;
}

/* Draws a block of @n numbers of @compute_class, ET_F32 or ET_F64. */
typedef void (*distribution_fn)(struct generator *g, enum et_compute_class compute_class, void *numbers, size_t n);

static void draw_uniform(struct generator *g, enum et_compute_class compute_class, void *numbers, size_t n)
{
	for (size_t i = 0; compute_class == ET_F64 && i < n; i++)
		((double *)numbers)[i] = uniform(g);
	/* A float has room for 24 random bits only; more would round up to 1. */
	for (size_t i = 0; compute_class == ET_F32 && i < n; i++)
		((float *)numbers)[i] = (float)(int32_t)(next(g) >> 40) * 0x1p-24f;
}

/* Box and Muller's method: two uniform numbers give two normal ones. */
static void draw_normal_floats(struct generator *g, float *numbers, size_t n)
{
	float radius[BLOCK / 2], angle[BLOCK / 2], sine[BLOCK / 2];
	const size_t n_pairs = (n + 1) / 2;
	for (size_t i = 0; i < n_pairs; i++) {
		radius[i] = (float)(1 - uniform(g));
		angle[i] = (float)(2 * 3.14159265358979323846 * uniform(g));
	}
	et_ukernels()->each_log(n_pairs, radius, radius);
	et_ukernels()->each_sin(n_pairs, sine, angle);
	et_ukernels()->each_cos(n_pairs, angle, angle);
	for (size_t i = 0; i < n_pairs; i++)
		radius[i] = sqrtf(-2 * radius[i]);
	for (size_t i = 0; i < n_pairs; i++)
		numbers[i] = radius[i] * angle[i];
	for (size_t i = 0; i < n - n_pairs; i++)
		numbers[n_pairs + i] = radius[i] * sine[i];
}

/* Marsaglia's polar method, which needs no angle. */
static void draw_normal_doubles(struct generator *g, double *numbers, size_t n)
{
	for (size_t i = 0; i < n; i += 2) {
		double x, y, square;
		do {
			x = 2 * uniform(g) - 1;
			y = 2 * uniform(g) - 1;
			square = x * x + y * y;
		} while (square >= 1 || square == 0);
		double factor = sqrt(-2 * log(square) / square);
		numbers[i] = x * factor;
		if (i + 1 < n)
			numbers[i + 1] = y * factor;
	}
}

static void draw_normal(struct generator *g, enum et_compute_class compute_class, void *numbers, size_t n)
{
	if (compute_class == ET_F32)
		draw_normal_floats(g, numbers, n);
	else
		draw_normal_doubles(g, numbers, n);
}

static enum et_status draw(struct et_kernel_ctx *ctx, struct et_evalue *const *args, distribution_fn distribution)
{
	struct et_tensor *out = args[1]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	size_t n = et_list_len(args[0]);
	struct generator g;
	double numbers[BLOCK];
	ET_REQUIRE(ctx, n <= ET_MAX_DIMS, "%zu dimensions", n);
	ET_REQUIRE(ctx, et_type_is_float(out->type), "an output of %s", et_scalar_name(out->type));
	for (size_t d = 0; d < n; d++)
		sizes[d] = et_list_int(args[0], d);
	ET_TRY(et_resize(ctx, out, sizes, n));
	start(&g, out->data);
	enum et_compute_class compute_class = et_class_of(out->type);
	et_store_fn store = et_storer(out->type, compute_class);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0, part, numel = et_tensor_numel(out); i < numel && !et_pace_must_stop(&pace, 64); i += part) {
		part = numel - i < BLOCK ? numel - i : BLOCK;
		distribution(&g, compute_class, numbers, part);
		store((uint8_t *)out->data + i * et_element_bytes(out), 1, numbers, part);
	}
	return ET_OK;
}

static enum et_status run_rand(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return draw(ctx, args, draw_uniform);
}

static enum et_status run_randn(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return draw(ctx, args, draw_normal);
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
	ET_TRY(et_copy_view_to_output(ctx, &from, out));
	et_view_of(&to, out);
	if (!drops) {
		et_fill_many(ctx->compute, mask->data, &(const uint8_t){ 1 }, et_tensor_numel(mask), 1);
		return ET_OK;
	}
	start(&g, out->data);
	et_load_fn load = et_loader(out->type, ET_F64);
	et_store_fn store = et_storer(out->type, ET_F64);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0, part, numel = et_tensor_numel(out); i < numel && !et_pace_must_stop(&pace, 64); i += part) {
		double numbers[BLOCK], draws[BLOCK];
		uint8_t *elements = to.data + i * et_element_bytes(out), *stays = (uint8_t *)mask->data + i;
		part = numel - i < BLOCK ? numel - i : BLOCK;
		draw_uniform(&g, ET_F64, draws, part);
		load(numbers, elements, 1, part);
		for (size_t k = 0; k < part; k++)
			stays[k] = draws[k] >= p;
		for (size_t k = 0; k < part; k++)
			numbers[k] = draws[k] >= p ? numbers[k] / (1 - p) : 0;
		store(elements, 1, numbers, part);
	}
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::native_dropout.out", "TDb>TT", run_dropout },
	{ "aten::rand.out", "V>T", run_rand },
	{ "aten::randn.out", "V>T", run_randn },
};

ET_KERNEL_TABLE(random);
