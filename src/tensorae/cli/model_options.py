"""Options that say what model to fit, and the model that they make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.options import number_or_auto, parsed_shape

if TYPE_CHECKING:
    from tensorae import TAE, LinearTAE

__all__ = ["ModelOptions"]

# LinearTAE, or TAE with one of its architectures.
ModelName = StrEnum(
    "ModelName",
    {"linear_tae": "linear-tae", "linear": "linear", "mlp": "mlp", "conv": "conv", "vae": "vae"},
)
Assignment = StrEnum("Assignment", ["auto", "lloyd", "projected", "constrained", "em"])
Spread = StrEnum("Spread", ["auto", "shared", "own"])
Sharing = StrEnum("Sharing", ["none", "layers"])
Init = StrEnum("Init", ["linear", "manifold"])

# What networks take where nothing is said: they leave nothing to the data.
NETWORK_LATENT, NETWORK_PENALTY, NETWORK_ASSIGNMENT = 2, 0.1, "lloyd"
# Numbers of clusters that can be compared; each costs a few fits.
MOST_NUMBERS = 100
MOST_DIGITS = 18


@dataclass(frozen=True)
class ModelOptions:
    """Parameters of the model."""

    clusters: Annotated[
        str,
        typer.Option("--clusters", "-k", help="How many: 3, a range 2-8, several 2,4,6, or auto."),
    ] = "auto"
    latent: Annotated[
        str | None,
        typer.Option(
            "--latent",
            "-l",
            help="Length of a code, or auto.",
            show_default=f"auto; {NETWORK_LATENT} for networks",
        ),
    ] = None
    spread: Annotated[
        Spread, typer.Option("--spread", help="One spread for all clusters, or each its own.")
    ] = Spread.auto
    model: Annotated[
        ModelName,
        typer.Option("--model", help="linear-tae is exact and fast; the others are networks."),
    ] = ModelName.linear_tae
    penalty: Annotated[
        str | None,
        typer.Option(
            "--penalty",
            help="Weight of the code in the cost, or auto.",
            show_default=f"auto; {NETWORK_PENALTY} for networks",
        ),
    ] = None
    assignment: Annotated[
        Assignment, typer.Option("--assignment", help="How samples find their cluster.")
    ] = Assignment.auto
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed, the same fit.")] = 0
    sharing: Annotated[
        Sharing | None,
        typer.Option("--sharing", help="Layers of networks that all clusters have in common."),
    ] = None
    init: Annotated[
        Init | None,
        typer.Option(
            "--init",
            help="Where a network starts: manifold is for images and curved groups.",
            show_default="linear",
        ),
    ] = None
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Most epochs of a network.")
    ] = None
    noise: Annotated[
        float | None,
        typer.Option("--noise", min=0, help="Train a network to take out this much noise."),
    ] = None
    shape: Annotated[
        str | None, typer.Option("--shape", help="Of an image, such as 28x28 or 3x32x32 (conv).")
    ] = None
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda or auto.")] = None

    def __post_init__(self) -> None:
        _parsed_numbers(self.clusters)
        _parsed_latent(self.latent)
        number_or_auto(self.penalty or "auto", "--penalty")
        if self.is_network:
            self._refuse_what_networks_lack()
        else:
            self._refuse_what_goes_with_networks()
        if self.model is not ModelName.conv:
            _refuse("--shape", self.shape, "goes with --model conv only.")
        parsed_shape(self.shape)

    @property
    def is_network(self) -> bool:
        """Whether the model is a TAE, which is trained."""
        return self.model is not ModelName.linear_tae

    @property
    def n_clusters(self) -> int | str | tuple[int, ...]:
        """Number of clusters, numbers to compare, or "auto"."""
        return _parsed_numbers(self.clusters)

    def _refuse_what_networks_lack(self) -> None:
        """Refuse to leave to the data what a network has to be told."""
        if not isinstance(self.n_clusters, int):
            raise typer.BadParameter(
                f"a network needs the number of clusters, such as -k 3, got {self.clusters!r}.",
                param_hint="--clusters",
            )
        if self.latent is not None and _parsed_latent(self.latent) in ("auto", 0):
            raise typer.BadParameter(
                f"a network needs the length of a code, such as --latent {NETWORK_LATENT}, got "
                f"{self.latent!r}.",
                param_hint="--latent",
            )
        if self.spread is not Spread.auto:
            raise typer.BadParameter("goes with --model linear-tae only.", param_hint="--spread")

    def _refuse_what_goes_with_networks(self) -> None:
        """Refuse options of networks, and options of a linear model that contradict each other."""
        given = {
            "--epochs": self.epochs,
            "--noise": self.noise,
            "--sharing": self.sharing,
            "--init": self.init,
        }
        for name, value in given.items():
            _refuse(name, value, "goes with --model linear, mlp, conv or vae only.")
        penalised = self.penalty not in (None, "auto")
        if penalised and self.spread is Spread.own:
            raise typer.BadParameter(
                f"own spreads have no penalty, got --penalty {self.penalty}; leave one of the two "
                "out.",
                param_hint="--spread",
            )
        if penalised and _parsed_latent(self.latent) == 0:
            raise typer.BadParameter(
                f"an empty code has no penalty, got --penalty {self.penalty}; leave one of the two "
                "out.",
                param_hint="--latent",
            )

    def build(self, image_shape: tuple[int, ...] | None) -> LinearTAE | TAE:
        """The model, not yet fitted, for images of that shape or for rows."""
        import tensorae

        common: dict[str, Any] = {
            "n_clusters": self.n_clusters,
            "random_state": self.seed,
            "device": self.device,
        }
        if not self.is_network:
            return tensorae.LinearTAE(
                **common,
                latent_dim=_parsed_latent(self.latent),
                latent_penalty=number_or_auto(self.penalty or "auto", "--penalty"),
                spread=self.spread.value,
                assignment=self.assignment.value,
            )
        rule = self.assignment.value
        shape = parsed_shape(self.shape) or image_shape
        if shape is not None and len(shape) == 2:
            shape = (1, *shape)
        return tensorae.TAE(
            **common,
            latent_dim=NETWORK_LATENT if self.latent is None else int(self.latent),
            latent_penalty=number_or_auto(self.penalty or str(NETWORK_PENALTY), "--penalty"),
            assignment=NETWORK_ASSIGNMENT if rule == "auto" else rule,
            architecture=self.model.value,
            sharing=(self.sharing or Sharing.none).value,
            init="linear" if self.init is None else self.init.value,
            max_epochs=self.epochs,
            noise=self.noise or 0.0,
            input_shape=shape if self.model is ModelName.conv else None,
        )


def _refuse(option: str, value: object, sentence: str) -> None:
    """Refuse an option that was given."""
    if value is not None:
        raise typer.BadParameter(sentence, param_hint=option)


def _parsed_numbers(text: str) -> int | str | tuple[int, ...]:
    """Read numbers of clusters: 3, 2-8, 2,4,6 or auto."""
    if text == "auto":
        return text
    numbers = [k for part in text.split(",") for k in _parsed_range(part.strip(), text)]
    if len(numbers) > MOST_NUMBERS:
        raise typer.BadParameter(
            f"at most {MOST_NUMBERS} numbers can be compared, got {text!r}; give fewer.",
            param_hint="--clusters",
        )
    return numbers[0] if len(numbers) == 1 else tuple(sorted(set(numbers)))


def _parsed_range(part: str, text: str) -> range:
    """Read one number, or two with what lies between them; ``text`` is what messages show."""
    first, dash, last = part.partition("-")
    ends = (first, last) if dash else (first, first)
    if not all(_is_whole(end) and int(end) > 0 for end in ends):
        raise typer.BadParameter(
            "must be a whole number of at least 1, a range such as 2-8, several such as 2,4,6, or "
            f"auto, got {text!r}.",
            param_hint="--clusters",
        )
    low, high = map(int, ends)
    if low > high:
        raise typer.BadParameter(
            f"a range must rise, got {text!r}; did you mean {high}-{low}?", param_hint="--clusters"
        )
    # Not all of a range that is too long has to be made to see that.
    return range(low, min(high, low + MOST_NUMBERS) + 1)


def _parsed_latent(text: str | None) -> int | str:
    """Read the length of a code; "auto" where none is given."""
    if text is None or text == "auto":
        return "auto"
    if not _is_whole(text):
        raise typer.BadParameter(
            f"must be a whole number of at least 0, or auto, got {text!r}.", param_hint="--latent"
        )
    return int(text)


def _is_whole(text: str) -> bool:
    """Whether it is a whole number, and not one of more digits than any data has rows."""
    return text.isdecimal() and len(text) <= MOST_DIGITS
