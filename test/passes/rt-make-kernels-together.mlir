// RUN: echelon-opt %s --rt-make-kernels | FileCheck %s

!n = !rt.buffer<[n=?], f32>
!w = !rt.buffer<[w=64], f32>
!one = !rt.buffer<[], f32>
!sum = !rt.buffer<[], f64>
rt.function @sgd {
^bb0(%w: !n, %d: !n, %n: index, %rate: f32):
  rt.fused ["n"] = [?](%w, %d) numbers (%rate : f32) -> ["store"](%w) {
  ^bb0(%a: f32, %c: f32, %r: f32):
    %p = rt.compute "mul" %c, %r : (f32, f32) -> f32
    rt.yield %p : f32
  } : (!n, !n) -> (!n)
} {rt.name = ["w", "d_w", "n", "rate"]}

// Squares of one norm are together, and so are rules with the same numbers, but for one whose gradient is written after
// the first: it begins another group. What says what a value is goes along. Nothing passes a report.
// CHECK-LABEL: rt.function @train
// CHECK-DAG:     %[[SUM:.*]] = rt.alloc{{ *}}work at 1024
// CHECK-DAG:     %[[RATE:.*]] = rt.alloc{{ *}}work at 1152
// CHECK-DAG:     %[[OTHER:.*]] = rt.alloc{{ *}}work at 1216
// CHECK:         rt.fill
// CHECK:         rt.together {
// CHECK-NEXT:      rt.add_squares %[[SUM]], %{{.*}} watch "a"
// CHECK-NEXT:      rt.add_squares %[[SUM]], %{{.*}} watch "b"
// CHECK-NEXT:    }
// CHECK-NEXT:    rt.report
// CHECK-NEXT:    %[[A:.*]] = rt.alloc{{ *}}work at 2048
// CHECK-NEXT:    rt.invoke @sgd(%[[A]], %{{.*}}, %[[RATE]]) count 64 writes [0]
// CHECK-NEXT:    rt.fill
// CHECK-NEXT:    %[[B:.*]] = rt.alloc{{ *}}work at 2304
// CHECK-NEXT:    %[[C:.*]] = rt.alloc{{ *}}work at 2560
// CHECK-NEXT:    rt.together {
// CHECK-NEXT:      rt.invoke @sgd(%[[B]], %{{.*}}, %[[RATE]]) count 64 writes [0]
// CHECK-NEXT:      rt.invoke @sgd(%[[C]], %{{.*}}, %[[RATE]]) count 64 writes [0]
// CHECK-NEXT:    } {rt.function = "update"}
// CHECK-NEXT:    %[[D:.*]] = rt.alloc{{ *}}work at 2816
// CHECK-NEXT:    rt.invoke @sgd(%[[D]], %{{.*}}, %[[OTHER]]) count 64 writes [0]
rt.function @train {
  %d_a = rt.alloc work at 0 : !w
  %d_b = rt.alloc work at 256 : !w
  %d_c = rt.alloc work at 512 : !w
  %sum = rt.alloc work at 1024 : !sum
  %norm = rt.alloc work at 1088 : !one
  %rate = rt.alloc work at 1152 : !one
  %other = rt.alloc work at 1216 : !one
  rt.fill %sum with 0.0 : !sum
  rt.add_squares %sum, %d_a watch "a" : !sum, !w
  rt.add_squares %sum, %d_b watch "b" : !sum, !w
  rt.report 0 "norm" "norm", %norm : !one
  %a = rt.alloc work at 2048 : !w
  rt.invoke @sgd(%a, %d_a, %rate) count 64 writes [0] {rt.function = "update"} : !w, !w, !one
  rt.fill %d_b with 0.0 : !w
  %b = rt.alloc work at 2304 : !w
  rt.invoke @sgd(%b, %d_b, %rate) count 64 writes [0] {rt.function = "update"} : !w, !w, !one
  %c = rt.alloc work at 2560 : !w
  %d = rt.alloc work at 2816 : !w
  rt.invoke @sgd(%d, %d_b, %other) count 64 writes [0] {rt.function = "update"} : !w, !w, !one
  rt.invoke @sgd(%c, %d_c, %rate) count 64 writes [0] {rt.function = "update"} : !w, !w, !one
}
