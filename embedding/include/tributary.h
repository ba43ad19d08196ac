// Tributary for C: the aggregator and the worker over memory of yours.
// Made by cbindgen; change the Rust source instead, then see embedding/README.md.

#ifndef TRIBUTARY_H
#define TRIBUTARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
// Yours to define; must not return. An aggregator never calls it; a worker does if its memory was written to by others.
void tributary_panic(void);
#ifdef __cplusplus
}
#endif

// Values in a chunk.
#define TRIBUTARY_LANES 256

// Chunks in flight of a job, at most: the aggregator's slots.
#define TRIBUTARY_WINDOW 16

// Bytes of the largest packet.
#define TRIBUTARY_PACKET_BYTES 1080

// Bytes of memory that an aggregator needs, aligned to 8.
#define TRIBUTARY_AGGREGATOR_BYTES 204800

// Bytes of memory that a worker needs, aligned to 8.
#define TRIBUTARY_WORKER_BYTES 20480

// Whether a job was admitted, or why not.
enum TributaryAdmission {
  // It was.
  TRIBUTARY_ADMISSION_ADMITTED,
  // Not 1 to 64 members.
  TRIBUTARY_ADMISSION_MEMBERS,
  // The window is no power of two.
  TRIBUTARY_ADMISSION_WINDOW,
  // The key is 0 or taken.
  TRIBUTARY_ADMISSION_KEY,
  // Too many jobs.
  TRIBUTARY_ADMISSION_JOBS,
  // The slots that are free are fewer than the window.
  TRIBUTARY_ADMISSION_MEMORY,
};

// What to do with what `tributary_aggregator_handle` wrote.
enum TributaryAction {
  // Nothing was written.
  TRIBUTARY_ACTION_QUIET,
  // Send it to the source of the packet.
  TRIBUTARY_ACTION_REPLY,
  // Send it to every member of the job.
  TRIBUTARY_ACTION_BROADCAST,
};

// An aggregator. Its slots serve one job with the whole window, or several with smaller ones.
struct TributaryAggregator;

// A worker.
struct TributaryWorker;

// The address and port that packets come from.
struct TributaryEndpoint {
  // An IPv6 address in network byte order; IPv4 as `::ffff:a.b.c.d`. On a link without either, whatever tells the
  // members apart.
  uint8_t ip[16];
  // The UDP port.
  uint16_t port;
};

// The outcome of a packet.
struct TributaryVerdict {
  // Whom to send it to.
  enum TributaryAction action;
  // Of a broadcast: the job.
  uint64_t key;
  // Bytes to send.
  size_t len;
};

// What a worker is told when it joins a job. Its window is `TRIBUTARY_WINDOW`.
struct TributaryWorkerConfig {
  // The job's key.
  uint64_t key;
  // Nanoseconds without any result after which an operation fails.
  uint64_t timeout;
  // The aggregator's epoch.
  uint32_t epoch;
  // This worker's number.
  uint8_t member;
  // How many workers the job has.
  uint8_t members;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes an aggregator without jobs in `memory`, of at least `TRIBUTARY_AGGREGATOR_BYTES` bytes aligned to 8; null
// where it is smaller. `epoch` must be above that of every earlier start. Takes as much stack, this once.
//
// # Safety
// `memory` must point to `bytes` writable bytes that nothing else uses as long as the aggregator is used.
struct TributaryAggregator *tributary_aggregator_init(void *memory,
                                                      size_t bytes,
                                                      uint32_t epoch);

// Admits a job of the workers that send from `sources`, in the order of their numbers. `key` should be random.
//
// # Safety
// `aggregator` must come from `tributary_aggregator_init`, `sources` must point to `members` endpoints.
enum TributaryAdmission tributary_aggregator_admit(struct TributaryAggregator *aggregator,
                                                   uint64_t key,
                                                   const struct TributaryEndpoint *sources,
                                                   size_t members,
                                                   uint16_t window);

// Forgets a job and frees its slots.
//
// # Safety
// `aggregator` must come from `tributary_aggregator_init`.
void tributary_aggregator_release(struct TributaryAggregator *aggregator, uint64_t key);

// Handles one packet; any bytes at all may come. What is to be sent is written to `out`, of at least
// `TRIBUTARY_PACKET_BYTES` bytes. `now` is in nanoseconds and must not run backwards. Never panics.
//
// # Safety
// `aggregator` must come from `tributary_aggregator_init`; `packet` must point to `packet_len` bytes, `source` to an
// endpoint, and `out` to `out_len` bytes that none of the others share.
struct TributaryVerdict tributary_aggregator_handle(struct TributaryAggregator *aggregator,
                                                    const uint8_t *packet,
                                                    size_t packet_len,
                                                    const struct TributaryEndpoint *source,
                                                    uint64_t now,
                                                    uint8_t *out,
                                                    size_t out_len);

// Provided by the host; must not return. The aggregator never calls it; a worker does if the host breaks its
// contract.
extern void tributary_panic(void);

// Makes a worker in `memory`, of at least `TRIBUTARY_WORKER_BYTES` bytes aligned to 8; null where it is smaller.
//
// # Safety
// `memory` must point to `bytes` writable bytes that nothing else uses as long as the worker is used; `config` to a
// configuration.
struct TributaryWorker *tributary_worker_init(void *memory,
                                              size_t bytes,
                                              const struct TributaryWorkerConfig *config);

// Starts the sum of `elements` integers over all workers; false where the last one has not ended or has failed.
// Every worker must start the same sums in the same order.
//
// # Safety
// `worker` must come from `tributary_worker_init`.
bool tributary_worker_start(struct TributaryWorker *worker,
                            size_t elements,
                            uint64_t now);

// Whether a sum is under way.
//
// # Safety
// `worker` must come from `tributary_worker_init`.
bool tributary_worker_is_busy(const struct TributaryWorker *worker);

// Whether a sum failed: a member or the aggregator is missing, or the members disagree on the sum. It is over then.
//
// # Safety
// `worker` must come from `tributary_worker_init`.
bool tributary_worker_has_failed(const struct TributaryWorker *worker);

// Writes the next packet for the aggregator to `out`, of at least `TRIBUTARY_PACKET_BYTES` bytes, and returns its
// length; 0 when there is nothing to send now. `values` must be the same from the start of a sum to its end.
//
// # Safety
// `worker` must come from `tributary_worker_init`; `values` must point to `elements` integers and `out` to `out_len`
// bytes; none may share memory.
size_t tributary_worker_transmit(struct TributaryWorker *worker,
                                 uint64_t now,
                                 int32_t *values,
                                 size_t elements,
                                 uint8_t *out,
                                 size_t out_len);

// Takes in one packet from the aggregator; any bytes at all may come. Sums are written to `values`.
//
// # Safety
// `worker` must come from `tributary_worker_init`; `packet` must point to `packet_len` bytes and `values` to
// `elements` integers; none may share memory.
void tributary_worker_handle(struct TributaryWorker *worker,
                             uint64_t now,
                             const uint8_t *packet,
                             size_t packet_len,
                             int32_t *values,
                             size_t elements);

// When to call `tributary_worker_handle_timeout`; `UINT64_MAX` while no sum is under way.
//
// # Safety
// `worker` must come from `tributary_worker_init`.
uint64_t tributary_worker_next_timeout(const struct TributaryWorker *worker);

// Does what is due: makes lost packets be sent again, or fails the sum.
//
// # Safety
// `worker` must come from `tributary_worker_init`.
void tributary_worker_handle_timeout(struct TributaryWorker *worker, uint64_t now);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TRIBUTARY_H */
