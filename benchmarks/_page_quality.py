"""Sections on quality: clusters, missing values, outliers, denoising, photographs, networks."""

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
    "## Untuned data sets",
    "Does the default find the classes, compared with the two most common methods?",
    "any_data",
)
def any_data(_page: Page, found: Result) -> str:
    rows = tables_of(found.text)[1]
    worse = [row["set"] for row in rows if number(row["less the better peer"]) < -BEHIND]
    words = (
        f"More than {BEHIND} below the better of the two on {len(worse)} of {len(rows)} data sets "
        f"(rings, mazes and zigzags): {listed(worse)}."
    )
    parts = [part for part in paragraphs(found.text) if not part.startswith("More than ")]
    return "\n\n".join([parts[0], parts[1], words, *parts[2:]])


@told(
    "## Compared with other methods",
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
    "## Compared with the published code",
    "The settings of the paper, k and h given: is exact alternation better than the "
    "implementation that its authors published?",
    "clustering_quality",
)
def published(_page: Page, found: Result) -> str:
    return for_readers("\n\n".join(paragraphs(found.text)[:2]))


@told(
    "## Sensitivity to the seed",
    "Does another seed give another result?",
    "search",
)
def seeds(_page: Page, found: Result) -> str:
    row = row_of(tables_of(found.text)[0], "search", "after")
    return (
        f"In {number(found.text):.0f} cases (data sets, numbers of clusters, latent dimensions, "
        f"penalties; ten seeds each), {number(row.get('seeds')):.0%} of the seeds end within "
        "0.1 % of the lowest known loss. In "
        f"{number(row.get('cases with all seeds')):.0%} of the cases, all ten do."
    )


# Tables -------------------------------------------------------------------------------------------


@told(
    "## Missing values",
    "Observed values are hidden and imputed: how large is the error, compared with other imputers?",
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
    "## Outliers",
    "Known anomalies should get the highest scores. Compared with ten other detectors.",
    "outliers",
)
def odd(_page: Page, found: Result) -> str:
    heading = "Fitted on 70 %, scored on 30 %"
    worse = behind_in_outliers(found)
    words = (
        f"More than {BEHIND} below the best other detector (a different one each time) on "
        f"{len(worse)} data sets: {listed(worse)}."
    )
    return "\n\n".join([words, for_readers(only(found.text, heading))])


def behind_in_outliers(found: Result) -> list[str]:
    """Return data sets on which the best other detector's AUC is well above ours."""
    part = section(found.text, "Fitted on 70 %, scored on 30 %")
    rows = tables_of(part)[1] if part else []
    return [
        row["set"] for row in rows if number(row["best peer"]) - number(row["OutlierTAE"]) > BEHIND
    ]


@told(
    "## Denoising",
    "Noise is added and removed: how large is the error, compared with doing nothing?",
    "denoising",
)
def noise(_page: Page, found: Result) -> str:
    return for_readers(only(found.text, *NOISE_PARTS))


NOISE_PARTS = ("Fitted on noisy data, σ = 0.1", "Fitted on noisy data, σ = 0.3")


# Photographs --------------------------------------------------------------------------------------

OTHER_NOISE = ("Poisson", "JPEG")


@told(
    "## Denoising",
    "Gaussian noise is added to clean pictures: mean PSNR in dB, higher is better. 3 dB more halve "
    "the squared error.",
    "photos",
)
def photos(_page: Page, found: Result) -> str:
    first, *others = tables_of(found.text)
    white = [row for row in first if not any(word in row["noise"] for word in OTHER_NOISE)]
    gains = [number(row["over BM3D"]) for row in white if row["method"] == "tensorae"]
    words = (
        f"On average, tensorae is {span(gains)} dB better than BM3D. Time for one picture of "
        f"512 x 512: {times_of(others[1])}."
    )
    rest = [for_readers(part) for part in paragraphs(found.text) if part.startswith("|")][1:3]
    return "\n\n".join([words, pivot(white), *rest])


@told(
    "## Pictures of cameras, and other kinds of noise",
    "Pairs of a picture as taken and the mean of many shots; and Poisson, correlated and white "
    "noise on clean pictures. Blind: the method gets the noisy picture alone.",
    "photos_real",
)
def cameras(_page: Page, found: Result) -> str:
    return for_readers("\n\n".join(paragraphs(found.text)[:3]))


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


@told(
    "## Inpainting and enlarging",
    "Half of the pixels are missing, text covers the picture, or only one pixel in four is left.",
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
        "bicubic interpolation if pixels were left out, more if the blur of the camera is known. "
        "Both take seconds; interpolation takes milliseconds."
    )
    return "\n\n".join([words, paragraphs(found.text)[0]])


# Networks -----------------------------------------------------------------------------------------


@told(
    "## Images and curved groups",
    "What do a linear model on scattering features and networks find, compared with other methods?",
    "images",
)
def image_sets(_page: Page, found: Result) -> str:
    return for_readers(found.text)


@told(
    "## Denoising with networks",
    "Trained on clean samples, applied to noisy ones: which error is lowest?",
    "deep_denoising",
)
def deep_noise(_page: Page, found: Result) -> str:
    return for_readers(found.text)


@told(
    "## Cost of k autoencoders",
    "How much longer does training take than that of one plain autoencoder?",
    "deep_price",
)
def price(_page: Page, found: Result) -> str:
    text = for_readers(found.text)
    if section(found.text, "Beside ClustPy") is None:
        text += "\n\n### Beside ClustPy\n\n" + missing("deep_price", " --parts clustpy")
        text += " It needs ClustPy."
    return text


@told(
    "## Shared layers and variational autoencoders",
    "When do shared outer layers help?",
    "deep_sharing",
)
def sharing(_page: Page, found: Result) -> str:
    return for_readers(found.text)


@told(
    "## Empty clusters",
    "Networks compete for samples. Does one of them get all?",
    "deep_collapse",
)
def collapse(_page: Page, found: Result) -> str:
    return for_readers("\n\n".join(paragraphs(found.text)[:2]))
