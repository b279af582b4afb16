// RUN: not echelon-opt %s --dist-lower-to-rt 2>&1 | FileCheck %s

// A clause about collectives that nothing sends is told at its place; over a mesh axis of one rank there are none.
// CHECK: layout.ech:7:3: error: E0410: this changes nothing: no all_gather goes over dp
// CHECK-NOT: layout.ech:8
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], one = 1 []>,
                   dist.algorithms = [{op = "all_gather", over = ["dp"], algorithm = "ring", place = loc("layout.ech":7:3)},
                                      {op = "all_gather", over = ["one"], algorithm = "ring", place = loc("layout.ech":8:3)}]} {
ech.step @train {
}
}
