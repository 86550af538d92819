/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of inferd that a host may map, too.
 *
 * import_memory makes clients' regions and the activations of programs known here. A run finds the memory that a
 * tensor lies in by the tensor's address, and names it to the host by a number. The host gets the descriptor
 * (SHARE) when it first needs it. When memory is released, the host forgets it at once.
 *
 * A process may have few descriptors, and all clients together may have more regions. So a host has at most
 * ET_PLUGIN_MAX_SHOWN of them at once, and ET_PLUGIN_MAX_KNOWN together with those of payloads. Beyond that, the
 * memory that was used longest ago and that no run holds is forgotten, and shared again when it is next used, under
 * another number: a number is never used again, since the host may handle packets in any order.
 *
 * A run holds the memory that it uses, so that it stays until the run has ended.
 *
 * A tenant's backend (tenant.c) imports nothing. What its runs find in the parent's table is copied into its own,
 * with a number of its own. So its host has no other memory. The copy is freed with its original. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/inferd-delegate.h"
#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>

/* Called under the lock: the index of the first memory that begins behind @at. */
static uint32_t index_behind(const struct et_backend *b, uintptr_t at)
{
	uint32_t low = 0, high = b->n_shared;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (b->shared[middle]->start <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Called under the lock. False: no memory. */
static bool insert(struct et_backend *b, struct et_plugin_shared *shared)
{
	if (b->n_shared == b->shared_room) {
		uint32_t room = b->shared_room ? 2 * b->shared_room : 16;
		struct et_plugin_shared **more = realloc(b->shared, room * sizeof *more);
		if (!more)
			return false;
		b->shared = more;
		b->shared_room = room;
	}
	uint32_t at = index_behind(b, shared->start);
	memmove(b->shared + at + 1, b->shared + at, (b->n_shared - at) * sizeof *b->shared);
	b->shared[at] = shared;
	b->n_shared++;
	return true;
}

enum et_status et_plugin_import_memory(struct et_backend *b, int fd, void *bytes, size_t n_bytes, void **ret_handle)
{
	struct et_plugin_shared *shared = calloc(1, sizeof *shared);
	if (!shared)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	shared->start = (uintptr_t)bytes;
	shared->n_bytes = n_bytes;
	shared->fd = fd;
	shared->id = et_plugin_new_handle(b);
	shared->owner = b;
	et_list_init(&shared->shown);
	et_list_init(&shared->copies);
	pthread_mutex_lock(&b->shared_lock);
	bool has_room = insert(b, shared);
	pthread_mutex_unlock(&b->shared_lock);
	if (!has_room) {
		free(shared);
		return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	*ret_handle = shared;
	return ET_OK;
}

/* Take @shared out of its backend's table, have the host forget it, and free it. A copy: with the lock of the
 * original's backend. */
static void shared_free(struct et_backend *b, struct et_plugin_shared *shared)
{
	pthread_mutex_lock(&b->shared_lock);
	uint32_t at = index_behind(b, shared->start);
	while (at > 0 && b->shared[at - 1] != shared)
		at--;
	if (at > 0) {
		memmove(b->shared + at - 1, b->shared + at, (b->n_shared - at) * sizeof *b->shared);
		b->n_shared--;
	}
	et_list_remove(&shared->shown);
	pthread_mutex_unlock(&b->shared_lock);
	et_plugin_forget(b, atomic_load(&shared->generation), shared->id);
	free(shared);
}

void et_plugin_release_memory(struct et_backend *b, void *handle)
{
	struct et_plugin_shared *shared = handle;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&b->shared_lock);
	ET_LIST_FOR_EACH(node, after, &shared->copies) {
		struct et_plugin_shared *copy = ET_CONTAINER_OF(node, struct et_plugin_shared, copies);
		et_list_remove(node);
		shared_free(copy->owner, copy);
	}
	pthread_mutex_unlock(&b->shared_lock);
	shared_free(b, shared);
}

void et_plugin_forget_memory(struct et_backend *b)
{
	if (!b->parent)
		return;
	pthread_mutex_lock(&b->parent->shared_lock);
	while (b->n_shared) {
		et_list_remove(&b->shared[b->n_shared - 1]->copies);
		shared_free(b, b->shared[b->n_shared - 1]);
	}
	pthread_mutex_unlock(&b->parent->shared_lock);
}

/* Called under the lock: find the memory that all of [start, start + n_bytes) lies in. */
static struct et_plugin_shared *look_up(struct et_backend *b, uintptr_t start, size_t n_bytes)
{
	uint32_t at = index_behind(b, start);
	bool is_inside = at > 0 && et_in_range(start - b->shared[at - 1]->start, n_bytes, b->shared[at - 1]->n_bytes);
	return is_inside ? b->shared[at - 1] : NULL;
}

static struct et_plugin_shared *find_in_table(struct et_backend *b, uintptr_t start, size_t n_bytes)
{
	pthread_mutex_lock(&b->shared_lock);
	struct et_plugin_shared *found = look_up(b, start, n_bytes);
	if (found)
		found->n_uses++;
	if (found && !et_list_is_empty(&found->shown)) {
		et_list_remove(&found->shown);
		et_list_append(&b->shown, &found->shown);
	}
	pthread_mutex_unlock(&b->shared_lock);
	return found;
}

/* Find memory in the parent's table, and copy it into the tenant's. */
static struct et_plugin_shared *find_in_parent(struct et_backend *b, uintptr_t start, size_t n_bytes)
{
	struct et_plugin_shared *copy = calloc(1, sizeof *copy), *found = NULL;
	uint64_t id = et_plugin_new_handle(b);
	pthread_mutex_lock(&b->parent->shared_lock);
	struct et_plugin_shared *original = copy ? look_up(b->parent, start, n_bytes) : NULL;
	if (original && !(found = find_in_table(b, start, n_bytes))) { /* else another run has copied it meanwhile */
		*copy = (struct et_plugin_shared){ .start = original->start,
			.n_bytes = original->n_bytes,
			.fd = original->fd,
			.id = id,
			.owner = b,
			.n_uses = 1 };
		et_list_init(&copy->shown);
		pthread_mutex_lock(&b->shared_lock);
		found = insert(b, copy) ? copy : NULL;
		pthread_mutex_unlock(&b->shared_lock);
	}
	if (found && found == copy)
		et_list_append(&original->copies, &copy->copies);
	pthread_mutex_unlock(&b->parent->shared_lock);
	if (found != copy)
		free(copy);
	return found;
}

struct et_plugin_shared *et_plugin_find_memory(struct et_backend *b, const void *bytes, size_t n_bytes)
{
	struct et_plugin_shared *found = find_in_table(b, (uintptr_t)bytes, n_bytes);
	return found || !b->parent ? found : find_in_parent(b, (uintptr_t)bytes, n_bytes);
}

void et_plugin_put_memory(struct et_backend *b, struct et_plugin_shared *shared)
{
	pthread_mutex_lock(&b->shared_lock);
	shared->n_uses--;
	pthread_mutex_unlock(&b->shared_lock);
}

/* Called under the lock: the memory that was used longest ago and that no run holds. */
static struct et_plugin_shared *find_idle(struct et_backend *b)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &b->shown) {
		struct et_plugin_shared *shared = ET_CONTAINER_OF(node, struct et_plugin_shared, shown);
		if (!shared->n_uses)
			return shared;
	}
	return NULL;
}

/* Have the host forget idle memory until one more fits. If none is idle, the host itself may refuse one more. */
static void make_room(struct et_backend *b)
{
	for (;;) {
		pthread_mutex_lock(&b->shared_lock);
		bool has_room = b->n_shown < ET_PLUGIN_MAX_SHOWN && b->n_shown + b->n_payloads < ET_PLUGIN_MAX_KNOWN;
		pthread_mutex_unlock(&b->shared_lock);
		if (has_room)
			return;
		uint64_t id = et_plugin_new_handle(b), old_id = 0, generation = 0;
		pthread_mutex_lock(&b->shared_lock);
		struct et_plugin_shared *idle = find_idle(b);
		if (idle) {
			et_list_remove(&idle->shown);
			old_id = idle->id;
			idle->id = id;
			generation = atomic_exchange(&idle->generation, 0);
		}
		pthread_mutex_unlock(&b->shared_lock);
		if (!idle)
			return;
		et_plugin_forget(b, generation, old_id);
	}
}

/* Called under the lock: count anew if the host of @generation is a new one. */
static void begin_generation(struct et_backend *b, uint64_t generation)
{
	struct et_list_node *node, *after;
	if (generation <= b->shown_generation)
		return;
	b->shown_generation = generation;
	b->n_shown = b->n_payloads = 0;
	ET_LIST_FOR_EACH(node, after, &b->shown)
		et_list_remove(node);
}

enum et_status et_plugin_reserve_payload_fd(struct et_backend *b, uint64_t generation, struct et_diag *diag)
{
	pthread_mutex_lock(&b->shared_lock);
	begin_generation(b, generation);
	bool is_current = generation == b->shown_generation;
	bool has_room = !is_current || b->n_payloads < ET_PLUGIN_MAX_PAYLOADS;
	b->n_payloads += is_current && has_room;
	pthread_mutex_unlock(&b->shared_lock);
	if (!has_room)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES,
			"backend '%.60s' has %d payloads already, which is as many as its process can hold",
			b->ops.name, ET_PLUGIN_MAX_PAYLOADS);
	make_room(b);
	return ET_OK;
}

void et_plugin_release_payload_fd(struct et_backend *b, uint64_t generation)
{
	pthread_mutex_lock(&b->shared_lock);
	b->n_payloads -= generation == b->shown_generation;
	pthread_mutex_unlock(&b->shared_lock);
}

/* Count one more memory file in the host of @generation. */
static void count_shown(struct et_backend *b, uint64_t generation)
{
	pthread_mutex_lock(&b->shared_lock);
	begin_generation(b, generation);
	b->n_shown += generation == b->shown_generation;
	pthread_mutex_unlock(&b->shared_lock);
}

enum et_status et_plugin_show_memory(struct et_backend *b, uint64_t generation, struct et_plugin_shared *shared,
	struct et_diag *diag)
{
	if (atomic_load_explicit(&shared->generation, memory_order_acquire) == generation)
		return ET_OK;
	enum et_status status = et_plugin_show(b, generation, shared->id, shared->fd, shared->n_bytes, diag);
	if (status)
		return status;
	pthread_mutex_lock(&b->shared_lock);
	if (generation == b->shown_generation && atomic_load(&shared->generation) != generation) {
		atomic_store_explicit(&shared->generation, generation, memory_order_release);
		et_list_append(&b->shown, &shared->shown);
	} else if (generation == b->shown_generation) {
		b->n_shown--; /* another run showed it at the same time */
	}
	pthread_mutex_unlock(&b->shared_lock);
	return ET_OK;
}

enum et_status et_plugin_show(struct et_backend *b, uint64_t generation, uint64_t id, int fd, uint64_t n_bytes,
	struct et_diag *diag)
{
	struct et_plugin_share share = { .header = { ET_PLUGIN_SHARE, sizeof share, 0 }, .id = id, .n_bytes = n_bytes };
	struct et_plugin_answer answer;
	make_room(b);
	enum et_status status = et_plugin_ask(b, generation, &share, fd, &answer, sizeof answer, NULL, diag);
	if (!status && answer.result == INFERD_DELEGATE_E_INVALID)
		status = et_fail(diag, ET_E_ACCESS_FAILED, "memory is smaller than it was");
	else if (!status && answer.result)
		status = et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "the host process can't share memory");
	if (!status)
		count_shown(b, generation);
	return status;
}

void et_plugin_forget(struct et_backend *b, uint64_t generation, uint64_t id)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_FORGET, sizeof handle, 0 }, .instance = id };
	if (!generation || !id)
		return;
	et_plugin_tell(b, generation, &handle);
	pthread_mutex_lock(&b->shared_lock);
	b->n_shown -= generation == b->shown_generation;
	pthread_mutex_unlock(&b->shared_lock);
}
