// RUN: echelon-opt %s --dist-split-norms --split-input-file | FileCheck %s

// Over channels: the statistics stay one operation, the rest is element-wise.
// CHECK-LABEL: ech.step @channels
// CHECK:       %{{.*}}, %[[RSTD:.*]], %[[MEAN:.*]], %{{.*}}, %[[LOW:.*]] = ech.normalize %[[X:.*]] over ["batch", "width"]
// CHECK-NEXT:  %[[C:.*]] = ech.map sub %[[X]], %[[MEAN]]
// CHECK-NEXT:  %[[S:.*]] = ech.map mul %[[C]], %[[RSTD]]
// CHECK-NEXT:  %[[L:.*]] = ech.map mul %[[LOW]], %[[RSTD]]
// CHECK-NEXT:  %[[N:.*]] = ech.map sub %[[S]], %[[L]]
// CHECK-NEXT:  ech.map mul %[[N]], %{{.*}}
ech.variable state @x : !ech.tensor<[batch=4, c=2, width=8], f32> = constant(0.0, 0.0)
ech.variable state @gain : !ech.tensor<[c=2], f32> = constant(0.0, 0.0)
ech.step @channels {
  %x = ech.read @x : !ech.tensor<[batch=4, c=2, width=8], f32>
  %g = ech.read @gain : !ech.tensor<[c=2], f32>
  %y, %rstd, %mean, %variance, %low = ech.normalize %x over ["batch", "width"] : (!ech.tensor<[batch=4, c=2, width=8], f32>) -> (!ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[c=2], f32>, !ech.tensor<[c=2], f32>, !ech.tensor<[c=2], f32>, !ech.tensor<[c=2], f32>)
  %s = ech.map mul %y, %g : (!ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[c=2], f32>) -> !ech.tensor<[batch=4, c=2, width=8], f32>
  ech.write @x, %s : !ech.tensor<[batch=4, c=2, width=8], f32>
}

// The backward phase makes what it reads of the result again.
// CHECK-LABEL: ech.step @phases
// CHECK:       ech.normalize
// CHECK-NEXT:  ech.map sub %{{.*}} : (
// CHECK-NEXT:  ech.map mul
// CHECK-NEXT:  ech.map mul
// CHECK-NEXT:  %[[HERE:.*]] = ech.map sub
// CHECK-NEXT:  ech.map relu %[[HERE]]
// CHECK-NEXT:  ech.map sub %{{.*}} {ech.phase = "backward"}
// CHECK-NEXT:  ech.map mul %{{.*}} {ech.phase = "backward"}
// CHECK-NEXT:  ech.map mul %{{.*}} {ech.phase = "backward"}
// CHECK-NEXT:  %[[THERE:.*]] = ech.map sub %{{.*}} {ech.phase = "backward"}
// CHECK-NEXT:  ech.map neg %[[THERE]]
ech.step @phases {
  %x = ech.read @x : !ech.tensor<[batch=4, c=2, width=8], f32>
  %y, %rstd, %mean, %variance, %low = ech.normalize %x over ["batch", "width"] : (!ech.tensor<[batch=4, c=2, width=8], f32>) -> (!ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[c=2], f32>, !ech.tensor<[c=2], f32>, !ech.tensor<[c=2], f32>, !ech.tensor<[c=2], f32>)
  %h = ech.map relu %y : (!ech.tensor<[batch=4, c=2, width=8], f32>) -> !ech.tensor<[batch=4, c=2, width=8], f32>
  %d = ech.map neg %y {ech.phase = "backward"} : (!ech.tensor<[batch=4, c=2, width=8], f32>) -> !ech.tensor<[batch=4, c=2, width=8], f32>
  ech.write @x, %d : !ech.tensor<[batch=4, c=2, width=8], f32>
}

// Rows are read by one kernel.
// CHECK-LABEL: ech.step @rows
// CHECK:       %[[Y:[^,]*]], %{{.*}} = ech.normalize
// CHECK-NEXT:  ech.write @x, %[[Y]]
ech.step @rows {
  %x = ech.read @x : !ech.tensor<[batch=4, c=2, width=8], f32>
  %y, %rstd, %mean, %variance, %low = ech.normalize %x over ["width"] : (!ech.tensor<[batch=4, c=2, width=8], f32>) -> (!ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[batch=4, c=2], f32>, !ech.tensor<[batch=4, c=2], f32>, !ech.tensor<[batch=4, c=2], f32>, !ech.tensor<[batch=4, c=2], f32>)
  ech.write @x, %y : !ech.tensor<[batch=4, c=2, width=8], f32>
}

// The derivative: a gain moves out of the sums, which are then those of the gain's and the bias's derivatives.
// CHECK-LABEL: ech.step @derivative
// CHECK:       %[[D:.*]] = ech.read @d
// CHECK:       %[[DBIAS:.*]] = ech.reduce sum %[[D]] over ["batch", "width"]
// CHECK-NEXT:  %[[DGAIN:.*]] = ech.dot %[[D]], %[[Y:.*]] over ["batch", "width"]
// CHECK-NEXT:  %[[DY:.*]] = ech.map mul %[[D]], %[[G:.*]] : (
// CHECK-NEXT:  %[[N:.*]] = ech.constant 3.2{{0*}}e+01
// CHECK-NEXT:  %[[M:.*]] = ech.map div %[[DBIAS]], %[[N]]
// CHECK-NEXT:  %[[MEAN:.*]] = ech.map mul %[[M]], %[[G]]
// CHECK-NEXT:  %[[C:.*]] = ech.map sub %[[DY]], %[[MEAN]]
// CHECK-NEXT:  %[[A:.*]] = ech.map div %[[DGAIN]], %[[N]]
// CHECK-NEXT:  %[[ALONG:.*]] = ech.map mul %[[A]], %[[G]]
// CHECK-NEXT:  %[[P:.*]] = ech.map mul %[[Y]], %[[ALONG]]
// CHECK-NEXT:  %[[E:.*]] = ech.map sub %[[C]], %[[P]]
// CHECK-NEXT:  %[[DX:.*]] = ech.map mul %[[E]], %{{.*}} : (
// CHECK-NEXT:  ech.write @x, %[[DX]]
ech.variable state @d : !ech.tensor<[batch=4, c=2, width=8], f32> = constant(0.0, 0.0)
ech.variable state @dgain : !ech.tensor<[c=2], f32> = constant(0.0, 0.0)
ech.step @derivative {
  %y = ech.read @x : !ech.tensor<[batch=4, c=2, width=8], f32>
  %g = ech.read @gain : !ech.tensor<[c=2], f32>
  %d = ech.read @d : !ech.tensor<[batch=4, c=2, width=8], f32>
  %db = ech.reduce sum %d over ["batch", "width"] : (!ech.tensor<[batch=4, c=2, width=8], f32>) -> !ech.tensor<[c=2], f32>
  %dg = ech.dot %d, %y over ["batch", "width"] : (!ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[batch=4, c=2, width=8], f32>) -> !ech.tensor<[c=2], f32>
  %dy = ech.map mul %d, %g : (!ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[c=2], f32>) -> !ech.tensor<[batch=4, c=2, width=8], f32>
  %dx = ech.normalize_grad %dy, %y, %g over ["batch", "width"] : (!ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[batch=4, c=2, width=8], f32>, !ech.tensor<[c=2], f32>) -> !ech.tensor<[batch=4, c=2, width=8], f32>
  ech.write @x, %dx : !ech.tensor<[batch=4, c=2, width=8], f32>
  ech.write @gain, %db : !ech.tensor<[c=2], f32>
  ech.write @dgain, %dg : !ech.tensor<[c=2], f32>
}
// -----

// Over ranks both sums travel in one message, and the mean is over the elements of all.
// CHECK-LABEL: ech.step @ranks
// CHECK:       %[[S:.*]] = ech.reduce sum %{{.*}} over ["batch", "width"] {{.*}} -> !ech.tensor<[c=2], f32, #dist.state<dp = sum>>
// CHECK-NEXT:  %[[P:.*]] = ech.dot {{.*}} -> !ech.tensor<[c=2], f32, #dist.state<dp = sum>>
// CHECK-NEXT:  %{{.*}}:2 = dist.all_reduce %[[S]], %[[P]] over ["dp"] why "split batch over dp: inside normalize_grad"
// CHECK-NEXT:  ech.constant 3.2{{0*}}e+01
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
  ech.variable state @y : !ech.tensor<[batch=4, c=2, width=8], f32, #dist.state<dp = split batch>> = constant(0.0, 0.0)
  ech.variable state @r : !ech.tensor<[c=2], f32, #dist.state<dp = whole>> = constant(0.0, 0.0)
  ech.step @ranks {
    %y = ech.read @y : !ech.tensor<[batch=4, c=2, width=8], f32, #dist.state<dp = split batch>>
    %r = ech.read @r : !ech.tensor<[c=2], f32, #dist.state<dp = whole>>
    %dx = ech.normalize_grad %y, %y, %r over ["batch", "width"] {dist.inside = ["dp"], ech.why = "split batch over dp: inside normalize_grad"} : (!ech.tensor<[batch=4, c=2, width=8], f32, #dist.state<dp = split batch>>, !ech.tensor<[batch=4, c=2, width=8], f32, #dist.state<dp = split batch>>, !ech.tensor<[c=2], f32, #dist.state<dp = whole>>) -> !ech.tensor<[batch=4, c=2, width=8], f32, #dist.state<dp = split batch>>
    ech.write @y, %dx : !ech.tensor<[batch=4, c=2, width=8], f32, #dist.state<dp = split batch>>
  }
}
