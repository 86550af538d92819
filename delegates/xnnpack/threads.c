/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's threads and workspace, and loops of portable kernels over those threads.
 *
 * Inside a run the threads spin and wait for the next loop, as pthreadpool does: waking a thread takes longer than
 * most loops. After a run they would spin for a million iterations, some milliseconds. So a caller that has other
 * work for these cores, or none, tells the threads to rest. pthreadpool has a flag of a loop for that, which says
 * what its threads do when the loop is done. XNNPACK could set the flag for each payload's last operator, but a
 * program may have many payloads, with kernels between them, and only the runner knows when a run is over. So to
 * rest is an empty loop with that flag. */
#include "delegates/xnnpack/threads.h"

#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/prebuilt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

enum { MAX_THREADS = 1024, PIECES_PER_THREAD = 4 };

struct loop {
	void (*fn)(void *arg, size_t begin, size_t end);
	void *arg;
	size_t n;
	size_t step;
	bool flushes;
	_Atomic(unsigned) handover;
};

/* Let this thread compute with zeros for subnormal floats from now on, as XNNPACK's loops do. Returns the old mode. */
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

static void run_piece(const struct loop *loop, size_t begin, size_t end)
{
	uint64_t before = loop->flushes ? flush() : 0;
	loop->fn(loop->arg, begin, end);
	if (loop->flushes)
		unflush(before);
}

static void loop_piece(void *self, size_t begin, size_t n)
{
	struct loop *loop = self;
	/* Acquire before anything else of the loop is read, and release at the end: they pair with those in
	 * et_xnn_threads_parallel_for. The pool itself orders these accesses, but a thread checker that does not see
	 * into the pool's library cannot know. */
	(void)atomic_load_explicit(&loop->handover, memory_order_acquire);
	size_t end = begin + n < loop->n ? begin + n : loop->n;
	run_piece(loop, begin, end);
	atomic_fetch_add_explicit(&loop->handover, 1, memory_order_release);
}

void et_xnn_threads_parallel_for(struct inferd_delegate_worker_threads *threads,
	void (*fn)(void *arg, size_t begin, size_t end), void *arg, size_t n, size_t grain)
{
	size_t n_threads = threads->pool ? pthreadpool_get_threads_count(threads->pool) : 1;
	struct loop loop = { .fn = fn, .arg = arg, .n = n, .flushes = threads->flushes };
	if (grain == 0)
		grain = 1;
	if (n_threads <= 1 || n <= grain) {
		if (n)
			run_piece(&loop, 0, n);
		return;
	}
	/* A few pieces for each thread, so that a slow thread does not hold up the others. */
	size_t step = n / (n_threads * PIECES_PER_THREAD);
	loop.step = step > grain ? step : grain;
	atomic_store_explicit(&loop.handover, 0, memory_order_release);
	threads->is_awake = true;
	pthreadpool_parallelize_1d_tile_1d(threads->pool, loop_piece, &loop, n, loop.step, 0);
	(void)atomic_load_explicit(&loop.handover, memory_order_acquire);
}

static void nothing(void *self, size_t index)
{
}

void et_xnn_threads_rest(struct inferd_delegate_worker_threads *threads)
{
	if (!threads->is_awake)
		return;
	pthreadpool_parallelize_1d(threads->pool, nothing, NULL, pthreadpool_get_threads_count(threads->pool),
		PTHREADPOOL_FLAG_YIELD_WORKERS);
	threads->is_awake = false;
}

/* --- workspaces ---------------------------------------------------------------------------------------- */

/* The workspace and memory of one worker's thread. */
struct et_xnn_worker_space {
	struct et_list_node node;
	pthread_t owner;
	uint32_t n_worker_threads; /* the objects that use this: a worker may have one for each of several widths */
	/* Only the owner uses these. */
	xnn_workspace_t workspace;  /* NULL: no instance uses it */
	struct et_list_node spares; /* spare prebuilt runtimes in the workspace */
	void *memory;               /* for boundary tensors */
	size_t n_memory;
	uint32_t n_users; /* instances that took the workspace */
	/* Bytes of all that together, and of instances. Its n_bytes are for other threads to read. */
	struct et_xnn_memory_account account;
};

void et_xnn_threads_count(struct inferd_delegate_worker_threads *threads, int64_t n_more)
{
	threads->space->account.n_other += (uint64_t)n_more;
	et_xnn_memory_settle(&threads->space->account);
}

struct et_xnn_memory_account *et_xnn_threads_account(struct inferd_delegate_worker_threads *threads)
{
	return &threads->space->account;
}

uint64_t et_xnn_threads_bytes(const struct inferd_delegate_worker_threads *threads)
{
	return threads->is_first ? atomic_load_explicit(&threads->space->account.n_bytes, memory_order_relaxed) : 0;
}

static void drop_memory(struct et_xnn_worker_spaces *spaces, struct et_xnn_worker_space *space)
{
	spaces->allocator.free(spaces->allocator.self, space->memory, space->n_memory);
	space->account.n_other -= space->n_memory;
	space->memory = NULL;
	space->n_memory = 0;
}

/* The memory is cleared, so that its pages are there before the first run. */
void *et_xnn_threads_memory(struct inferd_delegate_worker_threads *threads, size_t n_bytes)
{
	struct et_xnn_worker_spaces *spaces = threads->spaces;
	struct et_xnn_worker_space *space = threads->space;
	if (n_bytes <= space->n_memory && space->memory)
		return space->memory;
	drop_memory(spaces, space);
	n_bytes = n_bytes ? n_bytes : 1;
	if (!et_xnn_memory_charge(&space->account, n_bytes))
		return NULL;
	space->memory = spaces->allocator.alloc(spaces->allocator.self, n_bytes, ET_XNN_MEMORY_ALIGNMENT);
	if (!space->memory)
		return NULL;
	space->n_memory = n_bytes;
	space->account.n_other += n_bytes;
	return memset(space->memory, 0, n_bytes);
}

void et_xnn_worker_spaces_init(struct et_xnn_worker_spaces *spaces, const struct et_allocator *allocator,
	bool threads_move)
{
	spaces->allocator = *allocator;
	spaces->threads_move = threads_move;
	atomic_init(&spaces->bound.n_bytes, 0);
	atomic_init(&spaces->bound.max_bytes, UINT64_MAX);
	pthread_mutex_init(&spaces->lock, NULL);
	et_list_init(&spaces->list);
}

void et_xnn_worker_spaces_deinit(struct et_xnn_worker_spaces *spaces)
{
	pthread_mutex_destroy(&spaces->lock);
}

/* This thread's space, made if there is none. Where threads move, each object has its own space. Under the lock. */
static enum et_status space_find(struct et_xnn_worker_spaces *spaces, struct et_xnn_worker_space **ret_space,
	struct et_diag *diag)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &spaces->list) {
		*ret_space = ET_CONTAINER_OF(node, struct et_xnn_worker_space, node);
		if (!spaces->threads_move && pthread_equal((*ret_space)->owner, pthread_self()))
			return ET_OK;
	}
	struct et_xnn_worker_space *space = spaces->allocator.alloc(spaces->allocator.self, sizeof(*space),
		_Alignof(struct et_xnn_worker_space));
	if (!space)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for worker threads");
	*space = (struct et_xnn_worker_space){ .owner = pthread_self(),
		.account = { .bound = &spaces->bound,
			.n_before = et_xnn_memory_held(),
			.threads_move = spaces->threads_move } };
	et_list_init(&space->spares);
	et_list_append(&spaces->list, &space->node);
	*ret_space = space;
	return ET_OK;
}

static enum et_status space_get(struct et_xnn_worker_spaces *spaces, struct et_xnn_worker_space **ret_space,
	bool *ret_is_first, struct et_diag *diag)
{
	pthread_mutex_lock(&spaces->lock);
	enum et_status status = space_find(spaces, ret_space, diag);
	if (status == ET_OK)
		*ret_is_first = (*ret_space)->n_worker_threads++ == 0;
	pthread_mutex_unlock(&spaces->lock);
	return status;
}

static void space_put(struct et_xnn_worker_spaces *spaces, struct et_xnn_worker_space *space)
{
	pthread_mutex_lock(&spaces->lock);
	if (--space->n_worker_threads == 0) {
		et_list_remove(&space->node);
		et_xnn_memory_settle(&space->account);
		atomic_fetch_sub_explicit(&spaces->bound.n_bytes,
			atomic_load_explicit(&space->account.n_bytes, memory_order_relaxed), memory_order_relaxed);
		spaces->allocator.free(spaces->allocator.self, space, sizeof(*space));
	}
	pthread_mutex_unlock(&spaces->lock);
}

enum et_status et_xnn_workspace_new(xnn_workspace_t *ret_workspace, struct et_diag *diag)
{
	xnn_workspace_t workspace = NULL;
	enum xnn_status status = et_xnn_settle(xnn_create_workspace(&workspace));
	if (status != xnn_status_success) {
		if (workspace)
			xnn_release_workspace(workspace);
		return et_fail(diag, et_xnn_status_of(status), "XNNPACK can't make a workspace: %s",
			et_xnn_status_text(status));
	}
	*ret_workspace = workspace;
	return ET_OK;
}

enum et_status et_xnn_threads_take_workspace(struct inferd_delegate_worker_threads *threads,
	xnn_workspace_t *ret_workspace, struct et_diag *diag)
{
	struct et_xnn_worker_space *space = threads->space;
	enum et_status status = space->workspace ? ET_OK : et_xnn_workspace_new(&space->workspace, diag);
	if (status != ET_OK)
		return status;
	space->n_users++;
	*ret_workspace = space->workspace;
	return ET_OK;
}

void et_xnn_threads_give_workspace(struct inferd_delegate_worker_threads *threads)
{
	struct et_xnn_worker_space *space = threads->space;
	if (--space->n_users)
		return;
	et_xnn_threads_drop_spares(threads);
	xnn_release_workspace(space->workspace);
	space->workspace = NULL;
	drop_memory(threads->spaces, space);
}

bool et_xnn_threads_adopt_workspace(struct inferd_delegate_worker_threads *threads, xnn_workspace_t workspace)
{
	struct et_xnn_worker_space *space = threads->space;
	if (space->workspace)
		return false;
	space->workspace = workspace;
	return true;
}

struct et_list_node *et_xnn_threads_spares(struct inferd_delegate_worker_threads *threads)
{
	return &threads->space->spares;
}

void et_xnn_threads_drop_spares(struct inferd_delegate_worker_threads *threads)
{
	et_xnn_prebuilt_list_clear(&threads->spaces->allocator, &threads->space->spares);
}

/* --- worker threads --------------------------------------------------------------------------------------------- */

static void *wait_for_release(void *release)
{
	pthread_mutex_lock(release);
	pthread_mutex_unlock(release);
	return NULL;
}

/* Whether @n more threads can run at a time. pthreadpool does not look: if one of its threads cannot be started, it
 * waits for that thread forever. */
static bool can_start(uint32_t n)
{
	pthread_t threads[MAX_THREADS];
	pthread_mutex_t release = PTHREAD_MUTEX_INITIALIZER;
	uint32_t n_started = 0;
	pthread_mutex_lock(&release);
	while (n_started < n && pthread_create(&threads[n_started], NULL, wait_for_release, &release) == 0)
		n_started++;
	pthread_mutex_unlock(&release);
	for (uint32_t i = 0; i < n_started; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&release);
	return n_started == n;
}

enum et_status et_xnn_threads_new(struct inferd_delegate_worker_threads **ret_threads,
	struct et_xnn_worker_spaces *spaces, uint32_t n_threads, struct et_diag *diag)
{
	if (n_threads == 0 || n_threads > MAX_THREADS)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "a worker of %u threads is not supported", n_threads);
	struct inferd_delegate_worker_threads *threads = spaces->allocator.alloc(spaces->allocator.self,
		sizeof(*threads), _Alignof(struct inferd_delegate_worker_threads));
	if (!threads)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for worker threads");
	memset(threads, 0, sizeof(*threads));
	threads->spaces = spaces;
	enum et_status status = space_get(spaces, &threads->space, &threads->is_first, diag);
	if (status != ET_OK) {
		threads->space = NULL;
		et_xnn_threads_free(threads);
		return status;
	}
	if (n_threads > 1) {
		threads->pool = can_start(n_threads - 1) ? pthreadpool_create(n_threads) : NULL;
		if (!threads->pool) {
			et_xnn_threads_free(threads);
			return et_fail(diag, ET_E_OUT_OF_RESOURCES, "can't start a pool of %u threads", n_threads);
		}
		threads->is_awake = true;
	}
	*ret_threads = threads;
	return ET_OK;
}

void et_xnn_threads_free(struct inferd_delegate_worker_threads *threads)
{
	if (!threads)
		return;
	struct et_xnn_worker_spaces *spaces = threads->spaces;
	if (threads->pool)
		pthreadpool_destroy(threads->pool);
	if (threads->space)
		space_put(spaces, threads->space);
	spaces->allocator.free(spaces->allocator.self, threads, sizeof(*threads));
}
