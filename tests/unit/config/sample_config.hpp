// A configuration with an option of every type, read as programs read theirs.
#pragma once

#include "base/files.hpp"
#include "config/command_line.hpp"
#include "config/values.hpp"

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

enum class Color { red, green };
inline ChoiceList<Color> choices_of(Color) { return {{Color::red, "red"}, {Color::green, "green"}}; }

struct Part {
  std::string name;
  double weight = 1;
};
inline void describe(Declaration& visit, Part& part) {
  visit.field("name", part.name, {.brief = "what it is called", .required = true});
  visit.field("weight", part.weight, {.brief = "how heavy it is", .min = 0});
}

struct SampleConfig {
  std::vector<std::string> inputs;
  bool force = false;
  std::optional<Color> paint;
  struct {
    bool flag = true;
    std::int64_t count = 3;
    double rate = 0.5;
    std::string word = "some";
    Color color = Color::red;
    std::optional<double> limit;
    std::vector<std::string> names;
    std::array<double, 2> pair{1, 2};
    std::vector<Part> parts;
    Seconds time{60};
    ByteSize size{1024};
  } all;
};

inline void describe(Declaration& visit, SampleConfig& config) {
  visit.field("inputs", config.inputs, {.brief = "what is read", .value_name = "INPUT", .positional = true});
  visit.field("force", config.force, {.brief = "do it in any case"});
  visit.field("paint", config.paint, {.brief = "in colour", .bare = "green", .letter = 'p'});
  visit.section("all", "an option of every type", [&] {
    visit.field("flag", config.all.flag, {.brief = "a truth"});
    visit.field("count", config.all.count, {.brief = "a count", .unit = "things", .min = 0, .max = 100});
    visit.field("rate", config.all.rate, {.brief = "a rate", .min = 0, .above_min = true});
    visit.field("word", config.all.word, {.brief = "a word"});
    visit.field("color", config.all.color, {.brief = "a colour"});
    visit.field("limit", config.all.limit, {.brief = "a limit, or none"});
    visit.field("names", config.all.names, {.brief = "some names"});
    visit.field("pair", config.all.pair, {.brief = "two numbers"});
    visit.field("parts", config.all.parts, {.brief = "parts in order"});
    visit.field("time", config.all.time, {.brief = "a duration"});
    visit.field("size", config.all.size, {.brief = "a size"});
  });
}
inline Tool tool_of(const SampleConfig&) {
  return {.name = "sample",
          .summary = "show every type",
          .synopsis = {"[OPTION...] INPUT..."},
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::text_or_json};
}
inline void check(const SampleConfig& config, Problems& problems) {
  if (config.all.count == 13) problems.add({"all.count"}, "13 is bad luck");
}

using Line = CommandLine<SampleConfig>;
inline Line parse(const std::vector<std::string>& arguments) { return parse_command_line<SampleConfig>(arguments); }

/// The message of the usage error that parsing ends with; empty if it ends well.
template <class Config>
std::string message_of(const std::vector<std::string>& arguments) {
  try {
    parse_command_line<Config>(arguments);
    return "";
  } catch (const Error& error) {
    return error.code() == ExitCode::usage ? error.what() : std::string("not a usage error: ") + error.what();
  }
}
inline std::string problem(const std::vector<std::string>& arguments) { return message_of<SampleConfig>(arguments); }

/// Files in a folder of their own, named relative to it: the working folder while this lives.
class Files {
 public:
  Files() : before_(std::filesystem::current_path()) {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-config-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_errno("create", name);
    folder_ = name;
    std::filesystem::current_path(folder_);
  }
  ~Files() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  void write(const std::string& name, const std::string& text) { publish_file(folder_ / name, text); }

 private:
  Path before_;
  Path folder_;
};

}  // namespace lockstep::test
