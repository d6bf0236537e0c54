/* Preloaded into every program of a host: the wall clock is two hours ahead. Timers that count from a start are as they were. */
typedef long word;
struct two { word seconds, parts; };
extern void *dlsym(void *, const char *);
#define FIND(real, name) if (!real) real = dlsym((void *)-1, name)
#define AHEAD 7200
#define CLOCK_REALTIME 0
#define CLOCK_REALTIME_COARSE 5
#define FUTEX_CLOCK_REALTIME 256
#if defined(__x86_64__)
#define FUTEX 202
#else
#define FUTEX 98
#endif

int clock_gettime(int clock, struct two *now)
{
    static int (*real)(int, struct two *);
    int code;
    FIND(real, "clock_gettime");
    code = real(clock, now);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->seconds += AHEAD;
    return code;
}

int gettimeofday(struct two *now, void *zone)
{
    static int (*real)(struct two *, void *);
    int code;
    FIND(real, "gettimeofday");
    code = real(now, zone);
    if (code == 0 && now)
        now->seconds += AHEAD;
    return code;
}

word time(word *at)
{
    static word (*real)(word *);
    word now;
    FIND(real, "time");
    now = real(0) + AHEAD;
    if (at)
        *at = now;
    return now;
}

/* Waits until a wall clock's time, which is the kernel's. */
word syscall(word number, word a, word b, word c, struct two *until, word e, word f)
{
    static word (*real)(word, word, word, word, struct two *, word, word);
    struct two kernels;
    FIND(real, "syscall");
    if (number == FUTEX && (b & FUTEX_CLOCK_REALTIME) && until) {
        kernels = *until;
        kernels.seconds -= AHEAD;
        until = &kernels;
    }
    return real(number, a, b, c, until, e, f);
}
