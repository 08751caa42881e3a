/* Uses two libraries that each carry a copy of Creel. */
#include <stdio.h>

int first(void);
int second(void);

int main(void)
{
    int round;
    for (round = 0; round < 10; round++) {
        if (first() != 0 || second() != 0) {
            return 1;
        }
    }
    puts("ok");
    return 0;
}
