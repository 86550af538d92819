/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading layouts.
 *
 * What must always be true: sizes of a layout can be multiplied without overflow, and its arrays have as many
 * entries as it has dimensions. The tensor's bytes are not read here; each file format stores them elsewhere. */
#include "runtime/program/layout.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

bool et_layout_read(struct et_fb *fb, struct et_fb_table table, const struct et_layout_fields *fields,
	enum et_status status, struct et_pool *pool, struct et_layout *ret)
{
	struct et_fb_vector sizes = et_fb_vector(fb, table, fields->sizes, 4);
	struct et_fb_vector order = et_fb_vector(fb, table, fields->dim_order, 1);
	int8_t type = et_fb_i8(fb, table, fields->type, 0);
	size_t n_item = type < 0 ? 0 : et_scalar_size((enum et_scalar_type)type), numel, n_bytes;
	if (n_item == 0)
		et_fb_fail(fb, ET_E_NOT_SUPPORTED, "scalar type %d (%s) is not supported", type,
			et_scalar_name((enum et_scalar_type)type));
	else if (sizes.n > ET_MAX_DIMS)
		et_fb_fail(fb, status, "the tensor has %u dimensions, %d are the most", sizes.n, ET_MAX_DIMS);
	else if (order.n != sizes.n)
		et_fb_fail(fb, status, "%u dimensions, but a dim order of %u", sizes.n, order.n);
	/* sizes and dim order in one allocation */
	int32_t *own_sizes = et_fb_array(fb, pool, sizes.n, sizeof *own_sizes + sizeof(uint8_t));
	if (!own_sizes)
		return false;
	uint8_t *own_order = (uint8_t *)(own_sizes + sizes.n);
	et_fb_u32s(fb, sizes, (uint32_t *)own_sizes);
	for (uint32_t i = 0; i < sizes.n; i++) {
		own_order[i] = order.items[i];
		if (own_sizes[i] < 0)
			et_fb_fail(fb, status, "size %d in dimension %u", own_sizes[i], i);
	}
	if (!et_dim_order_is_valid(own_order, sizes.n))
		et_fb_fail(fb, status, "the dim order is no permutation of its %u dimensions", sizes.n);
	else if (!et_sizes_are_addressable(own_sizes, own_order, sizes.n, &numel) || !et_mul(numel, n_item, &n_bytes) ||
		 n_bytes > PTRDIFF_MAX)
		et_fb_fail(fb, status, "its sizes are absurd: their product overflows");
	else
		*ret = (struct et_layout){ (uint8_t)type, (uint8_t)sizes.n, own_sizes, own_order, n_bytes };
	return et_fb_status(fb) == ET_OK;
}
