/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's threads and workspace, and loops of portable kernels over those threads.
 *
 * Inside a run the threads look around for the next loop, as pthreadpool has it: waking a thread takes longer than most
 * loops. After a run they would go on for a million looks, some milliseconds, so whoever has other work for these
 * cores, or none, tells them to rest. To pthreadpool that is a flag of a loop, for what its threads do when it is
 * done; XNNPACK could set it for each payload's last operator, but a program may have many payloads, with
 * kernels between them, and only the runner knows when a run is over. So to rest is an empty loop with that flag. */
#include "delegates/xnnpack/threads.h"

#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/prebuilt.h"

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

/* Floats below the smallest normal one are zeros for this thread from now on, as in XNNPACK's loops. Returns what was. */
static uint64_t flush(void)
{
	uint64_t before = 0;
#ifdef __SSE2__
	before = _mm_getcsr();
	_mm_setcsr((unsigned)before | 0x8040); /* of what comes out, and of what goes in */
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
	/* acquire, before anything else of it is read, and release: the pool itself orders these, but in a way that a
	 * thread checker which does not see into its library can't know; they pair with those in
	 * et_xnn_threads_parallel_for */
	(void)atomic_load_explicit(&loop->handover, memory_order_acquire);
	size_t end = begin + n < loop->n ? begin + n : loop->n;
	run_piece(loop, begin, end);
	atomic_fetch_add_explicit(&loop->handover, 1, memory_order_release);
}

void et_xnn_threads_parallel_for(struct inferd_delegate_worker_threads *threads,
	void (*fn)(void *arg, size_t begin, size_t end), void *arg, size_t n, size_t grain)
{
	size_t n_threads = threads->threads ? pthreadpool_get_threads_count(threads->threads) : 1;
	struct loop loop = { .fn = fn, .arg = arg, .n = n, .flushes = threads->flushes };
	if (grain == 0)
		grain = 1;
	if (n_threads <= 1 || n <= grain) {
		if (n)
			run_piece(&loop, 0, n);
		return;
	}
	/* A few pieces for each thread, so that a slow one does not hold up the rest. */
	size_t step = n / (n_threads * PIECES_PER_THREAD);
	loop.step = step > grain ? step : grain;
	atomic_store_explicit(&loop.handover, 0, memory_order_release);
	threads->is_awake = true;
	pthreadpool_parallelize_1d_tile_1d(threads->threads, loop_piece, &loop, n, loop.step, 0);
	(void)atomic_load_explicit(&loop.handover, memory_order_acquire);
}

static void nothing(void *self, size_t index)
{
}

void et_xnn_threads_rest(struct inferd_delegate_worker_threads *threads)
{
	if (!threads->is_awake)
		return;
	pthreadpool_parallelize_1d(threads->threads, nothing, NULL, pthreadpool_get_threads_count(threads->threads),
		PTHREADPOOL_FLAG_YIELD_WORKERS);
	threads->is_awake = false;
}

/* --- workspaces ---------------------------------------------------------------------------------------- */

/* One thread's. */
struct et_xnn_space {
	struct et_list_node node;
	pthread_t owner;
	uint32_t n_thread_sets;
	/* These are its thread's. */
	xnn_workspace_t workspace;  /* NULL: nobody uses it */
	struct et_list_node spares; /* rehearsals in it */
	void *memory;               /* between parts */
	size_t n_memory;
	uint32_t n_users;
	uint64_t n_counted;        /* of contexts, besides what XNNPACK allocates */
	uint64_t n_held_before;    /* by XNNPACK on this thread, when this was made */
	_Atomic(uint64_t) n_bytes; /* all of it, for others to read */
};

void et_xnn_threads_count(struct inferd_delegate_worker_threads *threads, int64_t n_more)
{
	struct et_xnn_space *space = threads->space;
	space->n_counted += (uint64_t)n_more;
	atomic_store_explicit(&space->n_bytes,
		space->n_counted + space->n_memory + et_xnn_memory_held() - space->n_held_before, memory_order_relaxed);
}

uint64_t et_xnn_threads_bytes(const struct inferd_delegate_worker_threads *threads)
{
	return threads->is_first ? atomic_load_explicit(&threads->space->n_bytes, memory_order_relaxed) : 0;
}

static void drop_memory(struct et_xnn_thread_sets *thread_sets, struct et_xnn_space *space)
{
	thread_sets->allocator.free(thread_sets->allocator.self, space->memory, space->n_memory);
	space->memory = NULL;
	space->n_memory = 0;
}

/* Cleared, so that its pages are there before the first run. */
void *et_xnn_threads_memory(struct inferd_delegate_worker_threads *threads, size_t n_bytes)
{
	struct et_xnn_thread_sets *thread_sets = threads->thread_sets;
	struct et_xnn_space *space = threads->space;
	if (n_bytes <= space->n_memory && space->memory)
		return space->memory;
	drop_memory(thread_sets, space);
	n_bytes = n_bytes ? n_bytes : 1;
	space->memory = thread_sets->allocator.alloc(thread_sets->allocator.self, n_bytes, ET_XNN_MEMORY_ALIGNMENT);
	if (!space->memory)
		return NULL;
	space->n_memory = n_bytes;
	return memset(space->memory, 0, n_bytes);
}

void et_xnn_thread_sets_init(struct et_xnn_thread_sets *thread_sets, const struct et_allocator *allocator)
{
	thread_sets->allocator = *allocator;
	pthread_mutex_init(&thread_sets->lock, NULL);
	et_list_init(&thread_sets->spaces);
}

void et_xnn_thread_sets_deinit(struct et_xnn_thread_sets *thread_sets)
{
	pthread_mutex_destroy(&thread_sets->lock);
}

/* Under the lock: this thread's, made if there is none. */
static enum et_status space_find(struct et_xnn_thread_sets *thread_sets, struct et_xnn_space **ret_space,
	struct et_diag *diag)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &thread_sets->spaces) {
		*ret_space = ET_CONTAINER_OF(node, struct et_xnn_space, node);
		if (pthread_equal((*ret_space)->owner, pthread_self()))
			return ET_OK;
	}
	struct et_xnn_space *space = thread_sets->allocator.alloc(thread_sets->allocator.self, sizeof(*space),
		_Alignof(struct et_xnn_space));
	if (!space)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a lane");
	*space = (struct et_xnn_space){ .owner = pthread_self(), .n_held_before = et_xnn_memory_held() };
	et_list_init(&space->spares);
	et_list_append(&thread_sets->spaces, &space->node);
	*ret_space = space;
	return ET_OK;
}

static enum et_status space_get(struct et_xnn_thread_sets *thread_sets, struct et_xnn_space **ret_space,
	bool *ret_is_first, struct et_diag *diag)
{
	pthread_mutex_lock(&thread_sets->lock);
	enum et_status status = space_find(thread_sets, ret_space, diag);
	if (status == ET_OK)
		*ret_is_first = (*ret_space)->n_thread_sets++ == 0;
	pthread_mutex_unlock(&thread_sets->lock);
	return status;
}

static void space_put(struct et_xnn_thread_sets *thread_sets, struct et_xnn_space *space)
{
	pthread_mutex_lock(&thread_sets->lock);
	if (--space->n_thread_sets == 0) {
		et_list_remove(&space->node);
		thread_sets->allocator.free(thread_sets->allocator.self, space, sizeof(*space));
	}
	pthread_mutex_unlock(&thread_sets->lock);
}

enum et_status et_xnn_workspace_new(xnn_workspace_t *ret_workspace, struct et_diag *diag)
{
	xnn_workspace_t workspace = NULL;
	enum xnn_status status = et_xnn_settle(xnn_create_workspace(&workspace));
	if (status != xnn_status_success) {
		if (workspace)
			xnn_release_workspace(workspace);
		return et_fail(diag, et_xnn_status_of(status), "XNNPACK makes no workspace: %s",
			et_xnn_status_text(status));
	}
	*ret_workspace = workspace;
	return ET_OK;
}

enum et_status et_xnn_threads_take_workspace(struct inferd_delegate_worker_threads *threads,
	xnn_workspace_t *ret_workspace, struct et_diag *diag)
{
	struct et_xnn_space *space = threads->space;
	enum et_status status = space->workspace ? ET_OK : et_xnn_workspace_new(&space->workspace, diag);
	if (status != ET_OK)
		return status;
	space->n_users++;
	*ret_workspace = space->workspace;
	return ET_OK;
}

void et_xnn_threads_give_workspace(struct inferd_delegate_worker_threads *threads)
{
	struct et_xnn_space *space = threads->space;
	if (--space->n_users)
		return;
	et_xnn_threads_drop_spares(threads);
	xnn_release_workspace(space->workspace);
	space->workspace = NULL;
	drop_memory(threads->thread_sets, space);
}

bool et_xnn_threads_adopt_workspace(struct inferd_delegate_worker_threads *threads, xnn_workspace_t workspace)
{
	struct et_xnn_space *space = threads->space;
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
	et_xnn_rehearsals_clear(&threads->thread_sets->allocator, &threads->space->spares);
}

/* --- lanes --------------------------------------------------------------------------------------------- */

enum et_status et_xnn_threads_new(struct inferd_delegate_worker_threads **ret_threads,
	struct et_xnn_thread_sets *thread_sets, uint32_t n_threads, struct et_diag *diag)
{
	if (n_threads == 0 || n_threads > MAX_THREADS)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "a lane of %u threads", n_threads);
	struct inferd_delegate_worker_threads *threads = thread_sets->allocator.alloc(thread_sets->allocator.self,
		sizeof(*threads), _Alignof(struct inferd_delegate_worker_threads));
	if (!threads)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a lane");
	memset(threads, 0, sizeof(*threads));
	threads->thread_sets = thread_sets;
	enum et_status status = space_get(thread_sets, &threads->space, &threads->is_first, diag);
	if (status != ET_OK) {
		threads->space = NULL;
		et_xnn_threads_free(threads);
		return status;
	}
	if (n_threads > 1) {
		threads->threads = pthreadpool_create(n_threads);
		if (!threads->threads) {
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
	struct et_xnn_thread_sets *thread_sets = threads->thread_sets;
	if (threads->threads)
		pthreadpool_destroy(threads->threads);
	if (threads->space)
		space_put(thread_sets, threads->space);
	thread_sets->allocator.free(thread_sets->allocator.self, threads, sizeof(*threads));
}
