/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenCL plug-in in one process: its table, models made of graphs' texts, runs of them. */
#ifndef TESTS_OPENCL_RIG_H
#define TESTS_OPENCL_RIG_H

#include "delegates/inferd-delegate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RIG_MAX_ARGS = 8, RIG_MAX_BYTES = 32768 };

struct rig {
	void *module;
	const struct inferd_delegate *table;
	struct inferd_delegate_pair pairs[8];
	const struct inferd_delegate_pair *options[8];
	struct inferd_delegate_host host;
	struct inferd_delegate_message message;
	void *self;
};

/* Load the plug-in; options follow with rig_set, then rig_open. */
void rig_load(struct rig *rig);
void rig_set(struct rig *rig, const char *key, const char *value);
/* The result of open. */
int rig_open(struct rig *rig);
/* Set the options that choose the CPU as the device: PoCL's, or that of Mesa's rusticl if $INFERD_TEST_OPENCL is
 * "rusticl". */
void rig_set_driver(struct rig *rig);
/* Open that device. False where there is no such driver: the test is skipped then. */
bool rig_open_driver(struct rig *rig);
void rig_close(struct rig *rig);

/* A model of the graph that @text describes (delegates/graph/text.h). The result of init. */
int rig_init(struct rig *rig, const char *text, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *ret_info);

struct rig_run {
	struct inferd_delegate_arg args[RIG_MAX_ARGS];
	uint8_t bytes[RIG_MAX_ARGS][RIG_MAX_BYTES];
	uint32_t n;
	uint32_t n_parts; /* nodes that the last run with is_profiled has run */
	bool is_profiled;
};
/* Append an argument: "f32[2, 3]{1, 2, 3, 4, 5, 6}" is an input, "f32[2, 3]" an output. Types: f32 f16 i64 i32 i8 u8
 * bool. */
void rig_arg(struct rig_run *run, const char *text);
int rig_execute(struct rig *rig, struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	struct rig_run *run);
/* Element @i of argument @arg. */
double rig_element(const struct rig_run *run, uint32_t arg, uint32_t i);
/* Fail unless argument @arg is what @text says, as for rig_arg, within a thousandth. */
void rig_expect(const struct rig_run *run, uint32_t arg, const char *text, const char *what);

#endif
