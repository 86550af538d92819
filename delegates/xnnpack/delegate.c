/* The delegate's table, and the backend: one a process, with one set of packed weights a Program.
 *
 * Which payloads belong together is known by their Program. Its weights live as long as one of its payloads is
 * compiled, so that two methods that use the same named data share what was packed from it. */
#include "delegates/xnnpack/delegate.h"

#include "delegates/xnnpack/compiled.h"
#include "delegates/xnnpack/context.h"
#include "delegates/xnnpack/lane.h"
#include "delegates/xnnpack/memory.h"
#include "runtime/base/list.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MAX_CONTEXT_BYTES ((size_t)2 << 30)

struct et_backend {
	struct et_allocator allocator;
	size_t max_context_bytes;
	char machine[ET_STORE_MAX_VARIANT + 1]; /* empty: nothing is kept */
	pthread_mutex_t lock;                   /* programs */
	struct et_list_node programs;
	struct et_xnn_lanes lanes;
};

struct program_weights {
	struct et_list_node node;
	const struct et_program *program; /* NULL: a payload of its own, never shared */
	struct et_xnn_weights *weights;
	uint32_t n_users;
};

/* --- weights by Program ---------------------------------------------------------------------------- */

static struct program_weights *weights_find(
	struct et_backend *backend, const struct et_program *program, const struct et_xnn_weights *weights)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &backend->programs)
	{
		struct program_weights *entry = ET_CONTAINER_OF(node, struct program_weights, node);
		if (weights ? entry->weights == weights : program && entry->program == program)
			return entry;
	}
	return NULL;
}

static struct et_xnn_weights *weights_get(
	struct et_backend *backend, const struct et_program *program, const struct et_store *store)
{
	const struct et_allocator *allocator = &backend->allocator;
	pthread_mutex_lock(&backend->lock);
	struct program_weights *entry = weights_find(backend, program, NULL);
	if (!entry) {
		entry = allocator->alloc(allocator->self, sizeof(*entry), _Alignof(struct program_weights));
		struct et_xnn_weights *weights =
			entry ? et_xnn_weights_new(allocator, store, backend->machine) : NULL;
		if (entry && weights) {
			*entry = (struct program_weights){ .program = program, .weights = weights };
			et_list_append(&backend->programs, &entry->node);
		} else {
			allocator->free(allocator->self, entry, sizeof(*entry));
			entry = NULL;
		}
	}
	if (entry)
		entry->n_users++;
	pthread_mutex_unlock(&backend->lock);
	return entry ? entry->weights : NULL;
}

static void weights_put(struct et_backend *backend, struct et_xnn_weights *weights)
{
	pthread_mutex_lock(&backend->lock);
	struct program_weights *entry = weights_find(backend, NULL, weights);
	if (entry && --entry->n_users == 0) {
		et_list_remove(&entry->node);
		et_xnn_weights_free(entry->weights);
		backend->allocator.free(backend->allocator.self, entry, sizeof(*entry));
	}
	pthread_mutex_unlock(&backend->lock);
}

/* --- the table ---------------------------------------------------------------------------------------- */

static enum et_status backend_open(struct et_backend **ret_backend, const struct et_allocator *allocator,
	const struct et_log *log, struct et_diag *diag)
{
	enum xnn_status status = xnn_initialize(et_xnn_allocator());
	if (status == xnn_status_unsupported_hardware &&
		(access("/proc/cpuinfo", R_OK) != 0 || access("/sys/devices/system/cpu", R_OK) != 0))
		return et_fail(diag, ET_E_NOT_FOUND,
			"XNNPACK finds no processor: it reads /proc/cpuinfo and /sys/devices/system/cpu, "
			"which are not mounted or not readable here");
	if (status != xnn_status_success)
		return et_fail(
			diag, ET_E_NOT_FOUND, "XNNPACK can't be initialized: %s", et_xnn_status_text(status));
	struct et_backend *backend =
		allocator->alloc(allocator->self, sizeof(*backend), _Alignof(struct et_backend));
	if (!backend) {
		xnn_deinitialize();
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for XNNPACK");
	}
	memset(backend, 0, sizeof(*backend));
	backend->allocator = *allocator;
	if (!et_xnn_machine(backend->machine, sizeof(backend->machine)))
		backend->machine[0] = '\0';
	backend->max_context_bytes = DEFAULT_MAX_CONTEXT_BYTES;
	pthread_mutex_init(&backend->lock, NULL);
	et_list_init(&backend->programs);
	et_xnn_lanes_init(&backend->lanes, allocator);
	*ret_backend = backend;
	return ET_OK;
}

static void backend_close(struct et_backend *backend)
{
	if (!backend)
		return;
	pthread_mutex_destroy(&backend->lock);
	et_xnn_lanes_deinit(&backend->lanes);
	struct et_allocator allocator = backend->allocator;
	allocator.free(allocator.self, backend, sizeof(*backend));
	xnn_deinitialize();
}

static uint32_t n_devices(const struct et_backend *backend)
{
	return 1;
}

/* Processors that this process may use. */
static uint32_t n_processors(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return (uint32_t)CPU_COUNT(&set);
	long n = sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t holds */
	return n > 0 ? (uint32_t)n : 1;
}

static void device(const struct et_backend *backend, uint32_t index, struct et_device *ret_device)
{
	*ret_device = (struct et_device){
		.struct_size = sizeof(*ret_device),
		.kind = ET_QUEUE_CPU,
		.name = "CPU, by XNNPACK",
		.max_in_flight = 1,
		.n_threads = n_processors(),
	};
}

static enum et_status compile(struct et_backend *backend, const struct et_payload *payload,
	struct et_compiled **ret_compiled, struct et_compiled_info *ret_info, struct et_diag *diag)
{
	struct et_xnn_weights *weights = weights_get(backend, payload->program,
		payload->struct_size > offsetof(struct et_payload, store) && backend->machine[0]
			? payload->store
			: NULL);
	if (!weights)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for XNNPACK's weights");
	struct et_compiled *compiled;
	enum et_status status = et_xnn_compile(
		&compiled, payload, weights, backend->max_context_bytes, &backend->allocator, ret_info, diag);
	if (status != ET_OK) {
		weights_put(backend, weights);
		return status;
	}
	compiled->backend = backend;
	*ret_compiled = compiled;
	return ET_OK;
}

static void compiled_free(struct et_compiled *compiled)
{
	if (!compiled)
		return;
	struct et_backend *backend = compiled->backend;
	struct et_xnn_weights *weights = compiled->weights;
	et_xnn_compiled_free(compiled);
	weights_put(backend, weights);
}

static enum et_status lane_new(struct et_backend *backend, uint32_t index, uint32_t n_threads,
	struct et_lane **ret_lane, struct et_diag *diag)
{
	return et_xnn_lane_new(ret_lane, &backend->lanes, n_threads, diag);
}

static const struct et_compute *lane_compute(struct et_lane *lane)
{
	return &lane->compute;
}

static enum et_status context_new(struct et_compiled *compiled, struct et_lane *lane,
	struct et_context **ret_context, struct et_diag *diag)
{
	return et_xnn_context_new(ret_context, compiled, lane, &compiled->backend->allocator, diag);
}

static enum et_status enqueue(struct et_context *context, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	return et_xnn_context_run(context, args, diag);
}

static enum et_status keep(struct et_compiled *compiled, struct et_diag *diag)
{
	return et_xnn_weights_keep(compiled->weights, diag);
}

void et_xnnpack_set_max_context_bytes(struct et_backend *backend, size_t n_bytes)
{
	backend->max_context_bytes = n_bytes;
}

void et_xnnpack_weights_stats(struct et_compiled *compiled, struct et_xnn_weights_stats *ret_stats)
{
	et_xnn_weights_stats(compiled->weights, ret_stats);
}

const struct et_delegate_ops et_xnnpack_delegate = {
	.struct_size = sizeof(struct et_delegate_ops),
	.interface = ET_DELEGATE_INTERFACE,
	.id = "XnnpackBackend",
	.name = "xnnpack",
	.open = backend_open,
	.close = backend_close,
	.n_devices = n_devices,
	.device = device,
	.compile = compile,
	.compiled_free = compiled_free,
	.lane_new = lane_new,
	.lane_free = et_xnn_lane_free,
	.lane_compute = lane_compute,
	.context_new = context_new,
	.context_free = et_xnn_context_free,
	.enqueue = enqueue,
	.profile = et_xnn_context_profile,
	.keep = keep,
};
