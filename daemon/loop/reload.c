/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the configuration again.
 *
 * Some settings change while requests run: limits, users, models, keep-alive, stall, memory budget, log level. For
 * all others the log says that they need a restart. A faulty configuration changes nothing. The service manager
 * waits for the end of the reload, so it is told in either case. */
#include "daemon/loop/reload.h"

#include "daemon/client/quota.h"
#include "daemon/context.h"
#include "daemon/loop/notify.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

/* The user of a [user] section: a uid in digits, or a name. */
static bool find_user(const char *name, uid_t *ret_uid)
{
	const struct passwd *user;
	if (name[strspn(name, "0123456789")]) {
		user = getpwnam(name);
		*ret_uid = user ? user->pw_uid : 0;
		return user;
	}
	unsigned long long uid = strtoull(name, NULL, 10);
	*ret_uid = (uid_t)uid;
	return uid < (uid_t)-1; /* -1 is no user: chown(2) */
}

void inf_reload_limits(struct inf_context *context)
{
	const struct inf_config *config = &context->config;
	struct inf_quota_rule *rules = calloc(config->n_user_sections + 1, sizeof(*rules));
	uint32_t n = 0;
	for (uint32_t i = 0; i < config->n_user_sections && rules; i++) {
		const struct inf_config_user *section = &config->user_sections[i];
		uid_t uid;
		if (!find_user(section->name, &uid)) {
			et_logf(&context->log, ET_LOG_WARNING, "[user %s]: there is no such user; ignoring the section",
				section->name);
			continue;
		}
		rules[n++] = (struct inf_quota_rule){ uid, section };
	}
	struct inf_quota_rule *before = context->quota->rules;
	struct inf_quota_machine machine = context->quota->machine;
	machine.n_model_bytes = config->memory_budget;
	inf_quota_configure(context->quota, &config->limits, rules, n);
	inf_quota_divide(context->quota, &machine);
	free(before);
}

/* Whether @fresh differs from @now in a setting that is used only when the daemon starts. */
static bool needs_restart(const struct inf_config *now, const struct inf_config *fresh)
{
	struct inf_config merged; /* @fresh, with what can change as in @now */
	memcpy(&merged, fresh, sizeof(merged));
	merged.limits = now->limits;
	merged.keep_alive_ns = now->keep_alive_ns;
	merged.stall_ns = now->stall_ns;
	merged.memory_budget = now->memory_budget;
	merged.log_level = now->log_level;
	merged.model_sections = now->model_sections;
	merged.n_model_sections = now->n_model_sections;
	merged.user_sections = now->user_sections;
	merged.n_user_sections = now->n_user_sections;
	merged.backend_sections = now->backend_sections;
	return memcmp(&merged, now, sizeof(merged)) ||
	       (now->n_backend_sections && memcmp(now->backend_sections, fresh->backend_sections,
						   now->n_backend_sections * sizeof(*now->backend_sections)));
}

void inf_reload(struct inf_context *context, int (*load)(struct inf_config *ret_config))
{
	struct inf_config fresh;
	inf_notify_reloading();
	if (!load || load(&fresh) < 0) {
		et_logf(&context->log, ET_LOG_WARNING, "keeping the configuration as it was");
		inf_notify_ready("The configuration is faulty and stays as it was; the log says why");
		return;
	}
	struct inf_config *config = &context->config;
	bool is_complete = !needs_restart(config, &fresh);
	config->limits = fresh.limits;
	config->keep_alive_ns = fresh.keep_alive_ns;
	config->stall_ns = fresh.stall_ns;
	config->memory_budget = fresh.memory_budget;
	config->log_level = fresh.log_level;
	__atomic_store_n(&context->log.max_level, (enum et_log_level)fresh.log_level, __ATOMIC_RELAXED);
	free(config->model_sections);
	free(fresh.backend_sections); /* these need a restart */
	free(config->user_sections);
	config->model_sections = fresh.model_sections;
	config->n_model_sections = fresh.n_model_sections;
	config->user_sections = fresh.user_sections;
	config->n_user_sections = fresh.n_user_sections;
	inf_reload_limits(context);
	inf_repository_reconfigured(context->repository);
	const char *done = is_complete ? "configuration read again"
				       : "configuration read again; some of what changed needs a restart";
	et_logf(&context->log, ET_LOG_NOTICE, "%s", done);
	inf_notify_ready(done);
}
