#include "catch.hpp"
#include "kernels/ops/backend.hpp"

using namespace troupe;

TEST_CASE("without a usable GPU a CUDA backend is refused with the reason and what to do", "[ops]") {
  const auto absent = make_backend({device_kind::cuda, 0});
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == errc::invalid_argument);
  const auto& text = absent.error().where;
  CAPTURE(text);
#ifdef TROUPE_WITH_CUDA
  CHECK(text.find("cuda:0: this machine has no usable CUDA device: ") == 0);
#else
  CHECK(text.find("cuda:0: this Troupe was built without CUDA") == 0);
#endif
  CHECK(text.find("set parallel.device = \"cpu\"") != std::string::npos);
}
