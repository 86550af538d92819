/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl verify: run bundled programs and compare their outputs with the expected ones.
 *
 * A file passes if every test case of every method ran and every output is as expected. All cases of a method run in
 * order on one Method, because state carries over. A file that needs an operator or a backend that is not available
 * is skipped, with the missing name; it never counts as passed. A file without test cases is skipped, too.
 *
 * With --local, activations are filled with NaN before each run, so that a plan that reads data of an earlier run
 * fails here.
 *
 * The engine (engine.h) only computes; outputs are compared in this process with every engine. */
#include "clients/inferctl/compare.h"
#include "clients/inferctl/ctl.h"
#include "clients/inferctl/engine.h"
#include "clients/inferctl/find.h"
#include "clients/inferctl/raw.h"
#include "clients/inferctl/tolerances.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum verdict {
	PASSED,
	FAILED,
	SKIPPED,
};
static const char *const verdict_names[] = { "passed", "failed", "skipped" };

struct verify {
	struct ctl *ctl;
	struct ctl_engine *engine;
	struct ctl_seat *seat;
	struct ctl_raw raw;
	double atol, rtol; /* from the command line; negative: not given */
	bool is_quiet, is_verbose;
	struct ctl_strings data;
	unsigned n[3];
	json_t *files;
};

/* The result of one file. */
struct result {
	enum verdict verdict;
	unsigned n_cases, n_bad_cases;
	double excess; /* the error of the worst failure beyond its bound */
	char text[1200];
};

static void fail_case(struct result *result, double excess, const char *text)
{
	if (result->verdict != FAILED || excess > result->excess) {
		result->excess = excess;
		snprintf(result->text, sizeof(result->text), "%s", text);
	}
	result->verdict = FAILED;
}

static void describe_difference(struct result *result, const char *method, uint32_t test, uint32_t output,
	const struct ctl_value *expected, const struct ctl_difference *difference)
{
	char text[1200], position[CTL_SHAPE_TEXT], got[32], want[32];
	if (difference->what[0]) {
		snprintf(text, sizeof(text), "%s case %u, output %u: %s", method, test, output, difference->what);
		fail_case(result, 0, text);
		return;
	}
	snprintf(text, sizeof(text),
		"%s case %u, output %u at %s: got %s, expected %s (error %.3g, allowed %.3g; %zu of %zu "
		"beyond)",
		method, test, output, ctl_position_text(position, expected, difference->worst),
		ctl_number_text(got, difference->got), ctl_number_text(want, difference->expected), difference->error,
		difference->allowed, difference->n_beyond, difference->n_elements);
	fail_case(result, difference->error - difference->allowed, text);
}

/* Compare the outputs of a case and note differences in @result. -1: outputs could not be written for --raw. */
static int judge_outputs(struct verify *v, struct ctl_instance *instance, const struct et_bundle_suite *suite,
	uint32_t index, const struct ctl_tolerance *tolerance, struct result *result)
{
	const struct et_bundle_case *test = &suite->cases[index];
	bool is_bad = false;

	if (test->n_outputs > instance->n_outputs) {
		char text[256];
		snprintf(text, sizeof(text), "%s case %u: it has %u expected outputs, the method has %u", suite->method,
			index, test->n_outputs, instance->n_outputs);
		fail_case(result, INFINITY, text);
		return 0;
	}
	for (uint32_t i = 0; i < instance->n_outputs; i++) {
		struct ctl_difference difference;
		struct ctl_error error = { 0 };
		struct ctl_value got, expected = { .tag = ET_TAG_NONE };
		if (instance->engine->ops->output(instance, i, &got, &error) < 0) {
			char text[1200];
			snprintf(text, sizeof(text), "%s case %u: %s", suite->method, index, error.text);
			fail_case(result, INFINITY, text);
			return 0;
		}
		if (ctl_raw_output(&v->raw, &got) < 0)
			return -1;
		if (i < test->n_outputs)
			expected = ctl_value_from_bundle(&test->outputs[i]);
		ctl_compare(&difference, &got, &expected, tolerance);
		if (!difference.is_equal) {
			is_bad = true;
			describe_difference(result, suite->method, index, i, &expected, &difference);
		}
	}
	result->n_bad_cases += is_bad;
	return 0;
}

/* Run the cases of one method. @all: the opened methods of the file, kept open until all have run, because they may
 * share state. */
static int run_suite(struct verify *v, struct ctl_file *file, uint32_t number, struct ctl_opened *all,
	const struct ctl_tolerance *tolerance, struct result *result)
{
	const struct et_bundle_suite *suite = &file->bundle.suites[number];
	const struct ctl_engine_ops *ops = v->engine->ops;
	struct ctl_error error = { 0 };
	int rc = 0;

	ctl_raw_begin_suite(&v->raw, suite->method);
	if (ctl_opened_open(v->seat, all, number, file->path, file, suite->method, &error) < 0) {
		if (!error.is_missing)
			fail_case(result, INFINITY, error.text);
		else if (result->verdict != FAILED) {
			result->verdict = SKIPPED;
			snprintf(result->text, sizeof(result->text), "%s", error.text);
		}
		return 0;
	}
	struct ctl_instance *instance = all[number].instance;
	for (uint32_t i = 0; i < suite->n_cases && rc == 0; i++) {
		result->n_cases++;
		ctl_raw_begin_case(&v->raw);
		if (ctl_instance_set_case(instance, &suite->cases[i], &error) < 0 || ops->run(instance, &error) < 0) {
			char text[1200];
			snprintf(text, sizeof(text), "%s case %u: %s", suite->method, i, error.text);
			ctl_raw_case_error(&v->raw, error.text);
			fail_case(result, INFINITY, text);
			result->n_bad_cases++;
			/* The request was cut short and its state is lost, so later cases mean nothing. */
			if (instance->is_stateful)
				break;
			continue;
		}
		rc = judge_outputs(v, instance, suite, i, tolerance, result);
	}
	return rc;
}

static int run_file(struct verify *v, const char *path, struct result *result)
{
	struct ctl_tolerance tolerance = CTL_TOLERANCE_DEFAULT;
	struct ctl_file file = { 0 };
	struct et_diag diag = { 0 };
	bool has_cases = false;
	int rc = 0;

	if (ctl_tolerances_for(path, &tolerance, result->text, sizeof(result->text)) < 0) {
		result->verdict = FAILED;
		return 0;
	}
	if (v->atol >= 0 || v->rtol >= 0) {
		tolerance.cosine = -1;
		tolerance.argmax = false;
		tolerance.atol = v->atol >= 0 ? v->atol : tolerance.atol;
		tolerance.rtol = v->rtol >= 0 ? v->rtol : tolerance.rtol;
	}
	if (ctl_file_open(&file, path, &v->data, &diag) != ET_OK) {
		fail_case(result, INFINITY, diag.text);
		return 0;
	}
	uint32_t n_suites = file.is_bundle ? file.bundle.n_suites : 0;
	struct ctl_opened *all = ctl_alloc(n_suites, sizeof(*all));
	for (uint32_t i = 0; i < n_suites && rc == 0; i++) {
		if (file.bundle.suites[i].n_cases == 0)
			continue;
		has_cases = true;
		rc = run_suite(v, &file, i, all, &tolerance, result);
	}
	ctl_opened_close_all(v->engine, all, n_suites);
	struct et_program *program = NULL;
	if (!file.is_bundle && ctl_file_program(&file, NULL, &program, &diag) == ET_E_INVALID_PROGRAM) {
		fail_case(result, INFINITY, diag.text);
	} else if (!has_cases) {
		result->verdict = SKIPPED;
		snprintf(result->text, sizeof(result->text), "it has no test cases");
	}
	et_program_unref(program);
	ctl_file_close(&file);
	return rc;
}

static void report(struct verify *v, const char *path, const struct result *result)
{
	static const char *const marks[] = { "ok", "FAIL", "skip" };
	const struct ctl *ctl = v->ctl;
	const char *text = result->text, *colours[] = { ctl_green(ctl), ctl_red(ctl), ctl_yellow(ctl) };
	size_t n_path = strlen(path);

	/* Messages of the runtime begin with the file's name, and so does the line. */
	if (strncmp(text, path, n_path) == 0 && strncmp(text + n_path, ": ", 2) == 0)
		text += n_path + 2;
	v->n[result->verdict]++;
	if (v->files) {
		json_t *file = json_pack("{s:o, s:s, s:i, s:i}", "path", ctl_json_text(path), "verdict",
			verdict_names[result->verdict], "cases", (int)result->n_cases, "bad_cases",
			(int)result->n_bad_cases);
		if (text[0])
			json_object_set_new(file, "reason", ctl_json_text(text));
		json_array_append_new(v->files, file);
		return;
	}
	if (result->verdict == PASSED ? !v->is_verbose : result->verdict == SKIPPED && v->is_quiet)
		return;
	printf("%s%-4s%s  %s", colours[result->verdict], marks[result->verdict], ctl_plain(ctl), ctl_safe(path));
	if (text[0])
		printf(": %s", ctl_safe(text));
	if (result->n_bad_cases && result->n_cases > 1)
		printf(" [%u of %u cases]", result->n_bad_cases, result->n_cases);
	putchar('\n');
	fflush(stdout);
}

static int verify_all(struct verify *v, const struct ctl_paths *paths)
{
	struct ctl_error error = { 0 };
	int rc = 0;

	if (v->engine->ops->seat_open(v->engine, &v->seat, 0, &error) < 0)
		return ctl_fail("%s", error.text);
	for (size_t i = 0; i < paths->n && rc == 0; i++) {
		struct result result = { .verdict = PASSED };
		rc = ctl_raw_begin_file(&v->raw, paths->items[i]);
		if (rc == 0)
			rc = run_file(v, paths->items[i], &result);
		if (rc == 0) {
			ctl_raw_end_file(&v->raw, verdict_names[result.verdict]);
			report(v, paths->items[i], &result);
		}
	}
	v->engine->ops->seat_close(v->seat);
	return rc;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	struct verify v = { .ctl = ctl, .atol = -1, .rtol = -1 };
	struct ctl_engine_options options = { .n_seats = 1, .n_threads = 1, .poison = true };
	struct ctl_paths paths = { 0 };
	const char *raw = NULL;
	int rc = CTL_OK, at;
	const struct ctl_option rows[] = {
		CTL_ENGINE_OPTIONS(options),
		{ "rtol", 'r', CTL_DOUBLE, &v.rtol, "R", "relative bound: |got - expected| <= A + R |expected|" },
		{ "atol", 'a', CTL_DOUBLE, &v.atol, "A", "absolute bound" },
		{ "data", 'd', CTL_STRINGS, &v.data, "FILE",
			"a data file (.ptd) of the program (default: those beside it)" },
		{ "raw", 'o', CTL_STRING, &raw, "DIR", "write every output to DIR, with a manifest.json" },
		{ "verbose", 'v', CTL_FLAG, &v.is_verbose, NULL, "print a line for each file that passed, too" },
		{ "quiet", 'q', CTL_FLAG, &v.is_quiet, NULL, "print no line for files that were skipped" },
		{ NULL },
	};

	at = ctl_parse(ctl, rows, argc, argv, &rc);
	if (at == argc)
		rc = ctl_misuse(ctl, "name a .bpte file or a folder");
	if (at < 0 || at == argc) {
		ctl_strings_deinit(&v.data);
		return rc;
	}
	for (; at < argc; at++)
		if (ctl_paths_add(&paths, argv[at], ".bpte") < 0)
			rc = CTL_FAILED;
	if (rc == CTL_OK && !paths.n)
		rc = ctl_fail("there is no .bpte file below %s", argv[argc - 1]);
	if (rc == CTL_OK)
		rc = ctl_engine_begin(ctl, &v.engine, &options);
	if (rc == CTL_OK && ctl_raw_open(&v.raw, raw) < 0)
		rc = CTL_FAILED;
	if (rc == CTL_OK) {
		if (ctl->is_json)
			v.files = json_array();
		if (verify_all(&v, &paths) != 0 || ctl_raw_close(&v.raw) < 0)
			rc = CTL_FAILED;
	}
	if (rc == CTL_OK && ctl->is_json)
		rc = ctl_print_json(json_pack("{s:i, s:i, s:i, s:o}", "passed", (int)v.n[PASSED], "failed",
			(int)v.n[FAILED], "skipped", (int)v.n[SKIPPED], "files", v.files));
	else if (rc == CTL_OK)
		printf("%u passed, %u failed, %u skipped\n", v.n[PASSED], v.n[FAILED], v.n[SKIPPED]);
	if (v.engine)
		v.engine->ops->free(v.engine);
	ctl_paths_deinit(&paths);
	ctl_strings_deinit(&v.data);
	return rc == CTL_OK && v.n[FAILED] ? CTL_FAILED : rc;
}

const struct ctl_command ctl_verify_command = {
	.name = "verify",
	.arguments = "[--local] [OPTION...] PATH...",
	.summary = "Run bundled programs (.bpte) and compare their outputs with the expected ones",
	.help = "PATH is a .bpte file, or a folder that is searched for such files. All test cases of a method run in\n"
		"order on one Method; methods that share buffers run one after the other on the same buffers.\n"
		"\n"
		"A file passes if every output of every case is as expected: integers exactly; fp32 and fp64 within\n"
		"rtol 1e-3, atol 1e-4; fp16 and bf16 within rtol 1e-2, atol 1e-3; NaN equals NaN; infinities have the same\n"
		"sign. A tolerances.txt beside a file, or in a folder above it, replaces these bounds, and --rtol and\n"
		"--atol replace both. A program that needs an operator or a backend that is not available is skipped.\n\n"
		"The last line counts files: 'N passed, N failed, N skipped'. The exit status is 1 if a file failed.\n",
	.run = run,
};
