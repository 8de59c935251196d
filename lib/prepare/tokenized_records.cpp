// Records of token ids: input_ids, labels and attention_mask, as Hugging Face's models take them.
#include "base/json_member.hpp"
#include "data/batch.hpp"
#include "prepare/record_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using Integers = std::vector<std::int64_t>;

class TokenizedReader : public RecordReader {
 public:
  TokenizedReader(const Tokenizer& tokenizer, const RecordOptions& options)
      : vocabulary_(tokenizer.vocabulary()), place_(options.labels.value()) {}

  Sample read(const simdjson::dom::object& record) override {
    std::optional<Integers> ids = integers(record, "input_ids");
    if (!ids && member_of(record, "input_ids")) refuse_null("input_ids");
    if (!ids) refuse_field(record, "input_ids", "");
    std::optional<Integers> labels = integers(record, "labels");
    const std::optional<Integers> attention = integers(record, "attention_mask");
    const auto require_length = [&](const char* name, const std::optional<Integers>& list) {
      if (list && list->size() != ids->size())
        throw BadRecord{fmt::format("{} has {} elements, input_ids has {}", name, list->size(), ids->size())};
    };
    require_length("labels", labels);
    require_length("attention_mask", attention);
    std::size_t begin = 0;
    if (attention) begin = drop_padding(*attention, *ids, labels);
    Sample sample;
    for (std::size_t i = 0; i < ids->size(); ++i) sample.ids.push_back(token((*ids)[i], "input_ids", begin + i));
    sample.mask.resize(sample.ids.size(), 1);
    if (labels) take_labels(*labels, begin, sample);
    sample.end_counts = !sample.mask.empty() && sample.mask.back() == 1;
    return sample;
  }

 private:
  /// A list of integers, perhaps spelled out in text, as tables of text have them; nothing if it is absent or null.
  std::optional<Integers> integers(const simdjson::dom::object& record, std::string_view name) {
    auto member = member_of(record, name);
    if (!member || member->is_null()) return {};
    std::string_view text;
    if (member->get(text) == simdjson::SUCCESS &&
        parser_.parse(text, PythonJsonParser::Padding::absent, *member) != simdjson::SUCCESS)
      throw BadRecord{fmt::format("the text of {} is not a list", name)};
    simdjson::dom::array list;
    if (member->get(list) != simdjson::SUCCESS) throw BadRecord{fmt::format("{} is not a list", name)};
    Integers values;
    values.reserve(list.size());
    for (const simdjson::dom::element element : list) {
      std::int64_t value = 0;
      if (element.get(value) != simdjson::SUCCESS)
        throw BadRecord{
            fmt::format("{}[{}] is not an integer: {}", name, values.size(), text_of(element).substr(0, 40))};
      values.push_back(value);
    }
    return values;
  }

  std::int32_t token(std::int64_t id, std::string_view name, std::size_t at) const {
    if (id < 0 || id >= vocabulary_)
      throw BadRecord{fmt::format("{}[{}] is {}, but the tokenizer has ids 0 to {}", name, at, id, vocabulary_ - 1),
                      "set data.tokenizer to the tokenizer that made input_ids"};
    return static_cast<std::int32_t>(id);
  }

  /// Leaves what attention sees; padding stands before or behind it. Returns where it began.
  static std::size_t drop_padding(const Integers& attention, Integers& ids, std::optional<Integers>& labels) {
    for (std::size_t i = 0; i < attention.size(); ++i)
      if (attention[i] != 0 && attention[i] != 1)
        throw BadRecord{fmt::format("attention_mask[{}] is {}, neither 0 nor 1", i, attention[i])};
    const auto first = static_cast<std::size_t>(std::ranges::find(attention, 1) - attention.begin());
    const auto hole = std::find(attention.begin() + static_cast<std::ptrdiff_t>(first), attention.end(), 0);
    if (std::find(hole, attention.end(), 1) != attention.end())
      throw BadRecord{fmt::format("attention_mask[{}] is 0 between tokens with 1: only padding may be masked",
                                  hole - attention.begin())};
    const auto keep = [&](Integers& values) {
      values.erase(values.begin() + (hole - attention.begin()), values.end());
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::min(first, values.size())));
    };
    keep(ids);
    if (labels) keep(*labels);
    return first;
  }

  void take_labels(const Integers& labels, std::size_t begin, Sample& sample) const {
    switch (place_) {
      case LabelPlace::aligned:
        for (std::size_t i = 0; i < labels.size(); ++i)
          sample.mask[i] = counts(labels[i], begin + i, sample.ids[i], begin + i) ? 1 : 0;
        return;
      case LabelPlace::shifted:
        for (std::size_t i = 0; i + 1 < labels.size(); ++i)
          sample.mask[i + 1] = counts(labels[i], begin + i, sample.ids[i + 1], begin + i + 1) ? 1 : 0;
        if (labels.empty() || labels.back() == ignored_label) return;
        sample.ids.push_back(token(labels.back(), "labels", begin + labels.size() - 1));  // that no input is
        sample.mask.push_back(1);
        return;
    }
  }

  static bool counts(std::int64_t label, std::size_t place, std::int32_t id, std::size_t id_place) {
    if (label == ignored_label) return false;
    if (label == id) return true;
    throw BadRecord{
        fmt::format("labels[{}] is {}, neither input_ids[{}] = {} nor {}", place, label, id_place, id, ignored_label),
        "set data.labels: aligned if a label is at its own token, shifted if at the token before"};
  }

  std::int64_t vocabulary_;
  LabelPlace place_;
  PythonJsonParser parser_;  // of lists that text spells out
};

}  // namespace

std::unique_ptr<RecordReader> tokenized_reader(const Tokenizer& tokenizer, const RecordOptions& options) {
  return std::make_unique<TokenizedReader>(tokenizer, options);
}

}  // namespace lockstep
