// RUN: echelon-opt --ech-split-time --ech-simplify --split-input-file %s | FileCheck %s

// A masked mean in each layer, under two micro batches. The counts of all layers come first, from a loop of their own
// over the samples' masks alone; the layers take their slices.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 2} {
ech.variable param @w : !ech.tensor<[layer=3], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
ech.input @mark 1 : !ech.tensor<[batch=8], i32> below 4
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: %[[COUNTS:.*]] = ech.repeat "micro" = 2 time slice(%[[MARKS:.*]] :
  // CHECK: %[[STACK:.*]] = ech.repeat "layer" = 3 -> () stack (!ech.tensor<[layer=3], f32>) {
  // CHECK: %[[COUNT:.*]] = ech.reduce sum
  // CHECK: ech.yield stack(%[[COUNT]]
  // CHECK: %[[WIDE:.*]] = ech.map cast %[[STACK]]
  // CHECK: ech.yield sum(%[[WIDE]]
  // CHECK: %[[TOTALS:.*]] = ech.map cast %[[COUNTS]]
  // CHECK: ech.repeat "micro" = 2 time
  // CHECK: ech.repeat "layer" = 3 carry(%{{.*}}) slice(%{{.*}}, %[[TOTALS]] :
  // CHECK-NEXT: ^bb0(%{{.*}}, %{{.*}}, %[[ALL:.*]]: !ech.tensor<[], f32>):
  // CHECK-NOT: ech.map cast
  // CHECK: ech.map div %{{.*}}, %[[ALL]]
  %x = ech.read @x : <[batch=8], f32>
  %mark = ech.read @mark : <[batch=8], i32>
  %w = ech.read @w : <[layer=3], f32>
  %final, %loss = ech.repeat "layer" = 3 carry(%x : !ech.tensor<[batch=8], f32>) slice(%w : !ech.tensor<[layer=3], f32>) -> (!ech.tensor<[batch=8], f32>) sum (!ech.tensor<[], f32>) {
  ^bb0(%xi: !ech.tensor<[batch=8], f32>, %wi: !ech.tensor<[], f32>):
    %next = ech.map mul %xi, %wi : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
    %i = ech.position "layer" : <[], i32>
    %kept = ech.map gt %mark, %i : (!ech.tensor<[batch=8], i32>, !ech.tensor<[], i32>) -> !ech.tensor<[batch=8], i1>
    %one = ech.map cast %kept : (!ech.tensor<[batch=8], i1>) -> !ech.tensor<[batch=8], f32>
    %n = ech.reduce sum %one over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    %zero = ech.constant 0.0 : <[], f32>
    %y = ech.map select %kept, %next, %zero : (!ech.tensor<[batch=8], i1>, !ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
    %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    %m = ech.map div %s, %n : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
    ech.yield carry(%next : !ech.tensor<[batch=8], f32>) sum(%m : !ech.tensor<[], f32>)
  }
  ech.report loss "loss", %loss : <[], f32>
}

// Under evaluation the counts are known at the end, like the sums: both are stacked up, the quotients of all layers
// follow in a loop after.
// CHECK-LABEL: ech.step @evaluate
ech.step @evaluate {
  // CHECK: %[[TOTAL:.*]]:2 = ech.repeat "batches" = 0 time
  // CHECK: %{{.*}}, %[[STACKS:.*]]:2 = ech.repeat "layer" = 3
  // CHECK-NOT: ech.map div
  // CHECK: %[[A:.*]] = ech.map cast %[[STACKS]]#0
  // CHECK: %[[B:.*]] = ech.map cast %[[STACKS]]#1
  // CHECK: ech.yield sum(%[[A]], %[[B]]
  // CHECK: %[[C:.*]] = ech.map cast %[[TOTAL]]#0
  // CHECK: %[[D:.*]] = ech.map cast %[[TOTAL]]#1
  // CHECK: %[[MEANS:.*]] = ech.repeat "layer" = 3 slice(%[[C]], %[[D]] :
  // CHECK: ech.map div
  // CHECK: ech.report loss "loss", %[[MEANS]]
  %x = ech.read @x : <[batch=8], f32>
  %w = ech.read @w : <[layer=3], f32>
  %final, %loss = ech.repeat "layer" = 3 carry(%x : !ech.tensor<[batch=8], f32>) slice(%w : !ech.tensor<[layer=3], f32>) -> (!ech.tensor<[batch=8], f32>) sum (!ech.tensor<[], f32>) {
  ^bb0(%xi: !ech.tensor<[batch=8], f32>, %wi: !ech.tensor<[], f32>):
    %next = ech.map mul %xi, %wi : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
    %kept = ech.map gt %next, %wi : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], i1>
    %one = ech.map cast %kept : (!ech.tensor<[batch=8], i1>) -> !ech.tensor<[batch=8], f32>
    %n = ech.reduce sum %one over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    %zero = ech.constant 0.0 : <[], f32>
    %y = ech.map select %kept, %next, %zero : (!ech.tensor<[batch=8], i1>, !ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
    %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    %m = ech.map div %s, %n : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
    ech.yield carry(%next : !ech.tensor<[batch=8], f32>) sum(%m : !ech.tensor<[], f32>)
  }
  ech.report loss "loss", %loss : <[], f32>
}
}

// -----

// A count that goes through an inner loop beside the samples' values, which both loops carry: the loops before carry the
// count alone.
module attributes {ech.batch_axis = "batch", ech.batch = 8, ech.micro = 2} {
ech.variable param @w : !ech.tensor<[layer=3], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[batch=8], f32> below 0
// CHECK-LABEL: ech.step @train
ech.step @train {
  // CHECK: ech.repeat "micro" = 2 time
  // CHECK: ech.repeat "layer" = 3 -> () stack
  // CHECK-NOT: carry({{.*}}batch
  // CHECK: ech.repeat "micro" = 2 time
  // CHECK: ech.repeat "layer" = 3 carry({{.*}}batch
  %x = ech.read @x : <[batch=8], f32>
  %w = ech.read @w : <[layer=3], f32>
  %final, %loss = ech.repeat "layer" = 3 carry(%x : !ech.tensor<[batch=8], f32>) slice(%w : !ech.tensor<[layer=3], f32>) -> (!ech.tensor<[batch=8], f32>) sum (!ech.tensor<[], f32>) {
  ^bb0(%xi: !ech.tensor<[batch=8], f32>, %wi: !ech.tensor<[], f32>):
    %start = ech.constant 1.0 : <[], f32>
    %n, %y = ech.repeat "part" = 2 carry(%start, %xi : !ech.tensor<[], f32>, !ech.tensor<[batch=8], f32>) -> (!ech.tensor<[], f32>, !ech.tensor<[batch=8], f32>) {
    ^bb0(%m: !ech.tensor<[], f32>, %z: !ech.tensor<[batch=8], f32>):
      %i = ech.position "part" : <[], i32>
      %f = ech.map cast %i : (!ech.tensor<[], i32>) -> !ech.tensor<[], f32>
      %kept = ech.map gt %x, %f : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], i1>
      %one = ech.map cast %kept : (!ech.tensor<[batch=8], i1>) -> !ech.tensor<[batch=8], f32>
      %c = ech.reduce sum %one over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
      %more = ech.map add %m, %c : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
      %next = ech.map mul %z, %wi : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
      ech.yield carry(%more, %next : !ech.tensor<[], f32>, !ech.tensor<[batch=8], f32>)
    }
    %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
    %l = ech.map div %s, %n : (!ech.tensor<[], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[], f32>
    ech.yield carry(%y : !ech.tensor<[batch=8], f32>) sum(%l : !ech.tensor<[], f32>)
  }
  ech.report loss "loss", %loss : <[], f32>
}
}
