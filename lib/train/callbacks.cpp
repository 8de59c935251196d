#include "train/callbacks.hpp"

#include "base/error.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "plugin/plugins.hpp"
#include "train/plugin_callback.hpp"

#include <algorithm>
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

}  // namespace

std::vector<std::unique_ptr<Callback>> make_callbacks(const TrainConfig& config, Rank rank, int ranks) {
  std::vector<std::unique_ptr<Callback>> callbacks;
  for (const CallbackName name : config.train.callbacks) {
    if (const auto of_plugin = plugin_index(name))
      callbacks.push_back(std::make_unique<PluginCallback>(Plugins::opened().callbacks().at(*of_plugin),
                                                           static_cast<std::uint64_t>(config.train.seed), rank, ranks));
    else
      callbacks.push_back(std::make_unique<SampleCallback>(config.sample));
  }
  return callbacks;
}

Callbacks::Callbacks(const std::vector<std::unique_ptr<Callback>>& callbacks, Session& session, RunJournal& journal)
    : callbacks_(callbacks), session_(session), journal_(journal) {}

bool Callbacks::listen() const {
  return std::ranges::any_of(callbacks_, [](const auto& callback) { return callback->listens(); });
}

void Callbacks::tell(lockstep_event event, const lockstep_facts& facts) {
  for (const auto& callback : callbacks_) {
    if (!callback->listens() && event != LOCKSTEP_STEP_END) continue;
    try {
      session_.enter(Phase::callback, facts.step);
      const CallbackRequests asks = callback->on(event, facts, journal_);
      asks_.requests = asks_.requests | asks.requests;
      asks_.stop = asks_.stop || asks.stop;
    } catch (...) {
      failure_ = std::current_exception();
      asks_.requests = asks_.requests | Request::report;
    }
  }
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
                   .message = fmt::format("{}: {}; the run continues without it", who, error.what())},
                  error.owner());
  }
}

}  // namespace lockstep
