/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory comes from malloc, so that the sanitizers see each allocation by itself. */
#include "tests/support/counting_alloc.h"

#include <stdlib.h>
#include <string.h>

static void *counting_alloc(void *self, size_t n_bytes, size_t align)
{
	struct counting_alloc *counting = self;
	size_t n = ++counting->n_calls;
	if (counting->fail_at && (counting->fails_once ? n == counting->fail_at : n >= counting->fail_at))
		return NULL;
	if (n_bytes > (size_t)1 << 32)
		return NULL; /* a hostile file must not make a test thrash */
	void *ptr = NULL;
	if (posix_memalign(&ptr, align < sizeof(void *) ? sizeof(void *) : align, n_bytes ? n_bytes : 1))
		return NULL;
	if (counting->fill)
		memset(ptr, counting->fill, n_bytes);
	counting->n_live++;
	counting->n_live_bytes += n_bytes;
	if (counting->n_live_bytes > counting->n_peak_bytes)
		counting->n_peak_bytes = counting->n_live_bytes;
	return ptr;
}

static void counting_free(void *self, void *ptr, size_t n_bytes)
{
	struct counting_alloc *counting = self;
	if (!ptr)
		return;
	counting->n_live--;
	counting->n_live_bytes -= n_bytes;
	free(ptr);
}

struct et_allocator counting_allocator(struct counting_alloc *counting)
{
	return (struct et_allocator){ .self = counting, .alloc = counting_alloc, .free = counting_free };
}
