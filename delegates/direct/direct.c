/* A delegate's table in this process: the backend and its lanes.
 *
 * Everything that a run needs is made before it: see run.c. What the table does not have, the runtime's table of this
 * backend does not have either, so that nothing is called that does nothing. */
#include "delegates/direct/backend.h"

#include <string.h>

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a delegate");
}

enum et_status et_direct_status(int result, struct inferd_delegate_message *message, struct et_diag *diag)
{
	message->text[sizeof message->text - 1] = '\0';
	return et_interface_status(result, message->text, diag);
}

/* --- what the delegate is given ------------------------------------------------------------------------ */

bool et_direct_pairs_new(struct et_direct_pairs *ret_pairs, uint32_t n, struct et_pool *pool)
{
	*ret_pairs = (struct et_direct_pairs){ NULL };
	if (!n)
		return true;
	ret_pairs->items = ET_POOL_NEW_ARRAY(pool, struct inferd_delegate_pair, n);
	ret_pairs->pointers = ET_POOL_NEW_ARRAY(pool, const struct inferd_delegate_pair *, n);
	return ret_pairs->items && ret_pairs->pointers;
}

bool et_direct_pair_set(struct et_direct_pairs *pairs, uint32_t i, const char *key, const void *value,
	size_t n_bytes, struct et_pool *pool)
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
		if (!et_direct_pair_set(
			    &pairs, i, option->key, option->value, strlen(option->value), &b->pool))
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
		.flags = INFERD_DELEGATE_HAS_LANES,
	};
	if (config && config->cache_dir)
		b->host.cache_dir = et_pool_strndup(&b->pool, config->cache_dir, strlen(config->cache_dir));
	return b->host.cache_dir || !config || !config->cache_dir;
}

/* --- devices ------------------------------------------------------------------------------------------- */

static enum et_status find_devices(struct et_backend *b, struct et_diag *diag)
{
	enum { MAX_DEVICES = 64 };
	struct inferd_delegate_device device = { .struct_size = sizeof device };
	while (b->n_devices < MAX_DEVICES &&
		b->table.devices(b->self, b->n_devices, &device) == INFERD_DELEGATE_OK) {
		b->n_devices++;
		device = (struct inferd_delegate_device){ .struct_size = sizeof device };
	}
	b->devices = ET_POOL_NEW_ARRAY(&b->pool, struct inferd_delegate_device, b->n_devices);
	if (!b->devices)
		return no_memory(diag);
	for (uint32_t i = 0; i < b->n_devices; i++) {
		b->devices[i].struct_size = sizeof b->devices[i];
		if (b->table.devices(b->self, i, &b->devices[i]) != INFERD_DELEGATE_OK ||
			b->devices[i].alignment > 4096 ||
			(b->devices[i].alignment & (b->devices[i].alignment - 1)))
			return et_fail(diag, ET_E_INTERNAL,
				"device %u of %s is gone, or wants an alignment that is none", i,
				b->table.name);
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
		.struct_size = sizeof *ret_device,
		.kind = et_interface_kind(from->kind),
		.memory_bytes = from->memory_bytes,
		.max_in_flight = from->max_in_flight ? from->max_in_flight : 1,
		.n_threads = from->n_threads,
	};
	memcpy(ret_device->name, from->name, sizeof ret_device->name - 1);
}

/* --- lanes --------------------------------------------------------------------------------------------- */

static void parallel_for(void *self, et_range_fn fn, void *arg, size_t n, size_t grain)
{
	const struct et_lane *lane = self;
	lane->backend->table.lane_parallel_for(lane->lane, fn, arg, n, grain);
}

static void rest(void *self)
{
	const struct et_lane *lane = self;
	lane->backend->table.lane_rest(lane->lane);
}

static void lane_free(struct et_lane *lane)
{
	if (!lane)
		return;
	struct et_backend *b = lane->backend;
	if (lane->lane)
		b->table.lane_free(lane->lane);
	b->allocator.free(b->allocator.self, lane, sizeof *lane);
}

static enum et_status lane_new(struct et_backend *b, uint32_t index, uint32_t n_threads,
	struct et_lane **ret_lane, struct et_diag *diag)
{
	struct et_lane *lane = b->allocator.alloc(b->allocator.self, sizeof *lane, _Alignof(struct et_lane));
	if (!lane)
		return no_memory(diag);
	*lane = (struct et_lane){
		.backend = b,
		.compute = { .struct_size = sizeof lane->compute,
			.self = lane,
			.parallel_for = parallel_for },
	};
	if (b->table.lane_rest)
		lane->compute.rest = rest;
	if (b->table.lane_new && index < b->n_devices && b->devices[index].kind == INFERD_DELEGATE_CPU) {
		struct inferd_delegate_message message;
		et_direct_message_init(&message);
		int result = b->table.lane_new(b->self, index, n_threads, &lane->lane, &message);
		if (result) {
			lane->lane = NULL;
			lane_free(lane);
			return et_direct_status(result, &message, diag);
		}
	}
	*ret_lane = lane;
	return ET_OK;
}

static uint64_t lane_bytes(const struct et_lane *lane)
{
	const struct inferd_delegate *table = &lane->backend->table;
	return atomic_load_explicit(&lane->n_bytes, memory_order_relaxed) +
	       (lane->lane && table->lane_bytes ? table->lane_bytes(lane->lane) : 0);
}

static const struct et_compute *lane_compute(struct et_lane *lane)
{
	return lane->lane ? &lane->compute : NULL;
}

/* --- the backend --------------------------------------------------------------------------------------- */

static enum et_status no_open(struct et_backend **ret_backend, const struct et_allocator *allocator,
	const struct et_log *log, struct et_diag *diag)
{
	return et_fail(diag, ET_E_NOT_SUPPORTED, "it is open");
}

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

/* What this process does not do, and what only one of its own could. */
static enum et_status check_table(const struct inferd_delegate *table, struct et_diag *diag)
{
	if (table->flags & INFERD_DELEGATE_ONE_THREAD)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"%s wants all calls on one thread, which only a process of its own gives it",
			table->name);
	if (table->n_kernels)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"%s brings operators of its own; those of a delegate that is compiled in belong to "
			"runtime/kernels",
			table->name);
	if (!table->instance_free)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "%s has no instances, so it can't run two at once",
			table->name);
	return ET_OK;
}

/* A device that takes arguments wherever they lie has nothing to copy. */
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
		.struct_size = sizeof b->ops,
		.interface = ET_DELEGATE_INTERFACE,
		.id = table->id,
		.name = table->name,
		.open = no_open,
		.close = backend_close,
		.n_devices = n_devices,
		.device = device,
		.compile = et_direct_compile,
		.compiled_free = et_direct_compiled_free,
		.lane_new = lane_new,
		.lane_free = lane_free,
		.lane_bytes = lane_bytes,
		.lane_compute = table->lane_new ? lane_compute : NULL,
		.context_new = et_direct_context_new,
		.context_free = et_direct_context_free,
		.context_warm = table->instance_warm ? et_direct_context_warm : NULL,
		.context_reset = table->instance_reset ? et_direct_context_reset : NULL,
		.enqueue = table->submit ? et_direct_submit : et_direct_execute,
		.cancel = table->submit && table->cancel ? et_direct_cancel : NULL,
		.copied_bytes = can_copy(b) ? et_direct_copied_bytes : NULL,
		.profile = et_direct_profile,
		.import_memory = table->buffer_import ? et_direct_import_memory : NULL,
		.release_memory = table->buffer_import ? et_direct_release_memory : NULL,
		.keep = table->keep ? et_direct_keep : NULL,
		.probe = et_direct_probe,
		.find_order = table->preferred_order && table->adopt_orders ? et_direct_find_order : NULL,
		.take_orders = table->preferred_order && table->adopt_orders ? et_direct_take_orders : NULL,
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
	if (et_interface_take(&b->table, table, message.text, sizeof message.text) < 0)
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

struct inferd_delegate_model *et_direct_model(struct et_compiled *compiled)
{
	return compiled->model;
}

struct inferd_delegate_lane *et_direct_lane(struct et_lane *lane)
{
	return lane->lane;
}
