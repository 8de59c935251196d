// Requests to the Hugging Face hub: the files of a dataset at a revision, and their contents. Local.
#pragma once

#include "remote/http.hpp"
#include "remote/hub_files.hpp"

#include <functional>
#include <string>

namespace lockstep {

class HubClient {
 public:
  /// Uses the endpoint and the token of the environment. `alive` is as for HttpClient.
  HubClient(std::string id, std::function<void()> alive);

  /// Lists the files of a revision. Throws Error(input) if the dataset or revision does not exist (or is private), or
  /// if the answer is malformed. Throws Error(storage) if the token lacks the right to read it, or if no answer comes.
  HubListing list(const std::string& revision) const;
  /// Returns a small file as text. Throws as list() does.
  std::string read(const std::string& commit, const HubFile& file) const;
  /// Downloads a file to `part`; bytes that are already there are not fetched again. Throws as list() does.
  void fetch(const std::string& commit, const HubFile& file, const Path& part) const;

 private:
  std::string url_of(const std::string& commit, const HubFile& file) const;
  void require(const HttpAnswer& answer, const std::string& what) const;

  std::string endpoint_;
  std::string id_;
  bool has_token_;
  HttpClient http_;
};

}  // namespace lockstep
