/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl: ask the daemon inferd about itself, and run, verify and time models.
 *
 * This file has the table of subcommands and parses the options in front of a subcommand. Each subcommand is a file.
 * Options of all subcommands (--json, --socket) may stand before or after its name. */
#include "clients/inferctl/ctl.h"

#include "runtime/platform/platform.h"

#include <errno.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct ctl_command *const commands[] = {
	&ctl_status_command,
	&ctl_models_command,
	&ctl_why_command,
	&ctl_load_command,
	&ctl_unload_command,
	&ctl_import_command,
	&ctl_rollback_command,
	&ctl_versions_command,
	&ctl_restart_command,
	&ctl_inspect_command,
	&ctl_infer_command,
	&ctl_verify_command,
	&ctl_bench_command,
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct ctl_command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static void print_help(void)
{
	printf("Usage: inferctl [--json] [--socket PATH] COMMAND [OPTION...] [ARGUMENT...]\n\n"
	       "Ask the inference daemon inferd about itself; run, verify and time models.\n\nCommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		printf("  %-10s%s\n", commands[i]->name, commands[i]->summary);
	printf("\nOptions:\n"
	       "  -j, --json              print JSON on stdout\n"
	       "  -s, --socket PATH       the daemon's socket (default: $INFERD_SOCKET, then /run/inferd/inferd.sock)\n"
	       "      --manager PATH      the daemon's manager socket (default: inferd-manager.sock beside the socket)\n"
	       "  -V, --version           print the version\n"
	       "  -h, --help              show this help\n\n"
	       "'inferctl COMMAND --help' explains a command; the manual is inferctl(1).\n"
	       "The exit status is 0 on success, 1 if something failed, 2 if the command line is wrong.\n");
}

static int run_command(struct ctl *ctl, int argc, char **argv)
{
	ctl->command = find_command(argv[0]);
	if (!ctl->command)
		return ctl_misuse(ctl, "there is no command '%s'", argv[0]);
	return ctl->command->run(ctl, argc, argv);
}

/* Flush stdout; output that could not be written is a failure. A closed pipe needs no message: the reader, such as
 * head(1), stopped reading on purpose. */
static int finish(int rc)
{
	errno = 0;
	bool is_whole = fflush(stdout) == 0 && !ferror(stdout);
	if (rc != CTL_OK || is_whole)
		return rc;
	if (errno == EPIPE)
		return CTL_FAILED;
	return ctl_fail("not all output could be written to stdout%s%s", errno ? ": " : "",
		errno ? strerror(errno) : "");
}

int main(int argc, char **argv)
{
	const char *term = getenv("TERM");
	struct ctl ctl = {
		.has_colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0,
	};
	int i;

	/* Keep freed memory: inferctl soon allocates it again, and returns all of it when it exits. */
	mallopt(M_TRIM_THRESHOLD, 4 << 20);
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* report a file size limit as an error */
	et_platform_install_sigbus_guard();
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0) {
			ctl.is_json = true;
		} else if (strncmp(argv[i], "--socket=", 9) == 0) {
			ctl.socket = argv[i] + 9;
		} else if (strncmp(argv[i], "--manager=", 10) == 0) {
			ctl.manager = argv[i] + 10;
		} else if ((strcmp(argv[i], "--socket") == 0 || strcmp(argv[i], "-s") == 0) && i + 1 < argc) {
			ctl.socket = argv[++i];
		} else if (strcmp(argv[i], "--manager") == 0 && i + 1 < argc) {
			ctl.manager = argv[++i];
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_help();
			return finish(CTL_OK);
		} else if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0) {
			printf("inferctl %s\n", INFERD_VERSION);
			return finish(CTL_OK);
		} else {
			return ctl_misuse(&ctl, "'%s' is not an option, or its argument is missing", argv[i]);
		}
	}
	if (i == argc) {
		print_help();
		return CTL_USAGE;
	}
	if (strcmp(argv[i], "help") == 0) {
		char *help[] = { i + 1 < argc ? argv[i + 1] : NULL, (char[]){ "--help" }, NULL };
		if (help[0])
			return finish(run_command(&ctl, 2, help));
		print_help();
		return finish(CTL_OK);
	}
	return finish(run_command(&ctl, argc - i, argv + i));
}
