/* SPDX-License-Identifier: BSD-3-Clause */
/* Write raw outputs and their manifest.
 *
 * The manifest is written last, so a folder that has a manifest is complete. Files of an earlier run that are not
 * overwritten stay; the manifest does not name them. */
#include "clients/inferctl/raw.h"
#include "clients/inferctl/ctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static json_t *last(json_t *array)
{
	return json_array_get(array, json_array_size(array) - 1);
}

static json_t *append_object(json_t *array)
{
	json_t *object = json_object();
	json_array_append_new(array, object);
	return object;
}

static int make_folder(const char *path)
{
	if (mkdir(path, 0777) == 0 || errno == EEXIST)
		return 0;
	ctl_fail("--raw %s: %s", path, strerror(errno));
	return -1;
}

int ctl_raw_open(struct ctl_raw *raw, const char *folder)
{
	*raw = (struct ctl_raw){ .folder = folder };
	if (!folder)
		return 0;
	raw->files = json_array();
	return make_folder(folder);
}

int ctl_raw_begin_file(struct ctl_raw *raw, const char *path)
{
	json_t *file;
	char *folder;
	int rc;
	if (!raw->folder)
		return 0;
	file = append_object(raw->files);
	json_object_set_new(file, "path", ctl_json_text(path));
	json_object_set_new(file, "methods", json_array());
	raw->n_files++;
	raw->n_suites = raw->n_cases = 0;
	folder = ctl_format("%s/%zu", raw->folder, raw->n_files - 1);
	rc = make_folder(folder);
	free(folder);
	return rc;
}

void ctl_raw_begin_suite(struct ctl_raw *raw, const char *method)
{
	json_t *suite;
	if (!raw->folder)
		return;
	suite = append_object(json_object_get(last(raw->files), "methods"));
	json_object_set_new(suite, "method", ctl_json_text(method));
	json_object_set_new(suite, "cases", json_array());
	raw->n_suites++;
	raw->n_cases = 0;
}

static json_t *cases(struct ctl_raw *raw)
{
	return json_object_get(last(json_object_get(last(raw->files), "methods")), "cases");
}

void ctl_raw_begin_case(struct ctl_raw *raw)
{
	if (!raw->folder)
		return;
	raw->outputs = json_array();
	json_object_set_new(append_object(cases(raw)), "outputs", raw->outputs);
	raw->n_cases++;
}

void ctl_raw_case_error(struct ctl_raw *raw, const char *text)
{
	json_t *test;
	if (!raw->folder)
		return;
	test = last(cases(raw));
	json_object_del(test, "outputs");
	raw->outputs = NULL;
	json_object_set_new(test, "error", ctl_json_text(text));
}

static int write_bytes(const char *path, const struct ctl_value *value)
{
	FILE *file = fopen(path, "we");
	bool is_whole = file && fwrite(value->data, 1, value->n_bytes, file) == value->n_bytes;
	if (file && fclose(file) != 0)
		is_whole = false;
	if (is_whole)
		return 0;
	ctl_fail("%s: %s", path, strerror(errno));
	return -1;
}

int ctl_raw_output(struct ctl_raw *raw, const struct ctl_value *value)
{
	json_t *output, *order;
	char *name, *path;
	int rc;
	if (!raw->folder)
		return 0;
	name = ctl_format("%zu/%zu-%zu-%zu.raw", raw->n_files - 1, raw->n_suites - 1, raw->n_cases - 1,
		json_array_size(raw->outputs));
	output = append_object(raw->outputs);
	json_object_set_new(output, "kind", json_string(et_tag_name(value->tag)));
	if (value->tag != ET_TAG_TENSOR) {
		free(name);
		if (value->tag != ET_TAG_NONE)
			json_object_set_new(output, "value", ctl_value_json(value));
		return 0;
	}
	json_object_set_new(output, "file", json_string(name));
	json_object_set_new(output, "datatype", json_string(et_scalar_name(value->type)));
	json_object_set_new(output, "shape", ctl_shape_json(value->sizes, value->n_dims));
	order = json_array();
	for (unsigned i = 0; i < value->n_dims; i++)
		json_array_append_new(order, json_integer(value->dim_order[i]));
	json_object_set_new(output, "dim_order", order);
	path = ctl_format("%s/%s", raw->folder, name);
	rc = write_bytes(path, value);
	free(path);
	free(name);
	return rc;
}

void ctl_raw_end_file(struct ctl_raw *raw, const char *verdict)
{
	if (raw->folder)
		json_object_set_new(last(raw->files), "verdict", json_string(verdict));
}

int ctl_raw_close(struct ctl_raw *raw)
{
	json_t *manifest;
	char *path;
	int rc;
	if (!raw->folder)
		return 0;
	manifest = json_pack("{s:i, s:o}", "format", 1, "files", raw->files);
	path = ctl_format("%s/manifest.json", raw->folder);
	rc = manifest ? json_dump_file(manifest, path, JSON_INDENT(1)) : -1;
	if (rc < 0)
		ctl_fail("%s: %s", path, strerror(errno));
	json_decref(manifest);
	free(path);
	*raw = (struct ctl_raw){ 0 };
	return rc;
}
