/* SPDX-License-Identifier: BSD-3-Clause */
/* The platform's services: memory, files that stay unchanged, guard pages, and the SIGBUS guard. */
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Reads that the compiler must not leave out. */
static unsigned sum(const volatile uint8_t *bytes, size_t n)
{
	unsigned total = 0;
	for (size_t i = 0; i < n; i++)
		total += bytes[i];
	return total;
}

static char *temporary_dir(void)
{
	static char path[64];
	snprintf(path, sizeof(path), "/tmp/inferd-test-host-XXXXXX");
	assert_non_null(mkdtemp(path));
	return path;
}

static void heap_aligns(void **state)
{
	const struct et_allocator *heap = et_platform_allocator();
	for (size_t align = 1; align <= 4096; align *= 2) {
		void *piece = heap->alloc(heap->self, 33, align);
		assert_non_null(piece);
		assert_int_equal((uintptr_t)piece % align, 0);
		heap->free(heap->self, piece, 33);
	}
	assert_null(heap->alloc(heap->self, SIZE_MAX - 10, 64));
	heap->free(heap->self, NULL, 0);
}

static void pages_are_followed_by_a_guard(void **state)
{
	const struct et_allocator *pages = et_platform_page_allocator();
	size_t n = 3 * page_bytes();
	uint8_t *bytes = pages->alloc(pages->self, n, 4096);
	assert_non_null(bytes);
	assert_int_equal(sum(bytes, n + page_bytes()), 0);
	memset(bytes, 1, n);
	assert_int_equal(sum(bytes + n, page_bytes()), 0);
	pages->free(pages->self, bytes, n);
	assert_null(pages->alloc(pages->self, SIZE_MAX - 10, 64));
	pages->free(pages->self, NULL, 0);
}

/* Touched pages are resident. Only half is expected: other pages of this process come and go meanwhile. */
static void touched_memory_is_resident(void **state)
{
	enum { N_BYTES = 64 << 20 };
	const struct et_allocator *pages = et_platform_page_allocator();
	uint64_t before = et_platform_resident_bytes();
	uint8_t *bytes = pages->alloc(pages->self, N_BYTES, 64);
	assert_non_null(bytes);
	memset(bytes, 1, N_BYTES);
	uint64_t during = et_platform_resident_bytes();
	pages->free(pages->self, bytes, N_BYTES);
	assert_true(before > 0 && during >= before + N_BYTES / 2);
	assert_true(et_platform_resident_bytes() <= during - N_BYTES / 2);
}

static void clock_goes_forward(void **state)
{
	uint64_t before = et_platform_now_ns(NULL);
	assert_true(et_platform_now_ns(NULL) >= before);
}

static void log_writes_one_line(void **state)
{
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	int saved = dup(STDERR_FILENO);
	dup2(pipe_fds[1], STDERR_FILENO);

	struct et_log plain = et_platform_log(ET_LOG_INFO);
	et_logf(&plain, ET_LOG_DEBUG, "not this one");
	et_logf(&plain, ET_LOG_WARNING, "model %d", 7);

	struct stat st;
	char stream[64];
	fstat(STDERR_FILENO, &st);
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	struct et_log journal = et_platform_log(ET_LOG_INFO);
	et_logf(&journal, ET_LOG_WARNING, "model %d", 8);
	et_logf(&journal, ET_LOG_WARNING, "model 'a\n<0>b\033[2J'");
	unsetenv("JOURNAL_STREAM");

	dup2(saved, STDERR_FILENO);
	close(saved);
	close(pipe_fds[1]);
	char text[128];
	ssize_t n = 0, piece;
	while ((piece = read(pipe_fds[0], text + n, sizeof text - 1 - (size_t)n)) > 0)
		n += piece;
	text[n] = '\0';
	assert_string_equal(text, "model 7\n<4>model 8\n<4>model 'a?<0>b?[2J'\n");
	close(pipe_fds[0]);
}

/* ---- files ---- */

static void write_file(const char *path, const char *text, size_t n_times)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (size_t i = 0; i < n_times; i++)
		fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void source_keeps_its_bytes(const char *cache_dir, const char *path)
{
	write_file(path, "0123456789", 5000);
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_source_open(&source, path, cache_dir, NULL, &diag), ET_OK);
	assert_int_equal(source.n_bytes, 50000);

	/* rewritten in place, then truncated: nothing changes here */
	write_file(path, "abcdefghij", 5000);
	assert_memory_equal(source.bytes, "0123456789", 10);
	assert_int_equal(truncate(path, 0), 0);
	unsigned before = sum(source.bytes, source.n_bytes);
	assert_int_equal(before, 5000 * (45 + 480));

	/* the padding behind the last byte reads as zeros */
	assert_int_equal(sum(source.bytes + source.n_bytes, page_bytes()), 0);

	source.drop(source.owner, 10, 40000);
	source.drop(source.owner, 40000, SIZE_MAX - 5);
	source.drop(source.owner, 49999, 1);
	assert_int_equal(sum(source.bytes, source.n_bytes), before);
	source.release(source.owner);
	unlink(path);
}

/* If the folder for copies has no room, the copy is in memory. In a mount namespace of a child process. */
static void full_folder(void **state)
{
	enum { CANNOT_MOUNT = 77 };
	char path[128];
	int status;
	char *dir = temporary_dir();
	snprintf(path, sizeof path, "%s/model.pte", dir);
	write_file(path, "0123456789", 5000);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	pid_t pid = fork();
	if (pid == 0) {
		struct et_source source;
		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
			mount("none", dir, "tmpfs", 0, "size=16k") < 0)
			_exit(CANNOT_MOUNT);
		if (et_platform_source_import(&source, fd, 50000, "model", dir, NULL, NULL) != ET_OK)
			_exit(1);
		bool is_same = sum(source.bytes, source.n_bytes) == 5000 * (45 + 480);
		source.release(source.owner);
		_exit(is_same ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fd);
	unlink(path);
	rmdir(dir);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT) {
		print_message("SKIPPED: nothing can be mounted here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void sources_keep_their_bytes(void **state)
{
	char path[128];
	char *dir = temporary_dir();
	snprintf(path, sizeof path, "%s/model.pte", dir);
	source_keeps_its_bytes(dir, path);
	source_keeps_its_bytes(NULL, path);
	source_keeps_its_bytes("/no/such/dir", path);
	source_keeps_its_bytes("/dev/shm", path); /* another file system */
	rmdir(dir);
}

/* The error names the user who may not read the file: the reader of the daemon's messages is another user. */
static void sources_say_who_may_not_read_them(void **state)
{
	enum { NOBODY = 65534 };
	char path[] = "/tmp/test-host-XXXXXX", expected[128];
	struct et_source source;
	struct et_diag diag = { "" };
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0), 0);
	uid_t who = geteuid();
	if (!who) /* root may read everything */
		assert_int_equal(seteuid(NOBODY), 0);
	enum et_status status = et_platform_source_open(&source, path, NULL, NULL, &diag);
	if (!who)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(status, ET_E_ACCESS_FAILED);
	snprintf(expected, sizeof expected, "%s: cannot open it: Permission denied to user %u", path,
		who ? (unsigned)who : NOBODY);
	assert_string_equal(diag.text, expected);
	close(fd);
	unlink(path);
}

static void sources_refuse_by_name(void **state)
{
	char path[128];
	char *dir = temporary_dir();
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_source_open(&source, "/no/such.pte", dir, NULL, &diag), ET_E_ACCESS_FAILED);
	assert_string_equal(diag.text, "/no/such.pte: cannot open it: No such file or directory");
	diag.text[0] = '\0';
	assert_int_equal(et_platform_source_open(&source, dir, dir, NULL, &diag), ET_E_INVALID_ARGUMENT);
	assert_non_null(strstr(diag.text, "not a regular file"));
	diag.text[0] = '\0';
	snprintf(path, sizeof path, "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(et_platform_source_open(&source, path, dir, NULL, &diag), ET_E_INVALID_ARGUMENT);
	unlink(path);
	diag.text[0] = '\0';
	snprintf(path, sizeof path, "%s/empty.pte", dir);
	write_file(path, "", 0);
	assert_int_equal(et_platform_source_open(&source, path, dir, NULL, &diag), ET_E_INVALID_ARGUMENT);
	assert_non_null(strstr(diag.text, "empty.pte: the file is empty"));
	unlink(path);
	rmdir(dir);
}

static void imports_exactly_the_charged_size(void **state)
{
	char path[128];
	char *dir = temporary_dir();
	snprintf(path, sizeof path, "%s/model.pte", dir);
	write_file(path, "0123456789", 10);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	lseek(fd, 50, SEEK_SET);
	struct et_source source;
	for (int i = 0; i < 2; i++) {
		const char *cache_dir = i ? dir : NULL;
		assert_int_equal(et_platform_source_import(&source, fd, 100, "mine", cache_dir, NULL, NULL), ET_OK);
		assert_memory_equal(source.bytes, "0123456789", 10);
		source.release(source.owner);
		assert_int_equal(lseek(fd, 0, SEEK_CUR), 50);
		for (size_t n = 99; n <= 101; n += 2) {
			struct et_diag diag = { "" };
			assert_int_equal(et_platform_source_import(&source, fd, n, "mine", cache_dir, NULL, &diag),
				ET_E_ACCESS_FAILED);
			assert_string_equal(diag.text, "mine: its size changed while it was read");
		}
	}
	close(fd);
	struct et_diag diag = { "" };
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(et_platform_source_import(&source, fd, 100, "mine", dir, NULL, &diag), ET_E_ACCESS_FAILED);
	assert_non_null(strstr(diag.text, "mine: cannot copy it"));
	close(fd);
	unlink(path);
	rmdir(dir);
}

/* ---- limits of copying ---- */

static void a_reserve_is_left(void **state)
{
	const uint64_t mib = UINT64_C(1) << 20, gib = mib << 10;
	assert_int_equal(et_platform_room(50 * gib, 100 * gib), 45 * gib);
	assert_int_equal(et_platform_room(5 * gib, 100 * gib), 0);
	assert_int_equal(et_platform_room(gib, 2 * gib), gib - 256 * mib);
	assert_int_equal(et_platform_room(100 * mib, 100 * mib), 75 * mib);
	assert_int_equal(et_platform_room(0, 0), 0);
}

struct asked {
	unsigned n, n_before_stop;
};

static bool count_and_stop(void *arg)
{
	struct asked *asked = arg;
	return asked->n++ == asked->n_before_stop;
}

static void sparse(const char *path, off_t n_bytes)
{
	write_file(path, "0123456789", 10);
	assert_int_equal(truncate(path, n_bytes), 0);
}

/* A file of 1 TiB that takes no room is refused before anything is written; RLIMIT_FSIZE holds what is written else. */
static void a_vast_file_is_refused(void **state)
{
	char path[128];
	char *dir = temporary_dir();
	struct et_source source;
	struct rlimit before, small = { 0 };
	snprintf(path, sizeof path, "%s/vast.pte", dir);
	sparse(path, (off_t)1 << 40);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	struct et_diag in_memory = { "" }, on_disk = { "" }, by_budget = { "" };
	enum et_status status[] = {
		et_platform_source_open(&source, path, NULL, NULL, &in_memory),
		et_platform_source_open(&source, path, "/dev/shm", NULL, &on_disk), /* which clones no file of /tmp */
		et_platform_source_open(&source, path, dir, &(struct et_platform_copy_limits){ .max_bytes = 512 << 20 },
			&by_budget),
	};
	setrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_DFL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(status[i], ET_E_OUT_OF_RESOURCES);
	assert_non_null(strstr(in_memory.text, "vast.pte: its copy takes 1048576 MiB; beside a reserve, "));
	assert_non_null(strstr(in_memory.text, " MiB of memory are free"));
	assert_null(strstr(in_memory.text, "disk"));
	assert_non_null(strstr(on_disk.text, "MiB of the cache folder's disk and "));
	assert_non_null(strstr(by_budget.text,
		"vast.pte: the file has 1048576 MiB, more than the 512 MiB that the memory budget leaves it"));
	unlink(path);
	rmdir(dir);
}

static uint64_t ten_bytes(const uint8_t *bytes, size_t n_bytes)
{
	assert_true(n_bytes >= 10);
	return memcmp(bytes, "0123456789", 10) == 0 ? 10 : 0;
}

/* Also where it takes no room: what follows the contents is not read by anybody, or a hole. */
static void a_file_longer_than_its_contents_is_refused(void **state)
{
	const struct et_platform_copy_limits limits = { .max_bytes = UINT64_MAX, .extent = ten_bytes };
	char path[128];
	char *dir = temporary_dir();
	struct et_source source;
	struct et_diag diag = { "" };
	snprintf(path, sizeof path, "%s/long.pte", dir);
	sparse(path, (32 << 20) + 1);
	assert_int_equal(et_platform_source_open(&source, path, dir, &limits, &diag), ET_E_INVALID_ARGUMENT);
	assert_non_null(strstr(diag.text, "long.pte: the file has 32 MiB, but what it contains ends after 1 MiB"));
	assert_int_equal(truncate(path, 1 << 20), 0); /* a little more does not matter */
	assert_int_equal(et_platform_source_open(&source, path, dir, &limits, &diag), ET_OK);
	source.release(source.owner);
	assert_int_equal(truncate(path, 0), 0);
	write_file(path, "not that", 4 << 20); /* nothing tells how much it needs */
	assert_int_equal(et_platform_source_open(&source, path, dir, &limits, &diag), ET_OK);
	source.release(source.owner);
	unlink(path);
	rmdir(dir);
}

/* The copy asks between two pieces whether anybody still waits for it. */
static void a_copy_stops(void **state)
{
	char path[128];
	char *dir = temporary_dir();
	struct et_source source;
	struct et_diag diag = { "" };
	struct asked asked = { .n_before_stop = 3 };
	const struct et_platform_copy_limits limits = { UINT64_MAX, count_and_stop, &asked };
	snprintf(path, sizeof path, "%s/model.pte", dir);
	write_file(path, "0123456789abcdef", 4 << 20);
	assert_int_equal(et_platform_source_open(&source, path, NULL, &limits, &diag), ET_E_CANCELLED);
	assert_int_equal(asked.n, 4);
	assert_non_null(strstr(diag.text, "nobody waits for it"));
	asked = (struct asked){ .n_before_stop = UINT32_MAX };
	assert_int_equal(et_platform_source_open(&source, path, NULL, &limits, &diag), ET_OK);
	assert_int_equal(asked.n, 2 + 4); /* at first, before the pieces, before each */
	source.release(source.owner);
	unlink(path);
	rmdir(dir);
}

/* A hole of the file is not copied, and reads as zeros. */
static void holes_are_not_copied(void **state)
{
	enum { N = 256 << 20 };
	char path[128];
	char *dir = temporary_dir();
	struct et_source source;
	struct asked asked = { .n_before_stop = UINT32_MAX };
	const struct et_platform_copy_limits limits = { UINT64_MAX, count_and_stop, &asked };
	snprintf(path, sizeof path, "%s/model.pte", dir);
	sparse(path, N - 1);
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "!", 1), 1);
	close(fd);
	assert_int_equal(et_platform_source_open(&source, path, NULL, &limits, NULL), ET_OK);
	assert_int_equal(asked.n, 2 + 2);
	assert_memory_equal(source.bytes, "0123456789", 10);
	assert_int_equal(sum(source.bytes + N / 2, page_bytes()), 0);
	assert_int_equal(source.bytes[N - 1], '!');
	source.release(source.owner);
	unlink(path);
	rmdir(dir);
}

/* ---- mappings ---- */

static void map_has_a_guard_page(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)page_bytes()), 0);
	struct et_platform_mapping mapping;
	assert_int_equal(et_platform_map(&mapping, fd, page_bytes(), true), 0);
	memset(mapping.bytes, 0xff, page_bytes());
	assert_int_equal(sum((uint8_t *)mapping.bytes + page_bytes(), page_bytes()), 0);
	uint8_t byte;
	assert_int_equal(pread(fd, &byte, 1, 5), 1);
	assert_int_equal(byte, 0xff);
	assert_false(et_platform_mapping_faulted(&mapping));
	et_platform_unmap(&mapping);
	et_platform_unmap(&mapping);
	assert_int_equal(et_platform_map(&mapping, fd, 0, true), -EINVAL);
	assert_int_equal(et_platform_map(&mapping, fd, SIZE_MAX - 5, true), -EINVAL);
	assert_int_equal(et_platform_map(&mapping, -1, 10, true), -EBADF);
	struct et_platform_mapping nothing = { 0 };
	et_platform_unmap(&nothing);
	close(fd);
}

static void *touch(void *arg)
{
	struct et_platform_mapping *mapping = arg;
	return (void *)(uintptr_t)sum(mapping->bytes, mapping->n_bytes);
}

static void fault_becomes_zeros(void **state)
{
	et_platform_install_sigbus_guard();
	size_t n = 8 * page_bytes();
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)n), 0);
	struct et_platform_mapping lost, read_only, other;
	assert_int_equal(et_platform_map(&lost, fd, n, true), 0);
	assert_int_equal(et_platform_map(&read_only, fd, n, false), 0);
	int kept = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(kept, (off_t)n), 0);
	assert_int_equal(et_platform_map(&other, kept, n, true), 0);
	memset(lost.bytes, 1, n);
	memset(other.bytes, 2, n);

	assert_int_equal(ftruncate(fd, 0), 0); /* the owner of an unsealed region can do this */
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, touch, i % 2 ? &lost : &read_only), 0);
	for (int i = 0; i < 4; i++) {
		void *total;
		assert_int_equal(pthread_join(threads[i], &total), 0);
		assert_null(total);
	}
	assert_true(et_platform_mapping_faulted(&lost));
	assert_true(et_platform_mapping_faulted(&read_only));
	assert_false(et_platform_mapping_faulted(&other));
	memset(lost.bytes, 3, n); /* the job may continue to write */
	assert_int_equal(sum(lost.bytes, n), 3 * n);
	assert_int_equal(sum((uint8_t *)lost.bytes + n, page_bytes()), 0);
	assert_int_equal(sum(other.bytes, n), 2 * n);
	et_platform_unmap(&lost);
	et_platform_unmap(&read_only);

	/* its entry is free for the next mapping, and clean */
	assert_int_equal(et_platform_map(&lost, kept, n, true), 0);
	assert_false(et_platform_mapping_faulted(&lost));
	et_platform_unmap(&lost);
	et_platform_unmap(&other);
	close(fd);
	close(kept);
}

static void fault_in_a_mapping_larger_than_the_memory(void **state)
{
	et_platform_install_sigbus_guard();
	struct sysinfo info;
	assert_int_equal(sysinfo(&info), 0);
	uint64_t n = 2 * ((uint64_t)info.totalram + info.totalswap) * info.mem_unit / page_bytes() * page_bytes();
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct et_platform_mapping lost;
	if (n > SIZE_MAX / 4 || ftruncate(fd, (off_t)n) < 0 || et_platform_map(&lost, fd, (size_t)n, true) < 0)
		skip();
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(((volatile uint8_t *)lost.bytes)[n / 2], 0);
	assert_true(et_platform_mapping_faulted(&lost));
	et_platform_unmap(&lost);
	close(fd);
}

static void many_mappings_are_guarded(void **state)
{
	enum { N = 1200 }; /* more than one block of the table */
	static struct et_platform_mapping mappings[N];
	et_platform_install_sigbus_guard();
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 10), 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(et_platform_map(&mappings[i], fd, 10, true), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(sum(mappings[N - 1].bytes, 10), 0);
	assert_true(et_platform_mapping_faulted(&mappings[N - 1]));
	assert_false(et_platform_mapping_faulted(&mappings[0]));
	for (int i = 0; i < N; i++)
		et_platform_unmap(&mappings[i]);
	close(fd);
}

/* The end of a child that touches lost memory without a guard, or gets SIGBUS by kill. */
static int child_status(bool is_sent)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sigaction plain = { .sa_handler = SIG_DFL };
		sigaction(SIGBUS, &plain, NULL); /* a sanitizer's own handler would report and exit */
		et_platform_install_sigbus_guard();
		if (is_sent)
			raise(SIGBUS);
		int fd = memfd_create("test", MFD_CLOEXEC);
		volatile uint8_t *bytes = mmap(NULL, page_bytes(), PROT_READ, MAP_SHARED, fd, 0);
		_exit(bytes[0]);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void faults_elsewhere_still_kill(void **state)
{
	for (int is_sent = 0; is_sent < 2; is_sent++) {
		int status = child_status(is_sent);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGBUS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap_aligns),
		cmocka_unit_test(pages_are_followed_by_a_guard),
		cmocka_unit_test(touched_memory_is_resident),
		cmocka_unit_test(clock_goes_forward),
		cmocka_unit_test(log_writes_one_line),
		cmocka_unit_test(sources_keep_their_bytes),
		cmocka_unit_test(sources_say_who_may_not_read_them),
		cmocka_unit_test(sources_refuse_by_name),
		cmocka_unit_test(full_folder),
		cmocka_unit_test(imports_exactly_the_charged_size),
		cmocka_unit_test(a_reserve_is_left),
		cmocka_unit_test(a_vast_file_is_refused),
		cmocka_unit_test(a_file_longer_than_its_contents_is_refused),
		cmocka_unit_test(a_copy_stops),
		cmocka_unit_test(holes_are_not_copied),
		cmocka_unit_test(map_has_a_guard_page),
		cmocka_unit_test(fault_becomes_zeros),
		cmocka_unit_test(fault_in_a_mapping_larger_than_the_memory),
		cmocka_unit_test(many_mappings_are_guarded),
		cmocka_unit_test(faults_elsewhere_still_kill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
