/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the XNNPACK delegate: run programs that are nothing but delegate calls, straight through the
 * delegate's table, without the runtime's Plan and Method. Every tensor has memory of its own that ends at the last
 * byte of a page; the page behind is readable, the one behind that is not. */
#ifndef DELEGATES_XNNPACK_SUPPORT_TEST_RUN_H
#define DELEGATES_XNNPACK_SUPPORT_TEST_RUN_H

#include "delegates/direct/direct.h"
#include "delegates/xnnpack/delegate.h"
#include "runtime/program/bundle.h"

enum { TEST_MAX_DELEGATES = 256 };

/* A program with its payloads compiled. */
struct test_model {
	struct et_source source;
	struct et_pool pool; /* of the bundle */
	struct et_bundle bundle;
	struct et_program *program;
	const struct et_method_spec *method;
	struct et_backend_entry entry; /* not the model's */
	struct et_model *model[TEST_MAX_DELEGATES];
	struct et_model_info infos[TEST_MAX_DELEGATES];
};

/* Answers as open and compile do; ET_E_NOT_IMPLEMENTED: more than delegate calls. Nothing to close on failure. */
enum et_status test_model_open(struct test_model *ret_model, const char *path, const char *method,
	const struct et_backend_entry *entry, const struct et_allocator *allocator, struct et_diag *diag);
/* The same for an open file. @source, which may have a store, is consumed, also on failure. @external may be NULL. */
enum et_status test_model_open_source(struct test_model *ret_model, const struct et_source *source,
	const struct et_external_data *external, const char *method, const struct et_backend_entry *entry,
	const struct et_allocator *allocator, struct et_diag *diag);
void test_model_close(struct test_model *model);

/* Instances and tensors to run it with. */
struct test_instance {
	struct test_model *model;
	struct et_instance *instances[TEST_MAX_DELEGATES];
	struct et_evalue *values;
	struct test_memory *memory; /* one a value */
};

struct test_memory {
	void *mapping;
	size_t n_mapped;
};

/* Answers as instance_new does. The caller frees it before the model and the worker threads. */
enum et_status test_instance_new(struct test_instance *ret_instance, struct test_model *model,
	struct et_worker_threads *threads, struct et_diag *diag);
void test_instance_free(struct test_instance *instance);

/* Run one case and compare. An infinite *@ret_worst is a wrong shape or an unexpected NaN. */
enum et_status test_instance_run(struct test_instance *instance, const struct et_bundle_case *test_case, double atol,
	double rtol, double *ret_worst, bool *ret_passed, struct et_diag *diag);

#endif
