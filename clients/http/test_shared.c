/* SPDX-License-Identifier: BSD-3-Clause */
/* Test of what clients cannot time or afford: a file that shrinks right after it was copied from, and regions that
 * together reach the limit. */
#include "clients/http/json.h"
#include "clients/http/memory.h"
#include "clients/http/server.h"
#include "clients/http/shared.h"
#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static struct http_server server = { .config.shared_memory = true };
static char key[64];
static int fd = -1, shrink_to = -1; /* when a copy has been made; -1: not */

bool __real_et_platform_mapping_faulted(const struct et_platform_mapping *mapping);
bool __wrap_et_platform_mapping_faulted(const struct et_platform_mapping *mapping);
/* The linker calls it instead (--wrap): shared.c asks right after each copy. */
bool __wrap_et_platform_mapping_faulted(const struct et_platform_mapping *mapping)
{
	if (shrink_to >= 0)
		assert_int_equal(ftruncate(fd, shrink_to), 0);
	return __real_et_platform_mapping_faulted(mapping);
}

/* The answer's status. */
static unsigned register_region(struct http_connection *c, const char *name, uint64_t n_bytes)
{
	char text[200];
	int n = snprintf(text, sizeof text, "{\"key\":\"%s\",\"byte_size\":%llu}", key, (unsigned long long)n_bytes);
	struct http_request r = { .server = &server,
		.connection = c,
		.route = { .kind = HTTP_ROUTE_MEMORY_REGISTER },
		.text = { .data = text, .n_bytes = (size_t)n },
		.answer = { .max_bytes = 4096 } };
	snprintf(r.route.region, sizeof r.route.region, "%s", name);
	http_shared_answer(&r);
	http_buffer_deinit(&r.answer);
	return r.code;
}

static void test_shrinks_inside_its_last_page(void **state)
{
	struct http_connection c = { 0 };
	const struct http_place place = { .region = "a", .offset = 50, .n_bytes = 50 };
	char bytes[50], error[200];
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(register_region(&c, "a", 100), 200);
	assert_int_equal(http_shared_read(&c, &place, bytes, sizeof bytes, error, sizeof error), 0);
	shrink_to = 99;
	assert_int_equal(http_shared_read(&c, &place, bytes, sizeof bytes, error, sizeof error), 400);
	assert_non_null(strstr(error, "smaller meanwhile"));
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(http_shared_write(&c, &place, bytes, sizeof bytes, error, sizeof error), 400);
	shrink_to = -1;
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(http_shared_write(&c, &place, bytes, sizeof bytes, error, sizeof error), 0);
	http_shared_deinit();
}

static void test_limits(void **state)
{
	const uint64_t most = UINT64_C(4) << 30; /* of a client; all have four times as much */
	struct http_connection users[5];
	assert_int_equal(ftruncate(fd, (off_t)most + 1), 0);
	for (unsigned i = 0; i < 5; i++)
		users[i] = (struct http_connection){ .is_unix = true, .uid = i };
	assert_int_equal(register_region(&users[0], "a", most + 1), 400);
	if (register_region(&users[0], "a", most) == 503)
		skip(); /* not in this address space */
	assert_int_equal(register_region(&users[0], "b", 1), 429);
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(register_region(&users[i], "a", most), 200);
	assert_int_equal(register_region(&users[4], "a", 1), 429);
	http_shared_deinit();
	assert_int_equal(register_region(&users[4], "a", 1), 200);
	http_shared_deinit();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shrinks_inside_its_last_page),
		cmocka_unit_test(test_limits),
	};
	http_memory_init(1 << 20);
	snprintf(key, sizeof key, "/inferd-test-shared-%d", (int)getpid());
	fd = shm_open(key, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return 1;
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	shm_unlink(key);
	return rc;
}
