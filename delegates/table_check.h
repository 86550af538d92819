/* SPDX-License-Identifier: BSD-3-Clause */
/* Check the table that a delegate exports (struct inferd_delegate), and copy it into one of this version's size. */
#ifndef DELEGATES_TABLE_CHECK_H
#define DELEGATES_TABLE_CHECK_H

#include "delegates/inferd-delegate.h"

#include <stddef.h>

enum { ET_TABLE_MAX_KERNELS = 256 };

/* Copy the table @from into *ret_table. Members that an earlier minor version does not have become NULL; members of a
 * later one are left out. No function of the table is called. 0; or -1 with a sentence in @text if the table can't be
 * used. */
int et_table_copy(struct inferd_delegate *ret_table, const struct inferd_delegate *from, char *text, size_t room);

#endif
