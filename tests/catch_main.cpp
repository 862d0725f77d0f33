#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
#endif

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
