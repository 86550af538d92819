/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of users and groups, and the questions about them.
 *
 * What must always be true: a list that is given lets in those whom it names and nobody else, also if none of its
 * names means anybody. root is let in by every list, since root can change the configuration.
 *
 * Groups are read from the socket when a question comes. Keeping them would take memory that nobody is charged for: a
 * process may be in 65536 groups, and a user may have many connections. */
#include "daemon/client/access.h"

#include "daemon/base/names.h"
#include "daemon/base/text.h"
#include "daemon/client/session.h"
#include "daemon/context.h"
#include "runtime/base/checked.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- lists ---------------------------------------------------------------------------------------- */

static size_t count(const struct inf_config_names *names)
{
	char name[INF_CONFIG_NAME_MAX];
	size_t n = 0;
	for (const char *at = names->text; inf_config_next_name(&at, name);)
		n++;
	return n;
}

/* Add what @names means to @list, which has room. The log names @section and @key. */
static void add(struct inf_access_list *list, const struct inf_config_names *names, bool are_groups,
	const char *section, const char *key, const struct et_log *log)
{
	char name[INF_CONFIG_NAME_MAX];
	for (const char *at = names->text; inf_config_next_name(&at, name);) {
		bool is_group = are_groups || name[0] == '@';
		const char *plain = name[0] == '@' ? name + 1 : name;
		if (is_group ? inf_find_group(plain, &list->gids[list->n_gids])
			     : inf_find_user(plain, &list->uids[list->n_uids]))
			*(is_group ? &list->n_gids : &list->n_uids) += 1;
		else
			et_logf(log, ET_LOG_WARNING, "[%s] %s: there is no %s '%s'; it lets nobody in", section, key,
				is_group ? "group" : "user", plain);
	}
}

/* @groups may be NULL: groups are among @users, with '@'. False: no memory. */
static bool fill(struct inf_access_list *list, const struct inf_config_names *users,
	const struct inf_config_names *groups, const char *section, const char *users_key, const struct et_log *log)
{
	size_t n = count(users) + (groups ? count(groups) : 0);
	list->is_given = n > 0;
	if (!n)
		return true;
	list->uids = calloc(n, sizeof(*list->uids));
	list->gids = calloc(n, sizeof(*list->gids));
	if (!list->uids || !list->gids)
		return false;
	add(list, users, false, section, users_key, log);
	if (groups)
		add(list, groups, true, section, "groups", log);
	return true;
}

static void list_deinit(struct inf_access_list *list)
{
	free(list->uids);
	free(list->gids);
}

static bool has(const struct inf_access_list *list, const struct inf_access_peer *peer)
{
	if (peer->uid == 0)
		return true;
	for (size_t i = 0; i < list->n_uids; i++)
		if (list->uids[i] == peer->uid)
			return true;
	for (size_t i = 0; i < list->n_gids; i++)
		for (size_t k = 0; k < peer->n_gids; k++)
			if (list->gids[i] == peer->gids[k])
				return true;
	return false;
}

/* --- life ----------------------------------------------------------------------------------------- */

static bool fill_all(struct inf_access *access, const struct inf_config *config, const struct et_log *log)
{
	if (!fill(&access->clients, &config->users, &config->groups, "server", "users", log) ||
		!fill(&access->administrators, &config->administrators, NULL, "server", "administrators", log))
		return false;
	for (uint32_t i = 0; i < config->n_model_sections; i++) {
		const struct inf_config_model *section = &config->model_sections[i];
		struct inf_access_model *m = &access->models[access->n_models];
		char name[INF_CONFIG_NAME_MAX + 8];
		if (!section->users.text[0] && !section->groups.text[0])
			continue;
		access->n_models++;
		memcpy(m->name, section->name, sizeof(m->name));
		inf_text(name, sizeof(name), "model %s", section->name);
		if (!fill(&m->openers, &section->users, &section->groups, name, "users", log))
			return false;
	}
	return true;
}

struct inf_access *inf_access_new(const struct inf_config *config, const struct et_log *log)
{
	struct inf_access *access = calloc(1, sizeof(*access));
	if (!access)
		return NULL;
	access->models = calloc(config->n_model_sections + 1, sizeof(*access->models));
	if (!access->models || !fill_all(access, config, log))
		return inf_access_free(access);
	return access;
}

struct inf_access *inf_access_free(struct inf_access *access)
{
	if (!access)
		return NULL;
	for (size_t i = 0; i < access->n_models; i++)
		list_deinit(&access->models[i].openers);
	list_deinit(&access->clients);
	list_deinit(&access->administrators);
	free(access->models);
	free(access);
	return NULL;
}

/* --- questions ------------------------------------------------------------------------------------ */

bool inf_access_may_manage(const struct inf_access *access, const struct inf_access_peer *peer, bool is_manager)
{
	return access->administrators.is_given ? has(&access->administrators, peer) : is_manager;
}

bool inf_access_sees_all(const struct inf_access *access, const struct inf_access_peer *peer, bool is_manager)
{
	return peer->uid == 0 || inf_access_may_manage(access, peer, is_manager);
}

bool inf_access_may_connect(const struct inf_access *access, const struct inf_access_peer *peer)
{
	return !access->clients.is_given || has(&access->clients, peer) || inf_access_sees_all(access, peer, false);
}

static const struct inf_access_list *find(const struct inf_access *access, const char *model)
{
	for (size_t i = 0; i < access->n_models; i++)
		if (strcmp(access->models[i].name, model) == 0)
			return &access->models[i].openers;
	return NULL;
}

bool inf_access_may_open(const struct inf_access *access, const struct inf_access_peer *peer, const char *model)
{
	const struct inf_access_list *openers = find(access, model);
	return !openers || has(openers, peer) || inf_access_sees_all(access, peer, false);
}

/* --- sessions ------------------------------------------------------------------------------------- */

struct inf_access_peer inf_access_peer_of(const struct inf_session *s)
{
	static gid_t gids[NGROUPS_MAX + 1]; /* the loop thread's, like everything here */
	struct inf_access_peer peer = { .uid = s->user->uid, .gids = gids };
	if (inf_channel_peer_groups(&s->channel, gids, ET_ARRAY_LEN(gids), &peer.n_gids) < 0)
		peer.n_gids = 0; /* groups only let in */
	return peer;
}

bool inf_session_may_manage(const struct inf_session *s)
{
	const struct inf_access *access = s->context->access;
	if (!access->administrators.is_given)
		return s->is_manager;
	struct inf_access_peer peer = inf_access_peer_of(s);
	return inf_access_may_manage(access, &peer, s->is_manager);
}

bool inf_session_sees_all(const struct inf_session *s)
{
	return s->user->uid == 0 || inf_session_may_manage(s);
}

bool inf_session_may_open(const struct inf_session *s, const char *model)
{
	const struct inf_access *access = s->context->access;
	if (!find(access, model) || inf_session_sees_all(s))
		return true;
	struct inf_access_peer peer = inf_access_peer_of(s);
	return inf_access_may_open(access, &peer, model);
}
