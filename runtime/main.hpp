#pragma once

#include <vector>

#include "actors/stage/model.hpp"

namespace troupe {

/// The whole `troupe` command, with models of your own beside the built-in ones: call it from your `main` and your
/// binary runs, shows and watches them like any other. Returns the exit code. The same binary is started again for each
/// worker process, so `models` must be the same on every call.
int main(int argc, char** argv, std::vector<model_definition> models = {});

}  // namespace troupe
