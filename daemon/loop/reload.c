/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the configuration again.
 *
 * Some settings change while requests run: limits, users, groups, models, keep-alive, stall, dead_queue, memory budget,
 * log level, and who may do what. For all others the log and the service manager's status name the keys that need a
 * restart. A faulty configuration changes nothing. The service manager waits for the end of the reload, so it is told
 * in either case, and its status goes on saying so until a reload succeeds. What a client has open stays open, whatever
 * it may do from now on. */
#include "daemon/loop/reload.h"

#include "daemon/base/names.h"
#include "daemon/base/text.h"
#include "daemon/client/access.h"
#include "daemon/client/quota.h"
#include "daemon/client/session.h"
#include "daemon/context.h"
#include "daemon/loop/notify.h"
#include "runtime/base/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Append a rule for each of the @n @sections whose name means somebody. */
static void add_rules(struct inf_quota_rule *rules, uint32_t *n_rules, const struct inf_config_user *sections,
	uint32_t n, bool are_groups, const struct et_log *log)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *name = sections[i].name;
		struct inf_quota_rule rule = { 0, &sections[i], are_groups };
		if (are_groups ? inf_find_group(name, &rule.id) : inf_find_user(name, &rule.id))
			rules[(*n_rules)++] = rule;
		else
			et_logf(log, ET_LOG_WARNING, "[%s %s]: there is no such %s; ignoring the section",
				are_groups ? "group" : "user", name, are_groups ? "group" : "user");
	}
}

struct inf_quota_rule *inf_reload_rules(const struct inf_config *config, const struct et_log *log, uint32_t *ret_n)
{
	struct inf_quota_rule *rules = calloc(config->n_user_sections + config->n_group_sections + 1, sizeof(*rules));
	*ret_n = 0;
	if (!rules)
		return NULL;
	add_rules(rules, ret_n, config->user_sections, config->n_user_sections, false, log);
	add_rules(rules, ret_n, config->group_sections, config->n_group_sections, true, log);
	return rules;
}

int inf_reload_users(struct inf_context *context, const struct inf_config *config)
{
	struct inf_access *access = inf_access_new(config, &context->log);
	uint32_t n;
	struct inf_quota_rule *rules = inf_reload_rules(config, &context->log, &n);
	if (!access || !rules) {
		inf_access_free(access);
		free(rules);
		return -ENOMEM;
	}
	struct inf_quota_rule *before = context->quota->rules;
	struct inf_quota_machine machine = context->quota->machine;
	machine.n_model_bytes = config->memory_budget;
	inf_access_free(context->access);
	context->access = access;
	inf_quota_configure(context->quota, &config->limits, rules, n);
	inf_quota_divide(context->quota, &machine);
	free(before);
	if (!inf_quota_has_groups(context->quota))
		return 0;
	for (struct et_list_node *node = context->sessions.next; node != &context->sessions; node = node->next) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		struct inf_access_peer peer = inf_access_peer_of(s);
		inf_quota_add_groups(s->user, peer.gids, peer.n_gids);
	}
	return 0;
}

/* Move what can change from @fresh into the configuration, and free the rest of it. */
static void use(struct inf_context *context, struct inf_config *fresh)
{
	struct inf_config *config = &context->config;
	config->limits = fresh->limits;
	config->keep_alive_ns = fresh->keep_alive_ns;
	config->stall_ns = fresh->stall_ns;
	config->dead_queue_ns = fresh->dead_queue_ns;
	config->memory_budget = fresh->memory_budget;
	config->log_level = fresh->log_level;
	config->users = fresh->users;
	config->groups = fresh->groups;
	config->administrators = fresh->administrators;
	__atomic_store_n(&context->log.max_level, (enum et_log_level)fresh->log_level, __ATOMIC_RELAXED);
	free(config->model_sections);
	free(fresh->backend_sections); /* these need a restart */
	free(config->user_sections);
	free(config->group_sections);
	config->model_sections = fresh->model_sections;
	config->user_sections = fresh->user_sections;
	config->group_sections = fresh->group_sections;
	config->n_model_sections = fresh->n_model_sections;
	config->n_user_sections = fresh->n_user_sections;
	config->n_group_sections = fresh->n_group_sections;
}

void inf_reload(struct inf_context *context,
	int (*load)(struct inf_config *ret_config, struct inf_config_error *ret_error))
{
	struct inf_config fresh;
	struct inf_config_error error = { "it can't be read again" };
	char keys[200], *note = context->reload_note;
	const size_t room = sizeof(context->reload_note);
	inf_notify_reloading();
	int rc = load ? load(&fresh, &error) : -EINVAL;
	if (rc == 0 && (rc = inf_reload_users(context, &fresh)) < 0) {
		inf_text(error.text, sizeof(error.text), "out of memory");
		inf_config_deinit(&fresh);
	}
	if (rc < 0) {
		et_logf(&context->log, ET_LOG_WARNING, "keeping the configuration as it was");
		inf_text(note, room, "The configuration is faulty and stays as it was: %s", error.text);
		for (char *at = note; (at = strchr(at, '\n'));) /* of a file's name: a status is one line */
			*at = '?';
		inf_notify_ready(note);
		return;
	}
	note[0] = '\0';
	if (inf_config_needs_restart(&context->config, &fresh, keys, sizeof(keys)))
		inf_text(note, room, "Changed, but used only after a restart: %s", keys);
	use(context, &fresh);
	inf_repository_reconfigured(context->repository);
	et_logf(&context->log, ET_LOG_NOTICE, "configuration read again%s%s",
		note[0] ? "; changed, but used only after a restart: " : "", note[0] ? keys : "");
	inf_notify_ready(note[0] ? note : "configuration read again");
}
