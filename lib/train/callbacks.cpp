#include "train/callbacks.hpp"

#include "base/error.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"

#include <optional>
#include <span>

namespace lockstep {

namespace {

/// The ids that stand for some text: where the model's vocabulary is larger, or the tokenizer's has gaps, a token
/// without text could be drawn.
std::vector<std::int32_t> ids_with_text(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (!tokenizer.decode({&id, 1}).empty()) ids.push_back(id);
  }
  return ids;
}

/// Continues prompts with the model as it is. All ranks work on one text at a time; rank 0 writes it.
class SampleCallback : public Callback {
 public:
  explicit SampleCallback(const SampleOptions& options) : options_(options) {}
  std::string name() const override { return "sample"; }

  void after_evaluation(const RunView& view) override {
    for (std::size_t i = 0; i < options_.prompts.size(); ++i) {
      std::optional<SampledText> text;
      together(view.session.world(), {}, [&] {
        view.session.enter(Phase::sample, view.train_state.step);
        text = begin(view, i);
      });
      const TokenDraw draw = [&](std::span<const double> logits) { return text->draw(logits); };
      while (!text->ended()) text->append(view.engine.draw_token(text->seen(), draw, view.train_state.step));
      together(view.session.world(), {}, [&] {
        if (view.session.world().rank() == 0) write(view, options_.prompts[i], text->added());
      });
    }
  }

 private:
  SampledText begin(const RunView& view, std::size_t index) {
    if (next_.candidates.empty())
      next_ = {.candidates = ids_with_text(*view.tokenizer), .stop_token = view.tokenizer->end_of_text().value_or(-1)};
    SampleOptions options = options_;
    // equal prompts give different texts; the largest seed goes on with the smallest
    options.seed = static_cast<std::int64_t>(static_cast<std::uint64_t>(options.seed) + index);
    return {view.tokenizer->encode(options_.prompts[index]), options, view.window, next_};
  }

  static void write(const RunView& view, const std::string& prompt, std::span<const std::int32_t> added) {
    view.records.write(SampleRecord{.step = view.train_state.step,
                                    .prompt = prompt,
                                    .text = view.tokenizer->decode(added),
                                    .tokens = static_cast<std::int64_t>(added.size())});
  }

  SampleOptions options_;
  Continuation next_;  // known with the first text
};

std::unique_ptr<Callback> make_callback(CallbackName name, const TrainConfig& config) {
  switch (name) {
    case CallbackName::sample: return std::make_unique<SampleCallback>(config.sample);
  }
  throw Error(ExitCode::bug, "a callback without a class");
}

}  // namespace

Callbacks::Callbacks(const TrainConfig& config, RunJournal& journal) : journal_(journal) {
  for (const CallbackName name : config.train.callbacks) callbacks_.push_back(make_callback(name, config));
}

Request Callbacks::after_step(const RunView& view) {
  Request requests = Request::none;
  for (const auto& callback : callbacks_) {
    try {
      view.session.enter(Phase::callback, view.train_state.step);
      requests = requests | callback->after_step(view);
    } catch (...) {
      failure_ = std::current_exception();
      requests = requests | Request::report;
    }
  }
  return requests;
}

void Callbacks::report(const RunView& view) {
  call(view, "a callback", [&] {
    together(view.session.world(), {}, [&] {
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    });
  });
}

void Callbacks::after_evaluation(const RunView& view) {
  for (const auto& callback : callbacks_)
    call(view, fmt::format("the callback {}", callback->name()), [&] { callback->after_evaluation(view); });
}

void Callbacks::call(const RunView& view, const std::string& who, const std::function<void()>& work) {
  try {
    work();
  } catch (const AgreedError& error) {  // the same on all ranks, so all go on
    journal_.warn({.step = view.train_state.step,
                   .name = "callback_failed",
                   .message = fmt::format("{}: {}; the run goes on without it", who, error.what())},
                  error.owner());
  }
}

}  // namespace lockstep
