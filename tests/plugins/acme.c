/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in written from inferd-delegate.h alone, as a vendor's engineer would: a stateful FIR filter, on a thread
 * of its own.
 *
 * A payload is "ACME", a version (1), the number of taps and the taps, all little-endian u32 and FP32. A run takes
 * samples and returns as many: y[i] = sum of taps[k] * x[i - k], where samples before the first are those of the
 * instance's earlier runs. The option `device` (CPU, GPU, NPU) sets the kind of the device. */
#include <inferd-delegate.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ACME_ID
#define ACME_ID "AcmeBackend"
#endif

enum { HEADER = 12, MAX_TAPS = 64, FP32 = 6 };

struct engine {
	const struct inferd_delegate_host *host;
	uint32_t kind;
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	struct inferd_delegate_instance *first, **last; /* queued */
	int is_closing;
	uint64_t n_runs;
};

struct inferd_delegate_model {
	struct engine *engine;
	uint32_t n_taps;
	float taps[MAX_TAPS];
};

struct inferd_delegate_instance {
	struct inferd_delegate_model *model;
	float past[MAX_TAPS]; /* the newest first */
	/* the run in the queue */
	struct inferd_delegate_instance *next;
	struct inferd_delegate_arg *const *args;
	const struct inferd_delegate_completion *completion;
	int is_cancelled;
};

static int say(struct inferd_delegate_message *message, int result, const char *text)
{
	snprintf(message->text, sizeof message->text, "%s", text);
	return result;
}

/* --- the engine ------------------------------------------------------------------------------------- */

static void filter(struct inferd_delegate_instance *instance, const float *x, float *y, size_t n)
{
	const struct inferd_delegate_model *model = instance->model;
	for (size_t i = 0; i < n; i++) {
		memmove(instance->past + 1, instance->past, (MAX_TAPS - 1) * sizeof *instance->past);
		instance->past[0] = x[i];
		y[i] = 0;
		for (uint32_t k = 0; k < model->n_taps; k++)
			y[i] += model->taps[k] * instance->past[k];
	}
}

/* Input and output fit; the output gets the input's sizes. */
static int check_args(const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	struct inferd_delegate_arg *const *args = run->args;
	if (run->n_args != 2 || args[0]->kind != INFERD_DELEGATE_TENSOR || args[1]->kind != INFERD_DELEGATE_TENSOR ||
		args[0]->type != FP32 || args[1]->type != FP32)
		return say(message, INFERD_DELEGATE_E_UNSUPPORTED, "it takes one FP32 tensor and gives one");
	if (args[1]->n_bytes < args[0]->n_bytes || args[1]->n_dims != args[0]->n_dims)
		return say(message, INFERD_DELEGATE_E_INVALID, "the output has no room for as many samples");
	return INFERD_DELEGATE_OK;
}

static void compute(struct inferd_delegate_instance *instance, struct inferd_delegate_arg *const *args)
{
	filter(instance, args[0]->data, args[1]->data, args[0]->n_bytes / sizeof(float));
	memcpy(args[1]->sizes, args[0]->sizes, sizeof args[1]->sizes);
}

static void *engine_main(void *arg)
{
	struct engine *e = arg;
	pthread_mutex_lock(&e->lock);
	while (!e->is_closing || e->first) {
		struct inferd_delegate_instance *instance = e->first;
		if (!instance) {
			pthread_cond_wait(&e->changed, &e->lock);
			continue;
		}
		e->first = instance->next;
		if (!e->first)
			e->last = &e->first;
		int is_cancelled = instance->is_cancelled;
		e->n_runs++;
		pthread_mutex_unlock(&e->lock);
		if (!is_cancelled)
			compute(instance, instance->args);
		/* the next run of the instance may come before done has returned */
		const struct inferd_delegate_completion *completion = instance->completion;
		completion->done(completion->self, is_cancelled ? INFERD_DELEGATE_E_CANCELLED : INFERD_DELEGATE_OK,
			is_cancelled ? "cancelled before it began" : NULL);
		pthread_mutex_lock(&e->lock);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

/* --- open ------------------------------------------------------------------------------------------- */

static int acme_open(const struct inferd_delegate_host *host, void **ret_self, struct inferd_delegate_message *message)
{
	static const char *const kinds[] = { "CPU", "GPU", "NPU" };
	struct engine *e = calloc(1, sizeof *e);
	if (!e)
		return say(message, INFERD_DELEGATE_E_MEMORY, "out of memory");
	e->host = host;
	e->kind = INFERD_DELEGATE_NPU;
	e->last = &e->first;
	for (uint32_t i = 0; i < host->n_options; i++)
		for (uint32_t k = 0; k < 3 && strcmp(host->options[i]->key, "device") == 0; k++)
			if (strcmp(host->options[i]->value, kinds[k]) == 0)
				e->kind = k;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	if (pthread_create(&e->thread, NULL, engine_main, e)) {
		free(e);
		return say(message, INFERD_DELEGATE_E_DEVICE, "the engine's thread does not start");
	}
	host->log(host->self, 6, "the filter is there");
	*ret_self = e;
	return INFERD_DELEGATE_OK;
}

static void acme_close(void *self)
{
	struct engine *e = self;
	pthread_mutex_lock(&e->lock);
	e->is_closing = 1;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->thread, NULL);
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->changed);
	free(e);
}

static int acme_devices(void *self, uint32_t index, struct inferd_delegate_device *device)
{
	const struct engine *e = self;
	if (index)
		return INFERD_DELEGATE_E_NOT_FOUND;
	device->kind = e->kind;
	snprintf(device->name, sizeof device->name, "Acme filter");
	snprintf(device->id, sizeof device->id, "acme0");
	device->max_in_flight = 4;
	device->alignment = 4;
	device->flags = INFERD_DELEGATE_CAN_CANCEL | INFERD_DELEGATE_SIMULATOR;
	return INFERD_DELEGATE_OK;
}

/* --- models ----------------------------------------------------------------------------------------- */

static uint32_t get(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int read_header(const struct inferd_delegate_payload *payload, uint32_t *ret_n_taps,
	struct inferd_delegate_message *message)
{
	if (payload->n_bytes < HEADER || memcmp(payload->bytes, "ACME", 4) != 0)
		return say(message, INFERD_DELEGATE_E_INVALID, "magic: it does not begin with 'ACME'");
	uint32_t n_taps = get(payload->bytes + 8);
	if (get(payload->bytes + 4) != 1)
		return say(message, INFERD_DELEGATE_E_UNSUPPORTED, "version: only 1 is known");
	if (!n_taps || n_taps > MAX_TAPS || payload->n_bytes != HEADER + 4 * (uint64_t)n_taps)
		return say(message, INFERD_DELEGATE_E_INVALID, "number of taps: it does not fit the payload");
	*ret_n_taps = n_taps;
	return INFERD_DELEGATE_OK;
}

static int acme_probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	uint32_t n_taps;
	*ret_readiness = read_header(payload, &n_taps, message) ? INFERD_DELEGATE_NO : INFERD_DELEGATE_READY;
	return INFERD_DELEGATE_OK;
}

static int acme_init(void *self, const struct inferd_delegate_payload *payload,
	struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *info,
	struct inferd_delegate_message *message)
{
	uint32_t n_taps;
	int result = read_header(payload, &n_taps, message);
	if (result)
		return result;
	struct inferd_delegate_model *model = calloc(1, sizeof *model);
	if (!model)
		return say(message, INFERD_DELEGATE_E_MEMORY, "out of memory");
	model->engine = self;
	model->n_taps = n_taps;
	for (uint32_t k = 0; k < n_taps; k++) {
		uint32_t bits = get(payload->bytes + HEADER + 4 * k);
		memcpy(&model->taps[k], &bits, sizeof bits);
	}
	info->n_inputs = info->n_outputs = 1;
	info->flags = INFERD_DELEGATE_STATEFUL | INFERD_DELEGATE_DROPS_PAYLOAD;
	info->n_bytes = sizeof *model;
	info->scratch_bytes = sizeof(struct inferd_delegate_instance);
	*ret_model = model;
	return INFERD_DELEGATE_OK;
}

static void acme_destroy(struct inferd_delegate_model *model)
{
	free(model);
}

/* --- instances and runs ----------------------------------------------------------------------------- */

static int acme_instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	struct inferd_delegate_instance *instance = calloc(1, sizeof *instance);
	if (!instance)
		return say(message, INFERD_DELEGATE_E_MEMORY, "out of memory");
	instance->model = model;
	*ret_instance = instance;
	return INFERD_DELEGATE_OK;
}

static void acme_instance_free(struct inferd_delegate_instance *instance)
{
	free(instance);
}

static int acme_instance_reset(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	memset(instance->past, 0, sizeof instance->past);
	return INFERD_DELEGATE_OK;
}

static int acme_execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	int result = check_args(run, message);
	if (!result)
		compute(instance, run->args);
	return result;
}

static int acme_submit(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, const struct inferd_delegate_completion *completion,
	struct inferd_delegate_message *message)
{
	struct engine *e = model->engine;
	int result = check_args(run, message);
	if (result)
		return result;
	pthread_mutex_lock(&e->lock);
	instance->next = NULL;
	instance->args = run->args;
	instance->completion = completion;
	instance->is_cancelled = 0;
	*e->last = instance;
	e->last = &instance->next;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
	return INFERD_DELEGATE_OK;
}

static void acme_cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	pthread_mutex_lock(&model->engine->lock);
	instance->is_cancelled = 1;
	pthread_mutex_unlock(&model->engine->lock);
}

static int acme_stats(void *self, uint32_t device, struct inferd_delegate_stats *stats)
{
	struct engine *e = self;
	if (device)
		return INFERD_DELEGATE_E_NOT_FOUND;
	pthread_mutex_lock(&e->lock);
	stats->n_runs = e->n_runs;
	pthread_mutex_unlock(&e->lock);
	return INFERD_DELEGATE_OK;
}

static const struct inferd_delegate table = {
	.struct_size = sizeof table,
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = ACME_ID,
	.name = "acme",
	.version = "0.1",
	.open = acme_open,
	.close = acme_close,
	.devices = acme_devices,
	.probe = acme_probe,
	.init = acme_init,
	.execute = acme_execute,
	.destroy = acme_destroy,
	.instance_new = acme_instance_new,
	.instance_free = acme_instance_free,
	.instance_reset = acme_instance_reset,
	.submit = acme_submit,
	.cancel = acme_cancel,
	.stats = acme_stats,
};

const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor)
{
	return host_major == INFERD_DELEGATE_MAJOR ? &table : NULL;
}
