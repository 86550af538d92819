/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting what each user holds.
 *
 * The used counts are atomic because workers discharge what the loop thread charged. Only the loop thread charges,
 * so a count can only fall between its check and its addition: the limit always holds.
 *
 * A user without connections is kept for a while, with nothing charged. Otherwise a program that connects anew for
 * each request would begin each time as a user who has had no share of the queues yet. */
#include "daemon/client/quota.h"
#include "daemon/base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)INF_CONFIG_N_PRIORITIES == (int)INF_N_CLASSES, "both list the highest priority first");

const char *inf_quota_name(enum inf_quota_kind kind)
{
	static const char *const names[INF_N_QUOTAS] = { "connections", "methods", "regions", "bindings", "fds",
		"requests", "opens", "bytes" };
	return names[kind];
}

void inf_quota_init(struct inf_quota *quota)
{
	memset(quota, 0, sizeof(*quota));
	et_list_init(&quota->users);
	et_list_init(&quota->absent);
}

static void forget(struct inf_quota_user *user)
{
	et_list_remove(&user->node);
	user->quota->n_absent--;
	free(user);
}

void inf_quota_deinit(struct inf_quota *quota)
{
	struct et_list_node *node, *after;
	if (!quota->users.next)
		return;
	ET_LIST_FOR_EACH(node, after, &quota->absent)
		forget(ET_CONTAINER_OF(node, struct inf_quota_user, node));
	ET_LIST_FOR_EACH(node, after, &quota->users)
		et_list_remove(node);
}

static void apply(const struct inf_quota *quota, struct inf_quota_user *user)
{
	struct inf_limits limits = quota->limits;
	user->weight = 1;
	for (uint32_t i = 0; i < quota->n_rules; i++) {
		const struct inf_config_user *section = quota->rules[i].section;
		if (quota->rules[i].uid != user->uid)
			continue;
		user->weight = section->weight;
#define OVERRIDE(field, BIT)                             \
	if (section->limits.given & INF_LIMIT_BIT_##BIT) \
	limits.field = section->limits.field
		OVERRIDE(connections, CONNECTIONS);
		OVERRIDE(methods, METHODS);
		OVERRIDE(regions, REGIONS);
		OVERRIDE(bindings, BINDINGS);
		OVERRIDE(fds, FDS);
		OVERRIDE(requests, REQUESTS);
		OVERRIDE(opens, OPENS);
		OVERRIDE(bytes, BYTES);
		OVERRIDE(priority, PRIORITY);
#undef OVERRIDE
	}
	user->limits[INF_QUOTA_CONNECTIONS] = limits.connections;
	user->limits[INF_QUOTA_METHODS] = limits.methods;
	user->limits[INF_QUOTA_REGIONS] = limits.regions;
	user->limits[INF_QUOTA_BINDINGS] = limits.bindings;
	user->limits[INF_QUOTA_FDS] = limits.fds;
	user->limits[INF_QUOTA_REQUESTS] = limits.requests;
	user->limits[INF_QUOTA_OPENS] = limits.opens;
	user->limits[INF_QUOTA_BYTES] = limits.bytes;
	user->highest = (enum inf_class)limits.priority;
	for (size_t i = 0; i < INF_QUEUES_MAX; i++)
		inf_group_set_weight(&user->groups[i], user->weight);
}

void inf_quota_configure(struct inf_quota *quota, const struct inf_limits *limits, struct inf_quota_rule *rules,
	uint32_t n_rules)
{
	quota->limits = *limits;
	quota->rules = rules;
	quota->n_rules = n_rules;
	for (struct et_list_node *node = quota->users.next; node != &quota->users; node = node->next)
		apply(quota, ET_CONTAINER_OF(node, struct inf_quota_user, node));
}

static struct inf_quota_user *find_absent(struct inf_quota *quota, uid_t uid)
{
	for (struct et_list_node *node = quota->absent.next; node != &quota->absent; node = node->next) {
		struct inf_quota_user *user = ET_CONTAINER_OF(node, struct inf_quota_user, node);
		if (user->uid == uid)
			return user;
	}
	return NULL;
}

struct inf_quota_user *inf_quota_take_user(struct inf_quota *quota, uid_t uid)
{
	struct inf_quota_user *user;
	for (struct et_list_node *node = quota->users.next; node != &quota->users; node = node->next) {
		user = ET_CONTAINER_OF(node, struct inf_quota_user, node);
		if (user->uid == uid) {
			user->n_refs++;
			return user;
		}
	}
	user = find_absent(quota, uid);
	if (user) {
		et_list_remove(&user->node);
		quota->n_absent--;
	} else {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->quota = quota;
		user->uid = uid;
		for (size_t i = 0; i < INF_QUEUES_MAX; i++)
			inf_group_init(&user->groups[i], 1);
	}
	user->n_refs = 1;
	apply(quota, user);
	et_list_append(&quota->users, &user->node);
	return user;
}

struct inf_quota_user *inf_quota_user_unref(struct inf_quota_user *user)
{
	if (!user || --user->n_refs)
		return NULL;
	struct inf_quota *quota = user->quota;
	et_list_remove(&user->node);
	et_list_append(&quota->absent, &user->node);
	if (++quota->n_absent > INF_QUOTA_MAX_ABSENT)
		forget(ET_CONTAINER_OF(quota->absent.next, struct inf_quota_user, node));
	return NULL;
}

void inf_quota_set_max_fds(struct inf_quota *quota, uint64_t max_fds)
{
	quota->max_fds = max_fds;
}

void inf_quota_add_unpaid(struct inf_quota *quota)
{
	quota->n_unpaid++;
	atomic_fetch_add_explicit(&quota->n_fds, 1, memory_order_relaxed);
}

void inf_quota_remove_unpaid(struct inf_quota *quota)
{
	quota->n_unpaid--;
	atomic_fetch_sub_explicit(&quota->n_fds, 1, memory_order_relaxed);
}

/* Unpaid descriptors may be a quarter of all: connected clients go on with the rest. */
bool inf_quota_is_overdrawn(const struct inf_quota *quota)
{
	enum { UNLIMITED = 65536 };
	return quota->n_unpaid > (quota->max_fds ? quota->max_fds : UNLIMITED) / 4;
}

static bool has_fds(const struct inf_quota *quota, uint64_t n)
{
	uint64_t used = atomic_load_explicit(&quota->n_fds, memory_order_relaxed);
	return !quota->max_fds || (used <= quota->max_fds && n <= quota->max_fds - used);
}

bool inf_quota_charge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n)
{
	uint64_t used = atomic_load_explicit(&user->used[kind], memory_order_relaxed);
	if (!n) /* fits even if the user holds more than a new limit allows */
		return true;
	if (used > user->limits[kind] || n > user->limits[kind] - used)
		return false;
	if (kind == INF_QUOTA_FDS && !has_fds(user->quota, n))
		return false;
	if (kind == INF_QUOTA_FDS)
		atomic_fetch_add_explicit(&user->quota->n_fds, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&user->used[kind], n, memory_order_relaxed);
	return true;
}

void inf_quota_discharge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n)
{
	if (kind == INF_QUOTA_FDS)
		atomic_fetch_sub_explicit(&user->quota->n_fds, n, memory_order_relaxed);
	atomic_fetch_sub_explicit(&user->used[kind], n, memory_order_relaxed);
}

bool inf_quota_classify(const struct inf_quota_user *user, enum inf_class asked, enum inf_class *ret_class)
{
	if (asked < user->highest && asked != INF_CLASS_INTERACTIVE)
		return false;
	*ret_class = asked < user->highest ? user->highest : asked;
	return true;
}

void inf_quota_explain(const struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n, char *to, size_t room)
{
	if (kind == INF_QUOTA_FDS && !has_fds(user->quota, n)) {
		inf_text(to, room,
			"the daemon holds %" PRIu64 " of the %" PRIu64
			" descriptors that it may for all its clients (LimitNOFILE of its service)",
			atomic_load_explicit(&user->quota->n_fds, memory_order_relaxed), user->quota->max_fds);
		return;
	}
	inf_text(to, room,
		"the limit '%s' of user %lu is reached: %" PRIu64 " of %" PRIu64 " in use, %" PRIu64 " more asked for",
		inf_quota_name(kind), (unsigned long)user->uid,
		atomic_load_explicit(&user->used[kind], memory_order_relaxed), user->limits[kind], n);
}

bool inf_quota_charge_all(struct inf_quota_user *user, const struct inf_charge *charges, size_t n_charges, char *why,
	size_t room)
{
	for (size_t i = 0; i < n_charges; i++) {
		if (inf_quota_charge(user, charges[i].kind, charges[i].n))
			continue;
		inf_quota_explain(user, charges[i].kind, charges[i].n, why, room);
		inf_quota_discharge_all(user, charges, i);
		return false;
	}
	return true;
}

void inf_quota_discharge_all(struct inf_quota_user *user, const struct inf_charge *charges, size_t n_charges)
{
	for (size_t i = 0; i < n_charges; i++)
		inf_quota_discharge(user, charges[i].kind, charges[i].n);
}
