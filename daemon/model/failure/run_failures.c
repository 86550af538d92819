/* SPDX-License-Identifier: BSD-3-Clause */
/* Failed runs of one model.
 *
 * The times of the last max_failures failures are kept in a ring. They are too many if the oldest of them lies within
 * the window; runs that succeed in between do not matter. The ring is made with the first failure, since most models
 * never have one. No clock: the caller has it. */
#include "daemon/model/failure/run_failures.h"

#include "daemon/base/text.h"

#include <stdlib.h>

void inf_run_failures_init(struct inf_run_failures *f)
{
	*f = (struct inf_run_failures){ .n = 0 };
	pthread_mutex_init(&f->lock, NULL);
}

void inf_run_failures_deinit(struct inf_run_failures *f)
{
	pthread_mutex_destroy(&f->lock);
	free(f->times_ns);
}

/* False: no memory. */
static bool make_room(struct inf_run_failures *f, uint32_t n_room)
{
	if (f->n_room == n_room)
		return true;
	uint64_t *ring = calloc(n_room, sizeof(*ring));
	if (!ring)
		return false;
	free(f->times_ns);
	f->times_ns = ring;
	f->n_room = n_room;
	f->n = 0;
	return true;
}

bool inf_run_failures_count(struct inf_run_failures *f, const struct inf_run_limit *limit, uint64_t now_ns,
	const char *reason)
{
	uint32_t max = limit->max_failures ? limit->max_failures : INF_RUN_FAILURES_DEFAULT;
	pthread_mutex_lock(&f->lock);
	f->window_ns = limit->window_ns ? limit->window_ns : INF_RUN_FAILURES_WINDOW_NS;
	bool counts = !f->is_too_many && now_ns >= f->rests_until_ns && make_room(f, max);
	if (counts) {
		f->times_ns[f->n++ % max] = now_ns;
		uint64_t oldest_ns = f->times_ns[f->n % max];
		/* threads may count in another order than they read the clock */
		f->is_too_many = f->n >= max && (oldest_ns >= now_ns || now_ns - oldest_ns < f->window_ns);
		inf_text(f->reason, sizeof(f->reason), "%s", reason);
	}
	counts = counts && f->is_too_many;
	pthread_mutex_unlock(&f->lock);
	return counts;
}

bool inf_run_failures_take(struct inf_run_failures *f, char *text, size_t room)
{
	pthread_mutex_lock(&f->lock);
	bool is_too_many = f->is_too_many;
	if (is_too_many)
		inf_text(text, room, "its runs failed %u times, the last one: %s", f->n_room, f->reason);
	f->is_too_many = false;
	f->n = is_too_many ? 0 : f->n;
	pthread_mutex_unlock(&f->lock);
	return is_too_many;
}

void inf_run_failures_rest(struct inf_run_failures *f, uint64_t now_ns)
{
	pthread_mutex_lock(&f->lock);
	if (__builtin_add_overflow(now_ns, f->window_ns, &f->rests_until_ns))
		f->rests_until_ns = UINT64_MAX;
	pthread_mutex_unlock(&f->lock);
}

void inf_run_failures_forget(struct inf_run_failures *f)
{
	pthread_mutex_lock(&f->lock);
	f->n = 0;
	f->is_too_many = false;
	pthread_mutex_unlock(&f->lock);
}
