/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-http: command-line options, the configuration, and then the gateway.
 *
 * It needs no privileges. As a service it gets its Unix socket from systemd; from a shell, options name the sockets. */
#include "clients/http/server.h"
#include "config/http_conf.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const help =
	"Usage: inferd-http [OPTION]...\n"
	"Serve the models of inferd over HTTP, in the Open Inference Protocol (version 2).\n"
	"\n"
	"  -c, --config FILE      read FILE instead of " INF_HTTP_CONFIG_FILE "\n"
	"  -s, --socket PATH      the Unix socket where clients connect; '' for none\n"
	"  -L, --listen ADDRESS   listen at ADDRESS:PORT, such as 127.0.0.1:8000\n"
	"  -d, --daemon PATH      the socket of inferd\n"
	"      --user             serve this user: ~/.config/inferd/inferd-http.conf, a socket in $XDG_RUNTIME_DIR,\n"
	"                         and files of /dev/shm\n"
	"      --check            check the configuration, and end\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this\n"
	"\n"
	"Options override the configuration file. SIGTERM and SIGINT let running requests end and stop it.\n";

enum { OPT_CHECK = 256, OPT_USER };

struct options {
	const char *config, *socket, *listen, *daemon;
	bool is_user;
};

static bool set_path(char *to, const char *path, const char *name)
{
	enum { MAX = 107 }; /* of a socket's address */
	if (!path)
		return true;
	if (strlen(path) > MAX) {
		fprintf(stderr, "inferd-http: %s: longer than %d characters\n", name, MAX);
		return false;
	}
	memcpy(to, path, strlen(path) + 1);
	return true;
}

/* The defaults of a user's own gateway, and the path of its configuration in @path. */
static void set_user(struct inf_http_config *config, char *path, size_t room)
{
	const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME"), *runtime = getenv("XDG_RUNTIME_DIR");
	char socket[INF_CONFIG_PATH_MAX] = "";
	if (folder && *folder)
		snprintf(path, room, "%s/inferd/inferd-http.conf", folder);
	else
		snprintf(path, room, "%s/.config/inferd/inferd-http.conf", home ? home : "");
	if (runtime && *runtime)
		snprintf(socket, sizeof(socket), "%s/inferd-http.sock", runtime);
	memcpy(config->socket, socket, sizeof(socket));
	config->shared_memory = true;
}

/* 0, or the exit status after a message. */
static int load_config(struct inf_http_config *config, const struct options *o)
{
	struct inf_config_error error = { "" };
	char path[INF_CONFIG_PATH_MAX] = INF_HTTP_CONFIG_FILE;
	inf_http_config_init(config);
	if (o->is_user)
		set_user(config, path, sizeof(path));
	int rc = inf_http_config_load(config, o->config ? o->config : path, &error);
	if (rc < 0 && (rc != -ENOENT || o->config)) {
		fprintf(stderr, "inferd-http: %s\n", error.text);
		return 1;
	}
	/* inferctl and libinferd look at the same variable */
	if (!set_path(config->daemon, o->daemon ? o->daemon : getenv("INFERD_SOCKET"), "--daemon") ||
		!set_path(config->socket, o->socket, "--socket"))
		return 2;
	if (o->listen && (size_t)snprintf(config->listen.text, sizeof(config->listen.text), "%s", o->listen) >=
				 sizeof(config->listen.text)) {
		fprintf(stderr, "inferd-http: --listen: it is too long\n");
		return 2;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option table[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "socket", required_argument, NULL, 's' },
		{ "listen", required_argument, NULL, 'L' },
		{ "daemon", required_argument, NULL, 'd' },
		{ "user", no_argument, NULL, OPT_USER },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct http_server server;
	struct options options = { 0 };
	bool is_check = false;
	int c;
	while ((c = getopt_long(argc, argv, "c:s:L:d:Vh", table, NULL)) != -1) {
		switch (c) {
		case 'c':
			options.config = optarg;
			break;
		case 's':
			options.socket = optarg;
			break;
		case 'L':
			options.listen = optarg;
			break;
		case 'd':
			options.daemon = optarg;
			break;
		case OPT_USER:
			options.is_user = true;
			break;
		case OPT_CHECK:
			is_check = true;
			break;
		case 'V':
			puts("inferd-http " INFERD_VERSION);
			return 0;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fprintf(stderr, "Try 'inferd-http --help'.\n");
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "inferd-http: '%s' is not an option; try 'inferd-http --help'\n", argv[optind]);
		return 2;
	}
	int rc = load_config(&server.config, &options);
	if (rc || is_check)
		return rc;
	server.log = et_platform_log((enum et_log_level)server.config.log_level);
	et_platform_install_sigbus_guard(); /* clients' files */
	rc = http_server_init(&server);
	if (rc == 0)
		rc = http_server_run(&server);
	http_server_deinit(&server);
	return rc < 0 ? 1 : 0;
}
