/* SPDX-License-Identifier: BSD-3-Clause */
/* Describing a client's program to the daemon: open it, write its stand-in, and forget it again. Nothing is compiled,
 * so this is quick; what a delegate thinks of its payloads shows when a method is made ready. The program is shared
 * with models that exist already, if the daemon gives it the same number. */
#include "delegates/program/engine.h"
#include "delegates/program/engine_internal.h"
#include "delegates/program/stand_in_write.h"

#include "delegates/convert.h"

int et_program_describe(void *self, const struct inferd_delegate_payload *payload, uint8_t **ret_bytes,
	size_t *ret_n_bytes, struct inferd_delegate_message *message)
{
	struct engine *engine = self;
	struct et_diag diag = { "" };
	struct program *program;
	enum et_status status = et_engine_program_get(engine, payload, &program, &diag);
	if (status == ET_OK) {
		status = et_stand_in_write(program->program, &engine->registry, ret_bytes, ret_n_bytes, &diag);
		et_engine_program_put(engine, program);
	}
	return et_engine_answer(status, &diag, message);
}
