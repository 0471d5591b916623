//// The parts of C source, each after a line with its name. $NAME is a text that policies/c/functions.py fills in.

//// elementwise
static void $function(int32_t n, $result *out$parameters)
{
    int32_t i;
    for (i = 0; i < n; i++) {
$operands$preparation        out[i] = $expression;
    }
}

//// copy
static void $function(int32_t n, $type *out, const $type *in, int32_t step)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        out[i] = in[i * step];
    }
}

//// clear
static void $function(int32_t n, $type *out)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        out[i] = 0;
    }
}

//// where
static void $function(int32_t n, $type *out, const uint8_t *condition, int32_t condition_step, const $type *x,
    int32_t x_step, const $type *y, int32_t y_step)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        out[i] = condition[i * condition_step] ? x[i * x_step] : y[i * y_step];
    }
}

//// one_hot
/* 1 at each index, 0 elsewhere. */
static void $function(int32_t n, int32_t depth, float *out, const int32_t *in)
{
    int32_t i, j;
    for (i = 0; i < n; i++) {
        for (j = 0; j < depth; j++) {
            out[i * depth + j] = in[i] == j ? 1.0f : 0.0f;
        }
    }
}

//// linear
/*
 * A linear layer. Weights are (inputs, outputs), so that the inner loop is over neighbours and has no carried sum. Its
 * length is a multiple of 4, because gcc -O2 vectorizes nothing that has a rest.
 */
static void $function(int32_t inputs, int32_t outputs, float *$restrict out, const float *$restrict in,
    const float *$restrict weight, const float *$restrict bias)
{
    const int32_t fours = outputs & ~3;
    int32_t i, j;
    for (j = 0; j < outputs; j++) {
        out[j] = bias ? bias[j] : 0.0f;
    }
    for (i = inputs / 4; i > 0; i--) {
        const float a = in[0], b = in[1], c = in[2], d = in[3];
        const float *$restrict second = weight + outputs, *$restrict third = second + outputs;
        const float *$restrict fourth = third + outputs;
        for (j = 0; j < fours; j++) {
            out[j] += (a * weight[j] + b * second[j]) + (c * third[j] + d * fourth[j]);
        }
        for (j = fours; j < outputs; j++) {
            out[j] += (a * weight[j] + b * second[j]) + (c * third[j] + d * fourth[j]);
        }
        in += 4;
        weight = fourth + outputs;
    }
    for (i = inputs % 4; i > 0; i--) {
        const float a = *in++;
        for (j = 0; j < outputs; j++) {
            out[j] += a * weight[j];
        }
        weight += outputs;
    }
}

//// long_linear
/* A linear layer as a sum of parts of $longest inputs, which loses fewer digits than one long sum. */
static void $function(int32_t inputs, int32_t outputs, float *out, const float *in, const float *weight,
    const float *bias, float *part)
{
    int32_t start, j;
    $linear(inputs < $longest ? inputs : $longest, outputs, out, in, weight, bias);
    for (start = $longest; start < inputs; start += $longest) {
        const int32_t count = inputs - start < $longest ? inputs - start : $longest;
        $linear(count, outputs, part, in + start, weight + start * outputs, 0);
        for (j = 0; j < outputs; j++) {
            out[j] += part[j];
        }
    }
}

//// convolution
/* A convolution: a linear layer over the patch of each pixel, whose weights are (patch, filters). */
static void $function(int32_t channels, int32_t height, int32_t width, int32_t filters, int32_t kernel_height,
    int32_t kernel_width, int32_t stride_down, int32_t stride_across, int32_t pad_top, int32_t pad_left, int32_t down,
    int32_t across, float *out, const float *in, const float *weight, const float *bias, float *scratch)
{
    const int32_t items = channels * kernel_height * kernel_width;
    int32_t pixel;
    for (pixel = 0; pixel < down * across; pixel++) {
        const int32_t top = pixel / across * stride_down - pad_top, left = pixel % across * stride_across - pad_left;
        float *pixels = scratch;
        int32_t channel, y, x, filter;
        for (channel = 0; channel < channels; channel++) {
            for (y = top; y < top + kernel_height; y++) {
                for (x = left; x < left + kernel_width; x++) {
                    const int is_inside = y >= 0 && y < height && x >= 0 && x < width;
                    *pixels++ = is_inside ? in[(channel * height + y) * width + x] : 0.0f;
                }
            }
        }
        $linear(items, filters, scratch + items, scratch, weight, bias, scratch + items + filters);
        for (filter = 0; filter < filters; filter++) {
            out[filter * down * across + pixel] = scratch[items + filter];
        }
    }
}

//// layer_normalization
static void $function(int32_t n, float *out, const float *in, const float *scale, const float *bias, float epsilon)
{
    float mean = 0.0f, variance = 0.0f;
    int32_t i;
    for (i = 0; i < n; i++) {
        mean += in[i];
    }
    mean /= (float)n;
    for (i = 0; i < n; i++) {
        variance += (in[i] - mean) * (in[i] - mean);
    }
    variance = sqrtf(variance / (float)n + epsilon);
    for (i = 0; i < n; i++) {
        out[i] = (in[i] - mean) / variance * scale[i] + bias[i];
    }
}

//// softmax
/* Over n items, each `inner` from the next; `outer` and `inner` are the items before and after the axis. */
static void $function(int32_t outer, int32_t n, int32_t inner, float *out, const float *in)
{
    int32_t at, i;
    for (at = 0; at < outer * inner; at++) {
        const int32_t start = at / inner * n * inner + at % inner, end = start + n * inner;
        float greatest = in[start], sum = 0.0f;
        for (i = start; i < end; i += inner) {
            greatest = in[i] > greatest ? in[i] : greatest;
        }
        for (i = start; i < end; i += inner) {
            out[i] = expf(in[i] - greatest);
            sum += out[i];
        }
        for (i = start; i < end; i += inner) {
            out[i] /= sum;
        }
    }
}

//// log_softmax
/* Over n items, each `inner` from the next; `outer` and `inner` are the items before and after the axis. */
static void $function(int32_t outer, int32_t n, int32_t inner, float *out, const float *in)
{
    int32_t at, i;
    for (at = 0; at < outer * inner; at++) {
        const int32_t start = at / inner * n * inner + at % inner, end = start + n * inner;
        float greatest = in[start], sum = 0.0f;
        for (i = start; i < end; i += inner) {
            greatest = in[i] > greatest ? in[i] : greatest;
        }
        for (i = start; i < end; i += inner) {
            sum += expf(in[i] - greatest);
        }
        sum = logf(sum);
        for (i = start; i < end; i += inner) {
            out[i] = (in[i] - greatest) - sum;
        }
    }
}

//// reduce
/* Over n items, each `inner` from the next; `outer` and `inner` are the items before and after the axis. */
static void $function(int32_t outer, int32_t n, int32_t inner, $result *out, const $type *in)
{
    int32_t at, i;
    for (at = 0; at < outer * inner; at++) {
        const $type *items = in + at / inner * n * inner + at % inner;
$body    }
}

//// reduce_sum
        $type sum = 0;
        for (i = 0; i < n; i++) {
            sum $add;
        }
        out[at] = sum;

//// reduce_mean
        $type sum = 0;
        for (i = 0; i < n; i++) {
            sum $add;
        }
        out[at] = ($type)($mean);

//// reduce_min
        $type least = items[0];
        for (i = 1; i < n; i++) {
            const $type item = items[i * inner];
            least = item < least$is_nan ? item : least;
        }
        out[at] = least;

//// reduce_log_sum_exp
        float greatest = items[0], sum = 0.0f;
        for (i = 1; i < n; i++) {
            greatest = items[i * inner] > greatest ? items[i * inner] : greatest;
        }
        for (i = 0; i < n; i++) {
            sum += expf(items[i * inner] - greatest);
        }
        out[at] = logf(sum) + greatest;

//// arg_max
        int32_t found = 0;
        for (i = 1; i < n; i++) {
            const $type item = items[i * inner], greatest = items[found * inner];
            found = item > greatest$is_first_nan ? i : found;
        }
        out[at] = found;

//// unfused
/* A product is rounded before it is added, also where a processor has an instruction for both. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER) && !defined(__clang__)
#pragma fp_contract(off)
#else
#pragma STDC FP_CONTRACT OFF
#endif

//// restrict
#if defined(__GNUC__) || defined(_MSC_VER)
#define $name __restrict
#elif !defined(__cplusplus)
#define $name restrict
#else
#define $name
#endif

//// state
/* What the policy remembers from step to step: one for each environment; ${name}_reset starts it. */
typedef struct {
$members
} ${name}_state;

/* Makes a state that of the start of an episode: zeros. */
void ${name}_reset(${name}_state *state);

//// reader
/* Reads numbers: 1 if there are any, 0 at the end of the input before the first, -1 for something else. */
static int ${name}_read_$short(int32_t n, $type *out, const char *argument)
{
    int32_t i;
    for (i = 0; i < n; i++) {
        $scanned number;
        const int found = scanf("$code", &number);
        if (found == EOF && i == 0) {
            return 0;
        }
        if (found != 1$range) {
            fprintf(stderr, "expected $what as item %ld of %s\n", (long)i, argument);
            return -1;
        }
        out[i] = $converted;
    }
    return 1;
}

//// read_first
        found = $reader($size, $argument, "$argument");
        if (found != 1) {
            return found ? 1 : ${name}_finish();
        }

//// read
        found = $reader($size, $argument, "$argument");
        if (found != 1) {
            fprintf(stderr, "%s", found ? "" : "expected more numbers, for $argument\n");
            return 1;
        }

//// read_nothing
        found = getchar();
        if (found == EOF) {
            return ${name}_finish();
        }

//// print
        for (int32_t i = 0; i < $size; i++) {
            printf("%s%.${digits}g", i ? " " : $separator, (double)$argument[i]);
        }

//// main
#ifdef ${upper}_MAIN
/* For tests: reads the numbers of all inputs in order, call after call, and prints the outputs of each on a line. */
#include <stdio.h>

$readers
/* At the end of the input: 0 if all of it was read, and all outputs are written. */
static int ${name}_finish(void)
{
    if (ferror(stdin)) {
        fprintf(stderr, "cannot read the input\n");
        return 1;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "cannot write the output\n");
        return 1;
    }
    return 0;
}

int main(void)
{
$variables
$start    for (;;) {
        int found;
$body        printf("\n");
    }
}
#endif
