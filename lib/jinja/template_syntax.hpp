// The syntax tree of a template. Names are places in frames, which jinja/template_scopes.hpp resolves. Evaluation:
// jinja/template_run.hpp.
#pragma once

#include "jinja/template_value.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::jinja {

struct Expression;
struct Statement;
using ExpressionPointer = std::unique_ptr<Expression>;
using Body = std::vector<std::unique_ptr<Statement>>;

/// A variable: a slot of the frame that lies `hops` frames outside of the current one.
struct Place {
  int hops = 0;
  int slot = 0;
};

/// The initial value of a variable when its frame is entered.
struct FrameLoad {
  enum class From : std::uint8_t { nothing, outer, environment };
  int slot = 0;
  From from = From::nothing;
  Place outer = {};     // seen from this frame
  int environment = 0;  // index of SyntaxTree::environment_names
};
struct FrameLayout {
  int slots = 0;
  std::vector<FrameLoad> loads;
};

enum class BinaryOperator : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparison : std::uint8_t { equal, not_equal, less, less_or_equal, greater, greater_or_equal, in, not_in };

struct CallSyntax {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer more_positional;  // after *
  ExpressionPointer more_named;       // after **
};

enum class ExpressionKind : std::uint8_t {
  constant,         // value
  name,             // text, place
  list,             // operands
  tuple,            // operands
  dict,             // operands: key, value, key, value …
  attribute,        // operands[0] . text
  item,             // operands[0] [ operands[1] ]
  slice,            // operands[0] [ operands[1] : operands[2] : operands[3] ]; the last three may be missing
  call,             // operands[0] ( call )
  filter,           // operands[0] | text ( call ); operands[0] is missing in a filter block
  test,             // operands[0] is text ( call )
  negative,         // - operands[0]
  positive,         // + operands[0]
  negation,         // not operands[0]
  conjunction,      // operands[0] and operands[1]
  disjunction,      // operands[0] or operands[1]
  conditional,      // operands[0] if operands[1] else operands[2], which may be missing
  binary,           // operands[0] binary operands[1]
  concatenation,    // operands joined by ~
  comparison,       // operands[0] comparisons[0] operands[1] comparisons[1] …
  attribute_target  // of a namespace: text, place, attribute
};

struct Expression {
  ExpressionKind kind;
  int line;
  int depth = 0;  // of the tree below it
  std::vector<ExpressionPointer> operands = {};
  std::string text = {};
  Value value = {};  // of a constant; `text` holds its text
  Place place = {};
  std::string attribute = {};  // of a name: the error message if it is undefined
  BinaryOperator binary = BinaryOperator::add;
  std::vector<Comparison> comparisons = {};
  CallSyntax call = {};
  int builtin = -1;  // number of the filter or test; -1: not supported
};

/// A macro, or the body of a call block, which has no name.
struct MacroSyntax {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<int> parameter_slots;
  std::vector<ExpressionPointer> defaults;  // of the last parameters
  // Slots of special variables that the body reads and that are not parameters.
  std::optional<int> caller;
  std::optional<int> named;       // kwargs
  std::optional<int> positional;  // varargs
  bool has_caller_parameter = false;
};

enum class StatementKind : std::uint8_t {
  output,            // expressions
  conditional,       // expressions[0], body, branches of elif, otherwise
  loop,              // target in expressions[0] if test: body; otherwise
  assignment,        // target = expressions[0]
  block_assignment,  // target = body, filtered by expressions[0] if present
  with,              // targets = expressions, body
  macro,             // macro, body, to place
  call,              // macro, body, expressions[0] is the call
  filter,            // expressions[0], body
  generation,        // body
  stop,              // break
  next               // continue
};

struct Statement {
  StatementKind kind;
  int line;
  std::vector<ExpressionPointer> expressions = {};
  ExpressionPointer target = {};
  std::vector<ExpressionPointer> targets = {};
  ExpressionPointer test = {};         // of a loop
  ExpressionPointer test_target = {};  // the target of the loop, in the frame of its test
  Body body = {};
  Body branches = {};  // of elif, each a conditional
  Body otherwise = {};
  FrameLayout frame = {};             // of the body, if it has its own
  FrameLayout test_frame = {};        // of a loop
  FrameLayout otherwise_frame = {};   // of a loop
  std::optional<int> loop_slot = {};  // of the variable `loop`, if the body reads it
  Place place = {};                   // of the macro
  std::unique_ptr<MacroSyntax> macro = {};
};

struct SyntaxTree {
  std::unique_ptr<const std::string> source;  // texts of the tree refer to it
  Body body;
  FrameLayout frame;
  std::vector<std::string> environment_names;
  bool marks_generation = false;
};

}  // namespace lockstep::jinja
