/* SPDX-License-Identifier: BSD-3-Clause */
/* Call OpenVINO directly: how long runs of a payload take without the daemon and without a host process.
 *
 *     openvino_direct FOLDER PAYLOAD THREADS N
 *
 * FOLDER has libopenvino_c.so.*. PAYLOAD is the blob of export_model, as an exporter writes it into a program.
 * Precision and threads are set as the plug-in sets them. Inputs are zeros. Prints {"p50_ms"}. */
#include <dlfcn.h>
#include <glob.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ov_core;
struct ov_compiled_model;
struct ov_infer_request;
struct ov_tensor;

static struct {
	int (*core_create)(struct ov_core **core);
	int (*core_set_property)(const struct ov_core *core, const char *device, ...);
	int (*core_import_model)(const struct ov_core *core, const char *bytes, size_t n_bytes, const char *device,
		struct ov_compiled_model **model);
	int (*compiled_model_inputs_size)(const struct ov_compiled_model *model, size_t *n);
	int (*compiled_model_create_infer_request)(const struct ov_compiled_model *model,
		struct ov_infer_request **request);
	int (*infer_request_get_input_tensor_by_index)(const struct ov_infer_request *request, size_t index,
		struct ov_tensor **tensor);
	int (*infer_request_infer)(struct ov_infer_request *request);
	int (*tensor_data)(const struct ov_tensor *tensor, void **data);
	int (*tensor_get_byte_size)(const struct ov_tensor *tensor, size_t *n_bytes);
} ov;

static void find_all(void *library)
{
#define FUNCTION(name) { "ov_" #name, &ov.name }
	const struct {
		const char *name;
		void *to;
	} functions[] = { FUNCTION(core_create), FUNCTION(core_set_property), FUNCTION(core_import_model),
		FUNCTION(compiled_model_inputs_size), FUNCTION(compiled_model_create_infer_request),
		FUNCTION(infer_request_get_input_tensor_by_index), FUNCTION(infer_request_infer), FUNCTION(tensor_data),
		FUNCTION(tensor_get_byte_size) };
#undef FUNCTION
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *symbol = dlsym(library, functions[i].name);
		if (!symbol) {
			fprintf(stderr, "openvino_direct: no %s\n", functions[i].name);
			exit(1);
		}
		memcpy(functions[i].to, &symbol, sizeof symbol);
	}
}

static void check(int status, const char *what)
{
	if (status) {
		fprintf(stderr, "openvino_direct: %s answers %d\n", what, status);
		exit(1);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	char pattern[600];
	glob_t found;
	if (argc != 5) {
		fprintf(stderr, "usage: openvino_direct FOLDER PAYLOAD THREADS N\n");
		return 2;
	}
	snprintf(pattern, sizeof pattern, "%.500s/libopenvino_c.so*", argv[1]);
	void *library = glob(pattern, 0, NULL, &found) ? NULL : dlopen(found.gl_pathv[0], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "openvino_direct: no %s\n", pattern);
		return 1;
	}
	globfree(&found);
	find_all(library);
	FILE *file = fopen(argv[2], "rbe");
	if (!file || fseek(file, 0, SEEK_END)) {
		perror(argv[2]);
		return 1;
	}
	long size = ftell(file);
	char *bytes = size > 0 ? malloc((size_t)size) : NULL;
	rewind(file);
	if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
		perror(argv[2]);
		return 1;
	}
	fclose(file);

	struct ov_core *core;
	struct ov_compiled_model *model;
	struct ov_infer_request *request;
	struct ov_tensor *tensor;
	void *data;
	size_t n_bytes, n_inputs;
	check(ov.core_create(&core), "core_create");
	check(ov.core_set_property(core, "CPU", "INFERENCE_PRECISION_HINT", "f32"), "precision");
	check(ov.core_set_property(core, "CPU", "INFERENCE_NUM_THREADS", argv[3]), "threads");
	check(ov.core_import_model(core, bytes, (size_t)size, "CPU", &model), "import");
	check(ov.compiled_model_inputs_size(model, &n_inputs), "inputs_size");
	check(ov.compiled_model_create_infer_request(model, &request), "create_infer_request");
	for (size_t i = 0; i < n_inputs; i++) {
		check(ov.infer_request_get_input_tensor_by_index(request, i, &tensor), "input_tensor");
		check(ov.tensor_data(tensor, &data), "tensor_data");
		check(ov.tensor_get_byte_size(tensor, &n_bytes), "byte_size");
		memset(data, 0, n_bytes);
	}
	size_t n = strtoul(argv[4], NULL, 10);
	uint64_t *times = calloc(n + 1, sizeof *times);
	if (!times)
		return 1;
	for (size_t i = 0; i < n + 5; i++) {
		uint64_t began_ns = now_ns();
		check(ov.infer_request_infer(request), "infer");
		if (i >= 5)
			times[i - 5] = now_ns() - began_ns;
	}
	qsort(times, n, sizeof *times, by_size);
	printf("{\"p50_ms\": %.6f}\n", (double)times[n / 2] / 1e6);
	free(times);
	return 0;
}
