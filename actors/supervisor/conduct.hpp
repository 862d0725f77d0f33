#pragma once

#include "actors/supervisor/supervisor.hpp"

// What the supervisor does, by subject; its behavior (supervisor.cpp) says on which message.

namespace troupe::conduct {

using pointer = supervisor_actor::stateful_pointer<supervisor_data>;
using phase = supervisor_data::phase;
using standing = membership::standing;

shard_id shard_of(const supervisor_data& s, std::uint32_t rank);
/// The shard's rank when it is one of this run and speaks for its present incarnation.
std::optional<std::uint32_t> rank_of(const supervisor_data& s, shard_id id, std::uint32_t incarnation);
void tell(pointer self, event_kind kind, std::string text, std::optional<std::uint32_t> about = std::nullopt);

// --- ending a run (ending.cpp) ---

void stop(pointer self, run_outcome outcome, bool drain);
/// With processes the run is over when every process is gone; with threads, when every shard has quit.
void finish_if_over(pointer self);
/// A shard is lost and is not replaced: the run ends with what was committed.
void give_up(pointer self, std::uint32_t rank, const std::string& sentence, const std::string& why);
/// The run cannot begin: what it was given is wrong.
void refuse_start(pointer self, const std::string& text);

// --- replacing the lost (recovery.cpp) ---

/// `rank` is dead or of no use any more, for `cause` ("killed by signal 9"). It and its tensor group are ended and
/// replaced, or the run gives up.
void lose(pointer self, std::uint32_t rank, const std::string& cause);
/// Nothing is left of a member's present incarnation.
void member_gone(pointer self, std::uint32_t rank);
/// Asks for everyone who is away.
void launch_members(pointer self);
/// Introduces the new ones when everybody is there.
void introduce_if_complete(pointer self);
void member_joined(pointer self, std::uint32_t rank);
/// After a step was committed: tells what the recovery before it took.
void tell_recovery(pointer self);

void grant(pointer self);
void assign(pointer self, std::uint32_t rank);

}  // namespace troupe::conduct
