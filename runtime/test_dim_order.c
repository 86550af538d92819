/* SPDX-License-Identifier: BSD-3-Clause */
/* Dim orders of tensors between delegates that prefer another one. The test delegate adds its payload's first digit to
 * each element. In the payload, '<' means that it wants its inputs channels last, '>' its output, '^' its inputs in a
 * third order. It fails the test if an argument has another dim order than it was told. */
#include "runtime/base/checked.h"
#include "runtime/plan_internal.h"
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N_ELEMENTS = 12, MAX_CALL_ARGS = 4 };

static const uint8_t first[ET_MAX_DIMS] = { 0, 1, 2, 3 }, last[ET_MAX_DIMS] = { 0, 2, 3, 1 },
		     other[ET_MAX_DIMS] = { 0, 3, 2, 1 };

struct et_backend {
	int unused;
};

struct et_worker_threads {
	int unused;
};

struct et_model {
	char letters[8];
	size_t n;
	uint32_t n_args;
	bool is_taken[MAX_CALL_ARGS];
};

struct et_instance {
	struct et_model *model;
};

static int n_taken;

static uint32_t n_devices(const struct et_backend *backend)
{
	return 1;
}

static void device(const struct et_backend *backend, uint32_t index, struct et_device *ret_device)
{
	ret_device->kind = ET_QUEUE_CPU;
}

static enum et_status compile(struct et_backend *backend, const struct et_payload *payload, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag)
{
	struct et_model *model = calloc(1, sizeof *model);
	model->n = payload->n_bytes;
	memcpy(model->letters, payload->bytes, model->n);
	model->n_args = payload->n_args;
	ret_info->n_inputs = payload->n_args - 1;
	ret_info->n_outputs = 1;
	*ret_model = model;
	return ET_OK;
}

static void model_free(struct et_model *model)
{
	free(model);
}

static const uint8_t *wanted(const struct et_model *model, uint32_t arg)
{
	bool is_output = arg == model->n_args - 1;
	if (memchr(model->letters, is_output ? '>' : '<', model->n))
		return last;
	return !is_output && memchr(model->letters, '^', model->n) ? other : NULL;
}

static bool preferred_order(const struct et_model *model, uint32_t arg, uint8_t *ret_order, uint32_t n_dims)
{
	const uint8_t *order = wanted(model, arg);
	if (!order || n_dims != 4)
		return false;
	memcpy(ret_order, order, n_dims);
	return true;
}

static enum et_status adopt_orders(struct et_model *model, const uint32_t *args, uint32_t n_args, struct et_diag *diag)
{
	for (uint32_t i = 0; i < n_args; i++) {
		assert_true(args[i] < model->n_args && !model->is_taken[args[i]]);
		model->is_taken[args[i]] = true;
		n_taken++;
	}
	return ET_OK;
}

static enum et_status instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	*ret_instance = malloc(sizeof **ret_instance);
	(*ret_instance)->model = model;
	return ET_OK;
}

static void instance_free(struct et_instance *instance)
{
	free(instance);
}

/* Element @i, counted as if the tensor were row-major. */
static float *element(const struct et_tensor *tensor, size_t i)
{
	size_t at = 0;
	for (uint32_t d = tensor->n_dims; d > 0; d--) {
		at += i % (size_t)tensor->sizes[d - 1] * (size_t)tensor->strides[d - 1];
		i /= (size_t)tensor->sizes[d - 1];
	}
	return (float *)tensor->data + at;
}

static enum et_status enqueue(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	const struct et_model *model = instance->model;
	uint32_t n = model->n_args;
	for (uint32_t a = 0; a < n; a++)
		assert_memory_equal(args[a]->tensor->dim_order, model->is_taken[a] ? wanted(model, a) : first, 4);
	for (size_t i = 0; i < N_ELEMENTS; i++) {
		float sum = (float)(model->letters[0] - '0');
		for (uint32_t a = 0; a < n - 1; a++)
			sum += *element(args[a]->tensor, i);
		*element(args[n - 1]->tensor, i) = sum;
	}
	return ET_OK;
}

static const struct et_delegate_ops ops = {
	.id = "TestBackend",
	.name = "test",
	.n_devices = n_devices,
	.device = device,
	.compile = compile,
	.model_free = model_free,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.enqueue = enqueue,
	.preferred_order = preferred_order,
	.adopt_orders = adopt_orders,
};

static enum et_status run_same(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	assert_memory_equal(args[0]->tensor->dim_order, args[1]->tensor->dim_order, 4);
	for (size_t i = 0; i < N_ELEMENTS; i++)
		*element(args[1]->tensor, i) = *element(args[0]->tensor, i);
	return ET_OK;
}

static const struct et_kernel kernels[] = {
	{ "order::anyhow", "T>T", run_same, .is_orderless = true },
	{ "order::strict", "T>T", run_same },
	{ "order::view", "T>*T", run_same },
};
static const struct et_kernel_table table = { kernels, ET_ARRAY_LEN(kernels) };
static const struct et_kernel_table *const tables[] = { &table };

static struct method_rig rig;
static struct make_program mk;
static struct et_backend backend;
static struct et_worker_threads threads;
static int x, y, a, b;

static int planned(uint64_t offset)
{
	return mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1, 2, 3, 2), .arena = 1, .offset = offset });
}

static int setup(void **state)
{
	memset(&rig, 0, sizeof rig);
	rig.backends[0] = (struct et_backend_entry){ &ops, &backend };
	rig.n_backends = 1;
	rig_init(&rig);
	rig.registry.tables = tables;
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_arena(&mk, 512);
	x = planned(0);
	y = planned(64);
	a = planned(128);
	b = planned(192);
	mk_input(&mk, x);
	mk_output(&mk, y);
	n_taken = 0;
	return 0;
}

static int teardown(void **state)
{
	if (rig.plan)
		et_plan_release(rig.plan, 0);
	rig_close(&rig);
	return 0;
}

static void call(const char *letters, int from, int to)
{
	mk_call(&mk, mk_delegate(&mk, "TestBackend", letters, strlen(letters), false, NULL, NULL), MK_ARGS(from, to));
}

static void kernel(const char *name, int from, int to)
{
	mk_kernel(&mk, mk_operator(&mk, name, ""), MK_ARGS(from, to));
}

/* Run the program. It adds @sum to each element, and @n arguments have the dim order that their delegate prefers. */
static void check(float sum, int n)
{
	struct et_worker_threads *thread_sets[] = { &threads };
	struct et_diag diag = { 0 };
	float in[N_ELEMENTS], out[N_ELEMENTS];
	rig_open(&rig, &mk);
	if (et_plan_prepare(rig.plan, 0, thread_sets, NULL, &diag))
		fail_msg("%s", diag.text);
	for (int i = 0; i < N_ELEMENTS; i++)
		in[i] = (float)(i * i);
	struct rig_run run;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, in, N_ELEMENTS);
	rig_output(&run, 0, out, N_ELEMENTS);
	if (rig_run(&rig, &run))
		fail_msg("%s", run.run.diag.text);
	for (int i = 0; i < N_ELEMENTS; i++)
		assert_true(out[i] == in[i] + sum);
	assert_int_equal(n_taken, n);
}

static void two_delegates_that_agree(void **state)
{
	call("1>", x, a);
	call("2<", a, y);
	check(3, 2);
}

static void kernels_between_two_delegates(void **state)
{
	int c = planned(256);
	call("1>", x, a);
	kernel("order::anyhow", a, b);
	kernel("order::anyhow", b, c);
	call("2<", c, y);
	check(3, 2);
}

static void a_kernel_that_needs_its_dim_order(void **state)
{
	int c = planned(256), d = planned(320);
	call("1>", x, a);
	kernel("order::anyhow", a, b);
	kernel("order::strict", b, c);
	call("2<>", c, d);
	call("3<", d, y);
	check(6, 2); /* d's arguments */
}

static void a_delegate_without_a_preference(void **state)
{
	call("1>", x, a);
	call("2<", a, b);
	call("3", a, y);
	check(4, 0);
}

static void two_delegates_that_disagree(void **state)
{
	call("1>", x, a);
	call("2<", a, b);
	call("3^", a, y);
	check(4, 0);
}

static void inputs_and_outputs_stay(void **state)
{
	mk_output(&mk, a);
	call("1<>", x, a);
	call("2<>", a, y);
	check(3, 0);
}

static void a_delegate_that_is_called_twice_keeps_its_order(void **state)
{
	int number = mk_delegate(&mk, "TestBackend", "1>", 2, false, NULL, NULL);
	mk_call(&mk, number, MK_ARGS(x, b));
	mk_call(&mk, number, MK_ARGS(x, a));
	call("2<", a, y);
	check(3, 0);
}

static void moved_tensors_keep_their_order(void **state)
{
	call("1>", x, a);
	mk_move(&mk, a, b);
	call("2<", b, y);
	check(3, 0);
}

/* c has the same place as a, and is read for the bytes that a's writer wrote. */
static void a_tensor_read_through_another_value(void **state)
{
	int c = planned(128);
	call("1>", x, a);
	call("2<", a, b);
	call("3", c, y);
	check(4, 0);
}

static void one_delegate_alone_changes_nothing(void **state)
{
	call("1>", x, a);
	kernel("order::anyhow", a, y);
	check(1, 0);
}

static void every_allocation_may_fail(void **state)
{
	struct make_program *made = &mk;
	call("1>", x, a);
	call("2<", a, y);
	size_t n_bytes;
	uint8_t *bytes = mk_finish(made, &n_bytes);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	assert_int_equal(et_program_open(&rig.program, &source, NULL, &rig.allocator, &rig.diag), ET_OK);
	enum et_status status = ET_E_INTERNAL;
	for (size_t n = 1; status != ET_OK; n++) {
		assert_true(n < 1000);
		n_taken = 0;
		rig.counting.fail_at = rig.counting.n_calls + n;
		status = et_plan_new(&rig.plan, rig.program, NULL, &rig.registry, NULL, 1, &rig.allocator, &rig.diag);
		assert_true(status == ET_OK || status == ET_E_MEMORY_ALLOCATION_FAILED);
	}
	rig.counting.fail_at = 0;
	assert_int_equal(n_taken, 2);
	rig.plan = et_plan_unref(rig.plan);
	rig.program = et_program_unref(rig.program);
	free(bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(two_delegates_that_agree),
		TEST(kernels_between_two_delegates),
		TEST(a_kernel_that_needs_its_dim_order),
		TEST(a_delegate_without_a_preference),
		TEST(two_delegates_that_disagree),
		TEST(inputs_and_outputs_stay),
		TEST(a_delegate_that_is_called_twice_keeps_its_order),
		TEST(moved_tensors_keep_their_order),
		TEST(a_tensor_read_through_another_value),
		TEST(one_delegate_alone_changes_nothing),
		TEST(every_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
