#include "actors/loader/data_loader.hpp"

namespace troupe {

status loader_state::load_next() {
  const auto step = next / settings.micro_batches;
  if (step >= settings.steps) return {};
  arrival batch;
  batch.what = arrival::kind::batch;
  batch.id.step = step;
  batch.id.micro_batch = static_cast<std::uint32_t>(next % settings.micro_batches);
  if (settings.inputs) {
    TROUPE_TRY(batch.value, tensor::make(memory, source->input()));
  }
  if (settings.targets) {
    TROUPE_TRY(batch.target, tensor::make(memory, source->target()));
  }
  TROUPE_CHECK(source->read(step, settings.first_micro_batch + batch.id.micro_batch, batch.value, batch.target));
  ++next;
  out->push(std::move(batch));
  return {};
}

loader_actor::behavior_type data_loader(loader_actor::stateful_pointer<loader_state> self,
                                        std::shared_ptr<data_source> source, std::shared_ptr<inbox> out,
                                        loader_settings settings) {
  self->state.source = std::move(source);
  self->state.out = std::move(out);
  self->state.settings = settings;
  self->state.next = settings.first_step * settings.micro_batches;
  return {[self](const load_more& more) {
    for (std::uint32_t i = 0; i < more.micro_batches; ++i)
      if (auto s = self->state.load_next(); !s) {
        arrival failure;
        failure.what = arrival::kind::data_failed;
        failure.why = {s.error().code, "reading data: " + s.error().where, s.error().native};
        self->state.out->push(std::move(failure));
        return;
      }
  }};
}

}  // namespace troupe
