/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in for tests, in good and bad variants. The text of a payload says what its runs do:
 *
 *     scale        out = 2 * in                     named     out = in * the named data "factor"
 *     state        out = in + number of runs        sizes     returns sizes that nobody allowed
 *     crash, exit, hang                             what they say, while running
 *     hoard        scales, and does not drop its payload
 *     print        prints, then scales              wild      writes far beyond its output
 *     cage         out[i]: calls that the sandbox allowed wrongly, and calls that it denied wrongly
 *     block        scales; if in[0] is 1 it first waits at the FIFO that INFERD_TEST_GATE names
 *     refuse       init refuses                     die       init crashes
 *     ponder       init never returns; meanwhile the process has a mapping named test-pondering
 *     moody        scales, but exits while the file that the option `trouble` names is there
 *     moods        the same for state               stale     scales; probe answers RECOMPILE
 *     scribble     writes to its input              before    writes in front of its output
 *     lazy         scales, but writes nothing if in[0] is 0
 *     sick         scales, but answers E_ARGUMENT, E_MEMORY, E_LIMIT for in[0] = -1, -2, -3, and else E_DEVICE while
 *                  the file that `trouble` names is there
 *     lost         answers E_LOST                   buffer    scales through imported buffers (-DBUFFERS)
 * and, where runs are submitted (-DASYNC), also:
 *     twice        ends twice                       never     does not end
 *     late         submit fails, then done is called  wait    ends when it is cancelled
 *     hold         submit waits until stats is called, and forgets a cancel that came before; then as wait
 *     posthumous   ends, and calls done again when it is destroyed
 *     linger       as wait, but cancel returns only after stats was called
 *     early        an instance's first run ends within submit, which then waits as hold; the others as wait
 * -DGPU makes it another backend, for a GPU. -DVARIANT=... breaks the table. */
#include <inferd-delegate.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GOOD          0
#define WRONG_VERSION 1
#define WRONG_SIZE    2
#define NO_SYMBOL     3
#define NO_FUNCTION   4
#define CRASHES       5
#define NOT_HERE      6
#define NO_TABLE      7
#define HALF_BUFFERS  8
#ifdef GPU
#define IS_GPU 1
#else
#define IS_GPU 0
#endif
#ifndef VARIANT
#define VARIANT GOOD
#endif

static const struct inferd_delegate_host *host;

struct inferd_delegate_model {
	char text[32];
	float factor;
};

struct inferd_delegate_instance {
	struct inferd_delegate_model *model;
	int n_runs;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int is_cancelled;
};

/* Wait until stats is called. */
static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hold_changed = PTHREAD_COND_INITIALIZER;
static int n_holding, n_released;

static void say(const char *what)
{
	if (host)
		host->log(host->self, 6, what);
}

static void hold(const char *where)
{
	pthread_mutex_lock(&hold_lock);
	int ticket = n_holding++;
	say(where);
	while (n_released <= ticket)
		pthread_cond_wait(&hold_changed, &hold_lock);
	pthread_mutex_unlock(&hold_lock);
}

static int stats(void *self, uint32_t device, struct inferd_delegate_stats *ret_stats)
{
	if (device)
		return INFERD_DELEGATE_E_NOT_FOUND;
	pthread_mutex_lock(&hold_lock);
	n_released = n_holding;
	ret_stats->n_runs = (uint64_t)n_released;
	pthread_cond_broadcast(&hold_changed);
	pthread_mutex_unlock(&hold_lock);
	return INFERD_DELEGATE_OK;
}

static struct inferd_delegate_completion ended; /* of posthumous */

static int refuse(struct inferd_delegate_message *message, int result, const char *text)
{
	snprintf(message->text, sizeof message->text, "%s", text);
	return result;
}

static int plugin_open(const struct inferd_delegate_host *with, void **ret_self,
	struct inferd_delegate_message *message)
{
	if (VARIANT == NOT_HERE)
		return refuse(message, INFERD_DELEGATE_E_NOT_FOUND, "there is no such device in this machine");
	if (VARIANT == CRASHES)
		abort();
	host = with;
	for (uint32_t i = 0; i < with->n_options; i++)
		if (strcmp(with->options[i]->key, "greeting") == 0)
			with->log(with->self, 5, with->options[i]->value);
	*ret_self = &host;
	return INFERD_DELEGATE_OK;
}

/* Logs its end. With the option `gate`, the path of a FIFO, it first waits for a byte there. */
static void plugin_close(void *self)
{
	char byte;
	say("closing");
	for (uint32_t i = 0; host && i < host->n_options; i++) {
		if (strcmp(host->options[i]->key, "gate"))
			continue;
		int fd = open(host->options[i]->value, O_RDONLY | O_CLOEXEC);
		while (fd >= 0 && read(fd, &byte, 1) < 0 && errno == EINTR)
			;
		if (fd >= 0)
			close(fd);
	}
	say("closed");
}

static int devices(void *self, uint32_t index, struct inferd_delegate_device *device)
{
	if (index)
		return INFERD_DELEGATE_E_NOT_FOUND;
	device->kind = IS_GPU ? INFERD_DELEGATE_GPU : INFERD_DELEGATE_NPU;
	snprintf(device->name, sizeof device->name, "Test engine");
	snprintf(device->id, sizeof device->id, "test-0");
	device->max_in_flight = 2;
	device->flags = INFERD_DELEGATE_SIMULATOR;
	for (uint32_t i = 0; host && i < host->n_options; i++)
		if (strcmp(host->options[i]->key, "in_flight") == 0)
			device->max_in_flight = (uint32_t)strtoul(host->options[i]->value, NULL, 10);
		else if (strcmp(host->options[i]->key, "takes_turns") == 0)
			device->flags |= INFERD_DELEGATE_TAKES_TURNS;
	device->alignment = 64;
	return INFERD_DELEGATE_OK;
}

static int is(const struct inferd_delegate_payload *payload, const char *text)
{
	return payload->n_bytes == strlen(text) && memcmp(payload->bytes, text, payload->n_bytes) == 0;
}

static int is_word(const struct inferd_delegate_payload *payload)
{
	static const char *const words[] = { "scale", "named", "state", "sizes", "crash", "exit", "hang", "print",
		"wild", "cage", "block", "refuse", "die", "twice", "never", "late", "wait", "moody", "moods", "stale",
		"scribble", "before", "lost", "buffer", "hold", "posthumous", "linger", "early", "ponder", "hoard",
		"lazy", "sick" };
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (is(payload, words[i]))
			return 1;
	return 0;
}

static int probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	*ret_readiness = INFERD_DELEGATE_READY;
	if (!is_word(payload)) {
		*ret_readiness = INFERD_DELEGATE_NO;
		refuse(message, 0, "it is no word");
	} else if (is(payload, "named")) {
		*ret_readiness = INFERD_DELEGATE_RECOMPILE;
		refuse(message, 0, "its factor lies elsewhere");
	} else if (is(payload, "stale")) {
		*ret_readiness = INFERD_DELEGATE_RECOMPILE;
		refuse(message, 0, "it was made for the engine of last year");
	}
	return INFERD_DELEGATE_OK;
}

static void ponder(void)
{
	int fd = memfd_create("test-pondering", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 4096) < 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		abort();
	for (;;)
		pause();
}

static int init(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *info, struct inferd_delegate_message *message)
{
	char first = 0;
	const uint8_t *bytes;
	uint64_t n_bytes;
	if (is(payload, "die"))
		abort();
	if (is(payload, "ponder"))
		ponder();
	if (!is_word(payload))
		return refuse(message, INFERD_DELEGATE_E_INVALID, "the payload is no word that is known");
	if (is(payload, "refuse"))
		return refuse(message, INFERD_DELEGATE_E_UNSUPPORTED, "operator 'warp' can't be run");
	/* bytes and file have the same contents */
	if (pread(payload->fd, &first, 1, (off_t)payload->fd_offset) != 1 || first != (char)payload->bytes[0])
		return refuse(message, INFERD_DELEGATE_E_INTERNAL, "the payload's file is another one");
	struct inferd_delegate_model *model = calloc(1, sizeof *model);
	if (!model)
		return INFERD_DELEGATE_E_MEMORY;
	memcpy(model->text, payload->bytes, payload->n_bytes);
	model->factor = 2;
	for (uint32_t i = 0; i < payload->n_specs; i++)
		if (strcmp(payload->specs[i]->key, "factor") == 0)
			model->factor = strtof(payload->specs[i]->value, NULL);
	for (uint32_t i = 0; INFERD_DELEGATE_HAS(payload, n_options) && i < payload->n_options; i++) {
		if (strcmp(payload->options[i]->key, "factor")) {
			free(model);
			return refuse(message, INFERD_DELEGATE_E_INVALID, "there is no such option");
		}
		model->factor = strtof(payload->options[i]->value, NULL);
	}
	if (is(payload, "named")) {
		if (payload->named_data(payload->self, "factor", &bytes, &n_bytes) || n_bytes != sizeof model->factor) {
			free(model);
			return refuse(message, INFERD_DELEGATE_E_NOT_FOUND, "there is no named data 'factor'");
		}
		memcpy(&model->factor, bytes, sizeof model->factor);
	}
	info->n_inputs = info->n_outputs = 1;
	info->n_bytes = sizeof *model;
	int is_stateful = is(payload, "state") || is(payload, "moods");
	info->flags = (is(payload, "hoard") ? 0 : INFERD_DELEGATE_DROPS_PAYLOAD) |
		      (is_stateful ? INFERD_DELEGATE_STATEFUL : 0);
	*ret_model = model;
	return INFERD_DELEGATE_OK;
}

static void destroy(struct inferd_delegate_model *model)
{
	if (strcmp(model->text, "posthumous") == 0 && ended.done)
		ended.done(ended.self, INFERD_DELEGATE_OK, NULL);
	free(model);
}

static int instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	struct inferd_delegate_instance *instance = calloc(1, sizeof *instance);
	if (!instance)
		return INFERD_DELEGATE_E_MEMORY;
	instance->model = model;
	pthread_mutex_init(&instance->lock, NULL);
	pthread_cond_init(&instance->changed, NULL);
	*ret_instance = instance;
	return INFERD_DELEGATE_OK;
}

static void instance_free(struct inferd_delegate_instance *instance)
{
	pthread_mutex_destroy(&instance->lock);
	pthread_cond_destroy(&instance->changed);
	free(instance);
}

static int instance_reset(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	instance->n_runs = 0;
	if (strcmp(instance->model->text, "hold") == 0 || strcmp(instance->model->text, "early") == 0)
		hold("resetting");
	return INFERD_DELEGATE_OK;
}

static int is_in_trouble(void)
{
	for (uint32_t i = 0; host && i < host->n_options; i++)
		if (strcmp(host->options[i]->key, "trouble") == 0)
			return access(host->options[i]->value, F_OK) == 0;
	return 0;
}

/* --- buffers: memory of the device, which here is a memory file --------------------------------------- */

struct inferd_delegate_buffer {
	void *bytes;
	size_t n_bytes;
	int fd;
	int is_imported;
};

#ifdef BUFFERS
static int buffer_import(void *self, uint32_t device, const struct inferd_delegate_memory *memory,
	struct inferd_delegate_buffer **ret_buffer)
{
	if (device != 0 || !memory->data || memory->n_bytes % 4096 || memory->fd_offset % 4096)
		return INFERD_DELEGATE_E_UNSUPPORTED;
	struct inferd_delegate_buffer *buffer = calloc(1, sizeof *buffer);
	if (!buffer)
		return INFERD_DELEGATE_E_MEMORY;
	*buffer = (struct inferd_delegate_buffer){
		.bytes = memory->data, .n_bytes = memory->n_bytes, .fd = -1, .is_imported = 1
	};
	*ret_buffer = buffer;
	return INFERD_DELEGATE_OK;
}

static int buffer_alloc(void *self, uint32_t device, uint64_t n_bytes, struct inferd_delegate_buffer **ret_buffer)
{
	struct inferd_delegate_buffer *buffer = calloc(1, sizeof *buffer);
	if (!buffer)
		return INFERD_DELEGATE_E_MEMORY;
	buffer->n_bytes = n_bytes;
	buffer->fd = memfd_create("test-device-memory", MFD_CLOEXEC);
	if (buffer->fd < 0 || ftruncate(buffer->fd, (off_t)n_bytes) < 0) {
		free(buffer);
		return INFERD_DELEGATE_E_MEMORY;
	}
	*ret_buffer = buffer;
	return INFERD_DELEGATE_OK;
}

static int buffer_map(struct inferd_delegate_buffer *buffer, void **ret_bytes)
{
	if (!buffer->bytes) {
		void *bytes = mmap(NULL, buffer->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->fd, 0);
		if (bytes == MAP_FAILED)
			return INFERD_DELEGATE_E_MEMORY;
		buffer->bytes = bytes;
	}
	*ret_bytes = buffer->bytes;
	return INFERD_DELEGATE_OK;
}

static void buffer_unmap(struct inferd_delegate_buffer *buffer)
{
	if (!buffer->is_imported && buffer->bytes)
		munmap(buffer->bytes, buffer->n_bytes);
	if (!buffer->is_imported)
		buffer->bytes = NULL;
}

static int buffer_export(struct inferd_delegate_buffer *buffer, int *ret_fd)
{
	if (buffer->fd < 0)
		return INFERD_DELEGATE_E_UNSUPPORTED;
	*ret_fd = fcntl(buffer->fd, F_DUPFD_CLOEXEC, 0);
	return *ret_fd < 0 ? INFERD_DELEGATE_E_MEMORY : INFERD_DELEGATE_OK;
}

static void buffer_free(struct inferd_delegate_buffer *buffer)
{
	buffer_unmap(buffer);
	if (buffer->fd >= 0)
		close(buffer->fd);
	free(buffer);
}
#endif

/* Read the arguments through their buffers. False: a buffer has other contents than its argument. */
static int find_buffers(struct inferd_delegate_arg *const *args, const float **in, float **out)
{
	for (int i = 0; i < 2; i++) {
		const struct inferd_delegate_buffer *buffer = args[i]->buffer;
		if (!buffer || args[i]->buffer_offset > buffer->n_bytes ||
			args[i]->n_bytes > buffer->n_bytes - args[i]->buffer_offset ||
			(char *)buffer->bytes + args[i]->buffer_offset != args[i]->data)
			return 0;
	}
	*in = (const float *)((const char *)args[0]->buffer->bytes + args[0]->buffer_offset);
	*out = (float *)((char *)args[1]->buffer->bytes + args[1]->buffer_offset);
	return 1;
}

/* Try calls on another process of the same user, all of them harmless. Returns a bit for each that succeeds. */
static unsigned reach(pid_t other)
{
	unsigned reached = 0;
	struct rlimit limit;
	cpu_set_t cpus;
	siginfo_t info = { .si_code = SI_QUEUE };
	int pair[2], priority = getpriority(PRIO_PROCESS, (id_t)other);
	reached |= (prlimit(other, RLIMIT_CPU, NULL, &limit) == 0) << 0;
	reached |= (syscall(SYS_tgkill, other, other, 0) == 0) << 1;
	reached |= (syscall(SYS_tkill, other, 0) == 0) << 2;
	reached |= (syscall(SYS_rt_sigqueueinfo, other, 0, &info) == 0) << 3;
	reached |= (syscall(SYS_rt_tgsigqueueinfo, other, other, 0, &info) == 0) << 4;
	reached |= (sched_getaffinity(other, sizeof cpus, &cpus) == 0 &&
			   sched_setaffinity(other, sizeof cpus, &cpus) == 0)
		   << 5;
	reached |= (setpriority(PRIO_PROCESS, (id_t)other, priority) == 0) << 6;
	reached |= (setpriority(PRIO_PGRP, 0, getpriority(PRIO_PROCESS, 0)) == 0) << 7;
	reached |= (syscall(SYS_ioprio_set, 1, other, syscall(SYS_ioprio_get, 1, other)) == 0) << 8;
	reached |= (syscall(SYS_move_pages, other, 0L, NULL, NULL, NULL, 0) == 0) << 9;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
		int owner = (int)other;
		reached |= (fcntl(pair[0], F_SETOWN, owner) == 0) << 10;
		reached |= (fcntl(pair[0], F_SETSIG, SIGURG) == 0) << 11;
		reached |= (ioctl(pair[0], FIOSETOWN, &owner) == 0) << 12;
		close(pair[0]);
		close(pair[1]);
	}
	return reached;
}

static void *thread(void *arg)
{
	cpu_set_t cpus;
	*(int *)arg = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && sched_setaffinity(0, sizeof cpus, &cpus) == 0 &&
		      pthread_kill(pthread_self(), 0) == 0 && raise(SIGURG) == 0; /* which is ignored */
	return NULL;
}

/* Try calls that libraries make on their own process. Returns a bit for each that fails. */
static unsigned reach_itself(void)
{
	unsigned failed = 0;
	struct rlimit limit;
	pthread_t id;
	int is_done = 0, fd = fcntl(2, F_DUPFD_CLOEXEC, 0);
	failed |= (getrlimit(RLIMIT_NOFILE, &limit) != 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0) << 0;
	failed |= (prlimit(getpid(), RLIMIT_NOFILE, NULL, &limit) != 0) << 1;
	failed |= (pthread_create(&id, NULL, thread, &is_done) != 0 || pthread_join(id, NULL) != 0 || !is_done) << 2;
	failed |= (setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)) != 0) << 3;
	failed |= (kill(getpid(), 0) != 0) << 4;
	failed |= (fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || close(fd) != 0) << 5;
	return failed;
}

/* Try what the sandbox must deny, and what it must allow. */
static void try_cage(float *out, uint64_t n)
{
	char path[600];
	float got[8] = { 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	got[0] = fd >= 0;
	if (fd >= 0)
		close(fd);
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	got[1] = pid > 0;
	if (pid > 0)
		waitpid(pid, NULL, 0);
	got[2] = execl("/bin/true", "true", (char *)NULL) == 0 || errno != EPERM;
	got[3] = kill(getppid(), 0) == 0;
	fd = open("/tmp/inferd-test-cage", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	got[4] = fd >= 0;
	if (fd >= 0) {
		close(fd);
		unlink("/tmp/inferd-test-cage");
	}
	if (host && host->cache_dir) {
		snprintf(path, sizeof path, "%s/kept", host->cache_dir);
		fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		got[5] = fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	got[6] = (float)reach(getppid());
	got[7] = (float)reach_itself();
	memcpy(out, got, n < sizeof got ? n : sizeof got);
}

/* Wait until another process has opened the other end of that FIFO, and closed it. */
static void block_on(const float *in)
{
	char byte;
	const char *path = getenv("INFERD_TEST_GATE");
	int fd = in[0] == 1 && path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	while (fd >= 0 && read(fd, &byte, 1) > 0)
		;
	if (fd >= 0)
		close(fd);
}

static int be_sick(float first, struct inferd_delegate_message *message)
{
	if (first == -1)
		return refuse(message, INFERD_DELEGATE_E_ARGUMENT, "it takes no negative numbers");
	if (first == -2)
		return refuse(message, INFERD_DELEGATE_E_MEMORY, "there is no memory for that number");
	if (first == -3)
		return refuse(message, INFERD_DELEGATE_E_LIMIT, "that number is beyond the limit");
	return is_in_trouble() ? refuse(message, INFERD_DELEGATE_E_DEVICE, "the bus is gone") : INFERD_DELEGATE_OK;
}

static int run(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	const char *what = model->text;
	struct inferd_delegate_arg *const *args = run->args;
	if (run->n_args != 2 || args[0]->type != 6 || args[1]->n_bytes < args[0]->n_bytes)
		return refuse(message, INFERD_DELEGATE_E_INVALID, "it takes one tensor of floats and gives one");
	const float *in = args[0]->data;
	float *out = args[1]->data, plus = 0;
	int rc;
	if (strcmp(what, "crash") == 0)
		raise(SIGSEGV);
	else if (strcmp(what, "exit") == 0 || (strncmp(what, "mood", 4) == 0 && is_in_trouble()))
		_exit(3); /* not exit: the sanitizers' checks at exit change the status */
	else if (strcmp(what, "hang") == 0)
		for (;;)
			pause();
	else if (strcmp(what, "print") == 0)
		printf("a line on stdout\n"), fprintf(stderr, "\033[31mand one on stderr\n");
	else if (strcmp(what, "wild") == 0)
		memset(out, 1, args[1]->n_bytes + 8192);
	else if (strcmp(what, "scribble") == 0)
		memset(args[0]->data, 1, args[0]->n_bytes);
	else if (strcmp(what, "before") == 0)
		memset((char *)out - 8192, 1, 8192);
	else if (strcmp(what, "lost") == 0)
		return refuse(message, INFERD_DELEGATE_E_LOST, "the bus was reset");
	else if (strcmp(what, "sick") == 0 && (rc = be_sick(in[0], message)))
		return rc;
	else if (strcmp(what, "sizes") == 0)
		args[1]->sizes[0] = 1 << 28;
	else if (strcmp(what, "block") == 0)
		block_on(in);
	int is_stateful = strcmp(what, "state") == 0 || strcmp(what, "moods") == 0;
	if (is_stateful)
		plus = (float)instance->n_runs++;
	if (strcmp(what, "cage") == 0) {
		try_cage(out, args[1]->n_bytes);
		return INFERD_DELEGATE_OK;
	}
	if (strcmp(what, "buffer") == 0 && !find_buffers(args, &in, &out))
		return refuse(message, INFERD_DELEGATE_E_INTERNAL, "an argument is not where its buffer is");
	if (strcmp(what, "lazy") == 0 && args[0]->n_bytes && in[0] == 0)
		return INFERD_DELEGATE_OK;
	if (run->flags & INFERD_DELEGATE_PROFILE) {
		run->event(run->self, "load", 1000);
		run->event(run->self, "multiply", 2000);
	}
	float factor = is_stateful ? 1 : model->factor;
	for (uint64_t i = 0; i < args[0]->n_bytes / sizeof *in; i++)
		out[i] = factor * in[i] + plus;
	return INFERD_DELEGATE_OK;
}

#ifdef ASYNC
struct job {
	struct inferd_delegate_model *model;
	struct inferd_delegate_instance *instance;
	const struct inferd_delegate_run *run;
	struct inferd_delegate_completion completion;
};

static void *work(void *arg)
{
	struct job job = *(struct job *)arg;
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	const char *what = job.model->text;
	free(arg);
	if (strcmp(what, "never") == 0)
		return NULL;
	if (strcmp(what, "wait") == 0 || strcmp(what, "hold") == 0 || strcmp(what, "linger") == 0 ||
		strcmp(what, "early") == 0) {
		pthread_mutex_lock(&job.instance->lock);
		while (!job.instance->is_cancelled)
			pthread_cond_wait(&job.instance->changed, &job.instance->lock);
		pthread_mutex_unlock(&job.instance->lock);
		job.completion.done(job.completion.self, INFERD_DELEGATE_E_CANCELLED, "it was cancelled");
		return NULL;
	}
	int is_twice = strcmp(what, "twice") == 0;
	if (strcmp(what, "posthumous") == 0)
		ended = job.completion;
	int result = run(job.model, job.instance, job.run, &message);
	job.completion.done(job.completion.self, result, result ? message.text : NULL);
	if (is_twice)
		job.completion.done(job.completion.self, INFERD_DELEGATE_OK, NULL);
	return NULL;
}

static int submit(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, const struct inferd_delegate_completion *completion,
	struct inferd_delegate_message *message)
{
	pthread_t thread;
	if (strcmp(model->text, "early") == 0 && instance->n_runs++ == 0) {
		completion->done(completion->self, INFERD_DELEGATE_OK, NULL);
		hold("ended");
		return INFERD_DELEGATE_OK;
	}
	struct job *job = calloc(1, sizeof *job);
	if (!job)
		return INFERD_DELEGATE_E_MEMORY;
	if (strcmp(model->text, "early") == 0 || strcmp(model->text, "linger") == 0)
		say("submitting");
	if (strcmp(model->text, "hold") == 0)
		hold("submitting");
	pthread_mutex_lock(&instance->lock);
	instance->is_cancelled = 0; /* like an engine that forgets a cancel before the run has begun */
	pthread_mutex_unlock(&instance->lock);
	*job = (struct job){ model, instance, run, *completion };
	int rc = pthread_create(&thread, NULL, work, job);
	if (rc) {
		free(job);
		return refuse(message, INFERD_DELEGATE_E_MEMORY, strerror(rc));
	}
	if (strcmp(model->text, "late") == 0) {
		pthread_join(thread, NULL);
		return refuse(message, INFERD_DELEGATE_E_DEVICE, "it refuses, too late");
	}
	pthread_detach(thread);
	return INFERD_DELEGATE_OK;
}

static void cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	pthread_mutex_lock(&instance->lock);
	instance->is_cancelled = 1;
	pthread_cond_signal(&instance->changed);
	pthread_mutex_unlock(&instance->lock);
	if (strcmp(model->text, "linger") == 0) {
		hold("cancelling");
		say("cancelled");
	}
}
#endif

/* An operator: out = in * by, for by >= 0. */
static int kernel_scale(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
	struct inferd_delegate_message *message)
{
	const float *in = args[0]->data;
	float *out = args[2]->data;
	if (args[0]->type != 6)
		return refuse(message, INFERD_DELEGATE_E_INVALID, "plug_scale takes floats");
	if (args[1]->d < 0)
		return refuse(message, INFERD_DELEGATE_E_DEVICE, "the bus is gone");
	for (uint64_t i = 0; i < args[0]->n_bytes / sizeof *in; i++)
		out[i] = in[i] * (float)args[1]->d;
	return INFERD_DELEGATE_OK;
}

/* An operator: out = in, which waits like `block`. */
static int kernel_block(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
	struct inferd_delegate_message *message)
{
	block_on(args[0]->data);
	memcpy(args[1]->data, args[0]->data, args[0]->n_bytes);
	return INFERD_DELEGATE_OK;
}

/* An operator: out = 2 * in, but it writes nothing if in[0] is 0. */
static int kernel_lazy(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
	struct inferd_delegate_message *message)
{
	const float *in = args[0]->data;
	for (uint64_t i = 0; in[0] != 0 && i < args[0]->n_bytes / sizeof *in; i++)
		((float *)args[1]->data)[i] = 2 * in[i];
	return INFERD_DELEGATE_OK;
}

static const struct inferd_delegate_kernel scale = {
	.struct_size = sizeof scale, .name = "test::plug_scale.out", .signature = "TD>T", .run = kernel_scale
};
static const struct inferd_delegate_kernel blocking = {
	.struct_size = sizeof blocking, .name = "test::plug_block.out", .signature = "T>T", .run = kernel_block
};
static const struct inferd_delegate_kernel lazy = {
	.struct_size = sizeof lazy, .name = "test::plug_lazy.out", .signature = "T>T", .run = kernel_lazy
};
static const struct inferd_delegate_kernel *const kernels[] = { &scale, &blocking, &lazy };

#if VARIANT == HALF_BUFFERS
static int half_buffer(void *self, uint32_t device, uint64_t n_bytes, struct inferd_delegate_buffer **ret_buffer)
{
	return INFERD_DELEGATE_E_MEMORY;
}
#endif

static const struct inferd_delegate table = {
	.struct_size = VARIANT == WRONG_SIZE ? 96 : sizeof table,
	.major = VARIANT == WRONG_VERSION ? 2 : INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = IS_GPU ? "TestGpuBackend" : "TestBackend",
	.name = "test",
	.version = "7.1",
	.kernels = kernels,
	.n_kernels = 3,
	.open = plugin_open,
	.close = plugin_close,
	.devices = devices,
	.probe = probe,
	.init = init,
	.execute = VARIANT == NO_FUNCTION ? NULL : run,
	.destroy = destroy,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.instance_reset = instance_reset,
	.stats = stats,
#ifdef ONE_THREAD
	.flags = INFERD_DELEGATE_ONE_THREAD,
#endif
#if VARIANT == HALF_BUFFERS
	.buffer_alloc = half_buffer,
#endif
#ifdef BUFFERS
	.buffer_import = buffer_import,
	.buffer_alloc = buffer_alloc,
	.buffer_map = buffer_map,
	.buffer_unmap = buffer_unmap,
	.buffer_export = buffer_export,
	.buffer_free = buffer_free,
#endif
#ifdef ASYNC
	.submit = submit,
	.cancel = cancel,
#endif
};

#if VARIANT == NO_SYMBOL
__attribute__((visibility("default"))) const struct inferd_delegate *something_else(void);
const struct inferd_delegate *something_else(void)
{
	return &table;
}
#else
const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor)
{
	return VARIANT == NO_TABLE || host_major != INFERD_DELEGATE_MAJOR ? NULL : &table;
}
#endif
