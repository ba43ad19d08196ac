/* What Tributary uses of DPDK, without DPDK's types: struct layouts stay in C, so that one source serves 22.11 to 24.11.
 * Functions that can fail return a negative errno. Each is described where it is declared in src/lib.rs. */
#ifndef TRIBUTARY_DPDK_SHIM_H
#define TRIBUTARY_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct shim_view {
	uint8_t *data;
	uint16_t len;
	uint16_t room;
	uint16_t segments;
};

/* What the driver says of a frame: SHIM_... below, and the tag that it has taken out. */
struct shim_arrival {
	uint16_t flags;
	uint16_t tag;
	uint16_t segments;
};

/* A VLAN tag was taken out of the frame. */
#define SHIM_UNTAGGED 1
/* The checksum of the IPv4 header, or that of UDP, is wrong. */
#define SHIM_BAD_IP 2
#define SHIM_BAD_UDP 4

struct shim_port_info {
	uint32_t max_frame;
	uint16_t max_queues;
	uint16_t mtu;
	int32_t socket;
	uint8_t mac[6];
	uint8_t has_checksums;
	uint8_t has_scatter;
	char driver[32];
};

struct shim_port_config {
	void **pools;
	uint16_t queues;
	uint16_t receive_ring;
	uint16_t send_ring;
	uint16_t mtu;
	uint8_t checksums;
	uint8_t scatter;
	uint8_t multicast;
};

struct shim_port_stats {
	uint64_t received;
	uint64_t sent;
	uint64_t missed;
	uint64_t receive_errors;
	uint64_t send_errors;
	uint64_t no_mbuf;
};

struct shim_steering {
	uint16_t udp_port;
	uint16_t queue;
	uint8_t is_ipv6;
	uint8_t has_tag;
};

const char *shim_version(void);
const char *shim_strerror(int code);

int shim_eal_init(int argc, char **argv, char **log);
void shim_log_free(char *log);
int shim_thread_register(void);
void shim_thread_unregister(void);

void *shim_pool_create(const char *name, unsigned int count, unsigned int cache, uint16_t room, int socket, int *error);
unsigned int shim_pool_available(const void *pool);

void *shim_alloc(void *pool);
int shim_alloc_bulk(void *pool, void **mbufs, unsigned int count);
void shim_free_bulk(void **mbufs, unsigned int count);
void shim_view(void *mbuf, struct shim_view *view);
void shim_set_len(void *mbuf, uint16_t len);
void shim_arrival(const void *mbuf, struct shim_arrival *arrival);
void shim_set_arrival(void *mbuf, const struct shim_arrival *arrival);
int shim_append(void *mbuf, void *behind);
int shim_gather(const void *from, void *into);
int shim_insert_tag(void *mbuf, uint16_t tag);
void shim_offload_checksums(void *mbuf, uint16_t ethernet, uint8_t is_ipv6);

int shim_device_add(const char *driver_and_number, const char *args);
/* Queues that a port of rings has at most: as many as net_ring takes. */
#define SHIM_RING_QUEUES 16
int shim_ring_pair(const char *name, unsigned int size, unsigned int queues, uint16_t *ports);
int shim_port_by_name(const char *name, uint16_t *port);
int shim_port_next(uint16_t from);
int shim_port_name(uint16_t port, char *name, size_t room);
int shim_port_info(uint16_t port, struct shim_port_info *info);
int shim_port_start(uint16_t port, const struct shim_port_config *config, uint16_t *rings);
int shim_port_restart(uint16_t port);
int shim_port_close(uint16_t port);
int shim_port_stats(uint16_t port, struct shim_port_stats *stats);
uint16_t shim_receive(uint16_t port, uint16_t queue, void **mbufs, uint16_t count);
uint16_t shim_send(uint16_t port, uint16_t queue, void **mbufs, uint16_t count);

int shim_steer(uint16_t port, const struct shim_steering *to, char *said, size_t room);
int shim_port_link(uint16_t port);

void *shim_ring_create(const char *name, unsigned int size, int socket, int *error);
void shim_ring_free(void *ring);
unsigned int shim_ring_enqueue(void *ring, void **mbufs, unsigned int count);
unsigned int shim_ring_dequeue(void *ring, void **mbufs, unsigned int count);
void shim_set_port(void *mbuf, uint16_t port);
uint16_t shim_port_of(const void *mbuf);

unsigned int shim_lcore(void);
int shim_lcore_next(int from);
int shim_lcore_node(unsigned int lcore);
int shim_launch(unsigned int lcore, int (*work)(void *), void *argument);
int shim_wait(unsigned int lcore);

int shim_gate_start(void);
void shim_gate_enter(void);
void shim_gate_leave(void);
struct shim_counter {
	char name[64];
	uint64_t value;
};

/* Writes the counters of a shard, or of all together (-1); returns how many, or more than there is room for. */
typedef size_t (*shim_count)(int shard, struct shim_counter *counters, size_t room);

int shim_telemetry(const char *command, const char *help, shim_count count);

#endif
