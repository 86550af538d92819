/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart of the real daemon in the middle of each call of libinferd: the daemon is stopped, the call waits for
 * it, and then the daemon drains or is killed, and another one starts. With reconnect_ms each call ends as if
 * nothing had been.
 *
 * The calls build on each other. Those that return at once are followed by a request on the same connection. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"
#include "tests/support/make_program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct calls {
	struct inferd_open_options options;
	struct inferd *d, *second;
	struct inferd_method *m, *own, *stateful, *first, *sharing, *async;
	struct inferd_region *r;
	struct inferd_binding *b, *slots, *async_b;
	int program, memory;
};

/* add: h = h + x, y = h; get: y = h + 0 x. They share h. */
static uint8_t *program_sharing(size_t *ret_n_bytes)
{
	static const char *const names[] = { "add", "get" };
	struct make_program mk;
	mk_init(&mk);
	for (int i = 0; i < 2; i++) {
		mk_method(&mk, names[i]);
		uint32_t own = mk_arena(&mk, 32), shared = mk_arena(&mk, 64);
		int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = own });
		int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = own, .offset = 16 });
		int h = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = shared });
		mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(h, x, mk_int(&mk, !i), y, y));
		if (i == 0)
			mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(h, y, mk_bool(&mk, false), h));
		mk_input(&mk, x);
		mk_output(&mk, y);
	}
	return mk_finish(&mk, ret_n_bytes);
}

/* The end of something with a callback. */
struct end {
	int n, status;
};

static void note_end(struct end *end, int status)
{
	end->n++;
	end->status = status;
}

static void on_end(struct inferd_binding *b, int status, void *userdata)
{
	note_end(userdata, status);
}

static void on_method(struct inferd_method *m, int status, void *userdata)
{
	note_end(userdata, status);
}

/* @rc is of the call that began it. */
static int wait_for_end(struct inferd *d, int rc, const struct end *end)
{
	while (!rc && !end->n)
		if (inferd_wait(d, -1) < 0)
			return -1001;
	return rc ? rc : end->n == 1 ? end->status : -1002;
}

static int call_connect(struct calls *c)
{
	return inferd_open_with(&c->second, &c->options);
}

static int call_open_first(struct calls *c)
{
	return inferd_method_open(c->d, &c->first, "sharing",
		&(struct inferd_method_options){
			.struct_size = sizeof(struct inferd_method_options), .method = "add" });
}

static int call_share(struct calls *c)
{
	struct inferd_method_options options = {
		.struct_size = sizeof(options), .method = "get", .share_with = c->first
	};
	return inferd_method_open(c->d, &c->sharing, NULL, &options);
}

static int call_open_async(struct calls *c)
{
	struct end end = { 0 };
	struct inferd_method_options options = {
		.struct_size = sizeof(options), .opened = on_method, .userdata = &end
	};
	return wait_for_end(c->d, inferd_method_open(c->d, &c->async, "double", &options), &end);
}

static int call_bind_async(struct calls *c)
{
	struct end end = { 0 };
	struct inferd_bind_options options = { .struct_size = sizeof(options), .bound = on_end, .userdata = &end };
	return wait_for_end(c->d, inferd_bind_with(c->async, &c->async_b, &options), &end);
}

static int call_open(struct calls *c)
{
	return inferd_method_open(c->d, &c->m, "double", NULL);
}

static int call_open_fd(struct calls *c)
{
	return inferd_method_open_fd(c->d, &c->own, c->program, NULL, NULL);
}

static int call_open_stateful(struct calls *c)
{
	return inferd_method_open(c->d, &c->stateful, "accumulate", NULL);
}

static int call_region_import(struct calls *c)
{
	return inferd_region_import(c->d, &c->r, c->memory, 4096);
}

static int call_region_new(struct calls *c)
{
	struct inferd_region *r;
	return inferd_region_new(c->d, &r, 4096);
}

static int call_bind(struct calls *c)
{
	return inferd_bind(c->m, &c->b);
}

static int call_bind_slots(struct calls *c)
{
	struct inferd_slot in = { .region = c->r }, out = { .region = c->r, .offset = 64 };
	return inferd_bind_slots(c->own, &c->slots, &in, &out);
}

static void fill(struct inferd_binding *b, float x)
{
	for (int i = 0; i < 4; i++)
		((float *)inferd_input(b, 0))[i] = x;
	((float *)inferd_output(b, 0))[0] = -1;
}

static int infer_exactly(struct inferd_binding *b)
{
	fill(b, 21);
	int rc = inferd_infer(b, NULL);
	return rc ? rc : *(float *)inferd_output(b, 0) == 42 ? 0 : -1000;
}

static int call_infer(struct calls *c)
{
	return infer_exactly(c->b);
}

static int call_infer_slots(struct calls *c)
{
	return infer_exactly(c->slots);
}

static int call_infer_async(struct calls *c)
{
	struct end end = { 0 };
	fill(c->async_b, 21);
	int rc = wait_for_end(c->d, inferd_infer_async(c->async_b, NULL, on_end, &end), &end);
	return rc ? rc : *(float *)inferd_output(c->async_b, 0) == 42 ? 0 : -1000;
}

/* A request that still waits in the library is cancelled at once. */
static int call_cancel(struct calls *c)
{
	struct end end = { 0 };
	int rc = inferd_infer_async(c->async_b, NULL, on_end, &end);
	if (!rc)
		rc = inferd_cancel(c->async_b);
	rc = wait_for_end(c->d, rc, &end);
	return rc && rc != -INFERD_CANCELLED ? rc : infer_exactly(c->b);
}

/* Those that return at once: the connection is used afterwards. */
static int call_unbind(struct calls *c)
{
	static struct end end; /* its callback does not come */
	int rc = inferd_infer_async(c->async_b, NULL, on_end, &end);
	inferd_unbind(c->async_b);
	return rc ? rc : end.n ? -1002 : infer_exactly(c->b);
}

static int call_method_close(struct calls *c)
{
	inferd_method_close(c->async);
	inferd_method_close(c->first); /* what shares with it stays */
	return infer_exactly(c->b);
}

static int call_region_free(struct calls *c)
{
	inferd_region_free(c->r);
	return infer_exactly(c->slots);
}

static int call_close(struct calls *c)
{
	static struct end end;
	struct inferd_method *m;
	struct inferd_method_options options = {
		.struct_size = sizeof(options), .opened = on_method, .userdata = &end
	};
	int rc = inferd_method_open(c->second, &m, "double", &options);
	inferd_close(c->second);
	return rc ? rc : end.n ? -1002 : infer_exactly(c->b);
}

static int call_bind_sharing(struct calls *c)
{
	struct inferd_binding *b;
	return inferd_bind(c->sharing, &b);
}

static int call_reset(struct calls *c)
{
	return inferd_method_reset(c->stateful);
}

static int (*const all_calls[])(struct calls *c) = { call_connect, call_open, call_open_fd, call_open_stateful,
	call_open_first, call_share, call_open_async, call_region_import, call_region_new, call_bind, call_bind_slots,
	call_bind_async, call_infer, call_infer_slots, call_infer_async, call_reset, call_cancel, call_unbind,
	call_method_close, call_region_free, call_bind_sharing, call_close };

struct caller {
	int (*call)(struct calls *c);
	struct calls *calls;
	size_t index;
	_Atomic(pid_t) tid;
	int status;
};

static void *caller_main(void *arg)
{
	struct caller *caller = arg;
	caller->tid = (pid_t)syscall(SYS_gettid);
	caller->status = caller->call(caller->calls);
	return NULL;
}

/* Wait until the thread sleeps: the daemon is stopped, so it waits for its answer. */
static void until_asleep(const struct caller *caller)
{
	for (int n = 0; n < 3;) {
		char path[64], line[256] = "";
		while (!caller->tid)
			sched_yield();
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)caller->tid);
		FILE *file = fopen(path, "re");
		if (!file)
			fail_msg("call %zu did not wait: %d, %s", caller->index, caller->status,
				inferd_error(caller->calls->d));
		assert_non_null(fgets(line, sizeof(line), file));
		fclose(file);
		const char *end = strrchr(line, ')');
		n = end && end[2] == 'S' ? n + 1 : 0;
		sched_yield();
	}
}

static void test_in_each_call(void **state)
{
	char path[256];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "accumulate.pte", e2e_program_accumulate);
	e2e_put_program(&e, "sharing.pte", program_sharing);
	e2e_start(&e, NULL);
	snprintf(path, sizeof(path), "%s/double.pte", e.models);
	for (int kills = 0; kills < 2; kills++) {
		struct calls calls = { .options = { .struct_size = sizeof(struct inferd_open_options),
					       .socket = e.socket,
					       .reconnect_ms = 100000 },
			.program = open(path, O_RDONLY | O_CLOEXEC),
			.memory = memfd_create("e2e", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
		assert_int_equal(inferd_open_with(&calls.d, &calls.options), 0);
		assert_int_equal(ftruncate(calls.memory, 4096), 0);
		assert_int_equal(fcntl(calls.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
		for (size_t i = 0; i < ET_ARRAY_LEN(all_calls); i++) {
			struct caller caller = { .call = all_calls[i], .calls = &calls, .index = i };
			pthread_t thread;
			e2e_suspend(e.pid);
			assert_int_equal(pthread_create(&thread, NULL, caller_main, &caller), 0);
			until_asleep(&caller);
			if (kills) {
				assert_int_equal(kill(e.pid, SIGKILL), 0);
				assert_int_equal(e2e_wait(&e), 128 + SIGKILL);
			} else { /* it reads the request when it drains already */
				assert_int_equal(kill(e.pid, SIGTERM), 0);
				assert_int_equal(kill(e.pid, SIGCONT), 0);
				assert_int_equal(e2e_wait(&e), 0);
			}
			e2e_start(&e, NULL);
			pthread_join(thread, NULL);
			if (caller.status)
				fail_msg("call %zu: %d, %s", i, caller.status, inferd_error(calls.d));
		}
		inferd_close(calls.d);
		close(calls.program);
		close(calls.memory);
	}
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_in_each_call) };
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
