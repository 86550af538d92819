/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's table: opening, devices, models.
 *
 * What must always be true: a Plan is prepared for worker threads only while these exist, and all such instances of
 * delegates are freed before either goes (threads.c). */
#include "delegates/program/engine.h"
#include "delegates/program/engine_internal.h"
#include "delegates/program/stand_in_write.h"

#include "delegates/convert.h"
#include "delegates/delegates.h"
#include "delegates/direct/direct.h"
#include "runtime/base/checked.h"
#include "runtime/dim_order.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { DEFAULT_WORKERS = 64, MAX_OPTIONS = 64 };

uint64_t et_engine_memory_limit(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

int et_engine_answer(enum et_status status, const struct et_diag *diag, struct inferd_delegate_message *message)
{
	if (status == ET_E_OPERATOR_MISSING || status == ET_E_BACKEND_MISSING)
		status = ET_E_NOT_SUPPORTED; /* the interface has no result of its own for them */
	int result = et_convert_status(status, diag, message);
	uint64_t n_limit = et_engine_memory_limit();
	if (result != INFERD_DELEGATE_E_MEMORY || n_limit == UINT64_MAX)
		return result;
	snprintf(message->text, sizeof message->text,
		"the program needs more memory than the %llu MiB that the process of its user may have now: what the "
		"user's limit 'bytes' leaves for it, and 256 MiB (%.90s)",
		(unsigned long long)(n_limit >> 20), diag->text[0] ? diag->text : et_status_text(status));
	return INFERD_DELEGATE_E_LIMIT;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

static void write_log(void *self, enum et_log_level level, const char *text)
{
	const struct engine *engine = self;
	engine->host->log(engine->host->self, (int)level, text);
}

/* Whether @name is one of @names, which are separated by commas; NULL: any name is. */
static bool is_listed(const char *names, const char *name)
{
	size_t n = strlen(name);
	if (!names)
		return true;
	while (*names) {
		size_t n_word = strcspn(names, ", ");
		if (n_word == n && memcmp(names, name, n) == 0)
			return true;
		names += n_word;
		names += strspn(names, ", ");
	}
	return false;
}

/* The part of @key behind "NAME."; NULL: the option is for somebody else. */
static const char *key_for(const char *name, const char *key)
{
	size_t n = strlen(name);
	return strncmp(key, name, n) == 0 && key[n] == '.' ? key + n + 1 : NULL;
}

static bool is_for_a_delegate(const char *key)
{
	for (size_t i = 0; i < et_n_delegates; i++)
		if (key_for(et_delegates[i]->name, key))
			return true;
	return false;
}

static const char *option(const struct inferd_delegate_host *host, const char *key)
{
	for (uint32_t i = 0; i < host->n_options; i++)
		if (strcmp(host->options[i]->key, key) == 0)
			return host->options[i]->value;
	return NULL;
}

static enum et_status read_options(struct engine *engine, struct et_diag *diag)
{
	const struct inferd_delegate_host *host = engine->host;
	for (uint32_t i = 0; i < host->n_options; i++) {
		const char *key = host->options[i]->key;
		if (strcmp(key, "workers") != 0 && strcmp(key, "backends") != 0 && !is_for_a_delegate(key))
			return et_fail(diag, ET_E_INVALID_PROGRAM, "there is no option '%.100s'", key);
	}
	const char *text = option(host, "workers");
	char *end = NULL;
	unsigned long n = text ? strtoul(text, &end, 10) : DEFAULT_WORKERS;
	if ((text && (end == text || *end)) || !n || n > ENGINE_MAX_WORKERS)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "the option workers is a number from 1 to %d, not '%.100s'",
			ENGINE_MAX_WORKERS, text);
	engine->n_workers = (uint32_t)n;
	return ET_OK;
}

static enum et_status open_delegate(struct engine *engine, const struct inferd_delegate *table, struct et_diag *diag)
{
	const struct inferd_delegate_host *host = engine->host;
	struct et_option options[MAX_OPTIONS];
	struct et_direct_config config = { .options = options, .threads_move = true };
	for (uint32_t i = 0; i < host->n_options && config.n_options < MAX_OPTIONS; i++) {
		const char *key = key_for(table->name, host->options[i]->key);
		if (key)
			options[config.n_options++] = (struct et_option){ table->name, key, host->options[i]->value };
	}
	struct et_backend_entry *entry = &engine->entries[engine->registry.n_backends];
	enum et_status status = et_direct_open(entry, table, &config, et_platform_allocator(), &engine->log, diag);
	if (status == ET_OK)
		engine->registry.n_backends++;
	return status;
}

/* A delegate that is not available is no error: programs that need it are refused, with its name. But a wrong option is
 * one. A delegate that submits its runs would need a thread that waits for them; there is none that is compiled in. */
static enum et_status open_delegates(struct engine *engine, struct et_diag *diag)
{
	const char *wanted = option(engine->host, "backends");
	for (size_t i = 0; i < et_n_delegates && engine->registry.n_backends < ENGINE_MAX_BACKENDS; i++) {
		struct et_diag why = { "" };
		if (!is_listed(wanted, et_delegates[i]->name) || et_delegates[i]->submit)
			continue;
		enum et_status status = open_delegate(engine, et_delegates[i], &why);
		if (status == ET_E_INVALID_PROGRAM)
			return et_fail(diag, status, "%s", why.text);
		if (status != ET_OK)
			et_logf(&engine->log, ET_LOG_WARNING, "%s is not available: %s", et_delegates[i]->name,
				why.text);
	}
	return ET_OK;
}

static void engine_close(void *self)
{
	struct engine *engine = self;
	while (engine->registry.n_backends) {
		struct et_backend_entry *entry = &engine->entries[--engine->registry.n_backends];
		entry->ops->close(entry->backend);
	}
	pthread_mutex_destroy(&engine->lock);
	pthread_mutex_destroy(&engine->programs_lock);
	pthread_cond_destroy(&engine->changed);
	free(engine->workers);
	free(engine);
}

static int engine_open(const struct inferd_delegate_host *host, void **ret_self,
	struct inferd_delegate_message *message)
{
	struct et_diag diag = { "" };
	struct engine *engine = calloc(1, sizeof *engine);
	if (!engine)
		return INFERD_DELEGATE_E_MEMORY;
	engine->host = host;
	engine->log = (struct et_log){ .self = engine, .max_level = ET_LOG_INFO, .write = write_log };
	pthread_mutex_init(&engine->lock, NULL);
	pthread_mutex_init(&engine->programs_lock, NULL);
	pthread_cond_init(&engine->changed, NULL);
	et_list_init(&engine->programs);
	size_t n_tables = 0;
	for (; n_tables < et_n_kernel_tables && n_tables < ET_KERNEL_TABLES_MAX; n_tables++)
		engine->tables[n_tables] = et_kernel_tables[n_tables];
	engine->registry = (struct et_registry){ engine->tables, n_tables, engine->entries, 0, et_order_run };
	enum et_status status = read_options(engine, &diag);
	if (status == ET_OK)
		engine->workers = calloc(engine->n_workers, sizeof(struct inferd_delegate_worker_threads *));
	if (status == ET_OK && !engine->workers)
		status = ET_E_MEMORY_ALLOCATION_FAILED;
	if (status == ET_OK)
		status = open_delegates(engine, &diag);
	int result = et_engine_answer(status, &diag, message);
	if (result)
		engine_close(engine);
	else
		*ret_self = engine;
	return result;
}

static void ignore_log(void *self, int level, const char *text)
{
}

void et_program_warm(void)
{
	const struct inferd_delegate_host host = { .struct_size = sizeof host,
		.major = INFERD_DELEGATE_MAJOR,
		.minor = INFERD_DELEGATE_MINOR,
		.log = ignore_log };
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	void *self = NULL;
	if (engine_open(&host, &self, &message) == INFERD_DELEGATE_OK)
		engine_close(self);
}

static int engine_devices(void *self, uint32_t index, struct inferd_delegate_device *ret_device)
{
	const struct engine *engine = self;
	struct et_device device = { .n_threads = 1 };
	if (index)
		return INFERD_DELEGATE_E_NOT_FOUND;
	if (engine->registry.n_backends)
		engine->entries[0].ops->device(engine->entries[0].backend, 0, &device);
	*ret_device = (struct inferd_delegate_device){
		.struct_size = ret_device->struct_size,
		.kind = INFERD_DELEGATE_CPU,
		.name = "CPU",
		.id = "cpu",
		.max_in_flight = 16,
		.alignment = 1, /* the runtime checks what each tensor needs */
		.flags = INFERD_DELEGATE_ZERO_COPY | INFERD_DELEGATE_CAN_CANCEL,
		.n_threads = device.n_threads,
	};
	return INFERD_DELEGATE_OK;
}

/* --- models ----------------------------------------------------------------------------------------------------- */

static int engine_probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	struct engine *engine = self;
	struct et_diag diag = { "" };
	struct program *program;
	enum et_status status = et_engine_program_get(engine, payload, &program, &diag);
	*ret_readiness = INFERD_DELEGATE_NO;
	if (status == ET_OK) {
		status = et_stand_in_refusal(program->program,
			et_program_find_method(program->program, payload->method), &engine->registry, &diag);
		et_engine_program_put(engine, program);
	}
	if (status == ET_OK)
		*ret_readiness = INFERD_DELEGATE_READY;
	et_engine_answer(status, &diag, message);
	return INFERD_DELEGATE_OK;
}

static void add_args(struct inferd_delegate_model *model, const struct et_io_info *infos, uint32_t n, bool is_output)
{
	for (uint32_t i = 0; i < n && model->n_args < ENGINE_MAX_ARGS; i++)
		if (et_stand_in_passes(et_engine_kind_of(&infos[i], is_output)))
			model->args[model->n_args++] = (struct argument){ i, is_output };
}

static enum et_status make_plan(struct inferd_delegate_model *model, const struct inferd_delegate_payload *payload,
	struct et_diag *diag)
{
	struct engine *engine = model->engine;
	struct et_option items[MAX_OPTIONS];
	struct et_options options = { .items = items };
	for (uint32_t i = 0; i < payload->n_options; i++) {
		const struct inferd_delegate_pair *pair = payload->options[i];
		bool is_known = false;
		for (size_t b = 0; b < engine->registry.n_backends && options.n < MAX_OPTIONS; b++) {
			const char *name = engine->entries[b].ops->name, *key = key_for(name, pair->key);
			if (key)
				items[options.n++] = (struct et_option){ name, key, pair->value };
			is_known = is_known || key;
		}
		if (!is_known)
			return et_fail(diag, ET_E_INVALID_PROGRAM, "there is no option '%.100s'", pair->key);
	}
	enum et_status status = et_plan_new(&model->plan, model->program->program, payload->method, &engine->registry,
		&options, engine->n_workers, et_platform_allocator(), diag);
	if (status != ET_OK)
		return status;
	const struct et_plan_info *info = et_plan_info(model->plan);
	add_args(model, info->inputs, info->n_inputs, false);
	model->n_inputs = model->n_args;
	add_args(model, info->outputs, info->n_outputs, true);
	return payload->n_args && payload->n_args != model->n_args
		       ? et_fail(diag, ET_E_INVALID_PROGRAM, "the method takes %u arguments, not %u", model->n_args,
				 payload->n_args)
		       : ET_OK;
}

static void model_free(struct inferd_delegate_model *model)
{
	et_plan_unref(model->plan);
	if (model->program)
		et_engine_program_put(model->engine, model->program);
	free(model);
}

static uint32_t flags_of(const struct et_plan_info *info)
{
	uint32_t flags = INFERD_DELEGATE_THREADS_OF_RUN;
	if (info->n_state_bytes) /* also of a state that no run writes: each client has its own */
		flags |= INFERD_DELEGATE_STATEFUL;
	/* shared state is rolled back only if the other Method's Plan says so, too, which is not known here */
	if (!info->is_stateful || (info->rolls_back && !info->n_shared_bytes))
		flags |= INFERD_DELEGATE_REPEATABLE;
	if (info->n_shared_bytes)
		flags |= INFERD_DELEGATE_SHARES_STATE;
	return flags;
}

static void tell(const struct inferd_delegate_model *model, struct inferd_delegate_model_info *ret_info)
{
	const struct et_plan_info *info = et_plan_info(model->plan);
	ret_info->n_inputs = model->n_inputs;
	ret_info->n_outputs = model->n_args - model->n_inputs;
	ret_info->flags = flags_of(info);
	ret_info->device = 0;
	ret_info->n_bytes = sizeof *model + info->n_plan_bytes;
	et_add_up(&ret_info->n_bytes, info->n_delegate_bytes);
	et_add_up(&ret_info->n_bytes, info->n_copied_constant_bytes);
	ret_info->scratch_bytes = info->n_activation_bytes;
	et_add_up(&ret_info->scratch_bytes, info->n_value_table_bytes);
	et_add_up(&ret_info->scratch_bytes, info->n_instance_bytes);
	if (INFERD_DELEGATE_HAS(ret_info, state_bytes))
		ret_info->state_bytes = info->n_state_bytes;
	if (INFERD_DELEGATE_HAS(ret_info, shared_state_bytes))
		ret_info->shared_state_bytes = info->n_shared_bytes;
}

static int engine_init(void *self, const struct inferd_delegate_payload *payload,
	struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *ret_info,
	struct inferd_delegate_message *message)
{
	struct engine *engine = self;
	struct et_diag diag = { "" };
	struct inferd_delegate_model *model = calloc(1, sizeof *model);
	if (!model)
		return et_engine_answer(ET_E_MEMORY_ALLOCATION_FAILED, &diag, message);
	model->engine = engine;
	et_list_init(&model->uses);
	enum et_status status = et_engine_program_get(engine, payload, &model->program, &diag);
	if (status == ET_OK)
		status = et_stand_in_refusal(model->program->program,
			et_program_find_method(model->program->program, payload->method), &engine->registry, &diag);
	if (status == ET_OK)
		status = make_plan(model, payload, &diag);
	if (status != ET_OK) {
		model_free(model);
		return et_engine_answer(status, &diag, message);
	}
	tell(model, ret_info);
	*ret_model = model;
	return INFERD_DELEGATE_OK;
}

static void engine_destroy(struct inferd_delegate_model *model)
{
	et_engine_release(model);
	model_free(model);
}

const struct inferd_delegate et_program_engine = {
	.struct_size = sizeof(struct inferd_delegate),
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = ET_STAND_IN_ID,
	.name = "program",
	.open = engine_open,
	.close = engine_close,
	.devices = engine_devices,
	.probe = engine_probe,
	.init = engine_init,
	.execute = et_engine_execute,
	.destroy = engine_destroy,
	.instance_new = et_engine_instance_new,
	.instance_free = et_engine_instance_free,
	.instance_reset = et_engine_instance_reset,
	.cancel = et_engine_cancel,
	.threads_new = et_engine_threads_new,
	.threads_free = et_engine_threads_free,
	.instance_with = et_engine_instance_with,
	.abandon = et_engine_abandon,
};
