#include "options/arguments.hpp"

#include "base/text.hpp"
#include "options/documented.hpp"
#include "options/interpret.hpp"
#include "options/suggestion.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace lockstep {

namespace {

using Kind = OptionType::Kind;

constexpr const char* command_line = "command line";

Node map_node() {
  Node node;
  node.kind = Node::Kind::map;
  node.origin = command_line;
  return node;
}

/// Whether it is a value of the type as it stands.
bool is_text_of(const OptionType& type, const std::string& word) {
  if (type.optional) return false;
  if (type.kind == Kind::form) {
    try {
      type.check(word);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  return type.kind == Kind::text;
}

/// A word as the node that a file would have in its place: JSON for lists, groups and maps, otherwise the text itself.
Node word_node(const OptionType& type, const std::string& path, const std::string& word, Problems& problems,
               bool literal = false) {
  const bool structured = !literal && (type.kind == Kind::list || type.kind == Kind::group || type.kind == Kind::map);
  if (structured && (word.starts_with('[') || word.starts_with('{'))) {
    Problems of_word;
    Node node = parse_yaml(word, command_line, of_word);
    for (const Problems::Entry& entry : of_word.entries()) problems.add_at(command_line, path, entry.text);
    const auto strip = [](auto&& self, Node& inner) -> void {
      inner.origin = command_line;
      for (Node& item : inner.items) self(self, item);
      for (Node::Entry& entry : inner.entries) self(self, entry.value);
    };
    strip(strip, node);
    return node;
  }
  Node node;
  node.kind = word == "null" && !literal && !is_text_of(type, word) ? Node::Kind::null : Node::Kind::scalar;
  node.text = word;
  node.origin = command_line;
  return node;
}

Node& slot(Node& root, const std::string& path) {
  Node* at = &root;
  for (const std::string& part : split(path, '.')) {
    if (at->kind != Node::Kind::map) *at = map_node();
    if (at->find(part) == nullptr) at->entries.push_back({part, Node{}});
    at = at->find(part);
  }
  return *at;
}

/// One value becomes a list of one, none an empty list.
void make_list(Node& node) {
  Node list;
  list.kind = Node::Kind::list;
  list.origin = node.origin.empty() ? command_line : node.origin;
  if (node.kind != Node::Kind::null) list.items.push_back(std::move(node));
  node = std::move(list);
}

class Sorter {
 public:
  Sorter(const Tool& tool, const Declaration& common, const Declaration& configuration, Problems& problems,
         const std::function<std::string(std::string_view)>& explain)
      : tool_(tool), common_(common), configuration_(configuration), problems_(problems), explain_(explain) {
    sorted_.common = map_node();
    sorted_.configuration = map_node();
  }

  SortedArguments sort(const std::vector<std::string>& arguments) {
    bool only_words = false;
    for (next_ = arguments.begin(), end_ = arguments.end(); next_ != end_;) {
      const std::string& word = *next_++;
      if (only_words || word == "-" || !word.starts_with('-')) {
        if (only_words || !lacks_dashes(word)) words_.push_back(word);
      } else if (word == "--") {
        only_words = true;
      } else if (word.starts_with("--")) {
        long_option(word.substr(2));
      } else {
        short_option(word);
      }
    }
    place_words();
    return std::move(sorted_);
  }

 private:
  struct Found {
    const Option* option = nullptr;
    Node* root = nullptr;
  };

  Found find(const std::string& name) {
    for (const auto& [declaration, root] :
         {std::pair(&common_, &sorted_.common), std::pair(&configuration_, &sorted_.configuration)}) {
      for (const Option& option : declaration->options()) {
        if (spelling_of(option.path).substr(2) == name || (option.facts.of_dialect && option.path == name))
          return {&option, root};
      }
    }
    return {};
  }

  /// The list or map that `name` is an element of: "optimizer.groups" for "optimizer.groups.slow.lr_scale".
  const Option* whole_of(const std::string& name) const {
    for (const Option& option : configuration_.options()) {
      const std::size_t size = option.path.size();
      if (!name.starts_with(option.path + ".") || name.size() <= size + 1) continue;
      const bool numbered = std::isdigit(static_cast<unsigned char>(name[size + 1])) != 0;
      if (option.type.kind == Kind::map || (option.type.kind == Kind::list && numbered)) return &option;
    }
    return nullptr;
  }

  void problem(const std::string& option, const std::string& text) { problems_.add_at(command_line, option, text); }

  bool is_known(const std::string& name) { return find(name).option != nullptr || whole_of(name) != nullptr; }

  /// The prefix "lockstep." of the options of ours in a dialect is allowed outside of dialects too, so that a script
  /// sets an option in every dialect by one name.
  std::string without_prefix(const std::string& name) {
    constexpr std::string_view prefix = "lockstep.";
    if (!name.starts_with(prefix) || is_known(name)) return name;
    const std::string own = name.substr(prefix.size());
    return is_known(own) ? own : name;
  }

  void long_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = without_prefix(word.substr(0, equals));
    const std::optional<std::string> value =
        equals == std::string::npos ? std::nullopt : std::optional(word.substr(equals + 1));
    if (const Found found = find(name); found.option != nullptr) return take(found, "--" + name, value);
    if (const Found found = name.starts_with("no-") ? find(name.substr(3)) : Found{};
        found.option != nullptr && found.option->type.kind == Kind::boolean && !value) {
      return set(found, "--" + name, "false");
    }
    if (const Option* const whole = whole_of(name)) return element(*whole, name, value);
    unknown(name, value);
  }

  void short_option(const std::string& word) {
    for (const auto& [declaration, root] :
         {std::pair(&common_, &sorted_.common), std::pair(&configuration_, &sorted_.configuration)}) {
      for (const Option& option : declaration->options()) {
        if (option.facts.letter != '\0' && word.size() == 2 && word[1] == option.facts.letter)
          return take({&option, root}, word, std::nullopt);
      }
    }
    problem("", fmt::format("unknown option {}", word));
  }

  void take(const Found& found, const std::string& spelled, const std::optional<std::string>& value) {
    const Option& option = *found.option;
    if (value) return set(found, spelled, *value);
    if (!option.facts.bare.empty()) {
      if (!lacks_equals(option, spelled)) set(found, spelled, option.facts.bare);
      return;
    }
    if (option.type.kind == Kind::boolean) {
      const bool next_is_value =
          next_ != end_ && (option.facts.of_dialect ? flag_word(*next_) || *next_ == "null"
                                                    : takes_next_word(option) && boolean_word(*next_));
      return set(found, spelled, next_is_value ? *next_++ : "true");
    }
    if (next_ == end_ || next_->starts_with("--"))
      return problem(option.path, fmt::format("{} needs a value", spelled));
    set(found, spelled, *next_++);
    const bool several = option.facts.of_dialect && option.type.kind == Kind::list;
    while (several && next_ != end_ && !next_->starts_with("--")) set(found, spelled, *next_++);
  }

  /// "--calibrate 5": this option takes a value only after "=". A word that is a value of it is meant so, unless the
  /// program takes arguments or there is such a file.
  bool lacks_equals(const Option& option, const std::string& spelled) {
    std::error_code unreadable;
    if (tool_.arguments != Tool::Arguments::config_files || option.type.kind == Kind::text) return false;
    if (next_ == end_ || next_->starts_with('-')) return false;
    if (std::filesystem::exists(*next_, unreadable)) return false;
    Problems found;
    const Node node = word_node(option.type, option.path, *next_, found);
    if (!interpret(option.type, option.facts, node, option.path, found) || !found.empty()) return false;
    problem(option.path, fmt::format("{0} takes a value only after \"=\": write {0}={1}", spelled, *next_++));
    return true;
  }

  void set(const Found& found, const std::string& spelled, const std::string& word) {
    const Option& option = *found.option;
    if (found.root == &sorted_.configuration && !option.facts.positional && first_invalid_utf8(word))
      return problem(option.path, fmt::format("the value of {} is not valid UTF-8", spelled));  // as in a file
    Node node = word_node(option.type, option.path, word, problems_, option.facts.literal);
    Node& place = slot(*found.root, option.path);
    if (place.origin.empty()) {
      place = std::move(node);
    } else if (option.type.kind == Kind::list && node.kind != Node::Kind::list && place.kind != Node::Kind::null) {
      append(place, std::move(node));
    } else if (place.text != node.text || place.kind != node.kind || node.kind == Node::Kind::list) {
      problem(option.path, fmt::format("{} is given twice: {} and {}", spelled,
                                       place.kind == Node::Kind::scalar ? place.text : "a list", word));
    }
  }

  static void append(Node& place, Node node) {
    if (place.kind != Node::Kind::list) make_list(place);
    place.items.push_back(std::move(node));
  }

  void element(const Option& whole, const std::string& name, const std::optional<std::string>& value) {
    if (!value && (next_ == end_ || next_->starts_with("--")))
      return problem(whole.path, fmt::format("--{} needs a value", name));
    OptionType type = whole.type.element.front();
    const std::vector<std::string> rest = split(name.substr(whole.path.size() + 1), '.');
    if (type.kind == Kind::group && rest.size() > 1) {
      const auto field = std::ranges::find(*type.fields, rest[1], &Option::path);
      type = field == type.fields->end() ? OptionType{} : field->type;
      type.optional = true;
    }
    const std::string& word = value ? *value : *next_++;
    if (first_invalid_utf8(name + word))
      return problem(whole.path, fmt::format("the value of --{} is not valid UTF-8", whole.path));
    sorted_.elements.emplace_back(name, word_node(type, whole.path, word, problems_));
  }

  void unknown(const std::string& name, const std::optional<std::string>& value) {
    const auto is_section = [&](const Declaration::Section& section) { return section.name == name; };
    bool with_value = name.find('.') != std::string::npos;
    if (std::ranges::any_of(configuration_.sections(), is_section)) {
      problem("", fmt::format("{} is a section: name one of its options, as in --{}.KEY VALUE", name, name));
    } else {
      const Option* const meant = meaning_of(name);
      const std::string elsewhere = meant == nullptr && explain_ ? explain_(name) : std::string();
      problem("", fmt::format("unknown option --{}{}{}", name,
                              meant ? fmt::format(": did you mean {}?", spelling_of(meant->path)) : "",
                              elsewhere.empty() ? "" : ": " + elsewhere));
      if (meant != nullptr) {
        problems_.concerns_too(meant->path);
        with_value = takes_next_word(*meant);
      } else if (!elsewhere.empty()) {
        with_value = with_value || (next_ != end_ && !is_configuration(*next_));
      }
    }
    const bool next_is_value = with_value && !value && next_ != end_ && !next_->starts_with("-");
    if (next_is_value) ++next_;  // not an argument of its own
  }

  const Option* meaning_of(const std::string& name) const {
    std::string path = name;
    std::ranges::replace(path, '-', '_');
    std::vector<std::string> shared;
    for (const Option& option : common_.options()) shared.push_back(option.path);
    if (const std::optional<std::string> meant = nearest(path, shared)) return common_.find(*meant);
    const std::optional<std::string> own = suggested_option(configuration_, path);
    return own ? configuration_.find(*own) : nullptr;
  }

  static bool is_configuration(const std::string& name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }

  bool takes_as_config(const std::string& name) const {
    return tool_.arguments == Tool::Arguments::options_and_config_files && is_configuration(name);
  }

  /// "model.path=x" is an option without its dashes, unless there is such a file. An argument that a program takes by
  /// itself may have "=" in its name, so it must name an option exactly.
  bool lacks_dashes(const std::string& word) {
    const std::size_t equals = word.find('=');
    std::error_code unreadable;  // a name that is too long is that of no file
    if (equals == std::string::npos || equals == 0 || std::filesystem::exists(word, unreadable)) return false;
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    std::string meant = is_known(name) ? "--" + name : std::string();
    if (meant.empty() && tool_.arguments == Tool::Arguments::config_files)
      if (const Option* const option = meaning_of(name)) meant = spelling_of(option->path);
    if (meant.empty()) return false;
    problem("", fmt::format("unexpected argument \"{}\": did you mean {} {}?", word, meant, value));
    return true;
  }

  /// Gives the words without a name to those who take them.
  void place_words() {
    const bool takes_options = tool_.arguments != Tool::Arguments::config_files;
    std::erase_if(words_, [&](const std::string& name) {
      if (takes_options && !takes_as_config(name)) return false;
      set({common_.find("config"), &sorted_.common}, "CONFIG", name);
      return true;
    });
    auto word = words_.begin();
    for (const Option& option : configuration_.options()) {
      if (!option.facts.positional) continue;
      const bool all = option.type.kind == Kind::list;
      while (word != words_.end()) {
        set({&option, &sorted_.configuration}, value_name_of(option), *word++);
        if (!all) break;
      }
    }
    for (; word != words_.end(); ++word) problem("", fmt::format("unexpected argument \"{}\"", *word));
  }

  const Tool& tool_;
  const Declaration& common_;
  const Declaration& configuration_;
  Problems& problems_;
  const std::function<std::string(std::string_view)>& explain_;
  SortedArguments sorted_;
  std::vector<std::string> words_;
  std::vector<std::string>::const_iterator next_;
  std::vector<std::string>::const_iterator end_;
};

}  // namespace

std::string spelling_of(const std::string& path) {
  std::string spelled = "--" + (path.ends_with('_') ? path.substr(0, path.size() - 1) : path);
  if (path.find('.') == std::string::npos) std::ranges::replace(spelled, '_', '-');
  return spelled;
}

std::string name_in_messages(const std::string& path) {
  return path.find('.') == std::string::npos ? spelling_of(path) : path;
}

bool takes_next_word(const Option& option) {
  if (!option.facts.bare.empty()) return false;
  return option.type.kind != Kind::boolean || option.path.find('.') != std::string::npos;
}

SortedArguments sort_arguments(const Tool& tool, const Declaration& common, const Declaration& configuration,
                               const std::vector<std::string>& arguments, Problems& problems,
                               const std::function<std::string(std::string_view)>& explain) {
  return Sorter(tool, common, configuration, problems, explain).sort(arguments);
}

void set_element(Node& document, const Declaration& declaration, const std::string& path, const Node& value,
                 Problems& problems) {
  const auto is_whole = [&](const Option& option) { return path.starts_with(option.path + "."); };
  const auto list = std::ranges::find_if(declaration.options(), is_whole);
  invariant(list != declaration.options().end(), "an element without a list or map");
  Node& node = slot(document, list->path);
  if (node.origin.empty()) {
    node = parse_yaml(to_text(list->built_in), "built-in", problems);
    node.origin = "built-in";
  }
  const auto note_origin = [&] {
    if (node.origin == "built-in") {
      node.origin = command_line;
    } else if (!node.origin.ends_with(command_line)) {
      node.origin += std::string(", ") + command_line;
    }
  };
  const std::vector<std::string> rest = split(path.substr(list->path.size() + 1), '.');
  if (list->type.kind == Kind::map) {
    if (node.kind == Node::Kind::list) node = named_by_position(node);
    if (rest.size() > 2 || std::ranges::find(rest, "") != rest.end()) {
      problems.add_at(command_line, list->path, fmt::format("there is no key {}", join(rest, ".")));
      return;
    }
    const std::string origin = node.origin;
    slot(node, join(rest, ".")) = value;
    node.origin = origin;  // slot makes a map of what is none
    return note_origin();
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(rest.front().data(), rest.front().data() + rest.front().size(), index);
  const bool is_index = error == std::errc{} && end == rest.front().data() + rest.front().size();
  if (!is_index || rest.size() > 2 || (node.kind == Node::Kind::list && index > node.items.size())) {
    problems.add_at(command_line, list->path,
                    fmt::format("there is no element {}: {} has {}", join(rest, "."), list->path,
                                node.kind == Node::Kind::list ? node.items.size() : 1));
    return;
  }
  if (node.kind != Node::Kind::list) make_list(node);
  if (index == node.items.size()) node.items.emplace_back();
  (rest.size() == 1 ? node.items[index] : slot(node.items[index], rest[1])) = value;
  if (node.items[index].origin.empty()) node.items[index].origin = command_line;
  note_origin();
}

}  // namespace lockstep
