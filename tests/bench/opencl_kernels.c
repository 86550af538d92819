/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of single layers on the OpenCL plug-in, and of XNNPACK's matrix product, in turn.
 *
 *     opencl_kernels PLUGIN.so ROUNDS
 *
 * Prints JSON: for each layer, the least time of each round in µs; and the bytes of arguments that were copied. A round
 * runs all layers, so numbers of one round belong together. Devices are CPUs (PoCL); XNNPACK gets as many threads as
 * there are processors. */
#include "delegates/inferd-delegate.h"
#include "tests/support/graph_rig.h"
#include "tests/support/make_vulkan.h"

#include <dlfcn.h>
#include <pthreadpool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xnnpack.h>

enum { MAX_ROUNDS = 64, MIN_NS = 60000000 };

struct layer {
	const char *name, *graph;
	uint64_t n_in, n_out;
	uint8_t type;
	uint8_t n_dims;
	int32_t in[4], out[4];
	struct inferd_delegate_model *model;
	struct inferd_delegate_instance *instance;
	struct inferd_delegate_arg args[2];
};

#define F32 6
#define I8  1
#define CONV(x, w, more)                                                                        \
	"%0: " x "[1, 64, 56, 56] = input\n%1: " w "\n%2: i32[64] = constant 1\n%3: f32[64] = " \
	"constant 2\n%4: f32[64] = constant 3\n" more "return %5\n"

static struct layer layers[] = {
	{ "sgemm_512",
		"%0: f32[512, 512] = input\n%1: f32[512, 512] = constant 0\n"
		"%2: f32[512, 512] = aten.linear.default(%0, %1, none)\nreturn %2\n",
		512 * 512, 512 * 512, F32, 2, { 512, 512 }, { 512, 512 } },
	{ "qgemm_512",
		"%0: i8[512, 512] = input\n%1: i8[512, 512] = constant 0\n%2: i32[512] = constant 1\n"
		"%3: f32[512] = constant 2\n%4: f32[512] = constant 3\n%5: i8[512, 512] = "
		"et_vk.q8ta_linear.default(%0, 0.5, 3, %1, %2, %3, 0.5, 0, %4, \"none\")\nreturn %5\n",
		512 * 512, 512 * 512, I8, 2, { 512, 512 }, { 512, 512 } },
	{ "conv_3x3",
		CONV("f32", "f32[64, 64, 3, 3] = constant 0",
			"%5: f32[1, 64, 56, 56] = aten.convolution.default(%0, %1, %4, [1, 1], [1, 1], [1, 1], false, "
			"[0, 0], 1)\n"),
		64 * 56 * 56, 64 * 56 * 56, F32, 4, { 1, 64, 56, 56 }, { 1, 64, 56, 56 } },
	{ "qconv_3x3",
		CONV("i8", "i8[64, 576] = constant 0",
			"%5: i8[1, 64, 56, 56] = et_vk.q8ta_conv2d.default(%0, 0.5, 3, %1, %2, %3, 0.5, 0, %4, [3, 3], [1, 1], "
			"[1, 1], [1, 1], 1, \"none\")\n"),
		64 * 56 * 56, 64 * 56 * 56, I8, 4, { 1, 64, 56, 56 }, { 1, 64, 56, 56 } },
	{ "gemv_4096",
		"%0: f32[1, 4096] = input\n%1: f32[4096, 4096] = constant 0\n"
		"%2: f32[1, 4096] = aten.linear.default(%0, %1, none)\nreturn %2\n",
		4096, 4096, F32, 2, { 1, 4096 }, { 1, 4096 } },
	{ "gemv4_4096",
		"%0: f32[1, 4096] = input\n%1: u8[4096, 2048] = constant 0\n%2: f32[128, 4096] = constant 1\n"
		"%3: f32[1, 4096] = et_vk.linear_q4gsw.default(%0, %1, %2, 32, none)\nreturn %3\n",
		4096, 4096, F32, 2, { 1, 4096 }, { 1, 4096 } },
};
enum { N = sizeof(layers) / sizeof(layers[0]) };

static void die(const char *what, const char *why)
{
	fprintf(stderr, "opencl_kernels: %s: %s\n", what, why);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void ignore(void *self, int level, const char *text)
{
}

static void *open_plugin(const char *path, const struct inferd_delegate **ret_table)
{
	static const struct inferd_delegate_pair pairs[] = { { sizeof(pairs[0]), 0, "platforms",
								     "Portable Computing Language", 27 },
		{ sizeof(pairs[0]), 0, "devices", "cpu", 3 } };
	static const struct inferd_delegate_pair *const options[] = { &pairs[0], &pairs[1] };
	static const struct inferd_delegate_host host = { .struct_size = sizeof(host),
		.major = INFERD_DELEGATE_MAJOR,
		.minor = INFERD_DELEGATE_MINOR,
		.options = options,
		.n_options = 2,
		.log = ignore };
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	const struct inferd_delegate *(*entry)(uint32_t, uint32_t);
	void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL), *self;
	void *symbol = module ? dlsym(module, INFERD_DELEGATE_ENTRY) : NULL;
	if (!symbol)
		die(path, dlerror());
	memcpy(&entry, &symbol, sizeof(entry));
	*ret_table = entry(INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR);
	if ((*ret_table)->open(&host, &self, &message))
		die(path, message.text);
	return self;
}

static void *zeros(uint64_t n)
{
	void *bytes = NULL;
	if (posix_memalign(&bytes, 4096, n + 64))
		die("memory", "none");
	memset(bytes, 0, n);
	return bytes;
}

static void load(const struct inferd_delegate *table, void *self, struct layer *layer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	struct inferd_delegate_model_info info = { .struct_size = sizeof(info) };
	struct graph_rig graph;
	size_t n;
	if (graph_rig_parse(&graph, layer->graph) != ET_OK)
		die(layer->name, graph.diag.text);
	uint8_t *bytes = make_vulkan(&graph.graph, &n);
	struct inferd_delegate_payload payload = { .struct_size = sizeof(payload),
		.n_args = 2,
		.bytes = bytes,
		.n_bytes = n,
		.fd = -1,
		.program = 1,
		.method = "forward" };
	if (table->init(self, &payload, &layer->model, &info, &message) ||
		table->instance_new(layer->model, &layer->instance, &message))
		die(layer->name, message.text);
	for (int i = 0; i < 2; i++) {
		uint64_t size = layer->type == F32 ? 4 : 1;
		struct inferd_delegate_arg *arg = &layer->args[i];
		*arg = (struct inferd_delegate_arg){ .struct_size = sizeof(*arg),
			.kind = INFERD_DELEGATE_TENSOR,
			.type = layer->type,
			.n_dims = layer->n_dims,
			.is_output = (uint8_t)i,
			.fd = -1 };
		memcpy(arg->sizes, i ? layer->out : layer->in, sizeof(layer->in));
		for (uint8_t d = 0; d < layer->n_dims; d++)
			arg->dim_order[d] = d;
		arg->n_bytes = (i ? layer->n_out : layer->n_in) * size;
		arg->data = zeros(arg->n_bytes);
		struct inferd_delegate_memory memory = { .struct_size = sizeof(memory),
			.kind = INFERD_DELEGATE_MEMFD,
			.fd = -1,
			.is_written = (uint32_t)i,
			.n_bytes = arg->n_bytes,
			.data = arg->data };
		table->buffer_import(self, 0, &memory, &arg->buffer); /* without, it is copied */
	}
	free(bytes);
	graph_rig_deinit(&graph);
}

static void run_layer(const struct inferd_delegate *table, struct layer *layer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof(message) };
	struct inferd_delegate_arg *args[] = { &layer->args[0], &layer->args[1] };
	struct inferd_delegate_run run = { .struct_size = sizeof(run), .n_args = 2, .args = args };
	if (table->execute(layer->model, layer->instance, &run, &message))
		die(layer->name, message.text);
}

static double least_us(const struct inferd_delegate *table, struct layer *layer, xnn_operator_t product,
	pthreadpool_t pool)
{
	uint64_t least = UINT64_MAX;
	for (uint64_t began = now_ns(); now_ns() - began < MIN_NS;) {
		uint64_t start = now_ns();
		if (layer)
			run_layer(table, layer);
		else
			xnn_run_operator(product, pool);
		uint64_t ns = now_ns() - start;
		least = ns < least ? ns : least;
	}
	return (double)least / 1000;
}

int main(int argc, char **argv)
{
	static double times[N + 1][MAX_ROUNDS];
	const struct inferd_delegate *table;
	long n_rounds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	if (n_rounds < 1 || n_rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: opencl_kernels PLUGIN.so ROUNDS\n");
		return 2;
	}
	void *self = open_plugin(argv[1], &table);
	for (int i = 0; i < N; i++) {
		load(table, self, &layers[i]);
		for (int k = 0; k < 20; k++)
			run_layer(table, &layers[i]);
	}
	float *a = zeros(512 * 512 * 4), *b = zeros(512 * 512 * 4), *c = zeros(512 * 512 * 4);
	pthreadpool_t pool = pthreadpool_create(0);
	xnn_operator_t product = NULL;
	if (xnn_initialize(NULL) != xnn_status_success ||
		xnn_create_fully_connected_nc_f32(512, 512, 512, 512, b, NULL, -1e30f, 1e30f, 0, NULL, NULL,
			&product) != xnn_status_success ||
		xnn_reshape_fully_connected_nc_f32(product, 512, pool) != xnn_status_success ||
		xnn_setup_fully_connected_nc_f32(product, a, c) != xnn_status_success)
		die("XNNPACK", "it fails");
	for (long round = 0; round < n_rounds; round++) {
		for (int i = 0; i < N; i++)
			times[i][round] = least_us(table, &layers[i], NULL, NULL);
		times[N][round] = least_us(NULL, NULL, product, pool);
	}
	printf("{");
	for (int i = 0; i <= N; i++) {
		printf("%s\"%s\": [", i ? ", " : "", i < N ? layers[i].name : "xnnpack_512");
		for (long round = 0; round < n_rounds; round++)
			printf("%s%.1f", round ? ", " : "", times[i][round]);
		printf("]");
	}
	struct inferd_delegate_stats stats = { .struct_size = sizeof(stats) };
	table->stats(self, 0, &stats);
	printf(", \"copied_bytes\": %llu}\n", (unsigned long long)stats.copied_bytes);
	return 0;
}
