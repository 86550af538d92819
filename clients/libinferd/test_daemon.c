/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake daemon of the tests of libinferd.
 *
 * It speaks the wire with the daemon's own functions (ipc/), keeps what the client of one connection has made, and
 * forgets it with the connection, as the daemon does. It checks nothing: libinferd is what is tested. */
#include "clients/libinferd/test_daemon.h"

#include "runtime/base/checked.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_daemon fake;
struct inferd *d;
char fake_path[128];

/* ---- the daemon ---- */

static void reply_with(struct fake_daemon *f, struct inf_reply *reply, uint64_t id, int fd)
{
	static uint8_t packet[INF_MAX_PACKET];
	size_t n_bytes;
	int attached;
	reply->id = id;
	if (inf_message_encode_reply(reply, packet, &n_bytes, &attached, &f->out))
		abort();
	if (attached >= 0)
		fd = attached;
	inf_channel_send(&f->channel, packet, n_bytes, &fd, fd >= 0);
	if (attached >= 0)
		close(attached);
}

static void refuse(struct fake_daemon *f, uint64_t id, enum inf_status status, const char *error)
{
	reply_with(f, &(struct inf_reply){ .status = status, .error = error }, id, -1);
}

static void method_open(struct fake_daemon *f, const struct inf_request *request, const int *fds)
{
	static const int64_t shape[] = { N_FLOATS };
	static struct inf_tensor_metadata tensor = { "input_0", "FP32", 1, shape, 0, NULL, 16, false, false };
	static struct inf_tensor_metadata number = { "input_1", "INT", 0, NULL, 0, NULL, 0, false, true };
	const char *model = request->method_open.model;
	if (strcmp(model, "missing") == 0) {
		refuse(f, request->id, INF_NOT_FOUND, "there is no model 'missing'");
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
	snprintf(f->models[f->n_models], sizeof f->models[0], "%s", model);
	tensor.dynamic = strcmp(model, "dynamic") == 0;
	tensor.name = f->is_changed ? "another" : "input_0";
	struct inf_tensor_metadata inputs[2] = { tensor, number };
	struct inf_reply reply = { .kind = INF_REPLY_METHOD_OPENED,
		.method_opened = { .method = ++f->n_models,
			.n_inputs = strcmp(model, "number") == 0 ? 2 : 1,
			.inputs = inputs,
			.n_outputs = 1,
			.outputs = &tensor,
			.version = request->method_open.version[0] ? request->method_open.version : "1",
			.backend = "fake",
			.stateful = strncmp(model, "state", 5) == 0 } };
	static struct inf_tensor_metadata many[INF_MAX_SLOTS];
	if (strcmp(model, "large") == 0) {
		for (size_t i = 0; i < INF_MAX_SLOTS; i++)
			many[i] = (struct inf_tensor_metadata){ .name = "a name that is rather long, to fill a packet",
				.datatype = "FP32",
				.byte_size = 64 };
		reply.method_opened.n_outputs = INF_MAX_SLOTS;
		reply.method_opened.outputs = many;
	}
	reply_with(f, &reply, request->id, -1);
}

static void region_add(struct fake_daemon *f, const struct inf_request *request, struct inf_region *region, int fd)
{
	f->regions[f->n_regions++] = region;
	reply_with(f,
		&(struct inf_reply){
			.kind = INF_REPLY_REGION_CREATED, .region_created = { f->n_regions, region->mapping.n_bytes } },
		request->id, fd);
}

static void bind_slots(struct fake_daemon *f, const struct inf_request *request)
{
	const struct inf_bind *bind = &request->bind;
	struct fake_binding *b = &f->bindings[f->n_bindings++];
	memcpy(b->model, f->models[bind->method - 1], sizeof b->model);
	b->region = inf_region_ref(f->regions[bind->inputs[0].region - 1]);
	b->in = bind->inputs[0].offset;
	b->out = bind->outputs[0].offset;
	reply_with(f, &(struct inf_reply){ .kind = INF_REPLY_BOUND, .bound = { f->n_bindings, 1, 1 } }, request->id,
		-1);
}

static void answer(struct fake_daemon *f, uint64_t id, size_t binding, const struct inf_infer *infer)
{
	struct fake_binding *b = &f->bindings[binding];
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
	reply_with(f, &reply, id, -1);
}

/* Tell the client of the request that it has been answered, and what its run does now. */
static void tell_of_run(struct fake_daemon *f, enum inf_status status, const char *error, bool goes_on)
{
	goes_on &= f->hears_ends && !f->is_old;
	reply_with(f, &(struct inf_reply){ .status = status, .error = error, .goes_on = goes_on }, f->lingering_id, -1);
}

/* The run of a request that goes on has ended, or its worker is found stuck. */
static void end_lingering(struct fake_daemon *f)
{
	if (!f->lingering_id || !f->hears_ends || f->is_old) {
		f->lingering_id = 0;
		return;
	}
	tell_of_run(f, f->is_stuck ? INF_INTERNAL : INF_CANCELLED, "what became of the run", f->is_stuck);
	if (!f->is_stuck)
		f->lingering_id = 0;
	f->is_stuck = false;
}

/* False: the connection ends here. */
static bool infer(struct fake_daemon *f, const struct inf_request *request)
{
	f->n_infers++;
	size_t binding = request->infer.binding - 1;
	const char *model = f->bindings[binding].model;
	if (strcmp(model, "vanish") == 0)
		return false;
	if (strcmp(model, "malformed") == 0) {
		inf_channel_send(&f->channel, "\x12", 1, NULL, 0);
		return true;
	}
	if (strcmp(model, "silent") == 0) {
		f->silent_id = request->id;
		return true;
	}
	if (strcmp(model, "strange") == 0) { /* replies without a request, with descriptors */
		reply_with(f, &(struct inf_reply){ .kind = INF_REPLY_REGION_CREATED }, 123456, f->listener);
		reply_with(f, &(struct inf_reply){ 0 }, 0, -1);
		reply_with(f, &(struct inf_reply){ .kind = INF_REPLY_INFERRED }, UINT64_MAX, -1);
	}
	if (strcmp(model, "late") == 0) {
		refuse(f, request->id, INF_MISSED_DEADLINE, "the deadline passed 3 ms before it could run");
		return true;
	}
	if (strcmp(model, "linger") == 0 && f->lingering_id) {
		refuse(f, request->id, INF_BUSY, "a worker is still in it");
		return true;
	}
	if (strcmp(model, "linger") == 0 && f->n_lingers) {
		f->n_lingers--;
		f->lingering_id = request->id;
		tell_of_run(f, INF_MISSED_DEADLINE, "it does not end yet", true);
		return true;
	}
	if (strcmp(model, "hold") == 0) {
		f->held[f->n_held].id = request->id;
		f->held[f->n_held++].binding = binding;
		if (f->n_held < 3)
			return true;
		while (f->n_held--)
			answer(f, f->held[f->n_held].id, f->held[f->n_held].binding, &request->infer);
		f->n_held = 0;
		return true;
	}
	answer(f, request->id, binding, &request->infer);
	return true;
}

/* False: the connection ends here. */
static bool handle(struct fake_daemon *f, const struct inf_request *request, int *fds, size_t *n_fds)
{
	struct inf_region *region;
	switch (request->kind) {
	case INF_REQUEST_HELLO:
		f->n_hellos++;
		f->hello_oldest = request->hello.oldest_protocol;
		f->hello_newest = request->hello.protocol;
		f->hello_weight = request->hello.weight;
		f->hears_ends = request->hello.hears_ends;
		snprintf(f->hello_name, sizeof f->hello_name, "%s", request->hello.client_name);
		reply_with(f,
			&(struct inf_reply){ .kind = INF_REPLY_HELLO,
				.hello = { f->protocol, "fake", "0", 16, 64, 1, f->has_presence } },
			request->id, -1);
		return true;
	case INF_REQUEST_METHOD_OPEN:
		method_open(f, request, fds);
		return true;
	case INF_REQUEST_REGION_CREATE:
		if (inf_region_create(&region, request->region_create.byte_size, et_platform_allocator()))
			abort();
		region_add(f, request, region, region->fd);
		return true;
	case INF_REQUEST_REGION_REGISTER: {
		int rc = inf_region_import(&region, fds[0], request->region_register.byte_size,
			et_platform_allocator());
		if (rc) {
			refuse(f, request->id, INF_FAILED_PRECONDITION, inf_region_error_text(rc));
		} else {
			*n_fds = 0;
			region_add(f, request, region, -1);
		}
		return true;
	}
	case INF_REQUEST_BIND:
		bind_slots(f, request);
		return true;
	case INF_REQUEST_INFER:
		return infer(f, request);
	case INF_REQUEST_CANCEL:
		if (request->cancel.request == f->silent_id)
			refuse(f, f->silent_id, INF_CANCELLED, "cancelled by the client");
		refuse(f, request->id, INF_OK, "");
		return true;
	case INF_REQUEST_METHOD_RESET:
		if (strcmp(f->models[request->method_reset.method - 1], "vanish") == 0)
			return false;
		end_lingering(f);
		refuse(f, request->id, INF_OK, "");
		return true;
	case INF_REQUEST_REGION_UNREGISTER:
		f->n_unregistered++;
		break;
	case INF_REQUEST_UNBIND:
		f->n_unbound++;
		break;
	case INF_REQUEST_METHOD_CLOSE:
		f->n_closed++;
		break;
	default:
		refuse(f, request->id, INF_UNIMPLEMENTED, "unknown message");
		return true;
	}
	refuse(f, request->id, INF_OK, "");
	return true;
}

static void refuse_as_draining(struct fake_daemon *f, uint64_t id)
{
	reply_with(f,
		&(struct inf_reply){
			.status = INF_UNAVAILABLE, .error = "inferd is shutting down", .shutting_down = true },
		id, -1);
}

/* Whether a message is to be refused so. */
static bool takes_drain(struct fake_daemon *f, enum inf_request_kind kind)
{
	_Atomic(uint32_t) *n = kind == INF_REQUEST_HELLO   ? &f->n_drains_at_hello
			       : kind == INF_REQUEST_INFER ? &f->n_drains_at_infer
							   : NULL;
	if (n && *n) {
		--*n;
		return true;
	}
	return kind != INF_REQUEST_HELLO && atomic_exchange(&f->is_draining, false);
}

/* Wait for @events of @fd. False: the test ends. */
static bool wait_for(struct fake_daemon *f, int fd)
{
	struct pollfd fds[2] = { { .fd = f->stop_fd, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
	poll(fds, 2, -1);
	return !(fds[0].revents & POLLIN) || (fds[1].revents & (POLLIN | POLLHUP));
}

/* Handle one packet. False: the connection ends here. */
static bool serve_packet(struct fake_daemon *f, const void *packet, size_t n_bytes, int *fds, size_t n_fds)
{
	struct inf_request request;
	if (inf_message_decode_request(&request, packet, n_bytes, &f->in, NULL))
		return false;
	bool is_cut = ++f->n_messages == f->cut_at;
	bool goes_on = !is_cut || f->cuts_late;
	if (goes_on && takes_drain(f, request.kind)) {
		refuse_as_draining(f, request.id);
		goes_on = false;
	} else if (goes_on) {
		goes_on = n_fds == inf_request_n_fds(&request) && handle(f, &request, fds, &n_fds) && !is_cut;
	}
	inf_close_fds(fds, n_fds);
	return goes_on;
}

static void serve_client(struct fake_daemon *f)
{
	static uint8_t packet[INF_MAX_PACKET];
	for (bool goes_on = true; goes_on;) {
		int fds[INF_MAX_PACKET_FDS];
		size_t n_bytes, n_fds;
		while (f->is_stopped)
			if (poll(&(struct pollfd){ .fd = f->stop_fd, .events = POLLIN }, 1, 1) > 0)
				break;
		int rc = inf_channel_receive(&f->channel, packet, sizeof packet, &n_bytes, fds, &n_fds);
		if (rc == INF_CHANNEL_AGAIN) {
			inf_channel_flush(&f->channel);
			goes_on = wait_for(f, inf_channel_fd(&f->channel));
			continue;
		}
		goes_on = !rc && serve_packet(f, packet, n_bytes, fds, n_fds);
	}
	inf_channel_deinit(&f->channel);
	for (size_t i = 0; i < f->n_bindings; i++)
		inf_region_unref(f->bindings[i].region);
	for (size_t i = 0; i < f->n_regions; i++)
		inf_region_unref(f->regions[i]);
	f->n_regions = f->n_models = f->n_bindings = f->n_held = 0;
	f->lingering_id = 0;
}

/* Serve one client after the other until the test ends. */
static void *serve(void *arg)
{
	struct fake_daemon *f = arg;
	while (wait_for(f, f->listener)) {
		int fd = inf_channel_accept(f->listener);
		if (fd < 0)
			continue;
		if (inf_channel_init(&f->channel, fd, 1 << 20, et_platform_allocator()))
			abort();
		f->n_connections++;
		serve_client(f);
	}
	return NULL;
}

/* ---- around each test ---- */

static char dir[64];
static size_t n_fds_before;
static bool is_running;

static size_t n_open_fds(void)
{
	size_t n = 0;
	DIR *fds = opendir("/proc/self/fd");
	while (readdir(fds))
		n++;
	closedir(fds);
	return n;
}

int fake_set_up_alone(void **state)
{
	n_fds_before = n_open_fds();
	snprintf(dir, sizeof dir, "/tmp/inferd-test-lib-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(fake_path, sizeof fake_path, "%s/inferd.sock", dir);
	memset(&fake, 0, sizeof fake);
	fake.protocol = INF_PROTOCOL;
	fake.listener = inf_channel_listen(fake_path, 0600);
	fake.stop_fd = eventfd(0, EFD_CLOEXEC);
	inf_codec_init(&fake.in, et_platform_allocator());
	inf_codec_init(&fake.out, et_platform_allocator());
	is_running = pthread_create(&fake.thread, NULL, serve, &fake) == 0;
	d = NULL;
	return is_running ? 0 : -1;
}

int fake_connect(struct inferd_open_options options)
{
	inferd_close(d);
	d = NULL;
	options.struct_size = sizeof options;
	options.socket = fake_path;
	return inferd_open_with(&d, &options);
}

int fake_set_up(void **state)
{
	int rc = fake_set_up_alone(state);
	return rc ? rc : fake_connect((struct inferd_open_options){ 0 });
}

void fake_end(void)
{
	inferd_close(d);
	d = NULL;
	if (!is_running)
		return;
	uint64_t one = 1;
	if (write(fake.stop_fd, &one, sizeof one) != sizeof one)
		abort();
	pthread_join(fake.thread, NULL);
	is_running = false;
}

int fake_tear_down(void **state)
{
	fake_end();
	inf_codec_deinit(&fake.in);
	inf_codec_deinit(&fake.out);
	close(fake.listener);
	close(fake.stop_fd);
	unlink(fake_path);
	rmdir(dir);
	return n_open_fds() == n_fds_before ? 0 : -1;
}

struct inferd_binding *bind_model(const char *model)
{
	struct inferd_method *m;
	struct inferd_binding *b;
	assert_int_equal(inferd_method_open(d, &m, model, NULL), 0);
	assert_int_equal(inferd_bind(m, &b), 0);
	return b;
}

void fill(struct inferd_binding *b, float first)
{
	float *in = inferd_input(b, 0);
	for (int i = 0; i < N_FLOATS; i++)
		in[i] = first + (float)i;
}

void assert_doubled(struct inferd_binding *b, float first)
{
	const float *out = inferd_output(b, 0);
	for (int i = 0; i < N_FLOATS; i++)
		assert_true(out[i] == 2 * (first + (float)i));
}
