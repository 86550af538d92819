/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes, for each NAME.txt of the folder, which is a graph's text, the payload NAME.vk with the same graph. */
#include "tests/support/graph_rig.h"
#include "tests/support/make_vulkan.h"

#include <dirent.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_one(const char *folder, const char *name)
{
	char path[1000], text[100000];
	struct graph_rig rig;
	size_t n;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "rb");
	if (!file)
		err(1, "%s", path);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	if (graph_rig_parse(&rig, text) != ET_OK)
		errx(1, "%s: %s", path, rig.diag.text);
	uint8_t *payload = make_vulkan(&rig.graph, &n);
	memcpy(strrchr(path, '.'), ".vk", sizeof(".vk"));
	file = fopen(path, "wb");
	if (!file || fwrite(payload, 1, n, file) != n || fclose(file))
		err(1, "%s", path);
	free(payload);
	graph_rig_deinit(&rig);
}

int main(int argc, char **argv)
{
	DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
	if (!folder)
		errx(1, "usage: write_vulkan_corpus FOLDER");
	for (struct dirent *entry; (entry = readdir(folder));) {
		size_t n = strlen(entry->d_name);
		if (n > 4 && strcmp(entry->d_name + n - 4, ".txt") == 0)
			write_one(argv[1], entry->d_name);
	}
	closedir(folder);
	return 0;
}
