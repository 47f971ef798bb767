// A loaded program and its memory.
#pragma once

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/log.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensors.h"

// The thread pool's library exports this class; the package ships no header for it.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(uint32_t new_thread_count);
};
ThreadPool* get_threadpool();
} // namespace executorch::extension::threadpool

namespace runner {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Tag;

// Where and why the work ended.
struct Failure {
  std::string stage;
  Error code;
  std::string message;
};

inline std::string tag_name(Tag tag) {
  switch (tag) {
    case Tag::None:
      return "none";
    case Tag::Tensor:
      return "tensor";
    case Tag::String:
      return "string";
    case Tag::Double:
      return "float";
    case Tag::Int:
      return "int";
    case Tag::Bool:
      return "bool";
    default:
      return "list";
  }
}

// A figure in kB of a file like /proc/self/status, in bytes; 0 when it is not there.
inline uint64_t memory_figure(const char* file, const std::string& name) {
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind(name + ":", 0) == 0) {
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
    }
  }
  return 0;
}

// Zeroed, aligned memory that costs nothing until it is touched.
class Buffer {
 public:
  bool allocate(size_t size) {
    constexpr size_t kAlignment = 64;
    if (size > SIZE_MAX - kAlignment) {
      return false;
    }
    memory_.reset(std::calloc(size + kAlignment, 1));
    if (!memory_) {
      return false;
    }
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    data_ = reinterpret_cast<uint8_t*>((address + kAlignment - 1) / kAlignment * kAlignment);
    size_ = size;
    return true;
  }
  uint8_t* data() const {
    return data_;
  }
  size_t size() const {
    return size_;
  }

 private:
  struct Free {
    void operator()(void* memory) const {
      std::free(memory);
    }
  };
  std::unique_ptr<void, Free> memory_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// One method with the memory it needs. Members are destroyed in reverse order: the method first.
class LoadedMethod {
 public:
  std::optional<Failure> load(
      const Program& program,
      const std::string& name,
      executorch::runtime::EventTracer* tracer) {
    auto meta = program.method_meta(name.c_str());
    if (!meta.ok()) {
      return Failure{"load_method", meta.error(), "the program has no method `" + name + "`"};
    }
    uint64_t available = memory_figure("/proc/meminfo", "MemAvailable");
    if (available == 0) {
      available = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    }
    for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
      const auto size = meta->memory_planned_buffer_size(i);
      if (!size.ok()) {
        return Failure{"load_method", size.error(), "the size of a planned buffer is missing"};
      }
      planned_bytes_ += *size > 0 ? static_cast<uint64_t>(*size) : 0;
      buffers_.emplace_back();
      if (*size < 0 || planned_bytes_ > available || !buffers_.back().allocate(static_cast<size_t>(*size))) {
        return Failure{
            "load_method",
            Error::MemoryAllocationFailed,
            "the program plans " + std::to_string(planned_bytes_) + " bytes of activations or more, but only " +
                std::to_string(available) + " bytes of memory are free"};
      }
      spans_.emplace_back(buffers_.back().data(), buffers_.back().size());
    }
    planned_ = std::make_unique<executorch::runtime::HierarchicalAllocator>(
        executorch::runtime::Span<executorch::runtime::Span<uint8_t>>(spans_.data(), spans_.size()));
    manager_ = std::make_unique<executorch::runtime::MemoryManager>(&method_allocator_, planned_.get(), &temporary_);
    auto method = program.load_method(name.c_str(), manager_.get(), tracer);
    if (!method.ok()) {
      return Failure{"load_method", method.error(), "the runtime cannot prepare method `" + name + "`"};
    }
    method_ = std::make_unique<executorch::runtime::Method>(std::move(*method));
    for (size_t i = 0; i < meta->num_outputs(); ++i) {
      const auto tag = meta->output_tag(i);
      const auto info = meta->output_tensor_meta(i);
      if (tag.ok() && *tag == Tag::Tensor && info.ok() && !info->is_memory_planned()) {
        outputs_.emplace_back();
        // The runtime refuses this for outputs that are inputs or constants: those have memory already.
        if (!outputs_.back().allocate(info->nbytes()) ||
            method_->set_output_data_ptr(outputs_.back().data(), outputs_.back().size(), i) != Error::Ok) {
          outputs_.pop_back();
        }
      }
    }
    return std::nullopt;
  }

  std::optional<Failure> check_inputs(const std::vector<InputTensor>& inputs) const {
    const auto meta = method_->method_meta();
    if (inputs.size() != meta.num_inputs()) {
      return Failure{
          "inputs",
          Error::InvalidArgument,
          "the program takes " + std::to_string(meta.num_inputs()) + " inputs, but " +
              std::to_string(inputs.size()) + " were given"};
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto tag = meta.input_tag(i);
      if (!tag.ok() || *tag != Tag::Tensor) {
        return Failure{
            "inputs",
            Error::NotSupported,
            "input " + std::to_string(i) + " of the program is of kind " + (tag.ok() ? tag_name(*tag) : "unknown") +
                "; only tensors are supported"};
      }
      const auto info = meta.input_tensor_meta(i);
      if (!info.ok()) {
        return Failure{"inputs", info.error(), "input " + std::to_string(i) + " of the program has no description"};
      }
      if (info->scalar_type() != inputs[i].dtype().type || info->sizes().size() != inputs[i].sizes().size()) {
        return Failure{
            "inputs",
            Error::InvalidArgument,
            "input " + std::to_string(i) + " is " + inputs[i].dtype().name + join(inputs[i].sizes()) +
                ", but the program takes " + dtype_name(info->scalar_type()) + join(info->sizes())};
      }
    }
    return std::nullopt;
  }

  std::optional<Failure> set_inputs(std::vector<InputTensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Error error = method_->set_input(inputs[i].value(), i);
      if (error != Error::Ok) {
        return Failure{
            "inputs",
            error,
            "the runtime refuses input " + std::to_string(i) + ", " + inputs[i].dtype().name +
                join(inputs[i].sizes())};
      }
    }
    return std::nullopt;
  }

  executorch::runtime::Method& method() {
    return *method_;
  }
  uint64_t planned_bytes() const {
    return planned_bytes_;
  }

 private:
  uint64_t planned_bytes_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<executorch::runtime::Span<uint8_t>> spans_;
  std::vector<Buffer> outputs_;
  executorch::extension::MallocMemoryAllocator method_allocator_;
  executorch::extension::MallocMemoryAllocator temporary_;
  std::unique_ptr<executorch::runtime::HierarchicalAllocator> planned_;
  std::unique_ptr<executorch::runtime::MemoryManager> manager_;
  std::unique_ptr<executorch::runtime::Method> method_;
};

} // namespace runner
