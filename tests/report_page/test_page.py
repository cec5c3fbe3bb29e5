"""The page of a training step in a browser: every view opens, lines are linked both ways, search finds; and it asks for nothing from outside."""

import re
from pathlib import Path

import pytest
import torch

import bascule
from tests.report_page.browser import CHROMIUM, evaluate


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.Linear(128, 16)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.first(x))
        h = self.norm(h)
        torch._dynamo.graph_break()
        return self.last(h).softmax(-1).sum()  # the line of the softmax


SOFTMAX = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "line of the softmax" in line)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("page") / "page.html"
    calls = [(torch.randn(16, 64),)]
    assert bascule.report(Model(), torch.randn(32, 64), path=path, calls=calls, options={"on_error": "raise"}) == path
    return path


def test_it_is_one_file(page):
    """No tag and no style names something elsewhere; the only address is the name space of SVG."""
    text = page.read_text()
    assert not re.search(r"<(?:link|img|iframe)\b|<script[^>]+src|@import|url\(", text)
    assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}


def test_a_title_is_text(tmp_path):
    from bascule.report_page.page import page_of

    text = page_of("<lambda> & @DATA@", [], {})
    assert "<title>&lt;lambda> &amp; @DATA@</title>" in text


browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (Debian's package chromium)")


@browser
def test_every_view_opens(page):
    views = evaluate(
        page,
        """
        const told = {};
        for (const tab of $$("#tabs button")) {
          click(tab);
          await rest(); await rest();
          told[tab.dataset.view] = $("#view").innerText;
        }
        return told;""",
        "graph=1",
    )
    assert set(views) == {"overview", "code", "kernels", "fusion", "memory", "time", "calls"}
    assert re.search(r"graph\d+_forward", views["overview"])
    assert "size mismatch at index 0. expected 32, actual 16" in views["overview"]
    assert '"bascule.compute"' in views["code"] and "def forward" in views["code"]
    assert "aten.mm.default" in views["kernels"] and re.search(r"\d us", views["kernels"])
    assert "not fused" in views["fusion"] and "form-kernels" in views["fusion"]
    assert re.search(r"The arena has [\d,]+ bytes", views["memory"])
    assert "torch-to-bascule" in views["time"] and "form-kernels" in views["time"]
    assert "a matrix product, which the BLAS library does" in views["calls"] and "graph_break()" in views["calls"]


@browser
def test_the_overview_fits_its_width(page):
    """The arena of dynamic sizes is a long formula."""
    told = evaluate(
        page,
        """
        $(".formula").textContent = "(s0 * s1) * 3264 + ".repeat(20);
        await rest();
        return [$("#view table").scrollWidth, $("#view").clientWidth];""",
        "view=overview",
    )
    assert told[0] <= told[1]


@browser
def test_lines_are_linked_both_ways(page):
    """A click on the user's line marks lines of both other documents; a click on one of these marks the user's line."""
    there, back = evaluate(
        page,
        f"""
        const panes = $$(".pane"), marked = pane => $$(".row.on", pane).map(row => row.textContent);
        await until("drawn", () => panes.every(pane => $$(".row", pane).length));
        code.panes[0].scrollTo({SOFTMAX - 1});
        click($('.row[data-line="{SOFTMAX}"]', panes[0]));
        await rest();
        const there = panes.map(marked);
        code.choose([], null);
        await rest();
        if (panes.some(pane => marked(pane).length)) throw new Error("still marked");
        const exp = code.panes[2].lines.findIndex(line => line.includes("math.exp"));
        code.panes[2].scrollTo(exp);
        click($(`.row[data-line="${{exp + 1}}"]`, panes[2]));
        await rest();
        return [there, panes.map(marked)];""",
        "view=code&graph=2",
    )
    assert ["line of the softmax" in line for line in there[0]] == [True]
    assert any("math.exp" in line for line in there[1]) and any("math.exp" in line for line in there[2])
    assert ["line of the softmax" in line for line in back[0]] == [True]
    assert any("math.exp" in line for line in back[1])


@browser
def test_links_lead_from_kernels_to_the_code(page):
    told = evaluate(
        page,
        """
        click($$("#view a.src")[0]);
        await until("code", () => $$(".pane").length === 3 && $$(".row.on").length);
        return {hash: location.hash, marked: $$(".row.on", $(".pane")).map(row => row.textContent)};""",
        "view=kernels&graph=2",
    )
    assert "view=code" in told["hash"] and ["self.last(h)" in line for line in told["marked"]] == [True]


@browser
def test_a_step_tells_its_neighbours(page):
    told = evaluate(
        page,
        """
        const row = $$("#view tbody tr").find(line => line.innerText.includes("sum_mul"));
        click(row);
        await rest();
        return {text: $("aside").innerText, arcs: $$("path.arc.in, path.arc.out").length};""",
        "view=kernels&graph=1",
    )
    assert "not fused with" in told["text"] and "more memory traffic" in told["text"]
    assert "Schedule" in told["text"] and "made by" in told["text"] and told["arcs"] >= 1


@browser
def test_search_finds_and_counts(page):
    told = evaluate(
        page,
        """
        const type = text => { $("#search").value = text; $("#search").dispatchEvent(new Event("input")); };
        await until("drawn", () => $$(".pane").every(pane => $$(".row", pane).length));
        type("math.exp"); await rest();
        const code_ = [$("#found").textContent, $$(".row.hit").map(row => row.textContent)];
        click($$("#tabs button").find(tab => tab.dataset.view === "kernels"));
        type("aten.addmm"); await rest();
        return {code: code_, steps: $("#found").textContent, rows: $$("#view tbody tr").length};""",
        "view=code&graph=2",
    )
    assert int(told["code"][0].split()[0]) >= 2 and all("math.exp" in line for line in told["code"][1])
    assert told["steps"].startswith("1 of ") and told["rows"] == 1


@browser
def test_buffers_are_rectangles(page):
    told = evaluate(
        page,
        """
        const rects = $$("rect.buffer");
        click(rects[0]);
        await rest();
        return {count: rects.length, text: $("aside").innerText, outside: $("#outside").innerText};""",
        "view=memory&graph=1",
    )
    assert told["count"] == 2 and "at offset" in told["text"] and "writes" in told["text"]
    assert "returned" in told["outside"] and "aten.mm.default" in told["outside"]
