/* SPDX-License-Identifier: BSD-3-Clause */
/* Run a command and print the most memory that it had resident at once.
 *
 *     peak COMMAND [ARGUMENT...]      prints {"peak_kb": ...} on its own line after the command's output
 *
 * Only the kernel knows this number, when the command has ended. The kernel also counts the memory of a process
 * before its exec, so the parent must be small: a child of Python would never have less than Python. The status is
 * the command's, or 127 if the command could not be run or was killed. */
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
