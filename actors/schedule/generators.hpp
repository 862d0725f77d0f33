#pragma once

#include "actors/schedule/schedule.hpp"

// Stage i of p, m micro-batches, v chunks a stage. F, I and W are the times of a forward, of the gradient of the input
// and of the weights, of one micro-batch through one stage's layers; S = F + I + W. Spans are without the cost of a
// hop.
//
// The generators trust their argument; `make_schedule` checks it and proves what they return.

namespace troupe {

/// Forwards in micro-batch order and nothing else: evaluation. Any v.
schedule make_forward_only(schedule_shape shape);

/// All forwards, then all backwards in micro-batch order. v = 1. Span (m+p−1)·S; in flight m.
/// Source: Huang et al. 2018, GPipe, arXiv:1811.06965.
schedule make_gpipe(schedule_shape shape);

/// p−1−i warm-up forwards on stage i, then one forward and one backward in turn. v = 1. Span (m+p−1)·S; in flight
/// min(p−i, m). Source: Narayanan et al. 2020, PipeDream-Flush, arXiv:2006.09503; 2021, Megatron-LM, arXiv:2104.04473.
schedule make_1f1b(schedule_shape shape);

/// 1F1B over a stream of m micro-batches in which no step waits for the one before: a stage updates its weights after
/// every backward, and a micro-batch goes back through the weights that it came through (`pipedream_versions`). v = 1.
/// No bubble between fill and drain; in flight min(p−i, m). Source: Harlap et al. 2018, PipeDream, arXiv:1806.03377.
schedule make_pipedream(schedule_shape shape);

/// The same order; weights are updated once a step, and a step uses those of the step before
/// (`double_buffered_versions`): two versions are enough. Source: Narayanan et al. 2020, PipeDream-2BW,
/// arXiv:2006.09503, section 3.1.
schedule make_pipedream_2bw(schedule_shape shape);

/// 1F1B with 2(p−1−i) warm-up forwards: what it computes meanwhile hides the way of a tensor there and back. v = 1. In
/// flight min(2(p−1−i)+1, m).
schedule make_eager_1f1b(schedule_shape shape);

/// Each stage has v chunks, p virtual stages apart: the ramp is v times shorter, at v times the messages. Any v (1 is
/// eager 1F1B). Micro-batches pass in groups of p, chunk by chunk; when p does not divide m, in ⌊m/p⌋ groups whose
/// sizes differ by one at most; when m < p, in one. Span m·S + (p−1)·S/v when p divides m. Source: Narayanan et al.
/// 2021, Megatron-LM, arXiv:2104.04473, section 2.2.
schedule make_interleaved(schedule_shape shape);

/// 1F1B with its backward split: W of a micro-batch waits until i more micro-batches went backward, which fills the
/// drain. v = 1. Span m·S + (p−1)·(F+I−W); in flight min(p, m). Source: Qi et al. 2023, Zero Bubble, arXiv:2401.10241,
/// section 2.
schedule make_zb_h1(schedule_shape shape);

/// As ZB-H1, but with 2(p−1−i) warm-up forwards and W 2i micro-batches late. v = 1. Span m·S + (p−1)·(F+I−2W) when
/// m ≥ 2p−1: none of it idle when F = I = W; in flight min(2p−1, m). Source: the same.
schedule make_zb_h2(schedule_shape shape);

/// Two chunks in a V: a micro-batch goes down through chunk a and up through chunk b. Span m·S when F = I = W; in
/// flight 2p chunks, as much as 1F1B's first stage, on every stage. Source: Qi et al. 2024, arXiv:2405.15362; its order
/// in eight phases is that of PyTorch's ScheduleZBVZeroBubble.
schedule make_zb_v(schedule_shape shape);

/// Two chunks in a V, and in the steady state a forward of one chunk beside the backward of the other, so that a device
/// that overlaps the two hides their messages. Here they are listed, and run, one after the other. In flight 2p+1
/// chunks. Source: DeepSeek-AI 2025, DualPipe (arXiv:2412.19437) and its V-shaped half.
schedule make_dualpipev(schedule_shape shape);

}  // namespace troupe
