/* SPDX-License-Identifier: BSD-3-Clause */
/* A step in making a Plan, for whoever has several delegates: see et_registry. */
#ifndef RUNTIME_DIM_ORDER_H
#define RUNTIME_DIM_ORDER_H

#include "runtime/plan.h"

/* What lies between delegates that want it otherwise than the program says lies so. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_order_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);

#endif
