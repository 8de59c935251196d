#include "options/quantities.hpp"

#include "base/text.hpp"
#include "options/option.hpp"

#include <charconv>
#include <cmath>

namespace lockstep {

std::string Seconds::form() { return "DURATION: 90s, 15m or 1h30m"; }

Seconds Seconds::parse(const std::string& text) {
  const std::optional<double> seconds = parse_seconds(text);
  if (!seconds || !std::isfinite(*seconds)) refuse_form(text, form());
  return {*seconds};
}

std::string Seconds::text() const {
  constexpr double most_whole = 1e15;  // seconds: doubles of this size are whole numbers and fit 64 bits
  const auto whole = std::abs(value) < most_whole ? static_cast<std::int64_t>(value) : 0;
  if (static_cast<double>(whole) != value) return fmt::format("{}s", value);
  if (whole == 0 || whole % 60 != 0) return fmt::format("{}s", whole);
  if (whole % 3600 != 0)
    return whole > 3600 ? fmt::format("{}h{}m", whole / 3600, whole % 3600 / 60) : fmt::format("{}m", whole / 60);
  return fmt::format("{}h", whole / 3600);
}

std::string ByteSize::form() { return "SIZE: 512, 64MiB or 5GB"; }

ByteSize ByteSize::parse(const std::string& text) {
  const bool number_first = !text.empty() && text.front() >= '0' && text.front() <= '9';
  const std::optional<std::uint64_t> bytes = number_first ? parse_bytes(text) : std::nullopt;
  if (!bytes) refuse_form(text, form());
  return {*bytes};
}

std::string ByteBudget::form() { return "SIZE|PERCENT%"; }

ByteBudget ByteBudget::parse(const std::string& text) {
  if (!text.ends_with('%')) return {.size = ByteSize::parse(text), .share = {}};
  double percent = 0;
  const char* const last = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  if (error != std::errc{} || end != last || !(percent >= 0 && percent <= 100)) refuse_form(text, form());
  return {.size = {}, .share = percent / 100};
}

std::string ByteBudget::text() const { return share ? fmt::format("{}%", *share * 100) : size.text(); }

std::string ByteSize::text() const {
  constexpr std::uint64_t mebibyte = 1024 * 1024;
  if (bytes != 0 && bytes % mebibyte == 0) return fmt::format("{}MiB", bytes / mebibyte);
  return fmt::format("{}", bytes);
}

}  // namespace lockstep
