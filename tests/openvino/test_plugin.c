/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenVINO plug-in with a stand-in for the library (fake.c): where it searches, which properties it sets before an
 * import, what it refuses, and its runs. test_openvino.py tests it with the real library. */
#include "delegates/inferd-delegate.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_OF(array) (sizeof(array) / sizeof(array)[0])

struct subject {
	void *module;
	const struct inferd_delegate *table;
	const struct inferd_delegate_pair *options[8];
	struct inferd_delegate_pair pairs[8];
	struct inferd_delegate_host host;
	struct inferd_delegate_message message;
	void *self;
	char folder[64];
};

static void ignore(void *self, int level, const char *text)
{
}

static void copy_file(const char *from, const char *to)
{
	FILE *in = fopen(from, "rbe"), *out = fopen(to, "wbe");
	char bytes[4096];
	assert_non_null(in);
	assert_non_null(out);
	for (size_t n; (n = fread(bytes, 1, sizeof bytes, in));)
		assert_int_equal(fwrite(bytes, 1, n, out), n);
	fclose(in);
	assert_int_equal(fclose(out), 0);
}

static void load(struct subject *s)
{
	const struct inferd_delegate *(*entry)(uint32_t, uint32_t);
	*s = (struct subject){ .module = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL) };
	if (!s->module)
		fail_msg("%s", dlerror());
	void *symbol = dlsym(s->module, INFERD_DELEGATE_ENTRY);
	memcpy(&entry, &symbol, sizeof entry);
	s->table = entry(INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR);
	assert_non_null(s->table);
	assert_null(entry(INFERD_DELEGATE_MAJOR + 1, 0));
	s->message.struct_size = sizeof s->message;
	s->host = (struct inferd_delegate_host){ .struct_size = sizeof s->host,
		.major = INFERD_DELEGATE_MAJOR,
		.minor = INFERD_DELEGATE_MINOR,
		.options = s->options,
		.log = ignore };
	/* like a package of the runtime alone: only the versioned name */
	snprintf(s->folder, sizeof s->folder, "/tmp/inferd-openvino.XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	char path[128];
	snprintf(path, sizeof path, "%s/libopenvino_c.so.2540", s->folder);
	copy_file(FAKE, path);
	snprintf(path, sizeof path, "%s/libopenvino_c.so.9999", s->folder); /* the newest can't be used */
	copy_file("/dev/null", path);
}

static void set(struct subject *s, const char *key, const char *value)
{
	uint32_t n = s->host.n_options++;
	s->pairs[n] = (struct inferd_delegate_pair){ sizeof s->pairs[n], 0, key, value, strlen(value) };
	s->options[n] = &s->pairs[n];
}

static void unload(struct subject *s)
{
	char path[128];
	if (s->self)
		s->table->close(s->self);
	static const char *const names[] = { "libopenvino_c.so.2540", "libopenvino_c.so.9999" };
	for (size_t i = 0; i < N_OF(names); i++) {
		snprintf(path, sizeof path, "%s/%s", s->folder, names[i]);
		unlink(path);
	}
	rmdir(s->folder);
	dlclose(s->module);
}

static void open_it(struct subject *s)
{
	if (s->table->open(&s->host, &s->self, &s->message))
		fail_msg("%s", s->message.text);
}

/* The library's log of calls so far; valid until the next call. */
static const char *asked(const struct subject *s)
{
	static char text[8192];
	char path[128];
	void (*log)(char *to, size_t room);
	snprintf(path, sizeof path, "%s/libopenvino_c.so.2540", s->folder);
	void *fake = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(fake);
	void *symbol = dlsym(fake, "fake_log");
	memcpy(&log, &symbol, sizeof log);
	log(text, sizeof text);
	dlclose(fake);
	return text;
}

static void load_and_open(struct subject *s)
{
	load(s);
	set(s, "folder", s->folder);
	open_it(s);
}

/* --- the library ------------------------------------------------------------------------------------ */

static void test_library(void **state)
{
	struct subject s;
	char path[128];
	load_and_open(&s); /* by its versioned name */
	unload(&s);
	load(&s);
	snprintf(path, sizeof path, "%s/libopenvino_c.so.2540", s.folder);
	set(&s, "library", path);
	open_it(&s);
	unload(&s);
	static const struct {
		const char *key, *value, *says;
	} cases[] = { { "library", "/nowhere/libopenvino_c.so", "libopenvino_c.so was not found: install OpenVINO" },
		{ "folder", "/nowhere", "libopenvino_c.so was not found" },
		{ "library", FAKE_WITHOUT_IMPORT, "the OpenVINO library lacks ov_core_import_model" } };
	for (size_t i = 0; i < N_OF(cases); i++) {
		load(&s);
		set(&s, cases[i].key, cases[i].value);
		assert_int_equal(s.table->open(&s.host, &s.self, &s.message), INFERD_DELEGATE_E_NOT_FOUND);
		if (!strstr(s.message.text, cases[i].says))
			fail_msg("'%s' does not say '%s'", s.message.text, cases[i].says);
		unload(&s);
	}
}

static void test_devices(void **state)
{
	static const uint32_t kinds[] = { INFERD_DELEGATE_CPU, INFERD_DELEGATE_GPU, INFERD_DELEGATE_NPU };
	struct subject s;
	load_and_open(&s);
	for (uint32_t i = 0; i < N_OF(kinds); i++) {
		struct inferd_delegate_device device = { .struct_size = sizeof device };
		assert_int_equal(s.table->devices(s.self, i, &device), 0);
		assert_int_equal(device.kind, kinds[i]);
		assert_int_equal(device.alignment, i ? 64 : 16);
	}
	struct inferd_delegate_device device = { .struct_size = sizeof device };
	assert_int_equal(s.table->devices(s.self, 3, &device), INFERD_DELEGATE_E_NOT_FOUND);
	unload(&s);
}

/* --- payloads --------------------------------------------------------------------------------------- */

struct payload {
	uint64_t fields[6];
	char rest[16];
};

static const struct payload good = { { 48, 4, 52, 4, 56, 8 }, "custweigmodel..." };

static int init_as(struct subject *s, const void *bytes, size_t n_bytes, const char *device,
	const struct inferd_delegate_pair *option, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *info)
{
	struct inferd_delegate_pair spec = { sizeof spec, 0, "device", device, strlen(device) };
	const struct inferd_delegate_pair *specs[] = { &spec };
	struct inferd_delegate_payload payload = { .struct_size = sizeof payload,
		.n_args = 2,
		.bytes = bytes,
		.n_bytes = n_bytes,
		.fd = -1,
		.n_specs = device[0] ? 1 : 0,
		.specs = specs,
		.method = "forward",
		.options = &option,
		.n_options = option != NULL };
	uint32_t readiness = 77;
	*info = (struct inferd_delegate_model_info){ .struct_size = sizeof *info };
	assert_int_equal(s->table->probe(s->self, &payload, &readiness, &s->message), 0);
	int result = s->table->init(s->self, &payload, ret_model, info, &s->message);
	/* probe finds errors of the header, too */
	if (!result)
		assert_int_equal(readiness, INFERD_DELEGATE_READY);
	else if (option && result == INFERD_DELEGATE_E_INVALID)
		assert_int_equal(readiness, INFERD_DELEGATE_NO);
	return result;
}

static int init(struct subject *s, const void *bytes, size_t n_bytes, const char *device,
	struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *info)
{
	return init_as(s, bytes, n_bytes, device, NULL, ret_model, info);
}

/* init with one option of the model. */
static int init_with(struct subject *s, const char *device, const char *key, const char *value,
	struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *info)
{
	const struct inferd_delegate_pair option = { sizeof option, 0, key, value, strlen(value) };
	return init_as(s, &good, sizeof good, device, &option, ret_model, info);
}

/* Precision and threads are set before an import; caches are set for devices that compile. */
static void test_properties(void **state)
{
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct subject s;
	load(&s);
	set(&s, "folder", s.folder);
	s.host.cache_dir = "/tmp/somewhere";
	open_it(&s);
	assert_int_equal(init(&s, &good, sizeof good, "CPU", &model, &info), 0);
	assert_string_equal(asked(&s), "GPU CACHE_DIR=/tmp/somewhere\nNPU CACHE_DIR=/tmp/somewhere\n"
				       "CPU INFERENCE_PRECISION_HINT=f32\nCPU INFERENCE_NUM_THREADS=0\n"
				       "import of 64 bytes on CPU\n");
	s.table->destroy(model);
	unload(&s);
	load(&s);
	set(&s, "folder", s.folder);
	set(&s, "precision", "bf16");
	set(&s, "threads", "3");
	open_it(&s);
	assert_int_equal(init(&s, &good, sizeof good, "CPU", &model, &info), 0);
	s.table->destroy(model);
	assert_int_equal(init(&s, &good, sizeof good, "GPU", &model, &info), 0);
	s.table->destroy(model);
	assert_string_equal(asked(&s),
		"CPU INFERENCE_PRECISION_HINT=bf16\nCPU INFERENCE_NUM_THREADS=3\n"
		"import of 64 bytes on CPU\nGPU INFERENCE_PRECISION_HINT=bf16\nimport of 64 bytes on GPU\n");
	unload(&s);
	/* a device that refuses the backend's precision gets f32, not the last model's precision */
	load(&s);
	set(&s, "folder", s.folder);
	set(&s, "precision", "f16");
	set(&s, "threads", "3");
	open_it(&s);
	assert_int_equal(init(&s, &good, sizeof good, "CPU", &model, &info), 0);
	s.table->destroy(model);
	assert_string_equal(asked(&s), "CPU INFERENCE_PRECISION_HINT=f16\nCPU INFERENCE_PRECISION_HINT=f32\n"
				       "CPU INFERENCE_NUM_THREADS=3\nimport of 64 bytes on CPU\n");
	unload(&s);
	load(&s);
	set(&s, "folder", s.folder);
	set(&s, "precision", "fp8");
	assert_int_equal(s.table->open(&s.host, &s.self, &s.message), INFERD_DELEGATE_E_INVALID);
	assert_string_equal(s.message.text, "precision: 'fp8' is none of f32, bf16, f16");
	unload(&s);
}

/* Options of a model override the backend's, for that model alone. probe and init refuse a senseless option by name. */
static void test_options_of_a_model(void **state)
{
	static const struct {
		const char *key, *value, *device, *says;
	} wrong[] = { { "precision", "int8", "CPU", "precision: 'int8' is none of" },
		{ "threads", "-1", "CPU", "threads: '-1' is not a number" },
		{ "threads", "", "CPU", "threads: '' is not" }, { "threads", "3x", "CPU", "threads: '3x' is not" },
		{ "threads", "2", "GPU", "threads: a model on GPU has none" },
		{ "device", "GPU", "CPU", "option 'device' is unknown: a model has precision and threads" },
		{ "precision", "f16", "NPU", "precision: OpenVINO answers -11 (unknown)" } };
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct subject s;
	load(&s);
	set(&s, "folder", s.folder);
	set(&s, "threads", "2");
	open_it(&s);
	assert_int_equal(init_with(&s, "CPU", "precision", "bf16", &model, &info), 0);
	s.table->destroy(model);
	assert_int_equal(init_with(&s, "CPU", "threads", "1", &model, &info), 0);
	s.table->destroy(model);
	assert_int_equal(init(&s, &good, sizeof good, "CPU", &model, &info), 0);
	s.table->destroy(model);
	assert_string_equal(asked(&s),
		"CPU INFERENCE_PRECISION_HINT=bf16\nCPU INFERENCE_NUM_THREADS=2\nimport of 64 bytes on CPU\n"
		"CPU INFERENCE_PRECISION_HINT=f32\nCPU INFERENCE_NUM_THREADS=1\nimport of 64 bytes on CPU\n"
		"CPU INFERENCE_PRECISION_HINT=f32\nCPU INFERENCE_NUM_THREADS=2\nimport of 64 bytes on CPU\n");
	for (size_t i = 0; i < N_OF(wrong); i++) {
		assert_true(init_with(&s, wrong[i].device, wrong[i].key, wrong[i].value, &model, &info) != 0);
		if (!strstr(s.message.text, wrong[i].says))
			fail_msg("'%s' does not say '%s'", s.message.text, wrong[i].says);
	}
	unload(&s);
}

/* The device is that of the compile spec; else of the option; else the CPU. */
static void test_device_of_a_payload(void **state)
{
	static const struct {
		const char *option, *spec, *is;
	} cases[] = { { NULL, "NPU", "import of 64 bytes on NPU" }, { NULL, "", "import of 64 bytes on CPU" },
		{ "GPU", "", "import of 64 bytes on GPU" }, { "GPU", "CPU", "import of 64 bytes on CPU" },
		{ NULL, "TPU", NULL } };
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	for (size_t i = 0; i < N_OF(cases); i++) {
		struct subject s;
		load(&s);
		set(&s, "folder", s.folder);
		if (cases[i].option)
			set(&s, "device", cases[i].option);
		open_it(&s);
		int result = init(&s, &good, sizeof good, cases[i].spec, &model, &info);
		if (cases[i].is) {
			assert_int_equal(result, 0);
			assert_non_null(strstr(asked(&s), cases[i].is));
			assert_int_equal(info.device, strstr(cases[i].is, "NPU")   ? 2
						      : strstr(cases[i].is, "GPU") ? 1
										   : 0);
			s.table->destroy(model);
		} else {
			assert_int_equal(result, INFERD_DELEGATE_E_NOT_FOUND);
			assert_string_equal(s.message.text,
				"exported for OpenVINO device 'TPU', which this machine does not have");
		}
		unload(&s);
	}
}

static void test_offsets(void **state)
{
	static const struct {
		size_t field;
		uint64_t value;
		const char *says;
	} cases[] = { { 0, 47, "custom data: offset 47" }, { 0, 65, "custom data" }, { 0, UINT64_MAX, "custom data" },
		{ 1, 17, "custom data" }, { 1, UINT64_MAX, "custom data" }, { 1, UINT64_MAX - 47, "custom data" },
		{ 2, 51, "weights: offset 51" }, { 2, 65, "weights" }, { 3, 13, "weights" },
		{ 3, UINT64_C(1) << 40, "weights" }, { 4, 55, "model: offset 55" }, { 4, UINT64_MAX, "model" },
		{ 5, 9, "model" }, { 5, UINT64_MAX - 55, "model" }, { 5, 0, "model: size 0" } };
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct subject s;
	load_and_open(&s);
	for (size_t i = 0; i < N_OF(cases); i++) {
		struct payload bad = good;
		bad.fields[cases[i].field] = cases[i].value;
		assert_int_equal(init(&s, &bad, sizeof bad, "CPU", &model, &info), INFERD_DELEGATE_E_INVALID);
		if (!strstr(s.message.text, cases[i].says))
			fail_msg("'%s' does not say '%s'", s.message.text, cases[i].says);
	}
	for (size_t n = 0; n < sizeof good; n++)
		assert_int_equal(init(&s, &good, n, "CPU", &model, &info), INFERD_DELEGATE_E_INVALID);
	assert_null(strstr(asked(&s), "import")); /* the library has seen none of them */
	struct payload foreign = good;
	foreign.rest[sizeof foreign.rest - 1] = '!';
	assert_int_equal(init(&s, &foreign, sizeof foreign, "CPU", &model, &info), INFERD_DELEGATE_E_INVALID);
	assert_non_null(strstr(s.message.text, "the fake does not like it at all")); /* on one line */
	unload(&s);
}

/* --- runs ------------------------------------------------------------------------------------------- */

struct run {
	struct subject *s;
	struct inferd_delegate_model *model;
	struct inferd_delegate_instance *instance;
	struct inferd_delegate_arg in, out;
	float x[4], y[4];
	struct inferd_delegate_message message;
	int result;
};

static struct inferd_delegate_arg argument(float *data, bool is_output)
{
	return (struct inferd_delegate_arg){ .struct_size = sizeof(struct inferd_delegate_arg),
		.kind = INFERD_DELEGATE_TENSOR,
		.type = 6,
		.n_dims = 2,
		.is_output = is_output,
		.sizes = { 1, 4 },
		.dim_order = { 0, 1 },
		.data = data,
		.n_bytes = 16,
		.fd = -1 };
}

static int execute(struct run *r)
{
	struct inferd_delegate_arg *args[] = { &r->in, &r->out };
	struct inferd_delegate_run view = { .struct_size = sizeof view, .n_args = 2, .args = args };
	return r->s->table->execute(r->model, r->instance, &view, &r->message);
}

static void begin(struct run *r, struct subject *s)
{
	struct inferd_delegate_model_info info;
	load_and_open(s);
	*r = (struct run){ .s = s, .x = { 1, 2, 3, 4 }, .message.struct_size = sizeof r->message };
	assert_int_equal(init(s, &good, sizeof good, "CPU", &r->model, &info), 0);
	assert_int_equal(s->table->instance_new(r->model, &r->instance, &s->message), 0);
	r->in = argument(r->x, false);
	r->out = argument(r->y, true);
}

static void end(struct run *r)
{
	r->s->table->instance_free(r->instance);
	r->s->table->destroy(r->model);
	unload(r->s);
}

static void test_run(void **state)
{
	struct subject s;
	struct run r;
	begin(&r, &s);
	assert_int_equal(execute(&r), 0);
	assert_true(r.y[0] == 2 && r.y[3] == 5);
	assert_non_null(strstr(asked(&s), "start\nwait\n")); /* so that it can be cancelled */
	r.in.dim_order[0] = 1;
	r.in.dim_order[1] = 0;
	assert_int_equal(execute(&r), INFERD_DELEGATE_E_UNSUPPORTED);
	assert_non_null(strstr(r.message.text, "argument 0 is not row-major"));
	r.in = argument(r.x, false);
	r.in.type = 8; /* a complex number */
	assert_int_equal(execute(&r), INFERD_DELEGATE_E_UNSUPPORTED);
	struct inferd_delegate_arg *args[] = { &r.in };
	struct inferd_delegate_run view = { .struct_size = sizeof view, .n_args = 1, .args = args };
	assert_int_equal(s.table->execute(r.model, r.instance, &view, &r.message), INFERD_DELEGATE_E_INVALID);
	assert_non_null(strstr(r.message.text, "1 arguments for 1 inputs and 1 outputs"));
	end(&r);
}

static void *run_it(void *arg)
{
	struct run *r = arg;
	r->result = execute(r);
	return NULL;
}

static void test_cancel(void **state)
{
	struct subject s;
	struct run r;
	pthread_t thread;
	begin(&r, &s);
	r.x[0] = -1; /* it does not end by itself */
	assert_int_equal(pthread_create(&thread, NULL, run_it, &r), 0);
	while (!strstr(asked(&s), "wait\n"))
		sched_yield();
	s.table->cancel(r.model, r.instance);
	pthread_join(thread, NULL);
	assert_int_equal(r.result, INFERD_DELEGATE_E_CANCELLED);
	r.x[0] = 1;
	assert_int_equal(execute(&r), 0); /* the request is as good as new */
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_library), cmocka_unit_test(test_devices),
		cmocka_unit_test(test_properties), cmocka_unit_test(test_options_of_a_model),
		cmocka_unit_test(test_device_of_a_payload), cmocka_unit_test(test_offsets), cmocka_unit_test(test_run),
		cmocka_unit_test(test_cancel) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
