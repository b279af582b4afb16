// RUN: echelon-opt %s --mlir-print-debuginfo --shape-program | echelon-translate --rt-to-cpp | FileCheck %s

// What an inner loop would load again though it stays the same is loaded before it, where the host compiler need not
// prove that no store changes it.
// CHECK:      const float m_c = m[c];
// CHECK:        x[c * 8 + i] = x[c * 8 + i] - m_c;
run.train "t" of "M" in "" folder "." batch 3 steps 3 seed 0
rt.function @train {
  %x = rt.alloc work at 0 : !rt.buffer<[c=2, i=8], f32> loc("x")
  %m = rt.alloc work at 64 : !rt.buffer<[c=2], f32> loc("m")
  rt.fill %x with 1.0 : !rt.buffer<[c=2, i=8], f32>
  rt.fill %m with 1.0 : !rt.buffer<[c=2], f32>
  rt.fused ["c", "i"] = [2, 8](%x, %m) -> ["store"](%x) {
  ^bb0(%a: f32, %b: f32):
    %d = rt.compute "sub" %a, %b : (f32, f32) -> f32
    rt.yield %d : f32
  } : (!rt.buffer<[c=2, i=8], f32>, !rt.buffer<[c=2], f32>) -> (!rt.buffer<[c=2, i=8], f32>)
}
