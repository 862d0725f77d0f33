#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "runtime/planning/cluster.hpp"
#include "runtime/planning/model_cut.hpp"
#include "runtime/planning/placement.hpp"

namespace troupe::planning {

/// Where the time of a step goes, on the stage with the most work. Seconds; they add up to the step.
struct step_terms {
  double matrix = 0;       ///< matrix products
  double elementwise = 0;  ///< everything else that a device computes, bound by memory
  double recompute = 0;    ///< all that the backward does again
  double collectives = 0;  ///< of tensor shards
  double messages = 0;     ///< handling messages of the pipeline
  double bubble = 0;       ///< idle between the first and the last action of the pipeline
  double gradients = 0;    ///< exchange of gradients that no backward hides
  double update = 0;       ///< the optimizer, and with ZeRO-1 the exchange of parameters

  double total() const noexcept {
    return matrix + elementwise + recompute + collectives + messages + bubble + gradients + update;
  }
};
inline constexpr std::array<std::pair<std::string_view, double step_terms::*>, 8> step_term_names{{
    {"matrix products", &step_terms::matrix},
    {"elementwise", &step_terms::elementwise},
    {"recompute", &step_terms::recompute},
    {"tensor collectives", &step_terms::collectives},
    {"messages", &step_terms::messages},
    {"bubble", &step_terms::bubble},
    {"gradient exchange", &step_terms::gradients},
    {"update", &step_terms::update},
}};

/// Seconds of the actions of one chunk. A whole backward is the sum of its halves.
struct chunk_seconds {
  double forward = 0, backward_input = 0, backward_weight = 0;
  step_terms terms;  ///< of the three together

  double of(pass what) const noexcept {
    switch (what) {
      case pass::forward:
        return forward;
      case pass::backward_input:
        return backward_input;
      case pass::backward_weight:
        return backward_weight;
      case pass::backward:
        break;
    }
    return backward_input + backward_weight;
  }
};

/// `messages`: that a forward of this chunk gets from other stages and sends to them; a backward has as many.
chunk_seconds seconds_of(const training_plan& plan, const cluster& on, const chunk_costs& chunk,
                         std::uint32_t messages);

/// The count of those of virtual stage `v`.
std::uint32_t messages_of(const schedule& s, std::uint32_t v);

/// From the end of an action to the arrival of its result at a neighbour, on the same node or another.
double hop_s(const training_plan& plan, const cluster& on, bool inside);

/// What crosses between shards in one step.
mesh_traffic traffic_of(const training_plan& plan, const std::vector<chunk_costs>& chunks, const schedule& s);

/// No step is shorter: a stage with the mean work, or the dearest chunk, without a pause. Takes no simulation.
double least_step_s(const training_plan& plan, const cluster& on, const std::vector<chunk_costs>& chunks);

}  // namespace troupe::planning
