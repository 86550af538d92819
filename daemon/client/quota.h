/* SPDX-License-Identifier: BSD-3-Clause */
/* Quota: what each user may hold at a time, charged before it exists.
 *
 * Everything is counted per uid, whichever connection it came by. Charging happens on the loop thread; giving back
 * may happen on any (a worker gives back the request it finished). */
#ifndef DAEMON_CLIENT_QUOTA_H
#define DAEMON_CLIENT_QUOTA_H

#include "config/config.h"
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
	INF_QUOTA_OPENS, /* what waits for a model or for the folder, also if nobody waits for its answer any more */
	INF_QUOTA_BYTES,
	INF_N_QUOTAS,
};

/* One user who is there or was recently. Lives as long as somebody holds it, and some time longer: what its connections
 * have used of the queues is not forgotten when it closes them and comes back. */
struct inf_quota_user {
	struct et_list_node node; /* in the quota's users, or absent */
	struct inf_quota *quota;
	uid_t uid;
	uint32_t n_refs; /* loop thread */
	uint32_t weight;
	enum inf_class highest; /* class that its requests may ask for */
	uint32_t n_surplus_fds; /* that it passed and can't be charged for, until they are closed; loop thread */
	uint64_t limits[INF_N_QUOTAS];
	_Atomic(uint64_t) used[INF_N_QUOTAS];
	struct inf_group groups[INF_QUEUES_MAX]; /* one a queue, under its lock */
};

enum { INF_QUOTA_MAX_ABSENT = 32 };

/* What a [user] section says, its name looked up. */
struct inf_quota_rule {
	uid_t uid;
	const struct inf_config_user *section;
};

struct inf_quota {
	struct et_list_node users;
	struct et_list_node absent; /* those who went, the last one last */
	uint32_t n_absent;
	struct inf_limits limits;
	uint64_t max_fds;             /* of all users together; 0: no limit */
	_Atomic(uint64_t) n_fds;      /* charged, and those for which nobody could be */
	uint64_t n_unpaid;            /* the latter; loop thread */
	struct inf_quota_rule *rules; /* the caller's */
	uint32_t n_rules;
};

void inf_quota_init(struct inf_quota *quota);
/* Users must have been given back. */
void inf_quota_deinit(struct inf_quota *quota);
/* New limits, for users present too: what is above stays until it is given back. @rules must last until the next
 * call. */
void inf_quota_configure(struct inf_quota *quota, const struct inf_limits *limits, struct inf_quota_rule *rules,
	uint32_t n_rules);

/* How many descriptors the daemon may hold for all users together. What is left of its own limit is for models, replies
 * and what arrives: a daemon that runs out of descriptors can refuse nothing politely any more. */
void inf_quota_set_max_fds(struct inf_quota *quota, uint64_t max_fds);

/* A descriptor that is there whoever could be charged for it, as one of all users together; and it is gone. Loop thread. */
void inf_quota_add_unpaid(struct inf_quota *quota);
void inf_quota_remove_unpaid(struct inf_quota *quota);
/* Whether there are so many of those that no more may come. Loop thread. */
bool inf_quota_is_overdrawn(const struct inf_quota *quota);

/* The user with that uid, made if need be; NULL: no memory. Give it back with inf_quota_user_unref. */
struct inf_quota_user *inf_quota_take_user(struct inf_quota *quota, uid_t uid);
/* NULL is fine; returns NULL. All charges must have been given back before the last one. */
struct inf_quota_user *inf_quota_user_unref(struct inf_quota_user *user);

/* False when it would exceed the limit: nothing is charged then. */
bool inf_quota_charge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n);
/* Give back. Any thread. */
void inf_quota_discharge(struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n);

/* Several at once: all of them, or none and a sentence in @why, of @room bytes. */
struct inf_charge {
	enum inf_quota_kind kind;
	uint64_t n;
};
bool inf_quota_charge_all(struct inf_quota_user *user, const struct inf_charge *charges, size_t n_charges, char *why,
	size_t room);
/* Any thread. */
void inf_quota_discharge_all(struct inf_quota_user *user, const struct inf_charge *charges, size_t n_charges);

/* The class of a request that asks for @asked, where the default one is lowered to what the user may have. False, and
 * nothing set, when more was asked for than that. */
bool inf_quota_classify(const struct inf_quota_user *user, enum inf_class asked, enum inf_class *ret_class);

/* "methods", as the configuration calls it. */
const char *inf_quota_name(enum inf_quota_kind kind);
/* "the limit 'methods' of user 1000 is reached: 1024 of 1024 in use, 1 more asked for". */
void inf_quota_explain(const struct inf_quota_user *user, enum inf_quota_kind kind, uint64_t n, char *to, size_t room);

#endif
