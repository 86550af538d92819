/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong or hostile clients: each gets an error with a sentence, no other client is affected, and nothing is left
 * behind. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"
#include "tests/support/make_program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* A client beside the hostile one, which must notice nothing. */
struct bystander {
	struct inferd *d;
	struct inferd_binding *b;
};

static void start(struct e2e *e, struct bystander *by, const char *config)
{
	e2e_init(e);
	e2e_put_program(e, "double.pte", e2e_program_double);
	e2e_put_program(e, "sum.pte", e2e_program_accumulate);
	e2e_start(e, config);
	by->d = e2e_connect(e);
	by->b = e2e_bind(by->d, "double", NULL);
}

static void check_bystander(struct bystander *by)
{
	int rc;
	assert_true(e2e_infer(by->b, 21, &rc) == 42 && rc == 0);
}

static void stop(struct e2e *e, struct bystander *by)
{
	check_bystander(by);
	inferd_close(by->d);
	e2e_check_clean(e);
	e2e_deinit(e);
}

static void expect(struct inf_reply reply, enum inf_status status, const char *says)
{
	if (reply.status != status || !strstr(reply.error, says))
		fail_msg("answered %d '%s', expected %d '%s'", reply.status, reply.error, status, says);
}

/* Descriptors that are no program: each is refused and closed. */
static void test_descriptors(void **state)
{
	static const int flags[] = { O_WRONLY, O_PATH, O_WRONLY | O_APPEND };
	struct bystander by;
	struct e2e e;
	char path[128];
	start(&e, &by, NULL);
	snprintf(path, sizeof(path), "%s/double.pte", e.models);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	struct inf_request request = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "mine", "", "", "", true } };
	for (size_t i = 0; i < ET_ARRAY_LEN(flags); i++) {
		int fd = open(path, flags[i] | O_CLOEXEC);
		assert_true(fd >= 0);
		expect(e2e_raw_call_fd(raw, request, fd), INF_INVALID_ARGUMENT, "not open for reading");
		close(fd);
	}
	int folder = open(e.models, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	expect(e2e_raw_call_fd(raw, request, folder), INF_INVALID_ARGUMENT, "no regular file");
	close(folder);
	e2e_raw_free(raw);
	stop(&e, &by);
}

/* A client asks for the index as often as it may and does not wait; one of those who asked too hangs up meanwhile. */
static void test_many_indexes(void **state)
{
	enum { N = 60 };
	struct e2e_raw *raw[3];
	struct inf_reply reply;
	struct bystander by;
	struct e2e e;
	start(&e, &by, NULL);
	for (size_t k = 0; k < ET_ARRAY_LEN(raw); k++)
		raw[k] = e2e_raw_new(e.socket, false);
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < ET_ARRAY_LEN(raw); k++) {
			struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX };
			request.repository_index.repository_name = "";
			e2e_raw_send(raw[k], &request, -1);
		}
	e2e_raw_free(raw[0]);
	for (size_t k = 1; k < ET_ARRAY_LEN(raw); k++) {
		uint64_t last = 0;
		for (size_t i = 0; i < N; i++) {
			assert_true(e2e_raw_receive(raw[k], &reply));
			assert_int_equal(reply.status, INF_OK);
			assert_int_equal(reply.repository_index.n_models, 2);
			assert_true(reply.id > last); /* in the order in which they were asked for */
			last = reply.id;
		}
	}
	/* what was put there before the question is in the answer */
	e2e_put_program(&e, "third.pte", e2e_program_double);
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX };
	request.repository_index.repository_name = "";
	reply = e2e_raw_call(raw[1], request);
	assert_int_equal(reply.repository_index.n_models, 3);
	e2e_raw_free(raw[1]);
	e2e_raw_free(raw[2]);
	stop(&e, &by);
}

static int memory(size_t n_bytes, int seals)
{
	int fd = memfd_create("e2e", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)n_bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void test_tensors(void **state)
{
	uint64_t method, binding, region;
	struct bystander by;
	struct e2e e;
	start(&e, &by, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "double", &method, &binding, &region, NULL);
	const struct inf_slot in = { .region = region, .byte_size = 16 };
	const struct inf_slot out = { .region = region, .offset = 64, .byte_size = 16 };
	const struct {
		struct inf_slot in, out;
		size_t n_inputs, n_outputs;
		enum inf_status status;
		const char *says;
	} cases[] = {
		{ in, out, 2, 1, INF_INVALID_ARGUMENT, "2 inputs and 1 outputs were bound; the Method has 1 and 1" },
		{ in, out, 1, 0, INF_INVALID_ARGUMENT, "1 inputs and 0 outputs" },
		{ { .region = 99, .byte_size = 16 }, out, 1, 1, INF_NOT_FOUND, "input_0: no region 99" },
		{ { .region = 0 }, out, 1, 1, INF_INVALID_ARGUMENT, "input_0: it is not bound" },
		{ in, { .region = 99 }, 1, 1, INF_NOT_FOUND, "output_0: no region 99" },
		{ { .region = region, .offset = 4, .byte_size = 16 }, out, 1, 1, INF_INVALID_ARGUMENT,
			"input_0: offset 4 is not a multiple of 64" },
		{ { .region = region, .byte_size = 15 }, out, 1, 1, INF_INVALID_ARGUMENT,
			"input_0: 15 bytes, expected 16" },
		{ { .region = region, .byte_size = 20 }, out, 1, 1, INF_INVALID_ARGUMENT,
			"input_0: 20 bytes, expected 16" },
		{ in, { .region = region, .byte_size = 12 }, 1, 1, INF_INVALID_ARGUMENT,
			"output_0: 12 bytes, expected at least 16" },
		{ { .region = region, .offset = 4096, .byte_size = 16 }, out, 1, 1, INF_INVALID_ARGUMENT,
			"end beyond region" },
		{ { .region = region, .offset = UINT64_MAX - 63, .byte_size = 16 }, out, 1, 1, INF_INVALID_ARGUMENT,
			"end beyond region" },
		{ in, { .region = region, .offset = 64, .byte_size = UINT64_MAX }, 1, 1, INF_INVALID_ARGUMENT,
			"end beyond region" },
		{ { .region = region, .byte_size = 16, .n_shape = 1, .shape = (int64_t[]){ 5 } }, out, 1, 1,
			INF_INVALID_ARGUMENT, "input_0: shape [5], expected [4]" },
		{ { .region = region, .byte_size = 16, .n_shape = 2, .shape = (int64_t[]){ 2, 2 } }, out, 1, 1,
			INF_INVALID_ARGUMENT, "input_0: shape [2,2], expected [4]" },
		{ { .region = region, .byte_size = 16, .n_shape = 1, .shape = (int64_t[]){ -4 } }, out, 1, 1,
			INF_INVALID_ARGUMENT, "input_0: shape [-4], expected [4]" },
		{ { .region = region, .byte_size = 16, .scalar = { .kind = INF_SCALAR_INT, .int_value = 3 } }, out, 1,
			1, INF_INVALID_ARGUMENT, "input_0: it is a tensor, and an INT was given" },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct inf_slot ins[2] = { cases[i].in, cases[i].in };
		struct inf_request bind = { .kind = INF_REQUEST_BIND,
			.bind = { method, cases[i].n_inputs, ins, cases[i].n_outputs, &cases[i].out } };
		expect(e2e_raw_call(raw, bind), cases[i].status, cases[i].says);
	}
	struct inf_slot shape = { .n_shape = 1, .shape = (int64_t[]){ 3 } };
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { binding, INF_INTERACTIVE, 0, 1, &shape } };
	expect(e2e_raw_call(raw, infer), INF_INVALID_ARGUMENT, "input_0: shape [3], expected [4]");
	struct inf_slot two[2] = { { 0 }, { 0 } };
	infer.infer.n_inputs = 2;
	infer.infer.inputs = two;
	expect(e2e_raw_call(raw, infer), INF_INVALID_ARGUMENT, "2 inputs were given; the Method has 1");
	infer.infer.n_inputs = 0;
	assert_int_equal(e2e_raw_call(raw, infer).status, INF_OK);
	e2e_raw_free(raw);
	stop(&e, &by);
}

static void test_names(void **state)
{
	struct bystander by;
	struct e2e e;
	start(&e, &by, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	const struct {
		struct inf_request request;
		enum inf_status status;
		const char *says;
	} cases[] = {
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "..", "", "", "", false } }, INF_INVALID_ARGUMENT,
			"can't be the name" },
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "../models/double", "", "", "", false } },
			INF_INVALID_ARGUMENT, "can't be the name" },
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "double", "../1", "", "", false } },
			INF_INVALID_ARGUMENT, "can't be the name" },
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "", "", "", "", false } }, INF_INVALID_ARGUMENT,
			"can't be the name" },
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "cat", "", "", "", false } }, INF_NOT_FOUND,
			"no model 'cat'; available models: double, sum" },
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "double", "7", "", "", false } }, INF_NOT_FOUND,
			"model 'double' has no version '7'; there are: 1" },
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "double", "", "backward", "", false } },
			INF_NOT_FOUND, "model 'double' has no method 'backward'; it has: forward" },
		{ { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "double", "", "", "abacus", false } },
			INF_FAILED_PRECONDITION,
			"No available backends from requested: [abacus]. Available backends: [" },
		{ { .kind = INF_REQUEST_MODEL_METADATA, .model_metadata = { "cat", "", "" } }, INF_NOT_FOUND,
			"no model" },
		{ { .kind = INF_REQUEST_METHOD_CLOSE, .method_close = { 5 } }, INF_NOT_FOUND, "no Method 5" },
		{ { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { 0 } }, INF_NOT_FOUND, "no Method 0" },
		{ { .kind = INF_REQUEST_UNBIND, .unbind = { 1 } }, INF_NOT_FOUND, "no binding 1" },
		{ { .kind = INF_REQUEST_INFER, .infer = { .binding = UINT64_MAX } }, INF_NOT_FOUND, "no binding" },
		{ { .kind = INF_REQUEST_CANCEL, .cancel = { 77 } }, INF_NOT_FOUND, "no request 77" },
		{ { .kind = INF_REQUEST_REGION_UNREGISTER, .region_unregister = { "x", 0 } }, INF_NOT_FOUND,
			"no region" },
		{ { .kind = INF_REQUEST_MODEL_STATISTICS, .model_statistics = { "cat", "" } }, INF_NOT_FOUND,
			"not loaded" },
		{ { .kind = INF_REQUEST_REPOSITORY_MODEL_LOAD, .repository_model_load = { "", "double" } },
			INF_PERMISSION_DENIED, "manager socket" },
		{ { .kind = INF_REQUEST_REPOSITORY_MODEL_UNLOAD, .repository_model_unload = { "", "double" } },
			INF_PERMISSION_DENIED, "manager socket" },
		{ { .kind = INF_REQUEST_BACKEND_RESTART, .backend_restart = { "xnnpack" } }, INF_PERMISSION_DENIED,
			"manager socket" },
		{ { .kind = INF_REQUEST_HELLO, .hello = { 9, "x" } }, INF_FAILED_PRECONDITION, "protocol" },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++)
		expect(e2e_raw_call(raw, cases[i].request), cases[i].status, cases[i].says);
	e2e_raw_free(raw);
	stop(&e, &by);
}

static void test_regions(void **state)
{
	char path[128];
	struct bystander by;
	struct e2e e;
	start(&e, &by, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	struct inf_request reg = { .kind = INF_REQUEST_REGION_REGISTER, .region_register = { "mine", "", 0, 4096 } };
	const int both = F_SEAL_SHRINK | F_SEAL_GROW;
	snprintf(path, sizeof(path), "%s/inferd.conf", e.dir);
	const struct {
		int fd;
		enum inf_status status;
	} cases[] = {
		{ memory(4096, 0), INF_FAILED_PRECONDITION },
		{ memory(4096, F_SEAL_SHRINK), INF_FAILED_PRECONDITION },
		{ memory(4095, both), INF_INVALID_ARGUMENT },
		{ memory(4096, both | F_SEAL_WRITE), INF_FAILED_PRECONDITION },
		{ open(path, O_RDWR | O_CLOEXEC), INF_INVALID_ARGUMENT },
		{ open("/dev/null", O_RDWR | O_CLOEXEC), INF_INVALID_ARGUMENT },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct inf_reply reply = e2e_raw_call_fd(raw, reg, cases[i].fd);
		if (reply.status == INF_OK || !reply.error[0])
			fail_msg("case %zu: answered %d '%s'", i, reply.status, reply.error);
		close(cases[i].fd);
	}
	int good = memory(4096, both);
	struct inf_reply reply = e2e_raw_call_fd(raw, reg, good);
	assert_int_equal(reply.status, INF_OK);
	expect(e2e_raw_call_fd(raw, reg, good), INF_INVALID_ARGUMENT, "there is a region 'mine' already");
	reg.region_register.offset = 64;
	expect(e2e_raw_call_fd(raw, reg, good), INF_INVALID_ARGUMENT, "offset must be 0");
	close(good);
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 0 } };
	assert_int_equal(e2e_raw_call(raw, create).status, INF_INVALID_ARGUMENT);
	create.region_create.byte_size = UINT64_MAX;
	expect(e2e_raw_call(raw, create), INF_RESOURCE_EXHAUSTED, "'bytes'");
	e2e_raw_free(raw);
	stop(&e, &by);
}

/* Packets that are no messages end their session and no other. */
static void test_packets(void **state)
{
	static char large[INF_MAX_PACKET + 1000];
	struct bystander by;
	struct e2e e;
	start(&e, &by, NULL);
	const struct {
		const void *bytes;
		size_t n_bytes;
	} cases[] = {
		{ "\xff\xff\xff\xff", 4 },
		{ "garbage that is no protobuf", 27 },
		{ "\x08\x01\x12\x7f", 4 }, /* hello longer than the packet */
		{ large, sizeof(large) },
		{ "", 0 },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct e2e_raw *raw = e2e_raw_new(e.socket, false);
		int fd = inf_channel_fd(&raw->channel);
		assert_int_equal(send(fd, cases[i].bytes, cases[i].n_bytes, MSG_NOSIGNAL), cases[i].n_bytes);
		e2e_raw_expect_end(raw);
		e2e_raw_free(raw);
		check_bystander(&by);
	}
	/* a message that this daemon doesn't know (field 1000 of Request), and none at all */
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	struct inf_reply reply;
	static const char unknown[] = "\x08\x63\xc2\x3e\x00";
	assert_int_equal(send(inf_channel_fd(&raw->channel), unknown, 5, 0), 5);
	assert_true(e2e_raw_receive(raw, &reply));
	assert_int_equal(reply.id, 99);
	expect(reply, INF_UNIMPLEMENTED, "does not know that message");
	/* descriptors that the message does not announce */
	struct inf_request status = { .kind = INF_REQUEST_STATUS };
	int fd = memory(64, 0);
	e2e_raw_send(raw, &status, fd);
	close(fd);
	e2e_raw_expect_end(raw);
	e2e_raw_free(raw);

	raw = e2e_raw_new(e.socket, true);
	expect(e2e_raw_call(raw, status), INF_FAILED_PRECONDITION, "say Hello first");
	e2e_raw_free(raw);
	stop(&e, &by);
}

/* Model files that are broken: an error that names the file, and the daemon goes on. */
static void test_models(void **state)
{
	struct inferd_method *m = NULL;
	struct bystander by;
	struct e2e e;
	size_t n_bytes;
	start(&e, &by, NULL);
	uint8_t *good = e2e_program_double(&n_bytes);
	e2e_put(&e, "empty.pte", "", 0);
	e2e_put(&e, "garbage.pte", "this is no program, whatever its name says", 42);
	for (size_t n = 8; n < n_bytes; n += 13) {
		e2e_put(&e, "cut.pte", good, n);
		assert_true(inferd_method_open(by.d, &m, "cut", NULL) < 0);
		assert_non_null(strstr(inferd_error(by.d), "cut.pte"));
		assert_int_equal(e2e_load(&e, "cut"), INF_FAILED_PRECONDITION);
	}
	free(good);
	e2e_put_program(&e, "foreign.pte", e2e_program_foreign);
	e2e_put_program(&e, "unknown.pte", e2e_program_unknown);
	static const char *const names[] = { "empty", "garbage", "foreign", "unknown" };
	static const char *const says[] = { "empty.pte", "garbage.pte",
		"Backend 'NobodysBackend' is not available. Available backends: [XnnpackBackend]",
		"nobodys::operator" };
	for (size_t i = 0; i < ET_ARRAY_LEN(names); i++) {
		assert_int_equal(inferd_method_open(by.d, &m, names[i], NULL),
			i < 2 ? -INFERD_FAILED_PRECONDITION : -INFERD_UNIMPLEMENTED);
		if (!strstr(inferd_error(by.d), says[i]))
			fail_msg("'%s', expected '%s'", inferd_error(by.d), says[i]);
	}
	stop(&e, &by);
}

static void test_limits(void **state)
{
	uint64_t method, binding, region;
	struct bystander by;
	struct e2e e;
	start(&e, &by,
		"[limits]\nconnections = 2\nmethods = 2\nregions = 3\nbindings = 3\nrequests = 1\nbytes = "
		"64K\n");
	struct e2e_raw *raw = e2e_raw_new(e.socket,
		false); /* the second after the bystander; the watcher is a manager */
	e2e_raw_bind(raw, "double", &method, &binding, &region, NULL);

	struct e2e_raw *fourth = e2e_raw_new(e.socket, true);
	struct inf_reply reply;
	if (e2e_raw_receive(fourth, &reply))
		expect(reply, INF_RESOURCE_EXHAUSTED, "'connections'");
	e2e_raw_expect_end(fourth);
	e2e_raw_free(fourth);
	for (int i = 0; i < 50; i++) { /* whether its Hello came before the refusal or after, libinferd tells why */
		struct inferd *d = NULL;
		assert_int_equal(inferd_open(&d, e.socket), -INFERD_RESOURCE_EXHAUSTED);
		assert_non_null(strstr(inferd_error(d), "the limit 'connections'"));
		inferd_close(d);
	}

	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "sum", "", "", "", false } };
	expect(e2e_raw_call(raw, open), INF_RESOURCE_EXHAUSTED, "the limit 'methods'");
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 1 << 20 } };
	expect(e2e_raw_call(raw, create), INF_RESOURCE_EXHAUSTED, "the limit 'bytes'");
	create.region_create.byte_size = 4096;
	assert_int_equal(e2e_raw_call(raw, create).status, INF_OK);
	expect(e2e_raw_call(raw, create), INF_RESOURCE_EXHAUSTED, "the limit 'regions'");
	struct inf_slot in = { .region = region }, out = { .region = region, .offset = 64 };
	struct inf_request bind = { .kind = INF_REQUEST_BIND, .bind = { method, 1, &in, 1, &out } };
	assert_int_equal(e2e_raw_call(raw, bind).status, INF_OK);
	expect(e2e_raw_call(raw, bind), INF_RESOURCE_EXHAUSTED, "the limit 'bindings'");
	/* what is given back can be had again */
	struct inf_request unbind = { .kind = INF_REQUEST_UNBIND, .unbind = { binding } };
	assert_int_equal(e2e_raw_call(raw, unbind).status, INF_OK);
	assert_int_equal(e2e_raw_call(raw, bind).status, INF_OK);
	e2e_raw_free(raw);
	e2e_until_clients(&e, 1);
	stop(&e, &by);
}

/* The limits of what passes: at once, and though everything else is there. */
static void test_limits_in_passing(void **state)
{
	uint64_t method, binding, region;
	struct bystander by;
	struct e2e e;
	start(&e, &by, "[limits]\nfds = 4\nrequests = 1\n");
	e2e_put_program(&e, "forever.pte", e2e_program_forever);
	/* the third and the fourth, after the bystander's with its region */
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "forever", &method, &binding, &region, NULL);
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
	expect(e2e_raw_call(raw, create), INF_RESOURCE_EXHAUSTED, "the limit 'fds'");
	struct inf_slot in = { .region = region }, out = { .region = region, .offset = 64 };
	struct inf_request bind = { .kind = INF_REQUEST_BIND, .bind = { method, 1, &in, 1, &out } };
	struct inf_reply other = e2e_raw_call(raw, bind);
	assert_int_equal(other.status, INF_OK);
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	e2e_raw_send(raw, &infer, -1);
	e2e_until_jobs(&e, 1, 0);
	infer.infer.binding = other.bound.binding;
	expect(e2e_raw_call(raw, infer), INF_RESOURCE_EXHAUSTED, "the limit 'requests'");
	assert_int_equal(inferd_infer(by.b, NULL), -INFERD_RESOURCE_EXHAUSTED); /* whichever connection asks */
	e2e_raw_free(raw);
	e2e_until_jobs(&e, 0, 0);
	e2e_until_clients(&e, 1);
	stop(&e, &by);
}

static int program_file(uint8_t *(*make)(size_t *ret_n_bytes))
{
	size_t n_bytes;
	uint8_t *bytes = make(&n_bytes);
	int fd = memfd_create("own", MFD_CLOEXEC);
	assert_true(fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
	free(bytes);
	return fd;
}

/* What a program makes the daemon keep is charged like what a client asks for itself: a small file may say much. */
static void test_states_are_charged(void **state)
{
	enum { N = 3 };
	uint64_t methods[N];
	struct bystander by;
	struct e2e e;
	struct inf_reply expect_room;
	struct inf_request create_all = { .kind = INF_REQUEST_REGION_CREATE,
		.region_create = { (56 << 20) - 8192 } }; /* the bystander's */
	start(&e, &by, "workers = 2\n[limits]\nbytes = 56M\n");
	e2e_put_program(&e, "hoarder.pte", e2e_program_hoarder);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "hoarder", "", "", "", false } };
	for (int i = 0; i < N; i++) {
		struct inf_reply reply = e2e_raw_call(raw, open);
		assert_int_equal(reply.status, INF_OK);
		methods[i] = reply.method_opened.method;
	}
	expect(e2e_raw_call(raw, open), INF_RESOURCE_EXHAUSTED, "for its state; the limit 'bytes'");
	/* so large a state is made and reset beside the loop, and given back, whatever happens meanwhile */
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
	struct inf_slot in = { .region = e2e_raw_call(raw, create).region_created.region };
	struct inf_slot out = { .region = in.region, .offset = 64 };
	struct inf_request bind = { .kind = INF_REQUEST_BIND, .bind = { methods[0], 1, &in, 1, &out } };
	struct inf_request infer = { .kind = INF_REQUEST_INFER };
	infer.infer.binding = e2e_raw_call(raw, bind).bound.binding;
	struct inf_request reset = { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { methods[0] } };
	for (int i = 0; i < 20; i++) {
		struct inf_reply reply;
		e2e_raw_send(raw, &reset, -1);
		e2e_raw_send(raw, &infer, -1);
		for (int k = 0; k < 2; k++) {
			assert_true(e2e_raw_receive(raw, &reply));
			if (reply.id == reset.id)
				assert_int_equal(reply.status, INF_OK);
			else
				assert_true(reply.status == INF_OK || reply.status == INF_BUSY);
		}
		assert_int_equal(e2e_raw_call(raw, infer).status, INF_OK);
		check_bystander(&by);
	}
	/* one that has begun is not cancelled; the answer to that says so, unless the reset has been answered before */
	for (int i = 0; i < 20; i++) {
		struct inf_request stop_reset = { .kind = INF_REQUEST_CANCEL };
		struct inf_reply reply;
		bool was_reset = false;
		e2e_raw_send(raw, &reset, -1);
		stop_reset.cancel.request = reset.id;
		e2e_raw_send(raw, &stop_reset, -1);
		for (int k = 0; k < 2; k++) {
			assert_true(e2e_raw_receive(raw, &reply));
			if (reply.id == reset.id) {
				assert_int_equal(reply.status, INF_OK);
				was_reset = true;
			} else {
				expect(reply, was_reset ? INF_NOT_FOUND : INF_FAILED_PRECONDITION,
					was_reset ? "in flight" : "cannot be cancelled any more");
			}
		}
	}
	e2e_raw_send(raw, &reset, -1);
	e2e_raw_free(raw);
	raw = e2e_raw_new(e.socket, false);
	for (int i = 0; i < 20; i++) {
		struct inf_reply reply;
		struct inf_request cancel = { .kind = INF_REQUEST_CANCEL };
		struct e2e_raw *other = e2e_raw_new(e.socket, false);
		e2e_raw_send(other, &open, -1);
		cancel.cancel.request = open.id;
		if (i % 2)
			e2e_raw_send(other, &cancel, -1);
		for (int k = 0; k < 2 && i % 2; k++) {
			assert_true(e2e_raw_receive(other, &reply));
			if (reply.id == cancel.id)
				assert_true(reply.status == INF_OK || reply.status == INF_NOT_FOUND);
			else
				assert_true(reply.status == INF_OK || reply.status == INF_CANCELLED ||
					    reply.status == INF_RESOURCE_EXHAUSTED);
		}
		e2e_raw_free(other);
	}
	e2e_until_clients(&e, 2);
	do /* all of it comes back */
		expect_room = e2e_raw_call(raw, create_all);
	while (expect_room.status == INF_RESOURCE_EXHAUSTED);
	assert_int_equal(expect_room.status, INF_OK);
	e2e_raw_free(raw);
	stop(&e, &by);
}

/* Of a program of one's own all that is made of it is charged, and what its runs take, once for each worker,
 * whatever number of Methods. */
static void test_own_programs_are_charged(void **state)
{
	enum { N = 3 };
	struct bystander by;
	struct e2e e;
	struct inf_reply reply;
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 55 << 20 } };
	struct inf_request drop = { .kind = INF_REQUEST_REGION_UNREGISTER, .region_unregister = { "", 0 } };
	start(&e, &by, "workers = 2\n[limits]\nbytes = 56M\n");
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	int own = program_file(e2e_program_hoarder), large = program_file(e2e_program_large);
	struct inf_request open_own = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "own", "", "", "", true } };
	assert_int_equal(e2e_raw_call(raw, create).status, INF_OK);
	expect(e2e_raw_call_fd(raw, open_own, large), INF_RESOURCE_EXHAUSTED, "'own' needs");
	assert_int_equal(e2e_raw_call(raw, drop).status, INF_OK);
	do /* the region's memory goes a little later */
		reply = e2e_raw_call_fd(raw, open_own, large);
	while (reply.status == INF_RESOURCE_EXHAUSTED);
	assert_int_equal(reply.status, INF_OK);
	assert_int_equal(e2e_raw_call_fd(raw, open_own, large).status, INF_OK);
	for (int i = 0; i < N; i++)
		assert_int_equal(e2e_raw_call_fd(raw, open_own, own).status, INF_OK);
	expect(e2e_raw_call_fd(raw, open_own, own), INF_RESOURCE_EXHAUSTED, "for its state; the limit");
	close(own);
	close(large);
	e2e_raw_free(raw);
	stop(&e, &by);
}

/* z = a large one of ones, and it never ends. */
static uint8_t *make_endless(size_t *ret_n_bytes)
{
	enum { N = E2E_LARGE / sizeof(float) };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, E2E_LARGE + 32);
	int large = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N), .arena = arena });
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = E2E_LARGE });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = E2E_LARGE + 16 });
	int one = mk_int(&mk, 1), no = mk_bool(&mk, false);
	int size = mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(mk_int(&mk, N)));
	mk_kernel(&mk, mk_operator(&mk, "aten::full", "out"), MK_ARGS(size, one, large, large));
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, one, y, y));
	mk_jump_false(&mk, no, 0);
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

/* Runs that take turns keep their memory meanwhile: of a client's own program each in flight is charged for it. */
static void test_runs_are_charged(void **state)
{
	enum { N = 8 };
	struct bystander by;
	struct e2e e;
	struct inf_reply reply;
	uint64_t ids[N];
	int n = 0;
	start(&e, &by, "workers = 1\n[limits]\nbytes = 9M\n"); /* four runs, and what else there is */
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	int own = program_file(make_endless);
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "own", "", "", "", true } };
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
	struct inf_slot in = { .region = e2e_raw_call(raw, create).region_created.region };
	struct inf_slot out = { .region = in.region, .offset = 64 };
	reply = e2e_raw_call_fd(raw, open, own);
	assert_int_equal(reply.status, INF_OK);
	struct inf_request bind = { .kind = INF_REQUEST_BIND, .bind = { reply.method_opened.method, 1, &in, 1, &out } };
	struct inf_request infer[N], cancel = { .kind = INF_REQUEST_CANCEL };
	for (int i = 0; i < N; i++)
		infer[i] = (struct inf_request){ .kind = INF_REQUEST_INFER,
			.infer = { .binding = e2e_raw_call(raw, bind).bound.binding } };
	for (int round = 0; round < 3; round++) {
		/* as many as there is room for; the next one is refused, and what is in flight goes on */
		for (n = 0; n < N; n++) {
			e2e_raw_send(raw, &infer[n], -1);
			ids[n] = infer[n].id;
			if (n == 4)
				break;
		}
		assert_true(e2e_raw_receive(raw, &reply));
		assert_int_equal(reply.id, ids[4]);
		expect(reply, INF_RESOURCE_EXHAUSTED, "the limit 'bytes'");
		check_bystander(&by);
		/* what has ended is given back: as many again */
		for (int i = 0; i < 4; i++) {
			cancel.cancel.request = ids[i];
			e2e_raw_send(raw, &cancel, -1);
			for (int k = 0; k < 2; k++) {
				assert_true(e2e_raw_receive(raw, &reply));
				assert_int_equal(reply.status, reply.id == cancel.id ? INF_OK : INF_CANCELLED);
			}
		}
		e2e_until_jobs(&e, 0, 0);
	}
	close(own);
	e2e_raw_free(raw);
	stop(&e, &by);
}

/* Nobody goes before everybody else without leave, and the refusal says how to get it. */
static void test_priorities(void **state)
{
	static const char *const limits[] = { "", "[limits]\npriority = batch\n", NULL };
	uint64_t method, binding, region;
	char leave[100], section[40];
	struct bystander by;
	struct e2e e;
	snprintf(leave, sizeof(leave), "[limits]\npriority = idle\n[user %u]\npriority = realtime\n",
		(unsigned)getuid());
	snprintf(section, sizeof(section), "priority = realtime' in [user %u]", (unsigned)getuid());
	for (size_t i = 0; i < ET_ARRAY_LEN(limits); i++) {
		start(&e, &by, limits[i] ? limits[i] : leave);
		struct e2e_raw *raw = e2e_raw_new(e.socket, false);
		e2e_raw_bind(raw, "double", &method, &binding, &region, NULL);
		struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
		for (int priority = INF_INTERACTIVE; priority <= INF_IDLE; priority++) {
			infer.infer.priority = (enum inf_priority)priority;
			if (priority == INF_REALTIME && limits[i])
				expect(e2e_raw_call(raw, infer), INF_PERMISSION_DENIED, section);
			else
				assert_int_equal(e2e_raw_call(raw, infer).status, INF_OK);
		}
		e2e_raw_free(raw);
		stop(&e, &by);
	}
}

/* The daemon runs out of descriptors: who is there goes on, who waits gets in when somebody leaves. */
static void test_out_of_descriptors(void **state)
{
	enum { N = 60 };
	struct e2e_raw *raw[N];
	struct bystander by;
	struct rlimit limit;
	struct e2e e;
	start(&e, &by, NULL);
	assert_int_equal(prlimit(e.pid, RLIMIT_NOFILE, NULL, &limit), 0);
	struct rlimit few = { (rlim_t)e2e_count_fds(e.pid) + 20, limit.rlim_max };
	assert_int_equal(prlimit(e.pid, RLIMIT_NOFILE, &few, NULL), 0);
	for (int i = 0; i < N; i++)
		raw[i] = e2e_raw_new(e.socket, true);
	check_bystander(&by);
	for (int i = 0; i < N - 1; i++)
		e2e_raw_free(raw[i]);
	struct inf_request hello = { .kind = INF_REQUEST_HELLO, .hello = { INF_PROTOCOL, "last" } };
	assert_int_equal(e2e_raw_call(raw[N - 1], hello).status, INF_OK);
	e2e_raw_free(raw[N - 1]);
	assert_int_equal(prlimit(e.pid, RLIMIT_NOFILE, &limit, NULL), 0);
	stop(&e, &by);
}

/* A client that asks and never reads is cut off; the others go on. */
static void test_deaf_client(void **state)
{
	struct bystander by;
	struct e2e e;
	start(&e, &by, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	struct inf_request status = { .kind = INF_REQUEST_STATUS };
	struct et_diag diag = { "" };
	size_t n_bytes;
	status.id = 7;
	assert_int_equal(inf_message_encode_request(&status, raw->packet, &n_bytes, &raw->encoder, &diag), 0);
	/* until the daemon takes no more, since its replies are not taken; it must hang up by itself */
	while (send(inf_channel_fd(&raw->channel), raw->packet, n_bytes, MSG_NOSIGNAL) > 0 || errno == EAGAIN)
		if (errno == EAGAIN)
			check_bystander(&by);
	assert_true(errno == EPIPE || errno == ECONNRESET);
	e2e_raw_free(raw);
	stop(&e, &by);
}

/* Nor does one that lets descriptors lie take those of the daemon. */
static void test_deaf_to_descriptors(void **state)
{
	struct bystander by;
	struct e2e e;
	uint64_t id = 1;
	int n_most = 0;
	start(&e, &by, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	int n_fds = e2e_count_fds(e.pid), fd = inf_channel_fd(&raw->channel);
	struct inf_request requests[2] = {
		{ .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } },
		{ .kind = INF_REQUEST_REGION_UNREGISTER, .region_unregister = { "", 0 } },
	};
	for (bool is_there = true; is_there;) {
		struct et_diag diag = { "" };
		size_t n_bytes;
		struct inf_request *request = &requests[id % 2];
		request->id = id++;
		assert_int_equal(inf_message_encode_request(request, raw->packet, &n_bytes, &raw->encoder, &diag), 0);
		while (send(fd, raw->packet, n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && is_there) {
			is_there = errno == EAGAIN;
			assert_true(is_there || errno == EPIPE || errno == ECONNRESET);
			check_bystander(&by);
			int n = e2e_count_fds(e.pid);
			n_most = n > n_most ? n : n_most;
		}
	}
	/* those in the queue, the region's own, and what answers the bystander */
	if (n_most > n_fds + INF_CHANNEL_MAX_WAITING_FDS + 4)
		fail_msg("%d descriptors instead of %d", n_most, n_fds);
	e2e_raw_free(raw);
	stop(&e, &by);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tensors),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_packets),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_many_indexes),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_limits_in_passing),
		cmocka_unit_test(test_states_are_charged),
		cmocka_unit_test(test_own_programs_are_charged),
		cmocka_unit_test(test_runs_are_charged),
		cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_out_of_descriptors),
		cmocka_unit_test(test_deaf_client),
		cmocka_unit_test(test_deaf_to_descriptors),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
