// The operator % of text.
#include "jinja/template_access.hpp"
#include "jinja/template_arithmetic.hpp"
#include "jinja/template_print.hpp"
#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace lockstep::jinja {

namespace {

constexpr std::int64_t widest = 100'000;

/// What stands between % and its letter.
struct Directive {
  bool left = false;
  bool zeros = false;
  bool plus = false;
  bool space = false;
  bool alternate = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char letter = '\0';
};

class Formatter {
 public:
  Formatter(std::string_view format, const Value& values, TemplateMemory& memory)
      : format_(format), values_(values), memory_(memory) {}

  std::string run() {
    while (at_ < format_.size()) {
      const std::size_t sign = std::min(format_.find('%', at_), format_.size());
      out_.append(format_.substr(at_, sign - at_));
      at_ = sign;
      if (at_ < format_.size()) directive();
    }
    // What has items by key may be left unused.
    const bool may_be_unused =
        values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) || values_.is(Kind::undefined);
    const bool all_used = values_.is(Kind::tuple) ? used_ == values_.sequence().size() : used_ == 1 || may_be_unused;
    if (!all_used) throw TemplateFault("% has more values than directives");
    return std::move(out_);
  }

 private:
  char take() {
    if (at_ >= format_.size()) throw TemplateFault("the % format ends within a directive");
    return format_[at_++];
  }
  Value next_value() {
    if (!values_.is(Kind::tuple)) {
      if (used_++ > 0) throw TemplateFault("% has more directives than values");
      return values_;
    }
    if (used_ >= values_.sequence().size()) throw TemplateFault("% has more directives than values");
    return values_.sequence()[used_++];
  }
  std::int64_t number() {
    if (at_ < format_.size() && format_[at_] == '*') throw TemplateFault("* in a % format is not supported");
    std::int64_t value = 0;
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9' && value <= widest)
      value = value * 10 + (take() - '0');
    if (value > widest) throw TemplateFault("a width or precision in a % format is larger than 100,000");
    return value;
  }
  void directive();
  void put(const Directive& directive, std::string text, bool numeric);
  std::string converted(const Directive& directive, const Value& value, bool& numeric);

  std::string_view format_;
  const Value& values_;
  TemplateMemory& memory_;
  std::string out_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

void Formatter::put(const Directive& directive, std::string text, bool numeric) {
  std::string sign;
  if (numeric) {
    if (text.starts_with('-')) {
      sign = "-";
      text.erase(0, 1);
    } else if (directive.plus || directive.space) {
      sign = directive.plus ? "+" : " ";
    }
  }
  const auto length = static_cast<std::int64_t>(count_points(text) + sign.size());
  const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(directive.width - length, 0));
  memory_.require_room(out_.size() + missing + text.size());
  const bool zeros = numeric && directive.zeros && !directive.left;
  if (!directive.left && !zeros) out_.append(missing, ' ');
  out_.append(sign);
  if (zeros) out_.append(missing, '0');
  out_.append(text);
  if (directive.left) out_.append(missing, ' ');
}

std::string Formatter::converted(const Directive& directive, const Value& value, bool& numeric) {
  const auto wrong_type = [&] {
    if (value.is(Kind::undefined)) fail_undefined(value);
    throw TemplateFault(fmt::format("%{} takes a number, not a {}", directive.letter, type_name(value)));
  };
  const auto cut = [&](std::string text) {
    if (directive.precision >= 0) text.resize(byte_of_point(text, static_cast<std::size_t>(directive.precision)));
    return text;
  };
  std::string text;
  switch (directive.letter) {
    case 's': append_text(text, value, memory_); return cut(std::move(text));
    case 'r': append_repr_of(text, value, memory_); return cut(std::move(text));
    case 'd':
    case 'i':
    case 'u': {
      numeric = true;
      if (!value.is_numeric()) wrong_type();
      if (value.is(Kind::number) && !(std::abs(value.number()) < 0x1p63))
        throw TemplateFault("%d of a number beyond 64 bits is not supported");
      const std::int64_t integer = value.is_integral() ? value.integer() : static_cast<std::int64_t>(value.number());
      text = fmt::format("{}", integer);
      const std::size_t sign = integer < 0 ? 1 : 0;
      if (std::cmp_less(text.size() - sign, directive.precision))
        text.insert(sign, static_cast<std::size_t>(directive.precision) - (text.size() - sign), '0');
      return text;
    }
    case 'x':
    case 'X':
    case 'o':
      numeric = true;
      if (!value.is_integral()) wrong_type();
      if (directive.alternate || directive.precision >= 0)
        throw TemplateFault("# and a precision in %x are not supported");
      return directive.letter == 'x'   ? fmt::format("{:x}", value.integer())
             : directive.letter == 'X' ? fmt::format("{:X}", value.integer())
                                       : fmt::format("{:o}", value.integer());
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G': {
      numeric = true;
      if (!value.is_numeric()) wrong_type();
      if (directive.alternate || !std::isfinite(value.number()))
        throw TemplateFault("# in a % format, and infinite or NaN numbers, are not supported");
      const int precision = static_cast<int>(directive.precision < 0 ? 6 : directive.precision);
      switch (directive.letter) {
        case 'e': return fmt::format("{:.{}e}", value.number(), precision);
        case 'E': return fmt::format("{:.{}E}", value.number(), precision);
        case 'g': return fmt::format("{:.{}g}", value.number(), precision);
        case 'G': return fmt::format("{:.{}G}", value.number(), precision);
        default: return fmt::format("{:.{}f}", value.number(), precision);
      }
    }
    case 'c':
      if (value.is_integral() && value.integer() >= 0 && value.integer() < 0x110000) {
        append_point(text, static_cast<char32_t>(value.integer()));
        return text;
      }
      if (!value.is(Kind::text) || count_points(value.text()) != 1) throw TemplateFault("%c takes a character");
      return std::string(value.text());
    default: throw TemplateFault(fmt::format("%{} is not supported", directive.letter));
  }
}

void Formatter::directive() {
  ++at_;
  Directive directive;
  bool by_name = false;
  Value value;
  if (at_ < format_.size() && format_[at_] == '(') {
    const std::size_t end = format_.find(')', at_);
    if (end == std::string_view::npos) throw TemplateFault("a name in a % format is not closed");
    const std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
    if (!values_.is(Kind::dict)) throw TemplateFault("a name in a % format needs a dict");
    const Value* const found = find(values_.pairs(), name, memory_);
    if (found == nullptr) throw TemplateFault(fmt::format("the dict of % has no key '{}'", name));
    value = *found;
    by_name = true;
    at_ = end + 1;
  }
  for (bool flags = true; flags;) {
    switch (at_ < format_.size() ? format_[at_] : '\0') {
      case '-': directive.left = true; break;
      case '0': directive.zeros = true; break;
      case '+': directive.plus = true; break;
      case ' ': directive.space = true; break;
      case '#': directive.alternate = true; break;
      default: flags = false;
    }
    if (flags) ++at_;
  }
  directive.width = number();
  if (at_ < format_.size() && format_[at_] == '.') {
    ++at_;
    directive.precision = number();
  }
  while (at_ < format_.size() && (format_[at_] == 'l' || format_[at_] == 'h' || format_[at_] == 'L')) ++at_;
  directive.letter = take();
  if (directive.letter == '%') {
    out_.push_back('%');
    return;
  }
  if (!by_name) value = next_value();
  bool numeric = false;
  std::string text = converted(directive, value, numeric);
  put(directive, std::move(text), numeric);
}

}  // namespace

Value formatted(std::string_view format, const Value& values, TemplateMemory& memory) {
  memory.step(format.size() / 8);
  return Value::of(memory.copy(Formatter(format, values, memory).run()));
}

}  // namespace lockstep::jinja
