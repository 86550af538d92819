/* SPDX-License-Identifier: BSD-3-Clause */
/* A camera's memory: inputs and outputs lie in dma-bufs, the device writes and reads them between requests, and
 * nothing is copied. Needs a kernel with udmabuf (tools/kernel starts one). */
#include "tests/e2e/harness.h"
#include "tests/support/dma_buf.h"
#include "tests/support/make_program.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT = 64 };

struct camera {
	int memory, fd;
	size_t n_bytes;
	struct inferd_region *region;
};

static void camera_open(struct camera *c, struct inferd *d)
{
	c->n_bytes = 2 * (size_t)sysconf(_SC_PAGESIZE);
	c->fd = test_dma_buf(c->n_bytes, &c->memory);
	assert_true(c->fd >= 0);
	assert_int_equal(inferd_region_import(d, &c->region, c->fd, c->n_bytes), 0);
}

static void camera_close(struct camera *c)
{
	close(c->fd);
	close(c->memory);
}

/* Input and output of @model in the camera's memory. */
static struct inferd_binding *camera_bind(struct camera *c, struct inferd *d, const char *model)
{
	struct inferd_method *m;
	struct inferd_binding *b;
	assert_int_equal(inferd_method_open(d, &m, model, NULL), 0);
	struct inferd_slot in = { .region = c->region }, out = { .region = c->region, .offset = OUTPUT };
	assert_int_equal(inferd_bind_slots(m, &b, &in, &out), 0);
	return b;
}

/* The device fills the input, and finds the output. */
static float camera_infer(struct camera *c, struct inferd_binding *b, float x)
{
	float in[4] = { x, x, x, x }, out[4];
	assert_int_equal(pwrite(c->memory, in, sizeof in, 0), sizeof in);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_int_equal(pread(c->memory, out, sizeof out, OUTPUT), sizeof out);
	for (int i = 1; i < 4; i++)
		assert_true(out[i] == out[0]);
	return out[0];
}

static bool copied_nothing(const struct inf_server_status *status, const void *arg)
{
	assert_int_equal(status->copied_bytes, 0);
	return true;
}

static void test_infers(void **state)
{
	struct e2e e;
	struct camera c;
	struct inferd_region *region;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	camera_open(&c, d);
	assert_int_equal(inferd_region_import(d, &region, c.fd, c.n_bytes + 1), -INFERD_INVALID_ARGUMENT);
	struct inferd_binding *b = camera_bind(&c, d, "double");
	assert_int_equal(inferd_n_copied(b), 0);
	for (int i = 0; i < 50; i++)
		assert_true(camera_infer(&c, b, (float)i) == 2 * (float)i);
	/* what the application sees is what the device wrote */
	assert_true(((const float *)inferd_output(b, 0))[0] == 98);
	e2e_until(&e, copied_nothing, NULL);
	inferd_unbind(b);
	inferd_region_free(c.region);
	inferd_close(d);
	camera_close(&c);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* The client dies while requests over its device's memory are under way. */
static void test_dies(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "forever.pte", e2e_program_forever);
	e2e_start(&e, NULL);
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct camera c;
			struct inferd *d = e2e_connect(&e);
			camera_open(&c, d);
			struct inferd_binding *b = camera_bind(&c, d, "forever");
			inferd_infer(b, NULL);
			_exit(1); /* it never ends */
		}
		e2e_until_jobs(&e, 1, 0);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		e2e_until_clients(&e, 0);
		e2e_until_jobs(&e, 0, 0);
	}
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* The same memory goes on to a plug-in's process: mapped, and as a buffer that the plug-in imports. */
static void test_plugin(void **state)
{
	struct e2e e;
	struct camera c;
	e2e_init(&e);
	e2e_put_word(&e, "scale");
	e2e_put_word(&e, "buffer");
	e2e_start_plugin(&e, "buffers", "");
	struct inferd *d = e2e_connect(&e);
	camera_open(&c, d);
	struct inferd_binding *mapped = camera_bind(&c, d, "scale"), *imported = camera_bind(&c, d, "buffer");
	for (int i = 0; i < 20; i++) {
		assert_true(camera_infer(&c, mapped, (float)i) == 2 * (float)i);
		assert_true(camera_infer(&c, imported, (float)-i) == 2 * (float)-i);
	}
	e2e_until(&e, copied_nothing, NULL);
	inferd_close(d);
	camera_close(&c);
	e2e_until_clients(&e, 0);
	assert_int_equal(e2e_unload(&e, "scale"), INF_OK);
	assert_int_equal(e2e_unload(&e, "buffer"), INF_OK);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A device that still writes is waited for, but not for ever: the request ends with the reason, or at its deadline, and
 * the next finds what the device wrote. */
static void test_waits(void **state)
{
	struct e2e e;
	struct test_device device;
	struct camera c = { .n_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	if (!test_device_open(&device, c.n_bytes)) {
		print_message("SKIPPED: vgem: %s\n", strerror(errno));
		skip();
	}
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	assert_int_equal(inferd_region_import(d, &c.region, device.dma_buf, c.n_bytes), 0);
	struct inferd_binding *b = camera_bind(&c, d, "double");
	struct inferd_request_options hurried = { .struct_size = sizeof hurried, .timeout_us = 20000 };
	float *in = inferd_input(b, 0), *out = inferd_output(b, 0);
	for (int i = 1; i < 4; i++) {
		test_device_begin(&device);
		assert_int_equal(inferd_infer(b, NULL), -INFERD_FAILED_PRECONDITION);
		assert_non_null(strstr(inferd_error(d), "still works on a dma-buf"));
		assert_int_equal(inferd_infer(b, &hurried), -INFERD_MISSED_DEADLINE);
		in[0] = (float)i;
		test_device_end(&device);
		assert_int_equal(inferd_infer(b, NULL), 0);
		assert_true(out[0] == 2 * (float)i);
	}
	inferd_close(d);
	test_device_close(&device);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_infers),
		cmocka_unit_test(test_dies),
		cmocka_unit_test(test_plugin),
		cmocka_unit_test(test_waits),
	};
	int memory, fd = test_dma_buf((size_t)sysconf(_SC_PAGESIZE), &memory);
	if (fd < 0) {
		printf("SKIPPED: /dev/udmabuf: %s (tools/test --with kernel has one)\n", strerror(errno));
		return 77;
	}
	close(fd);
	close(memory);
	return e2e_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
