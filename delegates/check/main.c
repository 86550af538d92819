/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-delegate-check: test a delegate with calls as inferd makes them, and with broken payloads.
 *
 *     inferd-delegate-check [-t] [-b] [-o KEY=VALUE]... [-n RUNS] PLUGIN.so|NAME [PROGRAM.pte]
 *
 * It loads a plug-in into a host process, or opens the built-in delegate NAME; lists its devices, and hands it
 * garbage as payloads. With a program that was exported for the delegate, it hands it that program's payloads cut
 * short and changed, runs the program, and compares runs of the same input. Plug-ins and built-in delegates have
 * the same table and get the same checks, except that crashes and buffers are checked only in a host process: a
 * built-in delegate that crashes ends this process. Each check prints one line. The exit status is 0 if all checks
 * hold, 1 if not, 2 if the delegate could not be opened. */
#include "delegates/delegates.h"
#include "delegates/direct/direct.h"
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "runtime/method.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_OPTIONS = 16, MAX_IOS = 64, N_FLIPPED = 64 };

struct check {
	struct et_backend_entry entry;
	bool is_plugin; /* else it is built in */
	struct et_registry registry;
	const struct et_kernel_table *tables[ET_KERNEL_TABLES_MAX + 1];
	struct et_log log;
	uint32_t n_runs, n_failed;
};

/* Print the line of one check, and count a failure. Returns @holds. */
__attribute__((format(printf, 3, 4))) static bool say(struct check *c, bool holds, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("%s  ", holds ? "ok    " : "FAILED");
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	c->n_failed += !holds;
	return holds;
}

static uint32_t n_crashes(struct check *c)
{
	struct et_plugin_state state;
	if (!c->is_plugin)
		return 0; /* a crash would have ended this process */
	et_plugin_state(c->entry.backend, &state);
	return state.n_crashes;
}

/* --- devices ----------------------------------------------------------------------------------------- */

static void check_devices(struct check *c)
{
	uint32_t n = c->entry.ops->n_devices(c->entry.backend);
	say(c, n > 0, "%u device%s", n, n == 1 ? "" : "s");
	for (uint32_t i = 0; i < n; i++) {
		struct et_device device = { 0 };
		c->entry.ops->device(c->entry.backend, i, &device);
		say(c, device.name[0] && device.max_in_flight, "device %u: %s, kind %s, %u runs at once", i,
			device.name, et_queue_kind_name(device.kind), device.max_in_flight);
	}
}

static void check_memory(struct check *c)
{
	uint32_t n = c->entry.ops->n_devices(c->entry.backend);
	for (uint32_t i = 0; i < n; i++) {
		struct et_diag diag = { "" };
		struct et_plugin_stats stats;
		enum et_status status = et_plugin_try_buffers(c->entry.backend, i, &diag);
		if (status != ET_E_NOT_SUPPORTED)
			say(c, !status, "device %u: memory of its own %s", i, diag.text);
		diag.text[0] = '\0';
		status = et_plugin_stats(c->entry.backend, i, &stats, &diag);
		if (status != ET_E_NOT_SUPPORTED)
			say(c, !status, "device %u: %llu runs, %.1f ms busy, %llu bytes %s", i,
				status ? 0 : (unsigned long long)stats.n_runs, status ? 0 : (double)stats.busy_ns / 1e6,
				status ? 0 : (unsigned long long)stats.memory_bytes, diag.text);
	}
}

/* --- broken payloads ---------------------------------------------------------------------------------- */

/* Whether the delegate takes the payload, or refuses it with a sentence, and the host does not crash. */
static bool survives(struct check *c, const struct et_payload *payload, bool *ret_was_taken, struct et_diag *diag)
{
	struct et_model *model;
	struct et_model_info info = { 0 };
	uint32_t before = n_crashes(c);
	enum et_readiness readiness;
	struct et_diag probe = { "" };
	c->entry.ops->probe(c->entry.backend, payload, &readiness, &probe);
	diag->text[0] = '\0';
	enum et_status status = c->entry.ops->compile(c->entry.backend, payload, &model, &info, diag);
	*ret_was_taken = status == ET_OK;
	if (!status)
		c->entry.ops->model_free(model);
	return n_crashes(c) == before && (!status || !strstr(diag->text, "does not say why"));
}

static void check_garbage(struct check *c)
{
	static const size_t sizes[] = { 0, 1, 7, 64, 4096 };
	uint8_t bytes[4096 + ET_SOURCE_PADDING];
	uint32_t random = 1;
	for (size_t k = 0; k < 2 * ET_ARRAY_LEN(sizes); k++) {
		struct et_payload payload = {
			.bytes = bytes, .n_bytes = sizes[k / 2], .method = "forward", .n_args = 2
		};
		struct et_diag diag;
		bool was_taken;
		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] = k % 2 ? (uint8_t)((random = random * 1664525 + 1013904223) >> 24) : 0;
		bool holds = survives(c, &payload, &was_taken, &diag);
		say(c, holds && !was_taken, "%zu %s bytes: %s", sizes[k / 2], k % 2 ? "random" : "zero",
			was_taken ? "accepted as a payload" : diag.text);
	}
}

/* Hand over the program's own payloads, cut short and changed. The delegate may refuse or accept them, but not
 * crash. */
static void check_changed(struct check *c, const struct et_program *program, const struct et_method_spec *method,
	uint32_t index)
{
	const struct et_payload whole = et_payload_of(program, method, index);
	uint8_t *bytes = malloc(whole.n_bytes + ET_SOURCE_PADDING);
	uint32_t random = 7, n_survived = 0, n_taken = 0;
	if (!bytes)
		return;
	for (uint32_t k = 0; k < N_FLIPPED; k++) {
		struct et_payload payload = whole;
		struct et_diag diag;
		bool was_taken;
		payload.bytes = bytes;
		memcpy(bytes, whole.bytes, whole.n_bytes);
		random = random * 1664525 + 1013904223;
		/* mostly in the first bytes, where headers are */
		size_t near = whole.n_bytes < 256 || k % 4 == 3 ? whole.n_bytes : 256;
		if (k % 2)
			payload.n_bytes = (size_t)((uint64_t)random * whole.n_bytes >> 32);
		else if (near)
			bytes[(uint64_t)random * near >> 32] ^= (uint8_t)(1u << (k / 2 % 8));
		n_survived += survives(c, &payload, &was_taken, &diag);
		n_taken += was_taken;
	}
	free(bytes);
	say(c, n_survived == N_FLIPPED, "%u changed payloads: handled %u, accepted %u of them", N_FLIPPED, n_survived,
		n_taken);
}

/* --- runs ---------------------------------------------------------------------------------------------- */

struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_done;
	enum et_status status;
	char reason[320];
};

static void done(void *self, enum et_status status, const char *reason)
{
	struct waiter *w = self;
	pthread_mutex_lock(&w->lock);
	w->status = status;
	snprintf(w->reason, sizeof w->reason, "%s", reason ? reason : "");
	w->is_done = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static enum et_status run_once(struct et_run *run, struct et_pool *scratch)
{
	struct waiter w = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	struct et_worker_env env = { .scratch = scratch };
	run->completion = (struct et_completion){ &w, done, .will_wait = true };
	run->cancelled = false;
	enum et_status status = et_run_begin(run);
	enum et_stop stop = ET_STOP_QUEUE;
	if (status)
		return status;
	while (stop == ET_STOP_QUEUE) {
		env.queue = run->queue;
		w.is_done = false;
		stop = et_run_advance(run, &env);
		if (stop != ET_STOP_PENDING)
			continue;
		et_run_wait(run);
		pthread_mutex_lock(&w.lock);
		while (!w.is_done)
			pthread_cond_wait(&w.changed, &w.lock);
		pthread_mutex_unlock(&w.lock);
		et_run_resume(run, w.status, w.reason[0] ? w.reason : NULL);
		stop = ET_STOP_QUEUE;
	}
	return et_run_end(run);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* One memory file for inputs and outputs, like a client's region. It is imported if the delegate imports memory. */
struct memory {
	struct et_platform_mapping mapping;
	void *handle;
	int fd;
	size_t n_used;
};

static bool memory_open(struct check *c, struct memory *memory, const struct et_plan_info *info)
{
	const struct et_io_info *infos[] = { info->inputs, info->outputs };
	uint32_t n[] = { info->n_inputs, info->n_outputs };
	size_t n_bytes = 4096;
	for (uint32_t k = 0; k < 2; k++)
		for (uint32_t i = 0; i < n[k]; i++)
			if (!et_align_up(infos[k][i].n_bytes + 64, 64, &memory->n_used) ||
				!et_add(n_bytes, memory->n_used, &n_bytes))
				return false;
	memory->n_used = 0;
	memory->fd = memfd_create("inferd-check", MFD_CLOEXEC);
	return memory->fd >= 0 && ftruncate(memory->fd, (off_t)n_bytes) == 0 &&
	       et_platform_map(&memory->mapping, memory->fd, n_bytes, true) == 0 &&
	       (!c->entry.ops->import_memory || c->entry.ops->import_memory(c->entry.backend, memory->fd,
							memory->mapping.bytes, n_bytes, &memory->handle) == ET_OK);
}

static void memory_close(struct check *c, struct memory *memory)
{
	if (memory->handle)
		c->entry.ops->release_memory(c->entry.backend, memory->handle);
	et_platform_unmap(&memory->mapping);
	if (memory->fd >= 0)
		close(memory->fd);
}

static bool take_memory(struct memory *memory, size_t n_bytes, void **ret_bytes)
{
	size_t at;
	if (!et_align_up(memory->n_used, 64, &at) || !et_in_range(at, n_bytes, memory->mapping.n_bytes))
		return false;
	*ret_bytes = (uint8_t *)memory->mapping.bytes + at;
	memory->n_used = at + n_bytes;
	return true;
}

/* Make inputs with a pattern, and outputs, of the Plan's sizes. False: it has too many, or some are not tensors. */
static bool make_ios(const struct et_plan_info *info, struct et_io *ios, struct memory *memory)
{
	const struct et_io_info *infos[] = { info->inputs, info->outputs };
	uint32_t n[] = { info->n_inputs, info->n_outputs };
	for (uint32_t k = 0, at = 0; k < 2; k++)
		for (uint32_t i = 0; i < n[k]; i++, at++) {
			const struct et_io_info *from = &infos[k][i];
			if (at == MAX_IOS || from->tag != ET_TAG_TENSOR)
				return false;
			ios[at] = (struct et_io){ .tag = from->tag, .n_dims = from->n_dims };
			memcpy(ios[at].sizes, from->sizes, from->n_dims * sizeof *from->sizes);
			ios[at].tensor.n_bytes = from->n_bytes;
			if (!take_memory(memory, from->n_bytes, &ios[at].tensor.data))
				return false;
			float *floats = ios[at].tensor.data;
			for (size_t f = 0; k == 0 && from->type == ET_FLOAT32 && f < from->n_bytes / sizeof *floats;
				f++)
				floats[f] = (float)(f % 17) / 16 - 0.5F;
		}
	return true;
}

static void check_run(struct check *c, struct et_plan *plan)
{
	const struct et_plan_info *info = et_plan_info(plan);
	struct et_io ios[MAX_IOS] = { { 0 } };
	struct et_method *method = NULL;
	struct et_frame *frame = NULL;
	struct et_worker_threads *threads = NULL, *thread_sets[1];
	struct et_diag diag = { "" };
	struct et_pool scratch;
	uint64_t *times = calloc(c->n_runs, sizeof *times);
	et_pool_init(&scratch, et_platform_allocator());
	struct memory memory = { .fd = -1 };
	bool is_ready = times && memory_open(c, &memory, info) && make_ios(info, ios, &memory) &&
			c->entry.ops->threads_new(c->entry.backend, 0, 1, &threads, &diag) == ET_OK;
	thread_sets[0] = threads;
	is_ready = is_ready && et_plan_prepare(plan, 0, thread_sets, NULL, &diag) == ET_OK &&
		   et_method_new(&method, plan, et_platform_allocator(), &diag) == ET_OK &&
		   et_frame_new(&frame, plan, et_platform_allocator(), et_platform_page_allocator(), &diag) == ET_OK;
	if (say(c, is_ready, "instances %s", diag.text)) {
		struct et_run run = {
			.method = method, .frame = frame, .inputs = ios, .outputs = ios + info->n_inputs
		};
		struct et_io *first = &ios[info->n_inputs];
		size_t n_first = info->n_outputs ? first->tensor.n_bytes : 0;
		void *kept = calloc(1, n_first + 1);
		uint32_t n_good = 0, n_same = 0;
		for (uint32_t i = 0; i < c->n_runs && kept; i++) {
			uint64_t began_ns = et_platform_now_ns(NULL);
			n_good += run_once(&run, &scratch) == ET_OK;
			times[i] = et_platform_now_ns(NULL) - began_ns;
			if (i == 0 && n_first)
				memcpy(kept, first->tensor.data, n_first);
			n_same += !n_first || memcmp(kept, first->tensor.data, n_first) == 0;
		}
		qsort(times, c->n_runs, sizeof *times, by_size);
		say(c, n_good == c->n_runs, "%u runs, %u succeeded; p50 %.1f us; %llu bytes copied each; %s", c->n_runs,
			n_good, (double)times[c->n_runs / 2] / 1000, (unsigned long long)run.n_copied_bytes,
			run.diag.text);
		if (!info->is_stateful)
			say(c, n_same == c->n_runs, "the same input gives the same output");
		et_method_reset(method);
		if (info->is_stateful && kept)
			say(c,
				run_once(&run, &scratch) == ET_OK &&
					(!n_first || memcmp(kept, first->tensor.data, n_first) == 0),
				"after a reset the same input gives the first output again");
		free(kept);
	}
	et_frame_free(frame);
	et_method_free(method);
	et_plan_release(plan, 0);
	if (threads)
		c->entry.ops->threads_free(threads);
	memory_close(c, &memory);
	et_pool_deinit(&scratch);
	free(times);
}

static void check_program(struct check *c, const char *path)
{
	struct et_source source;
	struct et_program *program = NULL;
	struct et_plan *plan = NULL;
	struct et_diag diag = { "" };
	bool is_for_it = false;
	enum et_status status = et_platform_source_open(&source, path, NULL, NULL, &diag);
	if (!status) {
		status = et_program_open(&program, &source, NULL, et_platform_allocator(), &diag);
		if (status)
			source.release(source.owner);
	}
	if (!say(c, !status, "%s %s", path, diag.text))
		return;
	for (uint32_t m = 0; m < et_program_n_methods(program); m++) {
		const struct et_method_spec *method = et_program_method_at(program, m);
		for (uint32_t d = 0; d < method->n_delegates; d++)
			if (strcmp(method->delegates[d].id, c->entry.ops->id) == 0) {
				is_for_it = true;
				check_changed(c, program, method, d);
			}
	}
	if (say(c, is_for_it, "exported for %s", c->entry.ops->id)) {
		status = et_plan_new(&plan, program, NULL, &c->registry, NULL, 1, et_platform_allocator(), &diag);
		if (say(c, !status, "init %s", diag.text))
			check_run(c, plan);
	}
	et_plan_unref(plan);
	et_program_unref(program);
}

/* --- main ------------------------------------------------------------------------------------------------ */

static const char usage_line[] =
	"usage: inferd-delegate-check [-t] [-o KEY=VALUE]... [-n RUNS] PLUGIN.so|NAME [PROGRAM.pte]\n";

static int usage(void)
{
	fputs(usage_line, stderr);
	fputs("inferd-delegate-check --help says more\n", stderr);
	return 2;
}

static int help(void)
{
	fputs(usage_line, stdout);
	fputs("\n"
	      "Test a delegate: a plug-in, in a host process, or a built-in delegate by its name\n"
	      "(xnnpack). Hand it garbage as payloads. With a program that was exported for it, hand it\n"
	      "that program's payloads cut short and changed, run the program, and compare runs of the\n"
	      "same input.\n"
	      "\n"
	      "  -o, --option KEY=VALUE  an option, as in the delegate's section of inferd.conf; may be repeated\n"
	      "  -t, --thread            load a plug-in into this process, as `isolation = thread` does\n"
	      "  -b, --build-tools       let the plug-in's compiler start a linker, as `build_tools = yes` does\n"
	      "  -n, --runs RUNS         how often to run the program (20)\n"
	      "  -h, --help              print this text\n"
	      "\n"
	      "INFERD_DELEGATE_HOST names another inferd-delegate-host than the installed one. Each check prints\n"
	      "one line. Exit status 0: the delegate conforms; 1: it does not; 2: it could not be opened.\n",
		stdout);
	return 0;
}

/* Open the built-in delegate with that name, or else the plug-in at that path. */
static enum et_status open_delegate(struct check *c, struct et_plugin_config *config, struct et_diag *diag)
{
	static char path[PATH_MAX];
	struct et_option options[MAX_OPTIONS];
	struct et_direct_config direct = { .options = options, .n_options = config->n_options };
	const struct inferd_delegate *table = NULL;
	for (size_t i = 0; i < et_n_delegates; i++)
		if (strcmp(et_delegates[i]->name, config->path) == 0)
			table = et_delegates[i];
	c->is_plugin = !table;
	/* an absolute path: dlopen searches for a name without a slash among the system's libraries */
	if (!table && !realpath(config->path, path))
		return et_fail(diag, ET_E_NOT_FOUND, "%s, and no built-in delegate has that name", strerror(errno));
	config->path = table ? config->path : path;
	if (!table)
		return et_plugin_open(&c->entry, config, et_platform_allocator(), &c->log, diag);
	for (uint32_t i = 0; i < config->n_options; i++)
		options[i] = (struct et_option){ table->name, config->options[i].key, config->options[i].value };
	return et_direct_open(&c->entry, table, &direct, et_platform_allocator(), &c->log, diag);
}

int main(int argc, char **argv)
{
	struct et_plugin_option options[MAX_OPTIONS];
	struct et_plugin_config config = { .options = options, .max_crashes = 1000000, .crash_window_ns = 1 };
	struct check c = { .n_runs = 20 };
	struct et_diag diag = { "" };
	static const struct option names[] = { { "option", required_argument, NULL, 'o' },
		{ "runs", required_argument, NULL, 'n' }, { "thread", no_argument, NULL, 't' },
		{ "build-tools", no_argument, NULL, 'b' }, { "help", no_argument, NULL, 'h' }, { 0 } };
	int option;
	while ((option = getopt_long(argc, argv, "o:n:tbh", names, NULL)) != -1) {
		if (option == 'h')
			return help();
		char *equals = option == 'o' ? strchr(optarg, '=') : NULL;
		if (option == 't') {
			config.isolation = ET_PLUGIN_IN_THREAD;
		} else if (option == 'b') {
			config.has_build_tools = true;
		} else if (option == 'n') {
			c.n_runs = (uint32_t)strtoul(optarg, NULL, 10);
		} else if (equals && config.n_options < MAX_OPTIONS) {
			*equals = '\0';
			options[config.n_options++] = (struct et_plugin_option){ optarg, equals + 1 };
		} else {
			return usage();
		}
	}
	if (optind >= argc || argc - optind > 2 || !c.n_runs || c.n_runs > 1000000)
		return usage();
	config.path = argv[optind];
	config.host_path = getenv("INFERD_DELEGATE_HOST"); /* to use one that is not installed */
	c.log = et_platform_log(ET_LOG_NOTICE);
	if (open_delegate(&c, &config, &diag)) {
		printf("FAILED  %s: %s\n", config.path, diag.text);
		return 2;
	}
	size_t n_tables = 0;
	while (n_tables < et_n_kernel_tables && n_tables + 1 < ET_ARRAY_LEN(c.tables)) {
		c.tables[n_tables] = et_kernel_tables[n_tables];
		n_tables++;
	}
	const struct et_kernel_table *own = c.is_plugin ? et_plugin_kernels(c.entry.backend) : NULL;
	if (own)
		c.tables[n_tables++] = own;
	for (size_t i = 0; own && i < own->n; i++)
		say(&c, true, "operator %s(%s)", own->kernels[i].name, own->kernels[i].signature);
	c.registry = (struct et_registry){ c.tables, n_tables, &c.entry, 1 };
	check_devices(&c);
	check_garbage(&c);
	if (optind + 1 < argc)
		check_program(&c, argv[optind + 1]);
	if (c.is_plugin) {
		check_memory(&c);
		say(&c, n_crashes(&c) == 0, "%u crashes of the host process", n_crashes(&c));
	}
	c.entry.ops->close(c.entry.backend);
	printf("%s\n", c.n_failed ? "not conforming" : "conforming");
	return c.n_failed > 0;
}
