/* SPDX-License-Identifier: BSD-3-Clause */
/* Reload: reading the configuration again while the daemon runs. Loop thread. */
#ifndef DAEMON_LOOP_RELOAD_H
#define DAEMON_LOOP_RELOAD_H

struct inf_config;
struct inf_context;

/* Read the configuration with @load (0, or negative: it is faulty; NULL: always faulty) and use what can change. */
void inf_reload(struct inf_context *context, int (*load)(struct inf_config *ret_config));
/* Look up the users of the configuration's [user] sections, and apply all limits. context->quota->rules are owned
 * by the context: free them after the quota. */
void inf_reload_limits(struct inf_context *context);

#endif
