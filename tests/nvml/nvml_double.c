/* A libnvidia-ml.so.1 for machines without a GPU: serves unmodified pynvml from a small script file.
 *
 * The script is named by NVML_DOUBLE_SCRIPT and read again whenever it has changed, so one file drives several
 * processes over time. A line is `<gpu index or *> <key> <value>`; later lines win. A symbol that is missing here
 * becomes NVMLError_FunctionNotFound in pynvml, as on an old driver.
 *
 *   - gpus 8                 - driver 570.148.08         - hang 3 (seconds, in every device call)
 *   * model NVIDIA H100      3 util 95                   3 lost 1
 *   3 error nvmlDeviceGetTemperature=3                   - xid 1 3 79 (sequence, gpu, code)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int R;
typedef void *D;
typedef unsigned long long u64;
enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15, MAX = 16, EVENTS = 256 };

typedef struct {
    char model[64];
    u64 util, mem_used, mem_total, temp, power, ecc, remap_pending, remap_failure, recovery, lost, procs;
    char failing[64];
    int failure;
} Gpu;

static Gpu gpus[MAX];
static char driver[64];
static int count, hang, event_count, delivered;
static struct { int seq, gpu, code; } events[EVENTS];
static struct timespec seen;
static off_t seen_size = -1;

static void set(Gpu *g, const char *key, const char *value) {
    u64 number = strtoull(value, NULL, 10);
    if (!strcmp(key, "model")) snprintf(g->model, sizeof g->model, "%s", value);
    else if (!strcmp(key, "util")) g->util = number;
    else if (!strcmp(key, "mem_used")) g->mem_used = number;
    else if (!strcmp(key, "mem_total")) g->mem_total = number;
    else if (!strcmp(key, "temp")) g->temp = number;
    else if (!strcmp(key, "power")) g->power = number;
    else if (!strcmp(key, "ecc")) g->ecc = number;
    else if (!strcmp(key, "remap_pending")) g->remap_pending = number;
    else if (!strcmp(key, "remap_failure")) g->remap_failure = number;
    else if (!strcmp(key, "recovery")) g->recovery = number;
    else if (!strcmp(key, "lost")) g->lost = number;
    else if (!strcmp(key, "procs")) g->procs = number;
    else if (!strcmp(key, "error")) sscanf(value, "%63[^=]=%d", g->failing, &g->failure);
}

static void set_global(const char *key, const char *value) {
    if (!strcmp(key, "gpus")) count = atoi(value);
    else if (!strcmp(key, "driver")) snprintf(driver, sizeof driver, "%s", value);
    else if (!strcmp(key, "hang")) hang = atoi(value);
    else if (!strcmp(key, "xid") && event_count < EVENTS &&
             sscanf(value, "%d %d %d", &events[event_count].seq, &events[event_count].gpu, &events[event_count].code) == 3)
        event_count++;
}

static void defaults(void) {
    memset(gpus, 0, sizeof gpus);
    for (int i = 0; i < MAX; i++) {
        strcpy(gpus[i].model, "NVIDIA H100 80GB HBM3");
        gpus[i].mem_total = 85899345920ULL;
        gpus[i].temp = 40;
        gpus[i].power = 70000;
    }
    strcpy(driver, "570.148.08");
    count = 8;
    hang = 0;
    event_count = 0;
}

static void load(void) {
    const char *name = getenv("NVML_DOUBLE_SCRIPT");
    struct stat now;
    if (!name || stat(name, &now)) {
        if (seen_size < 0) defaults(), seen_size = 0;
        return;
    }
    if (now.st_size == seen_size && !memcmp(&now.st_mtim, &seen, sizeof seen)) return;
    FILE *file = fopen(name, "r");
    if (!file) return;
    char line[256], who[16], key[32], value[128];
    defaults();
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s %31s %127[^\n]", who, key, value) != 3) continue;
        if (!strcmp(who, "-")) set_global(key, value);
        else
            for (int i = 0; i < MAX; i++)
                if (!strcmp(who, "*") || atoi(who) == i) set(&gpus[i], key, value);
    }
    fclose(file);
    seen = now.st_mtim;
    seen_size = now.st_size;
}

static R device(D handle, const char *function, Gpu **out) {
    load();
    if (hang) sleep(hang);
    long i = (long)handle - 1;
    if (i < 0 || i >= count) return INVALID;
    *out = &gpus[i];
    if (gpus[i].lost) return GPU_IS_LOST;
    return strcmp(gpus[i].failing, function) ? SUCCESS : gpus[i].failure;
}

#define DEVICE(handle)                              \
    Gpu *g;                                         \
    R code = device(handle, __func__, &g);          \
    if (code) return code

R nvmlInitWithFlags(unsigned flags) { (void)flags; load(); if (hang) sleep(hang); return SUCCESS; }
R nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
R nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(R code) { return code == GPU_IS_LOST ? "GPU is lost" : code == NOT_SUPPORTED ? "Not Supported" : "Error"; }
R nvmlSystemGetDriverVersion(char *out, unsigned n) { load(); snprintf(out, n, "%s", driver); return SUCCESS; }
R nvmlDeviceGetCount_v2(unsigned *out) { load(); *out = (unsigned)count; return SUCCESS; }
R nvmlDeviceGetHandleByIndex_v2(unsigned i, D *out) {
    load();
    if ((int)i >= count) return INVALID;
    if (gpus[i].lost) return GPU_IS_LOST;
    *out = (D)(long)(i + 1);
    return SUCCESS;
}
R nvmlDeviceGetUUID(D d, char *out, unsigned n) { DEVICE(d); snprintf(out, n, "GPU-00000000-0000-0000-0000-%012ld", (long)d - 1); return SUCCESS; }
R nvmlDeviceGetName(D d, char *out, unsigned n) { DEVICE(d); snprintf(out, n, "%s", g->model); return SUCCESS; }
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
R nvmlDeviceGetPciInfo_v3(D d, Pci *out) {
    DEVICE(d);
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)((long)d - 1) * 16 + 16;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return SUCCESS;
}
R nvmlDeviceGetTemperature(D d, int sensor, unsigned *out) { (void)sensor; DEVICE(d); *out = (unsigned)g->temp; return SUCCESS; }
R nvmlDeviceGetPowerUsage(D d, unsigned *out) { DEVICE(d); *out = (unsigned)g->power; return SUCCESS; }
typedef struct { unsigned gpu, memory; } Utilization;
R nvmlDeviceGetUtilizationRates(D d, Utilization *out) { DEVICE(d); out->gpu = (unsigned)g->util; out->memory = 0; return SUCCESS; }
typedef struct { u64 total, free, used; } Memory;
R nvmlDeviceGetMemoryInfo(D d, Memory *out) {
    DEVICE(d);
    out->total = g->mem_total; out->used = g->mem_used; out->free = g->mem_total - g->mem_used;
    return SUCCESS;
}
R nvmlDeviceGetTotalEccErrors(D d, int kind, int counter, u64 *out) { (void)counter; DEVICE(d); *out = kind == 1 ? g->ecc : 0; return SUCCESS; }
R nvmlDeviceGetRemappedRows(D d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
    DEVICE(d);
    *corrected = 0; *uncorrected = (unsigned)g->remap_pending; *pending = (unsigned)g->remap_pending; *failure = (unsigned)g->remap_failure;
    return SUCCESS;
}
typedef struct { unsigned pid; u64 memory; unsigned gi, ci; } Process;
R nvmlDeviceGetComputeRunningProcesses_v3(D d, unsigned *n, Process *out) {
    DEVICE(d);
    unsigned room = *n;
    *n = (unsigned)g->procs;
    if (!g->procs) return SUCCESS;
    if (!out || room < g->procs) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < g->procs; i++) out[i] = (Process){4000 + i, g->mem_used, 0xffffffff, 0xffffffff};
    return SUCCESS;
}
typedef struct { unsigned field, scope; long long at, latency; int type; R code; union { double d; unsigned u; u64 ull; } v; } Field;
R nvmlDeviceGetFieldValues(D d, int n, Field *fields) {
    DEVICE(d);
    for (int i = 0; i < n; i++) {
        fields[i].type = 1;
        fields[i].v.ull = 0;
        fields[i].code = fields[i].field == 230 ? SUCCESS : NOT_SUPPORTED;
        if (fields[i].field == 230) fields[i].v.u = (unsigned)g->recovery;
    }
    return SUCCESS;
}
R nvmlEventSetCreate(D *out) { *out = malloc(1); return SUCCESS; }
R nvmlEventSetFree(D set) { free(set); return SUCCESS; }
R nvmlDeviceGetSupportedEventTypes(D d, u64 *out) { DEVICE(d); *out = 0x8; return SUCCESS; }
R nvmlDeviceRegisterEvents(D d, u64 types, D set) { (void)types; (void)set; DEVICE(d); return SUCCESS; }
typedef struct { D device; u64 type, data; unsigned gi, ci; } Event;
R nvmlEventSetWait_v2(D set, Event *out, unsigned ms) {
    (void)set;
    load();
    for (int i = 0; i < event_count; i++)
        if (events[i].seq > delivered) {
            delivered = events[i].seq;
            *out = (Event){(D)(long)(events[i].gpu + 1), 0x8, (u64)events[i].code, 0xffffffff, 0xffffffff};
            return SUCCESS;
        }
    usleep(ms * 1000);
    return TIMEOUT;
}
