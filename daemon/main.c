/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd: command-line options, the configuration, and then the server.
 *
 * It needs no privileges and no fixed paths: it runs as a service with the sockets that systemd made, or from a
 * shell with paths on the command line. */
#include "config/config.h"
#include "daemon/loop/check.h"
#include "daemon/loop/server.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef INF_VERSION
#define INF_VERSION "unknown"
#endif
#ifndef INF_CONFIG_FILE
#define INF_CONFIG_FILE "/etc/inferd/inferd.conf"
#endif

static const char *const help =
	"Usage: inferd [OPTION]...\n"
	"Run ExecuTorch programs for every application on this machine.\n"
	"\n"
	"  -c, --config FILE          read FILE instead of " INF_CONFIG_FILE "\n"
	"  -m, --models DIR           the model repository: NAME/VERSION/*.pte, NAME/*.pte or NAME.pte\n"
	"  -s, --socket PATH          where clients connect\n"
	"      --manager-socket PATH  where administrators connect (inferctl load, unload); '' for nowhere\n"
	"      --cache DIR            for private copies of model files; '' for memory\n"
	"  -w, --workers N            CPU worker threads; 0 for one for each core\n"
	"  -l, --log-level LEVEL      error, warning, notice, info or debug\n"
	"      --check                check the configuration, and whether what it names exists, and end\n"
	"  -V, --version              print the version\n"
	"  -h, --help                 print this\n"
	"\n"
	"Options override the configuration file. To try it without installing anything:\n"
	"  inferd --models ./models --socket /tmp/inferd.sock --manager-socket '' --cache ''\n"
	"SIGTERM and SIGINT let running requests end and stop it; SIGHUP reads again what inferd.conf(5) says.\n"
	"Under systemd it takes its sockets from inferd.socket.\n";

struct options {
	const char *config, *models, *socket, *manager_socket, *cache, *workers, *log_level;
};

enum { OPT_MANAGER_SOCKET = 256, OPT_CACHE, OPT_CHECK };

enum { OPTIONS_E_WRONG = 1 };

/* Apply the options to @config. OPTIONS_E_WRONG: one of them is wrong, and a message is on stderr. */
static int apply_options(struct inf_config *config, const struct options *o)
{
	const struct {
		const char *value, *name;
		char *to;
	} paths[] = { { o->models, "--models", config->models }, { o->socket, "--socket", config->socket },
		{ o->manager_socket, "--manager-socket", config->manager_socket },
		{ o->cache, "--cache", config->cache } };
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!paths[i].value)
			continue;
		if (strlen(paths[i].value) >= INF_CONFIG_PATH_MAX) {
			fprintf(stderr, "inferd: %s: longer than %d characters\n", paths[i].name,
				INF_CONFIG_PATH_MAX - 1);
			return OPTIONS_E_WRONG;
		}
		snprintf(paths[i].to, INF_CONFIG_PATH_MAX, "%s", paths[i].value);
	}
	if (!config->socket[0]) {
		fprintf(stderr, "inferd: --socket: it can't be empty, since clients connect there\n");
		return OPTIONS_E_WRONG;
	}
	/* --socket without --manager-socket: no manager socket, rather than the configured one of another daemon. */
	if (o->socket && !o->manager_socket)
		config->manager_socket[0] = '\0';
	if (o->workers) {
		char *end;
		unsigned long n = strtoul(o->workers, &end, 10);
		if (*end || end == o->workers || n > 1024) {
			fprintf(stderr, "inferd: --workers: '%s' is not a number from 0 to 1024\n", o->workers);
			return OPTIONS_E_WRONG;
		}
		config->workers = (uint32_t)n;
	}
	if (o->log_level && !inf_config_parse_log_level(o->log_level, &config->log_level)) {
		fprintf(stderr, "inferd: --log-level: '%s' is none of error, warning, notice, info, debug\n",
			o->log_level);
		return OPTIONS_E_WRONG;
	}
	return 0;
}

/* 0, OPTIONS_E_WRONG, or negative with a sentence in @error; in both latter cases a message was written. */
static int load_config(struct inf_config *config, const struct options *o, struct inf_config_error *error)
{
	inf_config_init(config);
	int rc = inf_config_load(config, o->config ? o->config : INF_CONFIG_FILE, error);
	if (rc == -ENOENT && !o->config) /* use the defaults */
		rc = 0;
	if (rc < 0) {
		const struct et_log log = et_platform_log(ET_LOG_ERROR);
		et_logf(&log, ET_LOG_ERROR, "%s", error->text);
	} else {
		rc = apply_options(config, o);
	}
	if (rc)
		inf_config_deinit(config);
	return rc;
}

static struct options options;

static int load_config_again(struct inf_config *ret_config, struct inf_config_error *ret_error)
{
	return load_config(ret_config, &options, ret_error) ? -EINVAL : 0;
}

static void raise_fd_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int main(int argc, char **argv)
{
	static const struct option table[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "models", required_argument, NULL, 'm' },
		{ "socket", required_argument, NULL, 's' },
		{ "manager-socket", required_argument, NULL, OPT_MANAGER_SOCKET },
		{ "cache", required_argument, NULL, OPT_CACHE },
		{ "workers", required_argument, NULL, 'w' },
		{ "log-level", required_argument, NULL, 'l' },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct inf_server server;
	bool is_check = false;
	int c;
	inf_backends_run_process(argv[0]);
	while ((c = getopt_long(argc, argv, "c:m:s:w:l:Vh", table, NULL)) != -1) {
		switch (c) {
		case 'c':
			options.config = optarg;
			break;
		case 'm':
			options.models = optarg;
			break;
		case 's':
			options.socket = optarg;
			break;
		case OPT_MANAGER_SOCKET:
			options.manager_socket = optarg;
			break;
		case OPT_CACHE:
			options.cache = optarg;
			break;
		case 'w':
			options.workers = optarg;
			break;
		case 'l':
			options.log_level = optarg;
			break;
		case OPT_CHECK:
			is_check = true;
			break;
		case 'V':
			puts("inferd " INF_VERSION);
			return 0;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fprintf(stderr, "Try 'inferd --help'.\n");
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "inferd: '%s' is not an option; try 'inferd --help'\n", argv[optind]);
		return 2;
	}
	struct inf_config_error error = { "" };
	int rc = load_config(&server.context.config, &options, &error);
	if (rc)
		return rc == OPTIONS_E_WRONG ? 2 : 1;
	if (is_check) {
		const struct et_log log = et_platform_log(ET_LOG_WARNING);
		rc = inf_check(&server.context.config, &log) > 0;
		inf_config_deinit(&server.context.config);
		return rc;
	}
	et_platform_install_sigbus_guard();
	signal(SIGXFSZ, SIG_IGN); /* writing beyond the file size limit fails instead of ending the daemon */
	raise_fd_limit();
	rc = inf_backends_init_processes();
	if (rc) {
		fprintf(stderr, "inferd: can't start a process: %s\n", strerror(-rc));
		return 1;
	}
	server.context.log = et_platform_log((enum et_log_level)server.context.config.log_level);
	server.load_config = load_config_again;
	rc = inf_server_init(&server);
	if (rc == 0)
		rc = inf_server_run(&server);
	if (rc == -ETIMEDOUT)
		_exit(1);
	inf_server_deinit(&server);
	return rc < 0 ? 1 : 0;
}
