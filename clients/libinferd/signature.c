/* SPDX-License-Identifier: BSD-3-Clause */
/* Signatures: what the daemon says of a Method's inputs and outputs, once, when it is opened.
 *
 * The copy here lives as long as the Method or its last binding. A Method that is restored must have the same inputs
 * and outputs, since the application has laid out its memory for them. Names count, too: they say what a tensor is. So
 * does a constant string, which the application may hold a pointer to. */
#include "clients/libinferd/libinferd_internal.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)INFERD_MAX_DIMS == (int)INF_MAX_DIMS, "shapes of a message fit the infos");

/* Copy what the model's author says of an input or output. False when out of memory. */
static bool copy_description(struct et_pool *pool, struct inferd_tensor_info *info,
	const struct inf_tensor_metadata *from)
{
	const char **labels = ET_POOL_NEW_ARRAY(pool, const char *, from->n_labels);
	for (size_t i = 0; labels && i < from->n_labels; i++)
		if (!(labels[i] = et_pool_strndup(pool, from->labels[i], strlen(from->labels[i]))))
			return false;
	info->labels = labels;
	info->n_labels = from->n_labels;
	if (from->layout[0]) {
		info->layout = et_pool_strndup(pool, from->layout, strlen(from->layout));
		info->colour = et_pool_strndup(pool, from->colour, strlen(from->colour));
		info->n_channels = from->n_scale < from->n_offset ? from->n_scale : from->n_offset; /* at most 4 each */
		for (size_t i = 0; i < info->n_channels; i++) {
			info->scale[i] = from->scale[i];
			info->offset[i] = from->offset[i];
		}
	}
	return labels && (!from->layout[0] || (info->layout && info->colour));
}
_Static_assert(sizeof(((struct inferd_tensor_info *)0)->scale) == INF_MAX_CHANNELS * sizeof(double),
	"the channels of a message fit the infos");

/* Copy the descriptions of @n inputs or outputs. NULL when out of memory. */
static struct inferd_tensor_info *copy_infos(struct et_pool *pool, const struct inf_tensor_metadata *from, size_t n)
{
	struct inferd_tensor_info *infos = ET_POOL_NEW_ARRAY(pool, struct inferd_tensor_info, n);
	for (size_t i = 0; infos && i < n; i++) {
		struct inferd_tensor_info *info = &infos[i];
		info->name = et_pool_strndup(pool, from[i].name, strlen(from[i].name));
		info->datatype = et_pool_strndup(pool, from[i].datatype, strlen(from[i].datatype));
		if (!info->name || !info->datatype || !copy_description(pool, info, &from[i]))
			return NULL;
		info->n_dims = from[i].n_shape; /* at most INF_MAX_DIMS */
		for (size_t k = 0; k < info->n_dims; k++) {
			info->shape[k] = from[i].shape[k];
			info->dim_order[k] = (uint8_t)(k < from[i].n_dim_order ? from[i].dim_order[k] : k);
		}
		info->n_bytes = (size_t)from[i].byte_size;
		info->is_dynamic = from[i].dynamic;
		info->is_scalar = from[i].scalar;
	}
	return infos;
}

/* Copy the strings of outputs that are always the same string. NULL when out of memory. */
static struct inf_lib_text *copy_texts(struct et_pool *pool, const struct inf_tensor_metadata *from, size_t n)
{
	struct inf_lib_text *texts = ET_POOL_NEW_ARRAY(pool, struct inf_lib_text, n);
	for (size_t i = 0; texts && i < n; i++) {
		if (!from[i].constant)
			continue;
		const char *chars = from[i].n_text ? (const char *)from[i].text : "";
		texts[i] = (struct inf_lib_text){ et_pool_strndup(pool, chars, from[i].n_text), from[i].n_text };
		if (!texts[i].chars)
			return NULL;
	}
	return texts;
}

bool inf_lib_signature_init(struct inf_lib_signature *s, const struct inf_method_opened *opened)
{
	*s = (struct inf_lib_signature){
		.n_inputs = opened->n_inputs, .n_outputs = opened->n_outputs, .is_stateful = opened->stateful
	};
	et_pool_init(&s->pool, et_platform_allocator());
	s->inputs = copy_infos(&s->pool, opened->inputs, s->n_inputs);
	s->outputs = copy_infos(&s->pool, opened->outputs, s->n_outputs);
	s->texts = copy_texts(&s->pool, opened->outputs, s->n_outputs);
	s->backend = et_pool_strndup(&s->pool, opened->backend, strlen(opened->backend));
	s->version = et_pool_strndup(&s->pool, opened->version, strlen(opened->version));
	if (s->inputs && s->outputs && s->texts && s->backend && s->version)
		return true;
	inf_lib_signature_deinit(s);
	return false;
}

void inf_lib_signature_deinit(struct inf_lib_signature *s)
{
	et_pool_deinit(&s->pool);
	*s = (struct inf_lib_signature){ 0 };
	et_pool_init(&s->pool, et_platform_allocator());
}

static bool info_equals(const struct inferd_tensor_info *a, const struct inferd_tensor_info *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->datatype, b->datatype) && a->n_dims == b->n_dims &&
	       !memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape) &&
	       !memcmp(a->dim_order, b->dim_order, a->n_dims) && a->n_bytes == b->n_bytes &&
	       a->is_dynamic == b->is_dynamic && a->is_scalar == b->is_scalar;
}

static bool text_equals(const struct inf_lib_text *a, const struct inf_lib_text *b)
{
	return !a->chars == !b->chars && a->n == b->n && (!a->n || !memcmp(a->chars, b->chars, a->n));
}

bool inf_lib_signature_equals(const struct inf_lib_signature *was, const struct inf_lib_signature *is, char *ret_what,
	size_t room)
{
	if (was->n_inputs != is->n_inputs || was->n_outputs != is->n_outputs) {
		snprintf(ret_what, room, "%zu inputs and %zu outputs, not %zu and %zu", is->n_inputs, is->n_outputs,
			was->n_inputs, was->n_outputs);
		return false;
	}
	if (was->is_stateful != is->is_stateful) {
		snprintf(ret_what, room, "%s", is->is_stateful ? "a state" : "no state");
		return false;
	}
	for (size_t i = 0; i < was->n_inputs; i++)
		if (!info_equals(&was->inputs[i], &is->inputs[i])) {
			snprintf(ret_what, room, "another %.100s", was->inputs[i].name);
			return false;
		}
	for (size_t i = 0; i < was->n_outputs; i++)
		if (!info_equals(&was->outputs[i], &is->outputs[i]) || !text_equals(&was->texts[i], &is->texts[i])) {
			snprintf(ret_what, room, "another %.100s", was->outputs[i].name);
			return false;
		}
	return true;
}

void inf_lib_signature_rename(struct inf_lib_signature *was, const struct inf_lib_signature *is)
{
	/* Names that the application may hold stay in the pool. Without memory for new ones, the old ones remain. */
	const char *names[] = { is->backend, is->version };
	const char **to[] = { &was->backend, &was->version };
	for (int i = 0; i < 2; i++) {
		const char *copy = strcmp(*to[i], names[i]) ? et_pool_strndup(&was->pool, names[i], strlen(names[i]))
							    : NULL;
		if (copy)
			*to[i] = copy;
	}
}
