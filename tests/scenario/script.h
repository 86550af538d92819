/* SPDX-License-Identifier: BSD-3-Clause */
/* Script: a file of scenarios, with its families expanded. */
#ifndef TESTS_SCENARIO_SCRIPT_H
#define TESTS_SCENARIO_SCRIPT_H

#include <stdint.h>
#include <stdio.h>

enum { SCRIPT_MAX_LINE = 512 };

/* The current file and line, for messages. */
extern const char *script_name;
extern unsigned script_line;

struct script_events {
	void (*line)(const char *line); /* a line of a scenario; the first one is `scenario WORDS` */
	void (*end)(void);              /* the scenario has no more lines */
};

/* Read @file to its end. */
void script_read(FILE *file, const struct script_events *events);

/* Print what is wrong with the current line and exit with 2. */
_Noreturn void script_bad_line(const char *why);
/* Cut @line into words, up to a `#`; returns how many. @words point into @line. */
unsigned script_split(char *line, char **words, unsigned max);
uint64_t script_number(const char *text);

#endif
