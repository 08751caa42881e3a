/* Uses two libraries that each carry a copy of Creel. */
#include <stdio.h>

const char *first(void);
const char *second(void);

int main(void)
{
    int round;
    for (round = 0; round < 10; round++) {
        const char *a = first(), *b = second();
        /* The two copies have their text at two addresses. */
        if (a == NULL || b == NULL || a == b) {
            return 1;
        }
    }
    puts("ok");
    return 0;
}
