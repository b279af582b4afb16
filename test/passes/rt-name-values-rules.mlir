// RUN: echelon-opt %s --rt-name-values | FileCheck %s

// A rule's arguments hide no size of the program: where the model has an axis n, its rows have n_2 elements.
module attributes {rt.sizes = [{axis = "n", name = "n", size = 16 : i64}]} {
// CHECK-LABEL: rt.function @sgd
// CHECK-NEXT: ^bb0(%[[W:.*]]: !rt.buffer<[n_2=?], f32>, %[[G:.*]]: !rt.buffer<[n_2=?], f32>, %{{.*}}: index):
// CHECK-NEXT: rt.fused ["n_2"] = [?](%[[G]]) -> ["store"](%[[W]])
rt.function @sgd {
^bb0(%w: !rt.buffer<[n=?], f32> loc("w"), %d_w: !rt.buffer<[n=?], f32> loc("d_w"), %n: index loc("n")):
  rt.fused ["n"] = [?](%d_w) -> ["store"](%w) {
  ^bb0(%g: f32):
    %next = rt.compute "neg" %g : (f32) -> f32
    rt.yield %next : f32
  } : (!rt.buffer<[n=?], f32>) -> (!rt.buffer<[n=?], f32>)
// CHECK: } {rt.name = ["w", "d_w", "n_2"]}
}
}
