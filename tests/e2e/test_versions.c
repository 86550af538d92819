/* SPDX-License-Identifier: BSD-3-Clause */
/* Which version of a model serves: the daemon says it, keeps the last good one, and ignores what is no version. */
#include "tests/e2e/harness.h"

#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry of the index; valid until the next call through the watcher. */
static struct inf_model_index find_entry(struct e2e *e, const char *model, const char *version)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	assert_int_equal(reply.kind, INF_REPLY_REPOSITORY_INDEX);
	assert_string_equal(reply.repository_index.folder, e->models);
	for (size_t i = 0; i < reply.repository_index.n_models; i++)
		if (strcmp(reply.repository_index.models[i].name, model) == 0 &&
			strcmp(reply.repository_index.models[i].version, version) == 0)
			return reply.repository_index.models[i];
	fail_msg("no entry for %s/%s", model, version);
	return (struct inf_model_index){ 0 };
}

static void expect_text(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' does not say '%s'", text, part);
}

/* Open the model as new clients do, and infer: it multiplies by @factor. */
static void expect_factor(struct e2e *e, const char *model, float factor)
{
	int rc;
	struct inferd *d = e2e_connect(e);
	struct inferd_binding *b = e2e_bind(d, model, NULL);
	assert_true(e2e_infer(b, 2, &rc) == 2 * factor);
	inferd_close(d);
}

static bool has_digest(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 1 && strcmp(status->programs[0].digest, arg) == 0;
}

static bool warns(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_warnings; i++)
		if (strstr(status->warnings[i], arg))
			return true;
	return false;
}

static void test_which_file(void **state)
{
	struct e2e e;
	size_t n;
	char digest[ET_PLATFORM_DIGEST], path[160];
	uint8_t *program = e2e_program_double(&n);
	et_platform_digest(program, n, digest);
	free(program);
	e2e_init(&e);
	e2e_put_program(&e, "m/1/b.pte", e2e_program_double);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	e2e_put_program(&e, "m/1.bak/a.pte", e2e_program_triple);
	e2e_put(&e, "m/1/net.onnx", "\x08\x07\x12\x07pytorch", 11);
	e2e_start(&e, "");
	expect_factor(&e, "m", 2);
	e2e_until(&e, has_digest, digest);
	struct inf_model_index entry = find_entry(&e, "m", "1");
	snprintf(path, sizeof(path), "%s/m/1/a.pte", e.models);
	assert_true(entry.serves);
	assert_string_equal(entry.file, path);
	assert_string_equal(entry.digest, digest);
	assert_string_equal(entry.note, "");
	expect_text(entry.passed_over, "b.pte (portable): it has the same backend, and its name comes later");
	entry = find_entry(&e, "m", "1.bak");
	assert_string_equal(entry.state, "IGNORED");
	expect_text(entry.reason, "no whole number");
	e2e_put_program(&e, "m/1/a.pte", e2e_program_triple);
	expect_text(find_entry(&e, "m", "1").note, "its file on disk is newer than what is loaded; 'inferctl load m'");
	e2e_put_program(&e, "m/2/a.pte", e2e_program_triple);
	expect_text(find_entry(&e, "m", "1").note, "version 2 is in the folder and is not loaded; 'inferctl load m'");
	e2e_until(&e, warns, "model m: version 2 is in the folder");
	expect_factor(&e, "m", 2); /* nobody said that the files are whole */
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	expect_factor(&e, "m", 3);
	assert_true(find_entry(&e, "m", "2").serves);
	e2e_deinit(&e);
}

static void test_last_good(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	e2e_put_program(&e, "m/2/a.pte", e2e_program_unknown);
	e2e_put(&e, "m/3/a.pte", "PK\3\4 and more", 13);
	e2e_start(&e, "");
	expect_factor(&e, "m", 2);
	struct inf_model_index entry = find_entry(&e, "m", "1");
	assert_true(entry.serves);
	expect_text(entry.note, "model 'm' can't be loaded: a.pte: it is a zip file");
	expect_text(entry.note, "version 1 serves instead");
	entry = find_entry(&e, "m", "3");
	assert_string_equal(entry.state, "FAILED");
	expect_text(entry.reason, "tools/export");
	assert_string_equal(find_entry(&e, "m", "2").state, "FAILED");
	e2e_until(&e, warns, "version 1 serves instead");
	/* an administrator is told that the newest version does not load */
	assert_int_equal(e2e_load(&e, "m"), INF_FAILED_PRECONDITION);
	expect_factor(&e, "m", 2);
	/* whoever wants that version and no other is refused */
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	assert_int_equal(inferd_method_open(d, &method, "m",
				 &(struct inferd_method_options){
					 .struct_size = sizeof(struct inferd_method_options), .version = "3" }),
		-INFERD_FAILED_PRECONDITION);
	inferd_close(d);
	/* the warning goes when the newest version is good */
	e2e_put_program(&e, "m/3/a.pte", e2e_program_triple);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	expect_factor(&e, "m", 3);
	assert_string_equal(find_entry(&e, "m", "3").note, "");
	/* a good version whose file becomes a broken one goes on as it was loaded */
	e2e_put(&e, "m/3/a.pte", "broken, and long enough to be read", 34);
	assert_int_equal(e2e_load(&e, "m"), INF_FAILED_PRECONDITION);
	expect_factor(&e, "m", 3);
	expect_text(find_entry(&e, "m", "3").note, "version 3 goes on serving as it was loaded");
	e2e_deinit(&e);
}

/* FP32[4] as well, but two inputs. */
static void test_other_inputs(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	assert_true(e2e_put_file(&e, "m/1/b.bpte", TEST_MODELS "/small/two_methods_cond.bpte"));
	e2e_start(&e, "");
	expect_factor(&e, "m", 2);
	expect_text(find_entry(&e, "m", "1").passed_over,
		"b.bpte (portable): its inputs or outputs differ from those of "
		"a.pte");
	e2e_deinit(&e);
}

static void test_bad_version(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	e2e_put(&e, "zip/1/net.pt", "PK\3\4....", 8);
	e2e_start(&e, "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_method_options options = { .struct_size = sizeof(options), .version = "1.bak" };
	assert_int_equal(inferd_method_open(d, &method, "m", &options), -INFERD_INVALID_ARGUMENT);
	expect_text(inferd_error(d), "versions are whole numbers");
	assert_int_equal(inferd_method_open(d, &method, "zip", NULL), -INFERD_NOT_FOUND);
	expect_text(inferd_error(d), "model 'zip' has no program");
	inferd_close(d);
	e2e_deinit(&e);
}

static void put_text(struct e2e *e, const char *name, const char *text)
{
	e2e_put(e, name, text, strlen(text));
}

/* A reload decides which version new clients get, also if another one serves already. */
static void test_reload_decides(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	e2e_put_program(&e, "m/2/a.pte", e2e_program_triple);
	e2e_start(&e, "");
	expect_factor(&e, "m", 3);
	e2e_reload(&e, "[model m]\nversion = 1\n");
	expect_factor(&e, "m", 2);
	e2e_reload(&e, "[model m]\nversion = latest\n");
	expect_factor(&e, "m", 3);
	e2e_reload(&e, "[model m]\nversion = 1\n");
	expect_factor(&e, "m", 2);
	e2e_reload(&e, "");
	expect_factor(&e, "m", 3);
	e2e_deinit(&e);
}

/* A variant that is put beside a loaded one, and comes before it, serves when an administrator says so. */
static void test_better_variant(void **state)
{
	struct e2e e;
	char path[160];
	e2e_init(&e);
	e2e_put_program(&e, "m/1/b.pte", e2e_program_double);
	e2e_start(&e, "");
	struct inferd *d = e2e_connect(&e);
	int rc;
	struct inferd_binding *keeps = e2e_bind(d, "m", NULL);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_triple);
	expect_factor(&e, "m", 2);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	expect_factor(&e, "m", 3);
	snprintf(path, sizeof(path), "%s/m/1/a.pte", e.models);
	assert_string_equal(find_entry(&e, "m", "1").file, path);
	assert_true(e2e_infer(keeps, 2, &rc) == 4 && rc == 0);
	inferd_close(d);
	e2e_deinit(&e);
}

/* What a version consists of besides its programs may be newer, too. */
static void test_newer_parts(void **state)
{
	static const char data[] = "its data (.ptd) on disk is newer than what is loaded; 'inferctl load m' loads that";
	static const char conf[] = "its model.conf on disk is newer than what is loaded; 'inferctl load m' loads that";
	static const char *const files[] = { "m/model.conf", "m/1/model.conf" };
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	assert_true(e2e_put_file(&e, "m/1/w.ptd", TEST_MODELS "/data_files/weights.ptd"));
	e2e_start(&e, "");
	expect_factor(&e, "m", 2);
	assert_string_equal(find_entry(&e, "m", "1").note, "");
	for (int i = 0; i < 4; i++) {
		if (i < 3) /* new, or another one */
			put_text(&e, files[i % 2], i < 2 ? "[model]\nwarm_up = 1\n" : "[model]\nwarm_up = 10\n");
		else
			assert_true(e2e_put_file(&e, "m/1/x.ptd", TEST_MODELS "/data_files/weights.ptd"));
		e2e_until(&e, warns, i < 3 ? conf : data); /* without a look at the index, which would find it itself */
		expect_text(find_entry(&e, "m", "1").note, i < 3 ? conf : data);
		assert_int_equal(e2e_load(&e, "m"), INF_OK);
		assert_string_equal(find_entry(&e, "m", "1").note, "");
	}
	expect_factor(&e, "m", 2);
	e2e_deinit(&e);
}

/* What the model's author says reaches clients; inferd.conf wins; a mistake concerns that model alone. */
static void test_model_conf(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	e2e_put_program(&e, "m/2/a.pte", e2e_program_triple);
	e2e_put_program(&e, "bad/1/a.pte", e2e_program_double);
	e2e_put_program(&e, "wrong/1/a.pte", e2e_program_double);
	e2e_put_program(&e, "other/1/a.pte", e2e_program_double);
	e2e_put_program(&e, "other/2/a.pte", e2e_program_triple);
	put_text(&e, "m/model.conf", "[model]\nversion = 1\nwarm_up = 3\n[input 0]\nname = everywhere\n");
	put_text(&e, "m/1/model.conf", "[input 0]\nname = sound\n[output 0]\nlabels_file = l.txt\n");
	put_text(&e, "m/1/l.txt", "a\nb\nc\n");
	put_text(&e, "bad/model.conf", "[model]\nwarmup = 1\n");
	put_text(&e, "wrong/1/model.conf", "[input 0]\nlayout = NCHW\ncolour = RGB\n");
	put_text(&e, "other/model.conf", "[model]\nversion = 1\n");
	e2e_start(&e, "[model other]\nversion = latest\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	assert_true(e2e_infer(b, 2, &rc) == 4);
	assert_string_equal(inferd_method_version(method), "1");
	const struct inferd_tensor_info *in = inferd_input_info(method, 0), *out = inferd_output_info(method, 0);
	assert_string_equal(in->name, "sound");
	assert_null(in->layout);
	assert_int_equal(in->n_channels, 0);
	assert_string_equal(out->name, "output_0");
	assert_int_equal(out->n_labels, 3);
	assert_string_equal(out->labels[2], "c");
	expect_text(find_entry(&e, "m", "1").passed_over, "'version = 1' of m/model.conf");
	assert_string_equal(find_entry(&e, "m", "1").note, "");
	assert_int_equal(inferd_method_open(d, &method, "bad", NULL), -INFERD_FAILED_PRECONDITION);
	expect_text(inferd_error(d), "/bad/model.conf:2: unknown key 'warmup'");
	assert_int_equal(inferd_method_open(d, &method, "wrong", NULL), -INFERD_FAILED_PRECONDITION);
	expect_text(inferd_error(d), "/wrong/1/model.conf:1: [input 0]: it has not the form NCHW with 3 channels");
	inferd_close(d);
	expect_factor(&e, "other", 3); /* inferd.conf wins */
	/* a changed description counts from the next load on */
	put_text(&e, "m/1/model.conf", "[input 0]\nname = noise\n");
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	d = e2e_connect(&e);
	assert_int_equal(inferd_method_open(d, &method, "m", NULL), 0);
	assert_string_equal(inferd_input_info(method, 0)->name, "noise");
	inferd_close(d);
	e2e_deinit(&e);
}

static int open_on(struct inferd *d, struct inferd_method **ret, const char *backend)
{
	return inferd_method_open(d, ret, "m",
		&(struct inferd_method_options){
			.struct_size = sizeof(struct inferd_method_options), .backend = backend });
}

/* A client names backends in its own order. */
static void test_backends(void **state)
{
	struct e2e e;
	struct inferd_method *method;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_double);
	e2e_start(&e, "");
	struct inferd *d = e2e_connect(&e);
	assert_int_equal(open_on(d, &method, "npu, portable"), 0);
	assert_string_equal(inferd_method_backend(method), "portable");
	assert_int_equal(open_on(d, &method, "acme, gpu"), -INFERD_FAILED_PRECONDITION);
	expect_text(inferd_error(d), "No available backends from requested: [acme, gpu]. Available backends: [");
	expect_text(inferd_error(d), "XnnpackBackend, portable]");
	assert_int_equal(open_on(d, &method, "xnnpack"), -INFERD_FAILED_PRECONDITION);
	expect_text(inferd_error(d), "no variant of model 'm' can run on 'xnnpack': a.pte: it is for portable");
	inferd_close(d);
	e2e_deinit(&e);
}

/* The runs of the warm-up leave nothing behind that a client could see. */
static void test_warm_up(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_accumulate);
	put_text(&e, "m/model.conf", "[model]\nwarm_up = 1000\n");
	e2e_start(&e, "");
	expect_factor(&e, "m", 1); /* the state of the warm-up is not the client's */
	e2e_deinit(&e);
}

/* The sums of @model, of which there is one version. */
static struct inf_model_stats stats_of(struct e2e *e, const char *model)
{
	struct inf_request request = { .kind = INF_REQUEST_MODEL_STATISTICS, .model_statistics = { model, "" } };
	struct inf_reply reply = e2e_raw_call(e->watcher, request);
	assert_int_equal(reply.status, INF_OK);
	assert_int_equal(reply.model_statistics.n_model_stats, 1);
	assert_string_equal(reply.model_statistics.model_stats[0].version, "1");
	return reply.model_statistics.model_stats[0];
}

static bool has_one_program(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 1;
}

/* A version that is loaded twice beside each other, and anew later, keeps what was counted of each load. */
static void test_statistics_never_fall(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/m.pte", e2e_program_double);
	e2e_start(&e, "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", NULL);
	assert_true(e2e_infer(b, 2, &rc) == 4);
	e2e_put_program(&e, "m/1/m.pte", e2e_program_triple);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	expect_factor(&e, "m", 3);
	assert_true(e2e_infer(b, 2, &rc) == 4); /* both files are loaded */
	struct inf_model_stats both = stats_of(&e, "m");
	assert_int_equal(both.inference_count, 3);
	assert_int_equal(both.inference_stats.compute_infer.count, 3);
	inferd_close(d);
	e2e_until(&e, has_one_program, NULL);
	struct inf_model_stats one = stats_of(&e, "m");
	assert_int_equal(one.inference_count, 3);
	assert_true(one.inference_stats.compute_infer.ns == both.inference_stats.compute_infer.ns);
	assert_true(one.last_inference == both.last_inference);
	assert_int_equal(e2e_unload(&e, "m"), INF_OK);
	assert_int_equal(stats_of(&e, "m").inference_count, 3);
	expect_factor(&e, "m", 3);
	assert_int_equal(stats_of(&e, "m").inference_count, 4);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which_file),
		cmocka_unit_test(test_last_good),
		cmocka_unit_test(test_other_inputs),
		cmocka_unit_test(test_bad_version),
		cmocka_unit_test(test_reload_decides),
		cmocka_unit_test(test_better_variant),
		cmocka_unit_test(test_newer_parts),
		cmocka_unit_test(test_model_conf),
		cmocka_unit_test(test_backends),
		cmocka_unit_test(test_warm_up),
		cmocka_unit_test(test_statistics_never_fall),
	};
	return e2e_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
