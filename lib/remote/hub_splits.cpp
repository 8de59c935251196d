#include "remote/hub_splits.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/document.hpp"
#include "remote/file_pattern.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

namespace lockstep {

namespace {

using Names = std::vector<std::string>;
using Splits = std::map<std::string, Names>;

constexpr const char* way_out = "name its files: --data.data_files 'PATTERN', or hf://datasets/OWNER/NAME/PATTERN";

struct Keyword {
  const char* word;
  const char* split;
};
constexpr std::array<Keyword, 10> keywords{{{"train", "train"},
                                            {"training", "train"},
                                            {"validation", "validation"},
                                            {"valid", "validation"},
                                            {"dev", "validation"},
                                            {"val", "validation"},
                                            {"test", "test"},
                                            {"testing", "test"},
                                            {"eval", "test"},
                                            {"evaluation", "test"}}};

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// NAME-NNNNN-of-NNNNN, as files of a split in parts are called.
struct PartName {
  std::string split;
  std::size_t count = 0;
};
std::optional<PartName> part_name(const std::string& path) {
  constexpr std::size_t digits = 5;
  constexpr std::string_view middle = "-of-";
  const std::string name = file_name(path);
  const std::size_t of = name.find(middle);
  if (of == std::string::npos || of < digits + 2) return std::nullopt;
  const std::string count = name.substr(of + middle.size(), digits);
  const std::string number = name.substr(of - digits, digits);
  const auto is_number = [](const std::string& text) {
    return text.size() == digits && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (!is_number(count) || !is_number(number) || name[of - digits - 1] != '-') return std::nullopt;
  return PartName{name.substr(0, of - digits - 1), static_cast<std::size_t>(std::stoul(count))};
}

// The splits whose words stand in a text, between characters that are no letters.
std::set<std::string> splits_in(const std::string& text) {
  std::set<std::string> found;
  std::string word;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const unsigned char c = i < text.size() ? static_cast<unsigned char>(text[i]) : '/';
    if (std::isalpha(c) != 0) {
      word += static_cast<char>(c);
      continue;
    }
    for (const Keyword& keyword : keywords)
      if (word == keyword.word) found.insert(keyword.split);
    word.clear();
  }
  return found;
}

class Chooser {
 public:
  Chooser(const HubDatasetFiles& dataset, const SplitChoice& choice,
          const std::function<std::string(std::string_view)>& form_of)
      : dataset_(dataset), choice_(choice), form_of_(form_of), split_(choice.split.value_or("train")) {}

  Names chosen() const {
    Names files = choice_.data_files.empty() ? of_rules() : matching(choice_.data_files);
    std::ranges::sort(files);
    if (files.empty()) refuse("no data file matches", join(choice_.data_files, ", "), "");
    require_one_form(files);
    return files;
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view which, const std::string& hint) const {
    throw Error(ExitCode::input, fmt::format("cannot read hf://datasets/{}: {} {}", dataset_.id, what, which), hint);
  }

  Names matching(const Names& patterns) const {
    Names files;
    for (const std::string& pattern : patterns) {
      bool matched = false;
      for (const std::string& name : dataset_.names) {
        if (!matches_files(pattern, name) || form_of_(name).empty()) continue;
        matched = true;
        if (std::ranges::find(files, name) == files.end()) files.push_back(name);
      }
      if (!matched) refuse("no data file matches", pattern, "");
    }
    return files;
  }

  Names of_rules() const {
    if (split_.find_first_of("[]+%: ") != std::string::npos)
      refuse("only whole splits can be prepared, not", split_,
             "to use a part, set data.shard, or samples in the data.datasets of train");
    const auto configured = configurations();
    if (!configured.empty()) return of_configuration(configured);
    if (choice_.configuration && *choice_.configuration != "default")
      refuse("its README.md has no configurations, and therefore none with the name", *choice_.configuration, way_out);
    const std::string name = file_name(dataset_.id) + ".py";
    if (std::ranges::find(dataset_.names, name) != dataset_.names.end())
      refuse("its files are determined by a script, which is not run:", name,
             "try its tables on the hub: --data.revision refs/convert/parquet; or name files: --data.data_files "
             "'PATTERN'");
    return split_of(splits_by_name(""));
  }

  Names split_of(const Splits& splits) const {
    const auto found = splits.find(split_);
    if (found != splits.end() && !found->second.empty()) return found->second;
    Names names;
    for (const auto& [split, files] : splits)
      if (!files.empty()) names.push_back(split);
    if (names.empty()) refuse("it has no file of a supported type", "", way_out);
    refuse(fmt::format("it has no split {}; it has", split_), join(names, ", "), "choose one with --data.split");
  }

  // By names: first rule that finds anything.
  Splits splits_by_name(const std::string& folder) const {
    Names data;
    for (const std::string& name : dataset_.names)
      if (!form_of_(name).empty() && name.starts_with(folder)) data.push_back(name);
    Splits splits;
    for (const std::string& name : data) {
      const auto part = part_name(name);
      if (part && name.substr(folder.size()).starts_with("data/") && name.rfind('/') == folder.size() + 4)
        splits[part->split].push_back(name);
    }
    if (!splits.empty()) return splits;
    for (const bool of_folder : {true, false}) {
      for (const std::string& name : data) {
        const std::string within = name.substr(folder.size());
        const std::size_t slash = within.rfind('/');
        const std::string place =
            of_folder ? within.substr(0, slash == std::string::npos ? 0 : slash) : file_name(within);
        const auto found = splits_in(place);
        if (found.size() > 1) refuse("two split names are in the file name", name, way_out);
        if (!found.empty()) splits[*found.begin()].push_back(name);
      }
      if (!splits.empty()) return splits;
    }
    splits["train"] = data;
    return splits;
  }

  std::vector<const Node*> configurations() const {
    std::vector<const Node*> found;
    if (const Node* const list = header().find("configs"); list != nullptr && list->kind == Node::Kind::list)
      for (const Node& item : list->items) found.push_back(&item);
    return found;
  }

  // The YAML between two lines of hyphens.
  const Node& header() const {
    if (header_) return *header_;
    header_.emplace();
    const std::string& text = dataset_.readme;
    const std::size_t begin = text.starts_with("---\n") ? 4 : text.starts_with("---\r\n") ? 5 : std::string::npos;
    const std::size_t end = begin == std::string::npos ? begin : text.find("\n---", begin - 1);
    if (end == std::string::npos) return *header_;
    Problems problems;
    header_ = parse_yaml(text.substr(begin, end + 1 - begin), "README.md", problems);
    if (!problems.empty()) refuse("the header of its README.md cannot be read:", problems.entries()[0].text, way_out);
    return *header_;
  }

  static std::string text_at(const Node& node, const std::string& key) {
    const Node* const value = node.find(key);
    return value != nullptr && value->kind == Node::Kind::scalar ? value->text : "";
  }

  static std::string name_of_configuration(const Node& node) {
    const std::string name = text_at(node, "config_name");
    return name.empty() ? "default" : name;
  }

  Names of_configuration(const std::vector<const Node*>& configured) const {
    const Node* taken = configured.size() == 1 && !choice_.configuration ? configured[0] : nullptr;
    Names names;
    for (const Node* const node : configured) {
      names.push_back(name_of_configuration(*node));
      const bool is_default = names.back() == "default" || text_at(*node, "default") == "true";
      if (choice_.configuration ? names.back() == *choice_.configuration : taken == nullptr && is_default) taken = node;
    }
    if (taken == nullptr && choice_.configuration)
      refuse(fmt::format("it has no configuration {}; it has", *choice_.configuration), join(names, ", "),
             "choose one with --data.name");
    if (taken == nullptr) refuse("it has several configurations:", join(names, ", "), "choose one with --data.name");
    std::string folder = text_at(*taken, "data_dir");
    if (folder.starts_with("./")) folder.erase(0, 2);
    if (!folder.empty() && !folder.ends_with('/')) folder += '/';
    const Node* const data = taken->find("data_files");
    return split_of(data == nullptr ? splits_by_name(folder) : splits_in_header(*data, folder));
  }

  static Names texts_of(const Node& node) {
    Names texts;
    if (node.kind == Node::Kind::scalar) texts.push_back(node.text);
    for (const Node& item : node.items)
      if (item.kind == Node::Kind::scalar) texts.push_back(item.text);
    return texts;
  }

  Splits splits_in_header(const Node& data, const std::string& folder) const {
    std::map<std::string, Names> patterns;
    for (const std::string& pattern : texts_of(data)) patterns["train"].push_back(pattern);
    for (const Node& item : data.items) {
      const Node* const path = item.find("path");
      if (item.kind == Node::Kind::map && path != nullptr) patterns[text_at(item, "split")] = texts_of(*path);
    }
    for (const Node::Entry& entry : data.entries) patterns[entry.key] = texts_of(entry.value);
    Splits splits;
    for (auto& [split, of_split] : patterns) {
      if (split != split_) {
        splits[split] = of_split;  // there, whatever its files are
        continue;
      }
      for (std::string& pattern : of_split) {
        if (pattern.starts_with("./")) pattern.erase(0, 2);
        pattern = folder + pattern;
      }
      splits[split] = matching(of_split);
    }
    return splits;
  }

  void require_one_form(const Names& files) const {
    std::map<std::string, std::string> first;
    for (const std::string& file : files) first.emplace(form_of_(file), file);
    if (first.size() < 2 || !choice_.data_files.empty()) return;
    refuse("files of different formats are in the split",
           fmt::format("{}: {} and {}", split_, first.begin()->second, std::next(first.begin())->second), way_out);
  }

  const HubDatasetFiles& dataset_;
  const SplitChoice& choice_;
  const std::function<std::string(std::string_view)>& form_of_;
  std::string split_;
  mutable std::optional<Node> header_;
};

}  // namespace

std::vector<std::string> files_of_split(const HubDatasetFiles& dataset, const SplitChoice& choice,
                                        const std::function<std::string(std::string_view name)>& form_of) {
  return Chooser(dataset, choice, form_of).chosen();
}

bool announces_more(const std::vector<std::string>& names) {
  std::map<std::string, std::pair<std::size_t, std::size_t>>
      parts;  // by what they are parts of: count there, announced
  for (const std::string& name : names) {
    const auto part = part_name(name);
    if (!part) continue;
    auto& [there, announced] = parts[name.substr(0, name.rfind('/') + 1) + part->split];
    ++there;
    announced = part->count;
  }
  return std::ranges::any_of(parts, [](const auto& part) { return part.second.first < part.second.second; });
}

}  // namespace lockstep
