/* SPDX-License-Identifier: BSD-3-Clause */
/* The most memory that a command had resident at once, which only the kernel knows when it has ended.
 *
 *     peak COMMAND [ARGUMENT...]      runs it, and prints {"peak_kb": …} on a line of its own after what it printed
 *
 * Started by somebody small: the kernel counts what a process was before its exec, so a child of Python would never
 * have had less than Python. The status is the command's; 127 where it could not be run or was killed. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage usage;
	int status;
	pid_t child;

	if (argc < 2) {
		fprintf(stderr, "usage: peak COMMAND [ARGUMENT...]\n");
		return 2;
	}
	child = fork();
	if (child < 0) {
		perror("fork");
		return 127;
	}
	if (child == 0) {
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (wait4(child, &status, 0, &usage) != child || !WIFEXITED(status))
		return 127;
	printf("{\"peak_kb\": %ld}\n", usage.ru_maxrss);
	return WEXITSTATUS(status);
}
