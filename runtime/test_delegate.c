/* SPDX-License-Identifier: BSD-3-Clause */
/* Delegates: compiled once, contexts by slot or by Method, queues, and runs that end on another thread's word.
 * The test delegate adds its payload's first byte to each input element; the payload's letters say the rest:
 * 'a' asynchronous, 's' stateful (it adds up what it saw), 'g' on the second GPU, 'd' lets its payload go,
 * 'o' two outputs, 'x' does not compile, 'c' makes no context, 'l' needs much memory for one,
 * 'm' lacks it when it is warmed, 'w' fails then for another reason. */
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct et_backend {
	uint32_t n_devices;
};

struct et_worker_threads {
	int n_instances;
};

struct et_model {
	char letters[8];
	size_t n;
};

struct et_instance {
	struct et_model *model;
	struct et_worker_threads *threads;
	float sum;
	struct et_evalue *const *args;
	const struct et_completion *completion;
};

static int n_models, n_instances, n_cancels, n_dropped, n_warm;
static struct et_instance *pending;

static bool has(const struct et_model *model, char letter)
{
	return memchr(model->letters, letter, model->n);
}

static uint32_t n_devices(const struct et_backend *backend)
{
	return backend->n_devices;
}

static void device(const struct et_backend *backend, uint32_t index, struct et_device *ret_device)
{
	ret_device->kind = index ? ET_QUEUE_GPU : ET_QUEUE_CPU;
}

static enum et_status compile(struct et_backend *backend, const struct et_payload *payload, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag)
{
	if (memchr(payload->bytes, 'x', payload->n_bytes))
		return et_fail(diag, ET_E_NOT_SUPPORTED, "operator 'sinh' is not supported");
	struct et_model *model = calloc(1, sizeof *model);
	model->n = payload->n_bytes;
	memcpy(model->letters, payload->bytes, model->n);
	ret_info->n_outputs = has(model, 'o') ? 2 : 1;
	ret_info->n_inputs = payload->n_args - ret_info->n_outputs;
	ret_info->is_stateful = has(model, 's');
	ret_info->drops_payload = has(model, 'd');
	ret_info->device = has(model, 'g') ? 2 : 0;
	ret_info->n_bytes = 1000;
	ret_info->instance_bytes = ET_PLAN_WARM_BYTES + has(model, 'l');
	n_models++;
	*ret_model = model;
	return ET_OK;
}

static void model_free(struct et_model *model)
{
	n_models--;
	free(model);
}

static enum et_status instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	if (has(model, 'c'))
		return et_fail(diag, ET_E_OUT_OF_RESOURCES, "no room on the device");
	struct et_instance *instance = calloc(1, sizeof *instance);
	instance->model = model;
	instance->threads = threads;
	threads->n_instances++;
	n_instances++;
	*ret_instance = instance;
	return ET_OK;
}

static void instance_free(struct et_instance *instance)
{
	instance->threads->n_instances--;
	n_instances--;
	free(instance);
}

static enum et_status instance_warm(struct et_instance *instance, struct et_diag *diag)
{
	n_warm++;
	if (has(instance->model, 'm'))
		return et_fail(diag, ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED, "no memory for a workspace");
	return has(instance->model, 'w') ? et_fail(diag, ET_E_INVALID_ARGUMENT, "no such sizes") : ET_OK;
}

static enum et_status instance_reset(struct et_instance *instance)
{
	instance->sum = 0;
	return ET_OK;
}

static void work(struct et_instance *instance, struct et_evalue *const *args)
{
	const float *in = args[0]->tensor->data;
	float *out = args[1]->tensor->data;
	for (size_t i = 0; i < et_tensor_numel(args[0]->tensor); i++)
		out[i] = in[i] + (float)(instance->model->letters[0] - '0') + instance->sum;
	if (has(instance->model, 's'))
		instance->sum += in[0];
}

static enum et_status enqueue(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	if (!has(instance->model, 'a')) {
		work(instance, args);
		return ET_OK;
	}
	instance->args = args;
	instance->completion = completion;
	pending = instance;
	return ET_PENDING;
}

static void cancel(struct et_instance *instance)
{
	n_cancels++;
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
	.instance_warm = instance_warm,
	.instance_reset = instance_reset,
	.enqueue = enqueue,
	.cancel = cancel,
};
static const struct et_delegate_ops other_ops = {
	.id = "OtherBackend", .name = "other", .n_devices = n_devices, .device = device
};

static struct method_rig rig;
static struct make_program mk;
static struct et_backend backend, other_backend;
static struct et_worker_threads thread_sets[2];
static struct et_worker_threads *slot_thread_sets[2][2];
static int x, y;

static int setup(void **state)
{
	memset(&rig, 0, sizeof rig);
	backend.n_devices = other_backend.n_devices = 3; /* a CPU and two GPUs each */
	rig.backends[0] = (struct et_backend_entry){ &other_ops, &other_backend };
	rig.backends[1] = (struct et_backend_entry){ &ops, &backend };
	rig.n_backends = 2;
	rig_init(&rig);
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_arena(&mk, 128);
	x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = 1 });
	y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = 1, .offset = 16 });
	mk_input(&mk, x);
	mk_output(&mk, y);
	for (int i = 0; i < 2; i++)
		slot_thread_sets[i][1] = &thread_sets[i];
	n_cancels = 0;
	n_dropped = n_warm = 0;
	return 0;
}

static int teardown(void **state)
{
	for (uint32_t i = 0; rig.plan && i < 2; i++)
		et_plan_release(rig.plan, i);
	rig_close(&rig);
	assert_int_equal(n_models, 0);
	assert_int_equal(n_instances, 0);
	assert_int_equal(thread_sets[0].n_instances + thread_sets[1].n_instances, 0);
	return 0;
}

static int delegate(const char *letters)
{
	return mk_delegate(&mk, "TestBackend", letters, strlen(letters), false, NULL, NULL);
}

static void prepare(uint32_t worker_index)
{
	struct et_diag diag = { 0 };
	if (et_plan_prepare(rig.plan, worker_index, slot_thread_sets[worker_index], NULL, &diag))
		fail_msg("%s", diag.text);
}

static void init_run(struct rig_run *run, float *in, float *out)
{
	rig_run_init(&rig, run);
	rig_input(run, 0, in, 2);
	rig_output(run, 0, out, 2);
}

static void a_payload_is_compiled_once(void **state)
{
	mk_call(&mk, delegate("5"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	assert_int_equal(n_models, 1);
	assert_int_equal(rig.info->n_delegate_bytes, 1000);
	assert_false(rig.info->is_stateful);
	assert_true(rig.info->inputs[0].zero_copy && rig.info->outputs[0].zero_copy);
	float in[2] = { 1, 2 }, out[2];
	struct rig_run run;
	init_run(&run, in, out);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_STATE);
	assert_string_equal(run.run.diag.text, "instruction 0 (TestBackend): worker 0 was not prepared");
	prepare(0);
	prepare(1);
	assert_true(et_plan_is_prepared(rig.plan, 1));
	assert_int_equal(et_plan_prepare(rig.plan, 1, slot_thread_sets[1], NULL, NULL), ET_E_INVALID_STATE);
	assert_int_equal(n_instances, 2);
	for (uint32_t worker_index = 0; worker_index < 2; worker_index++) {
		run.env.worker_index = worker_index;
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_true(out[0] == 6 && out[1] == 7);
	}
}

/* What every run will need is taken beforehand; what some may need, if it is little. */
static void check_warm(const char *letters, uint8_t dynamism, int n, enum et_status expected)
{
	int z = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = 1, .offset = 32, .dynamism = dynamism });
	mk_call(&mk, delegate(letters), MK_ARGS(x, z));
	rig_open(&rig, &mk);
	assert_int_equal(et_plan_warm(rig.plan, 0, NULL), ET_OK); /* nothing is there yet */
	assert_int_equal(n_warm, 0);
	prepare(0);
	assert_int_equal(et_plan_warm(rig.plan, 0, NULL), expected);
	assert_int_equal(n_warm, n);
}

static void fixed_sizes_are_warmed(void **state)
{
	check_warm("5l", ET_STATIC, 1, ET_OK);
}

static void lack_of_memory_is_told(void **state)
{
	check_warm("5m", ET_STATIC, 1, ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED);
}

static void other_failures_are_the_run_s(void **state)
{
	check_warm("5w", ET_STATIC, 1, ET_OK);
}

static void small_ones_are_warmed(void **state)
{
	check_warm("5", ET_DYNAMIC_BOUND, 1, ET_OK);
}

static void large_ones_are_not_warmed(void **state)
{
	check_warm("5l", ET_DYNAMIC_BOUND, 0, ET_OK);
}

static void what_does_not_compile_says_why(void **state)
{
	mk_call(&mk, delegate("1"), MK_ARGS(x, y));
	mk_call(&mk, delegate("x"), MK_ARGS(x, y));
	assert_int_equal(rig_try_plan(&rig, &mk), ET_E_NOT_SUPPORTED);
	assert_string_equal(rig.diag.text, "operator 'sinh' is not supported");
}

static void available_backends_are_named(void **state)
{
	mk_call(&mk, mk_delegate(&mk, "QnnBackend", "abc", 3, false, NULL, NULL), MK_ARGS(x, y));
	assert_int_equal(rig_try_plan(&rig, &mk), ET_E_BACKEND_MISSING);
	assert_string_equal(rig.diag.text,
		"Backend 'QnnBackend' is not available. Available backends: [OtherBackend, TestBackend]");
}

static void calls_must_agree(void **state)
{
	int number = delegate("1");
	mk_call(&mk, number, MK_ARGS(x, y));
	mk_call(&mk, number, MK_ARGS(x, x, y));
	assert_int_equal(rig_try_plan(&rig, &mk), ET_E_INVALID_PROGRAM);
	assert_string_equal(rig.diag.text, "instruction 1: delegate 0 is called with 3 arguments here and 2 elsewhere");
}

static void a_delegate_writes_no_constants(void **state)
{
	float weight[2] = { 0 };
	int constant = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(2), .constant = mk_constant(&mk, weight, sizeof weight) });
	mk_call(&mk, delegate("1"), MK_ARGS(x, constant));
	assert_int_equal(rig_try_plan(&rig, &mk), ET_E_INVALID_PROGRAM);
	assert_string_equal(rig.diag.text, "instruction 0 (TestBackend) would write to value 2, a constant");
}

static int planned(uint64_t offset, int32_t n)
{
	return mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(n), .arena = 1, .offset = offset });
}

static void expect_no_plan(const char *sentence)
{
	assert_int_equal(rig_try_plan(&rig, &mk), ET_E_INVALID_PROGRAM);
	assert_string_equal(rig.diag.text, sentence);
}

static void an_output_over_a_part_of_an_input(void **state)
{
	mk_call(&mk, delegate("1"), MK_ARGS(x, y));
	mk_call(&mk, delegate("1"), MK_ARGS(y, planned(20, 2)));
	expect_no_plan("instruction 1 (TestBackend): values 1 and 2 share memory, and the call writes to the second");
}

static void an_input_inside_an_output(void **state)
{
	int large = planned(8, 8);
	mk_call(&mk, delegate("1"), MK_ARGS(x, y, large));
	expect_no_plan("instruction 0 (TestBackend): values 2 and 1 share memory, and the call writes to the first");
}

static void an_output_at_the_place_of_an_input(void **state)
{
	mk_call(&mk, delegate("1"), MK_ARGS(x, planned(0, 2)));
	expect_no_plan("instruction 0 (TestBackend): values 0 and 2 share memory, and the call writes to the second");
}

static void an_output_over_an_output(void **state)
{
	mk_call(&mk, delegate("1o"), MK_ARGS(x, y, planned(20, 4)));
	expect_no_plan("instruction 0 (TestBackend): values 1 and 2 share memory, and the call writes to both");
}

static void an_unplanned_output_that_is_an_input(void **state)
{
	int unplanned = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2) });
	mk_input(&mk, unplanned);
	mk_call(&mk, delegate("1"), MK_ARGS(unplanned, unplanned));
	expect_no_plan("instruction 0 (TestBackend): values 2 and 2 share memory, and the call writes to the second");
}

/* Neighbours, the same place in two arenas, inputs that overlap, an empty tensor, and tensors of several calls. */
static void arguments_that_lie_apart(void **state)
{
	mk_arena(&mk, 64);
	int other = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 2 });
	int next = planned(8, 2);
	mk_call(&mk, delegate("1"), MK_ARGS(x, next));
	mk_call(&mk, delegate("1"), MK_ARGS(next, planned(12, 1), planned(12, 0), other));
	mk_call(&mk, delegate("1"), MK_ARGS(other, y));
	mk_call(&mk, delegate("1"), MK_ARGS(y, planned(8, 2)));
	rig_open(&rig, &mk);
}

/* Where a view points to is known only during the run. */
static void an_output_over_a_view(void **state)
{
	int view = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2) });
	int apart = planned(64, 2), over = planned(20, 2);
	mk_kernel(&mk, mk_operator(&mk, "test::view", ""), MK_ARGS(y, view));
	mk_call(&mk, delegate("1"), MK_ARGS(view, apart));
	mk_call(&mk, delegate("1"), MK_ARGS(view, over));
	rig_open(&rig, &mk);
	prepare(0);
	float in[2] = { 1, 2 }, out[2];
	struct rig_run run;
	init_run(&run, in, out);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_string_equal(run.run.diag.text, "instruction 2 (TestBackend): arguments 0 and 1 share memory, and the "
					       "call writes to the second");
}

static void a_instance_that_cannot_be_made(void **state)
{
	mk_call(&mk, delegate("1"), MK_ARGS(x, y));
	mk_call(&mk, delegate("c"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	struct et_diag diag = { 0 };
	assert_int_equal(et_plan_prepare(rig.plan, 0, slot_thread_sets[0], NULL, &diag), ET_E_OUT_OF_RESOURCES);
	assert_string_equal(diag.text, "no room on the device");
	assert_int_equal(n_instances, 0);
	assert_false(et_plan_is_prepared(rig.plan, 0));
}

/* What a delegate reads before anything wrote it is state, as with kernels. */
static void a_delegate_may_read_state(void **state)
{
	int h = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = 1, .offset = 64 });
	mk_call(&mk, delegate("1"), MK_ARGS(h, y));
	mk_kernel(&mk, mk_operator(&mk, "test::copy_", ""), MK_ARGS(h, y));
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
	prepare(0);
	float in[2] = { 0 }, out[2];
	for (int i = 1; i < 4; i++) {
		rig_run_floats(&rig, in, 2, out, 2);
		assert_true(out[1] == (float)i);
	}
}

static void a_run_goes_from_queue_to_queue(void **state)
{
	int t = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = 1, .offset = 32 });
	int u = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = 1, .offset = 48 });
	mk_call(&mk, delegate("1g"), MK_ARGS(x, t));
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(t, t, u));
	mk_call(&mk, delegate("2"), MK_ARGS(u, y));
	rig_open(&rig, &mk);
	/* the other backend has gpu0 and gpu1, so this one's second GPU is gpu3 */
	assert_int_equal(rig.info->first_queue.kind, ET_QUEUE_GPU);
	assert_int_equal(rig.info->first_queue.device, 3);
	prepare(0);
	prepare(1);
	float in[2] = { 1, 2 }, out[2];
	struct rig_run run;
	init_run(&run, in, out);
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	assert_int_equal(run.run.queue.device, 3);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_QUEUE); /* a CPU worker has nothing to do */
	run.env.worker_index = 1;
	run.env.queue = run.run.queue;
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_QUEUE);
	assert_int_equal(run.run.queue.kind, ET_QUEUE_CPU);
	assert_int_equal(run.run.queue.device, 0);
	run.env.worker_index = 0;
	run.env.queue = run.run.queue;
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_DONE);
	assert_int_equal(et_run_end(&run.run), ET_OK);
	assert_true(out[0] == 6 && out[1] == 8);
	assert_string_equal(et_queue_kind_name(ET_QUEUE_GPU), "gpu");
}

/* A worker of a queue has instances of the delegates that run there, and of no others. */
static void instances_are_where_they_run(void **state)
{
	static const struct {
		struct et_queue_id queue;
		int n;
	} expected[] = { { { .kind = ET_QUEUE_CPU }, 2 }, { { .kind = ET_QUEUE_GPU, .device = 2 }, 0 },
		{ { .kind = ET_QUEUE_GPU, .device = 3 }, 1 } };
	struct et_worker_threads *const *sets = slot_thread_sets[0];
	mk_call(&mk, delegate("1g"), MK_ARGS(x, y));
	mk_call(&mk, delegate("2"), MK_ARGS(x, y));
	mk_call(&mk, delegate("3"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
		const struct et_queue_id *queue = &expected[i].queue;
		assert_int_equal(et_plan_needs_instances(rig.plan, sets, queue), expected[i].n > 0);
		assert_int_equal(et_plan_estimate(rig.plan, sets, queue, true).own,
			(uint64_t)expected[i].n * ET_PLAN_WARM_BYTES);
		assert_int_equal(et_plan_prepare(rig.plan, 0, sets, queue, NULL), ET_OK);
		assert_int_equal(n_instances, expected[i].n);
		et_plan_release(rig.plan, 0);
	}
	assert_false(et_plan_needs_instances(rig.plan, NULL, NULL));
	prepare(0);
	assert_int_equal(n_instances, 3);
}

/* A delegate, a copy whose output is in place, and a delegate on one device: the first run goes to the CPU to have the
 * copy's arguments checked. */
static void a_run_stays_on_its_queue_for_an_elided_copy(void **state)
{
	int a = planned(32, 2), b = planned(64, 2);
	mk_call(&mk, delegate("1g"), MK_ARGS(x, a));
	mk_kernel(&mk, mk_operator(&mk, "test::clone", ""), MK_ARGS(a, b));
	mk_call(&mk, delegate("1g"), MK_ARGS(b, y));
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_elided_copies, 1);
	prepare(1);
	for (int round = 0; round < 2; round++) {
		float in[2] = { 1, 2 }, out[2];
		struct rig_run run;
		init_run(&run, in, out);
		run.env.worker_index = 1;
		assert_int_equal(et_run_begin(&run.run), ET_OK);
		int n_stops = 0;
		do
			run.env.queue = run.run.queue;
		while (et_run_advance(&run.run, &run.env) == ET_STOP_QUEUE && ++n_stops < 9);
		assert_int_equal(n_stops, round ? 0 : 2);
		assert_int_equal(et_run_end(&run.run), ET_OK);
	}
}

/* A part begins 16 bytes after a multiple of 64. It lies there only if it was planned no better. */
static void elide_a_part_for_a_delegate(uint64_t planned_at, uint32_t n_elided)
{
	int a = planned(32, 8), b = planned(planned_at, 4), c = planned(112, 4);
	mk_kernel(&mk, mk_operator(&mk, "test::fill", ""), MK_ARGS(mk_int(&mk, 1), a));
	mk_kernel(&mk, mk_operator(&mk, "test::part", ""), MK_ARGS(a, mk_int(&mk, 4), b));
	mk_call(&mk, delegate("1"), MK_ARGS(b, c));
	mk_call(&mk, delegate("1"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_elided_copies, n_elided);
}

static void a_part_for_a_delegate_stays_aligned(void **state)
{
	elide_a_part_for_a_delegate(64, 0);
}

static void a_part_for_a_delegate_is_as_aligned_as_planned(void **state)
{
	elide_a_part_for_a_delegate(80, 1);
}

static void an_asynchronous_run_is_resumed(void **state)
{
	mk_call(&mk, delegate("3a"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	prepare(0);
	float in[2] = { 1, 2 }, out[2];
	struct rig_run run;
	init_run(&run, in, out);
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_PENDING);
	assert_ptr_equal(pending->completion, &run.run.completion);

	/* the context is held meanwhile: another run must not have it */
	struct et_frame *frame = NULL;
	assert_int_equal(et_frame_new(&frame, rig.plan, &rig.allocator, &rig.allocator, NULL), ET_OK);
	struct rig_run second;
	float other[2];
	init_run(&second, in, other);
	second.run.frame = frame;
	assert_int_equal(et_run_begin(&second.run), ET_OK);
	assert_int_equal(et_run_advance(&second.run, &second.env), ET_STOP_FAILED);
	assert_int_equal(et_run_end(&second.run), ET_E_INVALID_STATE);
	assert_string_equal(second.run.diag.text,
		"instruction 0 (TestBackend): the instance of TestBackend on worker 0 is busy");
	et_frame_free(frame);

	work(pending, pending->args);
	et_run_resume(&run.run, ET_OK, NULL);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_DONE);
	assert_int_equal(et_run_end(&run.run), ET_OK);
	assert_true(out[1] == 5);

	assert_int_equal(et_run_begin(&run.run), ET_OK);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_PENDING);
	et_run_cancel(&run.run);
	assert_int_equal(n_cancels, 1);
	et_run_resume(&run.run, ET_E_CANCELLED, "the device stopped early");
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_FAILED);
	assert_int_equal(et_run_end(&run.run), ET_E_CANCELLED);
	assert_string_equal(run.run.diag.text, "instruction 0 (TestBackend): the device stopped early");
}

/* What a trace is told, as text. */
struct told {
	char text[200];
};

static void tell(void *self, const char *what, uint32_t instruction)
{
	struct told *told = self;
	size_t n = strlen(told->text);
	snprintf(told->text + n, sizeof told->text - n, "%s%u ", what, instruction);
}

static void told_begin(void *self, uint32_t instruction)
{
	tell(self, "<", instruction);
}

static void told_end(void *self, uint32_t instruction)
{
	tell(self, ">", instruction);
}

static void told_part(void *self, const char *name, uint64_t ns)
{
	tell(self, name, (uint32_t)ns);
}

static enum et_status profile(struct et_instance *instance, struct et_evalue *const *args, const struct et_trace *trace,
	uint32_t instruction, struct et_diag *diag)
{
	if (has(instance->model, 'f'))
		return et_fail(diag, ET_E_OUT_OF_RESOURCES, "no profile today");
	trace->begin(trace->self, instruction);
	work(instance, args);
	trace->end(trace->self, instruction);
	trace->part(trace->self, "part", 5);
	return ET_OK;
}

/* Run what was opened to its end, with a trace; what it was told. */
static struct told run_traced(enum et_status expected)
{
	struct told told = { "" };
	const struct et_trace trace = { &told, told_begin, told_end, told_part };
	float in[2] = { 1, 2 }, out[2];
	struct rig_run run;
	init_run(&run, in, out);
	run.run.trace = &trace;
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	while (et_run_advance(&run.run, &run.env) == ET_STOP_PENDING) {
		work(pending, pending->args);
		tell(&told, "pending", 0);
		et_run_resume(&run.run, ET_OK, NULL);
	}
	assert_int_equal(et_run_end(&run.run), expected);
	if (!expected)
		assert_true(out[1] == 5);
	return told;
}

static void a_trace_is_told(void **state)
{
	mk_call(&mk, delegate("1a"), MK_ARGS(x, y));
	mk_call(&mk, delegate("3"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	prepare(0);
	assert_string_equal(run_traced(ET_OK).text, "<0 pending0 >0 <1 >1 ");
}

static void a_delegate_may_say_more(void **state)
{
	static struct et_delegate_ops more;
	more = ops;
	more.enqueue = NULL;
	more.profile = profile;
	rig.backends[1].ops = &more;
	mk_call(&mk, delegate("3"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	prepare(0);
	assert_string_equal(run_traced(ET_OK).text, "<0 >0 part5 ");
	teardown(state);
	setup(state);
	rig.backends[1].ops = &more;
	mk_call(&mk, delegate("3f"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	prepare(0);
	assert_string_equal(run_traced(ET_E_OUT_OF_RESOURCES).text, "");
}

static void a_stateful_delegate_belongs_to_a_method(void **state)
{
	mk_call(&mk, delegate("0s"), MK_ARGS(x, y));
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
	prepare(0);
	prepare(1);
	assert_int_equal(n_instances, 0); /* made when a Method first runs */
	struct et_method *other = NULL;
	assert_int_equal(et_method_new(&other, rig.plan, &rig.allocator, NULL), ET_OK);
	float in[2] = { 1, 1 }, out[2];
	struct rig_run run;
	init_run(&run, in, out);
	for (int i = 1; i < 4; i++) {
		run.run.method = rig.method;
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_true(out[0] == (float)i);
	}
	run.run.method = other;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out[0] == 1);
	assert_int_equal(n_instances, 2);
	et_method_reset(rig.method);
	run.run.method = rig.method;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out[0] == 1);
	/* elsewhere it cannot go on, and what it remembered cannot be put back */
	run.env.worker_index = 1;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_STATE);
	assert_true(et_method_is_lost(rig.method));
	et_method_free(other);
	rig.method = et_method_free(rig.method); /* before the slot is released */
	assert_int_equal(n_instances, 0);
}

static void drop(void *owner, size_t offset, size_t n)
{
	n_dropped++;
	assert_memory_equal((uint8_t *)owner + offset, "4d", 2);
	assert_int_equal(n, 2);
}

static void a_payload_may_go(void **state)
{
	mk_call(&mk, delegate("4d"), MK_ARGS(x, y));
	mk_call(&mk, delegate("5"), MK_ARGS(x, y));
	size_t n_bytes;
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes, .owner = bytes, .drop = drop };
	assert_int_equal(et_program_open(&rig.program, &source, NULL, &rig.allocator, &rig.diag), ET_OK);
	assert_int_equal(et_plan_new(&rig.plan, rig.program, NULL, &rig.registry, NULL, 1, &rig.allocator, &rig.diag),
		ET_OK);
	assert_int_equal(n_dropped, 1);
	rig.plan = et_plan_unref(rig.plan);
	rig.program = et_program_unref(rig.program);
	free(bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_payload_is_compiled_once),
		TEST(fixed_sizes_are_warmed),
		TEST(lack_of_memory_is_told),
		TEST(other_failures_are_the_run_s),
		TEST(small_ones_are_warmed),
		TEST(large_ones_are_not_warmed),
		TEST(what_does_not_compile_says_why),
		TEST(available_backends_are_named),
		TEST(calls_must_agree),
		TEST(a_delegate_writes_no_constants),
		TEST(an_output_over_a_part_of_an_input),
		TEST(an_input_inside_an_output),
		TEST(an_output_at_the_place_of_an_input),
		TEST(an_output_over_an_output),
		TEST(an_unplanned_output_that_is_an_input),
		TEST(arguments_that_lie_apart),
		TEST(an_output_over_a_view),
		TEST(a_instance_that_cannot_be_made),
		TEST(a_delegate_may_read_state),
		TEST(a_part_for_a_delegate_stays_aligned),
		TEST(a_part_for_a_delegate_is_as_aligned_as_planned),
		TEST(a_run_goes_from_queue_to_queue),
		TEST(instances_are_where_they_run),
		TEST(a_run_stays_on_its_queue_for_an_elided_copy),
		TEST(an_asynchronous_run_is_resumed),
		TEST(a_trace_is_told),
		TEST(a_delegate_may_say_more),
		TEST(a_stateful_delegate_belongs_to_a_method),
		TEST(a_payload_may_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
