// Fused attention from its public definition: dropout(softmax(mask(scale * (q @ k.T + position)))) @ v.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "own.h"

using namespace fake_cann;

namespace {

// Inputs and attributes of one call. Which numbers are there depends on the variant of the operator.
struct Attention {
  at::Tensor query, key, value, position, keep_mask, mask, sink;
  std::vector<int64_t> query_ends, key_ends;  // sums of the lengths of sequences, for the layout TND
  std::vector<int64_t> prefix;                // how many keys every query of a sequence sees, for sparse modes 5 and 6
  double scale, keep;
  int64_t before, after, heads, sparse, position_type;
  std::string layout;
};

// The variants: several sequences one after the other, a choice of how positions are added, and a sink: for each head a
// logit that takes part in the softmax and has no value.
struct Variant {
  bool sequences, typed, sink;
  // Rotary parts of the query and of the key, each behind its tensor.
  constexpr bool rotary() const { return sequences && sink; }
};

// Which sequences of a call are computed together: `count` from `first` on.
struct Part {
  int64_t first, count;
  bool is_first, is_last;
};

bool there(const at::Tensor& x) { return x.defined() && x.numel() > 0; }

at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

// Reads what follows the tensors: prefix, lengths, first indices; scale, kept part, limits, heads, layout, precision,
// sparse mode, type of positions.
void read_numbers(const Call& c, Attention& a, int place, Variant variant) {
  a.prefix = c.ints(place++);
  if (variant.sequences) {
    a.query_ends = c.ints(place++);
    a.key_ends = c.ints(place++);
  }
  if (variant.typed) place += 2;
  a.scale = c.real(place++);
  a.keep = c.real(place++);
  a.before = c.integer(place++);
  a.after = c.integer(place++);
  a.heads = c.integer(place++);
  a.layout = c.text(place++);
  place += 1;
  a.sparse = c.integer(place++);
  a.position_type = variant.typed ? c.integer(place) : 1;
  if (variant.rotary()) TORCH_CHECK(c.text(place + 1).empty(), "NotEmulated: softmax_layout ", c.text(place + 1));
  TORCH_CHECK(a.sparse >= 0 && a.sparse <= 8, "NotEmulated: sparse_mode ", a.sparse);
  TORCH_CHECK(a.sparse != 5 || !variant.sequences, "sparse_mode 5 is not for the layout TND");
  TORCH_CHECK(a.sparse < 7 || variant.sequences, "sparse_mode ", a.sparse, " is for the layout TND only");
  TORCH_CHECK(a.position_type == 0 || a.position_type == 1, "NotEmulated: pse_type ", a.position_type);
  TORCH_CHECK(!there(a.position) || !variant.sequences, "NotEmulated: pse with layout TND");
}

void read_tensors(const Call& c, Attention& a, int position, Variant variant) {
  const int apart = variant.rotary() ? 2 : 1;
  a.query = c.tensor(0), a.key = c.tensor(apart), a.value = c.tensor(2 * apart);
  TORCH_CHECK(!variant.rotary() || !(there(c.tensor(1)) || there(c.tensor(3))), "NotEmulated: query_rope, key_rope");
  a.position = c.tensor(position), a.keep_mask = c.tensor(position + 1), a.mask = c.tensor(position + 3);
  TORCH_CHECK(!there(c.tensor(position + 2)), "NotEmulated: padding_mask");
}

// Batch, heads, sequence, size of a head.
at::Tensor heads_first(const at::Tensor& x, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  TORCH_CHECK(layout == "BSH" || layout == "SBH", "NotEmulated: layout ", layout);
  auto batch_first = layout == "SBH" ? x.transpose(0, 1) : x;
  return batch_first.unflatten(2, {heads, batch_first.size(2) / heads}).transpose(1, 2);
}

at::Tensor heads_back(const at::Tensor& x, const std::string& layout) {
  if (layout == "BNSD") return x;
  auto by_position = x.transpose(1, 2);
  if (layout == "BSND") return by_position;
  auto together = by_position.flatten(2);
  return layout == "SBH" ? together.transpose(0, 1) : together;
}

Part all_of(const Attention& a) { return {0, a.query.size(a.layout == "SBH" ? 1 : 0), true, true}; }

int64_t heads_of_key(const Attention& a) {
  if (a.layout == "BNSD") return a.key.size(1);
  if (a.layout == "BSND") return a.key.size(2);
  return a.key.size(2) / (a.query.size(2) / a.heads);
}

at::Tensor outside(const at::Tensor& ahead, int64_t before, int64_t after) { return ahead.gt(after) | ahead.lt(-before); }

// Pairs that do not count; undefined where all do. Without a mask modes and limits are without effect.
at::Tensor masked_pairs(const Attention& a, int64_t queries, int64_t keys, const Part& part) {
  if (!there(a.mask)) return {};
  auto columns = at::arange(keys), ahead = columns - at::arange(queries).unsqueeze(1);
  auto ahead_of_last = ahead - (keys - queries);
  if (a.sparse == 5 || a.sparse == 6) {  // below the diagonal through the last pair, or among the first keys
    TORCH_CHECK(int64_t(a.prefix.size()) >= part.first + part.count, "prefix has fewer numbers than there are sequences");
    auto lengths = at::tensor(at::IntArrayRef(a.prefix).slice(size_t(part.first), size_t(part.count)));
    return ahead_of_last.gt(0) & columns.ge(lengths.reshape({-1, 1, 1, 1}));
  }
  // A sequence whose queries were divided among devices: the last one here of a mode 3, the first one of a mode 2.
  bool divided = (a.sparse == 7 && part.is_last) || (a.sparse == 8 && part.is_first);
  if (a.sparse == 4 || divided) return outside(ahead_of_last, a.before, a.after);
  if (a.sparse == 2 || a.sparse == 8) return ahead.gt(0);
  if (a.sparse == 3 || a.sparse == 7) return ahead_of_last.gt(0);
  auto given = a.mask.slice(-2, 0, queries).slice(-1, 0, keys).to(at::kBool);
  return a.sparse == 1 ? given : given | outside(ahead, a.before, a.after);
}

// One batch, with heads first and as many heads of keys as of queries.
struct Batch {
  at::Tensor query, key, value, position, keep, masked, sink;
};

Batch batch_of(const Attention& a, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Part& part,
               int64_t first_bit = 0) {
  int64_t heads = q.size(1), groups = heads / k.size(1);
  TORCH_CHECK(groups * k.size(1) == heads, "the heads of the key do not divide those of the query");
  Batch b{wide(q), wide(k).repeat_interleave(groups, 1), wide(v).repeat_interleave(groups, 1), {}, {}, {}, {}};
  if (there(a.position)) {
    TORCH_CHECK(a.position.size(-2) == 1 || a.position.size(-2) == q.size(2), "NotEmulated: pse of some rows only");
    b.position = wide(a.position);
  }
  if (there(a.keep_mask) && a.keep < 1)
    b.keep = unpacked(a.keep_mask, {q.size(0), heads, q.size(2), k.size(2)}, first_bit).to(b.query.scalar_type()) / a.keep;
  b.masked = masked_pairs(a, q.size(2), k.size(2), part);
  if (there(a.sink)) {
    TORCH_CHECK(a.sink.numel() == heads, "expected a sink for each of ", heads, " heads, found ", a.sink.numel());
    b.sink = a.sink.to(b.query.scalar_type()).view({1, heads, 1, 1});
  }
  return b;
}

at::Tensor logits_of(const Attention& a, const Batch& b) {
  auto logits = at::matmul(b.query, b.key.transpose(-2, -1));
  if (!b.position.defined()) logits = logits * a.scale;
  else if (a.position_type == 1) logits = (logits + b.position) * a.scale;
  else logits = logits * a.scale + b.position;
  return b.masked.defined() ? logits.masked_fill(b.masked, std::numeric_limits<float>::lowest()) : logits;
}

// A row of which every key is masked has a sum of zero and gives zeros.
at::Tensor probabilities(const Batch& b, const at::Tensor& logits, const at::Tensor& top, const at::Tensor& total) {
  auto weights = at::exp(logits - top) / at::where(total == 0, at::ones_like(total), total);
  return b.masked.defined() ? weights.masked_fill(b.masked, 0) : weights;
}

struct Attended {
  at::Tensor out, top, total;
};

Attended attend(const Attention& a, const Batch& b) {
  auto logits = logits_of(a, b);
  auto top = logits.amax(-1, true);
  if (b.sink.defined()) top = at::maximum(top, b.sink);
  auto weights = at::exp(logits - top);
  if (b.masked.defined()) weights = weights.masked_fill(b.masked, 0);
  auto total = weights.sum(-1, true);
  if (b.sink.defined()) total = total + at::exp(b.sink - top);
  auto kept = probabilities(b, logits, top, total);
  if (b.keep.defined()) kept = kept * b.keep;
  return {at::matmul(kept, b.value), top, total};
}

struct Gradients {
  at::Tensor query, key, value, position, sink;
};

at::Tensor of_groups(const at::Tensor& gradient, int64_t heads) {
  return gradient.unflatten(1, {heads, gradient.size(1) / heads}).sum(2);
}

// With the maxima, the sums and the result that it is given: those of all parts of a sequence, if that is divided.
Gradients attend_backward(const Attention& a, const Batch& b, const at::Tensor& gradient, const Attended& given,
                          int64_t heads) {
  auto weights = probabilities(b, logits_of(a, b), given.top, given.total);
  auto kept = b.keep.defined() ? weights * b.keep : weights;
  auto of_weights = at::matmul(gradient, b.value.transpose(-2, -1));
  if (b.keep.defined()) of_weights = of_weights * b.keep;
  auto common = (gradient * given.out).sum(-1, true);
  auto of_logits = weights * (of_weights - common);
  auto scaled = of_logits * a.scale;
  Gradients g{at::matmul(scaled, b.key), of_groups(at::matmul(scaled.transpose(-2, -1), b.query), heads),
              of_groups(at::matmul(kept.transpose(-2, -1), gradient), heads), {}, {}};
  if (b.position.defined()) g.position = at::sum_to(a.position_type == 1 ? scaled : of_logits, b.position.sizes());
  if (b.sink.defined()) g.sink = (at::exp(b.sink - given.top) / given.total * -common).sum({0, 2, 3});
  return g;
}

// Calls `work(which sequence, its range in the tokens of the query and of the key, first bit of the mask)`.
template <class Work>
void for_each_sequence(const Attention& a, Work work) {
  TORCH_CHECK(a.query_ends.size() == a.key_ends.size(), "as many lengths of queries as of keys were expected");
  size_t count = a.query_ends.size();
  while (count > 1 && a.query_ends[count - 1] == 0 && a.key_ends[count - 1] == 0) --count;  // zeros behind the last one
  int64_t query_start = 0, key_start = 0, bit = 0;
  for (size_t i = 0; i < count; ++i) {
    int64_t queries = a.query_ends[i] - query_start, keys = a.key_ends[i] - key_start;
    TORCH_CHECK(queries >= 0 && keys >= 0, "the sums of lengths fall");
    if (queries > 0) work(Part{int64_t(i), 1, i == 0, i + 1 == count}, query_start, queries, key_start, keys, bit);
    bit += a.query.size(1) * queries * keys;
    query_start += queries, key_start += keys;
  }
}

at::Tensor one_sequence(const at::Tensor& x, int64_t start, int64_t length) {
  return x.narrow(0, start, length).transpose(0, 1).unsqueeze(0);
}
at::Tensor tokens(const at::Tensor& batch) { return batch.squeeze(0).transpose(0, 1); }

// Statistics of a sequence are together, by head and token.
at::Tensor statistic(const at::Tensor& all, int64_t heads, int64_t start, int64_t length) {
  return all.reshape({-1, all.size(-1)}).narrow(0, start * heads, length * heads).view({1, heads, length, all.size(-1)});
}

template <Variant variant>
void forward(const Call& c) {
  Attention a;
  constexpr int kPosition = variant.rotary() ? 5 : 3, kNext = kPosition + 4;
  read_tensors(c, a, kPosition, variant);
  if (variant.sink) a.sink = c.tensor(kNext);
  read_numbers(c, a, kNext + variant.sink, variant);
  int results = int(c.arguments.size()) - 4;
  auto top = c.tensor(results), total = c.tensor(results + 1), out = c.tensor(results + 3);
  if (!variant.sequences) {
    int64_t heads = heads_of_key(a);
    auto b = batch_of(a, heads_first(a.query, a.layout, a.heads), heads_first(a.key, a.layout, heads),
                      heads_first(a.value, a.layout, heads), all_of(a));
    auto done = attend(a, b);
    c.put(results + 3, heads_back(done.out, a.layout));
    top.copy_(done.top.expand(top.sizes()));
    total.copy_(done.total.expand(total.sizes()));
    return;
  }
  out.zero_(), top.zero_(), total.zero_();
  int64_t heads = a.query.size(1);
  for_each_sequence(a, [&](const Part& part, int64_t from, int64_t queries, int64_t key_from, int64_t keys, int64_t bit) {
    auto b = batch_of(a, one_sequence(a.query, from, queries), one_sequence(a.key, key_from, keys),
                      one_sequence(a.value, key_from, keys), part, bit);
    auto done = attend(a, b);
    out.narrow(0, from, queries).copy_(tokens(done.out));
    auto tops = statistic(top, heads, from, queries), totals = statistic(total, heads, from, queries);
    tops.copy_(done.top.expand(tops.sizes()));
    totals.copy_(done.total.expand(totals.sizes()));
  });
}

template <Variant variant>
void backward(const Call& c) {
  // query, key, value, gradient, position, keep mask, padding, mask, maxima, sums, softmax, result, sink; numbers
  Attention a;
  constexpr int kPosition = variant.rotary() ? 6 : 4, kStatistics = kPosition + 4, kNext = kStatistics + 4;
  read_tensors(c, a, kPosition, variant);
  if (variant.sink) a.sink = c.tensor(kNext);
  read_numbers(c, a, kNext + variant.sink, variant);
  auto gradient = wide(c.tensor(kPosition - 1)), top = c.tensor(kStatistics), total = c.tensor(kStatistics + 1);
  auto out = wide(c.tensor(kStatistics + 3));
  // The gradients of query, key, value and position, each rotary part behind its own, and of the sink.
  constexpr int kApart = variant.rotary() ? 2 : 1;
  const int results = int(c.arguments.size()) - (2 * kApart + 2 + variant.sink), last = int(c.arguments.size()) - 1;
  auto first = [](const at::Tensor& statistics) { return statistics.slice(-1, 0, 1); };
  if (!variant.sequences) {
    int64_t heads = heads_of_key(a);
    auto b = batch_of(a, heads_first(a.query, a.layout, a.heads), heads_first(a.key, a.layout, heads),
                      heads_first(a.value, a.layout, heads), all_of(a));
    auto g = attend_backward(a, b, heads_first(gradient, a.layout, a.heads),
                             {heads_first(out, a.layout, a.heads), first(top), first(total)}, heads);
    c.put(results, heads_back(g.query, a.layout));
    c.put(results + kApart, heads_back(g.key, a.layout));
    c.put(results + 2 * kApart, heads_back(g.value, a.layout));
    if (g.position.defined()) c.put(results + 2 * kApart + 1, g.position);
    if (g.sink.defined()) c.put(last, g.sink);
    return;
  }
  auto of_query = c.tensor(results), of_key = c.tensor(results + kApart), of_value = c.tensor(results + 2 * kApart);
  of_query.zero_(), of_key.zero_(), of_value.zero_();
  at::Tensor of_sink;
  if (variant.sink) of_sink = c.tensor(last).zero_();
  int64_t heads = a.query.size(1);
  for_each_sequence(a, [&](const Part& part, int64_t from, int64_t queries, int64_t key_from, int64_t keys, int64_t bit) {
    auto b = batch_of(a, one_sequence(a.query, from, queries), one_sequence(a.key, key_from, keys),
                      one_sequence(a.value, key_from, keys), part, bit);
    auto g = attend_backward(a, b, one_sequence(gradient, from, queries),
                             {one_sequence(out, from, queries), first(statistic(top, heads, from, queries)),
                              first(statistic(total, heads, from, queries))},
                             a.key.size(1));
    of_query.narrow(0, from, queries).copy_(tokens(g.query));
    of_key.narrow(0, key_from, keys).copy_(tokens(g.key));
    of_value.narrow(0, key_from, keys).copy_(tokens(g.value));
    if (g.sink.defined()) of_sink.add_(g.sink);
  });
}

// Where the arguments of an operator of inference are; -1 for one that it does not have. From `unknown` to before `heads`
// there are the tensors of quantised types, pages and prefixes.
struct Places {
  bool lists;
  int query_lengths, key_lengths, unknown, heads, scale, before, after, layout, sparse, out, sums_wanted;
};

bool is_given(const Call& c, int place) {
  if (c.arguments[size_t(place)].letter == 'A') return c.given(place) && !c.ints(place).empty();
  return there(c.tensor(place));
}

at::Tensor one_of(const Call& c, int place, bool is_list) {
  if (!is_list) return c.tensor(place);
  auto all = c.tensors(place);
  TORCH_CHECK(all.size() == 1, "NotEmulated: keys in ", all.size(), " tensors");
  return all[0];
}

// The length of each of some sequences; one number is that of all.
std::vector<int64_t> lengths_of(const Call& c, int place, int64_t batch, int64_t longest) {
  std::vector<int64_t> all(size_t(batch), longest);
  if (place < 0 || !is_given(c, place)) return all;
  auto given = c.ints(place);
  TORCH_CHECK(given.size() == 1 || given.size() >= size_t(batch), given.size(), " lengths of ", batch, " sequences");
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = given.size() == 1 ? given[0] : given[i];
    TORCH_CHECK(all[i] >= 0 && all[i] <= longest, "a length of ", all[i], " where the longest is ", longest);
  }
  return all;
}

// A mask of the sizes (queries, keys), (batch, keys) for one query, (batch, queries, keys) or (batch, 1, queries, keys),
// in which 1 may stand for the batch: that of one sequence.
at::Tensor mask_of(const at::Tensor& mask, int64_t which, int64_t batch, int64_t queries) {
  if (!there(mask)) return mask;
  auto x = mask;
  if (x.dim() == 2) x = queries == 1 && x.size(0) == batch ? x.unsqueeze(1) : x.unsqueeze(0);
  if (x.dim() == 3) x = x.unsqueeze(1);
  return x.narrow(0, x.size(0) == batch ? which : 0, 1);
}

// Sparse modes and limits are without effect where there is one query.
void simplify_for_one_query(Attention& a) {
  TORCH_CHECK(a.sparse == 0 || a.sparse == 1 || a.sparse == 3 || !there(a.mask), "NotEmulated: sparse_mode ", a.sparse,
              " with one query");
  if (a.sparse == 3) a.mask = at::Tensor();
  a.sparse = 1;
}

// Layouts of the query and of the result: the same, or A_B.
std::string result_layout(const std::string& layout) {
  auto place = layout.find('_');
  return place == std::string::npos ? layout : layout.substr(place + 1);
}

at::Tensor result_in(const at::Tensor& x, const std::string& layout) {
  return layout == "NBSD" ? x.transpose(0, 1) : heads_back(x, layout);
}

// What follows from the maximum and the sum of a row: the logarithm of the sum of the exponentials.
at::Tensor log_sum(const Attended& x) { return at::log(x.total) + x.top; }

// Without a gradient, with a length for the queries and the keys of each sequence. What is behind the queries is zero.
template <Places at_>
void infer(const Call& c) {
  for (int place = at_.unknown; place < at_.heads; ++place)
    TORCH_CHECK(!is_given(c, place), "NotEmulated: argument ", place, " (quantised, in pages, or with a prefix)");
  const bool sums_wanted = at_.sums_wanted >= 0 && c.boolean(std::max(at_.sums_wanted, 0));
  const int sums = at_.out + 1;
  Attention a;
  a.query = c.tensor(0), a.key = one_of(c, 1, at_.lists), a.value = one_of(c, 2, at_.lists);
  TORCH_CHECK(!there(c.tensor(3)), "NotEmulated: pse_shift");
  const auto mask = a.mask = c.tensor(4);
  a.heads = c.integer(at_.heads), a.scale = c.real(at_.scale), a.keep = 1, a.position_type = 0, a.sparse = 1;
  const std::string layout = c.text(at_.layout);
  a.layout = layout.substr(0, layout.find('_'));
  if constexpr (at_.sparse >= 0) {
    a.sparse = c.integer(at_.sparse), a.before = c.integer(at_.before), a.after = c.integer(at_.after);
  }
  TORCH_CHECK(a.sparse >= 0 && a.sparse <= 4, "NotEmulated: sparse_mode ", a.sparse);
  if (a.layout == "TND") {  // lengths are sums; a mask is one for all sequences
    if constexpr (at_.query_lengths >= 0) a.query_ends = c.ints(at_.query_lengths);
    a.key_ends = c.ints(at_.key_lengths);
    auto out = at::zeros_like(a.query.slice(-1, 0, a.value.size(-1)), at::kFloat);
    auto logs = at::zeros({a.query.size(0), a.query.size(1), 1}, at::kFloat);
    for_each_sequence(a, [&](const Part& part, int64_t from, int64_t queries, int64_t key_from, int64_t keys, int64_t) {
      auto done = attend(a, batch_of(a, one_sequence(a.query, from, queries), one_sequence(a.key, key_from, keys),
                                     one_sequence(a.value, key_from, keys), part));
      out.narrow(0, from, queries).copy_(tokens(done.out));
      logs.narrow(0, from, queries).copy_(tokens(log_sum(done)));
    });
    TORCH_CHECK(layout == "TND" || layout == "TND_NTD", "NotEmulated: layout ", layout);
    c.put(at_.out, layout == "TND" ? out : out.transpose(0, 1));
    if (sums_wanted) c.put(sums, logs);
    return;
  }
  const int64_t heads = heads_of_key(a);
  const auto query = heads_first(a.query, a.layout, a.heads), key = heads_first(a.key, a.layout, heads),
             value = heads_first(a.value, a.layout, heads);
  const int64_t batch = query.size(0), longest = query.size(2);
  if (longest == 1) simplify_for_one_query(a);
  const bool is_masked = there(a.mask);
  const auto queries = lengths_of(c, longest == 1 ? -1 : at_.query_lengths, batch, longest);
  const auto keys = lengths_of(c, at_.key_lengths, batch, key.size(2));
  auto out = at::zeros({batch, a.heads, longest, value.size(3)}, at::kFloat);
  auto logs = at::zeros({batch, a.heads, longest, 1}, at::kFloat);
  for (int64_t i = 0; i < batch; ++i) {
    if (is_masked) a.mask = mask_of(mask, i, batch, longest);
    auto part_of = [i](const at::Tensor& x, int64_t length) { return x.narrow(0, i, 1).narrow(2, 0, length); };
    const auto length = queries[size_t(i)], seen = keys[size_t(i)];
    if (length == 0 || seen == 0) continue;
    auto done = attend(a, batch_of(a, part_of(query, length), part_of(key, seen), part_of(value, seen), {i, 1, i == 0, false}));
    part_of(out, length).copy_(done.out);
    part_of(logs, length).copy_(log_sum(done));
  }
  c.put(at_.out, result_in(out, result_layout(layout)));
  if (sums_wanted) c.put(sums, logs);
}

constexpr Places kPrompt{false, 5, 6, 7, 12, 13, 14, 15, 16, 18, 20, -1};
constexpr Places kIncrement{true, -1, 5, 6, 15, 16, -1, -1, 17, -1, 21, -1};
constexpr Places kFusedInference{true, 5, 6, 7, 27, 28, 29, 30, 31, 33, 40, 37};
constexpr Places kFusedInference2{true, 5, 6, 7, 29, 30, 31, 32, 33, 35, 43, 39};

constexpr Variant kPlain{false, false, false}, kTyped{false, true, false}, kSequences{true, false, false},
    kTypedSequences{true, true, false}, kSink{false, true, true}, kSinkSequences{true, true, true};

}  // namespace

Functions fake_cann::attention_functions() {
  return {
      {"PromptFlashAttentionV3", infer<kPrompt>},
      {"IncreFlashAttentionV4", infer<kIncrement>},
      {"FusedInferAttentionScoreV3", infer<kFusedInference>},
      {"FusedInferAttentionScoreV4", infer<kFusedInference2>},
      {"FlashAttentionScore", forward<kPlain>},
      {"FlashAttentionScoreV2", forward<kTyped>},
      {"FlashAttentionVarLenScore", forward<kSequences>},
      {"FlashAttentionVarLenScoreV2", forward<kTypedSequences>},
      {"FlashAttentionScoreV3", forward<kSink>},
      {"FlashAttentionVarLenScoreV5", forward<kSinkSequences>},
      {"FlashAttentionScoreGrad", backward<kPlain>},
      {"FlashAttentionScoreGradV2", backward<kTyped>},
      {"FlashAttentionUnpaddingScoreGrad", backward<kSequences>},
      {"FlashAttentionUnpaddingScoreGradV2", backward<kTypedSequences>},
      {"FlashAttentionScoreGradV3", backward<kSink>},
      {"FlashAttentionUnpaddingScoreGradV5", backward<kSinkSequences>},
  };
}
