/* SPDX-License-Identifier: BSD-3-Clause */
/* Stand-ins: for every method of every program of the tests' models, what the daemon sees of the stand-in is what it
 * would see of the program; and a file of another form is no stand-in. */
#include "delegates/program/test_rig.h"

#include "delegates/program/stand_in_write.h"
#include "delegates/program/engine_internal.h"
#include "runtime/platform/platform.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static struct rig rig;
static unsigned n_files, n_plans, n_refused, n_mutants, n_accepted;
static struct inferd_delegate_message message = { .struct_size = sizeof message };

/* --- the delegate of the stand-in, which makes a Plan and no more ------------------------------------------------- */

static enum et_status compile(struct et_backend *backend, const struct et_payload *payload, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag)
{
	const struct et_method_spec *method = et_program_find_method(payload->program, payload->method);
	ret_info->n_inputs = 0;
	for (uint32_t i = 0; i < method->n_inputs; i++)
		ret_info->n_inputs += et_stand_in_passes(method->values[method->inputs[i]].tag);
	ret_info->n_outputs = payload->n_args - ret_info->n_inputs;
	*ret_model = (struct et_model *)backend;
	return ET_OK;
}

static void model_free(struct et_model *model)
{
}

static uint32_t n_devices(const struct et_backend *backend)
{
	return 1;
}

static void device(const struct et_backend *backend, uint32_t index, struct et_device *ret_device)
{
	*ret_device = (struct et_device){ .kind = ET_QUEUE_CPU };
}

static const struct et_delegate_ops ops = {
	.id = ET_STAND_IN_ID,
	.name = "program",
	.compile = compile,
	.model_free = model_free,
	.n_devices = n_devices,
	.device = device,
};

/* --- what the daemon sees ----------------------------------------------------------------------------------------- */

static enum et_status open_bytes(const uint8_t *bytes, size_t n_bytes, struct et_program **ret_program)
{
	struct et_diag diag = { "" };
	const struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	return et_program_open(ret_program, &source, NULL, et_platform_allocator(), &diag);
}

static bool same_text(const struct et_list_spec *a, const struct et_list_spec *b)
{
	return a && b && a->n == b->n && memcmp(a->chars, b->chars, a->n) == 0;
}

static void compare_ios(const struct et_io_info *a, const struct et_io_info *b, uint32_t n, bool is_output)
{
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(et_engine_kind_of(&a[i], is_output), b[i].tag);
		if (a[i].text)
			assert_true(same_text(a[i].text, b[i].text));
		if (a[i].tag != ET_TAG_TENSOR)
			continue;
		assert_int_equal(a[i].type, b[i].type);
		assert_int_equal(a[i].dynamism, b[i].dynamism);
		assert_int_equal(a[i].n_dims, b[i].n_dims);
		assert_int_equal(a[i].n_bytes, b[i].n_bytes);
		assert_memory_equal(a[i].sizes, b[i].sizes, a[i].n_dims * sizeof *a[i].sizes);
		assert_memory_equal(a[i].dim_order, b[i].dim_order, a[i].n_dims);
		assert_true(b[i].zero_copy);
	}
}

static void compare_method(struct et_program *program, struct et_program *stand_in, uint32_t number)
{
	const struct et_backend_entry entry = { &ops, (struct et_backend *)(uintptr_t)&ops };
	const struct et_registry registry = { .backends = &entry, .n_backends = 1 };
	const struct et_method_spec *method = et_program_method_at(program, number);
	struct et_plan *real = NULL, *plan = NULL;
	struct et_stand_in_info told;
	struct et_diag diag = { "" };
	assert_string_equal(et_program_method_at(stand_in, number)->name, method->name);
	et_stand_in_info(et_program_method_at(stand_in, number), &told);
	assert_true(told.label[0] != '\0');
	enum et_status status = et_plan_new(&real, program, method->name, rig_registry(), NULL, 1,
		et_platform_allocator(), &diag);
	if (told.status) {
		assert_int_equal(status, told.status);
		assert_true(told.refused.text[0] != '\0');
		n_refused++;
		return;
	}
	assert_int_equal(status, ET_OK);
	if (et_plan_new(&plan, stand_in, method->name, &registry, NULL, 1, et_platform_allocator(), &diag) != ET_OK)
		fail_msg("%s", diag.text);
	const struct et_plan_info *a = et_plan_info(real), *b = et_plan_info(plan);
	assert_int_equal(a->n_inputs, b->n_inputs);
	assert_int_equal(a->n_outputs, b->n_outputs);
	compare_ios(a->inputs, b->inputs, a->n_inputs, false);
	compare_ios(a->outputs, b->outputs, a->n_outputs, true);
	assert_false(b->is_stateful);
	assert_int_equal(b->n_activation_bytes, 0);
	et_plan_unref(plan);
	et_plan_unref(real);
	n_plans++;
}

/* Change one byte after the other: what is still a program and still has the form shows nothing but other sizes. */
static void mutate(uint8_t *bytes, size_t n_bytes)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	for (size_t i = 0; i < n_bytes; i += n_bytes / 400 + 1) {
		struct et_program *program = NULL;
		uint8_t flip = flips[i % sizeof flips];
		bytes[i] ^= flip;
		n_mutants++;
		if (open_bytes(bytes, n_bytes, &program) == ET_OK) {
			bool is_good = et_stand_in_check(program);
			n_accepted += is_good;
			for (uint32_t m = 0; is_good && m < et_program_n_methods(program); m++) {
				struct et_stand_in_info told;
				et_stand_in_info(et_program_method_at(program, m), &told);
				assert_true(strlen(told.label) < sizeof told.label);
			}
			et_program_unref(program);
		}
		bytes[i] ^= flip;
	}
}

static void try_file(const struct rig_file *file)
{
	struct et_program *program = NULL, *stand_in = NULL;
	struct inferd_delegate_payload payload = rig_payload(file, "", 1);
	uint8_t *bytes = NULL;
	size_t n_bytes = 0;
	enum et_status status = rig_program(file, &program);
	int result = et_program_describe(rig.self, &payload, &bytes, &n_bytes, &message);
	assert_int_equal(!result, status == ET_OK);
	if (result)
		return;
	assert_int_equal(open_bytes(bytes, n_bytes, &stand_in), ET_OK);
	assert_true(et_stand_in_check(stand_in));
	assert_false(et_stand_in_check(program));
	assert_int_equal(et_program_n_methods(program), et_program_n_methods(stand_in));
	for (uint32_t i = 0; i < et_program_n_methods(program); i++)
		compare_method(program, stand_in, i);
	et_program_unref(stand_in);
	et_program_unref(program);
	mutate(bytes, n_bytes);
	free(bytes);
	n_files++;
}

static void test_all(void **state)
{
	rig_open(&rig, NULL);
	rig_for_all(try_file);
	print_message("%u programs: %u methods alike, %u refused alike; %u mutants, %u of which keep the form\n",
		n_files, n_plans, n_refused, n_mutants, n_accepted);
	assert_true(n_files >= 30 && n_plans >= 30);
	assert_true(n_accepted < n_mutants / 2);
	rig_close(&rig);
	rig_close_registry();
}

/* Open an engine with @options and a program with XNNPACK, and the stand-in of that program. */
static struct et_program *open_conv2d(const char *const *options, struct rig_file *ret_file,
	struct inferd_delegate_payload *ret_payload, uint8_t **ret_bytes)
{
	struct et_program *stand_in = NULL;
	size_t n_bytes = 0;
	assert_true(rig_file_open(ret_file, TEST_MODELS "/xnnpack/conv2d_channels.bpte", SIZE_MAX));
	*ret_payload = rig_payload(ret_file, "forward", 1);
	rig_open(&rig, options);
	assert_int_equal(et_program_describe(rig.self, ret_payload, ret_bytes, &n_bytes, &message), INFERD_DELEGATE_OK);
	assert_int_equal(open_bytes(*ret_bytes, n_bytes, &stand_in), ET_OK);
	return stand_in;
}

/* A method that needs a backend which is not there says so, as the daemon says it. */
static void test_missing_backend(void **state)
{
	static const char *const none[] = { "backends", "none", NULL };
	struct inferd_delegate_payload payload;
	struct et_stand_in_info told;
	struct rig_file file;
	uint8_t *bytes = NULL;
	uint32_t readiness = INFERD_DELEGATE_READY;
	struct et_program *stand_in = open_conv2d(none, &file, &payload, &bytes);
	assert_true(et_stand_in_check(stand_in));
	et_stand_in_info(et_program_find_method(stand_in, "forward"), &told);
	assert_int_equal(told.status, ET_E_BACKEND_MISSING);
	const char *sentence = "Backend 'XnnpackBackend' is not available. Available backends: []";
	assert_memory_equal(told.refused.text, sentence, strlen(sentence));
	assert_string_equal(told.label, "portable");
	assert_int_equal(et_program_engine.probe(rig.self, &payload, &readiness, &message), INFERD_DELEGATE_OK);
	assert_int_equal(readiness, INFERD_DELEGATE_NO);
	et_program_unref(stand_in);
	free(bytes);
	rig_close(&rig);
	rig_file_close(&file);
}

/* Label and status as a program with XNNPACK has them. */
static void test_label(void **state)
{
	struct inferd_delegate_payload payload;
	struct et_stand_in_info told;
	struct rig_file file;
	uint8_t *bytes = NULL;
	struct et_program *stand_in = open_conv2d(NULL, &file, &payload, &bytes);
	et_stand_in_info(et_program_find_method(stand_in, "forward"), &told);
	assert_string_equal(told.label, "xnnpack");
	assert_int_equal(told.status, ET_OK);
	assert_string_equal(told.refused.text, "");
	et_program_unref(stand_in);
	free(bytes);
	rig_close(&rig);
	rig_file_close(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_missing_backend),
		cmocka_unit_test(test_label),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
