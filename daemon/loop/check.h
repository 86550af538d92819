/* SPDX-License-Identifier: BSD-3-Clause */
/* Check: what a configuration names and the machine does not have. */
#ifndef DAEMON_LOOP_CHECK_H
#define DAEMON_LOOP_CHECK_H

#include "config/config.h"
#include "runtime/base/log.h"

#include <stdint.h>

/* Look for users, groups, models and files that @config names. What is missing goes to @log: a warning where the
 * daemon serves without it, an error where it cannot do what the key asks for. Returns the number of errors. Slow. */
uint32_t inf_check(const struct inf_config *config, const struct et_log *log);

#endif
