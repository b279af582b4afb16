// RUN: echelon-opt --ech-simplify %s | FileCheck %s

ech.variable state @a : !ech.tensor<[i=3], f32> = constant(0.0, 0.0)
ech.variable state @b : !ech.tensor<[i=3, j=2], f32> = constant(0.0, 0.0)
ech.variable state @c : !ech.tensor<[i=3], f32> = constant(0.0, 0.0)
ech.step @train {
  // CHECK: %[[A:.*]] = ech.read @a
  // CHECK: %[[B:.*]] = ech.read @b
  %a = ech.read @a : <[i=3], f32>
  %b = ech.read @b : <[i=3, j=2], f32>
  %zero = ech.constant 0.0 : <[], f32>
  %one = ech.constant 1.0 : <[], f32>
  // x * 1 + 0 is x; an element-wise operation broadcasts by itself.
  // CHECK: %[[SUM:.*]] = ech.map add %[[B]], %[[A]]
  // CHECK-NOT: ech.expand
  // CHECK: ech.write @b, %[[SUM]]
  %x = ech.map mul %a, %one : (!ech.tensor<[i=3], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[i=3], f32>
  %y = ech.map add %x, %zero : (!ech.tensor<[i=3], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[i=3], f32>
  %z = ech.expand %y : <[i=3], f32> -> <[i=3, j=2], f32>
  %s = ech.map add %b, %z : (!ech.tensor<[i=3, j=2], f32>, !ech.tensor<[i=3, j=2], f32>) -> !ech.tensor<[i=3, j=2], f32>
  ech.write @b, %s : <[i=3, j=2], f32>
  // A loop loses what it carries unchanged, what nobody reads, and what it keeps twice.
  // CHECK: %[[KEPT:.*]] = ech.repeat "j" = 2 slice(%[[B]] : !ech.tensor<[i=3, j=2], f32>) -> () stack (!ech.tensor<[j=2, i=3], f32>)
  // CHECK-NEXT: ^bb0(%[[SLICE:.*]]: !ech.tensor<[i=3], f32>):
  // CHECK-NEXT: %[[PRODUCT:.*]] = ech.map mul %[[SLICE]], %[[A]]
  // CHECK-NEXT: ech.yield stack(%[[PRODUCT]]
  // CHECK: ech.map mul %[[KEPT]], %[[KEPT]]
  %f, %k1, %k2, %t = ech.repeat "j" = 2 carry(%a : !ech.tensor<[i=3], f32>) slice(%b, %b : !ech.tensor<[i=3, j=2], f32>, !ech.tensor<[i=3, j=2], f32>) -> (!ech.tensor<[i=3], f32>) stack (!ech.tensor<[j=2, i=3], f32>, !ech.tensor<[j=2, i=3], f32>) sum (!ech.tensor<[i=3], f32>) {
  ^bb0(%c: !ech.tensor<[i=3], f32>, %b1: !ech.tensor<[i=3], f32>, %b2: !ech.tensor<[i=3], f32>):
    %p = ech.map mul %b1, %c : (!ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>) -> !ech.tensor<[i=3], f32>
    %q = ech.map mul %b2, %c : (!ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>) -> !ech.tensor<[i=3], f32>
    ech.yield carry(%c : !ech.tensor<[i=3], f32>) stack(%p, %q : !ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>) sum(%q : !ech.tensor<[i=3], f32>)
  }
  %m = ech.map mul %k1, %k2 : (!ech.tensor<[j=2, i=3], f32>, !ech.tensor<[j=2, i=3], f32>) -> !ech.tensor<[j=2, i=3], f32>
  %r = ech.reduce sum %m over ["j"] : (!ech.tensor<[j=2, i=3], f32>) -> !ech.tensor<[i=3], f32>
  ech.write @c, %r : <[i=3], f32>
}
