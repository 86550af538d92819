/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of text, whole. */
#ifndef TESTS_SUPPORT_TEXT_FILE_H
#define TESTS_SUPPORT_TEXT_FILE_H

/* Read the first 64 KiB of the file at @path, of which there must be some. The caller frees the string. */
char *text_file_read(const char *path);

#endif
