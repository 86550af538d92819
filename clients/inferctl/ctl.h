/* SPDX-License-Identifier: BSD-3-Clause */
/* What the subcommands of inferctl share: option tables, messages, JSON, text tables, memory.
 *
 * A subcommand is one file and one row of the table in main.c. Its options are a table, too, from which both the parser
 * and the --help text are made. Only the main thread uses the functions here, but for the memory functions and
 * ctl_now_ns. */
#ifndef CLIENTS_INFERCTL_CTL_H
#define CLIENTS_INFERCTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes, documented in inferctl(1). */
enum {
	CTL_OK = 0,
	CTL_FAILED = 1, /* something failed; stderr says what */
	CTL_USAGE = 2,  /* the command line is wrong */
};

struct ctl_command;

struct ctl {
	const struct ctl_command *command;
	const char *socket;  /* NULL: libinferd's default */
	const char *manager; /* NULL: inferd-manager.sock beside the socket */
	bool is_json;
	bool has_colour; /* stdout is a terminal that shows colours */
};

struct ctl_command {
	const char *name;
	const char *arguments; /* "[OPTION...] PATH..." */
	const char *summary;   /* one line for the list of subcommands */
	const char *help;      /* paragraphs for --help, between the summary and the options */
	/* @argv[0] is the subcommand's name. Returns an exit code. */
	int (*run)(struct ctl *ctl, int argc, char **argv);
};

/* --- options ---------------------------------------------------------------------------------------- */

struct ctl_strings {
	const char **items; /* borrowed from argv; the array is the list's */
	size_t n;
};
void ctl_strings_deinit(struct ctl_strings *strings);

struct ctl_option {
	const char *name; /* without the dashes; NULL ends the table */
	char letter;      /* 0: no short form */
	enum {
		CTL_FLAG,    /* bool */
		CTL_STRING,  /* const char * */
		CTL_STRINGS, /* struct ctl_strings: the option may be repeated */
		CTL_UINT,    /* unsigned, at least 1 */
		CTL_DOUBLE,  /* double, at least 0 */
	} kind;
	void *target;
	const char *argument; /* "FILE"; NULL for a flag */
	const char *help;
};

/* Parse @argv by @options and the common options (--json, --socket, --manager, --help). Returns the index of the
 * first operand, and *ret_exit is CTL_OK. Returns -1 when the subcommand is done: help or a message was printed, and
 * *ret_exit is the exit code. */
int ctl_parse(struct ctl *ctl, const struct ctl_option *options, int argc, char **argv, int *ret_exit);
/* The same for a subcommand with exactly one operand. Returns the operand, or NULL when the subcommand is done. @what
 * names the operand in the message: "one model". */
const char *ctl_parse_one(struct ctl *ctl, const struct ctl_option *options, int argc, char **argv, const char *what,
	int *ret_exit);

/* --- messages --------------------------------------------------------------------------------------- */

/* Print "inferctl: ..." on stderr. Returns CTL_FAILED. */
int ctl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, and point to --help. Returns CTL_USAGE. */
int ctl_misuse(const struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* @text with control characters replaced by '?'. Names and messages come from model files and from other users'
 * programs, and may hold escape sequences of a terminal. The result is in one of eight buffers that calls use in
 * turn. */
const char *ctl_safe(const char *text);
/* The same in place, for text of any length. */
void ctl_clean(char *text);
/* Print and release @json. Returns CTL_OK, or CTL_FAILED if stdout could not take it. */
int ctl_print_json(json_t *json);
/* JSON has only UTF-8, no NaN and no infinity: other text becomes "(no UTF-8)", NaN and infinities become null. */
json_t *ctl_json_text(const char *text);
json_t *ctl_json_number(double number);

/* Escape sequences; empty strings where colours are off. */
const char *ctl_bold(const struct ctl *ctl);
const char *ctl_dim(const struct ctl *ctl);
const char *ctl_red(const struct ctl *ctl);
const char *ctl_green(const struct ctl *ctl);
const char *ctl_yellow(const struct ctl *ctl);
const char *ctl_plain(const struct ctl *ctl);

/* --- tables of text --------------------------------------------------------------------------------- */

struct ctl_table {
	unsigned n_columns;
	const char *align; /* one letter a column: 'l' or 'r' */
	char **cells;      /* the first row is the heading */
	size_t n_cells;
};
void ctl_table_init(struct ctl_table *table, const char *align);
void ctl_table_deinit(struct ctl_table *table);
/* The next cell; rows fill from left to right. */
void ctl_table_cell(struct ctl_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print the rows, each column as wide as its widest cell, indented by @indent spaces. */
void ctl_table_print(const struct ctl *ctl, const struct ctl_table *table, int indent);

/* "17.4 MiB", "512 B" (powers of 1024, as in inferd.conf); "1.25 ms". The result is in one of eight buffers that
 * calls use in turn. */
const char *ctl_bytes(uint64_t n_bytes);
const char *ctl_duration(uint64_t ns);

/* --- memory ----------------------------------------------------------------------------------------- */

/* Zeroed memory, an array grown to @n items, a formatted string: the caller frees them. Without memory they print a
 * message and exit, which is all that a tool can do. */
void *ctl_alloc(size_t n, size_t item_bytes);
void *ctl_grow(void *array, size_t n, size_t item_bytes);
char *ctl_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* CLOCK_MONOTONIC. */
uint64_t ctl_now_ns(void);

/* --- the subcommands -------------------------------------------------------------------------------- */

extern const struct ctl_command ctl_status_command, ctl_models_command, ctl_inspect_command, ctl_infer_command,
	ctl_verify_command, ctl_bench_command, ctl_why_command, ctl_load_command, ctl_unload_command,
	ctl_restart_command, ctl_import_command, ctl_rollback_command, ctl_versions_command;

#endif
