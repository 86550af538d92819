/* SPDX-License-Identifier: BSD-3-Clause */
/* The names and numbers of the queues behind which devices run.
 *
 * All CPU devices share the queue cpu0. GPUs and NPUs are numbered by kind, in the order in which the registry lists
 * the backends and each backend its devices, so that queue gpu1 means the same to the Plan, the daemon and the
 * administrator. */
#include "runtime/plan.h"

const char *et_queue_kind_name(enum et_queue_kind kind)
{
	switch (kind) {
	case ET_QUEUE_CPU:
		return "cpu";
	case ET_QUEUE_GPU:
		return "gpu";
	case ET_QUEUE_NPU:
		return "npu";
	}
	return "unknown";
}

static struct et_device device_of(const struct et_backend_entry *entry, uint32_t index)
{
	struct et_device device = { 0 };
	entry->ops->device(entry->backend, index, &device);
	return device;
}

struct et_queue_id et_registry_queue(const struct et_registry *registry, size_t backend, uint32_t device)
{
	struct et_queue_id queue = { .kind = ET_QUEUE_CPU };
	if (backend >= registry->n_backends ||
		device >= registry->backends[backend].ops->n_devices(registry->backends[backend].backend))
		return queue;
	queue.kind = (uint8_t)device_of(&registry->backends[backend], device).kind;
	if (queue.kind == ET_QUEUE_CPU)
		return queue;
	for (size_t b = 0; b <= backend; b++) {
		const struct et_backend_entry *entry = &registry->backends[b];
		uint32_t n = b == backend ? device : entry->ops->n_devices(entry->backend);
		for (uint32_t d = 0; d < n; d++)
			queue.device += device_of(entry, d).kind == queue.kind;
	}
	return queue;
}
