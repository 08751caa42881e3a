#include <iostream>
#include <tbb/info.h>
int main() { std::cout << tbb::info::default_concurrency() << "\n"; }
