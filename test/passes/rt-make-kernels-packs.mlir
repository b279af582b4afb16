// How many neighbours a thread has: 16 bytes of the largest element, or what sizes, strides and places allow.
// RUN: echelon-opt %s --rt-make-kernels | FileCheck %s

!f = !rt.buffer<[a=4, b=16], f32>
!d = !rt.buffer<[a=4, b=16], f64>
!h = !rt.buffer<[a=4, b=16], bf16>
!six = !rt.buffer<[a=4, c=6], f32>
!odd = !rt.buffer<[a=4, d=5], f32>
!n = !rt.buffer<[n=?], f32>
// CHECK-LABEL: rt.function @train
rt.function @train {
  %f = rt.alloc work at 0 {rt.name = "f"} : !f
  %f2 = rt.alloc work at 256 {rt.name = "f2"} : !f
  %f3 = rt.alloc work at 512 {rt.name = "f3"} : !f
  %d = rt.alloc work at 1024 {rt.name = "d"} : !d
  %h = rt.alloc work at 2048 {rt.name = "h"} : !h

  // Doubles: 2.
  // CHECK: rt.kernel "d_kernel"
  // CHECK: rt.pack = 2 : i64
  rt.fused ["a", "b"] = [4, 16](%f) -> ["store"](%d) {
  ^bb0(%x: f32):
    %p = rt.compute "cast" %x : (f32) -> f64
    rt.yield %p : f64
  } : (!f) -> (!d)

  // Halves beside one or two packs of floats: 8. Beside more: 4.
  // CHECK: rt.kernel "h_kernel"
  // CHECK: rt.pack = 8 : i64
  rt.fused ["a", "b"] = [4, 16](%f, %f2) -> ["store"](%h) {
  ^bb0(%x: f32, %y: f32):
    %p = rt.compute "add" %x, %y : (f32, f32) -> f32
    rt.yield %p : f32
  } : (!f, !f) -> (!h)
  // CHECK: rt.kernel "h_kernel_2"
  // CHECK: rt.pack = 4 : i64
  rt.fused ["a", "b"] = [4, 16](%f, %f2, %f3) -> ["store"](%h) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = rt.compute "add" %x, %y : (f32, f32) -> f32
    %q = rt.compute "add" %p, %z : (f32, f32) -> f32
    rt.yield %q : f32
  } : (!f, !f, !f) -> (!h)

  // One value for the whole row is no pack, and read where it is used. Rows of 6: 2; of 5 without such a value: 4 of 20.
  // CHECK: rt.kernel "six_kernel"
  // CHECK: rt.pack = 2 : i64
  %six = rt.alloc work at 4096 {rt.name = "six"} : !six
  %of = rt.alloc work at 4352 {rt.name = "of"} : !rt.buffer<[a=4], f32>
  rt.fused ["a", "c"] = [4, 6](%of) -> ["store"](%six) {
  ^bb0(%x: f32):
    rt.yield %x : f32
  } : (!rt.buffer<[a=4], f32>) -> (!six)
  // CHECK: rt.kernel "odd_kernel"
  // CHECK: rt.pack = 4 : i64
  %odd = rt.alloc work at 5120 {rt.name = "odd"} : !odd
  rt.fused ["a", "d"] = [4, 5](%odd) -> ["store"](%odd) {
  ^bb0(%x: f32):
    rt.yield %x : f32
  } : (!odd) -> (!odd)
  // CHECK: rt.kernel "odd_kernel_2"
  // CHECK-NOT: rt.pack
  // CHECK: rt.fused
  rt.fused ["a", "d"] = [4, 5](%of) -> ["store"](%odd) {
  ^bb0(%x: f32):
    rt.yield %x : f32
  } : (!rt.buffer<[a=4], f32>) -> (!odd)

  // Against the order of memory: none. From the second element on: none; from the third on: 2.
  // CHECK: rt.kernel "turned_kernel"
  // CHECK-NOT: rt.pack
  // CHECK: rt.fused
  %turned = rt.alloc work at 6144 {rt.name = "turned"} : !rt.buffer<[b=16, a=4], f32>
  rt.fused ["b", "a"] = [16, 4](%f) -> ["store"](%turned) {
  ^bb0(%x: f32):
    rt.yield %x : f32
  } : (!f) -> (!rt.buffer<[b=16, a=4], f32>)
  // CHECK: rt.kernel "second_kernel"
  // CHECK-NOT: rt.pack
  // CHECK: rt.fused
  %long = rt.alloc work at 8192 {rt.name = "long"} : !rt.buffer<[l=64], f32>
  %second = rt.view %long from 1 {rt.name = "second"} : !rt.buffer<[l=64], f32> -> !rt.buffer<[b=16], f32>
  %third = rt.view %long from 34 {rt.name = "third"} : !rt.buffer<[l=64], f32> -> !rt.buffer<[b=16], f32>
  rt.fused ["b"] = [16](%second) -> ["store"](%second) {
  ^bb0(%x: f32):
    rt.yield %x : f32
  } : (!rt.buffer<[b=16], f32>) -> (!rt.buffer<[b=16], f32>)
  // CHECK: rt.kernel "third_kernel"
  // CHECK: rt.pack = 2 : i64
  rt.fused ["b"] = [16](%third) -> ["store"](%third) {
  ^bb0(%x: f32):
    rt.yield %x : f32
  } : (!rt.buffer<[b=16], f32>) -> (!rt.buffer<[b=16], f32>)
  rt.invoke @sgd(%second) count 16 writes [0] : !rt.buffer<[b=16], f32>
}

// A rule has packs where all that it is invoked on begins at multiples of them.
// CHECK-LABEL: rt.function @sgd
// CHECK: rt.kernel "sgd"
// CHECK-NOT: rt.pack
// CHECK: } {rt.name = ["w", "n"]}
rt.function @sgd {
^bb0(%w: !n, %n: index):
  rt.fused ["n"] = [?](%w) -> ["store"](%w) {
  ^bb0(%a: f32):
    rt.yield %a : f32
  } : (!n) -> (!n)
} {rt.name = ["w", "n"]}
