/* SPDX-License-Identifier: BSD-3-Clause */
/* What the subcommands of inferctl share: option tables, messages, aligned tables, readable numbers.
 *
 * Always true: an option's --help text and its parsing come from the same row. Colours appear only on a terminal, and
 * never with NO_COLOR set or TERM=dumb. Results go to stdout; errors go to stderr, as one sentence that names the next
 * step.
 *
 * Deliberately not here: anything about models or the daemon. */
#include "clients/inferctl/ctl.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

enum { MAX_OPTIONS = 32, FIRST_LONG = 256 };

static const struct ctl_option *common_options(struct ctl *ctl, bool *wants_help)
{
	static struct ctl_option common[5];
	common[0] = (struct ctl_option){ "json", 'j', CTL_FLAG, &ctl->is_json, NULL, "print JSON on stdout" };
	common[1] = (struct ctl_option){ "socket", 's', CTL_STRING, &ctl->socket, "PATH",
		"the daemon's socket (default: $INFERD_SOCKET, then /run/inferd/inferd.sock)" };
	common[2] = (struct ctl_option){ "manager", 0, CTL_STRING, &ctl->manager, "PATH",
		"the daemon's manager socket (default: inferd-manager.sock beside the socket)" };
	common[3] = (struct ctl_option){ "help", 'h', CTL_FLAG, wants_help, NULL, "show this help" };
	return common;
}

static void print_option(const struct ctl_option *option)
{
	char left[64];
	int n = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", option->letter ? '-' : ' ',
		option->letter ? option->letter : ' ', option->letter ? "," : " ", option->name,
		option->argument ? " " : "", option->argument ? option->argument : "");
	if (n < 26)
		printf("%-26s%s\n", left, option->help);
	else
		printf("%s\n%26s%s\n", left, "", option->help);
}

static void print_help(const struct ctl *ctl, const struct ctl_option *options, const struct ctl_option *common)
{
	printf("Usage: inferctl %s %s\n\n%s.\n", ctl->command->name, ctl->command->arguments, ctl->command->summary);
	if (ctl->command->help)
		printf("\n%s", ctl->command->help);
	printf("\nOptions:\n");
	for (; options && options->name; options++)
		print_option(options);
	for (; common->name; common++)
		print_option(common);
}

static bool take_argument(const struct ctl *ctl, const struct ctl_option *option, const char *text)
{
	char *end;
	errno = 0;
	switch (option->kind) {
	case CTL_FLAG:
		*(bool *)option->target = true;
		return true;
	case CTL_STRING:
		*(const char **)option->target = text;
		return true;
	case CTL_STRINGS: {
		struct ctl_strings *strings = option->target;
		strings->items = ctl_grow(strings->items, strings->n + 1, sizeof(*strings->items));
		strings->items[strings->n++] = text;
		return true;
	}
	case CTL_UINT: {
		unsigned long n = strtoul(text, &end, 10);
		if (errno || *end || end == text || text[0] == '-' || n == 0 || n > 1000000000) {
			ctl_misuse(ctl, "--%s takes a number from 1 on, not '%s'", option->name, text);
			return false;
		}
		*(unsigned *)option->target = (unsigned)n;
		return true;
	}
	case CTL_DOUBLE: {
		double d = strtod(text, &end);
		if (errno || *end || end == text || !(d >= 0)) {
			ctl_misuse(ctl, "--%s takes a number of at least 0, not '%s'", option->name, text);
			return false;
		}
		*(double *)option->target = d;
		return true;
	}
	}
	return false;
}

int ctl_parse(struct ctl *ctl, const struct ctl_option *options, int argc, char **argv, int *ret_exit)
{
	bool wants_help = false;
	const struct ctl_option *common = common_options(ctl, &wants_help), *rows[MAX_OPTIONS];
	struct option longs[MAX_OPTIONS + 1] = { 0 };
	char shorts[2 * MAX_OPTIONS + 2] = ":";
	size_t n = 0, n_shorts = 1;
	int c, at;

	for (const struct ctl_option *o = options; o && o->name && n < MAX_OPTIONS; o++)
		rows[n++] = o;
	for (const struct ctl_option *o = common; o->name && n < MAX_OPTIONS; o++)
		rows[n++] = o;
	for (size_t i = 0; i < n; i++) {
		longs[i] = (struct option){ rows[i]->name, rows[i]->kind == CTL_FLAG ? no_argument : required_argument,
			NULL, FIRST_LONG + (int)i };
		if (rows[i]->letter) {
			shorts[n_shorts++] = rows[i]->letter;
			if (rows[i]->kind != CTL_FLAG)
				shorts[n_shorts++] = ':';
		}
	}

	optind = 0;
	*ret_exit = CTL_USAGE;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct ctl_option *option = NULL;
		at = optind > 0 ? optind - 1 : 0;
		if (c == ':') {
			ctl_misuse(ctl, "%s needs an argument", argv[at]);
			return -1;
		}
		if (c >= FIRST_LONG)
			option = rows[c - FIRST_LONG];
		for (size_t i = 0; !option && i < n; i++)
			if (rows[i]->letter && rows[i]->letter == c)
				option = rows[i];
		if (!option) {
			if (optopt && optopt < FIRST_LONG)
				ctl_misuse(ctl, "there is no option '-%c'", optopt);
			else
				ctl_misuse(ctl, "'%s' is not an option, or fits several options", argv[at]);
			return -1;
		}
		if (!take_argument(ctl, option, optarg))
			return -1;
	}
	if (wants_help) {
		print_help(ctl, options, common);
		*ret_exit = CTL_OK;
		return -1;
	}
	*ret_exit = CTL_OK;
	return optind;
}

const char *ctl_parse_one(struct ctl *ctl, const struct ctl_option *options, int argc, char **argv, const char *what,
	int *ret_exit)
{
	int at = ctl_parse(ctl, options, argc, argv, ret_exit);
	if (at >= 0 && argc - at == 1)
		return argv[at];
	if (at >= 0)
		*ret_exit = ctl_misuse(ctl, "name %s", what);
	return NULL;
}

void ctl_strings_deinit(struct ctl_strings *strings)
{
	free(strings->items);
	*strings = (struct ctl_strings){ 0 };
}

/* Replaces the control characters C0, DEL and C1 (two bytes in UTF-8). */
void ctl_clean(char *text)
{
	for (unsigned char *at = (unsigned char *)text; *at; at++) {
		if (*at < 0x20 || *at == 0x7f)
			*at = '?';
		else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			at[0] = at[1] = '?';
	}
}

const char *ctl_safe(const char *text)
{
	static char buffers[8][1200];
	static unsigned next;
	char *buffer = buffers[next++ % 8];
	snprintf(buffer, sizeof(buffers[0]), "%s", text);
	ctl_clean(buffer);
	return buffer;
}

__attribute__((format(printf, 1, 0))) static void complain(const char *format, va_list args)
{
	char text[2400];
	vsnprintf(text, sizeof(text), format, args);
	ctl_clean(text);
	fflush(stdout);
	fprintf(stderr, "inferctl: %s", text);
}

int ctl_fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	complain(format, args);
	va_end(args);
	fputc('\n', stderr);
	return CTL_FAILED;
}

int ctl_misuse(const struct ctl *ctl, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	complain(format, args);
	va_end(args);
	if (ctl->command)
		fprintf(stderr, "; 'inferctl %s --help' explains\n", ctl->command->name);
	else
		fputs("; 'inferctl --help' explains\n", stderr);
	return CTL_USAGE;
}

int ctl_print_json(json_t *json)
{
	int rc = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(json);
	if (rc < 0 || fputc('\n', stdout) == EOF || fflush(stdout) != 0)
		return ctl_fail("the JSON could not be written to stdout: %s", strerror(errno));
	return CTL_OK;
}

json_t *ctl_json_text(const char *text)
{
	json_t *json = json_string(text);
	return json ? json : json_string("(no UTF-8)");
}

json_t *ctl_json_number(double number)
{
	json_t *json = json_real(number);
	return json ? json : json_null();
}

#define COLOUR(name, sequence)                          \
	const char *ctl_##name(const struct ctl *ctl)   \
	{                                               \
		return ctl->has_colour ? sequence : ""; \
	}
COLOUR(bold, "\033[1m")
COLOUR(dim, "\033[2m")
COLOUR(red, "\033[31m")
COLOUR(green, "\033[32m")
COLOUR(yellow, "\033[33m")
COLOUR(plain, "\033[0m")

void ctl_table_init(struct ctl_table *table, const char *align)
{
	*table = (struct ctl_table){ .n_columns = (unsigned)strlen(align), .align = align };
}

void ctl_table_deinit(struct ctl_table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct ctl_table){ 0 };
}

void ctl_table_cell(struct ctl_table *table, const char *format, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	if (text)
		ctl_clean(text);
	table->cells = ctl_grow(table->cells, table->n_cells + 1, sizeof(*table->cells));
	table->cells[table->n_cells++] = text ? text : strdup("");
}

/* How many columns of a terminal @text takes; its bytes if it is not valid in this locale. */
static size_t width_of(const char *text)
{
	mbstate_t state = { 0 };
	size_t n_bytes = strlen(text), width = 0;
	for (size_t at = 0, n; at < n_bytes; at += n) {
		wchar_t c;
		n = mbrtowc(&c, text + at, n_bytes - at, &state);
		int columns = n && n <= n_bytes - at ? wcwidth(c) : -1;
		if (columns < 0)
			return n_bytes;
		width += (size_t)columns;
	}
	return width;
}

static void print_padded(const char *text, size_t width, bool is_right)
{
	size_t own = width_of(text);
	int padding = own < width ? (int)(width - own) : 0;
	printf("%*s%s%*s", is_right ? padding : 0, "", text, is_right ? 0 : padding, "");
}

void ctl_table_print(const struct ctl *ctl, const struct ctl_table *table, int indent)
{
	size_t widths[32] = { 0 };
	unsigned n = table->n_columns < 32 ? table->n_columns : 32;
	if (!n)
		return;
	for (size_t i = 0; i < table->n_cells; i++) {
		size_t width = width_of(table->cells[i]);
		if (i % n < 32 && width > widths[i % n])
			widths[i % n] = width;
	}
	for (size_t i = 0; i < table->n_cells; i++) {
		unsigned column = (unsigned)(i % n);
		bool is_last = column == n - 1;
		if (column == 0)
			printf("%*s%s", indent, "", i < n ? ctl_dim(ctl) : "");
		bool is_right = table->align[column] == 'r';
		print_padded(table->cells[i], is_last && !is_right ? 0 : widths[column], is_right);
		if (is_last)
			printf("%s\n", i < n ? ctl_plain(ctl) : "");
		else
			fputs("  ", stdout);
	}
}

static char *number_buffer(void)
{
	static char buffers[8][32];
	static unsigned next;
	return buffers[next++ % 8];
}

const char *ctl_bytes(uint64_t n_bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	char *text = number_buffer();
	double n = (double)n_bytes;
	unsigned unit = 0;
	while (n >= 1000 && unit < 4) { /* at most three digits before the point */
		n /= 1024;
		unit++;
	}
	snprintf(text, 32, unit == 0 || n >= 100 ? "%.0f %s" : n >= 10 ? "%.1f %s" : "%.2f %s", n, units[unit]);
	return text;
}

const char *ctl_duration(uint64_t ns)
{
	char *text = number_buffer();
	double s = (double)ns / 1e9;
	if (s < 1e-3)
		snprintf(text, 32, "%.1f us", s * 1e6);
	else if (s < 1)
		snprintf(text, 32, "%.2f ms", s * 1e3);
	else if (s < 120)
		snprintf(text, 32, "%.1f s", s);
	else if (s < 7200)
		snprintf(text, 32, "%.0f min", s / 60);
	else
		snprintf(text, 32, "%.1f h", s / 3600);
	return text;
}

static _Noreturn void out_of_memory(void)
{
	fputs("inferctl: out of memory\n", stderr);
	exit(CTL_FAILED);
}

void *ctl_alloc(size_t n, size_t item_bytes)
{
	void *memory = calloc(n ? n : 1, item_bytes ? item_bytes : 1);
	if (!memory)
		out_of_memory();
	return memory;
}

void *ctl_grow(void *array, size_t n, size_t item_bytes)
{
	/* Called with every new length: grows by doubling, whenever the old length was a power of two. */
	if (n > 1 && ((n - 1) & (n - 2)) != 0)
		return array;
	size_t room = n > 1 ? 2 * (n - 1) : 1;
	array = reallocarray(array, room, item_bytes);
	if (!array)
		out_of_memory();
	return array;
}

char *ctl_format(const char *format, ...)
{
	va_list args;
	char *text;
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	va_end(args);
	return text;
}

uint64_t ctl_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
