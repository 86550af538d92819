/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of threads for loops, made for machines on which other processes use the cores, too.
 *
 * Debian's pthreadpool waits after each loop until all of its threads have looked at the loop. Where a neighbour runs
 * on a core, one of the threads waits for its turn, some milliseconds, and a run is hundreds of loops: seconds. Here:
 *   - A loop is over when all of its items are done. A thread that has not begun by then is not waited for: the loop
 *     is closed, and the others, the calling thread at least, have done its items.
 *   - The calling thread waits only for items that others have begun. No one else can do these: the thread that was
 *     stopped within one would later write over what was computed since.
 *   - The calling thread counts what the others saved it and what it waited for them. When waiting has cost more than
 *     was saved, it goes on alone: for PAUSE_FACTOR times the loss, and each further time for twice as long, at most
 *     MAX_PAUSE_NS, until the others have saved MAX_CREDIT_NS again.
 *
 * The items are divided into one range for each thread, the same ones each time, because a thread's core has the same
 * weights in its cache. A thread takes the items of its range from the front, then the others' from the back.
 *
 * Short loops are run by the calling thread alone, where that is faster (loop_sharing.h). A loop is known again by what
 * it does, with what, with how many items, and by the two loops before it: loops of portable kernels have no object
 * that lasts.
 *
 * Between two loops the threads spin, because waking one takes longer than most loops: for SPIN_NS, until
 * et_xnn_pool_rest, or until the caller goes on alone. */
#include "delegates/xnnpack/pool/pool.h"

#include "delegates/xnnpack/pool/clock.h"
#include "delegates/xnnpack/pool/loop_sharing.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#define SPIN_NS       UINT64_C(1000000)
#define LOOK_NS       UINT64_C(1000000)
#define WAIT_SPIN_NS  UINT64_C(50000)
#define MAX_CREDIT_NS INT64_C(8000000) /* two turns of a neighbour on a core */
#define MAX_PAUSE_NS  INT64_C(1000000000)
enum { PAUSE_FACTOR = 16, SPINS_PER_LOOK = 64, CACHE_LINE = 64 };
enum { N_SHARINGS = 1024, N_LOOPS_BEFORE = 2 };

/* pthreadpool.entry: whether threads may join the loop, and how many are in it. */
enum { IS_OPEN = 1, IS_AWAITED = 2, ONE_THREAD = 4 };

struct range {
	_Alignas(CACHE_LINE) _Atomic(uint64_t) items; /* begin | end << 32 */
};

struct helper {
	struct pthreadpool *pool;
	pthread_t thread;
	size_t index;
};

/* The calling thread's at one moment. */
struct clocks {
	uint64_t wall_ns, core_ns;
};

struct pthreadpool {
	uint32_t n_threads;
	uint32_t n_started;
	/* Of the calling thread alone. */
	uint64_t alone_until_ns;
	int64_t credit_ns; /* what the others saved, less what waiting for them cost; at most MAX_CREDIT_NS */
	uint32_t n_losses; /* times that it fell below 0 since it was MAX_CREDIT_NS */
	struct clocks last;
	uint64_t before[N_LOOPS_BEFORE]; /* which loops were the last ones */
	struct et_xnn_loop_sharing
		*sharings; /* N_SHARINGS, each at its key's place: of two with one place the later stays */
	/* Written by the calling thread while no other thread is in a loop. */
	const struct et_xnn_loop *loop;
	struct range *ranges;
	struct helper *helpers;
	_Alignas(CACHE_LINE) _Atomic(uint32_t) n_loops; /* futex: a loop has begun, or stop */
	_Atomic(uint32_t) n_asleep;
	_Atomic(bool) may_spin, is_stopping;
	_Alignas(CACHE_LINE) _Atomic(uint32_t) entry; /* futex: the last thread has left */
};

static void pause_core(void)
{
#ifdef __SSE2__
	_mm_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic(uint32_t) *word, uint32_t expected)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic(uint32_t) *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* --- a loop ------------------------------------------------------------------------------------------- */

/* Let this thread compute with zeros for subnormal floats from now on. Returns the old mode. */
static uint64_t flush(void)
{
	uint64_t before = 0;
#ifdef __SSE2__
	before = _mm_getcsr();
	_mm_setcsr((unsigned)before | 0x8040); /* results and operands */
#elif defined(__aarch64__)
	__asm__ volatile("mrs %0, fpcr" : "=r"(before));
	__asm__ volatile("msr fpcr, %0" : : "r"(before | UINT64_C(1) << 24) : "memory");
#endif
	return before;
}

static void unflush(uint64_t before)
{
#ifdef __SSE2__
	_mm_setcsr((unsigned)before);
#elif defined(__aarch64__)
	__asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory");
#else
	(void)before;
#endif
}

/* Take one item of @range, from the front or the back; false: none is left. */
static bool take(struct range *range, bool is_front, uint32_t *ret_item)
{
	uint64_t items = atomic_load_explicit(&range->items, memory_order_relaxed), rest;
	uint32_t begin, end;
	do {
		begin = (uint32_t)items;
		end = (uint32_t)(items >> 32);
		if (begin >= end)
			return false;
		rest = is_front ? items + 1 : items - (UINT64_C(1) << 32);
	} while (!atomic_compare_exchange_weak_explicit(&range->items, &items, rest, memory_order_relaxed,
		memory_order_relaxed));
	*ret_item = is_front ? begin : end - 1;
	return true;
}

/* Returns how many of the items this thread ran. */
static uint32_t run_items(struct pthreadpool *pool, size_t thread)
{
	const struct et_xnn_loop *loop = pool->loop;
	uint32_t n = 0;
	uint64_t before = loop->flushes ? flush() : 0;
	for (size_t i = 0; i < pool->n_threads; i++) {
		struct range *range = &pool->ranges[(thread + i) % pool->n_threads];
		for (uint32_t item; take(range, i == 0, &item); n++)
			loop->run(loop, thread, item, item + 1);
	}
	if (loop->flushes)
		unflush(before);
	return n;
}

static void run_alone(const struct et_xnn_loop *loop)
{
	uint64_t before = loop->flushes ? flush() : 0;
	if (loop->n_items)
		loop->run(loop, 0, 0, loop->n_items);
	if (loop->flushes)
		unflush(before);
}

/* --- helpers: all threads but the calling one --------------------------------------------------------- */

/* Join the open loop, if there is one. The acquire pairs with the release in open_loop. */
static bool join(struct pthreadpool *pool)
{
	uint32_t entry = atomic_load_explicit(&pool->entry, memory_order_relaxed);
	do {
		if (!(entry & IS_OPEN))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&pool->entry, &entry, entry + ONE_THREAD, memory_order_acquire,
		memory_order_relaxed));
	return true;
}

/* The release pairs with the acquire in close_loop: what the items have written is seen there. */
static void leave(struct pthreadpool *pool)
{
	if (atomic_fetch_sub_explicit(&pool->entry, ONE_THREAD, memory_order_release) == (IS_AWAITED | ONE_THREAD))
		futex_wake(&pool->entry, 1);
}

/* Wait for another loop than number @seen; return its number. */
static uint32_t await_loop(struct pthreadpool *pool, uint32_t seen)
{
	uint32_t n_loops, n_spins = 0;
	uint64_t end_ns = 0;
	while ((n_loops = atomic_load_explicit(&pool->n_loops, memory_order_acquire)) == seen) {
		pause_core();
		if (++n_spins % SPINS_PER_LOOK)
			continue;
		uint64_t now = et_xnn_now_ns();
		end_ns = end_ns ? end_ns : now + SPIN_NS;
		if (now < end_ns && atomic_load_explicit(&pool->may_spin, memory_order_relaxed))
			continue;
		/* Sequentially consistent, as the other side: either it sees n_asleep, or this sees n_loops. */
		atomic_fetch_add(&pool->n_asleep, 1);
		if (atomic_load(&pool->n_loops) == seen)
			futex_wait(&pool->n_loops, seen);
		atomic_fetch_sub(&pool->n_asleep, 1);
	}
	return n_loops;
}

static void *helper_main(void *arg)
{
	const struct helper *helper = arg;
	struct pthreadpool *pool = helper->pool;
	uint32_t seen = 0;
	for (;;) {
		seen = await_loop(pool, seen);
		if (atomic_load_explicit(&pool->is_stopping, memory_order_relaxed))
			return NULL;
		if (!join(pool))
			continue;
		run_items(pool, helper->index);
		leave(pool);
	}
}

/* --- the calling thread ------------------------------------------------------------------------------- */

static void wake_helpers(struct pthreadpool *pool)
{
	atomic_fetch_add(&pool->n_loops, 1);
	if (atomic_load(&pool->n_asleep))
		futex_wake(&pool->n_loops, (int)pool->n_threads);
}

static void open_loop(struct pthreadpool *pool, const struct et_xnn_loop *loop)
{
	uint64_t n = loop->n_items;
	pool->loop = loop;
	for (uint64_t i = 0; i < pool->n_threads; i++)
		atomic_store_explicit(&pool->ranges[i].items,
			n * i / pool->n_threads | (n * (i + 1) / pool->n_threads) << 32, memory_order_relaxed);
	atomic_store_explicit(&pool->may_spin, true, memory_order_relaxed);
	atomic_store_explicit(&pool->entry, IS_OPEN, memory_order_release);
	wake_helpers(pool);
}

/* Let no more threads in, and wait for those that are in. Returns for how long. */
static uint64_t close_loop(struct pthreadpool *pool, uint64_t from_ns)
{
	uint64_t now = from_ns;
	uint32_t n_spins = 0;
	uint32_t entry = atomic_fetch_and_explicit(&pool->entry, ~(uint32_t)IS_OPEN, memory_order_acquire) & ~IS_OPEN;
	while (entry) {
		pause_core();
		if (++n_spins % SPINS_PER_LOOK == 0)
			now = et_xnn_now_ns();
		if (now - from_ns >= WAIT_SPIN_NS && !(entry & IS_AWAITED)) {
			/* Sleep: the thread that is waited for may want this very core. */
			atomic_fetch_or_explicit(&pool->entry, IS_AWAITED, memory_order_relaxed);
		} else if (entry & IS_AWAITED && entry != IS_AWAITED) {
			futex_wait(&pool->entry, entry);
		}
		entry = atomic_load_explicit(&pool->entry, memory_order_acquire);
		if (entry == IS_AWAITED)
			break;
	}
	atomic_store_explicit(&pool->entry, 0, memory_order_relaxed);
	return et_xnn_now_ns() - from_ns;
}

/* Of @ns until @now, what this thread may have run at most: less, if the kernel gave its core to another thread. The
 * clock of the core is a system call, so it is read for what matters: it was read at most LOOK_NS before the loop. */
static uint64_t core_time(struct pthreadpool *pool, uint64_t ns, uint64_t now)
{
	if (ns < LOOK_NS / 4)
		return ns;
	struct clocks last = pool->last;
	pool->last = (struct clocks){ .wall_ns = now, .core_ns = et_xnn_clock_ns(CLOCK_THREAD_CPUTIME_ID) };
	uint64_t core_ns = pool->last.core_ns - last.core_ns;
	return core_ns < ns ? core_ns : ns;
}

uint64_t et_xnn_pool_pause_ns(int64_t lost_ns, uint32_t n_losses)
{
	int64_t pause_ns = lost_ns < MAX_PAUSE_NS ? lost_ns * PAUSE_FACTOR : MAX_PAUSE_NS;
	for (uint32_t i = 0; i < n_losses && pause_ns < MAX_PAUSE_NS; i++)
		pause_ns *= 2;
	return (uint64_t)(pause_ns < MAX_PAUSE_NS ? pause_ns : MAX_PAUSE_NS);
}

/* Count a loop: the calling thread ran @n_own of its items in @own_ns, until @done_ns, and then waited. */
static void count_loop(struct pthreadpool *pool, const struct et_xnn_loop *loop, uint32_t n_own, uint64_t own_ns,
	uint64_t done_ns, uint64_t waited_ns)
{
	double n_per_own = (double)(loop->n_items - n_own) / (n_own ? n_own : 1);
	double n_others = pool->n_threads - 1;
	uint64_t core_ns = core_time(pool, own_ns, done_ns);
	double saved_ns = (double)core_ns * (n_per_own < n_others ? n_per_own : n_others);
	waited_ns += own_ns - core_ns;
	pool->credit_ns += (int64_t)saved_ns - (int64_t)waited_ns;
	if (pool->credit_ns >= MAX_CREDIT_NS) {
		pool->credit_ns = MAX_CREDIT_NS;
		pool->n_losses = 0;
	}
	if (pool->credit_ns >= 0)
		return;
	pool->alone_until_ns = et_xnn_now_ns() + et_xnn_pool_pause_ns(-pool->credit_ns, pool->n_losses);
	pool->credit_ns = 0;
	pool->n_losses++;
	atomic_store_explicit(&pool->may_spin, false, memory_order_relaxed);
}

static uint64_t mixed(uint64_t a, uint64_t b)
{
	uint64_t product = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15); /* the golden ratio: Knuth, volume 3, 6.4 */
	return product ^ product >> 32;
}

/* What is known of @loop, which follows those that this was called for. NULL: it is shared in any case. */
static struct et_xnn_loop_sharing *find_sharing(struct pthreadpool *pool, const struct et_xnn_loop *loop)
{
	if (!loop->function)
		return NULL;
	uint64_t this = mixed(mixed(loop->function, loop->object), loop->n_items), key = this;
	for (size_t i = 0; i < N_LOOPS_BEFORE; i++) {
		key = mixed(key, pool->before[i]);
		uint64_t earlier = pool->before[i];
		pool->before[i] = this;
		this = earlier;
	}
	key |= 1;
	struct et_xnn_loop_sharing *sharing = &pool->sharings[key / 2 % N_SHARINGS];
	if (sharing->key != key)
		*sharing = (struct et_xnn_loop_sharing){ .key = key };
	return sharing;
}

void et_xnn_pool_run(struct pthreadpool *pool, const struct et_xnn_loop *loop)
{
	if (!pool || loop->n_items <= 1 || loop->n_items > UINT32_MAX) {
		run_alone(loop);
		return;
	}
	struct et_xnn_loop_sharing *sharing = find_sharing(pool, loop);
	uint64_t began_ns = et_xnn_now_ns();
	bool is_timed = false;
	if (began_ns < pool->alone_until_ns) {
		run_alone(loop);
		return;
	}
	if (sharing && !et_xnn_loop_sharing_next(sharing, &is_timed)) {
		run_alone(loop);
		if (is_timed)
			et_xnn_loop_sharing_count(sharing, false, et_xnn_now_ns() - began_ns);
		return;
	}
	if (began_ns - pool->last.wall_ns > LOOK_NS)
		pool->last = (struct clocks){ .wall_ns = began_ns,
			.core_ns = et_xnn_clock_ns(CLOCK_THREAD_CPUTIME_ID) };
	open_loop(pool, loop);
	uint32_t n_own = run_items(pool, 0);
	uint64_t done_ns = et_xnn_now_ns();
	uint64_t waited_ns = close_loop(pool, done_ns);
	count_loop(pool, loop, n_own, done_ns - began_ns, done_ns, waited_ns);
	if (is_timed)
		et_xnn_loop_sharing_count(sharing, true, done_ns - began_ns + waited_ns);
}

void et_xnn_pool_rest(struct pthreadpool *pool)
{
	if (pool)
		atomic_store_explicit(&pool->may_spin, false, memory_order_relaxed);
}

size_t et_xnn_pool_n_threads(const struct pthreadpool *pool)
{
	return pool ? pool->n_threads : 1;
}

/* --- life --------------------------------------------------------------------------------------------- */

struct pthreadpool *et_xnn_pool_new(uint32_t n_threads)
{
	struct pthreadpool *pool = aligned_alloc(CACHE_LINE, sizeof(*pool));
	struct range *ranges = aligned_alloc(CACHE_LINE, n_threads * sizeof(*ranges));
	struct helper *helpers = calloc(n_threads, sizeof(*helpers));
	struct et_xnn_loop_sharing *sharings = calloc(N_SHARINGS, sizeof(*sharings));
	if (!pool || !ranges || !helpers || !sharings) {
		free(sharings);
		free(helpers);
		free(ranges);
		free(pool);
		return NULL;
	}
	*pool = (struct pthreadpool){
		.n_threads = n_threads,
		.ranges = ranges,
		.helpers = helpers,
		.sharings = sharings,
	};
	for (uint32_t i = 1; i < n_threads; i++) {
		struct helper *helper = &helpers[pool->n_started];
		*helper = (struct helper){ .pool = pool, .index = i };
		if (pthread_create(&helper->thread, NULL, helper_main, helper)) {
			et_xnn_pool_free(pool);
			return NULL;
		}
		pool->n_started++;
	}
	return pool;
}

void et_xnn_pool_free(struct pthreadpool *pool)
{
	if (!pool)
		return;
	atomic_store_explicit(&pool->is_stopping, true, memory_order_relaxed);
	wake_helpers(pool);
	for (uint32_t i = 0; i < pool->n_started; i++)
		pthread_join(pool->helpers[i].thread, NULL);
	free(pool->sharings);
	free(pool->helpers);
	free(pool->ranges);
	free(pool);
}
