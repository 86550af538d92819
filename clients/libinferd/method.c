/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods: open and close them, and describe their inputs and outputs.
 *
 * The daemon describes inputs and outputs once, in its reply to the open; the copy here lives as long as the Method or
 * its last binding. Nothing here asks the daemon again: shapes and values of a request are in the binding. */
#include "clients/libinferd/libinferd_internal.h"

#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
_Static_assert((int)INFERD_MAX_DIMS == (int)INF_MAX_DIMS, "shapes of a message fit the infos");

static struct inferd_method *method_new(struct inferd *d, const struct inf_method_opened *opened)
{
	struct inferd_method *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	et_pool_init(&m->pool, et_platform_allocator());
	m->d = d;
	m->n_refs = 1;
	m->id = opened->method;
	m->n_inputs = opened->n_inputs;
	m->n_outputs = opened->n_outputs;
	m->inputs = copy_infos(&m->pool, opened->inputs, m->n_inputs);
	m->outputs = copy_infos(&m->pool, opened->outputs, m->n_outputs);
	m->texts = copy_texts(&m->pool, opened->outputs, m->n_outputs);
	m->backend = et_pool_strndup(&m->pool, opened->backend, strlen(opened->backend));
	m->version = et_pool_strndup(&m->pool, opened->version, strlen(opened->version));
	m->is_stateful = opened->stateful;
	et_list_append(&d->methods, &m->node);
	if (m->inputs && m->outputs && m->texts && m->backend && m->version)
		return m;
	inferd_method_close(m);
	return NULL;
}

/* Fill in @request from @options, send it and make the Method. @fd -1: the daemon has the program. */
static int method_open(struct inferd *d, struct inferd_method **ret, struct inf_request *request, int fd,
	const struct inferd_method_options *options)
{
	struct inferd_method_options all;
	int rc = inf_lib_take_options(d, &all, sizeof all, options);
	if (rc)
		return rc;
	request->kind = INF_REQUEST_METHOD_OPEN;
	request->method_open.version = all.version;
	request->method_open.method = all.method;
	request->method_open.backend = all.backend;
	request->method_open.from_fd = fd >= 0;
	int fds[INF_MAX_PACKET_FDS] = { fd };
	size_t n_fds = fd >= 0;
	if (all.n_data_fds >= INF_MAX_PACKET_FDS || (all.n_data_fds && (fd < 0 || !all.data_fds)))
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"%zu data files: only inferd_method_open_fd takes them, at most %d", all.n_data_fds,
			INF_MAX_PACKET_FDS - 1);
	for (size_t i = 0; i < all.n_data_fds; i++)
		fds[n_fds++] = all.data_fds[i];
	request->method_open.data_fds = (uint32_t)all.n_data_fds;
	if (all.share_with && all.share_with->d != d)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "share_with is a Method of another connection");
	if (all.share_with && fd >= 0)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"with share_with, use inferd_method_open: the new Method is one of the same program");
	request->method_open.share_with = all.share_with ? all.share_with->id : 0;
	rc = inf_lib_call(d, request, fds, n_fds, INF_REPLY_METHOD_OPENED);
	if (rc)
		return rc;
	if (d->reply_fd >= 0)
		close(d->reply_fd);
	struct inferd_method *m = method_new(d, &d->reply.method_opened);
	if (!m)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	*ret = m;
	return 0;
}

int inferd_method_open(struct inferd *d, struct inferd_method **ret, const char *model,
	const struct inferd_method_options *options)
{
	struct inf_request request = { .method_open = { .model = model } };
	return method_open(d, ret, &request, -1, options);
}

int inferd_method_open_fd(struct inferd *d, struct inferd_method **ret, int fd, const char *name,
	const struct inferd_method_options *options)
{
	if (fd < 0)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "the file descriptor of the program is %d", fd);
	struct inf_request request = { .method_open = { .model = name } };
	return method_open(d, ret, &request, fd, options);
}

void inf_lib_method_unref(struct inferd_method *m)
{
	if (--m->n_refs)
		return;
	et_pool_deinit(&m->pool);
	free(m);
}

void inferd_method_close(struct inferd_method *m)
{
	if (!m)
		return;
	m->is_closed = true;
	et_list_remove(&m->node);
	inf_lib_tell(m->d, &(struct inf_request){ .kind = INF_REQUEST_METHOD_CLOSE, .method_close = { m->id } });
	inf_lib_method_unref(m);
}

int inferd_method_reset(struct inferd_method *m)
{
	struct inf_request request = { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { m->id } };
	return inf_lib_call(m->d, &request, NULL, 0, INF_REPLY_NONE);
}

/* Count the elements of @shape. False: a size is negative, or the count overflows a size_t. */
static bool count_elements(const int64_t *shape, size_t n_dims, size_t *ret_n)
{
	*ret_n = 1;
	for (size_t i = 0; i < n_dims; i++)
		if (shape[i] < 0 || !et_mul(*ret_n, (size_t)shape[i], ret_n))
			return false;
	return true;
}

bool inf_lib_shape_fits(const struct inferd_tensor_info *info, const int64_t *shape, size_t n_dims)
{
	size_t n, n_largest;
	return n_dims == info->n_dims && count_elements(shape, n_dims, &n) &&
	       count_elements(info->shape, n_dims, &n_largest) && n <= n_largest;
}

size_t inferd_n_inputs(const struct inferd_method *m)
{
	return m->n_inputs;
}

size_t inferd_n_outputs(const struct inferd_method *m)
{
	return m->n_outputs;
}

const struct inferd_tensor_info *inferd_input_info(const struct inferd_method *m, size_t index)
{
	return index < m->n_inputs ? &m->inputs[index] : NULL;
}

const struct inferd_tensor_info *inferd_output_info(const struct inferd_method *m, size_t index)
{
	return index < m->n_outputs ? &m->outputs[index] : NULL;
}

const char *inferd_output_text(const struct inferd_method *m, size_t index, size_t *ret_n_bytes)
{
	*ret_n_bytes = index < m->n_outputs ? m->texts[index].n : 0;
	return index < m->n_outputs ? m->texts[index].chars : NULL;
}

bool inferd_method_is_stateful(const struct inferd_method *m)
{
	return m->is_stateful;
}

const char *inferd_method_backend(const struct inferd_method *m)
{
	return m->backend;
}

const char *inferd_method_version(const struct inferd_method *m)
{
	return m->version;
}
