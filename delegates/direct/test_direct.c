/* The direct adapter, with a delegate that does what its payload says:
 *
 *     double   out = 2 * in, where it is asked       stretch  the same, one row more
 *     inside   submitted, ends before submit returns refuse   submit refuses
 *     thread   submitted, ends on another thread     wait     submitted, ends when it is cancelled
 *     slow     as wait, but submit returns only when the gate is open */
#include "delegates/direct/direct.h"

#include "clients/inferd-delegate.h"
#include "runtime/host/host.h"
#include "tests/support/counting_alloc.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 2, COLUMNS = 4, N = 16, ALIGNMENT = 64 };

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
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool is_at_gate, is_gate_open;

static int refuse(struct inferd_delegate_message *message, int result, const char *text)
{
	snprintf(message->text, sizeof message->text, "%s", text);
	return result;
}

static int open_it(
	const struct inferd_delegate_host *host, void **ret_self, struct inferd_delegate_message *message)
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

static int init(void *self, const struct inferd_delegate_payload *payload,
	struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *ret_info,
	struct inferd_delegate_message *message)
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

static int execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
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
					    : execute(instance->model, instance, instance->run, &message);
	instance->completion->done(
		instance->completion->self, result, instance->is_cancelled ? "somebody asked" : message.text);
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
	pthread_mutex_lock(&gate_lock);
	is_at_gate = true;
	pthread_cond_broadcast(&gate_changed);
	while (strcmp(model->word, "slow") == 0 && !is_gate_open)
		pthread_cond_wait(&gate_changed, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
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

/* What a test of one refusal leaves out or adds. */
static const struct inferd_delegate complete = {
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
	.execute = execute,
	.destroy = destroy,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.submit = submit,
	.cancel = cancel,
	.keep = keep,
};

/* --- what the tests have in common ------------------------------------------------------------------------- */

struct subject {
	struct counting_alloc counting;
	struct et_allocator allocator;
	struct et_backend_entry entry;
	struct et_compiled *compiled;
	struct et_compiled_info info;
	struct et_lane *lane;
	struct et_context *context;
	struct et_diag diag;
	_Alignas(ALIGNMENT) float in[N + 1], out[N + 1];
	struct et_tensor tensors[2];
	struct et_evalue values[2], *args[2];
	int32_t sizes[2][2], strides[2][2];
	/* the end */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_done;
	enum et_status status;
	char reason[300];
};

static enum et_status begin(struct subject *s, const struct inferd_delegate *table, const char *word,
	const struct et_payload *payload)
{
	struct et_payload own = payload ? *payload : (struct et_payload){ .struct_size = sizeof own };
	own.bytes = (const uint8_t *)word;
	own.n_bytes = strlen(word);
	own.n_args = own.n_args ? own.n_args : 2;
	enum et_status status = et_direct_open(&s->entry, table, NULL, &s->allocator, NULL, &s->diag);
	if (!status)
		status = s->entry.ops->compile(s->entry.backend, &own, &s->compiled, &s->info, &s->diag);
	if (!status)
		status = s->entry.ops->lane_new(s->entry.backend, 1, 1, &s->lane, &s->diag);
	if (!status)
		status = s->entry.ops->context_new(s->compiled, s->lane, &s->context, &s->diag);
	return status;
}

static void set_up(struct subject *s)
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

static void tear_down(struct subject *s)
{
	if (s->entry.ops) {
		s->entry.ops->context_free(s->context);
		s->entry.ops->lane_free(s->lane);
		s->entry.ops->compiled_free(s->compiled);
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

static enum et_status start(struct subject *s)
{
	struct et_completion completion = { .self = s, .done = on_done };
	s->is_done = false;
	return s->entry.ops->enqueue(s->context, s->args, &completion, &s->diag);
}

static enum et_status end(struct subject *s)
{
	pthread_mutex_lock(&s->lock);
	while (!s->is_done)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return s->status;
}

static enum et_status run(struct subject *s)
{
	enum et_status status = start(s);
	return status == ET_PENDING ? end(s) : status;
}

static void expect(const struct subject *s, const float *in, const float *out, float factor, int n)
{
	for (int i = 0; i < n; i++)
		assert_true(out[i] == factor * in[i]);
}

/* --- tests ---------------------------------------------------------------------------------------------------- */

static void test_runs(void **state)
{
	static const char *const words[] = { "double", "inside", "thread" };
	struct inferd_delegate synchronous = complete;
	synchronous.submit = NULL;
	for (size_t i = 0; i < 4; i++) {
		struct subject s;
		set_up(&s);
		assert_int_equal(begin(&s, i ? &complete : &synchronous, words[i ? i - 1 : 0], NULL), ET_OK);
		assert_string_equal(s.entry.ops->id, "DirectBackend");
		assert_int_equal(s.entry.ops->n_devices(s.entry.backend), 2);
		assert_true(s.info.has_free_contexts && s.info.device == 1 && s.info.n_inputs == 1);
		for (int k = 0; k < 20; k++) {
			s.sizes[0][0] = 1 + k % 3;
			assert_int_equal(run(&s), ET_OK);
			assert_int_equal(s.sizes[1][0], s.sizes[0][0]);
			expect(&s, s.in, s.out, 2, s.sizes[0][0] * COLUMNS);
			assert_int_equal(s.entry.ops->copied_bytes(s.context), 0);
		}
		tear_down(&s);
	}
}

/* What the device can't use where it lies is copied there and back, and counted. */
static void test_misaligned(void **state)
{
	struct subject s;
	set_up(&s);
	assert_int_equal(begin(&s, &complete, "thread", NULL), ET_OK);
	s.tensors[0].data = s.in + 1;
	s.tensors[1].data = s.out + 1;
	for (int k = 0; k < 3; k++) {
		s.sizes[0][0] = 1 + k;
		s.tensors[0].capacity = (size_t)s.sizes[0][0] * COLUMNS;
		s.out[0] = -1;
		assert_int_equal(run(&s), ET_OK);
		expect(&s, s.in + 1, s.out + 1, 2, s.sizes[0][0] * COLUMNS);
		assert_true(s.out[0] == -1);
		assert_int_equal(s.entry.ops->copied_bytes(s.context),
			2 * (size_t)s.sizes[0][0] * COLUMNS * sizeof(float));
	}
	tear_down(&s);
}

static void test_failures(void **state)
{
	struct subject s;
	struct et_evalue number = { .tag = ET_TAG_INT }, list = { .tag = ET_TAG_INT_LIST };
	set_up(&s);
	assert_int_equal(begin(&s, &complete, "stretch", NULL), ET_OK);
	s.tensors[1].dynamism = ET_STATIC;
	assert_int_equal(run(&s), ET_E_INTERNAL);
	assert_string_equal(
		s.reason, "the delegate gave output 0 the sizes [3,4], which the program does not allow");
	s.tensors[1].dynamism = ET_DYNAMIC_BOUND;
	assert_int_equal(run(&s), ET_OK);
	s.args[0] = &number;
	assert_int_equal(run(&s), ET_E_INVALID_ARGUMENT);
	assert_string_equal(s.reason, "that is no tensor");
	s.args[0] = &list;
	assert_int_equal(run(&s), ET_E_NOT_SUPPORTED);
	s.args[0] = &s.values[0];
	assert_int_equal(run(&s), ET_OK);
	tear_down(&s);
	set_up(&s);
	assert_int_equal(begin(&s, &complete, "refuse", NULL), ET_OK);
	for (int k = 0; k < 2; k++) {
		s.diag.text[0] = '\0';
		assert_int_equal(run(&s), ET_E_INTERNAL);
		assert_string_equal(s.diag.text, "the device does not want to");
	}
	tear_down(&s);
}

static void test_cancel(void **state)
{
	struct subject s;
	set_up(&s);
	assert_int_equal(begin(&s, &complete, "wait", NULL), ET_OK);
	s.entry.ops->cancel(s.context); /* nothing runs */
	for (int k = 0; k < 10; k++) {
		assert_int_equal(start(&s), ET_PENDING);
		s.entry.ops->cancel(s.context);
		s.entry.ops->cancel(s.context);
		assert_int_equal(end(&s), ET_E_CANCELLED);
		assert_string_equal(s.reason, "somebody asked");
		s.entry.ops->cancel(s.context); /* too late */
	}
	tear_down(&s);
}

static void *start_it(void *arg)
{
	return (void *)(uintptr_t)start(arg);
}

/* A cancel that comes while the run is being submitted is passed on when it has been. */
static void test_cancel_while_submitting(void **state)
{
	struct subject s;
	pthread_t thread;
	void *status;
	set_up(&s);
	is_at_gate = is_gate_open = false;
	assert_int_equal(begin(&s, &complete, "slow", NULL), ET_OK);
	assert_int_equal(pthread_create(&thread, NULL, start_it, &s), 0);
	pthread_mutex_lock(&gate_lock);
	while (!is_at_gate)
		pthread_cond_wait(&gate_changed, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
	s.entry.ops->cancel(s.context);
	assert_false(s.is_done);
	pthread_mutex_lock(&gate_lock);
	is_gate_open = true;
	pthread_cond_broadcast(&gate_changed);
	pthread_mutex_unlock(&gate_lock);
	assert_int_equal(end(&s), ET_E_CANCELLED);
	pthread_join(thread, &status);
	assert_int_equal((uintptr_t)status, ET_PENDING);
	tear_down(&s);
}

static void test_options(void **state)
{
	static const struct et_compile_spec specs[] = { { "factor", (const uint8_t *)"3x", 1 } };
	static const struct et_option options[] = { { "direct", "factor", "5" } },
				      wrong[] = { { "direct", "size", "5" } };
	struct et_payload payload = { .struct_size = sizeof payload, .specs = specs, .n_specs = 1 };
	for (uint32_t n = 0; n < 2; n++) {
		struct subject s;
		set_up(&s);
		payload.options = options;
		payload.n_options = n;
		assert_int_equal(begin(&s, &complete, "double", &payload), ET_OK);
		assert_int_equal(run(&s), ET_OK);
		expect(&s, s.in, s.out, n ? 5 : 3, ROWS * COLUMNS);
		tear_down(&s);
	}
	struct subject s;
	struct et_direct_config config = { .options = wrong, .n_options = 1 };
	set_up(&s);
	assert_int_equal(et_direct_open(&s.entry, &complete, &config, &s.allocator, NULL, &s.diag),
		ET_E_INVALID_PROGRAM);
	assert_string_equal(s.diag.text, "there is no such option");
	tear_down(&s);
}

static void test_probe(void **state)
{
	struct subject s;
	enum et_readiness readiness;
	struct et_payload payload = { .struct_size = sizeof payload,
		.bytes = (const uint8_t *)"more than a word",
		.n_bytes = 16,
		.n_args = 2 };
	set_up(&s);
	assert_int_equal(begin(&s, &complete, "double", NULL), ET_OK);
	assert_int_equal(s.entry.ops->probe(s.entry.backend, &payload, &readiness, &s.diag), ET_OK);
	assert_int_equal(readiness, ET_READINESS_NO);
	assert_string_equal(s.diag.text, "it is no word");
	payload.n_bytes = 4;
	assert_int_equal(s.entry.ops->probe(s.entry.backend, &payload, &readiness, &s.diag), ET_OK);
	assert_int_equal(readiness, ET_READINESS_READY);
	tear_down(&s);
	set_up(&s);
	payload.n_args = 3;
	assert_int_equal(begin(&s, &complete, "double", &payload), ET_E_INVALID_PROGRAM);
	assert_string_equal(
		s.diag.text, "DirectBackend: a payload of 1 inputs and 1 outputs is called with 3 arguments");
	tear_down(&s);
}

struct kept {
	char bytes[8];
	size_t n_bytes;
	int n_kept, n_found;
};

static enum et_status find_kept(
	void *self, const char *variant, const uint8_t **ret_bytes, size_t *ret_n_bytes, void **ret_handle)
{
	struct kept *kept = self;
	assert_string_equal(variant, "made by a test");
	if (!kept->n_bytes)
		return ET_E_NOT_FOUND;
	*ret_bytes = (const uint8_t *)kept->bytes;
	*ret_n_bytes = kept->n_bytes;
	*ret_handle = kept;
	return ET_OK;
}

static void release_kept(void *self, void *handle)
{
	assert_ptr_equal(self, handle);
	((struct kept *)self)->n_found++;
}

static enum et_status keep_pieces(void *self, const char *variant, const struct et_store_piece *pieces,
	size_t n_pieces, struct et_diag *diag)
{
	struct kept *kept = self;
	if (kept->n_kept++ == 0)
		return et_fail(diag, ET_E_ACCESS_FAILED, "the disk is full");
	for (size_t i = 0; i < n_pieces; i++) {
		memcpy(kept->bytes + kept->n_bytes, pieces[i].bytes, pieces[i].n_bytes);
		kept->n_bytes += pieces[i].n_bytes;
	}
	return ET_OK;
}

static void test_keep(void **state)
{
	struct kept kept = { .n_bytes = 0 };
	struct et_store store = { .struct_size = sizeof store,
		.self = &kept,
		.find = find_kept,
		.release = release_kept,
		.keep = keep_pieces };
	struct et_payload payload = { .struct_size = sizeof payload, .store = &store };
	struct subject s;
	set_up(&s);
	assert_int_equal(begin(&s, &complete, "double", &payload), ET_OK);
	assert_int_equal(s.entry.ops->keep(s.compiled, &s.diag), ET_E_INTERNAL);
	assert_string_equal(s.diag.text, "the disk is full");
	assert_int_equal(s.entry.ops->keep(s.compiled, &s.diag), ET_OK);
	assert_memory_equal(kept.bytes, "abc", 3);
	assert_int_equal(s.entry.ops->keep(s.compiled, &s.diag), ET_OK);
	assert_int_equal(kept.n_found, 1);
	tear_down(&s);
}

static char traced[100];

static void trace_begin(void *self, uint32_t instruction)
{
	snprintf(traced + strlen(traced), sizeof traced - strlen(traced), "begin %u;", instruction);
}

static void trace_end(void *self, uint32_t instruction)
{
	snprintf(traced + strlen(traced), sizeof traced - strlen(traced), "end %u;", instruction);
}

static void trace_part(void *self, const char *name, uint64_t ns)
{
	snprintf(traced + strlen(traced), sizeof traced - strlen(traced), "%s %u;", name, (unsigned)ns);
}

static void test_profile(void **state)
{
	static const struct et_trace trace = { .begin = trace_begin, .end = trace_end, .part = trace_part };
	struct subject s;
	set_up(&s);
	assert_int_equal(begin(&s, &complete, "thread", NULL), ET_OK);
	traced[0] = '\0';
	assert_int_equal(s.entry.ops->profile(s.context, s.args, &trace, 7, &s.diag), ET_OK);
	assert_string_equal(traced, "begin 7;end 7;first 30;second 40;");
	expect(&s, s.in, s.out, 2, ROWS * COLUMNS);
	tear_down(&s);
}

static void some_loop(struct inferd_delegate_lane *lane, void (*fn)(void *arg, size_t begin, size_t end),
	void *arg, size_t n, size_t grain)
{
}

static int some_kernel(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
	struct inferd_delegate_message *message)
{
	return INFERD_DELEGATE_OK;
}

/* Tables that ask for what this process does not do, or lack what must be there. */
static void test_tables(void **state)
{
	static const struct inferd_delegate_kernel kernel = {
		.struct_size = sizeof kernel, .name = "a::b", .signature = "T>T", .run = some_kernel
	};
	static const struct inferd_delegate_kernel *const kernels[] = { &kernel };
	for (int i = 0; i < 7; i++) {
		struct inferd_delegate table = complete;
		const char *part = "";
		struct subject s;
		set_up(&s);
		if (i == 0) {
			table.flags = INFERD_DELEGATE_ONE_THREAD;
			part = "wants all calls on one thread";
		} else if (i == 1) {
			table.kernels = kernels;
			table.n_kernels = 1;
			part = "brings operators of its own";
		} else if (i == 2) {
			table.instance_new = NULL;
			table.instance_free = NULL;
			table.cancel = NULL;
			part = "has no instances";
		} else if (i == 3) {
			table.major = 2;
			part = "made for version 2.1";
		} else if (i == 4) {
			table.lane_parallel_for = some_loop;
			part = "lane_parallel_for";
		} else if (i == 5) {
			table.struct_size = 16;
			part = "its table has 16 bytes";
		} else {
			table.init = NULL;
			part = "lacks one of open";
		}
		assert_int_not_equal(begin(&s, &table, "double", NULL), ET_OK);
		if (!strstr(s.diag.text, part))
			fail_msg("'%s' is not in: %s", part, s.diag.text);
		tear_down(&s);
	}
	/* one of 1.0 ends where 1.0 ended, whatever lies behind */
	struct inferd_delegate old = complete;
	struct subject s;
	set_up(&s);
	old.minor = 0;
	old.struct_size = offsetof(struct inferd_delegate, lane_new);
	assert_int_equal(begin(&s, &old, "double", NULL), ET_OK);
	assert_null(s.entry.ops->keep);
	assert_int_equal(run(&s), ET_OK);
	tear_down(&s);
}

/* The nth allocation fails, for every n: a status, a sentence, and nothing left. */
static void test_out_of_memory(void **state)
{
	static const struct et_option options[] = { { "direct", "factor", "2" } };
	struct et_payload payload = { .struct_size = sizeof payload, .options = options, .n_options = 1 };
	enum et_status status = ET_E_INTERNAL;
	for (size_t n = 1; status != ET_OK; n++) {
		struct subject s;
		assert_true(n < 100);
		set_up(&s);
		s.tensors[0].data = s.in + 1;
		s.counting.fail_at = n;
		status = begin(&s, &complete, "double", &payload);
		if (!status)
			status = run(&s);
		assert_true(status == ET_OK || status == ET_E_MEMORY_ALLOCATION_FAILED ||
			    status == ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED);
		assert_true(status == ET_OK || s.diag.text[0]);
		tear_down(&s);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_misaligned),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_cancel_while_submitting),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
