// The visitor of the record structs: for each field it collects the JSON value and the schema. Only report/record.cpp
// includes it.
#pragma once

#include "base/json.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class RecordFields {
 public:
  template <class T>
  void field(std::string_view name, const T& value, std::string_view meaning) {
    values_[std::string(name)] = json_of(value);
    Json schema = schema_of(value);
    schema["description"] = meaning;
    schemas_[std::string(name)] = std::move(schema);
  }

  const Json& values() const { return values_; }
  const Json& schemas() const { return schemas_; }

 private:
  using Object = std::shared_ptr<const Json>;

  static Json json_of(const Object& value) { return value ? *value : Json::object(); }
  static Json json_of(double value) {
    return value - value == 0 ? Json(value) : Json(nullptr);
  }  // inf and nan are null
  static Json json_of(std::int64_t value) { return value; }
  static Json json_of(bool value) { return value; }
  static Json json_of(const std::string& value) { return value; }
  static Json json_of(const std::vector<std::string>& value) { return value; }
  static Json json_of(const std::vector<double>& value) {
    Json array = Json::array();
    for (const double each : value) array.push_back(json_of(each));
    return array;
  }
  static Json json_of(const std::vector<std::int64_t>& value) { return value; }
  template <class T>
  static Json json_of(const std::optional<T>& value) {
    return value ? json_of(*value) : Json(nullptr);
  }

  static Json schema_of(const Object&) { return {{"type", "object"}}; }
  static Json schema_of(double) { return {{"type", {"number", "null"}}}; }
  static Json schema_of(std::int64_t) { return {{"type", "integer"}}; }
  static Json schema_of(bool) { return {{"type", "boolean"}}; }
  static Json schema_of(const std::string&) { return {{"type", "string"}}; }
  static Json schema_of(const std::vector<std::string>&) {
    return {{"type", "array"}, {"items", {{"type", "string"}}}};
  }
  static Json schema_of(const std::vector<double>&) { return {{"type", "array"}, {"items", schema_of(0.0)}}; }
  static Json schema_of(const std::vector<std::int64_t>&) {
    return {{"type", "array"}, {"items", schema_of(std::int64_t{0})}};
  }
  template <class T>
  static Json schema_of(const std::optional<T>&) {
    Json schema = schema_of(T{});
    Json& type = schema.at("type");
    if (!type.is_array()) type = Json::array({type, "null"});
    return schema;
  }

  Json values_ = Json::object();
  Json schemas_ = Json::object();
};

}  // namespace lockstep
