/* SPDX-License-Identifier: BSD-3-Clause */
/* One user at a limit and another one beside it: the refusal comes at once and names the limit and the user, and the
 * other user's requests succeed at the same time. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534, PATIENCE = 500 };

/* A connection of that user's: who somebody is, is who he was when he connected. */
static struct e2e_raw *connect_as_nobody(struct e2e *e, bool is_silent)
{
	assert_int_equal(seteuid(NOBODY), 0);
	struct e2e_raw *raw = e2e_raw_new(e->socket, is_silent);
	assert_int_equal(seteuid(0), 0);
	return raw;
}

struct nobody {
	struct e2e *e;
	struct e2e_raw *raw;
	uint64_t method, binding, region;
};

/* Each asks once more; false with the refusal in @ret, which is valid until the next call. */
static bool ask(struct nobody *n, struct inf_request request, struct inf_reply *ret)
{
	*ret = e2e_raw_call(n->raw, request);
	return ret->status == INF_OK;
}

static bool more_connections(struct nobody *n, struct inf_reply *ret)
{
	static struct e2e_raw *last; /* its packet holds the text; it is the first one too many */
	e2e_raw_free(last);
	last = connect_as_nobody(n->e, true);
	assert_true(e2e_raw_receive(last, ret));
	return ret->status == INF_OK;
}

static bool more_methods(struct nobody *n, struct inf_reply *ret)
{
	return ask(n,
		(struct inf_request){ .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "double", "", "", "", false } },
		ret);
}

static bool more_regions(struct nobody *n, struct inf_reply *ret)
{
	return ask(n, (struct inf_request){ .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } }, ret);
}

static bool more_bindings(struct nobody *n, struct inf_reply *ret)
{
	struct inf_slot in = { .region = n->region }, out = { .region = n->region, .offset = 64 };
	bool is_bound = ask(n, (struct inf_request){ .kind = INF_REQUEST_BIND, .bind = { n->method, 1, &in, 1, &out } },
		ret);
	if (is_bound)
		n->binding = ret->bound.binding;
	return is_bound;
}

/* Two of the endless one, each on its own binding: the second is answered. */
static bool more_requests(struct nobody *n, struct inf_reply *ret)
{
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = n->binding } };
	e2e_raw_send(n->raw, &infer, -1);
	e2e_until_jobs(n->e, 1, 0);
	assert_true(more_bindings(n, ret));
	infer.infer.binding = n->binding;
	return ask(n, infer, ret);
}

/* Several at once; what is not there is looked for. */
static bool more_opens(struct nobody *n, struct inf_reply *ret)
{
	enum { N = 12 };
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "nowhere", "", "", "", false } };
	static char text[INF_MAX_TEXT + 1];
	struct inf_reply reply;
	bool is_refused = false;
	for (int i = 0; i < N; i++)
		e2e_raw_send(n->raw, &open, -1);
	for (int i = 0; i < N; i++) {
		assert_true(e2e_raw_receive(n->raw, &reply));
		if (reply.status == INF_NOT_FOUND)
			continue;
		is_refused = true;
		*ret = reply;
		snprintf(text, sizeof(text), "%s", reply.error);
		ret->error = text;
	}
	return !is_refused;
}

/* Everything that there is a limit for. */
static void do_all(struct e2e *e)
{
	uint64_t method, binding, region;
	float *floats;
	struct e2e_raw *raw = e2e_raw_new(e->socket, false);
	e2e_raw_bind(raw, "double", &method, &binding, &region, &floats);
	for (int i = 0; i < 4; i++)
		floats[i] = (float)i;
	struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
	assert_int_equal(e2e_raw_call(raw, infer).status, INF_OK);
	assert_true(floats[16 + 3] == 6);
	e2e_raw_free(raw);
}

static void test_limits(void **state)
{
	static const struct {
		const char *name, *value, *model; /* that he has open */
		bool (*more)(struct nobody *n, struct inf_reply *ret);
	} rows[] = {
		{ "connections", "1", "double", more_connections },
		{ "methods", "3", "double", more_methods },
		{ "regions", "3", "double", more_regions },
		{ "bindings", "3", "double", more_bindings },
		{ "fds", "4", "double", more_regions },
		{ "bytes", "64K", "double", more_regions },
		{ "requests", "1", "forever", more_requests },
		{ "opens", "1", "double", more_opens },
	};
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		char config[64], wanted[64];
		struct inf_reply reply;
		struct e2e e;
		e2e_init(&e);
		assert_int_equal(chmod(e.dir, 0755), 0);
		e2e_put_program(&e, "double.pte", e2e_program_double);
		e2e_put_program(&e, "forever.pte", e2e_program_forever);
		snprintf(config, sizeof(config), "[user %d]\n%s = %s\n", NOBODY, rows[i].name, rows[i].value);
		snprintf(wanted, sizeof(wanted), "the limit '%s' of user %d is reached", rows[i].name, NOBODY);
		e2e_start(&e, config);
		struct nobody n = { .e = &e, .raw = connect_as_nobody(&e, false) };
		e2e_raw_bind(n.raw, rows[i].model, &n.method, &n.binding, &n.region, NULL);
		int k = 0;
		while (rows[i].more(&n, &reply) && k < PATIENCE)
			k++;
		if (k == PATIENCE || reply.status != INF_RESOURCE_EXHAUSTED || !strstr(reply.error, wanted))
			fail_msg("%s: '%s'", rows[i].name, k == PATIENCE ? "" : reply.error);
		for (int round = 0; round < 3; round++)
			do_all(&e);
		e2e_raw_free(n.raw);
		e2e_until_clients(&e, 0);
		/* and what was given back is there again */
		n = (struct nobody){ .e = &e, .raw = connect_as_nobody(&e, false) };
		e2e_raw_bind(n.raw, rows[i].model, &n.method, &n.binding, &n.region, NULL);
		e2e_raw_free(n.raw);
		e2e_check_clean(&e);
		e2e_deinit(&e);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
