/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether other processes use the cores now. How many this process may use: et_platform_n_cores. */
#ifndef IPC_CORES_H
#define IPC_CORES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether so many other threads run now, or want to, that @n_wanted threads which wait for each other would wait for
 * cores, too. One small read of /proc/loadavg, some microseconds; false if that is not possible. Any thread. */
bool inf_cores_are_busy(uint32_t n_wanted);

/* The same answer as inf_cores_are_busy from the text of /proc/loadavg, on a machine of @n_online cores. */
bool inf_cores_are_busy_by(const char *loadavg, uint32_t n_online, uint32_t n_wanted);

#endif
