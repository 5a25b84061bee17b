// LSTM and GRU over sequences of different lengths, forward and backward in time, and one step of a whole small network
// for a small batch. In single precision.
//
// Sequences lie one after the other, their rows in the order of time; rows after the last sequence are padding and get
// zeros. Gates are in torch's order, H numbers each (a multiple of 8). Up to four sequences walk through time side by
// side, so that each weight that is read serves all of them. What can be done for all rows at once (the input's share of
// the gates, the gradients of the weights) is left to matrix products outside.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr int LANES = 8;
constexpr int SIDE_BY_SIDE = 4;
typedef float Vec __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int32_t Whole __attribute__((vector_size(LANES * sizeof(int32_t))));

inline Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }
inline Vec all(float x) { return Vec{} + x; }

// Holds a vector in a register: compilers would rather load it again for each use, and loads are what there is least of.
inline void hold(Vec& v) {
#if defined(__AVX__)
  asm("" : "+x"(v));
#endif
}

// exp(x) as 2^n exp(r) with |r| <= ln(2)/2, exp(r) by a polynomial; relative error about 1e-7. NaN stays NaN.
inline Vec exponential(Vec x) {
  x = x < -87.0f ? all(-87.0f) : x;
  x = x > 87.0f ? all(87.0f) : x;
  const float rounder = 12582912.0f;  // 1.5 * 2^23: the sum has no room for fractions
  Vec shifted = x * 1.44269504f + rounder;
  Whole n;
  std::memcpy(&n, &shifted, sizeof n);
  Vec whole = shifted - rounder;
  Vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vec p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Whole power = (n + 127) << 23;
  Vec scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exponential(-x)); }
inline Vec hyperbolic(Vec x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); }

// Memory that begins at a cache line: a vector that lies in two takes twice as long to load.
class Room {
 public:
  explicit Room(int64_t n) : data_(static_cast<float*>(std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64))) {}
  float* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
};

// A matrix [m, n] lies in panels of LANES columns, [n / LANES, m, LANES], so that it is read from front to back.
Room in_panels(const float* matrix, int64_t m, int64_t n, int64_t row_stride, int64_t column_stride) {
  Room packed(m * n);
  for (int64_t j = 0; j < n; ++j) {
    float* out = packed.get() + j / LANES * m * LANES + j % LANES;
    for (int64_t k = 0; k < m; ++k) out[k * LANES] = matrix[k * row_stride + j * column_stride];
  }
  return packed;
}

// W panels from p on of out[b] += in[b] * matrix for B rows.
template <int B, int W>
inline void panels(const float* const* in, const float* matrix, float* const* out, int64_t m, int64_t p) {
  Vec sum[B][W];
  const float* row[B];
  for (int b = 0; b < B; ++b) {
    row[b] = in[b];
    for (int w = 0; w < W; ++w) sum[b][w] = load(out[b] + (p + w) * LANES);
  }
  const float* first = matrix + p * m * LANES;
  for (int64_t k = 0; k < m; ++k) {
    Vec weights[W];
    for (int w = 0; w < W; ++w) {
      weights[w] = load(first + (w * m + k) * LANES);
      hold(weights[w]);
    }
    for (int b = 0; b < B; ++b)
      for (int w = 0; w < W; ++w) sum[b][w] += row[b][k] * weights[w];
  }
  for (int b = 0; b < B; ++b)
    for (int w = 0; w < W; ++w) store(out[b] + (p + w) * LANES, sum[b][w]);
}

// out[b][n] += in[b][m] * matrix; eight or nine sums at a time, which keeps the multipliers busy.
template <int B>
void multiply(const float* const* in, const float* matrix, float* const* out, int64_t m, int64_t n) {
  constexpr int W = B == 3 ? 3 : 8 / B;
  int64_t p = 0, n_panels = n / LANES;
  for (; p + W <= n_panels; p += W) panels<B, W>(in, matrix, out, m, p);
  for (; p < n_panels; ++p) panels<B, 1>(in, matrix, out, m, p);
}

void multiply(const float* const* in, const float* matrix, float* const* out, int64_t m, int64_t n, int rows) {
  if (rows == 4) multiply<4>(in, matrix, out, m, n);
  if (rows == 3) multiply<3>(in, matrix, out, m, n);
  if (rows == 2) multiply<2>(in, matrix, out, m, n);
  if (rows == 1) multiply<1>(in, matrix, out, m, n);
}

// S sequences in R rows.
class Sequences {
 public:
  Sequences(const int64_t* length, int64_t n, int64_t n_rows, int64_t threads)
      : length_(length), threads_(threads), begin_(n), n_rows_(n_rows) {
    for (int64_t s = 0; s < n; end_ += length[s++]) {
      begin_[s] = end_;
      if (length[s] > 0) order_.push_back(s);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) { return length[a] > length[b]; });
  }

  // Calls walk(members, count) for groups of sequences of similar length, the longest first.
  template <class F>
  void in_groups(F walk) const {
    const int64_t n = order_.size();
    const int64_t size = std::max<int64_t>(1, std::min<int64_t>(SIDE_BY_SIDE, (n + threads_ - 1) / threads_));
#pragma omp parallel for num_threads(threads_) if (threads_ > 1) schedule(dynamic)
    for (int64_t i = 0; i < n; i += size) walk(order_.data() + i, static_cast<int>(std::min(size, n - i)));
  }

  // How many of the members, the longest of which come first, have a step t.
  int running(const int64_t* members, int count, int64_t t) const {
    while (count > 0 && length_[members[count - 1]] <= t) --count;
    return count;
  }

  int64_t length(int64_t s) const { return length_[s]; }
  int64_t row(int64_t s, int64_t t) const { return begin_[s] + t; }

  // Zeros in the rows [R, width] that belong to no sequence.
  void clear_rest(float* rows, int64_t width) const {
    std::memset(rows + end_ * width, 0, (n_rows_ - end_) * width * sizeof(float));
  }

 private:
  const int64_t* length_;
  int64_t threads_, end_ = 0;
  std::vector<int64_t> begin_, order_;
  int64_t n_rows_;
};

void lstm_cell(float* gates, const float* carry, float* hidden_after, float* carry_after, int64_t H) {
  for (int64_t j = 0; j < H; j += LANES) {
    Vec i = sigmoid(load(gates + j)), f = sigmoid(load(gates + H + j));
    Vec g = hyperbolic(load(gates + 2 * H + j)), o = sigmoid(load(gates + 3 * H + j));
    Vec c = f * load(carry + j) + i * g;
    store(gates + j, i);
    store(gates + H + j, f);
    store(gates + 2 * H + j, g);
    store(gates + 3 * H + j, o);
    store(carry_after + j, c);
    store(hidden_after + j, o * hyperbolic(c));
  }
}

void gru_cell(float* gates, const float* within, const float* hidden, float* after, int64_t H) {
  for (int64_t j = 0; j < H; j += LANES) {
    Vec r = sigmoid(load(gates + j) + load(within + j)), u = sigmoid(load(gates + H + j) + load(within + H + j));
    Vec n = hyperbolic(load(gates + 2 * H + j) + r * load(within + 2 * H + j));
    store(gates + j, r);
    store(gates + H + j, u);
    store(gates + 2 * H + j, n);
    store(after + j, n + u * (load(hidden + j) - n));
  }
}

// A linear layer: weights [in, width] in panels and bias [width]; width is the number of outputs rounded up to a multiple
// of LANES, padded with zeros.
struct Linear {
  const float *weights, *bias;
  int64_t in, width;

  void apply(const float* const* x, float* const* out, int rows) const {
    for (int b = 0; b < rows; ++b) std::memcpy(out[b], bias, width * sizeof(float));
    multiply(x, weights, out, in, width, rows);
  }
};

enum Activation : int64_t { TANH, RELU };
enum Cell : int64_t { NO_CELL, LSTM, GRU };

// Hidden layers, then perhaps a recurrent cell, then perhaps LayerNorm (of a cell's output), more layers and an output layer.
struct Network {
  const Linear* layers;
  int64_t n_layers, activation, cell, H;
  Linear into;
  const float *within, *within_bias;
  const float *scale, *shift;
  float eps;
  const Linear* later;
  int64_t n_later;
  const Linear* output;
  int64_t n_outputs, widest;
};

void activate(float* x, int64_t n, int64_t activation) {
  for (int64_t j = 0; j < n; j += LANES) {
    Vec v = load(x + j);
    store(x + j, activation == TANH ? hyperbolic(v) : (v < 0.0f ? Vec{} : v));
  }
}

// Rows of float32 in a rollout: those of step t begin at data + t * step and are `stride` apart.
struct Rows {
  float* data;
  int64_t step, stride;

  float* at(int64_t t) const { return data + t * step; }
};

// A network and what it reads and writes.
struct Actor {
  const Network* network;
  Rows x, state, out;
};

void layer_norm(const float* x, float* out, const float* scale, const float* shift, float eps, int64_t n) {
  float sum = 0.0f, squares = 0.0f;
  for (int64_t j = 0; j < n; ++j) sum += x[j];
  float mean = sum / n;
  for (int64_t j = 0; j < n; ++j) squares += (x[j] - mean) * (x[j] - mean);
  float inverse = 1.0f / std::sqrt(squares / n + eps);
  for (int64_t j = 0; j < n; ++j) out[j] = (x[j] - mean) * inverse * scale[j] + shift[j];
}

// One step of n_rows rows: reads x [n, in] and states of step t; writes the states of step t + 1 and, if there is an output layer,
// outputs [n, n_outputs].
void act_one(const Actor& actor, int64_t n_rows, int64_t t) {
  const Network& net = *actor.network;
  const float *x = actor.x.at(t), *state = actor.state.at(t);
  float *after = actor.state.at(t + 1), *out = actor.out.at(t);
  const int64_t H = net.H, x_stride = actor.x.stride, state_stride = actor.state.stride, out_stride = actor.out.stride;
  Room room(SIDE_BY_SIDE * 3 * net.widest);
  for (int64_t r = 0; r < n_rows; r += SIDE_BY_SIDE) {
    int count = static_cast<int>(std::min<int64_t>(SIDE_BY_SIDE, n_rows - r));
    const float *in[SIDE_BY_SIDE], *hidden[SIDE_BY_SIDE];
    float *here[SIDE_BY_SIDE], *next[SIDE_BY_SIDE], *within[SIDE_BY_SIDE];
    for (int b = 0; b < count; ++b) {
      in[b] = x + (r + b) * x_stride;
      here[b] = room.get() + 3 * b * net.widest;
      next[b] = here[b] + net.widest;
      within[b] = next[b] + net.widest;
      hidden[b] = state + (r + b) * state_stride;
    }
    auto go_through = [&](const Linear* layers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        layers[i].apply(in, here, count);
        for (int b = 0; b < count; ++b) {
          activate(here[b], layers[i].width, net.activation);
          in[b] = here[b];
          std::swap(here[b], next[b]);
        }
      }
    };
    go_through(net.layers, net.n_layers);
    if (net.cell != NO_CELL) net.into.apply(in, here, count);
    if (net.cell == LSTM) multiply(hidden, net.within, here, H, 4 * H, count);
    if (net.cell == GRU) Linear{net.within, net.within_bias, H, 3 * H}.apply(hidden, within, count);
    for (int b = 0; b < count && net.cell != NO_CELL; ++b) {
      float* state_after = after + (r + b) * state_stride;
      if (net.cell == LSTM)
        lstm_cell(here[b], hidden[b] + H, state_after, state_after + H, H);
      else
        gru_cell(here[b], within[b], hidden[b], state_after, H);
      if (net.output) layer_norm(state_after, next[b], net.scale, net.shift, net.eps, H);
      in[b] = next[b];
    }
    if (!net.output) continue;
    go_through(net.later, net.n_later);
    net.output->apply(in, here, count);
    for (int b = 0; b < count; ++b) std::memcpy(out + (r + b) * out_stride, here[b], net.n_outputs * sizeof(float));
  }
}

}  // namespace

extern "C" {

// `act_one` of several networks, in one thread: to wake another takes as long as a network.
void act(const Actor* actors, int64_t n_actors, int64_t n_rows, int64_t t) {
  for (int64_t i = 0; i < n_actors; ++i) act_one(actors[i], n_rows, t);
}

// Draws a choice of each head for each row by the Gumbel-max trick, from logits (those of all heads one after the other;
// rows `stride` apart), flags of legal choices in the same order (or none), and ln of noise ~ Exponential(1),
// [rows, heads, widest]. An inactive head takes choice 0: active (or none) [joint choices, heads] by the sum of choices
// times `number`. Returns whether every head of every row had a legal choice.
int64_t choose(const float* logits, int64_t stride, const uint8_t* legal, const float* log_noise, int64_t* choice,
               int64_t n_rows, int64_t n_heads, int64_t widest, const int64_t* size, const int64_t* number,
               const uint8_t* active) {
  const float forbidden = -1e30f;
  int64_t all_can = 1, n_flags = 0;
  for (int64_t h = 0; h < n_heads; ++h) n_flags += size[h];
  for (int64_t r = 0; r < n_rows; ++r) {
    const float* logit = logits + r * stride;
    const uint8_t* flag = legal ? legal + r * n_flags : nullptr;
    int64_t* own = choice + r * n_heads;
    int64_t joint = 0;
    for (int64_t h = 0; h < n_heads; ++h) {
      const float* noise = log_noise + (r * n_heads + h) * widest;
      auto allowed = [&](int64_t i) { return flag && !flag[i] ? forbidden : logit[i]; };
      // The largest logit is taken off first: beside a large number the noise would lose its digits.
      float largest = allowed(0), best = -INFINITY;
      for (int64_t i = 1; i < size[h]; ++i) largest = std::max(largest, allowed(i));
      own[h] = 0;
      int64_t can = flag == nullptr;
      for (int64_t i = 0; i < size[h]; ++i) {
        float value = allowed(i) - largest - noise[i];
        if (flag) can |= flag[i];
        if (value > best) best = value, own[h] = i;
      }
      all_can &= can;
      joint += own[h] * number[h];
      logit += size[h];
      if (flag) flag += size[h];
    }
    for (int64_t h = 0; active && h < n_heads; ++h) own[h] *= active[joint * n_heads + h];
  }
  return all_can;
}

// share [R, 4H] is the input's share of the gates with both biases, weights [4H, H] are the hidden state's. states has
// hidden states, `stride` apart, and their carries, each `gap` after its hidden state; sequence s starts from number
// first[s]. Writes both after each row [R, H], the hidden state before it and the activated gates.
void lstm_forward(const float* share, const float* weights, const float* states, const int64_t* first,
                  const int64_t* length, float* hidden, float* carry, float* before, float* gates,
                  int64_t n_sequences, int64_t n_rows, int64_t H, int64_t threads, int64_t stride, int64_t gap) {
  Sequences sequences(length, n_sequences, n_rows, threads);
  Room within = in_panels(weights, H, 4 * H, 1, H);
  sequences.in_groups([&](const int64_t* members, int count) {
    for (int64_t t = 0; t < sequences.length(members[0]); ++t) {
      count = sequences.running(members, count, t);
      const float* h[SIDE_BY_SIDE];
      float* gate[SIDE_BY_SIDE];
      for (int b = 0; b < count; ++b) {
        int64_t r = sequences.row(members[b], t);
        h[b] = t == 0 ? states + first[members[b]] * stride : hidden + (r - 1) * H;
        gate[b] = gates + r * 4 * H;
        std::memcpy(gate[b], share + r * 4 * H, 4 * H * sizeof(float));
        std::memcpy(before + r * H, h[b], H * sizeof(float));
      }
      multiply(h, within.get(), gate, H, 4 * H, count);
      for (int b = 0; b < count; ++b) {
        int64_t r = sequences.row(members[b], t);
        const float* c = t == 0 ? h[b] + gap : carry + (r - 1) * H;
        lstm_cell(gate[b], c, hidden + r * H, carry + r * H, H);
      }
    }
  });
  for (float* rows : {hidden, carry, before}) sequences.clear_rest(rows, H);
  sequences.clear_rest(gates, 4 * H);
}

// From the gradient of the hidden states [R, H] that of the gates before activation, and so of the share, [R, 4H].
void lstm_backward(const float* d_hidden, const float* gates, const float* weights, const float* states,
                   const float* carry, const int64_t* first, const int64_t* length, float* d_share,
                   int64_t n_sequences, int64_t n_rows, int64_t H, int64_t threads, int64_t stride, int64_t gap) {
  Sequences sequences(length, n_sequences, n_rows, threads);
  Room within = in_panels(weights, 4 * H, H, H, 1);
  sequences.in_groups([&](const int64_t* members, int members_count) {
    Room later(SIDE_BY_SIDE * 2 * H);  // what comes back from the step after: to hidden state, to carry
    std::fill_n(later.get(), SIDE_BY_SIDE * 2 * H, 0.0f);
    for (int64_t t = sequences.length(members[0]) - 1; t >= 0; --t) {
      int count = sequences.running(members, members_count, t);
      const float* d[SIDE_BY_SIDE];
      float* back[SIDE_BY_SIDE];
      for (int b = 0; b < count; ++b) {
        int64_t r = sequences.row(members[b], t);
        const float *gate = gates + r * 4 * H, *c_now = carry + r * H;
        const float* c_before = t == 0 ? states + first[members[b]] * stride + gap : c_now - H;
        float *dh = later.get() + b * 2 * H, *dc = dh + H, *out = d_share + r * 4 * H;
        for (int64_t j = 0; j < H; j += LANES) {
          Vec i = load(gate + j), f = load(gate + H + j), g = load(gate + 2 * H + j), o = load(gate + 3 * H + j);
          Vec squashed = hyperbolic(load(c_now + j));
          Vec h = load(dh + j) + load(d_hidden + r * H + j);
          Vec c = load(dc + j) + h * o * (1.0f - squashed * squashed);
          store(out + j, c * g * i * (1.0f - i));
          store(out + H + j, c * load(c_before + j) * f * (1.0f - f));
          store(out + 2 * H + j, c * i * (1.0f - g * g));
          store(out + 3 * H + j, h * squashed * o * (1.0f - o));
          store(dc + j, c * f);
          store(dh + j, Vec{});
        }
        d[b] = out;
        back[b] = dh;
      }
      multiply(d, within.get(), back, 4 * H, H, count);
    }
  });
  sequences.clear_rest(d_share, 4 * H);
}

// share [R, 3H] is the input's share of the gates with its bias; weights [3H, H] and bias are the hidden state's. states
// has hidden states, `stride` apart; sequence s starts from number first[s]. Writes the hidden state after each row
// [R, H] and before it, the activated gates and the hidden state's share of them.
void gru_forward(const float* share, const float* weights, const float* bias, const float* states,
                 const int64_t* first, const int64_t* length, float* hidden, float* before, float* gates, float* own,
                 int64_t n_sequences, int64_t n_rows, int64_t H, int64_t threads, int64_t stride) {
  Sequences sequences(length, n_sequences, n_rows, threads);
  Room within = in_panels(weights, H, 3 * H, 1, H);
  sequences.in_groups([&](const int64_t* members, int count) {
    for (int64_t t = 0; t < sequences.length(members[0]); ++t) {
      count = sequences.running(members, count, t);
      const float* h[SIDE_BY_SIDE];
      float* row[SIDE_BY_SIDE];
      for (int b = 0; b < count; ++b) {
        int64_t r = sequences.row(members[b], t);
        h[b] = t == 0 ? states + first[members[b]] * stride : hidden + (r - 1) * H;
        row[b] = own + r * 3 * H;
        std::memcpy(row[b], bias, 3 * H * sizeof(float));
        std::memcpy(gates + r * 3 * H, share + r * 3 * H, 3 * H * sizeof(float));
        std::memcpy(before + r * H, h[b], H * sizeof(float));
      }
      multiply(h, within.get(), row, H, 3 * H, count);
      for (int b = 0; b < count; ++b) {
        int64_t r = sequences.row(members[b], t);
        gru_cell(gates + r * 3 * H, row[b], h[b], hidden + r * H, H);
      }
    }
  });
  for (float* rows : {hidden, before}) sequences.clear_rest(rows, H);
  for (float* rows : {gates, own}) sequences.clear_rest(rows, 3 * H);
}

// From the gradient of the hidden states [R, H] those of both shares of the gates before activation, [R, 3H] each.
void gru_backward(const float* d_hidden, const float* gates, const float* own, const float* weights,
                  const float* before, const int64_t* length, float* d_share, float* d_own, int64_t n_sequences,
                  int64_t n_rows, int64_t H, int64_t threads) {
  Sequences sequences(length, n_sequences, n_rows, threads);
  Room within = in_panels(weights, 3 * H, H, H, 1);
  sequences.in_groups([&](const int64_t* members, int members_count) {
    Room later(SIDE_BY_SIDE * H);
    std::fill_n(later.get(), SIDE_BY_SIDE * H, 0.0f);
    for (int64_t t = sequences.length(members[0]) - 1; t >= 0; --t) {
      int count = sequences.running(members, members_count, t);
      const float* d[SIDE_BY_SIDE];
      float* back[SIDE_BY_SIDE];
      for (int b = 0; b < count; ++b) {
        int64_t r = sequences.row(members[b], t);
        const float *gate = gates + r * 3 * H, *own_fresh = own + r * 3 * H + 2 * H, *h_before = before + r * H;
        float *dh = later.get() + b * H, *out = d_share + r * 3 * H, *out_own = d_own + r * 3 * H;
        for (int64_t j = 0; j < H; j += LANES) {
          Vec reset = load(gate + j), keep = load(gate + H + j), fresh = load(gate + 2 * H + j);
          Vec h = load(dh + j) + load(d_hidden + r * H + j);
          Vec d_fresh = h * (1.0f - keep) * (1.0f - fresh * fresh);
          Vec d_keep = h * (load(h_before + j) - fresh) * keep * (1.0f - keep);
          Vec d_reset = d_fresh * load(own_fresh + j) * reset * (1.0f - reset);
          store(out + j, d_reset);
          store(out + H + j, d_keep);
          store(out + 2 * H + j, d_fresh);
          store(out_own + j, d_reset);
          store(out_own + H + j, d_keep);
          store(out_own + 2 * H + j, d_fresh * reset);
          store(dh + j, h * keep);
        }
        d[b] = out_own;
        back[b] = dh;
      }
      multiply(d, within.get(), back, 3 * H, H, count);
    }
  });
  for (float* rows : {d_share, d_own}) sequences.clear_rest(rows, 3 * H);
}

}  // extern "C"
