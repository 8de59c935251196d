#include "jinja/template_token_stream.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::jinja {

namespace {

std::string_view name_of(TemplateTokenKind kind) {
  switch (kind) {
    case TemplateTokenKind::data: return "text outside of tags";
    case TemplateTokenKind::output_begin: return "{{";
    case TemplateTokenKind::output_end: return "}}";
    case TemplateTokenKind::block_begin: return "{%";
    case TemplateTokenKind::block_end: return "%}";
    case TemplateTokenKind::name: return "a name";
    case TemplateTokenKind::text: return "a quoted string";
    case TemplateTokenKind::integer:
    case TemplateTokenKind::number: return "a number";
    case TemplateTokenKind::sign: return "an operator";
    case TemplateTokenKind::end: return "the end of the template";
  }
  return "?";
}

}  // namespace

bool TemplateTokens::is_any_name(std::initializer_list<std::string_view> names) const {
  return is(TemplateTokenKind::name) && std::ranges::find(names, current().source) != names.end();
}

bool TemplateTokens::skip_sign(std::string_view sign) {
  if (!is_sign(sign)) return false;
  take();
  return true;
}

bool TemplateTokens::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void TemplateTokens::expect(TemplateTokenKind kind) {
  if (!is(kind)) fail(fmt::format("{} where {} is expected", described(), name_of(kind)));
  take();
}

void TemplateTokens::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) fail(fmt::format("{} where '{}' is expected", described(), sign));
}

void TemplateTokens::expect_name(std::string_view name) {
  if (!skip_name(name)) fail(fmt::format("{} where '{}' is expected", described(), name));
}

std::string TemplateTokens::take_name() {
  if (!is(TemplateTokenKind::name)) fail(fmt::format("{} where a name is expected", described()));
  return std::string(take().source);
}

std::string TemplateTokens::described() const {
  if (is(TemplateTokenKind::name) || is(TemplateTokenKind::sign)) return fmt::format("'{}'", current().source);
  return std::string(name_of(current().kind));
}

}  // namespace lockstep::jinja
