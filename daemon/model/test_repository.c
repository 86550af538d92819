/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository under many requests, and requests with much memory: all is done, and the loop is never kept long. */
#include "daemon/model/repository_internal.h"

#include "config/config.h"
#include "daemon/queue/queues.h"
#include "daemon/model/model.h"
#include "daemon/queue/stuck.h"
#include "runtime/platform/platform.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_QUESTIONS = 100 };

struct world {
	struct inf_config config;
	struct et_registry registry;
	struct inf_queues queues;
	struct inf_stuck_workers stuck;
	struct et_log log;
	struct inf_helper *helper;
	struct inf_repository *repository;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_wanted; /* a poll */
	int n_answers, order[N_QUESTIONS];
};

static void notify(void *self)
{
	struct world *w = self;
	pthread_mutex_lock(&w->lock);
	w->is_wanted = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void poll_when_wanted(struct world *w)
{
	pthread_mutex_lock(&w->lock);
	while (!w->is_wanted)
		pthread_cond_wait(&w->changed, &w->lock);
	w->is_wanted = false;
	pthread_mutex_unlock(&w->lock);
	inf_repository_poll(w->repository);
}

static void begin(struct world *w, const char *folder)
{
	*w = (struct world){ .log = et_platform_log(ET_LOG_ERROR) };
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	inf_config_init(&w->config);
	snprintf(w->config.models, sizeof(w->config.models), "%s", folder);
	inf_stuck_init(&w->stuck);
	assert_int_equal(inf_helper_new(&w->helper, notify, w), 0);
	const struct inf_repository_options options = { .config = &w->config,
		.registry = &w->registry,
		.shared_pages = et_platform_page_allocator(),
		.queues = &w->queues,
		.stuck = &w->stuck,
		.helper = w->helper,
		.log = &w->log,
		.notify = notify,
		.self = w };
	assert_int_equal(inf_repository_new(&w->repository, &options), 0);
}

static void end(struct world *w)
{
	assert_true(inf_repository_is_idle(w->repository));
	inf_helper_free(w->helper);
	inf_repository_free(w->repository);
	inf_stuck_deinit(&w->stuck);
	inf_config_deinit(&w->config);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
}

static struct world w;

static void answered(void *arg, int rc, const struct inf_variants *models, size_t n_models)
{
	assert_int_equal(rc, 0);
	assert_int_equal(n_models, 0);
	w.order[w.n_answers++] = *(int *)arg;
}

/* A scan that answers many callers lets the loop handle other events in between; each caller is answered once, in
 * order. */
static void test_many_questions(void **state)
{
	char folder[] = "/tmp/test_repository.XXXXXX";
	int numbers[N_QUESTIONS];
	assert_non_null(mkdtemp(folder));
	begin(&w, folder);
	for (int i = 0; i < N_QUESTIONS; i++) {
		numbers[i] = i;
		inf_repository_scan(w.repository, answered, &numbers[i]);
	}
	while (w.n_answers < N_QUESTIONS) {
		int n_before = w.n_answers;
		assert_false(inf_repository_is_idle(w.repository));
		poll_when_wanted(&w);
		assert_true(w.n_answers - n_before <= INF_REPOSITORY_ANSWERS);
	}
	for (int i = 0; i < N_QUESTIONS; i++)
		assert_int_equal(w.order[i], i);
	end(&w);
	rmdir(folder);
}

static int n_gone;

static void gone(void *arg)
{
	n_gone++;
}

static void unloaded(void *arg, const char *held)
{
	assert_null(held);
}

static void let_regions_go(int n, size_t n_bytes)
{
	for (int i = 0; i < n; i++) {
		struct inf_region *region;
		assert_int_equal(inf_region_create(&region, n_bytes, et_platform_allocator()), 0);
		memset(region->mapping.bytes, 1, n_bytes);
		inf_repository_release_async_region(w.repository, region, gone, NULL);
	}
}

/* The loop frees a little memory itself, but not more of it in small pieces than a limit. */
static void test_many_regions(void **state)
{
	enum { N = 100, N_BYTES = 256 << 10 };
	begin(&w, "/");
	n_gone = 0;
	let_regions_go(1, N_BYTES);
	assert_int_equal(n_gone, 1);
	let_regions_go(N, N_BYTES);
	assert_true(n_gone < 8);
	while (n_gone < 1 + N)
		poll_when_wanted(&w);
	inf_repository_poll(w.repository);
	let_regions_go(1, N_BYTES);
	assert_int_equal(n_gone, 2 + N);
	end(&w);
}

static uint32_t n_looked_up;

/* The linker puts this in place of et_kernel_table_find (meson.build). */
const struct et_kernel *__wrap_et_kernel_table_find(const struct et_kernel_table *table, const char *name);
const struct et_kernel *__real_et_kernel_table_find(const struct et_kernel_table *table, const char *name);
const struct et_kernel *__wrap_et_kernel_table_find(const struct et_kernel_table *table, const char *name)
{
	n_looked_up++;
	return __real_et_kernel_table_find(table, name);
}

static struct inf_model *loaded(struct et_program *program, uint32_t method, bool is_uploaded)
{
	struct inf_model *s = inf_model_new(&w.queues, &w.repository->events, et_platform_page_allocator(), &w.log, "m",
		"1", et_program_method_at(program, method)->name);
	assert_non_null(s);
	inf_model_set_state(s, INF_MODEL_READY);
	s->backend = strdup("portable");
	s->path = strdup("m.pte");
	s->is_uploaded = is_uploaded;
	s->program = et_program_ref(program);
	et_list_append(&w.repository->models, &s->node);
	return s;
}

static struct inf_model *opened;

static void note_opened(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	assert_int_equal(status, INF_OK);
	opened = model;
}

/* How many operators are looked up while the second method of a loaded program is opened. */
static uint32_t open_beside(struct et_program *program, bool is_uploaded)
{
	begin(&w, "/");
	w.registry = (struct et_registry){ .tables = et_kernel_tables, .n_tables = et_n_kernel_tables };
	struct inf_model *first = loaded(program, 0, is_uploaded), *second = loaded(program, 1, is_uploaded);
	struct inf_open open = { .model = "m",
		.version = "1",
		.method = second->method,
		.backend = "",
		.fd = -1,
		.beside = first,
		.done = note_opened };
	n_looked_up = 0;
	opened = NULL;
	inf_repository_open(w.repository, &open);
	uint32_t n = n_looked_up;
	assert_ptr_equal(opened, second);
	inf_model_unref(first);
	inf_model_unref(second);
	while (!inf_repository_is_idle(w.repository))
		poll_when_wanted(&w);
	end(&w);
	return n;
}

/* Opening a method of a program of the folder looks up the operators of its other methods, for the diagnostics. An
 * uploaded program may have millions of operators, which would block the loop: none are looked up. */
static void test_another_method(void **state)
{
	struct et_source source;
	struct et_program *program;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_source_open(&source, TWO_METHODS, NULL, NULL, &diag), ET_OK);
	assert_int_equal(et_program_open(&program, &source, NULL, et_platform_allocator(), &diag), ET_OK);
	assert_true(et_program_method_at(program, 0)->n_operators > 0);
	assert_int_equal(open_beside(program, true), 0);
	assert_true(open_beside(program, false) > 0);
	et_program_unref(program);
}

/* --- copying a large file --------------------------------------------------------------------------- */

enum { N_PIECES = 3, PIECE = 16 << 20 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_held; /* pieces wait */
	int n;        /* pieces begun */
} pieces = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0 };

/* The linker puts this in place of copy_file_range (meson.build): a slow disk, for whole pieces. */
ssize_t __real_copy_file_range(int from, off_t *in, int to, off_t *out, size_t n, unsigned flags);
ssize_t __wrap_copy_file_range(int from, off_t *in, int to, off_t *out, size_t n, unsigned flags);
ssize_t __wrap_copy_file_range(int from, off_t *in, int to, off_t *out, size_t n, unsigned flags)
{
	if (n != PIECE)
		return __real_copy_file_range(from, in, to, out, n, flags);
	pthread_mutex_lock(&pieces.lock);
	pieces.n++;
	pthread_cond_broadcast(&pieces.changed);
	while (pieces.is_held)
		pthread_cond_wait(&pieces.changed, &pieces.lock);
	pthread_mutex_unlock(&pieces.lock);
	*in += PIECE;
	*out += PIECE;
	return PIECE;
}

static void put_file(const char *path, size_t n_bytes)
{
	uint8_t *bytes = malloc(n_bytes);
	FILE *file = fopen(path, "wbe");
	assert_true(bytes && file);
	memset(bytes, 1, n_bytes);
	assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
	assert_int_equal(fclose(file), 0);
	free(bytes);
}

struct answer {
	struct inf_open open;
	enum inf_status status;
	bool is_there;
};

static void note_answer(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct answer *answer = (struct answer *)open; /* its first member */
	answer->status = status;
	answer->is_there = true;
}

static void open_model(struct answer *answer, const char *model)
{
	*answer = (struct answer){
		.open = { .model = model, .version = "", .method = "", .backend = "", .fd = -1, .done = note_answer }
	};
	inf_repository_open(w.repository, &answer->open);
}

static void wait_for(const struct answer *answer)
{
	while (!answer->is_there)
		poll_when_wanted(&w);
}

/* While a large file is copied, another model of the same user is inspected. When nobody waits for the copy any more,
 * because the open was cancelled, its model was unloaded, or the daemon stops, it ends before the next piece. */
static void test_large_file(void **state)
{
	static const enum inf_status expected[] = { INF_FAILED_PRECONDITION, INF_CANCELLED, INF_UNAVAILABLE,
		INF_UNAVAILABLE };
	char folder[] = "/tmp/test_repository.XXXXXX", large[64], small[64];
	struct answer first, second, other;
	assert_non_null(mkdtemp(folder));
	snprintf(large, sizeof(large), "%s/large.pte", folder);
	snprintf(small, sizeof(small), "%s/small.pte", folder);
	put_file(large, N_PIECES * PIECE);
	put_file(small, 100);
	for (int how = 0; how < 4; how++) {
		begin(&w, folder);
		w.config.cache[0] = '\0';
		pieces.is_held = true;
		pieces.n = 0;
		open_model(&first, "large");
		open_model(&second, "large");
		pthread_mutex_lock(&pieces.lock);
		while (!pieces.n)
			pthread_cond_wait(&pieces.changed, &pieces.lock);
		pthread_mutex_unlock(&pieces.lock);
		open_model(&other, "small");
		wait_for(&other);
		assert_int_equal(other.status, INF_FAILED_PRECONDITION); /* it is no program */
		assert_false(first.is_there);
		if (how == 1) {
			inf_repository_cancel(w.repository, &first.open);
			inf_repository_cancel(w.repository, &second.open);
		} else if (how == 2) {
			assert_true(inf_repository_unload(w.repository, "large", unloaded, NULL));
		} else if (how == 3) {
			inf_repository_unload_all(w.repository);
		}
		pthread_mutex_lock(&pieces.lock);
		assert_int_equal(pieces.n, 1); /* the second open waits for the first one's copy */
		pieces.is_held = false;
		pthread_cond_broadcast(&pieces.changed);
		pthread_mutex_unlock(&pieces.lock);
		wait_for(&first);
		wait_for(&second);
		assert_int_equal(first.status, expected[how]);
		assert_int_equal(second.status, expected[how]);
		assert_int_equal(pieces.n, how ? 1 : 2 * N_PIECES);
		while (!inf_repository_is_idle(w.repository))
			poll_when_wanted(&w);
		end(&w);
	}
	unlink(large);
	unlink(small);
	rmdir(folder);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_questions),
		cmocka_unit_test(test_many_regions),
		cmocka_unit_test(test_another_method),
		cmocka_unit_test(test_large_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
