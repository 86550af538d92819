/* SPDX-License-Identifier: BSD-3-Clause */
/* For the engine's tests: files as a host process maps them, the engine opened through its table, and arguments for its
 * runs, which the same inputs are given to the runtime directly. */
#ifndef DELEGATES_PROGRAM_TEST_RIG_H
#define DELEGATES_PROGRAM_TEST_RIG_H

#include "delegates/program/engine.h"
#include "delegates/program/stand_in.h"
#include "runtime/method.h"

#include <stdlib.h>

enum { RIG_MAX_FILES = 400, RIG_MAX_DATA = 4, RIG_MAX_ARGS = 256 };

/* A file, mapped as a host process maps a payload. */
struct rig_file {
	char path[400];
	uint8_t *bytes;
	size_t n_bytes, n_mapped;
	/* data files, in the order in which they are searched */
	const struct rig_file *data[RIG_MAX_DATA];
	uint32_t n_data;
};
/* False: the file is not there, or longer than @max_bytes. */
bool rig_file_open(struct rig_file *file, const char *path, size_t max_bytes);
void rig_file_close(struct rig_file *file);
/* Call @fn for all program files of the tests' models, with their data files; and, if they are there, for those beside
 * the checkout. */
void rig_for_all(void (*fn)(const struct rig_file *file));

/* The same for those of the tests' models that are small. */
void rig_for_small(void (*fn)(const struct rig_file *file));

/* A host's log function that writes nothing. */
void rig_ignore_log(void *self, int level, const char *text);

/* The engine, opened. @options: "key", "value", ..., NULL. */
struct rig {
	void *self;
	struct inferd_delegate_host host;
};
void rig_open(struct rig *rig, const char *const *options);
void rig_close(struct rig *rig);
struct inferd_delegate_payload rig_payload(const struct rig_file *file, const char *method, uint64_t program);

/* The same backends and kernels for all; made by the first, closed by rig_close_registry. */
const struct et_registry *rig_registry(void);
void rig_close_registry(void);
enum et_status rig_program(const struct rig_file *file, struct et_program **ret_program);

/* Inputs and outputs of one method, twice: for the runtime and for the engine. */
struct rig_args {
	const struct et_plan_info *info;
	struct et_io inputs[RIG_MAX_ARGS], outputs[RIG_MAX_ARGS];
	struct inferd_delegate_arg args[RIG_MAX_ARGS];
	struct inferd_delegate_arg *pointers[RIG_MAX_ARGS];
	uint32_t n_args, n_inputs;
};
/* False: they take more than @max_bytes. */
bool rig_args_try(struct rig_args *args, const struct et_plan_info *info, size_t max_bytes);
void rig_args_init(struct rig_args *args, const struct et_plan_info *info);
/* Fill the inputs with values that depend on @seed. */
void rig_args_fill(struct rig_args *args, unsigned seed);
/* Put the engine's outputs into the state in which a run gets them, with other bytes than any result. */
void rig_args_clear(struct rig_args *args);
/* Whether the engine's outputs are bit for bit the runtime's. */
bool rig_args_equal(const struct rig_args *args);
void rig_args_deinit(struct rig_args *args);

/* A Method of the runtime, and all that it needs to run. @with: NULL, or one whose state it shares. */
struct rig_reference {
	struct et_plan *plan;
	struct et_method *method;
	struct et_frame *frame;
	struct et_pool scratch;
	struct et_worker_threads *sets[8];
};
void rig_reference_init(struct rig_reference *r, struct et_plan *plan, const struct rig_reference *with);
void rig_reference_deinit(struct rig_reference *r);
enum et_status rig_reference_run(struct rig_reference *r, struct rig_args *args);

#endif
