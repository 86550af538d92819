/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a file of scenarios line by line, with line numbers; `#` begins a comment.
 *
 * A scenario may stand for a family of scenarios, one for each combination of values:
 *     each NAME VALUE...            {NAME} in the other lines is one of the values; each A,B 1,2 3,4 takes pairs
 *     for NAME N LINE               the line once for each {NAME} from 1 to N
 * {EXPRESSION}, of numbers, names, + - * / and parentheses, is replaced by its value. run.c handles the other lines. */
#include "tests/scenario/script.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 24, MAX_LINES = 128, MAX_EACH = 8, MAX_VARIABLES = 16 };

const char *script_name;
unsigned script_line;

_Noreturn void script_bad_line(const char *why)
{
	printf("%s:%u: %s\n", script_name, script_line, why);
	exit(2);
}

unsigned script_split(char *line, char **words, unsigned max)
{
	unsigned n = 0;
	for (char *save, *word = strtok_r(line, " \t\n", &save); word && *word != '#';
		word = strtok_r(NULL, " \t\n", &save)) {
		if (n == max)
			script_bad_line("too many words");
		words[n++] = word;
	}
	return n;
}

uint64_t script_number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);
	if (end == text || *end)
		script_bad_line("not a number");
	return value;
}

static struct family {
	struct {
		char text[SCRIPT_MAX_LINE];
		unsigned number;
	} lines[MAX_LINES];
	unsigned n_lines;
	struct each {
		char names[SCRIPT_MAX_LINE], values[SCRIPT_MAX_LINE];
		unsigned n;
	} each[MAX_EACH];
	unsigned n_each;
	struct variable {
		char name[MAX_NAME], value[MAX_NAME];
	} variables[MAX_VARIABLES];
	unsigned n_variables;
} family;

static const struct script_events *events;

static const char *find_variable(const char *name, size_t n)
{
	for (unsigned i = 0; i < family.n_variables; i++)
		if (strlen(family.variables[i].name) == n && memcmp(family.variables[i].name, name, n) == 0)
			return family.variables[i].value;
	return NULL;
}

static double evaluate_sum(const char **at);

static double evaluate_atom(const char **at)
{
	char *end;
	if (**at == '(') {
		++*at;
		double value = evaluate_sum(at);
		if (*(*at)++ != ')')
			script_bad_line("')' is missing");
		return value;
	}
	size_t n = strspn(*at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
	const char *text = n ? find_variable(*at, n) : *at;
	double value = text ? strtod(text, &end) : 0;
	if (!text || end == text)
		script_bad_line("no number");
	*at = n ? *at + n : end;
	return value;
}

static double evaluate_product(const char **at)
{
	double value = evaluate_atom(at);
	while (**at == '*' || **at == '/') {
		char what = *(*at)++;
		double by = evaluate_atom(at);
		value = what == '*' ? value * by : value / by;
	}
	return value;
}

static double evaluate_sum(const char **at)
{
	double value = evaluate_product(at);
	while (**at == '+' || **at == '-') {
		char what = *(*at)++;
		double by = evaluate_product(at);
		value = what == '+' ? value + by : value - by;
	}
	return value;
}

/* @line with what is in braces replaced. */
static void substitute(char *to, const char *line)
{
	size_t n = 0;
	while (*line && n + 2 * MAX_NAME < SCRIPT_MAX_LINE) {
		if (*line != '{') {
			to[n++] = *line++;
			continue;
		}
		const char *at = ++line, *text = find_variable(line, strcspn(line, "}"));
		if (text) /* perhaps a word */
			n += (size_t)snprintf(to + n, SCRIPT_MAX_LINE - n, "%s", text);
		else
			n += (size_t)snprintf(to + n, SCRIPT_MAX_LINE - n, "%.10g", evaluate_sum(&at));
		line += strcspn(line, "}");
		if (!*line || (!text && *at != '}'))
			script_bad_line("what is in braces is no expression");
		line++;
	}
	to[n] = '\0';
}

static void set_variable(const char *name, const char *value)
{
	if (family.n_variables == MAX_VARIABLES)
		script_bad_line("too many names");
	struct variable *v = &family.variables[family.n_variables++];
	snprintf(v->name, sizeof(v->name), "%.*s", MAX_NAME - 1, name);
	snprintf(v->value, sizeof(v->value), "%.*s", MAX_NAME - 1, value);
}

static void play_one(void)
{
	char line[SCRIPT_MAX_LINE], copy[SCRIPT_MAX_LINE], *words[64];
	for (unsigned i = 0; i < family.n_lines; i++) {
		script_line = family.lines[i].number;
		snprintf(copy, sizeof(copy), "%s", family.lines[i].text);
		if (strncmp(copy, "for ", 4)) {
			substitute(line, copy);
			events->line(line);
			continue;
		}
		if (script_split(copy, words, 64) < 4)
			script_bad_line("for NAME N LINE");
		substitute(line, words[2]);
		uint64_t n = script_number(line);
		const char *rest = strstr(family.lines[i].text, words[2]) + strlen(words[2]);
		for (uint64_t k = 1; k <= n; k++) {
			snprintf(copy, sizeof(copy), "%llu", (unsigned long long)k);
			set_variable(words[1], copy);
			substitute(line, rest);
			events->line(line);
			family.n_variables--;
		}
	}
	events->end();
}

/* All combinations of the values of the @at-th line of `each` and those after it. */
static void play_each(unsigned at)
{
	char names[SCRIPT_MAX_LINE], values[SCRIPT_MAX_LINE], *all[64], *save_name, *save_value;
	if (at == family.n_each) {
		play_one();
		return;
	}
	snprintf(values, sizeof(values), "%s", family.each[at].values);
	unsigned n = script_split(values, all, 64), n_before = family.n_variables;
	for (unsigned i = 0; i < n; i++) {
		snprintf(names, sizeof(names), "%s", family.each[at].names);
		char *value = strtok_r(all[i], ",", &save_value);
		for (char *name = strtok_r(names, ",", &save_name); name; name = strtok_r(NULL, ",", &save_name)) {
			if (!value)
				script_bad_line("as many values as names");
			set_variable(name, value);
			value = strtok_r(NULL, ",", &save_value);
		}
		play_each(at + 1);
		family.n_variables = n_before;
	}
}

static void end_family(void)
{
	if (family.n_lines)
		play_each(0);
	memset(&family, 0, sizeof(family));
}

static void collect_line(const char *line)
{
	char copy[SCRIPT_MAX_LINE], *words[64];
	snprintf(copy, sizeof(copy), "%s", line);
	unsigned n = script_split(copy, words, 64);
	if (!n)
		return;
	if (strcmp(words[0], "scenario") == 0)
		end_family();
	else if (!family.n_lines)
		script_bad_line("begin with 'scenario WORDS'");
	if (strcmp(words[0], "each") == 0) {
		if (n < 3 || family.n_each == MAX_EACH)
			script_bad_line("each NAME VALUE...");
		struct each *each = &family.each[family.n_each++];
		snprintf(each->names, sizeof(each->names), "%s", words[1]);
		snprintf(each->values, sizeof(each->values), "%s", strstr(line, words[1]) + strlen(words[1]));
		return;
	}
	if (family.n_lines == MAX_LINES)
		script_bad_line("too many lines");
	snprintf(family.lines[family.n_lines].text, SCRIPT_MAX_LINE, "%s", line);
	family.lines[family.n_lines++].number = script_line;
}

void script_read(FILE *file, const struct script_events *reader)
{
	char line[SCRIPT_MAX_LINE];
	events = reader;
	for (unsigned n = 1; fgets(line, sizeof(line), file); n++) {
		script_line = n;
		collect_line(line);
	}
	end_family();
}
