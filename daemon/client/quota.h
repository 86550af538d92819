/* SPDX-License-Identifier: BSD-3-Clause */
/* Quota: how much each user (uid) may hold at a time, over all of its connections, and how much all users together.
 *
 * Managers (clients of the manager's socket) have accounts of their own and a total of their own, so that no number of
 * users can keep a manager out. What a user holds through the manager's socket does not count as the user's.
 *
 * An object is charged before it is made. Only the loop thread charges; any thread may discharge (a worker
 * discharges the request that it finished). */
#ifndef DAEMON_CLIENT_QUOTA_H
#define DAEMON_CLIENT_QUOTA_H

#include "config/config.h"
#include "daemon/base/log_quota.h"
#include "daemon/queue/scheduler.h"
#include "runtime/base/list.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum inf_quota_kind {
	INF_QUOTA_CONNECTIONS,
	INF_QUOTA_METHODS,
	INF_QUOTA_REGIONS,
	INF_QUOTA_BINDINGS,
	INF_QUOTA_FDS,
	INF_QUOTA_REQUESTS,
	INF_QUOTA_OPENS, /* requests that wait for a model or for the folder, even if they were cancelled */
	INF_QUOTA_BYTES,
	INF_N_QUOTAS,
};

/* The descriptors and bytes that the process has, to be divided. UINT64_MAX: unlimited or unknown. */
struct inf_quota_machine {
	uint64_t n_fds;         /* descriptors that are left when no client is connected */
	uint64_t n_bytes;       /* memory */
	uint64_t n_model_bytes; /* of that for the administrator's models (memory_budget); 0: not said */
};

/* All users together, or all managers together: descriptors and bytes. The other kinds are not counted here. */
struct inf_quota_total {
	const char *whose; /* "users", "managers" */
	uint64_t max[INF_N_QUOTAS];
	_Atomic(uint64_t) used[INF_N_QUOTAS]; /* descriptors: with the unpaid ones, so maybe more than max */
	uint64_t max_overdraft;               /* descriptors beyond max before no more are taken */
	uint64_t n_unpaid;                    /* descriptors charged to no user; loop thread */
};

/* One user who is connected or was recently. It lives as long as it is referenced and some time longer, so that a
 * user who closes its connections and comes back has not lost what it used of the queues. */
struct inf_quota_user {
	struct et_list_node node; /* in the quota's users, or absent */
	struct inf_quota *quota;
	struct inf_quota_total *total; /* whose part this user is of */
	uid_t uid;
	uint32_t n_refs; /* loop thread */
	uint32_t weight;
	enum inf_class highest; /* class that its requests may ask for */
	bool may_bring;         /* programs of its own */
	/* What the [group] sections give it for the groups of its connections: the most generous value of each key. */
	struct inf_limits group_limits;
	uint32_t group_weight;
	struct inf_log_quota log_quota;
	/* Descriptors that its clients passed beyond its limit, until they are closed; loop thread. */
	uint32_t n_surplus_fds;
	uint64_t limits[INF_N_QUOTAS];
	_Atomic(uint64_t) used[INF_N_QUOTAS];
	_Atomic(uint64_t) n_program_bytes;       /* of the used bytes: those in the process for its own programs */
	struct inf_group groups[INF_QUEUES_MAX]; /* one for each queue, under its lock */
};

enum { INF_QUOTA_MAX_ABSENT = 32 };

/* A [user] or [group] section of the configuration, and whom it names. */
struct inf_quota_rule {
	uid_t id; /* a uid, or a gid */
	const struct inf_config_user *section;
	bool is_group;
};

struct inf_quota {
	const struct et_log *log; /* for suppressed lines; NULL after inf_quota_init: none */
	struct et_list_node users;
	struct et_list_node absent; /* users without references, the last one to go at the end */
	uint32_t n_absent;
	struct inf_limits limits;
	struct inf_quota_machine machine;
	struct inf_quota_total all_users, all_managers;
	struct inf_quota_rule *rules; /* the caller's */
	uint32_t n_rules;
};

void inf_quota_init(struct inf_quota *quota);
/* No user may be referenced any more. */
void inf_quota_deinit(struct inf_quota *quota);
/* Set new limits, for present users, too; what is above a new limit stays until it is discharged. @rules must last
 * until the next call or deinit. Groups of present users are forgotten: call inf_quota_add_groups for each connection.
 * A limit on connections, descriptors or bytes that the configuration does not set is at most an eighth of what all
 * users together may hold. For managers only their total limits these. */
void inf_quota_configure(struct inf_quota *quota, const struct inf_limits *limits, struct inf_quota_rule *rules,
	uint32_t n_rules);

/* Divide what the process has among all users, all managers and a reserve for the daemon itself: models, replies and
 * new connections. A daemon without any descriptor left could not even refuse a request. Limits of present users change
 * with it. Until the first call there is no limit for all together. */
void inf_quota_divide(struct inf_quota *quota, const struct inf_quota_machine *machine);

/* Count a descriptor for which no user can be charged as one of all users together, and the end of that. Loop
 * thread. */
void inf_quota_add_unpaid(struct inf_quota_total *total);
void inf_quota_remove_unpaid(struct inf_quota_total *total);
/* Whether unpaid descriptors have used up the part of the reserve that is for them: no more may be received. */
bool inf_quota_is_reserve_used(const struct inf_quota_total *total);
/* Whether so many descriptors are unpaid that no more clients may be accepted. Loop thread. */
bool inf_quota_is_overdrawn(const struct inf_quota_total *total);

/* A reference to the user with that uid, made if need be; NULL: no memory. */
struct inf_quota_user *inf_quota_take_user(struct inf_quota *quota, uid_t uid);
/* The same for its account as a manager. */
struct inf_quota_user *inf_quota_take_manager(struct inf_quota *quota, uid_t uid);
/* A connection of @user is in these groups: the user gets what their [group] sections give, beside what the groups of
 * its other connections do. A connection that ends takes nothing away; the user's next one after the last does. */
void inf_quota_add_groups(struct inf_quota_user *user, const gid_t *gids, size_t n_gids);
/* Whether a [group] section has a say. */
bool inf_quota_has_groups(const struct inf_quota *quota);
/* NULL is fine; returns NULL. Everything must be discharged before the last reference goes. */
struct inf_quota_user *inf_quota_user_unref(struct inf_quota_user *user);

/* False: that would exceed the limit; nothing is charged. Loop thread. */
bool inf_quota_charge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n);
/* How much more of it the user may be charged now. */
uint64_t inf_quota_free(const struct inf_quota_user *user, enum inf_quota_kind kind);
/* Note that @n more of the bytes that @user is charged lie in the process for its own programs; @n wraps for fewer. Any
 * thread. */
void inf_quota_count_program(struct inf_quota_user *user, uint64_t n);
/* Get how many bytes the process for the own programs of this uid may hold: those that it holds for the uid's
 * accounts, and what @user has free. */
uint64_t inf_quota_program_room(const struct inf_quota_user *user);
/* The opposite of a charge. Any thread. */
void inf_quota_discharge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n);

/* Several charges at once: all of them, or none and a sentence in @why, of @room bytes. Loop thread. */
struct inf_charge {
	enum inf_quota_kind kind;
	uint64_t n;
};
bool inf_quota_charge_all(struct inf_quota_user *user, const struct inf_charge *charges, size_t n_charges, char *why,
	size_t room);
/* Any thread. */
void inf_quota_discharge_all(struct inf_quota_user *user, const struct inf_charge *charges, size_t n_charges);

/* The class of a request that asks for @asked; the default class is lowered to the highest one that the user may have.
 * False: the request asks for more than that. */
bool inf_quota_classify(const struct inf_quota_user *user, enum inf_class asked, enum inf_class *ret_class);

/* Log the lines that users' quotas have suppressed, if their minute is over or @is_final. */
void inf_quota_report_logs(struct inf_quota *quota, bool is_final);

/* The name in the configuration: "methods". */
const char *inf_quota_name(enum inf_quota_kind kind);
/* Write why a charge failed: "the limit 'methods' of user 1000 is reached: 1024 of 1024 in use, 1 more asked for", or
 * "all users together hold 4096 of 4096 descriptors, 1 more asked for (LimitNOFILE of inferd's service)". */
void inf_quota_explain(const struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n, char *to, size_t room);

#endif
