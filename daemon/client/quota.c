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
 * The most generous [group] section wins, key by key: the largest number, the highest priority, `own_programs = yes`.
 * It may give less than [limits]. The user's own section replaces it, key by key.
 *
 * A user without connections is kept for a while, with nothing charged. Otherwise a program that connects anew for
 * each request would begin each time as a user who has had no share of the queues yet. */
#include "daemon/client/quota.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

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
	inf_log_quota_report(&user->log_quota, user->quota->log, (unsigned long)user->uid, 0, true);
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

/* Take what @from gives instead of what is in @to; @is_generous: only if it is more, or if @to gives nothing. */
static void take_given(struct inf_limits *to, uint32_t *weight, const struct inf_limits *from, uint32_t from_weight,
	bool is_generous)
{
	const uint32_t taken = is_generous ? from->given & ~to->given : from->given;
#define TAKE(to_value, from_value, BIT)                                                               \
	if (taken & INF_LIMIT_BIT_##BIT ||                                                            \
		(from->given & INF_LIMIT_BIT_##BIT && (uint64_t)(to_value) < (uint64_t)(from_value))) \
	to_value = from_value
	TAKE(to->connections, from->connections, CONNECTIONS);
	TAKE(to->methods, from->methods, METHODS);
	TAKE(to->regions, from->regions, REGIONS);
	TAKE(to->bindings, from->bindings, BINDINGS);
	TAKE(to->fds, from->fds, FDS);
	TAKE(to->requests, from->requests, REQUESTS);
	TAKE(to->opens, from->opens, OPENS);
	TAKE(to->bytes, from->bytes, BYTES);
	TAKE(to->own_programs, from->own_programs, OWN_PROGRAMS);
	TAKE(*weight, from_weight, WEIGHT);
#undef TAKE
	if (taken & INF_LIMIT_BIT_PRIORITY ||
		(from->given & INF_LIMIT_BIT_PRIORITY && from->priority < to->priority)) /* 0 is the highest */
		to->priority = from->priority;
	to->given |= from->given;
}

static void apply(const struct inf_quota *quota, struct inf_quota_user *user)
{
	struct inf_limits limits = quota->limits;
	user->weight = 1;
	take_given(&limits, &user->weight, &user->group_limits, user->group_weight, false);
	for (uint32_t i = 0; i < quota->n_rules; i++) {
		const struct inf_config_user *section = quota->rules[i].section;
		if (!quota->rules[i].is_group && quota->rules[i].id == user->uid)
			take_given(&limits, &user->weight, &section->limits, section->weight, false);
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
	user->may_bring = limits.own_programs;
	for (size_t i = 0; i < INF_QUEUES_MAX; i++)
		inf_group_set_weight(&user->groups[i], user->weight);
}

void inf_quota_add_groups(struct inf_quota_user *user, const gid_t *gids, size_t n_gids)
{
	const struct inf_quota *quota = user->quota;
	for (uint32_t i = 0; i < quota->n_rules; i++) {
		const struct inf_config_user *section = quota->rules[i].section;
		for (size_t k = 0; k < n_gids && quota->rules[i].is_group; k++)
			if (quota->rules[i].id == gids[k])
				take_given(&user->group_limits, &user->group_weight, &section->limits, section->weight,
					true);
	}
	apply(quota, user);
}

bool inf_quota_has_groups(const struct inf_quota *quota)
{
	for (uint32_t i = 0; i < quota->n_rules; i++)
		if (quota->rules[i].is_group)
			return true;
	return false;
}

static void forget_groups(struct inf_quota_user *user)
{
	memset(&user->group_limits, 0, sizeof(user->group_limits));
	user->group_weight = 1;
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
	for (struct et_list_node *node = quota->users.next; node != &quota->users; node = node->next)
		forget_groups(ET_CONTAINER_OF(node, struct inf_quota_user, node));
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
	forget_groups(user);
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

static void report_logs(const struct inf_quota *quota, const struct et_list_node *list, bool is_final)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	for (struct et_list_node *node = list->next; node != list; node = node->next) {
		struct inf_quota_user *user = ET_CONTAINER_OF(node, struct inf_quota_user, node);
		inf_log_quota_report(&user->log_quota, quota->log, (unsigned long)user->uid, now_ns, is_final);
	}
}

void inf_quota_report_logs(struct inf_quota *quota, bool is_final)
{
	report_logs(quota, &quota->users, is_final);
	report_logs(quota, &quota->absent, is_final);
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

void inf_quota_count_program(struct inf_quota_user *user, uint64_t n)
{
	atomic_fetch_add_explicit(&user->n_program_bytes, n, memory_order_relaxed);
}

uint64_t inf_quota_program_room(const struct inf_quota_user *user)
{
	const struct et_list_node *users = &user->quota->users;
	uint64_t n = inf_quota_free(user, INF_QUOTA_BYTES);
	for (struct et_list_node *node = users->next; node != users; node = node->next) {
		const struct inf_quota_user *account = ET_CONTAINER_OF(node, struct inf_quota_user, node);
		if (account->uid == user->uid)
			et_add_up(&n, get(&account->n_program_bytes));
	}
	return n;
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
