/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl: look at inferd, run models, check them and time them.
 *
 * This file is the table of subcommands and the options in front of one; every subcommand is a file of its
 * own. Options that all share (--json, --socket) may stand before or after the subcommand. */
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
	       "Look at the inference daemon inferd, run models, check them and time them.\n\nCommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		printf("  %-10s%s\n", commands[i]->name, commands[i]->summary);
	printf("\nOptions:\n"
	       "  -j, --json              print JSON on stdout\n"
	       "  -s, --socket PATH       the daemon's socket (else $INFERD_SOCKET, "
	       "/run/inferd/inferd.sock)\n"
	       "      --manager PATH      its manager's socket (else inferd-manager.sock beside the other)\n"
	       "  -V, --version           print the version\n"
	       "  -h, --help              show this help\n\n"
	       "'inferctl COMMAND --help' explains a command; the manual is inferctl(1).\n"
	       "Exits with 0 if all went well, 1 if something failed, 2 if the command line is wrong.\n");
}

static int run_command(struct ctl *ctl, int argc, char **argv)
{
	ctl->command = find_command(argv[0]);
	if (!ctl->command)
		return ctl_misuse(ctl, "there is no command '%s'", argv[0]);
	return ctl->command->run(ctl, argc, argv);
}

/* What was to be read must have come out; a reader that wants no more, as head(1), knows why it is not all. */
static int finish(int rc)
{
	errno = 0;
	bool is_whole = fflush(stdout) == 0 && !ferror(stdout);
	if (rc != CTL_OK || is_whole)
		return rc;
	if (errno == EPIPE)
		return CTL_FAILED;
	return ctl_fail("not all could be written to stdout%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
}

int main(int argc, char **argv)
{
	const char *term = getenv("TERM");
	struct ctl ctl = {
		.has_colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0,
	};
	int i;

	/* What is freed is soon wanted again, and all of it goes back at the end. */
	mallopt(M_TRIM_THRESHOLD, 4 << 20);
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error, not the end */
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
			return ctl_misuse(&ctl, "'%s' is no option, or lacks its argument", argv[i]);
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
