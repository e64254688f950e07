// Gives a program a wrong time of day, for tests: the real one and CLOCK_ERROR_S seconds. Time that is only measured
// stays right. Loaded with LD_PRELOAD. (libfaketime ends programs that have a memory allocator of their own.)
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long error_s(void) {
    const char *seconds = getenv("CLOCK_ERROR_S");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += error_s();
    }
    return (int)failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    long failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed) {
        now->tv_sec += error_s();
    }
    return (int)failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
