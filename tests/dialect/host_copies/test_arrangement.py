"""Copies to the host and back run beside what computes, in no more memory than if each were waited for at once."""

from bascule.dialect.host_copies.arrangement import Copy, arranged, at_once

# Steps 0 to 3 compute, 4 and 5 begin a copy to the host of what step 0 makes and wait for it, 6 and 7 one of what step 1 makes.
LEAVING = [Copy(4, 5, 10, 1.5, True, 0, 2), Copy(6, 7, 10, 1.5, True, 1, 3)]
# 4 and 5 are a copy back that step 2 reads first, by way of the view 8; 6 and 7 one that step 3 does.
COMING = [Copy(4, 5, 10, 1.5, False, -1, 2, (8,)), Copy(6, 7, 10, 1.5, False, -1, 3)]
TIMES = [1.0] * 4 + [0.0] * 5


def test_at_once_a_copy_leaves_after_its_source_and_comes_before_its_reader():
    assert at_once(8, LEAVING) == [0, 4, 5, 1, 6, 7, 2, 3]
    assert at_once(9, COMING) == [0, 1, 4, 5, 8, 2, 6, 7, 3]


def test_a_copy_to_the_host_is_waited_for_when_it_should_be_done():
    told = arranged(TIMES[:8], [100] * 4 + [120] * 4, LEAVING[:1], 100)
    assert told.order[:2] == [0, 4] and told.order.index(5) > told.order.index(1)
    roomy = arranged(TIMES[:8], [10] * 8, LEAVING, 100)
    # Both are on one link: the second is done three steps after the first began.
    assert roomy.order == [0, 4, 1, 6, 2, 5, 3, 7]
    assert roomy.seconds == 3.0 and roomy.exposed == 0.0


def test_a_copy_to_the_host_is_waited_for_where_memory_is_needed():
    full = arranged(TIMES[:8], [10, 10, 100, 100, 0, 0, 0, 0], LEAVING, 100)
    # What step 0 made has no reader but the copy from step 2 on, which needs all memory.
    assert full.order == [0, 4, 1, 6, 5, 2, 7, 3]
    assert full.exposed == 0.5 + 0.5


def test_copies_back_begin_as_early_as_memory_allows():
    roomy = arranged(TIMES, [0, 0, 0, 20, 0, 0, 0, 0, 0], COMING, 20)
    assert roomy.order == [4, 6, 0, 1, 5, 8, 2, 7, 3]
    assert roomy.exposed == 0.0
    full = arranged(TIMES, [20, 20, 20, 20, 0, 0, 0, 0, 0], COMING, 20)
    assert full.order == [0, 1, 4, 5, 8, 2, 6, 7, 3]
    assert full.exposed == 3.0
    between = arranged(TIMES, [10, 10, 20, 20, 0, 0, 0, 0, 0], COMING, 20)
    assert between.order == [4, 0, 1, 5, 8, 2, 6, 7, 3]
    assert between.exposed == 1.5


def test_what_nothing_reads_is_waited_for_at_the_end():
    last = Copy(4, 5, 10, 1.5, False, -1, 6)
    assert arranged(TIMES[:6], [0] * 6, [last], 0).order == [0, 1, 2, 3, 4, 5]
