/* SPDX-License-Identifier: BSD-3-Clause */
/* The delegate's table, and the backend: one for each process, with one set of packed weights for each Program.
 *
 * Payloads belong together if they have the same Program. A Program's weights live as long as one of its payloads is
 * compiled, so two methods that use the same named data share what was packed from it. */
#include "delegates/xnnpack/delegate.h"

#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/gemm_choice.h"
#include "delegates/xnnpack/hardware_config.h"
#include "delegates/xnnpack/instance.h"
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/threads.h"
#include "delegates/xnnpack/warm_up.h"
#include "delegates/convert.h"
#include "runtime/base/list.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MAX_INSTANCE_BYTES ((size_t)2 << 30)

struct et_xnn_backend {
	struct et_allocator allocator;
	size_t max_instance_bytes;
	uint32_t overrides_off; /* by the option, for models without an option of their own */
	char machine[256];      /* the store's key; empty: nothing is persisted */
	pthread_mutex_t lock;   /* guards programs */
	struct et_list_node programs;
	struct et_xnn_worker_spaces worker_spaces;
};

struct program {
	struct et_list_node node;
	uint64_t number;
	struct et_xnn_weights *weights;
	struct et_xnn_duplicates duplicates;
	struct et_xnn_prebuilt_cache prebuilt_cache;
	uint32_t n_users;
	char machine[256 + 16]; /* the store's key: the backend's, and which overrides are off */
};

/* --- Programs ---------------------------------------------------------------------------- */

static struct program *program_find(struct et_xnn_backend *backend, uint64_t number,
	const struct et_xnn_weights *weights)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &backend->programs) {
		struct program *entry = ET_CONTAINER_OF(node, struct program, node);
		if (weights ? entry->weights == weights : entry->number == number)
			return entry;
	}
	return NULL;
}

static struct program *program_get(struct et_xnn_backend *backend, uint64_t number, uint32_t overrides_off,
	const struct inferd_delegate_store *store)
{
	const struct et_allocator *allocator = &backend->allocator;
	pthread_mutex_lock(&backend->lock);
	struct program *entry = program_find(backend, number, NULL);
	if (!entry) {
		entry = allocator->alloc(allocator->self, sizeof(*entry), _Alignof(struct program));
		if (entry)
			*entry = (struct program){ .number = number };
		if (entry && overrides_off) /* other bytes are packed then */
			snprintf(entry->machine, sizeof(entry->machine), "%s-%x", backend->machine, overrides_off);
		else if (entry)
			memcpy(entry->machine, backend->machine, sizeof(backend->machine));
		struct et_xnn_weights *weights = entry ? et_xnn_weights_new(allocator, store, entry->machine) : NULL;
		if (weights) {
			entry->weights = weights;
			et_xnn_duplicates_init(&entry->duplicates);
			et_xnn_prebuilt_cache_init(&entry->prebuilt_cache, allocator);
			et_list_append(&backend->programs, &entry->node);
		} else {
			allocator->free(allocator->self, entry, sizeof(*entry));
			entry = NULL;
		}
	}
	if (entry)
		entry->n_users++;
	pthread_mutex_unlock(&backend->lock);
	return entry;
}

static void program_put(struct et_xnn_backend *backend, struct et_xnn_weights *weights,
	const struct inferd_delegate_store *store)
{
	pthread_mutex_lock(&backend->lock);
	struct program *entry = program_find(backend, 0, weights);
	if (entry && --entry->n_users == 0) {
		et_list_remove(&entry->node);
		et_xnn_weights_free(entry->weights, store);
		et_xnn_duplicates_deinit(&entry->duplicates);
		et_xnn_prebuilt_cache_deinit(&entry->prebuilt_cache);
		backend->allocator.free(backend->allocator.self, entry, sizeof(*entry));
	}
	pthread_mutex_unlock(&backend->lock);
}

/* --- the table ---------------------------------------------------------------------------------------- */

/* Read the options of the backend or of a model. Without the option overrides *@overrides_off stays as it is. */
static int read_options(const struct inferd_delegate_pair *const *options, uint32_t n, uint32_t *overrides_off,
	struct inferd_delegate_message *message)
{
	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(options[i]->key, "overrides") != 0) {
			snprintf(message->text, sizeof(message->text), "XNNPACK has no option '%.100s'",
				options[i]->key);
			return INFERD_DELEGATE_E_INVALID;
		}
		if (!et_xnn_overrides_parse(options[i]->value, overrides_off)) {
			snprintf(message->text, sizeof(message->text),
				"XNNPACK's option overrides is all, none or -NAME,-NAME..., not '%.100s'",
				(const char *)options[i]->value);
			return INFERD_DELEGATE_E_INVALID;
		}
	}
	return INFERD_DELEGATE_OK;
}

static enum et_status make_backend(struct et_xnn_backend **ret_backend, uint32_t overrides_off, bool threads_move,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	enum xnn_status status = et_xnn_initialize();
	if (status == xnn_status_unsupported_hardware &&
		(access("/proc/cpuinfo", R_OK) != 0 || access("/sys/devices/system/cpu", R_OK) != 0))
		return et_fail(diag, ET_E_NOT_FOUND,
			"XNNPACK finds no processor: it reads /proc/cpuinfo and /sys/devices/system/cpu, "
			"which are not mounted or not readable here");
	if (status != xnn_status_success)
		return et_fail(diag, ET_E_NOT_FOUND, "XNNPACK can't be initialized: %s", et_xnn_status_text(status));
	et_xnn_choose_gemm(allocator);
	struct et_xnn_backend *backend = allocator->alloc(allocator->self, sizeof(*backend),
		_Alignof(struct et_xnn_backend));
	if (!backend) {
		xnn_deinitialize();
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for XNNPACK");
	}
	memset(backend, 0, sizeof(*backend));
	backend->allocator = *allocator;
	if (!et_xnn_machine(backend->machine, sizeof(backend->machine)))
		backend->machine[0] = '\0';
	backend->overrides_off = overrides_off;
	backend->max_instance_bytes = DEFAULT_MAX_INSTANCE_BYTES;
	pthread_mutex_init(&backend->lock, NULL);
	et_list_init(&backend->programs);
	et_xnn_worker_spaces_init(&backend->worker_spaces, allocator, threads_move);
	et_xnn_warm();
	*ret_backend = backend;
	return ET_OK;
}

static int backend_open(const struct inferd_delegate_host *host, void **ret_self,
	struct inferd_delegate_message *message)
{
	struct et_allocator allocator = { .self = host->self, .alloc = host->alloc, .free = host->free };
	struct et_xnn_backend *backend = NULL;
	struct et_diag diag = { "" };
	uint32_t overrides_off = 0;
	if (read_options(host->options, host->n_options, &overrides_off, message))
		return INFERD_DELEGATE_E_INVALID;
	enum et_status status = make_backend(&backend, overrides_off, host->flags & INFERD_DELEGATE_THREADS_MOVE,
		&allocator, &diag);
	*ret_self = backend;
	return et_convert_status(status, &diag, message);
}

static void backend_close(void *self)
{
	struct et_xnn_backend *backend = self;
	pthread_mutex_destroy(&backend->lock);
	et_xnn_worker_spaces_deinit(&backend->worker_spaces);
	struct et_allocator allocator = backend->allocator;
	allocator.free(allocator.self, backend, sizeof(*backend));
	xnn_deinitialize();
}

static int devices(void *self, uint32_t index, struct inferd_delegate_device *ret_device)
{
	if (index)
		return INFERD_DELEGATE_E_NOT_FOUND;
	*ret_device = (struct inferd_delegate_device){
		.struct_size = ret_device->struct_size,
		.kind = INFERD_DELEGATE_CPU,
		.name = "CPU, by XNNPACK",
		.id = "cpu",
		.max_in_flight = 1,
		.alignment = 1,
		.flags = INFERD_DELEGATE_ZERO_COPY,
		.n_threads = ET_XNN_MAX_THREADS,
	};
	return INFERD_DELEGATE_OK;
}

/* Any payload may be tried: to read it is most of the work of compiling it, so probe does not. */
static int probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	uint32_t overrides_off;
	*ret_readiness = INFERD_DELEGATE_READY;
	if (read_options(payload->options, payload->n_options, &overrides_off, message))
		*ret_readiness = INFERD_DELEGATE_NO;
	return INFERD_DELEGATE_OK;
}

static enum et_status compile(struct et_xnn_backend *backend, const struct inferd_delegate_payload *payload,
	uint32_t overrides_off, struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *ret_info,
	struct et_diag *diag)
{
	const struct et_allocator *allocator = &backend->allocator;
	const struct inferd_delegate_store *store = backend->machine[0] ? payload->store : NULL;
	struct inferd_delegate_model *model = allocator->alloc(allocator->self, sizeof(*model),
		_Alignof(struct inferd_delegate_model));
	struct program *program = model ? program_get(backend, payload->program, overrides_off, store) : NULL;
	if (!program) {
		allocator->free(allocator->self, model, sizeof(*model));
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for XNNPACK's weights");
	}
	*model = (struct inferd_delegate_model){ .backend = backend, .store = store };
	enum et_status status = et_xnn_compile(&model->model, &model->slices, payload, overrides_off, program->weights,
		&program->prebuilt_cache, &program->duplicates, backend->max_instance_bytes, allocator, ret_info, diag);
	if (status != ET_OK) {
		program_put(backend, program->weights, store);
		allocator->free(allocator->self, model, sizeof(*model));
		return status;
	}
	ret_info->n_bytes += sizeof(*model);
	*ret_model = model;
	return ET_OK;
}

static int init(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *ret_info, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	uint32_t overrides_off = ((const struct et_xnn_backend *)self)->overrides_off;
	if (read_options(payload->options, payload->n_options, &overrides_off, message))
		return INFERD_DELEGATE_E_INVALID;
	enum et_status status = compile(self, payload, overrides_off, ret_model, ret_info, &diag);
	return et_convert_status(status, &diag, message);
}

static void destroy(struct inferd_delegate_model *model)
{
	struct et_xnn_backend *backend = model->backend;
	struct et_xnn_weights *weights = model->model->weights;
	et_xnn_model_free(model->model);
	et_xnn_input_slices_deinit(&model->slices, &backend->allocator);
	program_put(backend, weights, model->store);
	backend->allocator.free(backend->allocator.self, model, sizeof(*model));
}

static int threads_new(void *self, uint32_t index, uint32_t n_threads,
	struct inferd_delegate_worker_threads **ret_threads, struct inferd_delegate_message *message)
{
	struct et_xnn_backend *backend = self;
	struct et_diag diag = { "" };
	return et_convert_status(et_xnn_threads_new(ret_threads, &backend->worker_spaces, n_threads, &diag), &diag,
		message);
}

static int instance_on_threads(struct inferd_delegate_model *model, struct inferd_delegate_worker_threads *threads,
	struct inferd_delegate_instance **ret_instance, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	enum et_status status = et_xnn_instance_new(ret_instance, model->model, threads, &model->backend->allocator,
		&diag);
	return et_convert_status(status, &diag, message);
}

static int instance_warm(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	return et_convert_status(et_xnn_instance_warm(instance, &diag), &diag, message);
}

static int execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	struct et_diag diag;
	diag.text[0] = '\0'; /* do not clear all of it: this is a run, which must be fast */
	enum et_status status = run->flags & INFERD_DELEGATE_PROFILE
					? et_xnn_instance_profile(instance, &model->slices, run, &diag)
					: et_xnn_instance_run(instance, &model->slices, run->args, &diag);
	return status == ET_OK ? INFERD_DELEGATE_OK : et_convert_status(status, &diag, message);
}

static int persist(struct inferd_delegate_model *model, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	return et_convert_status(et_xnn_weights_persist(model->model->weights, model->store, &diag), &diag, message);
}

static uint32_t preferred_order(const struct inferd_delegate_model *model, uint32_t arg, uint32_t n_dims,
	uint8_t ret_dim_order[INFERD_DELEGATE_MAX_DIMS])
{
	uint32_t n = et_xnn_payload_order(&model->model->payload, arg, ret_dim_order);
	return n == n_dims ? n : 0;
}

static int adopt_orders(struct inferd_delegate_model *model, const uint32_t *args, uint32_t n_args,
	struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	return et_convert_status(et_xnn_model_reorder(model->model, args, n_args, &diag), &diag, message);
}

static void limit_memory(void *self, uint64_t n_bytes)
{
	struct et_xnn_backend *backend = self;
	atomic_store_explicit(&backend->worker_spaces.bound.max_bytes, n_bytes, memory_order_relaxed);
}

void et_xnnpack_set_max_instance_bytes(void *self, size_t n_bytes)
{
	((struct et_xnn_backend *)self)->max_instance_bytes = n_bytes;
}

void et_xnnpack_weights_stats(struct inferd_delegate_model *model, struct et_xnn_weights_stats *ret_stats)
{
	et_xnn_weights_stats(model->model->weights, ret_stats);
}

const struct inferd_delegate et_xnnpack_delegate = {
	.struct_size = sizeof(struct inferd_delegate),
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.flags = INFERD_DELEGATE_TELLS_WORK,
	.id = "XnnpackBackend",
	.name = "xnnpack",
	.open = backend_open,
	.close = backend_close,
	.devices = devices,
	.probe = probe,
	.init = init,
	.execute = execute,
	.destroy = destroy,
	.instance_free = et_xnn_instance_free,
	.threads_new = threads_new,
	.threads_free = et_xnn_threads_free,
	.instance_on_threads = instance_on_threads,
	.threads_parallel_for = et_xnn_threads_parallel_for,
	.threads_rest = et_xnn_threads_rest,
	.keep = persist,
	.instance_warm = instance_warm,
	.preferred_order = preferred_order,
	.adopt_orders = adopt_orders,
	.threads_bytes = et_xnn_threads_bytes,
	.limit_memory = limit_memory,
};
