#include "train/callbacks.hpp"

#include "comm/together.hpp"
#include "model/generate.hpp"

#include <span>

namespace lockstep {

namespace {

/// Continues prompts with the model as it is. Rank 0 writes: every rank holds the same weights.
class SampleCallback : public Callback {
 public:
  explicit SampleCallback(const SampleOptions& options) : options_(options) {}

  void after_evaluation(const RunView& view) override {
    view.session.enter(Phase::sample, view.train_state.step);
    together(view.session.world(), "generate text", [&] {
      if (view.session.world().rank() != 0) return;
      for (std::size_t i = 0; i < options_.prompts.size(); ++i) write(view, i);
    });
  }

 private:
  void write(const RunView& view, std::size_t index) const {
    const std::string& prompt = options_.prompts[index];
    const std::vector<std::int32_t> start = view.tokenizer.encode(prompt);
    SampleOptions options = options_;
    options.seed += static_cast<std::int64_t>(index);  // equal prompts give different texts
    const std::vector<std::int32_t> all =
        generate(view.model, start, options, view.tokenizer.end_of_text().value_or(-1));
    const std::span<const std::int32_t> added = std::span(all).subspan(start.size());
    view.records.write(SampleRecord{.step = view.train_state.step,
                                    .prompt = prompt,
                                    .text = view.tokenizer.decode(added),
                                    .tokens = static_cast<std::int64_t>(added.size())});
  }

  SampleOptions options_;
};

}  // namespace

std::vector<std::unique_ptr<Callback>> make_callbacks(const TrainConfig& config) {
  std::vector<std::unique_ptr<Callback>> callbacks;
  for (const CallbackName name : config.train.callbacks) {
    switch (name) {
      case CallbackName::sample: callbacks.push_back(std::make_unique<SampleCallback>(config.sample)); break;
    }
  }
  return callbacks;
}

}  // namespace lockstep
