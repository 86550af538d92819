/* Payloads, contexts and runs of a plug-in, over there.
 *
 * A payload is copied once into a sealed memory file, which is what every host that is started is given. What a host
 * knows is remembered by the number of its start (generation): a payload or context of an earlier one is made again
 * when it is next run, on the thread that runs it. A stateful context whose host died has lost its state and says so
 * until it is reset.
 *
 * Tensors go through the context's stage, a memory file that both processes map: inputs are copied in before the
 * run and outputs out after it, which is counted. Each tensor ends at the end of an area of whole pages (but for the
 * alignment), and the host maps a page that can't be written behind each: who writes past an output's end dies there
 * instead of changing its neighbour. */
#include "delegates/plugin/backend.h"

#include "clients/inferd-delegate.h"
#include "runtime/base/checked.h"
#include "runtime/host/host.h"
#include "runtime/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

struct et_compiled {
	struct et_backend *backend;
	const struct et_program *program;
	struct et_plugin_init init;
	int fd;
	struct et_plugin_answer facts; /* of the first time */
	pthread_mutex_t lock;          /* guards what follows; held while it is made ready */
	uint64_t generation, id;
};

struct et_lane {
	struct et_backend *backend;
};

struct et_context {
	struct et_backend *backend;
	struct et_compiled *compiled; /* NULL: for a kernel */
	uint32_t kernel;
	uint32_t n_runs;                /* begun; the last one's number, for a cancel */
	uint64_t generation, id, model; /* of the host, and its numbers there */
	bool has_state;                 /* ran since it was new or reset */
	/* the stage */
	int fd;
	uint8_t *bytes;
	size_t n_bytes;
	uint32_t n_args;
	size_t *capacities; /* of each argument, as the stage was made for */
	struct et_plugin_area *areas;
	/* the run */
	struct et_plugin_run *packet;
	struct et_plugin_call call;
	struct et_evalue *const *args;
	struct et_completion completion;
	/* for kernels, who wait */
	enum et_status status;
	struct et_diag diag;
};

struct et_plugin_kernel {
	struct et_backend *backend;
	uint32_t index, n_args, n_outputs;
	pthread_mutex_t lock;
	struct et_context *context; /* used by one run at a time */
};

struct et_plugin_run *et_plugin_context_packet(struct et_context *context)
{
	return context->packet;
}

struct et_plugin_call *et_plugin_context_call(struct et_context *context)
{
	return &context->call;
}

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for what a plug-in needs");
}

/* --- payloads --------------------------------------------------------------------------------------- */

static bool write_all(int fd, const void *bytes, size_t n_bytes, uint64_t at)
{
	const uint8_t *from = bytes;
	while (n_bytes) {
		ssize_t n = pwrite(fd, from, n_bytes, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		from += n;
		at += (uint64_t)n;
		n_bytes -= (size_t)n;
	}
	return true;
}

static bool measure_specs(const struct et_payload *payload, size_t *ret_n)
{
	*ret_n = 0;
	for (uint32_t i = 0; i < payload->n_specs; i++) {
		size_t n;
		if (payload->specs[i].n_bytes > UINT32_MAX || strlen(payload->specs[i].key) > UINT32_MAX ||
			!et_add(strlen(payload->specs[i].key) + 2, payload->specs[i].n_bytes, &n) ||
			!et_align_up(n, 8, &n) || !et_add(*ret_n, n + 8, ret_n))
			return false;
	}
	return true;
}

static bool write_specs(int fd, const struct et_payload *payload, uint64_t at)
{
	for (uint32_t i = 0; i < payload->n_specs; i++) {
		const struct et_compile_spec *spec = &payload->specs[i];
		size_t n_key = strlen(spec->key);
		uint32_t lengths[2] = { (uint32_t)n_key, (uint32_t)spec->n_bytes };
		if (!write_all(fd, lengths, sizeof lengths, at) || !write_all(fd, spec->key, n_key, at + 8) ||
			!write_all(fd, spec->value, spec->n_bytes, at + 8 + n_key + 1))
			return false;
		at += 8 + ((n_key + spec->n_bytes + 2 + 7) & ~(size_t)7);
	}
	return true;
}

/* The payload as hosts get it. */
static enum et_status pack(
	const struct et_payload *payload, struct et_plugin_init *ret_init, int *ret_fd, struct et_diag *diag)
{
	size_t n_specs, at, n_bytes;
	*ret_init = (struct et_plugin_init){ .header = { ET_PLUGIN_INIT, sizeof *ret_init, 0 },
		.n_payload_bytes = payload->n_bytes,
		.n_specs = payload->n_specs,
		.n_args = payload->n_args };
	snprintf(ret_init->method, sizeof ret_init->method, "%s", payload->method ? payload->method : "");
	if (!measure_specs(payload, &n_specs) || !et_align_up(payload->n_bytes, ET_PLUGIN_PAGE, &at) ||
		!et_add(at, n_specs, &n_bytes))
		return no_memory(diag);
	ret_init->n_spec_bytes = n_specs;
	int fd = et_plugin_memory("inferd-payload", n_bytes);
	if (fd < 0)
		return no_memory(diag);
	if (!write_all(fd, payload->bytes, payload->n_bytes, 0) || !write_specs(fd, payload, at) ||
		et_plugin_memory_seal(fd) < 0) {
		close(fd);
		return no_memory(diag);
	}
	*ret_fd = fd;
	return ET_OK;
}

enum et_status et_plugin_probe(
	struct et_backend *b, const struct et_payload *payload, uint32_t *ret_readiness, struct et_diag *diag)
{
	struct et_plugin_init init;
	struct et_plugin_answer answer;
	uint64_t generation;
	int fd;
	if (et_plugin_up(b, &generation, diag))
		return ET_E_BACKEND_DOWN;
	enum et_status status = pack(payload, &init, &fd, diag);
	if (status)
		return status;
	init.header.type = ET_PLUGIN_PROBE;
	status = et_plugin_ask(b, generation, &init, fd, &answer, sizeof answer, payload->program, diag);
	close(fd);
	if (status)
		return status;
	answer.text[sizeof answer.text - 1] = '\0';
	status = et_plugin_status(answer.result, answer.text, diag);
	if (status)
		return status;
	if (answer.text[0])
		et_fail(diag, ET_OK, "%.255s", answer.text);
	*ret_readiness = answer.readiness <= INFERD_DELEGATE_READY ? answer.readiness : INFERD_DELEGATE_NO;
	return ET_OK;
}

static enum et_status probe(struct et_backend *b, const struct et_payload *payload,
	enum et_readiness *ret_readiness, struct et_diag *diag)
{
	static const enum et_readiness readiness[] = { [INFERD_DELEGATE_NO] = ET_READINESS_NO,
		[INFERD_DELEGATE_RECOMPILE] = ET_READINESS_RECOMPILE,
		[INFERD_DELEGATE_READY] = ET_READINESS_READY };
	uint32_t answer;
	enum et_status status = et_plugin_probe(b, payload, &answer, diag);
	if (!status)
		*ret_readiness = readiness[answer];
	return status;
}

/* Make the payload ready in the host of @generation, if it is not. *ret_id: its number there. */
static enum et_status load(struct et_compiled *c, uint64_t generation, uint64_t *ret_id, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	struct et_plugin_answer answer;
	pthread_mutex_lock(&c->lock);
	if (c->generation != generation) {
		struct et_plugin_init init = c->init;
		init.model = et_plugin_new_handle(c->backend);
		status = et_plugin_ask(
			c->backend, generation, &init, c->fd, &answer, sizeof answer, c->program, diag);
		if (!status) {
			answer.text[sizeof answer.text - 1] = '\0';
			status = et_plugin_status(answer.result, answer.text, diag);
		}
		if (!status && c->generation &&
			(answer.n_inputs != c->facts.n_inputs || answer.n_outputs != c->facts.n_outputs ||
				answer.flags != c->facts.flags || answer.device != c->facts.device))
			status = et_fail(diag, ET_E_BACKEND_CRASHED,
				"the plug-in came back with other inputs and outputs for the same payload");
		if (!status) {
			if (!c->generation)
				c->facts = answer; /* others read it without the lock from now on */
			c->id = init.model;
			c->generation = generation;
		}
	}
	*ret_id = c->id;
	pthread_mutex_unlock(&c->lock);
	return status;
}

static void compiled_free(struct et_compiled *c)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_DESTROY, sizeof handle, 0 },
		.model = c->id };
	if (c->generation)
		et_plugin_tell(c->backend, c->generation, &handle);
	close(c->fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static enum et_status compile(struct et_backend *b, const struct et_payload *payload,
	struct et_compiled **ret_compiled, struct et_compiled_info *ret_info, struct et_diag *diag)
{
	uint64_t generation, id;
	if (payload->n_args > ET_PLUGIN_MAX_ARGS)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "%u arguments; a plug-in takes at most %d",
			payload->n_args, ET_PLUGIN_MAX_ARGS);
	struct et_compiled *c = calloc(1, sizeof *c);
	if (!c)
		return no_memory(diag);
	*c = (struct et_compiled){ .backend = b, .program = payload->program, .fd = -1 };
	pthread_mutex_init(&c->lock, NULL);
	enum et_status status = pack(payload, &c->init, &c->fd, diag);
	if (!status && et_plugin_up(b, &generation, diag))
		status = ET_E_BACKEND_DOWN; /* which is not this payload's fault */
	if (!status)
		status = load(c, generation, &id, diag);
	if (!status && c->facts.device >= b->facts.n_devices && b->facts.n_devices)
		status = et_fail(diag, ET_E_INTERNAL, "the plug-in chose device %u, it has %u",
			c->facts.device, b->facts.n_devices);
	if (!status && (c->facts.n_inputs > ET_PLUGIN_MAX_ARGS || c->facts.n_outputs > ET_PLUGIN_MAX_ARGS))
		status = et_fail(diag, ET_E_INTERNAL, "the plug-in counts %u inputs and %u outputs",
			c->facts.n_inputs, c->facts.n_outputs);
	if (!status && (c->facts.flags & INFERD_DELEGATE_STATEFUL) && !(b->facts.flags & ET_PLUGIN_HAS_RESET))
		status = et_fail(
			diag, ET_E_INTERNAL, "the payload is stateful, the plug-in has no instance_reset");
	if (status) {
		compiled_free(c);
		return status;
	}
	*ret_compiled = c;
	*ret_info = (struct et_compiled_info){ .struct_size = sizeof *ret_info,
		.n_inputs = c->facts.n_inputs,
		.n_outputs = c->facts.n_outputs,
		.is_stateful = c->facts.flags & INFERD_DELEGATE_STATEFUL,
		.drops_payload = true,
		.has_free_contexts = true,
		.device = c->facts.device,
		.n_bytes = (size_t)c->facts.n_bytes + (size_t)c->init.n_payload_bytes,
		.context_bytes = (size_t)c->facts.scratch_bytes };
	return ET_OK;
}

static enum et_status lane_new(struct et_backend *b, uint32_t device, uint32_t n_threads,
	struct et_lane **ret_lane, struct et_diag *diag)
{
	struct et_lane *lane = calloc(1, sizeof *lane);
	if (!lane)
		return no_memory(diag);
	lane->backend = b;
	*ret_lane = lane;
	return ET_OK;
}

static void lane_free(struct et_lane *lane)
{
	free(lane);
}

/* --- contexts --------------------------------------------------------------------------------------- */

static void drop_stage(struct et_context *c)
{
	if (c->bytes)
		munmap(c->bytes, c->n_bytes);
	if (c->fd >= 0)
		close(c->fd);
	c->bytes = NULL;
	c->fd = -1;
}

static void context_free(struct et_context *c)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_FREE, sizeof handle, 0 },
		.instance = c->id };
	if (c->generation)
		et_plugin_tell(c->backend, c->generation, &handle);
	drop_stage(c);
	free(c->capacities);
	free(c->areas);
	free(c->packet);
	free(c);
}

static enum et_status context_make(struct et_backend *b, struct et_compiled *compiled, uint32_t n_args,
	struct et_context **ret, struct et_diag *diag)
{
	struct et_context *c = calloc(1, sizeof *c);
	if (!c)
		return no_memory(diag);
	c->backend = b;
	c->compiled = compiled;
	c->fd = -1;
	c->n_args = n_args;
	c->capacities = calloc(n_args + 1, sizeof *c->capacities);
	c->areas = calloc(n_args + 1, sizeof *c->areas);
	c->packet = calloc(1, sizeof *c->packet + n_args * sizeof c->packet->args[0]);
	et_list_init(&c->call.node);
	if (!c->capacities || !c->areas || !c->packet) {
		context_free(c);
		return no_memory(diag);
	}
	*ret = c;
	return ET_OK;
}

/* Ask something that is answered by nothing but a result. */
static enum et_status ask(
	struct et_backend *b, uint64_t generation, void *packet, int fd, struct et_diag *diag)
{
	struct et_plugin_answer answer;
	enum et_status status = et_plugin_ask(b, generation, packet, fd, &answer, sizeof answer, NULL, diag);
	if (status)
		return status;
	answer.text[sizeof answer.text - 1] = '\0';
	return et_plugin_status(answer.result, answer.text, diag);
}

/* The context in the host that is there now. */
static enum et_status revive(struct et_context *c, uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = et_plugin_up(c->backend, ret_generation, diag);
	if (status || c->generation == *ret_generation)
		return status;
	if (c->has_state && c->compiled && (c->compiled->facts.flags & INFERD_DELEGATE_STATEFUL))
		return et_fail(diag, ET_E_STATE_LOST,
			"the host process of backend '%.60s' was started again, the state is "
			"lost",
			c->backend->ops.name);
	uint64_t model = 0;
	if (c->compiled)
		status = load(c->compiled, *ret_generation, &model, diag);
	if (status)
		return status;
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_NEW, sizeof handle, 0 },
		.model = model,
		.instance = et_plugin_new_handle(c->backend) };
	status = ask(c->backend, *ret_generation, &handle, -1, diag);
	if (status)
		return status;
	drop_stage(c);
	c->id = handle.instance;
	c->model = model;
	c->generation = *ret_generation;
	return ET_OK;
}

static enum et_status context_new(struct et_compiled *compiled, struct et_lane *lane,
	struct et_context **ret_context, struct et_diag *diag)
{
	struct et_context *c = NULL;
	uint64_t generation;
	enum et_status status = context_make(
		compiled->backend, compiled, compiled->facts.n_inputs + compiled->facts.n_outputs, &c, diag);
	if (status)
		return status;
	status = revive(c, &generation, diag);
	if (status) {
		context_free(c);
		return status;
	}
	*ret_context = c;
	return ET_OK;
}

static enum et_status context_reset(struct et_context *c)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_INSTANCE_RESET, sizeof handle, 0 },
		.instance = c->id };
	struct et_diag diag = { "" };
	uint64_t generation;
	c->has_state = false;
	enum et_status status = et_plugin_up(c->backend, &generation, &diag);
	if (status || generation != c->generation)
		return ET_OK; /* a new instance has no state */
	status = ask(c->backend, c->generation, &handle, -1, &diag);
	return status == ET_E_BACKEND_CRASHED ? ET_OK : status;
}

/* --- the stage -------------------------------------------------------------------------------------- */

static size_t capacity_of(const struct et_tensor *tensor, bool is_output)
{
	size_t numel = et_tensor_numel(tensor);
	if (is_output && tensor->capacity > numel)
		numel = tensor->capacity;
	return numel * et_scalar_size((enum et_scalar_type)tensor->type);
}

static bool stage_fits(const struct et_context *c, struct et_evalue *const *args, uint32_t n_inputs)
{
	for (uint32_t i = 0; i < c->n_args; i++)
		if (args[i]->tag == ET_TAG_TENSOR &&
			capacity_of(args[i]->tensor, i >= n_inputs) > c->capacities[i])
			return false;
	return c->bytes != NULL;
}

static enum et_status make_stage(
	struct et_context *c, struct et_evalue *const *args, uint32_t n_inputs, struct et_diag *diag)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = 0, n;
	struct et_plugin_stage *stage = calloc(1, sizeof *stage + c->n_args * sizeof stage->areas[0]);
	if (!stage)
		return no_memory(diag);
	drop_stage(c);
	for (uint32_t i = 0; i < c->n_args; i++) {
		size_t capacity =
			args[i]->tag == ET_TAG_TENSOR ? capacity_of(args[i]->tensor, i >= n_inputs) : 0;
		if (capacity > c->capacities[i])
			c->capacities[i] = capacity;
		n = 0;
		if (!et_align_up(c->capacities[i], page, &n) || !et_add(at, n, &at)) {
			free(stage);
			return no_memory(diag);
		}
		c->areas[i] = (struct et_plugin_area){ at - n, n, i >= n_inputs, 0 };
	}
	c->n_bytes = at ? at : page;
	c->fd = et_plugin_memory("inferd-stage", c->n_bytes);
	c->bytes =
		c->fd < 0 ? MAP_FAILED : mmap(NULL, c->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (c->bytes == MAP_FAILED) {
		c->bytes = NULL;
		free(stage);
		return no_memory(diag);
	}
	stage->header = (struct et_plugin_header){ ET_PLUGIN_STAGE,
		(uint32_t)(sizeof *stage + c->n_args * sizeof stage->areas[0]), 0 };
	stage->instance = c->id;
	stage->n_bytes = c->n_bytes;
	stage->n_areas = c->n_args;
	memcpy(stage->areas, c->areas, c->n_args * sizeof stage->areas[0]);
	enum et_status status = ask(c->backend, c->generation, stage, c->fd, diag);
	free(stage);
	if (status)
		drop_stage(c);
	return status;
}

/* --- runs ------------------------------------------------------------------------------------------- */

static enum et_status fill_tensor(
	struct et_context *c, uint32_t i, const struct et_tensor *tensor, bool is_output, uint64_t *copied)
{
	struct et_plugin_arg *to = &c->packet->args[i];
	size_t n = capacity_of(tensor, is_output), room;
	if (!et_align_up(n, ALIGNMENT, &room))
		return ET_E_INTERNAL;
	to->kind = INFERD_DELEGATE_TENSOR;
	to->type = tensor->type;
	to->n_dims = tensor->n_dims;
	memcpy(to->sizes, tensor->sizes, tensor->n_dims * sizeof *tensor->sizes);
	memcpy(to->dim_order, tensor->dim_order, tensor->n_dims);
	/* at the end of its area, so that the guard is right behind it */
	to->offset = c->areas[i].offset + c->areas[i].n_bytes - room;
	to->n_bytes = n;
	if (!is_output && n) {
		memcpy(c->bytes + to->offset, tensor->data, n);
		*copied += n;
	}
	return ET_OK;
}

static enum et_status fill(
	struct et_context *c, struct et_evalue *const *args, uint32_t n_inputs, struct et_diag *diag)
{
	uint64_t copied = 0;
	memset(c->packet, 0, sizeof *c->packet + c->n_args * sizeof c->packet->args[0]);
	c->packet->header = (struct et_plugin_header){ ET_PLUGIN_RUN,
		(uint32_t)(sizeof *c->packet + c->n_args * sizeof c->packet->args[0]), 0 };
	c->packet->model = c->model;
	c->packet->instance = c->id;
	c->packet->kernel = c->compiled ? ++c->n_runs : c->kernel;
	c->packet->n_args = c->n_args;
	for (uint32_t i = 0; i < c->n_args; i++) {
		struct et_plugin_arg *to = &c->packet->args[i];
		to->area = i;
		to->is_output = i >= n_inputs;
		to->kind = args[i]->tag;
		switch (args[i]->tag) {
		case ET_TAG_TENSOR:
			if (fill_tensor(c, i, args[i]->tensor, i >= n_inputs, &copied))
				return no_memory(diag);
			break;
		case ET_TAG_INT:
			to->i = args[i]->i;
			break;
		case ET_TAG_BOOL:
			to->i = args[i]->b;
			break;
		case ET_TAG_DOUBLE:
			to->d = args[i]->d;
			break;
		case ET_TAG_NONE:
			break;
		default:
			return et_fail(diag, ET_E_NOT_SUPPORTED,
				"argument %u is a %s, which plug-ins do not take", i,
				et_tag_name((enum et_tag)args[i]->tag));
		}
	}
	pthread_mutex_lock(&c->backend->lock);
	c->backend->n_copied_bytes += copied;
	pthread_mutex_unlock(&c->backend->lock);
	return ET_OK;
}

static enum et_status prepare(struct et_context *c, struct et_evalue *const *args, uint32_t n_inputs,
	uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = revive(c, ret_generation, diag);
	if (!status && !stage_fits(c, args, n_inputs))
		status = make_stage(c, args, n_inputs, diag);
	if (!status)
		status = fill(c, args, n_inputs, diag);
	return status;
}

static enum et_status enqueue(struct et_context *c, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	uint64_t generation;
	enum et_status status = prepare(c, args, c->compiled->facts.n_inputs, &generation, diag);
	if (status)
		return status;
	c->args = args;
	c->completion = *completion;
	c->has_state = true;
	return et_plugin_start_run(c->backend, generation, c, completion->will_wait, diag);
}

void et_plugin_context_cancel(struct et_context *c)
{
	struct et_plugin_handle handle = {
		.header = { ET_PLUGIN_CANCEL, sizeof handle, 0 }, .model = c->n_runs, .instance = c->id
	};
	if (c->compiled && (c->backend->facts.flags & ET_PLUGIN_HAS_CANCEL))
		et_plugin_tell(c->backend, c->generation, &handle);
	et_plugin_hurry(c->backend, c);
}

static void wait_for_run(struct et_context *c, uint64_t cancel_ns)
{
	et_plugin_wait(c->backend, c, cancel_ns);
}

/* What the host wrote, to where it belongs. */
static enum et_status take_outputs(
	struct et_context *c, const struct et_plugin_done *done, struct et_diag *diag)
{
	uint32_t n = 0;
	uint64_t copied = 0;
	for (uint32_t i = 0; i < c->n_args; i++) {
		const struct et_plugin_arg *arg = &c->packet->args[i];
		if (!arg->is_output)
			continue;
		if (n >= done->n_outputs)
			return et_fail(
				diag, ET_E_INTERNAL, "the host process returned %u outputs", done->n_outputs);
		const struct et_plugin_output *from = &done->outputs[n++];
		struct et_evalue *to = c->args[i];
		if (to->tag == ET_TAG_INT)
			to->i = from->i;
		else if (to->tag == ET_TAG_BOOL)
			to->b = from->i != 0;
		else if (to->tag == ET_TAG_DOUBLE)
			to->d = from->d;
		if (to->tag != ET_TAG_TENSOR)
			continue;
		if (et_tensor_resize(to->tensor, from->sizes, to->tensor->n_dims))
			return et_fail(diag, ET_E_INTERNAL,
				"the plug-in gave output %u sizes that the program does not allow", n - 1);
		size_t n_bytes = et_tensor_n_bytes(to->tensor);
		if (n_bytes > arg->n_bytes)
			return et_fail(diag, ET_E_INTERNAL,
				"the plug-in gave output %u more bytes than it has", n - 1);
		if (n_bytes)
			memcpy(to->tensor->data, c->bytes + arg->offset, n_bytes);
		copied += n_bytes;
	}
	pthread_mutex_lock(&c->backend->lock);
	c->backend->n_copied_bytes += copied;
	pthread_mutex_unlock(&c->backend->lock);
	return ET_OK;
}

void et_plugin_run_ended(
	struct et_context *c, const struct et_plugin_done *done, enum et_status status, const char *reason)
{
	struct et_diag diag = { "" };
	if (reason)
		et_fail(&diag, status, "%.300s", reason);
	if (done &&
		done->header.n_bytes != sizeof *done + (uint64_t)done->n_outputs * sizeof done->outputs[0]) {
		status = et_fail(
			&diag, ET_E_INTERNAL, "the host process returned an answer that can't be read");
	} else if (done) {
		char text[sizeof done->text];
		memcpy(text, done->text, sizeof text);
		text[sizeof text - 1] = '\0';
		status = et_plugin_status(done->result, text, &diag);
		if (!status)
			status = take_outputs(c, done, &diag);
	}
	/* a copy: the context may be used again before done returns */
	struct et_completion completion = c->completion;
	if (c->compiled) {
		completion.done(completion.self, status, diag.text[0] ? diag.text : NULL);
		return;
	}
	c->status = status;
	c->diag = diag;
}

const struct et_delegate_ops et_plugin_ops = {
	.struct_size = sizeof(struct et_delegate_ops),
	.interface = ET_DELEGATE_INTERFACE,
	.compile = compile,
	.compiled_free = compiled_free,
	.lane_new = lane_new,
	.lane_free = lane_free,
	.context_new = context_new,
	.context_free = context_free,
	.context_reset = context_reset,
	.enqueue = enqueue,
	.cancel = et_plugin_context_cancel,
	.wait = wait_for_run,
	.probe = probe,
	.health = et_plugin_health,
	.restart = et_plugin_restart,
};

/* --- kernels ---------------------------------------------------------------------------------------- */

/* On a worker's thread, which waits: kernels are small. */
static enum et_status kernel_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_plugin_kernel *k = (struct et_plugin_kernel *)(uintptr_t)ctx->kernel->row;
	struct et_backend *b = k->backend;
	uint64_t generation;
	enum et_status status = ET_OK;
	pthread_mutex_lock(&k->lock);
	struct et_context *c = k->context;
	if (!c) {
		status = context_make(b, NULL, k->n_args, &k->context, ctx->diag);
		c = k->context;
		if (c)
			c->kernel = k->index;
	}
	if (!status)
		status = prepare(c, args, k->n_args - k->n_outputs, &generation, ctx->diag);
	if (!status) {
		c->args = args;
		status = et_plugin_start_run(b, generation, c, true, ctx->diag);
	}
	if (status == ET_PENDING) {
		et_plugin_wait(b, c, 0);
		status = c->status;
		if (status)
			et_fail(ctx->diag, status, "%s",
				c->diag.text[0] ? c->diag.text : et_status_text(status));
	}
	pthread_mutex_unlock(&k->lock);
	return status;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct et_kernel *)a)->name, ((const struct et_kernel *)b)->name);
}

enum et_status et_plugin_kernels_init(struct et_backend *b, struct et_diag *diag)
{
	uint32_t n = b->facts.n_kernels;
	enum { ROOM = 256 };
	if (!n)
		return ET_OK;
	b->kernels = calloc(n, sizeof *b->kernels);
	b->rows = calloc(n, sizeof *b->rows);
	b->kernel_names = calloc(n, 2 * ROOM);
	if (!b->kernels || !b->rows || !b->kernel_names)
		return no_memory(diag);
	for (uint32_t i = 0; i < n; i++) {
		struct et_plugin_handle handle = { .header = { ET_PLUGIN_KERNEL, sizeof handle, 0 },
			.instance = i };
		struct et_plugin_answer answer;
		struct et_kernel_arg how[ET_KERNEL_MAX_ARGS];
		char *name = b->kernel_names + (size_t)i * 2 * ROOM, *signature = name + ROOM;
		enum et_status status =
			et_plugin_ask(b, b->generation, &handle, -1, &answer, sizeof answer, NULL, diag);
		if (status)
			return status;
		memcpy(name, answer.text, sizeof answer.text - 1);
		memcpy(signature, answer.signature, sizeof answer.signature - 1);
		int n_args = et_kernel_signature(signature, how, ET_KERNEL_MAX_ARGS);
		const char *outputs = strchr(signature, '>');
		if (n_args < 0 || !outputs || answer.result)
			return et_fail(diag, ET_E_NOT_FOUND,
				"kernel '%.64s' of the plug-in has a signature that can't be read", name);
		b->kernels[i] = (struct et_plugin_kernel){ .backend = b,
			.index = i,
			.n_args = (uint32_t)n_args,
			.n_outputs = (uint32_t)strlen(outputs + 1) };
		pthread_mutex_init(&b->kernels[i].lock, NULL);
		b->rows[i] = (struct et_kernel){ name, signature, kernel_run, &b->kernels[i] };
		b->table.n = i + 1;
	}
	qsort(b->rows, n, sizeof *b->rows, by_name);
	b->table.kernels = b->rows;
	return ET_OK;
}

void et_plugin_kernels_deinit(struct et_backend *b)
{
	for (size_t i = 0; i < b->table.n; i++) {
		if (b->kernels[i].context)
			context_free(b->kernels[i].context);
		pthread_mutex_destroy(&b->kernels[i].lock);
	}
	free(b->kernels);
	free(b->rows);
	free(b->kernel_names);
}
