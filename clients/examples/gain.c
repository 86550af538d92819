/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in for inferd in one file: an engine whose payload is a number, and an operator.
 *
 *     cc -shared -fPIC -o gain.so gain.c
 *     inferd-delegate-check gain.so
 *
 * and in inferd.conf
 *     [backend gain]
 *     path = /usr/lib/inferd/gain.so
 *
 * A payload of GainBackend is "GAIN" and a float; a run multiplies its input by that float. The operator
 * example::gain.out multiplies by its argument, in any program that calls it. */
#include <inferd-delegate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FP32 = 6 };

struct inferd_delegate_model {
	float factor;
};

static int say(struct inferd_delegate_message *message, int result, const char *text)
{
	snprintf(message->text, sizeof message->text, "%s", text);
	return result;
}

/* Find the device. This device is always there. */
static int gain_open(const struct inferd_delegate_host *host, void **ret_self, struct inferd_delegate_message *message)
{
	host->log(host->self, 7, "ready to amplify");
	*ret_self = (void *)host;
	return INFERD_DELEGATE_OK;
}

static void gain_close(void *self)
{
}

static int gain_devices(void *self, uint32_t index, struct inferd_delegate_device *device)
{
	if (index > 0)
		return INFERD_DELEGATE_E_NOT_FOUND;
	device->kind = INFERD_DELEGATE_NPU;
	snprintf(device->name, sizeof device->name, "Amplifier");
	snprintf(device->id, sizeof device->id, "amplifier-0");
	device->max_in_flight = 1;
	device->alignment = 64;
	device->flags = INFERD_DELEGATE_SIMULATOR;
	return INFERD_DELEGATE_OK;
}

/* A payload comes from a file: check every byte before using it. */
static int read_factor(const struct inferd_delegate_payload *payload, float *ret_factor,
	struct inferd_delegate_message *message)
{
	if (payload->n_bytes != 8 || memcmp(payload->bytes, "GAIN", 4) != 0)
		return say(message, INFERD_DELEGATE_E_INVALID, "the payload is not \"GAIN\" and a float");
	memcpy(ret_factor, payload->bytes + 4, sizeof *ret_factor);
	return INFERD_DELEGATE_OK;
}

static int gain_probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	float factor;
	*ret_readiness = read_factor(payload, &factor, message) ? INFERD_DELEGATE_NO : INFERD_DELEGATE_READY;
	return INFERD_DELEGATE_OK;
}

static int gain_init(void *self, const struct inferd_delegate_payload *payload,
	struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *info,
	struct inferd_delegate_message *message)
{
	float factor;
	int result = read_factor(payload, &factor, message);
	if (result)
		return result;
	struct inferd_delegate_model *model = malloc(sizeof *model);
	if (!model)
		return say(message, INFERD_DELEGATE_E_MEMORY, "out of memory");
	model->factor = factor;
	info->n_inputs = 1;
	info->n_outputs = 1;
	info->flags = INFERD_DELEGATE_DROPS_PAYLOAD;
	info->n_bytes = sizeof *model;
	*ret_model = model;
	return INFERD_DELEGATE_OK;
}

static void gain_destroy(struct inferd_delegate_model *model)
{
	free(model);
}

static int amplify(const struct inferd_delegate_arg *in, struct inferd_delegate_arg *out, float factor,
	struct inferd_delegate_message *message)
{
	if (!out->is_output || in->kind != INFERD_DELEGATE_TENSOR || out->kind != INFERD_DELEGATE_TENSOR ||
		in->type != FP32 || out->type != FP32 || out->n_bytes < in->n_bytes)
		return say(message, INFERD_DELEGATE_E_INVALID, "input and output must be FP32 of the same size");
	const float *from = in->data;
	float *to = out->data;
	for (uint64_t i = 0; i < in->n_bytes / sizeof *from; i++)
		to[i] = from[i] * factor;
	memcpy(out->sizes, in->sizes, sizeof out->sizes);
	return INFERD_DELEGATE_OK;
}

static int gain_execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	if (run->n_args != 2)
		return say(message, INFERD_DELEGATE_E_INVALID, "a run has one input and one output");
	return amplify(run->args[0], run->args[1], model->factor, message);
}

/* example::gain.out(Tensor in, float factor, *, Tensor out) */
static int gain_operator(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
	struct inferd_delegate_message *message)
{
	if (n_args != 3)
		return say(message, INFERD_DELEGATE_E_INVALID, "gain takes a tensor and a number and returns a tensor");
	return amplify(args[0], args[2], (float)args[1]->d, message);
}

static const struct inferd_delegate_kernel gain_kernel = {
	.struct_size = sizeof gain_kernel, .name = "example::gain.out", .signature = "TD>T", .run = gain_operator
};
static const struct inferd_delegate_kernel *const gain_kernels[] = { &gain_kernel };

static const struct inferd_delegate gain = {
	.struct_size = sizeof gain,
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = "GainBackend",
	.name = "gain",
	.version = "1.0",
	.kernels = gain_kernels,
	.n_kernels = 1,
	.open = gain_open,
	.close = gain_close,
	.devices = gain_devices,
	.probe = gain_probe,
	.init = gain_init,
	.execute = gain_execute,
	.destroy = gain_destroy,
};

const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor)
{
	return &gain;
}
