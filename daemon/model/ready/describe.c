/* SPDX-License-Identifier: BSD-3-Clause */
/* What model.conf says about a model, compared with its program.
 *
 * NAME/model.conf is read first, NAME/VERSION/model.conf on top of it; a model that is one file in the repository has
 * neither. A mistake in them concerns that version of that model: each of its variants is refused. */
#include "daemon/model/variant.h"
#include "daemon/base/text.h"

#include "config/model_conf.h"
#include "runtime/base/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Read @path on top of v->conf. */
static void read_conf(struct inf_variants *v, const char *path, bool is_of_version)
{
	struct inf_config_error error = { "" };
	if (v->conf_error)
		return;
	if (!v->conf && !(v->conf = inf_model_conf_new())) {
		v->conf_error = strdup("out of memory");
		return;
	}
	int rc = inf_model_conf_load(v->conf, path, is_of_version, &error);
	if (rc < 0 && rc != -ENOENT)
		v->conf_error = strdup(error.text);
}

void inf_variants_read_model_conf(struct inf_variants *v, const char *folder, const char *model)
{
	char path[INF_CONFIG_PATH_MAX + 600];
	inf_text(path, sizeof(path), "%s/%s/model.conf", folder, model);
	read_conf(v, path, false);
}

void inf_variants_read_version_conf(struct inf_variants *v, const char *folder)
{
	char path[INF_CONFIG_PATH_MAX + 600];
	inf_text(path, sizeof(path), "%s/%s/%s/model.conf", folder, v->model, v->version);
	read_conf(v, path, true);
}

/* The number of elements of the image's channels, and of their dimension in the tensor. */
static bool has_channels(const struct inf_model_conf_io *io, const struct et_tensor_spec *tensor)
{
	const char *channels = strchr(io->layout, 'C');
	size_t n = strlen(io->layout);
	return tensor->n_dims == n && (uint32_t)tensor->sizes[channels - io->layout] == io->n_scale;
}

bool inf_description_fits(const struct inf_model_conf *conf, const struct et_method_spec *method, char *why,
	size_t room)
{
	for (uint32_t i = 0; i < conf->n_ios; i++) {
		const struct inf_model_conf_io *io = &conf->ios[i];
		uint32_t n = io->is_input ? method->n_inputs : method->n_outputs;
		const char *word = io->is_input ? "input" : "output";
		size_t at = inf_text(why, room, "%s:%u: [%s %u]: ", conf->path, io->line, word, io->index);
		if (io->index >= n) {
			inf_text(why + at, room - at, "method '%s' has %u %ss", method->name, n, word);
			return false;
		}
		const struct et_value_spec
			*value = &method->values[(io->is_input ? method->inputs : method->outputs)[io->index]];
		if ((io->layout[0] || io->n_labels) && value->tag != ET_TAG_TENSOR) {
			inf_text(why + at, room - at, "it is no tensor");
			return false;
		}
		if (io->layout[0] && !has_channels(io, value->tensor)) {
			inf_text(why + at, room - at, "it has not the form %s with %u channels", io->layout,
				io->n_scale);
			return false;
		}
	}
	return true;
}
