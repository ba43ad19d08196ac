#define _GNU_SOURCE
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_ip.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>
#include <rte_ring.h>
#include <rte_udp.h>
#include <rte_version.h>

/* rte_errno, never zero: a failure that gives no reason is a failure. */
static int reason(void)
{
	return rte_errno > 0 ? -rte_errno : -EIO;
}

const char *shim_version(void)
{
	return rte_version();
}

const char *shim_strerror(int code)
{
	return rte_strerror(code < 0 ? -code : code);
}

/* An argument that EAL does not know has it write eighty lines about all that it does know to standard output. Only who asks for
 * them gets them. */
static int is_help(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return 1;
	}
	return 0;
}

/* Standard output goes nowhere; returns where it went, or -1. */
static int output_off(void)
{
	int none, before;

	fflush(stdout);
	none = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (none < 0)
		return -1;
	before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	if (before >= 0)
		dup2(none, STDOUT_FILENO);
	close(none);
	return before;
}

static void output_on(int before)
{
	if (before < 0)
		return;
	fflush(stdout);
	dup2(before, STDOUT_FILENO);
	close(before);
}

/* What EAL logs while it starts says more than its error number. It is kept, and given back as a string. The stream
 * itself is never closed: threads that EAL has started may still be about to write to it. */
int shim_eal_init(int argc, char **argv, char **log)
{
	static char *text;
	static size_t len;
	FILE *stream = open_memstream(&text, &len);
	int used, output;

	if (stream != NULL)
		rte_openlog_stream(stream);
	output = is_help(argc, argv) ? -1 : output_off();
	used = rte_eal_init(argc, argv);
	output_on(output);
	if (used < 0)
		used = reason();
	if (stream != NULL) {
		rte_openlog_stream(NULL);
		fflush(stream);
		*log = text != NULL ? strndup(text, len) : NULL;
	}
	return used;
}

void shim_log_free(char *log)
{
	free(log);
}

int shim_thread_register(void)
{
	return rte_thread_register() == 0 ? 0 : reason();
}

void shim_thread_unregister(void)
{
	rte_thread_unregister();
}

void *shim_pool_create(const char *name, unsigned int count, unsigned int cache, uint16_t room, int socket, int *error)
{
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, count, cache, 0, RTE_PKTMBUF_HEADROOM + room, socket);

	*error = pool == NULL ? reason() : 0;
	return pool;
}

unsigned int shim_pool_available(const void *pool)
{
	return rte_mempool_avail_count(pool);
}

void *shim_alloc(void *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int shim_alloc_bulk(void *pool, void **mbufs, unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, (struct rte_mbuf **)mbufs, count);
}

void shim_free_bulk(void **mbufs, unsigned int count)
{
	rte_pktmbuf_free_bulk((struct rte_mbuf **)mbufs, count);
}

void shim_view(void *mbuf, struct shim_view *view)
{
	struct rte_mbuf *m = mbuf;

	view->data = rte_pktmbuf_mtod(m, uint8_t *);
	view->len = m->data_len;
	view->room = m->buf_len - m->data_off;
	view->segments = m->nb_segs;
}

void shim_set_len(void *mbuf, uint16_t len)
{
	struct rte_mbuf *m = mbuf;

	m->data_len = len;
	m->pkt_len = len;
}

void shim_arrival(const void *mbuf, struct shim_arrival *arrival)
{
	const struct rte_mbuf *m = mbuf;
	uint64_t flags = m->ol_flags;

	arrival->segments = m->nb_segs;
	arrival->tag = m->vlan_tci;
	arrival->flags = 0;
	if (flags & RTE_MBUF_F_RX_VLAN_STRIPPED)
		arrival->flags |= SHIM_UNTAGGED;
	if ((flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD)
		arrival->flags |= SHIM_BAD_IP;
	if ((flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD)
		arrival->flags |= SHIM_BAD_UDP;
}

void shim_set_arrival(void *mbuf, const struct shim_arrival *arrival)
{
	struct rte_mbuf *m = mbuf;

	if (arrival->flags & SHIM_UNTAGGED)
		m->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
	if (arrival->flags & SHIM_BAD_IP)
		m->ol_flags |= RTE_MBUF_F_RX_IP_CKSUM_BAD;
	if (arrival->flags & SHIM_BAD_UDP)
		m->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_BAD;
	m->vlan_tci = arrival->tag;
}

int shim_append(void *mbuf, void *behind)
{
	return rte_pktmbuf_chain(mbuf, behind);
}

/* Into an empty mbuf; what the driver says of the frame stays where it is. */
int shim_gather(const void *from, void *into)
{
	const struct rte_mbuf *m = from;
	struct rte_mbuf *out = into;
	uint32_t len = m->pkt_len;
	uint8_t *to;

	if (len > UINT16_MAX)
		return -EMSGSIZE;
	to = (uint8_t *)rte_pktmbuf_append(out, len);
	if (to == NULL)
		return -EMSGSIZE;
	for (; m != NULL; m = m->next) {
		memcpy(to, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
		to += m->data_len;
	}
	return 0;
}

int shim_insert_tag(void *mbuf, uint16_t tag)
{
	struct rte_mbuf *m = mbuf;

	m->vlan_tci = tag;
	return rte_vlan_insert(&m);
}

void shim_offload_checksums(void *mbuf, uint16_t ethernet, uint8_t is_ipv6)
{
	struct rte_mbuf *m = mbuf;
	void *ip = rte_pktmbuf_mtod_offset(m, void *, ethernet);
	struct rte_ipv4_hdr *ipv4 = ip;
	struct rte_udp_hdr *udp;

	m->l2_len = ethernet;
	m->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
	if (is_ipv6) {
		m->l3_len = sizeof(struct rte_ipv6_hdr);
		m->ol_flags |= RTE_MBUF_F_TX_IPV6;
		udp = (struct rte_udp_hdr *)((struct rte_ipv6_hdr *)ip + 1);
		udp->dgram_cksum = rte_ipv6_phdr_cksum(ip, m->ol_flags);
	} else {
		m->l3_len = sizeof(struct rte_ipv4_hdr);
		m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
		udp = (struct rte_udp_hdr *)(ipv4 + 1);
		ipv4->hdr_checksum = 0;
		udp->dgram_cksum = rte_ipv4_phdr_cksum(ipv4, m->ol_flags);
	}
}

int shim_device_add(const char *driver_and_number, const char *args)
{
	return rte_eal_hotplug_add("vdev", driver_and_number, args);
}

/* Two ports of which each receives what the other sends, queue by queue. */
int shim_ring_pair(const char *name, unsigned int size, unsigned int queues, uint16_t *ports)
{
	char text[RTE_ETH_NAME_MAX_LEN];
	struct rte_ring *rings[2][SHIM_RING_QUEUES];
	unsigned int queue;
	int i, port;

	if (queues == 0 || queues > SHIM_RING_QUEUES)
		return -EINVAL;
	for (i = 0; i < 2; i++) {
		for (queue = 0; queue < queues; queue++) {
			snprintf(text, sizeof(text), "%s_%d_%u", name, i, queue);
			rings[i][queue] = rte_ring_create(text, size, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
			if (rings[i][queue] == NULL)
				return reason();
		}
	}
	for (i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "%s_%d", name, i);
		port = rte_eth_from_rings(text, rings[i], queues, rings[1 - i], queues, 0);
		if (port < 0)
			return reason();
		ports[i] = port;
	}
	return 0;
}

int shim_port_by_name(const char *name, uint16_t *port)
{
	return rte_eth_dev_get_port_by_name(name, port);
}

int shim_port_next(uint16_t from)
{
	uint64_t next = rte_eth_find_next_owned_by(from, RTE_ETH_DEV_NO_OWNER);

	return next >= RTE_MAX_ETHPORTS ? -1 : (int)next;
}

int shim_port_name(uint16_t port, char *name, size_t room)
{
	char text[RTE_ETH_NAME_MAX_LEN];
	int code = rte_eth_dev_get_name_by_port(port, text);

	if (code == 0)
		snprintf(name, room, "%s", text);
	return code;
}

#define CHECKSUMS (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define VERIFIED (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM)

int shim_port_info(uint16_t port, struct shim_port_info *info)
{
	struct rte_eth_dev_info dev;
	struct rte_ether_addr mac;
	int code = rte_eth_dev_info_get(port, &dev);

	if (code != 0)
		return code;
	memset(info, 0, sizeof(*info));
	info->max_frame = dev.max_rx_pktlen;
	info->max_queues = RTE_MIN(dev.max_rx_queues, dev.max_tx_queues);
	info->socket = rte_eth_dev_socket_id(port);
	info->has_checksums = (dev.tx_offload_capa & CHECKSUMS) == CHECKSUMS;
	info->has_scatter = (dev.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
	snprintf(info->driver, sizeof(info->driver), "%s", dev.driver_name);
	code = rte_eth_dev_get_mtu(port, &info->mtu);
	if (code != 0)
		return code;
	code = rte_eth_macaddr_get(port, &mac);
	if (code == 0)
		memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	return code;
}

int shim_port_start(uint16_t port, const struct shim_port_config *config, uint16_t *rings)
{
	struct rte_eth_conf conf;
	struct rte_eth_dev_info dev;
	uint16_t receive = config->receive_ring, send = config->send_ring, queue;
	int socket = rte_eth_dev_socket_id(port);
	int code = rte_eth_dev_info_get(port, &dev);

	if (code != 0)
		return code;
	memset(&conf, 0, sizeof(conf));
	if (config->checksums)
		conf.txmode.offloads = CHECKSUMS;
	conf.rxmode.offloads = dev.rx_offload_capa & VERIFIED;
	if (config->scatter)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
	/* Virtual devices say that they carry less than they do: they are not asked unless the user does. */
	if (config->mtu != 0)
		conf.rxmode.mtu = config->mtu;
	code = rte_eth_dev_configure(port, config->queues, config->queues, &conf);
	if (code == 0)
		code = rte_eth_dev_adjust_nb_rx_tx_desc(port, &receive, &send);
	for (queue = 0; code == 0 && queue < config->queues; queue++)
		code = rte_eth_rx_queue_setup(port, queue, receive, socket, NULL, config->pools[queue]);
	for (queue = 0; code == 0 && queue < config->queues; queue++)
		code = rte_eth_tx_queue_setup(port, queue, send, socket, NULL);
	if (code == 0)
		code = rte_eth_dev_start(port);
	/* Virtual devices refuse it, and receive what is for groups unasked. */
	if (code == 0 && config->multicast)
		rte_eth_allmulticast_enable(port);
	rings[0] = receive;
	rings[1] = send;
	return code;
}

int shim_port_restart(uint16_t port)
{
	int code = rte_eth_dev_stop(port);

	return code != 0 ? code : rte_eth_dev_start(port);
}

int shim_port_close(uint16_t port)
{
	int code = rte_eth_dev_stop(port);
	int closed = rte_eth_dev_close(port);

	return code != 0 ? code : closed;
}

int shim_port_stats(uint16_t port, struct shim_port_stats *stats)
{
	struct rte_eth_stats from;
	int code = rte_eth_stats_get(port, &from);

	if (code != 0)
		return code;
	stats->received = from.ipackets;
	stats->sent = from.opackets;
	stats->missed = from.imissed;
	stats->receive_errors = from.ierrors;
	stats->send_errors = from.oerrors;
	stats->no_mbuf = from.rx_nombuf;
	return 0;
}

uint16_t shim_receive(uint16_t port, uint16_t queue, void **mbufs, uint16_t count)
{
	uint16_t received = rte_eth_rx_burst(port, queue, (struct rte_mbuf **)mbufs, count);
	uint16_t i;

	/* Headers, with IPv6 and a tag more than a line. */
	for (i = 0; i < received; i++) {
		uint8_t *frame = rte_pktmbuf_mtod((struct rte_mbuf *)mbufs[i], uint8_t *);

		rte_prefetch0(frame);
		rte_prefetch0(frame + RTE_CACHE_LINE_SIZE);
	}
	return received;
}

uint16_t shim_send(uint16_t port, uint16_t queue, void **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, (struct rte_mbuf **)mbufs, count);
}

/* Of the patterns that drivers know, the one that says least: UDP to this port, whatever else is in the frame. */
int shim_steer(uint16_t port, const struct shim_steering *to, char *said, size_t room)
{
	const struct rte_flow_attr attr = { .ingress = 1 };
	const struct rte_flow_item_udp spec = { .hdr.dst_port = rte_cpu_to_be_16(to->udp_port) };
	const struct rte_flow_item_udp mask = { .hdr.dst_port = 0xffff };
	const struct rte_flow_action_queue queue = { .index = to->queue };
	const struct rte_flow_item pattern[] = {
		{ .type = RTE_FLOW_ITEM_TYPE_ETH },
		{ .type = to->has_tag ? RTE_FLOW_ITEM_TYPE_VLAN : RTE_FLOW_ITEM_TYPE_VOID },
		{ .type = to->is_ipv6 ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4 },
		{ .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &spec, .mask = &mask },
		{ .type = RTE_FLOW_ITEM_TYPE_END },
	};
	const struct rte_flow_action actions[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_error error = { 0 };

	if (rte_flow_create(port, &attr, pattern, actions, &error) != NULL)
		return 0;
	snprintf(said, room, "%s", error.message != NULL ? error.message : "");
	return reason();
}

int shim_port_link(uint16_t port)
{
	struct rte_eth_link link;
	int code = rte_eth_link_get_nowait(port, &link);

	return code != 0 ? code : link.link_status == RTE_ETH_LINK_UP;
}

void *shim_ring_create(const char *name, unsigned int size, int socket, int *error)
{
	struct rte_ring *ring = rte_ring_create(name, size, socket, RING_F_SP_ENQ | RING_F_SC_DEQ);

	*error = ring == NULL ? reason() : 0;
	return ring;
}

void shim_ring_free(void *ring)
{
	rte_ring_free(ring);
}

unsigned int shim_ring_enqueue(void *ring, void **mbufs, unsigned int count)
{
	return rte_ring_sp_enqueue_burst(ring, mbufs, count, NULL);
}

unsigned int shim_ring_dequeue(void *ring, void **mbufs, unsigned int count)
{
	unsigned int taken = rte_ring_sc_dequeue_burst(ring, mbufs, count, NULL);
	unsigned int i;

	for (i = 0; i < taken; i++)
		rte_prefetch0(rte_pktmbuf_mtod((struct rte_mbuf *)mbufs[i], void *));
	return taken;
}

void shim_set_port(void *mbuf, uint16_t port)
{
	((struct rte_mbuf *)mbuf)->port = port;
}

uint16_t shim_port_of(const void *mbuf)
{
	return ((const struct rte_mbuf *)mbuf)->port;
}

unsigned int shim_lcore(void)
{
	return rte_lcore_id();
}

int shim_lcore_next(int from)
{
	unsigned int next = rte_get_next_lcore(from, 1, 0);

	return next >= RTE_MAX_LCORE ? -1 : (int)next;
}

int shim_lcore_node(unsigned int lcore)
{
	return rte_socket_count() > 1 ? (int)rte_lcore_to_socket_id(lcore) : -1;
}

int shim_launch(unsigned int lcore, int (*work)(void *), void *argument)
{
	return rte_eal_remote_launch(work, argument, lcore);
}

int shim_wait(unsigned int lcore)
{
	return rte_eal_wait_lcore(lcore);
}

/* EAL's interrupt thread goes through the gate only while no burst is under way. An alarm of that thread holds it up until there is
 * something for it to do, takes the lock that bursts share, and sets itself again: what there is to do it does until then. So the
 * lock is taken in one call and released in the next, both in that thread.
 *
 * What it waits for is behind a descriptor that EAL does not give out. It is the only epoll that watches a timer: EAL's alarm.
 * Should there be others, the thread looks every millisecond. It must not wait long in any case: net_memif makes EAL panic when a
 * peer has connected and gone before it was greeted. */
#define GATE_MS 100
#define GATE_BLIND_US 1000

static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static atomic_int gate_is_shut;

static int is_a(const char *descriptor, const char *kind)
{
	char path[300], link[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%s", descriptor);
	len = readlink(path, link, sizeof(link) - 1);
	if (len < 0)
		return 0;
	link[len] = '\0';
	return strcmp(link, kind) == 0;
}

static int watches_a_timer(const char *epoll)
{
	char path[300], line[256], watched[16];
	FILE *info;
	int does = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", epoll);
	info = fopen(path, "r");
	if (info == NULL)
		return 0;
	while (!does && fgets(line, sizeof(line), info) != NULL)
		does = sscanf(line, "tfd: %15s", watched) == 1 && is_a(watched, "anon_inode:[timerfd]");
	fclose(info);
	return does;
}

/* What the interrupt thread waits for; -1: it cannot be told. */
static int interrupts(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *one;
	int found = -1;

	if (all == NULL)
		return -1;
	while ((one = readdir(all)) != NULL) {
		if (!is_a(one->d_name, "anon_inode:[eventpoll]") || !watches_a_timer(one->d_name))
			continue;
		if (found >= 0) {
			found = -1;
			break;
		}
		found = atoi(one->d_name);
	}
	closedir(all);
	return found;
}

static void gate_wait(void)
{
	struct pollfd pending = { .fd = interrupts(), .events = POLLIN };

	if (pending.fd < 0)
		usleep(GATE_BLIND_US);
	else
		poll(&pending, 1, GATE_MS);
}

static void gate_turn(void *is_locked)
{
	if (is_locked != NULL)
		pthread_rwlock_unlock(&gate);
	atomic_store(&gate_is_shut, 1);
	do {
		gate_wait();
	} while (rte_eal_alarm_set(1, gate_turn, &gate) != 0);
	pthread_rwlock_wrlock(&gate);
}

int shim_gate_start(void)
{
	int code = rte_eal_alarm_set(1, gate_turn, NULL);
	int waited;

	for (waited = 0; code == 0 && !atomic_load(&gate_is_shut); waited++) {
		if (waited == 50000)
			return -ETIMEDOUT;
		usleep(100);
	}
	return code;
}

void shim_gate_enter(void)
{
	pthread_rwlock_rdlock(&gate);
}

void shim_gate_leave(void)
{
	pthread_rwlock_unlock(&gate);
}
