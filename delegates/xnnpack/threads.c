/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's threads and workspace, and loops of portable kernels over those threads.
 *
 * Inside a run the threads spin and wait for the next loop, because waking a thread takes longer than most loops. Only
 * the runner knows when a run is over: a program may have many payloads, with kernels between them. So a caller that
 * has other work for these cores, or none, tells the threads to rest. */
#include "delegates/xnnpack/threads.h"

#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/pool/pool.h"
#include "delegates/xnnpack/prebuilt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { PIECES_PER_THREAD = 4 };

struct pieces {
	struct et_xnn_loop loop;
	void (*fn)(void *arg, size_t begin, size_t end);
	void *arg;
	size_t n, step;
};

static void run_pieces(const struct et_xnn_loop *loop, size_t thread, size_t begin, size_t end)
{
	const struct pieces *pieces = (const struct pieces *)loop; /* its first member */
	size_t to = end < loop->n_items ? end * pieces->step : pieces->n;
	pieces->fn(pieces->arg, begin * pieces->step, to);
}

void et_xnn_threads_parallel_for(struct inferd_delegate_worker_threads *threads,
	void (*fn)(void *arg, size_t begin, size_t end), void *arg, size_t n, size_t grain)
{
	/* A few pieces for each thread, so that a slow thread does not hold up the others. */
	size_t step = n / (et_xnn_pool_n_threads(threads->pool) * PIECES_PER_THREAD);
	if (step < grain)
		step = grain;
	if (!threads->pool || n <= step || step == 0)
		step = n ? n : 1;
	struct pieces pieces = {
		.loop = {
			.run = run_pieces,
			.n_items = n / step + (n % step != 0),
			.flushes = threads->flushes,
			.function = (uintptr_t)fn, /* @arg is on a stack, most often */
		},
		.fn = fn,
		.arg = arg,
		.n = n,
		.step = step,
	};
	et_xnn_pool_run(threads->pool, &pieces.loop);
}

void et_xnn_threads_rest(struct inferd_delegate_worker_threads *threads)
{
	et_xnn_pool_rest(threads->pool);
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

enum et_status et_xnn_threads_new(struct inferd_delegate_worker_threads **ret_threads,
	struct et_xnn_worker_spaces *spaces, uint32_t n_threads, struct et_diag *diag)
{
	if (n_threads == 0 || n_threads > ET_XNN_MAX_THREADS)
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
		threads->pool = et_xnn_pool_new(n_threads);
		if (!threads->pool) {
			et_xnn_threads_free(threads);
			return et_fail(diag, ET_E_OUT_OF_RESOURCES, "can't start a pool of %u threads", n_threads);
		}
	}
	*ret_threads = threads;
	return ET_OK;
}

void et_xnn_threads_free(struct inferd_delegate_worker_threads *threads)
{
	if (!threads)
		return;
	struct et_xnn_worker_spaces *spaces = threads->spaces;
	et_xnn_pool_free(threads->pool);
	if (threads->space)
		space_put(spaces, threads->space);
	spaces->allocator.free(spaces->allocator.self, threads, sizeof(*threads));
}
