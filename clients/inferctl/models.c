/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl models, why, load, unload, restart: the daemon's model repository and its backends.
 *
 * All of it comes from the daemon. inferctl never reads the repository's folder, which may belong to another user or
 * be on another mount. load, unload and restart use the manager socket; models and why use the daemon's socket. */
#include "clients/inferctl/ask.h"
#include "clients/inferctl/ctl.h"

#include <string.h>

int ctl_ask_index(const struct ctl *ctl, struct ctl_ask **ret_ask, struct inf_reply *ret_reply)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	int rc = ctl_ask_once(ctl, false, &request, ret_ask, ret_reply);
	if (rc == CTL_OK && ret_reply->kind != INF_REPLY_REPOSITORY_INDEX) {
		ctl_ask_close(*ret_ask);
		rc = ctl_fail("the daemon's reply is not a list of models");
	}
	return rc;
}

static json_t *model_json(const struct inf_model_index *model)
{
	json_t *files = json_array();
	for (size_t i = 0; i < model->n_files; i++)
		json_array_append_new(files, json_string(model->files[i]));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:b, s:s, s:s, s:s, s:s}", "name", model->name, "version",
		model->version, "state", model->state, "reason", model->reason, "backend", model->backend,
		"memory_bytes", (json_int_t)model->memory_bytes, "files", files, "serves", model->serves, "file",
		model->file, "digest", model->digest, "note", model->note, "passed_over", model->passed_over);
}

static const char *state_colour(const struct ctl *ctl, const char *state)
{
	return strcmp(state, "READY") == 0 ? ctl_green(ctl) : strcmp(state, "FAILED") == 0 ? ctl_red(ctl) : "";
}

static void print_sentence(const struct ctl *ctl, const struct inf_model_index *model, const char *colour,
	const char *sentence)
{
	if (sentence[0])
		printf("%s%s%s%s%s: %s\n", colour, ctl_safe(model->name), model->version[0] ? "/" : "",
			ctl_safe(model->version), ctl_plain(ctl), ctl_safe(sentence));
}

/* The files of a version; the one that is loaded first: "a.pte (others: b.pte)". */
static void list_files(const struct inf_model_index *model, char *to, size_t room)
{
	const char *slash = strrchr(model->file, '/'), *loaded = slash ? slash + 1 : model->file;
	size_t n = (size_t)snprintf(to, room, "%s", loaded), n_others = 0;
	for (size_t i = 0; i < model->n_files && n < room; i++) {
		if (strcmp(model->files[i], loaded) == 0)
			continue;
		const char *before = n_others ? ", " : loaded[0] ? " (others: " : "";
		n += (size_t)snprintf(to + n, room - n, "%s%s", before, model->files[i]);
		n_others++;
	}
	if (loaded[0] && n_others && n < room)
		snprintf(to + n, room - n, ")");
}

/* @name: print that model only; NULL: all. */
static void print_index(const struct ctl *ctl, const struct inf_repository_index *index, const char *name)
{
	static const char *const headings[] = { "model", "version", "state", "serves", "backend", "memory", "sha-256",
		"files" };
	struct ctl_table table;
	if (!index->n_models) {
		printf("the repository has no model; put one at NAME/1/model.pte in its folder ('models' in inferd.conf)\n");
		return;
	}
	ctl_table_init(&table, "lllllrll");
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		ctl_table_cell(&table, "%s", headings[i]);
	for (size_t i = 0; i < index->n_models; i++) {
		const struct inf_model_index *model = &index->models[i];
		char files[512];
		if (name && strcmp(model->name, name) != 0)
			continue;
		list_files(model, files, sizeof(files));
		ctl_table_cell(&table, "%s", model->name);
		ctl_table_cell(&table, "%s", model->version[0] ? model->version : "-");
		ctl_table_cell(&table, "%s", model->state);
		ctl_table_cell(&table, "%s", model->serves ? "yes" : "-");
		ctl_table_cell(&table, "%s", model->backend[0] ? model->backend : "-");
		ctl_table_cell(&table, "%s", model->memory_bytes ? ctl_bytes(model->memory_bytes) : "-");
		ctl_table_cell(&table, "%.12s", model->digest[0] ? model->digest : "-");
		ctl_table_cell(&table, "%s", files[0] ? files : "-");
	}
	ctl_table_print(ctl, &table, 0);
	ctl_table_deinit(&table);
	for (size_t i = 0; i < index->n_models; i++) {
		if (name && strcmp(index->models[i].name, name) != 0)
			continue;
		print_sentence(ctl, &index->models[i], state_colour(ctl, index->models[i].state),
			index->models[i].reason);
		print_sentence(ctl, &index->models[i], ctl_yellow(ctl), index->models[i].note);
	}
}

static int run_models(struct ctl *ctl, int argc, char **argv)
{
	struct inf_reply reply;
	struct ctl_ask *ask;
	int rc, at = ctl_parse(ctl, NULL, argc, argv, &rc);

	if (at < 0)
		return rc;
	if (at != argc)
		return ctl_misuse(ctl, "models takes no arguments; 'inferctl why NAME' shows one model");
	rc = ctl_ask_index(ctl, &ask, &reply);
	if (rc != CTL_OK)
		return rc;
	if (ctl->is_json) {
		json_t *models = json_array();
		for (size_t i = 0; i < reply.repository_index.n_models; i++)
			json_array_append_new(models, model_json(&reply.repository_index.models[i]));
		rc = ctl_print_json(json_pack("{s:o}", "models", models));
	} else {
		print_index(ctl, &reply.repository_index, NULL);
	}
	ctl_ask_close(ask);
	return rc;
}

const struct ctl_command ctl_models_command = {
	.name = "models",
	.arguments = "[OPTION...]",
	.summary = "List the models of the daemon's repository and their state",
	.help = "READY: the model is loaded. UNLOADED: it is loaded when a client opens it. FAILED: it cannot be loaded.\n"
		"IGNORED: what lies there is no version of a model. The version that 'serves' is the one that clients get\n"
		"who do not ask for a version; sha-256 is the beginning of the digest of the file as it was loaded, which is\n"
		"the first one under 'files'.\n"
		"The reasons of failures follow the table. They may concern only some methods or files of a model that is\n"
		"otherwise READY.\n",
	.run = run_models,
};

static void print_why(const struct ctl *ctl, const struct inf_model_index *model)
{
	printf("%s%s%s%s%s: %s%s%s", ctl_bold(ctl), ctl_safe(model->name), ctl_plain(ctl),
		model->version[0] ? " version " : "", ctl_safe(model->version), state_colour(ctl, model->state),
		model->state, ctl_plain(ctl));
	if (model->backend[0])
		printf(", served by %s", model->backend);
	if (model->memory_bytes)
		printf(", %s", ctl_bytes(model->memory_bytes));
	printf("\n");
	if (model->serves)
		printf("  serves clients who do not ask for a version\n");
	if (model->file[0])
		printf("  loaded from %s\n  SHA-256 %s\n", ctl_safe(model->file),
			model->digest[0] ? model->digest : "is not computed yet");
	for (size_t i = 0; i < model->n_files; i++)
		printf("  on disk: %s\n", ctl_safe(model->files[i]));
	if (model->passed_over[0])
		printf("  passed over: %s\n", ctl_safe(model->passed_over));
	if (model->note[0])
		printf("  %s%s%s\n", ctl_yellow(ctl), ctl_safe(model->note), ctl_plain(ctl));
	printf("  %s\n", model->reason[0] ? ctl_safe(model->reason)
			 : strcmp(model->state, "UNLOADED") == 0
				 ? "no client has opened it since the daemon started, or it was unloaded"
				 : "no problems");
}

/* Print what the index has about one model: a paragraph for each entry, or a table. */
static int run_one(struct ctl *ctl, int argc, char **argv, bool is_table)
{
	struct inf_reply reply;
	struct ctl_ask *ask;
	unsigned n_found = 0;
	json_t *found;
	int rc;
	const char *name = ctl_parse_one(ctl, NULL, argc, argv, "one model", &rc);

	if (!name)
		return rc;
	rc = ctl_ask_index(ctl, &ask, &reply);
	if (rc != CTL_OK)
		return rc;
	found = json_array();
	for (size_t i = 0; i < reply.repository_index.n_models; i++) {
		const struct inf_model_index *model = &reply.repository_index.models[i];
		if (strcmp(model->name, name) != 0)
			continue;
		n_found++;
		if (ctl->is_json)
			json_array_append_new(found, model_json(model));
		else if (!is_table)
			print_why(ctl, model);
	}
	if (!n_found)
		rc = ctl_fail("the repository has no model '%s'; 'inferctl models' lists the models", name);
	else if (ctl->is_json)
		rc = ctl_print_json(json_pack("{s:O}", "models", found));
	else if (is_table)
		print_index(ctl, &reply.repository_index, name);
	json_decref(found);
	ctl_ask_close(ask);
	return rc;
}

static int run_why(struct ctl *ctl, int argc, char **argv)
{
	return run_one(ctl, argc, argv, false);
}

static int run_versions(struct ctl *ctl, int argc, char **argv)
{
	return run_one(ctl, argc, argv, true);
}

const struct ctl_command ctl_versions_command = {
	.name = "versions",
	.arguments = "NAME",
	.summary = "List the versions of a model, and which one serves",
	.help = "The columns are those of 'inferctl models'. Versions that were rolled back are listed as IGNORED.\n",
	.run = run_versions,
};

const struct ctl_command ctl_why_command = {
	.name = "why",
	.arguments = "NAME",
	.summary = "Show which variant of a model is used, which were tried, and why they failed",
	.help = NULL,
	.run = run_why,
};

static int run_manage(struct ctl *ctl, int argc, char **argv, bool is_load)
{
	struct inf_request request = {
		.kind = is_load ? INF_REQUEST_REPOSITORY_MODEL_LOAD : INF_REQUEST_REPOSITORY_MODEL_UNLOAD,
	};
	struct inf_reply reply;
	struct ctl_ask *ask;
	int rc;
	const char *name = ctl_parse_one(ctl, NULL, argc, argv, "one model", &rc);

	if (!name)
		return rc;
	if (is_load)
		request.repository_model_load = (struct inf_repository_model){ .model_name = name };
	else
		request.repository_model_unload = (struct inf_repository_model){ .model_name = name };
	rc = ctl_ask_once(ctl, true, &request, &ask, &reply);
	if (rc != CTL_OK)
		return rc;
	ctl_ask_close(ask);
	if (ctl->is_json)
		return ctl_print_json(json_pack("{s:s, s:s}", "model", name, "done", is_load ? "load" : "unload"));
	printf("%s %s\n", name, is_load ? "is loaded" : "is unloaded");
	return CTL_OK;
}

static int run_load(struct ctl *ctl, int argc, char **argv)
{
	return run_manage(ctl, argc, argv, true);
}

static int run_unload(struct ctl *ctl, int argc, char **argv)
{
	return run_manage(ctl, argc, argv, false);
}

const struct ctl_command ctl_load_command = {
	.name = "load",
	.arguments = "NAME",
	.summary = "Load a model now (manager socket)",
	.help = "A model that FAILED is tried again, and so is a variant that was passed over because its runs failed. Files\n"
		"that changed, and newer versions, are loaded; clients that have the model open keep the old ones. If the\n"
		"newest version can't be loaded, the command fails and the last good one serves.\n",
	.run = run_load,
};

const struct ctl_command ctl_unload_command = {
	.name = "unload",
	.arguments = "NAME",
	.summary = "Unload a model (manager socket)",
	.help = "Running requests end normally. After that, clients that have the model open get UNAVAILABLE until they\n"
		"open it again, which loads it. If a part can't be freed before a long run of another model ends, the command\n"
		"fails and says so; the model serves no more, and goes when that run has ended.\n",
	.run = run_unload,
};

static int run_restart(struct ctl *ctl, int argc, char **argv)
{
	struct inf_request request = { .kind = INF_REQUEST_BACKEND_RESTART };
	struct inf_reply reply;
	struct ctl_ask *ask;
	int rc;
	const char *name = ctl_parse_one(ctl, NULL, argc, argv, "one backend", &rc);

	if (!name)
		return rc;
	request.backend_restart = (struct inf_backend_restart){ name };
	rc = ctl_ask_once(ctl, true, &request, &ask, &reply);
	if (rc != CTL_OK)
		return rc;
	ctl_ask_close(ask);
	if (ctl->is_json)
		return ctl_print_json(json_pack("{s:s, s:s}", "backend", name, "done", "restart"));
	printf("backend %s starts again when it is next used\n", name);
	return CTL_OK;
}

const struct ctl_command ctl_restart_command = {
	.name = "restart",
	.arguments = "BACKEND",
	.summary = "Restart the process of a plug-in backend (manager socket)",
	.help = "A backend that crashed too often is given up, and its models continue with another variant; so does a model\n"
		"whose runs failed in it too often. After this command they use it again. Requests that run on it now end\n"
		"with BACKEND_CRASHED.\n",
	.run = run_restart,
};
