#include "actors/stage/parameter_table.hpp"

#include "catch.hpp"
#include "kernels/layers/gpt.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/mean_squared_error.hpp"

using namespace troupe;

TEST_CASE("a tied embedding is one parameter with two uses, on the first and the last stage", "[parameters]") {
  auto layers = make_gpt({2, 32, 2, 16, 64, true});
  REQUIRE(layers);
  const auto table = parameter_table::make(*layers, {1, 2, 1});
  REQUIRE(table);
  CHECK(table->parameters[0].name == "wte.weight");
  CHECK(table->shared(0));
  CHECK(table->stages_of(0) == std::vector<std::size_t>{0, 2});
  CHECK(table->uses.size() == table->parameters.size() + 1);
}

TEST_CASE("an untied model shares nothing", "[parameters]") {
  auto layers = make_gpt({2, 32, 2, 16, 64, false});
  REQUIRE(layers);
  const auto table = parameter_table::make(*layers, {4});
  REQUIRE(table);
  CHECK(table->uses.size() == table->parameters.size());
}

TEST_CASE("canonical order does not depend on the split", "[parameters]") {
  auto layers = make_gpt({3, 32, 2, 16, 64, true});
  REQUIRE(layers);
  const auto one = parameter_table::make(*layers, {5}), five = parameter_table::make(*layers, {1, 1, 1, 1, 1});
  REQUIRE(one);
  REQUIRE(five);
  REQUIRE(one->parameters.size() == five->parameters.size());
  for (std::size_t i = 0; i < one->parameters.size(); ++i) CHECK(one->parameters[i].name == five->parameters[i].name);
}

TEST_CASE("two layers that share a name with other extents are refused", "[parameters]") {
  layer_list layers;
  layers.push_back(std::make_unique<linear>("same", 4, 8));
  layers.push_back(std::make_unique<linear>("same", 8, 4));
  layers.push_back(std::make_unique<mean_squared_error>("loss"));
  const auto table = parameter_table::make(layers, {3});
  REQUIRE_FALSE(table);
  CHECK(table.error().where.find("same.weight") != std::string::npos);
}
