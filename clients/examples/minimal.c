/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest client: run a model once on zeros and print the first elements of its output.
 *
 *     cc minimal.c -o minimal $(pkg-config --cflags --libs inferd)
 *     ./minimal NAME
 */
#include <inferd.h>

#include <err.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct inferd *d = NULL;
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;

	if (argc != 2)
		errx(2, "usage: minimal NAME");
	if (inferd_open(&d, NULL) < 0 || inferd_method_open(d, &m, argv[1], NULL) < 0 || inferd_bind(m, &b) < 0)
		errx(1, "%s", inferd_error(d));
	/* A real program writes its input to inferd_input(b, 0) here. The memory starts as zeros. */
	if (inferd_infer(b, NULL) < 0)
		errx(1, "%s", inferd_error(d));
	const float *out = inferd_output(b, 0);
	for (size_t i = 0; i < 5 && out && i < inferd_output_info(m, 0)->n_bytes / sizeof(float); i++)
		printf("%g\n", (double)out[i]);
	inferd_close(d);
	return 0;
}
