/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compress.c - a file into gzip form, in blocks, through a stream of stages.
 *
 * Reads blocks, compresses each into a gzip member of its own on as many workers as
 * there are CPUs, and writes the members in the order of the blocks: what gzip -d reads
 * as one file. --serial does the same without threads, and writes the same bytes.
 *
 * Build:  cc compress.c $(pkg-config --cflags --libs penstock zlib)
 * Usage:  compress [--serial] INPUT OUTPUT
 *         compress                       a file of its own making, both ways, compared
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <penstock/stream.h>
#include <zlib.h>

enum {
    BLOCK = 128 * 1024,
    /* A member's header and trailer, and what deflate adds where nothing shrinks. */
    ROOM = BLOCK + BLOCK / 1000 + 64,
    SAMPLE_BLOCKS = 96
};

/* What stands in a buffer of the stream. */
typedef struct block {
    size_t length;
    unsigned long crc; /* of the plain bytes                                          */
    size_t packed_length;
    unsigned char plain[BLOCK];
    unsigned char packed[ROOM];
} block;

typedef struct job {
    FILE *input;
    FILE *output;
    unsigned long long blocks;
    unsigned long long bytes_in;
    unsigned long long bytes_out;
    unsigned long crc; /* of the whole file, put together from those of the blocks    */
} job;

/* ---- the stages, which know nothing of threads ------------------------------------
 */

static pst_status read_block(job *j, block *b, int *end, pst_error *err)
{
    b->length = fread(b->plain, 1, BLOCK, j->input);
    if (ferror(j->input))
        return pst_error_set(err, PST_EIO, "the input cannot be read");
    *end = b->length == 0 && j->blocks > 0; /* an empty file has one, empty member */
    j->blocks += !*end;
    j->bytes_in += b->length;
    return PST_OK;
}

static pst_status compress_block(block *b, pst_error *err)
{
    z_stream z;
    memset(&z, 0, sizeof z);
    /* 15 bits of window, and 16 for gzip's header, which zlib writes without a time */
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return pst_error_set(err, PST_ENOMEM, "zlib has no memory");
    z.next_in = b->plain;
    z.avail_in = (uInt)b->length;
    z.next_out = b->packed;
    z.avail_out = ROOM;
    const int result = deflate(&z, Z_FINISH);
    b->packed_length = ROOM - z.avail_out;
    deflateEnd(&z);
    if (result != Z_STREAM_END)
        return pst_error_set(err, PST_ECALLBACK, "zlib gave %d for a block", result);
    return PST_OK;
}

static void checksum_block(block *b)
{
    b->crc = crc32(crc32(0, NULL, 0), b->plain, (uInt)b->length);
}

static pst_status write_block(job *j, const block *b, pst_error *err)
{
    if (fwrite(b->packed, 1, b->packed_length, j->output) != b->packed_length)
        return pst_error_set(err, PST_EIO, "the output cannot be written");
    j->bytes_out += b->packed_length;
    j->crc = crc32_combine(j->crc, b->crc, (z_off_t)b->length);
    return PST_OK;
}

/* ---- the same as callbacks of a stream --------------------------------------------
 */

static pst_status source(void *self, pst_stream_item *item, pst_error *err)
{
    return read_block(self, item->data, &item->end, err);
}

static pst_status checksum(void *self, pst_stream_item *item, pst_error *err)
{
    (void)self;
    (void)err;
    checksum_block(item->data);
    return PST_OK;
}

static pst_status compress_one(void *self, pst_stream_item *item, pst_error *err)
{
    (void)self;
    return compress_block(item->data, err);
}

static pst_status sink(void *self, pst_stream_item *item, pst_error *err)
{
    return write_block(self, item->data, err);
}

static pst_status run_stream(job *j, pst_error *err)
{
    const int replicas = pst_cpu_budget();
    const pst_stream_stage stages[] = {
        {.name = "read", .self = j, .run = source},
        {.name = "checksum", .run = checksum, .replicas = replicas},
        {.name = "compress",
         .run = compress_one,
         .replicas = replicas,
         .with_previous = 1},
        {.name = "write", .self = j, .run = sink},
    };
    /* Two workers more than CPUs, two of which mostly wait: the system shares the CPUs
     * out better than a binding would. */
    const pst_stream_options options = {.item_bytes = sizeof(block),
                                        .bind = PST_BIND_NONE};
    pst_stream *stream = NULL;
    pst_status status = pst_stream_create(NULL, stages, 4, &options, &stream, err);
    if (status == PST_OK)
        status = pst_stream_run(stream, NULL, err);
    pst_stream_destroy(stream);
    return status;
}

static pst_status run_serial(job *j, pst_error *err)
{
    block *b = malloc(sizeof *b);
    int end = 0;
    pst_status status =
        b ? PST_OK : pst_error_set(err, PST_ENOMEM, "no memory for a block");
    while (status == PST_OK) {
        status = read_block(j, b, &end, err);
        if (status != PST_OK || end)
            break;
        checksum_block(b);
        status = compress_block(b, err);
        if (status == PST_OK)
            status = write_block(j, b, err);
    }
    free(b);
    return status;
}

/* ---- the program ------------------------------------------------------------------
 */

static double seconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pst_status run(int serial, FILE *input, FILE *output, pst_error *err)
{
    job j = {.input = input, .output = output, .crc = crc32(0, NULL, 0)};
    const double start = seconds();
    const pst_status status = serial ? run_serial(&j, err) : run_stream(&j, err);
    if (status == PST_OK && fflush(output) != 0)
        return pst_error_set(err, PST_EIO, "the output cannot be written");
    if (status == PST_OK)
        printf("%-8s %llu bytes to %llu, CRC-32 %08lx, %.3f s\n",
               serial ? "serial" : "stream", j.bytes_in, j.bytes_out, j.crc,
               seconds() - start);
    return status;
}

static pst_status compress_file(int serial, const char *from, const char *to,
                                pst_error *err)
{
    FILE *input = fopen(from, "rb");
    if (input == NULL)
        return pst_error_set(err, PST_EIO, "%s cannot be opened", from);
    FILE *output = fopen(to, "wb");
    pst_status status = output == NULL
                            ? pst_error_set(err, PST_EIO, "%s cannot be made", to)
                            : run(serial, input, output, err);
    if (output != NULL && fclose(output) != 0 && status == PST_OK)
        status = pst_error_set(err, PST_EIO, "%s cannot be written", to);
    fclose(input);
    return status;
}

/* Text of a few words in a random order, so that it shrinks as text does. */
static void make_sample(FILE *file)
{
    static const char *const words[] = {"valve",  "pipe", "water ", "in",
                                        "stages", "the ", "runs",   " and",
                                        "order",  "\n",   " flow",  "turbine"};
    unsigned long long x = 88172645463325252u;
    for (long bytes = 0; bytes < (long)SAMPLE_BLOCKS * BLOCK - 1000;) {
        x ^= x << 13; /* Marsaglia's xorshift64 */
        x ^= x >> 7;
        x ^= x << 17;
        bytes += fprintf(file, "%s%u", words[x % 12], (unsigned)(x >> 58));
    }
}

static int same_bytes(FILE *a, FILE *b)
{
    int c, d;
    rewind(a);
    rewind(b);
    do {
        c = getc(a);
        d = getc(b);
    } while (c == d && c != EOF);
    return c == d;
}

static pst_status compare(pst_error *err)
{
    FILE *sample = tmpfile(), *one = tmpfile(), *other = tmpfile();
    if (sample == NULL || one == NULL || other == NULL)
        return pst_error_set(err, PST_EIO, "no temporary file can be made");
    make_sample(sample);
    rewind(sample);
    pst_status status = run(1, sample, one, err);
    rewind(sample);
    if (status == PST_OK)
        status = run(0, sample, other, err);
    if (status == PST_OK && !same_bytes(one, other))
        status = pst_error_set(err, PST_EFORMAT, "the two outputs differ");
    fclose(sample);
    fclose(one);
    fclose(other);
    return status;
}

int main(int argc, char **argv)
{
    pst_error err = PST_ERROR_INIT;
    const int serial = argc > 1 && strcmp(argv[1], "--serial") == 0;
    pst_status status;
    if (argc == 1) {
        status = compare(&err);
    } else if (argc - serial == 3) {
        status = compress_file(serial, argv[1 + serial], argv[2 + serial], &err);
    } else {
        fprintf(stderr, "usage: compress [[--serial] INPUT OUTPUT]\n");
        return 2;
    }
    if (status != PST_OK)
        fprintf(stderr, "compress: %s\n", err.text);
    return status == PST_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
