/* SPDX-License-Identifier: BSD-3-Clause */
/* Sentences for a client that gets no model.
 *
 * Each sentence names the model and what there is instead. Names that the client may not see are left out. */
#include "daemon/base/text.h"
#include "daemon/model/repository_internal.h"
#include "runtime/platform/platform.h"

#include <string.h>
#include <unistd.h>

enum inf_status inf_open_failure_status(const struct inf_open_state *state)
{
	const uint32_t *n = state->n_failures;
	if (state->last_failure == INF_LOAD_FAILURE_NO_MEMORY)
		return INF_RESOURCE_EXHAUSTED;
	if (n[INF_LOAD_FAILURE_DOWN] || (n[INF_LOAD_FAILURE_CRASHED] && state->is_uploaded))
		return INF_BACKEND_CRASHED; /* a file of the repository that crashes its backend is at fault itself */
	if (n[INF_LOAD_FAILURE_MISSING] && !n[INF_LOAD_FAILURE_BROKEN] && !n[INF_LOAD_FAILURE_CRASHED] &&
		!n[INF_LOAD_FAILURE_NO_MEMORY])
		return INF_UNIMPLEMENTED;
	return INF_FAILED_PRECONDITION;
}

void inf_open_warn(const struct inf_open_state *state, const char *error)
{
	if (inf_log_quota_take(state->open->log_quota, INF_LOG_OPENS, et_platform_now_ns(NULL)))
		et_logf(state->repository->o.log, ET_LOG_WARNING, "%s", error);
}

void inf_open_refuse_method(struct inf_open_state *state, const struct et_program *program)
{
	size_t n = 0;
	char names[200] = "", error[400];
	for (uint32_t i = 0; i < et_program_n_methods(program) && n < sizeof(names); i++)
		n += inf_text(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
			et_program_method_at(program, i)->name);
	inf_text(error, sizeof(error), "model '%s' has no method '%s'; it has: %s", state->model,
		state->method[0] ? state->method : "forward", names);
	inf_open_finish(state, INF_NOT_FOUND, error, NULL);
}

bool inf_open_may_see(const struct inf_open *open, const char *model)
{
	return !open->may_open || open->may_open(open, model);
}

void inf_open_refuse_absent(void *arg, int rc, const struct inf_variants *models, size_t n)
{
	struct inf_open_state *state = arg;
	char names[400] = "", error[1000];
	const char *last = NULL;
	size_t n_names = 0;
	const struct inf_variants *ignored = NULL;
	bool is_other_version = false;
	for (size_t i = 0; i < n && n_names < sizeof(names); i++) {
		if (!inf_open_may_see(state->open, models[i].model))
			continue;
		if (models[i].ignored && strcmp(models[i].model, state->model) == 0 && !ignored)
			ignored = &models[i];
		if (!models[i].n)
			continue;
		if (strcmp(models[i].model, state->model) == 0) {
			is_other_version = true;
			n_names = 0;
			names[0] = '\0';
			for (size_t j = i;
				j < n && n_names < sizeof(names) && strcmp(models[j].model, state->model) == 0; j++)
				n_names += inf_text(names + n_names, sizeof(names) - n_names, "%s%s",
					n_names ? ", " : "", models[j].version);
			break;
		}
		if (!last || strcmp(models[i].model, last))
			n_names += inf_text(names + n_names, sizeof(names) - n_names, "%s%s", n_names ? ", " : "",
				models[i].model);
		last = models[i].model;
	}
	if (is_other_version)
		inf_text(error, sizeof(error), "model '%s' has no version '%s'%s; there are: %s", state->model,
			state->version[0] ? state->version : state->pin,
			state->version[0] ? "" : ", which 'version' in inferd.conf or its model.conf asks for", names);
	else if (ignored)
		inf_text(error, sizeof(error), "model '%s' has no program%s%s: %s", state->model,
			ignored->version[0] ? " in folder " : "", ignored->version, ignored->ignored);
	else if (inf_is_scarcity(rc))
		inf_text(error, sizeof(error), "the models' folder can't be read now: %s", strerror(-rc));
	else if (rc < 0)
		inf_text(error, sizeof(error), "no model '%s'; the models' folder can't be read: %s", state->model,
			strerror(-rc));
	else
		inf_text(error, sizeof(error), "no model '%s'; available models: %s", state->model,
			n_names ? names : "none");
	inf_open_finish(state, inf_is_scarcity(rc) ? INF_RESOURCE_EXHAUSTED : INF_NOT_FOUND, error, NULL);
}

void inf_open_refuse_denied(struct inf_open_state *state)
{
	char error[INF_CONFIG_PATH_MAX + 600];
	inf_text(error, sizeof(error), "model '%s' can't be loaded: %s: Permission denied to user %lu", state->model,
		state->variants.denied, (unsigned long)geteuid());
	inf_open_warn(state, error);
	inf_open_finish(state, INF_FAILED_PRECONDITION, error, NULL);
}

/* The sentence depends on the configuration alone. What the folder holds, whether the model is loaded, and who may open
 * it stays unknown to those who may not. */
void inf_open_refuse_client(struct inf_open_state *state)
{
	char error[700];
	inf_text(error, sizeof(error),
		"you may not open model '%s'; ask the administrator: 'users' and 'groups' of [model %s] in inferd.conf "
		"say who may",
		state->model, state->model);
	inf_open_finish(state, INF_PERMISSION_DENIED, error, NULL);
}
