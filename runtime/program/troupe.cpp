#include "runtime/main.hpp"

int main(int argc, char** argv) { return troupe::main(argc, argv); }
