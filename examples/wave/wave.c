/* The wave equation in one dimension, u_tt = c^2 u_xx, on a string that is fixed at both ends: a
 * distributed solver whose processes exchange the ends of their parts after every step, as the
 * Wave application of Sonmez (PhD thesis, TU Delft, 2010, section 2.5).
 *
 *     mpicc -O2 -o wave wave.c -lm
 *     mpirun -np 24 ./wave 24000 2000 field.txt
 *
 * Arguments: number of points, number of steps, output. Process 0 compares the result with that of
 * a serial solver, point by point, and fails if they differ. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const double COURANT = 0.5; /* c * dt / dx */
static const double PI = 3.14159265358979323846;

static double initial(long point, long points)
{
    double x = (double)point / (double)(points - 1);
    return sin(PI * x) + 0.5 * sin(7.0 * PI * x);
}

/* One step of the points 1 to count of `now`, whose neighbours are points 0 and count + 1. `first`
 * is the position of point 1 on the string of `points` points. */
static void step(const double *before, const double *now, double *next, long count, long first,
                 long points)
{
    for (long i = 1; i <= count; i++) {
        long point = first + i - 1;
        if (point == 0 || point == points - 1)
            next[i] = 0.0;
        else
            next[i] = 2.0 * now[i] - before[i] +
                      COURANT * COURANT * (now[i - 1] - 2.0 * now[i] + now[i + 1]);
    }
}

/* Solve for `count` points from `first` on. With left and right MPI_PROC_NULL it is serial. The
 * result is in the array that is returned, at 1 to count. */
static double *solve(long count, long first, long points, long steps, int left, int right)
{
    size_t bytes = (size_t)(count + 2) * sizeof(double);
    double *before = calloc(1, bytes), *now = calloc(1, bytes), *next = calloc(1, bytes);
    if (before == NULL || now == NULL || next == NULL) {
        fprintf(stderr, "wave: no memory for %ld points\n", count);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    for (long i = 1; i <= count; i++)
        before[i] = now[i] = initial(first + i - 1, points);
    for (long n = 0; n < steps; n++) {
        MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, left, 0, &now[count + 1], 1, MPI_DOUBLE, right, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&now[count], 1, MPI_DOUBLE, right, 1, &now[0], 1, MPI_DOUBLE, left, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        step(before, now, next, count, first, points);
        double *oldest = before;
        before = now;
        now = next;
        next = oldest;
    }
    free(before);
    free(next);
    return now;
}

static long first_of(int rank, int size, long points)
{
    return points * rank / size;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long points = argc > 3 ? atol(argv[1]) : 0, steps = argc > 3 ? atol(argv[2]) : 0;
    if (points < 2 * size || points > 100000000 || steps < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: wave POINTS STEPS OUTPUT, with two points or more a process\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double begun_s = MPI_Wtime();
    long first = first_of(rank, size, points);
    long count = first_of(rank + 1, size, points) - first;
    int left = rank == 0 ? MPI_PROC_NULL : rank - 1;
    int right = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
    double *part = solve(count, first, points, steps, left, right);
    double elapsed_s = MPI_Wtime() - begun_s;

    int *counts = calloc((size_t)size, sizeof(int)), *firsts = calloc((size_t)size, sizeof(int));
    double *field = rank == 0 ? calloc((size_t)points, sizeof(double)) : NULL;
    for (int r = 0; r < size; r++) {
        firsts[r] = (int)first_of(r, size, points);
        counts[r] = (int)first_of(r + 1, size, points) - firsts[r];
    }
    MPI_Gatherv(part + 1, (int)count, MPI_DOUBLE, field, counts, firsts, MPI_DOUBLE, 0,
                MPI_COMM_WORLD);

    int status = 0;
    if (rank == 0) {
        double *serial = solve(points, 0, points, steps, MPI_PROC_NULL, MPI_PROC_NULL);
        double most = 0.0;
        FILE *out = fopen(argv[3], "w");
        if (out == NULL) {
            perror(argv[3]);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        for (long i = 0; i < points; i++) {
            most = fmax(most, fabs(field[i] - serial[i + 1]));
            fprintf(out, "%.17g\n", field[i]);
        }
        if (fclose(out) != 0) {
            perror(argv[3]);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        printf("%d processes, %ld points, %ld steps in %.3f s; greatest difference to the serial "
               "result %g\n", size, points, steps, elapsed_s, most);
        status = most == 0.0 ? 0 : 1;
    }
    MPI_Finalize();
    return status;
}
