#include "train/callbacks.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "plugin/plugins.hpp"
#include "prepare/first_token.hpp"
#include "train/plugin_callback.hpp"
#include "train/text_sampler.hpp"

#include <algorithm>
#include <optional>

namespace lockstep {

namespace {

/// Continues prompts with the model as it is. All ranks work on the texts; rank 0 writes them.
class SampleCallback : public Callback {
 public:
  explicit SampleCallback(const SampleOptions& options) : options_(options) {}
  std::string name() const override { return "sample"; }

  void after_evaluation(const RunView& view) override {
    std::optional<TextSampler> sampler;
    together(view.session.world(), {}, [&] {
      if (prompts_.empty()) {
        PromptEncoder encoder(*view.tokenizer, options_.add_bos);
        for (const std::string& text : options_.prompts)
          prompts_.push_back({.text = text, .ids = encoder.encode(text)});
      }
      sampler.emplace(options_, view.texts.value(), view.engine, view.model, *view.tokenizer,
                      stop_tokens_of(view.generation_config, *view.tokenizer), view.session, view.train_state.step);
    });
    const std::vector<GeneratedText> texts = sampler->generate(prompts_);
    together(view.session.world(), {}, [&] {
      if (view.session.world().rank() != 0) return;
      for (const GeneratedText& text : texts) write(view, prompts_[text.prompt], text);
    });
  }

 private:
  static void write(const RunView& view, const Prompt& prompt, const GeneratedText& text) {
    view.log.info("text of step {}: {}", view.train_state.step, printable(prompt.text + text.text));
    view.records.write(record_of(prompt, text, view.train_state.step));
  }

  SampleOptions options_;
  std::vector<Prompt> prompts_;  // known with the first texts
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
