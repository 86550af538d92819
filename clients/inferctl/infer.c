/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl infer: run a model once on files, or run several of its methods one after the other.
 *
 * Inputs are given in the order of the method's inputs. A .npy file has its own datatype and shape. Any other file
 * has the raw bytes of the tensor, dense in the input's dim order. A scalar input is a number on the command line.
 *
 * Several methods are steps of one client. Methods that were exported with shared buffers share them, so that a
 * decode step uses the caches of the prefill before it. A method that is named again continues with its own state.
 * All methods are opened before the first one runs. */
#include "clients/inferctl/ctl.h"
#include "clients/inferctl/engine.h"
#include "clients/inferctl/npy.h"
#include "clients/inferctl/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct infer {
	struct ctl *ctl;
	struct ctl_strings inputs, outputs, data, methods;
	unsigned top;
	const char *name;    /* of the model */
	const char *profile; /* the file for the profile, or NULL */
};

static bool has_suffix(const char *text, const char *suffix)
{
	size_t n = strlen(text), k = strlen(suffix);
	return n >= k && strcmp(text + n - k, suffix) == 0;
}

/* Read a raw file, which has exactly the bytes of the input. For a dynamic input the outermost size follows from the
 * file's size. */
static int read_raw(FILE *file, const struct ctl_io *io, struct ctl_value *ret, void **ret_memory,
	struct ctl_error *error)
{
	size_t n_bytes = io->value.n_bytes, n, row;
	char *memory = ctl_alloc(1, n_bytes + 1);
	*ret = io->value;
	n = fread(memory, 1, n_bytes + 1, file);
	if (io->is_dynamic && io->value.n_dims && n < n_bytes && n > 0) {
		unsigned outer = io->value.dim_order[0];
		row = io->value.sizes[outer] > 0 ? n_bytes / (size_t)io->value.sizes[outer] : 0;
		if (row && n % row == 0) {
			ret->sizes[outer] = (int32_t)(n / row);
			n_bytes = n;
		}
	}
	if (n != n_bytes) {
		char text[CTL_VALUE_TEXT];
		free(memory);
		return ctl_error_set(error, "%s %zu bytes, but %s takes %zu",
			n > n_bytes ? "it has more than" : "it has", n > n_bytes ? n_bytes : n,
			ctl_value_text(text, &io->value), n_bytes);
	}
	ret->n_bytes = n_bytes;
	ret->data = (const uint8_t *)memory;
	*ret_memory = memory;
	return 0;
}

/* Parse a scalar of the command line: a number, "true" or "false" for a bool, or "none" for an argument that the
 * program leaves out. False: @text is none of these. */
static bool read_scalar(uint8_t tag, const char *text, struct ctl_value *ret)
{
	struct ctl_value value = { .tag = ET_TAG_DOUBLE };
	char *end;
	if (tag == ET_TAG_NONE) {
		ret->tag = ET_TAG_NONE;
		return strcmp(text, "none") == 0;
	}
	value.d = strtod(text, &end);
	if (tag == ET_TAG_BOOL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
		value = (struct ctl_value){ .tag = ET_TAG_BOOL, .i = *text == 't', .d = *text == 't' };
	else if (*end || end == text)
		return false;
	else if (value.d >= -0x1p63 && value.d < 0x1p63 && value.d == (double)(int64_t)value.d) {
		value.tag = ET_TAG_INT;
		value.i = strtoll(text, &end, 10); /* a double would round it */
		if (*end)
			value.i = (int64_t)value.d; /* 1e3 */
	}
	*ret = value;
	return true;
}

static int set_input(struct ctl_instance *instance, unsigned index, const char *name)
{
	struct ctl_error error = { 0 };
	struct ctl_value value = { 0 };
	void *memory = NULL;
	FILE *file;
	int rc;

	if (index >= instance->n_inputs)
		return ctl_fail("--input %s: the method has only %u inputs", name, instance->n_inputs);
	if (instance->inputs[index].value.tag != ET_TAG_TENSOR) {
		if (!read_scalar(instance->inputs[index].value.tag, name, &value))
			return ctl_fail("--input %s: input %u is %s", name, index,
				instance->inputs[index].value.tag == ET_TAG_NONE ? "left out by the program: give none"
				: instance->inputs[index].value.tag == ET_TAG_BOOL ? "a bool: give true or false"
										   : "a number: give its value");
		if (ctl_instance_set_input(instance, index, &value, &error) < 0)
			return ctl_fail("--input %s: %s", name, error.text);
		return CTL_OK;
	}
	file = fopen(name, "re");
	if (!file) {
		char text[CTL_VALUE_TEXT];
		return ctl_fail("--input %s: %s; input %u is %s: give a .npy file, or a file with its raw bytes", name,
			strerror(errno), index, ctl_value_text(text, &instance->inputs[index].value));
	}
	rc = has_suffix(name, ".npy") ? ctl_npy_read(file, &value, &memory, error.text, sizeof(error.text))
				      : read_raw(file, &instance->inputs[index], &value, &memory, &error);
	fclose(file);
	/* NumPy has no bf16: a .npy file has its bits as uint16. */
	if (rc == 0 && value.type == ET_UINT16 && instance->inputs[index].value.type == ET_BFLOAT16)
		value.type = ET_BFLOAT16;
	if (rc == 0)
		rc = ctl_instance_set_input(instance, index, &value, &error);
	free(memory);
	if (rc < 0)
		return ctl_fail("--input %s: %s", name, error.text);
	return CTL_OK;
}

static int write_output(const struct ctl_value *value, const char *name)
{
	if (value->tag == ET_TAG_STRING && has_suffix(name, ".npy"))
		return ctl_fail("--output %s: a string cannot be written as .npy; give another name", name);
	FILE *file = fopen(name, "we");
	bool is_whole = false;
	if (file) {
		if (has_suffix(name, ".npy"))
			is_whole = ctl_npy_write(file, value) == 0;
		else if (value->tag == ET_TAG_TENSOR || value->tag == ET_TAG_STRING)
			is_whole = fwrite(value->data, 1, value->n_bytes, file) == value->n_bytes;
		else
			is_whole = fwrite(value->tag == ET_TAG_DOUBLE ? (const void *)&value->d
								      : (const void *)&value->i,
					   8, 1, file) == 1;
		if (fclose(file) != 0)
			is_whole = false;
	}
	return is_whole ? CTL_OK : ctl_fail("--output %s: %s", name, strerror(errno));
}

/* The indexes of the @k largest elements, largest first; NaNs are left out. */
static unsigned find_top(const struct ctl_value *value, size_t n, size_t *ret_top, unsigned k)
{
	unsigned n_top = 0;
	for (size_t i = 0; i < n; i++) {
		double d = ctl_value_at(value, i).d;
		unsigned at = n_top;
		if (isnan(d))
			continue;
		while (at > 0 && d > ctl_value_at(value, ret_top[at - 1]).d)
			at--;
		if (at >= k)
			continue;
		if (n_top < k)
			n_top++;
		for (unsigned m = n_top - 1; m > at; m--)
			ret_top[m] = ret_top[m - 1];
		ret_top[at] = i;
	}
	return n_top;
}

struct summary {
	size_t n, n_nan;
	double min, max, mean;
};

static struct summary summarize(const struct ctl_value *value)
{
	struct summary s = { .n = ctl_value_numel(value), .min = INFINITY, .max = -INFINITY };
	double sum = 0;
	for (size_t i = 0; i < s.n; i++) {
		double d = ctl_value_at(value, i).d;
		if (isnan(d)) {
			s.n_nan++;
			continue;
		}
		s.min = fmin(s.min, d);
		s.max = fmax(s.max, d);
		sum += d;
	}
	s.mean = s.n > s.n_nan ? sum / (double)(s.n - s.n_nan) : NAN;
	return s;
}

static json_t *output_json(const struct ctl_value *value, unsigned k)
{
	json_t *json = json_object(), *list;
	size_t *top, n = ctl_value_numel(value);
	unsigned n_top;
	json_object_set_new(json, "kind", json_string(et_tag_name(value->tag)));
	if (value->tag != ET_TAG_TENSOR) {
		json_object_set_new(json, "value", ctl_value_json(value));
		return json;
	}
	json_object_set_new(json, "datatype", json_string(et_scalar_name(value->type)));
	json_object_set_new(json, "shape", ctl_shape_json(value->sizes, value->n_dims));
	top = ctl_alloc(k, sizeof(*top));
	n_top = find_top(value, n, top, k);
	list = json_array();
	for (unsigned i = 0; i < n_top; i++)
		json_array_append_new(list, json_pack("{s:I, s:o}", "index", (json_int_t)top[i], "value",
						    ctl_json_number(ctl_value_at(value, top[i]).d)));
	json_object_set_new(json, "top", list);
	free(top);
	return json;
}

/* Print a string as JSON quotes it, without control characters. */
static void print_string(const struct ctl_value *value)
{
	json_t *json = ctl_value_json(value);
	char *text = json_dumps(json, JSON_ENCODE_ANY);
	if (text) {
		ctl_clean(text);
		printf("  %s", text);
	}
	free(text);
	json_decref(json);
}

static void print_output(const struct infer *infer, unsigned index, const struct ctl_value *value)
{
	char text[CTL_VALUE_TEXT], number[32], position[CTL_SHAPE_TEXT];
	struct summary s;
	size_t *top;
	unsigned n_top;

	printf("output %u: %s", index, ctl_value_text(text, value));
	if (value->tag == ET_TAG_STRING)
		print_string(value);
	if (value->tag != ET_TAG_TENSOR) {
		putchar('\n');
		return;
	}
	s = summarize(value);
	if (s.n > s.n_nan)
		printf("  min %.6g, max %.6g, mean %.6g", s.min, s.max, s.mean);
	if (s.n_nan)
		printf(", %zu NaN", s.n_nan);
	putchar('\n');
	top = ctl_alloc(infer->top, sizeof(*top));
	n_top = find_top(value, s.n, top, infer->top);
	for (unsigned i = 0; i < n_top; i++)
		printf("  %-16s %s\n", ctl_position_text(position, value, top[i]),
			ctl_number_text(number, ctl_value_at(value, top[i])));
	free(top);
}

/* Print the outputs of a run and write those that --output asks for. @first: how many outputs the steps before it
 * have. */
static int show_outputs(struct infer *infer, struct ctl_instance *instance, size_t first, struct ctl_timing timing,
	json_t *json)
{
	json_t *outputs = json_array();
	int rc = CTL_OK;

	for (unsigned i = 0; i < instance->n_outputs && rc == CTL_OK; i++) {
		struct ctl_error error = { 0 };
		struct ctl_value value;
		if (instance->engine->ops->output(instance, i, &value, &error) < 0) {
			rc = ctl_fail("%s", error.text);
			break;
		}
		if (first + i < infer->outputs.n)
			rc = write_output(&value, infer->outputs.items[first + i]);
		if (infer->ctl->is_json)
			json_array_append_new(outputs, output_json(&value, infer->top));
		else
			print_output(infer, i, &value);
	}
	json_object_set_new(json, "outputs", outputs);
	json_object_set_new(json, "queue_ms", json_real((double)timing.queue_ns / 1e6));
	json_object_set_new(json, "run_ms", json_real((double)timing.run_ns / 1e6));
	if (rc == CTL_OK && !infer->ctl->is_json)
		printf("ran in %s%s%s\n", ctl_duration(timing.run_ns), timing.queue_ns ? ", after waiting " : "",
			timing.queue_ns ? ctl_duration(timing.queue_ns) : "");
	return rc;
}

/* Run once, and write the profile if --profile asks for one. */
static int run_once(struct infer *infer, struct ctl_instance *instance)
{
	struct ctl_error error = { 0 };
	void *etdump = NULL;
	size_t n_bytes = 0;
	int rc;
	if (infer->profile)
		rc = instance->engine->ops->run_profiled(instance, &etdump, &n_bytes, &error);
	else
		rc = instance->engine->ops->run(instance, &error);
	if (rc < 0)
		return ctl_fail("%s", error.text);
	rc = infer->profile ? ctl_profile_write(infer->profile, etdump, n_bytes, infer->name) : CTL_OK;
	free(etdump);
	return rc;
}

/* --- steps -------------------------------------------------------------------------------------------- */

/* One run of one method. */
struct step {
	const char *method;                /* NULL: the only one, or forward */
	const struct et_bundle_case *test; /* its inputs if the command line has none; or NULL */
	struct ctl_instance *instance;     /* steps of the same method have the same instance */
};

static int fill_in(struct infer *infer, const struct step *step, size_t first_input)
{
	struct ctl_error error = { 0 };
	if (!infer->inputs.n)
		return ctl_instance_set_case(step->instance, step->test, &error) < 0 ? ctl_fail("%s", error.text)
										     : CTL_OK;
	for (unsigned i = 0; i < step->instance->n_inputs; i++) {
		int rc = set_input(step->instance, i, infer->inputs.items[first_input + i]);
		if (rc != CTL_OK)
			return rc;
	}
	return CTL_OK;
}

/* Check, before anything runs, that all inputs are given and that there are not too many outputs. */
static int check_files(const struct infer *infer, const struct step *steps, size_t n)
{
	const char *who = n > 1 ? "the methods together have" : "the method has";
	size_t n_inputs = 0, n_outputs = 0;
	for (size_t i = 0; i < n; i++) {
		const struct ctl_instance *instance = steps[i].instance;
		if (!infer->inputs.n && !steps[i].test && instance->n_inputs) {
			char text[CTL_VALUE_TEXT];
			return ctl_fail("%s%s%s has %u input%s: give each one with --input FILE, as .npy or as raw "
					"bytes; input 0 is %s",
				n > 1 ? "method '" : "the method", n > 1 ? steps[i].method : "", n > 1 ? "'" : "",
				instance->n_inputs, instance->n_inputs == 1 ? "" : "s",
				ctl_value_text(text, &instance->inputs[0].value));
		}
		n_inputs += instance->n_inputs;
		n_outputs += instance->n_outputs;
	}
	if (infer->inputs.n && infer->inputs.n != n_inputs)
		return ctl_fail("%s %zu input%s, but %zu were given", who, n_inputs, n_inputs == 1 ? "" : "s",
			infer->inputs.n);
	if (infer->outputs.n > n_outputs)
		return ctl_fail("%s only %zu output%s, but --output was given %zu times", who, n_outputs,
			n_outputs == 1 ? "" : "s", infer->outputs.n);
	return CTL_OK;
}

static int run_steps(struct infer *infer, const struct step *steps, size_t n)
{
	const struct ctl *ctl = infer->ctl;
	json_t *list = json_array();
	size_t first_input = 0, first_output = 0;
	int rc = check_files(infer, steps, n);
	for (size_t i = 0; i < n && rc == CTL_OK; i++) {
		struct ctl_instance *instance = steps[i].instance;
		json_t *json = json_object();
		if (n > 1)
			json_object_set_new(json, "method", ctl_json_text(steps[i].method));
		if (n > 1 && !ctl->is_json)
			printf("%s%s%s\n", ctl_bold(ctl), ctl_safe(steps[i].method), ctl_plain(ctl));
		rc = fill_in(infer, &steps[i], first_input);
		if (rc == CTL_OK)
			rc = run_once(infer, instance);
		if (rc == CTL_OK)
			rc = show_outputs(infer, instance, first_output, instance->engine->ops->timing(instance), json);
		json_array_append_new(list, json);
		first_input += instance->n_inputs;
		first_output += instance->n_outputs;
	}
	if (rc == CTL_OK && ctl->is_json)
		rc = n > 1 ? ctl_print_json(json_pack("{s:O}", "steps", list))
			   : ctl_print_json(json_incref(json_array_get(list, 0)));
	json_decref(list);
	return rc;
}

/* Give each step its instance. Steps of the same method use the same instance. Another method shares state with the
 * first one that has state to share. */
static int open_steps(struct ctl_seat *seat, struct ctl_opened *opened, struct step *steps, size_t n, const char *name,
	struct ctl_file *file)
{
	struct ctl_error error = { 0 };
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i && !steps[i].instance; k++)
			if (strcmp(steps[k].method, steps[i].method) == 0)
				steps[i].instance = steps[k].instance;
		if (steps[i].instance)
			continue;
		if (ctl_opened_open(seat, opened, i, name, file, steps[i].method, &error) < 0)
			return ctl_fail("%s", error.text);
		steps[i].instance = opened[i].instance;
	}
	return CTL_OK;
}

static int run_model(struct infer *infer, struct ctl_engine *engine, const char *name)
{
	size_t n = infer->methods.n ? infer->methods.n : 1;
	struct ctl_file file = { 0 };
	struct ctl_seat *seat = NULL;
	struct ctl_error error = { 0 };
	struct et_diag diag = { 0 };
	int rc;

	infer->name = name;
	if (engine->options.is_local || ctl_is_path(name)) {
		if (ctl_file_open(&file, name, &infer->data, &diag) != ET_OK)
			return ctl_fail("%s%s", diag.text,
				ctl_is_path(name) ? "" : "; --local takes a file, not the name of a model");
	} else if (infer->data.n) {
		return ctl_misuse(infer->ctl,
			"--data is only for a file: the daemon finds the data files of '%s' itself", name);
	}
	struct step *steps = ctl_alloc(n, sizeof(*steps));
	struct ctl_opened *opened = ctl_alloc(n, sizeof(*opened));
	for (size_t i = 0; i < n; i++) {
		steps[i].method = infer->methods.n ? infer->methods.items[i] : NULL;
		const struct et_bundle_suite *suite = ctl_file_suite(&file, steps[i].method);
		steps[i].test = suite && suite->n_cases ? &suite->cases[0] : NULL;
		if (steps[i].test && !infer->inputs.n)
			steps[i].method = suite->method;
	}
	if (engine->ops->seat_open(engine, &seat, 0, &error) < 0)
		rc = ctl_fail("%s", error.text);
	else
		rc = open_steps(seat, opened, steps, n, name, file.path ? &file : NULL);
	if (rc == CTL_OK)
		rc = run_steps(infer, steps, n);
	ctl_opened_close_all(engine, opened, n);
	if (seat)
		engine->ops->seat_close(seat);
	free(steps);
	ctl_file_close(&file);
	return rc;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	struct infer infer = { .ctl = ctl, .top = 5 };
	struct ctl_engine_options options = { .n_seats = 1, .n_threads = 1 };
	struct ctl_engine *engine = NULL;
	int rc;
	const struct ctl_option rows[] = {
		{ "input", 'i', CTL_STRINGS, &infer.inputs, "FILE",
			"the next input: .npy, raw bytes, or a number; once for each input" },
		{ "output", 'o', CTL_STRINGS, &infer.outputs, "FILE",
			"write the next output to FILE: .npy, or raw bytes" },
		{ "data", 'd', CTL_STRINGS, &infer.data, "FILE",
			"a data file (.ptd) of the program (default: those beside it)" },
		CTL_ENGINE_OPTIONS(options),
		{ "method", 'm', CTL_STRINGS, &infer.methods, "NAME",
			"the method (default: the only one, or forward); repeat it to run several" },
		{ "profile", 'p', CTL_STRING, &infer.profile, "FILE",
			"write the time of each part: .json for Perfetto, else an ETDump" },
		{ "top", 'k', CTL_UINT, &infer.top, "K", "show the K largest elements of each output (default 5)" },
		{ NULL },
	};

	const char *name = ctl_parse_one(ctl, rows, argc, argv, "one model, or one .pte or .bpte file", &rc);
	if (name && infer.profile && infer.methods.n > 1)
		rc = ctl_misuse(ctl, "--profile takes only one --method");
	else if (name)
		rc = ctl_engine_begin(ctl, &engine, &options);
	if (engine)
		rc = run_model(&infer, engine, name);
	if (engine)
		engine->ops->free(engine);
	ctl_strings_deinit(&infer.inputs);
	ctl_strings_deinit(&infer.outputs);
	ctl_strings_deinit(&infer.data);
	ctl_strings_deinit(&infer.methods);
	return rc;
}

const struct ctl_command ctl_infer_command = {
	.name = "infer",
	.arguments = "[OPTION...] NAME|FILE",
	.summary = "Run a model once on files, and show or write its outputs",
	.help = "NAME is a model that the daemon serves. FILE is a .pte or .bpte: an argument with a slash, or with one\n"
		"of these suffixes. Without --input a bundled program runs on the inputs of its first test case.\n"
		"\n"
		"Several --method run one after the other. They work on the same buffers if the program was exported\n"
		"with share_mutable_buffers. --input and --output are then those of the first method, followed by those\n"
		"of the next.\n\n"
		"    inferctl infer efficientnet_lite0 --input cat.npy --top 3\n"
		"    inferctl infer --local model.pte -i a.raw -i b.raw -o out.npy\n"
		"    inferctl infer llm -m prefill -m decode -i prompt.npy -i token.npy -i 7\n",
	.run = run,
};
