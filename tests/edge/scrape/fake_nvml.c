/* A libnvidia-ml.so.1 whose GPUs are told by FAKE_NVML: one word for each GPU,
 * or one word for the whole library: mismatch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 3, UNKNOWN = 999, MISMATCH = 18, GPU_IS_LOST = 15 };
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;

static char words[16][32];
static unsigned int count;

static int is(const void *gpu, const char *word) { return strcmp(gpu, word) == 0; }

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    char text[256];
    snprintf(text, sizeof text, "%s", getenv("FAKE_NVML"));
    count = 0;
    for (char *word = strtok(text, " "); word && count < 16; word = strtok(NULL, " "))
        snprintf(words[count++], sizeof words[0], "%s", word);
    return count && is(words[0], "mismatch") ? MISMATCH : OK;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    return code == GPU_IS_LOST ? "GPU is lost" : code == MISMATCH ? "Driver/library version mismatch" : "Error";
}
int nvmlDeviceGetCount_v2(unsigned int *out) { *out = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **out) {
    if (is(words[index], "lost")) return GPU_IS_LOST;
    *out = words[index];
    return OK;
}
int nvmlDeviceGetUUID(void *gpu, char *out, unsigned int size) {
    snprintf(out, size, "GPU-%s", (char *)gpu);
    return OK;
}
int nvmlDeviceGetName(void *gpu, char *out, unsigned int size) {
    (void)gpu;
    snprintf(out, size, "NVIDIA Fake");
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *gpu, memory_t *out) {
    if (is(gpu, "unified")) return NOT_SUPPORTED;
    out->total = is(gpu, "zero") ? 0 : 80ULL << 30;
    out->used = is(gpu, "idle") || is(gpu, "zero") ? 0 : 74ULL << 30;
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetMigMode(void *gpu, unsigned int *current, unsigned int *pending) {
    *current = *pending = is(gpu, "mig");
    return is(gpu, "unified") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetUtilizationRates(void *gpu, utilization_t *out) {
    out->gpu = is(gpu, "busy") ? 98 : is(gpu, "unified") ? 2 : 0;
    out->memory = 0;
    return OK;
}
