/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests on an event loop of asyncio: each has a Future of the loop, which watches the connection's descriptor.
 *
 * libinferd's callback only notes how a request ended (done): it runs inside of inferd_dispatch, where nothing of
 * Python may run. The futures are ended afterwards, on the loop's thread (settle).
 *
 * The loop watches the descriptor while a request is in flight, and until the loop has run everything that waits for
 * the last one: so a task that sends one request after the other does not have it watched anew each time, and an idle
 * connection is none of the loop's business.
 *
 * A binding whose request was cancelled is busy until the daemon has let go of it. A request that is started meanwhile
 * waits here, one at most. */
#include "clients/python/objects.h"

#include <stdlib.h>
#include <string.h>

/* ---- calls of Python ---- */

/* Call a method without arguments, or with those up to NULL. */
static PyObject *call(PyObject *object, const char *name, PyObject *first, PyObject *second)
{
	PyObject *method = PyObject_GetAttrString(object, name);
	PyObject *result = method ? PyObject_CallFunctionObjArgs(method, first, second, NULL) : NULL;
	Py_XDECREF(method);
	return result;
}

/* Whether object.name() is true. -1: an exception is set. */
static int ask(PyObject *object, const char *name)
{
	PyObject *answer = call(object, name, NULL, NULL);
	int is = answer ? PyObject_IsTrue(answer) : -1;
	Py_XDECREF(answer);
	return is;
}

/* loop.name(object.callback). 0 or -1. */
static int call_later(PyObject *loop, const char *name, PyObject *object, const char *callback)
{
	PyObject *method = PyObject_GetAttrString(object, callback);
	PyObject *result = method ? call(loop, name, method, NULL) : NULL;
	Py_XDECREF(method);
	Py_XDECREF(result);
	return result ? 0 : -1;
}

static PyObject *running_loop(void)
{
	static PyObject *get;
	if (!get) {
		PyObject *asyncio = PyImport_ImportModule("asyncio");
		get = asyncio ? PyObject_GetAttrString(asyncio, "get_running_loop") : NULL;
		Py_XDECREF(asyncio);
	}
	return get ? PyObject_CallNoArgs(get) : NULL;
}

/* ---- watching ---- */

void inf_py_unwatch(struct inf_py_connection *c)
{
	PyObject *loop = c->loop;
	c->loop = NULL;
	if (!loop)
		return;
	PyObject *fd = PyLong_FromLong(inferd_get_fd(c->d));
	PyObject *was = fd ? call(loop, "remove_reader", fd, NULL) : NULL;
	if (!was)
		PyErr_Clear(); /* the loop is closed */
	Py_XDECREF(was);
	Py_XDECREF(fd);
	Py_DECREF(loop);
}

/* Have @loop watch the descriptor. */
static int watch(struct inf_py_connection *c, PyObject *loop)
{
	if (c->loop == loop)
		return 0;
	int is_closed = c->loop ? ask(c->loop, "is_closed") : 1;
	if (is_closed < 0)
		return -1;
	if (!is_closed && c->n_running) {
		PyErr_SetString(PyExc_RuntimeError, "the connection has requests on another event loop");
		return -1;
	}
	if (!inf_py_begin(c))
		return -1;
	int fd_number = inferd_get_fd(c->d);
	inf_py_unwatch(c);
	inf_py_end(c, 0);
	PyObject *fd = PyLong_FromLong(fd_number), *dispatch = PyObject_GetAttrString((PyObject *)c, "_dispatch");
	PyObject *done = fd && dispatch ? call(loop, "add_reader", fd, dispatch) : NULL;
	Py_XDECREF(fd);
	Py_XDECREF(dispatch);
	Py_XDECREF(done);
	if (!done)
		return -1;
	c->loop = Py_NewRef(loop);
	c->is_rest_due = false; /* another loop may have been closed before it called _rest */
	return 0;
}

/* Nothing is in flight: let the loop rest when it has run what waits for it now. */
static void rest_later(struct inf_py_connection *c)
{
	if (c->n_running || c->is_rest_due || !c->loop)
		return;
	c->is_rest_due = call_later(c->loop, "call_soon", (PyObject *)c, "_rest") == 0;
	if (!c->is_rest_due)
		PyErr_Clear(); /* the loop is closed */
}

PyObject *inf_py_rest(PyObject *self, PyObject *unused)
{
	struct inf_py_connection *c = (struct inf_py_connection *)self;
	c->is_rest_due = false;
	if (!c->n_running && c->d)
		inf_py_unwatch(c);
	Py_RETURN_NONE;
}

/* ---- ending ---- */

static void end(struct inf_py_binding *b, int status, const char *sentence)
{
	struct inf_py_connection *c = b->connection;
	b->is_ended = true;
	b->status = status;
	b->error = status ? strdup(sentence) : NULL;
	b->after = NULL;
	*c->ended_last = b;
	c->ended_last = &b->after;
}

static void done(struct inferd_binding *object, int status, void *userdata)
{
	struct inf_py_binding *b = userdata;
	end(b, status, inferd_error(b->connection->d));
}

void inf_py_abandon(struct inf_py_binding *b, const char *sentence)
{
	if (b->future && !b->is_ended)
		end(b, -INFERD_CANCELLED, sentence);
}

/* End @future. Takes no notice of one that cannot be told, since its loop is closed. */
static void end_future(PyObject *future, PyObject *error)
{
	int is_done = ask(future, "done");
	PyObject *told = is_done ? NULL
			 : error ? call(future, "set_exception", error, NULL)
				 : call(future, "set_result", Py_None, NULL);
	if (is_done < 0 || (!is_done && !told))
		PyErr_Clear();
	Py_XDECREF(told);
}

static int start(struct inf_py_binding *b, const struct inferd_request_options *options, PyObject *future)
{
	if (!inf_py_handle_begin(b->handle))
		return -1;
	int rc = inferd_infer_async(b->handle->object, options, done, b);
	if (rc >= 0) {
		b->future = Py_NewRef(future);
		b->connection->n_running++;
		inf_py_ref(b); /* until its future ends */
	}
	return inf_py_end(b->connection, rc) ? 0 : -1;
}

/* Start the request that waited for the last one to end. */
static void start_next(struct inf_py_binding *b)
{
	PyObject *future = b->next, *type, *error, *trace;
	b->next = NULL;
	if (future && ask(future, "done") == 0 && start(b, &b->next_options, future) < 0) {
		PyErr_Fetch(&type, &error, &trace);
		PyErr_NormalizeException(&type, &error, &trace);
		end_future(future, error);
		Py_XDECREF(type);
		Py_XDECREF(error);
		Py_XDECREF(trace);
	}
	PyErr_Clear();
	Py_XDECREF(future);
}

static void settle(struct inf_py_connection *c)
{
	struct inf_py_binding *b;
	while ((b = c->ended)) {
		PyObject *future = b->future, *error = NULL;
		c->ended = b->after;
		if (!c->ended)
			c->ended_last = &c->ended;
		b->future = NULL;
		b->is_ended = false;
		c->n_running--;
		if (b->status)
			error = inf_py_error_new(-b->status, b->error ? b->error : "out of memory");
		if (b->status && !error)
			PyErr_Clear(); /* memory ran out: the future is cancelled instead */
		free(b->error);
		b->error = NULL;
		if (b->status && !error)
			Py_XDECREF(call(future, "cancel", NULL, NULL));
		else
			end_future(future, error);
		start_next(b);
		Py_XDECREF(error);
		Py_DECREF(future);
		inf_py_unref(b);
	}
	rest_later(c);
}

PyObject *inf_py_settle(PyObject *self, PyObject *unused)
{
	settle((struct inf_py_connection *)self);
	Py_RETURN_NONE;
}

PyObject *inf_py_dispatch(PyObject *self, PyObject *unused)
{
	struct inf_py_connection *c = (struct inf_py_connection *)self;
	if (!inf_py_begin(c))
		return NULL;
	inferd_dispatch(c->d); /* a lost connection ends all requests, and then the loop rests */
	inf_py_end(c, 0);
	settle(c);
	Py_RETURN_NONE;
}

void inf_py_tell_loop(struct inf_py_connection *c)
{
	if (!c->ended)
		return;
	PyObject *loop = call(c->ended->future, "get_loop", NULL, NULL);
	if (!loop || call_later(loop, "call_soon_threadsafe", (PyObject *)c, "_settle") < 0) {
		PyErr_Clear(); /* the loop is closed: nobody waits */
		settle(c);
	}
	Py_XDECREF(loop);
}

/* ---- starting ---- */

/* Whether @b has a request that was not cancelled. -1: an exception is set. */
static int is_busy(const struct inf_py_binding *b)
{
	PyObject *last = b->next ? b->next : b->future;
	int is_done = last ? ask(last, "done") : 1;
	return is_done < 0 ? -1 : !is_done;
}

static int start_or_wait(struct inf_py_binding *b, const struct inferd_request_options *options, PyObject *future)
{
	if (!b->future)
		return start(b, options, future);
	Py_XDECREF(b->next); /* a cancelled one */
	b->next = Py_NewRef(future);
	b->next_options = *options;
	return 0;
}

PyObject *inf_py_infer_async(PyObject *self, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	struct inf_py_connection *c = b->connection;
	struct inferd_request_options options;
	PyObject *future = NULL;
	if (inf_py_request_options(args, n_args, names, &options) < 0)
		return NULL;
	PyObject *loop = running_loop();
	int busy = loop ? is_busy(b) : -1;
	if (busy > 0)
		inf_py_raise(INFERD_BUSY, "a request is already in flight on this binding");
	if (busy == 0 && watch(c, loop) == 0)
		future = call(loop, "create_future", NULL, NULL);
	if (future && (call_later(future, "add_done_callback", self, "_release") < 0 ||
			      start_or_wait(b, &options, future) < 0))
		Py_CLEAR(future);
	if (!future && loop) {
		PyObject *type, *error, *trace;
		PyErr_Fetch(&type, &error, &trace);
		rest_later(c);
		PyErr_Restore(type, error, trace);
	}
	Py_XDECREF(loop);
	return future;
}

PyObject *inf_py_release(PyObject *self, PyObject *future)
{
	struct inf_py_binding *b = (struct inf_py_binding *)self;
	int is_cancelled = ask(future, "cancelled");
	if (is_cancelled < 0)
		return NULL;
	if (is_cancelled && future == b->next) {
		Py_CLEAR(b->next);
	} else if (is_cancelled && future == b->future && !b->is_ended) {
		if (!inf_py_handle_begin(b->handle))
			return NULL;
		if (!inf_py_end(b->connection, inferd_cancel(b->handle->object)))
			return NULL;
	}
	Py_RETURN_NONE;
}
