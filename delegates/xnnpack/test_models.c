/* SPDX-License-Identifier: BSD-3-Clause */
/* Exported programs, compared with the results of ExecuTorch's own runtime.
 *
 *     test_models [--atol A] [--rtol R] FILE...
 *
 * Only programs that consist of calls of this delegate are run; others are counted as skipped. */
#include "delegates/xnnpack/support/test_run.h"

#include "runtime/platform/platform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	int n_passed, n_failed, n_skipped;
} total;

static void run_file(const struct et_backend_entry *entry, struct et_worker_threads *threads, const char *path,
	double atol, double rtol)
{
	struct et_diag diag = { 0 };
	struct test_model model;
	struct test_instance instance;
	enum et_status status = test_model_open(&model, path, "forward", entry, et_platform_allocator(), &diag);
	if (status != ET_OK) {
		bool is_skipped = status == ET_E_NOT_IMPLEMENTED || status == ET_E_NOT_FOUND;
		printf("%s: %s: %s: %s\n", is_skipped ? "SKIP" : "FAIL", path, et_status_text(status), diag.text);
		*(is_skipped ? &total.n_skipped : &total.n_failed) += 1;
		return;
	}
	status = test_instance_new(&instance, &model, threads, &diag);
	bool passed = status == ET_OK;
	double worst_of_all = 0;
	for (uint32_t s = 0; s < model.bundle.n_suites && status == ET_OK; s++) {
		const struct et_bundle_suite *suite = &model.bundle.suites[s];
		for (uint32_t c = 0; c < suite->n_cases && status == ET_OK; c++) {
			double worst = 0;
			bool case_passed = false;
			status = test_instance_run(&instance, &suite->cases[c], atol, rtol, &worst, &case_passed,
				&diag);
			worst_of_all = worst > worst_of_all ? worst : worst_of_all;
			passed = passed && case_passed && status == ET_OK;
		}
	}
	if (!passed)
		printf("FAIL: %s: %s %s (largest error %g)\n", path, et_status_text(status), diag.text, worst_of_all);
	*(passed ? &total.n_passed : &total.n_failed) += 1;
	test_instance_free(&instance);
	test_model_close(&model);
}

int main(int argc, char **argv)
{
	double atol = 1e-4, rtol = 1e-3;
	int first = 1;
	for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2)
		*(strcmp(argv[first], "--atol") == 0 ? &atol : &rtol) = strtod(argv[first + 1], NULL);

	for (int i = first; i < argc; i++) {
		if (access(argv[i], R_OK) != 0) {
			fprintf(stderr, "SKIPPED: %s is not there\n", argv[i]);
			return 77;
		}
	}
	struct et_diag diag = { 0 };
	struct et_backend_entry entry;
	struct et_worker_threads *threads = NULL;
	if (et_direct_open(&entry, &et_xnnpack_delegate, NULL, et_platform_allocator(), NULL, &diag) != ET_OK ||
		entry.ops->threads_new(entry.backend, 0, 2, &threads, &diag) != ET_OK) {
		fprintf(stderr, "%s\n", diag.text);
		return 1;
	}
	for (int i = first; i < argc; i++)
		run_file(&entry, threads, argv[i], atol, rtol);
	entry.ops->threads_free(threads);
	entry.ops->close(entry.backend);
	printf("%d passed, %d failed, %d skipped\n", total.n_passed, total.n_failed, total.n_skipped);
	return total.n_failed ? 1 : total.n_passed ? 0 : 77;
}
