/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl inspect: show what is in a model file, and whether it can run here.
 *
 * The description is read from the file alone, so a program is shown even if its backends are not available.
 * Backends and plug-ins that are available judge their payloads. Facts that only a Plan knows (state, activations,
 * which inputs can be bound without a copy) are added if a Plan can be made; else the reason is. */
#include "clients/inferctl/backends.h"
#include "clients/inferctl/ctl.h"
#include "clients/inferctl/file.h"
#include "clients/inferctl/graph.h"
#include "clients/inferctl/value.h"

#include "config/model_conf.h"
#include "delegates/known_delegates.h"
#include "delegates/payload_format.h"
#include "runtime/platform/platform.h"
#include "runtime/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct inspect {
	const struct ctl *ctl;
	struct ctl_file file;
	struct et_program *program;
	struct et_log log;
	struct ctl_backends backends;
	const char *config; /* options */
	const char *graph;
};

/* The judgement on one delegate of a method. */
struct verdict {
	bool is_available; /* its backend is available and accepts the payload */
	char target[64];   /* the device or version that the payload was exported for; or empty */
	char text[960];    /* why it is not available, or what its backend says; or empty */
};

static struct verdict judge(struct inspect *in, const struct et_method_spec *method, uint32_t index)
{
	const struct et_delegate_spec *spec = &method->delegates[index];
	const struct et_backend_entry *entry = ctl_backends_find(&in->backends, spec->id);
	struct et_payload payload = et_payload_of(in->program, method, index);
	enum et_readiness readiness = ET_READINESS_READY;
	struct et_diag diag = { 0 };
	struct verdict verdict = { 0 };
	et_payload_format_target(spec, verdict.target, sizeof(verdict.target));
	if (et_payload_format_check(spec, &diag) != ET_OK) {
		snprintf(verdict.text, sizeof(verdict.text), "the payload is broken: %s", diag.text);
	} else if (!entry) {
		ctl_backends_problem(&in->backends, spec->id, verdict.text, sizeof(verdict.text));
	} else {
		if (entry->ops->probe && entry->ops->probe(entry->backend, &payload, &readiness, &diag) != ET_OK)
			readiness = ET_READINESS_NO;
		verdict.is_available = readiness != ET_READINESS_NO;
		snprintf(verdict.text, sizeof(verdict.text), "%s%s",
			readiness == ET_READINESS_RECOMPILE ? "the backend compiles it again: " : "", diag.text);
	}
	return verdict;
}

/* Count the calls of each operator of a method. The caller frees the array. */
static unsigned *count_calls(const struct et_method_spec *method)
{
	unsigned *n = ctl_alloc(method->n_operators, sizeof(*n));
	for (uint32_t i = 0; i < method->n_instructions; i++)
		if (method->instructions[i].op == ET_OP_KERNEL && method->instructions[i].index < method->n_operators)
			n[method->instructions[i].index]++;
	return n;
}

static unsigned count_op(const struct et_method_spec *method, enum et_op op)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < method->n_instructions; i++)
		n += method->instructions[i].op == (uint8_t)op;
	return n;
}

/* The description of an input or output, without data. */
static struct ctl_value describe(const struct et_method_spec *method, uint32_t slot, bool *ret_dynamic)
{
	const struct et_value_spec *spec = &method->values[slot];
	struct ctl_value value = { .tag = spec->tag };
	*ret_dynamic = false;
	if (spec->tag != ET_TAG_TENSOR)
		return value;
	value.type = spec->tensor->type;
	value.n_dims = spec->tensor->n_dims;
	value.n_bytes = spec->tensor->n_bytes;
	memcpy(value.sizes, spec->tensor->sizes, value.n_dims * sizeof(value.sizes[0]));
	memcpy(value.dim_order, spec->tensor->dim_order, value.n_dims);
	*ret_dynamic = spec->tensor->dynamism != ET_STATIC;
	return value;
}

/* --- JSON ---------------------------------------------------------------------------------------- */

static json_t *value_json(const struct ctl_value *value, bool is_dynamic)
{
	json_t *json = json_object(), *order;
	json_object_set_new(json, "kind", json_string(et_tag_name(value->tag)));
	if (value->tag != ET_TAG_TENSOR)
		return json;
	json_object_set_new(json, "datatype", json_string(et_scalar_name(value->type)));
	json_object_set_new(json, "shape", ctl_shape_json(value->sizes, value->n_dims));
	order = json_array();
	for (unsigned i = 0; i < value->n_dims; i++)
		json_array_append_new(order, json_integer(value->dim_order[i]));
	json_object_set_new(json, "dim_order", order);
	json_object_set_new(json, "dynamic", json_boolean(is_dynamic));
	json_object_set_new(json, "byte_size", json_integer((json_int_t)value->n_bytes));
	return json;
}

static json_t *ios_json(const struct et_method_spec *method, const uint32_t *slots, uint32_t n)
{
	json_t *array = json_array();
	for (uint32_t i = 0; i < n; i++) {
		bool is_dynamic;
		struct ctl_value value = describe(method, slots[i], &is_dynamic);
		json_array_append_new(array, value_json(&value, is_dynamic));
	}
	return array;
}

static json_t *plan_json(struct inspect *in, const struct et_method_spec *method)
{
	struct et_plan *plan = NULL;
	struct et_diag diag = { 0 };
	const struct et_plan_info *info;
	json_t *json;
	enum et_status status = et_plan_new(&plan, in->program, method->name, &in->backends.registry, NULL, 1,
		et_platform_allocator(), &diag);
	if (status != ET_OK)
		return json_pack("{s:b, s:o}", "runs_here", 0, "reason",
			ctl_json_text(diag.text[0] ? diag.text : et_status_text(status)));
	info = et_plan_info(plan);
	json = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s}", "runs_here", 1, "likely_steps",
		(json_int_t)info->n_likely_steps, "state_bytes", (json_int_t)info->n_state_bytes, "shared_bytes",
		(json_int_t)info->n_shared_bytes, "activation_bytes", (json_int_t)info->n_activation_bytes,
		"frame_bytes", (json_int_t)info->n_value_table_bytes, "delegate_bytes",
		(json_int_t)info->n_delegate_bytes, "plan_bytes", (json_int_t)info->n_plan_bytes, "constant_copies",
		(json_int_t)info->n_copied_constant_bytes, "stateful", info->is_stateful, "first_queue",
		et_queue_kind_name(info->first_queue.kind));
	et_plan_unref(plan);
	return json;
}

static json_t *method_json(struct inspect *in, const struct et_method_spec *method)
{
	json_t *json = json_object(), *operators = json_array(), *delegates = json_array(), *arenas = json_array();
	unsigned *n_calls = count_calls(method);

	for (uint32_t i = 0; i < method->n_operators; i++)
		json_array_append_new(operators,
			json_pack("{s:o, s:i, s:b}", "name", ctl_json_text(method->operators[i]), "calls",
				(int)n_calls[i], "available",
				ctl_backends_has_kernel(&in->backends, method->operators[i])));
	free(n_calls);
	for (uint32_t i = 0; i < method->n_delegates; i++) {
		const struct et_delegate_spec *delegate = &method->delegates[i];
		struct verdict verdict = judge(in, method, i);
		json_t *row = json_pack("{s:o, s:I, s:b}", "backend", ctl_json_text(delegate->id), "payload_bytes",
			(json_int_t)delegate->n_bytes, "available", verdict.is_available);
		if (verdict.target[0])
			json_object_set_new(row, "target", ctl_json_text(verdict.target));
		if (verdict.text[0])
			json_object_set_new(row, "reason", ctl_json_text(verdict.text));
		json_array_append_new(delegates, row);
	}
	for (uint32_t i = 0; i < method->n_arenas; i++)
		json_array_append_new(arenas, json_integer((json_int_t)method->arena_bytes[i]));
	json_object_set_new(json, "name", ctl_json_text(method->name));
	json_object_set_new(json, "inputs", ios_json(method, method->inputs, method->n_inputs));
	json_object_set_new(json, "outputs", ios_json(method, method->outputs, method->n_outputs));
	json_object_set_new(json, "instructions", json_integer(method->n_instructions));
	json_object_set_new(json, "operators", operators);
	json_object_set_new(json, "delegates", delegates);
	json_object_set_new(json, "arena_bytes", arenas);
	json_object_set_new(json, "plan", plan_json(in, method));
	return json;
}

static json_t *suites_json(const struct et_bundle *bundle)
{
	json_t *array = json_array();
	for (uint32_t i = 0; i < bundle->n_suites; i++)
		json_array_append_new(array, json_pack("{s:o, s:i}", "method", ctl_json_text(bundle->suites[i].method),
						     "cases", (int)bundle->suites[i].n_cases));
	return array;
}

static int print_json(struct inspect *in)
{
	struct et_program_stats stats;
	json_t *json, *methods = json_array();
	et_program_stats(in->program, &stats);
	for (uint32_t i = 0; i < et_program_n_methods(in->program); i++)
		json_array_append_new(methods, method_json(in, et_program_method_at(in->program, i)));
	json = json_pack("{s:o, s:s, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:o}", "path", ctl_json_text(in->file.path),
		"format", in->file.is_bundle ? "bpte" : "pte", "schema_version", (int)stats.version, "file_bytes",
		(json_int_t)in->file.source.n_bytes, "program_bytes", (json_int_t)stats.n_file_bytes, "constant_bytes",
		(json_int_t)stats.n_constant_bytes, "payload_bytes", (json_int_t)stats.n_payload_bytes, "named_data",
		(int)stats.n_named_data, "segments", (int)stats.n_segments, "methods", methods);
	if (in->file.is_bundle)
		json_object_set_new(json, "suites", suites_json(&in->file.bundle));
	if (in->file.n_data) {
		json_t *data = json_array();
		for (size_t i = 0; i < in->file.n_data; i++)
			json_array_append_new(data, ctl_json_text(in->file.data_paths[i]));
		json_object_set_new(json, "data_files", data);
		json_object_set_new(json, "data_bytes",
			json_integer((json_int_t)et_platform_data_n_bytes(in->file.data)));
	}
	return ctl_print_json(json);
}

/* --- text ----------------------------------------------------------------------------------------- */

/* model.conf beside the file; NULL: there is none, or @ret_error has its mistake. */
static struct inf_model_conf *find_conf(const struct inspect *in, struct inf_config_error *ret_error)
{
	const char *slash = strrchr(in->file.path, '/');
	char *path = ctl_format("%.*smodel.conf", slash ? (int)(slash + 1 - in->file.path) : 0, in->file.path);
	struct inf_model_conf *conf = inf_model_conf_new();
	int rc = conf ? inf_model_conf_load(conf, path, false, ret_error) : -ENOMEM;
	if (rc == -ENOENT)
		ret_error->text[0] = '\0';
	free(path);
	return rc < 0 ? inf_model_conf_unref(conf) : conf;
}

static void print_described(const struct inf_model_conf *conf)
{
	for (uint32_t i = 0; i < conf->n_ios; i++) {
		const struct inf_model_conf_io *io = &conf->ios[i];
		printf("    %-6s %2u  %s", io->is_input ? "input" : "output", io->index,
			io->name[0] ? ctl_safe(io->name) : "-");
		if (io->n_labels)
			printf(", %u labels: %s, ...", io->n_labels, ctl_safe(io->labels[0]));
		if (io->layout[0])
			printf(", %s %s image", io->layout, io->colour);
		for (uint32_t c = 0; c < io->n_scale; c++)
			printf("%s%g * pixel %+g", c ? "; " : ": ", io->scale[c], io->offset[c]);
		putchar('\n');
	}
}

static void print_ios(const char *word, const struct et_method_spec *method, const uint32_t *slots, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		char text[CTL_VALUE_TEXT];
		bool is_dynamic;
		struct ctl_value value = describe(method, slots[i], &is_dynamic);
		if (value.tag == ET_TAG_TENSOR)
			printf("    %-6s %2u  %s%s  %s\n", word, i, ctl_value_text(text, &value),
				is_dynamic ? ", at most" : "", ctl_bytes(value.n_bytes));
		else
			printf("    %-6s %2u  %s\n", word, i, et_tag_name(value.tag));
	}
}

static void print_operators(const struct inspect *in, const struct et_method_spec *method)
{
	const struct ctl *ctl = in->ctl;
	unsigned *n_calls = count_calls(method);
	const char *about = NULL;
	for (uint32_t i = 0; i < method->n_operators; i++) {
		const char *name = method->operators[i];
		bool is_here = ctl_backends_has_kernel(&in->backends, name);
		printf("    %5u x  %s%s%s%s\n", n_calls[i], ctl_safe(name), is_here ? "" : ctl_red(ctl),
			is_here ? "" : "  not available", ctl_plain(ctl));
		if (!is_here && !about)
			about = et_known_operator_text(name);
	}
	if (about)
		printf("    %s%s%s\n", ctl_red(ctl), about, ctl_plain(ctl));
	free(n_calls);
}

/* Print one line for all delegates with the same backend and the same judgement. */
static void print_delegates(struct inspect *in, const struct et_method_spec *method)
{
	const struct ctl *ctl = in->ctl;
	struct verdict *verdicts = ctl_alloc(method->n_delegates, sizeof(*verdicts));
	for (uint32_t i = 0; i < method->n_delegates; i++)
		verdicts[i] = judge(in, method, i);
	for (uint32_t i = 0; i < method->n_delegates; i++) {
		const struct verdict *verdict = &verdicts[i];
		unsigned n = 0;
		size_t n_bytes = 0;
		bool is_first = true;
		for (uint32_t k = 0; k < method->n_delegates; k++) {
			if (strcmp(method->delegates[k].id, method->delegates[i].id) != 0 ||
				strcmp(verdicts[k].text, verdict->text) != 0)
				continue;
			is_first = is_first && k >= i;
			n++;
			n_bytes += method->delegates[k].n_bytes;
		}
		if (!is_first)
			continue;
		printf("    exported for %s", ctl_safe(method->delegates[i].id));
		if (verdict->target[0])
			printf(" (%s)", ctl_safe(verdict->target));
		printf(": %u payload%s, %s", n, n == 1 ? "" : "s", ctl_bytes(n_bytes));
		if (!verdict->is_available)
			printf("; %snot available: %s%s", ctl_red(ctl), ctl_safe(verdict->text), ctl_plain(ctl));
		else if (verdict->text[0])
			printf("; %s%s%s", ctl_yellow(ctl), ctl_safe(verdict->text), ctl_plain(ctl));
		putchar('\n');
	}
	free(verdicts);
}

static void print_cannot_run(const struct ctl *ctl, const char *why)
{
	printf("    %scannot run here: %s%s\n", ctl_yellow(ctl), ctl_safe(why), ctl_plain(ctl));
}

/* How long the run may stay in one instruction: a kernel's loops end early, but a delegate's call does not. */
static void print_longest(const struct et_method_spec *method, const struct et_plan_info *info)
{
	if (count_op(method, ET_OP_KERNEL))
		printf("    time   the longest kernel call: about %.2g steps at the largest sizes, roughly %.2g s on one "
		       "core\n",
			(double)info->n_likely_steps, (double)info->n_likely_steps / 1e9);
	if (count_op(method, ET_OP_DELEGATE))
		printf("    time   a delegate call is not interrupted; its length is not estimated\n");
}

static void print_memory(struct inspect *in, const struct et_method_spec *method)
{
	struct et_plan *plan = NULL;
	struct et_diag diag = { 0 };
	enum et_status status;

	printf("    memory ");
	for (uint32_t i = 1; i < method->n_arenas; i++)
		printf("%sarena %u: %s", i > 1 ? ", " : "", i, ctl_bytes(method->arena_bytes[i]));
	if (method->n_arenas < 2)
		printf("no arena");
	status = et_plan_new(&plan, in->program, method->name, &in->backends.registry, NULL, 1, et_platform_allocator(),
		&diag);
	if (status == ET_OK) {
		const struct et_plan_info *info = et_plan_info(plan);
		unsigned n_copied = 0;
		for (uint32_t i = 0; i < info->n_inputs; i++)
			n_copied += info->inputs[i].tag == ET_TAG_TENSOR && !info->inputs[i].zero_copy;
		for (uint32_t i = 0; i < info->n_outputs; i++)
			n_copied += info->outputs[i].tag == ET_TAG_TENSOR && !info->outputs[i].zero_copy;
		printf("\n    once   %s plan, %s compiled payloads, %s constants copied for alignment\n"
		       "    client %s state%s%s\n    run    %s activations, %s values; first queue %s; %u "
		       "input%s copied\n",
			ctl_bytes(info->n_plan_bytes), ctl_bytes(info->n_delegate_bytes),
			ctl_bytes(info->n_copied_constant_bytes), ctl_bytes(info->n_state_bytes),
			info->is_stateful ? " (stateful: requests of one Method run one after the other)" : "",
			info->n_shared_bytes ? "; methods of this program can share their buffers" : "",
			ctl_bytes(info->n_activation_bytes), ctl_bytes(info->n_value_table_bytes),
			et_queue_kind_name(info->first_queue.kind), n_copied,
			n_copied == 1 ? " or output" : "s or outputs");
		print_longest(method, info);
		et_plan_unref(plan);
	} else {
		putchar('\n');
		print_cannot_run(in->ctl, diag.text[0] ? diag.text : et_status_text(status));
	}
}

static void print_text(struct inspect *in)
{
	const struct ctl *ctl = in->ctl;
	struct et_program_stats stats;
	et_program_stats(in->program, &stats);
	printf("%s%s%s: %s, schema version %u, %s\n", ctl_bold(ctl), ctl_safe(in->file.path), ctl_plain(ctl),
		in->file.is_bundle ? "bundled program" : "program", stats.version, ctl_bytes(in->file.source.n_bytes));
	printf("  constants %s, payloads %s; segments %u, named data %u\n", ctl_bytes(stats.n_constant_bytes),
		ctl_bytes(stats.n_payload_bytes), stats.n_segments, stats.n_named_data);
	for (size_t i = 0; i < in->file.n_data; i++)
		printf("  data file %s\n", ctl_safe(in->file.data_paths[i]));
	for (uint32_t i = 0; i < et_program_n_methods(in->program); i++) {
		const struct et_method_spec *method = et_program_method_at(in->program, i);
		if (method->why_not) {
			printf("  method %s%s%s\n", ctl_bold(ctl), ctl_safe(method->name), ctl_plain(ctl));
			print_cannot_run(ctl, method->why_not);
			continue;
		}
		printf("  method %s%s%s: %u instruction%s (kernel %u, delegate %u, move %u, jump %u)\n", ctl_bold(ctl),
			ctl_safe(method->name), ctl_plain(ctl), method->n_instructions,
			method->n_instructions == 1 ? "" : "s", count_op(method, ET_OP_KERNEL),
			count_op(method, ET_OP_DELEGATE), count_op(method, ET_OP_MOVE),
			count_op(method, ET_OP_JUMP_FALSE));
		print_ios("input", method, method->inputs, method->n_inputs);
		print_ios("output", method, method->outputs, method->n_outputs);
		print_delegates(in, method);
		print_operators(in, method);
		print_memory(in, method);
	}
	for (uint32_t i = 0; in->file.is_bundle && i < in->file.bundle.n_suites; i++)
		printf("  %u test case%s for %s\n", in->file.bundle.suites[i].n_cases,
			in->file.bundle.suites[i].n_cases == 1 ? "" : "s", ctl_safe(in->file.bundle.suites[i].method));
	struct inf_config_error error = { "" };
	struct inf_model_conf *conf = find_conf(in, &error);
	if (conf) {
		printf("  model.conf beside it\n");
		print_described(conf);
	} else if (error.text[0]) {
		printf("  %s%s%s\n", ctl_red(ctl), ctl_safe(error.text), ctl_plain(ctl));
	}
	inf_model_conf_unref(conf);
}

static int inspect(struct inspect *in, const char *path, const struct ctl_strings *data)
{
	struct et_diag diag = { 0 };
	char text[700];
	int rc = CTL_OK;
	const char *foreign = et_platform_foreign_file(path);

	if (foreign)
		return ctl_fail("%s is %s", path, foreign);
	if (ctl_file_open(&in->file, path, data, &diag) != ET_OK)
		return ctl_fail("%s%s", diag.text,
			ctl_is_path(path) ? "" : "; inspect takes a file, not the name of a model");
	if (ctl_file_find_data(&in->file, &diag) != ET_OK ||
		ctl_file_program(&in->file, NULL, &in->program, &diag) != ET_OK) {
		ctl_file_close(&in->file);
		return ctl_fail("%s", diag.text);
	}
	in->log = et_platform_log(ET_LOG_ERROR);
	if (in->graph) {
		rc = ctl_graph_print(in->program, ctl_graph_form(in->graph));
		et_program_unref(in->program);
		ctl_file_close(&in->file);
		return rc;
	}
	if (ctl_backends_open(&in->backends, &in->log, in->config, NULL, text, sizeof(text)) < 0 ||
		ctl_backends_want(&in->backends, in->program, text, sizeof(text)) < 0)
		rc = ctl_fail("%s", text);
	else if (in->ctl->is_json)
		rc = print_json(in);
	else
		print_text(in);
	et_program_unref(in->program);
	ctl_backends_close(&in->backends);
	ctl_file_close(&in->file);
	return rc;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	struct inspect in = { .ctl = ctl };
	struct ctl_strings data = { 0 };
	const struct ctl_option rows[] = {
		{ "data", 'd', CTL_STRINGS, &data, "FILE",
			"a data file (.ptd) of the program (default: those beside it)" },
		{ "config", 0, CTL_STRING, &in.config, "FILE", "use the plug-ins of this configuration of the daemon" },
		{ "graph", 0, CTL_STRING, &in.graph, "FORM",
			"print the graphs of payloads for GPUs instead: text, simplified or dot" },
		{ NULL },
	};
	int rc;
	const char *path = ctl_parse_one(ctl, rows, argc, argv, "one .pte or .bpte file", &rc);

	if (path && in.graph && ctl_graph_form(in.graph) == CTL_N_GRAPH_FORMS)
		rc = ctl_misuse(ctl, "--graph takes text, simplified or dot, not '%s'", in.graph);
	else if (path)
		rc = inspect(&in, path, &data);
	ctl_strings_deinit(&data);
	return rc;
}

const struct ctl_command ctl_inspect_command = {
	.name = "inspect",
	.arguments = "[--data FILE]... [--config FILE] [--graph FORM] FILE",
	.summary = "Show what is in a model file (.pte, .bpte) and whether it can run here",
	.help = "Shows the methods with their inputs and outputs, the operators and how often each is called, the\n"
		"backends that it was exported for, its memory, and the test cases of a bundled program. Needs no daemon\n"
		"and no backend. If the file needs a backend or an operator that is not built in, the plug-ins of the\n"
		"daemon's configuration are started.\n",
	.run = run,
};
