#pragma once

#include "actors/schedule/schedule.hpp"

namespace troupe {

/// For each stage the names of its actions, in running order.
std::vector<std::vector<std::string>> action_names(const schedule& s);

/// One line a stage: "s0   F0 F1 B0 …".
std::string to_text(const schedule& s);

/// One line a stage: "0F0,0F1,…". Each entry is virtual stage, F, B, I or W, micro-batch: the compute-only CSV of
/// torch.distributed.pipelining.
std::string to_csv(const schedule& s);

/// Reads what `to_csv` and torch.distributed.pipelining write; skips empty entries (idle slots), takes apart
/// "(0F7;7B3)OVERLAP_F_B", and knows that a B whose W is listed too is an I. What it returns passes `validate`; no
/// bound of activations is declared. Errors: `invalid_argument`: the line and entry that is none, stages that lie
/// neither looped nor in a V, or a schedule that is not valid.
result<schedule> from_csv(std::string_view csv, std::string_view name);

}  // namespace troupe
