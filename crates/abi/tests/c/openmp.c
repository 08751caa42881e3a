/* Prints the number of workers, and the masks of the process and of this thread. */
#include <creel.h>
#include <omp.h>
#include <stdio.h>

int main(void)
{
    char process[256], thread[256];
    if (omp_get_max_threads() < 1) {
        return 1;
    }
    creel_process_mask(process, sizeof process);
    creel_thread_mask(thread, sizeof thread);
    printf("%u %s %s\n", creel_workers(), process, thread);
    return 0;
}
