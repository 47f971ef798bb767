// What the runner says: one JSON object a line on the stream that was stdout when the process began.
//
// Everything that libraries print to stdout is sent to stderr instead, so a line of the protocol is
// never mixed with somebody else's text.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

constexpr int kProtocol = 1;
constexpr const char* kVersion = "1.2.0";

// Builds one flat or nested JSON object.
class Json {
 public:
  Json& begin_object() {
    separate();
    text_ += '{';
    fresh_ = true;
    return *this;
  }
  Json& end_object() {
    text_ += '}';
    fresh_ = false;
    return *this;
  }
  Json& begin_array() {
    separate();
    text_ += '[';
    fresh_ = true;
    return *this;
  }
  Json& end_array() {
    text_ += ']';
    fresh_ = false;
    return *this;
  }
  Json& key(std::string_view name) {
    separate();
    quote(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  Json& value(std::string_view text) {
    separate();
    quote(text);
    return *this;
  }
  Json& value(const char* text) {
    return value(std::string_view(text));
  }
  Json& value(bool flag) {
    separate();
    text_ += flag ? "true" : "false";
    return *this;
  }
  Json& value(uint64_t number) {
    separate();
    text_ += std::to_string(number);
    return *this;
  }
  Json& value(int64_t number) {
    separate();
    text_ += std::to_string(number);
    return *this;
  }
  Json& value(int number) {
    return value(static_cast<int64_t>(number));
  }
  template <typename Range>
  Json& list(std::string_view name, const Range& items) {
    key(name).begin_array();
    for (const auto& item : items) {
      value(item);
    }
    return end_array();
  }
  template <typename T>
  Json& field(std::string_view name, const T& item) {
    return key(name).value(item);
  }
  const std::string& text() const {
    return text_;
  }

 private:
  // Bytes of the UTF-8 character that the text begins with (RFC 3629); 0 when it begins with none.
  static std::size_t character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    const std::size_t length = first < 0x80                    ? 1
                               : first >= 0xc2 && first < 0xe0 ? 2
                               : first >= 0xe0 && first < 0xf0 ? 3
                               : first >= 0xf0 && first < 0xf5 ? 4
                                                               : 0;
    if (length == 0 || text.size() < length) {
      return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xc0) != 0x80) {
        return 0;
      }
    }
    // Overlong forms, surrogates, and what lies beyond the last character.
    const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                       (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
    return wrong ? 0 : length;
  }
  void separate() {
    if (!fresh_) {
      text_ += ',';
    }
    fresh_ = false;
  }
  void quote(std::string_view raw) {
    text_ += '"';
    for (std::size_t at = 0; at < raw.size(); ++at) {
      const char c = raw[at];
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (const std::size_t length = character(raw.substr(at)); length > 1) {
        text_ += raw.substr(at, length);
        at += length - 1;
      } else if (byte < 0x20 || byte >= 0x7f) {
        // Text of a damaged program may hold any bytes: what is no UTF-8 becomes one escape a byte, which
        // keeps the line valid JSON.
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", byte);
        text_ += escape;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool fresh_ = true;
};

// The protocol's stream.
class Messages {
 public:
  // Keeps the real stdout for the protocol and lets everything else go to stderr.
  bool open() {
    std::fflush(stdout);
    fd_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return fd_ >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
  }

  // Sends one line. A reader that has gone away ends the process: there is nobody to work for.
  void send(const Json& message) {
    std::string line = message.text();
    line += '\n';
    size_t sent = 0;
    while (sent < line.size()) {
      const ssize_t count = write(fd_, line.data() + sent, line.size() - sent);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        std::_Exit(3);
      }
      sent += static_cast<size_t>(count);
    }
  }

 private:
  int fd_ = -1;
};

} // namespace runner
