#pragma once

#include <string_view>
#include <vector>

#include "actors/stage/model.hpp"

namespace troupe {

/// The models that come with Troupe: "gpt", a GPT-2 style decoder over byte tokens.
std::vector<model_definition> builtin_models();

/// The model of that kind; an unknown one is an error that lists the known ones.
result<model_definition> find_model(const std::vector<model_definition>& models, std::string_view kind);

}  // namespace troupe
