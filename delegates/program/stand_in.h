/* SPDX-License-Identifier: BSD-3-Clause */
/* Stand-in: a small program file that takes a client's program's place in the daemon.
 *
 * It has the same methods, inputs and outputs, and each method is one call of the delegate InferdProgram: first all
 * inputs, then all outputs, that are tensors, numbers or None. Lists and strings are values without an argument; lists
 * are empty, and a string keeps its text unless the program may put another one there (then it is None). Every input
 * and output is a value of its own, also where the program has one value in two places.
 *
 * The process that runs the client's program writes it (stand_in_write.h), and may be in an attacker's hands. So the
 * daemon accepts only exactly this form, which has no memory plan, no constants, no operators, and nothing outside
 * the FlatBuffer. */
#ifndef DELEGATES_PROGRAM_STAND_IN_H
#define DELEGATES_PROGRAM_STAND_IN_H

#include "runtime/program/program.h"

#define ET_STAND_IN_ID "InferdProgram"

enum {
	ET_STAND_IN_MAX_BYTES = 1 << 20,
	ET_STAND_IN_MAX_METHODS = 1024,
	ET_STAND_IN_MAX_ARGS = 256,
	ET_STAND_IN_LABEL = 64,
};

/* Whether an input or output of @tag is an argument of the call. */
bool et_stand_in_passes(uint8_t tag);

/* Whether @program, opened without external data, has exactly the form of a stand-in. */
bool et_stand_in_check(const struct et_program *program);

/* A stand-in's words about one of its methods. */
struct et_stand_in_info {
	char label[ET_STAND_IN_LABEL]; /* the delegates that the program uses: "xnnpack", "portable" */
	enum et_status status;         /* ET_OK, or why the method can't run here */
	struct et_diag refused;        /* the sentence for it */
};
/* Read it from @method of a program that passed et_stand_in_check. */
void et_stand_in_info(const struct et_method_spec *method, struct et_stand_in_info *ret_info);

#endif
