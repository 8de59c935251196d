// How YAML is read: yaml-cpp parses, and what it would let pass without a word (a second document, keys inside a
// scalar) or say in its own words is told here.
#include "base/error.hpp"
#include "base/text.hpp"
#include "options/document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <sstream>
#include <utility>

namespace lockstep {

namespace {

constexpr int max_depth = 32;               // levels of lists and maps
constexpr std::int64_t max_nodes = 10'000;  // values, those that aliases repeat included

std::string place(const std::string& source, const YAML::Mark& mark) {
  return mark.line < 0 ? source : fmt::format("{}:{}", source, mark.line + 1);
}

/// Makes nodes with places from the nodes of yaml-cpp.
class Reader {
 public:
  Reader(std::string source, Problems& problems) : source_(std::move(source)), problems_(problems) {}

  Node read(const YAML::Node& yaml) {
    Node node;
    node.origin = place(source_, yaml.Mark());
    if (!within_limits(node)) return node;
    if (yaml.Tag().size() > 1 && yaml.Tag().front() == '!')
      problems_.add_unread(node.origin, fmt::format("the tag {} constructs an object, and a configuration runs no "
                                                    "code: write its arguments as plain keys",
                                                    yaml.Tag()));
    ++depth_;
    read_content(yaml, node);
    --depth_;
    return node;
  }

 private:
  /// An alias may stand inside its own anchor, or anchors multiply: neither may exhaust stack or memory.
  bool within_limits(const Node& node) {
    if (refused_) return false;
    refused_ = depth_ > max_depth || ++nodes_ > max_nodes;
    if (!refused_) return true;
    const bool deep = depth_ > max_depth;
    problems_.add_unread(node.origin, deep ? fmt::format("more than {} levels of lists and maps", max_depth)
                                           : fmt::format("more than {} values", max_nodes));
    return false;
  }

  void read_content(const YAML::Node& yaml, Node& node) {
    switch (yaml.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: break;
      case YAML::NodeType::Scalar: read_scalar(yaml, node); break;
      case YAML::NodeType::Sequence:
        node.kind = Node::Kind::list;
        for (const YAML::Node& item : yaml) node.items.push_back(read(item));
        break;
      case YAML::NodeType::Map:
        node.kind = Node::Kind::map;
        for (const auto& entry : yaml) read_entry(entry.first, entry.second, node);
        for (const Node& under : std::exchange(merged_under_, {})) add_missing(under, node);
        break;
    }
  }

  static void read_scalar(const YAML::Node& yaml, Node& node) {
    node.text = yaml.Scalar();
    node.quoted = yaml.Tag() == "!";
    const bool null = !node.quoted && (node.text.empty() || node.text == "~" || node.text == "null" ||
                                       node.text == "Null" || node.text == "NULL");
    node.kind = null ? Node::Kind::null : Node::Kind::scalar;
  }

  void read_entry(const YAML::Node& key, const YAML::Node& value, Node& map) {
    const std::string where = place(source_, key.Mark());
    if (!key.IsScalar()) {
      problems_.add_at(where, "", "a key must be a name");
      return;
    }
    std::vector<Node> outer = std::exchange(merged_under_, {});
    Node node = read(value);
    merged_under_ = std::move(outer);
    node.origin = where;
    if (key.Scalar() == "<<" && key.Tag() != "!") return take_merged(std::move(node));
    if (Node* const before = map.find(key.Scalar())) {
      problems_.add_at(where, "", fmt::format("\"{}\" is given twice, first at {}", key.Scalar(), before->origin));
      return;
    }
    map.entries.push_back({key.Scalar(), std::move(node)});
  }

  /// The merge key of YAML: a map, or several, whose keys count where the map that has it does not say them.
  void take_merged(Node node) {
    std::vector<Node> maps = node.kind == Node::Kind::list ? std::move(node.items) : std::vector{node};
    for (Node& map : maps) {
      if (map.kind == Node::Kind::map)
        merged_under_.push_back(std::move(map));
      else
        problems_.add_at(node.origin, "", "\"<<\" must be followed by a map or a list of maps");
    }
  }

  static void add_missing(const Node& under, Node& map) {
    for (const Node::Entry& entry : under.entries)
      if (map.find(entry.key) == nullptr) map.entries.push_back(entry);
  }

  std::string source_;
  Problems& problems_;
  std::vector<Node> merged_under_;  // of the map that is read
  int depth_ = 0;
  std::int64_t nodes_ = 0;
  bool refused_ = false;
};

/// A text by lines and offsets, in the bytes that marks of yaml-cpp count.
class Source {
 public:
  explicit Source(const std::string& text) : text_(text) {
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
      begins_.push_back(at + 1);
  }

  std::size_t offset_of(const YAML::Mark& mark) const {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // no column counts it
    const std::size_t before = mark.line == 0 && text_.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    const auto line = static_cast<std::size_t>(std::max(mark.line, 0));
    const std::size_t begin = begins_[std::min(line, begins_.size() - 1)];
    return std::min(begin + before + static_cast<std::size_t>(mark.column), text_.size());
  }

  /// Counted from 0.
  std::size_t line_at(std::size_t offset) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(begins_, offset) - begins_.begin()) - 1;
  }

  std::size_t lines() const { return begins_.size(); }
  std::string_view line(std::size_t number) const {
    const std::size_t end = number + 1 < begins_.size() ? begins_[number + 1] - 1 : text_.size();
    return text_.substr(begins_[number], end - begins_[number]);
  }

  /// Where the scalar at `at` begins, behind an anchor and a tag.
  std::size_t skip_properties(std::size_t at) const {
    while (at < text_.size() && (text_[at] == '&' || text_[at] == '!')) {
      at = std::min(text_.find_first_of(" \t\r\n", at), text_.size());
      at = std::min(text_.find_first_not_of(" \t\r\n", at), text_.size());
    }
    return at;
  }

  /// Behind the last character of the scalar `value` that begins at `begin`; npos if its quote is never closed, which
  /// yaml-cpp accepts at the end of a text.
  std::size_t end_of(std::size_t begin, const std::string& value) const {
    if (begin >= text_.size()) return text_.size();
    const char first = text_[begin];
    if (first == '"' || first == '\'') return end_of_quoted(begin, first);
    std::size_t at = begin;
    if (first == '|' || first == '>') at = std::min(text_.find('\n', begin), text_.size());
    for (const char c : value) {  // folding changes blanks only
      if (is_blank(c)) continue;
      while (at < text_.size() && is_blank(text_[at])) ++at;
      if (at == text_.size() || text_[at] != c) break;
      ++at;
    }
    return at;
  }

  /// The first quote behind `from` that opens a scalar; npos if there is none.
  std::size_t opening_quote(std::size_t from) const {
    bool comment = false;
    for (std::size_t at = from; at < text_.size(); ++at) {
      const char c = text_[at];
      comment = c != '\n' && (comment || (c == '#' && (at == 0 || is_blank(text_[at - 1]))));
      if (!comment && (c == '"' || c == '\'')) return at;
    }
    return std::string::npos;
  }

  char at(std::size_t offset) const { return text_[offset]; }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

  std::size_t end_of_quoted(std::size_t begin, char quote) const {
    for (std::size_t at = begin + 1; at < text_.size(); ++at) {
      if (quote == '"' && text_[at] == '\\') {
        ++at;
      } else if (text_[at] == quote) {
        const bool doubled = quote == '\'' && at + 1 < text_.size() && text_[at + 1] == quote;
        if (!doubled) return at + 1;
        ++at;
      }
    }
    return std::string::npos;
  }

  std::string_view text_;
  std::vector<std::size_t> begins_{0};  // of each line
};

/// True for "seed: 5", "- name: x", "seed:5", "lr = 3e-4", "- item"; not for "https://…".
bool reads_like_a_key(std::string_view line) {
  line = trim(line);
  if (line.starts_with("- ")) return true;
  if (line.starts_with('"') || line.starts_with('\'')) line.remove_prefix(1);
  const auto of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
  };
  const auto end = std::ranges::find_if_not(line, of_name);
  if (end == line.begin() || std::isdigit(static_cast<unsigned char>(line.front())) != 0) return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.begin()));
  if (line.starts_with('"') || line.starts_with('\'')) line.remove_prefix(1);
  line = trim(line);
  return (line.starts_with(':') && !line.starts_with("://")) || line.starts_with('=');
}

/// Sees where documents begin, quotes that are never closed, and scalars that reach over lines meant to be keys.
class TextCheck : public YAML::EventHandler {
 public:
  struct Swallowed {
    std::size_t from = 0;  // lines, counted from 0
    std::size_t line = 0;
    std::size_t to = 0;
    char quote = '\0';  // none: a plain scalar
    bool closed = true;
  };
  explicit TextCheck(const Source& source) : source_(source) {}

  YAML::Mark document;                 // where the latest one begins
  std::optional<Swallowed> swallowed;  // by the first scalar that does so
  std::size_t scalars_end = 0;         // behind the latest scalar

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string& value) override {
    const std::size_t begin = source_.skip_properties(source_.offset_of(mark));
    const std::size_t end = source_.end_of(begin, value);
    if (swallowed) return;
    if (end == std::string::npos) {
      const std::size_t line = source_.line_at(begin);
      swallowed = {.from = line, .line = line, .to = line, .quote = source_.at(begin), .closed = false};
      return;
    }
    scalars_end = end;
    const bool block = begin < end && (source_.at(begin) == '|' || source_.at(begin) == '>');
    if (begin == end || block) return;
    const std::size_t from = source_.line_at(begin);
    const std::size_t to = source_.line_at(end - 1);
    for (std::size_t line = from + 1; line <= to; ++line) {
      if (!reads_like_a_key(source_.line(line))) continue;
      const char first = source_.at(begin);
      swallowed = {.from = from, .line = line, .to = to, .quote = first == '"' || first == '\'' ? first : '\0'};
      return;
    }
  }
  void OnDocumentStart(const YAML::Mark& at) override { document = at; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  const Source& source_;
};

std::string explain(const TextCheck::Swallowed& swallowed, const Source& source) {
  if (!swallowed.closed) return fmt::format("the quote {} that opens here is never closed", swallowed.quote);
  const std::string_view line = trim(source.line(swallowed.line));
  if (swallowed.quote != '\0') {
    return fmt::format(
        "the quote {} that opens here closes only in line {}, but line {} looks like a key "
        "(\"{}\"): close it in its own line, or write text of several lines after \"|\"",
        swallowed.quote, swallowed.to + 1, swallowed.line + 1, line);
  }
  return fmt::format(
      "the value that begins here continues in line {}, which looks like a key (\"{}\"): put a space after "
      "the colon of a key, indent it as its neighbours, close brackets before it, and write text of several lines "
      "after \"|\"",
      swallowed.line + 1, line);
}

/// What yaml-cpp found wrong, in words that say what to mend.
std::string explain(const YAML::Exception& error) {
  namespace YamlMessage = YAML::ErrorMsg;
  static const std::array<std::pair<std::string_view, const char*>, 17> meanings{{
      {YamlMessage::END_OF_MAP_FLOW, "a \"{\" is not closed, or a comma is missing after a value"},
      {YamlMessage::END_OF_SEQ_FLOW, "a \"[\" is not closed, or a comma is missing after a value"},
      {YamlMessage::FLOW_END, "a bracket closes here without an opening one"},
      {YamlMessage::END_OF_MAP,
       "this does not continue the keys above: their indentation, or a quote in the value before, is not "
       "right"},
      {YamlMessage::END_OF_SEQ,
       "this does not continue the list above: its indentation, or a quote in the value before, is not "
       "right"},
      {YamlMessage::MAP_VALUE,
       "a second colon in one line, or a key that is indented more than its neighbours: put a value with \": \" "
       "in quotes"},
      {YamlMessage::MAP_KEY, "a key cannot stand here"},
      {YamlMessage::BLOCK_ENTRY, "an item of a list (\"- \") cannot stand here: it must begin a line"},
      {YamlMessage::TAB_IN_INDENTATION, "a tab indents this line: YAML is indented with spaces"},
      {YamlMessage::DOC_IN_SCALAR, "the document ends within quotes"},
      {YamlMessage::EOF_IN_SCALAR, "the text ends within quotes"},
      {YamlMessage::INVALID_HEX,
       "\"\\x\", \"\\u\" and \"\\U\" in double quotes must be followed by 2, 4 and 8 hexadecimal digits"},
      {YamlMessage::UNKNOWN_ANCHOR,
       "an alias (\"*\") names an anchor (\"&\") that does not exist: put a value that begins with \"*\" in quotes"},
      {YamlMessage::ALIAS_NOT_FOUND, "put a value that begins with \"*\" in quotes"},
      {YamlMessage::ANCHOR_NOT_FOUND, "put a value that begins with \"&\" in quotes"},
      {YamlMessage::CHAR_IN_BLOCK, "after \"|\" or \">\" the text must begin in the next line"},
      {YamlMessage::UNKNOWN_TOKEN, "put a value that begins with one of @ ` % in quotes"},
  }};
  for (const auto& [message, meaning] : meanings) {
    if (error.msg == message) return meaning;
  }
  if (error.msg.starts_with(YamlMessage::INVALID_ESCAPE)) {
    return "in double quotes, a backslash begins an escape sequence: write \"\\\\\" for a "
           "backslash, "
           "or use single quotes";
  }
  return "syntax error";
}

/// The first line up to `last` that a tab indents; YAML's own complaints about tabs often sound of something else.
std::optional<std::size_t> tab_indented(const Source& source, std::size_t last) {
  for (std::size_t number = 0; number < source.lines() && number <= last; ++number) {
    const std::string_view line = source.line(number);
    const std::size_t text = line.find_first_not_of(" \t\r");
    if (text != std::string_view::npos && line[text] != '#' &&
        line.substr(0, text).find('\t') != std::string_view::npos)
      return number;
  }
  return std::nullopt;
}

std::string line_name(const std::string& source, std::size_t line) { return fmt::format("{}:{}", source, line + 1); }

void refuse(const YAML::Exception& error, const Source& text, std::size_t scalars_end, const std::string& source,
            Problems& problems) {
  const bool ends_in_quotes = error.msg == YAML::ErrorMsg::EOF_IN_SCALAR || error.msg == YAML::ErrorMsg::DOC_IN_SCALAR;
  if (const std::size_t quote = text.opening_quote(scalars_end); ends_in_quotes && quote != std::string::npos) {
    problems.add_unread(line_name(source, text.line_at(quote)),
                        fmt::format("the quote {} that opens here is never closed", text.at(quote)));
  } else if (const auto tab = tab_indented(text, static_cast<std::size_t>(std::max(error.mark.line, 0)))) {
    problems.add_unread(line_name(source, *tab), "not valid YAML: a tab indents this line: use spaces");
  } else {
    problems.add_unread(place(source, error.mark), fmt::format("not valid YAML: {}", explain(error)));
  }
}

}  // namespace

Node parse_yaml(const std::string& text, const std::string& source, Problems& problems) {
  if (const std::optional<std::size_t> bad = first_invalid_utf8(text)) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n');
    problems.add_unread(fmt::format("{}:{}", source, line), "not valid UTF-8");
    return {};
  }
  const Source lines(text);
  TextCheck check(lines);
  const auto swallows = [&] {
    if (check.swallowed)
      problems.add_unread(line_name(source, check.swallowed->from), explain(*check.swallowed, lines));
    return check.swallowed.has_value();
  };
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    const bool any = parser.HandleNextDocument(check);
    if (swallows()) return {};
    // Not asked of yaml-cpp's LoadAll, which never ends where a stray bracket follows the first document.
    if (any && parser.HandleNextDocument(check)) {
      problems.add_at(place(source, check.document), "",
                      "a second YAML document begins here, but a configuration file holds only one");
    }
    return Reader(source, problems).read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    if (!swallows()) refuse(error, lines, check.scalars_end, source, problems);
    return {};
  }
}

}  // namespace lockstep
