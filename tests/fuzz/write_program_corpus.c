/* SPDX-License-Identifier: BSD-3-Clause */
/* Write the generated part of the program reader's corpus: small valid programs, one for each part of the format,
 * and the same with one hostile change each. Inputs that a fuzzer found are committed beside them. */
#include "runtime/program/program_internal.h"
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

static void write_file(const char *name, const uint8_t *bytes, size_t n_bytes)
{
	char path[512];
	snprintf(path, sizeof path, "%s/made-%s", folder, name);
	FILE *file = fopen(path, "wb");
	if (!file || fwrite(bytes, 1, n_bytes, file) != n_bytes || fclose(file)) {
		perror(path);
		exit(1);
	}
}

static void finish(struct make_program *mk, const char *name)
{
	size_t n_bytes;
	uint8_t *bytes = mk_finish(mk, &n_bytes);
	write_file(name, bytes, n_bytes);
	free(bytes);
}

static void begin(struct make_program *mk)
{
	mk_init(mk);
	mk_method(mk, "forward");
}

static void values(void)
{
	struct make_program mk;
	begin(&mk);
	int none = mk_none(&mk);
	int number = mk_int(&mk, -7);
	mk_bool(&mk, true);
	mk_double(&mk, 2.5);
	mk_string(&mk, "mean");
	int tensor = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 3), .dynamism = ET_DYNAMIC_BOUND });
	mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(number, number));
	mk_slots(&mk, ET_TAG_TENSOR_LIST, MK_ARGS(tensor));
	mk_slots(&mk, ET_TAG_OPTIONAL_TENSOR_LIST, MK_ARGS(tensor, -1, none));
	mk_doubles(&mk, (const double[]){ 0.5 }, 1);
	mk_bools(&mk, (const bool[]){ true, false }, 2);
	mk_input(&mk, tensor);
	mk_output(&mk, number);
	finish(&mk, "values");
}

static void constants(bool is_inline, bool has_header, const char *name)
{
	const float weights[] = { 1, 2, 3 };
	struct make_program mk;
	mk_init(&mk);
	mk.has_inline_constants = is_inline;
	mk.has_header = has_header;
	uint32_t constant = mk_constant(&mk, weights, sizeof weights);
	mk_method(&mk, "forward");
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(3), .constant = constant, .name = "w" });
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(0), .constant = constant });
	finish(&mk, name);
}

static void memory(void)
{
	const float start[] = { 1, 2 };
	const uint8_t nhwc[] = { 0, 2, 3, 1 };
	struct make_program mk;
	mk_init(&mk);
	uint32_t initial = mk_initial(&mk, start, sizeof start);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = arena, .constant = initial });
	mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(1, 3, 2, 2), .arena = arena, .offset = 16, .dim_order = nhwc });
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .name = "w", .is_external = true });
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .name = "s", .is_external = true, .arena = arena });
	finish(&mk, "memory");
}

static void code(void)
{
	struct make_program mk;
	begin(&mk);
	int a = mk_int(&mk, 1), condition = mk_bool(&mk, false);
	int add = mk_operator(&mk, "aten::add", "Scalar_out");
	mk_delegate(&mk, "XnnpackBackend", "payload", 7, false, "key", "value");
	mk_delegate(&mk, "OtherBackend", "payload", 7, true, NULL, NULL);
	mk_kernel(&mk, add, MK_ARGS(a, a));
	mk_jump_false(&mk, condition, 2);
	mk_chain(&mk);
	mk_call(&mk, 1, MK_ARGS(a));
	mk_move(&mk, a, condition);
	mk_jump_false(&mk, condition, 0);
	mk_free(&mk, a);
	mk_named_data(&mk, "weight", "abc", 3);
	mk_method(&mk, "other");
	finish(&mk, "code");
}

static void bundle_of_numbers(const char *name, const uint8_t *program, size_t n_program, const char *method,
	uint8_t last)
{
	const struct mk_bundled inputs[] = { { MK_BUNDLED_INT, -7 }, { MK_BUNDLED_BOOL, 1 }, { MK_BUNDLED_DOUBLE, 2.5 },
		{ last, 0 } };
	size_t n_bytes;
	uint8_t *bytes = mk_bundle_of_numbers(program, n_program, method, inputs, 4, &n_bytes);
	write_file(name, bytes, n_bytes);
	free(bytes);
}

static void bundle(void)
{
	const float ends[] = { 1, 2 };
	struct make_program mk;
	begin(&mk);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2) });
	size_t n_program, n_bytes;
	uint8_t *program = mk_finish(&mk, &n_program);
	uint8_t *bytes = mk_bundle(program, n_program, "forward", ends, ends, 2, &n_bytes);
	write_file("bundle", bytes, n_bytes);
	bytes[7]++;
	write_file("hostile-bundle-version", bytes, n_bytes);
	free(bytes);
	bytes = mk_bundle(program, 5, "forward", ends, ends, 2, &n_bytes);
	write_file("hostile-bundle-stump", bytes, n_bytes);
	free(bytes);
	bundle_of_numbers("bundle-numbers", program, n_program, "forward", MK_BUNDLED_NONE);
	bundle_of_numbers("hostile-bundle-value", program, n_program, "forward", UINT8_MAX);
	bundle_of_numbers("hostile-bundle-nameless", program, n_program, NULL, MK_BUNDLED_NONE);
	free(program);
}

static void hostile_tensor(const char *name, const struct mk_tensor *tensor)
{
	struct make_program mk;
	begin(&mk);
	mk_arena(&mk, 64);
	mk_tensor(&mk, tensor);
	finish(&mk, name);
}

#define HOSTILE_TENSOR(name, ...) hostile_tensor("hostile-" name, &(struct mk_tensor){ __VA_ARGS__ })

static void hostile_tensors(void)
{
	const uint8_t twice[] = { 0, 0 };
	HOSTILE_TENSOR("negative", MK_FP32, MK_SIZES(2, -3));
	HOSTILE_TENSOR("absurd", MK_FP32, MK_SIZES(INT32_MAX, INT32_MAX, INT32_MAX));
	HOSTILE_TENSOR("empty", MK_FP32, MK_SIZES(0, INT32_MAX, INT32_MAX));
	HOSTILE_TENSOR("order", MK_FP32, MK_SIZES(2, 3), .dim_order = twice);
	HOSTILE_TENSOR("unbound", MK_FP32, MK_SIZES(2), .dynamism = ET_DYNAMIC_UNBOUND);
	HOSTILE_TENSOR("type", .type = 16, MK_SIZES(2));
	HOSTILE_TENSOR("device", MK_FP32, MK_SIZES(2), .device_type = 1);
	HOSTILE_TENSOR("arena", MK_FP32, MK_SIZES(16), .arena = 1, .offset = 32);
	HOSTILE_TENSOR("offset", MK_FP32, MK_SIZES(1), .arena = 1, .offset = (uint64_t)-4);
	HOSTILE_TENSOR("constant", MK_FP32, MK_SIZES(1), .constant = 1);
	HOSTILE_TENSOR("initial", MK_FP32, MK_SIZES(1), .arena = 1, .constant = 1);
	HOSTILE_TENSOR("absent", MK_FP32, MK_SIZES(1), .name = "!", .is_external = true);
}

static void hostile_code(void)
{
	struct make_program mk;
	begin(&mk);
	mk_slots(&mk, ET_TAG_TENSOR_LIST, MK_ARGS(0));
	finish(&mk, "hostile-list");
	begin(&mk);
	mk_bool(&mk, true);
	mk_jump_false(&mk, 0, 9);
	finish(&mk, "hostile-jump");
	begin(&mk);
	mk_kernel(&mk, 3, MK_ARGS(0));
	finish(&mk, "hostile-operator");
	begin(&mk);
	mk_call(&mk, -1, MK_ARGS(0));
	finish(&mk, "hostile-delegate");
	begin(&mk);
	mk_move(&mk, 0, 1);
	finish(&mk, "hostile-move");
	begin(&mk);
	fbb_table_begin(&mk.fb);
	mk_instruction(&mk, 77, fbb_table_end(&mk.fb));
	finish(&mk, "hostile-instruction");
	/* one value, referred to often */
	begin(&mk);
	mk_string(&mk, "over and over and over and over and over and over and over and over and over and over");
	fbb_ref ref = ((fbb_ref *)mk.values.items)[0];
	mk.values.items = realloc(mk.values.items, 4000 * sizeof ref);
	if (!mk.values.items)
		abort();
	for (mk.values.n = 0; mk.values.n < 4000; mk.values.n++)
		((fbb_ref *)mk.values.items)[mk.values.n] = ref;
	finish(&mk, "hostile-sharing");
}

static void hostile_headers(void)
{
	static const struct {
		const char *name;
		size_t at;
		uint8_t value;
	} patches[] = { { "hostile-root", 3, 0x7f }, { "hostile-identifier", 7, '1' }, { "hostile-header", 12, 4 },
		{ "hostile-size", 20, 1 }, { "hostile-base", 28, 1 }, { "hostile-segments", 36, 1 } };
	for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
		struct make_program mk;
		begin(&mk);
		mk_named_data(&mk, "weight", "abc", 3);
		size_t n_bytes;
		uint8_t *bytes = mk_finish(&mk, &n_bytes);
		bytes[patches[i].at] = patches[i].value;
		write_file(patches[i].name, bytes, n_bytes);
		if (i == 0)
			write_file("hostile-stump", bytes, 20);
		free(bytes);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "write_program_corpus FOLDER\n");
		return 1;
	}
	folder = argv[1];
	values();
	constants(false, true, "constants");
	constants(true, true, "constants-inline");
	constants(true, false, "no-header");
	memory();
	code();
	bundle();
	hostile_tensors();
	hostile_code();
	hostile_headers();
	return 0;
}
