/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in for fuzz_plugin_serve with every feature: instances, submitted runs, cancel, reset, named data, buffers,
 * statistics, events. It logs nothing and keeps nothing between inputs.
 *
 * The first size of the first argument, modulo 8, selects what a run does: end within submit (0 and 1), be refused
 * (2), end on its own thread (3), end twice (4), be refused and end (5), report parts of its work (6), or end when
 * it is cancelled (7). */
#include <inferd-delegate.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct inferd_delegate_model {
	int unused;
};

struct inferd_delegate_instance {
	pthread_mutex_t lock;
	struct inferd_delegate_completion pending;
	int is_pending;
};

struct inferd_delegate_buffer {
	void *bytes; /* NULL: imported */
};

static int plugin_open(const struct inferd_delegate_host *host, void **ret_self,
	struct inferd_delegate_message *message)
{
	host->log(host->self, 5, "opened");
	for (uint32_t i = 0; i < host->n_options; i++)
		if (strlen(host->options[i]->key) + host->options[i]->n_bytes > 1u << 20)
			abort();
	static int self;
	*ret_self = &self;
	return INFERD_DELEGATE_OK;
}

static void plugin_close(void *self)
{
}

static int devices(void *self, uint32_t index, struct inferd_delegate_device *device)
{
	if (index > 1)
		return INFERD_DELEGATE_E_NOT_FOUND;
	device->kind = INFERD_DELEGATE_NPU;
	device->max_in_flight = 2;
	device->alignment = 64;
	return INFERD_DELEGATE_OK;
}

/* Every byte that it is given, so that a sanitizer sees one too many. */
static unsigned sum(const void *bytes, uint64_t n_bytes)
{
	unsigned total = 0;
	for (uint64_t i = 0; i < n_bytes; i++)
		total += ((const uint8_t *)bytes)[i];
	return total;
}

static unsigned look(const struct inferd_delegate_payload *payload)
{
	static const char *const keys[] = { "factor", "absent", "another" };
	unsigned total = sum(payload->bytes, payload->n_bytes);
	for (uint32_t i = 0; i < payload->n_specs; i++)
		total += sum(payload->specs[i]->value, payload->specs[i]->n_bytes) +
			 (unsigned)strlen(payload->specs[i]->key);
	for (uint32_t i = 0; i < payload->n_options; i++)
		total += sum(payload->options[i]->value, payload->options[i]->n_bytes);
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const uint8_t *bytes;
		uint64_t n_bytes;
		if (payload->named_data(payload->self, keys[i], &bytes, &n_bytes) == INFERD_DELEGATE_OK)
			total += sum(bytes, n_bytes);
	}
	return total;
}

static int probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	*ret_readiness = look(payload) & 1 ? INFERD_DELEGATE_READY : INFERD_DELEGATE_RECOMPILE;
	return INFERD_DELEGATE_OK;
}

static int init(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *info, struct inferd_delegate_message *message)
{
	unsigned total = look(payload);
	if (payload->n_bytes && payload->bytes[0] == 'N') {
		snprintf(message->text, sizeof message->text, "it adds up to %u", total);
		return INFERD_DELEGATE_E_INVALID;
	}
	*ret_model = calloc(1, sizeof **ret_model);
	info->n_inputs = info->n_outputs = 1;
	info->device = payload->n_args & 1;
	info->flags = INFERD_DELEGATE_STATEFUL |
		      (payload->n_bytes && payload->bytes[0] == 'D' ? INFERD_DELEGATE_DROPS_PAYLOAD : 0);
	return *ret_model ? INFERD_DELEGATE_OK : INFERD_DELEGATE_E_MEMORY;
}

static void destroy(struct inferd_delegate_model *model)
{
	free(model);
}

static int instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	*ret_instance = calloc(1, sizeof **ret_instance);
	if (!*ret_instance)
		return INFERD_DELEGATE_E_MEMORY;
	pthread_mutex_init(&(*ret_instance)->lock, NULL);
	return INFERD_DELEGATE_OK;
}

static void end_pending(struct inferd_delegate_instance *instance)
{
	pthread_mutex_lock(&instance->lock);
	int was_pending = instance->is_pending;
	struct inferd_delegate_completion pending = instance->pending;
	instance->is_pending = 0;
	pthread_mutex_unlock(&instance->lock);
	if (was_pending)
		pending.done(pending.self, INFERD_DELEGATE_E_CANCELLED, "cancelled");
}

static void instance_free(struct inferd_delegate_instance *instance)
{
	pthread_mutex_destroy(&instance->lock);
	free(instance);
}

static int instance_reset(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	return INFERD_DELEGATE_OK;
}

static void cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	end_pending(instance);
}

/* Reads its inputs, writes all of its outputs. */
static void compute(struct inferd_delegate_arg *const *args, uint32_t n_args)
{
	unsigned total = 0;
	for (uint32_t i = 0; i < n_args; i++)
		if (args[i]->kind == INFERD_DELEGATE_TENSOR && !args[i]->is_output)
			total += sum(args[i]->data, args[i]->n_bytes);
	for (uint32_t i = 0; i < n_args; i++)
		if (args[i]->kind == INFERD_DELEGATE_TENSOR && args[i]->is_output && args[i]->n_bytes)
			memset(args[i]->data, (int)(total & 0xff), (size_t)args[i]->n_bytes);
}

static unsigned manner_of(const struct inferd_delegate_run *run)
{
	return run->n_args && run->args[0]->n_dims ? (unsigned)run->args[0]->sizes[0] % 8 : 0;
}

static void *end_apart(void *arg)
{
	struct inferd_delegate_completion *completion = arg;
	completion->done(completion->self, INFERD_DELEGATE_OK, NULL);
	free(completion);
	return NULL;
}

static int submit(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, const struct inferd_delegate_completion *with,
	struct inferd_delegate_message *message)
{
	struct inferd_delegate_completion completion = *with, *own;
	unsigned manner = manner_of(run);
	pthread_t thread;
	compute(run->args, run->n_args);
	if (run->event && run->flags & INFERD_DELEGATE_PROFILE)
		run->event(run->self, manner == 6 ? "a part" : NULL, 7);
	switch (manner) {
	case 2:
		return INFERD_DELEGATE_E_DEVICE;
	case 3:
		own = malloc(sizeof *own);
		if (!own)
			return INFERD_DELEGATE_E_MEMORY;
		*own = completion;
		if (pthread_create(&thread, NULL, end_apart, own) == 0) {
			pthread_detach(thread);
			return INFERD_DELEGATE_OK;
		}
		free(own);
		return INFERD_DELEGATE_E_MEMORY;
	case 7:
		pthread_mutex_lock(&instance->lock);
		instance->pending = completion;
		instance->is_pending = 1;
		pthread_mutex_unlock(&instance->lock);
		return INFERD_DELEGATE_OK;
	default:
		break;
	}
	completion.done(completion.self, manner == 1 ? INFERD_DELEGATE_E_LOST : 0, manner == 1 ? "lost" : NULL);
	if (manner == 4)
		completion.done(completion.self, INFERD_DELEGATE_OK, NULL);
	return manner == 5 ? INFERD_DELEGATE_E_DEVICE : INFERD_DELEGATE_OK;
}

static int execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	compute(run->args, run->n_args);
	return INFERD_DELEGATE_OK;
}

static int buffer_alloc(void *self, uint32_t device, uint64_t n_bytes, struct inferd_delegate_buffer **ret_buffer)
{
	*ret_buffer = device > 1 ? NULL : calloc(1, sizeof **ret_buffer);
	if (!*ret_buffer)
		return INFERD_DELEGATE_E_MEMORY;
	(*ret_buffer)->bytes = malloc((size_t)n_bytes);
	if ((*ret_buffer)->bytes)
		return INFERD_DELEGATE_OK;
	free(*ret_buffer);
	return INFERD_DELEGATE_E_MEMORY;
}

static int buffer_import(void *self, uint32_t device, const struct inferd_delegate_memory *memory,
	struct inferd_delegate_buffer **ret_buffer)
{
	*ret_buffer = calloc(1, sizeof **ret_buffer);
	return *ret_buffer ? INFERD_DELEGATE_OK : INFERD_DELEGATE_E_MEMORY;
}

static int buffer_map(struct inferd_delegate_buffer *buffer, void **ret_bytes)
{
	*ret_bytes = buffer->bytes;
	return INFERD_DELEGATE_OK;
}

static void buffer_unmap(struct inferd_delegate_buffer *buffer)
{
}

static void buffer_free(struct inferd_delegate_buffer *buffer)
{
	free(buffer->bytes);
	free(buffer);
}

static int stats(void *self, uint32_t device, struct inferd_delegate_stats *ret_stats)
{
	ret_stats->n_runs = device;
	return INFERD_DELEGATE_OK;
}

static const struct inferd_delegate table = {
	.struct_size = sizeof table,
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = "FuzzBackend",
	.name = "fuzz",
	.version = "1",
	.open = plugin_open,
	.close = plugin_close,
	.devices = devices,
	.probe = probe,
	.init = init,
	.execute = execute,
	.destroy = destroy,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.instance_reset = instance_reset,
	.submit = submit,
	.cancel = cancel,
	.buffer_import = buffer_import,
	.buffer_alloc = buffer_alloc,
	.buffer_map = buffer_map,
	.buffer_unmap = buffer_unmap,
	.buffer_free = buffer_free,
	.stats = stats,
};

__attribute__((visibility("default"))) const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major,
	uint32_t host_minor)
{
	return host_major == INFERD_DELEGATE_MAJOR ? &table : NULL;
}
