/* SPDX-License-Identifier: BSD-3-Clause */
/* The direct adapter with the delegate of test_rig.c: every way in which a run can end, cancels at every moment,
 * what the delegate is given, and tables that must be refused. */
#include "delegates/direct/test_rig.h"

#include "runtime/platform/platform.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* --- tests ---------------------------------------------------------------------------------------------------- */

static void test_runs(void **state)
{
	static const char *const words[] = { "double", "inside", "thread" };
	struct inferd_delegate synchronous = rig_delegate;
	synchronous.submit = NULL;
	for (size_t i = 0; i < 4; i++) {
		struct subject s;
		rig_set_up(&s);
		assert_int_equal(rig_begin(&s, i ? &rig_delegate : &synchronous, words[i ? i - 1 : 0], NULL), ET_OK);
		assert_string_equal(s.entry.ops->id, "DirectBackend");
		assert_int_equal(s.entry.ops->n_devices(s.entry.backend), 2);
		assert_true(s.info.has_free_instances && s.info.device == 1 && s.info.n_inputs == 1);
		for (int k = 0; k < 20; k++) {
			s.sizes[0][0] = 1 + k % 3;
			assert_int_equal(rig_run(&s), ET_OK);
			assert_int_equal(s.sizes[1][0], s.sizes[0][0]);
			rig_expect(s.in, s.out, 2, s.sizes[0][0] * COLUMNS);
			assert_int_equal(s.entry.ops->copied_bytes(s.instance), 0);
		}
		rig_tear_down(&s);
	}
}

/* A misaligned tensor is copied to and from the stage, and the bytes are counted. */
static void test_misaligned(void **state)
{
	struct subject s;
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "thread", NULL), ET_OK);
	s.tensors[0].data = s.in + 1;
	s.tensors[1].data = s.out + 1;
	for (int k = 0; k < 3; k++) {
		s.sizes[0][0] = 1 + k;
		s.tensors[0].capacity = (size_t)s.sizes[0][0] * COLUMNS;
		s.out[0] = -1;
		assert_int_equal(rig_run(&s), ET_OK);
		rig_expect(s.in + 1, s.out + 1, 2, s.sizes[0][0] * COLUMNS);
		assert_true(s.out[0] == -1);
		assert_int_equal(s.entry.ops->copied_bytes(s.instance),
			2 * (size_t)s.sizes[0][0] * COLUMNS * sizeof(float));
	}
	rig_tear_down(&s);
}

/* A delegate that leaves the last row of its output unwritten: the row is zeros, not what an earlier run wrote to the
 * stage. */
static void test_unwritten(void **state)
{
	struct subject s;
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "stretch", NULL), ET_OK);
	s.tensors[1].data = s.out + 1;
	for (int n_rows = 3; n_rows > 0; n_rows--) {
		s.sizes[0][0] = n_rows;
		assert_int_equal(rig_run(&s), ET_OK);
		assert_int_equal(s.sizes[1][0], n_rows + 1);
		rig_expect(s.in, s.out + 1, 2, n_rows * COLUMNS);
		for (int i = 0; i < COLUMNS; i++)
			assert_true(s.out[1 + n_rows * COLUMNS + i] == 0);
	}
	rig_tear_down(&s);
}

static void test_failures(void **state)
{
	struct subject s;
	struct et_evalue number = { .tag = ET_TAG_INT }, list = { .tag = ET_TAG_INT_LIST };
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "stretch", NULL), ET_OK);
	s.tensors[1].dynamism = ET_STATIC;
	assert_int_equal(rig_run(&s), ET_E_INTERNAL);
	assert_string_equal(s.reason, "the delegate gave output 0 the sizes [3,4], which the program does not allow");
	s.tensors[1].dynamism = ET_DYNAMIC_BOUND;
	assert_int_equal(rig_run(&s), ET_OK);
	s.args[0] = &number;
	assert_int_equal(rig_run(&s), ET_E_INVALID_ARGUMENT);
	assert_string_equal(s.reason, "that is no tensor");
	s.args[0] = &list;
	assert_int_equal(rig_run(&s), ET_E_NOT_SUPPORTED);
	s.args[0] = &s.values[0];
	assert_int_equal(rig_run(&s), ET_OK);
	rig_tear_down(&s);
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "refuse", NULL), ET_OK);
	for (int k = 0; k < 2; k++) {
		s.diag.text[0] = '\0';
		assert_int_equal(rig_run(&s), ET_E_INTERNAL);
		assert_string_equal(s.diag.text, "the device does not want to");
	}
	rig_tear_down(&s);
}

static void test_cancel(void **state)
{
	struct subject s;
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "wait", NULL), ET_OK);
	s.entry.ops->cancel(s.instance); /* nothing runs */
	for (int k = 0; k < 10; k++) {
		assert_int_equal(rig_start(&s), ET_PENDING);
		s.entry.ops->cancel(s.instance);
		s.entry.ops->cancel(s.instance);
		assert_int_equal(rig_end(&s), ET_E_CANCELLED);
		assert_string_equal(s.reason, "somebody asked");
		s.entry.ops->cancel(s.instance); /* too late */
	}
	rig_tear_down(&s);
}

static void *start_it(void *arg)
{
	return (void *)(uintptr_t)rig_start(arg);
}

/* A cancel that comes while the run is being submitted is passed on when it has been. */
static void test_cancel_while_submitting(void **state)
{
	struct subject s;
	pthread_t thread;
	void *status;
	rig_set_up(&s);
	rig_is_at_gate = rig_is_gate_open = false;
	assert_int_equal(rig_begin(&s, &rig_delegate, "slow", NULL), ET_OK);
	assert_int_equal(pthread_create(&thread, NULL, start_it, &s), 0);
	pthread_mutex_lock(&rig_gate_lock);
	while (!rig_is_at_gate)
		pthread_cond_wait(&rig_gate_changed, &rig_gate_lock);
	pthread_mutex_unlock(&rig_gate_lock);
	s.entry.ops->cancel(s.instance);
	assert_false(s.is_done);
	pthread_mutex_lock(&rig_gate_lock);
	rig_is_gate_open = true;
	pthread_cond_broadcast(&rig_gate_changed);
	pthread_mutex_unlock(&rig_gate_lock);
	assert_int_equal(rig_end(&s), ET_E_CANCELLED);
	pthread_join(thread, &status);
	assert_int_equal((uintptr_t)status, ET_PENDING);
	rig_tear_down(&s);
}

static void test_options(void **state)
{
	static const struct et_compile_spec specs[] = { { "factor", (const uint8_t *)"3x", 1 } };
	static const struct et_option options[] = { { "direct", "factor", "5" } },
				      wrong[] = { { "direct", "size", "5" } };
	struct et_payload payload = { .specs = specs, .n_specs = 1 };
	for (uint32_t n = 0; n < 2; n++) {
		struct subject s;
		rig_set_up(&s);
		payload.options = options;
		payload.n_options = n;
		assert_int_equal(rig_begin(&s, &rig_delegate, "double", &payload), ET_OK);
		assert_int_equal(rig_run(&s), ET_OK);
		rig_expect(s.in, s.out, n ? 5 : 3, ROWS * COLUMNS);
		rig_tear_down(&s);
	}
	struct subject s;
	struct et_direct_config config = { .options = wrong, .n_options = 1 };
	rig_set_up(&s);
	assert_int_equal(et_direct_open(&s.entry, &rig_delegate, &config, &s.allocator, NULL, &s.diag),
		ET_E_INVALID_PROGRAM);
	assert_string_equal(s.diag.text, "there is no such option");
	rig_tear_down(&s);
}

static void test_probe(void **state)
{
	struct subject s;
	enum et_readiness readiness;
	struct et_payload payload = { .bytes = (const uint8_t *)"more than a word", .n_bytes = 16, .n_args = 2 };
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "double", NULL), ET_OK);
	assert_int_equal(s.entry.ops->probe(s.entry.backend, &payload, &readiness, &s.diag), ET_OK);
	assert_int_equal(readiness, ET_READINESS_NO);
	assert_string_equal(s.diag.text, "it is no word");
	payload.n_bytes = 4;
	assert_int_equal(s.entry.ops->probe(s.entry.backend, &payload, &readiness, &s.diag), ET_OK);
	assert_int_equal(readiness, ET_READINESS_READY);
	rig_tear_down(&s);
	rig_set_up(&s);
	payload.n_args = 3;
	assert_int_equal(rig_begin(&s, &rig_delegate, "double", &payload), ET_E_INVALID_PROGRAM);
	assert_string_equal(s.diag.text,
		"DirectBackend: a payload of 1 inputs and 1 outputs is called with 3 arguments");
	rig_tear_down(&s);
}

struct kept {
	char bytes[8];
	size_t n_bytes;
	int n_kept, n_found;
};

static enum et_status find_kept(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes,
	void **ret_handle)
{
	struct kept *kept = self;
	assert_string_equal(key, "made by a test");
	if (!kept->n_bytes)
		return ET_E_NOT_FOUND;
	*ret_bytes = (const uint8_t *)kept->bytes;
	*ret_n_bytes = kept->n_bytes;
	*ret_handle = kept;
	return ET_OK;
}

static void release_kept(void *self, void *handle)
{
	assert_ptr_equal(self, handle);
	((struct kept *)self)->n_found++;
}

static enum et_status keep_pieces(void *self, const char *key, const struct et_store_piece *pieces, size_t n_pieces,
	struct et_diag *diag)
{
	struct kept *kept = self;
	if (kept->n_kept++ == 0)
		return et_fail(diag, ET_E_ACCESS_FAILED, "the disk is full");
	for (size_t i = 0; i < n_pieces; i++) {
		memcpy(kept->bytes + kept->n_bytes, pieces[i].bytes, pieces[i].n_bytes);
		kept->n_bytes += pieces[i].n_bytes;
	}
	return ET_OK;
}

static void test_keep(void **state)
{
	struct kept kept = { .n_bytes = 0 };
	struct et_store store = { .self = &kept, .find = find_kept, .release = release_kept, .keep = keep_pieces };
	struct et_payload payload = { .store = &store };
	struct subject s;
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "double", &payload), ET_OK);
	assert_int_equal(s.entry.ops->keep(s.model, &s.diag), ET_E_INTERNAL);
	assert_string_equal(s.diag.text, "the disk is full");
	assert_int_equal(s.entry.ops->keep(s.model, &s.diag), ET_OK);
	assert_memory_equal(kept.bytes, "abc", 3);
	assert_int_equal(s.entry.ops->keep(s.model, &s.diag), ET_OK);
	assert_int_equal(kept.n_found, 1);
	rig_tear_down(&s);
}

static char traced[100];

static void trace_begin(void *self, uint32_t instruction)
{
	snprintf(traced + strlen(traced), sizeof traced - strlen(traced), "begin %u;", instruction);
}

static void trace_end(void *self, uint32_t instruction)
{
	snprintf(traced + strlen(traced), sizeof traced - strlen(traced), "end %u;", instruction);
}

static void trace_part(void *self, const char *name, uint64_t ns)
{
	snprintf(traced + strlen(traced), sizeof traced - strlen(traced), "%s %u;", name, (unsigned)ns);
}

static void test_profile(void **state)
{
	static const struct et_trace trace = { .begin = trace_begin, .end = trace_end, .part = trace_part };
	struct subject s;
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &rig_delegate, "thread", NULL), ET_OK);
	traced[0] = '\0';
	assert_int_equal(s.entry.ops->profile(s.instance, s.args, &trace, 7, &s.diag), ET_OK);
	assert_string_equal(traced, "begin 7;end 7;first 30;second 40;");
	rig_expect(s.in, s.out, 2, ROWS * COLUMNS);
	rig_tear_down(&s);
}

/* --- buffers -------------------------------------------------------------------------------------------------- */

struct inferd_delegate_buffer {
	struct inferd_delegate_memory copy;
};

static uint32_t n_imported, n_refused, last_device;

static int buffer_import(void *self, uint32_t index, const struct inferd_delegate_memory *memory,
	struct inferd_delegate_buffer **ret_buffer)
{
	last_device = index;
	if (memory->n_bytes > 4096) {
		n_refused++;
		return INFERD_DELEGATE_E_UNSUPPORTED;
	}
	struct inferd_delegate_buffer *buffer = calloc(1, sizeof *buffer);
	assert_non_null(buffer);
	buffer->copy = *memory;
	n_imported++;
	*ret_buffer = buffer;
	return INFERD_DELEGATE_OK;
}

static void buffer_free(struct inferd_delegate_buffer *buffer)
{
	n_imported--;
	free(buffer);
}

static const struct inferd_delegate_arg *seen;

/* Compute through the buffers, where the arguments lie in imported memory. */
static int execute_on_buffers(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	seen = run->args[1];
	for (uint32_t i = 0; i < 2; i++) {
		struct inferd_delegate_arg *arg = run->args[i];
		if (arg->buffer)
			assert_ptr_equal((char *)arg->buffer->copy.data + arg->buffer_offset, arg->data);
		assert_true(!arg->buffer || arg->fd == arg->buffer->copy.fd);
	}
	return rig_execute(model, instance, run, message);
}

static void test_buffers(void **state)
{
	struct inferd_delegate table = rig_delegate;
	_Alignas(4096) static float region[1024], large[4096], elsewhere[2 * N];
	struct subject s;
	void *handles[3];
	table.submit = NULL;
	table.execute = execute_on_buffers;
	table.buffer_import = buffer_import;
	table.buffer_free = buffer_free;
	n_refused = 0;
	rig_set_up(&s);
	assert_int_equal(rig_begin(&s, &table, "double", NULL), ET_OK);
	const struct et_delegate_ops *ops = s.entry.ops;
	assert_int_equal(ops->import_memory(s.entry.backend, 7, region, 4000, &handles[0]), ET_OK);
	assert_int_equal(ops->import_memory(s.entry.backend, 8, large, sizeof large, &handles[1]), ET_OK);
	assert_int_equal(n_imported, 0); /* until it is used */
	static const struct {
		float *at;
		int fd;
		bool has_buffer;
	} cases[] = { { region + 16, 7, true }, { region + 32, 7, true }, { large, 8, false }, { large + 64, 8, false },
		{ elsewhere, -1, false }, { region + 992, -1, false }, { region, 7, true } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		s.tensors[1].data = cases[i].at;
		assert_int_equal(rig_run(&s), ET_OK);
		rig_expect(s.in, cases[i].at, 2, ROWS * COLUMNS);
		assert_int_equal(seen->fd, cases[i].fd);
		assert_true(!seen->buffer == !cases[i].has_buffer);
		assert_int_equal(last_device, 1);
	}
	assert_int_equal(n_imported, 1);
	assert_int_equal(n_refused, 1);
	ops->release_memory(s.entry.backend, handles[0]);
	assert_int_equal(n_imported, 0);
	assert_int_equal(rig_run(&s), ET_OK);
	assert_int_equal(seen->fd, -1);
	/* many, in no order */
	void *many[40];
	for (int i = 0; i < 40; i++)
		assert_int_equal(ops->import_memory(s.entry.backend, i, region + i * 7 % 40 * 16, 64, &many[i]), ET_OK);
	s.sizes[0][0] = 1;
	for (int i = 0; i < 40; i++) {
		s.tensors[1].data = region + i * 7 % 40 * 16;
		s.tensors[1].capacity = N;
		assert_int_equal(rig_run(&s), ET_OK);
		assert_int_equal(seen->fd, i);
	}
	for (int i = 0; i < 40; i++)
		ops->release_memory(s.entry.backend, many[i]);
	ops->release_memory(s.entry.backend, handles[1]);
	assert_int_equal(n_imported, 0);
	rig_tear_down(&s);
}

/* The memory nearest below a tensor may belong to another client, and be released while the run searches for its own.
 * Sanitizers would see an access to it. */
static float below[2 * N];
static _Atomic(bool) has_gone;
static _Atomic(unsigned) n_runs;

static void *come_and_go(void *arg)
{
	struct subject *s = arg;
	enum et_status status = ET_OK;
	for (int i = 0; i < 500 && !status; i++) {
		void *handle;
		status = s->entry.ops->import_memory(s->entry.backend, 9, below, sizeof below / 2, &handle);
		/* until a run has looked; relaxed, so that it orders nothing */
		unsigned before = atomic_load_explicit(&n_runs, memory_order_relaxed);
		while (atomic_load_explicit(&n_runs, memory_order_relaxed) - before < 2)
			sched_yield();
		if (!status)
			s->entry.ops->release_memory(s->entry.backend, handle);
	}
	s->status = status;
	atomic_store(&has_gone, true);
	return NULL;
}

static void test_neighbours(void **state)
{
	struct inferd_delegate table = rig_delegate;
	struct subject s;
	pthread_t other;
	table.submit = NULL;
	table.execute = execute_on_buffers;
	table.buffer_import = buffer_import;
	table.buffer_free = buffer_free;
	rig_set_up(&s);
	s.allocator = *et_platform_allocator(); /* the counting one is for one thread */
	assert_int_equal(rig_begin(&s, &table, "double", NULL), ET_OK);
	s.tensors[1].data = below + N;
	atomic_store(&has_gone, false);
	assert_int_equal(pthread_create(&other, NULL, come_and_go, &s), 0);
	do {
		assert_int_equal(rig_run(&s), ET_OK);
		assert_int_equal(seen->fd, -1);
		atomic_fetch_add_explicit(&n_runs, 1, memory_order_relaxed);
	} while (!atomic_load(&has_gone));
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(s.status, ET_OK);
	rig_expect(s.in, below + N, 2, ROWS * COLUMNS);
	rig_tear_down(&s);
}

static void some_loop(struct inferd_delegate_worker_threads *threads, void (*fn)(void *arg, size_t begin, size_t end),
	void *arg, size_t n, size_t grain)
{
}

static int some_kernel(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
	struct inferd_delegate_message *message)
{
	return INFERD_DELEGATE_OK;
}

/* Tables that only a host process can serve, or that lack a required function, are refused. */
static void test_tables(void **state)
{
	static const struct inferd_delegate_kernel kernel = {
		.struct_size = sizeof kernel, .name = "a::b", .signature = "T>T", .run = some_kernel
	};
	static const struct inferd_delegate_kernel *const kernels[] = { &kernel };
	for (int i = 0; i < 7; i++) {
		struct inferd_delegate table = rig_delegate;
		const char *part = "";
		struct subject s;
		rig_set_up(&s);
		if (i == 0) {
			table.flags = INFERD_DELEGATE_ONE_THREAD;
			part = "wants all calls on one thread";
		} else if (i == 1) {
			table.kernels = kernels;
			table.n_kernels = 1;
			part = "brings operators of its own";
		} else if (i == 2) {
			table.instance_new = NULL;
			table.instance_free = NULL;
			table.cancel = NULL;
			part = "has no instances";
		} else if (i == 3) {
			table.major = 2;
			part = "made for version 2.2";
		} else if (i == 4) {
			table.threads_parallel_for = some_loop;
			part = "threads_parallel_for";
		} else if (i == 5) {
			table.struct_size = 16;
			part = "its table has 16 bytes";
		} else {
			table.init = NULL;
			part = "lacks one of open";
		}
		assert_int_not_equal(rig_begin(&s, &table, "double", NULL), ET_OK);
		if (!strstr(s.diag.text, part))
			fail_msg("'%s' is not in: %s", part, s.diag.text);
		rig_tear_down(&s);
	}
	/* a table of 1.0 ends where 1.0 ended: members behind that are not used */
	struct inferd_delegate old = rig_delegate;
	struct subject s;
	rig_set_up(&s);
	old.minor = 0;
	old.struct_size = offsetof(struct inferd_delegate, threads_new);
	assert_int_equal(rig_begin(&s, &old, "double", NULL), ET_OK);
	assert_null(s.entry.ops->keep);
	assert_int_equal(rig_run(&s), ET_OK);
	rig_tear_down(&s);
}

/* --- worker threads ----------------------------------------------------------------------------------------- */

static int some_threads(void *self, uint32_t device, uint32_t n_threads,
	struct inferd_delegate_worker_threads **ret_threads, struct inferd_delegate_message *message)
{
	*ret_threads = NULL;
	return INFERD_DELEGATE_OK;
}

static void no_threads(struct inferd_delegate_worker_threads *threads)
{
}

static int instance_on_threads(struct inferd_delegate_model *model, struct inferd_delegate_worker_threads *threads,
	struct inferd_delegate_instance **ret_instance, struct inferd_delegate_message *message)
{
	return rig_delegate.instance_new(model, ret_instance, message);
}

static uint32_t model_flags;

static int init_on_threads(void *self, const struct inferd_delegate_payload *payload,
	struct inferd_delegate_model **ret_model, struct inferd_delegate_model_info *ret_info,
	struct inferd_delegate_message *message)
{
	int result = rig_delegate.init(self, payload, ret_model, ret_info, message);
	ret_info->device = 0;
	ret_info->flags = model_flags;
	return result;
}

static int reset_nothing(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	return INFERD_DELEGATE_OK;
}

/* Worker threads free what they hold on their own thread; so a model that is STATEFUL and ON_THREADS is refused. */
static void test_state_on_worker_threads(void **state)
{
	struct inferd_delegate table = rig_delegate;
	table.submit = NULL;
	table.init = init_on_threads;
	table.threads_new = some_threads;
	table.threads_free = no_threads;
	table.threads_parallel_for = some_loop;
	table.instance_on_threads = instance_on_threads;
	table.instance_reset = reset_nothing;
	for (int i = 0; i < 3; i++) {
		struct subject s;
		rig_set_up(&s);
		model_flags = (i < 2 ? INFERD_DELEGATE_ON_THREADS : 0) | (i ? INFERD_DELEGATE_STATEFUL : 0);
		assert_int_equal(rig_begin(&s, &table, "double", NULL), i == 1 ? ET_E_NOT_SUPPORTED : ET_OK);
		if (i == 1)
			assert_non_null(strstr(s.diag.text, "STATEFUL and ON_THREADS"));
		else
			assert_int_equal(rig_run(&s), ET_OK);
		rig_tear_down(&s);
	}
}

/* The nth allocation fails, for every n: the caller gets a status and a sentence, and no memory is lost. */
static void test_out_of_memory(void **state)
{
	static const struct et_option options[] = { { "direct", "factor", "2" } };
	struct et_payload payload = { .options = options, .n_options = 1 };
	enum et_status status = ET_E_INTERNAL;
	for (size_t n = 1; status != ET_OK; n++) {
		struct subject s;
		assert_true(n < 100);
		rig_set_up(&s);
		s.tensors[0].data = s.in + 1;
		s.counting.fail_at = n;
		status = rig_begin(&s, &rig_delegate, "double", &payload);
		if (!status)
			status = rig_run(&s);
		assert_true(status == ET_OK || status == ET_E_MEMORY_ALLOCATION_FAILED ||
			    status == ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED);
		assert_true(status == ET_OK || s.diag.text[0]);
		rig_tear_down(&s);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_misaligned),
		cmocka_unit_test(test_unwritten),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_cancel_while_submitting),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_buffers),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_state_on_worker_threads),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
