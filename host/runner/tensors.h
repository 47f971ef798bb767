// Tensors between files (row-major) and memory (any dimension order).
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"

namespace runner {

using executorch::aten::ScalarType;

struct Dtype {
  const char* name;
  ScalarType type;
  size_t bytes;
};

constexpr Dtype kDtypes[] = {
    {"float32", ScalarType::Float, 4},
    {"float16", ScalarType::Half, 2},
    {"bfloat16", ScalarType::BFloat16, 2},
    {"float64", ScalarType::Double, 8},
    {"int64", ScalarType::Long, 8},
    {"int32", ScalarType::Int, 4},
    {"int16", ScalarType::Short, 2},
    {"int8", ScalarType::Char, 1},
    {"uint8", ScalarType::Byte, 1},
    {"bool", ScalarType::Bool, 1},
};

inline const Dtype* find_dtype(std::string_view name) {
  for (const auto& dtype : kDtypes) {
    if (name == dtype.name) {
      return &dtype;
    }
  }
  return nullptr;
}

inline const Dtype* find_dtype(ScalarType type) {
  for (const auto& dtype : kDtypes) {
    if (type == dtype.type) {
      return &dtype;
    }
  }
  return nullptr;
}

inline std::string dtype_name(ScalarType type) {
  const Dtype* dtype = find_dtype(type);
  return dtype != nullptr ? dtype->name : "type " + std::to_string(static_cast<int>(type));
}

template <typename Range>
std::string join(const Range& items) {
  std::string text;
  for (const auto item : items) {
    text += (text.empty() ? "" : ",") + std::to_string(static_cast<int64_t>(item));
  }
  return "[" + text + "]";
}

// Distance in elements between neighbours of each dimension when laid out in `dim_order`.
// False when a distance does not fit the runtime's 32-bit strides.
template <typename Sizes, typename Order>
bool strides_of(const Sizes& sizes, const Order& dim_order, std::vector<int32_t>& strides) {
  strides.assign(sizes.size(), 0);
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    const size_t dim = dim_order[i];
    if (step > std::numeric_limits<int32_t>::max()) {
      return false;
    }
    strides[dim] = static_cast<int32_t>(step);
    step *= sizes[dim] > 0 ? sizes[dim] : 1;
  }
  return true;
}

inline bool row_major(const std::vector<uint8_t>& dim_order) {
  for (size_t i = 0; i < dim_order.size(); ++i) {
    if (dim_order[i] != i) {
      return false;
    }
  }
  return true;
}

// Visits every element in row-major order: `visit(position, offset)`, the offset in elements by `strides`.
template <typename Sizes, typename Strides, typename Visit>
void walk(const Sizes& sizes, const Strides& strides, Visit visit) {
  const size_t rank = sizes.size();
  size_t count = 1;
  for (size_t i = 0; i < rank; ++i) {
    count *= static_cast<size_t>(sizes[i]);
  }
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (size_t position = 0; position < count; ++position) {
    visit(position, static_cast<size_t>(offset));
    for (size_t i = rank; i-- > 0;) {
      offset += strides[i];
      if (++index[i] < sizes[i]) {
        break;
      }
      offset -= strides[i] * index[i];
      index[i] = 0;
    }
  }
}

struct FileCloser {
  void operator()(std::FILE* file) const {
    if (file != nullptr) {
      std::fclose(file);
    }
  }
};

// Writes a whole file; returns an empty string or what failed.
inline std::string write_file(const std::string& path, const void* data, size_t size) {
  std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "wb"));
  if (!file || (size > 0 && std::fwrite(data, 1, size, file.get()) != size) || std::fclose(file.release()) != 0) {
    return "`" + path + "` cannot be written: " + std::strerror(errno);
  }
  return "";
}

// An input as the runtime sees it, with a pristine copy to notice changes by the program.
class InputTensor {
 public:
  // Returns an empty string, or what is wrong.
  std::string load(const InputArgument& argument) {
    dtype_ = find_dtype(argument.dtype);
    if (dtype_ == nullptr) {
      return "element type `" + argument.dtype + "` is not supported";
    }
    sizes_ = argument.sizes;
    dim_order_ = argument.dim_order;
    if (!strides_of(sizes_, dim_order_, strides_)) {
      return "it is too large for the runtime";
    }
    size_t bytes = dtype_->bytes;
    for (const int32_t size : sizes_) {
      if (size > 0 && bytes > std::numeric_limits<size_t>::max() / 2 / static_cast<size_t>(size)) {
        return "it is too large for memory";
      }
      bytes *= static_cast<size_t>(size);
    }
    std::unique_ptr<std::FILE, FileCloser> file(std::fopen(argument.path.c_str(), "rb"));
    if (!file) {
      return "`" + argument.path + "` cannot be opened: " + std::strerror(errno);
    }
    if (std::fseek(file.get(), 0, SEEK_END) != 0) {
      return "`" + argument.path + "` cannot be read: " + std::strerror(errno);
    }
    const long length = std::ftell(file.get());
    if (length < 0 || static_cast<size_t>(length) != bytes) {
      return "`" + argument.path + "` holds " + std::to_string(length) + " bytes, but " + argument.dtype +
          join(sizes_) + " needs " + std::to_string(bytes);
    }
    std::rewind(file.get());
    // One byte more than needed gives an empty tensor an address as well.
    std::vector<uint8_t> raw(bytes + 1);
    if (std::fread(raw.data(), 1, bytes, file.get()) != bytes) {
      return "`" + argument.path + "` cannot be read: " + std::strerror(errno);
    }
    if (row_major(dim_order_)) {
      pristine_ = std::move(raw);
    } else {
      pristine_.resize(raw.size());
      walk(sizes_, strides_, [&](size_t position, size_t offset) {
        std::memcpy(&pristine_[offset * dtype_->bytes], &raw[position * dtype_->bytes], dtype_->bytes);
      });
    }
    data_ = pristine_;
    impl_ = std::make_unique<executorch::aten::TensorImpl>(
        dtype_->type,
        static_cast<ssize_t>(sizes_.size()),
        sizes_.data(),
        data_.data(),
        dim_order_.data(),
        strides_.data());
    return "";
  }

  executorch::runtime::EValue value() {
    return executorch::runtime::EValue(executorch::aten::Tensor(impl_.get()));
  }
  bool changed() const {
    return data_ != pristine_;
  }
  void restore() {
    std::memcpy(data_.data(), pristine_.data(), pristine_.size());
  }
  const Dtype& dtype() const {
    return *dtype_;
  }
  const std::vector<int32_t>& sizes() const {
    return sizes_;
  }
  const std::vector<uint8_t>& dim_order() const {
    return dim_order_;
  }

 private:
  const Dtype* dtype_ = nullptr;
  std::vector<int32_t> sizes_;
  std::vector<uint8_t> dim_order_;
  std::vector<int32_t> strides_;
  std::vector<uint8_t> pristine_;
  std::vector<uint8_t> data_;
  std::unique_ptr<executorch::aten::TensorImpl> impl_;
};

// A finished output in row-major order.
struct OutputTensor {
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<uint8_t> bytes;
};

// Copies an output that is a tensor out of the program's memory; returns an empty string, or why that cannot
// be done.
inline std::string read_output(const executorch::runtime::EValue& value, OutputTensor& out) {
  const auto tensor = value.toTensor();
  const Dtype* dtype = find_dtype(tensor.scalar_type());
  if (dtype == nullptr) {
    return "its element " + dtype_name(tensor.scalar_type()) + " is not supported";
  }
  out.dtype = dtype->name;
  out.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
  const size_t count = static_cast<size_t>(tensor.numel());
  if (data == nullptr && count > 0) {
    return "it has no memory";
  }
  out.bytes.resize(count * dtype->bytes);
  const std::vector<uint8_t> dim_order(tensor.dim_order().begin(), tensor.dim_order().end());
  if (row_major(dim_order)) {
    if (count > 0) {
      std::memcpy(out.bytes.data(), data, out.bytes.size());
    }
    return "";
  }
  std::vector<int32_t> strides;
  if (!strides_of(tensor.sizes(), dim_order, strides)) {
    return "it is too large";
  }
  walk(tensor.sizes(), strides, [&](size_t position, size_t offset) {
    std::memcpy(&out.bytes[position * dtype->bytes], data + offset * dtype->bytes, dtype->bytes);
  });
  return "";
}

} // namespace runner
