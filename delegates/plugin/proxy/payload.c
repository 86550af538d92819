/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads of a plug-in.
 *
 * A payload is copied once into a sealed memory file, which every host that is started is given. The number of a
 * host's start (generation) says which host has the model. A model of an earlier host is made ready again when it
 * is next run, on the thread that runs it. The answer of the first host is kept; a later host must answer the same. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/convert.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for what a plug-in needs");
}

/* --- packing ---------------------------------------------------------------------------------------- */

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

/* Pair @i of a payload: its specs, then its options. */
static struct et_compile_spec pair_at(const struct et_payload *payload, uint32_t i)
{
	if (i < payload->n_specs)
		return payload->specs[i];
	const struct et_option *option = &payload->options[i - payload->n_specs];
	return (struct et_compile_spec){ option->key, (const uint8_t *)option->value, strlen(option->value) };
}

static bool measure_pairs(const struct et_payload *payload, size_t *ret_n)
{
	*ret_n = 0;
	for (uint32_t i = 0; i < payload->n_specs + payload->n_options; i++) {
		struct et_compile_spec pair = pair_at(payload, i);
		size_t n;
		if (pair.n_bytes > UINT32_MAX || strlen(pair.key) > UINT32_MAX ||
			!et_add(strlen(pair.key) + 2, pair.n_bytes, &n) || !et_align_up(n, 8, &n) ||
			!et_add(*ret_n, n + 8, ret_n))
			return false;
	}
	return true;
}

static bool write_pairs(int fd, const struct et_payload *payload, uint64_t at)
{
	for (uint32_t i = 0; i < payload->n_specs + payload->n_options; i++) {
		struct et_compile_spec pair = pair_at(payload, i);
		size_t n_key = strlen(pair.key);
		uint32_t lengths[2] = { (uint32_t)n_key, (uint32_t)pair.n_bytes };
		if (!write_all(fd, lengths, sizeof lengths, at) || !write_all(fd, pair.key, n_key, at + 8) ||
			!write_all(fd, pair.value, pair.n_bytes, at + 8 + n_key + 1))
			return false;
		at += 8 + ((n_key + pair.n_bytes + 2 + 7) & ~(size_t)7);
	}
	return true;
}

/* Write the payload, with specs and options behind it, into a sealed memory file; see struct et_plugin_init. */
static enum et_status pack(const struct et_payload *payload, struct et_plugin_init *ret_init, int *ret_fd,
	struct et_diag *diag)
{
	size_t n_pairs, at, n_bytes;
	*ret_init = (struct et_plugin_init){ .header = { ET_PLUGIN_INIT, sizeof *ret_init, 0 },
		.n_payload_bytes = payload->n_bytes,
		.n_specs = payload->n_specs,
		.n_options = payload->n_options,
		.n_args = payload->n_args };
	snprintf(ret_init->method, sizeof ret_init->method, "%s", payload->method ? payload->method : "");
	if (!measure_pairs(payload, &n_pairs) || !et_align_up(payload->n_bytes, ET_PLUGIN_PAGE, &at) ||
		!et_add(at, n_pairs, &n_bytes))
		return no_memory(diag);
	ret_init->n_pair_bytes = n_pairs;
	int fd = et_plugin_memory("inferd-payload", n_bytes);
	if (fd < 0)
		return no_memory(diag);
	if (!write_all(fd, payload->bytes, payload->n_bytes, 0) || !write_pairs(fd, payload, at) ||
		et_plugin_memory_seal(fd) < 0) {
		close(fd);
		return no_memory(diag);
	}
	*ret_fd = fd;
	return ET_OK;
}

/* This thread may use as much memory as is free for the program; so may the host instead of it. */
static uint32_t free_kib(void)
{
	uint64_t n_kib = et_platform_heap_left() >> 10;
	if (n_kib > UINT32_MAX)
		return 0;
	return n_kib ? (uint32_t)n_kib : 1;
}

static struct et_plugin_init program_packet(const struct et_client_files *files)
{
	return (struct et_plugin_init){ .header = { ET_PLUGIN_INIT, sizeof(struct et_plugin_init), 0 },
		.n_payload_bytes = files->items[0].n_bytes,
		.max_kib = free_kib() };
}

/* The payload is the client's program as a whole, which the host maps where it is. */
static enum et_status take_program(const struct et_payload *payload, struct et_plugin_init *ret_init, int *ret_fd,
	struct et_diag *diag)
{
	*ret_init = program_packet(payload->client_files);
	ret_init->n_args = payload->n_args;
	size_t n_method = strlen(payload->method);
	if (n_method >= sizeof ret_init->method)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "the method's name has more than %zu characters",
			sizeof ret_init->method - 1);
	memcpy(ret_init->method, payload->method, n_method);
	*ret_fd = fcntl(payload->client_files->items[0].fd, F_DUPFD_CLOEXEC, 0);
	return *ret_fd < 0 ? no_memory(diag) : ET_OK;
}

/* The number of the program: that of its other models, or a new one. */
static uint64_t program_number(struct et_backend *b, const struct et_program *program)
{
	struct et_list_node *node, *after;
	uint64_t number = 0;
	pthread_mutex_lock(&b->lock);
	ET_LIST_FOR_EACH(node, after, &b->models) {
		const struct et_model *model = ET_CONTAINER_OF(node, struct et_model, node);
		if (program && model->program == program)
			number = model->init_packet.program;
	}
	if (!number)
		number = ++b->last_program;
	pthread_mutex_unlock(&b->lock);
	return number;
}

/* Start a host if there is none. */
static enum et_status ensure_host(struct et_backend *b, uint64_t *ret_generation, struct et_diag *diag)
{
	enum et_status status = et_plugin_ensure_host(b, ret_generation, diag);
	/* BACKEND_DOWN: the payload is not the reason */
	return !status || status == ET_E_OUT_OF_RESOURCES ? status : ET_E_BACKEND_DOWN;
}

static enum et_status probe(struct et_backend *b, const struct et_payload *payload, uint32_t *ret_readiness,
	struct et_diag *diag)
{
	struct et_plugin_init init;
	struct et_plugin_answer answer;
	uint64_t generation;
	int fd;
	enum et_status status = ensure_host(b, &generation, diag);
	if (!status)
		status = pack(payload, &init, &fd, diag);
	if (status)
		return status;
	init.header.type = ET_PLUGIN_PROBE;
	init.program = program_number(b, payload->program);
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

enum et_status et_plugin_probe(struct et_backend *parent, const struct et_payload *payload, uint32_t *ret_readiness,
	struct et_diag *diag)
{
	struct et_backend *b;
	enum et_status status = et_plugin_tenant_take(parent, payload->tenant, &b, diag);
	if (status)
		return status;
	status = probe(b, payload, ret_readiness, diag);
	et_plugin_tenant_put(b);
	return status;
}

enum et_status et_plugin_probe_payload(struct et_backend *b, const struct et_payload *payload,
	enum et_readiness *ret_readiness, struct et_diag *diag)
{
	uint32_t answer;
	enum et_status status = et_plugin_probe(b, payload, &answer, diag);
	if (!status)
		*ret_readiness = et_convert_readiness(answer);
	return status;
}

/* Send DESTROY for model @id, and give the room of its payload back, unless the model's @flags dropped that after
 * init. */
static void destroy_in_host(struct et_backend *b, uint64_t generation, uint64_t id, uint32_t flags)
{
	struct et_plugin_handle handle = { .header = { ET_PLUGIN_DESTROY, sizeof handle, 0 }, .model = id };
	et_plugin_tell(b, generation, &handle);
	if (!(flags & INFERD_DELEGATE_DROPS_PAYLOAD))
		et_plugin_release_payload_fd(b, generation);
}

static enum et_status ask_init(struct et_model *model, uint64_t generation, struct et_plugin_init *init,
	struct et_plugin_answer *answer, struct et_diag *diag)
{
	struct et_backend *b = model->backend;
	return model->files
		       ? et_plugin_ask_with_files(b, generation, init, model->fd, answer, sizeof *answer, model->files,
				 diag)
		       : et_plugin_ask(b, generation, init, model->fd, answer, sizeof *answer, model->program, diag);
}

/* Called with its lock. */
static enum et_status load(struct et_model *model, uint64_t generation, struct et_diag *diag)
{
	struct et_backend *b = model->backend;
	struct et_plugin_answer answer;
	struct et_plugin_init init = model->init_packet;
	struct et_diag build_diag = { "" };
	init.model = et_plugin_new_handle(b);
	enum et_status status = et_plugin_reserve_payload_fd(b, generation, diag);
	if (status)
		return status;
	status = ask_init(model, generation, &init, &answer, diag);
	/* What other models' inits have noted may fail to build; so INIT is asked again in any case. */
	if (!status && answer.result == INFERD_DELEGATE_TO_BUILD) {
		et_plugin_build(b, &build_diag);
		status = ask_init(model, generation, &init, &answer, diag);
	}
	if (!status && answer.result == INFERD_DELEGATE_TO_BUILD) {
		status = et_fail(diag, ET_E_NOT_SUPPORTED, "%s",
			build_diag.text[0] ? build_diag.text : "what was compiled for it can't be used");
	} else if (!status) {
		answer.text[sizeof answer.text - 1] = '\0';
		status = et_plugin_status(answer.result, answer.text, diag);
	}
	if (status || (answer.flags & INFERD_DELEGATE_DROPS_PAYLOAD))
		et_plugin_release_payload_fd(b, generation);
	if (status)
		return status;
	if (model->generation &&
		(answer.n_inputs != model->init_answer.n_inputs || answer.n_outputs != model->init_answer.n_outputs ||
			answer.flags != model->init_answer.flags || answer.device != model->init_answer.device)) {
		destroy_in_host(b, generation, init.model, answer.flags);
		return et_fail(diag, ET_E_BACKEND_CRASHED,
			"after its process was started again, the plug-in finds other inputs and outputs in the same payload");
	}
	if (!model->generation)
		model->init_answer = answer; /* from now on other threads read it without the lock */
	model->id = init.model;
	model->generation = generation;
	atomic_store_explicit(&model->ready, generation, memory_order_relaxed);
	return ET_OK;
}

enum et_status et_plugin_load(struct et_model *model, uint64_t generation, uint64_t *ret_id, struct et_diag *diag)
{
	pthread_mutex_lock(&model->lock);
	enum et_status status = model->generation == generation ? ET_OK : load(model, generation, diag);
	*ret_id = model->id;
	pthread_mutex_unlock(&model->lock);
	return status;
}

void et_plugin_model_free(struct et_model *model)
{
	struct et_backend *b = model->backend;
	if (atomic_fetch_sub_explicit(&model->n_refs, 1, memory_order_acq_rel) > 1)
		return;
	if (model->generation)
		destroy_in_host(b, model->generation, model->id, model->init_answer.flags);
	pthread_mutex_lock(&b->lock);
	et_list_remove(&model->node);
	pthread_mutex_unlock(&b->lock);
	if (model->fd >= 0)
		close(model->fd);
	pthread_mutex_destroy(&model->lock);
	free(model);
	et_plugin_tenant_put(b);
}

enum et_status et_plugin_compile(struct et_backend *parent, const struct et_payload *payload,
	struct et_model **ret_model, struct et_model_info *ret_info, struct et_diag *diag)
{
	struct et_backend *b;
	uint64_t generation, id;
	if (parent->runs_programs != (payload->client_files != NULL))
		return et_fail(diag, ET_E_NOT_SUPPORTED, "it has no payload for '%.60s'", parent->ops.name);
	if (payload->n_args > ET_PLUGIN_MAX_ARGS)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "%u arguments; a plug-in takes at most %d", payload->n_args,
			ET_PLUGIN_MAX_ARGS);
	enum et_status status = et_plugin_tenant_take(parent, payload->tenant, &b, diag);
	if (status)
		return status;
	struct et_model *model = calloc(1, sizeof *model);
	if (!model) {
		et_plugin_tenant_put(b);
		return no_memory(diag);
	}
	*model = (struct et_model){
		.backend = b, .n_refs = 1, .program = payload->program, .files = payload->client_files, .fd = -1
	};
	pthread_mutex_init(&model->lock, NULL);
	if (model->files)
		status = take_program(payload, &model->init_packet, &model->fd, diag);
	else
		status = pack(payload, &model->init_packet, &model->fd, diag);
	model->init_packet.program = program_number(b, payload->program);
	pthread_mutex_lock(&b->lock);
	et_list_append(&b->models, &model->node);
	pthread_mutex_unlock(&b->lock);
	if (!status)
		status = ensure_host(b, &generation, diag);
	if (!status)
		status = et_plugin_load(model, generation, &id, diag);
	if (!status && model->init_answer.device >= b->facts.n_devices)
		status = et_fail(diag, ET_E_INTERNAL, "the plug-in chose device %u, but has %u devices",
			model->init_answer.device, b->facts.n_devices);
	if (!status &&
		(model->init_answer.n_inputs > ET_PLUGIN_MAX_ARGS || model->init_answer.n_outputs > ET_PLUGIN_MAX_ARGS))
		status = et_fail(diag, ET_E_INTERNAL, "the plug-in counts %u inputs and %u outputs",
			model->init_answer.n_inputs, model->init_answer.n_outputs);
	/* else its instances would be made by workers, who would wait for the process */
	if (!status && b->runs_programs && !(model->init_answer.flags & INFERD_DELEGATE_THREADS_OF_RUN))
		status = et_fail(diag, ET_E_INTERNAL, "the process for clients' programs wants threads of its own");
	if (!status && (model->init_answer.flags & INFERD_DELEGATE_STATEFUL) && !(b->facts.flags & ET_PLUGIN_HAS_RESET))
		status = et_fail(diag, ET_E_INTERNAL, "the payload is stateful, the plug-in has no instance_reset");
	if (status) {
		et_plugin_model_free(model);
		return status;
	}
	*ret_model = model;
	*ret_info = (struct et_model_info){
		.n_inputs = model->init_answer.n_inputs,
		.n_outputs = model->init_answer.n_outputs,
		.is_stateful = model->init_answer.flags & INFERD_DELEGATE_STATEFUL,
		.drops_payload = true,
		.has_free_instances = true,
		.device = model->init_answer.device,
		.n_bytes = (size_t)model->init_answer.n_bytes +
			   (model->files ? 0 : (size_t)model->init_packet.n_payload_bytes),
		.instance_bytes = (size_t)model->init_answer.scratch_bytes,
		.is_per_run = model->init_answer.flags & INFERD_DELEGATE_THREADS_OF_RUN,
		.is_repeatable = model->init_answer.flags & INFERD_DELEGATE_REPEATABLE,
		.state_bytes = (size_t)model->init_answer.state_bytes,
		.shared_state_bytes = model->init_answer.flags & INFERD_DELEGATE_SHARES_STATE
					      ? (size_t)model->init_answer.shared_state_bytes
					      : 0,
	};
	return ET_OK;
}

/* Read @n_bytes of what the host wrote into @fd, of which a copy is made: the host may go on writing. */
static bool read_all(int fd, uint8_t *to, size_t n_bytes)
{
	for (size_t at = 0; at < n_bytes;) {
		ssize_t n = pread(fd, to + at, n_bytes - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static enum et_status describe(struct et_backend *b, const struct et_client_files *files, uint8_t *room,
	size_t *ret_n_bytes, struct et_diag *diag)
{
	struct et_plugin_init init = program_packet(files);
	struct et_plugin_answer answer = { .text = "" };
	uint64_t generation;
	enum et_status status = ensure_host(b, &generation, diag);
	if (status)
		return status;
	int fd = et_plugin_memory("inferd-description", ET_PLUGIN_MAX_DESCRIPTION);
	if (fd < 0)
		return no_memory(diag);
	init.header.type = ET_PLUGIN_DESCRIBE;
	init.model = et_plugin_new_handle(b);
	init.program = program_number(b, NULL);
	status = et_plugin_show(b, generation, init.model, fd, ET_PLUGIN_MAX_DESCRIPTION, diag);
	if (!status) {
		status = et_plugin_ask_with_files(b, generation, &init, files->items[0].fd, &answer, sizeof answer,
			files, diag);
		et_plugin_forget(b, generation, init.model);
	}
	if (!status) {
		answer.text[sizeof answer.text - 1] = '\0';
		status = et_plugin_status(answer.result, answer.text, diag);
	}
	if (!status && (answer.n_bytes > ET_PLUGIN_MAX_DESCRIPTION || !read_all(fd, room, (size_t)answer.n_bytes)))
		status = et_fail(diag, ET_E_INTERNAL, "the host process describes a program in %llu bytes",
			(unsigned long long)answer.n_bytes);
	close(fd);
	*ret_n_bytes = (size_t)answer.n_bytes;
	return status;
}

enum et_status et_plugin_describe(struct et_backend *parent, uint64_t tenant, const struct et_plugin_room *memory,
	const struct et_client_files *files, uint8_t *room, size_t *ret_n_bytes, struct et_diag *diag)
{
	struct et_backend *b;
	enum et_status status = et_plugin_tenant_take(parent, tenant, &b, diag);
	if (status)
		return status;
	et_plugin_limit_host(b, memory->n_private);
	atomic_store_explicit(&b->user_memory, memory->n_all, memory_order_relaxed);
	status = describe(b, files, room, ret_n_bytes, diag);
	et_plugin_tenant_put(b);
	return status;
}
