/* SPDX-License-Identifier: BSD-3-Clause */
/* An optional step of making a Plan, for a registry with several delegates: see et_registry.order. It is not part of
 * the core library. */
#ifndef RUNTIME_DIM_ORDER_H
#define RUNTIME_DIM_ORDER_H

#include "runtime/plan.h"

/* Give tensors between delegates the dim order that all their users prefer.
 * Answers: ET_E_MEMORY_ALLOCATION_FAILED, what a delegate's take_orders answers. */
enum et_status et_order_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);

#endif
