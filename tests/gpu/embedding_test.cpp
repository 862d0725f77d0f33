#include "gpu_bench.hpp"

using namespace troupe;

TEST_CASE("embedding and its gradient have the CPU's bits", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int32_t vocabulary : {1, 3, 50, 5000}) {
    const auto batch = bench.between(1, 5), sequence = bench.between(1, 300), hidden = bench.between(1, 600);
    CAPTURE(vocabulary, batch, sequence, hidden);
    const auto tokens = bench.indices({batch, sequence}, vocabulary);
    const auto token_table = bench.uniform({vocabulary, hidden}),
               position_table = bench.uniform({sequence + 2, hidden});
    const auto y = bench.uniform({batch, sequence, hidden});
    bench.compare({tokens, token_table, position_table, y}, 0,
                  [](backend& ops, const auto& t) { return ops.embedding(t[0], t[1], t[2], t[3]); });
    bench.compare({y, tokens, token_table, position_table}, 0,
                  [](backend& ops, const auto& t) { return ops.embedding_backward(t[0], t[1], t[2], t[3]); });
  }
}

TEST_CASE("one tensor shard's part of the embedding has the CPU's bits, with positions and without", "[gpu]") {
  gpu_bench bench;
  if (!bench) return;
  for (const std::int32_t rows : {1, 50, 700}) {
    const auto batch = bench.between(1, 5), sequence = bench.between(1, 100), hidden = bench.between(1, 300);
    const vocabulary_slice slice{rows, rows - rows / 3, 4L * rows};  // the table's last rows are padding
    CAPTURE(rows, batch, sequence, hidden);
    const auto tokens = bench.indices({batch, sequence}, 4 * rows);
    const auto table = bench.uniform({rows, hidden}), positions = bench.uniform({sequence, hidden});
    const auto y = bench.uniform({batch, sequence, hidden});
    bench.compare({tokens, table, positions, y}, 0,
                  [&](backend& ops, const auto& t) { return ops.embedding_slice(t[0], slice, t[1], t[2], t[3]); });
    bench.compare({tokens, table, y}, 0,
                  [&](backend& ops, const auto& t) { return ops.embedding_slice(t[0], slice, t[1], tensor(), t[2]); });
    bench.compare({y, tokens, table, positions}, 0, [&](backend& ops, const auto& t) {
      return ops.embedding_slice_backward(t[0], t[1], slice, t[2], t[3]);
    });
  }
}
