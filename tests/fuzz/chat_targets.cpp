// Chat templates as others wrote them, rendered over a conversation, and the files that they come in.
#include "base/error.hpp"
#include "base/json.hpp"
#include "chat/chat_template_file.hpp"
#include "fuzz/targets.hpp"
#include "jinja/chat_template.hpp"
#include "jinja/template_memory.hpp"
#include "prepare/message_format.hpp"
#include "prepare/record_reader.hpp"
#include "tokenizer/tokenizers.hpp"

#include <array>
#include <memory>
#include <string_view>

namespace lockstep::test {

namespace {

const std::vector<std::string>& template_words() {
  static const std::vector<std::string> words{"{{ ",
                                              " }}",
                                              "{%- ",
                                              " -%}",
                                              "{% ",
                                              " %}",
                                              "{# ",
                                              " #}",
                                              "if x",
                                              "elif y",
                                              "else",
                                              "endif",
                                              "for m in messages",
                                              "for k, v in d.items()",
                                              "for i in range(3)",
                                              "endfor",
                                              "set x = ",
                                              "set ns.x = ",
                                              "set x",
                                              "endset",
                                              "macro f(a, b=1)",
                                              "endmacro",
                                              "call f(1)",
                                              "endcall",
                                              "filter upper",
                                              "endfilter",
                                              "with a = 1",
                                              "endwith",
                                              "generation",
                                              "endgeneration",
                                              "raw",
                                              "endraw",
                                              "break",
                                              "continue",
                                              "namespace(x=1)",
                                              "messages",
                                              "messages[0]",
                                              ".content",
                                              "['role']",
                                              "[::-1]",
                                              "[1:]",
                                              "[-1]",
                                              "loop.index",
                                              "loop.last",
                                              "loop.nextitem",
                                              "loop.length",
                                              "f(1)",
                                              "caller()",
                                              "x",
                                              "ns",
                                              "d",
                                              "1",
                                              "-2",
                                              "0.5",
                                              "'a'",
                                              "\"b\\n\"",
                                              "none",
                                              "true",
                                              "[1, 'a']",
                                              "{'a': 1}",
                                              "(1, 2)",
                                              " + ",
                                              " - ",
                                              " * ",
                                              " / ",
                                              " // ",
                                              " % ",
                                              " ** ",
                                              " ~ ",
                                              " == ",
                                              " < ",
                                              " in ",
                                              " not in ",
                                              " and ",
                                              " or ",
                                              "not ",
                                              " is defined",
                                              " is string",
                                              " is mapping",
                                              " is in [1]",
                                              "|trim",
                                              "|tojson(indent=2)",
                                              "|length",
                                              "|join(', ')",
                                              "|upper",
                                              "|list",
                                              "|map(attribute='role')",
                                              "|map('upper')",
                                              "|selectattr('role', 'equalto', 'user')",
                                              "|sort",
                                              "|unique",
                                              "|dictsort",
                                              "|groupby('role')",
                                              "|replace('a', 'aaaa')",
                                              "|indent(4)",
                                              "|int",
                                              "|batch(2)",
                                              "|sum",
                                              "|round(1)",
                                              "|format(1)",
                                              "|default('x')",
                                              "|safe",
                                              "|center(50)",
                                              ".split(',')",
                                              ".strip()",
                                              ".replace('', 'x')",
                                              ".join(x)",
                                              ".get('a')",
                                              ".items()",
                                              ".format(x)",
                                              ".startswith('a')",
                                              ".zfill(9)",
                                              "*args",
                                              "**d",
                                              "raise_exception('no')",
                                              "strftime_now('%Y')",
                                              "range(99999)",
                                              " if x else y",
                                              "\n",
                                              "  ",
                                              "é",
                                              "😀",
                                              "9223372036854775807",
                                              "(",
                                              ")",
                                              "[",
                                              "]",
                                              "|",
                                              ","};
  return words;
}

std::vector<std::string> templates() {
  return {
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
      "'\\n' }}{% endfor %}\n"
      "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
      "{%- set ns = namespace(last=0) %}\n{% for m in messages[::-1] if m.role == 'user' %}{% set ns.last = "
      "loop.index0 ~ m.content %}{% else %}none{% endfor %}\n"
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}{% endgeneration "
      "%}{% else %}{{ m | tojson(indent=2) }}{% endif %}"
      "{{ loop.cycle('a', 'b') if not loop.last else loop.previtem.role }}{% endfor %}{{ ns.last }}",
      "{% macro f(a, b=[1, 2], c={'x': none}) %}{{ a ~ b ~ c ~ kwargs ~ varargs }}{{ caller(a) if caller else '' }}{% "
      "endmacro %}\n{% call(u) f(1, q=2) %}{{ u * 3 }}"
      "{% endcall %}{{ f('%5.1f|%s' % (2.5, 'y'), *[3, 4]) }}{% set x | upper | replace('A', 'b') %}a{{ d.items() | "
      "list }}{% endset %}{{ x[1:-1:2] }}{# no #}{% raw %}{{ }}{% endraw %}",
      "{% with a = d.list, b = 'naïve Σ' %}{% filter indent(2, true) %}{{ a | map('string') | select | sort | join(b) "
      "}}\n{{ a | batch(2, 0) | list }}{% endfilter %}{{ b.split() | "
      "first | title }}{{ messages | groupby('role') | map(attribute=0) | unique | list | tojson }}{{ d | "
      "dictsort(by='value', reverse=true) | length if false }}{% endwith %}",
      "{% for i in range(5) %}{% if i is even %}{% continue %}{% endif %}{% if i > 3 %}{% break %}{% endif %}{{ -i ** "
      "2 // 3 % 5 }}{% endfor %}{{ 1 < 2 <= 2 != 3 and 'a' in 'abc' "
      "and 3 not in [1] }}{{ '{} {a}'.format(1, a=2) }}{{ 'a,b'.rsplit(',', 1)[-1].center(7, '*') }}{{ messages | "
      "selectattr('role', 'in', ['user']) | list | length }}"};
}

/// A template of words, in tags that mostly end.
std::string made_template(Dice& dice) {
  std::string text;
  const auto words = [&] {
    for (std::size_t count = 1 + dice.length(12); count > 0; --count) text += dice.pick(template_words());
  };
  for (std::size_t tags = 1 + dice.length(20); tags > 0; --tags) {
    if (dice.one_in(3)) {
      words();
    } else if (dice.one_in(2)) {
      text += "{{ ";
      words();
      text += " }}";
    } else {
      text += "{% ";
      text += dice.pick(template_words());
      text += dice.one_in(2) ? " %}" : dice.pick(template_words()) + " %}";
    }
  }
  return text;
}

void render(const std::string& text) {
  static const Json messages =
      Json::array({{{"role", "system"}, {"content", "Be brief"}},
                   {{"role", "user"}, {"content", "Hi, naïve \xF0\x9F\x98\x80"}},
                   {{"role", "assistant"},
                    {"content", "Yo"},
                    {"tool_calls", Json::array({{{"name", "f"}, {"arguments", {{"a", 1.5}}}}})}}});
  static const Json variables{
      {"x", "a,b"}, {"y", 3}, {"d", {{"a", 1}, {"b", nullptr}, {"list", {3, "x", true}}}}, {"bos_token", "<s>"}};
  const ChatTemplate chat(text, "chat.jinja");
  const jinja::TemplateLimits limits{.steps = 2'000'000, .bytes = std::uint64_t{1} << 26};
  const ChatInput input{.messages = messages, .add_generation_prompt = true, .variables = &variables};
  const RenderedChat rendered = chat.render(input, limits);
  require(rendered.text.size() <= limits.bytes, "a text is within its bound");
  std::size_t before = 0;
  for (const TextSpan& span : rendered.generated) {
    require(before <= span.begin && span.begin <= span.end && span.end <= rendered.text.size(),
            "spans are in order and inside of the text");
    before = span.end;
  }
}

const std::vector<std::string>& record_words() {
  static const std::vector<std::string> words{"\"messages\"",
                                              "\"conversations\"",
                                              "\"role\"",
                                              "\"content\"",
                                              "\"from\"",
                                              "\"value\"",
                                              "\"weight\"",
                                              "\"tools\"",
                                              "\"tool_calls\"",
                                              "\"type\"",
                                              "\"text\"",
                                              "\"user\"",
                                              "\"assistant\"",
                                              "\"system\"",
                                              "\"tool\"",
                                              "\"human\"",
                                              "\"gpt\"",
                                              "\"\"",
                                              "<|end|>",
                                              "<|e",
                                              "nd|>",
                                              "\\u2800",
                                              "\xE2\xA3\xBF",
                                              "0",
                                              "1",
                                              "0.5",
                                              "null",
                                              "[",
                                              "]",
                                              "{",
                                              "}",
                                              ":",
                                              ",",
                                              "\xC3\xA9"};
  return words;
}

std::vector<std::string> conversation_records() {
  return {
      R"({"messages": [{"role": "system", "content": "Be"}, {"role": "user", "content": "Hi <|end|> <"}, )"
      R"({"role": "assistant", "content": "Yo <|end|>", "weight": 1}, {"role": "user", "content": "So"}, )"
      R"({"role": "assistant", "content": "No", "weight": 0}], "tools": [{"name": "<|end|>", "n": 1.5}]})",
      R"({"id": 3, "conversations": [{"from": "human", "value": "na\u00efve"}, {"from": "gpt", "value": "\u65e5"}]})",
      R"({"messages": "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"<|e\"}, {\"type\": )"
      R"(\"text\", \"text\": \"nd|>\"}]}, {\"role\": \"assistant\", \"content\": \"a\"}]", "tools": null})"};
}

/// By a template that marks turns and by one that does not, for each choice of what counts.
void read_conversation(const std::string& record) {
  static const std::unique_ptr<Tokenizer> tokenizer = bytes_tokenizer("<|end|>");
  static const std::string said =
      "{% if message.content is string %}{{ message.content | trim }}{% else %}{{ message.content | "
      "map(attribute='text') | join }}{% endif %}<|end|>";
  static const auto format = [](const std::string& text) {
    return MessageFormat{.conversations = {ChatTemplate(text, "chat.jinja"), {{"bos_token", "<s>"}}}};
  };
  static const std::array formats{
      format("{% for message in messages %}{{ message.role }}:" + said +
             "{% endfor %}{{ 'assistant:' if add_generation_prompt }}"),
      format("{{ tools | tojson }}{% for message in messages %}{% if message.role == 'assistant' %}{% generation %}" +
             said + "{% endgeneration %}{% else %}" + said + "{% endif %}{% endfor %}")};
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const simdjson::padded_string padded(record);
  if (parser.parse(padded).get(object) != simdjson::SUCCESS) fail(ExitCode::input, "no JSON object");
  std::string refusal;
  for (const MessageFormat& one : formats) {
    for (const TrainOn train_on : {TrainOn::assistant, TrainOn::last, TrainOn::all}) {
      try {
        RecordOptions options;
        options.form = RecordForm::messages;
        options.train_on = train_on;
        const auto reader = message_reader(*tokenizer, options, one);
        const Sample sample = reader->read(object);
        require(sample.ids.size() == sample.mask.size(), "each token counts or does not");
        require(tokenizer->decode(sample.ids).size() == sample.text_bytes, "tokens are the text");
      } catch (const BadRecord& problem) {
        refusal = problem.reason;
      } catch (const Error& problem) {
        if (problem.code() != ExitCode::input) throw;
        refusal = problem.what();
      }
    }
  }
  if (!refusal.empty()) fail(ExitCode::input, "{}", refusal);
}

std::string configuration() {
  const Json several = Json::array(
      {{{"name", "default"}, {"template", templates()[0]}}, {{"name", "tool_use"}, {"template", templates()[1]}}});
  return to_text({{"bos_token", "<s>"},
                  {"eos_token", {{"content", "</s>"}, {"lstrip", false}, {"__type", "AddedToken"}}},
                  {"chat_template", several}},
                 1);
}

}  // namespace

std::vector<Target> chat_targets(const Path& folder) {
  std::vector<Target> targets;
  targets.push_back({.name = "chat template",
                     .seeds = templates(),
                     .words = template_words(),
                     .names = {"chat.jinja:"},
                     .made = made_template,
                     .read = render});
  const Path path = folder / "tokenizer_config.json";
  targets.push_back({.name = "tokenizer_config.json with chat templates",
                     .seeds = {configuration()},
                     .words = {"default", "name", "template", "chat_template", "content", "_token"},
                     .names = {"tokenizer_config.json"},
                     .share = 0.2,
                     .read = [path](const std::string& input) {
                       put_file(path, input);
                       const ChatTemplateFile file = read_chat_template(path, "default");
                       try {
                         render(file.text);
                       } catch (const Error&) {  // what the template itself is refused for is asked above
                       }
                     }});
  targets.push_back({.name = "record of messages",
                     .seeds = conversation_records(),
                     .words = record_words(),
                     .share = 3,
                     .read = read_conversation});
  return targets;
}

}  // namespace lockstep::test
