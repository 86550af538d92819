/* SPDX-License-Identifier: BSD-3-Clause */
/* Files, the engine, the runtime beside it, and arguments for both. Inputs are the same memory for both; outputs are
 * not, and begin with a pattern that no result has. */
#include "delegates/program/test_rig.h"

#include "delegates/delegates.h"
#include "delegates/direct/direct.h"
#include "delegates/program/engine_internal.h"
#include "runtime/dim_order.h"
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum { PAGE = 4096 };

/* --- files ------------------------------------------------------------------------------------------------------ */

bool rig_file_open(struct rig_file *file, const char *path, size_t max_bytes)
{
	struct stat st;
	*file = (struct rig_file){ .n_data = 0 };
	snprintf(file->path, sizeof file->path, "%s", path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || (size_t)st.st_size > max_bytes) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	file->n_bytes = (size_t)st.st_size;
	file->n_mapped = (file->n_bytes + 2 * PAGE) & ~(size_t)(PAGE - 1);
	file->bytes = mmap(NULL, file->n_mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(file->bytes != MAP_FAILED);
	if (file->n_bytes)
		assert_true(mmap(file->bytes, file->n_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	close(fd);
	return true;
}

void rig_file_close(struct rig_file *file)
{
	if (file->bytes)
		munmap(file->bytes, file->n_mapped);
	file->bytes = NULL;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);
	return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* Call @fn for the programs of folder @path, with its data files, and then those of its folders. */
static void walk(const char *path, size_t max_bytes, void (*fn)(const struct rig_file *file))
{
	struct dirent **entries;
	struct rig_file data[RIG_MAX_DATA], file;
	uint32_t n_data = 0;
	int n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		char name[800];
		snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
		if (ends_with(name, ".ptd") && n_data < RIG_MAX_DATA)
			n_data += rig_file_open(&data[n_data], name, max_bytes);
	}
	for (int i = 0; i < n; i++) {
		char name[800];
		struct stat st;
		snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && stat(name, &st) == 0 && S_ISDIR(st.st_mode) &&
			strcmp(entries[i]->d_name, "attacks") != 0)
			walk(name, max_bytes, fn);
		free(entries[i]);
		if (!(ends_with(name, ".pte") || ends_with(name, ".bpte")) || !rig_file_open(&file, name, max_bytes))
			continue;
		for (uint32_t d = 0; d < n_data; d++)
			file.data[d] = &data[d];
		file.n_data = n_data;
		fn(&file);
		rig_file_close(&file);
	}
	while (n_data)
		rig_file_close(&data[--n_data]);
	if (n >= 0)
		free(entries);
}

void rig_for_small(void (*fn)(const struct rig_file *file))
{
	walk(TEST_MODELS, 1 << 20, fn);
}

void rig_for_all(void (*fn)(const struct rig_file *file))
{
	/* a sanitizer or qemu takes seconds for each run of a large program */
#ifdef INF_SANITIZED
	const size_t max_bytes = 3 << 20;
#else
	const size_t max_bytes = getenv("INFERD_EMULATED") ? 1 << 20 : 64 << 20;
#endif
	walk(TEST_MODELS, max_bytes, fn);
	if (access(SHARED_MODELS, R_OK) == 0)
		walk(SHARED_MODELS, max_bytes, fn);
	else
		print_message("without %s, which is not there\n", SHARED_MODELS);
}

/* --- the engine ------------------------------------------------------------------------------------------------- */

void rig_ignore_log(void *self, int level, const char *text)
{
}

static void write_log(void *self, int level, const char *text)
{
	print_message("log %d: %s\n", level, text);
}

void rig_open(struct rig *rig, const char *const *options)
{
	static struct inferd_delegate_pair pairs[8];
	static const struct inferd_delegate_pair *pointers[8];
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	*rig = (struct rig){ .host = { .struct_size = sizeof rig->host,
				     .major = INFERD_DELEGATE_MAJOR,
				     .minor = INFERD_DELEGATE_MINOR,
				     .options = pointers,
				     .log = write_log } };
	for (; options && options[2 * rig->host.n_options]; rig->host.n_options++) {
		uint32_t i = rig->host.n_options;
		pairs[i] = (struct inferd_delegate_pair){ .struct_size = sizeof pairs[i],
			.key = options[2 * i],
			.value = options[2 * i + 1],
			.n_bytes = strlen(options[2 * i + 1]) };
		pointers[i] = &pairs[i];
	}
	int result = et_program_engine.open(&rig->host, &rig->self, &message);
	if (result)
		fail_msg("%s", message.text);
}

void rig_close(struct rig *rig)
{
	et_program_engine.close(rig->self);
}

static int named_data(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes)
{
	const struct rig_file *file = self;
	unsigned long number = strtoul(key, NULL, 10);
	if (number >= file->n_data)
		return INFERD_DELEGATE_E_NOT_FOUND;
	*ret_bytes = file->data[number]->bytes;
	*ret_n_bytes = file->data[number]->n_bytes;
	return INFERD_DELEGATE_OK;
}

struct inferd_delegate_payload rig_payload(const struct rig_file *file, const char *method, uint64_t program)
{
	return (struct inferd_delegate_payload){
		.struct_size = sizeof(struct inferd_delegate_payload),
		.bytes = file->bytes,
		.n_bytes = file->n_bytes,
		.fd = -1,
		.method = method,
		.self = (void *)(uintptr_t)file,
		.named_data = named_data,
		.program = program,
	};
}

/* --- the runtime without the engine ----------------------------------------------------------------------------- */

static struct et_backend_entry entries[8];
static const struct et_kernel_table *tables[ET_KERNEL_TABLES_MAX];
static struct et_registry the_registry;

const struct et_registry *rig_registry(void)
{
	if (the_registry.n_backends)
		return &the_registry;
	while (the_registry.n_tables < et_n_kernel_tables) {
		tables[the_registry.n_tables] = et_kernel_tables[the_registry.n_tables];
		the_registry.n_tables++;
	}
	for (size_t i = 0; i < et_n_delegates; i++) {
		struct et_diag diag = { "" };
		assert_int_equal(et_direct_open(&entries[the_registry.n_backends++], et_delegates[i], NULL,
					 et_platform_allocator(), NULL, &diag),
			ET_OK);
	}
	the_registry.tables = tables;
	the_registry.backends = entries;
	the_registry.order = et_order_run;
	return &the_registry;
}

void rig_close_registry(void)
{
	while (the_registry.n_backends) {
		the_registry.n_backends--;
		entries[the_registry.n_backends].ops->close(entries[the_registry.n_backends].backend);
	}
	the_registry.n_tables = 0;
}

/* Opening from a payload keeps mappings of its own, which is what a comparison needs, too. */
enum et_status rig_program(const struct rig_file *file, struct et_program **ret_program)
{
	struct et_diag diag = { "" };
	struct inferd_delegate_payload payload = rig_payload(file, "", 1);
	return et_engine_open_program(&payload, ret_program, &diag);
}

/* --- runs of the runtime ----------------------------------------------------------------------------------------- */

void rig_reference_init(struct rig_reference *r, struct et_plan *plan, const struct rig_reference *with)
{
	struct et_diag diag = { "" };
	const struct et_registry *registry = rig_registry();
	*r = (struct rig_reference){ .plan = plan };
	for (size_t i = 0; i < registry->n_backends; i++)
		assert_int_equal(registry->backends[i].ops->threads_new(registry->backends[i].backend, 0, 1,
					 &r->sets[i], &diag),
			ET_OK);
	assert_int_equal(et_plan_prepare(plan, 0, r->sets, NULL, &diag), ET_OK);
	assert_int_equal(et_method_new_with(&r->method, plan, with ? with->method : NULL, et_platform_allocator(),
				 &diag),
		ET_OK);
	assert_int_equal(et_frame_new(&r->frame, plan, et_platform_allocator(), et_platform_page_allocator(), &diag),
		ET_OK);
	et_pool_init(&r->scratch, et_platform_allocator());
}

void rig_reference_deinit(struct rig_reference *r)
{
	const struct et_registry *registry = rig_registry();
	et_frame_free(r->frame);
	et_method_free(r->method);
	et_plan_release(r->plan, 0);
	for (size_t i = 0; i < registry->n_backends; i++)
		registry->backends[i].ops->threads_free(r->sets[i]);
	et_pool_deinit(&r->scratch);
}

enum et_status rig_reference_run(struct rig_reference *r, struct rig_args *args)
{
	struct et_run run = {
		.method = r->method, .frame = r->frame, .inputs = args->inputs, .outputs = args->outputs
	};
	struct et_worker_env env = { .scratch = &r->scratch };
	for (uint32_t i = 0; i < args->info->n_outputs; i++)
		if (args->info->outputs[i].tag == ET_TAG_TENSOR)
			args->outputs[i].tensor.n_bytes = args->info->outputs[i].n_bytes;
	enum et_status status = et_run_begin(&run);
	if (status != ET_OK)
		return status;
	enum et_stop stop = et_run_advance(&run, &env);
	assert_true(stop == ET_STOP_DONE || stop == ET_STOP_FAILED);
	return et_run_end(&run);
}

/* --- arguments -------------------------------------------------------------------------------------------------- */

static void *new_memory(size_t n_bytes)
{
	const struct et_allocator *pages = et_platform_page_allocator();
	void *memory = pages->alloc(pages->self, n_bytes ? n_bytes : 1, 64);
	assert_non_null(memory);
	return memory;
}

static void free_memory(void *memory, size_t n_bytes)
{
	const struct et_allocator *pages = et_platform_page_allocator();
	pages->free(pages->self, memory, n_bytes ? n_bytes : 1);
}

static void add_arg(struct rig_args *args, struct et_io *io, const struct et_io_info *info, bool is_output)
{
	uint8_t kind = et_engine_kind_of(info, is_output);
	*io = (struct et_io){ .tag = info->tag };
	if (info->tag == ET_TAG_TENSOR) {
		io->n_dims = info->n_dims;
		memcpy(io->sizes, info->sizes, info->n_dims * sizeof *io->sizes);
		io->tensor.n_bytes = info->n_bytes;
		io->tensor.data = new_memory(info->n_bytes);
	}
	if (!et_stand_in_passes(kind))
		return;
	struct inferd_delegate_arg *arg = &args->args[args->n_args];
	*arg = (struct inferd_delegate_arg){
		.struct_size = sizeof *arg, .kind = kind, .is_output = is_output, .fd = -1
	};
	if (kind == ET_TAG_TENSOR) {
		arg->type = info->type;
		arg->n_dims = info->n_dims;
		memcpy(arg->dim_order, info->dim_order, info->n_dims);
		memcpy(arg->sizes, info->sizes, info->n_dims * sizeof *arg->sizes);
		arg->n_bytes = info->n_bytes;
		arg->data = is_output ? new_memory(info->n_bytes) : io->tensor.data;
	}
	args->pointers[args->n_args++] = arg;
}

void rig_args_init(struct rig_args *args, const struct et_plan_info *info)
{
	assert_true(info->n_inputs + info->n_outputs <= RIG_MAX_ARGS);
	*args = (struct rig_args){ .info = info };
	for (uint32_t i = 0; i < info->n_inputs; i++)
		add_arg(args, &args->inputs[i], &info->inputs[i], false);
	args->n_inputs = args->n_args;
	for (uint32_t i = 0; i < info->n_outputs; i++)
		add_arg(args, &args->outputs[i], &info->outputs[i], true);
}

bool rig_args_try(struct rig_args *args, const struct et_plan_info *info, size_t max_bytes)
{
	size_t n_bytes = 0;
	if (info->n_inputs + info->n_outputs > RIG_MAX_ARGS)
		return false;
	for (uint32_t i = 0; i < info->n_inputs; i++)
		n_bytes = n_bytes > max_bytes ? n_bytes : n_bytes + info->inputs[i].n_bytes;
	for (uint32_t i = 0; i < info->n_outputs; i++)
		n_bytes = n_bytes > max_bytes ? n_bytes : n_bytes + info->outputs[i].n_bytes;
	if (n_bytes <= max_bytes)
		rig_args_init(args, info);
	return n_bytes <= max_bytes;
}

static void fill(void *data, size_t n_bytes, uint8_t type, unsigned seed)
{
	size_t size = et_scalar_size(type), n = size ? n_bytes / size : 0;
	for (size_t i = 0; i < n; i++) {
		unsigned step = (unsigned)(i * 2654435761u + seed * 40503u) >> 8;
		if (type == ET_FLOAT32)
			((float *)data)[i] = (float)(step % 2048) / 1024.0f - 1.0f;
		else if (type == ET_FLOAT64)
			((double *)data)[i] = (double)(step % 2048) / 1024.0 - 1.0;
		else if (type == ET_FLOAT16 || type == ET_BFLOAT16)
			((uint16_t *)data)[i] = (uint16_t)(0x3800 + step % 512);
		else /* small numbers are valid indexes, positions and conditions */
			memset((uint8_t *)data + i * size, 0, size), ((uint8_t *)data)[i * size] = step % 2;
	}
}

void rig_args_fill(struct rig_args *args, unsigned seed)
{
	uint32_t at = 0;
	for (uint32_t i = 0; i < args->info->n_inputs; i++) {
		struct et_io *io = &args->inputs[i];
		struct inferd_delegate_arg *arg = et_stand_in_passes(io->tag) ? &args->args[at++] : NULL;
		if (io->tag == ET_TAG_TENSOR)
			fill(io->tensor.data, io->tensor.n_bytes, args->info->inputs[i].type, seed + i);
		else if (io->tag == ET_TAG_INT || io->tag == ET_TAG_BOOL)
			arg->i = io->i = 1;
		else if (io->tag == ET_TAG_DOUBLE)
			arg->d = io->d = 0.5;
	}
}

void rig_args_clear(struct rig_args *args)
{
	uint32_t at = args->n_inputs;
	for (uint32_t i = 0; i < args->info->n_outputs; i++) {
		const struct et_io_info *info = &args->info->outputs[i];
		uint8_t kind = et_engine_kind_of(info, true);
		if (!et_stand_in_passes(kind))
			continue;
		struct inferd_delegate_arg *arg = &args->args[at++];
		arg->kind = kind;
		arg->i = 0x5a5a;
		arg->d = 0x5a5a;
		if (kind != ET_TAG_TENSOR)
			continue;
		memset(arg->data, 0x5a, arg->n_bytes);
		memcpy(arg->sizes, info->sizes, info->n_dims * sizeof *arg->sizes);
	}
}

static size_t result_bytes(const struct et_io *io, const struct et_io_info *info)
{
	size_t n = et_scalar_size(info->type);
	for (uint32_t i = 0; i < info->n_dims; i++)
		n *= (size_t)io->sizes[i];
	return n;
}

bool rig_args_equal(const struct rig_args *args)
{
	uint32_t at = args->n_inputs;
	for (uint32_t i = 0; i < args->info->n_outputs; i++) {
		const struct et_io *io = &args->outputs[i];
		const struct et_io_info *info = &args->info->outputs[i];
		if (!et_stand_in_passes(et_engine_kind_of(info, true)))
			continue;
		const struct inferd_delegate_arg *arg = &args->args[at++];
		if (io->tag == ET_TAG_TENSOR &&
			(memcmp(io->sizes, arg->sizes, info->n_dims * sizeof *io->sizes) != 0 ||
				memcmp(io->tensor.data, arg->data, result_bytes(io, info)) != 0))
			return false;
		if ((io->tag == ET_TAG_INT && io->i != arg->i) || (io->tag == ET_TAG_BOOL && io->b != (arg->i != 0)) ||
			(io->tag == ET_TAG_DOUBLE && memcmp(&io->d, &arg->d, sizeof io->d) != 0))
			return false;
	}
	return true;
}

void rig_args_deinit(struct rig_args *args)
{
	for (uint32_t i = args->n_inputs; i < args->n_args; i++)
		if (args->args[i].kind == ET_TAG_TENSOR)
			free_memory(args->args[i].data, args->args[i].n_bytes);
	for (uint32_t i = 0; i < args->info->n_inputs; i++)
		if (args->inputs[i].tag == ET_TAG_TENSOR)
			free_memory(args->inputs[i].tensor.data, args->info->inputs[i].n_bytes);
	for (uint32_t i = 0; i < args->info->n_outputs; i++)
		if (args->info->outputs[i].tag == ET_TAG_TENSOR)
			free_memory(args->outputs[i].tensor.data, args->info->outputs[i].n_bytes);
}
