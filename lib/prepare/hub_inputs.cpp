#include "prepare/hub_inputs.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "prepare/standard_input.hpp"
#include "readers/input_files.hpp"
#include "remote/hub_cache.hpp"
#include "remote/hub_client.hpp"
#include "remote/hub_environment.hpp"
#include "remote/hub_splits.hpp"
#include "report/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace lockstep {

namespace {

constexpr const char* readme_name = "README.md";

// A word that may as well be a path is one, there or not.
bool looks_like_a_path(const std::string& word) {
  constexpr std::array<std::string_view, 5> of_token_files{".bin", ".idx", ".ds", ".yaml", ".yml"};
  const std::string suffix = Path(word).extension().string();
  return is_there(word) || is_there(word.substr(0, word.find('/'))) || format_by_name(word) ||
         std::ranges::find(of_token_files, suffix) != of_token_files.end();
}

std::optional<HubReference> hub_input(const std::string& word) {
  auto reference = hub_reference(word);
  if (reference && !word.starts_with("hf:") && looks_like_a_path(word)) return std::nullopt;
  return reference;
}

// By name, so that files of one kind are told from others; empty: no data. Names that tell nothing are of the format.
std::string form_of(std::string_view name, std::optional<TextFormat> format) {
  for (const std::string& folder : split(std::string(name), '/'))
    if (folder.starts_with('.') || folder.starts_with("__")) return "";
  auto form = format_by_name(Path(name));
  if (!form && format) form = format_by_name(Path(name), format);
  if (!form) return "";
  switch (*form) {
    case TextFormat::text: return "text";
    case TextFormat::json_lines:
    case TextFormat::json: return "JSON";
    case TextFormat::csv:
    case TextFormat::tsv: return "a table of text";
    case TextFormat::parquet: return "Parquet";
    case TextFormat::arrow: return "Arrow";
    case TextFormat::plugin: return Path(name).extension().string();
  }
  return "";
}

/// What a dataset contributes.
struct HubPlan {
  HubReference dataset;  // with its revision
  std::string commit;
  std::vector<std::string> names;     // what is prepared
  std::vector<HubFile> missing;       // what is not in the cache, README.md of it as well
  std::optional<HubListing> listing;  // to be kept: as the hub gave it
  std::vector<std::string> notes;

  std::uint64_t missing_bytes() const {
    std::uint64_t bytes = 0;
    for (const HubFile& file : missing) bytes += file.bytes;
    return bytes;
  }
  std::string missing_text() const {
    return fmt::format("{}, {}, of hf://datasets/{}", counted(std::ssize(missing), "file"),
                       human_bytes(missing_bytes()), dataset.id);
  }
};

class Planner {
 public:
  Planner(HubReference dataset, const PrepareConfig& config, const std::function<void()>& alive)
      : dataset_(std::move(dataset)), cache_(dataset_.id), alive_(alive) {
    const HubDatasetOptions& options = config.data.hub;
    const auto format = config.input_format();
    if (format) format_ = text_format_of(*format);
    if (dataset_.revision.empty()) dataset_.revision = options.revision.value_or("main");
    if (!dataset_.files.empty()) {
      choice_.data_files = {dataset_.files};
    } else {
      choice_ = {options.configuration, options.split, options.data_files};
    }
  }

  HubPlan plan() const {
    const auto commit = cache_.commit_of(dataset_.revision);
    if (const auto listing = commit ? cache_.listing(*commit) : std::nullopt) {
      HubPlan plan = planned(*listing);
      if (!plan.missing.empty() && hub_is_offline()) refuse_offline(plan.missing_text());
      return plan;
    }
    if (commit) {
      if (auto plan = of_snapshot(*commit)) return *plan;
    }
    if (hub_is_offline()) refuse_offline("its list of files");
    const HubListing listing = client().list(dataset_.revision);
    HubPlan plan = planned(listing);
    plan.listing = listing;
    return plan;
  }

 private:
  // What another program has put into the cache; whether the dataset has more files is not known.
  std::optional<HubPlan> of_snapshot(const std::string& commit) const {
    const HubListing there = cache_.snapshot(commit);
    if (there.files.empty()) return std::nullopt;
    HubPlan plan;
    try {
      plan = planned(there);
    } catch (const Error&) {
      if (hub_is_offline()) throw;
      return std::nullopt;  // the hub may have what is missing
    }
    if (announces_more(plan.names)) {
      if (hub_is_offline()) refuse_offline("files that belong to the same numbered set as the cached ones");
      return std::nullopt;
    }
    plan.notes.push_back(
        fmt::format("{}: using {} that another program left in the cache; the hub was not asked for more",
                    named(commit).text(), counted(std::ssize(plan.names), "file")));
    return plan;
  }

  HubPlan planned(const HubListing& listing) const {
    HubPlan plan{dataset_, listing.commit, {}, {}, std::nullopt, {}};
    HubDatasetFiles files{dataset_.id, {}, ""};
    for (const HubFile& file : listing.files) files.names.push_back(file.name);
    const auto wants = [&](const HubFile& file) {
      if (!cache_.has(listing.commit, file)) plan.missing.push_back(file);
    };
    const auto readme = std::ranges::find(listing.files, readme_name, &HubFile::name);
    if (choice_.data_files.empty() && readme != listing.files.end()) {
      files.readme = text_of(listing.commit, *readme);
      wants(*readme);
    }
    const auto format = choice_.data_files.empty() ? std::nullopt : format_;  // of files that are named
    plan.names = files_of_split(files, choice_, [&](std::string_view name) { return form_of(name, format); });
    for (const HubFile& file : listing.files)
      if (std::ranges::binary_search(plan.names, file.name)) wants(file);
    return plan;
  }

  std::string text_of(const std::string& commit, const HubFile& file) const {
    if (cache_.has(commit, file)) return read_file(cache_.path_of(commit, file.name));
    if (hub_is_offline()) refuse_offline(file.name);
    return client().read(commit, file);
  }

  HubClient client() const { return HubClient(dataset_.id, alive_); }
  HubReference named(const std::string& commit) const { return {dataset_.id, commit, ""}; }

  [[noreturn]] void refuse_offline(const std::string& what) const {
    throw Error(ExitCode::input,
                fmt::format("cannot read {}: the cache {} lacks {}, and HF_HUB_OFFLINE forbids downloads",
                            dataset_.text(), cache_.folder().parent_path().string(), what),
                fmt::format("on a machine with network access: hf download --repo-type dataset {} --revision {}",
                            dataset_.id, dataset_.revision));
  }

  HubReference dataset_;
  HubCache cache_;
  SplitChoice choice_;
  std::optional<TextFormat> format_;
  const std::function<void()>& alive_;
};

/// Brings here what plans lack, one file after the other.
class Fetching {
 public:
  Fetching(Progress& progress, const std::function<void()>& alive) : progress_(progress), alive_(alive) {}

  void fetch(const HubPlan& plan) {
    const HubCache cache(plan.dataset.id);
    if (plan.listing) cache.keep(*plan.listing);  // first: by it shows what a killed job left out
    if (!plan.missing.empty()) {
      const HubClient client(plan.dataset.id, [this] { show(); });
      for (const HubFile& file : plan.missing) {
        const auto complete = [&](const Path& part) {
          part_ = part;
          client.fetch(plan.commit, file, part);
        };
        cache.bring(plan.commit, file, complete, alive_);
        part_.clear();
        bytes_ += file.bytes;
      }
    }
    if (plan.listing) cache.keep(plan.dataset.revision, plan.commit);
  }

 private:
  void show() const {
    alive_();
    const std::uint64_t of_part = part_.empty() ? 0 : length_of(part_).value_or(0);
    progress_.update(static_cast<double>(bytes_ + of_part));
  }

  Progress& progress_;
  const std::function<void()>& alive_;
  Path part_;                // that grows
  std::uint64_t bytes_ = 0;  // of files that are here
};

/// The inputs, and those of them that are datasets of the hub.
struct NamedInput {
  std::string word;
  std::optional<HubReference> dataset;
  HubPlan plan = {};  // of the dataset
};

/// A word that is no path here may have been meant as one.
HubPlan plan_of(const NamedInput& input, const PrepareConfig& config, const std::function<void()>& alive) {
  try {
    return Planner(*input.dataset, config, alive).plan();
  } catch (const Error& error) {
    if (input.word.starts_with("hf:")) throw;
    const std::string own = fmt::format("there is no file or folder {}, so it names a dataset of the hub", input.word);
    throw Error(error.code(), error.what(), error.hint().empty() ? own : fmt::format("{}; {}", own, error.hint()));
  }
}

void require_effect(const HubDatasetOptions& options, const std::vector<NamedInput>& inputs) {
  bool whole = false, open = false;
  for (const NamedInput& input : inputs) {
    whole = whole || (input.dataset && input.dataset->files.empty());
    open = open || (input.dataset && input.dataset->revision.empty());
  }
  const auto refuse = [](const char* option, const char* named) {
    throw Error(
        ExitCode::usage,
        fmt::format("{} has no effect: no INPUT is a Hugging Face hub dataset without {} in its name", option, named),
        "name such a dataset hf://datasets/OWNER/NAME");
  };
  if (options.configuration && !whole) refuse("data.name", "files");
  if (options.split && !whole) refuse("data.split", "files");
  if (!options.data_files.empty() && !whole) refuse("data.data_files", "files");
  if (options.revision && !open) refuse("data.revision", "a revision");
}

void fetch_together(const std::vector<NamedInput>& inputs, Session& session, Output& output) {
  std::uint64_t bytes = 0;
  for (const NamedInput& input : inputs) bytes += input.plan.missing_bytes();
  const auto style = bytes == 0 ? Progress::Style::none : progress_style(output.common().progress, STDERR_FILENO);
  Progress progress(output.log(), {"fetch", "bytes", static_cast<double>(bytes), style});
  long_work_together(session, "fetch the input", [&](const std::function<void()>& alive) {
    Fetching fetching(progress, alive);
    for (const NamedInput& input : inputs)
      if (input.dataset) fetching.fetch(input.plan);
  });
  progress.finish(static_cast<double>(bytes));
}

std::string told(const std::vector<NamedInput>& inputs, bool dry_run) {
  Json words = Json::array();
  bool complete = true;
  for (const auto& [word, dataset, plan] : inputs) {
    if (!dataset) {
      words.push_back(word);
      continue;
    }
    complete = complete && (!dry_run || plan.missing.empty());
    for (const std::string& name : plan.names)
      words.push_back(HubCache(dataset->id).path_of(plan.commit, name).string());
  }
  return to_text({{"words", words}, {"complete", complete}});
}

}  // namespace

bool names_hub_dataset(const std::string& word) { return hub_input(word).has_value(); }

LocalInputs bring_hub_inputs(const PrepareConfig& config, Session& session, Output& output) {
  Communicator& world = session.world();
  const bool dry_run = output.common().dry_run;
  std::vector<NamedInput> inputs;  // on rank 0
  together(world, "find the input", [&] {
    if (world.rank() != 0) return;
    for (const std::string& word : config.text()) inputs.push_back({word, hub_input(word)});
    require_effect(config.data.hub, inputs);
  });
  const bool any = std::ranges::any_of(inputs, [](const NamedInput& input) { return input.dataset.has_value(); });
  if (world.all_reduce(std::int64_t{any ? 1 : 0}, Reduce::max) == 0) return {config.text(), true};

  long_work_together(session, "find the input", [&](const std::function<void()>& alive) {
    for (NamedInput& input : inputs)
      if (input.dataset) input.plan = plan_of(input, config, alive);
  });
  for (const NamedInput& input : inputs) {
    for (const std::string& note : input.plan.notes) output.log().info("{}", note);
    if (input.plan.missing.empty()) continue;
    output.log().info("{} {}, at {}, from {} to {}", dry_run ? "would fetch" : "fetching", input.plan.missing_text(),
                      input.plan.commit, hub_endpoint(), hub_cache_folder().string());
  }
  if (!dry_run) fetch_together(inputs, session, output);
  const Json answer =
      parse_json(run_on_rank0(world, "find the input", [&] { return told(inputs, dry_run); }), "inputs of the hub");
  return {answer["words"].get<std::vector<std::string>>(), answer["complete"].get<bool>()};
}

}  // namespace lockstep
