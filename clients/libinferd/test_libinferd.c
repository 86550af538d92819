/* SPDX-License-Identifier: BSD-3-Clause */
/* Test libinferd with a fake daemon: a thread of this test on a real socket.
 *
 * The model's name selects the behaviour of the daemon: "double" writes twice its input, "hold" answers three requests
 * in reverse order, "vanish" closes the connection; see infer(). Each test checks that no file descriptor leaks. */
#include "clients/inferd.h"
#include "ipc/channel.h"
#include "ipc/message.h"
#include "ipc/region.h"
#include "runtime/base/checked.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>
#include <cmocka.h>

/* ---- the daemon ---- */

enum { MAX_THINGS = 32, N_FLOATS = 4 };

struct daemon_binding {
	char model[32];
	struct inf_region *region;
	size_t in, out;
};

struct daemon {
	int listener;
	pthread_t thread;
	struct inf_channel channel;
	struct inf_codec in, out;
	struct inf_region *regions[MAX_THINGS]; /* index + 1 is the handle, for these three */
	char models[MAX_THINGS][32];
	struct daemon_binding bindings[MAX_THINGS];
	size_t n_regions, n_models, n_bindings;
	struct { /* "hold" */
		uint64_t id;
		size_t binding;
	} held[3];
	size_t n_held;
	uint64_t silent_id;
	size_t n_unregistered, n_unbound, n_closed;
};

static struct daemon daemon_;

static void reply_with(struct daemon *d, struct inf_reply *reply, uint64_t id, int fd)
{
	static uint8_t packet[INF_MAX_PACKET];
	size_t n_bytes;
	int attached;
	reply->id = id;
	if (inf_message_encode_reply(reply, packet, &n_bytes, &attached, &d->out))
		abort();
	if (attached >= 0)
		fd = attached;
	inf_channel_send(&d->channel, packet, n_bytes, &fd, fd >= 0);
	if (attached >= 0)
		close(attached);
}

static void refuse(struct daemon *d, uint64_t id, enum inf_status status, const char *error)
{
	reply_with(d, &(struct inf_reply){ .status = status, .error = error }, id, -1);
}

static void method_open(struct daemon *d, const struct inf_request *request, const int *fds)
{
	static const int64_t shape[] = { N_FLOATS };
	static struct inf_tensor_metadata tensor = { "input_0", "FP32", 1, shape, 0, NULL, 16, false, false };
	static struct inf_tensor_metadata number = { "input_1", "INT", 0, NULL, 0, NULL, 0, false, true };
	const char *model = request->method_open.model;
	if (strcmp(model, "missing") == 0) {
		refuse(d, request->id, INF_NOT_FOUND, "there is no model 'missing'");
		return;
	}
	if (request->method_open.from_fd) {
		char byte;
		if (pread(fds[0], &byte, 1, 0) != 1 || byte != 'P')
			abort();
		for (uint32_t i = 1; i <= request->method_open.data_fds; i++)
			if (pread(fds[i], &byte, 1, 0) != 1 || byte != (char)('0' + i))
				abort();
	}
	snprintf(d->models[d->n_models], sizeof d->models[0], "%s", model);
	tensor.dynamic = strcmp(model, "dynamic") == 0;
	struct inf_tensor_metadata inputs[2] = { tensor, number };
	struct inf_reply reply = { .kind = INF_REPLY_METHOD_OPENED,
		.method_opened = { .method = ++d->n_models,
			.n_inputs = strcmp(model, "number") == 0 ? 2 : 1,
			.inputs = inputs,
			.n_outputs = 1,
			.outputs = &tensor,
			.version = request->method_open.version[0] ? request->method_open.version : "1",
			.backend = "fake",
			.stateful = true } };
	static struct inf_tensor_metadata many[INF_MAX_SLOTS];
	if (strcmp(model, "large") == 0) {
		for (size_t i = 0; i < INF_MAX_SLOTS; i++)
			many[i] = (struct inf_tensor_metadata){ .name = "a name that is rather long, to fill a packet",
				.datatype = "FP32",
				.byte_size = 64 };
		reply.method_opened.n_outputs = INF_MAX_SLOTS;
		reply.method_opened.outputs = many;
	}
	reply_with(d, &reply, request->id, -1);
}

static void region_add(struct daemon *d, const struct inf_request *request, struct inf_region *region, int fd)
{
	d->regions[d->n_regions++] = region;
	reply_with(d,
		&(struct inf_reply){
			.kind = INF_REPLY_REGION_CREATED, .region_created = { d->n_regions, region->mapping.n_bytes } },
		request->id, fd);
}

static void bind_slots(struct daemon *d, const struct inf_request *request)
{
	const struct inf_bind *bind = &request->bind;
	struct daemon_binding *b = &d->bindings[d->n_bindings++];
	memcpy(b->model, d->models[bind->method - 1], sizeof b->model);
	b->region = inf_region_ref(d->regions[bind->inputs[0].region - 1]);
	b->in = bind->inputs[0].offset;
	b->out = bind->outputs[0].offset;
	reply_with(d, &(struct inf_reply){ .kind = INF_REPLY_BOUND, .bound = { d->n_bindings, 1, 1 } }, request->id,
		-1);
}

static void answer(struct daemon *d, uint64_t id, size_t binding, const struct inf_infer *infer)
{
	struct daemon_binding *b = &d->bindings[binding];
	const float *in = inf_region_at(b->region, b->in, 16);
	float *out = inf_region_at(b->region, b->out, 16);
	float factor = 2;
	if (strcmp(b->model, "number") == 0)
		factor = (float)infer->inputs[1].scalar.int_value;
	for (int i = 0; i < N_FLOATS; i++)
		out[i] = factor * in[i];
	struct inf_output_shape output = { 0 };
	struct inf_reply reply = { .kind = INF_REPLY_INFERRED, .inferred = { 1000, 2000, 0, &output } };
	static const uint8_t profile[100000] = { [0] = 7, [99999] = 8 }; /* larger than a packet */
	if (infer->profile) {
		reply.inferred.profile = profile;
		reply.inferred.n_profile = infer->priority == INF_BATCH ? 0 : sizeof profile;
	}
	if (strcmp(b->model, "dynamic") == 0) {
		reply.inferred.n_outputs = 1;
		output.n_shape = infer->n_inputs ? infer->inputs[0].n_shape : 0;
		output.shape = infer->n_inputs ? infer->inputs[0].shape : NULL;
	}
	if (strcmp(b->model, "number") == 0) {
		reply.inferred.n_outputs = 1;
		output.scalar = (struct inf_scalar){ INF_SCALAR_DOUBLE, .double_value = 0.25 };
	}
	static const int64_t wrong[] = { 1, 1, 1 };
	if (strcmp(b->model, "wrong") == 0)
		reply.inferred.n_outputs = 1, output.n_shape = 3, output.shape = wrong;
	reply_with(d, &reply, id, -1);
}

/* False: the connection ends here. */
static bool infer(struct daemon *d, const struct inf_request *request)
{
	size_t binding = request->infer.binding - 1;
	const char *model = d->bindings[binding].model;
	if (strcmp(model, "vanish") == 0)
		return false;
	if (strcmp(model, "malformed") == 0) {
		inf_channel_send(&d->channel, "\x12", 1, NULL, 0);
		return true;
	}
	if (strcmp(model, "silent") == 0) {
		d->silent_id = request->id;
		return true;
	}
	if (strcmp(model, "strange") == 0) { /* replies without a request, with descriptors */
		reply_with(d, &(struct inf_reply){ .kind = INF_REPLY_REGION_CREATED }, 123456, d->listener);
		reply_with(d, &(struct inf_reply){ 0 }, 0, -1);
		reply_with(d, &(struct inf_reply){ .kind = INF_REPLY_INFERRED }, UINT64_MAX, -1);
	}
	if (strcmp(model, "late") == 0) {
		refuse(d, request->id, INF_MISSED_DEADLINE, "the deadline passed 3 ms before it could run");
		return true;
	}
	if (strcmp(model, "hold") == 0) {
		d->held[d->n_held].id = request->id;
		d->held[d->n_held++].binding = binding;
		if (d->n_held < 3)
			return true;
		while (d->n_held--)
			answer(d, d->held[d->n_held].id, d->held[d->n_held].binding, &request->infer);
		d->n_held = 0;
		return true;
	}
	answer(d, request->id, binding, &request->infer);
	return true;
}

/* False: the connection ends here. */
static bool handle(struct daemon *d, const struct inf_request *request, int *fds, size_t *n_fds)
{
	struct inf_region *region;
	switch (request->kind) {
	case INF_REQUEST_HELLO:
		reply_with(d, &(struct inf_reply){ .kind = INF_REPLY_HELLO, .hello = { 1, "fake", "0", 16, 64 } },
			request->id, -1);
		return true;
	case INF_REQUEST_METHOD_OPEN:
		method_open(d, request, fds);
		return true;
	case INF_REQUEST_REGION_CREATE:
		if (inf_region_create(&region, request->region_create.byte_size, et_platform_allocator()))
			abort();
		region_add(d, request, region, region->fd);
		return true;
	case INF_REQUEST_REGION_REGISTER: {
		int rc = inf_region_import(&region, fds[0], request->region_register.byte_size,
			et_platform_allocator());
		if (rc) {
			refuse(d, request->id, INF_FAILED_PRECONDITION, inf_region_error_text(rc));
		} else {
			*n_fds = 0;
			region_add(d, request, region, -1);
		}
		return true;
	}
	case INF_REQUEST_BIND:
		bind_slots(d, request);
		return true;
	case INF_REQUEST_INFER:
		return infer(d, request);
	case INF_REQUEST_CANCEL:
		if (request->cancel.request == d->silent_id)
			refuse(d, d->silent_id, INF_CANCELLED, "cancelled by the client");
		refuse(d, request->id, INF_OK, "");
		return true;
	case INF_REQUEST_METHOD_RESET:
		if (strcmp(d->models[request->method_reset.method - 1], "vanish") == 0)
			return false;
		refuse(d, request->id, INF_OK, "");
		return true;
	case INF_REQUEST_REGION_UNREGISTER:
		d->n_unregistered++;
		break;
	case INF_REQUEST_UNBIND:
		d->n_unbound++;
		break;
	case INF_REQUEST_METHOD_CLOSE:
		d->n_closed++;
		break;
	default:
		refuse(d, request->id, INF_UNIMPLEMENTED, "unknown message");
		return true;
	}
	refuse(d, request->id, INF_OK, "");
	return true;
}

/* Serve one client until it or the script closes the connection. */
static void *serve(void *arg)
{
	struct daemon *d = arg;
	static uint8_t packet[INF_MAX_PACKET];
	poll(&(struct pollfd){ .fd = d->listener, .events = POLLIN }, 1, -1);
	int fd = inf_channel_accept(d->listener);
	if (fd < 0 || inf_channel_init(&d->channel, fd, 1 << 20, et_platform_allocator()))
		return NULL; /* the test ended without a client */
	for (bool goes_on = true; goes_on;) {
		int fds[INF_MAX_PACKET_FDS];
		size_t n_bytes, n_fds;
		int rc = inf_channel_receive(&d->channel, packet, sizeof packet, &n_bytes, fds, &n_fds);
		if (rc == INF_CHANNEL_AGAIN) {
			inf_channel_flush(&d->channel);
			poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
			continue;
		}
		struct inf_request request;
		if (rc || inf_message_decode_request(&request, packet, n_bytes, &d->in, NULL))
			break;
		goes_on = n_fds == inf_request_n_fds(&request) && handle(d, &request, fds, &n_fds);
		inf_close_fds(fds, n_fds);
	}
	inf_channel_deinit(&d->channel);
	return NULL;
}

/* ---- around each test ---- */

static char dir[64], path[128];
static size_t n_fds_before;
static struct inferd *d;

static size_t n_open_fds(void)
{
	size_t n = 0;
	DIR *fds = opendir("/proc/self/fd");
	while (readdir(fds))
		n++;
	closedir(fds);
	return n;
}

static int set_up(void **state)
{
	n_fds_before = n_open_fds();
	snprintf(dir, sizeof dir, "/tmp/inferd-test-lib-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof path, "%s/inferd.sock", dir);
	memset(&daemon_, 0, sizeof daemon_);
	daemon_.listener = inf_channel_listen(path, 0600);
	inf_codec_init(&daemon_.in, et_platform_allocator());
	inf_codec_init(&daemon_.out, et_platform_allocator());
	pthread_create(&daemon_.thread, NULL, serve, &daemon_);
	return inferd_open(&d, path);
}

/* After this the daemon has handled all requests sent before. */
static void end_connection(void)
{
	if (!d)
		return;
	inferd_close(d);
	d = NULL;
	pthread_join(daemon_.thread, NULL);
}

static int tear_down(void **state)
{
	end_connection();
	for (size_t i = 0; i < daemon_.n_bindings; i++)
		inf_region_unref(daemon_.bindings[i].region);
	for (size_t i = 0; i < daemon_.n_regions; i++)
		inf_region_unref(daemon_.regions[i]);
	inf_codec_deinit(&daemon_.in);
	inf_codec_deinit(&daemon_.out);
	close(daemon_.listener);
	unlink(path);
	rmdir(dir);
	return n_open_fds() == n_fds_before ? 0 : -1;
}

static struct inferd_binding *bind_model(const char *model)
{
	struct inferd_method *m;
	struct inferd_binding *b;
	assert_int_equal(inferd_method_open(d, &m, model, NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	return b;
}

static void fill(struct inferd_binding *b, float first)
{
	float *in = inferd_input(b, 0);
	for (int i = 0; i < N_FLOATS; i++)
		in[i] = first + (float)i;
}

static void assert_doubled(struct inferd_binding *b, float first)
{
	const float *out = inferd_output(b, 0);
	for (int i = 0; i < N_FLOATS; i++)
		assert_true(out[i] == 2 * (first + (float)i));
}

/* ---- synchronous ---- */

static void says_whom_to_ask_for_permission(void **state)
{
	char folder[] = "/tmp/libinferd.XXXXXX", inside[sizeof(folder) + 2];
	struct inferd *none;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0), 0);
	snprintf(inside, sizeof(inside), "%s/s", folder);
	uid_t uid = geteuid();
	assert_int_equal(seteuid(uid ? uid : 65534), 0); /* root passes every permission check */
	int rc = inferd_open(&none, inside);
	assert_int_equal(seteuid(uid), 0);
	rmdir(folder);
	assert_int_equal(rc, -INFERD_PERMISSION_DENIED);
	assert_non_null(strstr(inferd_error(none),
		": Permission denied; ask the administrator to add you to the group of the socket"));
	inferd_close(none);
}

static void says_why_it_cannot_connect(void **state)
{
	struct inferd *none;
	assert_int_equal(inferd_open(&none, "/no/such/socket"), -INFERD_DISCONNECTED);
	assert_string_equal(inferd_error(none),
		"cannot connect to inferd at /no/such/socket: No such file or directory; start the daemon with "
		"'systemctl start inferd.socket', or set $INFERD_SOCKET to its socket");
	assert_string_equal(inferd_error(NULL), "out of memory");
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(none, &m, "x", NULL), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_dispatch(none), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_wait(none, -1), -INFERD_DISCONNECTED);
	inferd_close(none);
	inferd_close(NULL);
	assert_string_equal(inferd_status_text(-INFERD_BUSY), "busy");
	assert_string_equal(inferd_status_text(INFERD_DISCONNECTED), "disconnected");
	assert_string_equal(inferd_status_text(12345), "unknown status");
}

static void infers(void **state)
{
	struct inferd_method *m;
	struct inferd_binding *b;
	struct inferd_method_options options = { .struct_size = sizeof options, .version = "7" };
	assert_int_equal(inferd_method_open(d, &m, "double", &options), 0);
	assert_int_equal(inferd_n_inputs(m), 1);
	assert_int_equal(inferd_n_outputs(m), 1);
	assert_string_equal(inferd_method_version(m), "7");
	assert_string_equal(inferd_method_backend(m), "fake");
	assert_true(inferd_method_is_stateful(m));
	const struct inferd_tensor_info *info = inferd_input_info(m, 0);
	assert_string_equal(info->name, "input_0");
	assert_string_equal(info->datatype, "FP32");
	assert_int_equal(info->shape[0], N_FLOATS);
	assert_int_equal(info->n_bytes, 16);
	assert_null(inferd_input_info(m, 1));
	assert_null(inferd_output_info(m, 1));

	assert_int_equal(inferd_bind(m, &b), 0);
	assert_int_equal(inferd_n_copied(b), 1);
	assert_int_equal((uintptr_t)inferd_input(b, 0) % 64, 0);
	assert_int_equal((uintptr_t)inferd_output(b, 0) % 64, 0);
	assert_ptr_not_equal(inferd_input(b, 0), inferd_output(b, 0));
	assert_null(inferd_input(b, 1));
	for (int i = 0; i < 5; i++) {
		fill(b, (float)i);
		assert_int_equal(inferd_infer(b, NULL), 0);
		assert_doubled(b, (float)i);
	}
	struct inferd_timing timing;
	inferd_last_timing(b, &timing);
	assert_int_equal(timing.queue_ns, 1000);
	assert_int_equal(timing.run_ns, 2000);
	int64_t shape[INFERD_MAX_DIMS];
	assert_int_equal(inferd_output_shape(b, 0, shape), 1);
	assert_int_equal(shape[0], N_FLOATS);
	assert_int_equal(inferd_output_shape(b, 1, shape), -INFERD_INVALID_ARGUMENT);
	double value;
	assert_int_equal(inferd_output_scalar(b, 0, &value), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_method_reset(m), 0);

	/* in any order: references keep a Method until its last binding is freed */
	inferd_method_close(m);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_FAILED_PRECONDITION);
	inferd_unbind(b);
	inferd_unbind(NULL);
	/* Read one more reply: closing a socket with unread data would reset it, and the daemon's next send would
	 * fail. */
	assert_int_equal(inferd_method_open(d, &m, "missing", NULL), -INFERD_NOT_FOUND);
	end_connection();
	assert_int_equal(daemon_.n_unregistered, 1);
	assert_int_equal(daemon_.n_unbound, 1);
	assert_int_equal(daemon_.n_closed, 1);
}

static void errors_are_sentences(void **state)
{
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "missing", NULL), -INFERD_NOT_FOUND);
	assert_string_equal(inferd_error(d), "there is no model 'missing'");
	assert_int_equal(inferd_method_open(d, &m, "\xff", NULL), -INFERD_INVALID_ARGUMENT);
	assert_non_null(strstr(inferd_error(d), "MethodOpen.model"));
	struct inferd_binding *b = bind_model("late");
	assert_int_equal(inferd_infer(b, NULL), -INFERD_MISSED_DEADLINE);
	assert_string_equal(inferd_error(d), "the deadline passed 3 ms before it could run");
	struct inferd_request_options options = { .struct_size = sizeof options, .priority = 17 };
	assert_int_equal(inferd_infer(b, &options), -INFERD_INVALID_ARGUMENT);
	b = bind_model("wrong");
	assert_int_equal(inferd_infer(b, NULL), -INFERD_INTERNAL);
}

/* Options without struct_size would be ignored silently. */
static void options_without_a_size_are_refused(void **state)
{
	struct inferd *none;
	struct inferd_method *m;
	struct inferd_method_options which = { .version = "7" };
	struct inferd_request_options how = { .timeout_us = 1 };
	struct inferd_open_options where = { .socket = "/no/such/socket" };
	assert_int_equal(inferd_method_open(d, &m, "double", &which), -INFERD_INVALID_ARGUMENT);
	assert_string_equal(inferd_error(d), "the options' struct_size is 0: set it to the struct's sizeof");
	struct inferd_binding *b = bind_model("double");
	assert_int_equal(inferd_infer(b, &how), -INFERD_INVALID_ARGUMENT);
	how.struct_size = sizeof how.struct_size; /* as with an older header, which had no other member */
	assert_int_equal(inferd_infer(b, &how), 0);
	assert_int_equal(inferd_open_with(&none, &where), -INFERD_INVALID_ARGUMENT);
	inferd_close(none);
}

static void programs_travel_by_descriptor(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(write(fd, "PTE", 3), 3);
	struct inferd_method *m;
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", NULL), 0);
	assert_int_equal(inferd_method_open_fd(d, &m, -1, "double", NULL), -INFERD_INVALID_ARGUMENT);

	int data_fds[16];
	for (int i = 0; i < 16; i++) {
		data_fds[i] = memfd_create("test", MFD_CLOEXEC);
		assert_int_equal(write(data_fds[i], &(char){ (char)('1' + i) }, 1), 1);
	}
	struct inferd_method_options options = {
		.struct_size = sizeof options, .data_fds = data_fds, .n_data_fds = 15
	};
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", &options), 0);
	assert_int_equal(inferd_method_open(d, &m, "double", &options), -INFERD_INVALID_ARGUMENT);
	options.n_data_fds = 16;
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", &options), -INFERD_INVALID_ARGUMENT);
	/* A program built with a header before data_fds passes a shorter struct. */
	options.struct_size = offsetof(struct inferd_method_options, data_fds);
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", &options), 0);
	for (int i = 0; i < 16; i++)
		close(data_fds[i]);
	close(fd);

	/* A closed descriptor is the caller's mistake; the connection goes on. */
	struct inferd_region *r;
	assert_int_equal(inferd_method_open_fd(d, &m, fd, "double", NULL), -INFERD_INVALID_ARGUMENT);
	assert_string_equal(inferd_error(d), "a descriptor that was passed is not open");
	assert_int_equal(inferd_region_import(d, &r, -1, 64), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
}

static void profiles_are_there_until_the_next_request(void **state)
{
	struct inferd_request_options options = { .struct_size = sizeof options, .profile = true };
	struct inferd_binding *b = bind_model("double");
	size_t n_bytes = 1;
	assert_null(inferd_last_profile(b, &n_bytes));
	assert_int_equal(n_bytes, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(inferd_infer(b, &options), 0);
		const uint8_t *profile = inferd_last_profile(b, &n_bytes);
		assert_int_equal(n_bytes, 100000);
		assert_true(profile[0] == 7 && profile[1] == 0 && profile[99999] == 8);
	}
	options.priority = INFERD_BATCH; /* a profile was asked for, and the daemon sends none */
	assert_int_equal(inferd_infer(b, &options), 0);
	assert_null(inferd_last_profile(b, &n_bytes));
	options.priority = INFERD_INTERACTIVE;
	assert_int_equal(inferd_infer(b, &options), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_null(inferd_last_profile(b, &n_bytes));
	assert_int_equal(inferd_infer(b, &options), 0); /* freed with the binding */
}

static void large_answers_arrive(void **state)
{
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "large", NULL), 0);
	assert_int_equal(inferd_n_outputs(m), INF_MAX_SLOTS);
	assert_string_equal(inferd_output_info(m, INF_MAX_SLOTS - 1)->name,
		"a name that is rather long, to fill a packet");
}

static void imported_regions(void **state)
{
	struct inferd_method *m;
	struct inferd_region *r;
	struct inferd_binding *b;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(inferd_region_import(d, &r, fd, 4096), -INFERD_FAILED_PRECONDITION);
	assert_string_equal(inferd_error(d), inf_region_error_text(INF_REGION_E_UNSEALED));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(inferd_region_import(d, &r, fd, 4096), 0);
	close(fd);
	assert_int_equal(inferd_region_size(r), 4096);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	struct inferd_slot in = { .region = r, .offset = 128 }, out = { .region = r, .offset = 100 };
	assert_int_equal(inferd_bind_slots(m, &b, &in, &out), -INFERD_INVALID_ARGUMENT);
	out.offset = 4096;
	assert_int_equal(inferd_bind_slots(m, &b, &in, &out), -INFERD_INVALID_ARGUMENT);
	out.offset = 1024;
	assert_int_equal(inferd_bind_slots(m, &b, &(struct inferd_slot){ 0 }, &out), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_bind_slots(m, &b, &in, &out), 0);
	uint8_t *data = inferd_region_data(r);
	assert_ptr_equal(inferd_input(b, 0), data + 128);
	inferd_region_free(r); /* the binding keeps it */
	inferd_region_free(NULL);
	fill(b, 3);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 3);
}

static void numbers_and_shapes(void **state)
{
	struct inferd_binding *b = bind_model("number");
	double value;
	assert_int_equal(inferd_infer(b, NULL), -INFERD_INVALID_ARGUMENT);
	assert_non_null(strstr(inferd_error(d), "input_1 is a number"));
	assert_int_equal(inferd_set_scalar(b, 0, 2), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_scalar(b, 2, 2), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_scalar(b, 1, 1e300), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_scalar(b, 1, 2.9), 0);
	fill(b, 1);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 1);
	assert_int_equal(inferd_output_scalar(b, 0, &value), 0);
	assert_true(value == 0.25);
	assert_int_equal(inferd_set_scalar_int(b, 1, -1), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_true(*(float *)inferd_output(b, 0) == -1);

	b = bind_model("dynamic");
	int64_t shape[INFERD_MAX_DIMS] = { 3 };
	assert_int_equal(inferd_set_input_shape(b, 0, shape, 2), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 1, shape, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 5 }, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ -1 }, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_int_equal(inferd_output_shape(b, 0, shape), 1);
	assert_int_equal(shape[0], N_FLOATS);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 3 }, 1), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_int_equal(inferd_output_shape(b, 0, shape), 1);
	assert_int_equal(shape[0], 3);
	b = bind_model("double");
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 3 }, 1), -INFERD_INVALID_ARGUMENT);
	assert_int_equal(inferd_set_input_shape(b, 0, &(int64_t){ 4 }, 1), 0);
}

/* ---- asynchronous ---- */

struct log {
	int n;
	struct inferd_binding *order[8];
	int statuses[8];
	int n_more; /* to be started from the callback */
};

static void done(struct inferd_binding *b, int status, void *userdata)
{
	struct log *log = userdata;
	log->order[log->n] = b;
	log->statuses[log->n++] = status;
	if (log->n_more) {
		log->n_more--;
		assert_int_equal(inferd_infer_async(b, NULL, done, log), 0);
	}
}

static void replies_in_any_order(void **state)
{
	struct log log = { 0 };
	struct inferd_binding *b[3];
	for (int i = 0; i < 3; i++) {
		b[i] = bind_model("hold");
		fill(b[i], (float)i);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(inferd_infer_async(b[i], NULL, done, &log), 0);
	assert_int_equal(inferd_infer_async(b[0], NULL, done, &log), -INFERD_BUSY);
	assert_int_equal(inferd_infer(b[0], NULL), -INFERD_BUSY);
	assert_int_equal(inferd_infer_async(b[0], NULL, NULL, NULL), -INFERD_INVALID_ARGUMENT);
	int n = 0;
	while (n < 3) {
		assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
		int rc = inferd_dispatch(d);
		assert_true(rc >= 0);
		n += rc;
	}
	assert_int_equal(log.n, 3);
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(log.order[i], b[2 - i]);
		assert_int_equal(log.statuses[i], 0);
		assert_doubled(b[i], (float)i);
	}
	assert_int_equal(inferd_wait(d, 0), 0);
}

static void callbacks_start_the_next(void **state)
{
	struct log log = { .n_more = 5 };
	struct inferd_binding *b = bind_model("double");
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	while (log.n < 6)
		assert_true(inferd_wait(d, -1) >= 0);
}

/* A reply that arrives while another call waits is kept for inferd_dispatch, and the descriptor becomes readable. */
static void callbacks_come_from_dispatch_only(void **state)
{
	struct log log = { 0 };
	struct inferd_binding *a = bind_model("double"), *b = bind_model("double");
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), 0);
	assert_int_equal(inferd_infer(b, NULL), 0); /* answered after a's */
	assert_int_equal(log.n, 0);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), -INFERD_BUSY);
	assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
	assert_int_equal(inferd_dispatch(d), 1);
	assert_int_equal(log.n, 1);
	assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, 0), 0);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), 0);
	assert_int_equal(inferd_method_open(d, &(struct inferd_method *){ NULL }, "missing", NULL), -INFERD_NOT_FOUND);
	assert_int_equal(inferd_wait(d, -1), 1); /* does not block while a callback is due */
}

static void cancelling(void **state)
{
	struct log log = { 0 };
	struct inferd_binding *b = bind_model("silent");
	assert_int_equal(inferd_cancel(b), 0); /* nothing to cancel */
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	assert_int_equal(inferd_cancel(b), 0);
	while (!log.n)
		assert_true(inferd_wait(d, -1) >= 0);
	assert_int_equal(log.statuses[0], -INFERD_CANCELLED);
	assert_string_equal(inferd_error(d), "cancelled by the client");
	/* unbound while in flight: no callback, and the late reply is dropped */
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	inferd_unbind(b);
	b = bind_model("double");
	fill(b, 5);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 5);
	assert_int_equal(log.n, 1);
}

static void strange_replies_are_ignored(void **state)
{
	struct inferd_binding *b = bind_model("strange");
	fill(b, 4);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_doubled(b, 4);
}

/* ---- when the daemon goes ---- */

static void lost_connections_end_everything(const char *model)
{
	struct log log = { 0 };
	struct inferd_binding *a = bind_model("silent"), *b = bind_model("silent"), *last = bind_model(model);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), 0);
	assert_int_equal(inferd_infer_async(b, NULL, done, &log), 0);
	assert_int_equal(inferd_infer(last, NULL), -INFERD_DISCONNECTED);
	assert_string_not_equal(inferd_error(d), "");
	assert_int_equal(log.n, 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = inferd_get_fd(d), .events = POLLIN }, 1, -1), 1);
	assert_int_equal(inferd_dispatch(d), 2);
	assert_int_equal(log.statuses[0], -INFERD_DISCONNECTED);
	assert_int_equal(log.statuses[1], -INFERD_DISCONNECTED);
	assert_int_equal(inferd_dispatch(d), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_wait(d, -1), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_infer(a, NULL), -INFERD_DISCONNECTED);
	assert_int_equal(inferd_infer_async(a, NULL, done, &log), -INFERD_DISCONNECTED);
	inferd_unbind(a);
}

static void daemon_vanishes(void **state)
{
	lost_connections_end_everything("vanish");
}

static void daemon_talks_nonsense(void **state)
{
	lost_connections_end_everything("malformed");
}

static void daemon_vanishes_in_a_call(void **state)
{
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "vanish", NULL), 0);
	assert_int_equal(inferd_method_reset(m), -INFERD_DISCONNECTED);
	assert_string_equal(inferd_error(d), "the daemon closed the connection");
}

static void closing_with_requests_in_flight(void **state)
{
	struct log log = { 0 };
	assert_int_equal(inferd_infer_async(bind_model("silent"), NULL, done, &log), 0);
	end_connection();
	assert_int_equal(log.n, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(says_why_it_cannot_connect),
		TEST(says_whom_to_ask_for_permission),
		TEST(infers),
		TEST(errors_are_sentences),
		TEST(options_without_a_size_are_refused),
		TEST(programs_travel_by_descriptor),
		TEST(profiles_are_there_until_the_next_request),
		TEST(large_answers_arrive),
		TEST(imported_regions),
		TEST(numbers_and_shapes),
		TEST(replies_in_any_order),
		TEST(callbacks_start_the_next),
		TEST(callbacks_come_from_dispatch_only),
		TEST(cancelling),
		TEST(strange_replies_are_ignored),
		TEST(daemon_vanishes),
		TEST(daemon_talks_nonsense),
		TEST(daemon_vanishes_in_a_call),
		TEST(closing_with_requests_in_flight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
