#include "shim.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_telemetry.h>
#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
#define rte_tel_data_add_dict_uint rte_tel_data_add_dict_u64
#endif

/* A dictionary of DPDK's holds no more: RTE_TEL_MAX_DICT_ENTRIES. */
#define MOST 256

static shim_count count_of;

static int handle(const char *command, const char *parameters, struct rte_tel_data *data)
{
	struct shim_counter *counters;
	long shard = -1;
	size_t count, i;
	char *end;

	(void)command;
	if (parameters != NULL && *parameters != '\0') {
		shard = strtol(parameters, &end, 10);
		/* Beyond, an int would be another shard's number. */
		if (*end != '\0' || shard < 0 || shard > UINT16_MAX)
			return -EINVAL;
	}
	/* Each client has a thread. */
	counters = calloc(MOST, sizeof(*counters));
	if (counters == NULL)
		return -ENOMEM;
	count = count_of((int)shard, counters, MOST);
	if (count <= MOST) {
		rte_tel_data_start_dict(data);
		for (i = 0; i < count; i++)
			rte_tel_data_add_dict_uint(data, counters[i].name, counters[i].value);
	}
	free(counters);
	return count <= MOST ? 0 : -ENOENT;
}

int shim_telemetry(const char *command, const char *help, shim_count count)
{
	count_of = count;
	return rte_telemetry_register_cmd(command, handle, help);
}
