/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend around a built-in delegate, its devices and its worker threads.
 *
 * A function that the delegate's table lacks is NULL in the runtime's table of this backend, too, so that no
 * function is called that does nothing. Runs allocate nothing: see run.c. */
#include "delegates/direct/direct_internal.h"

#include <string.h>

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a delegate");
}

enum et_status et_direct_status(int result, struct inferd_delegate_message *message, struct et_diag *diag)
{
	message->text[sizeof message->text - 1] = '\0';
	return et_convert_result(result, message->text, diag);
}

/* --- the delegate's host ------------------------------------------------------------------------------- */

bool et_direct_pairs_new(struct et_direct_pairs *ret_pairs, uint32_t n, struct et_pool *pool)
{
	*ret_pairs = (struct et_direct_pairs){ NULL };
	if (!n)
		return true;
	ret_pairs->items = ET_POOL_NEW_ARRAY(pool, struct inferd_delegate_pair, n);
	ret_pairs->pointers = ET_POOL_NEW_ARRAY(pool, const struct inferd_delegate_pair *, n);
	return ret_pairs->items && ret_pairs->pointers;
}

bool et_direct_pair_set(struct et_direct_pairs *pairs, uint32_t i, const char *key, const void *value, size_t n_bytes,
	struct et_pool *pool)
{
	struct inferd_delegate_pair *pair = &pairs->items[i];
	*pair = (struct inferd_delegate_pair){
		.struct_size = sizeof *pair,
		.key = et_pool_strndup(pool, key, strlen(key)),
		.value = et_pool_strndup(pool, n_bytes ? value : "", n_bytes),
		.n_bytes = n_bytes,
	};
	pairs->pointers[i] = pair;
	return pair->key && pair->value;
}

static void host_log(void *self, int level, const char *text)
{
	const struct et_backend *b = self;
	int known = level < ET_LOG_ERROR ? ET_LOG_ERROR : level > ET_LOG_DEBUG ? ET_LOG_DEBUG : level;
	et_logf(b->log, (enum et_log_level)known, "backend %s: %.400s", b->table.name, text);
}

static void *host_alloc(void *self, size_t n_bytes, size_t alignment)
{
	const struct et_backend *b = self;
	return b->allocator.alloc(b->allocator.self, n_bytes, alignment);
}

static void host_free(void *self, void *bytes, size_t n_bytes)
{
	const struct et_backend *b = self;
	b->allocator.free(b->allocator.self, bytes, n_bytes);
}

static bool make_host(struct et_backend *b, const struct et_direct_config *config)
{
	uint32_t n = config ? config->n_options : 0;
	struct et_direct_pairs pairs;
	if (!et_direct_pairs_new(&pairs, n, &b->pool))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct et_option *option = &config->options[i];
		if (!et_direct_pair_set(&pairs, i, option->key, option->value, strlen(option->value), &b->pool))
			return false;
	}
	b->host = (struct inferd_delegate_host){
		.struct_size = sizeof b->host,
		.major = INFERD_DELEGATE_MAJOR,
		.minor = INFERD_DELEGATE_MINOR,
		.options = pairs.pointers,
		.n_options = n,
		.self = b,
		.log = host_log,
		.alloc = host_alloc,
		.free = host_free,
		.flags = INFERD_DELEGATE_HAS_WORKER_THREADS,
	};
	if (config && config->threads_move)
		b->host.flags |= INFERD_DELEGATE_THREADS_MOVE;
	if (config && config->cache_dir)
		b->host.cache_dir = et_pool_strndup(&b->pool, config->cache_dir, strlen(config->cache_dir));
	return b->host.cache_dir || !config || !config->cache_dir;
}

/* --- devices ------------------------------------------------------------------------------------------- */

static enum et_status find_devices(struct et_backend *b, struct et_diag *diag)
{
	enum { MAX_DEVICES = 64 };
	struct inferd_delegate_device device = { .struct_size = sizeof device };
	while (b->n_devices < MAX_DEVICES && b->table.devices(b->self, b->n_devices, &device) == INFERD_DELEGATE_OK) {
		b->n_devices++;
		device = (struct inferd_delegate_device){ .struct_size = sizeof device };
	}
	b->devices = ET_POOL_NEW_ARRAY(&b->pool, struct inferd_delegate_device, b->n_devices);
	if (!b->devices)
		return no_memory(diag);
	for (uint32_t i = 0; i < b->n_devices; i++) {
		b->devices[i].struct_size = sizeof b->devices[i];
		if (b->table.devices(b->self, i, &b->devices[i]) != INFERD_DELEGATE_OK ||
			b->devices[i].alignment > 4096 || (b->devices[i].alignment & (b->devices[i].alignment - 1)))
			return et_fail(diag, ET_E_INTERNAL,
				"%s describes device %u once but not again, or its alignment is no power of two up to 4096",
				b->table.name, i);
	}
	return ET_OK;
}

static uint32_t n_devices(const struct et_backend *b)
{
	return b->n_devices;
}

static void device(const struct et_backend *b, uint32_t index, struct et_device *ret_device)
{
	const struct inferd_delegate_device *from = &b->devices[index];
	*ret_device = (struct et_device){
		.kind = et_convert_kind(from->kind),
		.memory_bytes = from->memory_bytes,
		.max_in_flight = from->max_in_flight ? from->max_in_flight : 1,
		.takes_turns = from->flags & INFERD_DELEGATE_TAKES_TURNS,
		.n_threads = from->n_threads,
	};
	memcpy(ret_device->name, from->name, sizeof ret_device->name - 1);
}

/* --- worker threads ------------------------------------------------------------------------------------ */

static void parallel_for(void *self, et_range_fn fn, void *arg, size_t n, size_t grain)
{
	const struct et_worker_threads *threads = self;
	threads->backend->table.threads_parallel_for(threads->delegate_threads, fn, arg, n, grain);
}

static void rest(void *self)
{
	const struct et_worker_threads *threads = self;
	threads->backend->table.threads_rest(threads->delegate_threads);
}

static void threads_free(struct et_worker_threads *threads)
{
	if (!threads)
		return;
	struct et_backend *b = threads->backend;
	if (threads->delegate_threads)
		b->table.threads_free(threads->delegate_threads);
	b->allocator.free(b->allocator.self, threads, sizeof *threads);
}

static enum et_status threads_new(struct et_backend *b, uint32_t index, uint32_t n_threads,
	struct et_worker_threads **ret_threads, struct et_diag *diag)
{
	struct et_worker_threads *threads = b->allocator.alloc(b->allocator.self, sizeof *threads,
		_Alignof(struct et_worker_threads));
	if (!threads)
		return no_memory(diag);
	*threads = (struct et_worker_threads){
		.backend = b,
		.compute = { .self = threads, .parallel_for = parallel_for },
	};
	if (b->table.threads_rest)
		threads->compute.rest = rest;
	if (b->table.threads_new && index < b->n_devices && b->devices[index].kind == INFERD_DELEGATE_CPU) {
		struct inferd_delegate_message message;
		et_direct_message_init(&message);
		int result = b->table.threads_new(b->self, index, n_threads, &threads->delegate_threads, &message);
		if (result) {
			threads->delegate_threads = NULL;
			threads_free(threads);
			return et_direct_status(result, &message, diag);
		}
	}
	*ret_threads = threads;
	return ET_OK;
}

static uint64_t threads_bytes(const struct et_worker_threads *threads)
{
	const struct inferd_delegate *table = &threads->backend->table;
	return atomic_load_explicit(&threads->n_bytes, memory_order_relaxed) +
	       (threads->delegate_threads && table->threads_bytes ? table->threads_bytes(threads->delegate_threads)
								  : 0);
}

static void limit_memory(struct et_backend *b, uint64_t n_bytes)
{
	b->table.limit_memory(b->self, n_bytes);
}

static const struct et_compute *threads_compute(struct et_worker_threads *threads)
{
	return threads->delegate_threads ? &threads->compute : NULL;
}

/* --- the backend --------------------------------------------------------------------------------------- */

static void backend_free(struct et_backend *b)
{
	struct et_allocator allocator = b->allocator;
	allocator.free(allocator.self, b->memories, b->memories_room * sizeof(*b->memories));
	pthread_mutex_destroy(&b->memories_lock);
	et_pool_deinit(&b->pool);
	allocator.free(allocator.self, b, sizeof *b);
}

static void backend_close(struct et_backend *b)
{
	if (!b)
		return;
	b->table.close(b->self);
	backend_free(b);
}

/* Refuse a table that only a host process can serve. */
static enum et_status check_table(const struct inferd_delegate *table, struct et_diag *diag)
{
	if (table->flags & INFERD_DELEGATE_ONE_THREAD)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"%s wants all calls on one thread, which only a host process offers", table->name);
	if (table->n_kernels)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"%s brings operators of its own; the operators of a built-in delegate belong into "
			"runtime/kernels",
			table->name);
	if (!table->instance_free)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "%s has no instances, so it can't run two at once",
			table->name);
	return ET_OK;
}

/* Whether runs may have to copy arguments: not if every device takes them at any address. */
static bool can_copy(const struct et_backend *b)
{
	bool can = false;
	for (uint32_t i = 0; i < b->n_devices; i++)
		can = can || b->devices[i].alignment != 1;
	return can;
}

static void make_ops(struct et_backend *b)
{
	const struct inferd_delegate *table = &b->table;
	b->ops = (struct et_delegate_ops){
		.id = table->id,
		.name = table->name,
		.close = backend_close,
		.n_devices = n_devices,
		.device = device,
		.compile = et_direct_compile,
		.model_free = et_direct_model_free,
		.threads_new = threads_new,
		.threads_free = threads_free,
		.threads_bytes = threads_bytes,
		.limit_memory = table->limit_memory ? limit_memory : NULL,
		.threads_compute = table->threads_new ? threads_compute : NULL,
		.instance_new = et_direct_instance_new,
		.instance_free = et_direct_instance_free,
		.instance_warm = table->instance_warm ? et_direct_instance_warm : NULL,
		.instance_reset = table->instance_reset ? et_direct_instance_reset : NULL,
		.enqueue = table->submit ? et_direct_submit : et_direct_execute,
		.cancel = table->submit && table->cancel ? et_direct_cancel : NULL,
		.copied_bytes = can_copy(b) ? et_direct_copied_bytes : NULL,
		.profile = et_direct_profile,
		.import_memory = table->buffer_import ? et_direct_import_memory : NULL,
		.release_memory = table->buffer_import ? et_direct_release_memory : NULL,
		.keep = table->keep ? et_direct_keep : NULL,
		.probe = et_direct_probe,
		.preferred_order = table->preferred_order && table->adopt_orders ? et_direct_preferred_order : NULL,
		.adopt_orders = table->preferred_order && table->adopt_orders ? et_direct_adopt_orders : NULL,
	};
}

enum et_status et_direct_open(struct et_backend_entry *ret_entry, const struct inferd_delegate *table,
	const struct et_direct_config *config, const struct et_allocator *allocator, const struct et_log *log,
	struct et_diag *diag)
{
	struct inferd_delegate_message message;
	struct et_backend *b = allocator->alloc(allocator->self, sizeof *b, _Alignof(struct et_backend));
	if (!b)
		return no_memory(diag);
	*b = (struct et_backend){ .allocator = *allocator, .log = log };
	et_pool_init(&b->pool, allocator);
	pthread_mutex_init(&b->memories_lock, NULL);
	et_direct_message_init(&message);
	enum et_status status = ET_OK;
	if (et_table_copy(&b->table, table, message.text, sizeof message.text) < 0)
		status = et_fail(diag, ET_E_INTERNAL, "%.250s", message.text);
	if (!status)
		status = check_table(&b->table, diag);
	if (!status && !make_host(b, config))
		status = no_memory(diag);
	if (!status)
		status = et_direct_status(b->table.open(&b->host, &b->self, &message), &message, diag);
	if (status) {
		backend_free(b);
		return status;
	}
	status = find_devices(b, diag);
	if (status) {
		backend_close(b);
		return status;
	}
	make_ops(b);
	*ret_entry = (struct et_backend_entry){ &b->ops, b };
	return ET_OK;
}

void *et_direct_self(struct et_backend *b)
{
	return b->self;
}

struct inferd_delegate_model *et_direct_model(struct et_model *model)
{
	return model->delegate_model;
}

struct inferd_delegate_worker_threads *et_direct_worker_threads(struct et_worker_threads *threads)
{
	return threads->delegate_threads;
}
