// The plug-in that speaks HTTP. What it offers: remote/http.hpp.
#include "remote/http.hpp"

#include <curl/curl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using lockstep::HttpCall;

constexpr long connect_s = 20;  // to a host
constexpr long silent_s = 60;   // without a byte from it
constexpr long most_redirections = 10;

const HttpCall& call_of(void* context) { return *static_cast<const HttpCall*>(context); }

std::size_t take_header(char* line, std::size_t size, std::size_t count, void* context) {
  const HttpCall& call = call_of(context);
  return call.header(call.listener, line, size * count) ? size * count : 0;
}

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* context) {
  const HttpCall& call = call_of(context);
  return call.body(call.listener, bytes, size * count) ? size * count : 0;
}

int show_life(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const HttpCall& call = call_of(context);
  return call.alive(call.listener) ? 0 : 1;
}

void set_certificates(CURL* curl) {
  for (const char* const name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const file = std::getenv(name);
    if (file == nullptr || *file == '\0') continue;
    curl_easy_setopt(curl, CURLOPT_CAINFO, file);
    return;
  }
}

bool get(const HttpCall* call, char* problem, std::size_t room) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL* const curl = global == CURLE_OK ? curl_easy_init() : nullptr;
  if (curl == nullptr) {
    std::snprintf(problem, room, "cannot initialize libcurl");
    return false;
  }
  char reason[CURL_ERROR_SIZE] = {};
  HttpCall copy = *call;
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_URL, call->url);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "lockstep");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  const bool encrypted = std::strncmp(call->url, "https:", 6) == 0;  // and stays so
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, encrypted ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, most_redirections);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, connect_s);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, silent_s);
  set_certificates(curl);
  if (call->bearer != nullptr) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, call->bearer);
  }
  const std::string range = std::to_string(call->from) + "-";
  if (call->from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &copy);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &copy);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, show_life);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &copy);
  const CURLcode outcome = curl_easy_perform(curl);
  curl_easy_cleanup(curl);
  if (outcome == CURLE_OK) return true;
  std::snprintf(problem, room, "%s", reason[0] != '\0' ? reason : curl_easy_strerror(outcome));
  return false;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const lockstep::HttpPlugin* lockstep_http() {
  static const lockstep::HttpPlugin plugin{lockstep::HttpPlugin::version_here, get};
  return &plugin;
}
