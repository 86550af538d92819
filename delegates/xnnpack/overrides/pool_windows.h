/* SPDX-License-Identifier: BSD-3-Clause */
/* The windows of a pooling node over NHWC images. */
#ifndef DELEGATES_XNNPACK_OVERRIDES_POOL_WINDOWS_H
#define DELEGATES_XNNPACK_OVERRIDES_POOL_WINDOWS_H

#include "delegates/xnnpack/overrides/override.h"

/* [0] is down, [1] is across. */
struct et_xnn_pool_windows {
	size_t height, width, channels, out_height, out_width;
	size_t kernel[2], stride[2], pad[2];
	const void *in;
	void *out;
	float min, max;
};
struct et_xnn_pool_windows et_xnn_pool_windows(const struct et_xnn_override_run *run);
/* Call @rows(@arg, begin, end) for all output rows of all images, shared out among the worker's threads. */
void et_xnn_pool_windows_run(const struct et_xnn_override_run *run, void (*rows)(void *arg, size_t begin, size_t end),
	void *arg);
/* Whether a window of @node may lie wholly in the padding, which XNNPACK does not take. */
bool et_xnn_pool_is_padded_by_windows(const struct et_xnn_node *node);

#endif
