/* SPDX-License-Identifier: BSD-3-Clause */
/* model.conf: every key, every kind of mistake with its line, and bounds on what a model may bring. */
#include "config/model_conf.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static struct inf_model_conf *parse(const char *text)
{
	struct inf_config_error e = { "" };
	struct inf_model_conf *conf = inf_model_conf_new();
	assert_non_null(conf);
	if (inf_model_conf_parse(conf, text, "m/model.conf", NULL, false, &e) != 0)
		fail_msg("%s", e.text);
	return conf;
}

static void test_keys(void **state)
{
	struct inf_model_conf *conf = parse("[model]\nversion = 3\nwarm_up = 2\n"
					    "[input 0]\nname = image\nlayout = NCHW\ncolour = BGR\nscale = 0.5\n"
					    "offset = -1, -2.5 3\n"
					    "[output 1]\nname = scores\nlabels = cat, Br\xc3\xb6tchen , bird\n"
					    "[output 0]\nlabels = one\nlabels = other\n");
	assert_true(conf->has_version && conf->has_warm_up);
	assert_string_equal(conf->version, "3");
	assert_int_equal(conf->warm_up, 2);
	const struct inf_model_conf_io *in = inf_model_conf_find(conf, true, 0),
				       *out = inf_model_conf_find(conf, false, 1);
	assert_string_equal(in->name, "image");
	assert_string_equal(in->layout, "NCHW");
	assert_string_equal(in->colour, "BGR");
	assert_true(in->n_scale == 3 && in->n_offset == 3);
	for (int i = 0; i < 3; i++)
		assert_true(in->scale[i] == 0.5);
	assert_true(in->offset[0] == -1 && in->offset[1] == -2.5 && in->offset[2] == 3);
	assert_int_equal(out->n_labels, 3);
	assert_string_equal(out->labels[0], "cat");
	assert_string_equal(out->labels[1], "Br\xc3\xb6tchen");
	assert_string_equal(out->labels[2], "bird");
	assert_int_equal(inf_model_conf_find(conf, false, 0)->n_labels, 1); /* a later line wins */
	assert_null(inf_model_conf_find(conf, true, 1));
	assert_null(inf_model_conf_find(NULL, true, 1));
	inf_model_conf_unref(conf);
	conf = parse("[model]\nversion = latest\n[input 0]\nlayout = HWC\ncolour = GRAY\n");
	assert_string_equal(conf->version, "");
	assert_true(conf->ios[0].n_scale == 1 && conf->ios[0].scale[0] == 1 && conf->ios[0].offset[0] == 0);
	inf_model_conf_unref(conf);
}

static void refuse(const char *text, const char *message)
{
	struct inf_config_error e = { "" };
	struct inf_model_conf *conf = inf_model_conf_new();
	assert_int_equal(inf_model_conf_parse(conf, text, "m.conf", NULL, false, &e), -EINVAL);
	if (strncmp(e.text, message, strlen(message)) != 0)
		fail_msg("'%s' instead of '%s'", e.text, message);
	inf_model_conf_unref(conf);
}

static void test_mistakes(void **state)
{
	refuse("\nname = x\n", "m.conf:2: 'name' stands before any section");
	refuse("[server]\n", "m.conf:1: unknown section [server]; there are [model], [input N] and [output N]");
	refuse("[input]\n", "m.conf:1: [input] needs the number of an input");
	refuse("[output x]\n", "m.conf:1: [output x] needs the number of an output");
	refuse("[input 99999]\n", "m.conf:1: [input 99999] needs the number");
	refuse("[model]\nname = x\n", "m.conf:2: unknown key 'name' in [model]; there are version, warm_up");
	refuse("[model]\nversion = 1.bak\n", "m.conf:2: version: '1.bak' is neither latest nor a whole number");
	refuse("[model]\nwarm_up = 1001\n", "m.conf:2: warm_up: 1001 is outside 0 ... 1000");
	refuse("[input 0]\nlabels = x\n", "m.conf:2: unknown key 'labels' in [input 0]; there are name, layout");
	refuse("[output 0]\nscale = 1\n", "m.conf:2: unknown key 'scale' in [output 0]; there are name, labels");
	refuse("[input 0]\nname =\n", "m.conf:2: name: it is empty");
	refuse("[input 0]\nname = a\xff\n", "m.conf:2: name: it is empty or no UTF-8 text");
	refuse("[input 0]\nlayout = WHC\n", "m.conf:2: layout: 'WHC' is none of NCHW, NHWC, CHW, HWC");
	refuse("[input 0]\nscale = x\n", "m.conf:2: scale: 'x' is not a list of numbers");
	refuse("[input 0]\nscale = nan\n", "m.conf:2: scale: 'nan' is not a list of numbers");
	refuse("[input 0]\nscale = 1e40\n", "m.conf:2: scale: '1e40' is not a list of numbers");
	refuse("[input 0]\nscale =\n", "m.conf:2: scale: it needs one number");
	refuse("[input 0]\nscale = 1 2 3 4 5\n", "m.conf:2: scale: at most 4 numbers");
	refuse("[model]\n[input 2]\nscale = 1\n", "m.conf:2: [input 2]: an image needs both layout and colour");
	refuse("[input 2]\nlayout = CHW\ncolour = RGB\nscale = 1 2\n",
		"m.conf:1: [input 2]: scale and offset have one");
	refuse("[output 0]\nlabels = a\xc0\x80\n", "m.conf:2: label 0 is longer than 255 bytes or no UTF-8 text");
	refuse("[output 0]\nlabels_file = ../x\n", "m.conf:2: labels_file: '../x' is not the name of a file beside");
	refuse("[output 0]\nlabels_file = x\n", "m.conf:2: labels_file: 'x' is not the name"); /* no folder is known */
	refuse("rubbish\n", "m.conf:1: neither 'key = value' nor '[section]'");
}

static void test_bounds(void **state)
{
	char text[4096] = "";
	size_t n = 0;
	for (int i = 0; i <= INF_MODEL_CONF_MAX_IOS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "[input %d]\n", i);
	refuse(text, "m.conf:65: at most 64 inputs and outputs can be described");
}

static void put(const char *path, const void *bytes, size_t n)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static void test_files(void **state)
{
	char folder[] = "/tmp/test_model_conf.XXXXXX", conf_path[64], labels[64];
	struct inf_config_error e = { "" };
	struct inf_model_conf *conf = inf_model_conf_new();
	assert_non_null(mkdtemp(folder));
	snprintf(conf_path, sizeof(conf_path), "%s/model.conf", folder);
	snprintf(labels, sizeof(labels), "%s/labels.txt", folder);
	assert_int_equal(inf_model_conf_load(conf, conf_path, false, &e), -ENOENT);
	static const char text[] = "[output 0]\nlabels_file = labels.txt\n", version[] = "[model]\nversion = 2\n";
	put(conf_path, text, sizeof(text) - 1);
	assert_int_equal(inf_model_conf_load(conf, conf_path, false, &e), -EINVAL);
	assert_non_null(strstr(e.text, "model.conf:2: labels_file: there is no file 'labels.txt'"));
	put(labels, "tench\r\ngreat white shark\n\nlast", 30);
	assert_int_equal(inf_model_conf_load(conf, conf_path, false, &e), 0);
	const struct inf_model_conf_io *out = inf_model_conf_find(conf, false, 0);
	assert_int_equal(out->n_labels, 4);
	assert_string_equal(out->labels[0], "tench");
	assert_string_equal(out->labels[1], "great white shark");
	assert_string_equal(out->labels[2], "");
	assert_string_equal(out->labels[3], "last");
	put(conf_path, version, sizeof(version) - 1);
	assert_int_equal(inf_model_conf_load(conf, conf_path, true, &e), -EINVAL);
	assert_non_null(strstr(e.text, "not of one version"));
	/* too many bytes of labels, of labels with their NULs, and of text */
	char *many = malloc(INF_MODEL_CONF_MAX_LABEL_BYTES + 1);
	memset(many, '\n', INF_MODEL_CONF_MAX_LABEL_BYTES + 1);
	put(conf_path, text, sizeof(text) - 1);
	put(labels, many, INF_MODEL_CONF_MAX_LABEL_BYTES + 1);
	assert_int_equal(inf_model_conf_load(conf, conf_path, false, &e), -EINVAL);
	put(labels, many, INF_MODEL_CONF_MAX_LABELS + 1);
	assert_int_equal(inf_model_conf_load(conf, conf_path, false, &e), -EINVAL);
	assert_non_null(strstr(e.text, "more than 65536 labels"));
	put(conf_path, many, INF_MODEL_CONF_MAX_BYTES + 1);
	assert_int_equal(inf_model_conf_load(conf, conf_path, false, &e), -EFBIG);
	assert_int_equal(unlink(conf_path), 0);
	assert_int_equal(mkfifo(conf_path, 0600), 0); /* nobody writes to it */
	assert_int_equal(inf_model_conf_load(conf, conf_path, false, &e), -EINVAL);
	free(many);
	inf_model_conf_unref(conf);
	unlink(conf_path);
	unlink(labels);
	rmdir(folder);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
