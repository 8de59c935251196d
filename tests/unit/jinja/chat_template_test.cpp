#include "jinja/chat_template.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "jinja/template_memory.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(chat_templates)

namespace {

Json two_messages() {
  return Json::array({{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hé!"}}});
}

std::string rendered(const std::string& text) {
  const Json messages = two_messages();
  const Json variables{{"bos_token", "<s>"}, {"numbers", {3, 1, 2}}};
  return ChatTemplate(text, "t.jinja").render({.messages = messages, .variables = &variables}).text;
}

std::string refusal(const std::string& text, const jinja::TemplateLimits& limits = {}) {
  try {
    const Json messages = two_messages();
    ChatTemplate(text, "t.jinja").render({.messages = messages}, limits);
  } catch (const Error& error) {
    BOOST_TEST(static_cast<int>(error.code()) == static_cast<int>(ExitCode::input));
    return error.what();
  }
  return "nothing";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_conversation_is_rendered_and_what_is_generated_is_marked_in_bytes) {
  const Json messages = two_messages();
  const ChatTemplate chat(
      "{% for message in messages %}\n<|{{ message.role }}|>\n{% if message['role'] == 'assistant' %}{% generation "
      "%}{{ message.content }}<end>{% "
      "endgeneration %}{% else %}{{ message.content }}{% endif %}\n{% endfor %}",
      "t.jinja");
  const RenderedChat result = chat.render({.messages = messages});
  BOOST_TEST(result.text == "<|user|>\nHi<|assistant|>\nHé!<end>");
  BOOST_TEST(chat.marks_generation());
  BOOST_REQUIRE(result.generated.size() == 1);
  BOOST_TEST(result.text.substr(result.generated[0].begin, result.generated[0].end - result.generated[0].begin) ==
             "Hé!<end>");
}

BOOST_AUTO_TEST_CASE(values_are_written_as_python_writes_them) {
  BOOST_TEST(rendered("{{ [1, 1.0, true, none, 'it\\'s', {'a': (1,)}] }}") ==
             "[1, 1.0, True, None, \"it's\", {'a': (1,)}]");
  BOOST_TEST(rendered("{{ {'é': [1, 2.5e20, none]} | tojson(indent=1) }}") ==
             "{\n \"é\": [\n  1,\n  2.5e+20,\n  null\n ]\n}");
}

BOOST_AUTO_TEST_CASE(names_belong_to_the_block_that_assigns_them_and_namespaces_carry_values_out) {
  BOOST_TEST(rendered("{% set x = 1 %}{% for i in numbers %}{% set x = i %}{{ x }}{% endfor %}{{ x }}") == "3121");
  BOOST_TEST(rendered("{% set ns = namespace(x=1) %}{% for i in numbers %}{% set ns.x = i %}{% endfor %}{{ ns.x }}") ==
             "2");
  BOOST_TEST(rendered("{% for i in numbers %}{{ bos_token }}{% endfor %}{% set bos_token = 1 %}") == "");
}

BOOST_AUTO_TEST_CASE(refusals_name_the_file_and_the_line) {
  BOOST_TEST(refusal("a\n{{ x | nope }}") == "t.jinja:2: the filter 'nope' is not supported");
  BOOST_TEST(refusal("{% if true %}\n{{ x is nope }}{% endif %}") == "t.jinja:2: the test 'nope' is not supported");
  BOOST_TEST(rendered("{% if false %}{{ x | nope }}{% endif %}{{ 1 if true else x is nope }}") == "1");
  BOOST_TEST(rendered("{% for i in [] %}{{ i | urlize }}{% endfor %}") == "");
  BOOST_TEST(refusal("{% if false %}{% for i in [] %}{{ i | nope }}{% endfor %}{% endif %}") ==
             "t.jinja:1: the filter 'nope' is not supported");
  BOOST_TEST(refusal("a\n\n{% include 'b' %}") == "t.jinja:3: the statement 'include' is not supported");
  BOOST_TEST(refusal("{% for x in [1] recursive %}{% endfor %}") == "t.jinja:1: a recursive for is not supported");
  BOOST_TEST(refusal("\n{{ raise_exception('roles must alternate') }}") ==
             "t.jinja:2: the template refuses: roles must alternate");
  BOOST_TEST(refusal("{{ nothing.at_all }}") == "t.jinja:1: 'nothing' is undefined");
  BOOST_TEST(refusal("{{ [].append(1) }}") ==
             "t.jinja:1: list.append is not allowed: a template must not modify values");
  BOOST_TEST(refusal("{{ 'a'.encode() }}") == "t.jinja:1: the method str.encode is not supported");
}

BOOST_AUTO_TEST_CASE(a_rendering_is_bounded_in_steps_bytes_and_depth) {
  BOOST_TEST(refusal("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}",
                     {.steps = 10000}) == "t.jinja:1: the template takes more than 10000 steps");
  BOOST_TEST(
      refusal("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
              {.bytes = 1 << 20}) == "t.jinja:1: the template uses more than 1048576 bytes of memory");
  BOOST_TEST(refusal("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")
                 .starts_with("t.jinja:1: the template is nested deeper than 1000 levels"));
}

BOOST_AUTO_TEST_SUITE_END()
