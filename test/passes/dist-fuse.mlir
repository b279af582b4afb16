// RUN: echelon-opt %s --dist-fuse | FileCheck %s

// A chain of element-wise operations and the sum at its end are one group: what only they use is not stored.
// CHECK-LABEL: ech.step @chain
// CHECK:       %[[X:.*]] = ech.read @x
// CHECK-NEXT:  %[[B:.*]] = ech.read @b
// CHECK-NEXT:  %[[G:.*]]:2 = rt.group(%[[X]], %[[B]]) {
// CHECK:         %[[A:.*]] = ech.map add
// CHECK-NEXT:    %[[R:.*]] = ech.map relu %[[A]]
// CHECK-NEXT:    %[[S:.*]] = ech.reduce sum %[[R]] over ["batch"]
// CHECK-NEXT:    rt.yield %[[R]], %[[S]]
// CHECK:       ech.write @x, %[[G]]#0
// CHECK:       ech.write @b, %[[G]]#1
ech.variable state @x : !ech.tensor<[batch=4, hidden=8], f32> = constant(0.0, 0.0)
ech.variable state @b : !ech.tensor<[hidden=8], f32> = constant(0.0, 0.0)
ech.variable state @n : !ech.tensor<[batch=4], f32> = constant(0.0, 0.0)
ech.step @chain {
  %x = ech.read @x : !ech.tensor<[batch=4, hidden=8], f32>
  %b = ech.read @b : !ech.tensor<[hidden=8], f32>
  %a = ech.map add %x, %b : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %r = ech.map relu %a : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %s = ech.reduce sum %r over ["batch"] : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[hidden=8], f32>
  ech.write @x, %r : !ech.tensor<[batch=4, hidden=8], f32>
  ech.write @b, %s : !ech.tensor<[hidden=8], f32>
}

// A sum is there only after the loops: what uses it is another group. Numbers are made again in each.
// CHECK-LABEL: ech.step @sum_ends
// CHECK:       rt.group
// CHECK:         %[[C:.*]] = ech.constant 2.0
// CHECK:         ech.map mul %{{.*}}, %[[C]]
// CHECK:         ech.reduce sum
// CHECK:       rt.group
// CHECK:         %[[D:.*]] = ech.constant 2.0
// CHECK:         ech.map div %{{.*}}, %[[D]]
// CHECK-NOT:   ech.constant
ech.step @sum_ends {
  %x = ech.read @x : !ech.tensor<[batch=4, hidden=8], f32>
  %c = ech.constant 2.0 : !ech.tensor<[], f32>
  %m = ech.map mul %x, %c : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %s = ech.reduce sum %m over ["hidden"] : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4], f32>
  %d = ech.map div %s, %c : (!ech.tensor<[batch=4], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=4], f32>
  ech.write @n, %d : !ech.tensor<[batch=4], f32>
}

// A product summed over all axes that are not shared is no matrix product: it becomes a loop nest.
// CHECK-LABEL: ech.step @inner_product
// CHECK-NOT:   ech.dot
// CHECK:       ech.map mul
// CHECK-NEXT:  ech.reduce sum %{{.*}} over ["hidden"]
ech.step @inner_product {
  %x = ech.read @x : !ech.tensor<[batch=4, hidden=8], f32>
  %d = ech.dot %x, %x over ["hidden"] : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4], f32>
  ech.write @n, %d : !ech.tensor<[batch=4], f32>
}

// Two operations with something between them that no loop nest can hold stay two.
// CHECK-LABEL: ech.step @path_outside
// CHECK:       rt.group
// CHECK:       ech.softmax
// CHECK:       rt.group
ech.step @path_outside {
  %x = ech.read @x : !ech.tensor<[batch=4, hidden=8], f32>
  %e = ech.map exp %x : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %s = ech.softmax %e over ["hidden"] : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %p = ech.map mul %e, %s : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  ech.write @x, %p : !ech.tensor<[batch=4, hidden=8], f32>
}

// What another group would read of this one is computed there again, where little computing makes it of one stored
// value: %c is stored nowhere, %x is read twice.
// CHECK-LABEL: ech.step @made_again
// CHECK:       %[[X:.*]] = ech.read @x
// CHECK:       %[[S:.*]] = rt.group(%[[X]]) {
// CHECK:         ech.map neg
// CHECK-NEXT:    ech.reduce sum
// CHECK:       %{{.*}} = rt.group(%[[X]], %[[S]]) {
// CHECK:         %[[C:.*]] = ech.map neg
// CHECK-NEXT:    ech.map sub %[[C]]
ech.step @made_again {
  %x = ech.read @x : !ech.tensor<[batch=4, hidden=8], f32>
  %c = ech.map neg %x : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %s = ech.reduce sum %c over ["hidden"] : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4], f32>
  %d = ech.map sub %c, %s : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[batch=4], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  ech.write @x, %d : !ech.tensor<[batch=4, hidden=8], f32>
}

// %t was computed for the second group alone: there it is made again, and in the first it is no more.
// CHECK-LABEL: ech.step @made_elsewhere
// CHECK:       %[[X:.*]] = ech.read @x
// CHECK:       rt.group(%[[X]]) {
// CHECK:         ech.map neg
// CHECK-NOT:     ech.map relu
// CHECK:         ech.map add
// CHECK:       %[[S:.*]] = ech.softmax
// CHECK:       rt.group({{.*}}) {
// CHECK:         ech.map relu
// CHECK:         ech.map mul
ech.step @made_elsewhere {
  %x = ech.read @x : !ech.tensor<[batch=4, hidden=8], f32>
  %n = ech.map neg %x : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %t = ech.map relu %n : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %a = ech.map add %n, %x : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %s = ech.softmax %a over ["hidden"] : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %p = ech.map mul %s, %t : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  ech.write @x, %p : !ech.tensor<[batch=4, hidden=8], f32>
}

// A step that is not finite ends at the report of the norm: the gradient, which is of the update, too, where it came
// packed, joins no loop that writes parameters.
// CHECK-LABEL: ech.step @norm
// CHECK:       %[[G:.*]] = rt.group({{.*}}) {{.*}}{
// CHECK-NEXT:  ^bb0
// CHECK-NEXT:    ech.constant
// CHECK-NEXT:    ech.map mul
// CHECK-NEXT:    rt.yield
// CHECK:       ech.report norm
// CHECK:       rt.group({{.*}}%[[G]]{{.*}}) {{.*}}{
// CHECK:         ech.map sub
ech.step @norm {
  %x = ech.read @x : !ech.tensor<[batch=4, hidden=8], f32>
  %u = ech.softmax %x over ["hidden"] : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %half = ech.constant 0.5 : <[], f32>
  %g = ech.map mul %u, %half {ech.phase = "update"} : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  %n = ech.global_norm %g {ech.parameters = ["x"], ech.phase = "update"} : (!ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[], f32>
  ech.report norm "norm", %n {ech.phase = "update"} : <[], f32>
  %y = ech.map sub %x, %g {ech.phase = "update"} : (!ech.tensor<[batch=4, hidden=8], f32>, !ech.tensor<[batch=4, hidden=8], f32>) -> !ech.tensor<[batch=4, hidden=8], f32>
  ech.write @x, %y {ech.phase = "update"} : !ech.tensor<[batch=4, hidden=8], f32>
}
