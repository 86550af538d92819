/* SPDX-License-Identifier: BSD-3-Clause */
/* Foreign files: what lies among models and is no ExecuTorch program.
 *
 * The first bytes decide, whatever the file is called. Only formats are known here that people take for a program by
 * mistake; all other files are no concern of ours. */
#include "runtime/platform/platform.h"

#include "runtime/base/checked.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT "export the model from PyTorch with tools/export"

/* An ONNX file is a protobuf message without a magic number. It begins with field 1, a small ir_version. */
static bool is_onnx(const char *bytes, size_t n)
{
	static const char next[] = { 0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42 }; /* the tags of fields 2 to 8 */
	return n > 2 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 && memchr(next, bytes[2], sizeof(next));
}

const char *et_platform_foreign_format(const void *bytes, size_t n)
{
	static const struct {
		uint32_t at, n;
		const char *magic, *text;
	} known[] = {
		{ 0, 4, "PK\3\4", "a zip file, such as PyTorch's archives (.pt, .pth, .pt2): " EXPORT },
		{ 0, 42, "version https://git-lfs.github.com/spec/v1",
			"a pointer of git-lfs, which stands for a file that was not fetched: 'git lfs pull' fetches it" },
		{ 4, 4, "TFL3", "a LiteRT (TensorFlow Lite) model, which inferd does not run: " EXPORT },
		{ 0, 4, "GGUF", "a GGUF model, which inferd does not run: " EXPORT },
	};
	const char *chars = bytes;
	for (size_t i = 0; i < ET_ARRAY_LEN(known); i++)
		if (n >= known[i].at + known[i].n && memcmp(chars + known[i].at, known[i].magic, known[i].n) == 0)
			return known[i].text;
	return is_onnx(chars, n) ? "an ONNX model, which inferd does not run: " EXPORT : NULL;
}

const char *et_platform_foreign_file(const char *path)
{
	char bytes[64];
	struct stat st;
	const char *text = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
		text = n > 0 ? et_platform_foreign_format(bytes, (size_t)n) : NULL;
	}
	close(fd);
	return text;
}
