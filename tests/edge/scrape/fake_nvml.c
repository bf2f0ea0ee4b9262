/* A libnvidia-ml.so.1 whose GPUs are told by FAKE_NVML, read anew at each call: one word for each
 * GPU, or one word for the whole library: mismatch, unloaded.
 *   busy, idle   80 GiB; busy also has ECC errors, and process 4242 on it
 *   left         as busy, and no process on it
 *   unified      as a GB10: no memory of its own, no ECC
 *   zero         the same, told as a total of 0
 *   bare         nothing but memory
 *   mig          two instances, at places 0 and 2, the second without a UUID
 *   lost         fell off the bus
 *   saw          as idle, and once the file FAKE_NVML_SAW is there its memory goes up and down
 *   slow         its memory is not told before somebody opens the pipe FAKE_NVML_GATE for writing
 * With FAKE_NVML_UPDATED the library cannot be opened any more: mismatch.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, UNLOADED = 9, LOST = 15, MISMATCH = 18 };
enum { MAX_GPUS = 16, MIG_PLACES = 7, CORRECTED = 0, AGGREGATE = 1 };
#define GIB (1ULL << 30)

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned int gpu; int place; } device_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_t;

static device_t gpus[MAX_GPUS];
static device_t instances[MAX_GPUS][MIG_PLACES];
unsigned int fake_nvml_handles_given;
unsigned int fake_nvml_inits;

/* The word of a GPU as it is now; empty if there is no such GPU. */
static const char *word(unsigned int index) {
    static char text[256];
    const char *told = getenv("FAKE_NVML");
    snprintf(text, sizeof text, "%s", told ? told : "");
    char *found = strtok(text, " ");
    while (found && index--) found = strtok(NULL, " ");
    return found ? found : "";
}
static int is(const void *device, const char *what) {
    return strcmp(word(((const device_t *)device)->gpu), what) == 0;
}
static int is_instance(const void *device) { return ((const device_t *)device)->place >= 0; }

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    fake_nvml_inits++;
    if (getenv("FAKE_NVML_UPDATED")) return MISMATCH;
    return strcmp(word(0), "mismatch") == 0 ? MISMATCH : strcmp(word(0), "unloaded") == 0 ? UNLOADED : OK;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == NOT_FOUND ? "Not Found" : "Error"; }
int nvmlDeviceGetCount_v2(unsigned int *out) {
    for (*out = 0; *out < MAX_GPUS && *word(*out); ++*out) {}
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **out) {
    fake_nvml_handles_given++;
    gpus[index] = (device_t){index, -1};
    *out = &gpus[index];
    return is(*out, "lost") ? LOST : OK;
}
int nvmlDeviceGetUUID(void *device, char *out, unsigned int size) {
    const device_t *of = device;
    if (of->place == 2) return NOT_SUPPORTED;
    if (is_instance(device)) snprintf(out, size, "MIG-%d", of->place);
    else snprintf(out, size, "GPU-%s", word(of->gpu));
    return OK;
}
int nvmlDeviceGetName(void *device, char *out, unsigned int size) {
    (void)device;
    snprintf(out, size, "NVIDIA Fake");
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *out) {
    if (is(device, "lost")) return LOST;
    if (is(device, "unified")) return NOT_SUPPORTED;
    if (is(device, "slow")) close(open(getenv("FAKE_NVML_GATE"), O_RDONLY));
    if (is_instance(device)) {
        out->total = 10 * GIB;
        out->used = ((device_t *)device)->place ? 1 * GIB : 9 * GIB;
    } else {
        out->total = is(device, "zero") ? 0 : 80 * GIB;
        out->used = is(device, "idle") || is(device, "zero") ? 0 : 74 * GIB;
    }
    if (is(device, "saw")) {
        static unsigned int reads;
        out->used = access(getenv("FAKE_NVML_SAW"), F_OK) == 0 && ++reads % 2 ? 70 * GIB : 40 * GIB;
    }
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *out) {
    if (is(device, "lost")) return LOST;
    if (is(device, "bare")) return NOT_SUPPORTED;
    out->gpu = is(device, "busy") ? 98 : is(device, "unified") ? 2 : 0; /* 0 under MIG, too */
    out->memory = 0;
    return OK;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
    *milliwatts = is(device, "busy") ? 612500 : 70000;
    return is(device, "lost") ? LOST : is(device, "bare") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius) {
    (void)sensor;
    *celsius = is(device, "unified") ? 38 : 61;
    return is(device, "lost") ? LOST : is(device, "bare") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetTotalEccErrors(void *device, int error, int counter, unsigned long long *out) {
    if (is(device, "lost")) return LOST;
    if (is(device, "unified") || is(device, "bare")) return NOT_SUPPORTED;
    *out = !is(device, "busy") ? 0 : counter != AGGREGATE ? 1 : error == CORRECTED ? 12 : 3;
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_t *out) {
    unsigned int room = *count;
    if (is(device, "bare")) return NOT_SUPPORTED;
    *count = is(device, "busy");
    if (!*count) return OK;
    if (!room) return TOO_SMALL;
    *out = (process_t){.pid = 4242, .used = 70 * GIB};
    return OK;
}
int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending) {
    *current = *pending = is(device, "mig");
    return is(device, "unified") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *out) {
    (void)device;
    *out = MIG_PLACES;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int place, void **out) {
    if (place != 0 && place != 2) return NOT_FOUND;
    unsigned int gpu = ((device_t *)device)->gpu;
    instances[gpu][place] = (device_t){gpu, (int)place};
    *out = &instances[gpu][place];
    return OK;
}
int nvmlDeviceGetGpuInstanceId(void *device, unsigned int *out) {
    *out = 7 + ((device_t *)device)->place;
    return OK;
}
int nvmlDeviceGetComputeInstanceId(void *device, unsigned int *out) {
    (void)device;
    *out = 0;
    return OK;
}
