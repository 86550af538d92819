/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts that break the protocol with well-formed packets: at an unexpected time, or with unexpected numbers.
 *
 * The proxy starts this program itself as the host; its only option, "manner", says how it behaves. */
#include "delegates/plugin/proxy/plugin.h"
#include "delegates/plugin/wire.h"
#include "delegates/inferd-delegate.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/support/make_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_FLOATS = 4, N_NAMED = 8 << 20, N_HASTY = 20, N_INSTANCES = 2000 };

/* The deadline for answers that never come; answers that come need less, on any machine. */
#define PATIENCE_NS UINT64_C(5000000000)

/* --- the host ----------------------------------------------------------------------------------------- */

struct host {
	char manner[32];
	uint64_t n_init, n_freed, last_freed;
	_Alignas(16) char packet[ET_PLUGIN_MAX_PACKET];
};

static void say(void *packet)
{
	if (et_plugin_send(ET_PLUGIN_CALLS_FD, packet, -1, 1) < 0)
		_exit(1);
}

static void answer(const struct et_plugin_header *to, uint64_t number)
{
	struct et_plugin_answer packet = { .header = { ET_PLUGIN_ANSWER, sizeof packet, to->id },
		.n_inputs = 1,
		.n_outputs = 1,
		.stats = { number } };
	say(&packet);
}

/* Send the right answer to a run, with the id @id. */
static void end_run(uint64_t id)
{
	union {
		struct et_plugin_done done;
		char bytes[sizeof(struct et_plugin_done) + sizeof(struct et_plugin_output)];
	} packet;
	memset(&packet, 0, sizeof packet);
	packet.done.header = (struct et_plugin_header){ ET_PLUGIN_DONE, sizeof packet, id };
	packet.done.n_outputs = 1;
	packet.done.outputs[0].sizes[0] = N_FLOATS;
	say(&packet);
}

static void on_run(const struct host *h, const struct et_plugin_header *run)
{
	if (strcmp(h->manner, "stale") == 0)
		end_run(1); /* the id of the START of the first host */
	if (strcmp(h->manner, "early") == 0)
		end_run(run->id + 1);
	end_run(run->id);
	if (strcmp(h->manner, "twice") == 0)
		end_run(run->id);
}

static void on_start(struct host *h, const struct et_plugin_start *start)
{
	struct et_plugin_started started = { .header = { ET_PLUGIN_STARTED, sizeof started, start->header.id },
		.flags = ET_PLUGIN_HAS_STATS | ET_PLUGIN_HAS_INSTANCES,
		.n_devices = 1,
		.id = "RudeBackend",
		.name = "rude",
		.devices = { { .kind = INFERD_DELEGATE_NPU, .max_in_flight = 1, .alignment = 64 } } };
	snprintf(h->manner, sizeof h->manner, "%.31s", (const char *)(start + 1) + sizeof "manner");
	say(&started);
}

/* Ask for named data, and answer INIT without waiting for the data: a little later each time. */
static void ask_in_haste(struct host *h, const struct et_plugin_header *init)
{
	struct et_plugin_named named = {
		.header = { ET_PLUGIN_NAMED, sizeof named, 1 }, .call = init->id, .key = "big"
	};
	if (et_plugin_send(ET_PLUGIN_ASKS_FD, &named, -1, 1) < 0)
		_exit(1);
	for (uint64_t i = 0; i < h->n_init * 20; i++)
		sched_yield();
	h->n_init++;
	answer(init, 0);
}

/* Count the bytes of the named data that differ from the program's. */
static uint64_t n_wrong_bytes(void)
{
	struct et_plugin_named named;
	int fd;
	if (et_plugin_receive(ET_PLUGIN_ASKS_FD, &named, sizeof named, &fd, 1) != (int)sizeof named)
		_exit(1);
	if (fd < 0)
		return 0; /* no data came, which is right, too */
	uint64_t n_wrong = 0;
	const char *bytes = mmap(NULL, named.n_bytes, PROT_READ, MAP_SHARED, fd, 0);
	for (uint64_t i = 0; bytes != MAP_FAILED && i < named.n_bytes; i++)
		n_wrong += bytes[i] != 'n';
	close(fd);
	return bytes == MAP_FAILED || named.n_bytes != N_NAMED ? N_NAMED : n_wrong;
}

/* Empty lines: the most work for the reader. */
static void *print_for_ever(void *arg)
{
	char lines[4096];
	memset(lines, '\n', sizeof lines);
	while (write(1, lines, sizeof lines) > 0)
		;
	return NULL;
}

static void *log_for_ever(void *arg)
{
	struct et_plugin_log log = { .header = { ET_PLUGIN_LOG, sizeof log, 0 }, .level = 7 };
	memset(log.text, '\n', sizeof log.text);
	while (et_plugin_send(ET_PLUGIN_ASKS_FD, &log, -1, 1) == 0)
		;
	return NULL;
}

/* Flood with several threads, so that one writes while another waits for room. */
static void talk(void *(*how)(void *))
{
	pthread_t thread;
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, how, NULL) || pthread_detach(thread))
			_exit(1);
}

static void on_packet(struct host *h, const struct et_plugin_header *header)
{
	bool is_hasty = strcmp(h->manner, "hasty") == 0;
	switch (header->type) {
	case ET_PLUGIN_START:
		on_start(h, (const struct et_plugin_start *)header);
		break;
	case ET_PLUGIN_INIT:
		if (is_hasty)
			ask_in_haste(h, header);
		else if (strcmp(h->manner, "prints") == 0)
			talk(print_for_ever);
		else if (strcmp(h->manner, "logs") == 0)
			talk(log_for_ever);
		else
			answer(header, 0);
		break;
	case ET_PLUGIN_STATS:
		answer(header, is_hasty ? n_wrong_bytes() : h->n_freed);
		break;
	case ET_PLUGIN_INSTANCE_FREE:
		if (((const struct et_plugin_handle *)header)->instance <= h->last_freed)
			_exit(1); /* packets must come in the order in which they were sent */
		h->last_freed = ((const struct et_plugin_handle *)header)->instance;
		h->n_freed++;
		break;
	case ET_PLUGIN_RUN:
		on_run(h, header);
		break;
	case ET_PLUGIN_INSTANCE_NEW:
	case ET_PLUGIN_SHARE:
		answer(header, 0);
		break;
	default:
		break;
	}
}

static int host_main(void)
{
	static struct host host;
	int fd;
	while (et_plugin_receive(ET_PLUGIN_CALLS_FD, host.packet, sizeof host.packet, &fd, 1) > 0) {
		if (fd >= 0)
			close(fd);
		on_packet(&host, (const struct et_plugin_header *)host.packet);
	}
	return 0;
}

/* --- the backend ---------------------------------------------------------------------------------------- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t log_changed = PTHREAD_COND_INITIALIZER;
static char last_error[400];

static void keep(void *self, enum et_log_level level, const char *text)
{
	pthread_mutex_lock(&log_lock);
	if (level <= ET_LOG_ERROR)
		snprintf(last_error, sizeof last_error, "%s", text);
	pthread_cond_broadcast(&log_changed);
	pthread_mutex_unlock(&log_lock);
}

static const struct et_log log_table = { .max_level = ET_LOG_ERROR, .write = keep };

static struct et_backend_entry open_host(const char *manner, uint64_t timeout_ns)
{
	static char self[600];
	struct et_plugin_option option = { "manner", manner };
	struct et_plugin_config config = { .path = "rude.so",
		.host_path = self,
		.run_timeout_ns = timeout_ns,
		.load_timeout_ns = timeout_ns,
		.options = &option,
		.n_options = 1 };
	struct et_backend_entry entry;
	struct et_diag diag = { "" };
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	last_error[0] = '\0';
	if (et_plugin_open(&entry, &config, et_platform_allocator(), &log_table, &diag))
		fail_msg("%s", diag.text);
	return entry;
}

static enum et_status compile(struct et_backend_entry *entry, const struct et_program *program,
	struct et_model **ret_model, struct et_diag *diag)
{
	static const uint8_t bytes[64] = "rude";
	struct et_payload payload = {
		.program = program, .bytes = bytes, .n_bytes = 4, .method = "forward", .n_args = 2
	};
	struct et_model_info info = { 0 };
	return entry->ops->compile(entry->backend, &payload, ret_model, &info, diag);
}

/* --- tests ------------------------------------------------------------------------------------------------ */

static void release(void *owner)
{
	free(owner);
}

/* After compile has returned, the watcher reads no byte of the program, whatever the host still asks for. */
static void test_hasty(void **state)
{
	struct et_backend_entry entry = open_host("hasty", 0);
	char *named = malloc(N_NAMED);
	assert_non_null(named);
	memset(named, 'n', N_NAMED);
	for (int k = 0; k < N_HASTY; k++) {
		struct make_program mk;
		struct et_diag diag = { "" };
		struct et_program *program;
		struct et_model *model;
		struct et_plugin_stats stats;
		size_t n_bytes;
		mk_init(&mk);
		mk_method(&mk, "forward");
		mk_named_data(&mk, "big", named, N_NAMED);
		uint8_t *bytes = mk_finish(&mk, &n_bytes);
		struct et_source source = { .bytes = bytes, .n_bytes = n_bytes, .owner = bytes, .release = release };
		if (et_program_open(&program, &source, NULL, et_platform_allocator(), &diag) ||
			compile(&entry, program, &model, &diag))
			fail_msg("%s", diag.text);
		memset(bytes + n_bytes / 4, 0, n_bytes / 2); /* in the middle of the data */
		assert_int_equal(et_plugin_stats(entry.backend, 0, &stats, &diag), ET_OK);
		assert_int_equal(stats.n_runs, 0);
		entry.ops->model_free(model);
		et_program_unref(program);
	}
	free(named);
	entry.ops->close(entry.backend);
}

/* Replaces the C library's recvmsg, so that a flooding host always seems to have a packet ready. When the host is
 * slower than the reader, the reader waits here for the next packet. */
static _Atomic(bool) is_flooded;
static _Atomic(int) asks_fd = -1;

static void wait_for_more(int fd)
{
	struct pollfd wanted = { fd, POLLIN, 0 };
	while (poll(&wanted, 1, -1) < 0)
		;
}

ssize_t read(int fd, void *bytes, size_t n_bytes)
{
	struct stat st;
	ssize_t n;
	while ((n = syscall(SYS_read, fd, bytes, n_bytes)) < 0 && errno == EAGAIN && is_flooded &&
		fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		wait_for_more(fd);
	return n;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t n;
	while ((n = syscall(SYS_recvmsg, fd, message, flags)) < 0 && errno == EAGAIN && is_flooded && fd == asks_fd)
		wait_for_more(fd);
	if (n > 0 && is_flooded && ((struct et_plugin_header *)message->msg_iov->iov_base)->type == ET_PLUGIN_LOG)
		asks_fd = fd;
	return n;
}

/* A host that sends faster than inferd can read is ended at the deadline nevertheless. */
static void test_talks(void **state)
{
	static const char *const manners[] = { "prints", "logs" };
	for (int i = 0; i < 2; i++) {
		struct et_backend_entry entry = open_host(manners[i], PATIENCE_NS);
		struct et_model *model;
		struct et_diag diag = { "" };
		is_flooded = true;
		assert_int_not_equal(compile(&entry, NULL, &model, &diag), ET_OK);
		is_flooded = false;
		asks_fd = -1;
		if (!strstr(diag.text, "did not answer in time"))
			fail_msg("%s", diag.text);
		entry.ops->close(entry.backend);
	}
}

static struct et_plugin_state state_of(const struct et_backend_entry *entry)
{
	struct et_plugin_state now;
	et_plugin_state(entry->backend, &now);
	return now;
}

static void *ask_stats(void *arg)
{
	struct et_backend_entry *entry = arg;
	static struct et_plugin_stats stats;
	struct et_diag diag = { "" };
	return et_plugin_stats(entry->backend, 0, &stats, &diag) ? NULL : &stats;
}

static void count_end(void *self, enum et_status status, const char *reason)
{
	int *n_ends = self;
	n_ends[status != ET_OK]++;
}

/* A host that answers a run twice, or with an unknown id, is ended; each run ends exactly once. */
static void test_answers_oddly(void **state)
{
	static const struct {
		const char *manner;
		int n_good; /* of three runs: the right answer came first */
	} cases[] = { { "twice", 3 }, { "stale", 0 }, { "early", 0 } };
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct et_backend_entry entry = open_host(cases[i].manner, 0);
		struct et_model *model;
		struct et_instance *instance;
		struct et_worker_threads *threads;
		struct et_diag diag = { "" };
		float in[N_FLOATS] = { 0 }, out[N_FLOATS];
		int32_t sizes[1] = { N_FLOATS }, strides[1] = { 1 };
		uint8_t order[1] = { 0 };
		struct et_tensor x = { in, N_FLOATS, sizes, strides, order, ET_FLOAT32, 1, ET_STATIC, false }, y = x;
		y.data = out;
		struct et_evalue values[2] = { { .tag = ET_TAG_TENSOR, .tensor = &x },
			{ .tag = ET_TAG_TENSOR, .tensor = &y } };
		struct et_evalue *args[2] = { &values[0], &values[1] };
		int n_ends[2] = { 0, 0 };
		struct et_completion completion = { n_ends, count_end, .will_wait = true };
		assert_int_equal(compile(&entry, NULL, &model, &diag), ET_OK);
		assert_int_equal(entry.ops->threads_new(entry.backend, 0, 1, &threads, &diag), ET_OK);
		assert_int_equal(entry.ops->instance_new(model, threads, &instance, &diag), ET_OK);
		for (uint32_t k = 1; k <= 3; k++) {
			enum et_status status;
			while ((status = entry.ops->enqueue(instance, args, &completion, &diag)) != ET_PENDING)
				assert_int_equal(status, ET_E_BACKEND_CRASHED); /* the last host has not ended yet */
			entry.ops->wait(instance, 0);
			assert_int_equal(n_ends[0] + n_ends[1], k);
			ask_stats(&entry); /* so that the packets behind the answer are received */
			pthread_mutex_lock(&log_lock);
			while (!strstr(last_error, "sent an answer without a call"))
				pthread_cond_wait(&log_changed, &log_lock);
			last_error[0] = '\0';
			pthread_mutex_unlock(&log_lock);
			assert_int_equal(state_of(&entry).n_crashes, k);
		}
		assert_int_equal(n_ends[0], cases[i].n_good);
		entry.ops->instance_free(instance);
		entry.ops->threads_free(threads);
		entry.ops->model_free(model);
		entry.ops->close(entry.backend);
	}
}

/* Replaces the C library's waitpid: a process that needs long to end. */
static _Atomic(bool) is_slow;
static sem_t is_dying, may_die;

pid_t waitpid(pid_t pid, int *status, int options)
{
	if (is_slow) {
		sem_post(&is_dying);
		while (sem_wait(&may_die) < 0)
			;
	}
	return wait4(pid, status, options, NULL);
}

/* While a host ends slowly, et_plugin_state returns at once, and calls that need a host wait. */
static void test_dies_slowly(void **state)
{
	struct et_backend_entry entry = open_host("fine", 0);
	struct et_plugin_stats stats;
	struct et_diag diag = { "" };
	void *handle;
	static char bytes[64];
	sem_init(&is_dying, 0, 0);
	sem_init(&may_die, 0, 0);
	is_slow = true;
	kill(state_of(&entry).pid, SIGKILL);
	while (sem_wait(&is_dying) < 0)
		;
	assert_int_equal(state_of(&entry).pid, 0);
	assert_int_equal(entry.ops->health(entry.backend, &diag), ET_OK);
	assert_int_equal(entry.ops->import_memory(entry.backend, 0, bytes, sizeof bytes, &handle), ET_OK);
	entry.ops->release_memory(entry.backend, handle);
	is_slow = false;
	sem_post(&may_die);
	assert_int_equal(et_plugin_stats(entry.backend, 0, &stats, &diag), ET_OK);
	assert_int_equal(state_of(&entry).n_starts, 2);
	entry.ops->close(entry.backend);
	sem_destroy(&is_dying);
	sem_destroy(&may_die);
}

/* More packets than fit into a socket. */
static struct et_instance **make_instances(struct et_backend_entry *entry, struct et_model **ret_model,
	struct et_worker_threads **ret_threads)
{
	static struct et_instance *instances[N_INSTANCES];
	struct et_diag diag = { "" };
	assert_int_equal(compile(entry, NULL, ret_model, &diag), ET_OK);
	assert_int_equal(entry->ops->threads_new(entry->backend, 0, 1, ret_threads, &diag), ET_OK);
	for (int i = 0; i < N_INSTANCES; i++)
		assert_int_equal(entry->ops->instance_new(*ret_model, *ret_threads, &instances[i], &diag), ET_OK);
	return instances;
}

/* A host that is busy while many objects are freed gets all the packets when it reads again. */
static void test_is_busy(void **state)
{
	struct et_backend_entry entry = open_host("fine", 0);
	struct et_model *model;
	struct et_worker_threads *threads;
	struct et_instance **instances = make_instances(&entry, &model, &threads);
	pthread_t thread;
	void *stats;
	pid_t pid = state_of(&entry).pid;
	kill(pid, SIGSTOP);
	for (int i = 0; i < N_INSTANCES; i++)
		entry.ops->instance_free(instances[i]);
	entry.ops->threads_free(threads);
	assert_int_equal(pthread_create(&thread, NULL, ask_stats, &entry), 0);
	kill(pid, SIGCONT);
	pthread_join(thread, &stats);
	assert_non_null(stats);
	assert_int_equal(((struct et_plugin_stats *)stats)->n_runs, N_INSTANCES);
	assert_int_equal(state_of(&entry).n_starts, 1);
	assert_int_equal(state_of(&entry).n_crashes, 0);
	entry.ops->model_free(model);
	entry.ops->close(entry.backend);
}

/* A host that never reads again is ended. */
static void test_is_deaf(void **state)
{
	struct et_backend_entry entry = open_host("fine", PATIENCE_NS);
	struct et_model *model;
	struct et_worker_threads *threads;
	struct et_instance **instances = make_instances(&entry, &model, &threads);
	kill(state_of(&entry).pid, SIGSTOP);
	for (int i = 0; i < N_INSTANCES; i++)
		entry.ops->instance_free(instances[i]);
	entry.ops->threads_free(threads);
	pthread_mutex_lock(&log_lock);
	while (!last_error[0])
		pthread_cond_wait(&log_changed, &log_lock);
	assert_non_null(strstr(last_error, "does not read what is sent to it"));
	pthread_mutex_unlock(&log_lock);
	assert_int_equal(state_of(&entry).n_crashes, 1);
	assert_non_null(ask_stats(&entry));
	entry.ops->model_free(model);
	entry.ops->close(entry.backend);
}

int main(int argc, char **argv)
{
	if (strcmp(argv[0], "inferd-delegate-host") == 0)
		return host_main();
	if (getenv("INFERD_EMULATED")) {
		puts("SKIP: an emulated process cannot start another program of its architecture");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hasty),
		cmocka_unit_test(test_talks),
		cmocka_unit_test(test_answers_oddly),
		cmocka_unit_test(test_dies_slowly),
		cmocka_unit_test(test_is_busy),
		cmocka_unit_test(test_is_deaf),
	};
	return cmocka_run_group_tests_name("rude hosts", tests, NULL, NULL);
}
