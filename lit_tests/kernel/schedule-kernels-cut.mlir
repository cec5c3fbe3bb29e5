// Sums that are cut, where their ends are those of a batch: tensor cores, and a walk from one end to the other.
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s

// CHECK-LABEL: func.func private @of_groups(
// CHECK: kind = "contraction"
// CHECK-SAME: descriptors = array<i64: 0, 1>, dot = true
// CHECK-SAME: skip = true
func.func private @of_groups(%x: tensor<512x256xbf16>, %y: tensor<512x512xbf16>, %b: tensor<8xi32>, %o: tensor<8xi32>) -> tensor<8x256x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<8x256x512xf32>
  "bascule.kernel"() ({
  ^bb0(%g: index, %m: index, %n: index):
    %zero = arith.constant 0.0 : bf16
    %begin = tensor.extract %b[%g] : tensor<8xi32>
    %first = arith.index_cast %begin : i32 to index
    %after = tensor.extract %o[%g] : tensor<8xi32>
    %end = arith.index_cast %after : i32 to index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %from = arith.cmpi sge, %k, %first : index
      %to = arith.cmpi slt, %k, %end : index
      %inside = arith.andi %from, %to : i1
      %a = tensor.extract %x[%k, %m] : tensor<512x256xbf16>
      %d = tensor.extract %y[%k, %n] : tensor<512x512xbf16>
      %p = arith.select %inside, %a, %zero : bf16
      %q = arith.select %inside, %d, %zero : bf16
      %c = arith.extf %p : bf16 to f32
      %e = arith.extf %q : bf16 to f32
      %r = arith.mulf %c, %e : f32
      "bascule.yield"(%r) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.store"(%sum, %out, %g, %m, %n) : (f32, tensor<8x256x512xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 256, 512)>} : () -> ()
  return %out : tensor<8x256x512xf32>
}

// Ends of each row are not those of a tile; and of one factor alone they say nothing of what the other has there.
// CHECK-LABEL: func.func private @of_each_row(
// CHECK-NOT: dot = true
// CHECK-LABEL: func.func private @of_one_factor(
// CHECK-NOT: dot = true
func.func private @of_each_row(%x: tensor<512x256xbf16>, %y: tensor<512x512xbf16>, %o: tensor<256xi32>) -> tensor<256x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<256x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %zero = arith.constant 0.0 : bf16
    %first = arith.constant 7 : index
    %after = tensor.extract %o[%m] : tensor<256xi32>
    %end = arith.index_cast %after : i32 to index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %from = arith.cmpi sge, %k, %first : index
      %to = arith.cmpi slt, %k, %end : index
      %inside = arith.andi %from, %to : i1
      %a = tensor.extract %x[%k, %m] : tensor<512x256xbf16>
      %d = tensor.extract %y[%k, %n] : tensor<512x512xbf16>
      %p = arith.select %inside, %a, %zero : bf16
      %q = arith.select %inside, %d, %zero : bf16
      %c = arith.extf %p : bf16 to f32
      %e = arith.extf %q : bf16 to f32
      %r = arith.mulf %c, %e : f32
      "bascule.yield"(%r) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<256x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (256, 512)>} : () -> ()
  return %out : tensor<256x512xf32>
}

func.func private @of_one_factor(%x: tensor<512x256xbf16>, %y: tensor<512x512xbf16>, %o: tensor<1xi32>) -> tensor<256x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<256x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %zero = arith.constant 0.0 : bf16
    %one = arith.constant 0 : index
    %first = arith.constant 7 : index
    %after = tensor.extract %o[%one] : tensor<1xi32>
    %end = arith.index_cast %after : i32 to index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %from = arith.cmpi sge, %k, %first : index
      %to = arith.cmpi slt, %k, %end : index
      %inside = arith.andi %from, %to : i1
      %a = tensor.extract %x[%k, %m] : tensor<512x256xbf16>
      %d = tensor.extract %y[%k, %n] : tensor<512x512xbf16>
      %p = arith.select %inside, %a, %zero : bf16
      %c = arith.extf %p : bf16 to f32
      %e = arith.extf %d : bf16 to f32
      %r = arith.mulf %c, %e : f32
      "bascule.yield"(%r) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<256x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (256, 512)>} : () -> ()
  return %out : tensor<256x512xf32>
}
