#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/stage/model.hpp"

namespace troupe {

/// The bytes of a text file, or of all files of a folder in name order (links and sub-folders left out), as tokens
/// 0..255. Errors: `invalid_argument`: missing, unreadable or empty, with the path.
result<std::vector<std::uint8_t>> read_corpus(const std::string& path);

/// Sequences from a flat token array: sequence i of step k starts at token
/// ((k·global_batch + i)·seq_len) mod (n_tokens − seq_len − 1); targets are the tokens one later.
class text_source final : public data_source {
public:
  /// Errors: those of `read_corpus`, and a corpus shorter than seq_len + 2 tokens.
  static result<std::unique_ptr<data_source>> open(const model_settings& settings);

  tensor_spec input() const override { return {dtype::i32, {settings_.micro_batch, settings_.seq_len}}; }
  tensor_spec target() const override { return input(); }
  status read(std::uint64_t step, std::uint32_t micro_batch, const tensor& input, const tensor& target) override;

private:
  text_source(model_settings settings, std::vector<std::uint8_t> tokens)
      : settings_(std::move(settings)), tokens_(std::move(tokens)) {}
  model_settings settings_;
  std::vector<std::uint8_t> tokens_;
};

}  // namespace troupe
