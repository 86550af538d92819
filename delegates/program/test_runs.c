/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of a run besides its end: it is cancelled or abandoned, it is profiled, its state is reset or shared,
 * its model goes while others run, its caller breaks the rules. Expected outputs are the runtime's own. */
#include "delegates/program/test_rig.h"

#include "runtime/platform/platform.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const struct inferd_delegate *const table = &et_program_engine;
static struct rig rig;
static struct inferd_delegate_message message = { .struct_size = sizeof message };
static uint64_t next_number = 1;

static struct inferd_delegate_worker_threads *new_threads(uint32_t n)
{
	struct inferd_delegate_worker_threads *threads = NULL;
	assert_int_equal(table->threads_new(rig.self, 0, n, &threads, &message), INFERD_DELEGATE_OK);
	return threads;
}

static struct inferd_delegate_run run_of(struct rig_args *args, struct inferd_delegate_worker_threads *threads)
{
	return (struct inferd_delegate_run){ .struct_size = sizeof(struct inferd_delegate_run),
		.n_args = args->n_args,
		.args = args->pointers,
		.threads = threads };
}

/* A method of a file for the engine and for the runtime. */
struct subject {
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct et_plan *plan;
};

/* False: it can't run here. */
static bool subject_open(struct subject *s, const struct rig_file *file, struct et_program *program, const char *method,
	uint64_t number)
{
	struct inferd_delegate_payload payload = rig_payload(file, method, number);
	struct et_diag diag = { "" };
	*s = (struct subject){ .info = { .struct_size = sizeof s->info } };
	if (table->init(rig.self, &payload, &s->model, &s->info, &message))
		return false;
	assert_int_equal(et_plan_new(&s->plan, program, method, rig_registry(), NULL, 1, et_platform_allocator(),
				 &diag),
		ET_OK);
	return true;
}

static void subject_close(struct subject *s)
{
	table->destroy(s->model);
	et_plan_unref(s->plan);
}

static struct inferd_delegate_instance *new_instance(const struct subject *s)
{
	struct inferd_delegate_instance *instance = NULL;
	assert_int_equal(table->instance_new(s->model, &instance, &message), INFERD_DELEGATE_OK);
	return instance;
}

/* --- runs that end early ------------------------------------------------------------------------------------------ */

static unsigned n_interrupted, n_lost, n_rolled_back;

/* Begin a run, let it end early, and check that the next one gives what it gives without the first. */
static void interrupt(const struct subject *s, struct rig_reference *r, struct rig_args *args,
	struct inferd_delegate_instance *instance, struct inferd_delegate_worker_threads *threads, bool is_cancelled)
{
	struct inferd_delegate_run run = run_of(args, threads);
	bool is_lost = (s->info.flags & INFERD_DELEGATE_STATEFUL) && !(s->info.flags & INFERD_DELEGATE_REPEATABLE);
	rig_args_fill(args, 7);
	rig_args_clear(args);
	run.slice_ns = 1;
	if (table->execute(s->model, instance, &run, &message) != INFERD_DELEGATE_UNFINISHED)
		return;
	run.flags = INFERD_DELEGATE_CONTINUES;
	if (is_cancelled) {
		table->cancel(s->model, instance);
		assert_int_equal(table->execute(s->model, instance, &run, &message), INFERD_DELEGATE_E_CANCELLED);
	} else {
		table->abandon(s->model, instance);
		assert_int_equal(table->execute(s->model, instance, &run, &message), INFERD_DELEGATE_E_ARGUMENT);
	}
	n_interrupted++;
	run.flags = 0;
	run.slice_ns = 0;
	if (is_lost) {
		/* small state that is shared is rolled back, but the engine does not promise it */
		bool says_so = table->execute(s->model, instance, &run, &message) != INFERD_DELEGATE_OK;
		assert_true(!says_so || strstr(message.text, "reset the method"));
		assert_true(says_so || (s->info.flags & INFERD_DELEGATE_SHARES_STATE));
		assert_int_equal(table->instance_reset(instance, &message), INFERD_DELEGATE_OK);
		et_method_reset(r->method);
		n_lost += says_so;
	} else {
		n_rolled_back += !!(s->info.flags & INFERD_DELEGATE_STATEFUL);
	}
	rig_args_fill(args, 8);
	rig_args_clear(args);
	enum et_status status = rig_reference_run(r, args);
	assert_int_equal(!table->execute(s->model, instance, &run, &message), status == ET_OK);
	assert_true(status != ET_OK || rig_args_equal(args));
}

static void interrupt_method(const struct rig_file *file, struct et_program *program, const char *method)
{
	struct rig_reference r;
	struct rig_args args;
	struct subject s;
	if (!subject_open(&s, file, program, method, next_number++))
		return;
	struct inferd_delegate_worker_threads *threads = new_threads(1);
	struct inferd_delegate_instance *instance = new_instance(&s);
	struct inferd_delegate_run run;
	rig_reference_init(&r, s.plan, NULL);
	rig_args_init(&args, et_plan_info(s.plan));
	/* a state that differs from that of a new instance */
	rig_args_fill(&args, 1);
	rig_args_clear(&args);
	run = run_of(&args, threads);
	enum et_status status = rig_reference_run(&r, &args);
	assert_int_equal(!table->execute(s.model, instance, &run, &message), status == ET_OK);
	if (status == ET_OK) {
		interrupt(&s, &r, &args, instance, threads, true);
		interrupt(&s, &r, &args, instance, threads, false);
	}
	/* a run that waits to go on ends with its instance */
	run.slice_ns = 1;
	table->execute(s.model, instance, &run, &message);
	table->instance_free(instance);
	rig_args_deinit(&args);
	rig_reference_deinit(&r);
	subject_close(&s);
	table->threads_free(threads);
}

static void interrupt_file(const struct rig_file *file)
{
	struct et_program *program = NULL;
	if (rig_program(file, &program) != ET_OK)
		return;
	for (uint32_t i = 0; i < et_program_n_methods(program); i++)
		interrupt_method(file, program, et_program_method_at(program, i)->name);
	et_program_unref(program);
}

static void test_early_ends(void **state)
{
	rig_open(&rig, NULL);
	rig_for_all(interrupt_file);
	print_message("%u runs ended early; state: lost and reset in %u, rolled back in %u\n", n_interrupted, n_lost,
		n_rolled_back);
	assert_true(n_interrupted > 20 && n_rolled_back > 0);
	rig_close(&rig);
	rig_close_registry();
}

/* --- state that instances share ----------------------------------------------------------------------------------- */

/* Two methods of one program, which both engine models open under one number. */
static void test_shared_state(void **state)
{
	struct rig_file file;
	struct et_program *program = NULL;
	struct subject s[8];
	struct rig_reference r[8];
	struct inferd_delegate_instance *instances[8];
	struct rig_args args[8];
	uint32_t n = 0;
	rig_open(&rig, NULL);
	struct inferd_delegate_worker_threads *threads = new_threads(1);
	assert_true(rig_file_open(&file, TEST_MODELS "/small/shared_caches.bpte", SIZE_MAX));
	assert_int_equal(rig_program(&file, &program), ET_OK);
	for (uint32_t i = 0; i < et_program_n_methods(program) && n < 8; i++) {
		assert_true(subject_open(&s[n], &file, program, et_program_method_at(program, i)->name, 77));
		if (s[n].info.flags & INFERD_DELEGATE_SHARES_STATE)
			n++;
		else
			subject_close(&s[n]);
	}
	assert_true(n >= 2);
	for (uint32_t i = 0; i < n; i++) {
		rig_reference_init(&r[i], s[i].plan, i ? &r[0] : NULL);
		rig_args_init(&args[i], et_plan_info(s[i].plan));
		if (i)
			assert_int_equal(table->instance_with(s[i].model, instances[0], &instances[i], &message),
				INFERD_DELEGATE_OK);
		else
			instances[0] = new_instance(&s[0]);
	}
	rig_file_close(&file); /* the program has mappings of its own */
	for (unsigned seed = 0; seed < 12; seed++) {
		uint32_t i = seed % n;
		struct inferd_delegate_run run = run_of(&args[i], threads);
		rig_args_fill(&args[i], seed);
		rig_args_clear(&args[i]);
		assert_int_equal(rig_reference_run(&r[i], &args[i]), ET_OK);
		assert_int_equal(table->execute(s[i].model, instances[i], &run, &message), INFERD_DELEGATE_OK);
		assert_true(rig_args_equal(&args[i]));
		if (seed == 5) {
			assert_int_equal(table->instance_reset(instances[n - 1], &message), INFERD_DELEGATE_OK);
			et_method_reset(r[n - 1].method);
		}
	}
	/* the instance that has the state is freed last, the model of the program's first opening is destroyed first */
	for (uint32_t i = n; i-- > 0;)
		table->instance_free(instances[i]);
	for (uint32_t i = n; i-- > 0;) {
		rig_args_deinit(&args[i]);
		rig_reference_deinit(&r[i]);
	}
	for (uint32_t i = 0; i < n; i++)
		subject_close(&s[i]);
	table->threads_free(threads);
	et_program_unref(program);
	rig_close(&rig);
	rig_close_registry();
}

/* --- one model ---------------------------------------------------------------------------------------------------- */

/* A model with worker threads, an instance and arguments. */
struct bench {
	struct rig_file file;
	struct et_program *program;
	struct subject s;
	struct inferd_delegate_worker_threads *threads;
	struct inferd_delegate_instance *instance;
	struct rig_args args;
	struct inferd_delegate_run run;
};

static void bench_open(struct bench *b, const char *path)
{
	assert_true(rig_file_open(&b->file, path, SIZE_MAX));
	assert_int_equal(rig_program(&b->file, &b->program), ET_OK);
	const char *method = et_program_find_method(b->program, NULL)->name;
	assert_true(subject_open(&b->s, &b->file, b->program, method, next_number++));
	b->threads = new_threads(1);
	b->instance = new_instance(&b->s);
	rig_args_init(&b->args, et_plan_info(b->s.plan));
	rig_args_fill(&b->args, 1);
	rig_args_clear(&b->args);
	b->run = run_of(&b->args, b->threads);
}

static void bench_close(struct bench *b)
{
	table->instance_free(b->instance);
	rig_args_deinit(&b->args);
	subject_close(&b->s);
	table->threads_free(b->threads);
	et_program_unref(b->program);
	rig_file_close(&b->file);
}

struct events {
	unsigned n, n_kernels, n_parts;
	uint64_t ns;
};

static void on_event(void *self, const char *name, uint64_t ns)
{
	struct events *events = self;
	events->n++;
	events->n_kernels += strstr(name, "::") != NULL;
	events->n_parts += strstr(name, "::") == NULL;
	events->ns += ns;
}

/* Each kernel and each operator of a delegate is reported, also if the run goes in slices. */
static void test_profile(void **state)
{
	static const char *const paths[] = { TEST_MODELS "/small/decoder.bpte",
		TEST_MODELS "/xnnpack/conv2d_channels.bpte" };
	rig_open(&rig, NULL);
	for (int i = 0; i < 2; i++) {
		struct bench b;
		struct events whole = { 0 }, sliced = { 0 };
		bench_open(&b, paths[i]);
		b.run.flags = INFERD_DELEGATE_PROFILE;
		b.run.event = on_event;
		b.run.self = &whole;
		assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_OK);
		assert_true(whole.n > 0 && whole.ns > 0);
		assert_true(i ? whole.n_parts > 0 : whole.n_kernels > 0);
		b.run.self = &sliced;
		b.run.slice_ns = 1;
		rig_args_clear(&b.args);
		int result = table->execute(b.s.model, b.instance, &b.run, &message);
		while (result == INFERD_DELEGATE_UNFINISHED) {
			b.run.flags = INFERD_DELEGATE_PROFILE | INFERD_DELEGATE_CONTINUES;
			result = table->execute(b.s.model, b.instance, &b.run, &message);
		}
		assert_int_equal(result, INFERD_DELEGATE_OK);
		assert_int_equal(whole.n, sliced.n);
		bench_close(&b);
	}
	rig_close(&rig);
	rig_close_registry();
}

/* A caller that breaks the rules gets an error, and the run that it disturbs is not harmed more than necessary. */
static void test_misuse(void **state)
{
	static const char *const one[] = { "workers", "1", NULL };
	struct inferd_delegate_worker_threads *threads = NULL;
	struct bench b;
	rig_open(&rig, one);
	bench_open(&b, TEST_MODELS "/small/decoder.bpte");
	/* more worker threads than the option says, or none */
	assert_int_equal(table->threads_new(rig.self, 0, 1, &threads, &message), INFERD_DELEGATE_E_LIMIT);
	assert_int_equal(table->threads_new(rig.self, 1, 1, &threads, &message), INFERD_DELEGATE_E_ARGUMENT);
	assert_int_equal(table->threads_new(rig.self, 0, 0, &threads, &message), INFERD_DELEGATE_E_ARGUMENT);
	/* a run without worker threads, without an instance, with too few arguments, with other types */
	struct inferd_delegate_run run = b.run;
	run.threads = NULL;
	assert_int_equal(table->execute(b.s.model, b.instance, &run, &message), INFERD_DELEGATE_E_INTERNAL);
	assert_int_equal(table->execute(b.s.model, NULL, &b.run, &message), INFERD_DELEGATE_E_INTERNAL);
	run = b.run;
	run.n_args--;
	assert_int_equal(table->execute(b.s.model, b.instance, &run, &message), INFERD_DELEGATE_E_ARGUMENT);
	b.args.args[0].kind = INFERD_DELEGATE_DOUBLE;
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_E_ARGUMENT);
	b.args.args[0].kind = INFERD_DELEGATE_TENSOR;
	b.args.args[0].type ^= 1;
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_E_ARGUMENT);
	b.args.args[0].type ^= 1;
	b.args.args[0].n_bytes++;
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_E_ARGUMENT);
	b.args.args[0].n_bytes--;
	/* going on when nothing waits, beginning when something waits, going on with other memory */
	b.run.flags = INFERD_DELEGATE_CONTINUES;
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_E_ARGUMENT);
	b.run.flags = 0;
	b.run.slice_ns = 1;
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_UNFINISHED);
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_E_ARGUMENT);
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_UNFINISHED);
	b.run.flags = INFERD_DELEGATE_CONTINUES;
	void *data = b.args.args[0].data;
	b.args.args[0].data = (uint8_t *)data + 8;
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_E_ARGUMENT);
	b.args.args[0].data = data;
	table->abandon(b.s.model, b.instance);
	/* a cancel that comes too early or too late is no harm */
	table->cancel(b.s.model, b.instance);
	b.run.flags = 0;
	b.run.slice_ns = 0;
	assert_int_equal(table->execute(b.s.model, b.instance, &b.run, &message), INFERD_DELEGATE_OK);
	bench_close(&b);
	rig_close(&rig);
	rig_close_registry();
}

/* --- many at a time ----------------------------------------------------------------------------------------------- */

/* Threads that share three sets of worker threads, each run on one that is free; models come and go meanwhile. */
enum { N_SETS = 3, N_THREADS = 4, N_ROUNDS = 12 };
static struct inferd_delegate_worker_threads *sets[N_SETS];
static pthread_mutex_t set_locks[N_SETS];
static const char *const crowd_paths[] = { TEST_MODELS "/small/decoder.bpte",
	TEST_MODELS "/xnnpack/conv2d_channels.bpte", TEST_MODELS "/xnnpack/linear_feature_sizes.bpte",
	TEST_MODELS "/small/gelu_xnnpack.bpte" };

/* The outputs of the runtime, made before the threads begin. */
struct crowd {
	pthread_t thread;
	struct rig_file file;
	struct et_program *program;
	struct et_plan *plan;
	struct rig_args args;
	unsigned n_wrong, number;
};

static int take_set(unsigned from)
{
	for (unsigned i = from;; i++)
		if (pthread_mutex_trylock(&set_locks[i % N_SETS]) == 0)
			return (int)(i % N_SETS);
}

static int run_on_any(struct crowd *c, struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	unsigned round)
{
	struct inferd_delegate_message own = { .struct_size = sizeof own };
	struct inferd_delegate_run run = run_of(&c->args, NULL);
	int result = INFERD_DELEGATE_UNFINISHED;
	for (unsigned i = 0; result == INFERD_DELEGATE_UNFINISHED; i++) {
		int set = take_set(round + i);
		run.threads = sets[set];
		run.slice_ns = 1000;
		run.flags = i ? INFERD_DELEGATE_CONTINUES : 0;
		result = table->execute(model, instance, &run, &own);
		pthread_mutex_unlock(&set_locks[set]);
	}
	return result;
}

static void *crowd_thread(void *arg)
{
	struct crowd *c = arg;
	struct inferd_delegate_message own = { .struct_size = sizeof own };
	for (unsigned round = 0; round < N_ROUNDS; round++) {
		struct inferd_delegate_payload payload = rig_payload(&c->file, "forward", 1000 + c->number);
		struct inferd_delegate_model_info info = { .struct_size = sizeof info };
		struct inferd_delegate_model *model = NULL;
		struct inferd_delegate_instance *instance = NULL;
		if (table->init(rig.self, &payload, &model, &info, &own) ||
			table->instance_new(model, &instance, &own)) {
			c->n_wrong++;
			continue;
		}
		rig_args_clear(&c->args);
		c->n_wrong += run_on_any(c, model, instance, round) || !rig_args_equal(&c->args);
		table->instance_free(instance);
		table->destroy(model); /* while other threads run on the same worker threads */
	}
	return NULL;
}

static void test_crowd(void **state)
{
	static struct crowd crowd[N_THREADS];
	rig_open(&rig, NULL);
	for (int i = 0; i < N_SETS; i++) {
		pthread_mutex_init(&set_locks[i], NULL);
		sets[i] = new_threads(i == 0 ? 2 : 1);
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		struct crowd *c = &crowd[i];
		struct rig_reference r;
		struct et_diag diag = { "" };
		c->number = i;
		assert_true(rig_file_open(&c->file, crowd_paths[i], SIZE_MAX));
		assert_int_equal(rig_program(&c->file, &c->program), ET_OK);
		assert_int_equal(et_plan_new(&c->plan, c->program, "forward", rig_registry(), NULL, 1,
					 et_platform_allocator(), &diag),
			ET_OK);
		rig_args_init(&c->args, et_plan_info(c->plan));
		rig_args_fill(&c->args, i);
		rig_reference_init(&r, c->plan, NULL);
		assert_int_equal(rig_reference_run(&r, &c->args), ET_OK);
		rig_reference_deinit(&r);
	}
	for (unsigned i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&crowd[i].thread, NULL, crowd_thread, &crowd[i]), 0);
	for (unsigned i = 0; i < N_THREADS; i++) {
		struct crowd *c = &crowd[i];
		pthread_join(c->thread, NULL);
		assert_int_equal(c->n_wrong, 0);
		rig_args_deinit(&c->args);
		et_plan_unref(c->plan);
		et_program_unref(c->program);
		rig_file_close(&c->file);
	}
	for (int i = 0; i < N_SETS; i++)
		table->threads_free(sets[i]);
	rig_close(&rig);
	rig_close_registry();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_early_ends),
		cmocka_unit_test(test_shared_state),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_crowd),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
