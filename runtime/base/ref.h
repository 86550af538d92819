/* SPDX-License-Identifier: BSD-3-Clause */
/* A reference count that any thread may change.
 *
 * Taking a reference needs no memory order: the caller already holds one. Dropping a reference releases what the
 * holder wrote; the thread that drops the last one acquires all of it before it destroys the object. */
#ifndef RUNTIME_BASE_REF_H
#define RUNTIME_BASE_REF_H

#include <stdatomic.h>
#include <stdbool.h>

struct et_ref {
	_Atomic(unsigned) n;
};

static inline void et_ref_init(struct et_ref *ref)
{
	atomic_init(&ref->n, 1);
}

static inline void et_ref_get(struct et_ref *ref)
{
	atomic_fetch_add_explicit(&ref->n, 1, memory_order_relaxed);
}

/* True if this was the last reference: the caller destroys the object. */
static inline bool et_ref_put(struct et_ref *ref)
{
	/* release: pairs with the acquire in the same operation by the last holder */
	return atomic_fetch_sub_explicit(&ref->n, 1, memory_order_acq_rel) == 1;
}

#endif
