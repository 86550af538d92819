/* SPDX-License-Identifier: BSD-3-Clause */
/* What both engines share: open several methods of one program, and check that a value fits an input before it is
 * copied there.
 *
 * The daemon and the runtime check requests, too. But they see only memory and sizes; the datatype and the dim order
 * of a bundled value or of a .npy file are known only here. */
#include "clients/inferctl/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ctl_error_set(struct ctl_error *error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -1;
}

int ctl_engine_begin(const struct ctl *ctl, struct ctl_engine **ret_engine, const struct ctl_engine_options *options)
{
	struct ctl_engine_options with_socket = *options;
	struct ctl_error error = { 0 };
	/* An error, because the daemon would silently use its own settings. */
	if (!options->is_local && (options->config || options->cache || options->n_threads != 1))
		return ctl_misuse(ctl, "%s needs --local; the daemon has this in its configuration",
			options->config  ? "--config"
			: options->cache ? "--cache"
					 : "--threads");
	if (options->is_local && options->backend)
		return ctl_misuse(ctl,
			"--backend chooses between variants of the daemon's models, so it can't be --local");
	with_socket.socket = ctl->socket;
	int rc = options->is_local ? ctl_local_engine_new(ret_engine, &with_socket, &error)
				   : ctl_remote_engine_new(ret_engine, &with_socket, &error);
	return rc < 0 ? ctl_fail("%s", error.text) : CTL_OK;
}

int ctl_opened_open(struct ctl_seat *seat, struct ctl_opened *all, size_t index, const char *name,
	struct ctl_file *file, const char *method, struct ctl_error *error)
{
	const struct ctl_engine_ops *ops = seat->engine->ops;
	struct ctl_opened *one = &all[index];
	if (ops->model_open(seat->engine, &one->model, name, file, method, error) < 0)
		return -1;
	for (size_t i = 0; i < index; i++) {
		struct ctl_error ignored = { 0 };
		if (all[i].instance && all[i].instance->is_stateful &&
			ops->instance_open(seat, &one->instance, one->model, all[i].instance, &ignored) == 0)
			return 0;
	}
	return ops->instance_open(seat, &one->instance, one->model, NULL, error);
}

void ctl_opened_close_all(struct ctl_engine *engine, struct ctl_opened *all, size_t n)
{
	while (n-- > 0) {
		if (all[n].instance)
			engine->ops->instance_close(all[n].instance);
		if (all[n].model)
			engine->ops->model_close(all[n].model);
	}
	free(all);
}

/* Whether @value fits @io in any dim order. *ret_is_alike: it has the dim order that the method wants. */
static bool fits(const struct ctl_io *io, const struct ctl_value *value, bool *ret_is_alike)
{
	*ret_is_alike = true;
	struct ctl_value want = io->value;
	if (value->tag != want.tag)
		return false;
	if (value->tag != ET_TAG_TENSOR)
		return true;
	if (value->type != want.type || value->n_dims != want.n_dims || value->n_bytes > want.n_bytes)
		return false;
	if (io->is_dynamic)
		memcpy(want.sizes, value->sizes, want.n_dims * sizeof(want.sizes[0]));
	*ret_is_alike = ctl_value_same_layout(&want, value);
	return memcmp(value->sizes, want.sizes, want.n_dims * sizeof(want.sizes[0])) == 0;
}

int ctl_instance_set_input(struct ctl_instance *instance, unsigned index, const struct ctl_value *value,
	struct ctl_error *error)
{
	const struct ctl_io *io;
	struct ctl_value v = *value;
	bool is_alike;
	if (index >= instance->n_inputs)
		return ctl_error_set(error, "there is no input %u: the method has %u", index, instance->n_inputs);
	io = &instance->inputs[index];
	/* Convert a number to the input's kind. */
	if (v.tag != io->value.tag && v.tag != ET_TAG_TENSOR && v.tag != ET_TAG_NONE &&
		io->value.tag != ET_TAG_TENSOR && io->value.tag != ET_TAG_NONE) {
		if (v.tag == ET_TAG_DOUBLE && io->value.tag == ET_TAG_INT &&
			(!(v.d >= -0x1p63 && v.d < 0x1p63) || v.d != (double)(int64_t)v.d))
			return ctl_error_set(error, "input %u: %g does not fit an integer", index, v.d);
		if (v.tag == ET_TAG_DOUBLE)
			v.i = io->value.tag == ET_TAG_BOOL ? v.d != 0 : (int64_t)v.d;
		v.tag = io->value.tag;
	}
	if (!fits(io, &v, &is_alike)) {
		char got[CTL_VALUE_TEXT], want[CTL_VALUE_TEXT];
		return ctl_error_set(error, "input %u is %s, expected %s%s", index, ctl_value_text(got, &v),
			ctl_value_text(want, &io->value), io->is_dynamic ? " at most" : "");
	}
	if (!is_alike) {
		/* Bundled programs and .npy files are row-major, but the method wants another dim order. */
		ctl_value_reorder(instance->engine->ops->input(instance, index), &v, &io->value);
		memcpy(v.dim_order, io->value.dim_order, v.n_dims);
	} else if (v.tag == ET_TAG_TENSOR && v.n_bytes)
		memcpy(instance->engine->ops->input(instance, index), v.data, v.n_bytes);
	return instance->engine->ops->describe_input(instance, index, &v, error);
}

int ctl_instance_set_case(struct ctl_instance *instance, const struct et_bundle_case *test, struct ctl_error *error)
{
	if (test && test->n_inputs != instance->n_inputs)
		return ctl_error_set(error, "the test case has %u inputs, the method has %u", test->n_inputs,
			instance->n_inputs);
	for (unsigned i = 0; i < instance->n_inputs; i++) {
		const struct ctl_io *io = &instance->inputs[i];
		if (test) {
			struct ctl_value value = ctl_value_from_bundle(&test->inputs[i]);
			if (ctl_instance_set_input(instance, i, &value, error) < 0)
				return -1;
		} else {
			if (io->value.tag == ET_TAG_TENSOR)
				memset(instance->engine->ops->input(instance, i), 0, io->value.n_bytes);
			if (instance->engine->ops->describe_input(instance, i, &io->value, error) < 0)
				return -1;
		}
	}
	return 0;
}
