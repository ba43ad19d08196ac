// Two workers and an aggregator in one program, over static memory: each worker brings 1000 numbers, both get the
// sums. The "network" is a function call; one packet is lost on purpose.
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

#include "tributary.h"

enum { WORKERS = 2, ELEMENTS = 1000 };

static alignas(8) unsigned char aggregator_memory[TRIBUTARY_AGGREGATOR_BYTES];
static alignas(8) unsigned char worker_memory[WORKERS][TRIBUTARY_WORKER_BYTES];
static int32_t values[WORKERS][ELEMENTS];

void tributary_panic(void) {
    fputs("tributary_panic\n", stderr);
    abort();
}

int main(void) {
    struct TributaryAggregator *aggregator =
        tributary_aggregator_init(aggregator_memory, sizeof aggregator_memory, 1);
    const struct TributaryEndpoint addresses[WORKERS] = {{.port = 1}, {.port = 2}};
    const uint64_t key = 0x5eed;
    if (!aggregator || tributary_aggregator_admit(aggregator, key, addresses, WORKERS, TRIBUTARY_WINDOW) !=
                           TRIBUTARY_ADMISSION_ADMITTED) {
        fputs("the job is not admitted\n", stderr);
        return 1;
    }

    struct TributaryWorker *workers[WORKERS];
    uint64_t now = 1;
    for (int w = 0; w < WORKERS; w++) {
        const struct TributaryWorkerConfig config = {
            .key = key, .timeout = 1000000000, .epoch = 1, .member = (uint8_t)w, .members = WORKERS};
        for (int i = 0; i < ELEMENTS; i++) values[w][i] = (w + 1) * 1000000 - i;
        workers[w] = tributary_worker_init(worker_memory[w], sizeof worker_memory[w], &config);
        if (!workers[w] || !tributary_worker_start(workers[w], ELEMENTS, now)) {
            fputs("a worker does not start\n", stderr);
            return 1;
        }
    }

    unsigned char sent[TRIBUTARY_PACKET_BYTES], answer[TRIBUTARY_PACKET_BYTES];
    int lost = 0;
    while (tributary_worker_is_busy(workers[0]) || tributary_worker_is_busy(workers[1])) {
        for (int from = 0; from < WORKERS; from++) {
            size_t len;
            while ((len = tributary_worker_transmit(workers[from], now, values[from], ELEMENTS, sent, sizeof sent))) {
                if (lost++ == 2) continue;
                struct TributaryVerdict verdict = tributary_aggregator_handle(
                    aggregator, sent, len, &addresses[from], now, answer, sizeof answer);
                for (int to = 0; to < WORKERS; to++) {
                    if (verdict.action == TRIBUTARY_ACTION_BROADCAST ||
                        (verdict.action == TRIBUTARY_ACTION_REPLY && to == from))
                        tributary_worker_handle(workers[to], now, answer, verdict.len, values[to], ELEMENTS);
                }
            }
        }
        // Nothing is on its way any more: the time comes that lost packets are sent again.
        now += 1000000;
        for (int w = 0; w < WORKERS; w++) tributary_worker_handle_timeout(workers[w], now);
    }

    for (int w = 0; w < WORKERS; w++) {
        for (int i = 0; i < ELEMENTS; i++) {
            if (tributary_worker_has_failed(workers[w]) || values[w][i] != 3000000 - 2 * i) {
                fprintf(stderr, "worker %d, element %d: %d\n", w, i, (int)values[w][i]);
                return 1;
            }
        }
    }
    printf("%d workers have the sums of %d numbers, in %d packets, one of them lost\n", WORKERS, ELEMENTS, lost);
    return 0;
}
