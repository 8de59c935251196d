// Renders a tree: statements output text, and expressions have values. One object makes one rendering.
#pragma once

#include "jinja/template_access.hpp"
#include "jinja/template_syntax.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::jinja {

/// The variables of a frame during a rendering.
struct RunFrame {
  Value* slots = nullptr;
  RunFrame* outer = nullptr;
};

struct MacroBody {
  const Statement* statement = nullptr;
  RunFrame* outer = nullptr;
};

class TemplateRun {
 public:
  /// `environment`: the values of SyntaxTree::environment_names; missing if a name has no value.
  TemplateRun(const SyntaxTree& tree, std::span<const Value> environment, TemplateMemory& memory)
      : tree_(tree), environment_(environment), memory_(memory) {}

  /// Throws TemplateFault; line() is then the line of the fault.
  void render();
  int line() const { return line_; }
  std::string take_text() { return std::move(out_); }
  std::vector<std::pair<std::size_t, std::size_t>> take_generated() { return std::move(generated_); }

 private:
  enum class Flow : std::uint8_t { on, stop, next };

  RunFrame* enter(const FrameLayout& layout, RunFrame* outer);
  void load(const FrameLayout& layout, RunFrame* frame) const;
  Value& variable(const Place& place, RunFrame* frame) const {
    for (int hop = 0; hop < place.hops; ++hop) frame = frame->outer;
    return frame->slots[place.slot];
  }

  // Statements: template_run.cpp.
  Flow run(const Body& body, RunFrame* frame);
  Flow run(const Statement& statement, RunFrame* frame);
  void put_out(const Statement& statement, RunFrame* frame);
  Flow run_conditional(const Statement& statement, RunFrame* frame);
  Flow run_loop(const Statement& statement, RunFrame* frame);
  void run_call_block(const Statement& statement, RunFrame* frame);
  void run_filter_block(const Statement& statement, RunFrame* frame);
  void run_generation(const Statement& statement, RunFrame* frame);
  void assign(const Expression& target, const Value& value, RunFrame* frame);
  void assign_block(const Statement& statement, RunFrame* frame);
  Value filtered_loop(const Statement& statement, const Value& items, RunFrame* frame);
  /// The output of a body as a value.
  Value captured(const Body& body, RunFrame* frame);
  Value call_macro(const MacroBody& macro, const CallArguments& arguments);

  // Expressions: template_expressions.cpp.
  Value value_of(const Expression& node, RunFrame* frame);
  Value name_value(const Expression& node, RunFrame* frame) const;
  Value sequence_value(const Expression& node, RunFrame* frame);
  Value dict_value(const Expression& node, RunFrame* frame);
  Value comparison_value(const Expression& node, RunFrame* frame);
  Value concatenation_value(const Expression& node, RunFrame* frame);
  Value slice_value(const Expression& node, RunFrame* frame);
  Value call_value(const Expression& node, RunFrame* frame, const Value& caller);
  Value filter_value(const Expression& node, RunFrame* frame);
  CallArguments arguments_of(const CallSyntax& call, RunFrame* frame, const Value& caller);
  Value call(const Value& callee, const CallArguments& arguments);

  struct LoopFilter;

  const SyntaxTree& tree_;
  std::span<const Value> environment_;
  TemplateMemory& memory_;
  int line_ = 1;
  std::string out_;
  Value block_text_ = Value::missing();  // output of a filter block's body, before its filters
  std::vector<std::pair<std::size_t, std::size_t>> generated_;
};

}  // namespace lockstep::jinja
