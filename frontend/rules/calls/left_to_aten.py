"""Operators that go to ATen on purpose: a tuned library does them, or a region of scalars does not express them.

An operator in no table of `rules/` goes there too, but for want of a rule: `fallback="error"` refuses that, and not these.
"""

from ...conversion.fallback import fall_back
from ...conversion.registry import Rule, rule

# reason -> operators
LIBRARY = {
    "a matrix product, which the BLAS library does": (
        "aten.mm.default",
        "aten.mm.dtype",
        "aten.bmm.default",
        "aten.bmm.dtype",
        "aten.addmm.default",
        "aten.addmm.dtype",
        "aten.baddbmm.default",
        "aten.baddbmm.dtype",
        "aten.addbmm.default",
        "aten._addmm_activation.default",
        "aten._int_mm.default",
        "aten._scaled_mm.default",
        "aten._scaled_grouped_mm.default",
        "aten._grouped_mm.default",
        "bascule.grouped_mm.default",
        "aten._weight_int8pack_mm.default",
        "aten._weight_int4pack_mm.default",
        "aten._weight_int4pack_mm_for_cpu.default",
    ),
    "a convolution, which the DNN library does": (
        "aten.convolution.default",
        "aten.convolution_backward.default",
        "aten._convolution.default",
        "aten.convolution_overrideable.default",
        "aten.mkldnn_rnn_layer.default",
        "aten.mkldnn_rnn_layer_backward.default",
    ),
    "an attention kernel of ATen": (
        "aten._scaled_dot_product_flash_attention.default",
        "aten._scaled_dot_product_flash_attention_backward.default",
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
        "aten._scaled_dot_product_efficient_attention.default",
        "aten._scaled_dot_product_efficient_attention_backward.default",
        "aten._scaled_dot_product_cudnn_attention.default",
        "aten._scaled_dot_product_cudnn_attention_backward.default",
        "aten._scaled_dot_product_fused_attention_overrideable.default",
        "aten._scaled_dot_product_fused_attention_overrideable_backward.default",
        "aten._flash_attention_forward.default",
        "aten._flash_attention_backward.default",
        "aten._efficient_attention_forward.default",
        "aten._efficient_attention_backward.default",
    ),
    "a recurrent network, which the DNN library does": (
        "aten._cudnn_rnn.default",
        "aten._cudnn_rnn_backward.default",
        "aten._thnn_fused_lstm_cell.default",
        "aten._thnn_fused_lstm_cell_backward_impl.default",
        "aten._thnn_fused_gru_cell.default",
        "aten._thnn_fused_gru_cell_backward.default",
    ),
    "it orders elements": (
        "aten.sort.default",
        "aten.sort.stable",
        "aten.msort.default",
        "aten.argsort.default",
        "aten.argsort.stable",
        "aten.topk.default",
        "aten.kthvalue.default",
        "aten.median.default",
        "aten.median.dim",
        "aten.nanmedian.default",
        "aten.nanmedian.dim",
        "aten.mode.default",
        "aten.histogram.bin_ct",
        "aten.histogram.bins_tensor",
        "aten._histogramdd_bin_edges.default",
        "aten._histogramdd_from_bin_cts.default",
        "aten._histogramdd_from_bin_tensors.default",
        "aten.multinomial.default",
    ),
    "its sizes depend on data": (
        "aten.nonzero.default",
        "aten.masked_select.default",
        "aten.bincount.default",
        "aten._unique.default",
        "aten._unique2.default",
        "aten.unique_dim.default",
        "aten.unique_consecutive.default",
        "aten.unique_dim_consecutive.default",
        "aten.repeat_interleave.Tensor",
    ),
    "linear algebra, which LAPACK does": (
        "aten._linalg_det.default",
        "aten._linalg_eigh.default",
        "aten._linalg_eigvals.default",
        "aten._linalg_slogdet.default",
        "aten._linalg_solve_ex.default",
        "aten._linalg_svd.default",
        "aten.cholesky.default",
        "aten.cholesky_inverse.default",
        "aten.cholesky_solve.default",
        "aten._cholesky_solve_helper.default",
        "aten.geqrf.default",
        "aten.linalg_cholesky_ex.default",
        "aten.linalg_eig.default",
        "aten.linalg_eigvals.default",
        "aten.linalg_householder_product.default",
        "aten.linalg_inv_ex.default",
        "aten.linalg_ldl_factor_ex.default",
        "aten.linalg_ldl_solve.default",
        "aten.linalg_lstsq.default",
        "aten.linalg_lu.default",
        "aten.linalg_lu_factor_ex.default",
        "aten.linalg_lu_solve.default",
        "aten.linalg_matrix_exp.default",
        "aten.linalg_matrix_sqrth.default",
        "aten.linalg_pinv.atol_rtol_tensor",
        "aten.linalg_polar.default",
        "aten.linalg_qr.default",
        "aten.linalg_solve_triangular.default",
        "aten.lu_unpack.default",
        "aten.ormqr.default",
        "aten.triangular_solve.default",
        "aten._cdist_forward.default",
        "aten._cdist_backward.default",
        "aten._pdist_forward.default",
        "aten._pdist_backward.default",
    ),
    "a Fourier transform, which the FFT library does": (
        "aten._fft_c2c.default",
        "aten._fft_c2r.default",
        "aten._fft_r2c.default",
    ),
    "elements are complex": (
        "aten.complex.default",
        "aten.polar.default",
        "aten.view_as_complex.default",
        "aten.view_as_real.default",
        "aten.real.default",
        "aten.imag.default",
        "aten._conj.default",
        "aten._conj_physical.default",
        "aten.conj_physical.default",
    ),
    "a bag is as long as its data says": (
        "aten._embedding_bag.default",
        "aten._embedding_bag_forward_only.default",
    ),
    "a memory budget keeps what it copies on the host": (
        "bascule_host.to_host.default",
        "bascule_host.to_device.default",
        "bascule_host.wait_tensor.default",
    ),
    "a loss with a dynamic program over time": (
        "aten._ctc_loss.default",
        "aten._ctc_loss.Tensor",
        "aten._ctc_loss_backward.default",
        "aten._ctc_loss_backward.Tensor",
    ),
}


def _library(reason: str) -> Rule:
    def to_aten(c, *arguments):
        return fall_back(c, arguments, reason)

    return to_aten


for _reason, _operators in LIBRARY.items():
    rule(*_operators)(_library(_reason))
