/* SPDX-License-Identifier: BSD-3-Clause */
/* Classify an image with an ImageNet model that inferd serves.
 *
 *     cc classify.c -o classify $(pkg-config --cflags --libs inferd gdlib)
 *     ./classify [-n REQUESTS] [-k TOP] [-l LABELS] [-w] MODEL IMAGE
 *
 * The image (anything libgd reads) is cropped to its centre square and scaled to what the model's input wants,
 * normalized as (rgb/255 - 127/255) / (128/255), and written, channel by channel, straight into memory that is
 * shared with the daemon. The ten lines that talk to the daemon are in main; the rest loads the image and prints the
 * classes.
 *
 * LABELS is a file with the name of one class on each line. With -w the program closes stdout after its answers and
 * stays connected until stdin ends, so that `inferctl status` can show the connection. */
#include <inferd.h>

#include <err.h>
#include <gd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
	unsigned n_requests, n_top;
	const char *labels;
	int wait;
	const char *model, *image;
};

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The centre square of the image at @path, @size pixels wide. */
static gdImagePtr load_image(const char *path, int size)
{
	gdImagePtr whole = gdImageCreateFromFile(path), square;
	int side;
	if (!whole)
		errx(1, "%s: libgd cannot read this image", path);
	side = gdImageSX(whole) < gdImageSY(whole) ? gdImageSX(whole) : gdImageSY(whole);
	square = gdImageCreateTrueColor(size, size);
	if (!square)
		errx(1, "out of memory");
	gdImageCopyResampled(square, whole, 0, 0, (gdImageSX(whole) - side) / 2, (gdImageSY(whole) - side) / 2, size,
		size, side, side);
	gdImageDestroy(whole);
	return square;
}

/* Red, then green, then blue: the order NCHW. */
static void fill_input(float *input, gdImagePtr image)
{
	int size = gdImageSX(image), n = size * size;
	for (int y = 0; y < size; y++) {
		for (int x = 0; x < size; x++) {
			int colour = gdImageGetTrueColorPixel(image, x, y), at = y * size + x;
			input[at] = ((float)gdTrueColorGetRed(colour) - 127) / 128;
			input[n + at] = ((float)gdTrueColorGetGreen(colour) - 127) / 128;
			input[2 * n + at] = ((float)gdTrueColorGetBlue(colour) - 127) / 128;
		}
	}
}

/* The name of class @index, from its line of the file; "" if there is none. */
static void find_label(const char *path, size_t index, char *label, size_t size)
{
	FILE *file = path ? fopen(path, "r") : NULL;
	label[0] = 0;
	for (size_t i = 0; file && i <= index; i++)
		if (!fgets(label, (int)size, file))
			label[0] = 0;
	label[strcspn(label, "\r\n")] = 0;
	if (file)
		fclose(file);
}

/* The class with the next lower score after @last (@n: the highest), equal scores by index; @n if there is none. */
static size_t next_best(const float *scores, size_t n, size_t last)
{
	size_t best = n;
	for (size_t i = 0; i < n; i++) {
		if (last < n && (scores[i] > scores[last] || (scores[i] == scores[last] && i <= last)))
			continue;
		if (best == n || scores[i] > scores[best])
			best = i;
	}
	return best;
}

static void print_top(const struct options *options, const float *scores, size_t n)
{
	size_t best = n;
	for (unsigned k = 0; k < options->n_top; k++) {
		char label[128];
		best = next_best(scores, n, best);
		if (best == n)
			return;
		find_label(options->labels, best, label, sizeof(label));
		printf("  %7.3f  %4zu  %s\n", (double)scores[best], best, label);
	}
}

static struct options parse(int argc, char **argv)
{
	struct options options = { .n_requests = 1, .n_top = 5 };
	int c;
	while ((c = getopt(argc, argv, "n:k:l:w")) != -1) {
		if (c == 'n')
			options.n_requests = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'k')
			options.n_top = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'l')
			options.labels = optarg;
		else if (c == 'w')
			options.wait = 1;
		else
			exit(2);
	}
	if (argc - optind != 2)
		errx(2, "usage: classify [-n REQUESTS] [-k TOP] [-l LABELS] [-w] MODEL IMAGE");
	options.model = argv[optind];
	options.image = argv[optind + 1];
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct inferd *d = NULL;
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	const struct inferd_tensor_info *info;
	gdImagePtr image;
	double start_ms = now_ms(), ready_ms;

	if (inferd_open(&d, NULL) < 0 || inferd_method_open(d, &m, options.model, NULL) < 0 || inferd_bind(m, &b) < 0)
		errx(1, "%s", d ? inferd_error(d) : "out of memory");
	ready_ms = now_ms();
	info = inferd_input_info(m, 0);
	if (!info || strcmp(info->datatype, "FP32") != 0 || info->n_dims != 4 || info->shape[1] != 3 ||
		info->shape[2] != info->shape[3] || info->dim_order[1] != 1)
		errx(1, "%s does not take one square image as FP32 [1,3,N,N]", options.model);
	image = load_image(options.image, (int)info->shape[2]);
	fill_input(inferd_input(b, 0), image);
	gdImageDestroy(image);

	const char *slash = strrchr(options.image, '/');
	printf("%s: model ready after %.1f ms, requests", slash ? slash + 1 : options.image, ready_ms - start_ms);
	for (unsigned i = 0; i < options.n_requests; i++) {
		struct inferd_timing timing;
		double before_ms = now_ms();
		if (inferd_infer(b, NULL) < 0)
			errx(1, "%s", inferd_error(d));
		inferd_last_timing(b, &timing);
		printf(" %.2f", now_ms() - before_ms);
	}
	printf(" ms\n");
	print_top(&options, inferd_output(b, 0), inferd_output_info(m, 0)->n_bytes / sizeof(float));
	fclose(stdout); /* the reader of the answers sees the end now */
	while (options.wait && getchar() != EOF)
		;
	inferd_close(d);
	return 0;
}
