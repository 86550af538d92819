/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenCL plug-in: run what ExecuTorch exports for "VulkanBackend" on any device with OpenCL 1.2.
 *
 * ExecuTorch has no OpenCL backend. Its Vulkan payload is a graph of ATen operators over row-major constants, so the
 * plug-in registers that name, reads the graph (delegates/graph) and runs it with kernels of its own (kernels/). This
 * file is the table of inferd-delegate.h; model.c makes a payload ready, run.c runs it.
 *
 * A device that fails is lost: runs answer E_LOST, and the host starts the process anew. */
#include "delegates/convert.h"
#include "delegates/inferd-delegate.h"
#include "delegates/opencl/import.h"
#include "delegates/opencl/lane.h"
#include "delegates/opencl/model.h"
#include "delegates/opencl/options.h"
#include "delegates/opencl/programs.h"
#include "delegates/opencl/run.h"
#include "delegates/opencl/turns.h"
#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plugin {
	const struct inferd_delegate_host *host;
	struct ocl_options options;
	struct ocl_api cl;
	struct ocl_device devices[OCL_MAX_DEVICES];
	uint32_t n_devices;
};

static void plugin_close(void *self)
{
	struct plugin *p = self;
	for (uint32_t i = 0; i < p->n_devices; i++) {
		ocl_lanes_free(&p->devices[i]);
		ocl_programs_free(&p->devices[i]);
		ocl_device_close(&p->devices[i]);
	}
	free(p);
}

/* What a file or an option got wrong is E_INVALID before a run, and E_ARGUMENT in one. */
static int answer(enum et_status status, const struct et_diag *diag, struct inferd_delegate_message *message)
{
	int result = et_convert_status(status, diag, message);
	return result == INFERD_DELEGATE_E_ARGUMENT ? INFERD_DELEGATE_E_INVALID : result;
}

static int plugin_open(const struct inferd_delegate_host *host, void **ret_self,
	struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	struct plugin *p = calloc(1, sizeof(*p));
	if (!p)
		return INFERD_DELEGATE_E_MEMORY;
	p->host = host;
	enum et_status status = ocl_options_read(&p->options, host, &diag);
	if (status == ET_OK) {
		ocl_options_set_environment(&p->options, host->cache_dir);
		status = ocl_api_load(&p->cl, p->options.library, &diag);
	}
	if (status == ET_OK)
		status = ocl_devices_open(p->devices, &p->n_devices, &p->cl, host, &p->options, &diag);
	if (status != ET_OK) {
		plugin_close(p);
		return answer(status, &diag, message);
	}
	*ret_self = p;
	return INFERD_DELEGATE_OK;
}

static int devices(void *self, uint32_t index, struct inferd_delegate_device *ret_device)
{
	const struct plugin *p = self;
	if (index >= p->n_devices)
		return INFERD_DELEGATE_E_NOT_FOUND;
	const struct ocl_device *device = &p->devices[index];
	/* A CPU that is driven by OpenCL stands in for a GPU: it is no part of the queue of the CPU. */
	ret_device->kind = INFERD_DELEGATE_GPU;
	snprintf(ret_device->name, sizeof(ret_device->name), "%s", device->name);
	snprintf(ret_device->id, sizeof(ret_device->id), "%.50s:%u", device->platform, index);
	ret_device->memory_bytes = device->is_cpu ? 0 : device->memory_bytes;
	ret_device->max_in_flight = OCL_MAX_IN_FLIGHT;
	ret_device->alignment = 16;
	if (INFERD_DELEGATE_HAS(ret_device, features)) {
		snprintf(ret_device->driver, sizeof(ret_device->driver), "%s", device->driver);
		snprintf(ret_device->features, sizeof(ret_device->features), "%s", device->features);
	}
	ret_device->flags = INFERD_DELEGATE_CAN_CANCEL | INFERD_DELEGATE_TAKES_TURNS |
			    (device->imports ? INFERD_DELEGATE_ZERO_COPY : 0) |
			    (device->is_cpu ? INFERD_DELEGATE_SIMULATOR : 0);
	return INFERD_DELEGATE_OK;
}

/* The device that has the most memory left. */
static struct ocl_device *choose_device(struct plugin *p)
{
	struct ocl_device *best = &p->devices[0];
	uint64_t most = 0;
	for (uint32_t i = 0; i < p->n_devices; i++) {
		struct ocl_device *device = &p->devices[i];
		pthread_mutex_lock(&device->lock);
		uint64_t n_free = et_less(device->memory_bytes, device->n_used_bytes);
		pthread_mutex_unlock(&device->lock);
		if (n_free > most) {
			most = n_free;
			best = device;
		}
	}
	return best;
}

/* Set *@ret_device to the one that the model's option names, or choose. */
static enum et_status find_device(struct plugin *p, const struct inferd_delegate_payload *payload,
	struct ocl_device **ret_device, struct et_diag *diag)
{
	const char *name = NULL;
	for (uint32_t i = 0; INFERD_DELEGATE_HAS(payload, n_options) && i < payload->n_options; i++) {
		if (strcmp(payload->options[i]->key, "device") != 0)
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "option '%.60s' is unknown: a model has device",
				payload->options[i]->key);
		name = payload->options[i]->value;
	}
	if (!name) {
		*ret_device = choose_device(p);
		return ET_OK;
	}
	for (uint32_t i = 0; i < p->n_devices; i++)
		if (ocl_list_matches(name, p->devices[i].name)) {
			*ret_device = &p->devices[i];
			return ET_OK;
		}
	return et_fail(diag, ET_E_INVALID_ARGUMENT, "device: there is no '%.60s', but '%s'", name, p->devices[0].name);
}

static int probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	struct ocl_device *device;
	*ret_readiness = INFERD_DELEGATE_NO;
	enum et_status status = find_device(self, payload, &device, &diag);
	if (status == ET_OK && (payload->n_bytes < 8 || memcmp(payload->bytes + 4, "VH00", 4) != 0))
		status = et_fail(&diag, ET_E_INVALID_PROGRAM, "the payload has no header 'VH00'");
	if (status == ET_OK)
		*ret_readiness = INFERD_DELEGATE_READY;
	else
		answer(status, &diag, message);
	return INFERD_DELEGATE_OK;
}

static int init(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *ret_info, struct inferd_delegate_message *message)
{
	struct plugin *p = self;
	struct et_diag diag = { "" };
	struct ocl_device *device = NULL;
	struct inferd_delegate_model *model = NULL;
	enum et_status status = find_device(p, payload, &device, &diag);
	if (status == ET_OK)
		status = ocl_model_new(&model, device, payload, !p->options.is_plain,
			p->options.dumps ? p->host->cache_dir : NULL, &diag);
	if (status == ET_OK && payload->n_args && payload->n_args != model->graph.n_inputs + model->graph.n_outputs) {
		status = et_fail(&diag, ET_E_INVALID_PROGRAM, "the program passes %u arguments, the payload has %u",
			payload->n_args, model->graph.n_inputs + model->graph.n_outputs);
		ocl_model_free(model);
	}
	if (device)
		ocl_programs_log(device);
	if (status == ET_PENDING) {
		answer(status, &diag, message);
		return INFERD_DELEGATE_TO_BUILD;
	}
	if (status != ET_OK)
		return answer(status, &diag, message);
	ret_info->n_inputs = model->graph.n_inputs;
	ret_info->n_outputs = model->graph.n_outputs;
	ret_info->flags = INFERD_DELEGATE_DROPS_PAYLOAD | (model->n_states ? INFERD_DELEGATE_STATEFUL : 0) |
			  (model->saves_states ? INFERD_DELEGATE_REPEATABLE : 0);
	ret_info->device = device->index;
	ret_info->n_bytes = model->n_weight_bytes + model->pool.n_bytes;
	ret_info->scratch_bytes = (uint64_t)model->graph.n_values *
					  (sizeof(struct et_graph_size) + sizeof(struct ocl_home) +
						  sizeof(struct ocl_memory)) +
				  model->n_saved_bytes;
	if (INFERD_DELEGATE_HAS(ret_info, state_bytes))
		ret_info->state_bytes = model->n_state_bytes;
	*ret_model = model;
	return INFERD_DELEGATE_OK;
}

static int instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	return et_convert_status(ocl_instance_new(ret_instance, model, &diag), &diag, message);
}

static int instance_reset(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	return et_convert_status(ocl_instance_reset(instance, &diag), &diag, message);
}

static int execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	enum et_status status = ocl_run(model, instance, run, &diag);
	atomic_store_explicit(&instance->is_cancelled, false, memory_order_relaxed);
	return et_convert_status(status, &diag, message);
}

/* A run that looks at it later ends early; the instance's next run begins after this has returned. */
static void cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	atomic_store_explicit(&instance->is_cancelled, true, memory_order_relaxed);
	ocl_turn_wake(model->device);
}

static int buffer_import(void *self, uint32_t index, const struct inferd_delegate_memory *memory,
	struct inferd_delegate_buffer **ret_buffer)
{
	struct plugin *p = self;
	return index < p->n_devices ? ocl_import(&p->devices[index], memory, ret_buffer) : INFERD_DELEGATE_E_NOT_FOUND;
}

static int stats(void *self, uint32_t index, struct inferd_delegate_stats *ret_stats)
{
	struct plugin *p = self;
	if (index >= p->n_devices)
		return INFERD_DELEGATE_E_NOT_FOUND;
	struct ocl_device *device = &p->devices[index];
	pthread_mutex_lock(&device->lock);
	ret_stats->n_runs = device->n_runs;
	ret_stats->busy_ns = device->busy_ns;
	ret_stats->memory_bytes = device->n_used_bytes;
	if (INFERD_DELEGATE_HAS(ret_stats, copied_bytes))
		ret_stats->copied_bytes = device->n_copied_bytes;
	pthread_mutex_unlock(&device->lock);
	return INFERD_DELEGATE_OK;
}

static int build(void *self, struct inferd_delegate_message *message)
{
	struct plugin *p = self;
	struct et_diag diag = { "" };
	if (!p->host->cache_dir)
		return INFERD_DELEGATE_OK;
	enum et_status status = ocl_programs_build_requested(p->devices, p->n_devices, p->host->cache_dir, &diag);
	for (uint32_t i = 0; i < p->n_devices; i++)
		ocl_programs_log(&p->devices[i]);
	return status == ET_OK ? INFERD_DELEGATE_OK : answer(status, &diag, message);
}

static const struct inferd_delegate table = {
	.struct_size = sizeof(table),
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = "VulkanBackend",
	.name = "opencl",
	.version = "1",
	.open = plugin_open,
	.close = plugin_close,
	.devices = devices,
	.probe = probe,
	.init = init,
	.execute = execute,
	.destroy = ocl_model_free,
	.instance_new = instance_new,
	.instance_free = ocl_instance_free,
	.instance_reset = instance_reset,
	.cancel = cancel,
	.buffer_import = buffer_import,
	.buffer_free = ocl_import_free,
	.stats = stats,
	.build = build,
};

const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor)
{
	return host_major == INFERD_DELEGATE_MAJOR ? &table : NULL;
}
