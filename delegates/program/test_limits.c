/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine in a process with a memory limit, in the strict sandbox, and with files that are broken on purpose. Each
 * case is a child process, so that a crash is a failure of the test and not its end. */
#include "delegates/convert.h"
#include "delegates/program/test_rig.h"

#include "delegates/plugin/host/sandbox.h"
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SKIPPED = 77 };

static const struct inferd_delegate *const table = &et_program_engine;
static struct inferd_delegate_message message = { .struct_size = sizeof message };

/* Run @fn in a child. Returns its exit status; -1: a signal ended it. */
static int in_child(int (*fn)(void *arg), void *arg)
{
	int status = 0;
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int result = fn(arg);
		fflush(NULL);
		_exit(result);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Bytes that count for RLIMIT_DATA now: the sixth number of proc_pid_statm(5), without stacks. */
static uint64_t data_bytes(void)
{
	unsigned long long n[6] = { 0 };
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file)
		return 0;
	int n_read = fscanf(file, "%llu %llu %llu %llu %llu %llu", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]);
	fclose(file);
	return n_read == 6 ? n[5] * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* --- one run, from opening to closing --------------------------------------------------------------------------- */

/* A program, its arguments, and the runtime's outputs for them. */
struct job {
	struct rig_file file;
	struct et_program *program;
	struct et_plan *plan;
	struct rig_args args;
	uint64_t n_limit_bytes; /* besides what the process has now */
	uint32_t n_threads;
};

static void job_open(struct job *job, const char *path)
{
	struct rig_reference r;
	struct et_diag diag = { "" };
	*job = (struct job){ .n_threads = 1 };
	assert_true(rig_file_open(&job->file, path, SIZE_MAX));
	assert_int_equal(rig_program(&job->file, &job->program), ET_OK);
	assert_int_equal(et_plan_new(&job->plan, job->program, NULL, rig_registry(), NULL, 1, et_platform_allocator(),
				 &diag),
		ET_OK);
	rig_args_init(&job->args, et_plan_info(job->plan));
	rig_args_fill(&job->args, 3);
	rig_reference_init(&r, job->plan, NULL);
	assert_int_equal(rig_reference_run(&r, &job->args), ET_OK);
	rig_reference_deinit(&r);
	rig_args_clear(&job->args);
}

static void job_close(struct job *job)
{
	rig_args_deinit(&job->args);
	et_plan_unref(job->plan);
	et_program_unref(job->program);
	rig_file_close(&job->file);
	rig_close_registry();
}

/* The first result that is not OK; OK if the outputs are right, E_INTERNAL if they are not. */
static int do_job(struct job *job)
{
	struct rig rig;
	struct inferd_delegate_payload payload = rig_payload(&job->file, et_plan_info(job->plan)->method, 1);
	struct inferd_delegate_model_info info = { .struct_size = sizeof info };
	struct inferd_delegate_model *model = NULL;
	struct inferd_delegate_instance *instance = NULL;
	struct inferd_delegate_worker_threads *threads = NULL;
	rig = (struct rig){
		.host = { .struct_size = sizeof rig.host, .major = INFERD_DELEGATE_MAJOR, .log = rig_ignore_log }
	};
	int result = table->open(&rig.host, &rig.self, &message);
	if (result)
		return result;
	uint8_t *stand_in = NULL;
	size_t n_stand_in = 0;
	result = et_program_describe(rig.self, &payload, &stand_in, &n_stand_in, &message);
	free(result ? NULL : stand_in);
	if (!result)
		result = table->threads_new(rig.self, 0, job->n_threads, &threads, &message);
	if (!result)
		result = table->init(rig.self, &payload, &model, &info, &message);
	if (!result)
		result = table->instance_new(model, &instance, &message);
	const struct inferd_delegate_run run = {
		.struct_size = sizeof run, .n_args = job->args.n_args, .args = job->args.pointers, .threads = threads
	};
	if (!result)
		result = table->execute(model, instance, &run, &message);
	if (!result && !rig_args_equal(&job->args))
		result = INFERD_DELEGATE_E_INTERNAL;
	if (instance)
		table->instance_free(instance);
	if (model)
		table->destroy(model);
	if (threads)
		table->threads_free(threads);
	table->close(rig.self);
	return result;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Whether the system enforces RLIMIT_DATA: an emulated process's may not be. */
static bool is_enforced(void)
{
	const size_t n_much = (size_t)1 << 32;
	void *much = mmap(NULL, n_much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (much != MAP_FAILED)
		munmap(much, n_much);
	return much == MAP_FAILED;
}

/* @result, but E_INTERNAL if it is the limit and the message does not say so. */
static int with_reason(int result)
{
	if (result != INFERD_DELEGATE_E_LIMIT || strstr(message.text, "MiB that the process of its user may have now"))
		return result;
	fprintf(stderr, "%s\n", message.text);
	return INFERD_DELEGATE_E_INTERNAL;
}

static int with_limit(void *arg)
{
	struct job *job = arg;
	uint64_t n_now = data_bytes();
	if (!n_now || et_sandbox_limit_memory(n_now + job->n_limit_bytes) < 0 || !is_enforced())
		return SKIPPED;
	return with_reason(do_job(job));
}

/* A program runs with any limit and is right, or is refused with the reason; the process never ends for it. */
static void test_memory_limit(void **state)
{
#ifdef INF_SANITIZED
	skip(); /* a sanitizer ends the process when the system has no memory */
#endif
	struct job job;
	unsigned n_limited = 0, n_right = 0;
	job_open(&job, TEST_MODELS "/efficientnet_lite0_int8.pte");
	for (unsigned i = 0; i < 40; i++) {
		job.n_limit_bytes = (uint64_t)(i / 2) << 21;
		job.n_threads = 1 + i % 2;
		int result = in_child(with_limit, &job);
		if (result == SKIPPED) {
			job_close(&job);
			skip();
		}
		if (result != INFERD_DELEGATE_OK && result != INFERD_DELEGATE_E_LIMIT)
			fail_msg("with %llu bytes: result %d", (unsigned long long)job.n_limit_bytes, result);
		n_limited += result == INFERD_DELEGATE_E_LIMIT;
		n_right += result == INFERD_DELEGATE_OK;
	}
	print_message("%u limits are too small, with %u the run is right\n", n_limited, n_right);
	assert_true(n_limited > 0 && n_right > 0);
	job_close(&job);
}

/* With this many bytes more: worker threads of eight threads, whose stacks may not find room. */
static int start_threads(void *arg)
{
	const struct inferd_delegate_host host = {
		.struct_size = sizeof host, .major = INFERD_DELEGATE_MAJOR, .log = rig_ignore_log
	};
	struct inferd_delegate_worker_threads *threads = NULL;
	void *self = NULL;
	et_program_warm();
	if (et_sandbox_limit_memory(data_bytes() + *(uint64_t *)arg) < 0 || !is_enforced())
		return SKIPPED;
	int result = table->open(&host, &self, &message);
	if (result)
		return with_reason(result);
	result = table->threads_new(self, 0, 8, &threads, &message);
	if (result == INFERD_DELEGATE_OK)
		table->threads_free(threads);
	table->close(self);
	return with_reason(result);
}

/* A thread that can't be started is an answer: nobody waits for it. */
static void test_threads_limit(void **state)
{
	unsigned n_limited = 0, n_started = 0;
#ifdef INF_SANITIZED
	skip();
#endif
	for (uint64_t n_bytes = 1 << 20; n_bytes <= 96 << 20; n_bytes += 1 << 20) {
		int result = in_child(start_threads, &n_bytes);
		if (result == SKIPPED)
			skip();
		if (result != INFERD_DELEGATE_OK && result != INFERD_DELEGATE_E_LIMIT)
			fail_msg("with %llu bytes: result %d", (unsigned long long)n_bytes, result);
		n_limited += result == INFERD_DELEGATE_E_LIMIT;
		n_started += result == INFERD_DELEGATE_OK;
	}
	print_message("%u limits are too small for eight threads, with %u they start\n", n_limited, n_started);
	assert_true(n_limited > 0 && n_started > 0);
}

/* A program whose delegate wants gigabytes for one run, with the files of shared/models/attacks. All in the child. */
static int attack(void *arg)
{
	struct job job = { .n_threads = 1 };
	struct et_diag diag = { "" };
	if (et_sandbox_limit_memory(data_bytes() + (UINT64_C(512) << 20)) < 0)
		return SKIPPED;
	if (!rig_file_open(&job.file, arg, SIZE_MAX) || rig_program(&job.file, &job.program) != ET_OK)
		return INFERD_DELEGATE_E_INTERNAL;
	enum et_status status = et_plan_new(&job.plan, job.program, NULL, rig_registry(), NULL, 1,
		et_platform_allocator(), &diag);
	if (status) /* XNNPACK's delegate refuses it already */
		return et_convert_status(status, &diag, NULL);
	rig_args_init(&job.args, et_plan_info(job.plan));
	rig_args_fill(&job.args, 1);
	rig_args_clear(&job.args);
	return do_job(&job);
}

static void test_attack(void **state)
{
	static char path[] = SHARED_MODELS "/attacks/context_of_6_gb.pte";
#ifdef INF_SANITIZED
	skip();
#endif
	if (access(path, R_OK) != 0) {
		print_message("without %s, which is not there\n", path);
		skip();
	}
	assert_int_equal(in_child(attack, path), INFERD_DELEGATE_E_LIMIT);
}

/* --- the sandbox -------------------------------------------------------------------------------------------------- */

static bool is_refused(long result)
{
	return result < 0 && (errno == EPERM || errno == EACCES);
}

/* Memory that RLIMIT_DATA does not count. */
static int try_uncounted(void)
{
	static const int flags[] = { MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED_VALIDATE | MAP_ANONYMOUS,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN };
	unsigned long ring = 0;
	int pair[2];
	for (int i = 0; i < 3; i++)
		if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags[i], -1, 0) != MAP_FAILED || errno != EPERM)
			return 20 + i;
	void *counted = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (counted == MAP_FAILED || munmap(counted, 4096) < 0)
		return 23;
	if (!is_refused(pipe(pair)))
		return 24;
	if (!is_refused(syscall(SYS_io_setup, 1, &ring)))
		return 25;
	if (!is_refused(syscall(SYS_memfd_create, "x", 0)))
		return 26;
	if (!is_refused(syscall(SYS_shmget, IPC_PRIVATE, 4096, 0600)))
		return 27;
	return 0;
}

/* Calls that the strict sandbox must refuse; the number of the first that it does not. */
static int try_forbidden(void)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	int pair[2], size;
	if (!is_refused(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)))
		return 1;
	if (!is_refused(open("/dev/null", O_WRONLY | O_CLOEXEC)))
		return 2;
	if (!is_refused(open("/tmp/inferd-strict", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)))
		return 3;
	if (!is_refused(memfd_create("x", MFD_CLOEXEC)))
		return 4;
	if (!is_refused(setrlimit(RLIMIT_NPROC, &limit)))
		return 5;
	if (!is_refused(ioctl(0, FIONREAD, &size)))
		return 6;
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != EPERM)
		return 7;
	if (!is_refused(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)))
		return 8;
	if (getrlimit(RLIMIT_NPROC, &limit) < 0)
		return 9;
	if (!is_refused(unlink("/tmp/inferd-strict")))
		return 10;
	if (!is_refused(socket(AF_UNIX, SOCK_STREAM, 0)))
		return 11;
	if (!is_refused(fork()))
		return 12;
	return try_uncounted();
}

static int in_sandbox(void *arg)
{
	struct job *job = arg;
	et_program_warm();
	unsigned parts = et_sandbox_enter_strict();
	if (!(parts & ET_SANDBOX_CALLS) || !(parts & ET_SANDBOX_LIMITS))
		return SKIPPED;
	int forbidden = try_forbidden();
	if (forbidden) {
		fprintf(stderr, "the strict sandbox allows what case %d tries\n", forbidden);
		return INFERD_DELEGATE_E_INTERNAL;
	}
	int result = do_job(job);
	if (result)
		fprintf(stderr, "in the strict sandbox: %s\n", message.text);
	return result;
}

/* A program runs in the strict sandbox, on several threads, too. */
static void test_sandbox(void **state)
{
#ifdef INF_SANITIZED
	skip(); /* a sanitizer opens files at any time */
#endif
	struct job job;
	job_open(&job, TEST_MODELS "/efficientnet_lite0_int8.pte");
	for (job.n_threads = 1; job.n_threads <= 4; job.n_threads += 3) {
		int result = in_child(in_sandbox, &job);
		if (result == SKIPPED) {
			job_close(&job);
			skip();
		}
		assert_int_equal(result, INFERD_DELEGATE_OK);
	}
	job_close(&job);
}

/* --- broken files ------------------------------------------------------------------------------------------------- */

enum { MAX_SLICES = 2000, MUTANTS = 150 };

struct broken {
	const struct rig_file *file;
	void *self;
	unsigned n_init, n_run;
};

static struct broken counts;

/* Make the method ready, and run it for some time. */
static void use_method(void *self, const struct rig_file *file, const char *method, uint64_t number)
{
	struct inferd_delegate_payload payload = rig_payload(file, method, number);
	struct inferd_delegate_model_info info = { .struct_size = sizeof info };
	struct inferd_delegate_model *model = NULL;
	struct inferd_delegate_instance *instance = NULL;
	struct inferd_delegate_worker_threads *threads = NULL;
	struct et_program *program = NULL;
	struct et_plan *plan = NULL;
	struct et_diag diag = { "" };
	struct rig_args args;
	if (table->init(self, &payload, &model, &info, &message))
		return;
	counts.n_init++;
	if (info.scratch_bytes > 64 << 20 || info.state_bytes > 64 << 20 ||
		table->instance_new(model, &instance, &message)) {
		table->destroy(model);
		return;
	}
	if (rig_program(file, &program) == ET_OK &&
		et_plan_new(&plan, program, method, rig_registry(), NULL, 1, et_platform_allocator(), &diag) == ET_OK &&
		rig_args_try(&args, et_plan_info(plan), 64 << 20) &&
		table->threads_new(self, 0, 1, &threads, &message) == INFERD_DELEGATE_OK) {
		struct inferd_delegate_run run = { .struct_size = sizeof run,
			.n_args = args.n_args,
			.args = args.pointers,
			.threads = threads,
			.slice_ns = 1 };
		rig_args_fill(&args, 1);
		rig_args_clear(&args);
		int result = table->execute(model, instance, &run, &message);
		for (unsigned i = 0; result == INFERD_DELEGATE_UNFINISHED && i < MAX_SLICES; i++) {
			run.flags = INFERD_DELEGATE_CONTINUES;
			result = table->execute(model, instance, &run, &message);
		}
		if (result == INFERD_DELEGATE_UNFINISHED)
			table->abandon(model, instance);
		counts.n_run++;
		rig_args_deinit(&args);
	}
	table->instance_free(instance);
	table->destroy(model);
	if (threads)
		table->threads_free(threads);
	et_plan_unref(plan);
	et_program_unref(program);
}

static void use_file(void *self, const struct rig_file *file)
{
	static uint64_t number = 1;
	struct inferd_delegate_payload payload = rig_payload(file, "forward", ++number);
	struct et_program *program = NULL;
	uint8_t *bytes = NULL;
	size_t n_bytes = 0;
	uint32_t readiness = 0;
	if (table->probe(self, &payload, &readiness, &message) == INFERD_DELEGATE_OK &&
		et_program_describe(self, &payload, &bytes, &n_bytes, &message) == INFERD_DELEGATE_OK) {
		const struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
		struct et_diag diag = { "" };
		if (et_program_open(&program, &source, NULL, et_platform_allocator(), &diag) != ET_OK ||
			!et_stand_in_check(program))
			fail_msg("the stand-in of a broken program is broken: %s", diag.text);
		for (uint32_t i = 0; i < et_program_n_methods(program) && i < 8; i++)
			use_method(self, file, et_program_method_at(program, i)->name, number);
		et_program_unref(program);
		free(bytes);
	}
}

/* Change some bytes of a copy of @file, again and again. */
static void mutate_file(const struct rig_file *file)
{
	unsigned random = 12345;
	if (file->n_bytes > 100000)
		return;
	struct rig_file copy = *file;
	copy.bytes = calloc(1, file->n_bytes + 64);
	assert_non_null(copy.bytes);
	for (unsigned m = 0; m < MUTANTS; m++) {
		memcpy(copy.bytes, file->bytes, file->n_bytes);
		for (unsigned i = 0; i < 1 + m % 4; i++) {
			random = random * 1103515245u + 12345u;
			size_t at = (random >> 4) % file->n_bytes;
			random = random * 1103515245u + 12345u;
			copy.bytes[at] = (uint8_t)(random >> 16);
		}
		use_file(counts.self, &copy);
	}
	free(copy.bytes);
}

static int use_broken(void *arg)
{
	struct rig rig;
	char path[600];
	struct dirent *entry;
#ifndef INF_SANITIZED
	if (et_sandbox_limit_memory(UINT64_C(1) << 30) < 0)
		return SKIPPED;
#endif
	rig_open(&rig, NULL);
	counts.self = rig.self;
	DIR *dir = opendir(FUZZ_CORPUS);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		struct rig_file file;
		snprintf(path, sizeof path, "%s/%s", FUZZ_CORPUS, entry->d_name);
		if (entry->d_name[0] == '.' || !rig_file_open(&file, path, SIZE_MAX))
			continue;
		use_file(rig.self, &file);
		rig_file_close(&file);
	}
	closedir(dir);
	rig_for_small(mutate_file);
	print_message("%u methods of broken programs were made ready, %u of them ran\n", counts.n_init, counts.n_run);
	rig_close(&rig);
	rig_close_registry();
	return counts.n_init > 50 && counts.n_run > 30 ? 0 : 1;
}

static void test_broken(void **state)
{
	assert_int_equal(in_child(use_broken, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_threads_limit),
		cmocka_unit_test(test_attack),
		cmocka_unit_test(test_sandbox),
		cmocka_unit_test(test_broken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
