/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine that runs models in the daemon, through libinferd like any other client.
 *
 * A seat is a connection. An instance is a Method with one binding over its own region. A model that is a file is
 * passed to the daemon as a descriptor; all seats pass the same file, so the daemon loads it once. Opening a model
 * only opens its files: the daemon loads it for the first instance. */
#include "clients/inferctl/ask.h"
#include "clients/inferctl/ctl.h"
#include "clients/inferctl/engine.h"
#include "clients/inferd.h"
#include "ipc/presence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct remote_model {
	struct ctl_model base;
	char *name, *method;
	int fd; /* of the program's file; -1 for a model of the repository */
	int data_fds[ET_PLATFORM_MAX_DATA];
	size_t n_data_fds;
};

struct remote_seat {
	struct ctl_seat base;
	struct inferd *d;
};

struct remote_instance {
	struct ctl_instance base;
	struct inferd *d;
	struct inferd_method *method;
	struct inferd_binding *binding;
};

static void engine_free(struct ctl_engine *engine)
{
	free(engine);
}

static void model_close(struct ctl_model *base)
{
	struct remote_model *model = (struct remote_model *)base;
	if (!model)
		return;
	if (model->fd >= 0)
		close(model->fd);
	while (model->n_data_fds)
		close(model->data_fds[--model->n_data_fds]);
	free(model->name);
	free(model->method);
	free(model);
}

/* -1 with @error set. */
static int open_file(const char *path, struct ctl_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? ctl_error_set(error, "%s: %s", path, strerror(errno)) : fd;
}

/* The name that the daemon shows for a file: its path, or the end of a long one. The caller frees it. */
static char *label_of(const char *path)
{
	size_t n = strlen(path);
	const char *end = n > INF_MAX_NAME ? path + n - INF_MAX_NAME : path;
	json_t *text;
	while ((*end & 0xc0) == 0x80) /* start at a whole UTF-8 character */
		end++;
	text = json_string(end);
	json_decref(text);
	return ctl_format("%s", text ? end : "a file whose name is not UTF-8");
}

static int model_open(struct ctl_engine *engine, struct ctl_model **ret, const char *name, struct ctl_file *file,
	const char *method, struct ctl_error *error)
{
	struct et_diag diag = { 0 };
	if (file && ctl_file_find_data(file, &diag) != ET_OK)
		return ctl_error_set(error, "%s", diag.text);
	struct remote_model *model = ctl_alloc(1, sizeof(*model));
	model->base.engine = engine;
	model->name = file ? label_of(name) : ctl_format("%s", name);
	model->method = method ? ctl_format("%s", method) : NULL;
	model->fd = file ? open_file(file->path, error) : -1;
	for (size_t i = 0; file && model->fd >= 0 && i < file->n_data; i++) {
		int fd = open_file(file->data_paths[i], error);
		if (fd < 0) {
			close(model->fd);
			model->fd = -1;
		} else {
			model->data_fds[model->n_data_fds++] = fd;
		}
	}
	if (file && model->fd < 0) {
		model_close(&model->base);
		return -1;
	}
	*ret = &model->base;
	return 0;
}

static void seat_close(struct ctl_seat *base)
{
	struct remote_seat *seat = (struct remote_seat *)base;
	if (!seat)
		return;
	inferd_close(seat->d);
	free(seat);
}

static int seat_open(struct ctl_engine *engine, struct ctl_seat **ret, unsigned index, struct ctl_error *error)
{
	struct remote_seat *seat = ctl_alloc(1, sizeof(*seat));
	seat->base = (struct ctl_seat){ engine, index };
	struct inferd_open_options options = { .struct_size = sizeof(options),
		.socket = engine->options.socket,
		.reconnect_ms = engine->options.reconnect_ms };
	if (inferd_open_with(&seat->d, &options) < 0) {
		const struct ctl ctl = { .socket = engine->options.socket };
		struct ctl_ask *ask = NULL;
		/* ctl_ask_open has a better message: it names the options of inferctl. */
		if (ctl_ask_open(&ask, &ctl, false, error->text, sizeof(error->text)) == 0)
			ctl_error_set(error, "%s", seat->d ? inferd_error(seat->d) : "out of memory");
		ctl_ask_close(ask);
		seat_close(&seat->base);
		return -1;
	}
	*ret = &seat->base;
	return 0;
}

static uint64_t seat_resident_bytes(struct ctl_seat *seat)
{
	const struct ctl ctl = { .socket = seat->engine->options.socket };
	struct inf_request request = { .kind = INF_REQUEST_STATUS };
	struct inf_reply reply;
	struct ctl_ask *ask;
	char error[1200];
	uint64_t n_bytes = 0;
	/* The question needs a new connection, and a daemon that was stopped meanwhile must stay so. */
	if (!inf_presence_is_held(ctl_socket_path(&ctl)))
		return 0;
	if (ctl_ask_open(&ask, &ctl, false, error, sizeof(error)) < 0)
		return 0;
	if (ctl_ask(ask, &request, &reply, error, sizeof(error)) == 0 && reply.kind == INF_REPLY_SERVER_STATUS)
		n_bytes = reply.server_status.resident_bytes;
	ctl_ask_close(ask);
	return n_bytes;
}

/* The tag of a scalar's datatype; NONE for one without a value. */
static uint8_t scalar_tag(const char *datatype)
{
	return strcmp(datatype, "INT") == 0      ? ET_TAG_INT
	       : strcmp(datatype, "BOOL") == 0   ? ET_TAG_BOOL
	       : strcmp(datatype, "DOUBLE") == 0 ? ET_TAG_DOUBLE
						 : ET_TAG_NONE;
}

static int io_from_info(const struct inferd_tensor_info *info, struct ctl_io *ret, struct ctl_error *error)
{
	struct ctl_io io = { 0 };
	int type = ctl_type_from_name(info->datatype);
	if (info->is_scalar) {
		io.value.tag = scalar_tag(info->datatype);
		*ret = io;
		return 0;
	}
	if (type < 0 || info->n_dims > ET_MAX_DIMS)
		return ctl_error_set(error, "%s: inferctl does not know the datatype %s", info->name, info->datatype);
	io.value.tag = ET_TAG_TENSOR;
	io.value.type = (uint8_t)type;
	io.value.n_dims = (uint8_t)info->n_dims;
	io.value.n_bytes = info->n_bytes;
	io.is_dynamic = info->is_dynamic;
	for (size_t i = 0; i < info->n_dims; i++) {
		io.value.sizes[i] = (int32_t)info->shape[i];
		io.value.dim_order[i] = info->dim_order[i];
	}
	*ret = io;
	return 0;
}

static void instance_close(struct ctl_instance *base)
{
	struct remote_instance *instance = (struct remote_instance *)base;
	if (!instance)
		return;
	if (instance->binding)
		inferd_unbind(instance->binding);
	if (instance->method)
		inferd_method_close(instance->method);
	free(base->inputs);
	free(base->outputs);
	free(instance);
}

static int open_method(struct remote_instance *instance, const struct remote_model *model,
	const struct remote_instance *with)
{
	struct inferd_method_options options = { .struct_size = sizeof(options),
		.method = model->method,
		.backend = instance->base.engine->options.backend,
		.data_fds = model->data_fds,
		.n_data_fds = model->n_data_fds };
	if (with) { /* the daemon has its program already */
		options.share_with = with->method;
		options.backend = NULL;
		options.n_data_fds = 0;
		return inferd_method_open(instance->d, &instance->method, NULL, &options);
	}
	return model->fd >= 0 ? inferd_method_open_fd(instance->d, &instance->method, model->fd, model->name, &options)
			      : inferd_method_open(instance->d, &instance->method, model->name, &options);
}

static int instance_open(struct ctl_seat *seat, struct ctl_instance **ret, struct ctl_model *base_model,
	const struct ctl_instance *with, struct ctl_error *error)
{
	struct remote_model *model = (struct remote_model *)base_model;
	struct remote_instance *instance = ctl_alloc(1, sizeof(*instance));
	struct ctl_instance *base = &instance->base;
	int rc;

	base->engine = seat->engine;
	instance->d = ((struct remote_seat *)seat)->d;
	rc = open_method(instance, model, (const struct remote_instance *)with);
	if (rc >= 0)
		rc = inferd_bind(instance->method, &instance->binding);
	if (rc < 0) {
		error->is_missing = rc == -INFERD_UNIMPLEMENTED;
		ctl_error_set(error, "%s", inferd_error(instance->d));
		instance_close(base);
		return -1;
	}
	base->n_inputs = (unsigned)inferd_n_inputs(instance->method);
	base->n_outputs = (unsigned)inferd_n_outputs(instance->method);
	base->inputs = ctl_alloc(base->n_inputs, sizeof(*base->inputs));
	base->outputs = ctl_alloc(base->n_outputs, sizeof(*base->outputs));
	base->is_stateful = inferd_method_is_stateful(instance->method);
	snprintf(base->backend, sizeof(base->backend), "%s", inferd_method_backend(instance->method));
	for (unsigned i = 0; i < base->n_inputs && rc >= 0; i++)
		rc = io_from_info(inferd_input_info(instance->method, i), &base->inputs[i], error);
	for (unsigned i = 0; i < base->n_outputs && rc >= 0; i++)
		rc = io_from_info(inferd_output_info(instance->method, i), &base->outputs[i], error);
	if (rc < 0) {
		instance_close(base);
		return -1;
	}
	*ret = base;
	return 0;
}

static void *instance_input(struct ctl_instance *base, unsigned index)
{
	return inferd_input(((struct remote_instance *)base)->binding, index);
}

static int instance_describe(struct ctl_instance *base, unsigned index, const struct ctl_value *value,
	struct ctl_error *error)
{
	struct remote_instance *instance = (struct remote_instance *)base;
	int rc = 0;
	if (value->tag == ET_TAG_TENSOR && base->inputs[index].is_dynamic) {
		int64_t shape[ET_MAX_DIMS];
		for (unsigned i = 0; i < value->n_dims; i++)
			shape[i] = value->sizes[i];
		rc = inferd_set_input_shape(instance->binding, index, shape, value->n_dims);
	} else if (value->tag == ET_TAG_INT || value->tag == ET_TAG_BOOL) {
		rc = inferd_set_scalar_int(instance->binding, index, value->i);
	} else if (value->tag == ET_TAG_DOUBLE) {
		rc = inferd_set_scalar(instance->binding, index, value->d);
	}
	return rc < 0 ? ctl_error_set(error, "%s", inferd_error(instance->d)) : 0;
}

static int instance_run(struct ctl_instance *base, struct ctl_error *error)
{
	struct remote_instance *instance = (struct remote_instance *)base;
	if (inferd_infer(instance->binding, NULL) < 0)
		return ctl_error_set(error, "%s", inferd_error(instance->d));
	return 0;
}

static int instance_run_profiled(struct ctl_instance *base, void **ret_etdump, size_t *ret_n_bytes,
	struct ctl_error *error)
{
	struct remote_instance *instance = (struct remote_instance *)base;
	struct inferd_request_options options = { .struct_size = sizeof(options), .profile = true };
	const void *bytes;
	size_t n_bytes;
	if (inferd_infer(instance->binding, &options) < 0)
		return ctl_error_set(error, "%s", inferd_error(instance->d));
	bytes = inferd_last_profile(instance->binding, &n_bytes);
	if (!bytes)
		return ctl_error_set(error, "the daemon sent no profile: it has an older version, or no memory for it");
	*ret_etdump = ctl_alloc(n_bytes, 1);
	memcpy(*ret_etdump, bytes, n_bytes);
	*ret_n_bytes = n_bytes;
	return 0;
}

static int instance_output(struct ctl_instance *base, unsigned index, struct ctl_value *ret, struct ctl_error *error)
{
	struct remote_instance *instance = (struct remote_instance *)base;
	struct ctl_value value = base->outputs[index].value;
	int64_t shape[INFERD_MAX_DIMS];
	int rc;

	if (value.tag == ET_TAG_TENSOR) {
		rc = inferd_output_shape(instance->binding, index, shape);
		if (rc != value.n_dims)
			return ctl_error_set(error, "output %u: %s", index,
				rc < 0 ? inferd_error(instance->d) : "its rank has changed");
		for (unsigned i = 0; i < value.n_dims; i++)
			value.sizes[i] = (int32_t)shape[i];
		value.n_bytes = ctl_value_numel(&value) * et_scalar_size(value.type);
		value.data = inferd_output(instance->binding, index);
		if (value.n_bytes > base->outputs[index].value.n_bytes || (value.n_bytes && !value.data))
			return ctl_error_set(error, "output %u is larger than its memory", index);
	} else {
		const char *datatype = inferd_output_datatype(instance->binding, index);
		value.tag = scalar_tag(datatype);
		value.data = (const uint8_t *)inferd_output_text(instance->method, index, &value.n_bytes);
		if (value.data) {
			value.tag = ET_TAG_STRING;
			*ret = value;
			return 0;
		}
		if (value.tag == ET_TAG_NONE && strcmp(datatype, et_tag_name(ET_TAG_NONE)) != 0)
			return ctl_error_set(error, "output %u is a %s, which has no value to show", index, datatype);
		if (value.tag != ET_TAG_NONE &&
			(inferd_output_scalar(instance->binding, index, &value.d) < 0 ||
				(value.tag != ET_TAG_DOUBLE &&
					inferd_output_scalar_int(instance->binding, index, &value.i) < 0)))
			return ctl_error_set(error, "output %u: %s", index, inferd_error(instance->d));
	}
	*ret = value;
	return 0;
}

static int instance_reset(struct ctl_instance *base, struct ctl_error *error)
{
	struct remote_instance *instance = (struct remote_instance *)base;
	if (inferd_method_reset(instance->method) < 0)
		return ctl_error_set(error, "%s", inferd_error(instance->d));
	return 0;
}

static struct ctl_timing instance_timing(struct ctl_instance *base)
{
	struct inferd_timing timing = { 0 };
	inferd_last_timing(((struct remote_instance *)base)->binding, &timing);
	return (struct ctl_timing){ timing.queue_ns, timing.run_ns };
}

static unsigned instance_n_copied(struct ctl_instance *base)
{
	return (unsigned)inferd_n_copied(((struct remote_instance *)base)->binding);
}

static const struct ctl_engine_ops remote_ops = {
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

int ctl_remote_engine_new(struct ctl_engine **ret_engine, const struct ctl_engine_options *options,
	struct ctl_error *error)
{
	struct ctl_engine *engine = ctl_alloc(1, sizeof(*engine));
	*engine = (struct ctl_engine){ &remote_ops, *options };
	*ret_engine = engine;
	return 0;
}
