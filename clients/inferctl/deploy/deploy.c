/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl import, rollback: change which version of a model serves.
 *
 * inferctl changes the repository's folder itself, as a user who may write there: the daemon only reads its models, so
 * that a client that got hold of the daemon can't change them. The daemon is then told by its manager socket to load
 * the version. Until it has, clients get what they got before; if it can't, the change is taken back. */
#include "clients/inferctl/ask.h"
#include "clients/inferctl/ctl.h"
#include "clients/inferctl/file.h"
#include "clients/inferctl/deploy/repository.h"

#include "config/model_conf.h"
#include "config/model_name.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Options of both commands. */
struct deploy {
	const char *repository; /* NULL: the daemon's */
	bool is_offline;
};

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), n_suffix = strlen(suffix);
	return n > n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* --- checks before anything changes --------------------------------------------------------------- */

/* The whole program is read, as 'inferctl inspect' does; the daemon checks its backends when it loads it. */
static bool check_program(const char *path, const struct ctl_strings *data)
{
	struct ctl_file file = { 0 };
	struct et_program *program = NULL;
	struct et_diag diag = { "" };
	const char *foreign = et_platform_foreign_file(path);
	if (foreign) {
		ctl_fail("%s is %s", path, foreign);
		return false;
	}
	if (ctl_file_open(&file, path, data, &diag) != ET_OK) {
		ctl_fail("%s", diag.text);
		return false;
	}
	bool is_good = ctl_file_program(&file, NULL, &program, &diag) == ET_OK;
	const struct et_method_spec *method = is_good ? et_program_find_method(program, NULL) : NULL;
	if (!is_good)
		ctl_fail("%s", diag.text);
	else if (method && method->why_not)
		is_good = ctl_fail("%s: method '%s': %s", path, method->name, method->why_not) == CTL_OK;
	et_program_unref(program);
	ctl_file_close(&file);
	return is_good;
}

static bool check_conf(const char *path)
{
	struct inf_config_error error = { "" };
	struct inf_model_conf *conf = inf_model_conf_new();
	int rc = conf ? inf_model_conf_load(conf, path, true, &error) : -ENOMEM;
	inf_model_conf_unref(conf);
	if (rc < 0)
		ctl_fail("%s", error.text[0] ? error.text : strerror(-rc));
	return rc == 0;
}

/* Whether @path can be a file of labels. False: a message was printed. */
static bool check_other(const char *path)
{
	const char *foreign = et_platform_foreign_file(path);
	struct stat st;
	if (foreign)
		ctl_fail("%s is %s", path, foreign);
	else if (stat(path, &st) < 0)
		ctl_fail("%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || !has_suffix(path, ".txt"))
		ctl_fail("%s: a version holds programs (.pte, .bpte), data files (.ptd), model.conf, and labels (.txt)",
			path);
	else
		return true;
	return false;
}

static bool check_files(char **files, size_t n)
{
	struct ctl_strings data = { 0 };
	size_t n_programs = 0;
	bool is_good = true;
	for (size_t i = 0; i < n; i++)
		if (has_suffix(files[i], ".ptd")) {
			data.items = ctl_grow(data.items, data.n + 1, sizeof(*data.items));
			data.items[data.n++] = files[i];
		}
	for (size_t i = 0; i < n && is_good; i++) {
		const char *name = base_name(files[i]);
		for (size_t k = 0; k < i && is_good; k++)
			if (strcmp(base_name(files[k]), name) == 0)
				is_good = ctl_fail("%s and %s have the same name", files[k], files[i]) == CTL_OK;
		if (!is_good || has_suffix(name, ".ptd"))
			continue;
		bool is_program = has_suffix(name, ".pte") || has_suffix(name, ".bpte");
		n_programs += is_program;
		if (name[0] == '.')
			is_good = ctl_fail("%s: the daemon ignores names that begin with a dot", files[i]) == CTL_OK;
		else
			is_good = is_program                        ? check_program(files[i], &data)
				  : strcmp(name, "model.conf") == 0 ? check_conf(files[i])
								    : check_other(files[i]);
	}
	ctl_strings_deinit(&data);
	if (is_good && !n_programs)
		is_good = ctl_fail("name a program (.pte or .bpte) to import") == CTL_OK;
	return is_good;
}

/* --- the daemon ----------------------------------------------------------------------------------- */

/* The repository's folder; the caller frees it. NULL: a message was printed. */
static char *find_folder(const struct ctl *ctl, const struct deploy *o)
{
	struct inf_reply reply;
	struct ctl_ask *ask;
	if (o->repository)
		return ctl_format("%s", o->repository);
	if (o->is_offline) {
		ctl_fail("--offline needs --repository: no daemon is asked for its folder");
		return NULL;
	}
	if (ctl_ask_index(ctl, &ask, &reply) != CTL_OK)
		return NULL;
	char *folder = ctl_format("%s", reply.repository_index.folder);
	ctl_ask_close(ask);
	return folder;
}

/* Whether the daemon answers on its manager socket: asked before anything changes. */
static bool can_manage(const struct ctl *ctl)
{
	struct ctl_ask *ask;
	char error[1200];
	if (ctl_ask_open(&ask, ctl, true, error, sizeof(error)) < 0) {
		ctl_fail("%s", error);
		return false;
	}
	ctl_ask_close(ask);
	return true;
}

/* @version "": what is to serve. */
static bool load(const struct ctl *ctl, const char *name, const char *version)
{
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_MODEL_LOAD,
		.repository_model_load = { .model_name = name, .version = version } };
	struct inf_reply reply;
	struct ctl_ask *ask;
	if (ctl_ask_once(ctl, true, &request, &ask, &reply) != CTL_OK)
		return false;
	ctl_ask_close(ask);
	return true;
}

/* Print what serves now. */
static int report(const struct ctl *ctl, const char *name, const char *done, unsigned version)
{
	struct inf_reply reply;
	struct ctl_ask *ask;
	int rc = ctl_ask_index(ctl, &ask, &reply);
	if (rc != CTL_OK)
		return rc;
	const struct inf_model_index *current = NULL;
	for (size_t i = 0; i < reply.repository_index.n_models; i++) {
		const struct inf_model_index *model = &reply.repository_index.models[i];
		if (strcmp(model->name, name) == 0 && model->serves)
			current = model;
	}
	const char *serves = current ? current->version : "";
	if (ctl->is_json)
		rc = ctl_print_json(json_pack("{s:s, s:s, s:I, s:s}", "model", name, "done", done, "version",
			(json_int_t)version, "serves", serves));
	else
		printf("%s: version %u was %s; %s%s serves\n", name, version, done, current ? "version " : "none",
			ctl_safe(serves));
	if (current && !ctl->is_json && current->passed_over[0])
		printf("%s: passed over: %s\n", name, ctl_safe(current->passed_over));
	ctl_ask_close(ask);
	return rc;
}

static int report_offline(const struct ctl *ctl, const char *name, const char *done, unsigned version)
{
	if (ctl->is_json)
		return ctl_print_json(json_pack("{s:s, s:s, s:I}", "model", name, "done", done, "version",
			(json_int_t)version));
	printf("%s: version %u was %s; no daemon was told\n", name, version, done);
	return CTL_OK;
}

/* --- import --------------------------------------------------------------------------------------- */

/* The version to import as; -1: a message was printed. */
static long choose_version(struct ctl_repository *r, const char *name, const char *wanted)
{
	unsigned *versions;
	size_t n = ctl_repository_versions(r, name, true, &versions);
	long version = wanted ? strtol(wanted, NULL, 10) : n ? (long)versions[n - 1] + 1 : 1;
	for (size_t i = 0; i < n && version >= 0; i++)
		if (versions[i] == version) {
			ctl_fail("%s has a version %ld already; without --version it becomes version %u", name, version,
				versions[n - 1] + 1);
			version = -1;
		}
	free(versions);
	if (version > 999999999) {
		ctl_fail("%s has the highest version that there can be", name);
		version = -1;
	}
	return version;
}

static int import(const struct ctl *ctl, const struct deploy *o, const char *name, const char *wanted, char **files,
	size_t n_files)
{
	struct ctl_repository r;
	char text[24];
	char *folder = o->is_offline || can_manage(ctl) ? find_folder(ctl, o) : NULL;
	if (!folder || !ctl_repository_open(&r, folder)) {
		free(folder);
		return CTL_FAILED;
	}
	int rc = CTL_FAILED;
	long version = choose_version(&r, name, wanted);
	bool is_added = version >= 0 &&
			ctl_repository_add(&r, name, (unsigned)version, (const char *const *)files, n_files);
	snprintf(text, sizeof(text), "%ld", version);
	if (is_added && o->is_offline) {
		rc = report_offline(ctl, name, "imported", (unsigned)version);
	} else if (is_added && load(ctl, name, text) && load(ctl, name, "")) {
		rc = report(ctl, name, "imported", (unsigned)version);
	} else if (is_added) {
		if (ctl_repository_withdraw(&r, name, (unsigned)version))
			ctl_fail("version %ld of %s was taken out again; what served before goes on", version, name);
	}
	ctl_repository_close(&r);
	free(folder);
	return rc;
}

static int run_import(struct ctl *ctl, int argc, char **argv)
{
	struct deploy o = { 0 };
	const char *name = NULL, *version = NULL;
	const struct ctl_option options[] = {
		{ "name", 'n', CTL_STRING, &name, "NAME", "the model's name, which clients open" },
		{ "version", 0, CTL_STRING, &version, "N", "its version (default: one more than the highest)" },
		{ "repository", 0, CTL_STRING, &o.repository, "DIR",
			"the repository's folder (default: the daemon's)" },
		{ "offline", 0, CTL_FLAG, &o.is_offline, NULL, "tell no daemon; needs --repository" },
		{ 0 },
	};
	int rc, at = ctl_parse(ctl, options, argc, argv, &rc);
	if (at < 0)
		return rc;
	if (at == argc || !name)
		return ctl_misuse(ctl, "name the files, and the model with --name");
	if (!inf_model_name_is_valid(name))
		return ctl_misuse(ctl,
			"'%s' can't be the name of a model: it must not be empty, contain '/' or begin with '.'", name);
	if (version && !inf_version_is_valid(version))
		return ctl_misuse(ctl, "'%s' can't be the name of a version: versions are whole numbers", version);
	if (!check_files(argv + at, (size_t)(argc - at)))
		return CTL_FAILED;
	return import(ctl, &o, name, version, argv + at, (size_t)(argc - at));
}

const struct ctl_command ctl_import_command = {
	.name = "import",
	.arguments = "FILE... --name NAME [OPTION...]",
	.summary = "Put a new version of a model into the repository and make it serve (manager socket)",
	.help = "FILEs are the programs of one version (variants for several backends), their data files (.ptd), a\n"
		"model.conf, and files of labels (.txt) that it names. They are checked, copied beside, synced and renamed;\n"
		"then the daemon loads them and warms them up. Only then do new clients get them; clients that have the\n"
		"model open keep what they have. If the daemon can't load them, they are taken out again.\n"
		"\n"
		"The user who runs this needs write access to the repository's folder, and access to the manager socket.\n",
	.run = run_import,
};

/* --- rollback ------------------------------------------------------------------------------------- */

/* False: the model's author has chosen a version; a message was printed. */
static bool check_pin(const char *folder, const char *name)
{
	struct inf_config_error error;
	struct inf_model_conf *conf = inf_model_conf_new();
	char *path = ctl_format("%s/%s/model.conf", folder, name);
	bool is_fixed = conf && inf_model_conf_load(conf, path, false, &error) == 0 && conf->version[0];
	if (is_fixed)
		ctl_fail("'version = %s' in %s says which version serves: change it there, and call 'inferctl load %s'",
			conf->version, path, name);
	free(path);
	inf_model_conf_unref(conf);
	return !is_fixed;
}

static int rollback(const struct ctl *ctl, const struct deploy *o, const char *name)
{
	struct ctl_repository r;
	unsigned *versions = NULL;
	char *folder = o->is_offline || can_manage(ctl) ? find_folder(ctl, o) : NULL;
	if (!folder || !ctl_repository_open(&r, folder)) {
		free(folder);
		return CTL_FAILED;
	}
	size_t n = ctl_repository_versions(&r, name, false, &versions);
	unsigned newest = n ? versions[n - 1] : 0;
	free(versions);
	int rc = CTL_FAILED;
	if (!n)
		ctl_fail("the repository has no model '%s'", name);
	else if (n == 1)
		ctl_fail("%s has no version before %u", name, newest);
	else if (check_pin(folder, name) && ctl_repository_roll(&r, name, newest, false)) {
		if (o->is_offline) {
			rc = report_offline(ctl, name, "rolled back", newest);
		} else if (load(ctl, name, "")) {
			rc = report(ctl, name, "rolled back", newest);
		} else if (ctl_repository_roll(&r, name, newest, true)) {
			ctl_fail("version %u of %s stays", newest, name);
			load(ctl, name, ""); /* the daemon may have turned to a version still older */
		}
	}
	ctl_repository_close(&r);
	free(folder);
	return rc;
}

static int run_rollback(struct ctl *ctl, int argc, char **argv)
{
	struct deploy o = { 0 };
	const struct ctl_option options[] = {
		{ "repository", 0, CTL_STRING, &o.repository, "DIR",
			"the repository's folder (default: the daemon's)" },
		{ "offline", 0, CTL_FLAG, &o.is_offline, NULL, "tell no daemon; needs --repository" },
		{ 0 },
	};
	int rc;
	const char *name = ctl_parse_one(ctl, options, argc, argv, "one model", &rc);
	if (!name)
		return rc;
	if (!inf_model_name_is_valid(name))
		return ctl_misuse(ctl, "'%s' can't be the name of a model", name);
	return rollback(ctl, &o, name);
}

const struct ctl_command ctl_rollback_command = {
	.name = "rollback",
	.arguments = "NAME [OPTION...]",
	.summary = "Make the version before the newest one serve (manager socket)",
	.help = "The newest version N is renamed to N.rolled-back, so that the daemon ignores it, after a restart too, and the\n"
		"version before is loaded and serves. Clients that have the model open keep what they have. To take it back,\n"
		"rename the folder to N and call 'inferctl load NAME'.\n",
	.run = run_rollback,
};
