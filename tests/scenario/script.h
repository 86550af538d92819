/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of scenarios, with its families written out. */
#ifndef TESTS_SCENARIO_SCRIPT_H
#define TESTS_SCENARIO_SCRIPT_H

#include <stdint.h>
#include <stdio.h>

enum { SCRIPT_MAX_LINE = 512 };

/* Where in which file, for what is said about it. */
extern const char *script_name;
extern unsigned script_line;

struct script_events {
	void (*line)(const char *line); /* one of a scenario; the first is `scenario WORDS` */
	void (*end)(void);              /* it had no more */
};

/* Read all of @file. */
void script_read(FILE *file, const struct script_events *events);

/* Say what is wrong with the line and exit with 2. */
_Noreturn void script_bad_line(const char *why);
/* Cut @line into words, up to a `#`; how many. They point into it. */
unsigned script_split(char *line, char **words, unsigned max);
uint64_t script_number(const char *text);

#endif
