/*
 * An all-reduce with MPI, what gloo.py does: for `tributary bench allreduce --compare openmpi`, where all ranks are on one
 * machine, and for `cargo xtask compare`, where each has a link of its own.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Bytes that have left by the loopback interface of this machine. */
static unsigned long long sent(void)
{
	FILE *file = fopen("/proc/net/dev", "r");
	unsigned long long bytes = 0;
	char line[512], *at;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if ((at = strstr(line, "lo:")) != NULL)
			sscanf(at + 3, "%*u %*u %*u %*u %*u %*u %*u %*u %llu", &bytes);
	if (file != NULL)
		fclose(file);
	return bytes;
}

static void fill(void *values, int is_float, size_t count, int value)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (is_float)
			((float *)values)[i] = (float)value;
		else
			((int *)values)[i] = value;
}

static void check(const void *values, int is_float, size_t count, int expected)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (is_float ? ((const float *)values)[i] != (float)expected : ((const int *)values)[i] != expected) {
			fprintf(stderr, "MPI's sum is wrong\n");
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

static void measure(int is_float, size_t bytes, int iterations)
{
	MPI_Datatype type = is_float ? MPI_FLOAT : MPI_INT;
	size_t count = bytes / 4;
	int rank, world, turn, expected;
	void *values = malloc(bytes > 0 ? bytes : 1);
	double *times = malloc(iterations * sizeof(*times)), used = 0, total = 0;
	unsigned long long before;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &world);
	expected = world * (world + 1) / 2;
	fill(values, is_float, count, rank + 1);
	MPI_Allreduce(MPI_IN_PLACE, values, (int)count, type, MPI_SUM, MPI_COMM_WORLD);
	check(values, is_float, count, expected);
	before = sent();
	for (turn = 0; turn < iterations; turn++) {
		double begun, begun_cpu;

		fill(values, is_float, count, rank + 1);
		MPI_Barrier(MPI_COMM_WORLD);
		begun = MPI_Wtime();
		begun_cpu = cpu();
		MPI_Allreduce(MPI_IN_PLACE, values, (int)count, type, MPI_SUM, MPI_COMM_WORLD);
		times[turn] = MPI_Wtime() - begun;
		used += cpu() - begun_cpu;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	before = sent() - before;
	check(values, is_float, count, expected);
	MPI_Allreduce(MPI_IN_PLACE, times, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Reduce(&used, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		printf("{\"bytes\": %zu, \"cpu\": %.9f, \"sent\": %llu, \"seconds\": [", bytes, total, before);
		for (turn = 0; turn < iterations; turn++)
			printf("%s%.9f", turn > 0 ? ", " : "", times[turn]);
		printf("]}\n");
		fflush(stdout);
	}
	free(values);
	free(times);
}

int main(int argc, char **argv)
{
	int size;

	MPI_Init(&argc, &argv);
	for (size = 2; size < argc; size++) {
		unsigned long long bytes;
		int iterations;

		if (sscanf(argv[size], "%llu:%d", &bytes, &iterations) == 2 && iterations > 0)
			measure(strcmp(argv[1], "f32") == 0, bytes, iterations);
	}
	MPI_Finalize();
	return 0;
}
