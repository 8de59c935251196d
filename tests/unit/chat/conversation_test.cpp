#include "base/error.hpp"
#include "chat/conversation_text.hpp"
#include "chat/spelled_tokens.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(conversations)

namespace {

const std::string plain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}{{ '<assistant>' if add_generation_prompt }}";
const std::string marked =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }};{% "
    "endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}";

ConversationFormat format_of(const std::string& text) { return {ChatTemplate(text, "t.jinja"), Json::object()}; }

Conversation conversation(const std::string& messages) {
  return conversation_of({.messages = parse_json(messages, "test")}, "messages");
}

/// The text, with what counts in brackets.
std::string counted(const std::string& text, const std::string& messages, TrainedTurns turns) {
  const ConversationText made = text_of(conversation(messages), format_of(text), turns);
  std::string shown = made.text;
  for (auto span = made.counted.rbegin(); span != made.counted.rend(); ++span)
    shown.insert(span->end, "]").insert(span->begin, "[");
  return shown + (made.counts_at_end ? " to the end" : "");
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    BOOST_TEST(static_cast<int>(error.code()) == static_cast<int>(ExitCode::input));
    return error.what();
  }
  return "nothing";
}

const std::string four = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
                         R"({"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}])";

}  // namespace

BOOST_AUTO_TEST_CASE(what_the_assistant_writes_counts_behind_the_generation_prompt) {
  for (const std::string& text : {plain, marked}) {
    BOOST_TEST(counted(text, four, TrainedTurns::assistant) ==
               "<user>a;<assistant>[b;]<user>c;<assistant>[d;] to the end");
    BOOST_TEST(counted(text, four, TrainedTurns::last) == "<user>a;<assistant>b;<user>c;<assistant>[d;] to the end");
    BOOST_TEST(counted(text, four, TrainedTurns::all) == "[<user>a;<assistant>b;<user>c;<assistant>d;] to the end");
    const std::string weighted = R"([{"role": "assistant", "content": "a", "weight": 0},)"
                                 R"({"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}])";
    BOOST_TEST(counted(text, weighted, TrainedTurns::assistant) == "<assistant>a;<assistant>[b;]<user>c;");
    BOOST_TEST(counted(text, weighted, TrainedTurns::all) == "[<assistant>]a;[<assistant>b;<user>c;] to the end");
    BOOST_TEST(counted(text, R"([{"role": "user", "content": "a"}])", TrainedTurns::assistant) == "<user>a;");
  }
}

BOOST_AUTO_TEST_CASE(a_template_whose_beginnings_differ_tells_no_turns_but_perhaps_the_last) {
  const std::string stripping =
      "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last or m.role == 'user' else '' }};{% endfor %}{{ "
      "'<assistant>' if add_generation_prompt }}";
  BOOST_TEST(refusal([&] { counted(stripping, four, TrainedTurns::assistant); }) ==
             "cannot find the text of the assistant: the template renders the first 2 of 4 messages as \"b;\" at byte "
             "19, where the whole conversation has \";<user>c;<assistant>d;\"");
  BOOST_TEST(counted(stripping, four, TrainedTurns::last) == "<user>a;<assistant>;<user>c;<assistant>[d;] to the end");
  const std::string silent = "{% for m in messages %}{% generation %}{% endgeneration %}{{ m.content }}{% endfor %}";
  BOOST_TEST(refusal([&] { counted(silent, four, TrainedTurns::assistant); }) ==
             "cannot find the text of the assistant: the template renders nothing for it");
}

BOOST_AUTO_TEST_CASE(of_an_earlier_turn_counts_what_a_template_leaves_of_it_without_its_reasoning) {
  const std::string reasoning =
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}(thinks){% endif %}{{ "
      "m.content "
      "}}{% for t in m.tool_calls %}{{ t.function.name }}{% endfor %};{% endfor %}{{ '<assistant>' if "
      "add_generation_prompt }}";
  BOOST_TEST(counted(reasoning, four, TrainedTurns::assistant) ==
             "<user>a;<assistant>[b;]<user>c;<assistant>[(thinks)d;] to the end");
  // a turn that has what follows it within itself, one of spaces, one that calls a tool
  const auto after = [&](const std::string& message) {
    return counted(reasoning, "[" + message + R"(, {"role": "user", "content": "c"}])", TrainedTurns::assistant);
  };
  BOOST_TEST(after(R"({"role": "assistant", "content": "b;<user>c;"})") == "<assistant>[b;<user>c;;]<user>c;");
  BOOST_TEST(after(R"({"role": "assistant", "content": "bb;b"})") == "<assistant>[bb;b;]<user>c;");
  BOOST_TEST(after(R"({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add"}}]})") ==
             "<assistant>[add;]<user>c;");
  BOOST_TEST(refusal([&] { after(R"({"role": "assistant", "content": " "})"); }) ==
             "cannot find the text of the assistant: the template renders the first 1 of 2 messages as \"(thinks) ;\" "
             "at byte 11, where the whole conversation has \" ;<user>c;\"");
}

BOOST_AUTO_TEST_CASE(messages_of_sharegpt_are_those_of_openai_and_nulls_are_dropped) {
  const Conversation shared =
      conversation(R"([{"from": "human", "value": "a", "weight": null}, {"from": "gpt", "value": "b", "weight": 1},)"
                   R"({"from": "observation", "value": "c"}])");
  BOOST_TEST(to_text(shared.messages) ==
             R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":1},)"
             R"({"role":"tool","content":"c"}])");
}

BOOST_AUTO_TEST_CASE(what_the_assistant_calls_in_sharegpt_becomes_its_tool_calls) {
  const std::string call = R"({"name":"add","arguments":{"a":1}})";
  const std::string as_object =
      to_text(conversation("[{\"from\": \"function_call\", \"value\": " + call + "}]").messages);
  BOOST_TEST(as_object == R"([{"role":"assistant","tool_calls":[{"type":"function","function":)" + call + "}]}]");
  BOOST_TEST(to_text(conversation(R"([{"from": "function_call", "value": )" + to_text(Json(call)) + "}]").messages) ==
             as_object);
  BOOST_TEST(conversation(R"([{"from": "function_call", "value": [)" + call + "," + call + "]}]")
                 .messages[0]["tool_calls"]
                 .size() == 2);
  for (const std::string wrong : {"\"add\"", "[]", "[5]", "{\"arguments\":{}}"})
    BOOST_TEST(refusal([&] { conversation("[{\"from\": \"function_call\", \"value\": " + wrong + "}]"); }) ==
               "messages[0] has a function_call with the value " + wrong);
}

BOOST_AUTO_TEST_CASE(a_system_text_and_variables_beside_the_messages_are_for_the_template) {
  const auto beside = [](const char* system, const char* variables, const std::string& first = "user") {
    const Json messages = parse_json("[{\"role\": \"" + first + "\", \"content\": \"a\"}]", "test");
    const Conversation made = conversation_of(
        {.messages = messages, .system = parse_json(system, "test"), .variables = parse_json(variables, "test")},
        "messages");
    const ConversationFormat format{ChatTemplate(plain + "{{ mood }}", "t.jinja"), Json{{"mood", "calm"}}};
    return text_of(made, format, TrainedTurns::all).text;
  };
  BOOST_TEST(beside("null", "null") == "<user>a;calm");
  BOOST_TEST(beside("\"\"", "{}", "system") == "<system>a;calm");
  BOOST_TEST(beside("\"s\"", R"({"mood": "glad"})") == "<system>s;<user>a;glad");
  BOOST_TEST(refusal([&] { beside("\"s\"", "{}", "system"); }) ==
             "the record has the field system, and messages[0] is a system message too");
  BOOST_TEST(refusal([&] { beside("5", "{}"); }) == "system is 5, not a string");
  BOOST_TEST(refusal([&] { beside("null", "[]"); }) == "chat_template_kwargs is [], not an object of variables");
  BOOST_TEST(refusal([&] { beside("null", R"({"tools": []})"); }) ==
             "chat_template_kwargs sets tools, which comes from the conversation");
}

BOOST_AUTO_TEST_CASE(special_tokens_that_messages_spell_out_are_found_where_they_stand_in_the_text) {
  const SpecialNames names({"<user>", "<assistant>", ""});
  BOOST_TEST((names.found_in("<user <user> < <user>x<assist") == std::vector<std::size_t>{6, 15, 22}));
  const auto places = [&](const std::string& text, const std::string& messages) {
    const Conversation chat = conversation(messages);
    const ConversationFormat format = format_of(text);
    std::string shown = text_of(chat, format, TrainedTurns::all).text;
    const std::vector<TextSpan> found = spelled_tokens(chat, format, shown, names);
    for (auto place = found.rbegin(); place != found.rend(); ++place) shown.insert(place->begin, "!");
    return shown;
  };
  BOOST_TEST(places(plain, four) == "<user>a;<assistant>b;<user>c;<assistant>d;");
  BOOST_TEST(places(plain, R"([{"role": "user", "content": "a<user>é⣿<assistant><user"}])") ==
             "<user>a!<user>é⣿!<assistant>!<user;");
  const std::string lengths = "{% for m in messages %}{{ m.content | length }}{% endfor %}";
  BOOST_TEST(refusal([&] {
               places(lengths, R"([{"role": "user", "content": "<user>"}])");
             }).starts_with("cannot tell which special tokens are the template's"));
}

BOOST_AUTO_TEST_SUITE_END()
