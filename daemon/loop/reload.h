/* SPDX-License-Identifier: BSD-3-Clause */
/* Reload: reading the configuration again while the daemon runs. Loop thread. */
#ifndef DAEMON_LOOP_RELOAD_H
#define DAEMON_LOOP_RELOAD_H

#include "runtime/base/log.h"

#include <stdint.h>

struct inf_config;
struct inf_config_error;
struct inf_context;
struct inf_quota_rule;

/* Read the configuration with @load (0, or negative: it is faulty, with a sentence; NULL: always faulty) and use what
 * can change. context->reload_note says what is left to do, until the next reload. */
void inf_reload(struct inf_context *context,
	int (*load)(struct inf_config *ret_config, struct inf_config_error *ret_error));
/* Look up the users and groups of the sections [user NAME] and [group NAME]. A section whose name nobody has is logged
 * and left out. *ret_n rules in heap memory, which point into @config; NULL: no memory. */
struct inf_quota_rule *inf_reload_rules(const struct inf_config *config, const struct et_log *log, uint32_t *ret_n);
/* Look up the users and groups of the configuration, and apply who may do what and all limits. context->access and
 * context->quota->rules are owned by the context: free them after the quota. -ENOMEM: everything is as it was. */
int inf_reload_users(struct inf_context *context, const struct inf_config *config);

#endif
