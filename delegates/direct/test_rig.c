/* SPDX-License-Identifier: BSD-3-Clause */
/* A delegate for tests, and the set-up that they share. The payload's word says where and how a run ends, which is
 * all that the adapter can notice; what the delegate computes is one multiplication. */
#include "delegates/direct/test_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* --- the delegate ---------------------------------------------------------------------------------------- */

struct inferd_delegate_model {
	const struct inferd_delegate_payload *payload;
	char word[16];
	float factor;
};

struct inferd_delegate_instance {
	struct inferd_delegate_model *model;
	const struct inferd_delegate_run *run;
	const struct inferd_delegate_completion *completion;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool is_cancelled, has_thread;
	int n_cancels;
};

static const struct inferd_delegate_host *the_host;
pthread_mutex_t rig_gate_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t rig_gate_changed = PTHREAD_COND_INITIALIZER;
bool rig_is_at_gate, rig_is_gate_open;

static int refuse(struct inferd_delegate_message *message, int result, const char *text)
{
	snprintf(message->text, sizeof message->text, "%s", text);
	return result;
}

static int open_it(const struct inferd_delegate_host *host, void **ret_self, struct inferd_delegate_message *message)
{
	the_host = host;
	void *self = host->alloc(host->self, 100, 64);
	if (!self)
		return refuse(message, INFERD_DELEGATE_E_MEMORY, "no memory for the test");
	if (host->n_options && strcmp(host->options[0]->key, "colour")) {
		host->free(host->self, self, 100);
		return refuse(message, INFERD_DELEGATE_E_INVALID, "there is no such option");
	}
	*ret_self = self;
	return INFERD_DELEGATE_OK;
}

static void close_it(void *self)
{
	the_host->free(the_host->self, self, 100);
}

static int devices(void *self, uint32_t index, struct inferd_delegate_device *ret_device)
{
	if (index > 1)
		return INFERD_DELEGATE_E_NOT_FOUND;
	ret_device->kind = index ? INFERD_DELEGATE_GPU : INFERD_DELEGATE_CPU;
	ret_device->max_in_flight = index ? 3 : 0;
	ret_device->alignment = ALIGNMENT;
	snprintf(ret_device->name, sizeof ret_device->name, "number %u", index);
	return INFERD_DELEGATE_OK;
}

static int probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	*ret_readiness = payload->n_bytes < 16 ? INFERD_DELEGATE_READY : INFERD_DELEGATE_NO;
	if (payload->n_bytes >= 16)
		refuse(message, 0, "it is no word");
	return INFERD_DELEGATE_OK;
}

static int init(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *ret_info, struct inferd_delegate_message *message)
{
	const uint8_t *bytes;
	uint64_t n_bytes;
	if (payload->n_bytes >= 16)
		return refuse(message, INFERD_DELEGATE_E_INVALID, "it is no word");
	if (!payload->program ||
		payload->named_data(payload->self, "x", &bytes, &n_bytes) != INFERD_DELEGATE_E_NOT_FOUND)
		return refuse(message, INFERD_DELEGATE_E_INTERNAL, "what comes with a payload is wrong");
	struct inferd_delegate_model *model = the_host->alloc(the_host->self, sizeof *model, 16);
	if (!model)
		return refuse(message, INFERD_DELEGATE_E_MEMORY, "no memory for a model");
	*model = (struct inferd_delegate_model){ .payload = payload, .factor = 2 };
	memcpy(model->word, payload->bytes, payload->n_bytes);
	for (uint32_t i = 0; i < payload->n_specs; i++)
		if (strcmp(payload->specs[i]->key, "factor") == 0)
			model->factor = strtof(payload->specs[i]->value, NULL);
	for (uint32_t i = 0; i < payload->n_options; i++)
		model->factor = strtof(payload->options[i]->value, NULL);
	ret_info->n_inputs = ret_info->n_outputs = 1;
	ret_info->device = 1;
	ret_info->n_bytes = sizeof *model;
	*ret_model = model;
	return INFERD_DELEGATE_OK;
}

static void destroy(struct inferd_delegate_model *model)
{
	the_host->free(the_host->self, model, sizeof *model);
}

static int keep(struct inferd_delegate_model *model, struct inferd_delegate_message *message)
{
	static const struct inferd_delegate_piece pieces[] = { { "ab", 2 }, { "c", 1 } };
	const struct inferd_delegate_store *store = model->payload->store;
	const uint8_t *bytes;
	size_t n_bytes;
	void *handle;
	if (!store)
		return INFERD_DELEGATE_OK;
	if (store->find(store->self, "made by a test", &bytes, &n_bytes, &handle) == INFERD_DELEGATE_OK) {
		store->release(store->self, handle);
		return INFERD_DELEGATE_OK;
	}
	return store->keep(store->self, "made by a test", pieces, 2, message);
}

static int instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	struct inferd_delegate_instance *instance = the_host->alloc(the_host->self, sizeof *instance, 16);
	if (!instance)
		return refuse(message, INFERD_DELEGATE_E_MEMORY, "no memory for an instance");
	*instance = (struct inferd_delegate_instance){ .model = model };
	pthread_mutex_init(&instance->lock, NULL);
	pthread_cond_init(&instance->changed, NULL);
	*ret_instance = instance;
	return INFERD_DELEGATE_OK;
}

static void join(struct inferd_delegate_instance *instance)
{
	if (instance->has_thread)
		pthread_join(instance->thread, NULL);
	instance->has_thread = false;
}

static void instance_free(struct inferd_delegate_instance *instance)
{
	join(instance);
	pthread_mutex_destroy(&instance->lock);
	pthread_cond_destroy(&instance->changed);
	the_host->free(the_host->self, instance, sizeof *instance);
}

int rig_execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	const struct inferd_delegate_arg *in = run->args[0];
	struct inferd_delegate_arg *out = run->args[1];
	if (in->kind != INFERD_DELEGATE_TENSOR || out->kind != INFERD_DELEGATE_TENSOR)
		return refuse(message, INFERD_DELEGATE_E_ARGUMENT, "that is no tensor");
	if ((uintptr_t)in->data % ALIGNMENT || (uintptr_t)out->data % ALIGNMENT)
		return refuse(message, INFERD_DELEGATE_E_INTERNAL, "it lies badly");
	for (uint64_t i = 0; i < in->n_bytes / sizeof(float) && i < out->n_bytes / sizeof(float); i++)
		((float *)out->data)[i] = model->factor * ((const float *)in->data)[i];
	for (uint8_t i = 0; i < out->n_dims; i++)
		out->sizes[i] = in->sizes[i];
	out->sizes[0] += strcmp(model->word, "stretch") == 0;
	if (run->flags & INFERD_DELEGATE_PROFILE) {
		run->event(run->self, "first", 30);
		run->event(run->self, "second", 40);
	}
	return INFERD_DELEGATE_OK;
}

static void finish(struct inferd_delegate_instance *instance)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	int result = instance->is_cancelled ? INFERD_DELEGATE_E_CANCELLED
					    : rig_execute(instance->model, instance, instance->run, &message);
	instance->completion->done(instance->completion->self, result,
		instance->is_cancelled ? "somebody asked" : message.text);
}

static void *work(void *arg)
{
	struct inferd_delegate_instance *instance = arg;
	pthread_mutex_lock(&instance->lock);
	while (strcmp(instance->model->word, "thread") && !instance->is_cancelled)
		pthread_cond_wait(&instance->changed, &instance->lock);
	pthread_mutex_unlock(&instance->lock);
	finish(instance);
	return NULL;
}

static int submit(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, const struct inferd_delegate_completion *completion,
	struct inferd_delegate_message *message)
{
	if (strcmp(model->word, "refuse") == 0)
		return refuse(message, INFERD_DELEGATE_E_DEVICE, "the device does not want to");
	join(instance);
	instance->run = run;
	instance->completion = completion;
	instance->is_cancelled = false;
	if (strcmp(model->word, "inside") == 0 || strcmp(model->word, "stretch") == 0 ||
		strcmp(model->word, "double") == 0) {
		finish(instance);
		return INFERD_DELEGATE_OK;
	}
	assert_int_equal(pthread_create(&instance->thread, NULL, work, instance), 0);
	instance->has_thread = true;
	pthread_mutex_lock(&rig_gate_lock);
	rig_is_at_gate = true;
	pthread_cond_broadcast(&rig_gate_changed);
	while (strcmp(model->word, "slow") == 0 && !rig_is_gate_open)
		pthread_cond_wait(&rig_gate_changed, &rig_gate_lock);
	pthread_mutex_unlock(&rig_gate_lock);
	return INFERD_DELEGATE_OK;
}

static void cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	pthread_mutex_lock(&instance->lock);
	instance->is_cancelled = true;
	instance->n_cancels++;
	pthread_cond_broadcast(&instance->changed);
	pthread_mutex_unlock(&instance->lock);
}

/* The complete table; a test of a refusal changes a copy. */
const struct inferd_delegate rig_delegate = {
	.struct_size = sizeof(struct inferd_delegate),
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = "DirectBackend",
	.name = "direct",
	.open = open_it,
	.close = close_it,
	.devices = devices,
	.probe = probe,
	.init = init,
	.execute = rig_execute,
	.destroy = destroy,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.submit = submit,
	.cancel = cancel,
	.keep = keep,
};

/* --- set-up ------------------------------------------------------------------------------------------------ */

enum et_status rig_begin(struct subject *s, const struct inferd_delegate *table, const char *word,
	const struct et_payload *payload)
{
	struct et_payload own = payload ? *payload : (struct et_payload){ 0 };
	own.bytes = (const uint8_t *)word;
	own.n_bytes = strlen(word);
	own.n_args = own.n_args ? own.n_args : 2;
	enum et_status status = et_direct_open(&s->entry, table, NULL, &s->allocator, NULL, &s->diag);
	if (!status)
		status = s->entry.ops->compile(s->entry.backend, &own, &s->model, &s->info, &s->diag);
	if (!status)
		status = s->entry.ops->threads_new(s->entry.backend, 1, 1, &s->threads, &s->diag);
	if (!status)
		status = s->entry.ops->instance_new(s->model, s->threads, &s->instance, &s->diag);
	return status;
}

void rig_set_up(struct subject *s)
{
	static const uint8_t dim_order[] = { 0, 1 };
	memset(s, 0, sizeof *s);
	s->allocator = counting_allocator(&s->counting);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	for (int i = 0; i < 2; i++) {
		s->sizes[i][0] = ROWS;
		s->sizes[i][1] = COLUMNS;
		s->tensors[i] = (struct et_tensor){ .data = i ? s->out : s->in,
			.capacity = N,
			.sizes = s->sizes[i],
			.strides = s->strides[i],
			.dim_order = dim_order,
			.type = ET_FLOAT32,
			.n_dims = 2,
			.dynamism = ET_DYNAMIC_BOUND };
		s->values[i] = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &s->tensors[i] };
		s->args[i] = &s->values[i];
	}
	for (int i = 0; i <= N; i++)
		s->in[i] = (float)i;
}

void rig_tear_down(struct subject *s)
{
	if (s->entry.ops) {
		s->entry.ops->instance_free(s->instance);
		s->entry.ops->threads_free(s->threads);
		s->entry.ops->model_free(s->model);
		s->entry.ops->close(s->entry.backend);
	}
	assert_int_equal(s->counting.n_live, 0);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
}

static void on_done(void *self, enum et_status status, const char *reason)
{
	struct subject *s = self;
	pthread_mutex_lock(&s->lock);
	assert_false(s->is_done);
	s->is_done = true;
	s->status = status;
	snprintf(s->reason, sizeof s->reason, "%s", reason ? reason : "");
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

enum et_status rig_start(struct subject *s)
{
	struct et_completion completion = { .self = s, .done = on_done };
	s->is_done = false;
	return s->entry.ops->enqueue(s->instance, s->args, &completion, &s->diag);
}

enum et_status rig_end(struct subject *s)
{
	pthread_mutex_lock(&s->lock);
	while (!s->is_done)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return s->status;
}

enum et_status rig_run(struct subject *s)
{
	enum et_status status = rig_start(s);
	return status == ET_PENDING ? rig_end(s) : status;
}

void rig_expect(const float *in, const float *out, float factor, int n)
{
	for (int i = 0; i < n; i++)
		assert_true(out[i] == factor * in[i]);
}
