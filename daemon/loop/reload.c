/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the configuration again.
 *
 * What can change while requests run does so: limits, users, models, keep-alive, stall, budget, the log's level. For the
 * rest the log says that it takes a restart. A faulty configuration changes nothing, and the service manager is told in
 * either case that the reload is over: it waits for that. */
#include "daemon/loop/reload.h"

#include "daemon/loop/notify.h"
#include "daemon/loop/server.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

/* Who a [user] section is for: a uid in digits, or a name. */
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
	return uid < (uid_t)-1; /* which is nobody's: chown(2) */
}

/* The users of the [user] sections looked up. */
void inf_reload_limits(struct inf_server *server)
{
	const struct inf_config *config = &server->config;
	struct inf_quota_rule *rules = calloc(config->n_user_sections + 1, sizeof(*rules));
	uint32_t n = 0;
	for (uint32_t i = 0; i < config->n_user_sections && rules; i++) {
		const struct inf_config_user *section = &config->user_sections[i];
		uid_t uid;
		if (!find_user(section->name, &uid)) {
			et_logf(&server->log, ET_LOG_WARNING, "[user %s]: there is no such user; ignoring the section",
				section->name);
			continue;
		}
		rules[n++] = (struct inf_quota_rule){ uid, section };
	}
	inf_quota_configure(&server->quota, &config->limits, rules, n);
	free(server->rules);
	server->rules = rules;
}

/* Whether @fresh says something new about what is decided when the daemon starts. */
static bool needs_restart(const struct inf_config *now, const struct inf_config *fresh)
{
	struct inf_config now_again;
	memcpy(&now_again, fresh, sizeof(now_again));
	now_again.limits = now->limits;
	now_again.keep_alive_ns = now->keep_alive_ns;
	now_again.stall_ns = now->stall_ns;
	now_again.memory_budget = now->memory_budget;
	now_again.log_level = now->log_level;
	now_again.model_sections = now->model_sections;
	now_again.n_model_sections = now->n_model_sections;
	now_again.user_sections = now->user_sections;
	now_again.n_user_sections = now->n_user_sections;
	now_again.backend_sections = now->backend_sections;
	return memcmp(&now_again, now, sizeof(now_again)) ||
	       (now->n_backend_sections && memcmp(now->backend_sections, fresh->backend_sections,
						   now->n_backend_sections * sizeof(*now->backend_sections)));
}

void inf_reload(struct inf_server *server)
{
	struct inf_config fresh;
	inf_notify_reloading();
	if (!server->reload || server->reload(server, &fresh) < 0) {
		et_logf(&server->log, ET_LOG_WARNING, "keeping the configuration as it was");
		/* The service manager waits for this whatever became of it. */
		inf_notify_ready("The configuration is faulty and stays as it was; the log says why");
		return;
	}
	struct inf_config *config = &server->config;
	bool is_all = !needs_restart(config, &fresh);
	config->limits = fresh.limits;
	config->keep_alive_ns = fresh.keep_alive_ns;
	config->stall_ns = fresh.stall_ns;
	config->memory_budget = fresh.memory_budget;
	config->log_level = fresh.log_level;
	__atomic_store_n(&server->log.max_level, (enum et_log_level)fresh.log_level, __ATOMIC_RELAXED);
	free(config->model_sections);
	free(fresh.backend_sections); /* needs a restart */
	free(config->user_sections);
	config->model_sections = fresh.model_sections;
	config->n_model_sections = fresh.n_model_sections;
	config->user_sections = fresh.user_sections;
	config->n_user_sections = fresh.n_user_sections;
	inf_reload_limits(server);
	inf_repository_reconfigured(server->repository);
	const char *done = is_all ? "configuration read again"
				  : "configuration read again; some of what changed needs a restart";
	et_logf(&server->log, ET_LOG_NOTICE, "%s", done);
	inf_notify_ready(done);
}
