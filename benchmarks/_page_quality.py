"""Sections on what is found: clusters, gaps, outliers, noise, photographs, and by networks."""

from __future__ import annotations

from _common import table
from _page_results import Result, section, tables_of
from _page_words import (
    Page,
    Rows,
    but,
    for_readers,
    listed,
    missing,
    number,
    only,
    paragraphs,
    row_of,
    span,
    told,
)

# How far below the best peer a score counts as a weakness.
BEHIND = 0.05
RIGHT_WORDS = "Number of clusters by `choose`"

# Clusters -----------------------------------------------------------------------------------------


@told(
    "## On data that nobody tuned for",
    "Does the default find the classes of any table, beside the two methods that everybody uses?",
    "any_data",
)
def any_data(_page: Page, found: Result) -> str:
    rows = tables_of(found.text)[1]
    worse = [row["set"] for row in rows if number(row["less the better peer"]) < -BEHIND]
    words = (
        f"Behind the better of the two by more than {BEHIND} on {len(worse)} of {len(rows)} sets, "
        f"rings, mazes and zigzags: {listed(worse)}."
    )
    parts = [part for part in paragraphs(found.text) if not part.startswith("More than ")]
    return "\n\n".join([parts[0], parts[1], words, *parts[2:]])


@told(
    "## Beside peers: quality and time",
    "Which method finds the classes best, and how long does each take?",
    "peers",
)
def peers(page: Page, found: Result) -> str:
    words = section(found.text, "In words") or ""
    text = but(
        found.text, "Normalised mutual information", "Time in units of LinearTAE", "In words"
    )
    for name in ("peers_overview", "peers"):
        if page.copied(name) is not None:
            stem, _, rest = name.partition("_")
            stored = f"{stem}{page.results.suffix}" + (f"_{rest}" if rest else "")
            text = text.replace(f"]({stored}.png)", f"]({name}.png)")
    return for_readers(f"{words}\n\n{text}")


@told(
    "## Beside the published code",
    "The settings of the paper, k and h given: how far does exact alternation go beyond the "
    "implementation that its authors published?",
    "clustering_quality",
)
def published(_page: Page, found: Result) -> str:
    return for_readers("\n\n".join(paragraphs(found.text)[:2]))


@told(
    "## Other seeds",
    "Does another seed find another answer?",
    "search",
)
def seeds(_page: Page, found: Result) -> str:
    row = row_of(tables_of(found.text)[0], "search", "after")
    return (
        f"In {number(found.text):.0f} cases (sets, numbers of clusters, code lengths, penalties; "
        f"ten seeds each) {number(row.get('seeds')):.0%} of the seeds end within 0.1 % of the "
        "lowest loss that is known, and in "
        f"{number(row.get('cases with all seeds')):.0%} of the cases all ten do."
    )


# Tables -------------------------------------------------------------------------------------------


@told(
    "## What is missing?",
    "Values are hidden and filled in again: how far from the truth, beside other imputers?",
    "missing",
)
def gaps(_page: Page, found: Result) -> str:
    parts = paragraphs(found.text)
    mean = row_of(tables_of(found.text)[0], "set", "mean")
    ours = number(mean.get("ImputerTAE"))
    others = {
        name: number(cell) for name, cell in mean.items() if name not in ("set", "ImputerTAE")
    }
    words = (
        "Mean error: ImputerTAE "
        + f"{ours:.3f}; "
        + ", ".join(f"{name} {value:.3f}" for name, value in others.items())
    )
    start = next(
        (i for i, part in enumerate(parts) if part.startswith("Clusters found")), len(parts)
    )
    return "\n\n".join([f"{words}.", *parts[:3], *parts[start : start + 2]])


@told(
    "## What is odd?",
    "Rows that are known to be anomalies are to get the highest scores, beside nine detectors.",
    "outliers",
)
def odd(_page: Page, found: Result) -> str:
    heading = "Fitted on 70 %, scored on 30 %"
    worse = behind_in_outliers(found)
    words = (
        f"Behind the best peer of a set (which is another one each time) by more than {BEHIND} on "
        f"{len(worse)} of them: {listed(worse)}."
    )
    return "\n\n".join([words, for_readers(only(found.text, heading))])


def behind_in_outliers(found: Result) -> list[str]:
    """Return sets on which the best peer's AUC is well above ours."""
    part = section(found.text, "Fitted on 70 %, scored on 30 %")
    rows = tables_of(part)[1] if part else []
    return [
        row["set"] for row in rows if number(row["best peer"]) - number(row["OutlierTAE"]) > BEHIND
    ]


@told(
    "## What is noise?",
    "Noise is added and taken out again: how far from the clean samples, beside doing nothing?",
    "denoising",
)
def noise(_page: Page, found: Result) -> str:
    return for_readers(only(found.text, *NOISE_PARTS))


NOISE_PARTS = ("Fitted on noisy data, σ = 0.1", "Fitted on noisy data, σ = 0.3")


# Photographs --------------------------------------------------------------------------------------

OTHER_NOISE = ("Poisson", "JPEG")


@told(
    "## Noise taken out",
    "Gaussian noise of a known size, in pictures that are known without it: mean PSNR in dB, the "
    "higher the better. 3 dB are half of the squared error.",
    "photos",
)
def photos(_page: Page, found: Result) -> str:
    first, *others = tables_of(found.text)
    white = [row for row in first if not any(word in row["noise"] for word in OTHER_NOISE)]
    gains = [number(row["over BM3D"]) for row in white if row["method"] == "tensorae"]
    words = (
        f"tensorae is {span(gains)} dB ahead of BM3D in the mean. One picture of 512 x 512 takes "
        f"{times_of(others[1])}."
    )
    rest = [for_readers(part) for part in paragraphs(found.text) if part.startswith("|")][1:3]
    return "\n\n".join(
        [words, pivot(white), *rest, "### Noise of another kind", OTHER_WORDS, other_noise(first)]
    )


OTHER_WORDS = """\
Few photons (Poisson) and compression are not what it is made for. BM3D and tensorae are told the
mean size of the noise; where tensorae estimates it under Poisson noise, most of the noise stays.
[What to do there](../guide/photographs.md)."""


def times_of(rows: Rows) -> str:
    """Say what each method takes, from the table of seconds."""
    return ", ".join(f"{row['method']} {row['seconds']} s" for row in rows)


def pivot(rows: Rows) -> str:
    """Return a table of PSNR: methods by noise and set of pictures."""
    cases = list(dict.fromkeys((row["noise"], row["set"]) for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["method"], row["noise"], row["set"]): row["PSNR"] for row in rows}
    columns = ["method", *(", ".join(part for part in case if part) for case in cases)]
    lines = [[name, *(cells.get((name, *case), "–") for case in cases)] for name in methods]
    return table(columns, lines)


def other_noise(rows: Rows) -> str:
    """Return the rows of noise that the method is not made for."""
    kept = [row for row in rows if any(word in row["noise"] for word in OTHER_NOISE)]
    columns = ["noise", "method", "PSNR", "over BM3D", "least"]
    return table(columns, [[row[column] for column in columns] for row in kept])


@told(
    "## Holes filled, pixels added",
    "Half of the pixels are lost, text lies over the picture, or only one pixel in four is left.",
    "photos_fill",
)
def holes(_page: Page, found: Result) -> str:
    rows = [row for row in tables_of(found.text)[0] if row["method"] == "tensorae"]
    gain = "gain over the best peer [range]"
    filled, plain = (
        [number(row[gain]) for row in rows if word in row["task"]] for word in ("inpaint", "plain")
    )
    words = (
        f"Holes: {span(filled)} dB over biharmonic interpolation. Enlarging: {span(plain)} dB over "
        "bicubic interpolation where pixels were left out, more where a camera's blur is known. "
        "Both take seconds where interpolation takes milliseconds."
    )
    return "\n\n".join([words, paragraphs(found.text)[0]])


# Networks -----------------------------------------------------------------------------------------


@told(
    "## Images and curved groups",
    "What does a start from neighbourhoods find, beside UMAP with a clustering of its map?",
    "deep_manifold",
)
def manifold(_page: Page, found: Result) -> str:
    return for_readers(found.text)


@told(
    "## Clusters by the default",
    "What do networks add to the linear model, from its own start?",
    "deep_clustering",
)
def deep_clusters(_page: Page, found: Result) -> str:
    return for_readers(but(found.text, "Seed by seed", "Every seed"))


@told(
    "## Noise taken out by networks",
    "Trained on clean samples, used on noisy ones: who comes closest?",
    "deep_denoising",
)
def deep_noise(_page: Page, found: Result) -> str:
    return for_readers(found.text)


@told(
    "## The price of k autoencoders",
    "How much longer than one plain autoencoder do k of them train?",
    "deep_price",
)
def price(_page: Page, found: Result) -> str:
    text = for_readers(found.text)
    if section(found.text, "Beside ClustPy") is None:
        text += "\n\n### Beside ClustPy\n\n" + missing("deep_price", " --parts clustpy")
        text += " It needs ClustPy."
    return text


@told(
    "## Shared layers, variational autoencoders",
    "When do shared outer layers pay?",
    "deep_sharing",
)
def sharing(_page: Page, found: Result) -> str:
    return for_readers(found.text)


@told(
    "## No cluster dies",
    "Networks compete for samples. Does one end with all of them?",
    "deep_collapse",
)
def collapse(_page: Page, found: Result) -> str:
    return for_readers("\n\n".join(paragraphs(found.text)[:2]))
