// What the hub answers: the files of a dataset at a revision, and their bytes. Local.
#pragma once

#include "remote/http.hpp"
#include "remote/hub_files.hpp"

#include <functional>
#include <string>

namespace lockstep {

class HubClient {
 public:
  /// With the endpoint and the token of the environment. `alive` as for HttpClient.
  HubClient(std::string id, std::function<void()> alive);

  /// Throws Error(input) if there is no such dataset or revision, or the answer makes no sense, Error(storage) if it
  /// needs rights that the token has not, or no answer comes.
  HubListing list(const std::string& revision) const;
  /// A small file as text. Throws the same.
  std::string read(const std::string& commit, const HubFile& file) const;
  /// Makes the file `part` what the hub has, from the bytes on that it has. Throws the same.
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
