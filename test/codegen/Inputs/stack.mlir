// A stack of LAYERS layers: x = relu(x + w), kept for the way back, and a sum over it. LAYERS is replaced by the test.
module attributes {ech.batch = 4 : i64, ech.batch_axis = "batch"} {
  run.train "test" of "M" in "" folder "." batch 4 steps 3 seed 0
  run.data <kind = "npy", paths = ["x.npy", "y.npy"]> to ["x", "y"]
  run.optimize "sgd" all on ["*"] with {} rate <kind = constant, peak = 1.0e-1>
  ech.variable param @layer.w : !ech.tensor<[layer=LAYERS, embed=8], f32> = constant(0.5, 0.0) stacked 1
  ech.input @x 0 : !ech.tensor<[batch=4, embed=8], f32> below 0
  ech.step @train {
    %x = ech.read @x : !ech.tensor<[batch=4, embed=8], f32>
    %w = ech.read @layer.w : !ech.tensor<[layer=LAYERS, embed=8], f32>
    %y, %kept = ech.repeat "layer" = LAYERS carry(%x : !ech.tensor<[batch=4, embed=8], f32>) slice(%w : !ech.tensor<[layer=LAYERS, embed=8], f32>) -> (!ech.tensor<[batch=4, embed=8], f32>) stack (!ech.tensor<[layer=LAYERS, batch=4, embed=8], f32>) {
    ^bb0(%c: !ech.tensor<[batch=4, embed=8], f32>, %p: !ech.tensor<[embed=8], f32>):
      %a = ech.map add %c, %p : (!ech.tensor<[batch=4, embed=8], f32>, !ech.tensor<[embed=8], f32>) -> !ech.tensor<[batch=4, embed=8], f32>
      %n = ech.map relu %a : (!ech.tensor<[batch=4, embed=8], f32>) -> !ech.tensor<[batch=4, embed=8], f32>
      ech.yield carry(%n : !ech.tensor<[batch=4, embed=8], f32>) stack(%a : !ech.tensor<[batch=4, embed=8], f32>)
    }
    %loss = ech.reduce sum %y over ["batch", "embed"] : (!ech.tensor<[batch=4, embed=8], f32>) -> !ech.tensor<[], f32>
    ech.report loss "loss", %loss : !ech.tensor<[], f32>
    %one = ech.constant 1.0 {ech.phase = "backward"} : !ech.tensor<[batch=4, embed=8], f32>
    %dx, %dw = ech.repeat "layer" = LAYERS reverse carry(%one : !ech.tensor<[batch=4, embed=8], f32>) slice(%kept : !ech.tensor<[layer=LAYERS, batch=4, embed=8], f32>) -> (!ech.tensor<[batch=4, embed=8], f32>) stack (!ech.tensor<[layer=LAYERS, embed=8], f32>) {
    ^bb0(%c: !ech.tensor<[batch=4, embed=8], f32>, %k: !ech.tensor<[batch=4, embed=8], f32>):
      %zero = ech.constant 0.0 {ech.phase = "backward"} : !ech.tensor<[], f32>
      %pos = ech.map gt %k, %zero {ech.phase = "backward"} : (!ech.tensor<[batch=4, embed=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=4, embed=8], i1>
      %d = ech.map select %pos, %c, %zero {ech.phase = "backward"} : (!ech.tensor<[batch=4, embed=8], i1>, !ech.tensor<[batch=4, embed=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=4, embed=8], f32>
      %s = ech.reduce sum %d over ["batch"] {ech.phase = "backward"} : (!ech.tensor<[batch=4, embed=8], f32>) -> !ech.tensor<[embed=8], f32>
      ech.yield carry(%d : !ech.tensor<[batch=4, embed=8], f32>) stack(%s : !ech.tensor<[embed=8], f32>)
    } {ech.phase = "backward"}
    %lr = ech.scalar "learning_rate" {ech.phase = "update"} : !ech.tensor<[], f32>
    %u = ech.map mul %lr, %dw {ech.phase = "update"} : (!ech.tensor<[], f32>, !ech.tensor<[layer=LAYERS, embed=8], f32>) -> !ech.tensor<[layer=LAYERS, embed=8], f32>
    %n = ech.map sub %w, %u {ech.phase = "update"} : (!ech.tensor<[layer=LAYERS, embed=8], f32>, !ech.tensor<[layer=LAYERS, embed=8], f32>) -> !ech.tensor<[layer=LAYERS, embed=8], f32>
    ech.write @layer.w, %n {ech.phase = "update"} : !ech.tensor<[layer=LAYERS, embed=8], f32>
  }
}
