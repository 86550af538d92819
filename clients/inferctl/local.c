/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine in this process: the runtime with its delegates, without the daemon.
 *
 * One thread is the worker of all queues: when a run continues at another queue, the same seat runs it there, with the
 * worker threads that the seat made for each backend. Instances share what the daemon shares between clients: the model
 * has the Program and the Plan, an instance has its Method and its frame.
 *
 * Memory for inputs and outputs is allocated in whole pages with a guard page behind, like a client's region. */
#include "clients/inferctl/backends.h"
#include "clients/inferctl/ctl.h"
#include "clients/inferctl/engine.h"

#include "runtime/platform/platform.h"
#include "runtime/method.h"
#include "runtime/profile/etdump.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROFILE_EVENTS = 1000000 };
#define CACHE_BYTES (UINT64_C(4) << 30)

struct local_engine {
	struct ctl_engine base;
	struct et_log log;
	struct ctl_backends backends;
	struct et_platform_store *store; /* or NULL */
};

struct local_model {
	struct ctl_model base;
	char *path;
	struct et_program *program;
	struct et_plan *plan;
};

struct local_seat {
	struct ctl_seat base;
	/* For each backend of the registry; NULL if it has no device. The registry grows when plug-ins are opened. */
	struct et_worker_threads *thread_sets[CTL_BACKENDS_MAX];
	size_t n_thread_sets;
	const struct et_compute *compute;
	struct et_pool scratch;
};

struct local_instance {
	struct ctl_instance base;
	struct local_seat *seat;
	struct et_plan *plan;
	struct et_method *method;
	struct et_frame *frame;
	struct et_io *inputs, *outputs;
	void **input_memory, **output_memory;
	struct et_run run;
	sem_t completed;
	enum et_status completion_status;
	char completion_reason[256];
	struct ctl_timing timing;
};

/* --- engine ------------------------------------------------------------------------------------------ */

static void engine_free(struct ctl_engine *base)
{
	struct local_engine *engine = (struct local_engine *)base;
	ctl_backends_close(&engine->backends);
	et_platform_store_unref(engine->store);
	free(engine);
}

static int model_error(struct ctl_error *error, enum et_status status, const char *where, const struct et_diag *diag)
{
	error->is_missing = status == ET_E_OPERATOR_MISSING || status == ET_E_BACKEND_MISSING ||
			    status == ET_E_NOT_SUPPORTED;
	return ctl_error_set(error, "%s%s%s", where ? where : "", where ? ": " : "",
		diag->text[0] ? diag->text : et_status_text(status));
}

/* Append to @error why the first missing backend of @method is not available, and what would help. */
static void say_what_helps(struct ctl_error *error, const struct ctl_backends *backends,
	const struct et_method_spec *method)
{
	char text[960];
	for (uint32_t i = 0; i < method->n_delegates; i++) {
		const char *id = method->delegates[i].id;
		size_t n = strlen(error->text);
		if (ctl_backends_find(backends, id))
			continue;
		snprintf(error->text + n, sizeof(error->text) - n, ". %s: %s", id,
			ctl_backends_problem(backends, id, text, sizeof(text)));
		return;
	}
}

/* Append the names of the program's methods to @error. */
static void say_which_methods(struct ctl_error *error, const struct et_program *program)
{
	for (uint32_t i = 0; i < et_program_n_methods(program); i++) {
		size_t n = strlen(error->text);
		snprintf(error->text + n, sizeof(error->text) - n, "%s%s",
			i ? ", " : "; it has: ", et_program_method_at(program, i)->name);
	}
}

static void model_close(struct ctl_model *base)
{
	struct local_model *model = (struct local_model *)base;
	const struct local_engine *engine = model ? (const struct local_engine *)base->engine : NULL;
	if (!model)
		return;
	/* Write packed weights to the cache now, when nothing waits for the result. */
	if (model->plan && engine->store) {
		struct et_diag diag = { 0 };
		if (et_plan_keep(model->plan, &diag) != ET_OK)
			et_logf(&engine->log, ET_LOG_WARNING, "packed weights are not cached: %s", diag.text);
	}
	et_plan_unref(model->plan);
	et_program_unref(model->program);
	free(model->path);
	free(model);
}

static enum et_status make_plan(struct local_model *model, const char *method, struct et_diag *diag)
{
	const struct local_engine *engine = (const struct local_engine *)model->base.engine;
	return et_plan_new(&model->plan, model->program, method, &engine->backends.registry, NULL,
		model->base.engine->options.n_seats, et_platform_allocator(), diag);
}

static int model_open(struct ctl_engine *base, struct ctl_model **ret, const char *name, struct ctl_file *file,
	const char *method, struct ctl_error *error)
{
	struct local_engine *engine = (struct local_engine *)base;
	struct local_model *model;
	struct et_diag diag = { 0 };
	enum et_status status;

	if (!file)
		return ctl_error_set(error, "'%s' is not a file: --local runs .pte and .bpte files", name);
	model = ctl_alloc(1, sizeof(*model));
	model->base.engine = base;
	status = ctl_file_program(file, engine->store, &model->program, &diag);
	if (status != ET_OK) {
		model_close(&model->base);
		return ctl_error_set(error, "%s", diag.text);
	}
	model->path = ctl_format("%s", file->path);
	status = make_plan(model, method, &diag);
	if ((status == ET_E_OPERATOR_MISSING || status == ET_E_BACKEND_MISSING) && !engine->backends.has_plugins) {
		/* A plug-in may have it. Plug-ins are opened only now, because most programs need none. */
		if (ctl_backends_want(&engine->backends, model->program, error->text, sizeof(error->text)) < 0) {
			model_close(&model->base);
			return -1;
		}
		diag = (struct et_diag){ 0 };
		status = make_plan(model, method, &diag);
	}
	if (status != ET_OK) {
		const struct et_method_spec *spec = et_program_find_method(model->program, method);
		model_error(error, status, model->path, &diag);
		if (status == ET_E_BACKEND_MISSING)
			say_what_helps(error, &engine->backends, spec);
		if (!spec)
			say_which_methods(error, model->program);
		/* A method that the program reader refuses is wrong, and nothing is missing here. */
		error->is_missing = error->is_missing && !(spec && spec->why_not);
		model_close(&model->base);
		return -1;
	}
	*ret = &model->base;
	return 0;
}

/* --- seat -------------------------------------------------------------------------------------------- */

static void seat_close(struct ctl_seat *base)
{
	struct local_seat *seat = (struct local_seat *)base;
	const struct local_engine *engine;
	if (!seat)
		return;
	engine = (const struct local_engine *)seat->base.engine;
	for (size_t i = 0; i < seat->n_thread_sets; i++)
		if (seat->thread_sets[i])
			engine->backends.entries[i].ops->threads_free(seat->thread_sets[i]);
	et_pool_deinit(&seat->scratch);
	free(seat);
}

/* Make worker threads for each backend that has none yet. */
static int make_thread_sets(struct local_seat *seat, struct ctl_error *error)
{
	const struct local_engine *engine = (const struct local_engine *)seat->base.engine;
	for (; seat->n_thread_sets < engine->backends.registry.n_backends; seat->n_thread_sets++) {
		const struct et_backend_entry *entry = &engine->backends.entries[seat->n_thread_sets];
		struct et_worker_threads **threads = &seat->thread_sets[seat->n_thread_sets];
		struct et_diag diag = { 0 };
		if (entry->ops->n_devices(entry->backend) == 0)
			continue;
		if (entry->ops->threads_new(entry->backend, 0, engine->base.options.n_threads, threads, &diag) !=
			ET_OK) {
			*threads = NULL;
			return ctl_error_set(error, "backend %s: %s", entry->ops->name,
				diag.text[0] ? diag.text : "it cannot be used");
		}
		if (!seat->compute && entry->ops->threads_compute)
			seat->compute = entry->ops->threads_compute(*threads);
	}
	return 0;
}

static int seat_open(struct ctl_engine *base, struct ctl_seat **ret, unsigned index, struct ctl_error *error)
{
	struct local_seat *seat = ctl_alloc(1, sizeof(*seat));

	seat->base = (struct ctl_seat){ base, index };
	et_pool_init(&seat->scratch, et_platform_allocator());
	if (make_thread_sets(seat, error) < 0) {
		seat_close(&seat->base);
		return -1;
	}
	*ret = &seat->base;
	return 0;
}

static uint64_t seat_resident_bytes(struct ctl_seat *seat)
{
	return et_platform_resident_bytes();
}

/* --- instance ---------------------------------------------------------------------------------------- */

static struct ctl_io io_from_info(const struct et_io_info *info)
{
	struct ctl_io io = { .value.tag = info->tag };
	if (info->tag != ET_TAG_TENSOR)
		return io;
	io.value.type = info->type;
	io.value.n_dims = info->n_dims;
	io.value.n_bytes = info->n_bytes;
	io.is_dynamic = info->dynamism != ET_STATIC;
	memcpy(io.value.sizes, info->sizes, info->n_dims * sizeof(io.value.sizes[0]));
	memcpy(io.value.dim_order, info->dim_order, info->n_dims);
	return io;
}

static void free_memory(void **memory, const struct ctl_io *ios, unsigned n)
{
	const struct et_allocator *pages = et_platform_page_allocator();
	for (unsigned i = 0; memory && i < n; i++)
		if (memory[i])
			pages->free(pages->self, memory[i], ios[i].value.n_bytes ? ios[i].value.n_bytes : 1);
	free(memory);
}

static void instance_close(struct ctl_instance *base)
{
	struct local_instance *instance = (struct local_instance *)base;
	if (!instance)
		return;
	et_frame_free(instance->frame);
	et_method_free(instance->method);
	et_plan_release(instance->plan, instance->seat->base.index);
	free_memory(instance->input_memory, base->inputs, base->n_inputs);
	free_memory(instance->output_memory, base->outputs, base->n_outputs);
	sem_destroy(&instance->completed);
	free(instance->inputs);
	free(instance->outputs);
	free(base->inputs);
	free(base->outputs);
	free(instance);
}

/* Describe @n inputs or outputs and allocate the memory of tensors. -1 when out of memory; the caller frees all
 * three. */
static int make_ios(const struct et_io_info *infos, unsigned n, struct ctl_io **ret_described, struct et_io **ret_ios,
	void ***ret_memory)
{
	const struct et_allocator *pages = et_platform_page_allocator();
	struct ctl_io *described = *ret_described = ctl_alloc(n, sizeof(*described));
	struct et_io *ios = *ret_ios = ctl_alloc(n, sizeof(*ios));
	void **memory = *ret_memory = ctl_alloc(n, sizeof(*memory));
	for (unsigned i = 0; i < n; i++) {
		described[i] = io_from_info(&infos[i]);
		ios[i].tag = infos[i].tag;
		if (infos[i].tag != ET_TAG_TENSOR)
			continue;
		memory[i] = pages->alloc(pages->self, infos[i].n_bytes ? infos[i].n_bytes : 1, 64);
		if (!memory[i])
			return -1;
		ios[i].n_dims = infos[i].n_dims;
		ios[i].tensor.data = memory[i];
		ios[i].tensor.n_bytes = infos[i].n_bytes;
		memcpy(ios[i].sizes, infos[i].sizes, infos[i].n_dims * sizeof(ios[i].sizes[0]));
	}
	return 0;
}

static void completion_done(void *self, enum et_status status, const char *reason)
{
	struct local_instance *instance = self;
	instance->completion_status = status;
	snprintf(instance->completion_reason, sizeof(instance->completion_reason), "%s", reason ? reason : "");
	sem_post(&instance->completed); /* pairs with the wait in instance_run */
}

static int instance_open(struct ctl_seat *seat, struct ctl_instance **ret, struct ctl_model *base_model,
	const struct ctl_instance *with, struct ctl_error *error)
{
	struct local_model *model = (struct local_model *)base_model;
	const struct et_plan_info *info = et_plan_info(model->plan);
	if (make_thread_sets((struct local_seat *)seat, error) < 0)
		return -1;
	struct local_instance *instance = ctl_alloc(1, sizeof(*instance));
	struct ctl_instance *base = &instance->base;
	struct et_diag diag = { 0 };
	enum et_status status = ET_OK;

	base->engine = seat->engine;
	base->n_inputs = info->n_inputs;
	base->n_outputs = info->n_outputs;
	base->is_stateful = info->is_stateful;
	snprintf(base->backend, sizeof(base->backend), "%s", "local");
	instance->seat = (struct local_seat *)seat;
	instance->plan = model->plan;
	sem_init(&instance->completed, 0, 0);
	if (!et_plan_is_prepared(model->plan, seat->index))
		status = et_plan_prepare(model->plan, seat->index, instance->seat->thread_sets, NULL, &diag);
	if (status == ET_OK)
		status = et_method_new_with(&instance->method, model->plan,
			with ? ((const struct local_instance *)with)->method : NULL, et_platform_allocator(), &diag);
	if (status == ET_OK)
		status = et_frame_new(&instance->frame, model->plan, et_platform_allocator(),
			et_platform_page_allocator(), &diag);
	if (make_ios(info->inputs, info->n_inputs, &base->inputs, &instance->inputs, &instance->input_memory) < 0 ||
		make_ios(info->outputs, info->n_outputs, &base->outputs, &instance->outputs, &instance->output_memory) <
			0)
		status = et_fail(&diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for inputs and outputs");
	if (status != ET_OK) {
		model_error(error, status, model->path, &diag);
		instance_close(base);
		return -1;
	}
	*ret = base;
	return 0;
}

static void *instance_input(struct ctl_instance *base, unsigned index)
{
	return ((struct local_instance *)base)->input_memory[index];
}

static int instance_describe(struct ctl_instance *base, unsigned index, const struct ctl_value *value,
	struct ctl_error *error)
{
	struct et_io *io = &((struct local_instance *)base)->inputs[index];
	switch (io->tag) {
	case ET_TAG_TENSOR:
		io->tensor.n_bytes = value->n_bytes;
		memcpy(io->sizes, value->sizes, value->n_dims * sizeof(io->sizes[0]));
		break;
	case ET_TAG_INT:
		io->i = value->i;
		break;
	case ET_TAG_BOOL:
		io->b = value->i != 0;
		break;
	case ET_TAG_DOUBLE:
		io->d = value->d;
		break;
	}
	return 0;
}

static enum et_status run_to_the_end(struct local_instance *instance)
{
	struct et_run *run = &instance->run;
	struct et_worker_env env = {
		.worker_index = instance->seat->base.index,
		.queue = et_plan_info(instance->plan)->first_queue,
		.scratch = &instance->seat->scratch,
		.compute = instance->seat->compute,
	};
	for (;;) {
		switch (et_run_advance(run, &env)) {
		case ET_STOP_QUEUE:
			env.queue = run->queue;
			break;
		case ET_STOP_PENDING:
			while (sem_wait(&instance->completed) < 0)
				; /* interrupted by a signal */
			et_run_resume(run, instance->completion_status, instance->completion_reason);
			break;
		case ET_STOP_DONE:
		case ET_STOP_FAILED:
			return et_run_end(run);
		}
	}
}

/* @profile: NULL, or it receives the times of the run. */
static int run_once(struct ctl_instance *base, struct et_profile *profile, struct ctl_error *error)
{
	struct local_instance *instance = (struct local_instance *)base;
	struct et_run *run = &instance->run;
	enum et_status status;
	uint64_t start_ns = ctl_now_ns();

	for (unsigned i = 0; i < base->n_outputs; i++)
		if (instance->outputs[i].tag == ET_TAG_TENSOR)
			instance->outputs[i].tensor.n_bytes = base->outputs[i].value.n_bytes;
	if (base->engine->options.poison)
		et_frame_poison(instance->frame, 0xff); /* all ones is a NaN in every float type */
	memset(run, 0, sizeof(*run));
	run->method = instance->method;
	run->frame = instance->frame;
	run->inputs = instance->inputs;
	run->outputs = instance->outputs;
	run->completion = (struct et_completion){ instance, completion_done };
	run->trace = profile ? et_profile_trace(profile) : NULL;
	status = et_run_begin(run);
	if (status == ET_OK)
		status = run_to_the_end(instance);
	instance->timing = (struct ctl_timing){ .run_ns = ctl_now_ns() - start_ns };
	if (profile)
		et_profile_span(profile, "Method::execute", start_ns, start_ns + instance->timing.run_ns);
	if (status == ET_OK)
		return 0;
	return ctl_error_set(error, "%s", run->diag.text[0] ? run->diag.text : et_status_text(status));
}

static int instance_run(struct ctl_instance *base, struct ctl_error *error)
{
	return run_once(base, NULL, error);
}

static int write_etdump(const struct local_instance *instance, const struct et_profile *profile, void **ret_etdump,
	size_t *ret_n_bytes)
{
	const struct et_method_spec *method = et_program_find_method(et_plan_program(instance->plan),
		et_plan_info(instance->plan)->method);
	const uint8_t *bytes;
	struct et_fbw writer;
	et_fbw_init(&writer, et_platform_allocator());
	enum et_status status = et_etdump_write(&writer, profile, method, &bytes, ret_n_bytes);
	if (status == ET_OK) {
		*ret_etdump = ctl_alloc(*ret_n_bytes, 1);
		memcpy(*ret_etdump, bytes, *ret_n_bytes);
	}
	et_fbw_deinit(&writer);
	return status == ET_OK ? 0 : -1;
}

static int instance_run_profiled(struct ctl_instance *base, void **ret_etdump, size_t *ret_n_bytes,
	struct ctl_error *error)
{
	const struct et_profile_options options = {
		.allocator = et_platform_allocator(), .now_ns = et_platform_now_ns, .max_events = MAX_PROFILE_EVENTS
	};
	struct et_profile *profile = et_profile_new(&options);
	int rc = profile ? run_once(base, profile, error) : ctl_error_set(error, "out of memory");
	if (rc == 0 && write_etdump((struct local_instance *)base, profile, ret_etdump, ret_n_bytes) < 0)
		rc = ctl_error_set(error, "no memory for the profile");
	et_profile_free(profile);
	return rc;
}

static int instance_output(struct ctl_instance *base, unsigned index, struct ctl_value *ret, struct ctl_error *error)
{
	const struct local_instance *instance = (const struct local_instance *)base;
	const struct et_io *io = &instance->outputs[index];
	const struct et_list_spec *text = et_plan_info(instance->plan)->outputs[index].text;
	struct ctl_value value = { .tag = io->tag };
	switch (io->tag) {
	case ET_TAG_TENSOR:
		value = base->outputs[index].value;
		memcpy(value.sizes, io->sizes, value.n_dims * sizeof(value.sizes[0]));
		value.n_bytes = ctl_value_numel(&value) * et_scalar_size(value.type);
		value.data = instance->output_memory[index];
		break;
	case ET_TAG_INT:
		value.i = io->i;
		value.d = (double)io->i;
		break;
	case ET_TAG_BOOL:
		value.i = io->b;
		value.d = io->b;
		break;
	case ET_TAG_DOUBLE:
		value.d = io->d;
		break;
	case ET_TAG_NONE:
		break;
	default:
		if (!text)
			return ctl_error_set(error, "output %u is a %s, which has no value to show", index,
				et_tag_name(io->tag));
		value.data = (const uint8_t *)text->chars;
		value.n_bytes = text->n;
	}
	*ret = value;
	return 0;
}

static int instance_reset(struct ctl_instance *base, struct ctl_error *error)
{
	et_method_reset(((struct local_instance *)base)->method);
	return 0;
}

static struct ctl_timing instance_timing(struct ctl_instance *base)
{
	return ((struct local_instance *)base)->timing;
}

static unsigned instance_n_copied(struct ctl_instance *base)
{
	const struct local_instance *instance = (const struct local_instance *)base;
	unsigned n = 0;
	for (unsigned i = 0; i < base->n_inputs; i++)
		n += instance->inputs[i].copied;
	for (unsigned i = 0; i < base->n_outputs; i++)
		n += instance->outputs[i].copied;
	return n;
}

static const struct ctl_engine_ops local_ops = {
	.free = engine_free,
	.model_open = model_open,
	.model_close = model_close,
	.seat_open = seat_open,
	.seat_close = seat_close,
	.instance_open = instance_open,
	.instance_close = instance_close,
	.input = instance_input,
	.describe_input = instance_describe,
	.run = instance_run,
	.run_profiled = instance_run_profiled,
	.output = instance_output,
	.reset = instance_reset,
	.timing = instance_timing,
	.resident_bytes = seat_resident_bytes,
	.n_copied = instance_n_copied,
};

/* Threads beyond the cores that this process may use would only wait for the others. */
static void limit_threads(struct local_engine *engine)
{
	unsigned n = engine->base.options.n_threads, n_cores = et_platform_n_cores();
	if (n <= n_cores)
		return;
	et_logf(&engine->log, ET_LOG_WARNING,
		"--threads %u: computing on %u, because this process may use %u core%s (affinity and CPU quota)", n,
		n_cores, n_cores, n_cores == 1 ? "" : "s");
	engine->base.options.n_threads = n_cores;
}

int ctl_local_engine_new(struct ctl_engine **ret_engine, const struct ctl_engine_options *options,
	struct ctl_error *error)
{
	struct local_engine *engine = ctl_alloc(1, sizeof(*engine));
	engine->base = (struct ctl_engine){ &local_ops, *options };
	engine->log = et_platform_log(ET_LOG_WARNING);
	limit_threads(engine);
	/* A backend that is not available is no error until a program needs it; the Plan then names it. */
	if (ctl_backends_open(&engine->backends, &engine->log, options->config, options->cache, error->text,
		    sizeof(error->text)) < 0) {
		engine_free(&engine->base);
		return -1;
	}
	if (options->cache) {
		struct et_diag diag = { 0 };
		engine->store = et_platform_store_new(options->cache, CACHE_BYTES, &engine->log, &diag);
		if (!engine->store) {
			engine_free(&engine->base);
			return ctl_error_set(error, "the cache cannot be used: %s", diag.text);
		}
	}
	*ret_engine = &engine->base;
	return 0;
}
