/* SPDX-License-Identifier: BSD-3-Clause */
/* Checking a configuration against the machine, for `inferd --check`.
 *
 * The parser has found mistakes in the text already. What is checked here may be right later: a user that a package
 * makes, a model that is still to be copied. So a name that is missing is a warning, as it is when the daemon starts.
 * Errors are files without which a section has no effect, and lists of users and groups of whom none exists, which lock
 * everyone out. */
#include "daemon/loop/check.h"

#include "daemon/base/text.h"
#include "daemon/client/access.h"
#include "daemon/loop/reload.h"
#include "daemon/model/backends.h"
#include "daemon/model/variant.h"
#include "runtime/base/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file or folder @path that @key names. @mode as in access(2). 1: it is missing. "" is fine. */
static uint32_t check_path(const char *section, const char *key, const char *path, int mode, bool is_folder,
	enum et_log_level level, const struct et_log *log)
{
	struct stat st;
	int rc = 0;
	if (path[0] && stat(path, &st) < 0)
		rc = errno;
	else if (path[0] && S_ISDIR(st.st_mode) != is_folder)
		rc = is_folder ? ENOTDIR : EISDIR;
	else if (path[0] && access(path, mode) < 0)
		rc = errno;
	if (rc)
		et_logf(log, level, "[%s] %s: %s: %s", section, key, path, strerror(rc));
	return rc != 0;
}

static uint32_t check_backends(const struct inf_config *config, const struct et_log *log)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < config->n_backend_sections; i++) {
		const struct inf_config_backend *section = &config->backend_sections[i];
		char name[INF_CONFIG_NAME_MAX + 16];
		inf_text(name, sizeof(name), "backend %s", section->name);
		n += check_path(name, "path", section->path, R_OK, false, ET_LOG_ERROR, log);
		n += check_path(name, "host", section->host, X_OK, false, ET_LOG_ERROR, log);
	}
	for (uint32_t i = 0; i < config->n_backends; i++)
		if (!inf_backends_has_name(config, config->backends[i]))
			et_logf(log, ET_LOG_WARNING, "[server] backends: no backend is called '%s'",
				config->backends[i]);
	return n;
}

static bool has_model(const struct inf_variants *models, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(models[i].model, name) == 0)
			return true;
	return false;
}

static void check_models(const struct inf_config *config, const struct et_log *log)
{
	struct inf_variants *models = NULL;
	size_t n = 0;
	int rc = inf_variants_scan(config->models, &models, &n);
	if (rc < 0)
		et_logf(log, ET_LOG_WARNING, "[server] models: %s: %s", config->models, strerror(-rc));
	for (uint32_t i = 0; i < config->n_model_sections; i++) {
		const struct inf_config_model *section = &config->model_sections[i];
		if (rc == 0 && !has_model(models, n, section->name))
			et_logf(log, ET_LOG_WARNING, "[model %s]: there is no such model in %s", section->name,
				config->models);
		if (section->backend[0] && !strpbrk(section->backend, "+, \t") &&
			!inf_backends_has_name(config, section->backend))
			et_logf(log, ET_LOG_WARNING, "[model %s] backend: no backend is called '%s'", section->name,
				section->backend);
	}
	for (size_t i = 0; i < n; i++)
		inf_variants_deinit(&models[i]);
	free(models);
}

static uint32_t check_list(const struct inf_access_list *list, const char *section, const char *keys,
	const struct et_log *log)
{
	bool is_empty = list->is_given && !list->n_uids && !list->n_gids;
	if (is_empty)
		et_logf(log, ET_LOG_ERROR, "[%s] %s: none of these exists, so only root would be let in", section,
			keys);
	return is_empty;
}

/* Look up the names as at the start, which logs those that do not exist, and count the lists that let nobody in. */
static uint32_t check_users(const struct inf_config *config, const struct et_log *log)
{
	uint32_t n_rules, n = 0;
	free(inf_reload_rules(config, log, &n_rules));
	struct inf_access *access = inf_access_new(config, log);
	if (!access)
		return 1;
	n += check_list(&access->clients, "server", "users, groups", log);
	n += check_list(&access->administrators, "server", "administrators", log);
	for (size_t i = 0; i < access->n_models; i++) {
		char name[INF_CONFIG_NAME_MAX + 16];
		inf_text(name, sizeof(name), "model %s", access->models[i].name);
		n += check_list(&access->models[i].openers, name, "users, groups", log);
	}
	inf_access_free(access);
	return n;
}

uint32_t inf_check(const struct inf_config *config, const struct et_log *log)
{
	uint32_t n = check_users(config, log) + check_backends(config, log);
	check_models(config, log);
	check_path("server", "cache", config->cache, R_OK | X_OK, true, ET_LOG_WARNING, log);
	return n + check_path("server", "program_host", config->program_host, X_OK, false, ET_LOG_ERROR, log);
}
