/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting what each user holds.
 *
 * The used counts are atomic because workers discharge what the loop thread charged. Only the loop thread charges,
 * so a count can only fall between its check and its addition: the limit always holds.
 *
 * Each descriptor and byte is counted twice: for its user, and for all users (or all managers) together. The totals
 * leave a reserve, which is divided as inf_quota_divide says; no charge goes beyond a total. Only unpaid descriptors
 * do, since they have been received already. Their number has a bound, which is part of the reserve.
 *
 * A user without connections is kept for a while, with nothing charged. Otherwise a program that connects anew for
 * each request would begin each time as a user who has had no share of the queues yet. */
#include "daemon/client/quota.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"

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
	quota->all_users.whose = "users";
	quota->all_managers.whose = "managers";
	inf_quota_divide(quota, &(struct inf_quota_machine){ UINT64_MAX, UINT64_MAX, 0 });
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

/* Set a limit on connections, descriptors or bytes. Unless the administrator gives it (@is_given), it is at most an
 * eighth of the total, so that a few users can't take everything. Managers have only their total. */
static void set_share(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t limit, bool is_given)
{
	enum { SHARE = 8 };
	uint64_t max = user->total->max[kind == INF_QUOTA_BYTES ? INF_QUOTA_BYTES : INF_QUOTA_FDS];
	if (user->total == &user->quota->all_managers) {
		user->limits[kind] = max; /* a mistake in the configuration can't keep a manager out */
		return;
	}
	uint64_t share = max / SHARE ? max / SHARE : 1;
	user->limits[kind] = is_given || limit < share ? limit : share;
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
		limits.given |= section->limits.given;
	}
	set_share(user, INF_QUOTA_CONNECTIONS, limits.connections, limits.given & INF_LIMIT_BIT_CONNECTIONS);
	set_share(user, INF_QUOTA_FDS, limits.fds, limits.given & INF_LIMIT_BIT_FDS);
	set_share(user, INF_QUOTA_BYTES, limits.bytes, limits.given & INF_LIMIT_BIT_BYTES);
	user->limits[INF_QUOTA_METHODS] = limits.methods;
	user->limits[INF_QUOTA_REGIONS] = limits.regions;
	user->limits[INF_QUOTA_BINDINGS] = limits.bindings;
	user->limits[INF_QUOTA_REQUESTS] = limits.requests;
	user->limits[INF_QUOTA_OPENS] = limits.opens;
	user->highest = (enum inf_class)limits.priority;
	for (size_t i = 0; i < INF_QUEUES_MAX; i++)
		inf_group_set_weight(&user->groups[i], user->weight);
}

static void apply_to_all(struct inf_quota *quota)
{
	for (struct et_list_node *node = quota->users.next; node != &quota->users; node = node->next)
		apply(quota, ET_CONTAINER_OF(node, struct inf_quota_user, node));
}

void inf_quota_configure(struct inf_quota *quota, const struct inf_limits *limits, struct inf_quota_rule *rules,
	uint32_t n_rules)
{
	quota->limits = *limits;
	quota->rules = rules;
	quota->n_rules = n_rules;
	apply_to_all(quota);
}

/* Descriptors: 1024 are the reserve, or half of a small number. Managers get an eighth of it and 4. Unpaid descriptors
 * of users get another eighth, and then one more packet of them may come (INF_CHANNEL_MAX_FDS, 253); the same for those
 * of managers. What remains, 130 of 1024 in the worst case, is for models and replies.
 *
 * Bytes: an eighth of the memory is the reserve, of which managers get half. memory_budget is set aside for models, but
 * users keep at least a quarter of the memory. */
void inf_quota_divide(struct inf_quota *quota, const struct inf_quota_machine *machine)
{
	enum { FDS_RESERVE = 1024 };
	uint64_t n_fds = machine->n_fds, n_bytes = machine->n_bytes, rest = n_bytes - n_bytes / 8;
	uint64_t fds_reserve = n_fds > 2 * FDS_RESERVE ? FDS_RESERVE : n_fds / 2;
	uint64_t n_model_bytes = machine->n_model_bytes < rest - n_bytes / 4 ? machine->n_model_bytes
									     : rest - n_bytes / 4;
	struct inf_quota_total *users = &quota->all_users, *managers = &quota->all_managers;
	quota->machine = *machine;
	users->max[INF_QUOTA_FDS] = n_fds - fds_reserve;
	managers->max[INF_QUOTA_FDS] = fds_reserve / 8 + 4;
	users->max_overdraft = managers->max_overdraft = fds_reserve / 8;
	users->max[INF_QUOTA_BYTES] = n_bytes == UINT64_MAX ? n_bytes : rest - n_model_bytes;
	managers->max[INF_QUOTA_BYTES] = n_bytes == UINT64_MAX ? n_bytes : n_bytes / 16;
	apply_to_all(quota);
}

static struct inf_quota_user *find(const struct et_list_node *list, const struct inf_quota_total *total, uid_t uid)
{
	for (struct et_list_node *node = list->next; node != list; node = node->next) {
		struct inf_quota_user *user = ET_CONTAINER_OF(node, struct inf_quota_user, node);
		if (user->uid == uid && user->total == total)
			return user;
	}
	return NULL;
}

static struct inf_quota_user *take(struct inf_quota *quota, struct inf_quota_total *total, uid_t uid)
{
	struct inf_quota_user *user = find(&quota->users, total, uid);
	if (user) {
		user->n_refs++;
		return user;
	}
	user = find(&quota->absent, total, uid);
	if (user) {
		et_list_remove(&user->node);
		quota->n_absent--;
	} else {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->quota = quota;
		user->total = total;
		user->uid = uid;
		for (size_t i = 0; i < INF_QUEUES_MAX; i++)
			inf_group_init(&user->groups[i], 1);
	}
	user->n_refs = 1;
	apply(quota, user);
	et_list_append(&quota->users, &user->node);
	return user;
}

struct inf_quota_user *inf_quota_take_user(struct inf_quota *quota, uid_t uid)
{
	return take(quota, &quota->all_users, uid);
}

struct inf_quota_user *inf_quota_take_manager(struct inf_quota *quota, uid_t uid)
{
	return take(quota, &quota->all_managers, uid);
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

static uint64_t get(const _Atomic(uint64_t) *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

void inf_quota_add_unpaid(struct inf_quota_total *total)
{
	total->n_unpaid++;
	atomic_fetch_add_explicit(&total->used[INF_QUOTA_FDS], 1, memory_order_relaxed);
}

void inf_quota_remove_unpaid(struct inf_quota_total *total)
{
	total->n_unpaid--;
	atomic_fetch_sub_explicit(&total->used[INF_QUOTA_FDS], 1, memory_order_relaxed);
}

bool inf_quota_is_reserve_used(const struct inf_quota_total *total)
{
	uint64_t used = get(&total->used[INF_QUOTA_FDS]), max = total->max[INF_QUOTA_FDS];
	return total->n_unpaid && used > max && used - max > total->max_overdraft;
}

/* Unpaid descriptors may be a quarter of all: connected clients go on with the rest. */
bool inf_quota_is_overdrawn(const struct inf_quota_total *total)
{
	enum { MOST = 65536 };
	uint64_t max = total->max[INF_QUOTA_FDS];
	return total->n_unpaid > (max < MOST ? max : MOST) / 4 || inf_quota_is_reserve_used(total);
}

static bool is_in_total(enum inf_quota_kind kind)
{
	return kind == INF_QUOTA_FDS || kind == INF_QUOTA_BYTES;
}

static bool fits(uint64_t used, uint64_t max, uint64_t n)
{
	return used <= max && n <= max - used;
}

static bool total_has(const struct inf_quota_total *total, enum inf_quota_kind kind, uint64_t n)
{
	return !is_in_total(kind) || fits(get(&total->used[kind]), total->max[kind], n);
}

bool inf_quota_charge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n)
{
	if (!n) /* fits even if the user holds more than a new limit allows */
		return true;
	if (!fits(get(&user->used[kind]), user->limits[kind], n) || !total_has(user->total, kind, n))
		return false;
	if (is_in_total(kind))
		atomic_fetch_add_explicit(&user->total->used[kind], n, memory_order_relaxed);
	atomic_fetch_add_explicit(&user->used[kind], n, memory_order_relaxed);
	return true;
}

uint64_t inf_quota_free(const struct inf_quota_user *user, enum inf_quota_kind kind)
{
	uint64_t n = et_less(user->limits[kind], get(&user->used[kind]));
	uint64_t rest = is_in_total(kind) ? et_less(user->total->max[kind], get(&user->total->used[kind])) : n;
	return rest < n ? rest : n;
}

void inf_quota_discharge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n)
{
	if (is_in_total(kind))
		atomic_fetch_sub_explicit(&user->total->used[kind], n, memory_order_relaxed);
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
	uint64_t used = get(&user->used[kind]), limit = user->limits[kind];
	const struct inf_quota_total *total = user->total;
	if (fits(used, limit, n) && !total_has(total, kind, n)) {
		inf_text(to, room,
			"all %s together hold %" PRIu64 " of %" PRIu64 " %s, %" PRIu64 " more asked for (%s)",
			total->whose, get(&total->used[kind]), total->max[kind],
			kind == INF_QUOTA_FDS ? "descriptors" : "bytes", n,
			kind == INF_QUOTA_FDS ? "LimitNOFILE of inferd's service"
					      : "memory of the machine, or of inferd's service");
		return;
	}
	inf_text(to, room,
		"the limit '%s' of user %lu is reached: %" PRIu64 " of %" PRIu64 " in use, %" PRIu64 " more asked for",
		inf_quota_name(kind), (unsigned long)user->uid, used, limit, n);
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
