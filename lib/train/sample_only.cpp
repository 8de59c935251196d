#include "train/sample_only.hpp"

#include "app/agreed_start.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/launch.hpp"
#include "comm/together.hpp"
#include "engine/engine.hpp"
#include "report/record.hpp"
#include "tokenizer/same_encoding.hpp"
#include "tokenizer/tokenizers.hpp"
#include "train/run_model.hpp"
#include "train/run_seed.hpp"
#include "train/run_setup.hpp"
#include "train/run_tokenizer.hpp"
#include "train/sample_prompts.hpp"
#include "train/text_sampler.hpp"
#include "unicode/utf8.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace lockstep {

namespace {

/// The parallel axes on the started ranks. One rank has the whole model, whatever the configuration says.
TrainConfig on_ranks(TrainConfig config, int ranks) {
  if (ranks == 1) {
    config.parallel = {};
    return config;
  }
  const auto size = [](const std::optional<AxisSize>& axis) { return axis ? axis->ranks : 1; };
  const std::int64_t pp = size(config.parallel.pp), tp = size(config.parallel.tp), ep = config.parallel.ep.value();
  const std::int64_t needed = pp * std::max(tp, ep);
  if (pp > 0 && tp > 0 && ranks != needed)
    throw Error(ExitCode::usage,
                fmt::format("--sample runs on {} (parallel.pp {}, parallel.tp {}, parallel.ep {}), but {} were "
                            "started: other ranks would compute the same",
                            counted(needed, "rank"), pp, tp, ep, ranks),
                needed == 1 ? "start one rank, or set these options" : fmt::format("start {} ranks, or one", needed));
  return config;
}

TokenizerChoice tokenizer_of(const TrainConfig& config, Session& session) {
  const auto& named = config.data.preparation.tokenizer;
  const bool depends_on_data = named && named->kind == TokenizerChoice::Kind::chars;  // the run has kept its characters
  if (named && !depends_on_data && is_found(named)) return *named;
  if (const auto found = model_tokenizer(config, session)) return *found;
  throw Error(ExitCode::usage, "the model has no tokenizer to encode texts with",
              "name one with --data.tokenizer bytes|TOKENIZER");
}

/// A warning if prompts are encoded with another tokenizer than the model's; empty: there is none. Collective over the
/// session's world.
std::string warning_on(const Tokenizer& chosen, const TokenizerChoice& choice, const TrainConfig& config,
                       Session& session) {
  const PrepareDataOptions& options = config.data.preparation;
  if (!options.tokenizer) return {};
  const auto own = model_tokenizer(config, session);
  if (!own || *own == choice) return {};
  bool differs = false;
  together(session.world(), "compare the tokenizers", [&] {
    try {
      differs = !same_encoding(chosen, *make_tokenizer(own->text(), "", options.special_tokens_in_text()));
    } catch (const Error&) {  // the model's tokenizer cannot be read, and is not needed
    }
  });
  if (!differs) return {};
  return fmt::format("prompts are encoded with the tokenizer {}, but the model has another one: {}", choice.text(),
                     own->text());
}

/// Open MPI gives ranks a terminal of its own as standard output: under a launcher it counts as a pipe.
bool shows_growth(const Output& output) {
  return !output.common().json && launch_of_process().by != Launch::Origin::launcher && ::isatty(STDOUT_FILENO) != 0;
}

/// Prints texts in their order: on a terminal as they grow, else as records. Those that are ready before their turn
/// wait.
class TextPrinter {
 public:
  TextPrinter(Output& output, const std::vector<Prompt>& prompts, const SampleOptions& options, std::int64_t step)
      : output_(output), prompts_(prompts), step_(step), shows_growth_(shows_growth(output)) {
    for (const std::string& stop : options.stop) held_back_ = std::max(held_back_, stop.size());
  }

  TextSampler::Follower follower() {
    return {.each_token = shows_growth_,
            .take = [this](const GeneratedText& so_far) { take(so_far); },
            .wants_more = [this] { return !output_.reader_is_gone(); }};
  }

 private:
  void take(const GeneratedText& so_far) {
    waiting_[so_far.number] = so_far;
    for (auto turn = waiting_.find(turn_); turn != waiting_.end(); turn = waiting_.find(turn_)) {
      const GeneratedText& text = turn->second;
      if (shows_growth_) show(text);
      if (!text.end) return;
      output_.print(shows_growth_ ? "\n" : to_text(to_json(record_of(prompts_[text.prompt], text, step_))) + "\n");
      waiting_.erase(turn);
      shown_.reset();
      ++turn_;
    }
  }

  /// A stop text that has only begun must not appear, nor a part of a character.
  void show(const GeneratedText& one) {
    if (!shown_) {
      output_.print((turn_ > 0 ? "\n" : "") + printable(prompts_[one.prompt].text));
      shown_ = 0;
    }
    std::size_t end = one.text.size();
    if (!one.end) end = whole_code_points(std::string_view(one.text).substr(0, end - std::min(end, held_back_)));
    if (end <= *shown_) return;
    output_.print(printable(std::string_view(one.text).substr(*shown_, end - *shown_)));
    shown_ = end;
  }

  Output& output_;
  const std::vector<Prompt>& prompts_;
  std::int64_t step_;
  bool shows_growth_;
  std::size_t held_back_ = 0, turn_ = 0;
  std::map<std::size_t, GeneratedText> waiting_;
  std::optional<std::size_t> shown_;  // bytes of the text whose turn it is; not set: its prompt is not there yet
};

/// Notes on a start that may not do what the user wants.
void warn(const TrainConfig& config, const std::optional<Path>& checkpoint, Log& log) {
  if (!checkpoint && !config.train.run_dir.empty() && !config.checkpoint.resume.from_scratch())
    log.warning("{} has no checkpoint: these are texts of {}", config.train.run_dir, *config.model.path);
  if (config.sample.count > 1 && config.sample.temperature == 0)
    log.warning("sample.temperature 0 draws nothing: the {} of a prompt are equal",
                counted(config.sample.count, "text"));
}

}  // namespace

int sample_only(const TrainConfig& given, Session& session, Output& output) {
  Communicator& world = session.world();
  session.configure(session_settings(given, {}));  // no folder: nothing is written
  agree_on_start(world, output.settings());
  const Machines machines = set_up_machines(given, world);
  TrainConfig config;
  together(world, "lay out the ranks",
           [&] { config = with_nodes_filled(on_ranks(given, world.size()), machines.placement.nodes); });
  config = with_local_model(with_seed(config, world), session);
  together(world, {}, [&] { session.enter(Phase::start_up); });
  require_weights(config, world);
  const TokenizerChoice choice = tokenizer_of(config, session);
  std::unique_ptr<Tokenizer> tokenizer;
  together(world, "read the tokenizer", [&] {
    const PrepareDataOptions& options = config.data.preparation;
    tokenizer = make_tokenizer(choice.text(), options.end_of_text.value_or(""), options.special_tokens_in_text());
  });
  if (const std::string warning = warning_on(*tokenizer, choice, config, session); !warning.empty())
    output.log().warning("{}", warning);
  const std::vector<Prompt> prompts = read_prompts(config, *tokenizer, choice, session, output.log());
  config.sample.prompts.clear();
  config.sample.longest_prompt = 0;
  for (const Prompt& prompt : prompts) {
    config.sample.prompts.push_back(prompt.text);
    config.sample.longest_prompt = std::max(*config.sample.longest_prompt, std::ssize(prompt.ids));
  }
  const TrainPlan plan = agree_on_plan(config, world);
  const ModelConfig& model = plan.architecture.config;
  together(world, {}, [&] {
    if (tokenizer->vocabulary() > model.vocabulary)
      throw Error(ExitCode::input,
                  fmt::format("the tokenizer {} has {} token ids, but the model's vocabulary has {}", choice.text(),
                              tokenizer->vocabulary(), model.vocabulary),
                  "use the tokenizer with which the model was trained (--data.tokenizer)");
    for (const Prompt& prompt : prompts)
      if (std::ssize(prompt.ids) > plan.texts->positions)
        throw Error(ExitCode::input,
                    fmt::format("{}: cannot continue a prompt of {}: the model has {}", prompt.origin,
                                counted(std::ssize(prompt.ids), "token"), counted(plan.texts->positions, "position")),
                    "shorten the prompt");
  });
  for (const std::string& note : plan.weights.notes) output.log().info("{}", note);
  std::optional<RunState> state;
  together(world, "make the model", [&] {
    session.enter(Phase::start_up);
    state.emplace(config, plan, world.rank());
  });
  const std::optional<Path> checkpoint =
      state->fill(config, plan, world_of(plan, machines), {}, session, output.log()).checkpoint;
  const std::string generation = generation_config_of(config, checkpoint, world);

  Transport transport = make_transport(session, plan.programs);
  Engine engine(state->model, *state->optimizer, plan.programs, session, transport, config.optimizer.clip_norm);
  const std::int64_t step = state->train_state.step;
  std::optional<TextSampler> sampler;
  together(world, "read the model's generation_config.json", [&] {
    sampler.emplace(config.sample, *plan.texts, engine, state->model, *tokenizer,
                    stop_tokens_of(generation, *tokenizer), session, step);
  });
  if (world.rank() == 0) warn(config, checkpoint, output.log());
  TextPrinter printer(output, prompts, config.sample, step);
  const double begin_s = monotonic_seconds();
  const std::vector<GeneratedText> texts = sampler->generate(prompts, printer.follower());
  const double seconds = monotonic_seconds() - begin_s;
  session.enter(Phase::shutdown, step);
  if (world.rank() != 0) return 0;
  std::int64_t tokens = 0;
  for (const GeneratedText& text : texts) tokens += std::ssize(text.ids);
  output.log().info("{}: {} in {}, {:.1f} tokens/s", checkpoint ? checkpoint->string() : *config.model.path,
                    counted(tokens, "token"), human_seconds(seconds), static_cast<double>(tokens) / seconds);
  return 0;
}

}  // namespace lockstep
