/* SPDX-License-Identifier: BSD-3-Clause */
/* The rig: payloads are written by make_vulkan, arguments are read from texts. */
#include "tests/opencl/rig.h"

#include "runtime/base/fp16.h"
#include "runtime/tensor.h"
#include "tests/support/graph_rig.h"
#include "tests/support/make_vulkan.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ignore(void *self, int level, const char *text)
{
}

void rig_load(struct rig *rig)
{
	const struct inferd_delegate *(*entry)(uint32_t, uint32_t);
	*rig = (struct rig){ .module = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL) };
	if (!rig->module)
		fail_msg("%s", dlerror());
	void *symbol = dlsym(rig->module, INFERD_DELEGATE_ENTRY);
	memcpy(&entry, &symbol, sizeof(entry));
	rig->table = entry(INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR);
	assert_non_null(rig->table);
	assert_null(entry(INFERD_DELEGATE_MAJOR + 1, 0));
	rig->message.struct_size = sizeof(rig->message);
	rig->host = (struct inferd_delegate_host){ .struct_size = sizeof(rig->host),
		.major = INFERD_DELEGATE_MAJOR,
		.minor = INFERD_DELEGATE_MINOR,
		.options = rig->options,
		.log = ignore };
}

void rig_set(struct rig *rig, const char *key, const char *value)
{
	uint32_t n = rig->host.n_options++;
	rig->pairs[n] = (struct inferd_delegate_pair){ sizeof(rig->pairs[n]), 0, key, value, strlen(value) };
	rig->options[n] = &rig->pairs[n];
}

int rig_open(struct rig *rig)
{
	return rig->table->open(&rig->host, &rig->self, &rig->message);
}

void rig_set_driver(struct rig *rig)
{
	const char *driver = getenv("INFERD_TEST_OPENCL");
	bool is_rusticl = driver && strcmp(driver, "rusticl") == 0;
	rig_set(rig, "platforms", is_rusticl ? "rusticl" : "Portable Computing Language");
	if (is_rusticl)
		rig_set(rig, "drivers", "llvmpipe");
	rig_set(rig, "devices", "cpu");
}

bool rig_open_driver(struct rig *rig)
{
	rig_set_driver(rig);
	int result = rig_open(rig);
	if (result && !strstr(rig->message.text, "OpenCL"))
		fail_msg("%d: %s", result, rig->message.text);
	if (result)
		print_message("skipped: %s\n", rig->message.text);
	return !result;
}

void rig_close(struct rig *rig)
{
	if (rig->self)
		rig->table->close(rig->self);
	rig->self = NULL; /* the module stays: drivers left threads behind */
}

int rig_init(struct rig *rig, const char *text, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *ret_info)
{
	struct graph_rig graph;
	size_t n;
	if (graph_rig_parse(&graph, text) != ET_OK) { /* as a payload with that graph would be refused */
		snprintf(rig->message.text, sizeof(rig->message.text), "%.255s", graph.diag.text);
		graph_rig_deinit(&graph);
		return INFERD_DELEGATE_E_INVALID;
	}
	uint8_t *bytes = make_vulkan(&graph.graph, &n);
	struct inferd_delegate_payload payload = { .struct_size = sizeof(payload),
		.n_args = graph.graph.n_inputs + graph.graph.n_outputs,
		.bytes = bytes,
		.n_bytes = n,
		.fd = -1,
		.program = 1,
		.method = "forward" };
	uint32_t readiness = 77;
	*ret_info = (struct inferd_delegate_model_info){ .struct_size = sizeof(*ret_info) };
	assert_int_equal(rig->table->probe(rig->self, &payload, &readiness, &rig->message), 0);
	assert_int_equal(readiness, INFERD_DELEGATE_READY);
	int result = rig->table->init(rig->self, &payload, ret_model, ret_info, &rig->message);
	/* A model that drops its payload must not look at it again. */
	memset(bytes, 0xa5, n);
	free(bytes);
	graph_rig_deinit(&graph);
	return result;
}

/* --- arguments ------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	uint8_t type;
} types[] = { { "f32", ET_FLOAT32 }, { "f16", ET_FLOAT16 }, { "i64", ET_INT64 }, { "i32", ET_INT32 }, { "i8", ET_INT8 },
	{ "u8", ET_UINT8 }, { "bool", ET_BOOL } };

static void store(uint8_t type, uint8_t *bytes, uint32_t i, double d)
{
	float f = (float)d;
	uint16_t half = et_float_to_fp16(f);
	int64_t i64 = isfinite(d) ? (int64_t)d : 0;
	int32_t i32 = (int32_t)i64;
	int8_t i8 = (int8_t)i64;
	const void *from = type == ET_FLOAT32   ? (const void *)&f
			   : type == ET_FLOAT16 ? (const void *)&half
			   : type == ET_INT64   ? (const void *)&i64
			   : type == ET_INT32   ? (const void *)&i32
						: (const void *)&i8;
	memcpy(bytes + i * et_scalar_size(type), from, et_scalar_size(type));
}

double rig_element(const struct rig_run *run, uint32_t arg, uint32_t i)
{
	const uint8_t *bytes = (const uint8_t *)run->args[arg].data + i * et_scalar_size(run->args[arg].type);
	float f;
	uint16_t half;
	int64_t i64;
	int32_t i32;
	switch (run->args[arg].type) {
	case ET_FLOAT32:
		memcpy(&f, bytes, sizeof(f));
		return (double)f;
	case ET_FLOAT16:
		memcpy(&half, bytes, sizeof(half));
		return (double)et_fp16_to_float(half);
	case ET_INT64:
		memcpy(&i64, bytes, sizeof(i64));
		return (double)i64;
	case ET_INT32:
		memcpy(&i32, bytes, sizeof(i32));
		return i32;
	case ET_INT8:
		return (int8_t)bytes[0];
	default:
		return bytes[0];
	}
}

/* Read type, sizes and elements; answers how many elements were given. */
static uint32_t read_arg(struct inferd_delegate_arg *arg, uint8_t *bytes, const char *text)
{
	uint32_t n = 0, n_elements = 1;
	char *at;
	*arg = (struct inferd_delegate_arg){
		.struct_size = sizeof(*arg), .kind = INFERD_DELEGATE_TENSOR, .data = bytes, .fd = -1, .type = 0xff
	};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(text, types[i].name, strlen(types[i].name)) == 0 && text[strlen(types[i].name)] == '[')
			arg->type = types[i].type;
	at = strchr(text, '[');
	if (!at || arg->type == 0xff)
		fail_msg("'%s' is no argument", text);
	for (at++; *at != ']'; at += strspn(at, ", ")) {
		arg->dim_order[arg->n_dims] = arg->n_dims;
		arg->sizes[arg->n_dims] = (int32_t)strtol(at, &at, 10);
		n_elements *= (uint32_t)arg->sizes[arg->n_dims++];
	}
	arg->n_bytes = n_elements * et_scalar_size(arg->type);
	assert_true(arg->n_bytes <= RIG_MAX_BYTES);
	arg->is_output = at[1] != '{';
	for (at += arg->is_output ? 0 : 2; !arg->is_output && *at != '}'; at += strspn(at, ", "))
		store(arg->type, bytes, n++, strtod(at, &at));
	if (!arg->is_output && n != n_elements)
		fail_msg("'%s' has %u elements", text, n);
	return n;
}

void rig_arg(struct rig_run *run, const char *text)
{
	assert_true(run->n < RIG_MAX_ARGS);
	read_arg(&run->args[run->n], run->bytes[run->n], text);
	if (run->args[run->n].is_output)
		memset(run->bytes[run->n], 0x5a, RIG_MAX_BYTES);
	run->n++;
}

static void count_part(void *self, const char *name, uint64_t ns)
{
	++*(uint32_t *)self;
}

int rig_execute(struct rig *rig, struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	struct rig_run *run)
{
	struct inferd_delegate_arg *args[RIG_MAX_ARGS];
	for (uint32_t i = 0; i < run->n; i++)
		args[i] = &run->args[i];
	struct inferd_delegate_run view = { .struct_size = sizeof(view), .n_args = run->n, .args = args };
	rig->message.text[0] = '\0';
	run->n_parts = 0;
	if (run->is_profiled) {
		view.flags = INFERD_DELEGATE_PROFILE;
		view.self = &run->n_parts;
		view.event = count_part;
	}
	return rig->table->execute(model, instance, &view, &rig->message);
}

void rig_expect(const struct rig_run *run, uint32_t arg, const char *text, const char *what)
{
	struct rig_run expected = { .n = 1 };
	uint32_t n = read_arg(&expected.args[0], expected.bytes[0], text);
	for (uint32_t i = 0; i < run->args[arg].n_dims; i++)
		if (run->args[arg].sizes[i] != expected.args[0].sizes[i])
			fail_msg("%s: size %d in dimension %u", what, (int)run->args[arg].sizes[i], i);
	for (uint32_t i = 0; i < n; i++) {
		double got = rig_element(run, arg, i), wanted = rig_element(&expected, 0, i);
		if (!(fabs(got - wanted) <= 1e-3 * (1 + fabs(wanted))) && !(isnan(got) && isnan(wanted)) &&
			got != wanted)
			fail_msg("%s: element %u is %g, not %g", what, i, got, wanted);
	}
	/* nothing behind the output is written */
	for (uint64_t i = run->args[arg].n_bytes; i < RIG_MAX_BYTES; i++)
		if (run->bytes[arg][i] != 0x5a)
			fail_msg("%s: byte %llu behind the output was written", what, (unsigned long long)i);
}
