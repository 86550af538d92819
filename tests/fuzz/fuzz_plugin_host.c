/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the proxy of a plug-in, in the daemon, talks to a hostile host process. The host is a thread that
 * answers as the input says.
 *
 * The input is a list of {kind, length, bytes}. For each request the thread takes the next entry: a valid reply with
 * some bytes changed, the bytes themselves, or the end of the connection; in between, a packet on the second socket
 * pair, or no reply for a while. Whatever comes, each call must return, no memory may leak, and outputs must stay
 * within their memory. */
#include "tests/fuzz/fuzz.h"

#include "delegates/inferd-delegate.h"
#include "delegates/plugin/proxy/proxy_internal.h"
#include "runtime/platform/platform.h"
#include "tests/support/make_program.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONG_TIME (UINT64_C(100) * 1000000000)

enum {
	KIND_PATCHED,
	KIND_RAW,
	KIND_END,
	KIND_ASK,
	KIND_NUMBER,
	KIND_TWICE,
	KIND_FD,
	KIND_HOLD,
	N_KINDS,
	N_FLOATS = 4,
	N_HELD = 64
};

static struct {
	const uint8_t *bytes;
	size_t n_bytes;
} script;

static struct et_program *program;

/* Runs that are not waited for may be held by the host of that number: it reads nothing until so much has been sent
 * that there is no room. */
static _Atomic(unsigned) may_hold, n_hosts;
static sem_t go_on;

/* --- the script ------------------------------------------------------------------------------------- */

struct step {
	uint8_t kind;
	size_t n;
	const uint8_t *bytes;
};

static bool next_step(struct step *step)
{
	if (script.n_bytes < 2)
		return false;
	step->kind = script.bytes[0] % N_KINDS;
	step->n = script.bytes[1];
	if (step->n > script.n_bytes - 2)
		step->n = script.n_bytes - 2;
	step->bytes = script.bytes + 2;
	script.bytes += 2 + step->n;
	script.n_bytes -= 2 + step->n;
	return true;
}

/* Changes of three bytes each: where, in two, and what. */
static void patch(void *packet, size_t n_packet, const struct step *step)
{
	for (size_t i = 0; i + 3 <= step->n; i += 3)
		((uint8_t *)packet)[(step->bytes[i] | (size_t)step->bytes[i + 1] << 8) % n_packet] = step->bytes[i + 2];
}

static bool send_packet(int socket, void *packet, size_t n)
{
	return send(socket, packet, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* With the same descriptor several times, which no packet has. */
static bool send_fds(int socket, void *packet, size_t n, int fd, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec iov = { packet, n };
	struct msghdr message = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(n_fds * sizeof fd) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof fd);
	for (size_t i = 0; i < n_fds; i++)
		memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
	return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)n;
}

/* --- the host --------------------------------------------------------------------------------------- */

/* What a host that means well would answer; its size. */
static size_t right_answer(const struct et_plugin_header *question, void *room)
{
	memset(room, 0, 1024 + sizeof(struct et_plugin_started));
	if (question->type == ET_PLUGIN_START) {
		struct et_plugin_started *started = room;
		*started = (struct et_plugin_started){ .header = { ET_PLUGIN_STARTED, sizeof *started, question->id },
			.flags = ET_PLUGIN_HAS_CANCEL | ET_PLUGIN_HAS_RESET | ET_PLUGIN_HAS_INSTANCES,
			.n_devices = 1,
			.n_kernels = 1,
			.major = 1,
			.id = "FuzzBackend",
			.name = "fuzz",
			.version = "1",
			.devices = {
				{ .kind = INFERD_DELEGATE_NPU, .max_in_flight = 2, .alignment = 64, .name = "it" } } };
		return sizeof *started;
	}
	if (question->type == ET_PLUGIN_RUN) {
		struct et_plugin_done *done = room;
		*done = (struct et_plugin_done){ .header = { ET_PLUGIN_DONE, sizeof *done + sizeof done->outputs[0],
							 question->id },
			.n_outputs = 1 };
		done->outputs[0].sizes[0] = N_FLOATS;
		return done->header.n_bytes;
	}
	struct et_plugin_answer *answer = room;
	*answer = (struct et_plugin_answer){ .header = { ET_PLUGIN_ANSWER, sizeof *answer, question->id },
		.readiness = INFERD_DELEGATE_READY,
		.n_inputs = 1,
		.n_outputs = 1,
		.flags = INFERD_DELEGATE_STATEFUL,
		.n_bytes = 64 };
	if (question->type == ET_PLUGIN_KERNEL) {
		snprintf(answer->text, sizeof answer->text, "fuzz::scale.out");
		snprintf(answer->signature, sizeof answer->signature, "TD>T");
	}
	return sizeof *answer;
}

static bool is_question(const struct et_plugin_header *header)
{
	return header->type != ET_PLUGIN_DESTROY && header->type != ET_PLUGIN_INSTANCE_FREE &&
	       header->type != ET_PLUGIN_CANCEL && header->type != ET_PLUGIN_ABANDON &&
	       header->type != ET_PLUGIN_FORGET && header->type != ET_PLUGIN_END;
}

/* Something that the host wants: named data, or a line in the log. The answer, if any, is left lying. */
static bool ask(int asks, uint64_t call, const struct step *step)
{
	if (step->n && step->bytes[0] & 1) {
		struct et_plugin_named named = {
			.header = { ET_PLUGIN_NAMED, sizeof named, 7 }, .call = call, .key = "factor"
		};
		patch(&named, sizeof named, step);
		return send_packet(asks, &named, sizeof named);
	}
	struct et_plugin_log log = { .header = { ET_PLUGIN_LOG, sizeof log, 7 }, .level = 6, .text = "a line" };
	patch(&log, sizeof log, step);
	return send_packet(asks, &log, sizeof log);
}

struct ends {
	int calls, asks;
	unsigned number;
};

static bool answer(const struct ends *ends, const struct et_plugin_header *question)
{
	struct step step;
	union {
		struct et_plugin_started started;
		char bytes[sizeof(struct et_plugin_started) + 1024];
		uint64_t aligned;
	} packet;
	for (;;) {
		size_t n = right_answer(question, &packet);
		if (!next_step(&step))
			return false; /* the input is over */
		switch (step.kind) {
		case KIND_ASK:
			if (!ask(ends->asks, question->id, &step))
				return false;
			continue;
		case KIND_HOLD:
			if (question->type == ET_PLUGIN_RUN && may_hold == ends->number)
				while (sem_wait(&go_on) < 0)
					;
			break;
		case KIND_END:
			return false;
		case KIND_RAW:
			memcpy(&packet, step.bytes, step.n);
			n = step.n;
			break;
		case KIND_NUMBER: /* as many outputs as it likes, in a packet of the right length */
			if (question->type == ET_PLUGIN_RUN) {
				struct et_plugin_done *done = (struct et_plugin_done *)&packet;
				done->n_outputs = step.n ? step.bytes[0] % 8 : 0;
				done->n_events = step.n > 1 ? step.bytes[1] % 4 : 0;
				n = sizeof *done + done->n_outputs * sizeof done->outputs[0] +
				    done->n_events * sizeof(struct et_plugin_event);
				done->header.n_bytes = (uint32_t)n;
				break;
			}
			patch(&packet, n, &step);
			break;
		default:
			patch(&packet, n, &step);
			break;
		}
		if (step.kind == KIND_FD) { /* which nobody asked for */
			packet.started.header.n_bytes = (uint32_t)n;
			return send_fds(ends->calls, &packet, n, ends->asks, 1 + step.n % 3);
		}
		if (!send_packet(ends->calls, &packet, n))
			return false;
		return step.kind != KIND_TWICE || send_packet(ends->calls, &packet, n);
	}
}

static void *host_main(void *arg)
{
	struct ends ends = *(struct ends *)arg;
	_Alignas(16) static _Thread_local char packet[ET_PLUGIN_MAX_PACKET];
	int fd;
	free(arg);
	while (et_plugin_receive(ends.calls, packet, sizeof packet, &fd, 1) > 0) {
		if (fd >= 0)
			close(fd);
		if (is_question((struct et_plugin_header *)packet) && !answer(&ends, (struct et_plugin_header *)packet))
			break;
	}
	close(ends.calls);
	close(ends.asks);
	return NULL;
}

/* In place of process.c. */
int et_plugin_process_start(struct et_plugin_process *process, const struct et_plugin_config *config)
{
	int calls[2], asks[2];
	struct ends *ends = malloc(sizeof *ends);
	*process = (struct et_plugin_process){ .calls = -1, .asks = -1, .output = -1 };
	if (!ends || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls) ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, asks))
		abort();
	const int room = 1; /* the least there can be */
	if (setsockopt(calls[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room))
		abort();
	*ends = (struct ends){ calls[1], asks[1], ++n_hosts };
	if (pthread_create(&process->thread, NULL, host_main, ends))
		abort();
	process->calls = calls[0];
	process->asks = asks[0];
	process->is_running = true;
	return 0;
}

/* Its hosts are threads, as they are with isolation = thread. */
void et_plugin_process_limit_memory(const struct et_plugin_process *process, uint64_t n_bytes)
{
}

/* In place of build.c, which would start a second host for the same script. */
enum et_status et_plugin_build(struct et_backend *backend, struct et_diag *diag)
{
	return et_fail(diag, ET_E_NOT_SUPPORTED, "nothing is compiled here");
}

bool et_plugin_process_end(struct et_plugin_process *process, bool is_stuck, char *text, size_t room)
{
	if (process->calls >= 0)
		shutdown(process->calls, SHUT_RDWR);
	if (process->asks >= 0)
		shutdown(process->asks, SHUT_RDWR);
	sem_post(&go_on);
	if (process->is_running)
		pthread_join(process->thread, NULL);
	if (process->calls >= 0)
		close(process->calls);
	if (process->asks >= 0)
		close(process->asks);
	*process = (struct et_plugin_process){ .calls = -1, .asks = -1, .output = -1 };
	snprintf(text, room, "ended");
	return true;
}

/* --- the daemon ------------------------------------------------------------------------------------- */

static _Atomic(enum et_status) last_status;

static void completed(void *self, enum et_status status, const char *reason)
{
	last_status = status;
	sem_post(self); /* nothing of the job is touched afterwards */
}

struct tensor {
	struct et_evalue value;
	struct et_tensor tensor;
	int32_t sizes[1], strides[1];
	float *data; /* exactly as many as there are, and the padding that a delegate may read */
};

static void tensor_init(struct tensor *t)
{
	static const uint8_t order[] = { 0 };
	t->sizes[0] = N_FLOATS;
	t->strides[0] = 1;
	t->data = calloc(1, N_FLOATS * sizeof *t->data + 16);
	if (!t->data)
		abort();
	t->tensor = (struct et_tensor){ .data = t->data,
		.capacity = N_FLOATS,
		.sizes = t->sizes,
		.strides = t->strides,
		.dim_order = order,
		.type = ET_FLOAT32,
		.n_dims = 1,
		.dynamism = ET_DYNAMIC_BOUND };
	t->value = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &t->tensor };
}

struct job {
	struct tensor in, out;
	struct et_evalue *args[2];
	sem_t is_done;
	bool is_pending;
};

static void begin(const struct et_delegate_ops *ops, struct et_instance *instance, struct job *job, bool will_wait)
{
	struct et_diag diag = { "" };
	sem_init(&job->is_done, 0, 0);
	tensor_init(&job->in);
	tensor_init(&job->out);
	job->args[0] = &job->in.value;
	job->args[1] = &job->out.value;
	struct et_completion completion = { .self = &job->is_done, .done = completed, .will_wait = will_wait };
	job->is_pending = ops->enqueue(instance, job->args, &completion, &diag) == ET_PENDING;
}

static void end(struct job *job)
{
	while (job->is_pending && sem_wait(&job->is_done) < 0 && errno == EINTR)
		;
	if (job->out.sizes[0] < 0 || job->out.sizes[0] > N_FLOATS)
		abort();
	free(job->in.data);
	free(job->out.data);
	sem_destroy(&job->is_done);
}

/* @cancel_ns: when it is asked to end early, as wait has it. */
static void run(const struct et_delegate_ops *ops, struct et_instance *instance, uint64_t cancel_ns)
{
	struct job job;
	begin(ops, instance, &job, true);
	if (job.is_pending)
		ops->wait(instance, cancel_ns);
	end(&job);
}

/* More at once than the device takes. */
static void run_many(const struct et_delegate_ops *ops, struct et_model *model, struct et_worker_threads *threads)
{
	enum { N = 4 };
	struct et_instance *instances[N];
	struct job jobs[N];
	struct et_diag diag = { "" };
	uint32_t n = 0;
	while (n < N && ops->instance_new(model, threads, &instances[n], &diag) == ET_OK)
		n++;
	/* afterwards the host knows all that they need: nothing is asked while it holds */
	bool are_known = n == N;
	for (uint32_t i = 0; i < n; i++) {
		last_status = ET_E_INTERNAL;
		run(ops, instances[i], 0);
		are_known &= last_status == ET_OK;
	}
	may_hold = are_known ? n_hosts : 0;
	for (uint32_t i = 0; i < n; i++)
		begin(ops, instances[i], &jobs[i], false);
	for (int i = 0; i < N_HELD && n; i++)
		ops->cancel(instances[0]);
	may_hold = 0;
	for (uint32_t i = 0; i < n; i++)
		sem_post(&go_on);
	for (uint32_t i = 0; i < n; i++) {
		if (jobs[i].is_pending && i == 1)
			ops->cancel(instances[i]);
		end(&jobs[i]);
		ops->instance_free(instances[i]);
	}
}

static void use(struct et_backend_entry *entry)
{
	const struct et_delegate_ops *ops = entry->ops;
	struct et_payload payload = { .program = program,
		.bytes = (const uint8_t *)"payload-and-its-padding",
		.n_bytes = 7,
		.method = "forward",
		.n_args = 2 };
	struct et_model *model;
	struct et_model_info info = { 0 };
	struct et_instance *instance;
	struct et_worker_threads *threads;
	enum et_readiness readiness;
	struct et_diag diag = { "" };
	struct et_device device = { 0 };
	for (uint32_t i = 0; i < ops->n_devices(entry->backend); i++)
		ops->device(entry->backend, i, &device);
	ops->probe(entry->backend, &payload, &readiness, &diag);
	if (ops->threads_new(entry->backend, 0, 1, &threads, &diag) != ET_OK)
		return;
	diag.text[0] = '\0';
	if (ops->compile(entry->backend, &payload, &model, &info, &diag) == ET_OK) {
		if (info.n_inputs == 1 && info.n_outputs == 1 &&
			ops->instance_new(model, threads, &instance, &diag) == ET_OK) {
			run(ops, instance, 0);
			run(ops, instance, 1); /* long ago */
			run(ops, instance, et_platform_now_ns(NULL) + 100000);
			ops->instance_reset(instance);
			run(ops, instance, 0);
			ops->instance_free(instance);
			run_many(ops, model, threads);
		}
		ops->model_free(model);
	} else if (!diag.text[0]) {
		abort();
	}
	ops->threads_free(threads);
	const struct et_kernel_table *kernels = et_plugin_kernels(entry->backend);
	for (size_t i = 0; kernels && i < kernels->n; i++)
		if (strlen(kernels->kernels[i].name) >= 256)
			abort();
}

static void ignore(void *self, enum et_log_level level, const char *text)
{
}

/* With named data for a host that wants some. */
static void make_program(void)
{
	static struct make_program mk;
	static struct et_source source;
	struct et_diag diag = { "" };
	size_t n_bytes;
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_named_data(&mk, "factor", "\0\0\x80\x3f", 4);
	source.bytes = mk_finish(&mk, &n_bytes);
	source.n_bytes = n_bytes;
	if (et_program_open(&program, &source, NULL, et_platform_allocator(), &diag) != ET_OK)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static const struct et_log log = { NULL, ET_LOG_DEBUG, ignore };
	struct et_plugin_config config = {
		.path = "fuzz.so", .cache_dir = "/nonexistent", .max_crashes = 3, .cancel_timeout_ns = LONG_TIME
	};
	struct et_backend_entry entry;
	struct et_diag diag = { "" };
	if (!program) {
		make_program();
		sem_init(&go_on, 0, 0);
	}
	while (sem_trywait(&go_on) == 0)
		;
	script.bytes = bytes;
	script.n_bytes = n_bytes;
	if (et_plugin_open(&entry, &config, et_platform_allocator(), &log, &diag) == ET_OK) {
		use(&entry);
		entry.ops->close(entry.backend);
	} else if (!diag.text[0]) {
		abort();
	}
	return 0;
}
