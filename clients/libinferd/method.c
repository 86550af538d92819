/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods: open, reset and close them.
 *
 * A Method keeps how it was asked for, so that it can be asked for again after the connection was lost (restore.c).
 * Methods that share a state belong to one struct inf_lib_program: whichever of them is restored first opens the
 * program, and the others share with it, also if the first of them was closed meanwhile. */
#include "clients/libinferd/libinferd_internal.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- programs ---- */

static void program_close_fds(struct inf_lib_program *p)
{
	inf_close_fds(p->fds, p->n_fds);
	p->n_fds = 0;
}

static void program_unref(struct inf_lib_program *p)
{
	if (!p || --p->n_refs)
		return;
	program_close_fds(p);
	free(p->model);
	free(p->version);
	free(p->backend);
	free(p);
}

/* Copy the descriptors, since the caller may close them before the daemon has them. 0, or negative with the sentence
 * written. */
static int program_take_fds(struct inferd *d, struct inf_lib_program *p, int fd, const int *data_fds, size_t n)
{
	p->from_fd = true;
	for (size_t i = 0; i <= n; i++) {
		int copy = fcntl(i ? data_fds[i - 1] : fd, F_DUPFD_CLOEXEC, 3);
		if (copy < 0 && errno == EBADF)
			return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "a descriptor that was passed is not open");
		if (copy < 0)
			return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "cannot copy a descriptor: %s",
				strerror(errno));
		p->fds[p->n_fds++] = copy;
	}
	return 0;
}

/* Fill in a new program. 0, or negative with the sentence written. */
static int program_init(struct inferd *d, struct inf_lib_program *p, const char *model, int fd,
	const struct inferd_method_options *options)
{
	if (!inf_lib_copy(&p->model, model) || !inf_lib_copy(&p->version, options->version) ||
		!inf_lib_copy(&p->backend, options->backend))
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	return fd < 0 ? 0 : program_take_fds(d, p, fd, options->data_fds, options->n_data_fds);
}

/* ---- opening ---- */

static void deliver_opened(struct inf_lib_op *op)
{
	struct inferd_method *m = ET_CONTAINER_OF(op, struct inferd_method, op);
	m->opened(m, op->status, m->userdata);
}

static int check_options(struct inferd *d, int fd, const struct inferd_method_options *options)
{
	const struct inferd_method *with = options->share_with;
	if (d->phase == INF_LIB_LOST)
		return inf_lib_lost(d);
	if (options->n_data_fds >= INF_MAX_PACKET_FDS || (options->n_data_fds && (fd < 0 || !options->data_fds)))
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"%zu data files: only inferd_method_open_fd takes them, at most %d", options->n_data_fds,
			INF_MAX_PACKET_FDS - 1);
	if (with && with->d != d)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "share_with is a Method of another connection");
	if (with && !with->is_open)
		return inf_lib_fail(d, INFERD_FAILED_PRECONDITION, "share_with is a Method that is not open yet");
	if (with && with->is_closed)
		return inf_lib_fail(d, INFERD_FAILED_PRECONDITION, "share_with is a Method that is closed");
	if (with && fd >= 0)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"with share_with, use inferd_method_open: the new Method is one of the same program");
	return 0;
}

/* Make a Method that the daemon was not asked for yet. NULL, with the sentence written, if memory ran out or a
 * descriptor cannot be used: *ret_rc. */
static struct inferd_method *method_new(struct inferd *d, const char *model, int fd,
	const struct inferd_method_options *options, int *ret_rc)
{
	struct inferd_method *m = calloc(1, sizeof *m);
	*ret_rc = -INFERD_RESOURCE_EXHAUSTED;
	if (!m) {
		inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
		return NULL;
	}
	m->d = d;
	m->n_refs = 1;
	m->shares = options->share_with;
	m->opened = options->opened;
	m->userdata = options->userdata;
	et_list_init(&m->node);
	et_pool_init(&m->is.pool, et_platform_allocator());
	inf_lib_op_init(&m->op, INF_LIB_METHOD_OPEN);
	m->program = m->shares ? options->share_with->program : calloc(1, sizeof *m->program);
	if (m->program)
		m->program->n_refs++;
	if (!m->program || !inf_lib_copy(&m->model, model) || !inf_lib_copy(&m->version, options->version) ||
		!inf_lib_copy(&m->method, options->method) || !inf_lib_copy(&m->backend, options->backend))
		inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	else
		*ret_rc = m->shares ? 0 : program_init(d, m->program, model, fd, options);
	if (!*ret_rc)
		return m;
	inf_lib_method_unref(m);
	return NULL;
}

static int method_open(struct inferd *d, struct inferd_method **ret, const char *model, int fd,
	const struct inferd_method_options *given)
{
	struct inferd_method_options options;
	int rc = inf_lib_take_options(d, &options, sizeof options, given);
	if (!rc)
		rc = check_options(d, fd, &options);
	struct inferd_method *m = rc ? NULL : method_new(d, model, fd, &options, &rc);
	if (!m)
		return rc;
	et_list_append(&d->methods, &m->node);
	inf_lib_op_begin(d, &m->op, options.timeout_us, m->opened ? deliver_opened : NULL);
	inf_lib_advance(d);
	if (m->opened) {
		*ret = m;
		inf_lib_settle(d);
		return 0;
	}
	rc = inf_lib_op_wait(d, &m->op);
	if (rc)
		inferd_method_close(m);
	else
		*ret = m;
	return rc;
}

int inferd_method_open(struct inferd *d, struct inferd_method **ret, const char *model,
	const struct inferd_method_options *options)
{
	return method_open(d, ret, model, -1, options);
}

int inferd_method_open_fd(struct inferd *d, struct inferd_method **ret, int fd, const char *name,
	const struct inferd_method_options *options)
{
	if (fd < 0)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "the file descriptor of the program is %d", fd);
	return method_open(d, ret, name, fd, options);
}

/* Another Method of the same program that the daemon has; NULL: none. */
static const struct inferd_method *find_peer(const struct inferd_method *m)
{
	const struct et_list_node *node;
	for (node = m->d->methods.next; node != &m->d->methods; node = node->next) {
		const struct inferd_method *other = ET_CONTAINER_OF(node, struct inferd_method, node);
		if (other != m && other->program == m->program && other->remote.state == INF_LIB_THERE)
			return other;
	}
	return NULL;
}

static void end_opening(struct inferd_method *m, int status, const char *error)
{
	if (m->op.state == INF_LIB_RUNNING && m->op.kind == INF_LIB_METHOD_OPEN)
		inf_lib_op_end(m->d, &m->op, status, error);
}

/* The library cannot use @m. @status is not negated. */
static void refuse(struct inferd_method *m, int status, const char *error)
{
	m->remote.state = INF_LIB_FAILED;
	m->remote.status = status;
	snprintf(m->remote.error, sizeof m->remote.error, "%s", error);
	end_opening(m, -status, m->remote.error);
}

void inf_lib_method_ask(struct inferd_method *m)
{
	const struct inf_lib_program *p = m->program;
	const struct inferd_method *peer = find_peer(m);
	struct inf_request request = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { .method = m->method } };
	struct inf_method_open *open = &request.method_open;
	if (peer) {
		open->model = m->model;
		open->version = m->version;
		open->backend = m->backend;
		open->share_with = peer->remote.id;
		if (!m->shares) /* the one that opened the program comes back later than one that shares with it */
			open->model = open->version = open->backend = NULL;
	} else {
		open->model = p->model;
		open->version = p->version;
		open->backend = p->backend;
		open->from_fd = p->from_fd;
		open->data_fds = p->n_fds ? (uint32_t)p->n_fds - 1 : 0;
	}
	int rc = inf_lib_send(m->d, &request, p->fds, peer ? 0 : p->n_fds);
	if (m->d->phase != INF_LIB_READY)
		return; /* lost: it is asked for again */
	if (rc) {
		refuse(m, -rc, m->d->error);
		return;
	}
	m->remote.state = INF_LIB_ASKED;
	m->remote.asked = request.id;
}

/* The Method was restored: it must be what the application knows. */
static void compare(struct inferd_method *m, const struct inf_lib_signature *is)
{
	char what[160], error[512];
	if (inf_lib_signature_equals(&m->is, is, what, sizeof what)) {
		inf_lib_signature_rename(&m->is, is);
		return;
	}
	snprintf(error, sizeof error, "the daemon restarted, and model '%.200s' now has %s: open the Method again",
		m->program->model ? m->program->model : "", what);
	inf_lib_tell_freed(m->d, &m->remote, INF_REQUEST_METHOD_CLOSE);
	m->is_changed = true;
	refuse(m, INFERD_FAILED_PRECONDITION, error);
}

void inf_lib_method_answered(struct inferd_method *m, const struct inf_reply *reply)
{
	struct inferd *d = m->d;
	struct inf_lib_signature is;
	if (inf_lib_leave(d, reply)) {
		m->remote.state = INF_LIB_ABSENT;
		return;
	}
	if (reply->status != INF_OK || reply->kind != INF_REPLY_METHOD_OPENED) {
		inf_lib_refused(&m->remote, reply, INF_REPLY_METHOD_OPENED);
		end_opening(m, -m->remote.status, m->remote.error);
		return;
	}
	m->remote.state = INF_LIB_THERE;
	m->remote.id = reply->method_opened.method;
	if (!inf_lib_signature_init(&is, &reply->method_opened)) {
		inf_lib_tell_freed(d, &m->remote, INF_REQUEST_METHOD_CLOSE);
		refuse(m, INFERD_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (m->is_open) {
		compare(m, &is);
		inf_lib_signature_deinit(&is);
		return;
	}
	et_pool_deinit(&m->is.pool);
	m->is = is;
	m->is_open = true;
	if (!d->reconnect_ms)
		program_close_fds(m->program);
	end_opening(m, 0, "");
}

/* ---- closing ---- */

void inf_lib_method_unref(struct inferd_method *m)
{
	if (--m->n_refs)
		return;
	program_unref(m->program);
	et_pool_deinit(&m->is.pool);
	free(m->model);
	free(m->version);
	free(m->method);
	free(m->backend);
	free(m);
}

/* End the requests that wait in the library; the daemon ends those that it has. */
static void cancel_waiting(struct inferd_method *m)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &m->d->running) {
		struct inf_lib_op *op = ET_CONTAINER_OF(node, struct inf_lib_op, node);
		if ((op->kind == INF_LIB_REQUEST || op->kind == INF_LIB_BIND) && !op->request_id &&
			ET_CONTAINER_OF(op, struct inferd_binding, op)->method == m)
			inf_lib_op_end(m->d, op, -INFERD_CANCELLED, "its Method was closed");
	}
}

void inferd_method_close(struct inferd_method *m)
{
	if (!m)
		return;
	struct inferd *d = m->d;
	m->is_closed = true;
	et_list_remove(&m->node);
	inf_lib_op_drop(d, &m->op);
	cancel_waiting(m);
	inf_lib_tell_freed(d, &m->remote, INF_REQUEST_METHOD_CLOSE);
	m->remote.state = INF_LIB_ABSENT;
	inf_lib_method_unref(m);
	inf_lib_advance(d); /* a Method that shares with it may have waited for it */
	inf_lib_settle(d);
}

/* ---- resetting ---- */

int inferd_method_reset(struct inferd_method *m)
{
	struct inferd *d = m->d;
	if (d->phase == INF_LIB_LOST)
		return inf_lib_lost(d);
	if (!m->is_open || m->is_closed || m->op.state != INF_LIB_IDLE)
		return inf_lib_fail(d, INFERD_FAILED_PRECONDITION, "the Method is closed, or not open yet");
	inf_lib_method_retry(m);
	m->op.kind = INF_LIB_METHOD_RESET;
	inf_lib_op_begin(d, &m->op, d->timeout_us, NULL);
	inf_lib_advance(d);
	return inf_lib_op_wait(d, &m->op);
}

void inf_lib_reset_ask(struct inferd_method *m)
{
	struct inf_request request = { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { m->remote.id } };
	int rc = inf_lib_send(m->d, &request, NULL, 0);
	if (!rc)
		m->op.request_id = request.id;
	else if (m->d->phase == INF_LIB_READY)
		inf_lib_op_end(m->d, &m->op, rc, m->d->error);
}

void inf_lib_reset_answered(struct inferd_method *m, const struct inf_reply *reply)
{
	if (inf_lib_leave(m->d, reply)) {
		m->op.request_id = 0;
		return;
	}
	if (reply->status == INF_OK)
		m->program->is_lost = m->program->has_state = false;
	inf_lib_op_end(m->d, &m->op, -(int)reply->status,
		reply->error[0] ? reply->error : inferd_status_text((int)reply->status));
}

/* ---- what they are ---- */

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
	return m->is.n_inputs;
}

size_t inferd_n_outputs(const struct inferd_method *m)
{
	return m->is.n_outputs;
}

const struct inferd_tensor_info *inferd_input_info(const struct inferd_method *m, size_t index)
{
	return index < m->is.n_inputs ? &m->is.inputs[index] : NULL;
}

const struct inferd_tensor_info *inferd_output_info(const struct inferd_method *m, size_t index)
{
	return index < m->is.n_outputs ? &m->is.outputs[index] : NULL;
}

const char *inferd_output_text(const struct inferd_method *m, size_t index, size_t *ret_n_bytes)
{
	*ret_n_bytes = index < m->is.n_outputs ? m->is.texts[index].n : 0;
	return index < m->is.n_outputs ? m->is.texts[index].chars : NULL;
}

bool inferd_method_is_stateful(const struct inferd_method *m)
{
	return m->is.is_stateful;
}

const char *inferd_method_backend(const struct inferd_method *m)
{
	return m->is.backend;
}

const char *inferd_method_version(const struct inferd_method *m)
{
	return m->is.version;
}
