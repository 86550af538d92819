/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow work: an owner whose work blocks does not hold up other owners. */
#include "daemon/base/helper.h"

#include "runtime/base/checked.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MAX_ORDER = 256 };

struct world {
	struct inf_helper *helper;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t n_notified, n_blocked, n_ran, n_done;
	bool is_open;      /* the gate at which some work waits */
	uint32_t n_let_by; /* that many have passed it, or may, though it is closed */
	int order[MAX_ORDER];
};

struct piece {
	struct inf_work work;
	struct world *world;
	int number;
	bool is_blocking;
};

static void notify(void *self)
{
	struct world *w = self;
	pthread_mutex_lock(&w->lock);
	w->n_notified++;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void run_piece(struct inf_work *work)
{
	struct piece *p = ET_CONTAINER_OF(work, struct piece, work);
	struct world *w = p->world;
	pthread_mutex_lock(&w->lock);
	w->n_blocked += p->is_blocking;
	pthread_cond_broadcast(&w->changed);
	uint32_t ticket = w->n_blocked;
	while (p->is_blocking && !w->is_open && ticket > w->n_let_by)
		pthread_cond_wait(&w->changed, &w->lock);
	w->order[w->n_ran++] = p->number;
	pthread_mutex_unlock(&w->lock);
}

static void piece_done(struct inf_work *work)
{
	ET_CONTAINER_OF(work, struct piece, work)->world->n_done++;
}

static void begin(struct world *w)
{
	*w = (struct world){ 0 };
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	assert_int_equal(inf_helper_new(&w->helper, notify, w), 0);
}

static void end(struct world *w)
{
	assert_null(inf_helper_free(w->helper));
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
}

static void wait_until(struct world *w, const uint32_t *count, uint32_t n)
{
	pthread_mutex_lock(&w->lock);
	while (*count < n)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static void open_gate(struct world *w)
{
	pthread_mutex_lock(&w->lock);
	w->is_open = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void reap(struct world *w, uint32_t n)
{
	wait_until(w, &w->n_notified, n);
	inf_helper_reap(w->helper);
	assert_int_equal(w->n_done, n);
}

static struct piece make(struct world *w, int number, bool is_blocking)
{
	return (struct piece){ { .run = run_piece, .done = piece_done }, w, number, is_blocking };
}

static void test_order(void **state)
{
	struct world w;
	struct piece pieces[32];
	begin(&w);
	for (int i = 0; i < 32; i++) {
		pieces[i] = make(&w, i, false);
		if (i % 2)
			inf_helper_post(w.helper, &pieces[i].work, NULL);
		else
			inf_helper_post_for_user(w.helper, &pieces[i].work, &w);
	}
	reap(&w, 32);
	int last[2] = { -1, -1 };
	for (int i = 0; i < 32; i++) { /* of each kind in order */
		assert_true(w.order[i] > last[w.order[i] % 2]);
		last[w.order[i] % 2] = w.order[i];
	}
	end(&w);
}

/* An owner with much work gets no larger share of the own thread than one with little: each waits for two pieces of
 * others at most, counting the one that runs, and the pieces of one owner are done in order. */
static void test_turns(void **state)
{
	enum { MUCH = 40 };
	static const int owners[3];
	struct piece much[MUCH], little[3], now;
	struct world w;
	begin(&w);
	now = make(&w, 0, true);
	inf_helper_post(w.helper, &now.work, &owners[0]);
	wait_until(&w, &w.n_blocked, 1);
	for (int i = 0; i < MUCH; i++) {
		much[i] = make(&w, 1 + i, false);
		inf_helper_post(w.helper, &much[i].work, &owners[0]);
	}
	for (int i = 0; i < 3; i++) {
		little[i] = make(&w, 100 + i, false);
		inf_helper_post(w.helper, &little[i].work, i == 2 ? NULL : &owners[1]);
	}
	open_gate(&w);
	reap(&w, MUCH + 4);
	static const int expected[] = { 0, 1, 100, 102, 2, 101, 3, 4 };
	assert_memory_equal(w.order, expected, sizeof(expected));
	for (int i = 7; i < MUCH + 4; i++)
		assert_int_equal(w.order[i], i - 3);
	end(&w);
}

/* An owner that posts its next piece only when the last one is done does not get past waiting owners. */
static void test_again(void **state)
{
	static const int owners[2];
	struct piece waiting[4], again[4], now;
	struct world w;
	begin(&w);
	now = make(&w, 0, true);
	inf_helper_post(w.helper, &now.work, &owners[0]);
	wait_until(&w, &w.n_blocked, 1);
	for (int i = 0; i < 4; i++) {
		waiting[i] = make(&w, 10 + i, false);
		inf_helper_post(w.helper, &waiting[i].work, &owners[0]);
	}
	for (uint32_t i = 0; i < 4; i++) {
		again[i] = make(&w, 20 + (int)i, true);
		inf_helper_post(w.helper, &again[i].work, &owners[1]);
		pthread_mutex_lock(&w.lock);
		w.n_let_by++;
		pthread_cond_broadcast(&w.changed);
		pthread_mutex_unlock(&w.lock);
		wait_until(&w, &w.n_blocked, i + 2);
	}
	open_gate(&w);
	reap(&w, 9);
	static const int expected[] = { 0, 10, 20, 11, 21, 12, 22, 13, 23 };
	assert_memory_equal(w.order, expected, sizeof(expected));
	end(&w);
}

/* Work that frees memory waits for the piece that runs, and for no turn. */
static void test_leaving(void **state)
{
	enum { MUCH = 8 };
	static const int owners[2];
	struct piece much[MUCH], leaving[MUCH], now;
	struct world w;
	begin(&w);
	now = make(&w, 0, true);
	inf_helper_post(w.helper, &now.work, &owners[0]);
	wait_until(&w, &w.n_blocked, 1);
	for (int i = 0; i < MUCH; i++) {
		much[i] = make(&w, 1 + i, false);
		leaving[i] = make(&w, 100 + i, false);
		inf_helper_post(w.helper, &much[i].work, &owners[i % 2]);
		inf_helper_post_leaving(w.helper, &leaving[i].work);
	}
	open_gate(&w);
	reap(&w, 2 * MUCH + 1);
	assert_int_equal(w.order[0], 0);
	for (int i = 0; i < MUCH; i++) {
		assert_int_equal(w.order[1 + i], 100 + i);
		assert_int_equal(w.order[1 + MUCH + i], 1 + i); /* their turns are as they were */
	}
	assert_true(inf_helper_is_idle(w.helper));
	end(&w);
}

/* All threads but one are blocked, each by an owner: one more owner and the daemon itself go on. */
static void test_blocked(void **state)
{
	enum { N = INF_HELPER_MAX_UPLOADED - 1 };
	static const int owners[N + 2];
	struct piece blocked[N], behind[N], free_one, own;
	struct world w;
	begin(&w);
	for (int i = 0; i < N; i++) {
		blocked[i] = make(&w, i, true);
		behind[i] = make(&w, 100 + i, false);
		inf_helper_post_for_user(w.helper, &blocked[i].work, &owners[i]);
		inf_helper_post_for_user(w.helper, &behind[i].work, &owners[i]);
	}
	wait_until(&w, &w.n_blocked, N);
	free_one = make(&w, 50, false);
	inf_helper_post_for_user(w.helper, &free_one.work, &owners[N]);
	own = make(&w, 51, false);
	inf_helper_post(w.helper, &own.work, NULL);
	reap(&w, 2);
	assert_int_equal(w.order[0] + w.order[1], 101); /* what is behind the blocked ones has not begun */
	open_gate(&w);
	reap(&w, 2 + 2 * N);
	end(&w);
}

/* The daemon is an owner like any other: it waits for its own work, not for idle threads. */
static void test_the_daemons(void **state)
{
	static const int owner;
	struct piece first, blocked, behind, free_one;
	struct world w;
	begin(&w);
	first = make(&w, 0, false);
	inf_helper_post_for_user(w.helper, &first.work, &owner);
	reap(&w, 1); /* a thread sleeps */
	blocked = make(&w, 1, true);
	behind = make(&w, 2, false);
	free_one = make(&w, 3, false);
	inf_helper_post_for_user(w.helper, &blocked.work, NULL);
	inf_helper_post_for_user(w.helper, &behind.work, NULL);
	wait_until(&w, &w.n_blocked, 1);
	inf_helper_post_for_user(w.helper, &free_one.work, &owner);
	reap(&w, 2);
	assert_int_equal(w.order[1], 3);
	open_gate(&w);
	reap(&w, 4);
	assert_true(w.order[2] == 1 && w.order[3] == 2);
	end(&w);
}

/* More owners block than there are threads: the daemon's own work goes on, and everything is done in the end. */
static void test_all_blocked(void **state)
{
	enum { N = INF_HELPER_MAX_UPLOADED + 3 };
	static const int owners[N];
	struct piece blocked[N], own;
	struct world w;
	begin(&w);
	for (int i = 0; i < N; i++) {
		blocked[i] = make(&w, i, true);
		inf_helper_post_for_user(w.helper, &blocked[i].work, &owners[i]);
	}
	wait_until(&w, &w.n_blocked, INF_HELPER_MAX_UPLOADED);
	own = make(&w, 99, false);
	inf_helper_post(w.helper, &own.work, NULL);
	reap(&w, 1);
	assert_int_equal(w.order[0], 99);
	assert_int_equal(w.n_blocked, INF_HELPER_MAX_UPLOADED);
	open_gate(&w);
	reap(&w, 1 + N);
	end(&w);
}

/* One thread sleeps, two owners come at the same time and the first one blocks: the second is not behind it. */
static void test_two_at_once(void **state)
{
	static const int owners[2];
	for (int i = 0; i < 100; i++) {
		struct piece first, blocked, free_one;
		struct world w;
		begin(&w);
		first = make(&w, 0, false);
		blocked = make(&w, 1, true);
		free_one = make(&w, 2, false);
		inf_helper_post_for_user(w.helper, &first.work, &owners[0]);
		reap(&w, 1); /* which takes the lock that its thread gives back when it sleeps */
		inf_helper_post_for_user(w.helper, &blocked.work, &owners[0]);
		inf_helper_post_for_user(w.helper, &free_one.work, &owners[1]);
		reap(&w, 2);
		assert_int_equal(w.order[1], 2);
		assert_false(inf_helper_is_idle(w.helper));
		open_gate(&w);
		reap(&w, 3);
		assert_true(inf_helper_is_idle(w.helper));
		end(&w);
	}
}

static int count_threads(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/task");
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* All work of one owner is done by one thread. */
static void test_one_thread_an_owner(void **state)
{
	enum { N = 32 };
	static const int owners[2];
	struct piece pieces[N];
	struct world w;
	begin(&w);
	/* with those of other tests, perhaps, that were waited for and that the kernel is not done with */
	int n_before = count_threads();
	for (int i = 0; i < N; i++) {
		pieces[i] = make(&w, i, i < 2);
		inf_helper_post_for_user(w.helper, &pieces[i].work, &owners[i == 1]);
	}
	wait_until(&w, &w.n_blocked, 2);
	assert_true(count_threads() <= n_before + 2);
	open_gate(&w);
	reap(&w, N);
	end(&w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_leaving),
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_the_daemons),
		cmocka_unit_test(test_all_blocked),
		cmocka_unit_test(test_two_at_once),
		cmocka_unit_test(test_one_thread_an_owner),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
