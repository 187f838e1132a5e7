"""The shared threads: order, nesting, and a fork."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading

import pytest

from tests.patience import PATIENCE
from toposcope.core import threads
from toposcope.core.threads import row_blocks, run_blocks


def test_results_come_in_the_order_of_the_blocks():
    assert run_blocks(lambda k: k * k, range(50)) == [k * k for k in range(50)]
    assert run_blocks(lambda k: k, []) == []


def test_blocks_cover_all_rows_once():
    for n in (1, 2, 7, 1000):
        blocks = row_blocks(n)
        assert [row for first, last in blocks for row in range(first, last)] == list(range(n))
    assert row_blocks(9, serial=True) == [(0, 9)]


def test_threads_inside_threads_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    done: list[list[int]] = []

    def nested() -> None:
        done.append(run_blocks(lambda k: sum(run_blocks(lambda j: j * k, range(4))), range(8)))

    worker = threading.Thread(target=nested, daemon=True)
    worker.start()
    worker.join(timeout=PATIENCE)
    assert done == [[6 * k for k in range(8)]]


def test_an_error_in_a_block_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        run_blocks(lambda k: 1 // k, [1, 0, 1])


def _in_child(queue) -> None:
    queue.put(run_blocks(lambda k: k + 1, range(8)))


@pytest.mark.skipif(sys.platform != "linux", reason="fork is only the default's alternative on Linux")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_its_own_threads():
    run_blocks(lambda k: k, range(8))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=PATIENCE) == list(range(1, 9))
    child.join(timeout=PATIENCE)


def test_torch_uses_as_many_threads_whatever_ran_before() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with threads.steady_threads():
            assert torch.get_num_threads() == threads.thread_count()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_process_can_be_held_to_one_thread():
    program = """if True:
        import numba, pyarrow
        from threadpoolctl import threadpool_info
        from toposcope.core.threads import one_thread, thread_count
        one_thread()
        pools = {pool["num_threads"] for pool in threadpool_info()}
        print(thread_count(), pyarrow.cpu_count(), pyarrow.io_thread_count(), pools or {1})
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "1", "{1}"]
