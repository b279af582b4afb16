// RUN: echelon-opt %s --rt-select-kernels | FileCheck %s
// Which kernel of the CPU does what: a library for each product, a copy for a loop that only transposes.

!mk = !rt.buffer<[m=64, k=512], f32>
!kn = !rt.buffer<[k=512, n=1024], f32>
!mn = !rt.buffer<[m=64, n=1024], f32>
!few = !rt.buffer<[a=4, b=4], f32>
!ab = !rt.buffer<[a=64, b=32], f32>
// The memory of [b, a], seen as [a, b].
!ba = !rt.buffer<[a=64, b=32], f32, [1, 64]>
!f64 = !rt.buffer<[a=64, b=32], f64>
rt.function @train {
  %x = rt.alloc work : !mk
  %w = rt.alloc work : !kn
  %y = rt.alloc work : !mn
  // A product goes to the library that is fastest for its sizes (runtime/kernels/GemmChoice.h); one that is chosen stays.
  // CHECK: rt.gemm {{.*}} with tiled {ech.phase = "backward"} :
  rt.gemm %y, %x, %w m <m=64> n <n=1024> k <k=512> ld <k=512> <n=1024> <n=1024> {ech.phase = "backward"} : !mn, !mk, !kn
  // CHECK: rt.gemm {{.*}} with openblas :
  rt.gemm %y, %x, %w m <m=64> n <n=1024> k <k=512> ld <k=512> <n=1024> <n=1024> with openblas : !mn, !mk, !kn

  %few = rt.alloc work : !few
  // CHECK: rt.gemm {{.*}} m <a=4> {{.*}} with onednn :
  rt.gemm %few, %few, %few m <a=4> n <b=4> k <a=4> ld <a=4> <b=4> <b=4> : !few, !few, !few

  %a = rt.alloc work : !ab
  %b = rt.alloc work : !ba
  %d = rt.alloc work : !f64
  // A loop that only copies between orders of axes.
  // CHECK: rt.copy_strided %[[A:.*]], %[[B:.*]] {ech.phase = "update"} :
  rt.fused ["a", "b"] = [64, 32](%b) -> ["store"](%a) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } {ech.phase = "update"} : (!ba) -> (!ab)
  // One that adds, one that computes, one that converts, and one in the order of both stay loops.
  // CHECK-NOT: rt.copy_strided
  // CHECK: rt.fused
  rt.fused ["a", "b"] = [64, 32](%b) -> ["add"](%a) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } : (!ba) -> (!ab)
  // CHECK: rt.fused
  rt.fused ["a", "b"] = [64, 32](%b) -> ["store"](%a) {
  ^bb0(%e: f32):
    %n = rt.compute "neg" %e : (f32) -> f32
    rt.yield %n : f32
  } : (!ba) -> (!ab)
  // CHECK: rt.fused
  rt.fused ["a", "b"] = [64, 32](%b) -> ["store"](%d) {
  ^bb0(%e: f32):
    %n = rt.compute "cast" %e : (f32) -> f64
    rt.yield %n : f64
  } : (!ba) -> (!f64)
  // CHECK: rt.fused
  rt.fused ["a", "b"] = [64, 32](%a) -> ["store"](%a) {
  ^bb0(%e: f32):
    rt.yield %e : f32
  } : (!ab) -> (!ab)
}
