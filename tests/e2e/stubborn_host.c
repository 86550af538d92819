/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-program-host as an attacker would have it: it crashes over a file that is no program, does not cancel a run
 * that has begun, and a run that does not end within its first time slice never ends. All else is as in the real
 * one. */
#include "delegates/plugin/host/serve.h"
#include "delegates/plugin/wire.h"
#include "delegates/program/engine.h"
#include "runtime/platform/platform.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static int describe(void *self, const struct inferd_delegate_payload *payload, uint8_t **ret_bytes, size_t *ret_n_bytes,
	struct inferd_delegate_message *message)
{
	if (et_program_describe(self, payload, ret_bytes, ret_n_bytes, message) != INFERD_DELEGATE_OK)
		abort();
	return INFERD_DELEGATE_OK;
}

static int execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	int result = et_program_engine.execute(model, instance, run, message);
	while (result == INFERD_DELEGATE_UNFINISHED)
		sched_yield();
	return result;
}

static void cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
}

int main(void)
{
	struct inferd_delegate engine = et_program_engine;
	engine.execute = execute;
	engine.cancel = cancel;
	et_platform_install_sigbus_guard();
	et_program_warm();
	const struct et_serve_options options = {
		.calls = ET_PLUGIN_CALLS_FD,
		.asks = ET_PLUGIN_ASKS_FD,
		.is_process = true,
		.table = &engine,
		.describe = describe,
		.is_strict = true,
	};
	_exit(et_plugin_serve(&options) < 0);
}
