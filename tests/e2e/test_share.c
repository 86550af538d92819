/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods that share their mutable buffers, through the daemon: one state for all of them, requests run in the order
 * in which they were sent, the memory is counted once and freed with the last Method; and an error says why other
 * Methods cannot share. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 64, LARGE = 2 << 20 };

static struct e2e e;
static struct inferd *d;

/* The vectors of one method: x at 0 and the rest behind it in its own arena, h at the start of the shared one. */
struct parts {
	int x, t, y, h, one, no;
};

static struct parts begin_alone(struct make_program *mk, const char *name, int64_t n_shared)
{
	int at[3];
	mk_method(mk, name);
	uint32_t own = mk_arena(mk, 64);
	mk_arena(mk, n_shared);
	for (uint64_t i = 0; i < 3; i++)
		at[i] = mk_tensor(mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = own, .offset = 16 * i });
	return (struct parts){ at[0], at[1], at[2], -1, mk_int(mk, 1), mk_bool(mk, false) };
}

static struct parts begin(struct make_program *mk, const char *name, int64_t n_shared)
{
	struct parts p = begin_alone(mk, name, n_shared);
	p.h = mk_tensor(mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 2 });
	return p;
}

static void end(struct make_program *mk, int x, int y)
{
	mk_input(mk, x);
	mk_output(mk, y);
}

/* h = h + @what, y = h */
static void add(struct make_program *mk, const struct parts *p, int what)
{
	mk_kernel(mk, mk_operator(mk, "aten::add", "out"), MK_ARGS(p->h, what, p->one, p->y, p->y));
	mk_kernel(mk, mk_operator(mk, "aten::copy_", ""), MK_ARGS(p->h, p->y, p->no, p->h));
}

/* add(x): h = h + x, y = h; get(x): y = h + 0 x; forever(x): add, without end; npu(x): h = h + 2 x, of which a
 * device does the half; plain(x): y = 2 x, nothing shared. All of FP32[4]. */
static uint8_t *make(size_t *ret_n_bytes, int64_t n_shared, bool has_npu)
{
	struct make_program mk;
	mk_init(&mk);
	struct parts p = begin(&mk, "add", n_shared);
	add(&mk, &p, p.x);
	end(&mk, p.x, p.y);
	p = begin(&mk, "get", n_shared);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(p.h, p.x, mk_int(&mk, 0), p.y, p.y));
	end(&mk, p.x, p.y);
	p = begin(&mk, "forever", n_shared);
	add(&mk, &p, p.x);
	mk_jump_false(&mk, p.no, 0);
	end(&mk, p.x, p.y);
	p = begin_alone(&mk, "plain", n_shared);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(p.x, p.x, p.one, p.y, p.y));
	end(&mk, p.x, p.y);
	if (has_npu) {
		p = begin(&mk, "npu", n_shared);
		mk_call(&mk, mk_delegate(&mk, "TestBackend", "scale", 5, false, NULL, NULL), MK_ARGS(p.x, p.t));
		add(&mk, &p, p.t);
		end(&mk, p.x, p.y);
	}
	return mk_finish(&mk, ret_n_bytes);
}

static uint8_t *small(size_t *ret_n_bytes)
{
	return make(ret_n_bytes, SMALL, false);
}

static uint8_t *large(size_t *ret_n_bytes)
{
	return make(ret_n_bytes, LARGE, false);
}

static uint8_t *with_npu(size_t *ret_n_bytes)
{
	return make(ret_n_bytes, SMALL, true);
}

static void start(uint8_t *(*program)(size_t *ret_n_bytes), const char *config)
{
	e2e_init(&e);
	e2e_put_program(&e, "m.pte", program);
	e2e_start(&e, config);
	d = e2e_connect(&e);
}

static void stop(void)
{
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static int try_open(struct inferd_method **ret, const char *method, const struct inferd_method *with)
{
	struct inferd_method_options options = { .struct_size = sizeof(options), .method = method, .share_with = with };
	return inferd_method_open(d, ret, with ? NULL : "m", &options);
}

/* A Method and a binding of it. */
static struct inferd_binding *open_one(const char *method, const struct inferd_method *with, struct inferd_method **ret)
{
	struct inferd_binding *b = NULL;
	struct inferd_method *m = NULL;
	if (try_open(&m, method, with) < 0 || inferd_bind(m, &b) < 0)
		fail_msg("%s: %s", method, inferd_error(d));
	*ret = m;
	return b;
}

static float infer(struct inferd_binding *b, float x)
{
	int rc;
	float y = e2e_infer(b, x, &rc);
	if (rc)
		fail_msg("%s", inferd_error(d));
	return y;
}

static void test_one_state(void **state)
{
	struct inferd_method *m[4];
	struct inferd_binding *add, *get, *other, *apart;
	start(small, NULL);
	add = open_one("add", NULL, &m[0]);
	get = open_one("get", m[0], &m[1]);
	other = open_one("add", m[1], &m[2]);
	apart = open_one("get", NULL, &m[3]);
	assert_true(infer(get, 9) == 0);
	assert_true(infer(add, 1) == 1);
	assert_true(infer(get, 9) == 1);
	assert_true(infer(other, 2) == 3);
	assert_true(infer(get, 9) == 3);
	assert_true(infer(apart, 9) == 0);
	assert_int_equal(inferd_method_reset(m[1]), 0);
	assert_true(infer(add, 5) == 5);
	for (int i = 0; i < 4; i++)
		assert_true(inferd_method_is_stateful(m[i]));
	stop();
}

static void count_done(struct inferd_binding *b, int status, void *userdata)
{
	assert_int_equal(status, 0);
	++*(int *)userdata;
}

/* In flight together, of several methods, with the queues' freedom to choose. */
static void in_order(struct inferd_binding **b, const float *steps, int n)
{
	float sum = 0;
	for (int round = 0; round < 100; round++) {
		int n_done = 0;
		for (int i = 0; i < n; i++) {
			struct inferd_request_options options = { .struct_size = sizeof(options),
				.priority = (i + round) % 2 ? INFERD_INTERACTIVE : INFERD_BATCH };
			*(float *)inferd_input(b[i], 0) = (float)(i + 1);
			assert_int_equal(inferd_infer_async(b[i], &options, count_done, &n_done), 0);
		}
		while (n_done < n)
			assert_true(inferd_wait(d, 30000) >= 0);
		for (int i = 0; i < n; i++) {
			sum += steps[i] * (float)(i + 1);
			assert_true(*(float *)inferd_output(b[i], 0) == sum);
		}
	}
}

static void test_in_order(void **state)
{
	enum { N = 8 };
	struct inferd_method *m[N];
	struct inferd_binding *b[N];
	float steps[N];
	start(small, NULL);
	for (int i = 0; i < N; i++) {
		steps[i] = i % 3 == 1 ? 0 : 1;
		b[i] = open_one(i % 3 == 1 ? "get" : "add", i ? m[i / 2] : NULL, &m[i]);
	}
	in_order(b, steps, N);
	stop();
}

/* Their runs begin on different queues. */
static void test_across_queues(void **state)
{
	enum { N = 6 };
	for (int first = 0; first < 2; first++) {
		struct inferd_method *m[N];
		struct inferd_binding *b[N];
		float steps[N];
		e2e_init(&e);
		e2e_put_program(&e, "m.pte", with_npu);
		e2e_start_plugin(&e, "async", "");
		d = e2e_connect(&e);
		for (int i = 0; i < N; i++) {
			bool is_npu = i % 2 == first;
			steps[i] = is_npu ? 2 : 1;
			b[i] = open_one(is_npu ? "npu" : "add", i ? m[0] : NULL, &m[i]);
		}
		in_order(b, steps, N);
		stop();
	}
}

/* What all Methods of a model have as state. */
struct counted {
	uint64_t n_bytes;
	size_t n_programs;
};

static bool has_state(const struct inf_server_status *status, const void *arg)
{
	const struct counted *counted = arg;
	uint64_t n = 0;
	for (size_t i = 0; i < status->n_programs; i++)
		n += status->programs[i].state_bytes;
	return n == counted->n_bytes && status->n_programs == counted->n_programs;
}

static void test_any_order(void **state)
{
	for (int order = 0; order < 6; order++) {
		static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 },
			{ 2, 1, 0 } };
		struct inferd_method *m[3];
		struct inferd_binding *b[3];
		start(large, NULL);
		b[0] = open_one("add", NULL, &m[0]);
		b[1] = open_one("get", m[0], &m[1]);
		b[2] = open_one("add", m[1], &m[2]);
		e2e_until(&e, has_state, &(struct counted){ LARGE, 2 });
		infer(b[0], 3);
		for (int i = 0; i < 3; i++) {
			int last = orders[order][2];
			int gone = orders[order][i];
			assert_true(infer(b[last], 0) == 3);
			if (i == 0) { /* closed with a binding that lives on in the client */
				inferd_method_close(m[gone]);
				inferd_unbind(b[gone]);
			} else {
				inferd_unbind(b[gone]);
				inferd_method_close(m[gone]);
			}
			if (i < 2)
				e2e_until(&e, has_state, &(struct counted){ LARGE, 2 });
		}
		e2e_until(&e, has_state, &(struct counted){ 0, 2 });
		/* a new one begins anew */
		assert_true(infer(open_one("get", NULL, &m[0]), 0) == 0);
		stop();
	}
}

static bool has_little_left(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_users; i++)
		for (size_t k = 0; k < status->users[i].n_limits; k++)
			if (strcmp(status->users[i].limits[k].name, "bytes") == 0 &&
				status->users[i].limits[k].used >= SMALL * 1024)
				return false;
	return true;
}

static void test_charged_once(void **state)
{
	struct inferd_method *m[3], *none;
	/* one state of 2 MiB and a few regions fit, two do not */
	start(large, "[limits]\nbytes = 3M\n");
	struct inferd_binding *b = open_one("add", NULL, &m[0]);
	open_one("get", m[0], &m[1]);
	assert_true(infer(b, 1) == 1);
	assert_int_equal(try_open(&none, "get", NULL), -INFERD_RESOURCE_EXHAUSTED);
	inferd_unbind(b);
	inferd_method_close(m[0]);
	inferd_method_close(m[1]);
	e2e_until(&e, has_little_left, NULL);
	open_one("get", NULL, &m[2]);
	stop();
}

static void ignore_end(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

/* While one runs the others wait, and it can't be reset; when it is cut short all of them have lost what is large. */
static void test_cut_short(void **state)
{
	struct inferd_method *m[3];
	struct inferd_binding *get, *forever, *plain;
	int status = 1, later = 1, rc;
	start(large, NULL);
	get = open_one("get", NULL, &m[0]);
	forever = open_one("forever", m[0], &m[1]);
	plain = open_one("plain", NULL, &m[2]);
	*(float *)inferd_input(forever, 0) = 0;
	assert_int_equal(inferd_infer_async(forever, NULL, ignore_end, &status), 0);
	e2e_until_jobs(&e, 1, 0);
	assert_int_equal(inferd_method_reset(m[0]), -INFERD_BUSY);
	assert_non_null(strstr(inferd_error(d), "shares its state"));
	assert_int_equal(inferd_infer_async(get, NULL, ignore_end, &later), 0);
	assert_true(infer(plain, 2) == 4); /* the other one does not keep a queue busy */
	assert_int_equal(later, 1);
	assert_int_equal(inferd_cancel(forever), 0);
	while (status == 1 || later == 1)
		assert_true(inferd_wait(d, 30000) >= 0);
	assert_int_equal(status, -INFERD_CANCELLED);
	assert_int_equal(later, -INFERD_STATE_LOST);
	e2e_infer(get, 0, &rc);
	assert_int_equal(rc, -INFERD_STATE_LOST);
	assert_int_equal(inferd_method_reset(m[0]), 0);
	assert_true(infer(get, 0) == 0);
	/* the one that holds it is closed under a run of the other */
	status = 1;
	assert_int_equal(inferd_infer_async(forever, NULL, ignore_end, &status), 0);
	e2e_until_runs(&e, d);
	inferd_unbind(get);
	inferd_method_close(m[0]);
	assert_int_equal(inferd_cancel(forever), 0);
	while (status == 1)
		assert_true(inferd_wait(d, 30000) >= 0);
	assert_int_equal(status, -INFERD_CANCELLED);
	assert_int_equal(inferd_method_reset(m[1]), 0);
	stop();
}

/* The connection ends while requests of several wait and run. */
static void test_hangs_up(void **state)
{
	for (int i = 0; i < 5; i++) {
		struct inferd_method *m[3];
		struct inferd_binding *b[3];
		int status;
		start(i % 2 ? small : large, NULL);
		b[0] = open_one("get", NULL, &m[0]);
		b[1] = open_one("forever", m[0], &m[1]);
		b[2] = open_one("add", m[1], &m[2]);
		for (int k = 0; k < 3; k++)
			assert_int_equal(inferd_infer_async(b[(i + k) % 3], NULL, ignore_end, &status), 0);
		stop();
	}
}

static enum inf_status raw_open(struct e2e_raw *raw, const struct inf_method_open *open, int fd, uint64_t *ret_id)
{
	struct inf_reply reply = e2e_raw_call_fd(raw,
		(struct inf_request){ .kind = INF_REQUEST_METHOD_OPEN, .method_open = *open }, fd);
	if (reply.status == INF_OK && ret_id)
		*ret_id = reply.method_opened.method;
	assert_true(reply.status == INF_OK || reply.error[0]);
	return reply.status;
}

static void test_refusals(void **state)
{
	struct inferd_method *m = NULL, *none, *plain;
	uint64_t add = 0, other = 0;
	start(small, NULL);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "sum.pte", e2e_program_accumulate);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false), *stranger = e2e_raw_new(e.socket, false);
	FILE *file = fopen("/proc/self/exe", "re");
	assert_non_null(file);
#define OPEN(...) raw_open(raw, &(struct inf_method_open){ __VA_ARGS__ }, -1, NULL)
	assert_int_equal(raw_open(raw, &(struct inf_method_open){ "m", .method = "add" }, -1, &add), INF_OK);
	assert_int_equal(raw_open(raw, &(struct inf_method_open){ "sum" }, -1, &other), INF_OK);
	assert_int_equal(OPEN("m", "", "get", "", .share_with = add), INF_OK);
	assert_int_equal(OPEN("", "1", "get", "portable", .share_with = add), INF_OK);
	assert_int_equal(OPEN("m", .method = "get", .share_with = 12345), INF_NOT_FOUND);
	assert_int_equal(raw_open(stranger, &(struct inf_method_open){ "m", .method = "get", .share_with = add }, -1,
				 NULL),
		INF_NOT_FOUND);
	assert_int_equal(OPEN("sum", .share_with = add), INF_INVALID_ARGUMENT);
	assert_int_equal(OPEN("m", "2", "get", .share_with = add), INF_INVALID_ARGUMENT);
	assert_int_equal(OPEN("m", "", "get", "xnnpack", .share_with = add), INF_INVALID_ARGUMENT);
	assert_int_equal(OPEN("m", "", "nothing", .share_with = add), INF_NOT_FOUND);
	assert_int_equal(OPEN("m", "", "plain", .share_with = add), INF_FAILED_PRECONDITION);
	assert_int_equal(OPEN("", .share_with = other), INF_FAILED_PRECONDITION);
	assert_int_equal(raw_open(raw, &(struct inf_method_open){ "own", .from_fd = true, .share_with = add },
				 fileno(file), NULL),
		INF_INVALID_ARGUMENT);
	fclose(file);
	assert_int_equal(e2e_unload(&e, "m"), INF_OK);
	assert_int_equal(OPEN("", "", "get", .share_with = add), INF_UNAVAILABLE);
#undef OPEN
	e2e_raw_free(raw);
	e2e_raw_free(stranger);
	open_one("add", NULL, &m);
	assert_int_equal(try_open(&plain, "plain", NULL), 0);
	assert_int_equal(try_open(&none, "get", plain), -INFERD_FAILED_PRECONDITION);
	assert_non_null(strstr(inferd_error(d), "share_mutable_buffers"));
	struct inferd *another = e2e_connect(&e);
	struct inferd_method_options options = { .struct_size = sizeof(options), .method = "get", .share_with = m };
	assert_int_equal(inferd_method_open(another, &none, "m", &options), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_method_open_fd(d, &none, 0, "own", &options), -INFERD_INVALID_ARGUMENT);
	inferd_close(another);
	stop();
}

/* The folder has another file by then, or none: it is the program that the first one has. */
static void test_replaced(void **state)
{
	struct inferd_method *m[3];
	char path[256];
	start(small, NULL);
	struct inferd_binding *add = open_one("add", NULL, &m[0]);
	infer(add, 2);
	e2e_put_program(&e, "m.pte", large);
	assert_int_equal(e2e_load(&e, "m"), INF_NOT_FOUND); /* it has no forward */
	assert_true(infer(open_one("get", m[0], &m[1]), 0) == 2);
	assert_true(infer(open_one("get", NULL, &m[2]), 0) == 0);
	snprintf(path, sizeof(path), "%s/m.pte", e.models);
	assert_int_equal(unlink(path), 0);
	assert_true(infer(open_one("add", m[1], &m[2]), 1) == 3);
	stop();
}

/* A program of the client's own: passed once, and each user's is his. */
static void test_own_program(void **state)
{
	struct inferd_method_options options = { .struct_size = sizeof(options), .method = "add" };
	struct inferd_method *m[2];
	struct inferd_binding *add = NULL;
	char path[128];
	e2e_init(&e);
	e2e_start(&e, NULL);
	e2e_put_program(&e, "../own.pte", small);
	snprintf(path, sizeof(path), "%s/own.pte", e.dir);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	d = e2e_connect(&e);
	assert_int_equal(inferd_method_open_fd(d, &m[0], fileno(file), "own", &options), 0);
	fclose(file);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(inferd_bind(m[0], &add), 0);
	infer(add, 4);
	struct inferd_binding *get = open_one("get", m[0], &m[1]);
	assert_true(infer(get, 0) == 4);
	inferd_unbind(add);
	inferd_method_close(m[0]);
	assert_true(infer(get, 0) == 4);
	inferd_unbind(get);
	inferd_method_close(m[1]);
	e2e_until(&e, has_state, &(struct counted){ 0, 0 });
	stop();
}

/* Many who ask for methods of one file at once get one Program, and one serving a method. */
static void test_many(void **state)
{
	enum { N = 8 };
	struct inferd *all[N];
	struct inferd_method *m[N][2];
	start(small, NULL);
	struct inferd *mine = d;
	for (int i = 0; i < N; i++) {
		d = all[i] = e2e_connect(&e);
		struct inferd_binding *add = open_one("add", NULL, &m[i][0]);
		struct inferd_binding *get = open_one("get", i % 2 ? m[i][0] : NULL, &m[i][1]);
		infer(add, (float)(i + 1));
		assert_true(infer(get, 0) == (i % 2 ? (float)(i + 1) : 0));
	}
	e2e_until(&e, has_state, &(struct counted){ SMALL * (N + N / 2), 2 });
	for (int i = 0; i < N; i++)
		inferd_close(all[i]);
	d = mine;
	stop();
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_state),
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_across_queues),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_charged_once),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_hangs_up),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_many),
	};
	return e2e_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
