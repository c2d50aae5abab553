/* Says where each rank runs, and lets them agree on something: prints rank, node and CPUs, and the sum over all ranks. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    char mask[256] = "";
    for (int cpu = 0; cpu < CPU_SETSIZE && strlen(mask) < 240; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            snprintf(mask + strlen(mask), sizeof mask - strlen(mask), "%s%d", *mask ? "," : "", cpu);
        }
    }
    /* Which worker started it: ranks of one node share the directory of its worker. */
    const char *key = getenv("HQ_ACCESS_KEY");
    char worker[512] = "?";
    if (key) {
        snprintf(worker, sizeof worker, "%s", key);
        char *end = strrchr(worker, '/');
        if (end) *end = 0;
    }
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Get_processor_name(name, &length);
    printf("rank %d of %d on %s, cpus %s, worker %s\n", rank, ranks, name, mask, worker);
    fflush(stdout);

    int mine = rank + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
