"""Tensor maps among a kernel's parameters, against a fake driver: what is encoded, when, and what a launch is given."""

import pytest
from bascule.runtime.kernels import cuda_driver

MAP = {
    "parameter": 1,
    "offset": 32,
    "element": 9,
    "swizzle": 3,
    "sizes": [3072, 768, 5],
    "strides": [6144, 4718592],
    "box": [64, 128, 1],
}
SIZES = (8, 8, 4, 128)
PARAMETERS = [("slot", 0, 0, "ptr"), ("slot", 1, 16, "ptr"), ("slot", 2, 0, "i32")]


def told(address, sizes="3072 768 5", strides="6144 4718592"):
    return (
        f"map {address:x} element 9 sizes {sizes} strides {strides} box 64 128 1 steps 1 1 1 "
        "interleave 0 swizzle 3 promotion 2 fill 0"
    )


def encoded(driver):
    return [line for line in driver.lines() if line.startswith("map ")]


def launched(driver):
    return [line.partition(" : ")[2] for line in driver.lines() if not line.startswith("map ")]


def test_a_map_is_a_parameter_after_those_of_the_launch(driver):
    plan = cuda_driver.Plan([(driver.function("k", SIZES, maps=[MAP]), 4, PARAMETERS)])
    plan(0, 0x7000, 0x8000, 5)
    assert encoded(driver) == [told(0x8030)]
    assert launched(driver) == ["7000 8010 5 8030 0 0"]


def test_it_is_encoded_where_its_address_is_another(driver):
    other = MAP | {"parameter": 0, "offset": 0}
    plan = cuda_driver.Plan([(driver.function("k", (*SIZES, 128), maps=[MAP, other]), ("slot", 3), PARAMETERS)])
    for first, second, programs in [(1, 2, 0), (1, 2, 4), (1, 2, 4), (1, 3, 4), (1, 2, 4)]:
        plan(0, first << 12, second << 12, 5, programs)
    assert encoded(driver) == [told(address) for address in (0x2030, 0x1000, 0x3030, 0x2030)]
    assert launched(driver) == [f"1000 {n}010 5 {n}030 1000 0 0" for n in (2, 2, 3, 2)]


# Sizes 3072, p2 and 2 p2 + 1; strides of 6144 and 6144 p2 bytes.
CHANGING = MAP | {"sizes": [3072, [[1, 2]], [[2, 2], [1]]], "strides": [6144, [[6144, 2]]]}


def test_it_is_encoded_where_its_sizes_are_others(driver):
    plan = cuda_driver.Plan([(driver.function("k", SIZES, maps=[CHANGING]), 4, PARAMETERS)])
    for rows in (5, 5, 7, 5, 0, 5):
        plan(0, 0x7000, 0x8000, rows)
    found = [told(0x8030, f"3072 {n} {2 * n + 1}", f"6144 {6144 * n}") for n in (5, 7, 5, 5)]
    assert encoded(driver) == found  # a tensor without elements is not for the driver
    assert [line.split()[3] for line in launched(driver)[:4]] == ["8030"] * 4 and len(launched(driver)) == 6


def test_graphs_have_the_sizes_of_the_call(driver):
    functions = [driver.function(f"k{i}", SIZES, maps=[CHANGING]) for i in range(5)]
    plan = cuda_driver.Plan([(function, 4, PARAMETERS) for function in functions])
    for call in range(6):
        plan(0, 0x7000, 0x8000, 5 + call // 5)
    assert driver.graph_launches() == 4 and driver.parameters_set() == 5


@pytest.mark.parametrize("sizes", [[3072, [[1, 0]], 5], [3072, [[1, 3]], 5]], ids=["a pointer", "none"])
def test_sizes_that_are_no_numbers_of_the_launch(driver, sizes):
    with pytest.raises(cuda_driver.DriverError, match=r"a tensor map with a size of parameter [03], which"):
        cuda_driver.Plan([(driver.function("k", SIZES, maps=[MAP | {"sizes": sizes}]), 4, PARAMETERS)])


def test_graphs_have_the_maps_of_the_call(driver):
    functions = [driver.function(f"k{i}", SIZES, maps=[MAP]) for i in range(5)]
    plan = cuda_driver.Plan([(function, 4, PARAMETERS) for function in functions])
    for call in range(6):
        plan(0, 0x7000, 0x8000 + 0x1000 * (call // 4), 5)
    assert driver.graph_launches() == 4 and driver.parameters_set() == 5
    assert launched(driver) == ["7000 8010 5 8030 0 0"] * 20 + ["7000 9010 5 9030 0 0"] * 10


def test_the_driver_refuses_a_map(driver):
    plan = cuda_driver.Plan([(driver.function("k", SIZES, maps=[MAP]), 4, PARAMETERS)])
    driver.fail("cuTensorMapEncodeTiled", 1, 1)
    plan(0, 0x7000, 0x8000, 5)
    for _ in range(2):
        with pytest.raises(
            cuda_driver.DriverError, match=r"kernel k \(model.py:12\) has no tensor map for address 0x9030: .*VALUE"
        ):
            plan(0, 0x7000, 0x9000, 5)
    assert len(launched(driver)) == 1


@pytest.mark.parametrize(
    ("changes", "sizes", "message"),
    [
        ({"box": [64]}, SIZES, "a tensor map of 3 sizes, 2 strides and a box of 1 dims"),
        ({"sizes": [], "box": [], "strides": []}, SIZES, "a tensor map of 0 sizes"),
        ({"parameter": 2}, SIZES, "a tensor map of parameter 2, which is no pointer"),
        ({"parameter": 3}, SIZES, "a tensor map of parameter 3, which is no pointer"),
        ({}, (8, 8, 4), "takes parameters of 8 8 4 8 8 bytes and is given 8 8 4 128,"),
    ],
)
def test_maps_that_do_not_fit(driver, changes, sizes, message):
    with pytest.raises(cuda_driver.DriverError, match=message):
        cuda_driver.Plan([(driver.function("k", sizes, maps=[MAP | changes]), 4, PARAMETERS)])


def test_images_keep_their_maps(driver):
    from bascule.runtime.kernels.cubin_images import blobs_of, images_of

    image = cuda_driver.CubinImage(driver.image(k=SIZES), "k", 4, 0, "model.py:12", maps=[MAP])
    (kept,) = images_of(blobs_of({"k": image})).values()
    assert kept == image
    cuda_driver.Plan([(cuda_driver.load_kernels({"k": kept}, 0)["k"], 4, PARAMETERS)])(0, 0x7000, 0x8000, 5)
    assert encoded(driver) == [told(0x8030)]


def test_a_driver_that_encodes_none(driver, tmp_path, fake_compiler):
    path = fake_compiler(tmp_path / "libcuda.so.1", "-DcuTensorMapEncodeTiled=cuSomethingElse")
    cuda_driver.open_driver(str(path))
    driver.function("k", SIZES[:3])
    message = r"kernel k \(model.py:12\) takes tensor maps, and the driver has no cuTensorMapEncodeTiled"
    with pytest.raises(cuda_driver.DriverError, match=message):
        driver.function("k", SIZES, maps=[MAP])
