// Boxes and regions of the older interface, from the descriptions of torch_npu and the tests of op-plugin.
#include <algorithm>
#include <cmath>

#include "old.h"

using namespace fake_cann;

namespace {

constexpr double kLittle = 1e-16;  // keeps quotients of empty boxes defined
at::Tensor wide(const at::Tensor& x) { return x.to(at::kFloat); }

struct Iou {
  at::Tensor boxes, others;  // rows: x1, y1, x2, y2
  at::Tensor united, iou;
};

Iou pairs(const Old& c, size_t first = 0) {
  TORCH_CHECK(!c.integer("is_cross") && c.text("mode") == "iou", "NotEmulated: is_cross, or a mode but iou");
  auto corners = [&](const at::Tensor& x) {
    if (!c.integer("trans")) return x;
    auto center = x.slice(0, 0, 2), half = x.slice(0, 2, 4) / 2;
    return at::cat({center - half, center + half});
  };
  Iou it{corners(wide(c.in(first))), corners(wide(c.in(first + 1))), {}, {}};
  auto sides = (at::minimum(it.boxes.slice(0, 2), it.others.slice(0, 2)) -
                at::maximum(it.boxes.slice(0, 0, 2), it.others.slice(0, 0, 2))).clamp_min(0);
  auto shared = sides[0] * sides[1];
  auto area = [](const at::Tensor& x) { return (x[2] - x[0]) * (x[3] - x[1]); };
  it.united = area(it.boxes) + area(it.others) - shared + kLittle;
  it.iou = shared / it.united;
  return it;
}

at::Tensor sides_around(const Iou& it) {
  return at::maximum(it.boxes.slice(0, 2), it.others.slice(0, 2)) -
         at::minimum(it.boxes.slice(0, 0, 2), it.others.slice(0, 0, 2));
}

at::Tensor distance(const Iou& it) {
  auto sides = sides_around(it);
  auto apart = (it.others.slice(0, 0, 2) + it.others.slice(0, 2) - it.boxes.slice(0, 0, 2) - it.boxes.slice(0, 2)) / 2;
  return apart.square().sum(0) / (sides[0].square() + sides[1].square() + kLittle);
}

void giou(const Old& c) {
  auto it = pairs(c);
  auto sides = sides_around(it), around = sides[0] * sides[1];
  c.put(it.iou - (around - it.united) / around);
}

void diou(const Old& c) {
  auto it = pairs(c);
  c.put(it.iou - distance(it));
}

at::Tensor low(const at::Tensor& boxes) { return boxes.slice(0, 0, 2); }
at::Tensor high(const at::Tensor& boxes) { return boxes.slice(0, 2); }
// Which of two is less; equal ones share the gradient.
at::Tensor share_of_less(const at::Tensor& a, const at::Tensor& b) { return a.lt(b).to(at::kFloat) + a.eq(b).to(at::kFloat) / 2; }
at::Tensor swapped(const at::Tensor& sides) { return sides.flip(0); }  // the other side

// gradient, boxes, others -> gradients of the boxes and of the others
template <bool is_giou>
void iou_gradients(const Old& c) {
  auto it = pairs(c, 1);
  auto g = wide(c.in(0)).reshape({1, -1}), around = sides_around(it);
  auto raw = at::minimum(high(it.boxes), high(it.others)) - at::maximum(low(it.boxes), low(it.others));
  auto sides = raw.clamp_min(0), shared = sides.prod(0, true);
  auto united = it.united.reshape({1, -1});
  auto of_united = -g * shared / united.square(), of_around = at::zeros_like(around), of_apart = at::zeros_like(around);
  if (is_giou) {  // iou - 1 + united / whole
    auto whole = around.prod(0, true);
    of_united = of_united + g / whole;
    of_around = -g * united / whole.square() * swapped(around);
  } else {  // iou - apart^2 / around^2
    auto apart = (low(it.others) + high(it.others) - low(it.boxes) - high(it.boxes)) / 2;
    auto square = around.square().sum(0, true) + kLittle;
    of_apart = -2 * g * apart / square;
    of_around = 2 * g * apart.square().sum(0, true) / square.square() * around;
  }
  auto of_sides = (g / united - of_united) * swapped(sides) * raw.gt(0);
  auto gradient = [&](const at::Tensor& one, const at::Tensor& other, double sign) {
    auto of_own = of_united * swapped(high(one) - low(one));
    auto of_high = of_own + of_sides * share_of_less(high(one), high(other)) + of_around * share_of_less(high(other), high(one));
    auto of_low = of_own + of_sides * share_of_less(low(other), low(one)) + of_around * share_of_less(low(one), low(other));
    of_high = of_high + sign * of_apart / 2;
    of_low = -of_low + sign * of_apart / 2;
    return c.integer("trans") ? at::cat({of_low + of_high, (of_high - of_low) / 2}) : at::cat({of_low, of_high});
  };
  c.put(gradient(it.boxes, it.others, -1), 0);
  c.put(gradient(it.others, it.boxes, 1), 1);
}

void ciou(const Old& c) {  // boxes, others -> overlap, difference of the angles
  auto it = pairs(c);
  auto angle = [](const at::Tensor& x) { return at::atan((x[2] - x[0]) / (x[3] - x[1])); };
  auto apart = angle(it.others) - angle(it.boxes), aspect = 4 / (M_PI * M_PI) * apart.square();
  c.put(it.iou - distance(it) - aspect / (1 - it.iou + aspect + kLittle) * aspect, 0);
  c.put(apart, 1);
}

void iou(const Old& c) {  // boxes, others: rows x1, y1, x2, y2 -> a row for each of the others
  constexpr double kDocumented = 1e-3;  // torch_npu.contrib.function.npu_ptiou
  auto boxes = wide(c.in(0)).unsqueeze(0), others = wide(c.in(1)).unsqueeze(1);
  auto sides = (at::minimum(boxes.slice(2, 2), others.slice(2, 2)) -
                at::maximum(boxes.slice(2, 0, 2), others.slice(2, 0, 2))).clamp_min(0);
  auto area = [](const at::Tensor& x) { return (x.select(2, 2) - x.select(2, 0)) * (x.select(2, 3) - x.select(2, 1)); };
  auto shared = sides.select(2, 0) * sides.select(2, 1);
  auto whole = c.text("mode") == "iof" ? area(others) : area(boxes) + area(others) - shared;
  c.put(shared / (whole + kDocumented));
}

at::Tensor row(const std::vector<float>& values) {
  return at::from_blob(const_cast<float*>(values.data()), {1, int64_t(values.size())}, at::kFloat).clone();
}

struct Inclusive {  // corners belong to their boxes
  at::Tensor center, size;
  explicit Inclusive(const at::Tensor& x)
      : center((x.slice(1, 0, 2) + x.slice(1, 2)) * 0.5), size(x.slice(1, 2) - x.slice(1, 0, 2) + 1) {}
};

void encode(const Old& c) {  // anchors, boxes
  const Inclusive anchors(wide(c.in(0))), boxes(wide(c.in(1)));
  auto deltas = at::cat({(boxes.center - anchors.center) / anchors.size, (boxes.size / anchors.size).log()}, 1);
  c.put((deltas - row(c.floats("means"))) / row(c.floats("stds")));
}

void decode(const Old& c) {  // anchors, deltas
  const Inclusive anchors(wide(c.in(0)));
  auto deltas = wide(c.in(1)) * row(c.floats("stds")) + row(c.floats("means"));
  const double most = std::abs(std::log(c.real("wh_ratio_clip", 0.016)));
  const auto& sizes = c.list("max_shape");
  const auto width = double(sizes.back()), height = double(sizes.front());
  auto center = anchors.center + anchors.size * deltas.slice(1, 0, 2);
  auto half = anchors.size * deltas.slice(1, 2).clamp(-most, most).exp() * 0.5 - 0.5;
  auto last = at::tensor({width - 1, height - 1, width - 1, height - 1}, at::kFloat);
  c.put(at::minimum(at::cat({center - half, center + half}, 1).clamp_min(0), last));
}

void yolo_encode(const Old& c) {  // anchors, boxes, sizes of the cells
  constexpr double kSmallest = 1e-6;
  auto anchors = wide(c.in(0)), boxes = wide(c.in(1)), stride = wide(c.in(2)).unsqueeze(1);
  auto center = [](const at::Tensor& x) { return (x.slice(1, 0, 2) + x.slice(1, 2)) * 0.5; };
  auto size = [](const at::Tensor& x) { return x.slice(1, 2) - x.slice(1, 0, 2); };
  auto place = ((center(boxes) - center(anchors)) / stride + 0.5).clamp(kSmallest, 1 - kSmallest);
  c.put(at::cat({place, (size(boxes) / size(anchors)).clamp_min(kSmallest).log()}, 1));
}

void response_flags(const Old& c) {  // boxes -> whether an anchor's cell has the center of a box
  auto boxes = wide(c.in(0));
  const auto &sizes = c.list("featmap_size"), &strides = c.list("strides");
  auto cell = [&](int64_t at, int64_t cells) {
    auto center = (boxes.select(1, at) + boxes.select(1, at + 2)) * 0.5;
    return (center / strides[size_t(at)]).floor().to(at::kLong).clamp(0, cells - 1);
  };
  auto found = at::zeros({sizes[0] * sizes[1]}, at::kByte);
  found.index_fill_(0, cell(1, sizes[0]) * sizes[1] + cell(0, sizes[1]), 1);
  c.put(found.repeat_interleave(c.integer("num_base_anchors")));
}

void assign_positive(const Old& c) {
  // assigned, overlaps, flags, largest overlaps, their boxes, largest of each box, its anchor, number of boxes
  // As op-plugin's test: boxes that are the best for no anchor are not assigned to one.
  auto positive = (c.in(3) > c.real("pos_iou_thr", 0.5)) & c.in(2).to(at::kBool);
  c.put(at::where(positive, (c.in(4) + 1).to(c.in(0).scalar_type()), c.in(0)));
}

// Where to sample along one axis: positions, and how many belong to a cell.
struct Samples {
  std::vector<double> positions;
  int64_t each;
};

constexpr int64_t kPlain = 0, kAligned = 3;

Samples samples_of(double start, double end, int64_t cells, int64_t wanted, bool is_aligned) {
  const double extent = is_aligned ? end - start : std::max(end - start, 1.0);
  const auto each = wanted > 0 ? wanted : std::max<int64_t>(int64_t(std::ceil(extent / double(cells))), 1);
  Samples it{{}, each};
  for (int64_t at = 0; at < cells * each; ++at)
    it.positions.push_back(start + (double(at) + 0.5) * extent / double(cells * each));
  return it;
}

// How much each row of `size` counts for each sample, as a matrix; samples far outside count nothing.
at::Tensor weights(const Samples& it, int64_t size) {
  auto found = at::zeros({int64_t(it.positions.size()), size});
  auto at = found.accessor<float, 2>();
  for (size_t i = 0; i < it.positions.size(); ++i) {
    double position = it.positions[i];
    if (position < -1 || position > double(size)) continue;
    position = std::min(std::max(position, 0.0), double(size - 1));
    const auto low = int64_t(position), high = std::min(low + 1, size - 1);
    at[int64_t(i)][low] += float(1 - (position - double(low)));
    at[int64_t(i)][high] += float(position - double(low));
  }
  return found.view({-1, it.each, size}).mean(1);
}

// The features of a region are rows * features * columns, and their gradient the same matrices transposed.
std::pair<at::Tensor, at::Tensor> matrices(const Old& c, const at::Tensor& region, int64_t height, int64_t width) {
  const auto mode = c.integer("roi_end_mode", kPlain);
  TORCH_CHECK(mode == kPlain || mode == kAligned, "NotEmulated: roi_end_mode ", mode);
  const double scale = c.real("spatial_scale", 1.0), shift = mode == kAligned ? 0.5 : 0.0;
  auto side = [&](int64_t at) { return region[at].item().toDouble() * scale - shift; };
  auto along = [&](int64_t at, const char* cells, int64_t size) {
    return weights(samples_of(side(at), side(at + 2), c.integer(cells), c.integer("sample_num"), mode == kAligned), size);
  };
  return {along(2, "pooled_height", height), along(1, "pooled_width", width)};
}

void roi_align(const Old& c) {  // features, regions: batch, x1, y1, x2, y2
  auto features = wide(c.in(0)), regions = wide(c.in(1));
  for (int64_t at = 0; at < regions.size(0); ++at) {
    auto [rows, columns] = matrices(c, regions[at], features.size(2), features.size(3));
    c.out()[at].copy_(at::matmul(at::matmul(rows, features[regions[at][0].item().toLong()]), columns.t()));
  }
}

void roi_align_gradient(const Old& c) {  // gradient, regions -> gradient of the features
  auto g = wide(c.in(0)), regions = wide(c.in(1)), result = at::zeros(c.out().sizes());
  for (int64_t at = 0; at < regions.size(0); ++at) {
    auto [rows, columns] = matrices(c, regions[at], result.size(2), result.size(3));
    result[regions[at][0].item().toLong()] += at::matmul(at::matmul(rows.t(), g[at]), columns);
  }
  c.put(result);
}

// The part of an axis that a cell of a region has (R-FCN, arXiv:1605.06409; the test of op-plugin).
std::pair<int64_t, int64_t> part_of(double start, double end, int64_t cell, int64_t cells, int64_t size) {
  const double step = std::max(end - start, 0.1) / double(cells);
  auto inside = [&](double at) { return int64_t(std::min(std::max(at, 0.0), double(size))); };
  return {inside(std::floor(double(cell) * step + start)), inside(std::ceil(double(cell + 1) * step + start))};
}

template <class Work>
void for_cells(const Old& c, const at::Tensor& given, int64_t height, int64_t width, Work work) {
  auto regions = wide(given).transpose(1, 2).reshape({-1, 5});
  const auto cells = c.integer("group_size");
  const double scale = c.real("spatial_scale", 1.0);
  for (int64_t at = 0; at < regions.size(0); ++at) {
    auto side = [&](int64_t place, double more) { return std::round(regions[at][place].item().toDouble() + more) * scale; };
    for (int64_t row = 0; row < cells; ++row)
      for (int64_t column = 0; column < cells; ++column) {
        auto [top, bottom] = part_of(side(2, 0), side(4, 1), row, cells, height);
        auto [left, right] = part_of(side(1, 0), side(3, 1), column, cells, width);
        if (bottom > top && right > left)
          work(at, regions[at][0].item().toLong(), row, column, std::array<int64_t, 4>{top, bottom, left, right});
      }
  }
}

void ps_roi_pooling(const Old& c) {  // features, regions: batch, x1, y1, x2, y2 by their number
  auto x = wide(c.in(0)), result = at::zeros(c.out().sizes());
  const auto cells = c.integer("group_size");
  auto by_cell = x.view({x.size(0), c.integer("output_dim"), cells, cells, x.size(2), x.size(3)});
  for_cells(c, c.in(1), x.size(2), x.size(3), [&](auto at, auto image, auto row, auto column, const auto& part) {
    auto area = by_cell.select(0, image).select(1, row).select(1, column).slice(1, part[0], part[1]).slice(2, part[2], part[3]);
    result[at].select(1, row).select(1, column).copy_(area.mean({1, 2}));
  });
  c.put(result);
}

void ps_roi_pooling_gradient(const Old& c) {  // gradient, regions -> gradient of the features
  auto g = wide(c.in(0)), result = at::zeros(c.out().sizes());
  const auto cells = c.integer("group_size");
  auto by_cell = result.view({result.size(0), c.integer("output_dim"), cells, cells, result.size(2), result.size(3)});
  for_cells(c, c.in(1), result.size(2), result.size(3), [&](auto at, auto image, auto row, auto column, const auto& part) {
    auto area = by_cell.select(0, image).select(1, row).select(1, column).slice(1, part[0], part[1]).slice(2, part[2], part[3]);
    area += (g[at].select(1, row).select(1, column) / (area.size(1) * area.size(2))).view({-1, 1, 1});
  });
  c.put(result);
}

// Which of some boxes stay, the best first, if none may overlap a better one by more than a limit.
std::vector<int64_t> kept_of(const at::Tensor& boxes, double limit, int64_t most) {
  auto x = boxes.to(at::kDouble).contiguous();
  auto corner = x.accessor<double, 2>();
  auto area = [&](int64_t i) { return (corner[i][2] - corner[i][0]) * (corner[i][3] - corner[i][1]); };
  auto overlaps = [&](int64_t i, int64_t j) {
    double shared = 1;
    for (int axis = 0; axis < 2; ++axis)
      shared *= std::max(std::min(corner[i][axis + 2], corner[j][axis + 2]) - std::max(corner[i][axis], corner[j][axis]), 0.0);
    const double united = area(i) + area(j) - shared;
    return united > 0 && shared / united > limit;
  };
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < x.size(0) && int64_t(kept.size()) < most; ++i)
    if (std::none_of(kept.begin(), kept.end(), [&](int64_t j) { return overlaps(j, i); })) kept.push_back(i);
  return kept;
}

// boxes, scores -> the best boxes of all classes of each image, their scores and classes, and how many there are
void batch_suppression(const Old& c) {
  TORCH_CHECK(!c.integer("change_coordinate_frame") && !c.integer("transpose_box"),
              "NotEmulated: change_coordinate_frame or transpose_box");
  auto boxes = c.in(0), scores = c.in(1);
  const int64_t most = c.integer("max_total_size");
  auto found = at::zeros({boxes.size(0), most, 6}, boxes.options()), counts = at::zeros({boxes.size(0)}, at::kInt);
  for (int64_t image = 0; image < boxes.size(0); ++image) {
    std::vector<at::Tensor> of_classes;
    for (int64_t label = 0; label < scores.size(2); ++label) {
      auto score = scores.select(0, image).select(1, label);
      auto order = std::get<1>(score.sort(true, 0, true));
      order = order.masked_select(score.index_select(0, order).to(at::kFloat).gt(c.real("score_threshold", 0)));
      auto candidates = boxes.select(0, image).select(1, boxes.size(2) > 1 ? label : 0).index_select(0, order);
      order = order.index_select(0, at::tensor(kept_of(candidates, c.real("iou_threshold", 0), c.integer("max_size_per_class")), at::kLong));
      auto chosen = score.index_select(0, order).unsqueeze(1);
      candidates = boxes.select(0, image).select(1, boxes.size(2) > 1 ? label : 0).index_select(0, order);
      of_classes.push_back(at::cat({candidates, chosen, at::full_like(chosen, double(label))}, 1));
    }
    auto all = at::cat(of_classes);
    all = all.index_select(0, std::get<1>(all.select(1, 4).sort(true, 0, true)).slice(0, 0, most));
    found[image].slice(0, 0, all.size(0)).copy_(all);
    counts[image] = all.size(0);
  }
  c.put(found.slice(2, 0, 4), 0);
  c.put(found.select(2, 4), 1);
  c.put(found.select(2, 5), 2);
  c.put(counts, 3);
}

}  // namespace

OldFunctions fake_cann::old_box_functions() {
  return {
      {"Iou", iou},
      {"GIoU", giou},
      {"DIoU", diou},
      {"CIoU", ciou},
      {"GIoUGrad", iou_gradients<true>},
      {"DIoUGrad", iou_gradients<false>},
      {"BatchMultiClassNonMaxSuppression", batch_suppression},
      {"BoundingBoxEncode", encode},
      {"BoundingBoxDecode", decode},
      {"YoloBoxesEncode", yolo_encode},
      {"AnchorResponseFlags", response_flags},
      {"GridAssignPositive", assign_positive},
      {"ROIAlign", roi_align},
      {"ROIAlignGrad", roi_align_gradient},
      {"PSROIPoolingV2", ps_roi_pooling},
      {"PSROIPoolingGradV2D", ps_roi_pooling_gradient},
  };
}
