// Normal variables as torch draws them on a processor, from the same generator: its Mersenne Twister, whose words are
// computed many at a time here instead of one by one, and the Box-Muller transform in blocks of 16.

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

constexpr int WORDS = 624, AHEAD = 397, HALF = 8, BLOCK = 2 * HALF, CHUNK = 32 * BLOCK;

// What `torch.Generator.get_state` gives of a generator on a processor, as far as it is needed.
struct State {
  uint64_t seed;
  int32_t left, seeded;
  uint64_t next, words[WORDS];
};

class Twister {
 public:
  explicit Twister(State* state) : state_(state), next_(WORDS - (state->left - 1)) {
    for (int i = 0; i < WORDS; ++i) words_[i] = static_cast<uint32_t>(state->words[i]);
    temper();
  }

  ~Twister() {
    state_->left = WORDS + 1 - next_;
    state_->next = next_;
    for (int i = 0; i < WORDS; ++i) state_->words[i] = words_[i];
  }

  // The next n numbers in [0, 1), of 24 bits.
  void uniform(float* out, int64_t n) {
    for (int64_t done = 0; done < n;) {
      if (next_ == WORDS) twist();
      int count = static_cast<int>(std::min<int64_t>(n - done, WORDS - next_));
      std::memcpy(out + done, uniform_ + next_, count * sizeof(float));
      next_ += count;
      done += count;
    }
  }

 private:
  static uint32_t mixed(uint32_t high, uint32_t low) {
    return (((high & 0x80000000u) | (low & 0x7fffffffu)) >> 1) ^ ((low & 1u) * 0x9908b0dfu);
  }

  void twist() {
    for (int i = 0; i < WORDS - AHEAD; ++i) words_[i] = words_[i + AHEAD] ^ mixed(words_[i], words_[i + 1]);
    for (int i = WORDS - AHEAD; i < WORDS - 1; ++i)
      words_[i] = words_[i + AHEAD - WORDS] ^ mixed(words_[i], words_[i + 1]);
    words_[WORDS - 1] = words_[AHEAD - 1] ^ mixed(words_[WORDS - 1], words_[0]);
    temper();
    next_ = 0;
  }

  void temper() {
    for (int i = 0; i < WORDS; ++i) {
      uint32_t y = words_[i];
      y ^= y >> 11;
      y ^= (y << 7) & 0x9d2c5680u;
      y ^= (y << 15) & 0xefc60000u;
      y ^= y >> 18;
      uniform_[i] = static_cast<float>(static_cast<int32_t>(y & 0xffffffu)) * 0x1p-24f;
    }
  }

  State* state_;
  int next_;
  uint32_t words_[WORDS];
  float uniform_[WORDS];
};

// log(x) of x in (0, 1]: x = 2^n m with m from sqrt(1/2) to sqrt(2), log(m) by a polynomial (Cephes).
inline float logarithm(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  int32_t n = (bits - 0x3f3504f3) >> 23;
  bits -= n << 23;
  float m, e = static_cast<float>(n);
  std::memcpy(&m, &bits, sizeof m);
  float r = m - 1.0f, square = r * r, p = 7.0376836292e-2f;
  p = p * r - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  return p * r * square - 2.12194440e-4f * e - 0.5f * square + r + 0.693359375f * e;
}

// cos and sin of 2 pi u, u in [0, 1), each times a radius: by quarters of the circle, in which both are polynomials.
inline void turned(float radius, float u, float& cosine, float& sine) {
  int32_t quarter = static_cast<int32_t>(u * 4.0f + 0.5f);
  float x = (u - static_cast<float>(quarter) * 0.25f) * 6.283185307f, square = x * x;
  float s = ((-1.9515295891e-4f * square + 8.3321608736e-3f) * square - 1.6666654611e-1f) * square * x + x;
  float c = ((2.443315711809948e-5f * square - 1.388731625493765e-3f) * square + 4.166664568298827e-2f) * square * square -
            0.5f * square + 1.0f;
  float first = quarter & 1 ? s : c, second = quarter & 1 ? c : s;
  cosine = (quarter + 1) & 2 ? -radius * first : radius * first;
  sine = quarter & 2 ? -radius * second : radius * second;
}

// Blocks of 16 uniform numbers become normal ones: each has eight lengths, then eight angles.
void transform(float* x, int64_t n) {
  float length[CHUNK / 2] = {}, angle[CHUNK / 2] = {};
  for (int64_t i = 0; i < n; i += BLOCK) {
    std::memcpy(length + i / 2, x + i, HALF * sizeof(float));
    std::memcpy(angle + i / 2, x + i + HALF, HALF * sizeof(float));
  }
  for (int64_t i = 0; i < n / 2; ++i)
    turned(__builtin_sqrtf(-2.0f * logarithm(1.0f - length[i])), angle[i], length[i], angle[i]);
  for (int64_t i = 0; i < n; i += BLOCK) {
    std::memcpy(x + i, length + i / 2, HALF * sizeof(float));
    std::memcpy(x + i + HALF, angle + i / 2, HALF * sizeof(float));
  }
}

}  // namespace

extern "C" {

// out[i] = scale[i] z[i] with z as of `Tensor.normal_`, for n >= 16; the generator's state moves on likewise.
void normals(void* state, float* out, const float* scale, int64_t n) {
  Twister twister(static_cast<State*>(state));
  float drawn[CHUNK];
  auto write = [&](int64_t at, int64_t count) {
    twister.uniform(drawn, count);
    transform(drawn, count);
    for (int64_t i = 0; i < count; ++i) out[at + i] = drawn[i] * scale[at + i];
  };
  const int64_t whole = n / BLOCK * BLOCK, rest = n - whole;
  for (int64_t at = 0; at < whole; at += CHUNK) write(at, std::min<int64_t>(CHUNK, whole - at));
  if (rest) {  // torch draws the numbers that fill no block, and then the last 16 anew
    twister.uniform(drawn, rest);
    write(n - BLOCK, BLOCK);
  }
}

}  // extern "C"
