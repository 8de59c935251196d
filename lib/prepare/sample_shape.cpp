#include "prepare/sample_shape.hpp"

#include "base/json.hpp"
#include "base/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {

namespace {

using Count = std::int64_t RecordCounts::*;
constexpr std::array<std::pair<const char*, Count>, 12> named_counts{{
    {"records", &RecordCounts::records},
    {"kept_records", &RecordCounts::kept_records},
    {"too_long_records", &RecordCounts::too_long_records},
    {"too_short_records", &RecordCounts::too_short_records},
    {"untrained_records", &RecordCounts::untrained_records},
    {"truncated_records", &RecordCounts::truncated_records},
    {"split_records", &RecordCounts::split_records},
    {"untrained_parts", &RecordCounts::untrained_parts},
    {"samples", &RecordCounts::samples},
    {"tokens", &RecordCounts::tokens},
    {"trained_tokens", &RecordCounts::trained_tokens},
    {"borders_apart", &RecordCounts::apart},
}};

bool any_counts(std::span<const std::uint8_t> mask) { return std::ranges::find(mask, std::uint8_t{1}) != mask.end(); }

}  // namespace

void RecordCounts::add(const RecordCounts& more) {
  for (const auto& [name, count] : named_counts) this->*count += more.*count;
}

Json json_of(const RecordCounts& counts) {
  Json json = Json::object();
  for (const auto& [name, count] : named_counts) json[name] = counts.*count;
  return json;
}

std::string text_of(const RecordCounts& counts) {
  std::string text =
      fmt::format("{}: {} with {}, {} of them trained on", counted(counts.records, "record"),
                  counted(counts.samples, "sample"), counted(counts.tokens, "token"), counts.trained_tokens);
  const auto add = [&text](std::int64_t count, const char* what) {
    if (count > 0) text += fmt::format("; {} {}", count, what);
  };
  add(counts.too_long_records, "too long, left out");
  add(counts.truncated_records, "truncated");
  add(counts.split_records, "split");
  add(counts.too_short_records, "too short, left out");
  add(counts.untrained_records, "without a trained token, left out");
  add(counts.untrained_parts, "parts without a trained token, left out");
  add(counts.apart, "borders within a token, encoded separately");
  return text;
}

SampleShape::SampleShape(const RecordOptions& options, std::optional<std::int32_t> bos, std::optional<std::int32_t> eos)
    : bos_(bos),
      eos_(eos),
      wants_eos_(options.add_eos.has_value()),
      max_length_(options.max_length),
      min_length_(options.min_length.value_or(0)),
      overlap_(options.overlap.value()),
      too_long_(options.too_long.value()) {}

void SampleShape::apply(Sample&& sample, const Take& take, RecordCounts& counts) const {
  std::vector<std::int32_t>& ids = sample.ids;
  std::vector<std::uint8_t>& mask = sample.mask;
  if (bos_ && (ids.empty() || ids.front() != *bos_)) {
    ids.insert(ids.begin(), *bos_);
    mask.insert(mask.begin(), 0);
  }
  if (eos_ && (wants_eos_ || !sample.ends_itself) && (ids.empty() || ids.back() != *eos_)) {
    ids.push_back(*eos_);
    mask.push_back(sample.end_counts ? 1 : 0);
  }
  ++counts.records;
  counts.apart += sample.apart;
  if (!mask.empty()) mask.front() = 0;
  if (std::ssize(ids) < min_length_) {
    ++counts.too_short_records;
    return;
  }
  const std::int64_t longest = max_length_.value_or(std::ssize(ids));
  const bool is_long = std::ssize(ids) > longest;
  if (is_long && too_long_ == TooLong::drop) {
    ++counts.too_long_records;
    return;
  }
  if (is_long && too_long_ == TooLong::truncate) {
    ids.resize(static_cast<std::size_t>(longest));
    mask.resize(ids.size());
  }
  if (!any_counts(mask)) {
    ++counts.untrained_records;
    return;
  }
  std::int64_t kept = 0, left_out = 0;
  const auto keep = [&](std::int64_t begin, std::int64_t end, std::int64_t context) {
    const auto part = [&](auto& values) {
      return std::span(values).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    };
    const auto part_mask = part(mask);
    std::ranges::fill(part_mask.first(static_cast<std::size_t>(context)), std::uint8_t{0});
    if (!any_counts(part_mask)) {
      ++left_out;
      return;
    }
    ++kept;
    counts.tokens += end - begin;
    counts.trained_tokens += std::ranges::count(part_mask, std::uint8_t{1});
    take(part(ids), part_mask);
  };
  // What a part takes over from the one before counted there; without any its first token has nothing before it.
  for (std::int64_t begin = 0, end = 0; end < std::ssize(ids); begin = end - overlap_) {
    const std::int64_t context = begin == 0 ? 0 : std::max<std::int64_t>(overlap_, 1);
    end = std::min(begin + longest, std::ssize(ids));
    keep(begin, end, std::min(context, end - begin));
  }
  counts.samples += kept;
  counts.untrained_parts += kept > 0 ? left_out : 0;
  ++(kept > 0 ? counts.kept_records : counts.untrained_records);
  if (kept > 0 && is_long) ++(too_long_ == TooLong::truncate ? counts.truncated_records : counts.split_records);
}

}  // namespace lockstep
