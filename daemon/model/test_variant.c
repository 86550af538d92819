/* SPDX-License-Identifier: BSD-3-Clause */
/* The models' folder: which models and versions it holds, and which names are refused. */
#include "daemon/model/variant.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64];

static void put_text(const char *name, const char *text, size_t n)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0755);
		*at = '/';
	}
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fwrite(text, 1, n, file);
	assert_int_equal(fclose(file), 0);
}

static void put(const char *name)
{
	put_text(name, "x", 1);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

static int make_folder(void **state)
{
	static const char *const names[] = { "a/1/x.pte", "a/1/y.pte", "a/2/x.pte", "a/10/x.pte", "a/10/notes.txt",
		"b/only.bpte", "c.pte", "d/empty/readme", "e/1/.hidden.pte", "f/7/x.pte", "f/direct.pte", ".g/1/x.pte",
		"h.txt", "i/1/folder.pte/inner", "v/1/x.pte", "v/3/x.pte", "v/1.bak/x.pte", "v/beta/x.pte",
		"v/03/x.pte", "v/3000000000/x.pte", "v/notes/readme" };
	snprintf(folder, sizeof(folder), "/tmp/test_variant.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	for (size_t i = 0; i < ET_ARRAY_LEN(names); i++)
		put(names[i]);
	put_text("j/1/net.pth", "PK\3\4....", 8);
	put_text("k.onnx", "\x08\x08\x12\x07pytorch", 11);
	put_text("l/7/net.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", 57);
	return 0;
}

static int remove_folder(void **state)
{
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void expect(const char *model, const char *version, const char *is_version, uint32_t n, const char *first)
{
	struct inf_variants v;
	bool is_found = inf_variants_find(&v, folder, model, version);
	if (is_found != (n > 0) || v.n != n)
		fail_msg("%s/%s: %u files, expected %u", model, version, v.n, n);
	if (n) {
		assert_string_equal(v.version, is_version);
		assert_string_equal(v.items[0].file, first);
	}
	inf_variants_deinit(&v);
}

static void test_find(void **state)
{
	expect("a", "1", "1", 2, "x.pte");
	expect("a", "", "10", 1, "x.pte"); /* the newest by number, not by letter */
	expect("a", "3", "", 0, NULL);
	expect("b", "", "1", 1, "only.bpte");
	expect("b", "1", "1", 1, "only.bpte");
	expect("c", "", "1", 1, "c.pte");
	expect("c", "2", "", 0, NULL);
	expect("d", "", "", 0, NULL);
	expect("e", "", "", 0, NULL);
	expect("f", "", "7", 1, "x.pte");
	expect("f", "1", "1", 1, "direct.pte");
	expect("h", "", "", 0, NULL);
	expect("i", "", "", 0, NULL);
	expect("nothing", "", "", 0, NULL);
	expect("v", "", "3", 1, "x.pte"); /* and not 1.bak, beta, 03, or a number beyond all versions */
	expect("v", "1.bak", "", 0, NULL);
	expect("v", "03", "", 0, NULL);
}

static void expect_older(const char *model, const char *than, const char *version)
{
	struct inf_variants v;
	assert_int_equal(inf_variants_find_older(&v, folder, model, than), version != NULL);
	if (version)
		assert_string_equal(v.version, version);
	inf_variants_deinit(&v);
}

static void test_older(void **state)
{
	expect_older("a", "10", "2");
	expect_older("a", "2", "1");
	expect_older("a", "1", NULL);
	expect_older("f", "7", "1"); /* its own folder */
	expect_older("b", "1", NULL);
}

static void test_ignored(void **state)
{
	static const struct {
		const char *model, *version, *text;
	} expected[] = { { "e", "1", "no program" }, { "i", "1", "no program" }, { "j", "1", "no program" },
		{ "j", "1", "net.pth is a zip file" }, { "k.onnx", "", "an ONNX model" }, { "l", "7", "no program" },
		{ "l", "7", "net.bin is a pointer of git-lfs" }, { "v", "03", "no whole number" },
		{ "v", "1.bak", "no whole number" }, { "v", "3000000000", "no whole number" },
		{ "v", "beta", "no whole number" } };
	struct inf_variants *models;
	size_t n, n_ignored = 0;
	assert_int_equal(inf_variants_scan(folder, &models, &n), 0);
	for (size_t i = 0; i < n; i++) {
		const struct inf_variants *v = &models[i];
		if (v->ignored) {
			assert_true(n_ignored < ET_ARRAY_LEN(expected));
			assert_string_equal(v->model, expected[n_ignored].model);
			assert_string_equal(v->version, expected[n_ignored].version);
			if (!strstr(v->ignored, expected[n_ignored].text))
				fail_msg("'%s' does not say '%s'", v->ignored, expected[n_ignored].text);
			assert_int_equal(v->n, 0);
			n_ignored++;
		}
		inf_variants_deinit(&models[i]);
	}
	free(models);
	assert_int_equal(n_ignored, ET_ARRAY_LEN(expected));
}

/* A folder that this process may not read does not count as absent. */
static void test_denied(void **state)
{
	char path[128], own[128];
	struct inf_variants v, *models;
	size_t n, n_denied = 0;
	if (geteuid() == 0 && seteuid(65534) < 0)
		skip();
	if (chmod(folder, 0755) < 0) { /* it is root's: so is what is in it */
		assert_int_equal(seteuid(0), 0);
		assert_int_equal(chmod(folder, 0755), 0);
		snprintf(path, sizeof(path), "%s/a/10", folder);
		assert_int_equal(chmod(path, 0700), 0);
		snprintf(own, sizeof(own), "%s/b", folder);
		assert_int_equal(chmod(own, 0700), 0);
		assert_int_equal(seteuid(65534), 0);
	} else {
		snprintf(path, sizeof(path), "%s/a/10", folder);
		snprintf(own, sizeof(own), "%s/b", folder);
		assert_int_equal(chmod(path, 0), 0);
		assert_int_equal(chmod(own, 0), 0);
	}
	assert_true(inf_variants_find(&v, folder, "a", "")); /* an older version, and says so */
	assert_string_equal(v.version, "2");
	assert_string_equal(v.denied, path);
	inf_variants_deinit(&v);
	assert_false(inf_variants_find(&v, folder, "a", "10"));
	assert_string_equal(v.denied, path);
	inf_variants_deinit(&v);
	assert_false(inf_variants_find(&v, folder, "b", ""));
	assert_string_equal(v.denied, own);
	inf_variants_deinit(&v);
	assert_false(inf_variants_find(&v, folder, "nothing", ""));
	assert_null(v.denied);
	inf_variants_deinit(&v);
	assert_int_equal(inf_variants_scan(folder, &models, &n), 0);
	for (size_t i = 0; i < n; i++) {
		if (models[i].denied) {
			n_denied++;
			assert_string_equal(models[i].model, "b");
			assert_string_equal(models[i].denied, own);
			assert_int_equal(models[i].n, 0);
		}
		inf_variants_deinit(&models[i]);
	}
	free(models);
	assert_int_equal(n_denied, 1);
	if (geteuid() == 65534 && getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(chmod(own, 0755), 0);
}

static void test_names(void **state)
{
	static const char *const bad[] = { "", ".", "..", ".g", "a/1", "/etc", "../x", "a/../a" };
	char long_name[400];
	for (size_t i = 0; i < ET_ARRAY_LEN(bad); i++) {
		assert_false(inf_model_name_is_valid(bad[i]));
		expect(bad[i], "", "", 0, NULL);
		if (bad[i][0])
			expect("a", bad[i], "", 0, NULL);
	}
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_false(inf_model_name_is_valid(long_name));
	assert_true(inf_model_name_is_valid("efficientnet_lite0-int8.v2 (new)"));
}

static void test_scan(void **state)
{
	static const char *const expected[] = { "a/1", "a/2", "a/10", "b/1", "c/1", "f/7", "f/1", "v/1", "v/3" };
	struct inf_variants *models;
	char name[600];
	size_t n, n_models = 0;
	assert_int_equal(inf_variants_scan(folder, &models, &n), 0);
	/* a list of the whole folder keeps room for what it found, not for what there might be */
	assert_true(malloc_usable_size(models[0].items) < 4 * models[0].n * sizeof(*models[0].items));
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", models[i].model, models[i].version);
		if (models[i].ignored) {
			inf_variants_deinit(&models[i]);
			continue;
		}
		if (n_models >= ET_ARRAY_LEN(expected) || strcmp(name, expected[n_models]))
			fail_msg("entry %zu is %s", i, name);
		n_models++;
		for (uint32_t k = 0; k < models[i].n; k++) {
			const struct inf_variant *v = &models[i].items[k];
			assert_ptr_equal(v->file, strrchr(v->path, '/') + 1);
		}
		inf_variants_deinit(&models[i]);
	}
	assert_int_equal(n_models, ET_ARRAY_LEN(expected));
	free(models);
	assert_int_equal(inf_variants_scan("/nonexistent", &models, &n), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_older),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_scan),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
