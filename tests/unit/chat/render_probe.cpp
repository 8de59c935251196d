// render_probe: for the tests that compare chat templates with other libraries. Reads JSON objects, one a line, from
// stdin: "template", "messages", and if they are there "tools", "documents", "add_generation_prompt", "variables".
// Prints of each a JSON object: "text" and "generated", pairs of bytes; or "error". A template that comes again is
// parsed once. With --folder FOLDER [NAME] it prints what read_chat_template finds there.
#include "base/error.hpp"
#include "base/json.hpp"
#include "chat/chat_template_file.hpp"
#include "jinja/chat_template.hpp"

#include <iostream>
#include <map>
#include <string>

namespace {

using namespace lockstep;

Json probe(const Json& request, std::map<std::string, ChatTemplate>& known) {
  try {
    const auto text = request.at("template").get<std::string>();
    auto found = known.find(text);
    if (found == known.end()) {
      if (known.size() > 1000) known.clear();
      found = known.emplace(text, ChatTemplate(text, "chat.jinja")).first;
    }
    const auto member = [&](const char* name) { return request.contains(name) ? &request.at(name) : nullptr; };
    const RenderedChat chat =
        found->second.render({.messages = request.at("messages"),
                              .tools = member("tools"),
                              .documents = member("documents"),
                              .add_generation_prompt = request.value("add_generation_prompt", false),
                              .variables = member("variables")});
    Json generated = Json::array();
    for (const TextSpan& span : chat.generated) generated.push_back({span.begin, span.end});
    return {{"text", chat.text}, {"generated", generated}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count > 2) {
      const ChatTemplateFile file = read_chat_template(arguments[2], count > 3 ? arguments[3] : "");
      std::cout << to_text({{"text", file.text}, {"origin", file.origin}, {"variables", file.variables}}) << '\n';
      return 0;
    }
    std::map<std::string, ChatTemplate> known;
    for (std::string line; std::getline(std::cin, line);)
      std::cout << to_text(probe(parse_json(line, "stdin"), known)) << '\n';
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
