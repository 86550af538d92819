/* SPDX-License-Identifier: BSD-3-Clause */
/* Closing what clients passed.
 *
 * A client can pass a file of a file system that it runs itself (FUSE), and close() on it returns when that file
 * system likes. The same holds for a socket with unread messages that carry such files. So the loop closes only
 * what is known to be quick, and a helper's thread closes the rest.
 *
 * What must always be true: a descriptor that waits to be closed is counted. If its user has no room left for the
 * charge, it is unpaid: it counts only among the descriptors of all users together. It came beside a packet that was
 * read, and is the user's surplus as well, or its connection was turned away. Both have a bound: session.c reads no
 * further descriptors of a user with a surplus, nor of any user while unpaid descriptors have used up their part of the
 * reserve, and listener.c stops accepting while too many are unpaid. */
#include "daemon/client/closing.h"

#include "daemon/client/quota.h"
#include "daemon/context.h"
#include "ipc/channel.h"
#include "runtime/base/checked.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* How a descriptor is counted until it is closed. */
enum cost {
	COST_FD,      /* charged to the user */
	COST_SURPLUS, /* in user->n_surplus_fds, and unpaid */
	COST_UNPAID,  /* among those of all users together */
};

struct closing {
	struct inf_work work;
	int fd;
	struct inf_context *context;
	struct inf_quota_user *user; /* a reference */
	enum cost cost;
};

static void discharge(struct inf_context *context, struct inf_quota_user *user, enum cost cost)
{
	if (cost == COST_FD)
		inf_quota_discharge(user, INF_QUOTA_FDS, 1);
	if (cost == COST_SURPLUS)
		user->n_surplus_fds--;
	if (cost == COST_FD)
		return;
	inf_quota_remove_unpaid(user->total);
	context->events.resume_accepting(context->events.self);
}

static void closing_run(struct inf_work *work)
{
	close(ET_CONTAINER_OF(work, struct closing, work)->fd);
}

static void closing_done(struct inf_work *work)
{
	struct closing *c = ET_CONTAINER_OF(work, struct closing, work);
	discharge(c->context, c->user, c->cost);
	inf_quota_user_unref(c->user);
	free(c);
}

/* Close @fd on a helper's thread, and discharge it when that is done. */
static void close_beside(struct inf_context *context, struct inf_quota_user *user, int fd, enum cost cost)
{
	struct closing *c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		discharge(context, user, cost);
		return;
	}
	*c = (struct closing){ { .run = closing_run, .done = closing_done }, fd, context, user, cost };
	user->n_refs++;
	inf_helper_post_for_user(context->helper, &c->work, user);
}

/* A sealable file is a memory file, which has no file system to ask; but freeing a large one takes long, too. */
static bool is_quickly_closed(int fd)
{
	enum { SMALL_BLOCKS = (1 << 20) / 512 };
	struct stat st;
	return fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &st) == 0 && st.st_blocks <= SMALL_BLOCKS;
}

bool inf_close_passed(struct inf_context *context, struct inf_quota_user *user, int fd)
{
	if (is_quickly_closed(fd)) {
		close(fd);
		return true;
	}
	bool is_charged = inf_quota_charge(user, INF_QUOTA_FDS, 1);
	if (!is_charged) {
		user->n_surplus_fds++;
		inf_quota_add_unpaid(user->total);
	}
	close_beside(context, user, fd, is_charged ? COST_FD : COST_SURPLUS);
	return is_charged;
}

void inf_close_socket(struct inf_context *context, struct inf_quota_user *user, int fd)
{
	if (inf_channel_has_unread_fds(fd)) {
		close_beside(context, user, fd, COST_FD);
		return;
	}
	close(fd);
	discharge(context, user, COST_FD);
}

/* A client that is turned away because its user has no descriptors left cannot be charged for this one, so the
 * descriptor is unpaid. The number of unpaid ones has a bound, since otherwise connecting would be a way to take
 * all of the daemon's descriptors. To come near the bound, a user needs as many such files in flight, which the
 * kernel counts against it. At the bound the daemon accepts no client of any user, since the kernel says whose a
 * connection is only after accepting it: connected clients notice nothing, and new ones wait in the kernel's
 * backlog. Managers have a bound of their own. */
void inf_close_turned_away(struct inf_context *context, struct inf_quota_user *user, int fd)
{
	if (!inf_channel_has_unread_fds(fd)) {
		close(fd);
		return;
	}
	enum cost cost = inf_quota_charge(user, INF_QUOTA_FDS, 1) ? COST_FD : COST_UNPAID;
	if (cost == COST_UNPAID)
		inf_quota_add_unpaid(user->total);
	if (inf_quota_is_overdrawn(user->total))
		et_logf(&context->log, ET_LOG_WARNING,
			"user %lu: %llu descriptors that were sent beyond a limit, or connections with such, are not "
			"closed yet; accepting no client until one is closed",
			(unsigned long)user->uid, (unsigned long long)user->total->n_unpaid);
	close_beside(context, user, fd, cost);
}
