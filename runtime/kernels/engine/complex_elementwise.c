/* SPDX-License-Identifier: BSD-3-Clause */
/* Complex numbers, element by element.
 *
 * ExecuTorch takes them in a handful of operators (add, sub, mul, div, abs, sum, bmm, cat, conversions and
 * view_as_real). The kernels of these operators, and of a few more that cost nothing extra, call this file for complex
 * types. Kernels that only move elements work on any type. A complex type has neither loader nor storer, so every
 * operator that is not prepared for it refuses it. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/kernels.h"

double complex et_element_get_complex(const void *element, enum et_scalar_type type)
{
	enum et_scalar_type real = et_real_type(type);
	const uint8_t *parts = element;
	if (real == type)
		return et_element_get_double(element, type);
	return CMPLX(et_element_get_double(parts, real), et_element_get_double(parts + et_scalar_size(real), real));
}

void et_element_set_complex(void *element, enum et_scalar_type type, double complex value)
{
	enum et_scalar_type real = et_real_type(type);
	uint8_t *parts = element;
	et_element_set_double(parts, real, creal(value));
	if (real != type)
		et_element_set_double(parts + et_scalar_size(real), real, cimag(value));
}

void et_view_parts(struct et_view *view)
{
	view->type = (uint8_t)et_real_type(view->type);
	for (size_t d = 0; d < view->n_dims; d++)
		view->strides[d] *= 2;
	et_view_insert(view, view->n_dims, 2, 1);
}

static bool is_number_type(enum et_scalar_type type)
{
	return et_loader(et_real_type(type), ET_F64) != NULL;
}

static const uint8_t *const_element(const struct et_view *view, int64_t offset)
{
	return view->data + offset * (int64_t)et_scalar_size(view->type);
}

static uint8_t *element(const struct et_view *view, int64_t offset)
{
	return view->data + offset * (int64_t)et_scalar_size(view->type);
}

void et_complex_apply(const struct et_compute *compute, et_complex_fn fn, const struct et_view *const *views,
	const double *numbers, size_t n_views)
{
	double complex operands[ET_SPAN_OPERANDS] = { 0 };
	const struct et_view *walked[ET_SPAN_OPERANDS + 1];
	struct et_walk walk;
	struct et_place place;
	for (size_t v = 0; v < n_views; v++) {
		walked[v] = views[v] ? views[v] : views[0];
		if (v > 0 && !views[v] && numbers)
			operands[v - 1] = numbers[v - 1];
	}
	et_walk_init(&walk, walked, n_views);
	et_place_seek(&place, &walk, 0);
	struct et_pace pace = { compute };
	for (size_t i = 0; i < walk.numel && !et_pace_must_stop(&pace, 16); i++) {
		for (size_t v = 1; v < n_views; v++) {
			if (views[v])
				operands[v - 1] = et_element_get_complex(const_element(views[v], place.offset[v]),
					views[v]->type);
		}
		et_element_set_complex(element(views[0], place.offset[0]), views[0]->type, fn(operands));
		et_place_advance(&place, &walk, 1);
	}
}

static double complex same(const double complex *in)
{
	return in[0];
}

enum et_status et_complex_cast(struct et_kernel_ctx *ctx, const struct et_view *to, const struct et_view *from)
{
	ET_REQUIRE(ctx, is_number_type(from->type) && is_number_type(to->type), "cannot convert %s to %s",
		et_scalar_name(from->type), et_scalar_name(to->type));
	et_complex_apply(ctx->compute, same, (const struct et_view *[]){ to, from }, NULL, 2);
	return ET_OK;
}

enum et_status et_complex_sum(struct et_kernel_ctx *ctx, const struct et_tensor *self, uint32_t set, bool keepdim,
	struct et_tensor *out)
{
	struct et_view from, to;
	struct et_walk walk;
	struct et_place place;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims = 0;
	ET_TRY(et_require_same_type(ctx, self, out));
	for (size_t d = 0; d < self->n_dims; d++) {
		if (!(set >> d & 1) || keepdim)
			sizes[n_dims++] = set >> d & 1 ? 1 : self->sizes[d];
	}
	ET_TRY(et_resize(ctx, out, sizes, n_dims));
	et_view_of(&from, self);
	et_view_of(&to, out);
	et_fill_many(ctx->compute, to.data, &(const uint8_t){ 0 }, et_tensor_n_bytes(out), 1);
	for (size_t d = 0; d < self->n_dims; d++) {
		if ((set >> d & 1) && keepdim)
			et_view_remove(&to, d);
		if (set >> d & 1)
			et_view_insert(&to, d, self->sizes[d], 0);
	}
	et_walk_init_in_order(&walk, (const struct et_view *[]){ &from, &to }, 2);
	struct et_pace pace = { ctx->compute };
	et_place_seek(&place, &walk, 0);
	for (size_t i = 0; i < walk.numel && !et_pace_must_stop(&pace, 1); i++) {
		uint8_t *sum = element(&to, place.offset[1]);
		et_element_set_complex(sum, to.type,
			et_element_get_complex(sum, to.type) +
				et_element_get_complex(const_element(&from, place.offset[0]), from.type));
		et_place_advance(&place, &walk, 1);
	}
	return ET_OK;
}

void et_complex_multiply(const struct et_compute *compute, const struct et_view *out, const struct et_view *a,
	const struct et_view *b)
{
	struct et_pace pace = { compute };
	for (int64_t i = 0; i < out->sizes[0]; i++) {
		for (int64_t j = 0; j < out->sizes[1]; j++) {
			double complex sum = 0;
			if (et_pace_must_stop(&pace, (size_t)a->sizes[1]))
				return;
			for (int64_t k = 0; k < a->sizes[1]; k++)
				sum += et_element_get_complex(const_element(a, i * a->strides[0] + k * a->strides[1]),
					       a->type) *
				       et_element_get_complex(const_element(b, k * b->strides[0] + j * b->strides[1]),
					       b->type);
			et_element_set_complex(element(out, i * out->strides[0] + j * out->strides[1]), out->type, sum);
		}
	}
}

/* view_as_real and view_as_complex; the first may convert the parts to another float type. */
static enum et_status run_view_as_real(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_view view;
	ET_REQUIRE(ctx, et_type_is_complex(self->type), "takes complex numbers, not %s", et_scalar_name(self->type));
	ET_REQUIRE(ctx, self->n_dims < ET_MAX_DIMS, "too many dimensions");
	ET_REQUIRE(ctx, et_type_is_float(args[1]->tensor->type), "an output of %s",
		et_scalar_name(args[1]->tensor->type));
	et_view_of(&view, self);
	et_view_parts(&view);
	return et_cast_view_to_output(ctx, &view, args[1]->tensor);
}

static enum et_status run_view_as_complex(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	struct et_tensor *out = args[1]->tensor;
	struct et_view from, to;
	ET_REQUIRE(ctx, self->n_dims > 0 && self->sizes[self->n_dims - 1] == 2, "takes pairs in the last dimension");
	ET_REQUIRE(ctx, et_type_is_complex(out->type) && et_real_type(out->type) == self->type,
		"%s does not make an output of %s", et_scalar_name(self->type), et_scalar_name(out->type));
	et_view_of(&from, self);
	ET_TRY(et_resize(ctx, out, from.sizes, (size_t)from.n_dims - 1));
	et_view_of(&to, out);
	et_view_parts(&to);
	et_view_copy(ctx->compute, &to, &from);
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::view_as_complex_copy.out", "T>T", run_view_as_complex },
	{ "aten::view_as_real_copy.out", "T>T", run_view_as_real },
};

ET_KERNEL_TABLE(complex_elementwise);
