#include "options/faces.hpp"

#include "base/json.hpp"

namespace lockstep {

namespace {

using Kind = OptionType::Kind;

void add_range(Json& schema, const OptionFacts& facts) {
  if (facts.min) schema[facts.above_min ? "exclusiveMinimum" : "minimum"] = *facts.min;
  if (facts.max) schema["maximum"] = *facts.max;
}

Json object_of(const std::vector<Option>& options);

Json schema_of(const OptionType& type, const OptionFacts& facts) {
  Json schema = Json::object();
  switch (type.kind) {
    case Kind::boolean: schema["type"] = "boolean"; break;
    case Kind::integer:
      schema["type"] = "integer";
      add_range(schema, facts);
      break;
    case Kind::number:
      schema["type"] = "number";
      add_range(schema, facts);
      break;
    case Kind::text: schema["type"] = "string"; break;
    case Kind::choice: schema["enum"] = type.choices; break;
    case Kind::form: schema["type"] = {"string", "number"}; break;
    case Kind::group: schema = object_of(*type.fields); break;
    case Kind::list:
      schema["type"] = "array";
      schema["items"] = schema_of(type.element.front(), facts);
      if (type.length) schema["minItems"] = schema["maxItems"] = *type.length;
      break;
    case Kind::map:
      schema["type"] = "object";
      schema["additionalProperties"]["anyOf"] = {schema_of(type.element.front(), facts), {{"type", "null"}}};
      break;
  }
  return schema;
}

/// The schema of an option, null included: it takes back what lower layers said.
Json property_of(const Option& option) {
  const OptionFacts& facts = option.facts;
  Json schema = {{"description", facts.details.empty() ? facts.brief : facts.brief + ". " + facts.details}};
  schema["anyOf"] = {schema_of(option.type, option.facts), {{"type", "null"}}};
  if (!option.facts.required && !option.built_in.is_null()) schema["default"] = option.built_in;
  return schema;
}

Json object_of(const std::vector<Option>& options) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  for (const Option& option : options) {
    schema["properties"][option.path] = property_of(option);
    if (option.facts.required) schema["required"].push_back(option.path);
  }
  return schema;
}

}  // namespace

Json config_json_schema(const Tool& tool, const Declaration& declaration) {
  Json properties = Json::object();
  properties["dialect"] = {{"const", "lockstep"}, {"description", "of files in this vocabulary: lockstep-dialects(5)"}};
  properties["preset"] = {{"description", "configuration files that this one is put upon"},
                          {"type", {"string", "array"}}};
  for (const Option& option : declaration.options()) {
    if (option.facts.command_line_only || option.facts.hidden) continue;
    const std::size_t dot = option.path.find('.');
    if (dot == std::string::npos) {
      properties[option.path] = property_of(option);
    } else {
      properties[option.path.substr(0, dot)]["properties"][option.path.substr(dot + 1)] = property_of(option);
    }
  }
  for (const Declaration::Section& section : declaration.sections()) {
    Json& object = properties[section.name];
    object["description"] = section.help;
    object["type"] = {"object", "null"};
    object["additionalProperties"] = false;
  }
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "configuration of lockstep " + tool.name},
          {"type", "object"},
          {"properties", properties},
          {"additionalProperties", false}};
}

}  // namespace lockstep
