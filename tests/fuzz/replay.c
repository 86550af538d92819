/* SPDX-License-Identifier: BSD-3-Clause */
/* Replay: run each file of a corpus through its fuzz target once.
 *
 *     fuzz_NAME FILE|FOLDER...
 *
 * It needs only a C compiler, so the committed corpus is tested everywhere. For long runs libFuzzer's main takes its
 * place; options that begin with '-' are libFuzzer's and are ignored. An empty folder is a failure, because a lost
 * corpus would pass. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	if (!file) {
		perror(path);
		return -1;
	}
	uint8_t *bytes = NULL;
	size_t n_bytes = 0, n_room = 0;
	for (;;) {
		if (n_bytes == n_room) {
			n_room = n_room * 2 + 4096;
			bytes = realloc(bytes, n_room);
			if (!bytes)
				abort();
		}
		size_t n = fread(bytes + n_bytes, 1, n_room - n_bytes, file);
		if (n == 0)
			break;
		n_bytes += n;
	}
	fclose(file);
	/* exactly as long as the file, so that a sanitizer sees one byte too many */
	uint8_t *exact = malloc(n_bytes ? n_bytes : 1);
	if (!exact)
		abort();
	memcpy(exact, bytes, n_bytes);
	free(bytes);
	LLVMFuzzerTestOneInput(exact, n_bytes);
	free(exact);
	return 1;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Files run through the target, or negative. */
static int replay(const char *path)
{
	struct stat info;
	if (stat(path, &info)) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(info.st_mode))
		return replay_file(path);
	struct dirent **entries;
	int n_entries = scandir(path, &entries, is_visible, alphasort);
	if (n_entries < 0) {
		perror(path);
		return -1;
	}
	int n_files = 0;
	for (int i = 0; i < n_entries; i++) {
		char name[4096];
		snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
		free(entries[i]);
		int n = replay(name);
		n_files = n < 0 || n_files < 0 ? -1 : n_files + n;
	}
	free(entries);
	return n_files;
}

int main(int argc, char **argv)
{
	int n_total = 0;
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-')
			continue;
		int n = replay(argv[i]);
		if (n <= 0) {
			fprintf(stderr, "%s: nothing to replay\n", argv[i]);
			return 1;
		}
		n_total += n;
	}
	printf("%d inputs replayed\n", n_total);
	return n_total ? 0 : 1;
}
